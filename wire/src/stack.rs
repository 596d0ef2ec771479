// SPDX-License-Identifier: GPL-2.0

//! stack: a record per hop (HPCC §4.1, PowerTCP §3), 4 bytes and 8 for each slot.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+-------------------------------+
//! |   kind 253    |  len 4 + 8 n  | exid 0xfa74, the echo 0xfa75  |
//! +-------+-------+---------------+-----------------------+-------+  each slot:
//! | hop 4 |speed 4|                 tx 20                 |   ts  ~
//! +-------+-------+---------------+-----------------------+-------+
//! ~         ts, 20 in all         |            qlen 16            |
//! +-------------------------------+-------------------------------+
//! ```
//!
//! A hop writes into the first slot whose first byte is zero. When there is none the stack is full:
//! the packet passes unchanged, and the sender does not see the hops beyond. With timestamps there is
//! room for three slots, without for four; longer paths want the [`bottleneck`](super::bottleneck)
//! format.
//!
//! HPCC's own record is 4 bits of speed, 24 of time in ns, 20 of bytes sent in units of 128, and 16 of
//! queue in cells of 80, with an id of the path beside it that this option has no room for. Here the
//! time is in units of 16 ns, with the same period, and the four bits so won name the hop: a route
//! that changes must not look like a counter that jumps.

use super::bottleneck::{cells, Record, QLEN_UNIT};
use super::hop::Hop;
use super::option::Reason;
use super::speed::Speed;
use super::{exid, header, HEADER_LEN, KIND, MAX_LEN};

/// Bytes of a slot.
pub const SLOT_LEN: usize = 8;
/// The most slots an option can have.
pub const MAX_SLOTS: usize = 4;
/// Unit of the bytes sent as a power of two: 128.
pub const TX_SHIFT: u32 = 7;
/// Unit of the time as a power of two of ns: 16.
pub const TS_SHIFT: u32 = 4;
/// Bits of [`Record::tx_bytes`] that count.
pub const TX_MASK: u32 = (1 << 27) - 1;
/// Bits of [`Record::ts_ns`] that count.
pub const TS_MASK: u32 = (1 << 24) - 1;

/// Bytes of an option with `slots`.
#[inline(always)]
#[must_use]
pub const fn len(slots: usize) -> usize {
    slots.wrapping_mul(SLOT_LEN).wrapping_add(HEADER_LEN)
}

/// Slots a sender uses: what fits into 40 bytes of options, beside 12 of timestamps if there are any.
#[inline(always)]
#[must_use]
pub const fn slots(timestamps: bool) -> usize {
    if timestamps {
        3
    } else {
        4
    }
}

/// What one hop wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot(pub [u8; SLOT_LEN]);

impl Slot {
    /// Whether it is still to be written.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        let [first, ..] = self.0;
        first == 0
    }

    /// What `hop` writes.
    #[inline(always)]
    #[must_use]
    pub const fn of(hop: &Hop) -> Self {
        let first = (hop.hop_id << 4) | hop.speed.written().code();
        let tx = (hop.tx_bytes >> TX_SHIFT) as u32 & 0xf_ffff;
        let ts = (hop.time_ns >> TS_SHIFT) as u32 & 0xf_ffff;
        let [x0, x1] = ((tx >> 4) as u16).to_be_bytes();
        let mixed = ((tx & 15) << 4 | ts >> 16) as u8;
        let [s0, s1] = (ts as u16).to_be_bytes();
        let [q0, q1] = cells(hop.qlen_bytes).to_be_bytes();
        Self([first, x0, x1, mixed, s0, s1, q0, q1])
    }

    /// What the hop wrote, in bytes and ns.
    #[inline(always)]
    #[must_use]
    pub const fn record(&self) -> Record {
        let [first, x0, x1, mixed, s0, s1, q0, q1] = self.0;
        Record {
            qlen_bytes: (u16::from_be_bytes([q0, q1]) as u32).wrapping_mul(QLEN_UNIT),
            tx_bytes: (u32::from_be_bytes([0, x0, x1, mixed]) >> 4) << TX_SHIFT,
            ts_ns: u32::from_be_bytes([0, mixed & 15, s0, s1]) << TS_SHIFT,
            speed: Speed::from_code(first),
            hop_id: first >> 4,
        }
    }
}

/// The slots of an option; those that it does not have are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// In path order.
    pub slots: [Slot; MAX_SLOTS],
    /// How many the option has.
    pub len: u8,
    /// How many of them hops wrote: the first ones.
    pub used: u8,
}

impl Body {
    /// Every slot of the option is written: there may be hops that it does not show.
    #[inline(always)]
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.used == self.len
    }
}

/// Writes an option with the first `count` of `slots` under `exid`; the bytes after it are zero.
#[inline(always)]
fn emit(exid: u16, slots: &[Slot; MAX_SLOTS], count: usize) -> ([u8; MAX_LEN], usize) {
    let mut bytes = [0; MAX_LEN];
    let count = count.min(MAX_SLOTS);
    let length = len(count);
    let (head, body) = bytes.split_at_mut(HEADER_LEN);
    head.copy_from_slice(&header(length, exid));
    for (to, slot) in body.chunks_exact_mut(SLOT_LEN).zip(slots).take(count) {
        to.copy_from_slice(&slot.0);
    }
    (bytes, length)
}

/// What a sender writes: `slots` empty ones. The option and its length.
#[inline(always)]
#[must_use]
pub fn emit_forward(slots: usize) -> ([u8; MAX_LEN], usize) {
    emit(exid::STACK, &[Slot([0; SLOT_LEN]); MAX_SLOTS], slots)
}

/// What a receiver writes: the slots that were used and no others. The option and its length.
#[inline(always)]
#[must_use]
pub fn emit_echo(body: &Body) -> ([u8; MAX_LEN], usize) {
    emit(exid::STACK_ECHO, &body.slots, body.used as usize)
}

/// Reads the option at the start of `bytes`: whether it is an echo, and its slots.
///
/// # Errors
/// When it is neither, longer than `bytes`, of no whole number of slots, or has a slot written behind
/// an empty one; and an echo with an empty slot.
#[inline(always)]
pub fn parse(bytes: &[u8]) -> Result<(bool, Body), Reason> {
    let echo = match super::be16(bytes, 2) {
        Some(exid::STACK) => false,
        Some(exid::STACK_ECHO) => true,
        _ => return Err(Reason::ABSENT),
    };
    if bytes.first() != Some(&KIND) {
        return Err(Reason::ABSENT);
    }
    // Four cases of constant length, not arithmetic on a length: an eBPF verifier follows these.
    let count: u8 = match bytes.get(1) {
        Some(12) => 1,
        Some(20) => 2,
        Some(28) => 3,
        Some(36) => 4,
        _ => return Err(Reason::LENGTH),
    };
    let mut body = Body {
        len: count,
        ..Body::default()
    };
    let mut at = HEADER_LEN;
    let mut hole = false;
    for slot in &mut body.slots {
        if at >= len(count as usize) {
            break;
        }
        let Some(from) = bytes.get(at..at.wrapping_add(SLOT_LEN)) else {
            return Err(Reason::TRUNCATED);
        };
        slot.0.copy_from_slice(from);
        if slot.is_empty() {
            hole = true;
        } else if hole {
            return Err(Reason::INCONSISTENT);
        } else {
            body.used = body.used.wrapping_add(1);
        }
        at = at.wrapping_add(SLOT_LEN);
    }
    if echo && hole {
        return Err(Reason::INCONSISTENT);
    }
    Ok((echo, body))
}
