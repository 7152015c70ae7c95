//! Where a token of a known vendor may begin.
//!
//! The registry answers for one place; asking it for every place would be slow. All its tokens have a long row of letters, digits, `_` and
//! `-`, and rows of this length are rare enough: they are found 64 bytes at a time, by arithmetic on bits.

use keyward_policy::detect::registry::{TOKEN_REACH, is_token_byte, token_prefixes};
use keyward_sys::vector::{Classes, Registers, Work, with_wide_registers};

/// Tokens that begin with such signs alone are at least this long.
const ROW: usize = 13;
/// Behind a prefix with another sign in it, the row is at least this long.
const ROW_BEHIND: usize = 10;

/// A prefix and the row behind it are seen by blocks if this much of them is in whole blocks.
const LONGEST_START: usize = 48;
/// What prefixes have in them beside token signs.
const SIGN_BYTES: &[u8] = b"$./:";

pub(super) struct Shapes {
    /// The first three bytes of all prefixes, mixed: one bit each.
    beginnings: Vec<u64>,
    /// Beginnings of prefixes up to the last sign that is none of a token's, such as `hvs.`; by the byte before that sign.
    heads: Vec<Vec<&'static [u8]>>,
    /// With which bytes prefixes begin.
    firsts: [bool; 256],
}

impl Shapes {
    pub(super) fn new() -> Self {
        let heads = vec![Vec::new(); 256];
        let mut shapes = Shapes { beginnings: vec![0; 1 << 10], heads, firsts: [false; 256] };
        for (text, _) in token_prefixes() {
            let text = text.as_bytes();
            shapes.firsts[usize::from(text[0])] = true;
            if let Some(last) = text.iter().rposition(|byte| !is_token_byte(*byte)) {
                let head = &text[..=last];
                let heads = &mut shapes.heads[usize::from(head[last.saturating_sub(1)])];
                if !heads.contains(&head) {
                    heads.push(head);
                }
            }
            // Behind a prefix of two bytes anything may stand.
            for third in 0..=255 {
                let third = text.get(2).copied().unwrap_or(third);
                let place = mixed([text[0], text[1], third]);
                shapes.beginnings[place >> 6] |= 1 << (place & 63);
            }
        }
        shapes
    }

    /// Appends the places where the registry has to be asked, in order. `before` is the byte before the data.
    ///
    /// Of the last bytes every place that could matter is among them: there the row may go on in what has not come yet.
    pub(super) fn places(&self, before: u8, data: &[u8], places: &mut Vec<usize>) {
        // A token that is not decided reaches to the end; one that ends in the last, incomplete block is not found by blocks.
        let open = data
            .iter()
            .rev()
            .take(TOKEN_REACH)
            .take_while(|byte| is_token_byte(**byte) || SIGN_BYTES.contains(byte));
        let tail = (data.len() - open.count()).min((data.len() / 64 * 64).saturating_sub(LONGEST_START));
        with_wide_registers(Scan { shapes: self, before, data, places });
        // The beginnings that were found from the ends of rows are in order within each kind only.
        places.retain(|place| *place < tail);
        places.sort_unstable();
        places.dedup();
        for at in tail..data.len() {
            let may = match data[at..].first_chunk() {
                Some([one, two, three]) => self.may_begin([*one, *two, *three]),
                None => self.firsts[usize::from(data[at])],
            };
            if may && is_boundary(before, data, at) {
                places.push(at);
            }
        }
    }

    #[inline(always)]
    fn may_begin(&self, bytes: [u8; 3]) -> bool {
        let place = mixed(bytes);
        self.beginnings[place >> 6] >> (place & 63) & 1 == 1
    }

    /// Each bit says that a row of `ROW_BEHIND` bytes ends there, and that a sign with which heads end stands before it.
    fn behind_heads(&self, data: &[u8], from: usize, mut ends: u64, places: &mut Vec<usize>) {
        while ends != 0 {
            let end = from + ends.trailing_zeros() as usize;
            ends &= ends - 1;
            let start = end + 1 - ROW_BEHIND;
            let Some(byte) = start.checked_sub(2).map(|at| data[at]) else { continue };
            for head in &self.heads[usize::from(byte)] {
                if data[..start].ends_with(head) {
                    places.push(start - head.len());
                }
            }
        }
    }
}

struct Scan<'a> {
    shapes: &'a Shapes,
    before: u8,
    data: &'a [u8],
    places: &'a mut Vec<usize>,
}

/// So many blocks are looked at before the places in them are.
const BATCH: usize = 32;

impl Work for Scan<'_> {
    type Result = ();

    #[inline(always)]
    fn run<R: Registers>(self, registers: R) {
        let (blocks, _) = self.data.as_chunks::<64>();
        let mut rows = Rows::default();
        let mut earlier =
            Kinds { words: u64::from(self.before.is_ascii_alphanumeric()) << 63, ..Kinds::default() };
        let mut ends = Ends { at: [0; BATCH * 64 + Ends::STEP], count: 0 };
        for (batch, blocks) in blocks.chunks(BATCH).enumerate() {
            let from = batch * BATCH * 64;
            ends.count = 0;
            for (number, block) in blocks.iter().enumerate() {
                let now = Kinds::of(block, registers);
                let (long, behind) = rows.next(now.tokens);
                // Of the ends of rows those before whose beginning there is no letter and no digit.
                ends.add(number * 64, long & !joined(earlier.words, now.words, ROW as u32));
                let behind = behind & joined(earlier.signs, now.signs, ROW_BEHIND as u32);
                if behind != 0 {
                    self.shapes.behind_heads(self.data, from + number * 64, behind, self.places);
                }
                earlier = now;
            }
            for end in &ends.at[..ends.count] {
                let at = from + *end as usize + 1 - ROW;
                let Some([one, two, three]) = self.data[at..].first_chunk() else { continue };
                if self.shapes.may_begin([*one, *two, *three]) {
                    self.places.push(at);
                }
            }
        }
    }
}

/// Where rows end in a batch. Filled without asking how many there are in a block, because that cannot be foreseen.
struct Ends {
    at: [u32; BATCH * 64 + Ends::STEP],
    count: usize,
}

impl Ends {
    const STEP: usize = 4;

    #[inline(always)]
    fn add(&mut self, from: usize, mut bits: u64) {
        let count = self.count + bits.count_ones() as usize;
        let mut filled = self.count;
        while let Some(room) = self.at.get_mut(filled..filled + Self::STEP) {
            for place in room {
                *place = from as u32 + bits.trailing_zeros();
                bits &= bits.wrapping_sub(1);
            }
            filled += Self::STEP;
            if filled >= count {
                break;
            }
        }
        self.count = count;
    }
}

/// Whether a word may begin here.
pub(super) fn is_boundary(before: u8, data: &[u8], at: usize) -> bool {
    let previous = at.checked_sub(1).map_or(before, |at| data[at]);
    !previous.is_ascii_alphanumeric()
}

fn mixed(bytes: [u8; 3]) -> usize {
    let number = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
    (number.wrapping_mul(0x9e37_79b1) >> 16) as usize
}

/// One bit for each byte of a block.
#[derive(Clone, Copy, Default)]
struct Kinds {
    /// What may stand in a token.
    tokens: u64,
    /// Letters and digits.
    words: u64,
    /// What heads end with.
    signs: u64,
}

impl Kinds {
    #[inline(always)]
    fn of<R: Registers>(block: &[u8; 64], registers: R) -> Self {
        let [tokens, words, signs] = registers.members(block, &CLASSES, [WORDS | JOINTS, WORDS, SIGNS]);
        Kinds { tokens, words, signs }
    }
}

/// Digits; letters of the first and of the second half of the alphabet.
const WORDS: u8 = 1 | 2 | 4;
/// `_`; `-`.
const JOINTS: u8 = 8 | 16;
/// `$`, `.` and `/`; `:`.
const SIGNS: u8 = 32 | 64;

/// The classes of bytes by the halves of their number: `0x41` is a letter of the first half because 4 and 1 both have that bit.
const CLASSES: Classes = Classes {
    low: [
        1 | 4,
        1 | 2 | 4,
        1 | 2 | 4,
        1 | 2 | 4,
        1 | 2 | 4 | 32,
        1 | 2 | 4,
        1 | 2 | 4,
        1 | 2 | 4,
        1 | 2 | 4,
        1 | 2 | 4,
        2 | 4 | 64,
        2,
        2,
        2 | 16,
        2 | 32,
        2 | 8 | 32,
    ],
    high: [0, 0, 16 | 32, 1 | 64, 2, 4 | 8, 2, 4, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// Where rows of token signs end, over one block after the other.
#[derive(Default)]
struct Rows {
    one: u64,
    two: u64,
    four: u64,
    eight: u64,
    ten: u64,
}

impl Rows {
    /// Bits at which a row of `ROW` ends, and at which one of exactly `ROW_BEHIND` since its beginning does.
    #[inline(always)]
    fn next(&mut self, one: u64) -> (u64, u64) {
        let two = one & joined(self.one, one, 1);
        let four = two & joined(self.two, two, 2);
        let eight = four & joined(self.four, four, 4);
        let long = eight & joined(self.eight, eight, (ROW - 8) as u32);
        let ten = eight & joined(self.two, two, 8);
        let behind = ten & !joined(self.ten, ten, 1);
        *self = Rows { one, two, four, eight, ten };
        (long, behind)
    }
}

/// The bits moved up, with those that come over from the block before.
#[inline(always)]
fn joined(before: u64, now: u64, by: u32) -> u64 {
    now << by | before >> (64 - by)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Look<'a>(&'a [u8; 64]);

    impl Work for Look<'_> {
        type Result = Kinds;

        #[inline(always)]
        fn run<R: Registers>(self, registers: R) -> Kinds {
            Kinds::of(self.0, registers)
        }
    }

    #[test]
    fn every_byte_is_of_its_kind() {
        for first in (0..=255_u8).step_by(64) {
            let bytes: [u8; 64] = std::array::from_fn(|at| first + at as u8);
            let kinds = with_wide_registers(Look(&bytes));
            for (at, byte) in bytes.into_iter().enumerate() {
                assert_eq!(kinds.tokens >> at & 1 == 1, is_token_byte(byte), "{byte}");
                assert_eq!(kinds.words >> at & 1 == 1, byte.is_ascii_alphanumeric(), "{byte}");
                assert_eq!(kinds.signs >> at & 1 == 1, SIGN_BYTES.contains(&byte), "{byte}");
            }
        }
    }

    #[test]
    fn rows_are_no_longer_than_what_the_registry_asks_for() {
        for (text, then) in token_prefixes() {
            match text.bytes().rposition(|byte| !is_token_byte(byte)) {
                None => assert!(text.len() >= 3 && text.len() + then >= ROW, "{text}"),
                Some(last) => {
                    assert!(text.len() - last - 1 + then >= ROW_BEHIND, "{text}");
                    assert!(last + ROW_BEHIND < LONGEST_START, "{text}");
                    assert!(
                        text.bytes().all(|byte| is_token_byte(byte) || SIGN_BYTES.contains(&byte)),
                        "{text}"
                    );
                }
            }
        }
    }
}
