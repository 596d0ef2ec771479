// SPDX-License-Identifier: GPL-2.0
//! The tests that run in the lab, printed as KTAP: what theta_powertcp must hold on the real kernel, and
//! that the lab itself can be trusted.

use crate::{
    ktap::Summary,
    lab,
    paths::Paths,
    scenario_tests,
    scene::{Args, Row},
    Outcome,
};
use anyhow::{ensure, Context as _, Result};
use clap::Parser as _;
use std::sync::{
    atomic::{AtomicUsize, Ordering},
    Mutex,
};

/// Arguments of `fathom selftest`.
#[derive(clap::Parser)]
pub struct SelftestArgs {
    /// Run only tests whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// How many labs run at once.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    jobs: u64,
    /// On the debug kernel (`make lab-debug`): the same tests, a soak, and faults that must be seen; any
    /// complaint of the kernel's checks fails the test.
    #[arg(long)]
    debug: bool,
}

/// A test: name, arguments of `fathom lab`, what must hold of the one row.
struct Test {
    name: &'static str,
    lab: &'static str,
    check: fn(&Paths, &Args, Row) -> Result<String>,
}

/// Tests that run inside the lab as a suite of their own: name, role of the program inside, modules.
const SUITES: &[(&str, &str, &[&str])] = &[
    ("port_in_virtual_time", "port", &["sch_int"]),
    (
        "modules_in_virtual_time",
        "modules",
        &[
            "sch_int",
            "tcp_theta_powertcp",
            "tcp_powertcp",
            "tcp_poseidon",
            "tcp_hpcc",
            "tcp_swift",
        ],
    ),
    (
        "telemetry_in_virtual_time",
        "telemetry",
        &[
            "sch_int",
            "tcp_int",
            "tcp_poseidon",
            "tcp_powertcp",
            "tcp_hpcc",
        ],
    ),
];

/// All modules of the laws, for the soak.
const LAWS: &[&str] = &[
    "sch_int",
    "tcp_int",
    "tcp_poseidon",
    "tcp_powertcp",
    "tcp_theta_powertcp",
    "tcp_hpcc",
    "tcp_swift",
];
/// The soak on the debug kernel, in virtual seconds a law.
const SOAK: &[&str] = &["fathom.seconds=5", "fathom.connections=100"];

/// What the debug kernel must see: a module that does something wrong, its parameter, and a line of the report.
const FAULTS: &[(&str, &str, &str, &str)] = &[
    (
        "sees_use_after_free",
        "fault_c",
        "fault=use_after_free",
        "KASAN: slab-use-after-free",
    ),
    (
        "sees_lock_inversion",
        "fault_c",
        "fault=lock_inversion",
        "possible circular locking dependency",
    ),
    (
        "sees_rcu_without_lock",
        "fault_c",
        "fault=rcu_without_lock",
        "suspicious RCU usage",
    ),
    (
        "sees_sleep_in_atomic",
        "fault_c",
        "fault=sleep_in_atomic",
        "BUG: scheduling while atomic",
    ),
    (
        "sees_shift_too_far",
        "fault_c",
        "fault=shift_too_far",
        "UBSAN: shift-out-of-bounds",
    ),
    (
        "sees_index_too_far",
        "fault_c",
        "fault=index_too_far",
        "UBSAN: array-index-out-of-bounds",
    ),
    (
        "sees_timer_freed",
        "fault_c",
        "fault=timer_freed",
        "ODEBUG: free active",
    ),
    ("sees_warning", "fault_c", "fault=warning", "WARNING:"),
    (
        "sees_use_after_free_in_rust",
        "fault_rust",
        "fault=1",
        "KASAN: slab-use-after-free",
    ),
    (
        "sees_write_past_the_end_in_rust",
        "fault_rust",
        "fault=2",
        "KASAN: slab-out-of-bounds",
    ),
    // And the modules themselves are no complaint.
    ("silent_without_fault", "fault_c", "fault=none", ""),
    ("silent_without_fault_in_rust", "fault_rust", "fault=0", ""),
];

/// The least share of the line that one flow must hold, and the flows' Jain index.
const LINE: f64 = 0.97;
const JAIN: f64 = 0.98;

const TESTS: &[Test] = &[
    Test {
        name: "one_flow_1G",
        lab: "pair --rate-mbps 1000",
        check: one_flow,
    },
    Test {
        name: "one_flow_10G",
        lab: "pair --rate-mbps 10000",
        check: one_flow,
    },
    Test {
        name: "one_flow_25G",
        lab: "pair --rate-mbps 25000",
        check: one_flow,
    },
    Test {
        name: "one_flow_100G",
        lab: "pair --rate-mbps 100000",
        check: one_flow,
    },
    Test {
        name: "one_flow_behind_a_router_10G",
        lab: "bottleneck --rate-mbps 10000",
        check: one_flow,
    },
    Test {
        name: "one_flow_behind_a_router_100G",
        lab: "bottleneck --rate-mbps 100000",
        check: one_flow,
    },
    Test {
        name: "one_flow_ipv6_10G",
        lab: "bottleneck --rate-mbps 10000 -6",
        check: one_flow,
    },
    Test {
        name: "one_flow_of_poseidon_10G",
        lab: "pair --rate-mbps 10000 --cc poseidon",
        check: one_flow,
    },
    Test {
        name: "one_flow_of_powertcp_10G",
        lab: "pair --rate-mbps 10000 --cc powertcp",
        check: one_flow,
    },
    Test {
        name: "one_flow_of_hpcc_10G",
        lab: "pair --rate-mbps 10000 --cc hpcc",
        check: one_flow,
    },
    Test {
        name: "one_flow_of_swift_10G",
        lab: "pair --rate-mbps 10000 --cc swift",
        check: one_flow,
    },
    Test {
        name: "four_flows_10G",
        lab: "pair --rate-mbps 10000 --flows 4",
        check: fair,
    },
    Test {
        name: "four_flows_100G",
        lab: "pair --rate-mbps 100000 --flows 4",
        check: fair,
    },
    Test {
        name: "four_flows_behind_a_router_10G",
        lab: "bottleneck --flows 4",
        check: fair,
    },
    Test {
        name: "two_runs_are_identical",
        lab: "incast --flows 3 --duration-ms 10",
        check: identical,
    },
    Test {
        name: "two_runs_are_identical_with_losses",
        lab: "incast --cc cubic --flows 3 --duration-ms 20 --buffer-packets 50",
        check: identical,
    },
];

/// The line is full, and the queue is below one base RTT.
fn one_flow(_: &Paths, args: &Args, row: Row) -> Result<String> {
    let said = said(&row);
    ensure!(
        row.line_share >= LINE,
        "{said}: less than {LINE} of the line"
    );
    let base_rtt_us = args.base_rtt_us();
    ensure!(
        row.queue_p99_us < base_rtt_us,
        "{said}: p99 queueing is not below the base RTT of {base_rtt_us:.1} us"
    );
    Ok(said)
}

/// All flows get the same.
fn fair(_: &Paths, _: &Args, row: Row) -> Result<String> {
    let said = said(&row);
    ensure!(row.jain >= JAIN, "{said}: Jain index below {JAIN}");
    ensure!(row.line_share >= 0.95, "{said}: less than 0.95 of the line");
    Ok(said)
}

/// The same plan again gives the same answer, to the last byte.
fn identical(paths: &Paths, args: &Args, row: Row) -> Result<String> {
    let again = lab::run(paths, &args.plan(&row.cc)?, &mut |_| true)?;
    let (first, second) = (
        serde_json::to_string(&row.answer)?,
        serde_json::to_string(&again)?,
    );
    ensure!(!row.answer.lines.is_empty(), "no samples to compare");
    if args.cc() == ["cubic"] {
        ensure!(
            row.drops > 0,
            "no losses: the test would say less than its name"
        );
    }
    if let Some(at) = first.bytes().zip(second.bytes()).position(|(a, b)| a != b) {
        let context =
            |text: &str| text[at.saturating_sub(60)..(at + 60).min(text.len())].to_owned();
        anyhow::bail!(
            "the answers differ at byte {at}: {} / {}",
            context(&first),
            context(&second)
        );
    }
    ensure!(first.len() == second.len(), "the answers differ in length");
    Ok(format!("{} bytes, drops {}", first.len(), row.drops))
}

fn said(row: &Row) -> String {
    format!(
        "{:.3} of the line, queueing p99 {:.1} us, RTT {:.1} us, Jain {:.4}",
        row.line_share, row.queue_p99_us, row.rtt_mean_us, row.jain
    )
}

fn run_one(paths: &Paths, test: &Test) -> Result<String> {
    let words = ["lab"].into_iter().chain(test.lab.split(' '));
    let mut args = Args::try_parse_from(words).context("the test's own arguments")?;
    if !test.lab.contains("--cc") {
        args.set_cc("theta_powertcp");
    }
    let rows = args.rows(paths, |_| ())?;
    let row = rows.into_iter().next().context("no row")?;
    (test.check)(paths, &args, row)
}

/// The kernel's report of a fault is there, and would fail a test; without a fault there is none.
fn run_fault(paths: &Paths, module: &str, parameter: &str, report: &str) -> Result<String> {
    let console = lab::fault(paths, module, parameter)?;
    let complaints = lab::complaints(&console);
    let end = || console.lines().rev().take(20).collect::<Vec<_>>();
    let end = || end().into_iter().rev().collect::<Vec<_>>().join("\n");
    if report.is_empty() {
        ensure!(
            complaints.is_empty(),
            "complaints:\n{}",
            complaints.join("\n")
        );
        ensure!(console.contains("is loaded"), "not loaded:\n{}", end());
        return Ok("silent".to_owned());
    }
    let seen = complaints.iter().find(|line| line.contains(report));
    seen.map(|line| line.trim().to_owned())
        .with_context(|| format!("no {report:?} on the console:\n{}", end()))
}

/// All of a suite's tests pass; what they say is shown.
fn run_suite(paths: &Paths, role: &str, modules: &[&str], arguments: &[&str]) -> Result<String> {
    let console = lab::suite(paths, role, modules, arguments)?;
    let said: Vec<&str> = console.lines().map(str::trim_end).collect();
    let summary = Summary::of(said.iter().copied());
    let tests = said
        .iter()
        .filter(|l| l.starts_with("ok ") || l.starts_with("not ok ") || l.starts_with("# "));
    let tests: Vec<String> = tests.map(|l| format!("    {l}")).collect();
    ensure!(
        summary.failed == 0,
        "{} failed:\n{}\nthe end of the console:\n{}",
        summary.failed,
        tests.join("\n"),
        said[said.len().saturating_sub(12)..].join("\n")
    );
    Ok(format!("{} passed\n{}", summary.passed, tests.join("\n")))
}

/// Runs `fathom selftest`.
pub fn run(args: &SelftestArgs) -> Result<Outcome> {
    let mut paths = Paths::find()?;
    if args.debug {
        paths = paths.with_debug_kernel();
    }
    type Job<'a> = (&'static str, Box<dyn Fn() -> Result<String> + Sync + 'a>);
    let scenes = TESTS
        .iter()
        .map(|t| -> Job<'_> { (t.name, Box::new(|| run_one(&paths, t))) });
    let scenarios = scenario_tests::TESTS
        .iter()
        .map(|t| -> Job<'_> { (t.name, Box::new(|| t.run(&paths))) });
    let suites = SUITES.iter().map(|(name, role, modules)| -> Job<'_> {
        (name, Box::new(|| run_suite(&paths, role, modules, &[])))
    });
    let faults =
        FAULTS
            .iter()
            .filter(|_| args.debug)
            .map(|(name, module, parameter, report)| -> Job<'_> {
                (
                    name,
                    Box::new(|| run_fault(&paths, module, parameter, report)),
                )
            });
    let soak = Some("soak_in_virtual_time").filter(|_| args.debug);
    let soak =
        soak.map(|name| -> Job<'_> { (name, Box::new(|| run_suite(&paths, "soak", LAWS, SOAK))) });
    let tests: Vec<Job<'_>> = faults
        .chain(scenes)
        .chain(scenarios)
        .chain(suites)
        .chain(soak)
        .filter(|(name, _)| name.contains(&args.only))
        .collect();
    println!("KTAP version 1\n1..{}", tests.len());
    let (next, failed, out) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(()));
    std::thread::scope(|scope| {
        for _ in 0..args.jobs {
            scope.spawn(|| loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some((name, test)) = tests.get(i) else {
                    break;
                };
                let result = test();
                let _one_at_a_time = out.lock();
                match result {
                    Ok(said) => println!("# {}\nok {} {name}", said.replace('\n', "\n# "), i + 1),
                    Err(e) => {
                        failed.fetch_add(1, Ordering::Relaxed);
                        for line in format!("{e:#}").lines() {
                            println!("# {line}");
                        }
                        println!("not ok {} {name}", i + 1);
                    }
                }
            });
        }
    });
    Ok(if failed.into_inner() == 0 {
        Outcome::Ok
    } else {
        Outcome::Failed
    })
}
