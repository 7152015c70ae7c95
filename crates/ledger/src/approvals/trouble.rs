//! What can go wrong with the database, and the way to mend it.

use crate::Unrecorded;
use keyward_policy::text::{typed, visible};
use keyward_policy::trouble::{Code, Trouble};
use rusqlite::{Error, ErrorCode};
use std::path::Path;

/// An approval that could not be recorded takes no effect.
impl From<Unrecorded> for Trouble {
    fn from(unrecorded: Unrecorded) -> Self {
        Trouble::new(
            Code::Unrecorded,
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
        Code::ApprovalsUnusable,
        format!("{} is {what}, and not Keyward's list of approvals", visible(path.as_os_str())),
        put_aside(path),
    )
}

pub(super) fn newer(path: &Path, version: i64) -> Trouble {
    Trouble::new(
        Code::ApprovalsUnusable,
        format!("{} was written by a newer keyward (version {version})", visible(path.as_os_str())),
        format!("use that one; or {}", put_aside(path)),
    )
}

pub(super) fn damaged(path: &Path) -> Trouble {
    Trouble::new(
        Code::ApprovalsUnusable,
        format!("the approvals in {} are damaged", visible(path.as_os_str())),
        put_aside(path),
    )
}

pub(super) fn unusable(path: &Path, cause: &std::io::Error) -> Trouble {
    Trouble::new(
        Code::ApprovalsUnusable,
        format!("cannot use {}: {cause}", visible(path.as_os_str())),
        "make room or fix the permissions there, or set XDG_STATE_HOME to a directory that you can write, outside the project",
    )
}

pub(super) fn of(error: &Error, path: &Path) -> Trouble {
    let shown = visible(path.as_os_str());
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Trouble::new(
            Code::ApprovalsBusy,
            format!("another program has kept {shown} locked for {} s", super::database::PATIENCE.as_secs()),
            format!(
                "`fuser {}` says which one; try again when it has ended",
                typed(&visible(path.as_os_str()))
            ),
        ),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => damaged(path),
        Some(ErrorCode::DiskFull) => Trouble::new(
            Code::ApprovalsUnusable,
            format!("there is no room to write {shown}"),
            "make room there, and try again",
        ),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => Trouble::new(
            Code::ApprovalsUnusable,
            format!("cannot write {shown}, or the directory that it is in"),
            "make room or fix the permissions there, or set XDG_STATE_HOME to a directory that you can write, outside the project",
        ),
        Some(ErrorCode::SystemIoFailure) => Trouble::new(
            Code::ApprovalsUnusable,
            format!("cannot read or write {shown}: {error}"),
            "make room there, or fix the disk, and try again",
        ),
        Some(_) => Trouble::new(
            Code::ApprovalsUnusable,
            format!("the approvals in {shown} cannot be used: {error}"),
            put_aside(path),
        ),
        // A value that cannot be what we have written.
        None => damaged(path),
    }
}
