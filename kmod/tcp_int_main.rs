// SPDX-License-Identifier: GPL-2.0
//! `tcp_int`: holds the BPF socket-storage map in which eBPF leaves the network's telemetry, so that the
//! congestion controls find the record of their socket.
//!
//! One map for the whole machine, handed over through `/dev/fathom_int` by a process with
//! `CAP_NET_ADMIN`. It stays until it is taken back, replaced, or the module goes; the process that gave
//! it may exit. A law that finds no record, or no fresh sample in it, falls back; so nothing that is
//! detached, deleted or unloaded in any order does more than that. Modules that read the map depend on
//! this one and so keep it loaded.
//!
//! For tests and for the curious it can log each sample that a law took.
//!
//! | written to the device | does |
//! |---|---|
//! | `bind FD` | takes the map of this file descriptor of the writer; `EBUSY` when there is one |
//! | `replace FD` | the same, in place of another |
//! | `unbind` | lets go of it |
//! | `log N` | logs N samples, a power of two; 0 = none |
//!
//! Reading gives a header, then the records of the log (`wire::bind`).

use kernel::{prelude::*, uaccess::UserSliceWriter};

mod kapi;
#[allow(unused_imports, unreachable_pub)] // a crate in its own right
#[path = "../wire/src/lib.rs"]
mod wire;

use kapi::{
    device::{self, Registration},
    int_map,
};
use wire::bind::{Command, Header, Seen};

module! {
    type: Module,
    name: "tcp_int",
    authors: ["The Fathom authors"],
    description: "in-band telemetry for TCP: binds the eBPF socket storage to the congestion controls",
    license: "GPL",
}

struct Device;

impl device::Device for Device {
    const NAME: &'static CStr = c"fathom_int";

    fn open() -> Result {
        if int_map::may_bind() {
            Ok(())
        } else {
            Err(EPERM)
        }
    }

    fn write(command: &[u8]) -> Result {
        match Command::parse(command).ok_or(EINVAL)? {
            Command::Bind { fd, replace } => {
                let id = int_map::bind(fd, replace)?;
                pr_info!("telemetry from map {}\n", id);
            }
            Command::Unbind => {
                int_map::unbind()?;
                pr_info!("no telemetry any more\n");
            }
            Command::Log(records) => int_map::log(records)?,
        }
        Ok(())
    }

    fn read(at: u64, to: &mut UserSliceWriter) -> Result {
        if at == 0 && to.len() >= Header::LEN {
            let header = Header {
                map_id: int_map::id(),
                lost: int_map::lost(),
            };
            to.write_slice(&header.bytes())?;
        }
        while to.len() >= Seen::LEN {
            let mut record = [[0; Seen::LEN]];
            if int_map::read_log(&mut record) == 0 {
                break;
            }
            to.write_slice(record.as_flattened())?;
        }
        Ok(())
    }
}

struct Module {
    _device: Registration<Device>,
}

impl kernel::Module for Module {
    fn init(module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _device: Registration::new(module)?,
        })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // No law can be looking (they depend on this module), and nobody holds the device open (that
        // keeps the module, too).
        let _ = int_map::unbind();
        let _ = int_map::log(0);
    }
}
