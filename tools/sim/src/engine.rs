// SPDX-License-Identifier: GPL-2.0
//! Runs a scenario: its network, flows and faults become a [`Sim`], and what happens in it is counted as
//! the results want it.

use crate::cc::{cubic, dcqcn, dctcp, reno, retcp, timely, Ecn, Spec};
use crate::discipline::Discipline;
use crate::fault::{Faults, Lie};
use crate::packet::ETHERNET;
use crate::port::{Port, PortCounters, Watch, NO_POOL};
use crate::program::{self, Marking};
use crate::rng::{probability, Rng};
use crate::sender::TcpConfig;
use crate::sim::{FlowSpec, Pool, Rotor, Setup, Sim, Work};
use crate::time::{Ps, NEVER, NS};
use results::{Facts, FlowMeasured, Measured, PortMeasured, RpcMeasured, Samples};
use scenario::{
    BaseRtt, Buffer, CcSpec, Config, FaultKind, IntFault, Law, NodeKind, PortId, Queue, Resolved,
    SmallWindows,
};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// Networks of up to this many ports have every switch port watched at every moment; of larger ones those
/// that the scenario names, the others at every sample.
const WATCHED_PORTS: usize = 1024;

/// Why a scenario cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Something in it is beyond this engine.
    Unsupported(String),
    /// The caller did not want to go on.
    Cancelled,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(what) => write!(f, "the simulator cannot run this: {what}"),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl std::error::Error for Error {}

fn unsupported<T>(what: impl Into<String>) -> Result<T, Error> {
    Err(Error::Unsupported(what.into()))
}

/// Runs `resolved`. `progress` is told the part that is done, and says whether to go on.
///
/// # Errors
/// When the scenario asks for what the simulator has not, or `progress` says no.
pub fn run(resolved: &Resolved, progress: &mut dyn FnMut(f64) -> bool) -> Result<Measured, Error> {
    let mut run = Run::new(resolved)?;
    run.all(progress)?;
    Ok(run.measured())
}

/// The simulation that `resolved` asks for, before it begins; with its faults planned.
///
/// # Errors
/// When the scenario asks for what the simulator has not.
pub fn simulation(resolved: &Resolved) -> Result<Sim, Error> {
    let mut sim = Sim::new(setup(resolved)?);
    for fault in &resolved.faults {
        plan(&mut sim, resolved, fault);
    }
    Ok(sim)
}

/// A congestion control of the scenario.
fn spec(cc: &CcSpec) -> Result<Spec, Error> {
    let bad = |e: laws::ConfigError| Error::Unsupported(format!("{}: {e}", cc.name));
    let config = cc
        .config()
        .map_err(|(name, e)| Error::Unsupported(format!("{}: parameter {name}: {e:?}", cc.name)))?;
    let get = |name: &str| cc.get(name);
    let mbps = |name: &str| u64::from(cc.get(name)) * 125_000;
    let reno = || reno::Config {
        initial: get("initial_cwnd_packets"),
        ecn: get("ecn") != 0,
    };
    Ok(match config {
        Config::Poseidon(c) => Spec::poseidon(&c).map_err(bad)?,
        Config::Powertcp(c) => Spec::powertcp(&c).map_err(bad)?,
        Config::ThetaPowertcp(c) => Spec::theta_powertcp(&c).map_err(bad)?,
        Config::Hpcc(c) => Spec::hpcc(&c).map_err(bad)?,
        Config::Swift(c) => Spec::swift(&c).map_err(bad)?,
        Config::Baseline => match cc.law {
            Law::Reno => Spec::Reno(reno()),
            Law::Dctcp => Spec::Dctcp(dctcp::Config {
                initial: get("initial_cwnd_packets"),
                shift_g: get("shift_g"),
                alpha: get("alpha_on_init_1024ths"),
            }),
            Law::Cubic => Spec::Cubic(cubic::Config {
                initial: get("initial_cwnd_packets"),
                ecn: get("ecn") != 0,
                hystart: get("hystart") != 0,
            }),
            Law::Retcp => Spec::ReTcp(retcp::Config {
                reno: reno(),
                scale: get("scale_thousandths"),
                prebuffer_ns: u64::from(get("prebuffer_us")) * 1000,
            }),
            Law::Timely => Spec::Timely(timely::Config {
                ecn: get("ecn") != 0,
                t_low_ns: get("t_low_ns"),
                t_high_ns: get("t_high_ns"),
                add_step: mbps("add_step_mbps"),
                beta: get("beta_thousandths").into(),
                alpha: get("alpha_thousandths").into(),
                hai: get("hai_threshold"),
                min_rate: mbps("min_rate_mbps"),
            }),
            Law::Dcqcn => Spec::Dcqcn(dcqcn::Config {
                g: get("g_1024ths").into(),
                rai: mbps("rai_mbps"),
                rhai: mbps("rhai_mbps"),
                alpha_timer_ns: get("alpha_timer_ns").into(),
                rate_timer_ns: get("rate_timer_ns").into(),
                byte_counter: get("byte_counter").into(),
                fast_recovery: get("fast_recovery"),
                cnp_interval_ns: get("cnp_interval_ns").into(),
                min_rate: mbps("min_rate_mbps"),
            }),
            other => {
                return unsupported(format!(
                    "{} has no model here; it runs in the lab (--on lab)",
                    other.name()
                ))
            }
        },
    })
}

fn ecn(cc: &CcSpec) -> Ecn {
    match cc.law {
        Law::Dctcp => Ecn::Each,
        Law::Dcqcn => Ecn::Notify,
        _ if cc.ecn() => Ecn::Classic,
        _ => Ecn::None,
    }
}

fn discipline(queue: Queue) -> Discipline {
    let bytes = |b: u64| b.min(u64::from(u32::MAX)) as u32;
    match queue {
        Queue::Fifo => Discipline::Fifo,
        Queue::Ecn { threshold } => Discipline::Ecn {
            threshold: bytes(threshold),
        },
        Queue::Red {
            min,
            max,
            probability: p,
            ecn,
        } => Discipline::Red {
            min: bytes(min),
            max: bytes(max.max(min + 1)),
            most: probability(p),
            ecn,
        },
        Queue::Codel {
            target,
            interval,
            ecn,
        } => Discipline::codel(target, interval, ecn, false),
        Queue::CodelRpm { target, interval } => Discipline::codel(target, interval, true, true),
    }
}

/// The wire behind a port, with what its ends take: the node at the far end before its queue, and a host
/// before its own.
fn wire(r: &Resolved, port: PortId, delay_ns: u64) -> Ps {
    let (near, far) = (&r.nodes[r.near_end(port)], &r.nodes[r.far_end(port)]);
    let mut ns = delay_ns;
    if far.kind == NodeKind::Switch {
        ns += far.delay_ns;
    }
    if near.kind == NodeKind::Host {
        ns += near.delay_ns;
    }
    ns.saturating_mul(NS)
}

/// Ids by which telemetry tells the ports of a path apart: the upper three bits say between which tiers a
/// port is, the lower five count.
fn hop_ids(r: &Resolved) -> Vec<u8> {
    let mut tier = vec![u8::MAX; r.nodes.len()];
    let mut edge: Vec<usize> = r.hosts().collect();
    let mut level = 0u8;
    while !edge.is_empty() && level < 8 {
        for &node in &edge {
            tier[node] = level;
        }
        level += 1;
        let mut next: Vec<usize> = edge
            .iter()
            .flat_map(|&n| r.nodes[n].ports.iter().map(|&p| r.far_end(p)))
            .filter(|&n| tier[n] == u8::MAX)
            .collect();
        next.sort_unstable();
        next.dedup();
        edge = next;
    }
    let mut counts = [0u8; 8];
    r.ports()
        .map(|p| {
            let (near, far) = (tier[r.near_end(p)], tier[r.far_end(p)]);
            let class = match far.cmp(&near) {
                std::cmp::Ordering::Greater => near.min(3),
                std::cmp::Ordering::Less => 4 + far.min(2),
                std::cmp::Ordering::Equal => 7,
            };
            let count = &mut counts[usize::from(class)];
            *count = (*count + 1) % 32;
            (class << 5) | *count
        })
        .collect()
}

/// A scenario that runs.
struct Run<'a> {
    r: &'a Resolved,
    sim: Sim,
    flows: Vec<FlowMeasured>,
    at_from: Vec<u64>,
    ports_from: Vec<PortCounters>,
    ports_until: Vec<PortCounters>,
    watches: Vec<Option<Box<Watch>>>,
    sampled: Vec<Watch>,
    samples: Samples,
    tracked: Vec<usize>,
    notes: Vec<String>,
}

impl<'a> Run<'a> {
    fn new(r: &'a Resolved) -> Result<Self, Error> {
        let sim = simulation(r)?;
        let mut notes = Vec::new();
        if r.ccs.iter().any(|cc| cc.law == Law::Retcp) && r.circuits.is_none() {
            notes.push("reTCP without circuits is Reno".to_owned());
        }
        let tracked = Samples::tracked(r);
        let count = Samples::count(r);
        let mut samples = Samples {
            group_delivered: vec![Vec::with_capacity(count); r.groups.len()],
            ..Samples::default()
        };
        for &f in &tracked {
            samples.delivered.insert(f, Vec::with_capacity(count));
        }
        for &f in &r.measure.flows {
            samples.cwnd.insert(f, Vec::with_capacity(count));
            samples.rtt.insert(f, Vec::with_capacity(count));
        }
        for &p in &r.measure.ports {
            samples.queue.insert(p, Vec::with_capacity(count));
            samples.sent.insert(p, Vec::with_capacity(count));
        }
        Ok(Self {
            r,
            sim,
            flows: vec![FlowMeasured::default(); r.flows.len()],
            at_from: vec![0; r.flows.len()],
            ports_from: Vec::new(),
            ports_until: Vec::new(),
            watches: Vec::new(),
            sampled: Vec::new(),
            samples,
            tracked,
            notes,
        })
    }

    fn all(&mut self, progress: &mut dyn FnMut(f64) -> bool) -> Result<(), Error> {
        let m = &self.r.measure;
        let end = self.r.duration_ns;
        let (mut from, mut until) = (Some(m.from_ns.min(end)), Some(m.until_ns.min(end)));
        let mut told = std::time::Instant::now();
        let mut sample = Some(0);
        // What is due next: the beginning of the measured time, a sample, its end.
        while let Some(at) = [from, sample, until].into_iter().flatten().min() {
            self.sim.run_until(at.saturating_mul(NS));
            if from == Some(at) {
                from = None;
                self.begin();
            }
            if sample == Some(at) {
                self.sample(from.is_none() && until.is_some());
                let next = at + m.interval_ns;
                sample = (next <= end).then_some(next);
            }
            if until == Some(at) {
                until = None;
                self.end();
            }
            self.settle();
            if told.elapsed().as_millis() > 100 {
                told = std::time::Instant::now();
                if !progress(at as f64 / end.max(1) as f64) {
                    return Err(Error::Cancelled);
                }
            }
        }
        self.sim.run_until(end.saturating_mul(NS));
        self.settle();
        Ok(())
    }

    /// Takes note of finished connections and lets go of them.
    fn settle(&mut self) {
        for flow in self.sim.take_finished() {
            self.note(flow);
            self.sim.release_flow(flow);
        }
    }

    fn note(&mut self, flow: u32) {
        let state = *self.sim.state(flow);
        let m = &mut self.flows[flow as usize];
        m.bytes = state.acked_bytes;
        let complete = !matches!(self.r.flows[flow as usize].work, scenario::Work::Long);
        let whole = match self.r.flows[flow as usize].work {
            scenario::Work::Bytes(bytes) => state.acked_bytes == bytes,
            scenario::Work::Rpc { count, .. } => Some(state.answers) == count,
            scenario::Work::Long => false,
        };
        if complete && whole && state.finished != NEVER {
            m.finish_ns = Some(state.finished / NS);
        }
        if self.r.flows[flow as usize].on.is_none() {
            self.note_connection(flow);
        }
    }

    /// What is counted of a connection: of one that stands, under the first message that it carried.
    fn note_connection(&mut self, flow: u32) {
        let counters = self.sim.sender_counters(flow);
        let m = &mut self.flows[flow as usize];
        m.retransmits = counters.retransmits;
        m.timeouts = counters.timeouts;
        if let Some(sender) = self.sim.sender(flow) {
            m.rtt_min_ns = sender.min_rtt_ns().unwrap_or(0);
            if let Some(rtts) = sender.rtts() {
                m.rtt_mean_ns = rtts.mean();
                m.rtt_p99_ns = rtts.quantile(99, 100) as f64;
                m.rtt_samples = rtts.count();
            }
        }
        if let Some(latencies) = self.sim.latencies(flow) {
            m.rpc = Some(RpcMeasured {
                completed: latencies.count(),
                latency_mean_ns: latencies.mean(),
                latency_p50_ns: latencies.quantile(1, 2) as f64,
                latency_p99_ns: latencies.quantile(99, 100) as f64,
            });
        }
    }

    /// The measured time begins.
    fn begin(&mut self) {
        let now = self.sim.now();
        let watch_all = self.sim.ports.len() <= WATCHED_PORTS;
        for f in 0..self.r.flows.len() {
            self.at_from[f] = self.sim.state(f as u32).acked_bytes;
        }
        for p in 0..self.sim.ports.len() {
            self.sim.queue(p as u32);
            let id = PortId(p as u32);
            if watch_all || self.r.measure.ports.contains(&id) {
                self.sim.ports[p].watch = Some(Box::new(Watch::from(now)));
            }
        }
        if !watch_all {
            self.sampled = vec![Watch::default(); self.sim.ports.len()];
        }
        self.ports_from = self.sim.ports.iter().map(|p| p.counters).collect();
        self.sim.count_rtts(true);
    }

    /// It ends.
    fn end(&mut self) {
        let now = self.sim.now();
        for p in 0..self.sim.ports.len() {
            self.sim.queue(p as u32);
            self.sim.ports[p].settle(now);
        }
        self.watches = self.sim.ports.iter_mut().map(|p| p.watch.take()).collect();
        self.ports_until = self.sim.ports.iter().map(|p| p.counters).collect();
        self.sim.count_rtts(false);
        for f in 0..self.r.flows.len() {
            let acked = self.sim.state(f as u32).acked_bytes;
            self.flows[f].measured_bytes = acked - self.at_from[f];
        }
    }

    fn sample(&mut self, measuring: bool) {
        for (series, &acked) in self
            .samples
            .group_delivered
            .iter_mut()
            .zip(self.sim.group_acked())
        {
            series.push(acked);
        }
        // Groups without flows have acknowledged nothing.
        for series in self
            .samples
            .group_delivered
            .iter_mut()
            .skip(self.sim.group_acked().len())
        {
            series.push(0);
        }
        for &f in &self.tracked {
            let acked = self.sim.state(f as u32).acked_bytes;
            if let Some(series) = self.samples.delivered.get_mut(&f) {
                series.push(acked);
            }
        }
        for &f in &self.r.measure.flows {
            let sender = self.sim.sender(f as u32);
            if let Some(series) = self.samples.cwnd.get_mut(&f) {
                series.push(sender.map_or(f64::NAN, crate::sender::Sender::cwnd));
            }
            if let Some(series) = self.samples.rtt.get_mut(&f) {
                let rtt = sender.map(|s| s.counters.rtt_ns).filter(|&rtt| rtt != 0);
                series.push(rtt.map_or(f64::NAN, f64::from));
            }
        }
        for &p in &self.r.measure.ports {
            let queue = self.sim.queue(p.0);
            let sent = self.sim.ports[p.index()].counters.bytes;
            if let Some(series) = self.samples.queue.get_mut(&p) {
                series.push(queue.into());
            }
            if let Some(series) = self.samples.sent.get_mut(&p) {
                series.push(sent);
            }
        }
        if measuring && !self.sampled.is_empty() {
            for p in 0..self.sim.ports.len() {
                if !self.sim.ports[p].host && self.sim.ports[p].watch.is_none() {
                    let queue = self.sim.queue(p as u32);
                    self.sampled[p].count(queue);
                }
            }
        }
    }

    fn measured(mut self) -> Measured {
        for f in 0..self.r.flows.len() as u32 {
            if !self.sim.state(f).done {
                self.note(f);
            }
            if self.r.flows[f as usize].on == Some(f as usize) {
                self.note_connection(f);
            }
        }
        let ports = (0..self.sim.ports.len())
            .map(|p| {
                let (from, until) = (&self.ports_from[p], &self.ports_until[p]);
                let (mean, p99, max) = match &self.watches[p] {
                    Some(watch) => watch.lengths(),
                    None => self.sampled.get(p).map_or((0.0, 0, 0), Watch::lengths),
                };
                PortMeasured {
                    queue_mean_bytes: mean,
                    queue_p99_bytes: p99,
                    queue_max_bytes: max,
                    packets: until.packets - from.packets,
                    wire_bytes: until.bytes - from.bytes,
                    drops: until.drops - from.drops,
                    marks: until.marks - from.marks,
                }
            })
            .collect();
        let hops = self.sim.ports.iter().map(|p| p.counters.packets).sum();
        let own = self.sim.ports.iter().filter(|p| p.host);
        let packets = own.map(|p| p.counters.packets).sum();
        Measured {
            flows: self.flows,
            ports,
            samples: self.samples,
            facts: Facts {
                events: self.sim.events(),
                packets,
                packet_hops: hops,
                kernel: String::new(),
                notes: self.notes,
            },
        }
    }
}

fn tcp(r: &Resolved) -> TcpConfig {
    TcpConfig {
        ack_every: r.tcp.ack_every,
        ack_delay_ns: r.tcp.ack_delay_ns,
        min_rto_ns: r.tcp.min_rto_ns,
        timestamps: r.tcp.timestamps,
        receive_window: r.tcp.receive_window,
        published_windows: r.tcp.small_windows == SmallWindows::Published,
        ..TcpConfig::default()
    }
}

fn setup(r: &Resolved) -> Result<Setup, Error> {
    let specs: Vec<Spec> = r.ccs.iter().map(spec).collect::<Result<_, _>>()?;
    let mut ports = Vec::with_capacity(r.links.len() * 2);
    let mut node_of_port = Vec::with_capacity(r.links.len() * 2);
    let mut pools: Vec<Pool> = Vec::new();
    let mut pool_of_node = vec![NO_POOL; r.nodes.len()];
    for (id, hop_id) in r.ports().zip(hop_ids(r)) {
        let p = r.port(id);
        let near = r.near_end(id);
        let node = &r.nodes[near];
        let limit = match p.buffer {
            Buffer::Own(bytes) => bytes.min(u64::from(u32::MAX / 2)) as u32,
            Buffer::Shared => u32::MAX / 2,
        };
        let mut port = Port::new(p.rate_bps, wire(r, id, p.delay_ns), limit);
        port.framing = r.overhead.saturating_sub(ETHERNET);
        port.host = node.kind == NodeKind::Host;
        port.int = p.int;
        port.set_hop_id(hop_id);
        port.set_discipline(discipline(p.queue));
        if p.buffer == Buffer::Shared {
            let Some(shared) = node.shared_buffer else {
                return unsupported(format!(
                    "port {} uses a shared buffer that node {} has not",
                    r.port_name(id),
                    node.name
                ));
            };
            if pool_of_node[near] == NO_POOL {
                pool_of_node[near] = pools.len() as u32;
                pools.push(Pool::new(shared.bytes, shared.alpha));
            }
            port.pool = pool_of_node[near];
            pools[port.pool as usize].ports.push(id.0);
        }
        ports.push(port);
        node_of_port.push(near as u32);
    }
    programs(r, &mut ports)?;
    let rotor = r.circuits.as_ref().map(|c| rotor(r, c, &mut ports));
    let mut flows = Vec::with_capacity(r.flows.len());
    for (id, f) in r.flows.iter().enumerate() {
        let (path, back) = (r.path(id), r.ack_path(id));
        if path.is_empty() || back.is_empty() {
            return unsupported(format!(
                "there is no route from {} to {}",
                r.nodes[f.src].name, r.nodes[f.dst].name
            ));
        }
        let cc = &r.ccs[f.cc];
        let base_rtt_ns = match cc.base_rtt {
            BaseRtt::Learn => 0,
            BaseRtt::Path => r.base_rtt_ns(id),
            BaseRtt::Given(ns) => ns,
        };
        let index = |ports: Vec<PortId>| ports.into_iter().map(|p| p.0).collect();
        flows.push(FlowSpec {
            start: f.start_ns.saturating_mul(NS),
            stop: f.stop_ns.map_or(NEVER, |ns| ns.saturating_mul(NS)),
            work: match f.work {
                scenario::Work::Long => Work::Long,
                scenario::Work::Bytes(bytes) => Work::Bytes(bytes),
                scenario::Work::Rpc {
                    request,
                    response,
                    count,
                    think_ns,
                } => Work::Rpc {
                    request,
                    response,
                    count: count.unwrap_or(u64::MAX),
                    think: think_ns.saturating_mul(NS),
                },
            },
            app_bps: f.app_bps,
            spec: f.cc as u32,
            ecn: ecn(cc),
            format: cc.int.map(scenario::IntFormat::wire),
            path: index(path),
            back: index(back),
            base_rtt_ns: base_rtt_ns.min(u64::from(u32::MAX)) as u32,
            group: f.group as u32,
            racks: (
                r.nodes[f.src].rack.unwrap_or(u32::MAX),
                r.nodes[f.dst].rack.unwrap_or(u32::MAX),
            ),
            on: f.on.map(|on| on as u32),
        });
    }
    Ok(Setup {
        ports,
        pools,
        node_of_port,
        specs,
        flows,
        tcp: tcp(r),
        mtu: r.mtu,
        seed: r.seed,
        rotor,
    })
}

/// Gives the ports of switches that have one their program.
fn programs(r: &Resolved, ports: &mut [Port]) -> Result<(), Error> {
    let mut loaded: BTreeMap<&str, p4::Program> = BTreeMap::new();
    for node in &r.nodes {
        let Some(path) = node.p4.as_deref() else {
            continue;
        };
        let refused = |e: program::Refused| {
            Error::Unsupported(format!("switch {} with {path}: {e}", node.name))
        };
        if !loaded.contains_key(path) {
            let program = p4::load(Path::new(path), &[])
                .map_err(|e| Error::Unsupported(format!("switch {}: {e}", node.name)))?;
            loaded.insert(path, program);
        }
        let Some(program) = loaded.get(path) else {
            continue;
        };
        let drops = program.drops_at_egress();
        let mut switch = program::Node::new(program).map_err(refused)?;
        for &id in &node.ports {
            let port = &mut ports[id.index()];
            let mut marking = None;
            if switch.marks() && port.int {
                marking = match r.port(id).queue {
                    Queue::Codel { ecn: false, .. } => {
                        return unsupported(format!(
                            "port {}: CoDel without ECN, and {path} marks what speaks ECN",
                            r.port_name(id)
                        ))
                    }
                    Queue::Codel {
                        target, interval, ..
                    } => Some((target, interval, false)),
                    Queue::CodelRpm { target, interval } => Some((target, interval, true)),
                    Queue::Fifo | Queue::Ecn { .. } | Queue::Red { .. } => None,
                }
                .map(|(target_ns, interval_ns, reverse)| Marking {
                    target_ns,
                    interval_ns,
                    reverse,
                });
                if marking.is_some() {
                    port.set_discipline(Discipline::Fifo);
                }
            }
            let at_port = switch.port(marking, r.tcp.timestamps).map_err(refused)?;
            port.set_program(at_port, drops).map_err(refused)?;
        }
    }
    Ok(())
}

fn rotor(r: &Resolved, c: &scenario::Circuits, ports: &mut [Port]) -> Rotor {
    let racks = c
        .circuits
        .iter()
        .map(|c| c.to_rack as usize + 1)
        .max()
        .unwrap_or(0);
    let mut rotor = Rotor::new(
        c.day_ns.saturating_mul(NS),
        c.night_ns.saturating_mul(NS),
        c.matchings,
        racks,
        ports.len(),
    );
    let mut rack_of_node = vec![None; r.nodes.len()];
    for circuit in &c.circuits {
        rack_of_node[r.far_end(circuit.port)] = Some(circuit.to_rack as usize);
    }
    for circuit in &c.circuits {
        let Some(from) = rack_of_node[r.near_end(circuit.port)] else {
            continue;
        };
        rotor.ports[from][circuit.to_rack as usize] = circuit.port.0;
        rotor.matching[from][circuit.to_rack as usize] = circuit.matching;
        ports[circuit.port.index()].open = false;
    }
    let is_circuit = |p: PortId| c.circuits.iter().any(|c| c.port == p);
    for p in r.ports() {
        let far = r.far_end(p);
        if let Some(rack) = rack_of_node[r.near_end(p)] {
            if r.nodes[far].kind == NodeKind::Switch && !is_circuit(p) {
                rotor.rack_of_port[p.index()] = rack as u32 + 1;
            }
        }
    }
    rotor
}

/// Lets a fault begin and end.
fn plan(sim: &mut Sim, r: &Resolved, fault: &scenario::Fault) {
    for &id in &fault.ports {
        let usual = r.port(id);
        let (rate, delay) = (usual.rate_bps, wire(r, id, usual.delay_ns));
        let kind = fault.kind;
        let late = match kind {
            FaultKind::Delay { delay_ns } => wire(r, id, delay_ns),
            FaultKind::Reorder { delay_ns, .. } => delay_ns.saturating_mul(NS),
            _ => 0,
        };
        let rng = Rng::new(r.seed).fork(0xfa17 ^ (u64::from(id.0) << 16));
        let apply = move |on: bool| {
            move |sim: &mut Sim, _now: Ps| {
                sim.change_port(id.0, |port| befall(port, kind, on, late, rate, delay, rng));
            }
        };
        sim.change_at(fault.from_ns.saturating_mul(NS), Box::new(apply(true)));
        if let Some(until) = fault.until_ns {
            sim.change_at(until.saturating_mul(NS), Box::new(apply(false)));
        }
    }
}

fn befall(port: &mut Port, kind: FaultKind, on: bool, late: Ps, rate: u64, delay: Ps, rng: Rng) {
    match kind {
        FaultKind::Rate { rate_bps } => return port.set_rate(if on { rate_bps } else { rate }),
        FaultKind::Delay { .. } => return port.set_delay(if on { late } else { delay }),
        _ => {}
    }
    let faults = port
        .faults
        .get_or_insert_with(|| Box::new(Faults::new(rng)));
    let chance = |p: f64| if on { probability(p) } else { 0 };
    match kind {
        FaultKind::Loss { probability } => faults.loss = chance(probability),
        FaultKind::Reorder { probability, .. } => {
            faults.reorder = chance(probability);
            faults.late = late;
        }
        FaultKind::Duplicate { probability } => faults.duplicate = chance(probability),
        FaultKind::Corrupt { probability } => faults.corrupt = chance(probability),
        FaultKind::Strip { probability } => faults.strip = chance(probability),
        FaultKind::Down => faults.down = on,
        FaultKind::Int(IntFault::Off) => faults.int_off = on,
        FaultKind::Int(lie) => {
            let lie = match lie {
                IntFault::Max => Lie::Max,
                IntFault::Random => Lie::Random,
                IntFault::Zero | IntFault::Off => Lie::Zero,
            };
            faults.lie = on.then_some(lie);
        }
        FaultKind::Rate { .. } | FaultKind::Delay { .. } => {}
    }
}
