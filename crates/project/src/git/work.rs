//! What the project has that was not committed: read by a confined git from the host's objects and index, never with the host's settings.

use super::transport::{HostGit, Store, status};
use super::{inspect, look, place, refs};
use keyward_policy::loss::Lost;
use keyward_policy::untrusted::git::config::Config;
use keyward_policy::untrusted::git::refs::Value;
use keyward_policy::untrusted::git::work::{Known, Work, is_generated};
use rustix::fd::OwnedFd;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

const MOST_EXCLUDE: usize = 1 << 20;
const MOST_CONFIG: usize = 1 << 20;
/// So many entries of a project without a repository are looked at: one file that is worth something is enough to know.
const MOST_ENTRIES: usize = 20_000;

/// Looks at the project's own repository, or at some paths of it. `state` is where Keyward keeps what is its own.
pub fn look(project: &Path, home: &Path, state: &Path, search: &OsStr, paths: &[PathBuf]) -> Known {
    match std::fs::symlink_metadata(project.join(".git")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Known::NoRepository(Work::of_files(files(project, paths)))
        }
        // Where a file leads elsewhere, a further working tree may have an index of its own.
        Ok(found) if found.is_dir() => {
            let own = project.join(".git");
            let tree = OwnTree { root: project, own: &own, common: &own };
            work(&tree, home, state, search, paths).map_or(Known::Unknown, Known::Work)
        }
        _ => Known::Unknown,
    }
}

/// Whether the project's own repository has a branch of this name.
pub fn is_branch(project: &Path, name: &[u8]) -> bool {
    let all = open(&project.join(".git")).and_then(|folder| refs::read(&folder).ok());
    all.is_some_and(|all| all.contains_key([b"refs/heads/", name].concat().as_slice()))
}

/// What is lost with a directory of the project that has a `.git` of its own. With a further working tree of the project's repository that
/// is nothing, if all of it is committed and a branch or a tag names the commit.
pub fn inner(project: &Path, home: &Path, state: &Path, search: &OsStr, path: &Path) -> Lost {
    let root = project.join(path);
    let Some((own, common)) = look::further_tree(&root) else { return Lost::Repository };
    if std::fs::canonicalize(project.join(".git")).ok().as_ref() != Some(&common) {
        return Lost::Repository;
    }
    let tree = OwnTree { root: &root, own: &own, common: &common };
    let Some(work) = work(&tree, home, state, search, &[]) else { return Lost::Work };
    if work.has_changes() || work.has_untracked(false) {
        return Lost::Work;
    }
    let head = open(&own).and_then(|folder| refs::head(&folder));
    let named = open(&common).and_then(|folder| refs::read(&folder).ok());
    match (head, named) {
        (Some(Value::To(name)), _) if name.starts_with(b"refs/heads/") => Lost::Nothing,
        (Some(id @ Value::Id(_)), Some(named)) if named.values().any(|value| *value == id) => Lost::Nothing,
        _ => Lost::Commits,
    }
}

/// Whether the project's repository has a further working tree whose path ends like this.
pub fn is_worktree(project: &Path, end: &Path) -> bool {
    look::further_trees(&project.join(".git")).iter().any(|tree| tree.ends_with(end))
}

/// A working tree of a repository.
struct OwnTree<'a> {
    root: &'a Path,
    /// Where its `HEAD` and its index are.
    own: &'a Path,
    /// Where objects and refs are.
    common: &'a Path,
}

fn work(tree: &OwnTree<'_>, home: &Path, state: &Path, search: &OsStr, paths: &[PathBuf]) -> Option<Work> {
    let OwnTree { root: project, own, common } = *tree;
    let git = HostGit::find(search)?;
    let folder = open(common)?;
    let mut objects = look::borrowed_objects(&common.join("objects")).into_iter();
    let scratch = scratch(state)?;
    let store = Store {
        objects: objects.next()?,
        alternates: objects.collect(),
        scratch,
        id_length: inspect::id_length(&folder),
        is_partial: false,
    };
    let head = match refs::head(&open(own)?)? {
        Value::Id(id) => Some(id),
        Value::To(name) => commit(&folder, name)?,
    };
    let exclude = place::read(&folder, Path::new("info/exclude"), MOST_EXCLUDE);
    let exclude = exclude.map(|(text, _)| text).unwrap_or_default();
    let ignore = home.join(".config/git/ignore");
    let tree = status::Tree {
        root: project,
        index: &own.join("index"),
        head: head.as_deref(),
        exclude: &exclude,
        ignore: ignore.is_file().then_some(ignore.as_path()),
        has_modes: has_modes(&folder),
        paths,
    };
    // Without an index nothing is staged, and git makes none behind the wall.
    if !tree.index.is_file() {
        return head.is_none().then(|| Work::of_files(files(project, paths)));
    }
    Work::read(&status::status(&git, &store, &tree).ok()?)
}

/// Files below some paths of a project, without those that tools make. No link is followed.
fn files(project: &Path, paths: &[PathBuf]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut waiting: Vec<PathBuf> = match paths {
        [] => vec![PathBuf::new()],
        paths => paths.to_vec(),
    };
    let mut room = MOST_ENTRIES;
    while let Some(below) = waiting.pop() {
        let Ok(kind) = std::fs::symlink_metadata(project.join(&below)).map(|found| found.file_type()) else {
            continue;
        };
        let path = below.as_os_str().as_bytes();
        if !kind.is_dir() {
            if !is_generated(path) {
                found.push(path.to_vec());
            }
            continue;
        }
        let is_own = below.components().next_back().is_some_and(|name| name.as_os_str() == ".git");
        if is_own || is_generated(&[path, b"/"].concat()) {
            continue;
        }
        for entry in std::fs::read_dir(project.join(&below)).into_iter().flatten().flatten() {
            room = room.saturating_sub(1);
            if room == 0 {
                return found;
            }
            waiting.push(below.join(entry.file_name()));
        }
    }
    found
}

fn open(path: &Path) -> Option<OwnedFd> {
    let flags = rustix::fs::OFlags::RDONLY
        | rustix::fs::OFlags::DIRECTORY
        | rustix::fs::OFlags::NOFOLLOW
        | rustix::fs::OFlags::CLOEXEC;
    rustix::fs::open(path, flags, rustix::fs::Mode::empty()).ok()
}

fn scratch(state: &Path) -> Option<PathBuf> {
    let scratch = state.join("work");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&scratch).ok()?;
    Some(scratch)
}

/// The commit that a branch leads to: `Some(None)` where there is none yet.
fn commit(folder: &OwnedFd, name: Vec<u8>) -> Option<Option<Vec<u8>>> {
    // A ref may lead to a ref, but not for long.
    const STEPS: usize = 5;
    let all = refs::read(folder).ok()?;
    let mut name = name;
    for _ in 0..STEPS {
        match all.get(&name) {
            None => return Some(None),
            Some(Value::Id(id)) => return Some(Some(id.clone())),
            Some(Value::To(next)) => name = next.clone(),
        }
    }
    None
}

fn has_modes(folder: &OwnedFd) -> bool {
    let config = place::read(folder, Path::new("config"), MOST_CONFIG).ok();
    let config = config.and_then(|(text, _)| Config::read(&text).ok());
    let value = config.as_ref().and_then(|config| config.last("core", "filemode"));
    !value.is_some_and(|value| [&b"false"[..], b"no", b"off", b"0"].contains(&value))
}
