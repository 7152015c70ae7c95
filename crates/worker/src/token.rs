//! Swaps a token for the secret that it is worth, at the socket of the cage at which the vault answers. `keyward redeem` does the same for
//! programs that cannot.
//!
//! A descriptor with a token has two lines: a private key that was made in this cage, and the token, sealed to it.

use crate::TakeError;
use crate::way::read_at_start;
use age::x25519::Identity;
use keyward_sys::{Errno, channel};
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::str::FromStr;
use zeroize::Zeroizing;

/// Where tokens are swapped, in a cage.
const REDEMPTION: &str = "/run/keyward-vault";
/// The answer with which a descriptor comes.
const TAKEN: &[u8] = b"taken";
/// More than a key and a sealed token have.
const MOST: usize = 4096;

/// The descriptor of the secret.
pub(crate) fn swap(variable: &str, file: &OwnedFd) -> Result<OwnedFd, TakeError> {
    let mut text = Zeroizing::new([0; MOST]);
    let length = read_at_start(file, &mut *text).unwrap_or(0);
    let token = open(text.get(..length).unwrap_or_default());
    let token = token.ok_or_else(|| TakeError::Worthless { variable: variable.into() })?;
    match offer(&token) {
        Ok(Some(value)) => Ok(value),
        Ok(None) => Err(TakeError::Worthless { variable: variable.into() }),
        Err(_) => Err(TakeError::NoVault { variable: variable.into() }),
    }
}

fn open(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (key, sealed) = std::str::from_utf8(text).ok()?.trim_end().split_once('\n')?;
    let identity = Identity::from_str(key).ok()?;
    age::decrypt(&identity, &unhex(sealed)?).ok().map(Zeroizing::new)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}

fn offer(token: &[u8]) -> Result<Option<OwnedFd>, Errno> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(REDEMPTION)?)?;
    channel::send(&socket, token, &[])?;
    let mut word = [0; 16];
    let answer = channel::receive(&socket, &mut word)?;
    let taken = word.get(..answer.length) == Some(TAKEN);
    Ok(answer.descriptors.into_iter().next().filter(|_| taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The crate is for other people's programs, and so it does without the messages of Keyward's own processes.
    #[test]
    fn the_socket_and_the_word_are_those_of_the_vault() {
        assert_eq!(REDEMPTION, keyward_protocol::vault::REDEMPTION);
        assert_eq!(TAKEN, keyward_protocol::vault::Redeemed::Taken.encode());
    }

    #[test]
    fn what_is_no_token_opens_nothing() {
        for text in ["", "x", "\n", "AGE-SECRET-KEY-1\nzz", "AGE-SECRET-KEY-1\n0", "a\nb\nc"] {
            assert!(open(text.as_bytes()).is_none(), "{text}");
        }
        assert!(open(&[0xff, b'\n', 0xff]).is_none());
        assert_eq!(unhex("00ffA0").unwrap(), [0, 255, 160]);
        assert!(unhex("0").is_none() && unhex("0g").is_none());
    }
}
