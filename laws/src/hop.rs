// SPDX-License-Identifier: GPL-2.0

//! What happened at a hop between two of its records.
//!
//! It believes nothing that two records of the *same* port do not show: counters wrap, hops come
//! and go with routes and with the one record that the bottleneck format keeps, links change their
//! rate, and a gap longer than half the period of a hop's clock means nothing at all. In each of
//! these cases the record is kept for the next comparison and no answer is given.

use super::law::{HopHistory, HopRecord, Record, Wrap};
use super::math;
use core::num::NonZeroU32;

/// The time between two records of one hop, and what it sent and queued in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// ns.
    pub dt_ns: NonZeroU32,
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
    fn place(&mut self, id: u32) -> usize {
        let last = self.last as usize;
        match self.hops.get(last) {
            Some(hop) if hop.record.hop_id == id && hop.record.inverse_rate != 0 => last,
            _ => self.search(id),
        }
    }

    #[inline(never)]
    fn search(&mut self, id: u32) -> usize {
        let mut free = None;
        // Not `enumerate`: its counter is checked for overflow where ours are.
        let mut place = 0usize;
        for hop in &self.hops {
            if hop.record.inverse_rate == 0 {
                free = free.or(Some(place));
            } else if hop.record.hop_id == id {
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
            .take(record, Wrap::BOTTLENECK, now_ns as u32)
    }

    /// Takes `record` at `place` when it can be compared with what is there; otherwise nothing is
    /// taken.
    #[inline(always)]
    pub fn advance(
        &mut self,
        place: usize,
        record: &Record,
        wrap: Wrap,
        now_ns: u64,
    ) -> Option<Interval> {
        self.hops
            .get_mut(place)?
            .advance(record, wrap, now_ns as u32)
    }
}

impl HopRecord {
    /// Takes the place of this record with a newer one; says what happened between the two.
    #[inline(always)]
    pub fn take(&mut self, record: &Record, wrap: Wrap, now_ns: u32) -> Option<Interval> {
        let interval = self.advance(record, wrap, now_ns);
        if interval.is_none() {
            self.replace(record, wrap, now_ns);
        }
        interval
    }

    /// The same, when the two can be compared; otherwise nothing is taken.
    #[inline(always)]
    fn advance(&mut self, record: &Record, wrap: Wrap, now_ns: u32) -> Option<Interval> {
        let last = &mut self.record;
        let gap_ns = now_ns.wrapping_sub(self.seen_ns);
        let dt_ns = record.ts_ns.wrapping_sub(last.ts_ns) & wrap.ts_mask;
        // Half a period for the wrap; and packets may overtake each other by a little, a record
        // from before the last one shows as more than half a period.
        let half = wrap.ts_mask >> 1;
        let other = (last.hop_id ^ record.hop_id) | (last.inverse_rate ^ record.inverse_rate);
        // One comparison for zero, too: there it becomes the largest number.
        let comparable = dt_ns.wrapping_sub(1) < half && gap_ns < half;
        if other != 0 || !comparable || record.inverse_rate == 0 {
            return None;
        }
        let tx_bytes = record.tx_bytes.wrapping_sub(last.tx_bytes) & wrap.tx_mask;
        let prev_qlen_bytes = last.qlen_bytes;
        last.qlen_bytes = record.qlen_bytes;
        last.tx_bytes = record.tx_bytes;
        last.ts_ns = record.ts_ns;
        self.seen_ns = now_ns;
        Some(Interval {
            dt_ns: NonZeroU32::new(dt_ns)?,
            tx_bytes,
            qlen_bytes: record.qlen_bytes,
            prev_qlen_bytes,
            inverse_rate: record.inverse_rate,
        })
    }

    /// What cannot be compared is kept for the next, unless it says nothing or is the same again.
    #[cold]
    #[inline(never)]
    fn replace(&mut self, record: &Record, wrap: Wrap, now_ns: u32) {
        let dt_ns = record.ts_ns.wrapping_sub(self.record.ts_ns) & wrap.ts_mask;
        let same =
            self.record.hop_id == record.hop_id && self.record.inverse_rate == record.inverse_rate;
        if record.inverse_rate != 0 && !(same && dt_ns == 0) {
            self.record = *record;
            self.seen_ns = now_ns;
        }
    }
}

impl Interval {
    /// Time the link needs for `bytes` in units of the time whose [`math::reciprocal`] is
    /// `inverse_ns`, Q24; at most 32.
    #[inline]
    #[must_use]
    pub fn link_time(&self, bytes: u32, inverse_ns: u64) -> u64 {
        // ns in Q24, below 2^63, times 2^64/ns, from at least 2^8 ns.
        let link_ns = u64::from(bytes).wrapping_mul(u64::from(self.inverse_rate));
        math::mul_high(link_ns, inverse_ns << 8).min(32 << 24)
    }

    /// The part of the interval that the link needs for `bytes`, Q24.
    #[inline]
    #[must_use]
    pub fn load(&self, bytes: u64) -> u64 {
        // What was sent and queued is below 2^33 bytes, an inverse rate below 2^31.
        let busy = bytes.wrapping_mul(u64::from(self.inverse_rate));
        busy / core::num::NonZeroU64::from(self.dt_ns)
    }
}
