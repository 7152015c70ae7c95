//! The project's repositories: looks at them before a run, makes private ones for the cage, and takes over what a command did in them.

mod base;
pub(crate) mod clones;
pub mod committed;
mod exchange;
pub(crate) mod inspect;
mod intent;
pub mod layer;
pub mod logins;
pub mod look;
mod objects;
mod place;
pub mod publisher;
mod refs;
mod state;
pub mod transport;
pub mod work;
