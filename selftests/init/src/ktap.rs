// SPDX-License-Identifier: GPL-2.0
//! KTAP version 1, the kernel's test protocol.

use anyhow::Result;

/// What a test came to, when it did not fail.
pub enum Outcome {
    /// It passed.
    Pass,
    /// It could not be run, and why.
    Skip(String),
}

/// A test: its name, and what it does.
pub type Test = (&'static str, fn() -> Result<Outcome>);

/// Runs all tests and prints their results. A test that fails does not stop the others.
pub fn run(tests: &[Test]) {
    println!("KTAP version 1");
    println!("1..{}", tests.len());
    for (i, (name, test)) in tests.iter().enumerate() {
        let number = i + 1;
        match test() {
            Ok(Outcome::Pass) => println!("ok {number} {name}"),
            Ok(Outcome::Skip(why)) => println!("ok {number} {name} # SKIP {why}"),
            Err(e) => {
                for line in format!("{e:#}").lines() {
                    println!("# {line}");
                }
                println!("not ok {number} {name}");
            }
        }
    }
}
