//! What did not go as asked, in one shape: a code for programs, the fact, and what the user can do. Both lines on a terminal, the object
//! of `--json` and the exit code come from it. `docs/errors.md` lists the codes.

use crate::outcome::code;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What is told when something did not go as asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    pub code: Code,
    pub fact: String,
    pub remedy: String,
}

impl Trouble {
    pub fn new(code: Code, fact: impl Into<String>, remedy: impl Into<String>) -> Self {
        Trouble { code, fact: fact.into(), remedy: remedy.into() }
    }

    pub const fn exit(&self) -> i32 {
        self.code.row().exit
    }

    /// Whether the same call may go through later, without a change.
    pub const fn retry(&self) -> bool {
        self.code.row().retry
    }

    /// The same, said of something: a session, a secret, a file.
    pub fn of(self, what: &str) -> Self {
        Trouble { fact: format!("{what}: {}", self.fact), ..self }
    }
}

/// What is known of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// How programs name it. It does not change.
    pub name: &'static str,
    pub exit: i32,
    /// Whether the same call may go through later, without a change.
    pub retry: bool,
    pub means: &'static str,
}

/// One list, so that no code lacks its row.
macro_rules! codes {
    ($($code:ident $name:literal $exit:ident $retry:ident $means:literal;)*) => {
        /// What went wrong, for a program.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code {
            $(#[doc = $means] $code,)*
        }

        impl Code {
            pub const ALL: &'static [Code] = &[$(Code::$code,)*];

            pub const fn row(self) -> &'static Row {
                match self {
                    $(Code::$code => &Row { name: $name, exit: code::$exit, retry: codes!($retry), means: $means },)*
                }
            }
        }
    };
    (once) => { false };
    (again) => { true };
}

codes! {
    Usage "usage" USAGE once "the command line asks for something that does not exist or makes no sense";
    PolicyMistake "policy-mistake" USAGE once "a policy file, or a flag, cannot be read as a policy";
    PolicyUnreadable "policy-unreadable" USAGE once "a policy file is there and cannot be read";
    UnknownProfile "unknown-profile" USAGE once "there is no profile of this name";
    BeyondCeiling "beyond-ceiling" REFUSED once "more is asked for than the administrator allows";
    Unfit "request-unfit" USAGE once "the request makes no sense here: no directory, no command, a stream that is a directory";
    Refused "refused" REFUSED once "the policy does not allow it; `rule` names the rule";
    Floor "floor-missing" FLOOR once "this host cannot keep what the policy demands at least";
    Denied "denied" DENIED once "the gate said no, or no approver said yes; `retry` is true if it can still be allowed";
    Limit "limit-reached" TIMEOUT once "the command reached a limit and was ended; `limit` names it";
    NotFound "command-not-found" NOT_FOUND once "no directory of PATH in the cage has the command";
    NotExecutable "command-not-executable" NOT_EXECUTABLE once "the command is there and cannot be executed";
    Cage "cage-failed" FAULT once "a step of making the cage failed on this host";
    Changed "changed-meanwhile" FAULT again "a file changed between looking and using it";
    Unguarded "project-unguarded" FAULT once "the project cannot be watched over, so nothing was started";
    Unrecorded "record-unwritable" FAULT once "the record cannot be written, so nothing was started";
    RecordUnreadable "record-unreadable" FAULT once "the record, or a part of it, cannot be read";
    ApprovalsUnusable "approvals-unusable" FAULT once "the list of approvals cannot be used";
    ApprovalsBusy "approvals-busy" FAULT again "another program keeps the list of approvals locked";
    UnknownApproval "approval-unknown" USAGE once "there is no question or grant of this number";
    AnsweredApproval "approval-answered" REFUSED once "the question is answered already, or its time is over";
    NoTerminal "terminal-missing" USAGE once "a person has to be asked, and there is no terminal";
    UnknownSecret "secret-unknown" USAGE once "there is no secret of this name";
    NoSecret "secret-unavailable" FAULT once "the source of a secret does not give it";
    SecretLocked "secret-locked" FAULT again "the source of a secret is locked, or gave no answer in time";
    Store "store-unusable" FAULT once "the store of secrets cannot be used";
    StoreBusy "store-busy" FAULT again "another process writes to the store of secrets";
    TokenUsed "token-used" FAULT once "the token of a secret is invalid, or was used";
    UnknownSession "session-unknown" USAGE once "there is no session of this name";
    SessionTaken "session-taken" USAGE once "there is a session of this name already";
    SessionEnded "session-ended" FAULT once "the session has ended";
    SessionDeaf "session-unreachable" FAULT again "the session is there and does not answer";
    SessionFailed "session-failed" FAULT once "the session could not be started, or could not do what was asked";
    SessionFull "session-full" FAULT again "the session has no room for another command, job, client or cage";
    UnknownJob "job-unknown" USAGE once "the session has no job of this number";
    OnlyOutside "only-outside" REFUSED once "this can be asked only outside the cage";
    Guarded "read-refused" REFUSED once "the read guard does not open this file";
    File "file-unusable" FAULT once "a file or directory cannot be read or written";
    Unanswered "answer-unwritten" FAULT once "the answer could not be written to where it goes";
    Unreached "witness-unreached" FAULT again "a witness of the record could not be told";
    Services "services-unusable" FAULT once "`keyward-services` is missing beside keyward, of another version, or not to be trusted";
    Proxy "proxy-failed" FAULT again "the proxy of the network could not be started, has ended, or could not do what was asked";
    Internal "internal" FAULT once "a fault in Keyward itself; please report it";
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.row().name)
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = std::borrow::Cow::<str>::deserialize(deserializer)?;
        let known = Code::ALL.iter().find(|code| code.row().name == name);
        known.copied().ok_or_else(|| serde::de::Error::custom("not a code of Keyward's"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_and_are_words() {
        for (place, code) in Code::ALL.iter().enumerate() {
            let name = code.row().name;
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{name}");
            assert!(Code::ALL[..place].iter().all(|other| other.row().name != name), "{name}");
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the page is compared with the list")]
    fn the_page_lists_every_code_and_no_other() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md")).unwrap();
        let written: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        let rows = Code::ALL.iter().map(|code| {
            let Row { name, exit, retry, means } = code.row();
            format!("| `{name}` | {exit} | {} | {means} |", if *retry { "yes" } else { "no" })
        });
        assert_eq!(written, rows.collect::<Vec<_>>());
    }

    #[test]
    fn a_code_is_read_as_it_is_written() {
        for code in Code::ALL {
            let written = serde_json::to_string(code).unwrap();
            assert_eq!(serde_json::from_str::<Code>(&written).unwrap(), *code);
        }
        assert!(serde_json::from_str::<Code>("\"other\"").is_err());
    }
}
