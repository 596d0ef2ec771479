// SPDX-License-Identifier: GPL-2.0

//! Finding and reading the option. Nothing here reads beyond the bytes it is given, nor beyond the
//! option's own length.

use super::hello::{self, Hello};
use super::mpd::{self, EchoWord, Word};
use super::{be16, bottleneck, exid, stack, KIND, MAX_OPTIONS};

/// Why there is no telemetry in a segment, or no way to write any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// No option of ours.
    Absent = 0,
    /// The bytes end before the option, or another one in front of it, does.
    Truncated = 1,
    /// A length that the format, or any TCP option, cannot have.
    Length = 2,
    /// It contradicts itself.
    Inconsistent = 3,
    /// It does not begin at a multiple of four bytes, where no switch looks.
    Misaligned = 4,
    /// A well-formed one that was not agreed upon.
    Unexpected = 5,
    /// All slots of the stack are taken; for a hop only.
    Full = 6,
    /// The segment has too little room left for it; for a writer only.
    NoRoom = 7,
}

impl Reason {
    /// How many there are.
    pub const COUNT: usize = 8;

    /// Whether somebody sent what nobody should.
    #[inline(always)]
    #[must_use]
    pub const fn is_malformed(self) -> bool {
        matches!(
            self,
            Self::Truncated | Self::Length | Self::Inconsistent | Self::Misaligned
        )
    }
}

/// An option of ours as read from a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Both words of an mpd option.
    Mpd(Word, EchoWord),
    /// The record of the most congested hop.
    Bottleneck(bottleneck::Body),
    /// The same on its way back; its count is the code of [`Missing`](mpd::Missing).
    BottleneckEcho(bottleneck::Body),
    /// A record per hop.
    Stack(stack::Body),
    /// The same on its way back.
    StackEcho(stack::Body),
    /// A side of the handshake.
    Hello(Hello),
}

/// Where the option is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Bytes from the start of the options; a multiple of four.
    pub at: usize,
    /// Its length as it says itself, within the options.
    pub len: usize,
    /// Which of ours it is.
    pub exid: u16,
}

/// Whether an experiment id is one of ours.
#[inline(always)]
#[must_use]
pub const fn is_ours(exid: u16) -> bool {
    matches!(
        exid,
        exid::MPD
            | exid::BOTTLENECK
            | exid::BOTTLENECK_ECHO
            | exid::STACK
            | exid::STACK_ECHO
            | exid::HELLO
    )
}

/// The first option of ours among `options`: what follows the first 20 bytes of a TCP header.
///
/// # Errors
/// When there is none, or the list is broken before it.
#[inline]
pub fn find(options: &[u8]) -> Result<Found, Reason> {
    const END: u8 = 0;
    const NOP: u8 = 1;
    let mut at = 0usize;
    for _ in 0..MAX_OPTIONS {
        let kind = match options.get(at) {
            None | Some(&END) => return Err(Reason::Absent),
            Some(&NOP) => {
                at = at.wrapping_add(1);
                continue;
            }
            Some(&kind) => kind,
        };
        let len = match options.get(at.wrapping_add(1)) {
            None => return Err(Reason::Truncated),
            Some(0 | 1) => return Err(Reason::Length),
            Some(&len) => len as usize,
        };
        // Both are small: at is within the options, len is a byte.
        let next = at.wrapping_add(len);
        if next > options.len() {
            return Err(Reason::Truncated);
        }
        if kind == KIND && len >= 4 {
            if let Some(exid) = be16(options, at.wrapping_add(2)) {
                if is_ours(exid) {
                    if at & 3 != 0 {
                        return Err(Reason::Misaligned);
                    }
                    return Ok(Found { at, len, exid });
                }
            }
        }
        at = next;
    }
    Err(Reason::Absent)
}

/// The first `N` bytes.
#[inline(always)]
fn start<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], Reason> {
    bytes.first_chunk().ok_or(Reason::Truncated)
}

/// Reads the option at the start of `bytes`, which may go on behind it.
///
/// # Errors
/// When it is none of ours, or not as it should be.
#[inline]
pub fn parse(bytes: &[u8]) -> Result<Parsed, Reason> {
    if bytes.first() != Some(&KIND) {
        return Err(Reason::Absent);
    }
    let len = *bytes.get(1).ok_or(Reason::Truncated)? as usize;
    if len < 2 {
        return Err(Reason::Length);
    }
    if len < 4 {
        // An experiment without an id (RFC 6994 §3 forbids it) is not ours.
        return Err(Reason::Absent);
    }
    let id = be16(bytes, 2).ok_or(Reason::Truncated)?;
    if is_ours(id) && len > bytes.len() {
        return Err(Reason::Truncated);
    }
    match id {
        exid::MPD if len == mpd::LEN => {
            let (forward, echo) = mpd::parse(start(bytes)?)?;
            Ok(Parsed::Mpd(forward, echo))
        }
        exid::BOTTLENECK | exid::BOTTLENECK_ECHO if len == bottleneck::LEN => {
            Ok(match bottleneck::parse(start(bytes)?)? {
                (false, body) => Parsed::Bottleneck(body),
                (true, body) => Parsed::BottleneckEcho(body),
            })
        }
        exid::STACK | exid::STACK_ECHO => Ok(match stack::parse(bytes)? {
            (false, body) => Parsed::Stack(body),
            (true, body) => Parsed::StackEcho(body),
        }),
        exid::HELLO if len == hello::LEN => Ok(Parsed::Hello(Hello::parse(start(bytes)?)?)),
        id if is_ours(id) => Err(Reason::Length),
        _ => Err(Reason::Absent),
    }
}
