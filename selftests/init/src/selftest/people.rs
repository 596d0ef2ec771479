// SPDX-License-Identifier: GPL-2.0
//! The commands people use on a port: `fathom tc`, and iproute2's `tc`, which does not know it.

use super::data::Pair;
use crate::ktap::Outcome;
use anyhow::{ensure, Context as _, Result};
use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Output},
};

const MODULE: &str = "sch_int";
const FATHOM: &str = "/usr/sbin/fathom";
const TC: &str = "/usr/sbin/tc";
const MODPROBE: &str = "/proc/sys/kernel/modprobe";
const NOBODY: u32 = 65534;

/// Runs a command in the sender's namespace; what it printed, and its exit code.
fn run(pair: &Pair, user: u32, line: &str) -> Result<(i32, String)> {
    let mut words = line.split_whitespace();
    let program = words.next().context("an empty command")?;
    let output: Output = pair
        .inside(|| Command::new(program).args(words).uid(user).output())?
        .with_context(|| line.to_owned())?;
    let said = [output.stdout, output.stderr].concat();
    let code = output.status.code().context("killed")?;
    Ok((code, String::from_utf8_lossy(&said).into_owned()))
}

/// Each command comes to what it should, and says so.
pub fn commands() -> Result<Outcome> {
    for program in [FATHOM, TC] {
        if !Path::new(program).exists() {
            return Ok(Outcome::Skip(format!("{program} is not in this machine")));
        }
    }
    let pair = Pair::new()?;
    let result = on(&pair);
    // Whatever happened, the next test finds the module as this one did.
    drop(pair);
    let unloaded = super::unload_when_free(MODULE);
    result.and(unloaded)
}

fn on(pair: &Pair) -> Result<()> {
    let check = |user: u32, line: &str, code: i32, says: &[&str]| -> Result<()> {
        let (got, said) = run(pair, user, line)?;
        ensure!(got == code, "`{line}` exits with {got}: {said}");
        for text in says {
            ensure!(
                said.contains(text),
                "`{line}` does not say {text:?}: {said}"
            );
        }
        Ok(())
    };
    // Without the module, and without the kernel's way to load it.
    let modprobe = fs::read_to_string(MODPROBE).context(MODPROBE)?;
    fs::write(MODPROBE, "\n").context(MODPROBE)?;
    let refused = check(
        0,
        "/usr/sbin/fathom tc add a rate 1gbit",
        1,
        &["a: ", "modprobe sch_int"],
    );
    fs::write(MODPROBE, modprobe.trim()).context(MODPROBE)?;
    refused?;
    // With it, the module comes by its alias.
    let add = "/usr/sbin/fathom tc add a rate 1gbit delay 5us limit 1mb int hop-id 3 ecn 65pkt target 1ms rpm 1024";
    check(NOBODY, add, 1, &["CAP_NET_ADMIN"])?;
    check(0, add, 0, &[])?;
    let shown = "a: rate 1gbit delay 5us limit 1mb ecn 98410b int hop-id 3 target 1ms interval 100ms rpm 1024";
    check(
        0,
        "/usr/sbin/fathom tc show",
        0,
        &[shown, "sent ", "CoDel chose 0"],
    )?;
    check(
        0,
        "/usr/sbin/fathom tc show a --json",
        0,
        &["\"hop_id\": 3", "\"rate\": 125000000", "\"rpm_set\": 0"],
    )?;
    check(0, add, 1, &["fathom tc change a"])?;
    check(0, "/usr/sbin/fathom tc change a rate 2gbit int off", 0, &[])?;
    check(
        0,
        "/usr/sbin/fathom tc show a",
        0,
        &["a: rate 2gbit delay 5us", "hop-id 3"],
    )?;
    check(
        0,
        "/usr/sbin/fathom tc change a rate 1bit",
        2,
        &["rate: 1bit is out of bounds", "8kbit"],
    )?;
    check(
        0,
        "/usr/sbin/fathom tc change a speed 1gbit",
        2,
        &["\"speed\" is not a parameter"],
    )?;
    check(
        0,
        "/usr/sbin/fathom tc show nowhere",
        1,
        &["there is no network device \"nowhere\""],
    )?;
    // iproute2 has never heard of it.
    for line in [
        "/usr/sbin/tc qdisc show dev a",
        "/usr/sbin/tc -s qdisc show dev a",
        "/usr/sbin/tc -s -d -j qdisc show",
    ] {
        check(0, line, 0, &["int", "root"])?;
    }
    let (_, said) = run(pair, 0, "/usr/sbin/tc -s qdisc show dev a")?;
    for line in said.lines() {
        println!("# {line}");
    }
    check(0, "/usr/sbin/tc qdisc del dev a root", 0, &[])?;
    check(0, "/usr/sbin/fathom tc del a", 1, &["a is not a port"])?;
    check(0, "/usr/sbin/tc qdisc add dev a root int", 0, &[])?;
    check(0, "/usr/sbin/fathom tc show a", 0, &["a: limit 1mb"])?;
    check(0, "/usr/sbin/fathom tc del a", 0, &[])?;
    Ok(())
}
