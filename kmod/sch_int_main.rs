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

use core::num::NonZeroU64;
use kernel::prelude::*;

mod kapi;
#[allow(dead_code, unreachable_pub)] // a file of the crate `wire`
#[path = "../wire/src/tc.rs"]
mod tc;

use kapi::qdisc::{Discipline, List, Next, Packet, Refusal, Registration, STATS};

module! {
    type: Module,
    name: "sch_int",
    authors: ["The Fathom authors"],
    description: "software switch port: exact rate, wire delay, ECN step",
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
}

impl Config {
    /// No rate, no delay, a buffer of 1 MiB.
    const DEFAULT: Self = Self {
        rate: None,
        delay_ns: 0,
        limit: 1 << 20,
        ecn: 0,
        overhead: 24,
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
}

impl Port {
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
            let start = packet.notes()[0].max(self.busy_until);
            if start > self.busy_until {
                self.remainder = 0; // an idle link owes nothing
            }
            self.busy_until = start.saturating_add(self.time_ns(len));
            self.sending = len;
            self.packets = self.packets.wrapping_add(1);
            self.bytes = self.bytes.wrapping_add(len.into());
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
    }

    fn stats(&self, out: &mut [u64; STATS]) {
        for (place, value) in [
            (tc::STAT_MAX, self.max_bytes),
            (tc::STAT_MARKS, self.marks),
            (tc::STAT_DROPS, self.drops),
            (tc::STAT_PACKETS, self.packets),
            (tc::STAT_BYTES, self.bytes),
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
