//! What a value may be, and where it ends.

use super::Why;
use crate::secret::LARGEST;

/// A value has bytes, and not too many.
pub(super) fn sized(value: &[u8]) -> Result<(), Why> {
    match value.len() {
        0 => Err(Why::Empty),
        1..=LARGEST => Ok(()),
        _ => Err(Why::TooLarge),
    }
}

/// A single line without its end. Text of several lines stays as it is: keys in PEM form need their last line end.
pub(super) fn line(value: &[u8]) -> &[u8] {
    let Some(without) = value.strip_suffix(b"\n") else { return value };
    let without = without.strip_suffix(b"\r").unwrap_or(without);
    if without.contains(&b'\n') { value } else { without }
}

/// What a program or a keyring answered: text, with tabs and line ends at most. Anything else (colours, binary data) is not what was meant.
pub(super) fn checked(value: &[u8]) -> Result<&[u8], Why> {
    let value = line(value);
    sized(value)?;
    let odd = |byte: &u8| (*byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r')) || *byte == 0x7f;
    if value.iter().any(odd) || std::str::from_utf8(value).is_err() {
        return Err(Why::Garbage);
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_loses_its_end_and_several_keep_theirs() {
        for (value, expected) in [
            ("a", "a"),
            ("a\n", "a"),
            ("a\r\n", "a"),
            (" a \n", " a "),
            ("a\n\n", "a\n\n"),
            ("a\nb\n", "a\nb\n"),
            ("a\nb", "a\nb"),
        ] {
            assert_eq!(line(value.as_bytes()), expected.as_bytes(), "{value:?}");
        }
    }

    #[test]
    fn garbage_and_nothing_are_no_values() {
        assert_eq!(checked(b"\n"), Err(Why::Empty));
        assert_eq!(checked(b""), Err(Why::Empty));
        for wrong in [b"a\0b".as_slice(), b"\x1b[31mred", b"\xff\xfe", b"a\x7f"] {
            assert_eq!(checked(wrong), Err(Why::Garbage), "{wrong:?}");
        }
        assert_eq!(checked("pässwörd\n".as_bytes()), Ok("pässwörd".as_bytes()));
        assert_eq!(checked(&vec![b'a'; LARGEST + 1]), Err(Why::TooLarge));
    }
}
