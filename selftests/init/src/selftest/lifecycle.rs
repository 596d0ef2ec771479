// SPDX-License-Identifier: GPL-2.0
//! Loading, refusing, unloading.

use super::{kernel_log, module, sysctl};
use crate::{ktap::Outcome, modules, selftest::data};
use anyhow::{ensure, Context as _, Result};
use std::{fs, thread, time::Duration};

/// It loads, can be chosen by name, and is gone when it is unloaded.
pub fn loads(cc: &str) -> Result<()> {
    let module = module(cc);
    modules::load(&module, "").context("load")?;
    ensure!(is_loaded(&module)?, "{module} is not in /proc/modules");
    ensure!(is_available(cc)?, "not in tcp_available_congestion_control");
    modules::unload(&module).context("unload")?;
    ensure!(!is_available(cc)?, "still available after unload");
    Ok(())
}

/// Values out of bounds are refused, and the log names parameter, value and bounds.
pub fn bad_parameters() -> Result<Outcome> {
    for (cc, params, says) in [
        (
            "theta_powertcp",
            "gamma_percent=0",
            "gamma_percent=0 is out of range, expected 1 to 100",
        ),
        (
            "theta_powertcp",
            "gamma_percent=101",
            "gamma_percent=101 is out of range, expected 1 to 100",
        ),
        (
            "theta_powertcp",
            "flows_per_host=1001",
            "flows_per_host=1001 is out of range, expected 1 to 1000",
        ),
        (
            "theta_powertcp",
            "gentle_start=2",
            "gentle_start=2 is out of range, expected 0 to 1",
        ),
        (
            "theta_powertcp",
            "host_mbps=10000001",
            "host_mbps=10000001 is out of range, expected 0 to 10000000",
        ),
        (
            "theta_powertcp",
            "base_rtt_us=1000001",
            "base_rtt_us=1000001 is out of range, expected 0 to 1000000",
        ),
        ("powertcp", "gamma_percent=many", "invalid for parameter"),
        ("powertcp", "gamma_percent=-1", "invalid for parameter"),
        (
            "poseidon",
            "m_thousandths=2000",
            "m_thousandths=2000 is out of range, expected 1 to 1999",
        ),
        (
            "poseidon",
            "max_rate_mbps=100 min_rate_mbps=51",
            "min_rate_mbps=51 is out of range, expected 0 to 50",
        ),
        (
            "hpcc",
            "eta_percent=100",
            "eta_percent=100 is out of range, expected 50 to 99",
        ),
        (
            "hpcc",
            "variable_ai=2",
            "variable_ai=2 is out of range, expected 0 to 1",
        ),
        (
            "swift",
            "sampling_frequency=65536",
            "sampling_frequency=65536 is out of range, expected 0 to 65535",
        ),
    ] {
        let module = &module(cc);
        let e = modules::load(module, params)
            .err()
            .with_context(|| format!("{params} was accepted"))?;
        // What module! cannot parse at all it refuses as EINVAL or ERANGE.
        ensure!(
            matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ERANGE)),
            "{params}: refused with {e}, expected EINVAL"
        );
        ensure!(
            !is_loaded(module)? && !is_available(cc)?,
            "{params}: refused, but something stayed"
        );
        let log = kernel_log()?;
        ensure!(
            log.contains(says),
            "{params}: the kernel's log does not say '{says}'"
        );
    }
    for (module, params) in [
        (
            "tcp_theta_powertcp",
            "gamma_percent=100 flows_per_host=1 host_mbps=400000 base_rtt_us=20 gentle_start=1",
        ),
        (
            "tcp_hpcc",
            "variable_ai=1 sampling_frequency=30 gentle_start=1",
        ),
        (
            "tcp_swift",
            "variable_ai=1 sampling_frequency=30 gentle_start=1",
        ),
        ("tcp_poseidon", "p_ns=40000 k_ns=2000 gentle_start=1"),
    ] {
        modules::load(module, params).context("good parameters are refused")?;
        modules::unload(module)?;
    }
    Ok(Outcome::Pass)
}

/// A socket that uses it keeps it loaded.
pub fn in_use(cc: &str) -> Result<()> {
    let module = &module(cc);
    modules::load(module, "").context("load")?;
    let pair = data::Pair::new()?;
    let (a, b) = pair.connect(cc, false)?;
    let e = modules::unload(module)
        .err()
        .context("unloaded although a connection uses it")?;
    ensure!(
        matches!(e.raw_os_error(), Some(libc::EWOULDBLOCK | libc::EBUSY)),
        "unload while in use: {e}, expected EWOULDBLOCK"
    );
    ensure!(is_available(cc)?, "gone although unload was refused");
    drop((a, b));
    drop(pair);
    super::unload_when_free(module)?;
    ensure!(!is_loaded(module)?, "unloaded, but still there");
    Ok(())
}

/// Cycles before counting, so that caches have their size.
const WARM_UP: usize = 5;
/// Of each module.
const CYCLES: usize = 40;

/// Loading and unloading gives everything back: one object lost a cycle would be 200.
pub fn cycles() -> Result<Outcome> {
    if !std::path::Path::new("/proc/slabinfo").exists() {
        return Ok(Outcome::Skip("this kernel has no /proc/slabinfo".into()));
    }
    let cycle = || -> Result<()> {
        for cc in super::CCS {
            modules::load(&module(cc), "").with_context(|| format!("load {cc}"))?;
            modules::unload(&module(cc)).with_context(|| format!("unload {cc}"))?;
        }
        Ok(())
    };
    for _ in 0..WARM_UP {
        cycle()?;
    }
    let before = Memory::now()?;
    for i in 0..CYCLES {
        cycle().with_context(|| format!("cycle {i}"))?;
    }
    let after = Memory::now()?;
    println!(
        "# kmalloc objects {} -> {}, vmalloc areas {} -> {}",
        before.slabs, after.slabs, before.areas, after.areas
    );
    let limit = CYCLES as i64 / 2;
    ensure!(
        after.slabs - before.slabs < limit,
        "{} kmalloc objects more",
        after.slabs - before.slabs
    );
    ensure!(
        after.areas - before.areas < limit,
        "{} vmalloc areas more",
        after.areas - before.areas
    );
    Ok(Outcome::Pass)
}

/// What the kernel has handed out.
struct Memory {
    slabs: i64,
    areas: i64,
}

impl Memory {
    fn now() -> Result<Self> {
        // Module memory is freed by a work item after a grace period.
        thread::sleep(Duration::from_secs(2));
        // Slabs that only cache free objects would count as in use.
        for cache in fs::read_dir("/sys/kernel/slab")? {
            fs::write(cache?.path().join("shrink"), "1").ok();
        }
        let slabs = fs::read_to_string("/proc/slabinfo").context("/proc/slabinfo")?;
        let slabs = slabs
            .lines()
            .filter(|line| line.starts_with("kmalloc-"))
            .filter_map(|line| line.split_whitespace().nth(1)?.parse::<i64>().ok())
            .sum();
        let areas = fs::read_to_string("/proc/vmallocinfo")
            .context("/proc/vmallocinfo")?
            .lines()
            .count() as i64;
        Ok(Self { slabs, areas })
    }
}

pub(super) fn is_loaded(module: &str) -> Result<bool> {
    Ok(fs::read_to_string("/proc/modules")?
        .lines()
        .any(|line| line.split(' ').next() == Some(module)))
}

pub(super) fn is_available(cc: &str) -> Result<bool> {
    Ok(sysctl("net/ipv4/tcp_available_congestion_control")?
        .split(' ')
        .any(|name| name == cc))
}
