// SPDX-License-Identifier: GPL-2.0
//! CoDel of the software switch port: which packets are marked or dropped, against the control law.

use super::{frame::Segment, switch::Switch};
use crate::{ktap::Outcome, modules};
use anyhow::{ensure, Context as _, Result};
use wire::{exid, tc, KIND};

const MODULE: &str = "sch_int";
/// 200 us a frame, so that a burst waits for long.
const FRAME: usize = 1250;
const PORT: &str =
    "rate 50mbit overhead 0 limit 16mb int hop-id 1 log 4096 target 2ms interval 10ms";
const TARGET_NS: u64 = 2_000_000;
const INTERVAL_NS: f64 = 10e6;

/// A burst of frames of one flow, numbered, with the mpd option so that the port logs them.
pub fn burst(ipv6: bool, port: u16, ecn: u8, count: u32) -> Vec<Segment> {
    let [high, low] = exid::MPD.to_be_bytes();
    let head = 14 + if ipv6 { 40 } else { 20 } + 28;
    let one = Segment {
        ecn,
        payload: FRAME - head,
        options: vec![KIND, 8, high, low, 0, 0, 0, 0],
        ..Segment::new(ipv6, port)
    };
    (0..count)
        .map(|n| Segment {
            numbers: (n, 1),
            ..one.clone()
        })
        .collect()
}

/// The frames that RFC 8289 chooses of a burst that the log has whole: the first an interval after
/// waiting became too long, the n-th interval / sqrt(n-1) after that was due.
fn by_the_law(log: &[tc::Record]) -> Vec<u32> {
    let mut chosen = Vec::new();
    let mut due = None;
    for record in log {
        let bad = record.delay_ns >= TARGET_NS && record.qlen_bytes as usize > FRAME;
        if !bad {
            due = None;
            continue;
        }
        let now = record.time_ns as f64;
        let at = due.get_or_insert(now + INTERVAL_NS);
        if now >= *at {
            chosen.push(record.seq);
            let n = chosen.len() as f64;
            let from = if chosen.len() == 1 { now } else { *at };
            *at = from + (INTERVAL_NS / n.sqrt()).floor();
        }
    }
    chosen
}

/// ECT packets are marked exactly when the law says so. In virtual time, where a burst is one.
pub fn marks_by_the_law() -> Result<Outcome> {
    modules::load(MODULE, "").context("load")?;
    for ipv6 in [false, true] {
        let switch = Switch::new(&[PORT])?;
        let arrived = switch.pass(0, &burst(ipv6, 4000, 2, 500))?;
        let (_, log) = switch.net.log("p0", 0)?;
        ensure!(
            arrived.len() == 500 && log.len() == 500,
            "{} arrived, {} logged",
            arrived.len(),
            log.len()
        );
        let marked: Vec<u32> = arrived.iter().filter(|a| a.ce()).map(|a| a.seq()).collect();
        let law = by_the_law(&log);
        println!("# ipv6 {ipv6}: frames {law:?}");
        ensure!(marked == law, "marked {marked:?}, the law says {law:?}");
        // 2 ms, 12 ms, then 10 ms / sqrt(n) each, until 100 ms: 26 by hand.
        ensure!((25..=27).contains(&law.len()), "{} chosen", law.len());
        let q = switch.queue(0)?;
        let n = law.len() as u64;
        for (stat, expected) in [
            (tc::STAT_MARKS, n),
            (tc::STAT_CODEL, n),
            (tc::STAT_CODEL_MARKS, n),
            (tc::STAT_CODEL_DROPS, 0),
            (tc::STAT_DROPS, 0),
            (tc::STAT_PACKETS, 500),
        ] {
            let (name, got) = (::port::STAT_NAMES[stat], q.stats[stat]);
            ensure!(got == expected, "{name} is {got}, expected {expected}");
        }
    }
    super::unload_when_free(MODULE)
}

/// Packets whose sender does not speak ECN are dropped in their place, and nothing of them is left behind.
pub fn drops_without_ecn() -> Result<Outcome> {
    modules::load(MODULE, "").context("load")?;
    let switch = Switch::new(&[PORT])?;
    let arrived = switch.pass(0, &burst(false, 4000, 0, 500))?;
    let q = switch.queue(0)?;
    let dropped = q.stats[tc::STAT_CODEL_DROPS];
    ensure!(dropped > 0, "no drop");
    ensure!(
        arrived.len() as u64 + dropped == 500 && arrived.iter().all(|a| !a.ce()),
        "{} arrived, {dropped} dropped of 500",
        arrived.len()
    );
    // As `tc -s` shows it.
    ensure!(
        q.drops == dropped && q.stats[tc::STAT_MARKS] == 0 && q.backlog_bytes == 0,
        "{q:?}"
    );
    println!("# {dropped} dropped");
    // The queue goes on as if nothing had been.
    let again = switch.pass(0, &burst(false, 4001, 0, 5))?;
    ensure!(again.len() == 5, "{} of 5 arrived afterwards", again.len());
    drop(switch);
    super::unload_when_free(MODULE)
}
