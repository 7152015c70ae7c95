//! What is known of a searched tree, directory by directory, and the file that remembers it between runs.
//!
//! A directory is recognised by device, inode and change time. The change time, not the modification time: a program that may write there
//! can set the latter back. A directory that has not changed holds the names it held, so one `statx` per directory proves the whole tree.

use super::harmless::{FileStamp, Harmless};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::collections::HashSet;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What a name stands for, as the directory that holds it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Link,
    Other,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::File, Kind::Directory, Kind::Link, Kind::Other];
}

/// Why a name is remembered. Several may apply at once.
pub(crate) mod mark {
    /// A file that may be secret by its name or place, or a link with such a name.
    pub(crate) const SECRET: u8 = 1;
    /// A foothold that is protected.
    pub(crate) const GUARDED: u8 = 2;
    /// A foothold that is only named when it changes.
    pub(crate) const TOLD: u8 = 4;
    /// A `.git`; an empty name where the directory itself is a bare repository.
    pub(crate) const REPOSITORY: u8 = 8;
    /// A link whose target counts as what stands at the link: it lies in a foothold, or its place gives its content a meaning.
    pub(crate) const LEADS: u8 = 16;
    /// A program or module in a directory that the user's shell or an interpreter searches.
    pub(crate) const PROGRAM: u8 = 32;
    /// A second name of a file that is secret or protected under another one.
    pub(crate) const LINKED: u8 = 64;
    /// A link that may stand for a directory of stores.
    pub(crate) const STORE: u8 = 128;
}

/// A part of the arena.
#[derive(Clone, Copy, Default)]
struct Slice {
    start: u32,
    length: u32,
}

/// Identity of a directory, and when it last changed; `changed` is 0 where it has to be read again in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// Nanoseconds since 1970.
    pub(crate) changed: i64,
}

#[derive(Clone, Copy)]
struct Directory {
    path: Slice,
    parent: u32,
    stamp: Stamp,
    notes: Slice,
}

#[derive(Clone, Copy)]
struct Record {
    name: Slice,
    kind: Kind,
    marks: u8,
}

/// A name that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note<'a> {
    pub(crate) name: &'a OsStr,
    pub(crate) kind: Kind,
    pub(crate) marks: u8,
}

impl Note<'_> {
    pub(crate) const fn has(&self, marks: u8) -> bool {
        self.marks & marks != 0
    }
}

/// The directories of a tree, parents before children; the first one is the root. Paths are relative to it.
#[derive(Clone, Default)]
pub struct Known {
    /// Paths and names, each followed by a NUL.
    arena: Vec<u8>,
    directories: Vec<Directory>,
    records: Vec<Record>,
}

impl Known {
    pub(crate) fn len(&self) -> usize {
        self.directories.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.directories.is_empty()
    }

    fn bytes(&self, slice: Slice) -> &[u8] {
        self.arena.get(slice.start as usize..(slice.start + slice.length) as usize).unwrap_or_default()
    }

    pub(crate) fn path(&self, number: usize) -> &Path {
        Path::new(OsStr::from_bytes(self.bytes(self.directories[number].path)))
    }

    /// The path as the kernel takes it.
    pub(crate) fn c_path(&self, number: usize) -> &CStr {
        let start = self.directories[number].path.start as usize;
        CStr::from_bytes_until_nul(self.arena.get(start..).unwrap_or_default()).unwrap_or_default()
    }

    pub(crate) fn stamp(&self, number: usize) -> Stamp {
        self.directories[number].stamp
    }

    pub(crate) fn parent(&self, number: usize) -> usize {
        self.directories[number].parent as usize
    }

    pub(crate) fn has_notes(&self, number: usize) -> bool {
        self.directories[number].notes.length > 0
    }

    pub(crate) fn notes(&self, number: usize) -> impl Iterator<Item = Note<'_>> {
        let Slice { start, length } = self.directories[number].notes;
        let records = self.records.get(start as usize..(start + length) as usize).unwrap_or_default();
        records.iter().map(|record| Note {
            name: OsStr::from_bytes(self.bytes(record.name)),
            kind: record.kind,
            marks: record.marks,
        })
    }

    /// Every name that counts, with its directory.
    pub(crate) fn all_notes(&self) -> impl Iterator<Item = (&Path, Note<'_>)> {
        let numbers = (0..self.len()).filter(|&number| self.has_notes(number));
        numbers.flat_map(move |number| self.notes(number).map(move |note| (self.path(number), note)))
    }

    fn keep(&mut self, bytes: &[u8]) -> Slice {
        let slice = Slice {
            start: u32::try_from(self.arena.len()).unwrap_or(u32::MAX),
            length: u32::try_from(bytes.len()).unwrap_or(0),
        };
        self.arena.extend_from_slice(bytes);
        self.arena.push(0);
        slice
    }

    /// Adds a directory and gives its number.
    pub(crate) fn push<'a>(
        &mut self,
        path: &Path,
        parent: usize,
        stamp: Stamp,
        notes: impl Iterator<Item = Note<'a>>,
    ) -> usize {
        let path = self.keep(path.as_os_str().as_bytes());
        let start = self.records.len();
        for note in notes {
            let name = self.keep(note.name.as_bytes());
            self.records.push(Record { name, kind: note.kind, marks: note.marks });
        }
        let notes = Slice {
            start: u32::try_from(start).unwrap_or(u32::MAX),
            length: u32::try_from(self.records.len() - start).unwrap_or(0),
        };
        let parent = u32::try_from(parent).unwrap_or(0);
        self.directories.push(Directory { path, parent, stamp, notes });
        self.directories.len() - 1
    }

    /// The tree as bytes: counts, then fixed-size rows, then the arena.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let rows = self.directories.len() * DIRECTORY + self.records.len() * RECORD;
        let mut out = Vec::with_capacity(COUNTS + rows + self.arena.len());
        for count in [self.directories.len(), self.records.len(), self.arena.len()] {
            out.extend_from_slice(&(count as u64).to_le_bytes());
        }
        for Directory { path, parent, stamp, notes } in &self.directories {
            for number in [path.start, path.length, *parent, notes.start, notes.length] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            out.extend_from_slice(&stamp.device.to_le_bytes());
            out.extend_from_slice(&stamp.inode.to_le_bytes());
            out.extend_from_slice(&stamp.changed.to_le_bytes());
        }
        for Record { name, kind, marks } in &self.records {
            out.extend_from_slice(&name.start.to_le_bytes());
            out.extend_from_slice(&name.length.to_le_bytes());
            out.extend_from_slice(&[*kind as u8, *marks]);
        }
        out.extend_from_slice(&self.arena);
        out
    }

    /// Reads what [`Known::to_bytes`] wrote. `None` unless every number in it leads somewhere.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (counts, rest) = bytes.split_at_checked(COUNTS)?;
        let count = |place: usize| usize::try_from(long(counts, place * 8)).ok();
        let (directories, records, arena) = (count(0)?, count(1)?, count(2)?);
        let (rows, rest) = rest.split_at_checked(directories.checked_mul(DIRECTORY)?)?;
        let (names, text) = rest.split_at_checked(records.checked_mul(RECORD)?)?;
        if text.len() != arena || u32::try_from(arena).is_err() {
            return None;
        }
        // A slice ends before its NUL.
        let lies_within = |slice: Slice, all: usize, end: usize| {
            (slice.start as usize).checked_add(slice.length as usize + end).is_some_and(|end| end <= all)
        };
        let mut known = Known {
            arena: text.into(),
            directories: Vec::with_capacity(directories),
            records: Vec::with_capacity(records),
        };
        for row in rows.chunks_exact(DIRECTORY) {
            let slice = |at: usize| Slice { start: short(row, at), length: short(row, at + 4) };
            let stamp = Stamp {
                device: long(row, 20),
                inode: long(row, 28),
                changed: i64::from_le_bytes(row[36..44].try_into().ok()?),
            };
            let directory = Directory { path: slice(0), parent: short(row, 8), notes: slice(12), stamp };
            let number = known.directories.len();
            let is_root = number == 0;
            let parent_is_before = (directory.parent as usize) < number || is_root;
            if !(parent_is_before
                && lies_within(directory.path, arena, 1)
                && lies_within(directory.notes, records, 0))
            {
                return None;
            }
            known.directories.push(directory);
        }
        for row in names.chunks_exact(RECORD) {
            let name = Slice { start: short(row, 0), length: short(row, 4) };
            let kind = *Kind::ALL.get(usize::from(row[8]))?;
            if !lies_within(name, arena, 1) {
                return None;
            }
            known.records.push(Record { name, kind, marks: row[9] });
        }
        let ends = |slice: Slice| known.arena.get((slice.start + slice.length) as usize) == Some(&0);
        let whole = |slice: Slice| !known.bytes(slice).contains(&0);
        known.directories.iter().all(|one| ends(one.path) && whole(one.path)).then_some(())?;
        Some(known)
    }
}

const COUNTS: usize = 24;
const DIRECTORY: usize = 44;
const RECORD: usize = 10;

fn short(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(u32::MAX, u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|eight| eight.try_into().ok()).map_or(u64::MAX, u64::from_le_bytes)
}

/// The first bytes of an index that we understand.
const HEADER: &[u8; 16] = b"keyward search 8";

/// Files that were looked for under other names, by device and inode.
type Linked = HashSet<(u64, u64)>;

/// What is remembered of a tree.
#[derive(Default)]
pub(crate) struct Index {
    pub(crate) linked: Linked,
    pub(crate) harmless: HashSet<FileStamp>,
    pub(crate) known: Known,
}

/// Takes rows of so many bytes, with their number before them.
fn rows<const LENGTH: usize>(bytes: &[u8]) -> Option<(&[[u8; LENGTH]], &[u8])> {
    let (count, rest) = bytes.split_at_checked(8)?;
    let length = usize::try_from(long(count, 0)).ok()?.checked_mul(LENGTH)?;
    let (rows, rest) = rest.split_at_checked(length)?;
    Some((rows.as_chunks().0, rest))
}

/// Reads the index of a tree. `rules` stands for the table and the user's patterns: an index made by other rules says nothing.
pub(crate) fn read(file: &Path, rules: u64) -> Option<Index> {
    read_open(&open(file)?, rules)
}

pub(crate) fn open(file: &Path) -> Option<OwnedFd> {
    rustix::fs::open(file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// The same for one that is open.
pub(crate) fn read_open(file: &OwnedFd, rules: u64) -> Option<Index> {
    let bytes = crate::tree::content(file, u64::MAX)?;
    let rest = bytes.strip_prefix(HEADER)?.strip_prefix(&rules.to_le_bytes())?;
    let (pairs, rest) = rows::<16>(rest)?;
    let (harmless, known) = rows(rest)?;
    Some(Index {
        linked: pairs.iter().map(|pair| (long(pair, 0), long(pair, 8))).collect(),
        harmless: harmless.iter().map(FileStamp::from_bytes).collect(),
        known: Known::from_bytes(known)?,
    })
}

/// Writes the index beside and puts it in its place, so that half an index is never read. It is a cache: if it cannot be written, the next
/// search reads every directory again.
pub(crate) fn write(file: &Path, rules: u64, linked: &Linked, harmless: &Harmless, known: &Known) {
    use std::io::Write;
    let Some(directory) = file.parent() else { return };
    let beside = file.with_extension(format!("{}", std::process::id()));
    let mut text = [HEADER.as_slice(), &rules.to_le_bytes(), &(linked.len() as u64).to_le_bytes()].concat();
    for (device, inode) in linked {
        text.extend_from_slice(&device.to_le_bytes());
        text.extend_from_slice(&inode.to_le_bytes());
    }
    let harmless = harmless.met();
    text.extend_from_slice(&(harmless.len() as u64).to_le_bytes());
    harmless.iter().for_each(|stamp| text.extend_from_slice(&stamp.to_bytes()));
    text.extend_from_slice(&known.to_bytes());
    let open =
        || std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside);
    let written = keyward_sys::file::make_private_folder(directory).is_ok()
        && open().is_ok_and(|mut open| open.write_all(&text).is_ok());
    if !written || std::fs::rename(&beside, file).is_err() {
        let _ = std::fs::remove_file(&beside);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> Known {
        let mut known = Known::default();
        let note = |name, kind, marks| Note { name: OsStr::new(name), kind, marks };
        let root = known.push(
            Path::new(""),
            0,
            Stamp { device: 1, inode: 2, changed: 3 },
            [note(".env", Kind::File, mark::SECRET), note(".vscode", Kind::Directory, mark::GUARDED)]
                .into_iter(),
        );
        known.push(Path::new("a b\n"), root, Stamp { device: 1, inode: 9, changed: -4 }, [].into_iter());
        known
    }

    fn text(known: &Known) -> Vec<String> {
        (0..known.len())
            .map(|number| {
                let notes: Vec<_> = known.notes(number).collect();
                format!(
                    "{:?} {} {:?} {notes:?}",
                    known.path(number),
                    known.parent(number),
                    known.stamp(number)
                )
            })
            .collect()
    }

    #[test]
    fn a_tree_survives_the_way_to_the_disk_and_back() {
        let known = example();
        let again = Known::from_bytes(&known.to_bytes()).unwrap();
        assert_eq!(text(&again), text(&known));
        assert_eq!(again.c_path(1), c"a b\n");
    }

    #[test]
    fn an_index_of_other_rules_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep/1-2");
        let linked = HashSet::from([(1, 2), (3, 4)]);
        write(&file, 7, &linked, &Harmless::default(), &example());
        let again = read(&file, 7).unwrap();
        assert_eq!((again.linked, text(&again.known)), (linked, text(&example())));
        assert!(read(&file, 8).is_none());
    }

    proptest! {
        #[test]
        fn a_torn_index_is_none(cut: usize) {
            let bytes = example().to_bytes();
            prop_assert!(Known::from_bytes(&bytes[..cut % bytes.len()]).is_none());
        }

        #[test]
        fn an_index_with_a_wrong_byte_does_no_harm(place: usize, byte: u8) {
            let mut bytes = example().to_bytes();
            let place = place % bytes.len();
            bytes[place] = byte;
            if let Some(known) = Known::from_bytes(&bytes) {
                text(&known);
                (0..known.len()).for_each(|number| drop(known.c_path(number).to_owned()));
            }
        }
    }
}
