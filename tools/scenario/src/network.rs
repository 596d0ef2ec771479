// SPDX-License-Identifier: GPL-2.0

//! What a scenario resolves to: plain data that an engine runs without any further parsing.
//!
//! All times are ns since the start of the run, all rates bits per second of the Ethernet line
//! (preamble and gap included), all sizes bytes. Nodes, links, flows, groups and congestion controls
//! are known by their place in the vectors here.

use crate::cc::CcSpec;
use crate::metric::Expectation;
use serde::{Deserialize, Serialize};

/// A node, by its place in [`Resolved::nodes`].
pub type NodeId = usize;

/// One direction of a link: the egress port at its sending end. Link `l` has the ports `2l` (from `a`
/// to `b`) and `2l + 1` (from `b` to `a`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PortId(pub u32);

impl PortId {
    /// The port of `link` that sends from `a` to `b`, or from `b` to `a` when `backward`.
    #[must_use]
    pub const fn new(link: usize, backward: bool) -> Self {
        Self((link as u32) * 2 + backward as u32)
    }

    /// Its place in a vector of all ports.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The link, by its place in [`Resolved::links`].
    #[must_use]
    pub const fn link(self) -> usize {
        (self.0 / 2) as usize
    }

    /// Whether it sends from `b` to `a`.
    #[must_use]
    pub const fn backward(self) -> bool {
        self.0 % 2 == 1
    }

    /// The port at the other end of the link.
    #[must_use]
    pub const fn peer(self) -> Self {
        Self(self.0 ^ 1)
    }
}

/// A scenario with one congestion control under test, ready to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resolved {
    /// The scenario's name.
    pub name: String,
    /// One line: what it shows.
    pub title: String,
    /// The figure it reproduces, or empty.
    pub figure: String,
    /// Name of the congestion control under test: what flows with `cc = "*"` use.
    pub cc: String,
    /// For everything random in an engine (loss, marks, jitter, ECMP).
    pub seed: u64,
    /// How long the run lasts.
    pub duration_ns: u64,
    /// What the kernel calls MTU: IP packet, bytes.
    pub mtu: u32,
    /// What a packet occupies on the wire besides its IP packet, bytes.
    pub overhead: u32,
    /// How hosts speak TCP.
    pub tcp: Tcp,
    /// Hosts and switches.
    pub nodes: Vec<Node>,
    /// Wires.
    pub links: Vec<Link>,
    /// Where packets go.
    pub routes: Routes,
    /// Groups of flows, in the order of the file.
    pub groups: Vec<Group>,
    /// Congestion controls in use, with their parameters.
    pub ccs: Vec<CcSpec>,
    /// All flows, by start time. A flow's place here is its id.
    pub flows: Vec<Flow>,
    /// Faults, by start time.
    pub faults: Vec<Fault>,
    /// Circuits that come and go, when the topology is reconfigurable.
    pub circuits: Option<Circuits>,
    /// What is measured.
    pub measure: Measure,
    /// Bounds on the results.
    pub expect: Vec<Expectation>,
}

/// A host or a switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Which of the two.
    pub kind: NodeKind,
    /// Time that a packet spends inside before it reaches the queue of its egress port.
    pub delay_ns: u64,
    /// Buffer shared by the ports whose [`Buffer`] says so.
    pub shared_buffer: Option<SharedBuffer>,
    /// A P4 program to run in the place of the built-in switch, for engines that can: the file, which was found
    /// to be good.
    pub p4: Option<String>,
    /// The rack (ToR, leaf) that a generated host belongs to; none for others.
    pub rack: Option<u32>,
    /// Its ports, in the order of the links.
    pub ports: Vec<PortId>,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// Sends and receives.
    Host,
    /// Forwards.
    Switch,
}

/// Dynamic Thresholds (Choudhury and Hahne): a port may hold `alpha` times what is still free.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SharedBuffer {
    /// All of it.
    pub bytes: u64,
    /// α.
    pub alpha: f64,
}

/// A wire between two nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// One end.
    pub a: NodeId,
    /// The other.
    pub b: NodeId,
    /// From `a` to `b`, and from `b` to `a`.
    pub ports: [Port; 2],
}

/// An egress port and the wire behind it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// Line rate.
    pub rate_bps: u64,
    /// Time on the wire after transmission.
    pub delay_ns: u64,
    /// How much it can hold. Bytes are counted as IP packets and Ethernet headers.
    pub buffer: Buffer,
    /// When it marks or drops.
    pub queue: Queue,
    /// Whether it writes in-band telemetry. Hosts' own ports do not.
    pub int: bool,
}

/// Room for waiting packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Buffer {
    /// A limit of its own, bytes.
    Own(u64),
    /// Whatever the node's shared buffer grants.
    Shared,
}

/// The queue law of a port. All are first in, first out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// Drops what does not fit.
    Fifo,
    /// Marks packets that find more than this many bytes waiting.
    Ecn {
        /// Bytes.
        threshold: u64,
    },
    /// Random Early Detection on the instantaneous queue, as DCQCN uses it.
    Red {
        /// Nothing happens below, bytes.
        min: u64,
        /// Every packet is marked above, bytes.
        max: u64,
        /// Probability at `max`.
        probability: f64,
        /// Mark those that can be marked, rather than drop.
        ecn: bool,
    },
    /// CoDel (RFC 8289).
    Codel {
        /// ns.
        target: u64,
        /// ns.
        interval: u64,
        /// Mark those that can be marked, rather than drop.
        ecn: bool,
    },
    /// CoDel whose marks go on the ACKs that pass the other way (RPM).
    CodelRpm {
        /// ns.
        target: u64,
        /// ns.
        interval: u64,
    },
}

/// How hosts speak TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tcp {
    /// Full-size packets per ACK: 1, or 2 as RFC 1122 has it.
    pub ack_every: u32,
    /// The longest that an ACK is held back.
    pub ack_delay_ns: u64,
    /// The least retransmission timeout.
    pub min_rto_ns: u64,
    /// Whether segments carry timestamps (12 bytes).
    pub timestamps: bool,
    /// Receive window, bytes; 0 = it never limits.
    pub receive_window: u64,
    /// How windows below two packets are kept.
    pub small_windows: SmallWindows,
}

/// How a sender keeps to a window below two packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SmallWindows {
    /// As Linux must: two packets may be in flight, for a receiver holds back the ACK of a single one, and pacing does
    /// the rest. When a packet may leave is decided when the one before it leaves.
    #[default]
    Linux,
    /// As Swift and Poseidon publish it: the window is what may be in flight. Below one packet the next one leaves an
    /// RTT over the window after the last, by the newest ACK.
    Published,
}

/// Flows that belong together in the results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// What kind of traffic it is.
    pub kind: GroupKind,
    /// Whether its flows use the congestion control under test.
    pub tested: bool,
}

/// Kinds of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupKind {
    /// `[[flows]]`
    Flows,
    /// `[[incast]]`
    Incast,
    /// `[[poisson]]`
    Poisson,
    /// `[[rpc]]`
    Rpc,
}

/// One TCP connection, or a message on one that stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Who connects, and sends (an RPC: who asks).
    pub src: NodeId,
    /// Who is connected to.
    pub dst: NodeId,
    /// When it connects.
    pub start_ns: u64,
    /// When it stops whatever is left to send; none = when the run ends.
    pub stop_ns: Option<u64>,
    /// What it does.
    pub work: Work,
    /// The application offers no more than this, bits of payload per second; 0 = as much as fits.
    pub app_bps: u64,
    /// Its congestion control, in [`Resolved::ccs`].
    pub cc: usize,
    /// Its group, in [`Resolved::groups`].
    pub group: usize,
    /// The incast query it belongs to, counted within its group; none for others.
    pub query: Option<u32>,
    /// The standing connection that carries it, by the first flow that it carries, which is this one or one
    /// before it in [`Resolved::flows`]; none = a connection of its own.
    pub on: Option<usize>,
}

/// What a flow does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Sends until it is stopped.
    Long,
    /// Sends this much payload and closes.
    Bytes(u64),
    /// `src` sends a request, `dst` answers, `src` thinks, and again.
    Rpc {
        /// Payload of a request.
        request: u64,
        /// Payload of an answer.
        response: u64,
        /// How often; none = until it is stopped.
        count: Option<u64>,
        /// Pause between an answer and the next request.
        think_ns: u64,
    },
}

/// Something goes wrong, or merely changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// From when.
    pub from_ns: u64,
    /// Until when; none = to the end.
    pub until_ns: Option<u64>,
    /// Which ports it befalls.
    pub ports: Vec<PortId>,
    /// What happens to packets that these ports send.
    pub kind: FaultKind,
}

/// What can go wrong at a port. Probabilities are per packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// Packets vanish on the wire.
    Loss {
        /// How many of them.
        probability: f64,
    },
    /// Packets arrive later than their successors.
    Reorder {
        /// How many of them.
        probability: f64,
        /// How much later.
        delay_ns: u64,
    },
    /// Packets arrive twice.
    Duplicate {
        /// How many of them.
        probability: f64,
    },
    /// Packets arrive with a flipped bit, which the receiver's checksum finds: they are dropped there.
    Corrupt {
        /// How many of them.
        probability: f64,
    },
    /// The wire carries nothing; routes do not change. What is sent meanwhile is lost.
    Down,
    /// The port sends at another rate.
    Rate {
        /// Bits per second.
        rate_bps: u64,
    },
    /// The wire is of another length.
    Delay {
        /// Instead of the port's own.
        delay_ns: u64,
    },
    /// Telemetry is not written (the hop is not counted either), or not truthfully.
    Int(IntFault),
    /// The option is replaced by padding, as a middlebox might.
    Strip {
        /// How many packets.
        probability: f64,
    },
}

/// What a hop does instead of writing the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IntFault {
    /// Writes nothing.
    Off,
    /// Claims to be empty.
    Zero,
    /// Claims the most that the format can say.
    Max,
    /// Writes random bits.
    Random,
}

/// Circuits between racks, as a rotor of matchings: `day_ns` with one matching, `night_ns` with none,
/// then the next matching; again from the first after the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Circuits {
    /// How long a matching holds.
    pub day_ns: u64,
    /// How long the change to the next takes.
    pub night_ns: u64,
    /// How many matchings there are.
    pub matchings: u32,
    /// The circuits. Only their port in this direction is used: the rotor of an odd number of racks
    /// connects them one way.
    pub circuits: Vec<Circuit>,
}

/// A port that sends in one matching only. Its queue is the VOQ of that pair of racks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Circuit {
    /// The port of the sending rack's switch.
    pub port: PortId,
    /// The matching that connects it.
    pub matching: u32,
    /// The receiving rack, as in [`Node::rack`].
    pub to_rack: u32,
}

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    /// Summary metrics count from here...
    pub from_ns: u64,
    /// ... to here.
    pub until_ns: u64,
    /// Between two samples of a time series.
    pub interval_ns: u64,
    /// Throughputs are averaged over this long before they are compared with shares.
    pub window_ns: u64,
    /// The line's queue has settled when it stays at or below this, as the time it takes to send.
    pub settled_ns: Option<u64>,
    /// Ports with a time series of their queue; the first is *the line*, of which
    /// `line_share` speaks.
    pub ports: Vec<PortId>,
    /// Flows with time series of their own; groups always have one.
    pub flows: Vec<usize>,
    /// Sizes at which flows are divided for slowdowns, ascending, bytes.
    pub size_bins: Vec<u64>,
}

/// Next hops by node and destination, with ECMP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routes {
    /// Distinct sets of ports.
    pub(crate) sets: Vec<Vec<PortId>>,
    /// Per node: its sets, by destination host.
    pub(crate) rows: Vec<Row>,
    /// Per node: which host it is, in order; `u32::MAX` for switches.
    pub(crate) host_index: Vec<u32>,
}

/// The routes of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Row {
    /// The same for all destinations: a host with one link.
    Always(u32),
    /// By host index; `u32::MAX` = no route.
    Table(Vec<u32>),
}

impl Routes {
    /// The ports by which `node` can send on towards host `dst`, in ascending order; empty = none.
    #[must_use]
    pub fn next_hops(&self, node: NodeId, dst: NodeId) -> &[PortId] {
        let host = self.host_index.get(dst).copied().unwrap_or(u32::MAX);
        let set = match self.rows.get(node) {
            Some(Row::Always(set)) if node != dst => *set,
            Some(Row::Table(table)) => table.get(host as usize).copied().unwrap_or(u32::MAX),
            _ => u32::MAX,
        };
        self.sets.get(set as usize).map_or(&[], Vec::as_slice)
    }
}

impl Circuits {
    /// A day and the night after it.
    #[must_use]
    pub const fn slot_ns(&self) -> u64 {
        self.day_ns + self.night_ns
    }

    /// All matchings once.
    #[must_use]
    pub const fn week_ns(&self) -> u64 {
        self.slot_ns() * self.matchings as u64
    }

    /// The matching that is up at `at_ns`; none at night.
    #[must_use]
    pub const fn up_at(&self, at_ns: u64) -> Option<u32> {
        let in_week = at_ns % self.week_ns();
        if in_week % self.slot_ns() < self.day_ns {
            Some((in_week / self.slot_ns()) as u32)
        } else {
            None
        }
    }

    /// How long `matching` is up between two times.
    #[must_use]
    pub const fn up_ns(&self, matching: u32, from_ns: u64, until_ns: u64) -> u64 {
        self.up_before(matching, until_ns) - self.up_before(matching, from_ns)
    }

    const fn up_before(&self, matching: u32, at_ns: u64) -> u64 {
        let weeks = at_ns / self.week_ns();
        let into = (at_ns % self.week_ns()).saturating_sub(matching as u64 * self.slot_ns());
        let today = if into < self.day_ns {
            into
        } else {
            self.day_ns
        };
        weeks * self.day_ns + today
    }

    /// The circuit by which the switch of `from` (a node) reaches `to_rack`, if there is one.
    #[must_use]
    pub fn to_rack(&self, network: &Resolved, from: NodeId, to_rack: u32) -> Option<Circuit> {
        let mine = |c: &&Circuit| c.to_rack == to_rack && network.near_end(c.port) == from;
        self.circuits.iter().find(mine).copied()
    }
}
