//! Commands of a session: with the streams of this process or others, with signals passed on, until their end.

use crate::connection::{Client, First, Person};
use crate::error::Error;
use keyward_policy::shims::Changes;
use keyward_protocol::session::{Answer, Ask, Hint, Surroundings, Terminal, Word};
use keyward_sys::signal::{self, Inbox, PASSED_ON, Set};
use keyward_sys::{Errno, terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A command for a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    pub argv: Vec<OsString>,
    pub cwd: Option<PathBuf>,
    /// Where a relative `cwd` begins, if that is in the project; else it begins where the session does.
    pub from: Option<PathBuf>,
    /// It goes on when the client is gone, and its output is kept.
    pub background: bool,
    /// A terminal of the cage's own, whose other side the client gets.
    pub terminal: Option<Terminal>,
    pub timeout: Option<Duration>,
    /// In a cage of its own.
    pub fresh: bool,
    /// Whether the person behind this client can be asked about it.
    pub answers: bool,
    /// Whether it is a line for a shell that remembers; without it, the session decides.
    pub line: Option<bool>,
    /// Functions that it may call, of those that are offered by name only.
    pub tools: Vec<String>,
    /// Whether this client is not told of the start: its first answer is the end, or a refusal.
    pub quiet: bool,
}

impl Command {
    fn ask(&self) -> Ask {
        let word = |path: &PathBuf| Word::from(path.as_os_str());
        Ask::Exec {
            argv: self.argv.iter().map(|word| word.as_os_str().into()).collect(),
            cwd: self.cwd.as_ref().map(word),
            from: self.from.as_ref().map(word),
            background: self.background,
            terminal: self.terminal,
            timeout_ms: self.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            fresh: self.fresh,
            answers: self.answers,
            line: self.line,
            tools: self.tools.clone(),
            quiet: self.quiet,
        }
    }
}

/// A tool of an agent, in the cage of its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    pub program: OsString,
    /// The words that the shim was called with; the first may be any name.
    pub words: Vec<OsString>,
    pub cwd: PathBuf,
    pub terminal: Option<Terminal>,
    pub changes: Changes,
    pub umask: u32,
}

impl Tool {
    fn ask(&self) -> Ask {
        let word = |text: &OsString| Word::from(text.as_os_str());
        let mut argv: Vec<Word> = vec![word(&self.program)];
        argv.extend(self.words.iter().skip(1).map(word));
        let name = self.words.first().filter(|name| **name != self.program);
        Ask::Tool {
            argv,
            cwd: self.cwd.as_os_str().into(),
            terminal: self.terminal,
            surroundings: Surroundings {
                name: name.map(word),
                set: self.changes.set.iter().map(word).collect(),
                unset: self.changes.unset.iter().map(word).collect(),
                umask: self.umask,
            },
        }
    }
}

/// What came of a command that was sent.
#[derive(Debug)]
pub enum Begun {
    /// It runs; with a terminal, its other side.
    Started { job: u32, terminal: Option<OwnedFd> },
    /// It has ended before it ran.
    Ended(Ended),
    /// This signal has ended the wait.
    Signal(i32),
}

/// What came of a command that was waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finished {
    Ended(Ended),
    /// It has ended before it ran.
    NotStarted(Ended),
    /// This signal has ended the wait before it ran.
    Signal(i32),
}

/// How a command has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub exit: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The limit that ended it.
    pub limit: Option<String>,
    /// Why it may have failed in a cage.
    pub hint: Option<Hint>,
}

/// Blocks the signals that are passed on to a command, as those of a run are, and gives where they arrive.
pub fn inbox() -> Result<Inbox, Error> {
    let set = Set::of(PASSED_ON);
    signal::block(&set);
    Inbox::new(&set).map_err(|_| Error::NoDescriptors)
}

impl<P: Person> Client<P> {
    /// Starts a command with these streams: those of the three that are not a terminal, and none in the background.
    pub fn exec(
        &mut self,
        command: &Command,
        streams: &[BorrowedFd<'_>],
        inbox: &Inbox,
    ) -> Result<Begun, Error> {
        // What is sent to a session that was stopped stays open as long as that one is there.
        self.hello()?;
        self.ask(&command.ask(), streams)?;
        self.begun(inbox)
    }

    /// From the cage of an agent: has the session run a tool of it, with these streams.
    pub fn run_tool(
        &mut self,
        tool: &Tool,
        streams: &[BorrowedFd<'_>],
        inbox: &Inbox,
    ) -> Result<Begun, Error> {
        self.ask(&tool.ask(), streams)?;
        self.begun(inbox)
    }

    /// Starts a command as [`Client::exec`] does, in a program that handles signals itself. Gives the number of the job.
    pub fn start(&mut self, command: &Command, streams: &[BorrowedFd<'_>]) -> Result<u32, Error> {
        self.hello()?;
        self.ask(&command.ask(), streams)?;
        loop {
            match self.next_answer()?.0 {
                Answer::Started { job } => return Ok(job),
                Answer::Question(_) | Answer::Settled { .. } | Answer::Done {} => {}
                _ => return Err(Error::Ended),
            }
        }
    }

    /// Waits until a job has ended, at most for this long; `None` if it still runs.
    pub fn end_of(&mut self, job: u32, within: Option<Duration>) -> Result<Option<Ended>, Error> {
        let until = within.map(|within| Instant::now() + within);
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let timeout = left.and_then(|left| Timespec::try_from(left).ok());
            let mut polled = [PollFd::new(&*self, PollFlags::IN)];
            match poll(&mut polled, timeout.as_ref()) {
                Ok(0) => return Ok(None),
                Ok(_) => {
                    if let Some(ended) = self.told_end(job)? {
                        return Ok(Some(ended));
                    }
                }
                Err(_) => {}
            }
        }
    }

    fn begun(&mut self, inbox: &Inbox) -> Result<Begun, Error> {
        match self.first(inbox)? {
            First::Answer(Answer::Started { job }, descriptors) => {
                Ok(Begun::Started { job, terminal: descriptors.into_iter().next() })
            }
            First::Answer(Answer::Ended { exit, signal, limit, hint, .. }, _) => {
                Ok(Begun::Ended(Ended { exit, signal, limit, hint }))
            }
            First::Answer(..) => Err(Error::Ended),
            First::Signal(signal) => Ok(Begun::Signal(signal)),
        }
    }

    /// From inside a cage: runs a command in one beside it, with the streams of this process.
    pub fn run_beside(&mut self, argv: &[OsString], inbox: &Inbox) -> Result<Finished, Error> {
        let cwd = std::env::current_dir().ok();
        let command = Command { argv: argv.to_vec(), cwd, fresh: true, ..Command::default() };
        let copies = ask_with_streams(self, &command.ask())?;
        Ok(match self.begun(inbox)? {
            Begun::Started { job, .. } => Finished::Ended(self.wait_with(job, inbox, copies)?),
            Begun::Ended(ended) => Finished::NotStarted(ended),
            Begun::Signal(signal) => Finished::Signal(signal),
        })
    }

    /// Waits for the end of a job, and passes signals on meanwhile.
    pub fn wait(&mut self, job: u32, inbox: &Inbox) -> Result<Ended, Error> {
        self.wait_with(job, inbox, Vec::new())
    }

    /// Writes the kept output of a background job; with `follow` until the job has ended.
    pub fn logs(&mut self, job: u32, follow: bool, to: BorrowedFd<'_>) -> Result<(), Error> {
        let (answer, descriptors) = self.request_with(&Ask::Log { job, follow })?;
        let (Answer::Log { ended, .. }, Some(file)) = (answer, descriptors.into_iter().next()) else {
            return Err(Error::Ended);
        };
        let mut over = ended || !follow;
        loop {
            while copy(&file, to) {}
            if over {
                return Ok(());
            }
            let mut polled = [PollFd::new(&*self, PollFlags::IN)];
            let _ = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 100_000_000 }));
            if !polled[0].revents().is_empty() {
                // Its end, or the session's.
                over = !matches!(self.next_answer(), Ok((Answer::Stopped { .. }, _)));
            }
        }
    }

    /// Waits for the end of a job, and passes signals on meanwhile.
    fn wait_with(&mut self, job: u32, inbox: &Inbox, mut copies: Copies) -> Result<Ended, Error> {
        let mut ended = None;
        loop {
            let mut polled = vec![PollFd::new(inbox, PollFlags::IN)];
            if ended.is_none() {
                polled.push(PollFd::new(&*self, PollFlags::IN));
            }
            let first = polled.len();
            polled.extend(copies.iter().map(|(from, _)| PollFd::new(from, PollFlags::IN)));
            // What the command has printed is still shown; what it left running may print for ever.
            let rest = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            let found = poll(&mut polled, ended.is_some().then_some(&rest));
            let ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
            drop(polled);
            while let Some(received) = inbox.next() {
                if received.signal == Signal::TSTP.as_raw() {
                    // One that has no terminal would not heed it; with us it stops and goes on.
                    self.ask(&Ask::Signal { job, signal: Signal::STOP.as_raw() }, &[])?;
                    signal::stop_self(received.signal);
                    self.ask(&Ask::Signal { job, signal: Signal::CONT.as_raw() }, &[])?;
                } else {
                    self.ask(&Ask::Signal { job, signal: received.signal }, &[])?;
                }
            }
            let mut place = first;
            copies.retain(|(from, to)| {
                place += 1;
                !ready[place - 1] || copy(from, to)
            });
            if ended.is_none() && ready.get(1) == Some(&true) {
                ended = self.told_end(job)?;
            }
            if let Some(ended) = ended.take_if(|_| copies.is_empty() || found == Ok(0)) {
                return Ok(ended);
            }
        }
    }

    /// The next answer, if it is the end of this job.
    fn told_end(&mut self, job: u32) -> Result<Option<Ended>, Error> {
        match self.next_answer()?.0 {
            Answer::Ended { job: ended, exit, signal, limit, hint } if ended == job => {
                Ok(Some(Ended { exit, signal, limit, hint }))
            }
            _ => Ok(None),
        }
    }
}

fn own_streams() -> [BorrowedFd<'static>; 3] {
    [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()]
}

/// Pairs of descriptors: the source to copy from, and the destination.
type Copies = Vec<(OwnedFd, BorrowedFd<'static>)>;

/// Asks with our own streams. A terminal is not handed over: what would be read from it is nothing, what is printed runs through us.
fn ask_with_streams<P: Person>(client: &mut Client<P>, ask: &Ask) -> Result<Copies, Error> {
    let mut copies = Vec::new();
    let mut streams = Vec::new();
    for (number, own) in own_streams().into_iter().enumerate() {
        let stream = match (terminal::is_terminal(own), number) {
            (false, _) => rustix::io::fcntl_dupfd_cloexec(own, 3),
            (true, 0) => rustix::fs::open(c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()),
            (true, _) => rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map(|(from, to)| {
                copies.push((from, own));
                to
            }),
        };
        streams.push(stream.map_err(|_| Error::NoDescriptors)?);
    }
    let borrowed: Vec<BorrowedFd<'_>> = streams.iter().map(AsFd::as_fd).collect();
    client.ask(ask, &borrowed)?;
    Ok(copies)
}

/// Copies what is there; `false` at the end.
pub(crate) fn copy(from: impl AsFd, to: impl AsFd) -> bool {
    let mut part = [0; 16 << 10];
    match rustix::io::read(from, &mut part) {
        Ok(0) => false,
        Ok(length) => {
            let mut rest = &part[..length];
            while !rest.is_empty() {
                match rustix::io::write(&to, rest) {
                    Ok(written) => rest = &rest[written..],
                    Err(Errno::INTR) => {}
                    Err(_) => return false,
                }
            }
            true
        }
        Err(Errno::INTR | Errno::AGAIN) => true,
        // A terminal whose other side is closed.
        Err(_) => false,
    }
}
