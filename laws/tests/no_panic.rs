// SPDX-License-Identifier: GPL-2.0

//! In the kernel a panic is a BUG(): nothing in this crate may even refer to the code for one.
//!
//! Each law is compiled as a kernel module compiles it, with overflow checks on, and the object's
//! symbols are read.

#[path = "no_panic/compile.rs"]
mod compile;

use std::path::Path;

/// A symbol whose name has one of these in it is code that a module cannot have: the machinery of
/// panics, 128-bit division, floating point in software.
const FORBIDDEN: [&str; 9] = [
    "panicking",
    "panic_",
    "__udivti3",
    "__umodti3",
    "__divti3",
    "__modti3",
    "__muldf3",
    "__divdf3",
    "__adddf3",
];

/// A whole module must fit 16 KiB of text; what the kernel's side needs is not ours to use.
const MAX_TEXT: u64 = 12 * 1024;

/// A module with this law alone.
fn module(law: &str) -> Elf {
    let law_is = format!("--cfg=law=\"{law}\"");
    let features = ["single", law].map(|name| format!("--cfg=feature=\"{name}\""));
    Elf::new(compile::compile(law, &[&[law_is], &features[..]].concat()))
}

/// An ELF object, as far as it is needed: 64 bits, little-endian.
struct Elf(Vec<u8>);

impl Elf {
    fn new(bytes: Vec<u8>) -> Self {
        assert_eq!(
            &bytes[..6],
            b"\x7fELF\x02\x01",
            "a 64-bit little-endian ELF object"
        );
        Self(bytes)
    }

    fn number(&self, at: usize, bytes: usize) -> u64 {
        let mut le = [0; 8];
        le[..bytes].copy_from_slice(&self.0[at..at + bytes]);
        u64::from_le_bytes(le)
    }

    /// (type, flags, offset, size) of each section.
    fn sections(&self) -> Vec<(u64, u64, usize, usize)> {
        let table = self.number(0x28, 8) as usize;
        let size = self.number(0x3a, 2) as usize;
        let count = self.number(0x3c, 2) as usize;
        (0..count)
            .map(|i| table + i * size)
            .map(|at| {
                let (offset, size) = (self.number(at + 24, 8), self.number(at + 32, 8));
                (
                    self.number(at + 4, 4),
                    self.number(at + 8, 8),
                    offset as usize,
                    size as usize,
                )
            })
            .collect()
    }

    /// The names of its symbols, defined or not.
    fn names(&self) -> Vec<String> {
        const SYMBOLS: u64 = 2;
        let sections = self.sections();
        let mut names = Vec::new();
        for (i, &(_, _, at, size)) in sections.iter().enumerate().filter(|(_, s)| s.0 == SYMBOLS) {
            let header = self.number(0x28, 8) as usize + i * self.number(0x3a, 2) as usize;
            let strings = sections[self.number(header + 40, 4) as usize].2;
            for symbol in (at..at + size).step_by(24) {
                let start = strings + self.number(symbol, 4) as usize;
                let name = self.0[start..].split(|&b| b == 0).next().unwrap_or(&[]);
                names.push(String::from_utf8_lossy(name).into_owned());
            }
        }
        names
    }

    fn text_bytes(&self) -> u64 {
        const EXECUTABLE: u64 = 4;
        self.sections()
            .into_iter()
            .filter(|s| s.1 & EXECUTABLE != 0)
            .map(|s| s.3 as u64)
            .sum()
    }

    fn forbidden(&self) -> Vec<String> {
        let bad = |name: &String| FORBIDDEN.iter().any(|f| name.contains(f));
        self.names().into_iter().filter(bad).collect()
    }
}

#[test]
fn no_law_can_panic() {
    for law in ["poseidon", "powertcp", "theta_powertcp", "hpcc", "swift"] {
        let elf = module(law);
        assert!(
            elf.names().iter().any(|n| n == "on_ack"),
            "{law}: the object does not hold the entry points it should be searched for"
        );
        assert_eq!(
            elf.forbidden(),
            Vec::<String>::new(),
            "{law} refers to code a module cannot have"
        );
        let text = elf.text_bytes();
        println!("{law}: {text} bytes of text");
        assert!(
            text <= MAX_TEXT,
            "{law}: {text} bytes of text, at most {MAX_TEXT} are for a law"
        );
    }
}

#[test]
fn a_panic_would_be_found() {
    let elf = module("panics");
    let found = elf.forbidden();
    assert!(
        found.iter().any(|name| name.contains("panicking")),
        "the sample indexes, adds and divides, and all that was found is {found:?}"
    );
}

#[test]
fn no_floating_point_in_the_sources() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = 0;
    for file in std::fs::read_dir(src)
        .expect("the sources")
        .map(|f| f.expect("a file").path())
    {
        files += 1;
        let text = std::fs::read_to_string(&file).expect("a source file");
        assert!(
            text.starts_with("// SPDX-License-Identifier: GPL-2.0\n"),
            "{}: a file begins with its licence",
            file.display()
        );
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
            for word in words {
                assert!(
                    !["f32", "f64", "unsafe", "crate", "std", "panic", "unwrap", "expect"]
                        .contains(&word),
                    "{}:{}: `{word}` has no place here",
                    file.display(),
                    number + 1
                );
            }
        }
    }
    assert!(files >= 10, "only {files} source files were found");
}
