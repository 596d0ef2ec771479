// SPDX-License-Identifier: GPL-2.0
//! The record of decisions, `/dev/fathom_trace`.

use super::{
    data::{self, Pair},
    module, telemetry,
};
use crate::{ktap::Outcome, modules, net};
use anyhow::{ensure, Context as _, Result};
use std::{fs::File, io::Read as _, os::unix::process::CommandExt as _, process::Command};
use wire::{
    trace::{Decision, DEVICE, FULL_SIZE},
    Format,
};

/// Reads all records that there are.
fn read_all(device: &mut File) -> Result<Vec<Decision>> {
    let mut records = Vec::new();
    let mut buffer = vec![0; 64 * Decision::LEN];
    loop {
        let n = device.read(&mut buffer).context("read")?;
        ensure!(n % Decision::LEN == 0, "half a record");
        if n == 0 {
            return Ok(records);
        }
        for bytes in buffer[..n].chunks_exact(Decision::LEN) {
            let bytes = bytes.try_into().context("a record")?;
            records.push(Decision::parse(bytes).context("a record that cannot be read")?);
        }
    }
}

/// Every ACK of a transfer leaves a record that makes sense, in the order of time; none without a reader.
pub fn decisions(cc: &str) -> Result<()> {
    modules::load(&module(cc), "").context("load")?;
    let pair = Pair::new()?;
    pair.qdisc("netem", net::netem(100_000, 0, 0, 0))?;
    let mut device = File::open(DEVICE).context(DEVICE)?;
    data::transfer_over(&pair, cc, false, 1 << 20)?;
    let mut records = read_all(&mut device)?;
    // The receiver's end has the same congestion control and gets an ACK for its FIN.
    records.retain(|r| r.remote[12..] != [10, 0, 0, 1]);
    ensure!(records.len() > 10, "{} records", records.len());
    let mut last = 0;
    for r in &records {
        ensure!(r.law() == cc, "a record of {}", r.law());
        let acked = r.rest.acked != 0;
        ensure!(!acked || r.rest.cwnd >= 1, "no window: {r:?}");
        ensure!(r.rest.pacing_rate != 0, "no pacing rate: {r:?}");
        ensure!(r.rest.base_rtt_ns != 0, "no base RTT: {r:?}");
        ensure!(r.remote[12..] == [10, 0, 0, 2], "another peer: {r:?}");
        last = last.max(r.time_ns);
    }
    ensure!(
        records.iter().any(|r| r.rest.rtt_ns != 0),
        "no record has an RTT"
    );
    println!("# {} records, the last at {last} ns", records.len());
    drop(device);
    data::transfer_over(&pair, cc, false, 1 << 16)?;
    let left = read_all(&mut File::open(DEVICE)?)?;
    ensure!(
        left.is_empty(),
        "{} records of when nobody looked",
        left.len()
    );
    drop(pair);
    super::unload_when_free(&module(cc)).map(drop)
}

/// Segments that bear telemetry have less data by its length and are as long on the wire as any: they count as
/// full-size, or a connection would never learn its base RTT.
pub fn full_size() -> Result<Outcome> {
    for (cc, format) in [
        ("poseidon", Format::Mpd),
        ("powertcp", Format::Bottleneck),
        ("hpcc", Format::Stack),
    ] {
        let attached = telemetry::attach(format)?; // with its modules
        let pair = Pair::new()?;
        pair.net_a().up("a", true)?;
        pair.port("rate 1gbit delay 50us limit 4mb int hop-id 1")?;
        let mut device = File::open(DEVICE).context(DEVICE)?;
        data::transfer_over(&pair, cc, false, 1 << 20)?;
        let mut records = read_all(&mut device)?;
        records.retain(|r| r.rest.format != 0);
        let full = records.iter().filter(|r| r.rest.flags & FULL_SIZE != 0);
        let (full, all) = (full.count(), records.len());
        println!("# {cc}: {full} of {all} samples on full-size segments");
        ensure!(full > 50 && full * 2 > all, "{cc}: too few");
        drop((pair, attached));
    }
    for module in telemetry::MODULES.iter().rev() {
        super::unload_when_free(module)?;
    }
    Ok(Outcome::Pass)
}

/// One reader at a time, and only the administrator.
pub fn guarded() -> Result<Outcome> {
    let _reader = File::open(DEVICE).context(DEVICE)?;
    let e = File::open(DEVICE).err().context("two readers")?;
    ensure!(e.raw_os_error() == Some(libc::EBUSY), "{e}, expected EBUSY");
    drop(_reader);
    let nobody = Command::new("/init")
        .args(["open", DEVICE])
        .uid(65534)
        .gid(65534)
        .status()
        .context("/init open")?;
    ensure!(!nobody.success(), "an unprivileged process may look");
    Ok(Outcome::Pass)
}
