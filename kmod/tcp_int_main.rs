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

use kernel::{
    fs::File,
    miscdevice::{MiscDevice, MiscDeviceOptions, MiscDeviceRegistration},
    prelude::*,
    uaccess::{UserPtr, UserSlice},
};

mod kapi;
#[allow(unused_imports, unreachable_pub)] // a crate in its own right
#[path = "../wire/src/lib.rs"]
mod wire;

use kapi::int_map;
use wire::bind::{self, Seen};

module! {
    type: Module,
    name: "tcp_int",
    authors: ["The Fathom authors"],
    description: "in-band telemetry for TCP: binds the eBPF socket storage to the congestion controls",
    license: "GPL",
}

struct Device;

#[vtable]
impl MiscDevice for Device {
    type Ptr = ();

    fn open(_file: &File, _misc: &MiscDeviceRegistration<Self>) -> Result {
        if !int_map::may_bind() {
            return Err(EPERM);
        }
        Ok(())
    }

    fn ioctl(_device: (), _file: &File, command: u32, argument: usize) -> Result<isize> {
        match command {
            bind::BIND | bind::REPLACE => {
                let fd = i32::try_from(argument).map_err(|_| EBADF)?;
                let id = int_map::bind(fd, command == bind::REPLACE)?;
                pr_info!("telemetry from map {}\n", id);
                Ok(id)
            }
            bind::UNBIND => {
                int_map::unbind()?;
                pr_info!("no telemetry any more\n");
                Ok(0)
            }
            bind::QUERY => Ok(int_map::id() as isize),
            bind::LOG => {
                int_map::log(u32::try_from(argument).map_err(|_| EINVAL)?)?;
                Ok(0)
            }
            bind::READ => read_log(UserPtr::from_addr(argument)),
            _ => Err(ENOTTY),
        }
    }
}

/// Hands the oldest records of the log to user space; how many.
fn read_log(to: UserPtr) -> Result<isize> {
    let mut writer = UserSlice::new(to, Seen::LEN * bind::READ_RECORDS).writer();
    let mut records = 0isize;
    while !writer.is_empty() {
        let mut record = [[0; Seen::LEN]];
        if int_map::read_log(&mut record) == 0 {
            break;
        }
        writer.write_slice(record.as_flattened())?;
        records = records.wrapping_add(1);
    }
    Ok(records)
}

#[pin_data(PinnedDrop)]
struct Module {
    #[pin]
    device: MiscDeviceRegistration<Device>,
}

impl kernel::InPlaceModule for Module {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            device <- MiscDeviceRegistration::register(MiscDeviceOptions { name: c"fathom_int" }),
        })
    }
}

#[pinned_drop]
impl PinnedDrop for Module {
    fn drop(self: Pin<&mut Self>) {
        // No law can be looking (they depend on this module), and nobody holds the device open (that
        // keeps the module, too).
        let _ = int_map::unbind();
        let _ = int_map::log(0);
    }
}
