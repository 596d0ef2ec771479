// SPDX-License-Identifier: GPL-2.0
//! Whatever a network does to packets, TCP delivers every byte; and whatever the machine, twice the same.

mod net;

use fathom_sim::fault::Faults;
use fathom_sim::rng::{probability, Rng};
use fathom_sim::sim::{Sim, Work};
use fathom_sim::time::{MS, NEVER, US};
use net::*;
use proptest::prelude::*;

const LAWS: [&str; 11] = [
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
    "retcp",
];

#[derive(Clone, Copy, Debug)]
struct Trouble {
    loss: f64,
    reorder: f64,
    duplicate: f64,
    corrupt: f64,
    strip: f64,
    buffer: u32,
}

fn trouble() -> impl Strategy<Value = Trouble> {
    (
        0.0..0.2f64,
        0.0..0.2f64,
        0.0..0.1f64,
        0.0..0.1f64,
        0.0..0.5f64,
        3_000u32..300_000,
    )
        .prop_map(
            |(loss, reorder, duplicate, corrupt, strip, buffer)| Trouble {
                loss,
                reorder,
                duplicate,
                corrupt,
                strip,
                buffer,
            },
        )
}

fn troubled(law_name: &str, t: Trouble, seed: u64, sizes: &[u64], ack_every: u32) -> Sim {
    let (mut net, line, a, b) = dumbbell(sizes.len(), 40, 10, 3 * US);
    net.tcp.ack_every = ack_every;
    net.tcp.min_rto_ns = 5_000_000;
    net.seed = seed;
    net.ports[line].limit = t.buffer;
    for p in [line, line + 1] {
        let mut faults = Faults::new(Rng::new(seed).fork(p as u64));
        faults.loss = probability(t.loss);
        faults.reorder = probability(t.reorder);
        faults.late = 20 * US;
        faults.duplicate = probability(t.duplicate);
        faults.corrupt = probability(t.corrupt);
        faults.strip = probability(t.strip);
        net.ports[p].faults = Some(Box::new(faults));
    }
    let cc = net.spec(law(law_name, 20));
    for (i, &bytes) in sizes.iter().enumerate() {
        net.flow(
            cc,
            format_of(law_name),
            a[i],
            b[i],
            i as u64 * 50 * US,
            Work::Bytes(bytes),
        );
    }
    net.sim()
}

/// Everything that can be seen of a run.
fn fingerprint(sim: &Sim, flows: u32) -> String {
    let flows: Vec<_> = (0..flows)
        .map(|f| (*sim.state(f), sim.sender_counters(f)))
        .collect();
    let ports: Vec<_> = sim.ports.iter().map(|p| p.counters).collect();
    format!("{} {flows:?} {ports:?}", sim.events())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives(
        which in 0usize..LAWS.len(),
        t in trouble(),
        seed in any::<u64>(),
        sizes in prop::collection::vec(1u64..400_000, 1..5),
        ack_every in 1u32..3,
    ) {
        let mut sim = troubled(LAWS[which], t, seed, &sizes, ack_every);
        sim.run_until(600_000 * MS);
        for (f, &bytes) in sizes.iter().enumerate() {
            let state = sim.state(f as u32);
            prop_assert_ne!(state.finished, NEVER, "{} flow {}", LAWS[which], f);
            prop_assert_eq!(state.delivered_bytes, bytes);
            prop_assert_eq!(sim.sender_counters(f as u32).acked_bytes, bytes);
        }
        // Nothing is under way for ever.
        prop_assert_eq!(sim.under_way(), 0);
    }
}

#[test]
fn the_same_twice_and_in_parallel() {
    let t = Trouble {
        loss: 0.01,
        reorder: 0.02,
        duplicate: 0.01,
        corrupt: 0.01,
        strip: 0.1,
        buffer: 50_000,
    };
    let run = |name: &str, seed| {
        let mut sim = troubled(name, t, seed, &[1_000_000, 500_000, 2_000_000], 2);
        sim.run_until(500 * MS);
        fingerprint(&sim, 3)
    };
    let alone: Vec<String> = LAWS.iter().map(|name| run(name, 7)).collect();
    let together: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = LAWS
            .iter()
            .map(|name| scope.spawn(move || run(name, 7)))
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("no panic"))
            .collect()
    });
    assert_eq!(alone, together);
    assert_ne!(alone[0], run(LAWS[0], 8), "the seed matters");
}

/// Running in steps is running at once: nobody notices being looked at.
#[test]
fn looking_changes_nothing() {
    let t = Trouble {
        loss: 0.001,
        reorder: 0.0,
        duplicate: 0.0,
        corrupt: 0.0,
        strip: 0.0,
        buffer: 60_000,
    };
    for name in LAWS {
        let mut once = troubled(name, t, 3, &[3_000_000; 4], 2);
        once.run_until(100 * MS);
        let mut steps = troubled(name, t, 3, &[3_000_000; 4], 2);
        let mut at = 0;
        while at < 100 * MS {
            at += 7 * US;
            steps.run_until(at.min(100 * MS));
            for p in 0..steps.ports.len() {
                steps.queue(p as u32);
            }
        }
        for p in 0..once.ports.len() {
            once.queue(p as u32);
        }
        assert_eq!(fingerprint(&once, 4), fingerprint(&steps, 4), "{name}");
    }
}
