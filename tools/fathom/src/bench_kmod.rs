// SPDX-License-Identifier: GPL-2.0
//! `fathom bench-kmod`: instructions per ACK that each congestion control spends in its own code, on the
//! stock kernel, counted by QEMU.

use crate::{paths::Paths, table, vm, Outcome};
use anyhow::{ensure, Context as _, Result};
use clap::Parser;
use comfy_table::CellAlignment;
use std::{collections::BTreeMap, fs, path::PathBuf};

/// Arguments of `fathom bench-kmod`.
#[derive(Parser)]
pub struct Args {
    /// The plugin that counts, built from selftests/bench-kmod.
    #[arg(long, value_name = "FILE")]
    plugin: PathBuf,

    /// Also show the functions that each one's instructions are in.
    #[arg(long)]
    functions: bool,

    /// Also show its blocks of code that run once in twenty ACKs at least, by offset into the function as
    /// `objdump -d` has it.
    #[arg(long)]
    blocks: bool,
}

/// What TCP calls once per ACK of a congestion control. Of ours the name is mangled.
fn is_entry(module: &str, function: &str) -> bool {
    match module {
        "tcp_cubic" => function == "cubictcp_acked",
        "tcp_bbr" => function == "bbr_main",
        "tcp_dctcp" => function == "dctcp_update_alpha",
        _ => function.contains("4cong12cong_control"),
    }
}

/// The goals: a congestion control, a share of another's instructions.
const GOALS: [(&str, f64, &str); 3] = [
    ("tcp_poseidon", 1.0, "tcp_cubic"),
    ("tcp_theta_powertcp", 0.7, "tcp_cubic"),
    ("tcp_powertcp", 1.0, "tcp_bbr"),
];

/// Those that read telemetry, the module that finds it for them, and the function of theirs that asks it once.
const READERS: [&str; 3] = ["tcp_hpcc", "tcp_poseidon", "tcp_powertcp"];
const FINDER: &str = "tcp_int";
const ASKS: &str = "6law_cc4look";

/// A block of code that ran.
struct Block {
    address: u64,
    instructions: u64,
    runs: u64,
}

/// A congestion control's cost.
#[derive(Default, Clone, PartialEq, Debug)]
struct Cost {
    instructions: u64,
    acks: u64,
    /// Times that it looked at an ACK.
    looks: u64,
    functions: BTreeMap<String, u64>,
    /// Function, offset, instructions, runs.
    blocks: Vec<(String, u64, u64, u64)>,
}

impl Cost {
    fn per_ack(&self) -> f64 {
        self.instructions as f64 / self.acks.max(1) as f64
    }

    /// The functions with a hundredth of the instructions at least, the largest first.
    fn print(&self, module: &str) {
        let mut all: Vec<_> = self.functions.iter().collect();
        all.retain(|(_, n)| **n * 100 > self.instructions);
        all.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        println!("{module}");
        for (name, n) in all {
            println!("  {:8.1} {name}", *n as f64 / self.acks.max(1) as f64);
        }
    }

    /// The blocks that run often, in order.
    fn print_blocks(&self, module: &str) {
        let mut all: Vec<_> = self.blocks.iter().collect();
        all.retain(|(.., runs)| runs * 20 >= self.acks);
        all.sort();
        println!("{module}: runs per ACK, instructions, where");
        for (name, offset, instructions, runs) in all {
            let runs = *runs as f64 / self.acks.max(1) as f64;
            println!("  {runs:8.2} {instructions:4} {name}+{offset:#x}");
        }
    }
}

/// Functions by address: `@ ADDRESS MODULE NAME` of the guest.
fn functions(console: &[String]) -> Result<BTreeMap<u64, (String, String)>> {
    let mut all = BTreeMap::new();
    for line in console {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["@", address, module, name] = words[..] {
            let address = u64::from_str_radix(address, 16).with_context(|| line.clone())?;
            all.entry(address)
                .or_insert_with(|| (module.to_owned(), name.to_owned()));
        }
    }
    ensure!(!all.is_empty(), "the guest named no functions");
    Ok(all)
}

fn blocks(text: &str) -> Result<Vec<Block>> {
    text.lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |i: usize| -> Result<u64> {
                let word = words.get(i).context("too few words")?;
                Ok(u64::from_str_radix(word, 16)?)
            };
            Ok(Block {
                address: number(0)?,
                instructions: number(1)?,
                runs: number(2)?,
            })
        })
        .collect::<Result<_>>()
        .context("the plugin's file")
}

fn costs(functions: &BTreeMap<u64, (String, String)>, blocks: &[Block]) -> BTreeMap<String, Cost> {
    let mut costs: BTreeMap<String, Cost> = BTreeMap::new();
    for block in blocks {
        let Some((start, (module, name))) = functions.range(..=block.address).next_back() else {
            continue;
        };
        // Past the last function there may be anything.
        if block.address - start > 1 << 16 || module == "-" {
            continue;
        }
        let cost = costs.entry(module.clone()).or_default();
        cost.instructions += block.instructions * block.runs;
        *cost.functions.entry(name.clone()).or_default() += block.instructions * block.runs;
        cost.blocks.push((
            name.clone(),
            block.address - start,
            block.instructions,
            block.runs,
        ));
        if block.address == *start && is_entry(module, name) {
            cost.acks += block.runs;
        }
        if block.address == *start && name.contains(ASKS) {
            cost.looks += block.runs;
        }
    }
    let finder = costs.remove(FINDER).unwrap_or_default();
    costs.retain(|_, cost| cost.acks != 0);
    let looks = READERS.iter().filter_map(|m| Some(costs.get(*m)?.looks));
    let looks = looks.sum::<u64>().max(1);
    for module in READERS {
        if let Some(cost) = costs.get_mut(module) {
            let part = finder.instructions * cost.looks / looks;
            cost.instructions += part;
            cost.functions.insert(FINDER.to_owned(), part);
        }
    }
    costs
}

/// Runs `fathom bench-kmod`.
pub fn run(args: &Args) -> Result<Outcome> {
    let paths = Paths::find()?;
    let dir = paths.run_dir()?;
    let out = dir.path().join("blocks");
    let console = vm::bench(&paths, &args.plugin, &out)?;
    let counted = fs::read_to_string(&out).context("the plugin's file")?;
    let costs = costs(&functions(&console)?, &blocks(&counted)?);
    let mut table = table::new(&[
        "congestion control",
        "instructions\nper ACK",
        "ACKs",
        "of these\nlooked at",
        "goal",
        "",
    ]);
    let mut met = true;
    for (module, cost) in &costs {
        let mut row = vec![
            module.trim_start_matches("tcp_").to_owned(),
            format!("{:.0}", cost.per_ack()),
            cost.acks.to_string(),
            match cost.looks {
                0 => String::new(),
                looks => format!("{:.0} %", 100.0 * looks as f64 / cost.acks.max(1) as f64),
            },
        ];
        if let Some((_, share, of)) = GOALS.iter().find(|(goal, ..)| goal == module) {
            let most = costs.get(*of).map_or(0.0, Cost::per_ack) * share;
            let holds = cost.per_ack() <= most;
            met &= holds;
            row.push(format!("{most:.0}"));
            row.push(if holds { "met" } else { "missed" }.to_owned());
        }
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
    if args.functions {
        for (module, cost) in &costs {
            cost.print(module);
        }
    }
    if args.blocks {
        for (module, cost) in &costs {
            cost.print_blocks(module);
        }
    }
    Ok(if met { Outcome::Ok } else { Outcome::Failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_for_their_function() {
        let console = [
            "@ ffffffff80001000 tcp_cubic cubictcp_acked",
            "@ ffffffff80001100 - tcp_other",
            "@ ffffffffc0001000 tcp_swift _RNvNtNt4kapi4cong12cong_controlX",
            "@ ffffffffc0001100 tcp_swift helper",
            "boot noise",
        ]
        .map(str::to_owned);
        let counted = "ffffffff80001000 5 2\nffffffff80001010 3 1\nffffffff80001104 9 9\n\
                       ffffffffc0001000 a 4\nffffffffc0001108 2 4\nffffffffd0000000 1 1\n";
        let costs = costs(&functions(&console).unwrap(), &blocks(counted).unwrap());
        let of = |module: &str| (costs[module].instructions, costs[module].acks);
        assert_eq!(of("tcp_cubic"), (13, 2));
        assert_eq!(of("tcp_swift"), (48, 4));
        assert_eq!(costs["tcp_swift"].functions["helper"], 8);
        let helper = ("helper".to_owned(), 8, 2, 4);
        assert!(costs["tcp_swift"].blocks.contains(&helper));
        assert_eq!(costs.len(), 2);
        assert_eq!(costs["tcp_swift"].per_ack(), 12.0);
    }

    #[test]
    fn who_reads_telemetry_pays_for_finding_it() {
        let console = [
            "@ ffffffffc0001000 tcp_hpcc _RNvNtNt4kapi4cong12cong_controlX",
            "@ ffffffffc0002000 tcp_poseidon _RNvNtNt4kapi4cong12cong_controlX",
            "@ ffffffffc0003000 tcp_swift _RNvNtNt4kapi4cong12cong_controlX",
            "@ ffffffffc0004000 tcp_int fathom_int_storage",
            "@ ffffffffc0001100 tcp_hpcc _RNv6law_cc4lookX",
            "@ ffffffffc0002100 tcp_poseidon _RNv6law_cc4lookX",
        ]
        .map(str::to_owned);
        let counted = "ffffffffc0001000 a 3\nffffffffc0002000 a 3\nffffffffc0003000 a 5\n\
                       ffffffffc0001100 1 3\nffffffffc0002100 1 1\nffffffffc0004000 6 4\n";
        let costs = costs(&functions(&console).unwrap(), &blocks(counted).unwrap());
        let per_ack = |module: &str| costs[module].per_ack();
        assert_eq!(per_ack("tcp_hpcc"), 17.0);
        assert_eq!(per_ack("tcp_poseidon"), (30.0 + 1.0 + 6.0) / 3.0);
        assert_eq!(per_ack("tcp_swift"), 10.0);
        assert_eq!(costs.len(), 3);
    }

    #[test]
    fn a_line_that_is_none_is_an_error() {
        assert!(blocks("ffffffff80001000 5").is_err());
        assert!(functions(&["nothing".to_owned()]).is_err());
    }
}
