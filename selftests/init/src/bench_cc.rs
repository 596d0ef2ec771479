// SPDX-License-Identifier: GPL-2.0
//! Traffic for `make bench-kmod`: a transfer with each congestion control through a port of ours, alone on
//! the machine. Who counts instructions is outside; this says where the functions are.

use crate::{
    ktap, modules, net,
    selftest::{data, set_sysctl, telemetry},
};
use anyhow::{Context as _, Result};
use std::fs;

/// What is compared, and the telemetry that it gets.
const RUNS: [(&str, Option<wire::Format>); 8] = [
    ("cubic", None),
    ("bbr", None),
    ("dctcp", None),
    ("theta_powertcp", None),
    ("swift", None),
    ("poseidon", Some(wire::Format::Mpd)),
    ("powertcp", Some(wire::Format::Bottleneck)),
    ("hpcc", Some(wire::Format::Bottleneck)),
];
/// Of cubic, which is part of the kernel, and what it calls there to move the window.
const CUBIC: [&str; 6] = [
    "cubictcp_",
    "bictcp_",
    "hystart_",
    "tcp_cong_avoid_ai",
    "tcp_slow_start",
    "cubic_root",
];
const BYTES: usize = 4 << 20;

/// Runs them all and names the functions.
pub fn run() -> Result<()> {
    ktap::run(&[("traffic", || traffic().map(|()| ktap::Outcome::Pass))]);
    Ok(())
}

fn traffic() -> Result<()> {
    modules::load("sch_int", "").context("load sch_int")?;
    for (cc, format) in RUNS {
        // What is not ours, modprobe loads by its name.
        if modules::is_ours(&format!("tcp_{cc}")) {
            modules::load(&format!("tcp_{cc}"), "host_mbps=1000")
                .with_context(|| format!("load tcp_{cc}"))?;
        }
        let _attached = format.map(telemetry::attach).transpose()?;
        let pair = data::Pair::new()?;
        // Without ECN dctcp would hand over to reno.
        pair.at_a(|| set_sysctl("net/ipv4/tcp_ecn", "1"))??;
        pair.qdisc(wire::tc::NAME, net::port(1000, 100_000, 4 << 20, 90_000))?;
        data::transfer_over(&pair, cc, false, BYTES)?;
    }
    functions()
}

/// Lines `@ ADDRESS MODULE NAME`, by address.
fn functions() -> Result<()> {
    let symbols = fs::read_to_string("/proc/kallsyms").context("/proc/kallsyms")?;
    for line in symbols.lines() {
        let mut words = line.split_whitespace();
        let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        if !kind.eq_ignore_ascii_case("t") {
            continue;
        }
        let module = words.next().map(|m| m.trim_matches(['[', ']']));
        match module {
            Some(module) if module.starts_with("tcp_") => println!("@ {address} {module} {name}"),
            // An end for each of cubic's functions is the next one, whatever it is.
            None if name.contains("tcp") || name.contains("cubic") || name.contains("hystart") => {
                let cubic = CUBIC.iter().any(|of| name.starts_with(of));
                let module = if cubic { "tcp_cubic" } else { "-" };
                println!("@ {address} {module} {name}");
            }
            _ => {}
        }
    }
    Ok(())
}
