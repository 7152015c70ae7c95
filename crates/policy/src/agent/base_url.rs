//! The address that a variable of the user's points a client to, such as `ANTHROPIC_BASE_URL`: the one place where the real key may go then.
//!
//! Only the caller's environment counts. What a project says (`.env`, settings of the agent) is read by the agent inside its cage, which
//! holds a phantom: sent to another host, it is worth nothing.

use crate::net::host::{Host, Pattern};
use crate::net::request;
use crate::net::rule::Rule;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// What a base URL says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    pub host: Host,
    pub port: u16,
    pub tls: bool,
}

/// Why a key cannot be bound to what a variable holds. The value is not repeated: it may hold a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    NotAUrl,
    Login,
    /// A server of this machine with TLS: its name and its certificate cannot be checked from a cage.
    TlsOfThisMachine,
    /// Without TLS to a host that is not in a private network.
    PlainToTheInternet,
}

impl Unusable {
    pub const fn words(self) -> (&'static str, &'static str) {
        match self {
            Unusable::NotAUrl => ("is not an address of the web", "write it as `https://HOST/PATH`"),
            Unusable::Login => (
                "has a login in it",
                "leave the login out of the address, and give the key in its own variable",
            ),
            Unusable::TlsOfThisMachine => (
                "names a server of this machine with https",
                "use `http://127.0.0.1:PORT`, which does not leave this machine",
            ),
            Unusable::PlainToTheInternet => (
                "names a host of the Internet without https",
                "use `https://`: the key would travel in plain text",
            ),
        }
    }
}

impl BaseUrl {
    /// Reads one strictly: what two programs could read differently is refused.
    pub fn parse(text: &str) -> Result<BaseUrl, Unusable> {
        let (scheme, rest) = text.split_once("://").ok_or(Unusable::NotAUrl)?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(Unusable::NotAUrl),
        };
        if !text.is_ascii() || text.bytes().any(|byte| byte.is_ascii_control() || b" \\".contains(&byte)) {
            return Err(Unusable::NotAUrl);
        }
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err(Unusable::Login);
        }
        let (host, port) = request::authority(authority).map_err(|_| Unusable::NotAUrl)?;
        let url = BaseUrl { host, port: port.unwrap_or(if tls { 443 } else { 80 }), tls };
        match (url.is_of_this_machine(), tls) {
            (true, true) => Err(Unusable::TlsOfThisMachine),
            (false, false) if !url.may_be_private() => Err(Unusable::PlainToTheInternet),
            _ => Ok(url),
        }
    }

    /// Where the server is, if it is one of this machine's loopback.
    pub fn of_this_machine(&self) -> Option<SocketAddr> {
        let address = match &self.host {
            Host::Address(address) if address.is_loopback() => *address,
            Host::Name(name) if name.is_localhost() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            _ => return None,
        };
        Some(SocketAddr::new(address, self.port))
    }

    fn is_of_this_machine(&self) -> bool {
        self.of_this_machine().is_some()
    }

    /// Whether it can be a host of a private network: an address of one, or a name that the public DNS does not have.
    fn may_be_private(&self) -> bool {
        match &self.host {
            Host::Address(address) => is_private(*address),
            Host::Name(name) => {
                let name = name.as_str();
                const TOPS: [&str; 7] = ["corp", "home", "internal", "intranet", "lan", "local", "private"];
                !name.contains('.')
                    || name.rsplit('.').next().is_some_and(|top| TOPS.contains(&top))
                    || name.ends_with(".home.arpa")
                    || name.ends_with(".test")
            }
        }
    }

    /// The rule that covers it, and nothing else; none for a server of this machine, which is reached through the cage's loopback.
    pub fn rule(&self) -> Option<Rule> {
        let rule = Rule { port: Some(self.port), ..Rule::host(Pattern::Exact(self.host.clone())) };
        (!self.is_of_this_machine()).then_some(rule)
    }
}

/// Whether an address is one that a private network has: RFC 1918, carrier-grade NAT, unique local addresses.
fn is_private(address: IpAddr) -> bool {
    crate::net::address::special(address)
        .is_some_and(|kind| kind == "private" || kind == "shared by a carrier (CGNAT)")
}
