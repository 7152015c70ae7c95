//! Datagrams with the address they were sent to: a DNS server that listens on every address has to answer from the one that was asked.

use crate::{Errno, checked};
use rustix::fd::{AsFd, AsRawFd};
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Room for the one control message of either family, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control([u8; 128]);

/// Makes the kernel say where each datagram was sent to.
pub fn tell_destination(socket: impl AsFd) -> Result<(), Errno> {
    let fd = socket.as_fd().as_raw_fd();
    let (level, name) = match rustix::net::sockopt::socket_domain(&socket)? {
        rustix::net::AddressFamily::INET => (libc::IPPROTO_IP, libc::IP_PKTINFO),
        _ => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    };
    let on: libc::c_int = 1;
    // SAFETY: the option takes an int; its address and size are given.
    let result = unsafe {
        libc::setsockopt(fd, level, name, (&raw const on).cast(), size_of::<libc::c_int>() as libc::socklen_t)
    };
    checked(result.into()).map(drop)
}

/// A datagram that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    pub length: usize,
    pub from: SocketAddr,
    /// `None` if the kernel did not say it.
    pub to: Option<IpAddr>,
}

/// Takes one datagram. What does not fit is cut off.
pub fn receive(socket: impl AsFd, bytes: &mut [u8]) -> Result<Arrived, Errno> {
    // SAFETY: these types are plain numbers and pointers, for which zero is a value.
    let (mut peer, mut message): (libc::sockaddr_storage, libc::msghdr) = unsafe { (zeroed(), zeroed()) };
    let mut control = Control([0; 128]);
    let mut slice = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    message.msg_name = (&raw mut peer).cast();
    message.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    message.msg_iov = &raw mut slice;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    let fd = socket.as_fd().as_raw_fd();
    let length = loop {
        // SAFETY: every pointer of `message` points to one of the places above, with its size.
        match checked(unsafe { libc::recvmsg(fd, &raw mut message, libc::MSG_DONTWAIT) } as libc::c_long) {
            Err(Errno::INTR) => {}
            length => break length?,
        }
    };
    let from = read_address(&peer).ok_or(Errno::AFNOSUPPORT)?;
    let mut to = None;
    // SAFETY: the kernel has filled `control` up to `msg_controllen`; the macros stay within it, and each payload is read unaligned.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(&raw const message);
        while !at.is_null() {
            let data = libc::CMSG_DATA(at);
            match ((*at).cmsg_level, (*at).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info: libc::in_pktinfo = data.cast::<libc::in_pktinfo>().read_unaligned();
                    to = Some(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info: libc::in6_pktinfo = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    to = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                }
                _ => {}
            }
            at = libc::CMSG_NXTHDR(&raw const message, at);
        }
    }
    Ok(Arrived { length: usize::try_from(length).unwrap_or(0), from, to })
}

/// Sends one datagram from this address of ours.
pub fn send(socket: impl AsFd, bytes: &[u8], to: SocketAddr, from: Option<IpAddr>) -> Result<(), Errno> {
    // SAFETY: as above.
    let (mut peer, mut message): (libc::sockaddr_storage, libc::msghdr) = unsafe { (zeroed(), zeroed()) };
    let mut control = Control([0; 128]);
    let mut slice = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    message.msg_name = (&raw mut peer).cast();
    message.msg_namelen = write_address(&mut peer, to);
    message.msg_iov = &raw mut slice;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: the payloads are smaller than `control`, to which `msg_control` points; each is written unaligned behind its header.
    unsafe {
        match from {
            Some(IpAddr::V4(from)) => {
                let mut info: libc::in_pktinfo = zeroed();
                info.ipi_spec_dst.s_addr = from.to_bits().to_be();
                message.msg_controllen = libc::CMSG_SPACE(size_of::<libc::in_pktinfo>() as u32) as usize;
                let at = libc::CMSG_FIRSTHDR(&raw const message);
                (*at).cmsg_level = libc::IPPROTO_IP;
                (*at).cmsg_type = libc::IP_PKTINFO;
                (*at).cmsg_len = libc::CMSG_LEN(size_of::<libc::in_pktinfo>() as u32) as usize;
                libc::CMSG_DATA(at).cast::<libc::in_pktinfo>().write_unaligned(info);
            }
            Some(IpAddr::V6(from)) => {
                let mut info: libc::in6_pktinfo = zeroed();
                info.ipi6_addr.s6_addr = from.octets();
                message.msg_controllen = libc::CMSG_SPACE(size_of::<libc::in6_pktinfo>() as u32) as usize;
                let at = libc::CMSG_FIRSTHDR(&raw const message);
                (*at).cmsg_level = libc::IPPROTO_IPV6;
                (*at).cmsg_type = libc::IPV6_PKTINFO;
                (*at).cmsg_len = libc::CMSG_LEN(size_of::<libc::in6_pktinfo>() as u32) as usize;
                libc::CMSG_DATA(at).cast::<libc::in6_pktinfo>().write_unaligned(info);
            }
            None => message.msg_control = std::ptr::null_mut(),
        }
    }
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: every pointer of `message` points to one of the places above, with its size.
    checked(unsafe { libc::sendmsg(fd, &raw const message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) }
        as libc::c_long)
    .map(drop)
}

fn read_address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which type is there, and the storage is large and aligned enough for it.
            let address = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(address.sin6_port), 0, address.sin6_scope_id).into())
        }
        _ => None,
    }
}

fn write_address(storage: &mut libc::sockaddr_storage, address: SocketAddr) -> libc::socklen_t {
    match address {
        SocketAddr::V4(address) => {
            // SAFETY: the storage is large and aligned enough for any address.
            let place = unsafe { &mut *(&raw mut *storage).cast::<libc::sockaddr_in>() };
            place.sin_family = libc::AF_INET as libc::sa_family_t;
            place.sin_port = address.port().to_be();
            place.sin_addr.s_addr = address.ip().to_bits().to_be();
            size_of::<libc::sockaddr_in>() as libc::socklen_t
        }
        SocketAddr::V6(address) => {
            // SAFETY: as above.
            let place = unsafe { &mut *(&raw mut *storage).cast::<libc::sockaddr_in6>() };
            place.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            place.sin6_port = address.port().to_be();
            place.sin6_addr.s6_addr = address.ip().octets();
            place.sin6_scope_id = address.scope_id();
            size_of::<libc::sockaddr_in6>() as libc::socklen_t
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn an_answer_comes_from_the_address_that_was_asked() {
        for (any, asked) in [("0.0.0.0:0", "127.0.0.77"), ("[::]:0", "::1")] {
            let server = UdpSocket::bind(any).unwrap();
            tell_destination(&server).unwrap();
            let asked: IpAddr = asked.parse().unwrap();
            let at = SocketAddr::new(asked, server.local_addr().unwrap().port());
            let client = UdpSocket::bind(SocketAddr::new(asked, 0)).unwrap();
            client.connect(at).unwrap();
            client.send(b"question").unwrap();
            let mut bytes = [0; 64];
            // The datagram is there already: loopback delivers within the send.
            let arrived = receive(&server, &mut bytes).unwrap();
            assert_eq!((arrived.length, arrived.to), (8, Some(asked)));
            send(&server, b"answer", arrived.from, arrived.to).unwrap();
            // A connected socket takes nothing from another address.
            assert_eq!(client.recv(&mut bytes).unwrap(), 6);
        }
    }
}
