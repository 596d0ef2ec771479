// SPDX-License-Identifier: GPL-2.0
//! The selftests that run on the stock kernel in the VM.

mod behave;
mod codel;
pub mod data;
mod flows;
mod frame;
mod lifecycle;
pub mod line;
mod params;
mod people;
mod port;
mod rpm;
mod select;
mod stamp;
mod switch;
pub mod telemetry;
mod trace;

use crate::{
    ktap::{self, Outcome, Test},
    modules,
};
use anyhow::{ensure, Context as _, Result};
use std::{fs, process::ExitCode};

/// The congestion controls under test.
pub const CCS: [&str; 5] = ["theta_powertcp", "powertcp", "poseidon", "hpcc", "swift"];

/// The module that brings a congestion control.
pub fn module(cc: &str) -> String {
    format!("tcp_{cc}")
}

/// Runs a test for each of them.
fn each(test: impl Fn(&str) -> Result<()>) -> Result<Outcome> {
    for cc in CCS {
        test(cc).with_context(|| cc.to_owned())?;
    }
    Ok(Outcome::Pass)
}

const TESTS: &[Test] = &[
    ("modules_load_and_are_listed", || each(lifecycle::loads)),
    ("bad_parameters_refused", lifecycle::bad_parameters),
    ("autoloaded_by_sysctl", || each(select::autoload)),
    ("sysctl_is_per_netns", || each(select::per_netns)),
    ("unprivileged_only_when_allowed", select::unprivileged),
    ("data_intact_ipv4", || each(data::ipv4)),
    ("data_intact_ipv6", data::ipv6),
    ("switched_on_a_live_socket", data::switched),
    ("unload_refused_while_in_use", || each(lifecycle::in_use)),
    ("parameters_change_at_run_time", || each(params::change)),
    ("decisions_can_be_traced", || each(trace::decisions)),
    ("trace_is_for_one_administrator", trace::guarded),
    ("port_carries_data", port::carries_data),
    ("port_refuses_bad_options", port::refuses_bad_options),
    ("port_writes_telemetry", stamp::formats),
    ("port_by_command", people::commands),
    ("codel_drops_without_ecn", codel::drops_without_ecn),
    ("ports_removed_in_any_order", rpm::removed_in_any_order),
    ("vectors_through_xdp", telemetry::vectors),
    ("telemetry_is_carried", telemetry::carried),
    ("telemetry_with_fast_open", telemetry::fast_open),
    ("telemetry_scoped_by_cgroup", telemetry::scoped),
    ("telemetry_commands", telemetry::commands),
    ("telemetry_refuses_bad_maps", telemetry::bad_binds),
    ("telemetry_detached_in_any_order", telemetry::outlived),
    ("load_unload_200_times_without_leak", lifecycle::cycles),
    ("soak_in_brief", crate::soak::brief),
    ("kernel_log_is_clean", log_is_clean),
];

/// What the kernel does to a congestion control in a connection's life, for the lab.
const MODULE_TESTS: &[Test] = &[
    ("modules_load_and_are_listed", || each(lifecycle::loads)),
    ("parameters_change_at_run_time", || each(params::change)),
    ("parameters_are_per_netns", params::per_netns),
    ("connections_keep_their_parameters", params::kept),
    ("versions_of_parameters_are_bounded", params::bounded),
    ("decisions_can_be_traced", || each(trace::decisions)),
    ("telemetry_leaves_segments_full_size", trace::full_size),
    ("ss_shows_the_law", || each(behave::info)),
    ("data_intact_through_loss", || each(behave::loss)),
    ("ecn_is_answered", || each(behave::ecn)),
    ("unused_window_does_not_grow", || each(behave::unused)),
    ("fast_open", || each(behave::fast_open)),
    ("mtu_and_route_change", || each(behave::path_change)),
    ("idle_restart", || each(behave::idle)),
    ("accepted_and_listening_sockets", || each(behave::accepted)),
    ("switched_on_a_live_socket", data::switched),
    ("kernel_log_is_clean", log_is_clean),
];

/// Runs the tests of the modules.
pub fn run_modules() -> Result<()> {
    // Virtual time begins at zero, and TCP takes a packet sent at zero for one that was never sent.
    std::thread::sleep(std::time::Duration::from_millis(10));
    ktap::run(MODULE_TESTS);
    Ok(())
}

/// Those of the software switch port, for the lab: where time is virtual, a burst is one. What CoDel chooses
/// of it is only known there, so reverse path marking is tested there alone.
const PORT_TESTS: &[Test] = &[
    ("port_writes_telemetry", stamp::formats),
    ("codel_marks_by_the_law", codel::marks_by_the_law),
    ("codel_drops_without_ecn", codel::drops_without_ecn),
    ("rpm_marks_acks", rpm::marks_acks),
    ("rpm_marks_forward_when_full", rpm::marks_forward_when_full),
    ("rpm_shared_by_a_namespace", rpm::shared_by_a_namespace),
    ("ports_removed_in_any_order", rpm::removed_in_any_order),
    ("queue_near_target", flows::queue_near_target),
];

/// Telemetry from the wire into the law, in the lab: where nothing else happens, every packet can be
/// accounted for.
const TELEMETRY_TESTS: &[Test] = &[
    // First: flows of the others live until the lab ends.
    ("vectors_through_xdp", telemetry::vectors),
    ("refuses_bad_maps", telemetry::bad_binds),
    ("detached_in_any_order", telemetry::outlived),
    ("every_sample_is_what_the_hops_had", telemetry::exact),
    ("also_with_loss_reordering_duplicates", telemetry::lossy),
    ("also_when_the_path_changes", telemetry::detour),
    ("also_with_a_hop_that_does_not_write", telemetry::gap),
    ("tc_feeds_as_well", telemetry::tc_feeds),
    ("absent_for_a_while", telemetry::absent_for_a_while),
    ("falls_back_without_agreement", telemetry::falls_back),
    ("hostile_peer", telemetry::hostile),
];

/// Runs the tests of telemetry.
pub fn run_telemetry() -> Result<()> {
    ktap::run(TELEMETRY_TESTS);
    Ok(())
}

/// Runs the tests of the port.
pub fn run_port() -> Result<()> {
    ktap::run(PORT_TESTS);
    Ok(())
}

/// Runs them all.
pub fn run() -> Result<()> {
    ktap::run(TESTS);
    Ok(())
}

/// The half of a test that runs as another user: exit code 0 is success.
pub fn as_user(command: &str, args: &[String]) -> ExitCode {
    let result = match (command, args) {
        ("choose", [cc]) => select::choose(cc),
        ("open", [path]) => fs::File::open(path).map(drop).map_err(Into::into),
        _ => Err(anyhow::anyhow!("unknown command {command}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e:#}");
            ExitCode::FAILURE
        }
    }
}

/// Unloads a module whose last user has just gone: a socket may be in FIN_WAIT for a moment, and a
/// namespace is cleaned up by a work item.
pub fn unload_when_free(module: &str) -> Result<Outcome> {
    for _ in 0..100 {
        if modules::unload(module).is_ok() {
            return Ok(Outcome::Pass);
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    anyhow::bail!("{module} is still in use 10 s after its last user has gone")
}

/// The kernel's log so far.
pub fn kernel_log() -> Result<String> {
    use std::{io::Read as _, os::unix::fs::OpenOptionsExt as _};
    let mut file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/kmsg")?;
    let mut log = String::new();
    let mut record = [0; 8192];
    // One record a read, until there is none.
    while let Ok(n) = file.read(&mut record) {
        log.push_str(&String::from_utf8_lossy(&record[..n]));
    }
    Ok(log)
}

/// Reads a sysctl of this namespace.
pub fn sysctl(name: &str) -> Result<String> {
    let path = format!("/proc/sys/{name}");
    Ok(fs::read_to_string(&path).context(path)?.trim().to_owned())
}

/// Writes a sysctl of this namespace.
pub fn set_sysctl(name: &str, value: &str) -> Result<()> {
    let path = format!("/proc/sys/{name}");
    fs::write(&path, value).with_context(|| format!("{path}={value}"))
}

/// No test may leave a warning, an oops or a complaint of the kernel's checks behind.
pub fn log_is_clean() -> Result<Outcome> {
    let log = kernel_log()?;
    ensure!(
        log.contains("Linux version"),
        "the kernel's log could not be read from its start"
    );
    let found = plan::complaints(&log);
    ensure!(
        found.is_empty(),
        "in the kernel's log:\n{}",
        found.join("\n")
    );
    Ok(Outcome::Pass)
}
