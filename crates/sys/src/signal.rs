//! Signals as things to read, not as interruptions: both the launcher and init block them and read a descriptor.

use crate::{Errno, last_errno};
use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::process::{Pid, Signal};

/// Signals that are passed on to the command, as if it had been started without us.
pub const PASSED_ON: &[i32] = &[
    Signal::INT.as_raw(),
    Signal::TERM.as_raw(),
    Signal::HUP.as_raw(),
    Signal::QUIT.as_raw(),
    Signal::USR1.as_raw(),
    Signal::USR2.as_raw(),
    Signal::ALARM.as_raw(),
    Signal::TSTP.as_raw(),
    Signal::CONT.as_raw(),
    Signal::WINCH.as_raw(),
];

/// A set of signals.
#[derive(Clone, Copy)]
pub struct Set(libc::sigset_t);

impl Set {
    /// Every signal.
    pub fn all() -> Self {
        // SAFETY: sigfillset initialises the zeroed set.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut set);
            Set(set)
        }
    }

    pub fn of(signals: &[i32]) -> Self {
        // SAFETY: sigemptyset initialises the zeroed set before use; sigaddset only writes to it and rejects bad numbers.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for &signal in signals {
                libc::sigaddset(&raw mut set, signal);
            }
            Set(set)
        }
    }
}

fn change_mask(how: libc::c_int, set: &Set) -> Set {
    let mut before = Set::of(&[]);
    // SAFETY: both sets are initialised and live until the call returns; the process has one thread.
    unsafe { libc::sigprocmask(how, &raw const set.0, &raw mut before.0) };
    before
}

/// Blocks these signals; gives back the mask there was.
pub fn block(set: &Set) -> Set {
    change_mask(libc::SIG_BLOCK, set)
}

/// Sets the mask.
pub fn set_mask(set: &Set) {
    change_mask(libc::SIG_SETMASK, set);
}

/// Lets these signals through again.
pub fn unblock(set: &Set) {
    change_mask(libc::SIG_UNBLOCK, set);
}

/// What was received.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    pub signal: i32,
}

/// A descriptor that becomes readable when a blocked signal of the set arrives.
pub struct Inbox(OwnedFd);

impl Inbox {
    pub fn new(set: &Set) -> Result<Self, Errno> {
        // SAFETY: -1 asks for a new descriptor; the set is initialised and only read.
        let fd = unsafe { libc::signalfd(-1, &raw const set.0, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd == -1 {
            return Err(last_errno());
        }
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(Inbox(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next signal, without waiting.
    pub fn next(&self) -> Option<Received> {
        // SAFETY: an all-zero siginfo is valid, and read writes at most its size into it.
        let (got, info) = unsafe {
            let mut info: libc::signalfd_siginfo = std::mem::zeroed();
            let size = size_of::<libc::signalfd_siginfo>();
            (libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), size), info)
        };
        (got == size_of::<libc::signalfd_siginfo>() as isize)
            .then(|| Received { signal: info.ssi_signo.cast_signed() })
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn set_disposition(signal: i32, handler: libc::sighandler_t) {
    // SAFETY: SIG_DFL and SIG_IGN are valid handlers for every catchable signal; others are rejected by the call.
    unsafe { libc::signal(signal, handler) };
}

/// SIGPIPE as a fresh program expects it: the standard library ignores it for us, and the command must not inherit that.
pub fn restore_sigpipe() {
    set_disposition(libc::SIGPIPE, libc::SIG_DFL);
}

/// Children of this process leave nothing behind that would have to be waited for.
pub fn forget_children() {
    set_disposition(libc::SIGCHLD, libc::SIG_IGN);
}

/// From now on a call that waits is interrupted again and again, at this distance.
pub fn interrupt_waiting_every(distance: std::time::Duration) -> Result<(), Errno> {
    extern "C" fn wake(_: libc::c_int) {}
    let pause = libc::timeval {
        tv_sec: distance.as_secs() as libc::time_t,
        tv_usec: distance.subsec_micros() as libc::suseconds_t,
    };
    let timer = libc::itimerval { it_interval: pause, it_value: pause };
    // SAFETY: the handler does nothing, so that it may run at any time; without SA_RESTART the call is not taken up again. Both structs
    // live until the calls return.
    let set = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = wake as *const () as libc::sighandler_t;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut())
    };
    if set == -1 {
        return Err(last_errno());
    }
    unblock(&Set::of(&[libc::SIGALRM]));
    Ok(())
}

/// Sends a signal to a whole process group of ours.
pub fn signal_group(group: Pid, signal: i32) {
    // SAFETY: kill takes numbers only.
    unsafe { libc::kill(-group.as_raw_nonzero().get(), signal) };
}

/// Sends a signal to every process that we may signal, but ourselves. Only for a process whose signals a domain keeps inside.
pub fn signal_everybody(signal: i32) {
    // SAFETY: kill takes numbers only.
    unsafe { libc::kill(-1, signal) };
}

/// Sends a signal to one process.
pub fn signal_process(pid: Pid, signal: i32) {
    // SAFETY: kill takes numbers only.
    unsafe { libc::kill(pid.as_raw_nonzero().get(), signal) };
}

/// Stops the caller's whole process group with this signal, as a terminal does, and returns when it goes on.
pub fn stop_own_group(signal: i32) {
    let only = Set::of(&[signal]);
    unblock(&only);
    // SAFETY: kill takes numbers only; group 0 is the caller's own.
    unsafe { libc::kill(0, signal) };
    block(&only);
    take_pending(libc::SIGCONT);
}

/// Stops only this process, and returns when it goes on.
pub fn stop_self(signal: i32) {
    let only = Set::of(&[signal]);
    unblock(&only);
    signal_process(rustix::process::getpid(), signal);
    block(&only);
    take_pending(libc::SIGCONT);
}

/// Ends this process by a signal, as a program that this signal has ended. Returns where the signal ends no process.
pub fn end_self(signal: i32) {
    // SAFETY: the default disposition is a constant that runs no code of ours; a number that is not a signal's is refused.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    unblock(&Set::of(&[signal]));
    signal_process(rustix::process::getpid(), signal);
}

/// Takes a blocked signal that is waiting. The one that let us go on has been heeded by going on: told to the command a second time and late,
/// it could undo a stop that came meanwhile.
fn take_pending(signal: i32) {
    let only = Set::of(&[signal]);
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the set is initialised and `now` lives until the call returns; no information about the signal is asked for.
    unsafe { libc::sigtimedwait(&raw const only.0, std::ptr::null_mut(), &raw const now) };
}

/// The signal that cannot be caught.
pub const KILL: Signal = Signal::KILL;
