//! The folder of the store: private, written by one at a time, each file replaced as a whole.

use super::{Kind, StoreError};
use crate::secret::{Buffer, Unread};
use keyward_policy::secret::SecretName;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a lock is tried that somebody else holds.
const PAUSE: Duration = Duration::from_millis(10);

/// The folder, opened once: what was checked is what is used.
pub(super) struct Folder {
    path: PathBuf,
    handle: OwnedFd,
}

impl Folder {
    /// Opens the folder, if it is there and ours alone.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::NOENT => StoreError::Missing,
            errno => fault(path, errno),
        })?;
        let folder = Folder { path: path.to_owned(), handle };
        private(&folder.handle, path)?;
        Ok(folder)
    }

    /// The same, made if it is not there.
    pub(super) fn make(path: &Path) -> Result<Self, StoreError> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| StoreError::Io { what: path.display().to_string(), kind: error.kind() })?;
        Folder::open(path)
    }

    /// The path of a file, for messages.
    fn shown(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// One writer at a time.
    pub(super) fn lock(&self, limit: Duration) -> Result<File, StoreError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let mode = Mode::RUSR | Mode::WUSR;
        let opened = rustix::fs::openat(&self.handle, "lock", flags, mode);
        let file: File = opened.map_err(|errno| fault(&self.shown("lock"), errno))?.into();
        let deadline = Instant::now() + limit;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => return Err(StoreError::Busy),
                Err(TryLockError::Error(error)) => {
                    return Err(StoreError::Io {
                        what: self.shown("lock").display().to_string(),
                        kind: error.kind(),
                    });
                }
            }
        }
    }

    /// Where the identity is, if store.toml is there.
    pub(super) fn kind(&self) -> Result<Option<Kind>, StoreError> {
        const NAME: &str = "store.toml";
        let buffer = match self.read(NAME, 4096) {
            Ok(buffer) => buffer,
            Err(StoreError::Gone(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let damaged = || StoreError::Damaged(NAME);
        let text = std::str::from_utf8(buffer.bytes()).map_err(|_| damaged())?;
        let toml = toml_edit::Document::parse(text).map_err(|_| damaged())?;
        let version = toml.get("version").and_then(toml_edit::Item::as_integer);
        let word = toml.get("identity").and_then(toml_edit::Item::as_str);
        match (version, word.and_then(Kind::from_word)) {
            (Some(1), Some(kind)) if toml.len() == 2 => Ok(Some(kind)),
            _ => Err(damaged()),
        }
    }

    /// Reads a file of ours, private as it must be.
    pub(super) fn read(&self, name: &str, most: usize) -> Result<Buffer, StoreError> {
        let shown = self.shown(name);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = rustix::fs::openat(&self.handle, name, flags, Mode::empty());
        let mut file: File = match opened {
            Ok(file) => file.into(),
            Err(Errno::NOENT) => return Err(StoreError::Gone(name.to_owned())),
            Err(Errno::LOOP) => return Err(exposed(&shown, "it is a link")),
            Err(errno) => return Err(fault(&shown, errno)),
        };
        private(&file, &shown)?;
        let size =
            file.metadata().map_or(0, |metadata| usize::try_from(metadata.len()).unwrap_or(usize::MAX));
        if size > most {
            return Err(StoreError::Damaged("a file that is too large"));
        }
        let mut buffer = Buffer::new(size);
        match buffer.fill(&mut file) {
            Ok(()) => Ok(buffer),
            // Files are replaced and never changed.
            Err(Unread::TooLarge) => Err(StoreError::Damaged("a file that grew while it was read")),
            Err(Unread::Io(error)) => {
                Err(StoreError::Io { what: shown.display().to_string(), kind: error.kind() })
            }
        }
    }

    /// Writes a file as a whole: beside, to the disk, then in the place of the old one. Whoever calls holds the lock.
    pub(super) fn write(
        &self,
        name: &str,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<(), StoreError> {
        const BESIDE: &str = ".new";
        let shown = self.shown(name);
        // What a killed writer has left.
        let _ = rustix::fs::unlinkat(&self.handle, BESIDE, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(&self.handle, BESIDE, flags, Mode::RUSR | Mode::WUSR);
        let mut file: File = made.map_err(|errno| fault(&shown, errno))?.into();
        let written = fill(&mut file).and_then(|()| file.flush()).and_then(|()| file.sync_all());
        let placed = written.and_then(|()| {
            rustix::fs::renameat(&self.handle, BESIDE, &self.handle, name)?;
            Ok(rustix::fs::fsync(&self.handle)?)
        });
        placed.map_err(|error| {
            let _ = rustix::fs::unlinkat(&self.handle, BESIDE, AtFlags::empty());
            match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full,
                kind => StoreError::Io { what: shown.display().to_string(), kind },
            }
        })
    }

    pub(super) fn remove(&self, name: &str) -> Result<(), StoreError> {
        match rustix::fs::unlinkat(&self.handle, name, AtFlags::empty()) {
            Ok(()) => rustix::fs::fsync(&self.handle).map_err(|errno| fault(&self.shown(name), errno)),
            Err(Errno::NOENT) => Err(StoreError::Gone(name.to_owned())),
            Err(errno) => Err(fault(&self.shown(name), errno)),
        }
    }

    /// The secrets that are there.
    pub(super) fn names(&self) -> Result<Vec<SecretName>, StoreError> {
        let unreadable = |errno| fault(&self.path, errno);
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.handle).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name().to_str().ok().and_then(|name| name.strip_suffix(".age"));
            // The identity is no secret of the user's.
            names.extend(
                name.filter(|name| *name != "identity").and_then(|name| SecretName::parse(name).ok()),
            );
        }
        names.sort();
        Ok(names)
    }
}

fn fault(path: &Path, errno: Errno) -> StoreError {
    match errno {
        Errno::NOSPC | Errno::DQUOT => StoreError::Full,
        Errno::LOOP | Errno::NOTDIR => exposed(path, "it is a link, or not a directory"),
        errno => StoreError::Io { what: path.display().to_string(), kind: io::Error::from(errno).kind() },
    }
}

fn exposed(path: &Path, how: &str) -> StoreError {
    StoreError::Exposed { what: path.display().to_string(), how: how.to_owned() }
}

/// That nobody else can read it or put another in its place: our own, and no right for others.
fn private(handle: &impl std::os::fd::AsFd, path: &Path) -> Result<(), StoreError> {
    let stat = rustix::fs::fstat(handle).map_err(|errno| fault(path, errno))?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(exposed(path, "it belongs to another user"));
    }
    let mode = stat.st_mode & 0o777;
    if mode & 0o077 != 0 {
        return Err(exposed(path, &format!("its mode is {mode:04o}")));
    }
    Ok(())
}
