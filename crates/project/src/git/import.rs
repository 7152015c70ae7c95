//! What a command made anew in a repository's own folder: the repository of a submodule, the folder of a working tree.

use super::place::{self, Thing};
use super::publish::Sides;
use keyward_policy::git::names::{new_fate, worktree_fate};
use keyward_policy::git::{Check, Fate, config};
use keyward_sys::file::plain;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What stays in the cage, and why.
type KeptBack = Vec<(PathBuf, String)>;

/// Objects lie three folders deep, names of branches deeper.
const DEPTH: usize = 24;

/// Makes a submodule's repository on the host of what is safe in the command's. `own` is its absolute path.
pub(super) fn module(
    sides: &Sides,
    module: &Path,
    own: &Path,
    project: &Path,
    id_length: usize,
) -> Result<KeptBack, Errno> {
    let mut kept_back = Vec::new();
    let mut files = place::files_below(sides.merged.as_fd(), module, DEPTH)?;
    // Before it has a HEAD it is no repository, so that comes last.
    files.sort_by_key(|file| file == Path::new("HEAD"));
    let nested: Vec<PathBuf> = files
        .iter()
        .filter(|file| file.starts_with("modules") && file.ends_with("HEAD") && !is_log(file))
        .filter_map(|file| file.parent().map(Path::to_path_buf))
        .filter(|folder| !files.contains(&folder.parent().unwrap_or(folder).join("HEAD")))
        .collect();
    for folder in &nested {
        let below = self::module(sides, &module.join(folder), &own.join(folder), project, id_length)?;
        kept_back.extend(below);
    }
    for file in files.iter().filter(|file| !file.starts_with("modules")) {
        let path = module.join(file);
        match new_fate(file) {
            Fate::Published(check) | Fate::Lasting(check) | Fate::Passing(check) | Fate::Existing(check) => {
                copy(sides, &path, check, id_length, &mut kept_back)?;
            }
            Fate::Ref => copy(sides, &path, Check::Head, id_length, &mut kept_back)?,
            Fate::Log => copy(sides, &path, Check::Text, id_length, &mut kept_back)?,
            Fate::Settings => settings(sides, &path, own, project, &mut kept_back)?,
            Fate::Ignored => {}
            _ => kept_back.push((path, String::new())),
        }
    }
    Ok(kept_back)
}

fn is_log(file: &Path) -> bool {
    file.iter().any(|name| name == "logs" || name == "refs")
}

fn copy(
    sides: &Sides,
    path: &Path,
    check: Check,
    id_length: usize,
    kept_back: &mut KeptBack,
) -> Result<(), Errno> {
    // Objects never change.
    let is_object = check == Check::Data && place::thing(&sides.host, path).is_some();
    if is_object {
        return Ok(());
    }
    let (content, _) = match place::read(&sides.merged, path, check.most()) {
        Err(Errno::FBIG) => {
            kept_back.push((path.into(), "it is too large".into()));
            return Ok(());
        }
        read => read?,
    };
    if let Err(why) = check.judge(&content, id_length) {
        kept_back.push((path.into(), why.into()));
        return Ok(());
    }
    put(sides, path, &content)
}

fn put(sides: &Sides, path: &Path, content: &[u8]) -> Result<(), Errno> {
    if place::read(&sides.host, path, content.len()).is_ok_and(|(now, _)| now == content) {
        return Ok(());
    }
    place::replace(&sides.host, path, content, |now| !matches!(now, Some(Thing::Folder | Thing::Other)))
        .map(drop)
}

fn settings(
    sides: &Sides,
    path: &Path,
    own: &Path,
    project: &Path,
    kept_back: &mut KeptBack,
) -> Result<(), Errno> {
    let (text, _) = place::read(&sides.merged, path, Check::Text.most())?;
    let in_project = |value: &[u8]| is_in_project(&own.join(OsStr::from_bytes(value)), project, false);
    let (kept, out) = config::of_new_repository(&text, &in_project).map_err(|_| Errno::INVAL)?;
    kept_back.extend(out.into_iter().map(|name| (path.to_path_buf(), name)));
    put(sides, path, &kept)
}

/// Whether a path leads to a folder of the project, by its letters and for the kernel, and into no repository's own folder. Where `gone` is true
/// the folder need not be there any more.
fn is_in_project(path: &Path, project: &Path, gone: bool) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(root) = rustix::fs::open(project, flags, Mode::empty()) else { return false };
    let Some(path) = plain(path) else { return false };
    path.strip_prefix(project).is_ok_and(|rest| {
        let there = match place::folder(&root, rest) {
            Ok(_) => true,
            Err(errno) => gone && errno == Errno::NOENT,
        };
        there
            && rest.components().next().is_some()
            && !rest.iter().any(|name| name.eq_ignore_ascii_case(".git"))
    })
}

/// Whether the folder of a working tree belongs to one in the project.
fn is_of_project(
    base: &OwnedFd,
    tree: &Path,
    folder: &Path,
    project: &Path,
    gone: bool,
) -> Result<Vec<u8>, Errno> {
    let (text, _) = place::read(base, &tree.join("gitdir"), Check::Text.most())?;
    let line = text.strip_suffix(b"\n").unwrap_or(&text);
    // As an absolute path, or relative to the folder itself.
    let mark =
        folder.join("worktrees").join(tree.file_name().unwrap_or_default()).join(OsStr::from_bytes(line));
    match mark.parent() {
        Some(place)
            if mark.ends_with(".git") && is_in_project(place, project, gone) && !line.contains(&b'\n') =>
        {
            Ok(text)
        }
        _ => Err(Errno::INVAL),
    }
}

/// Makes the folder of a working tree on the host. `folder` is the repository's, absolute.
pub(super) fn worktree(
    sides: &Sides,
    tree: &Path,
    folder: &Path,
    project: &Path,
    id_length: usize,
) -> Result<KeptBack, Errno> {
    let gitdir = is_of_project(&sides.merged, tree, folder, project, false)?;
    let (commondir, _) = place::read(&sides.merged, &tree.join("commondir"), 16)?;
    if commondir != b"../..\n" {
        return Err(Errno::INVAL);
    }
    let mut kept_back = Vec::new();
    let mut files = place::files_below(sides.merged.as_fd(), tree, DEPTH)?;
    files.sort_by_key(|file| file == Path::new("HEAD"));
    put(sides, &tree.join("gitdir"), &gitdir)?;
    put(sides, &tree.join("commondir"), &commondir)?;
    for file in files {
        let path = tree.join(&file);
        match worktree_fate(&file) {
            Fate::Published(check) | Fate::Lasting(check) | Fate::Passing(check) | Fate::Existing(check) => {
                copy(sides, &path, check, id_length, &mut kept_back)?;
            }
            Fate::Ref => copy(sides, &path, Check::Head, id_length, &mut kept_back)?,
            Fate::Log => copy(sides, &path, Check::Text, id_length, &mut kept_back)?,
            Fate::Ignored | Fate::Fixed => {}
            _ => kept_back.push((path, String::new())),
        }
    }
    Ok(kept_back)
}

/// Removes the folder of a working tree that the command removed.
pub(super) fn remove_worktree(
    host: &OwnedFd,
    tree: &Path,
    folder: &Path,
    project: &Path,
) -> Result<(), Errno> {
    is_of_project(host, tree, folder, project, true)?;
    let mut folders = vec![tree.to_path_buf()];
    for file in place::files_below(host.as_fd(), tree, DEPTH)? {
        place::remove(host, &tree.join(&file))?;
        let above = file.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        folders.extend(above.map(|above| tree.join(above)));
    }
    remove_empty_folders(host, tree, &mut folders);
    match place::thing(host, tree) {
        None => Ok(()),
        Some(_) => Err(Errno::NOTEMPTY),
    }
}

/// Folders that hold nothing but folders, the deepest first.
fn remove_empty_folders(host: &OwnedFd, tree: &Path, folders: &mut Vec<PathBuf>) {
    for name in ["logs", "refs", "refs/bisect", "refs/worktree", "refs/rewritten"] {
        folders.push(tree.join(name));
    }
    folders.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
    folders.dedup();
    for folder in folders {
        let _ = place::remove_folder(host, folder);
    }
}
