// SPDX-License-Identifier: GPL-2.0
//! `fathom golden`: a fixed set of scenarios against numbers kept in the tree, to the last digit.
//!
//! `scenarios/golden/set.txt` lists one run a line: a scenario file, then settings; `on=sim` leaves the lab
//! out. The numbers are beside it, one file per scenario and engine.

use crate::run::{self, On, What};
use crate::Outcome;
use anyhow::{bail, Context, Result};
use clap::Args as ClapArgs;
use results::{Golden, Results};
use std::path::{Path, PathBuf};

/// Differences shown per file.
const SHOWN: usize = 8;

/// Arguments of `fathom golden`.
#[derive(ClapArgs)]
pub struct Args {
    /// Write the numbers anew.
    #[arg(long)]
    update: bool,
    /// One engine only; default: both.
    #[arg(long, value_enum)]
    on: Option<On>,
    /// Where list and numbers are.
    #[arg(long, value_name = "DIR", default_value = "scenarios/golden")]
    dir: PathBuf,
    /// Runs at once; default: one per core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    jobs: Option<u64>,
}

/// Runs `fathom golden`.
pub fn run(args: &Args) -> Result<Outcome> {
    let list = args.dir.join("set.txt");
    let text = std::fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    let (mut jobs, mut names) = (Vec::new(), Vec::new());
    for on in [On::Sim, On::Lab] {
        if args.on.is_some_and(|only| only != on) {
            continue;
        }
        for line in text
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty() && !l.starts_with('#'))
        {
            let mut words = line.split_whitespace();
            let Some(file) = words.next() else { continue };
            let mut what = What {
                set: Vec::new(),
                cc: Vec::new(),
                seed: None,
                jobs: None,
            };
            let mut wanted = true;
            for word in words {
                match word.split_once('=') {
                    Some(("cc", cc)) => what.cc = cc.split(',').map(str::to_owned).collect(),
                    Some(("on", engine)) => wanted = engine == on.engine().to_string(),
                    _ => what.set.push(word.to_owned()),
                }
            }
            if !wanted {
                continue;
            }
            let path = args.dir.parent().unwrap_or(Path::new(".")).join(file);
            let new = run::jobs(&[path], on, &what, 1, &[])
                .with_context(|| format!("{}: {line}", list.display()))?;
            names.extend(
                new.iter()
                    .map(|j| format!("{}.{}.json", j.scenario.name(), on.engine())),
            );
            jobs.extend(new);
        }
    }
    if jobs.is_empty() {
        bail!("{}: there is nothing to run", list.display());
    }
    let done = run::execute(&jobs, args.jobs, None, false)?;
    let mut outcome = Outcome::Ok;
    let mut files: Vec<&String> = names.iter().collect();
    files.dedup();
    for name in files {
        // Flows one by one would make a file of megabytes: the summaries stand for them.
        let runs = done
            .iter()
            .filter(|(at, _)| names[*at] == *name)
            .map(|(_, run)| {
                let mut run = run.clone();
                run.flows.clear();
                run.ports.retain(|p| p.packets > 0);
                run.ports.truncate(16);
                run
            });
        let results = Results::new(runs.collect());
        let file = args.dir.join(name);
        match results::golden(&file, &results, args.update)
            .with_context(|| file.display().to_string())?
        {
            Golden::Same => println!("ok {}", file.display()),
            Golden::Written => println!("written {}", file.display()),
            Golden::Missing => {
                outcome = Outcome::Failed;
                println!(
                    "not ok {}: it is not there; fathom golden --update writes it",
                    file.display()
                );
            }
            Golden::Different(lines) => {
                outcome = Outcome::Failed;
                println!("not ok {}: {} numbers differ", file.display(), lines.len());
                for (was, is) in lines.iter().take(SHOWN) {
                    println!("  {was} is now {is}");
                }
            }
        }
    }
    Ok(outcome)
}
