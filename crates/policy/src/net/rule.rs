//! One rule of the network, as a user types it: `api.github.com`, `host:8443`, `host/path`, `POST host/v1/*`, `*.host`, `tcp://host:5432`.
//!
//! A path is exact, unless it has `*`: one at the end stands for any rest, any other one for what is between two slashes. The query does not
//! count. A rule without a port covers 443 and 80; one that begins with `https://` or `http://` covers one of them.

use super::host::{Host, Name, Pattern, as_text};
use super::request::{self, Path};
use crate::config::Unfit;
use crate::text::visible;
use std::fmt;

/// The ports of a rule that names none.
pub const WEB_PORTS: [u16; 2] = [443, 80];

/// What goes through a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TLS or HTTP, whose host is compared with the rule.
    Web,
    /// Any bytes: `tcp://`.
    Tcp,
}

/// One rule. It is written as it was read, in one spelling.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule {
    pub protocol: Protocol,
    pub host: Pattern,
    /// Without one, [`WEB_PORTS`].
    pub port: Option<u16>,
    pub method: Option<String>,
    pub path: Option<PathPattern>,
}

impl Rule {
    /// A rule for a host and the usual ports.
    pub const fn host(host: Pattern) -> Rule {
        Rule { protocol: Protocol::Web, host, port: None, method: None, path: None }
    }

    /// Reads a rule.
    pub fn parse(text: &str) -> Result<Rule, Unfit> {
        let (method, rest) = match text.split_once(' ') {
            Some((method, rest)) => (Some(read_method(method)?), rest.trim_start_matches(' ')),
            None => (None, text),
        };
        let (protocol, scheme_port, rest) = match rest.split_once("://") {
            None => (Protocol::Web, None, rest),
            Some(("https", rest)) => (Protocol::Web, Some(443), rest),
            Some(("http", rest)) => (Protocol::Web, Some(80), rest),
            Some(("tcp", rest)) => (Protocol::Tcp, None, rest),
            Some((scheme, _)) => {
                return Err(Unfit::new(
                    format!("a rule cannot begin with `{}://`", visible(scheme.as_ref())),
                    "write `host`, `https://host`, `http://host` or `tcp://host:port`",
                ));
            }
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => (&rest[..at], Some(&rest[at..])),
            None => (rest, None),
        };
        if authority.contains('@') {
            return Err(Unfit::new(
                "a rule cannot name a user",
                "write the host alone: a credential is bound with `keyward secret set NAME --to HOST`",
            ));
        }
        let (host, port) = split_port(authority)?;
        let host = Pattern::parse(host)?;
        // `https://host/` is what a browser shows for a host.
        let path = match path {
            Some("/") if scheme_port.is_some() => None,
            Some(path) => Some(PathPattern::parse(path)?),
            None => None,
        };
        let port = port.or(scheme_port);
        let rule = Rule { protocol, host, port, method, path };
        rule.check()?;
        Ok(rule)
    }

    fn check(&self) -> Result<(), Unfit> {
        let (fact, remedy) = match (&self.protocol, &self.host) {
            (Protocol::Tcp, _) if self.port.is_none() => (
                "a `tcp://` rule needs a port".to_owned(),
                format!("write for example `tcp://{}:5432`", self.host),
            ),
            (Protocol::Tcp, _) if self.method.is_some() || self.path.is_some() => (
                "a `tcp://` rule has neither method nor path".to_owned(),
                "leave out `tcp://`, or the method and the path".to_owned(),
            ),
            (Protocol::Tcp, Pattern::Below(_)) => (
                "a `tcp://` rule needs one host, because plain TCP does not say which one it is for"
                    .to_owned(),
                "write a rule for each host".to_owned(),
            ),
            (_, Pattern::Exact(host)) if is_own(host) => (
                format!("{host} is the cage itself, inside a cage"),
                "to reach a port of this machine, use `--reach PORT`".to_owned(),
            ),
            _ => return Ok(()),
        };
        Err(Unfit::new(fact, remedy))
    }

    pub fn ports(&self) -> impl Iterator<Item = u16> {
        let (named, usual) = match self.port {
            Some(port) => (Some(port), &[][..]),
            None => (None, &WEB_PORTS[..]),
        };
        named.into_iter().chain(usual.iter().copied())
    }

    /// Whether connections to this host and port can match, whatever is requested in them.
    pub fn covers(&self, host: &Host, port: u16) -> bool {
        self.host.covers(host) && self.ports().any(|own| own == port)
    }

    /// Whether requests have to be read to decide by this rule.
    pub const fn names_requests(&self) -> bool {
        self.method.is_some() || self.path.is_some()
    }

    /// Whether it allows this request, on a connection that it covers.
    pub fn allows(&self, method: &str, path: &Path) -> bool {
        self.method.as_deref().is_none_or(|own| own == method)
            && self.path.as_ref().is_none_or(|own| own.matches(path))
    }
}

/// Addresses and names that mean the cage itself in a cage.
/// Whether programs take this host for their own machine's loopback.
pub fn is_loopback(host: &Host) -> bool {
    match host {
        Host::Name(name) => name.is_localhost(),
        Host::Address(address) => address.is_loopback(),
    }
}

fn is_own(host: &Host) -> bool {
    match host {
        Host::Name(name) => name.is_localhost(),
        Host::Address(address) => address.is_loopback() || address.is_unspecified(),
    }
}

fn read_method(text: &str) -> Result<String, Unfit> {
    request::method(text).map(str::to_owned).map_err(|_| {
        Unfit::new(
            format!("not a valid method: {}", visible(text.as_ref())),
            "write the method in capitals, then a space and the host: `GET api.example.com/v1/*`",
        )
    })
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), Unfit> {
    let (host, port) = match (authority.rfind(']'), authority.rfind(':')) {
        (Some(end), Some(colon)) if colon > end => (&authority[..colon], Some(&authority[colon + 1..])),
        (Some(_), _) => (authority, None),
        (None, Some(colon)) if authority[..colon].contains(':') => {
            return Err(Unfit::new(
                "an IPv6 address needs brackets in a rule",
                format!("write `[{}]`", visible(authority.as_ref())),
            ));
        }
        (None, Some(colon)) => (&authority[..colon], Some(&authority[colon + 1..])),
        (None, None) => (authority, None),
    };
    match port.map(request::port) {
        Some(None) => Err(Unfit::new(
            format!("not a valid port: {}", visible(authority.as_ref())),
            "a port is a number from 1 to 65535",
        )),
        port => Ok((host, port.flatten())),
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(method) = &self.method {
            write!(formatter, "{method} ")?;
        }
        if self.protocol == Protocol::Tcp {
            formatter.write_str("tcp://")?;
        }
        self.host.fmt(formatter)?;
        if let Some(port) = self.port {
            write!(formatter, ":{port}")?;
        }
        match &self.path {
            Some(path) => path.fmt(formatter),
            None => Ok(()),
        }
    }
}

/// A path of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathPattern(String);

impl PathPattern {
    /// Reads a path with `*` in it.
    pub fn parse(text: &str) -> Result<PathPattern, Unfit> {
        let unfit =
            |fact: &str, remedy: &str| Unfit::new(format!("{fact}: {}", visible(text.as_ref())), remedy);
        if text.contains(['?', '#']) {
            return Err(unfit("a rule cannot name a query", "leave out what follows `?`"));
        }
        if text.contains("**") {
            return Err(unfit("`**` has no meaning in a rule", "a `*` at the end stands for any rest"));
        }
        // A star is as good as a letter to the reader of paths.
        match Path::read(text) {
            Ok(path) if path.is_plain() => Ok(PathPattern(path.as_str().to_owned())),
            _ => Err(unfit(
                "not a valid path",
                "a path begins with `/` and has no `..`, `//`, spaces or encoded slashes",
            )),
        }
    }

    /// Whether it covers every path that the other one covers; `false` where that is not certain.
    pub fn includes(&self, other: &PathPattern) -> bool {
        if self.0 == other.0 {
            return true;
        }
        // A star at the end stands for any rest; other stars are only compared as they are written.
        match self.0.strip_suffix('*') {
            Some(begin) if !begin.contains('*') => other.0.starts_with(begin),
            _ => !other.0.contains('*') && matches(self.0.as_bytes(), other.0.as_bytes()),
        }
    }

    /// Whether it covers a path. A path that servers read in two ways is covered by none.
    pub fn matches(&self, path: &Path) -> bool {
        path.is_plain() && matches(self.0.as_bytes(), path.as_str().as_bytes())
    }
}

/// Without recursion: a path of the attacker's costs time by its length only.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    // Where the last star was, and how much it stands for.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match pattern.get(at) {
            Some(b'*') if at + 1 == pattern.len() => return true,
            Some(b'*') => {
                retry = Some((at, seen));
                at += 1;
                continue;
            }
            Some(byte) if path.get(seen) == Some(byte) => {
                at += 1;
                seen += 1;
                continue;
            }
            None if seen == path.len() => return true,
            _ => {}
        }
        match retry {
            // A star in the middle stands for what is between two slashes.
            Some((star, from)) if path.get(from).is_some_and(|&byte| byte != b'/') => {
                retry = Some((star, from + 1));
                at = star + 1;
                seen = from + 1;
            }
            _ => return false,
        }
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

as_text!(Rule, |text: &str| Rule::parse(text).ok());

/// The argument of `--allow-net` for a shell.
pub fn quoted(rule: &Rule) -> String {
    let text = rule.to_string();
    let is_plain = text.bytes().all(|byte| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'.' | b'-' | b':' | b'/' | b'_' | b'@' | b'%' | b'+' | b',' | b'=')
    });
    if is_plain { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// A rule for exactly this host and port.
pub fn exact(name: Name) -> Rule {
    Rule::host(Pattern::Exact(Host::Name(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Rule {
        Rule::parse(text).unwrap_or_else(|unfit| panic!("{text}: {unfit:?}"))
    }

    #[test]
    fn a_rule_is_written_as_it_is_read() {
        for (text, spelled) in [
            ("API.github.com", "api.github.com"),
            ("host.example:8443", "host.example:8443"),
            ("host.example/v1/*", "host.example/v1/*"),
            ("POST api.example.com/v1/*", "POST api.example.com/v1/*"),
            ("POST   api.example.com", "POST api.example.com"),
            ("*.example.com", "*.example.com"),
            ("tcp://db.internal:5432", "tcp://db.internal:5432"),
            ("https://example.com", "example.com:443"),
            ("https://example.com/", "example.com:443"),
            ("http://example.com/a", "example.com:80/a"),
            ("192.0.2.1:8080", "192.0.2.1:8080"),
            ("[2001:db8::1]:443", "[2001:db8::1]:443"),
            ("tcp://[2001:db8::1]:22", "tcp://[2001:db8::1]:22"),
            ("host.example/%7Ea", "host.example/~a"),
        ] {
            assert_eq!(read(text).to_string(), spelled);
            assert_eq!(read(spelled), read(text));
        }
    }

    #[test]
    fn what_is_not_a_rule_is_refused_with_a_remedy() {
        for text in [
            "",
            " ",
            "get host.example",
            "ftp://host.example",
            "host.example:0",
            "host.example:65536",
            "host.example:+1",
            "host.example:",
            "user@host.example",
            "tcp://host.example",
            "tcp://*.example.com:1",
            "GET tcp://a.example:1",
            "tcp://a.example:1/x",
            "2001:db8::1",
            "localhost:3000",
            "127.0.0.1:80",
            "[::1]:80",
            "0.0.0.0",
            "host.example/../a",
            "host.example//a",
            "host.example/a?b",
            "host.example/**",
            "host.example/a%2fb",
            "host.example /a",
            "GET host.example/a b",
        ] {
            let refused = Rule::parse(text);
            assert!(refused.is_err(), "{text:?} {refused:?}");
        }
    }

    #[test]
    fn a_path_is_exact_unless_it_has_a_star() {
        for (pattern, path, covered) in [
            ("/v1/models", "/v1/models", true),
            ("/v1/models", "/v1/models/x", false),
            ("/v1/models", "/V1/models", false),
            ("/v1/*", "/v1/", true),
            ("/v1/*", "/v1/a/b", true),
            ("/v1/*", "/v1", false),
            ("/repos/*/issues", "/repos/a/issues", true),
            ("/repos/*/issues", "/repos/a/b/issues", false),
            ("/repos/*/*/issues", "/repos/a/b/issues", true),
            ("/a*b*c", "/axxbyybzzc", true),
            ("/a*b*c", "/axxbyybzz", false),
            ("/*", "/", true),
            ("/v1/*", "/v1/a%2Fb", false),
            ("/v1/*", "/v1//a", false),
            ("/~a", "/%7ea", true),
        ] {
            let read = PathPattern::parse(pattern).unwrap();
            assert_eq!(read.matches(&Path::read(path).unwrap()), covered, "{pattern} {path}");
        }
    }

    #[test]
    fn many_stars_cost_no_more_than_the_path_is_long() {
        let pattern = PathPattern::parse(&format!("/{}b", "*a".repeat(100))).unwrap();
        assert!(!pattern.matches(&Path::read(&format!("/{}", "a".repeat(8000))).unwrap()));
    }

    #[test]
    fn a_flag_can_be_pasted() {
        assert_eq!(quoted(&read("api.example.com:8443")), "api.example.com:8443");
        assert_eq!(quoted(&read("GET api.example.com/a'b/*")), r"'GET api.example.com/a'\''b/*'");
    }
}
