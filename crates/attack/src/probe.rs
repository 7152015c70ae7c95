//! A probe: one act of the child, and how it is judged.

use crate::target::Target;
use keyward_policy::promise::Promise;
use std::io;

/// What the child brought home, or why it did not.
pub type Answer = io::Result<Vec<u8>>;

/// Attacks of one kind.
pub struct Class {
    pub title: &'static str,
    pub probes: &'static [Probe],
}

/// One attack.
pub struct Probe {
    /// What holds, as a sentence. The test of this name runs this probe.
    pub name: &'static str,
    /// What is tried, for people.
    pub tries: &'static str,
    /// What keeps it from working inside.
    pub keeper: Keeper,
    pub(crate) prize: Prize,
    pub(crate) ending: Ending,
    /// What `keyward run` is told for it.
    pub(crate) flags: &'static [&'static str],
    /// The agent has a terminal, and the child gets it as standard input.
    pub(crate) terminal: bool,
    pub(crate) act: fn(&Target) -> Answer,
}

/// A wall or a notice, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    Promise(Promise),
    /// The limits that the run was given.
    Limits,
}

impl Keeper {
    /// Whether it only finds out, in the cage that is the default.
    pub const fn is_notice(self) -> bool {
        matches!(self, Keeper::Promise(Promise::Footholds))
    }

    pub const fn name(self) -> &'static str {
        match self {
            Keeper::Promise(promise) => promise.name(),
            Keeper::Limits => "limits",
        }
    }
}

/// What success looks like. It never rests on the child's word where something can be seen from outside.
#[derive(Clone, Copy)]
pub(crate) enum Prize {
    /// The child brings home the canaries of these places: all of them outside, none of any place inside.
    Canaries(&'static [&'static str]),
    /// The kernel grants it; the child says so.
    Granted,
    /// These files, below the stage, are not as they were: all of them outside, none of them inside.
    Change(&'static [&'static str]),
    /// The same, after the host has looked at the project with git.
    ChangeByGit(&'static [&'static str]),
    /// A daemon is alive when the command has ended.
    Daemon,
}

/// How the command ends.
#[derive(Clone, Copy)]
pub(crate) enum Ending {
    ByItself,
    /// The agent sends a signal to what it has started, as soon as the daemon is there.
    Signal(i32),
}

impl Probe {
    const fn new(
        name: &'static str,
        tries: &'static str,
        promise: Promise,
        prize: Prize,
        act: fn(&Target) -> Answer,
    ) -> Self {
        let keeper = Keeper::Promise(promise);
        Probe { name, tries, keeper, prize, ending: Ending::ByItself, flags: &[], terminal: false, act }
    }

    pub(crate) const fn steals(
        name: &'static str,
        tries: &'static str,
        promise: Promise,
        places: &'static [&'static str],
        act: fn(&Target) -> Answer,
    ) -> Self {
        Probe::new(name, tries, promise, Prize::Canaries(places), act)
    }

    pub(crate) const fn is_granted(
        name: &'static str,
        tries: &'static str,
        promise: Promise,
        act: fn(&Target) -> Answer,
    ) -> Self {
        Probe::new(name, tries, promise, Prize::Granted, act)
    }

    pub(crate) const fn changes(
        name: &'static str,
        tries: &'static str,
        promise: Promise,
        paths: &'static [&'static str],
        act: fn(&Target) -> Answer,
    ) -> Self {
        Probe::new(name, tries, promise, Prize::Change(paths), act)
    }

    pub(crate) const fn changes_by_git(
        name: &'static str,
        tries: &'static str,
        promise: Promise,
        paths: &'static [&'static str],
        act: fn(&Target) -> Answer,
    ) -> Self {
        Probe::new(name, tries, promise, Prize::ChangeByGit(paths), act)
    }

    pub(crate) const fn outlives(
        name: &'static str,
        tries: &'static str,
        ending: Ending,
        act: fn(&Target) -> Answer,
    ) -> Self {
        Probe { ending, ..Probe::new(name, tries, Promise::Death, Prize::Daemon, act) }
    }

    /// More than a limit allows: the kernel grants it on both sides, but for the limit.
    pub(crate) const fn exceeds(
        name: &'static str,
        tries: &'static str,
        flags: &'static [&'static str],
        act: fn(&Target) -> Answer,
    ) -> Self {
        let probe = Probe::new(name, tries, Promise::KernelSurface, Prize::Granted, act);
        Probe { keeper: Keeper::Limits, flags, ..probe }
    }

    /// In a cage whose network follows rules.
    pub(crate) const fn beside_rules(self) -> Self {
        // A name that no resolver knows: nothing is reached by it.
        Probe { flags: &["--allow-net", "keyward.invalid"], ..self }
    }

    pub(crate) const fn on_a_terminal(self) -> Self {
        Probe { terminal: true, ..self }
    }
}

/// The probe of this name.
pub(crate) fn named(name: &str) -> Option<&'static Probe> {
    crate::classes::ALL.iter().flat_map(|class| class.probes).find(|probe| probe.name == name)
}
