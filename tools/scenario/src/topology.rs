// SPDX-License-Identifier: GPL-2.0

//! Generated topologies: from `[topology.KIND]` to nodes and links.

use crate::error::{Error, Source};
use crate::file::Topology;
use crate::network::{Circuit, Circuits, NodeId, NodeKind, PortId};
use crate::units::{Rate, Time};
use std::ops::Range;
use toml::Spanned;

/// The most nodes a scenario may have. A table of routes grows with their square.
pub(crate) const MAX_NODES: u64 = 20_000;

/// Nodes and links before their ports are configured.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) nodes: Vec<DraftNode>,
    pub(crate) links: Vec<DraftLink>,
    pub(crate) circuits: Option<Circuits>,
}

pub(crate) struct DraftNode {
    pub(crate) name: String,
    pub(crate) kind: NodeKind,
    pub(crate) rack: Option<u32>,
}

pub(crate) struct DraftLink {
    pub(crate) a: NodeId,
    pub(crate) b: NodeId,
    /// From `a` to `b`, and back.
    pub(crate) rate: [u64; 2],
    pub(crate) delay: [u64; 2],
}

impl Draft {
    fn node(&mut self, name: String, kind: NodeKind, rack: Option<usize>) -> NodeId {
        let rack = rack.map(|r| r as u32);
        self.nodes.push(DraftNode { name, kind, rack });
        self.nodes.len() - 1
    }

    fn switch(&mut self, name: String) -> NodeId {
        self.node(name, NodeKind::Switch, None)
    }

    fn host(&mut self, name: String, rack: usize) -> NodeId {
        self.node(name, NodeKind::Host, Some(rack))
    }

    fn link(&mut self, a: NodeId, b: NodeId, rate: u64, Time(delay): Time) -> usize {
        self.links.push(DraftLink {
            a,
            b,
            rate: [rate; 2],
            delay: [delay; 2],
        });
        self.links.len() - 1
    }
}

/// What the generators share: where errors point, and how far numbers may go.
struct Generator<'a> {
    source: &'a Source,
    draft: Draft,
    nodes: u64,
}

type Result<T> = std::result::Result<T, Box<Error>>;

/// Nodes and links of `topology`.
pub(crate) fn generate(source: &Source, topology: &Topology) -> Result<Draft> {
    let mut g = Generator {
        source,
        draft: Draft::default(),
        nodes: 0,
    };
    g.build(topology)?;
    Ok(g.draft)
}

impl Generator<'_> {
    /// `count` as a number of things of which each makes `each` nodes.
    fn count(&mut self, count: &Spanned<u64>, least: u64, each: u64) -> Result<usize> {
        let n = *count.get_ref();
        if n < least {
            let message = format!("{n} is too few: at least {least} are needed here");
            return Err(self.source.error(count.span(), message, ""));
        }
        self.nodes = self.nodes.saturating_add(n.saturating_mul(each));
        if self.nodes > MAX_NODES {
            let message = format!(
                "the topology has {} nodes, and at most {MAX_NODES} are allowed",
                self.nodes
            );
            return Err(self
                .source
                .error(count.span(), message, "a smaller number here"));
        }
        Ok(n as usize)
    }

    fn rate(&self, rate: &Spanned<Rate>) -> Result<u64> {
        check_rate(self.source, rate)
    }

    fn rate_or(&self, rate: Option<&Spanned<Rate>>, default: u64) -> Result<u64> {
        rate.map_or(Ok(default), |r| self.rate(r))
    }

    fn build(&mut self, topology: &Topology) -> Result<()> {
        match topology {
            Topology::Dumbbell {
                pairs,
                host_rate,
                host_delay,
                right_delays,
                rate,
                delay,
            } => {
                let n = self.count(pairs, 1, 2)?;
                let host_rate = self.rate(host_rate)?;
                let rate = self.rate_or(rate.as_ref(), host_rate)?;
                let d = &mut self.draft;
                let (left, right) = (d.switch("sl".into()), d.switch("sr".into()));
                d.link(left, right, rate, *delay);
                for i in 0..n {
                    let host = d.host(format!("l{i}"), 0);
                    d.link(host, left, host_rate, *host_delay);
                }
                for i in 0..n {
                    let host = d.host(format!("r{i}"), 1);
                    let delay = in_turn(right_delays, i).unwrap_or(*host_delay);
                    d.link(right, host, host_rate, delay);
                }
            }
            Topology::Star {
                hosts,
                rate,
                delay,
                delays,
            } => {
                let n = self.count(hosts, 2, 1)?;
                let rate = self.rate(rate)?;
                let d = &mut self.draft;
                let hub = d.switch("s0".into());
                for i in 0..n {
                    let host = d.host(format!("h{i}"), 0);
                    let delay = in_turn(delays, i).unwrap_or(*delay);
                    d.link(host, hub, rate, delay);
                }
            }
            Topology::ParkingLot {
                cross,
                host_rate,
                host_delay,
                rate,
                delay,
            } => self.parking_lot(cross, host_rate, *host_delay, rate.as_ref(), *delay)?,
            Topology::LeafSpine {
                leaves,
                spines,
                hosts_per_leaf,
                host_rate,
                host_delay,
                fabric_rate,
                fabric_delay,
            } => {
                let n = self.count(leaves, 1, 1)?;
                let spines = self.count(spines, 1, 1)?;
                let hosts = self.count(hosts_per_leaf, 1, n as u64)?;
                let host_rate = self.rate(host_rate)?;
                let fabric_rate = self.rate_or(fabric_rate.as_ref(), host_rate)?;
                let d = &mut self.draft;
                let spines: Vec<_> = (0..spines).map(|s| d.switch(format!("spine{s}"))).collect();
                for leaf in 0..n {
                    let tor = d.switch(format!("leaf{leaf}"));
                    for &spine in &spines {
                        d.link(tor, spine, fabric_rate, fabric_delay.unwrap_or(*host_delay));
                    }
                    for i in 0..hosts {
                        let host = d.host(format!("h{leaf}_{i}"), leaf);
                        d.link(host, tor, host_rate, *host_delay);
                    }
                }
            }
            Topology::FatTree { .. } => self.fat_tree(topology)?,
            Topology::Reconfigurable { .. } => self.reconfigurable(topology)?,
        }
        Ok(())
    }

    fn parking_lot(
        &mut self,
        cross: &Spanned<Vec<u64>>,
        host_rate: &Spanned<Rate>,
        host_delay: Time,
        rate: Option<&Spanned<Rate>>,
        delay: Time,
    ) -> Result<()> {
        let hops = cross.get_ref().len();
        if !(1..=64).contains(&hops) {
            let message = format!("{hops} hops: a parking lot has 1 to 64");
            return Err(self.source.error(
                cross.span(),
                message,
                "one number per hop, such as [2, 2]",
            ));
        }
        for &pairs in cross.get_ref() {
            self.count(&Spanned::new(cross.span(), pairs), 0, 2)?;
        }
        let host_rate = self.rate(host_rate)?;
        let rate = self.rate_or(rate, host_rate)?;
        let d = &mut self.draft;
        let switches: Vec<_> = (0..=hops).map(|s| d.switch(format!("s{s}"))).collect();
        for pair in switches.windows(2) {
            d.link(pair[0], pair[1], rate, delay);
        }
        for (name, at) in [("a", 0), ("b", hops)] {
            let host = d.host(name.into(), at);
            d.link(host, switches[at], host_rate, host_delay);
        }
        for (hop, &pairs) in cross.get_ref().iter().enumerate() {
            for i in 0..pairs {
                for (name, at) in [("x", hop), ("y", hop + 1)] {
                    let host = d.host(format!("{name}{hop}_{i}"), at);
                    d.link(host, switches[at], host_rate, host_delay);
                }
            }
        }
        Ok(())
    }

    fn fat_tree(&mut self, topology: &Topology) -> Result<()> {
        let Topology::FatTree {
            pods,
            tors_per_pod,
            aggs_per_pod,
            cores,
            hosts_per_tor,
            host_rate,
            host_delay,
            fabric_rate,
            fabric_delay,
            core_rate,
            core_delay,
        } = topology
        else {
            return Ok(());
        };
        let n = self.count(pods, 1, 1)?;
        let tors = self.count(tors_per_pod, 1, n as u64)?;
        let aggs = self.count(aggs_per_pod, 1, n as u64)?;
        let core = self.count(cores, 1, 1)?;
        let hosts = self.count(hosts_per_tor, 1, (n * tors) as u64)?;
        if core > aggs && core % aggs != 0 {
            let message = format!(
                "{core} cores cannot be divided evenly among {aggs} aggregation switches of a pod"
            );
            let help =
                format!("a multiple of {aggs}, or at most {aggs} (each is then linked to all)");
            return Err(self.source.error(cores.span(), message, help));
        }
        let host_rate = self.rate(host_rate)?;
        let fabric_rate = self.rate_or(fabric_rate.as_ref(), host_rate)?;
        let core_rate = self.rate_or(core_rate.as_ref(), fabric_rate)?;
        let fabric_delay = fabric_delay.unwrap_or(*host_delay);
        let core_delay = core_delay.unwrap_or(fabric_delay);
        let d = &mut self.draft;
        let cores: Vec<_> = (0..core).map(|c| d.switch(format!("core{c}"))).collect();
        for pod in 0..n {
            let agg: Vec<_> = (0..aggs)
                .map(|a| d.switch(format!("agg{pod}_{a}")))
                .collect();
            for (a, &agg) in agg.iter().enumerate() {
                let mine = if core > aggs {
                    let each = core / aggs;
                    &cores[a * each..(a + 1) * each]
                } else {
                    &cores[..]
                };
                for &core in mine {
                    d.link(agg, core, core_rate, core_delay);
                }
            }
            for t in 0..tors {
                let rack = pod * tors + t;
                let tor = d.switch(format!("tor{rack}"));
                for &agg in &agg {
                    d.link(tor, agg, fabric_rate, fabric_delay);
                }
                for i in 0..hosts {
                    let host = d.host(format!("h{rack}_{i}"), rack);
                    d.link(host, tor, host_rate, *host_delay);
                }
            }
        }
        Ok(())
    }

    fn reconfigurable(&mut self, topology: &Topology) -> Result<()> {
        let Topology::Reconfigurable {
            tors,
            hosts_per_tor,
            host_rate,
            host_delay,
            packet_rate,
            packet_delay,
            circuit_rate,
            circuit_delay,
            day,
            night,
        } = topology
        else {
            return Ok(());
        };
        let n = self.count(tors, 2, 1)?;
        let hosts = self.count(hosts_per_tor, 1, n as u64)?;
        if n > 256 {
            let message = format!(
                "{n} racks: a rotor has at most 256, since there is a circuit for each pair"
            );
            return Err(self.source.error(tors.span(), message, ""));
        }
        if day.get_ref().0 == 0 {
            return Err(self
                .source
                .error(day.span(), "a day must be longer than nothing", ""));
        }
        let host_rate = self.rate(host_rate)?;
        let packet_rate = self.rate(packet_rate)?;
        let circuit_rate = self.rate(circuit_rate)?;
        let d = &mut self.draft;
        let packet = d.switch("packet".into());
        let racks: Vec<_> = (0..n).map(|t| d.switch(format!("tor{t}"))).collect();
        for (t, &tor) in racks.iter().enumerate() {
            d.link(tor, packet, packet_rate, *packet_delay);
            for i in 0..hosts {
                let host = d.host(format!("h{t}_{i}"), t);
                d.link(host, tor, host_rate, *host_delay);
            }
        }
        // In matching m, rack t sends to rack t + m + 1. Between two racks that is one link, whose
        // two directions are up in different matchings.
        let mut circuits = Vec::new();
        for from in 0..n {
            for to in from + 1..n {
                let link = d.link(racks[from], racks[to], circuit_rate, *circuit_delay);
                let circuit = |backward: bool, matching: usize, to: usize| Circuit {
                    port: PortId::new(link, backward),
                    matching: matching as u32,
                    to_rack: to as u32,
                };
                circuits.push(circuit(false, to - from - 1, to));
                circuits.push(circuit(true, n + from - to - 1, from));
            }
        }
        d.circuits = Some(Circuits {
            day_ns: day.get_ref().0,
            night_ns: night.0,
            matchings: n as u32 - 1,
            circuits,
        });
        Ok(())
    }
}

/// The `i`th of a list that starts again at its end.
fn in_turn(list: &[Time], i: usize) -> Option<Time> {
    list.get(i % list.len().max(1)).copied()
}

/// A rate that a link can have.
pub(crate) fn check_rate(source: &Source, rate: &Spanned<Rate>) -> Result<u64> {
    const LEAST: u64 = 100_000;
    let Rate(bps) = *rate.get_ref();
    if bps < LEAST {
        let span: Range<usize> = rate.span();
        return Err(source.error(
            span,
            "a link of less than 100 kbit/s",
            "at least \"100Kbit\"",
        ));
    }
    Ok(bps)
}
