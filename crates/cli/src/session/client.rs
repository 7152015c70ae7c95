//! The client's side of the door: a connection, a command with this process's own streams, a terminal that is relayed.

use super::Trouble;
use crate::args::ExecArgs;
use crate::here::Here;
use crate::say;
use keyward_policy::door::{self, Answer, Ask, CAGE_DOOR, LONGEST, Size};
use keyward_policy::outcome::code;
use keyward_policy::text::visible;
use keyward_sys::signal::{Inbox, Set};
use keyward_sys::{Errno, channel, signal, terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Signal;
use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Signals that are passed on to a command that runs for us.
const PASSED_ON: &[i32] = &[
    Signal::INT.as_raw(),
    Signal::TERM.as_raw(),
    Signal::HUP.as_raw(),
    Signal::QUIT.as_raw(),
    Signal::USR1.as_raw(),
    Signal::USR2.as_raw(),
];
const RESIZED: &[i32] = &[Signal::WINCH.as_raw()];
/// Ctrl-] leaves a terminal that one is attached to.
const DETACH: u8 = 0x1d;

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

/// Where sessions have their folders.
pub fn folder(here: &Here) -> PathBuf {
    here.runtime.join("sessions")
}

/// The names of the sessions that are there.
pub fn names(here: &Here) -> Vec<String> {
    let entries = std::fs::read_dir(folder(here)).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Takes away what sessions have left that were killed: nobody holds their locks any more.
pub fn clean(here: &Here) {
    for name in names(here) {
        let folder = folder(here).join(name);
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(lock) = rustix::fs::open(folder.join("lock"), flags, Mode::empty()) else {
            // Empty, or being made.
            let _ = std::fs::remove_dir(&folder);
            continue;
        };
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = std::fs::remove_dir_all(&folder);
        }
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

/// What comes first.
enum First {
    Answer(Answer, Vec<OwnedFd>),
    Signal(i32),
}

/// A connection to a session.
pub struct Door(OwnedFd);

impl Door {
    pub fn open(here: &Here, name: &str) -> Result<Self, Trouble> {
        let absent = || {
            let name = visible(name.as_ref());
            Trouble::new(
                format!("there is no session {name}"),
                "`keyward ps` lists those that are there; `keyward session start` makes one",
            )
        };
        if !is_name(name) {
            return Err(absent());
        }
        let connect = || {
            let folder = open_folder(&folder(here).join(name))?;
            let socket = rustix::net::socket_with(
                AddressFamily::UNIX,
                SocketType::SEQPACKET,
                SocketFlags::CLOEXEC,
                None,
            )?;
            rustix::net::connect(&socket, &address(&folder)?)?;
            Ok::<OwnedFd, Errno>(socket)
        };
        connect().map(Door).map_err(|_| absent())
    }

    /// The door as a cage has it; `None` where this is no cage of a session.
    pub fn inside() -> Option<Self> {
        rustix::fs::lstat(CAGE_DOOR).ok()?;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .ok()?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(CAGE_DOOR).ok()?).ok()?;
        Some(Door(socket))
    }

    pub fn ask(&mut self, ask: &Ask, descriptors: &[BorrowedFd<'_>]) -> Result<(), Trouble> {
        let packet = door::write(ask);
        let sent = if packet.len() > LONGEST {
            Err(Errno::MSGSIZE)
        } else {
            channel::send(&self.0, &packet, descriptors)
        };
        sent.map_err(|errno| match errno {
            Errno::MSGSIZE => {
                Trouble::new("the command is too long for the door", "put it into a file of the project")
            }
            _ => gone(),
        })
    }

    pub fn next(&mut self) -> Result<(Answer, Vec<OwnedFd>), Trouble> {
        let mut packet = vec![0; LONGEST];
        let message = channel::receive(&self.0, &mut packet).map_err(|_| gone())?;
        let answer = door::read::<Answer>(&packet[..message.length]).ok_or_else(gone)?;
        match answer {
            Answer::Refused { exit, fact, remedy } => {
                Err(Trouble { exit: exit.unwrap_or(code::REFUSED), fact, remedy })
            }
            answer => Ok((answer, message.descriptors)),
        }
    }

    /// The first answer, unless somebody loses patience before.
    fn first(&mut self, inbox: &Inbox) -> Result<First, Trouble> {
        loop {
            let mut polled = [PollFd::new(&self.0, PollFlags::IN), PollFd::new(inbox, PollFlags::IN)];
            let _ = poll(&mut polled, None);
            if !polled[0].revents().is_empty() {
                return self.next().map(|(answer, descriptors)| First::Answer(answer, descriptors));
            }
            let impatient = inbox.next().filter(|received| received.signal != Signal::WINCH.as_raw());
            if let Some(received) = impatient {
                return Ok(First::Signal(received.signal));
            }
        }
    }

    pub fn request(&mut self, ask: &Ask) -> Result<Answer, Trouble> {
        self.ask(ask, &[])?;
        self.next().map(|(answer, _)| answer)
    }

    /// The same, but a session that does not answer within two seconds is not waited for.
    pub fn request_soon(&mut self, ask: &Ask) -> Result<Answer, Trouble> {
        self.ask(ask, &[])?;
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut polled, Some(&Timespec { tv_sec: 2, tv_nsec: 0 })) {
            Ok(1) => self.next().map(|(answer, _)| answer),
            _ => Err(Trouble::new("the session does not answer", "end it by its process, if it stays so")),
        }
    }

    pub fn done(&mut self, ask: &Ask) -> Result<i32, Trouble> {
        self.request(ask).map(|_| 0)
    }
}

fn gone() -> Trouble {
    Trouble::new("the session has ended", "`keyward session start` makes another")
}

/// Runs a command in a session, as if it were run here.
pub fn exec(door: &mut Door, args: &ExecArgs) -> Result<i32, Trouble> {
    let is_terminal =
        [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()].map(terminal::is_terminal);
    let on_terminal = args.pty || (is_terminal[0] && is_terminal[1] && !args.background && !args.fresh);
    let size = || {
        let size = terminal::window_size(rustix::stdio::stdout());
        let size = size.filter(|size| size.ws_row > 0 && size.ws_col > 0);
        size.map_or(Size { rows: 24, columns: 80 }, |size| Size { rows: size.ws_row, columns: size.ws_col })
    };
    let ask = Ask::Exec {
        argv: args.command.iter().map(|word| word.as_os_str().into()).collect(),
        cwd: args.cwd.as_ref().map(|cwd| cwd.as_os_str().into()),
        background: args.background,
        terminal: on_terminal.then(size),
        timeout_ms: args.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        fresh: args.fresh,
    };
    let inbox = inbox(if on_terminal { RESIZED } else { PASSED_ON })?;
    let copies = if on_terminal || args.background {
        door.ask(&ask, &[])?;
        Vec::new()
    } else {
        ask_with_streams(door, &ask)?
    };
    let (answer, descriptors) = match door.first(&inbox)? {
        First::Answer(answer, descriptors) => (answer, descriptors),
        First::Signal(signal) => return Ok(128 + signal),
    };
    let Answer::Started { job } = answer else {
        return if let Answer::Ended { exit, .. } = answer { Ok(exit) } else { Err(gone()) };
    };
    if args.background {
        say::answer(&format!("{}/{job}", args.session));
        return Ok(0);
    }
    match descriptors.into_iter().next() {
        Some(main) => relay(door, job, &main, &inbox, false),
        None => wait(door, job, &inbox, copies),
    }
}

/// From inside a cage: runs a command in one beside it.
pub fn run_beside(door: &mut Door, command: &[OsString]) -> Result<i32, Trouble> {
    let ask = Ask::Exec {
        argv: command.iter().map(|word| word.as_os_str().into()).collect(),
        cwd: std::env::current_dir().ok().map(|cwd| cwd.as_os_str().into()),
        background: false,
        terminal: None,
        timeout_ms: None,
        fresh: true,
    };
    let inbox = inbox(PASSED_ON)?;
    let copies = ask_with_streams(door, &ask)?;
    match door.first(&inbox)? {
        First::Answer(Answer::Started { job }, _) => wait(door, job, &inbox, copies),
        First::Answer(Answer::Ended { exit, .. }, _) => Ok(exit),
        First::Answer(..) => Err(gone()),
        First::Signal(signal) => Ok(128 + signal),
    }
}

/// What is copied from where to where.
type Copies = Vec<(OwnedFd, BorrowedFd<'static>)>;

/// Asks with our own streams. A terminal is not handed over: what would be read from it is nothing, what is printed runs through us.
fn ask_with_streams(door: &mut Door, ask: &Ask) -> Result<Copies, Trouble> {
    let mut copies = Vec::new();
    let mut streams = Vec::new();
    let own = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    for (number, own) in own.into_iter().enumerate() {
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

fn inbox(signals: &[i32]) -> Result<Inbox, Trouble> {
    let set = Set::of(signals);
    signal::block(&set);
    Inbox::new(&set).map_err(|_| no_descriptors())
}

/// Waits for the end of a job, and passes signals on meanwhile.
fn wait(door: &mut Door, job: u32, inbox: &Inbox, mut copies: Copies) -> Result<i32, Trouble> {
    let mut ended = None;
    loop {
        let mut polled = vec![PollFd::new(inbox, PollFlags::IN)];
        if ended.is_none() {
            polled.push(PollFd::new(&door.0, PollFlags::IN));
        }
        let first = polled.len();
        polled.extend(copies.iter().map(|(from, _)| PollFd::new(from, PollFlags::IN)));
        // What the command has printed is still shown; what it left running may print for ever.
        let rest = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let found = poll(&mut polled, ended.is_some().then_some(&rest));
        let ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        drop(polled);
        if let (Some(exit), Ok(0)) = (ended, found) {
            return Ok(exit);
        }
        while let Some(received) = inbox.next() {
            door.ask(&Ask::Signal { job, signal: received.signal }, &[])?;
        }
        let mut place = first;
        copies.retain(|(from, to)| {
            place += 1;
            !ready[place - 1] || copy(from, to)
        });
        if ended.is_none() && ready.get(1) == Some(&true) {
            ended = told_end(door, job)?;
        }
        if copies.is_empty()
            && let Some(exit) = ended
        {
            return Ok(exit);
        }
    }
}

/// The next answer, if it is the end of this job.
fn told_end(door: &mut Door, job: u32) -> Result<Option<i32>, Trouble> {
    match door.next()?.0 {
        Answer::Ended { job: ended, exit, limit, .. } if ended == job => {
            match limit.as_deref() {
                None => {}
                Some("wall") => {
                    say::trouble("the command was ended: its time was over", "give it more with `--timeout`");
                }
                Some(limit) => say::trouble(
                    &format!("the command was ended: it reached the limit {limit}"),
                    "a session started with a higher one has it for all its commands",
                ),
            }
            Ok(Some(exit))
        }
        _ => Ok(None),
    }
}

/// Copies what is there; `false` at the end.
fn copy(from: impl AsFd, to: impl AsFd) -> bool {
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

/// Our terminal as it was, whatever happens.
struct Raw(Option<terminal::Settings>);

impl Raw {
    fn enter() -> Self {
        let keyboard = rustix::stdio::stdin();
        let settings = terminal::is_terminal(keyboard).then(|| terminal::settings(keyboard).ok()).flatten();
        if let Some(settings) = &settings {
            terminal::apply(keyboard, &terminal::raw(settings));
        }
        Raw(settings)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(settings) = &self.0 {
            terminal::apply(rustix::stdio::stdin(), settings);
        }
    }
}

/// Relays between our terminal and a job's, until the job ends or one leaves.
fn relay(door: &mut Door, job: u32, main: &OwnedFd, inbox: &Inbox, may_leave: bool) -> Result<i32, Trouble> {
    let raw = Raw::enter();
    let mut keyboard_open = true;
    let mut ended = None;
    loop {
        let mut polled = vec![
            PollFd::new(inbox, PollFlags::IN),
            PollFd::new(&door.0, PollFlags::IN),
            PollFd::new(main, PollFlags::IN),
        ];
        let keyboard = rustix::stdio::stdin();
        if keyboard_open {
            polled.push(PollFd::from_borrowed_fd(keyboard, PollFlags::IN));
        }
        let rest = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let found = poll(&mut polled, ended.is_some().then_some(&rest));
        let ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        drop(polled);
        while inbox.next().is_some() {
            if let Some(size) = terminal::window_size(rustix::stdio::stdout()) {
                terminal::set_window_size(main, size);
            }
        }
        let shown = ready[2] && copy(main, rustix::stdio::stdout());
        if let Some(exit) = ended
            && (matches!(found, Ok(0)) || !shown)
        {
            drop(raw);
            return Ok(exit);
        }
        if keyboard_open && ready.get(3) == Some(&true) {
            let mut keys = [0; 4096];
            match rustix::io::read(keyboard, &mut keys) {
                Ok(length) if length > 0 => {
                    if may_leave && keys[..length].contains(&DETACH) {
                        drop(raw);
                        say::note(&format!("left job {job}, which goes on"));
                        return Ok(0);
                    }
                    let _ = rustix::io::write(main, &keys[..length]);
                }
                Err(Errno::INTR) => {}
                // Nobody types any more: to the command that is the end of its input.
                _ => {
                    keyboard_open = false;
                    let _ = rustix::io::write(main, &[4]);
                }
            }
        }
        if ended.is_none() && ready[1] {
            ended = told_end(door, job)?;
        }
    }
}

pub fn attach(door: &mut Door, job: u32) -> Result<i32, Trouble> {
    let inbox = inbox(RESIZED)?;
    door.ask(&Ask::Attach { job }, &[])?;
    let (_, descriptors) = door.next()?;
    let main = descriptors.into_iter().next().ok_or_else(gone)?;
    if let Some(size) = terminal::window_size(rustix::stdio::stdout()) {
        terminal::set_window_size(&main, size);
    }
    relay(door, job, &main, &inbox, true)
}

/// Prints the output that is kept; with `follow` until the job has ended.
pub fn logs(door: &mut Door, job: u32, follow: bool) -> Result<i32, Trouble> {
    door.ask(&Ask::Log { job, follow }, &[])?;
    let (answer, descriptors) = door.next()?;
    let (Answer::Log { ended, .. }, Some(file)) = (answer, descriptors.into_iter().next()) else {
        return Err(gone());
    };
    let mut over = ended || !follow;
    loop {
        while copy(&file, rustix::stdio::stdout()) {}
        if over {
            return Ok(0);
        }
        let mut polled = [PollFd::new(&door.0, PollFlags::IN)];
        let _ = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 100_000_000 }));
        if !polled[0].revents().is_empty() {
            // Its end, or the session's.
            let _ = door.next();
            over = true;
        }
    }
}
