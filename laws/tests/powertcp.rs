// SPDX-License-Identifier: GPL-2.0

//! PowerTCP on a packet-level network.

mod net;

use laws::theta_powertcp::Config;
use laws::{Path, PowerTcp};
use net::{bytes_per_s, jain, Net, Telemetry};

type Power = Net<PowerTcp>;

fn facts(gbps: f64) -> Path {
    Path {
        line_rate: bytes_per_s(gbps),
        ..Path::default()
    }
}

fn incast(tel: Telemetry) -> Power {
    let mut net = Power::new(tel, 1);
    let d = (17.9 - 3.0 * 0.492) / 6.0;
    let a = net.link(25.0, d);
    let b = net.link(25.0, d);
    let h = net.link(25.0, d);
    net.flow(&Config::default(), &[h, a, b], facts(25.0), 0.0);
    for i in 0..10 {
        let h = net.link(25.0, d);
        let u = net.link(25.0, d);
        net.flow(
            &Config::default(),
            &[h, u, b],
            facts(25.0),
            500.0 + i as f64 * 0.1,
        );
    }
    for f in 0..11 {
        net.flows[f].facts.base_rtt_ns = 17900;
    }
    net
}
fn parking(tel: Telemetry) -> Power {
    let mut net = Power::new(tel, 1);
    let d = (17.9 - 3.0 * 0.492) / 6.0;
    let a = net.link(25.0, d);
    let b = net.link(25.0, d);
    let h = net.link(25.0, d);
    net.flow(&Config::default(), &[h, a, b], facts(25.0), 0.0);
    for i in 0..3 {
        let h = net.link(25.0, d);
        let u = net.link(25.0, d);
        net.flow(&Config::default(), &[h, a, u], facts(25.0), 5.0 + i as f64);
    }
    for i in 0..5 {
        let h = net.link(25.0, d);
        let u = net.link(25.0, d);
        net.flow(&Config::default(), &[h, u, b], facts(25.0), 10.0 + i as f64);
    }
    for f in 0..9 {
        net.flows[f].facts.base_rtt_ns = 17900;
    }
    net
}

#[test]
fn explore() {
    for tel in [Telemetry::Stack, Telemetry::Bottleneck, Telemetry::None] {
        let mut net = incast(tel);
        net.run_until_us(400.0);
        net.clear_stats();
        net.run_until_us(500.0);
        println!(
            "alone util {:.3} q {:?} cwnd {}",
            net.utilisation(0, 100.0),
            net.queue_us(0),
            net.cwnd(0)
        );
        net.clear_stats();
        let mut out = String::new();
        for i in 0..30 {
            net.run_until_us(500.0 + 20.0 * i as f64);
            let q = net.queue_us(1);
            out += &format!("{:.0} ", q.0);
            net.links[1].waits_ps.clear();
        }
        println!("{out}");
        net.clear_stats();
        let t0 = 1100.0;
        net.run_until_us(t0 + 3000.0);
        let (m, p) = net.queue_us(1);
        let s: Vec<f64> = (0..11).map(|i| net.share(i, 25.0, 3000.0) * 25.0).collect();
        println!(
            "{tel:?} incast q {m:.1} {p:.1} util {:.3} long {:.2} jain {:.3}",
            net.utilisation(1, 3000.0),
            s[0],
            jain(&s)
        );
        let mut net = parking(tel);
        net.run_until_us(2000.0);
        net.clear_stats();
        net.run_until_us(5000.0);
        let s: Vec<f64> = (0..9).map(|i| net.share(i, 25.0, 3000.0) * 25.0).collect();
        println!(
            "{tel:?} parking q {:?} {:?} util {:.3} {:.3} shares {s:.2?}",
            net.queue_us(0),
            net.queue_us(1),
            net.utilisation(0, 3000.0),
            net.utilisation(1, 3000.0)
        );
    }
}
#[test]
fn trace() {
    let mut net = incast(Telemetry::Bottleneck);
    net.run_until_us(500.0);
    let mut last = 0.0;
    let log = std::rc::Rc::new(std::cell::RefCell::new(String::new()));
    let l = log.clone();
    net.watch = Some(Box::new(move |f, a| {
        if f == 3 {
            if let laws::Int::Bottleneck(r) = a.int {
                l.borrow_mut().push_str(&format!(
                    "  ack {} hop {} q {} ts {} tx {} rtt {}\n",
                    a.now_ns, r.hop_id, r.qlen_bytes, r.ts_ns, r.tx_bytes, a.rtt_ns
                ));
            }
        }
    }));
    for i in 0..8000 {
        net.run_until_us(500.0 + f64::from(i) * 0.1);
        let w = net.cwnd(3);
        if w != last || !log.borrow().is_empty() {
            last = w;
            print!("{}", log.borrow());
            log.borrow_mut().clear();
            println!(
                "{:.1} w {w:.2} power {:.3}",
                f64::from(i) * 0.1,
                f64::from(net.flows[3].law.power()) / f64::from(1 << 24)
            );
        }
    }
}
