//! Refs on disk: reads all of a repository's, copies them for a cage, and tells when some have changed.

use super::base::path;
use super::place::{self, Stamp, Thing};
use keyward_policy::untrusted::git::refs::{Refs, Value, packed};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const DEPTH: usize = 24;
/// More refs than this in files of their own are given to the cage packed: a file each would take long.
const MOST_LOOSE: usize = 512;
/// No repository has more, and reading them must end.
const MOST: usize = 1_000_000;
const MOST_WATCHED: usize = 1_024;
/// A ref is one line.
const MOST_CONTENT: usize = 1_024;
const MOST_PACKED: usize = 128 << 20;

/// `HEAD`, if it says something.
pub(super) fn head(folder: impl AsFd) -> Option<Value> {
    Value::read(&place::read(folder, Path::new("HEAD"), MOST_CONTENT).ok()?.0)
}

/// The same of a part.
pub(super) fn head_in(folder: &OwnedFd, at: &Path) -> Option<Value> {
    head(place::folder(folder, at).ok()?)
}

/// All refs below `refs`, those in files of their own before packed ones.
pub(super) fn read(folder: &OwnedFd) -> Result<Refs, Errno> {
    // Files first: one that is packed in between is then found packed, and never lost.
    let loose = loose(folder)?;
    let mut all = match place::read(folder, Path::new("packed-refs"), MOST_PACKED) {
        Ok((text, _)) => packed(&text),
        Err(Errno::NOENT) => Refs::new(),
        Err(errno) => return Err(errno),
    };
    all.extend(loose);
    Ok(all)
}

fn loose(folder: &OwnedFd) -> Result<Refs, Errno> {
    let mut all = Refs::new();
    let mut folders = vec![(PathBuf::from("refs"), 0)];
    while let Some((at, depth)) = folders.pop() {
        let open = match place::folder(folder, &at) {
            Err(Errno::NOENT | Errno::NOTDIR) => continue,
            open => open?,
        };
        for name in place::names(&open) {
            let inside = at.join(&name);
            match place::thing_in(&open, &name) {
                Some(Thing::Folder) if depth < DEPTH => folders.push((inside, depth + 1)),
                Some(Thing::File(_)) if !name.as_bytes().ends_with(b".lock") => {
                    let read = place::read(&open, Path::new(&name), MOST_CONTENT);
                    if let Some(value) = read.ok().and_then(|(content, _)| Value::read(&content)) {
                        all.insert(inside.into_os_string().as_bytes().to_vec(), value);
                    }
                }
                _ => {}
            }
            if all.len() > MOST {
                return Err(Errno::FBIG);
            }
        }
    }
    Ok(all)
}

/// Gives a cage the host's refs. Those that the host has in files of their own.
pub(super) fn copy(from: &Path, to: &Path) -> std::io::Result<Refs> {
    let host = super::base::open(from)?;
    for folder in ["refs", "refs/heads", "refs/tags"] {
        std::fs::create_dir_all(to.join(folder))?;
    }
    let loose = loose(&host)?;
    let is_many = loose.len() > MOST_LOOSE;
    for (name, value) in &loose {
        if is_many && matches!(value, Value::Id(_)) {
            continue;
        }
        let file = to.join(path(name));
        match std::fs::write(&file, value.spelled()) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                std::fs::create_dir_all(file.parent().unwrap_or(to))?;
                std::fs::write(file, value.spelled())?;
            }
            written => written?,
        }
    }
    if is_many {
        let packed_file = to.join("packed-refs");
        let mut all = packed(&std::fs::read(&packed_file).unwrap_or_default());
        all.extend(loose.clone());
        std::fs::write(&packed_file, super::base::spelled(&all))?;
    }
    Ok(loose)
}

/// What tells one state of a repository's refs from another, without reading them. Git puts a new file in the place of one that changes.
pub(super) fn signature(folder: &OwnedFd) -> Vec<u8> {
    let mut out = Vec::new();
    let mut add = |name: &Path, stamp: Option<Stamp>| {
        out.extend_from_slice(name.as_os_str().as_bytes());
        out.push(b' ');
        out.extend(stamp.map(Stamp::spelled).unwrap_or_default());
        out.push(b'\n');
    };
    for name in ["HEAD", "packed-refs", "logs/HEAD", "logs/refs/stash", "shallow"] {
        add(Path::new(name), place::stamp(folder, Path::new(name)));
    }
    let mut folders = vec![(PathBuf::from("refs"), 0)];
    while let Some((at, depth)) = folders.pop() {
        let Ok(open) = place::folder(folder, &at) else { continue };
        let mut names: Vec<OsString> = place::names(&open);
        names.sort();
        for name in names {
            let inside = at.join(&name);
            match place::thing_in(&open, &name) {
                Some(Thing::Folder) if depth < DEPTH => folders.push((inside, depth + 1)),
                Some(Thing::File(stamp)) if !name.as_bytes().ends_with(b".lock") => add(&inside, Some(stamp)),
                _ => {}
            }
        }
    }
    out
}

/// The folders in which refs change, to be watched. `None` if they are too many: the user's other programs want watches as well.
pub(super) fn folders(folder: &OwnedFd) -> Option<Vec<PathBuf>> {
    let mut all = vec![PathBuf::from("refs")];
    let mut at = 0;
    while let Some(here) = all.get(at).cloned() {
        at += 1;
        if all.len() > MOST_WATCHED {
            return None;
        }
        let Ok(open) = place::folder(folder, &here) else { continue };
        let is_folder = |name: &OsString| place::thing_in(&open, name) == Some(Thing::Folder);
        if here.components().count() < DEPTH {
            all.extend(place::names(&open).into_iter().filter(is_folder).map(|name| here.join(name)));
        }
    }
    Some(all)
}
