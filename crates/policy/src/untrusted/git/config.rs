//! Git's configuration files: read with the place of every entry, and merged by what is safe to take over.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

mod merge;
mod safe;

pub use merge::{Merged, Versions, merge, seen_after};
pub use safe::{is_network_url, is_ref, of_new_repository};

/// One entry, names in lower case as git compares them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: Name,
    /// `None` where only the key stands there, which means true.
    pub value: Option<Vec<u8>>,
    /// Where it stands in the text, with the end of its line.
    span: Range<usize>,
    /// Where its value stands, with quotes and without a comment.
    value_span: Range<usize>,
}

/// A part of a file, with the places of the text that belong to it.
pub(super) enum Part<'a> {
    /// A heading, and all that stands below it.
    Section {
        subsection: Option<&'a [u8]>,
        whole: Range<usize>,
    },
    Entry {
        entry: &'a Entry,
        line: Range<usize>,
        value: Range<usize>,
    },
    /// A comment, and what goes with it.
    Comment {
        comment: Range<usize>,
        place: Range<usize>,
    },
}

/// `section.subsection.key`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    pub section: String,
    pub subsection: Option<Vec<u8>>,
    pub key: String,
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.subsection {
            Some(middle) => {
                let middle = crate::text::visible(std::os::unix::ffi::OsStrExt::from_bytes(middle));
                write!(f, "{}.{middle}.{}", self.section, self.key)
            }
            None => write!(f, "{}.{}", self.section, self.key),
        }
    }
}

/// A heading such as `[branch "main"]`.
#[derive(Clone, Debug)]
struct Section {
    section: String,
    subsection: Option<Vec<u8>>,
    /// From the bracket to what follows it.
    span: Range<usize>,
    /// Where a further entry can be put.
    end: usize,
}

/// A file, read.
#[derive(Clone, Debug, Default)]
pub struct Config {
    text: Vec<u8>,
    sections: Vec<Section>,
    pub entries: Vec<Entry>,
    /// Comments, each with the place that it takes.
    comments: Vec<(Range<usize>, Range<usize>)>,
}

/// What git itself would not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

impl Config {
    /// Reads a file as git does.
    pub fn read(text: &[u8]) -> Result<Self, Unreadable> {
        let mut reader = Reader { text, at: 0, comments: Vec::new() };
        if text.starts_with(b"\xef\xbb\xbf") {
            reader.at = 3;
        }
        let mut config = Config { text: text.to_vec(), ..Config::default() };
        while let Some(byte) = reader.peek() {
            match byte {
                b'#' | b';' => reader.comment(),
                _ if is_blank(byte) => reader.at += 1,
                b'[' => config.sections.push(reader.section()?),
                _ if byte.is_ascii_alphabetic() => {
                    let section = config.sections.last_mut().ok_or(Unreadable)?;
                    let from = reader.at;
                    let key = reader.key();
                    let (value, value_span) = reader.value()?;
                    section.end = reader.at;
                    let name = Name {
                        section: section.section.clone(),
                        subsection: section.subsection.clone(),
                        key,
                    };
                    config.entries.push(Entry { name, value, span: from..reader.at, value_span });
                }
                _ => return Err(Unreadable),
            }
        }
        config.comments = reader.comments;
        Ok(config)
    }

    /// All headings, entries and comments.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let next = self.sections.iter().skip(1).map(|section| section.span.start).chain([self.text.len()]);
        let sections = self.sections.iter().zip(next).map(|(section, end)| Part::Section {
            subsection: section.subsection.as_deref(),
            whole: section.span.start..end,
        });
        let entries = self.entries.iter().map(|entry| Part::Entry {
            entry,
            line: self.indented(&entry.span),
            value: entry.value_span.clone(),
        });
        let comments = self
            .comments
            .iter()
            .map(|(comment, place)| Part::Comment { comment: comment.clone(), place: place.clone() });
        sections.chain(entries).chain(comments)
    }

    /// A place with the white space that it is indented by.
    fn indented(&self, span: &Range<usize>) -> Range<usize> {
        let indent = self.text[..span.start].iter().rev();
        let indent = indent.take_while(|&&byte| byte == b' ' || byte == b'\t').count();
        span.start - indent..span.end
    }

    /// A value as it is written in a file, with quotes where git needs them.
    pub(super) fn spell_value(value: &[u8]) -> Vec<u8> {
        // Quotes only where git would need them.
        let plain = value.iter().all(|&byte| byte.is_ascii_graphic() && !b"\"\\#;".contains(&byte));
        if plain && !value.is_empty() {
            return value.to_vec();
        }
        let mut out = vec![b'"'];
        for &byte in value {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\t' => out.extend_from_slice(b"\\t"),
                _ => out.push(byte),
            }
        }
        out.push(b'"');
        out
    }

    /// The last value of a key without a subsection, as git takes it.
    pub fn last(&self, section: &str, key: &str) -> Option<&[u8]> {
        let fits = |entry: &&Entry| {
            entry.name.section == section && entry.name.subsection.is_none() && entry.name.key == key
        };
        self.entries.iter().rev().find(fits).map(|entry| entry.value.as_deref().unwrap_or(b"true"))
    }

    /// Section, key and value of what has no subsection, in the order of the file.
    pub(super) fn plain(&self) -> impl Iterator<Item = (&str, &str, &[u8])> {
        let plain = self.entries.iter().filter(|entry| entry.name.subsection.is_none());
        plain.map(|entry| {
            let value = entry.value.as_deref().unwrap_or(b"true");
            (entry.name.section.as_str(), entry.name.key.as_str(), value)
        })
    }

    /// The text of settings that say who commits, and nothing else.
    pub fn of_author(name: &[u8], address: &[u8]) -> Vec<u8> {
        let lines = [spell_entry("name", Some(name)), spell_entry("email", Some(address))];
        [spell_section("user", None), lines.concat()].concat()
    }

    /// Values in the order of the file, by name.
    fn by_name(&self) -> BTreeMap<&Name, Vec<Option<&[u8]>>> {
        let mut all: BTreeMap<&Name, Vec<Option<&[u8]>>> = BTreeMap::new();
        for entry in &self.entries {
            all.entry(&entry.name).or_default().push(entry.value.as_deref());
        }
        all
    }

    pub fn values(&self, name: &Name) -> Vec<Option<Vec<u8>>> {
        self.entries.iter().filter(|entry| entry.name == *name).map(|entry| entry.value.clone()).collect()
    }

    /// The names in the second place of a section, such as those of all remotes.
    fn subsections(&self, section: &str) -> BTreeSet<Vec<u8>> {
        let of_section = self.entries.iter().filter(|entry| entry.name.section == section);
        of_section.filter_map(|entry| entry.name.subsection.clone()).collect()
    }

    fn has_section(&self, section: &str, subsection: Option<&[u8]>) -> bool {
        let same = |name: &Name| name.section == section && name.subsection.as_deref() == subsection;
        self.entries.iter().any(|entry| same(&entry.name))
    }

    /// The text without the entries of a name; a heading that is left with nothing goes too, as git does it.
    fn without(&self, name: &Name) -> Vec<u8> {
        self.without_those(|other| other == name)
    }

    /// The text without the entries of a subsection.
    fn without_section(&self, section: &str, subsection: &[u8]) -> Vec<u8> {
        self.without_those(|name| name.section == section && name.subsection.as_deref() == Some(subsection))
    }

    fn without_those(&self, goes: impl Fn(&Name) -> bool) -> Vec<u8> {
        let mut cut: Vec<Range<usize>> = Vec::new();
        for section in &self.sections {
            let of_section =
                |entry: &&Entry| entry.span.start >= section.span.end && entry.span.end <= section.end;
            let mut own = self.entries.iter().filter(of_section).peekable();
            if own.peek().is_some() && own.all(|entry| goes(&entry.name)) {
                cut.push(section.span.start..section.end);
            }
        }
        let spans = self.entries.iter().filter(|entry| goes(&entry.name)).map(|entry| entry.span.clone());
        for span in spans {
            if !cut.iter().any(|other| other.start <= span.start && span.end <= other.end) {
                cut.push(self.indented(&span));
            }
        }
        cut.sort_by_key(|range| range.start);
        let mut out = Vec::with_capacity(self.text.len());
        let mut at = 0;
        for range in cut {
            out.extend_from_slice(&self.text[at..range.start]);
            at = range.end;
        }
        out.extend_from_slice(&self.text[at..]);
        out
    }

    /// The text with one more entry, in its section if there is one.
    fn with(&self, name: &Name, value: Option<&[u8]>) -> Vec<u8> {
        let line = spell_entry(&name.key, value);
        let same =
            |section: &&Section| section.section == name.section && section.subsection == name.subsection;
        let mut out = self.text.clone();
        match self.sections.iter().rev().find(same) {
            Some(section) => {
                let mut insert = Vec::new();
                if section.end > 0 && out[section.end - 1] != b'\n' {
                    insert.push(b'\n');
                }
                insert.extend_from_slice(&line);
                out.splice(section.end..section.end, insert);
            }
            None => {
                if out.last().is_some_and(|&byte| byte != b'\n') {
                    out.push(b'\n');
                }
                out.extend_from_slice(&spell_section(&name.section, name.subsection.as_deref()));
                out.extend_from_slice(&line);
            }
        }
        out
    }
}

fn spell_section(section: &str, subsection: Option<&[u8]>) -> Vec<u8> {
    let mut out = format!("[{section}").into_bytes();
    if let Some(name) = subsection {
        out.extend_from_slice(b" \"");
        for &byte in name {
            if byte == b'"' || byte == b'\\' {
                out.push(b'\\');
            }
            out.push(byte);
        }
        out.push(b'"');
    }
    out.extend_from_slice(b"]\n");
    out
}

fn spell_entry(key: &str, value: Option<&[u8]>) -> Vec<u8> {
    let mut out = format!("\t{key}").into_bytes();
    if let Some(value) = value {
        out.extend_from_slice(b" = ");
        out.extend_from_slice(&Config::spell_value(value));
    }
    out.push(b'\n');
    out
}

/// White space as git counts it.
const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// The text without blanks at its end.
fn without_blanks(text: &[u8]) -> &[u8] {
    let blanks = text.iter().rev().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
    &text[..text.len() - blanks]
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    comments: Vec<(Range<usize>, Range<usize>)>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        match self.text.get(self.at..)? {
            [b'\r', b'\n', ..] => Some(b'\n'),
            rest => rest.first().copied(),
        }
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        // The two signs that end a line elsewhere count as one.
        self.at += if byte == b'\n' && self.text[self.at] == b'\r' { 2 } else { 1 };
        Some(byte)
    }

    /// A comment up to the end of its line. One that stands alone takes the whole line.
    fn comment(&mut self) {
        let from = self.at;
        while self.peek().is_some_and(|byte| byte != b'\n') {
            self.at += 1;
        }
        let comment = from..self.at;
        let before = without_blanks(&self.text[..from]);
        let _ = self.next();
        let is_alone = matches!(before.last(), None | Some(b'\n')) || before == b"\xef\xbb\xbf";
        let end = if is_alone { self.at } else { comment.end };
        self.comments.push((comment, before.len()..end));
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte == b' ' || byte == b'\t') {
            self.at += 1;
        }
    }

    fn section(&mut self) -> Result<Section, Unreadable> {
        let from = self.at;
        self.at += 1;
        let mut name = String::new();
        let subsection = loop {
            match self.next().ok_or(Unreadable)? {
                b']' => break None,
                b' ' | b'\t' | b'\r' => {
                    while self.peek().is_some_and(|byte| is_blank(byte) && byte != b'\n') {
                        self.at += 1;
                    }
                    break Some(self.quoted_subsection()?);
                }
                byte if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.' => {
                    name.push(char::from(byte.to_ascii_lowercase()));
                }
                _ => return Err(Unreadable),
            }
        };
        // The old spelling `[branch.main]`, always in lower case.
        let (section, subsection) = match (name.split_once('.'), subsection) {
            (Some((section, rest)), None) => (section.to_owned(), Some(rest.as_bytes().to_vec())),
            (Some((section, rest)), Some(more)) => {
                (section.to_owned(), Some([rest.as_bytes(), b".", &more].concat()))
            }
            (None, subsection) => (name, subsection),
        };
        if section.is_empty() {
            return Err(Unreadable);
        }
        // The rest of the line belongs to the heading if it is empty.
        let mut end = self.at;
        while self.text.get(end).is_some_and(|&byte| byte == b' ' || byte == b'\t' || byte == b'\r') {
            end += 1;
        }
        if self.text.get(end) == Some(&b'\n') {
            self.at = end + 1;
        }
        Ok(Section { section, subsection, span: from..self.at, end: self.at })
    }

    fn quoted_subsection(&mut self) -> Result<Vec<u8>, Unreadable> {
        if self.next() != Some(b'"') {
            return Err(Unreadable);
        }
        let mut name = Vec::new();
        loop {
            match self.next().ok_or(Unreadable)? {
                b'"' => break,
                b'\\' => name.push(self.next().filter(|&byte| byte != b'\n').ok_or(Unreadable)?),
                b'\n' | 0 => return Err(Unreadable),
                byte => name.push(byte),
            }
        }
        if self.next() == Some(b']') { Ok(name) } else { Err(Unreadable) }
    }

    fn key(&mut self) -> String {
        let mut key = String::new();
        while let Some(byte) = self.peek().filter(|byte| byte.is_ascii_alphanumeric() || *byte == b'-') {
            key.push(char::from(byte.to_ascii_lowercase()));
            self.at += 1;
        }
        key
    }

    /// The value of a key, and where it stands.
    fn value(&mut self) -> Result<(Option<Vec<u8>>, Range<usize>), Unreadable> {
        self.skip_blanks();
        match self.next() {
            None | Some(b'\n') => return Ok((None, self.at..self.at)),
            Some(b'=') => {}
            Some(_) => return Err(Unreadable),
        }
        let mut value = Vec::new();
        // Blanks count only when something follows them.
        let mut blanks = Vec::new();
        let mut quoted = false;
        let mut span = self.at..self.at;
        loop {
            let at = self.at;
            let byte = match self.next() {
                None if quoted => return Err(Unreadable),
                None => break,
                Some(b'\n') if quoted => return Err(Unreadable),
                Some(b'\n') => break,
                Some(0) => return Err(Unreadable),
                Some(byte) => byte,
            };
            if !quoted && is_blank(byte) {
                if !value.is_empty() {
                    blanks.push(byte);
                }
                continue;
            }
            if !quoted && (byte == b'#' || byte == b';') {
                while self.peek().is_some_and(|byte| byte != b'\n') {
                    if self.next() == Some(0) {
                        return Err(Unreadable);
                    }
                }
                self.comments.push((at..self.at, span.end..self.at));
                let _ = self.next();
                break;
            }
            value.append(&mut blanks);
            match byte {
                b'"' => quoted = !quoted,
                b'\\' => match self.next().ok_or(Unreadable)? {
                    b'\n' => {}
                    b'n' => value.push(b'\n'),
                    b't' => value.push(b'\t'),
                    b'b' => value.push(8),
                    byte @ (b'"' | b'\\') => value.push(byte),
                    _ => return Err(Unreadable),
                },
                byte => value.push(byte),
            }
            span = if span.is_empty() { at..self.at } else { span.start..self.at };
        }
        Ok((Some(value), span))
    }
}

#[cfg(test)]
mod tests;
