// SPDX-License-Identifier: GPL-2.0

//! What a history says of hops, against a second one that keeps each place by itself.
//!
//! The history takes a stack from the same hops as the last one in one go, with one time for all of
//! them; the reference knows nothing of that. Stacks and bottleneck records come mixed, with hops that
//! vanish, repeat themselves, overtake, change their id or rate, or say nothing, and with long gaps.

use laws::hop::Interval;
use laws::law::MAX_HOPS;
use laws::{HopHistory, Record, Wrap};
use proptest::prelude::*;

/// Half a period of a hop's clock: what is further apart cannot be compared.
const HALF: u64 = (1 << 23) - 1;
/// The time of a stack may be that of the one before: so near to half a period both answers are right.
const MARGIN: u64 = 2_000_000;

/// The last record of each place and when it came, on a clock that does not wrap.
#[derive(Default)]
struct Reference([Option<(Record, u64)>; MAX_HOPS]);

impl Reference {
    /// What happened at `place`, and how long ago its last record came.
    fn take(&mut self, place: usize, r: &Record, wrap: Wrap, now: u64) -> Option<(Interval, u64)> {
        if r.inverse_rate == 0 {
            return None;
        }
        let mut found = None;
        if let Some((last, seen)) = self.0[place] {
            let dt = r.ts_ns.wrapping_sub(last.ts_ns) & wrap.ts_mask;
            if last.hop_id == r.hop_id && last.inverse_rate == r.inverse_rate {
                if dt == 0 {
                    return None;
                }
                if u64::from(dt) <= HALF && now - seen < HALF {
                    let interval = Interval {
                        dt_ns: dt.try_into().unwrap(),
                        tx_bytes: r.tx_bytes.wrapping_sub(last.tx_bytes) & wrap.tx_mask,
                        qlen_bytes: r.qlen_bytes,
                        prev_qlen_bytes: last.qlen_bytes,
                        inverse_rate: r.inverse_rate,
                    };
                    found = Some((interval, now - seen));
                }
            }
        }
        self.0[place] = Some((*r, now));
        found
    }
}

/// Numbers from one seed.
struct Random(u64);

impl Random {
    /// Below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ (z >> 29)) % n
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

fn stack(hops: &mut HopHistory, records: &[Record], wrap: Wrap, now: u64) -> Vec<Interval> {
    hops.stack(records, wrap, now as u32, |mut all: Vec<Interval>, i| {
        all.push(*i);
        all
    })
}

/// How many intervals of a stack were found in all; fails when a history and its reference differ.
fn run(seed: u64) -> usize {
    let mut random = Random(seed);
    let (mut hops, mut reference) = (HopHistory::default(), Reference::default());
    let mut records = [Record::default(); MAX_HOPS + 2];
    for (id, record) in (1..).zip(&mut records) {
        record.hop_id = id;
        record.inverse_rate = Record::inverse_rate(10_000);
    }
    let mut now = random.below(1 << 40);
    let mut usual = 1 + random.below(records.len() as u64) as usize;
    let (mut repeats, mut total) = (0, 0);
    for _ in 0..2000 {
        now += if random.one_in(100) {
            9_000_000 + random.below(30_000_000)
        } else {
            1 + random.below(500_000)
        };
        if repeats > 0 {
            repeats -= 1;
        } else if random.one_in(100) {
            // Long enough for a hop's clock to wrap.
            repeats = random.below(60);
        } else {
            let wrap = Wrap::STACK;
            for record in &mut records {
                let fate = random.below(100);
                if fate == 0 {
                    record.hop_id ^= 64;
                } else if fate == 1 {
                    record.inverse_rate ^= 1;
                }
                if fate == 2 {
                    continue;
                }
                let late = if fate == 3 { 700_000 } else { 0 };
                record.ts_ns = (now - late) as u32 & wrap.ts_mask;
                record.tx_bytes = random.below(1 << 27) as u32;
                record.qlen_bytes = random.below(1 << 20) as u32;
            }
        }
        if random.one_in(200) {
            usual = random.below(records.len() as u64 + 1) as usize;
        }
        let count = if random.one_in(50) { 1 } else { usual };
        let mut shown = records;
        if random.one_in(100) {
            shown[0].inverse_rate = 0;
        }
        let shown = &shown[..count];
        // Now and then a format of which nothing is known beforehand.
        let wrap = if random.one_in(50) {
            Wrap::BOTTLENECK
        } else {
            Wrap::STACK
        };
        let found = stack(&mut hops, shown, wrap, now);
        total += found.len();
        let mut found = found.iter().peekable();
        for (place, record) in shown.iter().enumerate().take(MAX_HOPS) {
            let expected = reference.take(place, record, wrap, now);
            match expected {
                Some((interval, _)) if found.peek() == Some(&&interval) => {
                    found.next();
                }
                Some((interval, gap)) => assert!(
                    gap > HALF - MARGIN,
                    "seed {seed}: place {place} of {count}: {interval:?} after {gap} ns is missing"
                ),
                None => {}
            }
        }
        assert_eq!(found.next(), None, "seed {seed}: cannot be compared");
    }
    total
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn a_stack_is_compared_place_by_place(seed: u64) {
        prop_assert!(run(seed) > 200);
    }
}

fn records(count: u32, at_ns: u32) -> Vec<Record> {
    (0..count)
        .map(|id| Record {
            qlen_bytes: 100 * id,
            tx_bytes: (at_ns + id) & Wrap::STACK.tx_mask,
            ts_ns: at_ns & Wrap::STACK.ts_mask,
            inverse_rate: Record::inverse_rate(10_000),
            hop_id: id,
        })
        .collect()
}

#[test]
fn what_is_repeated_does_not_become_newer() {
    let mut hops = HopHistory::default();
    for ns in [0, 1000, 2000] {
        stack(&mut hops, &records(3, ns), Wrap::STACK, u64::from(ns));
    }
    // The same records for 20 ms; the hops' clocks wrap after 17.
    for ms in 1..=20 {
        let found = stack(&mut hops, &records(3, 2000), Wrap::STACK, ms * 1_000_000);
        assert_eq!(found.len(), 0, "{ms} ms");
    }
    let now = 20_001_000;
    let found = stack(&mut hops, &records(3, now), Wrap::STACK, u64::from(now));
    assert_eq!(found.len(), 0, "20 ms look like 3");
    let now = now + 1000;
    let found = stack(&mut hops, &records(3, now), Wrap::STACK, u64::from(now));
    assert_eq!(found.len(), 3);
}

#[test]
fn a_stack_and_a_bottleneck_share_the_places() {
    for count in 1..=MAX_HOPS as u32 {
        let mut hops = HopHistory::default();
        for ns in [0, 1000, 2000] {
            stack(&mut hops, &records(count, ns), Wrap::STACK, u64::from(ns));
        }
        let last = records(count, 3000)[count as usize - 1];
        let interval = hops.bottleneck(&last, 3000).expect("the place is known");
        assert_eq!((interval.dt_ns.get(), interval.tx_bytes), (1000, 1000));
        let found = stack(&mut hops, &records(count, 4000), Wrap::STACK, 4000);
        let dt: Vec<u32> = found.iter().map(|i| i.dt_ns.get()).collect();
        let mut expected = vec![2000; count as usize];
        expected[count as usize - 1] = 1000;
        assert_eq!(dt, expected);
    }
}

#[test]
fn a_place_left_alone_keeps_its_time() {
    let mut hops = HopHistory::default();
    for ns in [0, 1000, 2000] {
        stack(&mut hops, &records(8, ns), Wrap::STACK, u64::from(ns));
    }
    // The path is one of two hops for 20 ms, and then one of eight again.
    let mut now = 2000;
    for _ in 0..20 {
        now += 1_000_000;
        let found = stack(&mut hops, &records(2, now), Wrap::STACK, u64::from(now));
        assert_eq!(found.len(), 2);
    }
    now += 1000;
    let found = stack(&mut hops, &records(8, now), Wrap::STACK, u64::from(now));
    assert_eq!(found.len(), 2, "the others' clocks have wrapped");
}
