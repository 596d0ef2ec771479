// SPDX-License-Identifier: GPL-2.0
//! Reno (RFC 5681): a packet more per round trip, half of it after a loss.

use super::{Cwnd, Growth};

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The first window, packets.
    pub initial: u32,
    /// Packets can be marked.
    pub ecn: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            initial: 10,
            ecn: false,
        }
    }
}

/// Reno's state: none.
#[derive(Clone)]
pub struct Reno {
    pub(super) config: Config,
}

impl Reno {
    /// With `config`.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config }
    }
}

/// Slow start, then a packet per window.
pub fn grow(cwnd: &mut Cwnd, g: &Growth) {
    if !g.limited {
        return;
    }
    let mut acked = g.acked;
    if cwnd.packets < cwnd.ssthresh {
        acked = cwnd.slow_start(acked);
        if acked == 0 {
            return;
        }
    }
    cwnd.additive(cwnd.packets, acked);
}

/// Half the window, at least two packets.
#[must_use]
pub fn half(cwnd: &Cwnd) -> u32 {
    (cwnd.packets / 2).max(2)
}
