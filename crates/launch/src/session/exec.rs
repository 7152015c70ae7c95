//! How a session starts a command that may run: it is recorded first, then handed to a spawner.

use super::asks::{Wish, plain_line, shell_line};
use super::cages::Cage;
use super::clients::Side;
use super::jobs::{Clock, Job, Output, Place};
use super::questions::Kept;
use super::{Pending, Server, Waiting};
use keyward_policy::door::{self, Answer, Errand, LONGEST};
use keyward_policy::event::{self, Gate, What, arguments};
use keyward_sys::Errno;
use rustix::fd::OwnedFd;
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// A command in a cage of its own that is done by then has not to share the processors with the making of the next.
const AHEAD: Duration = Duration::from_millis(50);
/// Cages that have not come to their end yet.
const MOST_ENDING: usize = 64;

/// Why a command is not started: a fact, and what to do.
type NotStarted = (String, String);

/// Where a job runs, and the command that is sent there once repositories are the same on both sides.
type Handed = (Place, Option<Pending>);

impl Server<'_> {
    pub(super) fn exec(
        &mut self,
        client: u64,
        mut wish: Wish,
        timeout: Option<Duration>,
        gate: Gate,
        kept: Kept,
    ) -> Result<(), NotStarted> {
        if kept.state.is_some() != wish.remembers(self.session.shell) {
            return Err(("denied: the state of the shell was not judged".into(), "try again".into()));
        }
        self.has_room_for(&wish)?;
        let number = self.jobs.next_number();
        self.record_job(client, number, &wish, gate)?;
        let output = self.keep_output_of(number, &mut wish)?;
        let streams = std::mem::take(&mut wish.streams);
        let pending = pending(number, &wish, self.session.shell, streams, kept)?;
        let (place, first) = self.hand_over(pending, wish.fresh)?;
        self.jobs.add(number, self.job(client, &wish, timeout, place, output));
        if let Some(pending) = first {
            self.sync_before(Waiting::Start { number, pending });
        }
        if wish.background {
            // The client of another one is told when it has started.
            self.clients.tell(client, &Answer::Started { job: number }, &[]);
        }
        Ok(())
    }

    fn has_room_for(&self, wish: &Wish) -> Result<(), NotStarted> {
        match self.jobs.has_room() && (!wish.fresh || self.cages.ending.len() < MOST_ENDING) {
            true => Ok(()),
            false => Err((
                "this session has reached its limit of running jobs".into(),
                "end one with `keyward kill SESSION/JOB`, or wait".into(),
            )),
        }
    }

    /// Nothing runs unrecorded.
    fn record_job(&mut self, client: u64, number: u32, wish: &Wish, gate: Gate) -> Result<(), NotStarted> {
        let started = What::Job(event::Job {
            session: self.session.name.clone(),
            job: number,
            argv: event::bounded(&arguments(&wish.argv), 4096),
            background: wish.background,
            fresh: wish.fresh,
            from_inside: self.clients.side(client) == Some(Side::Inside),
            gate,
            policy: self.session.policy.clone(),
        });
        match (self.session.record)(started) {
            true => Ok(()),
            false => Err((
                "cannot record this command".into(),
                "no command runs unrecorded: make room in Keyward's state directory, or fix its permissions"
                    .into(),
            )),
        }
    }

    /// The output of a background command is kept; its streams are ours.
    fn keep_output_of(&self, number: u32, wish: &mut Wish) -> Result<Option<Output>, NotStarted> {
        if !wish.background {
            return Ok(None);
        }
        let broken = |errno: Errno| {
            (
                format!("cannot keep the output of a job: {}", keyward_sys::file::reason(errno)),
                "make room in the session's directory".to_owned(),
            )
        };
        let mut kept = Output::new(&self.session.folder, number).map_err(broken)?;
        if wish.terminal.is_none() {
            wish.streams = kept.streams().map_err(broken)?;
        }
        Ok(Some(kept))
    }

    fn hand_over(&mut self, pending: Pending, fresh: bool) -> Result<Handed, NotStarted> {
        match (fresh, self.session.is_synced) {
            (true, _) => Ok((self.beside(pending)?, None)),
            (false, true) => Ok((Place::Cage, Some(pending))),
            (false, false) => {
                pending.send_to(&self.session.spawner).map_err(not_handed_over)?;
                Ok((Place::Cage, None))
            }
        }
    }

    fn job(
        &self,
        client: u64,
        wish: &Wish,
        timeout: Option<Duration>,
        place: Place,
        output: Option<Output>,
    ) -> Job {
        let now = Instant::now();
        let time = timeout.or(self.session.wall);
        Job {
            argv: arguments(&wish.argv),
            background: wish.background,
            has_terminal: wish.terminal.is_some(),
            client: (!wish.background).then_some(client),
            watchers: Vec::new(),
            fresh: wish.fresh,
            started: now,
            killed: false,
            clock: time.map_or(Clock::None, |time| Clock::Interrupt(now + time)),
            cut_short: None,
            place,
            output,
            terminal: None,
            ended: None,
        }
    }

    /// Starts a command in a cage of its own: a prepared one, or a new one. The next cage is then made in advance.
    fn beside(&mut self, pending: Pending) -> Result<Place, NotStarted> {
        let broken = |errno: Errno| {
            (
                format!("cannot start another cage: {}", keyward_sys::file::reason(errno)),
                "try again".to_owned(),
            )
        };
        let mut cage = match self.cages.warm.take() {
            Some(warm) => warm,
            None => Cage::new((self.session.make)().map_err(broken)?),
        };
        let ready = cage.spawner().is_some();
        let pending = match ready {
            // It was made before what was done meanwhile.
            true if self.session.is_synced && cage.begin_sync() => Some(pending),
            true if pending.send(&cage) => None,
            true => return Err(broken(Errno::PIPE)),
            false => Some(pending),
        };
        // Not now: the command that was asked for comes first.
        self.cages.due = Some(Instant::now() + AHEAD);
        Ok(Place::Beside { cage, pending })
    }
}

/// The message to the spawner, with all that travels along: the streams, then the state of the shell, then the scripts that were judged.
fn pending(
    number: u32,
    wish: &Wish,
    shell: bool,
    mut streams: Vec<OwnedFd>,
    Kept { scripts, state }: Kept,
) -> Result<Pending, NotStarted> {
    let errand = Errand::Start {
        job: number,
        argv: words(wish, shell).iter().map(|word| word.as_os_str().into()).collect(),
        cwd: wish.cwd.as_deref().map(Into::into),
        terminal: wish.terminal,
        judged: scripts.is_some(),
        state: state.is_some(),
    };
    streams.extend(state);
    streams.extend(scripts);
    let packet = door::write(&errand);
    match packet.len() > LONGEST {
        true => Err(not_handed_over(Errno::TOOBIG)),
        false => Ok(Pending { packet, streams }),
    }
}

/// The words that the spawner runs.
fn words(wish: &Wish, shell: bool) -> Vec<OsString> {
    match (shell, wish.fresh) {
        (false, _) => wish.argv.clone(),
        (true, false) => shell_line(&wish.argv, wish.cwd.clone()),
        // Where there is no state.
        (true, true) => plain_line(&wish.argv),
    }
}

fn not_handed_over(errno: Errno) -> NotStarted {
    (
        format!("cannot hand the command over: {}", keyward_sys::file::reason(errno)),
        "make it shorter, or put it into a file".to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsRawFd;

    fn wish(argv: &[&str], fresh: bool) -> Wish {
        let argv = argv.iter().map(OsString::from).collect();
        Wish { argv, cwd: None, background: false, terminal: None, streams: Vec::new(), fresh }
    }

    fn descriptor() -> OwnedFd {
        keyward_sys::channel::pair().unwrap().0
    }

    #[test]
    fn without_a_shell_the_words_are_run_as_they_are() {
        assert_eq!(words(&wish(&["ls", "a b"], false), false), ["ls", "a b"]);
        assert_eq!(words(&wish(&["ls", "a b"], true), false), ["ls", "a b"]);
    }

    #[test]
    fn a_shell_gets_one_line_and_remembers_only_in_the_cage_of_the_session() {
        let line = words(&wish(&["cd", "sub"], false), true);
        assert_eq!((line[0].to_str(), line[4].to_str()), (Some("bash"), Some("cd sub")));
        assert!(line[2].to_string_lossy().contains("keyward-shell"), "it restores the state");
        assert_eq!(words(&wish(&["cd", "sub"], true), true), ["bash", "-c", "cd sub"]);
    }

    #[test]
    fn the_state_travels_behind_the_streams_and_the_scripts_behind_the_state() {
        let (stream, state, scripts) = (descriptor(), descriptor(), descriptor());
        let expected = [stream.as_raw_fd(), state.as_raw_fd(), scripts.as_raw_fd()];
        let kept = Kept { scripts: Some(scripts), state: Some(state) };
        let pending =
            pending(3, &wish(&["ls"], false), false, vec![stream], kept).unwrap_or_else(|_| panic!());
        let sent: Vec<_> = pending.streams.iter().map(AsRawFd::as_raw_fd).collect();
        assert_eq!(sent, expected);
        let errand = door::read::<Errand>(&pending.packet);
        assert!(
            matches!(errand, Some(Errand::Start { job: 3, judged: true, state: true, .. })),
            "{errand:?}"
        );
    }

    #[test]
    fn a_command_that_does_not_fit_into_a_message_is_refused() {
        let long = "x".repeat(LONGEST);
        let refused = pending(1, &wish(&["echo", &long], false), false, Vec::new(), Kept::default());
        assert!(refused.is_err_and(|(fact, _)| fact.starts_with("cannot hand the command over")));
    }
}
