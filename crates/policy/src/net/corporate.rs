//! The proxy through which this host reaches the Internet, from the caller's variables: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`.
//!
//! A login in such a variable is not a part of what is decided here: the plan says that there is one, the vault takes it out of the
//! variable with [`login`], and the proxy alone uses it.

use super::host::{Host, Pattern, as_text};
use super::request;
use crate::view::Warning;
use serde::Serialize;
use std::fmt;
use std::net::IpAddr;

/// A proxy that connections go through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Corporate {
    pub host: Host,
    pub port: u16,
    /// The variable that names it.
    pub variable: String,
    /// Whether that variable holds a login as well.
    pub login: bool,
    /// Hosts that are reached directly.
    pub except: Vec<Exception>,
}

/// The proxies of this host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Proxies {
    /// For TLS, and for `tcp://` rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Corporate>,
    /// For requests without TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plain: Option<Corporate>,
}

impl Proxies {
    pub fn iter(&self) -> impl Iterator<Item = &Corporate> {
        self.tls.iter().chain(&self.plain)
    }

    /// The variables whose logins are used, each once.
    pub fn logins(&self) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.iter().filter(|proxy| proxy.login).map(|proxy| proxy.variable.as_str()).collect();
        names.dedup();
        names
    }
}

/// An entry of `NO_PROXY`: a host and those below it, or a range of addresses; at one port, or at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    Host(Host),
    Range(IpAddr, u8),
}

impl Exception {
    /// Reads an entry.
    pub fn parse(entry: &str) -> Option<Exception> {
        let entry = entry.trim();
        if let Some((address, bits)) = entry.split_once('/') {
            let address: IpAddr = address.parse().ok()?;
            let bits: u8 = bits.parse().ok()?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            return (bits <= most).then_some(Exception { hosts: Hosts::Range(address, bits), port: None });
        }
        let entry = entry.trim_start_matches("*.").trim_start_matches('.');
        if let Ok(address) = entry.parse() {
            return Some(Exception { hosts: Hosts::Host(Host::Address(address)), port: None });
        }
        let (host, port) = request::authority(entry).ok()?;
        Some(Exception { hosts: Hosts::Host(host), port })
    }

    /// Whether a host is reached directly.
    pub fn covers(&self, host: &Host, port: u16) -> bool {
        let covered = match (&self.hosts, host) {
            (Hosts::Host(own @ Host::Name(name)), host) => {
                own == host || Pattern::Below(name.clone()).covers(host)
            }
            (Hosts::Host(own), host) => own == host,
            (Hosts::Range(network, bits), Host::Address(address)) => is_within(*network, *bits, *address),
            (Hosts::Range(..), Host::Name(_)) => false,
        };
        covered && self.port.is_none_or(|own| own == port)
    }
}

fn is_within(network: IpAddr, bits: u8, address: IpAddr) -> bool {
    let (network, address, width) = match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            (u32::from(network).into(), u32::from(address).into(), 32)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => (u128::from(network), u128::from(address), 128),
        _ => return false,
    };
    let rest = u32::from(width - bits);
    network.checked_shr(rest).unwrap_or(0) == address.checked_shr(rest).unwrap_or(0)
}

impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::Host(host) => host.fmt(f)?,
            Hosts::Range(network, bits) => write!(f, "{network}/{bits}")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

as_text!(Exception, Exception::parse);

/// What the user is told of a proxy that cannot be used.
type Unusable<'e> = (&'e str, &'static str);

/// A variable that names a proxy, and its value.
fn named<'e>(environment: &[&'e [u8]], names: &[&'static str]) -> Option<(&'static str, &'e [u8])> {
    names.iter().find_map(|name| {
        let own = |entry: &&'e [u8]| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=");
        environment.iter().find_map(own).filter(|value| !value.is_empty()).map(|value| (*name, value))
    })
}

const FOR_TLS: &[&str] = &["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
const FOR_PLAIN: &[&str] = &["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// The proxies that the caller's variables name.
pub fn proxies(environment: &[&[u8]]) -> Proxies {
    let of = |names| match read(environment, names)? {
        Ok(proxy) => Some(proxy),
        Err(_) => None,
    };
    Proxies { tls: of(FOR_TLS), plain: of(FOR_PLAIN) }
}

/// What the user is told of proxies that are not used: without them, hosts may be out of reach.
pub fn unused(environment: &[&[u8]]) -> Vec<Warning> {
    let mut all: Vec<Warning> = Vec::new();
    for (variable, why) in
        [FOR_TLS, FOR_PLAIN].into_iter().filter_map(|names| read(environment, names)?.err())
    {
        let fact = format!("{variable} {why}, so that it is not used, and hosts are reached directly");
        if !all.iter().any(|known| known.fact == fact) {
            let remedy =
                "set it to a proxy that speaks HTTP: `http://HOST:PORT`, or `http://USER:PASSWORD@HOST:PORT`";
            all.push(Warning { fact, remedy: remedy.into(), lasting: true });
        }
    }
    all
}

fn read(environment: &[&[u8]], names: &[&'static str]) -> Option<Result<Corporate, Unusable<'static>>> {
    let (variable, value) = named(environment, names)?;
    let no_proxy =
        named(environment, &["NO_PROXY", "no_proxy"]).and_then(|(_, value)| std::str::from_utf8(value).ok());
    let no_proxy = no_proxy.unwrap_or_default();
    if no_proxy.trim() == "*" {
        return None;
    }
    let parts = match parts(value) {
        Ok(parts) => parts,
        Err(why) => return Some(Err((variable, why))),
    };
    if parts.login.is_some_and(|text| !is_fit(text)) {
        return Some(Err((variable, "holds a login that cannot be read")));
    }
    Some(match request::authority(parts.authority) {
        Ok((host, port)) => Ok(Corporate {
            host,
            port: port.unwrap_or(80),
            variable: variable.to_owned(),
            login: parts.login.is_some(),
            except: no_proxy.split(',').filter_map(Exception::parse).collect(),
        }),
        Err(_) => Err((variable, "names no proxy that can be read")),
    })
}

struct Parts<'e> {
    login: Option<&'e [u8]>,
    authority: &'e str,
}

/// The parts of a proxy's URL. What is wrong with it, in words that hold nothing of it.
fn parts(url: &[u8]) -> Result<Parts<'_>, &'static str> {
    let begin = url.windows(3).position(|three| three == b"://");
    let rest = match begin {
        Some(at) if url[..at].eq_ignore_ascii_case(b"http") => &url[at + 3..],
        Some(_) => return Err("names a proxy that does not speak HTTP"),
        None => url,
    };
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let (login, authority) = match rest[..end].iter().rposition(|&byte| byte == b'@') {
        Some(at) => (Some(&rest[..at]), &rest[at + 1..end]),
        None => (None, &rest[..end]),
    };
    let authority = std::str::from_utf8(authority).map_err(|_| "names no proxy that can be read")?;
    Ok(Parts { login, authority })
}

/// Writes the login in the value of such a variable, as `user:password`. Whether there is one. The caller keeps what is written, and wipes it.
pub fn login(url: &[u8], mut write: impl FnMut(u8)) -> bool {
    let Some(text) = parts(url).ok().and_then(|parts| parts.login).filter(|text| is_fit(text)) else {
        return false;
    };
    decoded(text).flatten().for_each(&mut write);
    // A user without a password.
    if !text.contains(&b':') {
        write(b':');
    }
    true
}

/// Whether a header can carry it.
fn is_fit(text: &[u8]) -> bool {
    !text.is_empty() && decoded(text).all(|byte| byte.is_some_and(|byte| !byte.is_ascii_control()))
}

/// With each `%41` as the byte it stands for; `None` in the place of what cannot be read. Nothing is copied.
fn decoded(text: &[u8]) -> impl Iterator<Item = Option<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = text.iter().copied();
    std::iter::from_fn(move || match bytes.next()? {
        b'%' => Some(match (bytes.next().and_then(digit), bytes.next().and_then(digit)) {
            (Some(high), Some(low)) => Some(high * 16 + low),
            _ => None,
        }),
        byte => Some(Some(byte)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_connection_has_its_variable() {
        let of = |environment: &[&[u8]]| {
            let found = proxies(environment);
            [found.tls, found.plain].map(|proxy| proxy.map(|proxy| format!("{}:{}", proxy.host, proxy.port)))
        };
        let https: &[u8] = b"HTTPS_PROXY=http://a.example:3128/";
        let (a, b) = (Some("a.example:3128".to_owned()), Some("b.example:80".to_owned()));
        assert_eq!(of(&[https]), [a.clone(), None]);
        assert_eq!(of(&[https, b"http_proxy=b.example"]), [a.clone(), b.clone()]);
        assert_eq!(of(&[https, b"ALL_PROXY=http://b.example"]), [a, b.clone()]);
        assert_eq!(of(&[b"HTTPS_PROXY=", b"HTTP_PROXY=http://b.example"]), [None, b]);
        assert_eq!(of(&[https, b"NO_PROXY=*"]), [None, None]);
    }

    #[test]
    fn a_login_is_known_and_not_held() {
        let of = |url: &[u8]| {
            let mut out = Vec::new();
            login(url, |byte| out.push(byte)).then_some(out)
        };
        for (url, expected) in [
            (&b"http://ada:p%40ss@a.example:3128"[..], &b"ada:p@ss"[..]),
            (b"http://ada:p@ss@a.example:3128/x@b", b"ada:p@ss"),
            (b"ada:x@a.example", b"ada:x"),
            (b"http://ada@a.example", b"ada:"),
        ] {
            assert_eq!(of(url).unwrap(), expected);
            let entry = [&b"HTTPS_PROXY="[..], url].concat();
            let found = proxies(&[&entry]).tls.unwrap();
            assert!(found.login && found.host.to_string() == "a.example", "{found:?}");
            let shown = format!("{found:?}{}", serde_json::to_string(&found).unwrap());
            assert!(!shown.contains("ada") && !shown.contains("p@s"), "{shown}");
        }
        assert_eq!(of(b"http://a.example:3128"), None);
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_told_without_its_login() {
        for entry in [
            &b"HTTPS_PROXY=socks5://ada:canary@a.example"[..],
            b"ALL_PROXY=https://ada:canary@a.example",
            b"HTTPS_PROXY=http://ada:canary%0d%0aX@a.example",
            b"HTTPS_PROXY=http://ada:canary%zz@a.example",
            b"HTTPS_PROXY=http://ada:canary@a..b",
        ] {
            assert_eq!(proxies(&[entry]), Proxies::default());
            let told = unused(&[entry]);
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(!told[0].fact.contains("canary") && told[0].fact.contains("not used"), "{told:?}");
        }
        assert_eq!(unused(&[b"https_proxy=http://ada:x@a.example:3128/"]), Vec::new());
    }

    #[test]
    fn exceptions_are_names_below_a_name_ports_and_ranges() {
        let of = |text: &str| Exception::parse(text).unwrap();
        let host = |text| Host::parse(text).unwrap();
        for (entry, asked, port, covered) in [
            (".corp.example", "a.corp.example", 443, true),
            ("corp.example", "corp.example", 443, true),
            ("*.corp.example", "x.a.corp.example", 443, true),
            ("corp.example", "notcorp.example", 443, false),
            ("corp.example:8443", "corp.example", 8443, true),
            ("corp.example:8443", "corp.example", 443, false),
            ("10.0.0.1", "10.0.0.1", 443, true),
            ("10.0.0.0/8", "10.1.2.3", 443, true),
            ("10.0.0.0/8", "11.1.2.3", 443, false),
            ("0.0.0.0/0", "11.1.2.3", 443, true),
            ("10.0.0.0/8", "corp.example", 443, false),
            ("2001:db8::/32", "[2001:db8::1]", 443, true),
            ("::1", "[::1]", 443, true),
        ] {
            assert_eq!(of(entry).covers(&host(asked), port), covered, "{entry} {asked}");
            assert_eq!(Exception::parse(&of(entry).to_string()), Some(of(entry)));
        }
        assert_eq!(Exception::parse(""), None);
        assert_eq!(Exception::parse("10.0.0.0/33"), None);
    }
}
