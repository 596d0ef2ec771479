// SPDX-License-Identifier: GPL-2.0
//! Runs a plan: [`build`] makes namespaces, links, queues and routes of the scenario's network, [`conduct`]
//! starts and stops flows and faults when the scenario says so, [`watch`] looks at sockets and queues, all
//! of it in virtual time. The answer goes into the directory that is shared with the host.

mod build;
mod cable;
mod conduct;
mod watch;

use crate::{boot, modules, net};
use anyhow::{Context as _, Result};
use nix::mount::{mount, MsFlags};
use plan::{Answer, Plan};
use std::{
    fs,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

/// Between the set-up and the first flow, so that nothing of the set-up is on the wire.
const SETTLE: Duration = Duration::from_millis(10);
/// Open files: two sockets per connection, and some.
const FILES: u64 = 1 << 16;

/// Runs the plan of the initramfs.
pub fn run() -> Result<()> {
    let out =
        boot::argument("fathom.out").context("no fathom.out= on the kernel's command line")?;
    fs::create_dir_all("/out")?;
    mount(
        Some("none"),
        "/out",
        Some("hostfs"),
        MsFlags::empty(),
        Some(out.as_str()),
    )
    .context("mount hostfs")?;
    let plan: Plan = serde_json::from_slice(&fs::read(plan::PLAN_FILE).context(plan::PLAN_FILE)?)?;
    let answer = execute(&plan)?;
    let file = format!("/out/{}", plan::ANSWER_FILE);
    fs::write(format!("{file}.part"), serde_json::to_vec(&answer)?).context("write the answer")?;
    fs::rename(format!("{file}.part"), file).context("write the answer")
}

/// The first moment in `wait` or later at which the kernel's clock is at a whole millisecond: its timers, its
/// clock of microseconds and TCP's of milliseconds all turn then, as they do at the simulator's time zero.
fn next_tick(wait: Duration) -> Result<Instant> {
    use nix::time::{clock_gettime, ClockId};
    const TICK_NS: u128 = 1_000_000;
    let clock = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).context("clock")?);
    let now = Instant::now();
    let over = (clock + wait).as_nanos() % TICK_NS;
    let rest = if over == 0 { 0 } else { TICK_NS - over };
    Ok(now + wait + Duration::from_nanos(rest as u64))
}

fn execute(plan: &Plan) -> Result<Answer> {
    use rustix::process::{setrlimit, Resource, Rlimit};
    let files = Rlimit {
        current: Some(FILES),
        maximum: Some(FILES),
    };
    setrlimit(Resource::Nofile, files).context("raise the limit of open files")?;
    // Of all sockets together, pages: without it many flows come under memory pressure, and receivers
    // then offer four packets.
    fs::write("/proc/sys/net/ipv4/tcp_mem", "131072 196608 262144").context("sysctl tcp_mem")?;
    for (file, value) in &plan.settings {
        fs::write(format!("/sys/module/{file}"), value)
            .with_context(|| format!("set /sys/module/{file} to {value}"))?;
    }
    for module in &plan.modules {
        modules::load(&module.name, &module.params)
            .with_context(|| format!("load {} {}", module.name, module.params))?;
    }
    let _programs = telemetry(plan)?;

    let runtime = net::runtime()?;
    let lab = build::Lab::new(plan, &runtime)?;
    let (network, begins) = (Arc::new(plan.network.clone()), Arc::new(OnceLock::new()));
    for cable in &lab.cables {
        cable.run(&network, &begins)?;
    }
    lab.warm_up()?;
    let start = next_tick(SETTLE)?;
    begins.set(start).ok();
    let senders = conduct::start(plan, &lab, start)?;
    watch::watch(plan, &lab, &senders, start)
}

/// Loads the eBPF programs and gives their map to `tcp_int`. They stay while the value lives.
fn telemetry(plan: &Plan) -> Result<Option<int::Loaded>> {
    let Some(format) = plan.telemetry else {
        return Ok(None);
    };
    let r = &plan.network;
    let own_ports = |f: &scenario::Flow| r.nodes[f.src].ports.first();
    let extra_hops = r
        .flows
        .iter()
        .filter_map(own_ports)
        .any(|&p| r.port(p).int)
        .into();
    let loaded = int::Loaded::new(&int::Options {
        object: format!("/{}", int::OBJECT).into(),
        settings: int::Settings {
            wants: format.wire() as u8,
            extra_hops,
            // An option in every packet, as in the simulator.
            per_window_shift: 31,
            ..int::Settings::DEFAULT
        },
        cgroup: Some("/sys/fs/cgroup".into()),
        ..int::Options::default()
    })?;
    int::Device::open()?.bind(loaded.storage()?, false)?;
    Ok(Some(loaded))
}
