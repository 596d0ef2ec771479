// SPDX-License-Identifier: GPL-2.0
//! Queue laws, faults and applications: each does what it is there for.

mod net;

use fathom_sim::cc::{cubic, Spec};
use fathom_sim::discipline::Discipline;
use fathom_sim::fault::Faults;
use fathom_sim::rng::{probability, Rng};
use fathom_sim::sim::{Pool, Setup, Sim, Work};
use fathom_sim::time::{MS, NEVER, US};
use net::*;

/// Dynamic Thresholds: one busy port of a switch holds α/(1 + α) of the buffer, not all of it.
#[test]
fn a_lone_port_leaves_part_of_a_shared_buffer() {
    for (alpha, part) in [(1.0, 0.5), (2.0, 2.0 / 3.0), (0.25, 0.2)] {
        let (mut net, hosts, down) = star(5, 10, 5 * US);
        let cc = net.spec(law("cubic", 0));
        for i in 1..5 {
            net.flow(cc, None, hosts[i], hosts[0], 0, Work::Long);
        }
        let mut pool = Pool::new(1_000_000, alpha);
        for &p in &down {
            net.ports[p].pool = 0;
            pool.ports.push(p as u32);
        }
        let node_of_port = net.ends.iter().map(|e| e.0 as u32).collect();
        let mut sim = Sim::new(Setup {
            ports: net.ports,
            pools: vec![pool],
            node_of_port,
            specs: net.specs,
            flows: net.flows,
            tcp: net.tcp,
            mtu: MTU,
            seed: 1,
            rotor: None,
        });
        sim.run_until(50 * MS);
        let c = sim.ports[down[0]].counters;
        let most = f64::from(c.max_bytes) / 1e6;
        assert!(c.drops > 0, "alpha {alpha}: the buffer was filled");
        assert!(
            (part - 0.01..=part + 0.01).contains(&most),
            "alpha {alpha}: {most}"
        );
    }
}

fn two_cubics(discipline: Discipline, ecn: bool) -> (f64, f64, Sim, usize) {
    let (mut net, line, a, b) = dumbbell(2, 40, 10, 20 * US);
    net.ports[line].limit = 4_000_000;
    net.ports[line].set_discipline(discipline);
    let config = cubic::Config {
        ecn,
        ..Default::default()
    };
    let cc = net.spec(Spec::Cubic(config));
    for i in 0..2 {
        net.flow(cc, None, a[i], b[i], i as u64 * US, Work::Long);
    }
    let mut sim = net.sim();
    let (rates, mean, _) = measure(&mut sim, line, 100 * MS, 200 * MS, 2);
    (rates.iter().sum(), mean, sim, line)
}

/// CoDel keeps the queue short by dropping, by marking, and by marking ACKs; a plain FIFO does not.
#[test]
fn codel_keeps_the_queue_short() {
    let codel = |ecn, rpm| Discipline::codel(100_000, 2_000_000, ecn, rpm);
    let (_, fifo, ..) = two_cubics(Discipline::Fifo, false);
    let (rate, dropped, sim, line) = two_cubics(codel(false, false), false);
    println!("fifo {fifo:.0} us, codel {dropped:.0} us at {rate:.2} Gbit/s");
    assert!(fifo > 500.0 && dropped < 0.5 * fifo && rate > 8.0);
    assert!(sim.ports[line].counters.drops > 0 && sim.ports[line].counters.marks == 0);
    for rpm in [false, true] {
        let (rate, marked, sim, line) = two_cubics(codel(true, rpm), true);
        println!("rpm {rpm}: {marked:.0} us at {rate:.2} Gbit/s");
        let c = sim.ports[line].counters;
        assert!(marked < 0.5 * fifo && rate > 8.0 && c.marks > 0);
        let retransmits: u64 = (0..2).map(|f| sim.sender_counters(f).retransmits).sum();
        // Slow start may overrun the buffer before the first marks; after it nothing is lost.
        assert!(retransmits < 4000, "{retransmits}");
    }
}

/// RED marks between its thresholds and not below.
#[test]
fn red_holds_dctcp_between_its_thresholds() {
    let red = Discipline::Red {
        min: 50_000,
        max: 200_000,
        most: probability(0.5),
        ecn: true,
    };
    let (mut net, line, a, b) = dumbbell(2, 40, 10, 5 * US);
    net.ports[line].set_discipline(red);
    let cc = net.spec(law("dctcp", 0));
    for i in 0..2 {
        net.flow(cc, None, a[i], b[i], 0, Work::Long);
    }
    let mut sim = net.sim();
    let (rates, mean, _) = measure(&mut sim, line, 20 * MS, 60 * MS, 2);
    println!("{mean:.1} us, {rates:?}");
    assert!((30.0..160.0).contains(&mean), "{mean} us");
    assert!(sim.ports[line].counters.marks > 0 && sim.ports[line].counters.drops == 0);
}

/// Without telemetry, whatever the reason, the laws that live by it still fill a link.
#[test]
fn laws_live_without_telemetry() {
    for name in ["poseidon", "powertcp", "hpcc"] {
        for strip in [true, false] {
            let (mut net, line, a, b) = dumbbell(1, 40, 10, 2 * US);
            let cc = net.spec(law(name, 20));
            net.flow(cc, format_of(name), a[0], b[0], 0, Work::Long);
            for (p, port) in net.ports.iter_mut().enumerate() {
                let mut faults = Faults::new(Rng::new(p as u64));
                faults.int_off = !strip;
                faults.strip = if strip { probability(1.0) } else { 0 };
                port.faults = Some(Box::new(faults));
            }
            let mut sim = net.sim();
            let (rates, mean, _) = measure(&mut sim, line, 20 * MS, 60 * MS, 1);
            println!(
                "{name}, stripped {strip}: {:.2} Gbit/s, queue {mean:.1} us",
                rates[0]
            );
            assert!(
                rates[0] > 0.85 * 9.3,
                "{name}, stripped {strip}: {:.2}",
                rates[0]
            );
        }
    }
}

/// A wire that is cut for a while: nothing arrives meanwhile, everything does in the end.
#[test]
fn a_cut_wire_heals() {
    let (mut net, line, a, b) = dumbbell(1, 10, 10, 5 * US);
    let cc = net.spec(law("poseidon", 30));
    net.flow(
        cc,
        format_of("poseidon"),
        a[0],
        b[0],
        0,
        Work::Bytes(20_000_000),
    );
    let mut sim = net.sim();
    for (at, down) in [(2 * MS, true), (5 * MS, false)] {
        let change = move |sim: &mut Sim, _| {
            sim.change_port(line as u32, |port| {
                let faults = port
                    .faults
                    .get_or_insert_with(|| Box::new(Faults::new(Rng::new(1))));
                faults.down = down;
            });
        };
        sim.change_at(at, Box::new(change));
    }
    sim.run_until(2 * MS + 100 * US);
    let before = sim.state(0).delivered_bytes;
    sim.run_until(5 * MS);
    assert_eq!(sim.state(0).delivered_bytes, before, "while it is cut");
    sim.run_until(2000 * MS);
    assert_ne!(sim.state(0).finished, NEVER);
    assert_eq!(sim.state(0).delivered_bytes, 20_000_000);
    assert!(sim.sender_counters(0).retransmits > 0);
}

/// Another rate in the middle of a run is obeyed at once.
#[test]
fn a_link_changes_its_rate() {
    let (mut net, line, a, b) = dumbbell(1, 40, 10, 2 * US);
    let cc = net.spec(law("powertcp", 0));
    net.flow(cc, format_of("powertcp"), a[0], b[0], 0, Work::Long);
    let mut sim = net.sim();
    let (fast, ..) = measure(&mut sim, line, 10 * MS, 20 * MS, 1);
    sim.change_port(line as u32, |port| port.set_rate(1_000_000_000));
    let (slow, ..) = measure(&mut sim, line, 30 * MS, 50 * MS, 1);
    assert!(
        fast[0] > 9.0 && (0.85..0.95).contains(&slow[0]),
        "{fast:?} {slow:?}"
    );
}

/// Request and answer take what two transfers take; an application with a rate has that rate.
#[test]
fn applications() {
    let (mut net, _, a, b) = dumbbell(2, 10, 10, 5 * US);
    let cc = net.spec(law("reno", 0));
    let rpc = Work::Rpc {
        request: 1448,
        response: 14_480,
        count: 20,
        think: 100 * US,
    };
    net.flow(cc, None, a[0], b[0], 0, rpc);
    let slow = net.flow(cc, None, a[1], b[1], 0, Work::Long);
    net.flows[slow].app_bps = 1_000_000_000;
    let mut sim = net.sim();
    sim.run_until(100 * MS);
    assert_eq!(sim.state(0).answers, 20);
    assert_ne!(sim.state(0).finished, NEVER);
    let latency = sim.latencies(0).expect("there were answers");
    // 3 hops of 1231 ns and 5 us each way, and nine packets more on the way back.
    let least = 6.0 * (1230.4 + 5000.0) + 9.0 * 1230.4;
    assert!((latency.least().expect("some") as f64) >= least - 1.0);
    assert!(latency.mean() < 1.1 * least, "{} ns", latency.mean());
    let rate = sim.state(1).delivered_bytes as f64 * 8.0 / 1e8;
    assert!((0.98..1.01).contains(&rate), "{rate} Gbit/s");
}

/// Messages of one connection that stands: they queue behind each other, each is whole, and none waits for a handshake or
/// begins with a first window.
#[test]
fn messages_queue_on_a_standing_connection() {
    let (mut net, _, a, b) = dumbbell(1, 10, 10, 5 * US);
    let cc = net.spec(law("cubic", 0));
    let sizes = [1, 1448, 1449, 2_000_000, 100_000, 100_000, 7];
    // The fourth takes 1.6 ms; the fifth and sixth come meanwhile, the last long after.
    let starts = [0, 1000, 2000, 3000, 3500, 3500, 20_000];
    for (&bytes, &start) in sizes.iter().zip(&starts) {
        let id = net.flow(cc, None, a[0], b[0], start * US, Work::Bytes(bytes));
        net.flows[id].on = Some(0);
    }
    let alone = net.flow(cc, None, a[0], b[0], 30_000 * US, Work::Bytes(100_000));
    let mut sim = net.sim();
    sim.run_until(100 * MS);
    let mut finished = 0;
    for (id, &bytes) in sizes.iter().enumerate() {
        let state = sim.state(id as u32);
        assert_eq!(
            (state.delivered_bytes, state.acked_bytes),
            (bytes, bytes),
            "{id}"
        );
        assert_eq!(state.started, starts[id] * US);
        assert!(state.done && state.finished >= state.received && state.received > state.started);
        assert!(state.finished >= finished, "in order");
        finished = state.finished;
        sim.release_flow(id as u32);
    }
    let took = |id: u32| sim.state(id).finished - sim.state(id).started;
    // 3 links of 5 us each way: a handshake and then a round trip when it is opened, a round trip later.
    assert!((60 * US..65 * US).contains(&took(0)), "{} ps", took(0));
    assert!((30 * US..35 * US).contains(&took(1)), "{} ps", took(1));
    // Two segments, of which the second has one byte.
    assert!((30 * US..37 * US).contains(&took(2)), "{} ps", took(2));
    // Queued behind 2 MB, of which 500 us have gone.
    assert!(took(4) > 1000 * US, "{} ps", took(4));
    assert!(took(5) > took(4) && took(5) < took(4) + 100 * US);
    assert!(took(6) < 35 * US, "{} ps", took(6));
    assert!(sim.sender(0).is_some(), "it stands");
    // A connection of its own shakes hands, and needs four rounds for its 70 segments.
    assert!(took(alone as u32) > 150 * US, "{} ps", took(alone as u32));
}

/// Losses on a standing connection are repaired, and counted once.
#[test]
fn a_standing_connection_repairs_losses() {
    let (mut net, line, a, b) = dumbbell(1, 10, 10, 5 * US);
    net.tcp.min_rto_ns = 5_000_000;
    let cc = net.spec(law("reno", 0));
    for i in 0..200 {
        let id = net.flow(
            cc,
            None,
            a[0],
            b[0],
            i * 50 * US,
            Work::Bytes(20_000 + i * 777),
        );
        net.flows[id].on = Some(0);
    }
    let mut sim = net.sim();
    sim.change_port(line as u32, |port| {
        let mut faults = Faults::new(Rng::new(3));
        faults.loss = probability(0.01);
        port.faults = Some(Box::new(faults));
    });
    sim.run_until(5000 * MS);
    for i in 0..200u32 {
        let (state, bytes) = (sim.state(i), 20_000 + u64::from(i) * 777);
        assert_eq!(
            (state.delivered_bytes, state.acked_bytes),
            (bytes, bytes),
            "{i}"
        );
        assert!(state.done, "{i}");
    }
    let counters = sim.sender_counters(0);
    assert!(counters.retransmits > 20 && counters.retransmits < counters.sent / 10);
}
