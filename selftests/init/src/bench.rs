// SPDX-License-Identifier: GPL-2.0
//! What telemetry costs: iperf3 between two namespaces with and without it, in turn, in one run.
//!
//! Compared honestly: both have the same MSS (the option takes eight bytes of it, so plain TCP's is
//! clamped), both write a megabyte at a time, and each ratio is of two runs that followed each other.

use crate::{
    modules,
    net::{self, Net},
    netns::Netns,
    selftest::data,
};
use anyhow::{ensure, Context as _, Result};
use int::{Count, Loaded, Options, Settings, XdpMode};
use std::{
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// Bytes that an mpd option takes of the MSS, and what iperf3 is told so that plain TCP has the same.
const CLAMPED_MSS: &str = "1452";
const PAIRS: usize = 7;
const SECONDS: &str = "3";
/// A process 1 has no PATH.
const IPERF3: &str = "/usr/sbin/iperf3";

struct Wire {
    a: Netns,
    b: Netns,
    net_a: Net<'static>,
    server: Child,
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.server.kill().ok();
        self.server.wait().ok();
    }
}

/// In scope of the programs, and out of it.
const WITH: (&str, &str) = ("10.0.0.1", "10.0.0.2");
const PLAIN: (&str, &str) = ("10.8.0.1", "10.8.0.2");

impl Wire {
    fn new() -> Result<Self> {
        let runtime = data::runtime()?;
        let (a, b) = (Netns::new()?, Netns::new()?);
        let (net_a, net_b) = (Net::open(runtime, &a)?, Net::open(runtime, &b)?);
        net_a.add_veth("a", "b", &b)?;
        for (net, name) in [(&net_a, "a"), (&net_b, "b")] {
            net.up("lo", false)?;
            net.up(name, false)?;
        }
        for (from, to) in [WITH, PLAIN] {
            net_a.address("a", from.parse()?, 24)?;
            net_b.address("b", to.parse()?, 24)?;
        }
        let server = b
            .enter(|| Command::new(IPERF3).arg("-s").stdout(Stdio::null()).spawn())?
            .context("iperf3 -s")?;
        thread::sleep(Duration::from_millis(500));
        Ok(Self {
            a,
            b,
            net_a,
            server,
        })
    }

    /// Throughput of one run, Gbit/s, as the receiver counted it.
    fn run(&self, to: &str, mss: Option<&str>) -> Result<f64> {
        let mut command = Command::new(IPERF3);
        command.args(["-c", to, "-t", SECONDS, "-l", "1M", "-J", "-C", "cubic"]);
        if let Some(mss) = mss {
            command.args(["-M", mss]);
        }
        let out = self.a.enter(|| command.output())?.context("iperf3 -c")?;
        let json: serde_json::Value =
            serde_json::from_slice(&out.stdout).context("what iperf3 printed")?;
        let rate = json["end"]["sum_received"]["bits_per_second"].as_f64();
        Ok(rate.with_context(|| format!("iperf3: {}", json["error"]))? / 1e9)
    }

    /// The median of the ratios of runs with telemetry to runs without, and both medians.
    fn compare(&self) -> Result<(f64, f64, f64)> {
        let (mut with, mut plain, mut ratios) = (vec![], vec![], vec![]);
        self.run(PLAIN.1, Some(CLAMPED_MSS))?; // warm
        for i in 0..PAIRS {
            let (x, y) = if i % 2 == 0 {
                let y = self.run(PLAIN.1, Some(CLAMPED_MSS))?;
                (self.run(WITH.1, None)?, y)
            } else {
                let x = self.run(WITH.1, None)?;
                (x, self.run(PLAIN.1, Some(CLAMPED_MSS))?)
            };
            with.push(x);
            plain.push(y);
            ratios.push(x / y);
        }
        Ok((median(with), median(plain), median(ratios)))
    }
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn options(per_window_shift: u8) -> Options {
    Options {
        object: "/fathom-int.bpf".into(),
        settings: Settings {
            per_window_shift,
            ..Settings::DEFAULT
        },
        cgroup: Some("/sys/fs/cgroup".into()),
        prefixes: vec!["10.0.0.0/24".parse().expect("a prefix")],
        ..Options::default()
    }
}

/// Runs the benchmark and prints its tables; as KTAP, so that who boots it knows when it is done.
pub fn run() -> Result<()> {
    println!("KTAP version 1\n1..2");
    for (number, name, test) in [
        (1, "throughput", throughput as fn() -> Result<()>),
        (2, "gro", gro),
    ] {
        match test() {
            Ok(()) => println!("ok {number} {name}"),
            Err(e) => println!("# {e:#}\nnot ok {number} {name}"),
        }
    }
    Ok(())
}

fn throughput() -> Result<()> {
    println!("# | veth, TSO and GRO on, {PAIRS} pairs of {SECONDS} s | with, Gbit/s | plain, Gbit/s | with / plain |");
    println!("# |---|---|---|---|");
    let mut default = 0.0;
    for (what, shift) in [
        ("16 options a window (default)", Settings::PER_WINDOW_SHIFT),
        ("an option in every segment", 20),
    ] {
        let wire = Wire::new()?;
        let loaded = Loaded::new(&options(shift))?;
        let (with, plain, ratio) = wire.compare()?;
        let agreed = loaded.counts()?[Count::Agreed as usize];
        ensure!(agreed > 0, "no connection agreed on telemetry");
        println!("# | {what} | {with:.2} | {plain:.2} | {ratio:.3} |");
        if shift == Settings::PER_WINDOW_SHIFT {
            default = ratio;
        }
    }
    ensure!(default >= 0.97, "{default:.3} of plain TCP, less than 0.97");
    Ok(())
}

/// Segments that GRO merges into one, with hops that write different values into each.
fn gro() -> Result<()> {
    modules::load("sch_int", "").ok();
    println!("# | hop that writes, GRO on the receiver | segments per packet with | plain | with / plain |");
    println!("# |---|---|---|---|");
    let wire = Wire::new()?;
    wire.net_a.qdisc("a", wire::tc::NAME, {
        let mut options = net::port(0, 0, 4 << 20, 0);
        options.extend(wire::tc::attribute(wire::tc::INT, 1));
        options
    })?;
    let on = wire.b.enter(|| {
        Command::new("/usr/sbin/ethtool")
            .args(["-K", "b", "gro", "on"])
            .status()
    })??;
    ensure!(on.success(), "ethtool -K b gro on");
    let loaded = wire.b.enter(|| {
        Loaded::new(&Options {
            xdp: vec![("b".into(), XdpMode::Driver)],
            gro: vec!["b".into()],
            ..options(Settings::PER_WINDOW_SHIFT)
        })
    })??;
    let merged = |to: &str, mss: Option<&str>| -> Result<f64> {
        let before = loaded.counts()?;
        wire.run(to, mss)?;
        let after = loaded.counts()?;
        let grown = |count: Count| (after[count as usize] - before[count as usize]) as f64;
        Ok(grown(Count::Segments) / grown(Count::Skbs).max(1.0))
    };
    let (mut with, mut plain) = (vec![], vec![]);
    for _ in 0..3 {
        plain.push(merged(PLAIN.1, Some(CLAMPED_MSS))?);
        with.push(merged(WITH.1, None)?);
    }
    let (with, plain) = (median(with), median(plain));
    let kept = with / plain;
    println!("# | XDP takes the forward part off | {with:.1} | {plain:.1} | {kept:.3} |");
    let taken = loaded.counts()?[Count::XdpTaken as usize];
    ensure!(taken > 0, "XDP took nothing off");
    ensure!(
        kept >= 0.9,
        "{kept:.2} of plain TCP's segments per packet, less than 0.9"
    );
    Ok(())
}
