//! Searches everything that a command may read or write for secret files, footholds and repositories. Runs in the launcher, and touches
//! only its own indexes.
//!
//! The search is complete: what could not be looked at is named, and closed to the command. An index per tree makes it incremental, so that
//! a tree in which no name has changed costs one `statx` per directory.

mod brief;
pub(crate) mod closed;
mod dotfiles;
mod halves;
pub(crate) mod harmless;
pub(crate) mod index;
pub(crate) mod leads;
mod mounts;
mod named;
mod tell;
#[cfg(test)]
mod tests;
pub(crate) mod walk;

pub use walk::changed;

use crate::tree::{self, Root};
use harmless::Harmless;
use index::{Index, Kind, Known, Note, mark};
use keyward_policy::detect::strict::programs;
use keyward_policy::detect::{self, Directory, InGrant, Secret, Shows, Sum, footholds, own, shows};
use keyward_policy::facts::{Foothold, OF_ANOTHER, Project, Unsearched};
use keyward_policy::view::{Why, fits, is_of_system};
use keyward_sys::file::reason;
use leads::{Lead, follow};
pub use mounts::mounts_in;
pub(crate) use named::named_in;
use rustix::fs::{Access, AtFlags, CWD, FileType, Stat};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tell::Tell;
use walk::{Extent, Walked};
use zeroize::Zeroize;

/// A bounded search looks at so many directories.
const BOUND: usize = 256;

/// Trees that tools fill, which a bounded search leaves out.
const GENERATED: &[&str] = &[
    "node_modules",
    "target",
    ".venv",
    "venv",
    "__pycache__",
    ".tox",
    "dist",
    "build",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".gradle",
    ".next",
    ".cache",
    ".terraform",
    "site-packages",
    "vendor",
];

/// A larger file with a secret name is hidden without a look at its content.
const MOST_CONTENT: u64 = 1 << 20;
/// The same for settings of projects, some of which are data.
pub(crate) const MOST_SETTINGS: u64 = 16 << 20;

/// Whether tools fill a directory of this name.
pub(crate) fn is_generated(name: &OsStr) -> bool {
    GENERATED.iter().any(|generated| name == *generated)
}

/// A tree to search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The real path of a directory.
    pub path: PathBuf,
    pub writable: bool,
    pub role: Role,
}

/// What a tree is to the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The command sees it.
    Seen(Why),
    /// A marked directory around the project. The command does not see it, but a link, a hook or a hard link of it may lead into the
    /// project: a command that makes a part of a project a project of its own must not make the next run forget that.
    Around,
}

impl Role {
    /// Whether the command sees it because PATH leads there, or as a part of the system. No command can change such a tree.
    pub(crate) const fn is_of_tools(self) -> bool {
        matches!(self, Role::Seen(Why::Programs | Why::Toolchain | Why::System))
    }
}

/// What to search, and by which rules a name counts.
pub struct Search<'a> {
    /// The project first, then the grants, then what PATH leads to. None lies in another, except in one that comes later.
    pub trees: Vec<Tree>,
    pub homes: Vec<&'a Path>,
    /// Keyward's own state: indexes, and the journals of other runs.
    pub state: &'a Path,
    /// Paths that the user hides and that may have other names: directories, and files with several. By their real paths.
    pub hidden: Vec<PathBuf>,
    /// Those that a link leads to, as the user wrote them.
    pub hidden_by_link: Vec<PathBuf>,
    /// Where something is mounted within the trees. If anywhere, each secret file may have another name there.
    pub mounts: Vec<PathBuf>,
    /// The user's patterns, as written; they belong to the index.
    pub patterns: Vec<&'a OsStr>,
    /// Names of variables that the user has cleared.
    pub not_secret: Vec<&'a str>,
    /// Directories in which the user's shell looks for programs.
    pub programs: Vec<PathBuf>,
    pub bounded: bool,
    /// Called once for a tree that takes long, so that a person knows what is waited for.
    pub slow: fn(&Path),
}

impl<'a> Search<'a> {
    /// Whether a file may be found under another name as well.
    pub(crate) fn may_have_names(&self, stat: &Stat) -> bool {
        stat.st_nlink > 1 || !self.mounts.is_empty()
    }

    /// For a look at footholds alone.
    pub(crate) fn nothing(state: &'a Path) -> Self {
        Search {
            trees: Vec::new(),
            homes: Vec::new(),
            state,
            hidden: Vec::new(),
            hidden_by_link: Vec::new(),
            mounts: Vec::new(),
            patterns: Vec::new(),
            not_secret: Vec::new(),
            programs: Vec::new(),
            bounded: false,
            slow: |_| {},
        }
    }
}

/// A tree, as the search saw it: what has not changed needs no second look at the end.
pub struct Seen {
    pub(crate) tree: Tree,
    pub(crate) known: Known,
}

impl Seen {
    pub fn path(&self) -> &Path {
        &self.tree.path
    }

    /// What the plan says about the tree: one that cannot be written needs no look at the end.
    pub fn set_writable(&mut self, writable: bool) {
        self.tree.writable = writable;
    }
}

/// By which rules the names of one tree count.
pub(crate) struct Rules<'a> {
    pub(crate) root: &'a Path,
    pub(crate) homes: &'a [&'a Path],
    pub(crate) patterns: &'a [&'a OsStr],
    programs: &'a [PathBuf],
    /// Whether all of it was published by others.
    published: bool,
    /// Whether the command sees repositories as they are. Where it may write, it has private copies.
    pub(crate) sees_git: bool,
    /// Whether parts of Keyward count: where no command can write, none replaces them.
    protects_own: bool,
    /// What of HOME is obeyed in the tree.
    in_home: InGrant,
    /// Files that are secret or protected under another name, by device and inode.
    linked: &'a HashSet<(u64, u64)>,
    /// Whether a file with one name may be found under another.
    has_mounts: bool,
}

impl<'a> Rules<'a> {
    pub(crate) fn new(root: &'a Path, search: &'a Search<'a>, linked: &'a HashSet<(u64, u64)>) -> Self {
        let tree = search.trees.iter().find(|tree| tree.path == root);
        let role = tree.map(|tree| tree.role);
        Rules {
            root,
            homes: &search.homes,
            patterns: &search.patterns,
            // What is added to a tree that no command can change is the user's own.
            programs: if role.is_some_and(Role::is_of_tools) { &[] } else { &search.programs },
            published: role == Some(Role::Seen(Why::Toolchain)),
            sees_git: tree.is_some_and(|tree| matches!(tree.role, Role::Seen(_)) && !tree.writable),
            protects_own: tree.is_none_or(|tree| tree.writable),
            in_home: match tree.is_some_and(|tree| tree.writable) {
                true => below_home(&search.homes, root).map_or(InGrant::Nothing, detect::obeyed_in),
                false => InGrant::Nothing,
            },
            linked,
            has_mounts: !search.mounts.is_empty(),
        }
    }

    /// What counts in a directory of the tree.
    pub(crate) fn directory(&self, relative: &Path) -> Names {
        let path = self.root.join(relative);
        let is_bin = path.ends_with("bin") || path.ends_with("Scripts");
        let above = path.parent();
        let is_usual_environment =
            above.and_then(Path::file_name).is_some_and(programs::is_usual_environment);
        let is_environment =
            || above.is_some_and(|above| rustix::fs::lstat(above.join(programs::ENVIRONMENT)).is_ok());
        Names {
            above: path.file_name().map(OsStr::to_owned),
            directory: Directory::new(&path, self.homes),
            programs: path.ends_with("node_modules/.bin")
                || self.programs.contains(&path)
                || is_bin && (is_usual_environment || is_environment()),
            modules: path.ends_with("site-packages") || path.ends_with("dist-packages"),
            in_own: self.protects_own && own::is_in_package(&path),
            in_git: path.iter().any(|name| name == ".git"),
            in_guarded: relative.iter().any(|name| footholds::guarded(name).is_some()),
            below_home: match self.in_home {
                InGrant::Names => below_home(self.homes, &path).map(Path::to_path_buf),
                _ => None,
            },
            in_package: self.published || footholds::is_in_package(&path),
        }
    }

    /// What is secret in a directory of the tree, because of where it lies.
    pub(crate) fn place(&self, relative: &Path) -> Directory {
        Directory::new(&self.root.join(relative), self.homes)
    }

    pub(crate) fn fits_pattern(&self, name: &OsStr) -> bool {
        self.patterns.iter().any(|pattern| fits(name.as_bytes(), pattern.as_bytes()))
    }

    /// Why a name counts; 0 where it does not.
    pub(crate) fn marks(&self, names: &Names, name: &OsStr, kind: Kind) -> u8 {
        if name == ".git" {
            return mark::REPOSITORY;
        }
        let mut marks = match footholds::foothold_in(names.above.as_deref(), name) {
            _ if names.in_package => 0,
            // It is protected with all that lies in it.
            Some((footholds::Care::Told, _)) if names.in_guarded => 0,
            Some((footholds::Care::Guarded, _)) => mark::GUARDED,
            // A pipe or a socket is never the work, and programs that open it wait.
            Some((footholds::Care::Told, _)) if kind == Kind::Other => mark::GUARDED,
            Some((footholds::Care::Told, _)) => mark::TOLD,
            None if kind == Kind::Other && footholds::is_opened(name) => mark::GUARDED,
            None => 0,
        };
        marks |= self.obeyed(names, name, kind);
        if self.is_own(names, name) {
            marks |= mark::PROGRAM;
        }
        if kind == Kind::Directory {
            return marks;
        }
        let counts = |secret: &Secret| !(names.in_package && secret.is_data_of_packages());
        if names.directory.secret(name).is_some_and(counts) || self.fits_pattern(name) {
            marks |= mark::SECRET;
        }
        if kind == Kind::Link && names.is_protected() {
            marks |= mark::LEADS;
        }
        if kind == Kind::Link && (detect::may_be_store(name) || names.directory.is_on_the_way_to_a_store()) {
            marks |= mark::STORE;
        }
        // Python runs these by itself.
        let is_run =
            || name.as_bytes().ends_with(b".pth") || name == "sitecustomize.py" || name == "usercustomize.py";
        // The settings of an environment say where python finds its modules.
        let is_settings = || name == programs::ENVIRONMENT && !self.published;
        if names.programs || names.modules && is_run() || is_settings() {
            marks |= mark::PROGRAM;
        }
        marks
    }

    /// Why a name counts in a tree of HOME that is granted for writing: programs outside run or obey it.
    fn obeyed(&self, names: &Names, name: &OsStr, kind: Kind) -> u8 {
        match (self.in_home, &names.below_home) {
            (InGrant::All, _) if kind != Kind::Directory => mark::TOLD,
            (InGrant::Names, Some(above)) if detect::is_obeyed(&above.join(name)) => mark::GUARDED,
            _ => 0,
        }
    }

    /// Whether a name is a part of Keyward, which the user's programs run.
    fn is_own(&self, names: &Names, name: &OsStr) -> bool {
        let is_package = || names.above.as_deref().is_some_and(|above| own::is_package(above, name));
        self.protects_own && (is_package() || names.programs && own::is_program(name))
    }

    /// Whether a path of the tree is a guarded foothold by its last name.
    pub(crate) fn is_guarded(&self, relative: &Path) -> bool {
        let (Some(above), Some(name)) = (relative.parent(), relative.file_name()) else { return false };
        (footholds::guarded(name).is_some() || self.in_home == InGrant::Names)
            && self.marks(&self.directory(above), name, Kind::Directory) & mark::GUARDED != 0
    }

    /// Whether a path of the tree is a foothold because of what stands there now: a pipe or a socket that programs outside would open.
    pub(crate) fn stalls(&self, root: &Root, relative: &Path) -> bool {
        let (Some(above), Some(name)) = (relative.parent(), relative.file_name()) else { return false };
        let is_other = |stat: &Stat| {
            !matches!(
                FileType::from_raw_mode(stat.st_mode),
                FileType::RegularFile | FileType::Directory | FileType::Symlink
            )
        };
        footholds::is_opened(name)
            && root.stat(relative).is_ok_and(|stat| is_other(&stat))
            && self.marks(&self.directory(above), name, Kind::Other) & mark::GUARDED != 0
    }

    /// Whether files have to be compared with those that are secret or protected under another name.
    pub(crate) fn compares(&self) -> bool {
        !self.linked.is_empty()
    }

    /// Whether a file may be found under another name as well.
    pub(crate) fn may_have_names(&self, stat: &Stat) -> bool {
        stat.st_nlink > 1 || self.has_mounts
    }

    pub(crate) fn is_linked(&self, stat: &Stat) -> bool {
        self.linked.contains(&(stat.st_dev, stat.st_ino))
    }
}

fn below_home<'a>(homes: &[&Path], path: &'a Path) -> Option<&'a Path> {
    homes.iter().find_map(|home| path.strip_prefix(home).ok())
}

/// One directory, ready for its names.
pub(crate) struct Names {
    above: Option<OsString>,
    pub(crate) directory: Directory,
    /// Shells look for programs here.
    pub(crate) programs: bool,
    /// Python looks for modules here.
    modules: bool,
    /// It belongs to an installed package.
    in_package: bool,
    /// It belongs to an installed copy of Keyward.
    in_own: bool,
    /// It belongs to git.
    pub(crate) in_git: bool,
    /// It lies in a foothold of the tree.
    in_guarded: bool,
    /// Its path in HOME, where that counts.
    below_home: Option<PathBuf>,
}

impl Names {
    /// Whether all of it is protected, so that links in it and other names of its files count as well.
    pub(crate) fn is_protected(&self) -> bool {
        self.directory.is_in_foothold() || self.in_own
    }
}

/// Why a file is looked for under other names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Linked {
    Foothold,
    Secret,
}

/// A tree while it is looked at.
struct Looked {
    tree: Tree,
    root: Root,
    /// Where its index is.
    file: PathBuf,
    linked: HashSet<(u64, u64)>,
    harmless: Harmless,
    walked: Walked,
    /// Whether it is what a recent search found, and only in part looked at again.
    is_recalled: bool,
}

/// Searches.
pub fn search(search: &Search<'_>) -> (Project, Vec<Seen>) {
    let (mut project, looked) = look(search);
    let mut closed: Vec<Unsearched> = looked.iter().flat_map(Looked::closed).collect();
    let closed_around =
        looked.iter().any(|one| one.tree.role == Role::Around && !one.walked.closed.is_empty());
    if !closed.is_empty() || closed_around || !project.unresolved.is_empty() {
        // What lies in a closed directory may lead out of it, and what leads into it must be known as well.
        if let Some(facts) = closed::look(search) {
            // One in which nothing counts is like any other. Otherwise it is closed to the command, which could open it: we cannot
            // look after what is in it.
            closed.retain(|closed| holds_something(&facts, &closed.path));
            (project.secrets, project.footholds) = (facts.secrets, facts.footholds);
            (project.unresolved, project.unsearched) = (facts.unresolved, facts.unsearched);
        }
        let is_closed = |path: &Path| closed.iter().any(|closed| path.starts_with(&closed.path));
        project.secrets.retain(|secret| !is_closed(&secret.path));
        project.footholds.retain(|foothold| !is_closed(&foothold.path));
        for closed in closed {
            if !project.unsearched.iter().any(|other| other.path == closed.path) {
                project.unsearched.push(closed);
            }
        }
    }
    let visible = looked.into_iter().inspect(|one| one.remember(search, &project));
    // Of a tree of tools only what is hidden in it has to be looked after while the command runs.
    let visible = visible.filter(|one| match one.tree.role {
        Role::Around => false,
        role if role.is_of_tools() => project.secrets.iter().any(|it| it.path.starts_with(&one.tree.path)),
        Role::Seen(_) => true,
    });
    let seen = visible.map(|one| Seen { tree: one.tree, known: one.walked.known }).collect();
    (project, seen)
}

/// Closes a directory to the command that something outside needs and that we cannot look into.
fn close(project: &mut Project, path: PathBuf) {
    if !project.unsearched.iter().any(|unsearched| path.starts_with(&unsearched.path)) {
        project.unsearched.push(unsearched(path, Errno::ACCESS));
    }
}

/// Whether something that counts lies at a path or below it.
fn holds_something(facts: &Project, path: &Path) -> bool {
    let secrets = facts.secrets.iter().map(|secret| &secret.path);
    let footholds = facts.footholds.iter().map(|foothold| &foothold.path);
    let unsearched = facts.unsearched.iter().map(|unsearched| &unsearched.path);
    let marks = facts.marks.iter().map(|mark| &mark.path);
    let all = secrets.chain(footholds).chain(unsearched).chain(marks);
    let mut all = all.chain(&facts.unresolved).chain(&facts.programs);
    all.any(|found| found.starts_with(path))
}

/// Looks at all trees, with the rights that this process has.
fn look(search: &Search<'_>) -> (Project, Vec<Looked>) {
    let mut project = Project::default();
    let visible = |tree: &&Tree| tree.role != Role::Around;
    let is_searched = |path: &Path| {
        search.trees.iter().filter(visible).any(|tree| path.starts_with(&tree.path) && path != tree.path)
    };
    let dotfiles = dotfiles::look(search, &is_searched);
    let hidden: Vec<Lead> = search.hidden_by_link.iter().map(|path| follow(path)).collect();
    let mut needed: HashMap<(u64, u64), Linked> =
        dotfiles.linked.iter().map(|&file| (file, Linked::Secret)).collect();
    for path in &search.hidden {
        if let Ok(stat) = rustix::fs::lstat(path) {
            with_several_names(search, path, &stat, &mut needed);
        }
    }
    let mut looked = Vec::with_capacity(search.trees.len());
    let of_home: HashSet<(u64, u64)> = needed.keys().copied().collect();
    for tree in &search.trees {
        match Root::open(&tree.path) {
            _ if search.bounded && tree.role.is_of_tools() => project.left_out.push(tree.path.clone()),
            Ok(root) => looked.push(Looked::remembered(search, tree, root)),
            Err(_) if tree.role == Role::Around => {}
            Err(errno) => project.unsearched.push(unsearched(tree.path.clone(), errno)),
        }
    }
    // A file of one tree that is secret and has several names may have another one in a tree that was already looked at.
    loop {
        let all: HashSet<(u64, u64)> = needed.keys().copied().collect();
        for one in &mut looked {
            // Package managers give the files of a toolchain many names. Only the user's own secrets are looked for there.
            one.walk(search, if one.tree.role.is_of_tools() { &of_home } else { &all });
        }
        let before = needed.len();
        for one in &looked {
            one.several_names(search, &mut needed);
        }
        if needed.len() == before {
            break;
        }
    }
    let mut tell = Tell::new(search, &needed, &is_searched, project);
    for one in &looked {
        tell.tree(one);
    }
    tell.dotfiles(&dotfiles);
    tell.hidden(&hidden);
    tell.other_runs();
    tell.scripts();
    (tell.project, looked)
}

/// Files that the user hides and that have other names, at a path or below it.
fn with_several_names(
    search: &Search<'_>,
    path: &Path,
    stat: &Stat,
    needed: &mut HashMap<(u64, u64), Linked>,
) {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if search.may_have_names(stat) => {
            needed.insert((stat.st_dev, stat.st_ino), Linked::Secret);
        }
        FileType::Directory => {
            for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
                if let Ok(stat) = rustix::fs::lstat(entry.path()) {
                    with_several_names(search, &entry.path(), &stat, needed);
                }
            }
        }
        _ => {}
    }
}

/// The links on the way to a path, each with its text.
pub fn links_on_the_way(path: &Path) -> Vec<(PathBuf, PathBuf)> {
    follow(path).links
}

/// A file or directory as a foothold, as it stands.
pub fn foothold(path: &Path) -> Option<Foothold> {
    rustix::fs::lstat(path).ok().map(|stat| Foothold { is: tell::thing(&stat), path: path.into() })
}

fn unsearched(path: PathBuf, errno: Errno) -> Unsearched {
    let why = match errno {
        Errno::NAMETOOLONG => "too deep".to_owned(),
        Errno::ACCESS if is_of_another(&path) => OF_ANOTHER.to_owned(),
        errno => reason(errno),
    };
    Unsearched { path, why }
}

fn is_of_another(path: &Path) -> bool {
    rustix::fs::lstat(path).is_ok_and(|stat| stat.st_uid != rustix::process::geteuid().as_raw())
}

/// Trees that lie in another one and are searched on their own, relative to it.
pub(crate) fn skipped(search: &Search<'_>, tree: &Path) -> Vec<PathBuf> {
    let others = search.trees.iter().filter_map(|other| other.path.strip_prefix(tree).ok());
    let mut skip: Vec<PathBuf> =
        others.filter(|path| !path.as_os_str().is_empty()).map(PathBuf::from).collect();
    skip.sort();
    skip
}

fn sum_of(paths: &[PathBuf]) -> u64 {
    let mut sum = Sum::EMPTY;
    paths.iter().for_each(|path| sum.add(path.as_os_str().as_bytes()));
    sum.0
}

/// What an index depends on beside the tree itself.
fn rules_digest(search: &Search<'_>, tree: &Path) -> u64 {
    let mut sum = Sum(detect::DIGEST);
    sum.add(&[u8::from(search.bounded)]);
    let tree_of = search.trees.iter().find(|other| other.path == *tree);
    let role = tree_of.map(|tree| tree.role);
    sum.add(&[u8::from(role == Some(Role::Seen(Why::Toolchain)))]);
    sum.add(&[u8::from(tree_of.is_some_and(|tree| tree.writable))]);
    // What leads there from the system is not known to be harmless.
    if role == Some(Role::Seen(Why::System)) {
        let others = search.trees.iter().filter(|tree| tree.role != Role::Seen(Why::System));
        let within = others.filter(|tree| is_of_system(&tree.path));
        within.for_each(|tree| sum.add(tree.path.as_os_str().as_bytes()));
    }
    // What is not looked at here is not known to be as it was.
    sum.add(&sum_of(&skipped(search, tree)).to_le_bytes());
    // What counts below depends on where the tree lies.
    sum.add(tree.as_os_str().as_bytes());
    // A mount changes no directory.
    let mounts = search.mounts.iter().filter(|point| point.starts_with(tree));
    mounts.for_each(|point| sum.add(point.as_os_str().as_bytes()));
    search.patterns.iter().for_each(|pattern| sum.add(pattern.as_bytes()));
    search.homes.iter().for_each(|home| sum.add(home.as_os_str().as_bytes()));
    // Of the search path only what lies in the tree: shells have different ones.
    let programs = search.programs.iter().filter(|path| path.starts_with(tree));
    programs.for_each(|path| sum.add(path.as_os_str().as_bytes()));
    sum.0
}

impl Looked {
    /// A tree as its index knows it.
    fn remembered(search: &Search<'_>, tree: &Tree, root: Root) -> Self {
        let (device, inode, _) = root.identity;
        let of_tools = if tree.role.is_of_tools() { "-tools" } else { "" };
        // Without the trees in it that are searched on their own it is another tree, with an index of its own.
        let skip = skipped(search, &tree.path);
        let without = if skip.is_empty() { String::new() } else { format!("-{:x}", sum_of(&skip)) };
        let file = search.state.join("search").join(format!("{device:x}-{inode:x}{of_tools}{without}"));
        let mut looked = Looked {
            tree: tree.clone(),
            root,
            file,
            linked: HashSet::new(),
            harmless: Harmless::default(),
            walked: Walked::default(),
            is_recalled: false,
        };
        if !(tree.role.is_of_tools() && looked.recall(search)) {
            looked.read_index(search);
        }
        looked
    }

    fn read_index(&mut self, search: &Search<'_>) {
        let digest = rules_digest(search, &self.tree.path);
        let Index { linked, harmless, known } = index::read(&self.file, digest).unwrap_or_default();
        (self.linked, self.harmless, self.walked.known) = (linked, Harmless::new(harmless), known);
        self.walked.fresh = true;
    }

    /// Takes what the last search of a tree of tools found, if that is recent and its upper directories are as they were.
    fn recall(&mut self, search: &Search<'_>) -> bool {
        let digest = rules_digest(search, &self.tree.path);
        let recalled = brief::read(&self.file, digest, self.tree.role)
            .filter(|index| walk::unchanged(&self.root, &index.known).into_iter().all(|same| same));
        let Some(Index { linked, harmless, known }) = recalled else { return false };
        (self.linked, self.harmless) = (linked, Harmless::new(harmless));
        self.walked = Walked { known, ..Walked::default() };
        self.is_recalled = true;
        true
    }

    /// Looks at the tree, unless it was already looked at for all of these files.
    fn walk(&mut self, search: &Search<'_>, needed: &HashSet<(u64, u64)>) {
        let covers = needed.is_subset(&self.linked);
        if covers && !self.walked.fresh {
            return;
        }
        if std::mem::take(&mut self.is_recalled) {
            self.read_index(search);
            return self.walk(search, needed);
        }
        let before = std::mem::take(&mut self.walked);
        if !covers {
            self.linked.extend(needed);
        }
        let before = if covers { before.known } else { Known::default() };
        let rules = Rules::new(&self.tree.path, search, &self.linked);
        let skip = skipped(search, &self.tree.path);
        let bound = search.bounded.then_some(BOUND);
        let extent = Extent { skip: &skip, bound, slow: search.slow };
        self.walked = walk::walk(&self.root, &rules, before, &extent);
    }

    /// Directories that we could not look at.
    fn closed(&self) -> Vec<Unsearched> {
        if self.tree.role == Role::Around {
            return Vec::new();
        }
        // No command can open what lies in a tree of tools, so that what this user may not enter is as closed to it.
        let may_be_entered = |path: &Path| {
            let path = self.tree.path.join(path);
            rustix::fs::accessat(CWD, &path, Access::EXEC_OK, AtFlags::EACCESS) != Err(Errno::ACCESS)
        };
        let counts = |(path, _): &&(PathBuf, Errno)| !self.tree.role.is_of_tools() || may_be_entered(path);
        let closed = self.walked.closed.iter().filter(counts);
        closed.map(|(path, errno)| unsearched(self.tree.path.join(path), *errno)).collect()
    }

    /// Adds what is secret or protected here and has more than one name.
    fn several_names(&self, search: &Search<'_>, needed: &mut HashMap<(u64, u64), Linked>) {
        let rules = Rules::new(&self.tree.path, search, &self.linked);
        for (directory, note) in self.notes() {
            let is_foothold = note.has(mark::GUARDED | mark::LEADS);
            if note.kind != Kind::File || !(note.has(mark::SECRET) || is_foothold) {
                continue;
            }
            let Ok(stat) = self.root.stat(&directory.join(note.name)) else { continue };
            if !search.may_have_names(&stat) {
                continue;
            }
            // Settings without a credential may still be obeyed.
            let is_secret = note.has(mark::SECRET) && !self.is_harmless(&rules, directory, note.name, search);
            let why = match (is_secret, is_foothold) {
                (true, _) => Linked::Secret,
                (false, true) => Linked::Foothold,
                (false, false) => continue,
            };
            let known = needed.entry((stat.st_dev, stat.st_ino)).or_insert(why);
            *known = why.max(*known);
        }
    }

    /// Every name that counts, with its directory.
    fn notes(&self) -> impl Iterator<Item = (&Path, Note<'_>)> {
        self.walked.known.all_notes()
    }

    /// Whether the next search has to look at a name of the system again. Most of them turned out to be harmless, by their content or
    /// because they lead nowhere else, and that counts as long as the rest.
    fn counts_later(&self, search: &Search<'_>, directory: &Path, note: &Note<'_>, found: &Project) -> bool {
        let path = self.tree.path.join(directory).join(note.name);
        let has_several_names = || {
            note.kind == Kind::File
                && note.has(mark::GUARDED | mark::LEADS)
                && rustix::fs::lstat(&path).is_ok_and(|stat| stat.st_nlink > 1)
        };
        note.has(mark::REPOSITORY | mark::LINKED)
            || found.secrets.iter().any(|secret| secret.named.starts_with(&path))
            || note.kind == Kind::Link
                && note.has(mark::SECRET | mark::STORE)
                && !stays_in_system(&path, search)
            || has_several_names()
    }

    fn remember(&self, search: &Search<'_>, found: &Project) {
        let digest = rules_digest(search, &self.tree.path);
        if self.walked.fresh || self.harmless.is_fresh() && !self.is_recalled {
            index::write(&self.file, digest, &self.linked, &self.harmless, &self.walked.known);
        }
        if self.tree.role.is_of_tools() && !self.is_recalled && self.closed().is_empty() {
            let counts = |directory: &Path, note: &Note<'_>| {
                self.tree.role != Role::Seen(Why::System) || self.counts_later(search, directory, note, found)
            };
            let (linked, harmless) = (&self.linked, &self.harmless);
            brief::write(&self.file, digest, self.tree.role, linked, harmless, &self.walked.known, &counts);
        }
    }

    fn is_harmless(&self, rules: &Rules<'_>, directory: &Path, name: &OsStr, search: &Search<'_>) -> bool {
        let row = rules.place(directory).secret(name).filter(|_| !rules.fits_pattern(name));
        row.is_some_and(|row| self.shown(&self.root, row, &directory.join(name), search) == Shows::Itself)
    }

    /// What a file shows instead of its content. One that cannot be read, or is too large to be looked at, shows nothing. `root` is that of the
    /// tree, or what a link of the tree leads to.
    fn shown(&self, root: &Root, row: &Secret, relative: &Path, search: &Search<'_>) -> Shows {
        if row.content == detect::Content::Whole {
            return Shows::Instead(Vec::new());
        }
        let most = if row.is_of_projects() { MOST_SETTINGS } else { MOST_CONTENT };
        let rule = harmless::rule(row, &search.not_secret);
        let opened = root.file(relative).and_then(|file| Ok((rustix::fs::fstat(&file)?, file)));
        let Ok((stat, file)) = opened else { return Shows::Instead(Vec::new()) };
        if let Some(known) = self.harmless.known(&stat, rule) {
            return known;
        }
        let Some(mut content) = tree::content(&file, most) else { return Shows::Instead(Vec::new()) };
        let shown = shows(row, &content, &search.not_secret);
        content.zeroize();
        self.harmless.keep(&file, &stat, rule, &shown);
        shown
    }
}

/// Whether a link of the system leads, by links of the system alone, to something of the system. A project may lie there too.
fn stays_in_system(link: &Path, search: &Search<'_>) -> bool {
    let lead = follow(link);
    let others = |tree: &&Tree| tree.role != Role::Seen(Why::System);
    let of_system = |path: &Path| {
        is_of_system(path) && !search.trees.iter().filter(others).any(|tree| path.starts_with(&tree.path))
    };
    lead.closed.is_none()
        && lead.end.is_some_and(|(real, _)| of_system(&real))
        && lead.links.iter().all(|(link, _)| of_system(link))
}
