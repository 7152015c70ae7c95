//! Where a token of a known vendor may begin.
//!
//! The registry answers for one place; asking it for every place would be slow. All its tokens have a long row of letters, digits, `_` and
//! `-`, and rows of this length are rare enough: they are found 64 bytes at a time, by arithmetic on bits.

use keyward_policy::registry::{TOKEN_REACH, is_token_byte, token_prefixes};
use keyward_sys::vector::{Registers, Work, with_wide_registers};

/// Tokens that begin with such signs alone are at least this long.
const ROW: usize = 13;
/// Behind a prefix with another sign in it, the row is at least this long.
const ROW_BEHIND: usize = 10;

pub(super) struct Shapes {
    /// The first three bytes of all prefixes of token signs, mixed: one bit each.
    beginnings: Vec<u64>,
    /// Beginnings of prefixes up to the last sign that is none of a token's, such as `hvs.`; by the byte before that sign.
    heads: Vec<(u8, &'static [u8])>,
    /// The byte before the last sign of a head, and that sign.
    ends: [bool; 256],
    /// With which bytes prefixes begin.
    firsts: [bool; 256],
}

impl Shapes {
    pub(super) fn new() -> Self {
        let mut shapes = Shapes {
            beginnings: vec![0; 1 << 10],
            heads: Vec::new(),
            ends: [false; 256],
            firsts: [false; 256],
        };
        for (text, _) in token_prefixes() {
            let text = text.as_bytes();
            shapes.firsts[usize::from(text[0])] = true;
            match text.iter().rposition(|byte| !is_token_byte(*byte)) {
                Some(last) => {
                    let head = &text[..=last];
                    let before = head[last.saturating_sub(1)];
                    shapes.ends[usize::from(before)] = true;
                    if !shapes.heads.contains(&(before, head)) {
                        shapes.heads.push((before, head));
                    }
                }
                None => {
                    let place = mixed([text[0], text[1], text[2]]);
                    shapes.beginnings[place >> 6] |= 1 << (place & 63);
                }
            }
        }
        shapes
    }

    /// Appends the places where the registry has to be asked, in order. `before` is the byte before the data.
    ///
    /// Of the last bytes every place that could matter is among them: there the row may go on in what has not come yet.
    pub(super) fn places(&self, before: u8, data: &[u8], places: &mut Vec<usize>) {
        let tail = data.len().saturating_sub(TOKEN_REACH) / 64 * 64;
        with_wide_registers(Scan { shapes: self, before, data, places });
        // The beginnings that were found from the ends of rows are in order within each kind only.
        places.retain(|place| *place < tail);
        places.sort_unstable();
        places.dedup();
        for at in tail..data.len() {
            if self.firsts[usize::from(data[at])] && is_boundary(before, data, at) {
                places.push(at);
            }
        }
    }

    /// Each bit says that a row of `ROW_BEHIND` bytes ends there, and that a sign with which heads end stands before it.
    fn behind_heads(&self, data: &[u8], from: usize, mut ends: u64, places: &mut Vec<usize>) {
        while ends != 0 {
            let end = from + ends.trailing_zeros() as usize;
            ends &= ends - 1;
            let start = end + 1 - ROW_BEHIND;
            let Some(byte) = start.checked_sub(2).map(|at| data[at]) else { continue };
            if !self.ends[usize::from(byte)] {
                continue;
            }
            for (_, head) in self.heads.iter().filter(|(before, _)| *before == byte) {
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
const BATCH: usize = 64;

impl Work for Scan<'_> {
    type Result = ();

    #[inline(always)]
    fn run<R: Registers>(self, registers: R) {
        let (blocks, _) = self.data.as_chunks::<64>();
        let mut rows = Rows::default();
        let mut earlier =
            Classes { words: u64::from(self.before.is_ascii_alphanumeric()) << 63, ..Classes::default() };
        let mut ends = Ends { at: [0; BATCH * 64 + Ends::STEP], count: 0 };
        for (batch, blocks) in blocks.chunks(BATCH).enumerate() {
            let from = batch * BATCH * 64;
            ends.count = 0;
            for (number, block) in blocks.iter().enumerate() {
                let now = Classes::of(block, registers);
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
                let place = mixed([*one, *two, *three]);
                if self.shapes.beginnings[place >> 6] >> (place & 63) & 1 == 1 {
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
struct Classes {
    /// What may stand in a token.
    tokens: u64,
    /// Letters and digits.
    words: u64,
    /// What heads end with.
    signs: u64,
}

impl Classes {
    #[inline(always)]
    fn of<R: Registers>(block: &[u8; 64], registers: R) -> Self {
        // One byte for each first, in a loop that compilers turn into vector instructions.
        let (mut tokens, mut words, mut signs) = ([0_u8; 64], [0_u8; 64], [0_u8; 64]);
        for at in 0..64 {
            let byte = block[at];
            let yes = |is: bool| if is { 0xff } else { 0 };
            let word = yes((byte | 0x20).wrapping_sub(b'a') < 26) | yes(byte.wrapping_sub(b'0') < 10);
            words[at] = word;
            tokens[at] = word | yes(byte == b'_') | yes(byte == b'-');
            signs[at] = yes(byte == b'.') | yes(byte == b':') | yes(byte == b'/') | yes(byte == b'$');
        }
        Classes {
            tokens: registers.high_bits(&tokens),
            words: registers.high_bits(&words),
            signs: registers.high_bits(&signs),
        }
    }
}

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
