//! Searches everything that a command may read or write for secret files, footholds and repositories. Runs in the launcher, and touches
//! only its own indexes.
//!
//! The search is complete: what could not be looked at is named, and closed to the command. An index per tree makes it incremental, so that
//! a tree in which no name has changed costs one `statx` per directory.

pub(crate) mod closed;
mod dotfiles;
mod halves;
pub(crate) mod index;
mod leads;
mod named;
pub(crate) mod walk;

use crate::journal;
use crate::tree::Root;
use dotfiles::Dotfiles;
use index::{Kind, Known, Note, mark};
use keyward_policy::detect::{self, Directory, Secret, Shows, Sum, footholds, shows};
use keyward_policy::facts::{Foothold, Found, Project, SecretFile, Standing, Unsearched};
use keyward_policy::view::fits;
use keyward_sys::file::reason;
use leads::follow;
pub(crate) use named::named_in;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
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

/// Where package managers put what others have published. Keys in there are test data, and editors' settings are their authors': a mount
/// over one would keep the package manager from replacing the package. Everything else counts as elsewhere.
const PACKAGES: &[&str] = &["node_modules", "site-packages", "dist-packages"];

/// A larger file with a secret name is hidden without a look at its content.
const MOST_CONTENT: u64 = 1 << 20;

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
    /// Whether it is the project, and not a grant.
    pub is_project: bool,
}

/// What to search, and by which rules a name counts.
pub struct Search<'a> {
    /// The project first, then the grants. None lies in another, except in one that comes later.
    pub trees: Vec<Tree>,
    pub homes: Vec<&'a Path>,
    /// Keyward's own state: indexes, and the journals of other runs.
    pub state: &'a Path,
    /// The user's patterns, as written; they belong to the index.
    pub patterns: Vec<&'a OsStr>,
    /// Names of variables that the user has cleared.
    pub not_secret: Vec<&'a str>,
    /// Directories in which the user's shell looks for programs.
    pub programs: Vec<PathBuf>,
    pub bounded: bool,
}

impl<'a> Search<'a> {
    /// For a look at footholds alone.
    pub(crate) fn nothing(state: &'a Path) -> Self {
        Search {
            trees: Vec::new(),
            homes: Vec::new(),
            state,
            patterns: Vec::new(),
            not_secret: Vec::new(),
            programs: Vec::new(),
            bounded: false,
        }
    }
}

/// A tree, as the search saw it: what has not changed needs no second look at the end.
pub struct Seen {
    pub(crate) tree: Tree,
    pub(crate) known: Known,
    /// Directories that are closed to us and that a helper has read.
    pub(crate) opened: Known,
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
    /// Files that are secret or protected under another name, by device and inode.
    linked: &'a HashSet<(u64, u64)>,
}

impl<'a> Rules<'a> {
    pub(crate) fn new(root: &'a Path, search: &'a Search<'a>, linked: &'a HashSet<(u64, u64)>) -> Self {
        Rules { root, homes: &search.homes, patterns: &search.patterns, programs: &search.programs, linked }
    }

    /// What counts in a directory of the tree.
    pub(crate) fn directory(&self, relative: &Path) -> Names {
        let path = self.root.join(relative);
        let is_bin = path.ends_with("bin") || path.ends_with("Scripts");
        let is_environment =
            || path.parent().is_some_and(|above| rustix::fs::lstat(above.join("pyvenv.cfg")).is_ok());
        Names {
            above: path.file_name().map(OsStr::to_owned),
            directory: Directory::new(&path, self.homes),
            programs: path.ends_with("node_modules/.bin")
                || self.programs.contains(&path)
                || is_bin && is_environment(),
            modules: path.ends_with("site-packages") || path.ends_with("dist-packages"),
            in_package: path.iter().any(|name| PACKAGES.iter().any(|packages| name == *packages)),
        }
    }

    fn fits_pattern(&self, name: &OsStr) -> bool {
        self.patterns.iter().any(|pattern| fits(name.as_bytes(), pattern.as_bytes()))
    }

    /// Why a name counts; 0 where it does not.
    pub(crate) fn marks(&self, names: &Names, name: &OsStr, kind: Kind) -> u8 {
        if name == ".git" {
            return mark::REPOSITORY;
        }
        let mut marks = match footholds::foothold_in(names.above.as_deref(), name) {
            _ if names.in_package => 0,
            Some((footholds::Care::Guarded, _)) => mark::GUARDED,
            Some((footholds::Care::Told, _)) => mark::TOLD,
            None => 0,
        };
        if kind == Kind::Directory {
            return marks;
        }
        let counts = |secret: &Secret| !(names.in_package && secret.is_key_by_name());
        if names.directory.secret(name).is_some_and(counts) || self.fits_pattern(name) {
            marks |= mark::SECRET;
        }
        if kind == Kind::Link && names.directory.is_in_foothold() {
            marks |= mark::LEADS;
        }
        if names.programs || names.modules && name.as_bytes().ends_with(b".pth") {
            marks |= mark::PROGRAM;
        }
        marks
    }

    /// Whether files have to be compared with those that are secret or protected under another name.
    pub(crate) fn compares(&self) -> bool {
        !self.linked.is_empty()
    }

    pub(crate) fn is_linked(&self, stat: &Stat) -> bool {
        self.linked.contains(&(stat.st_dev, stat.st_ino))
    }
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
    walked: Walked,
    opened: Known,
}

/// Searches.
pub fn search(search: &Search<'_>) -> (Project, Vec<Seen>) {
    let mut project = Project::default();
    let is_searched =
        |path: &Path| search.trees.iter().any(|tree| path.starts_with(&tree.path) && path != tree.path);
    let dotfiles = dotfiles::look(&search.homes, &is_searched);
    let mut needed: HashMap<(u64, u64), Linked> =
        dotfiles.linked.iter().map(|&file| (file, Linked::Secret)).collect();
    let mut looked = Vec::with_capacity(search.trees.len());
    for tree in &search.trees {
        match Root::open(&tree.path) {
            Ok(root) => looked.push(Looked::remembered(search, tree, root)),
            Err(errno) => project.unsearched.push(unsearched(tree.path.clone(), errno)),
        }
    }
    // A file of one tree that is secret and has several names may have another one in a tree that was already looked at.
    loop {
        let all: HashSet<(u64, u64)> = needed.keys().copied().collect();
        for one in &mut looked {
            one.walk(search, &all);
        }
        let before = needed.len();
        for one in &looked {
            one.several_names(search, &mut needed);
        }
        if needed.len() == before {
            break;
        }
    }
    let mut tell = Tell { search, needed: &needed, is_searched: &is_searched, project, met: HashSet::new() };
    for one in &looked {
        tell.tree(one);
    }
    tell.dotfiles(&dotfiles);
    tell.other_runs(&looked);
    tell.scripts();
    let project = tell.project;
    let seen = looked.into_iter().map(|one| {
        one.remember(search);
        Seen { tree: one.tree, known: one.walked.known, opened: one.opened }
    });
    (project, seen.collect())
}

fn unsearched(path: PathBuf, errno: Errno) -> Unsearched {
    let why = match errno {
        Errno::NAMETOOLONG => "too deep".to_owned(),
        errno => reason(errno),
    };
    Unsearched { path, why }
}

/// What an index depends on beside the tree itself.
fn rules_digest(search: &Search<'_>, tree: &Path) -> u64 {
    let mut sum = Sum(detect::digest());
    sum.add(&[u8::from(search.bounded)]);
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
        let file = search.state.join("search").join(format!("{device:x}-{inode:x}"));
        let (linked, known) = index::read(&file, rules_digest(search, &tree.path)).unwrap_or_default();
        let walked = Walked { known, fresh: true, ..Walked::default() };
        Looked { tree: tree.clone(), root, file, linked, walked, opened: Known::default() }
    }

    /// Looks at the tree, unless it was already looked at for all of these files.
    fn walk(&mut self, search: &Search<'_>, needed: &HashSet<(u64, u64)>) {
        let covers = needed.is_subset(&self.linked);
        if covers && !self.walked.fresh {
            return;
        }
        let before = std::mem::take(&mut self.walked);
        if !covers {
            self.linked.extend(needed);
        }
        let before = if covers { before.known } else { Known::default() };
        let rules = Rules::new(&self.tree.path, search, &self.linked);
        // A tree that lies in this one is looked at on its own.
        let others = search.trees.iter().filter_map(|other| other.path.strip_prefix(&self.tree.path).ok());
        let skip: Vec<PathBuf> =
            others.filter(|path| !path.as_os_str().is_empty()).map(PathBuf::from).collect();
        let extent = Extent { skip: &skip, bound: search.bounded.then_some(BOUND) };
        self.walked = walk::walk(&self.root, &rules, before, &extent);
        self.opened = Known::default();
        let closed: Vec<PathBuf> = self
            .walked
            .closed
            .iter()
            .filter(|(_, errno)| *errno == Errno::ACCESS)
            .map(|(path, _)| path.clone())
            .collect();
        if closed.is_empty() {
            return;
        }
        if let Some(opened) = closed::walk(&self.root, &rules, &closed, &extent) {
            self.walked.closed.retain(|(_, errno)| *errno != Errno::ACCESS);
            self.walked.closed.extend(opened.closed);
            self.opened = opened.known;
        }
    }

    /// Adds what is secret or protected here and has more than one name.
    fn several_names(&self, search: &Search<'_>, needed: &mut HashMap<(u64, u64), Linked>) {
        let rules = Rules::new(&self.tree.path, search, &self.linked);
        for (directory, note) in self.notes() {
            let why = match note {
                note if note.kind != Kind::File => continue,
                note if note.has(mark::SECRET) => Linked::Secret,
                note if note.has(mark::GUARDED | mark::LEADS) => Linked::Foothold,
                _ => continue,
            };
            let Ok(stat) = self.root.stat(&directory.join(note.name)) else { continue };
            if stat.st_nlink > 1
                && !(why == Linked::Secret && is_harmless(&self.root, &rules, directory, note.name, search))
            {
                let known = needed.entry((stat.st_dev, stat.st_ino)).or_insert(why);
                *known = why.max(*known);
            }
        }
    }

    /// Every name that counts, with its directory.
    fn notes(&self) -> impl Iterator<Item = (&Path, Note<'_>)> {
        [&self.walked.known, &self.opened].into_iter().flat_map(Known::all_notes)
    }

    /// The outermost closed directory at or above one that a helper has read.
    fn closed_above<'b>(&self, directory: &'b Path) -> &'b Path {
        let opened: HashSet<&Path> = (0..self.opened.len()).map(|number| self.opened.path(number)).collect();
        directory.ancestors().filter(|above| opened.contains(above)).last().unwrap_or(directory)
    }

    fn remember(&self, search: &Search<'_>) {
        if self.walked.fresh {
            index::write(&self.file, rules_digest(search, &self.tree.path), &self.linked, &self.walked.known);
        }
    }
}

/// The row of the table by which a name of a tree is secret; none where only a pattern of the user's says so.
fn row(rules: &Rules<'_>, directory: &Path, name: &OsStr) -> Option<&'static Secret> {
    Directory::new(&rules.root.join(directory), rules.homes).secret(name)
}

fn is_harmless(root: &Root, rules: &Rules<'_>, directory: &Path, name: &OsStr, search: &Search<'_>) -> bool {
    !rules.fits_pattern(name)
        && row(rules, directory, name)
            .is_some_and(|row| content_of(root, row, &directory.join(name), search) == Shows::Itself)
}

/// What a file shows instead of its content. One that cannot be read shows nothing.
fn content_of(root: &Root, row: &Secret, relative: &Path, search: &Search<'_>) -> Shows {
    if row.content == detect::Content::Whole {
        return Shows::Instead(Vec::new());
    }
    let Some(mut content) = root.content(relative, MOST_CONTENT) else { return Shows::Instead(Vec::new()) };
    let shown = shows(row, &content, &search.not_secret);
    content.zeroize();
    shown
}

/// Turns notes into facts.
struct Tell<'a> {
    search: &'a Search<'a>,
    needed: &'a HashMap<(u64, u64), Linked>,
    is_searched: &'a dyn Fn(&Path) -> bool,
    project: Project,
    /// Secrets that are among the facts already.
    met: HashSet<OsString>,
}

impl Tell<'_> {
    fn tree(&mut self, looked: &Looked) {
        let tree = &looked.tree;
        let rules = Rules::new(&tree.path, self.search, &looked.linked);
        for (directory, note) in looked.notes() {
            let path = if note.name.is_empty() {
                tree.path.join(directory)
            } else {
                tree.path.join(directory).join(note.name)
            };
            // We cannot look closer at what a helper has found for us, and so could not protect it.
            let needs_look = note.has(mark::REPOSITORY | mark::GUARDED | mark::LEADS) && tree.writable;
            if needs_look && rustix::fs::lstat(&path).is_err_and(|errno| errno == Errno::ACCESS) {
                self.close(unsearched(tree.path.join(looked.closed_above(directory)), Errno::ACCESS));
                continue;
            }
            if note.has(mark::REPOSITORY) && tree.writable {
                self.project
                    .marks
                    .push(Found { path: path.clone(), directory: note.kind == Kind::Directory });
            }
            if note.has(mark::GUARDED | mark::LEADS) && tree.writable {
                self.foothold(&path, note);
            }
            if note.has(mark::SECRET) {
                self.secret(looked, &rules, directory, note, &path);
            }
            if note.has(mark::LINKED)
                && let Ok(stat) = looked.root.stat(&directory.join(note.name))
            {
                match self.needed.get(&(stat.st_dev, stat.st_ino)) {
                    Some(Linked::Secret) => self.hide(path.clone(), path, false, Vec::new()),
                    Some(Linked::Foothold) => {
                        self.project.footholds.push(Foothold { is: thing(&stat), path })
                    }
                    None => {}
                }
            }
        }
        if tree.writable {
            self.programs(looked);
        }
        let closed =
            looked.walked.closed.iter().map(|(path, errno)| unsearched(tree.path.join(path), *errno));
        self.project.unsearched.extend(closed);
        self.project.left_out.extend(looked.walked.left_out.iter().map(|path| tree.path.join(path)));
    }

    fn close(&mut self, unsearched: Unsearched) {
        if !self.project.unsearched.contains(&unsearched) {
            self.project.unsearched.push(unsearched);
        }
    }

    /// Directories of the tree in which programs are looked for; not those of modules.
    fn programs(&mut self, looked: &Looked) {
        let root = &looked.tree.path;
        let known = [&looked.walked.known, &looked.opened].into_iter();
        let known = known.flat_map(|known| (0..known.len()).map(move |number| (known, number)));
        let holds =
            |(known, number): &(&Known, usize)| known.notes(*number).any(|note| note.has(mark::PROGRAM));
        let found = known.filter(holds).map(|(known, number)| root.join(known.path(number)));
        let named =
            self.search.programs.iter().filter(|path| path.starts_with(root) && path.is_dir()).cloned();
        let is_modules = |path: &Path| path.ends_with("site-packages") || path.ends_with("dist-packages");
        let programs = &mut self.project.programs;
        programs.extend(found.chain(named).filter(|path| path != root && !is_modules(path)));
        programs.sort();
        programs.dedup();
    }

    fn hide(&mut self, path: PathBuf, named: PathBuf, directory: bool, reads_as: Vec<u8>) {
        if self.met.insert(path.clone().into_os_string()) {
            self.project.secrets.push(SecretFile { path, named, directory, reads_as });
        }
    }

    /// A file with a secret name, or a link that leads to one.
    fn secret(&mut self, looked: &Looked, rules: &Rules<'_>, directory: &Path, note: Note<'_>, path: &Path) {
        let row = row(rules, directory, note.name).filter(|_| !rules.fits_pattern(note.name));
        let is_meant = |row: &Secret| {
            !looked.tree.is_project && Directory::new(&looked.tree.path, rules.homes).is_store_of(row)
        };
        if row.is_some_and(is_meant) {
            return;
        }
        if note.kind == Kind::File {
            let shown = row.map_or(Shows::Instead(Vec::new()), |row| {
                content_of(&looked.root, row, &directory.join(note.name), self.search)
            });
            if let Shows::Instead(text) = shown {
                self.hide(path.into(), path.into(), false, text);
            }
            return;
        }
        if note.kind != Kind::Link {
            return;
        }
        let lead = follow(path);
        if let Some(closed) = lead.closed.filter(|closed| (self.is_searched)(closed)) {
            return self.close(unsearched(closed, Errno::ACCESS));
        }
        let Some((real, stat)) = lead.end.filter(|(real, _)| (self.is_searched)(real)) else { return };
        // Without the links the file would have no secret name in the next run.
        self.links(&lead.links);
        let kind = FileType::from_raw_mode(stat.st_mode);
        let shown = match (kind, row) {
            (FileType::RegularFile, Some(row)) => match Root::open(real.parent().unwrap_or(&real)) {
                Ok(above) => {
                    content_of(&above, row, Path::new(real.file_name().unwrap_or_default()), self.search)
                }
                Err(_) => Shows::Instead(Vec::new()),
            },
            (FileType::RegularFile, None) => Shows::Instead(Vec::new()),
            _ => return,
        };
        if let Shows::Instead(text) = shown {
            self.hide(real, path.into(), false, text);
        }
    }

    fn links(&mut self, links: &[(PathBuf, PathBuf)]) {
        let inside = links.iter().filter(|(link, _)| (self.is_searched)(link));
        let links =
            inside.map(|(link, to)| Foothold { path: link.clone(), is: Standing::Link { to: to.clone() } });
        self.project.footholds.extend(links);
    }

    /// A foothold as it stands; of a link also what it leads to.
    fn foothold(&mut self, path: &Path, note: Note<'_>) {
        if note.kind != Kind::Link {
            if note.has(mark::GUARDED)
                && let Ok(stat) = rustix::fs::lstat(path)
            {
                self.project.footholds.push(Foothold { is: thing(&stat), path: path.into() });
            }
            return;
        }
        let lead = follow(path);
        if lead.links.is_empty() {
            return;
        }
        if let Some(closed) = lead.closed.filter(|closed| (self.is_searched)(closed)) {
            self.close(unsearched(closed, Errno::ACCESS));
        }
        let holds_git = |real: &Path| real.iter().any(|name| name == ".git");
        if let Some((real, stat)) = lead.end.filter(|(real, _)| (self.is_searched)(real) && !holds_git(real))
        {
            self.project.footholds.push(Foothold { is: thing(&stat), path: real });
        }
        // One in a foothold is read-only with it.
        if note.has(mark::GUARDED) {
            self.links(&lead.links);
        } else {
            self.links(&lead.links[1..]);
        }
    }

    /// Files of HOME that lie in a searched tree.
    fn dotfiles(&mut self, dotfiles: &Dotfiles) {
        for led in &dotfiles.led {
            self.links(&led.links);
            let directory = FileType::from_raw_mode(led.stat.st_mode) == FileType::Directory;
            if led.secret {
                self.hide(led.real.clone(), led.real.clone(), directory, Vec::new());
            } else {
                self.project.footholds.push(Foothold { is: thing(&led.stat), path: led.real.clone() });
            }
        }
    }

    /// What is hidden or protected because of a link, in runs that are at work here now: a command of theirs may have removed the link.
    fn other_runs(&mut self, looked: &[Looked]) {
        for start in journal::living(&crate::guard::journals(self.search.state)) {
            let Some(one) = looked.iter().find(|one| one.root.identity == start.identity) else { continue };
            for relative in &start.hidden {
                let path = one.tree.path.join(relative);
                if let Ok(stat) = one.root.stat(relative) {
                    let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
                    self.hide(path.clone(), path, directory, Vec::new());
                }
            }
            for relative in &start.known {
                if let Ok(stat) = one.root.stat(relative) {
                    let path = one.tree.path.join(relative);
                    let known = |foothold: &Foothold| {
                        foothold.path == path && matches!(foothold.is, Standing::Thing { .. })
                    };
                    if !self.project.footholds.iter().any(known) {
                        self.project.footholds.push(Foothold { is: thing(&stat), path });
                    }
                }
            }
        }
    }

    /// Scripts that a `.envrc` of the user's names: direnv runs them with it.
    fn scripts(&mut self) {
        let files = self.project.footholds.iter().filter(|foothold| {
            matches!(foothold.is, Standing::Thing { directory: false, .. })
                && foothold.path.ends_with(".envrc")
        });
        let files: Vec<PathBuf> = files.map(|foothold| foothold.path.clone()).collect();
        for file in files {
            let found = named_in(&file, file.parent().unwrap_or(Path::new("/")), self.is_searched);
            self.project
                .footholds
                .extend(found.into_iter().map(|(path, stat)| Foothold { is: thing(&stat), path }));
        }
    }
}

fn thing(stat: &Stat) -> Standing {
    Standing::Thing {
        directory: FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
        device: stat.st_dev,
        inode: stat.st_ino,
    }
}
