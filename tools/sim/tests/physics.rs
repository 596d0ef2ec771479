// SPDX-License-Identifier: GPL-2.0
//! The physics of the model: what can be computed by hand comes out to the picosecond, nothing appears or
//! vanishes, nothing overtakes, nothing is faster than its link.

mod net;

use fathom_sim::sim::Work;
use fathom_sim::time::{MS, NEVER, NS, US};
use net::*;

/// A flow that fits into its first window takes what serialisation and wires take, to the picosecond.
#[test]
fn completion_time_is_the_formula() {
    for (gbps, delay) in [(10, 5 * US), (25, US), (100, 245 * NS), (400, 2 * US)] {
        for segments in 1..=10u64 {
            let (mut net, _, a, b) = dumbbell(1, gbps, gbps, delay);
            net.tcp.handshake = false;
            let cc = net.spec(law("reno", 0));
            net.flow(cc, None, a[0], b[0], 7 * US, Work::Bytes(1448 * segments));
            let mut sim = net.sim();
            sim.run_until(10 * MS);
            let byte = 8000 / gbps; // ps
            let full = 1538 * byte;
            // Three store-and-forward links; the packets of one window follow each other on the last.
            let last = 7 * US + 3 * (full + delay) + (segments - 1) * full;
            assert_eq!(
                sim.state(0).received,
                last,
                "{gbps} Gbit/s, {segments} segments"
            );
            let ack = (66 + 24) * byte;
            assert_eq!(sim.state(0).finished, last + 3 * (ack + delay));
        }
    }
}

/// With a handshake: a round trip of SYN and SYN-ACK more.
#[test]
fn a_handshake_is_a_round_trip() {
    let (mut net, _, a, b) = dumbbell(1, 10, 10, 5 * US);
    let cc = net.spec(law("reno", 0));
    net.flow(cc, None, a[0], b[0], 0, Work::Bytes(1448));
    let mut sim = net.sim();
    sim.run_until(10 * MS);
    let syn = 3 * ((74 + 24) * 800 + 5 * US);
    let data = 3 * (1538 * 800 + 5 * US);
    assert_eq!(sim.state(0).received, 2 * syn + data);
}

/// What a port was offered it sent, dropped, or still has; hosts' counters agree.
#[test]
fn packets_are_conserved() {
    let (mut net, line, a, b) = dumbbell(8, 10, 10, 2 * US);
    net.ports[line].limit = 60_000;
    let cc = net.spec(law("cubic", 0));
    for i in 0..8 {
        net.flow(cc, None, a[i], b[i], i as u64 * 10 * US, Work::Long);
    }
    let mut sim = net.sim();
    for ms in 1..20 {
        sim.run_until(ms * MS);
        let (mut offered, mut gone) = (0, 0);
        for p in 0..sim.ports.len() {
            sim.queue(p as u32);
            let c = sim.ports[p].counters;
            let waiting = c.offered - c.packets - c.drops;
            assert!(waiting <= u64::from(sim.ports[p].packets()), "port {p}");
            offered += c.offered;
            gone += c.drops;
        }
        assert_eq!(
            offered,
            gone + sim.events() + sim.under_way(),
            "after {ms} ms"
        );
    }
    assert!(
        sim.ports[line].counters.drops > 0,
        "the buffer is small enough to overflow"
    );
}

/// No port sends faster than its link, in any millisecond; and the queue stays within its limit.
#[test]
fn no_link_is_faster_than_itself() {
    let (mut net, line, a, b) = dumbbell(4, 40, 10, 2 * US);
    net.ports[line].limit = 200_000;
    let cc = net.spec(law("cubic", 0));
    for i in 0..4 {
        net.flow(cc, None, a[i], b[i], 0, Work::Long);
    }
    let mut sim = net.sim();
    let mut before = vec![0; sim.ports.len()];
    for ms in 1..=20u64 {
        sim.run_until(ms * MS);
        for (p, before) in before.iter_mut().enumerate() {
            let queued = sim.queue(p as u32);
            assert!(queued <= sim.ports[p].limit);
            let c = sim.ports[p].counters;
            let sent = c.bytes - *before;
            *before = c.bytes;
            // One frame may straddle each end.
            let most = sim.ports[p].bps() / 8 / 1000 + 1538;
            assert!(sent <= most, "port {p}: {sent} bytes in a millisecond");
            assert!(c.max_bytes <= sim.ports[p].limit);
        }
    }
    let c = sim.ports[line].counters;
    assert!(
        c.bytes * 8 > 19 * 10 * 1_000_000,
        "the line was busy: {} bytes",
        c.bytes
    );
}

/// First in, first out: without loss every segment arrives in order, whatever the rates.
#[test]
fn links_keep_their_order() {
    let (mut net, _, a, b) = dumbbell(3, 25, 10, 3 * US);
    let cc = net.spec(law("dctcp", 0));
    for i in 0..3 {
        net.flow(cc, None, a[i], b[i], 0, Work::Bytes(5_000_000));
    }
    let mut sim = net.sim();
    sim.run_until(50 * MS);
    for f in 0..3 {
        assert_ne!(sim.state(f).finished, NEVER, "flow {f}");
        assert_eq!(sim.sender_counters(f).retransmits, 0, "flow {f}");
        assert_eq!(sim.sender_counters(f).acked_bytes, 5_000_000);
    }
}
