//! Logs grow at their end. The last line of a move is written by git when it moves the ref; those before it are added by us.

use super::{Part, Types, Wanted};
use crate::git::base::path;
use crate::git::place;
use keyward_policy::untrusted::git::refs::{Change, Line, Value};
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

    pub(super) fn names(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.0.keys()
    }

    /// The objects that they name, except for those of the last line, which git knows.
    pub(super) fn ids(&self) -> Vec<Vec<u8>> {
        let all = self.0.values().flat_map(|(lines, _)| lines);
        all.map(|line| line.new.clone()).collect()
    }

    /// The lines of `HEAD` before the one that git writes itself when the branch moves that `HEAD` leads to; that one, as the command has
    /// it; and those after it.
    pub(super) fn around_move(&self, change: &Change, id_length: usize) -> (&[Line], Option<&Line>, &[Line]) {
        let lines = self.lines(b"HEAD");
        let zeros = vec![b'0'; id_length * 2];
        let new = change.cage.as_ref().and_then(Value::id).unwrap_or(&zeros);
        let of_branch = self.lines(&change.name).last();
        let is_same = |line: &Line| {
            let same = |last: &Line| (&line.old, &line.message) == (&last.old, &last.message);
            line.new == new && of_branch.is_some_and(same)
        };
        let place = (lines.iter().rposition(is_same))
            .or_else(|| lines.iter().rposition(|line| line.new == new && line.old != new))
            .or_else(|| lines.iter().rposition(|line| line.new == new));
        match place {
            Some(place) => (&lines[..place], lines.get(place), &lines[place + 1..]),
            None => (lines, None, &lines[..0]),
        }
    }

    /// These lines stay in the cage.
    pub(super) fn forget(&mut self, name: &[u8]) {
        self.0.remove(name);
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
    let moved = wanted.refs.iter().chain(&wanted.both).filter_map(|change| {
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

/// How long a log of the host's is.
pub(super) fn length(part: &Part, name: &[u8]) -> usize {
    let stamp = place::stamp(&part.host, &Path::new("logs").join(path(name)));
    stamp.and_then(|stamp| usize::try_from(stamp.size()).ok()).unwrap_or(0)
}

/// Puts the command's own line, or none, in the place of the one that git has written to a log of this length.
pub(super) fn settle_last(part: &Part, name: &[u8], length: usize, own: Option<&Line>, types: &Types) {
    let path = Path::new("logs").join(path(name));
    let text = place::read(&part.host, &path, MOST).map(|(text, _)| text).unwrap_or_default();
    let Some((before, added)) = text.split_at_checked(length) else { return };
    let spelled = own.map(Line::spelled).unwrap_or_default();
    if added == spelled {
        return;
    }
    // A log is for people: with the words of the branch, or without this line, it is right as well.
    match added.split_inclusive(|&byte| byte == b'\n').count() {
        0 => drop(add(part, name, own.into_iter(), types)),
        1 => {
            let unchanged = |_: Option<place::Thing>| {
                place::read(&part.host, &path, MOST).is_ok_and(|(now, _)| now == text)
            };
            let _ = place::replace(&part.host, &path, &[before, &spelled].concat(), unchanged);
        }
        // The user's git has written, too.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ONE, Sides, THREE, TWO, line};
    use super::*;

    const MAIN: &[u8] = b"refs/heads/main";
    const ZEROS: &str = "0000000000000000000000000000000000000000";

    fn change(to: &str) -> Change {
        Change { name: MAIN.to_vec(), base: None, host: None, cage: Some(Value::Id(to.into())) }
    }

    fn messages(lines: &[Line]) -> Vec<&str> {
        lines.iter().map(|line| std::str::from_utf8(&line.message).unwrap()).collect()
    }

    /// The lines of a log that was known up to `known`, for a ref that is now at `at`.
    fn added(known: &str, text: &str, at: &str, is_last: bool) -> Logs {
        let mut sides = Sides::new();
        sides.write("cage/logs/refs/heads/main", text);
        sides.part.base.logs.insert("refs/heads/main".into(), known.len() as u64);
        let wanted = Wanted { refs: vec![change(at)], ..Wanted::default() };
        read(&sides.part, &wanted, is_last)
    }

    #[test]
    fn lines_that_are_known_and_lines_after_the_value_that_was_read_are_not_taken() {
        let known = line(ZEROS, ONE, "known");
        let text = format!("{known}{}{}", line(ONE, TWO, "new"), line(TWO, THREE, "later"));
        assert_eq!(messages(added(&known, &text, TWO, false).lines(MAIN)), ["new"]);
        assert_eq!(messages(added(&known, &text, THREE, false).lines(MAIN)), ["new", "later"]);
    }

    #[test]
    fn lines_that_do_not_lead_to_the_value_wait_and_are_taken_at_the_end() {
        let text = line(ONE, TWO, "elsewhere");
        assert!(added("", &text, THREE, false).lines(MAIN).is_empty());
        assert_eq!(messages(added("", &text, THREE, true).lines(MAIN)), ["elsewhere"]);
    }

    #[test]
    fn of_a_log_that_was_made_anew_only_the_last_line_is_told() {
        let known = line(ZEROS, ONE, "a long line that is known from before").repeat(4);
        let text = format!("{}{}", line(ZEROS, ONE, "forged"), line(ONE, TWO, "last"));
        assert_eq!(messages(added(&known, &text, TWO, false).lines(MAIN)), ["last"]);
    }

    #[test]
    fn a_log_has_grown_only_beyond_what_is_known_of_it() {
        let mut sides = Sides::new();
        let text = line(ZEROS, ONE, "one");
        assert!(!has_grown(&sides.part, MAIN));
        sides.write("cage/logs/refs/heads/main", &text);
        assert!(has_grown(&sides.part, MAIN));
        sides.part.base.logs.insert("refs/heads/main".into(), text.len() as u64);
        assert!(!has_grown(&sides.part, MAIN));
    }

    #[test]
    fn around_the_move_of_a_branch_the_lines_of_head_stay_in_their_order() {
        let lines = |texts: &[String]| -> Vec<Line> {
            texts.iter().map(|text| Line::read(text.trim_end().as_bytes(), 20).unwrap()).collect()
        };
        let head = [line(ONE, TWO, "checkout"), line(TWO, THREE, "commit"), line(THREE, ONE, "back")];
        let logs = Logs(BTreeMap::from([
            (b"HEAD".to_vec(), (lines(&head), 0)),
            (MAIN.to_vec(), (lines(&[line(TWO, THREE, "commit")]), 0)),
        ]));
        let (before, own, after) = logs.around_move(&change(THREE), 20);
        assert_eq!((messages(before), messages(after)), (vec!["checkout"], vec!["back"]));
        assert_eq!(own.map(|line| line.message.as_slice()), Some(&b"commit"[..]));
    }

    #[test]
    fn lines_about_objects_that_the_host_does_not_have_stay_out_of_its_log() {
        let sides = Sides::new();
        let lines: Vec<Line> =
            [line(ONE, TWO, "there"), line(TWO, THREE, "missing"), line(TWO, ZEROS, "gone")]
                .iter()
                .map(|text| Line::read(text.trim_end().as_bytes(), 20).unwrap())
                .collect();
        let types =
            Types::from([(TWO.into(), Some(crate::git::transport::Type::Commit)), (THREE.into(), None)]);
        add(&sides.part, MAIN, lines.iter(), &types).unwrap();
        let written = sides.read("host/logs/refs/heads/main");
        assert_eq!(written, line(ONE, TWO, "there") + &line(TWO, ZEROS, "gone"));
    }

    #[test]
    fn the_line_that_git_wrote_itself_becomes_the_commands() {
        let sides = Sides::new();
        let (before, own) = (line(ZEROS, ONE, "first"), line(ONE, TWO, "commit: mine"));
        let own_line = Line::read(own.trim_end().as_bytes(), 20).unwrap();
        let types = Types::from([(TWO.into(), Some(crate::git::transport::Type::Commit))]);
        let settle = |written: &str, own: Option<&Line>| {
            sides.write("host/logs/HEAD", &format!("{before}{written}"));
            settle_last(&sides.part, b"HEAD", before.len(), own, &types);
            sides.read("host/logs/HEAD").split_off(before.len())
        };
        let by_git = line(ONE, TWO, "keyward: taken over");
        assert_eq!(settle(&by_git, Some(&own_line)), own);
        assert_eq!(settle("", Some(&own_line)), own, "git wrote none");
        assert_eq!(settle(&by_git, None), "", "the command has none");
        let both = by_git.clone() + &line(TWO, THREE, "commit: the user's");
        assert_eq!(settle(&both, Some(&own_line)), both, "the user's git has written, too");
    }
}
