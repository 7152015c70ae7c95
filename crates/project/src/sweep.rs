//! The end of a run: a bounded walk through the project that is compared with what was there at the start. It takes nothing itself.

use crate::journal::Start;
use crate::search::{Folder, Seen, changed};
use crate::tree::{self, OpenedUp, Root};
use keyward_policy::facts::Searched;
use keyward_policy::text::visible;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// More than at the start: what was made meanwhile has to be reached as well.
const MOST_FOLDERS: usize = 4_096;
/// Of a told folder, and of a foothold that is not protected, this many names are looked at.
const MOST_INSIDE: usize = 256;

/// What the walk met. Paths are relative to the project.
#[derive(Default)]
pub(crate) struct Met {
    /// Guarded footholds that were made during the run.
    pub(crate) new: Vec<PathBuf>,
    /// Guarded footholds that changed and may be the user's own.
    pub(crate) changed: Vec<PathBuf>,
    /// Instructions and workflows that were made or changed.
    pub(crate) told: Vec<PathBuf>,
    /// Files that look secret and were not there when their folder was searched.
    pub(crate) secrets: Vec<PathBuf>,
    /// What makes folders repositories and was not there at the start.
    pub(crate) repositories: Vec<PathBuf>,
    pub(crate) not_walked: Vec<String>,
}

/// What is known of the start, ready to be asked.
pub(crate) struct Before<'a> {
    pub(crate) start: &'a Start,
    is_secret: &'a dyn Fn(&OsStr) -> bool,
    // By their bytes: as paths they would be taken apart for every look.
    known: HashSet<&'a OsStr>,
    marks: HashSet<&'a OsStr>,
    granted: HashSet<&'a OsStr>,
    links: HashMap<&'a OsStr, &'a Path>,
    /// What the search had in memory; nothing of it after a crash.
    in_order: &'a Seen,
    by_path: OnceCell<HashMap<&'a OsStr, &'a Folder>>,
    only: Option<HashSet<&'a OsStr>>,
}

impl<'a> Before<'a> {
    pub(crate) fn new(start: &'a Start, seen: &'a Seen, is_secret: &'a dyn Fn(&OsStr) -> bool) -> Self {
        let set = |paths: &'a [PathBuf]| paths.iter().map(|path| path.as_os_str()).collect();
        Before {
            start,
            is_secret,
            known: set(&start.known),
            marks: set(&start.marks),
            granted: set(&start.granted),
            links: start.links.iter().map(|(path, to)| (path.as_os_str(), to.as_path())).collect(),
            in_order: seen,
            by_path: OnceCell::new(),
            only: match &start.searched {
                Searched::All => None,
                Searched::Only(folders) => Some(set(folders)),
            },
        }
    }

    /// The folders that were searched. Most runs do not ask for one.
    fn seen(&self) -> &HashMap<&'a OsStr, &'a Folder> {
        self.by_path
            .get_or_init(|| self.in_order.0.iter().map(|(path, folder)| (path.as_os_str(), folder)).collect())
    }

    /// The text of the link that stood here.
    pub(crate) fn link(&self, relative: &Path) -> Option<&'a Path> {
        self.links.get(relative.as_os_str()).copied()
    }

    /// Whether a guarded foothold was made during the run.
    pub(crate) fn judge(&self, root: &Root, relative: &Path) -> Verdict {
        if self.granted.contains(relative.as_os_str()) {
            return Verdict::Old;
        }
        let Ok(stat) = root.stat(relative) else { return Verdict::Old };
        let touched = changed(&stat) >= self.start.since;
        if let Some(text) = self.link(relative) {
            return if root.link(relative).is_some_and(|now| now == text) {
                Verdict::Old
            } else {
                Verdict::New
            };
        }
        if self.known.contains(relative.as_os_str()) {
            // Where it is protected, only somebody outside can have changed it.
            let changed = !self.start.protected && (touched || self.touched_inside(root, relative));
            return if changed { Verdict::Changed } else { Verdict::Old };
        }
        let folder = relative.parent().unwrap_or(Path::new(""));
        // A name that was not there when its folder was searched.
        if self.seen().contains_key(folder.as_os_str())
            || root.born(relative).is_some_and(|born| born >= self.start.since)
        {
            return Verdict::New;
        }
        // Not born in this run, but it may have got its name in it: that sets the change time, as any change does.
        let searched = self.only.as_ref().is_none_or(|only| only.contains(folder.as_os_str()));
        match (touched, searched) {
            (true, true) => Verdict::New,
            (true, false) => Verdict::Changed,
            // It is older, and what is in it need not be.
            (false, _) if self.touched_inside(root, relative) => Verdict::Changed,
            (false, _) => Verdict::Old,
        }
    }

    /// Whether a folder became a repository during the run.
    fn is_new_mark(&self, root: &Root, folder: &Path, mark: &Path) -> bool {
        // Where folders were searched, or all of them were, it would be known.
        let searched = self.only.as_ref().is_none_or(|only| only.contains(folder.as_os_str()));
        !self.marks.contains(mark.as_os_str())
            && (searched || root.born(mark).is_none_or(|born| born >= self.start.since))
    }

    fn touched_inside(&self, root: &Root, relative: &Path) -> bool {
        let mut left = MOST_INSIDE;
        let mut waiting = vec![relative.to_path_buf()];
        while let Some(folder) = waiting.pop() {
            for (path, stat) in names(root, &folder) {
                if left == 0 || changed(&stat) >= self.start.since {
                    return left != 0;
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

/// What stands in a folder, each with what the kernel says about it.
fn names(root: &Root, folder: &Path) -> Vec<(PathBuf, rustix::fs::Stat)> {
    use std::os::unix::ffi::OsStrExt;
    let Ok(open) = root.listing(folder) else { return Vec::new() };
    let entries = rustix::fs::Dir::read_from(&open).into_iter().flatten().flatten();
    entries
        .filter(|entry| !matches!(entry.file_name().to_bytes(), b"." | b".."))
        .map(|entry| folder.join(OsStr::from_bytes(entry.file_name().to_bytes())))
        .filter_map(|path| root.stat(&path).ok().map(|stat| (path, stat)))
        .collect()
}

/// Walks. Folders that their maker closed to their owner are open as long as the second value lives.
pub(crate) fn walk(root: &Root, before: &Before<'_>) -> (Met, Vec<OpenedUp>) {
    let mut walk = Walk { root, before, met: Met::default(), opened: Vec::new(), waiting: VecDeque::new() };
    // Folders that were searched and have not changed hold what they held, and need one question each.
    for (relative, folder) in &before.in_order.0 {
        let Ok(stat) = root.stat(relative) else { continue };
        if folder.changed == changed(&stat) {
            walk.look(relative, folder);
            if before.only.is_some() {
                walk.go_on(relative, folder);
            }
        } else {
            walk.visit(relative, changed(&stat));
        }
    }
    if before.in_order.0.is_empty() {
        // After a crash: the root, and then where something was at the start, so that a flood of folders does not keep us from it.
        walk.waiting.push_back(PathBuf::new());
        let with_footholds =
            before.known.iter().chain(before.links.keys()).filter_map(|path| Path::new(path).parent());
        walk.waiting.extend(with_footholds.map(PathBuf::from));
    }
    let mut visited = HashSet::new();
    while let Some(relative) = walk.waiting.pop_front() {
        if visited.len() == MOST_FOLDERS {
            let more = walk.waiting.len() + 1;
            walk.met.not_walked.push(format!("{more} folders or more beyond {MOST_FOLDERS} new ones"));
            break;
        }
        if visited.insert(relative.clone().into_os_string())
            && let Ok(stat) = root.stat(&relative)
        {
            walk.visit(&relative, changed(&stat));
        }
    }
    (walk.met, walk.opened)
}

/// A walk on its way.
struct Walk<'a, 'b> {
    root: &'a Root,
    before: &'a Before<'b>,
    met: Met,
    opened: Vec<OpenedUp>,
    waiting: VecDeque<PathBuf>,
}

impl Walk<'_, '_> {
    fn visit(&mut self, relative: &Path, changed: i128) {
        match read(self.root, self.before, relative, changed, &mut self.opened) {
            Ok(folder) => {
                self.look(relative, &folder);
                self.go_on(relative, &folder);
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(_) => self.met.not_walked.push(format!("{} (closed)", visible(relative.as_os_str()))),
        }
    }

    /// Folders below that were not searched at the start. A foothold counts as a whole.
    fn go_on(&mut self, relative: &Path, folder: &Folder) {
        let below = folder.folders.iter().filter(|name| !folder.footholds[1].contains(name));
        let below = below.map(|name| relative.join(name));
        self.waiting.extend(below.filter(|path| !self.before.seen().contains_key(path.as_os_str())));
    }

    fn look(&mut self, relative: &Path, folder: &Folder) {
        look(self.root, self.before, relative, folder, &mut self.met);
    }
}

/// Reads a folder. One that was closed to its owner during the run is opened for as long as we look.
fn read(
    root: &Root,
    before: &Before<'_>,
    relative: &Path,
    changed: i128,
    opened: &mut Vec<OpenedUp>,
) -> Result<Folder, Errno> {
    let list = || tree::list(root.listing(relative)?, relative, before.is_secret);
    match list() {
        Err(Errno::ACCESS) if changed >= before.start.since => {
            opened.push(OpenedUp::new(root.folder(relative)?)?);
            list()
        }
        other => other,
    }
}

fn look(root: &Root, before: &Before<'_>, relative: &Path, folder: &Folder, met: &mut Met) {
    for name in folder.footholds.iter().flatten() {
        let path = relative.join(name);
        match before.judge(root, &path) {
            Verdict::Old => {}
            Verdict::New => met.new.push(path),
            Verdict::Changed => met.changed.push(path),
        }
    }
    for name in &folder.told {
        let path = relative.join(name);
        let Ok(stat) = root.stat(&path) else { continue };
        let touched = |stat: &rustix::fs::Stat| changed(stat) >= before.start.since;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            let inside = names(root, &path).into_iter().take(MOST_INSIDE);
            met.told.extend(inside.filter(|(_, stat)| touched(stat)).map(|(path, _)| path));
        } else if touched(&stat) {
            met.told.push(path);
        }
    }
    for name in &folder.secrets {
        let path = relative.join(name);
        let is_new = match before.seen().get(relative.as_os_str()) {
            Some(then) => !then.secrets.contains(name),
            // In a folder that was not searched it may be as old as any other.
            None => root.born(&path).is_some_and(|born| born >= before.start.since),
        };
        if is_new {
            met.secrets.push(path);
        }
    }
    for name in folder.repositories.iter().flatten() {
        let mark = if name.is_empty() { relative.to_path_buf() } else { relative.join(name) };
        if before.is_new_mark(root, relative, &mark) {
            met.repositories.push(mark);
        }
    }
}
