//! One text in a JSON file, by its pointer (RFC 6901).
//!
//! A parser that builds a tree would leave every value of the file in memory. So serde_json says whether the file is JSON, without keeping
//! any of it, and the way along the pointer is walked here over the bytes; only the one text is decoded, into its own place.

use super::{Why, text};
use crate::secret::{Buffer, Secret, Unread};

const NOT_JSON: Why = Why::Malformed("the file is not valid JSON");

pub(super) fn find(bytes: &[u8], pointer: &str) -> Result<Secret, Why> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    serde_json::from_slice::<serde::de::IgnoredAny>(bytes).map_err(|_| NOT_JSON)?;
    let mut at = bytes.trim_ascii();
    for token in pointer.split('/').skip(1) {
        at = step(at, token)?.ok_or(Why::NoSuchPart)?;
    }
    let (value, _) = split(at)?;
    let mut buffer = Buffer::new(value.len());
    match value.first() {
        Some(b'"') => unescape(inside(value), &mut |byte| buffer.push(byte))?,
        Some(b'-' | b'0'..=b'9') => value.iter().try_for_each(|byte| buffer.push(*byte))?,
        _ => return Err(Why::NoSuchPart),
    }
    text::sized(buffer.bytes())?;
    if std::str::from_utf8(buffer.bytes()).is_err() || buffer.bytes().contains(&0) {
        return Err(Why::Garbage);
    }
    Ok(buffer.into_secret())
}

/// The value that a token leads to. If a name is there twice, the last one counts, as for other readers.
fn step<'a>(at: &'a [u8], token: &str) -> Result<Option<&'a [u8]>, Why> {
    let (open, mut rest) = at.split_first().ok_or(NOT_JSON)?;
    let mut found = None;
    let index = index(token);
    if !matches!(open, b'{' | b'[') {
        return Ok(None);
    }
    for number in 0.. {
        rest = rest.trim_ascii_start();
        rest = rest.strip_prefix(b",").unwrap_or(rest).trim_ascii_start();
        if matches!(rest.first(), Some(b'}' | b']') | None) {
            break;
        }
        let mut is_meant = *open == b'[' && index == Some(number);
        if *open == b'{' {
            let (name, after) = split(rest)?;
            is_meant = is_token(inside(name), token)?;
            rest = after.trim_ascii_start().strip_prefix(b":").ok_or(NOT_JSON)?.trim_ascii_start();
        }
        if is_meant {
            found = Some(rest);
        }
        rest = split(rest)?.1;
    }
    Ok(found)
}

fn index(token: &str) -> Option<usize> {
    let plain = token == "0" || !token.starts_with(['0', '+']);
    token.parse().ok().filter(|_| plain)
}

/// The value that begins here, and what follows it.
fn split(at: &[u8]) -> Result<(&[u8], &[u8]), Why> {
    let mut depth = 0usize;
    let mut position = 0;
    while let Some(byte) = at.get(position) {
        match byte {
            b'"' => {
                let mut escaped = false;
                let text = at.get(position + 1..).unwrap_or_default();
                let closing = text.iter().position(|byte| {
                    let closes = *byte == b'"' && !escaped;
                    escaped = *byte == b'\\' && !escaped;
                    closes
                });
                position += closing.ok_or(NOT_JSON)? + 2;
            }
            b'{' | b'[' => {
                depth += 1;
                position += 1;
                continue;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1).ok_or(NOT_JSON)?;
                position += 1;
            }
            b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' => {
                position += 1;
                continue;
            }
            _ => {
                let word = at.get(position..).unwrap_or_default();
                let ends =
                    |byte: &u8| matches!(byte, b',' | b':' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n');
                position += word.iter().position(ends).unwrap_or(word.len());
            }
        }
        if depth == 0 {
            return Ok(at.split_at(position));
        }
    }
    Err(NOT_JSON)
}

/// A text without its quotes.
fn inside(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or_default()
}

/// Whether a name is the one that a token means.
fn is_token(name: &[u8], token: &str) -> Result<bool, Why> {
    let token = token.replace("~1", "/").replace("~0", "~");
    let mut expected = token.bytes();
    let mut same = true;
    unescape(name, &mut |byte| {
        same &= expected.next() == Some(byte);
        Ok(())
    })?;
    Ok(same && expected.next().is_none())
}

/// Each byte that a text stands for.
fn unescape(text: &[u8], push: &mut dyn FnMut(u8) -> Result<(), Unread>) -> Result<(), Why> {
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            push(*byte)?;
            continue;
        }
        let (escape, after) = rest.split_first().ok_or(NOT_JSON)?;
        rest = after;
        match escape {
            b'b' => push(8)?,
            b'f' => push(12)?,
            b'n' => push(b'\n')?,
            b'r' => push(b'\r')?,
            b't' => push(b'\t')?,
            b'u' => {
                let (mut code, mut after) = hexadecimal(rest)?;
                if (0xd800..0xdc00).contains(&code) {
                    let (low, behind) = hexadecimal(after.strip_prefix(b"\\u").ok_or(NOT_JSON)?)?;
                    code = 0x1_0000 + ((code - 0xd800) << 10) + low.checked_sub(0xdc00).ok_or(NOT_JSON)?;
                    after = behind;
                }
                rest = after;
                let mut place = [0; 4];
                let character = char::from_u32(code).ok_or(NOT_JSON)?;
                character.encode_utf8(&mut place).bytes().try_for_each(&mut *push)?;
                zeroize::Zeroize::zeroize(&mut place);
            }
            other => push(*other)?,
        }
    }
    Ok(())
}

fn hexadecimal(text: &[u8]) -> Result<(u32, &[u8]), Why> {
    let (digits, rest) = text.split_at_checked(4).ok_or(NOT_JSON)?;
    let digit = |number: u32, byte: &u8| Some(number * 16 + char::from(*byte).to_digit(16)?);
    Ok((digits.iter().try_fold(0, digit).ok_or(NOT_JSON)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(file: &str, pointer: &str) -> Result<String, Why> {
        find(file.as_bytes(), pointer).map(|secret| String::from_utf8(secret.expose().to_vec()).unwrap())
    }

    const FILE: &str = r#" {"token": "abc", "accounts" : [ {"key":"k0", "n": {"deep":["x", "y"]}} , {"key": "a\"b\\\u00e9\ud83d\ude00\n"} ],
        "a/b": {"m~n": "escaped"}, "": "nameless", "number": -12.5e3, "yes": true, "none": null, "\u0061\u0062": "ab", "token2": "",
        "twice": 1, "twice": 2, "odd": "},]\"\\", "after": "1", "nul": "a\u0000b"} "#;

    #[test]
    fn pointers_lead_to_texts_and_numbers() {
        for (pointer, value) in [
            ("/token", "abc"),
            ("/accounts/0/key", "k0"),
            ("/accounts/0/n/deep/1", "y"),
            ("/accounts/1/key", "a\"b\\é😀\n"),
            ("/a~1b/m~0n", "escaped"),
            ("/", "nameless"),
            ("/number", "-12.5e3"),
            ("/ab", "ab"),
            ("/twice", "2"),
            ("/odd", "},]\"\\"),
            ("/after", "1"),
        ] {
            assert_eq!(found(FILE, pointer).as_deref(), Ok(value), "{pointer}");
        }
        assert_eq!(found("\"whole\"", "").as_deref(), Ok("whole"));
    }

    #[test]
    fn other_ways_lead_nowhere() {
        for pointer in [
            "",
            "/accounts",
            "/yes",
            "/none",
            "/missing",
            "/accounts/2",
            "/accounts/00",
            "/accounts/-",
            "/token/x",
            "/accounts/+0/key",
        ] {
            assert_eq!(found(FILE, pointer), Err(Why::NoSuchPart), "{pointer}");
        }
        assert_eq!(found(FILE, "/token2"), Err(Why::Empty));
        assert_eq!(found(FILE, "/nul"), Err(Why::Garbage));
        for file in ["", "{", "{\"a\":1", "nope", "{'a':1}", "[1,]", "{\"a\" \"b\"}"] {
            assert_eq!(found(file, "/a"), Err(NOT_JSON), "{file}");
        }
    }

    proptest! {
        /// The same way through a tree that was built.
        #[test]
        fn a_tree_gives_the_same(names in proptest::collection::vec("[ab/~\"\\\\é]{0,2}", 1..4), value in "\\PC{1,20}", others in 0usize..3) {
            let mut tree = serde_json::Value::String(value.clone());
            let mut pointer = String::new();
            for (level, name) in names.iter().enumerate() {
                if level % 2 == 0 {
                    let mut map = serde_json::Map::new();
                    for other in 0..others {
                        map.insert(format!("other{other}"), serde_json::json!(["}", {"x": "\"]"}, 1]));
                    }
                    map.insert(name.clone(), tree);
                    tree = map.into();
                    pointer = format!("/{}{pointer}", name.replace('~', "~0").replace('/', "~1"));
                } else {
                    tree = serde_json::json!(["[", tree]);
                    pointer = format!("/1{pointer}");
                }
            }
            for file in [serde_json::to_string(&tree).unwrap(), serde_json::to_string_pretty(&tree).unwrap()] {
                prop_assert_eq!(found(&file, &pointer), Ok(value.clone()), "{} {}", file, pointer);
            }
        }

        #[test]
        fn any_bytes_are_json_or_not(file in "[\\[\\]{}\",:a\\\\u0 ]{0,40}", pointer in "(/[a0]?){0,3}") {
            let _ = find(file.as_bytes(), &pointer);
        }
    }
}
