// SPDX-License-Identifier: GPL-2.0
//! The software switch port (the qdisc `int`, module `sch_int`) from user space: its parameters in human
//! units ([`settings`]), and how it is set up and read by netlink ([`netlink`]). `fathom tc` and the program
//! inside lab and VM use it. What the numbers mean: `wire::tc` and docs/sch_int.md.

pub mod netlink;
pub mod settings;
pub mod units;

use serde::Serialize;
use wire::tc;

/// The names of the statistics, by their place (`wire::tc::STAT_*`).
pub const STAT_NAMES: [&str; tc::STATS] = [
    "max_bytes",
    "marks",
    "drops",
    "packets",
    "bytes",
    "stamps",
    "refused",
    "queue_bytes",
    "codel_chosen",
    "codel_marks",
    "codel_drops",
    "rpm_counted",
    "rpm_full",
    "rpm_set",
    "logged",
];

/// The root queue of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Queue {
    /// Of its interface.
    pub index: u32,
    /// What kind of queue, as `tc` names it.
    pub kind: String,
    /// Bytes waiting, the packet on the link included.
    pub backlog_bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped.
    pub drops: u64,
    /// When it is a port of ours: its parameters, by `wire::tc`'s numbers.
    pub settings: Vec<(u16, u64)>,
    /// And its statistics, in the order of [`STAT_NAMES`]; those that the module does not have are 0.
    pub stats: [u64; tc::STATS],
    /// The part of its log that was asked for: the number of the first record, and the records.
    #[serde(skip)]
    pub log: (u64, Vec<tc::Record>),
}

impl Queue {
    /// Is it a port of ours?
    #[must_use]
    pub fn is_port(&self) -> bool {
        self.kind == tc::NAME
    }

    /// A parameter, by `wire::tc`'s number.
    #[must_use]
    pub fn setting(&self, kind: u16) -> Option<u64> {
        self.settings
            .iter()
            .find(|(k, _)| *k == kind)
            .map(|(_, v)| *v)
    }
}
