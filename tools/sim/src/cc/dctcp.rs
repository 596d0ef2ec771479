// SPDX-License-Identifier: GPL-2.0
//! DCTCP (Alizadeh et al., SIGCOMM'10; RFC 8257): Reno that falls by half the share of marked packets.
//!
//! The share is smoothed once per round with a gain of 1/16, starts at one, and a loss halves the window,
//! all as the kernel has it.

use super::{reno, Cwnd, Growth};

/// A share of one.
const ONE: u32 = 1024;

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The first window, packets.
    pub initial: u32,
    /// The gain is 2 to the minus this.
    pub shift_g: u32,
    /// The first share, 1024 = all.
    pub alpha: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            initial: 10,
            shift_g: 4,
            alpha: ONE,
        }
    }
}

/// DCTCP's state.
#[derive(Clone)]
pub struct Dctcp {
    pub(super) config: Config,
    alpha: u32,
    /// The round ends when this segment is acknowledged.
    round_end: u32,
    delivered: u32,
    ce: u32,
    /// A round has begun.
    begun: bool,
}

impl Dctcp {
    /// With `config`.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            alpha: config.alpha.min(ONE),
            round_end: 0,
            delivered: 0,
            ce: 0,
            begun: false,
        }
    }

    pub(super) fn on_ack(&mut self, g: &Growth) {
        self.delivered += g.delivered;
        self.ce += g.ce;
        if self.begun && g.una.wrapping_sub(self.round_end) >= 1 << 31 {
            return;
        }
        if self.begun {
            let decay = self.alpha >> self.config.shift_g;
            self.alpha -= if decay == 0 { self.alpha } else { decay };
            if self.ce != 0 {
                let share = (u64::from(self.ce) << (10 - self.config.shift_g.min(10)))
                    / u64::from(self.delivered.max(1));
                self.alpha = (self.alpha + share as u32).min(ONE);
            }
        }
        self.begun = true;
        self.round_end = g.nxt;
        (self.delivered, self.ce) = (0, 0);
    }

    pub(super) fn ssthresh(&self, cwnd: &Cwnd, loss: bool) -> u32 {
        if loss {
            return reno::half(cwnd);
        }
        let cut = (u64::from(cwnd.packets) * u64::from(self.alpha)) >> 11;
        (cwnd.packets - cut as u32).max(2)
    }
}
