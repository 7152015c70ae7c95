//! The life of `keyward:keyring`, the process between a cage and the user's session bus.
//!
//! It runs outside the cage, with one thread and no file but its sockets. The cage connects to the listening socket as if it were the bus;
//! for each connection there is one to the real bus and one `Filter`, which decides about every message. Here bytes are moved, and nothing
//! is decided, kept or told. Secrets pass through the buffers, so those are wiped behind them. A connection whose client does not
//! speak the protocol is closed, and no other one notices.

mod buffer;
mod connection;
mod handshake;
#[cfg(test)]
mod tests;

use connection::{Connection, Ready};
use keyward_policy::untrusted::keyring::BusAddress;
use keyward_policy::untrusted::keyring::address::Place;
use keyward_policy::view::Keyring as View;
use keyward_sys::fork::{Forked, Namespaces, Process};
use keyward_sys::landlock::{self, Scopes};
use keyward_sys::{confine, environ, fork, signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::os::unix::ffi::OsStrExt;

/// The Landlock ABI that has scopes.
const ABI_WITH_SCOPES: i32 = 6;
/// Connections at one time; further ones wait until one ends.
const MOST_CONNECTIONS: usize = 8;
/// How long new connections wait when the host has no descriptor or memory left for them.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// The process, from the launcher's side. It ends with the value, and with the launcher.
pub(crate) struct Keyring {
    process: Process,
    /// As long as this is open, we live.
    _alive: OwnedFd,
}

impl Keyring {
    /// Starts it; without one, connections of the cage are refused.
    pub(crate) fn start(listener: OwnedFd, view: &View) -> Option<Self> {
        let bus = BusAddress::parse(view.bus.as_bytes())?;
        let items = view.items.iter().map(|&item| item.to_owned()).collect();
        // A pipe whose other end only the launcher has: gone, the launcher was dead before we were tied to it.
        let (alive, launcher) = keyward_sys::channel::pair().ok()?;
        match fork::fork_into(Namespaces::default()).ok()? {
            Forked::Parent(process) => Some(Keyring { process, _alive: launcher }),
            Forked::Child => {
                let tied = confine::die_with_parent();
                drop(launcher);
                if tied.is_err() || keyward_sys::channel::peer_is_gone(&alive) {
                    fork::exit_now(125);
                }
                live(listener, bus, items)
            }
        }
    }
}

impl Drop for Keyring {
    fn drop(&mut self) {
        self.process.signal(signal::KILL);
        let _ = self.process.wait();
    }
}

/// Gives up everything but the sockets, and serves.
fn live(listener: OwnedFd, bus: BusAddress, items: Vec<String>) -> ! {
    signal::block(&signal::Set::all());
    environ::set_title(c"keyward:keyring");
    environ::wipe_own();
    let Ok(listener) = confine::keep_only(listener) else { fork::exit_now(125) };
    confine::close_standard_streams();
    // No file is ours to open; connecting to the bus is no opening.
    let abi = landlock::abi();
    let scopes = Scopes { signals: abi >= ABI_WITH_SCOPES, abstract_sockets: false };
    let domain = (abi > 0).then(|| landlock::prepare(abi, std::iter::empty(), scopes));
    let closed = match domain {
        Some(Ok(domain)) => confine::no_new_privileges().is_ok() && domain.enter().is_ok(),
        Some(Err(_)) => false,
        None => true,
    };
    if !closed {
        fork::exit_now(125);
    }
    serve(listener, bus, items)
}

/// Serves connections of the cage until the process is ended.
pub(crate) fn serve(listener: OwnedFd, bus: BusAddress, items: Vec<String>) -> ! {
    // No other process may read this memory, because secrets pass through it.
    if confine::become_opaque().is_err() || rustix::fs::fcntl_setfl(&listener, OFlags::NONBLOCK).is_err() {
        fork::exit_now(125);
    }
    let mut connections: Vec<Connection> = Vec::new();
    let mut paused = false;
    loop {
        let accepts = connections.len() < MOST_CONNECTIONS && !paused;
        let Ok(ready) = wait(&listener, accepts, &connections, paused) else { fork::exit_now(125) };
        paused = false;
        let mut each = ready.connections.into_iter();
        connections.retain_mut(|connection| connection.work(each.next().unwrap_or_default()).is_ok());
        if !ready.listener {
            continue;
        }
        match rustix::net::accept_with(&listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(client) => {
                // Without a bus the client's connection ends, as it would without us.
                connections.extend(connect(&bus).map(|bus| Connection::new(client, bus, items.clone())));
            }
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => paused = true,
            Err(_) => fork::exit_now(125),
        }
    }
}

struct Woken {
    listener: bool,
    connections: Vec<Ready>,
}

/// Waits until something can be done. A socket of which nothing is wanted is not asked: that it hung up would wake us for ever.
fn wait(listener: &OwnedFd, accepts: bool, connections: &[Connection], paused: bool) -> Result<Woken, Errno> {
    let mut polled = Vec::with_capacity(1 + 2 * MOST_CONNECTIONS);
    let wanted: Vec<Ready> = connections.iter().map(Connection::wants).collect();
    if accepts {
        polled.push(PollFd::new(listener, PollFlags::IN));
    }
    for (connection, wants) in connections.iter().zip(&wanted) {
        for (socket, events) in [(&connection.client, wants.client), (&connection.bus, wants.bus)] {
            if !events.is_empty() {
                polled.push(PollFd::new(socket, events));
            }
        }
    }
    match poll(&mut polled, paused.then_some(&PAUSE)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => return Err(errno),
    }
    let mut seen = polled.iter().map(PollFd::revents);
    let mut next = |asked: bool| if asked { seen.next() } else { None }.unwrap_or(PollFlags::empty());
    let listener = !next(accepts).is_empty();
    let connections = wanted
        .iter()
        .map(|wants| Ready { client: next(!wants.client.is_empty()), bus: next(!wants.bus.is_empty()) });
    Ok(Woken { listener, connections: connections.collect() })
}

/// A connection to the first place of the bus that takes one.
fn connect(bus: &BusAddress) -> Option<OwnedFd> {
    bus.places.iter().find_map(|place| {
        let address = match place {
            Place::Path(path) => SocketAddrUnix::new(path),
            Place::Abstract(name) => SocketAddrUnix::new_abstract_name(name),
        };
        // A bus whose queue is full answers at once, and then this client has to retry: no other client waits for it.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
        rustix::net::connect(&socket, &address.ok()?).ok()?;
        Some(socket)
    })
}
