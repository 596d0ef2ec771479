// SPDX-License-Identifier: GPL-2.0

//! Fixed-point arithmetic that saturates instead of overflowing.
//!
//! Everything here is total: any input gives an answer, none panics, none divides by 128 bits. A product of two 64-bit
//! numbers is kept in 128 bits for as long as it takes to shift it back (one `mul` and one `shrd` on x86-64).
//!
//! Notation: a value in *Qn* has n fractional bits.

/// Fractional bits of a congestion window in packets: 2^-20 packets resolve a thousandth of the smallest window.
pub const CWND_SHIFT: u32 = 20;
/// One packet, as a window.
pub const ONE_PACKET: u64 = 1 << CWND_SHIFT;
/// The largest window any law may ask for: 2^18 packets, which in Q20 is 2^38 and leaves 26 bits for a multiplier.
pub const MAX_CWND: u64 = ONE_PACKET << 18;
/// Nanoseconds in a second.
pub const NS_PER_S: u64 = 1_000_000_000;

/// `(a * b) >> shift`, exact before the shift, saturating at `u64::MAX` after it. `shift` is taken modulo 128.
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

/// `a * b / c` rounded down, without 128-bit division; `u64::MAX` when the quotient does not fit or `c` is zero.
///
/// One machine division when the product fits 64 bits; otherwise a 64-step restoring division, for rare paths only.
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
        // With the carry the rest is 65 bits wide; it is below 2c, so that one subtraction brings it back to 64.
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
/// For a time of 1 us to 1.07 s the relative error is below 2^-26; `d * reciprocal(d)` never exceeds 2^56, so that a
/// number up to 64 times `d` can be scaled by it within 62 bits.
#[inline]
#[must_use]
pub const fn reciprocal(d: u32) -> u64 {
    match (1u64 << RECIPROCAL_SHIFT).checked_div(d as u64) {
        Some(r) => r,
        None => 1 << RECIPROCAL_SHIFT,
    }
}

/// The earlier of two wrapping 32-bit instants lies before the later: true when `a` is at or after `b`.
#[inline]
#[must_use]
pub const fn at_or_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) >= 0
}

/// Bytes per second of `cwnd` packets (Q20) of `packet_bytes` in each time whose [`reciprocal`] is `inverse_ns`.
///
/// Range: 2^38 of window times 2^16 of bytes fit 54 bits; both products are taken in 128 bits and cannot saturate.
#[inline]
#[must_use]
pub const fn rate(cwnd: u64, packet_bytes: u16, inverse_ns: u64) -> u64 {
    // Bytes per ns with 76 fractional bits come down to 36: 2^54 times 2^56 (of a 1 ns time), shifted by 40.
    let per_ns = mul_shift(
        cwnd.wrapping_mul(packet_bytes as u64),
        inverse_ns,
        CWND_SHIFT + RECIPROCAL_SHIFT - 36,
    );
    mul_shift(per_ns, NS_PER_S, 36)
}

/// Fractional bits of a logarithm.
pub const LOG_SHIFT: u32 = 26;

/// 1/c in Q32, c the middle of each 32nd of [1, 2).
const INVERSES: [u32; 32] = [
    0xfc0fc0fc, 0xf4898d60, 0xed7303b6, 0xe6c2b448, 0xe070381c, 0xda740da7, 0xd4c77b03, 0xcf6474a9,
    0xca4587e7, 0xc565c87b, 0xc0c0c0c1, 0xbc52640c, 0xb81702e0, 0xb40b40b4, 0xb02c0b03, 0xac769184,
    0xa8e83f57, 0xa57eb503, 0xa237c32b, 0x9f1165e7, 0x9c09c09c, 0x991f1a51, 0x964fda6c, 0x939a85c4,
    0x90fdbc09, 0x8e78356d, 0x8c08c08c, 0x89ae408a, 0x8767ab5f, 0x85340853, 0x83126e98, 0x81020408,
];
/// log2(c) in Q31, for the same c.
const LOGS: [u32; 32] = [
    0x02dcf2d1, 0x08759c4f, 0x0de42120, 0x132ae9e3, 0x184c2bd0, 0x1d49ee4c, 0x22260fb6, 0x26e2499d,
    0x2b803474, 0x30014ac7, 0x3466ec15, 0x38b25f5a, 0x3ce4d544, 0x40ff6a2e, 0x450327ea, 0x48f10751,
    0x4cc9f1ab, 0x508ec1fa, 0x5440461c, 0x57df3fd1, 0x5b6c65aa, 0x5ee863e5, 0x6253dd2c, 0x65af6b4b,
    0x68fb9fce, 0x6c39049b, 0x6f681c73, 0x72896372, 0x759d4f81, 0x78a450b9, 0x7b9ed1c6, 0x7e8d3846,
];
/// 2^x in Q31, x the middle of each 32nd of [0, 1).
const POWERS: [u32; 32] = [
    0x8164d1f4, 0x843a28c4, 0x871f6197, 0x8a14d575, 0x8d1adf5b, 0x9031dc43, 0x935a2b2f, 0x96942d37,
    0x99e04593, 0x9d3ed9a7, 0xa0b05110, 0xa43515ae, 0xa7cd93b5, 0xab7a39b6, 0xaf3b78ad, 0xb311c413,
    0xb6fd91e3, 0xbaff5ab2, 0xbf1799b6, 0xc346ccda, 0xc78d74c9, 0xcbec14ff, 0xd06333db, 0xd4f35aac,
    0xd99d15c2, 0xde60f482, 0xe33f8973, 0xe8396a50, 0xed4f301f, 0xf281773c, 0xf7d0df73, 0xfd3e0c0d,
];
/// log2(e) in Q30.
const LOG2_E: i64 = 0x5c551d95;
/// ln(2) in Q32.
const LN_2: i64 = 0xb17217f8;

/// log2(`x`) in Q26; 0 for 0, which is also the logarithm of 1.
///
/// Absolute error below 2^-24 over all of `u64`: the series for log2(1 + t) with |t| ≤ 1/64 ends
/// after t³, and t⁴/4 is 2^-26. Hence also a relative error below 2^-24 from 2 up.
#[inline]
#[must_use]
pub const fn log2(x: u64) -> u32 {
    if x == 0 {
        return 0;
    }
    let zeros = x.leading_zeros();
    // In [1, 2) as Q31.
    let mantissa = (x << zeros) >> 32;
    let index = ((mantissa >> 26) & 31) as usize;
    let (inverse, log) = (INVERSES[index] as u64, LOGS[index] as i64);
    // Within 1/64 of one as Q63: 2^32 times 2^32, which together stay below 2^63 (1 + 1/64).
    let t = (mantissa.wrapping_mul(inverse).wrapping_sub(1 << 63) as i64) >> 32;
    // t in Q31, |t| ≤ 2^25: t² ≤ 2^50, t²/2 back in Q31 ≤ 2^18, and so on.
    let t2 = t.wrapping_mul(t) >> 31;
    let t3 = t2.wrapping_mul(t) >> 31;
    // 1/3 in Q16: its error times t³ is 2^-35.
    let ln = t
        .wrapping_sub(t2 >> 1)
        .wrapping_add(t3.wrapping_mul(21845) >> 16);
    let fraction = log.wrapping_add(ln.wrapping_mul(LOG2_E) >> 30);
    let whole = (63 - zeros) << LOG_SHIFT;
    whole.saturating_add((fraction >> (31 - LOG_SHIFT)) as u32)
}

/// 2^`x` in Q32, for `x` in Q26 from -32 to 31 less one part; values beyond are taken as the ends.
///
/// Relative error below 2^-28 from 2^-3 up, where a result has at least 29 bits, and below half a
/// unit in the last place more than that further down. Never zero.
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
    let whole = x >> LOG_SHIFT;
    let fraction = x & (ONE - 1);
    let index = ((fraction >> (LOG_SHIFT - 5)) & 31) as usize;
    // From the middle of its 32nd: |g| ≤ 2^20 in Q26, |z| < 2^25.5 in Q31.
    let g = (fraction & (ONE / 32 - 1)).wrapping_sub(ONE / 64);
    let z = g.wrapping_mul(LN_2) >> (LOG_SHIFT + 1);
    // z + z²/2 + z³/6, by Horner; 1/3 in Q31.
    let inner = (1i64 << 31).wrapping_add(z.wrapping_mul(715_827_883) >> 31);
    let half = z.wrapping_mul(inner) >> 32;
    let series = z.wrapping_mul((1i64 << 31).wrapping_add(half)) >> 31;
    // Q31 in [1, 2), times Q31 within 1/64 of one: below 2^63.
    let mantissa = (POWERS[index] as u64).wrapping_mul((1i64 << 31).wrapping_add(series) as u64);
    // Q62 to Q32 is a shift of 30; whole is -32 to 30.
    let value = mantissa.wrapping_shr((30i64.wrapping_sub(whole) as u32) & 63);
    if value == 0 {
        1
    } else {
        value
    }
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
