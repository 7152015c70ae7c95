//! Answers lookups of host names in a cage without a network, and remembers which hosts were wanted.

use keyward_policy::untrusted::lookup::Lookup;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Ipv4Addr, RecvFlags, SendFlags, SocketAddrV4, SocketFlags, SocketType};

/// The port of resolvers.
const PORT: u16 = 53;
/// So many packets are answered before other work has its turn.
const AT_ONCE: usize = 64;
/// So many hosts are remembered.
const MOST_HOSTS: usize = 32;
/// Clients send no longer questions over UDP.
const LONGEST: usize = 1_500;

/// The socket at which the programs of a cage find their resolver. Made in the cage's network, with the capability to take a low port.
pub(crate) fn listen() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    // Every address of the loopback: resolv.conf may name another one than 127.0.0.1.
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT))?;
    Ok(socket)
}

/// The launcher's side.
#[derive(Default)]
pub(crate) struct Lookups {
    socket: Option<OwnedFd>,
    hosts: Vec<String>,
    told: usize,
}

impl Lookups {
    pub(crate) fn start(&mut self, socket: Option<OwnedFd>) {
        self.socket = socket;
    }

    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// Answers what has come in.
    pub(crate) fn work(&mut self) {
        let Some(socket) = &self.socket else { return };
        let mut packet = [0; LONGEST];
        for _ in 0..AT_ONCE {
            let Ok((length, _, Some(from))) =
                rustix::net::recvfrom(socket, &mut packet[..], RecvFlags::DONTWAIT)
            else {
                return;
            };
            let Some(lookup) = packet.get(..length).and_then(Lookup::read) else { continue };
            let _ =
                rustix::net::sendto(socket, &lookup.not_found(&packet[..length]), SendFlags::DONTWAIT, &from);
            if lookup.is_worth_telling() && !self.hosts.contains(&lookup.host) {
                // The newest count: a session goes on long after its first hosts were told.
                if self.hosts.len() == MOST_HOSTS {
                    self.hosts.remove(0);
                    self.told = self.told.saturating_sub(1);
                }
                self.hosts.push(lookup.host);
            }
        }
    }

    /// Hosts that were wanted since this was last asked.
    pub(crate) fn news(&mut self) -> &[String] {
        let told = std::mem::replace(&mut self.told, self.hosts.len());
        self.hosts.get(told..).unwrap_or_default()
    }

    pub(crate) fn hosts(self) -> Vec<String> {
        self.hosts
    }
}
