// SPDX-License-Identifier: GPL-2.0

//! What an engine counts. All times are ns since the start of the run, all sizes bytes of payload
//! unless they say otherwise.

use crate::run::Facts;
use scenario::{PortId, Resolved};
use std::collections::BTreeMap;

/// Everything that an engine hands over.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Per flow, in the order of [`Resolved::flows`].
    pub flows: Vec<FlowMeasured>,
    /// Per port, in the order of [`Resolved::ports`]. Ports that nobody looked at may be default.
    pub ports: Vec<PortMeasured>,
    /// Time series.
    pub samples: Samples,
    /// What the engine has to say of itself.
    pub facts: Facts,
}

/// What a flow came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowMeasured {
    /// When its last byte was acknowledged, if it had one and it was.
    pub finish_ns: Option<u64>,
    /// Payload acknowledged in all.
    pub bytes: u64,
    /// Payload acknowledged in the measured time (`Resolved::measure`, `from_ns` to `until_ns`).
    pub measured_bytes: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// The least RTT, ns; 0 = none was seen.
    pub rtt_min_ns: u64,
    /// Mean of the RTTs in the measured time, ns.
    pub rtt_mean_ns: f64,
    /// Their 99th percentile, ns.
    pub rtt_p99_ns: f64,
    /// How many there were.
    pub rtt_samples: u64,
    /// Of a request/response flow.
    pub rpc: Option<RpcMeasured>,
}

/// What a request/response flow came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RpcMeasured {
    /// Answers received in full.
    pub completed: u64,
    /// From request to the end of the answer: mean, ns.
    pub latency_mean_ns: f64,
    /// Median, ns.
    pub latency_p50_ns: f64,
    /// 99th percentile, ns.
    pub latency_p99_ns: f64,
}

/// What a port came to, in the measured time.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortMeasured {
    /// Mean queue over time, bytes as they wait (IP packets and Ethernet headers).
    pub queue_mean_bytes: f64,
    /// 99th percentile of the queue over time.
    pub queue_p99_bytes: u64,
    /// Largest queue.
    pub queue_max_bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent, as they occupy the wire.
    pub wire_bytes: u64,
    /// Packets dropped for want of room or by the queue law.
    pub drops: u64,
    /// Packets marked.
    pub marks: u64,
}

/// Time series. Sample `k` is of the time `k` times `Resolved::measure.interval_ns`; there are
/// [`Samples::count`] of them.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Payload acknowledged so far, of the flows that [`Samples::tracked`] names.
    pub delivered: BTreeMap<usize, Vec<u64>>,
    /// Payload acknowledged so far, per group.
    pub group_delivered: Vec<Vec<u64>>,
    /// Window in packets, of `Resolved::measure.flows`; NaN while there is none.
    pub cwnd: BTreeMap<usize, Vec<f64>>,
    /// Smoothed or latest RTT in ns, of `Resolved::measure.flows`; NaN while there is none.
    pub rtt: BTreeMap<usize, Vec<f64>>,
    /// Queue in bytes, of `Resolved::measure.ports`.
    pub queue: BTreeMap<PortId, Vec<u64>>,
    /// Bytes on the wire so far, of `Resolved::measure.ports`.
    pub sent: BTreeMap<PortId, Vec<u64>>,
}

impl Samples {
    /// How many samples a series has: one at the start, one after every interval that ends in time.
    #[must_use]
    pub fn count(resolved: &Resolved) -> usize {
        (resolved.duration_ns / resolved.measure.interval_ns) as usize + 1
    }

    /// The flows whose deliveries are followed: those with series of their own, and those of
    /// `[[flows]]`, which shares and convergence speak of.
    #[must_use]
    pub fn tracked(resolved: &Resolved) -> Vec<usize> {
        /// Enough for every figure, and a bound on memory.
        const MOST: usize = 4096;
        let wanted = |f: &usize| {
            let group = &resolved.groups[resolved.flows[*f].group];
            group.kind == scenario::GroupKind::Flows
        };
        let mut all: Vec<usize> = resolved.measure.flows.clone();
        all.extend((0..resolved.flows.len()).filter(wanted).take(MOST));
        all.sort_unstable();
        all.dedup();
        all
    }
}
