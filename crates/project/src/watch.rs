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

/// What is told of a directory.
const EVENTS: WatchFlags =
    WatchFlags::CREATE.union(WatchFlags::MOVED_TO).union(WatchFlags::ONLYDIR).union(WatchFlags::EXCL_UNLINK);

/// Without the kernel's watcher everything is looked at this often, and never for more than a small part of the time.
const ROUND: Duration = Duration::from_secs(1);
const REST: u32 = 20;

/// A directory: the number of its tree, and its path there.
pub(crate) type Place = (usize, PathBuf);

/// How much of a tree is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it, and first: the command can write there.
    Written,
    /// All of it, last: nothing that the command has left waits there.
    Read,
    /// The directories in which something is hidden and those above them, last. The rest of a tree of tools changes by the user's or an
    /// administrator's hand only, and may be large.
    Hidden,
}

/// The directories that are watched.
pub(crate) struct Watch {
    /// `None` where the kernel has no watcher left for this user.
    inotify: Option<OwnedFd>,
    watched: HashMap<i32, Place>,
    waiting: VecDeque<Place>,
    /// Those of trees that the command cannot write to.
    later: VecDeque<Place>,
    /// How much of each tree is watched.
    extents: Vec<Extent>,
    /// Directories of the cage's own: a name that appears there is told at the end.
    own: HashSet<i32>,
    /// Whether one has.
    left_in_own: bool,
    /// All that have ever waited.
    known: HashSet<Place>,
    next: Option<Instant>,
    /// Whether all directories of the trees are known: they are asked for only when the command goes on for a while.
    filled: bool,
    /// How many directories could not be watched, and the first reason.
    pub(crate) unwatched: Option<(usize, Errno)>,
    /// Whether a directory was closed to us. The command may open it.
    met_closed: bool,
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
            extents: Vec::new(),
            own: HashSet::new(),
            left_in_own: false,
            known: HashSet::new(),
            next: None,
            filled: false,
            unwatched: None,
            met_closed: false,
            lost: false,
        }
    }

    /// The command has started: directories are watched if it goes on for a while. `extents` has one entry for each tree.
    pub(crate) fn begin(&mut self, extents: Vec<Extent>) {
        self.extents = extents;
        self.next = Instant::now().checked_add(PATIENCE);
    }

    /// Watches a directory of the cage's own from now on.
    pub(crate) fn add_own(&mut self, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        let inotify = self.inotify.as_ref().ok_or(Errno::MFILE)?;
        self.own.insert(inotify::add_watch(inotify, by_number(directory), EVENTS)?);
        Ok(())
    }

    fn extent(&self, tree: usize) -> Extent {
        self.extents.get(tree).copied().unwrap_or(Extent::Read)
    }

    fn add_all(&mut self, directories: Vec<Place>) {
        for place in directories {
            if self.known.insert(place.clone()) {
                self.let_wait(place);
            }
        }
    }

    fn let_wait(&mut self, place: Place) {
        match self.extent(place.0) {
            Extent::Written => self.waiting.push_back(place),
            Extent::Read | Extent::Hidden => self.later.push_back(place),
        }
    }

    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Whether nothing that the command can have left has to be looked at but what the descriptor tells.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.inotify.is_some() && self.waiting.is_empty() && !self.left_in_own
    }

    /// Whether the descriptor tells of every name that appears where the command can write.
    pub(crate) fn sees_all(&self) -> bool {
        self.is_at_rest() && self.filled && self.unwatched.is_none() && !self.met_closed && !self.lost
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
                    Err(Errno::ACCESS) => self.met_closed |= self.extent(place.0) == Extent::Written,
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
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
            let is_whole = self.extent(tree) != Extent::Hidden;
            let Ok(listing) = listed else {
                if is_whole {
                    self.known.remove(&(tree, relative));
                }
                continue;
            };
            let counts = listing.notes.iter().filter(|note| note.marks & (mark::GUARDED | mark::SECRET) != 0);
            appeared.names.extend(counts.map(|note| (tree, relative.join(&note.name))));
            appeared.repositories.extend(repositories(&listing, tree, &relative));
            for name in listing.directories.iter().filter(|_| is_whole) {
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
        let inotify = self.inotify.as_ref().ok_or(Errno::MFILE)?;
        let number = inotify::add_watch(inotify, by_number(&directory), EVENTS)?;
        self.watched.insert(number, (*tree, relative.clone()));
        // Listed after the watch is there, so that nothing appears unseen in between.
        let listing = walk::list(&directory, relative, rules)?;
        let counts = listing.notes.iter().filter(|note| note.marks & (mark::GUARDED | mark::SECRET) != 0);
        appeared.names.extend(counts.map(|note| (*tree, relative.join(&note.name))));
        appeared.repositories.extend(repositories(&listing, *tree, relative));
        if self.extent(*tree) == Extent::Hidden {
            return Ok(());
        }
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
            self.left_in_own |= self.own.contains(&event.wd());
            let (Some((tree, directory)), Some(name)) = (self.watched.get(&event.wd()), event.file_name())
            else {
                continue;
            };
            let path = directory.join(OsStr::from_bytes(name.to_bytes()));
            let place = (*tree, path);
            if event.events().contains(ReadFlags::ISDIR) && !place.1.ends_with(".git") {
                // Also one that is known: it may have been removed and made again.
                let is_below = |known: &&Place| known.0 == place.0 && known.1.starts_with(&place.1);
                match self.extent(place.0) {
                    Extent::Hidden => self.waiting.extend(self.known.iter().filter(is_below).cloned()),
                    Extent::Written | Extent::Read => {
                        self.known.insert(place.clone());
                        self.waiting.push_back(place.clone());
                    }
                }
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
        watch.begin(vec![Extent::Written, Extent::Read]);
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

    /// Works until nothing waits.
    fn settle(watch: &mut Watch, trees: &[(&Root, Rules<'_>)], places: &[Place]) {
        watch.next = Some(Instant::now());
        while watch.next.is_some() {
            watch.work(trees, || places.to_vec());
            std::thread::sleep(PAUSE);
        }
    }

    #[test]
    fn of_a_tree_of_tools_only_the_way_to_what_is_hidden_is_watched() {
        let stage = tempfile::tempdir().unwrap();
        let [state, tools] = ["state", "tools"].map(|name| stage.path().join(name));
        for name in ["with/secret", "with/plain", "plain/below"] {
            std::fs::create_dir_all(tools.join(name)).unwrap();
        }
        let (search, nothing) = (Search::nothing(&state), HashSet::new());
        let root = Root::open(&tools).unwrap();
        let trees = [(&root, Rules::new(&root.path, &search, &nothing))];
        let places = ["", "with", "with/secret"].map(|path| (0, PathBuf::from(path)));
        let mut watch = Watch::new();
        watch.begin(vec![Extent::Hidden]);
        settle(&mut watch, &trees, &places);
        assert_eq!(watch.watched.len(), places.len(), "{:?}", watch.watched);

        // One that is replaced is watched again, and none beside it.
        std::fs::rename(tools.join("with"), tools.join("plain/old")).unwrap();
        std::fs::create_dir_all(tools.join("with/secret")).unwrap();
        std::fs::create_dir(tools.join("new")).unwrap();
        settle(&mut watch, &trees, &places);
        std::fs::create_dir(tools.join("with/made")).unwrap();
        let appeared = watch.work(&trees, Vec::new);
        assert_eq!(appeared.names, [(0, "with/made".into())]);
        assert!(watch.is_at_rest());

        // The same where the kernel has no watcher left.
        let mut without = Watch::new();
        without.inotify = None;
        without.begin(vec![Extent::Hidden]);
        without.next = Some(Instant::now());
        without.work(&trees, || places.to_vec());
        assert_eq!(without.known, HashSet::from(places));
    }

    #[test]
    fn all_is_seen_once_every_directory_that_the_command_can_write_to_is_watched() {
        let stage = tempfile::tempdir().unwrap();
        let [state, own, cage] = ["state", "own", "cage"].map(|name| stage.path().join(name));
        for directory in [&own.join("below"), &cage] {
            std::fs::create_dir_all(directory).unwrap();
        }
        let (search, nothing) = (Search::nothing(&state), HashSet::new());
        let root = Root::open(&own).unwrap();
        let trees = [(&root, Rules::new(&root.path, &search, &nothing))];
        let mut watch = Watch::new();
        watch.begin(vec![Extent::Written]);
        assert!(watch.is_at_rest() && !watch.sees_all(), "nothing is watched yet");
        settle(&mut watch, &trees, &[(0, PathBuf::new())]);
        assert!(watch.sees_all());

        watch.next = None;
        std::fs::create_dir(own.join("new")).unwrap();
        watch.work(&trees, Vec::new);
        assert!(!watch.sees_all(), "a new directory is not watched yet");
        settle(&mut watch, &trees, &[]);
        assert!(watch.sees_all());

        // What is left in a directory of the cage's own has to be told.
        let folder = rustix::fs::open(&cage, rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
        watch.add_own(folder.as_fd()).unwrap();
        assert!(watch.sees_all());
        std::fs::write(cage.join("result"), "").unwrap();
        assert!(watch.work(&trees, Vec::new).names.is_empty());
        assert!(!watch.is_at_rest() && !watch.sees_all());
    }
}
