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
//! so nothing is lost on slow links. w_old is the window at the end of the last round.
//!
//! The telemetry is a record per hop, or the record of the most congested hop alone, whose id may
//! change from ACK to ACK: each hop is compared with its own last record ([`super::hop`]). An ACK
//! without telemetry, or with none that can be compared yet, changes nothing. After a whole round
//! of such ACKs the law is θ-PowerTCP until telemetry comes back.

use super::hop::Interval;
use super::law::{Ack, ConfigError, HopHistory, Int, Law, Path};
use super::math::{self, CWND_SHIFT, MAX_CWND};
use super::theta_powertcp::{
    Config, Params, ThetaPowerTcp, FLAG_GENTLE, GENTLE_END, MAX_RTT_SHIFT, POWER_BOUNDS, POWER_ONE,
    POWER_SHIFT,
};
use super::window::Window;

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
    #[inline]
    fn hop_power(&self, i: &Interval, least: u64) -> u64 {
        let queued = i64::from(i.qlen_bytes).wrapping_sub(i64::from(i.prev_qlen_bytes));
        let arrived = queued.wrapping_add(i64::from(i.tx_bytes)).max(0) as u64;
        // λ/b in Q24: 2^31 bytes times 2^32 of Q24 ns per byte; below 2^39 after the clamp.
        let busy = arrived.wrapping_mul(u64::from(i.inverse_rate));
        let current = math::div(busy, u64::from(i.dt_ns))
            .max(least)
            .min((POWER_ONE as u64) << 7);
        // q/(bτ) in Q24, at most 32.
        let tau = u64::from(self.theta.base.tau_ns());
        let wait = i.link_ns(i.qlen_bytes).min(tau << MAX_RTT_SHIFT);
        let voltage =
            (wait.wrapping_mul(self.theta.inverse_tau) >> 32).wrapping_add(POWER_ONE as u64);
        current.wrapping_mul(voltage) >> POWER_SHIFT
    }

    /// Algorithm 1, NORMPOWER: the largest Γ_norm of the path and the Δt of its hop.
    #[inline]
    fn norm_power(&self, hops: Option<&mut HopHistory>, ack: &Ack<'_>) -> Option<(u64, u32)> {
        let hops = hops?;
        let least = if self.theta.waits(ack) {
            POWER_ONE.into()
        } else {
            0
        };
        match ack.int {
            Int::Bottleneck(record) => {
                let interval = hops.bottleneck(&record, ack.now_ns)?;
                Some((self.hop_power(&interval, least), interval.dt_ns))
            }
            Int::Stack(records, wrap) => {
                let mut most = None;
                for (hop, record) in hops.hops.iter_mut().zip(records) {
                    let Some(interval) = hop.take(record, wrap, ack.now_ns) else {
                        continue;
                    };
                    let power = self.hop_power(&interval, least);
                    if most.is_none_or(|(largest, _)| power > largest) {
                        most = Some((power, interval.dt_ns));
                    }
                }
                most
            }
            Int::None | Int::Mpd(_) => None,
        }
    }

    #[inline]
    fn smooth(&mut self, power: u64, dt_ns: u32) {
        let tau = self.theta.base.tau_ns();
        let power = power.min(POWER_BOUNDS.1 as u64) as i64;
        let smooth = i64::from(self.theta.power);
        let smooth = if smooth == 0 || dt_ns >= tau {
            power
        } else {
            // Δt/τ below one in Q24, times a difference below 2^31.
            let weight = (u64::from(dt_ns).wrapping_mul(self.theta.inverse_tau) >> 32) as i64;
            smooth.wrapping_add(power.wrapping_sub(smooth).wrapping_mul(weight) >> POWER_SHIFT)
        };
        self.theta.power = smooth.clamp(POWER_BOUNDS.0, POWER_BOUNDS.1) as u32;
    }

    /// More is in flight than the window allows: the sender waits, as do others that met the same
    /// queue, and the load of the link is not that of their windows. What is in flight is all the
    /// same known, and what the path holds altogether is its voltage: the flow's part of a BDP is
    /// the one over the other.
    #[cold]
    #[inline(never)]
    fn wait(&mut self, params: &Params, ack: &Ack<'_>, power: u64) {
        let theta = &mut self.theta;
        theta.power = (power as i64).clamp(POWER_BOUNDS.0, POWER_BOUNDS.1) as u32;
        theta.old_cwnd = (u64::from(ack.in_flight) << CWND_SHIFT).min(MAX_CWND);
        let cwnd = theta.eq_7(params);
        theta.set_cwnd(params, ack, cwnd);
        theta.old_cwnd = theta.window.cwnd();
    }

    #[inline(never)]
    fn end_round(&mut self, params: &Params, ack: &Ack<'_>, delivered: u32) {
        let theta = &mut self.theta;
        theta.flags = (theta.flags & !(INT_NOW | INT_LAST)) | ((theta.flags & INT_NOW) << 1);
        // The hops show an empty queue themselves: nothing need be drained to see one.
        theta.base.on_round(0, ack.app_limited);
        theta.old_cwnd = theta.window.cwnd();
        if params.ecn {
            let cut = theta.window.ecn_cut(delivered);
            if cut != 0 {
                let cwnd = theta.window.cwnd().saturating_sub(cut);
                theta.window.set(cwnd, params.min_cwnd, params.max_cwnd);
                theta.old_cwnd = theta.window.cwnd();
            }
        }
        if theta.flags & INT_LAST == 0 {
            // From here on as θ-PowerTCP, which has measured nothing yet.
            theta.power = 0;
            theta.prev_rtt_ns = 0;
        }
    }
}

impl Law for PowerTcp {
    type Config = Config;
    type Params = Params;
    const NAME: &'static str = "powertcp";

    fn prepare(config: &Config) -> Result<Params, ConfigError> {
        ThetaPowerTcp::prepare(config)
    }

    fn start(&mut self, params: &Params, path: &Path, now_ns: u64) {
        self.theta.start(params, path, now_ns);
    }

    fn path_changed(&mut self, params: &Params, path: &Path) {
        self.theta.path_changed(params, path);
    }

    #[inline]
    fn on_ack(&mut self, params: &Params, hops: Option<&mut HopHistory>, ack: &Ack<'_>) -> bool {
        if !self.started() {
            return false;
        }
        let measured = self.norm_power(hops, ack);
        if measured.is_none() && !self.has_int() {
            return self.theta.on_ack(params, None, ack);
        }
        if !self.has_int() {
            // Coming from θ-PowerTCP: its power is of another kind.
            self.theta.power = 0;
            self.theta.base.stop_draining();
        }
        let theta = &mut self.theta;
        if ack.rtt_ns != 0 && theta.base.on_sample(ack.rtt_ns, ack.full_size) {
            theta.refresh_tau();
        }
        let ended = theta.window.round_ended(ack);
        if let Some(delivered) = ended {
            self.end_round(params, ack, delivered);
        }
        // What a hop did between the last packet of one window and the first of the next, while the
        // sender waited for its flight to shrink, is the doing of neither.
        let measured = if ended.is_some() && self.theta.flags & MEASURED != 0 {
            None
        } else {
            measured
        };
        if ended.is_some() {
            self.theta.flags &= !MEASURED;
        }
        let Some((power, dt_ns)) = measured else {
            let slow = self
                .theta
                .window
                .slow_start(ack, params.min_cwnd, params.max_cwnd);
            return slow.is_some() || ended.is_some();
        };
        self.theta.flags |= INT_NOW | MEASURED;
        if self.theta.waits(ack) {
            self.wait(params, ack, power);
            return true;
        }
        self.smooth(power, dt_ns);
        let slow = self
            .theta
            .window
            .slow_start(ack, params.min_cwnd, params.max_cwnd);
        if slow.is_none() {
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
            theta.set_cwnd(params, ack, cwnd);
        }
        true
    }

    fn on_loss(&mut self, params: &Params, now_ns: u64) {
        self.theta.on_loss(params, now_ns);
    }

    fn on_timeout(&mut self, params: &Params, now_ns: u64) {
        self.theta.on_timeout(params, now_ns);
    }

    fn on_idle_restart(&mut self, params: &Params, now_ns: u64) {
        self.theta.on_idle_restart(params, now_ns);
        self.theta.power = 0;
    }

    fn cwnd(&self) -> u64 {
        self.theta.cwnd()
    }

    fn pacing_rate(&self, params: &Params) -> u64 {
        self.theta.pacing_rate(params)
    }

    fn window(&self) -> &Window {
        self.theta.window()
    }

    fn window_mut(&mut self) -> &mut Window {
        self.theta.window_mut()
    }
}
