// SPDX-License-Identifier: GPL-2.0
//! How a congestion control is chosen: by sysctl, per namespace, by a process.

use super::{lifecycle, module, set_sysctl, sysctl};
use crate::{ktap::Outcome, modules, netns::Netns, tcp};
use anyhow::{ensure, Context as _, Result};
use std::{os::unix::process::CommandExt as _, process::Command};

const DEFAULT: &str = "net/ipv4/tcp_congestion_control";
const ALLOWED: &str = "net/ipv4/tcp_allowed_congestion_control";
const NOBODY: u32 = 65534;

/// Naming it in the sysctl loads the module and what it needs, through modprobe.
pub fn autoload(cc: &str) -> Result<()> {
    let module = &module(cc);
    ensure!(!lifecycle::is_loaded(module)?, "loaded before the test");
    let before = sysctl(DEFAULT)?;
    set_sysctl(DEFAULT, cc)?;
    ensure!(
        lifecycle::is_loaded(module)?,
        "the sysctl was set, but the module is not loaded"
    );
    ensure!(
        sysctl(DEFAULT)? == cc,
        "the default is {}",
        sysctl(DEFAULT)?
    );
    set_sysctl(DEFAULT, &before)?;
    modules::unload(module).context("unload")
}

/// Each namespace has its own default.
///
/// That a namespace cannot choose what the administrator has not allowed is not tried here: when Linux 7.2
/// refuses (`tcp_set_default_congestion_control`), it keeps the reference to the module that it took, and
/// no module could be unloaded after it.
pub fn per_netns(cc: &str) -> Result<()> {
    let module = &module(cc);
    modules::load(module, "").context("load")?;
    let before = sysctl(DEFAULT)?;
    let other = Netns::new()?;
    allow(cc)?;
    other.enter(|| set_sysctl(DEFAULT, cc))??;
    ensure!(
        other.enter(|| sysctl(DEFAULT))?? == cc,
        "the namespace's default did not change"
    );
    ensure!(
        sysctl(DEFAULT)? == before,
        "the first namespace's default changed too"
    );
    drop(other);
    // Which also takes the permission back.
    super::unload_when_free(module).map(drop)
}

/// An unprivileged process may choose it when the administrator allows it, and not before.
pub fn unprivileged() -> Result<Outcome> {
    const CC: &str = "theta_powertcp";
    modules::load(&module(CC), "").context("load")?;
    let try_it = || -> Result<bool> {
        Ok(Command::new("/init")
            .args(["choose", CC])
            .uid(NOBODY)
            .gid(NOBODY)
            .status()
            .context("/init choose")?
            .success())
    };
    choose(CC).context("as root")?;
    ensure!(
        !try_it()?,
        "an unprivileged process chose a restricted control"
    );
    allow(CC)?;
    ensure!(
        try_it()?,
        "an unprivileged process could not choose an allowed control"
    );
    super::unload_when_free(&module(CC))
}

/// Chooses a congestion control for a socket of its own.
pub fn choose(cc: &str) -> Result<()> {
    let socket = std::net::TcpListener::bind("127.0.0.1:0")?;
    tcp::set_congestion(&socket, cc).with_context(|| format!("TCP_CONGESTION {cc}"))?;
    ensure!(
        tcp::congestion(&socket)? == cc,
        "the socket has {}",
        tcp::congestion(&socket)?
    );
    Ok(())
}

fn allow(cc: &str) -> Result<()> {
    let allowed = sysctl(ALLOWED)?;
    set_sysctl(ALLOWED, &format!("{allowed} {cc}"))
}
