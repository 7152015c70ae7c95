//! Secrets by name: what they are called, where their values come from, and the file that lists them.
//!
//! Nothing here holds a value, and no text that should have been a reference is repeated in a mistake: it may be a value that was pasted
//! in the wrong place. Fetching is done by the vault.

mod bound;
mod edit;
mod file;
mod grant;
mod name;
mod reference;
mod words;

pub use crate::config::Unfit;
pub(crate) use bound::have_a_proxy;
pub use bound::{Bound, Led, OfLogin, aws, binding_of, bound, can_be_bound, place, reach, renewals, target};
pub use edit::{NotWritten, put, remove};
pub use file::{Entry, read};
pub use grant::{
    Delivery, FIRST_DESCRIPTOR, FOLDER, Given, Grant, MOST, Place as Whereabouts, given, of_environment,
};
pub use name::SecretName;
pub use reference::{Attributes, Credential, Part, Place, Reference, SCHEMES};
