// SPDX-License-Identifier: GPL-2.0

//! The reference compiler and its switch, when they are on PATH. Without them these say so and check nothing.

mod common;
use std::path::PathBuf;
use std::process::Command;

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path)
        .map(|d| d.join(name))
        .find(|p| p.is_file());
    if found.is_none() {
        println!("SKIP: {name} is not on PATH; what it would have checked was not checked");
    }
    found
}

const V1MODEL: [&str; 3] = [
    "v1model/int.p4",
    "v1model/rpm.p4",
    "v1model/fathom_switch.p4",
];
const TNA: [&str; 5] = [
    "tna/int.p4",
    "tna/mpd.p4",
    "tna/bottleneck.p4",
    "tna/rpm.p4",
    "tna/fathom_switch.p4",
];

/// Type checks by the reference front end.
#[test]
fn p4test_takes_the_v1model_programs() {
    let Some(p4test) = on_path("p4test") else {
        return;
    };
    for file in V1MODEL {
        let path = common::p4_dir().join(file);
        let out = Command::new(&p4test).arg(&path).output().expect("it runs");
        assert!(
            out.status.success(),
            "{file}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
}

/// Compiled for BMv2 and for Tofino.
#[test]
fn p4c_takes_all_programs() {
    let Some(p4c) = on_path("p4c") else { return };
    let dir = std::env::temp_dir().join(format!("fathom-p4c-{}", std::process::id()));
    let all = V1MODEL
        .iter()
        .map(|f| ("bmv2", "v1model", f))
        .chain(TNA.iter().map(|f| ("tofino", "tna", f)));
    for (target, arch, file) in all {
        let path = common::p4_dir().join(file);
        let out = Command::new(&p4c)
            .args(["--target", target, "--arch", arch, "-o"])
            .arg(&dir)
            .arg(&path)
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        if target == "tofino" && !out.status.success() && said.contains("target") {
            println!("SKIP: this p4c has no Tofino backend: {file} was not compiled");
            continue;
        }
        assert!(out.status.success(), "{file}: {said}");
    }
    let _ = std::fs::remove_dir_all(dir);
}
