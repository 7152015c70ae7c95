//! The project's repository: what of the changes that a command made to it may reach the host, and what stays in the cage.
//!
//! Git runs programs for many names and keys of its own folder. So the cage has a private one, and what comes out of it is judged: refs by
//! their names, the index entry by entry, settings key by key, and a fixed list of further names by what they say. Objects are checked by
//! git itself. Everything here judges bytes; nothing is opened.

pub mod check;
pub mod config;
pub mod credentials;
pub mod habits;
pub mod hidden;
pub mod index;
pub mod names;
pub mod refs;
pub mod work;

pub use check::Check;
pub use names::{Fate, fate};
