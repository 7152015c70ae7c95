//! Terminals: the cage's own PTY, the user's terminal in raw mode, who is in the foreground.

use crate::{Errno, checked};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;
use rustix::termios::{OptionalActions, Termios};
use std::ffi::CStr;

pub use rustix::termios::Winsize;

/// Opens a PTY from the devpts instance at `ptmx`, and gives both sides.
pub fn open_pty(ptmx: &CStr) -> Result<(OwnedFd, OwnedFd), Errno> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let main = rustix::fs::open(ptmx, flags, Mode::empty())?;
    let unlocked: libc::c_int = 0;
    // SAFETY: TIOCSPTLCK reads one int, which lives until the call returns.
    checked(unsafe { libc::ioctl(main.as_raw_fd(), libc::TIOCSPTLCK as _, &raw const unlocked) }.into())?;
    // SAFETY: TIOCGPTPEER takes open flags by value and returns a new descriptor.
    let peer = checked(
        unsafe {
            libc::ioctl(
                main.as_raw_fd(),
                libc::TIOCGPTPEER as _,
                libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC,
            )
        }
        .into(),
    )?;
    let number = i32::try_from(peer).map_err(|_| Errno::BADF)?;
    // SAFETY: the kernel has just made this descriptor for us.
    let peer = unsafe { <OwnedFd as rustix::fd::FromRawFd>::from_raw_fd(number) };
    Ok((main, peer))
}

/// Makes `terminal` the controlling terminal of the session we lead.
pub fn make_controlling(terminal: impl AsFd) -> Result<(), Errno> {
    rustix::process::ioctl_tiocsctty(terminal)
}

/// Puts a process group into the foreground of a terminal.
pub fn set_foreground(terminal: impl AsFd, group: Pid) -> Result<(), Errno> {
    rustix::termios::tcsetpgrp(terminal, group)
}

/// Whether our own process group is in the foreground of this terminal. One that controls nobody of our session has no background either.
pub fn are_we_in_foreground(terminal: impl AsFd) -> bool {
    match rustix::termios::tcgetpgrp(terminal) {
        Ok(group) => group == rustix::process::getpgrp(),
        Err(errno) => errno == crate::Errno::NOTTY,
    }
}

pub fn is_terminal(fd: impl AsFd) -> bool {
    rustix::termios::isatty(fd)
}

pub fn window_size(terminal: impl AsFd) -> Option<Winsize> {
    rustix::termios::tcgetwinsize(terminal).ok()
}

pub fn set_window_size(terminal: impl AsFd, size: Winsize) {
    let _ = rustix::termios::tcsetwinsize(terminal, size);
}

/// The settings of a terminal, to be put back.
pub struct Settings(Termios);

impl Settings {
    /// The key that stops a job, Ctrl-Z for most.
    pub fn suspend_key(&self) -> u8 {
        self.0.special_codes[rustix::termios::SpecialCodeIndex::VSUSP]
    }
}

pub fn settings(terminal: impl AsFd) -> Result<Settings, Errno> {
    rustix::termios::tcgetattr(terminal).map(Settings)
}

pub fn apply(terminal: impl AsFd, settings: &Settings) {
    // Drain, so that output that is already on its way is shown in the mode it was written for.
    let _ = rustix::termios::tcsetattr(terminal, OptionalActions::Drain, &settings.0);
}

/// The same settings, with every key passed on as it is.
pub fn raw(settings: &Settings) -> Settings {
    let mut copy = settings.0.clone();
    copy.make_raw();
    Settings(copy)
}

/// The path of the other side of a PTY.
pub fn name(main: impl AsFd) -> Option<std::path::PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let name = rustix::pty::ptsname(main, Vec::new()).ok()?;
    Some(std::ffi::OsStr::from_bytes(name.as_bytes()).into())
}
