//! Fetching one value from where its reference says.
//!
//! Each source has a time limit and a size limit, and is asked for nothing but the one value. Programs get no input, a clean environment
//! and a process group of their own that ends with the answer; what they say on stderr is looked at for a known reason and never shown,
//! because it may hold a value. Values are read into places of a fixed size that are wiped, and no error holds any part of one.

mod command;
pub(crate) mod dotenv;
mod error;
pub(crate) mod file;
mod json;
pub(crate) mod keyring;
pub mod login;
mod pass;
pub mod program;
mod systemd;
mod text;

pub use error::{SourceError, Why};

use crate::secret::Secret;
use crate::store::Store;
use keyward_policy::net::corporate;
use keyward_policy::secret::Reference;
use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;
use zeroize::Zeroizing;

/// How long a source may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The time limit if no person is asked. A keyring or a decryption takes well below a second.
    pub alone: Duration,
    /// Where a person types a passphrase or touches a key.
    pub with_person: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { alone: Duration::from_secs(10), with_person: Duration::from_secs(60) }
    }
}

/// What sources find around them.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    pub home: &'a Path,
    /// The folder of the store.
    pub store: &'a Path,
    /// The caller's variables, looked up where they stand: for `env://`, and for the few that programs need.
    pub variable: &'a dyn Fn(&str) -> Option<&'a OsStr>,
    /// Where a person can be asked, if one can.
    pub terminal: Option<BorrowedFd<'a>>,
    pub limits: Limits,
}

impl<'a> Surroundings<'a> {
    /// A variable that says something.
    pub(crate) fn variable(&self, name: &str) -> Option<&'a OsStr> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// Whether a window could ask a person.
    fn has_display(&self) -> bool {
        ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| self.variable(name).is_some())
    }

    /// Whether a person can be asked at all.
    pub(crate) fn can_ask(&self) -> bool {
        self.terminal.is_some() || self.has_display()
    }

    /// The time limit of a source that may ask a person.
    pub(crate) fn limit(&self) -> Duration {
        if self.can_ask() { self.limits.with_person } else { self.limits.alone }
    }
}

/// Fetches the value.
pub fn fetch(reference: &Reference, surroundings: &Surroundings<'_>) -> Result<Secret, SourceError> {
    let fetched = match reference {
        Reference::Store(name) => {
            Store::new(surroundings).get(name).map_err(|error| Why::Store(Box::new(error)))
        }
        Reference::Keyring(attributes) => keyring::fetch(attributes, surroundings),
        Reference::Pass { path, field } => pass::fetch(path, field.as_deref(), surroundings),
        Reference::Env(name) => environment(name, surroundings),
        Reference::ProxyLogin(name) => proxy_login(name, surroundings),
        Reference::File { path, part } => file::fetch(&path.path(surroundings.home), part),
        Reference::Cmd { program, arguments } => command::fetch(program, arguments, surroundings),
        Reference::SystemdCreds(credential) => systemd::fetch(credential, surroundings),
        Reference::Login { path, file, field } => login::fetch(path, file, field),
    };
    fetched.map_err(|why| SourceError::new(reference, why))
}

/// The login in the URL of a proxy, as `user:password`.
fn proxy_login(name: &str, surroundings: &Surroundings<'_>) -> Result<Secret, Why> {
    let url = (surroundings.variable)(name).ok_or(Why::NotFound)?.as_encoded_bytes();
    text::sized(url)?;
    // Never longer than the URL, so that it stays in one place.
    let mut text = Zeroizing::new(Vec::with_capacity(url.len() + 1));
    if !corporate::login(url, |byte| text.push(byte)) {
        return Err(Why::Garbage);
    }
    Ok(Secret::copy_of(&text))
}

fn environment(name: &str, surroundings: &Surroundings<'_>) -> Result<Secret, Why> {
    let value = (surroundings.variable)(name).ok_or(Why::NotFound)?.as_encoded_bytes();
    text::sized(value)?;
    Ok(Secret::copy_of(value))
}
