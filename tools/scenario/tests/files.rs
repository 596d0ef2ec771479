// SPDX-License-Identifier: GPL-2.0
//! Every scenario of the project can be read and resolved for every congestion control it compares.

use scenario::Scenario;
use std::path::Path;

#[test]
fn every_scenario_resolves() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut count = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "toml") {
            continue;
        }
        count += 1;
        let scenario = Scenario::load(&path, &[]).unwrap_or_else(|e| panic!("{e}"));
        for cc in scenario.compare() {
            let r = scenario.resolve(&cc).unwrap_or_else(|e| panic!("{e}"));
            assert!(!r.flows.is_empty());
            eprintln!(
                "{} {cc}: {} flows, base rtt {}, shares {:?}, line {}",
                r.name,
                r.flows.len(),
                r.base_rtt_ns(0),
                r.max_min_bps(&(0..r.flows.len().min(5)).collect::<Vec<_>>()),
                r.port_name(r.measure.ports[0])
            );
        }
    }
    assert!(count > 0);
}
