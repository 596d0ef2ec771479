// SPDX-License-Identifier: GPL-2.0

//! hello: how two ends agree on a format, 8 bytes on SYN and SYN-ACK.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+-------------------------------+
//! |   kind 253    |    len 8      |          exid 0xfa7f          |
//! +-------+-------+-------+-------+-------------------------------+
//! |ver. 4 |shift 4|wants 4|takes 4|    path 8     |    zero 8     |
//! +-------+-------+-------+-------+-------------------------------+
//! ```
//!
//! The SYN says which format its sender wants and which it would take; the SYN-ACK names the one that
//! is taken, or there is no hello in it. Who is not answered never sends the option again. Who
//! answered waits for the first option of the agreed format before sending one: had the answer been
//! lost to a middlebox, none would come. The last 8 bits are sent as zero and not looked at.
//!
//! `path` of a SYN-ACK tells the client how long the path is: the listener saw the TTL of the SYN, and
//! TCP shows a client none. A client takes the way back to be as long as the way there, unless its tc
//! or XDP program sees better.

use super::hop::path_hops;
use super::mpd;
use super::option::Reason;
use super::{exid, header, Format, KIND};

/// Bytes of the option.
pub const LEN: usize = 8;
/// The version of all formats that this crate speaks.
pub const VERSION: u8 = 1;

/// What one end says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The highest version it speaks.
    pub version: u8,
    /// Unit of an mpd delay that its fabric is set to, as a power of two of ns.
    pub shift: u8,
    /// The format it wants; of a SYN-ACK the one it takes.
    pub wants: Format,
    /// All formats it would take, by [`Format::bit`]; of a SYN-ACK that of `wants` alone.
    pub takes: u8,
    /// Routers that the SYN came across, plus one; 0 = not known. Of a SYN 0.
    pub path: u8,
}

impl Hello {
    /// Of an end that wants `wants` and would also take the formats of `takes`.
    #[must_use]
    pub const fn new(wants: Format, takes: u8, shift: u8) -> Self {
        Self {
            version: VERSION,
            shift: shift & mpd::MAX_SHIFT,
            wants,
            takes: (takes | wants.bit()) & 7,
            path: 0,
        }
    }

    /// Writes the option.
    #[inline(always)]
    #[must_use]
    pub const fn emit(&self) -> [u8; LEN] {
        let [kind, len, id0, id1] = header(LEN, exid::HELLO);
        let version = (self.version << 4) | (self.shift & 15);
        let formats = ((self.wants as u8) << 4) | (self.takes & 15);
        [kind, len, id0, id1, version, formats, self.path, 0]
    }

    /// Reads the option.
    ///
    /// # Errors
    /// When it is none, or wants what it would not take.
    #[inline(always)]
    pub const fn parse(option: &[u8; LEN]) -> Result<Self, Reason> {
        let [kind, len, id0, id1, version, formats, path, _] = *option;
        if kind != KIND || u16::from_be_bytes([id0, id1]) != exid::HELLO {
            return Err(Reason::ABSENT);
        }
        if len as usize != LEN {
            return Err(Reason::LENGTH);
        }
        match Format::from_code(formats >> 4) {
            Some(wants) if version >> 4 != 0 && formats & wants.bit() != 0 => Ok(Self {
                version: version >> 4,
                shift: version & 15,
                wants,
                takes: formats & 15,
                path,
            }),
            _ => Err(Reason::INCONSISTENT),
        }
    }

    /// Whether two ends can use `format` with each other: an mpd delay has to mean the same to both.
    #[inline(always)]
    const fn both(&self, other: &Self, format: Format) -> bool {
        let bit = format.bit();
        self.takes & other.takes & bit != 0
            && (!matches!(format, Format::Mpd) || self.shift == other.shift)
    }

    /// What a listener with `self` answers to a SYN: what the client wants if it can be, else what
    /// the listener wants, else any that both take; none when there is none.
    #[inline]
    #[must_use]
    pub const fn answer(&self, syn: &Self) -> Option<Self> {
        let format = if self.both(syn, syn.wants) {
            syn.wants
        } else if self.both(syn, self.wants) {
            self.wants
        } else if self.both(syn, Format::Mpd) {
            Format::Mpd
        } else if self.both(syn, Format::Bottleneck) {
            Format::Bottleneck
        } else if self.both(syn, Format::Stack) {
            Format::Stack
        } else {
            return None;
        };
        Some(Self {
            // A later version answers an earlier one in its own tongue.
            version: if syn.version < self.version {
                syn.version
            } else {
                self.version
            },
            shift: self.shift,
            wants: format,
            takes: format.bit(),
            path: 0,
        })
    }

    /// The same, of a listener that saw the TTL or hop limit of the SYN.
    #[inline(always)]
    #[must_use]
    pub const fn seen(self, ttl: u8) -> Self {
        Self {
            path: path_hops(ttl).saturating_add(1),
            ..self
        }
    }

    /// The format agreed upon when `answer` came back to `self`; none when it names what was not
    /// offered.
    #[inline]
    #[must_use]
    pub const fn agree(&self, answer: &Self) -> Option<Format> {
        let one = answer.takes == answer.wants.bit();
        if one && answer.version == VERSION && self.both(answer, answer.wants) {
            Some(answer.wants)
        } else {
            None
        }
    }
}
