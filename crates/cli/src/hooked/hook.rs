//! `keyward hook AGENT`: an agent asks before it uses a tool, in JSON on stdin, and is answered on stdout.
//!
//! Whatever goes wrong here denies the call. A child does the work, so that this holds for a crash and for a hang as well. What the agent does
//! when this process itself is killed, or answers too late, is the agent's own decision: see `docs/agents`.

use super::{Agents, own_programs};
use crate::{here, read, say};
use keyward_gate::{Cage, Language, Rules, Verdict, judge};
use keyward_policy::detect::guard::{self, Written};
use keyward_policy::hook::settings::SHELL_PREFIX;
use keyward_policy::hook::wrapper::quoted;
use keyward_policy::hook::{self, Agent, BLOCKS, Call, Decision, Denied, Event, Tool, readings};
use keyward_policy::plan::Refusal;
use keyward_policy::trouble::Trouble;
use keyward_sys::environ::Block;
use keyward_sys::fork::{self, End, Forked};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// How long an answer may take. The first call of a session starts it, which can mean the search of a large project.
const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// No message of an agent is longer: a file that is written stands in it.
const LARGEST: u64 = 64 << 20;

pub fn hook(agent: Agent, block: &mut Block) -> i32 {
    match fork::fork() {
        Ok(Forked::Child) => {
            let exit = answer(agent, block);
            block.wipe();
            std::process::exit(say::settle(exit))
        }
        Ok(Forked::Parent(child)) => {
            let mut polled = [PollFd::new(&child.pidfd, PollFlags::IN)];
            if !matches!(poll(&mut polled, Some(&PATIENCE)), Ok(1..)) {
                child.signal(rustix::process::Signal::KILL);
            }
            match child.wait() {
                Ok(End::Exited(exit @ (0 | BLOCKS))) => exit,
                _ => blocked(
                    "Keyward's hook did not answer",
                    "try again; `keyward doctor` shows what this host can do",
                ),
            }
        }
        Err(_) => blocked("Keyward's hook cannot start a process", "end some processes"),
    }
}

fn blocked(fact: &str, remedy: &str) -> i32 {
    say::trouble(&format!("{fact}, so the call is denied"), remedy);
    BLOCKS
}

fn answer(agent: Agent, block: &mut Block) -> i32 {
    let mut message = Vec::new();
    let told = std::io::stdin().take(LARGEST).read_to_end(&mut message);
    let call = match told.map_err(|_| "it cannot be read").and_then(|_| hook::read(agent, &message)) {
        Ok(call) => call,
        Err(why) => {
            let fact = format!("the message of {} is not understood: {why}", agent.name());
            return blocked(&fact, "this version of the agent may be newer than Keyward's");
        }
    };
    let decision = match decide(agent, call, block) {
        Ok(decision) => decision,
        Err(trouble) => return blocked(&trouble.fact, &trouble.remedy),
    };
    let rendered = hook::render(agent, &decision);
    if let Some(text) = rendered.stdout {
        say::answer(&text);
    }
    if let Some(text) = rendered.stderr {
        say::trouble_as_written(&text);
    }
    rendered.exit
}

fn decide(agent: Agent, call: Call, block: &mut Block) -> Result<Decision, Trouble> {
    let Call { session, cwd, event } = call;
    let directory = cwd.as_deref();
    match event {
        Event::Other => Ok(Decision::Pass),
        Event::Started => {
            Agents::new(agent, &session, block)?.open(directory)?;
            Ok(Decision::Tell(hook::ABOUT_SESSION))
        }
        Event::Ended => {
            Agents::new(agent, &session, block)?.stop();
            Ok(Decision::Pass)
        }
        Event::Tool(tool) => match tool {
            Tool::Shell { command, input } => shell(agent, &session, directory, command, input, block),
            Tool::Code => Ok(Decision::Deny(Denied {
                rule: Some("execute-code".into()),
                fact: "this code would run outside the session".into(),
                remedy: "nothing has to be done: the agent runs it with a command".into(),
                allowed: "the same code as a file of the project, run by a command such as `python3 FILE`",
            })),
            Tool::Read(path) => strictest(directory, &[path], block, |path| shown(path, block)),
            Tool::Write(path) => strictest(directory, &[path], block, |path| written(path, directory, block)),
            Tool::Edit(path) => strictest(directory, &[path], block, |path| edited(path, directory, block)),
            Tool::Patch(paths) => strictest(directory, &paths, block, |path| edited(path, directory, block)),
            Tool::Search(Some(path)) => {
                strictest(directory, &[path], block, |path| searched(Some(path), block))
            }
            Tool::Search(None) => Ok(searched(None, block)),
        },
    }
}

fn strictness(decision: &Decision) -> u8 {
    match decision {
        Decision::Pass | Decision::Tell(_) | Decision::Replace(_) => 0,
        Decision::AskUser(_) | Decision::ReplaceIfAllowed(..) => 1,
        Decision::Deny(_) => 2,
    }
}

/// Decides about each file that the agent may mean, and takes the strictest.
fn strictest(
    directory: Option<&Path>,
    paths: &[PathBuf],
    block: &Block,
    judge: impl Fn(&Path) -> Decision,
) -> Result<Decision, Trouble> {
    let homes = read::homes(block).map_err(|refusal| Trouble::from(&refusal))?;
    let meant = paths.iter().flat_map(|path| readings(directory, path, &homes));
    Ok(meant.map(|path| judge(&path)).max_by_key(strictness).unwrap_or(Decision::Pass))
}

/// A command: its session has to be there, and the agent has to start it through Keyward.
fn shell(
    agent: Agent,
    session: &str,
    directory: Option<&Path>,
    command: String,
    mut input: serde_json::Map<String, Value>,
    block: &mut Block,
) -> Result<Decision, Trouble> {
    let (keyward, own_shell) = own_programs(block)?;
    let replaced = agent == Agent::ClaudeCode && !is_prefixed(&own_shell);
    if replaced {
        return Ok(Decision::Deny(Denied {
            rule: Some("shell-prefix".into()),
            fact: format!("commands would run outside the session: {SHELL_PREFIX} is not Keyward's"),
            remedy: "run `keyward init claude-code --yes`, and take the variable out of the settings of this project".into(),
            allowed: "tools that start no command",
        }));
    }
    let mut agents = Agents::new(agent, session, block)?;
    if let Err(trouble) = agents.open(directory) {
        return Ok(Decision::Deny(Denied {
            rule: Some("session".into()),
            fact: trouble.fact,
            remedy: trouble.remedy,
            allowed: "reading and writing files of the project",
        }));
    }
    if agent == Agent::ClaudeCode {
        // Its shell runs the command in the session.
        return Ok(Decision::Pass);
    }
    let keyward = quoted(&keyward.to_string_lossy());
    if agent == Agent::Hermes {
        return Ok(for_hermes(&keyward, session, &agents, directory, &command, input));
    }
    let line = format!("{keyward} agent-shell {} {session} -- {}", agent.word(), quoted(&command));
    input.insert("command".into(), line.into());
    Ok(Decision::Replace(input))
}

/// Hermes asks its user about what the gate asks about, on the channel that the user speaks to it. Its next command starts in the directory
/// that this one ends in.
fn for_hermes(
    keyward: &str,
    session: &str,
    agents: &Agents<'_>,
    directory: Option<&Path>,
    command: &str,
    mut input: serde_json::Map<String, Value>,
) -> Decision {
    let asks = agents.asks_about(command, directory);
    let is = |name: &str| input.get(name).and_then(Value::as_bool) == Some(true);
    let is_alone = is("background") || is("pty");
    let allowed = if asks.is_some() { " --allowed" } else { "" };
    let start = format!("{keyward} agent-shell hermes {session}{allowed}");
    let line = match is_alone {
        true => format!("{start} -- {}", quoted(command)),
        false => format!(
            "__keyward=$(mktemp) || exit 126; {start} --directory-file \"$__keyward\" -- {}; set -- $? \"$(cat -- \"$__keyward\")\"; \
             rm -f -- \"$__keyward\"; unset __keyward; [ -z \"$2\" ] || builtin cd -- \"$2\"; (exit \"$1\")",
            quoted(command)
        ),
    };
    input.insert("command".into(), line.into());
    match asks {
        Some(denied) => Decision::ReplaceIfAllowed(input, denied),
        None => Decision::Replace(input),
    }
}

/// Whether the agent puts Keyward's program before each command.
fn is_prefixed(own: &Path) -> bool {
    std::env::var_os(SHELL_PREFIX).is_some_and(|prefix| Path::new(&prefix) == own)
}

const OTHER_FILES: &str = "files of the project that hold no credential";

fn denied(refusal: Refusal) -> Denied {
    Denied { rule: Some(refusal.rule), fact: refusal.fact, remedy: refusal.remedy, allowed: OTHER_FILES }
}

fn shown(path: &Path, block: &Block) -> Decision {
    match read::may_show(path, block) {
        Ok(()) => Decision::Pass,
        Err(refusal) => Decision::Deny(denied(refusal)),
    }
}

fn edited(path: &Path, directory: Option<&Path>, block: &Block) -> Decision {
    match shown(path, block) {
        Decision::Pass => written(path, directory, block),
        decision => decision,
    }
}

fn written(path: &Path, directory: Option<&Path>, block: &Block) -> Decision {
    let homes = match read::homes(block) {
        Ok(homes) => homes,
        Err(refusal) => return Decision::Deny(denied(refusal)),
    };
    let homes: Vec<&Path> = homes.iter().map(PathBuf::as_path).collect();
    let entries = block.entries();
    let own = [here::config(&entries), here::state(&entries), here::data(&entries), here::cache(&entries)];
    let real = real(path);
    match guard::judge_write(path, &real, &own, &homes) {
        Written::Fine => {}
        Written::Ask(refusal) => return Decision::AskUser(denied(refusal)),
        Written::No(refusal) => return Decision::Deny(denied(refusal)),
    }
    let is_work = here::look(&entries, directory)
        .is_ok_and(|here| real.ancestors().skip(1).any(|above| here.is_in_project(above)));
    if is_work {
        return Decision::Pass;
    }
    // The gate knows the places outside the project that start programs.
    let rules = Rules::builtin().within(Cage::OPEN);
    let below = homes.iter().find_map(|home| real.strip_prefix(home).ok());
    let line = match below {
        Some(below) => format!(": > ~/{}", quoted(&below.to_string_lossy())),
        None => format!(": > {}", quoted(&real.to_string_lossy())),
    };
    let judgement = judge(&rules, Language::Shell, line.as_bytes());
    let denied = |remedy: &str| Denied {
        rule: judgement.rule.clone(),
        fact: format!(
            "{} is not written: {}",
            keyward_policy::text::visible(path.as_os_str()),
            judgement.reason
        ),
        remedy: remedy.into(),
        allowed: OTHER_FILES,
    };
    match judgement.verdict {
        Verdict::Allow => Decision::Pass,
        Verdict::Ask => Decision::AskUser(denied("allow it if you want that change, or make it yourself")),
        Verdict::Deny | Verdict::Forbid => Decision::Deny(denied("change it yourself, outside of the agent")),
    }
}

/// Links on the way to a file; more lead nowhere.
const MOST_LINKS: usize = 40;

/// Where a file lies or would lie, if the agent makes the directories that are missing. A link counts also if it leads to nothing yet.
fn real(path: &Path) -> PathBuf {
    let mut found = PathBuf::from("/");
    let mut rest: Vec<OsString> = names_backwards(path);
    let mut links = 0;
    while let Some(name) = rest.pop() {
        if name == ".." {
            found.pop();
            continue;
        }
        let next = found.join(&name);
        match std::fs::read_link(&next) {
            Ok(target) if links < MOST_LINKS => {
                links += 1;
                if target.is_absolute() {
                    found = PathBuf::from("/");
                }
                rest.extend(names_backwards(&target));
            }
            _ => found = next,
        }
    }
    found
}

/// The names of a path, the last one first.
fn names_backwards(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    names.collect()
}

/// A search shows lines of files that no guard has looked at. In the session the same search finds everything but secrets.
fn searched(path: Option<&Path>, block: &Block) -> Decision {
    match path {
        Some(path) if path.is_file() => shown(path, block),
        _ => Decision::Deny(Denied {
            rule: Some("search".into()),
            fact: "this search would show lines of files that hold credentials".into(),
            remedy: "nothing has to be done: the agent searches with a command".into(),
            allowed: "the same search as a command in the shell tool, such as `grep -rn PATTERN .`: it runs where secret files are hidden",
        }),
    }
}
