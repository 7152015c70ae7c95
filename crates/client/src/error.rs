//! What a client can fail at.

use keyward_policy::text::visible;
use keyward_policy::trouble::{Code, Trouble};
use keyward_protocol::packet::VERSION;
use std::fmt;

/// Why a request came to nothing. Its text is the fact; what a person can do about it is for the program to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is no session of this name.
    NoSession { name: String },
    /// The session is stopped or overloaded.
    NoAnswer,
    /// The session has ended, or sent something that is not an answer.
    Ended,
    /// The session speaks another version of the protocol.
    OtherVersion { protocol: u64 },
    /// The request is longer than a packet.
    TooLong,
    /// No descriptor is left for the streams of the command.
    NoDescriptors,
    /// A signal has ended this client while it was attached to a job.
    Detached { job: u32 },
    /// The session has refused the request; with a code where a command could not be started, with the rule that decided, and whether the
    /// same request may succeed later.
    Refused { exit: Option<i32>, trouble: Trouble, rule: Option<String>, retry: bool },
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoSession { name } => write!(out, "there is no session {}", visible(name.as_ref())),
            Error::NoAnswer => write!(out, "the session does not answer"),
            Error::Ended => write!(out, "the session has ended"),
            Error::OtherVersion { protocol } => {
                write!(
                    out,
                    "the session speaks version {protocol} of the protocol, and this program version {VERSION}"
                )
            }
            Error::TooLong => write!(out, "the command is too long for the session socket"),
            Error::NoDescriptors => write!(out, "no descriptor is left for the command's streams"),
            Error::Detached { job } => write!(out, "detached from job {job}, which keeps running"),
            Error::Refused { trouble, .. } => write!(out, "{}", trouble.fact),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        let fact = error.to_string();
        let (code, remedy) = match error {
            Error::Refused { trouble, .. } => return trouble,
            Error::NoSession { .. } => (
                Code::UnknownSession,
                "`keyward ps` lists those that are there; `keyward session start` makes one",
            ),
            Error::NoAnswer => (
                Code::SessionDeaf,
                "its process `keyward:session` is stopped or overloaded; resume it with `kill -CONT`, or end it",
            ),
            Error::OtherVersion { .. } => {
                (Code::SessionFailed, "use the version of keyward that started the session, or start another")
            }
            Error::TooLong => (Code::SessionFailed, "put it into a script in the project"),
            Error::NoDescriptors => (Code::SessionFailed, "close some, or raise the limit on open files"),
            Error::Detached { .. } => (Code::SessionFailed, "`keyward kill SESSION/JOB` ends a job"),
            Error::Ended => (Code::SessionEnded, "`keyward session start` makes another"),
        };
        Trouble::new(code, fact, remedy)
    }
}
