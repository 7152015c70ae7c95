//! While the command runs: the kernel tells us of names that appear in the project's folders. A notice: whoever is fast is there before us.
//!
//! Watches are made only when the command has run for a while, a few at a time, so that a short one is not slowed. What is missed here is
//! found at the end.

use crate::search::Folder;
use crate::tree::{self, Root, by_number};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A command that ends before this is looked at only when it has ended. Letting go of watches costs the kernel some ten milliseconds,
/// which a short command would feel.
const PATIENCE: Duration = Duration::from_millis(300);
/// Between two batches.
const PAUSE: Duration = Duration::from_millis(2);
const BATCH: usize = 32;
/// What lies beyond is left to the end. The kernel counts watches per user.
const MOST_FOLDERS: usize = 1_024;
/// Events that are read before we look at anything else.
const MOST_EVENTS: usize = 512;

/// The folders that are watched.
pub(crate) struct Watch {
    inotify: Option<OwnedFd>,
    folders: HashMap<i32, PathBuf>,
    waiting: VecDeque<PathBuf>,
    /// All that have ever waited.
    known: HashSet<OsString>,
    next: Option<Instant>,
}

/// What is to be looked at. Paths are relative to the project.
#[derive(Default)]
pub(crate) struct Appeared {
    pub(crate) names: Vec<PathBuf>,
    /// Folders that are watched from now on.
    pub(crate) watched: Vec<PathBuf>,
}

impl Watch {
    /// Watches nothing yet.
    pub(crate) fn new(folders: impl Iterator<Item = PathBuf>) -> Self {
        let waiting: VecDeque<PathBuf> = folders.take(MOST_FOLDERS).collect();
        let known = waiting.iter().map(|path| path.clone().into_os_string()).collect();
        let next = Instant::now().checked_add(PATIENCE);
        Watch { inotify: None, folders: HashMap::new(), waiting, known, next }
    }

    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// When the next batch of watches is due.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.next.map(|next| next.saturating_duration_since(Instant::now()))
    }

    /// What has appeared since the last time, and what was in folders that are watched from now on. `None` when the kernel lost count, or
    /// has no room for another watcher: the rest is left to the end.
    pub(crate) fn work(&mut self, root: &Root, is_secret: &dyn Fn(&OsStr) -> bool) -> Option<Appeared> {
        let mut appeared = Appeared::default();
        self.read_events(&mut appeared.names)?;
        let now = Instant::now();
        if self.next.is_some_and(|next| next <= now) {
            if self.inotify.is_none() {
                self.inotify = Some(inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?);
            }
            for _ in 0..BATCH {
                let Some(relative) = self.waiting.pop_front() else { break };
                if let Some(folder) = self.add(root, &relative, is_secret) {
                    appeared.names.extend(interesting(&relative, &folder));
                    // Those that were made before their parent was watched.
                    let below = folder.folders.iter().map(|name| relative.join(name));
                    self.waiting
                        .extend(below.filter(|path| self.known.insert(path.clone().into_os_string())));
                    appeared.watched.push(relative);
                }
            }
        }
        let more = !self.waiting.is_empty() && self.folders.len() < MOST_FOLDERS;
        self.next = match self.next {
            Some(next) if next > now => Some(next),
            _ if more => now.checked_add(PAUSE),
            _ => None,
        };
        Some(appeared)
    }

    fn add(&mut self, root: &Root, relative: &Path, is_secret: &dyn Fn(&OsStr) -> bool) -> Option<Folder> {
        let folder = root.listing(relative).ok()?;
        let events =
            WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR | WatchFlags::EXCL_UNLINK;
        let number = inotify::add_watch(self.inotify.as_ref()?, by_number(&folder), events).ok()?;
        self.folders.insert(number, relative.into());
        // Listed after the watch is there, so that nothing appears unseen in between.
        tree::list(folder, relative, is_secret).ok()
    }

    fn read_events(&mut self, found: &mut Vec<PathBuf>) -> Option<()> {
        let Some(inotify) = &self.inotify else { return Some(()) };
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = inotify::Reader::new(inotify, &mut buffer);
        let mut events = 0;
        // What has been read from the kernel is looked at to the end.
        while events < MOST_EVENTS || !reader.is_buffer_empty() {
            events += 1;
            let Ok(event) = reader.next() else { break };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                return None;
            }
            if event.events().contains(ReadFlags::IGNORED) {
                self.folders.remove(&event.wd());
            }
            let (Some(folder), Some(name)) = (self.folders.get(&event.wd()), event.file_name()) else {
                continue;
            };
            let path = folder.join(OsStr::from_bytes(name.to_bytes()));
            let skipped = |name: &OsStr| {
                name == ".git" || crate::search::SKIPPED.iter().any(|skipped| name == *skipped)
            };
            if event.events().contains(ReadFlags::ISDIR) && !path.file_name().is_some_and(skipped) {
                // Also one that is known: it may have been removed and made again.
                if self.waiting.len() < MOST_FOLDERS {
                    self.waiting.push_back(path.clone());
                }
            }
            found.push(path);
        }
        Some(())
    }
}

/// Names that need a closer look.
fn interesting(relative: &Path, folder: &Folder) -> Vec<PathBuf> {
    folder.footholds.iter().flatten().chain(&folder.secrets).map(|name| relative.join(name)).collect()
}
