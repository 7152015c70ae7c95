//! Tokens: worth one secret, once, for a short time, and only where they were sealed for.
//!
//! The key pair is made in the cage, whose init sends the public key to the vault past everybody outside. The vault seals a token to it;
//! what carries the sealed token to the cage cannot open it. A token is swapped at a socket of the cage's own, at which the vault listens.

use age::secrecy::ExposeSecret;
use age::x25519::{Identity, Recipient};
use keyward_sys::{Errno, memory, random};
use rustix::fd::OwnedFd;
use std::str::FromStr;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// 256 bits.
pub const LENGTH: usize = 32;
/// How long a token is worth something.
pub const LIFE: Duration = Duration::from_secs(60);

/// A fresh pair of keys: the public one as text, and a sealed file with the other, on a line of its own.
pub fn key_pair() -> Result<(Vec<u8>, OwnedFd), Errno> {
    let identity = Identity::generate();
    let private = identity.to_string();
    let file = memory::sealed(c"keyward-key", &[private.expose_secret().as_bytes(), b"\n"])?;
    Ok((identity.to_public().to_string().into_bytes(), file))
}

/// The tokens of one cage.
#[derive(Default)]
pub struct Tokens(Vec<Token>);

struct Token {
    secret: usize,
    value: Zeroizing<[u8; LENGTH]>,
    until: Instant,
    used: bool,
}

impl Tokens {
    /// Makes a token for a secret, by its place in the plan; gives it sealed to this key, as text.
    pub fn make(&mut self, secret: usize, public: &[u8]) -> Result<String, Errno> {
        let public = std::str::from_utf8(public).ok().and_then(|text| Recipient::from_str(text).ok());
        let mut value = Zeroizing::new([0; LENGTH]);
        random::fill(&mut *value)?;
        let sealed = age::encrypt(&public.ok_or(Errno::INVAL)?, &*value).map_err(|_| Errno::IO)?;
        self.0.push(Token { secret, value, until: Instant::now() + LIFE, used: false });
        Ok(hex(&sealed))
    }

    /// The secret that a token is worth, now. Whether it is over, was used, is another's or none at all makes no difference to whoever asks.
    pub fn take(&mut self, offered: &[u8], now: Instant) -> Option<usize> {
        let mut found = None;
        for token in &mut self.0 {
            // All of them are looked at, each as a whole.
            let same = offered.len() == LENGTH
                && offered.iter().zip(token.value.iter()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0;
            if same && !token.used && now < token.until {
                token.used = true;
                found = Some(token.secret);
            }
        }
        found
    }

    /// Makes a token worth something again: its secret could not be had.
    pub fn give_back(&mut self, secret: usize) {
        for token in self.0.iter_mut().filter(|token| token.secret == secret) {
            token.used = false;
        }
    }
}

/// Opens what a cage was given: the key on the first line, the sealed token on the second.
pub fn open(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let (key, sealed) = text.trim_end().split_once('\n')?;
    let identity = Identity::from_str(key).ok()?;
    age::decrypt(&identity, &unhex(sealed)?).ok().map(Zeroizing::new)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    bytes
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn sealed() -> (Tokens, String) {
        let mut tokens = Tokens::default();
        let (public, private) = key_pair().unwrap();
        let mut text = String::new();
        std::fs::File::from(private).read_to_string(&mut text).unwrap();
        text.push_str(&tokens.make(7, &public).unwrap());
        (tokens, text)
    }

    #[test]
    fn a_token_is_worth_its_secret_once() {
        let (mut tokens, text) = sealed();
        let token = open(&text).unwrap();
        assert_eq!(token.len(), LENGTH);
        assert_eq!(tokens.take(&token, Instant::now()), Some(7));
        assert_eq!(tokens.take(&token, Instant::now()), None, "used");
        tokens.give_back(7);
        assert_eq!(tokens.take(&token, Instant::now()), Some(7));
    }

    #[test]
    fn another_one_a_part_or_an_old_one_is_worth_nothing() {
        let (mut tokens, text) = sealed();
        let (_, foreign) = sealed();
        let (token, foreign) = (open(&text).unwrap(), open(&foreign).unwrap());
        for offered in [&foreign[..], &token[..31], &[&token[..], b"x"].concat(), b"", &[0; LENGTH]] {
            assert_eq!(tokens.take(offered, Instant::now()), None);
        }
        assert_eq!(tokens.take(&token, Instant::now() + LIFE), None, "too late");
        assert_eq!(tokens.take(&token, Instant::now()), Some(7));
    }

    #[test]
    fn only_the_key_it_was_sealed_to_opens_it() {
        let ((_, one), (_, other)) = (sealed(), sealed());
        let mixed = format!("{}\n{}", one.lines().next().unwrap(), other.lines().nth(1).unwrap());
        assert!(open(&mixed).is_none());
        for broken in
            ["", "x", "\n", "AGE-SECRET-KEY-1\nzz", &one[..one.len() - 1], &one.replace("AGE", "ÄGE")]
        {
            assert!(open(broken).is_none());
        }
    }
}
