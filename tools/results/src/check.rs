// SPDX-License-Identifier: GPL-2.0

//! Expectations of a scenario against the results of its runs.

use crate::metrics::of_flows_in;
use crate::run::{FlowResult, Run};
use scenario::{Engine, Expectation};

/// What came of one expectation in one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The scenario.
    pub scenario: String,
    /// The expectation.
    pub expectation: Expectation,
    /// The congestion control.
    pub cc: String,
    /// The engine.
    pub engine: Engine,
    /// What it came to; none = the run has no such metric, or there is no run to relate it to.
    pub value: Option<f64>,
    /// Whether it is within its bounds. Nothing is never within.
    pub ok: bool,
}

/// Checks every expectation in every run it speaks of. Runs of other scenarios must not be among
/// `runs`.
#[must_use]
pub fn check(expectations: &[Expectation], runs: &[Run]) -> Vec<Verdict> {
    let mut all = Vec::new();
    for e in expectations {
        for run in runs {
            let meta = &run.meta;
            let about = (e.cc.is_empty() || e.cc.contains(&meta.cc))
                && (e.engines.is_empty() || e.engines.contains(&meta.engine));
            if !about || e.relative_to.as_ref() == Some(&meta.cc) {
                continue;
            }
            let value = match &e.relative_to {
                None => value(e, run),
                Some(other) => {
                    let other = runs.iter().find(|o| {
                        o.meta.cc == *other
                            && o.meta.engine == meta.engine
                            && o.meta.seed == meta.seed
                    });
                    // Without the other run there is nothing to say: it was not asked for.
                    let Some(other) = other else { continue };
                    match (value(e, run), value(e, other)) {
                        (Some(a), Some(b)) if b != 0.0 => Some(a / b),
                        _ => None,
                    }
                }
            };
            let ok = value.is_some_and(|v| {
                e.min.is_none_or(|min| v >= min) && e.max.is_none_or(|max| v <= max)
            });
            all.push(Verdict {
                scenario: meta.scenario.clone(),
                expectation: e.clone(),
                cc: meta.cc.clone(),
                engine: meta.engine,
                value,
                ok,
            });
        }
    }
    all
}

/// The metric that `e` speaks of, in `run`.
fn value(e: &Expectation, run: &Run) -> Option<f64> {
    if e.size_min == 0 && e.size_max == u64::MAX {
        let summary = match &e.group {
            None => &run.summary.all,
            Some(group) => run.summary.groups.get(group)?,
        };
        return summary.get(&e.metric).copied();
    }
    let sized = |f: &&FlowResult| {
        f.size
            .is_some_and(|s| (e.size_min..e.size_max).contains(&s))
    };
    let grouped = |f: &&FlowResult| match &e.group {
        None => true,
        Some(group) => run.groups.get(f.group) == Some(group),
    };
    let flows: Vec<&FlowResult> = run.flows.iter().filter(sized).filter(grouped).collect();
    let measured_ns = run.meta.until_ns - run.meta.from_ns;
    of_flows_in(measured_ns, &flows).get(&e.metric).copied()
}
