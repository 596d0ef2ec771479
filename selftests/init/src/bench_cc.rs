// SPDX-License-Identifier: GPL-2.0
//! Traffic for `make bench-kmod`: a transfer with each congestion control through a port of ours, alone on
//! the machine. Who counts instructions is outside; this says where the functions are.

use crate::{
    ktap, modules,
    selftest::{
        data,
        line::{self, Line, RECEIVER, SENDER},
        set_sysctl, telemetry,
    },
    tcp, traffic,
};
use anyhow::{Context as _, Result};
use std::{fs, net::TcpListener};

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
const BYTES: usize = 8 << 20;

/// Runs them all and names the functions.
pub fn run() -> Result<()> {
    ktap::run(&[("traffic", || traffic().map(|()| ktap::Outcome::Pass))]);
    Ok(())
}

fn traffic() -> Result<()> {
    modules::load("sch_int", "").context("load sch_int")?;
    for (cc, _) in RUNS {
        // What is not ours, modprobe loads by its name.
        let module = format!("tcp_{cc}");
        if modules::is_ours(&module) {
            modules::load(&module, "host_mbps=100").with_context(|| format!("load {module}"))?;
        }
    }
    for (cc, format) in RUNS {
        let _attached = format.map(telemetry::attach).transpose()?;
        // Single packets and a link slower than the machine, so that the window is what limits; not the
        // sender's own, where TCP's limit on what waits in a device would be it.
        let line = Line::new()?;
        let ecn = if cc == "dctcp" { "ecn 20pkt" } else { "" };
        line.set(
            2,
            3,
            &format!("rate 100mbit delay 3ms limit 64pkt int hop-id 2 {ecn}"),
        )?;
        let (sender, receiver) = (line.space(SENDER), line.space(RECEIVER));
        sender
            .enter(|| set_sysctl("net/ipv4/tcp_ecn", if ecn.is_empty() { "2" } else { "1" }))??;
        let at = receiver.enter(|| TcpListener::bind((line::address(RECEIVER, 3, false), 0)))??;
        tcp::set_congestion(&at, cc)?;
        let to = at.local_addr()?;
        let from = sender.enter(|| traffic::connect(to, cc))??;
        data::transfer((from, at.accept()?.0), cc, BYTES)?;
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
            // Where one of theirs ends.
            Some(_) => println!("@ {address} - {name}"),
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
