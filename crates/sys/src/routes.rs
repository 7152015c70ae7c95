//! Routes of a cage whose network follows rules: every address is the cage's own, and only TCP has a way there.
//!
//! The messages go to the kernel in one packet for each family and are built on the stack: the helper that sends them shares init's memory
//! and must not allocate.

use crate::Errno;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// The only device of such a network.
const LOOPBACK: u32 = 1;
/// Longer than all messages for a family, and than any answer that is read.
const ROOM: usize = 512;

const OUTPUT: u16 = libc::RTA_OIF;
/// Attributes of a rule (`FRA_DST`, `FRA_PRIORITY`, `FRA_IP_PROTO`), and what it does (`FR_ACT_TO_TBL`, `FR_ACT_PROHIBIT`).
const RULE_DESTINATION: u16 = 1;
const PRIORITY: u16 = 6;
const PROTOCOL: u16 = 22;
const LOOK_UP: u8 = 1;
const PROHIBIT: u8 = 8;

/// Where the rules stand. The kernel's own rule for local addresses is at 0 and is removed: it would let every packet through.
const OWN_LOOPBACK: u32 = 1;
const TCP_ONLY: u32 = 2;
const NOTHING_ELSE: u32 = 3;

/// Makes every address of both families local, and refuses everything but TCP to addresses outside the loopback, at once and with an errno.
/// A host without IPv6 needs no routes for it: no socket of it can be made.
pub(crate) fn everywhere() -> Result<(), Errno> {
    // Protocol 0 is NETLINK_ROUTE.
    let socket =
        rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    ask(&socket, &Batch::of(libc::AF_INET, &[127, 0, 0, 0], 8))?;
    let mut own = [0; 16];
    own[15] = 1;
    match ask(&socket, &Batch::of(libc::AF_INET6, &own, 128)) {
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

impl Batch {
    /// All that is done for a family. `own` and `prefix` say what its loopback is.
    fn of(family: libc::c_int, own: &[u8], prefix: u8) -> Self {
        let mut batch = Batch { bytes: [0; ROOM], length: 0, begins: 0, count: 0 };
        let table = libc::RT_TABLE_LOCAL;
        let family = family as u8;
        batch.begin(libc::RTM_NEWROUTE, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        let route = [
            family,
            0,
            0,
            0,
            table,
            libc::RTPROT_BOOT,
            libc::RT_SCOPE_HOST,
            libc::RTN_LOCAL,
        ];
        batch.put(&route);
        batch.put(&[0; 4]);
        batch.attribute(OUTPUT, &LOOPBACK.to_ne_bytes());
        batch.rule(family, Some((own, prefix)), None, LOOK_UP, OWN_LOOPBACK);
        batch.rule(family, None, Some(libc::IPPROTO_TCP as u8), LOOK_UP, TCP_ONLY);
        batch.rule(family, None, None, PROHIBIT, NOTHING_ELSE);
        batch.begin(libc::RTM_DELRULE, libc::NLM_F_ACK);
        batch.put(&[family, 0, 0, 0, table, 0, 0, LOOK_UP, 0, 0, 0, 0]);
        batch.attribute(PRIORITY, &0_u32.to_ne_bytes());
        batch.end();
        batch
    }

    fn rule(&mut self, family: u8, to: Option<(&[u8], u8)>, protocol: Option<u8>, action: u8, priority: u32) {
        self.begin(libc::RTM_NEWRULE, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        let prefix = to.map_or(0, |(_, prefix)| prefix);
        let table = if action == LOOK_UP { libc::RT_TABLE_LOCAL } else { libc::RT_TABLE_UNSPEC };
        self.put(&[family, prefix, 0, 0, table, 0, 0, action, 0, 0, 0, 0]);
        self.attribute(PRIORITY, &priority.to_ne_bytes());
        if let Some((address, _)) = to {
            self.attribute(RULE_DESTINATION, address);
        }
        if let Some(protocol) = protocol {
            self.attribute(PROTOCOL, &[protocol]);
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
    fn a_family_needs_five_messages_that_fit() {
        for (family, own, prefix) in [(libc::AF_INET, 4, 8), (libc::AF_INET6, 16, 128)] {
            let batch = Batch::of(family, &[1_u8; 16][..own], prefix);
            assert!(batch.length <= ROOM && batch.count == 5);
            let (mut at, mut seen) = (0, 0);
            while at < batch.length {
                let length = u32::from_ne_bytes(batch.bytes[at..at + 4].try_into().unwrap()) as usize;
                assert!(length >= 28 && length.is_multiple_of(4), "{length}");
                at += length;
                seen += 1;
            }
            assert_eq!((at, seen), (batch.length, 5));
        }
    }
}
