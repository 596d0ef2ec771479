// SPDX-License-Identifier: GPL-2.0
//! Any law of `laws/` as a congestion control of the kernel.
//!
//! Translates: a rate sample becomes the law's [`Ack`], its answer becomes window and pacing rate, and
//! TCP's loss recovery becomes the law's events. What is true of one law is true of all, so this is
//! written once; a module adds its parameters and its name.

#[cfg(feature = "telemetry")]
use crate::{int_sample, kapi::storage, wire::Format};
use crate::{
    kapi::{
        cong::{Call, CongestionControl, Holds, Info},
        plain::Plain,
        settings::{Held, Parametric},
        sock::{CaState, RateSample, Sock},
        trace,
    },
    laws::{
        math::CWND_SHIFT, Ack, Calm, ConfigError, Coverage, Ease, HopHistory, Int, Law, Path,
        Record,
    },
    trace::Rest,
};
use core::marker::PhantomData;
use kernel::prelude::*;

/// What a module says about its law.
pub(crate) trait Tenant: Parametric<Settings = Settings<Self::Law>> {
    /// The law.
    type Law: Law + Plain;

    /// What the parameters come to.
    ///
    /// # Errors
    ///
    /// Names the first one that is out of bounds.
    fn settings(values: &crate::Values) -> Result<Settings<Self::Law>, ConfigError>;

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
    /// Rate of the host's link, bytes a second; 0 = that of the device.
    pub(crate) line_rate: u64,
    /// Base RTT, ns; 0 = learn it.
    pub(crate) base_rtt_ns: u32,
    /// Start from [`GENTLE`], whatever the law starts from.
    pub(crate) gentle: bool,
}

// Not derived: that would ask it of the law.
impl<L: Law> Clone for Settings<L> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L: Law> Copy for Settings<L> {}

/// The first window of a gentle start, packets: one that a receiver acknowledges at once.
const GENTLE: u64 = 2;

/// The private area of a socket.
#[repr(C)]
pub(crate) struct State<L> {
    law: L,
    calm: Calm,
    /// Bytes acknowledged when an ACK was last looked at, as far as 16 bits: with the packets acknowledged
    /// since, it tells whether those were of full size.
    bytes_acked: u16,
    /// The route that the law was told of, [`Sock::route`].
    route: u8,
    held: Held,
}

impl<L> Holds for State<L> {
    #[inline(always)]
    fn held(&self) -> &Held {
        &self.held
    }

    #[inline(always)]
    fn held_mut(&mut self) -> &mut Held {
        &mut self.held
    }
}

/// The congestion control that runs the law of `T`.
pub(crate) struct LawCc<T>(PhantomData<T>);

/// TCP takes its time stamps from a microsecond clock, whatever the clock beneath counts.
const CLOCK_NS: u16 = 1000;
/// Preamble, Ethernet header, checksum and inter-frame gap: what a packet occupies on an Ethernet link
/// besides its IP datagram, bytes.
const ETHERNET: u32 = 8 + 14 + 4 + 12;
/// Options of a TCP header, bytes.
const MAX_OPTIONS: u32 = 40;
const BYTES_PER_MBIT: u64 = 125_000;

/// RTTs beyond 4 s say nothing more to a datacenter law: that is what 32 bits of nanoseconds hold.
#[inline]
fn us_to_ns(us: u32) -> u32 {
    us.saturating_mul(1000)
}

/// The path as the socket, its device and the module's parameters know it.
#[inline(never)]
fn path<L: Law>(sk: &Sock<'_>, settings: &Settings<L>) -> Path {
    let overhead = ETHERNET + sk.network_header_len() + sk.tcp_header_len();
    Path {
        line_rate: match settings.line_rate {
            // A device that does not tell its speed either leaves the law its default.
            0 => u64::from(sk.route_mbps()).saturating_mul(BYTES_PER_MBIT),
            given => given,
        },
        base_rtt_ns: settings.base_rtt_ns,
        handshake_rtt_ns: us_to_ns(sk.srtt_us()),
        clock_ns: CLOCK_NS,
        mss: sk.mss().min(u16::MAX.into()) as u16,
        overhead: overhead.min(u16::MAX.into()) as u16,
        hops: 0,
    }
}

/// Tells the law of another MTU or route.
#[cold]
#[inline(never)]
fn follow_path<L: Law>(sk: &Sock<'_>, ca: &mut State<L>, settings: &Settings<L>) {
    let path = path(sk, settings);
    ca.route = sk.route();
    ca.law.path_changed(&settings.law, &path);
}

/// Adds to an ACK those without telemetry that waited for it; false when it has to wait, too.
#[cfg(feature = "telemetry")]
#[inline(always)]
fn completed(record: Option<&mut storage::Record<'_>>, ack: &mut Ack<'_>) -> bool {
    let Some(record) = record else {
        return true;
    };
    let fresh = !matches!(ack.int, Int::None);
    let hold = record.hold();
    let all = hold.ack(fresh, ack.acked, ack.ce, ack.delivered, ack.prior_delivered);
    if let Some((acked, ce)) = all {
        (ack.acked, ack.ce) = (acked, ce);
    }
    all.is_some()
}

/// Tells the law of an ACK, with the telemetry that the segment with this number brought: for Poseidon
/// the maximum per-hop delay, for the others what hops say of themselves and what the law remembers of
/// them. True when the pacing rate may have changed; none when the ACK waits for one with telemetry.
#[cfg(feature = "telemetry")]
#[inline(always)]
fn tell<T: Tenant>(
    sk: &Sock<'_>,
    law: &mut T::Law,
    settings: &Settings<T::Law>,
    number: u32,
    ack: Ack<'_>,
) -> Option<bool> {
    const MPD: bool = cfg!(feature = "poseidon");
    let mut record = storage::Record::of(sk);
    let sample = record.as_mut().and_then(|record| record.take(number));
    let stack;
    let int = match &sample {
        Some((sample, shift)) if MPD && sample.format == Format::Mpd as u8 => {
            int_sample::mpd(sample, *shift)
        }
        Some((sample, _)) if !MPD && sample.format == Format::Bottleneck as u8 => {
            int_sample::bottleneck(sample)
        }
        Some((sample, _)) if !MPD && sample.format == Format::Stack as u8 => {
            stack = int_sample::stack(sample);
            int_sample::path(&stack.0, stack.1)
        }
        _ => Int::None,
    };
    let mut ack = ack;
    ack.int = int;
    if !completed(record.as_mut(), &mut ack) {
        return None;
    }
    let hops = record.as_mut().map(storage::Record::history);
    Some(decide::<T>(sk, law, settings, hops, &ack))
}

/// The same for a law that does without.
#[cfg(not(feature = "telemetry"))]
#[inline(always)]
fn tell<T: Tenant>(
    sk: &Sock<'_>,
    law: &mut T::Law,
    settings: &Settings<T::Law>,
    _number: u32,
    ack: Ack<'_>,
) -> Option<bool> {
    Some(decide::<T>(sk, law, settings, None, &ack))
}

/// Does somebody read the record of decisions, or of samples?
#[inline(always)]
fn watched() -> bool {
    #[cfg(feature = "telemetry")]
    if storage::logging() {
        return true;
    }
    trace::on()
}

/// The law's decision, and a record of it for who wants to see it.
#[inline(always)]
fn decide<T: Tenant>(
    sk: &Sock<'_>,
    law: &mut T::Law,
    settings: &Settings<T::Law>,
    hops: Option<&mut HopHistory>,
    ack: &Ack<'_>,
) -> bool {
    let changed = law.on_ack(&settings.law, hops, ack);
    if trace::on() {
        show::<T>(sk, law, settings, ack);
    }
    changed
}

#[cold]
#[inline(never)]
fn show<T: Tenant>(sk: &Sock<'_>, law: &T::Law, settings: &Settings<T::Law>, ack: &Ack<'_>) {
    let mut rest = Rest {
        rtt_ns: ack.rtt_ns,
        acked: ack.acked,
        in_flight: ack.in_flight,
        base_rtt_ns: T::base_rtt_ns(law),
        target_ns: T::target_ns(law, settings),
        gauge: T::gauge(law),
        cwnd: law.cwnd_packets_at(ack.delivered),
        cwnd_q20: law.cwnd(),
        pacing_rate: pacing_rate(law, &settings.law),
        ..Rest::default()
    };
    for (to, from) in rest.law.iter_mut().zip(T::Law::NAME.bytes()) {
        *to = from;
    }
    let hop = match ack.int {
        Int::None => Record::default(),
        Int::Mpd(mpd) => {
            rest.format = 1;
            rest.hops = 1;
            if mpd.coverage == Coverage::Full {
                rest.flags |= crate::trace::COVERED;
            }
            Record {
                qlen_bytes: mpd.forward_ns,
                tx_bytes: mpd.backward_ns,
                ..Record::default()
            }
        }
        Int::Bottleneck(record) => {
            rest.format = 2;
            rest.hops = 1;
            rest.flags |= crate::trace::COVERED;
            record
        }
        Int::Stack(records, _) => {
            rest.format = 3;
            rest.hops = records.len() as u8;
            records.first().copied().unwrap_or_default()
        }
    };
    rest.telemetry = [hop.qlen_bytes, hop.tx_bytes, hop.ts_ns, hop.hop_id];
    if ack.app_limited {
        rest.flags |= crate::trace::UNUSED;
    }
    if ack.full_size {
        rest.flags |= crate::trace::FULL_SIZE;
    }
    trace::push(sk, &rest);
}

/// Hands the law's window to TCP. A window of two and a half packets is two for some ACKs and three for
/// the others, so this is done on every ACK.
fn set_window<L: Law>(sk: &Sock<'_>, law: &L, least: u32) {
    sk.set_cwnd(law.cwnd_packets_at(sk.delivered()).max(least));
}

/// The law's pacing rate, one copy for all who ask.
#[inline(never)]
fn pacing_rate<L: Law>(law: &L, params: &L::Params) -> u64 {
    law.pacing_rate(params)
}

/// Hands all of the law's answer to TCP.
#[inline(never)]
fn apply<L: Law>(sk: &Sock<'_>, law: &L, params: &L::Params) {
    set_window(sk, law, 1);
    sk.set_pacing_rate(pacing_rate(law, params));
}

/// Looks at an ACK. Apart from those that pass, so that for them nothing is saved on the stack, and with what
/// TCP said in the registers that it used.
#[inline(never)]
fn look<T: Tenant>(
    sk: Sock<'_>,
    number: u32,
    settings: &Settings<T::Law>,
    rs: &RateSample,
    ca: &mut State<T::Law>,
) {
    let sk = &sk;
    if !ca.law.started() {
        return; // The SYN-ACK of an active open comes before `init`.
    }
    if u32::from(ca.law.window().mss()) != sk.mss() || ca.route != sk.route() {
        follow_path(sk, ca, settings);
    }
    let acked = ca.calm.all(rs.acked_sacked());
    let bytes = sk.bytes_acked();
    // On the wire a segment with options is as long as one without: it has less data by as much.
    let short = (acked as u16)
        .wrapping_mul(ca.law.window().mss())
        .wrapping_sub(bytes.wrapping_sub(ca.bytes_acked));
    let full_bytes = u32::from(short) <= acked.wrapping_mul(MAX_OPTIONS);
    ca.bytes_acked = bytes;
    let in_flight = sk.in_flight();
    let rtt_us = rs.rtt_us().unwrap_or(0);
    let ack = Ack {
        now_ns: sk.clock_ns(),
        rtt_ns: us_to_ns(rtt_us),
        acked,
        delivered: sk.delivered(),
        prior_delivered: rs.prior_delivered(),
        in_flight,
        ce: if sk.counts_marks() {
            rs.delivered_ce()
        } else {
            0 // Answered once, by `set_state`.
        },
        // A window that the application, the receiver or the send buffer leaves unused does not grow.
        app_limited: rs.is_app_limited() || sk.is_held_back(),
        full_size: acked != 0 && full_bytes && !rs.is_retrans() && !rs.is_ack_delayed(),
        int: Int::None,
    };
    let told = tell::<T>(sk, &mut ca.law, settings, number, ack);
    if told == Some(true) {
        sk.set_pacing_rate(pacing_rate(&ca.law, &settings.law));
    }
    // Who watches sees every ACK; and one that waits for telemetry is not the last to be looked at.
    let ease = if told.is_none() || watched() {
        Ease::default()
    } else {
        ca.law.calm(&settings.law)
    };
    ca.calm.told::<T::Law>(ease, acked, rtt_us);
    // At least one retransmission may leave now, however far the window has fallen.
    let least = if rs.losses() == 0 {
        1
    } else {
        in_flight.saturating_add(1)
    };
    set_window(sk, &ca.law, least);
}

#[vtable]
impl<T: Tenant> CongestionControl for LawCc<T> {
    type State = State<T::Law>;
    type Parameters = T;
    const NAME: &'static str = T::Law::NAME;
    const NON_RESTRICTED: bool = false;

    fn init(Call { sk, ca, settings }: Call<'_, Self>) {
        let path = path(sk, settings);
        ca.route = sk.route();
        ca.calm = Calm::default();
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

    fn cong_control(Call { sk, ca, settings }: Call<'_, Self>, number: u32, rs: &RateSample) {
        if !rs.is_clean()
            || !ca
                .calm
                .passes::<T::Law>(rs.acked_sacked(), rs.rtt_us_or_more())
        {
            look::<T>(*sk, number, settings, rs, ca);
        }
    }

    fn ssthresh(call: Call<'_, Self>) -> u32 {
        call.ca.law.ssthresh().max(2)
    }

    fn undo_cwnd(Call { sk, ca, settings }: Call<'_, Self>) -> u32 {
        ca.calm.end();
        ca.law.on_undo(&settings.law);
        ca.law.cwnd_packets_at(sk.delivered()).max(sk.cwnd())
    }

    fn set_state(Call { sk, ca, settings }: Call<'_, Self>, new: CaState) {
        ca.calm.end();
        let (law, params) = (&mut ca.law, &settings.law);
        match (sk.ca_state(), new) {
            (_, CaState::Loss) => law.on_timeout(params, sk.clock_ns()),
            // RFC 3168: a mark is answered as a loss is, once per window. So is a drop by the host's own
            // queue. A peer that counts marks is answered in proportion instead.
            (_, CaState::Cwr) if sk.counts_marks() => {}
            (CaState::Recovery, CaState::Recovery) | (CaState::Cwr, CaState::Cwr) => {}
            (_, CaState::Recovery | CaState::Cwr) => law.on_loss(params, sk.clock_ns()),
            (
                CaState::Recovery | CaState::Loss | CaState::Cwr,
                CaState::Open | CaState::Disorder,
            ) => {
                law.on_recovery_exit(params);
            }
            _ => {}
        }
    }

    fn cwnd_event_tx_start(Call { sk, ca, settings }: Call<'_, Self>) {
        if ca.law.started() && sk.idle_us() > sk.rto_us() {
            ca.calm.end();
            ca.law.on_idle_restart(&settings.law, sk.clock_ns());
            apply(sk, &ca.law, &settings.law);
        }
    }

    /// One: a burst of two at low rate queues behind itself, and that queue is what the laws measure.
    fn min_tso_segs(_call: Call<'_, Self>) -> u32 {
        1
    }

    fn get_info(ca: &Self::State, settings: &Settings<T::Law>) -> Option<Info> {
        let base_rtt_ns = T::base_rtt_ns(&ca.law);
        let target = u64::from(T::target_ns(&ca.law, settings)) << 8;
        Some(Info {
            bw_bytes_per_s: pacing_rate(&ca.law, &settings.law),
            min_rtt_us: base_rtt_ns / 1000,
            pacing_gain: T::gauge(&ca.law),
            cwnd_gain: target.checked_div(base_rtt_ns.into()).unwrap_or(0) as u32,
        })
    }
}
