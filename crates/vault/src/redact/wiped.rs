//! Bytes that are overwritten before their memory is given back, also when they move to a larger place.

use std::ops::Deref;
use zeroize::Zeroize;

#[derive(Default)]
pub(super) struct Wiped(Vec<u8>);

impl Wiped {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Wiped(Vec::with_capacity(capacity))
    }

    pub(super) fn push(&mut self, byte: u8) {
        self.extend(&[byte]);
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) {
        let needed = self.0.len() + bytes.len();
        if needed > self.0.capacity() {
            // `Vec` would copy and leave the old bytes where they were.
            let mut larger = Vec::with_capacity(needed.max(self.0.capacity() * 2).max(64));
            larger.extend_from_slice(&self.0);
            self.0.zeroize();
            self.0 = larger;
        }
        self.0.extend_from_slice(bytes);
    }

    /// Forgets the first bytes.
    pub(super) fn drop_first(&mut self, count: usize) {
        let count = count.min(self.0.len());
        let left = self.0.len() - count;
        self.0.copy_within(count.., 0);
        self.0[left..].zeroize();
        self.0.truncate(left);
    }
}

impl Deref for Wiped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Wiped {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_growing_and_losing_their_beginning() {
        let mut bytes = Wiped::default();
        for round in 0..200 {
            bytes.push(round);
        }
        assert_eq!(bytes.len(), 200);
        bytes.drop_first(190);
        assert_eq!(&*bytes, [190, 191, 192, 193, 194, 195, 196, 197, 198, 199]);
        bytes.drop_first(11);
        assert!(bytes.is_empty());
    }
}
