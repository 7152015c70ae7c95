//! The channels of `keyward:proxy`: to the process that started it (the launcher or the session), which tells it what to serve and hears what
//! happened; and to the vault, which gives it credentials. The two never mix: no credential passes through the first.
//!
//! The proxy is the room [`Room::Proxy`](crate::services::Room::Proxy) of `keyward-services`. It finds the first channel, a SOCK_SEQPACKET
//! socket, as descriptor [`CONTROL`]. The order of things:
//!
//! 1. [`Order::Setup`], with its certificates as descriptors. The proxy reads what it needs of the host (`/etc/resolv.conf`, `/etc/hosts`, the
//!    system's roots), makes its CA, confines itself and answers [`Report::Ready`].
//! 2. [`Order::Vault`], with a socket to the vault, if credentials are bound. The vault sends a [`Value`] for each; a request waits for it.
//! 3. [`Order::Cage`] for each cage: a pidfd and its sockets travel along. Sockets that do not fit into one packet follow in
//!    [`Order::Listen`]. The cage is served from the packet on that says `last`.
//! 4. [`Order::Widen`] for a grant, [`Order::Answer`] for a [`Report::Question`], [`Order::Gone`] when a cage has ended (its pidfd says so too).
//!
//! Each order behind the first one is answered by [`Report::Obeyed`], in the order in which they came. What was ordered holds from then on, or
//! the answer says why it does not.
//!
//! When the first channel closes, the proxy ends at once.

use keyward_policy::net::asking::Awaited;
use keyward_policy::net::corporate::Exception;
use keyward_policy::net::narrow::Within;
use keyward_policy::net::{Binding, Denial, Host, Name, Pattern, Rules};
use keyward_policy::trouble::Trouble;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The descriptor of the channel to the process that started the proxy.
pub const CONTROL: i32 = 3;

/// How a host is reached, if not by the DNS: `[net.upstream."HOST"]`, and `--reach`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    pub host: Name,
    /// The port this is for; without one, every port of the host is led to `address`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Dialled as it is, also if it is private.
    pub address: SocketAddr,
    /// Which of the certificates of [`Order::Setup`] are trusted for this host, instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<usize>,
}

/// A proxy through which this host reaches the Internet: `HTTPS_PROXY` of the user, or its like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Corporate {
    pub host: Host,
    pub port: u16,
    /// The name of a secret with `user:password`, which comes from the vault: the variable that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// `NO_PROXY`: hosts that are reached directly.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<Exception>,
}

/// What a socket that was made inside a cage is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is", deny_unknown_fields)]
pub enum Role {
    /// Stands for a host, or the names below one. The DNS answers with its address.
    Host { host: Pattern },
    /// Stands for a host that is allowed, or asked about, while the cage runs. Sockets of the same place get the same host.
    Spare { place: usize },
    /// An HTTP proxy: CONNECT, and requests in absolute form.
    Proxy {},
    /// Takes plain HTTP for a host that is reached by TLS: for programs whose base URL can be set.
    Base { host: Name, port: u16 },
    /// DNS by UDP. It may be bound to any address: answers come from the one that was asked.
    NamesUdp {},
    /// DNS by TCP.
    NamesTcp {},
}

/// A socket that was made inside a cage, and travels along.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// Where it listens, inside.
    pub at: SocketAddr,
    pub role: Role,
}

/// To the proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is", deny_unknown_fields)]
pub enum Order {
    /// The first message. As many descriptors travel along as `certificates` says: files with certificates in PEM.
    Setup {
        certificates: usize,
        /// Which of them are trusted beside the system's, for every host.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        trusted: Vec<usize>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        upstreams: Vec<Upstream>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        corporate: Option<Corporate>,
        /// The same for requests without TLS.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plain: Option<Corporate>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        bindings: Vec<Binding>,
    },
    /// Further phantoms and upstreams, before the cage that needs them.
    Add {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        bindings: Vec<Binding>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        upstreams: Vec<Upstream>,
    },
    /// A socket to the vault travels along. A later one replaces it. Behind it another one, where tokens are renewed ([`crate::renewal`]).
    Vault {},
    /// A cage. Its pidfd travels along, and behind it the sockets in the order of `listeners`.
    Cage {
        cage: u64,
        rules: Rules,
        /// The lists of project files: nothing beyond them is allowed later.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        within: Vec<Within>,
        /// The names of the secrets that its plan was granted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        granted: Vec<String>,
        /// Whether a host without a rule is asked about (`net.ask`).
        #[serde(default)]
        asks: bool,
        /// Whether programs of the cage trust the CA of the proxy.
        #[serde(default)]
        trusts: bool,
        listeners: Vec<Listener>,
        /// Whether no [`Order::Listen`] follows.
        last: bool,
    },
    /// More sockets of a cage.
    Listen { cage: u64, listeners: Vec<Listener>, last: bool },
    /// Allows more to one cage, or to all of them. New hosts get spare places.
    Widen {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cage: Option<u64>,
        rules: Rules,
    },
    /// Takes a grant back: the rules of one cage, or of all of them, are these from now on. Its connections are closed, and can be made again as far as the rules go.
    Narrow {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cage: Option<u64>,
        rules: Rules,
    },
    /// Answers a question. A yes to a host comes with the [`Order::Widen`] that it means, before this.
    Answer {
        question: u64,
        allowed: bool,
        /// Why not, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// A cage has ended.
    Gone { cage: u64 },
}

/// How a connection was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Served {
    /// TLS or HTTP passed on as it is, after its host was compared.
    Tunnelled,
    /// Requests were read.
    Terminated,
    /// Plain TCP.
    Tcp,
}

/// From the proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is", deny_unknown_fields)]
pub enum Report {
    /// The proxy is confined and serves. The certificate of its CA, in PEM.
    Ready { ca: String },
    /// An order holds, unless there is a trouble. Orders are counted from 1, the first one behind [`Order::Setup`].
    Obeyed {
        order: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trouble: Option<Trouble>,
    },
    /// Something was denied.
    Denied {
        cage: u64,
        denial: Denial,
        /// How often since the last report of the same host and reason. A flood is counted, not told one by one.
        times: u64,
    },
    /// A connection to a host was made.
    Connected {
        cage: u64,
        connection: u64,
        host: Host,
        port: u16,
        served: Served,
        /// Where it leads; `None` for one that goes through the corporate proxy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<SocketAddr>,
        /// The rule that allows it.
        rule: String,
    },
    /// It has ended.
    Closed { cage: u64, connection: u64, sent: u64, received: u64, requests: u64, milliseconds: u64 },
    /// A host that was allowed could not be reached: for `log --net`, and so that a program's error can be explained.
    Unreached { cage: u64, host: Host, port: u16, fact: String },
    /// A host without a rule is asked about, or a login that would replace the user's; what wants it waits.
    Question { cage: u64, question: u64, about: Awaited },
    /// A secret was put in for a phantom, the first time of this cage and host.
    Swapped { cage: u64, secret: String, host: Host },
    /// A host sent the value of a secret back, and the phantom was put in: a notice.
    Echoed { cage: u64, secret: String, host: Host },
    /// A phantom stood in the body of a request beside one that was put in, and was taken out. The request went on.
    Masked { cage: u64, secret: String, host: Host },
    /// The tokens of a login were renewed, and are in its file.
    Renewed { cage: u64, secret: String, host: Host },
    /// The sockets of a cage are closed.
    Dropped { cage: u64 },
    /// Something did not go as it should. The proxy goes on, unless its socket closes.
    Trouble(Trouble),
}

/// The most bytes of a value.
pub const LONGEST_VALUE: usize = 64 << 10;
/// More bytes than any packet of the vault has.
pub const ROOM_FOR_VALUE: usize = LONGEST_VALUE + 512;

const GIVEN: u8 = 1;
const REVOKED: u8 = 2;
const FAILED: u8 = 3;

/// From the vault, on a socket of its own: a byte for its kind, one for the length of the name, the name, and the rest. No JSON, so that no
/// parser copies a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// The value of a secret. The reader wipes the packet.
    Given { secret: &'a str, value: &'a [u8] },
    /// The secret is no longer to be used, and wiped.
    Revoked { secret: &'a str },
    /// The secret cannot be had. The fact, for people.
    Failed { secret: &'a str, fact: &'a str },
}

impl<'a> Value<'a> {
    /// What stands before the value, so that the value itself need not be copied: send both as one packet.
    pub fn head(self) -> Option<Vec<u8>> {
        let (kind, secret) = match self {
            Value::Given { secret, .. } => (GIVEN, secret),
            Value::Revoked { secret } => (REVOKED, secret),
            Value::Failed { secret, .. } => (FAILED, secret),
        };
        let length = u8::try_from(secret.len()).ok()?;
        Some([&[kind, length], secret.as_bytes()].concat())
    }

    /// What follows the head.
    pub const fn rest(self) -> &'a [u8] {
        match self {
            Value::Given { value, .. } => value,
            Value::Revoked { .. } => &[],
            Value::Failed { fact, .. } => fact.as_bytes(),
        }
    }

    /// Reads a packet; `None` for anything else.
    pub fn decode(packet: &'a [u8]) -> Option<Self> {
        let (&kind, rest) = packet.split_first()?;
        let (&length, rest) = rest.split_first()?;
        let (secret, rest) = rest.split_at_checked(length.into())?;
        let secret = std::str::from_utf8(secret).ok().filter(|secret| !secret.is_empty())?;
        match kind {
            GIVEN if rest.len() <= LONGEST_VALUE => Some(Value::Given { secret, value: rest }),
            REVOKED if rest.is_empty() => Some(Value::Revoked { secret }),
            FAILED => Some(Value::Failed { secret, fact: std::str::from_utf8(rest).ok()? }),
            _ => None,
        }
    }
}

/// To the vault, one byte for each of its packets, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The value is kept, or wiped.
    Done,
    /// No binding names this secret, or the packet is malformed; nothing was kept.
    Refused,
}

impl Taken {
    pub const fn encode(self) -> [u8; 1] {
        match self {
            Taken::Done => [1],
            Taken::Refused => [0],
        }
    }

    pub const fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [1] => Some(Taken::Done),
            [0] => Some(Taken::Refused),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_as_it_was_written() {
        let secret = "github";
        for value in [
            Value::Given { secret, value: b"a\0value" },
            Value::Given { secret, value: b"" },
            Value::Revoked { secret },
            Value::Failed { secret, fact: "the keyring is locked" },
        ] {
            let packet = [value.head().unwrap().as_slice(), value.rest()].concat();
            assert!(Value::decode(&packet) == Some(value));
        }
        for packet in
            [&b""[..], b"\x01", b"\x01\x05abc", b"\x01\x00", b"\x02\x01ax", b"\x09\x01a", b"\x01\x01\xffx"]
        {
            assert!(Value::decode(packet).is_none(), "{packet:?}");
        }
        assert!(Value::Revoked { secret: &"a".repeat(256) }.head().is_none());
    }

    #[test]
    fn a_packet_is_taken_or_refused() {
        for taken in [Taken::Done, Taken::Refused] {
            assert_eq!(Taken::decode(&taken.encode()), Some(taken));
        }
        assert_eq!(Taken::decode(&[]), None);
        assert_eq!(Taken::decode(&[2]), None);
    }
}
