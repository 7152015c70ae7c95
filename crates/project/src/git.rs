//! The project's repositories: looks at them before a run, and takes over what a command changed in its overlay of their own folders.

pub mod committed;
mod import;
pub(crate) mod inspect;
pub mod look;
mod objects;
mod place;
pub mod publish;
pub mod transport;
