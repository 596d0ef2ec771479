// SPDX-License-Identifier: GPL-2.0
//! A run made by hand: what the metrics, the checks, the golden files and the JSON make of it.

use results::{
    check, compare, golden, FlowMeasured, Golden, Measured, PortMeasured, Results, Run, Samples,
};
use scenario::{Engine, Metric, Resolved, Scenario};
use std::path::Path;

/// Two hosts send to a third at 10 Gbit/s; the second joins at 1 ms.
const TWO: &str = r#"
title = "two flows, one line"
compare = ["poseidon"]
duration = "4ms"
[topology.star]
hosts = 3
rate = "10Gbit"
delay = "1us"
[[flows]]
group = "first"
from = "h0"
to = "h2"
[[flows]]
group = "second"
from = "h1"
to = "h2"
start = "1ms"
[measure]
from = "2ms"
interval = "10us"
window = "100us"
[[expect]]
metric = "jain"
min = 0.99
[[expect]]
metric = "convergence"
max = 10.0
[[expect]]
metric = "queue_mean"
relative_to = "swift"
cc = "poseidon"
max = 0.5
"#;

fn resolved(cc: &str) -> Resolved {
    let s = Scenario::parse("two.toml", TWO, &[], Path::new(""), "two")
        .unwrap_or_else(|e| panic!("{e}"));
    s.resolve(cc).unwrap_or_else(|e| panic!("{e}"))
}

/// The first flow has the line for 1 ms; the second joins, and after `slow_ns` both have half of it.
fn measured(r: &Resolved, slow_ns: u64, queue: f64) -> Measured {
    let line = r.port(r.measure.ports[0]).rate_bps as f64 * r.efficiency(0) / 8e9; // bytes per ns
    let rate = |flow: usize, at: u64| match (flow, at) {
        (0, at) if at < 1_000_000 => line,
        (1, at) if at < 1_000_000 => 0.0,
        (0, at) if at < 1_000_000 + slow_ns => 0.8 * line,
        (1, at) if at < 1_000_000 + slow_ns => 0.2 * line,
        _ => 0.5 * line,
    };
    let count = Samples::count(r);
    let step = r.measure.interval_ns;
    let mut m = Measured {
        ports: vec![PortMeasured::default(); r.links.len() * 2],
        ..Measured::default()
    };
    for flow in 0..2 {
        let mut sum = 0.0;
        let mut delivered = vec![0];
        for k in 1..count as u64 {
            sum += rate(flow, (k - 1) * step) * step as f64;
            delivered.push(sum as u64);
        }
        let at = |ns: u64| delivered[(ns / step) as usize];
        m.flows.push(FlowMeasured {
            bytes: at(r.duration_ns),
            measured_bytes: at(r.measure.until_ns) - at(r.measure.from_ns),
            rtt_mean_ns: 10_000.0,
            rtt_samples: 1,
            ..FlowMeasured::default()
        });
        m.samples.group_delivered.push(delivered.clone());
        m.samples.delivered.insert(flow, delivered);
        m.samples.rtt.insert(flow, vec![f64::NAN; count]);
    }
    let port = r.measure.ports[0];
    m.ports[port.index()].queue_mean_bytes = queue;
    m.samples
        .sent
        .insert(port, (0..count as u64).map(|k| k * step * 5 / 4).collect());
    m.samples.queue.insert(port, vec![1; count]);
    m
}

#[test]
fn the_metrics_of_a_known_run() {
    let r = resolved("poseidon");
    assert_eq!(r.port_name(r.measure.ports[0]), "s0->h2");
    let run = Run::new(&r, Engine::Sim, &[], measured(&r, 50_000, 12_500.0));
    let all = &run.summary.all;
    let near = |metric: Metric, want: f64| {
        let got = all[&metric];
        assert!(
            (got - want).abs() <= want.abs() * 1e-3 + 1e-9,
            "{metric}: {got}, not {want}"
        );
    };
    near(Metric::Jain, 1.0);
    near(Metric::Share, 1.0);
    near(Metric::LineShare, 1.0);
    near(Metric::LineShareMin, 1.0);
    near(Metric::QueueMean, 10.0);
    // Of the window that begins 20 us before both have their half, 80 us are fair: 0.9 of the share on
    // average comes at 0.2 + 0.3 x > 0.45, x = 0.834.
    near(Metric::Convergence, 40.0);
    near(Metric::JainStepMin, 1.0);
    // From 1 ms on, 0.8 and 0.2 of the line for 50 us: of windows of 100 us the last with an index below 0.98 begins at
    // 20 us and has 30 us of it: 1/2(0.59² + 0.41²) = 0.969. That is three samples of 10 us.
    let base_us = r.base_rtt_ns(0) as f64 / 1e3;
    near(Metric::JainSettle, 30.0 / base_us);
    near(Metric::Throughput, 10.0 * r.efficiency(0));
    near(Metric::RttMean, 10.0);
    assert!(!all.contains_key(&Metric::Completed), "no flow has an end");
    near(
        Metric::Throughput,
        run.summary.groups["first"][&Metric::Throughput] * 2.0,
    );
}

#[test]
fn a_queue_settles_in_round_trips_as_long_as_they_were() {
    let mut r = resolved("poseidon");
    r.measure.settled_ns = Some(10_000);
    let base_us = r.base_rtt_ns(0) as f64 / 1e3;
    let mut m = measured(&r, 0, 0.0);
    let (port, from) = (r.measure.ports[0], 200);
    let settle = |m: &Measured| {
        let run = Run::new(&r, Engine::Sim, &[], m.clone());
        run.summary.all.get(&Metric::Settle).copied()
    };
    assert_eq!(settle(&m), Some(0.0), "never above");
    // 100 us of queue for ten samples of 10 us, then the bound itself, which is not above it.
    let queue = m.samples.queue.get_mut(&port).unwrap();
    queue[from - 1] = 125_000; // Before the measured time.
    queue[from + 3..from + 13].fill(125_000);
    queue[from + 13..].fill(12_500);
    let got = settle(&m).unwrap();
    assert!((got - 100.0 / (base_us + 100.0)).abs() < 1e-9, "{got}");
    // Once more, later: all that is in between counts.
    m.samples.queue.get_mut(&port).unwrap()[from + 33] = 125_000;
    let got = settle(&m).unwrap();
    let want = 110.0 / (base_us + 100.0) + 200.0 / (base_us + 10.0);
    assert!((got - want).abs() < 1e-9, "{got}");
    // In the last window: it has not settled.
    *m.samples.queue.get_mut(&port).unwrap().last_mut().unwrap() = 125_000;
    assert_eq!(settle(&m), None);
}

#[test]
fn expectations_are_checked_where_they_apply() {
    let r = resolved("poseidon");
    let run = |cc: &str, slow, queue| {
        let r = resolved(cc);
        Run::new(&r, Engine::Sim, &[], measured(&r, slow, queue))
    };
    let good = run("poseidon", 0, 100.0);
    let swift = run("swift", 3_000_000, 300.0);
    let verdicts = check(&r.expect, &[good.clone(), swift]);
    let say: Vec<(String, &str, bool)> = verdicts
        .iter()
        .map(|v| (v.cc.clone(), v.expectation.metric.name(), v.ok))
        .collect();
    assert_eq!(
        say,
        [
            ("poseidon".into(), "jain", true),
            ("swift".into(), "jain", false),
            ("poseidon".into(), "convergence", true),
            ("swift".into(), "convergence", false), // it never converges: no value is not within bounds
            ("poseidon".into(), "queue_mean", true),
        ]
    );
    assert_eq!(verdicts[3].value, None);
    // Without Swift's run nothing is said about the ratio.
    assert_eq!(check(&r.expect, &[good]).len(), 2);
}

#[test]
fn json_reads_back_and_versions_are_told_apart() {
    let r = resolved("poseidon");
    let results = Results::new(vec![Run::new(
        &r,
        Engine::Lab,
        &["seed=1".into()],
        measured(&r, 0, 1.5),
    )]);
    let text = results.to_json();
    assert_eq!(Results::parse(&text).unwrap(), results);
    assert!(text.contains("null"), "an RTT that is not there");
    let newer = text.replacen("\"version\":1", "\"version\":2", 1);
    assert!(Results::parse(&newer).unwrap_err().contains("version 2"));
    assert!(Results::parse("[]")
        .unwrap_err()
        .contains("not a results file"));
}

#[test]
fn golden_files_tell_the_last_digit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sub/two.json");
    let r = resolved("poseidon");
    let mut results = Results::new(vec![Run::new(&r, Engine::Sim, &[], measured(&r, 0, 0.1))]);
    assert_eq!(golden(&path, &results, false).unwrap(), Golden::Missing);
    assert_eq!(golden(&path, &results, true).unwrap(), Golden::Written);
    // Time on the wall does not count.
    results.runs[0].wall = Some(results::Wall {
        seconds: 1.0,
        peak_bytes: 0,
    });
    assert_eq!(golden(&path, &results, false).unwrap(), Golden::Same);
    // The last digit does.
    results.runs[0].ports[0].queue_mean_bytes = 0.1 + 0.2 - 0.3;
    let Golden::Different(lines) = golden(&path, &results, false).unwrap() else {
        panic!("a difference goes unseen");
    };
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].0.contains("/runs/0/ports/0/queue_mean_bytes"),
        "{lines:?}"
    );
    assert_eq!(golden(&path, &results, true).unwrap(), Golden::Written);
    assert_eq!(golden(&path, &results, false).unwrap(), Golden::Same);
}

#[test]
fn two_runs_side_by_side() {
    let r = resolved("poseidon");
    let a = Run::new(&r, Engine::Sim, &[], measured(&r, 0, 100.0));
    let b = Run::new(&r, Engine::Lab, &[], measured(&r, 0, 125.0));
    let c = compare(&a, &b);
    let queue = c
        .differences
        .iter()
        .find(|d| d.metric == Metric::QueueMean)
        .unwrap();
    assert!((queue.relative - 0.2).abs() < 1e-12);
    let text = results::compare_table(&c).to_string();
    assert!(
        text.contains("poseidon (sim)") && text.contains("+20.0 %"),
        "{text}"
    );
    let text = results::table(&[a, b]).to_string();
    assert!(text.contains("poseidon") && text.contains("lab"), "{text}");
}
