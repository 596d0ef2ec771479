// SPDX-License-Identifier: GPL-2.0
//! `fathom attach`, `detach` and `status`: telemetry on this host.

use crate::{table, Outcome};
use anyhow::{bail, Context as _, Result};
use clap::{Args, ValueEnum};
use int::{Count, Device, Loaded, Options, Pinned, Prefix, Settings, State, XdpMode};
use serde::Serialize;
use std::path::PathBuf;

/// A telemetry format.
#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// The largest delay of any hop: Poseidon.
    Mpd = 1,
    /// The most congested hop's record: PowerTCP and HPCC on any path.
    Bottleneck = 2,
    /// A record of each hop: PowerTCP and HPCC on paths of up to three.
    Stack = 3,
}

/// Options of `fathom attach`.
#[derive(Args)]
pub struct AttachArgs {
    /// The cgroup (v2) whose connections take part; by default the root: all of this host.
    #[arg(long)]
    cgroup: Option<PathBuf>,
    /// The format to ask for; a peer that asks for another is given it.
    #[arg(long, value_enum, default_value = "mpd")]
    format: Format,
    /// Only for connections with these addresses (10.0.0.0/8, fd00::/16); may be given again.
    #[arg(long = "to", value_name = "PREFIX")]
    prefixes: Vec<Prefix>,
    /// Let tc parse what arrives on this device, instead of a callback per segment; may be given again.
    #[arg(long, value_name = "DEVICE")]
    tc: Vec<String>,
    /// Keep GRO whole: let XDP take the telemetry off packets that arrive on this device; may be given again.
    #[arg(long, value_name = "DEVICE")]
    xdp: Vec<String>,
    /// Run XDP in the stack, for drivers without it. GRO has seen the packets by then.
    #[arg(long)]
    xdp_generic: bool,
    /// Unit of an mpd delay in the fabric, as a power of two of ns.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u8).range(0..=15))]
    shift: u8,
    /// INT hops on the way to here that do not decrement the TTL (this host's own port, a layer 2 switch).
    #[arg(long, default_value_t = 0)]
    extra_hops: u8,
    /// Options per window of data, as a power of two.
    #[arg(long, default_value_t = Settings::PER_WINDOW_SHIFT, value_parser = clap::value_parser!(u8).range(0..=20))]
    per_window_shift: u8,
    /// Take the place of another map that tcp_int holds.
    #[arg(long)]
    replace: bool,
    /// Do not hand the map to tcp_int: telemetry is carried, and no congestion control reads it.
    #[arg(long)]
    no_module: bool,
    /// The eBPF programs; by default those beside this command.
    #[arg(long, value_name = "FILE")]
    object: Option<PathBuf>,
}

/// Options of `fathom detach`.
#[derive(Args)]
pub struct DetachArgs {}

/// Options of `fathom status`.
#[derive(Args)]
pub struct StatusArgs {
    /// For machines.
    #[arg(long)]
    json: bool,
    /// Also connections that carry none.
    #[arg(long)]
    all: bool,
}

/// `fathom attach`.
pub fn attach(args: &AttachArgs) -> Result<Outcome> {
    if Pinned::links()?.is_some() {
        bail!("something is attached already (try: fathom status, fathom detach)");
    }
    let mode = if args.xdp_generic {
        XdpMode::Generic
    } else {
        XdpMode::Driver
    };
    let cgroup = args.cgroup.clone().map_or_else(int::root_cgroup, Ok)?;
    let options = Options {
        object: args.object.clone().map_or_else(int::object, Ok)?,
        settings: Settings {
            wants: args.format as u8,
            shift: args.shift,
            extra_hops: args.extra_hops,
            per_window_shift: args.per_window_shift,
            ..Settings::DEFAULT
        },
        cgroup: Some(cgroup.clone()),
        tc: args.tc.clone(),
        xdp: args
            .xdp
            .iter()
            .map(|device| (device.clone(), mode))
            .collect(),
        prefixes: args.prefixes.clone(),
        ..Options::default()
    };
    // The module first: programs without it would only cost.
    let device = if args.no_module {
        None
    } else {
        Some(Device::open()?)
    };
    let loaded = Loaded::new(&options)?;
    if let Some(mut device) = device {
        device.bind(loaded.storage()?, args.replace)?;
    }
    if let Err(e) = loaded.pin() {
        if let Ok(mut device) = Device::open() {
            let _ = device.unbind();
        }
        return Err(e);
    }
    println!(
        "attached: {}",
        Pinned::links()?.unwrap_or_default().join(", ")
    );
    println!(
        "New connections of {} take part; fathom status shows them.",
        cgroup.display()
    );
    Ok(Outcome::Ok)
}

/// `fathom detach`.
pub fn detach(_args: &DetachArgs) -> Result<Outcome> {
    let unbound = match Device::open() {
        Ok(mut device) => device.unbind()?,
        Err(_) => false, // without the module there is nothing to take back
    };
    match Pinned::detach()? {
        Some(links) => println!("detached: {}", links.join(", ")),
        None if unbound => println!("took the map back from tcp_int"),
        None => println!("nothing was attached"),
    }
    Ok(Outcome::Ok)
}

#[derive(Serialize)]
struct Status {
    attached: Vec<String>,
    /// Does `tcp_int` hold the map of these programs?
    module: &'static str,
    counts: std::collections::BTreeMap<&'static str, u64>,
    flows: Vec<int::Flow>,
}

/// `fathom status`.
pub fn status(args: &StatusArgs) -> Result<Outcome> {
    let attached = Pinned::links()?;
    let module = match Device::read() {
        Err(_) => "not loaded, or not ours to ask",
        Ok(log) if log.map_id == 0 => "holds no map",
        Ok(log) if Pinned::storage_id().is_ok_and(|id| id == log.map_id) => "reads these records",
        Ok(_) => "holds another map",
    };
    let mut counts = std::collections::BTreeMap::new();
    let storage = match &attached {
        Some(_) => {
            counts.extend(Count::NAMES.into_iter().zip(Pinned::counts()?));
            Some(Pinned::storage()?)
        }
        None => None,
    };
    let mut flows = int::flows(storage.as_ref()).context("looking at the processes' sockets")?;
    flows.retain(|flow| args.all || flow.state != State::None);
    let status = Status {
        attached: attached.clone().unwrap_or_default(),
        module,
        counts,
        flows,
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&status)?);
        return Ok(Outcome::Ok);
    }
    match &attached {
        Some(links) => println!("attached: {}", links.join(", ")),
        None => println!("attached: nothing (try: fathom attach)"),
    }
    println!("tcp_int: {module}");
    let shown: Vec<_> = status.counts.iter().filter(|(_, n)| **n != 0).collect();
    if !shown.is_empty() {
        let text: Vec<_> = shown
            .iter()
            .map(|(name, n)| format!("{name} {n}"))
            .collect();
        println!("since then: {}", text.join(", "));
    }
    if status.flows.is_empty() {
        println!("no connection carries telemetry (--all shows the others)");
        return Ok(Outcome::Ok);
    }
    let mut rows = table::new(&[
        "process",
        "connection",
        "cc",
        "format",
        "samples",
        "sent",
        "routers",
        "note",
    ]);
    for flow in &status.flows {
        rows.add_row(vec![
            format!("{} {}", flow.pid, flow.command),
            format!("{} - {}", flow.local, flow.remote),
            flow.congestion_control.clone(),
            flow.format.unwrap_or("-").to_owned(),
            flow.samples.to_string(),
            flow.written.to_string(),
            flow.routers.map_or("?".into(), |n| n.to_string()),
            flow.why.unwrap_or("").to_owned(),
        ]);
    }
    println!("{rows}");
    Ok(Outcome::Ok)
}
