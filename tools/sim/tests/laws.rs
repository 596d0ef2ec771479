// SPDX-License-Identifier: GPL-2.0
//! What each congestion control is known for, on the smallest network that shows it.

mod net;

use fathom_sim::cc::Spec;
use fathom_sim::sim::Work;
use fathom_sim::time::{MS, US};
use laws::swift;
use net::*;

/// One flow fills a link, with every congestion control.
#[test]
fn one_flow_fills_its_link() {
    for name in [
        "poseidon",
        "powertcp",
        "theta_powertcp",
        "hpcc",
        "swift",
        "dctcp",
        "cubic",
        "reno",
        "timely",
        "dcqcn",
    ] {
        // The rate-based two begin at the host's rate and take seconds to climb back from a fourfold overload.
        let host = if matches!(name, "timely" | "dcqcn") {
            10
        } else {
            40
        };
        let (mut net, line, a, b) = dumbbell(1, host, 10, 2 * US);
        net.ports[line]
            .set_discipline(fathom_sim::discipline::Discipline::Ecn { threshold: 97_500 });
        net.ports[line].limit = 1_500_000;
        let cc = net.spec(law(name, 20));
        let format = format_of(name);
        net.flow(cc, format, a[0], b[0], 0, Work::Long);
        let mut sim = net.sim();
        let (rates, mean, p99) = measure(&mut sim, line, 20 * MS, 60 * MS, 1);
        let mss = sim.mss(0);
        let most = 10.0 * f64::from(mss) / 1538.0;
        let c = sim.sender_counters(0);
        println!(
            "{name:16} {:.3} of line, queue {mean:.1} us, p99 {p99:.1} us, cwnd {:.1}, {c:?}",
            rates[0] / most,
            sim.sender(0).expect("it is there").cwnd()
        );
        // HPCC leaves 1 - η = 5 % by design; TIMELY swings around its gradient without end.
        let least = match name {
            "hpcc" => 0.93,
            "timely" => 0.85,
            _ => 0.95,
        };
        assert!(
            rates[0] >= least * most,
            "{name}: {:.3} of {most:.3} Gbit/s",
            rates[0]
        );
    }
}

/// PowerTCP rests at a queue of the flows' β together: HostBw·τ/N each, here a tenth of a base RTT.
#[test]
fn powertcp_incast_rests_at_the_sum_of_betas() {
    let (mut net, hosts, down) = star(9, 10, 5 * US);
    let cc = net.spec(law("powertcp", 0));
    let base_ns = 4 * 5_000 + 2 * 1231 + 2 * 90;
    for &from in &hosts[1..] {
        let flow = net.flow(cc, format_of("powertcp"), from, hosts[0], 0, Work::Long);
        net.flows[flow].base_rtt_ns = base_ns;
    }
    let mut sim = net.sim();
    let (rates, mean, p99) = measure(&mut sim, down[0], 10 * MS, 30 * MS, 8);
    let betas = 8.0 * f64::from(base_ns) / 10.0 / 1000.0;
    println!(
        "queue {mean:.1} us, p99 {p99:.1} us, eight betas {betas:.1} us, jain {:.4}",
        jain(&rates)
    );
    assert!(
        (0.75 * betas..1.35 * betas).contains(&mean),
        "{mean} us for {betas} us"
    );
    assert!(jain(&rates) > 0.98, "{rates:?}");
    assert!(rates.iter().sum::<f64>() > 0.97 * 10.0 * 1432.0 / 1538.0);
}

/// A chain of two congested hops, `m` flows on the first, `n` on the second, and a victim on both. What the victim
/// gets as a share of its max-min rate.
fn victim(name: &str, m: usize, n: usize) -> f64 {
    let mut net = Net::default();
    let s: Vec<usize> = (0..3).map(|_| net.node(false)).collect();
    let first = net.link(s[0], s[1], 10, 2 * US);
    net.link(s[1], s[2], 10, 2 * US);
    let cc = net.spec(match name {
        // One target for all, as Poseidon's authors set it, and beyond the longest base RTT.
        "swift" => fathom_sim::cc::Spec::swift(&laws::swift::Config {
            base_target_ns: 40_000,
            ..Default::default()
        })
        .expect("a valid configuration"),
        _ => law(name, 33),
    });
    let host = |net: &mut Net, at: usize| {
        let host = net.node(true);
        net.link(host, s[at], 10, 2 * US);
        host
    };
    let (a, b) = (host(&mut net, 0), host(&mut net, 2));
    let format = format_of(name);
    net.flow(cc, format, a, b, 0, Work::Long);
    for (count, hop) in [(m, 0), (n, 1)] {
        for _ in 0..count {
            let (x, y) = (host(&mut net, hop), host(&mut net, hop + 1));
            net.flow(cc, format, x, y, 0, Work::Long);
        }
    }
    let flows = net.flows.len();
    let mut sim = net.sim();
    let (rates, mean, _) = measure(&mut sim, first, 20 * MS, 60 * MS, flows);
    let mss = f64::from(sim.mss(0));
    let fair = 10.0 * mss / 1538.0 / (m.max(n) + 1) as f64;
    println!(
        "{name} ({m},{n}): {:.3} of its share, queue {mean:.1} us, {rates:.2?}",
        rates[0] / fair
    );
    rates[0] / fair
}

/// Poseidon §5.1: the victim of multi-hop congestion has its max-min share; with Swift, which adds the delays of
/// both hops, it does not.
#[test]
fn poseidon_keeps_the_victim_and_swift_does_not() {
    for (m, n) in [(2, 2), (5, 9)] {
        let (poseidon, swift) = (victim("poseidon", m, n), victim("swift", m, n));
        assert!(poseidon > 0.9, "({m},{n}): {poseidon}");
        assert!(swift < 0.75, "({m},{n}): {swift}");
        assert!(poseidon < 1.15, "({m},{n}): {poseidon}");
    }
}

/// Poseidon §5.1: congestion on the path of the ACKs slows Swift down and leaves Poseidon alone.
#[test]
fn the_path_of_acks_matters_to_swift_alone() {
    let share = |name: &str, others: usize| {
        let (mut net, line, a, b) = dumbbell(1 + others, 10, 10, 2 * US);
        // One target for all, as published: what flows that begin together learn has a queue in it.
        let spec = match name {
            "swift" => Spec::swift(&swift::Config {
                base_target_ns: 40_000,
                ..swift::Config::default()
            })
            .unwrap(),
            _ => law(name, 20),
        };
        let cc = net.spec(spec);
        net.flow(cc, format_of(name), a[0], b[0], 0, Work::Long);
        for i in 1..=others {
            net.flow(cc, format_of(name), b[i], a[i], 0, Work::Long);
        }
        let mut sim = net.sim();
        let (rates, ..) = measure(&mut sim, line, 20 * MS, 50 * MS, 1);
        let share = rates[0] / (10.0 * f64::from(sim.mss(0)) / 1538.0);
        println!("{name}, {others} flows the other way: {share:.3}");
        share
    };
    // The ACKs of the others, one of 98 bytes for two packets, take their part of the line.
    let left = 1.0 - 98.0 / (2.0 * 1538.0);
    assert!(share("poseidon", 8) > 0.96 * left);
    assert!(share("swift", 8) < 0.8);
}
