// SPDX-License-Identifier: GPL-2.0

//! What happened at a hop between two of its records.
//!
//! It believes nothing that two records of the *same* port do not show: counters wrap, hops come
//! and go with routes and with the one record that the bottleneck format keeps, links change their
//! rate, and a gap longer than half the period of a hop's clock means nothing at all. In each of
//! these cases the record is kept for the next comparison and no answer is given.

use super::law::{HopHistory, HopRecord, Record, Wrap};

/// Queues beyond a gigabyte count as one; times a byte's time in Q24 they stay in 62 bits.
const MAX_BYTES: u32 = 1 << 30;

/// The time between two records of one hop, and what it sent and queued in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// ns, at least one.
    pub dt_ns: u32,
    /// Bytes sent.
    pub tx_bytes: u32,
    /// Queue at the end, bytes.
    pub qlen_bytes: u32,
    /// Queue at the beginning, bytes.
    pub prev_qlen_bytes: u32,
    /// Nanoseconds per byte, Q24; not zero.
    pub inverse_rate: u32,
}

impl HopHistory {
    /// The place of hop `id`: where it was last, or the first that is free, or a place to give up.
    #[inline]
    fn place(&mut self, id: u8) -> usize {
        let last = self.last as usize;
        if let Some(hop) = self.hops.get(last) {
            if hop.hop_id == id && hop.inverse_rate != 0 {
                return last;
            }
        }
        self.search(id)
    }

    #[inline(never)]
    fn search(&mut self, id: u8) -> usize {
        let mut free = None;
        // Not `enumerate`: its counter is checked for overflow where ours are.
        let mut place = 0usize;
        for hop in &self.hops {
            if hop.inverse_rate == 0 {
                free = free.or(Some(place));
            } else if hop.hop_id == id {
                self.last = place as u32;
                return place;
            }
            place = place.wrapping_add(1);
        }
        // More hops than places: the next one in turn makes room.
        let place = free.unwrap_or((self.last as usize).wrapping_add(1) % self.hops.len());
        self.last = place as u32;
        place
    }

    /// Takes the record of the one hop that the bottleneck format reports.
    #[inline]
    pub fn bottleneck(&mut self, record: &Record, now_ns: u64) -> Option<Interval> {
        let place = self.place(record.hop_id);
        self.hops
            .get_mut(place)?
            .take(record, Wrap::BOTTLENECK, now_ns)
    }
}

impl HopRecord {
    /// Takes the place of this record with a newer one; says what happened between the two.
    #[inline]
    pub fn take(&mut self, record: &Record, wrap: Wrap, now_ns: u64) -> Option<Interval> {
        if record.inverse_rate == 0 {
            return None;
        }
        let dt_ns = record.ts_ns.wrapping_sub(self.ts_ns) & wrap.ts_mask;
        let gap_ns = (now_ns as u32).wrapping_sub(self.seen_ns);
        let same = self.hop_id == record.hop_id && self.inverse_rate == record.inverse_rate;
        if same && dt_ns == 0 {
            // The same instant again: nothing to compare yet.
            return None;
        }
        let interval = Interval {
            dt_ns,
            tx_bytes: record.tx_bytes.wrapping_sub(self.tx_bytes) & wrap.tx_mask,
            qlen_bytes: record.qlen_bytes.min(MAX_BYTES),
            prev_qlen_bytes: self.qlen_bytes,
            inverse_rate: record.inverse_rate,
        };
        *self = Self {
            qlen_bytes: interval.qlen_bytes,
            tx_bytes: record.tx_bytes,
            ts_ns: record.ts_ns,
            seen_ns: now_ns as u32,
            inverse_rate: record.inverse_rate,
            hop_id: record.hop_id,
            pad: [0; 3],
        };
        // Half a period for the wrap, and packets may overtake each other by a little: a record from
        // before the last one shows as more than half a period.
        let half = wrap.ts_mask >> 1;
        let fresh = gap_ns < half && dt_ns < half && interval.tx_bytes <= MAX_BYTES;
        (same && fresh).then_some(interval)
    }
}

impl Interval {
    /// Time the link needs for `bytes`, ns.
    #[inline]
    #[must_use]
    pub fn link_ns(&self, bytes: u32) -> u64 {
        // 2^30 times 2^32.
        u64::from(bytes.min(MAX_BYTES)).wrapping_mul(u64::from(self.inverse_rate)) >> 24
    }
}
