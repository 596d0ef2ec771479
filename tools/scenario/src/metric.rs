// SPDX-License-Identifier: GPL-2.0

//! What a result can be asked for: the catalogue of summary metrics, and bounds on them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One row per metric: variant, name in files, unit, decimals in a table, what it is.
macro_rules! metrics {
    ($($variant:ident, $name:literal, $unit:literal, $decimals:literal, $what:literal;)*) => {
        /// A number that sums up a run, or one group of its flows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Metric {
            $(
                #[doc = $what]
                #[serde(rename = $name)]
                $variant,
            )*
        }

        impl Metric {
            /// All of them, in the order in which tables show them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name in scenario files and results.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// Its unit; empty = a plain number.
            #[must_use]
            pub const fn unit(self) -> &'static str {
                match self { $(Self::$variant => $unit),* }
            }

            /// Digits after the point that are worth showing.
            #[must_use]
            pub const fn decimals(self) -> usize {
                match self { $(Self::$variant => $decimals),* }
            }

            /// What it is.
            #[must_use]
            pub const fn what(self) -> &'static str {
                match self { $(Self::$variant => $what),* }
            }
        }
    };
}

metrics! {
    Throughput, "throughput", "Gbit/s", 3, "payload delivered in the measured time, all flows together";
    LineShare, "line_share", "", 3, "payload delivered across the line with its headers, as a share of the line's rate";
    LineShareMin, "line_share_min", "", 3, "the least share of the line's rate in use in any window of the measured time";
    Share, "share", "", 3, "mean over the flows of throughput over max-min fair share";
    ShareMin, "share_min", "", 3, "the least throughput over max-min fair share of any flow";
    Jain, "jain", "", 4, "Jain's index of the throughputs of flows that were active in all of the measured time";
    JainShare, "jain_share", "", 4, "Jain's index of throughputs over max-min fair shares";
    JainStepMin, "jain_step_min", "", 4, "the least Jain's index (of throughputs over fair shares) in the second half of any period without starts and stops";
    JainSettle, "jain_settle", "RTTs", 2, "the longest time from a start or stop until Jain's index (of throughputs over fair shares) stays at 0.98 or above in every window until the next one, in round trips as long as they were at the time";
    Variation, "variation", "", 4, "standard deviation of the flows' throughputs over their mean";
    VariationTime, "variation_time", "", 4, "standard deviation over time of a flow's throughput in windows, over its mean, averaged over the long flows";
    Convergence, "convergence", "us", 1, "from the last start of a long flow to the beginning of the first window in which every long flow has 0.9 of its max-min share";
    QueueMean, "queue_mean", "us", 2, "mean queue of the line, as the time it takes to send";
    QueueP99, "queue_p99", "us", 2, "99th percentile of the line's queue";
    QueueMax, "queue_max", "us", 2, "largest queue of the line";
    Settle, "settle", "RTTs", 2, "from the first time that the line's queue is above `measure.settled` to the last, in round trips as long as they were at the time";
    QueueWorstP99, "queue_worst_p99", "us", 2, "the largest 99th percentile of any switch port's queue";
    RttMean, "rtt_mean", "us", 2, "mean round-trip time";
    RttP99, "rtt_p99", "us", 2, "99th percentile of the round-trip times of a flow, averaged over the flows by their samples";
    FctP50, "fct_p50", "us", 1, "median flow completion time";
    FctP99, "fct_p99", "us", 1, "99th percentile of flow completion times";
    FctP999, "fct_p999", "us", 1, "99.9th percentile of flow completion times";
    SlowdownP50, "slowdown_p50", "", 2, "median slowdown: completion time over what an empty network would take";
    SlowdownP99, "slowdown_p99", "", 2, "99th percentile of slowdowns";
    SlowdownP999, "slowdown_p999", "", 2, "99.9th percentile of slowdowns";
    Completed, "completed", "", 4, "share of the flows with an end that reached it";
    FinishSpread, "finish_spread", "us", 1, "from the first finish to the last";
    Retransmits, "retransmits", "", 0, "packets sent again, in the whole run";
    Timeouts, "timeouts", "", 0, "retransmission timeouts";
    Drops, "drops", "", 0, "packets that queues dropped in the measured time";
    Marks, "marks", "", 0, "packets that queues marked (ECN)";
    CircuitUtilisation, "circuit_utilisation", "", 3, "what the circuits between racks with traffic carried while they were up, as a share of what they could";
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What runs a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Packet-level simulation.
    Sim,
    /// The real kernel in virtual time.
    Lab,
    /// Real hosts over ssh.
    Testbed,
}

impl Engine {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sim, Self::Lab, Self::Testbed];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Lab => "lab",
            Self::Testbed => "testbed",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A bound on a result, which makes a scenario a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expectation {
    /// Of what.
    pub metric: Metric,
    /// For which congestion controls; empty = all.
    pub cc: Vec<String>,
    /// On which engines; empty = all.
    pub engines: Vec<Engine>,
    /// Of which group of flows; none = of all flows together.
    pub group: Option<String>,
    /// Of flows of at least this size, bytes.
    pub size_min: u64,
    /// Of flows below this size, bytes; `u64::MAX` = any.
    pub size_max: u64,
    /// Divide by the same metric of this congestion control first.
    pub relative_to: Option<String>,
    /// At least.
    pub min: Option<f64>,
    /// At most.
    pub max: Option<f64>,
    /// Where the bound comes from.
    pub why: String,
    /// Line in the scenario file.
    pub line: usize,
}
