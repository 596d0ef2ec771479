// SPDX-License-Identifier: GPL-2.0
//! What the host tells the program inside the lab, and what that answers. Both are JSON: the plan is a
//! file of the initramfs, the answer a file that the lab writes before it powers off.

use serde::{Deserialize, Serialize};

/// Where the plan is in the initramfs.
pub const PLAN_FILE: &str = "/plan.json";
/// Where modules of the project are in the initramfs.
pub const MODULE_DIR: &str = "/modules";
/// The name of the answer in the directory shared with the host.
pub const ANSWER_FILE: &str = "answer.json";

/// The modules that the module in this file needs, as its build recorded them (`depends=` of its
/// `.modinfo`).
pub fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|w| w == KEY) else {
        return Vec::new();
    };
    let names = module[at + KEY.len()..].split(|&b| b == 0).next();
    String::from_utf8_lossy(names.unwrap_or_default())
        .split(',')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// One run of the lab.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Plan {
    /// Names of the nodes, each a network namespace.
    pub nodes: Vec<Node>,
    /// Their links.
    pub links: Vec<Link>,
    /// Kernel modules to load, with their parameters.
    pub modules: Vec<Module>,
    /// The traffic.
    pub flows: Vec<Flow>,
    /// How long flows send, us of virtual time.
    pub duration_us: u64,
    /// What happened before is left out of the results, us.
    pub measure_from_us: u64,
    /// How often queues and sockets are looked at, us.
    pub sample_us: u64,
    /// Keep every sample in the answer, not only what they come to.
    pub keep_samples: bool,
}

/// A network namespace.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Does it forward packets?
    pub router: bool,
}

/// Two ports and the wire between them.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Link {
    /// One end.
    pub a: Port,
    /// The other.
    pub b: Port,
}

/// The egress side of one end of a link.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Port {
    /// The node, by its place in [`Plan::nodes`].
    pub node: usize,
    /// Rate of the Ethernet link, Mbit/s, preamble and gap included; 0 = as fast as the machine.
    pub rate_mbps: u64,
    /// Time on the wire after transmission, ns.
    pub delay_ns: u64,
    /// Queue, bytes.
    pub limit_bytes: u64,
    /// Packets that find this many bytes waiting are marked (ECN); 0 = none.
    pub ecn_bytes: u64,
}

/// A module to load.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Module {
    /// Its name, as in `lsmod`.
    pub name: String,
    /// Parameters, as on modprobe's command line.
    pub params: String,
}

/// One TCP connection that sends from `start_us` until the plan's end, or `bytes` bytes.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Flow {
    /// Sending node.
    pub from: usize,
    /// Receiving node.
    pub to: usize,
    /// Congestion control.
    pub cc: String,
    /// When it connects, us.
    pub start_us: u64,
    /// How much it sends; none = until the end.
    pub bytes: Option<u64>,
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
}

/// What a run of the lab came to.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Answer {
    /// The kernel, as `uname -r` says.
    pub kernel: String,
    /// Per flow, in the order of the plan.
    pub flows: Vec<FlowResult>,
    /// Per port, in the order of the plan's links, `a` before `b`.
    pub ports: Vec<PortResult>,
    /// Everything that was sampled, when the plan asked for it.
    pub samples: Vec<Sample>,
}

/// What a flow came to, as its own kernel counted it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct FlowResult {
    /// The congestion control that the socket really had.
    pub cc: String,
    /// Payload acknowledged between `measure_from_us` and the end (or its last byte).
    pub bytes: u64,
    /// That time, us.
    pub time_us: u64,
    /// Payload of a full-size segment, bytes.
    pub mss: u32,
    /// Segments retransmitted over its whole life.
    pub retransmits: u32,
    /// Smoothed RTT, sampled: mean, us.
    pub rtt_mean_us: f64,
    /// Smoothed RTT, sampled: 99th percentile, us.
    pub rtt_p99_us: f64,
    /// The least RTT that the kernel saw, us.
    pub rtt_min_us: u32,
    /// When its last byte was acknowledged, us; none when it sent until the end.
    pub finished_us: Option<u64>,
}

/// What the queue of a port was like.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct PortResult {
    /// Mean length, bytes.
    pub mean_bytes: f64,
    /// 99th percentile of the length, bytes.
    pub p99_bytes: u64,
    /// Largest sampled length, bytes.
    pub max_bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped.
    pub drops: u64,
}

/// One look at everything.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Sample {
    /// When, us since the flows' start.
    pub at_us: u64,
    /// Per flow: bytes acknowledged, smoothed RTT (us), window (packets), pacing rate (bytes/s).
    pub flows: Vec<(u64, u32, u32, u64)>,
    /// Per port: queue, bytes.
    pub ports: Vec<u64>,
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_a_module_needs() {
        let of = |modinfo: &str| super::depends(modinfo.as_bytes());
        assert_eq!(
            of("license=GPL\0depends=tcp_int,veth\0name=x\0"),
            ["tcp_int", "veth"]
        );
        assert!(of("license=GPL\0depends=\0name=x\0").is_empty());
        assert!(of("license=GPL\0name=x\0").is_empty());
        assert_eq!(of("a\0depends=cut"), ["cut"]);
    }
}
