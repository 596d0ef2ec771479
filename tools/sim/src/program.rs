// SPDX-License-Identifier: GPL-2.0
//! A switch that runs a P4 program: its ports hand each packet that leaves their queue to the program, as
//! the frame it would be, and take back what the program made of it.
//!
//! The simulator forwards by itself and keeps the queues, as a switch's traffic manager does. The program
//! writes telemetry, marks and drops. Payload is left out: it counts in lengths and is taken for zeros in
//! checksums.

use crate::packet::{self, flag, Int, Kind, Packet};
use p4::{Architecture, ControlError, Key, Metadata, Program, Switch};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use wire::{bottleneck, exid, hello, mpd, stack, Hop, HEADER_LEN, KIND};

/// Counts for which a program's control law has an entry of its own; beyond, the last holds.
const LAW: u32 = 1000;

/// The port of v1model that means "drop", and so is none.
const NO_PORT: u16 = 511;

/// Why a program cannot be the switch of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl From<ControlError> for Refused {
    fn from(e: ControlError) -> Self {
        Self(e.to_string())
    }
}

/// CoDel as a port of the program has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// ns.
    pub target_ns: u64,
    /// ns.
    pub interval_ns: u64,
    /// Marks go on the ACKs that pass the other way.
    pub reverse: bool,
}

/// One switch with its program.
#[derive(Clone)]
pub struct Node {
    switch: Arc<Mutex<Switch>>,
    /// Has the table `port` of the telemetry blocks.
    records: bool,
    /// Has the tables of the marking blocks.
    marks: bool,
    law: Option<u64>,
    next: u16,
}

impl Node {
    /// A switch after power-on.
    ///
    /// # Errors
    /// When the program is not for v1model.
    pub fn new(program: &Program) -> Result<Self, Refused> {
        if program.architecture() != Architecture::V1Model {
            return Err(Refused(
                "the program is for Tofino, and the simulator's switches are v1model".into(),
            ));
        }
        let has = |name: &str| {
            program
                .tables()
                .any(|t| t == name || t.rsplit('.').next() == Some(name))
        };
        Ok(Self {
            switch: Arc::new(Mutex::new(program.switch())),
            records: has("port"),
            marks: has("codel_port") && has("codel_law") && has("marking"),
            law: None,
            next: 0,
        })
    }

    /// Whether the program marks and drops by itself.
    #[must_use]
    pub fn marks(&self) -> bool {
        self.marks
    }

    /// The next port of it. `timestamps` says whether hosts use them.
    ///
    /// # Errors
    /// When the switch has no more ports, or the program's tables do not take what is said of this one.
    pub fn port(&mut self, marking: Option<Marking>, timestamps: bool) -> Result<AtPort, Refused> {
        let egress = self.next;
        if egress >= NO_PORT {
            return Err(Refused(format!("a v1model switch has {NO_PORT} ports")));
        }
        self.next += 1;
        if self.marks {
            self.set_marking(egress, marking)?;
        }
        Ok(AtPort {
            switch: self.switch.clone(),
            egress,
            records: self.records,
            entry: None,
            timestamps,
            sent: Vec::with_capacity(128),
            got: Vec::with_capacity(128),
            again: Vec::with_capacity(128),
        })
    }

    fn set_marking(&mut self, egress: u16, marking: Option<Marking>) -> Result<(), Refused> {
        let mut switch = self.switch.lock().unwrap_or_else(PoisonError::into_inner);
        let key = [Key::Exact(egress.into())];
        let Some(m) = marking else {
            return Ok(switch.add_entry("marking", &key, "mark_off", &[])?);
        };
        let mode = if m.reverse {
            "mark_reverse"
        } else {
            "mark_forward"
        };
        switch.add_entry("marking", &key, mode, &[])?;
        let times = [m.target_ns.into(), m.interval_ns.into()];
        switch.add_entry("codel_port", &key, "codel_is", &times)?;
        match self.law {
            Some(interval) if interval == m.interval_ns => {}
            Some(_) => return Err(Refused(
                "its ports have different intervals of CoDel, and a program has one control law"
                    .into(),
            )),
            None => {
                self.law = Some(m.interval_ns);
                for count in 1..=LAW {
                    let most = if count == LAW { u32::MAX } else { count };
                    let key = [Key::Range(count.into(), most.into())];
                    let ns = wire::codel::spacing(m.interval_ns, count);
                    switch.add_entry("codel_law", &key, "every", &[ns.into()])?;
                }
            }
        }
        Ok(())
    }
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on the link.
    Sent,
    /// The program dropped it.
    Dropped,
    /// It goes on the link, and what the receiver would find in it is not what was sent.
    Damaged,
}

/// A port of a switch that runs a program.
pub struct AtPort {
    switch: Arc<Mutex<Switch>>,
    egress: u16,
    records: bool,
    /// What the table `port` was told last.
    entry: Option<[u128; 4]>,
    timestamps: bool,
    sent: Vec<u8>,
    got: Vec<u8>,
    again: Vec<u8>,
}

impl AtPort {
    /// Tells the program which port this is: its id, its link, and what that adds to a packet.
    ///
    /// # Errors
    /// When the program's table does not take it.
    pub fn describe(&mut self, hop: &Hop, framing: u32, byte_time: u32) -> Result<(), Refused> {
        let entry = [
            hop.hop_id.into(),
            hop.speed.written().code().into(),
            framing.into(),
            byte_time.into(),
        ];
        if !self.records || self.entry == Some(entry) {
            return Ok(());
        }
        let mut switch = self.switch.lock().unwrap_or_else(PoisonError::into_inner);
        let key = [Key::Exact(self.egress.into())];
        switch.set_entry("port", &key, "port_is", &entry)?;
        self.entry = Some(entry);
        Ok(())
    }

    /// The packet leaves the queue as `hop` says, with `hop.qlen_bytes` behind it.
    pub fn leave(&mut self, packet: &mut Packet, hop: &Hop) -> Fate {
        let metadata = Metadata {
            egress_port: self.egress,
            enqueue_ns: hop.time_ns.saturating_sub(hop.delay_ns),
            dequeue_ns: hop.time_ns,
            dequeue_bytes: hop.qlen_bytes,
            length: packet.size.into(),
            ..Metadata::default()
        };
        frame(packet, self.timestamps, None, &mut self.sent);
        self.got.clear();
        let mut switch = self.switch.lock().unwrap_or_else(PoisonError::into_inner);
        if !switch.port(&self.sent, &metadata, &mut self.got) {
            return Fate::Dropped;
        }
        drop(switch);
        if self.got == self.sent {
            return Fate::Sent;
        }
        read(packet, self.timestamps, &self.got);
        // All that a program may change was read. Made anew of that, the frame is the one that came out.
        frame(packet, self.timestamps, Some(&self.got), &mut self.again);
        if self.again == self.got {
            Fate::Sent
        } else {
            Fate::Damaged
        }
    }
}

const IP: usize = 14;
const TCP: usize = IP + 20;
const OPTIONS: usize = TCP + 20;
const TTL: usize = IP + 8;
const TCP_CHECKSUM: usize = TCP + 16;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;

mod tcp_flag {
    pub const SYN: u8 = 0x02;
    pub const ACK: u8 = 0x10;
    pub const ECE: u8 = 0x40;
    pub const CWR: u8 = 0x80;
}

/// The option that carries telemetry, and how much of [`Packet::body`] is in it: exid and bytes.
fn telemetry(packet: &Packet) -> Option<(u16, usize)> {
    let slots = |n: usize| stack::len(n) - HEADER_LEN;
    match packet.int {
        Int::None => None,
        Int::Mpd => Some((exid::MPD, mpd::LEN - HEADER_LEN)),
        Int::Bottleneck => Some((exid::BOTTLENECK, bottleneck::BODY_LEN)),
        Int::BottleneckEcho => Some((exid::BOTTLENECK_ECHO, bottleneck::BODY_LEN)),
        Int::Stack => Some((exid::STACK, slots((packet.used >> 4).into()))),
        Int::StackEcho => Some((exid::STACK_ECHO, slots(packet.used.into()))),
    }
}

/// Where the telemetry begins among the options: behind timestamps and SACK blocks, whose number follows
/// from the size of an ACK.
fn telemetry_at(packet: &Packet, timestamps: bool) -> usize {
    let stamps = if timestamps { 12 } else { 0 };
    if packet.kind != Kind::Ack {
        return stamps;
    }
    let option = telemetry(packet).map_or(0, |(_, body)| HEADER_LEN + body);
    (usize::from(packet.size).saturating_sub(OPTIONS + option)).max(stamps)
}

fn sum(bytes: &[u8]) -> u32 {
    bytes
        .chunks(2)
        .map(|c| u32::from(c[0]) << 8 | u32::from(c.get(1).copied().unwrap_or(0)))
        .sum()
}

fn checksum(sum: u32) -> [u8; 2] {
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    (!(folded as u16)).to_be_bytes()
}

/// The frame that `packet` is, without its payload. Addresses, TTL and what else a router writes are those of
/// `like`, if there is one.
fn frame(packet: &Packet, timestamps: bool, like: Option<&[u8]>, to: &mut Vec<u8>) {
    to.clear();
    let back = matches!(packet.kind, Kind::Ack | Kind::SynAck | Kind::Cnp);
    let (there, here) = (packet.flow.to_be_bytes(), (!packet.flow).to_be_bytes());
    let (src, dst) = if back { (here, there) } else { (there, here) };
    let ecn = match packet.flags & (flag::ECT | flag::CE) {
        0 => 0,
        flag::ECT => 2,
        _ => 3,
    };
    to.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00]);
    let length = packet.size.saturating_sub(IP as u16);
    let [l0, l1] = length.to_be_bytes();
    let protocol = if packet.kind == Kind::Cnp {
        PROTOCOL_UDP
    } else {
        PROTOCOL_TCP
    };
    let ttl = 64u8.saturating_sub(packet.hops);
    to.extend([0x45, ecn, l0, l1, 0, 0, 0x40, 0, ttl, protocol, 0, 0]);
    to.extend(src);
    to.extend(dst);
    if let Some(like) = like.filter(|l| l.len() > TTL) {
        to[..12].copy_from_slice(&like[..12]);
        to[TTL] = like[TTL];
    }
    let ip = checksum(sum(&to[IP..TCP]));
    to[IP + 10..IP + 12].copy_from_slice(&ip);
    let ([s0, s1], [d0, d1]) = ((packet.flow as u16).to_be_bytes(), 5001u16.to_be_bytes());
    let ports = if back {
        [d0, d1, s0, s1]
    } else {
        [s0, s1, d0, d1]
    };
    to.extend(ports);
    if packet.kind == Kind::Cnp {
        let [l0, l1] = length.saturating_sub(20).to_be_bytes();
        to.extend([l0, l1, 0, 0]);
        return;
    }
    let (seq, ack) = if back {
        (0, packet.seq)
    } else {
        (packet.seq, 0)
    };
    to.extend(seq.to_be_bytes());
    to.extend(ack.to_be_bytes());
    let mut flags = match packet.kind {
        Kind::Syn => tcp_flag::SYN,
        Kind::SynAck => tcp_flag::SYN | tcp_flag::ACK,
        _ => tcp_flag::ACK,
    };
    if packet.flags & flag::ECE != 0 && packet.kind == Kind::Ack {
        flags |= tcp_flag::ECE;
    }
    if packet.flags & flag::CWR != 0 && packet.kind == Kind::Data {
        flags |= tcp_flag::CWR;
    }
    to.extend([0, flags, 0xff, 0xff, 0, 0, 0, 0]);
    options(packet, timestamps, to);
    let header = to.len() - TCP;
    to[TCP + 12] = ((header / 4) << 4) as u8;
    let segment = u32::from(length).saturating_sub(20);
    let pseudo = sum(&to[IP + 12..TCP]) + u32::from(PROTOCOL_TCP) + segment;
    let tcp = checksum(pseudo + sum(&to[TCP..]));
    to[TCP_CHECKSUM..TCP_CHECKSUM + 2].copy_from_slice(&tcp);
}

/// The TCP options, in the order in which Linux writes them.
fn options(packet: &Packet, timestamps: bool, to: &mut Vec<u8>) {
    if matches!(packet.kind, Kind::Syn | Kind::SynAck) {
        to.extend([2, 4, 5, 0xb4]);
        if timestamps {
            to.extend([4, 2, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0]);
        }
        to.extend([1, 3, 3, 7]);
        let plain = packet::headers(timestamps) + 8;
        if u32::from(packet.size) >= plain + hello::LEN as u32 {
            let [a, b] = exid::HELLO.to_be_bytes();
            to.extend([KIND, hello::LEN as u8, a, b, 0, 0, 0, 0]);
        }
        return;
    }
    if timestamps {
        to.extend([1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    let sacks = OPTIONS + telemetry_at(packet, timestamps) - to.len();
    if sacks >= 12 {
        to.extend([1, 1, 5, sacks as u8 - 2]);
        to.resize(to.len() + sacks - 4, 0);
    }
    if let Some((exid, body)) = telemetry(packet) {
        let [a, b] = exid.to_be_bytes();
        to.extend([KIND, (HEADER_LEN + body) as u8, a, b]);
        to.extend(&packet.body[..body.min(packet.body.len())]);
    }
}

/// Takes from a frame what a program may have written: telemetry, CE, ECE.
fn read(packet: &mut Packet, timestamps: bool, frame: &[u8]) {
    let byte = |at: usize| frame.get(at).copied().unwrap_or(0);
    if byte(IP + 1) & 3 == 3 {
        packet.flags |= flag::CE;
    }
    if packet.kind == Kind::Ack && byte(TCP + 13) & tcp_flag::ECE != 0 {
        packet.flags |= flag::ECE;
    }
    let Some((_, body)) = telemetry(packet) else {
        return;
    };
    let at = OPTIONS + telemetry_at(packet, timestamps) + HEADER_LEN;
    if let Some(bytes) = frame.get(at..at + body) {
        packet.body[..body].copy_from_slice(bytes);
        if packet.int == Int::Stack {
            let used = bytes.chunks(stack::SLOT_LEN).take_while(|s| s[0] != 0);
            packet.used = packet.used & 0xf0 | used.count() as u8;
        }
    }
}
