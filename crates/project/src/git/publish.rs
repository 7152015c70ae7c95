//! Takes over what a command changed in a repository, while it runs and when it has ended, and gives it what the host changed meanwhile.
//!
//! Runs in the launcher with the user's own rights. What comes from the cage is read once, judged in memory by `policy::git`, and written
//! under git's own locks; a file that both sides changed stays as the host has it, and is named.

use super::import;
use super::place::{self, Stamp, Thing};
use keyward_policy::facts::GitFolder;
use keyward_policy::git::names::worktree_fate;
use keyward_policy::git::{Check, Fate, config, fate, index, join};
use keyward_policy::outcome::{NewRemote, Repository as Told};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, inotify};
use rustix::io::Errno;
use rustix::time::ClockId;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Changes are taken over at once, but not more often than this.
const PAUSE: Duration = Duration::from_millis(100);
/// A command that is done by then is not watched: the kernel takes milliseconds to end a watch.
const WATCHED_AFTER: Duration = Duration::from_millis(200);
/// How often, and how long, we wait at the end for somebody who holds a lock.
const TRIES: usize = 40;
const WAIT: Duration = Duration::from_millis(50);
/// What the host changes while the cage runs is shown to it for these names: an overlay does not notice.
const GIVEN: &[&str] = &["HEAD", "packed-refs", "index", "config"];
/// An index up to this size is kept for the comparison of both sides.
const MOST_INDEX: usize = 8 << 20;
/// No log of anybody's is larger.
const MOST_LOG: usize = 64 << 20;
/// Folders in folders, such as names of branches with slashes.
const MOST_DEPTH: usize = 24;

/// The repositories of one run.
pub struct Publisher {
    repositories: Vec<Repository>,
    /// How many of them init has told us about.
    received: usize,
    inbox: Option<OwnedFd>,
    due: Option<Instant>,
    worked: Option<Instant>,
}

impl Publisher {
    /// For the repositories of a view, in its order; `project` is the root that names are told relative to.
    pub fn new(folders: Vec<GitFolder>, project: &Path) -> Self {
        let at = |clock| {
            let now = rustix::time::clock_gettime(clock);
            i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
        };
        // A stamp may be of either clock: what is surely later than the start, and what is perhaps.
        let began = [at(ClockId::RealtimeCoarse), at(ClockId::Realtime)];
        let repositories =
            folders.into_iter().map(|folder| Repository::new(folder, project, began)).collect();
        Publisher { repositories, received: 0, inbox: None, due: None, worked: None }
    }

    /// Init has built the next overlay.
    pub fn receive(&mut self, descriptors: Vec<OwnedFd>) {
        let mut descriptors = descriptors.into_iter();
        if let (Some(repository), Some(upper), Some(merged)) =
            (self.repositories.get_mut(self.received), descriptors.next(), descriptors.next())
        {
            repository.open(upper, merged);
        }
        self.received += 1;
    }

    /// The command runs: from here on the host's side may change.
    pub fn start(&mut self) {
        let opened = self.repositories.iter_mut().filter_map(Repository::remember).count();
        if opened > 0 {
            self.due = Some(Instant::now() + WATCHED_AFTER);
        }
    }

    /// From here on we are told of changes.
    fn watch(&mut self) {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let Ok(inbox) = inotify::init(flags) else { return };
        for sides in self.repositories.iter().filter_map(|repository| repository.sides.as_ref()) {
            let changes = inotify::WatchFlags::MOVED_TO
                | inotify::WatchFlags::CREATE
                | inotify::WatchFlags::DELETE
                | inotify::WatchFlags::CLOSE_WRITE;
            for folder in [&sides.upper, &sides.host] {
                // If this fails, the end of the run is when changes are taken over.
                let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
                let _ = inotify::add_watch(&inbox, path, changes);
            }
        }
        self.inbox = Some(inbox);
    }

    pub fn inbox(&self) -> Option<BorrowedFd<'_>> {
        self.inbox.as_ref().map(AsFd::as_fd)
    }

    /// How long the next work can wait.
    pub fn due_in(&self) -> Option<Duration> {
        self.due.map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// Something has changed, or the pause is over.
    pub fn work(&mut self, told: bool) {
        if told && let Some(inbox) = &self.inbox {
            let mut space = [MaybeUninit::uninit(); 4096];
            let mut events = inotify::Reader::new(inbox, &mut space);
            // What counts is put in its place under the name of a lock first.
            let mut counts = false;
            while let Ok(event) = events.next() {
                counts |= event.file_name().is_none_or(|name| !name.to_bytes().ends_with(b".lock"));
            }
            if counts {
                let now = Instant::now();
                let next = self.worked.map_or(now, |worked| now.max(worked + PAUSE));
                self.due.get_or_insert(next);
            }
        }
        if self.due.is_some_and(|due| due <= Instant::now()) {
            self.due = None;
            if self.inbox.is_none() {
                self.watch();
            }
            self.worked = Some(Instant::now());
            for repository in &mut self.repositories {
                if repository.exchange(false) {
                    self.due = Some(Instant::now() + PAUSE);
                }
            }
        }
    }

    /// Brings both sides together now, as far as that can be done while commands run.
    pub fn sync(&mut self) {
        for repository in &mut self.repositories {
            repository.exchange(false);
        }
        self.worked = Some(Instant::now());
    }

    pub fn has_repositories(&self) -> bool {
        !self.repositories.is_empty()
    }

    /// The `.git` of every folder that an index of the command's or the host's names as a repository.
    pub fn gitlinks(&self) -> Vec<PathBuf> {
        let mut all = Vec::new();
        for repository in &self.repositories {
            let (Some(sides), Some(tree)) = (&repository.sides, repository.folder.path.parent()) else {
                continue;
            };
            let changed = place::thing(&sides.upper, Path::new("index")).is_some();
            let modules = place::thing(&sides.host, Path::new("modules")).is_some();
            if !repository.folder.path.ends_with(".git") || !(changed || modules) {
                continue;
            }
            let id_length = super::inspect::id_length(&sides.host);
            for side in [&sides.upper, &sides.host] {
                let Ok((content, _)) = place::read(side, Path::new("index"), Check::Index.most()) else {
                    continue;
                };
                let links = index::gitlinks(&content, id_length);
                all.extend(links.iter().map(|link| tree.join(OsStr::from_bytes(link)).join(".git")));
            }
        }
        all.sort();
        all.dedup();
        all
    }

    /// The cage is gone: what is left to take over, and what is to be told.
    pub fn finish(mut self) -> Vec<Told> {
        for repository in &mut self.repositories {
            repository.ended = true;
            let mut tries = 0;
            while repository.exchange(tries == TRIES) && tries < TRIES {
                tries += 1;
                std::thread::sleep(WAIT);
            }
        }
        self.repositories.into_iter().map(|repository| repository.told).filter(Told::says_something).collect()
    }
}

/// An overlay keeps what it has once found of the host. A lock that was seen while a git outside held it would stand in the command's way
/// for ever, though it is on neither side.
fn forget_lock_of_host(sides: &Sides, lock: &Path) {
    let is_nowhere = place::thing(&sides.host, lock).is_none() && place::thing(&sides.upper, lock).is_none();
    if is_nowhere && place::thing(&sides.merged, lock).is_some() {
        let _ = keyward_sys::owner::as_owner_of(&sides.upper, || place::remove(&sides.merged, lock));
    }
}

/// Both sides of one repository.
pub(super) struct Sides {
    pub(super) host: OwnedFd,
    /// What the command wrote, and nothing else.
    pub(super) upper: OwnedFd,
    /// The folder as the command sees it.
    pub(super) merged: OwnedFd,
}

/// One repository.
pub(super) struct Repository {
    folder: GitFolder,
    pub(super) project: PathBuf,
    sides: Option<Sides>,
    /// When the run began, by the two clocks that files are stamped with.
    began: [i128; 2],
    /// What the host's files were when we last looked or wrote.
    host: HashMap<PathBuf, Option<Stamp>>,
    /// What of the cage we have dealt with.
    cage: HashMap<PathBuf, Stamp>,
    /// What does not pass, and is looked at again only at the end.
    refused: HashMap<PathBuf, Stamp>,
    /// Settings as the command found them, for each repository below.
    settings: HashMap<PathBuf, Vec<u8>>,
    /// The same as the command had them when they were last taken over.
    merged_settings: HashMap<PathBuf, Vec<u8>>,
    /// The index as the command found it, unless it is very large.
    index: Vec<u8>,
    /// The length of an object's name.
    pub(super) id_length: usize,
    told: Told,
    seen: HashSet<(u8, String)>,
    /// Somebody held a lock; there is more to do.
    busy: bool,
    /// The cage is gone.
    ended: bool,
    /// Nobody is waited for any more.
    last: bool,
}

/// Which list of names counts in a part of a repository.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Whole,
    Worktree,
}

impl Repository {
    fn new(folder: GitFolder, project: &Path, began: [i128; 2]) -> Self {
        let shown = folder.path.strip_prefix(project).unwrap_or(&folder.path);
        Repository {
            told: Told::new(shown),
            folder,
            project: project.into(),
            sides: None,
            began,
            host: HashMap::new(),
            cage: HashMap::new(),
            refused: HashMap::new(),
            settings: HashMap::new(),
            merged_settings: HashMap::new(),
            index: Vec::new(),
            id_length: 20,
            seen: HashSet::new(),
            busy: false,
            ended: false,
            last: false,
        }
    }

    fn open(&mut self, upper: OwnedFd, merged: OwnedFd) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let host = rustix::fs::open(&self.folder.path, flags, Mode::empty()).ok().filter(|host| {
            rustix::fs::fstat(host)
                .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (self.folder.device, self.folder.inode))
        });
        match host {
            Some(host) => self.sides = Some(Sides { host, upper, merged }),
            None => self.trouble(Path::new(""), "it is not where it was"),
        }
    }

    /// What the host's side looks like now, so that a later change is noticed.
    fn remember(&mut self) -> Option<&Sides> {
        let sides = self.sides.as_ref()?;
        for name in GIVEN {
            let name = Path::new(name);
            self.host.insert(name.into(), file_stamp(place::thing(&sides.host, name)));
        }
        let text = place::read(&sides.host, Path::new("config"), Check::Text.most()).map(|(text, _)| text);
        let text = text.unwrap_or_default();
        self.settings.insert(PathBuf::new(), text);
        let index = place::read(&sides.host, Path::new("index"), MOST_INDEX).map(|(index, _)| index);
        self.index = index.unwrap_or_default();
        self.sides.as_ref()
    }

    /// One look at both sides. Whether there is more to do.
    fn exchange(&mut self, last: bool) -> bool {
        let Some(sides) = self.sides.take() else { return false };
        (self.busy, self.last) = (false, last);
        if self.ended && self.cage.is_empty() && place::names(&sides.upper).is_empty() {
            // The command has changed nothing of its own side.
            self.unlink_links(&sides);
            return false;
        }
        if !self.ended {
            self.give(&sides);
        }
        self.id_length = super::inspect::id_length(&sides.host);
        self.take_back(&sides);
        if self.ended {
            self.unlink_links(&sides);
        }
        self.part(&sides, Path::new(""), Path::new(""), Shape::Whole, 0);
        self.sides = Some(sides);
        self.busy
    }

    /// Gives the command what the host has changed, where it has not changed the same itself.
    fn give(&mut self, sides: &Sides) {
        for name in GIVEN {
            let (name, lock) = (Path::new(name), PathBuf::from(format!("{name}.lock")));
            // Somebody outside is about to change it: whoever looks for the lock in the overlay now sees it there for good.
            if place::thing(&sides.host, &lock).is_some() {
                self.busy = true;
                continue;
            }
            forget_lock_of_host(sides, &lock);
            let found = place::thing(&sides.host, name);
            let now = file_stamp(found);
            let own = match place::thing(&sides.upper, name) {
                None => None,
                Some(Thing::File(stamp)) if self.cage.get(name) == Some(&stamp) => None,
                Some(thing) => Some(thing),
            };
            if !self.host_changed(name, found) || now.is_none() || own.is_some() {
                continue;
            }
            let Ok((content, stamp)) = place::read(&sides.host, name, Check::Data.most()) else { continue };
            match keyward_sys::owner::as_owner_of(&sides.upper, || {
                place::replace(&sides.merged, name, &content, |_| true)
            }) {
                Ok(_) => {
                    self.host.insert(name.into(), Some(stamp));
                    if let Some(Thing::File(stamp)) = place::thing(&sides.upper, name) {
                        self.cage.insert(name.into(), stamp);
                    }
                    if name == Path::new("config") {
                        self.settings.insert(PathBuf::new(), content);
                    }
                }
                Err(Errno::EXIST) => self.busy = true,
                // The command then sees what was there when it started.
                Err(_) => {}
            }
        }
    }

    /// What was taken over from a folder that the command made, and is gone again: the layer does not tell that it was there.
    fn take_back(&mut self, sides: &Sides) {
        let gone = |path: &&PathBuf| {
            place::thing(&sides.upper, path).is_none() && place::thing(&sides.merged, path).is_none()
        };
        let gone: Vec<PathBuf> = self.cage.keys().filter(gone).cloned().collect();
        for path in gone {
            self.cage.remove(&path);
            self.removal(sides, &path);
        }
    }

    /// Links that the command put into folders which are the host's: git would write, and delete, where they lead.
    fn unlink_links(&mut self, sides: &Sides) {
        for shared in self.folder.shared.clone() {
            // Of objects the folders themselves count; what is in them never changes.
            let depth = if shared.ends_with("objects") { 0 } else { MOST_DEPTH };
            self.unlink_links_in(sides, &shared, depth);
        }
    }

    fn unlink_links_in(&mut self, sides: &Sides, path: &Path, depth: usize) {
        let Ok(folder) = place::folder(&sides.host, path) else { return };
        let touched =
            |name: &OsStr| place::changed(&folder, name).is_some_and(|changed| changed >= self.began[0]);
        if depth == 0 && !touched(OsStr::new(".")) {
            return;
        }
        let (links, folders) = place::links_and_folders(&folder);
        let new: Vec<PathBuf> =
            links.iter().filter(|name| touched(name)).map(|name| path.join(name)).collect();
        for link in new {
            let _ = place::remove(&sides.host, &link);
            self.keep_back(&link, "a link, or something else that is no file");
        }
        for name in folders.iter().filter(|_| depth > 0) {
            self.unlink_links_in(sides, &path.join(name), depth - 1);
        }
    }

    /// Looks through a folder of the private layer. `own` is the part's own root: the repository, a submodule's, a working tree's.
    fn part(&mut self, sides: &Sides, path: &Path, own: &Path, shape: Shape, depth: usize) {
        let Ok(folder) = place::folder(&sides.upper, path) else { return };
        if depth > MOST_DEPTH {
            self.keep_back(path, "too deep");
            return;
        }
        for name in place::names(&folder) {
            let Some(thing) = place::thing_in(&folder, &name) else { continue };
            let path = path.join(&name);
            let inside = path.strip_prefix(own).unwrap_or(&path);
            let fate = match shape {
                Shape::Whole => fate(inside),
                Shape::Worktree => worktree_fate(inside),
            };
            match (fate, thing) {
                (Fate::Ignored, _) => {}
                (Fate::Passing(check), Thing::File(stamp)) => {
                    let now = place::thing(&sides.host, &path);
                    self.host.insert(path.clone(), file_stamp(now));
                    self.file(sides, &path, check, stamp);
                }
                (Fate::Existing(check), Thing::File(stamp)) if place::thing(&sides.host, &path).is_some() => {
                    self.file(sides, &path, check, stamp);
                }
                (Fate::Published(check), Thing::File(stamp)) => self.file(sides, &path, check, stamp),
                (Fate::Lasting(check), Thing::File(stamp)) => self.file(sides, &path, check, stamp),
                (Fate::Published(_) | Fate::Passing(_), Thing::Removed) => self.removal(sides, &path),
                (Fate::Settings, Thing::File(stamp)) => self.settings(sides, &path, own, stamp),
                (Fate::Ref, Thing::File(stamp)) => self.file(sides, &path, Check::Head, stamp),
                (Fate::Fixed, Thing::File(stamp)) => self.fixed(sides, &path, stamp),
                (Fate::Log, Thing::File(stamp)) => self.log(sides, &path, stamp),
                (Fate::Log | Fate::Ref, Thing::Removed) => self.removal(sides, &path),
                (Fate::Folder | Fate::Log | Fate::Ref, Thing::Folder) => {
                    if fate != Fate::Folder {
                        self.make_way(sides, &path);
                    }
                    self.part(sides, &path, own, shape, depth + 1);
                }
                // Without the folder there is nothing to say of what was in it; the host keeps it.
                (Fate::Folder, Thing::Removed) => {}
                (Fate::Whole, Thing::Folder | Thing::Removed) => self.whole(sides, &path),
                // While the command runs, they may still be in the making.
                (Fate::Repositories, Thing::Folder) if self.ended => self.modules(sides, &path, depth + 1),
                (Fate::Repositories, Thing::Folder) => {}
                (Fate::Worktrees, Thing::Folder) => self.worktrees(sides, &path, own, depth + 1),
                (Fate::Worktrees, Thing::Removed) => {
                    // With the last of them git removes the folder.
                    let Ok(folder) = place::folder(&sides.host, &path) else { continue };
                    for name in place::names(&folder) {
                        self.remove_worktree(sides, &path.join(name), own);
                    }
                    let _ = place::remove_folder(&sides.host, &path);
                }
                (Fate::Repositories, Thing::Removed) => {}
                (_, Thing::Removed) => self.keep_back(&path, "removed"),
                _ => self.keep_back(&path, ""),
            }
        }
    }

    /// Where the command has a folder of logs or refs: a file that the host has in its place, and files that lie in a folder which the
    /// command has made anew, are gone for the command.
    fn make_way(&mut self, sides: &Sides, path: &Path) {
        match place::thing(&sides.host, path) {
            Some(Thing::File(_)) => self.removal(sides, path),
            Some(Thing::Folder) => {
                let Ok(folder) = place::folder(&sides.upper, path) else { return };
                if place::is_opaque(&folder) {
                    let here = place::files_below(sides.host.as_fd(), path, 0).unwrap_or_default();
                    for name in here.iter().filter(|name| place::thing(&folder, name).is_none()) {
                        self.removal(sides, &path.join(name));
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether we know this state of the cage's file already.
    fn is_known(&self, path: &Path, stamp: Stamp) -> bool {
        self.cage.get(path) == Some(&stamp) || (!self.ended && self.refused.get(path) == Some(&stamp))
    }

    /// Whether the host's file is no longer what the command started from.
    fn host_changed(&self, path: &Path, now: Option<Thing>) -> bool {
        match (self.host.get(path), now) {
            (Some(before), now) => *before != file_stamp(now),
            (None, Some(Thing::File(stamp))) => stamp.changed > self.began[1],
            (None, _) => false,
        }
    }

    fn file(&mut self, sides: &Sides, path: &Path, check: Check, stamp: Stamp) {
        if self.is_known(path, stamp) {
            return;
        }
        match place::read(&sides.upper, path, check.most()) {
            // Git goes into what an index names as a repository: that is looked at before the host has it.
            Ok((content, _)) if !self.ended && check == Check::Index && self.has_new_gitlinks(&content) => {}
            Ok((content, stamp)) if check == Check::Index && self.hides_more(sides, path, &content) => {
                self.refused.insert(path.into(), stamp);
                self.keep_back(path, "it would hide changes from git status");
            }
            Ok((content, stamp)) => match check.judge(&content, self.id_length) {
                Ok(()) => self.put(sides, path, &content, Some(stamp)),
                Err(why) => {
                    self.refused.insert(path.into(), stamp);
                    self.keep_back(path, why);
                }
            },
            Err(Errno::FBIG) => self.keep_back(path, "it is too large"),
            // It changes right now: the next look finds it.
            Err(_) => self.busy = true,
        }
    }

    /// A pointer of a working tree's, which stays as it is.
    fn fixed(&mut self, sides: &Sides, path: &Path, stamp: Stamp) {
        let most = Check::Text.most();
        let same = |a: Result<(Vec<u8>, Stamp), Errno>, b: Result<(Vec<u8>, Stamp), Errno>| {
            a.is_ok_and(|(a, _)| b.is_ok_and(|(b, _)| a == b))
        };
        if !self.is_known(path, stamp)
            && !same(place::read(&sides.host, path, most), place::read(&sides.upper, path, most))
        {
            self.keep_back(path, "");
        }
        self.cage.insert(path.into(), stamp);
    }

    /// Whether git would be told not to look at more files than on the host.
    fn hides_more(&self, sides: &Sides, path: &Path, content: &[u8]) -> bool {
        let hidden = index::hidden(content, self.id_length);
        if hidden.is_empty() {
            return false;
        }
        let host =
            place::read(&sides.host, path, Check::Index.most()).map(|(host, _)| host).unwrap_or_default();
        let before: HashSet<Vec<u8>> = index::hidden(&host, self.id_length).into_iter().collect();
        hidden.iter().any(|name| !before.contains(name))
    }

    fn has_new_gitlinks(&self, content: &[u8]) -> bool {
        let before = index::gitlinks(&self.index, self.id_length);
        index::gitlinks(content, self.id_length).iter().any(|link| !before.contains(link))
    }

    /// Writes to the host. `from` is the state of the cage's file that is done with this.
    fn put(&mut self, sides: &Sides, path: &Path, content: &[u8], from: Option<Stamp>) {
        let mut conflict = false;
        let done = place::replace(&sides.host, path, content, |now| {
            conflict = self.host_changed(path, now);
            !conflict
        });
        match done {
            Ok(stamp) => {
                self.host.insert(path.into(), Some(stamp));
                self.publish(path);
            }
            Err(Errno::EXIST) if !self.last => {
                self.busy = true;
                return;
            }
            Err(Errno::EXIST) => self.conflict(path, content, "it is locked by another git"),
            Err(_) if conflict => {
                let same = place::read(&sides.host, path, content.len()).is_ok_and(|(now, _)| now == content);
                if same {
                    self.host.remove(path);
                } else if path == Path::new("index") && self.settle_index(sides, content) {
                    // One side had only looked at the files again.
                } else if path == Path::new("packed-refs") {
                    self.join_packed_refs(sides, path, content);
                } else {
                    self.conflict(path, content, "both sides changed it");
                }
            }
            Err(errno) => self.trouble(path, &errno.to_string()),
        }
        if let Some(from) = from {
            self.cage.insert(path.into(), from);
        }
    }

    /// Where one of two changed indexes stages the same as at the start, the other one counts. Whether it was so.
    fn settle_index(&mut self, sides: &Sides, cage: &[u8]) -> bool {
        let path = Path::new("index");
        let Ok((host, stamp)) = place::read(&sides.host, path, Check::Index.most()) else { return false };
        if index::same(cage, &self.index, self.id_length) {
            // The next look gives the command the host's.
            self.busy = !self.ended;
            return true;
        }
        if index::same(&host, &self.index, self.id_length) {
            self.host.insert(path.into(), Some(stamp));
            self.put(sides, path, cage, None);
            return true;
        }
        false
    }

    /// Both sides packed refs: none of them is lost. What only the command had is added to what the host has.
    fn join_packed_refs(&mut self, sides: &Sides, path: &Path, cage: &[u8]) {
        let Ok((host, stamp)) = place::read(&sides.host, path, Check::PackedRefs.most()) else {
            self.conflict(path, cage, "both sides changed it");
            return;
        };
        self.host.insert(path.into(), Some(stamp));
        let joined = join::packed_refs(&host, cage, &|name| {
            place::thing(&sides.host, Path::new(OsStr::from_bytes(name))).is_some()
        });
        if joined != host {
            self.put(sides, path, &joined, None);
        }
    }

    fn removal(&mut self, sides: &Sides, path: &Path) {
        let now = place::thing(&sides.host, path);
        if now.is_none() {
            return;
        }
        if self.host_changed(path, now) {
            self.conflict(path, b"", "the command removed it and you changed it");
        } else if let Err(errno) = place::remove(&sides.host, path) {
            self.trouble(path, &errno.to_string());
        } else {
            self.host.insert(path.into(), None);
            self.publish(path);
        }
    }

    /// Only what is safe, and added to what the host has now.
    fn settings(&mut self, sides: &Sides, path: &Path, own: &Path, stamp: Stamp) {
        if self.is_known(path, stamp) {
            return;
        }
        let most = Check::Text.most();
        let Ok((cage, stamp)) = place::read(&sides.upper, path, most) else {
            self.busy = true;
            return;
        };
        let host = place::read(&sides.host, path, most).map(|(host, _)| host).unwrap_or_default();
        let base = self.settings.entry(own.into()).or_insert_with(|| host.clone()).clone();
        let seen = self.merged_settings.get(own).unwrap_or(&base);
        let gone = |branch: &[u8]| self.ended && is_gone(sides, own, branch);
        let versions = config::Versions { host: &host, base: &base, seen, cage: &cage, gone: &gone };
        let all_taken;
        match config::merge(&versions) {
            Ok(merged) => {
                all_taken = merged.kept_back.is_empty();
                for name in &merged.kept_back {
                    self.keep_back(path, name);
                }
                if let Some(text) = merged.text {
                    // What was read is what is replaced, whoever changed it before.
                    let read = place::thing(&sides.host, path);
                    self.host.insert(path.into(), file_stamp(read));
                    self.put(sides, path, &text, None);
                    if self.busy {
                        return;
                    }
                }
                self.tell_remotes(path, merged.new_remotes);
                self.merged_settings.insert(own.into(), cage);
            }
            Err(config::Unreadable) => return self.keep_back(path, "git could not read it"),
        }
        if all_taken {
            self.cage.insert(path.into(), stamp);
        }
    }

    /// What counts is how things stand at the end.
    fn tell_remotes(&mut self, path: &Path, remotes: Vec<(String, String)>) {
        let path = keyward_policy::text::visible(path.as_os_str());
        self.told.new_remotes.retain(|remote| remote.path != path);
        let new = remotes.into_iter().map(|(name, url)| NewRemote { path: path.clone(), name, url });
        self.told.new_remotes.extend(new);
    }

    /// A log grows at its end: what the command added comes behind what the host has added.
    fn log(&mut self, sides: &Sides, path: &Path, stamp: Stamp) {
        if self.is_known(path, stamp) {
            return;
        }
        let most = MOST_LOG;
        let (cage, stamp) = match place::read(&sides.upper, path, most) {
            Ok(read) => read,
            Err(Errno::FBIG) => {
                self.refused.insert(path.into(), stamp);
                return self.keep_back(path, "it is too large");
            }
            Err(_) => {
                self.busy = true;
                return;
            }
        };
        if Check::Text.judge(&cage, self.id_length).is_err() {
            return self.keep_back(path, "it is no log");
        }
        if place::thing(&sides.host, path) == Some(Thing::Folder) {
            // Logs of branches below this name, which the command no longer has.
            for name in place::files_below(sides.host.as_fd(), path, MOST_DEPTH).unwrap_or_default() {
                self.removal(sides, &path.join(name));
            }
            let _ = place::remove_folder(&sides.host, path);
        }
        let host = match place::thing(&sides.host, path) {
            Some(Thing::Other | Thing::Folder | Thing::Removed) => {
                self.conflict(path, b"", "on the host it is no file");
                self.cage.insert(path.into(), stamp);
                return;
            }
            now => {
                let changed = self.host_changed(path, now);
                self.host.insert(path.into(), file_stamp(now));
                let host = place::read(&sides.host, path, most).map(|(host, _)| host).unwrap_or_default();
                if changed { join::logs(&host, &cage) } else { cage }
            }
        };
        self.put(sides, path, &host, Some(stamp));
    }

    /// A folder that says how far a rebase has come: all of it, or nothing.
    fn whole(&mut self, sides: &Sides, path: &Path) {
        let here = place::files_below(sides.host.as_fd(), path, 1).unwrap_or_default();
        let there = match place::files_below(sides.merged.as_fd(), path, 1) {
            Ok(there) => there,
            Err(Errno::NOENT) => Vec::new(),
            Err(_) => return self.keep_back(path, "it holds what is no file"),
        };
        let mut contents = Vec::with_capacity(there.len());
        for name in &there {
            let file = path.join(name);
            let Fate::Published(check) = fate(&file) else {
                return self.keep_back(&file, "");
            };
            let Ok((content, stamp)) = place::read(&sides.merged, &file, check.most()) else {
                self.busy = true;
                return;
            };
            if let Err(why) = check.judge(&content, self.id_length) {
                return self.keep_back(&file, why);
            }
            contents.push((file, content, stamp));
        }
        for (file, content, stamp) in contents {
            if !self.is_known(&file, stamp) {
                self.put(sides, &file, &content, Some(stamp));
            }
        }
        for name in here.iter().filter(|name| !there.contains(name)) {
            self.removal(sides, &path.join(name));
        }
        if there.is_empty() && !here.is_empty() {
            let _ = place::remove_folder(&sides.host, path);
        }
    }

    /// Submodules: those that the host has, name by name; new ones are made of what is safe.
    fn modules(&mut self, sides: &Sides, path: &Path, depth: usize) {
        let Ok(folder) = place::folder(&sides.upper, path) else { return };
        if depth > MOST_DEPTH {
            return self.keep_back(path, "too deep");
        }
        for name in place::names(&folder) {
            let module = path.join(&name);
            if place::thing_in(&folder, &name) != Some(Thing::Folder) {
                self.keep_back(&module, "");
                continue;
            }
            let head = module.join("HEAD");
            if self.folder.shared.contains(&module.join("objects")) {
                self.part(sides, &module, &module, Shape::Whole, depth + 1);
            } else if place::thing(&sides.merged, &head).is_some() {
                self.import(sides, &module);
            } else {
                self.modules(sides, &module, depth + 1);
            }
        }
    }

    fn worktrees(&mut self, sides: &Sides, path: &Path, own: &Path, depth: usize) {
        let Ok(folder) = place::folder(&sides.upper, path) else { return };
        for name in place::names(&folder) {
            let tree = path.join(&name);
            let on_host = place::thing(&sides.host, &tree) == Some(Thing::Folder);
            match place::thing_in(&folder, &name) {
                Some(Thing::Folder) if on_host => {
                    self.part(sides, &tree, &tree, Shape::Worktree, depth + 1);
                }
                Some(Thing::Folder) if self.ended => self.import_worktree(sides, &tree, own),
                Some(Thing::Folder) => {}
                Some(Thing::Removed) if on_host => self.remove_worktree(sides, &tree, own),
                Some(Thing::Removed) => {}
                _ => self.keep_back(&tree, ""),
            }
        }
    }

    /// A submodule that the command cloned. Its `HEAD` comes last: before that it is no repository.
    fn import(&mut self, sides: &Sides, module: &Path) {
        let own = self.folder.path.join(module);
        match import::module(sides, module, &own, &self.project, self.id_length) {
            Ok(kept_back) => {
                kept_back.iter().for_each(|(path, why)| self.keep_back(path, why));
                self.publish(module);
            }
            Err(errno) => self.trouble(module, &errno.to_string()),
        }
    }

    fn import_worktree(&mut self, sides: &Sides, tree: &Path, own: &Path) {
        match import::worktree(sides, tree, &self.folder.path.join(own), &self.project, self.id_length) {
            Ok(kept_back) => {
                kept_back.iter().for_each(|(path, why)| self.keep_back(path, why));
                self.publish(tree);
            }
            Err(Errno::INVAL) => self.keep_back(tree, "it is not a working tree in the project"),
            Err(errno) => self.trouble(tree, &errno.to_string()),
        }
    }

    fn remove_worktree(&mut self, sides: &Sides, tree: &Path, own: &Path) {
        let folder = self.folder.path.join(own);
        match import::remove_worktree(&sides.host, tree, &folder, &self.project) {
            Ok(()) => self.publish(tree),
            // In the cage it looked as if it were gone: it stands where the cage does not reach.
            Err(Errno::INVAL) => self.keep_back(tree, "its working tree is not in the project"),
            Err(errno) => self.trouble(tree, &errno.to_string()),
        }
    }

    fn publish(&mut self, path: &Path) {
        self.say(0, path, "");
    }

    /// What counts is how things stand at the end.
    fn keep_back(&mut self, path: &Path, why: &str) {
        if self.ended {
            self.say(1, path, why);
        }
    }

    fn conflict(&mut self, path: &Path, content: &[u8], why: &str) {
        if self.say(2, path, why) {
            self.told.conflict_contents.push(content.to_vec());
        }
    }

    fn trouble(&mut self, path: &Path, why: &str) {
        self.say(3, path, why);
    }

    /// Each thing is told once.
    fn say(&mut self, kind: u8, path: &Path, why: &str) -> bool {
        let told = keyward_policy::outcome::RepositoryNews::new(path, why);
        let new = self.seen.insert((kind, format!("{} {}", told.path, told.why)));
        if new {
            match kind {
                0 => self.told.taken_over.push(told.path),
                1 => self.told.kept_back.push(told),
                2 => self.told.conflicts.push(told),
                _ => self.told.troubles.push(told),
            }
        }
        new
    }
}

/// Whether a repository has no branch of this name, by its files. Where refs are kept in tables this is not known.
fn is_gone(sides: &Sides, own: &Path, branch: &[u8]) -> bool {
    let name = Path::new("refs/heads").join(OsStr::from_bytes(branch));
    let packed = place::read(&sides.merged, &own.join("packed-refs"), Check::PackedRefs.most());
    let is_packed = |packed: &[u8]| {
        let line = [b" ", name.as_os_str().as_bytes(), b"\n"].concat();
        packed.windows(line.len()).any(|part| part == line)
    };
    place::thing(&sides.host, &own.join("reftable")).is_none()
        && !matches!(place::thing(&sides.host, &own.join(&name)), Some(Thing::File(_) | Thing::Other))
        && match packed {
            Ok((packed, _)) => !is_packed(&packed),
            Err(errno) => errno == Errno::NOENT,
        }
}

fn file_stamp(thing: Option<Thing>) -> Option<Stamp> {
    match thing {
        Some(Thing::File(stamp)) => Some(stamp),
        _ => None,
    }
}
