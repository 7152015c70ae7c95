//! What can go wrong, in two lines: the fact, then what can be done. No part of a value is in it, and no value of a variable either.

use keyward_sys::Errno;
use std::fmt;
use std::io::ErrorKind;

/// Why a secret could not be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeError {
    /// What was asked for cannot be the name of a variable.
    NoName,
    /// The process has more than one thread.
    Threads,
    /// The kernel does not tell how many threads there are.
    NoProc,
    /// The process could not be closed to others.
    StaysOpen,
    /// None of the ways leads to this secret.
    NotGiven {
        name: String,
    },
    /// The variable does not name a descriptor that a vault has filled.
    NoSecretThere {
        variable: String,
    },
    Unreadable {
        variable: String,
        cause: ErrorKind,
    },
    /// The file is in the cage and cannot be removed from it.
    FileStays {
        variable: String,
    },
    /// It has more than [`crate::LARGEST`] bytes.
    TooLarge {
        variable: String,
    },
    /// The token was used, is too old, or is for another cage.
    Worthless {
        variable: String,
    },
    /// Nobody is there to swap a token.
    NoVault {
        variable: String,
    },
    /// Built without the feature `token`.
    NoTokens {
        variable: String,
    },
}

impl fmt::Display for TakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TakeError::NoName => write!(
                f,
                "a secret is asked for by the name of a variable\nwrite keyward::take(\"GH_TOKEN\"), as `keyward secret list` shows it"
            ),
            TakeError::Threads => write!(
                f,
                "this program has started threads, which may be reading its environment\ntake secrets first in `main`, before the runtime or a thread pool begins"
            ),
            TakeError::NoProc => write!(
                f,
                "/proc cannot be read, so that it is not known whether this program has threads\nmount /proc, or run it with `keyward run -- CMD`"
            ),
            TakeError::StaysOpen => write!(
                f,
                "this process cannot be closed to others of the same user\nrun it with `keyward run -- CMD`, on a kernel that `keyward doctor` has checked"
            ),
            TakeError::NotGiven { name } => write!(
                f,
                "no secret was given in {name}, or it was taken before\nstart this program with `keyward run --secret NAME=fd -- …`; the secret's variable has to be {name}"
            ),
            TakeError::NoSecretThere { variable } => write!(
                f,
                "{variable} does not lead to a secret\nonly `keyward run --secret NAME=fd -- CMD` sets it; a parent may have closed the descriptor"
            ),
            TakeError::Unreadable { variable, cause } => write!(
                f,
                "what {variable} leads to cannot be read: {cause}\nonly `keyward run --secret NAME=fd -- CMD` sets it; run the command again"
            ),
            TakeError::FileStays { variable } => write!(
                f,
                "the file that {variable} leads to cannot be removed, so that others in this cage could read it\ngive the secret as NAME=fd or NAME=token"
            ),
            TakeError::TooLarge { variable } => write!(
                f,
                "the secret of {variable} has more than 64 KiB\nit is probably the wrong file; `keyward secret list` shows where it comes from"
            ),
            TakeError::Worthless { variable } => write!(
                f,
                "the token of {variable} is invalid\na token works once, within a minute, in the cage it was made for; run the command again"
            ),
            TakeError::NoVault { variable } => write!(
                f,
                "there is no vault to swap the token of {variable} at\nstart this program with `keyward run --secret NAME=token -- …`"
            ),
            TakeError::NoTokens { variable } => write!(
                f,
                "{variable} is a token, and this program cannot swap tokens\nbuild it with the feature `token` of keyward-worker, or give the secret as NAME=fd"
            ),
        }
    }
}

impl std::error::Error for TakeError {}

pub(crate) fn of_environment(errno: Errno) -> TakeError {
    if errno == Errno::BUSY { TakeError::Threads } else { TakeError::NoProc }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_a_fact_and_a_remedy() {
        let variable = || "GH_TOKEN_FD".to_owned();
        let all = [
            TakeError::NoName,
            TakeError::Threads,
            TakeError::NoProc,
            TakeError::StaysOpen,
            TakeError::NotGiven { name: "GH_TOKEN".into() },
            TakeError::NoSecretThere { variable: variable() },
            TakeError::Unreadable { variable: variable(), cause: ErrorKind::PermissionDenied },
            TakeError::FileStays { variable: variable() },
            TakeError::TooLarge { variable: variable() },
            TakeError::Worthless { variable: variable() },
            TakeError::NoVault { variable: variable() },
            TakeError::NoTokens { variable: variable() },
        ];
        for error in all {
            let text = error.to_string();
            assert_eq!(text.lines().count(), 2, "{text}");
            assert!(!text.ends_with('.') && !text.contains(".\n"), "{text}");
        }
    }
}
