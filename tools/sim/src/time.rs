// SPDX-License-Identifier: GPL-2.0
//! Time and rates. Time is a count of picoseconds: a byte takes 20 of them at 400 Gbit/s and 5 at
//! 1.6 Tbit/s, so that what a link is busy for is exact, and 64 bits last for 213 days.

/// Picoseconds since the start of the simulation.
pub type Ps = u64;

/// Picoseconds in a nanosecond.
pub const NS: Ps = 1_000;
/// Picoseconds in a microsecond.
pub const US: Ps = 1_000_000;
/// Picoseconds in a millisecond.
pub const MS: Ps = 1_000_000_000;
/// Picoseconds in a second.
pub const S: Ps = 1_000_000_000_000;

/// A time that never comes.
pub const NEVER: Ps = u64::MAX;

/// Preamble, frame check sequence and gap between frames: what a frame occupies on an Ethernet link
/// besides its own bytes. The queue and the telemetry count frames without it, as the kernel does.
pub const FRAMING: u32 = 8 + 4 + 12;

/// The rate of a link, and what rounding owes it.
///
/// A rate that does not divide 8·10^12 leaves a fraction of a picosecond per packet; it is carried
/// over to the next one, so that the rate is exact in the long run.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Picoseconds per byte when that is a whole number, else 0.
    ps_per_byte: u64,
    bps: u64,
    owed: u64,
}

impl Rate {
    /// Of `bps` bits per second; at least one.
    #[must_use]
    pub fn new(bps: u64) -> Self {
        let bps = bps.max(1);
        Self {
            ps_per_byte: if (8 * S) % bps == 0 { 8 * S / bps } else { 0 },
            bps,
            owed: 0,
        }
    }

    /// Bits per second.
    #[must_use]
    pub fn bps(&self) -> u64 {
        self.bps
    }

    /// How long `bytes`, framing included, would occupy the link.
    #[inline]
    #[must_use]
    pub fn time(&self, bytes: u32) -> Ps {
        let bytes = u64::from(bytes);
        if self.ps_per_byte != 0 {
            bytes * self.ps_per_byte
        } else {
            // 2^17 bytes times 2^43, and what is owed is below the rate.
            (bytes * (8 * S) + self.owed) / self.bps
        }
    }

    /// The same, and the link is occupied by it.
    #[inline]
    pub fn take(&mut self, bytes: u32) -> Ps {
        let time = self.time(bytes);
        if self.ps_per_byte == 0 {
            self.owed = (u64::from(bytes) * (8 * S) + self.owed) % self.bps;
        }
        time
    }

    /// An idle link owes nothing.
    #[inline]
    pub fn idle(&mut self) {
        self.owed = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_picoseconds_per_byte() {
        for (gbps, ps) in [
            (10, 800),
            (25, 320),
            (40, 200),
            (100, 80),
            (400, 20),
            (1600, 5),
        ] {
            let mut rate = Rate::new(gbps * 1_000_000_000);
            assert_eq!(rate.take(1538), 1538 * ps);
        }
    }

    #[test]
    fn a_rate_that_does_not_divide_is_exact_in_the_long_run() {
        let mut rate = Rate::new(3_000_000_007);
        let n = 100_000u64;
        let total: u64 = (0..n).map(|_| rate.take(1538)).sum();
        let exact = u128::from(n) * 1538 * 8 * u128::from(S) / 3_000_000_007;
        assert_eq!(u128::from(total), exact);
    }
}
