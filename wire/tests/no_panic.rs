// SPDX-License-Identifier: GPL-2.0

//! In the kernel a panic is a BUG(), in eBPF it does not load: nothing in this crate may even refer
//! to the code for one.
//!
//! The crate is compiled as a kernel module compiles it, overflow checks on, and the object is
//! searched for the names of such code.

#[path = "../../laws/tests/no_panic/compile.rs"]
mod compile;

use compile::compile;
use std::path::Path;

const FORBIDDEN: [&str; 4] = ["panicking", "panic_", "__udivti3", "__umodti3"];

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
    assert!(has(
        &compile("panics", &["--cfg=panics".into()]),
        "panicking"
    ));
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
