//! What a search of a tree of tools found, in short: such trees are large, no command can change them, and they hardly ever change.
//!
//! A toolchain of 10,000 directories would cost every start more than everything else together. So the search of it counts for a minute, as
//! long as its upper directories, and those in which something counts, are as they were. What a user puts deeper down is found a minute later
//! at the latest. Directories of the system change by an administrator's hand only: their search counts for ten.

use super::Role;
use super::harmless::Harmless;
use super::index::{self, Index, Known, Note};
use keyward_policy::view::Why;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// So long what was found counts.
const fn counts(role: Role) -> Duration {
    Duration::from_secs(if matches!(role, Role::Seen(Why::System)) { 600 } else { 60 })
}

/// So deep directories are looked at by every search. The files of settings of an installation lie in its first two levels.
const fn depth(role: Role) -> usize {
    if matches!(role, Role::Seen(Why::System)) { 0 } else { 2 }
}

/// More directories than these are not asked about again: then each search is a whole one.
const MOST: usize = 1_000;

fn beside(index: &Path) -> PathBuf {
    index.with_extension("brief")
}

/// What was found last, if that was recently.
pub(super) fn read(index: &Path, rules: u64, role: Role) -> Option<Index> {
    let file = index::open(&beside(index))?;
    let written = rustix::fs::fstat(&file).ok()?;
    let since =
        Duration::new(u64::try_from(written.st_mtime).ok()?, u32::try_from(written.st_mtime_nsec).ok()?);
    // A time in the future means that the clock was set back.
    let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH.checked_add(since)?).ok()?;
    (age < counts(role)).then(|| index::read_open(&file, rules)).flatten()
}

/// Keeps what was found by a whole search, without the names that `holds` says no to.
pub(super) fn write(
    index: &Path,
    rules: u64,
    role: Role,
    linked: &HashSet<(u64, u64)>,
    harmless: &Harmless,
    known: &Known,
    holds: &dyn Fn(&Path, &Note<'_>) -> bool,
) {
    let short = shortened(known, depth(role), holds);
    if short.len() <= MOST {
        index::write(&beside(index), rules, linked, harmless, &short);
    }
}

/// The upper directories, those in which something counts, and all above them.
fn shortened(known: &Known, depth: usize, holds: &dyn Fn(&Path, &Note<'_>) -> bool) -> Known {
    let counts = |number: usize| {
        known.has_notes(number) && known.notes(number).any(|note| holds(known.path(number), &note))
    };
    let mut keep: Vec<bool> = (0..known.len())
        .map(|number| known.path(number).components().count() <= depth || counts(number))
        .collect();
    // Parents come before their children, so that from the end each one is decided when its own is asked for.
    for number in (1..known.len()).rev() {
        if keep[number] {
            keep[known.parent(number)] = true;
        }
    }
    let mut short = Known::default();
    let mut places = vec![0; known.len()];
    for number in (0..known.len()).filter(|&number| keep[number]) {
        let parent = places[known.parent(number)];
        let notes = known.notes(number).filter(|note| holds(known.path(number), note));
        places[number] = short.push(known.path(number), parent, known.stamp(number), notes);
    }
    short
}

#[cfg(test)]
mod tests {
    use super::super::index::{Kind, Note, Stamp, mark};
    use super::*;
    use std::ffi::OsStr;

    fn tree() -> Known {
        let mut known = Known::default();
        let stamp = |inode| Stamp { device: 1, inode, changed: 5 };
        let root = known.push(Path::new(""), 0, stamp(1), [].into_iter());
        let a = known.push(Path::new("a"), root, stamp(2), [].into_iter());
        let b = known.push(Path::new("a/b"), a, stamp(3), [].into_iter());
        let plain = known.push(Path::new("a/b/plain"), b, stamp(4), [].into_iter());
        known.push(Path::new("a/b/plain/deep"), plain, stamp(5), [].into_iter());
        let way = known.push(Path::new("a/b/way"), b, stamp(6), [].into_iter());
        let note = Note { name: OsStr::new(".env"), kind: Kind::File, marks: mark::SECRET };
        known.push(Path::new("a/b/way/to"), way, stamp(7), [note].into_iter());
        known
    }

    #[test]
    fn upper_directories_and_the_way_to_what_counts_are_kept() {
        let short = shortened(&tree(), 2, &|_, _| true);
        let paths: Vec<&Path> = (0..short.len()).map(|number| short.path(number)).collect();
        assert_eq!(paths, ["", "a", "a/b", "a/b/way", "a/b/way/to"].map(Path::new));
        assert_eq!(short.path(short.parent(4)), Path::new("a/b/way"));
        assert_eq!(short.all_notes().count(), 1);
        // What turned out to be harmless is not kept, and neither is the way to it.
        let harmless = shortened(&tree(), 0, &|directory, note| {
            assert_eq!((directory, note.name), (Path::new("a/b/way/to"), OsStr::new(".env")));
            false
        });
        assert_eq!((harmless.len(), harmless.all_notes().count()), (1, 0));
    }

    #[test]
    fn what_was_found_counts_for_a_while_and_never_from_the_future() {
        let directory = tempfile::tempdir().unwrap();
        let index = directory.path().join("1-2-tools");
        let role = Role::Seen(Why::Toolchain);
        write(&index, 7, role, &HashSet::new(), &Harmless::default(), &tree(), &|_, _| true);
        assert!(read(&index, 7, role).is_some());
        assert!(read(&index, 8, role).is_none(), "other rules");
        let file = std::fs::File::options().write(true).open(beside(&index)).unwrap();
        for (when, is_read) in [
            (SystemTime::now() - Duration::from_secs(30), true),
            (SystemTime::now() - counts(role) - Duration::from_secs(1), false),
            (SystemTime::now() + Duration::from_secs(3600), false),
        ] {
            file.set_modified(when).unwrap();
            assert_eq!(read(&index, 7, role).is_some(), is_read, "{when:?}");
        }
    }
}
