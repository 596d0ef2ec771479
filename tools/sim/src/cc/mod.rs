// SPDX-License-Identifier: GPL-2.0
//! Congestion controls: the laws of `laws/`, run as the kernel modules run them, and the baselines that
//! papers compare with.
//!
//! Three kinds, by what they leave to TCP. A *law* sets window and pacing rate on every ACK and hears of
//! losses (`kmod/law_cc.rs` does the same translation). A *window* control is what the kernel calls a
//! congestion avoidance: it says how the window grows and what it falls to, the rest is TCP's. A *rate*
//! control has no window to speak of.

pub mod cubic;
pub mod dcqcn;
pub mod dctcp;
pub mod reno;
pub mod retcp;
pub mod timely;

use laws::{
    hpcc, poseidon, swift, theta_powertcp, Ack, Calm, ConfigError, HopHistory, Hpcc, Law, Path,
    Poseidon, PowerTcp, Swift, ThetaPowerTcp,
};
use std::sync::Arc;

/// A window that never limits.
pub const UNLIMITED: u32 = 1 << 30;

/// A law of `laws/` on one flow.
#[derive(Clone)]
pub struct Lawful<L: Law> {
    law: L,
    params: Arc<L::Params>,
    hops: Option<Box<HopHistory>>,
    calm: Calm,
}

impl<L: Law> Lawful<L> {
    fn passes(&mut self, acked: u32, rtt_us: u64) -> bool {
        self.calm.passes::<L>(acked, rtt_us)
    }

    fn told(&mut self, ack: &Ack<'_>) {
        let ease = self.law.calm(&self.params);
        self.calm.told::<L>(ease, ack.acked, ack.rtt_ns / 1000);
    }
}

/// Which congestion control, with its parameters: the same for all flows of a kind.
#[derive(Clone)]
#[expect(missing_docs, reason = "one per algorithm")]
pub enum Spec {
    Poseidon(Arc<poseidon::Params>),
    PowerTcp(Arc<theta_powertcp::Params>),
    ThetaPowerTcp(Arc<theta_powertcp::Params>),
    Hpcc(Arc<hpcc::Params>),
    Swift(Arc<swift::Params>),
    Reno(reno::Config),
    Dctcp(dctcp::Config),
    Cubic(cubic::Config),
    ReTcp(retcp::Config),
    Timely(timely::Config),
    Dcqcn(dcqcn::Config),
}

impl Spec {
    /// Poseidon with `config`.
    ///
    /// # Errors
    /// Names the field that is out of bounds; so do the others.
    pub fn poseidon(config: &poseidon::Config) -> Result<Self, ConfigError> {
        Ok(Self::Poseidon(Arc::new(Poseidon::prepare(config)?)))
    }

    /// PowerTCP with `config`.
    ///
    /// # Errors
    /// See [`Spec::poseidon`].
    pub fn powertcp(config: &theta_powertcp::Config) -> Result<Self, ConfigError> {
        Ok(Self::PowerTcp(Arc::new(PowerTcp::prepare(config)?)))
    }

    /// θ-PowerTCP with `config`.
    ///
    /// # Errors
    /// See [`Spec::poseidon`].
    pub fn theta_powertcp(config: &theta_powertcp::Config) -> Result<Self, ConfigError> {
        Ok(Self::ThetaPowerTcp(Arc::new(ThetaPowerTcp::prepare(
            config,
        )?)))
    }

    /// HPCC with `config`.
    ///
    /// # Errors
    /// See [`Spec::poseidon`].
    pub fn hpcc(config: &hpcc::Config) -> Result<Self, ConfigError> {
        Ok(Self::Hpcc(Arc::new(Hpcc::prepare(config)?)))
    }

    /// Swift with `config`.
    ///
    /// # Errors
    /// See [`Spec::poseidon`].
    pub fn swift(config: &swift::Config) -> Result<Self, ConfigError> {
        Ok(Self::Swift(Arc::new(Swift::prepare(config)?)))
    }

    /// What a host does with ECN on a connection of this kind, unless it is told otherwise.
    #[must_use]
    pub fn ecn(&self) -> Ecn {
        match self {
            Self::Dctcp(_) => Ecn::Each,
            Self::Dcqcn(_) => Ecn::Notify,
            Self::Reno(c) if c.ecn => Ecn::Classic,
            Self::Cubic(c) if c.ecn => Ecn::Classic,
            Self::ReTcp(c) if c.reno.ecn => Ecn::Classic,
            Self::Timely(c) if c.ecn => Ecn::Classic,
            _ => Ecn::None,
        }
    }

    /// The congestion control of a new flow.
    #[must_use]
    pub fn control(&self) -> Control {
        fn lawful<L: Law>(params: &Arc<L::Params>, hops: bool) -> Lawful<L> {
            Lawful {
                law: L::default(),
                params: params.clone(),
                hops: hops.then(Box::default),
                calm: Calm::default(),
            }
        }
        match self {
            Self::Poseidon(p) => Control::Poseidon(lawful(p, false)),
            Self::PowerTcp(p) => Control::PowerTcp(lawful(p, true)),
            Self::ThetaPowerTcp(p) => Control::ThetaPowerTcp(lawful(p, false)),
            Self::Hpcc(p) => Control::Hpcc(lawful(p, true)),
            Self::Swift(p) => Control::Swift(lawful(p, false)),
            Self::Reno(c) => Control::Window(Window::Reno(reno::Reno::new(*c))),
            Self::Dctcp(c) => Control::Window(Window::Dctcp(dctcp::Dctcp::new(*c))),
            Self::Cubic(c) => Control::Window(Window::Cubic(cubic::Cubic::new(*c))),
            Self::ReTcp(c) => Control::Window(Window::ReTcp(retcp::ReTcp::new(*c))),
            Self::Timely(c) => Control::Rate(RateControl::Timely(timely::Timely::new(*c))),
            Self::Dcqcn(c) => Control::Rate(RateControl::Dcqcn(dcqcn::Dcqcn::new(*c))),
        }
    }
}

/// What the two ends do with ECN marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// Packets cannot be marked.
    None,
    /// RFC 3168: the echo stays until the sender has answered it.
    Classic,
    /// RFC 8257: the echo says of each packet whether it was marked.
    Each,
    /// DCQCN: a packet of its own tells the sender.
    Notify,
}

/// The congestion control of one flow.
#[derive(Clone)]
#[expect(missing_docs, reason = "one per kind")]
pub enum Control {
    Poseidon(Lawful<Poseidon>),
    PowerTcp(Lawful<PowerTcp>),
    ThetaPowerTcp(Lawful<ThetaPowerTcp>),
    Hpcc(Lawful<Hpcc>),
    Swift(Lawful<Swift>),
    Window(Window),
    Rate(RateControl),
}

/// Runs `$do` with the law inside; `$else` for a control that is none.
macro_rules! law {
    ($self:expr, $l:ident => $do:expr, $other:pat => $else:expr) => {
        match $self {
            Control::Poseidon($l) => $do,
            Control::PowerTcp($l) => $do,
            Control::ThetaPowerTcp($l) => $do,
            Control::Hpcc($l) => $do,
            Control::Swift($l) => $do,
            $other => $else,
        }
    };
}

impl Control {
    /// Whether it is a law of `laws/`.
    #[must_use]
    pub fn is_law(&self) -> bool {
        !matches!(self, Self::Window(_) | Self::Rate(_))
    }

    /// Starts the flow.
    pub fn start(&mut self, path: &Path, now_ns: u64) {
        law!(self, l => l.law.start(&l.params, path, now_ns), other => if let Control::Rate(rate) = other {
            rate.start(path, now_ns);
        });
    }

    /// An ACK of `acked` packets with neither loss nor mark, and its RTT, us. True when a law need not be told.
    #[inline]
    pub fn passes(&mut self, acked: u32, rtt_us: u64) -> bool {
        law!(self, l => l.passes(acked, rtt_us), _ => false)
    }

    /// The packets that an ACK of `acked` answers for, with those that passed.
    #[inline]
    #[must_use]
    pub fn all(&self, acked: u32) -> u32 {
        law!(self, l => l.calm.all(acked), _ => acked)
    }

    /// An ACK, for a law; none when it waits for one with telemetry. True when the pacing rate may have changed.
    #[inline]
    pub fn on_ack(&mut self, ack: Option<&Ack<'_>>) -> bool {
        law!(self, l => {
            let Some(ack) = ack else {
                l.calm = Calm::default();
                return false;
            };
            let changed = l.law.on_ack(&l.params, l.hops.as_deref_mut(), ack);
            l.told(ack);
            changed
        }, _ => false)
    }

    /// Packets that a law allows in flight, after `delivered` in all.
    #[inline]
    #[must_use]
    pub fn cwnd_packets_at(&self, delivered: u32) -> u32 {
        law!(self, l => l.law.cwnd_packets_at(delivered), _ => UNLIMITED)
    }

    /// The window in packets, fraction and all.
    #[must_use]
    pub fn cwnd(&self, packets: u32) -> f64 {
        law!(self, l => l.law.cwnd() as f64 / f64::from(1u32 << laws::math::CWND_SHIFT), _ => f64::from(packets))
    }

    /// Bytes per second; `u64::MAX` = not paced.
    #[must_use]
    pub fn pacing_rate(&self) -> u64 {
        law!(self, l => l.law.pacing_rate(&l.params), other => match other {
            Control::Rate(rate) => rate.rate(),
            _ => u64::MAX,
        })
    }

    /// A loss was found.
    pub fn on_loss(&mut self, now_ns: u64) {
        law!(self, l => {
            l.calm.end();
            l.law.on_loss(&l.params, now_ns);
        }, _ => {});
    }

    /// The retransmission timer fired.
    pub fn on_timeout(&mut self, now_ns: u64) {
        law!(self, l => {
            l.calm.end();
            l.law.on_timeout(&l.params, now_ns);
        }, _ => {});
    }

    /// The loss is repaired.
    pub fn on_recovery_exit(&mut self) {
        law!(self, l => {
            l.calm.end();
            l.law.on_recovery_exit(&l.params);
        }, _ => {});
    }

    /// The loss was none.
    pub fn on_undo(&mut self) {
        law!(self, l => {
            l.calm.end();
            l.law.on_undo(&l.params);
        }, _ => {});
    }

    /// The flow sends again after an idle time.
    pub fn on_idle_restart(&mut self, now_ns: u64) {
        law!(self, l => {
            l.calm.end();
            l.law.on_idle_restart(&l.params, now_ns);
        }, _ => {});
    }

    /// Packets above which growth is no longer slow start.
    #[must_use]
    pub fn ssthresh(&self) -> u32 {
        law!(self, l => l.law.ssthresh(), _ => u32::MAX)
    }
}

/// What TCP tells a window control.
#[derive(Clone, Copy, Debug, Default)]
pub struct Growth {
    /// Now, ns.
    pub now_ns: u64,
    /// Packets newly delivered, by which the window may grow.
    pub acked: u32,
    /// Packets newly delivered, in order or not, and of those the marked ones.
    pub delivered: u32,
    /// Marked.
    pub ce: u32,
    /// RTT of this ACK, us; 0 = none.
    pub rtt_us: u32,
    /// The least RTT, us.
    pub min_rtt_us: u32,
    /// Next segment to be acknowledged, and to be sent.
    pub una: u32,
    /// Next segment to be sent.
    pub nxt: u32,
    /// The window was what limited the sender.
    pub limited: bool,
    /// The ACK came over a circuit.
    pub circuit: bool,
    /// How long four of the largest bursts that Linux gives a device would take at the pacing rate that it
    /// computes also when it does not pace, us: HyStart's allowance for bursts.
    pub bursts_us: u32,
}

/// A congestion avoidance as the kernel knows it.
#[derive(Clone)]
#[expect(missing_docs, reason = "one per algorithm")]
pub enum Window {
    Reno(reno::Reno),
    Dctcp(dctcp::Dctcp),
    Cubic(cubic::Cubic),
    ReTcp(retcp::ReTcp),
}

/// The window as TCP keeps it.
#[derive(Clone, Copy, Debug)]
pub struct Cwnd {
    /// Packets.
    pub packets: u32,
    /// Acknowledged since it last grew by one.
    pub count: u32,
    /// Below it growth is exponential.
    pub ssthresh: u32,
}

impl Cwnd {
    /// No slow start threshold.
    pub const INFINITE: u32 = 0x7fff_ffff;

    /// Slow start: a packet for each one acknowledged, up to the threshold; what is left of `acked`.
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let grown = (self.packets + acked).min(self.ssthresh);
        let rest = acked - (grown - self.packets);
        self.packets = grown.min(UNLIMITED);
        rest
    }

    /// A packet for every `per` acknowledged.
    pub fn additive(&mut self, per: u32, acked: u32) {
        let per = per.max(1);
        if self.count >= per {
            self.count = 0;
            self.packets += 1;
        }
        self.count += acked;
        if self.count >= per {
            self.packets += self.count / per;
            self.count %= per;
        }
        self.packets = self.packets.min(UNLIMITED);
    }
}

impl Window {
    /// The first window, packets.
    #[must_use]
    pub fn initial(&self) -> u32 {
        match self {
            Self::Reno(c) => c.config.initial,
            Self::Dctcp(c) => c.config.initial,
            Self::Cubic(c) => c.config.initial,
            Self::ReTcp(c) => c.config.reno.initial,
        }
    }

    /// Every ACK, whatever TCP's state.
    pub fn on_ack(&mut self, cwnd: &mut Cwnd, g: &Growth) {
        match self {
            Self::Reno(_) => {}
            Self::Dctcp(c) => c.on_ack(g),
            Self::Cubic(c) => c.on_ack(cwnd, g),
            Self::ReTcp(c) => c.on_ack(cwnd, g),
        }
    }

    /// The window may grow.
    pub fn grow(&mut self, cwnd: &mut Cwnd, g: &Growth) {
        match self {
            Self::Reno(_) | Self::Dctcp(_) | Self::ReTcp(_) => reno::grow(cwnd, g),
            Self::Cubic(c) => c.grow(cwnd, g),
        }
    }

    /// What the window falls to: for a mark, or for a loss.
    pub fn ssthresh(&mut self, cwnd: &Cwnd, loss: bool) -> u32 {
        match self {
            Self::Reno(_) => reno::half(cwnd),
            Self::Dctcp(c) => c.ssthresh(cwnd, loss),
            Self::Cubic(c) => c.ssthresh(cwnd),
            Self::ReTcp(c) => c.ssthresh(cwnd),
        }
    }

    /// A loss while the window is being reduced for marks: DCTCP alone answers it as well.
    pub fn on_loss(&self, cwnd: &mut Cwnd) {
        if let Self::Dctcp(c) = self {
            cwnd.ssthresh = c.ssthresh(cwnd, true);
        }
    }

    /// The retransmission timer fired.
    pub fn on_timeout(&mut self) {
        if let Self::Cubic(c) = self {
            c.reset();
        }
    }
}

/// A control without a window.
#[derive(Clone)]
#[expect(missing_docs, reason = "one per algorithm")]
pub enum RateControl {
    Timely(timely::Timely),
    Dcqcn(dcqcn::Dcqcn),
}

impl RateControl {
    fn start(&mut self, path: &Path, now_ns: u64) {
        match self {
            Self::Timely(c) => c.start(path),
            Self::Dcqcn(c) => c.start(path, now_ns),
        }
    }

    /// An ACK that delivers `bytes`, with an RTT unless that is zero.
    pub fn on_ack(&mut self, now_ns: u64, rtt_ns: u32, bytes: u64) {
        match self {
            Self::Timely(c) => c.on_ack(now_ns, rtt_ns),
            Self::Dcqcn(c) => c.on_bytes(now_ns, bytes),
        }
    }

    /// The receiver saw a mark.
    pub fn on_notification(&mut self, now_ns: u64) {
        if let Self::Dcqcn(c) = self {
            c.on_cnp(now_ns);
        }
    }

    /// Bytes per second.
    #[must_use]
    pub fn rate(&self) -> u64 {
        match self {
            Self::Timely(c) => c.rate(),
            Self::Dcqcn(c) => c.rate(),
        }
    }
}
