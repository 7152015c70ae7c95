//! Where the session bus is: the text of `DBUS_SESSION_BUS_ADDRESS`, read.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Sockets of the bus, to be tried in this order; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusAddress {
    pub places: Vec<Place>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Path(PathBuf),
    /// A name in the abstract namespace, without its leading zero.
    Abstract(Vec<u8>),
}

/// What the kernel takes as the path of a socket.
const LONGEST: usize = 107;

impl BusAddress {
    /// `None` if no place is named that we could connect to. Other kinds of places (tcp, a command to run) are passed over.
    pub fn parse(text: &[u8]) -> Option<BusAddress> {
        let places: Vec<Place> = text.split(|byte| *byte == b';').filter_map(place).collect();
        if places.is_empty() { None } else { Some(BusAddress { places }) }
    }
}

fn place(text: &[u8]) -> Option<Place> {
    let pairs = text.strip_prefix(b"unix:")?;
    let mut found = None;
    for pair in pairs.split(|byte| *byte == b',') {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        let (key, value) = (&pair[..at], unescape(&pair[at + 1..])?);
        let is_usable = !value.is_empty() && value.len() <= LONGEST;
        let place = match key {
            b"path" if is_usable && value[0] == b'/' && !value.contains(&0) => {
                Place::Path(OsString::from_vec(value).into())
            }
            b"abstract" if is_usable => Place::Abstract(value),
            b"guid" => continue,
            _ => return None,
        };
        // One that names two places is none.
        if found.replace(place).is_some() {
            return None;
        }
    }
    found
}

fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'%' => u8::try_from(digit(bytes.next())? * 16 + digit(bytes.next())?).ok()?,
            byte => *byte,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(text: &str) -> Place {
        Place::Path(text.into())
    }

    #[test]
    fn the_places_of_an_address_are_found() {
        let cases: &[(&str, &[Place])] = &[
            ("unix:path=/run/user/1000/bus", &[path("/run/user/1000/bus")]),
            ("unix:path=/run/user/1000/bus,guid=0123", &[path("/run/user/1000/bus")]),
            ("unix:path=%2ftmp%2Fa%20b", &[path("/tmp/a b")]),
            ("unix:abstract=/tmp/dbus-x,guid=1", &[Place::Abstract(b"/tmp/dbus-x".to_vec())]),
            ("tcp:host=h,port=1;unix:path=/a;unix:path=/b", &[path("/a"), path("/b")]),
            ("unix:path=/a;", &[path("/a")]),
        ];
        for (text, expected) in cases {
            assert_eq!(BusAddress::parse(text.as_bytes()).unwrap().places, *expected, "{text}");
        }
    }

    #[test]
    fn an_address_without_a_usable_place_is_none() {
        let long = format!("unix:path=/{}", "a".repeat(200));
        for text in [
            "",
            "disabled:",
            "autolaunch:",
            "unixexec:path=/bin/sh",
            "unix:runtime=yes",
            "unix:path=",
            "unix:path=relative",
            "unix:path=/a%0",
            "unix:path=/a%zz",
            "unix:path=/a%00",
            "unix:path=/a,abstract=b",
            "unix:path",
            &long,
        ] {
            assert_eq!(BusAddress::parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = BusAddress::parse(&text);
        }
    }
}
