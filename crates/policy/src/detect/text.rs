//! Small looks at the text of settings that all readers of them share.

/// Where a sign begins.
pub(super) fn find(text: &[u8], sign: &[u8]) -> Option<usize> {
    text.windows(sign.len()).position(|part| part == sign)
}

pub(super) fn contains(text: &[u8], sign: &[u8]) -> bool {
    find(text, sign).is_some()
}

/// Where the quote ends that stands before this text. Only in double quotes can a quote be escaped.
pub(super) fn closing(text: &[u8], quote: u8) -> Option<usize> {
    let mut escaped = false;
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quote == b'"' => escaped = true,
            _ if byte == quote => return Some(at),
            _ => {}
        }
    }
    None
}

/// A value that reaches to the end of its line, without a comment.
pub(super) fn without_comment(value: &[u8]) -> &[u8] {
    let end = value.windows(2).position(|pair| pair[0].is_ascii_whitespace() && pair[1] == b'#');
    value[..end.unwrap_or(value.len())].trim_ascii_end()
}

/// A value without the quotes around it.
pub(super) fn unquoted(value: &[u8]) -> &[u8] {
    match value {
        [first, inner @ .., last] if first == last && b"\"'`".contains(first) => inner,
        _ => value,
    }
}

/// The length of the name that a text ends with.
pub(super) fn name_length(text: &[u8]) -> usize {
    text.iter().rev().take(MOST_NAME).take_while(|byte| is_of_name(**byte)).count()
}

pub(super) fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)
}

/// No name of a setting is longer.
pub(super) const MOST_NAME: usize = 96;
