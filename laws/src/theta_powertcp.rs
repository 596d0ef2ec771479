// SPDX-License-Identifier: GPL-2.0

//! θ-PowerTCP: power-based congestion control from round-trip times alone (PowerTCP, NSDI'22, §3.5
//! and Appendix D).
//!
//! It believes that the window a path can take is what it takes now, divided by its *power*: how
//! full the path is (RTT over base RTT, the voltage) times how fast it fills (one plus the RTT's
//! gradient, the current). At rest the power is θ/τ, and the window comes to rest at a queue of β,
//! the additive increase. Under congestion this is PowerTCP; on an idle path the current cannot be
//! seen, and the window grows by β per round.
//!
//! ```text
//! Γ_norm   = (dθ/ds + 1) θ/τ                                      Algorithm 2, line 13
//! Γ_smooth = (Γ_smooth (τ − Δs) + Γ_norm Δs) / τ                  line 14
//! w        = γ (w_old/Γ_smooth + β) + (1 − γ) w, once per round    line 20
//! rate     = w/τ                                                  line 6
//! ```
//!
//! Four things are done otherwise than a literal reading would; `tests/theta_powertcp.rs` fails
//! without any of the first, third and fourth:
//! - Time runs at the *sender*: a gradient per time of sending (Δs) is what the proof means by the
//!   current, as a queue grows with what is sent into it. θ̇ + 1 is then Δt/Δs, ACK spacing over
//!   packet spacing, positive whatever happens; per time of ACKs it is 2 − Δs/Δt, the same to first
//!   order, but far below zero when a sender that has just cut its window waits for its flight to
//!   drain, and the window leaps.
//! - Γ_norm Δs is computed as Δt θ/τ: nothing is divided by a time that may be zero. θ is the mean
//!   of two samples.
//! - The first packet of a round belongs to the new window, and the gap before it to no window at
//!   all: neither enters the power of the round.
//! - w_old is the window before the last update. The first ACK of a round ends it; what Γ_smooth
//!   then remembers, the last τ of ACKs, are packets that were sent *before* the last update, under
//!   the window of that time. Pairing Γ with any other window breaks the proof (Eq. 13), and
//!   visibly so: with the present one the window rings at a sixth of the round rate and never comes
//!   to rest.
//!
//! τ comes from [`BaseRtt`]; the law stands and falls with it.

use super::base_rtt::BaseRtt;
use super::calm::Ease;
use super::derive;
use super::law::{Ack, ConfigError, HopHistory, Law, Path};
use super::math::{self, MAX_CWND, ONE_PACKET, RECIPROCAL_SHIFT};
use super::window::Window;
use core::num::NonZeroU64;

/// Fractional bits of a power. 24, because up to 4000 ACKs per round each round down once: 2^-24
/// times 4000 is 0.02 %.
pub const POWER_SHIFT: u32 = 24;
/// Fractional bits of 1/N.
const SHARE_SHIFT: u32 = 24;
/// A path at rest, exactly full, without queue.
pub const POWER_ONE: u32 = 1 << POWER_SHIFT;
/// Power is kept from 1/16 to 127: a window grows at most 16-fold in a round and shrinks to no less
/// than 1/127.
pub(super) const POWER_BOUNDS: (i64, i64) = ((POWER_ONE >> 4) as i64, (POWER_ONE as i64) * 127);
/// An RTT counts as at most 32 base RTTs, which keeps every product below within 62 bits.
pub(super) const MAX_RTT_SHIFT: u32 = 5;
/// The gentle start begins with the kernel's initial window (RFC 6928).
const GENTLE_START: u64 = 10 * ONE_PACKET;
/// ... and ends when the path has become this full: β's own share of a queue is a tenth.
pub(super) const GENTLE_END: u32 = POWER_ONE + (POWER_ONE >> 2);
/// A sender must be able to have this many packets under way beyond what the law asks for, for its
/// peer's delayed ACKs and its own bursts.
const BURST_ALLOWANCE: u64 = 4 * ONE_PACKET;

/// The least β: with a window of a packet and less to the BDP a tenth of it can be next to nothing.
const MIN_BETA: u64 = ONE_PACKET >> 10;

/// The flow is in its gentle start.
pub(super) const FLAG_GENTLE: u8 = 0x40;
/// The power was measured in this round.
pub(super) const FLAG_MEASURED: u8 = 1;

/// A flow is calm when its window is within this part, 1/16, of what the law would make it.
const CALM_SHIFT: u32 = 4;

/// What an operator may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// γ, percent: the weight of a new window against the old. 1 to 100; the paper recommends 90.
    pub gamma_percent: u32,
    /// N: flows expected to share the host's link; β is a window of HostBw·τ/N. 1 to 1000. At rest
    /// a lone flow keeps a queue of τ/N, so that 10 costs a tenth of a base RTT and forgives a τ
    /// that is a tenth too short.
    pub flows_per_host: u32,
    /// 0 = the first round at line rate, as the paper has it; 1 = from ten packets, doubling.
    pub gentle_start: u32,
    /// The least window, thousandths of a packet. 1 to 1000.
    pub min_cwnd_millipackets: u32,
    /// The largest, packets. 2 to 262144.
    pub max_cwnd_packets: u32,
    /// How long a learned base RTT stays fresh, us. 0 = for ever, or 1000 to 10 s.
    pub probe_interval_us: u32,
    /// Added to a learned base RTT, ns, for hosts whose own delays jitter. 0 to 60 us.
    pub base_rtt_margin_ns: u32,
    /// 1 = answer ECN marks as DCTCP does, 0 = leave them.
    pub ecn: u32,
    /// 1 = at rest a look or two in a round are enough, 0 = every ACK is looked at.
    pub calm: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            gamma_percent: 90,
            flows_per_host: 10,
            gentle_start: 0,
            min_cwnd_millipackets: 10,
            max_cwnd_packets: 1 << 18,
            probe_interval_us: 100_000,
            base_rtt_margin_ns: 0,
            ecn: 1,
            calm: 1,
        }
    }
}

/// A checked [`Config`].
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// γ in Q16, 1 to 65536.
    pub(super) gamma: u32,
    /// 1/N in Q24, rounded up: at least 2^24/1000.
    pub(super) share: u64,
    pub(super) min_cwnd: u64,
    pub(super) max_cwnd: u64,
    pub(super) probe_interval_us: u32,
    pub(super) margin_ns: u16,
    pub(super) gentle: bool,
    pub(super) ecn: bool,
    calm: bool,
}

/// θ-PowerTCP's state.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ThetaPowerTcp {
    pub(super) window: Window,
    pub(super) base: BaseRtt,
    /// w_old, Q20: the window before the last update.
    pub(super) old_cwnd: u64,
    /// 2^56/τ.
    pub(super) inverse_tau: u64,
    /// HostBw·τ, packets in Q20.
    host_bdp: u64,
    /// The last sample: its RTT in ns above, when it came in ns, wrapping, below; an RTT of zero =
    /// none. After a gap of more than 4 s the time means nothing, but then Δt only chooses between
    /// weights that all let the new sample win.
    pub(super) sample: u64,
    /// Γ_smooth in Q24; zero = no sample yet.
    pub(super) power: u32,
    pub(super) flags: u8,
    pad: [u8; 3],
}

super::assert_state!(ThetaPowerTcp);

impl ThetaPowerTcp {
    /// The base RTT in use, ns.
    #[must_use]
    pub fn base_rtt_ns(&self) -> u32 {
        self.base.tau_ns()
    }

    /// Γ_smooth in Q24 ([`POWER_ONE`] = exactly full); zero before the first sample.
    #[must_use]
    pub fn power(&self) -> u32 {
        self.power
    }

    /// β: 2^38 times 2^24. Never nothing, or a window could not grow.
    #[inline]
    fn beta(&self, params: &Params) -> u64 {
        (self.host_bdp.wrapping_mul(params.share) >> SHARE_SHIFT).max(MIN_BETA)
    }

    /// What a lone flow can use: HostBw·τ, β, the bursts it cannot avoid, and as much again for a τ
    /// that is too short.
    #[inline]
    fn useful_cwnd(&self) -> u64 {
        (self.host_bdp << 1).wrapping_add(BURST_ALLOWANCE)
    }

    /// Takes an RTT into τ. True when τ changed.
    #[inline]
    pub(super) fn learn(&mut self, ack: &Ack<'_>) -> bool {
        let tau_ns = self.base.tau_ns();
        let changed = ack.rtt_ns != 0 && self.base.on_sample(ack.rtt_ns, ack.full_size);
        if changed {
            self.follow_tau(tau_ns);
        }
        changed
    }

    /// Brings up to date what depends on τ, which was `before_ns`.
    #[cold]
    #[inline(never)]
    pub(super) fn follow_tau(&mut self, before_ns: u32) {
        let tau_ns = self.base.tau_ns();
        self.inverse_tau = math::reciprocal(tau_ns);
        let bdp = math::mul_div(self.host_bdp, u64::from(tau_ns), u64::from(before_ns));
        self.host_bdp = bdp.min(MAX_CWND);
    }

    /// Takes over the rate of `path`, which is returned in packets per ns as in [`mod@derive`].
    #[inline(never)]
    fn set_rates(&mut self, path: &Path) -> u64 {
        let packets_per_ns = derive::packets_per_ns(path);
        self.inverse_tau = math::reciprocal(self.base.tau_ns());
        self.host_bdp = derive::host_bdp(packets_per_ns, self.base.tau_ns());
        packets_per_ns
    }

    /// Algorithm 2, NORMPOWER.
    #[inline]
    fn measure(&mut self, ack: &Ack<'_>) {
        if ack.rtt_ns == 0 {
            return;
        }
        let tau = i64::from(self.base.tau_ns());
        // τ ≤ 2^30, so that the limit fits 35 bits.
        let rtt = i64::from(ack.rtt_ns).min(tau << MAX_RTT_SHIFT);
        let prev_rtt = (self.sample >> 32) as i64;
        let now = ack.now_ns as u32;
        let dt = i64::from(now.wrapping_sub(self.sample as u32));
        // Between the sending of the two packets.
        let ds = dt.wrapping_sub(rtt.wrapping_sub(prev_rtt));
        self.flags |= FLAG_MEASURED;
        self.sample = ((rtt as u64) << 32) | u64::from(now);

        // In units of τ, Q24; |ns| is at most 33τ, and 2^56/τ times that below 2^62.
        let inverse = self.inverse_tau as i64;
        let scale = |ns: i64| ns.wrapping_mul(inverse) >> (RECIPROCAL_SHIFT - POWER_SHIFT);
        let power = if prev_rtt != 0 && ds < tau {
            // Δt = Δs + (θ − θ') is below 33τ here. The products are below 2^30 · 2^30 and, when
            // the step is backwards, 2^30 · 2^31.
            let voltage = scale(rtt.wrapping_add(prev_rtt) >> 1);
            let smooth = i64::from(self.power);
            let fresh = scale(dt).wrapping_mul(voltage);
            let faded = scale(ds).wrapping_mul(smooth);
            smooth.wrapping_add(fresh.wrapping_sub(faded) >> POWER_SHIFT)
        } else {
            lone_power(scale(rtt), prev_rtt, dt, ds)
        };
        self.power = power.max(POWER_BOUNDS.0).min(POWER_BOUNDS.1) as u32;
    }

    /// γ (w_old/Γ_smooth + β) + (1 − γ) w, Eq. 7.
    #[inline(always)]
    pub(super) fn eq_7(&self, params: &Params) -> u64 {
        let now = self.window.cwnd();
        // 2^38 << 24 fits 62 bits; Γ is 1/16 at least, and so the quotient below 2^43.
        let Some(power) = NonZeroU64::new(u64::from(self.power)) else {
            return now;
        };
        let target = ((self.old_cwnd << POWER_SHIFT) / power).wrapping_add(self.beta(params));
        // γ in Q16.
        let step = (target as i64)
            .wrapping_sub(now as i64)
            .wrapping_mul(i64::from(params.gamma));
        (now as i64).wrapping_add(step >> 16) as u64
    }

    /// Whether much more is in flight than the window allows: an eighth and two packets, so that a
    /// window which breathes does not count as one that was cut.
    #[inline]
    pub(super) fn waits(&self, ack: &Ack<'_>) -> bool {
        // In eighths; the window is below 2^39.
        let most = (self.window.cwnd().wrapping_mul(9)).wrapping_add(16 * ONE_PACKET);
        u64::from(ack.in_flight) << (math::CWND_SHIFT + 3) > most
    }

    /// Sets the window. It does not grow when the application did not fill it, nor while the sender
    /// waits: after a cut the load it sees is of senders waiting like itself, and not of their
    /// windows.
    #[inline(always)]
    pub(super) fn set_cwnd(&mut self, params: &Params, ack: &Ack<'_>, cwnd: u64, waits: bool) {
        let most = if ack.app_limited || waits {
            self.window.cwnd()
        } else {
            self.useful_cwnd()
        };
        self.window
            .set(cwnd.min(most), params.min_cwnd, params.max_cwnd);
    }

    /// The same where [`Window::uneventful`] said that no loss is being repaired, and the sender
    /// does not wait.
    #[inline(always)]
    pub(super) fn set_unheld(&mut self, params: &Params, ack: &Ack<'_>, cwnd: u64) {
        let most = if ack.app_limited {
            self.window.cwnd()
        } else {
            self.useful_cwnd()
        };
        self.window
            .set_unheld(cwnd.min(most), params.min_cwnd, params.max_cwnd);
    }

    /// Whether nothing is under way, and Eq. 7 would leave the window as it is but for `1/2^slack` of it. That
    /// is so twice in every swing, and so it has to be for a round. Then `1/2^part` of a round may pass; of a
    /// whole one so much more that every look ends one.
    #[inline]
    pub(super) fn ease(&self, params: &Params, part: u32, slack: u32) -> Ease {
        // Windows in Q8, below 2^26, times a power below 2^30.
        let (now, power) = (self.window.cwnd() >> 12, u64::from(self.power));
        let kept = now
            .saturating_sub(self.beta(params) >> 12)
            .wrapping_mul(power);
        let off = kept.abs_diff((self.old_cwnd >> 12) << POWER_SHIFT);
        let rests = params.calm
            && self.window.steady()
            && self.flags & FLAG_GENTLE == 0
            && power != 0
            && off <= now.wrapping_mul(power) >> (slack & 31);
        if !rests {
            return Ease::default();
        }
        let after = self.window.of_a_round();
        Ease {
            after,
            may: after.wrapping_add(after >> 3) >> (part & 31),
        }
    }

    /// Algorithm 2, UPDATEWINDOW.
    fn update(&mut self, params: &Params, ack: &Ack<'_>, delivered: u32) {
        let cut = if params.ecn {
            self.window.ecn_cut(delivered)
        } else {
            0
        };
        let now = self.window.cwnd();
        let mut cwnd = self.eq_7(params);
        if self.flags & FLAG_GENTLE != 0 {
            if self.power < GENTLE_END && cut == 0 {
                cwnd = now << 1;
            } else {
                self.flags &= !FLAG_GENTLE;
            }
        }
        if cut != 0 {
            cwnd = cwnd.min(now.saturating_sub(cut));
        }
        self.set_cwnd(params, ack, cwnd, self.waits(ack));
        self.old_cwnd = now;
    }
}

/// The power of a sample that stands alone, because it is the first or comes a base RTT after the
/// last one was sent: a current of Δt/Δs times the voltage, or the voltage.
#[cold]
#[inline(never)]
fn lone_power(voltage: i64, prev_rtt: i64, dt: i64, ds: i64) -> i64 {
    if prev_rtt == 0 {
        return voltage;
    }
    // 2^32 << 24 fits; Δt/Δs is at most 33, the voltage 32.
    let current = (dt << POWER_SHIFT).checked_div(ds).unwrap_or(0);
    current.min(POWER_BOUNDS.1).wrapping_mul(voltage) >> POWER_SHIFT
}

impl Law for ThetaPowerTcp {
    type Config = Config;
    type Params = Params;
    const NAME: &'static str = "theta_powertcp";
    const FALLS: bool = true;

    #[inline]
    fn prepare(c: &Config) -> Result<Params, ConfigError> {
        let gamma = ConfigError::check("gamma_percent", c.gamma_percent, 1, 100)?;
        let flows = ConfigError::check("flows_per_host", c.flows_per_host, 1, 1000)?;
        let min = ConfigError::check("min_cwnd_millipackets", c.min_cwnd_millipackets, 1, 1000)?;
        let max = ConfigError::check("max_cwnd_packets", c.max_cwnd_packets, 2, 1 << 18)?;
        let margin = ConfigError::check("base_rtt_margin_ns", c.base_rtt_margin_ns, 0, 60_000)?;
        if c.probe_interval_us != 0 {
            ConfigError::check("probe_interval_us", c.probe_interval_us, 1000, 10_000_000)?;
        }
        Ok(Params {
            gamma: (gamma << 16) / 100,
            share: math::div((1 << SHARE_SHIFT) + u64::from(flows) - 1, u64::from(flows)),
            min_cwnd: u64::from(min) * ONE_PACKET / 1000,
            max_cwnd: u64::from(max) << math::CWND_SHIFT,
            probe_interval_us: c.probe_interval_us,
            margin_ns: margin as u16,
            calm: ConfigError::check("calm", c.calm, 0, 1)? != 0,
            gentle: ConfigError::check("gentle_start", c.gentle_start, 0, 1)? != 0,
            ecn: ConfigError::check("ecn", c.ecn, 0, 1)? != 0,
        })
    }

    #[inline(never)]
    fn start(&mut self, params: &Params, path: &Path, _now_ns: u64) {
        let mut path = *path;
        path.clock_ns = path.clock_ns.saturating_add(params.margin_ns);
        *self = Self {
            base: BaseRtt::new(&path),
            ..Self::default()
        };
        let mut start = derive::first_window(self.set_rates(&path), &self.base);
        if params.gentle {
            self.flags |= FLAG_GENTLE;
            start = start.min(GENTLE_START);
        }
        self.window = Window::new(&path, start.min(params.max_cwnd));
        self.old_cwnd = self.window.cwnd();
    }

    #[inline(never)]
    fn path_changed(&mut self, params: &Params, path: &Path) {
        if !self.started() {
            return;
        }
        let mut path = *path;
        path.clock_ns = path.clock_ns.saturating_add(params.margin_ns);
        self.window.set_path(&path);
        self.base.set_path(&path);
        self.set_rates(&path);
    }

    #[inline]
    fn on_ack(&mut self, params: &Params, _hops: Option<&mut HopHistory>, ack: &Ack<'_>) -> bool {
        if !self.started() {
            return false;
        }
        if self.learn(ack) {
            // The last RTT was bounded by the former τ.
            self.sample = 0;
        }
        let Some(delivered) = self.window.round_ended(ack) else {
            self.measure(ack);
            return self
                .window
                .slow_start(ack, params.min_cwnd, params.max_cwnd)
                .is_some();
        };
        let (was_draining, tau_ns) = (self.base.draining(), self.base.tau_ns());
        if self
            .base
            .on_round(params.probe_interval_us, ack.app_limited)
        {
            self.follow_tau(tau_ns);
        }
        if was_draining || self.base.draining() {
            // The power of a drain is not the power of the window: forget it when the drain is
            // over.
            self.sample = 0;
            self.old_cwnd = self.window.cwnd();
            return true;
        }
        if self.flags & FLAG_MEASURED == 0 {
            // A window of a packet or less has one sample per round and no gradient: its voltage is
            // its power.
            self.sample = 0;
            self.measure(ack);
        }
        if self
            .window
            .slow_start(ack, params.min_cwnd, params.max_cwnd)
            .is_none()
            && self.power != 0
        {
            self.update(params, ack, delivered);
        }
        // This packet is the first under the new window; the gap before it belongs to neither.
        self.flags &= !FLAG_MEASURED;
        let limit = u64::from(self.base.tau_ns()) << MAX_RTT_SHIFT;
        self.sample = (u64::from(ack.rtt_ns).min(limit) << 32) | (ack.now_ns & 0xffff_ffff);
        true
    }

    /// A round: it moves its window once in each.
    #[inline]
    fn calm(&self, params: &Params) -> Ease {
        if !self.base.settled() {
            return Ease::default();
        }
        self.ease(params, 0, CALM_SHIFT)
    }

    #[inline(never)]
    fn on_loss(&mut self, params: &Params, _now_ns: u64) {
        if self.started() {
            self.flags &= !FLAG_GENTLE;
            self.window.halve(params.min_cwnd);
            self.old_cwnd = self.window.cwnd();
        }
    }

    #[inline(never)]
    fn on_timeout(&mut self, params: &Params, _now_ns: u64) {
        if self.started() {
            self.flags &= !FLAG_GENTLE;
            self.window.collapse(params.min_cwnd);
            self.old_cwnd = self.window.cwnd();
        }
    }

    #[inline(never)]
    fn on_undo(&mut self, _params: &Params) {
        self.window.undo();
        self.old_cwnd = self.window.cwnd();
    }

    #[inline(never)]
    fn on_idle_restart(&mut self, params: &Params, _now_ns: u64) {
        if self.started() {
            // Nothing is known of the path any more: as a new flow, but not faster than before.
            let cwnd = self.window.cwnd().min(self.host_bdp);
            self.window.set(cwnd, params.min_cwnd, params.max_cwnd);
            self.window.restart_round();
            self.old_cwnd = self.window.cwnd();
            self.sample = 0;
        }
    }

    #[inline]
    fn cwnd(&self) -> u64 {
        self.base.limit(self.window.cwnd())
    }

    /// Rounded up: pacing at cwnd/τ carries the exact rate, and a receiver that acknowledges every
    /// second packet leaves a window of two and a half idle whenever it is two. On the kernel at
    /// 1 Gbit/s, where a bandwidth-delay product is under three packets, that is a fifth of the line.
    #[inline]
    fn cwnd_packets_at(&self, _delivered: u32) -> u32 {
        self.cwnd_packets()
    }

    #[inline]
    fn pacing_rate(&self, _params: &Params) -> u64 {
        if !self.started() {
            return 0;
        }
        // Not beyond the host's own rate.
        let cwnd = self.cwnd().min(self.host_bdp.max(ONE_PACKET));
        math::rate(cwnd, self.window.mss(), self.inverse_tau).max(self.window.least_rate())
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
