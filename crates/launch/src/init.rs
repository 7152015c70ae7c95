//! PID 1 of a cage: reaps, passes signals on, and ends everything with itself. Holds nothing.

use crate::wire::{self, Order, Report};
use keyward_policy::linux::cage::Step;
use keyward_sys::fork::{self, Change, End, Process};
use keyward_sys::signal::{self, Inbox, Set};
use keyward_sys::terminal;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CStr;

/// The command, as init sees it.
pub(crate) struct Command {
    pub(crate) process: Process,
    pub(crate) terminal: Option<OwnedFd>,
}

/// Lives until the command ends or the launcher is gone; then does the `last` things and ends. As PID 1 of a cage, everything in it ends
/// at the same moment.
pub(crate) fn live(command: Command, control: &OwnedFd, last: impl Fn()) -> ! {
    let end = |code: i32| -> ! {
        last();
        fork::exit_now(code)
    };
    // The caller's pipes belong to the command alone: when it closes them, their other ends must see it.
    keyward_sys::confine::close_standard_streams();
    let give_up = |errno: Errno| -> ! {
        wire::report(control, Report::Failed { step: Step::Init, index: 0, errno }, &[]);
        end(125)
    };
    let inbox = match Inbox::new(&Set::of(&[libc_signal::CHLD])) {
        Ok(inbox) => inbox,
        Err(errno) => give_up(errno),
    };
    loop {
        while let Some((pid, change)) = fork::next_change() {
            if pid != command.process.pid {
                continue;
            }
            match change {
                Change::Ended(End::Exited(code)) => end(code),
                Change::Ended(End::Signalled(signal)) => {
                    wire::report(control, Report::Killed { signal }, &[]);
                    end(128 + signal);
                }
                Change::Stopped(signal) => wire::report(control, Report::Stopped { signal }, &[]),
            }
        }
        let mut polled = [PollFd::new(&inbox, PollFlags::IN), PollFd::new(control, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            // Deaf, we would not notice that the launcher is gone.
            Err(errno) => give_up(errno),
        }
        let told = !polled[1].revents().is_empty();
        while inbox.next().is_some() {}
        if told {
            match wire::next_order(control) {
                Some((Order::End, _)) => end(137),
                Some((Order::Spaces, _)) => give_spaces(control),
                Some((order, _)) => obey(order, &command),
                // The launcher is gone.
                None => end(125),
            }
        }
    }
}

fn obey(order: Order, command: &Command) {
    match order {
        Order::Signal { signal } => signal::signal_group(command.process.pid, signal),
        Order::Foreground => {
            if let Some(terminal) = &command.terminal {
                let _ = terminal::set_foreground(terminal, command.process.pid);
            }
            signal::signal_group(command.process.pid, libc_signal::CONT);
        }
        Order::Background => {
            if let Some(terminal) = &command.terminal {
                let _ = terminal::set_foreground(terminal, rustix::process::getpgrp());
            }
            signal::signal_group(command.process.pid, libc_signal::CONT);
        }
        Order::Mapped
        | Order::Counted
        | Order::Common
        | Order::Token
        | Order::Spaces
        | Order::Filled
        | Order::End => {}
    }
}

/// The launcher can enter the cage only by descriptors of ours: we are opaque, and it has no right to open them itself.
fn give_spaces(control: &OwnedFd) {
    let open = |path: &CStr| rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    if let (Ok(user), Ok(mounts)) = (open(c"/proc/self/ns/user"), open(c"/proc/self/ns/mnt")) {
        wire::report(control, Report::Spaces, &[user.as_fd(), mounts.as_fd()]);
    }
}

/// Signal numbers by name.
pub(crate) mod libc_signal {
    use rustix::process::Signal;
    pub(crate) const CHLD: i32 = Signal::CHILD.as_raw();
    pub(crate) const CONT: i32 = Signal::CONT.as_raw();
}
