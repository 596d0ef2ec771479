// SPDX-License-Identifier: GPL-2.0

//! Poseidon: its equations, its theorem, its parameters, and the direction of m.

mod model;
mod net;

use laws::derive::Target;
use laws::math::ONE_PACKET;
use laws::poseidon::Config;
use laws::{Ack, Coverage, Int, Law, Mpd, Path, Poseidon};
use net::{bytes_per_s, Net, Telemetry, WIRE};
use proptest::prelude::*;

type Sea = Net<Poseidon>;
type Params = <Poseidon as Law>::Params;

fn packets(law: &Poseidon) -> f64 {
    law.cwnd() as f64 / ONE_PACKET as f64
}

/// One flow with a window of 64 packets, and an RTT of its choice: its base RTT is no bound.
fn long_flow(config: &Config, gbps: f64) -> (Poseidon, Params) {
    flow_with(config, gbps, 1_000_000_000)
}

/// One flow with a window of 64 packets and a base RTT of 10 us.
fn flow(config: &Config, gbps: f64) -> (Poseidon, Params) {
    flow_with(config, gbps, 10_000)
}

fn flow_with(config: &Config, gbps: f64, base_rtt_ns: u32) -> (Poseidon, Params) {
    let config = Config {
        initial_cwnd_packets: 64,
        adapt_m: 0,
        ..*config
    };
    let params = Poseidon::prepare(&config).expect("valid");
    let path = Path {
        line_rate: bytes_per_s(gbps),
        base_rtt_ns,
        mss: 1448,
        overhead: 90,
        ..Path::default()
    };
    let mut law = Poseidon::default();
    law.start(&params, &path, 1 << 40);
    (law, params)
}

/// An ACK for a whole window, so that line 5 of Algorithm 1 multiplies the window by U.
fn window_acked(rtt_ns: u32, mpd_ns: u32) -> Ack<'static> {
    Ack {
        now_ns: (1 << 40) + 1_000_000_000,
        rtt_ns,
        acked: 64,
        delivered: 64,
        prior_delivered: 0,
        full_size: true,
        int: Int::Mpd(Mpd {
            forward_ns: mpd_ns,
            backward_ns: 0,
            coverage: Coverage::Full,
        }),
        ..Ack::default()
    }
}

/// U of a flow at `rate` (Gbit/s) that sees a delay, from the window before and after.
fn u(config: &Config, gbps: f64, rate: f64, mpd_ns: u32) -> f64 {
    let (mut law, params) = long_flow(config, gbps);
    let rtt_ns = 64.0 * WIRE as f64 * 8.0 / rate;
    law.on_ack(&params, None, &window_acked(rtt_ns as u32, mpd_ns));
    packets(&law) / 64.0
}

/// Wide bounds, so that the equations show and not min_md or max_mi.
fn unbounded(m: u32) -> Config {
    Config {
        p_ns: 100_000,
        k_ns: 5000,
        m_thousandths: m,
        min_md_thousandths: 10,
        max_mi_thousandths: 100_000,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        max_global_rejects: 100_000,
        ..ProptestConfig::with_cases(2000)
    })]

    /// Eq. 1: a flow grows exactly when the delay is at or below its target.
    #[test]
    fn eq_1(log_rate in -6.0f64..0.0, delay_ns in 0u32..200_000, m in 50u32..1900) {
        let config = unbounded(m);
        let rate = 10.0 * log_rate.exp();
        let model = reference(&config, 10.0);
        // The rate as the law has it: an RTT is a whole number of ns.
        let rtt = (64.0 * WIRE as f64 * 8.0 / rate).floor();
        let target = model.target(64.0 * WIRE as f64 / rtt);
        let u = u(&config, 10.0, rate, delay_ns);
        // Within a ns of the target the two are equal.
        if f64::from(delay_ns) < target - 2.0 {
            prop_assert!(u >= 1.0, "below the target {target}: {u}");
        } else if f64::from(delay_ns) > target + 2.0 {
            prop_assert!(u < 1.0, "above the target {target}: {u}");
        }
    }

    /// Eq. 2: of two flows a < b at one hop, a²/b² < U(b)/U(a) < 1, whatever the delay. Also Eq.
    /// 11: the ratio is (a/b)^m.
    #[test]
    fn eq_2(la in -6.0f64..-0.1, gap in 0.05f64..2.0, delay_ns in 0u32..150_000, m in 50u32..1900) {
        let config = unbounded(m);
        let (a, b) = (10.0 * la.exp(), 10.0 * (la + gap).min(0.0).exp());
        prop_assume!(b / a > 1.04);
        let (ua, ub) = (u(&config, 10.0, a, delay_ns), u(&config, 10.0, b, delay_ns));
        // The law bounds U; there Eq. 2 holds with equality and says nothing.
        prop_assume!(ua > 0.011 && ub > 0.011 && ua < 90.0 && ub < 90.0);
        let ratio = ub / ua;
        prop_assert!(ratio < 1.0 && ratio > (a / b).powi(2), "U(b)/U(a) = {ratio}");
        let exact = (a / b).powf(f64::from(m) / 1000.0);
        prop_assert!((ratio / exact - 1.0).abs() < 2e-3, "{ratio}, not {exact}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(if cfg!(debug_assertions) { 12 } else { 200 })
    })]

    /// Theorem 1: on any topology, with any flows, Poseidon comes to the max-min fair allocation.
    #[test]
    fn theorem_1(seed: u64) {
        let mut fluid = Fluid::random(seed);
        let fair = fluid.max_min();
        let rates = fluid.run(cfg!(debug_assertions));
        for (i, (rate, fair)) in rates.iter().zip(&fair).enumerate() {
            prop_assert!(
                (rate / fair - 1.0).abs() < 0.12,
                "flow {i} of topology {seed} has {rate:.3}, its share is {fair:.3}: {rates:.3?} {fair:.3?}"
            );
        }
    }
}

fn reference(config: &Config, gbps: f64) -> model::Poseidon {
    let facts = model::Facts {
        tau: 10_000.0,
        host: gbps / 8.0,
        mss: 1448.0,
        wire: WIRE as f64,
        hops: 0.0,
        min: 0.01,
        max: 1e5,
        start: 64.0,
    };
    let (p, k) = (f64::from(config.p_ns), f64::from(config.k_ns));
    let m = f64::from(config.m_thousandths) / 1000.0;
    model::Poseidon::new(facts, p, k, m, gbps / 8.0 / 10_000.0, gbps / 8.0)
}

/// Links that delay in proportion to what waits, and the law itself at the ends. Time goes in steps
/// of a twentieth of a base RTT.
struct Fluid {
    gbps: f64,
    flows: Vec<Vec<usize>>,
    links: usize,
}

impl Fluid {
    fn random(seed: u64) -> Self {
        let mut state = seed | 1;
        let mut next = |n: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) as usize % n
        };
        let links = 2 + next(5);
        let flows = (0..3 + next(10))
            .map(|_| {
                let mut path: Vec<usize> = (0..1 + next(3)).map(|_| next(links)).collect();
                path.sort_unstable();
                path.dedup();
                path
            })
            .collect();
        Self {
            gbps: 25.0,
            flows,
            links,
        }
    }

    /// Water filling: shares of a link's rate.
    fn max_min(&self) -> Vec<f64> {
        let mut share = vec![f64::NAN; self.flows.len()];
        let mut left = vec![1.0; self.links];
        loop {
            let open = |link: usize, share: &[f64]| -> Vec<usize> {
                let flows = self.flows.iter().enumerate().zip(share);
                flows
                    .filter(|((_, path), share)| share.is_nan() && path.contains(&link))
                    .map(|((f, _), _)| f)
                    .collect()
            };
            let tightest = left
                .iter()
                .enumerate()
                .map(|(link, left)| (left / open(link, &share).len() as f64, link))
                .filter(|(each, _)| each.is_finite())
                .min_by(|a, b| a.0.total_cmp(&b.0));
            let Some((each, link)) = tightest else {
                return share;
            };
            for f in open(link, &share) {
                share[f] = each;
                for &l in &self.flows[f] {
                    left[l] -= each;
                }
            }
        }
    }

    fn run(&mut self, short: bool) -> Vec<f64> {
        let base_ns = 30_000.0;
        let config = Config {
            base_rtt_us: 30,
            ..Config::default()
        };
        let params = Poseidon::prepare(&config).expect("valid");
        let path = Path {
            line_rate: bytes_per_s(self.gbps),
            base_rtt_ns: base_ns as u32,
            mss: 1448,
            overhead: 90,
            ..Path::default()
        };
        // (law, packets sent and not yet counted as acknowledged, delivered, rate)
        let mut ends: Vec<(Poseidon, f64, u32)> = self
            .flows
            .iter()
            .map(|_| {
                let mut law = Poseidon::default();
                law.start(&params, &path, 0);
                (law, 0.0, 0)
            })
            .collect();
        let mut delay_ns = vec![0.0f64; self.links];
        let packet_ns = WIRE as f64 * 8.0 / self.gbps;
        let dt = base_ns / 20.0;
        let steps = if short { 12_000 } else { 20_000 };
        let mut mean = vec![0.0; self.flows.len()];
        for step in 0..steps {
            let now = (step as f64 * dt) as u64;
            let mut load = vec![0.0; self.links];
            for ((law, owed, delivered), path) in ends.iter_mut().zip(&self.flows) {
                let queues: f64 = path.iter().map(|&l| delay_ns[l]).sum();
                let rtt = base_ns + queues;
                let rate = (packets(law) / rtt).min(1.0 / packet_ns);
                for &l in path {
                    load[l] += rate * packet_ns;
                }
                *owed += rate * dt;
                let acked = owed.floor() as u32;
                if acked > 0 {
                    *owed -= f64::from(acked);
                    *delivered += acked;
                    let lag = packets(law).ceil() as u32;
                    let mpd = path.iter().map(|&l| delay_ns[l]).fold(0.0, f64::max);
                    let ack = Ack {
                        now_ns: now,
                        rtt_ns: rtt as u32,
                        acked,
                        delivered: *delivered,
                        prior_delivered: delivered.wrapping_sub(lag),
                        full_size: true,
                        int: Int::Mpd(Mpd {
                            forward_ns: mpd as u32,
                            backward_ns: 0,
                            coverage: Coverage::Full,
                        }),
                        ..Ack::default()
                    };
                    law.on_ack(&params, None, &ack);
                }
            }
            for (delay, load) in delay_ns.iter_mut().zip(&load) {
                *delay = (*delay + (load - 1.0) * dt).max(0.0);
            }
            if step >= steps * 3 / 4 {
                for ((mean, (law, ..)), path) in mean.iter_mut().zip(&ends).zip(&self.flows) {
                    let queues: f64 = path.iter().map(|&l| delay_ns[l]).sum();
                    *mean += (packets(law) / (base_ns + queues) * packet_ns).min(1.0);
                }
            }
        }
        mean.iter().map(|m| m / (steps / 4) as f64).collect()
    }
}

/// A flow alone on its host's link: the queue stands in the host, where no hop writes, every hop says that
/// it is empty, and the RTT follows the window. It ends at the delay that a thousandth of the rate tolerates.
#[test]
fn a_queue_that_nobody_shows_is_bounded() {
    let (p_ns, k_ns, tau_ns) = (100_000.0, 5000.0, 10_000.0);
    let (mut law, params) = flow(&unbounded(250), 10.0);
    let packet_ns = WIRE as f64 * 0.8;
    for ack in 0..100_000u32 {
        let rtt_ns = (packets(&law) * packet_ns).max(tau_ns);
        law.on_ack(
            &params,
            None,
            &Ack {
                now_ns: (1 << 40) + u64::from(ack) * packet_ns as u64,
                acked: 1,
                delivered: ack,
                prior_delivered: ack.saturating_sub(64),
                ..window_acked(rtt_ns as u32, 0)
            },
        );
    }
    let most = (tau_ns + 0.75 * p_ns + k_ns) / packet_ns;
    let ratio = packets(&law) / most;
    assert!((0.99..1.001).contains(&ratio), "{ratio} of {most} packets");
}

/// Eq. 5, and the sentences of §3.3 and §5.6.2 that contradict it: rounds until a flow that starts
/// at a hundredth of its target rate is within 5 % of it, for each m.
#[test]
fn larger_m_is_faster() {
    let rounds = |m: u32| {
        let config = unbounded(m);
        let model = reference(&config, 10.0);
        // The delay at which the target rate is 5 Gbit/s; the flow starts at 0.05.
        let mpd_ns = model.target(5.0 / 8.0) as u32;
        let (mut law, params) = long_flow(&config, 10.0);
        let mut rtt_ns = 64.0 * WIRE as f64 * 8.0 / 0.05;
        for round in 0..10_000 {
            let before = packets(&law);
            let rate = before * WIRE as f64 * 8.0 / rtt_ns;
            if (rate / 5.0 - 1.0).abs() < 0.05 {
                return round;
            }
            let mut ack = window_acked(rtt_ns as u32, mpd_ns);
            ack.now_ns += u64::from(round) * 1_000_000_000;
            ack.acked = 64;
            law.on_ack(&params, None, &ack);
            // Keep the window at 64 packets, so that an ACK is always for all of it: a longer
            // window and a shorter RTT are the same rate.
            rtt_ns *= before / packets(&law);
            (law, _) = long_flow(&config, 10.0);
        }
        panic!("m = {m}: not there after 10000 rounds");
    };
    let speeds: Vec<u32> = [50, 125, 250, 500, 1000].map(rounds).into();
    println!("rounds for m of 0.05, 0.125, 0.25, 0.5, 1: {speeds:?}");
    assert!(
        speeds.windows(2).all(|w| w[1] < w[0]),
        "larger m must be faster: {speeds:?}"
    );
    assert_eq!(speeds[4], 1, "m = 1 reaches the target rate in one step");
    // Figure 7a: about 15 RTTs from 1 to 50 Gbit/s with the published m; here from 1 % to 95 %.
    assert!(
        (10..=18).contains(&speeds[2]),
        "the published m takes {} rounds",
        speeds[2]
    );
}

/// Line 7: a second decrease waits for an RTT; increases do not.
#[test]
fn decreases_once_per_rtt_and_increases_every_ack() {
    let (mut law, params) = flow(&unbounded(250), 10.0);
    let mut ack = window_acked(100_000, 300_000);
    ack.acked = 1;
    assert!(law.on_ack(&params, None, &ack));
    let once = packets(&law);
    assert!(once < 64.0);
    for _ in 0..5 {
        ack.now_ns += 10_000;
        law.on_ack(&params, None, &ack);
    }
    assert_eq!(packets(&law), once, "within the same RTT");
    ack.now_ns += 60_000;
    law.on_ack(&params, None, &ack);
    assert!(packets(&law) < once, "an RTT later");
    let low = packets(&law);
    ack.int = Int::Mpd(Mpd {
        forward_ns: 0,
        backward_ns: 0,
        coverage: Coverage::Full,
    });
    for i in 1..=3 {
        let before = packets(&law);
        ack.now_ns += 1;
        law.on_ack(&params, None, &ack);
        assert!(packets(&law) > before, "increase {i}");
    }
    assert!(packets(&law) > low);
}

/// §4.1: with part of the path covered, the delay is the larger of the MPD and the rest of the
/// end-to-end delay, less the MPDs of both ways; with all of it, only the MPD counts.
#[test]
fn brownfield_is_chosen_by_coverage() {
    // Base RTT 10 us. The target at 64 packets in 100 us (7.9 Gbit/s) is about 7.6 us.
    let step = |coverage, forward_ns, backward_ns| {
        let (mut law, params) = flow(&unbounded(250), 10.0);
        let mut ack = window_acked(100_000, 0);
        ack.acked = 1;
        ack.int = Int::Mpd(Mpd {
            forward_ns,
            backward_ns,
            coverage,
        });
        law.on_ack(&params, None, &ack);
        (packets(&law), law.brownfield())
    };
    let (full, brown) = step(Coverage::Full, 1000, 0);
    assert!(
        full > 64.0 && !brown,
        "90 us of reverse queueing are nothing to a covered flow"
    );
    let (partial, brown) = step(Coverage::Partial, 1000, 0);
    assert!(partial < 64.0 && brown, "but 89 us on unknown hops are");
    let (explained, _) = step(Coverage::Partial, 3000, 86_000);
    assert!(
        explained > 64.0,
        "of which an MPD of the way back explains most"
    );
    let (worse, _) = step(Coverage::Partial, 50_000, 0);
    let (covered, _) = step(Coverage::Full, 50_000, 0);
    assert_eq!(worse, covered, "the MPD itself is the larger");
}

/// An ACK that lost its telemetry says nothing; a round without any falls back to the RTT.
#[test]
fn a_missing_sample_is_not_a_stale_one() {
    let (mut law, params) = flow(&unbounded(250), 10.0);
    let mut ack = window_acked(100_000, 0);
    ack.acked = 1;
    law.on_ack(&params, None, &ack);
    let before = packets(&law);
    ack.int = Int::None;
    for _ in 0..10 {
        ack.now_ns += 1000;
        ack.delivered += 1;
        law.on_ack(&params, None, &ack);
    }
    assert_eq!(packets(&law), before, "stray ACKs");
    for _ in 0..300 {
        ack.now_ns += 1000;
        ack.delivered += 1;
        ack.prior_delivered = ack.delivered - 64;
        law.on_ack(&params, None, &ack);
    }
    assert!(
        packets(&law) < before,
        "two rounds later its 90 us of delay count"
    );
}

/// Algorithm 2.
#[test]
fn losses_and_timeouts() {
    let now = (1u64 << 40) + 5_000_000;
    let (mut law, params) = flow(&unbounded(250), 10.0);
    law.on_ack(&params, None, &window_acked(100_000, 0));
    let before = packets(&law);
    let now = now + 1_000_000_000;
    law.on_loss(&params, now);
    assert!(
        (packets(&law) / before - 0.01).abs() < 1e-3,
        "min_md is 0.01 here"
    );
    law.on_undo(&params);
    assert!(
        (packets(&law) / before - 1.0).abs() < 1e-3,
        "a loss that was none"
    );

    let config = Config {
        retx_reset_threshold: 3,
        ..Config::default()
    };
    let (mut law, params) = flow(&config, 10.0);
    let mut at = now;
    for (count, expected) in [(1, 32.0), (2, 16.0), (3, 0.01)] {
        at += 10_000_000;
        law.on_timeout(&params, at);
        assert!(
            (packets(&law) - expected).abs() < 1e-3,
            "timeout {count}: {}",
            packets(&law)
        );
    }
}

/// Below two packets the rate is kept by pacing: rtt/cwnd per packet.
#[test]
fn below_a_packet_it_is_paced() {
    let config = Config {
        pacing_percent: 0,
        retx_reset_threshold: 1,
        ..Config::default()
    };
    let (mut law, params) = flow(&config, 10.0);
    law.on_ack(&params, None, &window_acked(100_000, 0));
    assert_eq!(
        law.pacing_rate(&params),
        u64::MAX,
        "the paper does not pace above a packet"
    );
    law.on_timeout(&params, 1 << 41);
    assert!(law.cwnd() < ONE_PACKET / 50);
    let rate = law.pacing_rate(&params) as f64;
    let expected = packets(&law) * 1448.0 / 100e-6;
    assert!(
        (rate / expected - 1.0).abs() < 1e-3,
        "{rate} for {expected}"
    );
    assert_eq!(
        law.cwnd_packets(),
        2,
        "and two packets may be under way, for the peer's delayed ACKs"
    );
}

/// The victim shares one hop with `m` flows and another with `n` (Poseidon Fig. 14a). Its share of
/// what is fair, and the network.
fn multihop(config: &Config, gbps: f64, base_us: f64, m: usize, n: usize, us: f64) -> (f64, Sea) {
    let mut net = Sea::new(Telemetry::Mpd(64), 1000);
    let wire_us = WIRE as f64 * 8.0 / gbps / 1000.0;
    // Three links on the way out.
    let delay = ((base_us - 3.0 * wire_us) / 6.0).max(0.1);
    let (a, b) = (net.link(gbps, delay), net.link(gbps, delay));
    let facts = Path {
        line_rate: bytes_per_s(gbps),
        ..Path::default()
    };
    let host = net.link(gbps, delay);
    let victim = net.flow(config, &[host, a, b], facts, 0.0);
    for i in 0..m {
        let (host, out) = (net.link(gbps, delay), net.link(gbps, delay));
        net.flow(config, &[host, a, out], facts, 1.0 + 3.0 * i as f64);
    }
    for i in 0..n {
        let (host, up) = (net.link(gbps, delay), net.link(gbps, delay));
        net.flow(config, &[host, up, b], facts, 2.0 + 3.0 * i as f64);
    }
    net.run_until_us(us / 2.0);
    net.clear_stats();
    net.run_until_us(us);
    let fair = 1.0 / (m.max(n) as f64 + 1.0);
    (net.share(victim, gbps, us / 2.0) / fair, net)
}

/// 10 Gbit/s and a base RTT of 33 us, where the published numbers starve the victim.
#[test]
fn published_parameters_do_not_travel_and_derived_ones_do() {
    let us = if cfg!(debug_assertions) {
        12_000.0
    } else {
        40_000.0
    };
    for (m, n) in [(2, 2), (5, 9), (9, 2), (9, 9)] {
        let (published, _) = multihop(&Config::published(), 10.0, 33.0, m, n, us);
        assert!(published < 0.15, "published, ({m},{n}): {published:.2}");
        // A smaller m, chosen by the flow for its base RTT, is enough to keep it alive.
        let adapted = Config {
            adapt_m: 1,
            ..Config::published()
        };
        let (adapted, _) = multihop(&adapted, 10.0, 33.0, m, n, us);
        assert!(
            adapted > 0.7,
            "published with a smaller m, ({m},{n}): {adapted:.2}"
        );
        let (derived, net) = multihop(&Config::default(), 10.0, 33.0, m, n, us);
        println!("({m},{n}): {published:.2} published, {adapted:.2} adapted, {derived:.2} derived");
        assert!(
            (0.87..1.15).contains(&derived),
            "derived, ({m},{n}): {derived:.2}"
        );
        let used = net
            .utilisation(0, us / 2.0)
            .max(net.utilisation(1, us / 2.0));
        assert!(used > 0.99, "derived, ({m},{n}): utilisation {used:.3}");
    }
}

/// In the network they are for, the published numbers are right.
#[test]
fn published_parameters_at_home() {
    let (share, _) = multihop(&Config::published(), 200.0, 5.0, 2, 2, 1500.0);
    assert!((0.95..1.05).contains(&share), "{share:.2}");
}

/// The rule from 1 to 400 Gbit/s and base RTTs from 5 to 500 us: derived once for a network whose
/// longest base RTT is 32 us, and once for the path itself.
#[test]
fn the_derivation_travels() {
    let slow = cfg!(debug_assertions);
    for (gbps, base_us) in [
        (1.0f64, 50.0),
        (1.0, 500.0),
        (10.0, 8.0),
        (10.0, 100.0),
        (25.0, 30.0),
        (100.0, 5.0),
        (100.0, 50.0),
        (400.0, 5.0),
        (400.0, 50.0),
    ] {
        if slow && gbps * base_us > 3000.0 {
            continue;
        }
        for base_rtt_us in [32, base_us as u32] {
            let config = Config {
                base_rtt_us,
                ..Config::default()
            };
            let rounds = if slow { 150.0 } else { 400.0 };
            let us = (base_us * rounds).max(2000.0);
            let (share, net) = multihop(&config, gbps, base_us, 2, 2, us);
            let used = net.utilisation(0, us / 2.0);
            let what = format!("{gbps} Gbit/s, {base_us} us, derived for {base_rtt_us} us");
            println!("{what}: {share:.2} of its share, utilisation {used:.3}");
            assert!(
                (0.84..1.15).contains(&share),
                "{what}: {share:.2} of its share"
            );
            assert!(used > 0.98, "{what}: utilisation {used:.3}");
        }
    }
}

/// The rule itself, in numbers.
#[test]
fn the_derivation_rule() {
    // 10 Gbit/s, 33 us: p of three base RTTs, k a twentieth.
    let t = Target::derive(bytes_per_s(10.0), 33_000, 1538);
    assert_eq!((t.p_ns, t.k_ns), (99_000, 4950));
    // 1 Gbit/s: two packets are 24.6 us, and p follows k.
    let t = Target::derive(bytes_per_s(1.0), 33_000, 1538);
    assert_eq!((t.p_ns, t.k_ns), (492_160, 24_608));
    assert_eq!(t.max_rate / t.min_rate, 10_000);
    // m: as it is up to a third of p, then in proportion; the gain m·α·R/p stays at 0.77.
    let t = Target::derive(bytes_per_s(10.0), 32_000, 1538);
    let m = 16384;
    assert_eq!(t.gain(m, 32_000), m);
    assert_eq!(t.gain(m, 320_000), m / 10);
    assert!(t.gain(1, u32::MAX) >= 1, "never zero");
    let alpha = 10_000f64.ln();
    for rtt_us in [10.0, 32.0, 100.0, 500.0] {
        let m = f64::from(t.gain(m, (rtt_us * 1000.0) as u32)) / 65536.0;
        let gain = m * alpha * rtt_us * 1000.0 / f64::from(t.p_ns);
        assert!(gain < 0.78, "at {rtt_us} us the loop's gain is {gain:.2}");
    }
}

/// Pacing at cwnd/RTT itself takes the ACK clock away, and the loop rings: the configuration
/// refuses it.
#[test]
fn pacing_must_not_govern() {
    let error = Poseidon::prepare(&Config {
        pacing_percent: 100,
        ..Config::default()
    })
    .unwrap_err();
    assert_eq!(
        (error.field, error.min, error.max),
        ("pacing_percent", 150, 1000)
    );
}

/// §5.6.1: fairness across hops needs the MPD and the rate-adjusted target; not the adaptive step.
#[test]
fn ablations() {
    let us = 16_000.0;
    let share = |config: &Config| multihop(config, 10.0, 33.0, 2, 2, us).0;
    let end_to_end = share(&Config {
        signal: 1,
        ..Config::default()
    });
    let fixed = share(&Config {
        target: 2,
        p_ns: 20_000,
        k_ns: 5000,
        ..Config::default()
    });
    let aimd = share(&Config {
        update: 2,
        ..Config::default()
    });
    let ratio = share(&Config {
        update: 1,
        ratio_m_ns: 50_000,
        ..Config::default()
    });
    let power = share(&Config {
        target: 1,
        p_ns: 20_000,
        k_ns: 2000,
        ..Config::default()
    });
    println!(
        "end-to-end {end_to_end:.2}, fixed target {fixed:.2}, AIMD {aimd:.2}, Eq. 13 {ratio:.2}, \
         power law {power:.2}"
    );
    assert!(end_to_end < 0.75, "without the MPD: {end_to_end:.2}");
    assert!(fixed < 0.75, "without a rate-adjusted target: {fixed:.2}");
    assert!(aimd > 0.8, "AIMD is fair all the same: {aimd:.2}");
    assert!(ratio > 0.8, "Eq. 13 with Eq. 3: {ratio:.2}");
    assert!(power > 0.75, "the power law of Appendix C: {power:.2}");
}
