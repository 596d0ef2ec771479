// SPDX-License-Identifier: GPL-2.0

//! Fixed-point arithmetic that saturates instead of overflowing.
//!
//! Everything here is total: any input gives an answer, none panics, none divides by 128 bits. A
//! product of two 64-bit numbers is kept in 128 bits for as long as it takes to shift it back (one
//! `mul` and one `shrd` on x86-64).
//!
//! Notation: a value in *Qn* has n fractional bits.

/// Fractional bits of a congestion window in packets: 2^-20 packets resolve a thousandth of the
/// smallest window.
pub const CWND_SHIFT: u32 = 20;
/// One packet, as a window.
pub const ONE_PACKET: u64 = 1 << CWND_SHIFT;
/// The largest window any law may ask for: 2^18 packets, which in Q20 is 2^38 and leaves 26 bits
/// for a multiplier.
pub const MAX_CWND: u64 = ONE_PACKET << 18;
/// Nanoseconds in a second.
pub const NS_PER_S: u64 = 1_000_000_000;

/// `(a * b) >> shift`, exact before the shift, saturating at `u64::MAX` after it. `shift` is taken
/// modulo 128.
#[inline]
#[must_use]
pub const fn mul_shift(a: u64, b: u64, shift: u32) -> u64 {
    let wide = (a as u128).wrapping_mul(b as u128).wrapping_shr(shift);
    if wide > u64::MAX as u128 {
        u64::MAX
    } else {
        wide as u64
    }
}

/// `(a * b) >> 64`: a shift by a whole word is none.
#[inline]
#[must_use]
pub const fn mul_high(a: u64, b: u64) -> u64 {
    ((a as u128).wrapping_mul(b as u128) >> 64) as u64
}

/// `a * b / c` rounded down, without 128-bit division; `u64::MAX` when the quotient does not fit or
/// `c` is zero.
///
/// One machine division when the product fits 64 bits; otherwise a 64-step restoring division, for
/// rare paths only.
#[inline(never)]
#[must_use]
pub const fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    let wide = (a as u128).wrapping_mul(b as u128);
    let high = (wide >> 64) as u64;
    let low = wide as u64;
    if high >= c {
        return u64::MAX;
    }
    if high == 0 {
        return div(low, c);
    }
    let mut rest = high;
    let mut quotient = 0u64;
    let mut bit = 64u32;
    while bit > 0 {
        bit = bit.wrapping_sub(1);
        let carry = rest >> 63;
        rest = (rest << 1) | (low.wrapping_shr(bit) & 1);
        quotient <<= 1;
        // With the carry the rest is 65 bits wide; it is below 2c, so that one subtraction brings
        // it back to 64.
        if carry != 0 || rest >= c {
            rest = rest.wrapping_sub(c);
            quotient |= 1;
        }
    }
    quotient
}

/// `a / b`, and `u64::MAX` when `b` is zero.
#[inline]
#[must_use]
pub const fn div(a: u64, b: u64) -> u64 {
    match a.checked_div(b) {
        Some(quotient) => quotient,
        None => u64::MAX,
    }
}

/// Fractional bits of [`reciprocal`].
pub const RECIPROCAL_SHIFT: u32 = 56;

/// `2^56 / d` rounded down, `2^56` when `d` is zero.
///
/// For a time of 1 us to 1.07 s the relative error is below 2^-26; `d * reciprocal(d)` never
/// exceeds 2^56, so that a number up to 64 times `d` can be scaled by it within 62 bits.
#[inline]
#[must_use]
pub const fn reciprocal(d: u32) -> u64 {
    match (1u64 << RECIPROCAL_SHIFT).checked_div(d as u64) {
        Some(r) => r,
        None => 1 << RECIPROCAL_SHIFT,
    }
}

/// The earlier of two wrapping 32-bit instants lies before the later: true when `a` is at or after
/// `b`.
#[inline]
#[must_use]
pub const fn at_or_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) >= 0
}

/// Bytes per second of `cwnd` packets (Q20) of `packet_bytes` in each time whose [`reciprocal`] is
/// `inverse_ns`.
///
/// Range: 2^38 of window times 2^16 of bytes fit 54 bits; both products are taken in 128 bits and
/// cannot saturate.
#[inline]
#[must_use]
pub const fn rate(cwnd: u64, packet_bytes: u16, inverse_ns: u64) -> u64 {
    // Bytes per ns with 76 fractional bits come down to 36: 2^54 times 2^56 (of a 1 ns time),
    // shifted by 40.
    let per_ns = mul_shift(
        cwnd.wrapping_mul(packet_bytes as u64),
        inverse_ns,
        CWND_SHIFT + RECIPROCAL_SHIFT - 36,
    );
    mul_shift(per_ns, NS_PER_S, 36)
}

/// Fractional bits of a logarithm.
pub const LOG_SHIFT: u32 = 26;

/// For c the middle of each 64th of [1, 2): 1/c in Q32 and log2(c) in Q31.
#[rustfmt::skip]
const LOGS: [(u32, u32); 64] = [
    (0xfe03f810, 0x016fe50b), (0xfa232cf2, 0x04473476), (0xf6603d98, 0x07137eae), (0xf2b9d648, 0x09d517ef),
    (0xef2eb720, 0x0c8c50b7), (0xebbdb2a6, 0x0f397609), (0xe865ac7b, 0x11dcd198), (0xe525982b, 0x1476a9f9),
    (0xe1fc780e, 0x170742d5), (0xdee95c4d, 0x198edd07), (0xdbeb61ef, 0x1c0db6ce), (0xd901b203, 0x1e840be8),
    (0xd62b80d6, 0x20f215b8), (0xd3680d37, 0x23580b65), (0xd0b69fcc, 0x25b621f8), (0xce168a77, 0x280c8c76),
    (0xcb8727c0, 0x2a5b7bf9), (0xc907da4f, 0x2ca31fc8), (0xc6980c6a, 0x2ee3a575), (0xc4372f85, 0x311d38e6),
    (0xc1e4bbd6, 0x33500472), (0xbfa02fe8, 0x357c30f3), (0xbd691047, 0x37a1e5d4), (0xbb3ee722, 0x39c14924),
    (0xb92143fa, 0x3bda7fa9), (0xb70fbb5a, 0x3dedace6), (0xb509e68b, 0x3ffaf335), (0xb30f6353, 0x420273ca),
    (0xb11fd3b8, 0x44044ec5), (0xaf3addc7, 0x4600a33d), (0xad602b58, 0x47f78f4c), (0xab8f69e3, 0x49e93016),
    (0xa9c84a48, 0x4bd5a1d7), (0xa80a80a8, 0x4dbcffee), (0xa655c439, 0x4f9f64df), (0xa4a9cf1e, 0x517cea62),
    (0xa3065e40, 0x5355a96c), (0xa16b312f, 0x5529ba32), (0x9fd809fe, 0x56f93432), (0x9e4cad24, 0x58c42e3d),
    (0x9cc8e161, 0x5a8abe79), (0x9b4c6f9f, 0x5c4cfa6c), (0x99d722db, 0x5e0af6ff), (0x9868c80a, 0x5fc4c885),
    (0x97012e02, 0x617a82c3), (0x95a02568, 0x632c38ed), (0x94458094, 0x64d9fdb7), (0x92f11384, 0x6683e34f),
    (0x91a2b3c5, 0x6829fb69), (0x905a3863, 0x69cc5741), (0x8f1779da, 0x6b6b079c), (0x8dda5202, 0x6d061cd3),
    (0x8ca29c04, 0x6e9da6cf), (0x8b70344a, 0x7031b512), (0x8a42f870, 0x71c256bb), (0x891ac73b, 0x734f9a83),
    (0x87f78088, 0x74d98eca), (0x86d90544, 0x76604192), (0x85bf3761, 0x77e3c082), (0x84a9f9c8, 0x796418f2),
    (0x83993052, 0x7ae157e4), (0x828cbfbf, 0x7c5b8a07), (0x81848da9, 0x7dd2bbc4), (0x80808081, 0x7f46f931),
];

/// 2^x in Q31, x the middle of each 64th of [0, 1).
#[rustfmt::skip]
const POWERS: [u32; 64] = [
    0x80b1ed50, 0x8218af43, 0x8383594f, 0x84f1f656, 0x8664915c, 0x87db3580, 0x8955ee03, 0x8ad4c645,
    0x8c57c9c4, 0x8ddf0420, 0x8f6a8118, 0x90fa4c8c, 0x928e727e, 0x9426ff10, 0x95c3fe87, 0x97657d4a,
    0x990b87e2, 0x9ab62afd, 0x9c657368, 0x9e196e19, 0x9fd22825, 0xa18faecb, 0xa3520f69, 0xa5195787,
    0xa6e594d0, 0xa8b6d516, 0xaa8d2653, 0xac6896a5, 0xae493453, 0xb02f0dcc, 0xb21a31a6, 0xb40aaea2,
    0xb60093a8, 0xb7fbefcb, 0xb9fcd245, 0xbc034a7f, 0xbe0f680a, 0xc0213aa2, 0xc238d231, 0xc4563ecc,
    0xc67990b6, 0xc8a2d85d, 0xcad2265e, 0xcd078b86, 0xcf4318cf, 0xd184df62, 0xd3ccf09a, 0xd61b5dff,
    0xd870394c, 0xdacb946f, 0xdd2d8185, 0xdf9612df, 0xe2055b00, 0xe47b6ca0, 0xe6f85aab, 0xe97c3840,
    0xec0718b6, 0xee990f98, 0xf13230a8, 0xf3d28fde, 0xf67a416c, 0xf92959bb, 0xfbdfed6d, 0xfe9e115c,
];

/// 1/√x in Q16, x the middle of each 64th of [1, 4).
#[rustfmt::skip]
const INVERSE_ROOTS: [u16; 192] = [
    0xff01, 0xfd0d, 0xfb24, 0xf946, 0xf773, 0xf5a9, 0xf3ea, 0xf234, 0xf087, 0xeee2, 0xed46, 0xebb3,
    0xea27, 0xe8a3, 0xe727, 0xe5b1, 0xe443, 0xe2db, 0xe17a, 0xe020, 0xdecb, 0xdd7c, 0xdc34, 0xdaf1,
    0xd9b3, 0xd87b, 0xd748, 0xd61a, 0xd4f1, 0xd3cd, 0xd2ad, 0xd192, 0xd07b, 0xcf69, 0xce5a, 0xcd50,
    0xcc4a, 0xcb48, 0xca49, 0xc94f, 0xc858, 0xc764, 0xc674, 0xc587, 0xc49d, 0xc3b7, 0xc2d4, 0xc1f4,
    0xc116, 0xc03c, 0xbf65, 0xbe90, 0xbdbe, 0xbcef, 0xbc23, 0xbb59, 0xba91, 0xb9cc, 0xb90a, 0xb84a,
    0xb78c, 0xb6d0, 0xb617, 0xb560, 0xb4ab, 0xb3f8, 0xb347, 0xb298, 0xb1eb, 0xb140, 0xb097, 0xaff0,
    0xaf4b, 0xaea7, 0xae06, 0xad66, 0xacc8, 0xac2b, 0xab90, 0xaaf7, 0xaa5f, 0xa9c9, 0xa934, 0xa8a1,
    0xa810, 0xa77f, 0xa6f1, 0xa663, 0xa5d8, 0xa54d, 0xa4c4, 0xa43c, 0xa3b6, 0xa330, 0xa2ac, 0xa22a,
    0xa1a8, 0xa128, 0xa0a9, 0xa02b, 0x9fae, 0x9f32, 0x9eb7, 0x9e3e, 0x9dc6, 0x9d4e, 0x9cd8, 0x9c63,
    0x9bef, 0x9b7b, 0x9b09, 0x9a98, 0x9a28, 0x99b8, 0x994a, 0x98dd, 0x9870, 0x9804, 0x979a, 0x9730,
    0x96c7, 0x965e, 0x95f7, 0x9591, 0x952b, 0x94c6, 0x9462, 0x93ff, 0x939c, 0x933a, 0x92d9, 0x9279,
    0x9219, 0x91bb, 0x915d, 0x90ff, 0x90a3, 0x9047, 0x8feb, 0x8f91, 0x8f37, 0x8edd, 0x8e85, 0x8e2d,
    0x8dd5, 0x8d7e, 0x8d28, 0x8cd3, 0x8c7e, 0x8c2a, 0x8bd6, 0x8b83, 0x8b30, 0x8ade, 0x8a8d, 0x8a3c,
    0x89eb, 0x899c, 0x894c, 0x88fe, 0x88af, 0x8862, 0x8815, 0x87c8, 0x877c, 0x8730, 0x86e5, 0x869a,
    0x8650, 0x8606, 0x85bd, 0x8574, 0x852c, 0x84e4, 0x849d, 0x8456, 0x840f, 0x83c9, 0x8384, 0x833f,
    0x82fa, 0x82b5, 0x8271, 0x822e, 0x81eb, 0x81a8, 0x8166, 0x8124, 0x80e2, 0x80a1, 0x8060, 0x8020,
];

/// log2(e) in Q30.
const LOG2_E: i64 = 0x5c551d95;
/// ln(2) in Q32.
const LN_2: i64 = 0xb17217f8;

/// log2(`x`) in Q26; that of 1 for 0.
///
/// Absolute error below 2^-21 over all of `u64`: the series for ln(1 + t) with |t| ≤ 1/128 ends
/// after t², and t³/3 is 2^-22.6. Hence also a relative error below 2^-21 from 2 up. A law only
/// ever takes differences of logarithms: 2^-21 is half a millionth of a rate.
#[inline]
#[must_use]
pub const fn log2(x: u64) -> u32 {
    let x = if x == 0 { 1 } else { x };
    let zeros = x.leading_zeros();
    // In [1, 2) as Q31.
    let mantissa = (x << (zeros & 63)) >> 32;
    let (inverse, log) = LOGS[((mantissa >> 25) & 63) as usize];
    // Within 1/128 of one as Q63: 2^32 times 2^32, and both below 2^63 (1 + 1/128) together.
    let near_one = mantissa.wrapping_mul(inverse as u64);
    // t in Q31, |t| ≤ 2^24, and its square ≤ 2^48.
    let t = (near_one.wrapping_sub(1 << 63) as i64) >> 32;
    let ln = t.wrapping_sub(t.wrapping_mul(t) >> 32);
    let fraction = (log as i64).wrapping_add(ln.wrapping_mul(LOG2_E) >> 30) >> (31 - LOG_SHIFT);
    // The series is too large by t³/3 at the lower end of a 64th and too small at the upper, so
    // that the sum neither falls below zero for 1 nor reaches 64 for the largest number.
    ((63 ^ zeros) << LOG_SHIFT).wrapping_add(fraction as u32)
}

/// 2^`x` in Q32, for `x` in Q26 from -32 to 31 less one part; values beyond are taken as the ends.
///
/// Relative error below 2^-24 from 2^-7 up, where a result has at least 25 bits, and a unit in the
/// last place more than that further down. Never zero.
#[inline]
#[must_use]
pub const fn exp2(x: i64) -> u64 {
    const ONE: i64 = 1 << LOG_SHIFT;
    let x = if x < -32 * ONE {
        -32 * ONE
    } else if x >= 31 * ONE {
        31 * ONE - 1
    } else {
        x
    };
    // Q31 to Q32 is one to the left, and the whole part of x more; together -31 to 31.
    let left = (x >> LOG_SHIFT).wrapping_add(1);
    let mantissa = exp2_mantissa(x);
    let value = if left >= 0 {
        mantissa.wrapping_shl(left as u32)
    } else {
        mantissa.wrapping_shr(left.wrapping_neg() as u32)
    };
    if value == 0 {
        1
    } else {
        value
    }
}

/// 2^`x` in Q20 for |`x`| < 8, in Q26; any other gives some number. Errors as [`exp2`], and a unit
/// in the last place.
#[inline]
#[must_use]
pub const fn exp2_ratio(x: i64) -> u64 {
    // Q31 to Q20 is eleven to the right, less the whole part of x.
    exp2_mantissa(x).wrapping_shr(11i64.wrapping_sub(x >> LOG_SHIFT) as u32)
}

/// 2 to the fractional part of `x` (Q26) in Q31.
#[inline]
const fn exp2_mantissa(x: i64) -> u64 {
    const ONE: i64 = 1 << LOG_SHIFT;
    let power = POWERS[((x >> (LOG_SHIFT - 6)) & 63) as usize] as i64;
    // From the middle of its 64th: |g| ≤ 2^19 in Q26, |z| < 2^24.5 in Q31.
    let g = (x & (ONE / 64 - 1)).wrapping_sub(ONE / 128);
    let z = g.wrapping_mul(LN_2) >> (LOG_SHIFT + 1);
    // e^z - 1 = z + z²/2; z³/6 is 2^-25.2.
    let series = z.wrapping_add(z.wrapping_mul(z) >> 32);
    // Q31 in [1, 2) and a part of it.
    power.wrapping_add(power.wrapping_mul(series) >> 31) as u64
}

/// 1/√`x` for `x` in Q20 (a window in packets), as Q32; for 0 as for 1 part.
///
/// Relative error below 2^-15: one step of Newton's from a table of 192, which is good to 2^-8.
/// Swift multiplies it by a delay of at most 100 us or so: 3 ns.
#[inline]
#[must_use]
pub const fn inverse_sqrt(x: u64) -> u64 {
    let x = if x == 0 { 1 } else { x };
    // To [1, 4) as Q30 by an even shift.
    let zeros = x.leading_zeros() & 62;
    let m = (x << zeros) >> 32;
    // From 64 to 255; the mask says so to the compiler.
    let index = ((m >> 24).wrapping_sub(64) & 255) as usize;
    let index = if index > 191 { 191 } else { index };
    let y = INVERSE_ROOTS[index] as u64;
    // Newton: y (3 - m y²)/2. m Q30 times y² Q32, back to Q30.
    let residue = m.wrapping_mul(y.wrapping_mul(y)) >> 32;
    let y = y.wrapping_mul((3u64 << 30).wrapping_sub(residue));
    // Q47 now, with the half; x is m·2^(42 - zeros), so that half of this remains to be undone.
    let right = 15u32.wrapping_add(21).wrapping_sub(zeros >> 1);
    y.wrapping_shr(right)
}

/// `a / b` as a ratio in Q`shift`, 0 for `b` = 0.
#[inline]
#[must_use]
pub const fn ratio(a: u64, b: u64, shift: u32) -> u64 {
    if b == 0 {
        return 0;
    }
    mul_div(a, 1u64.wrapping_shl(shift), b)
}
