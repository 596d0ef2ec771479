// SPDX-License-Identifier: GPL-2.0

//! The metrics that sum up a run, from what an engine counted. `scenario::Metric` says what each is.

use crate::measured::{Measured, Samples};
use crate::run::{Bin, FlowResult, Summary};
use crate::stats::{jain, mean, percentile, sorted, variation};
use scenario::{Metric, NodeKind, PortId, Resolved, Work};
use std::collections::{BTreeMap, BTreeSet};

/// A flow has converged when it has this much of its fair share.
pub const CONVERGED: f64 = 0.9;
/// Flows share fairly when Jain's index is at least this.
pub const FAIR: f64 = 0.98;

/// Max-min fair shares of the long flows that are there in all of the measured time, bits of payload
/// per second, by flow. Flows that come and go beside them are not considered.
#[must_use]
pub fn fair_shares(r: &Resolved) -> BTreeMap<usize, f64> {
    let m = &r.measure;
    let there = |f: &usize| {
        let flow = &r.flows[*f];
        flow.work == Work::Long
            && flow.start_ns <= m.from_ns
            && flow.stop_ns.is_none_or(|stop| stop >= m.until_ns)
    };
    let flows: Vec<usize> = (0..r.flows.len()).filter(there).collect();
    let shares = r.max_min_bps(&flows);
    flows.into_iter().zip(shares).collect()
}

/// Everything that sums up a run.
#[must_use]
pub fn summary(r: &Resolved, flows: &[FlowResult], measured: &Measured) -> Summary {
    let everyone: Vec<&FlowResult> = flows.iter().collect();
    let mut all = of_flows(r, &everyone);
    of_network(r, flows, measured, &mut all);
    if let Some(v) = convergence_ns(r, &measured.samples) {
        all.insert(Metric::Convergence, v as f64 / 1e3);
    }
    if let Some(v) = least_step_jain(r, &measured.samples) {
        all.insert(Metric::JainStepMin, v);
    }
    if let Some(v) = longest_jain_settle(r, &measured.samples) {
        all.insert(Metric::JainSettle, v);
    }
    if let Some(v) = variation_over_time(r, &measured.samples) {
        all.insert(Metric::VariationTime, v);
    }
    let groups = r.groups.iter().enumerate().map(|(g, group)| {
        let members: Vec<&FlowResult> = flows.iter().filter(|f| f.group == g).collect();
        (group.name.clone(), of_flows(r, &members))
    });
    Summary {
        all,
        groups: groups.collect(),
        bins: bins(&r.measure.size_bins, flows),
    }
}

/// Metrics of some flows alone.
#[must_use]
pub fn of_flows(r: &Resolved, flows: &[&FlowResult]) -> BTreeMap<Metric, f64> {
    let measured_ns = r.measure.until_ns - r.measure.from_ns;
    of_flows_in(measured_ns, flows)
}

/// The same when only the length of the measured time is known.
pub(crate) fn of_flows_in(measured_ns: u64, flows: &[&FlowResult]) -> BTreeMap<Metric, f64> {
    let mut all = BTreeMap::new();
    let mut put = |metric: Metric, value: Option<f64>| {
        if let Some(value) = value.filter(|v| v.is_finite()) {
            all.insert(metric, value);
        }
    };
    let bytes: u64 = flows.iter().map(|f| f.measured_bytes).sum();
    put(
        Metric::Throughput,
        Some(bytes as f64 * 8.0 / measured_ns.max(1) as f64),
    );
    let steady: Vec<&&FlowResult> = flows.iter().filter(|f| f.fair_bps.is_some()).collect();
    let rates: Vec<f64> = steady.iter().map(|f| f.goodput_bps).collect();
    let shares: Vec<f64> = steady
        .iter()
        .filter_map(|f| f.fair_bps.filter(|&s| s > 0.0).map(|s| f.goodput_bps / s))
        .collect();
    put(Metric::Share, mean(&shares));
    put(
        Metric::ShareMin,
        shares.iter().copied().min_by(f64::total_cmp),
    );
    put(Metric::Jain, jain(&rates));
    put(Metric::JainShare, jain(&shares));
    put(Metric::Variation, variation(&rates));

    let samples: u64 = flows.iter().map(|f| f.rtt_samples).sum();
    let weighted = |of: fn(&FlowResult) -> f64| {
        let sum: f64 = flows.iter().map(|f| of(f) * f.rtt_samples as f64).sum();
        (samples > 0).then(|| sum / samples as f64 / 1e3)
    };
    put(Metric::RttMean, weighted(|f| f.rtt_mean_ns));
    put(Metric::RttP99, weighted(|f| f.rtt_p99_ns));

    let fcts = sorted(
        flows
            .iter()
            .filter_map(|f| f.fct_ns)
            .map(|t| t as f64 / 1e3),
    );
    put(Metric::FctP50, percentile(&fcts, 0.5));
    put(Metric::FctP99, percentile(&fcts, 0.99));
    put(Metric::FctP999, percentile(&fcts, 0.999));
    let slow = sorted(flows.iter().filter_map(|f| f.slowdown));
    put(Metric::SlowdownP50, percentile(&slow, 0.5));
    put(Metric::SlowdownP99, percentile(&slow, 0.99));
    put(Metric::SlowdownP999, percentile(&slow, 0.999));
    let ends = flows.iter().filter(|f| f.size.is_some()).count();
    let done = flows
        .iter()
        .filter(|f| f.size.is_some() && f.finish_ns.is_some())
        .count();
    put(
        Metric::Completed,
        (ends > 0).then(|| done as f64 / ends as f64),
    );
    let finishes = || flows.iter().filter_map(|f| f.finish_ns);
    if let (Some(first), Some(last)) = (finishes().min(), finishes().max()) {
        put(Metric::FinishSpread, Some((last - first) as f64 / 1e3));
    }
    put(
        Metric::Retransmits,
        Some(flows.iter().map(|f| f.retransmits).sum::<u64>() as f64),
    );
    put(
        Metric::Timeouts,
        Some(flows.iter().map(|f| f.timeouts).sum::<u64>() as f64),
    );
    all
}

/// Metrics of the line and of all ports.
fn of_network(
    r: &Resolved,
    flows: &[FlowResult],
    measured: &Measured,
    all: &mut BTreeMap<Metric, f64>,
) {
    let port = |p: PortId| measured.ports.get(p.index()).copied().unwrap_or_default();
    let to_us = |p: PortId, bytes: f64| bytes * 8e6 / r.port(p).rate_bps.max(1) as f64;
    if let Some(&line) = r.measure.ports.first() {
        let rate = r.port(line).rate_bps as f64;
        let seconds = (r.measure.until_ns - r.measure.from_ns) as f64 / 1e9;
        let crossing: Vec<&FlowResult> = flows
            .iter()
            .filter(|f| r.path(f.id).contains(&line))
            .collect();
        // Each flow's payload with the headers it needs, so that flows with different options add up.
        let used: f64 = crossing
            .iter()
            .map(|f| {
                let flow = &r.flows[f.id];
                // Of a request/response flow only the requests go this way.
                let part = match flow.work {
                    Work::Rpc {
                        request, response, ..
                    } => request as f64 / (request + response).max(1) as f64,
                    _ => 1.0,
                };
                part * f.measured_bytes as f64 * 8.0 / r.efficiency(flow.cc)
            })
            .sum();
        let q = port(line);
        // A circuit is on nobody's path by packets: what it sent counts.
        let used = if crossing.is_empty() {
            q.wire_bytes as f64 * 8.0
        } else {
            used
        };
        all.insert(Metric::LineShare, used / seconds / rate);
        all.insert(Metric::QueueMean, to_us(line, q.queue_mean_bytes));
        all.insert(Metric::QueueP99, to_us(line, q.queue_p99_bytes as f64));
        all.insert(Metric::QueueMax, to_us(line, q.queue_max_bytes as f64));
        if let Some(least) = least_use(r, line, &measured.samples) {
            all.insert(Metric::LineShareMin, least);
        }
        if let Some(rounds) = settle_rounds(r, &measured.samples) {
            all.insert(Metric::Settle, rounds);
        }
    }
    let switch_ports = || {
        r.ports()
            .filter(|&p| r.nodes[r.near_end(p)].kind == NodeKind::Switch)
    };
    let worst = switch_ports().map(|p| to_us(p, port(p).queue_p99_bytes as f64));
    if let Some(worst) = worst.max_by(f64::total_cmp) {
        all.insert(Metric::QueueWorstP99, worst);
    }
    let drops: u64 = measured.ports.iter().map(|p| p.drops).sum();
    let marks: u64 = measured.ports.iter().map(|p| p.marks).sum();
    all.insert(Metric::Drops, drops as f64);
    all.insert(Metric::Marks, marks as f64);
    if let Some(u) = circuit_utilisation(r, measured) {
        all.insert(Metric::CircuitUtilisation, u);
    }
}

/// What the circuits between racks with traffic carried of what they could while they were up, in the
/// measured time.
fn circuit_utilisation(r: &Resolved, measured: &Measured) -> Option<f64> {
    let circuits = r.circuits.as_ref()?;
    let rack = |host: usize| r.nodes[host].rack;
    let pairs: BTreeSet<_> = r.flows.iter().map(|f| (rack(f.src), rack(f.dst))).collect();
    let rack_of_switch = |switch: usize| {
        let hosts = r.nodes[switch].ports.iter().map(|&p| r.far_end(p));
        hosts.filter_map(rack).next()
    };
    let (mut sent, mut could) = (0.0, 0.0);
    for c in &circuits.circuits {
        let from = rack_of_switch(r.near_end(c.port));
        if !pairs.contains(&(from, Some(c.to_rack))) {
            continue;
        }
        let up = circuits.up_ns(c.matching, r.measure.from_ns, r.measure.until_ns);
        could += r.port(c.port).rate_bps as f64 * up as f64 / 1e9;
        let port = measured.ports.get(c.port.index());
        sent += port.map_or(0.0, |p| p.wire_bytes as f64 * 8.0);
    }
    (could > 0.0).then(|| sent / could)
}

/// The coefficient of variation of a long flow's throughput in successive windows of the measured time,
/// averaged over the flows that are there in all of it.
fn variation_over_time(r: &Resolved, samples: &Samples) -> Option<f64> {
    let m = &r.measure;
    let window = (m.window_ns / m.interval_ns).max(1) as usize;
    let first = m.from_ns.div_ceil(m.interval_ns) as usize;
    let last = (m.until_ns / m.interval_ns) as usize;
    let there = |f: &usize| {
        let flow = &r.flows[*f];
        let to_the_end = flow.stop_ns.is_none_or(|stop| stop >= m.until_ns);
        flow.work == Work::Long && flow.start_ns <= m.from_ns && to_the_end
    };
    let each: Vec<f64> = samples
        .delivered
        .iter()
        .filter(|(f, _)| there(f))
        .filter_map(|(_, d)| {
            let ends = (first + window..=last.min(d.len().saturating_sub(1))).step_by(window);
            let got: Vec<f64> = ends
                .map(|k| d[k].saturating_sub(d[k - window]) as f64)
                .collect();
            (got.len() >= 2).then(|| variation(&got)).flatten()
        })
        .collect();
    mean(&each)
}

/// The least use of a port in any window of the measured time.
fn least_use(r: &Resolved, port: PortId, samples: &Samples) -> Option<f64> {
    let sent = samples.sent.get(&port)?;
    let m = &r.measure;
    let window = (m.window_ns / m.interval_ns).max(1) as usize;
    let first = m.from_ns.div_ceil(m.interval_ns) as usize;
    let last = ((m.until_ns / m.interval_ns) as usize).min(sent.len().saturating_sub(1));
    let could = r.port(port).rate_bps as f64 / 8.0 * (window as f64 * m.interval_ns as f64 / 1e9);
    (first + window..=last)
        .map(|k| sent[k].saturating_sub(sent[k - window]) as f64 / could)
        .min_by(f64::total_cmp)
}

/// A clock that counts round trips: of the shortest path across the line, with the queue that it has at the time. Senders
/// hear of a queue once per round trip, and while it is long that takes long.
struct RoundTrips<'a> {
    base_ns: f64,
    interval_ns: f64,
    /// Of the line, bytes, and ns per byte.
    queue: &'a [u64],
    byte_ns: f64,
}

impl<'a> RoundTrips<'a> {
    fn of(r: &Resolved, samples: &'a Samples) -> Option<Self> {
        let line = *r.measure.ports.first()?;
        let across = (0..r.flows.len()).filter(|&f| r.path(f).contains(&line));
        Some(Self {
            base_ns: across.map(|f| r.base_rtt_ns(f)).min()? as f64,
            interval_ns: r.measure.interval_ns as f64,
            queue: samples.queue.get(&line)?,
            byte_ns: 8e9 / r.port(line).rate_bps.max(1) as f64,
        })
    }

    /// What the line's queue takes to send, by sample.
    fn wait_ns(&self, sample: usize) -> f64 {
        self.queue
            .get(sample)
            .map_or(0.0, |&q| q as f64 * self.byte_ns)
    }

    /// How many there are in these samples' intervals.
    fn within(&self, samples: impl Iterator<Item = usize>) -> f64 {
        samples
            .map(|k| self.interval_ns / (self.base_ns + self.wait_ns(k)))
            .sum()
    }
}

/// Round trips from the first sample of the measured time at which the line's queue is above `measure.settled` to the last
/// one. None when it is above in the last window, too, and when nobody asks.
fn settle_rounds(r: &Resolved, samples: &Samples) -> Option<f64> {
    let m = &r.measure;
    let bound_ns = m.settled_ns? as f64;
    let trips = RoundTrips::of(r, samples)?;
    let first = m.from_ns.div_ceil(m.interval_ns) as usize;
    let last = ((m.until_ns / m.interval_ns) as usize).min(trips.queue.len().checked_sub(1)?);
    let above = |k: &usize| trips.wait_ns(*k) > bound_ns;
    let Some(begin) = (first..=last).find(above) else {
        return Some(0.0);
    };
    let end = (first..=last).rev().find(above)?;
    let window = (m.window_ns / m.interval_ns).max(1) as usize;
    (end + window <= last + 1).then(|| trips.within(begin..=end))
}

/// A period without starts and stops, and the long flows that are there in all of it, with their fair shares.
struct Period {
    from_ns: u64,
    to_ns: u64,
    flows: Vec<(usize, f64)>,
}

/// The periods between starts and stops, those shorter than two windows left out.
fn periods(r: &Resolved, samples: &Samples) -> Vec<Period> {
    let flows: Vec<usize> = samples.delivered.keys().copied().collect();
    let end = |f: usize| r.flows[f].stop_ns.unwrap_or(r.duration_ns);
    let mut edges: Vec<u64> = flows
        .iter()
        .flat_map(|&f| [r.flows[f].start_ns, end(f)])
        .collect();
    edges.sort_unstable();
    edges.dedup();
    let long_enough = |w: &&[u64]| w[1] - w[0] >= 2 * r.measure.window_ns;
    let periods = edges.windows(2).filter(long_enough).map(|w| {
        let there = |f: &usize| {
            r.flows[*f].work == Work::Long && r.flows[*f].start_ns <= w[0] && end(*f) >= w[1]
        };
        let flows: Vec<usize> = flows.iter().copied().filter(there).collect();
        let shares = r.max_min_bps(&flows);
        Period {
            from_ns: w[0],
            to_ns: w[1],
            flows: flows.into_iter().zip(shares).collect(),
        }
    });
    periods.collect()
}

/// Jain's index of what `flows` delivered between two samples, each over its fair share; none when fewer than two
/// have one.
fn jain_between(samples: &Samples, flows: &[(usize, f64)], a: usize, b: usize) -> Option<f64> {
    let got: Vec<f64> = flows
        .iter()
        .filter(|(_, share)| *share > 0.0)
        .filter_map(|(f, share)| {
            let d = &samples.delivered[f];
            Some((d.get(b)?.saturating_sub(*d.get(a)?)) as f64 / share)
        })
        .collect();
    if got.len() < 2 {
        return None;
    }
    jain(&got)
}

/// From the last start of a long flow to the beginning of the first window in which every long flow
/// that is there has, on average, [`CONVERGED`] of its max-min share. None when that never happens,
/// or when there is no long flow.
#[must_use]
pub fn convergence_ns(r: &Resolved, samples: &Samples) -> Option<u64> {
    let m = &r.measure;
    let long = |f: &usize| r.flows[*f].work == Work::Long;
    let followed: Vec<usize> = samples.delivered.keys().copied().filter(long).collect();
    let from = followed.iter().map(|&f| r.flows[f].start_ns).max()?;
    let there = |f: &usize| r.flows[*f].stop_ns.is_none_or(|stop| stop > from);
    let flows: Vec<usize> = followed.into_iter().filter(there).collect();
    let until = flows
        .iter()
        .filter_map(|&f| r.flows[f].stop_ns)
        .min()
        .unwrap_or(r.duration_ns);
    let shares = r.max_min_bps(&flows);
    let window = (m.window_ns / m.interval_ns).max(1) as usize;
    let seconds = window as f64 * m.interval_ns as f64 / 1e9;
    let first = from.div_ceil(m.interval_ns) as usize;
    let last = (until / m.interval_ns) as usize;
    let enough = |k: usize| {
        flows.iter().zip(&shares).all(|(f, share)| {
            let d = &samples.delivered[f];
            let (Some(&now), Some(&then)) = (d.get(k + window), d.get(k)) else {
                return false;
            };
            now.saturating_sub(then) as f64 * 8.0 / seconds >= CONVERGED * share
        })
    };
    let k = (first..=last.saturating_sub(window)).find(|&k| enough(k))?;
    Some((k as u64 * m.interval_ns).saturating_sub(from))
}

/// The least Jain's index of any period without starts and stops, in its second half.
fn least_step_jain(r: &Resolved, samples: &Samples) -> Option<f64> {
    let step = r.measure.interval_ns;
    let jains = periods(r, samples).into_iter().filter_map(|p| {
        let from = p.from_ns + (p.to_ns - p.from_ns) / 2;
        let (a, b) = (from.div_ceil(step) as usize, (p.to_ns / step) as usize);
        jain_between(samples, &p.flows, a, b)
    });
    jains.min_by(f64::total_cmp)
}

/// The longest time, in round trips, that a period without starts and stops takes until Jain's index stays at [`FAIR`]; none
/// when one never does, or when there is none with two flows.
fn longest_jain_settle(r: &Resolved, samples: &Samples) -> Option<f64> {
    let m = &r.measure;
    let trips = RoundTrips::of(r, samples)?;
    let window = (m.window_ns / m.interval_ns).max(1) as usize;
    let mut longest = None;
    for p in periods(r, samples).iter().filter(|p| p.flows.len() > 1) {
        let first = p.from_ns.div_ceil(m.interval_ns) as usize;
        let last = ((p.to_ns / m.interval_ns) as usize).checked_sub(window)?;
        let unfair = |k: &usize| {
            jain_between(samples, &p.flows, *k, *k + window).is_none_or(|jain| jain < FAIR)
        };
        let rounds = match (first..=last).rev().find(unfair) {
            Some(k) if k == last => return None,
            Some(k) => trips.within(first..=k),
            None => 0.0,
        };
        longest = Some(rounds.max(longest.unwrap_or(0.0)));
    }
    longest
}

/// Slowdowns by size.
fn bins(edges: &[u64], flows: &[FlowResult]) -> Vec<Bin> {
    let lows = std::iter::once(0).chain(edges.iter().copied());
    let highs = edges.iter().copied().map(Some).chain([None]);
    lows.zip(highs)
        .filter_map(|(min, max)| {
            let inside = |f: &&FlowResult| {
                f.size
                    .is_some_and(|s| s >= min && max.is_none_or(|max| s < max))
            };
            let slow = sorted(flows.iter().filter(inside).filter_map(|f| f.slowdown));
            Some(Bin {
                min,
                max,
                count: slow.len() as u64,
                p50: percentile(&slow, 0.5)?,
                p99: percentile(&slow, 0.99)?,
                p999: percentile(&slow, 0.999)?,
            })
        })
        .collect()
}
