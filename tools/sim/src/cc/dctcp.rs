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
        }
    }

    pub(super) fn on_ack(&mut self, g: &Growth) {
        self.delivered += g.delivered;
        self.ce += g.ce;
        // The first ACK ends a round that began before anything was sent.
        if g.una.wrapping_sub(self.round_end) >= 1 << 31 {
            return;
        }
        let decay = self.alpha >> self.config.shift_g;
        self.alpha -= if decay == 0 { self.alpha } else { decay };
        if self.ce != 0 {
            let share = (u64::from(self.ce) << (10 - self.config.shift_g.min(10)))
                / u64::from(self.delivered.max(1));
            self.alpha = (self.alpha + share as u32).min(ONE);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ack_ends_a_round() {
        let mut c = Dctcp::new(Config::default());
        let mut ack = |una, nxt, ce| {
            c.on_ack(&Growth {
                una,
                nxt,
                delivered: 2,
                ce,
                ..Growth::default()
            });
            c.alpha
        };
        assert_eq!(ack(2, 10, 0), ONE - ONE / 16);
        assert_eq!(ack(4, 12, 2), ONE - ONE / 16);
        // Two of eight delivered in this round are marked: a sixteenth of a quarter more.
        assert_eq!(ack(6, 14, 0), 960);
        assert_eq!(ack(8, 16, 0), 960);
        let cwnd = Cwnd {
            packets: 100,
            count: 0,
            ssthresh: 100,
        };
        assert_eq!(ack(10, 18, 0), 960 - 60 + 2 * 64 / 8);
        assert_eq!(c.ssthresh(&cwnd, false), 100 - ((100 * 916) >> 11));
    }
}
