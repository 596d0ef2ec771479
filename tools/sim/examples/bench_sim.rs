// SPDX-License-Identifier: GPL-2.0
//! How fast the simulator is: packet-hop events per second on one core, by law and by number of hosts.
//!
//!     cargo run --release -p fathom-sim --example bench_sim [dumbbell PACKETS | hosts N | laws]
//!
//! `dumbbell` is the run that `tools/sim/bench/dumbbell.cc` does with ns-3.

#[path = "../tests/net/mod.rs"]
mod net;

use fathom_sim::sim::Work;
use fathom_sim::time::{MS, NEVER, US};
use net::*;

/// CPU time of this thread, s: what a busy machine does besides is not counted.
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns: u64 = stat
        .split(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    ns as f64 / 1e9
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, or: u64| args.get(at).and_then(|a| a.parse().ok()).unwrap_or(or);
    match args.first().map(String::as_str) {
        Some("dumbbell") => run_dumbbell(number(1, 1_000_000)),
        Some("hosts") => run_hosts(
            number(1, 256) as usize,
            number(2, 10_000_000),
            args.get(3).map_or("poseidon", String::as_str),
        ),
        Some("laws") | None => {
            for name in [
                "poseidon",
                "powertcp",
                "theta_powertcp",
                "hpcc",
                "swift",
                "dctcp",
                "cubic",
                "timely",
                "dcqcn",
            ] {
                print!("{name:16}");
                run_hosts(64, number(1, 10_000_000), name);
            }
        }
        Some(other) => {
            eprintln!("bench_sim: no run called {other}: dumbbell, hosts or laws");
            std::process::exit(2);
        }
    }
}

/// Ten pairs over one 10 Gbit/s link, Reno, an ACK per packet, receive windows of 64 segments, `packets` of payload
/// in all.
fn run_dumbbell(packets: u64) {
    let (mut net, line, a, b) = dumbbell(10, 10, 10, 10 * US);
    net.ports[line].limit = 1000 * 1500;
    net.tcp.ack_every = 1;
    net.tcp.receive_window = 64 * 1448;
    let cc = net.spec(law("reno", 0));
    for i in 0..10 {
        net.flow(
            cc,
            None,
            a[i],
            b[i],
            i as u64 * 10 * US,
            Work::Bytes(1448 * packets / 10),
        );
    }
    let mut sim = net.sim();
    let begin = cpu_s();
    sim.run_until(1000 * 1000 * MS);
    let seconds = cpu_s() - begin;
    let last = (0..10)
        .map(|f| sim.state(f).finished)
        .max()
        .unwrap_or(NEVER);
    assert_ne!(last, NEVER, "all flows finish");
    let sent: u64 = (0..10).map(|f| sim.sender_counters(f).sent).sum();
    println!(
        "packets {packets} sent {sent} events {} seconds {seconds:.3} events_per_s {:.0} network_s {:.6} drops {}",
        sim.events(),
        sim.events() as f64 / seconds,
        last as f64 / 1e12,
        sim.ports[line].counters.drops,
    );
}

/// Racks of 16 hosts under as many spines as half a rack; every host sends to another rack and hears from
/// one; until `events` packets have arrived at the end of a link.
fn run_hosts(hosts: usize, events: u64, name: &str) {
    let mut net = Net::default();
    let racks = hosts.div_ceil(16);
    let spines: Vec<usize> = (0..8).map(|_| net.node(false)).collect();
    let mut all = Vec::new();
    let mut up = Vec::new();
    let mut down = Vec::new();
    let mut access = Vec::new();
    for _ in 0..racks {
        let leaf = net.node(false);
        up.push(
            spines
                .iter()
                .map(|&s| net.link(leaf, s, 40, US))
                .collect::<Vec<_>>(),
        );
        for _ in 0..16.min(hosts) {
            let host = net.node(true);
            access.push(net.link(host, leaf, 25, US));
            all.push(host);
        }
    }
    down.resize(racks, ());
    let cc = net.spec(law(name, 12));
    let n = all.len();
    for i in 0..n {
        let j = (i + n / 2 + 1) % n;
        let (ri, rj) = (i / 16, j / 16);
        let hash = (i * 7 + j * 13) % 8;
        let way = |x: usize, y: usize, rx: usize, ry: usize| {
            let mut path = vec![access[x] as u32];
            if rx != ry {
                path.push(up[rx][hash] as u32);
                path.push(up[ry][hash] as u32 + 1);
            }
            path.push(access[y] as u32 + 1);
            path
        };
        net.flows.push(fathom_sim::FlowSpec {
            start: i as u64 * 1000,
            stop: NEVER,
            work: Work::Long,
            app_bps: 0,
            spec: cc,
            ecn: net.specs[cc as usize].ecn(),
            format: format_of(name),
            path: way(i, j, ri, rj),
            back: way(j, i, rj, ri),
            base_rtt_ns: 0,
            group: 0,
            racks: (0, 0),
            on: None,
        });
    }
    let mut sim = net.sim();
    // The queues fill in the first 200 us, which are not measured.
    sim.run_until(200 * US);
    let (before, begin) = (sim.events(), cpu_s());
    let mut at = 200 * US;
    while sim.events() - before < events {
        at += 10 * US;
        sim.run_until(at);
    }
    let seconds = cpu_s() - begin;
    let done = sim.events() - before;
    println!(
        "hosts {hosts} law {name} events {done} seconds {seconds:.3} events_per_s {:.0} ns_per_event {:.1} network_us {}",
        done as f64 / seconds,
        seconds * 1e9 / done as f64,
        at / US,
    );
}
