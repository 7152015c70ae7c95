//! Cages beside the session's own: each is made for one command, ahead of time where the session has asked for one before.

use super::{LAST, Syncs};
use keyward_protocol::link::{self, Link};
use keyward_protocol::packet::{self, LONGEST};
use keyward_sys::fork::Process;
use keyward_sys::spaces::Spaces;
use keyward_sys::{Errno, channel, memory};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::process::Signal;
use std::time::Instant;

/// A launcher with the cage it makes, and the socket to the spawner in it once that is there.
pub(super) struct Cage {
    launcher: Process,
    /// The launcher sends the socket to the spawner here.
    from_launcher: OwnedFd,
    spawner: Option<OwnedFd>,
    /// What of its command waits for the launcher.
    syncs: Syncs,
    words: Words,
    /// Whether the launcher is bringing repositories up to date.
    syncing: bool,
}

impl Cage {
    pub(super) fn new(made: Launcher) -> Self {
        let Launcher { process: launcher, link: from_launcher, words } = made;
        Cage { launcher, from_launcher, spawner: None, syncs: Syncs::default(), words, syncing: false }
    }

    /// Where something comes from next.
    pub(super) fn source(&self) -> BorrowedFd<'_> {
        self.spawner.as_ref().filter(|_| !self.syncing).unwrap_or(&self.from_launcher).as_fd()
    }

    pub(super) fn spawner(&self) -> Option<&OwnedFd> {
        self.spawner.as_ref()
    }

    /// Takes the socket to the spawner; `false` if there will be none.
    pub(super) fn become_ready(&mut self) -> bool {
        let mut told = [0; link::ROOM];
        let Ok(message) = channel::receive(&self.from_launcher, &mut told) else { return false };
        let Some(ready) = told.get(..message.length).and_then(packet::read) else { return false };
        // The door that such a cage could have is let go: there is none from there.
        let mut sent = message.descriptors.into_iter();
        let (Some(spawner), Some(_)) = (sent.next(), sent.next()) else { return false };
        let Some(syncs) = Syncs::read(ready, &mut sent) else { return false };
        let _ = rustix::fs::fcntl_setfl(&spawner, OFlags::NONBLOCK);
        (self.spawner, self.syncs) = (Some(spawner), syncs);
        true
    }

    /// What of its command waits for the launcher.
    pub(super) fn syncs(&self) -> &Syncs {
        &self.syncs
    }

    /// Has the launcher take in what was done to repositories since the cage was made; `false` if it cannot.
    pub(super) fn begin_sync(&mut self) -> bool {
        self.syncing = channel::send(&self.from_launcher, &packet::write(&Link::Sync {}), &[]).is_ok();
        self.syncing
    }

    /// Whether the launcher has just done so.
    pub(super) fn end_sync(&mut self) -> bool {
        let mut told = [0; link::ROOM];
        let was = std::mem::take(&mut self.syncing);
        if was {
            let _ = channel::receive(&self.from_launcher, &mut told);
        }
        was
    }

    /// What its spawner says. `room` is kept by the caller, so that it is not cleared each time.
    pub(super) fn hear<'r>(&self, room: &'r mut Vec<u8>) -> Option<(&'r [u8], Vec<OwnedFd>)> {
        room.resize(LONGEST, 0);
        let message = channel::receive(self.spawner.as_ref()?, room).ok()?;
        Some((room.get(..message.length)?, message.descriptors))
    }

    /// Ends everything in it at once.
    pub(super) fn kill(&self) {
        // The launcher ends the cage, and brings its own work to an end.
        self.launcher.signal(Signal::TERM);
    }

    /// Lets it come to its end: the spawner ends with its socket. Gives the launcher, which brings its work to an end.
    pub(super) fn let_go(self) -> (Process, Words) {
        (self.launcher, self.words)
    }
}

/// The end of a job that is told when its cage is gone: number, code, signal.
type End = (u32, i32, Option<i32>);

/// Cages that are not in use.
#[derive(Default)]
pub(super) struct Cages {
    /// A cage that is ready for a command.
    pub(super) warm: Option<Cage>,
    /// When the next one is to be made.
    pub(super) due: Option<Instant>,
    /// Launchers of cages that have ended.
    pub(super) ending: Vec<Ending>,
}

/// The launcher of a cage that has ended, while it brings its work to an end.
pub(super) struct Ending {
    pub(super) launcher: Process,
    pub(super) words: Words,
    /// The job whose end is reported when the launcher has ended.
    pub(super) told: Option<End>,
    /// When it is ended; `None` once it was.
    until: Option<Instant>,
}

impl Ending {
    pub(super) fn new((launcher, words): (Process, Words), told: Option<End>) -> Self {
        Ending { launcher, words, told, until: Some(Instant::now() + LAST) }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.until
    }

    /// A command that left its cage standing does not keep it.
    pub(super) fn end_if_due(&mut self, now: Instant) {
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
            self.launcher.signal(keyward_sys::signal::KILL);
        }
    }
}

impl Cages {
    /// Waits for all of them together, and no longer than for one.
    pub(super) fn end_all(&mut self) -> String {
        let mut said = String::new();
        let until = Instant::now() + LAST / 4;
        for mut ending in self.ending.drain(..) {
            let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
            let mut polled = [PollFd::new(&ending.launcher.pidfd, PollFlags::IN)];
            if !matches!(poll(&mut polled, left.as_ref()), Ok(1)) {
                ending.launcher.signal(keyward_sys::signal::KILL);
            }
            let _ = ending.launcher.wait();
            said.push_str(&ending.words.take());
        }
        said
    }
}

/// The notices of a launcher for a person, once its cage exists. No process waits for us to read them.
pub struct Words {
    file: OwnedFd,
    read: u64,
}

impl Words {
    pub fn new() -> Result<Self, Errno> {
        Ok(Words { file: memory::unsealed(c"keyward-words")?, read: 0 })
    }

    /// For the launcher.
    pub fn writer(&self) -> Result<OwnedFd, Errno> {
        rustix::io::fcntl_dupfd_cloexec(&self.file, 3)
    }

    /// Returns new notices, up to a bound.
    pub fn take(&mut self) -> String {
        let mut part = [0; 16 << 10];
        let Ok(length) = rustix::io::pread(&self.file, &mut part, self.read) else { return String::new() };
        let all = rustix::fs::fstat(&self.file).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
        let more = if all > self.read + length as u64 {
            "keyward: and more; `keyward quarantine list`\n"
        } else {
            ""
        };
        self.read = all.max(self.read);
        String::from_utf8_lossy(part.get(..length).unwrap_or_default()).into_owned() + more
    }
}

/// A launcher that makes a cage for a session.
pub struct Launcher {
    pub process: Process,
    /// It sends the socket to the spawner here.
    pub link: OwnedFd,
    pub words: Words,
}

/// What the launcher of a cage knows of the session it is for.
pub struct Membership {
    /// The socket to the spawner is sent here.
    pub link: OwnedFd,
    /// The namespaces of the session's first cage, unless this is the first one.
    pub spaces: Option<Spaces>,
    /// Its notices for a person go here, once the cage exists.
    pub words: OwnedFd,
}

/// What the launcher of an agent's cage knows of the session that runs the agent's tools.
pub struct Tools {
    /// The session ends with this socket; the session socket of the agent's cage is sent here.
    pub link: OwnedFd,
    /// The namespaces of the tools' cage.
    pub spaces: Spaces,
}

/// What a cage is for.
#[derive(Clone, Copy)]
pub enum Role<'a> {
    /// One command.
    Command,
    /// The commands of a session.
    Member(&'a Membership),
    /// An agent, whose tools a session runs.
    Agent(&'a Tools),
}

/// Makes further cages of a session, each with a launcher of its own.
pub trait MakeCages {
    fn make(&mut self) -> Result<Launcher, Errno>;
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use std::time::Duration;

    /// A process that stands for a launcher, until it is told to end. It ends with the test in any case.
    pub(in super::super) fn stand_in() -> Process {
        let child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        std::mem::forget(child);
        Process { pid, pidfd: pidfd_open(pid, PidfdFlags::empty()).unwrap() }
    }

    fn made() -> (Cage, OwnedFd) {
        let (link, launcher) = channel::pair().unwrap();
        (Cage::new(Launcher { process: stand_in(), link, words: Words::new().unwrap() }), launcher)
    }

    /// A cage that was made ahead, with its launcher's and its spawner's end. Its launcher sends `ready`, and these descriptors with it.
    pub(in super::super) fn made_ahead(ready: &Link, watched: &[OwnedFd; 3]) -> (Cage, OwnedFd, OwnedFd) {
        let (mut cage, launcher) = made();
        let ((ours, spawner), (door, _)) = (channel::pair().unwrap(), channel::pair().unwrap());
        let sent: Vec<BorrowedFd<'_>> =
            [&ours, &door].into_iter().chain(watched).map(|descriptor| descriptor.as_fd()).collect();
        channel::send(&launcher, &packet::write(ready), &sent).unwrap();
        assert!(cage.become_ready());
        (cage, launcher, spawner)
    }

    fn end(cage: Cage) {
        cage.kill();
        let (launcher, _) = cage.let_go();
        launcher.wait().unwrap();
    }

    /// Sends the socket to a spawner; gives the spawner's end.
    fn become_ready(cage: &mut Cage, launcher: &OwnedFd) -> OwnedFd {
        let (spawner, theirs) = channel::pair().unwrap();
        let (door, _) = channel::pair().unwrap();
        channel::send(launcher, &packet::write(&ready()), &[spawner.as_fd(), door.as_fd()]).unwrap();
        assert!(cage.become_ready());
        theirs
    }

    fn is(cage: &Cage, source: &OwnedFd) -> bool {
        use std::os::fd::AsRawFd;
        cage.source().as_raw_fd() == source.as_raw_fd()
    }

    fn ready() -> Link {
        Link::Ready { repositories: false, guarded: false, watched: false, settles: false }
    }

    #[test]
    fn a_cage_is_ready_once_its_launcher_has_sent_the_way_to_the_spawner() {
        let (mut cage, launcher) = made();
        assert!(cage.spawner().is_none() && is(&cage, &cage.from_launcher));
        let spawner = become_ready(&mut cage, &launcher);
        assert!(is(&cage, cage.spawner().unwrap()), "its spawner is heard from here on");
        channel::send(&spawner, b"news", &[]).unwrap();
        assert_eq!(cage.hear(&mut Vec::new()).map(|(packet, _)| packet), Some(&b"news"[..]));
        end(cage);
    }

    #[test]
    fn a_launcher_that_is_gone_or_sends_nothing_makes_no_cage() {
        let (mut cage, launcher) = made();
        channel::send(&launcher, &packet::write(&ready()), &[]).unwrap();
        assert!(!cage.become_ready());
        drop(launcher);
        assert!(!cage.become_ready());
        end(cage);
    }

    #[test]
    fn while_repositories_are_brought_together_the_launcher_is_heard_and_not_the_spawner() {
        let (mut cage, launcher) = made();
        let _spawner = become_ready(&mut cage, &launcher);
        assert!(!cage.end_sync(), "nothing was asked for");
        assert!(cage.begin_sync() && is(&cage, &cage.from_launcher));
        channel::send(&launcher, &packet::write(&Link::Synced {}), &[]).unwrap();
        assert!(cage.end_sync() && is(&cage, cage.spawner().unwrap()));
        end(cage);
    }

    #[test]
    fn a_cage_that_does_not_come_to_its_end_is_ended_when_its_time_is_over() {
        let mut ending = Ending::new((stand_in(), Words::new().unwrap()), None);
        let until = ending.due().unwrap();
        ending.end_if_due(until - Duration::from_millis(1));
        assert_eq!(ending.due(), Some(until));
        ending.end_if_due(until);
        assert_eq!(ending.due(), None);
        assert_eq!(ending.launcher.wait(), Ok(keyward_sys::fork::End::Signalled(9)));
    }

    #[test]
    fn words_are_given_once_and_what_is_too_long_says_so() {
        let mut words = Words::new().unwrap();
        let writer = words.writer().unwrap();
        rustix::io::write(&writer, b"one\n").unwrap();
        assert_eq!((words.take(), words.take()), ("one\n".into(), String::new()));
        rustix::io::write(&writer, &[b'x'; 20 << 10]).unwrap();
        let said = words.take();
        assert!(said.starts_with("xxx") && said.ends_with("keyward: and more; `keyward quarantine list`\n"));
        assert_eq!(words.take(), "", "what was left out is not told later");
    }
}
