//! What the caller wants run. A request may hold secrets (the caller's environment); a plan never does.

use crate::tools::Platform;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// One run, as asked for.
pub struct Request<'a> {
    pub argv: Vec<OsString>,
    /// Absolute, all links followed.
    pub cwd: PathBuf,
    /// The nearest folder above `cwd` that marks a project (`.git` and the like), or `cwd` itself.
    pub project: PathBuf,
    /// Raw `NAME=value` entries, still where the kernel put them.
    pub environment: &'a [&'a [u8]],
    pub caller: Caller,
    pub platform: Platform,
    pub purpose: Purpose,
}

/// What the cage of a request is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// One command.
    #[default]
    Command,
    /// A session, whose cage all its commands share.
    Session,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub uid: u32,
    pub gid: u32,
    /// The real HOME.
    pub home: PathBuf,
    /// The HOME that the account has, where the variable says something else.
    pub account_home: Option<PathBuf>,
    /// Where Keyward keeps caches for cages.
    pub cache: PathBuf,
    /// Where Keyward keeps the HOMEs of profiles.
    pub homes: PathBuf,
    /// Where private repositories of cages are.
    pub repositories: PathBuf,
    /// Keyward's own folders (policy, state, caches), which no grant opens.
    pub own: Vec<PathBuf>,
    /// Keyward's own programs and those of its SDK, which no command replaces.
    pub programs: Vec<PathBuf>,
    /// A folder that does not exist yet, for HOME and TMPDIR of a cage without mounts; gone with the cage.
    pub scratch: PathBuf,
    /// Which of descriptors 0 to 2 are terminals.
    pub terminals: [bool; 3],
}

impl Request<'_> {
    /// The value of one of the caller's variables; for names that are not secret, such as PATH.
    pub fn variable(&self, name: &str) -> Option<&[u8]> {
        self.environment.iter().find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    }

    /// Where the caller's shell looks for programs, in its order.
    pub fn programs_in_order(&self) -> impl Iterator<Item = PathBuf> + '_ {
        let search = self.variable("PATH").unwrap_or(b"/usr/local/bin:/usr/bin:/bin");
        search.split(|&byte| byte == b':').map(|entry| PathBuf::from(OsStr::from_bytes(entry)))
    }

    /// Where the caller's shell looks for programs; a relative entry as seen from the current directory.
    pub fn programs(&self) -> Vec<PathBuf> {
        let folder = |bytes: &[u8]| self.cwd.join(OsStr::from_bytes(bytes));
        let search = self.variable("PATH").unwrap_or_default().split(|&byte| byte == b':').map(folder);
        let environment = self.variable("VIRTUAL_ENV").map(|path| folder(path).join("bin"));
        let mut all: Vec<PathBuf> = search.chain(environment).collect();
        all.sort();
        all.dedup();
        all
    }

    pub fn is_root(&self) -> bool {
        self.caller.uid == 0
    }
}
