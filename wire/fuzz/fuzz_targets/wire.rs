// SPDX-License-Identifier: GPL-2.0

//! `cargo +nightly fuzz run wire` in `wire/`: the same checks as `tests/properties.rs`, led by
//! coverage.
#![no_main]

#[path = "../../tests/harness/mod.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
