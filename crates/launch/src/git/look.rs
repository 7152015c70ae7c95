//! Looks at the repositories of a project: where their own folders are, and what of them is shared with the cage.

use crate::plain::plain;
use keyward_policy::facts::{Found, GitFolder, Own, Repository};
use keyward_policy::git::config::Config;
use keyward_policy::git::names::SHARED;
use rustix::fs::{FileType, lstat};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Submodules are looked for this deep below `modules`: their names may have slashes.
const MODULE_DEPTH: usize = 6;
/// Settings and pointers are small.
const MOST: u64 = 1 << 20;

/// What each mark leads to.
pub fn look(project: &Path, marks: &[Found]) -> Vec<Repository> {
    marks.iter().map(|mark| repository(project, mark)).collect()
}

/// Who commits, by the settings of a HOME. What they include is not followed.
pub fn author(home: &Path) -> Option<(Vec<u8>, Vec<u8>)> {
    let files = [home.join(".config/git/config"), home.join(".gitconfig")];
    let read = files.iter().filter_map(|file| Config::read(&small_file(file)?).ok());
    let (mut name, mut address) = (None, None);
    for config in read {
        name = config.last("user", "name").map(<[u8]>::to_vec).or(name);
        address = config.last("user", "email").map(<[u8]>::to_vec).or(address);
    }
    name.zip(address)
}

fn repository(project: &Path, mark: &Found) -> Repository {
    let folder = mark.path.parent().unwrap_or(project);
    let (own, settings) = if mark.directory {
        (own(&mark.path).map(Own::Here), mark.path.join("config"))
    } else {
        match linked(&mark.path, folder) {
            Ok(path) => (own(&path).map(Own::Linked), path.join("config")),
            Err(why) => (Some(Own::Stray { why }), PathBuf::new()),
        }
    };
    Repository {
        mark: mark.path.clone(),
        own: own.unwrap_or(Own::Stray { why: "it cannot be read" }),
        run_by_git: run_by_git(&settings, folder, project),
    }
}

fn own(path: &Path) -> Option<GitFolder> {
    let stat = lstat(path).ok()?;
    let mut shared = Vec::new();
    share(path, Path::new(""), &mut shared);
    if is_folder(&path.join("modules")) {
        modules(path, Path::new("modules"), MODULE_DEPTH, &mut shared);
    }
    Some(GitFolder { path: path.into(), device: stat.st_dev, inode: stat.st_ino, shared })
}

fn share(path: &Path, below: &Path, shared: &mut Vec<PathBuf>) {
    let there = SHARED.iter().map(|name| below.join(name)).filter(|name| is_folder(&path.join(name)));
    shared.extend(there);
}

fn modules(path: &Path, below: &Path, depth: usize, shared: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(path.join(below)).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let module = below.join(entry.file_name());
        if is_file(&path.join(&module).join("HEAD")) {
            share(path, &module, shared);
            let nested = module.join("modules");
            if depth > 0 && is_folder(&path.join(&nested)) {
                modules(path, &nested, depth - 1, shared);
            }
        } else if depth > 0 {
            modules(path, &module, depth - 1, shared);
        }
    }
}

/// Where a `.git` file leads, if what is there says that it belongs to this folder. Otherwise a command that could once write the file could
/// have the next one be shown any repository of the user's.
fn linked(mark: &Path, folder: &Path) -> Result<PathBuf, &'static str> {
    if lstat(mark).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink) {
        return Err("it is a symbolic link");
    }
    let text = small_file(mark).ok_or("it cannot be read")?;
    let target = line(&text).strip_prefix(b"gitdir: ").ok_or("it does not lead anywhere")?;
    let path = letters(&folder.join(OsStr::from_bytes(target)));
    let real = std::fs::canonicalize(&path).map_err(|_| "it leads to nothing")?;
    // A further working tree: its folder names the file that leads to it.
    if let Some(back) = small_file(&real.join("gitdir")) {
        let back = letters(&real.join(OsStr::from_bytes(line(&back))));
        if std::fs::canonicalize(back).ok().as_deref() != std::fs::canonicalize(mark).ok().as_deref() {
            return Err("what it leads to belongs to another folder");
        }
        let common = small_file(&real.join("commondir")).ok_or("what it leads to is no working tree")?;
        let common = letters(&real.join(OsStr::from_bytes(line(&common))));
        let common = std::fs::canonicalize(common).map_err(|_| "what it leads to is no working tree")?;
        // Whoever made this folder could name any other: the other must hold it, where git keeps such folders.
        let belongs = real.parent() == Some(&common.join("worktrees"))
            && is_file(&common.join("HEAD"))
            && is_folder(&common.join("objects"))
            && is_folder(&common.join("refs"));
        return if belongs { Ok(common) } else { Err("what it leads to is no working tree") };
    }
    // A submodule: its settings name the folder it is checked out in.
    let settings = small_file(&real.join("config")).ok_or("what it leads to is no repository")?;
    let settings = Config::read(&settings).map_err(|_| "what it leads to is no repository")?;
    let worktree = settings.last("core", "worktree").ok_or("what it leads to belongs to another folder")?;
    let worktree = letters(&real.join(OsStr::from_bytes(worktree)));
    match std::fs::canonicalize(worktree) {
        Ok(worktree) if Some(&worktree) == std::fs::canonicalize(folder).ok().as_ref() => Ok(real),
        _ => Err("what it leads to belongs to another folder"),
    }
}

/// What the settings name that git runs or reads further settings from.
fn run_by_git(settings: &Path, folder: &Path, project: &Path) -> Vec<Found> {
    let Some(text) = small_file(settings) else { return Vec::new() };
    let Ok(config) = Config::read(&text) else { return Vec::new() };
    let beside = settings.parent().unwrap_or(folder);
    let mut found = Vec::new();
    for entry in &config.entries {
        let base = match (entry.name.section.as_str(), entry.name.key.as_str()) {
            ("core", "hookspath" | "fsmonitor") => folder,
            ("include" | "includeif", "path") => beside,
            _ => continue,
        };
        let Some(value) = &entry.value else { continue };
        let path = letters(&base.join(OsStr::from_bytes(value)));
        let Ok(stat) = lstat(&path) else { continue };
        if path.starts_with(project) && path != project && path != folder && !path.starts_with(beside) {
            let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            found.push(Found { path, directory });
        }
    }
    found
}

/// By its letters; what leads above the root leads to the root, as the kernel has it.
fn letters(path: &Path) -> PathBuf {
    plain(path).unwrap_or_else(|| PathBuf::from("/"))
}

fn line(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == b'\n').next().unwrap_or_default()
}

fn small_file(path: &Path) -> Option<Vec<u8>> {
    let stat = std::fs::metadata(path).ok()?;
    if stat.is_file() && stat.len() <= MOST { std::fs::read(path).ok() } else { None }
}

fn is_folder(path: &Path) -> bool {
    lstat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

fn is_file(path: &Path) -> bool {
    lstat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}
