// SPDX-License-Identifier: GPL-2.0
//! Queue laws of a port: when it marks and when it drops. All are first in, first out.

use crate::rng::Rng;
use crate::time::{Ps, NS};
use wire::codel::{Codel, Leaving, Params};

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Pass,
    /// It goes on and is marked, when that is possible.
    Mark,
    /// It does not go on.
    Drop,
}

/// A queue law and its state.
#[derive(Clone, Debug)]
pub enum Discipline {
    /// Drops what does not fit.
    Fifo,
    /// Marks what finds this many bytes waiting, as `sch_int` does.
    Ecn {
        /// Bytes.
        threshold: u32,
    },
    /// Random Early Detection on the queue of the moment, as DCQCN uses it.
    Red {
        /// Nothing happens below, bytes.
        min: u32,
        /// Every packet is marked above, bytes.
        max: u32,
        /// Probability at `max`, in 2^-32.
        most: u64,
        /// Mark what can be marked, and drop nothing.
        ecn: bool,
    },
    /// CoDel (RFC 8289).
    Codel {
        /// Target and interval.
        params: Params,
        /// Its state.
        state: Codel,
        /// Mark rather than drop.
        ecn: bool,
        /// Marks go on the ACKs that pass the other way (RPM).
        rpm: bool,
        /// The largest packet so far, bytes.
        largest: u32,
    },
}

impl Discipline {
    /// CoDel with `target_ns` and `interval_ns`.
    #[must_use]
    pub fn codel(target_ns: u64, interval_ns: u64, ecn: bool, rpm: bool) -> Self {
        Self::Codel {
            params: Params {
                target_ns,
                interval_ns,
            },
            state: Codel::default(),
            ecn,
            rpm,
            largest: 0,
        }
    }

    /// Whether it decides when a packet leaves, not when it comes.
    #[inline]
    #[must_use]
    pub fn at_dequeue(&self) -> bool {
        matches!(self, Self::Codel { .. })
    }

    /// Whether marks go on the ACKs that pass the other way.
    #[must_use]
    pub fn rpm(&self) -> bool {
        matches!(self, Self::Codel { rpm: true, .. })
    }

    /// A packet comes and finds `queued` bytes.
    #[inline]
    pub fn at_enqueue(&mut self, queued: u32, rng: &mut Rng) -> Verdict {
        match *self {
            Self::Fifo | Self::Codel { .. } => Verdict::Pass,
            Self::Ecn { threshold } => {
                if queued >= threshold {
                    Verdict::Mark
                } else {
                    Verdict::Pass
                }
            }
            Self::Red {
                min,
                max,
                most,
                ecn,
            } => {
                let chosen = if queued < min {
                    false
                } else if queued >= max {
                    true
                } else {
                    let part = u64::from(queued - min);
                    rng.chance(most * part / u64::from(max - min))
                };
                match (chosen, ecn) {
                    (false, _) => Verdict::Pass,
                    (true, true) => Verdict::Mark,
                    (true, false) => Verdict::Drop,
                }
            }
        }
    }

    /// A packet of `size` leaves after `waited`, with `left` bytes behind it; `ect` says whether it can be
    /// marked.
    pub fn at_dequeue_of(
        &mut self,
        now: Ps,
        waited: Ps,
        size: u32,
        left: u32,
        ect: bool,
    ) -> Verdict {
        let Self::Codel {
            params,
            state,
            ecn,
            largest,
            ..
        } = self
        else {
            return Verdict::Pass;
        };
        *largest = size.max(*largest);
        let leaving = Leaving {
            now_ns: now / NS,
            waited_ns: waited / NS,
            left_bytes: left,
            max_packet: *largest,
        };
        match (state.choose(params, &leaving), *ecn && ect) {
            (false, _) => Verdict::Pass,
            (true, true) => Verdict::Mark,
            (true, false) => Verdict::Drop,
        }
    }
}
