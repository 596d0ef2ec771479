// SPDX-License-Identifier: GPL-2.0

//! The complete router, and random packets through every program: checksums that were right stay right, and no byte
//! changes that should not.

mod common;
use common::{checksums_valid, metadata, stamp, switch_at, Ip, Packet, Target, PORT};
use p4::{Key, Metadata, Switch};
use proptest::prelude::*;
use wire::{find, Hop, Reason, Speed};

fn router(target: Target) -> Switch {
    let mut switch = target.program_with("fathom_switch", &[]).switch();
    let ok = "the program has these tables";
    let v6 = |last: u128| 0xfd << 120 | last;
    let to = |port: u128| [port, 0x0200_0000_0a00 + port, 0x0200_0000_0b00];
    switch
        .add_entry("routes_v4", &[Key::Lpm(0x0a00_0000, 24)], "route", &to(3))
        .expect(ok);
    switch
        .add_entry("routes_v4", &[Key::Lpm(0x0a00_0002, 32)], "route", &to(7))
        .expect(ok);
    switch
        .add_entry("routes_v6", &[Key::Lpm(v6(0), 64)], "route", &to(3))
        .expect(ok);
    switch
        .add_entry("routes_v6", &[Key::Lpm(v6(2), 128)], "route", &to(7))
        .expect(ok);
    switch
}

#[test]
fn routes() {
    for target in Target::ALL {
        let mut switch = router(target);
        for ip in [Ip::V4(0), Ip::V4(3), Ip::V6] {
            for (dst, port) in [(2, 7u16), (9, 3)] {
                let packet = Packet {
                    flow: (1, dst, 1, 2),
                    ..Packet::new(ip.clone(), dst == 9, &[0xfd, 8, 0xfa, 0x70, 0, 0, 0, 15])
                };
                let bytes = packet.bytes();
                let (to, out) = switch
                    .process(&bytes, &Metadata::default())
                    .expect("a route");
                assert_eq!(to, port, "{target:?}");
                let (ip_at, at) = (packet.ip_at(), packet.tcp_at());
                assert_eq!(out[5], port as u8, "the next hop's address");
                let ttl = if ip == Ip::V6 { ip_at + 7 } else { ip_at + 8 };
                assert_eq!(out[ttl], 63);
                assert_eq!(out[at + 24..at + 26], [0, 1], "one hop, no delay");
                assert!(checksums_valid(&out, ip_at, at));
                // The last hop of its life, and no route.
                let mut old = bytes.clone();
                old[ttl] = 1;
                assert!(switch.process(&old, &Metadata::default()).is_none());
                let mut lost = bytes.clone();
                lost[ip_at + if ip == Ip::V6 { 24 } else { 16 }] = 99;
                assert!(switch.process(&lost, &Metadata::default()).is_none());
            }
        }
        assert!(
            switch.process(&[0; 64], &Metadata::default()).is_none(),
            "not IP"
        );
        assert!(
            switch.process(&[0; 3], &Metadata::default()).is_none(),
            "not a frame"
        );
    }
}

/// Every value of the checksum's field that a change may carry over.
#[test]
fn ttl_carries() {
    for target in [Target::V1Model, Target::Tofino1] {
        let mut switch = router(target);
        let mut packet = Packet::new(Ip::V4(0), false, &[]);
        for id in 0..=u16::MAX {
            packet.flow = (1, 2, 1, 2);
            let mut bytes = packet.bytes();
            // The identification takes the checksum through all of its values.
            bytes[18..20].copy_from_slice(&id.to_be_bytes());
            bytes[24..26].fill(0);
            let sum = !common::fold(common::sum(&bytes[14..34]));
            bytes[24..26].copy_from_slice(&sum.to_be_bytes());
            let (_, out) = switch
                .process(&bytes, &Metadata::default())
                .expect("a route");
            assert_eq!(common::fold(common::sum(&out[14..34])), 0xffff, "{id}");
            if target == Target::Tofino1 && id > 5000 {
                break;
            }
        }
    }
}

fn any_hop() -> impl Strategy<Value = Hop> {
    let delay = prop_oneof![0u64..200, 0u64..1 << 18, any::<u32>().prop_map(u64::from)];
    (
        delay,
        any::<u32>(),
        any::<u64>(),
        any::<u64>(),
        any::<u8>(),
        1u8..16,
        any::<u8>(),
    )
        .prop_map(
            |(delay_ns, qlen_bytes, tx_bytes, time_ns, load, speed, hop_id)| Hop {
                delay_ns,
                qlen_bytes,
                tx_bytes,
                time_ns,
                load,
                speed: Speed::from_code(speed),
                hop_id,
                shift: 6,
            },
        )
}

/// Options that look like something: known ones, ours, broken ones, noise.
fn any_options() -> impl Strategy<Value = Vec<u8>> {
    let ours = |exid: u16, bodies: &'static [usize]| {
        (
            prop::sample::select(bodies),
            any::<bool>(),
            prop::collection::vec(any::<u8>(), 36),
        )
            .prop_map(move |(body, empty, mut bytes)| {
                if empty {
                    bytes.fill(0);
                }
                let [a, b] = exid.to_be_bytes();
                let mut option = vec![0xfd, 4 + body as u8, a, b];
                option.extend(&bytes[..body]);
                option
            })
    };
    let part = prop_oneof![
        3 => Just(vec![1, 1, 1, 1]),
        3 => Just(vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]),
        2 => Just(vec![1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2]),
        1 => Just(vec![1, 1, 5, 18, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]),
        1 => Just(vec![2, 4, 5, 0xb4]),
        1 => Just(vec![1, 3, 3, 7]),
        1 => Just(vec![0, 0, 0, 0]),
        1 => Just(vec![1, 1]),
        1 => Just(vec![0x1e, 4, 0, 0]),
        5 => ours(0xfa70, &[4]),
        5 => ours(0xfa72, &[12]),
        5 => ours(0xfa74, &[8, 16, 24, 32]),
        1 => ours(0xfa73, &[12]),
        1 => ours(0xfa70, &[0, 8, 12]),
        1 => prop::collection::vec(any::<u8>(), 4),
    ];
    prop::collection::vec(part, 0..6).prop_map(|parts| {
        let mut options: Vec<u8> = parts.concat();
        options.truncate(40);
        options.truncate(options.len() / 4 * 4);
        options
    })
}

/// Whether everything in front of what wire finds is what the programs look through.
fn looked_through(options: &[u8]) -> bool {
    let Ok(found) = find(options) else {
        return false;
    };
    let mut at = 0;
    while at < found.at {
        let word = [
            options[at],
            options[at + 1],
            options[at + 2],
            options[at + 3],
        ];
        at += match word {
            [1, 1, 1, 1] | [2, 4, _, _] | [1, 3, 3, _] => 4,
            [1, 1, 4, 2] | [4, 2, 1, 1] | [4, 2, 4, 2] => 4,
            [1, 1, 8, 10] | [4, 2, 8, 10] | [1, 1, 5, 10] | [4, 2, 5, 10] => 12,
            [1, 1, 5, 18] | [4, 2, 5, 18] => 20,
            [1, 1, 5, 26] | [4, 2, 5, 26] => 28,
            _ => return false,
        };
    }
    at == found.at
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// The same hop, the same packet: wire, v1model and both Tofinos write the same option, or none does.
    #[test]
    fn all_agree(hop in any_hop(), options in any_options(), v6 in any::<bool>(), words in 0usize..11, vlan in any::<bool>()) {
        let ip = if v6 { Ip::V6 } else { Ip::V4(words) };
        let packet = Packet::new(ip, vlan, &options);
        let bytes = packet.bytes();
        let at = packet.tcp_at();
        for target in Target::ALL {
            let mut want = options.clone();
            let mut wire = target.sees(&hop).stamp(&mut want);
            if wire.is_ok() && !looked_through(&options) {
                wire = Err(Reason::ABSENT);
                want = options.clone();
            }
            let got = stamp(target, "int", &hop, &bytes);
            prop_assert_eq!(&got[at + 20..at + 20 + want.len()], &want[..], "{:?} {:?}", target, wire);
            // Nothing else changed but the checksum, and that is right.
            let mut back = got.clone();
            back[at + 20..at + 20 + options.len()].copy_from_slice(&options);
            back[at + 16..at + 18].copy_from_slice(&bytes[at + 16..at + 18]);
            prop_assert_eq!(&back, &bytes);
            prop_assert!(checksums_valid(&got, packet.ip_at(), at));
        }
    }

    /// Any bytes whatever: nothing is dropped, grows, shrinks, or changes outside of an option.
    #[test]
    fn noise(mut bytes in prop::collection::vec(any::<u8>(), 0..140), hop in any_hop(), ethertype in 0usize..4) {
        if bytes.len() > 60 && ethertype < 3 {
            let (a, b, first) = [(8, 0, 0x45), (0x86, 0xdd, 0x60), (0x81, 0, 0)][ethertype];
            bytes[12..15].copy_from_slice(&[a, b, first]);
            bytes[if ethertype == 1 { 20 } else { 23 }] = 6;
            bytes[20] = if ethertype == 0 { 0x40 } else { bytes[20] };
            bytes[21] = 0;
        }
        for target in Target::ALL {
            let got = stamp(target, "int", &hop, &bytes);
            prop_assert_eq!(got.len(), bytes.len());
            let limit = 14 + 4 + 60 + 60;
            prop_assert_eq!(got.get(limit..), bytes.get(limit..));
            prop_assert_eq!(&got[..bytes.len().min(16)], &bytes[..bytes.len().min(16)]);
        }
    }

    /// The router: option, flags, ECN, TTL and addresses of Ethernet change, nothing else, and checksums stay right.
    #[test]
    fn router_keeps_packets(options in any_options(), v6 in any::<bool>(), vlan in any::<bool>(), ecn in 0u8..4,
                            payload in prop::collection::vec(any::<u8>(), 0..64)) {
        for target in Target::ALL {
            let mut switch = router(target);
            let ip = if v6 { Ip::V6 } else { Ip::V4(1) };
            let packet = Packet { payload: payload.clone(), ecn, ..Packet::new(ip, vlan, &options) };
            let bytes = packet.bytes();
            let (_, out) = switch.process(&bytes, &Metadata::default()).expect("a route");
            let (ip_at, at) = (packet.ip_at(), packet.tcp_at());
            prop_assert!(checksums_valid(&out, ip_at, at));
            prop_assert_eq!(&out[12..ip_at], &bytes[12..ip_at]);
            prop_assert_eq!(&out[at..at + 13], &bytes[at..at + 13]);
            prop_assert_eq!(&out[at + 20 + options.len()..], &bytes[at + 20 + options.len()..]);
        }
    }
}

/// A queue of more than 262 us wraps Tofino 1's clock; an entry by depth says so.
#[test]
fn tofino1_long_queues() {
    let hop = Hop {
        delay_ns: 300_000,
        qlen_bytes: 400_000,
        tx_bytes: 1 << 20,
        time_ns: 1 << 30,
        speed: Speed::from_mbps(10_000),
        shift: 6,
        ..Hop::default()
    };
    for (options, at, wrapped, saturated) in [
        (
            vec![0xfd, 8, 0xfa, 0x70, 0, 0, 0, 15],
            4,
            (300_000 - (1 << 18)) / 64 * 16 + 1,
            0xfff1,
        ),
        (
            [&[0xfd, 16, 0xfa, 0x72][..], &[0; 12]].concat(),
            6,
            (300_000 - (1 << 18)) / 64 + 256,
            0xfff + 256,
        ),
    ] {
        let packet = Packet::new(Ip::V4(0), false, &options);
        let bytes = packet.bytes();
        let at = packet.tcp_at() + 20 + at;
        let program = Target::Tofino1.program("int", 6);
        let word = |switch: &mut Switch| {
            let mut out = Vec::new();
            assert!(switch.port(&bytes, &metadata(&hop), &mut out));
            u32::from(u16::from_be_bytes([out[at], out[at + 1]]))
        };
        let mut switch = switch_at(Target::Tofino1, &program, &hop, bytes.len());
        assert_eq!(word(&mut switch), wrapped);
        // 4096 cells of 80 bytes take 262 us at 10 Gbit/s.
        let key = [Key::Exact(PORT.into()), Key::Range(4096, (1 << 19) - 1)];
        switch
            .add_entry("delay", &key, "saturated", &[])
            .expect("it is there");
        assert_eq!(word(&mut switch), saturated);
    }
}

/// As BMv2 counts: microseconds and packets.
#[test]
fn bmv2_units() {
    let program = common::program("v1model/int.p4", &[("FATHOM_BMV2", "1")]);
    let mut switch = program.switch();
    let packet = Packet::new(
        Ip::V4(0),
        false,
        &[&[0xfd, 16, 0xfa, 0x72][..], &[0; 12]].concat(),
    );
    let bytes = packet.bytes();
    let key = [Key::Exact(PORT.into())];
    switch
        .add_entry("port", &key, "port_is", &[9, 2, 24, 0])
        .expect("it is there");
    // The interpreter's clock and queue stand for BMv2's here: 40 us waited, 3 packets left.
    let m = Metadata {
        egress_port: PORT,
        enqueue_ns: 1_000,
        dequeue_ns: 1_040,
        dequeue_bytes: 3 * 80,
        ..Metadata::default()
    };
    let mut out = Vec::new();
    assert!(switch.port(&bytes, &m, &mut out));
    let at = packet.tcp_at() + 20;
    let want = Hop {
        delay_ns: 40_000,
        qlen_bytes: 3 * 19 * 80,
        tx_bytes: bytes.len() as u64 + 24,
        time_ns: 1_040_000,
        speed: Speed::from_mbps(1000),
        hop_id: 9,
        shift: 6,
        ..Hop::default()
    };
    let mut options = packet.options.clone();
    want.stamp(&mut options).expect("it fits");
    assert_eq!(out[at..at + 16], options);
}

/// The port counts what every packet takes on the link, and its load is wire's.
#[test]
fn v1model_load_is_wires() {
    let mut switch = Target::V1Model.program("int", 6).switch();
    let key = [Key::Exact(PORT.into())];
    // 25 Gbit/s: 0.32 ns a byte.
    let byte_time = (32u128 << 24) / 100;
    switch
        .add_entry("port", &key, "port_is", &[7, 7, 24, byte_time])
        .expect("it is there");
    let packet = Packet::new(
        Ip::V4(0),
        false,
        &[&[0xfd, 16, 0xfa, 0x72][..], &[0; 12]].concat(),
    );
    let bytes = packet.bytes();
    let mut load = wire::Load::default();
    let (mut now, mut tx) = (0u64, 0u64);
    let mut seen = std::collections::BTreeSet::new();
    for i in 0..3000u64 {
        let length = 100 + i * 37 % 1400;
        now += [400, 10, 9_000, 700][(i % 4) as usize] * (1 + i % 7);
        tx += length + 24;
        let busy = ((length + 24) * byte_time as u64) >> 16;
        let hop = Hop {
            tx_bytes: tx,
            time_ns: now,
            load: load.sent(now, busy as u32),
            speed: Speed::from_mbps(25_000),
            hop_id: 7,
            shift: 6,
            ..Hop::default()
        };
        seen.insert(hop.load);
        let mut options = packet.options.clone();
        hop.stamp(&mut options).expect("it fits");
        let m = Metadata {
            length: length as u32,
            ..metadata(&hop)
        };
        let mut out = Vec::new();
        assert!(switch.port(&bytes, &m, &mut out));
        let at = packet.tcp_at() + 20;
        assert_eq!(out[at..at + 16], options, "packet {i}");
    }
    assert!(seen.len() > 8, "the load moves: {seen:?}");
}

/// A simulator may take switches to its threads.
#[test]
fn switches_travel() {
    fn travels<T: Send + Sync + Clone>() {}
    travels::<Switch>();
    travels::<p4::Program>();
}

/// The control plane is told what it asked wrongly.
#[test]
fn control_plane_errors() {
    let mut switch = Target::V1Model.program("int", 6).switch();
    let port = |s: &mut Switch, keys: &[Key], action: &str, args: &[u128]| {
        let told = s.add_entry("port", keys, action, args);
        told.expect_err("this is wrong").to_string()
    };
    let key = [Key::Exact(1)];
    assert!(port(&mut switch, &key, "port_was", &[]).contains("it has: port_is"));
    assert!(port(&mut switch, &key, "port_is", &[1]).contains("takes 4 values, not 1"));
    assert!(port(&mut switch, &key, "port_is", &[256, 1, 1, 1]).contains("256"));
    assert!(port(&mut switch, &[], "port_is", &[1, 1, 1, 1]).contains("1 keys, not 0"));
    assert!(port(&mut switch, &[Key::Exact(512)], "port_is", &[1, 1, 1, 1]).contains("9 bits"));
    assert!(port(&mut switch, &[Key::Lpm(1, 3)], "port_is", &[1, 1, 1, 1]).contains("Exact"));
    let e = switch
        .add_entry("prot", &key, "port_is", &[])
        .expect_err("no such table");
    assert!(e.to_string().contains("eg.telemetry.port"), "{e}");
    let e = switch
        .read_register("tx_bytes", 512)
        .expect_err("no such element");
    assert!(e.to_string().contains("512 elements"), "{e}");
}
