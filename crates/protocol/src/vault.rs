//! The channels of the vault: to the process that started it, which hears the result and never a value; to init of the cage, which takes
//! the secrets; and the socket in the cage at which a token is swapped.
//!
//! Init and programs in the cage speak in fixed bytes, so that neither parses anything beside a secret. The reports are JSON packets.

use keyward_policy::trouble::Trouble;
use serde::{Deserialize, Serialize};

/// The socket in the cage at which a token is swapped for its secret.
pub const REDEMPTION: &str = "/run/keyward-vault";
/// The most bytes of a [`Hello`].
pub const LONGEST_HELLO: usize = 256;
/// More bytes than a [`Redeemed`] has.
pub const ROOM_FOR_REDEEMED: usize = 16;

const WITH_TERMINAL: u8 = 1;
const WITH_TOKENS: u8 = 2;

/// The first message of init to the vault: the cage is there. A byte of flags, then the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The vault shows the cage's terminal, which travels along.
    pub terminal: bool,
    /// The key that tokens are sealed to. The socket at which they are swapped travels along, behind the terminal.
    pub tokens: Option<&'a [u8]>,
}

impl<'a> Hello<'a> {
    /// Writes a greeting.
    pub fn encode(self) -> Vec<u8> {
        let terminal = if self.terminal { WITH_TERMINAL } else { 0 };
        let tokens = if self.tokens.is_some() { WITH_TOKENS } else { 0 };
        [&[terminal | tokens], self.tokens.unwrap_or_default()].concat()
    }

    /// Reads a greeting; `None` for anything else.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (&with, key) = bytes.split_first()?;
        let tokens = (with & WITH_TOKENS != 0).then_some(key);
        let is_known = with & !(WITH_TERMINAL | WITH_TOKENS) == 0 && (tokens.is_some() || key.is_empty());
        is_known.then_some(Hello { terminal: with & WITH_TERMINAL != 0, tokens })
    }
}

/// To init: the value of a secret travels along. One byte, its place in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    pub secret: usize,
}

impl Handed {
    /// Writes it. A plan has fewer secrets than a byte has values.
    pub fn encode(self) -> [u8; 1] {
        [u8::try_from(self.secret).unwrap_or(u8::MAX)]
    }

    /// Reads it; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let &[secret] = bytes else { return None };
        Some(Handed { secret: usize::from(secret) })
    }
}

/// The answer to a token that was brought to [`REDEMPTION`]: a word. A token itself is its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redeemed {
    /// The value travels along.
    Taken,
    /// The token is invalid, or was used already, or its secret cannot be had.
    Worthless,
}

impl Redeemed {
    /// Writes the answer.
    pub const fn encode(self) -> &'static [u8] {
        match self {
            Redeemed::Taken => b"taken",
            Redeemed::Worthless => b"worthless",
        }
    }

    /// Reads the answer; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        [Redeemed::Taken, Redeemed::Worthless].into_iter().find(|redeemed| redeemed.encode() == bytes)
    }
}

/// A report of the vault to the process that started it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is", deny_unknown_fields)]
pub enum Said {
    /// A secret of the plan, by its place there, has reached the cage.
    Delivered {
        secret: usize,
        /// How long its value was in the vault's memory, in microseconds.
        microseconds: u64,
    },
    /// A token for a secret, which only the cage can open.
    Sealed { secret: usize, token: String },
    /// A token was swapped for its secret.
    Redeemed { secret: usize, microseconds: u64 },
    /// A token was brought whose secret could not be had; it is still worth it.
    NotRedeemed { secret: usize, fact: String, remedy: String },
    /// A process used an invalid or already used token.
    Refused,
    /// The command printed something that was taken out.
    Found { name: String, encoding: String, stream: u8, offset: u64 },
    /// How often a secret was taken out of what the command printed, in all.
    Printed { name: String, times: u64 },
    /// What the command printed could not be written to where it goes.
    Unwritten { stream: u8 },
    /// The cage has ended, and everything was passed on.
    Done,
    /// The patterns of all secrets are gone from the vault's memory.
    Forgotten { microseconds: u64 },
    /// A word to the user: a secret that cannot be looked for in what the command prints.
    Note { fact: String, remedy: String },
    /// A store was made, whose identity is where this word says.
    Began { identity: String },
    /// A value is in the store now, and was that of this variable.
    Kept { name: String, variable: String },
    /// A secret cannot be had, and so the command does not start.
    Failed(Trouble),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_says_what_travels_along() {
        for terminal in [false, true] {
            for tokens in [None, Some(&b"age1key"[..])] {
                let hello = Hello { terminal, tokens };
                assert_eq!(Hello::decode(&hello.encode()), Some(hello));
            }
        }
        for bytes in [&b""[..], b"\x04", b"\x00key", b"\x01key", b"\xff"] {
            assert_eq!(Hello::decode(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_secret_is_handed_over_by_its_place() {
        assert_eq!(Handed::decode(&Handed { secret: 7 }.encode()), Some(Handed { secret: 7 }));
        assert_eq!(Handed::decode(&[]), None);
        assert_eq!(Handed::decode(&[1, 2]), None);
    }

    #[test]
    fn a_token_is_taken_or_worthless() {
        for redeemed in [Redeemed::Taken, Redeemed::Worthless] {
            assert!(redeemed.encode().len() <= ROOM_FOR_REDEEMED);
            assert_eq!(Redeemed::decode(redeemed.encode()), Some(redeemed));
        }
        for bytes in [&b""[..], b"take", b"taken ", b"worthles"] {
            assert_eq!(Redeemed::decode(bytes), None);
        }
    }
}
