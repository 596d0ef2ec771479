// SPDX-License-Identifier: GPL-2.0

//! [`Law::quick_ack`] decides what [`Law::any_ack`] decides, or touches nothing.

use laws::{
    Ack, Coverage, HopHistory, Hpcc, Int, Law, Mpd, Path, Poseidon, PowerTcp, Record, Swift,
    ThetaPowerTcp,
};
use std::fmt::Debug;

/// Numbers without a pattern: xorshift64*.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % n
    }

    fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Flows of one law, each with its own path, over ACKs of which most are ordinary.
fn same<L: Law + Debug>(config: &L::Config, telemetry: impl Fn(Record, bool) -> Int<'static>) {
    let params = L::prepare(config).expect("valid");
    let (mut quick, mut all) = (0, 0);
    for seed in 1..16 {
        let mut dice = Dice(seed);
        let base_ns = 5000 + dice.below(200_000) as u32;
        let path = Path {
            line_rate: 125_000_000,
            base_rtt_ns: if dice.once_in(3) { base_ns } else { 0 },
            clock_ns: 1000,
            mss: 1448,
            overhead: 90,
            ..Path::default()
        };
        let mut law = L::default();
        law.start(&params, &path, 0);
        let mut hops = HopHistory::default();
        let mut now_ns = 1 << 32;
        let (mut delivered, mut queue_ns) = (0u32, 0);
        let mut record = Record {
            inverse_rate: Record::inverse_rate(1000),
            ..Record::default()
        };
        for _ in 0..800 {
            let gap_ns = if dice.once_in(200) { 1 << 25 } else { 12_000 };
            now_ns += gap_ns;
            delivered = delivered.wrapping_add(1);
            queue_ns = (queue_ns + dice.below(5001) as u32)
                .saturating_sub(2500)
                .min(90_000);
            record.ts_ns = record.ts_ns.wrapping_add(gap_ns as u32) & 0xff_ffff;
            record.tx_bytes = record.tx_bytes.wrapping_add(dice.below(3000) as u32) & 0x3fff_ffff;
            record.qlen_bytes = queue_ns / 8;
            record.hop_id = dice.once_in(50).into();
            let rtt_ns = base_ns + queue_ns + dice.below(300) as u32;
            let ack = Ack {
                now_ns,
                rtt_ns: if dice.once_in(50) { 0 } else { rtt_ns },
                acked: 1 + dice.once_in(20) as u32,
                delivered,
                prior_delivered: delivered.wrapping_sub(30),
                in_flight: if dice.once_in(20) { 300 } else { 2 },
                ce: dice.once_in(60).into(),
                app_limited: dice.once_in(15),
                full_size: !dice.once_in(5),
                int: if dice.once_in(20) {
                    Int::None
                } else {
                    telemetry(record, !dice.once_in(9))
                },
            };
            let (mut other, mut other_hops) = (law, hops);
            let (law_before, hops_before) = (format!("{law:?}"), format!("{hops:?}"));
            let expected = other.any_ack(&params, Some(&mut other_hops), &ack);
            // What is not to be asked is wrong.
            let blind = Ack {
                full_size: !ack.full_size,
                ..ack
            };
            all += 1;
            match law.quick_ack(&params, Some(&mut hops), &blind, || ack.full_size) {
                Some(changed) => {
                    quick += 1;
                    assert_eq!(changed, expected, "flow {seed}");
                }
                None => {
                    assert_eq!(format!("{law:?}"), law_before, "flow {seed} was touched");
                    assert_eq!(
                        format!("{hops:?}"),
                        hops_before,
                        "flow {seed}: hops were touched"
                    );
                    (law, hops) = (other, other_hops);
                }
            }
            assert_eq!(format!("{law:?}"), format!("{other:?}"), "flow {seed}");
            assert_eq!(
                format!("{hops:?}"),
                format!("{other_hops:?}"),
                "flow {seed}"
            );
            match dice.below(500) {
                0 => law.on_loss(&params, now_ns),
                1 => law.on_timeout(&params, now_ns),
                2 => law.on_undo(&params),
                3 => law.on_recovery_exit(&params),
                4 => law.on_idle_restart(&params, now_ns),
                _ => {}
            }
        }
    }
    assert!(quick * 4 > all, "{quick} of {all} were quick");
}

fn none(_: Record, _: bool) -> Int<'static> {
    Int::None
}

fn mpd(record: Record, full: bool) -> Int<'static> {
    Int::Mpd(Mpd {
        forward_ns: record.qlen_bytes * 8,
        backward_ns: 100,
        coverage: if full {
            Coverage::Full
        } else {
            Coverage::Partial
        },
    })
}

fn bottleneck(record: Record, _: bool) -> Int<'static> {
    Int::Bottleneck(record)
}

#[test]
fn poseidon() {
    same::<Poseidon>(&Default::default(), mpd);
    same::<Poseidon>(&Default::default(), none);
}

#[test]
fn theta_powertcp() {
    same::<ThetaPowerTcp>(&Default::default(), none);
}

#[test]
fn powertcp() {
    same::<PowerTcp>(&Default::default(), bottleneck);
}

#[test]
fn hpcc() {
    same::<Hpcc>(&Default::default(), bottleneck);
}

#[test]
fn swift() {
    same::<Swift>(&Default::default(), none);
}
