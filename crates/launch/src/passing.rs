//! What a command has left in directories of the cage's own: looked at by the launcher once everything in the cage has ended.

use keyward_policy::view::{
    GIT_SETTINGS_FILE, Gone, Passing, View, is_missed, passing_directories, planned_git_settings,
};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use std::ffi::{CStr, OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

/// So many entries of a directory are looked at: the command decides how many there are.
const MOST_ENTRIES: usize = 4096;

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens such a directory in the cage.
pub(crate) fn open(directory: &CStr) -> Option<OwnedFd> {
    rustix::fs::open(directory, FLAGS, Mode::empty()).ok()
}

/// What is lost of what the command has put there. `directories` are those of the plan, in its order.
pub(crate) fn gone(view: &View, directories: &[OwnedFd]) -> Vec<Gone> {
    let mut all = Vec::new();
    for (passing, directory) in passing_directories(view).iter().zip(directories) {
        let names = missed(passing, directory.as_fd());
        if !names.is_empty() {
            all.push(Gone::new(view, &passing.directory, names));
        }
        if passing.directory == view.home.at && has_other_settings(view, directory.as_fd()) {
            all.push(Gone::new(view, &passing.directory, vec![GIT_SETTINGS_FILE.into()]));
        }
    }
    all
}

/// Whether the command has changed the user's settings of git, as the cage had them.
fn has_other_settings(view: &View, home: BorrowedFd<'_>) -> bool {
    /// Longer ones differ from ours.
    const LONGEST: u64 = 64 << 10;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(home, GIT_SETTINGS_FILE, flags, Mode::empty());
    let Some(file) = opened.ok().filter(|file| {
        rustix::fs::fstat(file)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    }) else {
        return false;
    };
    let mut text = Vec::new();
    let read = std::fs::File::from(file).take(LONGEST).read_to_end(&mut text);
    read.is_ok() && !text.is_empty() && text != planned_git_settings(view)
}

fn missed(passing: &Passing, directory: BorrowedFd<'_>) -> Vec<OsString> {
    let mut found = Vec::new();
    for name in names(directory, MOST_ENTRIES) {
        if !is_missed(passing, &name) {
            continue;
        }
        let Ok(stat) = rustix::fs::statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => found.push(name),
            FileType::Directory if !is_empty(directory, &name) => {
                let mut name = name;
                name.push("/");
                found.push(name);
            }
            _ => {}
        }
    }
    found
}

fn is_empty(above: BorrowedFd<'_>, name: &OsStr) -> bool {
    let opened = rustix::fs::openat(above, name, FLAGS, Mode::empty());
    opened.is_ok_and(|directory| names(directory.as_fd(), 1).is_empty())
}

fn names(directory: BorrowedFd<'_>, most: usize) -> Vec<OsString> {
    let Ok(entries) = Dir::read_from(directory) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok().map(|entry| entry.file_name().to_bytes().to_vec()));
    let names = names.filter(|name| !matches!(name.as_slice(), b"." | b".."));
    names.take(most).map(|name| OsStr::from_bytes(&name).to_os_string()).collect()
}
