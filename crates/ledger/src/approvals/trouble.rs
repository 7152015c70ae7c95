//! What can go wrong with the database, and the way to mend it.

use crate::Unrecorded;
use keyward_policy::text::{typed, visible};
use rusqlite::{Error, ErrorCode};
use std::path::Path;

/// An error in two lines: the fact, and what a person can do. The caller treats it as a no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub fact: String,
    pub remedy: String,
}

impl Trouble {
    pub fn new(fact: impl Into<String>, remedy: impl Into<String>) -> Self {
        Trouble { fact: fact.into(), remedy: remedy.into() }
    }
}

impl From<Unrecorded> for Trouble {
    fn from(unrecorded: Unrecorded) -> Self {
        Trouble::new(
            format!("cannot record this in {}: {}", visible(unrecorded.path.as_os_str()), unrecorded.cause),
            "no approval takes effect unrecorded: make room or fix the permissions there",
        )
    }
}

/// The way out for a file that cannot be used.
fn put_aside(path: &Path) -> String {
    format!(
        "put it aside: `mv {0} {0}.aside; rm -f {0}-wal {0}-shm`; what waits is refused then, and grants are gone",
        typed(&visible(path.as_os_str()))
    )
}

pub(super) fn not_ours(path: &Path, what: &str) -> Trouble {
    Trouble::new(
        format!("{} is {what}, and not Keyward's list of approvals", visible(path.as_os_str())),
        put_aside(path),
    )
}

pub(super) fn newer(path: &Path, version: i64) -> Trouble {
    Trouble::new(
        format!("{} was written by a newer keyward (version {version})", visible(path.as_os_str())),
        format!("use that one; or {}", put_aside(path)),
    )
}

pub(super) fn damaged(path: &Path) -> Trouble {
    Trouble::new(format!("the approvals in {} are damaged", visible(path.as_os_str())), put_aside(path))
}

pub(super) fn unusable(path: &Path, cause: &std::io::Error) -> Trouble {
    Trouble::new(
        format!("cannot use {}: {cause}", visible(path.as_os_str())),
        "make room or fix the permissions there, or set XDG_STATE_HOME to a directory that you can write, outside the project",
    )
}

pub(super) fn of(error: &Error, path: &Path) -> Trouble {
    let shown = visible(path.as_os_str());
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Trouble::new(
            format!("another program has kept {shown} locked for {} s", super::database::PATIENCE.as_secs()),
            format!(
                "`fuser {}` says which one; try again when it has ended",
                typed(&visible(path.as_os_str()))
            ),
        ),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => damaged(path),
        Some(ErrorCode::DiskFull) => {
            Trouble::new(format!("there is no room to write {shown}"), "make room there, and try again")
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => Trouble::new(
            format!("cannot write {shown}, or the directory that it is in"),
            "make room or fix the permissions there, or set XDG_STATE_HOME to a directory that you can write, outside the project",
        ),
        Some(ErrorCode::SystemIoFailure) => Trouble::new(
            format!("cannot read or write {shown}: {error}"),
            "make room there, or fix the disk, and try again",
        ),
        Some(_) => Trouble::new(format!("the approvals in {shown} cannot be used: {error}"), put_aside(path)),
        // A value that cannot be what we have written.
        None => damaged(path),
    }
}
