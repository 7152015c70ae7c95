//! Messages of the vault to the process that started it: the result, and never a value.

use crate::trouble::Trouble;
use serde::{Deserialize, Serialize};

/// What the first byte of a cage's first word to the vault says of the descriptors that come with it, in this order. A public key may follow.
pub const WITH_TERMINAL: u8 = 1;
pub const WITH_DOOR: u8 = 2;

/// One message of the vault.
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
