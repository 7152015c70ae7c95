//! Replaces a file of the user's as a whole: who reads it finds the old text or the new one. One of us at a time.

use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A file that could not be written.
pub struct NotWritten {
    pub path: PathBuf,
    pub cause: io::Error,
}

/// The folder of our files, locked against others of us as long as this value lives.
pub struct Folder {
    _lock: OwnedFd,
}

impl Folder {
    /// Makes the directory if there is none, and waits for a process that is writing there.
    pub fn lock(path: &Path) -> Result<Self, NotWritten> {
        let failed = |cause| NotWritten { path: path.into(), cause };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        loop {
            match rustix::fs::flock(&folder, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(Folder { _lock: folder }),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(failed(errno.into())),
            }
        }
    }

    /// Puts a text in the place of a file. Where the file is a link, what it leads to is replaced, and the link stays.
    pub fn replace(&self, file: &Path, text: &[u8]) -> Result<(), NotWritten> {
        let real = match std::fs::canonicalize(file) {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => file.into(),
            Err(cause) => return Err(NotWritten { path: file.into(), cause }),
        };
        put(&real, text).map_err(|cause| NotWritten { path: real, cause })
    }
}

fn put(real: &Path, text: &[u8]) -> io::Result<()> {
    let (Some(folder), Some(name)) = (real.parent(), real.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let before = real.symlink_metadata().ok();
    let mut beside = OsString::from(".");
    beside.push(name);
    beside.push(format!(".keyward-{}", std::process::id()));
    let beside = folder.join(beside);
    let written = fill(&beside, text, before.as_ref()).and_then(|()| std::fs::rename(&beside, real));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
        return written;
    }
    // The text is there either way; this only makes it stay after a loss of power.
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// A new file with the owner and the mode of the one it replaces.
fn fill(path: &Path, text: &[u8], before: Option<&Metadata>) -> io::Result<()> {
    // What a process of the same number has left.
    let _ = std::fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    if let Some(before) = before {
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (before.uid(), before.gid()) {
            std::os::unix::fs::fchown(&file, Some(before.uid()), Some(before.gid()))?;
        }
        file.set_permissions(Permissions::from_mode(before.mode() & 0o7777))?;
    }
    file.write_all(text)?;
    file.sync_all()
}
