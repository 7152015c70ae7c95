//! Reads login files for the launcher, which gets what of them is not secret. A process that was forked for it does nothing else.

use crate::process;
use crate::source::login;
use keyward_policy::login::{File, Odd, Skeleton};
use keyward_sys::file::write_all;
use keyward_sys::landlock::{self, Below, Scopes};
use rustix::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// What was found of each file.
pub type Looked = Vec<Result<Skeleton, Odd>>;

/// Reads files and writes what was found. Gives the exit code.
pub fn tell(files: &[(PathBuf, &'static File)], to: &OwnedFd) -> i32 {
    if process::harden().is_err() {
        return 125;
    }
    let abi = landlock::abi();
    if abi > 0 {
        let rules = files.iter().map(|(path, _)| (path.as_path(), Below::Read));
        let closed = landlock::prepare(abi, rules, Scopes::default()).and_then(landlock::Domain::enter);
        if closed.is_err() {
            return 125;
        }
    }
    let read = |(path, file): &(PathBuf, &'static File)| login::skeleton(path, file);
    let looked: Looked = files.iter().map(read).collect();
    let Ok(text) = serde_json::to_vec(&looked) else { return 125 };
    i32::from(write_all(to, &text).is_err())
}

/// Reads what [`tell`] has written; all are unreadable where that is not whole.
pub fn hear(text: &[u8], count: usize) -> Looked {
    let looked: Option<Looked> = serde_json::from_slice(text).ok();
    looked.filter(|looked| looked.len() == count).unwrap_or_else(|| vec![Err(Odd::Unreadable); count])
}

/// Whether an ordinary file stands at a path.
pub fn is_file(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}
