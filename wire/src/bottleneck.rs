// SPDX-License-Identifier: GPL-2.0

//! bottleneck: the record of the most congested hop, 16 bytes for a path of any length.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+-------------------------------+
//! |   kind 253    |    len 16     | exid 0xfa72, the echo 0xfa73  |
//! +---------------+-------+-------+-------------------------------+
//! |    hop id 8   | hops 4|speed 4|             key 16            |
//! +---------------+-------+-------+---------------+---------------+
//! |            qlen 16            |             tx 24             ~
//! +---------------+---------------+---------------+---------------+
//! ~               |                 timestamp 24                  |
//! +---------------+-----------------------------------------------+
//! ```
//!
//! A hop replaces the record when its key is larger, or when it is the first. The key is the
//! queueing delay when there is one and below that the port's load, so that an idle path still
//! reports its busiest link. In the echo the hop count gives way to
//! [`Missing`].

use super::checksum::Delta;
use super::hop::Hop;
use super::mpd::Missing;
use super::option::Reason;
use super::speed::Speed;
use super::{exid, header, HEADER_LEN, KIND};

/// Bytes of the option.
pub const LEN: usize = 16;
/// Bytes of the record.
pub const BODY_LEN: usize = LEN - HEADER_LEN;
/// Unit of a queue length, bytes: a cell of Tofino 1's buffer.
pub const QLEN_UNIT: u32 = 80;
/// Unit of the bytes sent as a power of two: 64.
pub const TX_SHIFT: u32 = 6;
/// Bits of [`Record::tx_bytes`] that count.
pub const TX_MASK: u32 = (1 << 30) - 1;
/// Bits of [`Record::ts_ns`] that count.
pub const TS_MASK: u32 = (1 << 24) - 1;
/// Unit of the delay in a key as a power of two of ns: 64.
pub const KEY_SHIFT: u32 = 6;
/// From here on a key is a delay.
pub const KEY_DELAY: u16 = 256;

/// The congestion key: 256 plus the delay in units of 64 ns, saturating, when that is a unit or more;
/// otherwise the load, in 1/256.
#[inline(always)]
#[must_use]
pub const fn key(delay_ns: u64, load: u8) -> u16 {
    const MOST: u64 = (u16::MAX - KEY_DELAY) as u64;
    match delay_ns >> KEY_SHIFT {
        0 => load as u16,
        units if units > MOST => u16::MAX,
        units => (units as u16).wrapping_add(KEY_DELAY),
    }
}

/// A queue in cells of 80 bytes, rounded down and saturating.
#[inline(always)]
#[must_use]
pub const fn cells(qlen_bytes: u32) -> u16 {
    let cells = qlen_bytes / QLEN_UNIT;
    if cells > u16::MAX as u32 {
        u16::MAX
    } else {
        cells as u16
    }
}

/// The record as it stands in the option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Body(pub [u8; BODY_LEN]);

/// The egress port of a hop at the moment it sent the packet, in the units the laws use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Queue behind the packet, bytes.
    pub qlen_bytes: u32,
    /// Bytes sent so far, this packet included, wrapping with the format's `TX_MASK`.
    pub tx_bytes: u32,
    /// When, ns, wrapping with the format's `TS_MASK`.
    pub ts_ns: u32,
    /// The link.
    pub speed: Speed,
    /// Which port.
    pub hop_id: u8,
}

impl Body {
    /// Hops that wrote; of an echo, the code of [`Missing`].
    #[inline(always)]
    #[must_use]
    pub const fn count(&self) -> u8 {
        let [_, meta, ..] = self.0;
        meta >> 4
    }

    /// The congestion key of the hop that wrote.
    #[inline(always)]
    #[must_use]
    pub const fn key(&self) -> u16 {
        let [_, _, k0, k1, ..] = self.0;
        u16::from_be_bytes([k0, k1])
    }

    /// What the hop wrote, in bytes and ns.
    #[inline(always)]
    #[must_use]
    pub const fn record(&self) -> Record {
        let [hop_id, meta, _, _, q0, q1, x0, x1, x2, s0, s1, s2] = self.0;
        Record {
            // 65535 times 80 is far below 2^32.
            qlen_bytes: (u16::from_be_bytes([q0, q1]) as u32).wrapping_mul(QLEN_UNIT),
            tx_bytes: u32::from_be_bytes([0, x0, x1, x2]) << TX_SHIFT,
            ts_ns: u32::from_be_bytes([0, s0, s1, s2]),
            speed: Speed::from_code(meta),
            hop_id,
        }
    }

    /// The same with another count.
    #[inline(always)]
    #[must_use]
    pub const fn with_count(self, count: u8) -> Self {
        let [hop_id, meta, k0, k1, q0, q1, x0, x1, x2, s0, s1, s2] = self.0;
        let meta = (meta & 15) | (count << 4);
        Self([hop_id, meta, k0, k1, q0, q1, x0, x1, x2, s0, s1, s2])
    }

    /// What a hop makes of it.
    #[inline(always)]
    #[must_use]
    pub const fn hop(self, hop: &Hop) -> Self {
        let count = self.count();
        let key = key(hop.delay_ns, hop.load);
        let next = if count == 15 {
            15
        } else {
            count.wrapping_add(1)
        };
        if count != 0 && key <= self.key() {
            return self.with_count(next);
        }
        let [k0, k1] = key.to_be_bytes();
        let [q0, q1] = cells(hop.qlen_bytes).to_be_bytes();
        let [.., x0, x1, x2] = (hop.tx_bytes >> TX_SHIFT).to_be_bytes();
        let [.., s0, s1, s2] = hop.time_ns.to_be_bytes();
        let meta = hop.speed.written().code() | (next << 4);
        Self([hop.hop_id, meta, k0, k1, q0, q1, x0, x1, x2, s0, s1, s2])
    }

    /// What changed in the checksum's sum from `self` to `new`, at an even offset.
    #[inline(always)]
    #[must_use]
    pub fn delta(&self, new: &Self) -> Delta {
        Delta::bytes(0, &self.0, &new.0)
    }
}

/// Writes the option under `exid`.
#[inline(always)]
const fn emit(exid: u16, body: &Body) -> [u8; LEN] {
    let [kind, len, id0, id1] = header(LEN, exid);
    let [a, b, c, d, e, f, g, h, i, j, k, l] = body.0;
    [kind, len, id0, id1, a, b, c, d, e, f, g, h, i, j, k, l]
}

/// What a sender writes: a record that the first hop will replace.
#[inline(always)]
#[must_use]
pub const fn emit_forward() -> [u8; LEN] {
    emit(exid::BOTTLENECK, &Body([0; BODY_LEN]))
}

/// What a receiver writes.
#[inline(always)]
#[must_use]
pub const fn emit_echo(body: &Body, missing: Missing) -> [u8; LEN] {
    emit(exid::BOTTLENECK_ECHO, &body.with_count(missing.code()))
}

/// Reads the option: whether it is an echo, and the record.
///
/// # Errors
/// When it is neither, or contradicts itself: a record that nobody wrote, an echo without one.
#[inline(always)]
pub const fn parse(option: &[u8; LEN]) -> Result<(bool, Body), Reason> {
    let [kind, len, id0, id1, a, b, c, d, e, f, g, h, i, j, k, l] = *option;
    let echo = match u16::from_be_bytes([id0, id1]) {
        exid::BOTTLENECK => false,
        exid::BOTTLENECK_ECHO => true,
        _ => return Err(Reason::ABSENT),
    };
    if kind != KIND {
        return Err(Reason::ABSENT);
    }
    if len as usize != LEN {
        return Err(Reason::LENGTH);
    }
    let body = Body([a, b, c, d, e, f, g, h, i, j, k, l]);
    let contradicts = if echo {
        body.count() == Missing::NO_SAMPLE.code()
    } else {
        body.count() == 0 && a | b | c | d | e | f | g | h | i | j | k | l != 0
    };
    if contradicts {
        return Err(Reason::INCONSISTENT);
    }
    Ok((echo, body))
}
