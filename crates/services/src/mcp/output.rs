//! What a command prints, up to a bound: its beginning and its end. A command is never held up because it prints more.

use std::collections::VecDeque;
use std::io::Read;

/// Bytes of the beginning that are kept.
const HEAD: usize = 16 << 10;
/// Bytes of the end that are kept: what went wrong stands there.
const TAIL: usize = 48 << 10;

/// Bytes that are kept.
pub const MOST: usize = HEAD + TAIL;

#[derive(Default)]
pub struct Output {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Output {
    /// Reads to the end.
    pub fn of(mut from: impl Read) -> Output {
        let mut output = Output::default();
        let mut part = vec![0; 64 << 10];
        loop {
            match from.read(&mut part) {
                Ok(0) => return output,
                Ok(length) => output.add(&part[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return output,
            }
        }
    }

    fn add(&mut self, part: &[u8]) {
        let (head, rest) = part.split_at(part.len().min(HEAD - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..over);
        self.left_out += over as u64;
    }

    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// As text. It says where something was left out.
    pub fn text(self) -> String {
        let mut bytes = self.head;
        if self.left_out > 0 {
            bytes.extend(format!("\n[keyward: {} bytes left out]\n", self.left_out).into_bytes());
        }
        bytes.extend(self.tail);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_kept_whole() {
        let all: Vec<u8> = (0..HEAD + TAIL).map(|number| b'a' + (number % 26) as u8).collect();
        let output = Output::of(&all[..]);
        assert_eq!((output.left_out(), output.text().into_bytes()), (0, all));
    }

    #[test]
    fn of_what_is_longer_the_beginning_and_the_end_are_kept_and_the_rest_is_counted() {
        let all = ["a".repeat(HEAD), "b".repeat(1_000_000), "c".repeat(TAIL)].concat();
        let output = Output::of(all.as_bytes());
        assert_eq!(output.left_out(), 1_000_000);
        let text = output.text();
        assert!(text.starts_with("aaa") && text.ends_with("ccc") && !text.contains("bbb"));
        assert!(text.contains("[keyward: 1000000 bytes left out]"));
    }
}
