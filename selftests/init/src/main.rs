// SPDX-License-Identifier: GPL-2.0
//! The one program inside the lab and the VM. As process 1 it mounts what a program needs, does what the
//! kernel's command line asks for (`fathom.role=`), and powers off. It is static and needs no other file.
//!
//! * `lab`: runs the plan of the initramfs and writes the answer.
//! * `selftest`: runs the selftests and prints KTAP.
//! * `port`, `telemetry`: run those of the software switch port and of telemetry, in the lab.
//! * `bench-int`: measures what telemetry costs, in the VM.
//! * `soak`: hundreds of connections over a bad path, in the VM and the lab.
//! * `fault`: loads a module that does something wrong, in the lab's debug kernel.
//! * Called by name (`/init as-user …`), it is the unprivileged half of a selftest.

mod bench;
mod bench_cc;
mod boot;
mod ktap;
mod lab;
mod modules;
mod net;
mod netem;
mod netns;
mod selftest;
mod soak;
mod tcp;
mod traffic;

use anyhow::{bail, Context as _, Result};

fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let Some(command) = args.get(1).filter(|_| std::process::id() != 1) {
        return selftest::as_user(command, &args[2..]);
    }
    let result = boot::mounts()
        .map(|()| boot::up())
        .and_then(|()| boot::exact_sleeps())
        .and_then(|()| run());
    if let Err(e) = result {
        println!("fathom-init: error: {e:#}");
    }
    boot::leaks();
    boot::power_off()
}

fn run() -> Result<()> {
    let role =
        boot::argument("fathom.role").context("no fathom.role= on the kernel's command line")?;
    match role.as_str() {
        "lab" => lab::run(),
        "selftest" => selftest::run(),
        "port" => selftest::run_port(),
        "telemetry" => selftest::run_telemetry(),
        "modules" => selftest::run_modules(),
        "bench-int" => bench::run(),
        "bench-kmod" => bench_cc::run(),
        "soak" => soak::run(),
        "fault" => fault(),
        other => {
            bail!("fathom.role={other}: unknown role, expected lab, selftest, port, telemetry, modules, bench-int, bench-kmod, soak or fault")
        }
    }
}

/// Loads the module of `fathom.fault=MODULE,PARAMETERS`, and says when the kernel goes on.
fn fault() -> Result<()> {
    let fault = boot::argument("fathom.fault").context("no fathom.fault=")?;
    let (module, parameters) = fault.split_once(',').unwrap_or((&fault, ""));
    modules::load(module, parameters).with_context(|| format!("load {fault}"))?;
    println!("fathom-init: {module} is loaded");
    Ok(())
}
