// SPDX-License-Identifier: GPL-2.0
//! Every scenario of the project can be read and resolved, and is what its figure asks for.

use scenario::{Engine, Resolved, Scenario};
use std::path::{Path, PathBuf};

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn load(name: &str, set: &[&str]) -> Scenario {
    let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
    Scenario::load(&dir().join(format!("{name}.toml")), &set).unwrap_or_else(|e| panic!("{e}"))
}

fn resolve(name: &str, cc: &str, set: &[&str]) -> Resolved {
    load(name, set)
        .resolve(cc)
        .unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn every_scenario_resolves() {
    let mut count = 0;
    for entry in std::fs::read_dir(dir()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "toml") {
            continue;
        }
        count += 1;
        // The largest have hundreds of thousands of flows: a thousandth of the time has all of the rest.
        let text = std::fs::read_to_string(&path).unwrap();
        let large = ["hadoop", "websearch-storage"]
            .iter()
            .any(|n| path.ends_with(format!("{n}.toml")));
        let set = if large {
            vec!["duration=100us".to_owned()]
        } else {
            Vec::new()
        };
        let scenario = Scenario::load(&path, &set).unwrap_or_else(|e| panic!("{e}"));
        // What a resolve checks of one congestion control it checks of all that are compared.
        let r = scenario
            .resolve(&scenario.compare()[0])
            .unwrap_or_else(|e| panic!("{e}"));
        assert!(
            !r.flows.is_empty() && !r.measure.ports.is_empty(),
            "{}",
            r.name
        );
        assert!(
            text.starts_with("# "),
            "{} does not open with what it shows",
            r.name
        );
        if scenario.engines().contains(&Engine::Lab) {
            assert!(
                r.nodes.len() <= 100,
                "{} is too large for the lab: {} nodes",
                r.name,
                r.nodes.len()
            );
        }
    }
    assert!(count >= 30, "{count}");
}

#[test]
fn agreement_scenarios_are_for_both_engines_and_all_laws() {
    for name in [
        "single",
        "incast-10",
        "multihop",
        "reverse-path",
        "steps",
        "ramp-up",
        "rtt-mix",
        "loss-0.1",
        "link-flap",
        "short-flow-mix",
    ] {
        let s = load(name, &[]);
        assert_eq!(s.engines(), [Engine::Sim, Engine::Lab], "{name}");
        for cc in [
            "poseidon",
            "powertcp",
            "theta_powertcp",
            "hpcc",
            "swift",
            "dctcp",
            "cubic",
        ] {
            assert!(s.compare().contains(&cc.to_owned()), "{name} without {cc}");
        }
    }
}

#[test]
fn the_victim_of_multihop_has_the_share_that_poseidon_claims() {
    for (m, n) in [(0, 0), (0, 3), (2, 2), (5, 9), (9, 2)] {
        let r = resolve(
            "multihop",
            "dctcp",
            &[&format!("topology.parking_lot.cross=[{m},{n}]")],
        );
        assert_eq!(r.flows.len(), 1 + m as usize + n as usize);
        let flows: Vec<usize> = (0..r.flows.len()).collect();
        let victim = flows
            .iter()
            .position(|&f| r.groups[r.flows[f].group].name == "victim")
            .unwrap();
        let share = r.max_min_bps(&flows)[victim] / (10e9 * r.efficiency(0));
        let due = 1.0 / f64::from(m.max(n) + 1);
        assert!(
            (share / due - 1.0).abs() < 0.01,
            "({m},{n}): {share} of the line, due {due}"
        );
    }
}

#[test]
fn the_victim_of_reverse_path_is_due_the_line_less_the_acks() {
    let r = resolve("reverse-path", "dctcp", &[]);
    let flows: Vec<usize> = (0..r.flows.len()).collect();
    let shares = r.max_min_bps(&flows);
    let line = 10e9 * r.efficiency(0);
    // One data packet of 4134 bytes has an ACK of 90: the reverse flows together take 2.2 % of the line.
    assert!(
        (shares[0] / line - (1.0 - 90.0 / 4134.0)).abs() < 0.001,
        "{}",
        shares[0] / line
    );
    assert!((shares[1] / shares[4] - 1.0).abs() < 1e-6);
    assert!((shares[1..].iter().sum::<f64>() / line - (1.0 - 90.0 / 4134.0)).abs() < 0.001);
}

#[test]
fn base_rtts_are_as_the_papers_have_them() {
    let rtt = |name: &str, cc: &str| resolve(name, cc, &[]).base_rtt_ns(0) as f64 / 1e3;
    assert!(
        (rtt("single", "theta_powertcp") - 21.6).abs() < 0.1,
        "facts: 21.5 us"
    );
    assert!(
        (rtt("multihop", "poseidon") - 33.0).abs() < 0.5,
        "docs/laws.md: 33 us"
    );
    let r = resolve("web-search-256", "hpcc", &["duration=1ms"]);
    let largest = (0..r.flows.len()).map(|f| r.base_rtt_ns(f)).max().unwrap();
    assert!(
        (29_000..30_000).contains(&largest),
        "{largest}: 30 us is what the laws are told"
    );
}

#[test]
fn web_search_is_at_its_load_and_the_same_everywhere() {
    let r = resolve("web-search-256", "powertcp", &[]);
    assert_eq!(r.hosts().count(), 256);
    let offered: f64 = r
        .flows
        .iter()
        .enumerate()
        .filter(|(f, _)| r.path(*f).iter().any(|&p| r.port_name(p).contains("->agg")))
        .map(|(_, f)| match f.work {
            scenario::Work::Bytes(b) => b as f64 * 8.0,
            _ => 0.0,
        })
        .sum();
    // 8 ToRs with 2 uplinks of 100 Gbit/s.
    let load = offered / (1.6e12 * r.duration_ns as f64 / 1e9);
    assert!((load - 0.6).abs() < 0.05, "{load}");
    // Pinned: whoever runs this has the same flows.
    let sum = r.flows.iter().enumerate().fold(0u64, |sum, (i, f)| {
        let scenario::Work::Bytes(bytes) = f.work else {
            unreachable!()
        };
        let one = f.start_ns ^ (bytes << 20) ^ ((f.src as u64) << 50) ^ ((f.dst as u64) << 55);
        sum.rotate_left(7) ^ one.wrapping_mul(i as u64 | 1)
    });
    assert_eq!((r.flows.len(), sum), (PINNED.0, PINNED.1));
    let other = resolve("web-search-256", "powertcp", &["seed=2"]);
    assert_ne!(other.flows.len(), r.flows.len());
}

const PINNED: (usize, u64) = (3908, 3_974_332_528_206_262_314);

#[test]
fn circuits_come_round() {
    let r = resolve("rdcn", "powertcp", &[]);
    let c = r.circuits.as_ref().unwrap();
    assert_eq!((c.matchings, c.circuits.len()), (24, 25 * 24));
    // Each rack has one circuit in each matching, out and in.
    for matching in 0..24 {
        let up: Vec<_> = c
            .circuits
            .iter()
            .filter(|c| c.matching == matching)
            .collect();
        assert_eq!(up.len(), 25);
        let mut from: Vec<usize> = up.iter().map(|c| r.near_end(c.port)).collect();
        let mut to: Vec<u32> = up.iter().map(|c| c.to_rack).collect();
        from.sort_unstable();
        to.sort_unstable();
        from.dedup();
        to.dedup();
        assert_eq!((from.len(), to.len()), (25, 25));
    }
    assert_eq!(c.up_at(0), Some(0));
    assert_eq!(c.up_at(224_999), Some(0));
    assert_eq!(c.up_at(225_000), None);
    assert_eq!(c.up_at(245_000), Some(1));
    assert_eq!(c.up_ns(3, 0, 2 * c.week_ns()), 2 * c.day_ns);
    assert_eq!(c.up_ns(0, 100, 400), 300);
    let tor0 = r.near_end(r.path(0)[1]);
    let circuit = c.to_rack(&r, tor0, 1).unwrap();
    assert_eq!(
        (r.port_name(circuit.port).as_str(), circuit.matching),
        ("tor0->tor1", 0)
    );
    // Packets do not take circuits unless the engine says so.
    assert!(r.path(0).iter().any(|&p| r.port_name(p) == "tor0->packet"));
}

#[test]
fn ecmp_spreads_flows_and_keeps_each_on_its_path() {
    // So many that each message has one of its own.
    let own = ["poisson.0.connections=1024", "poisson.1.connections=1024"];
    let r = resolve("uniform-random", "poseidon", &own);
    let mut used = std::collections::BTreeMap::new();
    for f in 0..r.flows.len() {
        let path = r.path(f);
        assert_eq!(path, r.path(f));
        assert_eq!(path.len(), 4);
        *used.entry(path[1]).or_insert(0usize) += 1;
    }
    assert_eq!(used.len(), 16);
    // 13 700 flows on A's and 6 900 on B's: each of eight uplinks within a tenth.
    let (least, most) = used
        .iter()
        .filter(|(p, _)| r.port_name(**p).starts_with("leaf0"))
        .fold((usize::MAX, 0), |(least, most), (_, &n)| {
            (least.min(n), most.max(n))
        });
    assert!(most as f64 / (least as f64) < 1.2, "{least} to {most}");
}

/// Messages of a pair take its standing connections in turn, and keep their path.
#[test]
fn messages_on_standing_connections() {
    let text = "title = \"x\"\ncompare = [\"poseidon\"]\nduration = \"1ms\"\n\
        [topology.leaf_spine]\nleaves = 2\nspines = 4\nhosts_per_leaf = 2\nhost_rate = \"10Gbit\"\nhost_delay = \"1us\"\n\
        [[poisson]]\ngroup = \"m\"\nfrom = \"h0_*\"\nto = \"h1_*\"\nload = 1.0\nsizes = [[1000, 0], [9000, 100]]\nconnections = 2\n\
        [[poisson]]\ngroup = \"own\"\nfrom = \"h0_*\"\nto = \"h1_*\"\nload = 0.1\nsizes = \"storage\"\n";
    let r = Scenario::parse("x", text, &[], Path::new("."), "x")
        .and_then(|s| s.resolve("poseidon"))
        .unwrap_or_else(|e| panic!("{e}"));
    let mut carriers = std::collections::BTreeMap::new();
    for (id, f) in r.flows.iter().enumerate() {
        if r.groups[f.group].name == "own" {
            assert_eq!(f.on, None);
            continue;
        }
        let on = f.on.expect("a connection that stands");
        let first = &r.flows[on];
        assert!(on <= id && first.on == Some(on));
        assert_eq!((first.src, first.dst, first.group), (f.src, f.dst, f.group));
        assert_eq!((r.path(id), r.ack_path(id)), (r.path(on), r.ack_path(on)));
        carriers
            .entry((f.src, f.dst))
            .or_insert_with(Vec::new)
            .push(on);
    }
    assert_eq!(carriers.len(), 4, "pairs");
    for on in carriers.values() {
        assert!(on.len() > 20, "{} messages", on.len());
        assert!(
            on.windows(3).all(|w| w[0] == w[2] && w[0] != w[1]),
            "{on:?}"
        );
    }
}
