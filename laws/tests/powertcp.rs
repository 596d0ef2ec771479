// SPDX-License-Identifier: GPL-2.0

//! PowerTCP: the theorems of its Appendix A on its equations, and the law on a packet-level
//! network.

mod net;

use laws::theta_powertcp::Config;
use laws::{Ack, HopHistory, Int, Law, Path, PowerTcp, Record, Wrap};
use net::{bytes_per_s, jain, Net, Telemetry, WIRE};

type Power = Net<PowerTcp>;

const FORMATS: [Telemetry; 2] = [Telemetry::Stack, Telemetry::Bottleneck];

// ---- The equations themselves, without a law: 100 Gbit/s, base RTT 20 us (Figure 3). ----

/// Bytes per us, and us.
const B: f64 = 12_500.0;
const TAU: f64 = 20.0;
const BDP: f64 = B * TAU;
const BETA: f64 = 0.1 * BDP;
const GAMMA: f64 = 0.9;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Control {
    /// Eq. 7.
    Power,
    /// Eq. 26: the delay alone, "voltage".
    Delay,
    /// Eq. 27: its gradient alone, "current".
    Gradient,
}

/// Euler's steps of Eq. 3 and 4 from (w, q): where it ends, and the least window on the way.
/// Feedback is a base RTT old, the update interval a base RTT.
fn trajectory(control: Control, w: f64, q: f64) -> (f64, f64, f64) {
    let dt: f64 = 0.05;
    let lag = (TAU / dt) as usize;
    let (mut w, mut q) = (w, q);
    let mut past = vec![(w, q, w / (q / B + TAU) - B); lag];
    let mut least = w;
    for step in 0..(200.0 * TAU / dt) as usize {
        let theta = q / B + TAU;
        // The queue shrinks no further than to nothing.
        let mut q_dot = w / theta - B;
        if q <= 0.0 && q_dot < 0.0 {
            q_dot = 0.0;
        }
        let (old_w, old_q, old_q_dot) = std::mem::replace(&mut past[step % lag], (w, q, q_dot));
        // e/f of each control, from the feedback.
        let ratio = match control {
            Control::Power => {
                // Γ = (q + bτ)(q̇ + μ); an idle link sends what arrives.
                let mu = if old_q > 0.0 { B } else { (old_w / TAU).min(B) };
                B * B * TAU / ((old_q + BDP) * (old_q_dot + mu))
            }
            Control::Delay => TAU / (old_q / B + TAU),
            Control::Gradient => 1.0 / (old_q_dot / B + 1.0).max(0.05),
        };
        // Eq. 7 pairs the feedback with the window it is of; the others have only the present one.
        let from = if control == Control::Power { old_w } else { w };
        w += dt * GAMMA / TAU * (from * ratio - w + BETA);
        q = (q + dt * q_dot).max(0.0);
        least = least.min(w);
    }
    (w, q, least)
}

fn starts() -> Vec<(f64, f64)> {
    let mut starts = Vec::new();
    for w in [1.0, 1.5, 2.0, 3.0, 4.0] {
        for q in [0.0, 0.25, 0.5, 1.0, 2.0] {
            starts.push((w * BDP, q * BDP));
        }
    }
    starts
}

/// Theorem 1: one equilibrium, (w_e, q_e) = (bτ + β̂, β̂), from wherever one starts.
#[test]
fn theorem_1_a_unique_equilibrium() {
    for (w0, q0) in starts() {
        let (w, q, _) = trajectory(Control::Power, w0, q0);
        assert!(
            (w / (BDP + BETA) - 1.0).abs() < 0.01,
            "from ({w0}, {q0}): w = {w}"
        );
        assert!((q / BETA - 1.0).abs() < 0.02, "from ({w0}, {q0}): q = {q}");
    }
}

/// Figure 3: no trajectory of PowerTCP that starts at a BDP or more falls below it; some of a
/// delay-based control do, and a gradient-based one ends in many places.
#[test]
fn phase_plots() {
    let least = |control| {
        starts()
            .iter()
            .map(|&(w, q)| trajectory(control, w, q).2)
            .fold(f64::MAX, f64::min)
    };
    assert!(
        least(Control::Power) > 0.99 * BDP,
        "PowerTCP: {}",
        least(Control::Power) / BDP
    );
    assert!(
        least(Control::Delay) < 0.9 * BDP,
        "delay-based: {}",
        least(Control::Delay) / BDP
    );
    let ends: Vec<f64> = starts()
        .iter()
        .map(|&(w, q)| trajectory(Control::Gradient, w, q).1 / BDP)
        .collect();
    let spread =
        ends.iter().fold(0.0, |m: f64, e| m.max(*e)) - ends.iter().fold(9.0, |m: f64, e| m.min(*e));
    assert!(
        spread > 0.2,
        "gradient-based queues end {spread:.2} BDPs apart: {ends:.2?}"
    );
}

/// Theorem 2: an error decays with the time constant δt/γ.
#[test]
fn theorem_2_the_time_constant() {
    // Eq. 15, which Eq. 14 becomes by Property 1.
    let (mut w, dt) = (3.0 * BDP, 0.001 * TAU);
    let error = |w: f64| (w - BDP - BETA).abs();
    let before = error(w);
    let steps = (TAU / GAMMA / dt) as usize;
    for _ in 0..steps {
        w += dt * GAMMA / TAU * (-w + BDP + BETA);
    }
    let decayed = error(w) / before;
    assert!(
        (decayed - (-1f64).exp()).abs() < 0.01,
        "after one time constant {decayed:.3} is left"
    );
    // And 99.3 % in five.
    for _ in 0..4 * steps {
        w += dt * GAMMA / TAU * (-w + BDP + BETA);
    }
    assert!((error(w) / before - 0.0067).abs() < 0.001);
}

// ---- The law on a network. ----

fn facts(gbps: f64, base_rtt_ns: u32) -> Path {
    Path {
        line_rate: bytes_per_s(gbps),
        base_rtt_ns,
        ..Path::default()
    }
}

/// `n` flows over one link of `gbps`, base RTT `base_us`, each with its own N.
fn star(telemetry: Telemetry, gbps: f64, base_us: f64, flows_per_host: &[u32]) -> Power {
    let mut net = Power::new(telemetry, 1);
    let bottleneck = net.link(gbps, base_us / 4.0);
    for (i, &n) in flows_per_host.iter().enumerate() {
        let host = net.link(gbps, base_us / 4.0);
        let config = Config {
            flows_per_host: n,
            ..Config::default()
        };
        let id = net.flow(&config, &[host, bottleneck], facts(gbps, 0), i as f64);
        net.flows[id].facts.base_rtt_ns = net.base_rtt_ns(id) as u32;
    }
    net
}

/// Theorem 1 in packets: utilisation one, a queue of β̂, and rest.
#[test]
fn the_queue_rests_at_the_sum_of_betas() {
    for telemetry in FORMATS {
        for gbps in [10.0, 100.0] {
            let mut net = star(telemetry, gbps, 40.0, &[10, 10, 10, 10]);
            let base_us = net.base_rtt_ns(0) / 1000.0;
            net.run_until_us(100.0 * base_us);
            net.clear_stats();
            net.run_until_us(200.0 * base_us);
            let (mean, p99) = net.queue_us(0);
            let beta = 4.0 * base_us / 10.0;
            let used = net.utilisation(0, 100.0 * base_us);
            let what = format!("{telemetry:?}, {gbps} Gbit/s");
            assert!(used > 0.999, "{what}: utilisation {used:.4}");
            assert!(
                (mean / beta - 1.0).abs() < 0.15,
                "{what}: {mean:.2} us, not {beta:.2}"
            );
            assert!(
                p99 < 1.35 * mean,
                "{what} rings: mean {mean:.2}, 99th percentile {p99:.2} us"
            );
        }
    }
}

/// Flows that join others learn their base RTT without the queue that is there: each then takes its share, soon
/// after it begins.
#[test]
fn who_joins_does_not_learn_the_queue() {
    for telemetry in FORMATS {
        let mut net = Power::new(telemetry, 1000);
        let bottleneck = net.link(10.0, 7.0);
        for i in 0..5 {
            let host = net.link(10.0, 7.0);
            let path = [host, bottleneck];
            net.flow(
                &Config::default(),
                &path,
                facts(10.0, 0),
                2000.0 * f64::from(i),
            );
        }
        let base_ns = net.base_rtt_ns(0);
        net.run_until_us(9000.0);
        net.clear_stats();
        net.run_until_us(14_000.0);
        let shares: Vec<f64> = (0..5).map(|i| net.share(i, 10.0, 5000.0)).collect();
        assert!(jain(&shares) > 0.99, "{telemetry:?}: {shares:.3?}");
        let (mean, _) = net.queue_us(bottleneck);
        // Five times a tenth of the base RTT, and a step of the clock.
        assert!(
            mean < 0.55 * base_ns / 1000.0 + 1.0,
            "{telemetry:?}: {mean:.1} us"
        );
        for flow in &net.flows {
            let off = f64::from(flow.law.base_rtt_ns()) - base_ns;
            assert!(
                (-1500.0..3500.0).contains(&off),
                "{telemetry:?}: off by {off:.0} ns"
            );
        }
    }
}

/// A hop that claims a queue that is not there makes the base RTT too short. Once it no longer does, the flow finds
/// its way back. A queue that nobody shows does not become a part of it.
#[test]
fn a_base_rtt_from_lies_does_not_last() {
    let params = PowerTcp::prepare(&Config::default()).unwrap();
    let (mut law, mut hops) = (PowerTcp::default(), HopHistory::default());
    law.start(&params, &facts(10.0, 0), 0);
    // A packet and its ACK every 1.23 us, thirty in flight; 3750 bytes are 3 us.
    let mut packets = 0..u32::MAX;
    let mut feed = |(qlen_bytes, rtt_ns): (u32, u32)| {
        for i in packets.by_ref().take(10_000) {
            let now_ns = u64::from(i) * 1230;
            let record = Record {
                qlen_bytes,
                tx_bytes: (i * 1538) & Wrap::BOTTLENECK.tx_mask,
                ts_ns: now_ns as u32 & Wrap::BOTTLENECK.ts_mask,
                inverse_rate: Record::inverse_rate(10_000),
                hop_id: 7,
            };
            let ack = Ack {
                now_ns,
                rtt_ns,
                acked: 1,
                delivered: 30 + i,
                prior_delivered: i,
                in_flight: 2,
                full_size: true,
                int: Int::Bottleneck(record),
                ..Ack::default()
            };
            law.on_ack(&params, Some(&mut hops), &ack);
        }
        f64::from(law.base_rtt_ns())
    };
    let [before, lied, after, hidden] = [
        (3750, 33_000),
        (30_000, 33_000),
        (3750, 33_000),
        (0, 150_000),
    ]
    .map(&mut feed);
    assert!((before - 30_000.0).abs() < 200.0, "{before}");
    assert!(
        lied < 12_000.0,
        "{lied}: the lie was not believed, so nothing is shown"
    );
    assert!((after - 30_000.0).abs() < 200.0, "{after}");
    assert!(hidden <= 33_000.0, "{hidden}");
}

/// Theorem 3: windows are in proportion to β.
#[test]
fn theorem_3_beta_weighted_fairness() {
    for telemetry in FORMATS {
        let mut net = star(telemetry, 100.0, 40.0, &[10, 10, 20, 40]);
        net.run_until_us(8000.0);
        net.clear_stats();
        net.run_until_us(16_000.0);
        let shares: Vec<f64> = (0..4).map(|i| net.share(i, 100.0, 8000.0)).collect();
        // β is 1, 1, 1/2 and 1/4 of the first's.
        let weights = [1.0, 1.0, 0.5, 0.25];
        let total: f64 = weights.iter().sum();
        for (share, weight) in shares.iter().zip(weights) {
            let expected = weight / total;
            assert!(
                (share / expected - 1.0).abs() < 0.12,
                "{telemetry:?}: {shares:.3?}, weights {weights:?}"
            );
        }
    }
}

/// An idle link is filled at once, not by additive increase: the flow sees it and multiplies.
#[test]
fn a_freed_link_is_filled_within_few_rtts() {
    let mut with_int = star(Telemetry::Bottleneck, 100.0, 40.0, &[100, 100, 100, 100]);
    let mut without = star(Telemetry::None, 100.0, 40.0, &[100, 100, 100, 100]);
    let after = |net: &mut Power| {
        net.run_until_us(10_000.0);
        for flow in 1..4 {
            net.flows[flow].stop_ps = 10_000 * net::PS_PER_US;
        }
        net.run_until_us(10_120.0);
        net.clear_stats();
        net.run_until_us(10_320.0);
        net.utilisation(0, 200.0)
    };
    let (with_int, without) = (after(&mut with_int), after(&mut without));
    assert!(
        with_int > 0.92,
        "three RTTs after the others left: {with_int:.3}"
    );
    assert!(
        without < 0.7,
        "which additive increase could not do: {without:.3}"
    );
}

/// Ten flows start at once onto a long one (25 Gbit/s, three hops, base RTT 17.9 us): the queue
/// they make is gone after one drain, none is made again, and the one record does what the stack
/// does.
#[test]
fn incast_is_resolved_in_one_go() {
    for telemetry in FORMATS {
        let mut net = Power::new(telemetry, 1);
        let delay = (17.9 - 3.0 * 0.492) / 6.0;
        let (a, b) = (net.link(25.0, delay), net.link(25.0, delay));
        let host = net.link(25.0, delay);
        net.flow(&Config::default(), &[host, a, b], facts(25.0, 17_900), 0.0);
        for i in 0..10 {
            let (host, up) = (net.link(25.0, delay), net.link(25.0, delay));
            net.flow(
                &Config::default(),
                &[host, up, b],
                facts(25.0, 17_900),
                500.0 + 0.1 * f64::from(i),
            );
        }
        // The ten send a BDP each: 180 us of queue, gone 200 us later.
        net.run_until_us(780.0);
        net.clear_stats();
        net.run_until_us(1000.0);
        let (mean, p99) = net.queue_us(b);
        let used = net.utilisation(b, 220.0);
        assert!(
            p99 < 40.0,
            "{telemetry:?}: {p99:.1} us once the burst is drained"
        );
        assert!(
            mean < 26.0,
            "{telemetry:?}: a mean of {mean:.1} us; at rest it is 11β = 19.7"
        );
        assert!(
            used > 0.98,
            "{telemetry:?}: and the link stays busy: {used:.3}"
        );
        net.clear_stats();
        net.run_until_us(4000.0);
        let shares: Vec<f64> = (0..11).map(|i| net.share(i, 25.0, 3000.0)).collect();
        assert!(jain(&shares) > 0.99, "{telemetry:?}: {shares:.3?}");
    }
}

/// Parking lot: three flows at the first hop, five at the second, one through both. Stack and
/// bottleneck record give it the same.
#[test]
fn one_record_is_as_good_as_all() {
    let long = FORMATS.map(|telemetry| {
        let mut net = Power::new(telemetry, 1);
        let delay = (17.9 - 3.0 * 0.492) / 6.0;
        let (a, b) = (net.link(25.0, delay), net.link(25.0, delay));
        let host = net.link(25.0, delay);
        net.flow(&Config::default(), &[host, a, b], facts(25.0, 17_900), 0.0);
        for i in 0..8 {
            let (host, other) = (net.link(25.0, delay), net.link(25.0, delay));
            let path = if i < 3 {
                [host, a, other]
            } else {
                [host, other, b]
            };
            net.flow(
                &Config::default(),
                &path,
                facts(25.0, 17_900),
                5.0 + f64::from(i),
            );
        }
        net.run_until_us(3000.0);
        net.clear_stats();
        net.run_until_us(8000.0);
        assert!(net.utilisation(a, 5000.0) > 0.99 && net.utilisation(b, 5000.0) > 0.99);
        net.share(0, 25.0, 5000.0) * 25.0
    });
    assert!((long[0] / long[1] - 1.0).abs() < 0.2, "{long:.2?} Gbit/s");
    // What Poseidon is for: its max-min share would be 4.2.
    assert!(long.iter().all(|l| *l < 4.0), "{long:.2?} Gbit/s");
}

/// Links of different rate: the hop that counts is the one most loaded in proportion, not in bytes
/// (Algorithm 1, line 20 as printed would choose the fast one).
#[test]
fn the_normalised_power_counts() {
    for telemetry in FORMATS {
        let mut net = Power::new(telemetry, 1);
        let (fast, slow) = (net.link(100.0, 5.0), net.link(10.0, 5.0));
        let host = net.link(100.0, 5.0);
        let id = net.flow(
            &Config::default(),
            &[host, fast, slow],
            facts(100.0, 0),
            0.0,
        );
        net.flows[id].facts.base_rtt_ns = net.base_rtt_ns(id) as u32;
        net.run_until_us(2000.0);
        net.clear_stats();
        net.run_until_us(4000.0);
        let used = net.utilisation(slow, 2000.0);
        let (mean, _) = net.queue_us(slow);
        // β is a tenth of the host's BDP, a whole one of the slow link's.
        assert!(used > 0.99, "{telemetry:?}: utilisation {used:.3}");
        let beta = net.base_rtt_ns(id) / 1000.0;
        assert!(
            mean < 1.3 * beta,
            "{telemetry:?}: {mean:.1} us of queue, β is {beta:.1}"
        );
    }
}

/// Telemetry that stops, and comes back.
#[test]
fn without_telemetry_it_is_theta_powertcp() {
    let mut net = star(Telemetry::Stack, 25.0, 40.0, &[10, 10]);
    net.run_until_us(3000.0);
    assert!(net.flows[0].law.has_int());
    net.telemetry = Telemetry::None;
    net.run_until_us(4000.0);
    assert!(!net.flows[0].law.has_int());
    net.clear_stats();
    net.run_until_us(8000.0);
    let (used, (mean, _)) = (net.utilisation(0, 4000.0), net.queue_us(0));
    assert!(used > 0.99 && mean < 12.0, "alone: {used:.3}, {mean:.1} us");
    net.telemetry = Telemetry::Bottleneck;
    net.run_until_us(9000.0);
    assert!(net.flows[0].law.has_int());
    net.clear_stats();
    net.run_until_us(12_000.0);
    let (used, (mean, _)) = (net.utilisation(0, 3000.0), net.queue_us(0));
    assert!(
        used > 0.99 && mean < 12.0,
        "and back: {used:.3}, {mean:.1} us"
    );
}

/// A slow link: nothing squares a rate and loses it, as b² below 2 Gbit/s does in one public
/// kernel.
#[test]
fn a_slow_link_is_no_special_case() {
    for telemetry in FORMATS {
        let mut net = star(telemetry, 0.1, 400.0, &[10, 10]);
        net.run_until_us(100_000.0);
        net.clear_stats();
        net.run_until_us(300_000.0);
        let used = net.utilisation(0, 200_000.0);
        let window = net.cwnd(0) + net.cwnd(1);
        let bdp = net.base_rtt_ns(0) * 0.1 / 8.0 / WIRE as f64;
        assert!(used > 0.97, "{telemetry:?}: utilisation {used:.3}");
        assert!(
            window < 2.0 * bdp + 2.0,
            "{telemetry:?}: {window:.1} packets, BDP {bdp:.1}"
        );
    }
}
