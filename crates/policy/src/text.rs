//! How paths and arguments become text for people and JSON: control characters and bytes that are not UTF-8 are made visible.

use serde::Serializer;
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A string that is safe on a terminal.
pub fn visible(text: &OsStr) -> String {
    let text = text.to_string_lossy();
    if text.chars().all(is_plain) {
        return text.into_owned();
    }
    text.chars().map(|c| if is_plain(c) { c.to_string() } else { c.escape_unicode().to_string() }).collect()
}

/// A word as one types it in a shell: with quotes where it needs them.
pub fn typed(word: &str) -> Cow<'_, str> {
    if is_typed_plainly(word) { word.into() } else { format!("'{}'", word.replace('\'', r"'\''")).into() }
}

/// Words as one types them: where one ends and the next begins can be seen.
pub fn typed_words<W: AsRef<str>>(words: &[W]) -> String {
    words.iter().map(|word| typed(word.as_ref())).collect::<Vec<_>>().join(" ")
}

/// The same for the words of a command, with a place in them: `span` counts the bytes of the words, joined by single blanks, and is
/// given back for the text. Bytes that are no UTF-8 are lost.
pub fn typed_command(words: &[&[u8]], span: Option<(usize, usize)>) -> (String, Option<(usize, usize)>) {
    let mut text = String::new();
    let mut at = 0;
    let (mut start, mut end) = (None, None);
    let mut mark = |at: usize, length: usize| {
        if let Some((from, to)) = span {
            start = start.or((at >= from).then_some(length));
            end = end.or((at >= to).then_some(length));
        }
    };
    for (number, word) in words.iter().enumerate() {
        if number > 0 {
            mark(at, text.len());
            text.push(' ');
            at += 1;
        }
        let is_plain = str::from_utf8(word).is_ok_and(is_typed_plainly);
        text.push_str(if is_plain { "" } else { "'" });
        for chunk in word.utf8_chunks() {
            for c in chunk.valid().chars() {
                mark(at, text.len());
                match c {
                    '\'' => text.push_str(r"'\''"),
                    c => text.push(c),
                }
                at += c.len_utf8();
            }
            if !chunk.invalid().is_empty() {
                mark(at, text.len());
                text.push(char::REPLACEMENT_CHARACTER);
                at += chunk.invalid().len();
            }
        }
        // What ends with the word ends before its quote.
        mark(at, text.len());
        text.push_str(if is_plain { "" } else { "'" });
    }
    (text, start.zip(end))
}

fn is_typed_plainly(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "/._-+@%,:=".contains(c))
}

/// A line of JSON that is safe on a terminal and means the same: outside of strings JSON has none of these characters.
pub fn visible_json(line: &str) -> Cow<'_, str> {
    if line.chars().all(is_plain) {
        return line.into();
    }
    let escaped = |c: char| if is_plain(c) { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) };
    line.chars().map(escaped).collect()
}

/// Neither control characters nor marks that change the direction of writing.
fn is_plain(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

pub(crate) fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&visible(path.as_os_str()))
}

pub(crate) fn optional_path<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => serializer.serialize_some(&visible(path.as_os_str())),
        None => serializer.serialize_none(),
    }
}

pub(crate) fn string<S: Serializer>(text: &OsStr, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&visible(text))
}

pub(crate) fn paths<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| visible(path.as_os_str())))
}

/// Arguments, without those that look like credentials.
pub(crate) fn strings<S: Serializer>(strings: &[OsString], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(crate::event::arguments(strings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_seen_as_words_and_a_place_in_them_stays_where_it_is() {
        let typed = |words: &[&str], span| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let (text, span) = typed_command(&words, span);
            let place = span.map(|(start, end)| text[start..end].to_owned());
            (text, place)
        };
        assert_eq!(typed(&["git", "push"], Some((0, 8))), ("git push".into(), Some("git push".into())));
        assert_eq!(typed(&["a b", "c"], Some((4, 5))), ("'a b' c".into(), Some("c".into())));
        assert_eq!(typed(&["sh", "-c", "x 'y' z"], Some((12, 13))).1, Some("z".into()));
        assert_eq!(typed(&["sh", "-c", "x 'y' z"], None).0, r"sh -c 'x '\''y'\'' z'");
        assert_eq!(typed(&["", "a\nb"], Some((1, 4))), ("'' 'a\nb'".into(), Some("a\nb".into())));
        let (text, span) = typed_command(&[b"\xff\xfe", b"rm"], Some((3, 5)));
        assert_eq!(
            (text.as_str(), span.map(|(start, end)| &text[start..end])),
            ("'\u{fffd}\u{fffd}' rm", Some("rm"))
        );
        // A place that is none.
        assert_eq!(typed(&["a"], Some((5, 9))), ("a".into(), None));
        assert_eq!(typed_words(&["rm", "a b", "--x=y", "$HOME"]), "rm 'a b' --x=y '$HOME'");
    }

    #[test]
    fn json_that_is_made_visible_means_the_same() {
        let line = "{\"a\":\"x\u{202e}y\u{7f}\u{9b}\u{feff} é\"}";
        let shown = visible_json(line);
        assert_eq!(shown, "{\"a\":\"x\\u202ey\\u007f\\u009b\\ufeff é\"}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
        assert_eq!(read(&shown), read(line));
    }
}
