// SPDX-License-Identifier: GPL-2.0

//! Runs the P4_16 programs of this folder on packets, without a P4 compiler or a switch.
//!
//! [`load`] reads a program: the preprocessor, the parser, and a check of every name, type and width against
//! our own declarations of the v1model and Tofino architectures (`arch/`). What a P4 compiler would refuse is
//! refused here, with file, line, column. [`Program::switch`] makes a [`Switch`] with tables, registers and
//! counters of its own; packets go through it one at a time, and the same packets give the same answers.
//!
//! Data flows: text → `preproc` → `parse` → `lower`, `expr`, `ext` (names become slots, blocks are inlined)
//! → `arch` (what `main` is made of) → `exec` (packets).
//!
//! It is the subset of P4_16 that our programs use, not all of it: no `varbit`, no header unions, no
//! generics of the user's own, nothing wider than 128 bits; each is refused by name.
//!
//! A simulator that forwards by itself asks the program at each egress port, when the packet leaves the queue:
//!
//! ```
//! use p4::{load, Key, Metadata};
//! let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../v1model/int.p4");
//! let program = load(path.as_ref(), &[])?;
//! let mut switch = program.switch();
//! // Port 1 is hop 7, 25 Gbit/s (code 7 of wire::speed), 24 bytes of overhead, 0.32 ns for a byte.
//! switch.add_entry("port", &[Key::Exact(1)], "port_is", &[7, 7, 24, (32 << 24) / 100])?;
//! let metadata = Metadata {
//!     egress_port: 1,
//!     enqueue_ns: 1_000,
//!     dequeue_ns: 11_000,
//!     dequeue_bytes: 12_500,
//!     ..Metadata::default()
//! };
//! let mut out = Vec::new();
//! let frame = [0u8; 64];
//! assert!(switch.port(&frame, &metadata, &mut out), "not dropped");
//! assert_eq!(out, frame, "no option in it, so nothing to write");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod arch;
mod ast;
mod exec;
mod expr;
mod ext;
mod ir;
mod lex;
mod lower;
mod parse;
mod preproc;
mod source;
mod switch;
mod types;

pub use arch::Architecture;
pub use source::Error;
pub use switch::{ControlError, Key, Lpf, Metadata, Switch};

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A program that was read and found good.
#[derive(Clone, Debug)]
pub struct Program(Arc<arch::Linked>);

impl Program {
    /// A switch that runs it, as it is after power-on.
    #[must_use]
    pub fn switch(&self) -> Switch {
        Switch::new(self.0.clone())
    }

    /// What it is for.
    #[must_use]
    pub fn architecture(&self) -> Architecture {
        self.0.arch
    }

    /// Whether its egress may drop packets. A caller that knows it does not can tell in advance when packets
    /// leave ([`Switch::port`]).
    #[must_use]
    pub fn drops_at_egress(&self) -> bool {
        let linked = &self.0;
        let (field, control) = match linked.arch {
            Architecture::V1Model => ("standard_metadata.egress_spec", 2),
            _ => ("eg_intr_md_for_dprsr.drop_ctl", 2),
        };
        match (linked.fields.get(field), linked.controls.get(control)) {
            (Some(&(slot, _)), Some(egress)) => ir::writes(egress, slot, &linked.code.sites),
            _ => false,
        }
    }

    /// The full names of its tables.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.0.code.tables.iter().map(|t| t.name.as_str())
    }

    /// The full names of its registers.
    pub fn registers(&self) -> impl Iterator<Item = &str> {
        self.0.code.registers.iter().map(|r| r.name.as_str())
    }
}

/// Reads the program in the file `path`. Files it includes are looked for beside the including file and in
/// `includes`; the architectures' are built in.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn load(path: &Path, includes: &[PathBuf]) -> Result<Program, Error> {
    load_with(path, includes, &[])
}

/// [`load`] with macros defined in front, as `-D NAME=VALUE` of a compiler.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn load_with(
    path: &Path,
    includes: &[PathBuf],
    defines: &[(&str, &str)],
) -> Result<Program, Error> {
    let text = std::fs::read_to_string(path).map_err(|e| Error {
        file: path.display().to_string(),
        line: 0,
        column: 0,
        message: format!("cannot read it: {e}"),
    })?;
    load_text(path, &text, includes, defines)
}

/// [`load_with`] on a text that is called `path`.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn load_text(
    path: &Path,
    text: &str,
    includes: &[PathBuf],
    defines: &[(&str, &str)],
) -> Result<Program, Error> {
    let defines: Vec<(String, String)> = defines
        .iter()
        .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
        .collect();
    let mut preproc = preproc::Preprocessor::new(includes, &defines);
    let linked = front_end(&mut preproc, path, text);
    linked
        .map(|l| Program(Arc::new(l)))
        .map_err(|fault| preproc.files.error(fault))
}

fn front_end(
    preproc: &mut preproc::Preprocessor<'_>,
    path: &Path,
    text: &str,
) -> source::Res<arch::Linked> {
    let tokens = preproc.run(path, text)?;
    let end = source::Pos {
        file: 1,
        line: text.lines().count().max(1) as u32,
        col: 1,
    };
    let decls = parse::Parser::new(tokens, end).program()?;
    let mut lower = lower::Lower::new();
    lower.program(&decls)?;
    lower.check_all()?;
    lower.link(end)
}
