//! What redaction means, written down as plainly as possible: every form is compared at every place of a whole text. Slow; tests and fuzzing
//! hold the real thing against it.

use super::encodings::Encoding;
use super::patterns::Patterns;
use super::stream::{Found, LONGEST_TOKEN};
use keyward_policy::detect::registry::{Token, is_token_byte, token_at};

/// The text without its secrets, and what was found in it.
pub fn by_definition(patterns: &Patterns, text: &[u8]) -> (Vec<u8>, Vec<Found>) {
    let mut out = Vec::new();
    let mut found = Vec::new();
    let (mut secrets_end, mut tokens_end) = (0, 0);
    let mut told: Vec<u32> = Vec::new();
    for at in 0..text.len() {
        let here = &text[at..];
        let mut tell = |name: &str, encoding| {
            out.extend_from_slice(format!("[keyward:{name}]").as_bytes());
            found.push(Found { name: name.into(), encoding, offset: at as u64 });
        };
        if let Some((length, secret, encoding)) = patterns.longest_at(here)
            && at + length > secrets_end
        {
            if at >= secrets_end {
                told.clear();
            }
            if !told.contains(&secret) {
                told.push(secret);
                tell(patterns.name(secret), encoding);
            }
            secrets_end = at + length;
        }
        let boundary = at == 0 || !text[at - 1].is_ascii_alphanumeric();
        if boundary
            && at >= secrets_end.max(tokens_end)
            && let Token::Begins { label, prefix, dotted } = token_at(here, true)
        {
            tell(label, Encoding::VendorShape);
            tokens_end = at + token_length(here, prefix, dotted);
        }
        if at >= secrets_end.max(tokens_end) {
            out.push(text[at]);
        }
    }
    (out, found)
}

fn token_length(text: &[u8], prefix: usize, dotted: bool) -> usize {
    let mut length = prefix;
    while length < text.len().min(LONGEST_TOKEN as usize) {
        let joins =
            dotted && text[length] == b'.' && text.get(length + 1).is_some_and(|next| is_token_byte(*next));
        if !is_token_byte(text[length]) && !joins {
            break;
        }
        length += 1;
    }
    length
}
