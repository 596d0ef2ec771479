// SPDX-License-Identifier: GPL-2.0
//! The real P4 programs as the switches of a scenario: what comes out is what the built-in switch gives, packet for
//! packet.

use fathom_sim::engine::{self, Error};
use fathom_sim::packet::{Int, Packet};
use fathom_sim::time::NS;
use p4::{Key, Lpf, Metadata};
use scenario::{Resolved, Scenario};
use std::path::{Path, PathBuf};
use wire::{Format, Hop, Speed};

/// Two hops that are congested in turn, messages of all sizes in both directions, losses, and a hop that lies for a
/// while and changes its rate.
const SCENARIO: &str = r#"
title = "a P4 program in the loop"
compare = ["poseidon", "powertcp", "stack", "hpcc-stack"]
duration = "3ms"
[topology.parking_lot]
cross = [2, 3]
host_rate = "10Gbit"
host_delay = "2us"
delay = "3us"
[switch]
delay = "400ns"
shared_buffer = "400KB"
[port]
queue = { ecn = { threshold = "65packets" } }
[cc.stack]
law = "powertcp"
int = "stack"
[cc.hpcc-stack]
law = "hpcc"
int = "stack"
[[flows]]
group = "victim"
from = "a"
to = "b"
[[flows]]
group = "cross"
from = "x*"
to = "y*"
jitter = "200us"
[[rpc]]
group = "rpc"
from = "y0_0"
to = "x1_1"
request = "30KB"
response = "2KB"
[[flows]]
group = "dctcp"
from = "b"
to = "a"
size = "300KB"
cc = "dctcp"
[[faults]]
on = "s1->s2"
loss = 0.002
[[faults]]
on = "s0->s1"
int = "random"
from = "1ms"
until = "1.2ms"
[[faults]]
on = "s1->s2"
from = "2ms"
rate = "4Gbit"
[measure]
interval = "50us"
"#;

fn p4_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4")
}

fn scenario(text: &str, cc: &str, settings: &[&str]) -> Resolved {
    let settings: Vec<String> = settings.iter().map(|s| (*s).to_owned()).collect();
    let s = Scenario::parse("p4.toml", text, &settings, Path::new("."), "p4");
    let resolved = s.and_then(|s| s.resolve(cc));
    resolved.unwrap_or_else(|e| panic!("{e}"))
}

/// With `program` of p4/v1model on every switch.
fn with(program: &str) -> String {
    let path = p4_dir().join("v1model").join(program);
    format!("switch.p4={}", path.display())
}

/// Everything that was measured.
fn measured(resolved: &Resolved) -> String {
    let run = engine::run(resolved, &mut |_| true);
    format!("{:#?}", run.unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn results_are_those_of_the_built_in_switch() {
    let p4 = with("int.p4");
    for cc in ["poseidon", "powertcp", "stack", "hpcc-stack"] {
        let built_in = measured(&scenario(SCENARIO, cc, &[]));
        let program = measured(&scenario(SCENARIO, cc, &[&p4]));
        assert!(
            built_in == program,
            "{cc}: {}",
            first_difference(&built_in, &program)
        );
    }
}

/// One switch runs the program and the others do not; and a port where it is switched off.
#[test]
fn one_switch_among_others() {
    let text = format!(
        "{SCENARIO}[[switches]]\nof = \"s1\"\np4 = {:?}\n",
        p4_dir().join("v1model/int.p4").display().to_string()
    );
    assert_eq!(
        measured(&scenario(SCENARIO, "powertcp", &[])),
        measured(&scenario(&text, "powertcp", &[]))
    );
    let off = "[[ports]]\nof = \"s1->s2\"\nint = false\n";
    assert_eq!(
        measured(&scenario(&format!("{SCENARIO}{off}"), "poseidon", &[])),
        measured(&scenario(&format!("{text}{off}"), "poseidon", &[]))
    );
}

/// Every packet in every queue and on every wire, every 100 ns: the same option in both.
#[test]
fn stamps_are_the_same_packet_for_packet() {
    let p4 = with("int.p4");
    for (cc, stamps) in [
        ("poseidon", "true"),
        ("powertcp", "true"),
        ("stack", "true"),
        ("stack", "false"),
    ] {
        let stamps = format!("tcp.timestamps={stamps}");
        let mut built_in =
            engine::simulation(&scenario(SCENARIO, cc, &[&stamps])).expect("it runs");
        let mut program =
            engine::simulation(&scenario(SCENARIO, cc, &[&stamps, &p4])).expect("it runs");
        let (mut seen, mut written) = (0u32, 0u32);
        for step in 0..12_000u64 {
            let now = step * 100 * NS;
            built_in.run_until(now);
            program.run_until(now);
            for (p, (a, b)) in built_in.ports.iter().zip(&program.ports).enumerate() {
                assert_eq!(a.packets(), b.packets(), "{cc} at {step}, port {p}");
                let (mut all, mut same) = (Vec::new(), Vec::new());
                a.each(|packet| all.push(*packet));
                b.each(|packet| same.push(*packet));
                for (x, y) in all.iter().zip(&same) {
                    assert_eq!(fields(x), fields(y), "{cc} at {step}, port {p}");
                    seen += 1;
                    written += u32::from(x.body != [0; 32] && x.int != Int::None);
                }
            }
        }
        assert!(
            written > 100_000 && seen > written,
            "{cc}: {written} of {seen}"
        );
    }
}

fn fields(p: &Packet) -> String {
    format!("{p:?}")
}

fn first_difference(a: &str, b: &str) -> String {
    let mut lines = a.lines().zip(b.lines()).enumerate();
    let differs = lines.find(|(_, (x, y))| x != y);
    differs.map_or_else(
        || "one is longer".into(),
        |(n, (x, y))| format!("line {n}: {x} and {y}"),
    )
}

/// CoDel and reverse path marking by the program, and by the simulator. Where a reverse mark is counted differs: the
/// program's is seen on the ACK.
#[test]
fn marks_are_those_of_the_built_in_switch() {
    let text = r#"
title = "CoDel"
compare = ["reno"]
duration = "80ms"
[topology.dumbbell]
pairs = 4
host_rate = "1Gbit"
host_delay = "10us"
rate = "200Mbit"
delay = "20us"
[port]
queue = { codel_rpm = { target = "200us", interval = "4ms" } }
[cc.reno]
ecn = 1
[[flows]]
group = "marked"
from = "l[0..2]"
to = "r[0..2]"
[[flows]]
group = "dropped"
from = "l3"
to = "r3"
cc = "cubic"
"#;
    let unmarked = |s: &str| -> String {
        let lines = s.lines().filter(|l| !l.trim_start().starts_with("marks:"));
        lines.collect::<Vec<_>>().join("\n")
    };
    for program in ["rpm.p4", "fathom_switch.p4"] {
        let p4 = with(program);
        let (a, b) = (scenario(text, "reno", &[]), scenario(text, "reno", &[&p4]));
        let (a, b) = (measured(&a), measured(&b));
        assert!(
            unmarked(&a) == unmarked(&b),
            "{program}: {}",
            first_difference(&unmarked(&a), &unmarked(&b))
        );
        assert_ne!(a, b, "{program}: reverse marks are seen on ACKs");
        let forward = "port.queue={codel={target=\"200us\",interval=\"4ms\"}}";
        let (a, b) = (
            scenario(text, "reno", &[forward]),
            scenario(text, "reno", &[forward, &p4]),
        );
        let (a, b) = (measured(&a), measured(&b));
        assert!(a == b, "{program}: {}", first_difference(&a, &b));
        assert!(
            a.contains("drops: ")
                && !a
                    .lines()
                    .all(|l| !l.contains("drops:") || l.ends_with(" 0,"))
        );
    }
}

/// A program that writes and does not mend the checksum: no receiver takes its packets.
#[test]
fn a_wrong_program_loses_packets() {
    let dir = std::env::temp_dir().join(format!("fathom-sim-p4-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let text = std::fs::read_to_string(p4_dir().join("v1model/int.p4")).expect("it is there");
    let include = p4_dir()
        .join("include/v1model_int.p4")
        .display()
        .to_string();
    let text = text.replace("../include/v1model_int.p4", &include);
    let wrong = text.replace(
        "FathomChecksum(), SwitchDeparser",
        "SwitchVerify(), SwitchDeparser",
    );
    assert_ne!(text, wrong);
    let run = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::write(&path, text).expect("a file");
        let p4 = format!("switch.p4={}", path.display());
        let r = scenario(SCENARIO, "poseidon", &[&p4]);
        let measured = engine::run(&r, &mut |_| true).expect("it runs");
        measured.flows[0].bytes
    };
    let (right, lost) = (run("right.p4", &text), run("wrong.p4", &wrong));
    let _ = std::fs::remove_dir_all(dir);
    assert!(right > 500_000 && lost == 0, "{right} {lost}");
}

#[test]
fn what_a_program_cannot_be_told() {
    let p4 = with("int.p4");
    let refused = |settings: &[&str]| {
        let r = scenario(SCENARIO, "poseidon", settings);
        match engine::run(&r, &mut |_| true) {
            Err(Error::Unsupported(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    let why = refused(&[&p4, "network.overhead=300"]);
    assert!(why.contains("int.p4") && why.contains("286"), "{why}");
    let rpm = with("rpm.p4");
    let codel = "port.queue={codel={target=\"1ms\",interval=\"20ms\",ecn=false}}";
    let why = refused(&[&rpm, codel]);
    assert!(why.contains("without ECN"), "{why}");
}

/// For one state of a port, all switches write one option: the simulator's, sch_int's (which is `wire::Hop::stamp`; the VM's
/// selftest holds each packet to the record that the port logged of it), v1model's and both Tofinos'.
#[test]
fn all_switches_write_the_same() {
    let programs: Vec<(bool, p4::Program)> = [
        ("v1model/int.p4", ""),
        ("tna/int.p4", ""),
        ("tna/int.p4", "FATHOM_TOFINO2"),
    ]
    .iter()
    .map(|(file, define)| {
        let defines: &[(&str, &str)] = if define.is_empty() {
            &[]
        } else {
            &[(define, "1")]
        };
        let program = p4::load_with(&p4_dir().join(file), &[], defines);
        (
            file.starts_with("tna"),
            program.unwrap_or_else(|e| panic!("{e}")),
        )
    })
    .collect();
    let mut rng = fathom_sim::rng::Rng::new(7);
    for round in 0..600 {
        let (a, b, c) = (rng.bits(), rng.bits(), rng.bits());
        // What Tofino 1 can tell: 18 bits of ns; queues that are whole cells of both.
        let hop = Hop {
            delay_ns: (a & 0x3_ffff) >> (a >> 60),
            qlen_bytes: (b as u32 % 400) * 176 * 5 / 80 * 80,
            tx_bytes: b >> 8,
            time_ns: c >> 8,
            load: (a >> 32) as u8,
            speed: Speed::from_code(1 + (c % 15) as u8),
            hop_id: (a >> 40) as u8,
            shift: 6,
        };
        for format in [Format::Mpd, Format::Bottleneck, Format::Stack] {
            let mut packet = Packet {
                kind: fathom_sim::packet::Kind::Data,
                ..Packet::NONE
            };
            let option_len = packet.offer(Some(format), true) as usize;
            // Behind hops that wrote before: none, one that was idle, one that was not.
            for _ in 0..round % 3 {
                let before = Hop {
                    delay_ns: b & 0x1ffff,
                    load: 9,
                    speed: Speed::from_code(7),
                    time_ns: 99,
                    ..hop
                };
                packet.stamp(&before);
            }
            let option = |p: &Packet| {
                let exid = match format {
                    Format::Mpd => 0xfa70u16,
                    Format::Bottleneck => 0xfa72,
                    Format::Stack => 0xfa74,
                };
                let [x, y] = exid.to_be_bytes();
                let mut bytes = vec![0xfd, option_len as u8, x, y];
                bytes.extend(&p.body[..option_len - 4]);
                bytes
            };
            let before = option(&packet);
            packet.stamp(&hop);
            let by_sim = option(&packet);
            let mut by_wire = before.clone();
            hop.stamp(&mut by_wire).expect("there is room");
            assert_eq!(by_sim, by_wire, "{hop:?}");
            for (tofino, program) in &programs {
                let got = through(program, *tofino, &hop, &before);
                // Tofino 2 counts a queue in cells of 176 bytes.
                let two = program.architecture() == p4::Architecture::Tofino2;
                let seen = Hop {
                    qlen_bytes: if two {
                        in_80(hop.qlen_bytes)
                    } else {
                        hop.qlen_bytes
                    },
                    ..hop
                };
                let mut want = before.clone();
                seen.stamp(&mut want).expect("there is room");
                assert_eq!(got, want, "{:?} {hop:?}", program.architecture());
            }
        }
    }
}

/// 80-byte cells of what Tofino 2 says of a queue, in bytes: docs/p4.md.
fn in_80(bytes: u32) -> u32 {
    let cells = bytes / 176;
    (2 * cells + cells / 8 + cells / 16) * 80
}

/// An option through a port of `program` that stands as `hop` says.
fn through(program: &p4::Program, tofino: bool, hop: &Hop, option: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let len = 20 + 20 + option.len() as u8;
    frame.extend([
        0x45, 0, 0, len, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    frame.extend([
        0,
        1,
        0,
        2,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        (5 + option.len() as u8 / 4) << 4,
        0x10,
        0,
        0,
        0,
        0,
        0,
        0,
    ]);
    frame.extend(option);
    let mut switch = program.switch();
    let ok = "the program has what is asked for";
    let (id, speed) = (hop.hop_id.into(), hop.speed.code().into());
    let key = [Key::Exact(1)];
    if tofino {
        switch
            .add_entry("port", &key, "port_is", &[id, speed, 0])
            .expect(ok);
        let lpf = Lpf {
            gain: 0,
            half_life_shift: 15,
            scale_down: 0,
            level: hop.load.into(),
        };
        switch
            .set_lpf("utilisation", 1, &lpf, hop.time_ns)
            .expect(ok);
    } else {
        switch
            .add_entry("port", &key, "port_is", &[id, speed, 0, 0])
            .expect(ok);
        switch
            .write_register("load_level", 1, &[u128::from(hop.load) << 16])
            .expect(ok);
        let now = u128::from(hop.time_ns) & 0xffff_ffff_ffff;
        switch.write_register("load_at", 1, &[now]).expect(ok);
    }
    let tx = (hop.tx_bytes as u32).wrapping_sub(frame.len() as u32);
    switch
        .write_register("tx_bytes", 1, &[tx.into()])
        .expect(ok);
    let metadata = Metadata {
        egress_port: 1,
        enqueue_ns: hop.time_ns.wrapping_sub(hop.delay_ns),
        dequeue_ns: hop.time_ns,
        dequeue_bytes: hop.qlen_bytes,
        ..Metadata::default()
    };
    let mut out = Vec::new();
    assert!(switch.port(&frame, &metadata, &mut out));
    out[54..].to_vec()
}
