//! Lookups of host names in a cage without a network: which host was looked for, and the answer that ends the search.

/// What a program asked its resolver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// In lower case, without the dot at its end.
    pub host: String,
    /// Where the question ends in the packet.
    end: usize,
}

const HEADER: usize = 12;
/// Bits of the flags: an answer, the client's wish for recursion, recursion available, and "no such name".
const ANSWER: u16 = 0x8000;
const RECURSION_DESIRED: u16 = 0x0100;
const RECURSION_AVAILABLE: u16 = 0x0080;
const NO_SUCH_NAME: u16 = 3;

impl Lookup {
    /// Reads a packet with one question; `None` for anything else.
    pub fn read(packet: &[u8]) -> Option<Self> {
        let header = packet.get(..HEADER)?;
        let number = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let (flags, questions, answers) = (number(2), number(4), number(6));
        if flags & ANSWER != 0 || questions != 1 || answers != 0 {
            return None;
        }
        let (mut host, mut at) = (String::new(), HEADER);
        loop {
            let length = usize::from(*packet.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            // Questions have no compressed names, and a host is written in letters, digits, hyphens and underscores.
            let label = packet.get(at..at + length).filter(|_| length < 64)?;
            if !label.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte))
                || host.len() > 253
            {
                return None;
            }
            if !host.is_empty() {
                host.push('.');
            }
            host.extend(label.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
            at += length;
        }
        // The type and the class.
        let end = at + 4;
        packet.get(..end)?;
        Some(Lookup { host, end })
    }

    /// Whether a user would know the host: one of the internet, not this machine's own name and not a search by address.
    pub fn is_worth_telling(&self) -> bool {
        let is_local =
            [".arpa", ".local", ".localhost", ".localdomain"].iter().any(|end| self.host.ends_with(end));
        self.host.contains('.') && !is_local
    }

    /// The answer that no such host exists: a program that hears of a passing trouble would try again and again.
    pub fn not_found(&self, packet: &[u8]) -> Vec<u8> {
        let mut answer = packet.get(..self.end).unwrap_or_default().to_vec();
        if answer.len() >= HEADER {
            let asked = u16::from_be_bytes([answer[2], answer[3]]);
            let flags = ANSWER | (asked & RECURSION_DESIRED) | RECURSION_AVAILABLE | NO_SUCH_NAME;
            answer[2..4].copy_from_slice(&flags.to_be_bytes());
            // One question, and nothing behind it.
            answer[4..HEADER].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
        }
        answer
    }
}

/// For the user: the fact, and what would allow it. The network of a session is chosen when it starts.
pub fn lines(hosts: &[String], is_session: bool) -> Option<(String, String)> {
    const SHOWN: usize = 3;
    let (first, rest) = (hosts.get(..hosts.len().min(SHOWN))?, hosts.len().saturating_sub(SHOWN));
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    let fact = format!("the command looked for {}{more}, and this cage has no network", first.join(", "));
    let flags: Vec<String> = first.iter().map(|host| format!("--allow-net {host}")).collect();
    let remedy = match is_session {
        true => format!("to allow it, add `{}` to `keyward session start`", flags.join(" ")),
        false => format!("to allow it, add `{}`", flags.join(" ")),
    };
    (!first.is_empty()).then_some((fact, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What glibc sends for an address of `example.org`.
    const QUESTION: &[u8] =
        b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03ORG\x00\x00\x01\x00\x01";

    #[test]
    fn a_question_is_read_and_answered() {
        let lookup = Lookup::read(QUESTION).expect("a question");
        assert_eq!(lookup.host, "example.org");
        assert!(lookup.is_worth_telling());
        let answer = lookup.not_found(QUESTION);
        assert_eq!(&answer[..12], b"\x12\x34\x81\x83\x00\x01\x00\x00\x00\x00\x00\x00");
        assert_eq!(&answer[12..], &QUESTION[12..]);
        // What comes behind the question, such as the size that a client takes, is not repeated.
        let longer = [QUESTION, b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00"].concat();
        assert_eq!(lookup.not_found(&longer), answer);
    }

    #[test]
    fn anything_else_is_not_answered() {
        let answer = [&QUESTION[..2], b"\x81\x80", &QUESTION[4..]].concat();
        let two = [&QUESTION[..4], b"\x00\x02", &QUESTION[6..]].concat();
        let compressed = [&QUESTION[..12], b"\xc0\x0c\x00\x01\x00\x01"].concat();
        let escape = QUESTION.iter().map(|&byte| if byte == b'x' { 0x1b } else { byte }).collect::<Vec<u8>>();
        for packet in
            [&b""[..], &QUESTION[..20], &QUESTION[..QUESTION.len() - 1], &answer, &two, &compressed, &escape]
        {
            assert_eq!(Lookup::read(packet), None, "{packet:?}");
        }
    }

    #[test]
    fn names_of_the_machine_itself_are_not_told() {
        for host in ["build-7", "1.0.0.127.in-addr.arpa", "printer.local", "a.localhost"] {
            assert!(!Lookup { host: host.into(), end: 0 }.is_worth_telling(), "{host}");
        }
    }

    #[test]
    fn a_user_is_told_a_few_hosts() {
        let hosts = |all: &[&str]| all.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
        assert_eq!(lines(&[], false), None);
        let (fact, remedy) = lines(&hosts(&["a.b", "c.d", "e.f", "g.h"]), false).expect("lines");
        assert_eq!(fact, "the command looked for a.b, c.d, e.f and 1 more, and this cage has no network");
        assert_eq!(remedy, "to allow it, add `--allow-net a.b --allow-net c.d --allow-net e.f`");
    }

    proptest! {
        #[test]
        fn no_packet_is_a_panic(packet in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Some(lookup) = Lookup::read(&packet) {
                prop_assert!(lookup.not_found(&packet).len() <= packet.len());
            }
        }
    }
}
