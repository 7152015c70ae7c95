//! Keyward for Rust programs.
//!
//! [`Command`] and [`Session`] start commands in cages, in the shape of `std::process::Command` (feature `spawn`; `docs/rust.md`). They need
//! the executable of Keyward, and never start a command without it.
//!
//! ```no_run
//! # fn main() -> Result<(), keyward::Error> {
//! let output = keyward::Command::new("make").arg("test").timeout(std::time::Duration::from_secs(60)).output()?;
//! let session = keyward::Session::open()?;
//! session.command("make").status()?;
//! # Ok(()) }
//! ```
//!
//! [`take`] is for programs that run in a cage: it takes the secret that `keyward run --secret` has given, and leaves no trace of how it came.
//! It runs in the worker itself, as the first thing of its `main`, and touches nothing but that process: its environment, its arguments, the
//! descriptor or the file that the secret is in, and for a token the socket at which it is swapped.
//!
//! ```no_run
//! fn main() -> Result<(), keyward::TakeError> {
//!     let token = keyward::take("GH_TOKEN")?;
//!     keyward::forget_arguments()?;
//!     // … `token.expose()` goes into the one request that needs it …
//!     drop(token); // overwritten
//!     Ok(())
//! }
//! ```
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod error;
mod secret;
#[cfg(feature = "spawn")]
mod spawn;
#[cfg(feature = "token")]
mod token;
mod way;

pub use error::TakeError;
pub use secret::{LARGEST, Secret};
#[cfg(feature = "spawn")]
pub use spawn::{
    Background, Child, Command, Error, ErrorKind, ExitStatus, Judged, Options, Output, Question, Session,
    SessionCommand, Stdio, Value,
};

use keyward_sys::{confine, environ};

/// Takes the secret of a variable: from `NAME_FD`, `NAME_FILE`, `NAME_TOKEN_FD` or `NAME`, whichever is found first.
///
/// The name is the one that programs expect the secret in: the secret's `as`, or its own name in capital letters.
///
/// From then on the process is closed to others of the same user (`PR_SET_DUMPABLE`) and leaves no core file. The value is in the [`Secret`]
/// and nowhere else in the process: the descriptor is closed, and the variable is overwritten where `/proc/self/environ` would show it. So
/// each secret can be taken once. A file (`NAME_FILE`) is removed where it was made for the cage, in `/run/secrets`; one that lies elsewhere
/// is somebody's own and stays.
///
/// The environment of a process can be changed safely only while it has one thread. With more of them this is an error and nothing is
/// taken, so take secrets before any thread is started.
pub fn take(name: &str) -> Result<Secret, TakeError> {
    if name.is_empty() || name.bytes().any(|byte| byte == b'=' || byte == 0) {
        return Err(TakeError::NoName);
    }
    close_up()?;
    way::take(name)
}

/// Closes the process to others of the same user, from now on, and forbids core files. [`take`] does it too; do it yourself if something
/// secret comes in another way. A program that is executed from here is not closed.
pub fn close_up() -> Result<(), TakeError> {
    confine::become_opaque()
        .and_then(|()| confine::Limit::CoreBytes(0).set())
        .map_err(|_| TakeError::StaysOpen)
}

/// Overwrites the program's arguments, so that `/proc/self/cmdline` shows its name alone. `std::env::args` has no more either: read them before.
pub fn forget_arguments() -> Result<(), TakeError> {
    environ::forget_arguments().map_err(error::of_environment)
}

/// Overwrites all variables, those that are no secret included. Programs that are started from here get none, unless they are given some.
pub fn forget_environment() -> Result<(), TakeError> {
    environ::remove_all_variables().map_err(error::of_environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_variable_is_not_looked_for() {
        for name in ["", "A=B", "A\0"] {
            assert!(matches!(take(name), Err(TakeError::NoName)), "{name:?}");
        }
    }

    #[test]
    fn nothing_is_taken_or_forgotten_while_other_threads_may_read_it() {
        let before: Vec<_> = std::env::vars_os().chain(std::env::args_os().map(|a| (a, "".into()))).collect();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || wait.recv());
        assert!(matches!(take("PATH"), Err(TakeError::Threads)));
        assert_eq!(forget_arguments(), Err(TakeError::Threads));
        assert_eq!(forget_environment(), Err(TakeError::Threads));
        drop(go);
        let _ = other.join();
        let after: Vec<_> = std::env::vars_os().chain(std::env::args_os().map(|a| (a, "".into()))).collect();
        assert_eq!(before, after);
    }
}
