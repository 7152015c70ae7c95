//! What a cage with rules gets, as a part of its plan: the rules with their origins, and every socket that is opened in its network.

use super::allowed::Allowed;
use super::binding::Binding;
use super::bundle::Bundle;
use super::corporate::{Proxies, proxies};
use super::host::{Host, Name, Pattern};
use super::narrow::{LeftOut, Within, narrowed};
use super::pool::{PROXY_PORT, Pool, SERVER_V4, SERVER_V6};
use super::rule::{Protocol, Rule};
use super::rules::{Entry, Own, Rules};
use crate::request::Purpose;
use crate::secret::{Bound, Led};
use crate::settings::NetPolicy;
use crate::words::{NetAsk, Ruled};
use serde::Serialize;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// The name of this machine inside a cage, for `--reach`.
pub const THIS_MACHINE: &str = "host.keyward.internal";
/// The port of resolvers.
const NAMES_PORT: u16 = 53;
/// Places for hosts that are allowed while a session runs, or that are asked about.
const SPARE: usize = 16;

/// A host that is reached at another address: `[net.upstream."HOST"]`, and `--reach`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Upstream {
    pub host: Name,
    pub port: Option<u16>,
    pub address: SocketAddr,
    /// The file with the certificate of its authority, as written.
    #[serde(serialize_with = "crate::text::optional_path")]
    pub ca: Option<PathBuf>,
}

impl Upstream {
    /// Reads what [`Upstream`] writes: the host with an optional port, the address, and the path of a certificate.
    pub fn parse(text: &str) -> Option<Upstream> {
        let mut words = text.splitn(3, ' ');
        let (host, address) = (words.next()?, words.next()?.parse().ok()?);
        let (host, port) = super::request::authority(host).ok()?;
        let ca = words.next().filter(|ca| !ca.is_empty()).map(PathBuf::from);
        match host {
            Host::Name(host) => Some(Upstream { host, port, address, ca }),
            Host::Address(_) => None,
        }
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.host.fmt(formatter)?;
        if let Some(port) = self.port {
            write!(formatter, ":{port}")?;
        }
        write!(formatter, " {}", self.address)?;
        match &self.ca {
            Some(ca) => write!(formatter, " {}", ca.display()),
            None => Ok(()),
        }
    }
}

/// What a socket in the cage's network stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stands {
    For(Pattern),
    /// For a host that is allowed later; sockets of the same place get the same host.
    Spare(usize),
    /// For an HTTP proxy.
    Proxy,
    /// For a host that is reached with TLS, and spoken to without: a base URL.
    Base {
        host: Name,
        port: u16,
    },
    NamesUdp,
    NamesTcp,
}

/// A socket that is opened in the cage's network and served by the proxy outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Socket {
    pub at: SocketAddr,
    pub stands: Stands,
}

/// What a cage with rules reaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Network {
    pub rules: Rules,
    /// The lists of project files, which hold for what is allowed later as well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub within: Vec<Within>,
    /// What they leave out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    pub asks: bool,
    pub upstreams: Vec<Upstream>,
    #[serde(serialize_with = "crate::text::paths")]
    pub ca: Vec<PathBuf>,
    /// The proxies of this host, through which hosts are reached.
    pub corporate: Proxies,
    /// Phantoms, and what they stand for.
    #[serde(skip)]
    pub bindings: Vec<Binding>,
    /// The names of the secrets that the cage was granted for them.
    pub granted: Vec<String>,
    #[serde(skip)]
    pub sockets: Vec<Socket>,
    /// Files that hold one certificate more than the host's.
    #[serde(skip)]
    pub bundles: Vec<Bundle>,
}

impl Network {
    /// Decides what a policy with rules comes to. `environment` are the caller's variables.
    pub fn new(policy: &NetPolicy, environment: &[&[u8]], purpose: Purpose) -> Network {
        let within = lists(policy);
        let (mut rules, left_out) = narrowed(entries(policy, &policy.allow), &within);
        let mut upstreams: Vec<Upstream> = policy.upstream.iter().map(|one| one.value.clone()).collect();
        let machine = Name::parse(THIS_MACHINE);
        for (reach, host) in policy.reach.iter().filter_map(|reach| Some((reach, machine.clone()?))) {
            let port = reach.value;
            let origin = reach.origin.to_string();
            rules.widen(Rules(vec![Entry { rule: tcp(&host, port), origin, own: None }]));
            let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
            upstreams.push(Upstream { host, port: Some(port), address, ca: None });
        }
        let asks = policy.ask.value == NetAsk::Yes;
        let spare = if asks || purpose == Purpose::Session { SPARE } else { 0 };
        let reach: Vec<u16> = policy.reach.iter().map(|reach| reach.value).collect();
        let sockets = sockets(&Pool::assign(&rules, spare), &reach);
        let ca = policy.ca.iter().map(|ca| ca.value.clone()).collect();
        let corporate = proxies(environment);
        Network {
            rules,
            within,
            left_out,
            asks,
            upstreams,
            ca,
            corporate,
            bindings: Vec::new(),
            granted: Vec::new(),
            sockets,
            bundles: Vec::new(),
        }
    }
}

impl Network {
    /// With the sockets that base URLs lead to.
    pub(crate) fn with_base_urls(mut self, phantoms: &[Bound]) -> Network {
        for Led { at, host, port, .. } in phantoms.iter().filter_map(|bound| bound.base_url.as_ref()) {
            if !self.sockets.iter().any(|known| known.at == *at) {
                let stands = Stands::Base { host: host.clone(), port: *port };
                self.sockets.push(Socket { at: *at, stands });
            }
        }
        self
    }
}

/// What a policy allows, as far as project files leave it.
pub fn rules(policy: &NetPolicy) -> Rules {
    narrowed(entries(policy, &policy.allow), &lists(policy)).0
}

/// The lists of project files.
pub fn lists(policy: &NetPolicy) -> Vec<Within> {
    let list = policy.narrowed.iter();
    list.map(|list| Within { origin: list.origin.to_string(), rules: entries(policy, &list.allow) }).collect()
}

/// What these entries of a policy mean.
fn entries(policy: &NetPolicy, allow: &[Ruled<Allowed>]) -> Rules {
    let mut rules = Rules::default();
    for allowed in allow {
        let origin = allowed.origin.to_string();
        let more = match &allowed.value {
            Allowed::Rule(rule) => vec![Entry { rule: rule.clone(), origin, own: own(policy, rule) }],
            Allowed::Preset(preset) => {
                let own = policy.registries.iter().find(|(settings, _)| Some(*settings) == preset.follows);
                let own = own.map(|(_, own)| own.clone()).unwrap_or_default();
                let entry = |(rule, reason)| {
                    let origin = format!("{} ({origin}): {reason}", preset.name);
                    Entry { rule, origin, own: None }
                };
                preset.rules(&own).into_iter().map(entry).collect()
            }
        };
        rules.widen(Rules(more));
    }
    rules
}

/// How the server is spoken to that a base URL of the user's names, if this is the rule for it.
fn own(policy: &NetPolicy, rule: &Rule) -> Option<Own> {
    let gateway = policy.gateways.iter().find(|gateway| gateway.rule().as_ref() == Some(rule))?;
    Some(if gateway.tls { Own::Tls } else { Own::Plain })
}

/// Whether programs of the cage have to trust certificates of the proxy, now or later: a session can be granted more, and so can a question.
pub fn needs_certificate(policy: &NetPolicy, purpose: Purpose) -> bool {
    purpose == Purpose::Session
        || policy.ask.value == NetAsk::Yes
        || policy.bound
        || rules(policy).iter().any(Rule::names_requests)
}

/// The addresses of the cage's resolver.
pub const fn resolver() -> (Ipv4Addr, Ipv6Addr) {
    (SERVER_V4, SERVER_V6)
}

fn tcp(host: &Name, port: u16) -> Rule {
    Rule { protocol: Protocol::Tcp, port: Some(port), ..super::rule::exact(host.clone()) }
}

/// The sockets of the resolver first: if one of them cannot be opened, nothing works.
fn sockets(pool: &Pool, reach: &[u16]) -> Vec<Socket> {
    let mut all = Vec::new();
    for address in [IpAddr::V4(SERVER_V4), IpAddr::V6(SERVER_V6)] {
        all.push(Socket { at: SocketAddr::new(address, NAMES_PORT), stands: Stands::NamesUdp });
        all.push(Socket { at: SocketAddr::new(address, NAMES_PORT), stands: Stands::NamesTcp });
        all.push(Socket { at: SocketAddr::new(address, PROXY_PORT), stands: Stands::Proxy });
    }
    all.extend(pool.listeners().map(|(at, number)| {
        let stands = match pool.places.get(number).and_then(|place| place.stands_for.clone()) {
            Some(pattern) => Stands::For(pattern),
            None => Stands::Spare(number),
        };
        Socket { at, stands }
    }));
    // Programs look for a local server at the loopback, and find the one of this machine.
    let machine = Name::parse(THIS_MACHINE).map(|name| Pattern::Exact(Host::Name(name)));
    for (&port, machine) in reach.iter().filter_map(|port| Some((port, machine.clone()?))) {
        for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            all.push(Socket { at: SocketAddr::new(address, port), stands: Stands::For(machine.clone()) });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Ruled;

    fn network(allow: &[&str], reach: &[u16], environment: &[&[u8]], purpose: Purpose) -> Network {
        let allow = allow.iter().map(|text| Ruled::builtin(Allowed::parse(text).unwrap())).collect();
        let reach = reach.iter().map(|&port| Ruled::builtin(port)).collect();
        Network::new(&NetPolicy { allow, reach, ..NetPolicy::default() }, environment, purpose)
    }

    #[test]
    fn the_resolver_and_every_host_have_sockets_of_both_families() {
        let network = network(&["api.example.com", "tcp://192.0.2.7:5432"], &[], &[], Purpose::Command);
        let all: Vec<String> = network.sockets.iter().map(|socket| socket.at.to_string()).collect();
        assert_eq!(all[..3], ["198.18.0.1:53", "198.18.0.1:53", "198.18.0.1:3128"]);
        assert_eq!(all[6..8], ["198.18.1.0:80", "198.18.1.0:443"]);
        assert_eq!(all.last().map(String::as_str), Some("192.0.2.7:5432"));
    }

    #[test]
    fn a_session_has_room_for_hosts_that_are_allowed_later() {
        let spare = |purpose| {
            let network = network(&["a.example"], &[], &[], purpose);
            network.sockets.iter().filter(|socket| matches!(socket.stands, Stands::Spare(_))).count()
        };
        assert_eq!((spare(Purpose::Command), spare(Purpose::Session)), (0, SPARE * 4));
    }

    #[test]
    fn a_port_of_this_machine_is_found_at_the_loopback_and_by_name() {
        let network = network(&[], &[11434], &[], Purpose::Command);
        let at = |text: &str| network.sockets.iter().any(|socket| socket.at.to_string() == text);
        assert!(at("127.0.0.1:11434") && at("[::1]:11434") && at("198.18.1.0:11434"));
        assert_eq!(
            network.rules.iter().map(Rule::to_string).collect::<Vec<_>>(),
            ["tcp://host.keyward.internal:11434"]
        );
        assert_eq!(network.upstreams[0].to_string(), "host.keyward.internal:11434 127.0.0.1:11434");
    }

    #[test]
    fn an_upstream_is_written_as_it_is_read() {
        for text in ["api.example.test 127.0.0.1:8443", "a.example:5432 [::1]:1 /etc/a ca.pem"] {
            assert_eq!(Upstream::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "a.example", "a.example 127.0.0.1", "192.0.2.1 127.0.0.1:1", "a..b 127.0.0.1:1"] {
            assert_eq!(Upstream::parse(text), None, "{text}");
        }
    }
}
