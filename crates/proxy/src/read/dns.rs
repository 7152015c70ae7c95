//! DNS messages: questions of a cage, answers to them, and answers of a resolver outside. Written here because both are small: a question has
//! one name, and of an answer only addresses are of interest.

use keyward_policy::net::Name;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub const A: u16 = 1;
pub const AAAA: u16 = 28;
const CNAME: u16 = 5;
const IN: u16 = 1;
const HEAD: usize = 12;
/// More names than any sound chain of aliases has.
const MOST_ALIASES: usize = 16;
/// More jumps than any sound name has.
const MOST_JUMPS: usize = 32;

/// A question of a cage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    id: u16,
    wants_recursion: bool,
    /// `None` for a name that is not one of a host.
    pub name: Option<Name>,
    pub kind: u16,
    /// As it stood, in the letters of the asker.
    raw: Vec<u8>,
}

/// Reads a question; `None` for anything that is not one question in class IN.
pub fn question(message: &[u8]) -> Option<Question> {
    let [id, flags, questions, answers, ..] = numbers::<6>(message)?;
    let is_question = flags & 0xf800 == 0 && questions == 1 && answers == 0;
    if !is_question {
        return None;
    }
    let mut at = HEAD;
    let mut text = String::new();
    let mut is_plain = true;
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        match length {
            0 => break,
            1..=63 => {
                let label = message.get(at..at + length)?;
                at += length;
                is_plain &= label.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'.');
                if !text.is_empty() {
                    text.push('.');
                }
                text.extend(label.iter().map(|&byte| char::from(byte)));
            }
            // A question has nothing before it that a pointer could mean.
            _ => return None,
        }
        if at - HEAD > 255 {
            return None;
        }
    }
    let [kind, class] = numbers::<2>(message.get(at..)?)?;
    if class != IN {
        return None;
    }
    let name = if is_plain { Name::parse(&text) } else { None };
    Some(Question {
        id,
        wants_recursion: flags & 0x0100 != 0,
        name,
        kind,
        raw: message.get(HEAD..at + 4)?.to_vec(),
    })
}

/// What a question is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// There are these addresses, possibly none of the kind that was asked for.
    Addresses(&'a [IpAddr], u32),
    /// There is no such name.
    NoName,
}

/// Writes an answer. Only addresses of the kind that was asked for are in it.
pub fn answer(question: &Question, answer: Answer<'_>) -> Vec<u8> {
    let (addresses, seconds, code) = match answer {
        Answer::Addresses(addresses, seconds) => (addresses, seconds, 0),
        Answer::NoName => (&[][..], 0, 3),
    };
    let data: Vec<Vec<u8>> = addresses
        .iter()
        .filter_map(|address| match (question.kind, address) {
            (A, IpAddr::V4(address)) => Some(address.octets().to_vec()),
            (AAAA, IpAddr::V6(address)) => Some(address.octets().to_vec()),
            _ => None,
        })
        .collect();
    // An answer, with recursion available.
    let flags = 0x8080 | if question.wants_recursion { 0x0100 } else { 0 } | code;
    let count = u16::try_from(data.len()).unwrap_or(0);
    let mut message = Vec::with_capacity(128);
    for number in [question.id, flags, 1, count, 0, 0] {
        message.extend(number.to_be_bytes());
    }
    message.extend(&question.raw);
    for octets in data {
        // A pointer to the name of the question.
        message.extend(0xc00c_u16.to_be_bytes());
        message.extend(question.kind.to_be_bytes());
        message.extend(IN.to_be_bytes());
        message.extend(seconds.to_be_bytes());
        message.extend(u16::try_from(octets.len()).unwrap_or(0).to_be_bytes());
        message.extend(octets);
    }
    message
}

/// Writes a question for a resolver outside.
pub fn ask(id: u16, name: &Name, kind: u16) -> Vec<u8> {
    let mut message = Vec::with_capacity(64);
    for number in [id, 0x0100, 1, 0, 0, 0] {
        message.extend(number.to_be_bytes());
    }
    for label in name.as_str().split('.') {
        message.push(u8::try_from(label.len()).unwrap_or(0));
        message.extend(label.as_bytes());
    }
    message.push(0);
    message.extend(kind.to_be_bytes());
    message.extend(IN.to_be_bytes());
    message
}

/// What a resolver outside answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Addresses, and for how many seconds.
    Addresses(Vec<IpAddr>, u32),
    /// There is no such name.
    NoName,
    /// The answer is cut off: ask again by TCP.
    Truncated,
    /// The resolver cannot help.
    Failed,
}

/// Reads the answer to a question of ours; `None` for what is not one.
pub fn found(message: &[u8], id: u16, name: &Name, kind: u16) -> Option<Found> {
    let [own, flags, questions, answers, ..] = numbers::<6>(message)?;
    if own != id || flags & 0x8000 == 0 || questions != 1 {
        return None;
    }
    let (asked, mut at) = read_name(message, HEAD)?;
    let [asked_kind, class] = numbers::<2>(message.get(at..)?)?;
    at += 4;
    if !asked.eq_ignore_ascii_case(name.as_str()) || asked_kind != kind || class != IN {
        return None;
    }
    match flags & 0x000f {
        _ if flags & 0x0200 != 0 => return Some(Found::Truncated),
        0 => {}
        3 => return Some(Found::NoName),
        _ => return Some(Found::Failed),
    }
    let mut records = Vec::new();
    for _ in 0..answers {
        let (owner, after) = read_name(message, at)?;
        let [record_kind, record_class, high, low, length] = numbers::<5>(message.get(after..)?)?;
        let data = after + 10;
        at = data + usize::from(length);
        let octets = message.get(data..at)?;
        let seconds = u32::from(high) << 16 | u32::from(low);
        if record_class == IN {
            records.push((owner, record_kind, seconds, octets, data));
        }
    }
    let mut wanted = asked;
    let mut least = u32::MAX;
    for _ in 0..MOST_ALIASES {
        let own = records.iter().filter(|(owner, ..)| owner.eq_ignore_ascii_case(&wanted));
        let mut addresses = Vec::new();
        let mut alias = None;
        for (_, record_kind, seconds, octets, data) in own {
            let address: Option<IpAddr> = match (*record_kind, octets.len()) {
                (A, 4) if kind == A => {
                    <[u8; 4]>::try_from(*octets).ok().map(|octets| Ipv4Addr::from(octets).into())
                }
                (AAAA, 16) if kind == AAAA => {
                    <[u8; 16]>::try_from(*octets).ok().map(|octets| Ipv6Addr::from(octets).into())
                }
                (CNAME, _) => {
                    alias = Some(read_name(message, *data)?.0);
                    None
                }
                _ => None,
            };
            least = least.min(*seconds);
            addresses.extend(address);
        }
        match alias {
            Some(alias) if addresses.is_empty() => wanted = alias,
            _ => return Some(Found::Addresses(addresses, least)),
        }
    }
    Some(Found::Failed)
}

/// A name that may be compressed, and where it ends.
fn read_name(message: &[u8], start: usize) -> Option<(String, usize)> {
    let (mut at, mut end) = (start, None);
    let mut text = String::new();
    let mut jumps = 0;
    loop {
        let length = usize::from(*message.get(at)?);
        match length {
            0 => return Some((text, end.unwrap_or(at + 1))),
            1..=63 => {
                let label = message.get(at + 1..at + 1 + length)?;
                if !text.is_empty() {
                    text.push('.');
                }
                text.extend(label.iter().map(|&byte| char::from(byte)));
                at += 1 + length;
            }
            0xc0..=0xff => {
                end = end.or(Some(at + 2));
                at = (length & 0x3f) << 8 | usize::from(*message.get(at + 1)?);
                jumps += 1;
            }
            _ => return None,
        }
        if jumps > MOST_JUMPS || text.len() > 1024 {
            return None;
        }
    }
}

/// The first numbers of a message.
fn numbers<const N: usize>(bytes: &[u8]) -> Option<[u16; N]> {
    let bytes = bytes.get(..2 * N)?;
    let mut numbers = [0; N];
    for (number, pair) in numbers.iter_mut().zip(bytes.chunks_exact(2)) {
        *number = u16::from_be_bytes([pair[0], pair[1]]);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    #[test]
    fn a_question_is_answered_with_addresses_of_its_kind() {
        let addresses = ["198.18.1.0".parse().unwrap(), "fd00::1".parse().unwrap()];
        for (kind, count) in [(A, 1), (AAAA, 1), (65, 0), (16, 0)] {
            let asked = question(&ask(7, &name("api.example.com"), kind)).unwrap();
            assert_eq!(asked.name, Some(name("api.example.com")));
            let message = answer(&asked, Answer::Addresses(&addresses, 60));
            let Some(Found::Addresses(found, seconds)) = found(&message, 7, &name("api.example.com"), kind)
            else {
                panic!("{kind}")
            };
            assert_eq!(found.len(), count, "{kind}");
            assert!(found.iter().all(|address| addresses.contains(address)) && (count == 0 || seconds == 60));
        }
        let asked = question(&ask(7, &name("a.example"), A)).unwrap();
        assert_eq!(found(&answer(&asked, Answer::NoName), 7, &name("a.example"), A), Some(Found::NoName));
    }

    #[test]
    fn letters_of_the_asker_come_back() {
        let mut message = ask(7, &name("example.com"), A);
        message[13] = b'E';
        let asked = question(&message).unwrap();
        assert_eq!(asked.name, Some(name("example.com")));
        assert!(answer(&asked, Answer::NoName)[12..].starts_with(b"\x07Example"));
    }

    #[test]
    fn what_is_not_one_question_is_ignored() {
        let sound = ask(7, &name("example.com"), A);
        for length in 0..sound.len() {
            assert_eq!(question(&sound[..length]), None, "{length}");
        }
        for (at, byte) in [(2, 0x80), (2, 0x28), (5, 2), (7, 1), (12, 0xc0), (12, 64), (sound.len() - 1, 3)] {
            let mut message = sound.clone();
            message[at] = byte;
            assert_eq!(question(&message), None, "{at}");
        }
        let mut strange = sound.clone();
        strange[13] = b'.';
        assert_eq!(question(&strange).unwrap().name, None, "a dot inside a label is not a separator");
    }

    #[test]
    fn an_alias_is_followed_and_a_loop_ends() {
        let record = |owner: &str, kind: u16, data: &[u8]| {
            let mut bytes = ask(0, &name(owner), kind)[HEAD..].to_vec();
            bytes.extend(30_u32.to_be_bytes());
            bytes.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
            bytes.extend(data);
            bytes
        };
        let encoded = |text: &str| {
            let message = ask(0, &name(text), A);
            message[HEAD..message.len() - 4].to_vec()
        };
        let message = |records: &[Vec<u8>]| {
            let mut bytes = ask(9, &name("a.example"), A);
            bytes[2] = 0x81;
            bytes[7] = u8::try_from(records.len()).unwrap();
            bytes.extend(records.concat());
            bytes
        };
        let chain = message(&[
            record("other.example", A, &[6, 6, 6, 6]),
            record("a.example", CNAME, &encoded("b.example")),
            record("b.example", A, &[1, 2, 3, 4]),
        ]);
        let expected = Found::Addresses(vec!["1.2.3.4".parse().unwrap()], 30);
        assert_eq!(found(&chain, 9, &name("a.example"), A), Some(expected));
        let ring = message(&[
            record("a.example", CNAME, &encoded("b.example")),
            record("b.example", CNAME, &encoded("a.example")),
        ]);
        assert_eq!(found(&ring, 9, &name("a.example"), A), Some(Found::Failed));
        assert_eq!(found(&chain, 8, &name("a.example"), A), None, "another number");
        assert_eq!(found(&chain, 9, &name("c.example"), A), None, "another name");
        let mut jumping = message(&[]);
        jumping[7] = 1;
        jumping.extend([0xc0, u8::try_from(jumping.len()).unwrap()]);
        assert_eq!(found(&jumping, 9, &name("a.example"), A), None, "a pointer to itself");
    }
}
