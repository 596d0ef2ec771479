// SPDX-License-Identifier: GPL-2.0
//! What process 1 does before and after everything else.

use anyhow::{Context as _, Result};
use nix::{
    mount::{mount, MsFlags},
    sys::reboot::{reboot, RebootMode},
};
use std::fs;

/// Mounts the file systems of the kernel, and cgroup2 where the kernel has it.
pub fn mounts() -> Result<()> {
    for (what, at, needed) in [
        ("proc", "/proc", true),
        ("sysfs", "/sys", true),
        ("devtmpfs", "/dev", true),
        ("tmpfs", "/tmp", true),
        ("cgroup2", "/sys/fs/cgroup", false),
        ("debugfs", "/sys/kernel/debug", false),
        ("bpf", "/sys/fs/bpf", false),
    ] {
        fs::create_dir_all(at).ok();
        let mounted = mount(Some(what), at, Some(what), MsFlags::empty(), None::<&str>);
        if needed {
            mounted.with_context(|| format!("mount {what} on {at}"))?;
        }
    }
    Ok(())
}

/// Sleeps end when they should: by default Linux may be 50 us late, which in the lab is two round trips.
/// Threads inherit it.
pub fn exact_sleeps() -> Result<()> {
    nix::sys::prctl::set_timerslack(1).context("PR_SET_TIMERSLACK")
}

/// The value of `name=` on the kernel's command line.
pub fn argument(name: &str) -> Option<String> {
    let line = fs::read_to_string("/proc/cmdline").ok()?;
    line.split_whitespace()
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        .map(str::to_owned)
}

/// Where a debug kernel tells of memory that nobody points to any more.
const KMEMLEAK: &str = "/sys/kernel/debug/kmemleak";

/// On a debug kernel, says that its checks are about us from here on.
pub fn up() {
    if std::path::Path::new(KMEMLEAK).exists() {
        println!("{}", plan::UP);
    }
}

/// On a debug kernel, prints what was leaked; whoever started the machine reads its console.
pub fn leaks() {
    if !std::path::Path::new(KMEMLEAK).exists() {
        return;
    }
    // An object counts when it is 5 s old, and when a second look does not find it either.
    for _ in 0..3 {
        std::thread::sleep(std::time::Duration::from_secs(6));
        fs::write(KMEMLEAK, "scan").ok();
    }
    match fs::read_to_string(KMEMLEAK) {
        Ok(found) => print!("{found}"),
        Err(e) => println!("fathom-init: error: {KMEMLEAK}: {e}"),
    }
}

/// Ends the machine. Everything that was written is on the host already.
pub fn power_off() -> ! {
    use std::io::Write as _;
    std::io::stdout().flush().ok();
    nix::unistd::sync();
    // Cannot fail for process 1; should it return all the same, the kernel panics and the host sees that.
    reboot(RebootMode::RB_POWER_OFF).ok();
    std::process::exit(1)
}
