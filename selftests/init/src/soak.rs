// SPDX-License-Identifier: GPL-2.0
//! A soak: hundreds of connections of a law at once, over a path that loses, reorders and corrupts, each
//! opened, used and closed (or broken off), for as long as asked. Every byte is compared with what was sent, a
//! connection that stands still is named, and afterwards the kernel must have everything back.
//!
//! ```text
//! a ── netem ──► router ── int ──►  b     data; ACKs and answers take the same back
//! ```
//!
//! The hosts' ports are netem; the router's are ports of ours, which write telemetry for those laws that read
//! it. So cut-off windows, fallbacks and the socket storage's life are part of it.

mod exchange;
mod ledger;

use crate::{
    boot, ktap, modules,
    net::Net,
    netem::Faults,
    netns::Netns,
    selftest::{self, data},
    tcp,
};
use anyhow::{bail, ensure, Context as _, Result};
use exchange::{Shared, Totals};
use int::{Device, Loaded, Options, Settings};
use ledger::{Counters, Ledger};
use std::{
    fs,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use wire::Format;

/// The laws, and what of the path they read.
const LAWS: [(&str, Option<Format>); 5] = [
    ("poseidon", Some(Format::Mpd)),
    ("powertcp", Some(Format::Bottleneck)),
    ("theta_powertcp", None),
    ("hpcc", Some(Format::Stack)),
    ("swift", None),
];

/// What the path does to packets, each way.
const FAULTS: Faults = Faults {
    loss: 5_000,
    duplicate: 0,
    reorder: 10_000,
    corrupt: 1_000,
    delay_us: 1_000,
};
/// The router's ports. The rate is one that an emulated machine can keep up with.
const ROUTER: &str = "rate 200mbit limit 4mb int hop-id";
const A: &str = "10.1.0.1";
const B: &str = "10.2.0.1";

/// A minute is TCP's own patience with the end of a connection (`tcp_fin_timeout`).
const PATIENCE: Duration = Duration::from_secs(90);

/// How often a long soak shows where it is.
const SHOW: Duration = Duration::from_secs(30);

/// How much of it.
#[derive(Clone, Copy)]
pub struct Size {
    /// Connections at a time.
    pub connections: usize,
    /// How long new ones are opened.
    pub time: Duration,
}

/// What TCP saw of the path's corruption.
#[derive(Default)]
struct Damage {
    segments: u64,
    wrong: u64,
}

impl Damage {
    /// Fails when there were too few wrong checksums for the path to have done its part. netem takes one packet
    /// in a thousand, but a burst of segments is one packet to it and only its first segment is touched, so one
    /// segment in 2000 to 5000 is wrong; and many segments are needed before their number says anything.
    fn ensure_plausible(&self) -> Result<()> {
        let Self { segments, wrong } = self;
        ensure!(
            *segments < 100_000 || *wrong >= segments / 40_000,
            "{wrong} segments of {segments} had a wrong checksum: corruption was not seen"
        );
        Ok(())
    }
}

/// Runs the soak that the command line asks for: `fathom.seconds`, `fathom.connections`, `fathom.cc`. KTAP.
pub fn run() -> Result<()> {
    let number = |name: &str, default: u64| -> Result<u64> {
        match boot::argument(name) {
            Some(value) => value.parse().with_context(|| format!("{name}={value}")),
            None => Ok(default),
        }
    };
    let size = Size {
        connections: number("fathom.connections", 500)? as usize,
        time: Duration::from_secs(number("fathom.seconds", 300)?),
    };
    let wanted = boot::argument("fathom.cc").unwrap_or_default();
    let wanted: Vec<&str> = wanted.split(',').filter(|cc| !cc.is_empty()).collect();
    for cc in &wanted {
        ensure!(
            LAWS.iter().any(|(law, _)| law == cc),
            "fathom.cc={cc}: unknown, expected some of {}",
            LAWS.map(|(law, _)| law).join(",")
        );
    }
    let laws: Vec<_> = LAWS
        .into_iter()
        .filter(|(law, _)| wanted.is_empty() || wanted.contains(law))
        .collect();
    // Virtual time begins at zero, and TCP takes a packet sent at zero for one that was never sent.
    thread::sleep(Duration::from_millis(10));
    println!("KTAP version 1\n1..{}", laws.len() + 1);
    let report = |number: usize, name: &str, result: Result<()>| match result {
        Ok(()) => println!("ok {number} {name}"),
        Err(e) => {
            for line in format!("{e:#}").lines() {
                println!("# {line}");
            }
            println!("not ok {number} {name}");
        }
    };
    warm_up()?;
    for (i, (law, format)) in laws.iter().enumerate() {
        report(i + 1, &format!("soak_{law}"), soak(law, *format, size));
    }
    report(
        laws.len() + 1,
        "kernel_log_is_clean",
        selftest::log_is_clean().map(|_| ()),
    );
    Ok(())
}

/// A short one of all laws, for the selftests.
pub fn brief() -> Result<ktap::Outcome> {
    let size = Size {
        connections: 40,
        time: Duration::from_secs(1),
    };
    warm_up()?;
    let before = Ledger::now()?;
    let (mut opened, mut seen) = (0, Damage::default());
    for (law, format) in LAWS {
        let (totals, damage) = connections(law, format, size).with_context(|| law.to_owned())?;
        opened += totals.opened;
        seen.segments += damage.segments;
        seen.wrong += damage.wrong;
    }
    seen.ensure_plausible()?;
    let after = Ledger::now()?;
    println!("# {}", after.since(&before));
    after.ensure_nothing_more_than(&before, opened)?;
    Ok(ktap::Outcome::Pass)
}

/// Caches get their size before anything is counted, and the soak itself is seen to work without us.
fn warm_up() -> Result<()> {
    let size = Size {
        connections: 40,
        time: Duration::from_millis(300),
    };
    let path = Path::new()?;
    drive(&path, "cubic", size).context("warm-up with cubic")?;
    path.remove()
}

/// One law, and what the kernel has handed out before and after it.
fn soak(law: &str, format: Option<Format>, size: Size) -> Result<()> {
    let before = Ledger::now()?;
    let (totals, damage) = connections(law, format, size)?;
    damage.ensure_plausible()?;
    let after = Ledger::now()?;
    println!("# {law}: {}", after.since(&before));
    after.ensure_nothing_more_than(&before, totals.opened)
}

/// The connections of one law, from loading its modules to unloading them.
fn connections(law: &str, format: Option<Format>, size: Size) -> Result<(Totals, Damage)> {
    let others = loaded()?;
    load("sch_int")?;
    load(&format!("tcp_{law}"))?;
    let telemetry = format.map(Telemetry::new).transpose()?;
    let path = Path::new()?;
    let result = path.ports().and_then(|()| drive(&path, law, size));
    drop(telemetry);
    path.remove()?;
    // What is left is looked at even after a failure: the next law starts from there. The newest are first
    // in the list, and none needs one that is newer.
    let unloaded = loaded()?
        .iter()
        .filter(|m| !others.contains(m))
        .try_for_each(|m| unload(m));
    let totals = result?;
    unloaded.map(|()| totals)
}

/// Loads a module that may be there.
fn load(module: &str) -> Result<()> {
    match modules::load(module, "") {
        Err(e) if e.raw_os_error() != Some(libc::EEXIST) => {
            Err(e).with_context(|| format!("load {module}"))
        }
        _ => Ok(()),
    }
}

/// Unloads a module once the last connection's end has gone through: its FIN may have been lost a few times.
fn unload(module: &str) -> Result<()> {
    let start = Instant::now();
    while let Err(e) = modules::unload(module) {
        ensure!(
            start.elapsed() < PATIENCE,
            "{module} cannot be unloaded {} s after the last connection: {e}",
            PATIENCE.as_secs()
        );
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// The modules that are loaded, the newest first.
fn loaded() -> Result<Vec<String>> {
    let list = fs::read_to_string("/proc/modules").context("/proc/modules")?;
    let names = list.lines().filter_map(|line| line.split(' ').next());
    Ok(names.map(str::to_owned).collect())
}

/// Runs connections of `cc` from a to b; fails with what went wrong with them.
fn drive(path: &Path, cc: &str, size: Size) -> Result<(Totals, Damage)> {
    let listener = path.b.enter(|| TcpListener::bind((B, 0)))??;
    tcp::set_congestion(&listener, cc).with_context(|| format!("congestion control {cc}"))?;
    let to: SocketAddr = listener.local_addr()?;
    path.b
        .enter(|| selftest::set_sysctl("net/core/somaxconn", "4096"))??;
    exchange::room_for_sockets(2 * size.connections)?;
    let shared = Arc::new(Shared::new(
        cc,
        size.connections,
        Instant::now() + size.time,
    ));
    let (start, mut shown) = (Instant::now(), Duration::ZERO);
    let server = {
        let (shared, ns) = (shared.clone(), path.b.clone());
        thread::spawn(move || ns.join().and_then(|()| exchange::serve(listener, &shared)))
    };
    let client = {
        let (shared, ns) = (shared.clone(), path.a.clone());
        thread::spawn(move || ns.join().and_then(|()| exchange::open_all(to, &shared)))
    };
    // A sign of life now and then, from a machine that may be slow.
    while !client.is_finished() {
        thread::sleep(Duration::from_millis(100));
        let at = start.elapsed();
        if at >= shown + SHOW {
            shown = at;
            println!("# {cc}: {} s: {}", at.as_secs(), shared.totals());
        }
    }
    for (who, thread) in [("client", client), ("server", server)] {
        thread
            .join()
            .expect("the thread does not panic")
            .context(who)?;
    }
    let took = start.elapsed().as_secs_f64();
    let totals = shared.totals();
    let [a, b] = [&path.a, &path.b].map(|ns| ns.enter(Counters::now)?);
    let (a, b) = (a?, b?);
    println!(
        "# {cc}: {totals}; {took:.1} s, {:.1} Mbit/s",
        totals.bytes as f64 * 8e-6 / took
    );
    println!("# {cc}: a {a}; b {b}");
    let failures = shared.failures();
    ensure!(
        failures.is_empty(),
        "{} of {} connections failed:\n{}",
        failures.len(),
        totals.opened,
        failures[..failures.len().min(20)].join("\n")
    );
    ensure!(totals.done > 0, "not one connection was completed");
    let damage = Damage {
        segments: a.in_segs + b.in_segs,
        wrong: a.csum_errors + b.csum_errors,
    };
    Ok((totals, damage))
}

/// The eBPF programs, attached, and their map handed to `tcp_int`.
struct Telemetry(#[allow(dead_code)] Loaded);

impl Telemetry {
    fn new(format: Format) -> Result<Self> {
        let loaded = Loaded::new(&Options {
            object: "/fathom-int.bpf".into(),
            settings: Settings {
                wants: format as u8,
                ..Settings::DEFAULT
            },
            cgroup: Some("/sys/fs/cgroup".into()),
            ..Options::default()
        })?;
        Device::open()?.bind(loaded.storage()?, true)?;
        Ok(Self(loaded))
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Ok(mut device) = Device::open() {
            device.unbind().ok();
        }
    }
}

/// See the file's head.
struct Path {
    a: Netns,
    b: Netns,
    _r: Netns,
    net_r: Net<'static>,
    _nets: [Net<'static>; 2],
}

impl Path {
    fn new() -> Result<Self> {
        let runtime = data::runtime()?;
        let [a, r, b] = [Netns::new()?, Netns::new()?, Netns::new()?];
        r.enter(|| selftest::set_sysctl("net/ipv4/ip_forward", "1"))??;
        for host in [&a, &b] {
            // A port is free again after a second, not a minute: thousands of connections a minute.
            host.enter(|| selftest::set_sysctl("net/ipv4/tcp_tw_reuse", "1"))??;
            host.enter(|| selftest::set_sysctl("net/ipv4/ip_local_port_range", "1024 65535"))??;
        }
        let [net_a, net_r, net_b] = [
            Net::open(runtime, &a)?,
            Net::open(runtime, &r)?,
            Net::open(runtime, &b)?,
        ];
        net_a.add_veth("a", "ra", &r)?;
        net_b.add_veth("b", "rb", &r)?;
        for (net, name, address) in [
            (&net_a, "a", A),
            (&net_r, "ra", "10.1.0.2"),
            (&net_b, "b", B),
            (&net_r, "rb", "10.2.0.2"),
        ] {
            net.up(name, false)?;
            net.address(name, address.parse()?, 24)?;
        }
        net_a.route(B.parse()?, "10.1.0.2".parse()?)?;
        net_b.route(A.parse()?, "10.2.0.2".parse()?)?;
        for (net, name) in [(&net_a, "a"), (&net_b, "b")] {
            net.qdisc(name, "netem", FAULTS.options())?;
        }
        Ok(Self {
            a,
            b,
            _r: r,
            net_r,
            _nets: [net_a, net_b],
        })
    }

    /// Makes the router's ports ours.
    fn ports(&self) -> Result<()> {
        for (name, hop) in [("rb", 1), ("ra", 2)] {
            let options = format!("{ROUTER} {hop}");
            let words: Vec<&str> = options.split_whitespace().collect();
            match ::port::settings::parse(&words) {
                Ok(options) => self.net_r.qdisc(name, wire::tc::NAME, options)?,
                Err(e) => bail!("{options}: {e}"),
            }
        }
        Ok(())
    }

    /// Lets go of the namespaces: each lives until its netlink socket is closed, by a task that has to run.
    fn remove(self) -> Result<()> {
        drop(self);
        data::runtime()?.block_on(async { tokio::time::sleep(Duration::from_millis(20)).await });
        Ok(())
    }
}
