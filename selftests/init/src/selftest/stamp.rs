// SPDX-License-Identifier: GPL-2.0
//! Telemetry of the software switch port: packets of our own making go in at one end of a veth and are
//! looked at, byte by byte, at the other. What they carry there is what the port wrote into its log.

use super::{
    data::Pair,
    frame::{Arrived, Segment},
};
use crate::{ktap::Outcome, modules};
use anyhow::{ensure, Context as _, Result};
use wire::{exid, mpd, tc, Hop, Speed, KIND};

const MODULE: &str = "sch_int";
const HOP_ID: u8 = 7;

/// A port writes into each format it knows, keeps the checksum right, touches nothing else, and logs what
/// it wrote.
pub fn formats() -> Result<Outcome> {
    modules::load(MODULE, "").context("load")?;
    let pair = Pair::new()?;
    let options = "rate 1gbit int hop-id 7 log 64";
    pair.port(options)?;
    let (from, to) = (pair.raw_a()?, pair.raw_b()?);

    let id = |exid: u16, len: u8| [KIND, len, exid.to_be_bytes()[0], exid.to_be_bytes()[1]];
    let option = |exid, len: u8| [&id(exid, len)[..], &vec![0; len as usize - 4]].concat();
    let timestamps = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let mut port = 1000;
    let mut stamped = Vec::new();
    for (name, tcp_options, at) in [
        ("mpd", option(exid::MPD, 8), Some(0..8)),
        ("bottleneck", option(exid::BOTTLENECK, 16), Some(0..16)),
        ("stack", option(exid::STACK, 12), Some(0..12)),
        (
            "mpd after timestamps",
            [&timestamps[..], &option(exid::MPD, 8)].concat(),
            Some(12..20),
        ),
        ("an echo", option(exid::BOTTLENECK_ECHO, 16), None),
        ("no option", vec![], None),
        ("timestamps alone", timestamps.to_vec(), None),
        (
            "an option that claims more than there is",
            [&id(exid::MPD, 40)[..], &[0; 4]].concat(),
            None,
        ),
        ("mpd of a wrong length", option(exid::MPD, 12), None),
        ("another experiment", option(0x1234, 8), None),
    ] {
        for ipv6 in [false, true] {
            port += 1;
            let segment = Segment {
                options: tcp_options.clone(),
                numbers: (u32::from(port) << 8, 77),
                ..Segment::new(ipv6, port)
            };
            let name = format!("{name}, ipv6 {ipv6}");
            let sent = Arrived {
                ipv6,
                bytes: segment.frame(),
            };
            ensure!(
                sent.checksum_is_right(),
                "{name}: the test's own checksum is wrong"
            );
            from.send(&sent.bytes)?;
            let got = to.from(port).with_context(|| name.clone())?;
            ensure!(
                got.bytes.len() == sent.bytes.len(),
                "{name}: {} bytes became {}",
                sent.bytes.len(),
                got.bytes.len()
            );
            ensure!(got.checksum_is_right(), "{name}: the checksum is wrong now");
            // The checksum's own two bytes and, where a format is known, the option may change.
            let may = |i: usize| {
                let in_tcp = i.wrapping_sub(sent.head());
                let in_options = in_tcp.wrapping_sub(20);
                at.as_ref()
                    .is_some_and(|at| at.contains(&in_options) || (16..18).contains(&in_tcp))
            };
            for i in 0..sent.bytes.len() {
                ensure!(
                    sent.bytes[i] == got.bytes[i] || may(i),
                    "{name}: byte {i} changed"
                );
            }
            if at.is_some() {
                let end = 20 + segment.options.len();
                ensure!(
                    got.tcp()[20..end] != sent.tcp()[20..end],
                    "{name}: nothing was written"
                );
                stamped.push((name, segment, got.tcp()[20..end].to_vec()));
            }
        }
    }
    log_tells_the_same(&pair, &stamped)?;
    drop((from, to, pair));
    super::unload_when_free(MODULE)
}

/// What a packet carries follows from its record in the log, to the byte.
fn log_tells_the_same(pair: &Pair, stamped: &[(String, Segment, Vec<u8>)]) -> Result<()> {
    let (first, log) = pair.net_a().log("a", 0)?;
    ensure!(
        first == 0 && log.len() == stamped.len(),
        "{} records from {first} on, {} packets",
        log.len(),
        stamped.len()
    );
    for (record, (name, segment, options)) in log.iter().zip(stamped) {
        let flow = segment.flow().hash();
        ensure!(
            (record.sport, record.dport) == segment.ports
                && (record.seq, record.ack) == segment.numbers
                && record.payload as usize == segment.payload
                && record.flow == flow
                && record.flags == segment.flags.1
                && record.ip == if segment.ipv6 { 6 } else { 4 }
                && record.hop_id == HOP_ID,
            "{name}: {record:?}"
        );
        let hop = Hop {
            delay_ns: record.delay_ns,
            qlen_bytes: record.qlen_bytes,
            tx_bytes: record.tx_bytes,
            time_ns: record.time_ns,
            load: record.load,
            speed: Speed::from_mbps(1000),
            hop_id: record.hop_id,
            shift: mpd::DEFAULT_SHIFT,
        };
        let mut expected = segment.options.clone();
        ensure!(hop.stamp(&mut expected).is_ok(), "{name}: no stamp");
        ensure!(
            expected == *options,
            "{name}: the packet carries {options:x?}, its record gives {expected:x?}"
        );
    }
    // From the middle, behind the end, and after the ring has gone round.
    let half = stamped.len() as u64 / 2;
    let (at, rest) = pair.net_a().log("a", half)?;
    ensure!(
        at == half && rest == log[half as usize..],
        "from the middle"
    );
    let (at, rest) = pair.net_a().log("a", 1 << 40)?;
    ensure!(
        at == stamped.len() as u64 && rest.is_empty(),
        "behind the end"
    );
    let from = pair.raw_a()?;
    for n in 0..200 {
        let segment = Segment {
            numbers: (n, 0),
            options: stamped[0].1.options.clone(),
            ..Segment::new(false, 5000)
        };
        from.send(&segment.frame())?;
    }
    let all = stamped.len() as u64 + 200;
    pair.wait_for(|q| q.stats[tc::STAT_LOGGED] == all)?;
    let (at, rest) = pair.net_a().log("a", 0)?;
    ensure!(
        at == all - 64 && rest.len() == 64,
        "{} from {at} on of {all} in a ring of 64",
        rest.len()
    );
    let seqs: Vec<u32> = rest.iter().map(|r| r.seq).collect();
    ensure!(
        seqs == (136..200).collect::<Vec<u32>>(),
        "out of order: {seqs:?}"
    );
    Ok(())
}
