// SPDX-License-Identifier: GPL-2.0

//! mpd: the maximum per-hop delay (Poseidon §3.1), 8 bytes.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+-------------------------------+
//! |   kind 253    |    len 8      |          exid 0xfa70          |
//! +-----------------------+-------+-----------------------+-------+
//! | forward: delay 12     | hops 4| echo: delay 12        |miss. 4|
//! +-----------------------+-------+-----------------------+-------+
//! ```
//!
//! The delay stands in the high bits, so that the maximum of two words with equal low bits is one
//! 16-bit `max`, which is what a Tofino has. Its unit is 2^shift ns, the same in a whole fabric; by
//! default 64 ns, and then 12 bits are exactly the 18 bits of Tofino 1's `deq_timedelta`.

use super::option::Reason;
use super::{exid, header, KIND};

/// Bytes of the option.
pub const LEN: usize = 8;
/// Unit of a delay as a power of two of ns, when nothing else is configured: 64 ns.
pub const DEFAULT_SHIFT: u8 = 6;
/// The largest unit: 2^15 ns.
pub const MAX_SHIFT: u8 = 15;
/// The largest delay a word can hold; a longer one is written as this.
pub const MAX_DELAY: u16 = 0xfff;
/// The largest hop count a word can hold; more are counted as this.
pub const MAX_HOPS: u8 = 15;

/// What the hops so far wrote: delay 12 bits, hop count 4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Word(pub u16);

impl Word {
    /// A sender's own: no hop yet.
    pub const EMPTY: Self = Self(0);

    /// Hops that wrote; [`MAX_HOPS`] means that many or more.
    #[inline(always)]
    #[must_use]
    pub const fn hops(self) -> u8 {
        (self.0 & 15) as u8
    }

    /// The largest delay, in units of 2^shift ns; [`MAX_DELAY`] means that much or more.
    #[inline(always)]
    #[must_use]
    pub const fn delay(self) -> u16 {
        self.0 >> 4
    }

    /// The largest delay, ns: that much, and less than a unit more.
    #[inline(always)]
    #[must_use]
    pub const fn delay_ns(self, shift: u8) -> u32 {
        (self.delay() as u32) << (shift & MAX_SHIFT)
    }

    /// A delay of `delay_ns` in units of 2^shift ns, rounded down and saturating.
    #[inline(always)]
    #[must_use]
    pub const fn units(delay_ns: u64, shift: u8) -> u16 {
        let units = delay_ns >> (shift & MAX_SHIFT);
        if units > MAX_DELAY as u64 {
            MAX_DELAY
        } else {
            units as u16
        }
    }

    /// What a hop makes of it: the larger delay, one hop more.
    #[inline(always)]
    #[must_use]
    pub const fn hop(self, delay_ns: u64, shift: u8) -> Self {
        let hops = self.0 & 15;
        let own = (Self::units(delay_ns, shift) << 4) | hops;
        let word = if own > self.0 { own } else { self.0 };
        // Never a carry into the delay: the count stops at fifteen.
        Self(if hops == 15 {
            word
        } else {
            word.wrapping_add(1)
        })
    }
}

/// How many hops of a path did not write, as the receiver tells the sender: it alone sees both the
/// hop count and the TTL that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing(u8);

impl Missing {
    /// All wrote.
    pub const NONE: Self = Self(0);
    /// This many or more did not.
    pub const MOST: Self = Self(13);
    /// The receiver cannot tell.
    pub const UNKNOWN: Self = Self(14);
    /// There is no sample at all.
    pub const NO_SAMPLE: Self = Self(15);

    /// The low four bits of `code`.
    #[inline(always)]
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        Self(code & 15)
    }

    /// Its four bits.
    #[inline(always)]
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Of a path of `path_hops`, of which `hops` wrote. More than the path has is no contradiction:
    /// a host's own port may write and does not touch the TTL.
    #[inline(always)]
    #[must_use]
    pub const fn of(hops: u8, path_hops: Option<u8>) -> Self {
        match path_hops {
            None => Self::UNKNOWN,
            // The count has stopped; whether it would have reached the end nobody knows.
            Some(path) if hops >= MAX_HOPS && path > MAX_HOPS => Self::UNKNOWN,
            Some(path) => {
                let missing = path.saturating_sub(hops);
                if missing > Self::MOST.0 {
                    Self::MOST
                } else {
                    Self(missing)
                }
            }
        }
    }

    /// Whether every hop wrote, for certain.
    #[inline(always)]
    #[must_use]
    pub const fn is_full(self) -> bool {
        self.0 == 0
    }

    /// The worse of two: of several packets one ACK answers for.
    #[inline(always)]
    #[must_use]
    pub const fn worse(self, other: Self) -> Self {
        if self.0 > other.0 {
            self
        } else {
            other
        }
    }
}

/// What the receiver sends back: delay 12 bits, [`Missing`] 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoWord(pub u16);

impl EchoWord {
    /// Nothing to send back.
    pub const NONE: Self = Self(Missing::NO_SAMPLE.0 as u16);

    /// The delay of `word`, and who did not write it; [`EchoWord::NONE`] when nobody did.
    #[inline(always)]
    #[must_use]
    pub const fn new(word: Word, missing: Missing) -> Self {
        if word.hops() == 0 {
            return Self::NONE;
        }
        Self((word.0 & 0xfff0) | missing.0 as u16)
    }

    /// Hops that did not write.
    #[inline(always)]
    #[must_use]
    pub const fn missing(self) -> Missing {
        Missing::from_code(self.0 as u8)
    }

    /// The largest delay of the path, ns; none when there is no sample.
    #[inline(always)]
    #[must_use]
    pub const fn delay_ns(self, shift: u8) -> Option<u32> {
        if self.missing().0 == Missing::NO_SAMPLE.0 {
            return None;
        }
        Some(Word(self.0).delay_ns(shift))
    }
}

/// Writes the option.
#[inline(always)]
#[must_use]
pub const fn emit(forward: Word, echo: EchoWord) -> [u8; LEN] {
    let [kind, len, id0, id1] = header(LEN, exid::MPD);
    let ([f0, f1], [e0, e1]) = (forward.0.to_be_bytes(), echo.0.to_be_bytes());
    [kind, len, id0, id1, f0, f1, e0, e1]
}

/// Reads the option.
///
/// # Errors
/// When it is not one, or says that nobody wrote the delay it has.
#[inline(always)]
pub const fn parse(option: &[u8; LEN]) -> Result<(Word, EchoWord), Reason> {
    let [kind, len, id0, id1, f0, f1, e0, e1] = *option;
    if kind != KIND || u16::from_be_bytes([id0, id1]) != exid::MPD {
        return Err(Reason::ABSENT);
    }
    if len as usize != LEN {
        return Err(Reason::LENGTH);
    }
    let forward = Word(u16::from_be_bytes([f0, f1]));
    if forward.hops() == 0 && forward.0 != 0 {
        return Err(Reason::INCONSISTENT);
    }
    Ok((forward, EchoWord(u16::from_be_bytes([e0, e1]))))
}
