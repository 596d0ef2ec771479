// SPDX-License-Identifier: GPL-2.0
//! `fathom scenario`: what is in a scenario file, and what is wrong with it.

use crate::Outcome;
use ::scenario::units::{show_bps, show_bytes, show_ns};
use ::scenario::{NodeKind, Resolved, Scenario, Work};
use anyhow::{anyhow, Result};
use clap::{Parser, Subcommand};
use comfy_table::Table;
use std::path::PathBuf;

/// Arguments of `fathom scenario`.
#[derive(Parser)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check files: each is read and resolved for every congestion control it compares.
    Check {
        /// Scenario files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// In the place of what the files say: key=value, such as duration=5ms.
        #[arg(long)]
        set: Vec<String>,
    },
    /// Show what a file comes to: hosts, links, flows, base RTTs, fair shares.
    Show {
        /// A scenario file.
        file: PathBuf,
        /// The congestion control under test; default: the first that the file compares.
        #[arg(long)]
        cc: Option<String>,
        /// In the place of what the file says: key=value, such as duration=5ms.
        #[arg(long)]
        set: Vec<String>,
        /// All of it, as JSON: what an engine is given.
        #[arg(long)]
        json: bool,
    },
}

/// Runs `fathom scenario`.
pub fn run(args: &Args) -> Result<Outcome> {
    match &args.command {
        Command::Check { files, set } => check(files, set),
        Command::Show {
            file,
            cc,
            set,
            json,
        } => {
            let scenario = Scenario::load(file, set).map_err(|e| anyhow!("{e}"))?;
            let cc = cc.clone().unwrap_or_else(|| scenario.compare()[0].clone());
            let resolved = scenario.resolve(&cc).map_err(|e| anyhow!("{e}"))?;
            if *json {
                println!("{}", serde_json::to_string_pretty(&resolved)?);
            } else {
                show(&scenario, &resolved);
            }
            Ok(Outcome::Ok)
        }
    }
}

fn check(files: &[PathBuf], set: &[String]) -> Result<Outcome> {
    let mut outcome = Outcome::Ok;
    for file in files {
        match Scenario::load(file, set).and_then(|s| s.resolve(&s.compare()[0])) {
            Ok(r) => println!(
                "ok {}: {} hosts, {} flows, {}",
                file.display(),
                r.hosts().count(),
                r.flows.len(),
                show_ns(r.duration_ns)
            ),
            Err(e) => {
                eprintln!("{e}");
                outcome = Outcome::Failed;
            }
        }
    }
    Ok(outcome)
}

fn table(header: &[&str], text_columns: usize) -> Table {
    results::plain_table(
        header.iter().map(ToString::to_string).collect(),
        text_columns,
    )
}

/// The most flows whose fair shares are worked out.
const MANY_FLOWS: usize = 5000;

fn show(scenario: &Scenario, r: &Resolved) {
    println!("{}: {}", r.name, r.title);
    if !r.figure.is_empty() {
        println!("reproduces {}", r.figure);
    }
    let engines: Vec<String> = scenario.engines().iter().map(ToString::to_string).collect();
    println!(
        "compares {} on {}",
        scenario.compare().join(", "),
        engines.join(", ")
    );
    let switches = r
        .nodes
        .iter()
        .filter(|n| n.kind == NodeKind::Switch)
        .count();
    println!(
        "{} hosts, {switches} switches, {} links, MTU {}, {} with {} under test, seed {}",
        r.hosts().count(),
        r.links.len(),
        r.mtu,
        show_ns(r.duration_ns),
        r.cc,
        r.seed
    );
    links(r);
    groups(r);
    let ports: Vec<String> = r.measure.ports.iter().map(|&p| r.port_name(p)).collect();
    println!(
        "measured from {} to {}, sampled every {}; the line is {}{}",
        show_ns(r.measure.from_ns),
        show_ns(r.measure.until_ns),
        show_ns(r.measure.interval_ns),
        ports.first().map_or("–", String::as_str),
        match ports.get(1..) {
            Some(more) if !more.is_empty() => format!("; also {}", more.join(", ")),
            _ => String::new(),
        }
    );
    for e in &r.expect {
        let bounds = [
            e.min.map(|m| format!("≥ {m}")),
            e.max.map(|m| format!("≤ {m}")),
        ];
        let sizes = match (e.size_min, e.size_max) {
            (0, u64::MAX) => String::new(),
            (min, u64::MAX) => format!(" of flows from {}", show_bytes(min)),
            (min, max) => format!(" of flows from {} to {}", show_bytes(min), show_bytes(max)),
        };
        println!(
            "expects {}{}{sizes} {}{}{}",
            e.group.as_ref().map_or(String::new(), |g| format!("{g}: ")),
            e.metric,
            bounds
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" and "),
            e.relative_to
                .as_ref()
                .map_or(String::new(), |o| format!(" times {o}'s")),
            if e.cc.is_empty() {
                String::new()
            } else {
                format!(" by {}", e.cc.join(", "))
            },
        );
    }
}

/// Links that are alike, as one line.
fn links(r: &Resolved) {
    let mut kinds: Vec<(String, String, [String; 5], usize)> = Vec::new();
    for port in r.ports() {
        let p = r.port(port);
        let buffer = match p.buffer {
            ::scenario::Buffer::Own(bytes) => show_bytes(bytes),
            ::scenario::Buffer::Shared => "shared".into(),
        };
        let queue = match p.queue {
            ::scenario::Queue::Fifo => "fifo".into(),
            ::scenario::Queue::Ecn { threshold } => format!("ecn {}", show_bytes(threshold)),
            ::scenario::Queue::Red { min, max, .. } => {
                format!("red {} to {}", show_bytes(min), show_bytes(max))
            }
            ::scenario::Queue::Codel { target, .. } => format!("codel {}", show_ns(target)),
            ::scenario::Queue::CodelRpm { target, .. } => format!("codel_rpm {}", show_ns(target)),
        };
        let int = if p.int { "int" } else { "–" };
        let what = [
            show_bps(p.rate_bps),
            show_ns(p.delay_ns),
            buffer,
            queue,
            int.into(),
        ];
        let kind = match r.nodes[r.near_end(port)].kind {
            NodeKind::Host => "hosts",
            NodeKind::Switch => "switches",
        };
        match kinds.iter_mut().find(|k| k.0 == kind && k.2 == what) {
            Some(k) => k.3 += 1,
            None => kinds.push((kind.into(), r.port_name(port), what, 1)),
        }
    }
    let mut t = table(
        &[
            "ports of",
            "such as",
            "count",
            "rate",
            "delay",
            "buffer",
            "queue",
            "telemetry",
        ],
        2,
    );
    for (kind, name, what, count) in kinds {
        let mut row = vec![kind, name, count.to_string()];
        row.extend(what);
        t.add_row(row);
    }
    println!("{t}");
}

/// Groups of flows.
fn groups(r: &Resolved) {
    let all: Vec<usize> = (0..r.flows.len())
        .filter(|&f| r.flows[f].work == Work::Long)
        .collect();
    let shares = if all.len() <= MANY_FLOWS {
        r.max_min_bps(&all)
    } else {
        Vec::new()
    };
    let mut t = table(
        &[
            "group",
            "congestion control",
            "flows",
            "start",
            "stop",
            "bytes",
            "base RTT",
            "max-min share, Mbit/s",
        ],
        2,
    );
    let range = |mut v: Vec<u64>, show: fn(u64) -> String| {
        v.sort_unstable();
        match (v.first(), v.last()) {
            (Some(&a), Some(&b)) if a == b => show(a),
            (Some(&a), Some(&b)) => format!("{} to {}", show(a), show(b)),
            _ => "–".into(),
        }
    };
    for (g, group) in r.groups.iter().enumerate() {
        let mine: Vec<usize> = (0..r.flows.len())
            .filter(|&f| r.flows[f].group == g)
            .collect();
        let flows = || mine.iter().map(|&f| &r.flows[f]);
        let sizes = flows().filter_map(|f| match f.work {
            Work::Bytes(b) => Some(b),
            Work::Rpc {
                request, response, ..
            } => Some(request + response),
            Work::Long => None,
        });
        let mut got: Vec<f64> = mine
            .iter()
            .filter_map(|f| {
                all.iter()
                    .position(|a| a == f)
                    .and_then(|at| shares.get(at))
            })
            .map(|s| s / 1e6)
            .collect();
        got.sort_by(f64::total_cmp);
        let share = match (got.first(), got.last()) {
            (Some(a), Some(b)) if (b - a) < 0.5 => format!("{a:.0}"),
            (Some(a), Some(b)) => format!("{a:.0} to {b:.0}"),
            _ => "–".into(),
        };
        let cc = mine.first().map_or("–", |&f| &r.ccs[r.flows[f].cc].name);
        t.add_row([
            group.name.clone(),
            format!("{cc}{}", if group.tested { " (under test)" } else { "" }),
            mine.len().to_string(),
            range(flows().map(|f| f.start_ns).collect(), show_ns),
            range(flows().filter_map(|f| f.stop_ns).collect(), show_ns),
            range(sizes.collect(), show_bytes),
            range(
                mine.iter()
                    .take(MANY_FLOWS)
                    .map(|&f| r.base_rtt_ns(f))
                    .collect(),
                show_ns,
            ),
            share,
        ]);
    }
    println!("{t}");
}
