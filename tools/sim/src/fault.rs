// SPDX-License-Identifier: GPL-2.0
//! What goes wrong on a link. Every port with faults has a stream of random numbers of its own, so that what
//! befalls it does not depend on what happens elsewhere.

use crate::packet::{flag, Kind, Packet};
use crate::rng::Rng;
use crate::time::Ps;
use wire::{Hop, Speed};

/// In [`Packet::spare`]: arrives twice; arrives late.
pub const TWICE: u8 = 1;
/// Arrives late.
pub const LATE: u8 = 2;

/// What a port writes instead of the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// That it is empty.
    Zero,
    /// The most that the format can say.
    Max,
    /// Random bits.
    Random,
}

/// The faults of one port. Probabilities are in 2^-32.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Packets vanish.
    pub loss: u64,
    /// Packets arrive later than their successors, and by how much.
    pub reorder: u64,
    /// By this much.
    pub late: Ps,
    /// Packets arrive twice.
    pub duplicate: u64,
    /// Packets arrive damaged.
    pub corrupt: u64,
    /// The option is taken away.
    pub strip: u64,
    /// The wire carries nothing.
    pub down: bool,
    /// Telemetry is not written.
    pub int_off: bool,
    /// Telemetry is not truthful.
    pub lie: Option<Lie>,
    rng: Rng,
}

impl Faults {
    /// None, with a stream of random numbers.
    #[must_use]
    pub fn new(rng: Rng) -> Self {
        Self {
            loss: 0,
            reorder: 0,
            late: 0,
            duplicate: 0,
            corrupt: 0,
            strip: 0,
            down: false,
            int_off: false,
            lie: None,
            rng,
        }
    }

    /// Whether telemetry is not what it should be.
    #[must_use]
    pub fn untrue(&self) -> bool {
        self.int_off || self.lie.is_some()
    }

    /// What a hop says instead of `hop`.
    pub fn stamp(&mut self, hop: Hop) -> Option<Hop> {
        if self.int_off {
            return None;
        }
        Some(match self.lie {
            None => hop,
            Some(Lie::Zero) => Hop {
                delay_ns: 0,
                qlen_bytes: 0,
                load: 0,
                ..hop
            },
            Some(Lie::Max) => Hop {
                delay_ns: u64::MAX,
                qlen_bytes: u32::MAX,
                tx_bytes: u64::MAX,
                load: 255,
                ..hop
            },
            Some(Lie::Random) => {
                let (a, b, c) = (self.rng.bits(), self.rng.bits(), self.rng.bits());
                Hop {
                    delay_ns: a & 0x3ffff,
                    qlen_bytes: (a >> 32) as u32 & 0x3f_ffff,
                    tx_bytes: b,
                    time_ns: c,
                    load: (c >> 56) as u8,
                    speed: Speed::from_code((b >> 60) as u8),
                    hop_id: (a >> 56) as u8,
                    shift: hop.shift,
                }
            }
        })
    }

    /// What befalls a packet that is put on the link. True when it is lost.
    pub fn befall(&mut self, packet: &mut Packet) -> bool {
        let mut chance = |p: u64| p != 0 && self.rng.chance(p);
        if chance(self.strip) {
            packet.strip();
        }
        if chance(self.corrupt) {
            packet.flags |= flag::CORRUPT;
        }
        if chance(self.duplicate) {
            packet.spare |= TWICE;
        }
        if chance(self.reorder) {
            packet.spare |= LATE;
        }
        let lost = chance(self.loss) || self.down;
        if lost {
            packet.kind = Kind::Gone;
        }
        lost
    }
}
