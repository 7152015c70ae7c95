//! Bytes on their way. What has left a buffer is wiped, also where the buffer had to grow.

use rustix::fd::OwnedFd;
use rustix::io::Errno;

/// How much is read at a time.
const CHUNK: usize = 16 * 1024;

#[derive(Default)]
pub(super) struct Buffer {
    /// All of it is initialised; outside of `start..end` it is zero.
    space: Vec<u8>,
    start: usize,
    end: usize,
}

/// The result of an attempt to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrived {
    Something,
    /// Not now.
    Nothing,
    /// Never again.
    End,
}

impl Buffer {
    pub(super) fn content(&self) -> &[u8] {
        &self.space[self.start..self.end]
    }

    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }

    /// Takes away the first bytes.
    pub(super) fn consume(&mut self, length: usize) {
        let until = self.end.min(self.start + length);
        wipe(&mut self.space[self.start..until]);
        self.start = until;
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Reads once.
    pub(super) fn read(&mut self, from: &OwnedFd) -> Arrived {
        match rustix::io::read(from, self.room(CHUNK)) {
            Ok(0) => Arrived::End,
            Ok(length) => {
                self.end += length;
                Arrived::Something
            }
            Err(Errno::AGAIN | Errno::INTR) => Arrived::Nothing,
            Err(_) => Arrived::End,
        }
    }

    /// Writes as much as the other side takes now.
    pub(super) fn write(&mut self, to: &OwnedFd) -> Result<(), Errno> {
        while !self.is_empty() {
            match rustix::net::send(to, self.content(), rustix::net::SendFlags::NOSIGNAL) {
                Ok(written) => self.consume(written),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Room for at least this many bytes behind the content.
    fn room(&mut self, length: usize) -> &mut [u8] {
        if self.space.len() - self.end < length {
            let held = self.len();
            if self.space.len() - held >= length {
                self.space.copy_within(self.start..self.end, 0);
                wipe(&mut self.space[held..self.end]);
            } else {
                let mut larger = vec![0; (held + length).next_power_of_two()];
                larger[..held].copy_from_slice(self.content());
                wipe(&mut self.space);
                self.space = larger;
            }
            (self.start, self.end) = (0, held);
        }
        &mut self.space[self.end..]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        wipe(&mut self.space);
    }
}

/// Overwrites bytes; the compiler must assume that they are read afterwards.
fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    std::hint::black_box(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_leave_a_buffer_as_they_came_and_nothing_of_them_stays(
            steps in proptest::collection::vec((proptest::collection::vec(1u8.., 0..9000), 0usize..9000), 0..20),
        ) {
            let mut buffer = Buffer::default();
            let mut model = Vec::new();
            for (bytes, taken) in steps {
                buffer.push(&bytes);
                model.extend(bytes);
                buffer.consume(taken);
                model.drain(..taken.min(model.len()));
                prop_assert_eq!(buffer.content(), model.as_slice());
                let kept = buffer.space.iter().filter(|byte| **byte != 0).count();
                prop_assert_eq!(kept, model.len());
            }
        }
    }
}
