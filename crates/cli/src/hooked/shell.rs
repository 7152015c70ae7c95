//! The shell of an agent whose commands go into a session: `keyward claude-shell`, which Claude Code puts before each command, and
//! `keyward agent-shell`, which hooks of others put into the place of a command.

use super::Agents;
use super::hook::hook;
use crate::args::{AgentShellArgs, ClaudeShellArgs};
use crate::session::{NotRun, exec_for_agent, exec_with_input};
use crate::{here, say};
use keyward_policy::hook::settings::is_hook_line;
use keyward_policy::hook::wrapper::{self, Wrapped};
use keyward_policy::hook::{Agent, refused_command};
use keyward_policy::text::visible;
use keyward_policy::trouble::{Code, Trouble};
use keyward_sys::environ::Block;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Claude Code's own name for its session, for what it starts.
const SESSION: &str = "CLAUDE_CODE_SESSION_ID";
const PROJECT: &str = "CLAUDE_PROJECT_DIR";

/// What Claude Code starts: our own hook, or something for the session.
pub fn claude(args: ClaudeShellArgs, block: &mut Block) -> i32 {
    if args.line.to_str().is_some_and(|line| is_hook_line(Agent::ClaudeCode, line)) {
        return hook(Agent::ClaudeCode, block);
    }
    let session = std::env::var(SESSION).unwrap_or_default();
    let (agent, allowed, directory_file) = (Agent::ClaudeCode, false, None);
    shell(AgentShellArgs { agent, session, allowed, directory_file, line: args.line }, block)
}

pub fn shell(args: AgentShellArgs, block: &mut Block) -> i32 {
    match run(args, block) {
        Ok(exit) => exit,
        Err(NotRun { trouble, rule }) => {
            say::trouble_as_written(&refused_command(&trouble, rule));
            trouble.exit()
        }
    }
}

fn run(args: AgentShellArgs, block: &mut Block) -> Result<i32, NotRun> {
    let AgentShellArgs { agent, session, allowed, directory_file, line } = args;
    let cwd = std::env::current_dir().map_err(|cause| lost(&cause))?;
    let wrapped = match (agent, directory_file.as_deref().and_then(Path::to_str), line.to_str()) {
        (Agent::ClaudeCode, _, Some(line)) => wrapper::claude(line),
        (_, Some(file), Some(line)) => Some(Wrapped { command: line.into(), directory_file: file.into() }),
        _ => None,
    };
    let project = std::env::var_os(PROJECT).map(PathBuf::from);
    let mut door = Agents::new(agent, &session, block)?.open(Some(project.as_deref().unwrap_or(&cwd)))?;
    door.person.allowed = allowed;
    match wrapped {
        Some(Wrapped { command, directory_file }) => {
            let (told, tell) =
                rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|_| no_pipe())?;
            // What the command leaves behind may hold the other end, so it is not waited for.
            rustix::fs::fcntl_setfl(&told, OFlags::NONBLOCK).map_err(|_| no_pipe())?;
            let argv = ["bash".into(), "-c".into(), wrapper::inside(&command).into()];
            let exit = exec_with_input(&mut door, argv.into(), Some(cwd.clone()), tell)?;
            if exit == 0 {
                pass_directory(&told, &cwd, Path::new(&directory_file), block);
            }
            Ok(exit)
        }
        None => exec_for_agent(&mut door, ["bash".into(), "-c".into(), line].into(), cwd),
    }
}

impl From<Trouble> for NotRun {
    fn from(trouble: Trouble) -> Self {
        NotRun { trouble, rule: None }
    }
}

fn lost(cause: &std::io::Error) -> Trouble {
    Trouble::new(
        Code::Unfit,
        format!("cannot find the current directory: {}", say::cause(cause)),
        "it was deleted or is closed to you; go to another",
    )
}

fn no_pipe() -> Trouble {
    Trouble::new(Code::SessionFailed, "no descriptor is left for the command's streams", "close some files")
}

/// Tells the agent in which directory the command has ended. A command of the cage wrote it: only a directory of the project counts.
fn pass_directory(told: &OwnedFd, before: &Path, file: &Path, block: &Block) {
    let mut room = [0; 4096];
    let read = rustix::io::read(told, &mut room).unwrap_or(0);
    let Some(path) = room.get(..read).and_then(|text| text.strip_suffix(b"\n")) else { return };
    let now = PathBuf::from(OsStr::from_bytes(path));
    let is_shown = now == before
        || here::look(&block.entries(), Some(before))
            .is_ok_and(|here| now.is_absolute() && here.is_in_project(&now));
    if !is_shown {
        let (now, before) = (visible(now.as_os_str()), visible(before.as_os_str()));
        return say::note(&format!(
            "{now} is a directory of the cage only; the next command starts in {before}"
        ));
    }
    let flags = OFlags::WRONLY
        | OFlags::CREATE
        | OFlags::TRUNC
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(file, flags, Mode::RUSR | Mode::WUSR) {
        let _ = rustix::io::write(&file, &[path, b"\n"].concat());
    }
}
