//! What is done to build a cage, act by act, in the order in which it is done. The launcher opens, locks and compares what an act names, and
//! decides nothing. `keyward explain --steps` prints the same list.

mod show;
mod view;

use crate::facts::GitPart;
use crate::linux::cage::{Cage, Identity};
use crate::linux::surface;
use crate::plan::{Keeper, Limit, LimitKind, Plan};
use crate::view::{KEYRING_SOCKET, Shown, Source};
use crate::words::Protect;
use serde::Serialize;
use std::path::PathBuf;

/// One thing that is done. Targets are absolute paths in the cage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "act")]
pub enum Act {
    /// Forks into new namespaces (user, PID, mount, IPC, UTS, cgroup), in one call.
    Namespaces,
    /// Starts a guardian where there are no namespaces, with a private directory for HOME and TMPDIR.
    Guardian {
        #[serde(serialize_with = "crate::text::path")]
        scratch: PathBuf,
    },
    /// Waits until the launcher has put the cage into its cgroup.
    Cgroup {
        #[serde(serialize_with = "crate::text::path")]
        path: PathBuf,
    },
    Identity {
        identity: Identity,
    },
    /// Leaves the user outside half of what the kernel counts for both.
    InotifyLimits,
    /// A session of its own, without the caller's terminal and process group.
    Session,
    /// A helper begins to make the network namespace, beside the view.
    OwnNetwork,
    /// An empty tmpfs that becomes the root.
    Root {
        bytes: Option<u64>,
    },
    Directory {
        #[serde(serialize_with = "crate::text::path")]
        at: PathBuf,
        mode: u32,
    },
    /// A directory in a tree that is kept, where a command of an earlier run may have put a link.
    KeptDirectory {
        #[serde(serialize_with = "crate::text::path")]
        at: PathBuf,
    },
    File {
        #[serde(serialize_with = "crate::text::path")]
        at: PathBuf,
    },
    /// A file in a tree that is kept.
    KeptFile {
        #[serde(serialize_with = "crate::text::path")]
        at: PathBuf,
    },
    /// A file of the cage's own.
    Text {
        #[serde(serialize_with = "crate::text::path")]
        at: PathBuf,
        #[serde(skip)]
        text: Vec<u8>,
    },
    /// A login file with phantoms, which the command may write.
    Login {
        #[serde(serialize_with = "crate::text::path")]
        at: PathBuf,
        #[serde(skip)]
        text: Vec<u8>,
        /// Whether it is put over a file of a tree that is kept.
        over: bool,
    },
    /// A script as it was judged, where the command looks for it: found to be the same, or put there for good.
    Judged {
        #[serde(serialize_with = "crate::text::path")]
        way: PathBuf,
        #[serde(serialize_with = "crate::text::path")]
        at: PathBuf,
        #[serde(skip)]
        text: Vec<u8>,
        pinned: bool,
    },
    Link {
        #[serde(serialize_with = "crate::text::path")]
        at: PathBuf,
        #[serde(serialize_with = "crate::text::path")]
        to: PathBuf,
    },
    /// A link in a tree that is kept, where it stays.
    KeptLink {
        #[serde(serialize_with = "crate::text::path")]
        at: PathBuf,
        #[serde(serialize_with = "crate::text::path")]
        to: PathBuf,
    },
    Bind(Bind),
    /// A directory of the root that becomes a mount of its own, which stays writable when the root no longer is.
    Own {
        #[serde(serialize_with = "crate::text::path")]
        from: PathBuf,
        #[serde(serialize_with = "crate::text::path")]
        at: PathBuf,
    },
    /// A directory of a host's tree that becomes a mount of its own, so that it cannot be moved.
    Pin {
        #[serde(serialize_with = "crate::text::path")]
        at: PathBuf,
    },
    FreshProc {
        #[serde(serialize_with = "crate::text::path")]
        at: PathBuf,
    },
    Terminals {
        #[serde(serialize_with = "crate::text::path")]
        at: PathBuf,
    },
    Queues {
        #[serde(serialize_with = "crate::text::path")]
        at: PathBuf,
    },
    /// An overlay: a layer of ours above, the user's tree below. Without a store, or where another cage uses it, the layer is gone with the
    /// cage.
    Layer {
        #[serde(serialize_with = "crate::text::path")]
        at: PathBuf,
        store: Option<Source>,
        below: Source,
    },
    /// A private repository in the place of the host's, which borrows the host's objects.
    Repository {
        #[serde(serialize_with = "crate::text::path")]
        at: PathBuf,
        source: Source,
        #[serde(skip)]
        from: Repository,
    },
    /// Makes what masks show, before the first of them.
    Masks {
        #[serde(skip)]
        substitutes: Vec<Substitute>,
    },
    /// Something else over a file or directory, read-only.
    Mask {
        #[serde(serialize_with = "crate::text::path")]
        at: PathBuf,
        /// The place of the substitute among those of the view.
        by: usize,
    },
    /// The root is read-only from here on, and the old one is gone.
    Pivot,
    /// A socket in the cage at which a process outside answers.
    Outlet(Outlet),
    /// The second wall, or the first one where there are no mounts. Init stays outside.
    Landlock(Domain),
    /// A terminal of the cage's own.
    Terminal {
        replaces: [bool; 3],
    },
    /// A new session keyring.
    Keyring,
    EnterNetwork,
    /// Every address becomes the cage's own, and only TCP and questions to its resolver have a way there.
    Routes,
    Capabilities,
    /// The vault hands over what was granted.
    Secrets {
        names: Vec<String>,
    },
    /// The process that makes every new name in the command's place, and where it makes every name.
    Warden {
        #[serde(skip)]
        own_places: Vec<PathBuf>,
        /// Directories in which the user's shell looks for programs: nothing is made there.
        #[serde(skip)]
        programs: Vec<PathBuf>,
    },
    /// From here on in the command's own process.
    Limits {
        limits: Vec<Limit>,
    },
    WorkIn {
        #[serde(serialize_with = "crate::text::path")]
        directory: PathBuf,
    },
    EnterDomain,
    CloseDescriptors,
    Seccomp {
        rules: usize,
    },
    Execute {
        #[serde(skip)]
        candidates: Vec<PathBuf>,
    },
}

/// A tree of the host, put into the view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bind {
    #[serde(serialize_with = "crate::text::path")]
    pub at: PathBuf,
    pub source: Source,
    pub read_only: bool,
    pub no_dev: bool,
    pub no_exec: bool,
    /// Whether it is put into a tree of the host, where others may write meanwhile: then no link is followed on the way.
    pub foreign: bool,
    /// Whether a lock keeps other processes from emptying it meanwhile.
    pub lock: bool,
}

/// What a private repository is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repository {
    pub parts: Vec<GitPart>,
    pub store: PathBuf,
    pub git: PathBuf,
    pub exclude: Vec<u8>,
    /// Files of the working trees that the command cannot see.
    pub hidden: Vec<PathBuf>,
    /// Whether the command can reach other machines.
    pub has_network: bool,
    /// Whether the user's own settings say no committer.
    pub is_nameless: bool,
}

/// The file or directory that appears in the place of something hidden.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Substitute {
    pub directory: bool,
    /// `None` where nothing can be read or listed.
    pub text: Option<Vec<u8>>,
}

/// Something outside that the cage can talk to. A process of its own answers there, outside the cage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outlet {
    pub to: To,
    /// Where the cage finds it.
    pub at: &'static str,
}

/// What an outlet leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum To {
    /// The session of the agent, which runs its tools in a narrower cage.
    Session,
    /// The user's keyring, of which the items of the tools that are shown can be seen.
    Keyring,
    /// The launcher's answers to lookups of hosts, where there is no network: no host is found, and which ones were wanted is known.
    Lookups,
    /// Programs of this machine, which reach ports of the cage's loopback.
    Publish,
    /// The proxy of the network, which accepts on sockets that stand for hosts.
    Proxy,
}

/// The rules of a Landlock domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Domain {
    pub abi: i32,
    pub rules: Vec<Rule>,
    pub scope_signals: bool,
    pub scope_abstract_sockets: bool,
}

/// What a domain allows below a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    #[serde(serialize_with = "crate::text::path")]
    pub path: PathBuf,
    pub allows: Allows,
    /// What stays closed below it. A domain can only allow: the neighbours of what is closed are allowed one by one.
    #[serde(serialize_with = "crate::text::paths")]
    pub except: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allows {
    Read,
    /// Reading and writing of what is there, as with devices.
    Use,
    Write,
}

/// Where a cage finds the socket of its session.
pub const SESSION_SOCKET: &str = "/run/keyward-door";

/// Everything outside that the cage can talk to.
pub fn outlets(plan: &Plan) -> Vec<Outlet> {
    let keyring = plan.view.home.keyring.is_some().then_some(Outlet { to: To::Keyring, at: KEYRING_SOCKET });
    let lookups = match (&plan.network, plan.own_network) {
        (Some(_), _) => Some(Outlet { to: To::Proxy, at: "198.18.0.0/15" }),
        (None, true) => Some(Outlet { to: To::Lookups, at: "127.0.0.1:53" }),
        (None, false) => None,
    };
    let session = plan.shims.then_some(Outlet { to: To::Session, at: SESSION_SOCKET });
    let publish = (!plan.publish.is_empty()).then_some(Outlet { to: To::Publish, at: "127.0.0.1" });
    keyring.into_iter().chain(session).chain(lookups).chain(publish).collect()
}

/// What is done for this plan, in this order.
pub fn acts(plan: &Plan) -> Vec<Act> {
    let mut acts = Vec::with_capacity(128);
    match &plan.scratch {
        Some(scratch) => acts.push(Act::Guardian { scratch: scratch.clone() }),
        None => acts.push(Act::Namespaces),
    }
    acts.extend(plan.cgroup.iter().map(|path| Act::Cgroup { path: path.clone() }));
    if plan.cage == Cage::Landlock {
        acts.push(Act::Session);
        acts.extend(terminal(plan));
        acts.extend(domain(plan).map(Act::Landlock));
        acts.extend([Act::Keyring, Act::Capabilities]);
    } else {
        build(plan, &mut acts);
    }
    if !plan.secrets.is_empty() {
        acts.push(Act::Secrets { names: plan.secrets.iter().map(|given| given.name.to_string()).collect() });
    }
    acts.extend(warden(plan));
    acts.push(Act::Limits { limits: plan.limits.clone() });
    acts.push(Act::WorkIn { directory: plan.view.cwd.clone() });
    if plan.landlock.abi > 0 {
        acts.push(Act::EnterDomain);
    }
    acts.push(Act::CloseDescriptors);
    acts.push(Act::Seccomp { rules: surface::rules(&plan.surface).count() });
    acts.push(Act::Execute { candidates: plan.candidates.clone() });
    acts
}

/// A cage with namespaces.
fn build(plan: &Plan, acts: &mut Vec<Act>) {
    // Everything below needs the capabilities that the mapping gives.
    acts.push(Act::Identity { identity: plan.identity });
    let is_kept = |limit: &Limit| limit.what == LimitKind::Inotify && limit.keeper == Keeper::UserNamespace;
    if plan.limits.iter().any(is_kept) {
        acts.push(Act::InotifyLimits);
    }
    acts.push(Act::Session);
    if plan.own_network {
        acts.push(Act::OwnNetwork);
    }
    // What the cage keeps in /tmp is memory, so the memory limit holds for it as well.
    let bytes = plan.limits.iter().find_map(|limit| match limit.what {
        LimitKind::Memory(bytes) => Some(bytes),
        _ => None,
    });
    acts.push(Act::Root { bytes });
    view::build(plan, acts);
    acts.push(Act::Pivot);
    let (early, late): (Vec<Outlet>, Vec<Outlet>) =
        outlets(plan).into_iter().partition(|outlet| matches!(outlet.to, To::Keyring | To::Session));
    acts.extend(early.into_iter().map(Act::Outlet));
    acts.extend(domain(plan).map(Act::Landlock));
    acts.extend(terminal(plan));
    acts.push(Act::Keyring);
    if plan.own_network {
        acts.push(Act::EnterNetwork);
    }
    if plan.network.is_some() {
        acts.push(Act::Routes);
    }
    acts.extend(late.into_iter().map(Act::Outlet));
    acts.push(Act::Capabilities);
}

fn terminal(plan: &Plan) -> Option<Act> {
    plan.terminal.contains(&true).then_some(Act::Terminal { replaces: plan.terminal })
}

/// The domain of the plan; none where the policy accepts to do without.
fn domain(plan: &Plan) -> Option<Domain> {
    let landlock = plan.landlock;
    (landlock.abi > 0).then(|| Domain {
        abi: landlock.abi,
        rules: if plan.cage == Cage::Landlock { rules_without_mounts(plan) } else { rules(plan) },
        scope_signals: landlock.scope_signals,
        scope_abstract_sockets: landlock.scope_abstract_sockets,
    })
}

fn rules(plan: &Plan) -> Vec<Rule> {
    let rule = |path: PathBuf, allows: Allows| Rule { path, allows, except: Vec::new() };
    // The root holds nothing but what was put there, so that reading is allowed from it downwards: whatever is reached by another
    // way, such as a descriptor that leads out, does not lie below it.
    let mut rules = vec![rule("/".into(), Allows::Read), rule("/dev".into(), Allows::Use)];
    rules.extend(plan.writable().map(|path| rule(path.to_path_buf(), Allows::Write)));
    rules
}

/// The rules over the host's own paths.
fn rules_without_mounts(plan: &Plan) -> Vec<Rule> {
    let is_hidden = |entry: &&crate::view::Entry| matches!(entry.shown, Shown::Hidden { .. });
    let hidden: Vec<&PathBuf> = plan.view.entries.iter().filter(is_hidden).map(|it| &it.target).collect();
    let rule = |path: &PathBuf, allows: Allows| {
        let except = hidden.iter().filter(|hidden| hidden.starts_with(path));
        Rule { path: path.clone(), allows, except: except.map(|path| (*path).clone()).collect() }
    };
    let mut rules = vec![rule(&"/proc".into(), Allows::Read)];
    rules.extend(plan.scratch.iter().map(|scratch| rule(scratch, Allows::Write)));
    for entry in plan.view.shown() {
        match &entry.shown {
            Shown::ReadOnly(source) => rules.push(rule(&source.path, Allows::Read)),
            Shown::Writable(source) => rules.push(rule(&source.path, Allows::Write)),
            Shown::Device => rules.push(rule(&entry.target, Allows::Use)),
            _ => {}
        }
    }
    rules
}

/// The cage's root, what is gone with it, and Keyward's own caches: there every name can be made.
fn warden(plan: &Plan) -> Option<Act> {
    let own = plan.view.entries.iter().filter(|entry| match &entry.shown {
        Shown::Private { .. } | Shown::Cache { .. } => true,
        Shown::Writable(source) => source.make,
        _ => false,
    });
    let own_places = [PathBuf::from("/")].into_iter().chain(own.map(|entry| entry.target.clone()));
    let programs = plan.programs.clone();
    (plan.protect.value == Protect::Strict)
        .then(|| Act::Warden { own_places: own_places.collect(), programs })
}
