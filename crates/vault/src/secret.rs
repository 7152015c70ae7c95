//! The secret itself: bytes that are wiped when they are dropped, and that cannot be shown, copied or compared by accident.
//!
//! There is no Debug, Display, Clone, Serialize, Deref or PartialEq here, and none is ever added: `tests/secret_is_closed.rs` compiles each
//! attempt and sees it fail. What has to see the bytes says [`Secret::expose`], so that one search finds every such place.
//!
//! Values are read into a `Buffer` whose size never changes, because a vector that grows leaves copies behind.

use keyward_sys::memory;
use std::io::{self, Read};
use zeroize::{Zeroize, Zeroizing};

/// The most bytes of a secret. Keys, tokens and certificates are far below; what is larger is the wrong file.
pub const LARGEST: usize = 64 * 1024;

/// A value that nobody sees by accident. Wiped when it is dropped.
pub struct Secret(Zeroizing<Box<[u8]>>);

impl Secret {
    /// The bytes, for whoever delivers them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// How many bytes it has.
    pub fn length(&self) -> usize {
        self.0.len()
    }

    /// Reads all there is. Give it a descriptor itself: `std::io::stdin()` and its like keep what they have read in a buffer of their own.
    pub fn read(mut from: impl Read) -> Result<Secret, Unread> {
        let mut buffer = Buffer::new(LARGEST);
        buffer.fill(&mut from)?;
        Ok(buffer.into_secret())
    }

    /// Without the newline that an editor or `echo` has left at its end.
    pub(crate) fn without_last_newline(self) -> Secret {
        let bytes = self.expose();
        let end = bytes
            .strip_suffix(b"\r\n")
            .or_else(|| bytes.strip_suffix(b"\n"))
            .map_or(bytes.len(), <[u8]>::len);
        Secret::copy_of(bytes.get(..end).unwrap_or_default())
    }

    /// A copy of these bytes, which somebody else wipes.
    pub(crate) fn copy_of(bytes: &[u8]) -> Secret {
        let mut place = Zeroizing::new(vec![0; bytes.len()].into_boxed_slice());
        // Out of the swap before there is something in it.
        memory::lock(&place);
        place.copy_from_slice(bytes);
        Secret(place)
    }
}

/// Why a secret could not be read.
#[derive(Debug)]
pub enum Unread {
    /// It has more than [`LARGEST`] bytes.
    TooLarge,
    Io(io::Error),
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        Unread::Io(error)
    }
}

/// Bytes on their way to a secret: a fixed place of a fixed size, wiped when it is dropped.
pub(crate) struct Buffer {
    bytes: Zeroizing<Box<[u8]>>,
    length: usize,
}

impl Buffer {
    /// With room for this many bytes.
    pub(crate) fn new(most: usize) -> Self {
        // One more, to notice that there is more.
        let bytes = Zeroizing::new(vec![0; most + 1].into_boxed_slice());
        memory::lock(&bytes);
        Buffer { bytes, length: 0 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Reads once. How many bytes came; none at the end.
    pub(crate) fn read_once(&mut self, from: &mut impl Read) -> Result<usize, Unread> {
        let free = self.bytes.get_mut(self.length..).unwrap_or_default();
        let read = from.read(free)?;
        self.length += read;
        if self.length == self.bytes.len() { Err(Unread::TooLarge) } else { Ok(read) }
    }

    /// Reads to the end.
    pub(crate) fn fill(&mut self, from: &mut impl Read) -> Result<(), Unread> {
        loop {
            match self.read_once(from) {
                Ok(0) => return Ok(()),
                Err(Unread::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
    }

    /// One byte more, if there is room.
    pub(crate) fn push(&mut self, byte: u8) -> Result<(), Unread> {
        // The last place is never used: it stands for "more".
        if self.length + 1 >= self.bytes.len() {
            return Err(Unread::TooLarge);
        }
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte;
            self.length += 1;
        }
        Ok(())
    }

    /// Wipes the first bytes; the others move to their place.
    pub(crate) fn consume(&mut self, count: usize) {
        let count = count.min(self.length);
        self.bytes.copy_within(count..self.length, 0);
        self.length -= count;
        if let Some(rest) = self.bytes.get_mut(self.length..) {
            rest.zeroize();
        }
    }

    pub(crate) fn into_secret(self) -> Secret {
        Secret::copy_of(self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_value_is_read_and_no_more_than_it_may_have() {
        assert_eq!(Secret::read(b"abc".as_slice()).unwrap().expose(), b"abc");
        assert_eq!(Secret::read(vec![7; LARGEST].as_slice()).unwrap().length(), LARGEST);
        assert!(matches!(Secret::read(vec![7; LARGEST + 1].as_slice()), Err(Unread::TooLarge)));
        assert!(matches!(Secret::read(io::repeat(7)), Err(Unread::TooLarge)));
    }

    #[test]
    fn what_leaves_a_buffer_is_wiped_in_it() {
        let mut buffer = Buffer::new(8);
        buffer.fill(&mut b"abcdef".as_slice()).unwrap();
        buffer.consume(4);
        assert_eq!((buffer.bytes(), &buffer.bytes[..]), (b"ef".as_slice(), b"ef\0\0\0\0\0\0\0".as_slice()));
        buffer.consume(2);
        assert_eq!((buffer.bytes(), &buffer.bytes[..]), (b"".as_slice(), [0; 9].as_slice()));
        for byte in b"12345678" {
            buffer.push(*byte).unwrap();
        }
        assert!(matches!(buffer.push(b'9'), Err(Unread::TooLarge)));
        assert_eq!(buffer.bytes(), b"12345678");
    }
}
