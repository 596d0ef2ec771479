// SPDX-License-Identifier: GPL-2.0

//! From a file to a network: everything is looked up, checked and made explicit.

use crate::cc::{BaseRtt, CcSpec, Law, ParamError};
use crate::error::{closest, Error, Source};
use crate::file::{
    int_format, CcValue, FaultTable, File, Many, NodeKindTable, PortTable, QueueTable, SwitchTable,
};
use crate::metric::Expectation;
use crate::network::{
    Buffer, Circuits, Fault, FaultKind, Flow, Group, Link, Measure, Node, NodeId, NodeKind, Port,
    PortId, Queue, Resolved, Routes, SharedBuffer, Tcp, Work,
};
use crate::pattern;
use crate::routes;
use crate::topology::{check_rate, generate, Draft, DraftLink, DraftNode, MAX_NODES};
use crate::traffic::Traffic;
use crate::units::{show_ns, Room, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use toml::Spanned;

type Result<T> = std::result::Result<T, Box<Error>>;

/// Room of a switch port when nothing is said.
const DEFAULT_BUFFER: u64 = 4_000_000;
/// Room of a host's own port: a host does not drop its own packets.
const HOST_BUFFER: u64 = 1 << 30;
/// The most repetitions of a fault.
const MAX_REPEATS: u64 = 10_000;
/// Flows with a time series each, when nothing is said.
const DEFAULT_SERIES: usize = 16;
/// ... and when groups are named.
const MAX_SERIES: usize = 256;
/// Ports with a time series each, when nothing is said.
const DEFAULT_PORTS: usize = 8;
/// Flows looked at to find the busiest port.
const ENOUGH_FLOWS: usize = 20_000;

/// A network in the making.
pub(crate) struct Resolver<'a> {
    pub(crate) source: &'a Source,
    pub(crate) file: &'a File,
    pub(crate) dir: &'a Path,
    /// The congestion control under test.
    cc: &'a str,
    pub(crate) seed: u64,
    pub(crate) duration_ns: u64,
    mtu: u32,
    overhead: u32,
    pub(crate) nodes: Vec<Node>,
    links: Vec<Link>,
    circuits: Option<Circuits>,
    routes: Routes,
    ccs: Vec<CcSpec>,
    /// P4 programs that were found good: by what the file calls them, where they are.
    programs: BTreeMap<String, String>,
}

impl<'a> Resolver<'a> {
    /// Resolves `file` with `cc` under test.
    pub(crate) fn run(
        source: &'a Source,
        file: &'a File,
        dir: &'a Path,
        name: &str,
        cc: &'a str,
    ) -> Result<Resolved> {
        let mut r = Self {
            source,
            file,
            dir,
            cc,
            seed: file.seed,
            duration_ns: file.duration.get_ref().0,
            mtu: 1500,
            overhead: 38,
            nodes: Vec::new(),
            links: Vec::new(),
            circuits: None,
            routes: Routes::default(),
            ccs: Vec::new(),
            programs: BTreeMap::new(),
        };
        if r.duration_ns == 0 {
            return Err(source.error(
                file.duration.span(),
                "a scenario that lasts 0 s",
                "such as \"50ms\"",
            ));
        }
        r.packets()?;
        let tcp = r.tcp()?;
        // Every congestion control of the file is checked, used or not.
        for name in file.cc.keys() {
            r.spec(name.get_ref(), Some(name.span()))?;
        }
        for name in file.compare.get_ref() {
            r.spec(name.get_ref(), Some(name.span()))?;
        }
        r.build()?;
        r.set_routes()?;
        let (groups, flows) = Traffic::expand(&mut r)?;
        let faults = r.faults()?;
        let expect = r.expectations(&groups)?;
        let mut resolved = Resolved {
            name: name.to_owned(),
            title: file.title.clone(),
            figure: file.figure.clone(),
            cc: cc.to_owned(),
            seed: r.seed,
            duration_ns: r.duration_ns,
            mtu: r.mtu,
            overhead: r.overhead,
            tcp,
            nodes: r.nodes,
            links: r.links,
            routes: r.routes,
            groups,
            ccs: r.ccs,
            flows,
            faults,
            circuits: r.circuits,
            measure: Measure {
                from_ns: 0,
                until_ns: 0,
                interval_ns: 0,
                window_ns: 0,
                settled_ns: None,
                ports: Vec::new(),
                flows: Vec::new(),
                size_bins: Vec::new(),
            },
            expect,
        };
        resolved.measure = measure(source, file, &resolved)?;
        Ok(resolved)
    }

    fn error(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Box<Error> {
        self.source.error(span, message, help)
    }

    fn within(&self, value: &Spanned<u32>, what: &str, min: u32, max: u32) -> Result<u32> {
        let n = *value.get_ref();
        if (min..=max).contains(&n) {
            return Ok(n);
        }
        Err(self.error(
            value.span(),
            format!("{what} is {n}, and must be from {min} to {max}"),
            "",
        ))
    }

    fn packets(&mut self) -> Result<()> {
        let network = &self.file.network;
        if let Some(mtu) = &network.mtu {
            self.mtu = self.within(mtu, "the MTU", 256, 65_535)?;
        }
        if let Some(overhead) = &network.overhead {
            self.overhead = self.within(overhead, "the overhead", 0, 1000)?;
        }
        Ok(())
    }

    fn tcp(&self) -> Result<Tcp> {
        let t = &self.file.tcp;
        let min_rto_ns = match &t.min_rto {
            None => 5_000_000,
            Some(rto) if rto.get_ref().0 < 1000 => {
                return Err(self.error(
                    rto.span(),
                    "a retransmission timeout below 1 us",
                    "at least \"1us\"",
                ));
            }
            Some(rto) => rto.get_ref().0,
        };
        Ok(Tcp {
            ack_every: match &t.ack_every {
                Some(n) => self.within(n, "ack_every", 1, 64)?,
                None => 1,
            },
            ack_delay_ns: t.ack_delay.map_or(40_000_000, |Time(t)| t),
            min_rto_ns,
            timestamps: t.timestamps.unwrap_or(true),
            receive_window: t.receive_window.map_or(0, |s| s.0),
            small_windows: t.small_windows.unwrap_or_default(),
        })
    }

    /// Nodes, links and what stands in their ports.
    fn build(&mut self) -> Result<()> {
        let mut draft = match &self.file.topology {
            Some(topology) => generate(self.source, topology.get_ref())?,
            None => Draft::default(),
        };
        self.add_nodes(&mut draft)?;
        self.add_links(&mut draft)?;
        let switch = &self.file.switch;
        self.nodes = draft
            .nodes
            .into_iter()
            .map(|n| Node {
                name: n.name,
                kind: n.kind,
                delay_ns: 0,
                shared_buffer: None,
                p4: None,
                rack: n.rack,
                ports: Vec::new(),
            })
            .collect();
        self.links = draft
            .links
            .iter()
            .map(|l| Link {
                a: l.a,
                b: l.b,
                ports: [0, 1].map(|way| Port {
                    rate_bps: l.rate[way],
                    delay_ns: l.delay[way],
                    buffer: Buffer::Own(DEFAULT_BUFFER),
                    queue: Queue::Fifo,
                    int: false,
                }),
            })
            .collect();
        self.circuits = draft.circuits;
        for (l, link) in self.links.iter().enumerate() {
            self.nodes[link.a].ports.push(PortId::new(l, false));
            self.nodes[link.b].ports.push(PortId::new(l, true));
        }
        if let Some(host) = self
            .nodes
            .iter()
            .find(|n| n.kind == NodeKind::Host && n.ports.is_empty())
        {
            let table = self
                .file
                .nodes
                .iter()
                .find(|t| *t.name.get_ref() == host.name);
            let span = table.map_or(0..0, |t| t.name.span());
            let message = format!(
                "host {:?} has no link, and so no route to anyone",
                host.name
            );
            return Err(self.error(span, message, "a [[links]] with this host"));
        }
        // First what holds for all, then what `switches` and `ports` say of some.
        let all = |delay, shared_buffer: &Option<_>, alpha: &Option<_>, int, p4: &Option<_>| {
            SwitchTable {
                of: Spanned::new(0..0, Many(vec!["*".into()])),
                delay,
                shared_buffer: shared_buffer.clone(),
                alpha: alpha.clone(),
                int: Some(Option::unwrap_or(int, true)),
                p4: p4.clone(),
            }
        };
        let all = all(
            switch.delay,
            &switch.shared_buffer,
            &switch.alpha,
            switch.int,
            &switch.p4,
        );
        if self.nodes.iter().any(|n| n.kind == NodeKind::Switch) {
            self.set_switches(&all)?;
        }
        self.set_programs()?;
        for table in &self.file.switches {
            self.set_switches(table)?;
        }
        for p in 0..self.links.len() as u32 * 2 {
            let port = PortId(p);
            let settings = match self.nodes[self.near_end(port)].kind {
                NodeKind::Host => {
                    self.port_mut(port).buffer = Buffer::Own(HOST_BUFFER);
                    &self.file.host_port
                }
                NodeKind::Switch => &self.file.port,
            };
            self.set_port(
                port,
                settings.buffer.as_ref(),
                settings.queue.as_ref(),
                settings.int,
            )?;
        }
        for table in &self.file.ports {
            self.set_ports(table)?;
        }
        Ok(())
    }

    fn add_nodes(&self, draft: &mut Draft) -> Result<()> {
        for table in &self.file.nodes {
            let name = table.name.get_ref();
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
            if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
                let message = format!("{name:?} is not a name for a node");
                return Err(self.error(
                    table.name.span(),
                    message,
                    "letters, digits, _ and ., at most 64",
                ));
            }
            if draft.nodes.iter().any(|n| n.name == *name) {
                return Err(self.error(
                    table.name.span(),
                    format!("there is already a node {name:?}"),
                    "another name",
                ));
            }
            if draft.nodes.len() as u64 >= MAX_NODES {
                return Err(self.error(
                    table.name.span(),
                    format!("more than {MAX_NODES} nodes"),
                    "",
                ));
            }
            draft.nodes.push(DraftNode {
                name: name.clone(),
                kind: match table.kind {
                    NodeKindTable::Host => NodeKind::Host,
                    NodeKindTable::Switch => NodeKind::Switch,
                },
                rack: None,
            });
        }
        Ok(())
    }

    fn add_links(&self, draft: &mut Draft) -> Result<()> {
        let names: BTreeMap<String, NodeId> = draft
            .nodes
            .iter()
            .enumerate()
            .map(|(i, n)| (n.name.clone(), i))
            .collect();
        let find = |name: &Spanned<String>| {
            names.get(name.get_ref()).copied().ok_or_else(|| {
                self.unknown(
                    name.span(),
                    "node",
                    name.get_ref(),
                    names.keys().map(String::as_str),
                )
            })
        };
        for table in &self.file.links {
            let (a, b) = (find(&table.a)?, find(&table.b)?);
            if a == b {
                let message = format!("a link from {:?} to itself", table.a.get_ref());
                return Err(self.error(table.b.span(), message, "two different nodes"));
            }
            if draft
                .links
                .iter()
                .any(|l| (l.a, l.b) == (a, b) || (l.a, l.b) == (b, a))
            {
                let message = format!(
                    "{:?} and {:?} are linked already",
                    table.a.get_ref(),
                    table.b.get_ref()
                );
                return Err(self.error(
                    table.b.span(),
                    message,
                    "one link between two nodes, of the rate of both",
                ));
            }
            let rate = check_rate(self.source, &table.rate)?;
            let back = table
                .back_rate
                .as_ref()
                .map_or(Ok(rate), |r| check_rate(self.source, r))?;
            draft.links.push(DraftLink {
                a,
                b,
                rate: [rate, back],
                delay: [table.delay.0, table.back_delay.unwrap_or(table.delay).0],
            });
        }
        if draft.nodes.is_empty() {
            let message = "the scenario has no network";
            return Err(self.error(
                0..0,
                message,
                "a [topology.KIND], or [[nodes]] and [[links]]",
            ));
        }
        Ok(())
    }

    /// The programs that `[[nodes]]` name.
    fn set_programs(&mut self) -> Result<()> {
        for table in &self.file.nodes {
            let Some(p4) = &table.p4 else { continue };
            let name = table.name.get_ref();
            let node = self.nodes.iter().position(|n| n.name == *name);
            let Some(node) = node.filter(|&n| self.nodes[n].kind == NodeKind::Switch) else {
                let message = format!("{name:?} is a host, and hosts run no P4 program");
                return Err(self.error(p4.span(), message, "on a switch, or not at all"));
            };
            self.nodes[node].p4 = Some(self.program(p4)?);
        }
        Ok(())
    }

    /// Where the P4 program is that the file calls so. It is read and checked, so that what is wrong with it is
    /// known before anything runs.
    fn program(&mut self, p4: &Spanned<String>) -> Result<String> {
        let name = p4.get_ref();
        if let Some(found) = self.programs.get(name) {
            return Ok(found.clone());
        }
        let mut places = self.dir.ancestors().map(|dir| dir.join(name));
        let Some(path) = places.find(|path| path.is_file()) else {
            let message = format!("there is no P4 program {name:?}");
            let help = "a file beside the scenario or in a folder above it";
            return Err(self.error(p4.span(), message, help));
        };
        let program = p4::load(&path, &[]).map_err(|e| {
            let message = format!("the P4 program is wrong: {e}");
            self.error(p4.span(), message, "what p4c for v1model would take")
        })?;
        if program.architecture() != p4::Architecture::V1Model {
            let message = format!("{name:?} is a program for Tofino");
            return Err(self.error(
                p4.span(),
                message,
                "one for v1model, such as its twin in p4/v1model/",
            ));
        }
        let path = path.display().to_string();
        self.programs.insert(name.clone(), path.clone());
        Ok(path)
    }

    fn set_switches(&mut self, t: &SwitchTable) -> Result<()> {
        let nodes = self.nodes_of(&t.of, NodeKind::Switch)?;
        let program = t.p4.as_ref().map(|p4| self.program(p4)).transpose()?;
        for n in nodes {
            let node = &mut self.nodes[n];
            if let Some(Time(delay)) = t.delay {
                node.delay_ns = delay;
            }
            if let Some(alpha) = &t.alpha {
                if !(*alpha.get_ref() > 0.0 && *alpha.get_ref() <= 1024.0) {
                    let message = format!(
                        "alpha is {}, and must be above 0 and at most 1024",
                        alpha.get_ref()
                    );
                    return Err(self.source.error(alpha.span(), message, ""));
                }
            }
            if let Some(size) = &t.shared_buffer {
                if size.get_ref().0 == 0 {
                    return Err(self
                        .source
                        .error(size.span(), "a shared buffer of no bytes", ""));
                }
                let alpha = t.alpha.as_ref().or(self.file.switch.alpha.as_ref());
                node.shared_buffer = Some(SharedBuffer {
                    bytes: size.get_ref().0,
                    alpha: alpha.map_or(1.0, |a| *a.get_ref()),
                });
            } else if let (Some(alpha), Some(shared)) = (&t.alpha, &mut node.shared_buffer) {
                shared.alpha = *alpha.get_ref();
            }
            if let Some(program) = &program {
                node.p4 = Some(program.clone());
            }
            let shared = t.shared_buffer.is_some();
            for port in self.nodes[n].ports.clone() {
                let port = self.port_mut(port);
                port.int = t.int.unwrap_or(port.int);
                if shared {
                    port.buffer = Buffer::Shared;
                }
            }
        }
        Ok(())
    }

    fn set_port(
        &mut self,
        port: PortId,
        buffer: Option<&Spanned<Room>>,
        queue: Option<&Spanned<QueueTable>>,
        int: Option<bool>,
    ) -> Result<()> {
        // What waits in a queue has its Ethernet header, but no preamble and no gap.
        let packet = u64::from(self.mtu) + 14;
        if let Some(buffer) = buffer {
            let bytes = buffer.get_ref().bytes(packet);
            if bytes < packet {
                let message =
                    format!("a buffer of {bytes} bytes does not hold one packet of {packet}");
                return Err(self.error(buffer.span(), message, "more, or leave it out"));
            }
            self.port_mut(port).buffer = Buffer::Own(bytes);
        }
        if let Some(queue) = queue {
            self.port_mut(port).queue = self.queue(queue, packet)?;
        }
        if let Some(int) = int {
            self.port_mut(port).int = int;
        }
        Ok(())
    }

    fn queue(&self, table: &Spanned<QueueTable>, packet: u64) -> Result<Queue> {
        let times = |target: Option<Time>, interval: Option<Time>| {
            let (target, interval) = (
                target.map_or(5_000_000, |t| t.0),
                interval.map_or(100_000_000, |t| t.0),
            );
            if target == 0 || interval <= target {
                let message = format!(
                    "CoDel's target ({}) must be above 0 and below its interval ({})",
                    show_ns(target),
                    show_ns(interval)
                );
                return Err(self.error(
                    table.span(),
                    message,
                    "the interval is the longest usual RTT, the target a twentieth of it",
                ));
            }
            Ok((target, interval))
        };
        Ok(match *table.get_ref() {
            QueueTable::Fifo => Queue::Fifo,
            QueueTable::Ecn { threshold } => Queue::Ecn {
                threshold: threshold.bytes(packet),
            },
            QueueTable::Red {
                min,
                max,
                probability,
                ecn,
            } => {
                let (min, max) = (min.bytes(packet), max.bytes(packet));
                if min > max {
                    let message = format!("RED's min ({min} bytes) is above its max ({max} bytes)");
                    return Err(self.error(table.span(), message, ""));
                }
                Queue::Red {
                    min,
                    max,
                    probability: probability.0,
                    ecn,
                }
            }
            QueueTable::Codel {
                target,
                interval,
                ecn,
            } => {
                let (target, interval) = times(target, interval)?;
                Queue::Codel {
                    target,
                    interval,
                    ecn,
                }
            }
            QueueTable::CodelRpm { target, interval } => {
                let (target, interval) = times(target, interval)?;
                Queue::CodelRpm { target, interval }
            }
        })
    }

    fn set_ports(&mut self, t: &PortTable) -> Result<()> {
        for port in self.ports_of(&t.of)? {
            if let Some(rate) = &t.rate {
                self.port_mut(port).rate_bps = check_rate(self.source, rate)?;
            }
            if let Some(Time(delay)) = t.delay {
                self.port_mut(port).delay_ns = delay;
            }
            self.set_port(port, t.buffer.as_ref(), t.queue.as_ref(), t.int)?;
        }
        Ok(())
    }

    fn set_routes(&mut self) -> Result<()> {
        let circuits: BTreeSet<usize> = match &self.circuits {
            Some(c) => c.circuits.iter().map(|c| c.port.link()).collect(),
            None => BTreeSet::new(),
        };
        let ecmp = self.file.network.ecmp.unwrap_or(true);
        self.routes = routes::shortest(&self.nodes, &self.links, ecmp, &|link| {
            circuits.contains(&link)
        });
        for table in &self.file.routes {
            let hosts = self.hosts_of(&table.to)?;
            for at in self.any_nodes_of(&table.at)? {
                let via = self.any_nodes_of(&table.via)?;
                let leads = |p: &PortId| via.contains(&self.far_end(*p));
                let mut ports: Vec<PortId> =
                    self.nodes[at].ports.iter().copied().filter(leads).collect();
                ports.sort_unstable();
                if ports.is_empty() {
                    let message = format!("{:?} has no link to any of these", self.nodes[at].name);
                    return Err(self.error(table.via.span(), message, "neighbours of `at`"));
                }
                for &host in hosts.iter().filter(|&&h| h != at) {
                    self.routes.set(at, host, ports.clone());
                }
            }
            for &host in &hosts {
                if let Some(cycle) = self.cycle(host) {
                    let names: Vec<&str> =
                        cycle.iter().map(|&n| self.nodes[n].name.as_str()).collect();
                    let message = format!(
                        "packets for {:?} would go in a circle: {}",
                        self.nodes[host].name,
                        names.join(" -> ")
                    );
                    return Err(self.error(
                        table.via.span(),
                        message,
                        "a route that comes nearer to its end",
                    ));
                }
            }
        }
        Ok(())
    }

    /// A circle in the routes towards `host`, if there is one; its first node is also its last.
    fn cycle(&self, host: NodeId) -> Option<Vec<NodeId>> {
        // Depth first; 1 = on the way here, 2 = known to be fine.
        let mut state = vec![0u8; self.nodes.len()];
        for start in 0..self.nodes.len() {
            let mut trail: Vec<(NodeId, usize)> = vec![(start, 0)];
            while let Some(&mut (node, ref mut next)) = trail.last_mut() {
                if *next == 0 {
                    match state[node] {
                        2 => {
                            trail.pop();
                            continue;
                        }
                        1 => {
                            let from = trail.iter().position(|&(n, _)| n == node)?;
                            return Some(trail[from..].iter().map(|&(n, _)| n).collect());
                        }
                        _ => state[node] = 1,
                    }
                }
                let hops = if node == host {
                    &[]
                } else {
                    self.routes.next_hops(node, host)
                };
                match hops.get(*next) {
                    Some(&port) => {
                        *next += 1;
                        trail.push((self.far_end(port), 0));
                    }
                    None => {
                        state[node] = 2;
                        trail.pop();
                    }
                }
            }
        }
        None
    }

    /// Refuses a pair of hosts without a way there or back.
    pub(crate) fn check_route(&self, src: NodeId, dst: NodeId, span: Range<usize>) -> Result<()> {
        for (from, to) in [(src, dst), (dst, src)] {
            let mut node = from;
            for _ in 0..=self.nodes.len() {
                if node == to {
                    break;
                }
                let Some(&port) = self.routes.next_hops(node, to).first() else {
                    let message = format!(
                        "there is no route from {:?} to {:?}: it ends at {:?}",
                        self.nodes[from].name, self.nodes[to].name, self.nodes[node].name
                    );
                    return Err(self.error(span, message, "a link, or a route, between them"));
                };
                node = self.far_end(port);
            }
        }
        Ok(())
    }

    /// Whether a flow between two hosts may use one of `ports`.
    pub(crate) fn may_cross(&self, src: NodeId, dst: NodeId, ports: &BTreeSet<PortId>) -> bool {
        let mut seen = BTreeSet::from([src]);
        let mut todo = vec![src];
        while let Some(node) = todo.pop() {
            if node == dst {
                continue;
            }
            for &port in self.routes.next_hops(node, dst) {
                if ports.contains(&port) {
                    return true;
                }
                if seen.insert(self.far_end(port)) {
                    todo.push(self.far_end(port));
                }
            }
        }
        false
    }

    fn faults(&self) -> Result<Vec<Fault>> {
        let mut all = Vec::new();
        for table in &self.file.faults {
            let ports = self.ports_of(&table.on)?;
            let kind = self.fault_kind(table)?;
            let from = table.from.0;
            let until = table.until.as_ref().map(|t| t.get_ref().0);
            if let Some(t) = &table.until {
                if t.get_ref().0 <= from {
                    let message = format!(
                        "the fault would end at {}, before it begins at {}",
                        show_ns(t.get_ref().0),
                        show_ns(from)
                    );
                    return Err(self.error(t.span(), message, ""));
                }
            }
            if from >= self.duration_ns {
                let message = format!(
                    "the fault begins at {}, and the scenario ends at {}",
                    show_ns(from),
                    show_ns(self.duration_ns)
                );
                return Err(self.error(table.on.span(), message, "an earlier `from`"));
            }
            let (step, repeats) = match (&table.every, until) {
                (None, _) => (0, 1),
                (Some(every), Some(until)) if every.get_ref().0 > until - from => {
                    let step = every.get_ref().0;
                    (step, (self.duration_ns - from).div_ceil(step))
                }
                (Some(every), _) => {
                    return Err(self.error(every.span(), "a fault comes again after it has ended: `every` must be longer than from `from` to `until`", ""));
                }
            };
            if repeats > MAX_REPEATS {
                let span = table.every.as_ref().map_or(table.on.span(), Spanned::span);
                return Err(self.error(span, format!("the fault would come {repeats} times, and at most {MAX_REPEATS} are allowed"), ""));
            }
            for i in 0..repeats {
                all.push(Fault {
                    from_ns: from + i * step,
                    until_ns: until.map(|u| u + i * step),
                    ports: ports.clone(),
                    kind,
                });
            }
        }
        all.sort_by_key(|f: &Fault| f.from_ns);
        Ok(all)
    }

    fn fault_kind(&self, t: &FaultTable) -> Result<FaultKind> {
        let rate = t
            .rate
            .as_ref()
            .map(|r| check_rate(self.source, r))
            .transpose()?;
        let kinds: Vec<FaultKind> = [
            t.loss.map(|p| FaultKind::Loss { probability: p.0 }),
            t.reorder.map(|r| FaultKind::Reorder {
                probability: r.probability.0,
                delay_ns: r.delay.0,
            }),
            t.duplicate
                .map(|p| FaultKind::Duplicate { probability: p.0 }),
            t.corrupt.map(|p| FaultKind::Corrupt { probability: p.0 }),
            t.down.filter(|&down| down).map(|_| FaultKind::Down),
            rate.map(|rate_bps| FaultKind::Rate { rate_bps }),
            t.delay.map(|d| FaultKind::Delay { delay_ns: d.0 }),
            t.int.map(FaultKind::Int),
            t.strip.map(|p| FaultKind::Strip { probability: p.0 }),
        ]
        .into_iter()
        .flatten()
        .collect();
        match kinds[..] {
            [kind] => Ok(kind),
            _ => {
                let message = format!(
                    "a fault is exactly one thing, and this one is {}",
                    kinds.len()
                );
                let help = "one of loss, reorder, duplicate, corrupt, down = true, rate, delay, int, strip; several are several [[faults]]";
                Err(self.error(t.on.span(), message, help))
            }
        }
    }

    /// The congestion control under test, by its place in the list.
    pub(crate) fn tested(&mut self) -> Result<usize> {
        self.cc_at(self.cc, None)
    }

    /// A congestion control by name, by its place in the list.
    pub(crate) fn cc_at(&mut self, name: &str, span: Option<Range<usize>>) -> Result<usize> {
        if let Some(at) = self.ccs.iter().position(|cc| cc.name == name) {
            return Ok(at);
        }
        let spec = self.spec(name, span)?;
        self.ccs.push(spec);
        Ok(self.ccs.len() - 1)
    }

    /// A congestion control by name: a variant of the file, or a law.
    fn spec(&self, name: &str, span: Option<Range<usize>>) -> Result<CcSpec> {
        let known = || {
            let laws = Law::ALL.iter().map(|l| l.name());
            laws.chain(self.file.cc.keys().map(|k| k.get_ref().as_str()))
        };
        let Some((key, table)) = self.file.cc.iter().find(|(k, _)| k.get_ref() == name) else {
            let Some(law) = Law::from_name(name) else {
                return Err(match span {
                    Some(span) => self.unknown(span, "congestion control", name, known()),
                    None => {
                        let names: Vec<&str> = known().collect();
                        let message = format!(
                            "there is no congestion control {name:?}: this scenario knows {}",
                            names.join(", ")
                        );
                        Error::file(&self.source.file, message)
                    }
                });
            };
            return self.fits(CcSpec::plain(law), span.unwrap_or(0..0));
        };
        let mut law_name = (name, key.span());
        let mut int = None;
        let mut base_rtt = BaseRtt::Learn;
        let mut params = BTreeMap::new();
        for (key, value) in table {
            match (key.get_ref().as_str(), value.get_ref()) {
                ("law", CcValue::Text(law)) => law_name = (law, value.span()),
                ("int", CcValue::Text(format)) => match int_format(format) {
                    Some(format) => int = Some(format),
                    None => {
                        let message = format!("{format:?} is not a telemetry format");
                        return Err(self.error(
                            value.span(),
                            message,
                            "off, mpd, bottleneck, stack",
                        ));
                    }
                },
                ("base_rtt", CcValue::Text(text)) => {
                    base_rtt = match text.as_str() {
                        "learn" => BaseRtt::Learn,
                        "path" => BaseRtt::Path,
                        time => match time.parse::<Time>() {
                            Ok(Time(ns)) if (1..=1_000_000_000).contains(&ns) => BaseRtt::Given(ns),
                            _ => {
                                let message = format!("{time:?} is not a base RTT");
                                return Err(self.error(
                                    value.span(),
                                    message,
                                    "\"learn\", \"path\", or a time up to \"1s\"",
                                ));
                            }
                        },
                    }
                }
                (name, CcValue::Number(n)) => match u32::try_from(*n) {
                    Ok(n) => {
                        params.insert(name.to_owned(), n);
                    }
                    Err(_) => {
                        let message = format!("{name} is {n}, and must be from 0 to {}", u32::MAX);
                        return Err(self.error(value.span(), message, ""));
                    }
                },
                (name, CcValue::Text(_)) => {
                    let message = format!("{name} is a whole number, not text");
                    return Err(self.error(
                        value.span(),
                        message,
                        "only law, int and base_rtt are text",
                    ));
                }
            }
        }
        let Some(law) = Law::from_name(law_name.0) else {
            let mut e = self.unknown(
                law_name.1.clone(),
                "law",
                law_name.0,
                Law::ALL.iter().map(|l| l.name()),
            );
            if law_name.0 == name {
                let message = format!("{name:?} is not the name of a law, and [cc.{name}] does not say which law it is a variant of");
                e = self.error(law_name.1, message, "law = \"...\" in this table");
            }
            return Err(e);
        };
        let spec = CcSpec {
            name: name.to_owned(),
            law,
            params,
            int: int.unwrap_or(law.default_int()),
            base_rtt,
        };
        if let Err((param, why)) = spec.config() {
            let at = table.iter().find(|(k, _)| *k.get_ref() == param);
            let span = at.map_or(key.span(), |(k, v)| {
                if why == ParamError::Unknown {
                    k.span()
                } else {
                    v.span()
                }
            });
            return Err(match why {
                ParamError::Unknown => self.unknown(
                    span,
                    &format!("parameter of {}", law.name()),
                    &param,
                    law.params(),
                ),
                ParamError::Bounds(e) => {
                    self.error(span, e.to_string(), format!("a bound of {}", law.name()))
                }
            });
        }
        self.fits(spec, key.span())
    }

    /// Refuses options that leave no room for payload.
    fn fits(&self, spec: CcSpec, span: Range<usize>) -> Result<CcSpec> {
        let timestamps = self.file.tcp.timestamps.unwrap_or(true);
        let int = spec
            .int
            .map_or(0, |int| u32::from(int.wire().reserve(timestamps)));
        if self.mtu < 40 + 12 + int + 64 {
            let message = format!(
                "an MTU of {} leaves no room for payload beside {int} bytes of telemetry",
                self.mtu
            );
            return Err(self.error(span, message, "a larger MTU"));
        }
        Ok(spec)
    }

    fn unknown<'n>(
        &self,
        span: Range<usize>,
        what: &str,
        name: &str,
        known: impl IntoIterator<Item = &'n str>,
    ) -> Box<Error> {
        let known: Vec<&str> = known.into_iter().collect();
        let mut help = match closest(name, known.iter().copied()) {
            Some(close) => format!("did you mean {close:?}? "),
            None => String::new(),
        };
        const SHOWN: usize = 40;
        let more = if known.len() > SHOWN { ", ..." } else { "" };
        let list: Vec<&str> = known.into_iter().take(SHOWN).collect();
        help.push_str(&format!("known: {}{more}", list.join(", ")));
        self.error(span, format!("there is no {what} {name:?}"), help)
    }

    fn expectations(&self, groups: &[Group]) -> Result<Vec<Expectation>> {
        let mut all = Vec::new();
        for spanned in &self.file.expect {
            let t = spanned.get_ref();
            let ccs = t.cc.as_ref().map_or(&[][..], |cc| &cc.get_ref().0);
            for cc in ccs {
                self.spec(cc, t.cc.as_ref().map(Spanned::span))?;
            }
            if let Some(other) = &t.relative_to {
                self.spec(other.get_ref(), Some(other.span()))?;
            }
            if let Some(group) = &t.group {
                if !groups.iter().any(|g| g.name == *group.get_ref()) {
                    let names = groups.iter().map(|g| g.name.as_str());
                    return Err(self.unknown(group.span(), "group", group.get_ref(), names));
                }
            }
            let finite = |b: Option<f64>| b.is_none_or(f64::is_finite);
            if (t.min.is_none() && t.max.is_none()) || !finite(t.min) || !finite(t.max) {
                return Err(self.error(
                    spanned.span(),
                    "an expectation without a bound",
                    "`min`, `max`, or both",
                ));
            }
            if let (Some(min), Some(max)) = (t.min, t.max) {
                if min > max {
                    let message = format!("nothing is at least {min} and at most {max}");
                    return Err(self.error(spanned.span(), message, ""));
                }
            }
            all.push(Expectation {
                metric: t.metric,
                cc: ccs.to_vec(),
                engines: t.engine.as_ref().map_or(Vec::new(), |e| e.0.clone()),
                group: t.group.as_ref().map(|g| g.get_ref().clone()),
                size_min: t.size_min.map_or(0, |s| s.0),
                size_max: t.size_max.map_or(u64::MAX, |s| s.0),
                relative_to: t.relative_to.as_ref().map(|r| r.get_ref().clone()),
                min: t.min,
                max: t.max,
                why: t.why.clone(),
                line: self.source.place(spanned.span().start).0,
            });
        }
        Ok(all)
    }

    // --- names ------------------------------------------------------------------------------------

    /// The nodes that fit any of `patterns`, each once, in order of the patterns.
    fn matching(&self, patterns: &Spanned<Many>, kind: Option<NodeKind>) -> Result<Vec<NodeId>> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        for pattern in &patterns.get_ref().0 {
            let before = found.len();
            let mut any = false;
            for (n, node) in self.nodes.iter().enumerate() {
                if kind.is_none_or(|k| node.kind == k) && pattern::fits(pattern, &node.name) {
                    any = true;
                    if seen.insert(n) {
                        found.push(n);
                    }
                }
            }
            if !any && before == found.len() {
                let what = match kind {
                    Some(NodeKind::Host) => "host",
                    Some(NodeKind::Switch) => "switch",
                    None => "node",
                };
                let names = self
                    .nodes
                    .iter()
                    .filter(|n| kind.is_none_or(|k| n.kind == k));
                return Err(self.unknown(
                    patterns.span(),
                    what,
                    pattern,
                    names.map(|n| n.name.as_str()),
                ));
            }
        }
        if found.is_empty() {
            return Err(self.error(
                patterns.span(),
                "an empty list",
                "at least one name or pattern",
            ));
        }
        Ok(found)
    }

    fn nodes_of(&self, patterns: &Spanned<Many>, kind: NodeKind) -> Result<Vec<NodeId>> {
        self.matching(patterns, Some(kind))
    }

    fn any_nodes_of(&self, patterns: &Spanned<Many>) -> Result<Vec<NodeId>> {
        self.matching(patterns, None)
    }

    /// The hosts that fit.
    pub(crate) fn hosts_of(&self, patterns: &Spanned<Many>) -> Result<Vec<NodeId>> {
        self.matching(patterns, Some(NodeKind::Host))
    }

    /// Whether any host fits any of `patterns`.
    pub(crate) fn any_host_fits(&self, patterns: &Spanned<Many>) -> bool {
        self.nodes.iter().any(|n| {
            n.kind == NodeKind::Host
                && patterns
                    .get_ref()
                    .0
                    .iter()
                    .any(|p| pattern::fits(p, &n.name))
        })
    }

    /// The ports that fit, in ascending order.
    pub(crate) fn ports_of(&self, patterns: &Spanned<Many>) -> Result<Vec<PortId>> {
        ports_of(self.source, &self.nodes, &self.links, patterns)
    }

    fn near_end(&self, port: PortId) -> NodeId {
        self.far_end(port.peer())
    }

    fn far_end(&self, port: PortId) -> NodeId {
        let link = &self.links[port.link()];
        if port.backward() {
            link.a
        } else {
            link.b
        }
    }

    fn port_mut(&mut self, port: PortId) -> &mut Port {
        &mut self.links[port.link()].ports[usize::from(port.backward())]
    }

    /// Line rate of a port.
    pub(crate) fn rate(&self, port: PortId) -> u64 {
        self.links[port.link()].ports[usize::from(port.backward())].rate_bps
    }

    /// The largest line rate of a host's ports.
    pub(crate) fn host_rate(&self, host: NodeId) -> u64 {
        self.nodes[host]
            .ports
            .iter()
            .map(|&p| self.rate(p))
            .max()
            .unwrap_or(0)
    }
}

/// The ports that fit any of `patterns`, in ascending order.
fn ports_of(
    source: &Source,
    nodes: &[Node],
    links: &[Link],
    patterns: &Spanned<Many>,
) -> Result<Vec<PortId>> {
    let mut found = BTreeSet::new();
    for pattern in &patterns.get_ref().0 {
        let Some((a, b, both)) = pattern::ends(pattern) else {
            let message = format!("{pattern:?} is not a port");
            return Err(source.error(
                patterns.span(),
                message,
                "\"a->b\" for what a sends to b, \"a--b\" for both ways",
            ));
        };
        let before = found.len();
        let mut any = false;
        for (l, link) in links.iter().enumerate() {
            let (first, second) = (nodes[link.a].name.as_str(), nodes[link.b].name.as_str());
            for (from, to, backward) in [(first, second, false), (second, first, true)] {
                let fits = |x: &str, y: &str| pattern::fits(x, from) && pattern::fits(y, to);
                if fits(a, b) || (both && fits(b, a)) {
                    any = true;
                    found.insert(PortId::new(l, backward));
                }
            }
        }
        if !any && before == found.len() {
            let message = format!("no link fits {pattern:?}");
            return Err(source.error(
                patterns.span(),
                message,
                "two nodes with a link between them; * stands for any text",
            ));
        }
    }
    Ok(found.into_iter().collect())
}

/// What is measured, with everything that is not said derived.
fn measure(source: &Source, file: &File, r: &Resolved) -> Result<Measure> {
    let t = &file.measure;
    let time =
        |at: &Option<Spanned<Time>>, default: u64| at.as_ref().map_or(default, |t| t.get_ref().0);
    let until_ns = time(&t.until, r.duration_ns).min(r.duration_ns);
    let from_ns = time(&t.from, 0);
    if from_ns >= until_ns {
        let span = t
            .from
            .as_ref()
            .or(t.until.as_ref())
            .map_or(0..0, Spanned::span);
        let message = format!(
            "nothing would be measured between {} and {}",
            show_ns(from_ns),
            show_ns(until_ns)
        );
        return Err(source.error(span, message, ""));
    }
    let interval_ns = time(&t.interval, (r.duration_ns / 1000).max(1000));
    let samples = r.duration_ns.checked_div(interval_ns).unwrap_or(u64::MAX);
    if samples > 1_000_000 {
        let span = t.interval.as_ref().map_or(0..0, Spanned::span);
        let message = format!(
            "a sample every {} gives more than a million",
            show_ns(interval_ns)
        );
        return Err(source.error(span, message, "a longer interval"));
    }
    let window_ns = time(&t.window, interval_ns * 20);
    if window_ns < interval_ns {
        let span = t.window.as_ref().map_or(0..0, Spanned::span);
        return Err(source.error(
            span,
            "a window shorter than the interval between samples",
            "",
        ));
    }
    let mut ports = match &t.line {
        Some(line) => {
            let many = Spanned::new(line.span(), Many(vec![line.get_ref().clone()]));
            let ports = ports_of(source, &r.nodes, &r.links, &many)?;
            if ports.len() != 1 {
                let message = format!(
                    "the line is one port, and {:?} fits {}",
                    line.get_ref(),
                    ports.len()
                );
                return Err(source.error(line.span(), message, "\"a->b\""));
            }
            ports
        }
        None => Vec::new(),
    };
    match &t.ports {
        Some(more) => ports.extend(ports_of(source, &r.nodes, &r.links, more)?),
        None => {
            let busy = busiest(r);
            let most = busy.first().map_or(0.0, |b| b.1);
            ports.extend(
                busy.into_iter()
                    .filter(|b| b.1 * 2.0 >= most)
                    .take(DEFAULT_PORTS)
                    .map(|b| b.0),
            );
        }
    }
    let mut seen = BTreeSet::new();
    ports.retain(|&p| seen.insert(p));
    let flows: Vec<usize> = match &t.flows_of {
        None if r.flows.len() <= DEFAULT_SERIES => (0..r.flows.len()).collect(),
        None => Vec::new(),
        Some(many) => {
            for name in &many.get_ref().0 {
                if !r.groups.iter().any(|g| g.name == *name) {
                    let names: Vec<&str> = r.groups.iter().map(|g| g.name.as_str()).collect();
                    let message = format!("there is no group {name:?}");
                    return Err(source.error(
                        many.span(),
                        message,
                        format!("known: {}", names.join(", ")),
                    ));
                }
            }
            let wanted = |f: &Flow| many.get_ref().0.contains(&r.groups[f.group].name);
            (0..r.flows.len())
                .filter(|&f| wanted(&r.flows[f]))
                .take(MAX_SERIES)
                .collect()
        }
    };
    let size_bins = match &t.size_bins {
        None => [
            3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000,
        ]
        .to_vec(),
        Some(bins) => {
            let bins_bytes: Vec<u64> = bins.get_ref().iter().map(|s| s.0).collect();
            if !bins_bytes.is_sorted_by(|a, b| a < b) {
                return Err(source.error(bins.span(), "sizes that divide flows must rise", ""));
            }
            bins_bytes
        }
    };
    Ok(Measure {
        from_ns,
        until_ns,
        interval_ns,
        window_ns,
        settled_ns: t.settled.as_ref().map(|t| t.get_ref().0),
        ports,
        flows,
        size_bins,
    })
}

/// Ports of switches by the flows that cross them per bit of capacity, the busiest first. Long flows
/// count; where there are none, all do.
fn busiest(r: &Resolved) -> Vec<(PortId, f64)> {
    let long = |f: &&usize| r.flows[**f].work == Work::Long;
    let all: Vec<usize> = (0..r.flows.len()).collect();
    let some: Vec<usize> = all
        .iter()
        .filter(long)
        .copied()
        .take(ENOUGH_FLOWS)
        .collect();
    let counted = if some.is_empty() {
        &all[..all.len().min(ENOUGH_FLOWS)]
    } else {
        &some[..]
    };
    let mut load: BTreeMap<PortId, f64> = BTreeMap::new();
    for &f in counted {
        for port in r.path(f) {
            if r.nodes[r.near_end(port)].kind == NodeKind::Switch {
                *load.entry(port).or_default() += 1.0 / r.port(port).rate_bps as f64;
            }
        }
    }
    let mut ports: Vec<(PortId, f64)> = load.into_iter().collect();
    ports.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ports
}
