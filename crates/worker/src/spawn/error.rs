//! What can go wrong, in two lines: the fact, then what a person can do. In each of these cases the command did not run, or its session is
//! lost.

use keyward_policy::outcome::code::USAGE;
use keyward_policy::trouble::{Code, Trouble};
use serde_json::Value;
use std::fmt;

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The gate or an approver said no.
    Denied,
    /// The policy, the host or the arguments do not allow it.
    Refused,
    /// The program is not in the cage.
    NotFound,
    /// The program is there and cannot be executed.
    NotExecutable,
    /// There is no executable of Keyward.
    NotInstalled,
    /// The executable or the session speaks another version of the protocol.
    VersionMismatch,
    /// The session has ended, or belongs to another process.
    SessionLost,
    /// Keyward, or something that it needs, failed.
    Fault,
}

/// Why a command did not run, or was lost with its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Facts>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Facts {
    kind: ErrorKind,
    fact: String,
    remedy: String,
    code: String,
    rule: Option<String>,
    reason: Option<String>,
    retryable: bool,
}

impl Error {
    pub(super) fn new(kind: ErrorKind, fact: impl Into<String>, remedy: impl Into<String>) -> Self {
        let code = match kind {
            ErrorKind::Denied => Code::Denied,
            ErrorKind::Refused => Code::Refused,
            ErrorKind::NotFound => Code::NotFound,
            ErrorKind::NotExecutable => Code::NotExecutable,
            ErrorKind::SessionLost => Code::SessionEnded,
            ErrorKind::NotInstalled | ErrorKind::VersionMismatch | ErrorKind::Fault => Code::SessionFailed,
        };
        Error::of_trouble(kind, Trouble::new(code, fact, remedy), None)
    }

    /// The arguments do not allow it: exit code 120 of the command line.
    pub(super) fn usage(fact: impl Into<String>, remedy: impl Into<String>) -> Self {
        Error::of_trouble(ErrorKind::Refused, Trouble::new(Code::Usage, fact, remedy), None)
    }

    pub(super) fn system(what: &str, error: &std::io::Error) -> Self {
        let remedy = "the limit on open files or processes may be reached; `ulimit -a` shows it";
        Error::new(ErrorKind::Fault, format!("{what}: {}", lower(&error.to_string())), remedy)
    }

    pub(super) fn lost() -> Self {
        Error::new(ErrorKind::SessionLost, "the session has ended", "open another: Session::open()")
    }

    /// The error of a launcher that did not write what came of it: its code, and what it has printed.
    pub(super) fn of_launcher(code: Option<i32>, printed: &[u8]) -> Self {
        let text = String::from_utf8_lossy(printed);
        let (fact, remedy) = text.trim().split_once('\n').unwrap_or((text.trim(), ""));
        let fact = fact.strip_prefix("keyward: ").or_else(|| fact.strip_prefix("error: ")).unwrap_or(fact);
        let fact = if fact.is_empty() { "the launcher has failed" } else { fact };
        match (code, remedy) {
            (Some(USAGE), "") => {
                Error::usage(fact, "`keyward help run` lists the flags, and what each takes")
            }
            (Some(USAGE), remedy) => Error::usage(fact, remedy),
            (_, "") => Error::new(ErrorKind::Fault, fact, "`keyward doctor` shows what this host can do"),
            (_, remedy) => Error::new(ErrorKind::Fault, fact, remedy),
        }
    }

    fn of_trouble(kind: ErrorKind, trouble: Trouble, rule: Option<String>) -> Self {
        let (code, retryable) = (trouble.code.row().name.to_owned(), trouble.retry());
        let (fact, remedy) = (trouble.fact, trouble.remedy);
        Error(Box::new(Facts { kind, fact, remedy, code, rule, reason: None, retryable }))
    }

    /// The error of an outcome in which no command ran, as `keyward run --outcome-fd` writes it.
    pub(super) fn of_outcome(told: &Value) -> Self {
        let text = |name: &str| told.get(name).and_then(Value::as_str).map(str::to_owned);
        let kind = match (told.get("exit").and_then(Value::as_i64), text("outcome").as_deref()) {
            (Some(126), _) => ErrorKind::NotExecutable,
            (Some(127), _) => ErrorKind::NotFound,
            (_, Some("denied")) => ErrorKind::Denied,
            (_, Some("refused")) | (Some(120), _) => ErrorKind::Refused,
            _ => ErrorKind::Fault,
        };
        Error(Box::new(Facts {
            kind,
            fact: text("fact").unwrap_or_else(|| "the command did not run".into()),
            remedy: text("remedy").unwrap_or_default(),
            code: text("code").unwrap_or_else(|| Code::Internal.row().name.into()),
            rule: text("rule"),
            reason: text("reason"),
            retryable: told.get("retry").and_then(Value::as_bool).unwrap_or(false),
        }))
    }

    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What happened.
    pub fn fact(&self) -> &str {
        &self.0.fact
    }

    /// What a person can do about it.
    pub fn remedy(&self) -> &str {
        &self.0.remedy
    }

    /// A word for programs, as in `docs/errors.md`.
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// The rule that decided, if one did.
    pub fn rule(&self) -> Option<&str> {
        self.0.rule.as_deref()
    }

    /// Why the rule says so.
    pub fn reason(&self) -> &str {
        match &self.0.reason {
            Some(reason) => reason,
            None => self.0.fact.strip_prefix("denied: ").unwrap_or(&self.0.fact),
        }
    }

    /// Whether the same call may succeed later, without a change.
    pub fn retryable(&self) -> bool {
        self.0.retryable
    }
}

fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

impl From<keyward_client::Error> for Error {
    fn from(error: keyward_client::Error) -> Self {
        use keyward_client::Error as Client;
        let kind = match &error {
            Client::Refused { exit, .. } => match exit {
                Some(123) => ErrorKind::Denied,
                Some(126) => ErrorKind::NotExecutable,
                Some(127) => ErrorKind::NotFound,
                Some(120) | None => ErrorKind::Refused,
                Some(_) => ErrorKind::Fault,
            },
            Client::OtherVersion { .. } => ErrorKind::VersionMismatch,
            Client::NoSession { .. } | Client::Ended | Client::NoAnswer => ErrorKind::SessionLost,
            Client::TooLong => ErrorKind::Refused,
            Client::NoDescriptors | Client::Detached { .. } => ErrorKind::Fault,
        };
        let told = match &error {
            Client::Refused { rule, retry, .. } => Some((rule.clone(), *retry)),
            _ => None,
        };
        let mut made = Error::of_trouble(kind, error.into(), None);
        if let Some(told) = told {
            (made.0.rule, made.0.retryable) = told;
        }
        made
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.remedy.as_str() {
            "" => write!(out, "{}", self.0.fact),
            remedy => write!(out, "{}\n{remedy}", self.0.fact),
        }
    }
}

impl std::error::Error for Error {}

/// So that a program that returned the errors of `std::process::Command` can go on doing so.
impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        use std::io::ErrorKind as Io;
        let kind = match error.kind() {
            ErrorKind::Denied | ErrorKind::Refused | ErrorKind::NotExecutable => Io::PermissionDenied,
            ErrorKind::NotFound | ErrorKind::NotInstalled => Io::NotFound,
            ErrorKind::VersionMismatch => Io::Unsupported,
            ErrorKind::SessionLost => Io::BrokenPipe,
            ErrorKind::Fault => Io::Other,
        };
        std::io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyward_client::Error as Client;

    fn refused(exit: Option<i32>, retry: bool) -> Error {
        let trouble = Trouble::new(Code::Refused, "denied: no", "ask");
        Client::Refused { exit, trouble, rule: Some("git-push-force".into()), retry }.into()
    }

    #[test]
    fn the_code_of_a_refusal_is_its_kind_as_in_the_other_languages() {
        for (exit, kind) in [
            (None, ErrorKind::Refused),
            (Some(120), ErrorKind::Refused),
            (Some(123), ErrorKind::Denied),
            (Some(126), ErrorKind::NotExecutable),
            (Some(127), ErrorKind::NotFound),
            (Some(125), ErrorKind::Fault),
        ] {
            assert_eq!(refused(exit, false).kind(), kind, "{exit:?}");
            let exit = serde_json::json!({ "outcome": "fault", "exit": exit, "fact": "f" });
            if kind != ErrorKind::Denied && exit["exit"] != Value::Null {
                assert_eq!(Error::of_outcome(&exit).kind(), kind, "{exit}");
            }
        }
        let denied = refused(Some(123), true);
        assert_eq!(
            (denied.rule(), denied.reason(), denied.retryable()),
            (Some("git-push-force"), "no", true)
        );
        assert!(!refused(Some(123), false).retryable());
    }

    #[test]
    fn what_a_launcher_prints_is_the_error_of_flags_that_it_did_not_take() {
        let told = b"error: invalid value 'sideways' for '--net <MODE>'\n  [possible values: none]\n";
        let error = Error::of_launcher(Some(120), told);
        assert_eq!((error.kind(), error.code()), (ErrorKind::Refused, "usage"));
        assert_eq!(error.fact(), "invalid value 'sideways' for '--net <MODE>'");
        assert!(!Error::of_launcher(Some(120), b"").remedy().is_empty());
        assert_eq!(Error::of_launcher(Some(125), b"keyward: broken\nmend it").kind(), ErrorKind::Fault);
        assert_eq!(Error::of_launcher(None, b"").kind(), ErrorKind::Fault);
    }
}
