//! One call of a tool: the launcher is started, heard to its end, and ended when the call is cancelled or its time is over.

use super::output::Output;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Between asking the launcher to end its command and ending both.
const GRACE: Duration = Duration::from_secs(2);
/// The outcome of a run is no longer.
const LONGEST_OUTCOME: usize = 1 << 20;

/// What becomes of a request.
pub enum Answered {
    Result(Value),
    Cancelled,
}

/// For whom the launcher is started, and where.
pub struct Caller {
    pub launcher: PathBuf,
    pub folder: PathBuf,
    /// The flags that the server was given: those of `keyward run`.
    pub flags: Vec<OsString>,
}

/// A call that others may cancel.
#[derive(Default)]
pub struct Running {
    state: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    is_cancelled: bool,
    launcher: Option<OwnedFd>,
}

impl Running {
    pub fn cancel(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_cancelled = true;
        end(state.launcher.as_ref(), Signal::KILL);
    }

    fn is_cancelled(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_cancelled
    }

    /// Whether the call still waits for this launcher.
    fn begin(&self, launcher: OwnedFd) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.launcher = Some(launcher);
        !state.is_cancelled
    }

    fn end(&self, signal: Signal) {
        end(self.state.lock().unwrap_or_else(PoisonError::into_inner).launcher.as_ref(), signal);
    }
}

/// The cage ends with its launcher, also by SIGKILL.
fn end(launcher: Option<&OwnedFd>, signal: Signal) {
    if let Some(launcher) = launcher {
        let _ = pidfd_send_signal(launcher, signal);
    }
}

/// How a launcher ended.
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: Output,
    pub stderr: Output,
    /// What it wrote about the run; null if it wrote nothing.
    pub outcome: Value,
    pub is_late: bool,
}

pub enum NotEnded {
    Cancelled,
    /// The launcher could not be started.
    NotStarted(String),
}

impl Caller {
    /// Starts the launcher and waits for its end. `words` gets the number of the descriptor that an outcome is written to.
    pub fn launch(
        &self,
        running: &Running,
        words: impl FnOnce(&str) -> Vec<OsString>,
        input: Option<Vec<u8>>,
        time: Duration,
    ) -> Result<Ended, NotEnded> {
        let broken = |cause: std::io::Error| {
            NotEnded::NotStarted(format!("cannot start {}: {cause}", self.launcher.display()))
        };
        let outcome =
            keyward_sys::memory::unsealed(c"keyward-outcome").map_err(|errno| broken(errno.into()))?;
        // keyward: allow-spawn the launcher decides what the command gets of the caller's variables
        let mut command = Command::new(&self.launcher);
        command.args(words(&outcome.as_raw_fd().to_string())).current_dir(&self.folder);
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = keyward_sys::exec::spawn_tied(&mut command, outcome.as_fd()).map_err(broken)?;
        let watched = Pid::from_raw(child.id().cast_signed())
            .ok_or(rustix::io::Errno::SRCH)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
        let (watched, own) =
            match watched.and_then(|fd| Ok((fd.try_clone().map_err(|_| rustix::io::Errno::MFILE)?, fd))) {
                Ok(both) => both,
                Err(errno) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(broken(errno.into()));
                }
            };
        if !running.begin(own) {
            running.end(Signal::KILL);
        }
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (stdout, stderr, is_late) = std::thread::scope(|scope| {
            if let (Some(mut stdin), Some(input)) = (stdin, input) {
                // A command that does not read its input is no failure.
                scope.spawn(move || drop(stdin.write_all(&input)));
            }
            let stdout = scope.spawn(|| stdout.map(Output::of).unwrap_or_default());
            let stderr = scope.spawn(|| stderr.map(Output::of).unwrap_or_default());
            let is_late = self.wait(running, &watched, time);
            (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default(), is_late)
        });
        let status = child.wait().map_err(broken)?;
        if running.is_cancelled() {
            return Err(NotEnded::Cancelled);
        }
        Ok(Ended { status, stdout, stderr, outcome: read_outcome(&outcome), is_late })
    }

    /// Waits for the end; one that is late is ended. Gives whether it was.
    fn wait(&self, running: &Running, launcher: &OwnedFd, time: Duration) -> bool {
        if has_ended(launcher, time) {
            return false;
        }
        running.end(Signal::TERM);
        if !has_ended(launcher, GRACE) {
            running.end(Signal::KILL);
        }
        true
    }
}

fn has_ended(launcher: &OwnedFd, within: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let until = std::time::Instant::now() + within;
    loop {
        let left = until.saturating_duration_since(std::time::Instant::now());
        let mut polled = [PollFd::new(launcher, PollFlags::IN)];
        match poll(&mut polled, Timespec::try_from(left).ok().as_ref()) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return true,
        }
    }
}

fn read_outcome(outcome: &OwnedFd) -> Value {
    let mut text = vec![0; LONGEST_OUTCOME];
    let mut length = 0;
    while let Ok(read @ 1..) = rustix::io::pread(outcome, &mut text[length..], length as u64) {
        length += read;
    }
    serde_json::from_slice(&text[..length]).unwrap_or(Value::Null)
}

/// Why a launcher ended without saying what became of the command.
pub fn without_outcome(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("the launcher was ended by signal {signal}"),
        None => "the launcher ended without saying what became of the call".to_owned(),
    }
}
