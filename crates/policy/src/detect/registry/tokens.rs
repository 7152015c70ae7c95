//! Tokens of known vendors in a stream, of which the next bytes may not be there yet.
//!
//! [`value_shape`](super::value_shape) looks at a whole value. Here the question is asked for one place of a text that goes on, and "not
//! known yet" is an answer. It takes a bounded number of bytes to know: [`TOKEN_REACH`].

use super::Pattern;
use super::tables::{PREFIXES, PREFIXES_PAIRS};
use super::values::{is_token, plain_words, run};

/// After this many bytes it is always known whether a token begins at a place.
pub const TOKEN_REACH: usize = 256;

/// How a JSON web token begins: `{"` in base64.
const JWT: &[u8] = b"eyJ";
/// The shortest first part of a JSON web token.
const JWT_HEAD: usize = 13;

/// Whether a token begins here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    No,
    /// What is there could be the beginning of one.
    Undecided,
    Begins {
        /// Such as `openai token`.
        label: &'static str,
        /// How long the text is by which it is known, and which everybody knows.
        prefix: usize,
        /// Its parts are joined by dots.
        dotted: bool,
    },
}

/// Whether a token begins with the first of these bytes; the byte before it, if there is one, is no letter and no digit. `whole` says that
/// nothing follows.
pub fn token_at(rest: &[u8], whole: bool) -> Token {
    let Some(first) = rest.first() else { return Token::No };
    let may = rest.get(1).is_none_or(|second| PREFIXES_PAIRS.may_begin(*first, *second));
    if may {
        // The longest text first: as long as it may still come true, a shorter one is not told.
        for pattern in PREFIXES.group(*first) {
            match begins(pattern, rest, whole) {
                Token::No => {}
                known => return known,
            }
        }
    }
    json_web_token(rest, whole)
}

/// How tokens begin, and how many characters of a token must follow.
pub fn token_prefixes() -> impl Iterator<Item = (&'static str, usize)> {
    let jwt = ("eyJ", JWT_HEAD - JWT.len());
    PREFIXES.rows.iter().map(|row| (row.text.as_str(), usize::from(row.then))).chain([jwt])
}

/// What a token is made of, behind its prefix.
pub fn is_token_byte(byte: u8) -> bool {
    is_token(byte)
}

fn begins(pattern: &Pattern, rest: &[u8], whole: bool) -> Token {
    let text = pattern.text.as_str().as_bytes();
    let Some(tail) = rest.strip_prefix(text) else {
        return if !whole && text.starts_with(rest) { Token::Undecided } else { Token::No };
    };
    let most = usize::from(pattern.then).max(64);
    let length = run(tail, most, is_token);
    let more_may_come = !whole && length == tail.len() && length < most;
    // What is no plain word does not become one by what follows.
    if length >= usize::from(pattern.then) && (!pattern.weak || !plain_words(&tail[..length])) {
        let dotted = text.contains(&b'.') || text.ends_with(JWT);
        return Token::Begins { label: pattern.label.as_str(), prefix: text.len(), dotted };
    }
    if more_may_come { Token::Undecided } else { Token::No }
}

fn json_web_token(rest: &[u8], whole: bool) -> Token {
    if !rest.starts_with(JWT) {
        return if !whole && JWT.starts_with(rest) { Token::Undecided } else { Token::No };
    }
    let length = run(rest, TOKEN_REACH - 1, is_token);
    match rest.get(length) {
        Some(b'.') if length >= JWT_HEAD => {
            Token::Begins { label: "json web token", prefix: JWT.len(), dotted: true }
        }
        None if !whole && length < TOKEN_REACH - 1 => Token::Undecided,
        _ => Token::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::registry::value_shape;

    fn filled(prefix: &str, length: usize) -> Vec<u8> {
        prefix.bytes().chain("aB3dE6gH9jK2mN5pQ8sT1vW4xY7z".bytes().cycle().take(length)).collect()
    }

    #[test]
    fn every_prefix_begins_a_token_and_is_undecided_until_enough_has_come() {
        for (text, then) in token_prefixes() {
            let mut value = filled(text, then.max(16));
            if text == "eyJ" {
                value.push(b'.');
            }
            assert!(matches!(token_at(&value, true), Token::Begins { .. }), "{text}");
            for cut in 1..text.len() + then.min(10) {
                assert_eq!(token_at(&value[..cut], false), Token::Undecided, "{text} after {cut}");
            }
            let ended = [text.as_bytes(), b" and so on"].concat();
            assert_eq!(token_at(&ended, false), Token::No, "{text} alone");
            assert!(text.len() + then.max(64) < TOKEN_REACH, "{text}");
        }
    }

    #[test]
    fn what_begins_a_token_is_a_credential_to_the_other_question_too() {
        for (text, then) in token_prefixes() {
            let value = filled(text, then.max(16));
            if let Token::Begins { label, .. } = token_at(&value, true) {
                assert_eq!(value_shape(&value), Some(label), "{text}");
            }
        }
    }

    #[test]
    fn words_behind_a_weak_prefix_are_no_token_once_they_end() {
        assert_eq!(token_at(b"sk-learn-and-so-on-and", false), Token::Undecided);
        assert_eq!(token_at(b"sk-learn-and-so-on-and ", false), Token::No);
        assert_eq!(token_at(b"sk-learn-and-so-on-and", true), Token::No);
    }

    #[test]
    fn nothing_stays_undecided_for_long() {
        for text in ["eyJ", "sk-", "EAA", "access_token$production$"] {
            let long = [text.as_bytes(), &[b'a'; TOKEN_REACH]].concat();
            assert_ne!(token_at(&long[..TOKEN_REACH], false), Token::Undecided, "{text}");
        }
    }
}
