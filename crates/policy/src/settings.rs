//! The effective policy: what remains after all layers were read, merged and held under the ceiling.
//!
//! Built by [`crate::config::resolve`]; every value carries the place it came from, so that `why` can point to it.

use crate::secret::{Entry, Grant};
use crate::tools::Tool;
use crate::witness::Witness;
use crate::words::{
    Allowance, Floor, HomeMode, KeyringUse, NetMode, ProjectGuard, Protect, Redact, Ruled, TrustClass,
};
use std::path::PathBuf;
use std::time::Duration;

/// What is allowed, for one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The profile that was chosen, if any.
    pub profile: Option<String>,
    pub trust: Ruled<TrustClass>,
    pub floor: Ruled<Floor>,
    pub project: Ruled<ProjectGuard>,
    pub protect: Ruled<Protect>,
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
    pub env: EnvPolicy,
    pub files: FilesPolicy,
    pub net: Ruled<NetMode>,
    pub limits: Limits,
    /// Who is told the head of the ledger.
    pub witness: Vec<Ruled<Witness>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvPolicy {
    /// Further names that pass, as long as neither name nor value looks like a credential.
    pub pass: Vec<Ruled<String>>,
    /// Variables we set ourselves: name and value.
    pub set: Vec<Ruled<(String, String)>>,
    /// False hits of the credential shapes, cleared by name.
    pub not_secret: Vec<Ruled<String>>,
    /// Loader and interpreter variables that pass all the same.
    pub dangerous_loader_env: Vec<Ruled<String>>,
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

impl Default for Policy {
    /// The built-in policy: what holds when there is no file and no flag.
    fn default() -> Self {
        Policy {
            profile: None,
            // Whoever says nothing about the child gets the class that receives nothing.
            trust: Ruled::builtin(TrustClass::Unknown),
            // Every promise, or a refusal that says which one cannot be kept.
            floor: Ruled::builtin(Floor::Full),
            project: Ruled::builtin(ProjectGuard::Protected),
            protect: Ruled::builtin(Protect::Notice),
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
            env: EnvPolicy::default(),
            files: FilesPolicy::default(),
            // The cage's own loopback is enough for tests and local servers; the rest is asked for by name.
            net: Ruled::builtin(NetMode::None),
            limits: Limits::default(),
            // Nobody is told what they have not asked to hear.
            witness: Vec::new(),
        }
    }
}
