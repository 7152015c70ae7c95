//! Calls that make a name, with the numbers of whoever asked for them passed on as they are: the kernel judges them, not a type.

use crate::{Errno, checked};
use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ffi::CStr;
use std::os::fd::RawFd;

fn number(folder: &impl AsFd) -> RawFd {
    folder.as_fd().as_raw_fd()
}

pub fn open_at(folder: impl AsFd, name: &CStr, flags: i32, mode: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: `name` is NUL-terminated and lives until the call returns.
    let opened = checked(unsafe {
        libc::syscall(libc::SYS_openat, number(&folder), name.as_ptr(), flags | libc::O_CLOEXEC, mode)
    })?;
    let opened = RawFd::try_from(opened).map_err(|_| Errno::BADF)?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(opened) })
}

pub fn make_folder_at(folder: impl AsFd, name: &CStr, mode: u32) -> Result<(), Errno> {
    // SAFETY: as in `open_at`.
    checked(unsafe { libc::syscall(libc::SYS_mkdirat, number(&folder), name.as_ptr(), mode) }).map(drop)
}

pub fn make_node_at(folder: impl AsFd, name: &CStr, mode: u32, device: u32) -> Result<(), Errno> {
    // SAFETY: as in `open_at`.
    checked(unsafe { libc::syscall(libc::SYS_mknodat, number(&folder), name.as_ptr(), mode, device) })
        .map(drop)
}

pub fn make_symlink_at(target: &CStr, folder: impl AsFd, name: &CStr) -> Result<(), Errno> {
    // SAFETY: as in `open_at`, for both texts.
    checked(unsafe { libc::syscall(libc::SYS_symlinkat, target.as_ptr(), number(&folder), name.as_ptr()) })
        .map(drop)
}

pub fn link_at(
    from: impl AsFd,
    from_name: &CStr,
    folder: impl AsFd,
    name: &CStr,
    flags: u32,
) -> Result<(), Errno> {
    let (from, to) = (number(&from), number(&folder));
    // SAFETY: as in `open_at`, for both texts.
    checked(unsafe { libc::syscall(libc::SYS_linkat, from, from_name.as_ptr(), to, name.as_ptr(), flags) })
        .map(drop)
}

pub fn rename_at(
    from: impl AsFd,
    from_name: &CStr,
    folder: impl AsFd,
    name: &CStr,
    flags: u32,
) -> Result<(), Errno> {
    let (from, to) = (number(&from), number(&folder));
    // SAFETY: as in `open_at`, for both texts.
    checked(unsafe { libc::syscall(libc::SYS_renameat2, from, from_name.as_ptr(), to, name.as_ptr(), flags) })
        .map(drop)
}

/// Gives a socket this address, whatever family it claims to be of.
pub fn bind(socket: impl AsFd, address: &[u8]) -> Result<(), Errno> {
    // SAFETY: the kernel reads `address.len()` bytes of a live buffer.
    checked(unsafe { libc::syscall(libc::SYS_bind, number(&socket), address.as_ptr(), address.len()) })
        .map(drop)
}
