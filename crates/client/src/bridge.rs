//! A bridge: a process beside a client whose language can neither connect to the session socket nor send descriptors.
//!
//! It reads lines from its client and passes their messages on to the session, and the answers back ([`keyward_protocol::bridge`]). Streams
//! of commands are connections to a socket of its own; it hands their descriptors to the session, so that what a command prints does not
//! run through it. It has one thread, judges nothing and holds no secret but the token of its socket. Everything that it keeps for a peer
//! is bounded. It ends with its input.

use crate::connection::{Client, Person, Unattended, connect};
use crate::error::Error;
use crate::find::{Runtime, open_folder};
use keyward_policy::trouble::{Code, Trouble};
use keyward_protocol::bridge::{
    Announcement, LONGEST_ANNOUNCEMENT, LONGEST_LINE, Line, Send, TOKEN, Told, read,
};
use keyward_protocol::packet::{self, LONGEST};
use keyward_protocol::session::{Answer, Ask};
use keyward_sys::{Errno, channel, random};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Connections to the session at one time. A session has room for 256 clients, and others want some of it.
const MOST_CHANNELS: usize = 40;
/// Connections that have not said yet which stream they are, and streams that no command has taken yet.
const MOST_WAITING: usize = 64;
const MOST_STREAMS: usize = 512;
/// How long a connection may take to say which stream it is.
const PATIENCE: Duration = Duration::from_secs(10);
/// While more than this waits for the client to read it, nothing further is read from the session.
const MOST_UNREAD: usize = 1 << 20;
/// The longest document of a question that is passed on.
const LONGEST_DOCUMENT: u64 = 16 << 20;

/// What becomes of the session when the bridge ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtEnd {
    Leave,
    Stop,
}

/// Serves the client behind these two descriptors until its input ends, or it breaks the rules.
pub fn bridge(
    runtime: &Runtime,
    name: &str,
    (input, output): (BorrowedFd<'_>, BorrowedFd<'_>),
    at_end: AtEnd,
) -> Result<(), Error> {
    let mut client = Client::open(runtime, name, Unattended)?;
    client.hello()?;
    let folder = client.folder().map(Path::to_owned).ok_or(Error::Ended)?;
    let place = Place::new(&folder).map_err(|_| Error::NoDescriptors)?;
    // Reading is waited for; a client that does not read must not make us wait.
    let _ = rustix::fs::fcntl_getfl(output)
        .map(|flags| rustix::fs::fcntl_setfl(output, flags | OFlags::NONBLOCK));
    let mut server = Server {
        folder,
        place,
        channels: BTreeMap::new(),
        waiting: Vec::new(),
        streams: BTreeMap::new(),
        received: Vec::new(),
        unread: Vec::new(),
    };
    server.unread = Told::ready(&server.place.path.to_string_lossy(), &server.place.token()).line();
    server.serve(input, output);
    drop(server);
    if at_end == AtEnd::Stop {
        stop(client);
    }
    Ok(())
}

/// Ends the session, and waits for its end.
fn stop<P: Person>(mut client: Client<P>) {
    if client.request(&Ask::Stop {}).is_ok() {
        while client.next_answer().is_ok() {}
    }
}

/// The bridge's own socket, in a directory of its own. Both are gone with the value, or at the latest with the session's directory.
struct Place {
    folder: OwnedFd,
    name: String,
    path: PathBuf,
    listener: OwnedFd,
    token: [u8; TOKEN],
}

const SOCKET: &str = "streams";

impl Place {
    fn new(session: &Path) -> Result<Self, Errno> {
        let token = token()?;
        let folder = open_folder(session)?;
        let name = format!("bridge-{}", std::process::id());
        match rustix::fs::mkdirat(&folder, &name, Mode::RWXU) {
            // A bridge that was killed has left it: no other process has our number.
            Err(Errno::EXIST) => {
                let _ = rustix::fs::unlinkat(&folder, format!("{name}/{SOCKET}"), AtFlags::empty());
            }
            made => made?,
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // By the descriptor: the path may be longer than an address.
        let address = format!("/proc/self/fd/{}/{name}/{SOCKET}", folder.as_raw_fd());
        rustix::net::bind(&listener, &SocketAddrUnix::new(Path::new(&address))?)?;
        rustix::net::listen(&listener, 128)?;
        let path = session.join(&name).join(SOCKET);
        Ok(Place { folder, name, path, listener, token })
    }

    fn token(&self) -> String {
        String::from_utf8_lossy(&self.token).into_owned()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(&self.folder, format!("{}/{SOCKET}", self.name), AtFlags::empty());
        let _ = rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::REMOVEDIR);
    }
}

fn token() -> Result<[u8; TOKEN], Errno> {
    let mut bytes = [0; TOKEN / 2];
    random::fill(&mut bytes)?;
    let digits = bytes.iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    });
    digits.as_bytes().try_into().map_err(|_| Errno::IO)
}

/// A connection that has not said yet which stream it is.
struct Waiting {
    socket: OwnedFd,
    said: Vec<u8>,
    until: Instant,
}

/// What became of a connection that was read from.
enum Heard {
    More,
    Stream(u64),
    Wrong,
}

struct Server {
    folder: PathBuf,
    place: Place,
    channels: BTreeMap<u32, OwnedFd>,
    waiting: Vec<Waiting>,
    streams: BTreeMap<u64, OwnedFd>,
    /// What the client has sent of a line that is not complete.
    received: Vec<u8>,
    /// What the client has not read yet.
    unread: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Input,
    Output,
    Listener,
    Waiting,
    Channel(u32),
}

impl Server {
    fn serve(&mut self, input: BorrowedFd<'_>, output: BorrowedFd<'_>) {
        loop {
            for source in self.wait(input, output) {
                let goes_on = match source {
                    Source::Input => self.hear_client(input),
                    Source::Output => self.tell_client(output),
                    Source::Listener | Source::Waiting => {
                        self.take_in();
                        true
                    }
                    Source::Channel(number) => {
                        self.hear_session(number);
                        true
                    }
                };
                if !goes_on {
                    return;
                }
            }
            // At once, and not only when the descriptor says that it can be written to.
            if !self.tell_client(output) {
                return;
            }
            let now = Instant::now();
            self.waiting.retain(|waiting| waiting.until > now);
        }
    }

    fn wait(&self, input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> Vec<Source> {
        let mut sources = Vec::new();
        let mut polled: Vec<PollFd<'_>> = Vec::new();
        let mut add = |source, descriptor, flags| {
            sources.push(source);
            polled.push(PollFd::from_borrowed_fd(descriptor, flags));
        };
        let has_room = self.unread.len() < MOST_UNREAD;
        // The end of the input is told in any case.
        add(Source::Input, input, if has_room { PollFlags::IN } else { PollFlags::empty() });
        add(Source::Output, output, if self.unread.is_empty() { PollFlags::empty() } else { PollFlags::OUT });
        if self.has_room_for_a_connection() {
            add(Source::Listener, self.place.listener.as_fd(), PollFlags::IN);
        }
        for waiting in &self.waiting {
            add(Source::Waiting, waiting.socket.as_fd(), PollFlags::IN);
        }
        for (number, socket) in self.channels.iter().filter(|_| has_room) {
            add(Source::Channel(*number), socket.as_fd(), PollFlags::IN);
        }
        let next = self.waiting.iter().map(|waiting| waiting.until).min();
        let timeout = next.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let _ = poll(&mut polled, timeout.as_ref());
        let ready = sources.into_iter().zip(&polled).filter(|(_, polled)| !polled.revents().is_empty());
        let mut ready: Vec<Source> = ready.map(|(source, _)| source).collect();
        ready.dedup();
        ready
    }

    fn has_room_for_a_connection(&self) -> bool {
        self.waiting.len() < MOST_WAITING && self.streams.len() < MOST_STREAMS
    }

    /// Reads what the client has sent; `false` at its end, or if it breaks the rules.
    fn hear_client(&mut self, input: BorrowedFd<'_>) -> bool {
        let mut part = [0; 16 << 10];
        match rustix::io::read(input, &mut part) {
            Ok(0) => return false,
            Ok(length) => self.received.extend_from_slice(&part[..length]),
            Err(Errno::INTR | Errno::AGAIN) => return true,
            Err(_) => return false,
        }
        let mut start = 0;
        while let Some(length) = self.received[start..].iter().position(|byte| *byte == b'\n') {
            let Some(sent) = read(&self.received[start..start + length]) else { return false };
            match sent {
                Line::Send(sent) => self.pass_on(&sent),
                Line::Drop(streams) => self.let_go(&streams),
            }
            start += length + 1;
        }
        self.received.drain(..start);
        self.received.len() <= LONGEST_LINE
    }

    /// Writes what the client can take; `false` once it is gone.
    fn tell_client(&mut self, output: BorrowedFd<'_>) -> bool {
        while !self.unread.is_empty() {
            match rustix::io::write(output, &self.unread) {
                Ok(length) => drop(self.unread.drain(..length)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => return false,
            }
        }
        let mut polled = [PollFd::from_borrowed_fd(output, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let _ = poll(&mut polled, Some(&now));
        !polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
    }

    /// Passes a message on to the session, with the streams that it names.
    fn pass_on(&mut self, sent: &Send) {
        let number = sent.channel;
        // Taken in any case: what is refused leaves no stream behind.
        let taken = match self.take_streams(&sent.streams) {
            Ok(taken) => taken,
            Err(trouble) => return self.refuse(number, trouble),
        };
        if sent.message.get().len() > LONGEST {
            return self.refuse(number, Error::TooLong.into());
        }
        if !self.channels.contains_key(&number) {
            if self.channels.len() >= MOST_CHANNELS {
                let fact = format!("the bridge has {MOST_CHANNELS} connections to the session already");
                return self.refuse(number, Trouble::new(Code::SessionFull, fact, "use one of these again"));
            }
            match connect(&self.folder) {
                Ok(socket) => drop(self.channels.insert(number, socket)),
                Err(_) => return self.tell(&Told::Closed { channel: number, closed: true }),
            }
        }
        let given: Vec<BorrowedFd<'_>> = taken.iter().map(AsFd::as_fd).collect();
        let told = self
            .channels
            .get(&number)
            .map(|socket| channel::send(socket, sent.message.get().as_bytes(), &given));
        if !matches!(told, Some(Ok(()))) {
            self.close(number);
        }
    }

    /// Closes streams that are for no command.
    fn let_go(&mut self, streams: &[u64]) {
        self.take_in();
        self.streams.retain(|stream, _| !streams.contains(stream));
    }

    /// The descriptors for these streams: all of them, or none.
    fn take_streams(&mut self, wanted: &[Option<u64>]) -> Result<Vec<OwnedFd>, Trouble> {
        let is_missing = |streams: &BTreeMap<u64, OwnedFd>| {
            wanted.iter().flatten().copied().find(|stream| !streams.contains_key(stream))
        };
        // A client that has announced a stream need not wait until we have seen it.
        if is_missing(&self.streams).is_some() {
            self.take_in();
        }
        if let Some(stream) = is_missing(&self.streams) {
            let fact = format!("there is no stream {stream}");
            let remedy = "connect to the socket of the bridge and announce it first; a stream is used once";
            return Err(Trouble::new(Code::SessionFailed, fact, remedy));
        }
        let taken = wanted.iter().map(|stream| match stream {
            Some(stream) => self.streams.remove(stream),
            None => rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok(),
        });
        taken.collect::<Option<Vec<OwnedFd>>>().ok_or_else(|| Error::NoDescriptors.into())
    }

    /// Lets connections in, and reads what they announce. Those that are done with make room for the next.
    fn take_in(&mut self) {
        self.hear_connections();
        while self.let_in() {
            self.hear_connections();
        }
    }

    /// Accepts connections as long as there is room; `false` if there is none to accept.
    fn let_in(&mut self) -> bool {
        let before = self.waiting.len();
        while self.has_room_for_a_connection() {
            // The command gets this descriptor: it waits when it reads and writes, as from a pipe.
            let Ok(socket) = rustix::net::accept_with(&self.place.listener, SocketFlags::CLOEXEC) else {
                break;
            };
            let own = rustix::process::geteuid();
            if rustix::net::sockopt::socket_peercred(&socket).is_ok_and(|peer| peer.uid == own) {
                let until = Instant::now() + PATIENCE;
                self.waiting.push(Waiting { socket, said: Vec::new(), until });
            }
        }
        self.waiting.len() > before
    }

    fn hear_connections(&mut self) {
        let mut at = 0;
        while let Some(waiting) = self.waiting.get_mut(at) {
            match hear(waiting, &self.place.token) {
                Heard::More => at += 1,
                Heard::Wrong => drop(self.waiting.swap_remove(at)),
                Heard::Stream(stream) => {
                    let socket = self.waiting.swap_remove(at).socket;
                    // A number is used once; the first who announces it has it.
                    self.streams.entry(stream).or_insert(socket);
                }
            }
        }
    }

    /// Passes an answer of the session on to the client.
    fn hear_session(&mut self, number: u32) {
        let Some(socket) = self.channels.get(&number) else { return };
        let mut bytes = vec![0; LONGEST];
        let message = match channel::receive(socket, &mut bytes) {
            Ok(message) if message.length > 0 => message,
            Err(Errno::AGAIN) => return,
            _ => return self.close(number),
        };
        bytes.truncate(message.length);
        let Some(answer) = line_of(&bytes) else { return self.close(number) };
        // Beside a question stands its document. Nothing else that travels along can be passed on in lines.
        let is_question = matches!(packet::read(&bytes), Some(Answer::Question(_)));
        let document = message.descriptors.first().filter(|_| is_question).and_then(document);
        self.tell(&Told::Message { channel: number, message: &answer, document: document.as_deref() });
    }

    fn tell(&mut self, told: &Told<'_>) {
        self.unread.extend_from_slice(&told.line());
    }

    fn close(&mut self, number: u32) {
        self.channels.remove(&number);
        self.tell(&Told::Closed { channel: number, closed: true });
    }

    /// Refuses a message in the words of a session.
    fn refuse(&mut self, number: u32, trouble: Trouble) {
        let refused = packet::write(&Answer::of_trouble(None, trouble));
        if let Some(message) = line_of(&refused) {
            self.tell(&Told::Message { channel: number, message: &message, document: None });
        }
    }
}

/// JSON that fits into a line.
fn line_of(bytes: &[u8]) -> Option<Box<RawValue>> {
    if bytes.contains(&b'\n') {
        return None;
    }
    serde_json::from_slice(bytes).ok()
}

/// The document of a question, which several clients may have: it is read without moving its position.
fn document(descriptor: &OwnedFd) -> Option<Box<RawValue>> {
    let length = rustix::fs::fstat(descriptor).ok().map(|stat| stat.st_size.unsigned_abs())?;
    let mut bytes = vec![0; usize::try_from(length).ok().filter(|_| length <= LONGEST_DOCUMENT)?];
    let mut at = 0;
    while at < bytes.len() {
        match rustix::io::pread(descriptor, &mut bytes[at..], at as u64) {
            Ok(0) => break,
            Ok(read) => at += read,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    line_of(&bytes[..at])
}

/// Reads on from a connection, and nothing behind its first line: that is for the command.
fn hear(waiting: &mut Waiting, token: &[u8; TOKEN]) -> Heard {
    loop {
        let mut part = [0; LONGEST_ANNOUNCEMENT];
        let room = LONGEST_ANNOUNCEMENT.saturating_sub(waiting.said.len());
        let (peek, take) = (RecvFlags::PEEK | RecvFlags::DONTWAIT, RecvFlags::DONTWAIT);
        let seen = match rustix::net::recv(&waiting.socket, &mut part[..room], peek) {
            Ok((_, seen)) if seen > 0 => seen,
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => return Heard::More,
            // It ended, or its line is too long.
            _ => return Heard::Wrong,
        };
        let end = part[..seen].iter().position(|byte| *byte == b'\n');
        let length = end.map_or(seen, |end| end + 1);
        if !matches!(rustix::net::recv(&waiting.socket, &mut part[..length], take), Ok((_, taken)) if taken == length)
        {
            return Heard::Wrong;
        }
        waiting.said.extend_from_slice(&part[..end.unwrap_or(length)]);
        if end.is_some() {
            let announced = Announcement::read(&waiting.said, token);
            return announced.map_or(Heard::Wrong, |announced| Heard::Stream(announced.stream));
        }
    }
}

#[cfg(test)]
mod tests;
