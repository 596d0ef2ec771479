// SPDX-License-Identifier: GPL-2.0
//! `fathom`: congestion control that reads the network. One command for people.

mod bench_kmod;
mod children;
mod compare;
mod golden;
mod initramfs;
mod int;
mod ktap;
mod lab;
mod lab_engine;
mod paths;
mod report;
mod run;
mod scenario;
mod scenario_tests;
mod scene;
mod selftest;
mod table;
mod tc;
mod trace;
mod vm;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Congestion control for datacenter TCP that reads the network itself.
#[derive(Parser)]
#[command(name = "fathom", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run scenarios on an engine: one table, one JSON, expectations checked.
    Run(run::Args),
    /// Run a scenario on simulator and lab and show both side by side.
    Compare(compare::Args),
    /// Put results of several runs or shards together.
    Merge(run::MergeArgs),
    /// Compare a fixed set of scenarios with the numbers kept in the tree, exactly.
    Golden(golden::Args),
    /// Run flows on the real kernel in virtual time (User-mode Linux), without a switch or privileges.
    Lab(scene::Args),
    /// Run the lab's own tests (KTAP): throughput, delay and fairness on the real kernel, determinism.
    Selftest(selftest::SelftestArgs),
    /// Make one HTML page with plots of results files.
    Report(report::Args),
    /// Check scenario files, or show what one comes to.
    Scenario(scenario::Args),
    /// Load the eBPF programs that carry telemetry, attach and pin them, and hand their map to tcp_int.
    Attach(int::AttachArgs),
    /// Undo `attach`.
    Detach(int::DetachArgs),
    /// What is attached, which connections carry telemetry, and why one does not.
    Status(int::StatusArgs),
    /// Make network devices software switch ports (the qdisc `int`), change and show them.
    Tc(tc::Args),
    /// Count the instructions per ACK of every congestion control on the stock kernel.
    BenchKmod(bench_kmod::Args),
    /// Show the decisions of our congestion controls as they are made (root).
    Trace(trace::Args),
    /// Boot Debian's stock kernel in QEMU and run the selftests (KTAP).
    Vm(vm::Args),
}

/// What a command came to; the exit code says it to scripts.
pub enum Outcome {
    /// 0
    Ok,
    /// 1
    Failed,
    /// 4
    Skipped(String),
}

fn main() -> ExitCode {
    // clap exits with 2 on wrong usage.
    let result = match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Merge(args) => run::merge(&args),
        Command::Golden(args) => golden::run(&args),
        Command::Lab(args) => scene::run(&args),
        Command::Selftest(args) => selftest::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Scenario(args) => scenario::run(&args),
        Command::Attach(args) => int::attach(&args),
        Command::Detach(args) => int::detach(&args),
        Command::Status(args) => int::status(&args),
        Command::Tc(args) => tc::run(&args),
        Command::BenchKmod(args) => bench_kmod::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Vm(args) => vm::run(&args),
    };
    match result {
        Ok(Outcome::Ok) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::FAILURE,
        Ok(Outcome::Skipped(why)) => {
            eprintln!("fathom: skipped: {why}");
            ExitCode::from(4)
        }
        Err(e) if e.chain().any(|cause| cause.is::<lab_engine::Unsupported>()) => {
            eprintln!("fathom: skipped: {e:#}");
            ExitCode::from(4)
        }
        Err(e) => {
            eprintln!("fathom: error: {e:#}");
            ExitCode::FAILURE
        }
    }
}
