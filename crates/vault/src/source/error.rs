//! Why there is no value, in two lines: the fact, and what can be done. Nothing that a source said is repeated.

use crate::secret::{LARGEST, Unread};
use crate::store::StoreError;
use keyward_policy::secret::{Credential, Part, Reference};
use keyward_policy::trouble::{Code, Trouble};
use std::fmt;
use std::io;

/// A value that could not be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceError {
    /// The reference, as far as it is shown: of a command, the program alone.
    pub reference: String,
    pub why: Why,
    /// How the source is called in the second line.
    hint: Hint,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is no such thing.
    NotFound,
    /// The thing is there, and not the part of it that is meant.
    NoSuchPart,
    /// More than one thing is meant.
    Ambiguous,
    /// The program is not installed.
    NotInstalled(String),
    /// The source is locked, and no person could be asked to open it, or opened it.
    Locked,
    /// No answer within so many seconds.
    TimedOut(u64),
    /// The value has more bytes than a secret has.
    TooLarge,
    /// There is no byte in it.
    Empty,
    /// It is not a text that could be a secret.
    Garbage,
    /// It is not written in the format that it should have.
    Malformed(&'static str),
    /// Others could read or replace it.
    Exposed(String),
    /// The program ended with this code, or by a signal.
    Failed { program: String, code: Option<i32> },
    /// The store could not open it.
    Store(Box<StoreError>),
    /// There is no session bus, or no keyring on it.
    NoKeyring,
    /// The system refused.
    Io(io::ErrorKind),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hint {
    Store,
    Keyring,
    Pass { field: bool, path: String },
    Env(String),
    File { part: Part },
    Cmd,
    SystemdCreds { named: bool },
    Login,
}

impl SourceError {
    pub(crate) fn new(reference: &Reference, why: Why) -> Self {
        let hint = match reference {
            Reference::Store(_) => Hint::Store,
            Reference::Keyring(_) => Hint::Keyring,
            Reference::Pass { path, field } => Hint::Pass { field: field.is_some(), path: path.clone() },
            Reference::Env(name) | Reference::ProxyLogin(name) => Hint::Env(name.clone()),
            Reference::File { part, .. } => Hint::File { part: part.clone() },
            Reference::Cmd { .. } => Hint::Cmd,
            Reference::SystemdCreds(credential) => {
                Hint::SystemdCreds { named: matches!(credential, Credential::Named(_)) }
            }
            Reference::Login { .. } => Hint::Login,
        };
        let reference = match reference {
            Reference::Cmd { program, .. } => format!("cmd://{program}"),
            reference => reference.to_string(),
        };
        SourceError { reference, why, hint }
    }

    fn fact(&self) -> String {
        let at = &self.reference;
        match &self.why {
            Why::NotFound => format!("{at} is not there"),
            Why::NoSuchPart => format!("{at}: it is there, but not this part of it"),
            Why::Ambiguous => format!("{at} means more than one item"),
            Why::NotInstalled(program) => format!("{at} needs the program {program}, which is not installed"),
            Why::Locked => format!("{at} is locked"),
            Why::TimedOut(seconds) => format!("{at} gave no answer within {seconds} seconds"),
            Why::TooLarge => format!("{at} has more than {} KiB", LARGEST / 1024),
            Why::Empty => format!("{at} is empty"),
            Why::Garbage => format!("{at} is not text: it holds control characters or is not UTF-8"),
            Why::Malformed(what) => format!("{at}: {what}"),
            Why::Exposed(how) => format!("{at} is not private: {how}"),
            Why::Failed { program, code: Some(code) } => format!("{at}: {program} failed with code {code}"),
            Why::Failed { program, code: None } => format!("{at}: {program} was killed"),
            Why::Store(error) => format!("{at}: {}", error.lines().0),
            Why::NoKeyring => format!("{at}: there is no keyring on the session bus"),
            Why::Io(kind) => format!("{at} cannot be read: {kind}"),
        }
    }

    fn remedy(&self) -> String {
        match (&self.why, &self.hint) {
            (Why::Store(error), _) => error.lines().1,
            (Why::NotInstalled(program), _) => format!("install {program}, or keep the value elsewhere, such as in store://"),
            (Why::Locked, Hint::Pass { .. }) => "unlock the key of gpg: run `pass show` once, or start from a terminal".to_owned(),
            (Why::Locked, _) => "unlock it first, or start from a terminal or a desktop where you can be asked".to_owned(),
            (Why::NoKeyring, _) => {
                "start a keyring such as gnome-keyring, and pass DBUS_SESSION_BUS_ADDRESS on".to_owned()
            }
            (Why::TimedOut(_), Hint::Cmd) => {
                "a program gets no input unless you are at a terminal; run it by hand to see what it waits for".to_owned()
            }
            (Why::TimedOut(_), _) => "check whether it waits for you somewhere, and try again".to_owned(),
            (Why::Exposed(_), _) => "take the rights away from others: chmod go-rwx, and own the file yourself".to_owned(),
            (Why::TooLarge | Why::Garbage, Hint::Cmd) => {
                "the program must print the value and nothing else; run it by hand and look".to_owned()
            }
            (Why::TooLarge | Why::Garbage, _) => "this is probably not the value that you mean; look at the source".to_owned(),
            (Why::Ambiguous, _) => "say which: keyring://SERVICE/ACCOUNT, or more attributes after `?`".to_owned(),
            (Why::Failed { .. }, Hint::Cmd) => "run it by hand to see what it says; it is not shown here, as it may hold the value".to_owned(),
            (Why::Failed { program, .. }, _) => format!("run {program} by hand to see what it says; it is not shown here, as it may hold the value"),
            (Why::Empty, Hint::Cmd) => "the program must print the value to its standard output; run it by hand and look".to_owned(),
            (Why::NotFound, Hint::Pass { path, .. }) => format!("`pass ls` shows what is there; `pass insert` adds an entry at {path:?}"),
            (Why::NoSuchPart, Hint::Pass { field: true, .. }) => {
                "the entry needs a line `FIELD: value` below its first; `pass edit` changes it".to_owned()
            }
            (Why::NotFound, Hint::Env(name)) => format!("set {name} where keyward is started, or keep the value in store://"),
            (Why::NotFound, Hint::Keyring) => "look which attributes the item has: `secret-tool search --all ATTRIBUTE VALUE`".to_owned(),
            (Why::NotFound, Hint::SystemdCreds { named: true }) => {
                "give it to the service with LoadCredential= or LoadCredentialEncrypted=, or name a file: systemd-creds:///path"
                    .to_owned()
            }
            (Why::NoSuchPart, Hint::File { part: Part::Dotenv(_) }) => {
                "the file needs a line NAME=value with this name".to_owned()
            }
            (Why::NoSuchPart, Hint::File { .. }) => "the pointer must lead to a text or a number in the file".to_owned(),
            _ => "check the reference, and what it leads to".to_owned(),
        }
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.fact(), self.remedy())
    }
}

impl std::error::Error for SourceError {}

impl From<SourceError> for Trouble {
    fn from(error: SourceError) -> Self {
        let code = match &error.why {
            Why::Locked | Why::TimedOut(_) => Code::SecretLocked,
            Why::Store(error) => error.code(),
            _ => Code::NoSecret,
        };
        Trouble { code, fact: error.fact(), remedy: error.remedy() }
    }
}

impl From<Unread> for Why {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::TooLarge => Why::TooLarge,
            Unread::Io(error) => error.into(),
        }
    }
}

impl From<io::Error> for Why {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Why::NotFound,
            kind => Why::Io(kind),
        }
    }
}

impl From<rustix::io::Errno> for Why {
    fn from(errno: rustix::io::Errno) -> Self {
        io::Error::from(errno).into()
    }
}
