// SPDX-License-Identifier: GPL-2.0
//! `fathom compare`: a scenario on both engines, metric by metric, and by how much they differ.
//!
//! Two numbers agree when they are within so many percent of the larger one, or closer to each other than
//! the instrument can tell: a packet for a queue, a sample for a time.

use crate::run::{self, Job, On, What};
use crate::Outcome;
use anyhow::{anyhow, Result};
use clap::Args as ClapArgs;
use results::{Difference, Run};
use scenario::Metric;
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
    /// One line for each run, as a Markdown table, with what differs by more than --within (or 10) percent
    /// in bold.
    #[arg(long)]
    markdown: bool,
    /// Write the results of both engines to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with plots of both engines to this directory.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// What the two engines are held to agree on.
const AGREED: [Metric; 4] = [
    Metric::Throughput,
    Metric::QueueMean,
    Metric::QueueP99,
    Metric::Convergence,
];

/// The bound of the Markdown table when no other is given, percent.
const BOUND: f64 = 10.0;

/// Runs `fathom compare`.
pub fn run(args: &Args) -> Result<Outcome> {
    let jobs = run::jobs(&args.scenarios, On::Sim, &args.what, 1, &[])?;
    let lab = run::jobs(&args.scenarios, On::Lab, &args.what, 1, &[])?;
    let sim = run::execute(&jobs, args.what.jobs, None, false)?;
    let lab = run::execute(&lab, args.what.jobs, None, false)?;
    let bound = if args.within > 0.0 {
        args.within
    } else {
        BOUND
    };
    if args.markdown {
        let names = AGREED.map(|m| format!("{}, {}", m.name().replace('_', " "), m.unit()));
        println!("| scenario | congestion control | {} |", names.join(" | "));
        println!("|---|---|{}", "---|".repeat(AGREED.len()));
    }
    let mut apart = 0;
    for ((at, a), (_, b)) in sim.iter().zip(&lab) {
        let grain = Grain::of(&jobs[*at])?;
        if args.markdown {
            let cells = AGREED.map(|m| cell(m, a, b, &grain, bound));
            println!(
                "| {} | {} | {} |",
                a.meta.scenario,
                a.meta.cc,
                cells.join(" | ")
            );
        } else {
            println!("{}: {}", a.meta.scenario, a.meta.title);
            println!("{}", results::compare_table(&results::compare(a, b)));
        }
        for m in AGREED {
            if let Some(d) = difference(m, a, b).filter(|d| !grain.agree(d, bound)) {
                apart += 1;
                if args.within > 0.0 {
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
    }
    let both: Vec<Run> = sim.into_iter().chain(lab).map(|(_, run)| run).collect();
    run::keep(&both, &[], args.json.as_deref(), args.report.as_deref())?;
    Ok(if args.within > 0.0 && apart > 0 {
        Outcome::Failed
    } else {
        Outcome::Ok
    })
}

/// What cannot be told apart.
struct Grain {
    /// A full-size packet on the line, us.
    packet_us: f64,
    /// Between two samples, us.
    sample_us: f64,
}

impl Grain {
    fn of(job: &Job) -> Result<Self> {
        let r = job.scenario.resolve(&job.cc).map_err(|e| anyhow!("{e}"))?;
        let line = r.measure.ports.first();
        let rate = line.map_or(f64::INFINITY, |&p| r.port(p).rate_bps as f64);
        Ok(Self {
            packet_us: f64::from(r.full_wire()) * 8e6 / rate,
            sample_us: r.measure.interval_ns as f64 / 1e3,
        })
    }

    fn agree(&self, d: &Difference, percent: f64) -> bool {
        let grain = match d.metric {
            Metric::QueueMean | Metric::QueueP99 => self.packet_us,
            Metric::Convergence => self.sample_us,
            _ => 0.0,
        };
        // Rounding of what is printed must not decide.
        let near = (d.a - d.b).abs() <= grain * 1.001;
        near || d.relative.abs() * 100.0 <= percent
    }
}

fn difference(metric: Metric, a: &Run, b: &Run) -> Option<Difference> {
    let all = results::compare(a, b).differences;
    all.into_iter()
        .find(|d| d.group.is_none() && d.metric == metric)
}

/// `sim / lab (difference)`.
fn cell(metric: Metric, a: &Run, b: &Run, grain: &Grain, bound: f64) -> String {
    let Some(d) = difference(metric, a, b) else {
        let show = |run: &Run| {
            let value = run.summary.all.get(&metric);
            value.map_or("–".to_owned(), |v| number(*v))
        };
        return match (show(a), show(b)) {
            (x, y) if x == y => x,
            (x, y) => format!("**{x} / {y}**"),
        };
    };
    let text = format!("{} / {}", number(d.a), number(d.b));
    if grain.agree(&d, bound) {
        text
    } else {
        format!("**{text} ({:+.0} %)**", d.relative * 100.0)
    }
}

/// Three digits that count.
fn number(v: f64) -> String {
    match v.abs() {
        x if x >= 100.0 => format!("{v:.0}"),
        x if x >= 10.0 => format!("{v:.1}"),
        _ => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_more_is_no_difference() {
        let grain = Grain {
            packet_us: 1.23,
            sample_us: 20.0,
        };
        let agree = |metric, a: f64, b: f64| {
            let relative = (b - a) / a.max(b);
            let group = None;
            grain.agree(
                &Difference {
                    group,
                    metric,
                    a,
                    b,
                    relative,
                },
                10.0,
            )
        };
        assert!(agree(Metric::QueueMean, 0.01, 0.22));
        assert!(!agree(Metric::QueueMean, 0.01, 2.0));
        assert!(!agree(Metric::Throughput, 1.0, 1.2));
        assert!(agree(Metric::Throughput, 1.0, 1.1));
        assert!(agree(Metric::Convergence, 60.0, 80.0));
        assert!(!agree(Metric::Convergence, 60.0, 100.0));
    }
}
