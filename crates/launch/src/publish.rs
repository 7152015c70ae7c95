//! The life of `keyward:publish`, the process that lets programs of this machine reach servers in a cage: `--publish PORT`.
//!
//! It listens on the host's loopback, stands in the cage's network, and moves bytes between the two. It has one thread, no file but its
//! sockets, and decides nothing: each connection to a port outside becomes one to the same port of the cage's loopback.

use keyward_sys::fork::{Forked, Namespaces, Process};
use keyward_sys::landlock::{self, Scopes};
use keyward_sys::{channel, confine, environ, fork, signal, spaces};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, sockopt};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Connections at one time; further ones wait until one ends.
const MOST: usize = 256;
/// What one direction of a connection may hold.
const ROOM: usize = 64 << 10;
const QUEUE: i32 = 128;
/// The Landlock ABI that has scopes.
const ABI_WITH_SCOPES: i32 = 6;
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// Takes the ports of this machine, before the cage is made. Gives the first one that cannot be had.
pub(crate) fn listen(ports: &[u16]) -> Result<Vec<(u16, OwnedFd)>, (u16, Errno)> {
    let open = |port: u16| -> Result<OwnedFd, Errno> {
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, FLAGS, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        rustix::net::listen(&socket, QUEUE)?;
        Ok(socket)
    };
    ports.iter().map(|&port| open(port).map(|socket| (port, socket)).map_err(|errno| (port, errno))).collect()
}

/// The process, from the launcher's side. It ends with the value, and with the launcher.
pub(crate) struct Publisher {
    process: Process,
    /// As long as this is open, we live.
    _alive: OwnedFd,
}

impl Publisher {
    /// Starts it with the namespaces of the cage: that of its user, and its network.
    pub(crate) fn start(listeners: Vec<(u16, OwnedFd)>, user: &OwnedFd, network: &OwnedFd) -> Option<Self> {
        let (alive, launcher) = channel::pair().ok()?;
        match fork::fork_into(Namespaces::default()).ok()? {
            Forked::Parent(process) => Some(Publisher { process, _alive: launcher }),
            Forked::Child => {
                let tied = confine::die_with_parent();
                drop(launcher);
                if tied.is_err() || channel::peer_is_gone(&alive) {
                    fork::exit_now(125);
                }
                let entered = spaces::enter_user(user).and_then(|()| spaces::enter_network(network));
                // The kernel forgets the tie to the launcher when the user changes.
                if entered.is_err() || confine::die_with_parent().is_err() || channel::peer_is_gone(&alive) {
                    fork::exit_now(125);
                }
                live(listeners)
            }
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.process.signal(signal::KILL);
        let _ = self.process.wait();
    }
}

/// Gives up everything but the sockets, and serves.
fn live(listeners: Vec<(u16, OwnedFd)>) -> ! {
    signal::block(&signal::Set::all());
    environ::set_title(c"keyward:publish");
    environ::wipe_own();
    let abi = landlock::abi();
    let scopes = Scopes { signals: abi >= ABI_WITH_SCOPES, abstract_sockets: abi >= ABI_WITH_SCOPES };
    let domain = (abi > 0).then(|| landlock::prepare(abi, std::iter::empty(), scopes));
    let closed = confine::drop_capabilities().is_ok()
        && confine::no_new_privileges().is_ok()
        && match domain {
            Some(Ok(domain)) => domain.enter().is_ok(),
            Some(Err(_)) => false,
            None => true,
        };
    // What the launcher had open is not for it: the caller's pipes would stay open.
    let (ports, sockets): (Vec<u16>, Vec<OwnedFd>) = listeners.into_iter().unzip();
    let Ok(sockets) = confine::keep_all(sockets) else { fork::exit_now(125) };
    confine::close_standard_streams();
    if !closed || confine::become_opaque().is_err() {
        fork::exit_now(125);
    }
    serve(&ports.into_iter().zip(sockets).collect::<Vec<_>>())
}

fn serve(listeners: &[(u16, OwnedFd)]) -> ! {
    let mut connections: Vec<Connection> = Vec::new();
    loop {
        let accepts = connections.len() < MOST;
        let mut polled: Vec<PollFd<'_>> = Vec::new();
        for connection in &connections {
            let [outside, inside] = connection.wants();
            polled.push(PollFd::from_borrowed_fd(connection.ends[0].as_fd(), outside));
            polled.push(PollFd::from_borrowed_fd(connection.ends[1].as_fd(), inside));
        }
        if accepts {
            polled.extend(listeners.iter().map(|(_, listener)| PollFd::new(listener, PollFlags::IN)));
        }
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => fork::exit_now(125),
        }
        let seen: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
        let (old, new) = seen.split_at(connections.len() * 2);
        let mut each = old.chunks(2);
        connections.retain_mut(|connection| {
            // One that nothing happened to has nothing to do.
            each.next().is_none_or(|seen| seen.iter().all(PollFlags::is_empty)) || connection.work()
        });
        for ((port, listener), seen) in listeners.iter().zip(new) {
            if !seen.is_empty()
                && let Ok(outside) = rustix::net::accept_with(listener, FLAGS)
                && let Some(inside) = connect(*port)
            {
                let _ = sockopt::set_tcp_nodelay(&outside, true);
                let _ = sockopt::set_tcp_nodelay(&inside, true);
                connections.push(Connection::new(outside, inside));
            }
        }
    }
}

/// A connection to the server in the cage, at either address of its loopback.
fn connect(port: u16) -> Option<OwnedFd> {
    let places =
        [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))];
    places.iter().find_map(|at| {
        let family = if at.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
        let socket = rustix::net::socket_with(family, SocketType::STREAM, FLAGS, None).ok()?;
        match rustix::net::connect(&socket, at) {
            Ok(()) | Err(Errno::INPROGRESS) => Some(socket),
            Err(_) => None,
        }
    })
}

/// Two connected sockets, and what is on its way between them.
struct Connection {
    /// The one outside, and the one inside.
    ends: [OwnedFd; 2],
    /// What was read from each end and is for the other one.
    held: [Vec<u8>; 2],
    /// Whether each end has said everything.
    said: [bool; 2],
    /// Whether the other end was told so.
    told: [bool; 2],
}

impl Connection {
    fn new(outside: OwnedFd, inside: OwnedFd) -> Self {
        Connection { ends: [outside, inside], held: Default::default(), said: [false; 2], told: [false; 2] }
    }

    fn wants(&self) -> [PollFlags; 2] {
        [0, 1].map(|end| {
            let mut wants = PollFlags::empty();
            wants.set(PollFlags::IN, !self.said[end] && self.held[end].len() < ROOM);
            wants.set(PollFlags::OUT, !self.held[1 - end].is_empty());
            wants
        })
    }

    /// Moves what can be moved. Whether there is more to come.
    fn work(&mut self) -> bool {
        for from in [0, 1] {
            if !(self.read(from) && self.write(from)) {
                return false;
            }
        }
        !(self.told[0] && self.told[1])
    }

    fn read(&mut self, from: usize) -> bool {
        let held = &mut self.held[from];
        if self.said[from] || held.len() >= ROOM {
            return true;
        }
        let mut bytes = [0; ROOM];
        let room = ROOM - held.len();
        match rustix::io::read(&self.ends[from], &mut bytes[..room]) {
            Ok(0) => self.said[from] = true,
            Ok(count) => held.extend_from_slice(&bytes[..count]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return false,
        }
        true
    }

    fn write(&mut self, from: usize) -> bool {
        let to: BorrowedFd<'_> = self.ends[1 - from].as_fd();
        let held = &mut self.held[from];
        while !held.is_empty() {
            match rustix::net::send(to, held, rustix::net::SendFlags::NOSIGNAL) {
                Ok(count) => drop(held.drain(..count)),
                Err(Errno::AGAIN | Errno::INTR) => return true,
                Err(_) => return false,
            }
        }
        if self.said[from] && !self.told[from] {
            self.told[from] = true;
            let _ = rustix::net::shutdown(to, Shutdown::Write);
        }
        true
    }
}
