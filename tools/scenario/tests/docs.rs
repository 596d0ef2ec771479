// SPDX-License-Identifier: GPL-2.0
//! The reference says everything that there is, and its examples are right.

use scenario::{Law, Metric, Scenario};
use std::path::Path;

const DOC: &str = include_str!("../../../docs/scenarios.md");
const SCHEMA: &str = include_str!("../src/file.rs");

/// What an example leaves out.
fn complete(example: &str) -> String {
    let has = |keys: &[&str]| keys.iter().any(|k| example.contains(k));
    let mut text = String::new();
    if !has(&["title ="]) {
        text.push_str("title = \"x\"\ncompare = [\"poseidon\"]\nduration = \"10ms\"\n");
    }
    text.push_str(example);
    if !has(&["[topology.", "[[nodes]]"]) {
        text.push_str("[topology.star]\nhosts = 9\nrate = \"10Gbit\"\ndelay = \"1us\"\n");
    }
    if !has(&["[[flows]]", "[[incast]]", "[[poisson]]", "[[rpc]]"]) {
        let (from, to) = match example {
            e if e.contains("dumbbell") => ("l0", "r0"),
            e if e.contains("parking_lot") || e.contains("[[nodes]]") => ("a", "b"),
            e if e.contains("[topology.") => ("h0_0", "h1_0"),
            _ => ("h0", "h8"),
        };
        text.push_str(&format!(
            "[[flows]]\ngroup = \"flows\"\nfrom = \"{from}\"\nto = \"{to}\"\n"
        ));
    }
    text
}

#[test]
fn every_example_resolves() {
    let mut count = 0;
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    for block in DOC.split("```toml\n").skip(1) {
        let (example, _) = block.split_once("```").expect("an end of the example");
        let text = complete(example);
        let scenario = Scenario::parse("docs/scenarios.md", &text, &[], &dir, "example");
        let resolved = scenario.and_then(|s| s.resolve(&s.compare()[0]));
        let resolved = resolved.unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert!(!resolved.flows.is_empty());
        count += 1;
    }
    assert!(count >= 17, "{count} examples");
}

#[test]
fn every_key_is_in_the_reference() {
    // Keys are the public fields of the schema, and the fields of its enums.
    for line in SCHEMA.lines() {
        let line = line.trim();
        let field = line.strip_prefix("pub ").unwrap_or(line);
        let Some((name, _)) = field.split_once(": ") else {
            continue;
        };
        let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        if plain && (line.starts_with("pub ") || line.ends_with(',')) {
            let said = [
                format!("`{name}`"),
                format!("{name} = "),
                format!("[{name}]"),
                format!("[[{name}]]"),
                format!("[{name}."),
            ];
            assert!(
                said.iter().any(|s| DOC.contains(s)),
                "{name} is not in docs/scenarios.md"
            );
        }
    }
}

#[test]
fn every_metric_law_and_parameter_is_in_the_reference() {
    for metric in Metric::ALL {
        let row = format!(
            "| `{}` | {} | {} |",
            metric.name(),
            metric.unit(),
            metric.what()
        );
        assert!(DOC.contains(&row), "{row}");
    }
    for law in Law::ALL {
        assert!(DOC.contains(&format!("`{}`", law.name())), "{}", law.name());
        for p in law.baseline() {
            assert!(
                DOC.contains(&format!("`{}` ({})", p.name, p.default)),
                "{}: {} ({})",
                law.name(),
                p.name,
                p.default
            );
        }
    }
}
