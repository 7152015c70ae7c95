//! Makes and mends a HOME that is kept, before a run: nothing in it is overwritten, and no link in it is followed. Plain POSIX, for every
//! platform: another command may be at work in the same HOME, so that each folder is opened from the one above it.

use keyward_policy::view::{Home, Mend};
use keyward_sys::file::make_private_folder;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Opens a HOME that is kept to its owner, if a command has closed it: otherwise nothing could be known of it. It cannot be swapped, because
/// no command writes to the directory above it.
pub fn open_up(kept: &Path) -> Result<(), Errno> {
    let Ok(stat) = rustix::fs::lstat(kept) else { return Ok(()) };
    let mode = Mode::from_raw_mode(stat.st_mode);
    let is_closed =
        FileType::from_raw_mode(stat.st_mode) == FileType::Directory && !mode.contains(Mode::RWXU);
    if is_closed { rustix::fs::chmod(kept, mode | Mode::RWXU) } else { Ok(()) }
}

/// Gives the root of a project back what its owner could do with it at the start, if a command has taken that away: the next command of a
/// session would not even get there. The root is a mount of its own, so that no command can put another directory in its place.
pub fn reopen(root: &Path, at_start: Mode) {
    let Ok(stat) = rustix::fs::lstat(root) else { return };
    let (now, then) = (Mode::from_raw_mode(stat.st_mode), at_start & Mode::RWXU);
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory && !now.contains(then) {
        // Where that fails, the command says why it cannot start.
        let _ = rustix::fs::chmod(root, now | then);
    }
}

/// The permissions of a directory, as they are.
pub fn mode_of(root: &Path) -> Mode {
    rustix::fs::lstat(root).map_or(Mode::empty(), |stat| Mode::from_raw_mode(stat.st_mode))
}

/// Makes the HOME where it is missing, and does what the plan says is to be mended.
pub fn make_ready(home: &Home) -> Result<(), (PathBuf, Errno)> {
    let Some(kept) = &home.kept else { return Ok(()) };
    make_private_folder(kept).map_err(|errno| (kept.clone(), errno))?;
    for mend in &home.mends {
        let (at, done) = match mend {
            Mend::DropLink { at } => {
                (at, place(kept, at, false).and_then(|(folder, name)| drop_dangling(&folder, name)))
            }
            Mend::Link { at, to } => {
                (at, place(kept, at, true).and_then(|(folder, name)| link(&folder, name, to)))
            }
        };
        done.map_err(|errno| (at.clone(), errno))?;
    }
    Ok(())
}

/// The folder above a place in a HOME, made where it is missing and wanted, and the name in it.
fn place<'a>(kept: &Path, at: &'a Path, make: bool) -> Result<(OwnedFd, &'a OsStr), Errno> {
    let below = at.strip_prefix(kept).map_err(|_| Errno::INVAL)?;
    let name = below.file_name().ok_or(Errno::INVAL)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder = rustix::fs::open(kept, flags, Mode::empty())?;
    for part in below.parent().into_iter().flat_map(Path::iter) {
        if make {
            match rustix::fs::mkdirat(&folder, part, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        folder = rustix::fs::openat(&folder, part, flags, Mode::empty())?;
    }
    Ok((folder, name))
}

/// Removes a link that leads nowhere; anything else stays.
fn drop_dangling(folder: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    let is_link = rustix::fs::readlinkat(folder, name, Vec::new()).is_ok();
    if is_link && rustix::fs::statat(folder, name, AtFlags::empty()).is_err() {
        return rustix::fs::unlinkat(folder, name, AtFlags::empty());
    }
    Ok(())
}

/// A link to what the platform's programs look for.
fn link(folder: &OwnedFd, name: &OsStr, to: &Path) -> Result<(), Errno> {
    drop_dangling(folder, name)?;
    match rustix::fs::symlinkat(to, folder, name) {
        // Somebody was faster; what stands there stays.
        Err(Errno::EXIST) => Ok(()),
        done => done,
    }
}
