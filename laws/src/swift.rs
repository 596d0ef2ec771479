// SPDX-License-Identifier: GPL-2.0

//! Swift (SIGCOMM'20): an end-to-end delay and a target for it.
//!
//! It believes that delay is simple and enough: below a target, add; above it, multiply by how far
//! above. The target grows with the hops of a path, and with 1/√cwnd, because the queue that N
//! unsynchronised flows make grows with √N and a flow's window shrinks with N.
//!
//! ```text
//! t    = base + hops ħ + clamp(α/√cwnd + β, 0, fs_range)               §3.5
//!        α = fs_range/(1/√fs_min − 1/√fs_max),  β = −α/√fs_max
//! delay < t:  cwnd += ai acked/cwnd   (cwnd ≥ 1),  ai acked  (cwnd < 1)   Algorithm 1
//! else:       cwnd *= max(1 − β_md (delay − t)/delay, 1 − max_mdf)      at most once per RTT
//! ```
//!
//! With Variable AI or Sampling Frequency the law takes the two changes that paper makes to it
//! (§V-B): windows are computed on every ACK from a reference that changes once per period, and the
//! additive increase happens with or without congestion.
//!
//! The delay is the RTT. A target below the path's base RTT would starve the flow, so a base target
//! of zero, the default, is the learned base RTT and a quarter.

use super::base_rtt::BaseRtt;
use super::derive;
use super::law::{Ack, ConfigError, HopHistory, Law, Path};
use super::math::{self, CWND_SHIFT, ONE_PACKET};
use super::sampling_frequency::SamplingFrequency;
use super::variable_ai::{self, VariableAi};
use super::window::Window;
use core::num::NonZeroU64;

/// The derived target is the base RTT and a quarter, and at least this much more: four full-size
/// packets at 10 Gbit/s.
const MIN_QUEUE_NS: u32 = 5000;

/// One packet, as a divisor.
const ONE: NonZeroU64 = match NonZeroU64::new(ONE_PACKET) {
    Some(one) => one,
    None => NonZeroU64::MIN,
};
/// An additive increase is never nothing, or a window could not grow, and at most a thousand
/// packets.
const MIN_AI: u64 = ONE_PACKET >> 10;
const MAX_AI: u64 = 1000 * ONE_PACKET;

/// An ACK of this round called for a decrease.
const CONGESTED: u8 = 1;

/// What an operator may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Base target, ns; 0 = the learned base RTT and a quarter. 1 us to 1 s.
    pub base_target_ns: u32,
    /// ħ: target per hop, ns. 0 to 1 ms.
    pub hop_ns: u32,
    /// fs_range: the most that flow scaling adds, ns; 0 = no flow scaling. Up to 10 ms.
    pub fs_range_ns: u32,
    /// fs_min_cwnd: flow scaling is full below, thousandths of a packet. 1 to 10^6.
    pub fs_min_millipackets: u32,
    /// fs_max_cwnd: there is none above, thousandths of a packet. 2 to 10^9, above the former.
    pub fs_max_millipackets: u32,
    /// ai: additive increase, thousandths of a packet per RTT; 0 = `ai_mbps`. Up to 10^6.
    pub ai_millipackets: u32,
    /// The same as a rate, Mbit/s.
    pub ai_mbps: u32,
    /// β of the decrease, thousandths. 1 to 1000; published 800.
    pub beta_thousandths: u32,
    /// max_mdf: the largest decrease, thousandths. 1 to 990; published 500.
    pub max_mdf_thousandths: u32,
    /// The least window, thousandths of a packet. 1 to 1000.
    pub min_cwnd_millipackets: u32,
    /// The largest, packets. 2 to 262144.
    pub max_cwnd_packets: u32,
    /// The first, packets. 1 to 262144.
    pub initial_cwnd_packets: u32,
    /// Timeouts in a row after which the window is reset to the least. 1 to 255.
    pub retx_reset_threshold: u32,
    /// Pacing above two packets, percent of cwnd/RTT; 0 = none, as published, or 150 to 1000.
    pub pacing_percent: u32,
    /// Variable AI; congestion is a delay beyond the target in ns.
    pub vai: variable_ai::Config,
    /// Sampling Frequency: packets acknowledged between decreases; 0 = once per RTT. Up to 65535.
    pub sampling_acks: u32,
    /// 1 = answer ECN marks as DCTCP does, 0 = leave them.
    pub ecn: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            base_target_ns: 0,
            hop_ns: 1000,
            fs_range_ns: 100_000,
            fs_min_millipackets: 100,
            fs_max_millipackets: 100_000,
            ai_millipackets: 1000,
            ai_mbps: 50,
            beta_thousandths: 800,
            max_mdf_thousandths: 500,
            min_cwnd_millipackets: 10,
            max_cwnd_packets: 1 << 18,
            initial_cwnd_packets: 10,
            retx_reset_threshold: 5,
            pacing_percent: 200,
            vai: variable_ai::Config::swift(),
            sampling_acks: 0,
            ecn: 1,
        }
    }
}

impl Config {
    /// As Poseidon's evaluation sets it: 25 us, 1 us per hop, 100 us of flow scaling.
    #[must_use]
    pub fn published() -> Self {
        Self {
            base_target_ns: 25_000,
            pacing_percent: 0,
            ..Self::default()
        }
    }
}

/// A checked [`Config`].
#[derive(Clone, Copy, Debug)]
pub struct Params {
    base_target_ns: u32,
    hop_ns: u32,
    fs_range_ns: u64,
    /// α of flow scaling, ns·√packet in Q10, below 2^38.
    fs_alpha: u64,
    /// −β of flow scaling, ns.
    fs_beta_ns: u64,
    /// Packets in Q20, or bytes per second.
    ai: u64,
    ai_rate: u64,
    /// Q20.
    beta: u64,
    min_md: u64,
    min_cwnd: u64,
    max_cwnd: u64,
    initial_cwnd: u64,
    pacing: u64,
    vai: variable_ai::Params,
    sampling_acks: u16,
    retx_reset_threshold: u8,
    ecn: bool,
    /// The variant with a reference window.
    referenced: bool,
}

/// Swift's state.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Swift {
    window: Window,
    base: BaseRtt,
    /// The reference window of the variant, Q20.
    reference: u64,
    vai: VariableAi,
    /// The last round-trip time, ns.
    rtt_ns: u32,
    /// t_last_decrease, ns, wrapping.
    last_decrease_ns: u32,
    sampling: SamplingFrequency,
    hops: u8,
    flags: u8,
    /// Base target and hops, ns.
    path_target_ns: u32,
}

super::assert_state!(Swift);

impl Swift {
    /// The base RTT in use, ns.
    #[must_use]
    pub fn base_rtt_ns(&self) -> u32 {
        self.base.tau_ns()
    }

    /// The target of the present window, ns.
    #[inline]
    #[must_use]
    pub fn target_ns(&self, params: &Params) -> u32 {
        // Two seconds at the most, and 10 ms.
        self.path_target_ns
            .wrapping_add(self.flow_scaling_ns(params))
    }

    /// The part of the target that the path decides.
    fn set_path_target(&mut self, params: &Params) {
        let base = if params.base_target_ns != 0 {
            params.base_target_ns
        } else {
            let tau = self.base.tau_ns();
            tau.saturating_add((tau >> 2).max(MIN_QUEUE_NS))
        };
        let hops = params.hop_ns.wrapping_mul(u32::from(self.hops));
        self.path_target_ns = base.saturating_add(hops).min(1 << 31);
    }

    #[inline]
    fn flow_scaling_ns(&self, params: &Params) -> u32 {
        if params.fs_range_ns == 0 {
            return 0;
        }
        // α in Q10 below 2^34, 1/√cwnd in Q32 below 2^37: in Q16 they stay in 62 bits.
        let inverse_root = math::inverse_sqrt(self.window.cwnd()) >> 16;
        let scaled = params.fs_alpha.wrapping_mul(inverse_root) >> 26;
        let scaled = scaled
            .saturating_sub(params.fs_beta_ns)
            .min(params.fs_range_ns);
        scaled as u32
    }

    #[inline]
    fn may_decrease(&self, now_ns: u64) -> bool {
        (now_ns as u32).wrapping_sub(self.last_decrease_ns) >= self.rtt_ns
    }

    fn shrink(&mut self, params: &Params, cwnd: u64, now_ns: u64) {
        let before = self.window.cwnd();
        self.window.set(cwnd, params.min_cwnd, params.max_cwnd);
        if self.window.cwnd() < before {
            self.last_decrease_ns = now_ns as u32;
        }
        self.reference = self.window.cwnd();
    }

    /// max(1 − β (delay − t)/delay, 1 − max_mdf) in Q20, for delay ≥ t > 0.
    #[inline]
    fn decrease_factor(&self, params: &Params, delay_ns: u32, target_ns: u32) -> u64 {
        let excess = u64::from(delay_ns.saturating_sub(target_ns));
        // 2^32 times 2^20.
        let part = math::div(excess.wrapping_mul(params.beta), u64::from(delay_ns.max(1)));
        ONE_PACKET.saturating_sub(part).max(params.min_md)
    }

    /// The additive increase per RTT, Q20.
    #[inline]
    fn additive_increase(&self, params: &Params) -> u64 {
        if params.ai != 0 {
            return params.ai; // At most MAX_AI, by its bounds.
        }
        derive::packets_in(params.ai_rate, self.rtt_ns, self.window.wire()).clamp(MIN_AI, MAX_AI)
    }

    /// Algorithm 1 as published.
    #[inline]
    fn published(&mut self, params: &Params, ack: &Ack<'_>, target_ns: u32) -> bool {
        let cwnd = self.window.cwnd();
        if ack.rtt_ns < target_ns {
            if ack.app_limited {
                return false;
            }
            // ai·acked/max(cwnd, 1): 2^30 << 20, and what remains below 2^30 times 2^32.
            let ai = self.additive_increase(params);
            let by = (ai << CWND_SHIFT) / NonZeroU64::new(cwnd).unwrap_or(NonZeroU64::MIN).max(ONE);
            let by = by.wrapping_mul(u64::from(ack.acked));
            self.window
                .set(cwnd.wrapping_add(by), params.min_cwnd, params.max_cwnd);
            return true;
        }
        if !self.may_decrease(ack.now_ns) {
            return false;
        }
        let factor = self.decrease_factor(params, ack.rtt_ns, target_ns);
        self.shrink(params, cwnd.wrapping_mul(factor) >> CWND_SHIFT, ack.now_ns);
        true
    }

    /// The variant for Variable AI and Sampling Frequency.
    fn referenced(
        &mut self,
        params: &Params,
        ack: &Ack<'_>,
        target_ns: u32,
        round_ended: bool,
    ) -> bool {
        let over = ack.rtt_ns >= target_ns;
        let factor = if over {
            self.flags |= CONGESTED;
            self.decrease_factor(params, ack.rtt_ns, target_ns)
        } else {
            ONE_PACKET
        };
        self.vai.observe(ack.rtt_ns.saturating_sub(target_ns));
        let due = self
            .sampling
            .due(params.sampling_acks, ack.acked, over, round_ended);
        let tokens = self.vai.tokens(&params.vai, due);
        let ai = self
            .additive_increase(params)
            .saturating_mul(u64::from(tokens));
        let cwnd = (self.reference.wrapping_mul(factor) >> CWND_SHIFT).saturating_add(ai);
        let cwnd = if ack.app_limited {
            cwnd.min(self.window.cwnd())
        } else {
            cwnd
        };
        self.window.set(cwnd, params.min_cwnd, params.max_cwnd);
        if due {
            self.reference = self.window.cwnd();
        }
        true
    }

    #[inline(never)]
    fn end_round(&mut self, params: &Params, ack: &Ack<'_>, delivered: u32) {
        let quiet = self.flags & CONGESTED == 0;
        self.flags = 0;
        self.base.on_round(0, ack.app_limited);
        if params.vai.enabled {
            let target_ns = self.target_ns(params);
            self.vai.on_round(&params.vai, target_ns, quiet);
        }
        if params.ecn {
            let cut = self.window.ecn_cut(delivered);
            if cut != 0 {
                let cwnd = self.window.cwnd().saturating_sub(cut);
                self.shrink(params, cwnd, ack.now_ns);
            }
        }
    }

    fn on_retransmit(&mut self, params: &Params, now_ns: u64) {
        if self.may_decrease(now_ns) {
            let cwnd = self.window.cwnd().wrapping_mul(params.min_md) >> CWND_SHIFT;
            self.shrink(params, cwnd, now_ns);
        }
    }
}

impl Law for Swift {
    type Config = Config;
    type Params = Params;
    const NAME: &'static str = "swift";

    #[inline]
    fn prepare(c: &Config) -> Result<Params, ConfigError> {
        let check = ConfigError::check;
        if c.base_target_ns != 0 {
            check("base_target_ns", c.base_target_ns, 1000, 1_000_000_000)?;
        }
        if c.pacing_percent != 0 {
            check("pacing_percent", c.pacing_percent, 150, 1000)?;
        }
        let thousandths = |value: u32| u64::from(value).wrapping_mul(ONE_PACKET) / 1000;
        let range = check("fs_range_ns", c.fs_range_ns, 0, 10_000_000)?;
        let fs_min = check("fs_min_millipackets", c.fs_min_millipackets, 1, 1_000_000)?;
        let fs_max = check(
            "fs_max_millipackets",
            c.fs_max_millipackets,
            fs_min.saturating_add(fs_min >> 3).saturating_add(1),
            1_000_000_000,
        )?;
        let inverse_root = |x: u32| math::inverse_sqrt(thousandths(x));
        let (at_min, at_max) = (inverse_root(fs_min), inverse_root(fs_max));
        let span = at_min.saturating_sub(at_max).max(1);
        let fs_alpha = math::mul_div(u64::from(range) << 10, 1 << 32, span).min(1 << 38);
        let min = check("min_cwnd_millipackets", c.min_cwnd_millipackets, 1, 1000)?;
        let max = check("max_cwnd_packets", c.max_cwnd_packets, 2, 1 << 18)?;
        let initial = check("initial_cwnd_packets", c.initial_cwnd_packets, 1, 1 << 18)?;
        let max_mdf = check("max_mdf_thousandths", c.max_mdf_thousandths, 1, 990)?;
        let vai = c.vai.prepare()?;
        let sampling_acks = check("sampling_acks", c.sampling_acks, 0, 65535)? as u16;
        Ok(Params {
            base_target_ns: c.base_target_ns,
            hop_ns: check("hop_ns", c.hop_ns, 0, 1_000_000)?,
            fs_range_ns: u64::from(range),
            fs_alpha,
            fs_beta_ns: fs_alpha.wrapping_mul(at_max >> 16) >> 26,
            ai: thousandths(check("ai_millipackets", c.ai_millipackets, 0, 1_000_000)?),
            ai_rate: u64::from(check("ai_mbps", c.ai_mbps, 0, 1_000_000)?).wrapping_mul(125_000),
            beta: thousandths(check("beta_thousandths", c.beta_thousandths, 1, 1000)?),
            min_md: ONE_PACKET.saturating_sub(thousandths(max_mdf)),
            min_cwnd: thousandths(min),
            max_cwnd: u64::from(max) << CWND_SHIFT,
            initial_cwnd: u64::from(initial) << CWND_SHIFT,
            pacing: (u64::from(c.pacing_percent) << 10) / 100,
            referenced: vai.enabled || sampling_acks != 0,
            vai,
            sampling_acks,
            retx_reset_threshold: check("retx_reset_threshold", c.retx_reset_threshold, 1, 255)?
                as u8,
            ecn: check("ecn", c.ecn, 0, 1)? != 0,
        })
    }

    #[inline(never)]
    fn start(&mut self, params: &Params, path: &Path, now_ns: u64) {
        *self = Self {
            window: Window::new(path, params.initial_cwnd.min(params.max_cwnd)),
            base: BaseRtt::new(path),
            rtt_ns: path.handshake_rtt_ns,
            last_decrease_ns: (now_ns as u32).wrapping_sub(1 << 31),
            hops: path.hops,
            ..Self::default()
        };
        self.reference = self.window.cwnd();
        self.set_path_target(params);
    }

    #[inline(never)]
    fn path_changed(&mut self, params: &Params, path: &Path) {
        if self.started() {
            self.window.set_path(path);
            self.base.set_path(path);
            self.hops = path.hops;
            self.set_path_target(params);
        }
    }

    #[inline]
    fn on_ack(&mut self, params: &Params, _hops: Option<&mut HopHistory>, ack: &Ack<'_>) -> bool {
        if !self.started() {
            return false;
        }
        if ack.rtt_ns != 0 {
            self.rtt_ns = ack.rtt_ns;
            if self.base.on_sample(ack.rtt_ns, ack.full_size) {
                self.set_path_target(params);
            }
        }
        let ended = self.window.round_ended(ack);
        if let Some(delivered) = ended {
            self.end_round(params, ack, delivered);
            self.window.forget_timeouts();
        }
        if ack.rtt_ns == 0 {
            return ended.is_some();
        }
        let target_ns = self.target_ns(params);
        if params.referenced {
            self.referenced(params, ack, target_ns, ended.is_some())
        } else {
            self.published(params, ack, target_ns) | ended.is_some()
        }
    }

    /// Algorithm 1, On Fast Recovery.
    #[inline(never)]
    fn on_loss(&mut self, params: &Params, now_ns: u64) {
        if self.started() {
            self.window.forget_timeouts();
            if self.may_decrease(now_ns) {
                self.window.remember();
            }
            self.on_retransmit(params, now_ns);
        }
    }

    /// Algorithm 1, On Retransmit Timeout.
    #[inline(never)]
    fn on_timeout(&mut self, params: &Params, now_ns: u64) {
        if self.started() {
            if self.window.count_timeout() >= params.retx_reset_threshold {
                self.shrink(params, params.min_cwnd, now_ns);
            } else {
                self.on_retransmit(params, now_ns);
            }
        }
    }

    #[inline(never)]
    fn on_undo(&mut self, _params: &Params) {
        self.window.undo();
        self.reference = self.window.cwnd();
    }

    #[inline(never)]
    fn on_idle_restart(&mut self, params: &Params, _now_ns: u64) {
        if self.started() {
            self.window
                .restart(params.initial_cwnd, params.min_cwnd, params.max_cwnd);
            self.reference = self.window.cwnd();
        }
    }

    /// Below a packet, one goes every rtt/cwnd; two, because a sender keeps two in flight.
    #[inline]
    fn pacing_rate(&self, params: &Params) -> u64 {
        if !self.started() {
            return 0;
        }
        let cwnd = self.cwnd();
        let gain = if cwnd < 2 * ONE_PACKET {
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
