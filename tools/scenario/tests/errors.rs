// SPDX-License-Identifier: GPL-2.0
//! Wrong files get one clear error each, at the right line.

use scenario::{Error, Scenario};
use std::path::Path;

/// A small scenario that is right. Each test changes one thing.
const RIGHT: &str = r#"title = "two hosts and a switch"
compare = ["poseidon"]
duration = "10ms"

[[nodes]]
name = "a"
kind = "host"
[[nodes]]
name = "b"
kind = "host"
[[nodes]]
name = "s"
kind = "switch"
[[nodes]]
name = "t"
kind = "switch"

[[links]]
a = "a"
b = "s"
rate = "10Gbit"
delay = "1us"
[[links]]
a = "s"
b = "t"
rate = "10Gbit"
delay = "1us"
[[links]]
a = "t"
b = "b"
rate = "10Gbit"
delay = "1us"

[[flows]]
group = "long"
from = "a"
to = "b"
"#;

fn resolve(text: &str) -> Result<scenario::Resolved, Box<Error>> {
    let s = Scenario::parse("wrong.toml", text, &[], Path::new("."), "wrong")?;
    s.resolve(&s.compare()[0])
}

/// The error of `RIGHT` with `old` replaced by `new`, which must be on the line that contains `at`.
#[track_caller]
fn error(old: &str, new: &str, at: &str) -> Box<Error> {
    assert!(RIGHT.contains(old), "{old:?} is not in the scenario");
    wrong(&RIGHT.replacen(old, new, 1), at)
}

/// The error of `RIGHT` with `more` at its end.
#[track_caller]
fn added(more: &str, at: &str) -> Box<Error> {
    wrong(&format!("{RIGHT}{more}"), at)
}

#[track_caller]
fn wrong(text: &str, at: &str) -> Box<Error> {
    let e = match resolve(text) {
        Ok(_) => panic!("no error"),
        Err(e) => e,
    };
    let line = text.lines().nth(e.line.wrapping_sub(1)).unwrap_or("");
    assert!(
        line.contains(at),
        "points at line {}: {line:?}\n{e}",
        e.line
    );
    assert!(
        e.to_string()
            .contains(&format!("wrong.toml:{}:{}", e.line, e.column)),
        "{e}"
    );
    assert!(
        e.to_string().contains(line.trim()),
        "the line is not shown:\n{e}"
    );
    e
}

#[track_caller]
fn says(e: &Error, what: &str) {
    assert!(
        e.message.contains(what) || e.help.contains(what),
        "{what:?} is not said:\n{e}"
    );
}

#[test]
fn the_right_one_is_right() {
    let r = resolve(RIGHT).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(r.path(0).len(), 3);
    assert_eq!(
        r.measure.ports.first().map(|&p| r.port_name(p)).as_deref(),
        Some("s->t")
    );
}

#[test]
fn an_error_looks_like_this() {
    let e = error("rate = \"10Gbit\"", "rate = \"-10Gbit\"", "-10Gbit");
    let shown = "\
error: \"-10Gbit\" is negative, and a rate cannot be
  --> wrong.toml:21:8
   |
21 | rate = \"-10Gbit\"
   |        ^^^^^^^^^";
    assert_eq!(e.to_string(), shown);
}

#[test]
fn unknown_law() {
    let e = error("\"poseidon\"", "\"poseidn\"", "poseidn");
    says(&e, "there is no congestion control \"poseidn\"");
    says(&e, "did you mean \"poseidon\"?");
    let e = added("cc = \"vegas\"\n", "vegas");
    says(&e, "there is no congestion control \"vegas\"");
    says(&e, "theta_powertcp");
    let e = added("[cc.mine]\nm_thousandths = 1\n", "[cc.mine]");
    says(&e, "does not say which law");
    let e = added("[cc.mine]\nlaw = \"swfit\"\n", "swfit");
    says(&e, "did you mean \"swift\"?");
}

#[test]
fn parameters_of_a_law() {
    let e = added("[cc.poseidon]\nm_thousandths = 2000\n", "2000");
    says(&e, "m_thousandths is 2000, and must be from 1 to 1999");
    let e = added("[cc.poseidon]\nm = 250\n", "m = 250");
    says(&e, "there is no parameter of poseidon \"m\"");
    let e = added("[cc.poseidon]\np_ns = -1\n", "-1");
    says(&e, "p_ns is -1");
    let e = added("[cc.hpcc]\nvai_bank_cap = 70000\n", "70000");
    says(&e, "vai_bank_cap is 70000");
    let e = added("[cc.dcqcn]\nrai_mbps = 0\n", "rai_mbps = 0");
    says(&e, "rai_mbps is 0, and must be from 1 to 1000000");
    let e = added("[cc.powertcp]\nint = \"some\"\n", "some");
    says(&e, "off, mpd, bottleneck, stack");
    let e = added("[cc.powertcp]\nbase_rtt = \"short\"\n", "short");
    says(&e, "\"learn\", \"path\"");
}

#[test]
fn a_circle_of_routes() {
    let e = added(
        "[[routes]]\nat = \"t\"\nto = \"b\"\nvia = \"s\"\n",
        "via = \"s\"",
    );
    says(&e, "packets for \"b\" would go in a circle: s -> t -> s");
    let e = added(
        "[[routes]]\nat = \"a\"\nto = \"b\"\nvia = \"t\"\n",
        "via = \"t\"",
    );
    says(&e, "\"a\" has no link to any of these");
}

#[test]
fn a_host_without_a_route() {
    let e = error(
        "[[links]]\na = \"t\"\nb = \"b\"\nrate = \"10Gbit\"\ndelay = \"1us\"\n",
        "",
        "name = \"b\"",
    );
    says(&e, "host \"b\" has no link");
    let e = error(
        "[[links]]\na = \"s\"\nb = \"t\"\nrate = \"10Gbit\"\ndelay = \"1us\"\n",
        "",
        "from = \"a\"",
    );
    says(
        &e,
        "there is no route from \"a\" to \"b\": it ends at \"s\"",
    );
}

#[test]
fn a_thousand_million_flows() {
    let e = added("count = 1_000_000_000\n", "count");
    says(
        &e,
        "this comes to 1000000000 flows, and a scenario may have at most 2000000",
    );
    let star = "title = \"x\"\ncompare = [\"cubic\"]\nduration = \"1000s\"\n[topology.star]\nhosts = 300\nrate = \"100Gbit\"\ndelay = \"1us\"\n";
    let all =
        "[[flows]]\ngroup = \"f\"\nfrom = \"h*\"\nto = \"h*\"\npairing = \"all\"\ncount = 100\n";
    says(&wrong(&format!("{star}{all}"), "from"), "9000000 flows");
    let poisson = "[[poisson]]\ngroup = \"p\"\nfrom = \"h*\"\nto = \"h*\"\nload = 0.9\nsizes = \"web_search\"\n";
    says(
        &wrong(&format!("{star}{poisson}"), "load"),
        "flows, and a scenario may have at most",
    );
    let incast =
        "[[incast]]\ngroup = \"i\"\nfrom = \"h*\"\nto = \"h*\"\neach = \"1KB\"\nevery = \"1ms\"\n";
    says(
        &wrong(&format!("{star}{incast}"), "from"),
        "flows, and a scenario may have at most",
    );
    let often =
        "[[incast]]\ngroup = \"i\"\nfrom = \"h*\"\nto = \"h*\"\neach = \"1KB\"\nevery = \"1ns\"\n";
    says(
        &wrong(&format!("{star}{often}"), "every"),
        "flows, and a scenario may have at most",
    );
}

#[test]
fn a_topology_too_large() {
    let star = "title = \"x\"\ncompare = [\"cubic\"]\nduration = \"1s\"\n[topology.star]\nhosts = 1_000_000_000_000\nrate = \"1Gbit\"\ndelay = \"1us\"\n";
    says(&wrong(star, "hosts"), "nodes, and at most");
    let tree = "title = \"x\"\ncompare = [\"cubic\"]\nduration = \"1s\"\n[topology.fat_tree]\npods = 9\ntors_per_pod = 9\naggs_per_pod = 4\ncores = 6\nhosts_per_tor = 1\nhost_rate = \"1Gbit\"\nhost_delay = \"1us\"\n";
    says(
        &wrong(tree, "cores"),
        "6 cores cannot be divided evenly among 4",
    );
}

#[test]
fn names() {
    let e = error("name = \"b\"", "name = \"a\"", "name = \"a\"");
    says(&e, "there is already a node \"a\"");
    let e = error("b = \"t\"", "b = \"u\"", "b = \"u\"");
    says(&e, "there is no node \"u\"");
    let e = error("b = \"t\"", "b = \"s\"", "b = \"s\"");
    says(&e, "a link from \"s\" to itself");
    let e = added(
        "[[links]]\na = \"s\"\nb = \"a\"\nrate = \"1Gbit\"\ndelay = \"0\"\n",
        "b = \"a\"",
    );
    says(&e, "are linked already");
    let e = error("to = \"b\"", "to = \"c\"", "to = \"c\"");
    says(&e, "there is no host \"c\"");
    let e = error("to = \"b\"", "to = \"s\"", "to = \"s\"");
    says(&e, "there is no host \"s\"");
    let e = error("to = \"b\"", "to = \"a\"", "to = \"a\"");
    says(&e, "would send to itself");
    let e = error("to = \"b\"", "to = []", "to = []");
    says(&e, "an empty list");
    let e = added(
        "[[flows]]\ngroup = \"long\"\nfrom = \"b\"\nto = \"a\"\n",
        "group = \"long\"",
    );
    says(&e, "there is already a group \"long\"");
    let e = error("name = \"b\"", "name = \"b->\"", "b->");
    says(&e, "is not a name for a node");
}

#[test]
fn keys_and_kinds() {
    let e = error("delay = \"1us\"", "latency = \"1us\"", "latency");
    says(&e, "unknown field `latency`");
    says(&e, "`delay`");
    let e = error("kind = \"switch\"", "kind = \"router\"", "router");
    says(&e, "unknown variant `router`");
    let e = error("duration = \"10ms\"\n", "", "title");
    says(&e, "missing field `duration`");
    let e = error("duration = \"10ms\"", "duration = 10", "duration");
    says(&e, "has no unit: a time is in ns, us, ms, s");
    let e = error("duration = \"10ms\"", "duration = \"0s\"", "duration");
    says(&e, "lasts 0 s");
    let e = error("duration = \"10ms\"", "duration =", "duration");
    assert!(!e.message.is_empty());
    let e = error("[\"poseidon\"]", "[]", "compare");
    says(&e, "no congestion control to run");
    let e = error("rate = \"10Gbit\"", "rate = \"0\"", "rate");
    says(&e, "less than 100 kbit/s");
    let e = added("[port]\nqueue = \"lifo\"\n", "lifo");
    says(&e, "unknown variant `lifo`");
    says(&e, "codel_rpm");
    let e = added("[port]\nqueue = { codel = { target = \"1s\" } }\n", "codel");
    says(&e, "below its interval");
    let e = added(
        "[port]\nqueue = { red = { min = \"9KB\", max = \"1KB\", probability = 0.1 } }\n",
        "red",
    );
    says(&e, "above its max");
    let e = added(
        "[port]\nqueue = { red = { min = \"1KB\", max = \"9KB\", probability = 1.5 } }\n",
        "1.5",
    );
    says(&e, "1.5 is not a probability");
    let e = added("[port]\nbuffer = \"100B\"\n", "100B");
    says(&e, "does not hold one packet");
    let e = added("[network]\nmtu = 100\n", "mtu");
    says(&e, "must be from 256");
    let e = added("[switch]\nshared_buffer = \"1MB\"\nalpha = 0.0\n", "alpha");
    says(&e, "alpha is 0");
}

#[test]
fn times_that_cannot_be() {
    says(
        &added("start = \"10ms\"\n", "long"),
        "starts at 10 ms, and the scenario ends at 10 ms",
    );
    says(
        &added("start = \"2ms\"\nstop = \"1ms\"\n", "stop"),
        "before it starts",
    );
    says(
        &added("[measure]\nfrom = \"10ms\"\n", "from"),
        "nothing would be measured",
    );
    says(
        &added("[measure]\ninterval = \"1ns\"\n", "interval"),
        "more than a million",
    );
    says(
        &added("[measure]\ninterval = \"0\"\n", "interval"),
        "more than a million",
    );
    says(
        &added(
            "[measure]\ninterval = \"1us\"\nwindow = \"1ns\"\n",
            "window",
        ),
        "shorter than the interval",
    );
    says(&added("[measure]\nline = \"s--t\"\n", "line"), "fits 2");
    says(
        &added("[measure]\nflows_of = \"short\"\n", "flows_of"),
        "no group \"short\"",
    );
}

#[test]
fn faults() {
    let fault = |rest: &str| format!("[[faults]]\non = \"s->t\"\n{rest}");
    says(
        &added(&fault(""), "on ="),
        "exactly one thing, and this one is 0",
    );
    says(
        &added(&fault("loss = 0.1\ncorrupt = 0.1\n"), "on ="),
        "this one is 2",
    );
    says(&added(&fault("loss = 2.0\n"), "loss"), "not a probability");
    says(
        &added(
            &fault("down = true\nfrom = \"2ms\"\nuntil = \"1ms\"\n"),
            "until",
        ),
        "before it begins",
    );
    says(
        &added(&fault("down = true\nfrom = \"20ms\"\n"), "on ="),
        "begins at 20 ms",
    );
    says(
        &added(
            &fault("down = true\nuntil = \"1ms\"\nevery = \"1ms\"\n"),
            "every",
        ),
        "longer than",
    );
    says(
        &added(
            &fault("down = true\nuntil = \"1ns\"\nevery = \"2ns\"\n"),
            "every",
        ),
        "at most 10000",
    );
    says(
        &added("[[faults]]\non = \"s\"\nloss = 0.1\n", "on ="),
        "is not a port",
    );
    says(
        &added("[[faults]]\non = \"a->b\"\nloss = 0.1\n", "on ="),
        "no link fits",
    );
    says(
        &added(&fault("int = \"lies\"\n"), "int"),
        "unknown variant `lies`",
    );
}

#[test]
fn expectations() {
    let expect = |rest: &str| format!("[[expect]]\nmetric = \"jain\"\n{rest}");
    says(&added(&expect(""), "[[expect]]"), "without a bound");
    says(
        &added(&expect("min = 2\nmax = 1\n"), "[[expect]]"),
        "nothing is at least 2 and at most 1",
    );
    says(
        &added(&expect("min = 1\ngroup = \"x\"\n"), "group"),
        "there is no group \"x\"",
    );
    says(
        &added(&expect("min = 1\ncc = \"x\"\n"), "cc"),
        "there is no congestion control \"x\"",
    );
    says(
        &added(&expect("min = 1\nengine = \"ns3\"\n"), "engine"),
        "sim, lab, testbed",
    );
    says(
        &added("[[expect]]\nmetric = \"speed\"\nmin = 1\n", "speed"),
        "unknown variant `speed`",
    );
}

#[test]
fn traffic() {
    let incast = |rest: &str| {
        format!("[[incast]]\ngroup = \"i\"\nfrom = [\"a\", \"b\"]\nto = \"b\"\n{rest}")
    };
    says(&added(&incast(""), "group"), "either `size`");
    says(
        &added(&incast("each = \"1KB\"\nfan_in = 2\n"), "fan_in"),
        "2 hosts shall answer \"b\", and 1 can",
    );
    says(
        &added(&incast("each = \"1KB\"\ncount = 2\n"), "count"),
        "nothing says when",
    );
    says(
        &added(&incast("each = \"1KB\"\nevery = \"0\"\n"), "every"),
        "queries every 0 s",
    );
    says(
        &added(&incast("each = \"1KB\"\nper_second = -1.0\n"), "per_second"),
        "-1 queries per second",
    );
    says(
        &added(
            &incast("each = \"1KB\"\nevery = \"1ms\"\nper_second = 1.0\n"),
            "per_second",
        ),
        "either `every`",
    );
    for n in ["0", "1025"] {
        says(
            &added(
                &incast(&format!("each = \"1KB\"\nconnections = {n}\n")),
                "connections",
            ),
            "standing connections of each pair",
        );
    }
    let poisson = |rest: &str| {
        format!("[[poisson]]\ngroup = \"p\"\nfrom = [\"a\", \"b\"]\nto = [\"a\", \"b\"]\n{rest}")
    };
    says(
        &added(&poisson("load = 3.0\nsizes = \"storage\"\n"), "load"),
        "a load of 3",
    );
    says(
        &added(
            &poisson("load = 0.5\nsizes = \"storage\"\nconnections = \"many\"\n"),
            "connections",
        ),
        "invalid type",
    );
    says(
        &added(&poisson("load = 0.5\nsizes = \"none\"\n"), "sizes"),
        "cannot read the size distribution \"none\"",
    );
    says(
        &added(&poisson("load = 0.5\nsizes = [[10, 50]]\n"), "sizes"),
        "ends at 100 percent",
    );
    says(
        &added(
            &poisson("load = 0.5\nsizes = \"storage\"\nbetween = \"racks\"\n"),
            "to =",
        ),
        "may speak to each other",
    );
    says(
        &added(
            &poisson("load = 0.5\nsizes = \"storage\"\nof = \"t->s\"\nstart = \"20ms\"\n"),
            "\"p\"",
        ),
        "starts at 20 ms",
    );
    says(&added("size = \"0\"\n", "size"), "a flow of no bytes");
    let empty = &RIGHT[..RIGHT.find("[[flows]]").unwrap()];
    assert!(resolve(empty).unwrap_err().message.contains("no traffic"));
    assert!(
        resolve("title = \"x\"\ncompare = [\"cubic\"]\nduration = \"1s\"\n")
            .unwrap_err()
            .message
            .contains("no network")
    );
}

#[test]
fn settings_and_files() {
    let set = |s: &str| {
        Scenario::parse(
            "wrong.toml",
            RIGHT,
            &[s.to_owned()],
            Path::new("."),
            "wrong",
        )
    };
    let r = set("links.0.rate=1Gbit").unwrap().resolve("cubic").unwrap();
    assert_eq!(r.host_rate_bps(0), 1_000_000_000);
    // An error in what was set shows the line as it has become.
    let e = set("links.0.rate=fast").unwrap_err();
    assert!(e.to_string().contains("rate = \"fast\""), "{e}");
    let e = Scenario::load(Path::new("/nonexistent/x.toml"), &[]).unwrap_err();
    assert!(e.to_string().contains("/nonexistent/x.toml"), "{e}");
    // A congestion control of the command line has no line.
    let e = set("seed=2").unwrap().resolve("vegas").unwrap_err();
    assert!(
        e.to_string()
            .contains("there is no congestion control \"vegas\""),
        "{e}"
    );
}

#[test]
fn text_of_any_kind_is_only_an_error() {
    for text in [
        "",
        "\u{feff}",
        "=",
        "é = \"ü\"\n[é]\n",
        "a = 1\r\nb = [",
        "\0",
        "[[flows]]\n[[flows]]",
    ] {
        assert!(resolve(text).is_err());
    }
    // Every prefix, and every single character replaced: errors, no panics.
    for end in 0..RIGHT.len() {
        let _ = resolve(&RIGHT[..end]);
        let mut changed = RIGHT.to_owned();
        changed.replace_range(end..end + 1, "9");
        let _ = resolve(&changed);
    }
}

#[test]
fn p4_programs() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).expect("a file");
        dir.path().join(name).display().to_string()
    };
    let p4 = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4");
    let on = |node: &str, p4: &str| {
        let name = format!("name = \"{node}\"\n");
        error(&name, &format!("{name}p4 = {p4:?}\n"), "p4 =")
    };
    let e = on("s", "nowhere/int.p4");
    says(&e, "there is no P4 program \"nowhere/int.p4\"");
    assert!(e.help.contains("beside the scenario"), "{e}");
    says(
        &on("s", &format!("{p4}/tna/int.p4")),
        "is a program for Tofino",
    );
    let broken = file(
        "broken.p4",
        "#include <core.p4>\nheader h_t {\n    bit<8 a;\n}\n",
    );
    let e = on("s", &broken);
    says(&e, "the P4 program is wrong");
    assert!(e.message.contains("broken.p4:3:"), "its own line: {e}");
    says(&on("s", &file("empty.p4", "")), "there is no `main`");
    says(
        &on("a", &format!("{p4}/v1model/int.p4")),
        "hosts run no P4 program",
    );
    // A right one, beside the scenario or above it; and then it is for the simulator alone.
    let with = RIGHT.replacen(
        "name = \"s\"\n",
        "name = \"s\"\np4 = \"p4/v1model/int.p4\"\n",
        1,
    );
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let s = Scenario::parse("x.toml", &with, &[], &scenarios, "x").expect("it is right");
    assert_eq!(s.engines(), [scenario::Engine::Sim]);
    let r = s.resolve("poseidon").expect("it is right");
    let programs: Vec<bool> = r.nodes.iter().map(|n| n.p4.is_some()).collect();
    assert_eq!(programs, [false, false, true, false]);
}

/// Hosts write telemetry when that is said of their ports, and not otherwise.
#[test]
fn telemetry_of_hosts() {
    let writes = |text: &str| -> Vec<bool> {
        let r = resolve(text).expect("it is right");
        r.ports().map(|p| r.port(p).int).collect()
    };
    // a--s, s--t, t--b, each both ways.
    assert_eq!(writes(RIGHT), [false, true, true, true, true, false]);
    let hosts = format!("{RIGHT}[host_port]\nint = true\n");
    assert_eq!(writes(&hosts), [true; 6]);
    let one = format!("{RIGHT}[[ports]]\nof = \"a->s\"\nint = true\n");
    assert_eq!(writes(&one), [true, true, true, true, true, false]);
}
