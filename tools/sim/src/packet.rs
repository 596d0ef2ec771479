// SPDX-License-Identifier: GPL-2.0
//! A packet: one cache line, the telemetry option inside it.

use crate::time::Ps;
use wire::bottleneck::{self, Body};
use wire::mpd::{EchoWord, Word};
use wire::stack::{self, Slot};
use wire::storage::Echo;
use wire::{Format, Hop, Parsed};

/// Ethernet, IPv4 and TCP headers with timestamps, bytes: a frame without payload.
pub const HEADERS: u32 = 14 + 20 + 20 + 12;
/// The same, with or without timestamps.
#[must_use]
pub const fn headers(timestamps: bool) -> u32 {
    if timestamps {
        HEADERS
    } else {
        HEADERS - 12
    }
}

/// What other TCP options may take, bytes.
#[must_use]
pub const fn option_room(timestamps: bool) -> u32 {
    if timestamps {
        28
    } else {
        40
    }
}

/// Ethernet's header, which the MTU does not count.
pub const ETHERNET: u32 = 14;

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Payload.
    Data,
    /// An acknowledgement and nothing else.
    Ack,
    /// The first of a connection.
    Syn,
    /// Its answer.
    SynAck,
    /// Congestion notification of DCQCN.
    Cnp,
    /// Dropped while it stood in a ring.
    Gone,
}

/// Which option a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Int {
    /// None.
    None,
    /// mpd: forward word, echo word.
    Mpd,
    /// bottleneck, written by hops.
    Bottleneck,
    /// stack, written by hops.
    Stack,
    /// bottleneck, on its way back.
    BottleneckEcho,
    /// stack, on its way back.
    StackEcho,
}

/// Bits of [`Packet::flags`].
pub mod flag {
    /// The sender understands marks.
    pub const ECT: u8 = 1;
    /// Congestion experienced.
    pub const CE: u8 = 2;
    /// An ACK: marks were seen.
    pub const ECE: u8 = 4;
    /// Sent again.
    pub const RETRANS: u8 = 8;
    /// Data: the sender has reduced its window for marks.
    pub const CWR: u8 = 16;
    /// Data: not of full size.
    pub const SHORT: u8 = 32;
    /// Damaged on the wire: the receiver's checksum fails.
    pub const CORRUPT: u8 = 64;
    /// Travelled over a circuit of a reconfigurable network.
    pub const CIRCUIT: u8 = 128;
}

/// A packet.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// In a queue: when it came. On a wire: when it arrives.
    pub at: Ps,
    /// Its flow.
    pub flow: u32,
    /// Its place in the table of paths: the port it is at.
    pub path: u32,
    /// Data: the segment. An ACK: the next segment that is expected.
    pub seq: u32,
    /// An ACK: its SACK blocks, one more than their place; 0 = none.
    pub sack: u32,
    /// The frame, Ethernet's header included, framing not, bytes.
    pub size: u16,
    /// What it is for.
    pub kind: Kind,
    /// See [`flag`].
    pub flags: u8,
    /// Its option.
    pub int: Int,
    /// A stack: slots written in the low four bits, slots there are in the high ones. Its echo: slots. A bottleneck echo:
    /// the code of its missing hops.
    pub used: u8,
    /// Routers passed: what its TTL has lost.
    pub hops: u8,
    /// Zero.
    pub spare: u8,
    /// The option's body.
    pub body: [u8; 32],
}

const _: () = assert!(std::mem::size_of::<Packet>() == 64);

impl Packet {
    /// An empty one.
    pub const NONE: Self = Self {
        at: 0,
        flow: 0,
        path: 0,
        seq: 0,
        sack: 0,
        size: 0,
        kind: Kind::Gone,
        flags: 0,
        int: Int::None,
        used: 0,
        hops: 0,
        spare: 0,
        body: [0; 32],
    };

    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.body[at], self.body[at + 1]])
    }

    fn set_word(&mut self, at: usize, word: u16) {
        self.body[at..at + 2].copy_from_slice(&word.to_be_bytes());
    }

    /// Gives a data packet the empty option of `format`; its bytes.
    pub fn offer(&mut self, format: Option<Format>, timestamps: bool) -> u32 {
        let Some(format) = format else {
            self.int = Int::None;
            return 0;
        };
        self.body = [0; 32];
        self.int = match format {
            Format::Mpd => {
                self.set_word(2, EchoWord::NONE.0);
                Int::Mpd
            }
            Format::Bottleneck => Int::Bottleneck,
            Format::Stack => {
                self.used = (stack::slots(timestamps) as u8) << 4;
                Int::Stack
            }
        };
        u32::from(format.reserve(timestamps))
    }

    /// What an egress port that writes telemetry does to it.
    #[inline]
    pub fn stamp(&mut self, hop: &Hop) {
        match self.int {
            Int::Mpd => {
                let word = Word(self.word(0)).hop(hop.delay_ns, hop.shift);
                self.set_word(0, word.0);
            }
            Int::Bottleneck => {
                let mut body = Body::default();
                body.0.copy_from_slice(&self.body[..bottleneck::BODY_LEN]);
                self.body[..bottleneck::BODY_LEN].copy_from_slice(&body.hop(hop).0);
            }
            Int::Stack => {
                let used = usize::from(self.used & 15);
                if used < usize::from(self.used >> 4) {
                    let at = used * stack::SLOT_LEN;
                    self.body[at..at + stack::SLOT_LEN].copy_from_slice(&Slot::of(hop).0);
                    self.used += 1;
                }
            }
            Int::None | Int::BottleneckEcho | Int::StackEcho => {}
        }
    }

    /// The option of a data packet, or of an ACK when it is mpd, as the receiver parses it.
    #[must_use]
    pub fn parsed(&self) -> Option<Parsed> {
        match self.int {
            Int::Mpd => Some(Parsed::Mpd(Word(self.word(0)), EchoWord(self.word(2)))),
            Int::Bottleneck => {
                let mut body = Body::default();
                body.0.copy_from_slice(&self.body[..bottleneck::BODY_LEN]);
                Some(Parsed::Bottleneck(body))
            }
            Int::Stack => {
                let mut body = stack::Body {
                    len: self.used >> 4,
                    used: self.used & 15,
                    ..stack::Body::default()
                };
                for (slot, bytes) in body.slots.iter_mut().zip(self.body.chunks_exact(8)) {
                    slot.0.copy_from_slice(bytes);
                }
                Some(Parsed::Stack(body))
            }
            Int::None | Int::BottleneckEcho | Int::StackEcho => None,
        }
    }

    /// Puts `echo` into an ACK of a connection that uses `format`, when there is `room` for it; the
    /// bytes it takes. What was put is taken from `echo`.
    pub fn put_echo(&mut self, echo: &mut Echo, format: Format, room: u32) -> u32 {
        let (int, len) = match format {
            Format::Mpd => (Int::Mpd, wire::mpd::LEN as u32),
            _ if echo.format == 0 => return 0,
            Format::Bottleneck => (Int::BottleneckEcho, bottleneck::LEN as u32),
            Format::Stack => (Int::StackEcho, stack::len(usize::from(echo.hops)) as u32),
        };
        if len > room {
            return 0;
        }
        self.int = int;
        match format {
            Format::Mpd => {
                self.set_word(0, Word::EMPTY.0);
                self.set_word(2, echo.mpd().0);
            }
            Format::Bottleneck | Format::Stack => {
                self.body.copy_from_slice(&echo.body);
                self.used = if format == Format::Stack {
                    echo.hops
                } else {
                    echo.missing
                };
            }
        }
        echo.format = 0;
        len
    }

    /// What an ACK brings back.
    #[must_use]
    pub fn sample(&self) -> wire::Sample {
        let mut sample = wire::Sample::NONE;
        match self.int {
            Int::Mpd => {
                let echo = EchoWord(self.word(2));
                if echo.missing() == wire::mpd::Missing::NO_SAMPLE {
                    return sample;
                }
                sample.format = Format::Mpd as u8;
                sample.missing = echo.missing().code();
                sample.hops = 1;
                sample.body[..2].copy_from_slice(&self.body[2..4]);
                sample.body[2..4].copy_from_slice(&self.body[..2]);
            }
            Int::BottleneckEcho => {
                sample.format = Format::Bottleneck as u8;
                sample.missing = self.used;
                sample.hops = 1;
                sample.body = self.body;
            }
            Int::StackEcho => {
                sample.format = Format::Stack as u8;
                sample.hops = self.used;
                sample.body = self.body;
            }
            Int::None | Int::Bottleneck | Int::Stack => {}
        }
        sample
    }

    /// Takes the option away, as a middlebox may: it writes no-operations in its place, and the frame keeps its
    /// size.
    pub fn strip(&mut self) {
        self.int = Int::None;
    }
}
