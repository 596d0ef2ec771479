// SPDX-License-Identifier: GPL-2.0

//! Reverse path marking (RPM): the sender hears of congestion from the ACKs that pass the congested
//! switch anyway, not from the receiver. One definition for the software port, the simulator and the
//! switch programs.
//!
//! When the port's [`codel`](super::codel) chooses a packet of a flow that speaks ECN, the flow's counter goes up.
//! Each packet with ACK that passes the switch the other way while the counter is not zero gets the TCP flag ECE and
//! takes one off: one ACK for each choice, as the paper's Algorithm 1 has it. The sender answers with CWR, which the
//! switch leaves alone; a receiver that did not ask for it takes no notice.
//!
//! * **Which flows.** Counted is what carries ECT or CE in its IP header, which a TCP sender does only
//!   when both ends agreed on ECN.
//! * **Collisions.** A flow is a place in the table: flows that share it share their marks, and an ACK of one
//!   may carry the mark of the other. None is lost, none is added.
//! * **ACKs that come another way** leave their counter at [`MAX_COUNT`]; the port then marks forward (CE), as if there
//!   were no RPM. What a flow left behind, at most that many, the next flow at its place gets.
//! * **AccECN** (RFC 9768) makes of ECE a digit of a counter. A packet whose AE flag is set is of such a flow and is
//!   left alone; there is no telling while its counter has AE clear, so RPM is for fabrics that speak RFC 3168 or DCTCP.

#[cfg(target_has_atomic = "32")]
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// A counter goes no higher.
pub const MAX_COUNT: i32 = 15;
/// Places that a table may have: a power of two from here ...
pub const MIN_SLOTS: u32 = 16;
/// ... to here.
pub const MAX_SLOTS: u32 = 1 << 20;
/// Protocol number of TCP.
const TCP: u8 = 6;

/// TCP flags, as they stand in byte 13 of the header.
pub mod flag {
    /// Of the handshake: ECE here means something else.
    pub const SYN: u8 = 0x02;
    /// The connection is over.
    pub const RST: u8 = 0x04;
    /// Carries an acknowledgement.
    pub const ACK: u8 = 0x10;
    /// Congestion echo: what RPM sets.
    pub const ECE: u8 = 0x40;
    /// In byte 12: a digit of AccECN's counter.
    pub const AE: u8 = 0x01;
}

/// The flow of a packet, addresses and ports in the packet's own direction. The protocol is TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// IPv4.
    V4 {
        /// Source address.
        src: [u8; 4],
        /// Destination address.
        dst: [u8; 4],
        /// Source port.
        sport: u16,
        /// Destination port.
        dport: u16,
    },
    /// IPv6.
    V6 {
        /// Source address.
        src: [u8; 16],
        /// Destination address.
        dst: [u8; 16],
        /// Source port.
        sport: u16,
        /// Destination port.
        dport: u16,
    },
}

impl Flow {
    /// The other direction of the same connection.
    #[inline]
    #[must_use]
    pub const fn reverse(self) -> Self {
        match self {
            Self::V4 {
                src,
                dst,
                sport,
                dport,
            } => Self::V4 {
                src: dst,
                dst: src,
                sport: dport,
                dport: sport,
            },
            Self::V6 {
                src,
                dst,
                sport,
                dport,
            } => Self::V6 {
                src: dst,
                dst: src,
                sport: dport,
                dport: sport,
            },
        }
    }

    /// CRC-32 (IEEE 802.3, as zlib and as `crc32` of P4) over source, destination, protocol, source port,
    /// destination port in network order: what a switch's hash unit computes.
    #[inline]
    #[must_use]
    pub fn hash(&self) -> u32 {
        let crc = match self {
            Self::V4 {
                src,
                dst,
                sport,
                dport,
            } => ports(crc(crc(!0, src), dst), *sport, *dport),
            Self::V6 {
                src,
                dst,
                sport,
                dport,
            } => ports(crc(crc(!0, src), dst), *sport, *dport),
        };
        !crc
    }
}

/// The table of CRC-32, one entry a byte.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[inline(never)]
fn crc(mut crc: u32, bytes: &[u8]) -> u32 {
    for byte in bytes {
        let [low, ..] = crc.to_le_bytes();
        crc = (crc >> 8) ^ TABLE[(low ^ byte) as usize];
    }
    crc
}

#[inline]
fn ports(state: u32, sport: u16, dport: u16) -> u32 {
    let ([s0, s1], [d0, d1]) = (sport.to_be_bytes(), dport.to_be_bytes());
    crc(state, &[TCP, s0, s1, d0, d1])
}

/// Whether a packet with these bytes 12 and 13 of its TCP header may carry a mark.
#[inline]
#[must_use]
pub const fn may_carry(byte12: u8, flags: u8) -> bool {
    flags & (flag::ACK | flag::SYN | flag::RST) == flag::ACK && byte12 & flag::AE == 0
}

/// Whether a packet with this ECN field (the low two bits of the traffic class) is of a flow that
/// speaks ECN.
#[inline]
#[must_use]
pub const fn speaks_ecn(ecn: u8) -> bool {
    ecn & 3 != 0
}

/// The counters, which the caller brings: zero at first, shared by all ports of a switch. Ports may use
/// it at the same time; each operation is one atomic step and an undoing one in a race.
#[cfg(target_has_atomic = "32")]
#[derive(Clone, Copy, Debug)]
pub struct Table<'a>(&'a [AtomicI32]);

#[cfg(target_has_atomic = "32")]
impl<'a> Table<'a> {
    /// A table over `slots`; none when their number is not a power of two within the bounds.
    #[inline]
    #[must_use]
    pub fn new(slots: &'a [AtomicI32]) -> Option<Self> {
        let fits = size_is_valid(slots.len() as u64);
        fits.then_some(Self(slots))
    }

    #[inline]
    fn slot(&self, flow: &Flow) -> Option<&'a AtomicI32> {
        let place = flow.hash() as usize & self.0.len().wrapping_sub(1);
        self.0.get(place)
    }

    /// A packet of `flow` was chosen. False when its counter is full: nobody takes the marks away.
    #[inline]
    #[must_use]
    pub fn count(&self, flow: &Flow) -> bool {
        match self.slot(flow) {
            // Ports that count at the same time may pass the bound by as many as there are of them.
            Some(slot) if slot.load(Relaxed) < MAX_COUNT => {
                slot.fetch_add(1, Relaxed);
                true
            }
            _ => false,
        }
    }

    /// A packet passes whose flow, in its own direction, is `flow`: true when it must carry a mark of the
    /// other direction, which is off the counter then. Ask [`may_carry`] first.
    #[inline]
    #[must_use]
    pub fn take(&self, flow: &Flow) -> bool {
        match self.slot(&flow.reverse()) {
            Some(slot) if slot.load(Relaxed) > 0 => {
                if slot.fetch_sub(1, Relaxed) > 0 {
                    return true;
                }
                // Another port was faster; what it took is not here any more.
                slot.fetch_add(1, Relaxed);
                false
            }
            _ => false,
        }
    }

    /// What the counter of `flow` stands at.
    #[inline]
    #[must_use]
    pub fn pending(&self, flow: &Flow) -> u32 {
        self.slot(flow)
            .map_or(0, |slot| slot.load(Relaxed).max(0) as u32)
    }
}

/// Whether a table may have this many places.
#[inline(never)]
#[must_use]
pub const fn size_is_valid(slots: u64) -> bool {
    slots.is_power_of_two() && slots >= MIN_SLOTS as u64 && slots <= MAX_SLOTS as u64
}
