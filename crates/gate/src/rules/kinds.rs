//! The words with which rules name places, origins and needs. The build reads rules with them too, so that this module knows no other.

/// A set of kinds of places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places(pub u32);

/// Names of the kinds, as rules write them; the number of each is its place in the list.
pub const PLACES: [&str; 17] = [
    "root",       // `/`, or all that is in it
    "system-top", // `/etc`, `/usr` and their like as a whole
    "system",     // something below them
    "home",       // a home, or all that is in it
    "in-home",    // something below a home
    "parent",     // outside the project, by `..`
    "here",       // the project as a whole: `.`, `*`
    "project",    // something below the project
    "git",        // `.git` as a whole, or something in it
    "temporary",  // below `/tmp` and its like
    "device",     // a disk
    "credential", // a file that holds a credential
    "startup",    // a file that makes programs start
    "process",    // memory and environment of processes
    "network",    // a connection, as bash opens it
    "kernel",     // what makes the kernel act at once
    "privilege",  // a file that says who has the rights of root
];

impl Places {
    pub const NONE: Places = Places(0);

    pub fn from_word(word: &str) -> Option<Places> {
        PLACES.iter().position(|name| *name == word).map(|at| Places(1 << at))
    }

    pub fn and(self, other: Places) -> Places {
        Places(self.0 | other.0)
    }

    pub fn meets(self, other: Places) -> bool {
        self.0 & other.0 != 0
    }

    pub fn without(self, other: Places) -> Places {
        Places(self.0 & !other.0)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Where a text comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taint(pub u8);

impl Taint {
    pub const NONE: Taint = Taint(0);
    /// From the network.
    pub const DOWNLOAD: Taint = Taint(1);
    /// From a credential.
    pub const SECRET: Taint = Taint(2);
    /// Was written so that it cannot be read.
    pub const DECODED: Taint = Taint(4);

    pub fn and(self, other: Taint) -> Taint {
        Taint(self.0 | other.0)
    }

    pub fn has(self, other: Taint) -> bool {
        self.0 & other.0 != 0
    }

    pub fn from_word(word: &str) -> Option<Taint> {
        match word {
            "download" => Some(Taint::DOWNLOAD),
            "secret" => Some(Taint::SECRET),
            "decoded" => Some(Taint::DECODED),
            _ => None,
        }
    }
}

/// What a command must be able to reach before it can do the harm that a rule is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Needs {
    /// It can do it anywhere.
    #[default]
    Nothing,
    /// Other machines.
    Network,
    /// To write in the project.
    Project,
    /// What of the machine lies outside of a cage: its system, its services, HOMEs and credentials.
    Machine,
    /// Anything outside of the cage: other machines, or something of this one. What cannot be understood could reach for it.
    Reach,
    /// The same as `Project`; but in a cage that reaches nothing, `refs/keyward/kept` or git itself brings it back.
    Kept,
    /// The same as `Project`, and changes that are not committed.
    Changes,
    /// The same as `Project`, and files that git neither knows nor ignores.
    Untracked,
    /// The same as `Project`, and changes in what git checks out over them. Where they are known, they decide, and `args` do not count.
    Checkout,
    /// The same as `Project`, and a file that the command names. Where it is known that there is none, nothing can be lost.
    Content,
    /// The same as `Project`, and a further working tree that holds more than git has.
    Worktree,
    /// Work in the paths of the command that git does not have. Counts only where that is known.
    Work,
    /// The same, where the paths are moved to the last one and that is gone with the cage.
    Moved,
    /// Changes in files that a pattern of the command finds. Counts only where that is known.
    Matched,
    /// Changes of the command's paths that are not committed. Counts only where that is known.
    Tracked,
    /// Changes that are not staged. Counts only where that is known.
    Unstaged,
}

impl Needs {
    /// Whether it is about work that has to be looked for: where that is not known, the rule does not count.
    pub fn known_work(self) -> bool {
        matches!(self, Needs::Work | Needs::Moved | Needs::Matched | Needs::Tracked | Needs::Unstaged)
    }

    pub fn from_word(word: &str) -> Option<Needs> {
        match word {
            "network" => Some(Needs::Network),
            "project" => Some(Needs::Project),
            "machine" => Some(Needs::Machine),
            "reach" => Some(Needs::Reach),
            "kept" => Some(Needs::Kept),
            "changes" => Some(Needs::Changes),
            "untracked" => Some(Needs::Untracked),
            "checkout" => Some(Needs::Checkout),
            "content" => Some(Needs::Content),
            "worktree" => Some(Needs::Worktree),
            "work" => Some(Needs::Work),
            "moved" => Some(Needs::Moved),
            "matched" => Some(Needs::Matched),
            "tracked" => Some(Needs::Tracked),
            "unstaged" => Some(Needs::Unstaged),
            _ => None,
        }
    }
}

/// How a function of a language runs something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// The first argument is a shell line.
    Line,
    /// The first argument is a list, or a shell line.
    Arguments,
    /// The first argument is a program, the second or the further ones its arguments.
    Executable,
    /// The first argument is code.
    Code,
}

impl Runs {
    pub fn from_word(word: &str) -> Option<Runs> {
        match word {
            "shell" => Some(Runs::Line),
            "arguments" => Some(Runs::Arguments),
            "program" => Some(Runs::Executable),
            "code" => Some(Runs::Code),
            _ => None,
        }
    }
}

/// What a rule decides. A rule never allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decides {
    Ask,
    Deny,
    Forbid,
}

impl Decides {
    pub fn as_str(self) -> &'static str {
        match self {
            Decides::Ask => "ask",
            Decides::Deny => "deny",
            Decides::Forbid => "forbid",
        }
    }

    pub fn from_word(word: &str) -> Option<Decides> {
        [Decides::Ask, Decides::Deny, Decides::Forbid].into_iter().find(|one| one.as_str() == word)
    }
}

/// The language that a rule or an interpreter is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tongue {
    #[default]
    Shell,
    Python,
    JavaScript,
}

impl Tongue {
    pub fn from_word(word: &str) -> Option<Tongue> {
        match word {
            "sh" => Some(Tongue::Shell),
            "python" => Some(Tongue::Python),
            "js" => Some(Tongue::JavaScript),
            _ => None,
        }
    }

    /// What stands before the names of its functions in the index.
    pub fn prefix(self) -> &'static str {
        match self {
            Tongue::Shell => "",
            Tongue::Python => "python:",
            Tongue::JavaScript => "js:",
        }
    }
}
