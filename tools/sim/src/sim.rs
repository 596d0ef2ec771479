// SPDX-License-Identifier: GPL-2.0
//! The simulator: ports, connections, and the loop that carries packets from one to the next.
//!
//! Nodes have no state of their own: where a packet goes is decided when its connection begins (ECMP per
//! flow) and written down as a list of ports (`Sim::paths`). Only circuits, which come and go, are decided
//! at the switch.

use crate::agenda::{Agenda, Source};
use crate::cc::{Ecn, Spec};
use crate::fault::{LATE, TWICE};
use crate::histogram::Histogram;
use crate::packet::{self, flag, Int, Kind, Packet};
use crate::port::{Port, NO_POOL};
use crate::receiver::{Answer, Receiver};
use crate::rng::{mix, Rng};
use crate::sender::{AckIn, Cut, Next, Sender, SenderCounters, TcpConfig};
use crate::time::{Ps, NEVER, NS};
use laws::Path;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::hint::black_box;
use std::sync::atomic::AtomicI32;
use wire::rpm;
use wire::Format;

/// Ends a list of ports.
const END: u32 = u32::MAX;

/// A buffer that ports share (Dynamic Thresholds: Choudhury and Hahne, 1998).
pub struct Pool {
    /// Bytes.
    pub bytes: u64,
    /// α in 1/65536.
    pub alpha: u64,
    /// Bytes in use, no less than the truth: ports that nobody looked at hold what has left them.
    used: u64,
    /// The ports that share it.
    pub ports: Vec<u32>,
}

impl Pool {
    /// An empty one of `bytes`, of whose free part a port may hold `alpha` times as much.
    #[must_use]
    pub fn new(bytes: u64, alpha: f64) -> Self {
        Self {
            bytes,
            alpha: (alpha.clamp(0.0, 1e6) * 65536.0) as u64,
            used: 0,
            ports: Vec::new(),
        }
    }
}

/// What an application does with its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Sends until it is stopped.
    Long,
    /// Sends this much.
    Bytes(u64),
    /// Asks, is answered, thinks, and again.
    Rpc {
        /// Bytes of a request.
        request: u64,
        /// Bytes of an answer.
        response: u64,
        /// How often; `u64::MAX` = until it is stopped.
        count: u64,
        /// Pause between an answer and the next request.
        think: Ps,
    },
}

/// A connection to be.
#[derive(Clone, Debug)]
pub struct FlowSpec {
    /// When it begins.
    pub start: Ps,
    /// When it stops, whatever is left; [`NEVER`] = at the end.
    pub stop: Ps,
    /// What it does.
    pub work: Work,
    /// The application offers no more than this, bits per second; 0 = as much as fits.
    pub app_bps: u64,
    /// Its congestion control, by its place in [`Sim::specs`].
    pub spec: u32,
    /// What its ends do with marks.
    pub ecn: Ecn,
    /// Its packets' option.
    pub format: Option<Format>,
    /// The ports there, from the sender's own on, and the ports back.
    pub path: Vec<u32>,
    /// The ports back.
    pub back: Vec<u32>,
    /// The base RTT that the sender is told, ns; 0 = none.
    pub base_rtt_ns: u32,
    /// Its group: see [`Sim::group_acked`].
    pub group: u32,
    /// The racks of sender and receiver, for circuits.
    pub racks: (u32, u32),
    /// A message on a connection that stands from time zero on: the first of those that the connection carries, which
    /// is this one or one before it. All of them are [`Work::Bytes`]. None: a connection of its own.
    pub on: Option<u32>,
}

/// A connection that carries one message after the other.
struct Standing {
    /// The messages, in order.
    messages: Vec<u32>,
    /// How many of them were written, are received, are acknowledged.
    written: u32,
    heard: u32,
    acked: u32,
    /// When it was opened; [`NEVER`] before.
    opened: Ps,
}

/// One direction of data of a connection.
struct Channel {
    flow: u32,
    path: u32,
    back: u32,
    spec: u32,
    ecn: Ecn,
    format: Option<Format>,
    /// The rack that its data goes to.
    to_rack: u32,
    /// Hops that telemetry counts and the TTL does not.
    extra_hops: u8,
    /// The segments that make up what is done, and messages written and received.
    messages: u64,
    /// Segments of the messages that were heard in full.
    heard: u32,
    cut: Cut,
    line_rate: u64,
    base_rtt_ns: u32,
    standing: Option<Box<Standing>>,
    sender: Option<Box<Sender>>,
    receiver: Option<Box<Receiver>>,
}

impl Channel {
    /// Of a standing connection: the message that `at` counts to, how many of its bytes are in the segments up to
    /// `upto`, and whether that is all of it. None when nothing of it is.
    fn reached(&self, at: impl Fn(&Standing) -> u32, upto: u32) -> Option<(u32, u64, bool)> {
        let (standing, ends) = (self.standing.as_ref()?, self.cut.ends.as_ref()?);
        let at = at(standing) as usize;
        let &flow = standing.messages.get(at)?;
        let before = if at == 0 { 0 } else { ends[at - 1].segments };
        let upto = upto.min(ends[at].segments);
        (upto > before).then(|| {
            let whole = upto == ends[at].segments;
            (flow, self.cut.bytes(before, upto), whole)
        })
    }
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowState {
    /// When the application connected; [`NEVER`] before.
    pub started: Ps,
    /// When the last byte was acknowledged; [`NEVER`] = it was not.
    pub finished: Ps,
    /// When the last byte was received; [`NEVER`] = it was not.
    pub received: Ps,
    /// Payload that the receiver has in order, both directions.
    pub delivered_bytes: u64,
    /// Messages or bytes there are still to come.
    pub done: bool,
    /// RPC: answers received.
    pub answers: u64,
    /// Payload acknowledged, both directions.
    pub acked_bytes: u64,
    /// RPC: when the last request was written.
    asked: Ps,
}

/// A change that happens by itself.
pub type Change = Box<dyn FnOnce(&mut Sim, Ps) + Send>;

/// Circuits between racks.
pub struct Rotor {
    /// How long a matching holds.
    pub day: Ps,
    /// How long the change takes.
    pub night: Ps,
    /// How many there are.
    pub matchings: u32,
    /// Of each rack: its circuit ports by receiving rack; [`u32::MAX`] = none.
    pub ports: Vec<Vec<u32>>,
    /// The matching of each port in `ports`.
    pub matching: Vec<Vec<u32>>,
    /// By switch port of a path: which rack's switch it belongs to, plus one; 0 = none.
    pub rack_of_port: Vec<u32>,
    current: Option<u32>,
    turn: u64,
}

impl Rotor {
    /// A rotor that has not begun to turn.
    #[must_use]
    pub fn new(day: Ps, night: Ps, matchings: u32, racks: usize, ports: usize) -> Self {
        Self {
            day,
            night,
            matchings: matchings.max(1),
            ports: vec![vec![END; racks]; racks],
            matching: vec![vec![0; racks]; racks],
            rack_of_port: vec![0; ports],
            current: None,
            turn: 0,
        }
    }
}

/// Networks of more ports than this do not fit into the caches next to a core.
const LARGE: u32 = 2000;

/// Events that are looked at in advance, at most.
const TOUCHED: usize = 48;

/// Frames up to this size are not data: no ACK is larger, and a smaller segment is not worth counting.
const SMALL: u16 = 110;

/// The sources of a channel's timers.
const TIMERS: u32 = 4;
const SEND: u32 = 0;
const RETRANSMIT: u32 = 1;
const ACK: u32 = 2;
const APPLICATION: u32 = 3;

/// The whole of a simulation.
pub struct Sim {
    now: Ps,
    agenda: Agenda,
    /// All ports.
    pub ports: Vec<Port>,
    /// Shared buffers.
    pub pools: Vec<Pool>,
    /// Per port: the table of reverse path marks of its node; none = empty.
    rpm: Vec<u32>,
    tables: Vec<Vec<AtomicI32>>,
    /// Lists of ports, each ended by [`END`].
    paths: Vec<u32>,
    channels: Vec<Channel>,
    flows: Vec<FlowSpec>,
    states: Vec<FlowState>,
    /// The first channel of a flow; an RPC has a second one behind it.
    first: Vec<u32>,
    /// Congestion controls.
    pub specs: Vec<Spec>,
    tcp: TcpConfig,
    sacks: Vec<[(u32, u32); 4]>,
    free_sacks: Vec<u32>,
    late: BinaryHeap<Reverse<(Ps, u64, u32, Box64)>>,
    late_count: u64,
    /// By time, the last first.
    starts: Vec<(Ps, u32)>,
    changes: Vec<(Ps, Change)>,
    stops: BinaryHeap<Reverse<(Ps, u32)>>,
    rotor: Option<Rotor>,
    rng: Rng,
    mss_base: u32,
    events: u64,
    lost: u64,
    corrupt: u64,
    done: Vec<u32>,
    /// Payload acknowledged per group.
    group_acked: Vec<u64>,
    /// RPC: from request to answer, ns, by flow.
    latencies: BTreeMap<u32, Histogram>,
    /// RTTs are counted.
    rtts: bool,
}

/// A packet that can stand in a heap, in which it is never compared.
#[derive(Clone, Copy)]
struct Box64(Packet);

impl PartialEq for Box64 {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Box64 {}
impl PartialOrd for Box64 {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Box64 {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

/// What a simulation is made of.
pub struct Setup {
    /// All ports.
    pub ports: Vec<Port>,
    /// Shared buffers; a port says which is its own.
    pub pools: Vec<Pool>,
    /// Of each port, its node.
    pub node_of_port: Vec<u32>,
    /// Congestion controls.
    pub specs: Vec<Spec>,
    /// Connections, in the order of their start.
    pub flows: Vec<FlowSpec>,
    /// How hosts speak TCP.
    pub tcp: TcpConfig,
    /// IP packet, bytes.
    pub mtu: u32,
    /// For everything random.
    pub seed: u64,
    /// Circuits.
    pub rotor: Option<Rotor>,
}

impl Sim {
    /// A simulation at time zero.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let Setup {
            mut ports,
            pools,
            node_of_port,
            specs,
            flows,
            tcp,
            mtu,
            seed,
            rotor,
        } = setup;
        let ip_tcp = packet::headers(tcp.timestamps) - packet::ETHERNET;
        let mss_base = mtu.saturating_sub(ip_tcp).max(100);
        let loads = flows.iter().any(|f| f.format == Some(Format::Bottleneck));
        for port in &mut ports {
            port.loads = loads;
        }
        let (mut tables, mut rpm) = (Vec::new(), vec![END; ports.len()]);
        let mut of_node = BTreeMap::new();
        for (p, port) in ports.iter().enumerate() {
            if port.discipline().rpm() {
                of_node.entry(node_of_port[p]).or_insert_with(|| {
                    tables.push((0..1 << 16).map(|_| AtomicI32::new(0)).collect::<Vec<_>>());
                    tables.len() as u32 - 1
                });
            }
        }
        for (p, node) in node_of_port.iter().enumerate() {
            if let Some(&table) = of_node.get(node) {
                rpm[p] = table;
            }
        }
        let mut sim = Self {
            now: 0,
            agenda: Agenda::new(0),
            ports,
            pools,
            rpm,
            tables,
            paths: Vec::new(),
            channels: Vec::with_capacity(flows.len()),
            states: vec![
                FlowState {
                    started: NEVER,
                    finished: NEVER,
                    received: NEVER,
                    ..FlowState::default()
                };
                flows.len()
            ],
            first: Vec::with_capacity(flows.len()),
            flows: Vec::new(),
            specs,
            tcp,
            sacks: Vec::new(),
            free_sacks: Vec::new(),
            late: BinaryHeap::new(),
            late_count: 0,
            starts: Vec::new(),
            changes: Vec::new(),
            stops: BinaryHeap::new(),
            rotor,
            rng: Rng::new(mix(seed)),
            mss_base,
            events: 0,
            lost: 0,
            corrupt: 0,
            done: Vec::new(),
            group_acked: vec![
                0;
                flows
                    .iter()
                    .map(|f| f.group as usize + 1)
                    .max()
                    .unwrap_or(0)
            ],
            latencies: BTreeMap::new(),
            rtts: false,
        };
        let mut carried: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (id, flow) in flows.iter().enumerate() {
            if let Some(on) = flow.on {
                carried.entry(on).or_default().push(id as u32);
            }
        }
        for (id, flow) in flows.iter().enumerate() {
            match flow.on {
                Some(on) if on != id as u32 => {
                    let channel = sim.first[on as usize];
                    sim.first.push(channel);
                }
                Some(on) => {
                    sim.add(on, flow);
                    sim.stand(carried.remove(&on).unwrap_or_default(), &flows);
                    sim.starts.push((0, OPEN | on));
                }
                None => sim.add(id as u32, flow),
            }
            sim.starts.push((flow.start, id as u32));
            if flow.stop != NEVER {
                sim.stops.push(Reverse((flow.stop, id as u32)));
            }
        }
        sim.starts.sort_unstable_by(|a, b| b.cmp(a));
        sim.flows = flows;
        let sources = 2 * sim.ports.len() + TIMERS as usize * sim.channels.len() + GLOBALS as usize;
        sim.agenda = Agenda::new(sources);
        sim.schedule_globals();
        if sim.rotor.is_some() {
            sim.agenda.set(sim.global(ROTOR), 0);
        }
        sim
    }

    fn add(&mut self, id: u32, flow: &FlowSpec) {
        let path = self.lay(&flow.path);
        let back = self.lay(&flow.back);
        let reserve = flow
            .format
            .map_or(0, |f| u32::from(f.reserve(self.tcp.timestamps)));
        let mss = self.mss_base - reserve;
        self.first.push(self.channels.len() as u32);
        let line = |ports: &[u32]| {
            ports
                .first()
                .map_or(0, |&p| self.ports[p as usize].bps() / 8)
        };
        let extra =
            |ports: &[u32]| u8::from(ports.first().is_some_and(|&p| self.ports[p as usize].int));
        let channel = |path, back, bytes, ports: &[u32], to_rack| Channel {
            flow: id,
            path,
            back,
            spec: flow.spec,
            ecn: flow.ecn,
            format: flow.format,
            to_rack,
            extra_hops: extra(ports),
            messages: 0,
            heard: 0,
            cut: Cut::new(mss, bytes),
            line_rate: line(ports),
            base_rtt_ns: flow.base_rtt_ns,
            standing: None,
            sender: None,
            receiver: None,
        };
        let (there, here) = (flow.racks.1, flow.racks.0);
        let new = match flow.work {
            Work::Long => vec![channel(path, back, u64::MAX, &flow.path, there)],
            Work::Bytes(bytes) => vec![channel(path, back, bytes, &flow.path, there)],
            Work::Rpc {
                request, response, ..
            } => vec![
                channel(path, back, request, &flow.path, there),
                channel(back, path, response, &flow.back, here),
            ],
        };
        self.channels.extend(new);
    }

    /// The channel added last carries these messages.
    fn stand(&mut self, messages: Vec<u32>, flows: &[FlowSpec]) {
        let Some(channel) = self.channels.last_mut() else {
            return;
        };
        let sizes = messages.iter().map(|&m| match flows[m as usize].work {
            Work::Bytes(bytes) => bytes,
            Work::Long | Work::Rpc { .. } => 1,
        });
        channel.cut = Cut::of(channel.cut.mss, sizes);
        channel.standing = Some(Box::new(Standing {
            messages,
            written: 0,
            heard: 0,
            acked: 0,
            opened: NEVER,
        }));
    }

    fn lay(&mut self, ports: &[u32]) -> u32 {
        let at = self.paths.len() as u32;
        self.paths.extend_from_slice(ports);
        self.paths.push(END);
        at
    }

    // --- Sources ---------------------------------------------------------------------------------------

    fn timer(&self, channel: u32, which: u32) -> Source {
        2 * self.ports.len() as u32 + channel * TIMERS + which
    }

    fn global(&self, which: u32) -> Source {
        2 * self.ports.len() as u32 + TIMERS * self.channels.len() as u32 + which
    }

    fn schedule_globals(&mut self) {
        let start = self.starts.last().map_or(NEVER, |s| s.0);
        self.agenda.set(self.global(START), start);
        let stop = self.stops.peek().map_or(NEVER, |s| s.0 .0);
        self.agenda.set(self.global(STOP), stop);
        let change = self.changes.last().map_or(NEVER, |c| c.0);
        self.agenda.set(self.global(CHANGE), change);
    }

    /// Lets `change` happen at `at`. Of several at one time, in the order of the calls.
    pub fn change_at(&mut self, at: Ps, change: Change) {
        let place = self.changes.partition_point(|c| c.0 > at);
        self.changes.insert(place, (at, change));
        self.schedule_globals();
    }

    // --- The loop --------------------------------------------------------------------------------------

    /// Runs until `end`, that moment included.
    pub fn run_until(&mut self, end: Ps) {
        while let Some((now, source)) = self.agenda.pop(end) {
            self.now = now;
            let ports = self.ports.len() as u32;
            if self.agenda.turned() && ports > LARGE {
                self.touch();
            }
            if source < ports {
                self.arrival(source);
            } else if source < 2 * ports {
                self.serve(source - ports);
            } else {
                self.other(source - 2 * ports);
            }
        }
        self.now = self.now.max(end);
    }

    /// Has what the events at hand will need brought near, each kind for all of them at once: large networks do
    /// not fit into caches, and a processor waits for many lines in the time it waits for one.
    fn touch(&self) {
        let at_hand = self.agenda.at_hand();
        let ports = self.ports.len() as u32;
        for &(_, source) in at_hand {
            if let Some(port) = self.ports.get(source as usize) {
                port.touch();
            }
        }
        // Of each event the port that its packet goes to, and of those that have arrived the connection.
        let mut next = [END; TOUCHED];
        let mut ends = [END; TOUCHED];
        for (i, &(_, source)) in at_hand.iter().rev().take(TOUCHED).enumerate() {
            if let Some(packet) = self.ports.get(source as usize).and_then(Port::first) {
                next[i] = self.paths[packet.path as usize + 1];
                if next[i] == END {
                    ends[i] = packet.flow;
                }
            } else if source >= 2 * ports {
                ends[i] = (source - 2 * ports) / TIMERS;
            }
        }
        for (&to, &c) in next.iter().zip(&ends) {
            if let Some(port) = self.ports.get(to as usize) {
                port.touch();
            } else if let Some(channel) = self.channels.get(c as usize) {
                black_box(channel.flow);
                black_box(channel.messages);
            }
        }
        for (&to, &c) in next.iter().zip(&ends) {
            if let Some(port) = self.ports.get(to as usize) {
                port.touch_end();
            } else if let Some(channel) = self.channels.get(c as usize) {
                if let Some(sender) = &channel.sender {
                    sender.touch();
                }
                if let Some(receiver) = &channel.receiver {
                    black_box(receiver.due_ns);
                    black_box(receiver.echo.format);
                }
                if let Some(state) = self.states.get(channel.flow as usize) {
                    black_box(state.acked_bytes);
                }
            }
        }
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> Ps {
        self.now
    }

    /// Packets that arrived at the end of a link, so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    #[inline]
    fn arrival(&mut self, p: u32) {
        let now = self.now;
        let port = &mut self.ports[p as usize];
        let left = port.advance(now);
        let arrived = port.arrive(now);
        let host = port.host;
        let next = port.next_arrival();
        self.agenda.set(p, next);
        if left != 0 {
            self.release(p, left);
        }
        if let Some(packet) = arrived {
            self.events += 1;
            let (flow, data) = (packet.flow, packet.size > SMALL);
            self.pass(p, packet);
            if host && data {
                self.left_host(flow);
            }
        }
    }

    /// A segment left the port of its own host, whether it was lost on the wire or not.
    #[inline]
    fn left_host(&mut self, c: u32) {
        if let Some(sender) = &mut self.channels[c as usize].sender {
            if sender.left_host() {
                self.send(c);
            }
        }
    }

    #[inline]
    fn pass(&mut self, p: u32, mut packet: Packet) {
        if packet.spare != 0 {
            self.unusual(p, &mut packet);
            if packet.kind == Kind::Gone {
                return;
            }
        }
        if packet.kind == Kind::Gone {
            self.lost += 1;
            self.forget(&packet);
            return;
        }
        self.onward(packet);
    }

    /// At the end of a link: to the next port, or to the host.
    #[inline]
    fn onward(&mut self, mut packet: Packet) {
        packet.path += 1;
        let to = self.paths[packet.path as usize];
        if to == END {
            self.receive(packet);
        } else {
            packet.hops += 1;
            self.enqueue(to, packet);
        }
    }

    fn unusual(&mut self, p: u32, packet: &mut Packet) {
        let spare = std::mem::take(&mut packet.spare);
        if packet.kind == Kind::Gone {
            self.lost += 1;
            self.forget(packet);
            return;
        }
        if spare & TWICE != 0 {
            let mut copy = *packet;
            if packet.sack != 0 {
                let blocks = self.sacks[packet.sack as usize - 1];
                copy.sack = self.keep(blocks);
            }
            self.onward(copy);
        }
        if spare & LATE != 0 {
            let late = self.ports[p as usize].faults.as_ref().map_or(0, |f| f.late);
            self.late_count += 1;
            self.late.push(Reverse((
                self.now + late,
                self.late_count,
                p,
                Box64(*packet),
            )));
            let at = self.late.peek().map_or(NEVER, |l| l.0 .0);
            self.agenda.set(self.global(TARDY), at);
            packet.kind = Kind::Gone;
        }
    }

    /// Gives a packet to a port.
    #[inline]
    fn enqueue(&mut self, to: u32, mut packet: Packet) {
        let now = self.now;
        let mut to = to;
        if let Some(rotor) = &self.rotor {
            to = self.over_circuit(rotor, to, &mut packet);
        }
        let p = to as usize;
        if self.rpm[p] != END && packet.kind == Kind::Ack {
            let flow = self.rpm_flow(&packet, true);
            if let Some(table) = rpm::Table::new(&self.tables[self.rpm[p] as usize]) {
                if table.take(&flow) {
                    packet.flags |= flag::ECE;
                }
            }
        }
        let port = &mut self.ports[p];
        let left = port.advance(now);
        let mut room = port.limit;
        if port.pool != NO_POOL {
            let pool = port.pool as usize;
            if left != 0 {
                self.pools[pool].used -= u64::from(left);
            }
            room = self.room(pool, p, u32::from(packet.size));
        }
        let port = &mut self.ports[p];
        let before = port.queued();
        let idle = port.packets() == 0;
        if !port.offer(now, &mut packet, room, &mut self.rng) {
            if port.host && packet.kind == Kind::Data && packet.size > SMALL {
                // It is no longer in the host's port; who sent it goes on with the next ACK or timer.
                if let Some(sender) = &mut self.channels[packet.flow as usize].sender {
                    sender.forgotten_by_host();
                }
            }
            self.forget(&packet);
            return;
        }
        if port.pool != NO_POOL {
            let pool = &mut self.pools[port.pool as usize];
            pool.used += u64::from(port.queued().saturating_sub(before));
        }
        if idle || !port.foreseeable() {
            if port.foreseeable() {
                let next = port.next_arrival();
                self.agenda.set(to, next);
            } else {
                self.serve(to);
            }
        }
    }

    /// What a port may hold now: α times what is free, of which at least the port's own use is taken anew
    /// when it seems too little.
    fn room(&mut self, pool: usize, p: usize, size: u32) -> u32 {
        let limit = |pool: &Pool, queued: u32| {
            let free = pool.bytes.saturating_sub(pool.used);
            let most = (u128::from(free) * u128::from(pool.alpha)) >> 16;
            // No more than is there at all.
            most.min(u128::from(free) + u128::from(queued))
                .min(u128::from(u32::MAX)) as u32
        };
        let queued = self.ports[p].queued();
        let room = limit(&self.pools[pool], queued);
        if queued + size <= room {
            return room;
        }
        let mut left = 0;
        for at in 0..self.pools[pool].ports.len() {
            let other = self.pools[pool].ports[at] as usize;
            left += u64::from(self.ports[other].advance(self.now));
        }
        self.pools[pool].used -= left;
        limit(&self.pools[pool], self.ports[p].queued())
    }

    #[inline]
    fn release(&mut self, p: u32, left: u32) {
        let pool = self.ports[p as usize].pool;
        if pool != NO_POOL {
            self.pools[pool as usize].used -= u64::from(left);
        }
    }

    /// A port that decides when packets leave.
    fn serve(&mut self, p: u32) {
        let now = self.now;
        let port = &mut self.ports[p as usize];
        let table = self.rpm[p as usize];
        let tables = &self.tables;
        let left = port.serve(now, |packet| {
            let flow = rpm_key(packet.flow, false);
            tables
                .get(table as usize)
                .and_then(|t| rpm::Table::new(t))
                .is_some_and(|t| t.count(&flow))
        });
        let (arrival, service) = (port.next_arrival(), port.next_service());
        self.agenda.set(p, arrival);
        let ports = self.ports.len() as u32;
        self.agenda.set(ports + p, service);
        if left != 0 {
            self.release(p, left);
        }
    }

    fn rpm_flow(&self, packet: &Packet, back: bool) -> rpm::Flow {
        rpm_key(packet.flow, back)
    }

    fn forget(&mut self, packet: &Packet) {
        if packet.sack != 0 {
            self.free_sacks.push(packet.sack);
        }
    }

    fn keep(&mut self, blocks: [(u32, u32); 4]) -> u32 {
        match self.free_sacks.pop() {
            Some(place) => {
                self.sacks[place as usize - 1] = blocks;
                place
            }
            None => {
                self.sacks.push(blocks);
                self.sacks.len() as u32
            }
        }
    }

    // --- Hosts -----------------------------------------------------------------------------------------

    fn receive(&mut self, packet: Packet) {
        if packet.flags & flag::CORRUPT != 0 {
            self.corrupt += 1;
            self.forget(&packet);
            return;
        }
        match packet.kind {
            Kind::Data => self.data(packet),
            Kind::Ack => self.ack(packet),
            Kind::Syn => self.syn(packet),
            Kind::SynAck => self.established(packet),
            Kind::Cnp => {
                let now_ns = self.now / NS;
                if let Some(sender) = &mut self.channels[packet.flow as usize].sender {
                    sender.on_notification(now_ns);
                }
                self.send(packet.flow);
            }
            Kind::Gone => {}
        }
    }

    fn data(&mut self, packet: Packet) {
        let now_ns = self.now / NS;
        let c = packet.flow;
        let tcp = self.tcp;
        let channel = &mut self.channels[c as usize];
        let ecn = channel.ecn;
        let Some(receiver) = &mut channel.receiver else {
            return;
        };
        if ecn == Ecn::Notify && packet.flags & flag::CE != 0 {
            let interval = match &self.specs[channel.spec as usize] {
                Spec::Dcqcn(config) => config.cnp_interval_ns,
                _ => 0,
            };
            if receiver.notified_ns == 0 || now_ns - receiver.notified_ns >= interval {
                receiver.notified_ns = now_ns.max(1);
                let cnp = Packet {
                    flow: c,
                    path: channel.back,
                    size: 64,
                    kind: Kind::Cnp,
                    ..Packet::NONE
                };
                self.launch(cnp);
            }
        }
        let channel = &mut self.channels[c as usize];
        let Some(receiver) = &mut channel.receiver else {
            return;
        };
        if receiver.take_marks(&packet) {
            self.acknowledge(c);
            let Some(receiver) = &mut self.channels[c as usize].receiver else {
                return;
            };
            receiver.turn_marks();
        }
        let channel = &mut self.channels[c as usize];
        let Some(receiver) = &mut channel.receiver else {
            return;
        };
        let before = receiver.next();
        let path_hops = packet.hops + channel.extra_hops;
        let answer = receiver.on_data(&packet, path_hops, now_ns, &tcp);
        let after = receiver.next();
        if after != before {
            let bytes = channel.cut.bytes(before, after);
            receiver.bytes += bytes;
            if channel.standing.is_some() {
                self.heard_messages(c, after);
            } else {
                let flow = channel.flow as usize;
                self.states[flow].delivered_bytes += bytes;
                self.heard(c, after);
            }
        }
        match answer {
            Answer::Now | Answer::Before => self.acknowledge(c),
            Answer::Later => {
                let due = self.channels[c as usize]
                    .receiver
                    .as_ref()
                    .map_or(NEVER, |r| r.due_ns);
                let timer = self.timer(c, ACK);
                let at = due.saturating_mul(NS);
                if self.agenda.at(timer) > at {
                    self.agenda.set(timer, at);
                }
            }
            Answer::None => {}
        }
    }

    /// Segments up to `next` are in order: whole messages go to the application.
    fn heard(&mut self, c: u32, next: u32) {
        let channel = &mut self.channels[c as usize];
        let flow = channel.flow;
        let whole = next / channel.cut.per_message;
        let news = whole - channel.heard;
        if news == 0 {
            return;
        }
        channel.heard = whole;
        match self.flows[flow as usize].work {
            Work::Long => {}
            Work::Bytes(_) => self.states[flow as usize].received = self.now,
            Work::Rpc { count, think, .. } => {
                let first = self.first[flow as usize];
                if c == first {
                    self.message(first + 1);
                } else {
                    let state = &mut self.states[flow as usize];
                    let took = (self.now - state.asked) / NS;
                    self.latencies.entry(flow).or_default().add(took, 1);
                    state.answers += u64::from(news);
                    state.received = self.now;
                    if state.answers < count && self.now < self.flows[flow as usize].stop {
                        let timer = self.timer(first, APPLICATION);
                        self.agenda.set(timer, self.now + think);
                    } else {
                        self.finish(flow);
                    }
                }
            }
        }
    }

    /// A message on a standing connection begins: it queues behind those that are not done.
    fn queue_message(&mut self, flow: u32) {
        self.states[flow as usize].started = self.now;
        self.write_messages(self.first[flow as usize]);
    }

    /// Writes the messages that have begun, once the connection is open.
    fn write_messages(&mut self, c: u32) {
        let (tcp, now_ns) = (self.tcp, self.now / NS);
        let channel = &mut self.channels[c as usize];
        let (Some(standing), Some(ends)) = (&mut channel.standing, &channel.cut.ends) else {
            return;
        };
        let Some(sender) = &mut channel.sender else {
            return;
        };
        while let Some(&flow) = standing.messages.get(standing.written as usize) {
            if self.states[flow as usize].started == NEVER {
                break;
            }
            let at = standing.written as usize;
            let before = if at == 0 { 0 } else { ends[at - 1].segments };
            sender.write(ends[at].segments - before, now_ns, &tcp);
            standing.written += 1;
        }
        self.send(c);
    }

    /// Segments up to `next` are in order on a standing connection.
    fn heard_messages(&mut self, c: u32, next: u32) {
        let channel = &mut self.channels[c as usize];
        while let Some((flow, bytes, whole)) = channel.reached(|s| s.heard, next) {
            let state = &mut self.states[flow as usize];
            state.delivered_bytes = bytes;
            let Some(standing) = channel.standing.as_mut().filter(|_| whole) else {
                break;
            };
            state.received = self.now;
            standing.heard += 1;
        }
    }

    /// Segments up to `una` of a standing connection are acknowledged.
    fn acked_messages(&mut self, c: u32, una: u32) {
        let channel = &mut self.channels[c as usize];
        while let Some((flow, bytes, whole)) = channel.reached(|s| s.acked, una) {
            let state = &mut self.states[flow as usize];
            state.acked_bytes = bytes;
            let Some(standing) = channel.standing.as_mut().filter(|_| whole) else {
                break;
            };
            state.done = true;
            state.finished = self.now;
            self.done.push(flow);
            standing.acked += 1;
        }
    }

    /// The application writes a message.
    fn message(&mut self, c: u32) {
        let now_ns = self.now / NS;
        let tcp = self.tcp;
        let channel = &mut self.channels[c as usize];
        let segments = channel.cut.per_message;
        if let Some(sender) = &mut channel.sender {
            sender.write(segments, now_ns, &tcp);
            channel.messages += 1;
            let flow = channel.flow as usize;
            if c == self.first[flow] {
                self.states[flow].asked = self.now;
            }
        }
        self.send(c);
    }

    fn acknowledge(&mut self, c: u32) {
        let room = packet::option_room(self.tcp.timestamps);
        let most = (room.saturating_sub(4) / 8).min(4) as usize;
        let channel = &mut self.channels[c as usize];
        let Some(receiver) = &mut channel.receiver else {
            return;
        };
        let mut blocks = [(0, 0); 4];
        let (seq, flags, count, dsack) = receiver.ack(most, &mut blocks);
        let mut ack = Packet {
            flow: c,
            path: channel.back,
            seq,
            kind: Kind::Ack,
            flags,
            ..Packet::NONE
        };
        let mut size = packet::headers(self.tcp.timestamps);
        let mut left = room;
        if count > 0 {
            let sack = 4 + 8 * count as u32;
            size += sack;
            left -= sack;
        }
        if let Some(format) = channel.format {
            size += ack.put_echo(&mut receiver.echo, format, left);
        }
        ack.size = size as u16;
        if count > 0 {
            ack.sack = self.keep(blocks);
            // On an ACK the flag says that the first block is of a segment that came twice.
            if dsack {
                ack.flags |= flag::RETRANS;
            }
        }
        self.launch(ack);
    }

    fn ack(&mut self, packet: Packet) {
        let now_ns = self.now / NS;
        let tcp = self.tcp;
        let mut blocks = [(0, 0); 4];
        if packet.sack != 0 {
            blocks = self.sacks[packet.sack as usize - 1];
            self.forget(&packet);
        }
        let count = blocks.iter().take_while(|b| b.1 != 0).count();
        let c = packet.flow;
        let channel = &mut self.channels[c as usize];
        let Some(sender) = &mut channel.sender else {
            return;
        };
        let telemetry = if packet.int == Int::None {
            None
        } else {
            packet.sample().decode(wire::mpd::DEFAULT_SHIFT)
        };
        let input = AckIn {
            ack: packet.seq,
            sack: &blocks[..count],
            dsack: count > 0 && packet.flags & flag::RETRANS != 0,
            ece: packet.flags & flag::ECE != 0,
            circuit: packet.flags & flag::CIRCUIT != 0,
            telemetry,
        };
        let before = sender.counters.acked_bytes;
        sender.on_ack(now_ns, &input, &tcp);
        let flow = channel.flow;
        let news = sender.counters.acked_bytes - before;
        if channel.standing.is_some() {
            let una = sender.acked();
            self.group_acked[self.flows[flow as usize].group as usize] += news;
            self.acked_messages(c, una);
            return self.send(c);
        }
        if news != 0 {
            self.states[flow as usize].acked_bytes += news;
            self.group_acked[self.flows[flow as usize].group as usize] += news;
        }
        let spec = &self.flows[flow as usize];
        let whole =
            matches!(spec.work, Work::Bytes(_)) && sender.acked() == channel.cut.per_message;
        if whole || self.now >= spec.stop && sender.is_done() {
            self.finish(flow);
            return;
        }
        self.send(c);
    }

    /// Everything of a connection is done.
    fn finish(&mut self, flow: u32) {
        let state = &mut self.states[flow as usize];
        if state.done {
            return;
        }
        state.done = true;
        state.finished = self.now;
        self.done.push(flow);
        let first = self.first[flow as usize];
        let channels = self.channels_of(flow);
        for c in first..first + channels {
            for which in 0..TIMERS {
                let timer = self.timer(c, which);
                self.agenda.clear(timer);
            }
        }
    }

    fn channels_of(&self, flow: u32) -> u32 {
        match self.flows[flow as usize].work {
            Work::Rpc { .. } => 2,
            Work::Long | Work::Bytes(_) => 1,
        }
    }

    /// Payload acknowledged so far, by group.
    #[must_use]
    pub fn group_acked(&self) -> &[u64] {
        &self.group_acked
    }

    /// RPC: times from request to the end of the answer, ns.
    #[must_use]
    pub fn latencies(&self, flow: u32) -> Option<&Histogram> {
        self.latencies.get(&flow)
    }

    /// Counts RTTs from now on, or no longer.
    pub fn count_rtts(&mut self, on: bool) {
        self.rtts = on;
        for channel in &mut self.channels {
            if let Some(sender) = &mut channel.sender {
                sender.count_rtts(on);
            }
        }
    }

    /// Forgets what is kept of a finished connection. Packets of it that are still under way are ignored. A connection
    /// that stands is kept.
    pub fn release_flow(&mut self, flow: u32) {
        if self.flows[flow as usize].on.is_some() {
            return;
        }
        let first = self.first[flow as usize];
        for c in first..first + self.channels_of(flow) {
            let channel = &mut self.channels[c as usize];
            channel.sender = None;
            channel.receiver = None;
        }
    }

    /// Connections that finished since this was last asked, in that order. What is kept of them for their
    /// packets still under way goes.
    pub fn take_finished(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.done)
    }

    fn syn(&mut self, packet: Packet) {
        let c = packet.flow;
        let channel = &self.channels[c as usize];
        let hello = if channel.format.is_some() {
            wire::hello::LEN as u32
        } else {
            0
        };
        let answer = Packet {
            flow: c,
            path: channel.back,
            size: (packet::headers(self.tcp.timestamps) + 8 + hello) as u16,
            kind: Kind::SynAck,
            ..Packet::NONE
        };
        self.listen(c);
        self.launch(answer);
    }

    /// The receiving side of a channel is there from now on.
    fn listen(&mut self, c: u32) {
        let tcp = self.tcp;
        let channel = &mut self.channels[c as usize];
        let ecn = channel.ecn;
        if channel.receiver.is_none() {
            channel.receiver = Some(Box::new(Receiver::new(&tcp, ecn)));
        }
    }

    fn established(&mut self, packet: Packet) {
        let c = packet.flow;
        if self.channels[c as usize].sender.is_some() {
            return; // The SYN had been sent twice.
        }
        let channel = &self.channels[c as usize];
        let started = match &channel.standing {
            Some(standing) => standing.opened,
            None => self.states[channel.flow as usize].started,
        };
        let clock = self.tcp.clock_ns;
        let rtt = (self.now / NS / clock - started / NS / clock) * clock;
        self.open(c, rtt.clamp(1, u64::from(u32::MAX)) as u32);
    }

    /// Both ends know of each other: data may flow.
    fn open(&mut self, c: u32, handshake_rtt_ns: u32) {
        let flow = self.channels[c as usize].flow;
        let timer = self.timer(c, RETRANSMIT);
        self.agenda.clear(timer);
        if self.states[flow as usize].done {
            return;
        }
        self.create(c, handshake_rtt_ns);
        if self.channels[c as usize].standing.is_some() {
            return self.write_messages(c);
        }
        let (tcp, now_ns) = (self.tcp, self.now / NS);
        match self.flows[flow as usize].work {
            Work::Rpc { .. } => {
                self.create(c + 1, handshake_rtt_ns);
                self.listen(c + 1);
                self.message(c);
            }
            Work::Long | Work::Bytes(_) if self.flows[flow as usize].app_bps != 0 => {
                let timer = self.timer(c, APPLICATION);
                self.agenda.set(timer, self.now);
            }
            Work::Long | Work::Bytes(_) => {
                let channel = &mut self.channels[c as usize];
                let segments = channel.cut.per_message;
                if let Some(sender) = &mut channel.sender {
                    sender.write(segments, now_ns, &tcp);
                }
                self.send(c);
            }
        }
    }

    fn create(&mut self, c: u32, handshake_rtt_ns: u32) {
        let (tcp, now_ns) = (self.tcp, self.now / NS);
        let channel = &mut self.channels[c as usize];
        let spec = &self.specs[channel.spec as usize];
        let path = Path {
            line_rate: channel.line_rate,
            base_rtt_ns: channel.base_rtt_ns,
            handshake_rtt_ns,
            clock_ns: tcp.clock_ns.min(u64::from(u16::MAX)) as u16,
            // What the kernel goes by does not know of options that eBPF adds.
            mss: self.mss_base as u16,
            overhead: (packet::headers(tcp.timestamps) + 24) as u16,
            hops: 0, // As the modules have it: TCP does not tell them.
        };
        let ect = channel.ecn != Ecn::None;
        let mut sender = Sender::new(spec.control(), path, channel.cut.clone(), &tcp, ect, now_ns);
        sender.count_rtts(self.rtts);
        channel.sender = Some(Box::new(sender));
    }

    /// Sends what may be sent, and sets the timers.
    fn send(&mut self, c: u32) {
        let now_ns = self.now / NS;
        let tcp = self.tcp;
        loop {
            let channel = &mut self.channels[c as usize];
            let Some(sender) = &mut channel.sender else {
                return;
            };
            match sender.next(now_ns, &tcp) {
                Next::Send(packet) => self.emit(c, packet),
                Next::At(ns) => {
                    let timer = self.timer(c, SEND);
                    self.agenda.set(timer, ns.saturating_mul(NS));
                    break;
                }
                Next::Wait => {
                    let timer = self.timer(c, SEND);
                    self.agenda.set(timer, NEVER);
                    break;
                }
            }
        }
        self.set_timer(c);
    }

    /// The retransmission timer moves with every ACK; the event stays where it is and looks when it comes.
    fn set_timer(&mut self, c: u32) {
        let Some(sender) = &self.channels[c as usize].sender else {
            return;
        };
        let due = sender.due_ns;
        if due == u64::MAX {
            return;
        }
        let timer = self.timer(c, RETRANSMIT);
        let at = due.saturating_mul(NS);
        if self.agenda.at(timer) > at {
            self.agenda.set(timer, at);
        }
    }

    fn emit(&mut self, c: u32, mut packet: Packet) {
        let channel = &self.channels[c as usize];
        packet.flow = c;
        packet.path = channel.path;
        let headers = packet::headers(self.tcp.timestamps);
        packet.size = packet.size - packet::HEADERS as u16 + headers as u16;
        packet.size += packet.offer(channel.format, self.tcp.timestamps) as u16;
        let small = packet.size <= SMALL;
        self.launch(packet);
        if small {
            if let Some(sender) = &mut self.channels[c as usize].sender {
                sender.left_host();
            }
        }
    }

    /// Gives a packet of a host to the host's own port.
    fn launch(&mut self, packet: Packet) {
        let port = self.paths[packet.path as usize];
        self.enqueue(port, packet);
    }

    // --- Timers and changes ----------------------------------------------------------------------------

    fn other(&mut self, source: Source) {
        let timers = TIMERS * self.channels.len() as u32;
        if source >= timers {
            return self.globals(source - timers);
        }
        let (c, which) = (source / TIMERS, source % TIMERS);
        match which {
            SEND => self.send(c),
            RETRANSMIT => self.retransmit(c),
            ACK => self.ack_timer(c),
            _ => self.application(c),
        }
    }

    fn retransmit(&mut self, c: u32) {
        let (tcp, now_ns) = (self.tcp, self.now / NS);
        let flow = self.channels[c as usize].flow;
        let Some(sender) = &mut self.channels[c as usize].sender else {
            if !self.states[flow as usize].done {
                self.connect(flow); // The SYN or its answer was lost.
            }
            return;
        };
        let (go, probe) = sender.on_timer(now_ns, &tcp);
        if let Some(packet) = probe {
            self.emit(c, packet);
        }
        if go {
            self.send(c);
        } else {
            self.set_timer(c);
        }
    }

    fn ack_timer(&mut self, c: u32) {
        let now_ns = self.now / NS;
        let Some(receiver) = &self.channels[c as usize].receiver else {
            return;
        };
        if receiver.due_ns <= now_ns {
            self.acknowledge(c);
        } else if receiver.due_ns != u64::MAX {
            let at = receiver.due_ns.saturating_mul(NS);
            let timer = self.timer(c, ACK);
            self.agenda.set(timer, at);
        }
    }

    /// The next request of an RPC; the next segment of an application with a rate.
    fn application(&mut self, c: u32) {
        let flow = self.channels[c as usize].flow;
        let spec = &self.flows[flow as usize];
        if self.now >= spec.stop || self.states[flow as usize].done {
            return;
        }
        if let Work::Rpc { .. } = spec.work {
            return self.message(c);
        }
        let (tcp, now_ns, bps) = (self.tcp, self.now / NS, spec.app_bps);
        let channel = &mut self.channels[c as usize];
        let Some(sender) = &mut channel.sender else {
            return;
        };
        let left = u64::from(channel.cut.per_message)
            - channel.messages.min(u64::from(channel.cut.per_message));
        if left == 0 {
            return;
        }
        sender.write(1, now_ns, &tcp);
        channel.messages += 1;
        let gap =
            u128::from(channel.cut.mss) * 8 * u128::from(crate::time::S) / u128::from(bps.max(1));
        let timer = self.timer(c, APPLICATION);
        self.agenda
            .set(timer, self.now + gap.min(u128::from(u64::MAX / 4)) as u64);
        self.send(c);
    }

    fn globals(&mut self, which: u32) {
        match which {
            START => {
                while self.starts.last().is_some_and(|s| s.0 <= self.now) {
                    match self.starts.pop() {
                        Some((_, flow)) if flow & OPEN != 0 => self.connect(flow & !OPEN),
                        Some((_, flow)) if self.flows[flow as usize].on.is_some() => {
                            self.queue_message(flow);
                        }
                        Some((_, flow)) => self.connect(flow),
                        None => {}
                    }
                }
            }
            STOP => {
                while self.stops.peek().is_some_and(|s| s.0 .0 <= self.now) {
                    if let Some(Reverse((_, flow))) = self.stops.pop() {
                        self.stop(flow);
                    }
                }
            }
            CHANGE => {
                while self.changes.last().is_some_and(|c| c.0 <= self.now) {
                    if let Some((_, change)) = self.changes.pop() {
                        change(self, self.now);
                    }
                }
            }
            TARDY => {
                while self.late.peek().is_some_and(|l| l.0 .0 <= self.now) {
                    if let Some(Reverse((_, _, _, Box64(packet)))) = self.late.pop() {
                        self.onward(packet);
                    }
                }
                let at = self.late.peek().map_or(NEVER, |l| l.0 .0);
                self.agenda.set(self.global(TARDY), at);
            }
            _ => self.rotate(),
        }
        self.schedule_globals();
    }

    /// The application connects.
    fn connect(&mut self, flow: u32) {
        let c = self.first[flow as usize];
        let started = match &mut self.channels[c as usize].standing {
            Some(standing) => &mut standing.opened,
            None => &mut self.states[flow as usize].started,
        };
        // A SYN may be sent again.
        if *started == NEVER {
            *started = self.now;
        }
        if !self.tcp.handshake {
            self.listen(c);
            return self.open(c, 0);
        }
        let channel = &self.channels[c as usize];
        let hello = if channel.format.is_some() {
            wire::hello::LEN as u32
        } else {
            0
        };
        let syn = Packet {
            flow: c,
            path: channel.path,
            size: (packet::headers(self.tcp.timestamps) + 8 + hello) as u16,
            kind: Kind::Syn,
            ..Packet::NONE
        };
        let timer = self.timer(c, RETRANSMIT);
        self.agenda
            .set(timer, self.now + self.tcp.initial_rto_ns.saturating_mul(NS));
        self.launch(syn);
    }

    fn stop(&mut self, flow: u32) {
        let first = self.first[flow as usize];
        for c in first..first + self.channels_of(flow) {
            if let Some(sender) = &mut self.channels[c as usize].sender {
                sender.stop();
            }
        }
        let idle = (first..first + self.channels_of(flow)).all(|c| {
            self.channels[c as usize]
                .sender
                .as_ref()
                .is_none_or(|s| s.is_done())
        });
        if idle {
            self.finish(flow);
        }
    }

    // --- Circuits --------------------------------------------------------------------------------------

    /// Which port a packet takes at a rack's switch: the circuit while there is one to where it goes.
    fn over_circuit(&self, rotor: &Rotor, to: u32, packet: &mut Packet) -> u32 {
        let rack = rotor.rack_of_port[to as usize];
        if rack == 0 {
            return to;
        }
        let channel = &self.channels[packet.flow as usize];
        let goal = match packet.kind {
            Kind::Data | Kind::Syn => channel.to_rack,
            _ => return to,
        };
        let from = rack as usize - 1;
        let Some(&port) = rotor.ports[from].get(goal as usize) else {
            return to;
        };
        if port == END || from as u32 == goal {
            return to;
        }
        let mine = rotor.matching[from][goal as usize];
        let early = match &self.specs[channel.spec as usize] {
            Spec::ReTcp(config) => config.prebuffer_ns * NS,
            _ => 0,
        };
        if rotor.current == Some(mine) || early != 0 && self.until_day(rotor, mine) <= early {
            packet.flags |= flag::CIRCUIT;
            // Behind the circuit is the receiver's switch: the path goes on at its last port.
            let mut at = packet.path as usize;
            while self.paths[at + 2] != END {
                at += 1;
            }
            packet.path = at as u32;
            return port;
        }
        to
    }

    fn until_day(&self, rotor: &Rotor, matching: u32) -> Ps {
        let period = rotor.day + rotor.night;
        let round = period * u64::from(rotor.matchings);
        let begins = period * u64::from(matching);
        (begins + round - self.now % round) % round
    }

    fn rotate(&mut self) {
        let now = self.now;
        let Some(rotor) = &mut self.rotor else { return };
        let opens = rotor.turn % 2 == 0;
        let matching = ((rotor.turn / 2) % u64::from(rotor.matchings)) as u32;
        rotor.turn += 1;
        rotor.current = opens.then_some(matching);
        let next = now + if opens { rotor.day } else { rotor.night };
        let mut ports = Vec::new();
        for (from, row) in rotor.ports.iter().enumerate() {
            for (to, &port) in row.iter().enumerate() {
                if port != END && rotor.matching[from][to] == matching {
                    ports.push(port);
                }
            }
        }
        for port in ports {
            let left = self.ports[port as usize].advance(now);
            self.release(port, left);
            self.ports[port as usize].set_open(now, opens);
            let mut stranded = Vec::new();
            if !opens {
                let left = self.ports[port as usize].take_queue(now, &mut stranded);
                self.release(port, left);
            }
            let arrival = self.ports[port as usize].next_arrival();
            self.agenda.set(port, arrival);
            for packet in stranded {
                self.reroute(port, packet);
            }
        }
        self.agenda.set(self.global(ROTOR), next);
    }

    /// A packet that waited for a circuit that is gone: back to the way it would have gone without.
    fn reroute(&mut self, circuit: u32, mut packet: Packet) {
        let Some(rotor) = &self.rotor else { return };
        let from = rotor.ports.iter().position(|row| row.contains(&circuit));
        let start = self.channels[packet.flow as usize].path as usize;
        let mut at = start;
        while self.paths[at] != END {
            if from.map(|f| f as u32 + 1) == Some(rotor.rack_of_port[self.paths[at] as usize]) {
                packet.path = at as u32;
                packet.flags &= !flag::CIRCUIT;
                let to = self.paths[at];
                self.enqueue(to, packet);
                return;
            }
            at += 1;
        }
        self.lost += 1;
    }

    /// Changes a port at this moment: `change` finds it with everything done that is due.
    pub fn change_port(&mut self, p: u32, change: impl FnOnce(&mut Port)) {
        let now = self.now;
        let port = &mut self.ports[p as usize];
        let left = port.advance(now);
        change(port);
        let arrival = port.next_arrival();
        self.agenda.set(p, arrival);
        self.release(p, left);
    }

    // --- Looking ---------------------------------------------------------------------------------------

    /// What waits at a port now, bytes.
    pub fn queue(&mut self, p: u32) -> u32 {
        let left = self.ports[p as usize].advance(self.now);
        if left != 0 {
            self.release(p, left);
        }
        self.ports[p as usize].queued()
    }

    /// A connection's state.
    #[must_use]
    pub fn state(&self, flow: u32) -> &FlowState {
        &self.states[flow as usize]
    }

    /// The sender of a connection's data, once it is established.
    #[must_use]
    pub fn sender(&self, flow: u32) -> Option<&Sender> {
        self.channels[self.first[flow as usize] as usize]
            .sender
            .as_deref()
    }

    /// What the senders of a connection did, both directions together.
    #[must_use]
    pub fn sender_counters(&self, flow: u32) -> SenderCounters {
        let first = self.first[flow as usize];
        let mut sum = SenderCounters::default();
        for c in first..first + self.channels_of(flow) {
            if let Some(sender) = &self.channels[c as usize].sender {
                let c = sender.counters;
                sum.sent += c.sent;
                sum.retransmits += c.retransmits;
                sum.timeouts += c.timeouts;
                sum.recoveries += c.recoveries;
                sum.acked_bytes += c.acked_bytes;
                sum.rtts += c.rtts;
                sum.rtt_sum_ns += c.rtt_sum_ns;
                sum.rtt_ns = c.rtt_ns;
            }
        }
        sum
    }

    /// Packets under way at this moment, in queues, on wires and late.
    #[must_use]
    pub fn under_way(&self) -> u64 {
        self.ports
            .iter()
            .map(|p| u64::from(p.packets()))
            .sum::<u64>()
            + self.late.len() as u64
    }

    /// Packets lost on wires, and damaged ones that hosts threw away.
    #[must_use]
    pub fn lost(&self) -> (u64, u64) {
        (self.lost, self.corrupt)
    }

    /// Payload of a full-size packet of a connection, bytes.
    #[must_use]
    pub fn mss(&self, flow: u32) -> u32 {
        self.channels[self.first[flow as usize] as usize].cut.mss
    }
}

/// The key of a channel in a table of reverse path marks.
fn rpm_key(channel: u32, back: bool) -> rpm::Flow {
    let flow = rpm::Flow::V4 {
        src: channel.to_be_bytes(),
        dst: (!channel).to_be_bytes(),
        sport: channel as u16,
        dport: 5001,
    };
    if back {
        flow.reverse()
    } else {
        flow
    }
}

/// In [`Sim::starts`]: a connection that stands opens, in the place of a flow that starts.
const OPEN: u32 = 1 << 31;

const START: u32 = 0;
const STOP: u32 = 1;
const CHANGE: u32 = 2;
const TARDY: u32 = 3;
const ROTOR: u32 = 4;
const GLOBALS: u32 = 5;
