//! What is found, whatever the language: one spawn site, one secret, one file that was not read. Pure data.

use serde::Serialize;

/// Which environment the child gets. The order is that of the danger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Environment {
    /// Decided by Keyward.
    Keyward,
    /// Built up from nothing.
    Explicit,
    /// The caller's, without something.
    Filtered,
    /// Made by code that cannot be followed. It may be any of the others, so no threshold lets it pass.
    Unknown,
    /// The caller's, with every credential in it.
    Inherits,
}

impl Environment {
    pub const fn word(self) -> &'static str {
        match self {
            Environment::Keyward => "keyward",
            Environment::Explicit => "explicit",
            Environment::Filtered => "filtered",
            Environment::Unknown => "unknown",
            Environment::Inherits => "inherits",
        }
    }

    pub fn named(word: &str) -> Option<Environment> {
        use Environment::{Explicit, Filtered, Inherits, Keyward, Unknown};
        let all = [Keyward, Explicit, Filtered, Unknown, Inherits];
        all.into_iter().find(|environment| environment.word() == word)
    }
}

/// How far the child is probably to be trusted: the classes of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    Internal,
    Executor,
    Tool,
    Unknown,
}

/// A place of another file, or of the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    pub file: String,
    pub line: usize,
}

/// A secret, by place and kind. Its value is nowhere in here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Secret {
    pub file: String,
    pub line: usize,
    /// The name it has there, if it has one.
    pub name: Option<String>,
    pub kind: String,
    /// The command that keeps it in the vault.
    pub command: String,
}

/// One change of a file that a fix makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub start: usize,
    pub end: usize,
    pub text: String,
    /// A line that has to stand among the imports.
    pub import: Option<&'static str>,
}

/// One place that starts a process.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    pub file: String,
    pub line: usize,
    pub column: usize,
    /// The call, by the name under which its library has it.
    pub call: String,
    pub environment: Environment,
    /// Whether the environment could be followed back to where it is made.
    pub certain: bool,
    pub language: &'static str,
    /// The program, where it is written there.
    pub program: Option<String>,
    pub trust: Trust,
    /// A shell reads the command.
    pub shell: bool,
    /// The command for the shell is put together from other values.
    pub built: bool,
    /// What looks like a secret among the arguments: a kind or a name.
    pub secret_in_argv: Option<String>,
    /// How many secrets stand in the same file.
    pub secrets_in_file: usize,
    /// The function around it, whose callers start this process too.
    pub function: Option<String>,
    pub callers: Vec<Place>,
    /// What to change.
    pub suggestion: String,
    /// The change as a diff, where it is mechanical.
    pub diff: Option<String>,
    /// Stays the same when lines move.
    pub fingerprint: String,
    /// Why a comment in the file allows it.
    pub suppressed: Option<String>,
    /// The baseline has it.
    pub known: bool,
    #[serde(skip)]
    pub edit: Option<Edit>,
    /// The text of the call, for the fingerprint.
    #[serde(skip)]
    pub text: String,
}

/// A file that was not read, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct NotRead {
    pub file: String,
    pub why: String,
}
