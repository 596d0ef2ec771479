// SPDX-License-Identifier: GPL-2.0

//! The base round-trip time τ of a path, learned.
//!
//! It believes three things.
//!
//! - **Only a full-size packet knows τ.** A handshake or a small segment spends less time on the wire; a law that
//!   compares full-size packets with such a τ always sees a queue that is not there and never stops shrinking: its
//!   window ends at β/(1 − τ/T), where T is the true base RTT, whatever the bandwidth. So τ is the least RTT of
//!   full-size packets, and until there is one, a guess that allows for their time on the wire.
//! - **Too large costs little, too small costs the link.** A τ too large by x adds a queue of x and nothing else. A
//!   clock that counts in steps may show a minimum one step short: a step is added.
//! - **A queue answers to a smaller window, a longer wire does not.** A flow that fills its link never sees an empty
//!   queue, so τ grows old. When the minimum has not been seen for a while, the flow drains for two rounds at a quarter
//!   of its window. If the RTT falls, there was a queue and τ stays; if it does not, the path itself became longer and
//!   τ follows. Other flows' queues therefore do not creep into τ, as they do into a plain windowed minimum.
//!
//! Phases: `UNSET` → `GUESSED` (from the handshake or small segments) → `LEARNED` ⇄ `DRAINING` → `MEASURING` →
//! `LEARNED`; or `GIVEN`, by an operator, for ever.

use super::law::Path;
use super::math;

/// The least τ: below this, a reciprocal would leave its range.
pub const MIN_TAU_NS: u32 = 500;
/// The largest: 2^30 ns, just over a second, up to which products with a round-trip time stay in 62 bits.
pub const MAX_TAU_NS: u32 = 1 << 30;
/// Before any sample: a typical datacenter round trip under light load.
const UNKNOWN_TAU_NS: u32 = 50_000;
/// A small segment's RTT lacks the wire time of a full packet on the host's link and on the bottleneck, at least.
const GUESS_LINKS: u64 = 2;
/// The RTT "falls" when a drain takes off more than τ/64 beyond the clock's step: less than the τ/20 that a window of
/// one tenth of a BDP leaves behind when it shrinks, more than the wobble of two minima.
const FALL_SHIFT: u32 = 6;
/// One drain may raise τ by a quarter: a longer path is found in a few drains, a wrong verdict does limited harm and
/// the next smaller sample undoes it.
const RISE_SHIFT: u32 = 2;
/// A drain costs a round and a half: at least 256 of them between two keeps the cost below 0.6 %.
const MIN_ROUNDS_SHIFT: u32 = 8;
/// Probe times are kept in 2^10 ns, so that 32 bits last for over an hour.
const TICK_SHIFT: u32 = 10;

const UNSET: u8 = 0;
const GUESSED: u8 = 1;
const LEARNED: u8 = 2;
const DRAINING: u8 = 3;
const MEASURING: u8 = 4;
const GIVEN: u8 = 5;

/// The estimator of one flow.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct BaseRtt {
    /// What the law uses, ns.
    tau_ns: u32,
    /// The least sample it stands on, ns.
    min_ns: u32,
    /// The least full-size sample of this round, ns; 0 = none.
    round_min_ns: u32,
    /// That of the round before a drain began, ns.
    before_ns: u32,
    /// When the next drain is due, in 2^10 ns, wrapping.
    probe_at: u32,
    /// Step of the clock, ns.
    clock_ns: u16,
    phase: u8,
    pad: u8,
}

impl BaseRtt {
    /// The estimator of a flow that starts on `path`.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let mut base = Self {
            clock_ns: path.clock_ns,
            ..Self::default()
        };
        base.tau_ns = UNKNOWN_TAU_NS;
        base.set_path(path);
        if base.phase == UNSET && path.handshake_rtt_ns != 0 {
            base.guess(path.handshake_rtt_ns, path);
        }
        base
    }

    /// Takes over an operator's base RTT and the clock's step.
    pub fn set_path(&mut self, path: &Path) {
        self.clock_ns = path.clock_ns;
        if path.base_rtt_ns != 0 {
            self.tau_ns = path.base_rtt_ns.clamp(MIN_TAU_NS, MAX_TAU_NS);
            self.phase = GIVEN;
        }
    }

    fn guess(&mut self, rtt_ns: u32, path: &Path) {
        let bytes = GUESS_LINKS.wrapping_mul(u64::from(path.wire()));
        let wire_ns = math::mul_div(bytes, math::NS_PER_S, path.line_rate())
            .min(u64::from(MAX_TAU_NS)) as u32;
        self.adopt(rtt_ns.saturating_add(wire_ns));
        self.phase = GUESSED;
    }

    /// τ from a minimum: a step of the clock longer.
    fn adopt(&mut self, min_ns: u32) {
        self.min_ns = min_ns;
        self.tau_ns = min_ns
            .saturating_add(u32::from(self.clock_ns))
            .clamp(MIN_TAU_NS, MAX_TAU_NS);
    }

    /// τ, ns; zero until started, otherwise within [`MIN_TAU_NS`] and [`MAX_TAU_NS`].
    #[inline]
    #[must_use]
    pub fn tau_ns(&self) -> u32 {
        self.tau_ns
    }

    /// Whether the flow must hold back for its queue to drain.
    #[inline]
    #[must_use]
    pub fn draining(&self) -> bool {
        self.phase == DRAINING || self.phase == MEASURING
    }

    /// Whether τ stands on a full-size sample or was given.
    #[must_use]
    pub fn known(&self) -> bool {
        self.phase >= LEARNED
    }

    /// A round-trip time. True when τ changed. `interval_us` as for [`BaseRtt::on_round`].
    #[inline]
    pub fn on_sample(
        &mut self,
        rtt_ns: u32,
        full_size: bool,
        now_ns: u64,
        interval_us: u32,
    ) -> bool {
        if !full_size || self.phase == GIVEN {
            // A lesser sample can still show that the guess is too high.
            return self.phase == UNSET
                && rtt_ns != 0
                && self.first(rtt_ns, GUESSED, now_ns, interval_us);
        }
        if self.round_min_ns == 0 || rtt_ns < self.round_min_ns {
            self.round_min_ns = rtt_ns;
            if self.phase < LEARNED {
                return self.first(rtt_ns, LEARNED, now_ns, interval_us);
            }
            if rtt_ns <= self.min_ns {
                return self.lower(rtt_ns, now_ns, interval_us);
            }
        }
        false
    }

    fn first(&mut self, rtt_ns: u32, phase: u8, now_ns: u64, interval_us: u32) -> bool {
        self.phase = phase;
        self.adopt(rtt_ns);
        self.schedule(now_ns, interval_us);
        true
    }

    /// A sample at the minimum or below it: τ is fresh.
    fn lower(&mut self, rtt_ns: u32, now_ns: u64, interval_us: u32) -> bool {
        self.schedule(now_ns, interval_us);
        let changed = rtt_ns < self.min_ns;
        if changed {
            self.adopt(rtt_ns);
        }
        changed
    }

    fn schedule(&mut self, now_ns: u64, interval_us: u32) {
        let rounds = u64::from(self.tau_ns) << MIN_ROUNDS_SHIFT;
        let wait = u64::from(interval_us).wrapping_mul(1000).max(rounds);
        self.probe_at = (now_ns.wrapping_add(wait) >> TICK_SHIFT) as u32;
    }

    /// The end of a round. True when τ or [`BaseRtt::draining`] changed. `interval_us` is how long a minimum stays
    /// fresh, 0 = for ever. An idle flow needs no drain: its queue is empty as it is.
    pub fn on_round(&mut self, now_ns: u64, interval_us: u32, app_limited: bool) -> bool {
        let round_min_ns = self.round_min_ns;
        self.round_min_ns = 0;
        match self.phase {
            LEARNED if interval_us != 0 && !app_limited && round_min_ns != 0 => {
                if !math::at_or_after((now_ns >> TICK_SHIFT) as u32, self.probe_at) {
                    return false;
                }
                self.before_ns = round_min_ns;
                self.phase = DRAINING;
                true
            }
            DRAINING => {
                self.phase = MEASURING;
                false
            }
            MEASURING => {
                self.phase = LEARNED;
                if round_min_ns != 0 {
                    self.judge(round_min_ns);
                }
                self.schedule(now_ns, interval_us);
                true
            }
            _ => false,
        }
    }

    /// The verdict of a drain.
    fn judge(&mut self, drained_ns: u32) {
        let wobble = (self.tau_ns >> FALL_SHIFT).saturating_add(u32::from(self.clock_ns));
        let fell = self.before_ns.saturating_sub(drained_ns) > wobble;
        if !fell && drained_ns > self.min_ns {
            self.adopt(
                drained_ns.min(
                    self.min_ns
                        .saturating_add(self.min_ns >> RISE_SHIFT)
                        .saturating_add(1),
                ),
            );
        }
    }
}
