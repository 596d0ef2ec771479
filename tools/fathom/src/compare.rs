// SPDX-License-Identifier: GPL-2.0
//! `fathom compare`: a scenario on both engines, metric by metric, and by how much they differ.

use crate::run::{self, On, What};
use crate::Outcome;
use anyhow::Result;
use clap::Args as ClapArgs;
use std::path::PathBuf;

/// Arguments of `fathom compare`.
#[derive(ClapArgs)]
pub struct Args {
    /// Scenario files.
    #[arg(required = true, value_name = "SCENARIO.toml")]
    scenarios: Vec<PathBuf>,
    #[command(flatten)]
    what: What,
    /// Fail when throughput, queue or convergence differ by more than so many percent; 0 = never.
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT")]
    within: f64,
}

/// Runs `fathom compare`.
pub fn run(args: &Args) -> Result<Outcome> {
    if let Some(why) = run::lab_missing() {
        return Ok(Outcome::Skipped(why));
    }
    let mut outcome = Outcome::Ok;
    let sim = run::jobs(&args.scenarios, On::Sim, &args.what, 1, &[])?;
    let lab = run::jobs(&args.scenarios, On::Lab, &args.what, 1, &[])?;
    let sim = run::execute(&sim, args.what.jobs, None, false)?;
    let lab = run::execute(&lab, args.what.jobs, None, false)?;
    for ((_, a), (_, b)) in sim.iter().zip(&lab) {
        let comparison = results::compare(a, b);
        println!("{}: {}", a.meta.scenario, a.meta.title);
        println!("{}", results::compare_table(&comparison));
        for d in comparison.differences.iter().filter(|d| agreed(d.metric)) {
            if args.within > 0.0 && d.relative.abs() * 100.0 > args.within {
                outcome = Outcome::Failed;
                eprintln!(
                    "fathom: {} with {}: {} is {:.4} in the simulator and {:.4} in the lab, {:.1} % apart",
                    a.meta.scenario,
                    a.meta.cc,
                    d.metric,
                    d.a,
                    d.b,
                    d.relative.abs() * 100.0
                );
            }
        }
    }
    Ok(outcome)
}

/// What the two engines are held to agree on.
fn agreed(metric: scenario::Metric) -> bool {
    use scenario::Metric::{Convergence, QueueMean, QueueP99, Throughput};
    matches!(metric, Throughput | QueueMean | QueueP99 | Convergence)
}
