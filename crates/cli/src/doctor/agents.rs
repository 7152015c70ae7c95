//! `keyward doctor --agents`: which agents are installed, how each is protected, and what is still exposed, tried for real.
//!
//! What looks like a credential in the caller's environment, in the places where tools keep logins, and in the project is looked for
//! outside, as the control, and in the cage of each agent's profile, by this same program. No value leaves either side: they are compared
//! by salted digests.

use crate::args::{DoctorArgs, PolicyFlags};
use crate::explain::{NoPlan, plan_for};
use crate::here::{self, Here};
use crate::{decide, files, hooked, say};
use keyward_policy::agent::Agent;
use keyward_policy::event;
use keyward_policy::hook;
use keyward_policy::plan::Plan;
use keyward_policy::protection::{Exposure, Found, Hooks, Report, Wanted, servers};
use keyward_policy::request::Purpose;
use keyward_policy::text::visible;
use keyward_policy::tools::{self, Platform};
use keyward_policy::trouble::{Code, Trouble};
use keyward_policy::view::{Entry, SECRET_FILE, place_outside};
use keyward_sys::environ::Block;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Something is readable in a cage, or a cage could not be tried.
const TROUBLE: i32 = 1;
/// So much of a file is compared.
const MOST: u64 = 1 << 20;
/// So many files of a directory that holds credentials are looked for.
const MOST_FILES: usize = 20;

#[derive(Serialize)]
struct Reports<'a> {
    v: u32,
    agents: &'a [Report],
    /// Agents that Keyward knows and that are not installed.
    not_installed: &'a [String],
}

pub fn agents(args: &DoctorArgs, block: &Block) -> i32 {
    match look_at_all(block) {
        Ok((reports, not_installed)) => {
            if args.json {
                say::answer_json(&Reports { v: 1, agents: &reports, not_installed: &not_installed });
            } else {
                say::answer(&words(&reports, &not_installed));
            }
            if reports.iter().any(Report::is_trouble) { TROUBLE } else { 0 }
        }
        Err(no_plan) => no_plan.tell(args.json),
    }
}

/// In a cage: reads what is looked for from standard input, and prints the digests of what is found.
pub fn look_inside(block: &Block) -> i32 {
    let mut text = Vec::new();
    let read = std::io::stdin().take(MOST).read_to_end(&mut text).ok();
    match read.and_then(|_| serde_json::from_slice::<Wanted>(&text).ok()) {
        Some(wanted) => {
            say::answer_json(&look(&wanted, &block.entries()));
            0
        }
        None => say::failure(&Trouble::new(
            Code::Usage,
            "this is for `keyward doctor --agents` itself",
            "type `keyward doctor --agents`",
        )),
    }
}

fn look_at_all(block: &Block) -> Result<(Vec<Report>, Vec<String>), NoPlan> {
    let plan = plan_for(&PolicyFlags::default(), Vec::new(), Purpose::Command, block)?;
    let entries = block.entries();
    let here = here::look(&entries, None).map_err(NoPlan::Refused)?;
    let wanted = wanted(&plan, &here, &entries);
    let outside = look(&wanted, &entries);
    let (mut reports, mut not_installed) = (Vec::new(), Vec::new());
    for name in files::agents(&here) {
        let agent = match files::agent(&name, &here).map_err(NoPlan::Policy)? {
            Some(agent) => agent,
            None => continue,
        };
        match agent.programs.iter().find_map(|program| installed(program, &here)) {
            Some(program) => reports.push(report(&agent, &program, &wanted, &outside, &here, block)),
            None => not_installed.push(name),
        }
    }
    Ok((reports, not_installed))
}

/// What is worth looking for: by name only.
fn wanted(plan: &Plan, here: &Here, entries: &[&[u8]]) -> Wanted {
    let mut salt = [0; 16];
    let _ = keyward_sys::random::fill(&mut salt);
    let request = decide::request(vec!["true".into()], here, entries);
    let mut places: Vec<PathBuf> = Vec::new();
    for tool in tools::all() {
        let secret = tool.on(Platform::HERE).login.iter().filter(|exposure| exposure.secret);
        places.extend(secret.map(|exposure| place_outside(exposure, &request)));
    }
    // Those of the system are hidden too, and are of no user.
    let is_hidden = |entry: &&Entry| entry.rule == SECRET_FILE && entry.target.starts_with(&here.project);
    let hidden = plan.view.entries.iter().filter(is_hidden);
    places.extend(hidden.map(|entry| entry.target.clone()));
    let mut files: Vec<String> = places
        .iter()
        .flat_map(|place| files_at(place))
        .filter_map(|file| file.to_str().map(str::to_owned))
        .collect();
    files.sort();
    files.dedup();
    Wanted { salt: hex(&salt), variables: event::kept_back(&plan.environment), files }
}

/// The file, or the files of the directory.
fn files_at(place: &Path) -> Vec<PathBuf> {
    if !place.is_dir() {
        return vec![place.into()];
    }
    let below = std::fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path());
    below.filter(|path| path.is_file()).take(MOST_FILES).collect()
}

/// The digests of what this process can read.
fn look(wanted: &Wanted, entries: &[&[u8]]) -> Found {
    let digest = |value: &[u8]| {
        let mut hash = Sha256::new();
        hash.update(wanted.salt.as_bytes());
        hash.update(value);
        hex(&hash.finalize())
    };
    let mut found = Found::default();
    for name in &wanted.variables {
        let value = entries.iter().find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        if let Some(value) = value {
            found.variables.insert(name.clone(), digest(value));
        }
    }
    for path in &wanted.files {
        let mut text = Vec::new();
        let opened =
            std::fs::File::open(path).ok().filter(|file| file.metadata().is_ok_and(|found| found.is_file()));
        if opened.is_some_and(|file| file.take(MOST).read_to_end(&mut text).is_ok()) {
            found.files.insert(path.clone(), digest(&text));
        }
    }
    found
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The program, where a directory of PATH has it that is not the project's.
fn installed(program: &str, here: &Here) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let folders = std::env::split_paths(&here.search);
    let folders = folders.filter(|folder| folder.is_absolute() && !here.is_in_project(folder));
    folders.map(|folder| folder.join(program)).find(is_program)
}

fn report(
    agent: &Agent,
    program: &Path,
    wanted: &Wanted,
    outside: &Found,
    here: &Here,
    block: &Block,
) -> Report {
    let short = |found: &Found| Found {
        files: found.files.iter().map(|(path, digest)| (shown(path, here), digest.clone())).collect(),
        ..found.clone()
    };
    let outside = short(outside);
    let (cage, not_tried) = match try_inside(&agent.name, wanted, &block.entries()) {
        Ok(inside) => (Some(Exposure::of(&outside, &short(&inside))), None),
        Err(why) => (None, Some(why)),
    };
    let hooked = hook::Agent::ALL.iter().copied().find(|hooked| hooked.short() == agent.name);
    let mut unread = Vec::new();
    let mut found = Vec::new();
    for spot in &agent.mcp {
        let path = hooked::place(&spot.path, &agent.name, here, &block.entries());
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        match servers(spot, &text) {
            Some(servers) => found.extend(servers),
            None => unread.push(spot.path.clone()),
        }
    }
    Report {
        agent: agent.name.clone(),
        about: agent.about.clone(),
        program: visible(program.as_os_str()),
        builtin: agent.is_builtin,
        cage,
        not_tried,
        bare: outside.names(),
        hooks: hooked.map_or(Hooks::Unknown, |hooked| hooked::init::state(hooked, block)),
        init: hooked.map(hook::Agent::word),
        servers: found,
        unread,
    }
}

/// A path for people: below `~`, or as seen from the project.
fn shown(path: &str, here: &Here) -> String {
    let path = Path::new(path);
    let visible = |path: &Path| visible(path.as_os_str());
    match (path.strip_prefix(&here.project), path.strip_prefix(&here.caller.home)) {
        (Ok(below), _) => visible(below),
        (_, Ok(below)) => format!("~/{}", visible(below)),
        _ => visible(path),
    }
}

/// Looks in the cage of a profile. This program is shown there, wherever it lies.
fn try_inside(profile: &str, wanted: &Wanted, entries: &[&[u8]]) -> Result<Found, String> {
    let own = std::env::current_exe().map_err(|error| say::cause(&error))?;
    // keyward: allow-spawn our own launcher, which needs the caller's variables to keep them back
    let mut command = Command::new(&own);
    command.args(["run", "--quiet", "--timeout", "30s", "-p", profile, "--read"]).arg(&own);
    command.arg("--").arg(&own).args(["doctor", "--agents", "--inside"]);
    command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for entry in entries {
        if let Some(place) = entry.iter().position(|&byte| byte == b'=') {
            command.env(OsStr::from_bytes(&entry[..place]), OsStr::from_bytes(&entry[place + 1..]));
        }
    }
    let mut child = command.spawn().map_err(|error| say::cause(&error))?;
    if let (Some(mut stdin), Ok(text)) = (child.stdin.take(), serde_json::to_vec(wanted)) {
        let _ = stdin.write_all(&text);
    }
    let ended = child.wait_with_output().map_err(|error| say::cause(&error))?;
    serde_json::from_slice(&ended.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&ended.stderr);
        let fact = said.lines().find_map(|line| line.strip_prefix("keyward: ")).unwrap_or("it said nothing");
        fact.to_owned()
    })
}

fn words(reports: &[Report], not_installed: &[String]) -> String {
    let mut lines: Vec<String> = reports.iter().flat_map(Report::lines).collect();
    if reports.is_empty() {
        lines.push("no agent that Keyward knows is on PATH".into());
    }
    if !not_installed.is_empty() {
        lines.push(format!("not installed: {}", not_installed.join(", ")));
    }
    lines.join("\n")
}
