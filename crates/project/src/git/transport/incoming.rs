//! The directory in which objects wait until git has judged them: beside the host's objects, on the same file system.
//!
//! Its name is random and its process holds a lock on it, so that another process can tell a live one from a stale one.

use super::{Refused, Store};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

const PREFIX: &str = "keyward-incoming-";
/// The file with the commits whose parents the host lacks, below such a directory.
pub(super) const SHALLOW: &str = "keyward-shallow";

/// One such directory, removed with the value.
pub(super) struct Incoming {
    path: PathBuf,
    lock: OwnedFd,
}

impl Incoming {
    pub(super) fn new(store: &Store, shallow: Option<&[u8]>) -> Result<Incoming, Refused> {
        let incoming =
            Incoming::make(&store.scratch).map_err(|errno| Refused::errno("make a directory", errno))?;
        incoming.fill(store, shallow).map_err(|error| Refused::error("write a file", &error))?;
        Ok(incoming)
    }

    fn make(scratch: &Path) -> Result<Incoming, Errno> {
        loop {
            let mut random = [0; 16];
            keyward_sys::random::fill(&mut random)?;
            let path = scratch.join(format!("{PREFIX}{:032x}", u128::from_ne_bytes(random)));
            make_directory(&path)?;
            // Another process may take it for a stale one before it is locked: then there is none any more.
            match lock(&path) {
                Ok(lock) if is_same(&path, &lock) => return Ok(Incoming { path, lock }),
                Ok(_) | Err(Errno::WOULDBLOCK | Errno::NOENT) => {}
                Err(errno) => {
                    let _ = std::fs::remove_dir(&path);
                    return Err(errno);
                }
            }
        }
    }

    /// Makes it a repository without objects and references: all that git needs to start. No setting in it comes from the cage.
    fn fill(&self, store: &Store, shallow: Option<&[u8]>) -> std::io::Result<()> {
        for name in ["refs", "objects"] {
            make_directory(&self.path.join(name))?;
        }
        let mut config = String::from("[core]\n\trepositoryformatversion = 1\n\tbare = true\n");
        if store.id_length == 32 {
            config += "[extensions]\n\tobjectformat = sha256\n";
        }
        if store.is_partial {
            config += "[extensions]\n\tpartialclone = keyward\n[remote \"keyward\"]\n\tpromisor = true\n";
        }
        std::fs::write(self.path.join("config"), config)?;
        std::fs::write(self.path.join("HEAD"), "ref: refs/heads/keyward\n")?;
        shallow.map_or(Ok(()), |lines| std::fs::write(self.path.join(SHALLOW), lines))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn directory(&self) -> &OwnedFd {
        &self.lock
    }

    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    pub(super) fn objects(&self) -> PathBuf {
        self.path.join("objects")
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn make_directory(path: &Path) -> Result<(), Errno> {
    let made = DirBuilder::new().mode(0o700).create(path);
    made.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

fn lock(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty())?;
    rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive)?;
    Ok(directory)
}

fn is_same(path: &Path, directory: &OwnedFd) -> bool {
    match (std::fs::symlink_metadata(path), rustix::fs::fstat(directory)) {
        (Ok(named), Ok(open)) => named.dev() == open.st_dev && named.ino() == open.st_ino,
        _ => false,
    }
}

/// Removes the directories of processes that have died, and lets `gc` have the packs that they left.
pub fn remove_stale(store: &Store) {
    remove_stale_directories(&store.scratch);
    remove_stale_keeps(store);
}

pub(super) fn remove_stale_directories(scratch: &Path) {
    let Ok(entries) = std::fs::read_dir(scratch) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if !is_ours {
            continue;
        }
        // The lock is kept until all of it is gone.
        if let Ok(_lock) = lock(&entry.path()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A pack is kept under the name of the directory that it came through. Where that is gone, the process died before it let go.
fn remove_stale_keeps(store: &Store) {
    let Ok(entries) = std::fs::read_dir(store.objects.join("pack")) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_none_or(|ending| ending != "keep") {
            continue;
        }
        // One of the user's own may be long; ours is a name.
        let is_short = std::fs::metadata(&path).is_ok_and(|data| data.len() < 128);
        let Some(text) = is_short.then(|| std::fs::read_to_string(&path).ok()).flatten() else { continue };
        let name = text.trim_end();
        let is_ours = name.starts_with(PREFIX) && !name.contains('/');
        if is_ours && std::fs::symlink_metadata(store.scratch.join(name)).is_err() {
            let _ = std::fs::remove_file(path);
        }
    }
}
