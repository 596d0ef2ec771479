// SPDX-License-Identifier: GPL-2.0
//! An egress port: a queue, a link that is busy for as long as a frame takes, and a wire.
//!
//! One ring holds all of it: in front what is on the wire, behind it what waits. A packet costs one
//! event, its arrival at the other end. When it leaves the queue needs none: the time is known, and
//! whoever looks at the port later first does what has become due ([`Port::advance`]). Nothing can
//! have come between, since it would have looked too. So the queue that a packet leaves behind is
//! exact, as are all decisions that depend on the length of the queue.
//!
//! The rules are those of `sch_int`: the frame on the link does not count as queued, one that finds
//! the ECN threshold reached is marked, one that does not fit is dropped.

use crate::discipline::{Discipline, Verdict};
use crate::fault::Faults;
use crate::histogram::Histogram;
use crate::packet::{flag, Int, Packet};
use crate::program::{AtPort, Fate, Refused};
use crate::rng::Rng;
use crate::time::{Ps, Rate, FRAMING, NEVER, NS};
use std::hint::black_box;
use wire::{Hop, Load, Speed};

/// What a port can be asked for after a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames put on the link, and their bytes with framing.
    pub packets: u64,
    /// Bytes put on the link, framing included.
    pub bytes: u64,
    /// Frames that came.
    pub offered: u64,
    /// Dropped for want of room, or by the queue's own law.
    pub drops: u64,
    /// Lost, damaged or cut off by a fault.
    pub faults: u64,
    /// Marked.
    pub marks: u64,
    /// The longest queue, bytes.
    pub max_bytes: u32,
}

/// An egress port and its link. What every packet touches comes first: three cache lines, and one more when the
/// port writes telemetry. A line more is a tenth of the time that a packet takes in a network that the caches do not
/// hold.
#[repr(C, align(64))]
pub struct Port {
    ring: Ring,
    on_wire: u32,
    queue_bytes: u32,
    busy_until: Ps,
    delay: Ps,
    /// The most that may wait, bytes.
    pub limit: u32,
    /// What a frame occupies on the link besides its bytes.
    pub framing: u32,
    // The second line.
    rate: Rate,
    last_arrival: Ps,
    /// Shared buffer of its node; [`NO_POOL`] = a buffer of its own.
    pub pool: u32,
    byte_time: u32,
    /// Writes telemetry.
    pub int: bool,
    /// Load is wanted: someone uses the bottleneck format.
    pub loads: bool,
    /// Whether frames may leave: a circuit's port waits for its day.
    pub open: bool,
    /// Whether it belongs to a host, whose own port does not take part in a path's TTL.
    pub host: bool,
    decides: bool,
    /// The queue law looks at packets that come.
    looks: bool,
    /// What goes wrong on the link.
    pub faults: Option<Box<Faults>>,
    /// Its queue over time, when that is wanted.
    pub watch: Option<Box<Watch>>,
    // The third.
    /// What happened so far.
    pub counters: PortCounters,
    /// The switch's own program, in the place of what is built in.
    program: Option<Box<AtPort>>,
    // The fourth.
    hop: Hop,
    load: Load,
    discipline: Discipline,
}

const _: () = {
    assert!(std::mem::offset_of!(Port, rate) == 64);
    assert!(std::mem::offset_of!(Port, counters) == 128);
    assert!(std::mem::offset_of!(Port, hop) == 192);
};

/// The length of a queue over time, exactly.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    changed: Ps,
    /// How long nothing waited.
    idle: Ps,
    lengths: Histogram,
    max: u32,
}

impl Watch {
    /// From `now` on.
    #[must_use]
    pub fn from(now: Ps) -> Self {
        Self {
            changed: now,
            ..Self::default()
        }
    }

    /// The queue was `bytes` long since the last call.
    #[inline]
    fn was(&mut self, now: Ps, bytes: u32) {
        if now > self.changed {
            let time = now - self.changed;
            self.changed = now;
            if bytes == 0 {
                self.idle += time; // Most of the time, in most ports.
            } else {
                self.lengths.add(u64::from(bytes), time);
                self.max = self.max.max(bytes);
            }
        }
    }

    /// The queue is `bytes` long at a moment chosen without regard to it.
    pub fn count(&mut self, bytes: u32) {
        let at = self.changed + 1;
        self.was(at, bytes);
    }

    /// Mean, 99th percentile and largest length, bytes.
    #[must_use]
    pub fn lengths(&self) -> (f64, u64, u64) {
        let busy = self.lengths.count();
        let all = busy + self.idle;
        if busy == 0 {
            return (0.0, 0, 0);
        }
        let mean = self.lengths.mean() * (busy as f64 / all as f64);
        // All but a hundredth of the whole time is all but so much of the busy time.
        let longest = all / 100;
        let p99 = if longest >= busy {
            0
        } else {
            self.lengths.quantile(busy - longest, busy)
        };
        (mean, p99, u64::from(self.max))
    }
}

/// No shared buffer.
pub const NO_POOL: u32 = u32::MAX;

impl Port {
    /// A port of `bps` bits per second with a wire of `delay` and a plain queue of `limit` bytes.
    #[must_use]
    pub fn new(bps: u64, delay: Ps, limit: u32) -> Self {
        let mut port = Self {
            ring: Ring::default(),
            on_wire: 0,
            queue_bytes: 0,
            busy_until: 0,
            delay,
            limit,
            framing: FRAMING,
            rate: Rate::new(bps),
            last_arrival: 0,
            counters: PortCounters::default(),
            looks: false,
            pool: NO_POOL,
            int: false,
            loads: false,
            open: true,
            host: false,
            decides: false,
            byte_time: 0,
            program: None,
            hop: Hop {
                shift: wire::mpd::DEFAULT_SHIFT,
                ..Hop::default()
            },
            load: Load::default(),
            discipline: Discipline::Fifo,
            faults: None,
            watch: None,
        };
        port.set_rate(bps);
        port
    }

    /// Its queue law.
    #[must_use]
    pub fn discipline(&self) -> &Discipline {
        &self.discipline
    }

    /// Another queue law.
    pub fn set_discipline(&mut self, discipline: Discipline) {
        self.decides = discipline.at_dequeue();
        self.looks = !self.decides && !matches!(discipline, Discipline::Fifo);
        self.discipline = discipline;
    }

    /// A program that packets go through on their way out. `drops` says whether it may drop them. After
    /// everything else about the port was set.
    ///
    /// # Errors
    /// When the program does not take what it must be told of the port.
    pub fn set_program(&mut self, mut program: AtPort, drops: bool) -> Result<(), Refused> {
        program.describe(&self.hop, self.framing, self.byte_time)?;
        self.decides |= drops;
        self.program = Some(Box::new(program));
        Ok(())
    }

    /// The id by which telemetry names it.
    pub fn set_hop_id(&mut self, id: u8) {
        self.hop.hop_id = id;
    }

    /// Unit of an mpd delay, as a power of two of ns.
    pub fn set_shift(&mut self, shift: u8) {
        self.hop.shift = shift;
    }

    /// Bits per second.
    #[must_use]
    pub fn bps(&self) -> u64 {
        self.rate.bps()
    }

    /// Length of the wire.
    #[must_use]
    pub fn delay(&self) -> Ps {
        self.delay
    }

    /// Another rate, for what is put on the link from now on.
    pub fn set_rate(&mut self, bps: u64) {
        self.rate = Rate::new(bps);
        self.byte_time = Load::byte_time(bps / 8);
        let mbps = if bps % 1_000_000 == 0 {
            bps / 1_000_000
        } else {
            0
        };
        self.hop.speed = Speed::from_mbps(u32::try_from(mbps).unwrap_or(0));
    }

    /// Another wire, for what is put on the link from now on. Never so short that a packet would overtake
    /// the one before it.
    pub fn set_delay(&mut self, delay: Ps) {
        self.delay = delay;
    }

    /// Bytes that wait, the frame on the link not among them. After [`Port::advance`].
    #[inline]
    #[must_use]
    pub fn queued(&self) -> u32 {
        self.queue_bytes
    }

    /// Packets in queue and on the wire.
    #[must_use]
    pub fn packets(&self) -> u32 {
        self.ring.len
    }

    /// Whether the order in which frames leave is known when they come.
    #[inline]
    #[must_use]
    pub fn foreseeable(&self) -> bool {
        !self.decides
    }

    /// Puts on the link what became due by `now`. Of a port that decides at dequeue nothing: see
    /// [`Port::serve`].
    #[inline]
    pub fn advance(&mut self, now: Ps) -> u32 {
        let mut left = 0;
        if self.foreseeable() {
            while self.busy_until <= now && self.on_wire < self.ring.len && self.open {
                left += self.put(self.busy_until);
            }
        }
        left
    }

    /// Puts the first frame that waits on the link, at `free` or when it came; its bytes.
    fn put(&mut self, free: Ps) -> u32 {
        let packet = self.ring.get_mut(self.on_wire);
        let (came, size) = (packet.at, u32::from(packet.size));
        let start = if came > free {
            self.rate.idle();
            came
        } else {
            free
        };
        if self.int && self.program.is_some() && !self.through_program(start) {
            return size;
        }
        let packet = self.ring.get_mut(self.on_wire);
        let time = self.rate.take(size + self.framing);
        self.busy_until = start + time;
        if let Some(watch) = &mut self.watch {
            watch.was(start, self.queue_bytes);
        }
        self.queue_bytes -= size;
        self.counters.packets += 1;
        self.counters.bytes += u64::from(size + self.framing);
        if self.int {
            if self.loads {
                let busy = Load::busy(size + self.framing, self.byte_time);
                self.hop.load = self.load.sent(start / NS, busy);
            }
            if packet.int != Int::None {
                self.hop.delay_ns = (start - came) / NS;
                self.hop.qlen_bytes = self.queue_bytes;
                self.hop.tx_bytes = self.counters.bytes;
                self.hop.time_ns = start / NS;
                match &mut self.faults {
                    Some(faults) if self.program.is_none() || faults.untrue() => {
                        if let Some(hop) = faults.stamp(self.hop) {
                            packet.stamp(&hop);
                        }
                    }
                    _ if self.program.is_none() => packet.stamp(&self.hop),
                    _ => {}
                }
            }
        }
        if let Some(faults) = &mut self.faults {
            if faults.befall(packet) {
                self.counters.faults += 1;
            }
        }
        // A wire that became shorter lets nobody overtake.
        self.last_arrival = self.last_arrival.max(self.busy_until + self.delay);
        packet.at = self.last_arrival;
        self.on_wire += 1;
        size
    }

    /// Takes the first frame that waits through the program, as it leaves at `start`. False when that drops it:
    /// then it is gone, and took nothing of the link.
    #[cold]
    fn through_program(&mut self, start: Ps) -> bool {
        let packet = self.ring.get_mut(self.on_wire);
        let size = u32::from(packet.size);
        let Some(program) = &mut self.program else {
            return true;
        };
        let hop = Hop {
            delay_ns: (start - packet.at) / NS,
            qlen_bytes: self.queue_bytes - size,
            time_ns: start / NS,
            ..self.hop
        };
        // The rate may have changed. What was taken once is taken again.
        let _ = program.describe(&self.hop, self.framing, self.byte_time);
        let before = *packet;
        match program.leave(packet, &hop) {
            Fate::Sent => {}
            Fate::Damaged => {
                packet.flags |= flag::CORRUPT;
                self.counters.faults += 1;
            }
            Fate::Dropped => {
                self.counters.drops += 1;
                if let Some(watch) = &mut self.watch {
                    watch.was(start, self.queue_bytes);
                }
                self.queue_bytes -= size;
                self.ring.close_gap(self.on_wire);
                return false;
            }
        }
        if packet.flags & !before.flags & (flag::CE | flag::ECE) != 0 {
            self.counters.marks += 1;
        }
        if self.faults.as_ref().is_some_and(|f| f.untrue()) {
            packet.body = before.body;
            packet.used = before.used;
        }
        true
    }

    /// A packet comes. `room` is what the port may use of its buffer now, bytes. True when it was taken.
    #[inline]
    pub fn offer(&mut self, now: Ps, packet: &mut Packet, room: u32, rng: &mut Rng) -> bool {
        self.counters.offered += 1;
        let size = u32::from(packet.size);
        if self.queue_bytes + size > room {
            self.counters.drops += 1;
            return false;
        }
        let verdict = if self.looks {
            self.discipline.at_enqueue(self.queue_bytes, rng)
        } else {
            Verdict::Pass
        };
        match verdict {
            Verdict::Pass => {}
            Verdict::Drop => {
                self.counters.drops += 1;
                return false;
            }
            Verdict::Mark => {
                if packet.flags & flag::ECT != 0 {
                    packet.flags |= flag::CE;
                    self.counters.marks += 1;
                }
            }
        }
        packet.at = now;
        if let Some(watch) = &mut self.watch {
            watch.was(now, self.queue_bytes);
        }
        self.queue_bytes += size;
        if self.queue_bytes > self.counters.max_bytes {
            self.counters.max_bytes = self.queue_bytes;
        }
        self.ring.push(packet);
        if self.busy_until <= now
            && self.open
            && self.foreseeable()
            && self.on_wire + 1 == self.ring.len
        {
            // The link is free: the frame never waits.
            self.put(now);
        }
        true
    }

    /// When the next packet reaches the other end; [`NEVER`] when none is on its way or that is not known
    /// yet.
    #[inline]
    #[must_use]
    pub fn next_arrival(&self) -> Ps {
        if self.on_wire > 0 {
            self.ring.get(0).at
        } else if self.ring.len > 0 && self.open && self.foreseeable() {
            let sent = self.busy_until
                + self
                    .rate
                    .time(u32::from(self.ring.get(0).size) + self.framing);
            (sent + self.delay).max(self.last_arrival)
        } else {
            NEVER
        }
    }

    /// When a port that decides at dequeue has to be served; [`NEVER`] when nothing waits.
    #[must_use]
    pub fn next_service(&self) -> Ps {
        if self.foreseeable() || self.on_wire == self.ring.len || !self.open {
            NEVER
        } else {
            self.busy_until
        }
    }

    /// Dequeues at `now`, dropping or marking as the law says, until a frame is on the link or nothing
    /// waits; the bytes that left the queue. `count` takes a mark for the way back, if it can.
    pub fn serve(&mut self, now: Ps, mut count: impl FnMut(&Packet) -> bool) -> u32 {
        let mut left = 0;
        while self.busy_until <= now && self.on_wire < self.ring.len && self.open {
            let packet = self.ring.get_mut(self.on_wire);
            let (waited, size) = (now - packet.at, u32::from(packet.size));
            let ect = packet.flags & flag::ECT != 0;
            let behind = self.queue_bytes - size;
            match self
                .discipline
                .at_dequeue_of(now, waited, size, behind, ect)
            {
                Verdict::Pass => left += self.put(now),
                Verdict::Mark => {
                    if !(self.discipline.rpm() && count(packet)) {
                        packet.flags |= flag::CE;
                    }
                    self.counters.marks += 1;
                    left += self.put(now);
                }
                Verdict::Drop => {
                    self.counters.drops += 1;
                    if let Some(watch) = &mut self.watch {
                        watch.was(now, self.queue_bytes);
                    }
                    self.queue_bytes -= size;
                    left += size;
                    self.ring.close_gap(self.on_wire);
                }
            }
        }
        left
    }

    /// The packet that arrives next.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<&Packet> {
        (self.ring.len > 0).then(|| self.ring.get(0))
    }

    /// Has what every packet needs of it brought near.
    #[inline]
    pub fn touch(&self) {
        black_box(self.ring.len);
        black_box(self.rate.bps());
        black_box(self.counters.packets);
        if self.int {
            black_box(self.hop.shift);
        }
    }

    /// Has the place of the next packet to come brought near.
    #[inline]
    pub fn touch_end(&self) {
        if !self.ring.slots.is_empty() {
            black_box(self.ring.get(self.ring.len).at);
        }
    }

    /// Takes the packet that arrives at `now`.
    #[inline]
    pub fn arrive(&mut self, now: Ps) -> Option<Packet> {
        if self.on_wire == 0 || self.ring.get(0).at > now {
            return None;
        }
        self.on_wire -= 1;
        Some(self.ring.pop())
    }

    /// Brings the watch up to `now`; after [`Port::advance`].
    pub fn settle(&mut self, now: Ps) {
        if let Some(watch) = &mut self.watch {
            watch.was(now, self.queue_bytes);
        }
    }

    /// Takes back all that waits, the bytes of it.
    pub fn take_queue(&mut self, now: Ps, into: &mut Vec<Packet>) -> u32 {
        self.settle(now);
        while self.ring.len > self.on_wire {
            into.push(*self.ring.get(self.on_wire));
            self.ring.close_gap(self.on_wire);
        }
        std::mem::take(&mut self.queue_bytes)
    }

    /// Opens the gate at `now`, or closes it.
    pub fn set_open(&mut self, now: Ps, open: bool) {
        self.open = open;
        if open {
            self.busy_until = self.busy_until.max(now);
        }
    }

    /// Every packet in queue and on the wire, to be looked at.
    pub fn each(&self, mut look: impl FnMut(&Packet)) {
        for at in 0..self.ring.len {
            look(self.ring.get(at));
        }
    }
}

/// A ring of packets that grows.
#[derive(Default)]
struct Ring {
    slots: Vec<Packet>,
    head: u32,
    len: u32,
}

impl Ring {
    #[inline]
    fn place(&self, at: u32) -> usize {
        (self.head.wrapping_add(at) as usize) & (self.slots.len() - 1)
    }

    #[inline]
    fn get(&self, at: u32) -> &Packet {
        &self.slots[self.place(at)]
    }

    #[inline]
    fn get_mut(&mut self, at: u32) -> &mut Packet {
        let place = self.place(at);
        &mut self.slots[place]
    }

    #[inline]
    fn push(&mut self, packet: &Packet) {
        if self.len as usize == self.slots.len() {
            self.grow();
        }
        let place = self.place(self.len);
        self.slots[place] = *packet;
        self.len += 1;
    }

    #[cold]
    fn grow(&mut self) {
        let mut slots = Vec::with_capacity((self.slots.len() * 2).max(8));
        slots.extend((0..self.len).map(|at| *self.get(at)));
        slots.resize(slots.capacity().next_power_of_two(), Packet::NONE);
        self.slots = slots;
        self.head = 0;
    }

    #[inline]
    fn pop(&mut self) -> Packet {
        let packet = *self.get(0);
        self.head = self.head.wrapping_add(1);
        self.len -= 1;
        packet
    }

    /// Removes the packet at `at`, by moving those in front of it up.
    fn close_gap(&mut self, at: u32) {
        for i in (0..at).rev() {
            let packet = *self.get(i);
            *self.get_mut(i + 1) = packet;
        }
        self.head = self.head.wrapping_add(1);
        self.len -= 1;
    }
}
