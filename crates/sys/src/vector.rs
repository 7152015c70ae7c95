//! Lets a loop use the wide registers of the processor it runs on, where the program as a whole is built for any.

/// Work that is worth compiling twice. `run`, and every function that it calls and that shall be compiled with it, has to be marked
/// `#[inline(always)]`.
pub trait Work {
    type Result;

    fn run<R: Registers>(self, registers: R) -> Self::Result;
}

/// What compilers do not find by themselves.
pub trait Registers: Copy {
    /// For each set of classes, one bit for each byte that belongs to one of them.
    fn members<const SETS: usize>(self, bytes: &[u8; 64], classes: &Classes, sets: [u8; SETS])
    -> [u64; SETS];
}

/// Up to eight classes of bytes, one bit each. A byte belongs to those that both halves of it have.
pub struct Classes {
    pub low: [u8; 16],
    pub high: [u8; 16],
}

impl Classes {
    #[inline(always)]
    fn of(&self, byte: u8) -> u8 {
        self.low[usize::from(byte & 15)] & self.high[usize::from(byte >> 4)]
    }
}

/// Does the work, in the form for processors with AVX2 and what came with it where the processor has that.
#[inline]
pub fn with_wide_registers<W: Work>(work: W) -> W::Result {
    #[cfg(target_arch = "x86_64")]
    if x86::is_there() {
        // SAFETY: the function's only condition is that the processor has its features, and it was just asked.
        return unsafe { x86::wide(work) };
    }
    work.run(Plain)
}

#[derive(Clone, Copy)]
struct Plain;

impl Registers for Plain {
    #[inline(always)]
    fn members<const SETS: usize>(
        self,
        bytes: &[u8; 64],
        classes: &Classes,
        sets: [u8; SETS],
    ) -> [u64; SETS] {
        let mut members = [0; SETS];
        for (place, byte) in bytes.iter().enumerate() {
            let class = classes.of(*byte);
            for (members, set) in members.iter_mut().zip(sets) {
                *members |= u64::from(class & set != 0) << place;
            }
        }
        members
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Classes, Registers, Work};
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8,
        _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_set1_epi8, _mm256_setzero_si256,
        _mm256_shuffle_epi8, _mm256_srli_epi16,
    };

    /// Exists only within [`wide`].
    #[derive(Clone, Copy)]
    struct Wide;

    #[inline]
    pub(super) fn is_there() -> bool {
        std::is_x86_feature_detected!("avx2")
            && std::is_x86_feature_detected!("bmi1")
            && std::is_x86_feature_detected!("bmi2")
            && std::is_x86_feature_detected!("lzcnt")
            && std::is_x86_feature_detected!("popcnt")
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn wide<W: Work>(work: W) -> W::Result {
        work.run(Wide)
    }

    impl Registers for Wide {
        #[inline(always)]
        fn members<const SETS: usize>(
            self,
            bytes: &[u8; 64],
            classes: &Classes,
            sets: [u8; SETS],
        ) -> [u64; SETS] {
            let (halves, _) = bytes.as_chunks::<32>();
            let mut members = [0; SETS];
            for (place, half) in halves.iter().enumerate() {
                // SAFETY: a `Wide` is only made in `wide`, whose caller has seen that the processor has AVX2.
                let of_half = unsafe { members_of_half(half, classes, sets) };
                for (members, bits) in members.iter_mut().zip(of_half) {
                    *members |= u64::from(bits) << (place * 32);
                }
            }
            members
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn members_of_half<const SETS: usize>(
        bytes: &[u8; 32],
        classes: &Classes,
        sets: [u8; SETS],
    ) -> [u32; SETS] {
        // SAFETY: each load reads exactly the 16 or 32 bytes of the array it points to, and needs no alignment.
        let (bytes, low, high) = unsafe {
            (
                _mm256_loadu_si256(bytes.as_ptr().cast::<__m256i>()),
                _mm_loadu_si128(classes.low.as_ptr().cast::<__m128i>()),
                _mm_loadu_si128(classes.high.as_ptr().cast::<__m128i>()),
            )
        };
        let half = _mm256_set1_epi8(15);
        let low = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(low), _mm256_and_si256(bytes, half));
        let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), half);
        let class = _mm256_and_si256(low, _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(high), upper));
        sets.map(|set| {
            let common = _mm256_and_si256(class, _mm256_set1_epi8(set.cast_signed()));
            !_mm256_movemask_epi8(_mm256_cmpeq_epi8(common, _mm256_setzero_si256())).cast_unsigned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Members<'a>(&'a [u8; 64], &'a Classes, &'a mut u32);

    impl Work for Members<'_> {
        type Result = [u64; 2];

        #[inline(always)]
        fn run<R: Registers>(self, registers: R) -> [u64; 2] {
            *self.2 += 1;
            registers.members(self.0, self.1, [1, 6])
        }
    }

    #[test]
    fn the_work_is_done_once_and_both_ways_find_the_same_members() {
        // Class 1: digits. Class 2: `A` to `O`. Class 4: bytes beyond ASCII that end in 15.
        let mut classes = Classes { low: [3; 16], high: [0; 16] };
        classes.low[10..].fill(2);
        classes.low[0] = 1;
        classes.low[15] = 6;
        (classes.high[3], classes.high[4], classes.high[15]) = (1, 2, 4);
        for first in (0..=255_u8).step_by(64) {
            let bytes: [u8; 64] = std::array::from_fn(|at| first + at as u8);
            let mut times = 0;
            let found = with_wide_registers(Members(&bytes, &classes, &mut times));
            assert_eq!(found, Plain.members(&bytes, &classes, [1, 6]));
            for (at, byte) in bytes.iter().enumerate() {
                let expected = [byte.is_ascii_digit(), matches!(byte, b'A'..=b'O' | 0xff)];
                assert_eq!(found.map(|bits| bits >> at & 1 == 1), expected, "{byte}");
            }
            assert_eq!(times, 1);
        }
    }
}
