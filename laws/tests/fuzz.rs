// SPDX-License-Identifier: GPL-2.0

//! A short run of the fuzz targets in every `cargo test`: the seed corpus, and random byte strings
//! through the very same harness. `FATHOM_FUZZ_RUNS` sets how many per law; with cargo-fuzz,
//! `cargo +nightly fuzz run <law>` in `fuzz/` goes on for as long as one likes.

#[path = "../fuzz/src/harness.rs"]
mod harness;

use harness::Fuzz;
use laws::{Hpcc, Poseidon, PowerTcp, Swift, ThetaPowerTcp};
use std::path::Path;

fn corpus(law: &str) -> Vec<(String, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(law);
    let mut seeds: Vec<_> = std::fs::read_dir(&dir)
        .unwrap_or_else(|e| panic!("the seed corpus {}: {e}", dir.display()))
        .map(|entry| entry.expect("a seed").path())
        .map(|path| {
            (
                path.display().to_string(),
                std::fs::read(&path).expect("a seed"),
            )
        })
        .collect();
    seeds.sort();
    assert!(seeds.len() >= 4, "{law} has {} seeds", seeds.len());
    seeds
}

fn short_run<L: Fuzz>() {
    for (name, seed) in corpus(L::NAME) {
        println!("{name}");
        harness::run::<L>(&seed);
    }
    let default = if cfg!(debug_assertions) { 300 } else { 3000 };
    let runs: u64 = std::env::var("FATHOM_FUZZ_RUNS")
        .ok()
        .and_then(|r| r.parse().ok())
        .unwrap_or(default);
    let mut state = 0x1234_5678_9abc_def1u64 ^ L::NAME.len() as u64;
    for run in 0..runs {
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let length = (next() % 2000) as usize;
        let bytes: Vec<u8> = (0..length).map(|_| (next() >> 32) as u8).collect();
        let result = std::panic::catch_unwind(|| harness::run::<L>(&bytes));
        if result.is_err() {
            let file = std::env::temp_dir().join(format!("{}-{run}.fuzz", L::NAME));
            std::fs::write(&file, &bytes).expect("writing the failing input");
            panic!(
                "{}: run {run} failed; its input is in {}",
                L::NAME,
                file.display()
            );
        }
    }
}

#[test]
fn poseidon() {
    short_run::<Poseidon>();
}

#[test]
fn powertcp() {
    short_run::<PowerTcp>();
}

#[test]
fn theta_powertcp() {
    short_run::<ThetaPowerTcp>();
}

#[test]
fn hpcc() {
    short_run::<Hpcc>();
}

#[test]
fn swift() {
    short_run::<Swift>();
}

/// The harness must be able to fail: a law that stalls is found out.
#[test]
fn a_stalled_law_would_be_found() {
    use laws::window::Window;
    use laws::{Ack, ConfigError, HopHistory, Law, Path};

    #[derive(Clone, Copy, Default)]
    struct Stalled(Window);

    impl Law for Stalled {
        type Config = ();
        type Params = ();
        const NAME: &'static str = "stalled";
        fn prepare(_: &()) -> Result<(), ConfigError> {
            Ok(())
        }
        fn start(&mut self, _: &(), path: &Path, _: u64) {
            self.0 = Window::new(path, 5000);
        }
        fn path_changed(&mut self, _: &(), _: &Path) {}
        fn on_ack(&mut self, _: &(), _: Option<&mut HopHistory>, _: &Ack<'_>) -> bool {
            false
        }
        fn on_loss(&mut self, _: &(), _: u64) {}
        fn on_timeout(&mut self, _: &(), _: u64) {}
        fn on_idle_restart(&mut self, _: &(), _: u64) {}
        fn pacing_rate(&self, _: &()) -> u64 {
            self.0.least_rate()
        }
        fn window(&self) -> &Window {
            &self.0
        }
        fn window_mut(&mut self) -> &mut Window {
            &mut self.0
        }
    }

    impl Fuzz for Stalled {
        fn config(_: &mut harness::Bytes<'_>, _: bool) {}
        fn clean_rtt_ns(&self) -> u32 {
            1000
        }
    }

    let result = std::panic::catch_unwind(|| harness::run::<Stalled>(&[1, 6, 0]));
    let message = *result
        .expect_err("a stall")
        .downcast::<String>()
        .expect("a message");
    assert!(message.contains("clean rounds"), "{message}");
}
