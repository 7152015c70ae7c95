//! Looks at the repositories of a project: where their own folders are, and what parts they have.

use crate::search::leads::follow;
use crate::search::named_in;
use keyward_policy::facts::{Foothold, Found, GitFolder, GitPart, Own, Repository, Standing};
use keyward_policy::untrusted::git::config::Config;
use keyward_sys::file::plain;
use rustix::fs::{FileType, lstat};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Submodules are looked for this deep below `modules`: their names may have slashes.
const MODULE_DEPTH: usize = 6;
/// Objects that borrow from others that borrow: as deep as git goes.
const BORROWED_DEPTH: usize = 5;
const MOST_BORROWED: usize = 16;
/// Settings and pointers are small.
const MOST: u64 = 1 << 20;

/// What repositories were found to be, and what else has to be known because of them.
#[derive(Default)]
pub struct Looked {
    pub repositories: Vec<Repository>,
    /// Links on the way to what git runs: each decides what that is.
    pub links: Vec<Foothold>,
    /// Directories that are closed to us and in which git may run something.
    pub closed: Vec<PathBuf>,
}

/// What each mark leads to.
pub fn look(project: &Path, home: &Path, marks: &[Found]) -> Looked {
    let mut looked = Looked::default();
    for mark in marks {
        let repository = repository(project, home, mark, &mut looked);
        looked.repositories.push(repository);
    }
    looked
}

fn global_settings(home: &Path) -> [PathBuf; 2] {
    [home.join(".config/git/config"), home.join(".gitconfig")]
}

/// Who commits, by the settings of a HOME. What they include is not followed.
pub fn author(home: &Path) -> Option<(Vec<u8>, Vec<u8>)> {
    let files = global_settings(home);
    let read = files.iter().filter_map(|file| Config::read(&small_file(file)?).ok());
    let (mut name, mut address) = (None, None);
    for config in read {
        name = config.last("user", "name").map(<[u8]>::to_vec).or(name);
        address = config.last("user", "email").map(<[u8]>::to_vec).or(address);
    }
    name.zip(address)
}

fn repository(project: &Path, home: &Path, mark: &Found, looked: &mut Looked) -> Repository {
    let folder = mark.path.parent().unwrap_or(project);
    let (own, path) = if mark.directory {
        (own(&mark.path).map(Own::Here), mark.path.clone())
    } else {
        match linked(&mark.path, folder) {
            Ok(path) => (own(&path).map(Own::Linked), path),
            Err(why) => (Some(Own::Stray { why }), PathBuf::new()),
        }
    };
    let mut led = Led { project, home, folder, own: &path, found: Vec::new(), awaited: Vec::new(), looked };
    if !path.as_os_str().is_empty() {
        let own = [path.join("config"), path.join("config.worktree")];
        for file in own.iter().chain(&global_settings(home)) {
            led.settings(file);
        }
        led.hooks();
    }
    Repository {
        mark: mark.path.clone(),
        own: own.unwrap_or(Own::Stray { why: "it cannot be read" }),
        run_by_git: led.found,
        awaited: led.awaited,
    }
}

fn own(path: &Path) -> Option<GitFolder> {
    let stat = lstat(path).ok()?;
    let mut parts = Vec::new();
    part(path, Path::new(""), &mut parts);
    if is_folder(&path.join("modules")) {
        modules(path, Path::new("modules"), MODULE_DEPTH, &mut parts);
    }
    let is_beyond_us = is_folder(&path.join("reftable"))
        .then_some("its refs are kept in tables, which cannot be taken over yet");
    Some(GitFolder { path: path.into(), device: stat.st_dev, inode: stat.st_ino, is_beyond_us, parts })
}

/// A part that has objects, and its further working trees.
fn part(path: &Path, at: &Path, parts: &mut Vec<GitPart>) {
    let objects = borrowed_objects(&path.join(at).join("objects"));
    parts.push(GitPart { at: at.into(), is_worktree: false, objects });
    let trees = at.join("worktrees");
    for entry in std::fs::read_dir(path.join(&trees)).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) && is_file(&entry.path().join("HEAD")) {
            let at = trees.join(entry.file_name());
            parts.push(GitPart { at, is_worktree: true, objects: Vec::new() });
        }
    }
}

/// Objects, and those that they borrow from, as git finds them.
pub(super) fn borrowed_objects(objects: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    borrowed(objects, BORROWED_DEPTH, &mut all);
    all
}

fn borrowed(objects: &Path, depth: usize, all: &mut Vec<PathBuf>) {
    let Ok(real) = std::fs::canonicalize(objects) else { return };
    if all.contains(&real) || all.len() == MOST_BORROWED || !real.is_dir() {
        return;
    }
    let lent = small_file(&real.join("info/alternates")).unwrap_or_default();
    all.push(real.clone());
    for line in lent.split(|&byte| byte == b'\n').filter(|line| !line.is_empty() && !line.starts_with(b"#")) {
        if depth > 0 {
            borrowed(&real.join(OsStr::from_bytes(line)), depth - 1, all);
        }
    }
}

fn modules(path: &Path, below: &Path, depth: usize, parts: &mut Vec<GitPart>) {
    for entry in std::fs::read_dir(path.join(below)).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let module = below.join(entry.file_name());
        if is_file(&path.join(&module).join("HEAD")) {
            part(path, &module, parts);
            let nested = module.join("modules");
            if depth > 0 && is_folder(&path.join(&nested)) {
                modules(path, &nested, depth - 1, parts);
            }
        } else if depth > 0 {
            modules(path, &module, depth - 1, parts);
        }
    }
}

/// A command could have written a file that leads there.
const NOT_OURS: &str = "what it leads to does not name this directory as its own";

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
            return Err(NOT_OURS);
        }
        let common = small_file(&real.join("commondir")).ok_or("what it leads to is not a working tree")?;
        let common = letters(&real.join(OsStr::from_bytes(line(&common))));
        let common = std::fs::canonicalize(common).map_err(|_| "what it leads to is not a working tree")?;
        // The folder may be a command's, and name any other: the other must hold it, where git keeps such folders.
        let belongs = real.parent() == Some(&common.join("worktrees"))
            && is_file(&common.join("HEAD"))
            && is_folder(&common.join("objects"))
            && is_folder(&common.join("refs"));
        return if belongs { Ok(common) } else { Err("what it leads to is not a working tree") };
    }
    // What stands in the folder itself is shown with it.
    if std::fs::canonicalize(folder).is_ok_and(|folder| real.starts_with(folder)) {
        return Ok(real);
    }
    // A submodule: its settings name the folder it is checked out in.
    let settings = small_file(&real.join("config")).ok_or("what it leads to is not a repository")?;
    let settings = Config::read(&settings).map_err(|_| "what it leads to is not a repository")?;
    let worktree = settings.last("core", "worktree").ok_or(NOT_OURS)?;
    let worktree = letters(&real.join(OsStr::from_bytes(worktree)));
    match std::fs::canonicalize(worktree) {
        Ok(worktree) if Some(&worktree) == std::fs::canonicalize(folder).ok().as_ref() => Ok(real),
        _ => Err(NOT_OURS),
    }
}

/// The own directory of a further working tree, and that of its repository, if each leads to the other.
pub(super) fn further_tree(root: &Path) -> Option<(PathBuf, PathBuf)> {
    let mark = root.join(".git");
    let common = linked(&mark, root).ok()?;
    let text = small_file(&mark)?;
    let own = line(&text).strip_prefix(b"gitdir: ")?;
    let own = std::fs::canonicalize(letters(&root.join(OsStr::from_bytes(own)))).ok()?;
    (own.parent() == Some(&common.join("worktrees"))).then_some((own, common))
}

/// Where the further working trees of a repository are, as it has them written down.
pub(super) fn further_trees(own: &Path) -> Vec<PathBuf> {
    let trees = std::fs::read_dir(own.join("worktrees")).into_iter().flatten().flatten();
    let mark = |tree: &Path| {
        let text = small_file(&tree.join("gitdir"))?;
        letters(&tree.join(OsStr::from_bytes(line(&text)))).parent().map(Path::to_path_buf)
    };
    trees.filter_map(|tree| mark(&tree.path())).collect()
}

/// What stands in the project and is run or read by git on the host because settings or hooks of the user's lead there; and what would be, if it
/// were there.
struct Led<'a> {
    project: &'a Path,
    home: &'a Path,
    /// The working tree, from which git runs what settings name.
    folder: &'a Path,
    own: &'a Path,
    found: Vec<Found>,
    awaited: Vec<PathBuf>,
    looked: &'a mut Looked,
}

/// Settings whose value is a command.
const COMMANDS: &[(&str, &str)] = &[
    ("core", "sshcommand"),
    ("core", "pager"),
    ("core", "editor"),
    ("core", "fsmonitor"),
    ("core", "askpass"),
    ("core", "alternaterefscommand"),
    ("diff", "external"),
    ("diff", "textconv"),
    ("diff", "command"),
    ("filter", "clean"),
    ("filter", "smudge"),
    ("filter", "process"),
    ("merge", "driver"),
    ("gpg", "program"),
    ("credential", "helper"),
    ("sequence", "editor"),
    ("interactive", "difffilter"),
];

impl Led<'_> {
    /// Settings that lie in `beside`.
    fn settings(&mut self, file: &Path) {
        let beside = file.parent().unwrap_or(self.folder).to_path_buf();
        let Some(config) = small_file(file).and_then(|text| Config::read(&text).ok()) else { return };
        for entry in &config.entries {
            let Some(value) = &entry.value else { continue };
            let (section, key) = (entry.name.section.as_str(), entry.name.key.as_str());
            let value = &expanded(Path::new(OsStr::from_bytes(value)), self.home);
            match (section, key) {
                ("core", "hookspath") => {
                    let path = letters(&self.folder.join(value));
                    // What a well-known tool puts there starts the hooks beside it.
                    let hooks = path.parent().filter(|_| path.ends_with(".husky/_")).map(Path::to_path_buf);
                    let hooks = hooks.unwrap_or(path);
                    for hook in std::fs::read_dir(&hooks).into_iter().flatten().flatten() {
                        self.named_by(&hook.path());
                    }
                    self.to(hooks);
                }
                ("include" | "includeif", "path") => self.to(letters(&beside.join(value))),
                _ if COMMANDS.contains(&(section, key)) => {
                    let words = value.as_os_str().as_bytes().split(|byte| b" \t\"'!;&|<>()$`".contains(byte));
                    for word in words.filter(|word| !word.is_empty()) {
                        let word = expanded(Path::new(OsStr::from_bytes(word)), self.home);
                        let path = letters(&self.folder.join(word));
                        let lead = follow(&path);
                        if lead.closed.is_some() || lead.end.is_some_and(|(real, _)| is_file(&real)) {
                            self.to(path);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Hooks that are links, and scripts that hooks name.
    fn hooks(&mut self) {
        let folder = self.own.join("hooks");
        let hooks = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        for hook in hooks.filter(|hook| hook.path().extension().is_none_or(|ending| ending != "sample")) {
            if hook.file_type().is_ok_and(|kind| kind.is_symlink())
                && let Ok(to) = std::fs::read_link(hook.path())
            {
                self.to(letters(&folder.join(to)));
            }
            self.named_by(&hook.path());
        }
    }

    /// Scripts of the project that a hook names: git runs them with it.
    fn named_by(&mut self, hook: &Path) {
        let is_inside = |path: &Path| self.inside(path);
        let named = named_in(hook, self.folder, &is_inside);
        self.found.extend(named.scripts.into_iter().map(|(path, _)| Found { path, directory: false }));
        self.looked.closed.extend(named.closed);
        self.links(&named.links);
    }

    fn links(&mut self, links: &[(PathBuf, PathBuf)]) {
        let inside = links.iter().filter(|(link, _)| self.inside(link)).cloned().collect::<Vec<_>>();
        let links = inside.into_iter().map(|(path, to)| Foothold { path, is: Standing::Link { to } });
        self.looked.links.extend(links);
    }

    fn inside(&self, path: &Path) -> bool {
        (path.starts_with(self.project) || path.starts_with(self.folder))
            && path != self.project
            && path != self.folder
            && !path.starts_with(self.own)
    }

    fn to(&mut self, path: PathBuf) {
        let lead = follow(&path);
        self.links(&lead.links);
        match (lead.end, lead.closed) {
            (Some((real, stat)), _) if self.inside(&real) => {
                let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
                self.found.push(Found { path: real, directory });
            }
            (Some(_), _) => {}
            (None, Some(closed)) if self.inside(&closed) => self.looked.closed.push(closed),
            (None, _) if self.inside(&path) => self.awaited.push(path),
            (None, _) => {}
        }
    }
}

/// `~/x` as git reads it.
fn expanded(path: &Path, home: &Path) -> PathBuf {
    path.strip_prefix("~").map_or_else(|_| path.to_path_buf(), |below| home.join(below))
}

/// By its letters; what leads above the root leads to the root, as the kernel has it.
fn letters(path: &Path) -> PathBuf {
    plain(path).unwrap_or_else(|| PathBuf::from("/"))
}

fn line(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == b'\n').next().unwrap_or_default()
}

pub(crate) fn small_file(path: &Path) -> Option<Vec<u8>> {
    let stat = std::fs::metadata(path).ok()?;
    if stat.is_file() && stat.len() <= MOST { std::fs::read(path).ok() } else { None }
}

fn is_folder(path: &Path) -> bool {
    lstat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

fn is_file(path: &Path) -> bool {
    lstat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}
