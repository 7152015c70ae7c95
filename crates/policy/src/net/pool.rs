//! The addresses that stand for hosts inside a cage. Every address is local there, so that the kernel delivers connections to whatever socket
//! listens; these are addresses that no real host has. The DNS of the cage answers with them, and so a connection tells its host.

use super::host::{Host, Name, Pattern};
use super::rules::Rules;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The DNS server of a cage (port 53), and its HTTP proxy ([`PROXY_PORT`]).
pub const SERVER_V4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
pub const SERVER_V6: Ipv6Addr = at_v6(1);
/// The port at which programs that insist on an HTTP proxy find one.
pub const PROXY_PORT: u16 = 3128;
/// Hosts get the addresses from here on.
const FIRST: u16 = 256;
/// The most hosts and wildcards of a cage, with spare ones.
pub const MOST: usize = 4096;

/// The pool is 198.18.0.0/15, which no network routes, and a private prefix.
const fn at_v4(number: u16) -> Ipv4Addr {
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(198, 18, high, low)
}

const fn at_v6(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd6b, 0x6579, 0x7761, 0x7264, 0, 0, 0, number)
}

/// Where a base URL of this number leads, for clients that are to speak without TLS.
pub fn base(number: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(at_v4(u16::from(number.min(LAST_BASE)) + FIRST_BASE)), 80)
}

/// Base URLs have the addresses between the server's and those of hosts.
const FIRST_BASE: u16 = 16;
const LAST_BASE: u8 = 127;

/// One host or wildcard with its addresses and ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// `None` for a spare place, which gets a host while the cage runs.
    pub stands_for: Option<Pattern>,
    /// A pool address of each family; for an address that a rule names, that address.
    pub addresses: Vec<IpAddr>,
    pub ports: BTreeSet<u16>,
}

/// The places of a cage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    pub places: Vec<Place>,
}

impl Pool {
    /// Gives each host and wildcard of the rules its addresses, in their order. `spare` places with the usual ports follow: for hosts that are
    /// allowed while the cage runs, and for questions about hosts.
    pub fn assign(rules: &Rules, spare: usize) -> Pool {
        let mut pool = Pool::default();
        let mut next = FIRST;
        let mut fresh = || {
            let number = next;
            next = next.saturating_add(1);
            vec![IpAddr::V4(at_v4(number)), IpAddr::V6(at_v6(number))]
        };
        for rule in rules.iter() {
            let is_known = pool.places.iter().any(|place| place.stands_for.as_ref() == Some(&rule.host));
            if is_known || pool.places.len() >= MOST {
                continue;
            }
            let addresses = match &rule.host {
                Pattern::Exact(Host::Address(address)) => vec![*address],
                _ => fresh(),
            };
            // Another rule may cover this host as well: `*.example.com:8443`.
            let covering = rules.iter().filter(|other| other.host.includes(&rule.host));
            let ports = covering.flat_map(|other| other.ports().collect::<Vec<_>>()).collect();
            pool.places.push(Place { stands_for: Some(rule.host.clone()), addresses, ports });
        }
        for _ in 0..spare.min(MOST) {
            let ports = super::rule::WEB_PORTS.into_iter().collect();
            pool.places.push(Place { stands_for: None, addresses: fresh(), ports });
        }
        pool
    }

    /// The place of a name: its own, or else that of the closest wildcard.
    pub fn find(&self, name: &Name) -> Option<&Place> {
        let host = Host::Name(name.clone());
        let fit = |place: &&Place| match &place.stands_for {
            Some(Pattern::Exact(own)) => (*own == host).then_some(usize::MAX),
            Some(pattern @ Pattern::Below(above)) => pattern.covers(&host).then(|| above.as_str().len()),
            None => None,
        };
        self.places.iter().filter(|place| fit(place).is_some()).max_by_key(fit)
    }

    /// Every socket that listens, with the number of its place.
    pub fn listeners(&self) -> impl Iterator<Item = (SocketAddr, usize)> {
        self.places.iter().enumerate().flat_map(|(number, place)| {
            let ports = move |address: &IpAddr| {
                let address = *address;
                place.ports.iter().map(move |&port| (SocketAddr::new(address, port), number))
            };
            place.addresses.iter().flat_map(ports)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::rule::Rule;
    use super::*;

    fn pool(texts: &[&str], spare: usize) -> Pool {
        Pool::assign(&Rules::of(texts.iter().map(|text| Rule::parse(text).unwrap())), spare)
    }

    fn find(pool: &Pool, name: &str) -> Option<String> {
        pool.find(&Name::parse(name).unwrap())
            .and_then(|place| place.stands_for.as_ref())
            .map(Pattern::to_string)
    }

    #[test]
    fn each_host_has_its_own_addresses() {
        let pool = pool(
            &["a.example", "GET a.example/x", "*.b.example", "c.b.example:8443", "tcp://192.0.2.7:5432"],
            1,
        );
        let listeners: Vec<String> = pool.listeners().map(|(at, number)| format!("{number} {at}")).collect();
        assert_eq!(
            listeners,
            [
                "0 198.18.1.0:80",
                "0 198.18.1.0:443",
                "0 [fd6b:6579:7761:7264::100]:80",
                "0 [fd6b:6579:7761:7264::100]:443",
                "1 198.18.1.1:80",
                "1 198.18.1.1:443",
                "1 [fd6b:6579:7761:7264::101]:80",
                "1 [fd6b:6579:7761:7264::101]:443",
                "2 198.18.1.2:80",
                "2 198.18.1.2:443",
                "2 198.18.1.2:8443",
                "2 [fd6b:6579:7761:7264::102]:80",
                "2 [fd6b:6579:7761:7264::102]:443",
                "2 [fd6b:6579:7761:7264::102]:8443",
                "3 192.0.2.7:5432",
                "4 198.18.1.3:80",
                "4 198.18.1.3:443",
                "4 [fd6b:6579:7761:7264::103]:80",
                "4 [fd6b:6579:7761:7264::103]:443",
            ]
        );
    }

    #[test]
    fn a_name_finds_its_own_place_or_the_closest_wildcard() {
        let pool = pool(&["*.example.com", "*.a.example.com", "b.example.com"], 2);
        assert_eq!(find(&pool, "b.example.com").as_deref(), Some("b.example.com"));
        assert_eq!(find(&pool, "c.example.com").as_deref(), Some("*.example.com"));
        assert_eq!(find(&pool, "c.a.example.com").as_deref(), Some("*.a.example.com"));
        assert_eq!(find(&pool, "example.com"), None);
    }
}
