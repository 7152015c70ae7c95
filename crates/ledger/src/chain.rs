//! The chain: each line ends with its number and a digest over the digest before it and all of the line up to there. Pure.
//!
//! `{"v":1,…,"seq":7,"chain":"<64 hex digits>"}`: the two fields come last and are spelled in one way only, so that they are found from
//! the end of a line without reading JSON, and so that no byte of a line can change unnoticed.

use sha2::{Digest as _, Sha256};
use std::fmt;

const SEQ: &[u8] = b",\"seq\":";
const CHAIN: &[u8] = b",\"chain\":\"";
const END: &[u8] = b"\"}";
const HEX: usize = 64;

/// What the end of a line has at most: number, digest and the newline.
pub const LONGEST_END: usize = SEQ.len() + 20 + CHAIN.len() + HEX + END.len() + 1;

/// A SHA-256 digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

/// The number of an event and its digest, which stands for everything up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub seq: u64,
    pub digest: Digest,
}

impl Head {
    /// What the first event of all is chained to.
    pub const ROOT: Head = Head { seq: 0, digest: Digest([0; 32]) };
}

impl Digest {
    /// The digest of a whole text.
    pub fn of(bytes: &[u8]) -> Self {
        Digest(Sha256::digest(bytes).into())
    }

    fn of_line(before: &Digest, body: &[u8]) -> Self {
        Digest(Sha256::new().chain_update(before.0).chain_update(body).finalize().into())
    }

    /// 64 digits, in lower case only: every digest has one spelling.
    pub fn parse(hex: &[u8]) -> Option<Self> {
        let mut bytes = [0; 32];
        if hex.len() != HEX {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Digest(bytes))
    }

    fn hex(&self) -> [u8; HEX] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; HEX];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        hex
    }
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.hex().iter().try_for_each(|byte| write!(f, "{}", char::from(*byte)))
    }
}

/// A digest that is made piece by piece.
#[derive(Default)]
pub struct Hasher(Sha256);

impl Hasher {
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn end(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

/// Puts number and digest at the end of a JSON object, and ends the line. The object begins at `from`.
pub fn seal(line: &mut Vec<u8>, from: usize, before: &Head) -> Head {
    // The closing brace, which comes back with the end.
    line.pop();
    // A forged number is no reason to stop recording: verifying finds it.
    let seq = before.seq.wrapping_add(1);
    line.extend_from_slice(SEQ);
    line.extend_from_slice(seq.to_string().as_bytes());
    let digest = Digest::of_line(&before.digest, line.get(from..).unwrap_or_default());
    line.extend_from_slice(CHAIN);
    line.extend_from_slice(&digest.hex());
    line.extend_from_slice(END);
    line.push(b'\n');
    Head { seq, digest }
}

/// A line with its number and what it claims to be its digest.
#[derive(Clone, Copy, Debug)]
pub struct Sealed<'a> {
    pub head: Head,
    body: &'a [u8],
}

impl<'a> Sealed<'a> {
    /// Reads the end of a line, given without its newline.
    pub fn read(line: &'a [u8]) -> Option<Self> {
        let (rest, hex) = line.strip_suffix(END)?.split_last_chunk::<HEX>()?;
        let body = rest.strip_suffix(CHAIN)?;
        let digits = body.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let (start, number) = body.split_at(body.len() - digits);
        start.strip_suffix(SEQ)?;
        if number.first() == Some(&b'0') {
            return None;
        }
        let seq = std::str::from_utf8(number).ok()?.parse().ok()?;
        Some(Sealed { head: Head { seq, digest: Digest::parse(hex)? }, body })
    }

    /// Whether the digest is the one that this line has after that one.
    pub fn follows(&self, before: &Digest) -> bool {
        Digest::of_line(before, self.body) == self.head.digest
    }
}

/// Where the last chained line among these bytes ends, behind its newline, and its head.
pub fn last_sealed(bytes: &[u8]) -> Option<(usize, Head)> {
    let mut end = bytes.len();
    while let Some(newline) = bytes.get(..end)?.iter().rposition(|byte| *byte == b'\n') {
        let start = newline.saturating_sub(LONGEST_END);
        if let Some(sealed) = Sealed::read(bytes.get(start..newline)?) {
            return Some((newline + 1, sealed.head));
        }
        end = newline;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed_after(before: &Head) -> (Vec<u8>, Head) {
        let mut line = b"{\"v\":1}".to_vec();
        let head = seal(&mut line, 0, before);
        line.pop();
        (line, head)
    }

    #[test]
    fn a_line_is_read_back_and_follows_only_what_it_was_made_after() {
        let (line, head) = sealed_after(&Head::ROOT);
        let read = Sealed::read(&line).unwrap();
        assert_eq!((read.head, head.seq), (head, 1));
        assert!(read.follows(&Head::ROOT.digest) && !read.follows(&Digest::of(b"")));
    }

    #[test]
    fn number_and_digest_have_one_spelling() {
        let text = String::from_utf8(sealed_after(&Head::ROOT).0).unwrap();
        let digits = &text[text.len() - 66..text.len() - 2];
        for other in [
            text.replace(digits, &digits.to_uppercase()),
            text.replace("\"seq\":1", "\"seq\":01"),
            text.replace("\"seq\":1", "\"seq\": 1"),
            text.replace("\"seq\":1", "\"seq\":"),
            text.replace("\"seq\":1", "\"seq\":99999999999999999999"),
            format!("{text} "),
        ] {
            assert!(Sealed::read(other.as_bytes()).is_none(), "{other}");
        }
    }

    #[test]
    fn the_digest_is_the_one_that_is_documented() {
        // printf '%064d' 0 | xxd -r -p; printf '{"v":1,"seq":1'; both through sha256sum
        let documented = Digest::of(&[&[0; 32][..], b"{\"v\":1,\"seq\":1"].concat());
        assert_eq!(sealed_after(&Head::ROOT).1.digest, documented);
    }
}
