// SPDX-License-Identifier: GPL-2.0

//! HPCC (SIGCOMM'19): high precision congestion control from in-band telemetry, window-based as
//! published.
//!
//! It believes that the bytes in flight over a link, its queue and what it sends in a base RTT, are
//! what congestion is, and that they should be a little less than a BDP: η of it. Each link's share
//! U of a BDP in flight is measured; the window becomes W_c/(U/η), plus a small additive increase
//! for fairness. W_c is a reference that changes once per RTT, so that the many ACKs of one RTT
//! react to one queue once, and yet at once.
//!
//! ```text
//! u  = max over links of min(q, q')/(B T) + txRate/B              Algorithm 1, lines 3 to 6
//! U  = (1 − τ/T) U + (τ/T) u                                       line 10
//! U ≥ η or incStage ≥ maxStage:  W = W_c/(U/η) + W_AI              line 14
//! otherwise:                     W = W_c + W_AI                     line 18
//! once per RTT:                  W_c = W, incStage as it was         lines 15 to 21
//! R  = W/T                                                         line 27
//! ```
//!
//! Takes Variable AI and Sampling Frequency. Without telemetry for a round, U is taken from the
//! RTT, with η at an RTT of 9/8 of the base: the paper has no answer, and holding a window blindly
//! is none.

use super::base_rtt::BaseRtt;
use super::derive;
use super::hop::{Interval, LINK_TIME_SHIFT};
use super::law::{Ack, ConfigError, HopHistory, Int, Law, Path, Record};
use super::math::{self, CWND_SHIFT, MAX_CWND, ONE_PACKET};
use super::sampling_frequency::SamplingFrequency;
use super::variable_ai::{self, VariableAi};
use super::window::Window;
use core::num::NonZeroU64;

/// Fractional bits of U.
pub const UTIL_SHIFT: u32 = 24;
/// U of a link with exactly one BDP in flight.
pub const UTIL_ONE: u32 = 1 << UTIL_SHIFT;
/// U is kept from 1/64 to 127.
const MIN_UTIL: u64 = (UTIL_ONE >> 6) as u64;
const MAX_UTIL: u64 = (UTIL_ONE as u64) * 127;
/// Beyond what fills the host's link a sender may have a few packets more, for delayed ACKs.
const BURST_ALLOWANCE: u64 = 4 * ONE_PACKET;

/// The least W_AI: never nothing, or a window could not grow.
const MIN_AI: u64 = ONE_PACKET >> 10;

/// Telemetry came in this round; in the last one.
const INT_NOW: u8 = 1;
const INT_LAST: u8 = 2;
/// An ACK of this round called for a decrease.
const CONGESTED: u8 = 4;

/// What an operator may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// η, percent: the part of a BDP to have in flight. 50 to 99; published 95.
    pub eta_percent: u32,
    /// maxStage: increases in a row before a multiplicative one. 0 to 100; published 5.
    pub max_stage: u32,
    /// Additive increase, Mbit/s; 0 = from `flows_per_host`, as the paper derives it. Up to 10^6.
    pub ai_mbps: u32,
    /// N: W_AI is W_init (1 − η)/N. 1 to 10000.
    pub flows_per_host: u32,
    /// The least window, thousandths of a packet. 1 to 1000.
    pub min_cwnd_millipackets: u32,
    /// The largest, packets. 2 to 262144.
    pub max_cwnd_packets: u32,
    /// Variable AI; congestion is a queue in bytes.
    pub vai: variable_ai::Config,
    /// Sampling Frequency: packets acknowledged between decreases; 0 = once per RTT. Up to 65535.
    pub sampling_acks: u32,
    /// How long a base RTT learned without telemetry stays fresh, us. 0 = for ever, or 1000 to
    /// 10 s.
    pub probe_interval_us: u32,
    /// 1 = answer ECN marks as DCTCP does, 0 = leave them.
    pub ecn: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            eta_percent: 95,
            max_stage: 5,
            ai_mbps: 0,
            flows_per_host: 100,
            min_cwnd_millipackets: 10,
            max_cwnd_packets: 1 << 18,
            vai: variable_ai::Config::hpcc(),
            sampling_acks: 0,
            probe_interval_us: 100_000,
            ecn: 1,
        }
    }
}

/// A checked [`Config`].
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// η in Q24, and 1/η in Q24.
    eta: u32,
    /// (1 − η)/N in Q24.
    ai_share: u64,
    /// Additive increase, bytes per second; 0 = by share.
    ai_rate: u64,
    min_cwnd: u64,
    max_cwnd: u64,
    vai: variable_ai::Params,
    probe_interval_us: u32,
    sampling_acks: u16,
    max_stage: u8,
    ecn: bool,
    /// Variable AI or Sampling Frequency is on.
    mechanisms: bool,
}

/// The largest u of a path's links in Q24, the Δt of that link, zero = there is none, and the longest
/// queue in bytes.
#[derive(Clone, Copy, Default)]
struct Inflight {
    util: u64,
    dt_ns: u32,
    queue: u32,
}

/// HPCC's state.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Hpcc {
    window: Window,
    base: BaseRtt,
    /// W_c, Q20.
    reference: u64,
    /// 2^56/T.
    inverse_t: u64,
    /// HostBw·T, packets in Q20.
    host_bdp: u64,
    vai: VariableAi,
    /// U in Q24; zero = none yet.
    util: u32,
    sampling: SamplingFrequency,
    inc_stage: u8,
    flags: u8,
}

super::assert_state!(Hpcc);

impl Hpcc {
    /// U in Q24; zero before the first sample.
    #[must_use]
    pub fn util(&self) -> u32 {
        self.util
    }

    /// The base RTT in use, ns.
    #[must_use]
    pub fn base_rtt_ns(&self) -> u32 {
        self.base.tau_ns()
    }

    /// W_AI before Variable AI, Q20.
    #[inline]
    fn additive_increase(&self, params: &Params) -> u64 {
        if params.ai_rate == 0 {
            // 2^38 times 2^24.
            return (self.host_bdp.wrapping_mul(params.ai_share) >> 24).max(MIN_AI);
        }
        derive::packets_in(params.ai_rate, self.base.tau_ns(), self.window.wire())
            .clamp(MIN_AI, MAX_CWND)
    }

    /// Brings up to date what depends on T, which was `before_ns`.
    #[cold]
    #[inline(never)]
    fn follow_t(&mut self, before_ns: u32) {
        let t_ns = self.base.tau_ns();
        self.inverse_t = math::reciprocal(t_ns);
        let bdp = math::mul_div(self.host_bdp, u64::from(t_ns), u64::from(before_ns));
        self.host_bdp = bdp.min(MAX_CWND);
    }

    /// Takes over the rate of `path`, which is returned in packets per ns as in [`mod@derive`].
    #[inline(never)]
    fn set_rates(&mut self, path: &Path) -> u64 {
        let packets_per_ns = derive::packets_per_ns(path);
        self.inverse_t = math::reciprocal(self.base.tau_ns());
        self.host_bdp = derive::host_bdp(packets_per_ns, self.base.tau_ns());
        packets_per_ns
    }

    /// A time in ns (Q8) in units of T, Q24; at most 32: 2^13 T times 2^48/T.
    #[inline]
    fn in_t(&self, ns_q8: u64) -> u64 {
        let most = u64::from(self.base.tau_ns()) << 13;
        ns_q8.min(most).wrapping_mul(self.inverse_t >> 8) >> 32
    }

    /// Folds the links of a path into the largest u.
    #[inline(always)]
    fn largest(&self) -> impl Fn(Inflight, &Interval) -> Inflight + '_ {
        move |most, interval| self.larger(most, interval)
    }

    /// The larger of two u, that of a link and `most`, which is of an earlier one.
    #[inline(always)]
    fn larger(&self, most: Inflight, i: &Interval) -> Inflight {
        // Below 2^63 and 2^55.
        let queue = i.link_time(i.qlen_bytes.min(i.prev_qlen_bytes), self.inverse_t);
        let util = i
            .load(u64::from(i.tx_bytes))
            .wrapping_add(queue << (UTIL_SHIFT - LINK_TIME_SHIFT));
        let queue = i.qlen_bytes.max(most.queue);
        if util >= most.util {
            Inflight {
                util,
                dt_ns: i.dt_ns.get(),
                queue,
            }
        } else {
            Inflight { queue, ..most }
        }
    }

    /// MeasureInflight.
    #[inline]
    fn measure(&self, hops: Option<&mut HopHistory>, ack: &Ack<'_>) -> Inflight {
        let interval = match (hops, &ack.int) {
            (Some(hops), Int::Bottleneck(record)) => hops.bottleneck(record, ack.now_ns),
            (Some(hops), Int::Stack([record], wrap)) => hops.first(record, *wrap, ack.now_ns),
            (Some(hops), Int::Stack(records, wrap)) => {
                let now_ns = ack.now_ns as u32;
                let fold = self.largest();
                return hops.any_stack(records, *wrap, now_ns, Default::default(), fold);
            }
            _ => None,
        };
        interval.map_or_else(Inflight::default, |interval| {
            self.larger(Inflight::default(), &interval)
        })
    }

    #[inline(always)]
    fn smooth(&mut self, util: u64, dt_ns: u32) {
        let util = util.clamp(MIN_UTIL, MAX_UTIL) as i64;
        let smooth = i64::from(self.util);
        if smooth == 0 || dt_ns >= self.base.tau_ns() {
            self.util = util as u32;
            return;
        }
        // Δt/T below one in Q32, times a difference below 2^31; a mean of what lies within bounds.
        let weight = (u64::from(dt_ns).wrapping_mul(self.inverse_t) >> 24) as i64;
        let step = util.wrapping_sub(smooth).wrapping_mul(weight) >> 32;
        self.util = smooth.wrapping_add(step) as u32;
    }

    /// ComputeWind, and the reference.
    #[inline]
    fn compute(&mut self, params: &Params, ack: &Ack<'_>, queue: u32, round_ended: bool) {
        let over = self.util >= params.eta;
        let (mut due, mut ai) = (round_ended, self.additive_increase(params));
        if params.mechanisms {
            (due, ai) = self.mechanisms(params, ack, queue, round_ended, over);
        }
        let (cwnd, multiplicative) = self.target(params, ack, ai);
        self.window.set(cwnd, params.min_cwnd, params.max_cwnd);
        if due {
            self.reference = self.window.cwnd();
            self.inc_stage = if multiplicative {
                0
            } else {
                self.inc_stage.saturating_add(1)
            };
        }
    }

    /// ComputeWind with an increase of `ai`: the window, not yet within the law's bounds, and
    /// whether it changes by a factor.
    #[inline(always)]
    fn target(&self, params: &Params, ack: &Ack<'_>, ai: u64) -> (u64, bool) {
        let multiplicative = self.util >= params.eta || self.inc_stage >= params.max_stage;
        let mut cwnd = self.reference;
        if multiplicative {
            // W_c η/U: 2^38 times 2^24.
            if let Some(util) = NonZeroU64::new(u64::from(self.util)) {
                cwnd = cwnd.wrapping_mul(u64::from(params.eta)) / util;
            }
        }
        // Below 2^45 and 2^55.
        cwnd = cwnd.wrapping_add(ai);
        let most = if ack.app_limited {
            self.window.cwnd()
        } else {
            self.host_bdp.wrapping_add(BURST_ALLOWANCE)
        };
        (cwnd.min(most), multiplicative)
    }

    /// Variable AI and Sampling Frequency: whether the reference is to follow, and the increase.
    #[inline(never)]
    fn mechanisms(
        &mut self,
        params: &Params,
        ack: &Ack<'_>,
        queue: u32,
        round_ended: bool,
        over: bool,
    ) -> (bool, u64) {
        if over {
            self.flags |= CONGESTED;
        }
        self.vai.observe(queue);
        let due = self
            .sampling
            .due(params.sampling_acks, ack.acked, over, round_ended);
        let tokens = self.vai.tokens(&params.vai, due);
        // 2^38 times 2^16.
        (
            due,
            self.additive_increase(params)
                .wrapping_mul(u64::from(tokens)),
        )
    }

    /// Whether an ACK brings a measurement and nothing else, as most do.
    #[inline(always)]
    fn steady(&self, params: &Params, ack: &Ack<'_>) -> bool {
        !params.mechanisms
            && self.flags & INT_NOW != 0
            && self.window.uneventful(ack)
            && !self.base.wants(ack.rtt_ns)
            && !self.base.draining()
    }

    /// A steady ACK with a single record, or with what is rarer.
    #[inline(never)]
    fn single_ack(&mut self, params: &Params, hops: &mut HopHistory, ack: &Ack<'_>) -> bool {
        let Some((record, wrap)) = ack.int.single() else {
            return self.any_ack(params, Some(hops), ack);
        };
        let Some(interval) = hops.advance(record, wrap, ack.now_ns) else {
            return self.any_ack(params, Some(hops), ack);
        };
        let inflight = self.larger(Inflight::default(), &interval);
        self.steady_ack(params, ack, inflight)
    }

    /// A steady ACK with a stack of the wire's own format.
    #[inline(never)]
    fn stack_ack(
        &mut self,
        params: &Params,
        hops: &mut HopHistory,
        ack: &Ack<'_>,
        records: &[Record],
    ) -> bool {
        match hops.next_stack(records, ack.now_ns as u32, self.largest()) {
            Ok(inflight) => self.steady_ack(params, ack, inflight),
            Err(Some(most)) => self.changed_stack(params, ack, most, hops),
            Err(None) => self.any_ack(params, Some(hops), ack),
        }
    }

    /// The same when [`HopHistory::next_stack`] could not take the stack to its end; `most` is what
    /// it found until there.
    #[cold]
    #[inline(never)]
    fn changed_stack(
        &mut self,
        params: &Params,
        ack: &Ack<'_>,
        most: Inflight,
        hops: &mut HopHistory,
    ) -> bool {
        let Int::Stack(records, wrap) = ack.int else {
            return false;
        };
        let now_ns = ack.now_ns as u32;
        let inflight = hops.any_stack(records, wrap, now_ns, most, self.largest());
        self.take(params, ack, inflight)
    }

    /// A measurement and nothing else.
    #[inline(always)]
    fn steady_ack(&mut self, params: &Params, ack: &Ack<'_>, inflight: Inflight) -> bool {
        self.smooth(inflight.util, inflight.dt_ns);
        let ai = self.additive_increase(params);
        let (cwnd, _) = self.target(params, ack, ai);
        self.window
            .set_unheld(cwnd, params.min_cwnd, params.max_cwnd);
        true
    }

    /// Any ACK, whatever it brings.
    #[inline(never)]
    fn any_ack(&mut self, params: &Params, hops: Option<&mut HopHistory>, ack: &Ack<'_>) -> bool {
        if !self.started() {
            return false;
        }
        let t_ns = self.base.tau_ns();
        if ack.rtt_ns != 0 && self.base.on_sample(ack.rtt_ns, ack.full_size) {
            self.follow_t(t_ns);
        }
        let inflight = self.measure(hops, ack);
        self.take(params, ack, inflight)
    }

    /// Any ACK and what is in flight, if it says anything of that.
    #[inline(never)]
    fn take(&mut self, params: &Params, ack: &Ack<'_>, inflight: Inflight) -> bool {
        let mut inflight = inflight;
        let ended = self.window.round_ended(ack);
        if let Some(delivered) = ended {
            self.end_round(params, ack, delivered);
        }
        if inflight.dt_ns != 0 {
            self.flags |= INT_NOW;
        } else if self.flags & (INT_NOW | INT_LAST) == 0 && ack.rtt_ns != 0 {
            // No telemetry: the RTT, 9/8 of the base being as full as η.
            let filled = self.in_t(u64::from(ack.rtt_ns) << 8).wrapping_mul(8) / 9;
            let util = math::mul_shift(filled, u64::from(params.eta), UTIL_SHIFT);
            inflight.util = util.min(MAX_UTIL);
            inflight.dt_ns = u32::MAX;
        }
        if self
            .window
            .slow_start(ack, params.min_cwnd, params.max_cwnd)
            .is_some()
        {
            self.follow();
            return true;
        }
        if inflight.dt_ns == 0 || self.base.draining() {
            return ended.is_some();
        }
        self.smooth(inflight.util, inflight.dt_ns);
        self.compute(params, ack, inflight.queue, ended.is_some());
        true
    }

    #[inline(never)]
    fn end_round(&mut self, params: &Params, ack: &Ack<'_>, delivered: u32) {
        let quiet = self.flags & CONGESTED == 0;
        self.flags = (self.flags & INT_NOW) << 1;
        let interval_us = if self.flags & INT_LAST != 0 {
            0
        } else {
            params.probe_interval_us
        };
        let t_ns = self.base.tau_ns();
        if self.base.on_round(interval_us, ack.app_limited) {
            self.follow_t(t_ns);
        }
        if params.vai.enabled {
            self.vai.on_round(&params.vai, 0, quiet);
        }
        if params.ecn {
            let cut = self.window.ecn_cut(delivered);
            if cut != 0 {
                let cwnd = self.window.cwnd().saturating_sub(cut);
                self.window.set(cwnd, params.min_cwnd, params.max_cwnd);
                self.follow();
            }
        }
    }

    fn follow(&mut self) {
        self.reference = self.window.cwnd();
        self.inc_stage = 0;
    }
}

impl Law for Hpcc {
    type Config = Config;
    type Params = Params;
    const NAME: &'static str = "hpcc";

    #[inline]
    fn prepare(c: &Config) -> Result<Params, ConfigError> {
        let check = ConfigError::check;
        let eta = check("eta_percent", c.eta_percent, 50, 99)?;
        let flows = u64::from(check("flows_per_host", c.flows_per_host, 1, 10_000)?);
        if c.probe_interval_us != 0 {
            check("probe_interval_us", c.probe_interval_us, 1000, 10_000_000)?;
        }
        let min = check("min_cwnd_millipackets", c.min_cwnd_millipackets, 1, 1000)?;
        let max = check("max_cwnd_packets", c.max_cwnd_packets, 2, 1 << 18)?;
        Ok(Params {
            eta: ((u64::from(eta) << UTIL_SHIFT) / 100) as u32,
            ai_share: math::div((u64::from(100u32.saturating_sub(eta)) << 24) / 100, flows),
            ai_rate: u64::from(check("ai_mbps", c.ai_mbps, 0, 1_000_000)?).wrapping_mul(125_000),
            min_cwnd: u64::from(min).wrapping_mul(ONE_PACKET) / 1000,
            max_cwnd: u64::from(max) << CWND_SHIFT,
            vai: c.vai.prepare()?,
            probe_interval_us: c.probe_interval_us,
            sampling_acks: check("sampling_acks", c.sampling_acks, 0, 65535)? as u16,
            mechanisms: c.vai.enabled != 0 || c.sampling_acks != 0,
            max_stage: check("max_stage", c.max_stage, 0, 100)? as u8,
            ecn: check("ecn", c.ecn, 0, 1)? != 0,
        })
    }

    #[inline(never)]
    fn start(&mut self, params: &Params, path: &Path, _now_ns: u64) {
        *self = Self {
            base: BaseRtt::new(path),
            ..Self::default()
        };
        let start = derive::first_window(self.set_rates(path), &self.base);
        self.window = Window::new(path, start.min(params.max_cwnd));
        self.follow();
    }

    #[inline(never)]
    fn path_changed(&mut self, _params: &Params, path: &Path) {
        if self.started() {
            self.window.set_path(path);
            self.base.set_path(path);
            self.set_rates(path);
        }
    }

    #[inline]
    fn on_ack(&mut self, params: &Params, hops: Option<&mut HopHistory>, ack: &Ack<'_>) -> bool {
        // No call comes between here, so that no register need be saved for what is soon done.
        if !self.steady(params, ack) {
            return self.any_ack(params, hops, ack);
        }
        match (hops, &ack.int) {
            (Some(hops), Int::Stack(records @ [_, _, ..], wrap)) if wrap.is_stack() => {
                self.stack_ack(params, hops, ack, records)
            }
            (Some(hops), _) => self.single_ack(params, hops, ack),
            (None, _) => false,
        }
    }

    #[inline(never)]
    fn on_loss(&mut self, params: &Params, _now_ns: u64) {
        if self.started() {
            self.window.halve(params.min_cwnd);
            self.follow();
        }
    }

    #[inline(never)]
    fn on_timeout(&mut self, params: &Params, _now_ns: u64) {
        if self.started() {
            self.window.collapse(params.min_cwnd);
            self.follow();
        }
    }

    #[inline(never)]
    fn on_undo(&mut self, _params: &Params) {
        self.window.undo();
        self.follow();
    }

    #[inline(never)]
    fn on_idle_restart(&mut self, params: &Params, _now_ns: u64) {
        if self.started() {
            let cwnd = self.window.cwnd().min(self.host_bdp);
            self.window.set(cwnd, params.min_cwnd, params.max_cwnd);
            self.window.restart_round();
            self.util = 0;
            self.follow();
        }
    }

    #[inline]
    fn cwnd(&self) -> u64 {
        self.base.limit(self.window.cwnd())
    }

    #[inline]
    fn pacing_rate(&self, _params: &Params) -> u64 {
        if !self.started() {
            return 0;
        }
        let mss = self.window.mss();
        let cwnd = self.cwnd().min(self.host_bdp.max(ONE_PACKET));
        math::rate(cwnd, mss, self.inverse_t).max(self.window.least_rate())
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
