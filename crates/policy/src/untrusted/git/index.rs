//! Git's index: whether checking it out would write where no file of the project belongs.
//!
//! Git does not verify the paths of an index that it reads from disk: an entry `.git/hooks/post-checkout` becomes that file, and runs.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Why an index stays in the cage.
pub type Unsafe = &'static str;

const SYMLINK: u32 = 0o120_000;
const FOLDER: u32 = 0o040_000;
const KIND: u32 = 0o170_000;

/// Judges a whole file. `id_length` is the length of an object's name in this repository.
pub fn check(bytes: &[u8], id_length: usize) -> Result<(), Unsafe> {
    let mut at =
        Cursor { bytes: bytes.get(..bytes.len().saturating_sub(id_length)).unwrap_or(&[]), at: 0, kept: 0 };
    if at.take(4)? != b"DIRC" {
        return Err("it is not an index");
    }
    let version = at.number()?;
    if !(2..=4).contains(&version) {
        return Err("its version is not known");
    }
    let count = at.number()?;
    let mut name = Vec::new();
    let mut before = Vec::new();
    let mut starts = Vec::new();
    let mut links: HashSet<Vec<u8>> = HashSet::new();
    let mut below: Vec<Vec<u8>> = Vec::new();
    for _ in 0..count {
        let start = at.at;
        let mode = at.entry(version, id_length, &mut name)?;
        starts.push((start, at.kept));
        if name < before {
            return Err("its entries are not in order");
        }
        before.clone_from(&name);
        let plain = match name.strip_suffix(b"/") {
            Some(folder) if mode & KIND == FOLDER => folder,
            _ => &name,
        };
        if !is_ordinary(plain) {
            return Err("it names a path that is not the project's");
        }
        if mode & KIND == SYMLINK {
            links.insert(name.clone());
        }
        if !links.is_empty() || name.contains(&b'/') {
            // Remembered only by their folders, of which there are fewer.
            let folder = name.iter().rposition(|&byte| byte == b'/').map(|end| name[..end].to_vec());
            if let Some(folder) = folder.filter(|folder| below.last() != Some(folder)) {
                below.push(folder);
            }
        }
    }
    let through_a_link = |folder: &Vec<u8>| {
        links.contains(folder)
            || folder.iter().enumerate().any(|(at, &byte)| byte == b'/' && links.contains(&folder[..at]))
    };
    if !links.is_empty() && below.iter().any(through_a_link) {
        return Err("it names a path behind a link");
    }
    at.extensions(&starts)
}

/// One entry while an index is gone through.
struct Seen<'a> {
    mode: u32,
    id: &'a [u8],
    flags: [u8; 2],
    /// Nothing where the entry has none.
    further: [u8; 2],
    name: &'a [u8],
}

impl Seen<'_> {
    const ASSUMED: u8 = 0x80;
    const EXTENDED: u8 = 0x40;
    const SKIPPED: u8 = 0x40;
    const INTENT: u8 = 0x20;

    fn stage(&self) -> u8 {
        self.flags[0] >> 4 & 3
    }

    fn is_hidden(&self) -> bool {
        self.flags[0] & Self::ASSUMED != 0 || self.further[0] & Self::SKIPPED != 0
    }

    fn is_intent(&self) -> bool {
        self.further[0] & Self::INTENT != 0
    }

    fn says_the_same(&self, other: &Seen<'_>) -> bool {
        self.mode == other.mode && self.id == other.id && self.is_intent() == other.is_intent()
    }

    fn entry(&self) -> Entry {
        Entry { mode: self.mode, id: self.id.to_vec(), stage: self.stage(), is_intent: self.is_intent() }
    }
}

/// Goes through the entries of an index, one after the other.
struct Walk<'a> {
    cursor: Cursor<'a>,
    bytes: &'a [u8],
    id_length: usize,
    version: u32,
    left: u32,
    name: Vec<u8>,
}

impl<'a> Walk<'a> {
    /// A file that is not there, or too short, has no entries.
    fn new(bytes: &'a [u8], id_length: usize) -> Self {
        let inside = bytes.get(..bytes.len().saturating_sub(id_length)).unwrap_or(&[]);
        let mut cursor = Cursor { bytes: inside, at: 0, kept: 0 };
        let begins = cursor.take(4).is_ok_and(|word| word == b"DIRC");
        let (version, left) = match (cursor.number(), cursor.number()) {
            (Ok(version), Ok(count)) if begins => (version, count),
            _ => (0, 0),
        };
        Walk { cursor, bytes, id_length, version, left, name: Vec::new() }
    }

    fn next(&mut self) -> Result<Option<Seen<'_>>, Unsafe> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let start = self.cursor.at;
        let mode = self.cursor.entry(self.version, self.id_length, &mut self.name)?;
        let object = self.bytes.get(start + 40..start + 44 + self.id_length).ok_or(CUT_SHORT)?;
        let (id, rest) = object.split_at(self.id_length);
        let flags = [rest[0], rest[1]];
        let further = if flags[0] & Seen::EXTENDED != 0 { [rest[2], rest[3]] } else { [0, 0] };
        Ok(Some(Seen { mode, id, flags, further, name: &self.name }))
    }

    /// Tells of each entry, as far as they can be read.
    fn each(bytes: &'a [u8], id_length: usize, mut tell: impl FnMut(&Seen<'_>)) {
        let mut walk = Walk::new(bytes, id_length);
        while let Ok(Some(seen)) = walk.next() {
            tell(&seen);
        }
    }
}

/// The paths whose changes git does not show, because it was told not to look.
pub fn hidden(bytes: &[u8], id_length: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    Walk::each(bytes, id_length, |seen| {
        if seen.is_hidden() {
            all.push(seen.name.to_vec());
        }
    });
    all
}

/// The paths that are repositories of their own.
pub fn gitlinks(bytes: &[u8], id_length: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    Walk::each(bytes, id_length, |seen| {
        if seen.mode & KIND == GITLINK {
            all.push(seen.name.to_vec());
        }
    });
    all
}

/// The object that is staged at each path that is one file and not a conflict.
pub fn objects(bytes: &[u8], id_length: usize) -> HashMap<Vec<u8>, Vec<u8>> {
    const FILE: u32 = 0o100_000;
    let mut all = HashMap::new();
    Walk::each(bytes, id_length, |seen| {
        if seen.mode & KIND == FILE && seen.stage() == 0 {
            all.insert(seen.name.to_vec(), seen.id.to_vec());
        }
    });
    all
}

/// What is staged at a path, once or, in a conflict, up to three times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub mode: u32,
    /// The name of the object, in bytes.
    pub id: Vec<u8>,
    pub stage: u8,
    /// Whether the path is only meant to be added (`git add -N`).
    pub is_intent: bool,
}

impl Entry {
    /// For notes of our own: kind, stage, whether it is only meant, and the object.
    pub fn spelled(&self) -> Vec<u8> {
        [&self.mode.to_be_bytes()[..], &[self.stage, u8::from(self.is_intent)], &self.id].concat()
    }

    /// Reads what `spelled` wrote.
    pub fn read(text: &[u8]) -> Option<Self> {
        let (mode, rest) = text.split_first_chunk()?;
        let (&[stage, is_intent], id) = rest.split_first_chunk()?;
        Some(Entry { mode: u32::from_be_bytes(*mode), id: id.to_vec(), stage, is_intent: is_intent == 1 })
    }
}

/// What an index stages, by path.
pub type Entries = BTreeMap<Vec<u8>, Vec<Entry>>;

/// What an index stages at these paths.
pub fn entries_at(bytes: &[u8], id_length: usize, paths: &BTreeSet<Vec<u8>>) -> Entries {
    let mut all = Entries::new();
    Walk::each(bytes, id_length, |seen| {
        if paths.contains(seen.name) {
            all.entry(seen.name.to_vec()).or_default().push(seen.entry());
        }
    });
    all
}

/// What a path has of entries that were to be staged there: all of them, or those that come first. Entries that are only meant to be added
/// are staged after the others. `None` if the path has something else.
pub fn staged_so_far(here: &[Entry], wanted: &[Entry]) -> Option<Vec<Entry>> {
    let first: Vec<Entry> = wanted.iter().filter(|entry| !entry.is_intent).cloned().collect();
    (here == wanted || here == first).then(|| here.to_vec())
}

/// Which of these paths an index has: the path itself, or something below it.
pub fn tracked(bytes: &[u8], id_length: usize, paths: &[Vec<u8>]) -> BTreeSet<Vec<u8>> {
    let mut all = BTreeSet::new();
    Walk::each(bytes, id_length, |seen| {
        let has = |path: &&Vec<u8>| {
            seen.name.strip_prefix(path.as_slice()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        all.extend(paths.iter().filter(has).cloned());
    });
    all
}

/// The paths at which two indexes do not stage the same. Git keeps entries in order, and so must both.
pub fn differences(one: &[u8], other: &[u8], id_length: usize) -> Result<BTreeSet<Vec<u8>>, Unsafe> {
    let (mut one, mut other) = (Walk::new(one, id_length), Walk::new(other, id_length));
    let mut all = BTreeSet::new();
    let (mut here, mut there) = (one.next()?, other.next()?);
    loop {
        let order = match (&here, &there) {
            (None, None) => return Ok(all),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(here), Some(there)) => (here.name, here.stage()).cmp(&(there.name, there.stage())),
        };
        if let (Some(here), Some(there), Ordering::Equal) = (&here, &there, order) {
            if !here.says_the_same(there) {
                all.insert(here.name.to_vec());
            }
        } else if let Some(only) = if order == Ordering::Less { &here } else { &there } {
            all.insert(only.name.to_vec());
        }
        if order != Ordering::Greater {
            here = one.next()?;
        }
        if order != Ordering::Less {
            there = other.next()?;
        }
    }
}

/// The mode of a repository in the repository.
pub const GITLINK: u32 = 0o160_000;

/// Whether git itself stages something with this mode.
pub const fn is_mode(mode: u32) -> bool {
    matches!(mode, 0o100_644 | 0o100_755 | SYMLINK | GITLINK)
}

/// Whether a path stays in the project and out of every repository's own folder.
fn is_ordinary(path: &[u8]) -> bool {
    !path.is_empty() && !path.contains(&0) && path.split(|&byte| byte == b'/').all(is_ordinary_name)
}

fn is_ordinary_name(name: &[u8]) -> bool {
    // Most names cannot be meant, and there are many.
    if name.first().is_some_and(|first| first.is_ascii_alphanumeric() && !b"gG".contains(first)) {
        return true;
    }
    // As file systems read it that ignore case, and trailing dots and blanks, and some invisible characters.
    let seen: Vec<u8> = String::from_utf8_lossy(name)
        .chars()
        .filter(|char| !matches!(char, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}'))
        .collect::<String>()
        .to_ascii_lowercase()
        .into_bytes();
    let stem = seen.split(|&byte| byte == b':' || byte == b'\\').next().unwrap_or_default();
    let stem = stem.trim_ascii_end();
    let end = stem.iter().rposition(|&byte| byte != b'.' && byte != b' ').map_or(0, |last| last + 1);
    !name.is_empty() && !matches!(name, b"." | b"..") && !matches!(&stem[..end], b".git" | b"git~1")
}

/// Names of this length or more are counted to their end.
const LONG: usize = 0xfff;

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// How much of the name before it the last entry took over.
    kept: usize,
}

const CUT_SHORT: Unsafe = "it is cut short";

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Unsafe> {
        let end = self.at.checked_add(length).ok_or(CUT_SHORT)?;
        let taken = self.bytes.get(self.at..end).ok_or(CUT_SHORT)?;
        self.at = end;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, Unsafe> {
        let bytes = self.take(4)?;
        Ok(bytes.iter().fold(0, |number, &byte| number << 8 | u32::from(byte)))
    }

    fn short(&mut self) -> Result<u16, Unsafe> {
        let bytes = self.take(2)?;
        Ok(u16::from(bytes[0]) << 8 | u16::from(bytes[1]))
    }

    /// Up to the next zero byte, which is taken as well.
    fn text(&mut self) -> Result<&'a [u8], Unsafe> {
        let rest = self.bytes.get(self.at..).ok_or(CUT_SHORT)?;
        let length = rest.iter().position(|&byte| byte == 0).ok_or(CUT_SHORT)?;
        self.at += length + 1;
        Ok(&rest[..length])
    }

    /// One entry: its mode; its name goes where the name before it stands.
    fn entry(&mut self, version: u32, id_length: usize, name: &mut Vec<u8>) -> Result<u32, Unsafe> {
        let start = self.at;
        self.take(24)?;
        let mode = self.number()?;
        self.take(12 + id_length)?;
        let flags = self.short()?;
        const EXTENDED: u16 = 0x4000;
        if flags & EXTENDED != 0 {
            if version < 3 {
                return Err("its flags are not known");
            }
            self.take(2)?;
        }
        if version == 4 {
            let dropped = self.varint()?;
            let kept = name.len().checked_sub(dropped).ok_or(CUT_SHORT)?;
            name.truncate(kept);
            name.extend_from_slice(self.text()?);
            // Git copies as many bytes as the flags say, whatever ends where.
            if usize::from(flags) & LONG != name.len().min(LONG) {
                return Err("its names do not end where they say");
            }
            self.kept = kept;
            return Ok(mode);
        }
        let length = usize::from(flags) & LONG;
        name.clear();
        if length == LONG {
            name.extend_from_slice(self.text()?);
            self.at -= 1;
        } else {
            name.extend_from_slice(self.take(length)?);
        }
        // One to eight zero bytes, to a multiple of eight.
        let used = self.at - start;
        self.take((used + 8) / 8 * 8 - used)?;
        Ok(mode)
    }

    fn varint(&mut self) -> Result<usize, Unsafe> {
        let mut byte = self.take(1)?[0];
        let mut value = usize::from(byte & 127);
        while byte & 128 != 0 {
            byte = self.take(1)?[0];
            value = value
                .checked_add(1)
                .and_then(|value| value.checked_mul(128))
                .and_then(|value| value.checked_add(usize::from(byte & 127)))
                .ok_or(CUT_SHORT)?;
        }
        Ok(value)
    }

    /// Extensions can change what the entries mean, or where git reads them: only known ones pass, and those only if they agree with what was
    /// read.
    fn extensions(&mut self, starts: &[(usize, usize)]) -> Result<(), Unsafe> {
        let end = self.at;
        while self.at < self.bytes.len() {
            let name = self.take(4)?;
            let length = usize::try_from(self.number()?).map_err(|_| CUT_SHORT)?;
            let content = self.take(length)?;
            let agrees = match name {
                b"TREE" | b"REUC" | b"UNTR" | b"FSMN" | b"sdir" => true,
                b"EOIE" => content.get(..4).is_some_and(|offset| number(offset) == end),
                b"IEOT" => is_table_of(content, starts),
                _ => false,
            };
            if !agrees {
                return Err("it is split, or has parts that are not known");
            }
        }
        Ok(())
    }
}

/// A number of four bytes.
fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, &byte| number << 8 | usize::from(byte))
}

/// Whether a table of blocks leads to entries where they are, one block after the other, each beginning with a whole name.
fn is_table_of(content: &[u8], starts: &[(usize, usize)]) -> bool {
    let Some((version, blocks)) = content.split_at_checked(4) else { return false };
    let mut next = 0;
    for block in blocks.chunks(8) {
        let (offset, count) = block.split_at(block.len().min(4));
        let fits = starts
            .get(next)
            .is_some_and(|&(start, kept)| start == number(offset) && (kept == 0 || next == 0));
        if block.len() != 8 || !fits || number(count) == 0 {
            return false;
        }
        next += number(count);
    }
    number(version) == 1 && next == starts.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(version: u32, entries: &[(&str, u32)]) -> Vec<u8> {
        let mut out = b"DIRC".to_vec();
        out.extend(version.to_be_bytes());
        out.extend(u32::try_from(entries.len()).expect("few").to_be_bytes());
        let mut before = "";
        for (name, mode) in entries {
            let start = out.len();
            out.extend([0; 24]);
            out.extend(mode.to_be_bytes());
            out.extend([0; 12 + 20]);
            out.extend(u16::try_from(name.len().min(0xfff)).expect("short").to_be_bytes());
            if version == 4 {
                let same = before.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
                out.push(u8::try_from(before.len() - same).expect("short"));
                out.extend(&name.as_bytes()[same..]);
                out.push(0);
            } else {
                out.extend(name.as_bytes());
                let used = out.len() - start;
                out.resize(start + (used + 8) / 8 * 8, 0);
            }
            before = name;
        }
        out.extend(b"TREE");
        out.extend(3_u32.to_be_bytes());
        out.extend(b"abc");
        out.extend([0; 20]);
        out
    }

    #[test]
    fn an_entry_survives_our_notes() {
        let entry = Entry { mode: 0o100_644, id: vec![0, b' ', b'\n', 255], stage: 3, is_intent: true };
        assert_eq!(Entry::read(&entry.spelled()), Some(entry));
        assert_eq!(Entry::read(b"\0\0\0\0\0"), None);
    }

    #[test]
    fn ordinary_paths_pass_in_every_version() {
        let long = "e/".repeat(3_000) + "b";
        let entries = [
            ("a", 0o100_644),
            ("dir/.gitignore", 0o100_755),
            ("dir/link", SYMLINK),
            (long.as_str(), 0o100_644),
        ];
        for version in [2, 3, 4] {
            let entries = if version == 4 { &entries[..3] } else { &entries };
            assert_eq!(check(&index(version, entries), 20), Ok(()), "{version}");
        }
        assert_eq!(check(&index(2, &[("sparse/", FOLDER)]), 20), Ok(()));
    }

    #[test]
    fn a_path_into_a_repository_or_out_of_the_project_does_not() {
        for name in [
            ".git/hooks/post-checkout",
            ".GIT/config",
            "sub/.git/config",
            "git~1/config",
            ".git./config",
            ".git /config",
            ".git::$INDEX_ALLOCATION/config",
            ".g\u{200c}it/config",
            "../x",
            "/etc/passwd",
            "a//b",
            "a/./b",
            "a/",
            "",
            "a\0b",
        ] {
            for version in [2, 3] {
                assert!(check(&index(version, &[(name, 0o100_644)]), 20).is_err(), "{name:?}");
            }
        }
        assert!(check(&index(4, &[("a", 0o100_644), (".git/config", 0o100_644)]), 20).is_err());
    }

    #[test]
    fn a_path_behind_a_link_of_the_same_index_does_not() {
        let entries = [("a", SYMLINK), ("a-b", 0o100_644), ("a/hooks/x", 0o100_644)];
        assert!(check(&index(2, &entries), 20).is_err());
    }

    /// Puts an extension before the checksum.
    fn extended(mut index: Vec<u8>, name: &[u8; 4], content: &[u8]) -> Vec<u8> {
        let checksum = index.split_off(index.len() - 20);
        index.extend(name);
        index.extend(u32::try_from(content.len()).expect("short").to_be_bytes());
        index.extend(content);
        index.extend(checksum);
        index
    }

    #[test]
    fn a_name_that_git_would_read_further_does_not_pass() {
        let mut index = index(4, &[("a", 0o100_644), ("b", 0o100_644)]);
        assert_eq!(check(&index, 20), Ok(()));
        // The length that git goes by, of the first entry.
        index[12 + 60 + 1] = 40;
        assert!(check(&index, 20).is_err());
    }

    #[test]
    fn extensions_that_lead_git_elsewhere_do_not_pass() {
        let plain = index(2, &[("a", 0o100_644), ("b", 0o100_644)]);
        let end = u32::try_from(plain.len() - 20 - 11).expect("short");
        let table = |offsets: &[(u32, u32)]| {
            let blocks =
                offsets.iter().flat_map(|(offset, count)| [offset.to_be_bytes(), count.to_be_bytes()]);
            [1_u32.to_be_bytes().to_vec(), blocks.flatten().collect()].concat()
        };
        for (name, content, expected) in [
            (b"EOIE", end.to_be_bytes().to_vec(), true),
            (b"EOIE", (end + 8).to_be_bytes().to_vec(), false),
            (b"IEOT", table(&[(12, 1), (12 + 64, 1)]), true),
            (b"IEOT", table(&[(12, 2)]), true),
            (b"IEOT", table(&[(12, 1), (end + 8, 1)]), false),
            (b"IEOT", table(&[(12, 1)]), false),
            (b"ZZZZ", Vec::new(), false),
        ] {
            assert_eq!(
                check(&extended(plain.clone(), name, &content), 20).is_ok(),
                expected,
                "{name:?} {content:?}"
            );
        }
    }

    #[test]
    fn what_git_does_not_look_at_is_known() {
        let mut index = index(2, &[("a", 0o100_644), ("b", 0o100_644)]);
        assert!(hidden(&index, 20).is_empty());
        index[12 + 60] |= 0x80;
        assert_eq!(hidden(&index, 20), [b"a".to_vec()]);
    }

    #[test]
    fn two_indexes_differ_where_they_stage_something_else() {
        let paths = |one: &[u8], other: &[u8]| -> Vec<String> {
            let all = differences(one, other, 20).expect("both can be read").into_iter();
            all.map(|path| String::from_utf8(path).expect("text")).collect()
        };
        let one = index(2, &[("a", 0o100_644), ("b", 0o100_644)]);
        let mut refreshed = one.clone();
        refreshed[12..20].copy_from_slice(&[9; 8]);
        assert!(paths(&one, &refreshed).is_empty(), "it was only looked at again");
        let mut staged = one.clone();
        staged[12 + 40] = 7;
        assert_eq!(paths(&one, &staged), ["a"]);
        assert_eq!(
            paths(&one, &index(4, &[("a", 0o100_644), ("aa", 0o100_755), ("c", 0o100_644)])),
            ["aa", "b", "c"]
        );
        assert_eq!(paths(&[], &one), ["a", "b"]);
        assert!(differences(&one, &one[..40], 20).is_err());
        let changed = BTreeSet::from([b"a".to_vec()]);
        let entries = entries_at(&staged, 20, &changed);
        assert_eq!((entries.len(), entries[b"a".as_slice()][0].id[0]), (1, 7));
    }

    #[test]
    fn entries_that_are_not_in_order_are_refused() {
        assert!(check(&index(2, &[("b", 0o100_644), ("a", 0o100_644)]), 20).is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        let good = index(2, &[("a", 0o100_644)]);
        for cut in 0..good.len() - 11 {
            assert!(check(&good[..cut], 20).is_err(), "{cut}");
        }
        let mut split = good.clone();
        let at = split.len() - 20 - 11;
        split[at..at + 4].copy_from_slice(b"link");
        assert!(check(&split, 20).is_err());
    }

    #[test]
    fn a_path_has_so_far_all_of_what_was_to_be_staged_or_what_comes_before_the_intents() {
        let entry =
            |id: u8, is_intent: bool| Entry { mode: 0o100_644, id: vec![id; 20], stage: 0, is_intent };
        let (file, meant) = (vec![entry(1, false)], vec![entry(2, true)]);
        assert_eq!(staged_so_far(&file, &file), Some(file.clone()));
        assert_eq!(staged_so_far(&meant, &meant), Some(meant.clone()));
        assert_eq!(staged_so_far(&[], &meant), Some(Vec::new()), "it was taken out, and not meant yet");
        assert_eq!(staged_so_far(&[], &file), None);
        assert_eq!(staged_so_far(&[entry(3, false)], &file), None, "the user's");
    }
}
