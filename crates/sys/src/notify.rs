//! Seccomp notifications: calls that a filter hands to another process, which looks, acts, and answers in the kernel's place.
//!
//! Used by the warden only. What it reads of a caller counts once [`Listener::is_waiting`] has said that the caller is still the one
//! who asked.

use crate::{Errno, checked, last_errno};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ffi::c_void;

/// Makes a call that is interrupted by a signal start again, or fail with EINTR, as the signal's handler wants it. For the kernel's own
/// use everywhere else; here we stand in its place.
pub const RESTART: Errno = Errno::from_raw_os_error(512);

const RECEIVE: libc::c_ulong = 0xc050_2100;
const SEND: libc::c_ulong = 0xc018_2101;
const IS_VALID: libc::c_ulong = 0x4008_2102;
const ADD_DESCRIPTOR: libc::c_ulong = 0x4018_2103;
const SET_FLAGS: libc::c_ulong = 0x4008_2104;
const SYNC_WAKE_UP: u64 = 1;
const ADD_AND_SEND: u32 = 2;

/// One call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    id: u64,
    /// The thread that called, as our PID namespace numbers it.
    pub thread: u32,
    pub number: u32,
    pub arguments: [u64; 6],
}

/// The side of a filter that is asked.
pub struct Listener(OwnedFd);

impl Listener {
    pub fn new(descriptor: OwnedFd) -> Self {
        Listener(descriptor)
    }

    fn ioctl(&self, request: libc::c_ulong, argument: *mut c_void) -> Result<libc::c_int, Errno> {
        // SAFETY: each caller below passes the struct that its request reads or writes, alive until the call returns.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), request as _, argument) };
        if result == -1 { Err(last_errno()) } else { Ok(result) }
    }

    /// Asks the kernel to hand the processor over with each message. Older kernels cannot; it only costs time.
    pub fn hand_over_at_once(&self) {
        let _ = self.ioctl(SET_FLAGS, SYNC_WAKE_UP as *mut c_void);
    }

    /// Waits for the next call.
    pub fn next(&self) -> Result<Call, Errno> {
        // SAFETY: the kernel wants the struct zeroed, and zeroes are valid for it.
        let mut notification: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        self.ioctl(RECEIVE, (&raw mut notification).cast())?;
        Ok(Call {
            id: notification.id,
            thread: notification.pid,
            number: notification.data.nr.cast_unsigned(),
            arguments: notification.data.args,
        })
    }

    /// Whether the caller still waits. If so, it did all the time, and nobody else had its number.
    pub fn is_waiting(&self, call: &Call) -> bool {
        let mut id = call.id;
        self.ioctl(IS_VALID, (&raw mut id).cast()).is_ok()
    }

    /// Answers as the kernel would. A caller that is gone needs no answer.
    pub fn answer(&self, call: &Call, result: Result<(), Errno>) {
        let error = result.err().map_or(0, |errno| -errno.raw_os_error());
        let mut response = libc::seccomp_notif_resp { id: call.id, val: 0, error, flags: 0 };
        let _ = self.ioctl(SEND, (&raw mut response).cast());
    }

    /// Answers with a descriptor, which becomes the caller's under a number of its own. Gives whether the caller has taken it.
    pub fn answer_descriptor(&self, call: &Call, descriptor: BorrowedFd<'_>, close_on_exec: bool) -> bool {
        let mut addition = libc::seccomp_notif_addfd {
            id: call.id,
            flags: ADD_AND_SEND,
            srcfd: descriptor.as_raw_fd().cast_unsigned(),
            newfd: 0,
            newfd_flags: if close_on_exec { libc::O_CLOEXEC.cast_unsigned() } else { 0 },
        };
        let added = self.ioctl(ADD_DESCRIPTOR, (&raw mut addition).cast());
        if let Err(errno) = added {
            // Its table is full, for example.
            self.answer(call, Err(errno));
        }
        added.is_ok()
    }
}

impl From<Listener> for OwnedFd {
    fn from(listener: Listener) -> Self {
        listener.0
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Reads memory of a thread; gives the number of bytes that could be read.
pub fn read_memory(thread: u32, address: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: buffer.len() };
    // SAFETY: the kernel writes at most `buffer.len()` bytes into `buffer`; the other address is the other process's and only looked up there.
    let read =
        unsafe { libc::process_vm_readv(thread.cast_signed(), &raw const local, 1, &raw const remote, 1, 0) };
    checked(read as libc::c_long).map(|read| usize::try_from(read).unwrap_or(0))
}

/// A copy of another process's descriptor. `process` is a descriptor that stands for it.
pub fn descriptor_of(process: BorrowedFd<'_>, number: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: numbers only; the result is a new descriptor of ours.
    unsafe {
        let copied = checked(libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0))?;
        Ok(OwnedFd::from_raw_fd(i32::try_from(copied).map_err(|_| Errno::BADF)?))
    }
}

/// A descriptor that stands for a thread, or for a whole process where the kernel knows nothing smaller (before 6.9).
pub fn open_thread(thread: u32, process: u32) -> Result<OwnedFd, Errno> {
    const THREAD: libc::c_int = libc::O_EXCL;
    // SAFETY: numbers only; the result is a new descriptor of ours.
    let open = |number: u32, flags: libc::c_int| unsafe {
        let opened = checked(libc::syscall(libc::SYS_pidfd_open, number, flags))?;
        Ok(OwnedFd::from_raw_fd(i32::try_from(opened).map_err(|_| Errno::BADF)?))
    };
    match open(thread, THREAD) {
        Err(Errno::INVAL) => open(process, 0),
        opened => opened,
    }
}
