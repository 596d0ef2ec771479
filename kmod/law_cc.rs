// SPDX-License-Identifier: GPL-2.0
//! Any law of `laws/` as a congestion control of the kernel.
//!
//! Translates: a rate sample becomes the law's [`Ack`], its answer becomes window and pacing rate, and
//! TCP's loss recovery becomes the law's events. What is true of one law is true of all, so this is
//! written once; a module adds its parameters and its name.

#[cfg(feature = "telemetry")]
use crate::{int_sample, kapi::storage::Record, wire::Format};
use crate::{
    kapi::{
        cong::{CongestionControl, Info, Registration},
        param,
        plain::Plain,
        sock::{CaState, RateSample, Sock},
    },
    laws::{math::CWND_SHIFT, Ack, ConfigError, Int, Law, Path},
};
use core::marker::PhantomData;
use kernel::{prelude::*, sync::SetOnce};

/// What a module says about its law.
pub(crate) trait Tenant: 'static {
    /// The law.
    type Law: Law + Plain;

    /// The module's parameters, as they were given.
    type Values: Copy;

    /// The parameters, checked.
    ///
    /// # Errors
    ///
    /// Names the first one that is out of bounds.
    fn settings(values: &Self::Values) -> Result<Settings<Self::Law>, ConfigError>;

    /// Where they are; set once, before the congestion control is registered.
    fn loaded() -> &'static SetOnce<Settings<Self::Law>>;

    /// The base RTT that the law goes by at present, ns, for `ss -i`.
    fn base_rtt_ns(law: &Self::Law) -> u32;

    /// The delay that the law aims at, ns; 0 for a law that has none.
    fn target_ns(_law: &Self::Law, _settings: &Settings<Self::Law>) -> u32 {
        0
    }

    /// How congested the law believes the path to be, 256 = exactly full; 0 for a law that has a target
    /// instead. `ss -i` shows it as the pacing gain, in units of 1.
    fn gauge(_law: &Self::Law) -> u32 {
        0
    }
}

/// The parameters of a module.
pub(crate) struct Settings<L: Law> {
    /// Those of the law itself.
    pub(crate) law: L::Params,
    /// Rate of the host's link, bytes a second; 0 = unknown.
    pub(crate) line_rate: u64,
    /// Base RTT, ns; 0 = learn it.
    pub(crate) base_rtt_ns: u32,
    /// Start from [`GENTLE`], whatever the law starts from.
    pub(crate) gentle: bool,
}

/// The first window of a gentle start, packets: one that a receiver acknowledges at once.
const GENTLE: u64 = 2;

/// Checks the parameters and registers the congestion control.
///
/// # Errors
///
/// `EINVAL` when a parameter is out of bounds, and the log says which; those of [`Registration::new`].
pub(crate) fn register<T: Tenant>(
    module: &'static ThisModule,
    values: &T::Values,
) -> Result<Registration<LawCc<T>>> {
    T::loaded().populate(T::settings(values).map_err(param::refuse)?);
    Registration::new(module)
}

/// The private area of a socket.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct State<L> {
    law: L,
    /// Bytes acknowledged at the last ACK: with the packets acknowledged since, it tells whether those
    /// were of full size.
    bytes_acked: u32,
    /// The MSS that the law was told of.
    mss: u16,
    _pad: u16,
}

/// The congestion control that runs the law of `T`.
pub(crate) struct LawCc<T>(PhantomData<T>);

/// TCP takes its time stamps from a microsecond clock, whatever the clock beneath counts.
const CLOCK_NS: u16 = 1000;
/// Preamble, Ethernet header, checksum and inter-frame gap: what a packet occupies on an Ethernet link
/// besides its IP datagram, bytes.
const ETHERNET: u32 = 8 + 14 + 4 + 12;

/// RTTs beyond 4 s say nothing more to a datacenter law: that is what 32 bits of nanoseconds hold.
fn us_to_ns(us: u32) -> u32 {
    us.saturating_mul(1000)
}

/// The path as the socket and the module's parameters know it.
fn path<L: Law>(sk: &Sock<'_>, settings: &Settings<L>) -> Path {
    let overhead = ETHERNET + sk.network_header_len() + sk.tcp_header_len();
    Path {
        line_rate: settings.line_rate,
        base_rtt_ns: settings.base_rtt_ns,
        handshake_rtt_ns: us_to_ns(sk.srtt_us()),
        clock_ns: CLOCK_NS,
        mss: sk.mss().min(u16::MAX.into()) as u16,
        overhead: overhead.min(u16::MAX.into()) as u16,
        hops: 0,
    }
}

/// An ACK and those without telemetry that waited for it; none when it has to wait, too.
#[cfg(feature = "telemetry")]
#[inline(always)]
fn wait<'a>(record: Option<&mut Record<'_>>, ack: Ack<'a>) -> Option<Ack<'a>> {
    let Some(record) = record else {
        return Some(ack);
    };
    let fresh = !matches!(ack.int, Int::None);
    let (acked, ce) =
        record
            .hold()
            .ack(fresh, ack.acked, ack.ce, ack.delivered, ack.prior_delivered)?;
    Some(Ack { acked, ce, ..ack })
}

/// Tells the law of an ACK, with the maximum per-hop delay that the segment with this number brought.
#[cfg(feature = "poseidon")]
#[inline(always)]
fn tell<L: Law>(sk: &Sock<'_>, law: &mut L, params: &L::Params, number: u32, ack: Ack<'_>) -> bool {
    let mut record = Record::of(sk);
    let sample = record.as_mut().and_then(|record| record.take(number));
    let int = match &sample {
        Some((sample, shift)) if sample.format == Format::Mpd as u8 => {
            int_sample::mpd(sample, *shift)
        }
        _ => Int::None,
    };
    match wait(record.as_mut(), Ack { int, ..ack }) {
        Some(ack) => law.on_ack(params, None, &ack),
        None => false,
    }
}

/// The same with what hops say of themselves, and what the law remembers of them.
#[cfg(all(feature = "telemetry", not(feature = "poseidon")))]
#[inline(always)]
fn tell<L: Law>(sk: &Sock<'_>, law: &mut L, params: &L::Params, number: u32, ack: Ack<'_>) -> bool {
    let mut record = Record::of(sk);
    let sample = record.as_mut().and_then(|record| record.take(number));
    let stack;
    let int = match &sample {
        Some((sample, _)) if sample.format == Format::Bottleneck as u8 => {
            int_sample::bottleneck(sample)
        }
        Some((sample, _)) if sample.format == Format::Stack as u8 => {
            stack = int_sample::stack(sample);
            int_sample::path(&stack.0, stack.1)
        }
        _ => Int::None,
    };
    match wait(record.as_mut(), Ack { int, ..ack }) {
        Some(ack) => law.on_ack(params, record.as_mut().map(Record::history), &ack),
        None => false,
    }
}

/// The same for a law that does without.
#[cfg(not(feature = "telemetry"))]
#[inline(always)]
fn tell<L: Law>(_: &Sock<'_>, law: &mut L, params: &L::Params, _: u32, ack: Ack<'_>) -> bool {
    law.on_ack(params, None, &ack)
}

/// Hands the law's window to TCP. A window of two and a half packets is two for some ACKs and three for
/// the others, so this is done on every ACK.
fn set_window<L: Law>(sk: &Sock<'_>, law: &L, least: u32) {
    sk.set_cwnd(law.cwnd_packets_at(sk.delivered()).max(least));
}

/// Hands all of the law's answer to TCP.
#[inline(never)]
fn apply<L: Law>(sk: &Sock<'_>, law: &L, params: &L::Params) {
    set_window(sk, law, 1);
    sk.set_pacing_rate(law.pacing_rate(params));
}

impl<T: Tenant> LawCc<T> {
    fn settings() -> Option<&'static Settings<T::Law>> {
        T::loaded().as_ref()
    }
}

#[vtable]
impl<T: Tenant> CongestionControl for LawCc<T> {
    type State = State<T::Law>;
    const NAME: &'static str = T::Law::NAME;
    const NON_RESTRICTED: bool = false;

    fn init(sk: &Sock<'_>, ca: &mut Self::State) {
        let Some(settings) = Self::settings() else {
            return;
        };
        let path = path(sk, settings);
        ca.mss = path.mss;
        ca.bytes_acked = sk.bytes_acked();
        ca.law.start(&settings.law, &path, sk.clock_ns());
        if settings.gentle {
            let cwnd = ca.law.cwnd().min(GENTLE << CWND_SHIFT);
            ca.law.window_mut().set(cwnd, 1, cwnd);
            // There is nothing to undo; the law takes its window for what it is now.
            ca.law.on_undo(&settings.law);
        }
        sk.need_pacing();
        sk.set_ssthresh(ca.law.ssthresh());
        apply(sk, &ca.law, &settings.law);
    }

    fn cong_control(sk: &Sock<'_>, ca: &mut Self::State, number: u32, rs: &RateSample) {
        let Some(settings) = Self::settings() else {
            return;
        };
        if !ca.law.started() {
            return; // The SYN-ACK of an active open comes before `init`.
        }
        if u32::from(ca.mss) != sk.mss() {
            let path = path(sk, settings);
            ca.mss = path.mss;
            ca.law.path_changed(&settings.law, &path);
        }
        let acked = rs.acked_sacked();
        let bytes = sk.bytes_acked();
        let full_bytes = bytes.wrapping_sub(ca.bytes_acked) == acked.wrapping_mul(ca.mss.into());
        ca.bytes_acked = bytes;
        let ack = Ack {
            now_ns: sk.clock_ns(),
            rtt_ns: rs.rtt_us().map_or(0, us_to_ns),
            acked,
            delivered: sk.delivered(),
            prior_delivered: rs.prior_delivered(),
            in_flight: sk.in_flight(),
            ce: rs.delivered_ce(),
            app_limited: rs.is_app_limited(),
            full_size: acked != 0 && full_bytes && !rs.is_retrans() && !rs.is_ack_delayed(),
            int: Int::None,
        };
        let in_flight = ack.in_flight;
        if tell(sk, &mut ca.law, &settings.law, number, ack) {
            sk.set_pacing_rate(ca.law.pacing_rate(&settings.law));
        }
        // At least one retransmission may leave now, however far the window has fallen.
        let least = if rs.losses() == 0 {
            1
        } else {
            in_flight.saturating_add(1)
        };
        set_window(sk, &ca.law, least);
    }

    fn ssthresh(_sk: &Sock<'_>, ca: &mut Self::State) -> u32 {
        ca.law.ssthresh().max(2)
    }

    fn undo_cwnd(sk: &Sock<'_>, ca: &mut Self::State) -> u32 {
        let Some(settings) = Self::settings() else {
            return sk.cwnd();
        };
        ca.law.on_undo(&settings.law);
        ca.law.cwnd_packets_at(sk.delivered()).max(sk.cwnd())
    }

    fn set_state(sk: &Sock<'_>, ca: &mut Self::State, new: CaState) {
        let Some(settings) = Self::settings() else {
            return;
        };
        match (sk.ca_state(), new) {
            (_, CaState::Loss) => ca.law.on_timeout(&settings.law, sk.clock_ns()),
            (CaState::Recovery, CaState::Recovery) => {}
            (_, CaState::Recovery) => ca.law.on_loss(&settings.law, sk.clock_ns()),
            (CaState::Recovery | CaState::Loss, CaState::Open | CaState::Disorder) => {
                ca.law.on_recovery_exit(&settings.law);
            }
            _ => {}
        }
    }

    fn cwnd_event_tx_start(sk: &Sock<'_>, ca: &mut Self::State) {
        let Some(settings) = Self::settings() else {
            return;
        };
        if ca.law.started() && sk.idle_us() > sk.rto_us() {
            ca.law.on_idle_restart(&settings.law, sk.clock_ns());
            apply(sk, &ca.law, &settings.law);
        }
    }

    /// One: a burst of two at low rate queues behind itself, and that queue is what the laws measure.
    fn min_tso_segs(_sk: &Sock<'_>, _ca: &mut Self::State) -> u32 {
        1
    }

    fn get_info(ca: &Self::State) -> Option<Info> {
        let settings = Self::settings()?;
        let base_rtt_ns = T::base_rtt_ns(&ca.law);
        let target = u64::from(T::target_ns(&ca.law, settings)) << 8;
        Some(Info {
            bw_bytes_per_s: ca.law.pacing_rate(&settings.law),
            min_rtt_us: base_rtt_ns / 1000,
            pacing_gain: T::gauge(&ca.law),
            cwnd_gain: target.checked_div(base_rtt_ns.into()).unwrap_or(0) as u32,
        })
    }
}
