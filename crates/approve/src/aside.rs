//! A process of ours beside the launcher, for what waits for others. It ends with whoever wants its answer, and takes all that it has started
//! along: a closed socket or the end of the launcher is what it listens for while it waits.

use keyward_ledger::approvals::Closed;
use keyward_sys::fork::{self, Forked, Process};
use keyward_sys::signal::{self, Inbox};
use keyward_sys::{Errno, channel, confine, environ};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::Signal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::CStr;
use std::time::Duration;

/// The longest message between the two: a reason of a few hundred characters, with all of them escaped.
const LONGEST: usize = 16 * 1024;
/// How long the process may take to end all that it has started, before it is killed itself.
const GRACE: Duration = Duration::from_secs(2);

/// The launcher's side.
pub(crate) struct Aside {
    process: Process,
    socket: Option<OwnedFd>,
}

/// The side of the process.
pub(crate) struct Desk {
    socket: OwnedFd,
    signals: Inbox,
}

/// Forks, while the approvals are closed. What `act` does is all that the process does.
pub(crate) fn start(
    title: &'static CStr,
    _closed: &Closed<'_>,
    act: impl FnOnce(&Desk),
) -> Result<Aside, Errno> {
    let (ours, theirs) = channel::pair()?;
    match fork::fork()? {
        Forked::Parent(process) => Ok(Aside { process, socket: Some(ours) }),
        Forked::Child => {
            let Ok(desk) = Desk::set_up(title, theirs) else { fork::exit_now(125) };
            act(&desk);
            fork::exit_now(0)
        }
    }
}

impl Desk {
    fn set_up(title: &'static CStr, socket: OwnedFd) -> Result<Self, Errno> {
        confine::die_with_parent()?;
        // Also the launcher's own end, so that its end is seen here. What stood for the others is never dropped.
        let socket = confine::keep_only(socket)?;
        if channel::peer_is_gone(&socket) {
            return Err(Errno::PIPE);
        }
        environ::set_title(title);
        signal::block(&signal::Set::all());
        confine::become_opaque()?;
        // What a program leaves behind is ours to end.
        confine::become_subreaper()?;
        confine::Limit::CoreBytes(0).set()?;
        let signals = Inbox::new(&signal::Set::of(&[Signal::TERM.as_raw()]))?;
        Ok(Desk { socket, signals })
    }

    /// From here on the end of the launcher is a thing to hear: a program has to be ended with us.
    pub(crate) fn outlive_the_launcher_to_clean_up(&self) -> Result<(), Errno> {
        rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
        if channel::peer_is_gone(&self.socket) { Err(Errno::PIPE) } else { Ok(()) }
    }

    pub(crate) fn tell(&self, what: &impl Serialize) {
        if let Ok(bytes) = serde_json::to_vec(what) {
            let _ = channel::send(&self.socket, &bytes, &[]);
        }
    }

    /// What to wait for.
    pub(crate) fn ask<'b>(&'b self, polled: &mut Vec<PollFd<'b>>) {
        polled.push(PollFd::new(&self.socket, PollFlags::IN));
        polled.push(PollFd::new(&self.signals, PollFlags::IN));
    }

    /// Whether the process that wanted the answer is gone.
    pub(crate) fn is_over(&self) -> bool {
        let mut polled = Vec::with_capacity(2);
        self.ask(&mut polled);
        wait(&mut polled, Duration::ZERO).is_ok() && polled.iter().any(|one| !one.revents().is_empty())
    }
}

impl Aside {
    /// The next message, waited for. `None` when there will be none.
    pub(crate) fn hear<T: DeserializeOwned>(&self) -> Option<T> {
        let mut bytes = vec![0; LONGEST];
        let message = channel::receive(self.socket.as_ref()?, &mut bytes).ok()?;
        serde_json::from_slice(bytes.get(..message.length)?).ok()
    }

    /// Readable when there is a message, or will be none.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_ref().map_or_else(|| self.process.pidfd.as_fd(), AsFd::as_fd)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        drop(self.socket.take());
        self.process.signal(Signal::TERM);
        let mut ended = [PollFd::new(&self.process.pidfd, PollFlags::IN)];
        let _ = wait(&mut ended, GRACE);
        self.process.signal(Signal::KILL);
        let _ = self.process.wait();
    }
}

/// Waits for one of these, no longer than this.
pub(crate) fn wait(polled: &mut [PollFd<'_>], within: Duration) -> Result<(), Errno> {
    let within = Timespec::try_from(within).map_err(|_| Errno::INVAL)?;
    match poll(polled, Some(&within)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}
