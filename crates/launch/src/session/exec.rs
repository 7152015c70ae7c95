//! How a session starts a command that may run: it is recorded first, then handed to a spawner.

use super::asks::Wish;
use super::cages::{Cage, MakeCages};
use super::command::Permitted;
use super::jobs::{Clock, Job, Output, Place};
use super::questions::Judge;
use super::{Pending, Record, Server, Waiting};
use keyward_policy::event::{self, What};
use keyward_protocol::packet::{self, LONGEST};
use keyward_protocol::session::Answer;
use keyward_sys::Errno;
use rustix::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A command in a cage of its own that is done by then has not to share the processors with the making of the next.
const AHEAD: Duration = Duration::from_millis(50);
/// Cages that have not come to their end yet.
const MOST_ENDING: usize = 64;

/// Why a command is not started: a fact, and what to do.
type NotStarted = (String, String);

/// Where a job runs, and the command that is sent there once repositories are the same on both sides.
type Handed = (Place, Option<Pending>);

impl<J: Judge, R: Record, M: MakeCages> Server<J, R, M> {
    pub(super) fn exec(
        &mut self,
        client: u64,
        permitted: Permitted,
        mut wish: Wish,
        timeout: Option<Duration>,
    ) -> Result<(), NotStarted> {
        self.has_room_for(&wish)?;
        keyward_project::home::reopen(&self.session.project, self.session.project_mode);
        let number = self.jobs.next_number();
        self.record_job(client, number, &wish, &permitted)?;
        let output = self.keep_output_of(number, &mut wish)?;
        let shown = permitted.command.shown().to_vec();
        let cwd = permitted.command.cwd().map(PathBuf::from);
        let streams = std::mem::take(&mut wish.streams);
        let pending = pending(number, &wish, streams, permitted)?;
        let (place, first) = self.hand_over(pending, wish.fresh)?;
        let job = self.job(client, shown, &wish, timeout, place, output);
        self.jobs.add(number, Job { cwd, ..job });
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
    fn record_job(
        &mut self,
        client: u64,
        number: u32,
        wish: &Wish,
        permitted: &Permitted,
    ) -> Result<(), NotStarted> {
        let started = What::Job(event::Job {
            session: self.session.name.clone(),
            job: number,
            argv: event::bounded(permitted.command.shown(), 4096),
            background: wish.background,
            fresh: wish.fresh,
            from_inside: self.clients.is_caged(client),
            gate: permitted.gate.clone(),
            policy: self.session.policy.clone(),
        });
        match self.session.record.write(started) {
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
        let mut kept = Output::new(self.session.directory.path(), number).map_err(broken)?;
        if wish.terminal.is_none() {
            wish.streams = kept.streams().map_err(broken)?;
        }
        Ok(Some(kept))
    }

    fn hand_over(&mut self, pending: Pending, fresh: bool) -> Result<Handed, NotStarted> {
        match (fresh, self.session.syncs.repositories) {
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
        argv: Vec<String>,
        wish: &Wish,
        timeout: Option<Duration>,
        place: Place,
        output: Option<Output>,
    ) -> Job {
        let now = Instant::now();
        let time = timeout.or(self.session.wall);
        Job {
            argv,
            cwd: None,
            background: wish.background,
            has_terminal: wish.terminal.is_some(),
            client: (!wish.background).then_some(client),
            watchers: Vec::new(),
            fresh: wish.fresh,
            pid: None,
            quiet: wish.quiet,
            tools: wish.tools.clone(),
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
            None => Cage::new(self.session.cages.make().map_err(broken)?),
        };
        let ready = cage.spawner().is_some();
        let pending = match ready {
            // It was made before what was done meanwhile.
            true if self.is_behind(&cage) && cage.begin_sync() => Some(pending),
            true if pending.send(&cage) => None,
            true => return Err(broken(Errno::PIPE)),
            false => Some(pending),
        };
        // Not now: the command that was asked for comes first.
        self.cages.due = Some(Instant::now() + AHEAD);
        Ok(Place::Beside { cage, pending })
    }

    /// Whether the launcher of a cage that was made ahead may have something to do before a command starts there.
    fn is_behind(&self, cage: &Cage) -> bool {
        let own = cage.syncs();
        self.session.syncs.repositories || own.any(false) && !own.has_nothing_to_look_at(false)
    }
}

/// The message to the spawner, with all that travels along: the streams, then the state of the shell, then the scripts that were judged.
fn pending(
    number: u32,
    wish: &Wish,
    mut streams: Vec<OwnedFd>,
    permitted: Permitted,
) -> Result<Pending, NotStarted> {
    let packet = packet::write(&permitted.errand(number, wish.terminal, wish.starts_untold()));
    streams.extend(permitted.kept.state);
    streams.extend(permitted.kept.scripts);
    match packet.len() > LONGEST {
        true => Err(not_handed_over(Errno::TOOBIG)),
        false => Ok(Pending { packet, streams }),
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
    use super::super::command::{Command, tests};
    use super::super::questions::Kept;
    use super::*;
    use keyward_protocol::spawner::Errand;
    use rustix::fd::AsRawFd;

    fn permitted(command: Command, kept: Kept) -> Permitted {
        Permitted::new(command, tests::gate(), kept).unwrap_or_else(|_| panic!())
    }

    fn wish() -> Wish {
        let (streams, tools) = (Vec::new(), Vec::new());
        Wish { background: false, terminal: None, streams, fresh: false, tools, quiet: false }
    }

    fn descriptor() -> OwnedFd {
        keyward_sys::channel::pair().unwrap().0
    }

    #[test]
    fn the_state_travels_behind_the_streams_and_the_scripts_behind_the_state() {
        let (stream, state, scripts) = (descriptor(), descriptor(), descriptor());
        let expected = [stream.as_raw_fd(), state.as_raw_fd(), scripts.as_raw_fd()];
        let kept = Kept { scripts: Some(scripts), state: Some(state) };
        let line = permitted(Command::of_line(&["ls".into()], None, true), kept);
        let pending = pending(3, &wish(), vec![stream], line).unwrap_or_else(|_| panic!());
        let sent: Vec<_> = pending.streams.iter().map(AsRawFd::as_raw_fd).collect();
        assert_eq!(sent, expected);
        let errand = packet::read::<Errand>(&pending.packet);
        assert!(
            matches!(errand, Some(Errand::Start { job: 3, judged: true, state: true, .. })),
            "{errand:?}"
        );
    }

    #[test]
    fn a_command_that_does_not_fit_into_a_message_is_refused() {
        let words = vec!["echo".into(), "x".repeat(LONGEST).into()];
        let refused =
            pending(1, &wish(), Vec::new(), permitted(Command::of_words(words, None), Kept::default()));
        assert!(refused.is_err_and(|(fact, _)| fact.starts_with("cannot hand the command over")));
    }
}
