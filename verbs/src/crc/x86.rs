//! The CRC by x86-64's instructions.
//!
//! Octets are taken into lanes of 128 bits. A lane of 64 low bits L and 64 high bits H that has D bits to go before the
//! octets it is added to is congruent, modulo the polynomial P, to L * x^(D + 64) + H * x^D, two multiplications of 64
//! by 33 bits: that folds a lane onto another one, D bits further on, and no lane grows. At the end one lane is left,
//! whose CRC the CPU's CRC instruction makes, as it does for what is shorter than a lane. CRC32c takes the low bit of
//! each octet first, so that all polynomials have their bits in reverse order, x^0 in the highest one.
//!
//! A copy folds the octets while it has them in registers. It may read memory that others change or take away, so that
//! it is assembly (see [`copy`](crate::copy)). What is shorter than its blocks is copied first and folded then.

use core::arch::naked_asm;
use core::arch::x86_64::{
    __m128i, __m512i, _mm_clmulepi64_si128, _mm_crc32_u8, _mm_crc32_u16, _mm_crc32_u32, _mm_crc32_u64,
    _mm_cvtsi32_si128, _mm_cvtsi128_si64, _mm_extract_epi64, _mm_loadu_si128, _mm_set_epi64x,
    _mm_setzero_si128, _mm_xor_si128, _mm512_clmulepi64_epi128, _mm512_extracti32x4_epi32,
    _mm512_loadu_si512, _mm512_set_epi64, _mm512_setzero_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512,
    _mm512_zextsi128_si512,
};

use crate::copy::copy_out;

#[target_feature(enable = "pclmulqdq,sse4.2")]
pub(super) fn append_128(crc: u32, octets: &[u8]) -> u32 {
    let state = !crc;
    let (blocks, rest) = octets.as_chunks::<BLOCK_128>();
    let Some((first, blocks)) = blocks.split_first() else { return !short(state, octets) };
    let mut lanes = [_mm_setzero_si128(); 4];
    for (lane, next) in lanes.iter_mut().zip(first.as_chunks().0) {
        *lane = load_128(next);
    }
    lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128(state.cast_signed()));
    let far = pair_128::<512>();
    for block in blocks {
        for (lane, next) in lanes.iter_mut().zip(block.as_chunks().0) {
            *lane = folded_128(*lane, far, load_128(next));
        }
    }
    !finished_128(lanes, rest)
}

/// # Safety
/// The CPU must have the instructions; else as for [`copy_out`].
#[target_feature(enable = "pclmulqdq,sse4.2")]
pub(super) unsafe fn copy_128(crc: u32, from: *const u8, to: &mut [u8]) -> Option<u32> {
    if to.len() < BLOCK_128 {
        // SAFETY: as the caller promises.
        return unsafe { copy_out(from, to) }.then(|| append_128(crc, to));
    }
    let (blocks, rest) = to.as_chunks_mut::<BLOCK_128>();
    let (to, len) = (blocks.as_mut_ptr().cast(), blocks.len() * BLOCK_128);
    let mut lanes = [_mm_setzero_si128(); 4];
    // SAFETY: as the caller promises; what is copied ends with `to`, of which `rest` is what follows the blocks.
    let is_there = unsafe {
        fold_128(to, from, len, !crc, &mut lanes, const { &constants(512) }) == 0
            && copy_out(from.wrapping_add(len), rest)
    };
    is_there.then(|| !finished_128(lanes, rest))
}

#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,sse4.2")]
pub(super) fn append_512(crc: u32, octets: &[u8]) -> u32 {
    let state = !crc;
    let start = _mm512_zextsi128_si512(_mm_cvtsi32_si128(state.cast_signed()));
    let (blocks, rest) = octets.as_chunks::<BLOCK_512>();
    let Some((first, blocks)) = blocks.split_first() else {
        let Some((first, rest)) = octets.split_first_chunk() else { return !short(state, octets) };
        return !folded_over(_mm512_xor_si512(load_512(first), start), rest);
    };
    let mut lanes = [_mm512_setzero_si512(); 4];
    for (lane, next) in lanes.iter_mut().zip(first.as_chunks().0) {
        *lane = load_512(next);
    }
    lanes[0] = _mm512_xor_si512(lanes[0], start);
    let far = pair_512::<2048>();
    for block in blocks {
        for (lane, next) in lanes.iter_mut().zip(block.as_chunks().0) {
            *lane = folded_512(*lane, far, load_512(next));
        }
    }
    !finished_512(lanes, rest)
}

/// # Safety
/// The CPU must have the instructions; else as for [`copy_out`].
#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,sse4.2")]
pub(super) unsafe fn copy_512(crc: u32, from: *const u8, to: &mut [u8]) -> Option<u32> {
    if to.len() < TWO_PASSES {
        // SAFETY: as the caller promises.
        let is_there = unsafe { copy_out(from, to) };
        // A load of 64 octets waits for the shorter stores of the copy.
        let append = |to: &[u8]| if to.len() < BLOCK_512 { append_128(crc, to) } else { append_512(crc, to) };
        return is_there.then(|| append(to));
    }
    let (quarters, rest) = to.as_chunks_mut::<{ BLOCK_512 / 4 }>();
    let (to, count, len) = (quarters.as_mut_ptr().cast(), quarters.len(), quarters.len() * BLOCK_512 / 4);
    let mut lanes = [_mm512_setzero_si512(); 4];
    // SAFETY: as in `copy_128`.
    let is_there = unsafe {
        fold_512(to, from, len, !crc, &mut lanes, const { &constants(2048) }) == 0
            && copy_out(from.wrapping_add(len), rest)
    };
    let lane = |index| lanes[(count + index) % 4];
    is_there.then(|| !finished_512([lane(0), lane(1), lane(2), lane(3)], rest))
}

/// Copies 16 octets to the same offset, and folds a lane onto them.
macro_rules! step_128 {
    ($lane:literal, $offset:literal) => {
        concat!(
            "movdqu xmm5, [rsi + ",
            $offset,
            "]\n",
            "movdqu [rdi + ",
            $offset,
            "], xmm5\n",
            "movdqa xmm6, ",
            $lane,
            "\n",
            "pclmulqdq ",
            $lane,
            ", xmm4, 0x00\n",
            "pclmulqdq xmm6, xmm4, 0x11\n",
            "pxor ",
            $lane,
            ", xmm5\n",
            "pxor ",
            $lane,
            ", xmm6",
        )
    };
}

/// Copies 64 octets to the same offset, and folds four lanes onto them.
macro_rules! step_512 {
    ($lanes:literal, $offset:literal) => {
        concat!(
            "vmovdqu64 zmm5, [rsi + ",
            $offset,
            "]\n",
            "vmovdqu64 [rdi + ",
            $offset,
            "], zmm5\n",
            "vpclmulqdq zmm6, ",
            $lanes,
            ", zmm4, 0x00\n",
            "vpclmulqdq ",
            $lanes,
            ", ",
            $lanes,
            ", zmm4, 0x11\n",
            "vpternlogq ",
            $lanes,
            ", zmm6, zmm5, 0x96",
        )
    };
}

/// Copies whole blocks, and folds them to four lanes, the first of which begins with `state`. Returns 1 if memory is
/// not there, else 0.
///
/// # Safety
/// As for [`copy_128`]; `len` is a multiple of [`BLOCK_128`] and not 0.
#[unsafe(naked)]
#[unsafe(link_section = "weft_guarded")]
unsafe extern "C" fn fold_128(
    to: *mut u8,
    from: *const u8,
    len: usize,
    state: u32,
    lanes: *mut [__m128i; 4],
    far: *const (i64, i64),
) -> u32 {
    naked_asm!(
        "movdqu xmm4, [r9]",
        "movd xmm5, ecx",
        "movdqu xmm0, [rsi]",
        "movdqu xmm1, [rsi + 16]",
        "movdqu xmm2, [rsi + 32]",
        "movdqu xmm3, [rsi + 48]",
        "movdqu [rdi], xmm0",
        "movdqu [rdi + 16], xmm1",
        "movdqu [rdi + 32], xmm2",
        "movdqu [rdi + 48], xmm3",
        "pxor xmm0, xmm5",
        "sub rdx, 64",
        "jz 3f",
        "2:",
        "add rsi, 64",
        "add rdi, 64",
        step_128!("xmm0", "0"),
        step_128!("xmm1", "16"),
        step_128!("xmm2", "32"),
        step_128!("xmm3", "48"),
        "sub rdx, 64",
        "jnz 2b",
        "3:",
        "movdqu [r8], xmm0",
        "movdqu [r8 + 16], xmm1",
        "movdqu [r8 + 32], xmm2",
        "movdqu [r8 + 48], xmm3",
        "xor eax, eax",
        "ret",
    )
}

/// As [`fold_128`], with four registers of lanes. The last octets may fill a part of a block; the first register behind
/// them is the one that has the farthest to go then.
///
/// # Safety
/// As there, but `len` is a multiple of a quarter of [`BLOCK_512`], and at least four of them.
#[unsafe(naked)]
#[unsafe(link_section = "weft_guarded")]
unsafe extern "C" fn fold_512(
    to: *mut u8,
    from: *const u8,
    len: usize,
    state: u32,
    lanes: *mut [__m512i; 4],
    far: *const (i64, i64),
) -> u32 {
    naked_asm!(
        "vbroadcasti32x4 zmm4, [r9]",
        "vmovd xmm5, ecx",
        "vmovdqu64 zmm0, [rsi]",
        "vmovdqu64 zmm1, [rsi + 64]",
        "vmovdqu64 zmm2, [rsi + 128]",
        "vmovdqu64 zmm3, [rsi + 192]",
        "vmovdqu64 [rdi], zmm0",
        "vmovdqu64 [rdi + 64], zmm1",
        "vmovdqu64 [rdi + 128], zmm2",
        "vmovdqu64 [rdi + 192], zmm3",
        "vpxorq zmm0, zmm0, zmm5",
        "jmp 3f",
        "2:",
        step_512!("zmm0", "0"),
        step_512!("zmm1", "64"),
        step_512!("zmm2", "128"),
        step_512!("zmm3", "192"),
        "3:",
        "add rsi, 256",
        "add rdi, 256",
        "sub rdx, 256",
        "cmp rdx, 256",
        "jae 2b",
        "cmp rdx, 64",
        "jb 4f",
        step_512!("zmm0", "0"),
        "cmp rdx, 128",
        "jb 4f",
        step_512!("zmm1", "64"),
        "cmp rdx, 192",
        "jb 4f",
        step_512!("zmm2", "128"),
        "4:",
        "vmovdqu64 [r8], zmm0",
        "vmovdqu64 [r8 + 64], zmm1",
        "vmovdqu64 [r8 + 128], zmm2",
        "vmovdqu64 [r8 + 192], zmm3",
        "vzeroupper",
        "xor eax, eax",
        "ret",
    )
}

/// Returns the CRC register after four lanes and the octets behind them.
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.2")]
fn finished_128(lanes: [__m128i; 4], rest: &[u8]) -> u32 {
    let mut last = folded_128(lanes[2], pair_128::<128>(), lanes[3]);
    last = folded_128(lanes[1], pair_128::<256>(), last);
    last = folded_128(lanes[0], pair_128::<384>(), last);
    short(reduced_128(last), rest)
}

/// Returns the CRC register after four registers of lanes and the octets behind them.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,sse4.2")]
fn finished_512(lanes: [__m512i; 4], rest: &[u8]) -> u32 {
    let mut last = folded_512(lanes[2], pair_512::<512>(), lanes[3]);
    last = folded_512(lanes[1], pair_512::<1024>(), last);
    last = folded_512(lanes[0], pair_512::<1536>(), last);
    folded_over(last, rest)
}

/// Returns the CRC register after four lanes and the octets behind them, of which there may be many.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,sse4.2")]
fn folded_over(mut lanes: __m512i, octets: &[u8]) -> u32 {
    let (blocks, rest) = octets.as_chunks();
    let near = pair_512::<512>();
    for block in blocks {
        lanes = folded_512(lanes, near, load_512(block));
    }
    short(reduced_128(joined(lanes)), rest)
}

/// Continues the CRC register over few octets by the CRC instruction.
#[inline]
#[target_feature(enable = "sse4.2")]
fn short(mut state: u32, octets: &[u8]) -> u32 {
    let mut rest = octets;
    // They are too few for the loop that a compiler makes of `as_chunks`.
    while let Some((word, behind)) = rest.split_first_chunk() {
        (state, rest) = (crc_u64(state, u64::from_le_bytes(*word)), behind);
    }
    if let Some((word, behind)) = rest.split_first_chunk() {
        (state, rest) = (_mm_crc32_u32(state, u32::from_le_bytes(*word)), behind);
    }
    if let Some((word, behind)) = rest.split_first_chunk() {
        (state, rest) = (_mm_crc32_u16(state, u16::from_le_bytes(*word)), behind);
    }
    match rest {
        [octet, ..] => _mm_crc32_u8(state, *octet),
        [] => state,
    }
}

#[inline]
#[target_feature(enable = "sse4.2")]
#[expect(clippy::cast_possible_truncation, reason = "the instruction leaves the upper half zero")]
fn crc_u64(state: u32, word: u64) -> u32 {
    _mm_crc32_u64(u64::from(state), word) as u32
}

/// Returns the CRC register after the 16 octets of a lane.
#[inline]
#[target_feature(enable = "sse4.2")]
fn reduced_128(lane: __m128i) -> u32 {
    let state = crc_u64(0, _mm_cvtsi128_si64(lane).cast_unsigned());
    crc_u64(state, _mm_extract_epi64::<1>(lane).cast_unsigned())
}

/// Returns the four lanes of a register folded onto the last.
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

/// Folds each lane of `lanes` by the distance of `pairs`, onto `next`.
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

/// Returns what the low and the high half of a lane are multiplied by to be folded so many bits further on. In reverse
/// order a product of 64 by 33 bits comes out one place too low, for which the constants make up; the CRC instruction,
/// by which the last lane is reduced, multiplies by x^32 itself.
const fn constants(bits: u32) -> (i64, i64) {
    ((power(bits + 32) << 1).cast_signed(), (power(bits - 32) << 1).cast_signed())
}

/// Returns x^`exponent` modulo the polynomial, its bits in reverse order.
const fn power(exponent: u32) -> u64 {
    let mut remainder: u32 = 1 << 31;
    let mut times = 0;
    while times < exponent {
        remainder = if remainder & 1 == 1 { (remainder >> 1) ^ POLYNOMIAL } else { remainder >> 1 };
        times += 1;
    }
    remainder as u64
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_512(octets: &[u8; 64]) -> __m512i {
    // SAFETY: the array is valid for reads of its 64 octets; the instruction needs no alignment.
    unsafe { _mm512_loadu_si512(octets.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "sse2")]
fn load_128(octets: &[u8; 16]) -> __m128i {
    // SAFETY: as above, of 16.
    unsafe { _mm_loadu_si128(octets.as_ptr().cast()) }
}

/// Octets that a kernel takes at a time while there are so many.
const BLOCK_512: usize = 256;
/// Below so many octets two passes are faster: [`fold_512`] hands its lanes over in memory.
const TWO_PASSES: usize = 1024;
const _: () = assert!(TWO_PASSES >= BLOCK_512);
const BLOCK_128: usize = 64;
/// The truth table of a XOR of three.
const XOR: i32 = 0x96;
/// 0x1EDC6F41 in reverse order.
const POLYNOMIAL: u32 = 0x82F6_3B78;
