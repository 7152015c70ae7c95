//! What can go wrong with the store, in two lines each.

use crate::source::Why;
use keyward_policy::secret::SecretName;
use keyward_policy::trouble::{Code, Trouble};
use std::fmt;
use std::io;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// There is no store yet.
    Missing,
    /// There is one already.
    Exists,
    /// There is no secret of this name.
    NoSecret(SecretName),
    /// A value without a byte.
    Empty,
    /// A file or folder of the store that others could read or replace.
    Exposed { what: String, how: String },
    /// This part of the store cannot be read as what it should be.
    Damaged(&'static str),
    /// This file of the store is not there.
    Gone(String),
    /// The passphrase does not open the identity.
    WrongPassphrase,
    /// The two passphrases differ, or there is none.
    NoPassphrase,
    /// Somebody has to be asked, and nobody can be.
    NobodyToAsk,
    /// Somebody else has been writing for so long.
    Busy,
    /// What was given as an identity or a recipient of a plugin is none.
    NotOfAPlugin(&'static str),
    /// The plugin said no, or nothing that makes sense.
    Plugin { program: String, why: &'static str },
    /// The source that keeps the identity failed: the keyring, the program of a plugin, the terminal.
    Source(Why),
    /// The disk is full.
    Full,
    /// The system refused.
    Io { what: String, kind: io::ErrorKind },
}

impl StoreError {
    pub(crate) fn code(&self) -> Code {
        match self {
            StoreError::NoSecret(_) => Code::NoSecret,
            StoreError::Empty => Code::Usage,
            StoreError::WrongPassphrase
            | StoreError::NobodyToAsk
            | StoreError::Source(Why::Locked | Why::TimedOut(_)) => Code::SecretLocked,
            StoreError::Busy => Code::StoreBusy,
            _ => Code::Store,
        }
    }

    pub(crate) fn lines(&self) -> (String, String) {
        let lines = |fact: &str, remedy: &str| (fact.to_owned(), remedy.to_owned());
        match self {
            StoreError::Missing => lines("there is no store yet", "`keyward secret set NAME` makes one"),
            StoreError::Exists => {
                lines("there is a store already", "`keyward secret set NAME` adds a secret to it")
            }
            StoreError::NoSecret(name) => (
                format!("the store has no secret `{name}`"),
                format!("`keyward secret set {name}` adds it; `keyward secret list` shows what is there"),
            ),
            StoreError::Empty => lines("the value is empty", "nothing was written; give a value"),
            StoreError::Exposed { what, how } => {
                (format!("{what} is not private: {how}"), format!("make it yours alone: chmod go-rwx {what}"))
            }
            StoreError::Damaged(what) => (
                format!("the store is damaged: {what} cannot be read"),
                "put it back from a backup, or set the secret again".to_owned(),
            ),
            StoreError::Gone(what) => (
                format!("the store is damaged: {what} is missing"),
                "put it back from a backup, or make the store anew".to_owned(),
            ),
            StoreError::WrongPassphrase => lines("the passphrase does not open the store", "try again"),
            StoreError::NoPassphrase => {
                lines("no passphrase was given, or not twice the same", "nothing was written; try again")
            }
            StoreError::NobodyToAsk => lines(
                "the store has to ask for something, and there is no terminal",
                "start from a terminal, or keep the identity in the keyring or in a file",
            ),
            StoreError::Busy => lines(
                "another process is writing to the store",
                "wait for it, or end the process that holds store/lock",
            ),
            StoreError::NotOfAPlugin(what) => (
                format!("this is not {what} of an age plugin"),
                "copy the lines that the plugin printed: AGE-PLUGIN-… and age1…".to_owned(),
            ),
            StoreError::Plugin { program, why } => (
                format!("{program} {why}"),
                format!("look whether {program} works with age itself: `age -d -i identity`"),
            ),
            StoreError::Source(Why::NotInstalled(program)) => (
                format!("the store needs {program}, which is not installed"),
                format!("install {program}, and see that it is in PATH"),
            ),
            StoreError::Source(Why::TimedOut(seconds)) => (
                format!("the identity of the store gave no answer within {seconds} seconds"),
                "check whether it waits for you somewhere (a touch, a window), and try again".to_owned(),
            ),
            StoreError::Source(Why::NotFound) => lines(
                "the identity of the store is not in the keyring",
                "check whether this is the keyring of the same account and login as when the store was made",
            ),
            StoreError::Source(Why::NoKeyring) => lines(
                "the identity of the store is in the keyring, and there is none on the session bus",
                "start a keyring such as gnome-keyring, and pass DBUS_SESSION_BUS_ADDRESS on",
            ),
            StoreError::Source(Why::Locked) => lines(
                "the identity of the store is locked",
                "unlock it first, or start where you can be asked",
            ),
            StoreError::Source(_) => lines(
                "the identity of the store cannot be fetched",
                "check the keyring, or the plugin, that keeps it",
            ),
            StoreError::Full => lines("the disk is full", "nothing was changed; make room and try again"),
            StoreError::Io { what, kind } => (
                format!("cannot use {what}: {kind}"),
                "nothing was changed; check the directory of the store".to_owned(),
            ),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (fact, remedy) = self.lines();
        write!(f, "{fact}\n{remedy}")
    }
}

impl std::error::Error for StoreError {}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        let (fact, remedy) = error.lines();
        Trouble { code: error.code(), fact, remedy }
    }
}

impl From<Why> for StoreError {
    fn from(why: Why) -> Self {
        StoreError::Source(why)
    }
}
