//! A session: a cage that stays, for many commands. It is a value that is handed on, and never found by itself.
//!
//! No function looks a session up: not by thread, not by task, not in the environment. It belongs to the process that opened it, and ends
//! with the value, or with that process.

use super::approvals::{Approver, Question, answer_questions};
use super::child::{Child, ExitStatus, Output};
use super::error::{Error, ErrorKind};
use super::executable::executable;
use super::flags::{Flags, flag_methods};
use super::schema;
use super::streams::{Stdio, Stream, Way};
use super::tools::{self, Tool};
use keyward_client::{Client, Decision, Person, Runtime};
use keyward_policy::detect::registry::{known, name_shape, value_shape};
use keyward_protocol::session::{Answer, Ask, JudgedAs, Judging, Value};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So many notices are kept.
const MOST_NOTICES: usize = 100;
/// Connections that wait for the next command.
const MOST_IDLE: usize = 16;
/// How long the end of a session is waited for.
const LAST: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// What was found in the project, in the words of `keyward run`.
#[derive(Clone, Default)]
pub(super) struct Notices(Arc<Mutex<VecDeque<String>>>);

impl Person for Notices {
    fn hear(&mut self, text: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_back(text.to_owned());
        while all.len() > MOST_NOTICES {
            all.pop_front();
        }
    }

    /// Questions are answered by a connection of their own.
    fn decide(&mut self, _: u64, _: Option<OwnedFd>, _: &mut dyn FnMut() -> bool) -> Option<Decision> {
        None
    }
}

/// Where a session is, and the connections to it that wait for the next command.
#[derive(Clone)]
pub(super) struct Place {
    runtime: Runtime,
    name: String,
    notices: Notices,
    idle: Arc<Mutex<Vec<Client<Notices>>>>,
}

impl Place {
    pub(super) fn connect(&self) -> Result<Client<Notices>, Error> {
        Client::open(&self.runtime, &self.name, self.notices.clone()).map_err(|error| match error {
            keyward_client::Error::NoSession { .. } => Error::lost(),
            other => other.into(),
        })
    }

    /// A connection on which nothing is under way.
    fn take(&self) -> Result<Client<Notices>, Error> {
        let waiting = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        waiting.map_or_else(|| self.connect(), Ok)
    }

    /// Keeps a connection on which everything was answered.
    pub(super) fn give_back(&self, client: Client<Notices>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MOST_IDLE {
            idle.push(client);
        }
    }
}

/// How a session is opened. Methods beside those below are the flags of `keyward run`; they hold for every command of it.
#[derive(Clone)]
pub struct Options {
    flags: Flags,
    name: Option<String>,
    directory: Option<PathBuf>,
    approver: Option<Approver>,
    patience: Duration,
}

flag_methods!(Options);

impl Default for Options {
    fn default() -> Self {
        let patience = Duration::from_secs(600);
        Options { flags: Flags::default(), name: None, directory: None, approver: None, patience }
    }
}

impl Options {
    /// The name of the session; without one, Keyward chooses it.
    pub fn name(&mut self, name: impl Into<String>) -> &mut Self {
        self.name = Some(name.into());
        self
    }

    /// The directory that the session starts in.
    pub fn current_dir(&mut self, directory: impl AsRef<Path>) -> &mut Self {
        self.directory = Some(directory.as_ref().into());
        self
    }

    /// `--env`: a variable of every command.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.flags.add("--env", [name.as_ref(), value.as_ref()].join(OsStr::new("=")));
        self
    }

    /// Asks this function when the gate has a question. It is called on a thread of its own, and says `true` for yes. A panic, and no
    /// answer in time, are a no. Without it, a command that needs an approval is denied, unless another approver is there.
    pub fn on_approval(&mut self, approver: impl Fn(&Question) -> bool + Send + Sync + 'static) -> &mut Self {
        self.approver = Some(Arc::new(approver));
        self
    }

    /// How long an answer may take: ten minutes, unless you say otherwise.
    pub fn approval_timeout(&mut self, patience: Duration) -> &mut Self {
        self.patience = patience;
        self
    }

    /// Opens the session.
    pub fn open(&self) -> Result<Session, Error> {
        let name = self.start()?;
        let directory = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
        // As the launcher that has just answered from the same environment.
        let home = directory("HOME").filter(|home| home.is_absolute());
        let home = home.or_else(std::env::home_dir).unwrap_or_else(|| "/".into());
        let runtime = Runtime::new(directory("XDG_RUNTIME_DIR"), directory("XDG_STATE_HOME"), &home);
        let place = Place { runtime, name, notices: Notices::default(), idle: Arc::default() };
        let mut owner = place.connect()?;
        owner.hello()?;
        owner.request(&Ask::Own {})?;
        let session = Session { place, owner: Mutex::new(owner), process: std::process::id() };
        if let Some(approver) = &self.approver {
            let mut client = session.place.connect()?;
            client.request(&Ask::Watch {})?;
            answer_questions(client, session.place.clone(), approver.clone(), self.patience)
                .map_err(|error| Error::system("cannot start a thread", &error))?;
        }
        Ok(session)
    }

    fn start(&self) -> Result<String, Error> {
        // keyward: allow-spawn the launcher decides what commands get of the caller's variables
        let mut launcher = std::process::Command::new(executable()?);
        // If this process dies before it owns the session, that ends by itself.
        launcher.args(["session", "start", "--json", "--owned-within", "30s"]).args(self.flags.words());
        if let Some(name) = &self.name {
            launcher.args(["--name", name]);
        }
        if let Some(directory) = &self.directory {
            launcher.arg("--cwd").arg(directory);
        }
        let told = launcher.stdin(std::process::Stdio::null()).output();
        let told = told.map_err(|error| Error::system("cannot start the launcher", &error))?;
        let answer = serde_json::from_slice::<Value>(&told.stdout).unwrap_or_default();
        if let Some(name) = answer.get("session").and_then(Value::as_str) {
            return Ok(name.to_owned());
        }
        let text = String::from_utf8_lossy(&told.stderr);
        let mut lines = text.trim().lines();
        match lines.next_back().map(serde_json::from_str::<Value>) {
            Some(Ok(outcome)) if outcome.get("fact").is_some() => Err(Error::of_outcome(&outcome)),
            _ => Err(Error::of_launcher(told.status.code(), &told.stderr)),
        }
    }
}

/// As what the gate judges the calls of a host tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged(Judging);

impl Judged {
    /// A line for a shell.
    pub fn sh() -> Self {
        Judged::of(JudgedAs::Sh)
    }

    /// Python.
    pub fn python() -> Self {
        Judged::of(JudgedAs::Python)
    }

    /// JavaScript.
    pub fn js() -> Self {
        Judged::of(JudgedAs::Js)
    }

    /// A list of words.
    pub fn argv() -> Self {
        Judged::of(JudgedAs::Argv)
    }

    /// An approver is asked in any case.
    pub fn ask() -> Self {
        Judged::of(JudgedAs::Ask)
    }

    /// The field of the input that holds it; without one it is the whole input.
    pub fn field(mut self, name: impl Into<String>) -> Self {
        self.0.field = Some(name.into());
        self
    }

    fn of(kind: JudgedAs) -> Self {
        Judged(Judging { kind, field: None })
    }
}

/// A cage that stays. Hand it on by reference, or in an `Arc`; threads act for the session that they were handed or for none. It ends when
/// it is dropped, with everything in it.
pub struct Session {
    place: Place,
    owner: Mutex<Client<Notices>>,
    process: u32,
}

impl Session {
    /// Opens a session by the policy alone.
    pub fn open() -> Result<Self, Error> {
        Options::default().open()
    }

    /// For a session with flags, an approver or a name.
    pub fn options() -> Options {
        Options::default()
    }

    pub fn name(&self) -> &str {
        &self.place.name
    }

    /// A command in this session, in the shape of `std::process::Command`.
    pub fn command(&self, program: impl AsRef<OsStr>) -> SessionCommand<'_> {
        SessionCommand {
            session: self,
            argv: vec![program.as_ref().into()],
            variables: BTreeMap::new(),
            directory: None,
            streams: [None, None, None],
            sent: keyward_client::Command { line: Some(false), ..keyward_client::Command::default() },
        }
    }

    /// Runs a command with the streams of this program.
    pub fn run(&self, argv: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<ExitStatus, Error> {
        let mut words = argv.into_iter();
        let Some(program) = words.next() else {
            return Err(Error::usage("the command is empty", "name a program"));
        };
        self.command(program).args(words).status()
    }

    /// Runs a line of bash that finds directory, variables, functions and options of the last line again.
    pub fn shell(&self, line: impl AsRef<OsStr>) -> Result<Output, Error> {
        let mut command = self.command(line);
        command.sent.line = Some(true);
        command.output()
    }

    /// Lets commands that name this tool call a function of this program, with JSON. `schema` is a JSON Schema of the input. The function is
    /// called on a thread of its own; what it gives is passed on without what looks like a credential.
    pub fn tool(
        &self,
        name: &str,
        schema: Option<Value>,
        function: impl Fn(Value) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.offer(name, schema, None, function)
    }

    /// As [`Session::tool`], and the gate judges the input of each call first. What it says no to does not reach the function.
    pub fn judged_tool(
        &self,
        name: &str,
        schema: Option<Value>,
        judged: Judged,
        function: impl Fn(Value) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.offer(name, schema, Some(judged), function)
    }

    fn offer(
        &self,
        name: &str,
        schema: Option<Value>,
        judged: Option<Judged>,
        function: impl Fn(Value) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        if let Some(mistake) = schema.as_ref().and_then(schema::mistake) {
            return Err(Error::usage(
                format!("the schema of {name}: {mistake}"),
                "see docs/rust.md for what is",
            ));
        }
        self.check()?;
        let mut client = self.place.connect()?;
        let sender = client.sender()?;
        let judged = judged.map(|judged| (name.to_owned(), judged.0)).into_iter().collect();
        client.request(&Ask::Offer { names: vec![name.into()], judged, named: true })?;
        tools::serve(client, sender, Tool { schema, function: Box::new(function) })
            .map_err(|error| Error::system("cannot start a thread", &error))
    }

    /// What was found in the project since this was last asked, in the words of `keyward run`: the latest hundred.
    pub fn notices(&self) -> Vec<String> {
        self.place.notices.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    /// Ends the session with everything in it, as dropping it does, and gives the last notices.
    pub fn close(self) -> Vec<String> {
        self.end();
        self.notices()
    }

    /// A copy of the process that forked has not opened it.
    fn check(&self) -> Result<(), Error> {
        if self.process == std::process::id() {
            return Ok(());
        }
        let fact = format!("the session belongs to process {}", self.process);
        Err(Error::new(ErrorKind::SessionLost, fact, "open one in the process that needs it"))
    }

    /// A connection for one request, on which nothing is under way.
    fn take(&self) -> Result<Client<Notices>, Error> {
        self.check()?;
        self.place.take()
    }

    fn request(&self, ask: &Ask) -> Result<(Answer, Vec<OwnedFd>), Error> {
        let mut client = self.take()?;
        let answer = client.request_with(ask);
        self.keep_if_answered(client, answer)
    }

    /// A connection on which the session has answered, also with a refusal, is used again.
    fn keep_if_answered<T>(
        &self,
        client: Client<Notices>,
        answer: Result<T, keyward_client::Error>,
    ) -> Result<T, Error> {
        if matches!(answer, Ok(_) | Err(keyward_client::Error::Refused { .. })) {
            self.place.give_back(client);
        }
        Ok(answer?)
    }

    fn end(&self) {
        if self.check().is_err() {
            return;
        }
        self.place.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        if owner.request(&Ask::Stop {}).is_err() {
            return;
        }
        loop {
            let mut polled = [PollFd::from_borrowed_fd(owner.as_fd(), PollFlags::IN)];
            match poll(&mut polled, Some(&LAST)) {
                Ok(1..) if owner.next_answer().is_ok() => {}
                // The end of the connection is the end of the session.
                _ => return,
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Session").field("name", &self.place.name).finish_non_exhaustive()
    }
}

/// A command of a session. What it may do was decided when the session was opened.
pub struct SessionCommand<'a> {
    session: &'a Session,
    argv: Vec<OsString>,
    variables: BTreeMap<OsString, Option<OsString>>,
    directory: Option<PathBuf>,
    streams: [Option<Stdio>; 3],
    sent: keyward_client::Command,
}

impl<'a> SessionCommand<'a> {
    pub fn arg(&mut self, argument: impl AsRef<OsStr>) -> &mut Self {
        self.argv.push(argument.as_ref().into());
        self
    }

    pub fn args(&mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Self {
        self.argv.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets a variable, with `env` in the cage. A value that looks like a credential is refused.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.variables.insert(name.as_ref().into(), Some(value.as_ref().into()));
        self
    }

    pub fn env_remove(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.variables.insert(name.as_ref().into(), None);
        self
    }

    pub fn current_dir(&mut self, directory: impl AsRef<Path>) -> &mut Self {
        self.directory = Some(directory.as_ref().into());
        self
    }

    pub fn stdin(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.streams[0] = Some(stream.into());
        self
    }

    pub fn stdout(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.streams[1] = Some(stream.into());
        self
    }

    pub fn stderr(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.streams[2] = Some(stream.into());
        self
    }

    /// Ends the command after this time, with everything that it has started.
    pub fn timeout(&mut self, time: Duration) -> &mut Self {
        self.sent.timeout = Some(time);
        self
    }

    /// Runs it in a cage of its own.
    pub fn fresh(&mut self) -> &mut Self {
        self.sent.fresh = true;
        self
    }

    /// A host tool that the command may call.
    pub fn tool(&mut self, name: impl Into<String>) -> &mut Self {
        self.sent.tools.push(name.into());
        self
    }

    /// Starts it, with the streams of this program unless others are named. A denial is told here.
    pub fn spawn(&mut self) -> Result<Child, Error> {
        self.start([Stdio::Inherit, Stdio::Inherit, Stdio::Inherit])
    }

    /// Runs it, with the streams of this program unless others are named.
    pub fn status(&mut self) -> Result<ExitStatus, Error> {
        self.spawn()?.wait()
    }

    /// Runs it, without input, and gives what it has printed.
    pub fn output(&mut self) -> Result<Output, Error> {
        self.start([Stdio::Null, Stdio::Piped, Stdio::Piped])?.wait_with_output()
    }

    /// Starts it in the background: it goes on without a client until the session ends, which keeps its output.
    pub fn background(&mut self) -> Result<Background<'a>, Error> {
        if self.streams.iter().any(Option::is_some) {
            let fact = "the streams of a background job are the session's";
            return Err(Error::usage(fact, "leave them out; output() gives what the job has printed"));
        }
        let command = keyward_client::Command { background: true, ..self.command()? };
        let mut client = self.session.take()?;
        let started = client.start(&command, &[]);
        let job = self.session.keep_if_answered(client, started)?;
        Ok(Background { session: self.session, job })
    }

    fn start(&self, otherwise: [Stdio; 3]) -> Result<Child, Error> {
        let command = self.command()?;
        let wanted = |number: usize| self.streams[number].as_ref().unwrap_or(&otherwise[number]);
        let stdin = Stream::new(wanted(0), std::io::stdin(), Way::In)?;
        let stdout = Stream::new(wanted(1), std::io::stdout(), Way::Out)?;
        let stderr = Stream::new(wanted(2), std::io::stderr(), Way::Out)?;
        let mut client = self.session.take()?;
        let streams = [stdin.sent.as_fd(), stdout.sent.as_fd(), stderr.sent.as_fd()];
        let job = match client.start(&command, &streams) {
            Ok(job) => job,
            Err(refused) => return self.session.keep_if_answered(client, Err(refused)),
        };
        let pipes = (stdin.ours.map(Into::into), stdout.ours.map(Into::into), stderr.ours.map(Into::into));
        Ok(Child::of_session(client, job, self.session.place.clone(), pipes))
    }

    fn command(&self) -> Result<keyward_client::Command, Error> {
        let mut argv = self.environment()?;
        argv.extend(self.argv.iter().cloned());
        if argv.iter().any(|word| word.as_bytes().contains(&0)) {
            return Err(Error::usage("a word of the command has a null byte", "leave it out"));
        }
        let here = std::env::current_dir().ok();
        let is_line = self.sent.line == Some(true);
        let cwd = match (&self.directory, &here) {
            (Some(directory), Some(here)) => Some(here.join(directory)),
            (Some(directory), None) => Some(directory.clone()),
            (None, _) if is_line => None,
            (None, here) => here.clone(),
        };
        Ok(keyward_client::Command { argv, cwd, from: here, ..self.sent.clone() })
    }

    /// The words before the command that set and remove variables.
    fn environment(&self) -> Result<Vec<OsString>, Error> {
        if self.variables.is_empty() {
            return Ok(Vec::new());
        }
        let mut words = vec![OsString::from("env")];
        for name in self.variables.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name) {
            words.extend(["-u".into(), name.clone()]);
        }
        for (name, value) in self.variables.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
            let bytes = name.as_bytes();
            if bytes.is_empty() || bytes.contains(&b'=') {
                let fact = format!("{} is not the name of a variable", name.display());
                return Err(Error::usage(fact, "a name is not empty, and has no `=`"));
            }
            let shape = name_shape(bytes).is_some() || value_shape(value.as_bytes()).is_some();
            if shape || known(bytes).is_some() {
                let fact =
                    format!("{} looks like a credential, and is not set for a command", name.display());
                let remedy = "open the session with inherit_credentials, or deliver it with secret()";
                return Err(Error::new(ErrorKind::Refused, fact, remedy));
            }
            words.push([name.as_os_str(), value].join(OsStr::new("=")));
        }
        Ok(words)
    }
}

/// A command that the session looks after. It ends with the session.
#[derive(Debug)]
pub struct Background<'a> {
    session: &'a Session,
    job: u32,
}

impl Background<'_> {
    /// The number of the job: `keyward logs SESSION/JOB` shows the same output.
    pub fn job(&self) -> u32 {
        self.job
    }

    /// Its code; `None` if it still runs.
    pub fn try_wait(&self) -> Result<Option<ExitStatus>, Error> {
        let (Answer::Jobs { jobs, .. }, _) = self.session.request(&Ask::Jobs {})? else {
            return Err(Error::lost());
        };
        let found = jobs.into_iter().find(|job| job.job == self.job);
        Ok(found.and_then(|job| job.exit).map(ExitStatus::of_code))
    }

    /// Waits for its end, at most for this long; `None` if it still runs.
    pub fn wait(&self, within: Duration) -> Result<Option<ExitStatus>, Error> {
        let until = Instant::now() + within;
        let mut pause = Duration::from_millis(5);
        loop {
            let status = self.try_wait()?;
            if status.is_some() || Instant::now() >= until {
                return Ok(status);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    /// What it has printed until now: the first 16 MiB.
    pub fn output(&self) -> Result<Vec<u8>, Error> {
        let (_, descriptors) = self.session.request(&Ask::Log { job: self.job, follow: false })?;
        let Some(file) = descriptors.into_iter().next() else { return Err(Error::lost()) };
        let mut content = Vec::new();
        let read = File::from(file).read_to_end(&mut content);
        read.map_err(|error| Error::system("cannot read the output", &error))?;
        Ok(content)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) -> Result<(), Error> {
        self.session.request(&Ask::Signal { job: self.job, signal }).map(drop)
    }

    /// Ends it with everything that it has started.
    pub fn kill(&self) -> Result<(), Error> {
        self.session.request(&Ask::Kill { job: self.job }).map(drop)
    }
}
