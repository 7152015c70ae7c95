//! What the kernel grants this user on this machine, found by doing each thing once (`launch::probe`).

use serde::Serialize;
use std::path::PathBuf;

/// Something the kernel grants or refuses here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Fact {
    Holds,
    /// It was tried and refused; `why` is the kernel's word for it.
    Refused {
        why: String,
    },
}

impl Fact {
    pub const fn holds(&self) -> bool {
        matches!(self, Fact::Holds)
    }
}

/// The kernel, as seen by this user on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KernelFacts {
    pub user_namespace: Fact,
    /// tmpfs, binds and pivot inside a mount namespace.
    pub mounts: Fact,
    /// A procfs of one's own in a new PID namespace.
    pub fresh_proc: Fact,
    pub network_namespace: Fact,
    /// The version of Landlock; 0 means none.
    pub landlock_abi: i32,
    pub seccomp: Fact,
    /// A seccomp filter that asks another process.
    pub notification: Fact,
    /// Mounts that show files under other owners. Only root can make them.
    pub mapped_owners: Fact,
    /// An unprivileged overlay.
    pub overlay: Fact,
    /// A user namespace of one's own takes limits on inotify.
    pub inotify: Fact,
    /// Tracing of one's own children, which Yama can close.
    pub tracing: Fact,
    /// A cgroup v2 folder that we may make children in.
    pub cgroup: Option<Cgroup>,
}

/// A cgroup that is delegated to the caller, and the controllers that its children get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cgroup {
    #[serde(serialize_with = "crate::text::path")]
    pub path: PathBuf,
    pub memory: bool,
    pub pids: bool,
}

impl KernelFacts {
    /// A kernel that grants everything: what a run assumes at first, because the run itself is the proof. Each step is done for
    /// real before the child starts; if one is refused, the launcher probes and plans again.
    pub fn hopeful(landlock_abi: i32) -> Self {
        KernelFacts {
            user_namespace: Fact::Holds,
            mounts: Fact::Holds,
            fresh_proc: Fact::Holds,
            network_namespace: Fact::Holds,
            landlock_abi,
            seccomp: Fact::Holds,
            notification: Fact::Holds,
            mapped_owners: Fact::Holds,
            overlay: Fact::Holds,
            inotify: Fact::Holds,
            tracing: Fact::Holds,
            cgroup: None,
        }
    }
}
