//! Names of variables: which are well-formed, and how any of them is shown without harm.

use crate::detect::registry;
use serde::Serializer;
use std::ffi::OsStr;

/// What a person still reads of a name.
const LONGEST_SHOWN: usize = 128;

/// What is wrong with the name, if anything. Stricter than the kernel: shells and programs disagree about all other names.
pub(super) fn malformed(name: &[u8]) -> Option<&'static str> {
    match name.first() {
        None => Some("an empty name"),
        Some(first) if first.is_ascii_digit() => Some("a name that begins with a digit"),
        _ if name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') => None,
        _ => Some("a name with other characters than letters, digits and `_`"),
    }
}

pub(super) fn has_nul(value: &[u8]) -> Option<&'static str> {
    value.contains(&0).then_some("a NUL byte in the value")
}

/// The label of the credential that stands where a well-formed name should be, after a slip of the hand. A key has 20 bytes or more
/// and a digit among them; almost no name has both.
pub(super) fn key_as_name(name: &[u8]) -> Option<&'static str> {
    if name.len() < 20 || !name.iter().any(u8::is_ascii_digit) { None } else { registry::value_shape(name) }
}

/// The name as it may be printed: everything but printable ASCII is made visible, and it is cut after 128 characters. A name that looks
/// like a credential itself (a key in the wrong place, an entry without `=`) is not shown at all.
pub fn shown(name: &[u8]) -> String {
    let well_formed = malformed(name).is_none();
    let key = if well_formed { key_as_name(name) } else { registry::value_shape(name) };
    if let Some(label) = key {
        return format!("(not shown: {label})");
    }
    if well_formed && name.len() <= LONGEST_SHOWN {
        return String::from_utf8_lossy(name).into_owned();
    }
    if name.is_empty() {
        return "(empty)".to_owned();
    }
    let mut text = String::new();
    for (at, byte) in name.iter().enumerate() {
        let escaped = byte.escape_ascii();
        // Room for the sign that something is missing, unless this is the last.
        let room = LONGEST_SHOWN - usize::from(at + 1 < name.len());
        if text.len() + escaped.len() > room {
            text.push('…');
            break;
        }
        text.extend(escaped.map(char::from));
    }
    text
}

/// A value of ours, as JSON text.
pub(super) fn value<S: Serializer>(value: &OsStr, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&value.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_escaped_and_cut() {
        assert_eq!(shown(b"PATH"), "PATH");
        assert_eq!(shown(b"BASH_FUNC_x%%"), "BASH_FUNC_x%%");
        assert_eq!(shown(b"A\x1b[2J\n\xff"), "A\\x1b[2J\\n\\xff");
        assert_eq!(shown("\u{202e}X".as_bytes()), "\\xe2\\x80\\xaeX");
        assert_eq!(shown(b""), "(empty)");
        assert_eq!(shown(&[b'A'; 128]).chars().count(), 128);
        let cut = shown(&[b'A'; 129]);
        assert_eq!((cut.chars().count(), cut.ends_with('…')), (128, true));
        assert!(shown(&[0xff; 500]).chars().count() <= 128);
    }

    #[test]
    fn a_key_in_the_place_of_a_name_is_not_shown() {
        let key = format!("ghp_{}", "a1B2".repeat(9));
        assert_eq!(shown(key.as_bytes()), "(not shown: github token)");
    }
}
