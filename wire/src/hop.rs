// SPDX-License-Identifier: GPL-2.0

//! What a hop does to a packet: the reference that every switch, in software or hardware, is held to.

use super::bottleneck;
use super::checksum::Delta;
use super::mpd::{self, Word};
use super::option::{find, Found, Reason};
use super::speed::Speed;
use super::stack::{self, Slot};
use super::{be16, exid, HEADER_LEN};

/// An egress port at the moment it sends a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hop {
    /// How long the packet waited, ns: dequeue less enqueue.
    pub delay_ns: u64,
    /// The queue it leaves behind, bytes.
    pub qlen_bytes: u32,
    /// Bytes sent since ever, this packet included; wraps.
    pub tx_bytes: u64,
    /// The port's clock, ns; any epoch.
    pub time_ns: u64,
    /// Its load in 1/256, 255 = all of it; see [`Load`](super::Load).
    pub load: u8,
    /// Its link.
    pub speed: Speed,
    /// Which port; the [`stack`] format has room for the low four bits.
    pub hop_id: u8,
    /// Unit of an [`mpd`] delay, the same in the whole fabric: [`mpd::DEFAULT_SHIFT`].
    pub shift: u8,
}

impl Hop {
    /// Updates the option among the TCP options of a packet, in place; what changed in the
    /// checksum's sum. `options` is what follows the first 20 bytes of a TCP header, as long as the
    /// data offset says.
    ///
    /// # Errors
    /// When there is nothing to update, and why; no byte is changed then.
    #[inline]
    pub fn stamp(&self, options: &mut [u8]) -> Result<Delta, Reason> {
        let found = find(options)?;
        self.stamp_found(options, &found)
    }

    /// [`Hop::stamp`] for who has looked for the option already: `found` is what [`find`] said of the same
    /// `options`.
    ///
    /// # Errors
    /// When there is nothing to update, and why; no byte is changed then.
    #[inline]
    pub fn stamp_found(&self, options: &mut [u8], found: &Found) -> Result<Delta, Reason> {
        let option = options
            .get_mut(found.at..)
            .and_then(|rest| rest.get_mut(..found.len))
            .ok_or(Reason::TRUNCATED)?;
        match found.exid {
            exid::MPD => self.stamp_mpd(option),
            exid::BOTTLENECK => self.stamp_bottleneck(option),
            exid::STACK => self.stamp_stack(option),
            _ => Err(Reason::ABSENT),
        }
    }

    #[inline]
    fn stamp_mpd(&self, option: &mut [u8]) -> Result<Delta, Reason> {
        if option.len() != mpd::LEN {
            return Err(Reason::LENGTH);
        }
        let old = Word(be16(option, HEADER_LEN).ok_or(Reason::TRUNCATED)?);
        let new = old.hop(self.delay_ns, self.shift);
        let word = option
            .get_mut(HEADER_LEN..HEADER_LEN + 2)
            .ok_or(Reason::TRUNCATED)?;
        word.copy_from_slice(&new.0.to_be_bytes());
        Ok(Delta::word(old.0, new.0))
    }

    #[inline]
    fn stamp_bottleneck(&self, option: &mut [u8]) -> Result<Delta, Reason> {
        if option.len() != bottleneck::LEN {
            return Err(Reason::LENGTH);
        }
        let body = option
            .get_mut(HEADER_LEN..bottleneck::LEN)
            .ok_or(Reason::TRUNCATED)?;
        let mut old = bottleneck::Body::default();
        old.0.copy_from_slice(body);
        let new = old.hop(self);
        body.copy_from_slice(&new.0);
        Ok(old.delta(&new))
    }

    #[inline]
    fn stamp_stack(&self, option: &mut [u8]) -> Result<Delta, Reason> {
        if !matches!(option.len(), 12 | 20 | 28 | 36) {
            return Err(Reason::LENGTH);
        }
        let slots = option.get_mut(HEADER_LEN..).ok_or(Reason::TRUNCATED)?;
        for slot in slots.chunks_exact_mut(stack::SLOT_LEN) {
            let mut old = Slot::default();
            old.0.copy_from_slice(slot);
            if old.is_empty() {
                let new = Slot::of(self);
                slot.copy_from_slice(&new.0);
                return Ok(Delta::bytes(0, &old.0, &new.0));
            }
        }
        Err(Reason::FULL)
    }
}

/// Routers between a sender and here, from the TTL or hop limit of a packet that arrived: senders
/// start with 64, 128 or 255.
#[inline(always)]
#[must_use]
pub const fn path_hops(ttl: u8) -> u8 {
    let start: u8 = match ttl {
        0..=64 => 64,
        65..=128 => 128,
        _ => 255,
    };
    start.wrapping_sub(ttl)
}
