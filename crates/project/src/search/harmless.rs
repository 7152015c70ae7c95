//! Files that were looked at and hold no credential, so that their content is not read again at every start.
//!
//! A file is recognised by device, inode, size, modification and change time. As with directories the change time is what counts: nothing that
//! may write the file can set it. A file that changed within the last two seconds, or lies on a file system of another machine, is not
//! remembered. Only that a file is harmless is remembered: of one that is hidden the content is needed at every start.

use super::walk::{changed, is_foreign, is_settled};
use keyward_policy::detect::{Secret, Sum};
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
}

impl FileStamp {
    fn new(stat: &Stat, rule: u64) -> Self {
        let seconds = stat.st_mtime.saturating_mul(1_000_000_000);
        FileStamp {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(u64::MAX),
            modified: seconds.saturating_add(i64::try_from(stat.st_mtime_nsec).unwrap_or(0)),
            changed: changed(stat),
            rule,
        }
    }

    /// So many bytes an index needs for one.
    pub(crate) const LENGTH: usize = 48;

    pub(crate) fn to_bytes(self) -> [u8; Self::LENGTH] {
        let FileStamp { device, inode, size, modified, changed, rule } = self;
        let mut bytes = [0; Self::LENGTH];
        let numbers = [device, inode, size, modified.cast_unsigned(), changed.cast_unsigned(), rule];
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
        }
    }
}

/// By which rule a file of a row is judged: the row, and the names that the user has cleared.
pub(super) fn rule(row: &Secret, not_secret: &[&str]) -> u64 {
    let mut sum = Sum(row.digest());
    not_secret.iter().for_each(|name| sum.add(name.as_bytes()));
    sum.0
}

/// The harmless files of a tree: those that an index has, and those that this search has met.
#[derive(Default)]
pub(crate) struct Harmless {
    known: HashSet<FileStamp>,
    met: RefCell<HashSet<FileStamp>>,
}

impl Harmless {
    pub(crate) fn new(known: HashSet<FileStamp>) -> Self {
        Harmless { known, met: RefCell::default() }
    }

    /// Whether an earlier search has found this file harmless.
    pub(super) fn knows(&self, stat: &Stat, rule: u64) -> bool {
        let stamp = FileStamp::new(stat, rule);
        let knows = self.known.contains(&stamp);
        if knows {
            self.met.borrow_mut().insert(stamp);
        }
        knows
    }

    /// Remembers that a file is, as it was when it was opened.
    pub(super) fn keep(&self, file: &OwnedFd, stat: &Stat, rule: u64) {
        if is_settled(changed(stat)) && !is_foreign(file) {
            self.met.borrow_mut().insert(FileStamp::new(stat, rule));
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
