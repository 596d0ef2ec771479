// SPDX-License-Identifier: GPL-2.0
//! Runs a plan in the lab: the User-mode Linux kernel, started on an initramfs of our own, with a clock
//! that jumps from event to event.

use crate::{children, initramfs::Initramfs, paths::Paths};
use anyhow::{bail, Context as _, Result};
use plan::{Answer, Plan};
use std::{
    collections::HashSet,
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Memory of the lab.
const MEMORY: &str = "mem=1G";
/// A lab that takes longer in real time hangs.
const LIMIT: Duration = Duration::from_secs(600);

/// The ordinary kernel: errors on the console. Socket storage is allocated without locks, which on UML only
/// debug caches can do.
const PLAIN: &[&str] = &["loglevel=4", "slab_debug=F,kmalloc-*"];
/// The debug kernel: warnings too, and all that KASAN finds. All its caches are debug caches.
const DEBUG: &[&str] = &["loglevel=5", "kasan_multi_shot"];
/// Lines shown of the first complaint.
const REPORT: usize = 60;

/// What makes the modules of the lab's kernel.
fn make(paths: &Paths) -> &'static str {
    if paths.debug() {
        "lab-debug"
    } else {
        "modules"
    }
}

/// Runs `plan` and returns the lab's answer. `tell` is told the part that is done, and says whether to go on.
pub fn run(paths: &Paths, plan: &Plan, tell: &mut dyn FnMut(f64) -> bool) -> Result<Answer> {
    let dir = paths.run_dir()?;
    let modules: Vec<&str> = plan.modules.iter().map(|m| m.name.as_str()).collect();
    let plan = serde_json::to_vec(plan)?;
    let said = boot(paths, dir.path(), "lab", &modules, Some(&plan), &[], tell)?;
    silent(paths, &said)?;
    if let Some(error) = said.lines().find(|l| l.starts_with("fathom-init:")) {
        bail!("{error}");
    }
    let answer = dir.path().join(plan::ANSWER_FILE);
    if !answer.exists() {
        let last: Vec<&str> = said.lines().rev().take(20).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        bail!(
            "the lab ended without an answer; the end of its console:\n{}",
            last.join("\n")
        );
    }
    serde_json::from_slice(&fs::read(&answer)?).context("the lab's answer")
}

/// Runs the tests of a role (see selftests/init), with `arguments` on the kernel's command line, and returns
/// what they print.
pub fn suite(paths: &Paths, role: &str, modules: &[&str], arguments: &[&str]) -> Result<String> {
    let dir = paths.run_dir()?;
    let said = boot(
        paths,
        dir.path(),
        role,
        modules,
        None,
        arguments,
        &mut |_| true,
    )?;
    silent(paths, &said)?;
    Ok(said)
}

/// Loads a module that does something wrong, and returns what is on the console.
pub fn fault(paths: &Paths, module: &str, parameters: &str) -> Result<String> {
    let dir = paths.run_dir()?;
    let argument = format!("fathom.fault={module},{parameters}");
    boot(
        paths,
        dir.path(),
        "fault",
        &[module],
        None,
        &[&argument],
        &mut |_| true,
    )
}

/// What a debug kernel complains of once it is up. User-mode Linux's own start is not without fault: its
/// console allocates memory under a lock when it is a file.
pub fn complaints(console: &str) -> Vec<&str> {
    let up = console.find(plan::UP).unwrap_or(0);
    plan::complaints(&console[up..])
}

/// A debug kernel must not have complained.
fn silent(paths: &Paths, console: &str) -> Result<()> {
    if !paths.debug() {
        return Ok(());
    }
    let complaints = complaints(console);
    let Some(first) = complaints.first() else {
        return Ok(());
    };
    let lines: Vec<&str> = console.lines().map(str::trim_end).collect();
    let at = lines.iter().position(|l| l.contains(first.trim_end()));
    let at = at.unwrap_or(0);
    bail!(
        "the debug kernel complains {} times, first:\n{}",
        complaints.len(),
        lines[at.saturating_sub(3)..(at + REPORT).min(lines.len())].join("\n")
    )
}

/// Boots the lab in `dir` and returns its console when it has ended.
fn boot(
    paths: &Paths,
    dir: &Path,
    role: &str,
    modules: &[&str],
    plan: Option<&[u8]>,
    arguments: &[&str],
    tell: &mut dyn FnMut(f64) -> bool,
) -> Result<String> {
    let initramfs = dir.join("initramfs");
    let mut archive = Initramfs::create(&initramfs)?;
    archive.file("init", &paths.init())?;
    archive
        .file(int::OBJECT, &paths.bpf())
        .context("run `make tools` first")?;
    archive.dir(plan::MODULE_DIR.trim_start_matches('/'))?;
    let mut modules: Vec<String> = modules.iter().map(|m| (*m).to_owned()).collect();
    let mut added = HashSet::new();
    while let Some(module) = modules.pop() {
        if !added.insert(module.clone()) {
            continue;
        }
        let name = format!("{module}.ko");
        let mut from = paths.lab_modules().join(&name);
        if role == "fault" {
            from = paths.fault_modules().join(&name);
        }
        let file = format!("{}/{name}", plan::MODULE_DIR.trim_start_matches('/'));
        archive
            .file(&file, &from)
            .with_context(|| format!("run `make {}` first", make(paths)))?;
        modules.extend(plan::depends(&fs::read(from)?));
    }
    if let Some(plan) = plan {
        archive.data(plan::PLAN_FILE.trim_start_matches('/'), plan)?;
    }
    archive.finish()?;

    let console = dir.join("console");
    let kernel = paths.lab_kernel()?;
    let mut command = Command::new(&kernel);
    command
        .args([
            MEMORY,
            "time-travel=inf-cpu",
            "con=null",
            "con0=null,fd:1",
            "rdinit=/init",
        ])
        .args(if paths.debug() { DEBUG } else { PLAIN })
        .args(arguments)
        .args(["random.trust_bootloader=on", &format!("fathom.role={role}")])
        .arg(format!("initrd={}", initramfs.display()))
        .arg(format!("fathom.out={}", dir.display()))
        .arg(format!("uml_dir={}", dir.display()))
        .stdin(Stdio::null())
        .stdout(fs::File::create(&console)?)
        .stderr(Stdio::null());
    let mut running = children::start(&mut command).with_context(|| {
        format!(
            "start the lab's kernel {}: run `make {}` first",
            kernel.display(),
            if paths.debug() { "lab-debug" } else { "setup" }
        )
    })?;
    let limit = if paths.debug() { 4 * LIMIT } else { LIMIT };
    let deadline = Instant::now() + limit;
    while running.0.try_wait().context("wait for the lab")?.is_none() {
        if Instant::now() > deadline {
            bail!("the lab did not end within {} s", limit.as_secs());
        }
        let progress = fs::read_to_string(dir.join(plan::PROGRESS_FILE)).unwrap_or_default();
        let thousandths: f64 = progress.trim().parse().unwrap_or(0.0);
        if !tell(thousandths / 1000.0) {
            bail!("interrupted");
        }
        thread::sleep(Duration::from_millis(20));
    }
    let said = fs::read(&console).unwrap_or_default();
    Ok(String::from_utf8_lossy(&said).into_owned())
}
