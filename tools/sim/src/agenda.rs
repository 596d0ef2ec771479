// SPDX-License-Identifier: GPL-2.0
//! What happens next: a calendar of at most one event per source.
//!
//! A source is a link direction or a timer; it has one event or none, and its time stands in a table. An event is an entry
//! (time, source) in a bucket of a wheel; an entry whose source has another time by now is void and is passed over.
//! So scheduling, moving and taking an event cost the same whatever their number, and what is touched lies side by side. The
//! order is by (time, source): it depends on neither the wheel's width nor on the order of scheduling, and the width
//! may therefore follow the traffic.

use crate::time::{Ps, NEVER};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A source of events.
pub type Source = u32;

const BUCKETS: usize = 1 << 13;
const MASK: u64 = BUCKETS as u64 - 1;
/// Between two looks at the width.
const LOOK: u32 = 1 << 15;
/// Widths from 2^6 ps to 2^30 ps.
const SHIFTS: std::ops::RangeInclusive<u32> = 6..=30;
/// From so many sources on their state does not fit into the caches next to a core, and a bucket has more events, so
/// that what they need is fetched together.
const MANY: usize = 8192;

/// The calendar.
pub struct Agenda {
    /// When each source has its event.
    times: Vec<Ps>,
    buckets: Vec<Vec<(Ps, Source)>>,
    occupied: Vec<u64>,
    /// Log2 of a bucket's width.
    shift: u32,
    /// The bucket that `now` came from, counted from time zero.
    base: u64,
    /// The events of the bucket at hand, the next one last.
    now: Vec<(Ps, Source)>,
    /// Beyond the wheel.
    far: BinaryHeap<Reverse<(Ps, Source)>>,
    /// Events that a bucket should have: the least.
    least: u32,
    /// Since the last look at the width: buckets taken, events in them, events sent far away.
    taken: u32,
    events: u32,
    sent_far: u32,
    turned: bool,
}

impl Agenda {
    /// For the sources 0 to `sources` - 1.
    #[must_use]
    pub fn new(sources: usize) -> Self {
        Self {
            times: vec![NEVER; sources],
            buckets: vec![Vec::new(); BUCKETS],
            occupied: vec![0; BUCKETS / 64],
            shift: 16,
            base: 0,
            now: Vec::new(),
            far: BinaryHeap::new(),
            least: if sources > MANY { 14 } else { 5 },
            taken: 0,
            events: 0,
            sent_far: 0,
            turned: false,
        }
    }

    /// When `source` has its event; [`NEVER`] when it has none.
    #[inline]
    #[must_use]
    pub fn at(&self, source: Source) -> Ps {
        self.times[source as usize]
    }

    /// Gives `source` an event at `time`, instead of the one it may have.
    #[inline]
    pub fn set(&mut self, source: Source, time: Ps) {
        let at = &mut self.times[source as usize];
        if *at != time {
            *at = time;
            if time != NEVER {
                self.insert(source, time);
            }
        }
    }

    /// Takes the event of `source` away.
    pub fn clear(&mut self, source: Source) {
        self.set(source, NEVER);
    }

    #[inline]
    fn insert(&mut self, source: Source, time: Ps) {
        let bucket = time >> self.shift;
        if bucket > self.base && bucket - self.base < BUCKETS as u64 {
            let slot = (bucket & MASK) as usize;
            self.buckets[slot].push((time, source));
            self.occupied[slot / 64] |= 1 << (slot % 64);
        } else if bucket <= self.base {
            let key = (time, source);
            let mut at = self.now.len();
            while at > 0 && self.now[at - 1] < key {
                at -= 1;
            }
            self.now.insert(at, key);
        } else {
            self.sent_far += 1;
            self.far.push(Reverse((time, source)));
        }
    }

    /// Whether a new bucket is at hand since this was last asked.
    #[inline]
    pub fn turned(&mut self) -> bool {
        std::mem::take(&mut self.turned)
    }

    /// The events of the bucket at hand, the next one last; void ones among them.
    #[inline]
    #[must_use]
    pub fn at_hand(&self) -> &[(Ps, Source)] {
        &self.now
    }

    /// Takes the next event, unless it is after `end`.
    #[inline]
    pub fn pop(&mut self, end: Ps) -> Option<(Ps, Source)> {
        loop {
            if let Some(&(time, source)) = self.now.last() {
                if time > end {
                    return None;
                }
                self.now.pop();
                let at = &mut self.times[source as usize];
                if *at == time {
                    *at = NEVER;
                    return Some((time, source));
                }
            } else if !self.turn(end) {
                return None;
            }
        }
    }

    /// Goes on to the next bucket that has events. False when there is none that begins by `end`.
    fn turn(&mut self, end: Ps) -> bool {
        if self.events >= LOOK {
            self.look();
        }
        let far = self.next_far();
        let wheel = self.next_bucket();
        let bucket = match (wheel, far) {
            (None, None) => return false,
            (Some(b), None) => b,
            (None, Some((t, _))) => t >> self.shift,
            (Some(b), Some((t, _))) => b.min(t >> self.shift),
        };
        if bucket << self.shift > end {
            return false;
        }
        self.base = bucket;
        let slot = (bucket & MASK) as usize;
        if wheel == Some(bucket) {
            std::mem::swap(&mut self.now, &mut self.buckets[slot]);
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
        while let Some((time, source)) = self.next_far() {
            if time >> self.shift != bucket {
                break;
            }
            self.far.pop();
            self.now.push((time, source));
        }
        self.taken += 1;
        self.turned = true;
        self.events += self.now.len() as u32;
        if self.now.len() > 1 {
            self.now.sort_unstable_by(|a, b| b.cmp(a));
        }
        true
    }

    /// The first entry beyond the wheel that is not void.
    fn next_far(&mut self) -> Option<(Ps, Source)> {
        while let Some(&Reverse((time, source))) = self.far.peek() {
            if self.times[source as usize] == time {
                return Some((time, source));
            }
            self.far.pop();
        }
        None
    }

    /// The next bucket of the wheel with events, counted from time zero.
    fn next_bucket(&self) -> Option<u64> {
        let start = ((self.base + 1) & MASK) as usize;
        let words = self.occupied.len();
        let mut word = start / 64;
        let mut bits = self.occupied[word] & (!0 << (start % 64));
        for step in 0..=words {
            if bits != 0 {
                let slot = (word * 64) as u64 + u64::from(bits.trailing_zeros());
                let ahead = slot.wrapping_sub(self.base) & MASK;
                return Some(self.base + if ahead == 0 { BUCKETS as u64 } else { ahead });
            }
            if step == words {
                break;
            }
            word = (word + 1) % words;
            bits = self.occupied[word];
        }
        None
    }

    /// Few events in a bucket, but more than one: half as wide or twice as wide when it is not so.
    fn look(&mut self) {
        let (events, taken, far) = (self.events, self.taken, self.sent_far);
        (self.events, self.taken, self.sent_far) = (0, 0, 0);
        let (least, most) = (taken * self.least, taken * self.least * 3);
        let wanted = if events > most {
            self.shift - 1
        } else if far > events / 8 || events < least {
            self.shift + 1
        } else {
            return;
        };
        if !SHIFTS.contains(&wanted) || (wanted > self.shift && events > most / 2) {
            return;
        }
        let time = (self.base + 1) << self.shift;
        let mut all = Vec::new();
        for bucket in &mut self.buckets {
            all.append(bucket);
        }
        self.occupied.fill(0);
        self.shift = wanted;
        // All that is left begins at `time` or later: nothing lies in the bucket before.
        self.base = (time >> wanted).saturating_sub(1);
        for (time, source) in all {
            if self.times[source as usize] == time {
                self.insert(source, time);
            }
        }
        self.sent_far = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is scheduled, moved and taken: the order is that of a sorted list.
        #[test]
        fn as_a_sorted_list(steps in prop::collection::vec((0u32..40, 0u64..2_000_000_000, 0u8..4), 1..400)) {
            let mut agenda = Agenda::new(40);
            let mut model = std::collections::BTreeSet::new();
            let mut when = [NEVER; 40];
            let mut now = 0;
            for (source, delta, what) in steps {
                if what == 0 {
                    let expect = model.pop_first();
                    let got = agenda.pop(NEVER - 1);
                    prop_assert_eq!(got, expect);
                    if let Some((t, s)) = got {
                        now = t;
                        when[s as usize] = NEVER;
                    }
                } else {
                    let time = now + if what == 1 { delta } else { delta % 300_000 };
                    let old = std::mem::replace(&mut when[source as usize], time);
                    model.remove(&(old, source));
                    model.insert((time, source));
                    agenda.set(source, time);
                }
            }
        }
    }

    #[test]
    fn the_width_follows_and_the_order_stays() {
        // A hundred sources at periods from 1 ns to 100 us, for long enough to change the width often.
        let mut agenda = Agenda::new(100);
        for s in 0..100 {
            agenda.set(s, u64::from(s));
        }
        let mut last = (0, 0);
        for step in 0..400_000u64 {
            let (time, source) = agenda.pop(NEVER - 1).expect("a hundred events");
            assert!(
                step == 0 || (time, source) > last,
                "{time} {source} after {last:?}"
            );
            last = (time, source);
            let period = if step < 200_000 { 1000 } else { 1_000_000 };
            agenda.set(source, time + period * u64::from(source + 1));
        }
    }

    #[test]
    fn stops_at_the_end() {
        let mut agenda = Agenda::new(2);
        agenda.set(0, 5_000_000_000_000);
        agenda.set(1, 7);
        assert_eq!(agenda.pop(6), None);
        assert_eq!(agenda.pop(7), Some((7, 1)));
        assert_eq!(agenda.pop(4_999_999_999_999), None);
        assert_eq!(agenda.pop(5_000_000_000_000), Some((5_000_000_000_000, 0)));
        assert_eq!(agenda.pop(NEVER - 1), None);
    }
}
