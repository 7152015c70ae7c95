//! `keyward mcp`: a server of the Model Context Protocol in a cage of its own. It is `keyward run` with other defaults; its
//! streams pass as they are.
//!
//! The same configuration of a client serves outside and inside a cage. In the cage of a session the server gets a cage beside
//! it. In the cage of one command there can be no other: the server runs in that one, with what the cage has.

use crate::args::{McpArgs, PolicyFlags, RunArgs};
use crate::{here, run, say, session};
use keyward_policy::mcp::{self, Given};
use keyward_policy::outcome::code;
use keyward_policy::text::visible;
use keyward_policy::trouble::{Code, Trouble};
use keyward_sys::environ::Block;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Runs the server and gives its exit code.
pub fn mcp(args: McpArgs, block: &mut Block) -> i32 {
    let McpArgs { policy, verbose, command } = args;
    if let Some(door) = session::inside() {
        if !policy.is_empty() {
            say::note("this cage is of a session, whose policy holds for the server too: flags do not count");
        }
        return session::run_beside(door, &RunArgs::plain(None, command));
    }
    if here::is_cage() {
        return become_server(&command);
    }
    let policy = flags(policy, &command);
    let run = RunArgs { policy, verbose, quiet: !verbose, serves: true, ..RunArgs::plain(None, command) };
    run::run(run, block)
}

/// Becomes the server, in the cage that we are in. Returns only if that failed.
fn become_server(command: &[OsString]) -> i32 {
    let Some((program, arguments)) = command.split_first() else { return code::USAGE };
    say::note("this is a cage already: the server runs in it, and can do what the cage can");
    say::streams::restore();
    // keyward: allow-spawn we are in a cage, and the server gets what the cage has
    let cause = Command::new(program).args(arguments).exec();
    let fact = format!("cannot start {}: {}", visible(program), say::cause(&cause));
    let remedy = "check the spelling; a cage has only the programs that it was given";
    say::failure(&Trouble::new(Code::NotFound, fact, remedy))
}

/// The flags of a run that makes the cage of this server.
pub fn flags(mut flags: PolicyFlags, command: &[OsString]) -> PolicyFlags {
    let given = Given { profile: flags.profile.as_deref(), trust: flags.trust, net: flags.net };
    let defaults = mcp::defaults(command, given);
    flags.trust = flags.trust.or(defaults.trust);
    flags.allow_net.extend(defaults.preset.map(String::from));
    flags
}
