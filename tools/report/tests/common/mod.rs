// SPDX-License-Identifier: GPL-2.0
//! Runs made by hand, with the shapes that real ones have: flows that start and stop, queues that peak,
//! flows that finish.

use results::{FlowMeasured, Measured, PortMeasured, Run, Samples};
use scenario::{Engine, Resolved, Scenario, Work};
use std::path::Path;

/// Long flows that come and go, and short ones beside them.
const MIXED: &str = r#"
title = "long flows that come and go, short ones beside them"
figure = "none: made by hand"
compare = ["poseidon", "swift", "cubic"]
duration = "50ms"
[topology.star]
hosts = 8
rate = "10Gbit"
delay = "5us"
[[flows]]
group = "long"
from = "h[0..3]"
to = "h7"
stagger = "8ms"
[[poisson]]
group = "short"
from = "h[4..6]"
to = "h7"
load = 0.05
sizes = "storage"
[measure]
from = "10ms"
interval = "50us"
flows_of = "long"
[[expect]]
metric = "jain"
min = 0.9
why = "shares <must> be fair & equal"
"#;

/// What `cc` under `engine` came to.
pub fn run(cc: &str, engine: Engine) -> Run {
    let s = Scenario::parse("mixed.toml", MIXED, &[], Path::new(""), "mixed")
        .unwrap_or_else(|e| panic!("{e}"));
    let r = s.resolve(cc).unwrap_or_else(|e| panic!("{e}"));
    Run::new(&r, engine, &[], measured(&r, cc, engine))
}

/// All runs of the sample page.
pub fn runs() -> Vec<Run> {
    let mut all: Vec<Run> = ["poseidon", "swift", "cubic"]
        .iter()
        .map(|cc| run(cc, Engine::Sim))
        .collect();
    all.push(run("poseidon", Engine::Lab));
    all
}

/// The scenario's expectations, checked.
pub fn verdicts(runs: &[Run]) -> Vec<results::Verdict> {
    let s = Scenario::parse("mixed.toml", MIXED, &[], Path::new(""), "mixed").unwrap();
    results::check(&s.resolve("poseidon").unwrap().expect, runs)
}

/// Random enough, and the same everywhere.
fn noise(seed: u64) -> f64 {
    let x = (seed ^ 0x9e37_79b9).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x >> 11) as f64 / (1u64 << 53) as f64
}

fn measured(r: &Resolved, cc: &str, engine: Engine) -> Measured {
    // How fast a flow takes its share, how long the queue is, how unequal the shares.
    let (speed, queue_us, unfair) = match (cc, engine) {
        ("poseidon", Engine::Sim) => (2e-4, 12.0, 0.02),
        ("poseidon", _) => (1.5e-4, 14.0, 0.05),
        ("swift", _) => (3e-5, 30.0, 0.05),
        _ => (2e-5, 900.0, 0.4),
    };
    let count = Samples::count(r);
    let step = r.measure.interval_ns;
    let line = r.measure.ports[0];
    let mut m = Measured {
        flows: vec![FlowMeasured::default(); r.flows.len()],
        ports: vec![PortMeasured::default(); r.links.len() * 2],
        ..Measured::default()
    };
    let long: Vec<usize> = (0..r.flows.len())
        .filter(|&f| r.flows[f].work == Work::Long)
        .collect();
    for &f in &long {
        m.samples.delivered.insert(f, vec![0]);
        m.samples.cwnd.insert(f, vec![f64::NAN]);
        m.samples.rtt.insert(f, vec![f64::NAN]);
    }
    m.samples.group_delivered = vec![vec![0; 1]; r.groups.len()];
    let (mut queue, mut sent) = (vec![0u64], vec![0u64]);
    let mut rates = vec![0.0; r.flows.len()];
    for k in 1..count as u64 {
        let at = k * step;
        let there = long
            .iter()
            .filter(|&&f| r.flows[f].start_ns < at)
            .count()
            .max(1);
        let mut sum = 0.0;
        let q = queue_us
            * (0.6 + 0.8 * noise(k))
            * (1.0 + 4.0 * (-((at % 8_000_000) as f64) / 4e5).exp());
        for (i, &f) in long.iter().enumerate() {
            let goal = if r.flows[f].start_ns < at {
                9.0e9 / there as f64
            } else {
                0.0
            };
            let skew = 1.0 + unfair * (i as f64 - 1.5) / 1.5;
            rates[f] += (goal * skew - rates[f]) * (1.0 - (-(step as f64) * speed / 100.0).exp());
            let rate = rates[f] * (1.0 + 0.1 * (noise(k * 31 + i as u64) - 0.5));
            sum += rate;
            let d = m.samples.delivered.get_mut(&f).unwrap();
            d.push(d[d.len() - 1] + (rate * step as f64 / 8e9) as u64);
            let rtt = 22_600.0 + q * 1e3;
            let on = r.flows[f].start_ns < at;
            m.samples
                .rtt
                .get_mut(&f)
                .unwrap()
                .push(if on { rtt } else { f64::NAN });
            m.samples.cwnd.get_mut(&f).unwrap().push(if on {
                rate * rtt / 8e9 / 1448.0
            } else {
                f64::NAN
            });
        }
        for g in 0..r.groups.len() {
            let d = &mut m.samples.group_delivered[g];
            let rate = if g == 0 { sum } else { 1.8e9 * noise(k * 7) };
            d.push(d[d.len() - 1] + (rate * step as f64 / 8e9) as u64);
        }
        queue.push((q * 1250.0) as u64);
        sent.push(sent[sent.len() - 1] + ((sum * 1.04).min(9.99e9) * step as f64 / 8e9) as u64);
    }
    for f in 0..r.flows.len() {
        let flow = &mut m.flows[f];
        flow.rtt_samples = 100;
        flow.rtt_mean_ns = 22_600.0 + queue_us * 1e3;
        flow.rtt_p99_ns = flow.rtt_mean_ns * 2.0;
        match r.flows[f].work {
            Work::Bytes(bytes) => {
                let slow =
                    1.0 + (queue_us / 10.0) * noise(f as u64).powi(3) + 0.4 * noise(f as u64 + 99);
                let fct = (r.ideal_fct_ns(f, bytes) as f64 * slow) as u64;
                let finish = r.flows[f].start_ns + fct;
                flow.finish_ns = (finish < r.duration_ns).then_some(finish);
                flow.bytes = flow.finish_ns.map_or(0, |_| bytes);
                flow.measured_bytes = flow.bytes;
            }
            _ => {
                let d = &m.samples.delivered[&f];
                flow.bytes = d[d.len() - 1];
                flow.measured_bytes = flow.bytes - d[(r.measure.from_ns / step) as usize];
            }
        }
    }
    let mut sorted = queue.clone();
    sorted.sort_unstable();
    m.ports[line.index()] = PortMeasured {
        queue_mean_bytes: queue.iter().sum::<u64>() as f64 / queue.len() as f64,
        queue_p99_bytes: sorted[sorted.len() * 99 / 100],
        queue_max_bytes: sorted[sorted.len() - 1],
        packets: 1,
        wire_bytes: sent[sent.len() - 1],
        drops: 0,
        marks: 0,
    };
    m.samples.queue.insert(line, queue);
    m.samples.sent.insert(line, sent);
    m
}
