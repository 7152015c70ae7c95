//! A clone that was made in a cage borrows objects by the cage's own names for them. On the host it gets them for itself.

use super::layer::{BORROWED, borrowed_name};
use super::look::borrowed_objects;
use super::place::{self, Thing};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// No list of lenders is longer.
const MOST_TEXT: usize = 64 << 10;

/// Gives the objects at `objects` (below `base`) what they borrow, and takes their list away, if all that it names may be lent.
pub(crate) fn settle(
    base: impl AsFd,
    objects: &Path,
    lent: &[u8],
    at: &Path,
    is_lender: IsLender<'_>,
) -> Result<(), Errno> {
    let base = base.as_fd();
    let mut is_settled = true;
    for line in lent.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let lenders = lenders_of(&at.join(OsStr::from_bytes(line)), is_lender);
        is_settled &= !lenders.is_empty();
        for lender in lenders {
            lend(&lender, base, objects)?;
        }
    }
    if is_settled { place::remove(base, &objects.join("info/alternates")) } else { Ok(()) }
}

/// The list of lenders.
pub(crate) fn lenders(base: impl AsFd, objects: &Path) -> Option<Vec<u8>> {
    place::read(base, &objects.join("info/alternates"), MOST_TEXT).ok().map(|(text, _)| text)
}

/// Whether objects may be lent: the folder of the repository that was named, and where its objects, or what they borrow from, really are.
type IsLender<'a> = &'a dyn Fn(&Path, &Path) -> bool;

/// What the cage's name for objects leads to on the host: those of a repository, or what they borrow from. Nothing if one of them may not be lent.
fn lenders_of(name: &Path, is_lender: IsLender<'_>) -> Vec<PathBuf> {
    let Some(name) = keyward_sys::file::plain(name) else { return Vec::new() };
    let is_borrowed = name.parent().is_some_and(|above| above.ends_with(BORROWED));
    let Some(folder) = name.ancestors().nth(if is_borrowed { 2 } else { 1 }) else { return Vec::new() };
    let all = borrowed_objects(&folder.join("objects"));
    if !is_borrowed && !name.ends_with("objects") || !all.iter().all(|lender| is_lender(folder, lender)) {
        return Vec::new();
    }
    if !is_borrowed {
        return all;
    }
    let number = (0..all.len()).find(|&number| name.ends_with(borrowed_name(number)));
    number.and_then(|number| all.into_iter().nth(number)).into_iter().collect()
}

/// Copies every object of the lender's. A second name for the same file would let another command write to it.
fn lend(lender: &Path, base: impl AsFd, objects: &Path) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let from: OwnedFd = rustix::fs::open(lender, flags, Mode::empty())?;
    for folder in place::names(&from) {
        let is_hex = folder.len() == 2 && folder.as_bytes().iter().all(u8::is_ascii_hexdigit);
        if (!is_hex && folder != "pack") || place::thing_in(&from, &folder) != Some(Thing::Folder) {
            continue;
        }
        let source = place::folder(&from, Path::new(&folder))?;
        let target = place::made_folder(base.as_fd(), &objects.join(&folder))?;
        for name in place::names(&source) {
            let is_object = !name.as_bytes().starts_with(b"tmp_") && !name.as_bytes().ends_with(b".keep");
            if !is_object || !matches!(place::thing_in(&source, &name), Some(Thing::File(_))) {
                continue;
            }
            if place::thing_in(&target, &name).is_none() {
                copy(&source, &target, &name)?;
            }
        }
    }
    Ok(())
}

fn copy(source: &OwnedFd, target: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    let from = place::open_file(source, Path::new(name))?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let beside = [b"tmp_keyward_", name.as_bytes()].concat();
    let beside = OsStr::from_bytes(&beside);
    let to = rustix::fs::openat(target, beside, flags, Mode::from_raw_mode(0o444))?;
    let copied = std::io::copy(&mut std::fs::File::from(from), &mut std::fs::File::from(to));
    let placed = match copied {
        Ok(_) => rustix::fs::renameat(target, beside, target, name),
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    };
    if placed.is_err() {
        let _ = rustix::fs::unlinkat(target, beside, AtFlags::empty());
    }
    placed
}
