//! `keyward run`: looks where it stands and what the policy is, then tries once, and once more if the host grants less than hoped.

mod story;
pub mod tell;

use crate::args::{RunArgs, ShellArgs};
use crate::here::{self, Here};
use crate::supply::{self, Phantoms};
use crate::{files, say, session, vault};
use keyward_launch::cgroup;
use keyward_launch::probe;
use keyward_launch::session::Membership;
use keyward_policy::env::{self, Var};
use keyward_policy::event;
use keyward_policy::linux::kernel::KernelFacts;
use keyward_policy::mcp;
use keyward_policy::outcome::code;
use keyward_policy::settings::Policy;
use keyward_policy::shims;
use keyward_policy::trouble::{Code, Trouble};
use keyward_policy::words::{Allowance, Origin};
use keyward_project::{self as project, logins};
use keyward_sys::environ::Block;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use story::{Early, Run, from_caller};

/// Runs a command and gives the exit code.
pub fn run(args: RunArgs, block: &mut Block) -> i32 {
    // Before the command runs: its outcome would be lost.
    if let Some(number) = args.outcome_fd.filter(|number| !say::can_write_to(*number)) {
        say::outcome_has_no_place(number);
        return code::USAGE;
    }
    if let Some(door) = session::inside() {
        return session::run_beside(door, &args);
    }
    let here = here::look(&block.entries(), args.policy.cwd.as_deref());
    match here {
        Ok(here) => run_with(args, here, block, None),
        Err(refusal) => tell::early(&args, None, Early::Refused(refusal)),
    }
}

/// Builds the cage of a session, and looks after it until it ends.
pub fn run_for_session(
    args: RunArgs,
    (here, policy): (Here, Policy),
    block: &mut Block,
    session: Membership,
    phantoms: Phantoms,
) -> i32 {
    run_with(args, here, block, Some((session, policy, phantoms)))
}

/// An interactive shell: the user's own.
pub fn shell(args: ShellArgs, block: &mut Block) -> i32 {
    let entries = block.entries();
    let own = entries.iter().find_map(|entry| entry.strip_prefix(b"SHELL="));
    let known = own.map(|path| PathBuf::from(OsStr::from_bytes(path))).filter(|path| path.is_file());
    let shell = known.unwrap_or_else(|| {
        if Path::new("/bin/bash").is_file() { "/bin/bash".into() } else { "/bin/sh".into() }
    });
    let command = vec![shell.into_os_string()];
    run(RunArgs { policy: args.policy, ..RunArgs::plain(None, command) }, block)
}

/// Wipes the caller's variables, except those that a further cage of the session would get, without credentials.
pub fn keep_for_fresh_cages(policy: &Policy, block: &mut Block) {
    let entries = block.entries();
    let environment = env::decide(policy, policy.trust.value, &entries, &[]);
    let inherited = event::inherited(&environment);
    let passes = |var: &&Var| !inherited.contains(&var.name.to_string());
    let mut keep: Vec<usize> = environment.vars.iter().filter(passes).filter_map(from_caller).collect();
    // These variables lead to the directories in which everything else is.
    let needed = |entry: &&[u8]| {
        [&b"PATH="[..], b"HOME=", b"XDG_", b"DBUS_SESSION_BUS_ADDRESS="]
            .iter()
            .any(|name| entry.starts_with(name))
    };
    keep.extend(entries.iter().enumerate().filter(|(_, entry)| needed(entry)).map(|(place, _)| place));
    drop(entries);
    block.wipe_values(&keep);
}

fn run_with(
    args: RunArgs,
    mut here: Here,
    block: &mut Block,
    session: Option<(Membership, Policy, Phantoms)>,
) -> i32 {
    if args.serves {
        here.caller.terminals = mcp::terminals(here.caller.terminals);
    }
    let (session, decided, phantoms) = match session {
        Some((session, policy, phantoms)) => (Some(session), Some(policy), Some(phantoms)),
        None => (None, None, None),
    };
    let policy = match decided.map_or_else(|| files::policy(&args.policy, &here, &block.entries()), Ok) {
        Ok(policy) => policy,
        Err(trouble) => return tell::early(&args, Some(&here), Early::Trouble(trouble)),
    };
    recover(&here, args.json);
    if let Some(trouble) = folder_among_streams() {
        return tell::early(&args, Some(&here), Early::Trouble(trouble));
    }
    // What a secret is taken from is gone after the first attempt.
    let first = match vault::takes_from_environment(&policy) {
        true => probe::probe(&here.project, &here.caller.cache),
        false => hopeful(&policy),
    };
    let phantoms = match phantoms.map_or_else(|| Phantoms::make(&policy), Ok) {
        Ok(phantoms) => phantoms,
        Err(errno) => {
            let trouble = supply::no_phantoms(errno);
            return tell::early(&args, Some(&here), Early::Trouble(trouble));
        }
    };
    let tools = match shims::are_on(&policy) && session.is_none() {
        true => match session::for_tools(&args, &here, &policy, block) {
            Ok(tools) => Some(tools),
            Err(exit) => return exit,
        },
        false => None,
    };
    let policy = shims::of_agent(policy);
    let mut run = Run::new(&args, &policy, &here, block, session, tools, phantoms);
    match run.attempt(first) {
        Err(Early::HostRefused(_)) => run.attempt(probe::probe(&here.project, &here.caller.cache)),
        ended => ended,
    }
    .unwrap_or_else(|early| tell::early(&args, Some(&here), early))
}

/// The run itself is the proof of what this host grants; only if it is refused do we look closer, and decide again.
fn hopeful(policy: &Policy) -> KernelFacts {
    let mut hopeful = KernelFacts::hopeful(keyward_launch::landlock_abi());
    // The default limit needs no cgroup.
    let asks_for_pids = policy.limits.pids.as_ref().is_some_and(|pids| pids.origin != Origin::Builtin);
    if policy.limits.memory.is_some() || asks_for_pids {
        hopeful.cgroup = cgroup::find();
    }
    if policy.allow.iter().any(|allow| allow.value == Allowance::Ptrace) {
        hopeful.tracing = probe::tracing();
    }
    hopeful
}

fn folder_among_streams() -> Option<Trouble> {
    let number = keyward_launch::folder_among_streams()?;
    let fact = format!(
        "refusing to start: descriptor {number} is an open directory, which would give the command access outside the cage"
    );
    let remedy = "pass a file or a pipe; grant directories with `--read` or `--write`";
    Some(Trouble::new(Code::Unfit, fact, remedy))
}

/// Finishes what a launcher that was killed had still to do, wherever that was.
fn recover(here: &Here, quiet: bool) {
    let news = logins::recover(&here.state);
    if !quiet {
        tell::logins(&news, false);
    }
    let recovered = project::git::publisher::recover(&here.caller.repositories, here.search.as_os_str());
    if !quiet {
        tell::repositories(&recovered.repositories);
        tell::not_yet(&recovered.not_yet);
    }
    for recovered in project::recover(&here.state) {
        tell::recovered(here, &recovered, quiet);
    }
}
