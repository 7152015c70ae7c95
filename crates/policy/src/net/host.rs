//! Names and addresses of hosts, in one spelling: lower case, without a last dot, addresses only in their usual form.

use crate::config::Unfit;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The most characters of a name.
const LONGEST: usize = 253;
const LONGEST_LABEL: usize = 63;
/// Top-level names under which a wildcard covers one's own hosts, and not all of the Internet's.
const PRIVATE_TOPS: &[&str] =
    &["corp", "example", "home", "internal", "intranet", "lan", "local", "private", "test"];

/// A name of the DNS. Names in other scripts appear in their `xn--` form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// Reads a name in any case, with or without the last dot; `None` for anything else, also for what looks like a number.
    pub fn parse(text: &str) -> Option<Name> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() || text.len() > LONGEST {
            return None;
        }
        let label = |label: &str| {
            (1..=LONGEST_LABEL).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        let is_number = |last: &str| {
            last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x") || last.starts_with("0X")
        };
        let fits = text.split('.').all(label) && !text.rsplit('.').next().is_some_and(is_number);
        fits.then(|| Name(text.to_ascii_lowercase()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is below the other one: `a.b.example.com` is below `example.com`, which is not below itself.
    pub fn is_below(&self, other: &Name) -> bool {
        self.0.strip_suffix(other.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
    }

    /// Whether programs take this for their own machine, whatever the DNS says.
    pub fn is_localhost(&self) -> bool {
        self.0 == "localhost" || self.0.ends_with(".localhost")
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A host: a name, or an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    Name(Name),
    Address(IpAddr),
}

impl Host {
    /// Reads a name, an IPv4 address, or an IPv6 address with or without brackets. Addresses in other spellings (`127.1`, `0x7f.1`, `010.0.0.1`,
    /// a zone, an IPv4 address mapped into IPv6) are `None`.
    pub fn parse(text: &str) -> Option<Host> {
        if let Some(inner) = text.strip_prefix('[') {
            return inner.strip_suffix(']').and_then(ipv6);
        }
        if text.contains(':') {
            return ipv6(text);
        }
        match text.parse::<Ipv4Addr>() {
            Ok(address) => Some(Host::Address(address.into())),
            Err(_) => Name::parse(text).map(Host::Name),
        }
    }

    pub const fn name(&self) -> Option<&Name> {
        match self {
            Host::Name(name) => Some(name),
            Host::Address(_) => None,
        }
    }
}

fn ipv6(text: &str) -> Option<Host> {
    let address: Ipv6Addr = text.parse().ok()?;
    address.to_ipv4_mapped().is_none().then_some(Host::Address(address.into()))
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => name.fmt(formatter),
            Host::Address(IpAddr::V4(address)) => address.fmt(formatter),
            Host::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
        }
    }
}

/// Which hosts a rule covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// This host, and no other.
    Exact(Host),
    /// Every name below this one, at any depth, and not this one itself: `*.example.com`.
    Below(Name),
}

impl Pattern {
    /// Reads a host, or `*.` and a name.
    pub fn parse(text: &str) -> Result<Pattern, Unfit> {
        let Some(below) = text.strip_prefix("*.") else {
            return match Host::parse(text) {
                Some(host) => Ok(Pattern::Exact(host)),
                None => Err(not_a_host(text)),
            };
        };
        let name = Name::parse(below).ok_or_else(|| not_a_host(below))?;
        let is_top = !name.as_str().contains('.') && !PRIVATE_TOPS.contains(&name.as_str());
        if is_top {
            return Err(Unfit::new(
                format!("`*.{name}` covers hosts of too many owners"),
                format!("name the hosts, or a domain such as `*.example.{name}`"),
            ));
        }
        Ok(Pattern::Below(name))
    }

    /// Whether it covers this host.
    pub fn covers(&self, host: &Host) -> bool {
        match (self, host) {
            (Pattern::Exact(own), host) => own == host,
            (Pattern::Below(above), Host::Name(name)) => name.is_below(above),
            (Pattern::Below(_), Host::Address(_)) => false,
        }
    }

    /// Whether it covers every host that the other one covers.
    pub fn includes(&self, other: &Pattern) -> bool {
        match (self, other) {
            (own, Pattern::Exact(host)) => own.covers(host),
            (Pattern::Below(above), Pattern::Below(name)) => name == above || name.is_below(above),
            (Pattern::Exact(_), Pattern::Below(_)) => false,
        }
    }

    /// Whether there is a host that both cover.
    pub fn overlaps(&self, other: &Pattern) -> bool {
        self.includes(other) || other.includes(self)
    }
}

fn not_a_host(text: &str) -> Unfit {
    let shown = crate::text::visible(text.as_ref());
    let remedy = if text.is_ascii() {
        "write a name such as `api.example.com`, an IPv4 address, or an IPv6 address in brackets"
    } else {
        "write the name in its `xn--` form, as `python3 -c 'print(\"…\".encode(\"idna\"))'` shows it"
    };
    Unfit::new(format!("not a valid host: {shown}"), remedy)
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Exact(host) => host.fmt(formatter),
            Pattern::Below(name) => write!(formatter, "*.{name}"),
        }
    }
}

/// Written and read as text.
macro_rules! as_text {
    ($type:ty, $read:expr) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'_, str> as serde::Deserialize>::deserialize(deserializer)?;
                let read: Option<Self> = $read(&text);
                read.ok_or_else(|| serde::de::Error::custom(concat!("not a valid ", stringify!($type))))
            }
        }
    };
}
pub(crate) use as_text;

as_text!(Name, Name::parse);
as_text!(Host, Host::parse);
as_text!(Pattern, |text| Pattern::parse(text).ok());

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Option<String> {
        Host::parse(text).map(|host| host.to_string())
    }

    #[test]
    fn a_host_has_one_spelling() {
        for (text, spelled) in [
            ("API.Example.COM", "api.example.com"),
            ("example.com.", "example.com"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("_dmarc.example.com", "_dmarc.example.com"),
            ("192.0.2.1", "192.0.2.1"),
            ("2001:DB8::1", "[2001:db8::1]"),
            ("[2001:db8:0:0::1]", "[2001:db8::1]"),
        ] {
            assert_eq!(host(text).as_deref(), Some(spelled), "{text}");
            assert_eq!(host(spelled).as_deref(), Some(spelled));
        }
    }

    #[test]
    fn what_two_programs_would_read_differently_is_not_a_host() {
        for text in [
            "",
            ".",
            "a..b",
            ".a",
            "a b",
            "a\0b",
            "bücher.example",
            "user@host",
            "host:1",
            "-a.b",
            "a-.b",
            "127.1",
            "0x7f.1",
            "0177.0.0.1",
            "2130706433",
            "1.2.3.4.5",
            "256.1.1.1",
            "example.0x1",
            "[::1",
            "::1]",
            "fe80::1%eth0",
            "::ffff:1.2.3.4",
            "a/b",
            "a%2eb",
        ] {
            assert_eq!(host(text), None, "{text:?}");
        }
        assert_eq!(host(&"a".repeat(64)), None);
        assert_eq!(host(&["abc"; 70].join(".")), None);
    }

    #[test]
    fn a_wildcard_covers_names_below_and_nothing_else() {
        let pattern = Pattern::parse("*.Example.com").unwrap();
        assert_eq!(pattern.to_string(), "*.example.com");
        for name in ["a.example.com", "a.b.example.com"] {
            assert!(pattern.covers(&Host::parse(name).unwrap()), "{name}");
        }
        for name in ["example.com", "badexample.com", "example.com.evil.net", "192.0.2.1"] {
            assert!(!pattern.covers(&Host::parse(name).unwrap()), "{name}");
        }
        for text in ["*", "*.", "*.com", "*.*.example.com", "a.*.example.com", "*example.com", "*.192.0.2.1"]
        {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
        assert!(Pattern::parse("*.internal").is_ok());
    }

    #[test]
    fn patterns_include_and_overlap() {
        let read = |text| Pattern::parse(text).unwrap();
        assert!(read("*.example.com").includes(&read("*.a.example.com")));
        assert!(!read("*.a.example.com").includes(&read("*.example.com")));
        assert!(read("*.a.example.com").overlaps(&read("*.example.com")));
        assert!(read("*.example.com").includes(&read("b.example.com")));
        assert!(!read("b.example.com").overlaps(&read("c.example.com")));
    }
}
