//! The second executable, `keyward-services`. It holds what the launcher must not carry, because the launcher forks and every start maps
//! it: the attack on one's own cage, the tools of an agent, the audit of a code base with its grammars, the proxy with its TLS. Each such
//! part is a room.
//!
//! The launcher starts a room by exec, never by fork, with the arguments of [`keyward_protocol::services`]. A room decides nothing that the
//! launcher has not decided: it gets its orders by arguments and descriptors.
#![forbid(unsafe_code)]

mod attack;
mod mcp;
mod scan;
mod tell;

use keyward_policy::trouble::{Code, Trouble};
use keyward_protocol::services::{Call, EXECUTABLE, Room, Unfit, VERSION};
use keyward_sys::environ::Block;
use std::ffi::OsString;
use tell::Teller;

/// The whole program. Gives the exit code.
pub fn main() -> i32 {
    // As in the launcher: no other program of the user's reads our memory.
    let _ = keyward_sys::confine::become_opaque();
    tell::panics();
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.first().is_some_and(|first| first == keyward_attack::PART_COMMAND) {
        let part = arguments.get(1).cloned().unwrap_or_default();
        let block = Block::take();
        return keyward_attack::play(&part, arguments.get(2..).unwrap_or_default(), &block.entries());
    }
    if arguments.len() == 1 && arguments[0] == "--version" {
        return Teller::WORDS.answer(&format!("{EXECUTABLE} {VERSION}"));
    }
    match Call::read(arguments.drain(..)) {
        Ok(call) => enter(&call),
        Err(unfit) => Teller::WORDS.failure(&trouble(&unfit)),
    }
}

fn enter(call: &Call) -> i32 {
    match call.room {
        Room::Attack => attack::attack(call),
        Room::Mcp => mcp::serve(call),
        Room::Proxy => keyward_proxy::serve(),
        Room::Scan => scan::scan(call),
    }
}

fn trouble(unfit: &Unfit) -> Trouble {
    match unfit {
        Unfit::OtherVersion(version) => Trouble::new(
            Code::Services,
            format!("keyward is version {version}, and {EXECUTABLE} beside it is version {VERSION}"),
            "install both from the same package, or with `cargo install --locked --path crates/cli`",
        ),
        Unfit::NotACall => Trouble::new(
            Code::Usage,
            format!("{EXECUTABLE} is not a command of its own: keyward starts it"),
            "type `keyward help` for the commands that there are",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_told_with_both_numbers_and_a_remedy() {
        let told = trouble(&Unfit::OtherVersion("0.0.9".into()));
        assert!(told.fact.contains("0.0.9") && told.fact.contains(VERSION), "{}", told.fact);
        assert_eq!(told.exit(), 125);
    }
}
