// SPDX-License-Identifier: GPL-2.0

//! The results file. A change of meaning or the loss of a field raises [`VERSION`]; a new field does not.

use crate::measured::{Measured, RpcMeasured};
use crate::metrics;
use scenario::{Engine, Metric, Resolved, Work};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// The version of the file's format.
pub const VERSION: u32 = 1;

/// A file: runs of one scenario or of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`VERSION`].
    pub version: u32,
    /// One per scenario, engine, congestion control and seed.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What was run.
    pub meta: Meta,
    /// What it came to, in numbers.
    pub summary: Summary,
    /// Names of the groups, in the order of the scenario.
    pub groups: Vec<String>,
    /// Per flow.
    pub flows: Vec<FlowResult>,
    /// Per port of a switch, and per port with a series.
    pub ports: Vec<PortResult>,
    /// Over time.
    pub series: Vec<Series>,
    /// What the engine has to say of itself.
    pub facts: Facts,
    /// How long it took; never part of a golden file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall: Option<Wall>,
}

/// What was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// The scenario's name.
    pub scenario: String,
    /// What it shows.
    pub title: String,
    /// The figure it reproduces, or empty.
    pub figure: String,
    /// What ran it.
    pub engine: Engine,
    /// The congestion control under test.
    pub cc: String,
    /// Its seed.
    pub seed: u64,
    /// How long it lasted, ns of network time.
    pub duration_ns: u64,
    /// Metrics count from here, ns...
    pub from_ns: u64,
    /// ... to here.
    pub until_ns: u64,
    /// Settings in the place of what the file says (`--set`).
    #[serde(default)]
    pub set: Vec<String>,
    /// Version of the tools.
    pub fathom: String,
}

/// What an engine has to say of itself. All of it is the same in every run with the same seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Events processed.
    pub events: u64,
    /// Packets sent by hosts.
    pub packets: u64,
    /// Packets sent by any port: packet-hops.
    pub packet_hops: u64,
    /// The kernel, as `uname -r` says; empty for the simulator.
    #[serde(default)]
    pub kernel: String,
    /// What the engine could not do as the scenario says, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Time on the clock of the wall.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wall {
    /// Of the run.
    pub seconds: f64,
    /// Largest memory, bytes; 0 = not known.
    #[serde(default)]
    pub peak_bytes: u64,
}

/// Numbers that sum up a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Of all flows together. A metric that has no meaning in a run is absent.
    pub all: BTreeMap<Metric, f64>,
    /// Of each group.
    pub groups: BTreeMap<String, BTreeMap<Metric, f64>>,
    /// Flows that have an end, by size.
    pub bins: Vec<Bin>,
}

/// Flows of similar size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// From this size, bytes...
    pub min: u64,
    /// ... to below this; none = any.
    pub max: Option<u64>,
    /// How many finished.
    pub count: u64,
    /// Median slowdown.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
}

/// One flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowResult {
    /// Its place in the scenario.
    pub id: usize,
    /// Its group, in [`Run::groups`].
    pub group: usize,
    /// Who sent.
    pub src: String,
    /// Who received.
    pub dst: String,
    /// When it started, ns.
    pub start_ns: u64,
    /// When its last byte was acknowledged, ns.
    pub finish_ns: Option<u64>,
    /// When it was stopped whatever was left to send, ns; none = at the end of the run.
    #[serde(default)]
    pub stop_ns: Option<u64>,
    /// What it had to send; none = a long flow.
    pub size: Option<u64>,
    /// Payload acknowledged in all.
    pub bytes: u64,
    /// Payload acknowledged in the measured time.
    pub measured_bytes: u64,
    /// Completion time, ns.
    pub fct_ns: Option<u64>,
    /// What an empty network would take, ns.
    pub ideal_ns: Option<u64>,
    /// The one over the other.
    pub slowdown: Option<f64>,
    /// Payload per second in the part of the measured time in which it was active, bits per second.
    pub goodput_bps: f64,
    /// Max-min fair share, bits of payload per second, if it was active in all of the measured time.
    pub fair_bps: Option<f64>,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// The least RTT, ns; 0 = none was seen.
    pub rtt_min_ns: u64,
    /// Mean RTT, ns.
    pub rtt_mean_ns: f64,
    /// 99th percentile, ns.
    pub rtt_p99_ns: f64,
    /// How many RTTs were seen.
    pub rtt_samples: u64,
    /// Of a request/response flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpc: Option<RpcMeasured>,
}

/// One port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortResult {
    /// `a->b`.
    pub name: String,
    /// Line rate, bits per second.
    pub rate_bps: u64,
    /// Mean queue, bytes.
    pub queue_mean_bytes: f64,
    /// 99th percentile.
    pub queue_p99_bytes: u64,
    /// Largest.
    pub queue_max_bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent, as they occupy the wire.
    pub wire_bytes: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Packets marked.
    pub marks: u64,
}

/// What a series is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quantity {
    /// Payload per second over the interval before the sample, bits per second; of a port, all bytes on
    /// the wire.
    Throughput,
    /// Bytes.
    Queue,
    /// Packets.
    Cwnd,
    /// ns.
    Rtt,
}

/// Whose it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// A flow, by its id.
    Flow(usize),
    /// A group, by its name.
    Group(String),
    /// A port, by its name.
    Port(String),
}

/// A time series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Of what.
    pub quantity: Quantity,
    /// Of whom.
    pub of: Subject,
    /// Between samples, ns. The first is of the time 0.
    pub interval_ns: u64,
    /// The samples.
    pub values: Values,
}

/// Samples; NaN, in the file `null`, where there is none.
#[derive(Clone, Debug, Default)]
pub struct Values(pub Vec<f64>);

impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        let same = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan());
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(same)
    }
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // Whole numbers without a point: half the size of the file.
        to.collect_seq(self.0.iter().map(|&v| match v {
            v if v.is_nan() => Number::None,
            v if v.fract() == 0.0 && v.abs() < 9e15 => Number::Whole(v as i64),
            v => Number::Real(v),
        }))
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let values = Vec::<Option<f64>>::deserialize(from)?;
        Ok(Self(
            values.into_iter().map(|v| v.unwrap_or(f64::NAN)).collect(),
        ))
    }
}

/// A number as it is written.
#[derive(Serialize)]
#[serde(untagged)]
enum Number {
    None,
    Whole(i64),
    Real(f64),
}

impl Results {
    /// A file of `runs`.
    #[must_use]
    pub fn new(runs: Vec<Run>) -> Self {
        Self {
            version: VERSION,
            runs,
        }
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// When it is not a results file, or of another version.
    pub fn parse(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let Version { version } =
            serde_json::from_str(text).map_err(|e| format!("not a results file: {e}"))?;
        if version != VERSION {
            return Err(format!(
                "a results file of version {version}; this program reads version {VERSION}"
            ));
        }
        serde_json::from_str(text).map_err(|e| format!("not a results file: {e}"))
    }

    /// The file's text.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

impl Run {
    /// Makes results of what `engine` measured of `resolved`.
    #[must_use]
    pub fn new(resolved: &Resolved, engine: Engine, set: &[String], measured: Measured) -> Self {
        let r = resolved;
        let shares = metrics::fair_shares(r);
        let flows: Vec<FlowResult> = r
            .flows
            .iter()
            .enumerate()
            .map(|(id, f)| {
                let m = measured.flows.get(id).copied().unwrap_or_default();
                let size = match f.work {
                    Work::Bytes(bytes) => Some(bytes),
                    _ => None,
                };
                let fct_ns = m.finish_ns.map(|t| t.saturating_sub(f.start_ns));
                let ideal_ns = size.map(|bytes| r.ideal_fct_ns(id, bytes));
                let slowdown = match (fct_ns, ideal_ns) {
                    (Some(fct), Some(ideal)) if ideal > 0 => Some(fct as f64 / ideal as f64),
                    _ => None,
                };
                let end = m.finish_ns.or(f.stop_ns).unwrap_or(r.duration_ns);
                let from = f.start_ns.max(r.measure.from_ns);
                let active = end.min(r.measure.until_ns).saturating_sub(from);
                FlowResult {
                    id,
                    group: f.group,
                    src: r.nodes[f.src].name.clone(),
                    dst: r.nodes[f.dst].name.clone(),
                    start_ns: f.start_ns,
                    finish_ns: m.finish_ns,
                    stop_ns: f.stop_ns,
                    size,
                    bytes: m.bytes,
                    measured_bytes: m.measured_bytes,
                    fct_ns,
                    ideal_ns,
                    slowdown,
                    goodput_bps: if active == 0 {
                        0.0
                    } else {
                        m.measured_bytes as f64 * 8e9 / active as f64
                    },
                    fair_bps: shares.get(&id).copied(),
                    retransmits: m.retransmits,
                    timeouts: m.timeouts,
                    rtt_min_ns: m.rtt_min_ns,
                    rtt_mean_ns: m.rtt_mean_ns,
                    rtt_p99_ns: m.rtt_p99_ns,
                    rtt_samples: m.rtt_samples,
                    rpc: m.rpc,
                }
            })
            .collect();
        let summary = metrics::summary(r, &flows, &measured);
        let shown = |p: &scenario::PortId| {
            r.nodes[r.near_end(*p)].kind == scenario::NodeKind::Switch
                || r.measure.ports.contains(p)
        };
        let ports = r
            .ports()
            .filter(shown)
            .map(|p| {
                let m = measured.ports.get(p.index()).copied().unwrap_or_default();
                PortResult {
                    name: r.port_name(p),
                    rate_bps: r.port(p).rate_bps,
                    queue_mean_bytes: m.queue_mean_bytes,
                    queue_p99_bytes: m.queue_p99_bytes,
                    queue_max_bytes: m.queue_max_bytes,
                    packets: m.packets,
                    wire_bytes: m.wire_bytes,
                    drops: m.drops,
                    marks: m.marks,
                }
            })
            .collect();
        let series = series(r, &measured);
        Self {
            meta: Meta {
                scenario: r.name.clone(),
                title: r.title.clone(),
                figure: r.figure.clone(),
                engine,
                cc: r.cc.clone(),
                seed: r.seed,
                duration_ns: r.duration_ns,
                from_ns: r.measure.from_ns,
                until_ns: r.measure.until_ns,
                set: set.to_vec(),
                fathom: env!("CARGO_PKG_VERSION").to_owned(),
            },
            summary,
            groups: r.groups.iter().map(|g| g.name.clone()).collect(),
            flows,
            ports,
            series,
            facts: measured.facts,
            wall: None,
        }
    }

    /// How it is called beside others: the congestion control, and the engine.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{} ({})", self.meta.cc, self.meta.engine)
    }
}

/// All series of a run.
fn series(r: &Resolved, measured: &Measured) -> Vec<Series> {
    let s = &measured.samples;
    let interval_ns = r.measure.interval_ns;
    let make = |quantity, of, values: Vec<f64>| Series {
        quantity,
        of,
        interval_ns,
        values: Values(values),
    };
    // Counters become rates over the interval before each sample.
    let rate = |counts: &[u64]| {
        let per = 8e9 / interval_ns as f64;
        let steps = counts
            .windows(2)
            .map(|w| (w[1].saturating_sub(w[0]) as f64 * per).round());
        std::iter::once(0.0)
            .chain(steps)
            .take(counts.len())
            .collect()
    };
    let mut all = Vec::new();
    for (group, counts) in r.groups.iter().zip(&s.group_delivered) {
        all.push(make(
            Quantity::Throughput,
            Subject::Group(group.name.clone()),
            rate(counts),
        ));
    }
    for &f in &r.measure.flows {
        if let Some(counts) = s.delivered.get(&f) {
            all.push(make(Quantity::Throughput, Subject::Flow(f), rate(counts)));
        }
        for (quantity, map) in [(Quantity::Cwnd, &s.cwnd), (Quantity::Rtt, &s.rtt)] {
            if let Some(values) = map.get(&f) {
                all.push(make(quantity, Subject::Flow(f), values.clone()));
            }
        }
    }
    for &p in &r.measure.ports {
        let of = || Subject::Port(r.port_name(p));
        if let Some(counts) = s.sent.get(&p) {
            all.push(make(Quantity::Throughput, of(), rate(counts)));
        }
        if let Some(values) = s.queue.get(&p) {
            let values = values.iter().map(|&v| v as f64).collect();
            all.push(make(Quantity::Queue, of(), values));
        }
    }
    all
}
