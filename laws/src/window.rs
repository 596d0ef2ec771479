// SPDX-License-Identifier: GPL-2.0

//! The congestion window, and what all laws do with it in the same way.
//!
//! It believes that packets delivered are the best clock there is: a round trip is over when a
//! packet is acknowledged that was sent after the round began, however late or early its ACK. Where
//! a law's paper says nothing about loss or ECN, this is what happens, and it is what DCTCP does:
//! halve on loss, once per recovery; go back to slow start on a timeout; on marks, cut by half of
//! their smoothed share, once per round (RFC 8257).

use super::law::{Ack, Path};
use super::math::{self, CWND_SHIFT, MAX_CWND, ONE_PACKET};

/// A remembered window needs less precision than the live one: 14 fractional bits put 2^18 packets
/// into 32 bits.
const SAVED_SHIFT: u32 = CWND_SHIFT - 14;
/// RFC 8257's g: the share of marked packets is smoothed over 16 rounds.
const ECN_GAIN_SHIFT: u32 = 4;
/// However small the window and however long the round trip: so many packets a second. A law learns from
/// ACKs alone; where hosts add milliseconds of their own to each round trip, a hundredth of a packet per
/// round trip would be a packet in seconds, and the way back take minutes. A gigabit link carries a thousand
/// flows at this rate.
pub const LEAST_PACKETS_PER_SECOND: u64 = 64;
/// A share of one, in [`Window::alpha`].
const ALPHA_ONE: u32 = 1 << 10;

/// [`Window::round_end`] is set.
const IN_ROUND: u8 = 1;
/// No growth until the next round ends, because of a loss; two rounds when both are set.
const HOLD: u8 = 2;
const HOLD_MORE: u8 = 4;
/// Slow start runs, up to [`Window::ssthresh`].
const SLOW_START: u8 = 8;

/// The congestion window of one flow and its rounds.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// Packets in Q20; zero = the flow has not started.
    cwnd: u64,
    /// What it was before the last reduction by a loss, Q14; zero = there was none.
    prior: u32,
    /// Where slow start ends, Q14.
    ssthresh: u32,
    /// The round ends when a packet sent after this many deliveries is acknowledged.
    round_end: u32,
    /// Marked packets in this round.
    ce: u16,
    /// Smoothed share of marked packets, 1024 = all.
    alpha: u16,
    /// Payload of a full-size packet, bytes.
    mss: u16,
    /// The same on the wire, bytes.
    wire: u16,
    flags: u8,
    /// Timeouts since the last progress.
    timeouts: u8,
}

impl Window {
    /// The window of a flow that starts with `cwnd` packets (Q20).
    #[must_use]
    pub fn new(path: &Path, cwnd: u64) -> Self {
        let mut window = Self {
            cwnd: cwnd.clamp(1, MAX_CWND),
            ..Self::default()
        };
        window.set_path(path);
        window
    }

    /// Takes over the packet sizes of `path`.
    pub fn set_path(&mut self, path: &Path) {
        self.mss = path.mss();
        self.wire = path.wire();
    }

    /// Packets in Q20; zero until the flow starts.
    #[inline]
    #[must_use]
    pub fn cwnd(&self) -> u64 {
        self.cwnd
    }

    /// Sets the window, within the law's bounds: `min` is not zero and `max` at most [`MAX_CWND`].
    /// While a loss is being repaired it cannot grow.
    #[inline]
    pub fn set(&mut self, cwnd: u64, min: u64, max: u64) {
        let mut max = max;
        if self.in_recovery() {
            max = max.min(self.cwnd);
        }
        self.cwnd = cwnd.min(max).max(min);
    }

    /// The same while no loss is being repaired, as after [`Window::uneventful`].
    #[inline]
    pub fn set_unheld(&mut self, cwnd: u64, min: u64, max: u64) {
        self.cwnd = cwnd.min(max).max(min);
    }

    /// Payload of a full-size packet, bytes.
    #[inline]
    #[must_use]
    pub fn mss(&self) -> u16 {
        self.mss
    }

    /// A full-size packet on the wire, bytes.
    #[inline]
    #[must_use]
    pub fn wire(&self) -> u16 {
        self.wire
    }

    /// Counts an ACK. When it ends a round, the packets delivered in that round.
    #[inline]
    pub fn round_ended(&mut self, ack: &Ack<'_>) -> Option<u32> {
        if ack.ce != 0 {
            self.ce = self.ce.saturating_add(ack.ce.min(u16::MAX as u32) as u16);
        }
        if self.flags & IN_ROUND == 0 {
            self.begin_round(ack);
            return None;
        }
        if !math::at_or_after(ack.prior_delivered, self.round_end) {
            return None;
        }
        let delivered = ack.delivered.wrapping_sub(self.round_end);
        self.begin_round(ack);
        // HOLD_MORE becomes HOLD, HOLD goes.
        self.flags = (self.flags & !(HOLD | HOLD_MORE)) | ((self.flags & HOLD_MORE) >> 1);
        Some(delivered)
    }

    /// Whether `ack` only counts: it ends no round and bears no mark, and neither a loss nor slow
    /// start is under way, for which there are flags, too. [`Window::round_ended`] and [`Window::slow_start`] would do nothing. A
    /// flow that has not started is not in a round.
    #[inline]
    #[must_use]
    pub fn uneventful(&self, ack: &Ack<'_>) -> bool {
        self.steady() && ack.ce == 0 && !math::at_or_after(ack.prior_delivered, self.round_end)
    }

    /// Whether neither a loss nor slow start is under way, and a round is.
    #[inline]
    #[must_use]
    pub fn steady(&self) -> bool {
        self.flags == IN_ROUND
    }

    /// As many packets as are delivered in a round.
    #[inline]
    #[must_use]
    pub fn of_a_round(&self) -> u32 {
        (self.cwnd >> CWND_SHIFT) as u32
    }

    fn begin_round(&mut self, ack: &Ack<'_>) {
        self.round_end = ack.delivered;
        self.flags |= IN_ROUND;
    }

    /// Lets the next ACK begin a new round, as after an idle time.
    #[inline]
    pub fn restart_round(&mut self) {
        self.flags &= !IN_ROUND;
        self.ce = 0;
    }

    /// After an idle time: no more than half of what the window was or `initial`, and a new round.
    #[inline]
    pub fn restart(&mut self, initial: u64, min: u64, max: u64) {
        let cwnd = self.cwnd.min(initial.max(self.cwnd >> 1));
        self.set(cwnd, min, max);
        self.restart_round();
    }

    /// The least pacing rate, bytes per second: [`LEAST_PACKETS_PER_SECOND`].
    #[inline]
    #[must_use]
    pub fn least_rate(&self) -> u64 {
        u64::from(self.mss).wrapping_mul(LEAST_PACKETS_PER_SECOND)
    }

    /// Bytes per second of `cwnd` packets, at most [`MAX_CWND`], in `rtt_ns`, times `gain` in Q10, at
    /// most 10; `u64::MAX`, which is no pacing, when one of the two is zero.
    #[inline]
    #[must_use]
    pub fn rate(&self, cwnd: u64, gain: u64, rtt_ns: u32) -> u64 {
        if gain == 0 || rtt_ns == 0 {
            return u64::MAX;
        }
        let cwnd = (cwnd.wrapping_mul(gain) >> 10).min(MAX_CWND << 4);
        math::rate(cwnd, self.mss, math::reciprocal(rtt_ns)).max(self.least_rate())
    }

    /// DCTCP's answer to the marks of a round in which `delivered` packets arrived: what to take
    /// off the window (Q20).
    pub fn ecn_cut(&mut self, delivered: u32) -> u64 {
        let ce = u32::from(self.ce);
        self.ce = 0;
        let mut alpha = u32::from(self.alpha);
        // Small values must also decay to zero.
        alpha = alpha.saturating_sub((alpha >> ECN_GAIN_SHIFT).max(1));
        if ce == 0 {
            self.alpha = alpha as u16;
            return 0;
        }
        let share = (ce.saturating_mul(ALPHA_ONE >> ECN_GAIN_SHIFT))
            .checked_div(delivered)
            .unwrap_or(ALPHA_ONE);
        alpha = alpha.saturating_add(share).min(ALPHA_ONE);
        self.alpha = alpha as u16;
        // 2^38 of window times 2^10 of share.
        self.cwnd.wrapping_mul(u64::from(alpha)) >> 11
    }

    /// Whether a loss was found less than two rounds ago and not yet repaired.
    #[inline]
    #[must_use]
    pub fn in_recovery(&self) -> bool {
        self.flags & (HOLD | HOLD_MORE) != 0
    }

    /// Remembers the window for an undo.
    #[inline]
    pub fn remember(&mut self) {
        if !self.in_recovery() {
            self.prior = (self.cwnd >> SAVED_SHIFT).min(u32::MAX as u64) as u32;
        }
    }

    /// Remembers the window for an undo, and lets it not grow for up to two rounds.
    #[inline]
    pub fn enter_recovery(&mut self) {
        self.remember();
        self.flags |= HOLD | HOLD_MORE;
    }

    /// RFC 8257 §3.5: a loss halves the window.
    pub fn halve(&mut self, min: u64) {
        if self.in_recovery() {
            return;
        }
        self.enter_recovery();
        self.cwnd = (self.cwnd >> 1).max(min).max(1);
    }

    /// A timeout: slow start from one packet to half the window.
    pub fn collapse(&mut self, min: u64) {
        self.enter_recovery();
        self.timeouts = self.timeouts.saturating_add(1);
        if self.flags & SLOW_START == 0 {
            self.ssthresh = ((self.cwnd >> (SAVED_SHIFT + 1)).min(u32::MAX as u64) as u32).max(1);
            self.flags |= SLOW_START;
        }
        self.cwnd = self.cwnd.min(ONE_PACKET.max(min)).max(1);
        self.flags &= !(HOLD | HOLD_MORE);
    }

    /// Slow start after a timeout: a packet more for each one delivered. None when it does not run.
    #[inline]
    pub fn slow_start(&mut self, ack: &Ack<'_>, min: u64, max: u64) -> Option<()> {
        if self.flags & SLOW_START == 0 {
            return None;
        }
        self.slow_start_step(ack, min, max);
        Some(())
    }

    #[cold]
    #[inline(never)]
    fn slow_start_step(&mut self, ack: &Ack<'_>, min: u64, max: u64) {
        let limit = u64::from(self.ssthresh) << SAVED_SHIFT;
        let grown = self.cwnd.saturating_add(u64::from(ack.acked) << CWND_SHIFT);
        if grown >= limit {
            self.flags &= !SLOW_START;
        }
        self.set(grown.min(limit.max(self.cwnd)), min, max);
    }

    /// Counts a timeout: which it is since the last progress. Before the first the window is
    /// remembered for an undo.
    #[inline]
    pub fn count_timeout(&mut self) -> u8 {
        if self.timeouts == 0 {
            self.remember();
        }
        self.timeouts = self.timeouts.saturating_add(1);
        self.timeouts
    }

    /// Something was delivered: the next timeout is again the first.
    #[inline]
    pub fn forget_timeouts(&mut self) {
        self.timeouts = 0;
    }

    /// The loss is repaired: the window may grow again.
    #[inline]
    pub fn recovered(&mut self) {
        self.flags &= !(HOLD | HOLD_MORE);
        self.timeouts = 0;
    }

    /// Takes back the last reduction by a loss.
    #[inline]
    pub fn undo(&mut self) {
        if self.prior == 0 {
            return;
        }
        self.cwnd = self
            .cwnd
            .max(u64::from(self.prior) << SAVED_SHIFT)
            .min(MAX_CWND);
        self.prior = 0;
        self.flags &= !SLOW_START;
        self.recovered();
    }

    /// Whole packets; the largest number when slow start does not run, as the kernel has it.
    #[inline]
    #[must_use]
    pub fn ssthresh_packets(&self) -> u32 {
        if self.flags & SLOW_START == 0 {
            0x7fff_ffff
        } else {
            (self.ssthresh >> 14).max(2)
        }
    }
}
