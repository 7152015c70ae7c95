//! The decision: request × policy × host facts → a plan, or a refusal that says what to do.
//!
//! What `explain` prints is the value that `launch::run` consumes. A plan names credentials; it cannot hold one.

mod session;

use crate::agent;
use crate::config::Unfit;
use crate::detect::registry;
use crate::env::{self, Dropped, Environment};
use crate::facts::HostFacts;
use crate::gate::GatePlan;
use crate::linux::cage::{Cage, Identity, Landlock, UNPRIVILEGED};
use crate::linux::kernel::Fact;
use crate::linux::surface::Surroundings;
use crate::net::bundle;
use crate::net::corporate;
use crate::net::plan::Network;
use crate::promise::{Held, Kept, Promise};
use crate::request::{Purpose, Request};
use crate::secret::{self, Bound, Given};
use crate::settings::Policy;
use crate::shims;
use crate::trouble::{Code, Trouble};
use crate::view::{self, Entry, GIT_SETTINGS, KEYRING_SOCKET, Shown, View, Warning};
use crate::words::{
    Allowance, Floor, HomeMode, NetMode, Origin, ProjectGuard, Protect, Redact, Ruled, SearchExtent,
    TrustClass,
};
use serde::Serialize;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Version of everything we print as JSON.
pub const VERSION: u32 = 1;

/// The result of deciding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    pub v: u32,
    #[serde(serialize_with = "crate::text::strings")]
    pub argv: Vec<OsString>,
    /// The files that are tried, in order, as the shell would.
    #[serde(skip)]
    pub candidates: Vec<PathBuf>,
    /// The folders in which programs are looked for.
    #[serde(skip)]
    pub search: Vec<PathBuf>,
    /// The directories in which the user's shell looks for programs outside, whether they are there or not.
    #[serde(skip)]
    pub programs: Vec<PathBuf>,
    pub profile: Option<String>,
    pub trust: Ruled<TrustClass>,
    pub floor: Ruled<Floor>,
    pub cage: Cage,
    pub identity: Identity,
    pub promises: Vec<Kept>,
    pub environment: Environment,
    /// Secrets that the vault hands over, and where they arrive.
    pub secrets: Vec<Given>,
    /// Secrets that the command holds phantoms of, and where the proxy replaces them.
    pub phantoms: Vec<Bound>,
    /// Whether they are taken out of what the command prints.
    pub redact: Ruled<Redact>,
    pub view: View,
    /// What happens to new footholds.
    pub protect: Ruled<Protect>,
    pub net: Ruled<NetMode>,
    /// What is reached, where rules say so.
    pub network: Option<Network>,
    /// Ports of the cage's loopback that this machine reaches.
    pub publish: Vec<u16>,
    pub gate: GatePlan,
    /// Whether the cage has a network namespace of its own.
    pub own_network: bool,
    pub landlock: Landlock,
    #[serde(skip)]
    pub surface: Surroundings,
    pub limits: Vec<Limit>,
    /// The folder in which the cage gets a cgroup of its own, if one of its limits is kept by it.
    #[serde(serialize_with = "crate::text::optional_path")]
    pub cgroup: Option<PathBuf>,
    /// The folder with HOME and TMPDIR, in a cage that has no mounts.
    #[serde(serialize_with = "crate::text::optional_path")]
    pub scratch: Option<PathBuf>,
    /// Which of descriptors 0 to 2 lead to the cage's own terminal.
    pub terminal: [bool; 3],
    /// Whether shells and interpreters of the command are shims, which ask its session.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shims: bool,
}

/// A limit and who keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limit {
    pub what: LimitKind,
    pub origin: Origin,
    pub keeper: Keeper,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitKind {
    Wall(Duration),
    Cpu(Duration),
    Memory(u64),
    Pids(u64),
    OpenFiles(u64),
    Output(u64),
    /// Half of the user's inotify instances and watches. The kernel counts what a cage takes for the user as well, who has 128
    /// instances by default: the other half stays for the programs outside.
    Inotify,
    /// Half of the user's bytes in message queues and of the signals that may wait, which the kernel counts in the same way.
    Queues,
}

/// How a limit is enforced here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keeper {
    /// The launcher's clock or relay: for the whole cage.
    Launcher,
    /// A cgroup: for the whole cage.
    Cgroup,
    /// An rlimit counted in the cage's own user namespace: for the whole cage.
    RlimitOfCage,
    /// A limit of the cage's own user namespace: for the whole cage.
    UserNamespace,
    /// This host does not let a user namespace have that limit.
    Refused,
    /// There is no user namespace that could have that limit.
    NoNamespace,
    /// An rlimit that counts everything of this user on the machine.
    RlimitOfUser,
    /// An rlimit: for each process on its own.
    RlimitPerProcess,
    /// The same, for a limit that the kernel only ever keeps in this way.
    RlimitOfEach,
    /// The kernel does not count it here.
    Nobody,
    /// Without a user namespace only all processes of the user can be counted together, which a default must not do.
    NotByDefault,
}

impl Keeper {
    pub const fn text(self) -> &'static str {
        match self {
            Keeper::Launcher => "for the whole cage, by the launcher",
            Keeper::Cgroup => "for the whole cage, by a cgroup",
            Keeper::RlimitOfCage => "for the whole cage, by an rlimit of its user namespace",
            Keeper::UserNamespace => "for the whole cage, by its user namespace",
            Keeper::Refused => "not enforced: the host does not let a user namespace limit it",
            Keeper::NoNamespace => {
                "not enforced: without a user namespace it is shared with all your programs"
            }
            Keeper::RlimitOfUser => {
                "counted with all other processes of yours, by an rlimit (no cgroup is delegated to you here)"
            }
            Keeper::RlimitOfEach => "for each process, by an rlimit",
            Keeper::RlimitPerProcess => {
                "for each process and its private memory, by an rlimit (no cgroup is delegated to you here)"
            }
            Keeper::Nobody => "not enforced: the kernel exempts root here",
            Keeper::NotByDefault => {
                "not enforced: without a user namespace all your processes would count; `limits.pids` sets such a limit"
            }
        }
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    pub kind: RefusalKind,
    /// The rule that decided, in the words of the policy file.
    pub rule: String,
    pub fact: String,
    pub remedy: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// The request itself makes no sense: exit 120.
    Usage,
    /// Refused by policy: exit 121.
    Policy,
    /// The floor is not available here: exit 122.
    Floor,
}

impl From<&Refusal> for Trouble {
    fn from(refusal: &Refusal) -> Self {
        let code = match refusal.kind {
            RefusalKind::Usage => Code::Unfit,
            RefusalKind::Policy => Code::Refused,
            RefusalKind::Floor => Code::Floor,
        };
        Trouble::new(code, &refusal.fact, &refusal.remedy)
    }
}

impl From<Unfit> for Refusal {
    fn from(Unfit { fact, remedy }: Unfit) -> Self {
        Refusal::usage(fact, &remedy)
    }
}

impl Refusal {
    pub(crate) fn usage(fact: String, remedy: &str) -> Self {
        Refusal { kind: RefusalKind::Usage, rule: "request".into(), fact, remedy: remedy.into() }
    }

    pub(crate) fn policy(rule: &str, fact: String, remedy: &str) -> Self {
        Refusal { kind: RefusalKind::Policy, rule: rule.into(), fact, remedy: remedy.into() }
    }
}

/// Decides.
pub fn plan(policy: &Policy, request: &Request<'_>, facts: &HostFacts) -> Result<Plan, Refusal> {
    if request.argv.first().is_none_or(|program| program.is_empty()) {
        return Err(Refusal::usage(
            "no command was given".into(),
            "put it behind `--`, as in `keyward run -- make test`",
        ));
    }
    credentials_are_for_this_class(policy)?;
    let cage = cage(facts);
    let own_network =
        policy.net.value != NetMode::Open && cage != Cage::Landlock && facts.kernel.network_namespace.holds();
    rules_have_a_network(policy, own_network)?;
    let identity = identity(request, facts, cage);
    let landlock = landlock(facts, own_network, cage);

    let promises = promises(policy, facts, cage, own_network, identity, landlock);
    strict_holds(policy, &promises)?;
    shims::can_be(policy, request, cage != Cage::Landlock)?;
    floor_holds(policy, &promises)?;

    let view = view::view(policy, request, facts, cage)?;
    let (search, left_out) = view::child_path(&view.entries, request);
    let secrets = secret::given(&policy.secrets, &policy.known_secrets)?;
    let mut phantoms = secret::bound(policy, &secrets)?;
    let argv = match &policy.agent {
        Some(agent) => agent.start(&request.argv, &mut phantoms),
        None => request.argv.clone(),
    };
    let network = (policy.net.value == NetMode::Rules).then(|| Network {
        granted: phantoms.iter().map(|bound| bound.name.to_string()).collect(),
        bundles: view::bundles(policy, request, &facts.paths),
        ..Network::new(&policy.network, request.environment, request.purpose)
    });
    let network = network.map(|network| network.with_base_urls(&phantoms));
    let mut ours = ours(request, &view, &search, cage);
    if shims::are_on_for(policy, request) {
        lead_to_shims(&mut ours, shims::variables(&view.entries, request));
    }
    let certificates = network.as_ref().and_then(|network| bundle::for_variables(&network.bundles));
    ours.extend(
        certificates.into_iter().flat_map(|path| bundle::VARIABLES.iter().map(|name| (*name, path.into()))),
    );
    let mut environment = env::decide(policy, policy.trust.value, request.environment, &ours);
    named_variables_pass(policy, request, &environment, &ours)?;
    secrets_have_a_cage(&secrets, &phantoms, cage)?;
    secret::have_a_proxy(policy, &phantoms)?;
    environment.announce(&secrets);
    environment.hold_phantoms(&phantoms);
    let mut view = view;
    view.warnings.extend(kept_proxies(policy, &environment));
    view.warnings.extend(network.iter().flat_map(|_| corporate::unused(request.environment)));
    view.warnings.extend(nothing_to_debug(policy, facts));
    view.warnings.extend(agent::nothing_to_log_in_with(policy, request, &view, &phantoms));
    view.warnings.extend(shims::given_up(policy, request));
    if left_out > 0 {
        let entries =
            if left_out == 1 { "1 entry of PATH was" } else { &format!("{left_out} entries of PATH were") };
        view.notes.push(format!("{entries} left out: relative, or not in the view"));
    }
    let surface = Surroundings {
        root: request.is_root(),
        no_inet: policy.net.value != NetMode::Open && !own_network,
        no_unix: cage == Cage::Landlock && landlock.abi < ABI_WITH_SOCKET_PATHS,
        no_mounts: cage == Cage::Landlock,
        strict: policy.protect.value == Protect::Strict,
        allow: policy.allow.iter().map(|allowance| allowance.value).collect::<Vec<Allowance>>(),
    };
    let mut limits = limits(policy, facts, identity, cage);
    if request.purpose == Purpose::Session {
        session::can_have(cage, policy, &secrets, &limits)?;
        // There the wall-clock limit applies to each command, and the session enforces it.
        limits.retain(|limit| !matches!(limit.what, LimitKind::Wall(_)));
    }
    let needs_cgroup = limits.iter().any(|limit| limit.keeper == Keeper::Cgroup);
    Ok(Plan {
        v: VERSION,
        cgroup: facts.kernel.cgroup.as_ref().filter(|_| needs_cgroup).map(|cgroup| cgroup.path.clone()),
        candidates: candidates(&request.argv[0], &search),
        argv,
        search,
        programs: request.programs(),
        profile: policy.profile.clone(),
        trust: policy.trust.clone(),
        floor: policy.floor.clone(),
        limits,
        scratch: (cage == Cage::Landlock).then(|| request.caller.scratch.clone()),
        terminal: request.caller.terminals,
        protect: policy.protect.clone(),
        net: policy.net.clone(),
        network,
        publish: policy.network.publish.iter().map(|port| port.value).collect(),
        gate: GatePlan { mode: policy.gate.mode.clone(), judged: None, scripts: Vec::new() },
        cage,
        identity,
        promises,
        environment,
        secrets,
        phantoms,
        redact: policy.redact.clone(),
        view,
        own_network,
        landlock,
        surface,
        shims: shims::are_on_for(policy, request),
    })
}

/// The Landlock ABI that closes sockets with a path.
const ABI_WITH_SOCKET_PATHS: i32 = 9;
/// The Landlock ABI that has scopes for signals and abstract sockets.
const ABI_WITH_SCOPES: i32 = 6;

/// A variable that a flag names is handed on, or the run is refused.
fn named_variables_pass(
    policy: &Policy,
    request: &Request<'_>,
    environment: &Environment,
    ours: &[(&'static str, OsString)],
) -> Result<(), Refusal> {
    let lists = [("inherit_credentials", &policy.inherit_credentials), ("env.pass", &policy.env.pass)];
    for (rule, names) in lists {
        let is_dropped = |name: &str| {
            environment.dropped.iter().any(|dropped| dropped.name == name)
                && !environment.vars.iter().any(|variable| variable.name == name)
        };
        let by_flag = |name: &&Ruled<String>| matches!(name.origin, Origin::Flag { .. });
        if let Some(name) = names.iter().filter(by_flag).find(|name| is_dropped(&name.value)) {
            let why = env::why(policy, policy.trust.value, &name.value, request.environment, ours);
            let fact = format!("{} ({}) is not handed on: {}", name.value, name.origin, why.rule);
            return Err(Refusal::policy(rule, fact, &why.remedy()));
        }
    }
    Ok(())
}

/// A proxy that is not handed on is missed by every program that wants the network, so it is said in any case.
fn kept_proxies(policy: &Policy, environment: &Environment) -> Option<Warning> {
    let is_kept =
        |dropped: &&Dropped| registry::is_proxy(dropped.name.as_bytes()) && dropped.rule.is_credential();
    let mut names: Vec<&str> =
        environment.dropped.iter().filter(is_kept).map(|dropped| dropped.name.as_str()).collect();
    names.dedup();
    (policy.net.value == NetMode::Open && !names.is_empty()).then(|| Warning {
        fact: format!("not handed on, because there is a login in it: {}", names.join(", ")),
        remedy: format!(
            "name a proxy without a login; a program that you trust with this one gets it by `--trust executor --inherit-credentials {}`",
            names[0]
        ),
        lasting: false,
    })
}

fn credentials_are_for_this_class(policy: &Policy) -> Result<(), Refusal> {
    let class = policy.trust.value;
    match policy.inherit_credentials.first() {
        Some(name) if !class.may_inherit_credentials() => Err(Refusal::policy(
            "inherit_credentials",
            format!("{} ({}) is not handed to a child of class `{class}`", name.value, name.origin),
            "credentials are for programs you trust with them: add `--trust executor`, or remove the name",
        )),
        _ => Ok(()),
    }
}

/// Without a network of its own a cage reaches everything or nothing. Open, there is nothing to publish.
fn rules_have_a_network(policy: &Policy, own_network: bool) -> Result<(), Refusal> {
    let refusal = |rule: String, fact: String, remedy: &str| {
        Err(Refusal { kind: RefusalKind::Floor, rule, fact, remedy: remedy.into() })
    };
    match (policy.net.value, policy.network.publish.first()) {
        (NetMode::Rules, _) if !own_network => refusal(
            format!("net.mode = \"rules\" ({})", policy.net.origin),
            "cannot keep the rules of the network: this host refuses a network namespace".into(),
            "`keyward doctor` shows the fix for this host; for a cage without a network, use `--net none`",
        ),
        (NetMode::Open, Some(port)) => Err(Refusal::policy(
            "net.publish",
            format!(
                "port {} ({}) needs no publishing: with `--net open` it is the host's own",
                port.value, port.origin
            ),
            "leave out `--publish`",
        )),
        (NetMode::None, Some(port)) if !own_network => refusal(
            format!("net.publish ({})", port.origin),
            format!("cannot publish port {}: this host refuses a network namespace", port.value),
            "`keyward doctor` shows the fix for this host",
        ),
        _ => Ok(()),
    }
}

/// What else runs as the same user could read what a secret was put into.
fn secrets_have_a_cage(secrets: &[Given], phantoms: &[Bound], cage: Cage) -> Result<(), Refusal> {
    let given = secrets.iter().map(|given| (&given.name, &given.origin));
    let held = phantoms.iter().filter(|bound| bound.login.is_none());
    let held = held.map(|bound| (&bound.name, &bound.origin));
    match given.chain(held).next() {
        Some((name, origin)) if cage == Cage::Landlock => Err(Refusal {
            kind: RefusalKind::Floor,
            rule: format!("secrets ({origin})"),
            fact: format!(
                "{name} is given only into a cage with namespaces of its own, which this host refuses"
            ),
            remedy: "`keyward doctor` shows the fix for this host".into(),
        }),
        _ => Ok(()),
    }
}

fn cage(facts: &HostFacts) -> Cage {
    let kernel = &facts.kernel;
    match (kernel.user_namespace.holds() && kernel.mounts.holds(), kernel.fresh_proc.holds()) {
        (true, true) => Cage::Full,
        (true, false) => Cage::SharedProc,
        (false, _) => Cage::Landlock,
    }
}

fn identity(request: &Request<'_>, facts: &HostFacts, cage: Cage) -> Identity {
    if !request.is_root() {
        Identity::Caller
    } else if cage != Cage::Landlock && facts.kernel.mapped_owners.holds() {
        Identity::MappedRoot { outside: UNPRIVILEGED }
    } else {
        Identity::BareRoot
    }
}

fn landlock(facts: &HostFacts, own_network: bool, cage: Cage) -> Landlock {
    let scopes = facts.kernel.landlock_abi >= ABI_WITH_SCOPES;
    Landlock {
        abi: facts.kernel.landlock_abi,
        // With namespaces of its own the cage can reach no process outside by signals or sockets.
        scope_signals: scopes && cage == Cage::Landlock,
        scope_abstract_sockets: scopes && !own_network,
    }
}

fn promises(
    policy: &Policy,
    facts: &HostFacts,
    cage: Cage,
    own_network: bool,
    identity: Identity,
    landlock: Landlock,
) -> Vec<Kept> {
    let kernel = &facts.kernel;
    let wall = |by: &str| Held::Wall { by: by.into() };
    let gone = |because: String| Held::Gone { because };
    let refused = |what: &str, fact: &Fact| match fact {
        Fact::Holds => format!("{what} is not used"),
        Fact::Refused { why } => format!("{what} is refused here: {why}"),
    };
    let no_namespaces = || {
        let fact = if kernel.user_namespace.holds() { &kernel.mounts } else { &kernel.user_namespace };
        refused("a user namespace with mounts", fact)
    };
    let spaces = cage != Cage::Landlock;
    let has_landlock = landlock.abi > 0;
    let no_landlock = || "this kernel has no Landlock".to_owned();
    let no_scopes = || format!("Landlock ABI {} has no scopes; Linux 6.12 brings them", landlock.abi);

    let held = |promise: Promise| match promise {
        Promise::Environment => wall("built up from nothing, by an allowlist"),
        Promise::Memory if cage == Cage::Full => wall("pid namespace with a /proc of its own"),
        Promise::Memory if has_landlock => wall("Landlock domain"),
        Promise::Memory => gone(no_landlock()),
        Promise::CommandLines if cage == Cage::Full => wall("pid namespace with a /proc of its own"),
        Promise::CommandLines if spaces => gone(refused("a fresh /proc", &kernel.fresh_proc)),
        Promise::CommandLines => gone(no_namespaces()),
        Promise::Files if spaces => wall("mount namespace with an allowlisted root"),
        Promise::Files if has_landlock => wall("Landlock domain"),
        Promise::Files => gone(no_landlock()),
        Promise::Home if policy.home.mode.value == HomeMode::Real => {
            Held::Waived { by: format!("home.mode = \"real\" ({})", policy.home.mode.origin) }
        }
        Promise::Home if spaces => match shown_logins(policy).as_str() {
            "" => wall("mount namespace"),
            logins => wall(&format!("mount namespace; of the real one it has the logins of {logins}")),
        },
        Promise::Home if has_landlock => wall("Landlock domain, and a HOME in a private directory"),
        Promise::Home => gone(no_landlock()),
        Promise::Project if spaces => wall("bind mount"),
        Promise::Project if policy.project.value == ProjectGuard::Unprotected => {
            gone(format!("writable without protection, as asked for ({})", policy.project.origin))
        }
        Promise::Project => gone("read-only: without mounts it cannot be protected".into()),
        Promise::Repository | Promise::Footholds
            if spaces && policy.search.value == SearchExtent::Bounded =>
        {
            Held::Waived { by: format!("files.search = \"bounded\" ({})", policy.search.origin) }
        }
        Promise::Repository if spaces => match view::cannot_take_over(facts) {
            Some(why) if !facts.project.repositories.is_empty() => wall(&format!("it is read-only: {why}")),
            _ => {
                wall("a private repository; the host's git takes over what was done in it, each part judged")
            }
        },
        Promise::Repository if policy.project.value == ProjectGuard::Unprotected => {
            gone(format!("writable without protection, as asked for ({})", policy.project.origin))
        }
        Promise::Repository => wall("the project is read-only"),
        Promise::Footholds if policy.protect.value == Protect::Strict => match (&kernel.notification, cage) {
            (Fact::Holds, Cage::Full) => {
                wall("they cannot be made: a warden does every creation in the command's place")
            }
            (Fact::Holds, Cage::SharedProc) => gone(refused("a fresh /proc", &kernel.fresh_proc)),
            (Fact::Holds, Cage::Landlock) => gone(no_namespaces()),
            (fact, _) => gone(refused("a seccomp notification", fact)),
        },
        Promise::Footholds if spaces => {
            Held::Notice { by: "taken away when noticed, and at the end of the run".into() }
        }
        Promise::Footholds if policy.project.value == ProjectGuard::Unprotected => {
            gone(format!("writable without protection, as asked for ({})", policy.project.origin))
        }
        Promise::Footholds => wall("the project is read-only"),
        Promise::PrivateTmp if spaces => wall("mount namespace"),
        Promise::PrivateTmp => {
            gone("/tmp and /dev/shm are closed, not private; TMPDIR leads to a directory of its own".into())
        }
        Promise::Network if policy.net.value == NetMode::Open => {
            Held::Waived { by: format!("net.mode = \"open\" ({})", policy.net.origin) }
        }
        Promise::Network if policy.net.value == NetMode::Rules && own_network => {
            wall("network namespace in which every address leads to keyward:proxy, which keeps the rules")
        }
        Promise::Network if own_network => wall("network namespace with only its own loopback"),
        Promise::Network => wall("no inet socket at all, by seccomp"),
        Promise::Sockets if spaces && own_network => wall("mount and network namespace"),
        Promise::Sockets if landlock.scope_abstract_sockets && spaces => {
            wall("mount namespace, Landlock scope")
        }
        Promise::Sockets if landlock.scope_abstract_sockets => {
            wall("Landlock scope, no unix socket by seccomp")
        }
        Promise::Sockets => gone(no_scopes()),
        Promise::Signals if spaces => wall("pid namespace"),
        Promise::Signals if landlock.scope_signals => wall("Landlock scope"),
        Promise::Signals => gone(no_scopes()),
        Promise::Ipc if spaces => wall("ipc namespace"),
        Promise::Ipc => gone(no_namespaces()),
        Promise::Descriptors => wall("closed before the start"),
        Promise::Keyring => wall("new session keyring, keyctl refused"),
        Promise::Terminal => wall("new session, PTY of the cage's own, TIOCSTI refused"),
        Promise::KernelSurface => match &kernel.seccomp {
            Fact::Holds => wall(&opened(policy, "seccomp filter")),
            fact => gone(refused("a seccomp filter", fact)),
        },
        Promise::Privileges => match identity {
            Identity::Caller => wall("no capability, no_new_privs"),
            Identity::MappedRoot { .. } => {
                wall("root inside is an unprivileged user outside; no capability, no_new_privs")
            }
            Identity::BareRoot => {
                wall("uid 0 without any capability, no_new_privs; owners cannot be mapped here")
            }
        },
        Promise::Sysctl if spaces => wall("/proc is mounted read-only"),
        Promise::Sysctl if has_landlock => wall("Landlock domain"),
        Promise::Sysctl => gone(no_landlock()),
        Promise::Death if spaces => wall("pid namespace tied to the launcher"),
        Promise::Death if landlock.scope_signals => wall("a guardian outside the domain"),
        Promise::Death => gone(no_scopes()),
        Promise::SecondWall if has_landlock && spaces => wall("Landlock domain"),
        Promise::SecondWall if has_landlock => {
            gone("Landlock is the first wall here; there is no second".into())
        }
        Promise::SecondWall => gone(no_landlock()),
    };
    Promise::ALL.iter().map(|&promise| Kept { promise, held: held(promise) }).collect()
}

/// What keeps the kernel surface closed, and what of it the policy opens.
fn opened(policy: &Policy, by: &str) -> String {
    let opens = policy.allow.iter().map(|allow| format!("; {} ({})", allow.value.opens(), allow.origin));
    opens.fold(by.to_owned(), |text, one| text + &one)
}

/// A debugger needs more than an open filter.
fn nothing_to_debug(policy: &Policy, facts: &HostFacts) -> Option<Warning> {
    let Fact::Refused { why } = &facts.kernel.tracing else { return None };
    let wish = policy.allow.iter().find(|allow| allow.value == Allowance::Ptrace)?;
    Some(Warning {
        fact: format!("debuggers cannot work here: {why}"),
        remedy: format!(
            "leave `ptrace` out ({}), or set it to 1: `sudo sysctl kernel.yama.ptrace_scope=1`; 3 stays until a reboot",
            wish.origin
        ),
        lasting: true,
    })
}

/// The tools whose logins are shown, as far as the policy alone tells.
fn shown_logins(policy: &Policy) -> String {
    if !policy.trust.value.may_have_logins() {
        return String::new();
    }
    let asked = view::asked_for(policy);
    if asked.iter().all(|(tool, _)| tool.origin == Origin::Builtin) && !asked.is_empty() {
        return "every known tool".into();
    }
    asked.iter().map(|(tool, _)| tool.value.name).collect::<Vec<_>>().join(", ")
}

/// What was asked for by name is there or the run is refused, whatever the floor.
fn strict_holds(policy: &Policy, promises: &[Kept]) -> Result<(), Refusal> {
    let gone = promises.iter().find_map(|kept| match &kept.held {
        Held::Gone { because } if kept.promise == Promise::Footholds => Some(because),
        _ => None,
    });
    let Some(because) = gone.filter(|_| policy.protect.value == Protect::Strict) else { return Ok(()) };
    Err(Refusal {
        kind: RefusalKind::Floor,
        rule: format!("files.protect = \"strict\" ({})", policy.protect.origin),
        fact: format!("cannot keep new footholds from being made: {because}"),
        remedy:
            "`keyward doctor` shows the fix for this host; to go without the wall, use `--protect notice`"
                .into(),
    })
}

fn floor_holds(policy: &Policy, promises: &[Kept]) -> Result<(), Refusal> {
    let floor = policy.floor.value;
    let missing = promises.iter().find_map(|kept| match &kept.held {
        Held::Gone { because } if !kept.promise.may_fall(floor) => Some((kept.promise, because)),
        _ => None,
    });
    let Some((promise, because)) = missing else { return Ok(()) };
    let weaker_is_enough = floor == Floor::Full
        && promises
            .iter()
            .all(|kept| !matches!(kept.held, Held::Gone { .. }) || kept.promise.may_fall(Floor::Landlock));
    Err(Refusal {
        kind: RefusalKind::Floor,
        rule: format!("floor = \"{floor}\" ({})", policy.floor.origin),
        fact: format!("cannot promise that {}: {because}", promise.text()),
        remedy: if weaker_is_enough {
            "`keyward doctor` shows the fix for this host; for the weaker cage, use `--floor landlock`".into()
        } else {
            "`keyward doctor` shows the fix for this host".into()
        },
    })
}

/// The names of the variables that we set ourselves.
pub const OUR_VARIABLES: [&str; 6] = ["PATH", "HOME", "PWD", "TMPDIR", "XDG_RUNTIME_DIR", "KEYWARD"];

/// The variables that we set ourselves, whatever the caller had.
fn ours(request: &Request<'_>, view: &View, search: &[PathBuf], cage: Cage) -> Vec<(&'static str, OsString)> {
    let mut path = OsString::new();
    for (position, entry) in search.iter().enumerate() {
        if position > 0 {
            path.push(":");
        }
        path.push(entry);
    }
    let (home, tmp, run) = if cage == Cage::Landlock {
        let scratch = &request.caller.scratch;
        (scratch.join("home"), scratch.join("tmp"), scratch.join("run"))
    } else {
        (view.home.at.clone(), "/tmp".into(), "/run".into())
    };
    let values: [OsString; 6] =
        [path, home.into(), view.cwd.clone().into(), tmp.into(), run.into(), "1".into()];
    let mut all: Vec<_> = OUR_VARIABLES.into_iter().zip(values).collect();
    if view.home.keyring.is_some() {
        all.push(("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={KEYRING_SOCKET}").into()));
    }
    if view.entries.iter().any(|entry| entry.target == Path::new(GIT_SETTINGS)) {
        all.push(("GIT_CONFIG_SYSTEM", GIT_SETTINGS.into()));
    }
    all
}

/// Puts the shims first where programs are looked for. The command itself is looked for without them.
fn lead_to_shims(ours: &mut Vec<(&'static str, OsString)>, variables: Vec<(&'static str, OsString)>) {
    for (_, path) in ours.iter_mut().filter(|(name, _)| *name == "PATH") {
        let mut first = OsString::from(shims::DIRECTORY);
        if !path.is_empty() {
            first.push(":");
        }
        first.push(&*path);
        *path = first;
    }
    ours.extend(variables);
}

fn candidates(program: &OsString, search: &[PathBuf]) -> Vec<PathBuf> {
    if Path::new(program).components().count() > 1 || program.as_encoded_bytes().contains(&b'/') {
        vec![program.into()]
    } else {
        search.iter().map(|folder| folder.join(program)).collect()
    }
}

fn limits(policy: &Policy, facts: &HostFacts, identity: Identity, cage: Cage) -> Vec<Limit> {
    let limits = &policy.limits;
    let cgroup = facts.kernel.cgroup.as_ref();
    let (counts_memory, counts_pids) = cgroup.map_or((false, false), |cgroup| (cgroup.memory, cgroup.pids));
    let mut all = Vec::new();
    let mut add = |what: LimitKind, origin: &Origin, keeper: Keeper| {
        all.push(Limit { what, origin: origin.clone(), keeper });
    };
    if let Some(limit) = &limits.wall {
        add(LimitKind::Wall(limit.value), &limit.origin, Keeper::Launcher);
    }
    if let Some(limit) = &limits.cpu {
        add(LimitKind::Cpu(limit.value), &limit.origin, Keeper::RlimitOfEach);
    }
    if let Some(limit) = &limits.memory {
        let keeper = if counts_memory { Keeper::Cgroup } else { Keeper::RlimitPerProcess };
        add(LimitKind::Memory(limit.value), &limit.origin, keeper);
    }
    if let Some(limit) = &limits.pids {
        let is_default = limit.origin == Origin::Builtin;
        let keeper = match identity {
            // A run looks for a cgroup only if the policy asks for a limit, because that costs time. The default does without one
            // wherever an rlimit counts the cage alone.
            Identity::Caller | Identity::MappedRoot { .. } if is_default && cage != Cage::Landlock => {
                Keeper::RlimitOfCage
            }
            _ if counts_pids => Keeper::Cgroup,
            // The kernel never counts processes against the real uid 0.
            Identity::BareRoot => Keeper::Nobody,
            // Counted per user over the whole machine where there is no user namespace: a user who has many processes already could
            // then start none in the cage.
            _ if cage == Cage::Landlock && is_default => Keeper::NotByDefault,
            _ if cage == Cage::Landlock => Keeper::RlimitOfUser,
            _ => Keeper::RlimitOfCage,
        };
        add(LimitKind::Pids(limit.value), &limit.origin, keeper);
    }
    if let Some(limit) = &limits.open_files {
        add(LimitKind::OpenFiles(limit.value), &limit.origin, Keeper::RlimitOfEach);
    }
    if let Some(limit) = &limits.output {
        add(LimitKind::Output(limit.value), &limit.origin, Keeper::Launcher);
    }
    let inotify = match (cage, &facts.kernel.inotify) {
        (Cage::Landlock, _) => Keeper::NoNamespace,
        (_, Fact::Holds) => Keeper::UserNamespace,
        (_, Fact::Refused { .. }) => Keeper::Refused,
    };
    add(LimitKind::Inotify, &Origin::Builtin, inotify);
    let queues = if cage == Cage::Landlock { Keeper::NoNamespace } else { Keeper::RlimitOfCage };
    add(LimitKind::Queues, &Origin::Builtin, queues);
    all
}

impl Plan {
    /// The project's root, if the command may write to it.
    pub fn writable_project(&self) -> Option<&Path> {
        let project = self.view.project.as_deref()?;
        let is_root = |entry: &&Entry| entry.rule == "project" && entry.target == project;
        let entry = self.view.entries.iter().find(is_root)?;
        matches!(entry.shown, Shown::Writable(_)).then_some(project)
    }

    /// Whether the command may write to the directory that is shown at this path.
    pub fn may_write(&self, path: &Path) -> bool {
        view::covering(&self.view.entries, path)
            .is_some_and(|entry| matches!(entry.shown, Shown::Writable(_)))
    }

    /// Whether what the command prints goes through the vault.
    pub fn redacts(&self) -> bool {
        !self.secrets.is_empty() && self.redact.value == Redact::On
    }

    /// Whether what is put over a path of the project holds: only mounts can.
    pub fn protects_footholds(&self) -> bool {
        self.cage != Cage::Landlock
    }

    /// How many processes of ours live in the cage and do not count against the command: init, and the warden where there is one.
    pub fn own_processes(&self) -> u64 {
        1 + u64::from(self.protect.value == Protect::Strict)
    }

    /// Paths that the child may write to, for the second wall.
    pub fn writable(&self) -> impl Iterator<Item = &Path> {
        self.view.entries.iter().filter_map(|entry| match entry.shown {
            Shown::Writable(_)
            | Shown::Private { .. }
            | Shown::Cache { .. }
            | Shown::Layer(_)
            | Shown::Queues
            | Shown::Repository { .. } => Some(entry.target.as_path()),
            _ => None,
        })
    }
}
