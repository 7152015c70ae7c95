//! The first message of a TLS client, as far as it names its host. Strict: what a server might read in another way is refused.

use keyward_policy::net::Host;

/// The most bytes of a greeting, records included. Those with post-quantum keys have about 2,000.
pub const LONGEST: usize = 16 << 10;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const ENCRYPTED: [u16; 2] = [0xfe0d, 0xffce];

/// What a greeting says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// A name; or an address, which some programs send although the standard has only names.
    pub host: Option<Host>,
    /// Whether a part of it is encrypted (ECH), which may name another host.
    pub is_encrypted: bool,
}

/// What was read so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// It is not complete.
    More,
    Hello(Hello),
    /// It is malformed.
    Unsound,
}

/// Whether this is how TLS begins.
pub fn begins(bytes: &[u8]) -> bool {
    bytes.first() == Some(&HANDSHAKE)
}

/// Reads the bytes that have arrived.
pub fn read(bytes: &[u8]) -> Read {
    match records(bytes) {
        Ok(Some(message)) => parse(&message).map_or(Read::Unsound, Read::Hello),
        Ok(None) if bytes.len() < LONGEST => Read::More,
        _ => Read::Unsound,
    }
}

/// The handshake message, which may be spread over records.
fn records(mut bytes: &[u8]) -> Result<Option<Vec<u8>>, ()> {
    let mut message = Vec::new();
    loop {
        if let Some(&[kind, a, b, c]) = message.first_chunk::<4>() {
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            if kind != CLIENT_HELLO || length > LONGEST {
                return Err(());
            }
            if message.len() == 4 + length {
                return Ok(Some(message.split_off(4)));
            }
            // Nothing follows a greeting in its record.
            if message.len() > 4 + length {
                return Err(());
            }
        }
        let Some((head, rest)) = bytes.split_first_chunk::<5>() else {
            let is_begun = bytes.first().is_none_or(|&kind| kind == HANDSHAKE);
            return if is_begun { Ok(None) } else { Err(()) };
        };
        let &[kind, major, _, high, low] = head;
        let length = usize::from(u16::from_be_bytes([high, low]));
        if kind != HANDSHAKE || major != 3 || length == 0 || length > LONGEST {
            return Err(());
        }
        let Some((record, rest)) = rest.split_at_checked(length) else { return Ok(None) };
        message.extend_from_slice(record);
        bytes = rest;
    }
}

/// A reader of fields with their lengths before them.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        self.take(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
    }

    fn short(&mut self) -> Option<&'a [u8]> {
        let length = *self.take(1)?.first()?;
        self.take(length.into())
    }

    fn long(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(length.into())
    }
}

fn parse(message: &[u8]) -> Option<Hello> {
    let mut fields = Fields(message);
    let version = fields.number()?;
    fields.take(32)?;
    let session = fields.short()?;
    let suites = fields.long()?;
    let compressions = fields.short()?;
    let is_sound = version >> 8 == 3
        && session.len() <= 32
        && !suites.is_empty()
        && suites.len() % 2 == 0
        && !compressions.is_empty();
    if !is_sound {
        return None;
    }
    let mut hello = Hello { host: None, is_encrypted: false };
    if fields.0.is_empty() {
        return Some(hello);
    }
    let mut extensions = Fields(fields.long()?);
    if !fields.0.is_empty() {
        return None;
    }
    let mut seen = Vec::new();
    while !extensions.0.is_empty() {
        let kind = extensions.number()?;
        let data = extensions.long()?;
        if seen.contains(&kind) {
            return None;
        }
        seen.push(kind);
        if kind == SERVER_NAME {
            hello.host = Some(server_name(data)?);
        }
        hello.is_encrypted |= ENCRYPTED.contains(&kind);
    }
    Some(hello)
}

/// A list with exactly one name of a host.
fn server_name(data: &[u8]) -> Option<Host> {
    let mut outer = Fields(data);
    let mut list = Fields(outer.long()?);
    let is_host = list.take(1)? == [0];
    let name = list.long()?;
    let is_only = list.0.is_empty() && outer.0.is_empty();
    let text = std::str::from_utf8(name).ok()?;
    if is_host && is_only { Host::parse(text) } else { None }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A greeting with these extensions.
    pub fn greeting(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.push(0);
        body.extend([0, 2, 0x13, 0x01, 1, 0]);
        let all: Vec<u8> = extensions
            .iter()
            .flat_map(|(kind, data)| {
                let length = u16::try_from(data.len()).unwrap().to_be_bytes();
                [kind.to_be_bytes().to_vec(), length.to_vec(), data.clone()].concat()
            })
            .collect();
        body.extend(u16::try_from(all.len()).unwrap().to_be_bytes());
        body.extend(all);
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [vec![1, length[1], length[2], length[3]], body].concat()
    }

    pub fn sni(name: &str) -> (u16, Vec<u8>) {
        let length = u16::try_from(name.len()).unwrap();
        let list = (length + 3).to_be_bytes();
        (SERVER_NAME, [&list[..], &[0], &length.to_be_bytes(), name.as_bytes()].concat())
    }

    pub fn record(message: &[u8]) -> Vec<u8> {
        let length = u16::try_from(message.len()).unwrap().to_be_bytes();
        [&[22, 3, 1, length[0], length[1]], message].concat()
    }

    fn named(name: &str) -> Read {
        Read::Hello(Hello { host: Host::parse(name), is_encrypted: false })
    }

    #[test]
    fn a_greeting_names_its_host() {
        let bytes = record(&greeting(&[(10, vec![0, 0]), sni("API.example.com")]));
        assert_eq!(read(&bytes), named("api.example.com"));
        for length in 0..bytes.len() {
            assert_eq!(read(&bytes[..length]), Read::More, "{length}");
        }
        // As wrk does, and others that leave it to OpenSSL.
        assert_eq!(read(&record(&greeting(&[sni("192.0.2.1")]))), named("192.0.2.1"));
    }

    #[test]
    fn a_greeting_may_be_spread_over_records() {
        let message = greeting(&[sni("api.example.com")]);
        let spread: Vec<u8> = message.chunks(7).flat_map(record).collect();
        assert_eq!(read(&spread), named("api.example.com"));
    }

    #[test]
    fn a_greeting_without_a_name_or_with_an_encrypted_one_says_so() {
        let none = Hello { host: None, is_encrypted: false };
        assert_eq!(read(&record(&greeting(&[]))), Read::Hello(none));
        let Read::Hello(hello) = read(&record(&greeting(&[sni("a.example"), (0xfe0d, vec![0])]))) else {
            panic!()
        };
        assert!(hello.is_encrypted);
    }

    #[test]
    fn what_two_servers_would_read_differently_is_unsound() {
        let twice = {
            let (kind, mut data) = sni("a.example");
            let (_, more) = sni("b.example");
            data.extend(&more[2..]);
            let length = u16::try_from(data.len() - 2).unwrap().to_be_bytes();
            data[..2].copy_from_slice(&length);
            (kind, data)
        };
        let mut trailing = greeting(&[sni("a.example")]);
        trailing.push(0);
        let mut longer = greeting(&[sni("a.example")]);
        longer[3] += 1;
        longer.push(0);
        for message in [
            greeting(&[sni("a.example"), sni("b.example")]),
            greeting(&[twice]),
            greeting(&[sni("192.0.2.01")]),
            greeting(&[sni("0xc0.0.2.1")]),
            greeting(&[sni("a.example\0")]),
            greeting(&[sni("")]),
            greeting(&[(SERVER_NAME, vec![])]),
            trailing,
            longer,
        ] {
            assert_eq!(read(&record(&message)), Read::Unsound);
        }
        assert_eq!(read(b"\x16\x02\x00\x00\x05hello"), Read::Unsound);
        assert_eq!(read(b"\x16\x03\x01\x00\x00"), Read::Unsound);
        assert_eq!(read(b"GET / HTTP/1.1\r\n"), Read::Unsound);
        assert_eq!(read(&vec![22; LONGEST + 1]), Read::Unsound);
    }
}
