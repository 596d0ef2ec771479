// SPDX-License-Identifier: GPL-2.0

//! Results of a run: one versioned JSON for all engines, and everything that is derived from it.
//!
//! ```text
//! engine --Measured--> Run::new(&Resolved, ...) --> Results (JSON) --> table, compare, golden, report
//! ```
//!
//! An engine counts ([`Measured`]); what the counts mean is computed here, once for all engines:
//! completion times, slowdowns, fair shares, Jain's index, convergence ([`metrics`]). `docs/results.md`
//! is the reference of the file.

mod check;
mod compare;
mod golden;
mod measured;
pub mod metrics;
mod run;
pub mod stats;
mod table;

pub use check::{check, Verdict};
pub use compare::{compare, Comparison, Difference};
pub use golden::{canonical, golden, Golden};
pub use measured::{FlowMeasured, Measured, PortMeasured, RpcMeasured, Samples};
pub use run::{
    Bin, Facts, FlowResult, Meta, PortResult, Quantity, Results, Run, Series, Subject, Summary,
    Values, Wall, VERSION,
};
pub use table::{compare_table, plain_table, table, verdict_table};
