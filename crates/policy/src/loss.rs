//! Whether a command would take work away that nothing brings back: neither git nor `refs/keyward/kept`.
//!
//! The gate says what a command would delete, replace or move, as far as that is known. This decides whether there is work in it. What
//! has to be looked up for that comes from a [`Look`]; nothing here opens a file.

mod pattern;

use crate::untrusted::git::work::{Known, Work};
pub use pattern::fits_pattern;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// What a command would take away from the work in the project, if there is any. Paths are as they are written: `~` stands for HOME, what
/// is relative begins where the command starts, and the last parts may be patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Directories with all that lies below them.
    Paths(Vec<Vec<u8>>),
    /// Files that a pattern finds, each on its own.
    Matched(Vec<Vec<u8>>),
    /// Files and directories that are moved to another place. They are lost if that place is gone with the cage.
    Moved { paths: Vec<Vec<u8>>, to: Vec<u8> },
    /// Files that a search finds.
    Found(Search),
    /// Changes that are not committed, in the repository of this directory.
    Changes(Vec<u8>),
    /// Changes of these files and directories that are not committed.
    ChangesAt(Vec<Vec<u8>>),
    /// Changes that are not staged, in the repository of this directory.
    Unstaged(Vec<u8>),
    /// Files that git neither knows nor ignores, in the repository of this directory.
    Untracked(Vec<u8>),
    /// The same, and files that are staged and in no commit, because the command unstages them first.
    UntrackedAndAdded(Vec<u8>),
    /// The same at some paths only.
    UntrackedAt { directory: Vec<u8>, paths: Vec<Vec<u8>>, added: bool },
    /// Changes in files that git writes anew.
    WrittenOver(WrittenOver),
    /// Changes that are not committed, in any submodule.
    Submodules,
    /// What a file of these holds.
    Content(Vec<Vec<u8>>),
    /// A further working tree of the repository of this directory, by its path or the end of it.
    Worktree { directory: Vec<u8>, path: Vec<u8> },
}

/// What is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lost {
    Nothing,
    /// A repository of its own. It is not known whether another one has its commits.
    Repository,
    /// A further working tree, with a commit that no branch and no tag names.
    Commits,
    /// Work that was not committed.
    Work,
}

impl Lost {
    /// What is said instead of the sentence of a rule, which is about work that was not committed.
    pub fn sentence(self) -> Option<&'static str> {
        match self {
            Lost::Repository => {
                Some("it takes away a repository of its own, whose commits may be nowhere else")
            }
            Lost::Commits => Some("it takes away a working tree with commits that are on no branch"),
            Lost::Nothing | Lost::Work => None,
        }
    }
}

impl From<bool> for Lost {
    fn from(is_work: bool) -> Lost {
        if is_work { Lost::Work } else { Lost::Nothing }
    }
}

/// Files that `git checkout` or `git restore` writes anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenOver {
    /// Where git looks for its repository.
    pub directory: Vec<u8>,
    /// The commit that they come from. Without one they come from what is staged, so that nothing staged is lost.
    pub commit: Option<Vec<u8>>,
    /// The first word as it is written, where it may be a branch or a commit as well.
    pub first: Option<Vec<u8>>,
    pub paths: Vec<Vec<u8>>,
}

/// A search as `find` does it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// Where it begins, seen from where the command starts; empty where it is the same.
    pub standing: Vec<u8>,
    /// As they are written.
    pub roots: Vec<Vec<u8>>,
    /// How deep below a root it begins and ends; the root itself is 0.
    pub least: usize,
    pub most: usize,
    pub pick: Pick,
    /// Whether a directory that is found goes with all that lies below it.
    pub recursive: bool,
    /// Where the findings are moved to; without it, they are deleted.
    pub to: Option<Vec<u8>>,
}

/// Which files a search picks, in the order in which it asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pick {
    All(Vec<Pick>),
    Any(Vec<Pick>),
    Not(Box<Pick>),
    /// The last name of the path.
    Name {
        pattern: Vec<u8>,
        any_case: bool,
    },
    /// The path from the root on, with the root as it is written.
    Path {
        pattern: Vec<u8>,
        any_case: bool,
    },
    /// Of this kind, by the letter of `find -type`.
    Kind(u8),
    /// What gets here is deleted.
    Act,
    /// What lies below is left out.
    Prune,
    /// It is not known.
    Unknown,
}

/// What the decision has to know of the project and the cage. Paths of the project begin at its root.
pub trait Look {
    /// The work at some paths; with none, all of it.
    fn work(&mut self, paths: &[PathBuf]) -> Known;
    /// What stands at a path, without following a link.
    fn stands(&self, path: &Path) -> Stands;
    /// Whether what is put at this path of the cage is gone when the cage ends.
    fn is_gone_with_the_cage(&self, path: &Path) -> bool;
    /// Whether the project's repository has a branch of this name.
    fn is_branch(&self, name: &[u8]) -> bool;
    /// What is lost with a directory that has a repository of its own, or is a further working tree.
    fn inner(&mut self, path: &Path) -> Lost;
    /// Whether the project's repository has a further working tree whose path ends like this.
    fn is_worktree(&self, end: &Path) -> bool;
}

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    Nothing,
    Directory,
    /// A directory with a repository of its own.
    Repository,
    Other,
}

/// Where the command starts.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    pub project: &'a Path,
    pub cwd: &'a Path,
    pub home: &'a Path,
}

/// What is lost. What cannot be looked at counts as lost where it always was a question, and as kept where it never was.
pub fn lost(loss: &Loss, start: Start<'_>, look: &mut impl Look) -> Lost {
    let is_work = match loss {
        Loss::Paths(paths) => return with_paths(paths, start, look, Counts::Directories),
        Loss::Moved { paths, to } => {
            let to = start.absolute(to).filter(|to| look.is_gone_with_the_cage(to));
            let counts = to.as_ref().map(|to| match is_temporary(to) {
                true => Counts::Files,
                false => Counts::All,
            });
            return counts.map_or(Lost::Nothing, |counts| with_paths(paths, start, look, counts));
        }
        Loss::Worktree { directory, path } => return with_worktree(directory, path, start, look),
        Loss::Matched(paths) => {
            let has_pattern = |target: &Target| target.names.last().is_some_and(|name| is_pattern(name));
            let targets: Vec<Target> =
                paths.iter().filter_map(|path| start.target(path)).filter(has_pattern).collect();
            !targets.is_empty() && in_files(&targets, look)
        }
        Loss::Found(search) => are_found(search, start, look),
        Loss::Changes(directory) => in_repository(directory, start, look, Work::has_changes),
        Loss::Unstaged(directory) => in_repository(directory, start, look, Work::has_unstaged),
        Loss::Untracked(directory) => in_repository(directory, start, look, |work| work.has_untracked(false)),
        Loss::UntrackedAndAdded(directory) => {
            in_repository(directory, start, look, |work| work.has_untracked(true))
        }
        Loss::ChangesAt(paths) => {
            let targets: Vec<Target> = paths.iter().filter_map(|path| start.target(path)).collect();
            !targets.is_empty()
                && in_repository(b".", start, look, |work| {
                    work.changed().any(|one| targets.iter().any(|target| target.holds(one).is_some()))
                })
        }
        Loss::UntrackedAt { directory, paths, added } => {
            let targets: Vec<Target> = paths.iter().filter_map(|path| start.target(path)).collect();
            in_repository(directory, start, look, |work| {
                work.untracked_or_added(*added).any(|one| targets.iter().any(|target| target.is_meant(one)))
            })
        }
        Loss::WrittenOver(over) => is_written_over(over, start, look),
        Loss::Content(paths) => {
            // Outside of the project it cannot be looked at.
            let stands = |target: Option<Target>| {
                target.is_none_or(|target| {
                    target.has_pattern() || look.stands(&target.known()) != Stands::Nothing
                })
            };
            paths.iter().any(|path| stands(start.target(path)))
        }
        Loss::Submodules => look.stands(Path::new(".gitmodules")) != Stands::Nothing,
    };
    Lost::from(is_work)
}

impl Start<'_> {
    /// A path as a command writes it, without `.` and `..`.
    fn absolute(&self, written: &[u8]) -> Option<PathBuf> {
        let written = Path::new(OsStr::from_bytes(written));
        let whole = match written.strip_prefix("~") {
            Ok(below) => self.home.join(below),
            // `~name` is the HOME of another user.
            Err(_) if written.as_os_str().as_bytes().starts_with(b"~") => return None,
            Err(_) => self.cwd.join(written),
        };
        let mut path = PathBuf::new();
        for part in whole.components() {
            match part {
                Component::ParentDir => {
                    path.pop();
                }
                part => path.push(part),
            }
        }
        Some(path)
    }

    /// The same below the project's root; nothing where it lies outside.
    fn target(&self, written: &[u8]) -> Option<Target> {
        let below = self.absolute(written)?.strip_prefix(self.project).ok()?.to_path_buf();
        let names: Vec<Vec<u8>> = below.iter().map(|name| name.as_bytes().to_vec()).collect();
        Some(Target { names })
    }
}

/// A path below the project; its names may be patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    names: Vec<Vec<u8>>,
}

/// How a target holds a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    /// It is the path itself, by name.
    ByName,
    /// It is the path itself, by a pattern.
    ByPattern,
    /// The path lies below it.
    Below,
    /// It lies in a directory of which git knows nothing but its name.
    Within,
}

impl Target {
    /// The part before the first pattern.
    fn known(&self) -> PathBuf {
        self.names.iter().take_while(|name| !is_pattern(name)).map(|name| OsStr::from_bytes(name)).collect()
    }

    fn has_pattern(&self) -> bool {
        self.names.iter().any(|name| is_pattern(name))
    }

    /// Whether git means this path by it. Its patterns stand for slashes and dots as well.
    fn is_meant(&self, path: &[u8]) -> bool {
        if !self.has_pattern() {
            return self.holds(path).is_some();
        }
        let pattern = self.names.join(&b'/');
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        ends.chain([path.len()]).any(|end| fits_pattern(&pattern, &path[..end], false))
    }

    fn holds(&self, path: &[u8]) -> Option<Holds> {
        let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
        let fits = self.names.iter().zip(&names).all(|(own, name)| fits_name(own, name));
        match (fits, self.names.len(), names.len()) {
            (false, ..) => None,
            (true, own, all) if own < all => Some(Holds::Below),
            (true, own, all) if own > all => path.ends_with(b"/").then_some(Holds::Within),
            _ if self.names.last().is_some_and(|name| is_pattern(name)) => Some(Holds::ByPattern),
            _ => Some(Holds::ByName),
        }
    }
}

fn is_pattern(name: &[u8]) -> bool {
    name.iter().any(|byte| b"*?[".contains(byte))
}

/// Whether the shell finds this name by that one: a pattern leaves out what begins with a dot.
fn fits_name(own: &[u8], name: &[u8]) -> bool {
    match is_pattern(own) {
        false => own == name,
        true => (name.first() != Some(&b'.') || own.first() == Some(&b'.')) && fits_pattern(own, name, false),
    }
}

/// What counts as lost with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    /// What lies in directories. A single file that git never knew is not counted: commands remove what they have made.
    Directories,
    /// Single files as well: a file that is moved to a temporary place may be wanted again.
    Files,
    /// And what git ignores: a file that is moved to HOME is to be kept.
    All,
}

/// Whether a place is for what is not wanted for long.
fn is_temporary(path: &Path) -> bool {
    ["/tmp", "/var/tmp", "/dev/shm"].iter().any(|place| path.starts_with(place))
}

fn with_worktree(directory: &[u8], path: &[u8], start: Start<'_>, look: &mut impl Look) -> Lost {
    let written = Path::new(OsStr::from_bytes(path));
    let Some(target) = start.target(&[directory, b"/", path].concat()).filter(|_| written.is_relative())
    else {
        return Lost::Work;
    };
    match look.stands(&target.known()) {
        _ if target.has_pattern() => Lost::Work,
        Stands::Repository => look.inner(&target.known()),
        // git takes the end of a path as well, and refuses what is none of its trees.
        _ => Lost::from(look.is_worktree(written)),
    }
}

fn with_paths(written: &[Vec<u8>], start: Start<'_>, look: &mut impl Look, counts: Counts) -> Lost {
    let singles = counts != Counts::Directories;
    let mut targets: Vec<Target> = Vec::new();
    let mut most = Lost::Nothing;
    for target in written.iter().filter_map(|path| start.target(path)) {
        if target.has_pattern() {
            targets.push(target);
            continue;
        }
        match look.stands(&target.known()) {
            // What is not there cannot be lost, and needs no look at the repository.
            Stands::Nothing => {}
            // With work that the project's does not know.
            Stands::Repository if !target.names.is_empty() => most = most.max(look.inner(&target.known())),
            Stands::Directory | Stands::Repository => targets.push(target),
            Stands::Other if singles => targets.push(target),
            Stands::Other => {}
        }
    }
    if targets.is_empty() || most == Lost::Work {
        return most;
    }
    let paths: Vec<PathBuf> = targets.iter().map(Target::known).collect();
    let (Known::Work(work) | Known::NoRepository(work)) = look.work(&paths) else { return most };
    let holds = |path: &[u8], single: bool| {
        targets.iter().any(|target| match target.holds(path) {
            Some(Holds::ByName) => single,
            Some(Holds::ByPattern | Holds::Below | Holds::Within) => true,
            None => false,
        })
    };
    let (inner, untracked): (Vec<&[u8]>, Vec<&[u8]>) = work
        .untracked()
        .filter(|path| holds(path, singles || path.ends_with(b"/")))
        .partition(|path| is_inner(path, look));
    if !untracked.is_empty()
        || work.unstaged().any(|path| holds(path, true))
        || counts == Counts::All && work.ignored().any(|path| holds(path, true))
    {
        return Lost::Work;
    }
    inner.iter().map(|path| look.inner(Path::new(OsStr::from_bytes(path)))).fold(most, Lost::max)
}

/// Whether git knows nothing of a directory but its name because it has a repository of its own.
fn is_inner(path: &[u8], look: &impl Look) -> bool {
    path.ends_with(b"/") && look.stands(Path::new(OsStr::from_bytes(path))) == Stands::Repository
}

/// Whether a change would be lost with a file that a pattern finds. What git never knew is not counted: commands remove what they have made.
fn in_files(targets: &[Target], look: &mut impl Look) -> bool {
    let paths: Vec<PathBuf> = targets.iter().map(Target::known).collect();
    let Known::Work(work) = look.work(&paths) else { return false };
    work.unstaged().any(|path| targets.iter().any(|target| target.holds(path) == Some(Holds::ByPattern)))
}

/// Whether changes are lost with files that git writes anew.
fn is_written_over(over: &WrittenOver, start: Start<'_>, look: &mut impl Look) -> bool {
    let stands = |target: &Target, look: &dyn Look| {
        target.has_pattern() || look.stands(&target.known()) != Stands::Nothing
    };
    let mut targets: Vec<Target> = over.paths.iter().filter_map(|path| start.target(path)).collect();
    let mut commit = over.commit.as_deref();
    // Of several words the first is a commit, unless it is a path.
    if let Some(first) = over.first.as_deref().filter(|_| over.paths.len() > 1)
        && !over.paths.first().and_then(|path| start.target(path)).is_some_and(|path| stands(&path, look))
    {
        commit = Some(first);
    }
    // What is not there has no changes beside those that are staged.
    targets.retain(|target| commit.is_some() || stands(target, look));
    if targets.is_empty() {
        return false;
    }
    let is_meant = |path: &[u8]| targets.iter().any(|target| target.is_meant(path));
    // A file that git does not know is none of the last commit's.
    let is_other = commit.is_some_and(|commit| ![&b"HEAD"[..], b"@"].contains(&commit));
    let is_lost = match repository_work(&over.directory, start, look) {
        Known::NoRepository(_) => false,
        Known::Work(work) => {
            work.unstaged().any(is_meant)
                || commit.is_some() && work.changed().any(is_meant)
                || is_other && work.untracked().any(is_meant)
        }
        Known::Unknown => targets.iter().any(|target| stands(target, look)),
    };
    let is_switch = |first: &Vec<u8>| over.paths.len() == 1 && look.is_branch(first);
    is_lost && !over.first.as_ref().is_some_and(is_switch)
}

/// The work in the repository of a directory.
fn repository_work(directory: &[u8], start: Start<'_>, look: &mut impl Look) -> Known {
    let Some(target) = start.target(directory) else { return Known::Unknown };
    let directory = target.known();
    let mut between = directory.ancestors().filter(|path| !path.as_os_str().is_empty());
    match between.any(|path| look.stands(path) == Stands::Repository) {
        true => Known::Unknown,
        false => look.work(&[]),
    }
}

/// Whether the repository of a directory has such work.
fn in_repository(
    directory: &[u8],
    start: Start<'_>,
    look: &mut impl Look,
    has: impl Fn(&Work) -> bool,
) -> bool {
    match repository_work(directory, start, look) {
        Known::NoRepository(_) => false,
        Known::Work(work) => has(&work),
        Known::Unknown => true,
    }
}

fn are_found(search: &Search, start: Start<'_>, look: &mut impl Look) -> bool {
    let kept = |to: &Vec<u8>| start.absolute(to).is_none_or(|to| !look.is_gone_with_the_cage(&to));
    if search.to.as_ref().is_some_and(kept) {
        return false;
    }
    let standing = Path::new(OsStr::from_bytes(&search.standing));
    let from_start = |root: &[u8]| match root.first() {
        Some(b'~') => root.to_vec(),
        _ => standing.join(OsStr::from_bytes(root)).into_os_string().into_vec(),
    };
    let roots =
        search.roots.iter().filter_map(|root| Some((root.as_slice(), start.target(&from_start(root))?)));
    let roots: Vec<(&[u8], Target)> = roots
        .filter(|(_, target)| target.has_pattern() || look.stands(&target.known()) != Stands::Nothing)
        .collect();
    if roots.is_empty() {
        return false;
    }
    let paths: Vec<PathBuf> = roots.iter().map(|(_, target)| target.known()).collect();
    let (Known::Work(work) | Known::NoRepository(work)) = look.work(&paths) else { return false };
    let finds = |path: &[u8]| roots.iter().any(|(root, target)| search.finds(root, target, path));
    // What is ignored goes with all the rest; by a name, the command means just that.
    let ignored = !search.pick.chooses() && !roots.iter().any(|(_, target)| target.has_pattern());
    work.unstaged().chain(work.untracked()).any(finds) || ignored && work.ignored().any(finds)
}

impl Search {
    /// Whether a file of the project is deleted.
    fn finds(&self, root: &[u8], target: &Target, path: &[u8]) -> bool {
        if target.holds(path).is_none_or(|holds| holds == Holds::Within) {
            return false;
        }
        let is_directory = path.ends_with(b"/");
        let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
        let below = names.get(target.names.len()..).unwrap_or_default();
        let root = root.strip_suffix(b"/").unwrap_or(root);
        for depth in 0..=below.len() {
            let is_last = depth == below.len();
            let written = [&[root], &below[..depth]].concat().join(&b'/');
            let name = depth.checked_sub(1).and_then(|at| below.get(at)).copied().unwrap_or(root);
            let kind = if is_last && !is_directory { b'f' } else { b'd' };
            let mut seen = Seen { path: &written, name, kind, acted: false, pruned: false };
            if (self.least..=self.most).contains(&depth) {
                let known = self.pick.holds(&mut seen).is_some();
                if known && seen.acted && (is_last || self.recursive) {
                    return true;
                }
            }
            if seen.pruned || depth >= self.most {
                return false;
            }
        }
        false
    }
}

/// What a search looks at.
struct Seen<'a> {
    path: &'a [u8],
    name: &'a [u8],
    kind: u8,
    acted: bool,
    pruned: bool,
}

impl Pick {
    /// Whether it wants names, and not only leaves some out.
    fn chooses(&self) -> bool {
        match self {
            Pick::All(all) | Pick::Any(all) => all.iter().any(Pick::chooses),
            Pick::Name { .. } | Pick::Path { .. } | Pick::Unknown => true,
            Pick::Not(_) | Pick::Kind(_) | Pick::Act | Pick::Prune => false,
        }
    }

    /// Whether it holds; `None` if that cannot be told. Notes what happens on the way.
    fn holds(&self, seen: &mut Seen<'_>) -> Option<bool> {
        match self {
            Pick::All(all) => {
                for one in all {
                    if !one.holds(seen)? {
                        return Some(false);
                    }
                }
                Some(true)
            }
            Pick::Any(all) => {
                for one in all {
                    if one.holds(seen)? {
                        return Some(true);
                    }
                }
                Some(false)
            }
            Pick::Not(inner) => inner.holds(seen).map(|holds| !holds),
            Pick::Name { pattern, any_case } => Some(fits_pattern(pattern, seen.name, *any_case)),
            Pick::Path { pattern, any_case } => Some(fits_pattern(pattern, seen.path, *any_case)),
            Pick::Kind(kind) => Some(*kind == seen.kind),
            Pick::Act => {
                seen.acted = true;
                Some(true)
            }
            Pick::Prune => {
                seen.pruned = true;
                Some(true)
            }
            Pick::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests;
