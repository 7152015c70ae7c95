//! What is looked for: every form of every value, in tables of our own that are wiped.
//!
//! Searching is a filter and a comparison. Every form has at least `width + stride - 1` bytes, so that wherever it stands, one of the windows of
//! `width` bytes that begin at every `stride`-th place lies within a fixed part of it. All windows of that part are put into a bitmap, and
//! almost every window of a text is not in it. Only for the others the forms that have such a window are compared as a whole. So the
//! time depends little on how many forms there are, until the bitmap leaves the processor's cache.

use super::encodings::{Encoding, forms};
use super::refuse::{Refused, SHORTEST, refusal};
use super::shapes::Shapes;
use super::wiped::Wiped;
use keyward_policy::detect::registry::{Token, token_at};
use keyward_sys::vector::{Registers, Work, with_wide_registers};
use std::cmp::Reverse;
use std::sync::Arc;
use zeroize::Zeroize;

/// Bytes of a secret, beside its public prefix, that may be shown while it is unknown whether the rest follows.
const OPEN: usize = 7;

/// The compiled forms of the secrets of a session.
///
/// They hold the values in many encodings, in buffers that are overwritten when this is dropped, when they grow, and when they were only needed
/// for building. No automaton of another crate is involved. What is not wiped: numbers and lengths (how many forms a secret has and
/// how long they are), copies in registers and on the stack, and whatever the kernel keeps in its pipes.
pub struct Patterns {
    names: Vec<Arc<str>>,
    bytes: Wiped,
    literals: Vec<Literal>,
    /// The literals in the order of their bytes.
    order: Vec<u32>,
    longest: usize,
    /// The first bytes of all literals: one, two, three and so on.
    beginnings: [Filter; SHORTEST],
    index: Index,
    pub(super) shapes: Shapes,
}

/// One form of one value: a place in the one buffer that holds them all.
struct Literal {
    start: usize,
    length: usize,
    secret: u32,
    encoding: Encoding,
    /// How many of its first bytes may be shown when a stream rests.
    open: usize,
}

/// A literal that stands in a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub(super) start: usize,
    pub(super) length: usize,
    literal: u32,
}

impl Patterns {
    /// Compiles the values; those that cannot be looked for are named with the reason.
    pub fn new<'a>(secrets: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> (Patterns, Vec<Refused>) {
        let mut refused = Vec::new();
        let mut names = Vec::new();
        let mut bytes = Wiped::default();
        let mut literals = Vec::new();
        for (name, value) in secrets {
            if let Some(reason) = refusal(value) {
                refused.push(Refused { name: name.to_owned(), reason });
                continue;
            }
            let secret = names.len() as u32;
            // A name is printed between other people's bytes: nothing in it may act on a terminal.
            names.push(name.chars().map(|c| if c.is_control() { '?' } else { c }).collect::<String>().into());
            add_forms(value, secret, &mut bytes, &mut literals);
        }
        let text = |literal: &Literal| &bytes[literal.start..][..literal.length];
        let mut order: Vec<u32> = (0..literals.len() as u32).collect();
        order.sort_unstable_by(|a, b| text(&literals[*a as usize]).cmp(text(&literals[*b as usize])));
        let beginnings = std::array::from_fn(|length| {
            Filter::new(literals.iter().map(|literal| window(&text(literal)[..=length])), literals.len())
        });
        let index = Index::new(&bytes, &literals);
        let longest = literals.iter().map(|literal| literal.length).max().unwrap_or(0);
        (
            Patterns { names, bytes, literals, order, longest, beginnings, index, shapes: Shapes::new() },
            refused,
        )
    }

    /// Whether there is no secret to look for. The shapes of vendors' tokens are looked for nevertheless.
    pub fn is_empty(&self) -> bool {
        self.literals.is_empty()
    }

    /// How many forms are looked for.
    pub fn forms(&self) -> usize {
        self.literals.len()
    }

    pub(super) fn secret(&self, hit: &Hit) -> u32 {
        self.literals[hit.literal as usize].secret
    }

    pub(super) fn name(&self, secret: u32) -> &Arc<str> {
        &self.names[secret as usize]
    }

    pub(super) fn encoding(&self, hit: &Hit) -> Encoding {
        self.literals[hit.literal as usize].encoding
    }

    fn text(&self, literal: u32) -> &[u8] {
        let literal = &self.literals[literal as usize];
        &self.bytes[literal.start..][..literal.length]
    }

    /// The longest literal with which the text begins: its length, whose it is and what it is. Asks one after the other.
    pub(super) fn longest_at(&self, text: &[u8]) -> Option<(usize, u32, Encoding)> {
        let there = (0..self.literals.len() as u32).filter(|literal| text.starts_with(self.text(*literal)));
        let literal =
            &self.literals[there.min_by_key(|literal| Reverse(self.text(*literal).len()))? as usize];
        Some((literal.length, literal.secret, literal.encoding))
    }

    /// Appends all literals that stand wholly in the data, by their place; at the same place the longest comes first. Returns the first place
    /// from which on the data is the beginning of a literal, and not the whole of the longest one.
    pub(super) fn find(&self, data: &[u8], hits: &mut Vec<Hit>) -> Option<usize> {
        let mut undecided = usize::MAX;
        self.index.scan(data, &mut |at, window| {
            for (literal, offset) in self.index.having(window) {
                let text = self.text(*literal);
                let Some(start) = at.checked_sub(*offset as usize) else { continue };
                let there = &data[start..];
                if there.starts_with(text) {
                    hits.push(Hit { start, length: text.len(), literal: *literal });
                } else if text.starts_with(there) {
                    undecided = undecided.min(start);
                }
            }
        });
        hits.sort_unstable_by_key(|hit| (hit.start, Reverse(hit.length), hit.literal));
        // What has begun so late that none of its windows is there.
        let late = data.len().saturating_sub(self.index.reach);
        let begun = (late..data.len()).find(|at| self.goes_on(&data[*at..])).unwrap_or(usize::MAX);
        Some(undecided.min(begun)).filter(|at| *at < data.len())
    }

    /// Whether all of this data may be shown although a secret may have begun in it.
    pub(super) fn may_show(&self, data: &[u8]) -> bool {
        let from = data.len().saturating_sub(self.longest);
        (from..data.len()).filter(|at| self.goes_on(&data[*at..])).all(|at| {
            let begun = &data[at..];
            let from = self.order.partition_point(|literal| self.text(*literal) <= begun);
            let going_on =
                self.order[from..].iter().take_while(|literal| self.text(**literal).starts_with(begun));
            let mut going_on = going_on.map(|literal| &self.literals[*literal as usize]);
            going_on.all(|literal| begun.len() <= literal.open)
        })
    }

    /// Whether a literal is longer than this and begins with it.
    fn goes_on(&self, begun: &[u8]) -> bool {
        let known = begun.len().min(SHORTEST);
        if known == 0 || !self.beginnings[known - 1].may_hold(window(&begun[..known])) {
            return false;
        }
        let next = self.order.partition_point(|literal| self.text(*literal) <= begun);
        self.order.get(next).is_some_and(|literal| self.text(*literal).starts_with(begun))
    }
}

fn add_forms(value: &[u8], secret: u32, bytes: &mut Wiped, literals: &mut Vec<Literal>) {
    let public = match token_at(value, true) {
        Token::Begins { prefix, .. } => prefix,
        _ => 0,
    };
    let own = literals.len();
    let mut add = |encoding, form: &[u8], public: usize| {
        let known = |literal: &Literal| {
            literal.length == form.len() && &bytes[literal.start..][..literal.length] == form
        };
        if form.len() < SHORTEST || literals[own..].iter().any(known) {
            return;
        }
        let hidden = value.len().saturating_sub(public);
        let open = (public + OPEN.min(hidden / 2)) * form.len() / value.len();
        literals.push(Literal { start: bytes.len(), length: form.len(), secret, encoding, open });
        bytes.extend(form);
    };
    forms(value, &mut |encoding, form| {
        add(encoding, &form, if encoding == Encoding::Reversed { 0 } else { public });
    });
    let rest = &value[public..];
    if public > 0 && refusal(rest).is_none() {
        add(Encoding::WithoutPrefix, rest, 0);
    }
}

/// An odd number whose bits look random: multiplying by it mixes the low bits into the high ones.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
const MIX_AGAIN: u64 = 0xd6e8_feb8_6659_fd93;

/// A set of numbers that is asked often and mostly says no. It may say yes wrongly. (A Bloom filter that has all bits of a number in one word.)
struct Filter {
    words: Vec<u64>,
    shift: u32,
}

impl Filter {
    /// Words, as powers of two: of three sizes, so that searching is compiled for each. The first fits into the first cache.
    const SIZES: [u32; 3] = [12, 14, 17];
    /// Bits that there should be for each number. With three of them set, one answer in two hundred is wrong.
    const ROOM: usize = 16;

    fn new(numbers: impl Iterator<Item = u64>, count: usize) -> Self {
        let enough = |log: &u32| count * Self::ROOM <= 64 << log;
        let log = Self::SIZES.into_iter().find(enough).unwrap_or(Self::SIZES[2]);
        let mut filter = Filter { words: vec![0; 1 << log], shift: 64 - log };
        for number in numbers {
            let (word, bits) = filter.place(number);
            filter.words[word] |= bits;
        }
        filter
    }

    /// The word of this number, and its bits in it.
    #[inline(always)]
    fn place(&self, number: u64) -> (usize, u64) {
        let mixed = number.wrapping_mul(MIX);
        ((mixed >> self.shift) as usize, bits(mixed, self.shift))
    }

    #[inline(always)]
    fn may_hold(&self, number: u64) -> bool {
        let (word, bits) = self.place(number);
        bits & !self.words[word] == 0
    }
}

#[inline(always)]
fn bits(mixed: u64, shift: u32) -> u64 {
    BITS[usize::from((mixed >> (shift - 8)) as u8)]
}

/// A filter of a size that the compiler knows, so that it need not check places.
#[derive(Clone, Copy)]
struct Known<'a, const WORDS: usize>(&'a [u64; WORDS]);

impl<const WORDS: usize> Known<'_, WORDS> {
    const SHIFT: u32 = 64 - WORDS.ilog2();

    /// Zero if it may hold the number.
    #[inline(always)]
    fn missing(self, number: u64) -> u64 {
        let mixed = number.wrapping_mul(MIX);
        bits(mixed, Self::SHIFT) & !self.0[(mixed >> Self::SHIFT) as usize]
    }
}

/// Words with three bits each.
static BITS: [u64; 256] = {
    let mut words = [0_u64; 256];
    let mut at = 0;
    let mut random = MIX;
    while at < 256 {
        while words[at].count_ones() < 3 {
            random = random.wrapping_mul(MIX_AGAIN).wrapping_add(MIX);
            words[at] |= 1 << (random >> 58);
        }
        at += 1;
    }
    words
};

impl Drop for Filter {
    fn drop(&mut self) {
        self.words.zeroize();
    }
}

/// Steps that the search is compiled for, each with the narrowest window that it is used with. The first fits the shortest literal.
const STRIDES: [(usize, usize); 5] = [(4, 5), (6, 5), (8, 6), (13, 8), (16, 8)];

/// Where the part of a literal begins at the latest by which it is found.
const START: usize = 64;

/// Windows that are asked for at once, because mostly all answers are no.
const AT_ONCE: usize = 16;

/// Which literals have which window.
struct Index {
    stride: usize,
    width: usize,
    mask: u64,
    /// Of every literal, so many of its first bytes are enough for a window of it to be found.
    reach: usize,
    filter: Filter,
    /// Open addressing; a slot without literals is free.
    slots: Vec<Slot>,
    /// Literals and the place of the window in them, those of one window side by side.
    places: Vec<(u32, u32)>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    window: u64,
    first: u32,
    count: u32,
}

impl Index {
    fn new(bytes: &[u8], literals: &[Literal]) -> Self {
        let shortest = literals.iter().map(|literal| literal.length).min().unwrap_or(16);
        // Large steps, and windows that are wide enough to be rare.
        let (stride, _) = STRIDES
            .into_iter()
            .rev()
            .find(|(stride, width)| stride + width - 1 <= shortest)
            .unwrap_or(STRIDES[0]);
        let width = (shortest - stride + 1).min(8);
        let mask = u64::MAX >> (64 - 8 * width);
        let span = width + stride - 1;
        let mut reach = 0;
        let mut rows: Vec<(u64, u32, u32)> = Vec::with_capacity(literals.len() * stride);
        // The windows of the forms of one secret so far: forms that are partly the same share theirs.
        let mut own = Filter::new(std::iter::empty(), 0);
        let mut own_windows: Vec<u64> = Vec::with_capacity(4096);
        for (number, literal) in literals.iter().enumerate() {
            if number.checked_sub(1).is_some_and(|last| literals[last].secret != literal.secret) {
                own.words.fill(0);
                own_windows.zeroize();
            }
            let text = &bytes[literal.start..][..literal.length];
            let windows =
                |from: usize| (from..from + stride).map(move |offset| window(&text[offset..]) & mask);
            let known = |window| own.may_hold(window) && own_windows.contains(&window);
            let shared = (0..=(text.len() - span).min(START)).find(|from| windows(*from).all(known));
            // Not the beginning, which values of one vendor have in common, and not far from it: see `reach`.
            let from = shared.unwrap_or((text.len() - span).min(START) / 2);
            reach = reach.max(from + span);
            if shared.is_none() && own_windows.len() + stride <= own_windows.capacity() {
                for window in windows(from) {
                    let (word, bits) = own.place(window);
                    own.words[word] |= bits;
                    own_windows.push(window);
                }
            }
            for (window, offset) in windows(from).zip(from..) {
                rows.push((window, number as u32, offset as u32));
            }
        }
        own_windows.zeroize();
        rows.sort_unstable();
        let filter = Filter::new(rows.iter().map(|row| row.0), rows.len());
        let places = rows.iter().map(|(_, literal, offset)| (*literal, *offset)).collect();
        let mut index = Index {
            stride,
            width,
            mask,
            reach,
            filter,
            slots: vec![Slot::default(); (rows.len() * 2).next_power_of_two()],
            places,
        };
        let mut first = 0;
        for same in rows.chunk_by(|a, b| a.0 == b.0) {
            let slot = index.slot(same[0].0);
            index.slots[slot] = Slot { window: same[0].0, first, count: same.len() as u32 };
            first += same.len() as u32;
        }
        for row in &mut rows {
            row.0.zeroize();
        }
        index
    }

    /// The slot of this window, or the free one where it would stand.
    fn slot(&self, window: u64) -> usize {
        let most = self.slots.len() - 1;
        let mut at = (window.wrapping_mul(MIX_AGAIN) >> 32) as usize & most;
        while self.slots[at].count > 0 && self.slots[at].window != window {
            at = (at + 1) & most;
        }
        at
    }

    fn having(&self, window: u64) -> &[(u32, u32)] {
        let slot = self.slots[self.slot(window)];
        &self.places[slot.first as usize..][..slot.count as usize]
    }

    /// Calls `look` for every window that may be one of ours, with its place.
    fn scan(&self, data: &[u8], look: &mut dyn FnMut(usize, u64)) {
        if self.places.is_empty() {
            return;
        }
        let scanned = with_wide_registers(Scan { index: self, data, look });
        let mut at = scanned;
        while at + self.width <= data.len() {
            let window = window(&data[at..]) & self.mask;
            if self.filter.may_hold(window) {
                look(at, window);
            }
            at += self.stride;
        }
    }

    #[inline(always)]
    fn scan_by<const STRIDE: usize, const WORDS: usize>(
        &self,
        filter: Known<WORDS>,
        data: &[u8],
        look: &mut dyn FnMut(usize, u64),
    ) -> usize {
        let mut at = 0;
        while let Some(block) = data.get(at..at + (AT_ONCE - 1) * STRIDE + 8) {
            let window = |number: usize| window(&block[number * STRIDE..][..8]) & self.mask;
            if (0..AT_ONCE).fold(u64::MAX, |least, number| least.min(filter.missing(window(number)))) == 0 {
                for number in (0..AT_ONCE).filter(|number| filter.missing(window(*number)) == 0) {
                    look(at + number * STRIDE, window(number));
                }
            }
            at += AT_ONCE * STRIDE;
        }
        at
    }
}

struct Scan<'a, 'b> {
    index: &'a Index,
    data: &'a [u8],
    look: &'a mut (dyn FnMut(usize, u64) + 'b),
}

impl Scan<'_, '_> {
    #[inline(always)]
    fn with<const WORDS: usize>(self, filter: Known<WORDS>) -> usize {
        match self.index.stride {
            16 => self.index.scan_by::<16, WORDS>(filter, self.data, self.look),
            13 => self.index.scan_by::<13, WORDS>(filter, self.data, self.look),
            8 => self.index.scan_by::<8, WORDS>(filter, self.data, self.look),
            6 => self.index.scan_by::<6, WORDS>(filter, self.data, self.look),
            _ => self.index.scan_by::<4, WORDS>(filter, self.data, self.look),
        }
    }
}

impl Work for Scan<'_, '_> {
    type Result = usize;

    #[inline(always)]
    fn run<R: Registers>(self, _: R) -> usize {
        let words = self.index.filter.words.as_slice();
        if let Ok(words) = <&[u64; 1 << Filter::SIZES[0]]>::try_from(words) {
            self.with(Known(words))
        } else if let Ok(words) = <&[u64; 1 << Filter::SIZES[1]]>::try_from(words) {
            self.with(Known(words))
        } else if let Ok(words) = <&[u64; 1 << Filter::SIZES[2]]>::try_from(words) {
            self.with(Known(words))
        } else {
            0
        }
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        for slot in &mut self.slots {
            slot.window.zeroize();
        }
    }
}

/// The first eight bytes, as a number; what is missing is zero.
#[inline(always)]
fn window(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)),
    }
}
