//! The project's repository: what of the changes that a command made to it may reach the host, and what stays in the cage.
//!
//! Git runs programs for many names and keys of its own folder. So the cage has that folder as an overlay, and only names of a fixed list
//! come out of it, each with a check of what it says. Everything here judges bytes; nothing is opened.

pub mod check;
pub mod config;
pub mod credentials;
pub mod index;
pub mod join;
pub mod names;

pub use check::Check;
pub use names::{Fate, fate};
