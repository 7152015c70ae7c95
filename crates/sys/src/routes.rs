//! Routes of a cage whose network follows rules: every address is the cage's own, and only TCP and questions to its resolver have a way there.

use crate::Errno;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The only device of such a network.
const LOOPBACK: u32 = 1;
/// Longer than all messages for a family, and than any answer that is read.
const ROOM: usize = 512;

/// The device of a route.
const OUTPUT: u16 = libc::RTA_OIF;
/// Attributes of a rule (`FRA_DST`, `FRA_PRIORITY`, `FRA_IP_PROTO`).
const DESTINATION: u16 = 1;
const PRIORITY: u16 = 6;
const PROTOCOL: u16 = 22;
/// What a rule does (`FR_ACT_TO_TBL`, `FR_ACT_PROHIBIT`).
const LOOK_UP: u8 = 1;
const PROHIBIT: u8 = 8;

/// Makes every address of both families local in the network namespace we are in. What is neither TCP, nor inside the loopback, nor for
/// `resolver` is refused at once, with an errno: UDP without a receiver would wait for ever. A host without IPv6 needs no routes for it,
/// because no socket of it can be made.
pub fn everywhere(resolver: (Ipv4Addr, Ipv6Addr)) -> Result<(), Errno> {
    // Protocol 0 is NETLINK_ROUTE.
    let socket =
        rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    ask(&socket, &Batch::of(libc::AF_INET, &resolver.0.octets(), (&[127, 0, 0, 0], 8)))?;
    match ask(&socket, &Batch::of(libc::AF_INET6, &resolver.1.octets(), (&Ipv6Addr::LOCALHOST.octets(), 128)))
    {
        // Switched off by the kernel's command line, not built in, or switched off for new networks.
        Err(Errno::OPNOTSUPP | Errno::AFNOSUPPORT | Errno::ACCESS) => Ok(()),
        other => other,
    }
}

/// Sends the messages and reads answers until the last one is confirmed. Errors come first, because the kernel works in order.
fn ask(socket: &OwnedFd, batch: &Batch) -> Result<(), Errno> {
    rustix::net::send(socket, batch.bytes(), SendFlags::empty())?;
    loop {
        let mut answer = [0; ROOM];
        let (length, _) = rustix::net::recv(socket, &mut answer[..], RecvFlags::empty())?;
        // A header of 16 bytes, the error, and the number of the message that it is about.
        let number = |at: usize| answer.get(at..at + 4).and_then(|four| four.try_into().ok());
        let (Some(error), Some(sequence)) = (number(16), number(28)) else { return Err(Errno::PROTO) };
        let (error, sequence) = (i32::from_ne_bytes(error), u32::from_ne_bytes(sequence));
        if length < 32 {
            return Err(Errno::PROTO);
        }
        if error != 0 {
            drain(socket);
            return Err(Errno::from_raw_os_error(-error));
        }
        if sequence == batch.count {
            return Ok(());
        }
    }
}

/// Answers to an earlier family are not those to the next one.
fn drain(socket: &OwnedFd) {
    let mut answer = [0; ROOM];
    while rustix::net::recv(socket, &mut answer[..], RecvFlags::DONTWAIT).is_ok() {}
}

/// Messages to the kernel, one behind the other.
struct Batch {
    bytes: [u8; ROOM],
    length: usize,
    /// Where the last message begins.
    begins: usize,
    count: u32,
}

/// Which packets a rule is about.
#[derive(Clone, Copy, Default)]
struct Packets<'a> {
    to: Option<(&'a [u8], u8)>,
    protocol: Option<libc::c_int>,
}

impl Batch {
    /// All that is done for a family, whose loopback is `own` with its prefix.
    fn of(family: libc::c_int, resolver: &[u8], own: (&[u8], u8)) -> Self {
        let mut batch = Batch { bytes: [0; ROOM], length: 0, begins: 0, count: 0 };
        let family = family as u8;
        batch.begin(libc::RTM_NEWROUTE, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        let (table, protocol) = (libc::RT_TABLE_LOCAL, libc::RTPROT_BOOT);
        batch.put(&[family, 0, 0, 0, table, protocol, libc::RT_SCOPE_HOST, libc::RTN_LOCAL]);
        batch.put(&[0; 4]);
        batch.attribute(OUTPUT, &LOOPBACK.to_ne_bytes());
        let allowed = [
            Packets { to: Some(own), ..Packets::default() },
            Packets { protocol: Some(libc::IPPROTO_TCP), ..Packets::default() },
            // Also what the kernel says when the resolver has ended: otherwise programs would wait for it.
            Packets { to: Some((resolver, (resolver.len() * 8) as u8)), ..Packets::default() },
        ];
        for packets in allowed {
            batch.rule(family, packets, LOOK_UP);
        }
        batch.rule(family, Packets::default(), PROHIBIT);
        // The kernel's own rule at 0 would let every packet through.
        batch.begin(libc::RTM_DELRULE, libc::NLM_F_ACK);
        batch.put(&[family, 0, 0, 0, table, 0, 0, LOOK_UP, 0, 0, 0, 0]);
        batch.attribute(PRIORITY, &0_u32.to_ne_bytes());
        batch.end();
        batch
    }

    /// A rule behind those before it.
    fn rule(&mut self, family: u8, packets: Packets<'_>, action: u8) {
        self.begin(libc::RTM_NEWRULE, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        let prefix = packets.to.map_or(0, |(_, prefix)| prefix);
        let table = if action == LOOK_UP { libc::RT_TABLE_LOCAL } else { libc::RT_TABLE_UNSPEC };
        self.put(&[family, prefix, 0, 0, table, 0, 0, action, 0, 0, 0, 0]);
        // The first message is the route.
        self.attribute(PRIORITY, &(self.count - 1).to_ne_bytes());
        if let Some((address, _)) = packets.to {
            self.attribute(DESTINATION, address);
        }
        if let Some(protocol) = packets.protocol {
            self.attribute(PROTOCOL, &[protocol as u8]);
        }
    }

    /// A header: length, kind, flags, number, sender.
    fn begin(&mut self, kind: u16, flags: libc::c_int) {
        self.end();
        self.begins = self.length;
        self.count += 1;
        self.put(&[0; 4]);
        self.put(&kind.to_ne_bytes());
        self.put(&((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
        self.put(&self.count.to_ne_bytes());
        self.put(&[0; 4]);
    }

    /// Writes the length of the message into its header.
    fn end(&mut self) {
        let length = (self.length - self.begins) as u32;
        if let Some(header) = self.bytes.get_mut(self.begins..self.begins + 4)
            && self.count > 0
        {
            header.copy_from_slice(&length.to_ne_bytes());
        }
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.put(&(4 + value.len() as u16).to_ne_bytes());
        self.put(&kind.to_ne_bytes());
        self.put(value);
        self.length = self.length.next_multiple_of(4);
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.length..self.length + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        self.length += bytes.len();
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_needs_six_messages_that_fit() {
        for (family, length, prefix) in [(libc::AF_INET, 4, 8), (libc::AF_INET6, 16, 128)] {
            let address = &[1_u8; 16][..length];
            let batch = Batch::of(family, address, (address, prefix));
            assert!(batch.length <= ROOM && batch.count == 6);
            let (mut at, mut seen) = (0, 0);
            while at < batch.length {
                let length = u32::from_ne_bytes(batch.bytes[at..at + 4].try_into().unwrap()) as usize;
                assert!(length >= 28 && length.is_multiple_of(4), "{length}");
                at += length;
                seen += 1;
            }
            assert_eq!((at, seen), (batch.length, 6));
        }
    }
}
