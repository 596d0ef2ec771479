// SPDX-License-Identifier: GPL-2.0

//! Poseidon on a packet-level network.

mod net;

use laws::poseidon::Config;
use laws::{Path, Poseidon};
use net::{bytes_per_s, Net, Telemetry};

type Sea = Net<Poseidon>;

/// The victim shares one hop with `m` flows and another with `n` (Poseidon Fig. 14a).
fn multihop(config: &Config, gbps: f64, base_us: f64, m: usize, n: usize, us: f64) -> (f64, Sea) {
    let mut net = Sea::new(Telemetry::Mpd(64), 1000);
    let wire_us = net::WIRE as f64 * 8.0 / gbps / 1000.0;
    // Three links on the victim's way out.
    let delay = (base_us - 3.0 * wire_us) / 6.0;
    let a = net.link(gbps, delay);
    let b = net.link(gbps, delay);
    let facts = Path {
        line_rate: bytes_per_s(gbps),
        ..Path::default()
    };
    let host = net.link(gbps, delay);
    let victim = net.flow(config, &[host, a, b], facts, 0.0);
    for i in 0..m {
        let host = net.link(gbps, delay);
        let out = net.link(gbps, delay);
        net.flow(config, &[host, a, out], facts, 1.0 + 3.0 * i as f64);
    }
    for i in 0..n {
        let host = net.link(gbps, delay);
        let up = net.link(gbps, delay);
        net.flow(config, &[host, up, b], facts, 2.0 + 3.0 * i as f64);
    }
    net.run_until_us(us / 2.0);
    net.clear_stats();
    net.run_until_us(us);
    let fair = 1.0 / (m.max(n) as f64 + 1.0);
    (net.share(victim, gbps, us / 2.0) / fair, net)
}

#[test]
fn explore() {
    let published = Config {
        m_thousandths: 250,
        ..Config::published()
    };
    let cases = [
        ("published", published),
        (
            "m=.05",
            Config {
                m_thousandths: 50,
                ..published
            },
        ),
        (
            "adapt",
            Config {
                adapt_m: 1,
                ..published
            },
        ),
        (
            "p60",
            Config {
                max_rate_mbps: 10_000,
                min_rate_mbps: 1,
                p_ns: 60_000,
                k_ns: 3000,
                ..published
            },
        ),
        (
            "p100",
            Config {
                max_rate_mbps: 10_000,
                min_rate_mbps: 1,
                p_ns: 100_000,
                k_ns: 5000,
                ..published
            },
        ),
        (
            "p150",
            Config {
                max_rate_mbps: 10_000,
                min_rate_mbps: 1,
                p_ns: 150_000,
                k_ns: 7500,
                ..published
            },
        ),
        ("default", Config::default()),
        (
            "default-100",
            Config {
                pacing_percent: 100,
                ..Config::default()
            },
        ),
        (
            "default-105",
            Config {
                pacing_percent: 105,
                ..Config::default()
            },
        ),
        (
            "default-200",
            Config {
                pacing_percent: 200,
                ..Config::default()
            },
        ),
        (
            "default-nopace",
            Config {
                pacing_percent: 0,
                ..Config::default()
            },
        ),
    ];
    for (name, c) in cases {
        print!("{name:15}");
        for (m, n) in [(2, 2), (5, 9), (9, 2), (9, 9)] {
            let (share, net) = multihop(&c, 10.0, 33.0, m, n, 40_000.0);
            print!(
                " ({m},{n}) {share:.2} util {:.3} q {:.1}",
                net.utilisation(0, 20_000.0),
                net.queue_us(0).0
            );
        }
        println!();
    }
    for (gbps, base) in [
        (1.0f64, 5.0f64),
        (1.0, 100.0),
        (1.0, 500.0),
        (10.0, 5.0),
        (10.0, 500.0),
        (25.0, 30.0),
        (100.0, 5.0),
        (100.0, 50.0),
        (200.0, 5.0),
        (400.0, 5.0),
        (400.0, 100.0),
    ] {
        let base = if gbps == 1.0 { base + 37.0 } else { base };
        for (name, c) in [
            (
                "p200",
                Config {
                    pacing_percent: 200,
                    ..Config::default()
                },
            ),
            (
                "nopace",
                Config {
                    pacing_percent: 0,
                    ..Config::default()
                },
            ),
            (
                "p200 basertt",
                Config {
                    pacing_percent: 200,
                    base_rtt_us: (base as u32).max(5),
                    ..Config::default()
                },
            ),
        ] {
            print!("{gbps} {base} {name:15}");
            for (m, n) in [(2, 2), (5, 9)] {
                let t = (base * 400.0).max(4000.0);
                let (share, net) = multihop(&c, gbps, base, m, n, t);
                print!(
                    " ({m},{n}) {share:.2} util {:.3} q {:.1}",
                    net.utilisation(0, t / 2.0),
                    net.queue_us(0).0
                );
            }
            println!();
        }
    }
}
