// SPDX-License-Identifier: GPL-2.0

//! Checks programs: `cargo run -p fathom-p4 --example check -- FILE...`. Exits 1 at the first that is wrong.

use std::process::ExitCode;

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        eprintln!("usage: check FILE...");
        return ExitCode::from(2);
    }
    for file in files {
        match p4::load(file.as_ref(), &[]) {
            Ok(program) => {
                println!("{file}: {:?}", program.architecture());
                for table in program.tables() {
                    println!("  table {table}");
                }
                for register in program.registers() {
                    println!("  register {register}");
                }
            }
            Err(e) => {
                eprintln!("{e}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
