//! Phantoms: placeholders with the shape of a credential, worthless outside their session.
//!
//! Pure: randomness arrives as an argument. The process that makes a phantom never sees the real value; with at least 80 random bits no
//! phantom equals one, and the vault compares both before it hands the real value to the proxy.

use crate::provider::{Alphabet, Part, Shape};

/// The shape of a secret that no provider of the registry has: a prefix by which people know it, then 40 characters.
pub const GENERIC: Shape = Shape(&[Part::Text("kwp_"), Part::Random(Alphabet::Alnum, 40)]);
/// The shape of the number of an AWS key.
pub const AWS_KEY: Shape = Shape(&[Part::Text("AKIA"), Part::Random(Alphabet::Base32, 16)]);

/// Makes a phantom. `random` fills what it is given with random bytes.
pub fn make(shape: Shape, random: &mut dyn FnMut(&mut [u8])) -> String {
    let mut text = String::new();
    // What a checksum is made of.
    let mut drawn = String::new();
    for part in shape.0 {
        match part {
            Part::Text(literal) => text += literal,
            Part::Random(alphabet, length) => {
                let characters = draw(*alphabet, *length, random);
                drawn += &characters;
                text += &characters;
            }
            Part::Uuid => text += &uuid(random),
            Part::Crc32 => text += &base62(crc32(drawn.as_bytes())),
            Part::Jwt => text += &jwt(random),
        }
    }
    text
}

/// Whether a text has a shape: what a client's own check of the vendor's format would accept.
pub fn fits(shape: Shape, text: &str) -> bool {
    let mut rest = text;
    let mut drawn = String::new();
    for part in shape.0 {
        let taken = match part {
            Part::Text(literal) => rest.strip_prefix(literal).map(|after| (after, "")),
            Part::Random(alphabet, length) => rest
                .split_at_checked(usize::from(*length))
                .filter(|(part, _)| is_of(*alphabet, part))
                .map(|(part, after)| (after, part)),
            Part::Uuid => {
                rest.split_at_checked(36).filter(|(part, _)| is_uuid(part)).map(|(_, after)| (after, ""))
            }
            Part::Crc32 => {
                rest.strip_prefix(base62(crc32(drawn.as_bytes())).as_str()).map(|after| (after, ""))
            }
            Part::Jwt => is_jwt(rest).then_some(("", "")),
        };
        let Some((after, characters)) = taken else { return false };
        drawn += characters;
        rest = after;
    }
    rest.is_empty()
}

/// Another phantom of the same shape: its prefix stays, and every further letter and digit is drawn anew.
pub fn like(phantom: &str, random: &mut dyn FnMut(&mut [u8])) -> String {
    let head = phantom.as_bytes().get(..14).unwrap_or_default();
    let prefix = head.iter().rposition(|byte| b"-_./".contains(byte)).map_or(0, |at| at + 1);
    let mut draw = |(place, c): (usize, char)| match c {
        _ if place < prefix => c,
        'a'..='z' => pick(b"abcdefghijklmnopqrstuvwxyz", random),
        'A'..='Z' => pick(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", random),
        '0'..='9' => pick(b"0123456789", random),
        _ => c,
    };
    phantom.chars().enumerate().map(&mut draw).collect()
}

const BASE64URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

const fn characters(alphabet: Alphabet) -> &'static [u8] {
    match alphabet {
        Alphabet::Alnum => BASE62,
        Alphabet::Base64 => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
        Alphabet::Base64Url => BASE64URL,
        Alphabet::Base32 => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
        Alphabet::Hex => b"0123456789abcdef",
        Alphabet::Lower => b"0123456789abcdefghijklmnopqrstuvwxyz",
        Alphabet::Digits | Alphabet::Digits64 => b"0123456789",
    }
}

fn draw(alphabet: Alphabet, length: u8, random: &mut dyn FnMut(&mut [u8])) -> String {
    let from = characters(alphabet);
    if alphabet == Alphabet::Digits64 {
        // Three digits make four characters.
        let digits: String = (0..length / 4 * 3).map(|_| pick(from, random)).collect();
        return base64url(digits.as_bytes());
    }
    (0..length).map(|_| pick(from, random)).collect()
}

fn is_of(alphabet: Alphabet, text: &str) -> bool {
    let is_drawn = |bytes: &[u8]| bytes.iter().all(|byte| characters(alphabet).contains(byte));
    match alphabet {
        Alphabet::Digits64 => from_base64url(text).is_some_and(|digits| is_drawn(&digits)),
        _ => is_drawn(text.as_bytes()),
    }
}

/// A character, each with the same probability: a number that would favour the first ones is drawn again.
fn pick(alphabet: &[u8], random: &mut dyn FnMut(&mut [u8])) -> char {
    let fair = 256 - 256 % alphabet.len();
    loop {
        let mut byte = [0];
        random(&mut byte);
        let number = usize::from(byte[0]);
        if number < fair {
            return char::from(alphabet.get(number % alphabet.len()).copied().unwrap_or(b'0'));
        }
    }
}

/// A random UUID, version 4.
fn uuid(random: &mut dyn FnMut(&mut [u8])) -> String {
    let hex = characters(Alphabet::Hex);
    let mut text = String::with_capacity(36);
    for place in 0..36 {
        text.push(match place {
            8 | 13 | 18 | 23 => '-',
            14 => '4',
            19 => pick(b"89ab", random),
            _ => pick(hex, random),
        });
    }
    text
}

fn is_uuid(text: &str) -> bool {
    let fits = |(place, byte): (usize, u8)| match place {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(fits)
}

/// A token in three parts: what it is, whom it is for and until when, and a signature that nothing verifies.
fn jwt(random: &mut dyn FnMut(&mut [u8])) -> String {
    // From 2023 to 2100: clients that look at the times find it valid.
    let claims = format!(
        r#"{{"iss":"keyward","role":"phantom","sub":"{}","iat":1700000000,"exp":4102444800}}"#,
        uuid(random)
    );
    jwt_of(claims.as_bytes(), random)
}

/// The same with claims of its own, for clients that read them.
pub fn jwt_of(claims: &[u8], random: &mut dyn FnMut(&mut [u8])) -> String {
    let mut signature = [0; 32];
    random(&mut signature);
    let head = base64url(br#"{"alg":"HS256","typ":"JWT"}"#);
    format!("{head}.{}.{}", base64url(claims), base64url(&signature))
}

fn is_jwt(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let [head, claims, signature] = parts.as_slice() else { return false };
    let is_object = |part: &str| {
        from_base64url(part)
            .is_some_and(|json| serde_json::from_slice::<serde_json::Map<_, _>>(&json).is_ok())
    };
    is_object(head) && is_object(claims) && from_base64url(signature).is_some()
}

/// Base64 for addresses, without padding.
fn base64url(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..=group.len() {
            let six = usize::try_from(bits >> (18 - 6 * place) & 63).unwrap_or(0);
            text.push(char::from(BASE64URL[six]));
        }
    }
    text
}

fn from_base64url(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for group in text.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for place in 0..4 {
            let six = match group.get(place) {
                Some(byte) => BASE64URL.iter().position(|known| known == byte)?,
                None => 0,
            };
            bits = bits << 6 | u32::try_from(six).ok()?;
        }
        let length = group.len().checked_sub(1).filter(|length| *length > 0)?;
        out.extend(bits.to_be_bytes().iter().skip(1).take(length));
    }
    Some(out)
}

/// The CRC-32 of zip and Ethernet.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    };
    !bytes.iter().fold(u32::MAX, step)
}

/// Six digits, zeros in front.
fn base62(mut number: u32) -> String {
    let mut digits = [b'0'; 6];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[usize::try_from(number % 62).unwrap_or(0)];
        number /= 62;
    }
    digits.iter().copied().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::registry;
    use crate::provider;

    /// A sequence that looks random and is the same in every run.
    fn numbers(seed: u64) -> impl FnMut(&mut [u8]) {
        let mut state = seed;
        move |bytes: &mut [u8]| {
            for byte in bytes {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                *byte = (state >> 56) as u8;
            }
        }
    }

    #[test]
    fn every_phantom_has_the_shape_of_its_provider() {
        for provider in provider::all() {
            let [one, other] = [1, 2].map(|seed| make(provider.shape, &mut numbers(seed)));
            assert!(fits(provider.shape, &one), "{}: {one}", provider.name);
            assert!(one != other, "{}: {one}", provider.name);
            assert!(one.bytes().all(|byte| byte.is_ascii_graphic()), "{one}");
            assert!(!fits(provider.shape, &format!("{one}x")) || provider.name == "supabase", "{one}");
            assert!(!fits(provider.shape, &one[1..]), "{one}");
        }
        assert!(fits(GENERIC, &make(GENERIC, &mut numbers(3))));
        assert!(fits(AWS_KEY, &make(AWS_KEY, &mut numbers(3))));
    }

    #[test]
    fn a_phantom_of_a_vendor_with_a_prefix_is_taken_for_the_vendors_own_token() {
        for name in [
            "anthropic",
            "openai",
            "github",
            "gitlab",
            "npm",
            "pypi",
            "slack",
            "openrouter",
            "nvidia",
            "sendgrid",
        ] {
            let provider = provider::named(name).unwrap();
            let phantom = make(provider.shape, &mut numbers(7));
            assert!(registry::value_shape(phantom.as_bytes()).is_some(), "{name}: {phantom}");
        }
    }

    #[test]
    fn the_checksum_is_the_one_that_the_vendor_makes() {
        let github = provider::named("github").unwrap();
        // An example of a valid token that is published with a description of the format.
        assert_eq!(base62(crc32(b"zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ")), "0mLq17");
        assert!(fits(github.shape, concat!("ghp", "_zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ0mLq17")));
        assert!(!fits(github.shape, concat!("ghp", "_zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ0mLq18")));
    }

    #[test]
    fn a_further_phantom_has_the_prefix_and_the_length_of_the_first() {
        let shape =
            Shape(&[Part::Text("sk-ant-ort01-"), Part::Random(Alphabet::Base64Url, 86), Part::Text("-AA")]);
        let first = make(shape, &mut numbers(3));
        let second = like(&first, &mut numbers(4));
        assert!(second.starts_with("sk-ant-ort01-") && second.len() == first.len() && second != first);
        let same = first.chars().zip(second.chars()).skip(13).filter(|(one, other)| one == other).count();
        assert!(same < 20, "{first} {second}");
    }

    #[test]
    fn each_character_is_equally_likely() {
        let mut counts = std::collections::BTreeMap::new();
        let mut random = numbers(11);
        for _ in 0..62_000 {
            *counts.entry(pick(BASE62, &mut random)).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 62);
        assert!(counts.values().all(|count| (800..1200).contains(count)), "{counts:?}");
    }

    #[test]
    fn base64_is_read_as_it_was_written() {
        for length in 0..20 {
            let mut bytes = vec![0; length];
            numbers(length as u64)(&mut bytes);
            assert_eq!(from_base64url(&base64url(&bytes)), Some(bytes));
        }
        assert_eq!(base64url(b"hello"), "aGVsbG8");
        assert_eq!(from_base64url("a"), None);
        assert_eq!(from_base64url("a="), None);
    }
}
