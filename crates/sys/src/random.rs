//! Bytes that nobody can guess.

use crate::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// Fills all of it, or fails.
pub fn fill(bytes: &mut [u8]) -> Result<(), Errno> {
    let mut at = 0;
    while let Some(rest) = bytes.get_mut(at..).filter(|rest| !rest.is_empty()) {
        match getrandom(rest, GetRandomFlags::empty()) {
            Ok(length) => at += length,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
