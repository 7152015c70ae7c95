//! Canaries: values that nobody can guess. One that turns up in the child's hands has leaked.

use keyward_sys::random;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Every canary begins like this, so that an attacker can recognise one, as real ones recognise `ghp_`.
const SHAPE: &str = "kwcanary";
const DIGITS: usize = 28;

/// The values of one attack.
pub struct Canaries {
    seed: [u8; 16],
}

impl Canaries {
    pub fn new() -> std::io::Result<Self> {
        let mut seed = [0; 16];
        random::fill(&mut seed)?;
        Ok(Canaries { seed })
    }

    /// The value that is hidden at this place: 36 letters and digits, as many as the token of a forge has.
    pub fn of(&self, place: &str) -> String {
        let half = |number: u8| {
            let mut hasher = DefaultHasher::new();
            (self.seed, number, place).hash(&mut hasher);
            hasher.finish()
        };
        format!("{SHAPE}{:016x}{:012x}", half(0), half(1) >> 16)
    }

    /// A number for names outside the stage.
    pub fn number(&self) -> u32 {
        u32::from_le_bytes([self.seed[0], self.seed[1], self.seed[2], self.seed[3]])
    }
}

/// Everything in these bytes that looks like a canary.
pub fn found_in(bytes: &[u8]) -> Vec<String> {
    let mut found: Vec<String> = bytes
        .windows(SHAPE.len() + DIGITS)
        .filter(|part| part.starts_with(SHAPE.as_bytes()) && part.iter().all(u8::is_ascii_alphanumeric))
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_canary_is_found_among_other_bytes_and_each_place_has_its_own() {
        let canaries = Canaries::new().unwrap();
        let (first, second) = (canaries.of("first"), canaries.of("second"));
        assert_ne!(first, second);
        assert_eq!(first.len(), 36);
        let text = format!("\0KEY=ghp_{first}\0 {first} {SHAPE} {SHAPE}-0");
        assert_eq!(found_in(text.as_bytes()), [first]);
        assert_ne!(Canaries::new().unwrap().of("second"), second);
    }
}
