//! The small words of the house: closed choices that every stage uses.
//!
//! Each choice is ordered, and the greater value is always the stricter one, so that "the strictest wins" is `max`.

use serde::Serialize;
use std::fmt;

/// Declares a closed choice with one spelling that the policy file, the flags, `explain` and JSON all use.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every value, weakest first.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The one spelling of this value.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }

            /// The value with this spelling.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some($name::$variant),)+ _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                $name::parse(&text).ok_or_else(|| serde::de::Error::custom("no such word"))
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

choice! {
    /// Who the child is to us.
    TrustClass {
        /// The embedding agent's own workers.
        Internal = "internal",
        /// A program that itself needs a named credential.
        Executor = "executor",
        /// A third-party tool, skill, MCP server or analyser.
        Tool = "tool",
        /// Eval-style commands and generated code. The default: without a setting the child gets the least.
        Unknown = "unknown",
    }
}

impl TrustClass {
    /// Whether `inherit_credentials` may hand a child of this class a credential by name.
    pub const fn may_inherit_credentials(self) -> bool {
        matches!(self, TrustClass::Internal | TrustClass::Executor)
    }

    /// Whether a child of this class may be shown the login of a tool.
    pub const fn may_have_logins(self) -> bool {
        matches!(self, TrustClass::Internal | TrustClass::Executor)
    }
}

choice! {
    /// The set of promises the policy insists on.
    Floor {
        /// Accepts the fixed list of promises that fall away where namespaces are refused.
        Landlock = "landlock",
        /// Every promise, or no run. The default.
        Full = "full",
    }
}

choice! {
    /// What happens when the child makes something that would run outside the cage later.
    Protect {
        /// It is taken out of the tree when it is noticed, and at the end of the run. The default.
        Notice = "notice",
        /// It cannot be made at all; each creation of a file costs some microseconds more.
        Strict = "strict",
    }
}

choice! {
    /// How much is searched for secret files, footholds and repositories.
    SearchExtent {
        /// The first directories, and none that tools fill. What is left out is open to the child, with all that is in it.
        Bounded = "bounded",
        /// Everything that the child may read or write; what cannot be searched is closed. The default.
        Complete = "complete",
    }
}

choice! {
    /// Which HOME the child has.
    HomeMode {
        /// The user's own, for classes that are trusted with it.
        Real = "real",
        /// The one of its profile, kept from run to run; without a profile an empty one. The default.
        Profile = "profile",
        /// An empty one that is gone with the cage.
        Empty = "empty",
    }
}

choice! {
    /// Who is let near the keyring of the desktop: the Secret Service on Linux, the login keychain on macOS.
    KeyringUse {
        /// Every class, where a tool or the platform asks for it.
        Always = "always",
        /// The classes that may hold a login. The default.
        Trusted = "trusted",
        /// No class.
        Never = "never",
    }
}

choice! {
    /// Whether secrets that a command was given are taken out of what it prints.
    Redact {
        /// It is shown as it is, and the vault forgets a value when it has handed it over.
        Off = "off",
        /// They are, in every form that programs print them in: a notice, not a wall. The default.
        On = "on",
    }
}

choice! {
    /// In which cage the programs run that an agent starts.
    ToolCage {
        /// In the agent's own. The default.
        Same = "same",
        /// Shells and interpreters that the agent finds on its PATH are shims, which run in a narrower cage of the same session.
        Shims = "shims",
    }
}

choice! {
    /// What the cage of an agent's tools may reach.
    ToolNet {
        /// What the agent reaches.
        Same = "same",
        /// Nothing, except for what flags of the command line allow. The default.
        None = "none",
    }
}

choice! {
    /// How verdicts of the gate are treated.
    GateMode {
        /// Nothing is asked, and the hard floor holds. Loud.
        Yolo = "yolo",
        /// An external program may answer what would be asked.
        Judge = "judge",
        /// An approver is asked about what reaches past the cage. The default.
        Auto = "auto",
        /// An approver is asked also about what stays in the cage.
        Ask = "ask",
        /// What would be asked is refused.
        Deny = "deny",
    }
}

choice! {
    /// What becomes of a command. The strictest part of a script decides.
    Verdict {
        /// Nothing in it reaches past the cage.
        Allow = "allow",
        /// An approver has to say yes.
        Ask = "ask",
        Deny = "deny",
        /// The hard floor: no mode, grant, flag or policy lifts it.
        Forbid = "forbid",
    }
}

choice! {
    /// Whether an approver is available for questions.
    Attended {
        /// A person looks at `keyward approvals`, also when none of them says so.
        Always = "always",
        /// Who is there when the run begins: a terminal, `keyward approvals -f`, a webhook, an embedding program. The default.
        Auto = "auto",
        /// No approver: questions are denied.
        Never = "never",
    }
}

choice! {
    /// What the child may reach.
    NetMode {
        /// The host's network, unfiltered. Loud.
        Open = "open",
        /// What rules allow, host by host; everything else is refused and named.
        Rules = "rules",
        /// Only the cage's own loopback.
        None = "none",
    }
}

choice! {
    /// What happens when a program wants a host that no rule allows.
    NetAsk {
        /// An approver is asked while the program waits.
        Yes = "true",
        /// It is refused at once. The default.
        No = "false",
    }
}

choice! {
    /// How the project may be used where mounts cannot protect it (floor `landlock`).
    ProjectGuard {
        /// Writable without protection of what is inside. By name only.
        Unprotected = "unprotected",
        /// Writable behind mounts; where there are none, read-only. The default.
        Protected = "protected",
    }
}

choice! {
    /// A part of the kernel surface that a policy may open again.
    Allowance {
        /// Debuggers and LeakSanitizer, for the cage's own processes.
        Ptrace = "ptrace",
        /// The devices of the GPU, but for those that drive a screen.
        Gpu = "gpu",
    }
}

impl Allowance {
    /// What is open with it.
    pub const fn opens(self) -> &'static str {
        match self {
            Allowance::Ptrace => "ptrace is open for the cage's own processes",
            Allowance::Gpu => "the driver of the GPU is open",
        }
    }
}

/// Where a value comes from: the layer, and for files the line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "layer")]
pub enum Origin {
    /// Compiled in.
    Builtin,
    /// Compiled in, for one agent: `profiles/NAME.toml`.
    Profile { profile: &'static str },
    /// A variable of the caller's environment, such as `ANTHROPIC_BASE_URL`.
    Variable { variable: String },
    /// A flag of the command line, such as `--read`.
    Flag { flag: &'static str },
    /// A line of a policy file.
    File { file: String, line: usize },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Builtin => f.write_str("built in"),
            Origin::Profile { profile } => write!(f, "built-in profile {profile}"),
            Origin::Variable { variable } => write!(f, "{variable} of your environment"),
            Origin::Flag { flag } => f.write_str(flag),
            Origin::File { file, line } => write!(f, "{file}:{line}"),
        }
    }
}

/// A value and the place that decided it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ruled<T> {
    pub value: T,
    pub origin: Origin,
}

impl<T> Ruled<T> {
    pub const fn builtin(value: T) -> Self {
        Ruled { value, origin: Origin::Builtin }
    }
}
