// SPDX-License-Identifier: GPL-2.0
//! Loading, refusing, unloading.

use super::{kernel_log, sysctl, CC, MODULE};
use crate::{ktap::Outcome, modules, selftest::data};
use anyhow::{ensure, Context as _, Result};
use std::{fs, thread, time::Duration};

/// It loads, and the kernel says so.
pub fn loads() -> Result<Outcome> {
    modules::load(MODULE, "").context("load")?;
    ensure!(is_loaded()?, "{MODULE} is not in /proc/modules");
    Ok(Outcome::Pass)
}

/// Its congestion control can be chosen by name.
pub fn listed() -> Result<Outcome> {
    ensure!(
        is_available()?,
        "{CC} is not in tcp_available_congestion_control"
    );
    modules::unload(MODULE).context("unload")?;
    ensure!(!is_available()?, "{CC} is still available after unload");
    Ok(Outcome::Pass)
}

/// Values out of bounds are refused, and the log names parameter, value and bounds.
pub fn bad_parameters() -> Result<Outcome> {
    for (params, says) in [
        (
            "gamma_percent=0",
            "gamma_percent=0 is out of range, expected 1 to 100",
        ),
        (
            "gamma_percent=101",
            "gamma_percent=101 is out of range, expected 1 to 100",
        ),
        (
            "flows_per_host=1001",
            "flows_per_host=1001 is out of range, expected 1 to 1000",
        ),
        (
            "gentle_start=2",
            "gentle_start=2 is out of range, expected 0 to 1",
        ),
        (
            "host_mbps=10000001",
            "host_mbps=10000001 is out of range, expected 0 to 10000000",
        ),
        (
            "base_rtt_us=1000001",
            "base_rtt_us=1000001 is out of range, expected 0 to 1000000",
        ),
        ("gamma_percent=many", "invalid for parameter"),
        ("gamma_percent=-1", "invalid for parameter"),
    ] {
        let e = modules::load(MODULE, params)
            .err()
            .with_context(|| format!("{params} was accepted"))?;
        // What module! cannot parse at all it refuses as EINVAL or ERANGE.
        ensure!(
            matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ERANGE)),
            "{params}: refused with {e}, expected EINVAL"
        );
        ensure!(
            !is_loaded()? && !is_available()?,
            "{params}: refused, but something stayed"
        );
        let log = kernel_log()?;
        ensure!(
            log.contains(says),
            "{params}: the kernel's log does not say '{says}'"
        );
    }
    modules::load(
        MODULE,
        "gamma_percent=100 flows_per_host=1 host_mbps=400000 base_rtt_us=20",
    )
    .context("good parameters are refused")?;
    modules::unload(MODULE)?;
    Ok(Outcome::Pass)
}

/// A socket that uses it keeps it loaded.
pub fn in_use() -> Result<Outcome> {
    modules::load(MODULE, "").context("load")?;
    let pair = data::Pair::new()?;
    let (a, b) = pair.connect(CC, false)?;
    let e = modules::unload(MODULE)
        .err()
        .context("unloaded although a connection uses it")?;
    ensure!(
        matches!(e.raw_os_error(), Some(libc::EWOULDBLOCK | libc::EBUSY)),
        "unload while in use: {e}, expected EWOULDBLOCK"
    );
    ensure!(is_available()?, "gone although unload was refused");
    drop((a, b));
    drop(pair);
    super::unload_when_free(MODULE)?;
    ensure!(!is_loaded()?, "unloaded, but still there");
    Ok(Outcome::Pass)
}

/// Cycles before counting, so that caches have their size.
const WARM_UP: usize = 20;
const CYCLES: usize = 200;

/// Loading and unloading gives everything back: one object lost a cycle would be 200.
pub fn cycles() -> Result<Outcome> {
    if !std::path::Path::new("/proc/slabinfo").exists() {
        return Ok(Outcome::Skip("this kernel has no /proc/slabinfo".into()));
    }
    let cycle = || -> Result<()> {
        modules::load(MODULE, "").context("load")?;
        modules::unload(MODULE).context("unload")
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

pub(super) fn is_loaded() -> Result<bool> {
    Ok(fs::read_to_string("/proc/modules")?
        .lines()
        .any(|line| line.split(' ').next() == Some(MODULE)))
}

pub(super) fn is_available() -> Result<bool> {
    Ok(sysctl("net/ipv4/tcp_available_congestion_control")?
        .split(' ')
        .any(|name| name == CC))
}
