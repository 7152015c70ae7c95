//! Lines of `NAME=value`, as programs keep them in `.env`: `export`, comments, quotes, values over several lines. Nothing is expanded.

use super::{Why, text};
use crate::secret::{Buffer, Secret};

/// The value of a variable. If it is set twice, the last one counts, as for other readers of such files.
pub(crate) fn find(bytes: &[u8], name: &str) -> Result<Secret, Why> {
    let mut rest = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut found = None;
    while !rest.is_empty() {
        let (key, after) = key(rest);
        let (raw, after) = match key {
            Some(_) => value(after)?,
            None => (Raw::Plain(b""), after),
        };
        if key == Some(name.as_bytes()) {
            found = Some(raw);
        }
        rest = after;
    }
    let mut buffer = Buffer::new(bytes.len());
    match found.ok_or(Why::NoSuchPart)? {
        Raw::Plain(value) | Raw::Literal(value) => {
            value.iter().try_for_each(|byte| buffer.push(*byte))?;
        }
        Raw::Escaped(value) => unescape(value, &mut buffer)?,
    }
    text::sized(buffer.bytes())?;
    Ok(buffer.into_secret())
}

/// A line, or several, that set a variable.
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a str,
    /// The value as it is written, without its quotes.
    pub(crate) written: &'a [u8],
    /// Where in the file the value begins, and where what follows does.
    value: usize,
    end: usize,
}

/// All variables that are set, in their order.
pub(crate) fn entries(bytes: &[u8]) -> Result<Vec<Entry<'_>>, Why> {
    let mut rest = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (key, after) = key(rest);
        rest = after;
        let Some(key) = key else { continue };
        let begins = bytes.len() - after.len();
        let (Raw::Plain(written) | Raw::Literal(written) | Raw::Escaped(written), next) = value(after)?;
        rest = next;
        if let Ok(name) = std::str::from_utf8(key) {
            all.push(Entry { name, written, value: begins, end: bytes.len() - next.len() });
        }
    }
    Ok(all)
}

/// The file with other values for some variables; everything else in it stays.
pub(crate) fn replaced(bytes: &[u8], with: &dyn Fn(&str) -> Option<String>) -> Result<Vec<u8>, Why> {
    // References can be longer than values; room for all of them, so that nothing is left behind by growing.
    let entries = entries(bytes)?;
    let more: usize = entries.iter().filter_map(|entry| with(entry.name)).map(|text| text.len() + 1).sum();
    let mut out = Vec::with_capacity(bytes.len() + more);
    let mut copied = 0;
    for entry in &entries {
        let Some(text) = with(entry.name) else { continue };
        out.extend_from_slice(bytes.get(copied..entry.value).unwrap_or_default());
        out.extend_from_slice(text.as_bytes());
        if bytes.get(..entry.end).is_some_and(|before| before.ends_with(b"\n")) {
            out.push(b'\n');
        }
        copied = entry.end;
    }
    out.extend_from_slice(bytes.get(copied..).unwrap_or_default());
    Ok(out)
}

/// A value as it is written.
enum Raw<'a> {
    Plain(&'a [u8]),
    /// In single quotes or backticks.
    Literal(&'a [u8]),
    /// In double quotes.
    Escaped(&'a [u8]),
}

/// The name that a line sets, and what follows `=`; without one, the lines after it.
fn key(rest: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let end = rest.iter().position(|byte| *byte == b'\n');
    let next = end.map_or(&[][..], |end| rest.get(end + 1..).unwrap_or_default());
    let line = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default().trim_ascii_start();
    let line = match line.strip_prefix(b"export") {
        Some(after) if after.starts_with(b" ") || after.starts_with(b"\t") => after.trim_ascii_start(),
        _ => line,
    };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let length = line.iter().take_while(|byte| is_name(byte)).count();
    let (name, after) = line.split_at(length);
    match after.trim_ascii_start().strip_prefix(b"=") {
        // What follows may go over several lines, so it is taken from the whole.
        Some(after) if !name.is_empty() => {
            let taken = end.unwrap_or(rest.len()) - after.len();
            (Some(name), rest.get(taken..).unwrap_or_default())
        }
        _ => (None, next),
    }
}

/// The value that begins here, and the lines after it.
fn value(rest: &[u8]) -> Result<(Raw<'_>, &[u8]), Why> {
    let blank = |byte: &&u8| matches!(**byte, b' ' | b'\t');
    let rest = rest.get(rest.iter().take_while(blank).count()..).unwrap_or_default();
    let line_end =
        |from: &[u8]| from.iter().position(|byte| *byte == b'\n').map_or(from.len(), |end| end + 1);
    if let Some((&quote @ (b'\'' | b'"' | b'`'), inside)) = rest.split_first() {
        let mut escaped = false;
        let closing = inside.iter().position(|byte| {
            let closes = *byte == quote && !escaped;
            escaped = quote == b'"' && *byte == b'\\' && !escaped;
            closes
        });
        let closing = closing.ok_or(Why::Malformed("a quote in the file is not closed"))?;
        let (value, after) = inside.split_at(closing);
        let after = after.get(1..).unwrap_or_default();
        let after = after.get(line_end(after)..).unwrap_or_default();
        let raw = if quote == b'"' { Raw::Escaped(value) } else { Raw::Literal(value) };
        return Ok((raw, after));
    }
    let (line, after) = rest.split_at(line_end(rest));
    let comment = line.windows(2).position(|pair| matches!(pair, [b' ' | b'\t', b'#']));
    let line = if line.starts_with(b"#") {
        &[]
    } else {
        line.get(..comment.unwrap_or(line.len())).unwrap_or_default()
    };
    Ok((Raw::Plain(line.trim_ascii_end()), after))
}

fn unescape(value: &[u8], into: &mut Buffer) -> Result<(), Why> {
    let mut bytes = value.iter();
    while let Some(byte) = bytes.next() {
        match (byte, if *byte == b'\\' { bytes.next() } else { None }) {
            (b'\\', Some(b'n')) => into.push(b'\n')?,
            (b'\\', Some(b'r')) => into.push(b'\r')?,
            (b'\\', Some(b't')) => into.push(b'\t')?,
            (b'\\', Some(other @ (b'"' | b'\\' | b'$' | b'`' | b'\''))) => into.push(*other)?,
            (byte, Some(other)) => {
                into.push(*byte)?;
                into.push(*other)?;
            }
            (byte, None) => into.push(*byte)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(file: &str, name: &str) -> Result<String, Why> {
        find(file.as_bytes(), name).map(|secret| String::from_utf8(secret.expose().to_vec()).unwrap())
    }

    const FILE: &str = r#"# keys
PLAIN=abc
SPACED =  two words   # a comment
export EXPORTED=yes
exported=not EXPORTED
HASH=a#b
EMPTY=
SINGLE='it is $HOME \n "so"' # comment
DOUBLE="a\"b\\c\n\$d \x"
BACKTICK=`it's "so"`
MULTI="first
second=1
third"
AFTER=1
PEM='-----BEGIN
x
-----END
'
TWICE=first
TWICE=second
  INDENTED=in
dotted.name-1=d
no assignment here
COMMENTED= # nothing
URL=https://x.org/?a=b&c=d
LAST=end"#;

    #[test]
    fn values_are_found_however_they_are_written() {
        for (name, value) in [
            ("PLAIN", "abc"),
            ("SPACED", "two words"),
            ("EXPORTED", "yes"),
            ("HASH", "a#b"),
            ("SINGLE", r#"it is $HOME \n "so""#),
            ("DOUBLE", "a\"b\\c\n$d \\x"),
            ("BACKTICK", "it's \"so\""),
            ("MULTI", "first\nsecond=1\nthird"),
            ("AFTER", "1"),
            ("PEM", "-----BEGIN\nx\n-----END\n"),
            ("TWICE", "second"),
            ("INDENTED", "in"),
            ("dotted.name-1", "d"),
            ("URL", "https://x.org/?a=b&c=d"),
            ("LAST", "end"),
        ] {
            assert_eq!(found(FILE, name).as_deref(), Ok(value), "{name}");
            assert_eq!(
                found(&FILE.replace('\n', "\r\n"), name).map(|text| text.replace('\r', "")).as_deref(),
                Ok(value),
                "{name}"
            );
        }
        assert_eq!(found("\u{feff}A=1", "A").as_deref(), Ok("1"));
    }

    #[test]
    fn what_is_not_set_is_not_found() {
        for name in ["second", "no", "MISSING", "export", "x"] {
            assert_eq!(found(FILE, name), Err(Why::NoSuchPart), "{name}");
        }
        for name in ["EMPTY", "COMMENTED"] {
            assert_eq!(found(FILE, name), Err(Why::Empty), "{name}");
        }
        assert_eq!(found("A='x\nB=1", "B"), Err(Why::Malformed("a quote in the file is not closed")));
    }

    proptest! {
        #[test]
        fn any_file_is_read_to_its_end(file in "[A-C='\"`\\\\\n #x]{0,60}", name in "[A-C]") {
            let _ = find(file.as_bytes(), &name);
        }

        #[test]
        fn what_is_quoted_comes_back(value in "[^'\\p{Cc}]{1,30}") {
            prop_assert_eq!(found(&format!("A=1\nB='{value}'\nC=2"), "B"), Ok(value));
        }
    }
}
