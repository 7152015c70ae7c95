//! The attack on one's own cage: every probe runs once outside and once inside, and only the first may succeed.
//!
//! Four processes play it, all of them `keyward-services`. None of them touches anything of the user's.
//!
//! | process | who it is | holds |
//! |---|---|---|
//! | the controller (`conduct`) | `keyward doctor --attack` | the random values, the stage, the verdicts |
//! | the neighbour | another program of the same user | a secret in environment, memory, descriptors and sockets |
//! | the agent | who starts commands | a secret in its environment and keyring, descriptors left open by accident |
//! | the child | the attacker | nothing; it is told where to look, and runs one probe |
//!
//! The agent starts the child either directly or by `keyward run`; everything else is the same. The probes are in `classes`, one file
//! for each class of attack.
#![forbid(unsafe_code)]

mod agent;
mod canary;
mod child;
pub mod classes;
mod conduct;
mod neighbour;
mod probe;
mod seen;
mod stage;
mod target;
mod verdict;

pub use conduct::{Fault, conduct};
pub use probe::{Class, Probe};
pub use verdict::{Row, Summary, Verdict, summary};

use std::ffi::{OsStr, OsString};

/// Plays the part of one of the helpers. The exit code is for the one who started it.
pub fn play(part: &OsStr, arguments: &[OsString], environment: &[&[u8]]) -> i32 {
    // The attack reads what any program of the user's shows; Keyward itself is closed by its first act.
    let _ = keyward_sys::confine::become_transparent();
    // The controller blocks signals, and a mask is inherited.
    keyward_sys::signal::set_mask(&keyward_sys::signal::Set::of(&[]));
    let word = |at: usize| arguments.get(at).and_then(|argument| argument.to_str()).unwrap_or_default();
    match part.to_str().unwrap_or_default() {
        "neighbour" => neighbour::play(),
        "agent" => agent::play(word(0), word(1), arguments.get(2)),
        "child" => child::play(word(0), word(1), environment),
        _ => 1,
    }
}

/// The hidden command that starts a part.
pub const PART_COMMAND: &str = "attack-part";

/// The names of all probes.
pub fn names() -> impl Iterator<Item = &'static str> {
    classes::ALL.iter().flat_map(|class| class.probes).map(|probe| probe.name)
}
