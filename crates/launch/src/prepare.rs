//! Turns a plan into what init needs between clone and exec: strings, lists and programs, all made beforehand.

use crate::arm::{Acts, Armed, arm};
use crate::fault::Fault;
use crate::secrets::Wanted;
use keyward_policy::env::{Value, Var};
use keyward_policy::event;
use keyward_policy::linux::cage::{Cage, Identity, Step};
use keyward_policy::linux::surface::{self, Answer, Test};
use keyward_policy::net::plan::Socket;
use keyward_policy::plan::{Keeper, LimitKind, Plan};
use keyward_policy::shims;
use keyward_policy::view;
use keyward_project::home;
use keyward_sys::confine::Limit;
use keyward_sys::exec::Strings;
use keyward_sys::fork::Namespaces;
use keyward_sys::{Errno, seccomp, terminal};
use rustix::fd::OwnedFd;
use rustix::process::Resource;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The cage's terminal, as the user's was when we started.
pub struct TerminalSetup {
    pub replaces: [bool; 3],
    pub settings: terminal::Settings,
    pub size: Option<terminal::Winsize>,
    /// Whether the command may read the keyboard from the start, or has to show first that it wants to.
    pub foreground: bool,
}

/// Everything init needs.
pub struct Prepared {
    pub namespaces: Namespaces,
    pub identity: Identity,
    /// Lines for `uid_map` and `gid_map`.
    pub maps: [Vec<u8>; 2],
    /// What is done, and what that needs.
    pub acts: Acts,
    pub argv: Strings,
    /// What the shell is given when a program turns out to be a script without `#!`.
    pub shell_argv: Vec<Strings>,
    pub envp: Strings,
    /// In a cage without mounts: the folder that holds its HOME and TMPDIR.
    pub scratch: Option<PathBuf>,
    pub filter: seccomp::Filter,
    pub limits: Vec<Limit>,
    /// Limits of the cage's own user namespace on inotify: each file and what is written there.
    pub inotify: Vec<(&'static CStr, Vec<u8>)>,
    pub terminal: Option<TerminalSetup>,
    /// Where output goes that has to be counted, or that secrets are taken out of: the writing ends for descriptors 1 and 2.
    pub counted: [Option<OwnedFd>; 2],
    pub umask: rustix::fs::Mode,
    /// Whether init has to wait until it has been moved into its cgroup.
    pub waits_for_cgroup: bool,
    /// The HOME of the cage's own, where the launcher has something to put into it before the command starts.
    pub home: Option<CString>,
    /// Directories of the cage's own that the launcher looks at when it has ended.
    pub passing: Vec<CString>,
    /// Where programs are looked for.
    pub search: Vec<PathBuf>,
    /// The secrets that the vault hands over in the cage.
    pub secrets: Option<Wanted>,
    /// Whether the cage joins the first one of its session: its user namespace and its `/tmp`.
    pub common: bool,
    /// Whether it joins its network as well.
    pub common_network: bool,
    /// Sockets that are opened in a network with rules.
    pub sockets: Vec<Socket>,
    /// Whether the cage is a session's: then a spawner stands where the command would.
    pub session: bool,
}

/// Directories of the cage's own. Without mounts there are none that would be somewhere else.
fn passing(plan: &Plan, spaces: bool) -> Result<Vec<CString>, Fault> {
    let all = if spaces { view::passing_directories(&plan.view) } else { Vec::new() };
    all.iter().map(|passing| c_string(Step::View, passing.directory.as_os_str())).collect()
}

impl Prepared {
    /// Says what a file of the cage's own holds, where that is known only after the plan.
    pub fn fill(&mut self, path: &Path, text: Vec<u8>) {
        let Ok(at) = below_root(path) else { return };
        for act in &mut self.acts.init {
            // Over a file of the host, or where there is none.
            if let Armed::Text { at: place, text: content } | Armed::Judged { at: place, text: content, .. } =
                act
                && *place == at
            {
                *content = text;
                return;
            }
        }
    }

    /// Closes everything that is held open for the cage, in a process that has nothing to do with it.
    pub fn let_go(&mut self) {
        self.counted = [None, None];
        self.acts.locks.clear();
    }
}

pub(crate) const SHELL: &std::ffi::CStr = c"/bin/sh";
/// Where masks are made: a directory of every host, outside the new root, so that it is gone with the old one.
pub(crate) const MASKS: &std::ffi::CStr = c"/dev";

pub(crate) fn c_string(step: Step, text: &OsStr) -> Result<CString, Fault> {
    CString::new(text.as_bytes())
        .map_err(|_| Fault::new(step, keyward_policy::text::visible(text), Errno::INVAL))
}

/// Relative to the root.
pub(crate) fn below_root(path: &Path) -> Result<CString, Fault> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    c_string(Step::View, if relative.as_os_str().is_empty() { OsStr::new(".") } else { relative.as_os_str() })
}

/// Prepares a plan. `environment` are the caller's raw entries, from which the plan's variables are copied; `phantoms` are those of the plan,
/// in its order.
pub fn prepare(
    plan: &Plan,
    environment: &[&[u8]],
    phantoms: &[String],
    setup: Option<TerminalSetup>,
) -> Result<Prepared, Fault> {
    home::make_ready(&plan.view.home).map_err(|(path, errno)| at_path(&path, errno))?;
    let acts = arm(plan)?;
    let argv = plan.argv.iter().map(|argument| c_string(Step::Exec, argument));
    let argv = argv.collect::<Result<Vec<CString>, Fault>>()?;
    let shell_argv = acts.programs.iter().map(|program| {
        let mut arguments = vec![SHELL.to_owned(), program.clone()];
        arguments.extend(argv.iter().skip(1).cloned());
        Strings::new(arguments)
    });
    let spaces = plan.cage != Cage::Landlock;
    let variables = variables(plan, environment, phantoms)?;
    let started_with = plan.shims.then(|| started_with(plan, &variables));
    let mut prepared = Prepared {
        sockets: plan.network.as_ref().map(|network| network.sockets.clone()).unwrap_or_default(),
        namespaces: Namespaces {
            user: spaces,
            pid: spaces,
            mount: spaces,
            ipc: spaces,
            uts: spaces,
            // Made beside the view, by a helper of init's.
            net: false,
            cgroup: spaces,
        },
        identity: plan.identity,
        maps: maps(plan.identity),
        shell_argv: shell_argv.collect(),
        argv: Strings::new(argv),
        acts,
        envp: Strings::new(variables),
        scratch: plan.scratch.clone(),
        filter: filter(plan)?,
        limits: limits(plan),
        inotify: inotify(plan),
        terminal: setup,
        counted: [None, None],
        umask: current_umask(),
        waits_for_cgroup: false,
        home: None,
        passing: passing(plan, spaces)?,
        search: plan.search.clone(),
        secrets: None,
        common: false,
        common_network: false,
        session: false,
    };
    if let Some(started_with) = started_with {
        prepared.fill(Path::new(shims::ENVIRONMENT), started_with);
    }
    Ok(prepared)
}

/// The variables of an agent for its shims: each with a sign before it that says whether a tool may have its value, and a zero byte behind.
fn started_with(plan: &Plan, variables: &[CString]) -> Vec<u8> {
    let inherited = event::inherited(&plan.environment);
    let is_phantom = |variable: &&Var| matches!(variable.value, Value::Phantom { .. });
    let phantoms = plan.environment.vars.iter().filter(is_phantom).map(|variable| variable.name.to_string());
    let withheld: Vec<String> = inherited.into_iter().chain(phantoms).collect();
    let is_withheld = |entry: &[u8]| {
        withheld
            .iter()
            .any(|name| entry.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")))
    };
    let mut text = Vec::new();
    for variable in variables {
        let entry = variable.as_bytes_with_nul();
        text.push(if is_withheld(entry) { shims::WITHHELD } else { shims::PLAIN });
        text.extend_from_slice(entry);
    }
    // The vault puts these there past us.
    for variable in plan.environment.vars.iter().filter(|variable| variable.value == Value::Vault) {
        text.push(shims::WITHHELD);
        text.extend_from_slice(variable.name.as_bytes());
        text.push(0);
    }
    text
}

/// There is no way to ask for it but to set it.
fn current_umask() -> rustix::fs::Mode {
    let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    rustix::process::umask(mask);
    mask
}

fn maps(identity: Identity) -> [Vec<u8>; 2] {
    let line = |inside: u32, outside: u32| format!("{inside} {outside} 1\n").into_bytes();
    match identity {
        Identity::Caller | Identity::BareRoot => {
            let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
            [line(uid, uid), line(gid, gid)]
        }
        Identity::MappedRoot { outside } => [line(0, outside), line(0, outside)],
    }
}

fn variables(plan: &Plan, environment: &[&[u8]], phantoms: &[String]) -> Result<Vec<CString>, Fault> {
    let phantom = |secret: usize, variable: usize| {
        let (bound, phantom) = (plan.phantoms.get(secret)?, phantoms.get(secret)?);
        Some(bound.value(variable, phantom).as_bytes())
    };
    let mut all = Vec::with_capacity(plan.environment.vars.len());
    for variable in &plan.environment.vars {
        let entry = match &variable.value {
            Value::Caller(place) => environment.get(*place).map(|entry| entry.to_vec()),
            // Put there in the cage, past us.
            Value::Vault => continue,
            Value::Phantom { secret, variable: place } => {
                phantom(*secret, *place).map(|value| [variable.name.as_bytes(), b"=", value].concat())
            }
            Value::Ours(value) => Some([variable.name.as_bytes(), b"=", value.as_bytes()].concat()),
        };
        let bad = || Fault::new(Step::Exec, format!("with the variable {}", variable.name), Errno::INVAL);
        all.push(CString::new(entry.ok_or_else(bad)?).map_err(|_| bad())?);
    }
    Ok(all)
}

fn limits(plan: &Plan) -> Vec<Limit> {
    let mut limits = vec![Limit::CoreBytes(0)];
    for limit in &plan.limits {
        match (limit.what, limit.keeper) {
            (LimitKind::Cpu(time), _) => limits.push(Limit::CpuSeconds(time.as_secs().max(1))),
            (LimitKind::Memory(bytes), Keeper::RlimitPerProcess) => limits.push(Limit::DataBytes(bytes)),
            (LimitKind::Pids(count), Keeper::RlimitOfCage) => {
                limits.push(Limit::Processes(count.saturating_add(plan.own_processes())))
            }
            (LimitKind::Pids(count), Keeper::RlimitOfUser) => limits.push(Limit::Processes(count)),
            (LimitKind::OpenFiles(count), _) => limits.push(Limit::OpenFiles(count)),
            (LimitKind::Queues, Keeper::RlimitOfCage) => {
                limits.extend(half_of(Resource::Msgqueue).map(Limit::QueueBytes));
                limits.extend(half_of(Resource::Sigpending).map(Limit::PendingSignals));
            }
            _ => {}
        }
    }
    limits
}

/// Half of what the caller may have; none where that has no bound.
fn half_of(resource: Resource) -> Option<u64> {
    rustix::process::getrlimit(resource).current.map(|limit| limit / 2)
}

/// The files that limit inotify in a user namespace, with what init writes there.
fn inotify(plan: &Plan) -> Vec<(&'static CStr, Vec<u8>)> {
    let is_kept = |limit: &keyward_policy::plan::Limit| {
        limit.what == LimitKind::Inotify && limit.keeper == Keeper::UserNamespace
    };
    if !plan.limits.iter().any(is_kept) {
        return Vec::new();
    }
    let files = [
        (c"/proc/sys/user/max_inotify_instances", "/proc/sys/fs/inotify/max_user_instances"),
        (c"/proc/sys/user/max_inotify_watches", "/proc/sys/fs/inotify/max_user_watches"),
    ];
    let half = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok().map(|all| all / 2);
    // A kernel without inotify has no such limit, and needs none.
    files.iter().filter_map(|(file, all)| Some((*file, half(all)?.to_string().into_bytes()))).collect()
}

fn filter(plan: &Plan) -> Result<seccomp::Filter, Fault> {
    let mut refusals = Vec::with_capacity(128);
    for rule in surface::rules(&plan.surface) {
        let refused = |errno: Errno| seccomp::Answer::Errno(u16::try_from(errno.raw_os_error()).unwrap_or(1));
        let answer = match rule.answer {
            Answer::NoSys => refused(Errno::NOSYS),
            Answer::Perm => refused(Errno::PERM),
            Answer::Family => refused(Errno::AFNOSUPPORT),
            Answer::Warden => seccomp::Answer::Listener,
        };
        for name in rule.syscalls {
            let Some(number) = seccomp::number(name) else { continue };
            let when = rule.when.iter().map(|test| match *test {
                Test::Has { arg, bits } => seccomp::Test::Has { arg, bits },
                Test::Lacks { arg, bits } => seccomp::Test::Lacks { arg, bits },
                Test::Is { arg, value } => seccomp::Test::Is { arg, value },
                Test::IsNone { arg, values } => seccomp::Test::IsNone { arg, values },
                Test::NotNull { arg } => seccomp::Test::NotNull { arg },
            });
            refusals.push(seccomp::Refusal { number, when: when.collect(), answer });
        }
    }
    seccomp::Filter::compile(&refusals).map_err(|errno| Fault::new(Step::Seccomp, "", errno))
}

pub(crate) fn at_path(path: &Path, errno: Errno) -> Fault {
    Fault::new(Step::View, keyward_policy::text::visible(path.as_os_str()), errno)
}

#[cfg(test)]
mod tests {
    use keyward_policy::linux::surface::RULES;
    use keyward_sys::seccomp;

    /// An unknown name would be a rule that does nothing. Other machines lack some of the older calls.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn every_call_of_the_rules_is_known() {
        let unknown: Vec<&str> = RULES
            .iter()
            .flat_map(|rule| rule.syscalls.iter().copied())
            .filter(|name| seccomp::number(name).is_none())
            .collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
