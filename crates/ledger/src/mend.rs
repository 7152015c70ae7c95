//! What a killed writer or a lost machine leaves at the end of a file: bytes behind the last line of the chain.
//!
//! Nothing is taken away. The next line says how much stands there and its digest, in the same write that ends it; a mender who is
//! killed in the middle has only left more of the same.

use crate::chain::{self, Hasher, Head, LONGEST_END};
use keyward_policy::event::What;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const WINDOW: u64 = 64 << 10;

/// Reads exactly the bytes between these places.
pub fn read_range(file: &File, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(to.saturating_sub(from)).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, from)?;
    Ok(bytes)
}

/// The last line of a file.
pub struct Last {
    pub head: Head,
    /// Whether it has its newline. If not, that is all it lacks.
    pub is_ended: bool,
}

/// The last line, from the last bytes of a file; nothing where that is no line of the chain.
pub fn last(file: &File, length: u64) -> io::Result<Option<Last>> {
    let mut room = [0; LONGEST_END];
    let wanted = usize::try_from(length).unwrap_or(LONGEST_END).min(LONGEST_END);
    let Some(end) = room.get_mut(..wanted) else { return Ok(None) };
    file.read_exact_at(end, length - wanted as u64)?;
    let line = end.strip_suffix(b"\n");
    let sealed = chain::Sealed::read(line.unwrap_or(end));
    Ok(sealed.map(|sealed| Last { head: sealed.head, is_ended: line.is_some() }))
}

/// Where the last line of the chain ends, and its head; nothing where the file has no such line.
pub fn last_sealed(file: &File, length: u64) -> io::Result<Option<(u64, Head)>> {
    let mut end = length;
    loop {
        let start = end.saturating_sub(WINDOW);
        // The line that begins before the window has its end in this much more.
        let window = read_range(file, start, (end + LONGEST_END as u64).min(length))?;
        if let Some((at, head)) = chain::last_sealed(&window) {
            return Ok(Some((start + at as u64, head)));
        }
        if start == 0 {
            return Ok(None);
        }
        end = start;
    }
}

/// What is to be said about the bytes from here to the end of the file.
pub fn torn(file: &File, from: u64, length: u64) -> io::Result<What> {
    Ok(What::Torn { bytes: length - from, digest: digest(file, from, length)?.to_string() })
}

/// The digest of a part of a file.
pub fn digest(file: &File, from: u64, to: u64) -> io::Result<chain::Digest> {
    let mut hasher = Hasher::default();
    let mut at = from;
    while at < to {
        let next = (at + (1 << 20)).min(to);
        hasher.add(&read_range(file, at, next)?);
        at = next;
    }
    Ok(hasher.end())
}
