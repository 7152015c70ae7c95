//! Texts of a script. Most are short, and are kept in place: to make one or to copy one costs no memory of its own.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::rc::Rc;

/// Bytes that can grow; a copy is as good as free, however long they are.
#[derive(Clone)]
pub struct Bytes(Kept);

/// As much as fits beside the length into the room of three words.
const SHORT: usize = 22;

#[derive(Clone)]
enum Kept {
    Short { length: u8, bytes: [u8; SHORT] },
    Long(Rc<Vec<u8>>),
}

impl Bytes {
    pub const fn new() -> Bytes {
        Bytes(Kept::Short { length: 0, bytes: [0; SHORT] })
    }

    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Kept::Short { length, bytes } => &bytes[..usize::from(*length)],
            Kept::Long(bytes) => bytes,
        }
    }

    pub fn push(&mut self, byte: u8) {
        self.extend_from_slice(&[byte]);
    }

    pub fn pop(&mut self) -> Option<u8> {
        match &mut self.0 {
            Kept::Short { length, bytes } => {
                *length = length.checked_sub(1)?;
                Some(bytes[usize::from(*length)])
            }
            Kept::Long(bytes) => Rc::make_mut(bytes).pop(),
        }
    }

    pub fn extend_from_slice(&mut self, more: &[u8]) {
        match &mut self.0 {
            Kept::Short { length, bytes } => {
                let (before, after) = (usize::from(*length), usize::from(*length) + more.len());
                match bytes.get_mut(before..after) {
                    Some(room) => {
                        room.copy_from_slice(more);
                        *length = after as u8;
                    }
                    None => {
                        let mut long = Vec::with_capacity(after.max(2 * SHORT));
                        long.extend_from_slice(&bytes[..before]);
                        long.extend_from_slice(more);
                        self.0 = Kept::Long(Rc::new(long));
                    }
                }
            }
            Kept::Long(bytes) => Rc::make_mut(bytes).extend_from_slice(more),
        }
    }

    /// All but the first `count`.
    pub fn without_first(&self, count: usize) -> Bytes {
        Bytes::from(self.get(count..).unwrap_or_default())
    }
}

impl Default for Bytes {
    fn default() -> Bytes {
        Bytes::new()
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl Borrow<[u8]> for Bytes {
    fn borrow(&self) -> &[u8] {
        self.as_slice()
    }
}

impl From<&[u8]> for Bytes {
    fn from(text: &[u8]) -> Bytes {
        if text.len() > SHORT {
            return Bytes(Kept::Long(Rc::new(text.to_vec())));
        }
        let mut bytes = [0; SHORT];
        bytes[..text.len()].copy_from_slice(text);
        Bytes(Kept::Short { length: text.len() as u8, bytes })
    }
}

impl<const N: usize> From<[u8; N]> for Bytes {
    fn from(text: [u8; N]) -> Bytes {
        Bytes::from(text.as_slice())
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(text: Vec<u8>) -> Bytes {
        if text.len() > SHORT { Bytes(Kept::Long(Rc::new(text))) } else { Bytes::from(text.as_slice()) }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

impl Hash for Bytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl Eq for Bytes {}

impl PartialEq for Bytes {
    fn eq(&self, other: &Bytes) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl PartialEq<[u8]> for Bytes {
    fn eq(&self, other: &[u8]) -> bool {
        self.as_slice() == other
    }
}

impl<const N: usize> PartialEq<[u8; N]> for Bytes {
    fn eq(&self, other: &[u8; N]) -> bool {
        self.as_slice() == other
    }
}

impl PartialEq<&[u8]> for Bytes {
    fn eq(&self, other: &&[u8]) -> bool {
        self.as_slice() == *other
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for Bytes {
    fn eq(&self, other: &&[u8; N]) -> bool {
        self.as_slice() == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_texts_are_the_same_to_whoever_uses_them() {
        let mut grown = Bytes::new();
        let mut expected = Vec::new();
        for number in 0..100u8 {
            grown.push(number);
            expected.push(number);
            assert_eq!(grown, expected.as_slice());
            assert_eq!(grown, Bytes::from(expected.clone()));
            assert_eq!(grown.without_first(3), &expected[3.min(expected.len())..]);
        }
        while let Some(byte) = grown.pop() {
            assert_eq!(expected.pop(), Some(byte));
            assert_eq!(grown, Bytes::from(expected.as_slice()));
        }
        assert!(expected.is_empty() && grown.is_empty());
    }

    #[test]
    fn a_copy_does_not_change_with_what_it_was_copied_from() {
        for length in [3, SHORT, SHORT + 1, 200] {
            let mut one = Bytes::from(vec![b'a'; length]);
            let copy = one.clone();
            one.extend_from_slice(b"more");
            assert_eq!((copy.len(), one.len()), (length, length + 4));
            one.pop();
            assert!(one.ends_with(b"mor") && !copy.contains(&b'm'));
        }
        assert_eq!(size_of::<Bytes>(), 24);
        assert_eq!(size_of::<Option<Bytes>>(), 24);
    }
}
