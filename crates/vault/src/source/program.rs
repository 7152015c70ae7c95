//! Running a program for its answer: one that hangs, floods, waits for input or leaves others behind costs its time limit and no more.
//!
//! A program has a process group of its own, which is killed when it has ended or its time is over. Then also what has left the
//! group is looked for, among its descendants; and among our own children if orphans come to us (a subreaper). A daemon that a program
//! has started properly and that holds none of its streams, as gpg does with its agent, stays if the program ends by itself.

use super::{Surroundings, Why};
use crate::secret::{Buffer, LARGEST, Unread};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// So much of what a program says on stderr is looked at.
const LOOKED_AT: usize = 8 * 1024;

/// What every program needs to find its way: its user, its home, where programs and sockets are.
pub(crate) const PLAIN: &[&str] = &["HOME", "PATH", "USER", "LOGNAME", "TMPDIR", "XDG_RUNTIME_DIR"];
/// What a window that asks a person needs.
pub(crate) const DISPLAY: &[&str] = &["DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS"];

/// One run of a program.
pub struct Call<'a> {
    /// How it is called in messages.
    name: String,
    command: Command,
    terminal: Option<BorrowedFd<'a>>,
    limit: Duration,
}

impl<'a> Call<'a> {
    /// A program by its name in PATH, or by its path. It gets no variable and no input but what is added.
    pub fn new(program: &OsStr, surroundings: &Surroundings<'a>) -> Result<Self, Why> {
        let name = keyward_policy::text::visible(program);
        let path = find(program, surroundings).ok_or_else(|| Why::NotInstalled(name.clone()))?;
        let mut command = Command::new(path);
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Files that a project has put into the current directory must not matter here.
        command.current_dir("/");
        Ok(Call { name, command, terminal: None, limit: surroundings.limits.alone })
    }

    pub fn arguments<T: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Passes on these of the caller's variables, if they are set.
    pub(crate) fn pass(mut self, names: &[&str], surroundings: &Surroundings<'_>) -> Self {
        for name in names {
            if let Some(value) = surroundings.variable(name) {
                self.command.env(name, value);
            }
        }
        self.command.env("HOME", surroundings.home);
        self
    }

    pub fn set(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// It may ask a person: on the terminal if there is one.
    pub(crate) fn may_ask(mut self, surroundings: &Surroundings<'a>) -> Self {
        self.terminal = surroundings.terminal;
        self.limit = surroundings.limit();
        self
    }

    /// Input and output are a conversation; its stderr is discarded.
    pub(crate) fn converse(mut self) -> Result<Running<'a>, Why> {
        self.command.stdin(Stdio::piped()).stderr(Stdio::null());
        self.terminal = None;
        self.start()
    }

    pub fn limited(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    fn start(mut self) -> Result<Running<'a>, Why> {
        if let Some(terminal) = self.terminal {
            self.command.stdin(terminal.try_clone_to_owned()?);
        }
        let ours = own_children();
        let child = self.command.process_group(0).spawn()?;
        let group = pid(child.id())?;
        let deadline = Instant::now() + self.limit;
        let foreground = self.terminal.and_then(|terminal| Foreground::give(terminal, group));
        let ended = rustix::process::pidfd_open(group, PidfdFlags::empty());
        let mut running = Running {
            name: self.name,
            child,
            group,
            ended: None,
            ours,
            deadline,
            limit: self.limit,
            foreground,
        };
        running.ended = Some(ended?);
        Ok(running)
    }

    /// Starts it and gives it this to read. What it prints is for [`Exchange`].
    pub fn begin(mut self, input: Option<Vec<u8>>) -> Result<Exchange<'a>, Why> {
        if input.is_some() {
            self.command.stdin(Stdio::piped());
            self.terminal = None;
        }
        let mut running = self.start()?;
        let child = &mut running.child;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let streams = [
            stdin.as_ref().map(AsFd::as_fd),
            stdout.as_ref().map(AsFd::as_fd),
            stderr.as_ref().map(AsFd::as_fd),
        ];
        for stream in streams.into_iter().flatten() {
            rustix::fs::fcntl_setfl(stream, OFlags::NONBLOCK)?;
        }
        let input = stdin.zip(input).map(|(to, text)| Input { to, text: Zeroizing::new(text), written: 0 });
        let (out, said) = (Buffer::new(LARGEST), Buffer::new(LOOKED_AT));
        Ok(Exchange { running, input, stdout, stderr, out, said, took_all: true })
    }

    /// Runs it to its end.
    pub(crate) fn answer(self) -> Result<Answer, Why> {
        let mut exchange = self.begin(None)?;
        loop {
            {
                let mut polled = Vec::with_capacity(3);
                exchange.ask(&mut polled);
                exchange.running.wait(&mut polled)?;
            }
            if exchange.work()? {
                return exchange.end();
            }
        }
    }
}

/// A program that is given something to read and is heard to its end, by somebody who may wait for other things meanwhile. Dropped before its
/// end, it is killed with all that came from it.
pub struct Exchange<'a> {
    running: Running<'a>,
    /// What it has not read yet.
    input: Option<Input>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    out: Buffer,
    said: Buffer,
    took_all: bool,
}

struct Input {
    to: ChildStdin,
    text: Zeroizing<Vec<u8>>,
    /// How much of it is written.
    written: usize,
}

impl Exchange<'_> {
    /// What to wait for, besides [`Exchange::left`].
    pub fn ask<'b>(&'b self, polled: &mut Vec<PollFd<'b>>) {
        polled.extend(self.running.ended.as_ref().map(|ended| PollFd::new(ended, PollFlags::IN)));
        polled.extend(self.stdout.as_ref().map(|out| PollFd::new(out, PollFlags::IN)));
        polled.extend(self.stderr.as_ref().map(|err| PollFd::new(err, PollFlags::IN)));
        polled.extend(self.input.as_ref().map(|input| PollFd::new(&input.to, PollFlags::OUT)));
    }

    /// How much time it has; an error when that is over.
    pub fn left(&self) -> Result<Duration, Why> {
        let left = self.running.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(Why::TimedOut(self.running.limit.as_secs())) } else { Ok(left) }
    }

    /// Does what can be done without waiting. True when it has ended.
    pub fn work(&mut self) -> Result<bool, Why> {
        let ended = self.running.has_ended()?;
        // What it wrote before it ended is in the pipe by now; what others would still write is not its answer.
        if !drain(&mut self.stdout, |stream| self.out.read_once(stream))? {
            self.stdout = None;
        }
        if !drain(&mut self.stderr, |stream| look(stream, &mut self.said))? {
            self.stderr = None;
        }
        if let Some(input) = &mut self.input {
            match input.to.write(input.text.get(input.written..).unwrap_or_default()) {
                Ok(written) => input.written += written,
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(_) => {
                    self.took_all = false;
                    self.input = None;
                }
            }
        }
        // The end of what it reads is the end of the pipe.
        self.input.take_if(|input| input.written >= input.text.len());
        Ok(ended)
    }

    /// What it answered, now that it has ended.
    pub fn end(self) -> Result<Answer, Why> {
        let name = self.running.name.clone();
        let took_all = self.took_all && self.input.is_none();
        let let_go = self.stdout.is_none();
        Ok(Answer { name, code: self.running.end()?, out: self.out, said: self.said, took_all, let_go })
    }
}

/// Reads all there is at this moment; false at the end.
fn drain<T: Read>(
    stream: &mut Option<T>,
    mut read: impl FnMut(&mut T) -> Result<usize, Unread>,
) -> Result<bool, Why> {
    let Some(stream) = stream else { return Ok(false) };
    loop {
        match read(stream) {
            Ok(0) => return Ok(false),
            Ok(_) => {}
            Err(Unread::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(Unread::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Keeps the beginning, lets the rest go.
fn look(stream: &mut impl Read, said: &mut Buffer) -> Result<usize, Unread> {
    let mut place = Zeroizing::new([0; 4096]);
    let read = stream.read(&mut place[..])?;
    let _ = place.iter().take(read).try_for_each(|byte| said.push(*byte));
    Ok(read)
}

/// What a program answered.
pub struct Answer {
    name: String,
    code: Option<i32>,
    out: Buffer,
    said: Buffer,
    took_all: bool,
    let_go: bool,
}

impl Answer {
    pub fn succeeded(&self) -> bool {
        self.code == Some(0)
    }

    /// Its exit code; `None` where a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.code
    }

    /// Whether it has taken all that it was given to read, as far as one can tell: a short text is taken by the pipe.
    pub fn took_all(&self) -> bool {
        self.took_all
    }

    /// Whether no descendant still held its output when it ended.
    pub fn let_go(&self) -> bool {
        self.let_go
    }

    /// The beginning of what it said on stderr. Of a source this is never shown, as it may hold a value.
    pub fn complaint(&self) -> &[u8] {
        self.said.bytes()
    }

    /// What it printed.
    pub fn out(&self) -> &[u8] {
        self.out.bytes()
    }

    /// Whether it said one of these on stderr.
    pub(crate) fn said(&self, words: &[&str]) -> bool {
        let said = self.said.bytes();
        words
            .iter()
            .any(|word| said.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes())))
    }

    pub(crate) fn failure(&self) -> Why {
        Why::Failed { program: self.name.clone(), code: self.code }
    }
}

/// A program that runs. It ends with the value, and with it all of its group and its descendants.
pub(crate) struct Running<'a> {
    name: String,
    pub(crate) child: Child,
    group: Pid,
    /// Readable when it has ended.
    ended: Option<OwnedFd>,
    /// The children that we had before.
    ours: BTreeSet<u32>,
    deadline: Instant,
    limit: Duration,
    foreground: Option<Foreground<'a>>,
}

impl Running<'_> {
    /// Waits for one of these, no longer than there is time.
    pub(crate) fn wait(&self, polled: &mut [PollFd<'_>]) -> Result<(), Why> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Why::TimedOut(self.limit.as_secs()));
        }
        let left = Timespec::try_from(left).map_err(|_| Why::TimedOut(self.limit.as_secs()))?;
        match poll(polled, Some(&left)) {
            Ok(0) => Err(Why::TimedOut(self.limit.as_secs())),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn has_ended(&self) -> Result<bool, Why> {
        let Some(ended) = &self.ended else { return Ok(true) };
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut [PollFd::new(ended, PollFlags::IN)], Some(&now)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// When its time is over.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Its code, now that it has ended; the rest of its group ends as well.
    fn end(mut self) -> Result<Option<i32>, Why> {
        // Before it is waited for: until then no other process can have the number of its group.
        let _ = rustix::process::kill_process_group(self.group, Signal::KILL);
        let status = self.child.wait()?;
        Ok(status.code().or_else(|| status.signal().map(|_| -1)).filter(|code| *code >= 0))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // Already waited for: it ended by itself.
        if let Ok(None) = self.child.try_wait() {
            for found in self.descendants() {
                let _ = rustix::process::kill_process(found, Signal::KILL);
            }
            let _ = rustix::process::kill_process_group(self.group, Signal::KILL);
            let _ = self.child.wait();
        }
        drop(self.foreground.take());
    }
}

impl Running<'_> {
    /// Stops all its descendants, so that there is no new one, and returns them.
    fn descendants(&self) -> Vec<Pid> {
        let mut all = BTreeSet::new();
        let orphans_come_to_us =
            rustix::process::child_subreaper().is_ok_and(|subreaper| subreaper.is_some());
        loop {
            let parents = parents();
            let before = all.len();
            let is_orphan = |process: u32, parent: u32| {
                orphans_come_to_us && parent == std::process::id() && !self.ours.contains(&process)
            };
            for (process, parent) in &parents {
                let is_known = |number: &u32| *number == self.child.id() || all.contains(number);
                if is_known(process) || is_known(parent) || is_orphan(*process, *parent) {
                    all.insert(*process);
                }
            }
            for process in all.iter().filter_map(|number| pid(*number).ok()) {
                let _ = rustix::process::kill_process(process, Signal::STOP);
            }
            if all.len() == before {
                return all.into_iter().filter_map(|number| pid(number).ok()).collect();
            }
        }
    }
}

/// Every process with its parent, as far as we see them.
fn parents() -> Vec<(u32, u32)> {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let parent = |number: u32| {
        let stat = std::fs::read(format!("/proc/{number}/stat")).ok()?;
        // The name in parentheses may hold anything.
        let after = stat.get(stat.iter().rposition(|byte| *byte == b')')? + 2..)?;
        std::str::from_utf8(after).ok()?.split(' ').nth(1)?.parse().ok()
    };
    numbers
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|number| Some((number, parent(number)?)))
        .collect()
}

/// The children that we have, of all our threads.
fn own_children() -> BTreeSet<u32> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists =
        threads.map(|thread| std::fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    lists
        .flat_map(|list| {
            list.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

fn pid(number: u32) -> Result<Pid, Why> {
    i32::try_from(number).ok().and_then(Pid::from_raw).ok_or(Why::Io(io::ErrorKind::InvalidInput))
}

/// The foreground of a terminal, lent to a program: otherwise it would be stopped when it reads.
struct Foreground<'a> {
    terminal: BorrowedFd<'a>,
    ours: Pid,
}

impl<'a> Foreground<'a> {
    /// `None` where the terminal does not control us, so that nobody is in the background of it, or where we are there ourselves.
    fn give(terminal: BorrowedFd<'a>, group: Pid) -> Option<Self> {
        let ours = rustix::termios::tcgetpgrp(terminal).ok()?;
        if ours != rustix::process::getpgrp() {
            return None;
        }
        rustix::termios::tcsetpgrp(terminal, group).ok()?;
        // It may have read too early.
        let _ = rustix::process::kill_process_group(group, Signal::CONT);
        Some(Foreground { terminal, ours })
    }
}

impl Drop for Foreground<'_> {
    fn drop(&mut self) {
        use keyward_sys::signal;
        // From the background this would stop us.
        let before = signal::block(&signal::Set::of(&[Signal::TTOU.as_raw()]));
        let _ = rustix::termios::tcsetpgrp(self.terminal, self.ours);
        signal::set_mask(&before);
    }
}

/// Finds a program. Entries of PATH that depend on the current directory are passed over.
pub(crate) fn find(program: &OsStr, surroundings: &Surroundings<'_>) -> Option<PathBuf> {
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if program.as_bytes().contains(&b'/') {
        let path = match program.as_bytes().strip_prefix(b"~/") {
            Some(below) => surroundings.home.join(OsStr::from_bytes(below)),
            None => program.into(),
        };
        return is_program(&path).then_some(path);
    }
    let path: OsString = surroundings.variable("PATH")?.to_owned();
    let candidates =
        std::env::split_paths(&path).filter(|folder| folder.is_absolute()).map(|folder| folder.join(program));
    candidates.into_iter().find(|path| is_program(path))
}
