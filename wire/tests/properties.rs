// SPDX-License-Identifier: GPL-2.0

//! What holds for all values: against the model of bits, and for bytes that mean nothing.

mod harness;
mod model;

use proptest::prelude::*;
use wire::mpd::{EchoWord, Missing, Word};
use wire::{bottleneck, parse, stack, Delta, Format, Hop, Load, Parsed, Speed};

prop_compose! {
    /// Small and huge values alike, in all fields.
    fn hops()(
        bits in 0u32..64, delay in any::<u64>(), qlen_bits in 0u32..32, qlen_bytes in any::<u32>(),
        tx_bytes in any::<u64>(), time_ns in any::<u64>(), load in any::<u8>(), code in 0u8..16,
        hop_id in any::<u8>(), shift in 0u8..16,
    ) -> Hop {
        Hop {
            delay_ns: delay >> bits,
            qlen_bytes: qlen_bytes >> qlen_bits,
            tx_bytes,
            time_ns,
            load,
            speed: Speed::from_code(code),
            hop_id,
            shift,
        }
    }
}

fn port(hop: &Hop) -> model::Port {
    model::Port {
        delay_ns: hop.delay_ns,
        qlen_bytes: hop.qlen_bytes.into(),
        tx_bytes: hop.tx_bytes,
        time_ns: hop.time_ns,
        load: hop.load.into(),
        speed: hop.speed.code().into(),
        hop_id: hop.hop_id.into(),
        shift: hop.shift.into(),
    }
}

/// An option of ours with anything in it.
fn option() -> impl Strategy<Value = Vec<u8>> {
    let ids = prop_oneof![
        Just((0x70, 8)),
        Just((0x72, 16)),
        Just((0x73, 16)),
        (Just(0x74), (1u8..5).prop_map(|n| 4 + 8 * n)),
        (Just(0x75), (1u8..5).prop_map(|n| 4 + 8 * n)),
        Just((0x7f, 8)),
    ];
    (ids, any::<[u8; 32]>(), 0usize..5).prop_map(|((id, len), body, zero_from)| {
        let mut option = [&[0xfd, len, 0xfa, id][..], &body].concat();
        option[4 + 8 * zero_from.min(4)..].fill(0);
        option.truncate(len.into());
        option
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_hop_does_what_the_model_does(hop in hops(), option in option()) {
        let mut after = option.clone();
        let stamped = hop.stamp(&mut after).is_ok();
        let want = model::hop(&option, &port(&hop));
        prop_assert_eq!(stamped, want.is_some());
        prop_assert_eq!(after, want.unwrap_or(option));
    }

    #[test]
    fn a_path_reports_its_worst_hop(path in prop::collection::vec(hops(), 1..20)) {
        let shift = 6;
        let (mut word, mut body) = (Word::EMPTY, bottleneck::Body::default());
        for hop in &path {
            word = word.hop(hop.delay_ns, shift);
            body = body.hop(hop);
        }
        let most = path.iter().map(|h| h.delay_ns).max().unwrap_or(0);
        prop_assert_eq!(word.delay(), Word::units(most, shift));
        prop_assert_eq!(usize::from(word.hops()), path.len().min(15));
        let keys = || path.iter().map(|h| bottleneck::key(h.delay_ns, h.load));
        prop_assert_eq!(Some(body.key()), keys().max());
        // The first of the worst: what is equal does not replace.
        let worst = path.iter().zip(keys()).find(|(_, key)| *key == body.key());
        let (worst, _) = worst.expect("some hop has the largest key");
        prop_assert_eq!(body.record(), bottleneck::Body::default().hop(worst).record());
    }

    #[test]
    fn a_record_is_its_port_rounded_down(hop in hops()) {
        let speed = if hop.speed == Speed::NONE { Speed::OTHER } else { hop.speed };
        let qlen = (hop.qlen_bytes / 80).min(65535) * 80;
        let r = bottleneck::Body::default().hop(&hop).record();
        prop_assert_eq!((r.qlen_bytes, r.speed, r.hop_id), (qlen, speed, hop.hop_id));
        prop_assert_eq!(r.tx_bytes, hop.tx_bytes as u32 & bottleneck::TX_MASK & !63);
        prop_assert_eq!(r.ts_ns, hop.time_ns as u32 & bottleneck::TS_MASK);
        let r = stack::Slot::of(&hop).record();
        prop_assert_eq!((r.qlen_bytes, r.speed, r.hop_id), (qlen, speed, hop.hop_id & 15));
        prop_assert_eq!(r.tx_bytes, hop.tx_bytes as u32 & stack::TX_MASK & !127);
        prop_assert_eq!(r.ts_ns, hop.time_ns as u32 & stack::TS_MASK & !15);
        prop_assert!(!stack::Slot::of(&hop).is_empty(), "a written slot is never an empty one");
    }

    #[test]
    fn what_is_written_is_read(forward in any::<u16>(), echo in any::<u16>(), hop in hops(), missing in 0u8..15) {
        let option = wire::mpd::emit(Word(forward), EchoWord(echo));
        match parse(&option) {
            Ok(p) => prop_assert_eq!(p, Parsed::Mpd(Word(forward), EchoWord(echo))),
            Err(_) => prop_assert!(forward & 15 == 0 && forward != 0),
        }
        let body = bottleneck::Body::default().hop(&hop);
        let missing = Missing::from_code(missing);
        let echo = parse(&bottleneck::emit_echo(&body, missing));
        prop_assert_eq!(echo, Ok(Parsed::BottleneckEcho(body.with_count(missing.code()))));
    }

    #[test]
    fn the_checksum_is_that_of_the_whole(
        mut segment in prop::collection::vec(any::<u8>(), 40..80), at in 0usize..32, new in any::<[u8; 7]>(),
    ) {
        segment[39] |= 1; // Never all zero: no real segment is, and zero has two forms.
        let before = model::checksum(&segment);
        let old: [u8; 7] = segment[at..at + 7].try_into().expect("seven bytes");
        let delta = Delta::bytes(at, &old, &new);
        segment[at..at + 7].copy_from_slice(&new);
        prop_assert_eq!(delta.apply(before), model::checksum(&segment));
    }

    #[test]
    fn the_load_is_the_share_of_time(share in 1u64..=100, busy_ns in 100u32..2000) {
        let mut load = Load::default();
        let gap = u64::from(busy_ns) * 100 / share;
        // Six times as long as the level takes to settle to a third.
        let packets = 6 * 65_536 / gap + 10;
        let last = (0..packets).map(|i| load.sent(i * gap, busy_ns << 8)).last().unwrap_or(0);
        // The level is read at its highest, just after a packet.
        let want = share as f64 * 2.56;
        let ripple = f64::from(busy_ns) / 256.0;
        prop_assert!((f64::from(last) - want.min(255.0)).abs() <= ripple + 2.0, "{last} for {want}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_bytes(data in prop::collection::vec(any::<u8>(), 0..160)) {
        harness::run(&data);
    }

    #[test]
    fn any_bytes_with_options_in_them(
        hop in any::<[u8; 32]>(), first in option(), head in any::<[u8; 4]>(),
        segments in prop::collection::vec((option(), any::<[u8; 3]>()), 0..6),
    ) {
        let mut data = [&hop[..], &first, &head].concat();
        for (option, [ack, ttl, flags]) in &segments {
            data.push(option.len() as u8);
            data.extend(option);
            data.extend([*ack, *ttl, *flags]);
        }
        harness::run(&data);
        harness::run(&[&hop[..], &data[32 + first.len()..]].concat());
    }
}

#[test]
fn the_reserve_holds_what_is_written() {
    for timestamps in [false, true] {
        for format in [Format::Mpd, Format::Bottleneck, Format::Stack] {
            let room = if timestamps { 28 } else { 40 };
            assert!(format.reserve(timestamps) <= room && format.reserve(timestamps) % 4 == 0);
        }
    }
    assert_eq!(Format::Stack.reserve(true), 28);
}

#[test]
fn speeds_go_both_ways() {
    for code in 1..15 {
        let speed = Speed::from_code(code);
        assert_eq!(Speed::from_mbps(speed.mbps()), speed);
    }
    assert_eq!(Speed::from_mbps(12_345), Speed::OTHER);
    assert_eq!(Speed::from_mbps(0), Speed::OTHER);
}
