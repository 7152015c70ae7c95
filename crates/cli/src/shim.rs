//! A shim: this program under the name of a shell or an interpreter, in the cage of an agent. It has the session of the agent run the real
//! one in the cage of the agent's tools, as if it ran here. It never runs it here: the one exception is the agent itself.

use crate::say;
use keyward_client::{Begun, Client, Ended, Error, Relay, Role, Screen, Tool, Unattended};
use keyward_policy::hook::refused_command;
use keyward_policy::outcome::code;
use keyward_policy::shims;
use keyward_policy::trouble::{Code, Trouble};
use keyward_sys::environ::Block;
use keyward_sys::exec::{self, Strings};
use keyward_sys::signal;
use rustix::fd::BorrowedFd;
use rustix::fs::{Mode, OFlags};
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The program that this process stands for, if it is a shim. The path of its own file decides, and not what the caller calls it.
pub fn stands_for() -> Option<&'static str> {
    let own = rustix::fs::readlink(c"/proc/self/exe", Vec::new()).ok()?;
    shims::stands_for(Path::new(OsStr::from_bytes(own.as_bytes())))
}

/// Has the session run the program; gives its exit code. A program that a signal has ended ends this process by that signal.
pub fn run(program: &'static str, block: &Block) -> i32 {
    let words: Vec<OsString> = std::env::args_os().collect();
    if is_agent_itself() {
        return become_it(program, words, block);
    }
    // Elsewhere a command could work on the wrong files.
    let Ok(cwd) = std::env::current_dir() else {
        return say::failure(&Trouble::new(
            Code::SessionFailed,
            format!("cannot run {program}: its directory was deleted or is closed to it"),
            "go to another directory first",
        ));
    };
    let Some(mut session) = Client::inside(Unattended) else {
        return say::failure(&Trouble::new(
            Code::SessionFailed,
            format!("cannot run {program}: the session of this agent is gone"),
            "start the agent again; its tools run in a cage of that session and nowhere else",
        ));
    };
    match run_in_session(&mut session, program, words, cwd, block) {
        Ok(Ended { signal: Some(signal), .. }) => {
            signal::end_self(signal);
            128 + signal
        }
        Ok(Ended { exit, .. }) => exit,
        Err(Error::Ended) => say::failure(&Trouble::new(
            Code::SessionFailed,
            format!("{program} was ended: the session of this agent is gone"),
            "start the agent again",
        )),
        // An agent reads what its command prints: it has to see that trying again, or another way, does not help.
        // Without a rule it is refused for the moment.
        Err(Error::Refused {
            trouble,
            rule: rule @ Some(_),
            exit: Some(exit @ (code::REFUSED | code::DENIED)),
            ..
        }) => {
            let text = refused_command(&trouble, rule) + "\n";
            let _ = keyward_sys::file::write_all(rustix::stdio::stderr(), text.as_bytes());
            exit
        }
        Err(error) => say::failure(&Trouble::from(error)),
    }
}

fn run_in_session(
    session: &mut Client,
    program: &'static str,
    words: Vec<OsString>,
    cwd: PathBuf,
    block: &Block,
) -> Result<Ended, Error> {
    let streams = keyward_launch::terminals();
    let screen = streams.contains(&true).then(|| Screen::new(streams));
    let tool = Tool {
        program: program.into(),
        words,
        cwd,
        terminal: screen.as_ref().map(|screen| screen.wish(streams)),
        changes: changes(block),
        umask: umask(),
    };
    let inbox = keyward_client::inbox()?;
    let own = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let given = own.into_iter().zip(streams).filter(|(_, is_terminal)| !is_terminal);
    let given: Vec<BorrowedFd<'_>> = given.map(|(own, _)| own).collect();
    let (job, terminal) = match session.run_tool(&tool, &given, &inbox)? {
        Begun::Started { job, terminal } => (job, terminal),
        Begun::Ended(ended) => return Ok(ended),
        Begun::Signal(signal) => {
            return Ok(Ended { exit: 128 + signal, signal: Some(signal), limit: None, hint: None });
        }
    };
    let_go_of_streams(streams);
    match (screen, terminal) {
        (Some(screen), Some(main)) => {
            let relay =
                Relay { client: session, job, inbox: &inbox, screen, role: Role::Owner, main, shown: None };
            relay.run()?.ok_or(Error::Ended)
        }
        _ => session.wait(job, &inbox),
    }
}

/// The command that the cage was made for is the first child of its init for as long as the cage lives. An agent that is a script is run by
/// an interpreter that it finds on its PATH: there that is a shim, and has to become what it stands for.
fn is_agent_itself() -> bool {
    let is_of_init = rustix::process::getppid().is_some_and(|parent| parent.as_raw_nonzero().get() == 1);
    is_of_init && agent() == Some(rustix::process::getpid().as_raw_nonzero().get())
}

/// The process of the agent. Helpers of init that made the cage may stand before it for a moment, dead and not yet waited for.
fn agent() -> Option<i32> {
    let children = std::fs::read_to_string("/proc/1/task/1/children").ok()?;
    let is_helper = |child: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        let (name, state) =
            stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')).unwrap_or_default();
        name.starts_with("keyward:") || state.trim_start().starts_with(['Z', 'X'])
    };
    children.split_whitespace().filter_map(|child| child.parse().ok()).find(|child| !is_helper(child))
}

/// Becomes the real program, which is looked for behind the shims.
fn become_it(program: &str, words: Vec<OsString>, block: &Block) -> i32 {
    let entries = block.entries();
    let text = |bytes: Vec<u8>| CString::new(bytes).unwrap_or_default();
    let argv = Strings::new(words.into_iter().map(|word| text(word.into_vec())).collect());
    let envp = Strings::new(entries.iter().map(|entry| text(entry.to_vec())).collect());
    let path = entries.iter().find_map(|entry| entry.strip_prefix(b"PATH=")).unwrap_or(b"/usr/bin:/bin");
    let path = shims::without(OsStr::from_bytes(path));
    for directory in path.as_bytes().split(|&byte| byte == b':').filter(|entry| entry.starts_with(b"/")) {
        let candidate = text([directory, b"/", program.as_bytes()].concat());
        exec::execve(&candidate, &argv, &envp);
    }
    say::failure(&Trouble::new(
        Code::NotFound,
        format!("cannot find {program} behind the shims"),
        "install it, or put its directory on your PATH",
    ))
}

/// What the agent has changed in the environment that it was started with.
fn changes(block: &Block) -> shims::Changes {
    let started_with = std::fs::read(shims::ENVIRONMENT).unwrap_or_default();
    let agents = agent().and_then(|agent| std::fs::read(format!("/proc/{agent}/environ")).ok());
    let agents: Vec<&[u8]> = agents.iter().flat_map(|block| block.split(|&byte| byte == 0)).collect();
    shims::changes(&started_with, &agents, &block.entries())
}

/// There is no way to ask for it but to set it.
fn umask() -> u32 {
    let mask = rustix::process::umask(Mode::from_raw_mode(0o077));
    rustix::process::umask(mask);
    mask.as_raw_mode()
}

/// Our pipes are the program's from here on: when it closes them, their other ends must see it.
fn let_go_of_streams(terminals: [bool; 3]) {
    let Ok(nothing) = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) else {
        return;
    };
    if !terminals[0] {
        let _ = rustix::stdio::dup2_stdin(&nothing);
    }
    if !terminals[1] {
        let _ = rustix::stdio::dup2_stdout(&nothing);
    }
}
