//! Carries a file, link or folder from one folder to another, as it is: nothing is followed, and what stands at the target stays.

use crate::tree::{OpenedUp, set_mode};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Timestamps, Uid};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;

/// What is copied from one file system to another at the most; moving costs nothing and has no bound.
const MOST_BYTES: u64 = 256 << 20;
const MOST_ENTRIES: usize = 20_000;
const DEEPEST: usize = 64;

/// Whether a thing may be copied where it cannot be moved.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Across {
    /// Copy it, then remove it.
    Copied,
    /// Not while the command lives: it could put something else in its place between the copy and the removal.
    NotNow,
}

/// The name of a thing in a folder.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) folder: BorrowedFd<'a>,
    pub(crate) name: &'a OsStr,
}

/// The name under which a copy is made before it is whole.
pub(crate) const PARTIAL: &str = "partial";

/// Carries. `EXDEV` is the answer where it would have to be copied and may not be.
pub(crate) fn carry(from: At<'_>, to: At<'_>, across: Across) -> Result<(), Errno> {
    let moved = match rename(from, to) {
        Err(Errno::ACCESS | Errno::PERM) => rename_what_is_closed(from, to),
        other => other,
    };
    match (moved, across) {
        (Err(Errno::XDEV), Across::Copied) => copy_and_remove(from, to),
        (moved, _) => moved,
    }
}

fn rename(from: At<'_>, to: At<'_>) -> Result<(), Errno> {
    let flags = RenameFlags::NOREPLACE;
    match rustix::fs::renameat_with(from.folder, from.name, to.folder, to.name, flags) {
        // Some file systems know only the plain one.
        Err(Errno::INVAL) if stat(to).is_err() => {
            rustix::fs::renameat(from.folder, from.name, to.folder, to.name)
        }
        other => other,
    }
}

/// A folder that is moved to another one has to be writable itself, and so has the one it leaves. Whoever made it may have closed both.
fn rename_what_is_closed(from: At<'_>, to: At<'_>) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = rustix::fs::openat(from.folder, c".", flags, Mode::empty())?;
    let _above = OpenedUp::new(above)?;
    let thing = match rustix::fs::openat(from.folder, from.name, flags, Mode::empty()) {
        Ok(folder) => Some(OpenedUp::new(folder)?),
        Err(_) => None,
    };
    let moved = rename(from, to);
    drop(thing);
    moved
}

pub(crate) fn stat(at: At<'_>) -> Result<Stat, Errno> {
    rustix::fs::statat(at.folder, at.name, AtFlags::SYMLINK_NOFOLLOW)
}

fn copy_and_remove(from: At<'_>, to: At<'_>) -> Result<(), Errno> {
    let before = stat(from)?;
    let partial = At { folder: to.folder, name: OsStr::new(PARTIAL) };
    let mut left = Left { bytes: MOST_BYTES, entries: MOST_ENTRIES };
    let copied = copy(from, partial, &mut left, 0).and_then(|()| rename(partial, to));
    if let Err(errno) = copied {
        let _ = remove(partial);
        return Err(errno);
    }
    let now = stat(from)?;
    if (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino) {
        // Somebody put another thing there; it is not the one we have.
        return Err(Errno::STALE);
    }
    remove(from)
}

struct Left {
    bytes: u64,
    entries: usize,
}

/// Copies a tree without following anything. Sockets and devices are left out: they are nothing without the program behind them.
fn copy(from: At<'_>, to: At<'_>, left: &mut Left, depth: usize) -> Result<(), Errno> {
    left.entries = left.entries.checked_sub(1).ok_or(Errno::FBIG)?;
    if depth > DEEPEST {
        return Err(Errno::FBIG);
    }
    let found = stat(from)?;
    let private = Mode::RWXU;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let source = open_to_read(from, flags)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let target = rustix::fs::openat(to.folder, to.name, flags, private)?;
            copy_bytes(&source, &target, left)?;
            rustix::fs::fsync(&target)?;
        }
        FileType::Symlink => {
            let text = rustix::fs::readlinkat(from.folder, from.name, Vec::new())?;
            rustix::fs::symlinkat(text.as_c_str(), to.folder, to.name)?;
        }
        FileType::Fifo => rustix::fs::mknodat(to.folder, to.name, FileType::Fifo, private, 0)?,
        FileType::Directory => {
            let source =
                open_to_read(from, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC)?;
            rustix::fs::mkdirat(to.folder, to.name, private)?;
            let target = open_folder(to)?;
            each_name(&source, |name| {
                let name = OsStr::from_bytes(name.to_bytes());
                let from = At { folder: source.as_fd(), name };
                copy(from, At { folder: target.as_fd(), name }, left, depth + 1)
            })?;
        }
        _ => return Ok(()),
    }
    dress(to, &found);
    Ok(())
}

/// Owner, mode and times as they were, as far as we may.
fn dress(at: At<'_>, like: &Stat) {
    let (owner, group) = (Uid::from_raw(like.st_uid), Gid::from_raw(like.st_gid));
    let nofollow = AtFlags::SYMLINK_NOFOLLOW;
    let _ = rustix::fs::chownat(at.folder, at.name, Some(owner), Some(group), nofollow);
    if FileType::from_raw_mode(like.st_mode) != FileType::Symlink {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if let Ok(thing) = rustix::fs::openat(at.folder, at.name, flags, Mode::empty()) {
            let _ = set_mode(&thing, Mode::from_raw_mode(like.st_mode));
        }
    }
    let stamp = |tv_sec, tv_nsec: u64| Timespec { tv_sec, tv_nsec: i64::try_from(tv_nsec).unwrap_or(0) };
    let times = Timestamps {
        last_access: stamp(like.st_atime, like.st_atime_nsec),
        last_modification: stamp(like.st_mtime, like.st_mtime_nsec),
    };
    let _ = rustix::fs::utimensat(at.folder, at.name, &times, nofollow);
}

/// Opens for reading, also what its maker closed to its owner.
fn open_to_read(at: At<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    match rustix::fs::openat(at.folder, at.name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let flags_of_path = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let thing = rustix::fs::openat(at.folder, at.name, flags_of_path, Mode::empty())?;
            let kind = FileType::from_raw_mode(rustix::fs::fstat(&thing)?.st_mode);
            if !matches!(kind, FileType::RegularFile | FileType::Directory) {
                return Err(Errno::ACCESS);
            }
            let _opened = OpenedUp::new(thing)?;
            rustix::fs::openat(at.folder, at.name, flags, Mode::empty())
        }
        other => other,
    }
}

fn open_folder(at: At<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at.folder, at.name, flags, Mode::empty())
}

fn copy_bytes(from: &OwnedFd, to: &OwnedFd, left: &mut Left) -> Result<(), Errno> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match rustix::io::read(from, &mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                left.bytes = left.bytes.checked_sub(read as u64).ok_or(Errno::FBIG)?;
                keyward_sys::file::write_all(to, &buffer[..read])?;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

fn each_name(folder: &OwnedFd, mut act: impl FnMut(&CStr) -> Result<(), Errno>) -> Result<(), Errno> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            act(entry.file_name())?;
        }
    }
    Ok(())
}

/// Removes a tree. Links are removed, not followed.
pub(crate) fn remove(at: At<'_>) -> Result<(), Errno> {
    match rustix::fs::unlinkat(at.folder, at.name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => {}
        other => return other,
    }
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(folder) = rustix::fs::openat(at.folder, at.name, flags, Mode::empty()) {
        // Its maker may have closed it to its owner.
        set_mode(&folder, Mode::RWXU)?;
    }
    let folder = open_folder(at)?;
    each_name(&folder, |name| {
        remove(At { folder: folder.as_fd(), name: OsStr::from_bytes(name.to_bytes()) })
    })?;
    rustix::fs::unlinkat(at.folder, at.name, AtFlags::REMOVEDIR)
}
