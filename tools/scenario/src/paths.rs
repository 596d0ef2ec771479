// SPDX-License-Identifier: GPL-2.0

//! What follows from a resolved network: paths, base RTTs, ideal completion times, fair shares.

use crate::network::{Flow, NodeId, NodeKind, PortId, Resolved, Work};

/// IPv4 and TCP headers without options, bytes.
const HEADERS: u32 = 40;
/// TCP timestamps as they are padded, bytes.
const TIMESTAMPS: u32 = 12;
/// The least that Ethernet carries of an IP packet, bytes.
const LEAST_PACKET: u32 = 46;

impl Resolved {
    /// The port's configuration.
    #[must_use]
    pub fn port(&self, port: PortId) -> &crate::network::Port {
        &self.links[port.link()].ports[usize::from(port.backward())]
    }

    /// Who sends by `port`.
    #[must_use]
    pub fn near_end(&self, port: PortId) -> NodeId {
        self.far_end(port.peer())
    }

    /// Who receives what `port` sends.
    #[must_use]
    pub fn far_end(&self, port: PortId) -> NodeId {
        let link = &self.links[port.link()];
        if port.backward() {
            link.a
        } else {
            link.b
        }
    }

    /// `a->b`.
    #[must_use]
    pub fn port_name(&self, port: PortId) -> String {
        let name = |n: NodeId| self.nodes[n].name.as_str();
        format!(
            "{}->{}",
            name(self.near_end(port)),
            name(self.far_end(port))
        )
    }

    /// All ports.
    pub fn ports(&self) -> impl Iterator<Item = PortId> {
        (0..self.links.len() as u32 * 2).map(PortId)
    }

    /// All hosts.
    pub fn hosts(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..self.nodes.len()).filter(|&n| self.nodes[n].kind == NodeKind::Host)
    }

    /// The port by which `node` sends on packets for host `dst`. Packets with one `key` take one path.
    #[must_use]
    pub fn next_hop(&self, node: NodeId, dst: NodeId, key: u64) -> Option<PortId> {
        let ports = self.routes.next_hops(node, dst);
        match ports.len() {
            0 | 1 => ports.first().copied(),
            n => {
                let hash = mix(self.seed ^ mix(key ^ mix(node as u64)));
                ports.get((hash % n as u64) as usize).copied()
            }
        }
    }

    /// The ports from host `src` to host `dst` for packets with `key`; empty when there is no route.
    #[must_use]
    pub fn path_of(&self, src: NodeId, dst: NodeId, key: u64) -> Vec<PortId> {
        let mut path = Vec::new();
        let mut node = src;
        // A loop is found when a scenario is checked; the bound is for networks made by hand.
        while node != dst && path.len() <= self.nodes.len() {
            let Some(port) = self.next_hop(node, dst, key) else {
                return Vec::new();
            };
            path.push(port);
            node = self.far_end(port);
        }
        path
    }

    /// The path of a flow's data.
    #[must_use]
    pub fn path(&self, flow: usize) -> Vec<PortId> {
        let f = &self.flows[flow];
        self.path_of(f.src, f.dst, 2 * f.on.unwrap_or(flow) as u64)
    }

    /// The path of its ACKs.
    #[must_use]
    pub fn ack_path(&self, flow: usize) -> Vec<PortId> {
        let f = &self.flows[flow];
        self.path_of(f.dst, f.src, 2 * f.on.unwrap_or(flow) as u64 + 1)
    }

    /// TCP options in every segment of a flow with congestion control `cc`, bytes.
    #[must_use]
    pub fn option_bytes(&self, cc: usize) -> u32 {
        let timestamps = self.tcp.timestamps;
        let int = self.ccs.get(cc).and_then(|cc| cc.int);
        let int = int.map_or(0, |int| u32::from(int.wire().reserve(timestamps)));
        int + if timestamps { TIMESTAMPS } else { 0 }
    }

    /// Payload of a full-size segment, bytes.
    #[must_use]
    pub fn mss(&self, cc: usize) -> u32 {
        self.mtu - HEADERS - self.option_bytes(cc)
    }

    /// A full-size segment on the wire, bytes.
    #[must_use]
    pub fn full_wire(&self) -> u32 {
        self.mtu + self.overhead
    }

    /// A segment with `payload` on the wire, bytes.
    #[must_use]
    pub fn wire(&self, cc: usize, payload: u32) -> u32 {
        (HEADERS + self.option_bytes(cc) + payload).max(LEAST_PACKET) + self.overhead
    }

    /// Payload over wire of a full-size segment: what a line can carry at best.
    #[must_use]
    pub fn efficiency(&self, cc: usize) -> f64 {
        f64::from(self.mss(cc)) / f64::from(self.full_wire())
    }

    /// The base round-trip time of a full-size segment and its ACK through empty queues: every store
    /// and forward, every wire, every switch.
    #[must_use]
    pub fn base_rtt_ns(&self, flow: usize) -> u64 {
        let cc = self.flows[flow].cc;
        self.one_way_ns(&self.path(flow), self.full_wire())
            + self.one_way_ns(&self.ack_path(flow), self.wire(cc, 0))
    }

    /// The time a packet of `wire` bytes takes along `path`.
    #[must_use]
    pub fn one_way_ns(&self, path: &[PortId], wire: u32) -> u64 {
        path.iter()
            .map(|&port| {
                let p = self.port(port);
                let node = &self.nodes[self.near_end(port)];
                serialise_ns(wire, p.rate_bps) + p.delay_ns + node.delay_ns
            })
            .sum()
    }

    /// The least line rate along `path`, bits per second.
    #[must_use]
    pub fn path_rate_bps(&self, path: &[PortId]) -> u64 {
        path.iter()
            .map(|&p| self.port(p).rate_bps)
            .min()
            .unwrap_or(0)
    }

    /// The host's own line rate, bits per second.
    #[must_use]
    pub fn host_rate_bps(&self, host: NodeId) -> u64 {
        let ports = self.nodes[host].ports.iter();
        ports.map(|&p| self.port(p).rate_bps).max().unwrap_or(0)
    }

    /// From the first byte sent to the last byte acknowledged, of `bytes` alone in the network at line
    /// rate, without a handshake: what slowdowns are measured against.
    #[must_use]
    pub fn ideal_fct_ns(&self, flow: usize, bytes: u64) -> u64 {
        let path = self.path(flow);
        let f = &self.flows[flow];
        let mss = u64::from(self.mss(f.cc));
        let full = bytes / mss;
        let rest = (bytes % mss) as u32;
        let (last, before) = match (full, rest) {
            (0, rest) => (self.wire(f.cc, rest), 0),
            (full, 0) => (self.full_wire(), full - 1),
            (full, rest) => (self.wire(f.cc, rest), full),
        };
        // The packets before the last occupy the slowest link; the last then takes its way.
        let rate = self.path_rate_bps(&path).max(1);
        let train = u128::from(before) * u128::from(self.full_wire()) * 8_000_000_000;
        (train / u128::from(rate)) as u64
            + self.one_way_ns(&path, last)
            + self.one_way_ns(&self.ack_path(flow), self.wire(f.cc, 0))
    }

    /// Whether `flow` is there at `at_ns`, as far as the scenario says: a flow with a size counts until
    /// its ideal completion.
    #[must_use]
    pub fn active_at(&self, flow: usize, at_ns: u64) -> bool {
        let f = &self.flows[flow];
        let end = f.stop_ns.unwrap_or(self.duration_ns);
        let end = match f.work {
            Work::Bytes(bytes) => end.min(f.start_ns + self.ideal_fct_ns(flow, bytes)),
            _ => end,
        };
        (f.start_ns..end).contains(&at_ns)
    }

    /// Max-min fair shares of `flows`, in their order, bits of payload per second. What the ACKs of all
    /// need on the way back is taken off first. Rates that faults change are not considered.
    #[must_use]
    pub fn max_min_bps(&self, flows: &[usize]) -> Vec<f64> {
        /// ACKs are a few percent of the data: each round is that much nearer to the answer.
        const ROUNDS: usize = 8;
        let paths: Vec<Vec<PortId>> = flows.iter().map(|&f| self.path(f)).collect();
        let acks: Vec<(Vec<PortId>, f64)> = flows.iter().map(|&f| self.ack_load(f)).collect();
        let limits: Vec<f64> = flows.iter().map(|&f| self.wire_limit(f)).collect();
        let line: Vec<f64> = self.ports().map(|p| self.port(p).rate_bps as f64).collect();
        let mut rates = vec![0.0; flows.len()];
        for _ in 0..ROUNDS {
            let mut free = line.clone();
            for ((path, share), rate) in acks.iter().zip(&rates) {
                for port in path {
                    let free = &mut free[port.index()];
                    *free = (*free - rate * share).max(0.0);
                }
            }
            rates = fill(&paths, &limits, free);
        }
        let payload = |(&f, rate): (&usize, f64)| rate * self.efficiency(self.flows[f].cc);
        flows.iter().zip(rates).map(payload).collect()
    }

    /// The most a flow's application offers, with its headers, bits per second.
    fn wire_limit(&self, flow: usize) -> f64 {
        let f: &Flow = &self.flows[flow];
        match f.app_bps {
            0 => f64::INFINITY,
            bps => bps as f64 / self.efficiency(f.cc),
        }
    }

    /// The way of a flow's ACKs, and their bits per bit of data on the wire.
    fn ack_load(&self, flow: usize) -> (Vec<PortId>, f64) {
        let ack = f64::from(self.wire(self.flows[flow].cc, 0));
        let data = f64::from(self.full_wire()) * f64::from(self.tcp.ack_every.max(1));
        (self.ack_path(flow), ack / data)
    }
}

/// Progressive filling: all flows rise together until a port on their path is full or they have what
/// they want.
fn fill(paths: &[Vec<PortId>], limits: &[f64], mut free: Vec<f64>) -> Vec<f64> {
    let mut users: Vec<u32> = vec![0; free.len()];
    for port in paths.iter().flatten() {
        users[port.index()] += 1;
    }
    let mut used: Vec<usize> = (0..free.len()).filter(|&p| users[p] > 0).collect();
    let mut rate = vec![0.0; paths.len()];
    let mut open: Vec<usize> = (0..paths.len()).filter(|&i| !paths[i].is_empty()).collect();
    let mut level = 0.0;
    while !open.is_empty() {
        let port_steps = used.iter().map(|&p| free[p] / f64::from(users[p]));
        let flow_steps = open.iter().map(|&i| limits[i] - level);
        let step = port_steps
            .chain(flow_steps)
            .fold(f64::INFINITY, f64::min)
            .max(0.0);
        level += step;
        for &p in &used {
            free[p] -= step * f64::from(users[p]);
        }
        let full = |port: &PortId| free[port.index()] <= 1.0;
        let done = |&i: &usize| level + 1.0 >= limits[i] || paths[i].iter().any(full);
        let (done, rest): (Vec<usize>, Vec<usize>) = open.iter().copied().partition(done);
        if done.is_empty() {
            break;
        }
        for i in done {
            rate[i] = level;
            for port in &paths[i] {
                users[port.index()] -= 1;
            }
        }
        used.retain(|&p| users[p] > 0);
        open = rest;
    }
    rate
}

/// The time `bytes` take at `rate_bps`, rounded up.
#[must_use]
pub const fn serialise_ns(bytes: u32, rate_bps: u64) -> u64 {
    (bytes as u64 * 8_000_000_000).div_ceil(if rate_bps == 0 { 1 } else { rate_bps })
}

/// SplitMix64's finaliser: a good hash of a number.
const fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
