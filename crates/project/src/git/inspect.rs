//! A repository that a command made in the project: what git on the host would run because of it.
//!
//! Looks, and changes nothing. The command has ended when this is asked.

use super::place::{self, Thing};
use keyward_policy::untrusted::git::names::{self, new_fate, worktree_fate};
use keyward_policy::untrusted::git::{Check, Fate, config};
use keyward_sys::file::plain;
use rustix::fd::{AsFd, BorrowedFd};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Repositories in repositories are looked at this deep.
const DEPTH: usize = 24;

/// What has to go, relative to the project.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Things that are taken out of the tree.
    pub(crate) out: Vec<PathBuf>,
    /// Settings that are taken out and put back without some keys: where, what remains, and which went.
    pub(crate) settings: Vec<(PathBuf, Vec<u8>, Vec<String>)>,
}

/// Looks at what a mark leads to: a `.git` of either kind, or a bare repository's folder. Paths are relative to the project. What was there before
/// the command (`is_known`) is behind a wall and is not looked at.
pub(crate) fn inspect(
    root: BorrowedFd<'_>,
    mark: &Path,
    project: &Path,
    is_known: &dyn Fn(&Path) -> bool,
) -> Findings {
    let mut findings = Findings::default();
    match place::thing(root, mark) {
        Some(Thing::Folder) => folder(root, mark, project, 0, &mut findings),
        // The repository that it belongs to may stand outside of what is searched.
        Some(Thing::File(_)) => match owner(root, mark, project) {
            Some(owner) if is_known(&owner) => {}
            Some(owner) => folder(root, &owner, project, 0, &mut findings),
            None => findings.out.push(mark.into()),
        },
        None => {}
        Some(_) => findings.out.push(mark.into()),
    }
    findings
}

/// A `.git` file of a submodule or a further working tree leads into the `.git` of a repository in the project: that one.
fn owner(root: BorrowedFd<'_>, mark: &Path, project: &Path) -> Option<PathBuf> {
    let (text, _) = place::read(root, mark, Check::Text.most()).ok()?;
    let line = text.strip_suffix(b"\n").unwrap_or(&text);
    let target = Path::new(OsStr::from_bytes(line.strip_prefix(b"gitdir: ")?));
    let folder = mark.parent().unwrap_or(Path::new(""));
    let target = match target.strip_prefix(project) {
        Ok(inside) => inside.to_path_buf(),
        Err(_) if target.is_absolute() => return None,
        Err(_) => folder.join(target),
    };
    // As the kernel goes there, and not by its letters: a link on the way would lead elsewhere.
    let path = place::path_of(root, &target)?;
    let names: Vec<&OsStr> = path.iter().collect();
    let is_part = |pair: &[&OsStr]| pair[0] == ".git" && (pair[1] == "modules" || pair[1] == "worktrees");
    let end = names.windows(2).position(is_part)?;
    Some(names[..=end].iter().collect())
}

/// Where a path leads that is absolute or relative to `folder`, by its letters and relative to the project; `None` if that is outside.
fn in_project(folder: &Path, target: &Path, project: &Path) -> Option<PathBuf> {
    match target.strip_prefix(project) {
        Ok(inside) => plain(inside),
        Err(_) if target.is_absolute() => None,
        Err(_) => plain(&folder.join(target)),
    }
}

fn folder(root: BorrowedFd<'_>, own: &Path, project: &Path, depth: usize, findings: &mut Findings) {
    let Ok(open) = place::folder(root, own) else {
        findings.out.push(own.into());
        return;
    };
    let id_length = id_length(&open);
    for name in place::names(&open) {
        let inside = Path::new(&name);
        let path = own.join(inside);
        match (new_fate(inside), place::thing_in(&open, &name)) {
            (_, None) => {}
            (Fate::Settings, Some(Thing::File(_))) => settings(root, own, &path, project, findings),
            (Fate::Folder, Some(Thing::Folder)) => below(root, own, inside, findings),
            (Fate::Whole, Some(Thing::Folder)) => state(root, &path, inside, id_length, findings),
            (Fate::Repositories, Some(Thing::Folder)) => {
                modules(root, &path, project, depth + 1, findings);
            }
            (Fate::Worktrees, Some(Thing::Folder)) => worktrees(root, &path, id_length, findings),
            (fate, Some(Thing::File(_))) => {
                if names::git_obeys(inside) || !passes(root, &path, fate, id_length) {
                    findings.out.push(path);
                }
            }
            // What git knows by this name is a file or a folder of its own.
            (fate, Some(Thing::Other)) if fate != Fate::Ignored => findings.out.push(path),
            // Something could be led into a folder that is on no list.
            (Fate::KeptBack, Some(Thing::Folder)) => findings.out.push(path),
            (Fate::Ignored, Some(Thing::Folder)) => below(root, own, inside, findings),
            (_, Some(_)) => {}
        }
    }
}

/// The length of an object's name, as git reads it from the settings.
pub(super) fn id_length(folder: impl AsFd) -> usize {
    let text = place::read(folder, Path::new("config"), Check::Text.most()).map(|(text, _)| text);
    let config = text.ok().and_then(|text| config::Config::read(&text).ok());
    let format = config.as_ref().and_then(|config| config.last("extensions", "objectformat"));
    if format == Some(b"sha256") { 32 } else { 20 }
}

fn passes(root: BorrowedFd<'_>, path: &Path, fate: Fate, id_length: usize) -> bool {
    let check = match fate {
        Fate::Published(check) | Fate::Lasting(check) | Fate::Passing(check) | Fate::Existing(check) => check,
        _ => return true,
    };
    place::read(root, path, check.most()).is_ok_and(|(content, _)| check.judge(&content, id_length).is_ok())
}

/// Folders of a repository: hooks, logs, information. Objects and refs are only looked at where git is led elsewhere.
fn below(root: BorrowedFd<'_>, own: &Path, inside: &Path, findings: &mut Findings) {
    let first = inside.iter().next().unwrap_or_default();
    let deep = if first == "objects" { 0 } else { DEPTH };
    if inside.components().count() > DEPTH {
        findings.out.push(own.join(inside));
        return;
    }
    let Ok(open) = place::folder(root, &own.join(inside)) else { return };
    for name in place::names(&open) {
        let inside = inside.join(&name);
        let path = own.join(&inside);
        match place::thing_in(&open, &name) {
            Some(Thing::Folder) if deep > 0 || name == "info" => below(root, own, &inside, findings),
            Some(Thing::Folder) | None => {}
            Some(Thing::File(_)) if !names::git_obeys(&inside) => {}
            Some(_) => findings.out.push(path),
        }
    }
}

/// How far a rebase has come: nothing of it is left if a part of it would run something.
fn state(root: BorrowedFd<'_>, path: &Path, inside: &Path, id_length: usize, findings: &mut Findings) {
    let files = place::files_below(root, path, 1);
    let fits = |file: &PathBuf| match new_fate(&inside.join(file)) {
        _ if names::is_made_anew(&inside.join(file)) => true,
        fate @ Fate::Published(_) => passes(root, &path.join(file), fate, id_length),
        _ => false,
    };
    if !files.is_ok_and(|files| files.iter().all(fits)) {
        findings.out.push(path.into());
    }
}

fn modules(root: BorrowedFd<'_>, path: &Path, project: &Path, depth: usize, findings: &mut Findings) {
    let Ok(open) = place::folder(root, path) else { return };
    for name in place::names(&open) {
        let module = path.join(&name);
        match place::thing_in(&open, &name) {
            Some(Thing::Folder) if depth > DEPTH => findings.out.push(module),
            Some(Thing::Folder) if place::thing(root, &module.join("HEAD")).is_some() => {
                folder(root, &module, project, depth, findings);
            }
            Some(Thing::Folder) => modules(root, &module, project, depth + 1, findings),
            Some(Thing::Other) => findings.out.push(module),
            _ => {}
        }
    }
}

fn worktrees(root: BorrowedFd<'_>, path: &Path, id_length: usize, findings: &mut Findings) {
    let Ok(open) = place::folder(root, path) else { return };
    for tree in place::names(&open).into_iter().map(|name| path.join(name)) {
        let common = place::read(root, &tree.join("commondir"), 16).map(|(text, _)| text);
        let files = place::files_below(root, &tree, DEPTH);
        let fits = |file: &PathBuf| match worktree_fate(file) {
            Fate::KeptBack => false,
            fate => passes(root, &tree.join(file), fate, id_length),
        };
        let good =
            common.is_ok_and(|text| text == b"../..\n") && files.is_ok_and(|files| files.iter().all(fits));
        if !good {
            findings.out.push(tree);
        }
    }
}

fn settings(root: BorrowedFd<'_>, own: &Path, path: &Path, project: &Path, findings: &mut Findings) {
    let in_project = |value: &[u8]| {
        in_project(own, Path::new(OsStr::from_bytes(value)), project).is_some_and(|path| {
            path.components().next().is_some()
                && !path.iter().any(|name| name.eq_ignore_ascii_case(".git"))
                && place::folder(root, &path).is_ok()
        })
    };
    let read = place::read(root, path, Check::Text.most()).ok();
    match read.and_then(|(text, _)| config::of_new_repository(&text, &in_project).ok()) {
        Some((_, out)) if out.is_empty() => {}
        Some((kept, out)) => findings.settings.push((path.into(), kept, out)),
        None => findings.out.push(path.into()),
    }
}

/// Puts settings back that are left without some keys. Nothing that stands there is replaced.
pub(crate) fn put_settings(root: impl AsFd, path: &Path, kept: &[u8]) -> Result<(), rustix::io::Errno> {
    place::replace(root, path, kept, |now| now.is_none()).map(drop)
}
