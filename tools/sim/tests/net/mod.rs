// SPDX-License-Identifier: GPL-2.0
//! Small networks for tests: nodes and links by hand, shortest paths.
#![allow(dead_code, missing_docs)]

use fathom_sim::cc::Spec;
use fathom_sim::port::Port;
use fathom_sim::sender::TcpConfig;
use fathom_sim::sim::{FlowSpec, Setup, Sim, Work};
use fathom_sim::time::{Ps, NEVER, NS, US};
use std::collections::VecDeque;
use wire::Format;

pub const GBPS: u64 = 1_000_000_000;
pub const MTU: u32 = 1500;

pub struct Net {
    pub hosts: Vec<bool>,
    /// From, to.
    pub ends: Vec<(usize, usize)>,
    pub ports: Vec<Port>,
    pub specs: Vec<Spec>,
    pub flows: Vec<FlowSpec>,
    pub tcp: TcpConfig,
    pub seed: u64,
}

impl Default for Net {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            ends: Vec::new(),
            ports: Vec::new(),
            specs: Vec::new(),
            flows: Vec::new(),
            tcp: TcpConfig::default(),
            seed: 1,
        }
    }
}

impl Net {
    pub fn node(&mut self, host: bool) -> usize {
        self.hosts.push(host);
        self.hosts.len() - 1
    }

    /// Two ports; the first sends from `a` to `b`.
    pub fn link(&mut self, a: usize, b: usize, gbps: u64, delay: Ps) -> usize {
        for (from, to) in [(a, b), (b, a)] {
            let mut port = Port::new(gbps * GBPS, delay, 100_000_000);
            port.int = !self.hosts[from];
            port.host = self.hosts[from];
            port.set_hop_id(self.ports.len() as u8);
            self.ports.push(port);
            self.ends.push((from, to));
        }
        self.ports.len() - 2
    }

    pub fn path(&self, from: usize, to: usize) -> Vec<u32> {
        let mut via = vec![usize::MAX; self.hosts.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            for (p, &(a, b)) in self.ends.iter().enumerate() {
                if a == at && b != from && via[b] == usize::MAX {
                    via[b] = p;
                    queue.push_back(b);
                }
            }
        }
        let (mut path, mut at) = (Vec::new(), to);
        while at != from {
            path.push(via[at] as u32);
            at = self.ends[via[at]].0;
        }
        path.reverse();
        path
    }

    pub fn spec(&mut self, spec: Spec) -> u32 {
        self.specs.push(spec);
        self.specs.len() as u32 - 1
    }

    pub fn flow(
        &mut self,
        spec: u32,
        format: Option<Format>,
        from: usize,
        to: usize,
        start: Ps,
        work: Work,
    ) -> usize {
        self.flows.push(FlowSpec {
            start,
            stop: NEVER,
            work,
            app_bps: 0,
            spec,
            ecn: self.specs[spec as usize].ecn(),
            format,
            path: self.path(from, to),
            back: self.path(to, from),
            base_rtt_ns: 0,
            group: 0,
            racks: (0, 0),
            on: None,
        });
        self.flows.len() - 1
    }

    pub fn sim(self) -> Sim {
        let node_of_port = self.ends.iter().map(|e| e.0 as u32).collect();
        Sim::new(Setup {
            ports: self.ports,
            pools: Vec::new(),
            node_of_port,
            specs: self.specs,
            flows: self.flows,
            tcp: self.tcp,
            mtu: MTU,
            seed: self.seed,
            rotor: None,
        })
    }
}

/// `n` senders, a switch, a slower or equal link, a switch, `n` receivers. The bottleneck's port and the hosts.
pub fn dumbbell(
    n: usize,
    host_gbps: u64,
    gbps: u64,
    delay: Ps,
) -> (Net, usize, Vec<usize>, Vec<usize>) {
    let mut net = Net::default();
    let (left, right) = (net.node(false), net.node(false));
    let line = net.link(left, right, gbps, delay);
    let mut ends = (Vec::new(), Vec::new());
    for _ in 0..n {
        let (a, b) = (net.node(true), net.node(true));
        net.link(a, left, host_gbps, delay);
        net.link(right, b, host_gbps, delay);
        ends.0.push(a);
        ends.1.push(b);
    }
    (net, line, ends.0, ends.1)
}

/// Hosts around one switch. The port to each host is `2 host + 1`... of its link.
pub fn star(n: usize, gbps: u64, delay: Ps) -> (Net, Vec<usize>, Vec<usize>) {
    let mut net = Net::default();
    let hub = net.node(false);
    let (mut hosts, mut down) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let host = net.node(true);
        down.push(net.link(hub, host, gbps, delay));
        hosts.push(host);
    }
    (net, hosts, down)
}

pub fn format_of(name: &str) -> Option<Format> {
    match name {
        "poseidon" => Some(Format::Mpd),
        "powertcp" | "hpcc" => Some(Format::Bottleneck),
        _ => None,
    }
}

/// A law by name with its defaults, `base_rtt` us for Poseidon's target.
pub fn law(name: &str, base_rtt_us: u32) -> Spec {
    use fathom_sim::cc::*;
    match name {
        "poseidon" => Spec::poseidon(&laws::poseidon::Config {
            base_rtt_us,
            ..Default::default()
        }),
        "powertcp" => Spec::powertcp(&Default::default()),
        "theta_powertcp" => Spec::theta_powertcp(&Default::default()),
        "hpcc" => Spec::hpcc(&Default::default()),
        "swift" => Spec::swift(&Default::default()),
        "dctcp" => Ok(Spec::Dctcp(Default::default())),
        "cubic" => Ok(Spec::Cubic(Default::default())),
        "reno" => Ok(Spec::Reno(Default::default())),
        "timely" => Ok(Spec::Timely(Default::default())),
        "dcqcn" => Ok(Spec::Dcqcn(Default::default())),
        "retcp" => Ok(Spec::ReTcp(Default::default())),
        other => panic!("no law {other}"),
    }
    .expect("a valid configuration")
}

/// Runs from `from` to `to` and says how many Gbit/s of payload each flow got, the mean queue of `line` in
/// us sampled every us, and its 99th percentile.
pub fn measure(sim: &mut Sim, line: usize, from: Ps, to: Ps, flows: usize) -> (Vec<f64>, f64, f64) {
    sim.run_until(from);
    let before: Vec<u64> = (0..flows)
        .map(|f| sim.state(f as u32).delivered_bytes)
        .collect();
    let bps = sim.ports[line].bps() as f64;
    let mut queue = Vec::new();
    let mut at = from;
    while at < to {
        at += US;
        sim.run_until(at);
        queue.push(f64::from(sim.queue(line as u32)) * 8e6 / bps);
    }
    let rates = (0..flows)
        .map(|f| {
            (sim.state(f as u32).delivered_bytes - before[f]) as f64 * 8.0
                / ((to - from) / NS) as f64
        })
        .collect();
    queue.sort_by(f64::total_cmp);
    let mean = queue.iter().sum::<f64>() / queue.len() as f64;
    (rates, mean, queue[(queue.len() - 1) * 99 / 100])
}

pub fn jain(x: &[f64]) -> f64 {
    let (s, q): (f64, f64) = (x.iter().sum(), x.iter().map(|x| x * x).sum());
    s * s / (x.len() as f64 * q)
}
