// SPDX-License-Identifier: GPL-2.0
//! `/dev/fathom_int`: handing the map to the kernel module `tcp_int`.

use anyhow::{bail, Context as _, Result};
use aya::maps::MapData;
use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Read as _, Write as _},
    os::fd::{AsFd as _, AsRawFd as _},
};
use wire::bind::{Header, Seen, DEVICE};

/// The open device.
pub struct Device(File);

/// What the device says.
pub struct Log {
    /// The id of the map that the module holds; 0 = none.
    pub map_id: u32,
    /// Samples that found the log full.
    pub lost: u32,
    /// Samples that laws took.
    pub seen: Vec<Seen>,
}

impl Device {
    /// Opens it.
    ///
    /// # Errors
    /// Without the module, or without the right to.
    pub fn open() -> Result<Self> {
        match OpenOptions::new().read(true).write(true).open(DEVICE) {
            Ok(file) => Ok(Self(file)),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                bail!("{DEVICE} is not there: the module tcp_int is not loaded (try: modprobe tcp_int)")
            }
            Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                bail!("{DEVICE}: {e}: this needs root, or CAP_NET_ADMIN and the right to open it")
            }
            Err(e) => Err(e).context(DEVICE),
        }
    }

    fn tell(&mut self, command: &str) -> std::io::Result<()> {
        let n = self.0.write(command.as_bytes())?;
        debug_assert_eq!(n, command.len());
        Ok(())
    }

    /// Gives the module a map, in place of another only when `replace`.
    ///
    /// # Errors
    /// When the module has one already, or does not take this one.
    pub fn bind(&mut self, map: &MapData, replace: bool) -> Result<()> {
        let fd = map.fd().as_fd().as_raw_fd();
        let verb = if replace { "replace" } else { "bind" };
        match self.tell(&format!("{verb} {fd}")) {
            Ok(()) => Ok(()),
            Err(e) if e.raw_os_error() == Some(nix::libc::EBUSY) => {
                bail!("tcp_int holds another map already (try: fathom detach, or attach with --replace)")
            }
            Err(e) if e.raw_os_error() == Some(nix::libc::EPROTO) => {
                bail!("tcp_int and the eBPF programs are of different versions: their socket records differ in size")
            }
            Err(e) => Err(e).context("handing the map to tcp_int"),
        }
    }

    /// Takes the map back. False when there was none.
    ///
    /// # Errors
    /// What the device says.
    pub fn unbind(&mut self) -> Result<bool> {
        match self.tell("unbind") {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e).context("taking the map back from tcp_int"),
        }
    }

    /// Has so many samples logged, a power of two; 0 = none.
    ///
    /// # Errors
    /// What the device says.
    pub fn log(&mut self, records: u32) -> Result<()> {
        self.tell(&format!("log {records}"))
            .with_context(|| format!("a log of {records} samples"))
    }

    /// Reads all that was logged so far, and forgets it.
    ///
    /// # Errors
    /// What the device says.
    pub fn read() -> Result<Log> {
        let mut bytes = vec![];
        let mut file = Self::open()?.0;
        let mut chunk = vec![0; Header::LEN + 1024 * Seen::LEN];
        loop {
            match file.read(&mut chunk)? {
                0 => break,
                n => bytes.extend_from_slice(&chunk[..n]),
            }
        }
        let Some((header, records)) = bytes.split_first_chunk() else {
            bail!("{DEVICE} gave no header");
        };
        let header = Header::parse(*header);
        let (records, _) = records.as_chunks::<{ Seen::LEN }>();
        Ok(Log {
            map_id: header.map_id,
            lost: header.lost,
            seen: records.iter().filter_map(Seen::parse).collect(),
        })
    }
}
