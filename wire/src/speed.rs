// SPDX-License-Identifier: GPL-2.0

//! Link speeds in four bits.

/// Mbit/s of each code; 0 = not known.
///
/// Code 0 is what the sender's zeroes say: no hop has written. Code 15 is a hop whose link has none
/// of these speeds: its record takes its place on the path, and a law cannot use it.
pub const MBPS: [u32; 16] = [
    0, 100, 1_000, 2_500, 5_000, 10_000, 20_000, 25_000, 40_000, 50_000, 100_000, 200_000, 400_000,
    800_000, 1_600_000, 0,
];

/// A speed code, 0 to 15.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speed(u8);

impl Speed {
    /// Nobody wrote.
    pub const NONE: Self = Self(0);
    /// Written, but of no speed in the table.
    pub const OTHER: Self = Self(15);

    /// The low four bits of `code`.
    #[inline(always)]
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        Self(code & 15)
    }

    /// The code of exactly `mbps`, [`Speed::OTHER`] when there is none: a law would take a near miss
    /// for the truth.
    #[must_use]
    pub const fn from_mbps(mbps: u32) -> Self {
        Self(match mbps {
            100 => 1,
            1_000 => 2,
            2_500 => 3,
            5_000 => 4,
            10_000 => 5,
            20_000 => 6,
            25_000 => 7,
            40_000 => 8,
            50_000 => 9,
            100_000 => 10,
            200_000 => 11,
            400_000 => 12,
            800_000 => 13,
            1_600_000 => 14,
            _ => 15,
        })
    }

    /// Its four bits: an index into tables of sixteen.
    #[inline(always)]
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Mbit/s; 0 = not known.
    #[inline(always)]
    #[must_use]
    pub fn mbps(self) -> u32 {
        MBPS.get(self.0 as usize).copied().unwrap_or(0)
    }

    /// What a hop writes: never [`Speed::NONE`], which would make its record look unwritten.
    #[inline(always)]
    #[must_use]
    pub const fn written(self) -> Self {
        if self.0 == 0 {
            Self::OTHER
        } else {
            self
        }
    }
}
