// SPDX-License-Identifier: GPL-2.0
//! Typed views of what a congestion control callback is given.
//!
//! C headers: `include/net/tcp.h`, `include/linux/tcp.h`, `include/net/sock.h`.

use super::bindings;
use core::{marker::PhantomData, ptr::NonNull};
use kernel::sync::atomic::{Atomic, Full};

/// A TCP socket, for the time of one callback.
///
/// Reads and writes go field by field through a raw pointer. No reference to the whole of
/// `struct tcp_sock` is ever made, so a `&mut` to the private area inside it can live beside this.
///
/// # Invariants
///
/// `tp` points to a live, full TCP socket for all of `'a`. In every callback but `get_info`, which only
/// reads, this context holds the socket's lock, so nobody else writes the fields that the lock protects.
#[derive(Clone, Copy)]
pub struct Sock<'a> {
    tp: NonNull<bindings::tcp_sock>,
    _life: PhantomData<&'a ()>,
}

/// Reads a field of the socket once, whole: fields may be written by others without our lock.
macro_rules! get {
    ($sk:expr, $($field:tt)+) => {{
        // SAFETY: by the invariant of `Sock` the pointer is valid; the read is volatile because
        // `sk_*` fields can change under other locks, which is what READ_ONCE() is for in C.
        unsafe { core::ptr::read_volatile(&raw const (*$sk.tp.as_ptr()).$($field)+) }
    }};
}

/// Writes a field of the socket once, whole.
macro_rules! put {
    ($sk:expr, $($field:tt)+) => {{
        // SAFETY: by the invariant of `Sock` the pointer is valid; see `get!` for the volatile.
        unsafe { &raw mut (*$sk.tp.as_ptr()).$($field)+ }
    }};
}

impl<'a> Sock<'a> {
    /// The view of a socket in a callback that runs under the socket's lock.
    ///
    /// # Safety
    ///
    /// `sk` is the argument of a `tcp_congestion_ops` callback, and the view does not outlive it.
    #[inline(always)]
    pub(super) unsafe fn new(sk: *mut bindings::sock) -> Self {
        // SAFETY: callbacks are never called with a null socket. Every `struct sock` that reaches a
        // congestion control is the head of a `struct tcp_sock` (that is what tcp_sk() relies on).
        let tp = unsafe { NonNull::new_unchecked(sk.cast()) };
        // INVARIANT: the caller's promise.
        Self {
            tp,
            _life: PhantomData,
        }
    }

    /// The socket as C knows it.
    pub(super) fn as_raw(&self) -> *const bindings::sock {
        self.tp.as_ptr().cast()
    }

    /// The private area of the socket.
    #[inline(always)]
    pub(super) fn area(&self) -> *mut u8 {
        // SAFETY: a field's address inside the live socket; nothing is read.
        unsafe { (&raw mut (*self.tp.as_ptr()).inet_conn.icsk_ca_priv).cast() }
    }

    /// The congestion window, packets.
    #[inline(always)]
    pub fn cwnd(&self) -> u32 {
        get!(self, snd_cwnd)
    }

    /// Sets the congestion window. The kernel wants it positive and at most the socket's clamp.
    #[inline(always)]
    pub fn set_cwnd(&self, packets: u32) {
        let cwnd = packets
            .min(get!(self, snd_cwnd_clamp))
            .clamp(1, i32::MAX as u32);
        let field = put!(self, snd_cwnd);
        // SAFETY: `field` is valid (see `put!`), and the lock is ours to write it.
        unsafe { core::ptr::write_volatile(field, cwnd) }
    }

    /// The slow start threshold, packets.
    #[inline(always)]
    pub fn ssthresh(&self) -> u32 {
        get!(self, snd_ssthresh)
    }

    /// Sets the slow start threshold; at least two packets, as everywhere in the kernel.
    #[inline(always)]
    pub fn set_ssthresh(&self, packets: u32) {
        let field = put!(self, snd_ssthresh);
        // SAFETY: `field` is valid (see `put!`), and the lock is ours to write it.
        unsafe { core::ptr::write_volatile(field, packets.max(2)) }
    }

    /// The window before the last loss recovery began, packets; 0 when there was none.
    #[inline(always)]
    pub fn prior_cwnd(&self) -> u32 {
        get!(self, prior_cwnd)
    }

    /// The pacing rate, bytes a second.
    #[inline(always)]
    pub fn pacing_rate(&self) -> u64 {
        get!(self, inet_conn.icsk_inet.sk.sk_pacing_rate) as u64
    }

    /// Sets the pacing rate: never zero (the flow would stop for ever), never above what the
    /// application allowed with `SO_MAX_PACING_RATE`.
    #[inline(always)]
    pub fn set_pacing_rate(&self, bytes_per_s: u64) {
        // An unsigned long in C, and so a usize here: 64 bits on every architecture we build for.
        let max = get!(self, inet_conn.icsk_inet.sk.sk_max_pacing_rate);
        let rate = (bytes_per_s as usize).min(max).max(1);
        let field = put!(self, inet_conn.icsk_inet.sk.sk_pacing_rate);
        // SAFETY: `field` is valid (see `put!`); sch_fq reads it without a lock, hence volatile.
        unsafe { core::ptr::write_volatile(field, rate) }
    }

    /// Asks TCP to pace this socket itself, unless sch_fq does so already. The application may be
    /// setting `SO_MAX_PACING_RATE` at the same time, so this is a compare-and-swap as in the kernel.
    #[inline(always)]
    pub fn need_pacing(&self) {
        let field = put!(self, inet_conn.icsk_inet.sk.sk_pacing_status);
        // SAFETY: `field` is valid and aligned for the callback; every concurrent writer uses a
        // compare-and-swap too (sk_setsockopt(), fq_enqueue() writes a plain u32 once).
        let status = unsafe { Atomic::<u32>::from_ptr(field) };
        let _ = status.cmpxchg(
            bindings::sk_pacing_SK_PACING_NONE,
            bindings::sk_pacing_SK_PACING_NEEDED,
            Full,
        );
    }

    /// The payload of a full-size segment, bytes; not zero.
    #[inline(always)]
    pub fn mss(&self) -> u32 {
        get!(self, mss_cache).max(1)
    }

    /// The TCP header of a data segment, with options, bytes.
    #[inline(always)]
    pub fn tcp_header_len(&self) -> u32 {
        get!(self, tcp_header_len).into()
    }

    /// The length of the network header (IP and its options) of this connection, bytes.
    #[inline(always)]
    pub fn network_header_len(&self) -> u32 {
        if get!(self, inet_conn.icsk_inet.sk.__sk_common.skc_family) == AF_INET6 {
            40
        } else {
            20
        }
    }

    /// Packets delivered so far, retransmissions included; wraps.
    #[inline(always)]
    pub fn delivered(&self) -> u32 {
        get!(self, delivered)
    }

    /// Smoothed RTT, microseconds; 0 before the first sample.
    #[inline(always)]
    pub fn srtt_us(&self) -> u32 {
        get!(self, srtt_us) >> 3
    }

    /// The clock that TCP read for the segment at hand, nanoseconds.
    #[inline(always)]
    pub fn clock_ns(&self) -> u64 {
        get!(self, tcp_clock_cache)
    }

    /// Bytes acknowledged so far, in order; wraps.
    #[inline(always)]
    pub fn bytes_acked(&self) -> u16 {
        get!(self, bytes_acked) as u16
    }

    /// How long nothing has been delivered, microseconds.
    #[inline(always)]
    pub fn idle_us(&self) -> u64 {
        get!(self, tcp_mstamp).saturating_sub(get!(self, delivered_mstamp))
    }

    /// The retransmission timeout, microseconds.
    #[inline(always)]
    pub fn rto_us(&self) -> u64 {
        u64::from(get!(self, inet_conn.icsk_rto)) * (1_000_000 / bindings::CONFIG_HZ as u64)
    }

    /// The next sequence number to be sent.
    #[inline(always)]
    pub fn snd_nxt(&self) -> u32 {
        get!(self, snd_nxt)
    }

    /// Packets in the network as TCP reckons: `packets_out - (sacked + lost) + retransmitted`.
    #[inline(always)]
    pub fn in_flight(&self) -> u32 {
        get!(self, packets_out)
            .wrapping_sub(get!(self, sacked_out).wrapping_add(get!(self, lost_out)))
            .wrapping_add(get!(self, retrans_out))
    }

    /// Was the last flight held back by the congestion window (and not by the application or the
    /// receiver)?
    #[inline(always)]
    pub fn is_cwnd_limited(&self) -> bool {
        // SAFETY: the pointer is valid; the raw accessor reads the bit-field's storage without a
        // reference to the whole socket.
        unsafe { bindings::tcp_sock::is_cwnd_limited_raw(self.tp.as_ptr()) != 0 }
    }

    /// Is it the receiver's window, or the send buffer, that holds the flow back at present?
    #[inline(always)]
    pub fn is_held_back(&self) -> bool {
        u32::from(get!(self, chrono_type)) > bindings::tcp_chrono_TCP_CHRONO_BUSY
    }

    /// Does the peer say exactly which packets bore a mark (Accurate ECN)? With the older ECN it
    /// repeats one mark for a whole round trip.
    #[inline(always)]
    pub fn counts_marks(&self) -> bool {
        get!(self, ecn_flags) & bindings::FATHOM_ECN_ANY == bindings::FATHOM_ECN_ACCURATE
    }

    /// A few bits that change when the connection's route does, nearly always; 0 = it has none.
    #[inline(always)]
    pub fn route(&self) -> u8 {
        let dst = get!(self, inet_conn.icsk_inet.sk.sk_dst_cache) as usize;
        // Objects of a slab: the low bits are zero.
        ((dst >> 6) ^ (dst >> 14)) as u8
    }

    /// The speed of the device that its packets leave by, Mbit/s; 0 = not known.
    pub fn route_mbps(&self) -> u32 {
        // SAFETY: the socket is live.
        unsafe { bindings::fathom_route_mbps(self.as_raw()) }
    }

    /// What the loss recovery of TCP is doing.
    #[inline(always)]
    pub fn ca_state(&self) -> CaState {
        // SAFETY: as in `is_cwnd_limited`.
        CaState::from_raw(unsafe {
            let icsk = &raw const (*self.tp.as_ptr()).inet_conn;
            bindings::inet_connection_sock::icsk_ca_state_raw(icsk)
        })
    }
}

/// `AF_INET6` of `linux/socket.h`: bindgen does not take function-like or cast macros.
const AF_INET6: u16 = 10;

/// `enum tcp_ca_state`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CaState {
    /// Nothing lost, nothing dubious.
    Open,
    /// Duplicate ACKs or SACKs, not yet a loss.
    Disorder,
    /// Reducing for ECN.
    Cwr,
    /// Fast retransmit.
    Recovery,
    /// Retransmission timeout.
    Loss,
}

impl CaState {
    #[inline(always)]
    pub(super) fn from_raw(state: u8) -> Self {
        match u32::from(state) {
            bindings::tcp_ca_state_TCP_CA_Disorder => Self::Disorder,
            bindings::tcp_ca_state_TCP_CA_CWR => Self::Cwr,
            bindings::tcp_ca_state_TCP_CA_Recovery => Self::Recovery,
            bindings::tcp_ca_state_TCP_CA_Loss => Self::Loss,
            _ => Self::Open,
        }
    }
}

/// `enum tcp_ca_event`, less `CA_EVENT_TX_START`, which has a callback of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The window is about to be restarted after idle time.
    CwndRestart,
    /// The reduction for ECN or recovery is complete.
    CompleteCwr,
    /// A retransmission timeout.
    Loss,
    /// A packet without CE arrived (receiver side).
    EcnNoCe,
    /// A packet with CE arrived (receiver side).
    EcnIsCe,
}

impl Event {
    #[inline(always)]
    pub(super) fn from_raw(event: bindings::tcp_ca_event) -> Option<Self> {
        Some(match event {
            bindings::tcp_ca_event_CA_EVENT_CWND_RESTART => Self::CwndRestart,
            bindings::tcp_ca_event_CA_EVENT_COMPLETE_CWR => Self::CompleteCwr,
            bindings::tcp_ca_event_CA_EVENT_LOSS => Self::Loss,
            bindings::tcp_ca_event_CA_EVENT_ECN_NO_CE => Self::EcnNoCe,
            bindings::tcp_ca_event_CA_EVENT_ECN_IS_CE => Self::EcnIsCe,
            _ => return None,
        })
    }
}

/// `struct rate_sample`: what one ACK delivered.
#[repr(transparent)]
pub struct RateSample(bindings::rate_sample);

impl RateSample {
    /// # Safety
    ///
    /// `rs` is the argument of `cong_control` and lives as long as the callback.
    #[inline(always)]
    pub(super) unsafe fn from_raw<'a>(rs: *const bindings::rate_sample) -> &'a Self {
        // SAFETY: `RateSample` is transparent over the C type; the kernel built the sample on
        // tcp_ack()'s stack and changes nothing of it while the callback runs.
        unsafe { &*rs.cast() }
    }

    /// RTT of the most recently sent packet that this ACK covers, microseconds.
    #[inline(always)]
    pub fn rtt_us(&self) -> Option<u32> {
        u32::try_from(self.0.rtt_us).ok()
    }

    /// The same; a number that no time has when there is none.
    #[inline(always)]
    pub fn rtt_us_or_more(&self) -> u64 {
        self.0.rtt_us as u64
    }

    /// Is there neither a loss nor a CE mark in it?
    #[inline(always)]
    pub fn is_clean(&self) -> bool {
        self.0.losses | self.0.delivered_ce == 0
    }

    /// Packets newly ACKed or SACKed by this ACK.
    #[inline(always)]
    pub fn acked_sacked(&self) -> u32 {
        self.0.acked_sacked
    }

    /// Packets newly marked lost on this ACK.
    #[inline(always)]
    pub fn losses(&self) -> u32 {
        u32::try_from(self.0.losses).unwrap_or(0)
    }

    /// `delivered` of the socket when the newest ACKed packet was sent. A packet sent after that
    /// count was reached closes a round trip.
    #[inline(always)]
    pub fn prior_delivered(&self) -> u32 {
        self.0.prior_delivered
    }

    /// Packets delivered over the sample's interval; `None` when the sample is not valid.
    #[inline(always)]
    pub fn delivered(&self) -> Option<u32> {
        u32::try_from(self.0.delivered).ok()
    }

    /// Packets delivered with a CE mark over the sample's interval.
    #[inline(always)]
    pub fn delivered_ce(&self) -> u32 {
        u32::try_from(self.0.delivered_ce).unwrap_or(0)
    }

    /// The sample's interval, microseconds; `None` when the sample is not valid.
    #[inline(always)]
    pub fn interval_us(&self) -> Option<u64> {
        u64::try_from(self.0.interval_us).ok().filter(|&us| us > 0)
    }

    /// Packets in flight before this ACK.
    #[inline(always)]
    pub fn prior_in_flight(&self) -> u32 {
        self.0.prior_in_flight
    }

    /// Was the packet sent when the application had too little to send?
    #[inline(always)]
    pub fn is_app_limited(&self) -> bool {
        self.0.is_app_limited
    }

    /// Is the sample of a retransmitted packet?
    #[inline(always)]
    pub fn is_retrans(&self) -> bool {
        self.0.is_retrans
    }

    /// Did the receiver probably wait before it sent this ACK?
    #[inline(always)]
    pub fn is_ack_delayed(&self) -> bool {
        self.0.is_ack_delayed
    }
}

/// `struct ack_sample`: the lighter sample that `pkts_acked` gets.
#[repr(transparent)]
pub struct AckSample(bindings::ack_sample);

impl AckSample {
    /// # Safety
    ///
    /// `sample` is the argument of `pkts_acked` and lives as long as the callback.
    #[inline(always)]
    pub(super) unsafe fn from_raw<'a>(sample: *const bindings::ack_sample) -> &'a Self {
        // SAFETY: as in `RateSample::from_raw`.
        unsafe { &*sample.cast() }
    }

    /// Packets acknowledged.
    #[inline(always)]
    pub fn pkts_acked(&self) -> u32 {
        self.0.pkts_acked
    }

    /// RTT, microseconds, when there is one.
    #[inline(always)]
    pub fn rtt_us(&self) -> Option<u32> {
        u32::try_from(self.0.rtt_us).ok()
    }

    /// Packets in flight when the newest ACKed packet was sent.
    #[inline(always)]
    pub fn in_flight(&self) -> u32 {
        self.0.in_flight
    }
}
