// SPDX-License-Identifier: GPL-2.0

//! Wrong P4 is refused, where it is wrong, with a message that says what; and no text whatever makes the front end panic.

mod common;
use p4::{load_text, load_with, Error};
use proptest::prelude::*;
use std::path::Path;

/// A program with `headers` declared, `states` in its parser, `locals` and `body` in its egress.
fn program(headers: &str, states: &str, locals: &str, body: &str) -> String {
    format!(
        "#include <core.p4>
#include <v1model.p4>
header a_t {{ bit<8> x; bit<16> y; }}
header w_t {{ bit<32> w; }}
{headers}
struct h_t {{ a_t a; w_t[3] s; }}
struct m_t {{ bit<16> z; bool f; }}
parser P(packet_in p, out h_t h, inout m_t m, inout standard_metadata_t sm) {{
{states}
}}
control V(inout h_t h, inout m_t m) {{ apply {{ }} }}
control I(inout h_t h, inout m_t m, inout standard_metadata_t sm) {{ apply {{ }} }}
control E(inout h_t h, inout m_t m, inout standard_metadata_t sm) {{
{locals}
    apply {{
{body}
    }}
}}
control C(inout h_t h, inout m_t m) {{ apply {{ }} }}
control D(packet_out p, in h_t h) {{ apply {{ p.emit(h); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"
    )
}

const GOOD: &str = "state start { p.extract(h.a); transition accept; }";

fn refused(text: &str) -> Error {
    match load_text(Path::new("t.p4"), text, &[], &[]) {
        Ok(_) => panic!("this was taken:\n{text}"),
        Err(e) => e,
    }
}

/// Refuses `text` at the line that holds `//!`, with all of `words` in the message.
fn at_mark(text: &str, words: &[&str]) {
    let e = refused(text);
    let line = text.lines().position(|l| l.contains("//!"));
    let line = line.map_or(e.line, |l| l as u32 + 1);
    assert_eq!((e.file.as_str(), e.line), ("t.p4", line), "{e}\n{text}");
    assert!(e.column > 0, "{e}");
    for word in words {
        assert!(e.message.contains(word), "no `{word}` in: {e}");
    }
}

fn body(body: &str, words: &[&str]) {
    at_mark(&program("", GOOD, "", body), words);
}

fn states(states: &str, words: &[&str]) {
    at_mark(&program("", states, "", ""), words);
}

fn locals(locals: &str, words: &[&str]) {
    at_mark(&program("", GOOD, locals, ""), words);
}

#[test]
fn the_frame_itself_is_good() {
    let text = program("", GOOD, "", "m.z = h.a.y;");
    load_text(Path::new("t.p4"), &text, &[], &[]).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn unknown_names() {
    body("h.a.q = 1; //!", &["a_t has no field `q`"]);
    body("h.b.x = 1; //!", &["h_t has no field `b`"]);
    body("q = 1; //!", &["unknown name `q`"]);
    body("f(1); //!", &["unknown name `f`"]);
    body("nothing_t q; //!", &[]);
    body(
        "sm.egress_prot = 1; //!",
        &["standard_metadata_t has no field `egress_prot`"],
    );
    locals(
        "register<bit<8>>(4) r; action a() { r.get(8w1); } //!",
        &["register has no method `get`"],
    );
    locals(
        "table t { key = { h.a.x : exact; } actions = { nope; } } //!",
        &["unknown action `nope`"],
    );
    locals(
        "table t { key = { h.a.x : exactly; } actions = { NoAction; } } //!",
        &["match kind `exactly`"],
    );
    states(
        "state start { p.extract(h.a); transition next; } //!",
        &["unknown state `next`"],
    );
    at_mark(
        &program("struct u_t { missing_t m; } //!", GOOD, "", ""),
        &["unknown type `missing_t`"],
    );
}

#[test]
fn names_in_order() {
    let late = "action a() { b(); } //!\n action b() { }";
    locals(late, &["unknown name `b`"]);
    locals("action a() { }\n action a() { } //!", &["declared twice"]);
}

#[test]
fn widths_and_casts() {
    body("m.z = h.a.x; //!", &["bit<8>", "bit<16>", "cast"]);
    body("h.a.x = m.z; //!", &["bit<16>", "bit<8>", "cast"]);
    body("m.z = m.z + h.a.x; //!", &["`+`", "bit<16>", "bit<8>"]);
    body("h.a.x = 256; //!", &["256", "bit<8>"]);
    body("h.a.x = -1; //!", &["-1", "bit<8>"]);
    body("h.a.x = 4w15; //!", &["bit<4>", "bit<8>"]);
    body("m.z = m.z[7:0]; //!", &["bit<8>", "bit<16>"]);
    body("m.z[8:0] = 8w1; //!", &["bit<8>", "bit<9>"]);
    body("m.z = (bit<16>)m.z[16:1]; //!", &["[16:1]", "16 bits"]);
    body("m.f = m.z; //!", &["bit<16>", "bool"]);
    body("m.z = m.f; //!", &["bool", "bit<16>"]);
    body("m.z = (bit<16>)m.f; //!", &["cannot cast bool"]);
    body("if (m.z) { m.z = 1; } //!", &["condition", "bool"]);
    body("if (m.z == h.a.x) { m.z = 1; } //!", &["bit<16>", "bit<8>"]);
    body("m.z = m.z ++ h.a.x; //!", &["bit<24>", "bit<16>"]);
    body("m.z = 1 ++ h.a.x; //!", &["width"]);
    body("m.z = m.z / 3; //!", &["divides"]);
    body("int<16> i; i = (int<16>)h.a.x; //!", &["cannot cast"]);
    locals(
        "register<bit<8>>(4) r; action a() { r.write(0, m.z); } //!",
        &["bit<8>", "bit<16>"],
    );
    locals("action a(bit<16> v) { m.z = v; } table t { actions = { a; } default_action = a(65536); } //!", &["65536"]);
    states(
        "state start { p.extract(h.a); transition select(h.a.x) { 256: accept; default: reject; } } //!",
        &["256", "bit<8>"],
    );
}

#[test]
fn parsers() {
    states(
        "state start { p.extract(h.a); transition accept; }\n state lost { transition accept; } //!",
        &["state `lost` is unreachable"],
    );
    states(
        "state start { p.extract(h.a); transition again; }\n state again { transition select(h.a.x) { 0: again; default: accept; } } //!",
        &["unbounded loop", "`again`"],
    );
    states(
        "state start { transition a; } //!\n state a { transition b; }\n state b { transition select(p.lookahead<bit<8>>()) { 1: start; default: accept; } }",
        &["unbounded loop"],
    );
    states("state begin { transition accept; }", &["no state `start`"]);
    states(
        "state start { p.extract(m.z); transition accept; } //!",
        &["extract", "bit<16>"],
    );
    states(
        "state start { if (m.f) { } transition accept; } //!",
        &["`if`", "control"],
    );
    states(
        "state start { p.extract(h.s[3]); transition accept; } //!",
        &["index 3", "3 headers"],
    );
    // A loop that takes a header each time around ends with the packet.
    let fine = program("", "state start { p.extract(h.s.next); transition select(h.s.last.w) { 1: start; default: accept; } }", "", "");
    load_text(Path::new("t.p4"), &fine, &[], &[]).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn writes_and_directions() {
    locals(
        "action a(in bit<8> v) { v = 1; } //!",
        &["`v` is read-only"],
    );
    body("1 = m.z; //!", &["cannot be assigned"]);
    at_mark(
        &program(
            "control S(in m_t m) { apply { m.z = 1; } } //!",
            GOOD,
            "",
            "",
        ),
        &["`m.z` is read-only"],
    );
    let call = "control S(inout bit<16> v) { apply { v = 1; } }";
    at_mark(
        &program(call, GOOD, "S() s;", "s.apply(5); //!"),
        &["`v`", "bit<16>"],
    );
    at_mark(
        &program(call, GOOD, "S() s;", "s.apply(h.a.x); //!"),
        &["bit<16>", "bit<8>"],
    );
    at_mark(
        &program(call, GOOD, "S() s;", "s.apply(); //!"),
        &["1 arguments, not 0"],
    );
}

#[test]
fn blocks_and_packages() {
    let text = program("", GOOD, "", "").replace(
        "V1Switch(P(), V(), I(), E(), C(), D()) main;",
        "V1Switch(P(), V(), I(), E(), C()) main; //!",
    );
    at_mark(&text, &["6 blocks, not 5"]);
    let text = program("", GOOD, "", "").replace("P(), V(), I()", "P(), V(), V()");
    let e = refused(&text);
    assert!(e.message.contains("parameters"), "{e}");
    let text = program("", GOOD, "", "").replace(
        "control D(packet_out p, in h_t h)",
        "control D(packet_out p, inout h_t h)",
    );
    let e = refused(&text);
    assert!(e.message.contains("must be `in h_t`"), "{e}");
    let e = refused("#include <core.p4>\n");
    assert!(e.message.contains("no `main`"), "{e}");
    let again = "control R() { R() r; apply { r.apply(); } }";
    let e = refused(&program(again, GOOD, "", ""));
    assert!(
        e.message.contains("recursion") || e.message.contains("unknown"),
        "{e}"
    );
    locals("action a() { a(); } //!", &["a"]);
}

#[test]
fn syntax() {
    body("m.z = ; //!", &["expected an expression", "`;`"]);
    // Seen where the next word begins.
    let e = refused(&program("", GOOD, "", "m.z = 1\n"));
    assert!(e.message.contains("expected `;`"), "{e}");
    body("m.z = $; //!", &["expected an expression", "`$`"]);
    body("h.a.x = 0xzz; //!", &["`0xzz`"]);
    at_mark(
        &program("header varb_t { varbit<8> v; } //!", GOOD, "", ""),
        &["varbit is not supported"],
    );
    at_mark(
        &program("header wide_t { bit<256> v; } //!", GOOD, "", ""),
        &["256", "128"],
    );
    at_mark(
        "#include <core.p4>\n#include \"none.p4\" //!\n",
        &["cannot read none.p4"],
    );
    at_mark("#ifdef X //!\n", &["no #endif"]);
    at_mark("#endif //!\n", &["#endif without #if"]);
    at_mark("#error not for you //!\n", &["not for you"]);
    at_mark(
        "#define M(a) a\nconst bit<8> X = M(1, 2); //!\n",
        &["macro M takes 1 arguments, not 2"],
    );
}

#[test]
fn a_fault_in_an_included_file_names_that_file() {
    let dir = std::env::temp_dir().join(format!("fathom-p4-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(dir.join("inner.p4"), "// one\nconst bit<4> A = 16;\n").expect("a file");
    let text = "#include \"inner.p4\"\n";
    let e = load_text(&dir.join("outer.p4"), text, &[], &[]).expect_err("16 is too large");
    assert!(e.file.ends_with("inner.p4") && e.line == 2, "{e}");
    std::fs::remove_dir_all(&dir).expect("it was there");
}

#[test]
fn tofino1_refuses_units_its_clock_cannot_fill() {
    let path = common::p4_dir().join("tna/int.p4");
    let e = load_with(&path, &[], &[("FATHOM_MPD_SHIFT", "5")]).expect_err("too fine");
    assert!(e.message.contains("FATHOM_MPD_SHIFT below 6"), "{e}");
    let two = [("FATHOM_MPD_SHIFT", "5"), ("FATHOM_TOFINO2", "1")];
    load_with(&path, &[], &two).unwrap_or_else(|e| panic!("{e}"));
}

/// Macros that double each other, nesting without end: refused, and at once.
#[test]
fn bombs() {
    let mut text = String::from("#define A0 x x\n");
    for i in 1..60 {
        text += &format!("#define A{i} A{} A{}\n", i - 1, i - 1);
    }
    text += "A59\n";
    refused(&text);
    refused(&format!(
        "const bit<8> X = {}1{};",
        "(".repeat(5000),
        ")".repeat(5000)
    ));
    refused(&format!("const bit<8> X = {}1;", "-".repeat(5000)));
    refused(&"a<".repeat(3000));
    refused(&format!("const bit<8> X = {}", "a<bit<(".repeat(40)));
    let doubling: String = (1..40)
        .map(|i| {
            format!(
                "control C{i}() {{ C{}() a; C{}() b; apply {{ a.apply(); b.apply(); }} }}\n",
                i - 1,
                i - 1
            )
        })
        .collect();
    let text = format!("control C0() {{ bit<8> v; apply {{ v = 1; v = 2; }} }}\n{doubling}");
    refused(&text);
}

/// Our own programs with a piece cut out, doubled, or replaced.
fn mutated() -> impl Strategy<Value = String> {
    let files = [
        "v1model/int.p4",
        "v1model/rpm.p4",
        "include/parser.p4",
        "include/tna_int.p4",
        "tna/fathom_switch.p4",
    ];
    let texts: Vec<String> = files
        .iter()
        .map(|f| std::fs::read_to_string(common::p4_dir().join(f)).expect("our own file"))
        .collect();
    (
        prop::sample::select(texts),
        any::<prop::sample::Index>(),
        0usize..40,
        "[a-z0-9<>(){};:.,\\[\\]@#=+&|\"/ \n-]{0,12}",
    )
        .prop_map(|(text, at, len, new)| {
            let at = at.index(text.len());
            let end = (at + len).min(text.len());
            match (text.get(..at), text.get(end..)) {
                (Some(a), Some(b)) => format!("{a}{new}{b}"),
                _ => text,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text(text in "\\PC{0,200}") {
        let _ = load_text(Path::new("t.p4"), &text, &[], &[]);
    }

    #[test]
    fn p4_like_text(words in prop::collection::vec(prop::sample::select(vec![
        "header", "struct", "parser", "control", "state", "start", "{", "}", "(", ")", "<", ">", ";", ":", ",", "bit", "8",
        "a", "b", "apply", "action", "table", "key", "=", "transition", "select", "accept", "in", "out", "inout", "packet_in",
        "if", "else", "+", "++", "[", "]", "&&&", "default", "const", "entries", "0xff", "8w3", "extern", "typedef", "main",
        "#include <core.p4>\n", "#include <v1model.p4>\n", "#define a b\n", "#if 1\n", "#endif\n", "@", ".", "!", "~", "?",
    ]), 0..60)) {
        let _ = load_text(Path::new("t.p4"), &words.join(" "), &[], &[]);
    }

    #[test]
    fn programs_with_a_hole(text in mutated()) {
        let path = common::p4_dir().join("v1model/mutated.p4");
        let _ = load_text(&path, &text, &[], &[]);
    }
}
