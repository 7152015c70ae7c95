//! An agent whose tools run in a narrower cage: which programs are shims, where they stand in the agent's cage, and what the narrower
//! cage may do.
//!
//! A shim is Keyward's own program under the name of a shell or an interpreter. It asks the session of the agent to run the real one, with
//! its words, streams, directory and what the agent changed in its environment.

use crate::facts::{Kind, Paths};
use crate::net::allowed::Allowed;
use crate::plan::Refusal;
use crate::request::{Purpose, Request};
use crate::settings::{FileRole, FilesPolicy, HomePolicy, NetPolicy, Policy, PolicyFile, ToolsPolicy};
use crate::view::{Entry, Shown, Source, Warning};
use crate::words::{HomeMode, KeyringUse, NetMode, Origin, Protect, Ruled, ToolCage, ToolNet, TrustClass};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The directory of the shims in the cage of an agent. It lies in the root of the cage, which is read-only.
pub const DIRECTORY: &str = "/keyward-shims/bin";
/// The directory above, which looks like a virtual environment of Python: an agent that runs code with the interpreter of its own finds a shim.
const ENVIRONMENT_OF_PYTHON: &str = "/keyward-shims";
/// The variables that the agent was started with, for the shims: what differs, the agent has changed.
pub const ENVIRONMENT: &str = "/keyward-shims/.environment";
/// Stands there before a variable whose value a tool may have.
pub const PLAIN: u8 = b'+';
/// Stands there before a variable whose value no tool gets, under any name: a phantom, a credential that the agent was given, or a secret. Of
/// a secret only the name follows.
pub const WITHHELD: u8 = b'-';
/// The program that is a shim and nothing else, beside the launcher. Where it is missing, the launcher itself is the shim.
pub const SHIM: &str = "keyward-shim";
/// The rule by which a shim stands in a cage.
pub const RULE: &str = "shim";
/// The programs that run in the narrower cage. An agent runs generated code with these, and starts itself without them.
pub const NAMES: [&str; 6] = ["bash", "sh", "zsh", "python", "python3", "node"];

/// What a process of an agent has changed in the environment that the agent was started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// As `NAME=value`.
    pub set: Vec<OsString>,
    /// Names that are gone.
    pub unset: Vec<OsString>,
}

/// Compares the variables of a process with the text at [`ENVIRONMENT`]. Shims are taken out of the search path, and a value that holds a
/// withheld one is left out. A variable of the vault stands in the text by its name alone: its value is that of the agent, or of this process.
pub fn changes(started_with: &[u8], agents: &[&[u8]], now: &[&[u8]]) -> Changes {
    let entries = started_with.split(|&byte| byte == 0).filter(|entry| !entry.is_empty());
    let then: Vec<(u8, &[u8])> = entries.map(|entry| (entry[0], &entry[1..])).collect();
    let mut withheld: Vec<&[u8]> = Vec::new();
    let mut of_vault: Vec<&[u8]> = Vec::new();
    for (_, entry) in then.iter().filter(|(sign, _)| *sign == WITHHELD) {
        if entry.contains(&b'=') {
            withheld.push(halves(entry).1);
        } else {
            let values = agents.iter().chain(now).map(|entry| halves(entry));
            withheld.extend(values.filter(|(name, _)| name == entry).map(|(_, value)| value));
            of_vault.push(entry);
        }
    }
    withheld.retain(|value| value.len() >= SHORTEST_WITHHELD);
    let holds_withheld = |entry: &[u8]| withheld.iter().any(|value| contains(entry, value));
    let mut changes = Changes::default();
    for entry in now {
        let is_new = !then.iter().any(|(_, other)| other == entry) && !of_vault.contains(&halves(entry).0);
        if !is_new || holds_withheld(entry) {
            continue;
        }
        let entry = match halves(entry) {
            (b"PATH", path) => {
                let mut changed = OsString::from("PATH=");
                changed.push(without(OsStr::from_bytes(path)));
                changed
            }
            _ => OsStr::from_bytes(entry).to_owned(),
        };
        changes.set.push(entry);
    }
    for (_, entry) in then {
        let name = halves(entry).0;
        if !now.iter().any(|entry| halves(entry).0 == name) {
            changes.unset.push(OsStr::from_bytes(name).to_owned());
        }
    }
    changes
}

/// A shorter value could be a part of anything.
const SHORTEST_WITHHELD: usize = 8;

fn halves(entry: &[u8]) -> (&[u8], &[u8]) {
    match entry.iter().position(|&byte| byte == b'=') {
        Some(place) => (&entry[..place], &entry[place + 1..]),
        None => (entry, b""),
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Whether this policy has an agent's tools run in a cage of their own.
pub fn are_on(policy: &Policy) -> bool {
    policy.tools.cage.value == ToolCage::Shims && !is_given_up(policy)
}

/// Whether the user's wish for a stricter wall stands above what a built-in profile does by itself. One who asks for both is refused.
fn is_given_up(policy: &Policy) -> bool {
    let by_itself = matches!(policy.tools.cage.origin, Origin::Profile { .. });
    policy.tools.cage.value == ToolCage::Shims && by_itself && policy.protect.value == Protect::Strict
}

/// What the user is told where the tools of an agent run in the agent's own cage, against its profile.
pub(crate) fn given_up(policy: &Policy, request: &Request<'_>) -> Option<Warning> {
    (is_given_up(policy) && request.purpose == Purpose::Command).then(|| Warning {
        fact: "the agent's tools run in its own cage and can use its phantoms: a cage of their own cannot prevent new footholds"
            .into(),
        remedy: "to have that cage instead, use `--protect notice`".into(),
        lasting: true,
    })
}

/// Whether a request gets shims. The cage of a session has its own commands, and no agent.
pub(crate) fn are_on_for(policy: &Policy, request: &Request<'_>) -> bool {
    are_on(policy) && request.purpose == Purpose::Command
}

/// The program that a shim at this path stands for.
pub fn stands_for(path: &Path) -> Option<&'static str> {
    let name = path.strip_prefix(DIRECTORY).ok()?;
    NAMES.into_iter().find(|known| Path::new(known) == name)
}

/// A search path without the shims.
pub fn without(path: &OsStr) -> OsString {
    let others = path.as_bytes().split(|&byte| byte == b':').filter(|entry| *entry != DIRECTORY.as_bytes());
    let joined: Vec<&[u8]> = others.collect();
    OsStr::from_bytes(&joined.join(&b':')).to_owned()
}

/// Where each program may lie, in the order in which the caller's shell looks.
fn places<'a>(request: &'a Request<'_>, name: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
    request.programs_in_order().filter(|directory| directory.is_absolute()).map(move |it| it.join(name))
}

/// What has to be looked at: which of the programs are installed.
pub(crate) fn questions(policy: &Policy, request: &Request<'_>) -> Vec<PathBuf> {
    let of = |name: &'static str| places(request, name).collect::<Vec<_>>();
    if are_on_for(policy, request) { NAMES.into_iter().flat_map(of).collect() } else { Vec::new() }
}

/// The programs that are installed here.
fn installed(request: &Request<'_>, paths: &Paths) -> Vec<&'static str> {
    let exists = |path: PathBuf| paths.existing(&path).is_some_and(|fact| fact.kind == Kind::File);
    NAMES.into_iter().filter(|name| places(request, name).any(exists)).collect()
}

/// The shims of an agent's cage, and the file that says what the agent was started with.
pub(crate) fn entries(policy: &Policy, request: &Request<'_>, paths: &Paths) -> Vec<Entry> {
    if !are_on_for(policy, request) {
        return Vec::new();
    }
    let origin = &policy.tools.cage.origin;
    let programs = &request.caller.programs;
    let own = programs.iter().find(|path| path.file_name() == Some(OsStr::new(SHIM)));
    let own = own.and_then(|path| paths.existing(path)).filter(|fact| fact.kind == Kind::File);
    let launcher = own.or_else(|| programs.first().and_then(|path| paths.existing(path)));
    let Some(launcher) = launcher else { return Vec::new() };
    let entry = |target: PathBuf, shown: Shown| Entry { target, shown, rule: RULE, origin: origin.clone() };
    let shim = || {
        Shown::ReadOnly(Source {
            path: launcher.real.clone(),
            expect: Some((launcher.device, launcher.inode)),
            callers_own: true,
            directory: false,
            make: false,
        })
    };
    let mut all: Vec<Entry> = installed(request, paths)
        .into_iter()
        .map(|name| entry(Path::new(DIRECTORY).join(name), shim()))
        .collect();
    all.push(entry(ENVIRONMENT.into(), Shown::Text { text: Vec::new() }));
    all
}

/// The variables that lead an agent to its shims besides its search path: its shell, and its virtual environment where it has one.
pub(crate) fn variables(entries: &[Entry], request: &Request<'_>) -> Vec<(&'static str, OsString)> {
    let shims: Vec<&Path> =
        entries.iter().filter(|entry| entry.rule == RULE).map(|entry| entry.target.as_path()).collect();
    let own = request.variable("SHELL").map(|shell| Path::new(OsStr::from_bytes(shell)));
    let own = own.and_then(Path::file_name).map(|name| Path::new(DIRECTORY).join(name));
    let bash = Path::new(DIRECTORY).join("bash");
    let sh = Path::new(DIRECTORY).join("sh");
    let shell = own.into_iter().chain([bash, sh]).find(|shell| shims.contains(&shell.as_path()));
    let python = request.variable("VIRTUAL_ENV").map(|_| ("VIRTUAL_ENV", ENVIRONMENT_OF_PYTHON.into()));
    shell.into_iter().map(|shell| ("SHELL", shell.into_os_string())).chain(python).collect()
}

/// Refuses a policy whose tools cannot have a cage of their own.
pub(crate) fn can_be(policy: &Policy, request: &Request<'_>, has_namespaces: bool) -> Result<(), Refusal> {
    let rule = || format!("tools.cage = \"shims\" ({})", policy.tools.cage.origin);
    let refuse = |fact: &str, remedy: &str| Err(Refusal::policy(&rule(), fact.into(), remedy));
    if !are_on_for(policy, request) {
        return Ok(());
    }
    if !has_namespaces {
        return refuse(
            "a cage for the agent's tools needs namespaces, which this host refuses",
            "`keyward doctor` shows the fix for this host; `tools.cage = \"same\"` runs the tools in the agent's own cage",
        );
    }
    if policy.protect.value == Protect::Strict {
        return refuse(
            "a cage for the agent's tools cannot prevent new footholds",
            "to go without that wall, use `--protect notice`; `tools.cage = \"same\"` runs the tools in the agent's own cage",
        );
    }
    Ok(())
}

/// The policy of the cage in which the tools of an agent run: never more than the agent's own.
///
/// It holds no credential, phantom or login, and has a HOME of its own. Of the paths that are granted it has those that a flag,
/// `tools.read` or `tools.share` names, because what a profile grants is the agent's own state.
pub fn of_tools(policy: &Policy) -> Policy {
    let network = network(policy);
    let by_flag = |paths: &[Ruled<PathBuf>]| paths.iter().filter(|path| is_flag(path)).cloned().collect();
    let mut write: Vec<Ruled<PathBuf>> = by_flag(&policy.files.write);
    write.extend(policy.tools.share.iter().cloned());
    let mut read: Vec<Ruled<PathBuf>> = by_flag(&policy.files.read);
    read.extend(policy.tools.read.iter().cloned());
    let trust = match policy.trust.value.max(TrustClass::Tool) {
        trust if trust == policy.trust.value => policy.trust.clone(),
        trust => Ruled { value: trust, origin: policy.tools.cage.origin.clone() },
    };
    // The user's own is shown to a program that is trusted with all of it, and to no tool of it.
    let mode = match policy.home.mode.value {
        HomeMode::Real => Ruled { value: HomeMode::Profile, origin: policy.tools.cage.origin.clone() },
        _ => policy.home.mode.clone(),
    };
    let mut tools = without_ways_to_shims(Policy {
        trust,
        home: HomePolicy {
            mode,
            path: None,
            tools: Vec::new(),
            share: Vec::new(),
            keyring: Ruled { value: KeyringUse::Never, origin: policy.tools.cage.origin.clone() },
        },
        inherit_credentials: Vec::new(),
        secrets: Vec::new(),
        logins: Vec::new(),
        files: FilesPolicy { read, write, ..policy.files.clone() },
        net: network.0,
        network: network.1,
        tools: ToolsPolicy::default(),
        ..policy.clone()
    });
    // The agent's own output is counted, and a tool prints through it.
    tools.limits.output = None;
    tools
}

/// The policy of the agent itself, where its tools have a cage of their own: the servers that the tools start are published from there.
pub fn of_agent(policy: Policy) -> Policy {
    match are_on(&policy) {
        true => Policy { network: NetPolicy { publish: Vec::new(), ..policy.network }, ..policy },
        false => without_ways_to_shims(policy),
    }
}

/// What leads an agent to its shims leads nowhere where there are none.
fn without_ways_to_shims(mut policy: Policy) -> Policy {
    policy.env.set.retain(|set| !set.value.1.starts_with(ENVIRONMENT_OF_PYTHON));
    policy
}

fn is_flag<T>(ruled: &Ruled<T>) -> bool {
    matches!(ruled.origin, Origin::Flag { .. })
}

/// Whether the user has asked for it on the command line by this flag. A secret that is given allows its hosts as well, for the agent alone.
fn is_by<T>(ruled: &Ruled<T>, name: &str) -> bool {
    matches!(ruled.origin, Origin::Flag { flag } if flag == name)
}

/// Whether this is the user's policy file: what it allows, it allows for every command. A profile of an agent speaks of the agent.
fn is_users_file(policy: &Policy, file: &str) -> bool {
    let users = |known: &&PolicyFile| known.role == FileRole::User;
    policy.sources.files.iter().filter(users).any(|known| known.path == Path::new(file))
}

fn network(policy: &Policy) -> (Ruled<NetMode>, NetPolicy) {
    let all = &policy.network;
    let none = Ruled { value: NetMode::None, origin: policy.tools.net.origin.clone() };
    let mode = match policy.tools.net.value {
        ToolNet::Same => return (policy.net.clone(), NetPolicy { bound: false, ..all.clone() }),
        ToolNet::None if is_by(&policy.net, "--net") => policy.net.clone(),
        ToolNet::None => none,
    };
    let of_user =
        |origin: &Origin| matches!(origin, Origin::File { file, .. } if is_users_file(policy, file));
    let is_for_tools = |allow: &&Ruled<Allowed>| is_by(allow, "--allow-net") || of_user(&allow.origin);
    let allow: Vec<_> = all.allow.iter().filter(is_for_tools).cloned().collect();
    let reach: Vec<_> = all.reach.iter().filter(|port| is_flag(port)).cloned().collect();
    let names_hosts = allow.first().map(|it| &it.origin).or(reach.first().map(|it| &it.origin)).cloned();
    let mode = match (mode.value, names_hosts) {
        (NetMode::None, Some(origin)) => Ruled { value: NetMode::Rules, origin },
        (NetMode::Rules, None) => Ruled { value: NetMode::None, origin: mode.origin },
        _ => mode,
    };
    (mode, NetPolicy { allow, reach, bound: false, ..all.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(started_with: &[&str]) -> Vec<u8> {
        started_with.iter().flat_map(|entry| [entry.as_bytes(), b"\0"].concat()).collect()
    }

    fn changed(started_with: &[&str], now: &[&str]) -> (Vec<OsString>, Vec<OsString>) {
        let now: Vec<&[u8]> = now.iter().map(|entry| entry.as_bytes()).collect();
        let Changes { set, unset } = changes(&text(started_with), &[], &now);
        (set, unset)
    }

    #[test]
    fn a_tool_has_what_its_agent_has_changed_and_nothing_else() {
        let then = ["+HOME=/home/me", "+LANG=C", "+PATH=/keyward-shims/bin:/bin"];
        assert_eq!(
            changed(&then, &["HOME=/home/me", "LANG=C", "PATH=/keyward-shims/bin:/bin"]),
            Default::default()
        );
        let now = ["HOME=/elsewhere", "NEW=1", "PATH=/venv/bin:/keyward-shims/bin:/bin"];
        let set = ["HOME=/elsewhere", "NEW=1", "PATH=/venv/bin:/bin"].map(OsString::from).to_vec();
        assert_eq!(changed(&then, &now), (set, vec!["LANG".into()]));
    }

    #[test]
    fn what_is_withheld_passes_under_no_name_and_a_short_value_is_not_looked_for() {
        let then = ["-KEY=phantom-0123", "-SHORT=1", "+LANG=C"];
        let now = ["KEY=phantom-0123", "SHORT=1", "LANG=C", "COPY=x phantom-0123 y", "KEY2=phantom", "N=1"];
        assert_eq!(changed(&then, &now).0, ["KEY2=phantom", "N=1"]);
    }

    #[test]
    fn a_variable_of_the_vault_passes_under_no_name() {
        let then = text(&["-KEY", "+LANG=C"]);
        let now: Vec<&[u8]> = vec![b"KEY=secret-0123", b"LANG=C", b"COPY=x secret-0123", b"N=1"];
        assert_eq!(changes(&then, &[], &now).set, ["N=1"]);
        // A process that has another value there, or none, does not have it copied either.
        let now: Vec<&[u8]> = vec![b"KEY=1", b"COPY=secret-0123", b"N=1"];
        assert_eq!(changes(&then, &[b"KEY=secret-0123"], &now).set, ["N=1"]);
        assert_eq!(changes(&then, &[b"KEY=secret-0123"], &now[1..]).set, ["N=1"]);
    }

    #[test]
    fn a_shim_is_known_by_its_path_alone() {
        assert_eq!(stands_for(Path::new("/keyward-shims/bin/bash")), Some("bash"));
        for path in [
            "/usr/bin/bash",
            "/keyward-shims/bin",
            "/keyward-shims/bin/perl",
            "/keyward-shims/bin/x/bash",
            "bash",
        ] {
            assert_eq!(stands_for(Path::new(path)), None, "{path}");
        }
    }

    fn flag(flag: &'static str) -> Origin {
        Origin::Flag { flag }
    }

    fn line() -> Origin {
        Origin::File { file: "policy.toml".into(), line: 3 }
    }

    fn agents() -> Policy {
        let mut policy = Policy::default();
        policy.tools.cage = Ruled { value: ToolCage::Shims, origin: line() };
        policy.trust = Ruled { value: TrustClass::Executor, origin: line() };
        policy.net = Ruled { value: NetMode::Rules, origin: line() };
        policy.files.write = vec![Ruled { value: "~/.agent".into(), origin: line() }];
        policy.inherit_credentials = vec![Ruled { value: "KEY".into(), origin: line() }];
        policy.logins = vec![crate::login::Found {
            file: "claude",
            path: "/home/me/.claude/.credentials.json".into(),
            outside: "/home/me/.claude/.credentials.json".into(),
            skeleton: Err(crate::login::Odd::Empty),
            origin: line(),
        }];
        policy
    }

    #[test]
    fn the_cage_of_tools_has_no_credential_login_state_or_network_of_the_agent() {
        let tools = of_tools(&agents());
        assert_eq!((tools.trust.value, tools.net.value), (TrustClass::Tool, NetMode::None));
        assert!(
            tools.inherit_credentials.is_empty() && tools.secrets.is_empty() && tools.home.tools.is_empty()
        );
        assert!(tools.files.write.is_empty() && tools.tools.cage.value == ToolCage::Same);
        assert!(tools.logins.is_empty());
        let mut policy = agents();
        policy.home.mode = Ruled { value: HomeMode::Real, origin: line() };
        assert_eq!(of_tools(&policy).home.mode.value, HomeMode::Profile);
        assert_eq!((tools.home.mode.value, tools.home.keyring.value), (HomeMode::Profile, KeyringUse::Never));
    }

    #[test]
    fn the_cage_of_tools_has_what_a_flag_names_and_what_is_shared() {
        let mut policy = agents();
        policy.files.read = vec![Ruled { value: "/data".into(), origin: flag("--read") }];
        policy.tools.read = vec![Ruled { value: "~/.agent/skills".into(), origin: line() }];
        policy.tools.share = vec![Ruled { value: "~/.agent/shared".into(), origin: line() }];
        let rule = |origin: Origin| Ruled { value: Allowed::parse("example.com").unwrap(), origin };
        policy.network.allow = vec![rule(line()), rule(flag("--secret")), rule(flag("--allow-net"))];
        let tools = of_tools(&policy);
        let read: Vec<&Path> = tools.files.read.iter().map(|path| path.value.as_path()).collect();
        assert_eq!(read, [Path::new("/data"), Path::new("~/.agent/skills")]);
        assert_eq!(tools.files.write[0].value, Path::new("~/.agent/shared"));
        assert_eq!((tools.net.value, tools.network.allow.len()), (NetMode::Rules, 1));
        policy.tools.net = Ruled { value: ToolNet::Same, origin: line() };
        assert_eq!(of_tools(&policy).network.allow.len(), 3);
    }

    #[test]
    fn a_class_below_tool_stays_what_it_is() {
        let mut policy = agents();
        policy.trust = Ruled::builtin(TrustClass::Unknown);
        assert_eq!(of_tools(&policy).trust, policy.trust);
    }

    #[test]
    fn tools_reach_what_the_users_own_file_allows_and_not_what_the_profile_of_the_agent_does() {
        let allowed = |rule: &str, file: &str| Ruled {
            value: Allowed::parse(rule).unwrap(),
            origin: Origin::File { file: file.into(), line: 1 },
        };
        let mut policy = agents();
        policy.net = Ruled { value: NetMode::Rules, origin: Origin::Builtin };
        policy.network.allow =
            vec![allowed("npm", "/u/policy.toml"), allowed("model.example", "/u/profiles/x.toml")];
        let file = |role, path: &str| PolicyFile { role, path: path.into(), digest: String::new() };
        policy.sources.files =
            vec![file(FileRole::User, "/u/policy.toml"), file(FileRole::Profile, "/u/profiles/x.toml")];
        let tools = of_tools(&policy);
        assert_eq!(tools.net.value, NetMode::Rules);
        assert_eq!(tools.network.allow, [allowed("npm", "/u/policy.toml")]);
    }

    #[test]
    fn what_a_built_in_profile_does_by_itself_gives_way_to_strict_protection_and_a_flag_does_not() {
        let mut policy = agents();
        policy.protect.value = Protect::Strict;
        for (origin, on) in
            [(Origin::Profile { profile: "claude" }, false), (Origin::Flag { flag: "--shims" }, true)]
        {
            policy.tools.cage = Ruled { value: ToolCage::Shims, origin };
            assert_eq!(are_on(&policy), on);
            assert_eq!(is_given_up(&policy), !on);
        }
    }
}
