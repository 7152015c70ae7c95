//! The kinds of cages that Linux allows, and what a fault in making one is about.

use serde::Serialize;

/// Which kind of cage this host allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cage {
    /// Namespaces, mounts, a fresh procfs.
    Full,
    /// The same, but the host refuses a fresh procfs; the shared one is closed by Landlock.
    SharedProc,
    /// No namespaces: Landlock, seccomp and a guardian.
    Landlock,
}

/// Who the child is to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Identity {
    /// The caller's own user.
    Caller,
    /// Started as root: 0 inside, an unprivileged user outside; root's files are shown as the child's own.
    MappedRoot { outside: u32 },
    /// Started as root where owners cannot be mapped: uid 0 without a single capability.
    BareRoot,
}

/// The unprivileged user that a root caller's child is to the kernel: in the range that no one hands out.
pub const UNPRIVILEGED: u32 = 1_900_000_000;

/// The second wall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Landlock {
    pub abi: i32,
    pub scope_signals: bool,
    pub scope_abstract_sockets: bool,
}

/// What a fault is about. Several acts ([`crate::linux::acts`]) may belong to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Namespaces,
    Identity,
    Session,
    Loopback,
    /// Routes of a network with rules, and the sockets that stand for hosts.
    Network,
    Publish,
    Root,
    View,
    Pivot,
    Terminal,
    Guardian,
    Keyring,
    Secrets,
    Limits,
    Capabilities,
    Warden,
    Landlock,
    Seccomp,
    Descriptors,
    Exec,
    /// The life of the cage itself.
    Init,
}
