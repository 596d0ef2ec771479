// SPDX-License-Identifier: GPL-2.0

//! HPCC and Swift on a packet-level network, and what Variable AI and Sampling Frequency do to
//! them.

mod net;

use laws::sampling_frequency::SamplingFrequency;
use laws::variable_ai::{self, VariableAi};
use laws::{hpcc, swift, Ack, Hpcc, Law, Path, Swift};
use net::{bytes_per_s, jain, Net, Telemetry};

/// `n` hosts of `gbps` into one link of the same rate; two flows start every `every_us`.
fn star<L: Law>(
    config: &L::Config,
    telemetry: Telemetry,
    gbps: f64,
    base_us: f64,
    n: usize,
    every_us: f64,
) -> Net<L> {
    let mut net = Net::<L>::new(telemetry, 1);
    let bottleneck = net.link(gbps, base_us / 4.0);
    for i in 0..n {
        let host = net.link(gbps, base_us / 4.0);
        let facts = Path {
            line_rate: bytes_per_s(gbps),
            hops: 1,
            ..Path::default()
        };
        let id = net.flow(
            config,
            &[host, bottleneck],
            facts,
            (i / 2) as f64 * every_us,
        );
        net.flows[id].facts.base_rtt_ns = net.base_rtt_ns(id) as u32;
    }
    net
}

/// Jain's index of the goodput in the `us` before now.
fn fairness<L: Law>(net: &mut Net<L>, until_us: f64, us: f64) -> f64 {
    net.run_until_us(until_us - us);
    net.clear_stats();
    net.run_until_us(until_us);
    let shares: Vec<f64> = (0..net.flows.len())
        .map(|i| net.share(i, 1.0, us))
        .collect();
    jain(&shares)
}

/// HPCC keeps η of the link busy and next to no queue, with a record per hop and with one.
#[test]
fn hpcc_rests_below_the_line() {
    for telemetry in [Telemetry::Stack, Telemetry::Bottleneck] {
        let mut net = star::<Hpcc>(&hpcc::Config::default(), telemetry, 100.0, 20.0, 4, 5.0);
        net.run_until_us(5000.0);
        net.clear_stats();
        net.run_until_us(10_000.0);
        let used = net.utilisation(0, 5000.0);
        let (mean, p99) = net.queue_us(0);
        assert!(
            (0.90..0.98).contains(&used),
            "{telemetry:?}: η is 0.95, utilisation {used:.3}"
        );
        assert!(
            mean < 1.0 && p99 < 2.0,
            "{telemetry:?}: {mean:.2} us, 99th percentile {p99:.2}"
        );
    }
}

/// A burst onto a busy link is gone soon, and what is left of it is under η again.
#[test]
fn hpcc_answers_a_burst_within_rtts() {
    let mut net = star::<Hpcc>(
        &hpcc::Config::default(),
        Telemetry::Stack,
        25.0,
        20.0,
        16,
        0.0,
    );
    // Sixteen BDPs at once are 320 us of queue, gone after 340.
    net.run_until_us(600.0);
    net.clear_stats();
    net.run_until_us(1500.0);
    let (mean, _) = net.queue_us(0);
    assert!(mean < 6.0, "{mean:.1} us");
}

/// Without telemetry HPCC goes by the RTT, and holds the link.
#[test]
fn hpcc_without_telemetry() {
    let mut net = star::<Hpcc>(
        &hpcc::Config::default(),
        Telemetry::None,
        25.0,
        20.0,
        4,
        5.0,
    );
    net.run_until_us(5000.0);
    net.clear_stats();
    net.run_until_us(15_000.0);
    let (used, (mean, _)) = (net.utilisation(0, 10_000.0), net.queue_us(0));
    assert!(used > 0.95 && mean < 6.0, "{used:.3}, {mean:.1} us");
}

/// Snyder and Lebeck, Figure 5: two flows every 20 us, 16 in all, 100 Gbit/s: with both mechanisms
/// HPCC is fair long before it is without, and its queue is none the worse.
#[test]
fn the_mechanisms_make_hpcc_fair_sooner() {
    let plain = hpcc::Config {
        ai_mbps: 50,
        ..Default::default()
    };
    let mut both = plain;
    both.vai.enabled = 1;
    both.sampling_acks = 30;
    let mut with = star::<Hpcc>(&both, Telemetry::Stack, 100.0, 4.0, 16, 20.0);
    let mut without = star::<Hpcc>(&plain, Telemetry::Stack, 100.0, 4.0, 16, 20.0);
    let (sooner, later) = (
        fairness(&mut with, 400.0, 100.0),
        fairness(&mut without, 400.0, 100.0),
    );
    assert!(
        sooner > 0.9 && later < 0.7,
        "at 400 us: {sooner:.2} with, {later:.2} without"
    );
    with.clear_stats();
    with.run_until_us(1500.0);
    let (mean, _) = with.queue_us(0);
    assert!(mean < 1.5, "and the queue is near zero: {mean:.2} us");
}

/// The same for Swift (Figure 6), which also keeps the smaller queue, having no flow scaling.
#[test]
fn the_mechanisms_make_swift_fair_sooner() {
    let plain = swift::Config {
        base_target_ns: 5000,
        hop_ns: 2000,
        ai_millipackets: 0,
        ai_mbps: 50,
        fs_max_millipackets: 50_000,
        initial_cwnd_packets: 40,
        ..Default::default()
    };
    let mut both = swift::Config {
        fs_range_ns: 0,
        sampling_acks: 30,
        ..plain
    };
    both.vai.enabled = 1;
    let mut with = star::<Swift>(&both, Telemetry::None, 100.0, 4.0, 16, 20.0);
    let mut without = star::<Swift>(&plain, Telemetry::None, 100.0, 4.0, 16, 20.0);
    let (sooner, later) = (
        fairness(&mut with, 800.0, 300.0),
        fairness(&mut without, 800.0, 300.0),
    );
    assert!(
        sooner > later + 0.02 && sooner > 0.93,
        "{sooner:.3} with, {later:.3} without"
    );
    with.run_until_us(2000.0);
    without.run_until_us(2000.0);
    with.clear_stats();
    without.clear_stats();
    with.run_until_us(3000.0);
    without.run_until_us(3000.0);
    let (small, large) = (with.queue_us(0).0, without.queue_us(0).0);
    assert!(
        small < 0.6 * large,
        "{small:.1} us with, {large:.1} without"
    );
}

/// Swift keeps the delay at its target, for few flows and for many.
#[test]
fn swift_keeps_its_target() {
    for flows in [1, 4, 16] {
        let config = swift::Config {
            base_target_ns: 35_000,
            fs_range_ns: 0,
            ..Default::default()
        };
        let mut net = star::<Swift>(&config, Telemetry::None, 25.0, 20.0, flows, 3.0);
        net.run_until_us(10_000.0);
        net.clear_stats();
        net.run_until_us(20_000.0);
        let used = net.utilisation(0, 10_000.0);
        assert!(used > 0.98, "{flows} flows: utilisation {used:.3}");
        if flows > 1 {
            // A host's own link does not queue, so that a lone flow meets no delay at all.
            let rtts = &net.rtts_ns;
            let mean = rtts.iter().map(|r| f64::from(*r)).sum::<f64>() / rtts.len() as f64;
            assert!(
                (mean / 36_000.0 - 1.0).abs() < 0.12,
                "{flows} flows: an RTT of {mean:.0} ns"
            );
        }
    }
}

/// §3.5: the target's three parts.
#[test]
fn swift_scales_its_target() {
    let config = swift::Config {
        base_target_ns: 25_000,
        ..Default::default()
    };
    let target = |packets: u32, hops: u8, config: swift::Config| {
        let config = swift::Config {
            initial_cwnd_packets: packets,
            ..config
        };
        let params = Swift::prepare(&config).expect("valid");
        let mut law = Swift::default();
        law.start(
            &params,
            &Path {
                hops,
                ..Path::default()
            },
            0,
        );
        f64::from(law.target_ns(&params))
    };
    // 100 us between 0.1 and 100 packets: α = 100/(√10 − 0.1), β = −α/10.
    let scaling = |w: f64| 100_000.0 / (10f64.sqrt() - 0.1) * (1.0 / w.sqrt() - 0.1);
    for packets in [1, 2, 10, 50, 99] {
        let expected = 25_000.0 + 3.0 * 1000.0 + scaling(f64::from(packets));
        let got = target(packets, 3, config);
        assert!(
            (got - expected).abs() < 10.0,
            "{packets} packets: {got} ns, not {expected:.0}"
        );
    }
    assert_eq!(target(100, 0, config), 25_000.0);
    assert_eq!(
        target(5000, 2, config),
        27_000.0,
        "no scaling above 100 packets"
    );
    let tiny = swift::Config {
        fs_min_millipackets: 2000,
        ..config
    };
    assert_eq!(target(1, 0, tiny), 125_000.0, "and no more than its range");
}

/// A derived target is above the path's base RTT, or the flow would starve.
#[test]
fn swift_learns_a_target() {
    let mut net = star::<Swift>(
        &swift::Config::default(),
        Telemetry::None,
        10.0,
        200.0,
        2,
        50.0,
    );
    for flow in &mut net.flows {
        flow.facts.base_rtt_ns = 0;
    }
    net.run_until_us(60_000.0);
    net.clear_stats();
    net.run_until_us(100_000.0);
    let used = net.utilisation(0, 40_000.0);
    assert!(
        used > 0.97,
        "a base RTT of 200 us against the published 25 us: {used:.3}"
    );
}

/// Algorithm 1 of the Variable AI paper, line by line.
#[test]
fn variable_ai_earns_spends_and_dampens() {
    let config = variable_ai::Config {
        enabled: 1,
        ..variable_ai::Config::hpcc()
    };
    let params = config.prepare().expect("valid");
    let mut vai = VariableAi::default();
    assert_eq!(
        vai.tokens(&params, true),
        1,
        "no tokens, the plain increase"
    );
    vai.observe(50_000);
    vai.on_round(&params, 0, false);
    assert_eq!(
        vai.tokens(&params, false),
        1,
        "at the threshold: nothing earned"
    );
    vai.observe(30_000);
    vai.observe(120_000);
    vai.observe(60_000);
    vai.on_round(&params, 0, false);
    // 120 tokens; the dampener is 120/50, below its constant of 8: not yet felt.
    assert_eq!(vai.tokens(&params, false), 100, "AI_Cap");
    assert_eq!(vai.tokens(&params, true), 100, "spent");
    assert_eq!(vai.tokens(&params, true), 20, "and the rest");
    assert_eq!(vai.tokens(&params, true), 1);
    for _ in 0..20 {
        vai.observe(5_000_000);
        vai.on_round(&params, 0, false);
    }
    // Bank_Cap is 1000, and the dampener 20·100 by now: divided by 8, and one more.
    assert!(
        vai.tokens(&params, false) <= 1,
        "a lasting queue earns nothing"
    );
    while vai.tokens(&params, true) > 1 {}
    for _ in 0..10 {
        vai.tokens(&params, true);
    }
    vai.on_round(&params, 0, true);
    vai.observe(101_000);
    vai.on_round(&params, 0, false);
    assert_eq!(
        vai.tokens(&params, false),
        100,
        "after a quiet round it starts anew"
    );
}

#[test]
fn sampling_frequency_counts_acks_for_decreases_only() {
    let mut sampling = SamplingFrequency::default();
    let due: Vec<bool> = (0..6).map(|_| sampling.due(30, 10, true, false)).collect();
    assert_eq!(
        due,
        [false, false, true, false, false, true],
        "30 ACKs each"
    );
    assert!(
        !sampling.due(30, 10, false, false) && sampling.due(30, 10, false, true),
        "per RTT"
    );
    assert!(
        !sampling.due(0, 100, true, false) && sampling.due(0, 1, true, true),
        "off: per RTT"
    );
}

/// The reason for Sampling Frequency (§IV-B): the faster of two flows decreases more often.
#[test]
fn the_faster_flow_decreases_more_often() {
    let mut config = hpcc::Config {
        sampling_acks: 30,
        ..Default::default()
    };
    config.vai.enabled = 0;
    let decreases = |acks_per_us: u32| {
        let mut sampling = SamplingFrequency::default();
        (0..300)
            .filter(|_| sampling.due(30, acks_per_us, true, false))
            .count()
    };
    assert_eq!(decreases(4), 2 * decreases(2));
    assert!(Hpcc::prepare(&config).is_ok());
}

/// Swift's variant reacts from a reference: two congested ACKs in one period react once.
#[test]
fn a_reference_is_reacted_from_once() {
    let config = swift::Config {
        base_target_ns: 50_000,
        fs_range_ns: 0,
        hop_ns: 0,
        sampling_acks: 30,
        initial_cwnd_packets: 100,
        ..Default::default()
    };
    let params = Swift::prepare(&config).expect("valid");
    let mut law = Swift::default();
    law.start(
        &params,
        &Path {
            base_rtt_ns: 20_000,
            ..Path::default()
        },
        0,
    );
    let mut ack = Ack {
        now_ns: 1 << 30,
        rtt_ns: 100_000,
        acked: 1,
        delivered: 1,
        ..Ack::default()
    };
    law.on_ack(&params, None, &ack);
    let once = law.cwnd();
    for i in 0..20 {
        ack.delivered += 1;
        ack.now_ns += 1000 * i;
        law.on_ack(&params, None, &ack);
    }
    // 1 − 0.8·50/100 = 0.6 of the reference, and an increase of one packet.
    assert_eq!(law.cwnd(), once);
    let packets = once as f64 / laws::math::ONE_PACKET as f64;
    assert!((packets - 61.0).abs() < 0.01, "{packets}");
}
