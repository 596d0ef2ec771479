// SPDX-License-Identifier: GPL-2.0
//! Boots the stock kernel in QEMU and runs the selftests.

use crate::{children, initramfs::Initramfs, ktap::Summary, paths::Paths, Outcome};
use anyhow::{bail, ensure, Context as _, Result};
use clap::Parser;
use std::{
    fs::{self, OpenOptions},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// Arguments of `fathom vm`.
#[derive(Parser)]
pub struct Args {
    /// How the machine is run; auto boots with KVM when that works, and without when not.
    #[arg(long, value_enum, default_value = "auto")]
    accel: Accel,
    /// What to run in it.
    #[arg(long, value_enum, default_value = "selftest")]
    run: Role,
    /// For the soak: how long new connections are opened, for each law.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// For the soak: connections at a time.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    connections: u64,
    /// For the soak: laws, separated by commas; all when not given.
    #[arg(long, default_value = "")]
    cc: String,
    /// End the machine after this many seconds; 900 when not given, more for a soak.
    #[arg(long)]
    timeout_s: Option<u64>,
    /// Write the whole console here.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Role {
    /// The selftests.
    Selftest,
    /// What telemetry costs.
    BenchInt,
    /// What congestion controls cost; by `fathom bench-kmod`.
    #[value(skip)]
    BenchKmod,
    /// Many connections over a bad path, for long.
    Soak,
}

impl Role {
    /// What asks for it on the kernel's command line.
    fn argument(self) -> String {
        let name = match self {
            Self::Selftest => "selftest",
            Self::BenchInt => "bench-int",
            Self::BenchKmod => "bench-kmod",
            Self::Soak => "soak",
        };
        format!("fathom.role={name}")
    }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Accel {
    Auto,
    Kvm,
    Tcg,
}

/// With KVM the kernel is up in two seconds; one that says nothing for this long never will.
const KVM_PATIENCE: Duration = Duration::from_secs(20);
/// The first thing init prints.
const UP: &str = "KTAP version";

/// What the machine boots from, in `dir`.
fn initramfs(paths: &Paths, dir: &Path) -> Result<PathBuf> {
    let initramfs = dir.join("initramfs");
    let mut archive = Initramfs::create(&initramfs)?;
    archive.file("init", &paths.init())?;
    archive
        .file(int::OBJECT, &paths.bpf())
        .context("run `make tools` first")?;
    archive
        .tree("", &paths.vm_root())
        .context("run `make vm` first")?;
    // This very command, static as it is.
    archive.file("usr/sbin/fathom", &std::env::current_exe()?)?;
    archive.finish()?;
    Ok(initramfs)
}

/// Boots one CPU without KVM, with a plugin of QEMU's that writes to `out`, and runs the traffic of
/// `fathom bench-kmod`; the console.
pub fn bench(paths: &Paths, plugin: &Path, out: &Path) -> Result<Vec<String>> {
    let dir = paths.run_dir()?;
    let initramfs = initramfs(paths, dir.path())?;
    let plugin = format!("{},out={}", plugin.display(), out.display());
    let (role, limit) = (Role::BenchKmod, Duration::from_secs(900));
    let arguments = role.argument();
    let console = boot(
        paths,
        &initramfs,
        (role, &arguments),
        Accel::Tcg,
        limit,
        Some(&plugin),
    )?;
    let summary = Summary::of(console.iter().map(String::as_str));
    ensure!(
        summary.failed == 0 && summary.passed != 0,
        "the traffic failed"
    );
    Ok(console)
}

/// Runs `fathom vm`.
pub fn run(args: &Args) -> Result<Outcome> {
    let paths = Paths::find()?;
    let dir = paths.run_dir()?;
    let initramfs = initramfs(&paths, dir.path())?;
    // Five laws, each with a minute to start and two to end.
    let limit = match args.run {
        Role::Soak => 5 * (args.seconds + 180),
        _ => 900,
    };
    let limit = Duration::from_secs(args.timeout_s.unwrap_or(limit));
    let mut arguments = args.run.argument();
    if let Role::Soak = args.run {
        let (seconds, connections, cc) = (args.seconds, args.connections, &args.cc);
        arguments += &format!(" fathom.seconds={seconds} fathom.connections={connections}");
        if !cc.is_empty() {
            arguments += &format!(" fathom.cc={cc}");
        }
    }
    let job = (args.run, arguments.as_str());
    let mut console = None;
    if args.accel != Accel::Tcg && (args.accel == Accel::Kvm || kvm_is_there()) {
        match boot(&paths, &initramfs, job, Accel::Kvm, limit, None) {
            Ok(lines) => console = Some(lines),
            Err(e) if args.accel == Accel::Kvm => return Err(e),
            Err(e) => println!("# KVM cannot be used here ({e:#}); running without"),
        }
    }
    let console = match console {
        Some(lines) => lines,
        None => boot(&paths, &initramfs, job, Accel::Tcg, limit, None)?,
    };
    if let Some(log) = &args.log {
        fs::write(log, console.join("\n")).with_context(|| log.display().to_string())?;
    }
    let summary = Summary::of(console.iter().map(String::as_str));
    println!(
        "# {} passed, {} failed, {} skipped",
        summary.passed, summary.failed, summary.skipped
    );
    Ok(if summary.failed == 0 {
        Outcome::Ok
    } else {
        Outcome::Failed
    })
}

fn kvm_is_there() -> bool {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/kvm")
        .is_ok()
}

/// Boots and returns the console's lines, printing those of the tests as they come.
fn boot(
    paths: &Paths,
    initramfs: &Path,
    (role, arguments): (Role, &str),
    accel: Accel,
    limit: Duration,
    plugin: Option<&str>,
) -> Result<Vec<String>> {
    // The clock counts instructions, one a nanosecond, and idle times are skipped: how busy the machine beneath
    // is does not show in round-trip times. Two CPUs then take turns, which is no measure of throughput, and
    // minutes of work take many.
    let counted = accel == Accel::Tcg && matches!(role, Role::Selftest | Role::BenchKmod);
    let (accelerator, cpu) = match accel {
        Accel::Kvm => ("kvm", "host"),
        _ if counted => ("tcg,thread=single", "max"),
        _ => ("tcg,thread=multi", "max"),
    };
    // The script execs its way to QEMU, so this is QEMU's own process.
    let mut command = Command::new(paths.enter()?);
    command
        .args([
            "qemu-system-x86_64",
            "-accel",
            accelerator,
            "-cpu",
            cpu,
            "-smp",
            if plugin.is_some() { "1" } else { "2" },
            "-m",
            "1G",
        ])
        .args([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
            "-serial",
            "stdio",
        ])
        .arg("-kernel")
        .arg(paths.stock_kernel()?)
        .arg("-initrd")
        .arg(initramfs)
        .args([
            "-append",
            &format!("console=ttyS0 quiet panic=-1 rdinit=/init {arguments}"),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if counted {
        command.args(["-icount", "shift=0,sleep=off"]);
    }
    if let Some(plugin) = plugin {
        command.args(["-plugin", plugin]);
    }
    let mut machine = children::start(&mut command).context("start QEMU")?;
    let (sender, lines) = mpsc::channel();
    for pipe in [
        machine
            .0
            .stdout
            .take()
            .map(|p| Box::new(p) as Box<dyn std::io::Read + Send>),
        machine
            .0
            .stderr
            .take()
            .map(|p| Box::new(p) as Box<dyn std::io::Read + Send>),
    ] {
        let (pipe, sender) = (pipe.context("QEMU's output")?, sender.clone());
        thread::spawn(move || {
            for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
    }
    drop(sender);

    let start = Instant::now();
    let mut console: Vec<String> = Vec::new();
    let mut up = false;
    loop {
        match lines.recv_timeout(Duration::from_millis(200)) {
            Ok(line) => {
                up |= line.contains(UP);
                if up {
                    println!("{line}");
                }
                if line.contains("KVM internal error") {
                    bail!("{line}");
                }
                console.push(line);
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
        if !up && accel == Accel::Kvm && start.elapsed() > KVM_PATIENCE {
            bail!("no sign of life within {} s", KVM_PATIENCE.as_secs());
        }
        if start.elapsed() > limit {
            bail!("the machine did not end within {} s", limit.as_secs());
        }
    }
    if !up {
        let last: Vec<&str> = console
            .iter()
            .rev()
            .take(10)
            .rev()
            .map(String::as_str)
            .collect();
        bail!(
            "the machine ended before the tests began: {}",
            last.join(" | ")
        );
    }
    Ok(console)
}
