// SPDX-License-Identifier: GPL-2.0

//! The base round-trip time τ of a path, learned.
//!
//! It believes four things.
//!
//! - **Only a full-size packet knows τ.** A handshake or a small segment spends less time on the
//!   wire; a law that compares full-size packets with such a τ always sees a queue that is not
//!   there and never stops shrinking: its window ends at β/(1 − τ/T), where T is the true base RTT,
//!   whatever the bandwidth. So τ is the least RTT of full-size packets, and until there is one, a
//!   guess that allows for their time on the wire.
//! - **Too large costs little, too small costs the link.** A τ too large by x adds a queue of x and
//!   nothing else. A clock that counts in steps may show a minimum one step short: a step is added.
//! - **A flow that joins others learns their queue as part of its τ**, takes more than its share by
//!   it and keeps the queue up for the next to learn. So a flow drains now and then: for two rounds
//!   it all but stops, and looks. The waiting is counted in rounds, which flows at one bottleneck
//!   share, first 16, then twice as many each time; and whoever sees the RTT fall joins in. Then
//!   all see the path empty at once, which one alone could never bring about.
//! - **A queue answers to a smaller window, a longer wire does not.** When the RTT does not fall in
//!   three drains running, the path itself has become longer, and τ follows. Otherwise τ never
//!   rises: other flows' queues do not creep into it, as they do into a windowed minimum.
//!
//! Phases: `UNSET` → `GUESSED` (from the handshake or small segments) → `LEARNED` → `DRAINING` →
//! `MEASURING` → `LEARNED`; or `GIVEN`, by an operator, for ever.

use super::law::Path;
use super::math;

/// The least τ: below this, a reciprocal would leave its range.
pub const MIN_TAU_NS: u32 = 500;
/// The largest: 2^30 ns, just over a second, up to which products with an RTT stay in 62 bits.
pub const MAX_TAU_NS: u32 = 1 << 30;
/// Before any sample: a typical datacenter round trip under light load.
const UNKNOWN_TAU_NS: u32 = 50_000;
/// A small segment's RTT lacks the wire time of a full packet on the host's link and on the
/// bottleneck, at least.
const GUESS_LINKS: u64 = 2;
/// An RTT that loses more than τ/16 beyond the clock's step means that another flow drains: less
/// than one of many takes off the queue, which is three quarters of a β of τ/10 at the least; more
/// than the wobble of two minima.
const OTHERS_FALL_SHIFT: u32 = 4;
/// In its own drain a flow looks closer, τ/64: to take a queue for a longer path would raise τ.
const OWN_FALL_SHIFT: u32 = 6;
/// Rounds before the first drain; the wait then doubles up to the configured interval.
const FIRST_WAIT_ROUNDS: u32 = 16;
/// A drain costs two rounds: at least 256 between two, once the flow is no longer young, keep the
/// cost below 0.8 %.
const MIN_WAIT_ROUNDS: u32 = 256;
/// Another's drain is joined after half one's own wait, and after 128 rounds at the latest.
const JOIN_ROUNDS: u32 = 128;
/// A drain that found nothing is repeated this soon.
const REPEAT_ROUNDS: u32 = 32;
/// So many drains running must find the RTT unmoved before τ rises.
const UNMOVED_DRAINS: u8 = 3;
/// The weight of an RTT without its queues: 1/8.
const UNQUEUED_SHIFT: u32 = 3;
/// One within τ/256 says nothing new: what depends on τ takes divisions to bring up to date.
const NEAR_SHIFT: u32 = 8;
/// Doublings of the first wait until 65536 rounds, which is all the counter holds.
const MAX_DRAINS: u8 = 12;

/// Drains of a flow that may still have others' queue in its τ.
const YOUNG_DRAINS: u8 = 2;

const DRAIN_SHIFT: u32 = 2;
const DRAIN_LEAST: u64 = math::ONE_PACKET >> 1;

/// No sample.
const NONE: u32 = u32::MAX;

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
    /// The least full-size sample of this round, ns; [`NONE`] = none yet, 0 = none is wanted.
    round_min_ns: u32,
    /// That of the last round, or of the one before a drain began, ns.
    before_ns: u32,
    /// Rounds since the minimum was seen or looked for, up to 65535.
    rounds: u16,
    /// Step of the clock, ns.
    clock_ns: u16,
    phase: u8,
    /// Drains so far, as far as it matters.
    drains: u8,
    /// Drains running in which the RTT did not fall.
    unmoved: u8,
    pad: u8,
}

impl BaseRtt {
    /// The estimator of a flow that starts on `path`.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let mut base = Self {
            tau_ns: UNKNOWN_TAU_NS,
            round_min_ns: NONE,
            ..Self::default()
        };
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
            self.round_min_ns = 0;
        }
    }

    fn guess(&mut self, rtt_ns: u32, path: &Path) {
        let bytes = GUESS_LINKS.wrapping_mul(u64::from(path.wire()));
        let wire_ns = math::mul_div(bytes, math::NS_PER_S, path.line_rate());
        self.adopt(rtt_ns.saturating_add(wire_ns.min(u64::from(MAX_TAU_NS)) as u32));
        self.phase = GUESSED;
    }

    /// τ from a minimum: a step of the clock longer.
    fn adopt(&mut self, min_ns: u32) {
        let tau_ns = min_ns.saturating_add(u32::from(self.clock_ns));
        self.min_ns = min_ns;
        self.tau_ns = tau_ns.clamp(MIN_TAU_NS, MAX_TAU_NS);
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

    /// What a flow with a window of `cwnd` may use at the moment: all of it, or while draining a
    /// quarter, which empties the queue of thirty like it; no less than half a packet per round, or
    /// the look would take too long.
    #[inline]
    #[must_use]
    pub fn limit(&self, cwnd: u64) -> u64 {
        if self.draining() {
            (cwnd >> DRAIN_SHIFT).max(DRAIN_LEAST.min(cwnd))
        } else {
            cwnd
        }
    }

    /// Breaks a drain off.
    pub fn stop_draining(&mut self) {
        if self.draining() {
            self.phase = LEARNED;
            self.rounds = 0;
        }
    }

    /// Whether τ stands on a full-size sample or was given.
    #[must_use]
    pub fn known(&self) -> bool {
        self.phase >= LEARNED
    }

    /// Whether it has been looked for a few times, is not being looked for, and is so long that a single
    /// sample tells a sixteenth of it.
    #[inline]
    #[must_use]
    pub fn settled(&self) -> bool {
        let confirmed =
            self.phase == GIVEN || (self.phase == LEARNED && self.drains >= YOUNG_DRAINS);
        confirmed && self.tau_ns >> 4 >= u32::from(self.clock_ns)
    }

    /// A round-trip time, not zero. True when τ changed.
    #[inline]
    pub fn on_sample(&mut self, rtt_ns: u32, full_size: bool) -> bool {
        // Nothing is below zero, which is what it is when τ was given.
        rtt_ns < self.round_min_ns && self.on_less(rtt_ns, full_size)
    }

    /// Whether [`BaseRtt::on_sample`] would have something to do.
    #[inline]
    #[must_use]
    pub fn wants(&self, rtt_ns: u32) -> bool {
        rtt_ns < self.round_min_ns
    }

    /// The least sample of a round so far.
    #[inline(never)]
    fn on_less(&mut self, rtt_ns: u32, full_size: bool) -> bool {
        if !full_size {
            if self.phase != UNSET {
                return false;
            }
            self.phase = GUESSED;
            self.adopt(rtt_ns);
            return true;
        }
        self.round_min_ns = rtt_ns;
        let mut most_ns = self.tau_ns;
        if self.phase < LEARNED {
            self.phase = LEARNED;
            most_ns = MAX_TAU_NS;
        } else {
            if rtt_ns > self.min_ns {
                return false;
            }
            self.rounds = 0;
            self.unmoved = 0;
            if rtt_ns == self.min_ns {
                return false;
            }
        }
        self.adopt(rtt_ns);
        // It may have been shorter without the queues.
        self.tau_ns = self.tau_ns.min(most_ns);
        true
    }

    /// Whether [`BaseRtt::on_unqueued`] may have something to do.
    #[inline]
    #[must_use]
    pub fn learns(&self) -> bool {
        self.phase == LEARNED
    }

    /// A full-size round-trip time less the queues that it met, from a law that sees them. True when τ may have changed.
    /// Such samples err to both sides, so that τ is their mean; but it is never longer than the least RTT, for there are
    /// queues that nobody sees, such as that of the host itself.
    pub fn on_unqueued(&mut self, rtt_ns: u32) -> bool {
        let clock_ns = u32::from(self.clock_ns);
        let off = i64::from(rtt_ns.saturating_add(clock_ns)).wrapping_sub(self.tau_ns.into());
        let near = off.unsigned_abs() <= u64::from(self.tau_ns >> NEAR_SHIFT);
        if !self.learns() || near {
            return false;
        }
        let mean_ns = self.tau_ns.wrapping_add((off >> UNQUEUED_SHIFT) as u32);
        let most_ns = self.min_ns.saturating_add(clock_ns);
        self.tau_ns = mean_ns.min(most_ns).max(MIN_TAU_NS);
        true
    }

    /// The end of a round. True when τ or [`BaseRtt::draining`] changed. `interval_us` is how long
    /// a minimum stays fresh, 0 = for ever. An idle flow needs no drain: its queue is empty as it
    /// is.
    pub fn on_round(&mut self, interval_us: u32, app_limited: bool) -> bool {
        if self.phase == GIVEN {
            return false;
        }
        let round_min_ns = self.round_min_ns;
        self.round_min_ns = NONE;
        self.rounds = self.rounds.saturating_add(1);
        match self.phase {
            LEARNED if interval_us != 0 && !app_limited && round_min_ns != NONE => {
                let wait = self.wait_rounds(interval_us);
                let rounds = u32::from(self.rounds);
                let joins = rounds >= JOIN_ROUNDS.min(wait >> 1)
                    && self.fell(round_min_ns, OTHERS_FALL_SHIFT);
                if !joins {
                    self.before_ns = round_min_ns;
                }
                let drains = joins || rounds >= wait;
                if drains {
                    self.phase = DRAINING;
                }
                drains
            }
            DRAINING => {
                // Other flows take what this one leaves within a round: its fall may show only
                // here.
                self.round_min_ns = round_min_ns;
                self.phase = MEASURING;
                false
            }
            MEASURING => {
                self.phase = LEARNED;
                self.drains = self.drains.saturating_add(1).min(MAX_DRAINS);
                self.judge(round_min_ns);
                true
            }
            _ => false,
        }
    }

    /// How many rounds τ is trusted for.
    fn wait_rounds(&self, interval_us: u32) -> u32 {
        if self.unmoved != 0 {
            return REPEAT_ROUNDS;
        }
        let young = FIRST_WAIT_ROUNDS << u32::from(self.drains.min(MAX_DRAINS));
        // A round lasts τ at least.
        let interval_ns = u64::from(interval_us).wrapping_mul(1000);
        let rounds = math::div(interval_ns, u64::from(self.tau_ns)).min(u64::from(u16::MAX)) as u32;
        rounds.max(MIN_WAIT_ROUNDS).min(young)
    }

    /// Whether the RTT fell by more than a part of τ and the clock's step.
    fn fell(&self, rtt_ns: u32, shift: u32) -> bool {
        let wobble = (self.tau_ns >> (shift & 31)).saturating_add(u32::from(self.clock_ns));
        self.before_ns.saturating_sub(rtt_ns) > wobble
    }

    /// The verdict of a drain.
    fn judge(&mut self, drained_ns: u32) {
        self.rounds = 0;
        if drained_ns == NONE || drained_ns <= self.min_ns || self.fell(drained_ns, OWN_FALL_SHIFT)
        {
            self.unmoved = 0;
            return;
        }
        self.unmoved = self.unmoved.saturating_add(1);
        if self.unmoved >= UNMOVED_DRAINS {
            self.unmoved = 0;
            self.adopt(drained_ns.min(self.min_ns.saturating_mul(2)));
        }
    }
}
