//! Promises: what will hold for the child, by which mechanism, and whether it is a wall or a notice.

use crate::words::Floor;
use serde::Serialize;

/// One thing that will hold for the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    Environment,
    Memory,
    CommandLines,
    Files,
    Home,
    Project,
    Repository,
    Footholds,
    PrivateTmp,
    Network,
    Sockets,
    Signals,
    Ipc,
    Descriptors,
    Keyring,
    Terminal,
    KernelSurface,
    Privileges,
    Sysctl,
    Death,
    SecondWall,
}

impl Promise {
    /// All, in the order in which they are shown.
    pub const ALL: &'static [Promise] = &[
        Promise::Environment,
        Promise::Memory,
        Promise::CommandLines,
        Promise::Files,
        Promise::Home,
        Promise::Project,
        Promise::Repository,
        Promise::Footholds,
        Promise::PrivateTmp,
        Promise::Network,
        Promise::Sockets,
        Promise::Signals,
        Promise::Ipc,
        Promise::Descriptors,
        Promise::Keyring,
        Promise::Terminal,
        Promise::KernelSurface,
        Promise::Privileges,
        Promise::Sysctl,
        Promise::Death,
        Promise::SecondWall,
    ];

    /// The name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Promise::Environment => "environment",
            Promise::Memory => "memory",
            Promise::CommandLines => "command-lines",
            Promise::Files => "files",
            Promise::Home => "home",
            Promise::Project => "project",
            Promise::Repository => "repository",
            Promise::Footholds => "footholds",
            Promise::PrivateTmp => "private-tmp",
            Promise::Network => "network",
            Promise::Sockets => "sockets",
            Promise::Signals => "signals",
            Promise::Ipc => "ipc",
            Promise::Descriptors => "descriptors",
            Promise::Keyring => "keyring",
            Promise::Terminal => "terminal",
            Promise::KernelSurface => "kernel-surface",
            Promise::Privileges => "privileges",
            Promise::Sysctl => "sysctl",
            Promise::Death => "death",
            Promise::SecondWall => "second-wall",
        }
    }

    /// What is promised, in one line.
    pub const fn text(self) -> &'static str {
        match self {
            Promise::Environment => "no credential reaches the child's environment unless named",
            Promise::Memory => "environment, memory and descriptors of outside processes are closed",
            Promise::CommandLines => "outside processes and their command lines are not visible",
            Promise::Files => "no file exists for the child unless granted",
            Promise::Home => "the real HOME is closed; the child has one of its own",
            Promise::Project => "the project is writable, and the place it stands in is not",
            Promise::Repository => "git works, and nothing that git on the host would run is left behind",
            Promise::Footholds => {
                "nothing new that programs outside run or obey (.envrc, .vscode, .git) stays in your directories"
            }
            Promise::PrivateTmp => "/tmp, /dev/shm and /run are the cage's own",
            Promise::Network => "nothing outside can be reached over the network",
            Promise::Sockets => "sockets of other programs (agents, buses, displays) cannot be reached",
            Promise::Signals => "outside processes get no signal from the child",
            Promise::Ipc => "shared memory, semaphores and queues of others are not there",
            Promise::Descriptors => "only descriptors 0, 1 and 2 are passed on",
            Promise::Keyring => "the caller's keyrings are not there",
            Promise::Terminal => "the user's terminal is out of reach; the child has one of its own",
            Promise::KernelSurface => "dangerous syscalls are refused, also by 32-bit entry",
            Promise::Privileges => "no capability, and none to be gained",
            Promise::Sysctl => "no setting of the kernel can be written, whichever user started this",
            Promise::Death => "nothing of the cage outlives the launcher",
            Promise::SecondWall => "Landlock repeats the file rules",
        }
    }

    /// Whether this promise may fall away at a floor. The list for `landlock` is fixed and printed.
    pub const fn may_fall(self, floor: Floor) -> bool {
        match floor {
            Floor::Full => false,
            Floor::Landlock => matches!(
                self,
                Promise::CommandLines
                    | Promise::Project
                    | Promise::Repository
                    | Promise::Footholds
                    | Promise::PrivateTmp
                    | Promise::Ipc
                    | Promise::SecondWall
            ),
        }
    }
}

/// What became of a promise in a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "as")]
pub enum Held {
    /// Holds against an attacker who knows it.
    Wall { by: String },
    /// Finds out and says so; an attacker may be faster.
    Notice { by: String },
    /// The policy asked for less, by name.
    Waived { by: String },
    /// This host cannot keep it.
    Gone { because: String },
}

/// A promise and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    pub promise: Promise,
    pub held: Held,
}
