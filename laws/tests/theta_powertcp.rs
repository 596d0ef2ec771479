// SPDX-License-Identifier: GPL-2.0

//! θ-PowerTCP on a packet-level network.

mod net;

use laws::theta_powertcp::Config;
use laws::{Path, ThetaPowerTcp};
use net::{bytes_per_s, jain, Net, Telemetry};

type Theta = Net<ThetaPowerTcp>;

struct Case {
    host_gbps: f64,
    gbps: f64,
    /// Propagation, both ways, us.
    wire_us: f64,
    clock_ns: u64,
    ack_every: u32,
    flows: usize,
}

/// Hosts with a link of their own each into one bottleneck.
fn build(case: &Case, tau: impl Fn(f64) -> u32, config: &Config) -> Theta {
    let mut net = Theta::new(Telemetry::None, case.clock_ns);
    let bottleneck = net.link(case.gbps, case.wire_us / 4.0);
    for i in 0..case.flows {
        let host = net.link(case.host_gbps, case.wire_us / 4.0);
        let facts = Path {
            line_rate: bytes_per_s(case.host_gbps),
            ..Path::default()
        };
        let id = net.flow(config, &[host, bottleneck], facts, i as f64 * 10.0);
        net.flows[id].ack_every = case.ack_every;
        let base = net.base_rtt_ns(id);
        net.flows[id].facts.base_rtt_ns = tau(base);
    }
    net
}

#[test]
fn explore() {
    for (host, gbps, wire, clock, every) in [
        (10.0, 10.0, 19.0, 1, 1),
        (10.0, 10.0, 19.0, 1000, 1),
        (10.0, 10.0, 19.0, 1000, 2),
        (40.0, 10.0, 20.0, 1000, 2),
        (1.0, 1.0, 5.0, 1000, 1),
        (1.0, 1.0, 500.0, 1000, 2),
        (100.0, 100.0, 5.0, 1000, 2),
        (100.0, 100.0, 20.0, 1000, 2),
        (400.0, 400.0, 5.0, 1000, 2),
        (400.0, 400.0, 500.0, 1000, 2),
    ] {
        for flows in [1usize, 4, 16] {
            for (name, f) in [
                ("learned", 0.0),
                ("exact", 1.0),
                ("+10%", 1.1),
                ("-15%", 0.85),
            ] {
                let case = Case {
                    host_gbps: host,
                    gbps,
                    wire_us: wire,
                    clock_ns: clock,
                    ack_every: every,
                    flows,
                };
                let mut net = build(
                    &case,
                    |b| if f == 0.0 { 0 } else { (b * f) as u32 },
                    &Config::default(),
                );
                let warm = if flows == 1 {
                    wire * 60.0 + 500.0
                } else {
                    wire * 400.0 + 2000.0
                };
                let run = (wire * 200.0 + 1000.0).min(30_000.0);
                net.run_until_us(warm);
                net.clear_stats();
                net.run_until_us(warm + run);
                let (mean, p99) = net.queue_us(0);
                let shares: Vec<f64> = (0..flows).map(|i| net.share(i, gbps, run)).collect();
                println!(
                "{host:5} {gbps:5} {wire:5}us clock {clock:4} ack/{every} x{flows} {name:8} util {:.3} q mean {mean:7.2} p99 {p99:7.2} cwnd {:8.2} tau {:6} base {:.0} jain {:.3}",
                net.utilisation(0, run), net.cwnd(0), net.flows[0].law.base_rtt_ns(), net.base_rtt_ns(0), jain(&shares)
            );
            }
        }
    }
}

#[test]
fn trace() {
    let case = Case {
        host_gbps: 10.0,
        gbps: 10.0,
        wire_us: 19.0,
        clock_ns: 1000,
        ack_every: 2,
        flows: 16,
    };
    let mut net = build(&case, |b| 0, &Config::default());
    for i in 0..60 {
        net.run_until_us(f64::from(i) * 1000.0);
        let taus: Vec<u32> = net
            .flows
            .iter()
            .map(|f| f.law.base_rtt_ns() / 1000)
            .collect();
        let q = net.queue_us(0);
        println!(
            "{i}ms q {:.1} {:.1} util {:.3} taus {taus:?}",
            q.0,
            q.1,
            net.utilisation(0, 1000.0)
        );
        net.clear_stats();
    }
}
