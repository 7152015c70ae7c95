//! Cuts Python and JavaScript into tokens. Works on bytes; what it cannot cut is an error.

use crate::verdict::Language;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    Name(String),
    Number(String),
    /// A string: texts, and places of code between them.
    Text(Vec<Part>),
    /// A sign or a pair of signs.
    Sign(&'static str),
    /// A byte that means nothing here.
    Other,
    Newline,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Text(Vec<u8>),
    /// Code from here to there.
    Code(usize, usize),
}

/// A token, and where it stands.
pub type Placed = (Token, usize, usize);

const SIGNS: &[&str] = &[
    "===", "!==", "**=", "...", "=>", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "%=", "&&", "||", "??",
    "?.", "**", "//", "->", ":=", "|=", "&=", "^=", "<<", ">>", "++", "--", "(", ")", "[", "]", "{", "}",
    ",", ".", ";", ":", "=", "+", "-", "*", "/", "%", "<", ">", "!", "&", "|", "^", "~", "?", "@",
];

/// The tokens of a text, or where it cannot be read.
pub fn tokens(source: &[u8], language: Language) -> Result<Vec<Placed>, usize> {
    let mut tokens: Vec<Placed> = Vec::new();
    let python = language == Language::Python;
    let mut at = 0;
    if source.starts_with(b"#!") {
        at = line_end(source, 0);
    }
    while at < source.len() {
        let start = at;
        let byte = source[at];
        let rest = &source[at..];
        if byte == b'\n' {
            tokens.push((Token::Newline, at, at + 1));
            at += 1;
        } else if byte.is_ascii_whitespace() {
            at += 1;
        } else if byte == b'\\' && python {
            at += 2;
        } else if python && byte == b'#' || !python && rest.starts_with(b"//") {
            at = line_end(source, at);
        } else if !python && rest.starts_with(b"/*") {
            at = find(source, at + 2, b"*/").ok_or(start)? + 2;
        } else if let Some((quote, raw, format)) = string_start(rest, python) {
            let (parts, end) = string(source, at + quote, raw, format)?;
            tokens.push((Token::Text(parts), start, end));
            at = end;
        } else if !python && byte == b'`' {
            let (parts, end) = template(source, at + 1)?;
            tokens.push((Token::Text(parts), start, end));
            at = end;
        } else if !python && byte == b'/' && begins_regex(&tokens) {
            at = regex_end(source, at).ok_or(start)?;
            tokens.push((Token::Other, start, at));
        } else if byte.is_ascii_digit() {
            let length = rest.iter().position(|byte| !byte.is_ascii_alphanumeric() && !b"._".contains(byte));
            at += length.unwrap_or(rest.len());
            tokens.push((Token::Number(String::from_utf8_lossy(&source[start..at]).into_owned()), start, at));
        } else if is_name(byte) {
            at +=
                rest.iter().position(|byte| !is_name(*byte) && !byte.is_ascii_digit()).unwrap_or(rest.len());
            tokens.push((Token::Name(String::from_utf8_lossy(&source[start..at]).into_owned()), start, at));
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(sign.as_bytes())) {
            // A division whose rest could hide a quote may as well be a pattern.
            if !python && byte == b'/' && unclear_division(&tokens, rest) {
                return Err(start);
            }
            at += sign.len();
            tokens.push((Token::Sign(sign), start, at));
        } else {
            at += 1;
            tokens.push((Token::Other, start, at));
        }
    }
    Ok(tokens)
}

fn is_name(byte: u8) -> bool {
    byte == b'_' || byte == b'$' || byte.is_ascii_alphabetic() || byte >= 128
}

fn line_end(source: &[u8], at: usize) -> usize {
    source[at..].iter().position(|byte| *byte == b'\n').map_or(source.len(), |length| at + length)
}

fn find(source: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    source.get(from..)?.windows(what.len()).position(|window| window == what).map(|at| from + at)
}

/// How long the prefix is, whether backslashes are text, whether braces hold code.
fn string_start(rest: &[u8], python: bool) -> Option<(usize, bool, bool)> {
    let prefix =
        if python { rest.iter().take(3).take_while(|byte| byte.is_ascii_alphabetic()).count() } else { 0 };
    let letters = &rest[..prefix];
    if !matches!(rest.get(prefix), Some(b'"' | b'\''))
        || !letters.iter().all(|byte| b"rRbBfFuUtT".contains(byte))
    {
        return None;
    }
    let has = |one: u8| letters.iter().any(|byte| byte.to_ascii_lowercase() == one);
    Some((prefix, has(b'r'), has(b'f') || has(b't')))
}

/// A string whose quote stands at `at`.
fn string(source: &[u8], at: usize, raw: bool, format: bool) -> Result<(Vec<Part>, usize), usize> {
    let quote = source[at];
    let triple = source[at..].starts_with(&[quote; 3]);
    let width = if triple { 3 } else { 1 };
    let close = &[quote; 3][..width];
    let mut parts = Vec::new();
    let mut text = Vec::new();
    let mut here = at + width;
    while here < source.len() {
        let byte = source[here];
        if source[here..].starts_with(close) {
            parts.push(Part::Text(text));
            return Ok((parts, here + width));
        }
        match byte {
            b'\\' if raw => {
                text.extend_from_slice(&source[here..(here + 2).min(source.len())]);
                here += 2;
            }
            b'\\' => here = escape(source, here, &mut text),
            b'\n' if !triple => return Err(at),
            b'{' if format && source.get(here + 1) == Some(&b'{') => {
                text.push(b'{');
                here += 2;
            }
            b'{' if format => {
                let end = code_end(source, here + 1).ok_or(here)?;
                parts.push(Part::Text(std::mem::take(&mut text)));
                parts.push(Part::Code(here + 1, end));
                here = end + 1;
            }
            _ => {
                text.push(byte);
                here += 1;
            }
        }
    }
    Err(at)
}

fn template(source: &[u8], from: usize) -> Result<(Vec<Part>, usize), usize> {
    let mut parts = Vec::new();
    let mut text = Vec::new();
    let mut here = from;
    while here < source.len() {
        match source[here] {
            b'`' => {
                parts.push(Part::Text(text));
                return Ok((parts, here + 1));
            }
            b'\\' => here = escape(source, here, &mut text),
            b'$' if source.get(here + 1) == Some(&b'{') => {
                let end = code_end(source, here + 2).ok_or(here)?;
                parts.push(Part::Text(std::mem::take(&mut text)));
                parts.push(Part::Code(here + 2, end));
                here = end + 1;
            }
            byte => {
                text.push(byte);
                here += 1;
            }
        }
    }
    Err(from)
}

/// Where the code of `{…}` ends: braces are counted, strings in it are skipped.
fn code_end(source: &[u8], from: usize) -> Option<usize> {
    let mut open = 0usize;
    let mut here = from;
    while here < source.len() {
        match source[here] {
            b'{' => open += 1,
            b'}' if open == 0 => return Some(here),
            b'}' => open -= 1,
            quote @ (b'"' | b'\'' | b'`') => {
                here += 1;
                while here < source.len() && source[here] != quote {
                    here += if source[here] == b'\\' { 2 } else { 1 };
                }
            }
            _ => {}
        }
        here += 1;
    }
    None
}

/// One escape; both languages agree on those that matter here.
fn escape(source: &[u8], at: usize, text: &mut Vec<u8>) -> usize {
    let Some(code) = source.get(at + 1) else { return at + 1 };
    let number = |from: usize, most: usize, radix: u32| {
        let digits = source[from.min(source.len())..].iter().take(most);
        let digits = digits.take_while(|byte| char::from(**byte).is_digit(radix)).count();
        let text = std::str::from_utf8(&source[from..from + digits]).unwrap_or_default();
        (u32::from_str_radix(text, radix).ok().and_then(char::from_u32), from + digits)
    };
    let (value, end) = match code {
        b'n' => (Some('\n'), at + 2),
        b't' => (Some('\t'), at + 2),
        b'r' => (Some('\r'), at + 2),
        b'\n' => (None, at + 2),
        b'x' => number(at + 2, 2, 16),
        b'u' if source.get(at + 2) == Some(&b'{') => {
            let (value, end) = number(at + 3, 6, 16);
            (value, end + 1)
        }
        b'u' => number(at + 2, 4, 16),
        b'U' => number(at + 2, 8, 16),
        b'0'..=b'7' => number(at + 1, 3, 8),
        other => {
            text.push(*other);
            return at + 2;
        }
    };
    text.extend(value.map(String::from).unwrap_or_default().bytes());
    end
}

/// Whether a slash after these tokens begins a pattern.
fn begins_regex(tokens: &[Placed]) -> bool {
    match tokens.iter().rev().map(|(token, ..)| token).find(|token| **token != Token::Newline) {
        None => true,
        Some(Token::Name(name)) => {
            matches!(
                name.as_str(),
                "return"
                    | "typeof"
                    | "case"
                    | "in"
                    | "of"
                    | "delete"
                    | "void"
                    | "throw"
                    | "new"
                    | "else"
                    | "do"
                    | "await"
                    | "yield"
            )
        }
        Some(Token::Sign(sign)) => !matches!(*sign, ")" | "]" | "}" | "++" | "--"),
        Some(_) => false,
    }
}

fn unclear_division(tokens: &[Placed], rest: &[u8]) -> bool {
    let after_bracket = matches!(tokens.last(), Some((Token::Sign(")" | "}" | "++" | "--"), ..)));
    let line = &rest[1..];
    let close = line.iter().position(|byte| b"/\n".contains(byte)).unwrap_or(line.len());
    after_bracket && line.get(close) == Some(&b'/') && line[..close].iter().any(|byte| b"'\"`".contains(byte))
}

fn regex_end(source: &[u8], at: usize) -> Option<usize> {
    let mut here = at + 1;
    let mut class = false;
    while here < source.len() {
        match source[here] {
            b'\\' => here += 1,
            b'\n' => return None,
            b'[' => class = true,
            b']' => class = false,
            b'/' if !class => {
                let flags = source[here + 1..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
                return Some(here + 1 + flags);
            }
            _ => {}
        }
        here += 1;
    }
    None
}
