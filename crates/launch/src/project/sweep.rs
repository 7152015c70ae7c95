//! The end of a run: a bounded walk through the project that is compared with what was there at the start. It takes nothing itself.

use super::journal::Start;
use super::tree::{self, OpenedUp, Root};
use crate::search::{Folder, Seen, changed};
use keyward_policy::facts::{Found, Searched};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// More than at the start: what was made meanwhile has to be reached as well.
const MOST_FOLDERS: usize = 4_096;
/// Of a told folder, and of a foothold that is not protected, this many names are looked at.
const MOST_INSIDE: usize = 256;

/// What the walk met. Paths are relative to the project.
#[derive(Default)]
pub(super) struct Met {
    /// Guarded footholds that were made during the run.
    pub(super) new: Vec<PathBuf>,
    /// Guarded footholds that changed and may be the user's own.
    pub(super) changed: Vec<PathBuf>,
    /// Instructions and workflows that were made or changed.
    pub(super) told: Vec<PathBuf>,
    /// Files that look secret and were not there when their folder was searched.
    pub(super) secrets: Vec<PathBuf>,
    /// All repositories, whether or not they were there at the start.
    pub(super) repositories: Vec<Found>,
    pub(super) not_walked: Vec<String>,
}

/// What is known of the start, ready to be asked.
pub(super) struct Before<'a> {
    pub(super) start: &'a Start,
    is_secret: &'a dyn Fn(&OsStr) -> bool,
    known: HashSet<&'a Path>,
    granted: HashSet<&'a Path>,
    links: HashMap<&'a Path, &'a Path>,
    /// What the search had in memory; nothing of it after a crash.
    seen: HashMap<&'a Path, &'a Folder>,
    only: Option<HashSet<&'a Path>>,
}

impl<'a> Before<'a> {
    pub(super) fn new(start: &'a Start, seen: &'a Seen, is_secret: &'a dyn Fn(&OsStr) -> bool) -> Self {
        let set = |paths: &'a [PathBuf]| paths.iter().map(PathBuf::as_path).collect();
        Before {
            start,
            is_secret,
            known: set(&start.known),
            granted: set(&start.granted),
            links: start.links.iter().map(|(path, to)| (path.as_path(), to.as_path())).collect(),
            seen: seen.0.iter().map(|(path, folder)| (path.as_path(), folder)).collect(),
            only: match &start.searched {
                Searched::All => None,
                Searched::Only(folders) => Some(set(folders)),
            },
        }
    }

    /// The text of the link that stood here.
    pub(super) fn link(&self, relative: &Path) -> Option<&'a Path> {
        self.links.get(relative).copied()
    }

    /// Whether a guarded foothold was made during the run.
    pub(super) fn judge(&self, root: &Root, relative: &Path) -> Verdict {
        if self.granted.contains(relative) {
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
        if self.known.contains(relative) {
            // Where it is protected, only somebody outside can have changed it.
            let changed = !self.start.protected && (touched || self.touched_inside(root, relative));
            return if changed { Verdict::Changed } else { Verdict::Old };
        }
        let folder = relative.parent().unwrap_or(Path::new(""));
        // A name that was not there when its folder was searched.
        if self.seen.contains_key(folder) || root.born(relative).is_some_and(|born| born >= self.start.since)
        {
            return Verdict::New;
        }
        // Not born in this run, but it may have got its name in it: that sets the change time, as any change does.
        let searched = self.only.as_ref().is_none_or(|only| only.contains(folder));
        match (touched, searched) {
            (true, true) => Verdict::New,
            (true, false) => Verdict::Changed,
            (false, _) => Verdict::Old,
        }
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
pub(super) enum Verdict {
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

/// Walks. Folders that its maker closed to their owner are open as long as the second value lives.
pub(super) fn walk(root: &Root, before: &Before<'_>) -> (Met, Vec<OpenedUp>) {
    let mut met = Met::default();
    let mut opened = Vec::new();
    let mut waiting = VecDeque::from([PathBuf::new()]);
    // Where something was found at the start comes first: a flood of folders must not keep us from getting there.
    let with_footholds = before.known.iter().chain(before.links.keys()).filter_map(|path| path.parent());
    let mut first: Vec<PathBuf> = with_footholds.map(PathBuf::from).collect();
    first.push(PathBuf::new());
    let mut visited: HashSet<PathBuf> = HashSet::new();
    let mut walked = 0;
    while let Some(relative) = first.pop().or_else(|| waiting.pop_front()) {
        if !visited.insert(relative.clone()) {
            continue;
        }
        if walked == MOST_FOLDERS {
            met.not_walked
                .push(format!("{} folders or more beyond the first {MOST_FOLDERS}", waiting.len() + 1));
            break;
        }
        walked += 1;
        let Ok(stat) = root.stat(&relative) else { continue };
        let fresh;
        let folder = match before.seen.get(relative.as_path()) {
            Some(folder) if folder.changed == changed(&stat) => *folder,
            _ => match read(root, before, &relative, changed(&stat), &mut opened) {
                Ok(folder) => {
                    fresh = folder;
                    &fresh
                }
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(_) => {
                    met.not_walked.push(format!("{} (closed)", relative.display()));
                    continue;
                }
            },
        };
        look(root, before, &relative, folder, &mut met);
        let guarded: Vec<&OsStr> = folder.footholds[1].iter().map(|name| name.as_os_str()).collect();
        waiting.extend(
            folder
                .folders
                .iter()
                // A foothold counts as a whole.
                .filter(|name| !guarded.contains(&name.as_os_str()))
                .map(|name| relative.join(name)),
        );
    }
    (met, opened)
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
    let was_there = before.seen.get(relative).map_or(&[][..], |folder| &folder.secrets);
    let appeared = folder.secrets.iter().filter(|name| !was_there.contains(name));
    let appeared = appeared.map(|name| relative.join(name));
    met.secrets.extend(appeared.filter(|path| {
        // In a folder that was not searched it may be as old as any other.
        before.seen.contains_key(relative) || root.born(path).is_some_and(|born| born >= before.start.since)
    }));
    for (names, directory) in folder.repositories.iter().zip([false, true]) {
        let found = names.iter().map(|name| Found { path: root.path.join(relative).join(name), directory });
        met.repositories.extend(found);
    }
}
