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
    fn json_that_is_made_visible_means_the_same() {
        let line = "{\"a\":\"x\u{202e}y\u{7f}\u{9b}\u{feff} é\"}";
        let shown = visible_json(line);
        assert_eq!(shown, "{\"a\":\"x\\u202ey\\u007f\\u009b\\ufeff é\"}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
        assert_eq!(read(&shown), read(line));
    }
}
