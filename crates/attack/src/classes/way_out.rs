//! A way out: the network by every protocol. Nothing is ever sent to an address that is not the host's own loopback.

use crate::classes::authority::wait_for_the_note;
use crate::classes::memory::NEIGHBOUR;
use crate::probe::{Answer, Probe};
use crate::target::NOTED;
use keyward_policy::promise::Promise;
use rustix::net::{AddressFamily, Protocol, SocketType, netlink, socket};
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::num::NonZeroU32;
use std::time::Duration;

pub(super) const PATIENCE: Duration = Duration::from_secs(1);

pub const PROBES: &[Probe] = &[
    Probe::steals(
        "a_server_on_the_hosts_loopback_cannot_be_reached",
        "TCP to a server on the host's loopback",
        Promise::Network,
        &[NEIGHBOUR],
        |at| ask(Ipv4Addr::LOCALHOST.into(), at.neighbour.tcp),
    ),
    Probe::steals(
        "a_server_on_the_hosts_newer_loopback_cannot_be_reached",
        "the same by IPv6",
        Promise::Network,
        &[NEIGHBOUR],
        |at| match at.neighbour.tcp6 {
            Some(port) => ask(Ipv6Addr::LOCALHOST.into(), port),
            None => Err(io::Error::other("this host has no IPv6")),
        },
    ),
    Probe::steals(
        "a_server_of_the_host_cannot_be_reached_by_the_address_of_nobody",
        "the same by 0.0.0.0",
        Promise::Network,
        &[NEIGHBOUR],
        |at| ask(Ipv4Addr::UNSPECIFIED.into(), at.neighbour.tcp),
    ),
    Probe::steals(
        "a_datagram_to_the_host_does_not_arrive",
        "UDP to a server on the host's loopback",
        Promise::Network,
        &[NEIGHBOUR],
        |at| {
            let mut answer = vec![0; 512];
            let length = send(at.neighbour.udp, b"x")?.recv(&mut answer)?;
            answer.truncate(length);
            Ok(answer)
        },
    ),
    Probe::changes(
        "a_name_that_carries_data_does_not_arrive",
        "a DNS question whose name carries data",
        Promise::Network,
        &[NOTED],
        |at| {
            send(at.neighbour.udp, QUESTION)?;
            wait_for_the_note();
            Ok(Vec::new())
        },
    ),
    Probe::is_granted(
        "the_metadata_address_of_a_cloud_has_no_route",
        "find a route to the metadata address of a cloud",
        Promise::Network,
        |_| look_for_metadata(),
    ),
    Probe::is_granted(
        "a_cage_has_no_interface_but_its_own_loopback",
        "find a network interface of the host",
        Promise::Network,
        |_| find_interface(),
    ),
    Probe::is_granted(
        "netlink_other_than_routes_is_not_there",
        "netlink sockets of other kinds than routes",
        Promise::KernelSurface,
        |_| {
            let kinds = [netlink::KOBJECT_UEVENT, netlink::GENERIC, netlink::AUDIT];
            first_granted(kinds.map(|kind| (AddressFamily::NETLINK, SocketType::RAW, Some(kind))))
        },
    ),
    Probe::is_granted("vsock_is_not_there", "a vsock to the hypervisor", Promise::KernelSurface, |_| {
        first_granted([(AddressFamily::VSOCK, SocketType::STREAM, None)])
    }),
    Probe::is_granted(
        "the_crypto_interface_of_the_kernel_is_not_there",
        "a socket to the kernel's crypto (AF_ALG)",
        Promise::KernelSurface,
        |_| first_granted([(AddressFamily::from_raw(AF_ALG), SocketType::SEQPACKET, None)]),
    ),
    Probe::is_granted(
        "packet_sockets_are_not_there",
        "a packet socket, as root",
        Promise::KernelSurface,
        |_| first_granted([(AddressFamily::PACKET, SocketType::RAW, None)]),
    ),
    Probe::is_granted("raw_sockets_are_refused_to_root", "raw sockets, as root", Promise::Privileges, |_| {
        first_granted([
            (AddressFamily::INET, SocketType::RAW, NonZeroU32::new(ICMP).map(Protocol::from_raw)),
            (AddressFamily::INET6, SocketType::RAW, NonZeroU32::new(ICMP6).map(Protocol::from_raw)),
        ])
    }),
];

const AF_ALG: u16 = 38;
const ICMP: u32 = 1;
const ICMP6: u32 = 58;

/// A question for the name `stolen.example`.
pub(super) const QUESTION: &[u8] =
    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x06stolen\x07example\x00\x00\x01\x00\x01";

pub(super) fn ask(address: IpAddr, port: u16) -> Answer {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::new(address, port), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

pub(super) fn send(port: u16, bytes: &[u8]) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.connect((Ipv4Addr::LOCALHOST, port))?;
    socket.send(bytes)?;
    Ok(socket)
}

/// A datagram socket only looks for the way; nothing is sent.
pub(super) fn look_for_metadata() -> Answer {
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?.connect((Ipv4Addr::new(169, 254, 169, 254), 80))?;
    Ok(Vec::new())
}

pub(super) fn find_interface() -> Answer {
    let listed = std::fs::read_to_string("/proc/net/dev")?;
    let names = listed.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim()));
    if names.into_iter().any(|name| name != "lo") {
        Ok(Vec::new())
    } else {
        Err(io::Error::other("there is none but lo"))
    }
}

/// Whether one of these sockets can be made; it is closed again.
fn first_granted<const N: usize>(kinds: [(AddressFamily, SocketType, Option<Protocol>); N]) -> Answer {
    let mut refused = io::Error::other("none was tried");
    for (family, kind, protocol) in kinds {
        match socket(family, kind, protocol) {
            Ok(_) => return Ok(Vec::new()),
            Err(errno) => refused = errno.into(),
        }
    }
    Err(refused)
}
