//! Finding and replacing byte strings in a stream, across the bounds of its pieces. Nothing is held back but what may be the beginning of a
//! match, so that events of a server arrive as they are sent.

use bytes::{Bytes, BytesMut};
use memchr::memmem;
use zeroize::Zeroizing;

/// What is replaced by what.
pub struct Pair {
    pub from: Zeroizing<Vec<u8>>,
    pub to: Zeroizing<Vec<u8>>,
}

/// Replaces in a stream.
pub struct Replacer {
    pairs: Vec<Pair>,
    held: BytesMut,
    /// How often each pair was found.
    pub found: Vec<u64>,
}

impl Replacer {
    pub fn new(pairs: Vec<Pair>) -> Replacer {
        let found = vec![0; pairs.len()];
        Replacer { pairs, held: BytesMut::new(), found }
    }

    /// Takes a piece, and gives what can be passed on.
    pub fn take(&mut self, piece: Bytes) -> Bytes {
        let whole = if self.held.is_empty() {
            piece
        } else {
            let mut whole = std::mem::take(&mut self.held);
            whole.extend_from_slice(&piece);
            whole.freeze()
        };
        let whole = self.replace(whole);
        let keep = self.pairs.iter().map(|pair| begun(&whole, &pair.from)).max().unwrap_or(0);
        let end = whole.len() - keep;
        self.held.extend_from_slice(whole.get(end..).unwrap_or_default());
        whole.slice(..end)
    }

    /// Replaces in the values of headers, each of which stands for itself.
    pub fn clean(&mut self, headers: &mut http::HeaderMap) {
        for value in headers.values_mut() {
            let cleaned = self.replace(Bytes::copy_from_slice(value.as_bytes()));
            if *cleaned != *value.as_bytes() {
                let empty = http::HeaderValue::from_static("");
                *value = http::HeaderValue::from_bytes(&cleaned).unwrap_or(empty);
            }
        }
    }

    /// Whether something is held back.
    pub fn holds_back(&self) -> bool {
        !self.held.is_empty()
    }

    /// What was held back, when the stream ends.
    pub fn finish(&mut self) -> Bytes {
        std::mem::take(&mut self.held).freeze()
    }

    fn replace(&mut self, whole: Bytes) -> Bytes {
        let mut whole = whole;
        for (pair, found) in self.pairs.iter().zip(&mut self.found) {
            let mut places = memmem::find_iter(&whole, &*pair.from).peekable();
            if places.peek().is_none() {
                continue;
            }
            let mut changed = BytesMut::with_capacity(whole.len());
            let mut at = 0;
            for place in places {
                changed.extend_from_slice(whole.get(at..place).unwrap_or_default());
                changed.extend_from_slice(&pair.to);
                at = place + pair.from.len();
                *found += 1;
            }
            changed.extend_from_slice(whole.get(at..).unwrap_or_default());
            whole = changed.freeze();
        }
        whole
    }
}

/// How many bytes at the end of `text` are the beginning of `word`.
fn begun(text: &[u8], word: &[u8]) -> usize {
    let longest = text.len().min(word.len().saturating_sub(1));
    let Some(&first) = word.first() else { return 0 };
    let start = text.len() - longest;
    memchr::memchr_iter(first, text.get(start..).unwrap_or_default())
        .map(|at| start + at)
        .find(|&at| word.starts_with(text.get(at..).unwrap_or_default()))
        .map_or(0, |at| text.len() - at)
}

/// Looks for words in a stream, without holding it back.
pub struct Finder {
    words: Vec<Vec<u8>>,
    tail: Vec<u8>,
}

impl Finder {
    pub fn new(words: Vec<Vec<u8>>) -> Finder {
        Finder { words, tail: Vec::new() }
    }

    /// The number of a word in a text that stands for itself.
    pub fn look(&self, text: &[u8]) -> Option<usize> {
        self.words.iter().position(|word| memmem::find(text, word).is_some())
    }

    /// The number of a word that is complete with this piece.
    pub fn take(&mut self, piece: &[u8]) -> Option<usize> {
        let longest = self.words.iter().map(Vec::len).max().unwrap_or(1) - 1;
        // The bound: the end of what was before, and as much of this.
        let mut bound = std::mem::take(&mut self.tail);
        bound.extend_from_slice(piece.get(..piece.len().min(longest)).unwrap_or_default());
        let found = self
            .words
            .iter()
            .position(|word| memmem::find(&bound, word).is_some() || memmem::find(piece, word).is_some());
        let end = if piece.len() >= longest { piece } else { &bound };
        self.tail = end.get(end.len().saturating_sub(longest)..).unwrap_or_default().to_vec();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replacer() -> Replacer {
        let pair = |from: &str, to: &str| Pair {
            from: Zeroizing::new(from.as_bytes().to_vec()),
            to: Zeroizing::new(to.as_bytes().to_vec()),
        };
        Replacer::new(vec![pair("sk-real-value", "phantom"), pair("aab", "X")])
    }

    #[test]
    fn words_are_replaced_across_bounds() {
        let text = b"x sk-real-value, sk-real-valu, sk-sk-real-value aaab aa sk-real";
        for step in 1..text.len() {
            let mut replacer = replacer();
            let mut out = Vec::new();
            for piece in text.chunks(step) {
                out.extend(replacer.take(Bytes::copy_from_slice(piece)));
            }
            out.extend(replacer.finish());
            assert_eq!(
                String::from_utf8_lossy(&out),
                "x phantom, sk-real-valu, sk-phantom aX aa sk-real",
                "{step}"
            );
            assert_eq!(replacer.found, [2, 1], "{step}");
        }
    }

    #[test]
    fn what_cannot_begin_a_word_is_passed_on_at_once() {
        let mut replacer = replacer();
        assert_eq!(&replacer.take(Bytes::from_static(b"data: hello\n\n"))[..], b"data: hello\n\n");
        assert_eq!(&replacer.take(Bytes::from_static(b"data: sk-re"))[..], b"data: ");
        assert_eq!(&replacer.take(Bytes::from_static(b"d"))[..], b"sk-red");
    }

    #[test]
    fn words_are_found_across_bounds() {
        let text = b"some text with the-phantom in it";
        for step in 1..text.len() {
            let mut finder = Finder::new(vec![b"other-word".to_vec(), b"the-phantom".to_vec()]);
            let found: Vec<usize> = text.chunks(step).filter_map(|piece| finder.take(piece)).collect();
            assert!(found.contains(&1), "{step}");
        }
        let mut finder = Finder::new(vec![b"the-phantom".to_vec()]);
        assert!(text[..25].chunks(3).chain(text[26..].chunks(3)).all(|piece| finder.take(piece).is_none()));
    }
}
