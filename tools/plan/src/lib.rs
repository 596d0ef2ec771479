// SPDX-License-Identifier: GPL-2.0
//! What the host tells the program inside the lab, and what that answers. Both are JSON: the plan is a
//! file of the initramfs, the answer a file that the lab writes before it powers off.

mod complaints;

pub use complaints::complaints;
use scenario::{IntFormat, Resolved};
use serde::{Deserialize, Serialize};

/// Where the plan is in the initramfs.
pub const PLAN_FILE: &str = "/plan.json";
/// Where modules of the project are in the initramfs.
pub const MODULE_DIR: &str = "/modules";
/// What the program inside prints first on a debug kernel: what that says before is about its own start.
pub const UP: &str = "the machine is up";
/// The name of the answer in the directory shared with the host.
pub const ANSWER_FILE: &str = "answer.json";

/// The name of the file beside it that says how much of the run is done, in thousandths.
pub const PROGRESS_FILE: &str = "progress";

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

/// One run of the lab: the network, flows and faults as the scenario resolved, and what the kernel must
/// be told besides.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Plan {
    /// What is built and run.
    pub network: Resolved,
    /// Kernel modules to load, with their parameters.
    pub modules: Vec<Module>,
    /// Parameters of what is built into the kernel: file below `/sys/module`, value.
    pub settings: Vec<(String, String)>,
    /// Per node: sysctls, by their path below `net`.
    pub sysctls: Vec<Vec<(String, String)>>,
    /// The telemetry that connections ask for; none = the eBPF programs are not loaded.
    pub telemetry: Option<IntFormat>,
    /// Connections ask for ECN, whatever their congestion control.
    pub ecn: bool,
    /// The first window of the kernel's own congestion controls, packets; 0 = the kernel's.
    pub initial_cwnd: u32,
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// How often queues are looked at, ns; divides `measure.interval_ns`.
    pub look_ns: u64,
}

/// A module to load.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Module {
    /// Its name, as in `lsmod`.
    pub name: String,
    /// Parameters, as on modprobe's command line.
    pub params: String,
}

/// What a run of the lab came to. Times are ns since its start.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Answer {
    /// The kernel, as `uname -r` says.
    pub kernel: String,
    /// Per flow, in the order of the network.
    pub flows: Vec<FlowAnswer>,
    /// Per port, in the order of the network.
    pub ports: Vec<PortAnswer>,
    /// Payload acknowledged at each sample, per group.
    pub group_delivered: Vec<Vec<u64>>,
    /// Series of the flows that are followed.
    pub followed: Vec<FlowSeries>,
    /// Series of the ports that are followed.
    pub lines: Vec<PortSeries>,
}

/// What a flow came to, as its own kernel counted it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct FlowAnswer {
    /// When its last byte was acknowledged, if it had one and it was.
    pub finish_ns: Option<u64>,
    /// Payload acknowledged in all.
    pub bytes: u64,
    /// ... and in the measured time.
    pub measured_bytes: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// The least RTT that the kernel saw, us; 0 = none.
    pub rtt_min_us: u32,
    /// Smoothed RTT, sampled in the measured time, each sample counted as often as packets were delivered
    /// since the one before: mean, us.
    pub rtt_mean_us: f64,
    /// The same: 99th percentile, us.
    pub rtt_p99_us: u32,
    /// How many packets they stand for.
    pub rtt_samples: u64,
    /// Request/response: how long each took, ns, in order.
    pub latencies_ns: Vec<u64>,
    /// Payload of a full-size segment, bytes; 0 = it never connected.
    pub mss: u32,
    /// Why it ended early, if it did.
    pub error: Option<String>,
}

/// What a port came to in the measured time.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct PortAnswer {
    /// Mean queue, bytes.
    pub mean_bytes: f64,
    /// 99th percentile of the queue, bytes.
    pub p99_bytes: u64,
    /// Largest queue that was seen, bytes.
    pub max_bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent, without what a packet occupies besides.
    pub bytes: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Packets marked.
    pub marks: u64,
    /// Packets whose telemetry was written.
    pub stamps: u64,
}

/// A flow over time: one value per sample.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct FlowSeries {
    /// Its place in the network.
    pub flow: usize,
    /// Payload acknowledged so far.
    pub delivered: Vec<u64>,
    /// Window, packets; 0 = there is none.
    pub cwnd: Vec<u32>,
    /// Smoothed RTT, us; 0 = there is none.
    pub rtt_us: Vec<u32>,
}

/// A port over time: one value per sample.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct PortSeries {
    /// Its place in the network.
    pub port: usize,
    /// Bytes waiting.
    pub queue: Vec<u64>,
    /// Packets sent so far.
    pub packets: Vec<u64>,
    /// Bytes sent so far, without what a packet occupies besides.
    pub bytes: Vec<u64>,
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
