//! Every syscall and every `unsafe` of the house, thin and dull: one call, checked, turned into a typed result.
//!
//! Nothing here decides anything. The callers are `launch` (both the launcher outside and init inside a cage) and `cli`.
//! rustix and landlock come first; what they do not offer is wrapped here by hand, each block with its condition.
#![cfg(target_os = "linux")]

pub mod attempt;
pub mod channel;
pub mod confine;
pub mod creation;
pub mod datagram;
pub mod environ;
pub mod exec;
pub mod file;
pub mod fork;
pub mod landlock;
pub mod memory;
pub mod mount;
pub mod network;
pub mod notify;
pub mod owner;
pub mod random;
pub mod read;
pub mod routes;
pub mod seccomp;
pub mod signal;
pub mod spaces;
pub mod terminal;
pub mod vector;
pub mod wiping;

pub use rustix::io::Errno;

/// Turns the result of a raw libc call into ours.
fn checked(result: libc::c_long) -> Result<libc::c_long, Errno> {
    if result == -1 { Err(last_errno()) } else { Ok(result) }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// A descriptor of ours for one that the caller named by number. The number stays open: it is the caller's.
pub fn own(number: i32) -> Result<rustix::fd::OwnedFd, Errno> {
    if number < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: borrowed for this call only; a number that is not open gives EBADF.
    let borrowed = unsafe { rustix::fd::BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_dupfd_cloexec(borrowed, 3)
}
