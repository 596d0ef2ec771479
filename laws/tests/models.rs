// SPDX-License-Identifier: GPL-2.0

//! Every law against a second implementation in floating point, on random histories.
//!
//! A history is thousands of ACKs over a random path with a queue that wanders, ACKs in batches,
//! missing RTTs and telemetry, several hops, losses, timeouts and undone losses. Law and model run
//! side by side from the first ACK to the last, each from its own state; the bound on how far their
//! windows may be apart stands beside each test. `FATHOM_CASES` sets the number of histories.

mod model;

use laws::math::ONE_PACKET;
use laws::{
    hpcc, poseidon, swift, theta_powertcp, variable_ai, Ack, Coverage, HopHistory, Hpcc, Int, Law,
    Mpd, Path, Poseidon, PowerTcp, Record, Swift, ThetaPowerTcp, Wrap,
};
use model::{Event, Facts, Model};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::Cell;

const ACKS: usize = 3000;

fn cases() -> ProptestConfig {
    let cases = std::env::var("FATHOM_CASES")
        .ok()
        .and_then(|c| c.parse().ok())
        .unwrap_or(48);
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    }
}

/// A small generator, so that a history is a function of one number.
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }
    fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Telemetry {
    None,
    Mpd,
    Bottleneck,
    Stack,
}

/// A path and what happens on it.
struct History {
    random: Random,
    telemetry: Telemetry,
    path: Path,
    gbps: f64,
    /// Some telemetry is missing, for a while.
    gap: usize,
    now: u64,
    delivered: u32,
    lag: u32,
    queue: f64,
    drift: f64,
    hops: [(f64, f64, f64); 3],
    records: [Record; 3],
    partial: bool,
}

impl History {
    fn new(seed: u64, telemetry: Telemetry) -> Self {
        let mut random = Random(seed);
        let gbps = [1.0, 10.0, 25.0, 100.0, 400.0][(random.next() % 5) as usize];
        let base = random.between(5_000.0, 500_000.0);
        let path = Path {
            line_rate: (gbps * 1e9 / 8.0) as u64,
            base_rtt_ns: base as u32,
            mss: 1448,
            overhead: 90,
            hops: 3,
            clock_ns: 1,
            ..Path::default()
        };
        let mut hops = [(0.0, 0.0, 0.0); 3];
        for hop in &mut hops {
            // Links of different rate.
            *hop = (
                gbps * [1.0, 1.0, 4.0][(random.next() % 3) as usize],
                0.0,
                random.unit() * 1e9,
            );
        }
        Self {
            telemetry,
            path,
            gbps,
            gap: 0,
            now: random.next() >> 20,
            delivered: random.next() as u32,
            lag: 2 + (random.next() % 100) as u32,
            queue: 0.0,
            drift: 0.0,
            hops,
            records: [Record::default(); 3],
            partial: random.chance(0.3),
            random,
        }
    }

    /// The next ACK, with everything but its telemetry.
    fn next(&mut self) -> Ack<'static> {
        let base = f64::from(self.path.base_rtt_ns);
        let r = &mut self.random;
        // Batches, gaps, and now and then an idle time.
        let dt = if r.chance(0.2) {
            0.0
        } else if r.chance(0.002) {
            r.between(0.0, 20_000_000.0)
        } else {
            r.between(0.5, 2.0) * 1538.0 * 8.0 / self.gbps * r.between(1.0, 4.0)
        };
        self.drift = 0.95 * self.drift + r.between(-0.05, 0.05) * base / f64::from(self.lag);
        self.queue = (self.queue + self.drift).clamp(0.0, 3.0 * base);
        // No ACK overtakes another: an RTT falls no faster than time passes.
        self.now += dt as u64;
        let acked = if r.chance(0.3) { 2 } else { 1 };
        self.delivered = self.delivered.wrapping_add(acked);
        if r.chance(0.002) {
            self.lag = 2 + (r.next() % 100) as u32;
        }
        let in_flight = if r.chance(0.05) { self.lag * 2 } else { 2 };
        for (gbps, q, tx) in &mut self.hops {
            let rate = *gbps / 8.0;
            let used = r.between(0.2, 1.0);
            *tx += rate * dt.trunc() * used;
            *q = (self.queue * rate * r.between(0.0, 1.0)).max(0.0);
        }
        Ack {
            now_ns: self.now,
            rtt_ns: if r.chance(0.02) {
                0
            } else {
                (base + self.queue) as u32
            },
            acked,
            delivered: self.delivered,
            prior_delivered: self.delivered.wrapping_sub(self.lag),
            in_flight,
            ce: 0,
            app_limited: r.chance(0.02),
            full_size: r.chance(0.9),
            int: Int::None,
        }
    }

    /// Its telemetry.
    fn int(&mut self) -> Int<'_> {
        if self.gap > 0 {
            self.gap -= 1;
            return Int::None;
        }
        if self.random.chance(0.002) {
            self.gap = (self.random.next() % 400) as usize;
        }
        if self.random.chance(0.02) {
            return Int::None;
        }
        let wrap = match self.telemetry {
            Telemetry::Stack => Wrap::STACK,
            _ => Wrap::BOTTLENECK,
        };
        // An ACK without new data brings the same again.
        let again = self.random.chance(0.01);
        for (i, (record, hop)) in self.records.iter_mut().zip(&self.hops).enumerate() {
            if again {
                break;
            }
            *record = Record {
                hop_id: 10 + i as u32,
                qlen_bytes: (hop.1 as u32) / 80 * 80,
                tx_bytes: (hop.2 as u64 as u32) & wrap.tx_mask,
                ts_ns: (self.now as u32) & wrap.ts_mask,
                inverse_rate: Record::inverse_rate((hop.0 * 1000.0) as u32),
            };
        }
        match self.telemetry {
            Telemetry::None => Int::None,
            Telemetry::Mpd => {
                let share = self.random.between(0.3, 1.0);
                let forward = self.queue * share;
                Int::Mpd(Mpd {
                    forward_ns: (forward as u32) / 64 * 64,
                    backward_ns: ((self.queue - forward) * self.random.unit()) as u32,
                    coverage: if self.partial {
                        Coverage::Partial
                    } else {
                        Coverage::Full
                    },
                })
            }
            Telemetry::Bottleneck => {
                Int::Bottleneck(self.records[(self.random.next() % 3) as usize])
            }
            Telemetry::Stack => {
                // Hops vanish and appear, and one becomes another.
                let hops = if self.random.chance(0.01) {
                    1 + (self.random.next() % 2) as usize
                } else {
                    3
                };
                if self.random.chance(0.005) {
                    self.records[(self.random.next() % 3) as usize].hop_id = 99;
                }
                Int::Stack(&self.records[..hops], wrap)
            }
        }
    }

    fn event(&mut self) -> Option<Event> {
        let r = &mut self.random;
        if r.chance(0.001) {
            Some(Event::Loss)
        } else if r.chance(0.0005) {
            Some(Event::Timeout)
        } else if r.chance(0.005) {
            Some(Event::Recovered)
        } else if r.chance(0.0003) {
            Some(Event::Undo)
        } else {
            None
        }
    }
}

fn facts(path: &Path, min: f64, start: f64) -> Facts {
    Facts {
        tau: f64::from(path.base_rtt_ns),
        host: path.line_rate as f64 / 1e9,
        mss: f64::from(path.mss),
        wire: f64::from(path.wire()),
        hops: f64::from(path.hops),
        min,
        max: f64::from(1u32 << 18),
        start,
    }
}

fn packets<L: Law>(law: &L) -> f64 {
    law.cwnd() as f64 / ONE_PACKET as f64
}

/// Runs both over one history; fails when the windows are ever further apart than `bound` of the
/// window, or of a tenth of a packet for tiny ones. Ends at a tie; says how many ACKs it was.
fn agree<L: Law>(
    config: &L::Config,
    seed: u64,
    telemetry: Telemetry,
    bound: f64,
    model: impl FnOnce(&Path, f64) -> Box<dyn Model>,
) -> Result<usize, TestCaseError> {
    let params = L::prepare(config).expect("a valid configuration");
    let mut history = History::new(seed, telemetry);
    let mut law = L::default();
    let mut hops = HopHistory::default();
    law.start(&params, &history.path, history.now);
    let mut model = model(&history.path, packets(&law));
    for i in 0..ACKS {
        if let Some(event) = history.event() {
            let now = history.now;
            match event {
                Event::Loss => law.on_loss(&params, now),
                Event::Timeout => law.on_timeout(&params, now),
                Event::Recovered => law.on_recovery_exit(&params),
                Event::Undo => law.on_undo(&params),
            }
            model.on_event(event, now as f64);
        }
        let ack = history.next();
        let int = history.int();
        let ack = Ack { int, ..ack };
        law.on_ack(&params, Some(&mut hops), &ack);
        model.on_ack(&ack);
        if model.tie() {
            return Ok(i);
        }
        let (has, should) = (packets(&law), model.cwnd());
        let error = (has - should).abs() / should.max(0.1);
        prop_assert!(
            error <= bound,
            "ACK {i} of history {seed}: the law has {has}, the model {should}; {ack:?}"
        );
        model.resync(has);
    }
    Ok(ACKS)
}

/// Runs many histories; fails also when too few ACKs were compared to mean anything.
fn histories(history: impl Fn(u64) -> Result<usize, TestCaseError>) {
    let (acks, runs) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(cases());
    let result = runner.run(&any::<u64>(), |seed| {
        acks.set(acks.get() + history(seed)?);
        runs.set(runs.get() + 1);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let (acks, runs) = (acks.get(), runs.get());
    println!("{acks} ACKs in {runs} histories");
    assert!(
        acks >= runs * ACKS / 2,
        "only {acks} ACKs in {runs} histories before a tie"
    );
}

fn power_config() -> theta_powertcp::Config {
    theta_powertcp::Config {
        ecn: 0,
        ..Default::default()
    }
}

/// Algorithm 2 of the PowerTCP paper: within 0.1 %.
#[test]
fn theta_powertcp_is_its_model() {
    histories(|seed| {
        agree::<ThetaPowerTcp>(
            &power_config(),
            seed,
            Telemetry::None,
            1e-3,
            |path, start| Box::new(model::Theta::new(facts(path, 0.01, start), 0.9, 10.0)),
        )
    });
}

/// Algorithm 1 of the PowerTCP paper, over a record per hop: within 0.2 %.
#[test]
fn powertcp_over_a_stack_is_its_model() {
    histories(|seed| {
        agree::<PowerTcp>(
            &power_config(),
            seed,
            Telemetry::Stack,
            2e-3,
            |path, start| Box::new(model::PowerTcp::new(facts(path, 0.01, start), 0.9, 10.0)),
        )
    });
}

/// The same over the record of one hop whose id changes: within 0.2 %.
#[test]
fn powertcp_over_a_bottleneck_record_is_its_model() {
    histories(|seed| {
        agree::<PowerTcp>(
            &power_config(),
            seed,
            Telemetry::Bottleneck,
            2e-3,
            |path, start| Box::new(model::PowerTcp::new(facts(path, 0.01, start), 0.9, 10.0)),
        )
    });
}

/// Algorithms 1 and 2 of the Poseidon paper, brownfield included: within 0.5 %.
#[test]
fn poseidon_is_its_model() {
    histories(|seed| {
        let mut random = Random(!seed);
        let p = random.between(20_000.0, 1_000_000.0) as u32;
        let m = random.between(20.0, 1000.0) as u32;
        let config = poseidon::Config {
            p_ns: p,
            k_ns: p / 20,
            m_thousandths: m,
            adapt_m: 0,
            ecn: 0,
            probe_interval_us: 0,
            ..Default::default()
        };
        agree::<Poseidon>(&config, seed, Telemetry::Mpd, 5e-3, |path, start| {
            let max = path.line_rate as f64 / 1e9;
            let f = facts(path, 0.01, start);
            let (p, k) = (f64::from(p), f64::from(p / 20));
            Box::new(model::Poseidon::new(
                f,
                p,
                k,
                f64::from(m) / 1000.0,
                max / 10_000.0,
                max,
            ))
        })
    });
}

fn hpcc_model(path: &Path, start: f64) -> model::Hpcc {
    let f = facts(path, 0.01, start);
    // W_AI is never less than a thousandth of a packet.
    model::Hpcc::new(f, 0.95, 5, (f.bdp() * 0.05 / 100.0).max(1.0 / 1024.0))
}

/// Algorithm 1 of the HPCC paper: within 0.5 %.
#[test]
fn hpcc_is_its_model() {
    let config = hpcc::Config {
        ecn: 0,
        probe_interval_us: 0,
        ..Default::default()
    };
    for telemetry in [Telemetry::Stack, Telemetry::Bottleneck] {
        histories(|seed| {
            agree::<Hpcc>(&config, seed, telemetry, 5e-3, |path, start| {
                Box::new(hpcc_model(path, start))
            })
        });
    }
}

/// HPCC with Variable AI and Sampling Frequency: within 1 %; the reference follows every 30 ACKs,
/// and what a rounding does to it stays.
#[test]
fn hpcc_with_both_mechanisms_is_its_model() {
    let vai = variable_ai::Config {
        enabled: 1,
        ..variable_ai::Config::hpcc()
    };
    let config = hpcc::Config {
        ecn: 0,
        probe_interval_us: 0,
        vai,
        sampling_acks: 30,
        ..Default::default()
    };
    histories(|seed| {
        agree::<Hpcc>(&config, seed, Telemetry::Stack, 1e-2, |path, start| {
            let mut model = hpcc_model(path, start);
            model.vai = Some(model::VariableAi::new(50_000.0, 1000.0));
            model.sampling = 30;
            Box::new(model)
        })
    });
}

/// A base target a little or a lot above the base RTT of the history's path.
fn base_target_ns(seed: u64) -> u32 {
    let base = f64::from(History::new(seed, Telemetry::None).path.base_rtt_ns);
    (base * Random(!seed).between(1.05, 2.0)) as u32
}

/// Algorithm 1 of the Swift paper: within 0.5 %.
#[test]
fn swift_is_its_model() {
    histories(|seed| {
        let base_target_ns = base_target_ns(seed);
        let config = swift::Config {
            base_target_ns,
            ecn: 0,
            ..Default::default()
        };
        agree::<Swift>(&config, seed, Telemetry::None, 5e-3, |path, start| {
            Box::new(model::Swift::new(
                facts(path, 0.01, start),
                f64::from(base_target_ns),
            ))
        })
    });
}

/// Swift with Variable AI and Sampling Frequency: within 0.5 %.
#[test]
fn swift_with_both_mechanisms_is_its_model() {
    let vai = variable_ai::Config {
        enabled: 1,
        ..variable_ai::Config::swift()
    };
    histories(|seed| {
        let base_target_ns = base_target_ns(seed);
        let config = swift::Config {
            base_target_ns,
            ecn: 0,
            fs_range_ns: 0,
            vai,
            sampling_acks: 30,
            ..Default::default()
        };
        agree::<Swift>(&config, seed, Telemetry::None, 5e-3, |path, start| {
            let f = facts(path, 0.01, start);
            let mut model = model::Swift::new(f, f64::from(base_target_ns));
            model.fs_range = 0.0;
            model.vai = Some(model::VariableAi::new(4000.0, 30.0));
            model.sampling = 30;
            Box::new(model)
        })
    });
}
