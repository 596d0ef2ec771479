// SPDX-License-Identifier: GPL-2.0

#![no_main]

#[path = "../src/harness.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run::<laws::ThetaPowerTcp>(data));
