//! Whether an approver watches questions: `keyward approvals -f` holds a lock of the kernel, which cannot be left behind.

use super::Trouble;
use super::trouble::unusable;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::process::{Flock, FlockType};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// An approver watches as long as this value lives.
#[must_use]
pub struct Watch {
    /// A lock of the process: closing it anywhere ends it.
    _lock: File,
}

fn place(state: &Path) -> PathBuf {
    state.join("approvals.watch")
}

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::from_raw_mode(0o600))?.into())
}

/// Marks that an approver watches questions from now on. There may be several.
pub fn watch(state: &Path) -> Result<Watch, Trouble> {
    let path = place(state);
    let lock = super::database::make_folder(state).and_then(|()| {
        let file = open(&path, OFlags::RDWR | OFlags::CREATE)?;
        rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockShared)?;
        Ok(file)
    });
    lock.map(|_lock| Watch { _lock }).map_err(|cause| unusable(&path, &cause))
}

/// Whether another process looks at questions. Looking this up takes no lock, so that many can at once.
pub fn is_watched(state: &Path) -> bool {
    let Ok(file) = open(&place(state), OFlags::RDWR) else { return false };
    let all = Flock::from(FlockType::WriteLock);
    matches!(rustix::process::fcntl_getlk(&file, &all), Ok(Some(_)))
}
