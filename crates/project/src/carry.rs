//! Carries a file, link or directory from one directory to another, as it is: nothing is followed, and what stands at the target
//! stays. Trees may be of any depth.

pub(crate) use crate::descent::{At, stat};
use crate::descent::{Descent, is_directory};
use crate::tree::{OpenedUp, set_mode};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, RenameFlags, SeekFrom, Stat, Timestamps, Uid};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// What is copied from one file system to another at the most, holes not counted; moving costs nothing and has no bound.
const MOST_BYTES: u64 = 256 << 20;
/// Each entry costs a few system calls at the end of a run: so many take seconds. Depth has no bound of its own.
const MOST_ENTRIES: usize = 50_000;
/// Subdirectories of one directory that are remembered at a time while a tree is removed.
const MOST_REMEMBERED: usize = 4096;

/// Whether a thing may be copied where it cannot be moved.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Across {
    /// Copy it, then remove it.
    Copied,
    /// Not while the command lives: it could put something else in its place between the copy and the removal.
    NotNow,
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

fn copy_and_remove(from: At<'_>, to: At<'_>) -> Result<(), Errno> {
    let before = stat(from)?;
    let partial = At { folder: to.folder, name: OsStr::new(PARTIAL) };
    let mut left = Left { bytes: MOST_BYTES, entries: MOST_ENTRIES };
    let copied = copy(from, partial, &mut left).and_then(|()| rename(partial, to));
    if let Err(errno) = copied {
        let _ = remove(partial);
        return Err(errno);
    }
    let now = stat(from)?;
    if (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino) {
        // Somebody put another thing there; it is not the one we have.
        return Err(Errno::STALE);
    }
    remove(from).map_err(|not_removed| not_removed.errno)
}

/// What may still be copied.
struct Left {
    bytes: u64,
    entries: usize,
}

impl Left {
    fn entry(&mut self) -> Result<(), Errno> {
        self.entries = self.entries.checked_sub(1).ok_or(Errno::FBIG)?;
        Ok(())
    }
}

/// Copies a tree without following anything. Sockets and devices are left out: they are nothing without the program behind them.
fn copy(from: At<'_>, to: At<'_>, left: &mut Left) -> Result<(), Errno> {
    let found = stat(from)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
        return copy_one(from, to, &found, left);
    }
    // The directory the walk is in and those above it: how they were, and what is still to be copied of each.
    let mut levels: Vec<(Stat, Vec<OsString>)> = Vec::new();
    let mut source = Descent::begin(from)?;
    let mut target = Descent::begin(make_private(to, left)?)?;
    levels.push((found, copy_files(source.here(), target.here(), left)?));
    loop {
        let next = levels.last_mut().and_then(|(_, below)| below.pop());
        match next {
            Some(name) => {
                let found = stat(At { folder: source.here(), name: &name })?;
                source.enter(&name)?;
                make_private(At { folder: target.here(), name: &name }, left)?;
                target.enter(&name)?;
                levels.push((found, copy_files(source.here(), target.here(), left)?));
            }
            None => {
                let Some((found, _)) = levels.pop() else { return Ok(()) };
                if levels.is_empty() {
                    drop(target);
                    dress(to, &found);
                    return Ok(());
                }
                source.leave()?;
                let name = target.leave()?;
                dress(At { folder: target.here(), name: &name }, &found);
            }
        }
    }
}

/// Makes a directory to copy into.
fn make_private<'a>(at: At<'a>, left: &mut Left) -> Result<At<'a>, Errno> {
    left.entry()?;
    rustix::fs::mkdirat(at.folder, at.name, Mode::RWXU).map(|()| at)
}

/// Copies what is not a directory, and gives the names of those that are.
fn copy_files(
    source: BorrowedFd<'_>,
    target: BorrowedFd<'_>,
    left: &mut Left,
) -> Result<Vec<OsString>, Errno> {
    let mut directories = Vec::new();
    for name in names(source)? {
        let name = name?;
        let from = At { folder: source, name: &name };
        let found = stat(from)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
            copy_one(from, At { folder: target, name: &name }, &found, left)?;
        } else if directories.len() < left.entries {
            directories.push(name);
        } else {
            return Err(Errno::FBIG);
        }
    }
    Ok(directories)
}

fn copy_one(from: At<'_>, to: At<'_>, found: &Stat, left: &mut Left) -> Result<(), Errno> {
    left.entry()?;
    let private = Mode::RUSR | Mode::WUSR;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => {
            let source = open_to_read(from)?;
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
        _ => return Ok(()),
    }
    dress(to, found);
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

/// Opens a file for reading, also one that its maker closed to its owner.
fn open_to_read(at: At<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::openat(at.folder, at.name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let flags_of_path = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let thing = rustix::fs::openat(at.folder, at.name, flags_of_path, Mode::empty())?;
            if FileType::from_raw_mode(rustix::fs::fstat(&thing)?.st_mode) != FileType::RegularFile {
                return Err(Errno::ACCESS);
            }
            let _opened = OpenedUp::new(thing)?;
            rustix::fs::openat(at.folder, at.name, flags, Mode::empty())
        }
        other => other,
    }
}

/// Copies what a file holds. Holes stay holes, and do not count: a file may be longer than any disk.
fn copy_bytes(from: &OwnedFd, to: &OwnedFd, left: &mut Left) -> Result<(), Errno> {
    let length = u64::try_from(rustix::fs::fstat(from)?.st_size).unwrap_or(0);
    let mut at = 0;
    while at < length {
        let (data, end) = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            // A hole up to the end, or the file has become shorter.
            Err(Errno::NXIO) => break,
            // A file system that does not know its holes has none.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => (at, length),
            found => {
                let data = found?;
                (data, rustix::fs::seek(from, SeekFrom::Hole(data))?.min(length))
            }
        };
        copy_range(from, to, data, end, left)?;
        at = end.max(data + 1);
    }
    rustix::fs::ftruncate(to, length)
}

fn copy_range(from: &OwnedFd, to: &OwnedFd, mut at: u64, end: u64, left: &mut Left) -> Result<(), Errno> {
    let mut buffer = vec![0; 64 << 10];
    while at < end {
        let most = usize::try_from(end - at).unwrap_or(buffer.len()).min(buffer.len());
        match rustix::io::pread(from, &mut buffer[..most], at) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                left.bytes = left.bytes.checked_sub(read as u64).ok_or(Errno::FBIG)?;
                rustix::fs::seek(to, SeekFrom::Start(at))?;
                keyward_sys::file::write_all(to, &buffer[..read])?;
                at += read as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// The names in an open directory.
fn names(folder: BorrowedFd<'_>) -> Result<impl Iterator<Item = Result<OsString, Errno>>, Errno> {
    let name = |entry: Result<rustix::fs::DirEntry, Errno>| match entry {
        Ok(entry) if matches!(entry.file_name().to_bytes(), b"." | b"..") => None,
        Ok(entry) => Some(Ok(OsStr::from_bytes(entry.file_name().to_bytes()).into())),
        Err(errno) => Some(Err(errno)),
    };
    Ok(Dir::read_from(folder)?.filter_map(name))
}

/// What could not be removed, and why. The path begins below the tree that was to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRemoved {
    pub path: PathBuf,
    pub errno: Errno,
}

impl From<Errno> for NotRemoved {
    fn from(errno: Errno) -> Self {
        NotRemoved { path: PathBuf::new(), errno }
    }
}

/// Removes a tree. Links are removed, not followed.
pub(crate) fn remove(at: At<'_>) -> Result<(), NotRemoved> {
    if remove_one(at)? == Removed::Yes {
        return Ok(());
    }
    let mut walk = Descent::begin(at)?;
    let mut levels: Vec<Remaining> = Vec::new();
    levels.push(remove_files(&walk)?);
    while let Some(remaining) = levels.last_mut() {
        let failed = |errno, path: PathBuf| NotRemoved { path, errno };
        match remaining.directories.pop() {
            Some(name) => {
                walk.enter(&name).map_err(|errno| failed(errno, walk.path().join(&name)))?;
                levels.push(remove_files(&walk)?);
            }
            // Those that were remembered are gone: the next ones.
            None if remaining.more => *remaining = remove_files(&walk)?,
            None => {
                levels.pop();
                if levels.is_empty() {
                    break;
                }
                let name = walk.leave().map_err(|errno| failed(errno, walk.path()))?;
                rustix::fs::unlinkat(walk.here(), name.as_os_str(), AtFlags::REMOVEDIR)
                    .map_err(|errno| failed(errno, walk.path().join(&name)))?;
            }
        }
    }
    drop(walk);
    Ok(rustix::fs::unlinkat(at.folder, at.name, AtFlags::REMOVEDIR)?)
}

#[derive(PartialEq, Eq)]
enum Removed {
    Yes,
    /// A directory, which has to be emptied first.
    NotYet,
}

fn remove_one(at: At<'_>) -> Result<Removed, Errno> {
    match rustix::fs::unlinkat(at.folder, at.name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) if is_directory(at) => Ok(Removed::NotYet),
        other => other.map(|()| Removed::Yes),
    }
}

/// Directories that are still to be removed, and whether there may be others beside them.
struct Remaining {
    directories: Vec<OsString>,
    more: bool,
}

/// Removes what is not a directory.
fn remove_files(walk: &Descent) -> Result<Remaining, NotRemoved> {
    let here = |errno| NotRemoved { path: walk.path(), errno };
    let mut directories = Vec::new();
    for name in names(walk.here()).map_err(here)? {
        let name = name.map_err(here)?;
        match remove_one(At { folder: walk.here(), name: &name }) {
            Ok(Removed::Yes) | Err(Errno::NOENT) => {}
            Ok(Removed::NotYet) if directories.len() == MOST_REMEMBERED => {
                return Ok(Remaining { directories, more: true });
            }
            Ok(Removed::NotYet) => directories.push(name),
            Err(errno) => return Err(NotRemoved { path: walk.path().join(&name), errno }),
        }
    }
    Ok(Remaining { directories, more: false })
}

/// How many bytes a tree holds on the disk. What cannot be looked into is left out.
pub(crate) fn size(at: At<'_>) -> u64 {
    let mut bytes = 0;
    let Ok(mut walk) = Descent::begin(at) else { return bytes };
    let mut levels = vec![look(&walk, &mut bytes)];
    while let Some(directories) = levels.last_mut() {
        match directories.pop() {
            Some(name) => {
                if walk.enter(&name).is_ok() {
                    levels.push(look(&walk, &mut bytes));
                }
            }
            None => {
                levels.pop();
                if !levels.is_empty() && walk.leave().is_err() {
                    break;
                }
            }
        }
    }
    bytes
}

/// Adds what a directory holds, and gives the names of those below it.
fn look(walk: &Descent, bytes: &mut u64) -> Vec<OsString> {
    let mut directories = Vec::new();
    for name in names(walk.here()).into_iter().flatten().flatten() {
        let Ok(found) = stat(At { folder: walk.here(), name: &name }) else { continue };
        // In units of 512 bytes, whatever the block size is: what a file does not hold does not count.
        *bytes += u64::try_from(found.st_blocks).unwrap_or(0) * 512;
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            directories.push(name);
        }
    }
    directories
}
