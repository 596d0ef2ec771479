// SPDX-License-Identifier: GPL-2.0

//! Sampling Frequency (Snyder and Lebeck, *Fast Convergence to Fairness*, §IV-B).
//!
//! It believes that a law which decreases once per RTT is unfair to slow flows: fast and slow ones
//! decrease equally often. Counted in ACKs instead, a flow with twice the rate decreases twice as
//! often. Increases stay once per RTT; in ACKs they would favour the fast.

/// The mechanism's state.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SamplingFrequency {
    acks: u16,
}

impl SamplingFrequency {
    /// Counts packets acknowledged. Whether the law may now take a decrease (or not) into its
    /// reference: after `every` packets for a decrease, at the end of a round for anything else,
    /// and when `every` is zero, which means off, also for a decrease.
    #[inline]
    pub fn due(&mut self, every: u16, acked: u32, decrease: bool, round_ended: bool) -> bool {
        if every == 0 || !decrease {
            return round_ended;
        }
        self.acks = self.acks.saturating_add(acked.min(u16::MAX as u32) as u16);
        let due = self.acks >= every;
        if due {
            self.acks = self.acks.saturating_sub(every);
        }
        due
    }
}
