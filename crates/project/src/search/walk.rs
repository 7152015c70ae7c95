//! Walks a tree: reads what has changed since the index was written, and believes the index about the rest.
//!
//! A directory that cannot be read is reported, never passed over: the caller has it opened by a helper, or closes it to the command.

use super::index::{Kind, Known, Note, Stamp, mark};
use super::{Rules, halves};
use crate::tree::Root;
use keyward_policy::detect::own;
use rustix::fd::OwnedFd;
use rustix::fs::{Access, AtFlags, FileType, RawDir, Stat};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A directory that changed so recently may change again within the same tick of the clock.
const SETTLED: i64 = 2_000_000_000;

/// A search that takes longer than this is told of.
const PATIENCE: Duration = Duration::from_secs(2);

/// A longer path cannot be given to the kernel, so that nothing can be put over what lies there.
const DEEPEST: usize = 3_800;

/// File systems whose change times are another machine's or another program's: what they say is never remembered.
const FOREIGN: &[i64] = &[
    0x6969,      // NFS
    0x517b,      // SMB
    0xff53_4d42, // CIFS
    0xfe53_4d42, // SMB 2
    0x0102_1997, // 9P
    0x6573_5546, // FUSE
    0x00c3_6400, // Ceph
    0x5346_414f, // AFS
];

/// The change time of a file, in nanoseconds.
pub fn changed(stat: &Stat) -> i64 {
    stat.st_ctime.saturating_mul(1_000_000_000).saturating_add(i64::try_from(stat.st_ctime_nsec).unwrap_or(0))
}

/// Whether a change is old enough to be remembered.
pub(crate) fn is_settled(changed: i64) -> bool {
    now().saturating_sub(changed) >= SETTLED
}

fn now() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

/// Whether change times of the file system of something open cannot be relied on.
pub(crate) fn is_foreign(open: &OwnedFd) -> bool {
    rustix::fs::fstatfs(open).is_ok_and(|facts| FOREIGN.contains(&(facts.f_type & 0xffff_ffff)))
}

pub(crate) fn stamp(stat: &Stat) -> Stamp {
    Stamp { device: stat.st_dev, inode: stat.st_ino, changed: changed(stat) }
}

/// A name that counts, as read from a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    pub(crate) name: OsString,
    pub(crate) kind: Kind,
    pub(crate) marks: u8,
}

impl Noted {
    pub(crate) fn note(&self) -> Note<'_> {
        Note { name: &self.name, kind: self.kind, marks: self.marks }
    }
}

/// One directory, as it was read.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) stamp: Stamp,
    pub(crate) notes: Vec<Noted>,
    /// Directories to go on with.
    pub(crate) directories: Vec<OsString>,
}

/// Names that make a directory a repository without a `.git`, a bit for each.
const MARKS: [&str; 4] = ["HEAD", "objects", "refs", "commondir"];

pub(crate) fn repository_mark(name: &[u8]) -> u8 {
    MARKS.iter().position(|mark| name == mark.as_bytes()).map_or(0, |place| 1 << place)
}

/// Whether these names together do: objects and refs may be another directory's, which one of them leads to.
const fn is_repository(marks: u8) -> bool {
    marks & 0b0111 == 0b0111 || marks & 0b1001 == 0b1001
}

/// Reads an open directory. `relative` is its path below the root of the tree.
pub(crate) fn list(directory: &OwnedFd, relative: &Path, rules: &Rules<'_>) -> Result<Listing, Errno> {
    let stat = rustix::fs::fstat(directory)?;
    let mut found = Listing { stamp: stamp(&stat), ..Listing::default() };
    let names = rules.directory(relative);
    let mut buffer = [MaybeUninit::<u8>::uninit(); 16 << 10];
    let mut entries = RawDir::new(directory, &mut buffer);
    let mut marks = 0;
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let bytes = entry.file_name().to_bytes();
        if matches!(bytes, b"." | b"..") {
            continue;
        }
        let stat = || rustix::fs::statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
        let kind = match entry.file_type() {
            FileType::Unknown => {
                stat().map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)).into()
            }
            kind => kind.into(),
        };
        marks |= repository_mark(bytes);
        let name = OsStr::from_bytes(bytes);
        let mut noted = rules.marks(&names, name, kind);
        // What is protected under one name must not be writable, or readable, under another.
        let is_program = noted & mark::PROGRAM != 0 && own::is_program(name);
        let in_foothold = kind == Kind::File && (names.is_protected() || is_program);
        if kind == Kind::File
            && (rules.compares() || in_foothold)
            && let Ok(stat) = stat()
        {
            noted |= if rules.is_linked(&stat) { mark::LINKED } else { 0 };
            noted |= if in_foothold && rules.may_have_names(&stat) { mark::LEADS } else { 0 };
        }
        if noted != 0 {
            found.notes.push(Noted { name: name.into(), kind, marks: noted });
        }
        // Objects have no names that tell anything.
        let is_git = bytes == b".git" && !rules.sees_git || bytes == b"objects" && names.in_git;
        if kind == Kind::Directory && !is_git {
            found.directories.push(name.into());
        }
    }
    if is_repository(marks) {
        found.notes.push(Noted { name: OsString::new(), kind: Kind::Directory, marks: mark::REPOSITORY });
    }
    Ok(found)
}

/// Whether names in an open directory can be looked at: without the right to search it they can only be listed. A filter around us that
/// does not know the question is not an answer.
pub(crate) fn may_be_searched(directory: &OwnedFd) -> Result<(), Errno> {
    match rustix::fs::accessat(directory, c".", Access::READ_OK | Access::EXEC_OK, AtFlags::EACCESS) {
        Err(Errno::ACCESS) => Err(Errno::ACCESS),
        _ => Ok(()),
    }
}

impl From<FileType> for Kind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::Directory => Kind::Directory,
            FileType::RegularFile => Kind::File,
            FileType::Symlink => Kind::Link,
            _ => Kind::Other,
        }
    }
}

/// What a walk found.
#[derive(Default)]
pub(crate) struct Walked {
    pub(crate) known: Known,
    /// Directories that could not be read, with the reason.
    pub(crate) closed: Vec<(PathBuf, Errno)>,
    /// Whether the index on the disk says less than this.
    pub(crate) fresh: bool,
    /// Directories that a bounded search did not look at.
    pub(crate) left_out: Vec<PathBuf>,
}

/// How far a walk goes.
pub(crate) struct Extent<'a> {
    /// Directories that are searched as trees of their own, or not at all.
    pub(crate) skip: &'a [PathBuf],
    /// At most this many directories, and none that tools fill, where the user asks for a bounded search.
    pub(crate) bound: Option<usize>,
    /// Called once where it takes long.
    pub(crate) slow: fn(&Path),
}

/// Which directories of a known tree are as they were.
pub(crate) fn unchanged(root: &Root, known: &Known) -> Vec<bool> {
    halves::each(known.len(), |number| {
        let then = known.stamp(number);
        then.changed != 0 && root.stat_c(known.c_path(number)).is_ok_and(|stat| stamp(&stat) == then)
    })
}

/// Walks a tree. `before` is what is known of it.
pub(crate) fn walk(root: &Root, rules: &Rules<'_>, before: Known, extent: &Extent<'_>) -> Walked {
    let same = unchanged(root, &before);
    if !before.is_empty() && same.iter().all(|&same| same) {
        return Walked { known: before, ..Walked::default() };
    }
    let mut walk = Walk::new(root, rules, extent, &before, &same);
    walk.waiting.push_back((Next::of(&before, 0), 0));
    walk.go_on();
    walk.walked.fresh |= walk.walked.known.len() != before.len();
    walk.walked
}

/// A directory that waits.
enum Next {
    /// One of the index, by its number.
    Known(usize),
    Path(PathBuf),
}

impl Next {
    fn of(before: &Known, number: usize) -> Self {
        if number < before.len() { Next::Known(number) } else { Next::Path(PathBuf::new()) }
    }
}

struct Walk<'a> {
    root: &'a Root,
    rules: &'a Rules<'a>,
    extent: &'a Extent<'a>,
    before: &'a Known,
    same: &'a [bool],
    /// Numbers of the directories below each of the index.
    below: Vec<Vec<usize>>,
    waiting: VecDeque<(Next, usize)>,
    now: i64,
    /// When to say that it takes long; `None` once that was said.
    patience: Option<Instant>,
    devices: HashMap<u64, bool>,
    walked: Walked,
}

impl<'a> Walk<'a> {
    fn new(
        root: &'a Root,
        rules: &'a Rules<'a>,
        extent: &'a Extent<'a>,
        before: &'a Known,
        same: &'a [bool],
    ) -> Self {
        let mut below = vec![Vec::new(); before.len()];
        for number in 1..before.len() {
            below[before.parent(number)].push(number);
        }
        let (waiting, walked) = (VecDeque::new(), Walked::default());
        let (patience, devices) = (Some(Instant::now() + PATIENCE), HashMap::new());
        Walk { root, rules, extent, before, same, below, waiting, now: now(), patience, devices, walked }
    }

    fn go_on(&mut self) {
        while let Some((next, parent)) = self.waiting.pop_front() {
            let full = self.extent.bound.is_some_and(|bound| self.walked.known.len() >= bound);
            let (path, known) = match next {
                Next::Known(number) => (self.before.path(number).to_path_buf(), Some(number)),
                Next::Path(path) => (path, None),
            };
            if self.extent.skip.contains(&path) {
                continue;
            }
            if full {
                self.walked.left_out.push(path);
                continue;
            }
            match known {
                Some(number) if self.same.get(number) == Some(&true) => {
                    let place = self.walked.known.push(
                        &path,
                        parent,
                        self.before.stamp(number),
                        self.before.notes(number),
                    );
                    self.waiting.extend(self.below[number].iter().map(|&below| (Next::Known(below), place)));
                }
                _ => self.read(&path, parent, known),
            }
        }
    }

    fn read(&mut self, path: &Path, parent: usize, known: Option<usize>) {
        if self.patience.is_some_and(|end| Instant::now() > end) {
            self.patience = None;
            (self.extent.slow)(&self.root.path);
        }
        let too_deep = self.root.path.as_os_str().len() + path.as_os_str().len() > DEEPEST;
        let open = if too_deep { Err(Errno::NAMETOOLONG) } else { self.root.listing(path) };
        let read = open.and_then(|open| {
            may_be_searched(&open)?;
            let mut listing = list(&open, path, self.rules)?;
            let unsettled = self.now.saturating_sub(listing.stamp.changed) < SETTLED;
            if unsettled || self.is_foreign(&open, listing.stamp.device) {
                listing.stamp.changed = 0;
            }
            Ok(listing)
        });
        let listing = match read {
            Ok(listing) => listing,
            // It is gone, or something else stands there now.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return,
            Err(errno) => {
                // It stays in the index, to be tried again by the next search: its parent need not change until then.
                self.walked.known.push(path, parent, Stamp::default(), [].into_iter());
                return self.walked.closed.push((path.into(), errno));
            }
        };
        let then = known.map(|number| self.before.stamp(number));
        self.walked.fresh |= then != Some(listing.stamp);
        let place =
            self.walked.known.push(path, parent, listing.stamp, listing.notes.iter().map(Noted::note));
        let known: HashMap<&OsStr, usize> = known.map_or_else(HashMap::new, |number| {
            let below = self.below[number].iter();
            below.map(|&below| (self.before.path(below).as_os_str(), below)).collect()
        });
        for name in &listing.directories {
            let below = path.join(name);
            if self.extent.bound.is_some() && super::is_generated(name) {
                self.walked.left_out.push(below);
                continue;
            }
            let known = known.get(below.as_os_str()).copied();
            self.waiting.push_back((known.map_or(Next::Path(below), Next::Known), place));
        }
    }

    /// Whether change times of this file system cannot be relied on.
    fn is_foreign(&mut self, open: &OwnedFd, device: u64) -> bool {
        *self.devices.entry(device).or_insert_with(|| is_foreign(open))
    }
}
