// SPDX-License-Identifier: GPL-2.0

//! CoDel against a model in floating point, and the table of reverse path marking.

use proptest::prelude::*;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use wire::codel::{spacing, Codel, Leaving, Params, MAX_INTERVAL_NS};
use wire::rpm::{flag, may_carry, size_is_valid, speaks_ecn, Flow, Table, MAX_COUNT};

const US: u64 = 1000;
const MS: u64 = 1000 * US;
const RPM_PAPER: Params = Params {
    target_ns: MS,
    interval_ns: 20 * MS,
};

fn leaving(now_ns: u64, waited_ns: u64) -> Leaving {
    Leaving {
        now_ns,
        waited_ns,
        left_bytes: 100_000,
        max_packet: 1514,
    }
}

#[test]
fn the_first_choice_comes_an_interval_after_the_queue_turned_bad_and_the_next_by_the_law() {
    let mut codel = Codel::default();
    let mut at = Vec::new();
    for now in (0..400 * MS).step_by(US as usize) {
        if codel.choose(&RPM_PAPER, &leaving(now, 2 * MS)) {
            at.push(now);
        }
    }
    // 20 ms after the start, then sums of 20 ms / sqrt(n), each rounded up to the next packet.
    let mut due = 20e6;
    for (n, &got) in at.iter().enumerate() {
        let late = got as f64 - due;
        assert!(
            (-(n as f64) - 1.0..1000.0).contains(&late),
            "choice {n} at {got}, due {due}"
        );
        due += 20e6 / ((n + 1) as f64).sqrt();
    }
    assert!(due > 400e6, "a choice was due at {due} and did not come");
    assert_eq!(codel.count() as usize, at.len());
}

#[test]
fn a_good_packet_ends_it_and_a_bad_queue_soon_after_goes_on_where_it_stopped() {
    let mut codel = Codel::default();
    let mut run = |from: u64, ms: u64, waited| {
        (from * 1000..(from + ms) * 1000)
            .filter(|us| codel.choose(&RPM_PAPER, &leaving(us * US, waited)))
            .count()
    };
    let first = run(0, 100, 2 * MS);
    assert_eq!(first, 7, "20, 40, 54.1, 65.7, 75.7, 84.6, 92.8 ms");
    assert_eq!(run(100, 1, MS - 1), 0);
    // Bad from 101 ms; first choice at 121 ms, and the count is what the last time added: 6.
    // 20 ms / sqrt(6) later the next.
    assert_eq!(run(101, 28, 2 * MS), 1);
    assert_eq!(run(129, 1, 2 * MS), 1);
    assert_eq!(run(130, 1000, 0), 0);
    // After 16 intervals all is forgotten: 20 ms, 40 ms.
    assert_eq!(run(2000, 41, 2 * MS), 2);
    assert_eq!(codel.count(), 2);
}

#[test]
fn a_queue_of_one_packet_is_no_queue_and_the_target_itself_is_too_long() {
    let chosen = |packet: Leaving| {
        let mut codel = Codel::default();
        (0..100_000).any(|us| {
            codel.choose(
                &RPM_PAPER,
                &Leaving {
                    now_ns: us * US,
                    ..packet
                },
            )
        })
    };
    assert!(chosen(leaving(0, MS)));
    assert!(!chosen(leaving(0, MS - 1)));
    let left = |left_bytes| Leaving {
        left_bytes,
        ..leaving(0, MS)
    };
    assert!(!chosen(left(1514)));
    assert!(chosen(left(1515)));
}

/// RFC 8289's pseudo-code, for a queue that is asked once per packet, in floating point and seconds.
#[derive(Default)]
struct Model {
    first_above: Option<f64>,
    next: f64,
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl Model {
    fn choose(&mut self, p: &Params, l: &Leaving) -> bool {
        let (now, interval) = (l.now_ns as f64, p.interval_ns as f64);
        let law = |t: f64, count: u32| t + (interval / f64::from(count).sqrt()).floor().max(1.0);
        let good = l.waited_ns < p.target_ns || l.left_bytes <= l.max_packet;
        let ok = if good {
            self.first_above = None;
            false
        } else {
            now >= *self.first_above.get_or_insert(now + interval)
        };
        if self.dropping {
            if !ok {
                self.dropping = false;
            } else if now >= self.next {
                self.count += 1;
                self.next = law(self.next, self.count);
                return true;
            }
            return false;
        }
        if ok {
            self.dropping = true;
            let delta = self.count - self.last_count;
            self.count = if delta > 1 && now - self.next < 16.0 * interval {
                delta
            } else {
                1
            };
            self.last_count = self.count;
            self.next = law(now, self.count);
        }
        ok
    }
}

proptest! {
    #[test]
    fn codel_is_the_model(
        interval_us in 1u64..2_000,
        target_us in 0u64..200,
        packets in proptest::collection::vec((1u64..100_000, 0u64..400_000, 0u32..8_000), 1..3_000),
        sticky in 1usize..200,
    ) {
        let params = Params { target_ns: target_us * US, interval_ns: interval_us * US };
        let (mut codel, mut model) = (Codel::default(), Model::default());
        let mut now_ns = 1;
        for (i, &(gap, ..)) in packets.iter().enumerate() {
            now_ns += gap;
            // Queues stay what they are for a while.
            let (_, waited_ns, left_bytes) = packets[i / sticky];
            let packet = Leaving { now_ns, waited_ns, left_bytes, max_packet: 1514 };
            prop_assert_eq!(codel.choose(&params, &packet), model.choose(&params, &packet), "packet {}", i);
        }
    }

    #[test]
    fn spacing_is_exact(interval in 0u64..=MAX_INTERVAL_NS, count in 1u32..) {
        let s = u128::from(spacing(interval, count));
        let square = u128::from(interval) * u128::from(interval);
        let n = u128::from(count);
        prop_assert!(s * s * n <= square || s == 1);
        prop_assert!((s + 1) * (s + 1) * n > square);
    }

    #[test]
    fn any_history_is_survived(
        steps in proptest::collection::vec(any::<(u64, u64, u32, u32)>(), 0..100),
        target_ns: u64, interval_ns: u64,
    ) {
        let mut codel = Codel::default();
        for (now_ns, waited_ns, left_bytes, max_packet) in steps {
            let packet = Leaving { now_ns, waited_ns, left_bytes, max_packet };
            let chosen = codel.choose(&Params { target_ns, interval_ns }, &packet);
            prop_assert!(!chosen || codel.count() > 0);
        }
    }

    #[test]
    fn marks_are_neither_lost_nor_added(steps in proptest::collection::vec((any::<bool>(), 0u16..40), 0..500)) {
        let slots: Vec<AtomicI32> = (0..16).map(|_| AtomicI32::new(0)).collect();
        let table = Table::new(&slots).expect("sixteen");
        let (mut counted, mut taken) = (0, 0);
        for (count, port) in steps {
            let flow = v4(port);
            let before = table.pending(&flow);
            if count {
                let ok = table.count(&flow);
                prop_assert_eq!(ok, before < MAX_COUNT as u32);
                counted += i32::from(ok);
            } else {
                let ok = table.take(&flow.reverse());
                prop_assert_eq!(ok, before > 0);
                taken += i32::from(ok);
            }
        }
        prop_assert_eq!(slots.iter().map(|s| s.load(Relaxed)).sum::<i32>(), counted - taken);
    }
}

fn v4(sport: u16) -> Flow {
    Flow::V4 {
        src: [10, 0, 0, 1],
        dst: [10, 0, 1, 2],
        sport,
        dport: 5001,
    }
}

#[test]
fn the_hash_is_the_crc_of_ethernet_over_the_tuple() {
    // Computed with zlib: crc32(0a000001 0a000102 06 1388 1389), and of the IPv6 tuple below.
    assert_eq!(v4(5000).hash(), V4_CRC);
    let mut src = [0; 16];
    (src[0], src[1], src[15]) = (0xfd, 0, 1);
    let dst = [0xfe; 16];
    let v6 = Flow::V6 {
        src,
        dst,
        sport: 443,
        dport: 50_000,
    };
    assert_eq!(v6.hash(), V6_CRC);
    assert_eq!(v6.reverse().reverse(), v6);
    assert_ne!(v6.reverse().hash(), v6.hash());
}
const V4_CRC: u32 = 0x7339_5644;
const V6_CRC: u32 = 0x5657_bcc0;

#[test]
fn an_ack_takes_the_mark_of_the_other_direction_only() {
    let slots: Vec<AtomicI32> = (0..1024).map(|_| AtomicI32::new(0)).collect();
    let table = Table::new(&slots).expect("a power of two");
    let flow = v4(1);
    assert!(table.count(&flow) && table.count(&flow));
    assert!(!table.take(&flow), "the flow's own data");
    assert!(table.take(&flow.reverse()) && table.take(&flow.reverse()));
    assert!(!table.take(&flow.reverse()), "there were two");
    for n in 0..40 {
        assert_eq!(table.count(&flow), n < MAX_COUNT);
    }
}

#[test]
fn ports_that_race_lose_no_mark() {
    let slots: Vec<AtomicI32> = (0..16).map(|_| AtomicI32::new(0)).collect();
    let table = Table::new(&slots).expect("sixteen");
    let (counted, taken) = (AtomicI32::new(0), AtomicI32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..100_000 {
                    counted.fetch_add(table.count(&v4(1)).into(), Relaxed);
                }
            });
            scope.spawn(|| {
                for _ in 0..100_000 {
                    taken.fetch_add(table.take(&v4(1).reverse()).into(), Relaxed);
                }
            });
        }
    });
    let left = counted.into_inner() - taken.into_inner();
    assert_eq!(left, slots.iter().map(|s| s.load(Relaxed)).sum::<i32>());
    assert!((0..=MAX_COUNT + 1).contains(&left));
}

#[test]
fn what_may_carry_a_mark() {
    assert!(may_carry(0x80, flag::ACK));
    assert!(may_carry(0x80, flag::ACK | flag::ECE | 0x08));
    for (byte12, flags) in [
        (0x80, flag::SYN),
        (0x80, flag::SYN | flag::ACK),
        (0x80, flag::RST | flag::ACK),
        (0x80, 0),
        (0x81, flag::ACK),
    ] {
        assert!(!may_carry(byte12, flags), "{byte12:x} {flags:x}");
    }
    assert_eq!([0, 1, 2, 3].map(speaks_ecn), [false, true, true, true]);
    assert_eq!(
        [0, 1, 8, 16, 24, 1 << 20, 1 << 21, u64::MAX].map(size_is_valid),
        [false, false, false, true, false, true, false, false]
    );
}
