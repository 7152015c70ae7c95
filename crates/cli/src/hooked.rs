//! Agents that their user starts outside of any cage, and whose tool calls go into a session: `keyward init`, `keyward hook`, and the shell
//! that they are given.
//!
//! Each session of an agent has one session of Keyward's. It is started by the first call, and ends with the agent's process. One that ended
//! while the agent runs is not replaced: the calls are denied.

pub mod hook;
pub mod init;
mod init_mcp;
mod settings_file;
pub mod shell;

use crate::args::{PolicyFlags, SessionStartArgs};
use crate::here::Here;
use crate::session::{self, Door};
use crate::{bare, decide, here, say};
use keyward_client::Error;
use keyward_policy::hook::{Agent, Denied, session_name};
use keyward_policy::text::visible;
use keyward_policy::tools::{self, Exposure, Platform};
use keyward_policy::trouble::{Code, Trouble};
use keyward_policy::view::place_outside;
use keyward_sys::environ::Block;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::process::{Pid, PidfdFlags};
use std::ffi::OsStr;
use std::io::{Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The session of an agent.
pub struct Agents<'b> {
    agent: Agent,
    name: String,
    block: &'b mut Block,
}

impl<'b> Agents<'b> {
    /// `own` is the agent's name for its session.
    pub fn new(agent: Agent, own: &str, block: &'b mut Block) -> Result<Self, Trouble> {
        let name = session_name(agent, own).ok_or_else(|| {
            let own = visible(own.as_ref());
            Trouble::new(
                Code::Usage,
                format!("{} names its session {own}, which cannot be the name of one", agent.name()),
                "report the version of the agent to Keyward",
            )
        })?;
        Ok(Agents { agent, name, block })
    }

    /// Connects to the session, which is started if there was none for this process of the agent.
    pub fn open(&mut self, directory: Option<&Path>) -> Result<Door, Trouble> {
        match session::connect(self.block, &self.name) {
            Err(Error::NoSession { .. }) => self.start(directory),
            opened => Ok(opened?),
        }
    }

    fn start(&mut self, directory: Option<&Path>) -> Result<Door, Trouble> {
        let process = Process::of_agent().ok_or_else(|| {
            Trouble::new(
                Code::SessionFailed,
                "the process of the agent cannot be found",
                "agents start this command themselves; `keyward init AGENT` writes it into their settings",
            )
        })?;
        let mut mark = self.mark().map_err(|cause| self.no_mark(&cause))?;
        // Another call may have been faster while we waited for the lock.
        if let Ok(door) = session::connect(self.block, &self.name) {
            return Ok(door);
        }
        let mut told = String::new();
        mark.read_to_string(&mut told).map_err(|cause| self.no_mark(&cause))?;
        if told == process.identity {
            return Err(Trouble::new(
                Code::SessionEnded,
                format!(
                    "the session {} of this agent has ended, and is not replaced while the agent runs",
                    self.name
                ),
                "start the agent again",
            ));
        }
        // Before the start: one that dies at once has been there.
        let written = mark.rewind().and_then(|()| mark.set_len(0));
        written
            .and_then(|()| mark.write_all(process.identity.as_bytes()))
            .map_err(|cause| self.no_mark(&cause))?;
        let exit = self.begin(directory, process.pidfd);
        if exit != 0 {
            let _ = mark.set_len(0);
            return Err(Trouble::new(
                Code::SessionFailed,
                format!("the session of {} could not be started", self.agent.name()),
                "the lines above say why; `keyward session start` in the same directory tells it too",
            ));
        }
        Ok(session::connect(self.block, &self.name)?)
    }

    fn begin(&mut self, directory: Option<&Path>, agent: OwnedFd) -> i32 {
        let cwd = directory.map(Path::to_owned);
        let profile = self.profile(cwd.as_deref());
        let policy = PolicyFlags { profile, cwd, ..PolicyFlags::default() };
        let args = SessionStartArgs {
            name: Some(self.name.clone()),
            shell: false,
            json: false,
            owned_within: None,
            ends_with: Some(agent),
            quiet: false,
            policy,
        };
        session::start(args, self.block)
    }

    /// The profile for the tools of this agent, if the user has one: `claude-tools` for Claude Code.
    fn profile(&self, directory: Option<&Path>) -> Option<String> {
        let here = here::look(&self.block.entries(), directory).ok()?;
        let wanted = format!("{}-tools", self.agent.short());
        bare::profiles(&here).into_iter().find(|profile| *profile == wanted)
    }

    /// What the gate of this session asks about in a line, if it asks.
    pub fn asks_about(&self, line: &str, directory: Option<&Path>) -> Option<Denied> {
        let flags = PolicyFlags {
            profile: self.profile(directory),
            cwd: directory.map(Path::to_owned),
            ..PolicyFlags::default()
        };
        let judgement = crate::check::asks_about(&flags, line, self.block)?;
        let shown = visible(line.as_ref());
        Some(Denied {
            rule: judgement.rule,
            fact: format!("may this run? {} ({})", shown, judgement.reason),
            remedy: "it runs in the session".into(),
            allowed: "other commands in the project",
        })
    }

    /// Ends the session with the agent's.
    pub fn stop(&mut self) {
        session::stop_for_agent(self.block, &self.name);
        let _ = std::fs::remove_file(self.marks().join(&self.name));
    }

    fn marks(&self) -> PathBuf {
        here::state(&self.block.entries()).join("agents")
    }

    /// The file that tells for which process of the agent a session was started, locked.
    fn mark(&self) -> std::io::Result<std::fs::File> {
        let folder = self.marks();
        std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700)
            .create(&folder)?;
        forget_ended(&folder);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(folder.join(&self.name), flags, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        Ok(file.into())
    }

    fn no_mark(&self, cause: &std::io::Error) -> Trouble {
        let folder = self.marks();
        Trouble::new(
            Code::File,
            format!("cannot write to {}: {}", visible(folder.as_os_str()), say::cause(cause)),
            "make room there, or fix its permissions",
        )
    }
}

/// Removes what agents have left that were killed.
fn forget_ended(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let told = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let number = told.split(' ').next().and_then(|number| number.parse().ok());
        // One that is empty is just being written.
        if number.and_then(Pid::from_raw).is_some_and(|pid| Process::look(pid).is_none()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// A process of an agent.
struct Process {
    pidfd: OwnedFd,
    /// Its number and when it was started, which no other process has.
    identity: String,
}

/// Programs that an agent starts its hooks and commands through, and our own processes, by the names that the kernel knows them by.
const BETWEEN: &[&str] =
    &["sh", "bash", "dash", "zsh", "ash", "fish", "busybox", "env", "timeout", "keyward", "keyward-claude-"];

impl Process {
    /// The nearest process above us that is not a shell.
    fn of_agent() -> Option<Process> {
        let mut pid = rustix::process::getppid()?;
        for _ in 0..8 {
            let Seen { name, parent, start } = Process::look(pid)?;
            if !BETWEEN.contains(&name.as_str()) {
                let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
                // The number may have become another's meanwhile.
                let same = Process::look(pid).is_some_and(|again| again.start == start);
                let identity = format!("{} {start}", pid.as_raw_nonzero());
                return same.then_some(Process { pidfd, identity });
            }
            pid = parent?;
        }
        None
    }

    fn look(pid: Pid) -> Option<Seen> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        let (name, fields) = stat.split_once('(')?.1.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let parent = fields.get(1)?.parse().ok().and_then(Pid::from_raw);
        Some(Seen { name: name.into(), parent, start: (*fields.get(19)?).into() })
    }
}

struct Seen {
    name: String,
    parent: Option<Pid>,
    start: String,
}

/// Where a file of an agent's settings is: `~/` begins one of the user's own, which a variable of the agent's may have moved.
pub fn place(path: &str, agent: &str, here: &Here, entries: &[&[u8]]) -> PathBuf {
    let Some(path) = path.strip_prefix("~/") else { return here.project.join(path) };
    let request = decide::request(Vec::new(), here, entries);
    let part = tools::tool(agent).map(|tool| tool.on(Platform::HERE));
    let known: Vec<&Exposure> =
        part.into_iter().flat_map(|part| part.login.iter().chain(part.share)).collect();
    if let Some(own) = known.iter().find(|exposure| exposure.path == path) {
        return place_outside(own, &request);
    }
    // What lies in the same directory is moved along.
    let moved = known.iter().find_map(|exposure| {
        let of_xdg = exposure.xdg.map(|xdg| (xdg.variable(), xdg.folder()));
        let (variable, directory) = exposure.root.or(of_xdg)?;
        let below = match directory {
            "." => path,
            _ => path.strip_prefix(directory)?.strip_prefix('/')?,
        };
        let value = Path::new(OsStr::from_bytes(request.variable(variable)?));
        value.is_absolute().then(|| value.join(below))
    });
    moved.unwrap_or_else(|| here.caller.home.join(path))
}

/// Keyward's own program, and the one that Claude Code puts before each command, as settings name them.
fn own_programs(block: &Block) -> Result<(PathBuf, PathBuf), Trouble> {
    let keyward = std::env::current_exe().map_err(|cause| {
        Trouble::new(
            Code::Internal,
            format!("keyward cannot find itself: {}", say::cause(&cause)),
            "install it again",
        )
    })?;
    let shell =
        here::data(&block.entries()).join("agents").join(keyward_policy::hook::settings::CLAUDE_SHELL);
    Ok((keyward, shell))
}
