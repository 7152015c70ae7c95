//! `keyward:warden`: performs every call that makes a name in the caller's place, and lets no foothold be made.
//!
//! A process of the cage, in its namespaces and its Landlock domain and with its user, so that whatever it does is judged by the kernel as
//! if the command had done it. It has one right more: to look into processes that closed themselves. It is forked by init and starts the
//! command as init's child, so that both are in the same domain. If the command kills it, the calls it was asked about no longer exist.

mod caller;
mod calls;
mod opening;
mod way;

use crate::arm::Wards;
use crate::cage::{Failure, at};
use crate::wire::{self, Report};
use caller::{Caller, Callers};
use keyward_policy::linux::cage::Step;
use keyward_sys::fork::{self, Forked, Process};
use keyward_sys::landlock::Domain;
use keyward_sys::notify::{Call, Listener};
use keyward_sys::seccomp::Filter;
use keyward_sys::{Errno, channel, confine, environ, signal};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::process::Pid;
use std::ffi::CStr;
use std::path::PathBuf;
use way::Place;

/// On which side of the fork a start comes back.
pub(crate) enum Side {
    Init(Process),
    Warden(Listener),
}

/// In init: starts the warden, which starts the command. `command` runs in the command's process, with the socket that its listener is
/// sent to, and does not return.
pub(crate) fn start(domain: Option<Domain>, command: &mut dyn FnMut(&OwnedFd)) -> Result<Side, Failure> {
    let (ours, theirs) = channel::pair().map_err(at(Step::Warden))?;
    match fork::fork().map_err(at(Step::Warden))? {
        Forked::Child => {
            drop(ours);
            environ::set_title(c"keyward:warden");
            Ok(Side::Warden(begin(domain, &theirs, command)))
        }
        Forked::Parent(_) => {
            drop(theirs);
            confine::drop_capabilities().map_err(at(Step::Capabilities))?;
            match wire::next_report(&ours) {
                Some((Report::Command { pid }, descriptors)) => {
                    match (Pid::from_raw(pid), descriptors.into_iter().next()) {
                        (Some(pid), Some(pidfd)) => Ok(Side::Init(Process { pid, pidfd })),
                        _ => Err((Step::Warden, 0, Errno::BADMSG)),
                    }
                }
                Some((Report::Failed { step, index, errno }, _)) => Err((step, index, errno)),
                _ => Err((Step::Warden, 0, Errno::PIPE)),
            }
        }
    }
}

/// In the command's process: gives up the right that the warden keeps, installs the filter and sends its listener home.
pub(crate) fn install(filter: &Filter, home: &OwnedFd) -> Result<(), Errno> {
    confine::drop_capabilities()?;
    let listener = filter.install_listening()?;
    channel::send(home, &[0], &[listener.as_fd()])
}

/// In the warden: enters the domain, starts the command, tells init, and takes the listener.
fn begin(domain: Option<Domain>, init: &OwnedFd, command: &mut dyn FnMut(&OwnedFd)) -> Listener {
    let started = enter(domain).and_then(|()| {
        let (from, to) = channel::pair().map_err(at(Step::Warden))?;
        let mut command = || command(&to);
        let process = fork::borrow_memory_for_parent(&mut fork::Stack::new(), &mut command);
        process.map(|process| (process, from)).map_err(at(Step::Exec))
    });
    match started {
        Ok((process, from)) => {
            let pid = process.pid.as_raw_nonzero().get();
            wire::report(init, Report::Command { pid }, &[process.pidfd.as_fd()]);
            let sent = channel::receive(&from, &mut [0; 8]).map(|message| message.descriptors);
            match sent.ok().and_then(|descriptors| descriptors.into_iter().next()) {
                Some(listener) => Listener::new(listener),
                // The command has not come as far as that, and has told why.
                None => fork::exit_now(0),
            }
        }
        Err((step, index, errno)) => {
            wire::report(init, Report::Failed { step, index, errno }, &[]);
            fork::exit_now(125)
        }
    }
}

fn enter(domain: Option<Domain>) -> Result<(), Failure> {
    match domain {
        Some(domain) => domain.enter().map_err(|_| (Step::Landlock, 0, Errno::OPNOTSUPP)),
        None => Ok(()),
    }
}

/// What the warden works with.
struct Warden {
    listener: Listener,
    callers: Callers,
    /// Our own descriptors as a folder: the way to open for good what was only found before.
    descriptors: OwnedFd,
    /// The device of /proc, where links lead elsewhere than they say.
    proc: u64,
    /// Mounts on which every name can be made. By mount and not by device, because a cache may lie on the project's.
    own_places: Vec<u64>,
    /// Directories in which the user's shell looks for programs.
    programs: Vec<PathBuf>,
    umask: u32,
}

/// The answer to a call.
enum Answer {
    Done,
    Opened {
        descriptor: OwnedFd,
        close_on_exec: bool,
    },
    /// A file that the call has made, with its place.
    Made {
        descriptor: OwnedFd,
        close_on_exec: bool,
        place: Place,
    },
    /// A helper answers later.
    Later,
}

/// The life of the warden. It ends with the cage; before that, its end is the end of every call it is asked about.
pub(crate) fn live(listener: Listener, wards: Wards) -> ! {
    let Ok(mut warden) = settle(listener, wards) else { fork::exit_now(125) };
    loop {
        match warden.listener.next() {
            Ok(call) => warden.serve(&call),
            // It was gone before we could take it.
            Err(Errno::NOENT | Errno::INTR) => {}
            Err(_) => fork::exit_now(125),
        }
    }
}

fn settle(listener: Listener, wards: Wards) -> Result<Warden, Errno> {
    let listener = confine::keep_only(listener.into())?;
    confine::close_standard_streams();
    rustix::process::chdir(c"/")?;
    signal::forget_children();
    let listener = Listener::new(listener);
    listener.hand_over_at_once();
    Ok(Warden {
        descriptors: own_descriptors()?,
        proc: rustix::fs::stat(c"/proc")?.st_dev,
        own_places: wards.own_places.iter().map(|place| mount_of(CWD, place)).collect::<Result<_, _>>()?,
        programs: wards.programs,
        umask: rustix::process::umask(Mode::empty()).as_raw_mode(),
        callers: Callers::default(),
        listener,
    })
}

fn own_descriptors() -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, c"/proc/self/fd", flags, Mode::empty())
}

/// The mount that a path leads to; the empty one means the folder itself.
fn mount_of(folder: impl AsFd, path: &CStr) -> Result<u64, Errno> {
    let stat = rustix::fs::statx(folder, path, AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    if stat.stx_mask & StatxFlags::MNT_ID.bits() == 0 { Err(Errno::OPNOTSUPP) } else { Ok(stat.stx_mnt_id) }
}

impl Warden {
    fn serve(&mut self, call: &Call) {
        // What is read of the caller counts only if it still waits afterwards; every act asks for that before it begins.
        let answer = match self.callers.get(call.thread) {
            Ok(caller) => self.act(call, &caller),
            Err(errno) => Err(errno),
        };
        match answer {
            Ok(Answer::Done) => self.listener.answer(call, Ok(())),
            Ok(Answer::Opened { descriptor, close_on_exec }) => {
                self.listener.answer_descriptor(call, descriptor.as_fd(), close_on_exec);
            }
            Ok(Answer::Made { descriptor, close_on_exec, place }) => {
                if !self.listener.answer_descriptor(call, descriptor.as_fd(), close_on_exec) {
                    opening::unmake(&place, &descriptor);
                }
            }
            Ok(Answer::Later) => {}
            Err(errno) => self.listener.answer(call, Err(errno)),
        }
    }

    /// The caller's umask becomes ours, for what we make in its place.
    fn take_umask(&mut self, caller: &Caller) -> Result<(), Errno> {
        let wanted = caller.umask()?;
        if wanted != self.umask {
            rustix::process::umask(Mode::from_raw_mode(wanted));
            self.umask = wanted;
        }
        Ok(())
    }

    /// Everything that was read so far is the caller's own.
    fn still_waits(&self, call: &Call) -> Result<(), Errno> {
        if self.listener.is_waiting(call) { Ok(()) } else { Err(Errno::SRCH) }
    }
}
