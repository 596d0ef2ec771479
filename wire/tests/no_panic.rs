// SPDX-License-Identifier: GPL-2.0

//! In the kernel a panic is a BUG(), in eBPF it does not load: nothing in this crate may even refer
//! to the code for one.
//!
//! The crate is compiled as a kernel module compiles it, overflow checks on, and the object is
//! searched for the names of such code. The compiler is `$RUSTC`, or the `rustc` on the path.

use std::path::Path;
use std::process::Command;

const FORBIDDEN: [&str; 4] = ["panicking", "panic_", "__udivti3", "__umodti3"];

fn compile(name: &str, args: &[&str]) -> Vec<u8> {
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.o"));
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

fn has(object: &[u8], name: &str) -> bool {
    object.windows(name.len()).any(|w| w == name.as_bytes())
}

#[test]
fn nothing_can_panic() {
    let object = compile("wire", &[]);
    assert!(has(&object, "entry_segment"), "the entry points are there");
    for name in FORBIDDEN {
        assert!(!has(&object, name), "the object refers to `{name}`");
    }
}

#[test]
fn a_panic_would_be_found() {
    assert!(has(&compile("panics", &["--cfg=panics"]), "panicking"));
}

#[test]
fn the_sources_keep_the_rules() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in std::fs::read_dir(src).expect("the sources") {
        let file = file.expect("a file").path();
        let text = std::fs::read_to_string(&file).expect("a source file");
        assert!(text.starts_with("// SPDX-License-Identifier: GPL-2.0\n"));
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            for word in code.split(|c: char| !c.is_alphanumeric() && c != '_') {
                assert!(
                    !["f32", "f64", "u128", "unsafe", "crate", "std", "unwrap", "expect"]
                        .contains(&word),
                    "{}:{}: `{word}` has no place here",
                    file.display(),
                    number + 1
                );
            }
        }
    }
}
