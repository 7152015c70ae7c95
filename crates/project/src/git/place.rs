//! Files below a folder that is known by its descriptor: read, replaced and removed without following a link.

use keyward_sys::file::write_all;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// What tells one state of a file from another. The change time cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    size: i64,
    changed: i128,
}

impl Stamp {
    /// For a file of ours.
    pub(super) fn spelled(self) -> Vec<u8> {
        format!("{}:{}:{}", self.inode, self.size, self.changed).into_bytes()
    }

    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(text).ok()?.split(':');
        let (inode, size) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Stamp { inode, size, changed: parts.next()?.parse().ok()? })
    }

    pub(super) fn size(self) -> u64 {
        u64::try_from(self.size).unwrap_or(0)
    }

    fn of(stat: &Stat) -> Self {
        let changed = i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec);
        Stamp { inode: stat.st_ino, size: stat.st_size, changed }
    }
}

/// What stands at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thing {
    File(Stamp),
    Folder,
    Other,
}

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

/// Opens a folder below another; an empty path is the folder itself.
pub(super) fn folder(base: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(base, path, flags, Mode::empty(), BENEATH)
}

/// Where a folder is that is reached without a link and without leaving the base, relative to it.
pub(super) fn path_of(base: impl AsFd, path: &Path) -> Option<PathBuf> {
    let by_number = |number: i32| std::fs::read_link(format!("/proc/self/fd/{number}")).ok();
    let found = by_number(folder(base.as_fd(), path).ok()?.as_raw_fd())?;
    Some(found.strip_prefix(by_number(base.as_fd().as_raw_fd())?).ok()?.to_path_buf())
}

/// The same, and makes what is missing.
pub(super) fn made_folder(base: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let base = base.as_fd();
    match folder(base, path) {
        Err(Errno::NOENT) => {
            let above = made_folder(base, path.parent().unwrap_or(Path::new("")))?;
            let name = path.file_name().ok_or(Errno::INVAL)?;
            match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => folder(above, Path::new(name)),
                Err(errno) => Err(errno),
            }
        }
        found => found,
    }
}

/// What stands at a path; `None` if nothing does.
pub(super) fn thing(base: impl AsFd, path: &Path) -> Option<Thing> {
    let parent = folder(base, path.parent().unwrap_or(Path::new(""))).ok()?;
    thing_in(&parent, path.file_name()?)
}

pub(super) fn thing_in(folder: impl AsFd, name: &OsStr) -> Option<Thing> {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Thing::File(Stamp::of(&stat)),
        FileType::Directory => Thing::Folder,
        _ => Thing::Other,
    })
}

/// The state of a file; `None` if there is none.
pub(super) fn stamp(base: impl AsFd, path: &Path) -> Option<Stamp> {
    match thing(base, path) {
        Some(Thing::File(stamp)) => Some(stamp),
        _ => None,
    }
}

/// Adds to the end of a file, in one piece, as git does to its logs.
pub(super) fn append(base: impl AsFd, path: &Path, content: &[u8]) -> Result<(), Errno> {
    let folder = made_folder(base, path.parent().unwrap_or(Path::new("")))?;
    let name = path.file_name().ok_or(Errno::INVAL)?;
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(&folder, name, flags | OFlags::NONBLOCK, Mode::from_raw_mode(0o666));
    let file = match open() {
        // Logs of branches below this name that are no more.
        Err(Errno::ISDIR) => {
            remove_folder(&folder, Path::new(name))?;
            open()?
        }
        opened => opened?,
    };
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    write_all(&file, content)
}

/// The names in a folder.
pub(super) fn names(folder: impl AsFd) -> Vec<OsString> {
    let Ok(listing) = rustix::fs::Dir::read_from(folder) else { return Vec::new() };
    let all = listing.flatten().map(|entry| OsString::from_vec(entry.file_name().to_bytes().to_vec()));
    all.filter(|name| name != "." && name != "..").collect()
}

/// Opens an ordinary file, and nothing else, for reading.
pub(super) fn open_file(base: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = rustix::fs::openat2(base, path, flags, Mode::empty(), BENEATH)?;
    match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file),
        _ => Err(Errno::INVAL),
    }
}

/// The whole of an ordinary file, and its stamp.
pub(super) fn read(base: impl AsFd, path: &Path, most: usize) -> Result<(Vec<u8>, Stamp), Errno> {
    let file = open_file(base, path)?;
    let stat = rustix::fs::fstat(&file)?;
    let mut content = Vec::with_capacity(usize::try_from(stat.st_size).unwrap_or(0).min(most) + 1);
    let mut part = [0; 1 << 16];
    loop {
        match rustix::io::read(&file, &mut part) {
            Ok(0) => return Ok((content, Stamp::of(&stat))),
            Ok(length) if content.len() + length > most => return Err(Errno::FBIG),
            Ok(length) => content.extend_from_slice(&part[..length]),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Replaces a file as git does: written whole under the name of its lock, then put in its place. `still` is asked while we hold the
/// lock. EEXIST means that another process holds it.
pub(super) fn replace(
    base: impl AsFd,
    path: &Path,
    content: &[u8],
    still: impl FnOnce(Option<Thing>) -> bool,
) -> Result<Stamp, Errno> {
    let folder = made_folder(base, path.parent().unwrap_or(Path::new("")))?;
    let name = path.file_name().ok_or(Errno::INVAL)?;
    let mut lock = name.to_os_string();
    lock.push(".lock");
    let mode = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
        .ok()
        .map(|before| Mode::from_raw_mode(before.st_mode & 0o777));
    let file = match unnamed(&folder) {
        Err(Errno::OPNOTSUPP) => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let file = rustix::fs::openat(&folder, &lock, flags, Mode::from_raw_mode(0o666))?;
            write(&file, content, mode).inspect_err(|_| {
                let _ = rustix::fs::unlinkat(&folder, &lock, AtFlags::empty());
            })?;
            file
        }
        unnamed => {
            let file = unnamed?;
            write(&file, content, mode)?;
            let by_number = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            rustix::fs::linkat(rustix::fs::CWD, &by_number, &folder, &lock, AtFlags::SYMLINK_FOLLOW)?;
            file
        }
    };
    let placed = if still(thing_in(&folder, name)) {
        rustix::fs::renameat(&folder, &lock, &folder, name)
    } else {
        Err(Errno::STALE)
    };
    match placed {
        Ok(()) => Ok(Stamp::of(&rustix::fs::fstat(&file)?)),
        Err(errno) => {
            let _ = rustix::fs::unlinkat(&folder, &lock, AtFlags::empty());
            Err(errno)
        }
    }
}

/// A file without a name, so that nothing is left behind if we die while writing.
fn unnamed(folder: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(folder, c".", flags, Mode::from_raw_mode(0o666))
}

fn write(file: &OwnedFd, content: &[u8], mode: Option<Mode>) -> Result<(), Errno> {
    if let Some(mode) = mode {
        rustix::fs::fchmod(file, mode)?;
    }
    write_all(file, content)
}

/// Removes a file; one that is not there is no trouble.
pub(super) fn remove(base: impl AsFd, path: &Path) -> Result<(), Errno> {
    let parent = match folder(base, path.parent().unwrap_or(Path::new(""))) {
        Ok(parent) => parent,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    match rustix::fs::unlinkat(&parent, path.file_name().ok_or(Errno::INVAL)?, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}

/// Removes a folder if nothing is left in it.
pub(super) fn remove_folder(base: impl AsFd, path: &Path) -> Result<(), Errno> {
    let parent = folder(base, path.parent().unwrap_or(Path::new("")))?;
    rustix::fs::unlinkat(&parent, path.file_name().ok_or(Errno::INVAL)?, AtFlags::REMOVEDIR)
}

/// All files below a folder, relative to it; anything but files and folders is an error.
pub(super) fn files_below(base: BorrowedFd<'_>, path: &Path, depth: usize) -> Result<Vec<PathBuf>, Errno> {
    let here = folder(base, path)?;
    let mut all = Vec::new();
    for name in names(&here) {
        match thing_in(&here, &name) {
            Some(Thing::File(_)) => all.push(PathBuf::from(name)),
            Some(Thing::Folder) if depth == 0 => {}
            Some(Thing::Folder) => {
                let below = files_below(base, &path.join(&name), depth - 1)?;
                all.extend(below.into_iter().map(|file| Path::new(&name).join(file)));
            }
            None => {}
            Some(_) => return Err(Errno::INVAL),
        }
    }
    Ok(all)
}
