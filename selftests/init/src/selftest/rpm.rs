// SPDX-License-Identifier: GPL-2.0
//! Reverse path marking of the software switch port: what CoDel chooses comes back on ACKs, once each.

use super::{
    codel::burst,
    frame::{Arrived, Segment},
    switch::Switch,
};
use crate::{ktap::Outcome, modules};
use anyhow::{bail, ensure, Context as _, Result};
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
};
use wire::{
    rpm::{flag, MAX_COUNT},
    tc,
};

const MODULE: &str = "sch_int";
const BOTTLENECK: &str = "rate 50mbit overhead 0 limit 16mb target 1ms interval 5ms rpm 1024";
const REVERSE: &str = "rpm 1024";

fn marked(arrived: &[Arrived]) -> usize {
    arrived.iter().filter(|a| a.ece()).count()
}

/// ACKs of a flow, `count` of them.
fn acks(of: &Segment, count: u32) -> Vec<Segment> {
    (0..count)
        .map(|n| Segment {
            numbers: (7, n),
            ..of.answer()
        })
        .collect()
}

/// As many ACKs carry ECE as packets were chosen; no packet is marked forward; what may not be marked is
/// not; checksums stay right.
pub fn marks_acks() -> Result<Outcome> {
    modules::load(MODULE, "").context("load")?;
    for ipv6 in [false, true] {
        let switch = Switch::new(&[BOTTLENECK, REVERSE])?;
        let data = burst(ipv6, 4000, 2, 100);
        let flow = &data[0];
        let arrived = switch.pass(0, &data)?;
        let counted = switch.stat(0, tc::STAT_RPM_COUNTED)? as usize;
        ensure!(
            arrived.len() == 100 && arrived.iter().all(|a| !a.ce() && !a.ece()),
            "{} of 100 arrived, some with a mark",
            arrived.len()
        );
        ensure!(
            (1..MAX_COUNT as usize).contains(&counted) && switch.stat(0, tc::STAT_MARKS)? == 0,
            "{counted} counted"
        );
        // A port of the same flow's place in the table would be a collision.
        let place = |s: &Segment| s.flow().reverse().hash() % 1024;
        let answer = flow.answer();
        let mut other = answer.clone();
        other.ports.1 += 1;
        ensure!(place(&other) != place(&answer), "the test's flows collide");
        let with = |byte12, flags| Segment {
            flags: (byte12, flags),
            ..answer.clone()
        };
        let not_these = [
            with(0, flag::SYN | flag::ACK),
            with(0, flag::RST | flag::ACK),
            with(0, flag::SYN),
            with(0, 0),
            with(flag::AE, flag::ACK),
            other,
            flow.clone(),
        ];
        let arrived = switch.pass(1, &not_these)?;
        ensure!(
            arrived.len() == not_these.len() && marked(&arrived) == 0,
            "{} of {} arrived, {} marked",
            arrived.len(),
            not_these.len(),
            marked(&arrived)
        );
        let arrived = switch.pass(1, &acks(flow, 40))?;
        let first = arrived.iter().take_while(|a| a.ece()).count();
        ensure!(
            arrived.len() == 40 && marked(&arrived) == counted && first == counted,
            "{} of 40 ACKs arrived, {} with ECE ({first} first), {counted} counted",
            arrived.len(),
            marked(&arrived)
        );
        ensure!(
            switch.stat(1, tc::STAT_RPM_SET)? as usize == counted,
            "the port counts otherwise"
        );
        println!("# ipv6 {ipv6}: {counted} chosen, {counted} ACKs marked");
    }
    super::unload_when_free(MODULE)
}

/// When no ACK comes this way the counter fills up, and the port marks forward.
pub fn marks_forward_when_full() -> Result<Outcome> {
    modules::load(MODULE, "").context("load")?;
    let switch = Switch::new(&[BOTTLENECK, REVERSE])?;
    let data = burst(false, 4000, 2, 400);
    let arrived = switch.pass(0, &data)?;
    let ce = arrived.iter().filter(|a| a.ce()).count() as u64;
    let q = switch.queue(0)?;
    let [counted, full, marks] =
        [tc::STAT_RPM_COUNTED, tc::STAT_RPM_FULL, tc::STAT_MARKS].map(|s| q.stats[s]);
    println!("# {counted} counted, {full} marked forward");
    ensure!(
        counted == MAX_COUNT as u64 && full > 0 && ce == full && marks == full,
        "{counted} counted, {full} when full, {marks} marks, {ce} CE arrived"
    );
    let arrived = switch.pass(1, &acks(&data[0], 40))?;
    ensure!(marked(&arrived) == MAX_COUNT as usize, "ACKs");
    drop(switch);
    super::unload_when_free(MODULE)
}

/// The ports of a namespace share the table, two namespaces do not; it has one size, and goes with the
/// last port.
pub fn shared_by_a_namespace() -> Result<Outcome> {
    modules::load(MODULE, "").context("load")?;
    let one = Switch::new(&[BOTTLENECK, REVERSE, REVERSE, ""])?;
    let two = Switch::new(&[REVERSE, REVERSE])?;
    let data = burst(false, 4000, 2, 150);
    one.pass(0, &data)?;
    let counted = one.stat(0, tc::STAT_RPM_COUNTED)? as usize;
    ensure!(counted >= 3, "{counted} counted");
    let elsewhere = two.pass(1, &acks(&data[0], 40))?;
    ensure!(marked(&elsewhere) == 0, "another namespace marks");
    let here =
        marked(&one.pass(1, &acks(&data[0], 1))?) + marked(&one.pass(2, &acks(&data[0], 1))?);
    ensure!(here == 2, "{here} of two ports mark");

    let Err(refused) = one.set(3, "rpm 2048") else {
        bail!("a table of another size was accepted");
    };
    let said = format!("{refused:#}");
    ensure!(said.contains("the same for all ports"), "{said}");
    two.set(0, "rpm 0")?;
    two.set(1, "rpm 0")?;
    two.set(0, "rpm 2048")
        .context("a new size, after all ports gave the old one up")?;

    // What is pending goes with the table, and the table with the last port.
    for port in [0, 2, 1] {
        one.clear(port)?;
    }
    one.set(1, "rpm 4096").context("a new table")?;
    one.set(1, "rpm 0")?;
    one.set(1, REVERSE)?;
    ensure!(
        marked(&one.pass(1, &acks(&data[0], 40))?) == 0,
        "a mark outlived its table"
    );
    drop((one, two));
    super::unload_when_free(MODULE)
}

/// Ports come and go in any order, and a whole namespace goes, while packets pass.
pub fn removed_in_any_order() -> Result<Outcome> {
    modules::load(MODULE, "").context("load")?;
    let busy = "rate 100mbit limit 64kb target 1us interval 10us rpm 256 int log 16";
    let switch = Switch::new(&[busy, busy, busy])?;
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    thread::scope(|scope| -> Result<()> {
        for port in 0..3 {
            let raw = switch.onto_port(port)?;
            let data = burst(port == 1, 4000, 2, 1).remove(0);
            let frames = [data.frame(), acks(&data, 1)[0].frame()];
            let (stop, sent) = (&stop, &sent);
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    // A full queue and a device without one are no errors here.
                    for frame in &frames {
                        raw.send(frame).ok();
                    }
                    sent.fetch_add(2, Relaxed);
                    thread::sleep(std::time::Duration::from_micros(50));
                }
            });
        }
        let result = (|| {
            for round in 0..3 {
                for order in orders {
                    for port in order {
                        switch.clear(port)?;
                        thread::sleep(std::time::Duration::from_millis(1));
                    }
                    for port in order {
                        switch.set(port, busy)?;
                        switch.set(port, if round == 1 { "rpm 0" } else { "log 0" })?;
                    }
                    for port in order {
                        switch.set(port, "rpm 0")?;
                    }
                    for port in order {
                        switch.set(port, "rpm 256 log 32")?;
                    }
                }
            }
            Ok(())
        })();
        stop.store(true, Relaxed);
        result
    })?;
    println!("# {} frames meanwhile", sent.into_inner());
    // The namespace goes with all its ports and what waits in them.
    drop(switch);
    super::unload_when_free(MODULE)
}
