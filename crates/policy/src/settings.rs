//! The effective policy: what remains after all layers were read, merged and held under the ceiling.
//!
//! Built by [`crate::config::resolve`]; every value carries the place it came from, so that `why` can point to it.

use crate::agent::{BaseUrl, Command};
use crate::login::Found;
use crate::net::allowed::Allowed;
use crate::net::narrow::Narrowing;
use crate::net::plan::Upstream;
use crate::net::presets::{Registries, Settings};
use crate::secret::{Entry, Grant};
use crate::text::visible;
use crate::tools::Tool;
use crate::witness::Witness;
use crate::words::{
    Allowance, Attended, Floor, GateMode, HomeMode, KeyringUse, NetAsk, NetMode, ProjectGuard, Protect,
    Redact, Ruled, SearchExtent, ToolCage, ToolNet, TrustClass,
};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is allowed, for one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The profile that was chosen, if any.
    pub profile: Option<String>,
    /// How the agent of the profile is started, if it has a file of its own.
    pub agent: Option<Command>,
    pub trust: Ruled<TrustClass>,
    pub floor: Ruled<Floor>,
    pub project: Ruled<ProjectGuard>,
    pub protect: Ruled<Protect>,
    pub search: Ruled<SearchExtent>,
    pub home: HomePolicy,
    /// The folders that profiles name as their HOMEs, as written: each is for its own profile alone.
    pub profile_homes: Vec<(String, PathBuf)>,
    /// Parts of the kernel surface that were opened again.
    pub allow: Vec<Ruled<Allowance>>,
    /// Names of credentials the child receives from the caller's environment.
    pub inherit_credentials: Vec<Ruled<String>>,
    /// Secrets of the vault that the child receives.
    pub secrets: Vec<Ruled<Grant>>,
    /// Whether they are taken out of what it prints.
    pub redact: Ruled<Redact>,
    /// Which secrets there are; looked up only where one is granted.
    pub known_secrets: Vec<Entry>,
    /// Login files that are shown with phantoms in them; looked at only where a proxy replaces those.
    pub logins: Vec<Found>,
    pub env: EnvPolicy,
    pub files: FilesPolicy,
    pub net: Ruled<NetMode>,
    pub network: NetPolicy,
    pub tools: ToolsPolicy,
    pub gate: GatePolicy,
    pub limits: Limits,
    /// Who is told the head of the ledger.
    pub witness: Vec<Ruled<Witness>>,
    /// The files that this policy was made of.
    pub sources: Sources,
}

/// The files that a policy was made of, and those that were found and not obeyed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    pub files: Vec<PolicyFile>,
    /// Project files above the project that belong to another user.
    pub ignored: Vec<IgnoredFile>,
    /// The keys that flags of the command line have set.
    pub flags: Vec<&'static str>,
    /// SHA-256 of the effective policy as it is shown, in hexadecimal digits.
    pub digest: String,
}

/// A policy file that was obeyed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFile {
    pub role: FileRole,
    pub path: PathBuf,
    /// SHA-256 of its bytes, in hexadecimal digits.
    pub digest: String,
}

/// Which layer a policy file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileRole {
    Ceiling,
    User,
    /// The user's own profile of an agent.
    Profile,
    /// In a directory above the project.
    Ancestor,
    Project,
}

/// A project file above the project that was not obeyed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredFile {
    pub path: PathBuf,
    /// Its owner; `None` where the directory does not let the caller look.
    pub owner: Option<u32>,
}

impl IgnoredFile {
    /// One sentence for people.
    pub fn sentence(&self) -> String {
        let path = visible(self.path.as_os_str());
        match self.owner {
            Some(owner) => {
                format!(
                    "{path} is not obeyed: it belongs to another user ({owner}), and only your files and root's are"
                )
            }
            None => format!("{path} is not obeyed: its directory is closed to you"),
        }
    }
}

impl Sources {
    /// The project files above the project that were obeyed.
    pub fn ancestors(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().filter(|file| file.role == FileRole::Ancestor).map(|file| file.path.as_path())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvPolicy {
    /// Further names that pass, as long as neither name nor value looks like a credential.
    pub pass: Vec<Ruled<String>>,
    /// Variables we set ourselves: name and value.
    pub set: Vec<Ruled<(String, String)>>,
    /// False hits of the credential shapes, cleared by name.
    pub not_secret: Vec<Ruled<String>>,
    /// Loader and interpreter variables that pass anyway.
    pub dangerous_loader_env: Vec<Ruled<String>>,
}

/// What is reached, in a cage with a network of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetPolicy {
    /// Rules and presets; they count in the mode `rules` alone.
    pub allow: Vec<Ruled<Allowed>>,
    /// Whether a credential is bound to one of the hosts, so that requests to it are read.
    pub bound: bool,
    /// The most that may be allowed, if the ceiling says so.
    pub most: Option<Vec<Ruled<Allowed>>>,
    /// The lists of project files: of what is allowed, only what each of them names is.
    pub narrowed: Vec<Narrowing>,
    pub ask: Ruled<NetAsk>,
    /// Ports of this machine's loopback that the cage reaches.
    pub reach: Vec<Ruled<u16>>,
    /// Ports of the cage's loopback that this machine reaches.
    pub publish: Vec<Ruled<u16>>,
    /// Hosts that are elsewhere than the DNS says.
    pub upstream: Vec<Ruled<Upstream>>,
    /// Certificates that are trusted beside the system's, as written.
    pub ca: Vec<Ruled<PathBuf>>,
    /// Servers that the user's base URLs name: they may be in a private network.
    pub gateways: Vec<BaseUrl>,
    /// What the user's own settings of package managers say; looked up only where a preset follows them.
    pub registries: Vec<(Settings, Registries)>,
}

impl Default for NetPolicy {
    fn default() -> Self {
        NetPolicy {
            allow: Vec::new(),
            bound: false,
            most: None,
            narrowed: Vec::new(),
            ask: Ruled::builtin(NetAsk::No),
            reach: Vec::new(),
            publish: Vec::new(),
            upstream: Vec::new(),
            ca: Vec::new(),
            gateways: Vec::new(),
            registries: Vec::new(),
        }
    }
}

/// How verdicts of the gate are treated, and who is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatePolicy {
    pub mode: Ruled<GateMode>,
    pub attended: Ruled<Attended>,
    /// How long a question waits; without it [`GatePolicy::WAIT`].
    pub wait: Option<Ruled<Duration>>,
    /// A file with rules of the user's own, as written.
    pub rules: Option<Ruled<PathBuf>>,
    /// The program that may answer, and its arguments; none if empty.
    pub judge: Vec<Ruled<String>>,
    /// How long it may take; without it [`GatePolicy::JUDGE_WAIT`].
    pub judge_wait: Option<Ruled<Duration>>,
    pub webhook: Option<Ruled<String>>,
    /// The name of the secret that signs.
    pub webhook_key: Option<Ruled<String>>,
    pub webhook_listen: Option<Ruled<String>>,
    /// As written.
    pub webhook_ca: Option<Ruled<PathBuf>>,
}

impl GatePolicy {
    pub const WAIT: Duration = Duration::from_secs(5 * 60);
    pub const JUDGE_WAIT: Duration = Duration::from_secs(10);

    /// How long a question waits for its answer.
    pub fn waits(&self) -> Duration {
        self.wait.as_ref().map_or(Self::WAIT, |wait| wait.value)
    }

    /// How long the judge may take.
    pub fn judge_waits(&self) -> Duration {
        self.judge_wait.as_ref().map_or(Self::JUDGE_WAIT, |wait| wait.value)
    }
}

/// Which HOME, and what of the real one is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomePolicy {
    pub mode: Ruled<HomeMode>,
    /// The folder that is the profile's HOME, as written; without it Keyward keeps one.
    pub path: Option<Ruled<PathBuf>>,
    /// Tools whose logins are shown.
    pub tools: Vec<Ruled<&'static Tool>>,
    /// Tools that are shared as a whole.
    pub share: Vec<Ruled<&'static Tool>>,
    pub keyring: Ruled<KeyringUse>,
}

/// The cage of the programs that an agent starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolsPolicy {
    pub cage: Ruled<ToolCage>,
    pub net: Ruled<ToolNet>,
    /// Paths of the agent's that its tools may read as well, as written.
    pub read: Vec<Ruled<PathBuf>>,
    /// Paths of the agent's that its tools may read and change as well, as written.
    pub share: Vec<Ruled<PathBuf>>,
}

impl Default for ToolsPolicy {
    fn default() -> Self {
        ToolsPolicy {
            cage: Ruled::builtin(ToolCage::Same),
            // A tool has no credential that a request could be made with.
            net: Ruled::builtin(ToolNet::None),
            read: Vec::new(),
            share: Vec::new(),
        }
    }
}

/// Paths as written: absolute or beginning with `~/`. The plan expands them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesPolicy {
    pub read: Vec<Ruled<PathBuf>>,
    pub write: Vec<Ruled<PathBuf>>,
    /// Also relative to the project root, and patterns of names in the project.
    pub hide: Vec<Ruled<PathBuf>>,
    /// What looks secret in the project and is not; also relative to its root.
    pub show: Vec<Ruled<PathBuf>>,
}

/// `None` means no limit of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Wall clock of the command.
    pub wall: Option<Ruled<Duration>>,
    /// Processor time of each process.
    pub cpu: Option<Ruled<Duration>>,
    /// Bytes of memory.
    pub memory: Option<Ruled<u64>>,
    /// Processes and threads at a time.
    pub pids: Option<Ruled<u64>>,
    /// Open descriptors of each process.
    pub open_files: Option<Ruled<u64>>,
    /// Bytes the command may print.
    pub output: Option<Ruled<u64>>,
}

impl Limits {
    /// Processes and threads of a cage where the policy names no number. A build with 64 jobs, a browser and a test runner together
    /// have some hundreds up to about 2000. The smallest number of processes that a Linux kernel makes room for by default is 32768,
    /// so that a fork bomb gets an eighth of it and the host can go on. Container runtimes use 2048 to 4096 for the same reasons.
    pub const PIDS: u64 = 4096;
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            wall: None,
            cpu: None,
            memory: None,
            pids: Some(Ruled::builtin(Self::PIDS)),
            open_files: None,
            output: None,
        }
    }
}

impl Default for Policy {
    /// The built-in policy: what holds when there is no file and no flag.
    fn default() -> Self {
        Policy {
            profile: None,
            agent: None,
            // Without a setting the child gets the class that receives nothing.
            trust: Ruled::builtin(TrustClass::Unknown),
            // Every promise, or a refusal that says which one cannot be kept.
            floor: Ruled::builtin(Floor::Full),
            project: Ruled::builtin(ProjectGuard::Protected),
            protect: Ruled::builtin(Protect::Notice),
            // What was not searched is not protected.
            search: Ruled::builtin(SearchExtent::Complete),
            home: HomePolicy {
                mode: Ruled::builtin(HomeMode::Profile),
                path: None,
                tools: Vec::new(),
                share: Vec::new(),
                keyring: Ruled::builtin(KeyringUse::Trusted),
            },
            profile_homes: Vec::new(),
            allow: Vec::new(),
            inherit_credentials: Vec::new(),
            secrets: Vec::new(),
            redact: Ruled::builtin(Redact::On),
            known_secrets: Vec::new(),
            logins: Vec::new(),
            env: EnvPolicy::default(),
            files: FilesPolicy::default(),
            // The cage's own loopback is enough for tests and local servers; the rest is asked for by name.
            net: Ruled::builtin(NetMode::None),
            network: NetPolicy::default(),
            tools: ToolsPolicy::default(),
            gate: GatePolicy {
                mode: Ruled::builtin(GateMode::Auto),
                attended: Ruled::builtin(Attended::Auto),
                wait: None,
                rules: None,
                judge: Vec::new(),
                judge_wait: None,
                webhook: None,
                webhook_key: None,
                webhook_listen: None,
                webhook_ca: None,
            },
            limits: Limits::default(),
            // By default no witness is notified.
            witness: Vec::new(),
            sources: Sources::default(),
        }
    }
}
