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
