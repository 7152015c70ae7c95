//! Brace expansion: `{a,b}` and `{1..3}` make several words of one.

use super::syntax::{Piece, Pieces, Word};

/// A word that makes more words than these is not followed.
const MOST: usize = 256;

/// Nor is one that is longer than this.
const LONGEST: usize = 2048;

/// Nor one in which so many signs must be looked at, again and again.
const STEPS: usize = 1 << 16;

/// One sign of a word.
#[derive(Clone)]
enum Sign {
    Plain(u8),
    Quoted(u8),
    Piece(Piece),
}

/// The words that a word stands for; none where there are too many.
pub fn expand(word: &Word) -> Option<Vec<Word>> {
    let length: usize = word
        .pieces
        .iter()
        .map(|piece| if let Piece::Text { bytes, .. } = piece { bytes.len() } else { 1 })
        .sum();
    if length > LONGEST {
        return None;
    }
    let mut signs = Vec::new();
    for piece in &word.pieces {
        match piece {
            Piece::Text { bytes, quoted: false } => signs.extend(bytes.iter().map(|byte| Sign::Plain(*byte))),
            Piece::Text { bytes, quoted: true } => {
                // An empty quoted text still makes a word.
                if bytes.is_empty() {
                    signs.push(Sign::Piece(piece.clone()));
                }
                signs.extend(bytes.iter().map(|byte| Sign::Quoted(*byte)));
            }
            other => signs.push(Sign::Piece(other.clone())),
        }
    }
    let mut results = Vec::new();
    let mut steps = STEPS;
    expand_signs(Vec::new(), &signs, &mut results, 0, &mut steps)?;
    Some(results.into_iter().map(|signs| assemble(&signs, word)).collect())
}

/// Whether there is anything to expand.
pub fn has_braces(word: &Word) -> bool {
    let open = |piece: &Piece| matches!(piece, Piece::Text { bytes, quoted: false } if bytes.contains(&b'{'));
    word.pieces.iter().any(open)
}

fn is(sign: &Sign, byte: u8) -> bool {
    matches!(sign, Sign::Plain(plain) if *plain == byte)
}

/// Expands the first pair of braces and what follows, in front of which `done` stands.
fn expand_signs(
    done: Vec<Sign>,
    signs: &[Sign],
    results: &mut Vec<Vec<Sign>>,
    depth: usize,
    steps: &mut usize,
) -> Option<()> {
    if depth > 24 || results.len() > MOST {
        return None;
    }
    let mut from = 0;
    while let Some(open) = signs[from..].iter().position(|sign| is(sign, b'{')).map(|at| at + from) {
        *steps = steps.checked_sub(signs.len() - from)?;
        if let Some((close, parts)) = parts(signs, open) {
            for part in parts {
                let mut rest = part;
                rest.extend_from_slice(&signs[close + 1..]);
                let mut done = done.clone();
                done.extend_from_slice(&signs[..open]);
                // The part may hold further braces; what stands before is finished.
                expand_signs(done, &rest, results, depth + 1, steps)?;
            }
            return Some(());
        }
        from = open + 1;
    }
    let mut whole = done;
    whole.extend_from_slice(signs);
    results.push(whole);
    (results.len() <= MOST).then_some(())
}

/// The closing brace, and the parts between the commas.
fn parts(signs: &[Sign], open: usize) -> Option<(usize, Vec<Vec<Sign>>)> {
    let mut depth = 0usize;
    let mut parts = vec![Vec::new()];
    for (at, sign) in signs.iter().enumerate().skip(open + 1) {
        if is(sign, b'{') {
            depth += 1;
        } else if is(sign, b'}') {
            if depth == 0 {
                if parts.len() > 1 {
                    return Some((at, parts));
                }
                return range(&signs[open + 1..at]).map(|parts| (at, parts));
            }
            depth -= 1;
        } else if is(sign, b',') && depth == 0 {
            parts.push(Vec::new());
            continue;
        }
        parts.last_mut()?.push(sign.clone());
    }
    None
}

/// `1..9` or `a..e`.
fn range(signs: &[Sign]) -> Option<Vec<Vec<Sign>>> {
    let text: Option<Vec<u8>> =
        signs.iter().map(|sign| if let Sign::Plain(byte) = sign { Some(*byte) } else { None }).collect();
    let text = String::from_utf8(text?).ok()?;
    let (from, to) = text.split_once("..")?;
    let plain = |text: String| text.bytes().map(Sign::Plain).collect();
    if let (Ok(from), Ok(to)) = (from.parse::<i64>(), to.parse::<i64>()) {
        let (low, high) = (from.min(to), from.max(to));
        if high.checked_sub(low)? > MOST as i64 {
            return None;
        }
        return Some((low..=high).map(|number| plain(number.to_string())).collect());
    }
    match (from.as_bytes(), to.as_bytes()) {
        ([from], [to]) => Some((*from.min(to)..=*from.max(to)).map(|byte| vec![Sign::Plain(byte)]).collect()),
        _ => None,
    }
}

fn assemble(signs: &[Sign], word: &Word) -> Word {
    let mut pieces = Pieces::None;
    for sign in signs {
        let (byte, is_quoted) = match sign {
            Sign::Plain(byte) => (*byte, false),
            Sign::Quoted(byte) => (*byte, true),
            Sign::Piece(piece) => {
                pieces.push(piece.clone());
                continue;
            }
        };
        match pieces.as_mut_slice().last_mut() {
            Some(Piece::Text { bytes, quoted }) if *quoted == is_quoted => bytes.push(byte),
            _ => pieces.push(Piece::Text { bytes: [byte].into(), quoted: is_quoted }),
        }
    }
    Word { pieces, span: word.span }
}
