// SPDX-License-Identifier: GPL-2.0
//! The scenario's network: a namespace per node, a veth pair per link, a `sch_int` port at each end, and
//! routes, all by netlink. A link on which packets are to be lost or changed is two pairs with a program
//! between them ([`super::cable`]).

use super::cable;
use crate::{
    net::{self, Net, Route},
    netns::Netns,
};
use anyhow::{Context as _, Result};
use plan::Plan;
use scenario::{Buffer, FaultKind, IntFault, NodeId, NodeKind, PortId, Queue, Resolved};
use std::{
    collections::BTreeSet,
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
    thread,
    time::Duration,
};
use wire::tc;

/// Places in a switch's table of reverse path marks.
const RPM_SLOTS: u64 = 1 << 16;

/// The namespaces and what is in them.
pub struct Lab<'a> {
    /// What it is made from.
    pub plan: &'a Plan,
    /// Per node.
    pub spaces: Vec<Netns>,
    nets: Vec<Net<'a>>,
    /// Per port: the index of its interface in its node's namespace.
    indices: Vec<u32>,
    /// The links that are programs.
    pub cables: Vec<cable::Link>,
}

impl<'a> Lab<'a> {
    /// Builds the plan's network.
    pub fn new(plan: &'a Plan, runtime: &'a tokio::runtime::Runtime) -> Result<Self> {
        let r = &plan.network;
        let mut lab = Self {
            plan,
            spaces: Vec::new(),
            nets: Vec::new(),
            indices: Vec::new(),
            cables: Vec::new(),
        };
        for (node, own) in r.nodes.iter().zip(&plan.sysctls) {
            let space = Netns::new()?;
            let net = Net::open(runtime, &space)?;
            net.up("lo", false)?;
            space.enter(|| {
                sysctls(plan, node.kind)?;
                own.iter().try_for_each(|(name, value)| sysctl(name, value))
            })??;
            lab.spaces.push(space);
            lab.nets.push(net);
        }
        for (l, link) in r.links.iter().enumerate() {
            let ends = [PortId::new(l, false), PortId::new(l, true)];
            let [a, b] = ends.map(name);
            if ends.iter().any(|&p| cable::befalls(r, p)) {
                let stages = [Netns::new()?, Netns::new()?];
                for (end, node, stage) in [(&a, link.a, &stages[0]), (&b, link.b, &stages[1])] {
                    lab.nets[node].add_veth(end, cable::DEVICE, stage)?;
                    let net = Net::open(runtime, stage)?;
                    stage.enter(|| sysctls(plan, NodeKind::Switch))??;
                    net.set_up(cable::DEVICE, r.mtu, true)?;
                }
                lab.cables.push(cable::Link {
                    ports: ends,
                    stages,
                });
            } else {
                lab.nets[link.a].add_veth(&a, &b, &lab.spaces[link.b])?;
            }
            for port in ends {
                let index = lab.port(port)?;
                lab.indices.push(index);
            }
        }
        lab.routes()?;
        Ok(lab)
    }

    fn port(&self, port: PortId) -> Result<u32> {
        let r = &self.plan.network;
        let (net, name) = (&self.nets[r.near_end(port)], name(port));
        net.set_up(&name, r.mtu, true)?;
        let (address, bits) = (self.end(port), if self.plan.ipv6 { 64 } else { 24 });
        net.address(&name, address, bits)?;
        net.qdisc(&name, tc::NAME, settings(self.plan, port))?;
        net.index(&name)
    }

    /// The address at a port's own end of its link.
    fn end(&self, port: PortId) -> IpAddr {
        let (l, side) = (port.link(), u8::from(port.backward()) + 1);
        if self.plan.ipv6 {
            Ipv6Addr::new(0xfd00, 0, 0, l as u16, 0, 0, 0, side.into()).into()
        } else {
            Ipv4Addr::new(10, (l >> 8) as u8, l as u8, side).into()
        }
    }

    /// The address of a host: that of its first port.
    pub fn address(&self, host: NodeId) -> Result<IpAddr> {
        let r = &self.plan.network;
        let port = r.nodes[host].ports.first();
        let port = port.with_context(|| format!("host {} has no link", r.nodes[host].name))?;
        Ok(self.end(*port))
    }

    /// A route from every node to every host that takes part, over all next hops that the scenario gives.
    fn routes(&self) -> Result<()> {
        let r = &self.plan.network;
        let hosts: BTreeSet<NodeId> = r.flows.iter().flat_map(|f| [f.src, f.dst]).collect();
        for from in 0..r.nodes.len() {
            let host = r.nodes[from].kind == NodeKind::Host;
            for &to in hosts.iter().filter(|&&to| to != from) {
                let hops = r.routes.next_hops(from, to);
                let address = self.address(to)?;
                let via: Vec<IpAddr> = hops.iter().map(|p| self.end(p.peer())).collect();
                // The network of a link has a route of its own; hosts say more about theirs.
                if via.is_empty() || via == [address] && !host {
                    continue;
                }
                self.nets[from].add_route(&Route {
                    to: address,
                    via,
                    quick_ack: host && r.tcp.ack_every == 1,
                    initial_cwnd: if host { self.plan.initial_cwnd } else { 0 },
                })?;
            }
        }
        Ok(())
    }

    /// Neighbours are resolved before the first flow, as they would be in a network that lives.
    pub fn warm_up(&self) -> Result<()> {
        let r = &self.plan.network;
        let pairs: BTreeSet<(NodeId, NodeId)> = r
            .flows
            .iter()
            .flat_map(|f| [(f.src, f.dst), (f.dst, f.src)])
            .collect();
        // With several paths, a packet for each: the hash goes by ports.
        let many = (0..r.nodes.len()).any(|n| {
            pairs
                .iter()
                .any(|&(_, to)| r.routes.next_hops(n, to).len() > 1)
        });
        let packets = if many { 64 } else { 1 };
        for (from, to) in pairs {
            let to = self.address(to)?;
            // A UDP packet to a closed port; the answer is of no interest.
            self.spaces[from].enter(|| -> Result<()> {
                let any: IpAddr = match to {
                    IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                    IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                };
                let socket = UdpSocket::bind((any, 0))?;
                for port in 0..packets {
                    // An error is the answer to the packet before.
                    socket.send_to(b"fathom", (to, 9 + port)).ok();
                }
                Ok(())
            })??;
        }
        thread::sleep(Duration::from_millis(100));
        Ok(())
    }

    /// The queues of `nodes`, by port.
    pub fn queues(&self, nodes: &[NodeId]) -> Result<Vec<(PortId, net::Queue)>> {
        let r = &self.plan.network;
        let mut all = Vec::new();
        for &node in nodes {
            let mut queues = self.nets[node].queues()?;
            for &port in &r.nodes[node].ports {
                let index = self.indices[port.index()];
                if let Some(at) = queues.iter().position(|q| q.index == index) {
                    all.push((port, queues.swap_remove(at)));
                }
            }
        }
        Ok(all)
    }
}

/// The name of a port's interface.
pub fn name(port: PortId) -> String {
    format!(
        "l{}{}",
        port.link(),
        if port.backward() { 'b' } else { 'a' }
    )
}

/// TCA_OPTIONS of a port as the scenario has it.
fn settings(plan: &Plan, port: PortId) -> Vec<u8> {
    let r = &plan.network;
    let p = r.port(port);
    let node = &r.nodes[r.near_end(port)];
    let limit = match (p.buffer, node.shared_buffer) {
        (Buffer::Own(bytes), _) => bytes,
        // What a port may hold when it is the only one that holds anything.
        (Buffer::Shared, Some(shared)) => {
            (shared.bytes as f64 * shared.alpha / (1.0 + shared.alpha)) as u64
        }
        (Buffer::Shared, None) => tc::MAX_LIMIT,
    };
    let mut all = vec![
        (tc::LIMIT, limit.clamp(1, tc::MAX_LIMIT)),
        // Linux counts Ethernet's header.
        (tc::OVERHEAD, u64::from(r.overhead.saturating_sub(14))),
        (tc::HOP_ID, u64::from(port.0 % 256)),
    ];
    match p.queue {
        Queue::Fifo | Queue::Red { .. } => {}
        Queue::Ecn { threshold } => all.push((tc::ECN, threshold.min(tc::MAX_LIMIT))),
        Queue::Codel {
            target, interval, ..
        }
        | Queue::CodelRpm { target, interval } => {
            all.extend([(tc::TARGET, target), (tc::INTERVAL, interval)]);
        }
    }
    let rpm = |p: &PortId| matches!(r.port(*p).queue, Queue::CodelRpm { .. });
    if node.ports.iter().any(rpm) {
        all.push((tc::RPM, RPM_SLOTS));
    }
    let mut bytes = attributes(&all);
    bytes.extend(attributes(&changing(plan, port, 0)));
    bytes
}

/// What faults change of a port, at a time.
pub fn changing(plan: &Plan, port: PortId, at_ns: u64) -> [(u16, u64); 3] {
    let r = &plan.network;
    let p = r.port(port);
    let (mut rate, mut delay) = (p.rate_bps, p.delay_ns);
    let mut int = p.int && plan.telemetry.is_some();
    for fault in cable::active(r, port, at_ns) {
        match fault {
            FaultKind::Rate { rate_bps } => rate = rate_bps,
            FaultKind::Delay { delay_ns } => delay = delay_ns,
            // Whoever lies is the wire.
            FaultKind::Int(IntFault::Off | IntFault::Zero | IntFault::Max | IntFault::Random) => {
                int = false
            }
            _ => {}
        }
    }
    // Time inside a switch is time before its queue: the same as a longer wire.
    let inside = r.nodes[r.far_end(port)].delay_ns;
    [
        (tc::RATE, rate / 8),
        (tc::DELAY, delay + inside),
        (tc::INT, int.into()),
    ]
}

/// Attributes as netlink takes them.
pub fn attributes(all: &[(u16, u64)]) -> Vec<u8> {
    all.iter()
        .flat_map(|&(kind, value)| tc::attribute(kind, value))
        .collect()
}

/// Settings of a namespace.
fn sysctls(plan: &Plan, kind: NodeKind) -> Result<()> {
    let tcp = &plan.network.tcp;
    let min_rto_us = (tcp.min_rto_ns / 1000).max(1).to_string();
    let timestamps = u8::from(tcp.timestamps).to_string();
    let mut set = vec![
        // The receiver's buffer is larger than any window of the lab from the start; the sender's
        // follows the window, as everywhere.
        ("ipv4/tcp_rmem", "4096 33554432 67108864"),
        ("ipv4/tcp_wmem", "4096 1048576 67108864"),
        // Results of one flow must not depend on the flows before it.
        ("ipv4/tcp_no_metrics_save", "1"),
        ("ipv4/tcp_rto_min_us", &min_rto_us),
        ("ipv4/tcp_timestamps", &timestamps),
        ("ipv6/conf/all/accept_dad", "0"),
        ("ipv6/conf/default/accept_dad", "0"),
    ];
    if plan.ecn {
        set.push(("ipv4/tcp_ecn", "1"));
    }
    if !plan.ipv6 {
        // Its neighbour and multicast reports come at random times and would be in the results.
        set.push(("ipv6/conf/default/disable_ipv6", "1"));
        set.push(("ipv6/conf/all/disable_ipv6", "1"));
    }
    if kind == NodeKind::Switch {
        set.push(("ipv4/ip_forward", "1"));
        set.push(("ipv6/conf/all/forwarding", "1"));
        // Paths by ports too, as switches choose them.
        set.push(("ipv4/fib_multipath_hash_policy", "1"));
        set.push(("ipv6/fib_multipath_hash_policy", "1"));
    }
    set.into_iter()
        .try_for_each(|(name, value)| sysctl(name, value))
}

fn sysctl(name: &str, value: &str) -> Result<()> {
    fs::write(format!("/proc/sys/net/{name}"), value)
        .with_context(|| format!("sysctl net/{name}={value}"))
}

/// The nodes of which ports are looked at: switches, and the ends of the ports that are followed.
pub fn looked_at(r: &Resolved) -> Vec<NodeId> {
    let mut nodes: BTreeSet<NodeId> = r.measure.ports.iter().map(|&p| r.near_end(p)).collect();
    let switch = |n: &NodeId| r.nodes[*n].kind == NodeKind::Switch;
    nodes.extend((0..r.nodes.len()).filter(switch));
    nodes.into_iter().collect()
}
