//! The client's side of the door: a connection, a command with this process's own streams, a terminal that is relayed.

use super::Trouble;
use super::screen::{self, Relay, Role, Screen};
use crate::args::ExecArgs;
use crate::here::Runtime;
use crate::question::{self, Reply};
use crate::say;
use keyward_launch::supervise::PASSED_ON;
use keyward_policy::gate::Reach;
use keyward_policy::outcome::{Conclusion, Outcome, Promises, code};
use keyward_policy::promise::Kept;
use keyward_policy::text::visible;
use keyward_protocol::packet::{self, LONGEST};
use keyward_protocol::session::{Answer, Ask, CAGE_DOOR, Terminal};
use keyward_sys::signal::{Inbox, Set};
use keyward_sys::{Errno, channel, signal, terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Signal;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

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
                    let trouble =
                        Trouble::new(format!("{text} names no job"), "a job is a number: SESSION/JOB");
                    return Err(Trouble { exit: code::USAGE, ..trouble });
                }
            },
        };
        Ok(Target { session: session.into(), job })
    }
}

/// The folder of a session that is started now.
pub fn folder(runtime: &Runtime, name: &str) -> PathBuf {
    runtime.own().join("sessions").join(name)
}

/// Where a session tells what its cage keeps, for the outcome of its commands.
pub fn promises_file(entries: &[&[u8]], name: &OsStr) -> PathBuf {
    folder(&crate::here::runtime(entries), &name.to_string_lossy()).join("held")
}

/// A session without it still runs: then its outcomes name no promise.
pub fn write_promises(file: &Path, promises: &[Kept]) {
    let _ = serde_json::to_vec(promises).map(|text| std::fs::write(file, text));
}

/// Where every shell finds a session that is not in the state folder itself: a link to its folder.
pub fn pointer(runtime: &Runtime, name: &str) -> PathBuf {
    runtime.by_state.join("elsewhere").join(name)
}

/// The folders that a session of this name can have.
pub fn folders(runtime: &Runtime, name: &str) -> Vec<PathBuf> {
    let mut all = vec![folder(runtime, name), runtime.by_state.join("sessions").join(name)];
    all.extend(std::fs::read_link(pointer(runtime, name)));
    all.dedup();
    all
}

/// The names of the sessions that are there.
pub fn names(runtime: &Runtime) -> Vec<String> {
    let places = [
        runtime.own().join("sessions"),
        runtime.by_state.join("sessions"),
        runtime.by_state.join("elsewhere"),
    ];
    let entries = places.iter().flat_map(|place| std::fs::read_dir(place).into_iter().flatten().flatten());
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names.dedup();
    names
}

/// Removes what killed sessions have left: no process holds their locks any more.
pub fn clean(runtime: &Runtime) {
    for name in names(runtime) {
        let folders = folders(runtime, &name);
        folders.iter().for_each(|folder| clean_folder(folder));
        if !folders.iter().any(|folder| folder.join("lock").exists()) {
            let _ = std::fs::remove_file(pointer(runtime, &name));
        }
    }
}

/// Whether a process holds the lock of a session of this name.
pub fn is_there(runtime: &Runtime, name: &str) -> bool {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    folders(runtime, name).iter().any(|folder| {
        let lock = rustix::fs::open(folder.join("lock"), flags, Mode::empty());
        lock.is_ok_and(|lock| {
            rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
        })
    })
}

fn clean_folder(folder: &Path) {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(lock) = rustix::fs::open(folder.join("lock"), flags, Mode::empty()) else {
        // Empty, or being made.
        let _ = std::fs::remove_dir(folder);
        return;
    };
    if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// A name that is a folder's as well.
pub fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=64).contains(&name.len()) && name.as_bytes()[0].is_ascii_alphanumeric() && name.bytes().all(fits)
}

/// The address of a socket, which may lie deeper than an address is long: by the descriptor of its folder.
pub fn address(folder: &OwnedFd) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new(Path::new(&format!("/proc/self/fd/{}/door", folder.as_raw_fd())))
}

pub fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

/// What ends the wait for an answer: the answer itself, or a signal.
enum First {
    Answer(Answer, Vec<OwnedFd>),
    Signal(i32),
}

/// How long a client waits before it checks whether the session still answers, and then for that answer.
const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// A connection to a session.
pub struct Door {
    socket: OwnedFd,
    /// Where it leads to; from inside a cage that is not known.
    folder: Option<PathBuf>,
    /// The question that the person who reads our words has said no to.
    denied_here: Option<u64>,
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn connect(folder: &Path) -> Result<OwnedFd, Errno> {
    let folder = open_folder(folder)?;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    // Do not block on a session that has stopped accepting connections.
    let patience = std::time::Duration::from_secs(PATIENCE.tv_sec.unsigned_abs());
    rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Send, Some(patience))?;
    rustix::net::connect(&socket, &address(&folder)?)?;
    Ok(socket)
}

fn deaf() -> Trouble {
    Trouble::new(
        "the session does not answer",
        "its process `keyward:session` is stopped or overloaded; resume it with `kill -CONT`, or end it",
    )
}

impl Door {
    pub fn open(runtime: &Runtime, name: &str) -> Result<Self, Trouble> {
        let absent = || Trouble {
            exit: code::USAGE,
            ..Trouble::new(
                format!("there is no session {}", visible(name.as_ref())),
                "`keyward ps` lists those that are there; `keyward session start` makes one",
            )
        };
        if !is_name(name) {
            return Err(absent());
        }
        for folder in folders(runtime, name) {
            match connect(&folder) {
                Ok(socket) => return Ok(Door { socket, folder: Some(folder), denied_here: None }),
                // It has stopped accepting connections.
                Err(Errno::AGAIN) => return Err(deaf()),
                Err(_) => {}
            }
        }
        Err(absent())
    }

    /// The door as a cage has it; `None` where this is no cage of a session.
    pub fn inside() -> Option<Self> {
        rustix::fs::lstat(CAGE_DOOR).ok()?;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .ok()?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(CAGE_DOOR).ok()?).ok()?;
        Some(Door { socket, folder: None, denied_here: None })
    }

    pub fn ask(&mut self, ask: &Ask, descriptors: &[BorrowedFd<'_>]) -> Result<(), Trouble> {
        let packet = packet::write(ask);
        let sent = if packet.len() > LONGEST {
            Err(Errno::MSGSIZE)
        } else {
            channel::send(&self.socket, &packet, descriptors)
        };
        sent.map_err(|errno| match errno {
            Errno::MSGSIZE => Trouble::new(
                "the command is too long for the session socket",
                "put it into a script in the project",
            ),
            Errno::AGAIN => deaf(),
            _ => gone(),
        })
    }

    /// Whether the session has stopped answering, tested with a new connection. Only the first answer of a command may take long.
    fn is_deaf(&self) -> bool {
        let Some(folder) = &self.folder else { return false };
        let Ok(socket) = connect(folder) else { return true };
        let mut second = Door { socket, folder: None, denied_here: None };
        if second.ask(&Ask::Hello {}, &[]).is_err() {
            return true;
        }
        let mut polled = [PollFd::new(&second.socket, PollFlags::IN)];
        matches!(poll(&mut polled, Some(&PATIENCE)), Ok(0))
    }

    pub fn next(&mut self) -> Result<(Answer, Vec<OwnedFd>), Trouble> {
        let mut packet = vec![0; LONGEST];
        let message = channel::receive(&self.socket, &mut packet).map_err(|_| gone())?;
        let answer = packet::read::<Answer>(&packet[..message.length]).ok_or_else(gone)?;
        match answer {
            Answer::Said { text } => {
                say::words(&text);
                self.next()
            }
            Answer::Refused { exit, fact, remedy } => {
                let exit = exit.unwrap_or(code::REFUSED);
                let remedy = match self.denied_here {
                    Some(id) if exit == code::DENIED => format!(
                        "`keyward approvals allow {id}` lets it run once; what the same rule asks about stays denied in this session"
                    ),
                    _ => remedy,
                };
                Err(Trouble { exit, fact, remedy })
            }
            answer => Ok((answer, message.descriptors)),
        }
    }

    /// Waits for the first answer, or for a signal that ends the wait.
    fn first(&mut self, inbox: &Inbox) -> Result<First, Trouble> {
        loop {
            let mut polled = [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(inbox, PollFlags::IN)];
            if poll(&mut polled, Some(&PATIENCE)) == Ok(0) && self.is_deaf() {
                return Err(deaf());
            }
            if !polled[0].revents().is_empty() {
                match self.next()? {
                    (Answer::Question(asked), descriptors) => {
                        self.answer_question(asked.question, descriptors.into_iter().next())?;
                    }
                    // It was answered, here or elsewhere.
                    (Answer::Settled { .. } | Answer::Done {}, _) => {}
                    (answer, descriptors) => return Ok(First::Answer(answer, descriptors)),
                }
                continue;
            }
            match inbox.next().map(|received| received.signal) {
                Some(signal) if signal == Signal::TSTP.as_raw() => signal::stop_self(signal),
                Some(signal) if signal == Signal::WINCH.as_raw() || signal == Signal::CONT.as_raw() => {}
                Some(signal) => return Ok(First::Signal(signal)),
                None => {}
            }
        }
    }

    /// Asks the person at our terminal, unless another approver is faster. A question that cannot be shown is left to others.
    fn answer_question(&mut self, id: u64, document: Option<OwnedFd>) -> Result<(), Trouble> {
        let mut text = Vec::new();
        let read = document.map(|document| std::fs::File::from(document).read_to_end(&mut text));
        let question = read.and_then(Result::ok).and_then(|_| serde_json::from_slice(&text).ok());
        let (Some(question), Some(terminal)) = (question, question::own_terminal()) else { return Ok(()) };
        // The session says when the time is over.
        let until = SystemTime::now() + Duration::from_secs(30 * 86_400);
        let socket = &self.socket;
        let reply = question::ask(&question, id, terminal, until, &mut || {
            let mut polled = [PollFd::new(socket, PollFlags::IN)];
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            matches!(poll(&mut polled, Some(&at_once)), Ok(1)).then_some(false)
        });
        if matches!(reply, Reply::Elsewhere(_)) {
            return Ok(());
        }
        let (allow, reach) = reply.said().unwrap_or((false, Reach::Once));
        // An agent that reads our words is told not to look for another way.
        let is_person = terminal::is_terminal(rustix::stdio::stderr());
        self.denied_here = (!allow && is_person).then_some(id);
        self.ask(&Ask::Decide { question: id, allow, reach }, &[])
    }

    pub fn request(&mut self, ask: &Ask) -> Result<Answer, Trouble> {
        self.request_with(ask).map(|(answer, _)| answer)
    }

    pub fn request_with(&mut self, ask: &Ask) -> Result<(Answer, Vec<OwnedFd>), Trouble> {
        self.ask(ask, &[])?;
        loop {
            let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
            if poll(&mut polled, Some(&PATIENCE)) == Ok(0) {
                if self.is_deaf() {
                    return Err(deaf());
                }
                continue;
            }
            return self.next();
        }
    }

    /// Sends a request and returns its answer, but does not wait longer than two seconds.
    pub fn request_soon(&mut self, ask: &Ask) -> Result<Answer, Trouble> {
        self.ask(ask, &[])?;
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut polled, Some(&Timespec { tv_sec: 2, tv_nsec: 0 })) {
            Ok(1) => self.next().map(|(answer, _)| answer),
            _ => Err(deaf()),
        }
    }

    pub fn done(&mut self, ask: &Ask) -> Result<i32, Trouble> {
        self.request(ask).map(|_| 0)
    }
}

pub fn gone() -> Trouble {
    Trouble::new("the session has ended", "`keyward session start` makes another")
}

/// How a command has ended.
pub struct Ended {
    pub exit: i32,
    pub signal: Option<i32>,
    pub limit: Option<String>,
}

impl Ended {
    /// Says what has to be said, to a person or to a program; gives the exit code.
    fn tell_as(self, json: bool, session: Option<&Path>) -> i32 {
        let Ended { exit, signal, limit } = self;
        let result = match (limit.as_deref(), signal) {
            (Some("cpu"), _) => Conclusion::Limit {
                limit: "cpu",
                fact: "the command was ended: it reached the limit cpu".into(),
                remedy: "a session started with a higher one has it for all its commands",
            },
            (Some(_), _) => Conclusion::Limit {
                limit: "wall",
                fact: "the command was ended: it reached its time limit".into(),
                remedy: "give it more with `--timeout`",
            },
            (None, Some(signal)) => Conclusion::Signalled { signal },
            (None, None) => Conclusion::Exited,
        };
        match result {
            result if json => {
                let held = session.and_then(|folder| std::fs::read(folder.join("held")).ok());
                let held = held.and_then(|text| serde_json::from_slice(&text).ok()).map(Promises::Written);
                let outcome = Outcome::without_run(exit, result);
                say::outcome(&Outcome { held: held.unwrap_or(Promises::Of(&[])), ..outcome });
            }
            Conclusion::Limit { fact, remedy, .. } => say::trouble(&fact, remedy),
            _ => {}
        }
        exit
    }

    fn tell(self) -> i32 {
        self.tell_as(false, None)
    }
}

/// Runs a command in a session, as if it were run here: what is a terminal of ours is one of the cage's own there.
pub fn exec(door: &mut Door, args: &ExecArgs) -> Result<i32, Trouble> {
    let streams = match (args.pty, args.background) {
        (true, _) => [true; 3],
        (false, true) => [false; 3],
        (false, false) => keyward_launch::terminals(),
    };
    let screen = streams.contains(&true).then(|| Screen::new(streams));
    let wish = screen.as_ref().map(|screen| screen.wish(streams));
    let ask = Ask::Exec {
        argv: args.command.iter().map(|word| word.as_os_str().into()).collect(),
        cwd: args.cwd.as_ref().map(|cwd| cwd.as_os_str().into()),
        from: std::env::current_dir().ok().map(|from| from.as_os_str().into()),
        background: args.background,
        // A background job is always in front: no other process reads from its terminal.
        terminal: wish.map(|wish| Terminal { front: wish.front || args.background, ..wish }),
        timeout_ms: args.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        fresh: args.fresh,
        answers: question::has_terminal(),
    };
    let inbox = inbox()?;
    let given = own_streams().into_iter().zip(streams).filter(|(_, is_terminal)| !is_terminal);
    let given: Vec<BorrowedFd<'_>> = given.map(|(own, _)| own).filter(|_| !args.background).collect();
    // What is sent to a session that was stopped stays open as long as that one is there.
    door.request(&Ask::Hello {})?;
    door.ask(&ask, &given)?;
    let (answer, descriptors) = match door.first(&inbox)? {
        First::Answer(answer, descriptors) => (answer, descriptors),
        First::Signal(signal) => return Ok(128 + signal),
    };
    let Answer::Started { job } = answer else {
        return match answer {
            Answer::Ended { exit, signal, limit, .. } => {
                Ok(Ended { exit, signal, limit }.tell_as(args.json, door.folder.as_deref()))
            }
            _ => Err(gone()),
        };
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
    let ended = match (screen, descriptors.into_iter().next()) {
        (Some(screen), Some(main)) => {
            let relay = Relay { door, job, inbox: &inbox, screen, role: Role::Owner, main, shown: None };
            relay.run()?.ok_or_else(gone)?
        }
        _ => wait(door, job, &inbox, Vec::new())?,
    };
    Ok(ended.tell_as(args.json, door.folder.as_deref()))
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

fn own_streams() -> [BorrowedFd<'static>; 3] {
    [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()]
}

/// From inside a cage: runs a command in one beside it.
pub fn run_beside(door: &mut Door, command: &[OsString]) -> Result<i32, Trouble> {
    let ask = Ask::Exec {
        argv: command.iter().map(|word| word.as_os_str().into()).collect(),
        cwd: std::env::current_dir().ok().map(|cwd| cwd.as_os_str().into()),
        from: None,
        background: false,
        terminal: None,
        timeout_ms: None,
        fresh: true,
        answers: false,
    };
    let inbox = inbox()?;
    let copies = ask_with_streams(door, &ask)?;
    match door.first(&inbox)? {
        First::Answer(Answer::Started { job }, _) => wait(door, job, &inbox, copies).map(Ended::tell),
        First::Answer(Answer::Ended { exit, .. }, _) => Ok(exit),
        First::Answer(..) => Err(gone()),
        First::Signal(signal) => Ok(128 + signal),
    }
}

/// Pairs of descriptors: the source to copy from, and the destination.
type Copies = Vec<(OwnedFd, BorrowedFd<'static>)>;

/// Asks with our own streams. A terminal is not handed over: what would be read from it is nothing, what is printed runs through us.
fn ask_with_streams(door: &mut Door, ask: &Ask) -> Result<Copies, Trouble> {
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
        streams.push(stream.map_err(|_| no_descriptors())?);
    }
    let borrowed: Vec<BorrowedFd<'_>> = streams.iter().map(AsFd::as_fd).collect();
    door.ask(ask, &borrowed)?;
    Ok(copies)
}

fn no_descriptors() -> Trouble {
    Trouble::new(
        "no descriptor is left for the command's streams",
        "close some, or raise the limit on open files",
    )
}

/// Signals are passed on to a command that runs for us, as those of a run are.
pub fn inbox() -> Result<Inbox, Trouble> {
    let set = Set::of(PASSED_ON);
    signal::block(&set);
    Inbox::new(&set).map_err(|_| no_descriptors())
}

/// Waits for the end of a job, and passes signals on meanwhile.
fn wait(door: &mut Door, job: u32, inbox: &Inbox, mut copies: Copies) -> Result<Ended, Trouble> {
    let mut ended = None;
    loop {
        let mut polled = vec![PollFd::new(inbox, PollFlags::IN)];
        if ended.is_none() {
            polled.push(PollFd::new(&door.socket, PollFlags::IN));
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
                door.ask(&Ask::Signal { job, signal: Signal::STOP.as_raw() }, &[])?;
                signal::stop_self(received.signal);
                door.ask(&Ask::Signal { job, signal: Signal::CONT.as_raw() }, &[])?;
            } else {
                door.ask(&Ask::Signal { job, signal: received.signal }, &[])?;
            }
        }
        let mut place = first;
        copies.retain(|(from, to)| {
            place += 1;
            !ready[place - 1] || copy(from, to)
        });
        if ended.is_none() && ready.get(1) == Some(&true) {
            ended = told_end(door, job)?;
        }
        if let Some(ended) = ended.take_if(|_| copies.is_empty() || found == Ok(0)) {
            return Ok(ended);
        }
    }
}

/// The next answer, if it is the end of this job.
fn told_end(door: &mut Door, job: u32) -> Result<Option<Ended>, Trouble> {
    match door.next()?.0 {
        Answer::Ended { job: ended, exit, signal, limit } if ended == job => {
            Ok(Some(Ended { exit, signal, limit }))
        }
        _ => Ok(None),
    }
}

/// Copies what is there; `false` at the end.
pub fn copy(from: impl AsFd, to: impl AsFd) -> bool {
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

pub fn attach(door: &mut Door, job: u32) -> Result<i32, Trouble> {
    let inbox = inbox()?;
    Ok(screen::attach(door, job, &inbox)?.map_or(0, Ended::tell))
}

/// Prints the output that is kept; with `follow` until the job has ended.
pub fn logs(door: &mut Door, job: u32, follow: bool) -> Result<i32, Trouble> {
    let (answer, descriptors) = door.request_with(&Ask::Log { job, follow })?;
    let (Answer::Log { ended, .. }, Some(file)) = (answer, descriptors.into_iter().next()) else {
        return Err(gone());
    };
    let mut over = ended || !follow;
    loop {
        while copy(&file, rustix::stdio::stdout()) {}
        if over {
            return Ok(0);
        }
        let mut polled = [PollFd::new(&door.socket, PollFlags::IN)];
        let _ = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 100_000_000 }));
        if !polled[0].revents().is_empty() {
            // Its end, or the session's.
            over = !matches!(door.next(), Ok((Answer::Stopped { .. }, _)));
        }
    }
}
