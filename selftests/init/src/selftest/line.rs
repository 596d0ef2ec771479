// SPDX-License-Identifier: GPL-2.0
//! A path for tests of telemetry: sender, three routers in a row, receiver, and a detour around the middle
//! one. Every router's port is a port of ours that writes telemetry and logs what it wrote.
//!
//! ```text
//! sender 0 ── 1 ── 2 ── 3 ── 4 receiver
//!              └── 5 ──┘
//! ```

use super::data;
use crate::{net::Net, netem::Faults, netns::Netns};
use anyhow::{Context as _, Result};
use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};
use wire::tc;

/// See the file's head.
pub struct Line {
    nodes: Vec<Netns>,
    nets: Vec<Net<'static>>,
}

/// Where the sender is.
pub const SENDER: usize = 0;
/// Where the receiver is.
pub const RECEIVER: usize = 4;
const LINKS: [(usize, usize); 6] = [(0, 1), (1, 2), (2, 3), (3, 4), (1, 5), (5, 3)];

/// A port: its node, the node it leads to, its hop id, its rate.
pub struct Port(pub usize, pub usize, pub u8, &'static str);

/// Towards the receiver, in order; the last two are the detour.
pub const FORWARD: [Port; 5] = [
    Port(1, 2, 1, "40gbit"),
    Port(2, 3, 2, "10gbit"),
    Port(3, 4, 3, "25gbit"),
    Port(1, 5, 4, "40gbit"),
    Port(5, 3, 5, "5gbit"),
];
/// Towards the sender, in order; the last two are the detour.
pub const BACKWARD: [Port; 5] = [
    Port(3, 2, 11, "10gbit"),
    Port(2, 1, 12, "10gbit"),
    Port(1, 0, 13, "40gbit"),
    Port(3, 5, 14, "10gbit"),
    Port(5, 1, 15, "10gbit"),
];

/// The device of a node that leads to another.
#[must_use]
pub fn device(to: usize) -> String {
    format!("to{to}")
}

/// The address of `node` on its link with `other`.
#[must_use]
pub fn address(node: usize, other: usize, ipv6: bool) -> IpAddr {
    let (a, b) = (node.min(other) as u8, node.max(other) as u8);
    let host = 1 + u8::from(node > other);
    if ipv6 {
        Ipv6Addr::new(0xfd00, a.into(), b.into(), 0, 0, 0, 0, host.into()).into()
    } else {
        Ipv4Addr::new(10, 16 + a, b, host).into()
    }
}

impl Line {
    /// Builds it; every port of a router writes telemetry.
    pub fn new() -> Result<Self> {
        let runtime = data::runtime()?;
        let mut line = Self {
            nodes: vec![],
            nets: vec![],
        };
        for node in 0..6 {
            let space = Netns::new()?;
            let net = Net::open(runtime, &space)?;
            net.up("lo", false)?;
            space.enter(|| -> Result<()> {
                fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("ip_forward")?;
                fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").context("forwarding")?;
                // Receivers offer more than any path here holds.
                fs::write("/proc/sys/net/ipv4/tcp_rmem", "4096 4194304 16777216")?;
                fs::write("/proc/sys/net/ipv4/tcp_wmem", "4096 4194304 16777216")?;
                if node == RECEIVER || node == SENDER {
                    fs::write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1")?;
                }
                Ok(())
            })??;
            line.nodes.push(space);
            line.nets.push(net);
        }
        for (a, b) in LINKS {
            line.nets[a].add_veth(&device(b), &device(a), &line.nodes[b])?;
            for (node, other) in [(a, b), (b, a)] {
                line.nets[node].up(&device(other), true)?;
                line.nets[node].address(&device(other), address(node, other, false), 24)?;
                line.nets[node].address(&device(other), address(node, other, true), 64)?;
            }
        }
        for ipv6 in [false, true] {
            let (sender, receiver) = (address(0, 1, ipv6), address(4, 3, ipv6));
            for (node, next) in [(0, 1), (1, 2), (2, 3), (5, 3)] {
                line.nets[node].route(receiver, address(next, node, ipv6))?;
            }
            for (node, next) in [(4, 3), (3, 2), (2, 1), (5, 1)] {
                line.nets[node].route(sender, address(next, node, ipv6))?;
            }
        }
        for Port(node, to, hop, rate) in FORWARD.iter().chain(&BACKWARD) {
            let options = format!("rate {rate} delay 5us limit 64mb int hop-id {hop} log 32768");
            line.set(*node, *to, &options)?;
        }
        Ok(line)
    }

    /// Sets the parameters of the port from `node` to `to`, as `fathom tc` takes them.
    pub fn set(&self, node: usize, to: usize, options: &str) -> Result<()> {
        let words: Vec<&str> = options.split_whitespace().collect();
        let options = ::port::settings::parse(&words).map_err(anyhow::Error::msg)?;
        self.nets[node].qdisc(&device(to), tc::NAME, options)
    }

    /// Gives a host's port the faults of netem.
    pub fn netem(&self, node: usize, to: usize, faults: Faults) -> Result<()> {
        self.nets[node].qdisc(&device(to), "netem", faults.options())
    }

    /// The namespace of a node.
    pub fn space(&self, node: usize) -> &Netns {
        &self.nodes[node]
    }

    /// Data goes around the middle router, or back through it.
    pub fn detour(&self, around: bool, ipv6: bool) -> Result<()> {
        let next = if around { 5 } else { 2 };
        self.nets[1].reroute(address(4, 3, ipv6), address(next, 1, ipv6))
    }

    /// What a port logged.
    pub fn log(&self, port: &Port) -> Result<Vec<tc::Record>> {
        let (first, records) = self.nets[port.0].log(&device(port.1), 0)?;
        anyhow::ensure!(first == 0, "the log of hop {} ran over", port.2);
        Ok(records)
    }
}
