//! Patterns of the shell and of `find`: `*`, `?`, `[…]` and `\`.

/// Whether a text fits a pattern. A slash is a sign like any other.
pub fn fits_pattern(pattern: &[u8], text: &[u8], any_case: bool) -> bool {
    let (mut at, mut seen) = (0, 0);
    // Where the last star stands, and how much of the text it has taken.
    let mut star: Option<(usize, usize)> = None;
    while seen < text.len() {
        let next = match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, seen));
                at += 1;
                continue;
            }
            Some(_) => one(&pattern[at..], text[seen], any_case),
            None => None,
        };
        match (next, star) {
            (Some(length), _) => {
                at += length;
                seen += 1;
            }
            (None, Some((place, taken))) => {
                star = Some((place, taken + 1));
                (at, seen) = (place + 1, taken + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// How long the part of the pattern is that stands for this sign; nothing if it does not.
fn one(pattern: &[u8], sign: u8, any_case: bool) -> Option<usize> {
    let same = |one: u8| one == sign || any_case && one.eq_ignore_ascii_case(&sign);
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', next, ..] => same(*next).then_some(2),
        [b'[', rest @ ..] => match class(rest, same, sign) {
            Some((true, length)) => Some(length + 1),
            Some((false, _)) => None,
            None => same(b'[').then_some(1),
        },
        [first, ..] => same(*first).then_some(1),
        [] => None,
    }
}

/// Whether a sign is in the class that begins here, and how long that is; nothing if it does not end.
fn class(rest: &[u8], same: impl Fn(u8) -> bool, sign: u8) -> Option<(bool, usize)> {
    let negated = matches!(rest.first(), Some(b'!' | b'^'));
    let start = usize::from(negated);
    // A bracket at the beginning is one of the signs.
    let end = start + 1 + rest.get(start + 1..)?.iter().position(|byte| *byte == b']')?;
    let mut found = false;
    let mut at = start;
    while at < end {
        match rest.get(at..end) {
            Some([low, b'-', high, ..]) => {
                found |= (*low..=*high).contains(&sign);
                at += 3;
            }
            _ => {
                found |= same(rest[at]);
                at += 1;
            }
        }
    }
    Some((found != negated, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_fits_as_the_shell_says() {
        let fits = |pattern: &str, text: &str| fits_pattern(pattern.as_bytes(), text.as_bytes(), false);
        for (pattern, text) in [
            ("*", ""),
            ("*.py", "a.py"),
            ("a*b*c", "aXbYbZc"),
            ("?x", "ax"),
            ("[a-c]1", "b1"),
            ("[!a]", "b"),
            ("[]]", "]"),
            ("\\*", "*"),
            ("[", "["),
            ("./.git/*", "./.git/a/b"),
        ] {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("*.py", "a.pyc"), ("?", ""), ("[a-c]", "d"), ("[!a]", "a"), ("\\*", "a"), ("a", "A")]
        {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
        assert!(fits_pattern(b"*.PY", b"a.py", true));
    }
}
