//! Becoming another program.

use crate::memory::Mapping;
use crate::{Errno, last_errno};
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::FdFlags;
use std::ffi::{CStr, CString, c_char};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// A null-terminated array of C strings, made before the fork, so that nothing is allocated after it.
pub struct Strings {
    owned: Vec<CString>,
    pointers: Vec<*const c_char>,
    mapped: Vec<Mapping>,
}

impl Strings {
    pub fn new(owned: Vec<CString>) -> Self {
        let mut pointers: Vec<_> = owned.iter().map(|string| string.as_ptr()).collect();
        pointers.push(std::ptr::null());
        Strings { owned, pointers, mapped: Vec::new() }
    }

    /// Adds a string that lies in a file in memory, without a copy of it.
    pub fn add(&mut self, mapping: Mapping) {
        self.pointers.pop();
        self.pointers.extend([mapping.as_ptr(), std::ptr::null()]);
        self.mapped.push(mapping);
    }

    /// The strings that lie in our own memory.
    pub fn all(&self) -> &[CString] {
        &self.owned
    }

    /// Overwrites and drops every string; the array is empty afterwards.
    pub fn wipe(&mut self) {
        self.pointers.clear();
        self.pointers.push(std::ptr::null());
        self.mapped.clear();
        for string in self.owned.drain(..) {
            let mut bytes = string.into_bytes();
            crate::environ::wipe_bytes(&mut bytes);
        }
    }
}

/// Replaces this process. Returns only if that failed.
pub fn execve(program: &CStr, argv: &Strings, envp: &Strings) -> Errno {
    // SAFETY: `Strings` keeps both arrays null-terminated and their strings alive; `program` is NUL-terminated.
    unsafe { libc::execve(program.as_ptr(), argv.pointers.as_ptr(), envp.pointers.as_ptr()) };
    last_errno()
}

/// Starts a program that keeps this one descriptor, and that the kernel kills when the calling thread ends.
pub fn spawn_tied(command: &mut Command, kept: BorrowedFd<'_>) -> std::io::Result<Child> {
    let (kept, parent) = (kept.as_raw_fd(), rustix::process::getpid());
    let tie = move || {
        crate::confine::die_with_parent()?;
        // A parent that died before the tie was made sends no signal.
        if rustix::process::getppid() != Some(parent) {
            return Err(Errno::CHILD.into());
        }
        // SAFETY: the caller borrows the descriptor until `spawn` returns, and this process is a copy made before that.
        let kept = unsafe { BorrowedFd::borrow_raw(kept) };
        Ok(rustix::io::fcntl_setfd(kept, FdFlags::empty())?)
    };
    // SAFETY: `tie` makes three system calls, allocates nothing and takes no lock.
    unsafe { command.pre_exec(tie) };
    command.spawn()
}

/// Lets the program that a command of the standard library starts have this descriptor, and no other program that is started meanwhile.
pub fn keep_in(command: &mut Command, descriptor: OwnedFd) {
    let keep = move || rustix::io::fcntl_setfd(&descriptor, FdFlags::empty()).map_err(std::io::Error::from);
    // SAFETY: between fork and exec the closure makes one system call on a descriptor that it owns, and allocates nothing.
    unsafe { command.pre_exec(keep) };
}
