// SPDX-License-Identifier: GPL-2.0

//! The in-band telemetry option: every bit of it, once.
//!
//! A TCP option of kind 253 with a 16-bit experiment id (RFC 6994) carries what the hops of a path
//! say about their queues. Three formats, one per connection ([`Format`]): [`mpd`] for Poseidon,
//! [`bottleneck`] and [`stack`] for PowerTCP and HPCC. Both ends agree on one in the handshake
//! ([`hello`]); hops write it ([`hop`]); the receiver sends it back ([`storage::Echo`]); the sender
//! finds it in its socket's storage ([`storage::Storage`]).
//!
//! The same source is compiled as the crate `wire`, inside kernel modules, and inside eBPF programs.
//! Hence the rules of this folder: no `std`, no allocation, no floating point, no `unsafe`, nothing
//! that can panic, loops with constant bounds, and paths relative to this file only.
//!
//! What else a port of ours does to packets is here too, because switch, simulator and tests share it:
//! [`codel`], [`rpm`], and how the software port is set up ([`tc`]).
//!
//! Data flows one way: bytes are found ([`option::find`]), parsed ([`option::parse`]), kept
//! ([`storage::Storage::segment`]), and written ([`storage::Storage::write`]). Whatever is not exactly
//! as it should be is no telemetry, and the [`Reason`] is counted.

#![cfg_attr(not(MODULE), no_std)]
#![cfg_attr(MODULE, allow(dead_code, unexpected_cfgs, unused_imports))]
#![forbid(unsafe_code)]

pub mod bind;
pub mod bottleneck;
pub mod checksum;
pub mod codel;
pub mod hello;
pub mod hop;
pub mod load;
pub mod mpd;
pub mod option;
pub mod rpm;
pub mod speed;
pub mod stack;
pub mod storage;
pub mod tc;
pub mod trace;

pub use self::checksum::Delta;
pub use self::hello::Hello;
pub use self::hop::Hop;
pub use self::load::Load;
pub use self::option::{find, parse, Found, Parsed, Reason};
pub use self::speed::Speed;
pub use self::storage::{Echo, Hold, Sample, Storage, Telemetry};

/// TCP option kind for experiments (RFC 4727, RFC 6994).
pub const KIND: u8 = 253;

/// Experiment ids. Hops write into the even ones and leave the odd ones alone.
pub mod exid {
    /// [`mpd`](super::mpd): both directions in one option.
    pub const MPD: u16 = 0xfa70;
    /// [`bottleneck`](super::bottleneck), on its way to the receiver.
    pub const BOTTLENECK: u16 = 0xfa72;
    /// [`bottleneck`](super::bottleneck), on its way back.
    pub const BOTTLENECK_ECHO: u16 = 0xfa73;
    /// [`stack`](super::stack), on its way to the receiver.
    pub const STACK: u16 = 0xfa74;
    /// [`stack`](super::stack), on its way back.
    pub const STACK_ECHO: u16 = 0xfa75;
    /// [`hello`](super::hello), on SYN and SYN-ACK.
    pub const HELLO: u16 = 0xfa7f;
}

/// Bytes of kind, length and experiment id.
pub const HEADER_LEN: usize = 4;
/// The most bytes of options a TCP header can have.
pub const MAX_OPTIONS: usize = 40;
/// The longest of our options: a stack without timestamps beside it.
pub const MAX_LEN: usize = HEADER_LEN + MAX_BODY;
/// The longest option without its header.
pub const MAX_BODY: usize = stack::MAX_SLOTS * stack::SLOT_LEN;

/// What the packets of a connection carry. One byte in storage; 0 there means none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Format {
    /// Maximum per-hop delay, 8 bytes.
    Mpd = 1,
    /// The record of the most congested hop, 16 bytes.
    Bottleneck = 2,
    /// A record per hop, 4 bytes and 8 for each.
    Stack = 3,
}

impl Format {
    /// The format of a byte in storage or in a [`Hello`].
    #[inline(always)]
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Mpd),
            2 => Some(Self::Bottleneck),
            3 => Some(Self::Stack),
            _ => None,
        }
    }

    /// Its bit in the set of formats that a [`Hello`] offers.
    #[inline(always)]
    #[must_use]
    pub const fn bit(self) -> u8 {
        match self {
            Self::Mpd => 1,
            Self::Bottleneck => 2,
            Self::Stack => 4,
        }
    }

    /// Bytes to reserve in every segment after the handshake. Always the same, since the kernel
    /// derives the MSS from it.
    #[inline(always)]
    #[must_use]
    pub const fn reserve(self, timestamps: bool) -> u8 {
        match self {
            Self::Mpd => mpd::LEN as u8,
            Self::Bottleneck => bottleneck::LEN as u8,
            Self::Stack => stack::len(stack::slots(timestamps)) as u8,
        }
    }
}

/// Big-endian 16 bits at `at`, if they are there.
#[inline(always)]
fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let (high, low) = (bytes.get(at)?, bytes.get(at.wrapping_add(1))?);
    Some(u16::from_be_bytes([*high, *low]))
}

/// The four bytes every option of ours begins with.
#[inline(always)]
const fn header(len: usize, exid: u16) -> [u8; HEADER_LEN] {
    let [high, low] = exid.to_be_bytes();
    [KIND, len as u8, high, low]
}
