//! Turns a plan into what init needs between clone and exec: strings, lists and programs, all made beforehand.

use crate::fault::Fault;
use crate::secrets::Wanted;
use keyward_policy::env::Value;
use keyward_policy::facts::GitFolder;
use keyward_policy::gate::Script;
use keyward_policy::plan::{Cage, Identity, Keeper, LimitKind, Plan, Step};
use keyward_policy::surface::{self, Answer, Test};
use keyward_policy::view::{self, CACHE, Entry, FOOTHOLD, Shown, Source};
use keyward_policy::words::Protect;
use keyward_project::git::layer::{self, Layer, Run};
use keyward_project::home;
use keyward_sys::confine::Limit;
use keyward_sys::exec::Strings;
use keyward_sys::file::make_private_folder;
use keyward_sys::fork::Namespaces;
use keyward_sys::landlock::{Below, Scopes};
use keyward_sys::mount::Attributes;
use keyward_sys::{Errno, seccomp, terminal};
use rustix::fd::OwnedFd;
use rustix::fs::FlockOperation;
use rustix::process::Resource;
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where a tree of the host comes from.
pub enum Tree {
    /// Init finds it by path.
    Path(CString),
    /// The launcher opens it and passes it on: the place in the list of trees.
    Passed(usize),
}

/// One act while the view is built. Targets are relative to the new root, in which init stands.
pub enum Act {
    Directory {
        at: CString,
        mode: u32,
    },
    /// A directory in a tree that is kept, where a command of an earlier run may have put a link.
    KeptDirectory {
        above: CString,
        name: CString,
    },
    File {
        at: CString,
    },
    /// A file in a tree that is kept.
    KeptFile {
        above: CString,
        name: CString,
    },
    Text {
        at: CString,
        text: Vec<u8>,
    },
    /// A script as it was judged, where the command looks for it: found to be the same, or put there for good.
    Judged {
        way: CString,
        at: CString,
        text: Vec<u8>,
        pinned: bool,
    },
    Link {
        at: CString,
        to: CString,
    },
    /// A link in a tree that is kept, where it stays.
    KeptLink {
        above: CString,
        name: CString,
        to: CString,
    },
    Bind {
        tree: Tree,
        at: CString,
        attributes: Option<Attributes>,
        expect: Option<(u64, u64)>,
        /// Whether it is put into a tree of the host, where others may write meanwhile: then no link is followed on the way.
        foreign: bool,
    },
    /// Makes a folder of the root a mount of its own, which stays writable when the root no longer is.
    Own {
        from: CString,
        at: CString,
    },
    /// Makes a folder of a host's tree a mount of its own, so that it cannot be moved.
    Pin {
        at: CString,
    },
    FreshProc {
        at: CString,
    },
    Terminals {
        at: CString,
    },
    Queues {
        at: CString,
    },
    /// Layers are attached first where they come as trees, and let go once the overlay holds them.
    Overlay {
        at: CString,
        /// Where it is made before it is put in its place.
        beside: CString,
        options: CString,
        layers: Option<[(usize, CString); 2]>,
    },
    /// Puts something else over a file or directory, read-only.
    Mask {
        /// The directory that it stands in. Several masks in a row often have the same.
        above: CString,
        at: CString,
        /// The substitute: a name in the directory of masks.
        by: CString,
    },
    /// Makes what masks show, before the first of them.
    Masks {
        substitutes: Vec<Substitute>,
    },
}

/// The file or directory that appears in the place of something hidden.
pub struct Substitute {
    pub at: CString,
    pub directory: bool,
    /// `None` where nothing can be read or listed.
    pub text: Option<Vec<u8>>,
}

/// A tree that the launcher opens itself, because init may not find the way to it.
pub struct Passed {
    pub path: CString,
    pub expect: Option<(u64, u64)>,
}

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
    pub loopback: bool,
    pub root_options: CString,
    pub acts: Vec<Act>,
    pub passed: Vec<Passed>,
    pub cwd: CString,
    pub programs: Vec<CString>,
    pub argv: Strings,
    /// What the shell is given when a program turns out to be a script without `#!`.
    pub shell_argv: Vec<Strings>,
    pub envp: Strings,
    pub landlock_abi: i32,
    pub landlock_rules: Vec<(PathBuf, Below)>,
    /// In a cage without mounts: the folder that holds its HOME and TMPDIR.
    pub scratch: Option<PathBuf>,
    pub scopes: Scopes,
    pub filter: seccomp::Filter,
    /// What a warden goes by, where one checks names.
    pub warden: Option<Wards>,
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
    /// Whether the cage has a socket that leads to the keyring.
    pub keyring: bool,
    /// Where programs are looked for.
    pub search: Vec<PathBuf>,
    /// The secrets that the vault hands over in the cage.
    pub secrets: Option<Wanted>,
    /// Whether the cage joins the first one of its session: its user namespace, its network and its `/tmp`.
    pub common: bool,
    /// Whether the cage is a session's: then a spawner stands where the command would.
    pub session: bool,
    /// Locks on caches, held as long as this value lives.
    pub locks: Vec<OwnedFd>,
    /// The private repositories of the cage, and the host's git that takes over what is done in them.
    pub run: Option<Run>,
    pub git: Option<PathBuf>,
}

/// Directories of the cage's own. Without mounts there are none that would be somewhere else.
fn passing(plan: &Plan, spaces: bool) -> Result<Vec<CString>, Fault> {
    let all = if spaces { view::passing_directories(&plan.view) } else { Vec::new() };
    all.iter().map(|passing| c_string(Step::View, passing.directory.as_os_str())).collect()
}

impl Prepared {
    /// Closes everything that is held open for the cage, in a process that has nothing to do with it.
    pub fn let_go(&mut self) {
        self.counted = [None, None];
        self.locks.clear();
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
fn below_root(path: &Path) -> Result<CString, Fault> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    c_string(Step::View, if relative.as_os_str().is_empty() { OsStr::new(".") } else { relative.as_os_str() })
}

/// Prepares a plan. `environment` are the caller's raw entries, from which the plan's variables are copied.
pub fn prepare(plan: &Plan, environment: &[&[u8]], setup: Option<TerminalSetup>) -> Result<Prepared, Fault> {
    let programs = plan
        .candidates
        .iter()
        .map(|path| c_string(Step::Exec, path.as_os_str()))
        .collect::<Result<Vec<_>, _>>()?;
    let mut argv = Vec::with_capacity(plan.argv.len());
    for argument in &plan.argv {
        argv.push(c_string(Step::Exec, argument)?);
    }
    let mut shell_argv = Vec::with_capacity(programs.len());
    for program in &programs {
        let mut arguments = vec![SHELL.to_owned(), program.clone()];
        arguments.extend(argv.iter().skip(1).cloned());
        shell_argv.push(Strings::new(arguments));
    }
    home::make_ready(&plan.view.home).map_err(|(path, errno)| at_path(&path, errno))?;
    let mut builder = Acts::new(plan);
    let mut locks = Vec::new();
    if plan.cage != Cage::Landlock {
        for entry in &plan.view.entries {
            builder.entry(entry, &mut locks)?;
        }
        for link in &plan.view.links {
            builder.pin_above(link)?;
        }
        for script in &plan.gate.scripts {
            builder.judged(script)?;
        }
    }
    let spaces = plan.cage != Cage::Landlock;
    Ok(Prepared {
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
        loopback: plan.own_network,
        root_options: root_options(plan)?,
        acts: builder.acts,
        passed: builder.passed,
        run: builder.run,
        git: builder.git,
        cwd: c_string(Step::Exec, plan.view.cwd.as_os_str())?,
        programs,
        argv: Strings::new(argv),
        shell_argv,
        envp: Strings::new(variables(plan, environment)?),
        landlock_abi: plan.landlock.abi,
        landlock_rules: if spaces { landlock_rules(plan) } else { crate::guardian::landlock_rules(plan) },
        scratch: plan.scratch.clone(),
        scopes: Scopes {
            signals: plan.landlock.scope_signals,
            abstract_sockets: plan.landlock.scope_abstract_sockets,
        },
        filter: filter(plan)?,
        warden: wards(plan)?,
        limits: limits(plan),
        inotify: inotify(plan),
        terminal: setup,
        counted: [None, None],
        umask: current_umask(),
        waits_for_cgroup: false,
        home: None,
        passing: passing(plan, spaces)?,
        keyring: plan.view.home.keyring.is_some(),
        search: plan.search.clone(),
        secrets: None,
        common: false,
        session: false,
        locks,
    })
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

fn root_options(plan: &Plan) -> Result<CString, Fault> {
    // What the cage keeps in /tmp is memory, so the memory limit holds for it as well.
    let memory = plan.limits.iter().find_map(|limit| match limit.what {
        LimitKind::Memory(bytes) => Some(bytes),
        _ => None,
    });
    let text = match memory {
        Some(bytes) => format!("mode=0755,size={bytes}"),
        None => "mode=0755".into(),
    };
    c_string(Step::Root, OsStr::new(&text))
}

fn variables(plan: &Plan, environment: &[&[u8]]) -> Result<Vec<CString>, Fault> {
    let mut all = Vec::with_capacity(plan.environment.vars.len());
    for variable in &plan.environment.vars {
        let entry = match &variable.value {
            Value::Caller(place) => environment.get(*place).map(|entry| entry.to_vec()),
            // Put there in the cage, past us.
            Value::Vault => continue,
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

fn landlock_rules(plan: &Plan) -> Vec<(PathBuf, Below)> {
    // The root holds nothing but what was put there, so that reading is allowed from it downwards: whatever is reached by another
    // way, such as a descriptor that leads out, does not lie below it.
    let mut rules = vec![(PathBuf::from("/"), Below::Read), (PathBuf::from("/dev"), Below::Use)];
    rules.extend(plan.writable().map(|path| (path.to_path_buf(), Below::Write)));
    rules
}

/// What the warden of strict protection goes by.
pub struct Wards {
    /// Places of the cage's own in which every name can be made: its root, what is gone with it, and Keyward's own caches.
    pub own_places: Vec<CString>,
    /// Directories in which the user's shell looks for programs, as they are called and as they are.
    pub programs: Vec<PathBuf>,
}

fn wards(plan: &Plan) -> Result<Option<Wards>, Fault> {
    if plan.protect.value != Protect::Strict {
        return Ok(None);
    }
    let own = plan.view.entries.iter().filter(|entry| match &entry.shown {
        Shown::Private { .. } | Shown::Cache { .. } => true,
        Shown::Writable(source) => source.make,
        _ => false,
    });
    let places = [Path::new("/")].into_iter().chain(own.map(|entry| entry.target.as_path()));
    let own_places =
        places.map(|place| c_string(Step::Warden, place.as_os_str())).collect::<Result<_, _>>()?;
    let mut programs: Vec<PathBuf> =
        plan.programs.iter().flat_map(|path| [path.clone(), resolved(path)]).collect();
    // A directory that is writable as a whole cannot be one in which nothing is made.
    let roots: Vec<&Path> = plan.writable().collect();
    programs
        .retain(|path| !roots.contains(&path.as_path()) && roots.iter().any(|root| path.starts_with(root)));
    programs.sort();
    programs.dedup();
    Ok(Some(Wards { own_places, programs }))
}

/// The path with its links followed, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let known = path.ancestors().find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
    match known {
        Some((above, real)) => match path.strip_prefix(above) {
            Ok(rest) if rest.as_os_str().is_empty() => real,
            Ok(rest) => real.join(rest),
            Err(_) => path.into(),
        },
        None => path.into(),
    }
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

/// Collects the acts that build the view.
struct Acts<'a> {
    plan: &'a Plan,
    shown: &'a [Entry],
    acts: Vec<Act>,
    passed: Vec<Passed>,
    /// Folders that are there already.
    made: HashSet<OsString>,
    /// The last directory that was pinned with those above it.
    pinned: OsString,
    /// The act that makes what masks show, and which of them there are.
    masks: Option<usize>,
    substitutes: HashMap<(bool, Option<Vec<u8>>), usize>,
    /// The private repositories that were made for it.
    run: Option<Run>,
    git: Option<PathBuf>,
}

impl<'a> Acts<'a> {
    fn new(plan: &'a Plan) -> Self {
        Acts {
            plan,
            shown: plan.view.shown(),
            acts: Vec::with_capacity(128),
            passed: Vec::new(),
            made: HashSet::new(),
            pinned: OsString::new(),
            masks: None,
            substitutes: HashMap::new(),
            run: None,
            git: None,
        }
    }

    /// Makes the folders above a target, as far as they are on our own root.
    fn parents(&mut self, target: &Path) -> Result<(), Fault> {
        let Some(parent) = target.parent() else { return Ok(()) };
        self.folder(parent, 0o755)
    }

    fn folder(&mut self, path: &Path, mode: u32) -> Result<(), Fault> {
        if path == Path::new("/") || self.made.contains(path.as_os_str()) || self.is_shown(path) {
            return Ok(());
        }
        self.parents(path)?;
        self.made.insert(path.into());
        self.acts.push(match (self.is_foreign(path), path.parent(), path.file_name()) {
            (true, Some(above), Some(name)) => {
                Act::KeptDirectory { above: below_root(above)?, name: c_string(Step::View, name)? }
            }
            _ => Act::Directory { at: below_root(path)?, mode },
        });
        Ok(())
    }

    /// Whether a path lies in a tree of the host, where others may write or have written.
    fn is_foreign(&self, path: &Path) -> bool {
        path.parent().is_some_and(|above| {
            keyward_policy::view::covering(self.shown, above).is_some_and(Entry::shows_host)
        })
    }

    /// Whether the host's files are shown at this path, so that nothing has to be made.
    fn is_shown(&self, path: &Path) -> bool {
        // Strictly above or at the path, not the entry that is being made there.
        path.parent().is_some_and(|above| {
            keyward_policy::view::covering(self.shown, above).is_some_and(Entry::shows_in_place)
        })
    }

    fn tree(&mut self, source: &Source) -> Result<Tree, Fault> {
        let path = c_string(Step::View, source.path.as_os_str())?;
        Ok(match self.plan.identity {
            Identity::MappedRoot { .. } if source.callers_own => {
                self.passed.push(Passed { path, expect: source.expect });
                Tree::Passed(self.passed.len() - 1)
            }
            _ => Tree::Path(path),
        })
    }

    fn bind(&mut self, target: &Path, source: &Source, read_only: bool) -> Result<(), Fault> {
        if source.make {
            make_folder(&source.path)?;
        }
        if self.is_shown(target) {
            self.pin_above(target)?;
        }
        if !(self.is_shown(target) && source.path == target) {
            self.make_place(target, source.directory)?;
        }
        let attributes = Some(Attributes { read_only, no_dev: true, no_exec: false });
        let (tree, at) = (self.tree(source)?, below_root(target)?);
        let foreign = self.is_foreign(target);
        self.acts.push(Act::Bind { tree, at, attributes, expect: source.expect, foreign });
        Ok(())
    }

    /// Something of the host at the place it has outside, on our own root.
    fn same_as_outside(&mut self, target: &Path, attributes: Option<Attributes>) -> Result<(), Fault> {
        let tree = Tree::Path(c_string(Step::View, target.as_os_str())?);
        self.acts.push(Act::Bind { tree, at: below_root(target)?, attributes, expect: None, foreign: false });
        Ok(())
    }

    /// Makes what something can be put over.
    fn make_place(&mut self, target: &Path, directory: bool) -> Result<(), Fault> {
        let foreign = self.is_foreign(target);
        match (target.parent(), target.file_name()) {
            (Some(above), Some(name)) if foreign => {
                // The folders above may be missing as well.
                if !self.is_foreign(above) || !self.made.contains(above.as_os_str()) {
                    self.make_place_above(above)?;
                }
                let (above, name) = (below_root(above)?, c_string(Step::View, name)?);
                self.made.insert(target.into());
                self.acts.push(match directory {
                    true => Act::KeptDirectory { above, name },
                    false => Act::KeptFile { above, name },
                });
            }
            _ if directory => self.folder(target, 0o755)?,
            _ => {
                self.parents(target)?;
                self.acts.push(Act::File { at: below_root(target)? });
            }
        }
        Ok(())
    }

    /// Makes the folders above a place in a tree that is kept.
    fn make_place_above(&mut self, above: &Path) -> Result<(), Fault> {
        if self.shown.iter().any(|entry| entry.target == above) || self.made.contains(above.as_os_str()) {
            return Ok(());
        }
        self.make_place(above, true)
    }

    fn entry(&mut self, entry: &Entry, locks: &mut Vec<OwnedFd>) -> Result<(), Fault> {
        let target = entry.target.as_path();
        match &entry.shown {
            Shown::ReadOnly(source) => {
                if entry.rule == FOOTHOLD {
                    self.pin_above(target)?;
                }
                self.bind(target, source, true)?;
            }
            Shown::Writable(source) => {
                self.bind(target, source, false)?;
                if entry.rule == CACHE {
                    locks.extend(lock_folder(&source.path, FlockOperation::NonBlockingLockShared));
                }
            }
            Shown::Private { mode } => {
                // Where the host is shown already, the cage's own folder stands beside and is put on top.
                let from = if self.is_shown(target) {
                    PathBuf::from(format!("/.private-{}", self.acts.len()))
                } else {
                    target.to_path_buf()
                };
                self.folder(&from, *mode)?;
                self.acts.push(Act::Own { from: below_root(&from)?, at: below_root(target)? });
            }
            // Over a file of the host.
            Shown::Text { text } if self.is_shown(target) => {
                let at = below_root(target)?;
                self.acts.push(Act::Judged { way: at.clone(), at, text: text.clone(), pinned: true });
            }
            Shown::Text { text } => {
                self.parents(target)?;
                self.acts.push(Act::Text { at: below_root(target)?, text: text.clone() });
            }
            Shown::Link { to } => {
                self.parents(target)?;
                let to = c_string(Step::View, to.as_os_str())?;
                self.acts.push(match (self.is_foreign(target), target.parent(), target.file_name()) {
                    (true, Some(above), Some(name)) => {
                        Act::KeptLink { above: below_root(above)?, name: c_string(Step::View, name)?, to }
                    }
                    _ => Act::Link { at: below_root(target)?, to },
                });
            }
            Shown::Device => {
                self.parents(target)?;
                self.acts.push(Act::File { at: below_root(target)? });
                // Read-only keeps its mode and owner from being changed; a device is written to all the same.
                let attributes = Some(Attributes { read_only: true, no_dev: false, no_exec: true });
                self.same_as_outside(target, attributes)?;
            }
            Shown::FreshProc => {
                self.folder(target, 0o555)?;
                self.acts.push(Act::FreshProc { at: below_root(target)? });
            }
            Shown::SharedProc => {
                self.folder(target, 0o555)?;
                let attributes = Some(Attributes { read_only: true, no_dev: true, no_exec: true });
                self.same_as_outside(target, attributes)?;
            }
            Shown::Terminals => {
                self.folder(target, 0o755)?;
                self.acts.push(Act::Terminals { at: below_root(target)? });
            }
            Shown::Queues => {
                self.folder(target, 0o755)?;
                self.acts.push(Act::Queues { at: below_root(target)? });
            }
            Shown::Repository { source, parts, store, git, exclude } => {
                self.git = Some(git.clone());
                let (device, inode) = source.expect.unwrap_or_default();
                let path = source.path.clone();
                let folder = GitFolder { path, device, inode, is_beyond_us: None, parts: parts.clone() };
                self.repository(target, &folder, store, exclude)?;
            }
            Shown::Cache { store, below } => self.cache(target, Some(store), below, locks)?,
            Shown::Layer(below) => self.cache(target, None, below, locks)?,
            // The launcher puts it there.
            Shown::Copied { .. } => {}
            Shown::Hidden { directory, reads_as } => {
                self.pin_above(target)?;
                let by = self.substitute(*directory, reads_as.as_deref())?;
                let (above, name) =
                    (target.parent().unwrap_or(target), target.file_name().unwrap_or_default());
                let (above, at) = (below_root(above)?, c_string(Step::View, name)?);
                self.acts.push(Act::Mask { above, at, by });
            }
        }
        Ok(())
    }

    /// What masks show, each once. Those of a view stand together at its end.
    fn substitute(&mut self, directory: bool, text: Option<&[u8]>) -> Result<CString, Fault> {
        let place = match self.masks {
            Some(place) => place,
            None => {
                self.acts.push(Act::Masks { substitutes: Vec::new() });
                *self.masks.insert(self.acts.len() - 1)
            }
        };
        let Act::Masks { substitutes: all } = &mut self.acts[place] else {
            return Err(Fault::new(Step::View, String::new(), Errno::INVAL));
        };
        let number = *self.substitutes.entry((directory, text.map(<[u8]>::to_vec))).or_insert(all.len());
        let at = c_string(Step::View, OsStr::new(&format!("/dev/{number}")))?;
        if number == all.len() {
            all.push(Substitute { at: at.clone(), directory, text: text.map(<[u8]>::to_vec) });
        }
        Ok(at)
    }

    /// A script that was judged stands there as it was then.
    fn judged(&mut self, script: &Script) -> Result<(), Fault> {
        if script.pinned {
            self.pin_above(&script.real)?;
        }
        self.acts.push(Act::Judged {
            way: below_root(&script.way)?,
            at: below_root(&script.real)?,
            text: script.text.clone(),
            pinned: script.pinned,
        });
        Ok(())
    }

    /// Pins the directories above a mask: a process that may write there could move the directory and put another in its place,
    /// for the next run or for programs outside. A mount cannot be moved.
    fn pin_above(&mut self, path: &Path) -> Result<(), Fault> {
        // Many masks stand beside each other.
        let parent = path.parent().map(Path::as_os_str).unwrap_or_default();
        if self.pinned == parent {
            return Ok(());
        }
        self.pinned = parent.into();
        let above = path.parent().and_then(|folder| keyward_policy::view::covering(self.shown, folder));
        let Some(Entry { target, shown: Shown::Writable(_), .. }) = above else { return Ok(()) };
        let folders: Vec<&Path> = path.ancestors().skip(1).take_while(|folder| folder != target).collect();
        for folder in folders.into_iter().rev() {
            if !self.made.contains(folder.as_os_str()) {
                self.made.insert(folder.into());
                self.acts.push(Act::Pin { at: below_root(folder)? });
            }
        }
        Ok(())
    }

    /// The command has a private repository in the place of the host's, which borrows the host's objects.
    fn repository(
        &mut self,
        target: &Path,
        folder: &GitFolder,
        store: &Path,
        exclude: &[u8],
    ) -> Result<(), Fault> {
        let project = self.plan.view.project.as_deref().unwrap_or(&self.plan.view.cwd);
        let failed = |(path, errno): (PathBuf, Errno)| at_path(&path, errno);
        let mut run = match self.run.take() {
            Some(run) => run,
            None => Run::begin(store).map_err(failed)?,
        };
        let private = run.add(folder, project, exclude).map(Layer::git).map_err(failed)?;
        self.run = Some(run);
        let source =
            |path: PathBuf| Source { path, expect: None, callers_own: true, directory: true, make: false };
        self.bind(target, &source(private), false)?;
        for part in &folder.parts {
            let borrowed = target.join(&part.at).join(layer::BORROWED);
            for (number, objects) in part.objects.iter().enumerate() {
                self.lend(&borrowed.join(layer::borrowed_name(number)), &source(objects.clone()))?;
            }
            let large = folder.path.join(&part.at).join("lfs");
            if !part.is_worktree && large.is_dir() {
                self.lend(&borrowed.join("lfs"), &source(large))?;
            }
        }
        Ok(())
    }

    /// Puts a folder of the host's, read-only, where the private repository has a place for it.
    fn lend(&mut self, at: &Path, source: &Source) -> Result<(), Fault> {
        let attributes = Some(Attributes { read_only: true, no_dev: true, no_exec: true });
        let (tree, at) = (self.tree(source)?, below_root(at)?);
        self.acts.push(Act::Bind { tree, at, attributes, expect: source.expect, foreign: true });
        Ok(())
    }

    /// A cache is an overlay: ours above, the user's below. Only one cage at a time may use a kept layer; any other, and what has no
    /// store, gets one that is gone with the cage.
    fn cache(
        &mut self,
        target: &Path,
        store: Option<&Source>,
        below: &Source,
        locks: &mut Vec<OwnedFd>,
    ) -> Result<(), Fault> {
        if let Some(store) = store {
            make_folder(&store.path)?;
        }
        if !(self.is_shown(target) && below.path == target) {
            self.make_place(target, true)?;
        }
        let at = below_root(target)?;
        let number = self.acts.len();
        let private = format!(".layer-{number}");
        let alone = FlockOperation::NonBlockingLockExclusive;
        let kept = store.and_then(|store| Some((store, lock_folder(&store.path, alone)?)));
        let passes_trees = matches!(self.plan.identity, Identity::MappedRoot { .. });
        let mut layers = None;
        let lower: PathBuf =
            if passes_trees { format!(".below-{number}").into() } else { below.path.clone() };
        let upper: PathBuf = match &kept {
            Some((store, _)) => {
                make_folder(&store.path.join("upper"))?;
                make_folder(&store.path.join("work"))?;
                if passes_trees { format!(".store-{number}").into() } else { store.path.clone() }
            }
            None => {
                for name in [&private, &format!("{private}/upper"), &format!("{private}/work")] {
                    self.acts
                        .push(Act::Directory { at: c_string(Step::View, OsStr::new(name))?, mode: 0o700 });
                }
                private.into()
            }
        };
        if passes_trees {
            let mut layer = |source: &Source, at: &Path| -> Result<(usize, CString), Fault> {
                let at = c_string(Step::View, at.as_os_str())?;
                self.acts.push(Act::Directory { at: at.clone(), mode: 0o700 });
                let path = c_string(Step::View, source.path.as_os_str())?;
                self.passed.push(Passed { path, expect: source.expect });
                Ok((self.passed.len() - 1, at))
            };
            let below = layer(below, &lower)?;
            // A layer that is gone with the cage lies on the root already and needs no tree.
            let above = match &kept {
                Some((store, _)) => layer(store, &upper)?,
                None => (usize::MAX, CString::default()),
            };
            layers = Some([below, above]);
        }
        let options = [
            b"userxattr,lowerdir=".as_slice(),
            &escaped(lower.as_os_str().as_bytes()),
            b",upperdir=",
            &escaped(upper.join("upper").as_os_str().as_bytes()),
            b",workdir=",
            &escaped(upper.join("work").as_os_str().as_bytes()),
        ]
        .concat();
        locks.extend(kept.map(|(_, lock)| lock));
        let beside = c_string(Step::View, OsStr::new(&format!(".over-{number}")))?;
        self.acts.push(Act::Directory { at: beside.clone(), mode: 0o755 });
        self.acts.push(Act::Overlay {
            at,
            beside,
            options: c_string(Step::View, OsStr::from_bytes(&options))?,
            layers,
        });
        Ok(())
    }
}

/// A path as an option of an overlay: the signs that would end it are marked.
fn escaped(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for &byte in path {
        if b":,\\".contains(&byte) {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out
}

fn make_folder(path: &Path) -> Result<(), Fault> {
    make_private_folder(path).map_err(|errno| at_path(path, errno))
}

fn at_path(path: &Path, errno: Errno) -> Fault {
    Fault::new(Step::View, keyward_policy::text::visible(path.as_os_str()), errno)
}

/// A lock on a cache in use, so that no process empties it meanwhile.
fn lock_folder(path: &Path, how: FlockOperation) -> Option<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let folder =
        rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    rustix::fs::flock(&folder, how).ok()?;
    Some(folder)
}

#[cfg(test)]
mod tests {
    use keyward_policy::surface::RULES;
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
