//! Logs grow at their end. The last line of a move is written by git when it moves the ref; those before it are added by us.

use super::{Part, Types, Wanted};
use crate::git::base::path;
use crate::git::place;
use keyward_policy::git::refs::Line;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// No log of anybody's is larger.
const MOST: usize = 64 << 20;

/// The lines that a command added, by ref.
#[derive(Default)]
pub(super) struct Logs(BTreeMap<Vec<u8>, (Vec<Line>, u64)>);

impl Logs {
    pub(super) fn lines(&self, name: &[u8]) -> &[Line] {
        self.0.get(name).map(|(lines, _)| lines.as_slice()).unwrap_or_default()
    }

    /// The objects that they name, except for those of the last line, which git knows.
    pub(super) fn ids(&self) -> Vec<Vec<u8>> {
        let all = self.0.values().flat_map(|(lines, _)| lines);
        all.map(|line| line.new.clone()).collect()
    }

    /// These lines are the host's now.
    pub(super) fn note(&self, part: &mut Part, name: &[u8]) {
        if let Some((_, length)) = self.0.get(name) {
            part.base.logs.insert(OsStr::from_bytes(name).into(), *length);
        }
    }
}

/// Whether a command has added to a log.
pub(super) fn has_grown(part: &Part, name: &[u8]) -> bool {
    let length = place::stamp(&part.cage, &Path::new("logs").join(path(name))).map_or(0, place::Stamp::size);
    length > part.base.logs.get(OsStr::from_bytes(name)).copied().unwrap_or(0)
}

/// The lines that belong to what is about to come over.
pub(super) fn read(part: &Part, wanted: &Wanted) -> Logs {
    let mut logs = Logs::default();
    let mut names: Vec<Vec<u8>> =
        wanted.refs.iter().filter(|change| change.cage.is_some()).map(|change| change.name.clone()).collect();
    names.extend(wanted.grown.iter().filter(|name| *name != b"HEAD").cloned());
    names.push(b"HEAD".to_vec());
    for name in names.iter().map(Vec::as_slice) {
        let Ok((text, _)) = place::read(&part.cage, &Path::new("logs").join(path(name)), MOST) else {
            continue;
        };
        let known = part.base.logs.get(OsStr::from_bytes(name)).copied().unwrap_or(0);
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        let new = match text.get(known..) {
            Some(new) => new,
            // It was cut or made anew: of that only the last line is told.
            None => text.trim_ascii_end().rsplit(|&byte| byte == b'\n').next().unwrap_or_default(),
        };
        let lines = new.split(|&byte| byte == b'\n').filter_map(|line| Line::read(line, part.id_length));
        logs.0.insert(name.to_vec(), (lines.collect(), text.len() as u64));
    }
    logs
}

/// Adds lines to a log of the host's. Lines about objects that the host does not have stay out.
pub(super) fn add<'a>(
    part: &Part,
    name: &[u8],
    lines: impl Iterator<Item = &'a Line>,
    types: &Types,
) -> Result<(), Errno> {
    let is_there = |line: &&Line| {
        line.new.iter().all(|&byte| byte == b'0') || types.get(&line.new).is_some_and(Option::is_some)
    };
    let text: Vec<u8> = lines.filter(is_there).flat_map(Line::spelled).collect();
    if text.is_empty() {
        Ok(())
    } else {
        place::append(&part.host, &Path::new("logs").join(path(name)), &text)
    }
}
