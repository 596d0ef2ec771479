// SPDX-License-Identifier: GPL-2.0

//! PowerTCP (NSDI'22): power-based congestion control from in-band telemetry.
//!
//! It believes what θ-PowerTCP believes ([`super::theta_powertcp`]), and sees more: the hop itself
//! tells what it sent and how its queue grew. So the current is the link's true load, a link that
//! is not full says so, and the window grows by as much as there is room for, at once.
//!
//! ```text
//! λ  = dq/dt + μ,  v = q + bτ                                     Algorithm 1, lines 12 to 16
//! Γ_norm   = λ v / (b² τ) = (Δq + Δtx)/(b Δt) · (1 + q/(bτ))       lines 17 to 19
//! Γ_smooth = (Γ_smooth (τ − Δt) + Γ_norm Δt)/τ                     line 24
//! w        = γ (w_old/Γ_smooth + β) + (1 − γ) w, on every ACK       line 27
//! ```
//!
//! The largest *normalised* power of any hop counts: line 20 compares Γ' with Γ_norm, which would
//! let the fastest link of a path win whether it is congested or not. Nothing here squares a rate,
//! so nothing is lost on slow links.
//!
//! w_old is the window that the power is *of* (Property 1): what a hop reports was sent a base RTT
//! ago, and Γ_smooth is a mean over another. Remembered once per RTT it is half an RTT old on
//! average, and with a queue the law rings. So the window goes through the same filter as the
//! power, once for the way and once for the smoothing: two stages with the time constant τ.
//!
//! The telemetry is a record per hop, or the record of the most congested hop alone, whose id may
//! change from ACK to ACK: each hop is compared with its own last record ([`super::hop`]). An ACK
//! without telemetry, or with none that can be compared yet, changes nothing. After a whole round
//! of such ACKs the law is θ-PowerTCP until telemetry comes back.

use super::hop::Interval;
use super::law::{Ack, ConfigError, HopHistory, Int, Law, Path, Record, Wrap};
use super::math::{CWND_SHIFT, MAX_CWND};
use super::theta_powertcp::{
    Config, Params, ThetaPowerTcp, FLAG_GENTLE, FLAG_MEASURED, GENTLE_END, POWER_BOUNDS, POWER_ONE,
    POWER_SHIFT,
};
use super::window::Window;
use core::num::NonZeroU32;

/// A comparable record came in this round; in the last one. In the flags of θ-PowerTCP.
const INT_NOW: u8 = 0x40;
const INT_LAST: u8 = 0x80;
/// The power was measured in this round.
const MEASURED: u8 = 0x20;

/// PowerTCP's state: that of θ-PowerTCP, into which it turns when telemetry stops.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PowerTcp {
    theta: ThetaPowerTcp,
}

super::assert_state!(PowerTcp);

impl PowerTcp {
    /// The base RTT in use, ns.
    #[must_use]
    pub fn base_rtt_ns(&self) -> u32 {
        self.theta.base_rtt_ns()
    }

    /// Γ_smooth in Q24; zero before the first sample.
    #[must_use]
    pub fn power(&self) -> u32 {
        self.theta.power()
    }

    /// Whether telemetry drives the law at present.
    #[must_use]
    pub fn has_int(&self) -> bool {
        self.theta.flags & (INT_NOW | INT_LAST) != 0
    }

    /// Γ_norm of one hop, Q24.
    #[inline(always)]
    fn hop_power(&self, i: &Interval, waits: bool) -> u64 {
        // λ/b = (Δq + Δtx)/(b Δt), at most 128.
        let mut current = POWER_ONE as u64;
        if !waits {
            // A queue that shrinks by more than was sent is one that was dropped: no current.
            let bytes = u64::from(i.tx_bytes).wrapping_add(u64::from(i.qlen_bytes));
            let load = i.load(bytes.saturating_sub(u64::from(i.prev_qlen_bytes)));
            current = load.min(((POWER_ONE as u64) << 7) - 1);
        }
        // q/(bτ), at most 32.
        let filled = i.link_time(i.qlen_bytes, self.theta.inverse_tau);
        current.wrapping_mul(filled.wrapping_add(POWER_ONE as u64)) >> POWER_SHIFT
    }

    /// Algorithm 1, NORMPOWER: the largest Γ_norm of the path and the Δt of its hop. For a sender
    /// that waits the current counts as one: see [`PowerTcp::wait`].
    #[inline(never)]
    fn norm_power(
        &self,
        hops: Option<&mut HopHistory>,
        ack: &Ack<'_>,
        waits: bool,
    ) -> Option<(u64, NonZeroU32)> {
        let hops = hops?;
        match &ack.int {
            Int::Bottleneck(record) => {
                let interval = hops.bottleneck(record, ack.now_ns)?;
                Some((self.hop_power(&interval, waits), interval.dt_ns))
            }
            Int::Stack(records, wrap) => {
                self.path_power(hops, records, *wrap, ack.now_ns as u32, waits)
            }
            Int::None | Int::Mpd(_) => None,
        }
    }

    #[inline(always)]
    fn path_power(
        &self,
        hops: &mut HopHistory,
        records: &[Record],
        wrap: Wrap,
        now_ns: u32,
        waits: bool,
    ) -> Option<(u64, NonZeroU32)> {
        let (mut most, mut dt_ns) = (0, None);
        for (hop, record) in hops.hops.iter_mut().zip(records) {
            if let Some(interval) = hop.take(record, wrap, now_ns) {
                let power = self.hop_power(&interval, waits);
                if power >= most {
                    (most, dt_ns) = (power, Some(interval.dt_ns));
                }
            }
        }
        Some((most, dt_ns?))
    }

    /// Takes a power into Γ_smooth, and the window into w_old.
    #[inline(always)]
    fn smooth(&mut self, power: u64, dt_ns: NonZeroU32) {
        let theta = &mut self.theta;
        let power = power.max(POWER_BOUNDS.0 as u64).min(POWER_BOUNDS.1 as u64) as i64;
        let smooth = i64::from(theta.power);
        if smooth == 0 || dt_ns.get() >= theta.base.tau_ns() {
            theta.power = power as u32;
            self.forget_old();
            return;
        }
        // Δt/τ below one in Q24, times a difference below 2^38. All terms lie between the bounds of
        // a power, and so does their mean.
        let weight = (u64::from(dt_ns.get()).wrapping_mul(theta.inverse_tau) >> 32) as i64;
        let towards = |from: i64, to: i64| {
            from.wrapping_add(to.wrapping_sub(from).wrapping_mul(weight) >> POWER_SHIFT)
        };
        theta.power = towards(smooth, power) as u32;
        let (cwnd, old) = (theta.window.cwnd() as i64, theta.old_cwnd as i64);
        // The first stage is kept where θ-PowerTCP keeps its last sample.
        let stage = theta.sample as i64;
        theta.old_cwnd = towards(old, stage) as u64;
        theta.sample = towards(stage, cwnd) as u64;
    }

    /// More is in flight than the window allows: the sender waits, as do others that met the same
    /// queue, and the load of the link is not that of their windows. What is in flight is all the
    /// same known, and what the path holds altogether is its voltage: the flow's part of a BDP is
    /// the one over the other.
    #[cold]
    #[inline(never)]
    fn wait(&mut self, params: &Params, hops: Option<&mut HopHistory>, ack: &Ack<'_>) -> bool {
        let Some((power, dt_ns)) = self.norm_power(hops, ack, true) else {
            return self.unmeasured(params, ack);
        };
        self.begin(params, ack);
        self.theta.power = 0;
        self.theta.flags |= INT_NOW | MEASURED;
        self.smooth(power, dt_ns);
        if self
            .theta
            .window
            .slow_start(ack, params.min_cwnd, params.max_cwnd)
            .is_some()
        {
            return true;
        }
        let theta = &mut self.theta;
        theta.old_cwnd = (u64::from(ack.in_flight) << CWND_SHIFT).min(MAX_CWND);
        let cwnd = theta.eq_7(params);
        theta.set_cwnd(params, ack, cwnd, true);
        self.forget_old();
        true
    }

    /// An ACK with a record per hop that is nothing but a measurement. On its own, because the loop
    /// takes all registers there are, and a single record few.
    #[inline(never)]
    fn stack_ack(&mut self, params: &Params, hops: &mut HopHistory, ack: &Ack<'_>) -> bool {
        let Int::Stack(records, wrap) = ack.int else {
            return self.unmeasured(params, ack);
        };
        match self.path_power(hops, records, wrap, ack.now_ns as u32, false) {
            Some((power, dt_ns)) => self.steady_ack(params, ack, power, dt_ns),
            None => self.unmeasured(params, ack),
        }
    }

    /// A measurement and nothing else.
    #[inline(always)]
    fn steady_ack(
        &mut self,
        params: &Params,
        ack: &Ack<'_>,
        power: u64,
        dt_ns: NonZeroU32,
    ) -> bool {
        self.theta.flags |= MEASURED;
        self.smooth(power, dt_ns);
        let cwnd = self.theta.eq_7(params);
        self.theta.set_unheld(params, ack, cwnd);
        true
    }

    /// Any ACK, whatever it brings.
    #[inline(never)]
    fn any_ack(&mut self, params: &Params, hops: Option<&mut HopHistory>, ack: &Ack<'_>) -> bool {
        if !self.started() {
            return false;
        }
        if self.theta.waits(ack) {
            return self.wait(params, hops, ack);
        }
        let Some((power, dt_ns)) = self.norm_power(hops, ack, false) else {
            return self.unmeasured(params, ack);
        };
        if self.begin(params, ack) && self.theta.flags & MEASURED != 0 {
            // What a hop did between the last packet of one window and the first of the next, while
            // the sender waited for its flight to shrink, is the doing of neither.
            self.theta.flags = (self.theta.flags & !MEASURED) | INT_NOW;
            return true;
        }
        self.theta.flags |= INT_NOW | MEASURED;
        self.smooth(power, dt_ns);
        if self
            .theta
            .window
            .slow_start(ack, params.min_cwnd, params.max_cwnd)
            .is_some()
        {
            return true;
        }
        let theta = &mut self.theta;
        let mut cwnd = theta.eq_7(params);
        if theta.flags & FLAG_GENTLE != 0 {
            if theta.power < GENTLE_END {
                let acked = u64::from(ack.acked) << CWND_SHIFT;
                cwnd = theta.window.cwnd().saturating_add(acked);
            } else {
                theta.flags &= !FLAG_GENTLE;
            }
        }
        theta.set_cwnd(params, ack, cwnd, false);
        true
    }

    /// No hop could be compared: stray ACKs change nothing, a round of them makes it θ-PowerTCP.
    #[cold]
    #[inline(never)]
    fn unmeasured(&mut self, params: &Params, ack: &Ack<'_>) -> bool {
        if !self.has_int() {
            return self.theta.on_ack(params, None, ack);
        }
        self.theta.learn(ack);
        let ended = self.round(params, ack);
        let theta = &mut self.theta;
        let slow = theta
            .window
            .slow_start(ack, params.min_cwnd, params.max_cwnd);
        slow.is_some() || ended
    }

    /// What every measured ACK begins with. True when it ends a round.
    #[inline]
    fn begin(&mut self, params: &Params, ack: &Ack<'_>) -> bool {
        if !self.has_int() {
            // Coming from θ-PowerTCP: its power is of another kind.
            self.theta.power = 0;
            self.theta.base.stop_draining();
        }
        self.theta.learn(ack);
        self.round(params, ack)
    }

    #[inline]
    fn round(&mut self, params: &Params, ack: &Ack<'_>) -> bool {
        match self.theta.window.round_ended(ack) {
            Some(delivered) => {
                self.end_round(params, ack, delivered);
                true
            }
            None => false,
        }
    }

    /// After an event that changed the window on its own.
    fn reset_stage(&mut self) {
        if self.has_int() {
            self.forget_old();
        }
    }

    /// w_old is the window, from now on.
    fn forget_old(&mut self) {
        self.theta.old_cwnd = self.theta.window.cwnd();
        self.theta.sample = self.theta.old_cwnd;
    }

    #[inline(never)]
    fn end_round(&mut self, params: &Params, ack: &Ack<'_>, delivered: u32) {
        let theta = &mut self.theta;
        theta.flags = (theta.flags & !(INT_NOW | INT_LAST)) | ((theta.flags & INT_NOW) << 1);
        // The hops show an empty queue themselves: nothing need be drained to see one.
        theta.base.on_round(0, ack.app_limited);
        if params.ecn {
            let cut = theta.window.ecn_cut(delivered);
            if cut != 0 {
                let cwnd = theta.window.cwnd().saturating_sub(cut);
                theta.window.set(cwnd, params.min_cwnd, params.max_cwnd);
                self.forget_old();
            }
        }
        let theta = &mut self.theta;
        if theta.flags & INT_LAST == 0 {
            // From here on as θ-PowerTCP, which has measured nothing yet.
            theta.power = 0;
            theta.old_cwnd = theta.window.cwnd();
            theta.sample = 0;
            theta.flags &= !FLAG_MEASURED;
        }
    }
}

impl Law for PowerTcp {
    type Config = Config;
    type Params = Params;
    const NAME: &'static str = "powertcp";

    #[inline(never)]
    fn prepare(config: &Config) -> Result<Params, ConfigError> {
        ThetaPowerTcp::prepare(config)
    }

    #[inline(never)]
    fn start(&mut self, params: &Params, path: &Path, now_ns: u64) {
        self.theta.start(params, path, now_ns);
    }

    #[inline(never)]
    fn path_changed(&mut self, params: &Params, path: &Path) {
        self.theta.path_changed(params, path);
    }

    #[inline]
    fn on_ack(&mut self, params: &Params, hops: Option<&mut HopHistory>, ack: &Ack<'_>) -> bool {
        // Most ACKs bring a measurement and nothing else. What is rare is left to `any_ack` before
        // anything is touched, so that here no call comes between, for which registers would have
        // to be saved.
        let theta = &self.theta;
        let steady = theta.flags & (INT_NOW | FLAG_GENTLE) == INT_NOW
            && theta.window.uneventful(ack)
            && !theta.base.wants(ack.rtt_ns)
            && !theta.waits(ack);
        if !steady {
            return self.any_ack(params, hops, ack);
        }
        let Some(hops) = hops else {
            return self.unmeasured(params, ack);
        };
        let (place, record, wrap) = if let Int::Stack(records, wrap) = &ack.int {
            let [record] = records else {
                return self.stack_ack(params, hops, ack);
            };
            (0, record, *wrap)
        } else if let Int::Bottleneck(record) = &ack.int {
            (hops.last as usize, record, Wrap::BOTTLENECK)
        } else {
            return self.unmeasured(params, ack);
        };
        let Some(interval) = hops.advance(place, record, wrap, ack.now_ns) else {
            return self.any_ack(params, Some(hops), ack);
        };
        let power = self.hop_power(&interval, false);
        self.steady_ack(params, ack, power, interval.dt_ns)
    }

    #[inline(never)]
    fn on_loss(&mut self, params: &Params, now_ns: u64) {
        self.theta.on_loss(params, now_ns);
        self.reset_stage();
    }

    #[inline(never)]
    fn on_timeout(&mut self, params: &Params, now_ns: u64) {
        self.theta.on_timeout(params, now_ns);
        self.reset_stage();
    }

    #[inline(never)]
    fn on_undo(&mut self, params: &Params) {
        self.theta.on_undo(params);
        self.reset_stage();
    }

    #[inline(never)]
    fn on_idle_restart(&mut self, params: &Params, now_ns: u64) {
        self.theta.on_idle_restart(params, now_ns);
        self.theta.power = 0;
    }

    #[inline]
    fn cwnd(&self) -> u64 {
        self.theta.cwnd()
    }

    #[inline]
    fn pacing_rate(&self, params: &Params) -> u64 {
        self.theta.pacing_rate(params)
    }

    #[inline]
    fn window(&self) -> &Window {
        self.theta.window()
    }

    #[inline]
    fn window_mut(&mut self) -> &mut Window {
        self.theta.window_mut()
    }
}
