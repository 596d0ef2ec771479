// SPDX-License-Identifier: GPL-2.0
//! The receiving end of a connection, as Linux has it: delayed ACKs, quick ones while the connection is
//! young or segments are missing, SACK blocks, ECN, and the echo of the telemetry.

use crate::cc::Ecn;
use crate::packet::{flag, Packet};
use crate::sender::TcpConfig;
use wire::storage::Echo;

/// What a segment makes the receiver do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing.
    None,
    /// An ACK at once.
    Now,
    /// An ACK of what came before, and then perhaps one of this: the marks changed.
    Before,
    /// An ACK after the delay, unless one goes before.
    Later,
}

/// The receiver of one direction of a connection.
pub struct Receiver {
    /// The next segment in order.
    next: u32,
    /// Segments since the last ACK.
    pending: u32,
    quick: u32,
    /// Out of order: blocks, the newest first.
    blocks: Vec<(u32, u32)>,
    /// A segment came again: the next ACK says so.
    dsack: Option<(u32, u32)>,
    /// What is sent back with the next ACK.
    pub echo: Echo,
    ecn: Ecn,
    ce: bool,
    /// The segment at hand is acknowledged at once, because of its marks.
    urgent: bool,
    /// RFC 3168: the echo that stays.
    ece: bool,
    circuit: bool,
    /// When an ACK that is held back goes, ns; `u64::MAX` = none is.
    pub due_ns: u64,
    /// When the last notification of DCQCN went, ns.
    pub notified_ns: u64,
    /// Payload in order, bytes.
    pub bytes: u64,
}

impl Receiver {
    /// A receiver that has received nothing.
    #[must_use]
    pub fn new(tcp: &TcpConfig, ecn: Ecn) -> Self {
        Self {
            next: 0,
            pending: 0,
            quick: tcp.quick_acks,
            blocks: Vec::new(),
            dsack: None,
            echo: Echo::default(),
            ecn,
            ce: false,
            urgent: false,
            ece: false,
            circuit: false,
            due_ns: u64::MAX,
            notified_ns: 0,
            bytes: 0,
        }
    }

    /// The next segment in order.
    #[must_use]
    pub fn next(&self) -> u32 {
        self.next
    }

    /// A segment arrives. The caller asks [`Receiver::take_marks`] first.
    pub fn on_data(
        &mut self,
        packet: &Packet,
        path_hops: u8,
        now_ns: u64,
        tcp: &TcpConfig,
    ) -> Answer {
        if let Some(parsed) = packet.parsed() {
            self.echo.merge(&parsed, Some(path_hops));
        }
        self.circuit = packet.flags & flag::CIRCUIT != 0;
        let seq = packet.seq;
        if seq < self.next || self.blocks.iter().any(|b| b.0 <= seq && seq < b.1) {
            self.dsack = Some((seq, seq + 1));
            return Answer::Now;
        }
        if seq > self.next {
            self.insert(seq);
            return Answer::Now;
        }
        self.next += 1;
        let mut filled = !self.blocks.is_empty();
        if filled {
            let next = self.next;
            if let Some(at) = self.blocks.iter().position(|b| b.0 == next) {
                self.next = self.blocks.remove(at).1;
            }
            filled = true;
        }
        self.pending += 1;
        let now = filled
            || std::mem::take(&mut self.urgent)
            || self.quick > 0
            || self.pending >= tcp.ack_every
            || packet.flags & flag::SHORT != 0;
        if now {
            Answer::Now
        } else {
            if self.due_ns == u64::MAX {
                // Linux holds an ACK back for less than the least timeout, by a tick.
                let most = (tcp.min_rto_ns.div_ceil(tcp.tick_ns)).max(2) - 1;
                let ticks = tcp.ack_delay_ns.div_ceil(tcp.tick_ns).min(most);
                self.due_ns = tcp.wheel(now_ns, ticks);
            }
            Answer::Later
        }
    }

    /// Takes note of the marks of a segment. True when an ACK of what came before must go first
    /// (RFC 8257 §3.2).
    pub fn take_marks(&mut self, packet: &Packet) -> bool {
        let ce = packet.flags & flag::CE != 0;
        // A sender that has reduced its window may have next to none: its segment does not wait.
        self.urgent = packet.flags & flag::CWR != 0;
        match self.ecn {
            Ecn::None | Ecn::Notify => false,
            Ecn::Classic => {
                if self.urgent {
                    self.ece = false;
                }
                if ce && !self.ece {
                    self.ece = true;
                    self.quick = self.quick.max(2);
                }
                false
            }
            Ecn::Each => {
                let changed = ce != self.ce;
                self.urgent |= changed;
                let first = changed && self.pending > 0;
                if !first {
                    self.ce = ce;
                }
                first
            }
        }
    }

    /// After the ACK that [`Receiver::take_marks`] asked for.
    pub fn turn_marks(&mut self) {
        self.ce = !self.ce;
    }

    fn insert(&mut self, seq: u32) {
        let (mut from, mut to) = (seq, seq + 1);
        self.blocks.retain(|&(f, t)| {
            let joins = f <= to && from <= t;
            if joins {
                from = from.min(f);
                to = to.max(t);
            }
            !joins
        });
        self.blocks.insert(0, (from, to));
    }

    /// The ACK that goes now: the segment expected, the flags, and the SACK blocks that fit; whether the first
    /// of them is of a segment that came twice.
    pub fn ack(&mut self, most: usize, blocks: &mut [(u32, u32); 4]) -> (u32, u8, usize, bool) {
        self.pending = 0;
        self.due_ns = u64::MAX;
        self.quick = self.quick.saturating_sub(1);
        let mut flags = 0;
        if match self.ecn {
            Ecn::Each => self.ce,
            _ => self.ece,
        } {
            flags |= flag::ECE;
        }
        if self.circuit {
            flags |= flag::CIRCUIT;
        }
        let dsack = self.dsack.take();
        let mut count = 0;
        for block in dsack.iter().chain(&self.blocks).take(most) {
            blocks[count] = *block;
            count += 1;
        }
        (self.next, flags, count, dsack.is_some())
    }

    /// Whether segments are missing.
    #[must_use]
    pub fn has_holes(&self) -> bool {
        !self.blocks.is_empty()
    }
}
