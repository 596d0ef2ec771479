// SPDX-License-Identifier: GPL-2.0
//! `int`: a software switch port, as a qdisc.
//!
//! It believes that a port is a queue, a link that is busy for as long as a packet takes, and a wire. A
//! packet waits until the link is free, occupies it for its length over the rate, and arrives after the
//! wire's delay. All of it is reckoned to the nanosecond from the moment a packet came, not from when
//! the kernel got around to it, so that a late timer delays one packet and never the rate.
//!
//! Packets that find a longer queue than allowed are dropped; those that find at least the ECN threshold
//! are marked (the step that DCTCP expects). GSO packets are cut into single ones first.
//!
//! With telemetry on, a packet that carries the option (see `wire/`) is told, at the moment it is put on
//! the link, how long it waited, what it leaves behind, how much the port has sent, and when; the TCP
//! checksum is changed by the difference. Any other packet passes as it is.

use core::num::NonZeroU64;
use kernel::prelude::*;

mod kapi;
#[allow(unreachable_pub)] // a crate in its own right
#[path = "../wire/src/lib.rs"]
mod wire;

use wire::{mpd, tc, Hop, Load, Reason, Speed};

use kapi::qdisc::{Discipline, List, Next, Packet, Refusal, Registration, STATS};

module! {
    type: Module,
    name: "sch_int",
    authors: ["The Fathom authors"],
    description: "software switch port: exact rate, wire delay, ECN step, in-band telemetry",
    license: "GPL",
}

const NS_PER_S: u64 = 1_000_000_000;
/// Rates from 8 kbit/s to 16 Tbit/s: below, a packet's time would leave 64 bits.
const MIN_RATE: u64 = 1_000;
const MAX_RATE: u64 = 2_000_000_000_000;
/// Longer wires than 10 s are a mistake.
const MAX_DELAY_NS: u64 = 10 * NS_PER_S;
/// Buffers of more than 1 GiB are one too.
const MAX_LIMIT: u64 = 1 << 30;
/// More than a jumbo frame is no overhead.
const MAX_OVERHEAD: u64 = 10_000;

/// What the administrator set.
#[derive(Clone, Copy)]
struct Config {
    rate: Option<NonZeroU64>,
    delay_ns: u64,
    limit: u32,
    ecn: u32,
    overhead: u32,
    int: bool,
    hop_id: u8,
    shift: u8,
}

impl Config {
    /// No rate, no delay, a buffer of 1 MiB.
    const DEFAULT: Self = Self {
        rate: None,
        delay_ns: 0,
        limit: 1 << 20,
        ecn: 0,
        overhead: 24,
        int: false,
        hop_id: 0,
        shift: mpd::DEFAULT_SHIFT,
    };

    fn parse(mut self, options: &[u8]) -> core::result::Result<Self, Refusal> {
        let mut why = None;
        let whole = tc::parse(options, |kind, value| {
            let (ok, message) = match kind {
                tc::RATE => {
                    self.rate = NonZeroU64::new(value);
                    let ok = value == 0 || (MIN_RATE..=MAX_RATE).contains(&value);
                    (
                        ok,
                        c"rate must be 0 or from 1000 to 2000000000000 bytes a second",
                    )
                }
                tc::DELAY => {
                    self.delay_ns = value;
                    (
                        value <= MAX_DELAY_NS,
                        c"delay must be at most 10000000000 ns",
                    )
                }
                tc::LIMIT => {
                    self.limit = value as u32;
                    (
                        (1..=MAX_LIMIT).contains(&value),
                        c"limit must be from 1 to 1073741824 bytes",
                    )
                }
                tc::ECN => {
                    self.ecn = value as u32;
                    (value <= MAX_LIMIT, c"ecn must be at most 1073741824 bytes")
                }
                tc::OVERHEAD => {
                    self.overhead = value as u32;
                    (
                        value <= MAX_OVERHEAD,
                        c"overhead must be at most 10000 bytes",
                    )
                }
                tc::INT => {
                    self.int = value == 1;
                    (value <= 1, c"int must be 0 or 1")
                }
                tc::HOP_ID => {
                    self.hop_id = value as u8;
                    (value <= 255, c"hop_id must be from 0 to 255")
                }
                tc::SHIFT => {
                    self.shift = value as u8;
                    (
                        value <= mpd::MAX_SHIFT.into(),
                        c"shift must be from 0 to 15",
                    )
                }
                _ => (false, c"unknown attribute"),
            };
            if !ok {
                why = Some(message);
            }
            ok
        });
        match (why, whole) {
            (Some(why), _) => Err(Refusal(why)),
            (None, false) => Err(Refusal(c"malformed attributes: each is eight bytes")),
            (None, true) => Ok(self),
        }
    }
}

/// A port. The notes of a packet in the queue: when it came. On the wire: when it arrives.
struct Port {
    config: Config,
    queue: List,
    queue_bytes: u32,
    /// The packet on the link, bytes, and until when it occupies it.
    sending: u32,
    busy_until: u64,
    /// What rounding to whole nanoseconds left over, in byte-times: the rate is exact in the long run.
    remainder: u64,
    wire: List,
    max_bytes: u64,
    marks: u64,
    drops: u64,
    packets: u64,
    bytes: u64,
    load: Load,
    stamps: u64,
    refused: u64,
}

impl Port {
    /// Writes what the port knows into the packet's option, if it has one. `start` is when the packet is
    /// put on the link, `came` when it arrived, `time_ns` how long it takes.
    fn stamp(&mut self, packet: &mut Packet, came: u64, start: u64, time_ns: u64) {
        // Every packet loads the port, with or without the option; Q8 of a nanosecond.
        let busy = time_ns.saturating_mul(256).min(u32::MAX.into()) as u32;
        let load = self.load.sent(start, busy);
        let Some(tcp) = packet.tcp() else { return };
        let Some((fixed, options)) = tcp.header.split_at_mut_checked(20) else {
            return;
        };
        let mbps = self
            .config
            .rate
            .map_or(0, |r| r.get() / 125_000)
            .min(u32::MAX.into()) as u32;
        let hop = Hop {
            delay_ns: start.saturating_sub(came),
            qlen_bytes: self.queue_bytes,
            tx_bytes: self.bytes,
            time_ns: start,
            load,
            speed: Speed::from_mbps(mbps),
            hop_id: self.config.hop_id,
            shift: self.config.shift,
        };
        match hop.stamp(options) {
            Ok(delta) => {
                self.stamps = self.stamps.wrapping_add(1);
                if let (false, Some(check)) = (tcp.partial, fixed.get_mut(16..18)) {
                    if let Ok(old) = <[u8; 2]>::try_from(&*check) {
                        check.copy_from_slice(&delta.apply(u16::from_be_bytes(old)).to_be_bytes());
                    }
                }
            }
            Err(Reason::ABSENT) => {}
            Err(_) => self.refused = self.refused.wrapping_add(1),
        }
    }

    /// How long a packet occupies the link, ns.
    fn time_ns(&mut self, len: u32) -> u64 {
        let Some(rate) = self.config.rate else {
            return 0;
        };
        // len + overhead < 2^25 and 1e9 < 2^30: below 2^56 with a remainder below the rate.
        let bytes = u64::from(len.saturating_add(self.config.overhead));
        let total = bytes.wrapping_mul(NS_PER_S).wrapping_add(self.remainder);
        self.remainder = total % rate;
        total / rate
    }

    /// Puts packets on the link for which it has become free by `now`.
    fn transmit(&mut self, now: u64) {
        while self.busy_until <= now {
            self.sending = 0;
            let Some(mut packet) = self.queue.pop() else {
                return;
            };
            let len = packet.len();
            self.queue_bytes = self.queue_bytes.saturating_sub(len);
            // The link was free, or became so: whichever came last, the packet or the link.
            let came = packet.notes()[0];
            let start = came.max(self.busy_until);
            if start > self.busy_until {
                self.remainder = 0; // an idle link owes nothing
            }
            let time_ns = self.time_ns(len);
            self.busy_until = start.saturating_add(time_ns);
            self.sending = len;
            self.packets = self.packets.wrapping_add(1);
            self.bytes = self.bytes.wrapping_add(len.into());
            if self.config.int {
                self.stamp(&mut packet, came, start, time_ns);
            }
            packet.notes()[0] = self.busy_until.saturating_add(self.config.delay_ns);
            self.wire.push(packet);
        }
    }
}

impl Discipline for Port {
    const NAME: &'static str = tc::NAME;

    fn new(options: &[u8]) -> core::result::Result<Self, Refusal> {
        Ok(Self {
            config: Config::DEFAULT.parse(options)?,
            queue: List::new(),
            queue_bytes: 0,
            sending: 0,
            busy_until: 0,
            remainder: 0,
            wire: List::new(),
            max_bytes: 0,
            marks: 0,
            drops: 0,
            packets: 0,
            bytes: 0,
            load: Load::default(),
            stamps: 0,
            refused: 0,
        })
    }

    fn change(&mut self, options: &[u8]) -> core::result::Result<(), Refusal> {
        self.config = self.config.parse(options)?;
        self.remainder = 0;
        Ok(())
    }

    fn enqueue(&mut self, now_ns: u64, mut packet: Packet) -> core::result::Result<(), Packet> {
        let len = packet.len();
        self.transmit(now_ns);
        if self.queue_bytes.saturating_add(len) > self.config.limit {
            self.drops = self.drops.wrapping_add(1);
            return Err(packet);
        }
        if self.config.ecn != 0 && self.queue_bytes >= self.config.ecn && packet.set_ce() {
            self.marks = self.marks.wrapping_add(1);
        }
        packet.notes()[0] = now_ns;
        self.queue_bytes = self.queue_bytes.saturating_add(len);
        self.max_bytes = self.max_bytes.max(self.queue_bytes.into());
        self.queue.push(packet);
        Ok(())
    }

    fn dequeue(&mut self, now_ns: u64) -> Next {
        self.transmit(now_ns);
        match self.wire.first_notes() {
            Some([arrives, _]) if arrives <= now_ns => match self.wire.pop() {
                Some(packet) => Next::Send(packet),
                None => Next::Idle,
            },
            Some([arrives, _]) if self.busy_until > now_ns => {
                Next::At(arrives.min(self.busy_until))
            }
            Some([arrives, _]) => Next::At(arrives),
            None => Next::Idle,
        }
    }

    fn backlog(&self, now_ns: u64) -> u32 {
        let sending = if self.busy_until > now_ns {
            self.sending
        } else {
            0
        };
        self.queue_bytes.saturating_add(sending)
    }

    fn reset(&mut self) {
        self.queue = List::new();
        self.wire = List::new();
        self.queue_bytes = 0;
        self.sending = 0;
        self.busy_until = 0;
        self.remainder = 0;
    }

    fn dump(&self, put: &mut dyn FnMut(u16, u64)) {
        put(tc::RATE, self.config.rate.map_or(0, NonZeroU64::get));
        put(tc::DELAY, self.config.delay_ns);
        put(tc::LIMIT, self.config.limit.into());
        put(tc::ECN, self.config.ecn.into());
        put(tc::OVERHEAD, self.config.overhead.into());
        put(tc::INT, self.config.int.into());
        put(tc::HOP_ID, self.config.hop_id.into());
        put(tc::SHIFT, self.config.shift.into());
    }

    fn stats(&self, out: &mut [u64; STATS]) {
        for (place, value) in [
            (tc::STAT_MAX, self.max_bytes),
            (tc::STAT_MARKS, self.marks),
            (tc::STAT_DROPS, self.drops),
            (tc::STAT_PACKETS, self.packets),
            (tc::STAT_BYTES, self.bytes),
            (tc::STAT_STAMPS, self.stamps),
            (tc::STAT_REFUSED, self.refused),
        ] {
            if let Some(to) = out.get_mut(place) {
                *to = value;
            }
        }
    }
}

struct Module {
    _registration: Registration<Port>,
}

impl kernel::Module for Module {
    fn init(module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _registration: Registration::new(module)?,
        })
    }
}
