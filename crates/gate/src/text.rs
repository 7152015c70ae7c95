//! Texts of which a part may be unknown, and what is known about where they come from.

pub use crate::bytes::Bytes;
pub use crate::rules::kinds::Taint;
use crate::verdict::Span;

/// Stands in a text for a part that cannot be known. No word of a shell holds this byte.
pub const UNKNOWN: u8 = 0;

/// Where a text stands in the source that is judged.
#[derive(Clone, Copy, Debug)]
pub enum Stands {
    /// It begins there and is written as it is.
    At(usize),
    /// It was made of what stands there.
    Within(Span),
}

impl Stands {
    /// The place of a part.
    pub fn of(self, part: Span) -> Span {
        match self {
            Stands::At(base) => Span::new(base + part.start, base + part.end),
            Stands::Within(whole) => whole,
        }
    }

    /// The same for what begins further on.
    pub fn further(self, by: usize) -> Stands {
        match self {
            Stands::At(base) => Stands::At(base + by),
            within => within,
        }
    }
}

/// No text is followed beyond this.
pub const LONGEST: usize = 1 << 16;

/// One argument, as the program would get it.
#[derive(Clone, Debug, Default)]
pub struct Field {
    pub text: Bytes,
    pub span: Span,
    /// Its unknown part stood outside quotes: it may be several arguments, or none.
    pub splits: bool,
    pub taint: Taint,
}

impl Field {
    pub fn known(text: &[u8], span: Span) -> Field {
        Field { text: text.into(), span, ..Field::default() }
    }

    pub fn unknown(span: Span) -> Field {
        Field { text: [UNKNOWN].into(), span, ..Field::default() }
    }

    pub fn is_known(&self) -> bool {
        !self.text.contains(&UNKNOWN)
    }

    /// An unknown text that could begin with a dash.
    pub fn may_be_option(&self) -> bool {
        self.splits && self.text.first() == Some(&UNKNOWN)
    }
}

/// Certain, possible or excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Match {
    No,
    Maybe,
    Yes,
}

impl From<bool> for Match {
    fn from(yes: bool) -> Match {
        if yes { Match::Yes } else { Match::No }
    }
}

/// Whether a pattern with `*` fits a text, of which a part may be unknown. Case does not count.
pub fn fits(pattern: &[u8], text: &[u8]) -> Match {
    if text == [UNKNOWN] {
        return Match::Maybe;
    }
    // Most patterns already differ in their first sign.
    if let (Some(sign), Some(byte)) = (pattern.first(), text.first())
        && !matches!((sign, byte), (b'*', _) | (_, &UNKNOWN))
        && !sign.eq_ignore_ascii_case(byte)
    {
        return Match::No;
    }
    if !text.contains(&UNKNOWN) {
        return glob(pattern, text, false).into();
    }
    // An unknown part fits whatever a star of the pattern fits, and more.
    if text.len() <= 512 && !glob(pattern, text, true) { Match::No } else { Match::Maybe }
}

/// Whether pattern and text can be the same, where `*` in the pattern and, if told so, an unknown part of the text stand for anything.
fn glob(pattern: &[u8], text: &[u8], unknown: bool) -> bool {
    if !unknown {
        return plain_glob(pattern, text);
    }
    // Row by row: which beginnings of the text can be which beginnings of the pattern.
    let is_open = |byte: u8| byte == UNKNOWN;
    let mut row: Vec<bool> = Vec::with_capacity(text.len() + 1);
    row.push(true);
    for (at, byte) in text.iter().enumerate() {
        row.push(row[at] && is_open(*byte));
    }
    for sign in pattern {
        let mut next = Vec::with_capacity(row.len());
        next.push(row[0] && *sign == b'*');
        for (at, byte) in text.iter().enumerate() {
            let same = row[at] && byte.eq_ignore_ascii_case(sign);
            let star = *sign == b'*' && (next[at] || row[at + 1]);
            let open = is_open(*byte) && (next[at] || row[at + 1] || row[at]);
            next.push(same || star || open);
        }
        row = next;
    }
    row.last().copied().unwrap_or(false)
}

/// From star to star, never going back further than one.
fn plain_glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(sign) if sign.eq_ignore_ascii_case(&text[t]) => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|sign| *sign == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_known_and_unknown_texts() {
        for (pattern, text, expected) in [
            ("delete-*", "delete-bucket", Match::Yes),
            ("delete-*", "describe-bucket", Match::No),
            ("*a*b", "xxaxxb", Match::Yes),
            ("*a*b", "xxaxxbc", Match::No),
            ("DROP", "drop", Match::Yes),
            ("", "", Match::Yes),
            ("push", "\0", Match::Maybe),
            ("push", "p\0", Match::Maybe),
            ("push", "pull\0", Match::No),
            ("push", "\0h", Match::Maybe),
            ("push", "\0l", Match::No),
            ("a*c", "ab\0d", Match::No),
        ] {
            assert_eq!(fits(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text:?}");
        }
    }
}
