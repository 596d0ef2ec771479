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
    let one = |kind, value| tc::attribute(kind, value).to_vec();
    for (bad, says) in [
        (one(tc::RATE, 1), "rate must be 0 or from 1000"),
        (one(tc::RATE, u64::MAX), "rate must be 0 or from 1000"),
        (one(tc::DELAY, u64::MAX), "delay must be at most"),
        (one(tc::LIMIT, 0), "limit must be from 1"),
        (one(tc::ECN, u64::MAX), "ecn must be at most"),
        (one(tc::OVERHEAD, 10_001), "overhead must be at most"),
        (one(tc::INT, 2), "int must be 0 or 1"),
        (one(tc::HOP_ID, 256), "hop_id must be from 0 to 255"),
        (one(tc::SHIFT, 16), "shift must be from 0 to 15"),
        (one(tc::TARGET, u64::MAX), "target must be at most"),
        (one(tc::INTERVAL, 0), "interval must be from 1"),
        (one(tc::INTERVAL, 4_000_000_001), "interval must be from 1"),
        (one(tc::RPM, 100), "rpm must be 0 or a power of two"),
        (one(tc::RPM, 1 << 21), "rpm must be 0 or a power of two"),
        (one(tc::RPM, 1 << 32), "rpm must be 0 or a power of two"),
        (one(tc::LOG, 1 << 21), "log must be at most"),
        (one(tc::LOG_RECORDS, 1), "unknown attribute"),
        (one(99, 1), "unknown attribute"),
        (good[..good.len() - 4].to_vec(), "malformed attributes"),
    ] {
        let Err(refused) = pair.qdisc(tc::NAME, bad) else {
            anyhow::bail!("accepted, although {says}");
        };
        let said = format!("{refused:#}");
        ensure!(said.contains(says), "{said}, expected {says}");
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
