// SPDX-License-Identifier: GPL-2.0

//! Compiles `tests/no_panic/entry.rs` of the crate under test as a kernel module is compiled. Shared by
//! the crates that modules take in by path.

use std::path::Path;
use std::process::Command;

/// The object, overflow checks on; `args` are the compiler's. It is `$RUSTC`, or the `rustc` on the path.
pub fn compile(name: &str, args: &[String]) -> Vec<u8> {
    let file = format!("{}-{name}.o", env!("CARGO_PKG_NAME"));
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/no_panic/entry.rs");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let output = Command::new(&rustc)
        .args(["--edition=2021", "--crate-name=entry", "--crate-type=lib"])
        .args(["--emit=obj", "--cfg=MODULE", "-Copt-level=2"])
        .args(["-Coverflow-checks=on", "-Cpanic=abort", "-Cdebuginfo=0"])
        .args(["-Ccodegen-units=1", "-Awarnings"])
        .args(args)
        .arg("-o")
        .arg(&object)
        .arg(source)
        .output()
        .unwrap_or_else(|e| panic!("cannot run {rustc}: {e}"));
    assert!(
        output.status.success(),
        "{name} does not compile as a kernel module would:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    std::fs::read(object).expect("the object that was just written")
}
