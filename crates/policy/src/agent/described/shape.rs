//! What a credential looks like: texts, and parts in braces. The rules stand at the head of `data/providers.toml`.

use super::{Read, Wrong};

/// The alphabets, and how many bits one character of each holds, in tenths, rounded down.
const ALPHABETS: [(&str, u32); 8] = [
    ("alnum", 59),
    ("base64", 60),
    ("base64url", 60),
    ("base32", 50),
    ("hex", 40),
    ("lower", 51),
    ("digits", 33),
    ("digits64", 24),
];
/// A phantom is never guessed and never equal to a real value by chance.
const LEAST_BITS: u32 = 800;

#[derive(Debug)]
pub enum Piece {
    Text(String),
    Random(&'static str, u8),
    Uuid,
    Crc32,
    Jwt,
}

pub fn read(text: &str, at: Option<usize>) -> Read<Vec<Piece>> {
    let wrong =
        |fact: String| Wrong::new(at, fact, "write texts, and parts such as {alnum:40}, {uuid} or {jwt}");
    if text.is_empty() || !text.chars().all(|c| c.is_ascii_graphic()) {
        return Err(wrong(format!("{text:?} is not the shape of a credential")));
    }
    let (mut out, mut bits, mut rest) = (Vec::new(), 0, text);
    while !rest.is_empty() {
        let (literal, after) = rest.split_once('{').unwrap_or((rest, ""));
        if !literal.is_empty() {
            out.push(Piece::Text(literal.to_owned()));
        }
        if literal.len() == rest.len() {
            break;
        }
        let (part, after) =
            after.split_once('}').ok_or_else(|| wrong(format!("a brace of {text:?} is open")))?;
        let (word, length) = part.split_once(':').unwrap_or((part, ""));
        let alphabet = ALPHABETS.iter().find(|(known, _)| *known == word);
        match (word, alphabet, length.parse::<u8>()) {
            ("uuid", _, Err(_)) => {
                bits += 1220;
                out.push(Piece::Uuid);
            }
            ("crc32", _, Err(_)) => out.push(Piece::Crc32),
            ("jwt", _, Err(_)) => {
                bits += 2560;
                out.push(Piece::Jwt);
            }
            (_, Some((alphabet, each)), Ok(length)) if length > 0 => {
                bits += each * u32::from(length);
                out.push(Piece::Random(alphabet, length));
            }
            _ => return Err(wrong(format!("{{{part}}} is not a part of a shape"))),
        }
        rest = after;
    }
    match bits < LEAST_BITS {
        true => Err(wrong(format!("a phantom of {text:?} could be guessed: it needs 80 random bits"))),
        false => Ok(out),
    }
}
