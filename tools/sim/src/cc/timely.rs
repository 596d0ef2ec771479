// SPDX-License-Identifier: GPL-2.0
//! TIMELY (Mittal et al., SIGCOMM'15): a rate that follows the gradient of the RTT.
//!
//! Below T_low it grows, above T_high it falls by how far above; between, a falling RTT lets it grow, five in
//! a row five times as much, and a rising one shrinks it by the gradient (Algorithm 1). One update per
//! completion event; the paper's segment is 16 KB or more, here an update needs a base RTT since the last.
//! Integers: the gradient in Q16 of the least RTT.

use laws::Path;

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Packets can be marked (the law does not look).
    pub ecn: bool,
    /// Below this RTT the rate grows, ns.
    pub t_low_ns: u32,
    /// Above this one it falls, ns.
    pub t_high_ns: u32,
    /// Additive increase, bytes per second.
    pub add_step: u64,
    /// β, thousandths.
    pub beta: u64,
    /// Weight of a new difference, thousandths.
    pub alpha: i64,
    /// Good samples in a row before hyperactive increase.
    pub hai: u32,
    /// The least rate, bytes per second.
    pub min_rate: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            ecn: false,
            t_low_ns: 50_000,
            t_high_ns: 500_000,
            add_step: 1_250_000,
            beta: 800,
            alpha: 875,
            hai: 5,
            min_rate: 1_250_000,
        }
    }
}

/// TIMELY's state.
#[derive(Clone)]
pub struct Timely {
    config: Config,
    rate: u64,
    line: u64,
    min_rtt_ns: u32,
    last_rtt_ns: u32,
    /// Smoothed difference of RTTs, ns.
    diff_ns: i64,
    good: u32,
    updated_ns: u64,
}

impl Timely {
    /// With `config`.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            rate: 0,
            line: 0,
            min_rtt_ns: 0,
            last_rtt_ns: 0,
            diff_ns: 0,
            good: 0,
            updated_ns: 0,
        }
    }

    pub(super) fn start(&mut self, path: &Path) {
        self.line = path.line_rate();
        self.rate = self.line;
        self.min_rtt_ns = path.base_rtt_ns;
    }

    pub(super) fn rate(&self) -> u64 {
        self.rate
    }

    pub(super) fn on_ack(&mut self, now_ns: u64, rtt_ns: u32) {
        if rtt_ns == 0 {
            return;
        }
        if self.min_rtt_ns == 0 || rtt_ns < self.min_rtt_ns {
            self.min_rtt_ns = rtt_ns;
        }
        if now_ns - self.updated_ns < u64::from(self.min_rtt_ns) {
            return;
        }
        self.updated_ns = now_ns;
        let c = &self.config;
        if self.last_rtt_ns != 0 {
            let diff = i64::from(rtt_ns) - i64::from(self.last_rtt_ns);
            self.diff_ns = ((1000 - c.alpha) * self.diff_ns + c.alpha * diff) / 1000;
        }
        self.last_rtt_ns = rtt_ns;
        if rtt_ns < c.t_low_ns {
            self.good = 0;
            self.rate += c.add_step;
        } else if rtt_ns > c.t_high_ns {
            self.good = 0;
            let over = u64::from(rtt_ns - c.t_high_ns);
            self.rate -= (u128::from(self.rate) * u128::from(c.beta) * u128::from(over)
                / (1000 * u128::from(rtt_ns))) as u64;
        } else if self.diff_ns <= 0 {
            self.good += 1;
            let steps = if self.good >= c.hai { 5 } else { 1 };
            self.rate += steps * c.add_step;
        } else {
            self.good = 0;
            let cut =
                u128::from(self.rate) * u128::from(c.beta) * self.diff_ns.unsigned_abs() as u128
                    / (1000 * u128::from(self.min_rtt_ns));
            self.rate = self
                .rate
                .saturating_sub(cut.min(u128::from(self.rate)) as u64);
        }
        self.rate = self.rate.clamp(c.min_rate, self.line.max(c.min_rate));
    }
}
