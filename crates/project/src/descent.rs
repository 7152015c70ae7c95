//! A walk through a tree of any depth: down by name, up by `..`. One directory is open at a time, no path is longer than one
//! name, and nothing recurses, so that the maker of the tree decides neither how many descriptors nor how much stack we need.

use crate::tree::set_mode;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The name of a thing in a directory.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) folder: BorrowedFd<'a>,
    pub(crate) name: &'a OsStr,
}

/// Stands in one directory of a tree, and knows the way back. Directories that their maker closed to their owner are open while
/// the walk is in them or below them.
pub(crate) struct Descent {
    here: OwnedFd,
    levels: Vec<Level>,
}

struct Level {
    name: OsString,
    identity: (u64, u64),
    /// The mode to be set again when the walk leaves.
    closed: Option<Mode>,
}

impl Descent {
    /// Begins in a directory, which is not reached through a link.
    pub(crate) fn begin(at: At<'_>) -> Result<Self, Errno> {
        let (here, level) = open(at)?;
        Ok(Descent { here, levels: vec![level] })
    }

    pub(crate) fn here(&self) -> BorrowedFd<'_> {
        self.here.as_fd()
    }

    /// The names from the top of the tree to here, without that of the top itself.
    pub(crate) fn path(&self) -> PathBuf {
        self.levels.iter().skip(1).map(|level| level.name.as_os_str()).collect()
    }

    /// Goes down one level.
    pub(crate) fn enter(&mut self, name: &OsStr) -> Result<(), Errno> {
        let (below, level) = open(At { folder: self.here.as_fd(), name })?;
        self.here = below;
        self.levels.push(level);
        Ok(())
    }

    /// Goes up one level, and gives the name of the directory it has left. The top cannot be left: dropping the value does that.
    /// `ESTALE` if the directory was moved meanwhile.
    pub(crate) fn leave(&mut self) -> Result<OsString, Errno> {
        let [.., above, below] = self.levels.as_slice() else { return Err(Errno::INVAL) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let up = rustix::fs::openat(&self.here, c"..", flags, Mode::empty())?;
        if identity(&rustix::fs::fstat(&up)?) != above.identity {
            return Err(Errno::STALE);
        }
        // Only now: without the right to search it, `..` is not found either.
        close_again(&self.here, below);
        self.here = up;
        self.levels.pop().map(|level| level.name).ok_or(Errno::INVAL)
    }
}

impl Drop for Descent {
    fn drop(&mut self) {
        // A walk that was cut short, or that stands at the top: what it opened is closed again.
        while self.levels.iter().any(|level| level.closed.is_some()) && self.leave().is_ok() {}
        if let Some(level) = self.levels.last() {
            close_again(&self.here, level);
        }
    }
}

fn close_again(folder: &OwnedFd, level: &Level) {
    if let Some(mode) = level.closed {
        let _ = set_mode(folder, mode);
    }
}

fn open(at: At<'_>) -> Result<(OwnedFd, Level), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let path = rustix::fs::openat(at.folder, at.name, flags, Mode::empty())?;
    let found = rustix::fs::fstat(&path)?;
    let mode = Mode::from_raw_mode(found.st_mode);
    let closed = (!mode.contains(Mode::RWXU)).then_some(mode);
    if closed.is_some() {
        // One that belongs to another user stays as it is, and opening it says whether that is enough.
        let _ = set_mode(&path, mode | Mode::RWXU);
    }
    let level = Level { name: at.name.into(), identity: identity(&found), closed };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(&path, c".", flags, Mode::empty()) {
        Ok(here) => Ok((here, level)),
        Err(errno) => {
            close_again(&path, &level);
            Err(errno)
        }
    }
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

pub(crate) fn stat(at: At<'_>) -> Result<Stat, Errno> {
    rustix::fs::statat(at.folder, at.name, AtFlags::SYMLINK_NOFOLLOW)
}

pub(crate) fn is_directory(at: At<'_>) -> bool {
    stat(at).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
}
