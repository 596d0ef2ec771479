// SPDX-License-Identifier: GPL-2.0

//! Incremental update of the TCP checksum (RFC 1624, equation 3).
//!
//! A hop changes a few bytes of a packet whose payload it never sees whole, so it adds the
//! difference. The result is what a full computation would give, and a packet that was damaged
//! before stays damaged.

/// The change of a one's complement sum: what the new bytes sum to, less the old ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delta(u16);

#[inline(always)]
const fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    (sum & 0xffff).wrapping_add(sum >> 16) as u16
}

impl Delta {
    /// Nothing changed.
    pub const ZERO: Self = Self(0);

    /// One 16-bit word at an even offset, both in host order as read from big-endian bytes.
    #[inline(always)]
    #[must_use]
    pub const fn word(old: u16, new: u16) -> Self {
        Self(fold((!old as u32).wrapping_add(new as u32)))
    }

    /// Both changes.
    #[inline(always)]
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(fold((self.0 as u32).wrapping_add(other.0 as u32)))
    }

    /// The same bytes one further on: at an odd offset each byte is the other half of its word.
    #[inline(always)]
    #[must_use]
    pub const fn odd(self) -> Self {
        Self(self.0.swap_bytes())
    }

    /// `N` bytes at `offset` from the start of the TCP header; an odd `N` is padded with a zero as
    /// the checksum itself is.
    #[inline(always)]
    #[must_use]
    pub fn bytes<const N: usize>(offset: usize, old: &[u8; N], new: &[u8; N]) -> Self {
        let mut delta = Self::ZERO;
        let word = |bytes: &[u8; N], at: usize| {
            let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
            u16::from_be_bytes([byte(at), byte(at.wrapping_add(1))])
        };
        // Not by the iterators of slices, whose arithmetic is checked: small code would keep the checks.
        let mut at = 0;
        while at < N {
            delta = delta.and(Self::word(word(old, at), word(new, at)));
            at = at.wrapping_add(2);
        }
        if offset & 1 == 1 {
            delta.odd()
        } else {
            delta
        }
    }

    /// The checksum field after the change, host order. Not for a packet whose checksum is still to
    /// be made (`CHECKSUM_PARTIAL`): there the field covers the pseudo-header alone and stays. A sum
    /// over the whole segment (`CHECKSUM_COMPLETE`) stays too: the field takes up what the option gave.
    #[inline(always)]
    #[must_use]
    pub const fn apply(self, check: u16) -> u16 {
        !fold((!check as u32).wrapping_add(self.0 as u32))
    }

    /// The difference as a 16-bit one's complement number.
    #[inline(always)]
    #[must_use]
    pub const fn value(self) -> u16 {
        self.0
    }
}
