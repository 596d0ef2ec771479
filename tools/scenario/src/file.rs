// SPDX-License-Identifier: GPL-2.0

//! The schema of a scenario file, as serde reads it. `docs/scenarios.md` is its reference.
//!
//! Nothing here is checked against anything else; `resolve` does that. `Spanned` remembers where in
//! the file a value stands, for errors to point at.

use crate::cc::IntFormat;
use crate::metric::{Engine, Metric};
use crate::network::{IntFault, SmallWindows};
use crate::units::{Probability, Rate, Room, Size, Time};
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use toml::Spanned;

/// A whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Default: the file's own name.
    pub name: Option<String>,
    /// One line: what it shows.
    pub title: String,
    /// The figure it reproduces.
    #[serde(default)]
    pub figure: String,
    /// Congestion controls to run when none is asked for.
    pub compare: Spanned<Vec<Spanned<String>>>,
    /// Engines that can run it; default: sim and lab.
    #[serde(default)]
    pub engines: Vec<Engine>,
    /// Everything random derives from it.
    #[serde(default = "one")]
    pub seed: u64,
    /// How long it runs.
    pub duration: Spanned<Time>,
    /// Packets and routing.
    #[serde(default)]
    pub network: Network,
    /// How hosts speak TCP.
    #[serde(default)]
    pub tcp: Tcp,
    /// A generated topology.
    pub topology: Option<Spanned<Topology>>,
    /// All switches, unless `switches` says otherwise.
    #[serde(default)]
    pub switch: Switch,
    /// All ports of switches, unless `ports` or `links` say otherwise.
    #[serde(default)]
    pub port: PortSettings,
    /// All ports of hosts, unless `ports` says otherwise.
    #[serde(default)]
    pub host_port: PortSettings,
    /// Hosts and switches besides the generated ones.
    #[serde(default)]
    pub nodes: Vec<NodeTable>,
    /// Links besides the generated ones.
    #[serde(default)]
    pub links: Vec<LinkTable>,
    /// Changes to some switches.
    #[serde(default)]
    pub switches: Vec<SwitchTable>,
    /// Changes to some ports.
    #[serde(default)]
    pub ports: Vec<PortTable>,
    /// Routes instead of the shortest.
    #[serde(default)]
    pub routes: Vec<RouteTable>,
    /// Long flows, or flows of a given size.
    #[serde(default)]
    pub flows: Vec<FlowsTable>,
    /// Queries that many answer at once.
    #[serde(default)]
    pub incast: Vec<IncastTable>,
    /// Random arrivals of random sizes.
    #[serde(default)]
    pub poisson: Vec<PoissonTable>,
    /// Requests and answers on standing connections.
    #[serde(default)]
    pub rpc: Vec<RpcTable>,
    /// What goes wrong.
    #[serde(default)]
    pub faults: Vec<FaultTable>,
    /// Congestion controls with parameters.
    #[serde(default)]
    pub cc: BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, Spanned<CcValue>>>,
    /// What is measured.
    #[serde(default)]
    pub measure: MeasureTable,
    /// Bounds on results.
    #[serde(default)]
    pub expect: Vec<Spanned<ExpectTable>>,
}

const fn one() -> u64 {
    1
}

/// `[network]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// IP packet, bytes; default 1500.
    pub mtu: Option<Spanned<u32>>,
    /// On the wire besides; default 38: Ethernet's header, checksum, preamble and gap.
    pub overhead: Option<Spanned<u32>>,
    /// Spread flows over paths of equal length; default true.
    pub ecmp: Option<bool>,
}

/// `[tcp]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tcp {
    /// Default 1.
    pub ack_every: Option<Spanned<u32>>,
    /// Default 40 ms, as Linux has it.
    pub ack_delay: Option<Time>,
    /// Default 5 ms.
    pub min_rto: Option<Spanned<Time>>,
    /// Default true.
    pub timestamps: Option<bool>,
    /// Default: it never limits.
    pub receive_window: Option<Size>,
    /// How windows below two packets are kept.
    pub small_windows: Option<SmallWindows>,
}

/// `[topology.KIND]`
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Topology {
    /// Hosts `l0..` and `r0..` on both sides of one link between the switches `sl` and `sr`.
    Dumbbell {
        /// Pairs of hosts.
        pairs: Spanned<u64>,
        /// Of host links.
        host_rate: Spanned<Rate>,
        /// Of the left hosts' links, and of the right ones' when they have none of their own.
        host_delay: Time,
        /// Of each right host's link, in turn; default: `host_delay`.
        #[serde(default)]
        right_delays: Vec<Time>,
        /// Of the link between; default: `host_rate`.
        rate: Option<Spanned<Rate>>,
        /// Of the link between.
        delay: Time,
    },
    /// Hosts `h0..` around the switch `s0`.
    Star {
        /// How many.
        hosts: Spanned<u64>,
        /// Of all links.
        rate: Spanned<Rate>,
        /// Of all links.
        delay: Time,
        /// Of each host's link, in turn; default: `delay`.
        #[serde(default)]
        delays: Vec<Time>,
    },
    /// Switches `s0..` in a row; host `a` at the first, `b` at the last; at hop `i` hosts `xI_J` before
    /// it and `yI_J` behind it.
    ParkingLot {
        /// Per hop: how many pairs of hosts cross it alone.
        cross: Spanned<Vec<u64>>,
        /// Of host links.
        host_rate: Spanned<Rate>,
        /// Of host links.
        host_delay: Time,
        /// Between switches; default: `host_rate`.
        rate: Option<Spanned<Rate>>,
        /// Between switches.
        delay: Time,
    },
    /// Hosts `hL_I` at `leafL`, each leaf linked to every `spineS`.
    LeafSpine {
        /// How many.
        leaves: Spanned<u64>,
        /// How many.
        spines: Spanned<u64>,
        /// At each leaf.
        hosts_per_leaf: Spanned<u64>,
        /// Of host links.
        host_rate: Spanned<Rate>,
        /// Of host links.
        host_delay: Time,
        /// Between leaves and spines; default: `host_rate`.
        fabric_rate: Option<Spanned<Rate>>,
        /// Between leaves and spines; default: `host_delay`.
        fabric_delay: Option<Time>,
    },
    /// Three tiers: hosts `hT_I` at `torT`, aggregation `aggP_A`, `coreC`.
    FatTree {
        /// How many.
        pods: Spanned<u64>,
        /// In each pod.
        tors_per_pod: Spanned<u64>,
        /// In each pod.
        aggs_per_pod: Spanned<u64>,
        /// In all; each aggregation switch is linked to an equal part of them, or, when they are no
        /// more than `aggs_per_pod`, to all.
        cores: Spanned<u64>,
        /// At each ToR.
        hosts_per_tor: Spanned<u64>,
        /// Of host links.
        host_rate: Spanned<Rate>,
        /// Of host links.
        host_delay: Time,
        /// Between switches; default: `host_rate`.
        fabric_rate: Option<Spanned<Rate>>,
        /// Between ToRs and aggregation; default: `host_delay`.
        fabric_delay: Option<Time>,
        /// Between aggregation and core; default: `fabric_rate`.
        core_rate: Option<Spanned<Rate>>,
        /// Between aggregation and core; default: `fabric_delay`.
        core_delay: Option<Time>,
    },
    /// Racks joined by a packet switch `packet` and, by turns, by circuits.
    Reconfigurable {
        /// How many racks.
        tors: Spanned<u64>,
        /// At each.
        hosts_per_tor: Spanned<u64>,
        /// Of host links.
        host_rate: Spanned<Rate>,
        /// Of host links.
        host_delay: Time,
        /// From a rack to the packet switch.
        packet_rate: Spanned<Rate>,
        /// From a rack to the packet switch.
        packet_delay: Time,
        /// Of a circuit.
        circuit_rate: Spanned<Rate>,
        /// From rack to rack.
        circuit_delay: Time,
        /// A circuit is up.
        day: Spanned<Time>,
        /// All circuits are down.
        night: Time,
    },
}

impl File {
    /// Whether a switch of it runs a P4 program.
    pub(crate) fn has_program(&self) -> bool {
        self.switch.p4.is_some()
            || self.nodes.iter().any(|n| n.p4.is_some())
            || self.switches.iter().any(|s| s.p4.is_some())
    }
}

/// `[switch]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// From ingress to egress queue.
    pub delay: Option<Time>,
    /// Shared by all ports without a `buffer` of their own.
    pub shared_buffer: Option<Spanned<Size>>,
    /// Of dynamic thresholds; default 1.
    pub alpha: Option<Spanned<f64>>,
    /// Whether its ports write telemetry; default true.
    pub int: Option<bool>,
    /// A P4 program to run in its place.
    pub p4: Option<Spanned<String>>,
}

/// `[port]`, `[host_port]`, and part of `[[ports]]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortSettings {
    /// Room for waiting packets.
    pub buffer: Option<Spanned<Room>>,
    /// Marks and drops.
    pub queue: Option<Spanned<QueueTable>>,
    /// Whether it writes telemetry.
    pub int: Option<bool>,
}

/// `queue = ...`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum QueueTable {
    /// `"fifo"`
    Fifo,
    /// `{ ecn = { threshold } }`
    Ecn {
        /// Mark above.
        threshold: Room,
    },
    /// `{ red = { min, max, probability, ecn } }`
    Red {
        /// Nothing below.
        min: Room,
        /// All above.
        max: Room,
        /// At `max`.
        probability: Probability,
        /// Default true.
        #[serde(default = "yes")]
        ecn: bool,
    },
    /// `{ codel = { target, interval, ecn } }`
    Codel {
        /// Default 5 ms.
        target: Option<Time>,
        /// Default 100 ms.
        interval: Option<Time>,
        /// Default true.
        #[serde(default = "yes")]
        ecn: bool,
    },
    /// `{ codel_rpm = { target, interval } }`
    CodelRpm {
        /// Default 5 ms.
        target: Option<Time>,
        /// Default 100 ms.
        interval: Option<Time>,
    },
}

const fn yes() -> bool {
    true
}

/// `[[nodes]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeTable {
    /// Unique.
    pub name: Spanned<String>,
    /// Host or switch.
    pub kind: NodeKindTable,
    /// See [`Switch`].
    pub p4: Option<Spanned<String>>,
}

/// `kind` of `[[nodes]]`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeKindTable {
    /// Sends and receives.
    Host,
    /// Forwards.
    Switch,
}

/// `[[links]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkTable {
    /// One end.
    pub a: Spanned<String>,
    /// The other.
    pub b: Spanned<String>,
    /// Both ways.
    pub rate: Spanned<Rate>,
    /// Both ways.
    pub delay: Time,
    /// From `b` to `a`; default: `rate`.
    pub back_rate: Option<Spanned<Rate>>,
    /// From `b` to `a`; default: `delay`.
    pub back_delay: Option<Time>,
}

/// `[[switches]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchTable {
    /// Names or patterns.
    pub of: Spanned<Many>,
    /// See [`Switch`].
    pub delay: Option<Time>,
    /// See [`Switch`].
    pub shared_buffer: Option<Spanned<Size>>,
    /// See [`Switch`].
    pub alpha: Option<Spanned<f64>>,
    /// See [`Switch`].
    pub int: Option<bool>,
    /// See [`Switch`].
    pub p4: Option<Spanned<String>>,
}

/// `[[ports]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortTable {
    /// `"a->b"`, or `"a--b"` for both ways; names may be patterns.
    pub of: Spanned<Many>,
    /// Line rate.
    pub rate: Option<Spanned<Rate>>,
    /// Of the wire.
    pub delay: Option<Time>,
    /// See [`PortSettings`].
    pub buffer: Option<Spanned<Room>>,
    /// See [`PortSettings`].
    pub queue: Option<Spanned<QueueTable>>,
    /// See [`PortSettings`].
    pub int: Option<bool>,
}

/// `[[routes]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteTable {
    /// Where.
    pub at: Spanned<Many>,
    /// Towards which hosts.
    pub to: Spanned<Many>,
    /// By which neighbours.
    pub via: Spanned<Many>,
}

/// How senders and receivers are paired.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pairing {
    /// The first with the first, and so on; the shorter list starts again.
    #[default]
    Zip,
    /// Every sender with every receiver.
    All,
}

/// Which pairs random traffic chooses from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Between {
    /// Any two hosts.
    #[default]
    Hosts,
    /// Hosts of different racks.
    Racks,
}

/// `[[flows]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowsTable {
    /// Its name in the results.
    pub group: Spanned<String>,
    /// Senders.
    pub from: Spanned<Many>,
    /// Receivers.
    pub to: Spanned<Many>,
    /// How they are paired.
    #[serde(default)]
    pub pairing: Pairing,
    /// Flows of each pair; default 1.
    pub count: Option<Spanned<u64>>,
    /// When the first starts; default 0.
    #[serde(default)]
    pub start: Time,
    /// Between one start and the next.
    #[serde(default)]
    pub stagger: Time,
    /// How many start together; default 1.
    pub per_step: Option<Spanned<u64>>,
    /// Up to this much is added to each start, at random.
    #[serde(default)]
    pub jitter: Time,
    /// When the first stops.
    pub stop: Option<Spanned<Time>>,
    /// Between one stop and the next, `per_step` at a time.
    #[serde(default)]
    pub stop_stagger: Time,
    /// The last to start is the first to stop.
    #[serde(default)]
    pub last_first: bool,
    /// What each sends; without it, until it stops.
    pub size: Option<Spanned<Size>>,
    /// What the application offers at most.
    pub app_rate: Option<Spanned<Rate>>,
    /// Senders or receivers that no host fits make no flows, rather than an error.
    #[serde(default)]
    pub optional: bool,
    /// Its congestion control; default: the one under test.
    pub cc: Option<Spanned<String>>,
}

/// `[[incast]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IncastTable {
    /// Its name in the results.
    pub group: Spanned<String>,
    /// Who asks, in turn.
    pub to: Spanned<Many>,
    /// Who may answer.
    pub from: Spanned<Many>,
    /// How many of them answer, chosen at random; default: all.
    pub fan_in: Option<Spanned<u64>>,
    /// From other racks only.
    #[serde(default)]
    pub between: Between,
    /// What all answers come to together...
    pub size: Option<Spanned<Size>>,
    /// ... or what each is.
    pub each: Option<Spanned<Size>>,
    /// The first query; default 0.
    #[serde(default)]
    pub start: Time,
    /// Between queries...
    pub every: Option<Spanned<Time>>,
    /// ... or queries per second, at random (Poisson).
    pub per_second: Option<Spanned<f64>>,
    /// How many; default 1, or as many as fit when `every` or `per_second` is there.
    pub count: Option<Spanned<u64>>,
    /// No query from here on; default: the scenario's end.
    pub stop: Option<Time>,
    /// Up to this much is added to each answer's start, at random.
    #[serde(default)]
    pub jitter: Time,
    /// Standing connections of each pair of hosts, which messages queue on; default: a message is a
    /// connection of its own.
    pub connections: Option<Spanned<u64>>,
    /// Its congestion control; default: the one under test.
    pub cc: Option<Spanned<String>>,
}

/// `[[poisson]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoissonTable {
    /// Its name in the results.
    pub group: Spanned<String>,
    /// Senders.
    pub from: Spanned<Many>,
    /// Receivers.
    pub to: Spanned<Many>,
    /// Which pairs.
    #[serde(default)]
    pub between: Between,
    /// Payload offered, as a share of the capacity of `of`.
    pub load: Spanned<f64>,
    /// Ports whose capacity `load` is of; default: those of the senders.
    pub of: Option<Spanned<Many>>,
    /// Distribution of sizes.
    pub sizes: Spanned<SizesTable>,
    /// Default 0.
    #[serde(default)]
    pub start: Time,
    /// Default: the scenario's end.
    pub stop: Option<Time>,
    /// Standing connections of each pair of hosts, which messages queue on; default: a message is a
    /// connection of its own.
    pub connections: Option<Spanned<u64>>,
    /// Its congestion control; default: the one under test.
    pub cc: Option<Spanned<String>>,
}

/// `[[rpc]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RpcTable {
    /// Its name in the results.
    pub group: Spanned<String>,
    /// Clients.
    pub from: Spanned<Many>,
    /// Servers.
    pub to: Spanned<Many>,
    /// How they are paired.
    #[serde(default)]
    pub pairing: Pairing,
    /// Connections of each pair; default 1.
    pub count: Option<Spanned<u64>>,
    /// Of a request.
    pub request: Spanned<Size>,
    /// Of an answer.
    pub response: Spanned<Size>,
    /// Requests on each connection; default: until it stops.
    pub requests: Option<u64>,
    /// Between an answer and the next request.
    #[serde(default)]
    pub think: Time,
    /// Default 0.
    #[serde(default)]
    pub start: Time,
    /// Between one start and the next.
    #[serde(default)]
    pub stagger: Time,
    /// Up to this much is added to each start, at random.
    #[serde(default)]
    pub jitter: Time,
    /// Default: the scenario's end.
    pub stop: Option<Spanned<Time>>,
    /// Its congestion control; default: the one under test.
    pub cc: Option<Spanned<String>>,
}

/// `[[faults]]`: where, when, and exactly one of the rest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultTable {
    /// Ports.
    pub on: Spanned<Many>,
    /// Default 0.
    #[serde(default)]
    pub from: Time,
    /// Default: the end.
    pub until: Option<Spanned<Time>>,
    /// Again after this long, from `from` on: a link that flaps.
    pub every: Option<Spanned<Time>>,
    /// Probability.
    pub loss: Option<Probability>,
    /// Probability and delay.
    pub reorder: Option<ReorderTable>,
    /// Probability.
    pub duplicate: Option<Probability>,
    /// Probability.
    pub corrupt: Option<Probability>,
    /// `true`.
    pub down: Option<bool>,
    /// Another rate.
    pub rate: Option<Spanned<Rate>>,
    /// Another delay.
    pub delay: Option<Time>,
    /// What the hop writes.
    pub int: Option<IntFault>,
    /// Probability.
    pub strip: Option<Probability>,
}

/// `reorder = { probability, delay }`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReorderTable {
    /// How many packets.
    pub probability: Probability,
    /// How much later.
    pub delay: Time,
}

/// `[measure]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasureTable {
    /// Summary metrics count from here; default 0.
    pub from: Option<Spanned<Time>>,
    /// Until here; default: the end.
    pub until: Option<Spanned<Time>>,
    /// Between samples; default: a thousandth of the duration, at least 1 us.
    pub interval: Option<Spanned<Time>>,
    /// Of averages; default: 20 intervals.
    pub window: Option<Spanned<Time>>,
    /// The line's queue has settled when it stays at or below this, as the time it takes to send; default: nobody
    /// asks.
    pub settled: Option<Spanned<Time>>,
    /// The port that `line_share` and the queue metrics speak of; default: the busiest by max-min.
    pub line: Option<Spanned<String>>,
    /// Further ports with a series of their queue.
    pub ports: Option<Spanned<Many>>,
    /// Groups whose flows each have series; default: all, while they are 16 flows or fewer.
    pub flows_of: Option<Spanned<Many>>,
    /// Sizes that divide flows for slowdowns.
    pub size_bins: Option<Spanned<Vec<Size>>>,
}

/// `[[expect]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectTable {
    /// Of what.
    pub metric: Metric,
    /// For which; default: all.
    pub cc: Option<Spanned<Many>>,
    /// On which; default: all.
    #[serde(default)]
    pub engine: Option<OneEngine>,
    /// Of which group; default: all flows.
    pub group: Option<Spanned<String>>,
    /// Flows of at least this size.
    pub size_min: Option<Size>,
    /// Flows below this size.
    pub size_max: Option<Size>,
    /// Divided by the same metric of another congestion control.
    pub relative_to: Option<Spanned<String>>,
    /// At least.
    pub min: Option<f64>,
    /// At most.
    pub max: Option<f64>,
    /// Where the bound comes from.
    #[serde(default)]
    pub why: String,
}

/// `engine = "sim"` or `engine = ["sim", "lab"]`
#[derive(Clone, Debug)]
pub struct OneEngine(pub Vec<Engine>);

impl<'de> Deserialize<'de> for OneEngine {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Many(names) = Many::deserialize(from)?;
        names
            .iter()
            .map(|name| {
                Engine::ALL
                    .into_iter()
                    .find(|e| e.name() == name)
                    .ok_or_else(|| {
                        D::Error::custom(format!(
                            "{name:?} is not an engine: they are sim, lab, testbed"
                        ))
                    })
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// A string or a list of strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Many(pub Vec<String>);

impl<'de> Deserialize<'de> for Many {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Many;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Many, E> {
                Ok(Many(vec![text.to_owned()]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Many, A::Error> {
                let mut all = Vec::new();
                while let Some(text) = seq.next_element()? {
                    all.push(text);
                }
                Ok(Many(all))
            }
        }
        from.deserialize_any(V)
    }
}

/// A value of `[cc.NAME]`: a parameter, or the name of something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CcValue {
    /// A parameter.
    Number(i64),
    /// `law`, `int`, `base_rtt`.
    Text(String),
}

impl<'de> Deserialize<'de> for CcValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = CcValue;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, or the name of a law or of a telemetry format")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<CcValue, E> {
                Ok(CcValue::Text(text.to_owned()))
            }
            fn visit_i64<E: Error>(self, n: i64) -> Result<CcValue, E> {
                Ok(CcValue::Number(n))
            }
        }
        from.deserialize_any(V)
    }
}

/// `sizes`: the name of a distribution or of a file, or its points (bytes, cumulative percent).
#[derive(Clone, Debug)]
pub enum SizesTable {
    /// `web_search`, `storage`, `hadoop`, or a path relative to the scenario.
    Name(String),
    /// Inline.
    Points(Vec<(f64, f64)>),
}

impl<'de> Deserialize<'de> for SizesTable {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = SizesTable;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a size distribution, a file, or points [bytes, percent]")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<SizesTable, E> {
                Ok(SizesTable::Name(text.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<SizesTable, A::Error> {
                let mut all = Vec::new();
                while let Some(point) = seq.next_element::<(f64, f64)>()? {
                    all.push(point);
                }
                Ok(SizesTable::Points(all))
            }
        }
        from.deserialize_any(V)
    }
}

/// `int = "..."` of `[cc.NAME]`.
#[must_use]
pub fn int_format(name: &str) -> Option<Option<IntFormat>> {
    match name {
        "off" => Some(None),
        "mpd" => Some(Some(IntFormat::Mpd)),
        "bottleneck" => Some(Some(IntFormat::Bottleneck)),
        "stack" => Some(Some(IntFormat::Stack)),
        _ => None,
    }
}
