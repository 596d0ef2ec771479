// SPDX-License-Identifier: GPL-2.0
//! The sending end of a connection, as Linux has it: SACK, RACK (RFC 8985), tail loss probes,
//! retransmission timeouts, pacing, and the translation of an ACK into what a law is told
//! (`kmod/law_cc.rs`).
//!
//! It counts in segments, not bytes: a message is cut into full-size segments and a rest. Times are ns;
//! RTTs are differences of a clock with a step, by default the whole microseconds of the kernel's.

use crate::cc::{Control, Cwnd, Growth, Window, UNLIMITED};
use crate::histogram::Histogram;
use crate::packet::{flag, Packet};
use laws::{Ack, Coverage, Int, Mpd, Path, Record, Wrap};
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use wire::Telemetry;

/// What the host's TCP is set to.
#[derive(Clone, Copy, Debug)]
pub struct TcpConfig {
    /// Step of the clock that stamps packets, ns.
    pub clock_ns: u64,
    /// Step of the clock that timers run by, ns: the kernel's jiffy.
    pub tick_ns: u64,
    /// The least retransmission timeout, ns.
    pub min_rto_ns: u64,
    /// The timeout of a SYN, ns.
    pub initial_rto_ns: u64,
    /// Tail loss probes.
    pub tlp: bool,
    /// Full-size segments per ACK.
    pub ack_every: u32,
    /// The longest that an ACK is held back, ns.
    pub ack_delay_ns: u64,
    /// Segments acknowledged at once when a connection is young.
    pub quick_acks: u32,
    /// The most that a receiver takes, bytes; 0 = it never limits.
    pub receive_window: u64,
    /// A SYN goes first.
    pub handshake: bool,
    /// Segments carry timestamps.
    pub timestamps: bool,
    /// Windows below two packets are kept by ACKs, those below one by the time since the last packet, as the papers
    /// have it; otherwise by two packets in flight and pacing, as the kernel does.
    pub published_windows: bool,
}

/// Places of a level of the kernel's timer wheel, as a power of two, and how much coarser the next one is.
const WHEEL: (u32, u32) = (6, 3);

impl TcpConfig {
    /// When a timer ends that is set for `ticks` from now, ns. Linux's timer wheel never lets one end early: at
    /// the tick after the one that it is set for, and a long one at a multiple of 8, 64 and so on ticks.
    #[must_use]
    pub fn wheel(&self, now_ns: u64, ticks: u64) -> u64 {
        let (places, coarser) = WHEEL;
        let mut shift = 0;
        while ticks >= ((1 << places) - 1) << shift && shift < 8 * coarser {
            shift += coarser;
        }
        let at = now_ns / self.tick_ns + ticks;
        (((at >> shift) + 1) << shift) * self.tick_ns
    }
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            clock_ns: 1000,
            tick_ns: 1_000_000,
            min_rto_ns: 200_000_000,
            initial_rto_ns: 1_000_000_000,
            tlp: true,
            ack_every: 2,
            ack_delay_ns: 40_000_000,
            quick_acks: 16,
            receive_window: 0,
            handshake: true,
            timestamps: true,
            published_windows: false,
        }
    }
}

/// Bits of [`Segment::flags`].
mod mark {
    pub const SACKED: u8 = 1;
    pub const LOST: u8 = 2;
    /// A retransmission is in flight.
    pub const RETRANS: u8 = 4;
    /// Was ever sent again.
    pub const EVER: u8 = 8;
    pub const APP_LIMITED: u8 = 16;
}

/// What is remembered of a segment in flight.
#[derive(Clone, Copy, Default)]
struct Segment {
    sent_ns: u64,
    delivered: u32,
    flags: u8,
}

/// TCP's loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaState {
    /// Nothing lost, nothing dubious.
    Open,
    /// SACKs, not yet a loss.
    Disorder,
    /// Reducing for marks.
    Cwr,
    /// Fast retransmit.
    Recovery,
    /// Retransmission timeout.
    Loss,
}

/// What the sender's one timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    None,
    Rto,
    Probe,
    Reorder,
}

/// What to do next.
pub enum Next {
    /// Send this.
    Send(Packet),
    /// Nothing before this time, ns.
    At(u64),
    /// Nothing before an ACK or new data.
    Wait,
}

/// What an ACK brought.
pub struct AckIn<'a> {
    /// The next segment that is expected.
    pub ack: u32,
    /// SACK blocks, the newest first: from, to.
    pub sack: &'a [(u32, u32)],
    /// The first block tells of a segment that came twice.
    pub dsack: bool,
    /// Marks were seen.
    pub ece: bool,
    /// Over a circuit.
    pub circuit: bool,
    /// Telemetry.
    pub telemetry: Option<Telemetry>,
}

/// What a sender can be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounters {
    /// Segments sent, again or not.
    pub sent: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Recoveries.
    pub recoveries: u64,
    /// Payload acknowledged, bytes.
    pub acked_bytes: u64,
    /// RTT samples, their sum and the last, ns.
    pub rtts: u64,
    /// Their sum.
    pub rtt_sum_ns: u64,
    /// The last.
    pub rtt_ns: u32,
}

/// The largest burst that Linux gives a device: 64 KiB less its largest header.
const GSO_BYTES: u64 = 65_536 - 321;

/// Where a message ends on a connection that carries several: in all, with those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Segments.
    pub segments: u32,
    /// Payload, bytes.
    pub bytes: u64,
}

/// How a stream of bytes falls into segments: messages, each cut anew. They are of equal size, or have `ends`.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Payload of a full-size segment, bytes.
    pub mss: u32,
    /// Segments of a message.
    pub per_message: u32,
    /// Payload of the last of them.
    pub rest: u32,
    /// Of messages that differ.
    pub ends: Option<Arc<Vec<End>>>,
}

impl Cut {
    /// Of messages of `bytes`; `u64::MAX` = one without end.
    #[must_use]
    pub fn new(mss: u32, bytes: u64) -> Self {
        let segments = bytes
            .div_ceil(u64::from(mss))
            .clamp(1, u64::from(u32::MAX / 2));
        let rest = bytes
            .saturating_sub((segments - 1) * u64::from(mss))
            .min(u64::from(mss));
        Self {
            mss,
            per_message: segments as u32,
            rest: (rest as u32).max(1),
            ends: None,
        }
    }

    /// Of messages of these sizes, one after the other.
    #[must_use]
    pub fn of(mss: u32, sizes: impl IntoIterator<Item = u64>) -> Self {
        let mut end = End {
            segments: 0,
            bytes: 0,
        };
        let ends = sizes.into_iter().map(|bytes| {
            let segments = Self::new(mss, bytes).per_message;
            end.segments = end.segments.saturating_add(segments);
            end.bytes = end.bytes.saturating_add(bytes);
            end
        });
        let ends = Some(Arc::new(ends.collect()));
        Self {
            ends,
            ..Self::new(mss, u64::MAX)
        }
    }

    /// Payload of all segments before `seq`, of messages that differ.
    fn before(&self, ends: &[End], seq: u32) -> u64 {
        let whole = ends.partition_point(|e| e.segments <= seq);
        let (segments, bytes) = match whole.checked_sub(1).and_then(|last| ends.get(last)) {
            Some(end) => (end.segments, end.bytes),
            None => (0, 0),
        };
        bytes + u64::from(seq - segments) * u64::from(self.mss)
    }

    /// Payload of segment `seq`.
    #[inline]
    #[must_use]
    pub fn payload(&self, seq: u32) -> u32 {
        if self.ends.is_some() {
            return self.bytes(seq, seq + 1) as u32;
        }
        if seq % self.per_message == self.per_message - 1 {
            self.rest
        } else {
            self.mss
        }
    }

    /// Payload of the segments from `from` to before `to`.
    #[must_use]
    pub fn bytes(&self, from: u32, to: u32) -> u64 {
        if let Some(ends) = &self.ends {
            return self.before(ends, to) - self.before(ends, from);
        }
        let short = u64::from(to / self.per_message) - u64::from(from / self.per_message);
        u64::from(to - from) * u64::from(self.mss) - short * u64::from(self.mss - self.rest)
    }
}

/// A unit of TCP's timestamps, ns.
const TIMESTAMP_NS: u64 = 1_000_000;
/// Segments of a young connection that are not paced.
const UNPACED: u32 = 9;
/// What a socket buffer costs beyond its payload, bytes: its head and descriptors.
const TRUESIZE: u32 = 832;
/// The kernel's `tcp_limit_output_bytes`.
const OUTPUT_LIMIT: u64 = 4 << 20;

/// Inverse rates of the speeds that telemetry can name.
const INVERSE_RATES: [u32; 16] = {
    let mut table = [0; 16];
    let mut code = 0;
    while code < 16 {
        table[code] = Record::inverse_rate(wire::speed::MBPS[code]);
        code += 1;
    }
    table
};

fn record(r: &wire::bottleneck::Record) -> Record {
    Record {
        qlen_bytes: r.qlen_bytes,
        tx_bytes: r.tx_bytes,
        ts_ns: r.ts_ns,
        inverse_rate: INVERSE_RATES[usize::from(r.speed.code())],
        hop_id: u32::from(r.hop_id),
    }
}

/// The sender of one direction of a connection.
pub struct Sender {
    // Sequence.
    una: u32,
    nxt: u32,
    /// Segments that the application has written.
    written: u32,
    /// How they are cut.
    pub cut: Cut,
    ring: Vec<Segment>,
    // Counts.
    cwnd: Cwnd,
    sacked: u32,
    lost: u32,
    retrans: u32,
    delivered: u32,
    app_limited: u32,
    /// Something was sent since nothing more could be.
    burst: bool,
    /// The window was full, or else how many segments were in flight at most, before this segment.
    full: bool,
    most_out: u32,
    usage_end: u32,
    /// Segments that the receiver takes beyond `una`.
    window: u32,
    /// Segments of this sender in its host's own port, and whether that is what it waits for.
    local: u32,
    throttled: bool,
    // Pacing.
    pacing: u64,
    next_ns: u64,
    /// Of a window control, [`Sender::linux_rate`] after the last ACK.
    rate: u64,
    sent: u32,
    // Loss recovery.
    state: CaState,
    high: u32,
    /// Everything below is decided: lost, delivered, or sent again.
    scan: u32,
    /// Sent again and not yet delivered, in that order.
    again: VecDeque<(u32, u64)>,
    /// The first segment that may have to be sent again.
    hint: u32,
    highest_sacked: u32,
    rack_ns: u64,
    rack_end: u32,
    rack_rtt_ns: u64,
    reordering: bool,
    reorder_steps: u64,
    undo: bool,
    undo_left: u32,
    last_blocks: [(u32, u32); 4],
    prior_cwnd: u32,
    prr_delivered: u32,
    prr_out: u32,
    probe_end: u32,
    probing: bool,
    // Timers.
    timer: Timer,
    /// When the timer is due, ns.
    pub due_ns: u64,
    backoff: u32,
    srtt_ns: u64,
    rttvar_ns: u64,
    min_rtt_ns: u64,
    last_sent_ns: u64,
    /// ECN: the next data says that the window was reduced.
    cwr: bool,
    ect: u8,
    /// ACKs that the law has not been told of.
    hold: wire::Hold,
    // Facts.
    path: Path,
    /// Its congestion control.
    pub control: Control,
    /// What happened so far.
    pub counters: SenderCounters,
    /// RTTs, ns, when they are counted.
    rtts: Option<Box<Histogram>>,
    counted: Option<Box<Histogram>>,
}

impl Sender {
    /// A sender that starts at `now_ns` with nothing to send.
    #[must_use]
    pub fn new(
        mut control: Control,
        path: Path,
        cut: Cut,
        tcp: &TcpConfig,
        ect: bool,
        now_ns: u64,
    ) -> Self {
        control.start(&path, now_ns);
        let mut cwnd = Cwnd {
            packets: UNLIMITED,
            count: 0,
            ssthresh: Cwnd::INFINITE,
        };
        match &control {
            Control::Window(w) => cwnd.packets = w.initial(),
            Control::Rate(_) => {}
            law => cwnd.packets = law.cwnd_packets_at(0),
        }
        let pacing = control.pacing_rate();
        let handshake = u64::from(path.handshake_rtt_ns);
        let window = match tcp.receive_window {
            0 => UNLIMITED,
            bytes => ((bytes / u64::from(cut.mss)).max(1)).min(u64::from(UNLIMITED)) as u32,
        };
        let mut sender = Self {
            una: 0,
            nxt: 0,
            written: 0,
            cut,
            ring: Vec::new(),
            cwnd,
            sacked: 0,
            lost: 0,
            retrans: 0,
            delivered: 1, // The SYN.
            app_limited: 0,
            burst: false,
            full: false,
            most_out: 0,
            usage_end: 0,
            window,
            local: 0,
            throttled: false,
            pacing,
            next_ns: 0,
            rate: u64::MAX,
            sent: 0,
            state: CaState::Open,
            high: 0,
            scan: 0,
            again: VecDeque::new(),
            hint: 0,
            highest_sacked: 0,
            rack_ns: 0,
            rack_end: 0,
            rack_rtt_ns: 0,
            reordering: false,
            reorder_steps: 1,
            undo: false,
            undo_left: 0,
            last_blocks: [(0, 0); 4],
            prior_cwnd: 0,
            prr_delivered: 0,
            prr_out: 0,
            probe_end: 0,
            probing: false,
            timer: Timer::None,
            due_ns: u64::MAX,
            backoff: 0,
            srtt_ns: 0,
            rttvar_ns: tcp.initial_rto_ns,
            min_rtt_ns: u64::MAX,
            last_sent_ns: 0,
            cwr: false,
            ect: if ect { flag::ECT } else { 0 },
            hold: wire::Hold::NONE,
            path,
            control,
            counters: SenderCounters::default(),
            rtts: None,
            counted: None,
        };
        if handshake != 0 {
            sender.estimate(handshake, tcp);
            sender.min_rtt_ns = handshake;
            sender.rate = sender.linux_rate();
        }
        sender
    }

    /// Has what every ACK needs of it brought near.
    #[inline]
    pub fn touch(&self) {
        black_box(self.una);
        black_box(self.next_ns);
        black_box(self.srtt_ns);
        black_box(self.counters.acked_bytes);
        black_box(self.path.mss);
        if !self.ring.is_empty() {
            black_box(self.ring[self.una as usize & (self.ring.len() - 1)].sent_ns);
        }
    }

    /// The application writes `segments` more.
    pub fn write(&mut self, segments: u32, now_ns: u64, tcp: &TcpConfig) {
        if self.in_flight() == 0 && self.nxt == self.written && self.nxt != 0 {
            let idle = now_ns.saturating_sub(self.last_sent_ns);
            if idle > self.rto_ns(tcp) {
                self.control.on_idle_restart(now_ns);
                self.follow(1);
            }
        }
        // Linux asks before it takes what is written: the first window of every connection counts as one that the
        // application did not fill.
        if self.nxt == self.written && self.local == 0 && self.in_flight() < self.cwnd.packets {
            self.app_limited = self.delivered.wrapping_add(self.in_flight()).max(1);
        }
        self.written = self.written.saturating_add(segments);
    }

    /// Nothing more is written after what has been sent.
    pub fn stop(&mut self) {
        self.written = self.nxt;
    }

    /// All that was written is acknowledged.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.una == self.written
    }

    /// Segments written and not yet sent.
    #[must_use]
    pub fn unsent(&self) -> u32 {
        self.written - self.nxt
    }

    /// Segments acknowledged in order.
    #[must_use]
    pub fn acked(&self) -> u32 {
        self.una
    }

    /// Packets in the network, as TCP reckons.
    #[inline]
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        (self.nxt - self.una + self.retrans).saturating_sub(self.sacked + self.lost)
    }

    /// The window, packets with their fraction.
    #[must_use]
    pub fn cwnd(&self) -> f64 {
        self.control.cwnd(self.cwnd.packets)
    }

    /// The pacing rate, bytes per second; `u64::MAX` = none.
    #[must_use]
    pub fn pacing(&self) -> u64 {
        self.pacing
    }

    /// Counts RTTs from now on; what was counted before is forgotten. Or no longer: what was counted stays.
    pub fn count_rtts(&mut self, on: bool) {
        if on {
            self.rtts = Some(Box::default());
        } else if let Some(rtts) = self.rtts.take() {
            self.counted = Some(rtts);
        }
    }

    /// The RTTs that were counted, ns.
    #[must_use]
    pub fn rtts(&self) -> Option<&Histogram> {
        self.counted.as_deref().or(self.rtts.as_deref())
    }

    /// The least RTT, ns; none before the first.
    #[must_use]
    pub fn min_rtt_ns(&self) -> Option<u64> {
        (self.min_rtt_ns != u64::MAX).then_some(self.min_rtt_ns)
    }

    /// The smoothed RTT, ns.
    #[must_use]
    pub fn srtt_ns(&self) -> u64 {
        self.srtt_ns
    }

    /// What loss recovery is doing.
    #[must_use]
    pub fn state(&self) -> CaState {
        self.state
    }

    #[inline]
    fn seg(&mut self, seq: u32) -> &mut Segment {
        let mask = self.ring.len() - 1;
        &mut self.ring[seq as usize & mask]
    }

    // --- Sending ---------------------------------------------------------------------------------------

    /// The next packet to send, if there is one now.
    #[inline]
    pub fn next(&mut self, now_ns: u64, tcp: &TcpConfig) -> Next {
        let again = self.lost > self.retrans && self.find_again();
        let fresh = self.nxt < self.written && self.nxt - self.una < self.window;
        if !again && !fresh {
            self.end_burst(false);
            return Next::Wait;
        }
        if self.in_flight() >= self.cwnd.packets {
            self.end_burst(true);
            return Next::Wait;
        }
        if self.next_ns > now_ns {
            self.end_burst(false);
            return Next::At(self.next_ns);
        }
        if self.local > 1
            && u64::from(self.local) * u64::from(self.cut.mss + TRUESIZE) >= self.local_limit()
            && self.nxt - self.una > 1
        {
            self.throttled = true;
            self.end_burst(false);
            return Next::Wait;
        }
        self.burst = true;
        let seq = if again { self.hint } else { self.nxt };
        Next::Send(self.transmit(seq, now_ns, tcp))
    }

    /// No more can be sent at present. Takes note of how much of the window is used, as Linux does: that it was full
    /// counts until a window later.
    #[inline]
    fn end_burst(&mut self, full: bool) {
        if !full && !self.burst {
            return;
        }
        self.burst = false;
        let out = self.nxt - self.una;
        if full || self.una >= self.usage_end || !self.full && out > self.most_out {
            self.full = full;
            self.most_out = out;
            self.usage_end = self.nxt;
        }
    }

    /// Whether the window is what limits the sender; in slow start also when half of it is used.
    fn is_limited(&self) -> bool {
        self.full
            || self.cwnd.packets < self.cwnd.ssthresh
                && u64::from(self.cwnd.packets) < 2 * u64::from(self.most_out)
    }

    /// The pacing rate that Linux computes for a window control, bytes per second, also when it does not pace: at the
    /// end of every ACK.
    fn linux_rate(&self) -> u64 {
        let percent = if self.cwnd.packets < self.cwnd.ssthresh / 2 {
            200
        } else {
            120
        };
        u64::from(self.cwnd.packets.max(self.nxt - self.una))
            * u64::from(self.cut.mss)
            * percent
            * 10_000_000
            / self.srtt_ns.max(1)
    }

    /// TCP small queues: what may stand in the host's own port, a millisecond's worth of the pacing rate and at
    /// least two segments.
    fn local_limit(&self) -> u64 {
        let rate = match &self.control {
            Control::Window(_) => self.rate,
            _ => self.pacing,
        };
        (rate >> 10).clamp(2 * u64::from(self.cut.mss + TRUESIZE), OUTPUT_LIMIT)
    }

    /// A segment of this sender has left its host. True when the sender waited for that.
    #[inline]
    pub fn left_host(&mut self) -> bool {
        self.local = self.local.saturating_sub(1);
        std::mem::take(&mut self.throttled)
    }

    /// The host's own port had no room for a segment of this sender.
    pub fn forgotten_by_host(&mut self) {
        self.local = self.local.saturating_sub(1);
    }

    /// Moves the hint to a segment that is lost and not yet sent again.
    fn find_again(&mut self) -> bool {
        self.hint = self.hint.max(self.una);
        while self.hint < self.nxt {
            let hint = self.hint;
            if self.seg(hint).flags & (mark::LOST | mark::RETRANS | mark::SACKED) == mark::LOST {
                return true;
            }
            self.hint += 1;
        }
        false
    }

    fn transmit(&mut self, seq: u32, now_ns: u64, tcp: &TcpConfig) -> Packet {
        let payload = self.cut.payload(seq);
        let (delivered, limited) = (self.delivered, self.app_limited != 0);
        let mut flags = self.ect;
        if seq == self.nxt {
            if (self.nxt - self.una) as usize == self.ring.len() {
                self.grow_ring();
            }
            *self.seg(seq) = Segment {
                sent_ns: now_ns,
                delivered,
                flags: if limited { mark::APP_LIMITED } else { 0 },
            };
            self.nxt += 1;
            if self.cwr {
                self.cwr = false;
                flags |= flag::CWR;
            }
        } else {
            let segment = self.seg(seq);
            segment.sent_ns = now_ns;
            segment.delivered = delivered;
            let in_flight = segment.flags & mark::RETRANS != 0;
            segment.flags |= mark::RETRANS | mark::EVER;
            if !in_flight {
                self.retrans += 1;
            }
            self.again.push_back((seq, now_ns));
            self.counters.retransmits += 1;
            if self.undo {
                self.undo_left += 1;
            }
            // RFC 3168: what is sent again cannot be marked. DCTCP's can.
            let dctcp = matches!(self.control, Control::Window(Window::Dctcp(_)));
            flags = flag::RETRANS | if dctcp { self.ect } else { 0 };
        }
        if payload != self.cut.mss {
            flags |= flag::SHORT;
        }
        self.prr_out += 1;
        self.local += 1;
        self.pace(payload, now_ns);
        self.counters.sent += 1;
        self.last_sent_ns = now_ns;
        if self.timer == Timer::None {
            self.arm(now_ns, tcp);
        }
        Packet {
            seq,
            size: (crate::packet::HEADERS + payload) as u16,
            flags,
            kind: crate::packet::Kind::Data,
            ..Packet::NONE
        }
    }

    #[cold]
    fn grow_ring(&mut self) {
        let size = (self.ring.len() * 2).max(16);
        let mut ring = vec![Segment::default(); size];
        for seq in self.una..self.nxt {
            ring[seq as usize & (size - 1)] = self.ring[seq as usize & (self.ring.len() - 1)];
        }
        self.ring = ring;
    }

    /// As TCP's own pacing: what was missed counts for up to half a packet, the first nine are free (Linux asks
    /// whether ten were sent when it has counted the one at hand).
    #[inline]
    fn pace(&mut self, payload: u32, now_ns: u64) {
        let prior = self.next_ns;
        self.next_ns = prior.max(now_ns);
        if self.pacing == u64::MAX {
            return;
        }
        if self.sent < UNPACED {
            self.sent += 1;
            return;
        }
        let mut gap = (u64::from(payload) * 1_000_000_000)
            .checked_div(self.pacing)
            .unwrap_or(0);
        let credit = self.next_ns - prior;
        gap -= credit.min(gap / 2);
        self.next_ns += gap;
    }

    // --- ACKs ------------------------------------------------------------------------------------------

    fn clock(&self, ns: u64, tcp: &TcpConfig) -> u64 {
        ns / tcp.clock_ns * tcp.clock_ns
    }

    fn sent_after(a: (u64, u32), b: (u64, u32)) -> bool {
        a.0 > b.0 || (a.0 == b.0 && a.1 > b.1)
    }

    /// An ACK.
    pub fn on_ack(&mut self, now_ns: u64, input: &AckIn<'_>, tcp: &TcpConfig) {
        let (prior_una, prior_delivered) = (self.una, self.delivered);
        let mut sample = Sample::default();
        if input.ack > self.nxt {
            return; // Of no segment of ours.
        }
        let blocks = &input.sack[usize::from(input.dsack).min(input.sack.len())..];
        if !blocks.is_empty() {
            self.take_sacks(blocks, now_ns, &mut sample);
        } else if self.sacked == 0 {
            self.last_blocks = [(0, 0); 4];
        }
        let advanced = input.ack > self.una;
        if advanced {
            self.take_cumulative(input.ack, now_ns, &mut sample);
            self.backoff = 0;
        }
        self.rtt(now_ns, &sample, tcp);
        let beyond = self.delivered.wrapping_sub(self.app_limited);
        if self.app_limited != 0 && beyond != 0 && beyond < 1 << 31 {
            self.app_limited = 0;
        }
        let delivered = self.delivered.wrapping_sub(prior_delivered);
        let ce = if input.ece { delivered } else { 0 };
        if self.probing && input.ack >= self.probe_end {
            self.probing = false;
        }
        let growth = self.tell(now_ns, input, &sample, delivered, ce, tcp);
        let dubious = !blocks.is_empty() || input.ece || self.state != CaState::Open || input.dsack;
        let mut fresh_losses = 0;
        if dubious {
            fresh_losses = self.recover(now_ns, input, &sample, tcp);
        }
        self.control_ack(
            now_ns,
            input,
            &sample,
            prior_una,
            delivered,
            ce,
            fresh_losses,
            growth,
            tcp,
        );
        if self.nxt == self.una {
            self.timer = Timer::None;
            self.due_ns = u64::MAX;
        } else if (advanced || sample.newest.is_some()) && self.timer != Timer::Reorder {
            self.arm(now_ns, tcp);
        }
    }

    fn take_sacks(&mut self, blocks: &[(u32, u32)], now_ns: u64, sample: &mut Sample) {
        let known = self.last_blocks;
        for &(from, to) in blocks {
            let (mut from, to) = (from.max(self.una), to.min(self.nxt));
            if let Some(k) = known.iter().find(|k| k.0 <= from && from < k.1) {
                from = from.max(k.1);
            }
            for seq in from..to {
                if self.seg(seq).flags & mark::SACKED == 0 {
                    self.deliver(seq, now_ns, sample, true);
                    self.seg(seq).flags |= mark::SACKED;
                    self.sacked += 1;
                }
            }
            self.highest_sacked = self.highest_sacked.max(to);
        }
        self.last_blocks = [(0, 0); 4];
        for (to, from) in self.last_blocks.iter_mut().zip(blocks) {
            *to = *from;
        }
    }

    fn take_cumulative(&mut self, ack: u32, now_ns: u64, sample: &mut Sample) {
        for seq in self.una..ack {
            if self.seg(seq).flags & mark::SACKED != 0 {
                self.sacked -= 1;
            } else {
                self.deliver(seq, now_ns, sample, false);
            }
        }
        self.counters.acked_bytes += self.cut.bytes(self.una, ack);
        self.una = ack;
        self.scan = self.scan.max(ack);
        self.hint = self.hint.max(ack);
    }

    /// A segment is delivered for the first time.
    #[inline]
    fn deliver(&mut self, seq: u32, now_ns: u64, sample: &mut Sample, sack: bool) {
        let highest = self.highest_sacked;
        let segment = self.seg(seq);
        let s = *segment;
        segment.flags &= !(mark::LOST | mark::RETRANS);
        if s.flags & mark::LOST != 0 {
            self.lost -= 1;
        }
        if s.flags & mark::RETRANS != 0 {
            self.retrans -= 1;
        }
        self.delivered = self.delivered.wrapping_add(1);
        let ever = s.flags & mark::EVER != 0;
        if !ever && seq + 1 < highest && !sack {
            // Came after a later one, and was sent once.
            sample.reordered = true;
        }
        if ever {
            if !sack {
                sample.retransmitted = true;
                sample.again_ns = sample.again_ns.max(s.sent_ns);
            }
        } else if sack {
            if !sample.sacked {
                sample.first_sacked_ns = s.sent_ns;
            }
            sample.last_sacked_ns = s.sent_ns;
            sample.sacked = true;
        } else {
            sample.first_ns = sample.first_ns.min(s.sent_ns);
            sample.last_ns = s.sent_ns;
            sample.acked = true;
        }
        let key = (s.sent_ns, seq);
        if sample
            .newest
            .is_none_or(|n| Self::sent_after(key, (n.sent_ns, n.seq)))
        {
            sample.newest = Some(Newest {
                sent_ns: s.sent_ns,
                seq,
                delivered: s.delivered,
                flags: s.flags,
            });
        }
        // RACK: an RTT shorter than the shortest is of the first transmission, not of the second.
        let rtt = now_ns - s.sent_ns;
        if !(ever && rtt < self.min_rtt_ns) {
            self.rack_rtt_ns = rtt;
            if Self::sent_after(key, (self.rack_ns, self.rack_end)) {
                (self.rack_ns, self.rack_end) = key;
            }
        }
    }

    fn rtt(&mut self, now_ns: u64, sample: &Sample, tcp: &TcpConfig) {
        let now = self.clock(now_ns, tcp);
        if sample.acked && !sample.retransmitted {
            let rtt = now - self.clock(sample.first_ns, tcp);
            self.estimate(rtt, tcp);
        } else if sample.sacked {
            let rtt = now - self.clock(sample.first_sacked_ns, tcp);
            self.estimate(rtt, tcp);
        } else if let Some(rtt) = Self::echoed_rtt(now_ns, sample, tcp) {
            self.estimate(rtt, tcp);
        }
        if let Some(rtt) = self.sample_rtt(now_ns, sample, tcp) {
            self.min_rtt_ns = self.min_rtt_ns.min(u64::from(rtt).max(1));
            self.counters.rtts += 1;
            self.counters.rtt_sum_ns += u64::from(rtt);
            self.counters.rtt_ns = rtt;
            if let Some(rtts) = &mut self.rtts {
                rtts.add(u64::from(rtt), 1);
            }
        }
    }

    /// The RTT that congestion controls are told.
    fn sample_rtt(&self, now_ns: u64, sample: &Sample, tcp: &TcpConfig) -> Option<u32> {
        let now = self.clock(now_ns, tcp);
        let sent = if sample.sacked {
            sample.last_sacked_ns
        } else if sample.acked && !sample.retransmitted {
            sample.last_ns
        } else {
            return Self::echoed_rtt(now_ns, sample, tcp).map(|rtt| rtt as u32);
        };
        Some((now - self.clock(sent, tcp)).clamp(1, u64::from(u32::MAX)) as u32)
    }

    /// The RTT of a segment that was sent again: by the timestamp that its ACK brings back, in the milliseconds that
    /// Linux counts there, and never none.
    fn echoed_rtt(now_ns: u64, sample: &Sample, tcp: &TcpConfig) -> Option<u64> {
        (tcp.timestamps && sample.retransmitted).then(|| {
            let ms = now_ns / TIMESTAMP_NS - sample.again_ns / TIMESTAMP_NS;
            ms.clamp(1, 4000) * TIMESTAMP_NS
        })
    }

    /// RFC 6298 as the kernel has it: the variance never below the least timeout.
    fn estimate(&mut self, rtt: u64, tcp: &TcpConfig) {
        if self.srtt_ns == 0 {
            self.srtt_ns = rtt.max(1);
            self.rttvar_ns = (rtt * 2).max(tcp.min_rto_ns);
            return;
        }
        let deviation = rtt.abs_diff(self.srtt_ns);
        self.srtt_ns = (self.srtt_ns * 7 + rtt) / 8;
        self.rttvar_ns = ((self.rttvar_ns * 3 + deviation * 4) / 4).max(tcp.min_rto_ns);
    }

    fn rto_ns(&self, tcp: &TcpConfig) -> u64 {
        if self.srtt_ns == 0 {
            return tcp.initial_rto_ns << self.backoff.min(6);
        }
        // Whole ticks, which double.
        let ticks = (self.srtt_ns + self.rttvar_ns).div_ceil(tcp.tick_ns);
        (ticks * tcp.tick_ns)
            .saturating_mul(1 << self.backoff.min(10))
            .min(120_000_000_000)
    }

    /// Loss detection and TCP's state; how many segments were newly found lost.
    fn recover(&mut self, now_ns: u64, input: &AckIn<'_>, sample: &Sample, tcp: &TcpConfig) -> u32 {
        if sample.reordered {
            self.reordering = true;
        }
        if input.dsack && self.undo && self.undo_left > 0 {
            self.undo_left -= 1;
            self.reorder_steps = (self.reorder_steps + 1).min(255);
        }
        let before = self.lost;
        let next = self.detect(now_ns);
        let found = self.lost - before;
        if matches!(self.state, CaState::Recovery | CaState::Loss | CaState::Cwr)
            // The mark is answered when a segment beyond is acknowledged: one that could say so.
            && (self.una >= self.high + u32::from(self.state == CaState::Cwr)
                || (self.state != CaState::Cwr && self.undo && self.undo_left == 0 && input.dsack))
        {
            self.leave(input.dsack);
        }
        match self.state {
            CaState::Open | CaState::Disorder | CaState::Cwr => {
                if self.lost > 0 {
                    self.enter_recovery(now_ns);
                } else if input.ece && self.state != CaState::Cwr {
                    self.enter_cwr();
                } else if self.state != CaState::Cwr {
                    self.state = if self.sacked > 0 {
                        CaState::Disorder
                    } else {
                        CaState::Open
                    };
                }
            }
            CaState::Recovery | CaState::Loss => {}
        }
        if let Some(at) = next {
            // TCP_TIMEOUT_MIN_US is two milliseconds.
            let at = Self::ticks(now_ns, at.saturating_sub(now_ns) + 2_000_000, tcp);
            if self.timer != Timer::Rto || at < self.due_ns {
                self.timer = Timer::Reorder;
                self.due_ns = at;
            }
        } else if self.timer == Timer::Reorder {
            self.arm(now_ns, tcp);
        }
        found
    }

    /// RACK: what was sent before something that is delivered, and long enough ago, is lost. When the
    /// next one will be, if there is one.
    fn detect(&mut self, now_ns: u64) -> Option<u64> {
        if self.rack_rtt_ns == 0 {
            return None;
        }
        let window = self.reorder_window();
        let newest = (self.rack_ns, self.rack_end);
        let late = self.rack_rtt_ns + window;
        self.scan = self.scan.max(self.una);
        while self.scan < self.nxt {
            let scan = self.scan;
            let s = *self.seg(scan);
            if s.flags & (mark::SACKED | mark::LOST | mark::EVER) == 0 {
                if !Self::sent_after(newest, (s.sent_ns, scan)) {
                    break;
                }
                if s.sent_ns + late > now_ns {
                    return Some(s.sent_ns + late);
                }
                self.seg(scan).flags |= mark::LOST;
                self.lost += 1;
                self.hint = self.hint.min(scan);
            }
            self.scan += 1;
        }
        while let Some(&(seq, at)) = self.again.front() {
            let s = if seq < self.una {
                Segment::default()
            } else {
                *self.seg(seq)
            };
            if seq < self.una || s.flags & mark::RETRANS == 0 || s.sent_ns != at {
                self.again.pop_front();
                continue;
            }
            if !Self::sent_after(newest, (at, seq)) {
                break;
            }
            if at + late > now_ns {
                return Some(at + late);
            }
            self.again.pop_front();
            // Lost again: it may be sent again.
            let segment = self.seg(seq);
            let was_lost = segment.flags & mark::LOST != 0;
            segment.flags = (segment.flags | mark::LOST) & !mark::RETRANS;
            self.retrans -= 1;
            if !was_lost {
                self.lost += 1;
            }
            self.hint = self.hint.min(seq);
        }
        None
    }

    fn reorder_window(&self) -> u64 {
        if !self.reordering
            && (matches!(self.state, CaState::Recovery | CaState::Loss) || self.sacked >= 3)
        {
            return 0;
        }
        let quarter = if self.min_rtt_ns == u64::MAX {
            0
        } else {
            self.min_rtt_ns / 4
        };
        (quarter * self.reorder_steps).min(self.srtt_ns)
    }

    fn begin_reduction(&mut self, loss: bool) {
        self.high = self.nxt;
        self.prior_cwnd = self.cwnd.packets;
        (self.prr_delivered, self.prr_out) = (0, 0);
        self.cwnd.count = 0;
        if let Control::Window(w) = &mut self.control {
            self.cwnd.ssthresh = w.ssthresh(&self.cwnd, loss);
        }
    }

    fn enter_cwr(&mut self) {
        if matches!(self.control, Control::Rate(_)) {
            return;
        }
        self.undo = false;
        self.begin_reduction(false);
        self.state = CaState::Cwr;
        self.cwr = true;
    }

    fn enter_recovery(&mut self, now_ns: u64) {
        let reducing = self.state == CaState::Cwr;
        if !reducing {
            self.begin_reduction(true);
        } else if let Control::Window(w) = &mut self.control {
            w.on_loss(&mut self.cwnd);
        }
        self.undo = true;
        self.undo_left = 0;
        self.state = CaState::Recovery;
        self.counters.recoveries += 1;
        self.control.on_loss(now_ns);
    }

    fn leave(&mut self, dsack: bool) {
        let was = self.state;
        self.state = if self.sacked > 0 {
            CaState::Disorder
        } else {
            CaState::Open
        };
        match was {
            CaState::Cwr => {
                if matches!(self.control, Control::Window(_)) {
                    self.cwnd.packets = self.cwnd.packets.min(self.cwnd.ssthresh);
                    self.cwnd.packets = self.cwnd.ssthresh;
                }
            }
            CaState::Recovery | CaState::Loss => {
                let spurious = dsack && self.undo && self.undo_left == 0;
                if spurious {
                    self.control.on_undo();
                    if matches!(self.control, Control::Window(_)) {
                        self.cwnd.packets = self.cwnd.packets.max(self.prior_cwnd);
                        self.cwnd.ssthresh = self.cwnd.ssthresh.max(self.prior_cwnd);
                    }
                } else if was == CaState::Recovery && matches!(self.control, Control::Window(_)) {
                    self.cwnd.packets = self.cwnd.ssthresh;
                }
                self.control.on_recovery_exit();
            }
            CaState::Open | CaState::Disorder => {}
        }
        self.undo = false;
    }

    /// Tells a window control of an ACK, before TCP's state follows it: what it learns from it counts for a
    /// reduction that the same ACK brings.
    fn tell(
        &mut self,
        now_ns: u64,
        input: &AckIn<'_>,
        sample: &Sample,
        delivered: u32,
        ce: u32,
        tcp: &TcpConfig,
    ) -> Growth {
        if !matches!(self.control, Control::Window(_)) {
            return Growth::default();
        }
        let rtt_ns = self.sample_rtt(now_ns, sample, tcp).unwrap_or(0);
        let bursts_us = 4 * GSO_BYTES * 1_000_000 / self.rate.max(1);
        let growth = Growth {
            now_ns,
            acked: delivered,
            delivered,
            ce,
            rtt_us: (rtt_ns / 1000).max(u32::from(rtt_ns != 0)),
            min_rtt_us: (self.min_rtt_ns / 1000).min(u64::from(u32::MAX)) as u32,
            una: self.una,
            nxt: self.nxt,
            limited: false,
            circuit: input.circuit,
            bursts_us: bursts_us.min(1000) as u32,
        };
        if let Control::Window(w) = &mut self.control {
            w.on_ack(&mut self.cwnd, &growth);
        }
        growth
    }

    #[expect(clippy::too_many_arguments, reason = "what one ACK said, used once")]
    fn control_ack(
        &mut self,
        now_ns: u64,
        input: &AckIn<'_>,
        sample: &Sample,
        prior_una: u32,
        delivered: u32,
        ce: u32,
        losses: u32,
        mut growth: Growth,
        tcp: &TcpConfig,
    ) {
        let rtt_ns = self.sample_rtt(now_ns, sample, tcp).unwrap_or(0);
        let in_flight = self.in_flight();
        growth.limited = self.is_limited();
        match &mut self.control {
            Control::Window(w) => {
                if matches!(self.state, CaState::Cwr | CaState::Recovery) {
                    self.reduce(delivered, losses, self.una > prior_una);
                } else if self.una > prior_una {
                    let (cwnd, w) = (&mut self.cwnd, w);
                    w.grow(cwnd, &growth);
                }
                self.rate = self.linux_rate();
            }
            Control::Rate(rate) => {
                rate.on_ack(
                    now_ns,
                    rtt_ns,
                    u64::from(delivered) * u64::from(self.cut.mss),
                );
                self.pacing = rate.rate();
            }
            law => {
                let rtt_us = match rtt_ns {
                    0 => u64::MAX,
                    ns => u64::from(ns / 1000),
                };
                if losses == 0 && ce == 0 && law.passes(delivered, rtt_us) {
                    return;
                }
                let bytes = self.cut.bytes(prior_una, self.una);
                let short = bytes != u64::from(delivered) * u64::from(self.cut.mss);
                let newest = sample.newest;
                // A lone segment that is shorter than the MSS of the path, if by no more than its telemetry: Linux
                // takes it that its ACK was held back.
                let delayed = delivered == 1
                    && bytes < u64::from(self.path.mss)
                    && newest.is_some_and(|n| n.delivered.wrapping_add(1) == self.delivered);
                let retrans = newest.is_some_and(|n| n.flags & mark::EVER != 0);
                let mut records = [Record::default(); wire::stack::MAX_SLOTS];
                let int = match input.telemetry {
                    None => Int::None,
                    Some(Telemetry::Mpd {
                        forward_ns,
                        backward_ns,
                        missing,
                    }) => Int::Mpd(Mpd {
                        forward_ns,
                        backward_ns,
                        coverage: if missing.is_full() {
                            Coverage::Full
                        } else {
                            Coverage::Partial
                        },
                    }),
                    Some(Telemetry::Bottleneck(r, _)) => Int::Bottleneck(record(&r)),
                    Some(Telemetry::Stack(slots, n)) => {
                        for (to, from) in records.iter_mut().zip(&slots) {
                            *to = record(from);
                        }
                        let wrap = Wrap {
                            tx_mask: wire::stack::TX_MASK,
                            ts_mask: wire::stack::TS_MASK,
                        };
                        Int::Stack(&records[..n.min(records.len())], wrap)
                    }
                };
                let mut ack = Ack {
                    now_ns,
                    rtt_ns,
                    acked: self.control.all(delivered),
                    delivered: self.delivered,
                    prior_delivered: newest.map_or(0, |n| n.delivered),
                    in_flight,
                    ce,
                    app_limited: newest.is_some_and(|n| n.flags & mark::APP_LIMITED != 0),
                    full_size: delivered != 0 && !short && !retrans && !delayed,
                    int,
                };
                // An ACK without telemetry waits for the next one that has some, for a round trip.
                let fresh = !matches!(ack.int, Int::None);
                let (sum, prior) = (ack.delivered, ack.prior_delivered);
                let all = self.hold.ack(fresh, ack.acked, ack.ce, sum, prior);
                let told = all.map(|(acked, ce)| {
                    (ack.acked, ack.ce) = (acked, ce);
                    &ack
                });
                if self.control.on_ack(told) {
                    self.pacing = self.control.pacing_rate();
                }
                // At least one retransmission may leave now, however far the window has fallen.
                let least = if losses == 0 { 1 } else { ack.in_flight + 1 };
                self.cwnd.packets = self.control.cwnd_packets_at(self.delivered).max(least);
                if tcp.published_windows {
                    self.keep_published(least);
                }
            }
        }
    }

    /// Keeps to a window below two packets as Swift and Poseidon publish it.
    fn keep_published(&mut self, least: u32) {
        let cwnd = self.control.cwnd(self.cwnd.packets);
        if cwnd >= 2.0 {
            return;
        }
        // The part of a packet falls to as many ACKs, spread evenly, as in `Law::cwnd_packets_at`.
        let phase = f64::from(self.delivered.wrapping_mul(0x9e37_79b9)) / 2f64.powi(32);
        self.cwnd.packets = ((cwnd + phase) as u32).max(1).max(least);
        if cwnd >= 1.0 {
            self.pacing = u64::MAX;
        }
        let gap = (u64::from(self.cut.mss) * 1_000_000_000)
            .checked_div(self.pacing)
            .unwrap_or(0);
        self.next_ns = self.last_sent_ns + gap;
    }

    /// Takes over all of a law's answer.
    fn follow(&mut self, least: u32) {
        if self.control.is_law() {
            self.cwnd.packets = self.control.cwnd_packets_at(self.delivered).max(least);
            self.pacing = self.control.pacing_rate();
        }
    }

    /// Proportional rate reduction (RFC 6937 as the kernel has it).
    fn reduce(&mut self, delivered: u32, losses: u32, advanced: bool) {
        if delivered == 0 {
            return;
        }
        let in_flight = self.in_flight();
        self.prr_delivered += delivered;
        let threshold = self.cwnd.ssthresh;
        let mut count = if in_flight > threshold {
            let due = (u64::from(threshold) * u64::from(self.prr_delivered))
                .div_ceil(u64::from(self.prior_cwnd.max(1)));
            (due as u32).saturating_sub(self.prr_out)
        } else {
            let mut count = self
                .prr_delivered
                .saturating_sub(self.prr_out)
                .max(delivered);
            if advanced && losses == 0 {
                count += 1;
            }
            count.min(threshold - in_flight)
        };
        count = count.max(u32::from(self.prr_out == 0));
        self.cwnd.packets = in_flight + count;
    }

    /// A notification of DCQCN.
    pub fn on_notification(&mut self, now_ns: u64) {
        if let Control::Rate(rate) = &mut self.control {
            rate.on_notification(now_ns);
            self.pacing = rate.rate();
        }
    }

    // --- Timers ----------------------------------------------------------------------------------------

    fn ticks(now_ns: u64, ns: u64, tcp: &TcpConfig) -> u64 {
        tcp.wheel(now_ns, ns.div_ceil(tcp.tick_ns))
    }

    fn arm(&mut self, now_ns: u64, tcp: &TcpConfig) {
        let rto = self.rto_ns(tcp);
        let probe = tcp.tlp
            && matches!(self.state, CaState::Open | CaState::Cwr)
            && self.sacked == 0
            && !self.probing
            && self.srtt_ns != 0
            && self.backoff == 0;
        if probe {
            // RFC 8985 §7.2: two round trips, and the time that a lone packet's ACK may be held back.
            let more = if self.nxt - self.una == 1 {
                tcp.min_rto_ns
            } else {
                2_000_000 // TCP_TIMEOUT_MIN_US
            };
            let pto = (2 * self.srtt_ns + more).min(rto);
            self.timer = Timer::Probe;
            self.due_ns = Self::ticks(now_ns, pto, tcp);
        } else {
            self.timer = Timer::Rto;
            self.due_ns = Self::ticks(now_ns, rto, tcp);
        }
    }

    /// The timer may be due. True when there may be something to send; a probe to send whatever the window.
    pub fn on_timer(&mut self, now_ns: u64, tcp: &TcpConfig) -> (bool, Option<Packet>) {
        if now_ns < self.due_ns {
            return (false, None);
        }
        match self.timer {
            Timer::None => {
                self.due_ns = u64::MAX;
                (false, None)
            }
            Timer::Reorder => {
                self.timer = Timer::None;
                let before = self.lost;
                let _ = self.detect(now_ns);
                if self.lost > before && !matches!(self.state, CaState::Recovery | CaState::Loss) {
                    self.enter_recovery(now_ns);
                    self.follow(self.in_flight() + 1);
                }
                self.arm(now_ns, tcp);
                (true, None)
            }
            Timer::Probe => {
                self.probing = true;
                self.probe_end = self.nxt;
                let fresh = self.nxt < self.written && self.nxt - self.una < self.window;
                let seq = if fresh { self.nxt } else { self.nxt - 1 };
                if fresh {
                    self.probe_end += 1;
                }
                self.timer = Timer::Rto;
                self.due_ns = Self::ticks(now_ns, self.rto_ns(tcp), tcp);
                (true, Some(self.transmit(seq, now_ns, tcp)))
            }
            Timer::Rto => {
                self.timeout(now_ns, tcp);
                (true, None)
            }
        }
    }

    fn timeout(&mut self, now_ns: u64, tcp: &TcpConfig) {
        self.counters.timeouts += 1;
        if self.state != CaState::Loss {
            self.begin_reduction(true);
        }
        self.undo = true;
        self.undo_left = 0;
        self.high = self.nxt;
        self.state = CaState::Loss;
        self.control.on_timeout(now_ns);
        if let Control::Window(w) = &mut self.control {
            w.on_timeout();
        }
        for seq in self.una..self.nxt {
            let segment = self.seg(seq);
            if segment.flags & mark::SACKED == 0 {
                segment.flags = (segment.flags | mark::LOST) & !mark::RETRANS;
            }
        }
        self.retrans = 0;
        self.lost = self.nxt - self.una - self.sacked;
        self.again.clear();
        self.hint = self.una;
        self.scan = self.nxt;
        self.probing = false;
        if !matches!(self.control, Control::Rate(_)) {
            self.cwnd.packets = self.in_flight() + 1;
        }
        self.cwnd.count = 0;
        if self.control.is_law() {
            self.pacing = self.control.pacing_rate();
        }
        self.next_ns = 0;
        self.backoff = (self.backoff + 1).min(16);
        self.timer = Timer::Rto;
        self.due_ns = Self::ticks(now_ns, self.rto_ns(tcp), tcp);
    }

    /// The path as the law knows it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[derive(Clone, Copy)]
struct Newest {
    sent_ns: u64,
    seq: u32,
    delivered: u32,
    flags: u8,
}

/// What the segments of one ACK come to.
struct Sample {
    first_ns: u64,
    last_ns: u64,
    first_sacked_ns: u64,
    last_sacked_ns: u64,
    again_ns: u64,
    acked: bool,
    sacked: bool,
    retransmitted: bool,
    reordered: bool,
    newest: Option<Newest>,
}

impl Default for Sample {
    fn default() -> Self {
        Self {
            first_ns: u64::MAX,
            last_ns: 0,
            first_sacked_ns: 0,
            last_sacked_ns: 0,
            again_ns: 0,
            acked: false,
            sacked: false,
            retransmitted: false,
            reordered: false,
            newest: None,
        }
    }
}
