// SPDX-License-Identifier: GPL-2.0
//! Scenario files as tests of the lab: what must hold of them on the real kernel, and that two runs are the
//! same to the last byte. Each is cut to some milliseconds of network time.

use crate::{lab_engine, paths::Paths};
use anyhow::{anyhow, ensure, Context as _, Result};
use results::Run;
use scenario::{Engine, Metric, Resolved, Scenario};

/// A test: name, file, congestion control, settings, what must hold besides the file's own expectations.
pub struct Test {
    /// Its name.
    pub name: &'static str,
    file: &'static str,
    cc: &'static str,
    set: &'static [&'static str],
    check: fn(&Paths, &Resolved, &Run) -> Result<()>,
}

/// All of them.
pub const TESTS: &[Test] = &[
    Test {
        name: "scenario_single_powertcp",
        file: "single",
        cc: "powertcp",
        set: &["duration=20ms"],
        check: |_, _, _| Ok(()),
    },
    Test {
        name: "scenario_multihop_poseidon",
        file: "multihop",
        cc: "poseidon",
        set: &["duration=25ms"],
        check: |_, _, _| Ok(()),
    },
    Test {
        name: "scenario_incast_hpcc",
        file: "incast-10",
        cc: "hpcc",
        set: &["duration=6ms"],
        check: |_, _, run| at_least(run, Metric::LineShare, 0.9),
    },
    Test {
        name: "scenario_short_flows_dctcp",
        file: "short-flow-mix",
        cc: "dctcp",
        set: &["duration=10ms", "poisson.0.stop=8ms"],
        check: |_, _, run| {
            at_least(run, Metric::Marks, 1.0)?;
            at_least(run, Metric::Completed, 0.8)
        },
    },
    Test {
        name: "scenario_requests_theta_powertcp",
        file: "rpc",
        cc: "theta_powertcp",
        set: &["duration=5ms"],
        check: |_, _, run| {
            let asked: Vec<_> = run.flows.iter().filter_map(|f| f.rpc).collect();
            ensure!(asked.len() == 4, "{} flows were asked", asked.len());
            for rpc in asked {
                ensure!(rpc.completed >= 5, "{} answers", rpc.completed);
                // 10 us there, 10 us back, and 16 KB at 10 Gbit/s.
                ensure!(
                    rpc.latency_p50_ns > 30_000.0 && rpc.latency_p50_ns < 200_000.0,
                    "a request took {} ns",
                    rpc.latency_p50_ns
                );
            }
            Ok(())
        },
    },
    Test {
        name: "scenario_link_flap_swift",
        file: "link-flap",
        cc: "swift",
        set: &["duration=20ms"],
        check: |_, _, run| {
            at_least(run, Metric::Retransmits, 1.0)?;
            at_least(run, Metric::LineShare, 0.7)?;
            ensure!(
                metric(run, Metric::LineShare)? < 0.96,
                "nothing was lost in 1 ms of 20"
            );
            Ok(())
        },
    },
    Test {
        name: "scenario_lies_poseidon",
        file: "int-lies",
        cc: "poseidon",
        set: &[
            "duration=12ms",
            "faults.0.from=2ms",
            "faults.0.until=5ms",
            "faults.1.from=5ms",
            "faults.1.until=8ms",
            "faults.2.from=8ms",
        ],
        check: |_, _, run| at_least(run, Metric::LineShare, 0.5),
    },
    Test {
        name: "scenario_twice_the_same",
        file: "loss-0.1",
        cc: "poseidon",
        set: &["duration=15ms", "measure.from=0"],
        check: |paths, resolved, run| {
            at_least(run, Metric::Retransmits, 1.0)?;
            let again = measure(paths, resolved)?;
            let json = |run: &Run| serde_json::to_string(run);
            ensure!(json(run)? == json(&again)?, "the second run differs");
            Ok(())
        },
    },
];

fn metric(run: &Run, metric: Metric) -> Result<f64> {
    let value = run.summary.all.get(&metric).copied();
    value.with_context(|| format!("the run has no {metric}"))
}

fn at_least(run: &Run, which: Metric, least: f64) -> Result<()> {
    let value = metric(run, which)?;
    ensure!(
        value >= least,
        "{which} is {value}, expected at least {least}"
    );
    Ok(())
}

fn measure(paths: &Paths, resolved: &Resolved) -> Result<Run> {
    let measured = lab_engine::measure(paths, resolved, &mut |_| true)?;
    Ok(Run::new(resolved, Engine::Lab, &[], measured))
}

impl Test {
    /// Runs it; what it came to.
    ///
    /// # Errors
    /// What does not hold.
    pub fn run(&self, paths: &Paths) -> Result<String> {
        let file = paths.scenarios()?.join(format!("{}.toml", self.file));
        let set: Vec<String> = self.set.iter().map(|&s| s.to_owned()).collect();
        let resolved = Scenario::load(&file, &set)
            .and_then(|s| s.resolve(self.cc))
            .map_err(|e| anyhow!("{e}"))?;
        let run = measure(paths, &resolved)?;
        let verdicts = results::check(&resolved.expect, std::slice::from_ref(&run));
        if let Some(v) = verdicts.iter().find(|v| !v.ok) {
            let e = &v.expectation;
            anyhow::bail!(
                "{} is {:?}, expected {:?} to {:?}: {}",
                e.metric,
                v.value,
                e.min,
                e.max,
                e.why
            );
        }
        (self.check)(paths, &resolved, &run)?;
        Ok(format!(
            "{:.3} of the line, queue mean {:.1} us, p99 {:.1} us, {} expectations hold",
            metric(&run, Metric::LineShare)?,
            metric(&run, Metric::QueueMean)?,
            metric(&run, Metric::QueueP99)?,
            verdicts.len()
        ))
    }
}
