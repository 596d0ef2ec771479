// SPDX-License-Identifier: GPL-2.0

//! What the language means: small programs that make eight bytes of eight bytes.

use p4::{load_text, Key, Metadata, Switch};
use std::path::Path;

/// A program around `globals`, the parser's `states`, and the egress' `locals` and `body`.
fn switch(globals: &str, states: &str, locals: &str, body: &str) -> Switch {
    let text = format!(
        "#include <core.p4>
#include <v1model.p4>
header i_t {{ bit<64> v; }}
header o_t {{ bit<64> r; }}
header b_t {{ bit<8> x; }}
struct h_t {{ i_t i; o_t o; b_t[4] s; }}
struct m_t {{ bit<64> z; }}
{globals}
parser P(packet_in p, out h_t h, inout m_t m, inout standard_metadata_t sm) {{ {states} }}
control V(inout h_t h, inout m_t m) {{ apply {{ }} }}
control I(inout h_t h, inout m_t m, inout standard_metadata_t sm) {{ apply {{ }} }}
control E(inout h_t h, inout m_t m, inout standard_metadata_t sm) {{
    {locals}
    apply {{ h.i.setInvalid(); h.o.setValid(); h.o.r = 0; {body} }}
}}
control C(inout h_t h, inout m_t m) {{ apply {{ }} }}
control D(packet_out p, in h_t h) {{ apply {{ p.emit(h); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"
    );
    let program = load_text(Path::new("t.p4"), &text, &[], &[]);
    program.unwrap_or_else(|e| panic!("{e}\n{text}")).switch()
}

const EIGHT: &str = "state start { p.extract(h.i); transition accept; }";

fn send(switch: &mut Switch, packet: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    assert!(switch.port(packet, &Metadata::default(), &mut out));
    out
}

fn ask(switch: &mut Switch, v: u64) -> u64 {
    let out = send(switch, &v.to_be_bytes());
    u64::from_be_bytes(out[..8].try_into().expect("eight bytes"))
}

fn is(locals: &str, body: &str, pairs: &[(u64, u64)]) {
    let mut switch = switch("", EIGHT, locals, body);
    for (v, r) in pairs {
        assert_eq!(ask(&mut switch, *v), *r, "{body} of {v:#x}");
    }
}

#[test]
fn arithmetic() {
    is("", "h.o.r = h.i.v + 1;", &[(5, 6), (u64::MAX, 0)]);
    is("", "h.o.r = h.i.v - 1;", &[(0, u64::MAX)]);
    is(
        "",
        "h.o.r = h.i.v |+| 2;",
        &[(u64::MAX - 1, u64::MAX), (1, 3)],
    );
    is("", "h.o.r = h.i.v |-| 2;", &[(1, 0), (5, 3)]);
    is("", "h.o.r = h.i.v * 3;", &[(u64::MAX, u64::MAX - 2)]);
    is("", "h.o.r = ~h.i.v;", &[(0, u64::MAX)]);
    is("", "h.o.r = -h.i.v;", &[(1, u64::MAX)]);
    is("", "h.o.r = h.i.v << 60;", &[(0x1f, 0xf << 60)]);
    is(
        "",
        "h.o.r = h.i.v >> h.i.v[7:0];",
        &[(0xff00 | 4, 0xff0), (200, 0)],
    );
    is(
        "",
        "h.o.r = (bit<64>)(h.i.v[7:0] + 1);",
        &[(0xff, 0), (1, 2)],
    );
    is("", "h.o.r = 32w1 ++ h.i.v[31:0];", &[(7, 1 << 32 | 7)]);
    is("", "h.o.r = h.i.v > 3 ? 64w1 : 2;", &[(4, 1), (3, 2)]);
    // Bitwise operators bind closer than comparisons, unlike C.
    is("", "if (h.i.v & 1 == 1) { h.o.r = 9; }", &[(3, 9), (2, 0)]);
    is(
        "const bit<64> K = (7 / 2) * (1 << 4) + 5 % 3;",
        "h.o.r = K;",
        &[(0, 50)],
    );
}

#[test]
fn signed() {
    is(
        "int<8> a;",
        "a = (int<8>)h.i.v[7:0]; if (a < 0) { h.o.r = 1; }",
        &[(0x80, 1), (0x7f, 0), (0xff, 1)],
    );
    is(
        "int<64> a;",
        "a = (int<64>)((int<8>)h.i.v[7:0]); h.o.r = (bit<64>)a;",
        &[(0x80, !0x7f), (0x7f, 0x7f)],
    );
    is(
        "int<8> a;",
        "a = (int<8>)h.i.v[7:0]; a = a >> 1; h.o.r = (bit<64>)(bit<8>)a;",
        &[(0x80, 0xc0), (0x40, 0x20)],
    );
}

#[test]
fn slices_and_copies() {
    is(
        "",
        "h.o.r = h.i.v; h.o.r[15:8] = 0xaa; h.o.r[15:8][3:0] = 1;",
        &[(0xffff_ffff, 0xffff_a1ff)],
    );
    is(
        "o_t t;",
        "t = h.o; t.r = 5; h.o.r = t.r + h.o.r;",
        &[(0, 5)],
    );
    is("m_t t;", "t = { h.i.v }; h.o.r = t.z;", &[(77, 77)]);
}

#[test]
fn calls() {
    let globals = "
bit<64> twice(in bit<64> x) { return x + x; }
control Add(in bit<64> a, inout bit<64> b)(bit<64> c) { apply { b = b + 1; b = b + a + c; } }";
    let mut s = switch(
        globals,
        EIGHT,
        "Add(100) add;",
        "h.o.r = twice(h.i.v); add.apply(h.o.r, h.o.r);",
    );
    // The argument that goes in was copied before the other changed.
    assert_eq!(ask(&mut s, 3), 6 + 1 + 6 + 100);
    is(
        "action set(inout bit<64> x, in bit<64> y) { if (y == 0) { return; } x = y; }",
        "h.o.r = 1; set(h.o.r, h.i.v); h.o.r = h.o.r + 10;",
        &[(0, 11), (5, 15)],
    );
    is(
        "action stop() { exit; }",
        "h.o.r = 1; if (h.i.v == 0) { stop(); } h.o.r = 2;",
        &[(0, 1), (1, 2)],
    );
    is(
        "action part(out bit<8> x) { x = 3; }",
        "h.o.r = h.i.v; part(h.o.r[15:8]);",
        &[(0xffff, 0x03ff)],
    );
}

#[test]
fn tables() {
    let locals = "
action one() { h.o.r = 1; }
action val(bit<64> v) { h.o.r = v; }
table t {
    key = { h.i.v[7:0] : ternary; h.i.v[15:8] : range; }
    actions = { one; val; NoAction; }
    const default_action = val(99);
    const entries = {
        (0x10 &&& 0xf0, 5 .. 7) : one();
        (_, 6) : val(60);
        (3, _) : val(30);
    }
}";
    is(
        locals,
        "t.apply();",
        &[
            (0x0612, 1),
            (0x0622, 60),
            (0x0603, 60),
            (0x0003, 30),
            (0x0802, 99),
        ],
    );
    is(
        locals,
        "if (t.apply().hit) { h.o.r = h.o.r + 1000; }",
        &[(3, 1030), (4, 99)],
    );
    is(
        locals,
        "switch (t.apply().action_run) { one: { h.o.r = 7; } val: { h.o.r = h.o.r + 1; } default: { h.o.r = 0; } }",
        &[(0x0612, 7), (3, 31), (4, 100)],
    );
    // The right side is not looked up when the left one decides.
    is(
        locals,
        "if (h.i.v == 0 && t.apply().miss) { h.o.r = 5; }",
        &[(3, 0), (0, 5)],
    );
    is(
        locals,
        "if (h.i.v == 3 || t.apply().hit) { h.o.r = h.o.r + 5; }",
        &[(3, 5), (0x0603, 65)],
    );
}

#[test]
fn entries_of_the_control_plane() {
    let locals = "
action val(bit<64> v) { h.o.r = v; }
table exact2 { key = { h.i.v[7:0] : exact; h.i.v[15:8] : exact; } actions = { val; } default_action = val(0); }
table longest { key = { h.i.v[31:0] : lpm; } actions = { val; } default_action = val(0); }";
    let mut s = switch(
        "",
        EIGHT,
        locals,
        "if (h.i.v[63:63] == 1) { exact2.apply(); } else { longest.apply(); }",
    );
    let ok = "it is there";
    s.add_entry("exact2", &[Key::Exact(1), Key::Exact(2)], "val", &[12])
        .expect(ok);
    s.add_entry("exact2", &[Key::Exact(2), Key::Exact(1)], "val", &[21])
        .expect(ok);
    for (prefix, len) in [
        (0x0a00_0000, 8),
        (0x0a01_0000, 16),
        (0, 0),
        (0x0a01_0203, 32),
    ] {
        s.add_entry("longest", &[Key::Lpm(prefix, len)], "val", &[len.into()])
            .expect(ok);
    }
    let high = 1 << 63;
    assert_eq!(
        [
            ask(&mut s, high | 0x0201),
            ask(&mut s, high | 0x0102),
            ask(&mut s, high)
        ],
        [12, 21, 0]
    );
    let got = [0x0a02_0000, 0x0a01_0000, 0x0b00_0000, 0x0a01_0203].map(|v| ask(&mut s, v));
    assert_eq!(got, [8, 16, 0, 32]);
    s.set_default("exact2", "val", &[5]).expect(ok);
    assert_eq!(ask(&mut s, high), 5);
}

#[test]
fn registers_and_counters() {
    let locals = "register<bit<64>>(4) r; counter(4, CounterType.packets) c; bit<64> old;";
    let body = "r.read(old, h.i.v[31:0]); r.write(h.i.v[31:0], old + 1); c.count(h.i.v[31:0]); h.o.r = old;";
    let mut s = switch("", EIGHT, locals, body);
    assert_eq!([0, 1, 1, 1].map(|v| ask(&mut s, v)), [0, 0, 1, 2]);
    // Outside of the array nothing happens.
    assert_eq!([9, 9].map(|v| ask(&mut s, v)), [0, 0]);
    assert_eq!(s.read_register("r", 1), Ok(vec![3]));
    assert_eq!(s.read_counter("c", 1), Ok((3, 24)));
    // A switch made anew has forgotten; one that was copied has not.
    let mut copy = s.clone();
    assert_eq!(ask(&mut copy, 1), 3);
    assert_eq!(s.read_register("r", 1), Ok(vec![3]));
}

#[test]
fn parsers() {
    // Bytes until a zero, four at most; they come out again behind the answer.
    let states = "
state start { p.extract(h.s.next); transition select(h.s.last.x) { 0: accept; default: start; } }";
    let body = "h.o.r = (bit<64>)h.s.lastIndex;
        if (sm.parser_error != error.NoError) { h.o.r = 100; }
        if (sm.parser_error == error.StackOutOfBounds) { h.o.r = 200; }";
    let mut s = switch("", states, "", body);
    let mut run = |packet: &[u8]| send(&mut s, packet);
    assert_eq!(run(&[5, 6, 0, 9]), [0, 0, 0, 0, 0, 0, 0, 2, 5, 6, 0, 9]);
    assert_eq!(run(&[5, 6]), [0, 0, 0, 0, 0, 0, 0, 100, 5, 6], "too short");
    assert_eq!(
        run(&[1, 2, 3, 4, 5]),
        [0, 0, 0, 0, 0, 0, 0, 200, 1, 2, 3, 4, 5],
        "too many"
    );

    let states = "
state start { transition select(p.lookahead<bit<16>>(), p.lookahead<b_t>().x) { (0x0102, _): two; (_, 1 .. 9): one; default: reject; } }
state one { p.extract(h.s[0]); verify(h.s[0].x != 9, error.HeaderTooShort); transition accept; }
state two { p.advance(8); p.extract(h.s[1]); transition accept; }";
    let mut s = switch(
        "",
        states,
        "",
        "h.o.setInvalid(); if (sm.parser_error == error.HeaderTooShort) { h.s[0].x = 77; }",
    );
    let mut run = |packet: &[u8]| send(&mut s, packet);
    assert_eq!(run(&[1, 2, 3]), [2, 3], "a byte was skipped");
    assert_eq!(run(&[7, 2, 3]), [7, 2, 3]);
    assert_eq!(run(&[9, 2]), [77, 2], "verify");
    assert_eq!(run(&[10, 2]), [10, 2], "rejected, and nothing was taken");
}

#[test]
fn stacks() {
    let states = "state start { p.extract(h.s.next); p.extract(h.s.next); transition accept; }";
    let mut s = switch(
        "",
        states,
        "",
        "h.o.setInvalid(); h.s.push_front(1); h.s[0].setValid(); h.s[0].x = 9;",
    );
    assert_eq!(send(&mut s, &[1, 2, 3]), [9, 1, 2, 3]);
    let mut s = switch("", states, "", "h.o.setInvalid(); h.s.pop_front(1);");
    assert_eq!(send(&mut s, &[1, 2, 3]), [2, 3]);
}

#[test]
fn hashes() {
    let hash = |algo: &str| {
        format!("bit<32> x; hash(x, HashAlgorithm.{algo}, 32w0, {{ h.i.v }}, 64w0x100000000); h.o.r = (bit<64>)x;")
    };
    // The check values of the catalogue of CRCs are over \"123456789\"; here eight bytes of it.
    let v = u64::from_be_bytes(*b"12345678");
    is("", &hash("crc32"), &[(v, 0x9ae0_daaf)]);
    is("", &hash("csum16"), &[(v, 0x2f2b)]);
    is("", &hash("xor16"), &[(0x1234_0000_0001_0000, 0x1235)]);
    is("", &hash("identity"), &[(0x1_2345_6789, 0x2345_6789)]);
}
