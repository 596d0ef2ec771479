//! x
mod net;
use laws::*;
use net::*;

fn incast<L: Law>(c: &L::Config, tel: Telemetry, n: usize, gbps: f64, base: f64) {
    let mut net = Net::<L>::new(tel, 1);
    let d = base / 4.0;
    let b = net.link(gbps, d);
    for i in 0..n {
        let h = net.link(gbps, d);
        let facts = Path {
            line_rate: bytes_per_s(gbps),
            hops: 1,
            ..Path::default()
        };
        let id = net.flow(c, &[h, b], facts, (i / 2) as f64 * 20.0);
        net.flows[id].facts.base_rtt_ns = net.base_rtt_ns(id) as u32;
    }
    for i in 0..12 {
        net.clear_stats();
        let t = if i < 6 { 50.0 } else { 500.0 };
        net.run_until_us(net.now_ps as f64 / 1e6 + t);
        let s: Vec<f64> = (0..n).map(|i| net.share(i, gbps, t)).collect();
        let q = net.queue_us(b);
        println!(
            "{:8} t {:.0} q {:.1}/{:.1} util {:.3} jain {:.3} w {:.2}",
            L::NAME,
            net.now_ps as f64 / 1e6,
            q.0,
            q.1,
            net.utilisation(b, t),
            jain(&s),
            net.cwnd(0)
        );
    }
}

#[test]
fn explore() {
    incast::<Hpcc>(&hpcc::Config::default(), Telemetry::Stack, 16, 100.0, 4.0);
    println!("50M");
    incast::<Hpcc>(
        &hpcc::Config {
            ai_mbps: 50,
            ..Default::default()
        },
        Telemetry::Stack,
        16,
        100.0,
        4.0,
    );
    println!("VAI");
    incast::<Hpcc>(
        &hpcc::Config {
            ai_mbps: 50,
            vai: variable_ai::Config {
                enabled: 1,
                ..variable_ai::Config::hpcc()
            },
            sampling_acks: 30,
            ..Default::default()
        },
        Telemetry::Stack,
        16,
        100.0,
        4.0,
    );
    println!("bottleneck");
    incast::<Hpcc>(
        &hpcc::Config {
            ai_mbps: 50,
            ..Default::default()
        },
        Telemetry::Bottleneck,
        16,
        100.0,
        4.0,
    );
    println!("none");
    incast::<Hpcc>(
        &hpcc::Config {
            ..Default::default()
        },
        Telemetry::None,
        16,
        100.0,
        4.0,
    );
    incast::<Swift>(&swift::Config::default(), Telemetry::None, 16, 100.0, 4.0);
    println!("swift 50M");
    let c = swift::Config {
        base_target_ns: 5000,
        hop_ns: 2000,
        ai_millipackets: 0,
        ai_mbps: 50,
        fs_max_millipackets: 50_000,
        initial_cwnd_packets: 40,
        ..Default::default()
    };
    incast::<Swift>(&c, Telemetry::None, 16, 100.0, 4.0);
    println!("VAI");
    incast::<Swift>(
        &swift::Config {
            fs_range_ns: 0,
            vai: variable_ai::Config {
                enabled: 1,
                ..variable_ai::Config::swift()
            },
            sampling_acks: 30,
            ..c
        },
        Telemetry::None,
        16,
        100.0,
        4.0,
    );
}
