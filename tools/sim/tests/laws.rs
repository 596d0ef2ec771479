// SPDX-License-Identifier: GPL-2.0
//! What each congestion control is known for, on the smallest network that shows it.

mod net;

use fathom_sim::sim::Work;
use fathom_sim::time::{MS, US};
use net::*;

/// One flow fills a link, with every congestion control.
#[test]
fn one_flow_fills_its_link() {
    for name in [
        "poseidon",
        "powertcp",
        "theta_powertcp",
        "hpcc",
        "swift",
        "dctcp",
        "cubic",
        "reno",
        "timely",
        "dcqcn",
    ] {
        // The rate-based two begin at the host's rate and take seconds to climb back from a fourfold overload.
        let host = if matches!(name, "timely" | "dcqcn") {
            10
        } else {
            40
        };
        let (mut net, line, a, b) = dumbbell(1, host, 10, 2 * US);
        net.ports[line]
            .set_discipline(fathom_sim::discipline::Discipline::Ecn { threshold: 97_500 });
        net.ports[line].limit = 1_500_000;
        let cc = net.spec(law(name, 20));
        let format = format_of(name);
        net.flow(cc, format, a[0], b[0], 0, Work::Long);
        let mut sim = net.sim();
        let (rates, mean, p99) = measure(&mut sim, line, 20 * MS, 60 * MS, 1);
        let mss = sim.mss(0);
        let most = 10.0 * f64::from(mss) / 1538.0;
        let c = sim.sender_counters(0);
        println!(
            "{name:16} {:.3} of line, queue {mean:.1} us, p99 {p99:.1} us, cwnd {:.1}, {c:?}",
            rates[0] / most,
            sim.sender(0).expect("it is there").cwnd()
        );
        // HPCC leaves 1 - η = 5 % by design; TIMELY swings around its gradient without end.
        let least = match name {
            "hpcc" => 0.93,
            "timely" => 0.85,
            _ => 0.95,
        };
        assert!(
            rates[0] >= least * most,
            "{name}: {:.3} of {most:.3} Gbit/s",
            rates[0]
        );
    }
}
