// SPDX-License-Identifier: GPL-2.0

//! A packet-level network, small enough to trust: FIFO links, paced window-limited senders, an
//! uncongested way back.
//!
//! It exists to put the laws to the test inside this crate; it knows nothing of losses or buffers.
//! Time is counted in picoseconds, so that a packet at 400 Gbit/s is 30 000 of them.

#![allow(dead_code)]

use laws::math::{CWND_SHIFT, ONE_PACKET};
use laws::{Ack, Calm, Coverage, HopHistory, Int, Law, Mpd, Path, Record, Wrap};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub const PS_PER_US: u64 = 1_000_000;
pub const PS_PER_NS: u64 = 1000;
pub const MTU: u64 = 1500;
/// Ethernet header, FCS, preamble and gap; IPv4, TCP and timestamps.
pub const FRAMING: u64 = 38;
pub const HEADERS: u64 = 52;
pub const MSS: u64 = MTU - HEADERS;
pub const SYN: u64 = 84;
pub const WIRE: u64 = MTU + FRAMING;

/// A held-back ACK goes after this; kernels wait for 40 ms, which a window of two packets never
/// meets.
const DELAYED_ACK_PS: u64 = 40_000 * PS_PER_US;

/// Which telemetry the links write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Telemetry {
    None,
    /// Maximum per-hop delay, in steps of this many ns.
    Mpd(u32),
    Bottleneck,
    Stack,
}

pub struct Link {
    pub gbps: f64,
    pub delay_ps: u64,
    pub int: bool,
    queue: VecDeque<usize>,
    queued_bytes: u64,
    busy: bool,
    tx_bytes: u64,
    /// Utilisation seen by the bottleneck key, smoothed.
    util: f64,
    util_at: u64,
    /// Since the statistics were cleared.
    pub sent_bytes: u64,
    pub waits_ps: Vec<u64>,
}

#[derive(Clone, Default)]
struct Packet {
    flow: usize,
    hop: usize,
    sent_ps: u64,
    arrived_ps: u64,
    prior_delivered: u32,
    mpd_ps: u64,
    sum_ps: u64,
    key: u32,
    record: Record,
    stack: Vec<Record>,
    size: u64,
    handshake: bool,
}

pub struct Flow<L: Law> {
    pub law: L,
    pub params: L::Params,
    pub hops: HopHistory,
    pub calm: Calm,
    /// ACKs, and those of them that were looked at.
    pub acks: u64,
    pub looks: u64,
    pub path: Vec<usize>,
    pub facts: Path,
    /// Way back, ps.
    pub return_ps: u64,
    pub start_ps: u64,
    pub stop_ps: u64,
    /// Packets per ACK.
    pub ack_every: u32,
    next_send_ps: u64,
    wakeup: bool,
    in_flight: u32,
    delivered: u32,
    /// Received and not yet acknowledged.
    unacked: u32,
    held: Option<usize>,
    pub goodput: u64,
    pub ewma_gbps: f64,
    pub started: bool,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Dequeue(usize),
    Arrive(usize, usize),
    Deliver(usize),
    Acked(usize, u32),
    AckTimer(usize),
    Wake(usize),
    Start(usize),
}

pub struct Net<L: Law> {
    pub now_ps: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    pub links: Vec<Link>,
    pub flows: Vec<Flow<L>>,
    packets: Vec<Packet>,
    free: Vec<usize>,
    pub telemetry: Telemetry,
    /// RTTs are differences of a clock with this step, ns.
    pub clock_ns: u64,
    /// Extra host delay of an ACK, uniform up to this, ns.
    pub jitter_ns: u64,
    seed: u64,
    /// RTT samples of flow 0 since the statistics were cleared, ns.
    pub rtts_ns: Vec<u32>,
}

impl<L: Law> Net<L> {
    pub fn new(telemetry: Telemetry, clock_ns: u64) -> Self {
        Self {
            now_ps: 0,
            events: BinaryHeap::new(),
            order: 0,
            links: Vec::new(),
            flows: Vec::new(),
            packets: Vec::new(),
            free: Vec::new(),
            telemetry,
            clock_ns,
            jitter_ns: 0,
            seed: 1,
            rtts_ns: Vec::new(),
        }
    }

    pub fn link(&mut self, gbps: f64, delay_us: f64) -> usize {
        self.links.push(Link {
            gbps,
            delay_ps: (delay_us * PS_PER_US as f64) as u64,
            int: true,
            queue: VecDeque::new(),
            queued_bytes: 0,
            busy: false,
            tx_bytes: 0,
            util: 0.0,
            util_at: 0,
            sent_bytes: 0,
            waits_ps: Vec::new(),
        });
        self.links.len() - 1
    }

    /// Adds a flow over `path` from `start_us` on; returns its number. `facts` are completed with
    /// the packet sizes.
    pub fn flow(
        &mut self,
        config: &L::Config,
        path: &[usize],
        mut facts: Path,
        start_us: f64,
    ) -> usize {
        facts.mss = MSS as u16;
        facts.overhead = (WIRE - MSS) as u16;
        facts.clock_ns = self.clock_ns as u16;
        let start_ps = (start_us * PS_PER_US as f64) as u64;
        let return_ps = path.iter().map(|&l| self.links[l].delay_ps).sum();
        self.flows.push(Flow {
            law: L::default(),
            params: L::prepare(config).expect("a valid configuration"),
            hops: HopHistory::default(),
            calm: Calm::default(),
            acks: 0,
            looks: 0,
            path: path.to_vec(),
            facts,
            return_ps,
            start_ps,
            stop_ps: u64::MAX,
            ack_every: 1,
            next_send_ps: 0,
            wakeup: false,
            in_flight: 0,
            delivered: 0,
            unacked: 0,
            held: None,
            goodput: 0,
            ewma_gbps: 0.0,
            started: false,
        });
        let id = self.flows.len() - 1;
        self.at(start_ps, Event::Start(id));
        id
    }

    /// Base RTT of a full-size packet on the path of `flow`, ns.
    pub fn base_rtt_ns(&self, flow: usize) -> f64 {
        let f = &self.flows[flow];
        let way: f64 = f
            .path
            .iter()
            .map(|&l| {
                self.links[l].delay_ps as f64 / 1000.0 + WIRE as f64 * 8.0 / self.links[l].gbps
            })
            .sum();
        way + f.return_ps as f64 / 1000.0
    }

    fn at(&mut self, ps: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((ps, self.order, event)));
    }

    fn random(&mut self) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed
    }

    pub fn clear_stats(&mut self) {
        for link in &mut self.links {
            link.sent_bytes = 0;
            link.waits_ps.clear();
        }
        for flow in &mut self.flows {
            flow.goodput = 0;
        }
        self.rtts_ns.clear();
    }

    pub fn run_until_us(&mut self, us: f64) {
        let end = (us * PS_PER_US as f64) as u64;
        while let Some(Reverse((ps, _, _))) = self.events.peek() {
            if *ps > end {
                break;
            }
            let Some(Reverse((ps, _, event))) = self.events.pop() else {
                break;
            };
            self.now_ps = ps;
            match event {
                Event::Start(flow) => self.start(flow),
                Event::Wake(flow) => {
                    self.flows[flow].wakeup = false;
                    self.send(flow);
                }
                Event::Arrive(link, packet) => self.arrive(link, packet),
                Event::Dequeue(link) => self.dequeue(link),
                Event::AckTimer(flow) => self.ack_timer(flow),
                Event::Deliver(packet) => self.deliver(packet),
                Event::Acked(packet, count) => self.acked(packet, count),
            }
        }
        self.now_ps = end;
    }

    /// A SYN goes through whatever queue there is.
    fn start(&mut self, id: usize) {
        let packet = Packet {
            flow: id,
            sent_ps: self.now_ps,
            size: SYN,
            handshake: true,
            ..Packet::default()
        };
        let slot = self.store(packet);
        let first = self.flows[id].path[0];
        self.arrive(first, slot);
    }

    fn established(&mut self, id: usize, handshake_rtt_ns: u32) {
        let now_ns = self.now_ps / PS_PER_NS;
        let flow = &mut self.flows[id];
        flow.facts.handshake_rtt_ns = handshake_rtt_ns;
        flow.law.start(&flow.params, &flow.facts, now_ns);
        flow.started = true;
        flow.next_send_ps = self.now_ps;
        self.send(id);
    }

    fn store(&mut self, packet: Packet) -> usize {
        match self.free.pop() {
            Some(slot) => {
                self.packets[slot] = packet;
                slot
            }
            None => {
                self.packets.push(packet);
                self.packets.len() - 1
            }
        }
    }

    fn send(&mut self, id: usize) {
        loop {
            let now = self.now_ps;
            let flow = &mut self.flows[id];
            if !flow.started
                || now >= flow.stop_ps
                || flow.in_flight >= flow.law.cwnd_packets_at(flow.delivered)
            {
                return;
            }
            if now < flow.next_send_ps {
                if !flow.wakeup {
                    flow.wakeup = true;
                    let at = flow.next_send_ps;
                    self.at(at, Event::Wake(id));
                }
                return;
            }
            let rate = flow.law.pacing_rate(&flow.params);
            assert!(rate > 0, "a started flow has a pacing rate");
            if rate != u64::MAX {
                let gap = MSS as f64 / rate as f64 * 1e12;
                flow.next_send_ps = now.max(flow.next_send_ps) + gap as u64;
            }
            flow.in_flight += 1;
            let packet = Packet {
                flow: id,
                hop: 0,
                sent_ps: now,
                arrived_ps: now,
                prior_delivered: flow.delivered,
                size: WIRE,
                ..Packet::default()
            };
            let first = flow.path[0];
            let slot = self.store(packet);
            self.arrive(first, slot);
        }
    }

    fn arrive(&mut self, link: usize, packet: usize) {
        self.packets[packet].arrived_ps = self.now_ps;
        let size = self.packets[packet].size;
        let l = &mut self.links[link];
        l.queue.push_back(packet);
        l.queued_bytes += size;
        if !l.busy {
            self.transmit(link);
        }
    }

    fn transmit(&mut self, link: usize) {
        let now = self.now_ps;
        let telemetry = self.telemetry;
        let l = &mut self.links[link];
        let Some(packet) = l.queue.pop_front() else {
            l.busy = false;
            return;
        };
        l.busy = true;
        let p = &mut self.packets[packet];
        l.queued_bytes -= p.size;
        l.tx_bytes += p.size;
        l.sent_bytes += p.size;
        let wait = now - p.arrived_ps;
        l.waits_ps.push(wait);
        p.sum_ps += wait;
        let wire_ps = (p.size as f64 * 8000.0 / l.gbps) as u64;
        // Utilisation over about 20 us.
        let gap = now.saturating_sub(l.util_at) as f64;
        let weight = (gap / (20.0 * PS_PER_US as f64)).min(1.0);
        if gap > 0.0 {
            l.util += weight * ((wire_ps as f64 / gap.max(wire_ps as f64)) - l.util);
        }
        l.util_at = now;
        if l.int {
            let wrap = match telemetry {
                Telemetry::Stack => Wrap::STACK,
                _ => Wrap::BOTTLENECK,
            };
            let record = Record {
                hop_id: link as u32,
                qlen_bytes: l.queued_bytes as u32,
                tx_bytes: (l.tx_bytes as u32) & wrap.tx_mask,
                ts_ns: ((now / PS_PER_NS) as u32) & wrap.ts_mask,
                inverse_rate: Record::inverse_rate((l.gbps * 1000.0) as u32),
            };
            match telemetry {
                Telemetry::None => {}
                Telemetry::Mpd(_) => p.mpd_ps = p.mpd_ps.max(wait),
                Telemetry::Stack => p.stack.push(record),
                Telemetry::Bottleneck => {
                    // As on the wire: delay in 64 ns above utilisation in 1/256, queue in 80-byte
                    // cells, 64-byte units.
                    let delay = (wait / PS_PER_NS / 64) as u32;
                    let key = if delay > 0 {
                        256 + delay
                    } else {
                        (l.util * 255.0) as u32
                    };
                    if p.record.inverse_rate == 0 || key > p.key {
                        p.key = key;
                        p.record = record;
                        p.record.qlen_bytes = record.qlen_bytes / 80 * 80;
                        p.record.tx_bytes = record.tx_bytes & !63;
                    }
                }
            }
        }
        self.at(now + wire_ps, Event::Dequeue(link));
        let arrives = now + wire_ps + self.links[link].delay_ps;
        let p = &mut self.packets[packet];
        p.hop += 1;
        let flow = &self.flows[p.flow];
        if let Some(&next) = flow.path.get(p.hop) {
            self.at(arrives, Event::Arrive(next, packet));
        } else {
            self.at(arrives, Event::Deliver(packet));
        }
    }

    fn dequeue(&mut self, link: usize) {
        self.transmit(link);
    }

    fn deliver(&mut self, packet: usize) {
        let id = self.packets[packet].flow;
        if self.packets[packet].handshake {
            let at = self.now_ps + self.flows[id].return_ps;
            self.at(at, Event::Acked(packet, 0));
            return;
        }
        let every = self.flows[id].ack_every;
        let flow = &mut self.flows[id];
        flow.unacked += 1;
        if flow.unacked < every {
            // Held back until the next packet, or until the timer of the last.
            if let Some(held) = flow.held.replace(packet) {
                self.free.push(held);
            } else {
                let at = self.now_ps + DELAYED_ACK_PS;
                self.at(at, Event::AckTimer(id));
            }
            return;
        }
        self.acknowledge(id, packet);
    }

    fn ack_timer(&mut self, id: usize) {
        if let Some(packet) = self.flows[id].held.take() {
            self.acknowledge(id, packet);
        }
    }

    fn acknowledge(&mut self, id: usize, packet: usize) {
        let flow = &mut self.flows[id];
        if let Some(held) = flow.held.take() {
            self.free.push(held);
        }
        let flow = &mut self.flows[id];
        let count = std::mem::take(&mut flow.unacked);
        let back = flow.return_ps;
        let jitter = if self.jitter_ns == 0 {
            0
        } else {
            self.random() % (self.jitter_ns * PS_PER_NS)
        };
        self.at(self.now_ps + back + jitter, Event::Acked(packet, count));
    }

    fn acked(&mut self, packet: usize, count: u32) {
        let p = std::mem::take(&mut self.packets[packet]);
        self.free.push(packet);
        let now_ns = self.now_ps / PS_PER_NS;
        let clock = self.clock_ns.max(1);
        let rtt_ns = ((now_ns / clock) - (p.sent_ps / PS_PER_NS / clock)) * clock;
        let rtt_ns = rtt_ns.max(1) as u32;
        if p.handshake {
            self.established(p.flow, rtt_ns);
            return;
        }
        if p.flow == 0 {
            self.rtts_ns
                .push(((self.now_ps - p.sent_ps) / PS_PER_NS) as u32);
        }
        let telemetry = self.telemetry;
        let all = self.flows[p.flow].path.iter().all(|&l| self.links[l].int);
        let flow = &mut self.flows[p.flow];
        flow.in_flight -= count;
        flow.delivered = flow.delivered.wrapping_add(count);
        flow.goodput += u64::from(count) * MSS;
        let int = match telemetry {
            Telemetry::None => Int::None,
            Telemetry::Mpd(step) => Int::Mpd(Mpd {
                forward_ns: ((p.mpd_ps / PS_PER_NS) as u32) / step * step,
                backward_ns: 0,
                coverage: if all {
                    Coverage::Full
                } else {
                    Coverage::Partial
                },
            }),
            Telemetry::Bottleneck => Int::Bottleneck(p.record),
            Telemetry::Stack => Int::Stack(&p.stack, Wrap::STACK),
        };
        let ack = Ack {
            now_ns,
            rtt_ns,
            acked: count,
            delivered: flow.delivered,
            prior_delivered: p.prior_delivered,
            in_flight: flow.in_flight,
            ce: 0,
            app_limited: false,
            full_size: true,
            int,
        };
        flow.acks += 1;
        if !flow
            .calm
            .passes::<L>(ack.acked, u64::from(ack.rtt_ns / 1000))
        {
            flow.looks += 1;
            let acked = flow.calm.all(ack.acked);
            let (law, params) = (&mut flow.law, &flow.params);
            law.on_ack(params, Some(&mut flow.hops), &Ack { acked, ..ack });
            flow.calm
                .told::<L>(law.calm(params), acked, ack.rtt_ns / 1000);
        }
        let cwnd = flow.law.cwnd();
        assert!(
            cwnd > 0 && cwnd <= ONE_PACKET << 18,
            "window {cwnd} out of bounds"
        );
        self.send(p.flow);
    }

    /// Share of the capacity of `link` used in `us` microseconds.
    pub fn utilisation(&self, link: usize, us: f64) -> f64 {
        let l = &self.links[link];
        l.sent_bytes as f64 * 8.0 / (l.gbps * 1000.0 * us)
    }

    /// Mean and 99th percentile of the wait at `link`, us.
    pub fn queue_us(&self, link: usize) -> (f64, f64) {
        let mut waits = self.links[link].waits_ps.clone();
        if waits.is_empty() {
            return (0.0, 0.0);
        }
        waits.sort_unstable();
        let mean = waits.iter().sum::<u64>() as f64 / waits.len() as f64;
        let p99 = waits[(waits.len() - 1) * 99 / 100];
        (mean / PS_PER_US as f64, p99 as f64 / PS_PER_US as f64)
    }

    /// Goodput of `flow` over `us` microseconds as a share of what a link of `gbps` carries.
    pub fn share(&self, flow: usize, gbps: f64, us: f64) -> f64 {
        let wire = self.flows[flow].goodput as f64 * WIRE as f64 / MSS as f64;
        wire * 8.0 / (gbps * 1000.0 * us)
    }

    pub fn cwnd(&self, flow: usize) -> f64 {
        self.flows[flow].law.cwnd() as f64 / f64::from(1u32 << CWND_SHIFT)
    }
}

/// Jain's fairness index.
pub fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|r| r * r).sum();
    sum * sum / (rates.len() as f64 * squares)
}

/// Bytes per second of a link of `gbps`.
pub fn bytes_per_s(gbps: f64) -> u64 {
    (gbps * 1e9 / 8.0) as u64
}
