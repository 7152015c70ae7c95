//! The small files we keep about a run: a header, one fact per line, and a last line without which nothing counts.
//!
//! Names may hold any byte, so that what is not plain is escaped. A file that a killed writer left half is no file.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::OsStringExt;

/// One fact: its name and its values.
pub(crate) type Line = (String, Vec<OsString>);

const END: &str = "end";

/// A text from its header and its lines.
pub(crate) fn write<'a>(header: &str, lines: impl IntoIterator<Item = (&'a str, Vec<&'a [u8]>)>) -> String {
    let mut text = format!("{header}\n");
    for (name, values) in lines {
        text.push_str(name);
        for value in values {
            text.push(' ');
            escape(&mut text, value);
        }
        text.push('\n');
    }
    text.push_str(END);
    text.push('\n');
    text
}

/// The lines of a whole text with this header; `None` for anything else.
pub(crate) fn read(header: &str, text: &[u8]) -> Option<Vec<Line>> {
    let text = std::str::from_utf8(text).ok()?;
    // What was cut off, be it in the middle of the last word, is not whole.
    let body = text.strip_prefix(header)?.strip_prefix('\n')?.strip_suffix('\n')?.strip_suffix(END)?;
    let body = if body.is_empty() { body } else { body.strip_suffix('\n')? };
    let mut lines = Vec::new();
    for line in body.lines() {
        let mut parts = line.split(' ');
        let name = parts.next().filter(|name| !name.is_empty())?;
        let values: Option<Vec<OsString>> =
            parts.map(|part| unescape(part).map(OsString::from_vec)).collect();
        lines.push((name.to_owned(), values?));
    }
    Some(lines)
}

/// The values of the first line of this name.
pub(crate) fn first<'a>(lines: &'a [Line], name: &str) -> Option<&'a [OsString]> {
    lines.iter().find(|(other, _)| other == name).map(|(_, values)| values.as_slice())
}

/// All lines of this name.
pub(crate) fn all<'a>(lines: &'a [Line], name: &'a str) -> impl Iterator<Item = &'a [OsString]> {
    lines.iter().filter(move |(other, _)| other == name).map(|(_, values)| values.as_slice())
}

/// A value that is a number.
pub(crate) fn number<T: std::str::FromStr>(value: &OsString) -> Option<T> {
    value.to_str()?.parse().ok()
}

fn escape(text: &mut String, value: &[u8]) {
    // An empty value would be no value.
    if value.is_empty() {
        text.push_str("\\e");
    }
    for &byte in value {
        match byte {
            b'!'..=b'[' | b']'..=b'~' => text.push(char::from(byte)),
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    if text == "\\e" {
        return Some(Vec::new());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'\\' => {
                let digits = rest.strip_prefix(b"x")?.get(..2)?;
                bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
                rest = &rest[3..];
            }
            b'!'..=b'~' => bytes.push(byte),
            _ => return None,
        }
    }
    (!bytes.is_empty()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::ffi::OsStrExt;

    const HEADER: &str = "keyward test 1";

    proptest! {
        #[test]
        fn any_bytes_survive_the_way(values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6)) {
            let text = write(HEADER, [("name", values.iter().map(Vec::as_slice).collect())]);
            let lines = read(HEADER, text.as_bytes()).unwrap();
            let back: Vec<Vec<u8>> = lines[0].1.iter().map(|value| value.as_bytes().to_vec()).collect();
            prop_assert_eq!(back, values);
        }

        #[test]
        fn a_text_that_was_cut_anywhere_is_none(value in prop::collection::vec(any::<u8>(), 0..40), cut: usize) {
            let text = write(HEADER, [("name", vec![value.as_slice()]), ("other", vec![b"x".as_slice()])]);
            let cut = cut % text.len();
            prop_assert!(read(HEADER, &text.as_bytes()[..cut]).is_none());
        }

        #[test]
        fn no_text_makes_the_reader_fall_over(text in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(HEADER, &text);
            let mut with_header = format!("{HEADER}\n").into_bytes();
            with_header.extend(&text);
            with_header.extend(b"\nend\n");
            let _ = read(HEADER, &with_header);
        }
    }
}
