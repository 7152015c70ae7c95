//! The pair of sockets between the launcher and init: messages keep their bounds, descriptors can travel along.

use crate::{Errno, checked};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use std::mem::MaybeUninit;

/// Whether somebody has said something that was not taken yet; nobody can say more from here on.
pub fn is_left_unheard(socket: impl AsFd) -> bool {
    let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Both);
    rustix::io::ioctl_fionread(socket).is_ok_and(|waiting| waiting > 0)
}

/// Whether a descriptor is a socket of the network, and not one between processes.
pub fn is_of_a_network(descriptor: impl AsFd) -> bool {
    rustix::net::sockopt::socket_domain(descriptor)
        .is_ok_and(|family| family != rustix::net::AddressFamily::UNIX)
}

/// One message carries at most this many descriptors.
pub const MOST_DESCRIPTORS: usize = 64;

/// A connected pair.
pub fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends one message with descriptors.
pub fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::MSGSIZE);
    }
    loop {
        match rustix::net::sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// What arrived.
pub struct Message {
    /// 0 means that the other side is gone.
    pub length: usize,
    pub descriptors: Vec<OwnedFd>,
}

/// Waits for one message.
pub fn receive(socket: impl AsFd, bytes: &mut [u8]) -> Result<Message, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut slices = [IoSliceMut::new(bytes)];
        match rustix::net::recvmsg(&socket, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => break received,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            descriptors.extend(fds);
        }
    }
    Ok(Message { length: received.bytes, descriptors })
}

/// The process that has connected a Unix socket, by a descriptor that stands for it. Kernels before 6.5 tell a number alone: there another
/// process may have it by now.
pub fn peer_process(socket: impl AsFd) -> Result<OwnedFd, Errno> {
    let mut descriptor: libc::c_int = -1;
    let mut length = libc::socklen_t::try_from(size_of::<libc::c_int>()).map_err(|_| Errno::INVAL)?;
    let socket = socket.as_fd();
    // SAFETY: the kernel writes at most `length` bytes, which is the size of the integer that the pointer leads to; both live until it returns.
    let asked = checked(i64::from(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut descriptor).cast(),
            &raw mut length,
        )
    }));
    match asked {
        // SAFETY: the kernel has just made this descriptor for us, and no other value owns it.
        Ok(_) => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        Err(Errno::NOPROTOOPT) => {
            let peer = rustix::net::sockopt::socket_peercred(socket)?;
            rustix::process::pidfd_open(peer.pid, rustix::process::PidfdFlags::empty())
        }
        Err(errno) => Err(errno),
    }
}

/// The number of the option; not every C library has it.
const SO_PEERPIDFD: libc::c_int = 77;

/// Whether the other side of a socket or pipe is gone.
pub fn peer_is_gone(socket: impl AsFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let fd = socket.as_fd();
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut polled, Some(&now)), Ok(1)) && polled[0].revents().contains(PollFlags::HUP)
}
