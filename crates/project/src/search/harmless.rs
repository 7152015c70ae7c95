//! Files that were looked at and are seen as they are, or not at all, so that their content is not read again at every start.
//!
//! A file is recognised by device, inode, size, modification and change time. As with directories the change time is what counts: nothing that
//! may write the file can set it. A file that changed within the last two seconds, or lies on a file system of another machine, is not
//! remembered. Of a file that is seen in part the content is needed at every start, and nothing is remembered.

use super::walk::{changed, is_foreign, is_settled};
use keyward_policy::detect::{Secret, Shows, Sum};
use rustix::fd::OwnedFd;
use rustix::fs::Stat;
use std::cell::RefCell;
use std::collections::HashSet;

/// A file as it was looked at, and by which rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: i64,
    changed: i64,
    rule: u64,
    /// Whether nothing of it is seen; otherwise all is.
    is_empty: bool,
}

impl FileStamp {
    fn new(stat: &Stat, rule: u64, is_empty: bool) -> Self {
        let seconds = stat.st_mtime.saturating_mul(1_000_000_000);
        FileStamp {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(u64::MAX),
            modified: seconds.saturating_add(i64::try_from(stat.st_mtime_nsec).unwrap_or(0)),
            changed: changed(stat),
            rule,
            is_empty,
        }
    }

    /// So many bytes an index needs for one.
    pub(crate) const LENGTH: usize = 56;

    pub(crate) fn to_bytes(self) -> [u8; Self::LENGTH] {
        let FileStamp { device, inode, size, modified, changed, rule, is_empty } = self;
        let mut bytes = [0; Self::LENGTH];
        let (modified, changed) = (modified.cast_unsigned(), changed.cast_unsigned());
        let numbers = [device, inode, size, modified, changed, rule, u64::from(is_empty)];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Self {
        let (numbers, _) = bytes.as_chunks::<8>();
        let number = |place: usize| numbers.get(place).map_or(0, |bytes| u64::from_le_bytes(*bytes));
        FileStamp {
            device: number(0),
            inode: number(1),
            size: number(2),
            modified: number(3).cast_signed(),
            changed: number(4).cast_signed(),
            rule: number(5),
            is_empty: number(6) != 0,
        }
    }
}

/// By which rule a file of a row is judged: the row, and the names that the user has cleared.
pub(super) fn rule(row: &Secret, not_secret: &[&str]) -> u64 {
    let mut sum = Sum(row.digest());
    not_secret.iter().for_each(|name| sum.add(name.as_bytes()));
    sum.0
}

/// Such files of a tree: those that an index has, and those that this search has met.
#[derive(Default)]
pub(crate) struct Harmless {
    known: HashSet<FileStamp>,
    met: RefCell<HashSet<FileStamp>>,
}

impl Harmless {
    pub(crate) fn new(known: HashSet<FileStamp>) -> Self {
        Harmless { known, met: RefCell::default() }
    }

    /// What an earlier search has found that this file shows.
    pub(super) fn known(&self, stat: &Stat, rule: u64) -> Option<Shows> {
        let stamps = [false, true].map(|is_empty| FileStamp::new(stat, rule, is_empty));
        let stamp = stamps.into_iter().find(|stamp| self.known.contains(stamp))?;
        self.met.borrow_mut().insert(stamp);
        Some(if stamp.is_empty { Shows::Instead(Vec::new()) } else { Shows::Itself })
    }

    /// Remembers what a file shows, as it was when it was opened.
    pub(super) fn keep(&self, file: &OwnedFd, stat: &Stat, rule: u64, shows: &Shows) {
        let is_empty = match shows {
            Shows::Itself => false,
            Shows::Instead(text) if text.is_empty() => true,
            Shows::Instead(_) => return,
        };
        if is_settled(changed(stat)) && !is_foreign(file) {
            self.met.borrow_mut().insert(FileStamp::new(stat, rule, is_empty));
        }
    }

    /// Whether the index on the disk says something else.
    pub(super) fn is_fresh(&self) -> bool {
        *self.met.borrow() != self.known
    }

    /// Those that were met: what is gone or has changed is forgotten.
    pub(crate) fn met(&self) -> Vec<FileStamp> {
        let mut met: Vec<FileStamp> = self.met.borrow().iter().copied().collect();
        met.sort_unstable();
        met
    }
}
