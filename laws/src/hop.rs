// SPDX-License-Identifier: GPL-2.0

//! What happened at a hop between two of its records.
//!
//! It believes nothing that two records of the *same* port do not show: counters wrap, hops come
//! and go with routes and with the one record that the bottleneck format keeps, links change their
//! rate, and a gap longer than half the period of a hop's clock means nothing at all. In each of
//! these cases the record is kept for the next comparison and no answer is given.

use super::law::{HopHistory, HopRecord, Record, Wrap, MAX_HOPS};
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

/// [`HopHistory::last`] of one that holds a whole stack: this and the number of its records. All of
/// them are then at least as new as [`STACK_TIME`] says, so that it need not be asked of each.
const STACK: u32 = 1 << 16;
/// The place whose time is that of the stack. Not the first, which a path of one hop changes alone.
const STACK_TIME: usize = 1;
const STACK_LEAST: usize = STACK_TIME + 1;

impl HopHistory {
    /// Takes the record of every hop of a path; `fold` makes one value of what happened at each.
    #[inline]
    pub fn stack<T: Default>(
        &mut self,
        records: &[Record],
        wrap: Wrap,
        now_ns: u32,
        fold: impl Fn(T, &Interval) -> T,
    ) -> T {
        let mut taken = Err(None);
        if wrap.is_stack() {
            taken = self.next_stack(records, now_ns, &fold);
        }
        taken.unwrap_or_else(|value| {
            self.any_stack(records, wrap, now_ns, value.unwrap_or_default(), fold)
        })
    }

    /// The same for a [`Wrap::STACK`] from the same hops as the last one. When one of them cannot be
    /// compared the error is the value so far, with which [`HopHistory::any_stack`] goes on; none
    /// when nothing is taken.
    #[inline(always)]
    pub fn next_stack<T: Default>(
        &mut self,
        records: &[Record],
        now_ns: u32,
        fold: impl Fn(T, &Interval) -> T,
    ) -> Result<T, Option<T>> {
        let wrap = Wrap::STACK;
        let seen_ns = self.hops[STACK_TIME].seen_ns;
        let fresh = now_ns.wrapping_sub(seen_ns) < wrap.ts_mask >> 1;
        let same = self.last == STACK.wrapping_add(records.len() as u32);
        let (true, true, STACK_LEAST..=MAX_HOPS) = (fresh, same, records.len()) else {
            return Err(None);
        };
        self.hops[STACK_TIME].seen_ns = now_ns;
        let places = self.hops.get_mut(..records.len()).unwrap_or_default();
        let mut value = T::default();
        for (hop, record) in places.iter_mut().zip(records) {
            // No place of a stack is empty: equal rates are not zero.
            let Some(interval) = hop.record.advance::<false>(record, wrap) else {
                self.hops[STACK_TIME].seen_ns = seen_ns;
                return Err(Some(value));
            };
            value = fold(value, &interval);
        }
        Ok(value)
    }

    /// The same for any stack, beginning with `start`. A record that is there already says nothing
    /// again.
    #[inline(never)]
    pub fn any_stack<T>(
        &mut self,
        records: &[Record],
        wrap: Wrap,
        now_ns: u32,
        start: T,
        fold: impl Fn(T, &Interval) -> T,
    ) -> T {
        self.scatter();
        let (mut value, mut whole) = (start, true);
        for (hop, record) in self.hops.iter_mut().zip(records) {
            if let Some(interval) = hop.take(record, wrap, now_ns) {
                value = fold(value, &interval);
            }
            whole &= hop.seen_ns == now_ns && hop.record.inverse_rate != 0;
        }
        let stack = whole && (STACK_LEAST..=MAX_HOPS).contains(&records.len());
        self.last = if stack {
            STACK.wrapping_add(records.len() as u32)
        } else {
            0
        };
        value
    }

    /// Gives every place of a stack a time of its own again.
    #[inline(never)]
    fn scatter(&mut self) {
        if self.last < STACK {
            return;
        }
        let seen_ns = self.hops[STACK_TIME].seen_ns;
        // From the last to the first, after which there is none.
        let mut place = self.last.wrapping_sub(STACK + 1) as usize;
        while let Some(hop) = self.hops.get_mut(place) {
            hop.seen_ns = seen_ns;
            place = place.wrapping_sub(1);
        }
        self.last = 0;
    }

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
        self.scatter();
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
    pub fn bottleneck(&mut self, record: &Record, now_ns: u64) -> Option<Interval> {
        let place = self.place(record.hop_id);
        self.hops
            .get_mut(place)?
            .take(record, Wrap::BOTTLENECK, now_ns as u32)
    }

    /// Takes the record of a path of one hop.
    pub fn first(&mut self, record: &Record, wrap: Wrap, now_ns: u64) -> Option<Interval> {
        self.scatter();
        self.last = 0;
        self.hops[0].take(record, wrap, now_ns as u32)
    }

    /// Takes `record` when it can be compared with the last one; otherwise nothing is taken.
    #[inline(always)]
    pub fn advance(&mut self, record: &Record, wrap: Wrap, now_ns: u64) -> Option<Interval> {
        self.hops
            .get_mut(self.last as usize)?
            .advance(record, wrap, now_ns as u32)
    }
}

impl HopRecord {
    /// Takes the place of this record with a newer one; says what happened between the two.
    #[inline(never)]
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
        let gap_ns = now_ns.wrapping_sub(self.seen_ns);
        if gap_ns >= wrap.ts_mask >> 1 {
            return None;
        }
        let interval = self.record.advance::<true>(record, wrap)?;
        self.seen_ns = now_ns;
        Some(interval)
    }

    /// What cannot be compared is kept for the next, unless it says nothing or is the same again.
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

impl Record {
    /// The id and the rate in one.
    #[inline(always)]
    fn port(&self) -> u64 {
        u64::from(self.hop_id) << 32 | u64::from(self.inverse_rate)
    }

    /// Takes the place of this record with one of the same port that came less than half a period
    /// after it; otherwise nothing is taken. Only one that `MAY_BE_EMPTY` is asked whether it is.
    #[inline(always)]
    fn advance<const MAY_BE_EMPTY: bool>(&mut self, record: &Self, wrap: Wrap) -> Option<Interval> {
        let port = record.port();
        let inverse_rate = port as u32;
        if port != self.port() {
            return None;
        }
        // Packets may overtake each other by a little: a record from before the last one shows as
        // more than half a period. One comparison for zero, too: there it becomes the largest
        // number.
        let dt_ns = record.ts_ns.wrapping_sub(self.ts_ns) & wrap.ts_mask;
        if dt_ns.wrapping_sub(1) >= wrap.ts_mask >> 1 || (MAY_BE_EMPTY && inverse_rate == 0) {
            return None;
        }
        let tx_bytes = record.tx_bytes.wrapping_sub(self.tx_bytes) & wrap.tx_mask;
        let prev_qlen_bytes = self.qlen_bytes;
        self.qlen_bytes = record.qlen_bytes;
        self.tx_bytes = record.tx_bytes;
        self.ts_ns = record.ts_ns;
        Some(Interval {
            dt_ns: NonZeroU32::new(dt_ns)?,
            tx_bytes,
            qlen_bytes: record.qlen_bytes,
            prev_qlen_bytes,
            inverse_rate,
        })
    }
}

/// Fractional bits of [`Interval::link_time`]: 2^-16 of a base RTT is less than a byte of queue takes.
pub const LINK_TIME_SHIFT: u32 = 16;

impl Interval {
    /// Time the link needs for `bytes` in units of the time whose [`math::reciprocal`] is
    /// `inverse_ns`, Q16; below 2^47 for one of 500 ns and more.
    #[inline]
    #[must_use]
    pub fn link_time(&self, bytes: u32, inverse_ns: u64) -> u64 {
        // ns in Q24, below 2^63, times 2^56/ns.
        let link_ns = u64::from(bytes).wrapping_mul(u64::from(self.inverse_rate));
        math::mul_high(link_ns, inverse_ns)
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
