//! Bytes that are overwritten before their memory is given back, also when they move to a larger place.

use std::ops::Deref;
use zeroize::Zeroize;

#[derive(Default)]
pub(super) struct Wiped {
    /// All of the memory; the bytes are the first of it.
    memory: Vec<u8>,
    length: usize,
}

impl Wiped {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Wiped { memory: vec![0; capacity], length: 0 }
    }

    pub(super) fn push(&mut self, byte: u8) {
        self.extend(&[byte]);
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Lets `fill` write up to so many bytes behind the others; it says how many it wrote.
    pub(super) fn fill<E>(
        &mut self,
        most: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let written = fill(&mut self.room(most)[..most])?.min(most);
        self.length += written;
        Ok(written)
    }

    /// The memory behind the bytes, at least this much of it.
    fn room(&mut self, wanted: usize) -> &mut [u8] {
        let needed = self.length + wanted;
        if needed > self.memory.len() {
            // `Vec` would copy and leave the old bytes where they were.
            let mut larger = vec![0; needed.max(self.memory.len() * 2).max(64)];
            larger[..self.length].copy_from_slice(&self.memory[..self.length]);
            self.memory.zeroize();
            self.memory = larger;
        }
        &mut self.memory[self.length..]
    }

    /// Forgets the first bytes. Where the others stood before is wiped at the end, with the rest of the memory.
    pub(super) fn drop_first(&mut self, count: usize) {
        let count = count.min(self.length);
        self.memory.copy_within(count..self.length, 0);
        self.length -= count;
    }
}

impl Deref for Wiped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.length]
    }
}

impl Drop for Wiped {
    fn drop(&mut self) {
        self.memory.zeroize();
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
        bytes.drop_first(8);
        let filled: Result<usize, ()> = bytes.fill(300, |room| {
            room[..2].copy_from_slice(b"ab");
            Ok(2)
        });
        assert_eq!((filled, &*bytes), (Ok(2), &[198, 199, b'a', b'b'][..]));
        assert_eq!(bytes.fill(1, |_| Err(())), Err(()));
        bytes.drop_first(11);
        assert!(bytes.is_empty());
    }
}
