//! What a reader remembers of a closed file, so that a question does not read it all: a cache that can be made again at any time.
//!
//! It holds, for each session and each secret and for denials, where the lines are; for each run, where its command stands; and the times of
//! each thousand lines. It belongs to a file by that file's head and length, and ends with a digest of its own. Whatever does not fit is made anew.

use crate::chain::{Digest, Head};
use crate::gist::{Filter, Gist};
use crate::{files, mend};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"kwindex1";
const LINES_OF_A_BLOCK: u32 = 1000;
/// What a list is of, as part of its key.
const DENIED: &str = "d";
const SESSION: &str = "s";
const SECRET: &str = "n";

/// A stretch of lines and the times in it: clocks jump, so it has both ends.
struct Block {
    from: u32,
    earliest: u64,
    latest: u64,
}

/// Where what is in one file.
#[derive(Default)]
pub struct Index {
    lists: HashMap<u64, Vec<u32>>,
    /// Runs by the number of their name, in order, and where their command stands.
    runs: Vec<(u64, u32)>,
    blocks: Vec<Block>,
}

impl Index {
    /// The index of a closed file: the one that was kept, or a new one, which is then kept if that is possible.
    pub fn of(folder: &Path, name: &str, file: &File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let head = mend::last(file, length)?.map_or(Head::ROOT, |last| last.head);
        let path = folder.join(Path::new(name).with_extension("index"));
        if let Some(kept) = read(&path, &head, length) {
            return Ok(kept);
        }
        let made = Index::make(&mend::read_range(file, 0, length)?);
        let _ = made.keep(&path, &head, length);
        Ok(made)
    }

    /// Looks at every line once.
    pub fn make(bytes: &[u8]) -> Self {
        let mut index = Index::default();
        let (mut at, mut lines) = (0, 0);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let Ok(from) = u32::try_from(at) else { break };
            at += line.len();
            let Some(gist) = Gist::read(line) else { continue };
            index.add(&gist, from, lines % LINES_OF_A_BLOCK == 0);
            lines += 1;
        }
        index.runs.sort_unstable();
        index
    }

    fn add(&mut self, gist: &Gist<'_>, from: u32, begins_block: bool) {
        let time = gist.time();
        match self.blocks.last_mut().filter(|_| !begins_block) {
            Some(block) => {
                block.earliest = block.earliest.min(time);
                block.latest = block.latest.max(time);
            }
            None => self.blocks.push(Block { from, earliest: time, latest: time }),
        }
        if gist.is_denial() {
            self.list(DENIED, "", from);
        }
        if let Some(session) = gist.session() {
            self.list(SESSION, session, from);
        }
        for secret in gist.secrets() {
            self.list(SECRET, secret, from);
        }
        if gist.is_spawn() {
            self.runs.push((number("r", &gist.run), from));
        }
    }

    fn list(&mut self, kind: &str, name: &str, from: u32) {
        let list = self.lists.entry(number(kind, name)).or_default();
        if list.last() != Some(&from) {
            list.push(from);
        }
    }

    /// Where lines begin that may be meant; nothing where only reading all of them will tell.
    pub fn candidates(&self, filter: &Filter) -> Option<Vec<u32>> {
        let mut wanted = Vec::new();
        wanted.extend(filter.denied.then(|| number(DENIED, "")));
        wanted.extend(filter.session.as_deref().map(|name| number(SESSION, name)));
        wanted.extend(filter.secret.as_deref().map(|name| number(SECRET, name)));
        let lists: Vec<&[u32]> =
            wanted.iter().map(|key| self.lists.get(key).map_or(&[][..], Vec::as_slice)).collect();
        let (shortest, others) = {
            let mut lists = lists;
            lists.sort_by_key(|list| list.len());
            let mut lists = lists.into_iter();
            (lists.next()?, lists.collect::<Vec<_>>())
        };
        let fits = |from: &u32| {
            others.iter().all(|list| list.binary_search(from).is_ok())
                && filter
                    .since
                    .is_none_or(|since| self.block(*from).is_none_or(|block| block.latest >= since))
        };
        Some(shortest.iter().copied().filter(fits).collect())
    }

    fn block(&self, from: u32) -> Option<&Block> {
        self.blocks.get(self.blocks.partition_point(|block| block.from <= from).checked_sub(1)?)
    }

    /// Stretches of the file, from and to, in which something may be as young as this.
    pub fn since(&self, since: u64, length: u64) -> Vec<(u64, u64)> {
        let ends = self.blocks.iter().skip(1).map(|block| u64::from(block.from)).chain([length]);
        let stretches = self.blocks.iter().zip(ends).filter(|(block, _)| block.latest >= since);
        stretches.map(|(block, end)| (u64::from(block.from), end)).collect()
    }

    /// Where the command of a run stands.
    pub fn run(&self, name: &str) -> Option<u32> {
        let key = number("r", name);
        let at = self.runs.partition_point(|(run, _)| *run < key);
        self.runs.get(at).filter(|(run, _)| *run == key).map(|(_, from)| *from)
    }

    /// Writes the index beside its place and then renames it, so that no reader sees half of it.
    fn keep(&self, path: &Path, head: &Head, length: u64) -> io::Result<()> {
        let mut bytes = identity(head, length);
        put(&mut bytes, self.lists.len() as u64);
        for (key, list) in &self.lists {
            put(&mut bytes, *key);
            put(&mut bytes, list.len() as u64);
            list.iter().for_each(|from| bytes.extend_from_slice(&from.to_le_bytes()));
        }
        put(&mut bytes, self.runs.len() as u64);
        for (key, from) in &self.runs {
            put(&mut bytes, *key);
            bytes.extend_from_slice(&from.to_le_bytes());
        }
        put(&mut bytes, self.blocks.len() as u64);
        for block in &self.blocks {
            bytes.extend_from_slice(&block.from.to_le_bytes());
            put(&mut bytes, block.earliest);
            put(&mut bytes, block.latest);
        }
        let digest = Digest::of(&bytes).to_string();
        bytes.extend_from_slice(digest.as_bytes());
        let new: PathBuf = path.with_extension(format!("index-{}", std::process::id()));
        let _ = std::fs::remove_file(&new);
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .and_then(|mut file| file.write_all(&bytes))
            .and_then(|()| std::fs::rename(&new, path));
        if written.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        written
    }
}

/// A number for a name. Two names may share one: what is found is compared with what was asked.
fn number(kind: &str, name: &str) -> u64 {
    // FNV-1a, which every version of this program computes alike.
    let bytes = kind.bytes().chain([0]).chain(name.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// What an index has to begin with to belong to a file.
fn identity(head: &Head, length: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    put(&mut bytes, head.seq);
    bytes.extend_from_slice(head.digest.to_string().as_bytes());
    put(&mut bytes, length);
    bytes
}

fn put(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_le_bytes());
}

fn read(path: &Path, head: &Head, length: u64) -> Option<Index> {
    let mut bytes = Vec::new();
    files::open_to_read(path).ok()?.read_to_end(&mut bytes).ok()?;
    let (content, digest) = bytes.split_last_chunk::<64>()?;
    if Digest::of(content).to_string().as_bytes() != digest {
        return None;
    }
    let mut rest = Rest(content.strip_prefix(identity(head, length).as_slice())?);
    let mut index = Index::default();
    for _ in 0..rest.long()? {
        let (key, count) = (rest.long()?, usize::try_from(rest.long()?).ok()?);
        let list = rest.take(count.checked_mul(4)?)?.as_chunks::<4>().0;
        index.lists.insert(key, list.iter().map(|from| u32::from_le_bytes(*from)).collect());
    }
    let runs = usize::try_from(rest.long()?).ok()?;
    for _ in 0..runs {
        index.runs.push((rest.long()?, rest.short()?));
    }
    for _ in 0..rest.long()? {
        index.blocks.push(Block { from: rest.short()?, earliest: rest.long()?, latest: rest.long()? });
    }
    Some(index)
}

/// What is still to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn long(&mut self) -> Option<u64> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*taken))
    }

    fn short(&mut self) -> Option<u32> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*taken))
    }
}
