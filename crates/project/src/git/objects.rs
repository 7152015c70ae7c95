//! Reads a small blob of a repository, loose or packed, without git: git would obey the repository's settings.
//!
//! What lies in a repository may be an earlier command's. Sizes, depths and counts are bounded, and what was read is compared with its name.

use flate2::read::ZlibDecoder;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags};
use sha1::{Digest, Sha1};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A larger blob, or part of one, is not read.
const MOST: usize = 1 << 20;
/// Deltas may lead to deltas, as deep as git makes them.
const DEEPEST: usize = 64;
/// The length of an object's name.
const ID: usize = 20;

/// The name that git gives to a blob.
pub(super) fn id_of(content: &[u8]) -> [u8; ID] {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", content.len()));
    hash.update(content);
    hash.finalize().into()
}

/// The content of a blob.
pub(super) fn blob(objects: &Path, id: &[u8]) -> Option<Vec<u8>> {
    let content = loose(objects, id).or_else(|| packed(objects, id))?;
    (id_of(&content) == *id).then_some(content)
}

/// Opens a file that is not a link, and waits for nothing.
pub(super) fn open(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok()
}

fn open_regular(path: &Path) -> Option<File> {
    let file = open(path)?;
    let stat = rustix::fs::fstat(&file).ok()?;
    (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then(|| file.into())
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn loose(objects: &Path, id: &[u8]) -> Option<Vec<u8>> {
    let name = hex(id);
    let file = open_regular(&objects.join(&name[..2]).join(&name[2..]))?;
    let mut text = Vec::new();
    ZlibDecoder::new(file).take(MOST as u64 + 32).read_to_end(&mut text).ok()?;
    let end = text.iter().position(|&byte| byte == 0)?;
    text.starts_with(b"blob ").then(|| text.split_off(end + 1))
}

fn packed(objects: &Path, id: &[u8]) -> Option<Vec<u8>> {
    let packs = std::fs::read_dir(objects.join("pack")).ok()?.flatten().map(|entry| entry.path());
    packs.filter(|path| path.extension().is_some_and(|ending| ending == "idx")).find_map(|index| {
        let pack = Pack { index: open_regular(&index)?, pack: open_regular(&index.with_extension("pack"))? };
        let (kind, content) = pack.object(pack.offset(id)?, 0)?;
        (kind == BLOB).then_some(content)
    })
}

const BLOB: u8 = 3;
const OFFSET_DELTA: u8 = 6;
const ID_DELTA: u8 = 7;

/// A pack and its index (version 2).
struct Pack {
    index: File,
    pack: File,
}

impl Pack {
    fn index<const LENGTH: usize>(&self, at: u64) -> Option<[u8; LENGTH]> {
        let mut bytes = [0; LENGTH];
        self.index.read_exact_at(&mut bytes, at).ok().map(|()| bytes)
    }

    fn count(&self, byte: u8) -> Option<u64> {
        self.index::<4>(8 + 4 * u64::from(byte)).map(|count| u64::from(u32::from_be_bytes(count)))
    }

    /// Where an object begins in the pack.
    fn offset(&self, id: &[u8]) -> Option<u64> {
        const TABLES: u64 = 8 + 4 * 256;
        (self.index::<8>(0)? == *b"\xfftOc\0\0\0\x02").then_some(())?;
        let first = *id.first()?;
        let (mut low, mut high) =
            (first.checked_sub(1).map_or(Some(0), |before| self.count(before))?, self.count(first)?);
        let all = self.count(255)?;
        while low < high {
            let middle = low + (high - low) / 2;
            match self.index::<ID>(TABLES + middle * ID as u64)?.as_slice().cmp(id) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    let offsets = TABLES + all.checked_mul(ID as u64 + 4)?;
                    let offset = u32::from_be_bytes(self.index::<4>(offsets + 4 * middle)?);
                    if offset & 0x8000_0000 == 0 {
                        return Some(u64::from(offset));
                    }
                    let large = offsets + 4 * all + 8 * u64::from(offset & 0x7fff_ffff);
                    return self.index::<8>(large).map(u64::from_be_bytes);
                }
            }
        }
        None
    }

    /// The kind and the content of the object that begins there.
    fn object(&self, offset: u64, depth: usize) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 64];
        let length = self.pack.read_at(&mut head, offset).ok()?;
        let mut rest = head.get(..length)?.iter().copied();
        let first = rest.next()?;
        let kind = first >> 4 & 7;
        let (mut size, mut shift, mut more, mut used) = (u64::from(first & 15), 4, first & 128 != 0, 1);
        while more {
            let byte = rest.next()?;
            size |= u64::from(byte & 127).checked_shl(shift)?;
            (shift, more, used) = (shift + 7, byte & 128 != 0, used + 1);
        }
        if size > MOST as u64 || depth > DEEPEST {
            return None;
        }
        let base = match kind {
            OFFSET_DELTA => {
                let mut byte = rest.next()?;
                let mut back = u64::from(byte & 127);
                used += 1;
                while byte & 128 != 0 {
                    byte = rest.next()?;
                    back = (back.checked_add(1)?).checked_mul(128)? | u64::from(byte & 127);
                    used += 1;
                }
                Some(offset.checked_sub(back).filter(|base| *base < offset)?)
            }
            ID_DELTA => {
                let id = head.get(used..used + ID)?;
                used += ID;
                Some(self.offset(id)?)
            }
            _ => None,
        };
        let content = self.inflated(offset + used as u64, usize::try_from(size).ok()?)?;
        match base {
            None => Some((kind, content)),
            Some(base) => {
                let (kind, base) = self.object(base, depth + 1)?;
                Some((kind, patched(&base, &content)?))
            }
        }
    }

    fn inflated(&self, at: u64, size: usize) -> Option<Vec<u8>> {
        let mut content = Vec::with_capacity(size);
        let from = From { file: &self.pack, at };
        ZlibDecoder::new(from).take(size as u64).read_to_end(&mut content).ok()?;
        (content.len() == size).then_some(content)
    }
}

/// Reads a file from a place on.
struct From<'a> {
    file: &'a File,
    at: u64,
}

impl Read for From<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Puts a delta on top of its base.
fn patched(base: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let mut rest = delta.iter().copied();
    let mut number = || {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = rest.next()?;
            value |= u64::from(byte & 127).checked_shl(shift)?;
            shift += 7;
            if byte & 128 == 0 {
                return Some(value);
            }
        }
    };
    let (from, size) = (number()?, number()?);
    if from != base.len() as u64 || size > MOST as u64 {
        return None;
    }
    let mut out = Vec::with_capacity(usize::try_from(size).ok()?);
    while let Some(command) = rest.next() {
        if command & 128 != 0 {
            let mut part = |bits: std::ops::Range<u8>| -> Option<usize> {
                let mut value = 0;
                for (place, bit) in bits.enumerate() {
                    if command >> bit & 1 == 1 {
                        value |= usize::from(rest.next()?) << (8 * place);
                    }
                }
                Some(value)
            };
            let (at, length) = (part(0..4)?, part(4..7)?);
            let length = if length == 0 { 0x10000 } else { length };
            out.extend_from_slice(base.get(at..at.checked_add(length)?)?);
        } else if command == 0 {
            return None;
        } else {
            for _ in 0..command {
                out.push(rest.next()?);
            }
        }
        if out.len() as u64 > size {
            return None;
        }
    }
    (out.len() as u64 == size).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    fn git(folder: &Path, script: &str) -> String {
        let script = format!(
            "set -e; export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1; git init -q . 2>/dev/null; git config user.name a; git config user.email a@b; {script}"
        );
        let output = Command::new("sh").current_dir(folder).args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn id(text: &str) -> Vec<u8> {
        (0..20).map(|place| u8::from_str_radix(&text[2 * place..2 * place + 2], 16).unwrap()).collect()
    }

    #[test]
    fn blobs_are_read_as_git_reads_them_loose_packed_and_as_deltas() {
        let folder = tempfile::tempdir().unwrap();
        let script = "for n in $(seq 40); do seq 1 $((300 + n)) > f; echo line $n >> f; git add f; git commit -qm $n; done; git rev-list --all --objects | cut -d' ' -f1 | git cat-file --batch-check | grep blob | cut -d' ' -f1";
        let names = git(folder.path(), script);
        let expected: Vec<(Vec<u8>, String)> = names
            .lines()
            .map(|name| (id(name), git(folder.path(), &format!("git cat-file blob {name}"))))
            .collect();
        assert_eq!(expected.len(), 40);
        let objects = folder.path().join(".git/objects");
        for step in [
            "true",
            "git repack -adq --depth=30 --window=30",
            "git -c pack.indexVersion=2 repack -adfq --depth=5",
        ] {
            git(folder.path(), step);
            for (id, content) in &expected {
                assert_eq!(blob(&objects, id).as_deref(), Some(content.as_bytes()), "{step}");
            }
        }
        assert_eq!(blob(&objects, &[7; 20]), None);
    }

    proptest! {
        #[test]
        fn no_delta_makes_us_fall_over(base: Vec<u8>, delta: Vec<u8>) {
            let _ = patched(&base, &delta);
        }
    }
}
