// SPDX-License-Identifier: GPL-2.0
//! Parameters at run time: `/proc/sys/net/fathom/NAME/`.

use super::{data::Pair, module, set_sysctl, sysctl};
use crate::{ktap::Outcome, modules, netns::Netns, tcp};
use anyhow::{ensure, Context as _, Result};
use std::{io, path::Path, thread, time::Duration};

const CC: &str = "theta_powertcp";
const BASE_RTT: &str = "net/fathom/theta_powertcp/base_rtt_us";

/// The kernel's answer to a bad value.
fn errno(e: &anyhow::Error) -> Option<i32> {
    e.downcast_ref::<io::Error>()?.raw_os_error()
}

/// They are there with the module, take what is in bounds, refuse the rest, and go with the module.
pub fn change(cc: &str) -> Result<()> {
    modules::load(&module(cc), "host_mbps=25000").context("load")?;
    let name = format!("net/fathom/{cc}/host_mbps");
    ensure!(sysctl(&name)? == "25000", "host_mbps={}", sysctl(&name)?);
    set_sysctl(&name, "40000")?;
    for bad in ["10000001", "-1", "many", "99999999999"] {
        let e = set_sysctl(&name, bad)
            .err()
            .with_context(|| format!("host_mbps={bad} was accepted"))?;
        ensure!(errno(&e) == Some(libc::EINVAL), "host_mbps={bad}: {e:#}");
    }
    ensure!(sysctl(&name)? == "40000", "host_mbps={}", sysctl(&name)?);
    modules::unload(&module(cc)).context("unload")?;
    ensure!(
        !Path::new("/proc/sys").join(&name).exists(),
        "{name} stayed after unload"
    );
    Ok(())
}

/// Each namespace has its own; a new one begins with those of the first.
pub fn per_netns() -> Result<Outcome> {
    modules::load(&module(CC), "").context("load")?;
    let (a, b) = (Netns::new()?, Netns::new()?);
    a.enter(|| set_sysctl(BASE_RTT, "50"))??;
    let of_b = b.enter(|| sysctl(BASE_RTT))??;
    ensure!(of_b == "0", "another namespace has {of_b}");
    set_sysctl(BASE_RTT, "70")?;
    let of_a = a.enter(|| sysctl(BASE_RTT))??;
    ensure!(of_a == "50", "a namespace of its own has {of_a}");
    let of_new = Netns::new()?.enter(|| sysctl(BASE_RTT))??;
    ensure!(of_new == "70", "a new namespace has {of_new}");
    drop((a, b));
    super::unload_when_free(&module(CC))
}

/// A change is for connections that begin after it.
pub fn kept() -> Result<Outcome> {
    modules::load(&module(CC), "base_rtt_us=111").context("load")?;
    let pair = Pair::new()?;
    let mut open = Vec::new();
    for us in [111, 222, 333] {
        pair.at_a(|| set_sysctl(BASE_RTT, &us.to_string()))??;
        let (sender, receiver) = pair.connect(CC, false)?;
        open.push((sender, receiver, us));
        for (sender, _, began_with) in &open {
            let has = tcp::cc_info(sender)?.min_rtt_us;
            ensure!(has == *began_with, "{has} us, began with {began_with}");
        }
    }
    drop((open, pair));
    super::unload_when_free(&module(CC))
}

/// Connections hold a bounded number of versions per namespace; when they end, there is room again.
pub fn bounded() -> Result<Outcome> {
    modules::load(&module(CC), "").context("load")?;
    let (pair, other) = (Pair::new()?, Netns::new()?);
    let set = |us: u32| pair.at_a(|| set_sysctl(BASE_RTT, &us.to_string()));
    let mut open = Vec::new();
    let refused = loop {
        let us = 100 + open.len() as u32;
        ensure!(us < 200, "a hundred versions at a time");
        match set(us)? {
            Ok(()) => open.push(pair.connect(CC, false)?),
            Err(e) => break e,
        }
    };
    println!("# {} versions held at a time", open.len());
    ensure!(errno(&refused) == Some(libc::ENOSPC), "{refused:#}");
    other
        .enter(|| set_sysctl(BASE_RTT, "60"))?
        .context("another namespace has no room either")?;
    drop(open);
    for _ in 0..100 {
        if set(99)?.is_ok() {
            drop((pair, other));
            return super::unload_when_free(&module(CC));
        }
        thread::sleep(Duration::from_millis(100));
    }
    anyhow::bail!("no room 10 s after the last connection ended")
}
