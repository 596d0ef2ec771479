// SPDX-License-Identifier: GPL-2.0
//! The software switch port (`sch_int`) on a real device.

use super::data::{self, Pair};
use crate::{ktap::Outcome, modules, net};
use anyhow::{ensure, Context as _, Result};
use std::time::Instant;
use wire::tc;

const MODULE: &str = "sch_int";

/// Data crosses a port of 400 Mbit/s intact, GSO packets and all, and not faster than that.
pub fn carries_data() -> Result<Outcome> {
    modules::load(MODULE, "").context("load")?;
    let pair = Pair::new()?;
    let (rate_mbps, bytes) = (400, 8 << 20);
    pair.qdisc(tc::NAME, net::port(rate_mbps, 1_000_000, 4 << 20, 0))?;
    let start = Instant::now();
    let retransmits = data::transfer_over(&pair, "cubic", false, bytes)?;
    let mbps = bytes as f64 * 8e-6 / start.elapsed().as_secs_f64();
    println!("# {mbps:.0} Mbit/s through {rate_mbps}, {retransmits} retransmits");
    // What is in the buffers of both ends at the start and the end counts for nothing here.
    ensure!(
        mbps < rate_mbps as f64 * 1.05,
        "{mbps:.0} Mbit/s through a port of {rate_mbps}"
    );
    drop(pair);
    unload()
}

/// Options out of bounds are refused, and the device keeps what it had.
pub fn refuses_bad_options() -> Result<Outcome> {
    modules::load(MODULE, "").context("load")?;
    let pair = Pair::new()?;
    let good = net::port(1000, 0, 1 << 20, 0);
    for (what, bad) in [
        ("a rate too low", tc::attribute(tc::RATE, 1).to_vec()),
        (
            "a rate too high",
            tc::attribute(tc::RATE, u64::MAX).to_vec(),
        ),
        (
            "an endless delay",
            tc::attribute(tc::DELAY, u64::MAX).to_vec(),
        ),
        ("no buffer", tc::attribute(tc::LIMIT, 0).to_vec()),
        ("an unknown attribute", tc::attribute(99, 1).to_vec()),
        ("half an attribute", good[..good.len() - 4].to_vec()),
    ] {
        ensure!(pair.qdisc(tc::NAME, bad).is_err(), "{what} was accepted");
    }
    pair.qdisc(tc::NAME, good.clone()).context("good options")?;
    // On a device that has it, the same request is a change, and a bad one leaves it as it is.
    ensure!(
        pair.qdisc(tc::NAME, tc::attribute(tc::LIMIT, 0).to_vec())
            .is_err(),
        "no buffer was accepted as a change"
    );
    pair.qdisc(tc::NAME, net::port(2000, 1000, 1 << 20, 1 << 16))
        .context("a change")?;
    ensure!(
        modules::unload(MODULE).is_err(),
        "unloaded although a device uses it"
    );
    drop(pair);
    unload()
}

fn unload() -> Result<Outcome> {
    super::unload_when_free(MODULE)
}
