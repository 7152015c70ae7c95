//! The end of a run: a walk through a tree that is compared with what was there at the start. It takes nothing itself.
//!
//! The walk is complete. A directory that could not be looked at is named.

use crate::journal::Start;
use crate::search::index::{Known, Note, mark};
use crate::search::walk::{self, Listing, changed};
use crate::search::{MOST_SETTINGS, Rules, Seen, is_generated};
use crate::tree::{OpenedTree, Root};
use keyward_policy::detect::{Shows, shows};
use keyward_policy::text::visible;
use keyward_sys::file::reason;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Of a foothold that is not protected this many names are looked at; of a told directory this many that changed are named.
const MOST_INSIDE: usize = 256;

/// Longer paths are named and not walked: a command can make a chain of directories whose paths together would fill the memory. The next
/// run closes it.
const DEEPEST: usize = 16 << 10;

/// What the walk met. Paths are relative to the tree.
#[derive(Default)]
pub(crate) struct Met {
    /// Guarded footholds that were made during the run, and compiled modules that python would run unchecked.
    pub(crate) new: Vec<PathBuf>,
    /// Guarded footholds that changed and may be the user's own.
    pub(crate) changed: Vec<PathBuf>,
    /// Instructions and workflows that were made or changed.
    pub(crate) told: Vec<PathBuf>,
    /// Programs that were made or changed where the user's shell looks for them.
    pub(crate) programs: Vec<PathBuf>,
    /// Files that look secret and were not there when their directory was searched.
    pub(crate) secrets: Vec<PathBuf>,
    /// What makes directories repositories and was not there at the start.
    pub(crate) repositories: Vec<PathBuf>,
    /// Directories that could not be looked at, with the reason.
    pub(crate) not_walked: Vec<String>,
}

/// What is known of the start, ready to be asked.
pub(crate) struct Before<'a> {
    pub(crate) start: &'a Start,
    rules: &'a Rules<'a>,
    // By their bytes: as paths they would be taken apart for every look.
    known: HashSet<&'a OsStr>,
    marks: HashSet<&'a OsStr>,
    granted: HashSet<&'a OsStr>,
    links: HashMap<&'a OsStr, &'a Path>,
    /// What the search had in memory; nothing of it after a crash.
    seen: Option<&'a Seen>,
    /// Trees in this one that are walked on their own.
    skip: Vec<PathBuf>,
    by_path: OnceCell<HashMap<&'a OsStr, (&'a Known, usize)>>,
}

impl<'a> Before<'a> {
    pub(crate) fn new(
        start: &'a Start,
        seen: Option<&'a Seen>,
        rules: &'a Rules<'a>,
        skip: Vec<PathBuf>,
    ) -> Self {
        let set = |paths: &'a [PathBuf]| paths.iter().map(|path| path.as_os_str()).collect();
        Before {
            start,
            rules,
            known: set(&start.known),
            marks: set(&start.marks),
            granted: set(&start.granted),
            links: start.links.iter().map(|(path, to)| (path.as_os_str(), to.as_path())).collect(),
            seen,
            skip,
            by_path: OnceCell::new(),
        }
    }

    /// The directories that were searched. Most runs do not ask for one.
    fn seen(&self) -> &HashMap<&'a OsStr, (&'a Known, usize)> {
        self.by_path.get_or_init(|| {
            let known = self.seen.into_iter().map(|seen| &seen.known);
            let all = known.flat_map(|known| (0..known.len()).map(move |number| (known, number)));
            all.map(|(known, number)| (known.path(number).as_os_str(), (known, number))).collect()
        })
    }

    fn was_searched(&self, directory: &Path) -> bool {
        !self.start.left_out.iter().any(|left_out| directory.starts_with(left_out))
    }

    /// Whether no directory stood at this path at the start, as far as that is known. It may have been moved here.
    fn is_new_here(&self, directory: &Path) -> bool {
        self.seen.is_some()
            && self.was_searched(directory)
            && !self.seen().contains_key(directory.as_os_str())
    }

    /// Whether a directory is walked on its own, or was closed to the command.
    fn is_left_out(&self, directory: &Path) -> bool {
        let mut left_out = self.skip.iter().chain(&self.start.closed);
        left_out.any(|left_out| directory.starts_with(left_out))
    }

    /// The text of the link that stood here.
    pub(crate) fn link(&self, relative: &Path) -> Option<&'a Path> {
        self.links.get(relative.as_os_str()).copied()
    }

    fn touched(&self, stat: &rustix::fs::Stat) -> bool {
        i128::from(changed(stat)) >= self.start.since
    }

    /// Whether a guarded foothold was made during the run.
    pub(crate) fn judge(&self, root: &Root, relative: &Path) -> Verdict {
        if self.granted.contains(relative.as_os_str()) {
            return Verdict::Old;
        }
        let stat = match root.stat(relative) {
            Ok(stat) => stat,
            Err(Errno::NOENT | Errno::NOTDIR) => return Verdict::Old,
            // What cannot be looked at is told.
            Err(_) => return Verdict::Changed,
        };
        let touched = self.touched(&stat);
        if let Some(text) = self.link(relative) {
            return if root.link(relative).is_some_and(|now| now == text) {
                Verdict::Old
            } else {
                Verdict::New
            };
        }
        if self.known.contains(relative.as_os_str()) {
            // Where it is protected, only a process outside can have changed it.
            let changed = !self.start.protected && (touched || self.touched_inside(root, relative));
            return if changed { Verdict::Changed } else { Verdict::Old };
        }
        let folder = relative.parent().unwrap_or(Path::new(""));
        // A name that was not there when its directory was searched.
        if self.seen().contains_key(folder.as_os_str())
            || root.born(relative).is_some_and(|born| born >= self.start.since)
        {
            return Verdict::New;
        }
        // Not born in this run, but it may have got its name in it: that sets the change time, as any change does.
        match (touched, self.was_searched(folder)) {
            (true, true) => Verdict::New,
            (true, false) => Verdict::Changed,
            // It is older, and what is in it need not be.
            (false, _) if self.touched_inside(root, relative) => Verdict::Changed,
            // It came with a directory that was moved here: out of a package, where nothing counts, or by the user.
            (false, true) if self.seen.is_none() || self.is_new_here(folder) => Verdict::Changed,
            (false, _) => Verdict::Old,
        }
    }

    /// Whether a directory became a repository during the run.
    fn is_new_mark(&self, root: &Root, folder: &Path, mark: &Path) -> bool {
        !self.marks.contains(mark.as_os_str())
            && (self.was_searched(folder) || root.born(mark).is_none_or(|born| born >= self.start.since))
    }

    /// The files of a directory, at any depth, that were made or changed. Of a directory that was moved here, all are new. If there are more
    /// than are named, the directory itself comes first and stands for the rest.
    fn files_inside(&self, root: &Root, relative: &Path, is_new: bool) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut waiting = vec![(relative.to_path_buf(), is_new)];
        while let Some((folder, is_new)) = waiting.pop() {
            for (path, stat) in names(root, &folder) {
                if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                    let is_new = is_new || self.is_new_here(&path);
                    // Longer ones are named by the walk.
                    if path.as_os_str().len() <= DEEPEST {
                        waiting.push((path, is_new));
                    }
                } else if is_new || self.touched(&stat) {
                    found.push(path);
                    if found.len() == MOST_INSIDE {
                        found.insert(0, relative.to_path_buf());
                        return found;
                    }
                }
            }
        }
        found
    }

    fn touched_inside(&self, root: &Root, relative: &Path) -> bool {
        let mut left = MOST_INSIDE;
        let mut waiting = vec![relative.to_path_buf()];
        while let Some(folder) = waiting.pop() {
            for (path, stat) in names(root, &folder) {
                if left == 0 || self.touched(&stat) {
                    return true;
                }
                left -= 1;
                if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                    waiting.push(path);
                }
            }
        }
        false
    }
}

/// What a foothold is to this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was there, or is granted.
    Old,
    New,
    /// It was touched, and may be the user's own.
    Changed,
}

/// What stands in a directory, each with what the kernel says about it.
fn names(root: &Root, folder: &Path) -> Vec<(PathBuf, rustix::fs::Stat)> {
    let Ok(open) = root.listing(folder) else { return Vec::new() };
    let entries = rustix::fs::Dir::read_from(&open).into_iter().flatten().flatten();
    entries
        .filter(|entry| !matches!(entry.file_name().to_bytes(), b"." | b".."))
        .map(|entry| folder.join(OsStr::from_bytes(entry.file_name().to_bytes())))
        .filter_map(|path| root.stat(&path).ok().map(|stat| (path, stat)))
        .collect()
}

/// Walks. Directories that their maker closed to their owner are open as long as the second value lives.
pub(crate) fn walk<'a>(root: &'a Root, before: &'a Before<'_>) -> (Met, OpenedTree<'a>) {
    let mut walk =
        Walk { root, before, met: Met::default(), opened: OpenedTree::new(root), waiting: VecDeque::new() };
    if let Some(seen) = before.seen {
        // Directories that were searched and have not changed hold what they held, and need one question each.
        let same = walk::unchanged(root, &seen.known);
        for (number, same) in same.into_iter().enumerate() {
            walk.known(&seen.known, number, same);
        }
    } else {
        walk.waiting.push_back(PathBuf::new());
    }
    let mut visited = HashSet::new();
    while let Some(relative) = walk.waiting.pop_front() {
        if !before.is_left_out(&relative) && visited.insert(relative.clone().into_os_string()) {
            walk.visit(&relative);
        }
    }
    (walk.met, walk.opened)
}

/// A walk on its way.
struct Walk<'a, 'b> {
    root: &'a Root,
    before: &'a Before<'b>,
    met: Met,
    opened: OpenedTree<'a>,
    waiting: VecDeque<PathBuf>,
}

impl Walk<'_, '_> {
    /// A directory of the index.
    fn known(&mut self, known: &Known, number: usize, same: bool) {
        if !same {
            if !self.before.is_left_out(known.path(number)) {
                self.visit(known.path(number));
            }
        } else if known.has_notes(number) {
            let path = known.path(number);
            for note in known.notes(number) {
                self.unchanged(path, note);
            }
        }
    }

    fn visit(&mut self, relative: &Path) {
        match self.read(relative) {
            Ok(listing) => {
                // A directory of programs stays one, also if what made it so is gone.
                let held_programs =
                    self.before.seen().get(relative.as_os_str()).is_some_and(|(known, number)| {
                        known.notes(*number).any(|note| note.has(mark::PROGRAM))
                    });
                for note in &listing.notes {
                    self.look(relative, note.note());
                }
                if held_programs && !listing.notes.iter().any(|note| note.marks & mark::PROGRAM != 0) {
                    self.programs(relative);
                }
                if relative.ends_with("__pycache__") {
                    self.modules(relative);
                }
                self.go_on(relative, &listing);
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(errno) => {
                let why = match errno {
                    Errno::NAMETOOLONG => "too deep".to_owned(),
                    errno => reason(errno),
                };
                self.met.not_walked.push(format!("{} ({why})", visible(relative.as_os_str())));
            }
        }
    }

    /// Reads a directory. One that is closed to its owner is opened for as long as we look.
    fn read(&mut self, relative: &Path) -> Result<Listing, Errno> {
        if relative.as_os_str().len() > DEEPEST {
            return Err(Errno::NAMETOOLONG);
        }
        let list = || {
            let open = self.root.listing(relative)?;
            walk::may_be_searched(&open)?;
            walk::list(&open, relative, self.before.rules)
        };
        match list() {
            Err(Errno::ACCESS) => {
                self.opened.open(relative)?;
                list()
            }
            other => other,
        }
    }

    /// Directories below that were not searched at the start. A foothold counts as a whole.
    fn go_on(&mut self, relative: &Path, listing: &Listing) {
        let is_foothold = |name: &OsStr| {
            listing.notes.iter().any(|note| note.name == name && note.marks & mark::GUARDED != 0)
        };
        let below = listing.directories.iter().filter(|name| !is_foothold(name));
        let below = below.map(|name| relative.join(name));
        self.waiting.extend(below.filter(|path| !self.before.seen().contains_key(path.as_os_str())));
    }

    /// A name in a directory that holds the names it held: only what is in the file may be new.
    fn unchanged(&mut self, relative: &Path, note: Note<'_>) {
        if note.has(mark::GUARDED) && !self.before.start.protected {
            self.look(relative, note);
        } else if note.has(mark::TOLD | mark::PROGRAM) {
            self.look(relative, Note { marks: note.marks & (mark::TOLD | mark::PROGRAM), ..note });
        }
    }

    fn look(&mut self, relative: &Path, note: Note<'_>) {
        let (root, before) = (self.root, self.before);
        let path = if note.name.is_empty() { relative.to_path_buf() } else { relative.join(note.name) };
        if note.has(mark::GUARDED) {
            match before.judge(root, &path) {
                Verdict::Old => {}
                Verdict::New => self.met.new.push(path.clone()),
                Verdict::Changed => self.met.changed.push(path.clone()),
            }
        }
        // Packages of others bring instructions and workflows that nothing obeys where they lie.
        let is_told = note.has(mark::TOLD) && !relative.iter().any(is_generated) || note.has(mark::PROGRAM);
        if is_told && let Ok(stat) = root.stat(&path) {
            let list = if note.has(mark::TOLD) { &mut self.met.told } else { &mut self.met.programs };
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                let is_new = note.has(mark::TOLD) && before.is_new_here(relative);
                list.extend(before.files_inside(root, &path, is_new));
            } else if before.touched(&stat) || note.has(mark::TOLD) && before.is_new_here(relative) {
                list.push(path.clone());
            }
        }
        if note.has(mark::SECRET) {
            let is_new = match before.seen().get(relative.as_os_str()) {
                Some((then, number)) => !then.notes(*number).any(|then| then.name == note.name),
                // In a directory that was not searched it may be as old as any other.
                None => root.born(&path).is_some_and(|born| born >= before.start.since),
            };
            if is_new && !self.is_harmless(relative, note.name, &path) {
                self.met.secrets.push(path.clone());
            }
        }
        if note.has(mark::REPOSITORY) && before.is_new_mark(root, relative, &path) {
            self.met.repositories.push(path);
        }
    }

    /// Whether it is a file of settings that commands make every day, without a credential in it.
    fn is_harmless(&self, relative: &Path, name: &OsStr, path: &Path) -> bool {
        let row = self.before.rules.place(relative).secret(name).filter(|row| row.is_of_projects());
        let content = || self.root.content(path, MOST_SETTINGS);
        !self.before.rules.fits_pattern(name)
            && row.is_some_and(|row| content().is_some_and(|text| shows(row, &text, &[]) == Shows::Itself))
    }

    /// All files of a directory that held programs.
    fn programs(&mut self, relative: &Path) {
        let touched = names(self.root, relative).into_iter().filter(|(_, stat)| self.before.touched(stat));
        self.met.programs.extend(touched.map(|(path, _)| path));
    }

    /// Compiled modules that were made in this run and that python would run without a look at their source.
    fn modules(&mut self, relative: &Path) {
        for (path, stat) in names(self.root, relative) {
            let is_compiled = path.extension().is_some_and(|ending| ending == "pyc" || ending == "pyo");
            if is_compiled
                && self.before.touched(&stat)
                && self.root.beginning(&path).is_some_and(is_unchecked)
            {
                self.met.new.push(path);
            }
        }
    }
}

/// PEP 552: a module whose flags say that it is found by a hash, and that the hash is not to be checked.
fn is_unchecked(beginning: [u8; 8]) -> bool {
    const BY_HASH: u32 = 1;
    const CHECKED: u32 = 2;
    let flags = u32::from_le_bytes([beginning[4], beginning[5], beginning[6], beginning[7]]);
    flags & BY_HASH != 0 && flags & CHECKED == 0
}

#[cfg(test)]
mod tests {
    use super::is_unchecked;

    #[test]
    fn only_a_module_that_is_never_compared_with_its_source_is_unchecked() {
        assert!(is_unchecked([0xa7, 0x0d, 0x0d, 0x0a, 1, 0, 0, 0]));
        assert!(!is_unchecked([0xa7, 0x0d, 0x0d, 0x0a, 3, 0, 0, 0]));
        assert!(!is_unchecked([0xa7, 0x0d, 0x0d, 0x0a, 0, 0, 0, 0]));
    }
}
