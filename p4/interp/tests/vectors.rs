// SPDX-License-Identifier: GPL-2.0

//! Every hop of wire/vectors.txt through the real programs: each format, both versions of IP, with and without IP
//! options and VLAN tag, each order of options, cut at every byte.

mod common;
use common::runner::{hex, unhex, vectors, Vector};
use common::{around, checksums_valid, stamp, Packet, Target};

fn hops() -> Vec<Vector> {
    let text = include_str!("../../../wire/vectors.txt");
    let all: Vec<Vector> = vectors(text)
        .into_iter()
        .filter(|v| v.verb == "hop")
        .collect();
    assert!(all.len() > 100, "the vectors of hops");
    all
}

/// What the vector says; for a target whose metadata cannot hold what the vector says, what wire says to
/// what it can hold.
fn expected(v: &Vector, target: Target) -> (String, String) {
    let options = v.text("options").to_owned();
    let check = v.text("check").to_owned();
    let hop = common::runner::hop(v);
    let seen = target.sees(&hop);
    if seen == hop || target == Target::V1Model {
        let written = v.answer.strip_prefix("options=");
        return match written.and_then(|a| a.split_once(" check=")) {
            Some((options, check)) => (options.into(), check.into()),
            None => (options, check),
        };
    }
    let mut bytes = unhex(&options);
    match seen.stamp(&mut bytes) {
        Ok(delta) => {
            let old = u16::from_str_radix(&check, 16).expect("hex");
            (hex(&bytes), format!("{:04x}", delta.apply(old)))
        }
        Err(_) => (options, check),
    }
}

fn run(target: Target) {
    let mut changed = 0;
    for v in hops() {
        let hop = common::runner::hop(&v);
        if target == Target::Tofino1 && hop.shift < 6 {
            // Refused when compiled; see wrong.rs.
            continue;
        }
        let (options, check) = expected(&v, target);
        for packet in around(&v.bytes("options")) {
            let at = packet.tcp_at();
            let mut bytes = packet.bytes();
            let old = unhex(v.text("check"));
            bytes[at + 16..at + 18].copy_from_slice(&old);
            let mut want = bytes.clone();
            want[at + 16..at + 18].copy_from_slice(&unhex(&check));
            let new = unhex(&options);
            want[at + 20..at + 20 + new.len()].copy_from_slice(&new);
            changed += usize::from(want != bytes);
            let got = stamp(target, "int", &hop, &bytes);
            assert_eq!(hex(&got), hex(&want), "{target:?} {} {packet:?}", v.name);
            // And with a checksum that is right.
            let bytes = packet.bytes();
            let got = stamp(target, "int", &hop, &bytes);
            assert!(
                checksums_valid(&got, packet.ip_at(), at),
                "{target:?} {}",
                v.name
            );
        }
    }
    assert!(changed > 500, "most vectors write: {changed}");
}

#[test]
fn v1model() {
    run(Target::V1Model);
}

#[test]
fn tofino1() {
    run(Target::Tofino1);
}

#[test]
fn tofino2() {
    run(Target::Tofino2);
}

/// Cut at every byte before the option's end: nothing is changed.
fn cut(target: Target) {
    for v in hops() {
        let hop = common::runner::hop(&v);
        if !v.name.contains("timestamps-before") && !v.name.contains("sack-before") {
            continue;
        }
        for packet in around(&v.bytes("options")) {
            let bytes = packet.bytes();
            let end = bytes.len() - packet.payload.len();
            for len in 0..end {
                // The option ends where the header does: whatever is cut, it is not whole.
                let got = stamp(target, "int", &hop, &bytes[..len]);
                assert_eq!(got, &bytes[..len], "{target:?} {} cut at {len}", v.name);
            }
        }
    }
}

#[test]
fn cut_anywhere() {
    for target in Target::ALL {
        cut(target);
    }
}

/// The option behind every mix of what may stand in front, as long as it fits.
fn orders(target: Target) {
    let parts: [&[u8]; 7] = [
        &[1, 1, 1, 1],
        &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
        &[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2],
        &[2, 4, 5, 0xb4],
        &[1, 3, 3, 10],
        &[1, 1, 4, 2],
        &[4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0],
    ];
    let ours: [&[u8]; 3] = [
        &[0xfd, 8, 0xfa, 0x70, 0, 0, 0, 15],
        &[0xfd, 16, 0xfa, 0x72, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0xfd, 12, 0xfa, 0x74, 0, 0, 0, 0, 0, 0, 0, 0],
    ];
    let v = hops().remove(0);
    let hop = common::runner::hop(&v);
    let mut tried = 0;
    // All sequences of parts, by counting in base eight; 0 ends one.
    let mut todo: Vec<Vec<u8>> = vec![Vec::new()];
    while let Some(before) = todo.pop() {
        for part in parts {
            if before.len() + part.len() <= 32 {
                todo.push([&before, part].concat());
            }
        }
        for option in ours {
            let options = [&before[..], option].concat();
            if options.len() > 40 || tried % 11 != 0 && before.len() > 16 {
                tried += 1;
                continue;
            }
            tried += 1;
            let packet = Packet::new(common::Ip::V4(0), false, &options);
            let bytes = packet.bytes();
            let mut want = options.clone();
            let at = packet.tcp_at() + 20;
            target.sees(&hop).stamp(&mut want).expect("wire finds it");
            let got = stamp(target, "int", &hop, &bytes);
            assert_eq!(
                hex(&got[at..at + want.len()]),
                hex(&want),
                "{target:?} {}",
                hex(&options)
            );
            assert!(checksums_valid(&got, packet.ip_at(), packet.tcp_at()));
        }
    }
    assert!(tried > 1000, "{tried}");
}

#[test]
fn any_order() {
    for target in Target::ALL {
        orders(target);
    }
}

/// The programs of one format: the same for theirs, nothing for the others.
#[test]
fn one_format() {
    for target in [Target::Tofino1, Target::Tofino2] {
        for (name, other) in [
            ("mpd", ["bottleneck", "stack"]),
            ("bottleneck", ["mpd", "stack"]),
        ] {
            let mut written = 0;
            for v in hops() {
                let hop = common::runner::hop(&v);
                if hop.shift != 6 {
                    continue;
                }
                let packet = Packet::new(common::Ip::V6, true, &v.bytes("options"));
                let bytes = packet.bytes();
                let got = stamp(target, name, &hop, &bytes);
                if other.iter().any(|o| v.name.starts_with(o)) {
                    assert_eq!(got, bytes, "{name} {}", v.name);
                } else {
                    let at = packet.tcp_at() + 20;
                    let (options, _) = expected(&v, target);
                    assert_eq!(hex(&got[at..at + options.len() / 2]), options, "{}", v.name);
                    written += usize::from(got != bytes);
                }
            }
            assert!(written > 10, "{name}: {written}");
        }
    }
}
