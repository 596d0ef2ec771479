// SPDX-License-Identifier: GPL-2.0
//! reTCP (Mukerjee et al., NSDI'20): Reno whose window jumps when packets begin to travel over a circuit,
//! and falls back when they stop.
//!
//! The switch marks packets that leave on a circuit, the receiver echoes it (here: the flag of an ACK for
//! such a packet). The window is multiplied by how much faster the circuit is.

use super::{reno, Cwnd, Growth};

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Of the Reno beneath.
    pub reno: reno::Config,
    /// The window on the circuit over that off it, thousandths.
    pub scale: u32,
    /// How long before a circuit comes up its queue is filled, ns.
    pub prebuffer_ns: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            reno: reno::Config::default(),
            scale: 4000,
            prebuffer_ns: 1_800_000,
        }
    }
}

/// reTCP's state.
#[derive(Clone)]
pub struct ReTcp {
    pub(super) config: Config,
    circuit: bool,
}

impl ReTcp {
    /// With `config`.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            circuit: false,
        }
    }

    pub(super) fn on_ack(&mut self, cwnd: &mut Cwnd, g: &Growth) {
        if g.circuit == self.circuit || g.acked == 0 {
            return;
        }
        self.circuit = g.circuit;
        let packets = u64::from(cwnd.packets);
        let scaled = if g.circuit {
            packets * u64::from(self.config.scale) / 1000
        } else {
            packets * 1000 / u64::from(self.config.scale)
        };
        cwnd.packets = (scaled as u32).clamp(2, super::UNLIMITED);
    }

    pub(super) fn ssthresh(&self, cwnd: &Cwnd) -> u32 {
        reno::half(cwnd)
    }
}
