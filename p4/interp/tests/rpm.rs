// SPDX-License-Identifier: GPL-2.0

//! Reverse path marking: the v1model program against `wire::codel` and `wire::rpm`, packet by packet, on random
//! interleavings of flows; the Tofino program against a model of its own schedule, and that against CoDel.

mod common;
use common::{checksums_valid, Ip, Packet, Target};
use p4::{Key, Metadata, Switch};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::AtomicI32;
use std::sync::OnceLock;
use wire::codel::{spacing, Codel, Leaving, Params};
use wire::rpm::{may_carry, speaks_ecn, Flow, Table, MAX_COUNT};

const US: u64 = 1000;
const PARAMS: Params = Params {
    target_ns: 50 * US,
    interval_ns: 1000 * US,
};
/// Towards the receivers, and back.
const DATA_PORT: u16 = 1;
const ACK_PORT: u16 = 2;
const SLOTS: usize = 1 << 16;

/// What comes to a port.
#[derive(Clone, Debug)]
struct Step {
    flow: u8,
    v6: bool,
    back: bool,
    ecn: u8,
    flags: u8,
    ae: bool,
    payload: usize,
    gap_ns: u64,
    waited_ns: u64,
    left_bytes: u32,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (
        (0u8..5, any::<bool>(), any::<bool>(), 0u8..4),
        prop_oneof![8 => Just(0x10u8), 1 => Just(0x12), 1 => Just(0x14), 1 => Just(0x18), 1 => Just(0x02), 1 => Just(0x50)],
        prop::bool::weighted(0.05),
        0usize..200,
        0u64..200 * US,
        prop_oneof![9 => 50 * US..200 * US, 1 => 0u64..50 * US],
        prop_oneof![9 => Just(80_000u32), 1 => Just(160u32)],
    );
    let make = |((flow, v6, back, ecn), flags, ae, payload, gap_ns, waited_ns, left_bytes)| Step {
        flow,
        v6,
        back,
        ecn,
        flags,
        ae,
        payload,
        gap_ns,
        waited_ns,
        left_bytes,
    };
    prop::collection::vec(step.prop_map(make), 1..400)
}

impl Step {
    fn packet(&self) -> Packet {
        let (a, b) = (10 + self.flow, 100);
        let (sport, dport) = (40000 + u16::from(self.flow), 5201);
        let ip = if self.v6 {
            Ip::V6
        } else {
            Ip::V4(usize::from(self.flow % 2))
        };
        Packet {
            ecn: self.ecn,
            flags: self.flags,
            payload: vec![7; self.payload],
            flow: if self.back {
                (b, a, dport, sport)
            } else {
                (a, b, sport, dport)
            },
            ..Packet::new(ip, self.flow == 3, &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2])
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let packet = self.packet();
        let mut bytes = packet.bytes();
        let at = packet.tcp_at();
        if self.ae {
            bytes[at + 12] |= 1;
            let check = common::tcp_check(&bytes, packet.ip_at(), at);
            bytes[at + 16..at + 18].copy_from_slice(&check.to_be_bytes());
        }
        bytes
    }

    fn wire_flow(&self) -> Flow {
        let (src, dst, sport, dport) = self.packet().flow;
        if self.v6 {
            let full = |last: u8| {
                let mut a = [0; 16];
                a[0] = 0xfd;
                a[15] = last;
                a
            };
            Flow::V6 {
                src: full(src),
                dst: full(dst),
                sport,
                dport,
            }
        } else {
            Flow::V4 {
                src: [10, 0, 0, src],
                dst: [10, 0, 0, dst],
                sport,
                dport,
            }
        }
    }

    fn port(&self) -> u16 {
        if self.back {
            ACK_PORT
        } else {
            DATA_PORT
        }
    }
}

/// What becomes of a packet.
#[derive(Debug, PartialEq, Eq, Default, Clone, Copy)]
struct Fate {
    dropped: bool,
    ce: bool,
    ece: bool,
}

/// The packet as it should come out, or none.
fn expected(step: &Step, fate: Fate) -> Option<Vec<u8>> {
    if fate.dropped {
        return None;
    }
    let mut step = step.clone();
    if fate.ce {
        step.ecn = 3;
    }
    if fate.ece {
        step.flags |= 0x40;
    }
    // Checksums and all are made anew: nothing but these bits may differ.
    Some(step.bytes())
}

fn metadata(step: &Step, now: u64) -> Metadata {
    Metadata {
        ingress_port: if step.back { DATA_PORT } else { ACK_PORT },
        egress_port: step.port(),
        enqueue_ns: now - step.waited_ns,
        dequeue_ns: now,
        dequeue_bytes: step.left_bytes,
        ..Metadata::default()
    }
}

fn v1model_switch(defines: &[(&str, &str)]) -> Switch {
    let mut switch = Target::V1Model.program_with("rpm", defines).switch();
    let ok = "the program has these tables";
    let params = [PARAMS.target_ns.into(), PARAMS.interval_ns.into()];
    switch
        .set_default("codel_port", "codel_is", &params)
        .expect(ok);
    for count in 1..=400u32 {
        let key = [Key::Range(count.into(), count.into())];
        let ns = spacing(PARAMS.interval_ns, count).into();
        switch
            .add_entry("codel_law", &key, "every", &[ns])
            .expect(ok);
    }
    switch
}

/// wire's own answer.
struct Reference {
    codel: HashMap<u16, (Codel, u32)>,
    marks: Vec<AtomicI32>,
    reverse: bool,
}

impl Reference {
    fn new(reverse: bool) -> Self {
        Self {
            codel: HashMap::new(),
            marks: (0..SLOTS).map(|_| AtomicI32::new(0)).collect(),
            reverse,
        }
    }

    fn fate(&mut self, step: &Step, len: u32, now_ns: u64) -> Fate {
        let (codel, max_packet) = self.codel.entry(step.port()).or_default();
        *max_packet = len.max(*max_packet);
        let leaving = Leaving {
            now_ns,
            waited_ns: step.waited_ns,
            left_bytes: step.left_bytes,
            max_packet: *max_packet,
        };
        let table = Table::new(&self.marks).expect("a power of two");
        let mut fate = Fate::default();
        if codel.choose(&PARAMS, &leaving) {
            let ecn = speaks_ecn(step.ecn);
            let counted = self.reverse && ecn && table.count(&step.wire_flow());
            fate.ce = !counted && ecn;
            fate.dropped = !counted && !ecn;
        }
        let byte12 = u8::from(step.ae);
        if !fate.dropped && self.reverse && may_carry(byte12, step.flags) {
            fate.ece = table.take(&step.wire_flow());
        }
        fate
    }
}

fn follow(switch: &mut Switch, reference: &mut Reference, steps: &[Step]) -> Fate {
    let mut now = 10_000_000;
    let mut seen = Fate::default();
    for (i, step) in steps.iter().enumerate() {
        now += step.gap_ns;
        let bytes = step.bytes();
        let fate = reference.fate(step, bytes.len() as u32, now);
        let mut out = Vec::new();
        let sent = switch.port(&bytes, &metadata(step, now), &mut out);
        let got = sent.then_some(out);
        assert_eq!(got, expected(step, fate), "packet {i} {step:?}: {fate:?}");
        seen.dropped |= fate.dropped;
        seen.ce |= fate.ce;
        seen.ece |= fate.ece;
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn v1model_is_wire(steps in steps()) {
        let mut switch = v1model_switch(&[]);
        follow(&mut switch, &mut Reference::new(true), &steps);
    }

    #[test]
    fn v1model_forward_is_wire(steps in steps()) {
        let mut switch = v1model_switch(&[]);
        switch.set_default("marking", "mark_forward", &[]).expect("it is there");
        follow(&mut switch, &mut Reference::new(false), &steps);
    }

    #[test]
    fn tofino_is_its_model(steps in steps(), two in any::<bool>()) {
        let target = if two { Target::Tofino2 } else { Target::Tofino1 };
        let mut switch = tofino_switch(target, &[]);
        follow_tofino(&mut switch, &mut Tofino::new(target, false), &steps);
    }

    #[test]
    fn tofino_by_port_is_its_model(steps in steps()) {
        let mut switch = tofino_switch(Target::Tofino1, &[("FATHOM_RPM_PER_PORT", "1")]);
        follow_tofino(&mut switch, &mut Tofino::new(Target::Tofino1, true), &steps);
    }
}

/// All that can happen does, in a long history: else the tests above show nothing.
#[test]
fn everything_happens() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut all = Fate::default();
    let mut tofino = Fate::default();
    for _ in 0..20 {
        let tree = steps().new_tree(&mut runner).expect("steps");
        let steps = proptest::strategy::ValueTree::current(&tree);
        let seen = follow(&mut v1model_switch(&[]), &mut Reference::new(true), &steps);
        all = Fate {
            dropped: all.dropped || seen.dropped,
            ce: all.ce || seen.ce,
            ece: all.ece || seen.ece,
        };
        let mut switch = tofino_switch(Target::Tofino1, &[]);
        let seen = follow_tofino(
            &mut switch,
            &mut Tofino::new(Target::Tofino1, false),
            &steps,
        );
        tofino.ece |= seen.ece;
        tofino.dropped |= seen.dropped;
    }
    assert!(all.dropped && all.ece, "{all:?}");
    assert!(tofino.dropped && tofino.ece, "{tofino:?}");
}

// --- Tofino ---------------------------------------------------------------------------------------------

/// When the n-th packet is due, from when the queue became bad: what the control plane writes into the law's table.
fn due_at(n: u32) -> u64 {
    static ALL: OnceLock<Vec<u64>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let mut at = PARAMS.interval_ns;
        let sums = (1..=LAW).map(|k| {
            at += spacing(PARAMS.interval_ns, k);
            at
        });
        [0, PARAMS.interval_ns].into_iter().chain(sums).collect()
    });
    all[n as usize]
}

/// Entries of the law's table; the last one has no end.
const LAW: u32 = 500;

fn tofino_switch(target: Target, defines: &[(&str, &str)]) -> Switch {
    let mut switch = target.program_with("rpm", defines).switch();
    let ok = "the program has these tables";
    let unit = if target == Target::Tofino2 { 64 } else { 1 };
    let most = if target == Target::Tofino2 {
        (1 << 20) - 1
    } else {
        (1 << 18) - 1
    };
    for port in [DATA_PORT, ACK_PORT] {
        let waited = Key::Range(u128::from(PARAMS.target_ns / unit), most);
        // More than a packet of 1514 bytes: 20 cells of 80.
        let cells = Key::Range(20, (1 << 19) - 1);
        let key = [Key::Exact(port.into()), waited, cells];
        switch
            .add_entry("codel_queue", &key, "queue_bad", &[])
            .expect(ok);
    }
    for n in 1..=LAW {
        let from = due_at(n) >> 12;
        let to = if n == LAW {
            1 << 20
        } else {
            due_at(n + 1) >> 12
        };
        if from < to {
            let key = [Key::Range(from.into(), u128::from(to) - 1)];
            switch
                .add_entry("codel_law", &key, "are_due", &[n.into()])
                .expect(ok);
        }
    }
    switch
}

/// The schedule of tna_rpm.p4.
struct Tofino {
    since: HashMap<u16, u32>,
    chosen: HashMap<u16, u32>,
    marks: HashMap<u32, u32>,
    by_port: bool,
    target: Target,
}

impl Tofino {
    fn new(target: Target, by_port: bool) -> Self {
        Self {
            since: HashMap::new(),
            chosen: HashMap::new(),
            marks: HashMap::new(),
            by_port,
            target,
        }
    }

    fn choose(&mut self, port: u16, bad: bool, now: u32) -> bool {
        let since = self.since.entry(port).or_default();
        let mut elapsed = 0;
        if !bad {
            *since = 0;
        } else if *since == 0 {
            *since = now;
        } else {
            elapsed = now.wrapping_sub(*since);
        }
        // As many as are due by the law, in steps of 4096 ns.
        let due = (1..=LAW)
            .take_while(|n| due_at(*n) >> 12 <= u64::from(elapsed >> 12))
            .count() as u32;
        let chosen = self.chosen.entry(port).or_default();
        if due == 0 {
            *chosen = 0;
            return false;
        }
        let one = *chosen < due;
        *chosen += u32::from(one);
        one
    }

    fn fate(&mut self, step: &Step, now: u64) -> Fate {
        // Tofino 2 tells a delay in 64 ns; its entry begins at the unit that the target lies in.
        let unit = if self.target == Target::Tofino2 {
            64
        } else {
            1
        };
        let late = step.waited_ns / unit >= PARAMS.target_ns / unit;
        let bad = late && step.left_bytes > 20 * 176;
        let chosen = self.choose(step.port(), bad, now as u32);
        let flow = step.wire_flow();
        let (forward, reverse) = if self.by_port {
            (
                u32::from(step.port()),
                u32::from(metadata(step, now).ingress_port),
            )
        } else {
            let slot = |f: Flow| f.hash() & (SLOTS as u32 - 1);
            (slot(flow), slot(flow.reverse()))
        };
        let ecn = speaks_ecn(step.ecn);
        let mut fate = Fate::default();
        let mut counted = false;
        if chosen && ecn {
            let marks = self.marks.entry(forward).or_default();
            counted = *marks < MAX_COUNT as u32;
            *marks += u32::from(counted);
        } else if may_carry(u8::from(step.ae), step.flags) {
            let marks = self.marks.entry(reverse).or_default();
            fate.ece = *marks > 0;
            *marks = marks.saturating_sub(1);
        }
        if chosen && !counted {
            fate.ce = ecn;
            fate.dropped = !ecn;
        }
        fate
    }
}

fn follow_tofino(switch: &mut Switch, model: &mut Tofino, steps: &[Step]) -> Fate {
    let mut now = 10_000_000;
    let mut seen = Fate::default();
    for (i, step) in steps.iter().enumerate() {
        now += step.gap_ns;
        let fate = model.fate(step, now);
        let mut out = Vec::new();
        let sent = switch.port(&step.bytes(), &metadata(step, now), &mut out);
        assert_eq!(
            sent.then_some(out),
            expected(step, fate),
            "packet {i} {step:?}: {fate:?}"
        );
        seen.dropped |= fate.dropped;
        seen.ece |= fate.ece;
    }
    seen
}

/// Over a queue that is bad for 40 intervals the Tofino schedule chooses as many packets as CoDel.
#[test]
fn tofino_chooses_as_codel_does() {
    let mut codel = Codel::default();
    let mut model = Tofino::new(Target::Tofino1, false);
    let (mut by_codel, mut by_model) = (0i64, 0i64);
    let mut now = 5_000_000u64;
    for _ in 0..8_000 {
        now += 5 * US;
        let leaving = Leaving {
            now_ns: now,
            waited_ns: 80 * US,
            left_bytes: 100_000,
            max_packet: 1514,
        };
        by_codel += i64::from(codel.choose(&PARAMS, &leaving));
        by_model += i64::from(model.choose(DATA_PORT, true, now as u32));
        assert!(
            (by_codel - by_model).abs() <= 1,
            "{by_codel} and {by_model} at {now}"
        );
    }
    assert!(by_codel > 50, "{by_codel}");
}

/// Counters live where wire says, stop at the bound, and the flow is then marked forward.
#[test]
fn acks_that_come_another_way() {
    let step = Step {
        flow: 1,
        v6: false,
        back: false,
        ecn: 2,
        flags: 0x10,
        ae: false,
        payload: 100,
        gap_ns: 2000 * US,
        waited_ns: 100 * US,
        left_bytes: 80_000,
    };
    let slot = step.wire_flow().hash() & (SLOTS as u32 - 1);
    for (target, mut switch) in [
        (Target::V1Model, v1model_switch(&[])),
        (Target::Tofino1, tofino_switch(Target::Tofino1, &[])),
    ] {
        let mut now = 10_000_000;
        let (mut ce, mut packets) = (0, 0);
        for _ in 0..60 {
            now += step.gap_ns;
            let mut out = Vec::new();
            assert!(switch.port(&step.bytes(), &metadata(&step, now), &mut out));
            let at = step.packet().ip_at();
            ce += u32::from(out[at + 1] & 3 == 3);
            packets += 1;
            assert!(checksums_valid(&out, at, step.packet().tcp_at()));
        }
        let marks = switch
            .read_register("rpm_marks", slot)
            .expect("it is there")[0];
        assert_eq!(marks, MAX_COUNT as u128, "{target:?}");
        assert!(ce > 10 && ce < packets, "{target:?}: {ce} of {packets}");
    }
}
