//! A command that runs, and how it ended.

use super::error::{Error, ErrorKind};
use super::session::{Notices, Place};
use keyward_client::{Client, Ended};
use keyward_policy::outcome::code::USAGE;
use keyward_protocol::session::Ask;
use rustix::process::{Pid, Signal};
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::process::{ChildStderr, ChildStdin, ChildStdout};
use std::time::Duration;

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitStatus {
    code: i32,
    signal: Option<i32>,
    limit: Option<String>,
}

impl ExitStatus {
    /// Whether it ended with 0, and reached no limit.
    pub fn success(&self) -> bool {
        self.code == 0 && self.signal.is_none() && self.limit.is_none()
    }

    /// Its code; `None` if a signal ended it. 124 if it reached a limit.
    pub fn code(&self) -> Option<i32> {
        (self.signal.is_none() || self.limit.is_some()).then_some(self.code)
    }

    /// The signal that ended it.
    pub fn signal(&self) -> Option<i32> {
        self.signal.filter(|_| self.limit.is_none())
    }

    /// The limit that ended it: `wall`, `cpu` or another.
    pub fn limit(&self) -> Option<&str> {
        self.limit.as_deref()
    }

    pub(super) fn of_code(code: i32) -> Self {
        ExitStatus { code, signal: None, limit: None }
    }
}

impl From<Ended> for ExitStatus {
    fn from(ended: Ended) -> Self {
        ExitStatus { code: ended.exit, signal: ended.signal, limit: ended.limit }
    }
}

impl std::fmt::Display for ExitStatus {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.limit(), self.signal()) {
            (Some(limit), _) => write!(out, "limit reached: {limit}"),
            (None, Some(signal)) => write!(out, "signal: {signal}"),
            (None, None) => write!(out, "exit status: {}", self.code),
        }
    }
}

/// How a command ended, and what it has printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// A command that runs. Unlike that of the standard library, one of a session ends if this value is dropped.
pub struct Child {
    pub stdin: Option<ChildStdin>,
    pub stdout: Option<ChildStdout>,
    pub stderr: Option<ChildStderr>,
    runs: Runs,
    status: Option<Result<ExitStatus, Error>>,
}

enum Runs {
    /// Below a launcher, which writes the outcome into a file in memory.
    Launcher {
        process: std::process::Child,
        outcome: File,
    },
    InSession(Running),
}

/// A command of a session.
struct Running {
    job: u32,
    /// The connection that its end is told on, until then.
    client: Option<Client<Notices>>,
    /// Whether every request on it was answered, so that another command can have it.
    is_clean: bool,
    place: Place,
}

impl Running {
    /// Waits for the end, at most for this long.
    fn end(&mut self, within: Option<Duration>) -> Option<Result<ExitStatus, Error>> {
        let client = self.client.as_mut()?;
        let ended = client.end_of(self.job, within).transpose()?;
        let client = self.client.take()?;
        if ended.is_ok() && self.is_clean {
            self.place.give_back(client);
        }
        Some(ended.map(Into::into).map_err(Into::into))
    }

    /// Sends a request whose answer is not waited for.
    fn ask(&mut self, ask: &Ask) -> Result<(), Error> {
        self.is_clean = false;
        match &mut self.client {
            Some(client) => Ok(client.ask(ask, &[])?),
            None => Ok(()),
        }
    }
}

impl Child {
    pub(super) fn of_launcher(mut process: std::process::Child, outcome: File) -> Self {
        let (stdin, stdout, stderr) = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        Child { stdin, stdout, stderr, runs: Runs::Launcher { process, outcome }, status: None }
    }

    pub(super) fn of_session(
        client: Client<Notices>,
        job: u32,
        place: Place,
        (stdin, stdout, stderr): (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>),
    ) -> Self {
        let running = Running { job, client: Some(client), is_clean: true, place };
        Child { stdin, stdout, stderr, runs: Runs::InSession(running), status: None }
    }

    /// Waits for the end. Closes the command's input first, as the standard library does.
    pub fn wait(&mut self) -> Result<ExitStatus, Error> {
        drop(self.stdin.take());
        if self.status.is_none() {
            self.status = match &mut self.runs {
                Runs::Launcher { process, outcome } => Some(match process.wait() {
                    Ok(status) => of_outcome(outcome, status),
                    Err(error) => Err(Error::system("cannot wait for the launcher", &error)),
                }),
                Runs::InSession(running) => running.end(None),
            };
        }
        self.status.clone().unwrap_or_else(|| Err(Error::lost()))
    }

    /// How it ended; `None` if it still runs.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>, Error> {
        if self.status.is_none() {
            self.status = match &mut self.runs {
                Runs::Launcher { process, outcome } => match process.try_wait() {
                    Ok(status) => status.map(|status| of_outcome(outcome, status)),
                    Err(error) => Some(Err(Error::system("cannot wait for the launcher", &error))),
                },
                Runs::InSession(running) => running.end(Some(Duration::ZERO)),
            };
        }
        self.status.clone().transpose()
    }

    /// Ends the command with everything that it has started. It is no error if it has ended.
    pub fn kill(&mut self) -> Result<(), Error> {
        match &mut self.runs {
            _ if self.status.is_some() => Ok(()),
            // The cage ends with its launcher.
            Runs::Launcher { process, .. } => {
                process.kill().map_err(|error| Error::system("cannot end the launcher", &error))
            }
            Runs::InSession(running) => running.ask(&Ask::Kill { job: running.job }),
        }
    }

    /// Sends a signal to the command.
    pub fn signal(&mut self, signal: i32) -> Result<(), Error> {
        if self.try_wait()?.is_some() {
            return Ok(());
        }
        match &mut self.runs {
            Runs::Launcher { process, .. } => {
                // The launcher passes it on.
                let sent = Signal::from_named_raw(signal)
                    .map(|it| rustix::process::kill_process(Pid::from_child(process), it));
                match sent {
                    Some(Ok(())) => Ok(()),
                    _ => Err(Error::usage(
                        format!("cannot send signal {signal}"),
                        "name a signal from 1 to 31",
                    )),
                }
            }
            Runs::InSession(running) => running.ask(&Ask::Signal { job: running.job, signal }),
        }
    }

    /// Reads what the command prints until its end.
    pub fn wait_with_output(mut self) -> Result<Output, Error> {
        drop(self.stdin.take());
        let stderr = self.stderr.take();
        // Both at once: a command that fills one pipe would wait for us while we wait for the other.
        let rest = std::thread::spawn(move || read(stderr));
        let stdout = read(self.stdout.take());
        let stderr = rest.join().unwrap_or_default();
        Ok(Output { status: self.wait()?, stdout, stderr })
    }
}

fn read(pipe: Option<impl Read>) -> Vec<u8> {
    let mut content = Vec::new();
    if let Some(mut pipe) = pipe {
        let _ = pipe.read_to_end(&mut content);
    }
    content
}

/// The largest outcome that is read.
const LONGEST: usize = 1 << 24;

fn of_outcome(outcome: &File, status: std::process::ExitStatus) -> Result<ExitStatus, Error> {
    use std::os::unix::process::ExitStatusExt;
    let length = outcome.metadata().map_or(0, |found| found.len());
    let mut text = vec![0; usize::try_from(length).unwrap_or(LONGEST).min(LONGEST)];
    let told = match outcome.read_exact_at(&mut text, 0) {
        Ok(()) => serde_json::from_slice::<Value>(&text).unwrap_or_default(),
        Err(_) => Value::Null,
    };
    let number = |name: &str| told.get(name).and_then(Value::as_i64).and_then(|it| i32::try_from(it).ok());
    match told.get("outcome").and_then(Value::as_str) {
        Some("exited") => Ok(ExitStatus { code: number("exit").unwrap_or(125), signal: None, limit: None }),
        Some("signalled") => {
            Ok(ExitStatus { code: number("exit").unwrap_or(125), signal: number("signal"), limit: None })
        }
        Some("limit") => {
            let limit = told.get("limit").and_then(Value::as_str).unwrap_or("unknown").to_owned();
            Ok(ExitStatus { code: number("exit").unwrap_or(124), signal: None, limit: Some(limit) })
        }
        Some(_) => Err(Error::of_outcome(&told)),
        // The launcher was killed, by us or by another program, and the cage with it.
        None if status.signal().is_some() => {
            Ok(ExitStatus { code: 128 + status.signal().unwrap_or(0), signal: status.signal(), limit: None })
        }
        // What cannot be read as a command line has no outcome yet.
        None if status.code() == Some(USAGE) => Err(Error::usage(
            "the launcher did not take the flags of this command; its standard error says why",
            "`keyward help run` lists them, and what each takes",
        )),
        None => Err(Error::new(
            ErrorKind::Fault,
            "the launcher ended without an outcome",
            "`keyward doctor` shows what this host can do",
        )),
    }
}
