//! Tables that are asked at every command. Their hash costs little for short texts, and has a key of its own in each process: whoever
//! writes a script cannot know which texts would meet.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};

pub type QuickMap<K, V> = HashMap<K, V, Keyed>;
pub type QuickSet<K> = HashSet<K, Keyed>;

thread_local! {
    static KEYS: Keyed = {
        let random = RandomState::new();
        Keyed { start: random.hash_one(0), factor: random.hash_one(1) | 1 }
    };
}

#[derive(Clone, Copy)]
pub struct Keyed {
    start: u64,
    factor: u64,
}

impl Default for Keyed {
    fn default() -> Keyed {
        KEYS.with(|keys| *keys)
    }
}

impl BuildHasher for Keyed {
    type Hasher = Quick;

    fn build_hasher(&self) -> Quick {
        Quick { state: self.start, factor: self.factor }
    }
}

/// Multiplies eight bytes at a time, and adds both halves of the product.
pub struct Quick {
    state: u64,
    factor: u64,
}

impl Quick {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(self.factor);
        self.state = (product as u64) ^ (product >> 64) as u64;
    }
}

impl Hasher for Quick {
    fn write(&mut self, mut bytes: &[u8]) {
        while let Some((word, rest)) = bytes.split_first_chunk::<8>() {
            self.mix(u64::from_le_bytes(*word));
            bytes = rest;
        }
        // The length is part of what is hashed, so that halves may overlap.
        match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>(), bytes) {
            (Some(head), Some(tail), _) => {
                self.mix(u64::from(u32::from_le_bytes(*head)) << 32 | u64::from(u32::from_le_bytes(*tail)));
            }
            (_, _, [first, .., last]) => {
                let middle = u64::from(bytes[bytes.len() / 2]);
                self.mix(u64::from(*first) << 16 | middle << 8 | u64::from(*last));
            }
            (_, _, [only]) => self.mix(u64::from(*only)),
            _ => {}
        }
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }

    fn finish(&self) -> u64 {
        // Tables look at the lowest bits and at the highest.
        let product = u128::from(self.state) * u128::from(self.factor.rotate_left(32));
        (product as u64) ^ (product >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_nearly_the_same_spread() {
        let keys = Keyed::default();
        let mut seen = HashSet::new();
        let mut low = HashSet::new();
        for number in 0..20_000u32 {
            for text in [
                format!("{number}"),
                format!("/some/longer/path/of/{number}/x"),
                "a".repeat(number as usize % 97),
            ] {
                let hash = keys.hash_one(text.as_bytes());
                low.insert(hash & 0xffff);
                seen.insert((text, hash));
            }
        }
        let hashes: HashSet<u64> = seen.iter().map(|(_, hash)| *hash).collect();
        assert_eq!(hashes.len(), seen.len());
        // 40,000 numbers below 65,536 that are drawn by chance are about 29,900 different ones.
        assert!(low.len() > 28_000, "{}", low.len());
    }

    #[test]
    fn each_length_and_each_byte_counts() {
        let keys = Keyed::default();
        for length in 0..40usize {
            let text = vec![7; length];
            let hash = keys.hash_one(text.as_slice());
            assert_ne!(hash, keys.hash_one(vec![7; length + 1].as_slice()));
            for at in 0..length {
                let mut other = text.clone();
                other[at] = 8;
                assert_ne!(hash, keys.hash_one(other.as_slice()), "{length} {at}");
            }
        }
    }
}
