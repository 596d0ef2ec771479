// SPDX-License-Identifier: GPL-2.0
//! Runs a plan: namespaces, links, modules, flows; looks at sockets and queues in virtual time; writes
//! the answer into the directory that is shared with the host.

use crate::{
    boot, modules,
    net::{self, Net},
    netns::Netns,
    tcp, traffic,
};
use anyhow::{bail, ensure, Context as _, Result};
use nix::mount::{mount, MsFlags};
use plan::{Answer, FlowResult, Plan, Port, PortResult, Sample};
use std::{
    collections::VecDeque,
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::{Duration, Instant},
};
use wire::tc;

/// Between the set-up and the first flow, so that nothing of the set-up is on the wire.
const SETTLE: Duration = Duration::from_millis(10);

/// Runs the plan of the initramfs.
pub fn run() -> Result<()> {
    let out =
        boot::argument("fathom.out").context("no fathom.out= on the kernel's command line")?;
    fs::create_dir_all("/out")?;
    mount(
        Some("none"),
        "/out",
        Some("hostfs"),
        MsFlags::empty(),
        Some(out.as_str()),
    )
    .context("mount hostfs")?;
    let plan: Plan = serde_json::from_slice(&fs::read(plan::PLAN_FILE).context(plan::PLAN_FILE)?)?;
    let answer = execute(&plan)?;
    let file = format!("/out/{}", plan::ANSWER_FILE);
    fs::write(format!("{file}.part"), serde_json::to_vec_pretty(&answer)?)
        .context("write the answer")?;
    fs::rename(format!("{file}.part"), file).context("write the answer")
}

fn execute(plan: &Plan) -> Result<Answer> {
    for module in &plan.modules {
        modules::load(&module.name, &module.params)
            .with_context(|| format!("load {} {}", module.name, module.params))?;
    }
    // Of all sockets together, pages: without it many flows come under memory pressure, and receivers
    // then offer four packets.
    fs::write("/proc/sys/net/ipv4/tcp_mem", "131072 196608 262144").context("sysctl tcp_mem")?;
    let runtime = net::runtime()?;
    let lab = Lab::build(plan, &runtime)?;
    lab.warm_up()?;

    let start = Instant::now() + SETTLE;
    let mut senders = Vec::new();
    for flow in &plan.flows {
        let address = lab.address(flow.to, flow.ipv6)?;
        let to = traffic::receive(&lab.spaces[flow.to], address, &flow.cc)?;
        let at = start + traffic::us(flow.start_us);
        senders.push(traffic::send(
            &lab.spaces[flow.from],
            to,
            &flow.cc,
            at,
            flow.bytes,
        ));
    }

    let mut samples = Vec::new();
    let mut at_first: Vec<Option<(u64, u64)>> = vec![None; senders.len()];
    let mut finished = vec![None; senders.len()];
    let mut us = 0;
    while us < plan.duration_us {
        us = (us + plan.sample_us).min(plan.duration_us);
        traffic::sleep_until(start + traffic::us(us));
        let mut flows = Vec::new();
        for (i, sender) in senders.iter().enumerate() {
            if let Some(e) = sender.error() {
                bail!("flow {i}: {e}");
            }
            let info = match sender.socket() {
                Some(socket) => tcp::info(socket)?,
                None => tcp::TcpInfo::default(),
            };
            if us >= plan.measure_from_us && sender.socket().is_some() {
                at_first[i].get_or_insert((us, info.bytes_acked));
            }
            if finished[i].is_none() && plan.flows[i].bytes.is_some_and(|b| info.bytes_acked >= b) {
                finished[i] = Some(us);
            }
            flows.push((info.bytes_acked, info.rtt, info.snd_cwnd, info.pacing_rate));
        }
        samples.push(Sample {
            at_us: us,
            flows,
            ports: lab.backlogs()?,
        });
    }

    let measured: Vec<&Sample> = samples
        .iter()
        .filter(|s| s.at_us > plan.measure_from_us)
        .collect();
    ensure!(
        !measured.is_empty(),
        "nothing was measured: measure_from_us must be before duration_us"
    );
    let mut flows = Vec::new();
    for (i, sender) in senders.iter().enumerate() {
        let socket = sender
            .socket()
            .with_context(|| format!("flow {i} never connected"))?;
        let info = tcp::info(socket)?;
        let (from_us, from_bytes) = at_first[i].unwrap_or_default();
        let rtts: Vec<u64> = measured
            .iter()
            .map(|s| s.flows[i].1.into())
            .filter(|&rtt| rtt != 0)
            .collect();
        flows.push(FlowResult {
            cc: tcp::congestion(socket)?,
            bytes: info.bytes_acked - from_bytes,
            time_us: finished[i]
                .unwrap_or(plan.duration_us)
                .saturating_sub(from_us),
            mss: info.snd_mss,
            retransmits: info.total_retrans,
            rtt_mean_us: mean(&rtts),
            rtt_p99_us: percentile(&rtts, 99) as f64,
            rtt_min_us: info.min_rtt,
            finished_us: finished[i],
        });
    }
    let totals = lab.queues()?;
    let ports = (0..totals.len())
        .map(|p| {
            let lengths: Vec<u64> = measured.iter().map(|s| s.ports[p]).collect();
            PortResult {
                mean_bytes: mean(&lengths),
                p99_bytes: percentile(&lengths, 99),
                max_bytes: lengths.iter().copied().max().unwrap_or(0),
                packets: totals[p].packets,
                drops: totals[p].drops,
            }
        })
        .collect();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?
        .trim()
        .to_owned();
    let samples = if plan.keep_samples {
        samples
    } else {
        Vec::new()
    };
    Ok(Answer {
        kernel,
        flows,
        ports,
        samples,
    })
}

/// The namespaces and what is in them.
struct Lab<'a> {
    plan: &'a Plan,
    /// Does any flow need IPv6?
    ipv6: bool,
    spaces: Vec<Netns>,
    nets: Vec<Net<'a>>,
    /// Per port, in the order of the answer: node and interface index.
    ports: Vec<(usize, u32)>,
}

impl<'a> Lab<'a> {
    fn build(plan: &'a Plan, runtime: &'a tokio::runtime::Runtime) -> Result<Self> {
        let ipv6 = plan.flows.iter().any(|flow| flow.ipv6);
        let mut lab = Self {
            plan,
            ipv6,
            spaces: Vec::new(),
            nets: Vec::new(),
            ports: Vec::new(),
        };
        for node in &plan.nodes {
            let space = Netns::new()?;
            let net = Net::open(runtime, &space)?;
            net.up("lo", false)?;
            space.enter(|| sysctls(node.router, ipv6))??;
            lab.spaces.push(space);
            lab.nets.push(net);
        }
        for (i, link) in plan.links.iter().enumerate() {
            let (a, b) = (format!("l{i}a"), format!("l{i}b"));
            lab.nets[link.a.node].add_veth(&a, &b, &lab.spaces[link.b.node])?;
            for (port, name, side) in [(&link.a, &a, 0), (&link.b, &b, 1)] {
                let index = lab.port(port, name, i, side)?;
                lab.ports.push((port.node, index));
            }
        }
        lab.routes()?;
        Ok(lab)
    }

    fn port(&self, port: &Port, name: &str, link: usize, side: u8) -> Result<u32> {
        let net = &self.nets[port.node];
        net.up(name, true)?;
        net.address(name, v4(link, side), 24)?;
        if self.ipv6 {
            net.address(name, v6(link, side), 64)?;
        }
        let options = net::port(
            port.rate_mbps,
            port.delay_ns,
            port.limit_bytes,
            port.ecn_bytes,
        );
        net.qdisc(name, tc::NAME, options)?;
        net.index(name)
    }

    /// Shortest paths by number of links, ties to the link that comes first: a route from every node to
    /// every address that is not its neighbour's.
    fn routes(&self) -> Result<()> {
        for from in 0..self.plan.nodes.len() {
            let mut first_hop = vec![None; self.plan.nodes.len()];
            let mut queue = VecDeque::from([from]);
            let mut seen = vec![false; self.plan.nodes.len()];
            seen[from] = true;
            while let Some(at) = queue.pop_front() {
                for (l, side, next) in self.neighbours(at) {
                    if !std::mem::replace(&mut seen[next], true) {
                        first_hop[next] = if at == from {
                            Some((l, side))
                        } else {
                            first_hop[at]
                        };
                        queue.push_back(next);
                    }
                }
            }
            let near: Vec<usize> = self.neighbours(from).map(|(l, ..)| l).collect();
            for (l, link) in self.plan.links.iter().enumerate() {
                for (node, side) in [(link.a.node, 0), (link.b.node, 1)] {
                    let (false, Some((via, via_side))) = (near.contains(&l), first_hop[node])
                    else {
                        continue;
                    };
                    self.nets[from].route(v4(l, side), v4(via, via_side))?;
                    if self.ipv6 {
                        self.nets[from].route(v6(l, side), v6(via, via_side))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The links of a node: link, the side of the peer, the peer.
    fn neighbours(&self, node: usize) -> impl Iterator<Item = (usize, u8, usize)> + '_ {
        self.plan
            .links
            .iter()
            .enumerate()
            .flat_map(move |(l, link)| {
                let there = (link.a.node == node).then_some((l, 1, link.b.node));
                let back = (link.b.node == node).then_some((l, 0, link.a.node));
                there.into_iter().chain(back)
            })
    }

    /// An address of a node, on its first link.
    fn address(&self, node: usize, ipv6: bool) -> Result<IpAddr> {
        let (l, peer_side, _) = self
            .neighbours(node)
            .next()
            .context("a node of a flow has no link")?;
        let side = 1 - peer_side;
        Ok(if ipv6 { v6(l, side) } else { v4(l, side) })
    }

    /// Neighbours are resolved before the first flow, as they would be in a network that lives.
    fn warm_up(&self) -> Result<()> {
        for flow in &self.plan.flows {
            for (from, to) in [(flow.from, flow.to), (flow.to, flow.from)] {
                let to = self.address(to, flow.ipv6)?;
                // A UDP packet to a closed port; the answer is of no interest.
                self.spaces[from].enter(|| -> Result<()> {
                    let any: IpAddr = if flow.ipv6 {
                        Ipv6Addr::UNSPECIFIED.into()
                    } else {
                        Ipv4Addr::UNSPECIFIED.into()
                    };
                    let socket = std::net::UdpSocket::bind((any, 0))?;
                    socket.send_to(b"fathom", (to, 9))?;
                    Ok(())
                })??;
            }
        }
        std::thread::sleep(Duration::from_millis(100));
        Ok(())
    }

    fn queues(&self) -> Result<Vec<net::Queue>> {
        let mut by_node = Vec::new();
        for net in &self.nets {
            by_node.push(net.queues()?);
        }
        Ok(self
            .ports
            .iter()
            .map(|&(node, index)| {
                by_node[node]
                    .iter()
                    .find(|q| q.index == index)
                    .cloned()
                    .unwrap_or_default()
            })
            .collect())
    }

    fn backlogs(&self) -> Result<Vec<u64>> {
        Ok(self.queues()?.iter().map(|q| q.backlog_bytes).collect())
    }
}

/// Settings of a namespace.
fn sysctls(router: bool, ipv6: bool) -> Result<()> {
    let mut set = vec![
        // The receiver's buffer is larger than any window of the lab from the start; the sender's
        // follows the window, as everywhere.
        ("ipv4/tcp_rmem", "4096 33554432 67108864"),
        ("ipv4/tcp_wmem", "4096 1048576 67108864"),
        // Results of one flow must not depend on the flows before it.
        ("ipv4/tcp_no_metrics_save", "1"),
        ("ipv6/conf/all/accept_dad", "0"),
        ("ipv6/conf/default/accept_dad", "0"),
    ];
    if !ipv6 {
        // Its neighbour and multicast reports come at random times and would be in the results.
        set.push(("ipv6/conf/default/disable_ipv6", "1"));
        set.push(("ipv6/conf/all/disable_ipv6", "1"));
    }
    if router {
        set.push(("ipv4/ip_forward", "1"));
        set.push(("ipv6/conf/all/forwarding", "1"));
    }
    for (name, value) in set {
        fs::write(format!("/proc/sys/net/{name}"), value)
            .with_context(|| format!("sysctl net/{name}={value}"))?;
    }
    Ok(())
}

fn v4(link: usize, side: u8) -> IpAddr {
    Ipv4Addr::new(10, (link >> 8) as u8, link as u8, side + 1).into()
}

fn v6(link: usize, side: u8) -> IpAddr {
    Ipv6Addr::new(0xfd00, 0, 0, link as u16, 0, 0, 0, u16::from(side) + 1).into()
}

fn mean(values: &[u64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.iter().sum::<u64>() as f64 / values.len() as f64
}

fn percentile(values: &[u64], percent: usize) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    // The smallest value that at least `percent` of all are not above.
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}
