//! What both sides of a repository last had in common, kept on disk so that the run after a killed one can go on from there.

use super::intent::Intent;
use super::place::{self, Stamp};
use super::refs;
use super::state::State;
use crate::lines;
use keyward_policy::untrusted::git::index::{self, Entries, Entry};
use keyward_policy::untrusted::git::refs::{Refs, Value, packed};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const HEADER: &str = "keyward base 1";
const INDEX: &str = "index";
const PACKED: &str = "packed-refs";
const REFS: &str = "refs";
const REST: &str = "rest";

/// Of one part: the repository, a submodule, a working tree.
#[derive(Default)]
pub(super) struct Base {
    pub(super) head: Option<Value>,
    /// Read when they are needed: most commands move none.
    pub(super) refs: Option<Refs>,
    /// Whether they are not what is on disk, and what else is there.
    pub(super) has_moved: bool,
    pub(super) written: Vec<u8>,
    /// The cage's settings, as it was given them.
    pub(super) config: Vec<u8>,
    /// The cage's settings when they were last taken over, if they were.
    pub(super) merged_config: Option<Vec<u8>>,
    /// A file with the index as both sides had it.
    pub(super) index: Option<PathBuf>,
    /// What the host was given beyond that index, while something else of the command's has to wait.
    pub(super) ahead: Entries,
    /// The cage's index when it was last looked at.
    pub(super) index_stamp: Option<Stamp>,
    /// The host's.
    pub(super) host_index_stamp: Option<Stamp>,
    /// How long each log was.
    pub(super) logs: BTreeMap<OsString, u64>,
    /// Where the history was cut.
    pub(super) shallow: BTreeSet<Vec<u8>>,
    /// The stack of stashed work, the oldest first.
    pub(super) stash: Vec<Vec<u8>>,
    /// Files that say how far a merge or a rebase has come.
    pub(super) state: State,
    /// Objects that were brought over before.
    pub(super) seen: BTreeSet<String>,
    /// How many refs the command has made.
    pub(super) made: usize,
    /// What the user was told already.
    pub(super) told: BTreeSet<OsString>,
    /// What the refs of both sides looked like.
    pub(super) cage_refs: Vec<u8>,
    pub(super) host_refs: Vec<u8>,
}

impl Base {
    /// Writes down how it begins, when both sides are the same. `loose` are the refs that the host has in files of their own.
    pub(super) fn begin(mut self, place: &Path, from: &Path, to: &Path, loose: &Refs) -> std::io::Result<()> {
        let (host, cage) = (open(from)?, open(to)?);
        self.state = State::read(&cage);
        let id_length = super::inspect::id_length(&host);
        self.stash = super::exchange::stash(&host, id_length);
        self.shallow = super::exchange::cuts(&cage);
        self.index_stamp = place::stamp(&cage, Path::new(INDEX));
        self.host_index_stamp = place::stamp(&host, Path::new(INDEX));
        self.cage_refs = refs::signature(&cage);
        self.host_refs = refs::signature(&host);
        std::fs::create_dir_all(place)?;
        for name in [INDEX, PACKED] {
            match std::fs::copy(to.join(name), place.join(name)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        std::fs::write(place.join(REFS), spelled(loose))?;
        self.write_rest(place, loose)
    }

    /// All refs that both sides had.
    pub(super) fn refs(&mut self, place: &Path) -> &mut Refs {
        self.refs.get_or_insert_with(|| {
            let text = |name: &str| std::fs::read(place.join(name)).unwrap_or_default();
            let mut all = packed(&text(PACKED));
            all.extend(packed(&text(REFS)));
            let links = std::fs::read(place.join(REST)).ok().and_then(|text| lines::read(HEADER, &text));
            for (name, value) in links.iter().flat_map(|all| pairs(all, "link")) {
                if let Some(value) = Value::read(value.as_bytes()) {
                    all.insert(name.as_bytes().to_vec(), value);
                }
            }
            all
        })
    }

    /// Both sides have this now.
    pub(super) fn set(&mut self, place: &Path, name: &[u8], value: Option<Value>) {
        self.has_moved = true;
        match value {
            Some(value) => drop(self.refs(place).insert(name.to_vec(), value)),
            None => drop(self.refs(place).remove(name)),
        }
    }

    /// Writes down what has changed.
    pub(super) fn write(&mut self, place: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(place)?;
        let refs = std::mem::take(self.refs(place));
        if self.has_moved {
            // Where we are killed in between, the next exchange sees a change that is none.
            replace(&place.join(REFS), &spelled(&refs))?;
        }
        self.write_rest(place, &refs)?;
        self.refs = Some(refs);
        Intent::remove(place);
        if !std::mem::take(&mut self.has_moved) {
            return Ok(());
        }
        match std::fs::remove_file(place.join(PACKED)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn write_rest(&mut self, place: &Path, refs: &Refs) -> std::io::Result<()> {
        let mut all: Vec<(&str, Vec<&[u8]>)> = Vec::new();
        let head = self.head.as_ref().map(Value::spelled);
        all.extend(head.iter().map(|head| ("head", vec![head.as_slice()])));
        all.push(("config", vec![&self.config]));
        all.extend(self.merged_config.iter().map(|text| ("merged-config", vec![text.as_slice()])));
        let links: Vec<(&Vec<u8>, Vec<u8>)> = refs
            .iter()
            .filter(|(_, value)| matches!(value, Value::To(_)))
            .map(|(name, value)| (name, value.spelled()))
            .collect();
        all.extend(links.iter().map(|(name, value)| ("link", vec![name.as_slice(), value.as_slice()])));
        let lengths: Vec<(&OsString, String)> =
            self.logs.iter().map(|(name, length)| (name, length.to_string())).collect();
        all.extend(lengths.iter().map(|(name, length)| ("log", vec![name.as_bytes(), length.as_bytes()])));
        all.extend(self.shallow.iter().map(|id| ("shallow", vec![id.as_slice()])));
        all.extend(self.stash.iter().map(|id| ("stash", vec![id.as_slice()])));
        all.extend(
            self.state.files().map(|(name, content)| ("state", vec![name.as_os_str().as_bytes(), content])),
        );
        all.extend(self.seen.iter().map(|name| ("seen", vec![name.as_bytes()])));
        all.extend(self.told.iter().map(|text| ("told", vec![text.as_bytes()])));
        let stamps = [("index-stamp", self.index_stamp), ("host-index-stamp", self.host_index_stamp)];
        let stamps: Vec<(&str, Vec<u8>)> =
            stamps.iter().filter_map(|(name, stamp)| Some((*name, stamp.as_ref()?.spelled()))).collect();
        all.extend(stamps.iter().map(|(name, stamp)| (*name, vec![stamp.as_slice()])));
        let ahead: Vec<(&Vec<u8>, Vec<Vec<u8>>)> = self
            .ahead
            .iter()
            .map(|(name, entries)| (name, entries.iter().map(Entry::spelled).collect()))
            .collect();
        all.extend(ahead.iter().map(|(name, entries)| {
            let values = std::iter::once(*name).chain(entries);
            ("ahead", values.map(Vec::as_slice).collect())
        }));
        let made = self.made.to_string();
        all.push(("made", vec![made.as_bytes()]));
        all.push(("cage-refs", vec![&self.cage_refs]));
        all.push(("host-refs", vec![&self.host_refs]));
        let text = lines::write(HEADER, all).into_bytes();
        if text != self.written {
            replace(&place.join(REST), &text)?;
            self.written = text;
        }
        Ok(())
    }

    pub(super) fn read(place: &Path) -> Option<Self> {
        let written = std::fs::read(place.join(REST)).ok()?;
        let all = lines::read(HEADER, &written)?;
        let bytes = |name: &str| {
            let value = lines::first(&all, name).and_then(<[_]>::first);
            value.map(|value| value.as_bytes().to_vec())
        };
        let ones = |name: &'static str| lines::all(&all, name).filter_map(|values| values.first().cloned());
        let ahead = |values: &[OsString]| {
            let (name, entries) = values.split_first()?;
            let entries: Option<Vec<Entry>> =
                entries.iter().map(|text| Entry::read(text.as_bytes())).collect();
            Some((name.as_bytes().to_vec(), entries?))
        };
        let stamp = |name: &str| bytes(name).and_then(|text| Stamp::read(&text));
        Some(Base {
            head: bytes("head").and_then(|text| Value::read(&text)),
            refs: None,
            has_moved: false,
            written,
            config: bytes("config")?,
            merged_config: bytes("merged-config"),
            index: Some(place.join(INDEX)).filter(|index| index.is_file()),
            ahead: lines::all(&all, "ahead").filter_map(ahead).collect(),
            index_stamp: stamp("index-stamp"),
            host_index_stamp: stamp("host-index-stamp"),
            logs: pairs(&all, "log")
                .filter_map(|(name, length)| Some((name, lines::number(&length)?)))
                .collect(),
            state: State::of(
                pairs(&all, "state").map(|(name, content)| (name.into(), content.as_bytes().to_vec())),
            ),
            shallow: ones("shallow").map(|id| id.as_bytes().to_vec()).collect(),
            stash: ones("stash").map(|id| id.as_bytes().to_vec()).collect(),
            seen: ones("seen").filter_map(|name| name.into_string().ok()).collect(),
            made: ones("made").next().and_then(|text| lines::number(&text)).unwrap_or(0),
            told: ones("told").collect(),
            cage_refs: bytes("cage-refs")?,
            host_refs: bytes("host-refs")?,
        })
    }

    /// Keeps an index as the one that both sides have.
    pub(super) fn keep_index(&mut self, place: &Path, content: &[u8]) -> std::io::Result<()> {
        let kept = place.join(INDEX);
        replace(&kept, content)?;
        self.index = Some(kept);
        self.ahead.clear();
        Ok(())
    }
}

impl Base {
    /// Notes what the host has now of entries that it was to stage.
    pub(super) fn note_staged<'a>(
        &mut self,
        here: &Entries,
        wanted: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<Entry>)>,
    ) {
        for (name, entries) in wanted {
            let now = here.get(name).map(Vec::as_slice).unwrap_or_default();
            if let Some(staged) = index::staged_so_far(now, entries) {
                self.ahead.insert(name.clone(), staged);
            }
        }
    }
}

/// Refs as `packed-refs` has them; those that lead to others are kept elsewhere.
pub(super) fn spelled(refs: &Refs) -> Vec<u8> {
    let mut text = Vec::with_capacity(refs.len() * 64);
    for (name, value) in refs {
        if let Value::Id(id) = value {
            [id.as_slice(), b" ", name, b"\n"].iter().for_each(|part| text.extend_from_slice(part));
        }
    }
    text
}

/// The first two values of each line of a name.
fn pairs<'a>(all: &'a [lines::Line], name: &'a str) -> impl Iterator<Item = (OsString, OsString)> + 'a {
    lines::all(all, name).filter_map(|values| Some((values.first()?.clone(), values.get(1)?.clone())))
}

/// Written beside and put in its place.
pub(super) fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let beside = path.with_extension("new");
    std::fs::write(&beside, content)?;
    std::fs::rename(beside, path)
}

pub(super) fn open(folder: &Path) -> std::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::open(folder, flags, Mode::empty())?)
}

/// A path of git's, relative to its folder, in bytes.
pub(super) fn path(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}
