//! The CRC by x86-64's instructions.
//!
//! Octets are taken into lanes of 128 bits. A lane of 64 low bits L and 64 high bits H that has D bits to go before the octets
//! it is added to is congruent, modulo the polynomial P, to L * x^(D + 64) + H * x^D, two multiplications of 64 by 33 bits:
//! that folds a lane onto another one, D bits further on, and no lane grows. At the end one lane is left, whose CRC the CPU's
//! CRC instruction makes, as it does for what is shorter than a lane. CRC32c takes the low bit of each octet first, so that all
//! polynomials have their bits in reverse order, x^0 in the highest one.
//!
//! With `COPY` everything that is read is written to another place, from the register that the CRC is made of. Those reads are
//! instructions of their own, since a compiler may read what it takes for memory of its own a second time.

use core::arch::asm;
use core::arch::x86_64::{
    __m128i, __m512i, _mm_clmulepi64_si128, _mm_crc32_u8, _mm_crc32_u16, _mm_crc32_u32, _mm_crc32_u64,
    _mm_cvtsi32_si128, _mm_cvtsi128_si64, _mm_extract_epi64, _mm_loadu_si128, _mm_set_epi64x,
    _mm_storeu_si128, _mm_xor_si128, _mm512_clmulepi64_epi128, _mm512_extracti32x4_epi32, _mm512_loadu_si512,
    _mm512_set_epi64, _mm512_storeu_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512,
    _mm512_zextsi128_si512,
};

/// # Safety
/// The CPU must have the instructions.
#[target_feature(enable = "pclmulqdq,sse4.2")]
pub(super) unsafe fn append_128(crc: u32, octets: &[u8]) -> u32 {
    // SAFETY: the slice is valid for reads, and without COPY nothing is written.
    unsafe { fold_128::<false>(crc, octets.as_ptr(), core::ptr::null_mut(), octets.len()) }
}

/// # Safety
/// The CPU must have the instructions; `from` must be valid for reads of `to.len()` octets and not overlap `to`.
#[target_feature(enable = "pclmulqdq,sse4.2")]
pub(super) unsafe fn copy_128(crc: u32, from: *const u8, to: &mut [u8]) -> u32 {
    // SAFETY: as the caller promises.
    unsafe { fold_128::<true>(crc, from, to.as_mut_ptr(), to.len()) }
}

/// # Safety
/// The CPU must have the instructions.
#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,sse4.2")]
pub(super) unsafe fn append_512(crc: u32, octets: &[u8]) -> u32 {
    // SAFETY: the slice is valid for reads, and without COPY nothing is written.
    unsafe { fold_512::<false>(crc, octets.as_ptr(), core::ptr::null_mut(), octets.len()) }
}

/// # Safety
/// The CPU must have the instructions; `from` must be valid for reads of `to.len()` octets and not overlap `to`.
#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,sse4.2")]
pub(super) unsafe fn copy_512(crc: u32, from: *const u8, to: &mut [u8]) -> u32 {
    // SAFETY: as the caller promises.
    unsafe { fold_512::<true>(crc, from, to.as_mut_ptr(), to.len()) }
}

/// # Safety
/// `from` must be valid for reads of `len` octets and, with `COPY`, `to` for writes of as many.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,sse4.2")]
unsafe fn fold_512<const COPY: bool>(crc: u32, from: *const u8, to: *mut u8, len: usize) -> u32 {
    let mut state = !crc;
    let mut at = 0;
    // SAFETY: every access begins at `at` and ends at `len` at most, which the conditions see to.
    unsafe {
        if len >= FOLDED_512 {
            let start = _mm512_zextsi128_si512(_mm_cvtsi32_si128(state.cast_signed()));
            let mut last = _mm512_xor_si512(load_512::<COPY>(from, to), start);
            at = 64;
            if len >= 256 {
                let mut lanes = [last; 4];
                for lane in &mut lanes[1..] {
                    *lane = load_512::<COPY>(from.wrapping_add(at), to.wrapping_add(at));
                    at += 64;
                }
                let far = pair_512::<2048>();
                while len - at >= 256 {
                    for lane in &mut lanes {
                        let next = load_512::<COPY>(from.wrapping_add(at), to.wrapping_add(at));
                        *lane = folded_512(*lane, far, next);
                        at += 64;
                    }
                }
                last = folded_512(lanes[2], pair_512::<512>(), lanes[3]);
                last = folded_512(lanes[1], pair_512::<1024>(), last);
                last = folded_512(lanes[0], pair_512::<1536>(), last);
            }
            let near = pair_512::<512>();
            while len - at >= 64 {
                last = folded_512(last, near, load_512::<COPY>(from.wrapping_add(at), to.wrapping_add(at)));
                at += 64;
            }
            state = reduced_128(joined(last));
        }
        !short::<COPY>(state, from.wrapping_add(at), to.wrapping_add(at), len - at)
    }
}

/// # Safety
/// As for [`fold_512`].
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.2")]
unsafe fn fold_128<const COPY: bool>(crc: u32, from: *const u8, to: *mut u8, len: usize) -> u32 {
    let mut state = !crc;
    let mut at = 0;
    // SAFETY: as in `fold_512`.
    unsafe {
        if len >= FOLDED_128 {
            let mut lanes = [_mm_cvtsi32_si128(state.cast_signed()); 4];
            for (index, lane) in lanes.iter_mut().enumerate() {
                let next = load_128::<COPY>(from.wrapping_add(at), to.wrapping_add(at));
                *lane = if index == 0 { _mm_xor_si128(*lane, next) } else { next };
                at += 16;
            }
            let far = pair_128::<512>();
            while len - at >= 64 {
                for lane in &mut lanes {
                    let next = load_128::<COPY>(from.wrapping_add(at), to.wrapping_add(at));
                    *lane = folded_128(*lane, far, next);
                    at += 16;
                }
            }
            let mut last = folded_128(lanes[2], pair_128::<128>(), lanes[3]);
            last = folded_128(lanes[1], pair_128::<256>(), last);
            last = folded_128(lanes[0], pair_128::<384>(), last);
            state = reduced_128(last);
        }
        !short::<COPY>(state, from.wrapping_add(at), to.wrapping_add(at), len - at)
    }
}

/// Few octets by the CRC instruction.
///
/// # Safety
/// As for [`fold_512`].
#[inline]
#[target_feature(enable = "sse4.2")]
unsafe fn short<const COPY: bool>(mut state: u32, from: *const u8, to: *mut u8, len: usize) -> u32 {
    let mut at = 0;
    // SAFETY: as in `fold_512`.
    unsafe {
        while len - at >= 8 {
            let word = load_u64::<COPY>(from.wrapping_add(at), to.wrapping_add(at));
            state = crc_u64(state, word);
            at += 8;
        }
        if len & 4 != 0 {
            state = _mm_crc32_u32(state, load_u32::<COPY>(from.wrapping_add(at), to.wrapping_add(at)));
            at += 4;
        }
        if len & 2 != 0 {
            state = _mm_crc32_u16(state, load_u16::<COPY>(from.wrapping_add(at), to.wrapping_add(at)));
            at += 2;
        }
        if len & 1 != 0 {
            state = _mm_crc32_u8(state, load_u8::<COPY>(from.wrapping_add(at), to.wrapping_add(at)));
        }
    }
    state
}

#[inline]
#[target_feature(enable = "sse4.2")]
#[expect(clippy::cast_possible_truncation, reason = "the instruction leaves the upper half zero")]
fn crc_u64(state: u32, word: u64) -> u32 {
    _mm_crc32_u64(u64::from(state), word) as u32
}

/// The CRC register after the 16 octets of a lane.
#[inline]
#[target_feature(enable = "sse4.2")]
fn reduced_128(lane: __m128i) -> u32 {
    let state = crc_u64(0, _mm_cvtsi128_si64(lane).cast_unsigned());
    crc_u64(state, _mm_extract_epi64::<1>(lane).cast_unsigned())
}

/// The four lanes of a register folded onto the last.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq")]
fn joined(lanes: __m512i) -> __m128i {
    let [(a, b), (c, d), (e, f)] = const { [constants(384), constants(256), constants(128)] };
    let pairs = _mm512_set_epi64(0, 0, f, e, d, c, b, a);
    let folded = _mm512_xor_si512(
        _mm512_clmulepi64_epi128::<0x00>(lanes, pairs),
        _mm512_clmulepi64_epi128::<0x11>(lanes, pairs),
    );
    let last = _mm512_extracti32x4_epi32::<3>(lanes);
    let [first, second, third] = [
        _mm512_extracti32x4_epi32::<0>(folded),
        _mm512_extracti32x4_epi32::<1>(folded),
        _mm512_extracti32x4_epi32::<2>(folded),
    ];
    _mm_xor_si128(_mm_xor_si128(first, second), _mm_xor_si128(third, last))
}

/// Each lane of `lanes` folded by the distance of `pairs`, onto `next`.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn folded_512(lanes: __m512i, pairs: __m512i, next: __m512i) -> __m512i {
    let low = _mm512_clmulepi64_epi128::<0x00>(lanes, pairs);
    let high = _mm512_clmulepi64_epi128::<0x11>(lanes, pairs);
    _mm512_ternarylogic_epi64::<XOR>(low, high, next)
}

#[inline]
#[target_feature(enable = "pclmulqdq")]
fn folded_128(lane: __m128i, pair: __m128i, next: __m128i) -> __m128i {
    let low = _mm_clmulepi64_si128::<0x00>(lane, pair);
    let high = _mm_clmulepi64_si128::<0x11>(lane, pair);
    _mm_xor_si128(_mm_xor_si128(low, high), next)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn pair_512<const BITS: u32>() -> __m512i {
    let (low, high) = const { constants(BITS) };
    _mm512_set_epi64(high, low, high, low, high, low, high, low)
}

#[inline]
#[target_feature(enable = "sse2")]
fn pair_128<const BITS: u32>() -> __m128i {
    let (low, high) = const { constants(BITS) };
    _mm_set_epi64x(high, low)
}

/// What the low and the high half of a lane are multiplied by to be folded so many bits further on. In reverse order a product
/// of 64 by 33 bits comes out one place too low, for which the constants make up; the CRC instruction, by which the last lane
/// is reduced, multiplies by x^32 itself.
const fn constants(bits: u32) -> (i64, i64) {
    ((power(bits + 32) << 1).cast_signed(), (power(bits - 32) << 1).cast_signed())
}

/// x^`exponent` modulo the polynomial, its bits in reverse order.
const fn power(exponent: u32) -> u64 {
    let mut remainder: u32 = 1 << 31;
    let mut times = 0;
    while times < exponent {
        remainder = if remainder & 1 == 1 { (remainder >> 1) ^ POLYNOMIAL } else { remainder >> 1 };
        times += 1;
    }
    remainder as u64
}

/// # Safety
/// `from` must be valid for reads of 64 octets and, with `COPY`, `to` for writes of as many.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load_512<const COPY: bool>(from: *const u8, to: *mut u8) -> __m512i {
    // SAFETY: as the caller promises; the instructions need no alignment.
    unsafe {
        if !COPY {
            return _mm512_loadu_si512(from.cast());
        }
        let octets: __m512i;
        asm!("vmovdqu64 {octets}, [{from}]", octets = lateout(zmm_reg) octets, from = in(reg) from,
            options(readonly, nostack, preserves_flags));
        _mm512_storeu_si512(to.cast(), octets);
        octets
    }
}

/// # Safety
/// As for [`load_512`], of 16 octets.
#[inline]
#[target_feature(enable = "sse2")]
unsafe fn load_128<const COPY: bool>(from: *const u8, to: *mut u8) -> __m128i {
    // SAFETY: as the caller promises; the instructions need no alignment.
    unsafe {
        if !COPY {
            return _mm_loadu_si128(from.cast());
        }
        let octets: __m128i;
        asm!("movdqu {octets}, [{from}]", octets = lateout(xmm_reg) octets, from = in(reg) from,
            options(readonly, nostack, preserves_flags));
        _mm_storeu_si128(to.cast(), octets);
        octets
    }
}

/// Defines the loads of one word each.
macro_rules! load_word {
    ($name:ident, $word:ident, $instruction:literal, $class:ident) => {
        /// # Safety
        /// As for [`load_512`], of one word.
        #[inline]
        unsafe fn $name<const COPY: bool>(from: *const u8, to: *mut u8) -> $word {
            // SAFETY: as the caller promises; the instruction needs no alignment.
            unsafe {
                if !COPY {
                    return from.cast::<$word>().read_unaligned();
                }
                let word: $word;
                asm!($instruction, word = lateout($class) word, from = in(reg) from,
                    options(readonly, nostack, preserves_flags));
                to.cast::<$word>().write_unaligned(word);
                word
            }
        }
    };
}

load_word!(load_u64, u64, "mov {word:r}, [{from}]", reg);
load_word!(load_u32, u32, "mov {word:e}, [{from}]", reg);
load_word!(load_u16, u16, "movzx {word:e}, word ptr [{from}]", reg);
load_word!(load_u8, u8, "mov {word}, [{from}]", reg_byte);

/// From so many octets on folding is faster than the CRC instruction, which takes 3 cycles for 8 octets.
const FOLDED_512: usize = 64;
const FOLDED_128: usize = 64;
/// The truth table of a XOR of three.
const XOR: i32 = 0x96;
/// 0x1EDC6F41 in reverse order.
const POLYNOMIAL: u32 = 0x82F6_3B78;
