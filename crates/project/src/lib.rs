//! Cares for the user's tree: searches it before a command starts, watches it meanwhile, and settles it afterwards.
//!
//! Runs in the launcher, outside the cage, with the user's own rights. Touches the project, grants, kept HOMEs, login files and Keyward's
//! own state. Builds no cage and decides nothing: what counts as a secret, a foothold or a safe git setting is decided in `policy`.
#![forbid(unsafe_code)]

pub mod caches;
mod carry;
mod descent;
pub mod git;
pub mod guard;
pub mod habits;
pub mod home;
mod journal;
mod lines;
pub mod logins;
mod mask;
pub mod quarantine;
pub mod search;
mod secrets;
mod sweep;
mod tree;
mod watch;

pub use guard::{Begin, Guard, NoGuard, Recovered, at_work, recover, recover_all};
pub use secrets::{Identity, Masked, Names};
