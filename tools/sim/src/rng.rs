// SPDX-License-Identifier: GPL-2.0
//! Random numbers that are the same on every machine and in every version: SplitMix64 (Steele, Lea and
//! Flood, OOPSLA'14).

/// A stream of random numbers.
#[derive(Clone, Copy, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A stream of its own for `what`.
    #[must_use]
    pub fn fork(&self, what: u64) -> Self {
        Self(mix(self.0 ^ mix(what)))
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// True with a probability of `p` in 2^32.
    #[inline]
    pub fn chance(&mut self, p: u64) -> bool {
        self.bits() >> 32 < p
    }

    /// Below `n`.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }
}

/// A number that shares no visible pattern with `x`.
#[inline]
#[must_use]
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A probability from 0 to 1 in units of 2^-32.
#[must_use]
pub fn probability(p: f64) -> u64 {
    (p.clamp(0.0, 1.0) * 4_294_967_296.0) as u64
}
