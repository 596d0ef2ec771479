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

use super::calm::Ease;
use super::hop::{Interval, LINK_TIME_SHIFT};
use super::law::{Ack, ConfigError, HopHistory, Int, Law, Path, Record};
use super::math::{CWND_SHIFT, MAX_CWND};
use super::theta_powertcp::{
    Config, Params, ThetaPowerTcp, FLAG_GENTLE, FLAG_MEASURED, GENTLE_END, POWER_BOUNDS, POWER_ONE,
    POWER_SHIFT,
};
use super::window::Window;

/// A comparable record came in this round; in the last one. In the flags of θ-PowerTCP. Together
/// with its [`FLAG_GENTLE`] the first is asked on every ACK: one comparison for the two highest bits.
const INT_NOW: u8 = 0x80;
const INT_LAST: u8 = 0x20;
/// The power was measured in this round.
const MEASURED: u8 = 0x10;

/// A flow is calm when its window is within this part, 1/32, of what the law would make it: sooner than
/// θ-PowerTCP it looks closely when others leave.
const CALM_SHIFT: u32 = 5;

/// A queue is at rest when power and voltage differ by less than this part, 1/16.
const REST_SHIFT: u32 = 4;

/// Γ_norm of a hop, Q40, which saturates far above [`POWER_BOUNDS`], and its Δt; zero = there is none.
#[derive(Clone, Copy, Default)]
struct Power {
    norm: u64,
    dt_ns: u64,
}

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

    /// Folds the hops of a path into the largest power. For a sender that waits the current counts
    /// as one: see [`PowerTcp::wait`].
    #[inline(always)]
    fn largest(&self, waits: bool) -> impl Fn(Power, &Interval) -> Power + '_ {
        move |most, interval| self.larger(most, interval, waits)
    }

    /// The larger of two powers, that of a hop and `most`, which is of an earlier one.
    #[inline(always)]
    fn larger(&self, most: Power, i: &Interval, waits: bool) -> Power {
        // λ/b = (Δq + Δtx)/(b Δt).
        let mut current = POWER_ONE as u64;
        if !waits {
            // A queue that shrinks by more than was sent is one that was dropped: no current.
            let bytes = u64::from(i.tx_bytes).wrapping_add(u64::from(i.qlen_bytes));
            current = i.load(bytes.saturating_sub(u64::from(i.prev_qlen_bytes)));
        }
        // 1 + q/(bτ), below 2^48.
        let voltage = i
            .link_time(i.qlen_bytes, self.theta.inverse_tau)
            .wrapping_add(1 << LINK_TIME_SHIFT);
        let norm = current.saturating_mul(voltage);
        if norm >= most.norm {
            Power {
                norm,
                dt_ns: u64::from(i.dt_ns.get()),
            }
        } else {
            most
        }
    }

    /// Algorithm 1, NORMPOWER: the largest Γ_norm of the path.
    #[inline(never)]
    fn norm_power(&self, hops: Option<&mut HopHistory>, ack: &Ack<'_>, waits: bool) -> Power {
        let interval = match (hops, &ack.int) {
            (Some(hops), Int::Bottleneck(record)) => hops.bottleneck(record, ack.now_ns),
            (Some(hops), Int::Stack([record], wrap)) => hops.first(record, *wrap, ack.now_ns),
            (Some(hops), Int::Stack(records, wrap)) => {
                let (now_ns, fold) = (ack.now_ns as u32, self.largest(waits));
                return hops.any_stack(records, *wrap, now_ns, Power::default(), fold);
            }
            _ => None,
        };
        interval.map_or_else(Power::default, |interval| {
            self.larger(Power::default(), &interval, waits)
        })
    }

    /// Takes a power into Γ_smooth, and the window into w_old.
    #[inline(always)]
    fn smooth(&mut self, Power { norm, dt_ns }: Power) {
        let theta = &mut self.theta;
        let (least, most) = (POWER_BOUNDS.0 as u32, POWER_BOUNDS.1 as u64);
        let power = (norm >> LINK_TIME_SHIFT).min(most) as i64;
        let smooth = i64::from(theta.power);
        if smooth == 0 || dt_ns as u32 >= theta.base.tau_ns() {
            theta.power = (power as u32).max(least);
            self.forget_old();
            return;
        }
        // Δt/τ below one in Q24, times a difference below 2^38.
        let weight = (dt_ns.wrapping_mul(theta.inverse_tau) >> 32) as i64;
        let towards = |from: i64, to: i64| {
            from.wrapping_add(to.wrapping_sub(from).wrapping_mul(weight) >> POWER_SHIFT)
        };
        theta.power = (towards(smooth, power) as u32).max(least);
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
    fn wait(&mut self, params: &Params, ack: &Ack<'_>, power: Power) -> bool {
        self.begin_rarely(params, ack);
        self.theta.power = 0;
        self.theta.flags |= INT_NOW | MEASURED;
        self.smooth(power);
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

    /// Whether an ACK brings a measurement and nothing else, as most do.
    #[inline(always)]
    fn steady(&self, ack: &Ack<'_>) -> bool {
        let theta = &self.theta;
        theta.flags & (INT_NOW | FLAG_GENTLE) == INT_NOW
            && theta.window.uneventful(ack)
            && !theta.base.wants(ack.rtt_ns)
            && !theta.waits(ack)
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
        let power = self.larger(Power::default(), &interval, false);
        self.steady_ack(params, ack, power)
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
        match hops.next_stack(records, ack.now_ns as u32, self.largest(false)) {
            Ok(power) => self.steady_ack(params, ack, power),
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
        most: Power,
        hops: &mut HopHistory,
    ) -> bool {
        let Int::Stack(records, wrap) = ack.int else {
            return self.unmeasured(params, ack);
        };
        let now_ns = ack.now_ns as u32;
        let power = hops.any_stack(records, wrap, now_ns, most, self.largest(false));
        self.take(params, ack, power)
    }

    /// A measurement and nothing else.
    #[inline(always)]
    fn steady_ack(&mut self, params: &Params, ack: &Ack<'_>, power: Power) -> bool {
        self.theta.flags |= MEASURED;
        self.smooth(power);
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
        let waits = self.theta.waits(ack);
        let power = self.norm_power(hops, ack, waits);
        if waits && power.dt_ns != 0 {
            return self.wait(params, ack, power);
        }
        self.take(params, ack, power)
    }

    /// Any ACK and the path's power, if it says anything of that.
    #[inline(never)]
    fn take(&mut self, params: &Params, ack: &Ack<'_>, power: Power) -> bool {
        if power.dt_ns == 0 {
            return self.unmeasured(params, ack);
        }
        if self.begin(params, ack) && self.theta.flags & MEASURED != 0 {
            // What a hop did between the last packet of one window and the first of the next, while
            // the sender waited for its flight to shrink, is the doing of neither.
            self.theta.flags = (self.theta.flags & !MEASURED) | INT_NOW;
            return true;
        }
        self.theta.flags |= INT_NOW | MEASURED;
        self.smooth(power);
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
        let ended = self.begin_rarely(params, ack);
        let theta = &mut self.theta;
        let slow = theta
            .window
            .slow_start(ack, params.min_cwnd, params.max_cwnd);
        slow.is_some() || ended
    }

    /// The same where it matters little.
    #[inline(never)]
    fn begin_rarely(&mut self, params: &Params, ack: &Ack<'_>) -> bool {
        self.begin(params, ack)
    }

    /// What every ACK begins with that is not steady. True when it ends a round.
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

    /// Takes what an RTT is without the queues of its path into τ. A flow that joins others never sees their
    /// queue empty, and with it in its τ would take more than its share for ever. What a record tells is the
    /// queue that a packet left behind; it met as long a one only if the queue is at rest, which is when the
    /// power, a mean over τ, is the voltage of now.
    #[cold]
    #[inline(never)]
    fn learn_unqueued(&mut self, ack: &Ack<'_>) {
        let records = match &ack.int {
            Int::Bottleneck(record) => core::slice::from_ref(record),
            Int::Stack(records, _) => records,
            _ => return,
        };
        let (mut all_ns, mut most_ns) = (0u64, 0u64);
        for record in records {
            // 2^32 times 2^31.
            let wait_ns = u64::from(record.qlen_bytes).wrapping_mul(record.inverse_rate.into())
                >> Record::INVERSE_RATE_SHIFT;
            all_ns = all_ns.wrapping_add(wait_ns);
            most_ns = most_ns.max(wait_ns);
        }
        let theta = &mut self.theta;
        let rtt_ns = u64::from(ack.rtt_ns);
        let most_rtt_ns = u64::from(theta.base.tau_ns()) << 5;
        if !ack.full_size || all_ns >= rtt_ns || rtt_ns >= most_rtt_ns {
            return;
        }
        // Below 2^61.
        let voltage = (most_ns.wrapping_mul(theta.inverse_tau) >> 32) as u32;
        let voltage = voltage.wrapping_add(POWER_ONE);
        if theta.power.abs_diff(voltage) > voltage >> REST_SHIFT {
            return;
        }
        let tau_ns = theta.base.tau_ns();
        if theta.base.on_unqueued(rtt_ns.wrapping_sub(all_ns) as u32) {
            theta.follow_tau(tau_ns);
        }
    }

    #[cold]
    #[inline(never)]
    fn end_round(&mut self, params: &Params, ack: &Ack<'_>, delivered: u32) {
        let theta = &mut self.theta;
        theta.flags = (theta.flags & !(INT_NOW | INT_LAST)) | ((theta.flags & INT_NOW) >> 2);
        // The hops show their queues themselves: nothing need be drained to see the path empty.
        theta.base.on_round(0, ack.app_limited);
        if theta.base.learns() {
            self.learn_unqueued(ack);
        }
        let theta = &mut self.theta;
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

    #[inline]
    fn prepare(config: &Config) -> Result<Params, ConfigError> {
        ThetaPowerTcp::prepare(config)
    }

    #[inline]
    fn start(&mut self, params: &Params, path: &Path, now_ns: u64) {
        self.theta.start(params, path, now_ns);
    }

    #[inline]
    fn path_changed(&mut self, params: &Params, path: &Path) {
        self.theta.path_changed(params, path);
    }

    #[inline]
    fn on_ack(&mut self, params: &Params, hops: Option<&mut HopHistory>, ack: &Ack<'_>) -> bool {
        // No call comes between here, so that no register need be saved for what is soon done.
        if !self.steady(ack) {
            return self.any_ack(params, hops, ack);
        }
        match (hops, &ack.int) {
            (Some(hops), Int::Stack(records @ [_, _, ..], wrap)) if wrap.is_stack() => {
                self.stack_ack(params, hops, ack, records)
            }
            (Some(hops), _) => self.single_ack(params, hops, ack),
            (None, _) => self.unmeasured(params, ack),
        }
    }

    /// An eighth of a round: it moves its window with every look.
    #[inline]
    fn calm(&self, params: &Params) -> Ease {
        if !self.theta.base.known() || !self.has_int() {
            return Ease::default();
        }
        self.theta.ease(params, 3, CALM_SHIFT)
    }

    #[inline]
    fn on_loss(&mut self, params: &Params, now_ns: u64) {
        self.theta.on_loss(params, now_ns);
        self.reset_stage();
    }

    #[inline]
    fn on_timeout(&mut self, params: &Params, now_ns: u64) {
        self.theta.on_timeout(params, now_ns);
        self.reset_stage();
    }

    #[inline]
    fn on_undo(&mut self, params: &Params) {
        self.theta.on_undo(params);
        self.reset_stage();
    }

    #[inline]
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
