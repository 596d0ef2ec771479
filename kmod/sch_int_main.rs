// SPDX-License-Identifier: GPL-2.0
//! `int`: a software switch port, as a qdisc.
//!
//! It believes that a port is a queue, a link that is busy for as long as a packet takes, and a wire. A
//! packet waits until the link is free, occupies it for its length over the rate, and arrives after the
//! wire's delay. All of it is reckoned to the nanosecond from the moment a packet came, not from when
//! the kernel got around to it, so that a late timer delays one packet and never the rate.
//!
//! Packets that find a longer queue than allowed are dropped; those that find at least the ECN threshold
//! are marked (the step that DCTCP expects). With a target set, CoDel chooses packets as they leave the queue: those
//! whose sender speaks ECN are marked, others dropped. With reverse path marking on, a chosen packet is instead counted in a
//! table that the ports of the network namespace share, and an ACK of its flow that passes any of these
//! ports gets ECE. GSO packets are cut into single ones first.
//!
//! With telemetry on, a packet that carries the option (see `wire/`) is told, at the moment it is put on
//! the link, how long it waited, what it leaves behind, how much the port has sent, and when; the TCP
//! checksum is changed by the difference. Any other packet passes as it is.

use kernel::prelude::*;

#[path = "sch_int_config.rs"]
mod config;
mod kapi;
#[path = "sch_int_log.rs"]
mod log;
#[allow(unreachable_pub)] // a crate in its own right
#[path = "../wire/src/lib.rs"]
mod wire;

use config::{Config, NS_PER_S};
use kapi::{
    qdisc::{Discipline, List, Namespace, Next, Packet, Refusal, Registration, Segment, STATS},
    shared::Shared,
};
use log::Log;
use wire::{
    bottleneck,
    codel::{Codel, Leaving},
    rpm, tc, Delta, Hop, Load, Reason, Speed,
};

module! {
    type: Module,
    name: "sch_int",
    authors: ["The Fathom authors"],
    description: "software switch port: exact rate, wire delay, ECN, CoDel, RPM, in-band telemetry",
    license: "GPL",
    alias: ["net-sch-int"],
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
    /// What is counted, by its place in the statistics.
    counts: [u64; STATS],
    /// Bytes sent with their overhead: what the link carried.
    carried: u64,
    load: Load,
    /// The rate as packets are told it.
    speed: Speed,
    /// What a byte takes on the link, as [`Load`] counts it.
    byte_time: u32,
    max_packet: u32,
    codel: Codel,
    rpm: Option<Shared>,
    log: Option<Log>,
}

/// New parameters, and the memory they need where that is not what the port has.
struct Plan {
    config: Config,
    rpm: Option<Option<Shared>>,
    log: Option<Option<Log>>,
}

/// What became of a packet that CoDel chose.
enum Chosen {
    Sent(Packet),
    Dropped,
}

/// Which flow a segment is of, in its own direction.
#[inline(never)]
fn flow(segment: &Segment) -> rpm::Flow {
    let (sport, dport) = (segment.sport, segment.dport);
    if segment.ip == 6 {
        return rpm::Flow::V6 {
            src: segment.src,
            dst: segment.dst,
            sport,
            dport,
        };
    }
    let four = |a: &[u8; 16]| [a[0], a[1], a[2], a[3]];
    rpm::Flow::V4 {
        src: four(&segment.src),
        dst: four(&segment.dst),
        sport,
        dport,
    }
}

/// Changes the checksum of a TCP header by `delta`.
fn update_checksum(fixed: &mut [u8], partial: bool, delta: Delta) {
    if let (false, Some(check)) = (partial, fixed.get_mut(16..18)) {
        if let Ok(old) = <[u8; 2]>::try_from(&*check) {
            check.copy_from_slice(&delta.apply(u16::from_be_bytes(old)).to_be_bytes());
        }
    }
}

/// Sets ECE in a TCP segment; false when it is not there to be written.
fn set_ece(packet: &mut Packet) -> bool {
    let Some(tcp) = packet.tcp() else {
        return false;
    };
    let Some(word) = tcp.header.get_mut(12..14) else {
        return false;
    };
    let Ok(old) = <[u8; 2]>::try_from(&*word) else {
        return false;
    };
    let new = [old[0], old[1] | rpm::flag::ECE];
    word.copy_from_slice(&new);
    let delta = Delta::word(u16::from_be_bytes(old), u16::from_be_bytes(new));
    update_checksum(tcp.header, tcp.partial, delta);
    true
}

impl Port {
    /// What follows from the parameters.
    #[inline(never)]
    fn configured(&mut self) {
        self.speed = self.config.speed();
        self.byte_time = self.config.byte_time();
        self.remainder = 0;
    }

    /// Adds to what is counted at `place`.
    fn count(&mut self, place: usize, more: u64) {
        if let Some(count) = self.counts.get_mut(place) {
            *count = count.wrapping_add(more);
        }
    }

    /// CoDel has chosen this packet: the sender is told, the other way round if it can be, or the packet
    /// goes.
    fn chosen(&mut self, mut packet: Packet, segment: Option<&Segment>) -> Chosen {
        if let (Some(shared), Some(segment)) = (&self.rpm, segment) {
            if rpm::speaks_ecn(segment.ecn) {
                let table = rpm::Table::new(shared.counters());
                if table.is_some_and(|table| table.count(&flow(segment))) {
                    self.count(tc::STAT_RPM_COUNTED, 1);
                    return Chosen::Sent(packet);
                }
                self.count(tc::STAT_RPM_FULL, 1);
            }
        }
        if packet.set_ce() {
            self.count(tc::STAT_MARKS, 1);
            self.count(tc::STAT_CODEL_MARKS, 1);
            return Chosen::Sent(packet);
        }
        self.count(tc::STAT_CODEL_DROPS, 1);
        Chosen::Dropped
    }

    /// Gives the packet a mark of the other direction of its flow, when there is one.
    fn carry(&mut self, packet: &mut Packet, segment: &Segment) {
        let Some(table) = self
            .rpm
            .as_ref()
            .and_then(|shared| rpm::Table::new(shared.counters()))
        else {
            return;
        };
        if !rpm::may_carry(segment.byte12, segment.flags) {
            return;
        }
        let flow = flow(segment);
        if !table.take(&flow) {
            return;
        }
        if set_ece(packet) {
            self.count(tc::STAT_RPM_SET, 1);
        } else {
            // No memory to write to: the next ACK carries it.
            let _ = table.count(&flow.reverse());
        }
    }

    /// Writes what the port knows into the packet's option, if it has one. `start` is when the packet is
    /// put on the link, `came` when it arrived, `carried` its bytes there.
    fn stamp(&mut self, packet: &mut Packet, came: u64, start: u64, carried: u32) {
        // Every packet loads the port, with or without the option.
        let busy = Load::busy(carried, self.byte_time);
        let load = self.load.sent(start, busy);
        let Some(tcp) = packet.tcp() else { return };
        let Some((fixed, options)) = tcp.header.split_at_mut_checked(20) else {
            return;
        };
        let hop = Hop {
            delay_ns: start.saturating_sub(came),
            qlen_bytes: self.queue_bytes,
            tx_bytes: self.carried,
            time_ns: start,
            load,
            speed: self.speed,
            hop_id: self.config.hop_id,
            shift: self.config.shift,
        };
        let found = wire::find(options);
        let stamped = found.and_then(|found| {
            let delta = hop.stamp_found(options, &found)?;
            Ok((delta, found.exid))
        });
        match stamped {
            Ok((delta, exid)) => {
                self.count(tc::STAT_STAMPS, 1);
                update_checksum(fixed, tcp.partial, delta);
                self.note(packet, &hop, exid);
            }
            Err(Reason::ABSENT) => {}
            Err(_) => self.count(tc::STAT_REFUSED, 1),
        }
    }

    /// Writes into the log what the packet was just told. Ports of a deployment have no log.
    #[cold]
    fn note(&mut self, packet: &Packet, hop: &Hop, exid: u16) {
        let (Some(log), Some(segment)) = (&mut self.log, packet.segment()) else {
            return;
        };
        log.push(&tc::Record {
            time_ns: hop.time_ns,
            delay_ns: hop.delay_ns,
            tx_bytes: hop.tx_bytes,
            qlen_bytes: hop.qlen_bytes,
            key: bottleneck::key(hop.delay_ns, hop.load),
            load: hop.load,
            hop_id: hop.hop_id,
            seq: segment.seq,
            ack: segment.ack,
            sport: segment.sport,
            dport: segment.dport,
            payload: segment.payload,
            flow: flow(&segment).hash(),
            exid,
            flags: segment.flags,
            ip: segment.ip,
        });
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
            let segment = self.rpm.as_ref().and_then(|_| packet.segment());
            if self.config.codel.target_ns != 0 {
                let leaving = Leaving {
                    now_ns: start,
                    waited_ns: start.saturating_sub(came),
                    left_bytes: self.queue_bytes,
                    max_packet: self.max_packet,
                };
                if self.codel.choose(&self.config.codel, &leaving) {
                    match self.chosen(packet, segment.as_ref()) {
                        Chosen::Sent(same) => packet = same,
                        Chosen::Dropped => continue,
                    }
                }
            }
            if let Some(segment) = &segment {
                self.carry(&mut packet, segment);
            }
            let time_ns = self.time_ns(len);
            self.busy_until = start.saturating_add(time_ns);
            self.sending = len;
            self.count(tc::STAT_PACKETS, 1);
            self.count(tc::STAT_BYTES, len.into());
            let carried = len.saturating_add(self.config.overhead);
            self.carried = self.carried.wrapping_add(carried.into());
            if self.config.int {
                self.stamp(&mut packet, came, start, carried);
            }
            packet.notes()[0] = self.busy_until.saturating_add(self.config.delay_ns);
            self.wire.push(packet);
        }
    }
}

impl Discipline for Port {
    const NAME: &'static str = tc::NAME;

    type Settings = Config;
    type Plan = Plan;

    fn settings(&self) -> Config {
        self.config
    }

    fn plan(
        now: Option<Config>,
        options: &[u8],
        at: Namespace,
    ) -> core::result::Result<Plan, Refusal> {
        const WRONG_SIZE: Refusal = Refusal::invalid(
            c"rpm must be the same for all ports of a network namespace: set it to 0 on all of them first",
        );
        let before = now.unwrap_or(Config::DEFAULT);
        let config = before.parse(options)?;
        let rpm = match config.rpm {
            same if same == before.rpm => None,
            0 => Some(None),
            slots => Some(Some(Shared::get(at, slots, WRONG_SIZE)?)),
        };
        let log = match config.log {
            same if same == before.log => None,
            records => Some(Log::new(records)?),
        };
        Ok(Plan { config, rpm, log })
    }

    fn new(plan: Plan) -> Self {
        let mut port = Self {
            config: plan.config,
            queue: List::new(),
            queue_bytes: 0,
            sending: 0,
            busy_until: 0,
            remainder: 0,
            wire: List::new(),
            counts: [0; STATS],
            carried: 0,
            load: Load::default(),
            speed: Speed::NONE,
            byte_time: 0,
            max_packet: 0,
            codel: Codel::default(),
            rpm: plan.rpm.flatten(),
            log: plan.log.flatten(),
        };
        port.configured();
        port
    }

    fn change(&mut self, plan: &mut Plan) {
        self.config = plan.config;
        self.configured();
        if let Some(rpm) = &mut plan.rpm {
            core::mem::swap(&mut self.rpm, rpm);
        }
        if let Some(log) = &mut plan.log {
            core::mem::swap(&mut self.log, log);
        }
    }

    fn held(&self) -> u32 {
        self.queue.len().wrapping_add(self.wire.len())
    }

    fn lost(&self) -> u64 {
        self.counts[tc::STAT_CODEL_DROPS]
    }

    fn enqueue(&mut self, now_ns: u64, mut packet: Packet) -> core::result::Result<(), Packet> {
        let len = packet.len();
        self.transmit(now_ns);
        if self.queue_bytes.saturating_add(len) > self.config.limit {
            self.count(tc::STAT_DROPS, 1);
            return Err(packet);
        }
        if self.config.ecn != 0 && self.queue_bytes >= self.config.ecn && packet.set_ce() {
            self.count(tc::STAT_MARKS, 1);
        }
        packet.notes()[0] = now_ns;
        self.max_packet = self.max_packet.max(len);
        self.queue_bytes = self.queue_bytes.saturating_add(len);
        let most = &mut self.counts[tc::STAT_MAX];
        *most = (*most).max(self.queue_bytes.into());
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
        self.codel = Codel::default();
    }

    fn dump(&self, put: &mut dyn FnMut(u16, &[u8])) {
        self.config
            .dump(|kind, value| put(kind, &value.to_ne_bytes()));
        if let (Some(log), Some(from)) = (&self.log, self.config.log_from) {
            let (first, records) = log.read(from);
            put(tc::LOG_FIRST, &first.to_ne_bytes());
            put(tc::LOG_RECORDS, records);
        }
    }

    fn stats(&self, out: &mut [u64; STATS]) {
        *out = self.counts;
        out[tc::STAT_QUEUE] = self.queue_bytes.into();
        out[tc::STAT_CODEL] = self.counts[tc::STAT_CODEL_MARKS]
            .wrapping_add(self.counts[tc::STAT_CODEL_DROPS])
            .wrapping_add(self.counts[tc::STAT_RPM_COUNTED]);
        out[tc::STAT_LOGGED] = self.log.as_ref().map_or(0, Log::written);
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
