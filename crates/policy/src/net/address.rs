//! Which addresses are dialled only if a rule or the user's upstream names them: those of this machine, of its network, of cloud metadata, and
//! whatever can stand for one of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kind of an address at which a cloud tells its machines what they are, with credentials.
pub const METADATA: &str = "cloud metadata";

/// Why an address is not one of the public Internet; `None` for those that are.
pub fn special(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => special_v6(address),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    let bits = address.to_bits();
    let row =
        V4.iter().find(|(network, length, _)| bits >> (32 - length) == network.to_bits() >> (32 - length));
    row.map(|(.., words)| *words)
}

const V4: &[(Ipv4Addr, u32, &str)] = &[
    (Ipv4Addr::new(169, 254, 169, 254), 32, METADATA),
    (Ipv4Addr::new(169, 254, 170, 2), 32, METADATA),
    (Ipv4Addr::new(100, 100, 100, 200), 32, METADATA),
    (Ipv4Addr::new(168, 63, 129, 16), 32, METADATA),
    (Ipv4Addr::new(192, 0, 0, 192), 32, METADATA),
    (Ipv4Addr::new(0, 0, 0, 0), 8, "this network"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "private"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "shared by a carrier (CGNAT)"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "loopback"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "private"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "for protocols"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "for documents"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "a 6to4 relay"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "private"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "for benchmarks"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "for documents"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "for documents"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
];

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    // An address that carries an IPv4 address is worth what that is, and is never a usual way to reach it.
    let inside = |words| Some(special_v4(embedded(address)?).unwrap_or(words));
    let segments = address.segments();
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("unspecified"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("loopback"),
        [0, 0, 0, 0, 0, 0xffff, ..] => inside("an IPv4 address in IPv6"),
        [0, 0, 0, 0, 0, 0, ..] => inside("an IPv4 address in IPv6"),
        [0, 0, 0, 0, 0xffff, 0, ..] => inside("an IPv4 address in IPv6"),
        [0x64, 0xff9b, ..] => inside("an IPv4 address in IPv6 (NAT64)"),
        [0x2002, ..] => inside("an IPv4 address in IPv6 (6to4)"),
        [0x2001, 0, ..] => Some("an IPv4 address in IPv6 (Teredo)"),
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] => Some(METADATA),
        [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254] => Some(METADATA),
        [0x100, 0, 0, 0, ..] => Some("discarded"),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some("for documents"),
        [0x2001, 0x2, 0, ..] => Some("for benchmarks"),
        [0x2001, 0x10..=0x3f, ..] => Some("for protocols"),
        [0xfc00..=0xfdff, ..] => Some("private"),
        [0xfe80..=0xfebf, ..] => Some("link-local"),
        [0xfec0..=0xfeff, ..] => Some("private"),
        [0xff00..=0xffff, ..] => Some("multicast"),
        [0x2000..=0x3fff, ..] => None,
        _ => Some("reserved"),
    }
}

/// The IPv4 address that an IPv6 address carries.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let at = match segments {
        [0x2002, ..] => 1,
        [0, 0, 0, 0, ..] | [0x64, 0xff9b, ..] => 6,
        _ => return None,
    };
    let (&high, &low) = (segments.get(at)?, segments.get(at + 1)?);
    Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_internet_are_dialled() {
        for text in [
            "1.1.1.1",
            "140.82.121.4",
            "100.128.0.1",
            "172.32.0.1",
            "2606:4700::1111",
            "2a00:1450::1",
            "2001:4860::1",
        ] {
            assert_eq!(special(text.parse().unwrap()), None, "{text}");
        }
    }

    #[test]
    fn addresses_of_this_machine_and_network_are_not_in_any_form() {
        for text in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.8.8.8",
            "169.254.169.254",
            "169.254.1.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:1.1.1.1",
            "::127.0.0.1",
            "::ffff:0:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::a00:1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "2001:0:1::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "4000::1",
        ] {
            assert!(special(text.parse().unwrap()).is_some(), "{text}");
        }
        assert_eq!(special("::ffff:169.254.169.254".parse().unwrap()), Some(METADATA));
        assert_eq!(special("64:ff9b::a9fe:a9fe".parse().unwrap()), Some(METADATA));
    }
}
