// SPDX-License-Identifier: GPL-2.0
//! Which connections carry telemetry, and why one does not.
//!
//! The kernel gives the record of a socket to who has a file descriptor of it. So every process's
//! sockets are looked at in turn, through descriptors of our own (`pidfd_getfd`).

use anyhow::Result;
use aya::maps::{MapData, SkStorage};
use rustix::{
    net::{getpeername, getsockname, sockopt, SocketAddrAny},
    process::{pidfd_getfd, pidfd_open, Pid, PidfdFlags, PidfdGetfdFlags},
};
use serde::Serialize;
use std::{collections::HashSet, fs, net::SocketAddr, os::fd::OwnedFd};
use wire::{
    storage::{self, SIZE},
    Format, Reason, Storage,
};

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// No record at all.
    None,
    /// Offered, and not agreed upon.
    Off,
    /// The handshake is under way, or the peer has not sent an option yet.
    Waiting,
    /// Agreed.
    On,
}

/// One connection.
#[derive(Clone, Debug, Serialize)]
pub struct Flow {
    /// Whose it is.
    pub pid: i32,
    /// Its command.
    pub command: String,
    /// This end.
    pub local: SocketAddr,
    /// The other.
    pub remote: SocketAddr,
    /// Its congestion control.
    pub congestion_control: String,
    /// How far it has come.
    pub state: State,
    /// `mpd`, `bottleneck` or `stack`.
    pub format: Option<&'static str>,
    /// Samples that came back.
    pub samples: u32,
    /// Options that came.
    pub options: u32,
    /// Options sent.
    pub written: u32,
    /// Options that were malformed.
    pub malformed: u32,
    /// Segments that had no room for one.
    pub no_room: u32,
    /// Routers on the path to here, when known.
    pub routers: Option<u8>,
    /// Why it carries none, or what is missing.
    pub why: Option<&'static str>,
}

/// All TCP connections of all processes that we may look into.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn flows(map: Option<&SkStorage<MapData, [u8; SIZE]>>) -> Result<Vec<Flow>> {
    let (mut all, mut seen) = (vec![], HashSet::new());
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // Processes come and go; what is gone has no connections.
        let _ = of_process(pid, map, &mut seen, &mut all);
    }
    all.sort_by_key(|flow| (flow.local, flow.remote));
    Ok(all)
}

fn of_process(
    pid: i32,
    map: Option<&SkStorage<MapData, [u8; SIZE]>>,
    seen: &mut HashSet<String>,
    all: &mut Vec<Flow>,
) -> Result<()> {
    let Some(raw) = Pid::from_raw(pid) else {
        return Ok(());
    };
    let process = pidfd_open(raw, PidfdFlags::empty())?;
    let command = fs::read_to_string(format!("/proc/{pid}/comm"))?
        .trim()
        .to_owned();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let entry = entry?;
        let Ok(target) = fs::read_link(entry.path()) else {
            continue;
        };
        let name = target.to_string_lossy().into_owned();
        if !name.starts_with("socket:") || !seen.insert(name) {
            continue;
        }
        let Some(fd) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let Ok(socket) = pidfd_getfd(&process, fd, PidfdGetfdFlags::empty()) else {
            continue;
        };
        if let Some(flow) = of_socket(pid, &command, &socket, map) {
            all.push(flow);
        }
    }
    Ok(())
}

fn address(any: SocketAddrAny) -> Option<SocketAddr> {
    SocketAddr::try_from(any).ok()
}

fn of_socket(
    pid: i32,
    command: &str,
    socket: &OwnedFd,
    map: Option<&SkStorage<MapData, [u8; SIZE]>>,
) -> Option<Flow> {
    let congestion_control = sockopt::tcp_congestion(socket).ok()?;
    let remote = address(getpeername(socket).ok()??)?;
    let local = address(getsockname(socket).ok()?)?;
    let record = map
        .and_then(|map| map.get(socket, 0).ok())
        .map_or(Storage::ZERO, |bytes| Storage::from_bytes(&bytes));
    let counters = &record.counters;
    let state = match storage::State::from_code(record.head.state) {
        _ if record.head.version == 0 => State::None,
        storage::State::Off => State::Off,
        storage::State::Offered | storage::State::Answered => State::Waiting,
        storage::State::On => State::On,
    };
    let why = match state {
        State::None => Some("neither end asked for it: opened before attach, or out of its scope"),
        State::Off => {
            Some("the peer did not answer the offer, or something on the path removed it")
        }
        State::Waiting => Some("agreed, and no option of the peer has arrived yet"),
        State::On if counters.options == 0 => {
            Some("no option arrives: something on the path removes it")
        }
        State::On if counters.samples == 0 => Some("no hop writes, or this end has sent no data"),
        State::On => None,
    };
    Some(Flow {
        pid,
        command: command.to_owned(),
        local,
        remote,
        congestion_control,
        state,
        format: Format::from_code(record.head.format).map(|format| match format {
            Format::Mpd => "mpd",
            Format::Bottleneck => "bottleneck",
            Format::Stack => "stack",
        }),
        samples: counters.samples,
        options: counters.options,
        written: counters.written,
        malformed: counters.malformed(),
        no_room: counters.reasons[Reason::NO_ROOM.index()],
        routers: record.path.checked_sub(1),
        why,
    })
}
