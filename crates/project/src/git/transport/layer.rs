//! Lists what a command's object directory holds. Everything in it is hostile: links are not followed, and only regular
//! files are opened.

use super::{Kind, Refused};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::path::Path;

/// What is there and was not delivered before.
#[derive(Default)]
pub(super) struct New {
    /// Names of objects that lie in files of their own.
    pub loose: Vec<String>,
    /// File names of pack indexes.
    pub packs: Vec<String>,
    /// How many bytes all of that takes on the disk; exact only while it is small.
    pub bytes: u64,
}

/// Beyond this many loose objects their sizes do not matter any more.
const MEASURED: usize = 1_000;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens the command's object directory, which must not be a link.
pub(super) fn open(path: &Path) -> Result<OwnedFd, Refused> {
    match rustix::fs::open(path, DIRECTORY, Mode::empty()) {
        Ok(directory) => Ok(directory),
        Err(Errno::LOOP | Errno::NOTDIR) => Err(hostile("the object directory is a link")),
        Err(errno) => Err(Refused::errno("open the object directory of the command", errno)),
    }
}

fn hostile(why: &str) -> Refused {
    Refused::new(Kind::Hostile, why)
}

fn is_hex(name: &str) -> bool {
    name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a name is that of the index of a pack.
fn is_index_of_pack(name: &str) -> bool {
    let middle = name.strip_prefix("pack-").and_then(|rest| rest.strip_suffix(".idx"));
    middle.is_some_and(|middle| !middle.is_empty() && middle.len() <= 64 && is_hex(middle))
}

/// Finds what `seen` does not name.
pub(super) fn look(
    objects: &OwnedFd,
    id_length: usize,
    seen: &BTreeSet<String>,
    most: u64,
) -> Result<New, Refused> {
    let mut new = New::default();
    for (name, _) in entries(objects.as_fd())? {
        match name.as_str() {
            "pack" => look_at_packs(&directory(objects, &name)?, seen, &mut new)?,
            "info" => look_at_info(&directory(objects, &name)?)?,
            _ if name.len() == 2 && is_hex(&name) => {
                // A link in its place shows nothing, as if it were not there.
                let Ok(below) = rustix::fs::openat(objects, name.as_str(), DIRECTORY, Mode::empty()) else {
                    continue;
                };
                look_at_loose(&below, &name, id_length, seen, &mut new)?;
            }
            _ => {}
        }
        if new.loose.len() as u64 > most {
            return Err(Refused::too_many(most));
        }
    }
    Ok(new)
}

fn directory(objects: &OwnedFd, name: &str) -> Result<OwnedFd, Refused> {
    rustix::fs::openat(objects, name, DIRECTORY, Mode::empty())
        .map_err(|_| hostile(&format!("objects/{name} is not a directory")))
}

/// Names that are text, and what they are. Git uses no other names here.
fn entries(directory: BorrowedFd<'_>) -> Result<Vec<(String, FileType)>, Refused> {
    let failed = |errno| Refused::errno("list the objects of the command", errno);
    let mut all = Vec::new();
    for entry in Dir::read_from(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if name == "." || name == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
                stat.map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
            }
            kind => kind,
        };
        all.push((name.to_owned(), kind));
    }
    Ok(all)
}

fn size(directory: &OwnedFd, name: &str) -> u64 {
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0))
}

fn look_at_loose(
    below: &OwnedFd,
    first: &str,
    id_length: usize,
    seen: &BTreeSet<String>,
    new: &mut New,
) -> Result<(), Refused> {
    for (rest, kind) in entries(below.as_fd())? {
        let is_object = kind == FileType::RegularFile && rest.len() == 2 * id_length - 2 && is_hex(&rest);
        let id = format!("{first}{rest}");
        if is_object && !seen.contains(&id) {
            if new.loose.len() < MEASURED {
                new.bytes = new.bytes.saturating_add(size(below, &rest));
            }
            new.loose.push(id);
        }
    }
    Ok(())
}

/// Git opens everything in this directory that has a name it knows: a FIFO would make it wait.
fn look_at_packs(packs: &OwnedFd, seen: &BTreeSet<String>, new: &mut New) -> Result<(), Refused> {
    for (name, kind) in entries(packs.as_fd())? {
        if kind != FileType::RegularFile && kind != FileType::Directory {
            return Err(hostile("objects/pack holds something that is not a file"));
        }
        if kind == FileType::RegularFile && is_index_of_pack(&name) && !seen.contains(&name) {
            let pack = format!("{}.pack", name.trim_end_matches(".idx"));
            new.bytes = new.bytes.saturating_add(size(packs, &pack));
            new.packs.push(name);
        }
    }
    Ok(())
}

fn look_at_info(info: &OwnedFd) -> Result<(), Refused> {
    let is_other =
        |(_, kind): &(String, FileType)| *kind != FileType::RegularFile && *kind != FileType::Directory;
    match entries(info.as_fd())?.iter().any(is_other) {
        true => Err(hostile("objects/info holds something that is not a file")),
        false => Ok(()),
    }
}

/// Opens the index of a pack, for git to read.
pub(super) fn open_index(objects: &OwnedFd, name: &str) -> Result<OwnedFd, Refused> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let failed = |errno| Refused::errno("open the index of a pack", errno);
    let packs = directory(objects, "pack")?;
    let index = rustix::fs::openat(&packs, name, flags, Mode::empty()).map_err(failed)?;
    let stat = rustix::fs::fstat(&index).map_err(failed)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(index),
        _ => Err(hostile("the index of a pack is not a file")),
    }
}
