// SPDX-License-Identifier: GPL-2.0
//! DCQCN (Zhu et al., SIGCOMM'15): a rate cut by notifications, raised by a timer and a byte counter.
//!
//! A notification sets R_T = R_C, R_C = R_C (1 − α/2), α = (1 − g) α + g. Without one α decays every
//! 55 us. The rate grows in steps, one for every period of the timer and one for every so many bytes:
//! towards R_T for the first F steps of either, by R_AI beyond when one has had more, by R_HAI when both have.
//! Timers are looked at when an ACK comes: between two ACKs nothing is sent that they could change but a
//! packet in flight.

use laws::Path;

/// α of one.
const ONE: u64 = 1 << 20;

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// g, 1/1024.
    pub g: u64,
    /// R_AI, bytes per second.
    pub rai: u64,
    /// R_HAI, bytes per second.
    pub rhai: u64,
    /// α decays this often, ns.
    pub alpha_timer_ns: u64,
    /// The rate grows this often, ns.
    pub rate_timer_ns: u64,
    /// ... and after so many bytes.
    pub byte_counter: u64,
    /// F: steps of fast recovery.
    pub fast_recovery: u32,
    /// A receiver sends at most one notification in this time, ns.
    pub cnp_interval_ns: u64,
    /// The least rate, bytes per second.
    pub min_rate: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            g: 4,
            rai: 5_000_000,
            rhai: 50_000_000,
            alpha_timer_ns: 55_000,
            rate_timer_ns: 300_000,
            byte_counter: 10_000_000,
            fast_recovery: 5,
            cnp_interval_ns: 50_000,
            min_rate: 1_250_000,
        }
    }
}

/// DCQCN's state.
#[derive(Clone)]
pub struct Dcqcn {
    config: Config,
    line: u64,
    /// R_C and R_T.
    rate: u64,
    target: u64,
    /// Q20.
    alpha: u64,
    alpha_ns: u64,
    timer_ns: u64,
    timer_steps: u32,
    bytes: u64,
    byte_steps: u32,
    cut: bool,
}

impl Dcqcn {
    /// With `config`.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            line: 0,
            rate: 0,
            target: 0,
            alpha: ONE,
            alpha_ns: 0,
            timer_ns: 0,
            timer_steps: 0,
            bytes: 0,
            byte_steps: 0,
            cut: false,
        }
    }

    pub(super) fn start(&mut self, path: &Path, now_ns: u64) {
        self.line = path.line_rate();
        (self.rate, self.target) = (self.line, self.line);
        (self.alpha_ns, self.timer_ns) = (now_ns, now_ns);
    }

    pub(super) fn rate(&self) -> u64 {
        self.rate
    }

    pub(super) fn on_cnp(&mut self, now_ns: u64) {
        self.catch_up(now_ns);
        self.target = self.rate;
        self.rate -= ((u128::from(self.rate) * u128::from(self.alpha)) >> 21) as u64;
        self.rate = self.rate.max(self.config.min_rate);
        self.alpha = (self.alpha * (1024 - self.config.g) + ONE * self.config.g) / 1024;
        (self.alpha_ns, self.timer_ns) = (now_ns, now_ns);
        (self.timer_steps, self.byte_steps, self.bytes) = (0, 0, 0);
        self.cut = true;
    }

    pub(super) fn on_bytes(&mut self, now_ns: u64, bytes: u64) {
        self.catch_up(now_ns);
        self.bytes += bytes;
        while self.bytes >= self.config.byte_counter {
            self.bytes -= self.config.byte_counter;
            self.byte_steps += 1;
            self.step();
        }
    }

    fn catch_up(&mut self, now_ns: u64) {
        while now_ns - self.alpha_ns >= self.config.alpha_timer_ns {
            self.alpha_ns += self.config.alpha_timer_ns;
            self.alpha = self.alpha * (1024 - self.config.g) / 1024;
        }
        while now_ns - self.timer_ns >= self.config.rate_timer_ns {
            self.timer_ns += self.config.rate_timer_ns;
            self.timer_steps += 1;
            self.step();
        }
    }

    fn step(&mut self) {
        if !self.cut {
            return; // At line rate from the start.
        }
        let f = self.config.fast_recovery;
        let (least, most) = (
            self.timer_steps.min(self.byte_steps),
            self.timer_steps.max(self.byte_steps),
        );
        if least > f {
            self.target += u64::from(least - f) * self.config.rhai;
        } else if most > f {
            self.target += self.config.rai;
        }
        self.target = self.target.min(self.line);
        self.rate = ((self.rate + self.target) / 2)
            .clamp(self.config.min_rate, self.line.max(self.config.min_rate));
    }
}
