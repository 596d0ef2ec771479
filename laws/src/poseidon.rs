// SPDX-License-Identifier: GPL-2.0

//! Poseidon (NSDI'23): max-min fairness from the delay of one hop.
//!
//! It believes that a flow should slow down for a queue only if it has its share there, and that
//! it can know without being told its share: let the delay a flow tolerates, its *target*, fall
//! with its rate. Then the delay of a hop comes to rest at the target of the fastest flow through
//! it, slower flows are below theirs and grow, and a flow yields at the one hop where it is among
//! the fastest: its bottleneck. So the law compares the largest delay of any hop (MPD) with a
//! target for its own rate (MPT), and steps by the distance, on a logarithmic scale:
//!
//! ```text
//! MPT = k + p (ln max − ln rate)/α,  α = ln max − ln min              Eq. 3
//! U   = exp((MPT − MPD)/p · α m)                                      Eq. 4
//! MPD ≤ MPT:  cwnd += (U − 1) acked        on every ACK               Algorithm 1, line 5
//! MPD > MPT:  cwnd *= U                    at most once per RTT       line 8
//! ```
//!
//! With L = log2(max/rate) and s = log2(max/min)/p this is U = 2^(m (L − (MPD − k) s)): two
//! logarithms, one exponential, no division. The sign of the exponent decides between the branches.
//!
//! m = 1 reaches the target rate in one step (Eq. 5): **larger m is faster**. The sentences in §3.3
//! and §5.6.2 that say otherwise contradict Eq. 4 and 5; `tests/poseidon.rs` settles it.
//!
//! Without telemetry on the whole path (§4.1) the delay is the larger of the MPD and what remains
//! of the end-to-end queueing delay when the MPDs of both ways are taken off. Which it is, each
//! flow sees for itself. A single ACK without telemetry says nothing; a round without any does.

use super::base_rtt::BaseRtt;
use super::calm::Ease;
use super::derive::Target;
use super::law::{Ack, ConfigError, Coverage, HopHistory, Int, Law, Path};
use super::math::{self, CWND_SHIFT, LOG_SHIFT, ONE_PACKET};
use super::window::Window;
use core::num::NonZeroU32;

/// Fractional bits of s, log2(max/min)/p per ns: at p = 4 us, 23/4000 is 2^28.6.
const SLOPE_SHIFT: u32 = 36;
/// A rate is a window in Q20 packets per ns and this many bits more.
const RATE_SHIFT: u32 = 24;
/// Fractional bits of m.
const GAIN_SHIFT: u32 = 16;
/// Delays beyond 2^26 ns, 67 ms, count as that, and k is no longer. With p of 4 us at least and
/// rates that span 23 octaves at most, a distance is then below 2^45, and times m below 2^62.
const MAX_DELAY_NS: u32 = 1 << 26;
/// Fractional bits less that [`Poseidon::most`] has than a window.
const MOST_SHIFT: u32 = CWND_SHIFT - 14;
/// Targets beyond a second count as one, when they are computed at all.
const MAX_TARGET_NS: u64 = 1 << 30;
/// Swift's β, for the AIMD ablation: 0.8, as 13/16.
const AIMD_BETA_16: u64 = 13;

/// Telemetry of the whole path came in this round; in the last one.
const INT_NOW: u8 = 1;
const INT_LAST: u8 = 2;
/// It covered a part of it.
const PART_NOW: u8 = 4;
const PART_LAST: u8 = 8;
/// A rate is near that of the target within half an octave: for m = 0.25 a step is then below a tenth of
/// the window, which is less than pacing and delayed ACKs make of it. Q26.
const NEAR_LOG: u64 = 1 << (LOG_SHIFT - 1);

/// What delay the law compares (ablation, §5.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    Mpd,
    EndToEnd,
}

/// How the target depends on the rate (ablation, §5.6.1; Appendix C).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Eq. 3.
    Log,
    /// k + p (rate/max)^q.
    Power,
    /// k + p, whatever the rate.
    Fixed,
}

/// How the window moves (ablation, §5.6.1; Eq. 13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Update {
    /// By the distance, Eq. 4.
    Distance,
    /// By the ratio, Eq. 13.
    Ratio,
    /// Additive increase, multiplicative decrease, as Swift has it.
    Aimd,
}

/// What an operator may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// p, ns; 0 = from the rate and `base_rtt_us`. 4 us to 1 s. All hosts of a network alike.
    pub p_ns: u32,
    /// k, ns; 0 = from the rate and `base_rtt_us`. 50 ns to 67 ms.
    pub k_ns: u32,
    /// The base RTT that p and k are derived for, us: the longest common one of the network. 1 to
    /// 100000.
    pub base_rtt_us: u32,
    /// m, thousandths. 1 to 1999: Eq. 12 asks for m < 2. The larger, the faster.
    pub m_thousandths: u32,
    /// 1 = a flow with a long base RTT takes a smaller m, so as not to ring; 0 = m as it is.
    pub adapt_m: u32,
    /// Mbit/s; 0 = a ten-thousandth of `max_rate_mbps`.
    pub min_rate_mbps: u32,
    /// Mbit/s; 0 = the rate of the host's link. All hosts of a network alike.
    pub max_rate_mbps: u32,
    /// The least update ratio, thousandths; also the answer to a loss. 10 to 999.
    pub min_md_thousandths: u32,
    /// The largest update ratio, thousandths. 1001 to 100000. Eq. 4 asks for 10 at most when m is
    /// 0.25 and rates span 10^4.
    pub max_mi_thousandths: u32,
    /// The least window, thousandths of a packet. 1 to 1000.
    pub min_cwnd_millipackets: u32,
    /// The largest, packets. 2 to 262144.
    pub max_cwnd_packets: u32,
    /// The first, packets; the paper is silent, RFC 6928 says 10. 1 to 262144.
    pub initial_cwnd_packets: u32,
    /// Timeouts in a row after which the window is reset to the least (Algorithm 2). 1 to 255.
    pub retx_reset_threshold: u32,
    /// Pacing above two packets, percent of cwnd/RTT; 0 = none, as the paper has it, or 150 to
    /// 1000. It takes the edge off bursts and must not govern the rate: paced at cwnd/RTT itself, a
    /// sender no longer slows down with its ACKs, the queue integrates, and the loop rings.
    pub pacing_percent: u32,
    /// How long a base RTT learned without telemetry stays fresh, us. 0 = for ever, or 1000 to
    /// 10 s.
    pub probe_interval_us: u32,
    /// 1 = answer ECN marks as DCTCP does, 0 = leave them.
    pub ecn: u32,
    /// 1 = at rest a look or two in a round are enough, 0 = every ACK is looked at.
    pub calm: u32,
    /// Ablation: 0 = maximum per-hop delay, 1 = end-to-end delay.
    pub signal: u32,
    /// Ablation: 0 = logarithmic target (Eq. 3), 1 = power law k + p (rate/max)^q, 2 = k + p.
    pub target: u32,
    /// −q of the power law, thousandths. 1 to 2000; 500 is Swift's flow scaling (Eq. 18).
    pub q_thousandths: u32,
    /// Ablation: 0 = distance (Eq. 4), 1 = ratio (Eq. 13), 2 = AIMD.
    pub update: u32,
    /// m of Eq. 13, ns.
    pub ratio_m_ns: u32,
    /// Additive increase of the AIMD ablation, thousandths of a packet per RTT.
    pub ai_millipackets: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            p_ns: 0,
            k_ns: 0,
            base_rtt_us: 32,
            m_thousandths: 250,
            adapt_m: 1,
            min_rate_mbps: 0,
            max_rate_mbps: 0,
            min_md_thousandths: 500,
            max_mi_thousandths: 10_000,
            min_cwnd_millipackets: 10,
            max_cwnd_packets: 1 << 18,
            initial_cwnd_packets: 10,
            retx_reset_threshold: 5,
            pacing_percent: 200,
            probe_interval_us: 100_000,
            ecn: 1,
            calm: 1,
            signal: 0,
            target: 0,
            q_thousandths: 500,
            update: 0,
            ratio_m_ns: 0,
            ai_millipackets: 1000,
        }
    }
}

impl Config {
    /// The paper's numbers (§5): 200 Gbit/s, base RTTs of a few us, pacing below one packet only.
    #[must_use]
    pub fn published() -> Self {
        Self {
            p_ns: 40_000,
            k_ns: 2000,
            min_rate_mbps: 20,
            max_rate_mbps: 200_000,
            adapt_m: 0,
            pacing_percent: 0,
            ..Self::default()
        }
    }
}

/// A checked [`Config`].
#[derive(Clone, Copy, Debug)]
pub struct Params {
    p_ns: u32,
    k_ns: u32,
    base_rtt_ns: u32,
    /// m in Q16.
    m: u32,
    adapt_m: bool,
    ecn: bool,
    calm: bool,
    signal: Signal,
    shape: Shape,
    update: Update,
    retx_reset_threshold: u8,
    /// −q in Q16.
    q: u32,
    ratio_m_ns: u32,
    /// Packets in Q20.
    ai: u64,
    /// Bytes per second.
    min_rate: u64,
    max_rate: u64,
    /// Ratios in Q20.
    min_md: u64,
    max_mi: u64,
    /// Their logarithms, Q26.
    log_min_md: i64,
    log_max_mi: i64,
    /// Eq. 3 and Eq. 4, no ablation.
    plain: bool,
    min_cwnd: u64,
    max_cwnd: u64,
    initial_cwnd: u64,
    /// Pacing gain in Q10; zero = none.
    pacing: u64,
    probe_interval_us: u32,
}

/// Poseidon's state.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Poseidon {
    window: Window,
    base: BaseRtt,
    /// log2 of max_rate in 2^-44 packets per ns, Q26: from 11 to 54 for any rate and packet.
    log_max: u32,
    /// log2(max_rate/min_rate), Q26.
    range: u32,
    /// log2(max_rate/min_rate)/p per ns, Q36.
    slope: u32,
    k_ns: u32,
    /// m of this flow, Q16.
    gain: u32,
    /// The last round-trip time, ns.
    rtt_ns: u32,
    /// t_last_decrease, ns, wrapping.
    last_decrease_ns: u32,
    /// The window beyond which more is of no use, packets in Q14.
    most: u32,
    flags: u8,
    /// 1 = the rate was near that of the target.
    near: u8,
    pad: [u8; 2],
}

super::assert_state!(Poseidon);

impl Poseidon {
    /// The base RTT in use, ns.
    #[must_use]
    pub fn base_rtt_ns(&self) -> u32 {
        self.base.tau_ns()
    }

    /// The target of the present rate (Eq. 3), ns.
    #[must_use]
    pub fn target_ns(&self, params: &Params) -> u32 {
        if self.rtt_ns == 0 {
            return 0;
        }
        self.mpt_ns(params, self.log_share(self.rtt_ns))
    }

    /// Whether the end-to-end delay takes part.
    #[must_use]
    pub fn brownfield(&self) -> bool {
        self.flags & (INT_NOW | INT_LAST) == 0
    }

    fn set_target(&mut self, params: &Params, path: &Path) {
        let max_rate = if params.max_rate == 0 {
            path.line_rate()
        } else {
            params.max_rate
        };
        let mut target = Target::derive(max_rate, params.base_rtt_ns, path.wire());
        if params.p_ns != 0 {
            target.p_ns = params.p_ns;
        }
        if params.k_ns != 0 {
            target.k_ns = params.k_ns;
        }
        if params.min_rate != 0 {
            target.min_rate = params.min_rate;
        }
        // max_rate < 2^41, so that Q20 of it fits; the sum is below 64 again for any packet.
        let log = |x: u64| i64::from(math::log2(x));
        let packet_ns = log(u64::from(path.wire())).wrapping_add(log(math::NS_PER_S));
        let log_max = log(target.max_rate << CWND_SHIFT)
            .wrapping_add(i64::from(RATE_SHIFT << LOG_SHIFT))
            .wrapping_sub(packet_ns);
        self.log_max = log_max.max(0) as u32;
        // At least an eighth of an octave, so that the target has a slope at all.
        self.range = math::log2(target.max_rate)
            .saturating_sub(math::log2(target.min_rate))
            .max(1 << (LOG_SHIFT - 3));
        let range = u64::from(self.range) << (SLOPE_SHIFT - LOG_SHIFT);
        self.slope = math::div(range, u64::from(target.p_ns)).clamp(1, u32::MAX as u64) as u32;
        self.k_ns = target.k_ns;
        self.set_gain(params);
    }

    fn p_ns(&self) -> u32 {
        let range = u64::from(self.range) << (SLOPE_SHIFT - LOG_SHIFT);
        math::div(range, u64::from(self.slope)).min(u32::MAX as u64) as u32
    }

    /// What max_rate carries in a base RTT and the delay that a flow of a thousandth of it tolerates, 3/4 p + k
    /// when rates span 10^4: a longer window would be a queue, and ACKs seldom meet a longer one on their way
    /// back. Hops show theirs; the host's own does not, and a flow that fills its host's link would grow into
    /// it without end, and take as long to come down when another joins.
    fn set_most(&mut self, params: &Params) {
        let p_ns = self.p_ns();
        let ns = self
            .base
            .tau_ns()
            .saturating_add(p_ns.wrapping_sub(p_ns >> 2));
        let ns = ns.saturating_add(self.k_ns);
        let log = i64::from(self.log_max).wrapping_add(i64::from(math::log2(u64::from(ns))));
        let packets = log.wrapping_sub(i64::from(CWND_SHIFT + RATE_SHIFT) << LOG_SHIFT);
        // Q32, and two packets at the least.
        let most = (math::exp2(packets) >> (32 - CWND_SHIFT)).max(2 * ONE_PACKET);
        self.most = (most.min(params.max_cwnd) >> MOST_SHIFT).min(u32::MAX as u64) as u32;
    }

    /// The largest window, packets in Q20.
    #[inline]
    fn max_cwnd(&self) -> u64 {
        u64::from(self.most) << MOST_SHIFT
    }

    fn set_gain(&mut self, params: &Params) {
        self.set_most(params);
        self.gain = params.m;
        if params.adapt_m {
            let target = Target {
                p_ns: self.p_ns(),
                k_ns: self.k_ns,
                min_rate: 0,
                max_rate: 0,
            };
            self.gain = target.gain(params.m, self.base.tau_ns());
        }
    }

    /// log2(max_rate/rate) in Q26, from 0 at max_rate to `range` at min_rate. `rtt_ns` is not zero.
    #[inline]
    fn log_share(&self, rtt_ns: u32) -> i64 {
        // 2^38 << 24; for any window and an RTT below a second the quotient has 14 bits at least,
        // and 27 for a packet in 100 us.
        let rate = math::div(self.window.cwnd() << RATE_SHIFT, u64::from(rtt_ns));
        let log = i64::from(self.log_max).wrapping_sub(i64::from(math::log2(rate)));
        log.min(i64::from(self.range)).max(0)
    }

    fn mpt_ns(&self, params: &Params, log_share: i64) -> u32 {
        let p_ns = u64::from(self.p_ns());
        let over = match params.shape {
            Shape::Log => math::div((log_share as u64) << 10, u64::from(self.slope)),
            // (rate/max)^q = 2^(−q L); at most 2^26, times p in 2^30.
            Shape::Power => {
                let x = log_share.wrapping_mul(i64::from(params.q)) >> 16;
                math::mul_shift(p_ns, math::exp2(x.min(26 << LOG_SHIFT)), 32)
            }
            Shape::Fixed => p_ns,
        };
        over.saturating_add(u64::from(self.k_ns)).min(MAX_TARGET_NS) as u32
    }

    /// The delay to compare with the target, ns; none when this ACK cannot tell.
    #[inline]
    fn delay_ns(&mut self, params: &Params, ack: &Ack<'_>) -> Option<u32> {
        if let Int::Mpd(mpd) = ack.int {
            if mpd.coverage == Coverage::Full {
                self.flags |= INT_NOW;
                if params.signal == Signal::Mpd {
                    return Some(mpd.forward_ns.min(MAX_DELAY_NS));
                }
            }
        }
        self.brownfield_ns(params, ack)
    }

    /// End-to-end queueing; for an RTT of zero none.
    #[inline]
    fn queueing_ns(&self, rtt_ns: u32) -> u32 {
        rtt_ns.saturating_sub(self.base.tau_ns()).min(MAX_DELAY_NS)
    }

    /// §4.1, and the ablation without MPD.
    #[inline(never)]
    fn brownfield_ns(&mut self, params: &Params, ack: &Ack<'_>) -> Option<u32> {
        let queueing = self.queueing_ns(ack.rtt_ns);
        if self.base.draining() {
            return None;
        }
        if params.signal == Signal::EndToEnd {
            return (ack.rtt_ns != 0).then_some(queueing);
        }
        match ack.int {
            Int::Mpd(mpd) => {
                self.flags |= PART_NOW;
                let seen = mpd.forward_ns.saturating_add(mpd.backward_ns);
                let rest = if ack.rtt_ns == 0 {
                    0
                } else {
                    queueing.saturating_sub(seen)
                };
                Some(mpd.forward_ns.min(MAX_DELAY_NS).max(rest))
            }
            // A stray ACK without telemetry, on a path that has it.
            _ if self.flags & (INT_NOW | INT_LAST | PART_NOW | PART_LAST) != 0 => None,
            _ => (ack.rtt_ns != 0).then_some(queueing),
        }
    }

    /// Whether the last decrease is more than an RTT ago (Algorithm 1, line 7).
    #[inline]
    fn may_decrease(&self, now_ns: u64) -> bool {
        (now_ns as u32).wrapping_sub(self.last_decrease_ns) > self.rtt_ns
    }

    fn decrease(&mut self, params: &Params, ratio: u64, now_ns: u64) {
        // 2^38 times 2^20.
        let cwnd = self.window.cwnd().wrapping_mul(ratio) >> CWND_SHIFT;
        self.shrink(params, cwnd, now_ns);
    }

    fn shrink(&mut self, params: &Params, cwnd: u64, now_ns: u64) {
        let before = self.window.cwnd();
        self.window.set(cwnd, params.min_cwnd, self.max_cwnd());
        if self.window.cwnd() < before {
            self.last_decrease_ns = now_ns as u32;
        }
    }

    /// By less than 2^63.
    #[inline]
    fn grow(&mut self, params: &Params, by: u64) {
        let cwnd = self.window.cwnd().wrapping_add(by);
        self.window.set(cwnd, params.min_cwnd, self.max_cwnd());
    }

    /// Whether to grow, and the update ratio in Q20, of the variants that Eq. 4 is compared with.
    #[cold]
    #[inline(never)]
    fn ablated(&self, params: &Params, log_share: i64, delay_ns: u32) -> (bool, u64) {
        let mpt_ns = self.mpt_ns(params, log_share);
        let grows = delay_ns <= mpt_ns;
        let (target, delay) = (u64::from(mpt_ns), u64::from(delay_ns));
        let ratio = match params.update {
            Update::Distance => {
                let ahead = i64::from(mpt_ns).wrapping_sub(i64::from(delay_ns));
                let distance =
                    ahead.wrapping_mul(i64::from(self.slope)) >> (SLOPE_SHIFT - LOG_SHIFT);
                // Whatever the target, as far as its own bounds.
                self.ratio(params, distance.clamp(-(1 << 45), 1 << 45))
            }
            Update::Ratio => {
                let m = u64::from(params.ratio_m_ns);
                let delay = delay.saturating_add(m).max(1);
                math::div(target.saturating_add(m) << CWND_SHIFT, delay)
            }
            Update::Aimd => {
                let excess = delay.saturating_sub(target).wrapping_mul(AIMD_BETA_16) >> 4;
                ONE_PACKET.saturating_sub(math::div(excess << CWND_SHIFT, delay.max(1)))
            }
        };
        (grows, ratio)
    }

    /// 2^(m·distance) in Q20, between min_md and max_mi.
    #[inline]
    fn ratio(&self, params: &Params, distance: i64) -> u64 {
        // Distances are below 2^45, m below 2^17.
        let exponent = distance.wrapping_mul(i64::from(self.gain)) >> GAIN_SHIFT;
        math::exp2_ratio(exponent.max(params.log_min_md).min(params.log_max_mi))
    }

    /// Algorithm 1, ReceiveACK.
    #[inline]
    fn receive(&mut self, params: &Params, ack: &Ack<'_>, rtt_ns: u32, delay_ns: u32) -> bool {
        let log_share = self.log_share(rtt_ns);
        if !params.plain {
            return self.receive_ablated(params, ack, log_share, delay_ns);
        }
        self.receive_plain(params, ack, log_share, delay_ns)
    }

    #[inline(always)]
    fn receive_plain(
        &mut self,
        params: &Params,
        ack: &Ack<'_>,
        log_share: i64,
        delay_ns: u32,
    ) -> bool {
        let over = i64::from(delay_ns).wrapping_sub(i64::from(self.k_ns));
        let over = over.wrapping_mul(i64::from(self.slope)) >> (SLOPE_SHIFT - LOG_SHIFT);
        let distance = log_share.wrapping_sub(over);
        self.near = u8::from(distance.unsigned_abs() < NEAR_LOG);
        if distance < 0 {
            if !self.may_decrease(ack.now_ns) {
                return false;
            }
            let ratio = self.ratio(params, distance).min(ONE_PACKET - 1);
            self.decrease(params, ratio, ack.now_ns);
        } else {
            if ack.app_limited {
                return false;
            }
            // Eq. 1: never below one, though 2^0 may round to just below. 2^27 times 2^32.
            let by = self.ratio(params, distance).saturating_sub(ONE_PACKET);
            self.grow(params, by.wrapping_mul(u64::from(ack.acked)));
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn receive_ablated(
        &mut self,
        params: &Params,
        ack: &Ack<'_>,
        log_share: i64,
        delay_ns: u32,
    ) -> bool {
        let (grows, ratio) = self.ablated(params, log_share, delay_ns);
        if !grows {
            let may = self.may_decrease(ack.now_ns);
            if may {
                let ratio = ratio.max(params.min_md).min(ONE_PACKET - 1);
                self.decrease(params, ratio, ack.now_ns);
            }
            return may;
        }
        if !ack.app_limited {
            let by = if params.update == Update::Aimd {
                // One increase per RTT: shared among the packets of a window.
                math::div(params.ai << CWND_SHIFT, self.window.cwnd().max(ONE_PACKET))
            } else {
                ratio.min(params.max_mi).saturating_sub(ONE_PACKET)
            };
            // Below 2^31 per packet.
            self.grow(params, by.wrapping_mul(u64::from(ack.acked)));
        }
        !ack.app_limited
    }

    /// Any ACK, whatever it brings.
    #[inline(never)]
    fn any_ack(&mut self, params: &Params, ack: &Ack<'_>) -> bool {
        if !self.started() {
            return false;
        }
        let mut rtt_ns = ack.rtt_ns;
        if rtt_ns == 0 {
            rtt_ns = self.rtt_ns;
        } else if self.base.on_sample(rtt_ns, ack.full_size) {
            self.set_gain(params);
        }
        self.rtt_ns = rtt_ns;
        let mut changed = false;
        if let Some(delivered) = self.window.round_ended(ack) {
            self.end_round(params, ack, delivered);
            changed = true;
        }
        if rtt_ns == 0 {
            return changed;
        }
        match self.delay_ns(params, ack) {
            Some(delay_ns) => self.receive(params, ack, rtt_ns, delay_ns) | changed,
            None => changed,
        }
    }

    #[inline(never)]
    fn end_round(&mut self, params: &Params, ack: &Ack<'_>, delivered: u32) {
        self.window.forget_timeouts();
        self.flags = (self.flags << 1) & (INT_LAST | PART_LAST);
        let interval_us = if self.flags & INT_LAST != 0 {
            0
        } else {
            params.probe_interval_us
        };
        if self.base.on_round(interval_us, ack.app_limited) {
            self.set_gain(params);
        }
        if params.ecn {
            let cut = self.window.ecn_cut(delivered);
            if cut != 0 {
                let cwnd = self.window.cwnd().saturating_sub(cut);
                self.shrink(params, cwnd, ack.now_ns);
            }
        }
    }
}

impl Law for Poseidon {
    type Config = Config;
    type Params = Params;
    const NAME: &'static str = "poseidon";

    #[inline]
    fn prepare(c: &Config) -> Result<Params, ConfigError> {
        let check = ConfigError::check;
        if c.p_ns != 0 {
            check("p_ns", c.p_ns, 4000, Target::MAX_NS)?;
        }
        if c.k_ns != 0 {
            check("k_ns", c.k_ns, 50, MAX_DELAY_NS)?;
        }
        if c.probe_interval_us != 0 {
            check("probe_interval_us", c.probe_interval_us, 1000, 10_000_000)?;
        }
        if c.pacing_percent != 0 {
            check("pacing_percent", c.pacing_percent, 150, 1000)?;
        }
        let mbps = |mbps: u32| u64::from(mbps).wrapping_mul(125_000);
        let max_rate = mbps(check("max_rate_mbps", c.max_rate_mbps, 0, 10_000_000)?);
        let min_most = if c.max_rate_mbps == 0 {
            10_000_000
        } else {
            c.max_rate_mbps / 2
        };
        let min_rate = mbps(check("min_rate_mbps", c.min_rate_mbps, 0, min_most)?);
        let thousandths = |value: u32| u64::from(value).wrapping_mul(ONE_PACKET) / 1000;
        let log = |ratio: u32| {
            i64::from(math::log2(u64::from(ratio))).wrapping_sub(i64::from(math::log2(1000)))
        };
        Ok(Params {
            calm: check("calm", c.calm, 0, 1)? != 0,
            plain: c.target == 0 && c.update == 0,
            log_min_md: log(c.min_md_thousandths),
            log_max_mi: log(c.max_mi_thousandths),
            p_ns: c.p_ns,
            k_ns: c.k_ns,
            base_rtt_ns: check("base_rtt_us", c.base_rtt_us, 1, 100_000)?.wrapping_mul(1000),
            m: (check("m_thousandths", c.m_thousandths, 1, 1999)? << GAIN_SHIFT) / 1000,
            adapt_m: check("adapt_m", c.adapt_m, 0, 1)? != 0,
            ecn: check("ecn", c.ecn, 0, 1)? != 0,
            signal: match check("signal", c.signal, 0, 1)? {
                0 => Signal::Mpd,
                _ => Signal::EndToEnd,
            },
            shape: match check("target", c.target, 0, 2)? {
                0 => Shape::Log,
                1 => Shape::Power,
                _ => Shape::Fixed,
            },
            update: match check("update", c.update, 0, 2)? {
                0 => Update::Distance,
                1 => Update::Ratio,
                _ => Update::Aimd,
            },
            retx_reset_threshold: check("retx_reset_threshold", c.retx_reset_threshold, 1, 255)?
                as u8,
            q: (check("q_thousandths", c.q_thousandths, 1, 2000)? << 16) / 1000,
            ratio_m_ns: check("ratio_m_ns", c.ratio_m_ns, 0, Target::MAX_NS)?,
            ai: thousandths(check("ai_millipackets", c.ai_millipackets, 1, 1_000_000)?),
            min_rate,
            max_rate,
            min_md: thousandths(check("min_md_thousandths", c.min_md_thousandths, 10, 999)?),
            max_mi: thousandths(check(
                "max_mi_thousandths",
                c.max_mi_thousandths,
                1001,
                100_000,
            )?),
            min_cwnd: thousandths(check(
                "min_cwnd_millipackets",
                c.min_cwnd_millipackets,
                1,
                1000,
            )?),
            max_cwnd: u64::from(check("max_cwnd_packets", c.max_cwnd_packets, 2, 1 << 18)?)
                << CWND_SHIFT,
            initial_cwnd: u64::from(check(
                "initial_cwnd_packets",
                c.initial_cwnd_packets,
                1,
                1 << 18,
            )?) << CWND_SHIFT,
            pacing: (u64::from(c.pacing_percent) << 10) / 100,
            probe_interval_us: c.probe_interval_us,
        })
    }

    #[inline(never)]
    fn start(&mut self, params: &Params, path: &Path, now_ns: u64) {
        *self = Self {
            window: Window::new(path, params.initial_cwnd.min(params.max_cwnd)),
            base: BaseRtt::new(path),
            rtt_ns: path.handshake_rtt_ns,
            // Long enough ago.
            last_decrease_ns: (now_ns as u32).wrapping_sub(1 << 31),
            ..Self::default()
        };
        self.set_target(params, path);
    }

    #[inline(never)]
    fn path_changed(&mut self, params: &Params, path: &Path) {
        if self.started() {
            self.window.set_path(path);
            self.base.set_path(path);
            self.set_target(params, path);
        }
    }

    #[inline]
    fn on_ack(&mut self, params: &Params, _hops: Option<&mut HopHistory>, ack: &Ack<'_>) -> bool {
        // Most ACKs bring a delay and nothing else. What is rare is left to `any_ack` before
        // anything is touched, so that here no call comes between, for which registers would have
        // to be saved.
        const INT: u8 = INT_NOW | INT_LAST | PART_NOW | PART_LAST;
        let Some(rtt_ns) = NonZeroU32::new(ack.rtt_ns) else {
            return self.any_ack(params, ack);
        };
        if !self.window.uneventful(ack) || self.base.wants(rtt_ns.get()) || !params.plain {
            return self.any_ack(params, ack);
        }
        let delay_ns = match ack.int {
            Int::Mpd(mpd) if mpd.coverage == Coverage::Full && params.signal == Signal::Mpd => {
                self.flags |= INT_NOW;
                mpd.forward_ns.min(MAX_DELAY_NS)
            }
            Int::None if self.flags & INT == 0 && !self.base.draining() => {
                self.queueing_ns(rtt_ns.get())
            }
            _ => return self.any_ack(params, ack),
        };
        self.rtt_ns = rtt_ns.get();
        let log_share = self.log_share(rtt_ns.get());
        self.receive_plain(params, ack, log_share, delay_ns)
    }

    /// A round: it shrinks its window once in each.
    #[inline]
    fn calm(&self, params: &Params) -> Ease {
        let there = self.near != 0 || self.window.cwnd() >= self.max_cwnd();
        if params.calm && there && self.window.steady() && !self.base.draining() {
            Ease {
                after: 0,
                may: self.window.of_a_round(),
            }
        } else {
            Ease::default()
        }
    }

    /// Algorithm 2, FastRecovery.
    #[inline(never)]
    fn on_loss(&mut self, params: &Params, now_ns: u64) {
        if self.started() {
            self.window.forget_timeouts();
            if self.may_decrease(now_ns) {
                self.window.remember();
                self.decrease(params, params.min_md, now_ns);
            }
        }
    }

    /// Algorithm 2, RetransmitTimeout.
    #[inline(never)]
    fn on_timeout(&mut self, params: &Params, now_ns: u64) {
        if self.started() {
            if self.window.count_timeout() >= params.retx_reset_threshold {
                self.shrink(params, params.min_cwnd, now_ns);
            } else if self.may_decrease(now_ns) {
                self.decrease(params, params.min_md, now_ns);
            }
        }
    }

    #[inline(never)]
    fn on_idle_restart(&mut self, params: &Params, _now_ns: u64) {
        if self.started() {
            // What was learned about the others is old; half of it is kept, as for a loss.
            self.window
                .restart(params.initial_cwnd, params.min_cwnd, self.max_cwnd());
        }
    }

    #[inline]
    fn cwnd(&self) -> u64 {
        self.base.limit(self.window.cwnd())
    }

    /// Algorithm 1, lines 21 to 23: below a packet, one goes every rtt/cwnd. Two, because a sender
    /// keeps two in flight ([`Law::cwnd_packets`]).
    #[inline]
    fn pacing_rate(&self, params: &Params) -> u64 {
        if !self.started() {
            return 0;
        }
        let cwnd = self.cwnd();
        let gain = if cwnd < 2 * ONE_PACKET || self.base.draining() {
            1 << 10
        } else {
            params.pacing
        };
        self.window.rate(cwnd, gain, self.rtt_ns)
    }

    #[inline]
    fn window(&self) -> &Window {
        &self.window
    }

    #[inline]
    fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }
}
