//! Lets a loop use the wide registers of the processor it runs on, where the program as a whole is built for any.

/// Work that is worth compiling twice. `run`, and every function that it calls and that shall be compiled with it, has to be marked
/// `#[inline(always)]`.
pub trait Work {
    type Result;

    fn run<R: Registers>(self, registers: R) -> Self::Result;
}

/// What compilers do not find by themselves.
pub trait Registers: Copy {
    /// The highest bit of each byte.
    fn high_bits(self, bytes: &[u8; 64]) -> u64;
}

/// Does the work, in the form for processors with AVX2 and BMI2 where the processor has them.
#[inline]
pub fn with_wide_registers<W: Work>(work: W) -> W::Result {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("bmi2") {
        // SAFETY: the function's only condition is that the processor has these two features, and it was just asked.
        return unsafe { x86::wide(work) };
    }
    work.run(Plain)
}

#[derive(Clone, Copy)]
struct Plain;

impl Registers for Plain {
    #[inline(always)]
    fn high_bits(self, bytes: &[u8; 64]) -> u64 {
        let (eights, _) = bytes.as_chunks::<8>();
        eights.iter().enumerate().fold(0, |all, (place, eight)| {
            // The multiplication moves the lowest bit of every byte into the highest byte.
            let ones = u64::from_le_bytes(*eight) >> 7 & 0x0101_0101_0101_0101;
            all | ones.wrapping_mul(0x0102_0408_1020_4080) >> 56 << (place * 8)
        })
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Registers, Work};
    use std::arch::x86_64::{_mm256_loadu_si256, _mm256_movemask_epi8};

    /// Exists only within [`wide`].
    #[derive(Clone, Copy)]
    struct Wide;

    #[target_feature(enable = "avx2,bmi2")]
    pub(super) fn wide<W: Work>(work: W) -> W::Result {
        work.run(Wide)
    }

    impl Registers for Wide {
        #[inline(always)]
        fn high_bits(self, bytes: &[u8; 64]) -> u64 {
            let (halves, _) = bytes.as_chunks::<32>();
            halves.iter().enumerate().fold(0, |all, (place, half)| {
                // SAFETY: the load reads the 32 bytes of `half` and needs no alignment; a `Wide` is only made in `wide`, whose
                // caller has seen that the processor has AVX2.
                let bits = unsafe { _mm256_movemask_epi8(_mm256_loadu_si256(half.as_ptr().cast())) };
                all | u64::from(bits.cast_unsigned()) << (place * 32)
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bits<'a>(&'a [u8; 64], &'a mut u32);

    impl Work for Bits<'_> {
        type Result = u64;

        #[inline(always)]
        fn run<R: Registers>(self, registers: R) -> u64 {
            *self.1 += 1;
            registers.high_bits(self.0)
        }
    }

    #[test]
    fn the_work_is_done_once_and_both_ways_find_the_same_bits() {
        let mut bytes = [0x7f; 64];
        for at in [0, 7, 8, 31, 32, 50, 63] {
            bytes[at] = 0x80 | at as u8;
            let mut times = 0;
            let wide = with_wide_registers(Bits(&bytes, &mut times));
            assert_eq!(wide, Plain.high_bits(&bytes));
            assert_eq!(wide >> at & 1, 1);
            assert_eq!(times, 1);
        }
        assert_eq!(Plain.high_bits(&bytes).count_ones(), 7);
    }
}
