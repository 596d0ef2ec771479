// SPDX-License-Identifier: GPL-2.0

//! What every control law has in common: what it is told, what it answers, and the trait that says
//! so.
//!
//! All times are nanoseconds, all sizes bytes, all rates bytes per second, all windows packets with
//! [`CWND_SHIFT`] fractional bits. Counters wrap; zero means "unknown"
//! where a field says so.

use super::calm::Ease;
use super::math::{CWND_SHIFT, ONE_PACKET};
use super::window::Window;
#[cfg(not(MODULE))]
use core::fmt;

/// A configuration value outside its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The field, as its module parameter is called.
    pub field: &'static str,
    /// What it was set to.
    pub value: u64,
    /// The least it may be.
    pub min: u64,
    /// The most it may be.
    pub max: u64,
}

// The kernel says it in its own words.
#[cfg(not(MODULE))]
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is {}, and must be from {} to {}",
            self.field, self.value, self.min, self.max
        )
    }
}

impl ConfigError {
    /// `value` if it lies in `min..=max`, otherwise the error that says what is wrong with `field`.
    ///
    /// # Errors
    /// When `value` is out of bounds.
    pub const fn check(field: &'static str, value: u32, min: u32, max: u32) -> Result<u32, Self> {
        if value < min || value > max {
            return Err(Self {
                field,
                value: value as u64,
                min: min as u64,
                max: max as u64,
            });
        }
        Ok(value)
    }
}

/// What is known of the path before the first data packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Rate of the host's own link, bytes per second; 0 = unknown, [`Path::DEFAULT_LINE_RATE`] is
    /// assumed.
    pub line_rate: u64,
    /// Base round-trip time of a full-size packet, ns, as an operator gave it; 0 = learn it.
    pub base_rtt_ns: u32,
    /// A first idea of the round-trip time, ns, such as the handshake's; 0 = none.
    pub handshake_rtt_ns: u32,
    /// Resolution of the clock that measures round-trip times, ns: a sample may be this much too
    /// short.
    pub clock_ns: u16,
    /// Payload of a full-size packet, bytes; 0 = [`Path::DEFAULT_MSS`].
    pub mss: u16,
    /// What a full-size packet carries on the wire besides its payload, bytes (headers, preamble,
    /// gap).
    pub overhead: u16,
    /// Hops to the receiver; 0 = unknown.
    pub hops: u8,
}

impl Path {
    /// 10 Gbit/s, for a device that does not tell its rate.
    pub const DEFAULT_LINE_RATE: u64 = 1_250_000_000;
    /// Payload of an Ethernet frame less IPv4, TCP and timestamps.
    pub const DEFAULT_MSS: u16 = 1448;
    /// 100 kbit/s and 10 Tbit/s: the line rates between which every product below stays in its
    /// range.
    const LINE_RATE_BOUNDS: (u64, u64) = (12_500, 1_250_000_000_000);

    /// The line rate with its default and bounds applied.
    #[must_use]
    pub const fn line_rate(&self) -> u64 {
        let (min, max) = Self::LINE_RATE_BOUNDS;
        match self.line_rate {
            0 => Self::DEFAULT_LINE_RATE,
            r if r < min => min,
            r if r > max => max,
            r => r,
        }
    }

    /// Payload of a full-size packet with its default applied.
    #[must_use]
    pub const fn mss(&self) -> u16 {
        if self.mss == 0 {
            Self::DEFAULT_MSS
        } else {
            self.mss
        }
    }

    /// A full-size packet on the wire, bytes.
    #[must_use]
    pub const fn wire(&self) -> u16 {
        self.mss().saturating_add(self.overhead)
    }
}

/// Whether every hop of the path wrote telemetry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coverage {
    /// Some hop did not, or it is not known: the rest of the path shows in the end-to-end delay
    /// alone.
    #[default]
    Partial,
    /// All did.
    Full,
}

/// Maximum per-hop delay (Poseidon §3.1), as echoed by the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mpd {
    /// The largest delay of any hop of the forward path, ns.
    pub forward_ns: u32,
    /// The largest delay of any hop of the ACK's own path, ns (Poseidon §4.1 subtracts both).
    pub backward_ns: u32,
    /// Whether all hops of the forward path took part.
    pub coverage: Coverage,
}

/// The egress port of one hop at the moment it sent the packet.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Queue behind the packet, bytes.
    pub qlen_bytes: u32,
    /// Bytes sent so far, wrapping as [`Wrap::tx_mask`] says.
    pub tx_bytes: u32,
    /// When, ns, wrapping as [`Wrap::ts_mask`] says.
    pub ts_ns: u32,
    /// Time the link takes for a byte, from [`Record::inverse_rate`]; 0 = unknown, the record is
    /// ignored.
    pub inverse_rate: u32,
    /// Which port: records of one id are comparable with each other.
    pub hop_id: u32,
}

impl Record {
    /// Fractional bits of [`Record::inverse_rate`].
    pub const INVERSE_RATE_SHIFT: u32 = 24;

    /// Nanoseconds per byte in Q24 of a link of `mbps` Mbit/s; from 63 Mbit/s up, relative error
    /// below 2^-16 up to 1 Tbit/s. Meant for a table of the speeds a telemetry format can name,
    /// built at compile time.
    #[must_use]
    pub const fn inverse_rate(mbps: u32) -> u32 {
        match (8000u64 << Self::INVERSE_RATE_SHIFT).checked_div(mbps as u64) {
            Some(inverse) if inverse < 1 << 31 => inverse as u32,
            _ => 0,
        }
    }
}

/// Where the counters of a telemetry format wrap: a mask of the bits that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrap {
    /// Of [`Record::tx_bytes`].
    pub tx_mask: u32,
    /// Of [`Record::ts_ns`].
    pub ts_mask: u32,
}

impl Wrap {
    /// The bottleneck record: 24 bits of 64 bytes, 24 bits of nanoseconds.
    pub const BOTTLENECK: Self = Self {
        tx_mask: (1 << 30) - 1,
        ts_mask: (1 << 24) - 1,
    };
    /// A record of the stack: 20 bits of 128 bytes, 20 bits of 16 ns.
    pub const STACK: Self = Self {
        tx_mask: (1 << 27) - 1,
        ts_mask: (1 << 24) - 1,
    };

    /// Whether it is [`Wrap::STACK`].
    #[inline(always)]
    pub(super) fn is_stack(self) -> bool {
        [self.tx_mask, self.ts_mask] == [Self::STACK.tx_mask, Self::STACK.ts_mask]
    }
}

/// The telemetry an ACK brought.
#[derive(Clone, Copy, Debug, Default)]
pub enum Int<'a> {
    /// None: lost, or no hop wrote any. A law then falls back to what it can see itself.
    #[default]
    None,
    /// The maximum per-hop delay.
    Mpd(Mpd),
    /// The most congested hop alone; its id may change from one ACK to the next.
    Bottleneck(Record),
    /// One record per hop, in path order.
    Stack(&'a [Record], Wrap),
}

impl Int<'_> {
    /// The record, where there is one and no more, and where its counters wrap.
    #[inline(always)]
    pub(super) fn single(&self) -> Option<(&Record, Wrap)> {
        if let Self::Stack([record], wrap) = self {
            Some((record, *wrap))
        } else if let Self::Bottleneck(record) = self {
            Some((record, Wrap::BOTTLENECK))
        } else {
            None
        }
    }
}

/// What one ACK says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ack<'a> {
    /// Now, ns, from a clock that never goes back.
    pub now_ns: u64,
    /// Round-trip time of the last packet it acknowledges, ns; 0 = none.
    pub rtt_ns: u32,
    /// Packets it delivers, whether in order or not.
    pub acked: u32,
    /// Packets delivered in all, this ACK included; wraps.
    pub delivered: u32,
    /// `delivered` as it stood when the packet was sent: once it passes a mark set at `delivered`,
    /// a round trip is over.
    pub prior_delivered: u32,
    /// Packets still in the network.
    pub in_flight: u32,
    /// Of `acked`, those that bore a CE mark.
    pub ce: u32,
    /// The sender had nothing more to send: the sample says nothing about what the window could
    /// carry.
    pub app_limited: bool,
    /// The RTT is of a full-size packet, sent once, and its ACK was not held back: fit to learn the
    /// base RTT from.
    pub full_size: bool,
    /// In-band telemetry.
    pub int: Int<'a>,
}

/// How many hops of a path a law can remember.
pub const MAX_HOPS: usize = 8;

/// The last record of one hop, and when it came.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct HopRecord {
    /// The record; an inverse rate of 0 = this place is empty.
    pub record: Record,
    /// The host's clock when it came, ns, wrapping.
    pub seen_ns: u32,
}

/// The last record of every hop, for the laws that watch counters grow. Lives beside the telemetry,
/// not in the law. All-zero is empty.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct HopHistory {
    /// By position on the path, or in order of appearance.
    pub hops: [HopRecord; MAX_HOPS],
    /// The place that was used last, or that all are of one stack.
    pub last: u32,
}

/// A congestion control law.
///
/// The state is plain data. All-zero bytes are valid and mean "not started": every method is then a
/// no-op, because the kernel delivers the first ACK of an active open before it calls `init`.
pub trait Law: Copy + Default {
    /// What an operator may set, in the units an operator thinks in.
    type Config: Copy + Default;
    /// The same, checked and turned into what the arithmetic needs; made once, shared by all flows.
    type Params: Copy;
    /// Its name as a congestion control, at most 15 characters.
    const NAME: &'static str;
    /// Whether a calm flow has to see the round-trip time fall.
    const FALLS: bool = false;

    /// Checks a configuration.
    ///
    /// # Errors
    /// Names the first field that is out of bounds.
    fn prepare(config: &Self::Config) -> Result<Self::Params, ConfigError>;

    /// Starts a flow on `path`.
    fn start(&mut self, params: &Self::Params, path: &Path, now_ns: u64);

    /// The path's facts changed (MTU, device); the window stays.
    fn path_changed(&mut self, params: &Self::Params, path: &Path);

    /// An ACK. True when the window or the pacing rate may have changed, so that the caller can
    /// skip the rest.
    fn on_ack(
        &mut self,
        params: &Self::Params,
        hops: Option<&mut HopHistory>,
        ack: &Ack<'_>,
    ) -> bool;

    /// Whether the flow is where the law wants it, and how many ACKs the law then need not be told of: see
    /// [`Calm`](super::calm::Calm).
    #[inline]
    fn calm(&self, params: &Self::Params) -> Ease {
        let _ = params;
        Ease::default()
    }

    /// A loss was found by duplicate or selective ACKs, once per recovery.
    fn on_loss(&mut self, params: &Self::Params, now_ns: u64);

    /// The retransmission timer fired.
    fn on_timeout(&mut self, params: &Self::Params, now_ns: u64);

    /// All that was outstanding at the loss is delivered.
    fn on_recovery_exit(&mut self, params: &Self::Params) {
        let _ = params;
        self.window_mut().recovered();
    }

    /// The loss was none: packets were merely late.
    fn on_undo(&mut self, params: &Self::Params) {
        let _ = params;
        self.window_mut().undo();
    }

    /// The flow sends again after having been idle for longer than a retransmission timeout.
    fn on_idle_restart(&mut self, params: &Self::Params, now_ns: u64);

    /// Bytes per second to pace at; never zero once started, `u64::MAX` = do not pace.
    fn pacing_rate(&self, params: &Self::Params) -> u64;

    /// The window in packets with [`CWND_SHIFT`] fractional bits; zero
    /// until started.
    ///
    /// Below one packet the sender keeps a single packet in flight and lets the pacing rate space
    /// it out.
    fn cwnd(&self) -> u64 {
        self.window().cwnd()
    }

    /// Whole packets the sender may have in flight now, after `delivered` packets in all. To be
    /// asked on every ACK, also when the window did not change.
    ///
    /// A window of 4.1 packets is five packets for one ACK in ten and four for the others, spread
    /// evenly: rounded up it would be a fifth more rate than the law knows of, and more for flows
    /// with small windows than for others, which is unfair. At least two: a sender with a single
    /// packet in flight would wait for its receiver's delayed-ACK timer, 40 ms, once per packet;
    /// below two packets the pacing rate does the rest.
    fn cwnd_packets_at(&self, delivered: u32) -> u32 {
        // Multiples of the golden ratio fill the unit interval evenly; their top 20 bits are the
        // threshold for the 20 fractional bits of the window.
        let phase = delivered.wrapping_mul(0x9e37_79b9) >> (32 - CWND_SHIFT);
        let up = self.cwnd().saturating_add(u64::from(phase));
        (up.wrapping_shr(CWND_SHIFT) as u32).max(2)
    }

    /// Whole packets, rounded up; for those who ask outside of an ACK.
    fn cwnd_packets(&self) -> u32 {
        let up = self.cwnd().saturating_add(ONE_PACKET - 1);
        (up.wrapping_shr(CWND_SHIFT) as u32).max(2)
    }

    /// Packets above which growth is no longer slow start; what the kernel calls `ssthresh`.
    fn ssthresh(&self) -> u32 {
        self.window().ssthresh_packets()
    }

    /// Whether `start` has been called.
    fn started(&self) -> bool {
        self.window().cwnd() != 0
    }

    /// The part all laws share.
    fn window(&self) -> &Window;

    /// The part all laws share.
    fn window_mut(&mut self) -> &mut Window;
}
