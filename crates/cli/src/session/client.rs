//! The words and exit codes of a session's client. `keyward_client` speaks to the session.

use super::Reader;
use crate::args::ExecArgs;
use crate::{question, say};
use keyward_approve::terminal::Reply;
use keyward_client::{Begun, Client, Command, Decision, Ended, Error, Finished, Person, Relay, Role, Screen};
use keyward_policy::gate::Reach;
use keyward_policy::outcome::{Conclusion, Outcome, Promises};
use keyward_policy::promise::Kept;
use keyward_policy::trouble::{Code, Trouble};
use keyward_protocol::session::Terminal;
use keyward_sys::terminal;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A client whose notices are printed, and whose questions are asked on the terminal.
pub type Door = Client<AtTerminal>;

/// The person at our terminal.
#[derive(Default)]
pub struct AtTerminal {
    /// The question that the person who reads our words has said no to.
    denied_here: Option<u64>,
    /// The person was asked about the command by the agent that starts it, and has said yes.
    pub allowed: bool,
}

impl Person for AtTerminal {
    fn hear(&mut self, text: &str) {
        say::words(text);
    }

    /// Asks the person at our terminal. A question that cannot be shown is left to others.
    fn decide(
        &mut self,
        id: u64,
        document: Option<OwnedFd>,
        is_settled: &mut dyn FnMut() -> bool,
    ) -> Option<Decision> {
        if self.allowed {
            return Some(Decision { allow: true, reach: Reach::Once });
        }
        let mut text = Vec::new();
        std::fs::File::from(document?).read_to_end(&mut text).ok()?;
        let question = serde_json::from_slice(&text).ok()?;
        // The session says when the time is over.
        let until = SystemTime::now() + Duration::from_secs(30 * 86_400);
        let elsewhere = &mut || is_settled().then_some(false);
        let reply = question::ask(&question, id, question::own_terminal()?, until, elsewhere);
        if matches!(reply, Reply::Elsewhere(_)) {
            return None;
        }
        let (allow, reach) = reply.said().unwrap_or((false, Reach::Once));
        // An agent that reads our words is told not to look for another way.
        let is_person = terminal::is_terminal(rustix::stdio::stderr());
        self.denied_here = (!allow && is_person).then_some(id);
        Some(Decision { allow, reach })
    }
}

/// `SESSION` or `SESSION/JOB`.
pub struct Target {
    pub session: String,
    pub job: Option<u32>,
}

impl Target {
    pub fn parse(text: &str) -> Result<Self, Trouble> {
        let (session, job) = match text.split_once('/') {
            None => (text, None),
            Some((session, job)) => match job.parse() {
                Ok(job) => (session, Some(job)),
                Err(_) => {
                    let fact = format!("{text} names no job");
                    return Err(Trouble::new(Code::UnknownJob, fact, "a job is a number: SESSION/JOB"));
                }
            },
        };
        Ok(Target { session: session.into(), job })
    }
}

/// Where a session tells what its cage keeps, for the outcome of its commands.
pub fn promises_file(entries: &[&[u8]], name: &OsStr) -> PathBuf {
    crate::here::runtime(entries).folder(&name.to_string_lossy()).join("held")
}

/// A session without it still runs: then its outcomes name no promise.
pub fn write_promises(file: &Path, promises: &[Kept]) {
    let _ = serde_json::to_vec(promises).map(|text| std::fs::write(file, text));
}

/// Says what has to be said of an end, to a person or to a program; gives the exit code.
fn tell_as(ended: Ended, reader: Reader, session: Option<&Path>) -> i32 {
    let Ended { exit, signal, limit, hint } = ended;
    let result = match (limit.as_deref(), signal) {
        (Some("cpu"), _) => Conclusion::Limit {
            limit: "cpu",
            trouble: Trouble::new(
                Code::Limit,
                "the command was ended: it reached the limit cpu",
                "a session started with a higher one has it for all its commands",
            ),
        },
        (Some(_), _) => Conclusion::Limit {
            limit: "wall",
            trouble: Trouble::new(
                Code::Limit,
                "the command was ended: it reached its time limit",
                "give it more with `--timeout`",
            ),
        },
        (None, Some(signal)) => Conclusion::Signalled { signal },
        (None, None) => Conclusion::Exited,
    };
    if reader != Reader::Stderr {
        match &result {
            Conclusion::Limit { trouble, .. } => say::trouble(&trouble.fact, &trouble.remedy),
            _ => hint.iter().for_each(|hint| say::trouble(&hint.fact, &hint.remedy)),
        }
    }
    if reader != Reader::Person {
        let held = session.and_then(|folder| std::fs::read(folder.join("held")).ok());
        let held = held.and_then(|text| serde_json::from_slice(&text).ok()).map(Promises::Written);
        let outcome = Outcome::without_run(exit, result);
        reader.tell(&Outcome { held: held.unwrap_or(Promises::Of(&[])), hint, ..outcome });
    }
    exit
}

/// Runs a command in a session, as if it were run here: what is a terminal of ours is one of the cage's own there.
pub fn exec(door: &mut Door, args: &ExecArgs) -> Result<i32, Error> {
    run_in_session(door, args, question::has_terminal()).map_err(|error| match (error, door.person.denied_here) {
        (Error::Refused { exit, trouble, rule, retry }, Some(id)) if trouble.code == Code::Denied => {
            let remedy = format!(
                "`keyward approvals allow {id}` lets it run once; what the same rule asks about stays denied in this session"
            );
            Error::Refused { exit, trouble: Trouble { remedy, ..trouble }, rule, retry }
        }
        (error, _) => error,
    })
}

fn run_in_session(door: &mut Door, args: &ExecArgs, answers: bool) -> Result<i32, Error> {
    let streams = match (args.pty, args.background) {
        (true, _) => [true; 3],
        (false, true) => [false; 3],
        (false, false) => keyward_launch::terminals(),
    };
    let screen = streams.contains(&true).then(|| Screen::new(streams));
    let wish = screen.as_ref().map(|screen| screen.wish(streams));
    let command = Command {
        argv: args.command.clone(),
        cwd: args.cwd.clone(),
        from: std::env::current_dir().ok(),
        background: args.background,
        // A background job is always in front: no other process reads from its terminal.
        terminal: wish.map(|wish| Terminal { front: wish.front || args.background, ..wish }),
        timeout: args.timeout,
        fresh: args.fresh,
        answers,
        ..Command::default()
    };
    let inbox = keyward_client::inbox()?;
    let own = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let given = own.into_iter().zip(streams).filter(|(_, is_terminal)| !is_terminal);
    let given: Vec<BorrowedFd<'_>> = given.map(|(own, _)| own).filter(|_| !args.background).collect();
    let (job, terminal) = match door.exec(&command, &given, &inbox)? {
        Begun::Started { job, terminal } => (job, terminal),
        Begun::Ended(ended) => return Ok(tell_as(ended, Reader::of(args), door.folder())),
        Begun::Signal(signal) => return Ok(128 + signal),
    };
    if args.background {
        match args.json {
            true => say::answer_json(&serde_json::json!({ "v": 1, "session": args.session, "job": job })),
            false => say::answer(&format!("{}/{job}", args.session)),
        }
        return Ok(0);
    }
    let_go_of_streams(streams);
    say::after_command(None);
    let ended = match (screen, terminal) {
        (Some(screen), Some(main)) => {
            let (role, inbox, client) = (Role::Owner, &inbox, &mut *door);
            Relay { client, job, inbox, screen, role, main, shown: None }.run()?.ok_or(Error::Ended)?
        }
        _ => door.wait(job, &inbox)?,
    };
    Ok(tell_as(ended, Reader::of(args), door.folder()))
}

/// Why a command of an agent did not run.
pub struct NotRun {
    pub trouble: Trouble,
    pub rule: Option<String>,
}

impl From<Error> for NotRun {
    fn from(error: Error) -> Self {
        let rule = match &error {
            Error::Refused { rule, .. } => rule.clone(),
            _ => None,
        };
        NotRun { trouble: error.into(), rule }
    }
}

/// Runs a command of an agent with our streams. Nothing is asked on the agent's terminal: that screen is the agent's.
pub fn exec_for_agent(door: &mut Door, command: Vec<OsString>, cwd: PathBuf) -> Result<i32, NotRun> {
    let args = ExecArgs {
        session: String::new(),
        pty: false,
        background: false,
        timeout: None,
        fresh: false,
        cwd: Some(cwd),
        json: false,
        outcome_fd: None,
        command,
    };
    let answers = door.person.allowed;
    Ok(run_in_session(door, &args, answers)?)
}

/// The same with another input, for a command that needs no terminal.
pub fn exec_with_input(
    door: &mut Door,
    argv: Vec<OsString>,
    cwd: Option<PathBuf>,
    input: OwnedFd,
) -> Result<i32, NotRun> {
    let answers = door.person.allowed;
    let command = Command { argv, cwd, line: Some(false), answers, ..Command::default() };
    let inbox = keyward_client::inbox()?;
    let streams = [input.as_fd(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let job = match door.exec(&command, &streams, &inbox)? {
        Begun::Started { job, .. } => job,
        Begun::Ended(ended) => return Ok(tell_as(ended, Reader::Person, None)),
        Begun::Signal(signal) => return Ok(128 + signal),
    };
    drop(input);
    let_go_of_streams([false; 3]);
    say::after_command(None);
    Ok(tell_as(door.wait(job, &inbox)?, Reader::Person, None))
}

/// Our pipes are the command's from here on: when it closes them, their other ends must see it. Descriptor 2 is still needed for what we
/// have to say at the end.
fn let_go_of_streams(terminals: [bool; 3]) {
    let Ok(nothing) = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) else {
        return;
    };
    if !terminals[0] {
        let _ = rustix::stdio::dup2_stdin(&nothing);
    }
    if !terminals[1] {
        let _ = rustix::stdio::dup2_stdout(&nothing);
    }
}

/// From inside a cage: runs a command in one beside it.
pub fn run_beside(door: &mut Door, command: &[OsString]) -> Result<i32, Trouble> {
    let inbox = keyward_client::inbox()?;
    Ok(match door.run_beside(command, &inbox)? {
        Finished::Ended(ended) => tell_as(ended, Reader::Person, None),
        Finished::NotStarted(ended) => ended.exit,
        Finished::Signal(signal) => 128 + signal,
    })
}

pub fn attach(door: &mut Door, job: u32) -> Result<i32, Trouble> {
    let inbox = keyward_client::inbox()?;
    match door.attach(job, &inbox)? {
        Some(ended) => Ok(tell_as(ended, Reader::Person, None)),
        None => {
            say::note(&format!("detached from job {job}, which keeps running"));
            Ok(0)
        }
    }
}

/// Prints the output that is kept; with `follow` until the job has ended.
pub fn logs(door: &mut Door, job: u32, follow: bool) -> Result<i32, Trouble> {
    door.logs(job, follow, rustix::stdio::stdout())?;
    Ok(0)
}
