// SPDX-License-Identifier: GPL-2.0
//! CUBIC (Ha, Rhee and Xu, 2008; RFC 9438), with HyStart (Ha and Rhee, 2011).
//!
//! After a loss the window is a cubic function of time that has its plateau where the loss was:
//! W(t) = C (t − K)³ + W_max, K = ∛((W_max − W)/C), C = 0.4, β = 0.7; never below what Reno would have.
//! Integers throughout, time in units of 1/1024 s, as the kernel's does, so that results are the same on
//! every machine.

use super::{Cwnd, Growth};

/// β in 1/1024.
const BETA: u64 = 717;
/// The divisor 2^40/(0.4·2^10)... of the cubic term: (1/C) in units of (1/1024 s)³ per packet. With C = 410/1024:
/// ∛(packets · 2^40 / 410) is K in 1/1024 s.
const C_1024THS: u64 = 410;
/// (1 + β)/(3 (1 − β)) in eighths, as the kernel rounds it.
const RENO_EIGHTHS: u32 = (8 * (1024 + BETA) / 3 / (1024 - BETA)) as u32;
/// HyStart runs from this window on.
const HYSTART_LOW: u32 = 16;
/// RTT samples per round that HyStart looks at.
const HYSTART_SAMPLES: u32 = 8;
/// ACKs no further apart are a train, us.
const TRAIN_US: u64 = 2000;
/// Linux counts CUBIC's time in ticks (HZ = 1000).
const TICK_NS: u64 = 1_000_000;
/// A window that does not change is looked at again after so many of them.
const STILL_TICKS: u64 = 31;
/// RTTs say nothing of the path for so long after an epoch began, ticks.
const DEAF_TICKS: u64 = 1000;

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The first window, packets.
    pub initial: u32,
    /// Packets can be marked.
    pub ecn: bool,
    /// Leave slow start when delays or trains of ACKs say so.
    pub hystart: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            initial: 10,
            ecn: false,
            hystart: true,
        }
    }
}

/// CUBIC's state.
#[derive(Clone)]
pub struct Cubic {
    pub(super) config: Config,
    last_max: u32,
    /// When the epoch began, ns; 0 = none.
    epoch_ns: u64,
    origin: u32,
    /// K, 1/1024 s.
    k: u64,
    /// Reno's window, and what was acknowledged since it last grew.
    reno: u32,
    acked: u32,
    /// What [`Self::per_packet`] found last, for which window, and in which tick.
    per: u32,
    per_cwnd: u32,
    per_tick: u64,
    min_rtt_us: u32,
    // HyStart.
    round_end: u32,
    /// By TCP's clock, which counts whole us.
    round_start_us: u64,
    last_ack_us: u64,
    samples: u32,
    round_rtt_us: u32,
    found: bool,
    in_round: bool,
}

impl Cubic {
    /// With `config`.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            last_max: 0,
            epoch_ns: 0,
            origin: 0,
            k: 0,
            reno: 0,
            acked: 0,
            per: 0,
            per_cwnd: 0,
            per_tick: 0,
            min_rtt_us: 0,
            round_end: 0,
            round_start_us: 0,
            last_ack_us: 0,
            samples: 0,
            round_rtt_us: u32::MAX,
            found: false,
            in_round: false,
        }
    }

    pub(super) fn reset(&mut self) {
        *self = Self::new(self.config);
    }

    pub(super) fn on_ack(&mut self, cwnd: &mut Cwnd, g: &Growth) {
        let epoch = self.epoch_ns != 0;
        if g.rtt_us == 0 || epoch && g.now_ns / TICK_NS - self.epoch_ns / TICK_NS < DEAF_TICKS {
            return;
        }
        if self.min_rtt_us == 0 || g.rtt_us < self.min_rtt_us {
            self.min_rtt_us = g.rtt_us;
        }
        if self.config.hystart && cwnd.packets < cwnd.ssthresh && !self.found {
            self.hystart(cwnd, g);
        }
    }

    fn begin_round(&mut self, g: &Growth) {
        self.round_start_us = g.now_ns / 1000;
        self.last_ack_us = self.round_start_us;
        self.round_end = g.nxt;
        self.round_rtt_us = u32::MAX;
        self.samples = 0;
        self.in_round = true;
    }

    fn hystart(&mut self, cwnd: &mut Cwnd, g: &Growth) {
        if !self.in_round || g.una.wrapping_sub(self.round_end) < 1 << 31 && g.una != self.round_end
        {
            self.begin_round(g);
        }
        if cwnd.packets < HYSTART_LOW {
            return;
        }
        // A train of ACKs as long as half the RTT, and what bursts add to it: the path is full.
        let now_us = g.now_ns / 1000;
        if now_us - self.last_ack_us <= TRAIN_US {
            self.last_ack_us = now_us;
            let threshold = (u64::from(self.min_rtt_us) + u64::from(g.bursts_us)) / 2;
            if now_us - self.round_start_us > threshold {
                self.found = true;
            }
        }
        // The first RTTs of a round have grown by an eighth, or 4 to 16 ms.
        self.round_rtt_us = self.round_rtt_us.min(g.rtt_us);
        if self.samples < HYSTART_SAMPLES {
            self.samples += 1;
        } else {
            let more = (self.min_rtt_us >> 3).clamp(4000, 16_000);
            if self.round_rtt_us > self.min_rtt_us + more {
                self.found = true;
            }
        }
        if self.found {
            cwnd.ssthresh = cwnd.packets;
        }
    }

    pub(super) fn grow(&mut self, cwnd: &mut Cwnd, g: &Growth) {
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
        let per = self.per_packet(cwnd.packets, acked, g);
        cwnd.additive(per, acked);
    }

    /// Packets to be acknowledged for each one more.
    fn per_packet(&mut self, cwnd: u32, acked: u32, g: &Growth) -> u32 {
        self.acked += acked;
        let tick = g.now_ns / TICK_NS;
        // As the kernel does: at most once in a tick, and seldom for a window that stands still.
        let known = self.per != 0;
        if known && self.per_cwnd == cwnd && tick - self.per_tick <= STILL_TICKS {
            return self.per;
        }
        if !known || self.epoch_ns == 0 || tick != self.per_tick {
            self.per_cwnd = cwnd;
            self.per_tick = tick;
            self.per = self.curve(cwnd, acked, g);
        }
        // Reno's window with the same β: 3 (1 − β)/(1 + β) packets per window, in eighths.
        let reno_per = ((cwnd * RENO_EIGHTHS) >> 3).max(1);
        while self.acked > reno_per {
            self.acked -= reno_per;
            self.reno += 1;
        }
        if self.reno > cwnd {
            self.per = self.per.min(cwnd / (self.reno - cwnd));
        }
        self.per = self.per.max(2);
        self.per
    }

    /// The same by the cubic curve alone.
    fn curve(&mut self, cwnd: u32, acked: u32, g: &Growth) -> u32 {
        if self.epoch_ns == 0 {
            self.epoch_ns = g.now_ns.max(1);
            self.acked = acked;
            self.reno = cwnd;
            if self.last_max <= cwnd {
                self.k = 0;
                self.origin = cwnd;
            } else {
                self.k = cube_root((u64::from(self.last_max - cwnd) << 40) / C_1024THS);
                self.origin = self.last_max;
            }
        }
        // One RTT ahead, rounded up to a tick: the window then. 1/1024 s.
        let ahead = (u64::from(self.min_rtt_us) * 1000).div_ceil(TICK_NS);
        let ticks = g.now_ns / TICK_NS - self.epoch_ns / TICK_NS + ahead;
        let t = (ticks << 10) / (1_000_000_000 / TICK_NS);
        let off = t.abs_diff(self.k).min(1 << 20);
        let delta = ((C_1024THS as u128 * u128::from(off).pow(3)) >> 40)
            .min(u128::from(u32::MAX >> 1)) as u32;
        let target = if t < self.k {
            self.origin.saturating_sub(delta)
        } else {
            self.origin.saturating_add(delta)
        };
        let per = if target > cwnd {
            cwnd / (target - cwnd)
        } else {
            100 * cwnd
        };
        // The first epoch has no plateau to wait for.
        if self.last_max == 0 {
            per.min(20)
        } else {
            per
        }
    }

    pub(super) fn ssthresh(&mut self, cwnd: &Cwnd) -> u32 {
        self.epoch_ns = 0;
        let packets = cwnd.packets;
        // Fast convergence: a flow that lost before it was back at its plateau leaves room.
        self.last_max = if packets < self.last_max {
            (u64::from(packets) * (1024 + BETA) / 2048) as u32
        } else {
            packets
        };
        ((u64::from(packets) * BETA / 1024) as u32).max(2)
    }
}

/// The cube root, rounded down, a bit at a time.
fn cube_root(value: u64) -> u64 {
    let mut root = 0u64;
    for bit in (0..21).rev() {
        let with = root | 1 << bit;
        if u128::from(with).pow(3) <= u128::from(value) {
            root = with;
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots() {
        for x in [0u64, 1, 7, 8, 26, 27, 1_000_000, 999_999] {
            let r = cube_root(x);
            assert!(r.pow(3) <= x && (r + 1).pow(3) > x, "{x}: {r}");
        }
    }

    #[test]
    fn back_at_the_plateau_after_k() {
        // W_max 1000, fallen to 700: K = cbrt(300/0.4) = 9.09 s.
        let mut c = Cubic::new(Config::default());
        let mut cwnd = Cwnd {
            packets: 1000,
            count: 0,
            ssthresh: 1000,
        };
        cwnd.ssthresh = c.ssthresh(&cwnd);
        cwnd.packets = cwnd.ssthresh;
        c.min_rtt_us = 100_000;
        let rtt_ns = 100_000_000;
        let mut now = 1_000_000_000;
        let start = now;
        while cwnd.packets < 990 {
            let g = Growth {
                now_ns: now,
                acked: cwnd.packets,
                limited: true,
                rtt_us: 100_000,
                ..Growth::default()
            };
            c.grow(&mut cwnd, &g);
            now += rtt_ns;
        }
        let took = (now - start) as f64 / 1e9;
        assert!((5.5..9.5).contains(&took), "{took} s");
    }

    #[test]
    fn a_train_may_be_longer_by_its_bursts() {
        // ACKs every us of one round, RTT 18 us: half an RTT ends slow start, bursts of 100 us do not.
        for (bursts_us, found) in [(0, true), (100, false)] {
            let mut c = Cubic::new(Config::default());
            let mut cwnd = Cwnd {
                packets: 20,
                count: 0,
                ssthresh: u32::MAX,
            };
            for us in 0..20 {
                let g = Growth {
                    now_ns: 1_000_000_000 + us * 1000,
                    acked: 1,
                    rtt_us: 18,
                    una: 1,
                    nxt: 100,
                    bursts_us,
                    ..Growth::default()
                };
                c.on_ack(&mut cwnd, &g);
            }
            assert_eq!(c.found, found, "{bursts_us}");
        }
    }
}
