//! While the command runs: the kernel tells us of names that appear in the searched trees. A notice: a fast process is there before us.
//!
//! The kernel's watcher is made before the command starts, so that nothing the command does can keep us from it. The directories are
//! watched only when the command has run for a while, a few at a time, so that a short one is not slowed. What is missed here is found at
//! the end.
//!
//! The kernel has so many watchers for each user, and programs of the user's may hold them all. Then we look ourselves, again and again.

use crate::search::Rules;
use crate::search::index::mark;
use crate::search::walk::{self, Listing};
use crate::tree::{Root, by_number};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A command that ends before this is looked at only when it has ended. Letting go of watches costs the kernel some ten milliseconds,
/// which a short command would feel.
const PATIENCE: Duration = Duration::from_millis(300);
/// Between two batches.
const PAUSE: Duration = Duration::from_millis(2);
const BATCH: usize = 64;
/// The kernel counts watches per user, and programs of the user's want some as well.
const MOST: usize = 32_768;
/// Events that are read before we look at anything else.
const MOST_EVENTS: usize = 512;

/// Without the kernel's watcher everything is looked at this often, and never for more than a small part of the time.
const ROUND: Duration = Duration::from_secs(1);
const REST: u32 = 20;

/// A directory: the number of its tree, and its path there.
pub(crate) type Place = (usize, PathBuf);

/// The directories that are watched.
pub(crate) struct Watch {
    /// `None` where the kernel has no watcher left for this user.
    inotify: Option<OwnedFd>,
    watched: HashMap<i32, Place>,
    waiting: VecDeque<Place>,
    /// Those of trees that the command cannot write to. They come last, and nothing that it has left waits there.
    later: VecDeque<Place>,
    /// The numbers of the trees that the command can write to.
    writable: Vec<usize>,
    /// All that have ever waited.
    known: HashSet<Place>,
    next: Option<Instant>,
    /// Whether all directories of the trees are known: they are asked for only when the command goes on for a while.
    filled: bool,
    /// How many directories could not be watched, and the first reason.
    pub(crate) unwatched: Option<(usize, Errno)>,
    /// The kernel had more to tell than it could keep.
    pub(crate) lost: bool,
}

/// What is to be looked at.
#[derive(Default)]
pub(crate) struct Appeared {
    pub(crate) names: Vec<Place>,
    /// What makes directories repositories.
    pub(crate) repositories: Vec<Place>,
    /// Directories that are watched from now on.
    pub(crate) watched: Vec<Place>,
    /// Some of what happened is not among these: everything has to be looked at.
    pub(crate) lost: bool,
}

impl Watch {
    /// Watches nothing yet.
    pub(crate) fn new() -> Self {
        Watch {
            inotify: inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok(),
            watched: HashMap::new(),
            waiting: VecDeque::new(),
            later: VecDeque::new(),
            writable: Vec::new(),
            known: HashSet::new(),
            next: None,
            filled: false,
            unwatched: None,
            lost: false,
        }
    }

    /// The command has started: directories are watched if it goes on for a while. It can write to these trees.
    pub(crate) fn begin(&mut self, writable: Vec<usize>) {
        self.writable = writable;
        self.next = Instant::now().checked_add(PATIENCE);
    }

    fn add_all(&mut self, directories: Vec<Place>) {
        for place in directories {
            if self.known.insert(place.clone()) {
                self.let_wait(place);
            }
        }
    }

    fn let_wait(&mut self, place: Place) {
        match self.writable.contains(&place.0) {
            true => self.waiting.push_back(place),
            false => self.later.push_back(place),
        }
    }

    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Whether nothing that the command can have left has to be looked at but what the descriptor tells.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.inotify.is_some() && self.waiting.is_empty()
    }

    /// When the next batch of watches is due.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.next.map(|next| next.saturating_duration_since(Instant::now()))
    }

    /// What has appeared since the last time, and what was in directories that are watched from now on. `directories` are all of them, in
    /// the order in which they are watched.
    pub(crate) fn work(
        &mut self,
        trees: &[(&Root, Rules<'_>)],
        directories: impl FnOnce() -> Vec<Place>,
    ) -> Appeared {
        let mut appeared = Appeared::default();
        let now = Instant::now();
        if self.inotify.is_none() {
            if self.next.is_some_and(|next| next <= now) {
                self.look_at_all(trees, directories, &mut appeared);
                self.next = now.checked_add(ROUND.max(now.elapsed().saturating_mul(REST)));
            }
            return appeared;
        }
        self.read_events(&mut appeared);
        if self.next.is_some_and(|next| next <= now) {
            if !std::mem::replace(&mut self.filled, true) {
                self.add_all(directories());
            }
            for _ in 0..BATCH {
                let next = self.waiting.pop_front().or_else(|| self.later.pop_front());
                let Some(place) = next else { break };
                match self.add(trees, &place, &mut appeared) {
                    Ok(()) => appeared.watched.push(place),
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => {}
                    Err(errno) => {
                        let (count, errno) = self.unwatched.unwrap_or((0, errno));
                        self.unwatched = Some((count + 1, errno));
                    }
                }
            }
        }
        self.next = match self.next {
            Some(next) if next > now => Some(next),
            _ if !(self.waiting.is_empty() && self.later.is_empty()) => now.checked_add(PAUSE),
            _ => None,
        };
        appeared
    }

    /// Lists every directory that is known, and those in them that were not.
    fn look_at_all(
        &mut self,
        trees: &[(&Root, Rules<'_>)],
        directories: impl FnOnce() -> Vec<Place>,
        appeared: &mut Appeared,
    ) {
        appeared.lost = true;
        if !std::mem::replace(&mut self.filled, true) {
            self.known.extend(directories());
        }
        let mut all: Vec<Place> = self.known.iter().cloned().collect();
        while let Some((tree, relative)) = all.pop() {
            let Some((root, rules)) = trees.get(tree) else { continue };
            let listed =
                root.listing(&relative).and_then(|directory| walk::list(&directory, &relative, rules));
            let Ok(listing) = listed else {
                self.known.remove(&(tree, relative));
                continue;
            };
            let counts = listing.notes.iter().filter(|note| note.marks & (mark::GUARDED | mark::SECRET) != 0);
            appeared.names.extend(counts.map(|note| (tree, relative.join(&note.name))));
            appeared.repositories.extend(repositories(&listing, tree, &relative));
            for name in &listing.directories {
                let below = (tree, relative.join(name));
                if self.known.insert(below.clone()) {
                    all.push(below);
                }
            }
        }
    }

    fn add(
        &mut self,
        trees: &[(&Root, Rules<'_>)],
        (tree, relative): &Place,
        appeared: &mut Appeared,
    ) -> Result<(), Errno> {
        let Some((root, rules)) = trees.get(*tree) else { return Ok(()) };
        if self.watched.len() >= MOST {
            return Err(Errno::NOSPC);
        }
        let directory = root.listing(relative)?;
        let events =
            WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR | WatchFlags::EXCL_UNLINK;
        let inotify = self.inotify.as_ref().ok_or(Errno::MFILE)?;
        let number = inotify::add_watch(inotify, by_number(&directory), events)?;
        self.watched.insert(number, (*tree, relative.clone()));
        // Listed after the watch is there, so that nothing appears unseen in between.
        let listing = walk::list(&directory, relative, rules)?;
        let counts = listing.notes.iter().filter(|note| note.marks & (mark::GUARDED | mark::SECRET) != 0);
        appeared.names.extend(counts.map(|note| (*tree, relative.join(&note.name))));
        appeared.repositories.extend(repositories(&listing, *tree, relative));
        // Those that were made before their parent was watched.
        for name in &listing.directories {
            let below = (*tree, relative.join(name));
            if self.known.insert(below.clone()) {
                self.let_wait(below);
            }
        }
        Ok(())
    }

    fn read_events(&mut self, appeared: &mut Appeared) {
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let Some(inotify) = &self.inotify else { return };
        let mut reader = inotify::Reader::new(inotify, &mut buffer);
        let mut events = 0;
        // What has been read from the kernel is looked at to the end.
        while events < MOST_EVENTS || !reader.is_buffer_empty() {
            events += 1;
            let Ok(event) = reader.next() else { break };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                (self.lost, appeared.lost) = (true, true);
            }
            if event.events().contains(ReadFlags::IGNORED) {
                self.watched.remove(&event.wd());
            }
            let (Some((tree, directory)), Some(name)) = (self.watched.get(&event.wd()), event.file_name())
            else {
                continue;
            };
            let path = directory.join(OsStr::from_bytes(name.to_bytes()));
            let place = (*tree, path);
            if event.events().contains(ReadFlags::ISDIR) && !place.1.ends_with(".git") {
                // Also one that is known: it may have been removed and made again.
                self.known.insert(place.clone());
                self.waiting.push_back(place.clone());
                self.next.get_or_insert_with(Instant::now);
            }
            // The directory may have become a repository, and is listed again.
            if walk::repository_mark(name.to_bytes()) != 0 {
                self.waiting.push_back((place.0, directory.clone()));
                self.next.get_or_insert_with(Instant::now);
            }
            if place.1.ends_with(".git") {
                appeared.repositories.push(place.clone());
            }
            appeared.names.push(place);
        }
    }
}

/// What makes a directory, or one in it, a repository.
fn repositories(listing: &Listing, tree: usize, relative: &Path) -> impl Iterator<Item = Place> {
    let marks = listing.notes.iter().filter(|note| note.marks & mark::REPOSITORY != 0);
    // By its components: the note of a bare repository has no name.
    marks.map(move |note| (tree, relative.join(&note.name).components().collect()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::search::Search;

    #[test]
    fn what_the_command_cannot_write_to_is_watched_last_and_nothing_of_it_waits_there() {
        let stage = tempfile::tempdir().unwrap();
        let [state, own, seen] = ["state", "own", "seen"].map(|name| stage.path().join(name));
        std::fs::create_dir_all(own.join("below")).unwrap();
        (0..3 * BATCH).for_each(|number| std::fs::create_dir_all(seen.join(number.to_string())).unwrap());
        let (search, nothing) = (Search::nothing(&state), HashSet::new());
        let roots = [&own, &seen].map(|path| Root::open(path).unwrap());
        let trees: Vec<(&Root, Rules<'_>)> =
            roots.iter().map(|root| (root, Rules::new(&root.path, &search, &nothing))).collect();
        let mut watch = Watch::new();
        watch.begin(vec![0]);
        watch.next = Some(Instant::now());
        let first = watch.work(&trees, || vec![(1, PathBuf::new()), (0, PathBuf::new())]);
        assert_eq!(first.watched.first(), Some(&(0, PathBuf::new())));
        assert!(first.watched.contains(&(0, "below".into())));
        assert!(watch.is_at_rest() && !watch.later.is_empty(), "the rest need not be waited for");

        // A directory that the command makes has to be looked at.
        watch.next = None;
        std::fs::create_dir(own.join("new")).unwrap();
        watch.work(&trees, Vec::new);
        assert!(!watch.is_at_rest());
        while watch.next.is_some() {
            std::thread::sleep(PAUSE);
            watch.work(&trees, Vec::new);
        }
        assert!(watch.is_at_rest());
        assert_eq!(watch.watched.len(), 3 + 1 + 3 * BATCH, "all are watched in the end");
    }
}
