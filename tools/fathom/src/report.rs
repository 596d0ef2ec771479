// SPDX-License-Identifier: GPL-2.0
//! `fathom report`: results as one HTML page.

use crate::Outcome;
use anyhow::{anyhow, bail, Context as _, Result};
use clap::Parser;
use results::{Results, Run};
use std::path::PathBuf;

/// Arguments of `fathom report`.
#[derive(Parser)]
pub struct Args {
    /// Results files, as `fathom run --json` writes them; runs of one scenario are overlaid.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Where the page goes.
    #[arg(short, long, default_value = "report", value_name = "DIR")]
    output: PathBuf,
    /// Only these congestion controls.
    #[arg(long, value_delimiter = ',')]
    cc: Vec<String>,
}

/// Runs `fathom report`.
pub fn run(args: &Args) -> Result<Outcome> {
    let mut runs: Vec<Run> = Vec::new();
    for file in &args.files {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let results = Results::parse(&text).map_err(|e| anyhow!("{}: {e}", file.display()))?;
        runs.extend(results.runs);
    }
    if !args.cc.is_empty() {
        runs.retain(|r| args.cc.contains(&r.meta.cc));
    }
    if runs.is_empty() {
        bail!("there is no run to report on");
    }
    let page = report::write(&args.output, &runs, &[])
        .with_context(|| args.output.display().to_string())?;
    println!("{}", page.display());
    Ok(Outcome::Ok)
}
