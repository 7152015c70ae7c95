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

/// Larger logs are not read.
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

/// The lines that belong to what is about to come over: those up to the value that was read. What came after it is for the next time.
pub(super) fn read(part: &Part, wanted: &Wanted, is_last: bool) -> Logs {
    let mut logs = Logs::default();
    let moved = wanted.refs.iter().filter_map(|change| {
        let value = change.cage.as_ref()?;
        Some((change.name.as_slice(), value.id()))
    });
    let grown = wanted.grown.iter().map(|(name, id)| (name.as_slice(), Some(id.as_slice())));
    for (name, id) in moved.chain(grown) {
        let Ok((text, _)) = place::read(&part.cage, &Path::new("logs").join(path(name)), MOST) else {
            continue;
        };
        let known = part.base.logs.get(OsStr::from_bytes(name)).copied().unwrap_or(0);
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        // One that was cut or made anew: of that only the last line is told.
        let last = text.trim_ascii_end().iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let mut at = if known <= text.len() { known } else { last };
        let (mut lines, mut end, mut length) = (Vec::new(), 0, at);
        for line in text[at..].split_inclusive(|&byte| byte == b'\n') {
            at += line.len();
            let Some(line) = Line::read(line.trim_ascii_end(), part.id_length) else { continue };
            let is_end = id.is_none_or(|id| line.new == id);
            lines.push(line);
            if is_end {
                (end, length) = (lines.len(), at);
            }
        }
        if end == 0 && is_last {
            (end, length) = (lines.len(), at);
        }
        lines.truncate(end);
        logs.0.insert(name.to_vec(), (lines, length as u64));
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

/// Gives the last line of a log the words of the command's, if it is about the same.
pub(super) fn reword(part: &Part, name: &[u8], line: &Line) {
    let path = Path::new("logs").join(path(name));
    let Ok((text, _)) = place::read(&part.host, &path, MOST) else { return };
    let start = text.trim_ascii_end().iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let last = Line::read(text[start..].trim_ascii_end(), part.id_length);
    if last.is_some_and(|last| last.new == line.new) {
        let unchanged =
            |_: Option<place::Thing>| place::read(&part.host, &path, MOST).is_ok_and(|(now, _)| now == text);
        // A log is for people: with the words of the branch it is right as well.
        let _ = place::replace(&part.host, &path, &[&text[..start], &line.spelled()].concat(), unchanged);
    }
}
