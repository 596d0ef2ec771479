// SPDX-License-Identifier: GPL-2.0
//! The user-space half of the eBPF programs: loads and attaches them, pins them so that they outlive the
//! command, hands their map to `tcp_int`, and reads what they recorded.

mod device;
mod flows;
mod load;
mod pins;
#[allow(dead_code)] // the programs use the rest
#[path = "../../programs/src/settings.rs"]
mod settings;

pub use device::{Device, Log};
pub use flows::{flows, Flow, State};
pub use load::{object, root_cgroup, Loaded, Options, Prefix, XdpMode, OBJECT};
pub use pins::{Pinned, PIN_DIR};
pub use settings::{Count, Fault, Settings};
