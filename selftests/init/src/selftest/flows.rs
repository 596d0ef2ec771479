// SPDX-License-Identifier: GPL-2.0
//! TCP over CoDel, marked forward and on the reverse path: the queue stays near the target and the line full.
//! In virtual time.

use super::data;
use crate::{ktap::Outcome, modules, net::Net, netns::Netns, traffic};
use anyhow::{ensure, Context as _, Result};
use std::{
    fs,
    net::Shutdown,
    time::{Duration, Instant},
};
use wire::tc;

const MODULE: &str = "sch_int";
const RATE: f64 = 125e6;
const TARGET_US: f64 = 500.0;
/// Base RTT 2 ms; the interval is a few of them.
const HOST: &str = "rate 10gbit delay 500us limit 16mb";
const BACK: &str = "rate 10gbit delay 500us limit 16mb rpm 4096";
const CODEL: &str = "rate 1gbit delay 500us limit 4mb target 500us interval 10ms";
const CODEL_RPM: &str = "rate 1gbit delay 500us limit 4mb target 500us interval 10ms rpm 4096";

/// A sender, a router, a receiver; the router's port towards the receiver is the bottleneck.
struct Path {
    s: Netns,
    d: Netns,
    _r: Netns,
    net_r: Net<'static>,
    _nets: [Net<'static>; 2],
}

impl Path {
    fn new(bottleneck: &str) -> Result<Self> {
        let runtime = data::runtime()?;
        let [s, r, d] = [host()?, host()?, host()?];
        r.enter(|| fs::write("/proc/sys/net/ipv4/ip_forward", "1"))??;
        let [net_s, net_r, net_d] = [
            Net::open(runtime, &s)?,
            Net::open(runtime, &r)?,
            Net::open(runtime, &d)?,
        ];
        net_s.add_veth("s", "rs", &r)?;
        net_d.add_veth("d", "rd", &r)?;
        for (net, name, address, options) in [
            (&net_s, "s", "10.1.0.1", HOST),
            (&net_r, "rs", "10.1.0.2", BACK),
            (&net_d, "d", "10.2.0.1", HOST),
            (&net_r, "rd", "10.2.0.2", bottleneck),
        ] {
            net.up(name, true)?;
            net.address(name, address.parse()?, 24)?;
            let words: Vec<&str> = options.split_whitespace().collect();
            let options = ::port::settings::parse(&words).map_err(anyhow::Error::msg)?;
            net.qdisc(name, tc::NAME, options)?;
        }
        net_s.route("10.2.0.1".parse()?, "10.1.0.2".parse()?)?;
        net_d.route("10.1.0.1".parse()?, "10.2.0.2".parse()?)?;
        Ok(Self {
            s,
            d,
            _r: r,
            net_r,
            _nets: [net_s, net_d],
        })
    }
}

/// A namespace whose connections ask for ECN and have room.
fn host() -> Result<Netns> {
    let space = Netns::new()?;
    space.enter(|| -> Result<()> {
        for (name, value) in [
            ("ipv4/tcp_ecn", "1"),
            ("ipv4/tcp_rmem", "4096 8388608 16777216"),
            ("ipv4/tcp_wmem", "4096 1048576 16777216"),
            ("ipv4/tcp_no_metrics_save", "1"),
            ("ipv6/conf/default/disable_ipv6", "1"),
        ] {
            let file = format!("/proc/sys/net/{name}");
            fs::write(&file, value).context(file)?;
        }
        Ok(())
    })??;
    Ok(space)
}

/// Two flows of `cc` for a second; the queue is looked at each ms of the last 600.
fn run(cc: &str, bottleneck: &str) -> Result<()> {
    let path = Path::new(bottleneck)?;
    let start = Instant::now() + Duration::from_millis(10);
    let mut senders = Vec::new();
    for _ in 0..2 {
        let to = traffic::receive(&path.d, "10.2.0.1".parse()?, cc)?;
        senders.push(traffic::send(&path.s, to, cc, start, None));
    }
    traffic::sleep_until(start + Duration::from_millis(400));
    let before = path.net_r.queue("rd")?;
    let mut delays = Vec::new();
    for ms in 400..1000 {
        traffic::sleep_until(start + Duration::from_millis(ms));
        delays.push(path.net_r.queue("rd")?.backlog_bytes as f64 / RATE * 1e6);
    }
    let after = path.net_r.queue("rd")?;
    let set = path.net_r.queue("rs")?.stats[tc::STAT_RPM_SET];
    for sender in &senders {
        let socket = sender.socket().context("a flow never connected")?;
        socket.shutdown(Shutdown::Both).ok();
    }
    let sent = |stat: usize| after.stats[stat] - before.stats[stat];
    let carried = sent(tc::STAT_BYTES) + 24 * sent(tc::STAT_PACKETS);
    let line = carried as f64 / (RATE * 0.6);
    delays.sort_by(f64::total_cmp);
    let mean = delays.iter().sum::<f64>() / delays.len() as f64;
    let p99 = delays[delays.len() * 99 / 100];
    let stat = |stat: usize| after.stats[stat];
    let rpm = after.setting(tc::RPM).unwrap_or(0) != 0;
    println!(
        "# {cc}, {}: {line:.3} of the line, queue mean {mean:.0} us, p99 {p99:.0} us, chosen {}, CE {}, counted {}, ACKs marked {set}, dropped {}",
        if rpm { "reverse path" } else { "forward" },
        stat(tc::STAT_CODEL),
        stat(tc::STAT_MARKS),
        stat(tc::STAT_RPM_COUNTED),
        after.drops,
    );
    ensure!(line > LINE, "{line:.3} of the line");
    ensure!(
        mean < MEAN * TARGET_US,
        "mean queue {mean:.0} us for a target of {TARGET_US}"
    );
    ensure!(stat(tc::STAT_CODEL) > 10, "CoDel had nothing to do");
    if rpm {
        let left = stat(tc::STAT_RPM_COUNTED) - set;
        ensure!(
            stat(tc::STAT_MARKS) == stat(tc::STAT_RPM_FULL) && set > 10 && left <= 30,
            "{} CE, {} counted, {set} ACKs marked",
            stat(tc::STAT_MARKS),
            stat(tc::STAT_RPM_COUNTED)
        );
    } else {
        ensure!(
            stat(tc::STAT_MARKS) == stat(tc::STAT_CODEL) && set == 0,
            "forward"
        );
    }
    Ok(())
}

/// The least share of the line, and the longest mean queue in targets.
const LINE: f64 = 0.97;
const MEAN: f64 = 2.0;

/// CUBIC and DCTCP, both ways.
pub fn queue_near_target() -> Result<Outcome> {
    modules::load(MODULE, "").context("load")?;
    for cc in ["cubic", "dctcp"] {
        for bottleneck in [CODEL, CODEL_RPM] {
            run(cc, bottleneck)?;
        }
    }
    Ok(Outcome::Pass)
}
