//! How values look that are credentials, whatever their name: one pass over the bytes, from the beginning to the first hit.
//!
//! A hit may begin anywhere, because a key is often part of a longer text (a header, an option, a URL). Plain texts come from the
//! registry's tables; the shapes that need a look around (URLs, JWTs, key blocks, bot tokens) are written out below.

use super::tables::{ASSIGNMENTS, LITERALS, LITERALS_PAIRS, PREFIXES, PREFIXES_PAIRS};
use super::{Pattern, starts_with};

/// How far a look around reaches where the shape itself sets no bound. Keeps the whole pass linear.
const REACH: usize = 256;
/// A run of letters this long without a separator is no plain word.
const LONG_RUN: usize = 16;

/// The label of the first credential found in the value, such as `openai token` or `url with a password`.
pub fn value_shape(value: &[u8]) -> Option<&'static str> {
    // Where the last run of token characters ended that began like a JWT and was none.
    let mut no_jwt_before = 0;
    let mut boundary = true;
    for (at, byte) in value.iter().enumerate() {
        let inside_word = byte.is_ascii_alphanumeric();
        // By far the most bytes: nothing begins in the middle of a word (`task-1` holds no `sk-`).
        if inside_word && !boundary {
            continue;
        }
        let rest = &value[at..];
        let begins = if boundary { prefix(rest) } else { None };
        if let Some(label) = begins.or_else(|| literal(rest)) {
            return Some(label);
        }
        if boundary && *byte == b'e' && at >= no_jwt_before && rest.starts_with(b"eyJ") {
            let length = run(rest, usize::MAX, is_token);
            if length >= 13 && rest.get(length) == Some(&b'.') {
                return Some("json web token");
            }
            no_jwt_before = at + length;
        }
        boundary = !inside_word;
        if inside_word {
            continue;
        }
        let found = match byte {
            b'=' => assignment(&value[..at], &rest[1..]),
            b':' => colon(&value[..at], &rest[1..]),
            b'-' if at == 0 || value[at - 1] != b'-' => key_block(rest),
            b'.' => discord(&value[..at], &rest[1..]),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

fn prefix(rest: &[u8]) -> Option<&'static str> {
    let [one, two, ..] = rest else { return None };
    if !PREFIXES_PAIRS.may_begin(*one, *two) {
        return None;
    }
    let fits = |pattern: &&Pattern| {
        let text = pattern.text.as_str().as_bytes();
        rest.strip_prefix(text).is_some_and(|tail| follows(pattern, tail, is_token))
    };
    PREFIXES.group(*one).iter().find(fits).map(|pattern| pattern.label.as_str())
}

fn literal(rest: &[u8]) -> Option<&'static str> {
    let [one, two, ..] = rest else { return None };
    if !LITERALS_PAIRS.may_begin(*one, *two) {
        return None;
    }
    let fits = |pattern: &&Pattern| {
        let text = pattern.text.as_str();
        starts_with(rest, text) && follows(pattern, &rest[text.len()..], is_visible)
    };
    LITERALS.group(one.to_ascii_lowercase()).iter().find(fits).map(|pattern| pattern.label.as_str())
}

/// Whether enough follows the pattern's text and, where the text alone says little, no plain words.
fn follows(pattern: &Pattern, tail: &[u8], counts: fn(u8) -> bool) -> bool {
    let length = run(tail, usize::from(pattern.then).max(64), counts);
    length >= usize::from(pattern.then) && (!pattern.weak || !plain_words(&tail[..length]))
}

/// Words as people write them: no digit, no capital within, no endless run of letters.
pub(super) fn plain_words(text: &[u8]) -> bool {
    let has = |kind: fn(&u8) -> bool| text.iter().skip(1).any(kind);
    let mixed = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    let long = text.split(|byte| !byte.is_ascii_alphanumeric()).any(|word| word.len() >= LONG_RUN);
    !(mixed || long || text.iter().any(u8::is_ascii_digit))
}

/// `password=…`, `AccountKey=…`, `?sig=…`
fn assignment(before: &[u8], after: &[u8]) -> Option<&'static str> {
    let last = before.last()?.to_ascii_lowercase();
    let mut words = ASSIGNMENTS.group(last).iter().map(|text| text.as_str());
    let word = words.find(|word| ends_with(before, word))?;
    let earlier = before.len().checked_sub(word.len() + 1).map(|at| before[at]);
    let (needed, whole_word) = match word {
        "password" | "passwd" | "passphrase" => (1, false),
        // `OLDPWD=` and the shell's `PWD=/…` are directories.
        "pwd" if after.first() == Some(&b'/') => return None,
        "pwd" => (1, true),
        "sig" => (16, true),
        _ => (4, false),
    };
    let alone = !earlier.is_some_and(|byte| byte.is_ascii_alphanumeric());
    (run(after, needed, is_visible) == needed && (alone || !whole_word)).then_some("password in a text")
}

/// `scheme://…`, `"password": …`, `authorization: …`, `123456789:AA…`
fn colon(before: &[u8], after: &[u8]) -> Option<&'static str> {
    if let Some(address) = after.strip_prefix(b"//") {
        return url(address);
    }
    if before.last().is_some_and(u8::is_ascii_digit) && run(after, 30, is_token) == 30 {
        let digits = before.iter().rev().take(11).take_while(|byte| byte.is_ascii_digit()).count();
        if (8..=10).contains(&digits) {
            return Some("telegram bot token");
        }
    }
    let quoted = before.strip_suffix(b"\"").or_else(|| before.strip_suffix(b"'"));
    let spaces = run(after, REACH, |byte| byte == b' ');
    // Without a quote or a space this is a list of paths, such as `/opt/token:/usr/bin`.
    if quoted.is_none() && spaces == 0 && !ends_with(before, "x-api-key") {
        return None;
    }
    let after = &after[spaces..];
    let after = after.strip_prefix(b"\"").or_else(|| after.strip_prefix(b"'")).unwrap_or(after);
    assignment(quoted.unwrap_or(before), after)
}

/// A URL behind its `://`, with a password or a long token before the `@`.
fn url(address: &[u8]) -> Option<&'static str> {
    let end = run(address, usize::MAX, |byte| is_visible(byte) && !matches!(byte, b'/' | b'?' | b'#'));
    let authority = &address[..end];
    let Some(at) = authority.iter().rposition(|byte| *byte == b'@') else {
        // An unescaped `/`, `?` or `#` in the password ends the authority early; then no port follows the colon.
        let (_, port) = split(authority, b':')?;
        let odd = !port.iter().all(u8::is_ascii_digit) && !matches!(port.first(), Some(b'$' | b'{'));
        let rest = &address[end..];
        let later = rest[..run(rest, REACH, is_visible)].contains(&b'@');
        return (odd && later && !authority.contains(&b']')).then_some("url with a password");
    };
    let (user, password) = split(&authority[..at], b':').unwrap_or((&authority[..at], &[]));
    if !password.is_empty() {
        return Some("url with a password");
    }
    (run(user, 20, is_token) == 20).then_some("url with a token")
}

/// `-----BEGIN … PRIVATE KEY-----`; certificates and public keys are none.
fn key_block(rest: &[u8]) -> Option<&'static str> {
    let kind = rest.strip_prefix(b"-----BEGIN ")?;
    let kind = &kind[..kind.len().min(64)];
    kind.windows(11).any(|text| text == b"PRIVATE KEY").then_some("private key")
}

/// Three parts with dots between: 24 to 28 characters, 6, and at least 27.
fn discord(before: &[u8], after: &[u8]) -> Option<&'static str> {
    if after.get(6) != Some(&b'.') || run(after, 6, is_token) != 6 || run(&after[7..], 27, is_token) != 27 {
        return None;
    }
    let id = before.iter().rev().take(29).take_while(|byte| is_token(**byte)).count();
    let first = before.get(before.len() - id)?;
    ((24..=28).contains(&id) && matches!(first, b'M' | b'N' | b'O')).then_some("discord bot token")
}

/// How many bytes at the beginning are of the kind, up to `most`.
pub(super) fn run(bytes: &[u8], most: usize, kind: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take(most).take_while(|byte| kind(**byte)).count()
}

fn split(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == at)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

fn ends_with(bytes: &[u8], text: &str) -> bool {
    bytes.len().checked_sub(text.len()).is_some_and(|at| starts_with(&bytes[at..], text))
}

pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// What may stand in a word of a longer text. Bytes beyond ASCII may be part of a password.
fn is_visible(byte: u8) -> bool {
    byte > b' ' && !matches!(byte, b'"' | b'\'' | b'`' | 0x7f)
}

#[cfg(test)]
#[path = "values_tests.rs"]
mod tests;
