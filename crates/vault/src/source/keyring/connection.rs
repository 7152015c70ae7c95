//! One connection to the session bus: calls, one after the other, each with its answer.
//!
//! What comes in is kept in one place of a fixed size and wiped as soon as it was read, because answers hold values.

use super::SERVICE;
use crate::secret::{Buffer, LARGEST, Secret, Unread};
use crate::source::{Surroundings, Why};
use keyward_policy::untrusted::keyring::address::Place;
use keyward_policy::untrusted::keyring::message::{Head, Kind, Malformed, Order, Writer};
use keyward_policy::untrusted::keyring::{BusAddress, Message};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

const BUS: &str = "org.freedesktop.DBus";
const BUS_PATH: &str = "/org/freedesktop/DBus";
/// A message with the largest secret, and room for what is around it.
const LARGEST_MESSAGE: usize = LARGEST + 32 * 1024;
/// Errors that say that no service answers for the name.
const NOBODY: [&str; 2] =
    ["org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner"];

/// What a call carries.
pub(super) struct Body {
    signature: &'static str,
    bytes: Zeroizing<Vec<u8>>,
}

impl Body {
    pub(super) fn new(signature: &'static str, write: impl FnOnce(&mut Writer)) -> Self {
        let mut writer = Writer::new(Order::Little);
        write(&mut writer);
        Body { signature, bytes: Zeroizing::new(writer.finish()) }
    }

    /// With a value in it. It is written with a stand-in first, because the writer's place grows and would leave copies; `write` puts the
    /// stand-in where the value belongs.
    pub(super) fn with_value(
        signature: &'static str,
        value: &Secret,
        write: impl FnOnce(&mut Writer, &[u8]),
    ) -> Self {
        // No text and no length holds this byte.
        let place = vec![0xff; value.length()];
        let mut body = Body::new(signature, |writer| write(writer, &place));
        let found = body.bytes.windows(place.len().max(1)).position(|part| part == place);
        if let Some(spot) = found.and_then(|at| body.bytes.get_mut(at..at + place.len())) {
            spot.copy_from_slice(value.expose());
        }
        body
    }
}

pub(super) struct Connection {
    socket: UnixStream,
    incoming: Buffer,
    /// The name that the bus knows the keyring by; signals of others do not count.
    keyring: String,
    serial: u32,
    deadline: Instant,
    limit: Duration,
}

impl Connection {
    /// Connects to the session bus, and finds the keyring there.
    pub(super) fn open(surroundings: &Surroundings<'_>) -> Result<Self, Why> {
        let limit = if surroundings.has_display() {
            surroundings.limits.with_person
        } else {
            surroundings.limits.alone
        };
        let address = match surroundings.variable("DBUS_SESSION_BUS_ADDRESS") {
            Some(text) => BusAddress::parse(text.as_bytes()),
            None => surroundings.variable("XDG_RUNTIME_DIR").and_then(|folder| {
                let path = std::path::Path::new(folder).join("bus");
                path.is_absolute().then(|| BusAddress { places: vec![Place::Path(path)] })
            }),
        };
        let socket = connect(&address.ok_or(Why::NoKeyring)?).ok_or(Why::NoKeyring)?;
        let mut connection = Connection {
            socket: socket.into(),
            incoming: Buffer::new(LARGEST_MESSAGE),
            keyring: String::new(),
            serial: 0,
            deadline: Instant::now() + limit,
            limit,
        };
        connection.greet()?;
        let nothing = Body::new("", |_| {});
        connection.call_bus("Hello", &nothing, |_| Ok(()))?;
        connection.keyring = match connection.owner() {
            Err(Why::NoKeyring) => {
                // The bus starts the keyring if it knows how.
                let start = Body::new("su", |body| {
                    body.string(SERVICE).number(0);
                });
                connection.call_bus("StartServiceByName", &start, |_| Ok(()))?;
                connection.owner()?
            }
            owner => owner?,
        };
        Ok(connection)
    }

    /// The name that the bus has given to the keyring.
    fn owner(&mut self) -> Result<String, Why> {
        let name = Body::new("s", |body| {
            body.string(SERVICE);
        });
        self.call_bus("GetNameOwner", &name, |answer| Ok(answer.body("s")?.string()?.to_owned()))
    }

    /// Tells the bus who we are.
    fn greet(&mut self) -> Result<(), Why> {
        let user = rustix::process::geteuid().as_raw().to_string();
        let identity: String = user.bytes().map(|digit| format!("{digit:02x}")).collect();
        self.send(format!("\0AUTH EXTERNAL {identity}\r\n").as_bytes())?;
        loop {
            if let Some(end) = self.incoming.bytes().windows(2).position(|end| end == b"\r\n") {
                if !self.incoming.bytes().starts_with(b"OK ") {
                    return Err(Why::NoKeyring);
                }
                self.incoming.consume(end + 2);
                break;
            }
            self.receive()?;
        }
        self.send(b"BEGIN\r\n")
    }

    /// Calls the keyring, by the unique name that no other client can take over, and reads its answer.
    pub(super) fn call<T>(
        &mut self,
        path: &str,
        interface: &str,
        member: &str,
        body: &Body,
        read: impl FnOnce(&Message<'_>) -> Result<T, Malformed>,
    ) -> Result<T, Why> {
        let keyring = self.keyring.clone();
        self.call_to(&keyring, path, interface, member, body, read)
    }

    /// Calls the bus itself.
    fn call_bus<T>(
        &mut self,
        member: &str,
        body: &Body,
        read: impl FnOnce(&Message<'_>) -> Result<T, Malformed>,
    ) -> Result<T, Why> {
        self.call_to(BUS, BUS_PATH, BUS, member, body, read)
    }

    /// What comes in between is passed over, and so is an answer of somebody else: the bus writes down who has sent it.
    fn call_to<T>(
        &mut self,
        destination: &str,
        path: &str,
        interface: &str,
        member: &str,
        body: &Body,
        read: impl FnOnce(&Message<'_>) -> Result<T, Malformed>,
    ) -> Result<T, Why> {
        self.serial += 1;
        let serial = self.serial;
        let signature = body.signature;
        let head = Head { serial, path, interface, member, destination, signature, ..Head::default() };
        let message = Zeroizing::new(head.write(Order::Little, &body.bytes));
        self.send(&message)?;
        self.next(
            |Message { head, .. }| {
                // The bus itself answers for a name that has no owner.
                let is_theirs =
                    head.sender == destination || (head.sender == BUS && head.kind == Kind::Error);
                head.reply_serial == serial && matches!(head.kind, Kind::Return | Kind::Error) && is_theirs
            },
            |message| match message.head.kind {
                Kind::Error => Err(refusal(message.head.error_name)),
                _ => read(message).map_err(|Malformed| Why::Malformed("the keyring's answer cannot be read")),
            },
        )
    }

    /// Asks the bus for a signal of the keyring.
    pub(super) fn hear_of(&mut self, path: &str, interface: &str, member: &str) -> Result<(), Why> {
        let rule = format!("type='signal',path='{path}',interface='{interface}',member='{member}'");
        let body = Body::new("s", |body| {
            body.string(&rule);
        });
        self.call_bus("AddMatch", &body, |_| Ok(()))
    }

    /// Waits for it.
    pub(super) fn signal<T>(
        &mut self,
        path: &str,
        interface: &str,
        member: &str,
        read: impl FnOnce(&Message<'_>) -> Result<T, Malformed>,
    ) -> Result<T, Why> {
        let keyring = self.keyring.clone();
        self.next(
            |Message { head, .. }| {
                head.kind == Kind::Signal
                    && (head.path, head.interface, head.member) == (path, interface, member)
                    && head.sender == keyring
            },
            |message| read(message).map_err(|Malformed| Why::Malformed("the keyring's news cannot be read")),
        )
    }

    /// The next message that is meant; each is wiped when it was read.
    fn next<T>(
        &mut self,
        is_meant: impl Fn(&Message<'_>) -> bool,
        read: impl FnOnce(&Message<'_>) -> Result<T, Why>,
    ) -> Result<T, Why> {
        const UNREADABLE: Why = Why::Malformed("what comes from the bus cannot be read");
        loop {
            let Some(length) = Message::length(self.incoming.bytes()).map_err(|Malformed| UNREADABLE)? else {
                self.receive()?;
                continue;
            };
            let Some(bytes) = self.incoming.bytes().get(..length) else {
                self.receive()?;
                continue;
            };
            // One that we cannot read may be for others; the answer to us is readable.
            let meant = Message::read(bytes).ok().filter(|message| is_meant(message));
            if let Some(message) = meant {
                let outcome = read(&message);
                self.incoming.consume(length);
                return outcome;
            }
            self.incoming.consume(length);
        }
    }

    fn wait(&self, flags: PollFlags) -> Result<(), Why> {
        let timed_out = Why::TimedOut(self.limit.as_secs());
        let left = self.deadline.saturating_duration_since(Instant::now());
        let Ok(left) = Timespec::try_from(left) else { return Err(timed_out) };
        match poll(&mut [PollFd::new(&self.socket, flags)], Some(&left)) {
            Ok(0) => Err(timed_out),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn receive(&mut self) -> Result<(), Why> {
        self.wait(PollFlags::IN)?;
        match self.incoming.read_once(&mut &self.socket) {
            Ok(0) => Err(Why::NoKeyring),
            Ok(_) => Ok(()),
            Err(Unread::Io(error)) if retry(&error) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Why> {
        let mut rest = bytes;
        while !rest.is_empty() {
            self.wait(PollFlags::OUT)?;
            match rustix::net::send(&self.socket, rest, rustix::net::SendFlags::NOSIGNAL) {
                Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return Err(Why::NoKeyring),
            }
        }
        Ok(())
    }
}

fn retry(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted)
}

/// What the name of an error means for us.
fn refusal(name: &str) -> Why {
    match name {
        "org.freedesktop.Secret.Error.IsLocked" => Why::Locked,
        "org.freedesktop.Secret.Error.NoSuchObject" | "org.freedesktop.DBus.Error.UnknownObject" => {
            Why::NotFound
        }
        name if NOBODY.contains(&name) || name.starts_with("org.freedesktop.DBus.Error.Spawn.") => {
            Why::NoKeyring
        }
        _ => Why::Malformed("the keyring refused to answer"),
    }
}

/// A connection to the first place of the bus that takes one.
fn connect(bus: &BusAddress) -> Option<OwnedFd> {
    bus.places.iter().find_map(|place| {
        let address = match place {
            Place::Path(path) => SocketAddrUnix::new(path),
            Place::Abstract(name) => SocketAddrUnix::new_abstract_name(name),
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
        rustix::net::connect(&socket, &address.ok()?).ok()?;
        Some(socket)
    })
}
