// SPDX-License-Identifier: GPL-2.0

//! Finding and reading the option. Nothing here reads beyond the bytes it is given, nor beyond the
//! option's own length.

use super::hello::{self, Hello};
use super::mpd::{self, EchoWord, Word};
use super::{be16, bottleneck, exid, stack, KIND, MAX_OPTIONS};

/// Why there is no telemetry in a segment, or no way to write any.
///
/// Not an `enum`: the compiler would leave out the bounds checks of tables that it indexes, and an
/// eBPF verifier wants to see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason(u8);

impl Reason {
    /// No option of ours.
    pub const ABSENT: Self = Self(0);
    /// The bytes end before the option, or another one in front of it, does.
    pub const TRUNCATED: Self = Self(1);
    /// A length that the format, or any TCP option, cannot have.
    pub const LENGTH: Self = Self(2);
    /// It contradicts itself.
    pub const INCONSISTENT: Self = Self(3);
    /// It does not begin at a multiple of four bytes, where no switch looks.
    pub const MISALIGNED: Self = Self(4);
    /// A well-formed one that was not agreed upon.
    pub const UNEXPECTED: Self = Self(5);
    /// All slots of the stack are taken; for a hop only.
    pub const FULL: Self = Self(6);
    /// The segment has too little room left for it; for a writer only.
    pub const NO_ROOM: Self = Self(7);

    /// How many there are.
    pub const COUNT: usize = 8;
    /// What they are called, by [`Reason::index`].
    pub const NAMES: [&'static str; Self::COUNT] = [
        "absent",
        "truncated",
        "length",
        "inconsistent",
        "misaligned",
        "unexpected",
        "full",
        "no-room",
    ];

    /// Its place in tables.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.get(self.index()).copied().unwrap_or("unknown")
    }

    /// Whether somebody sent what nobody should.
    #[inline(always)]
    #[must_use]
    pub const fn is_malformed(self) -> bool {
        matches!(
            self,
            Self::TRUNCATED | Self::LENGTH | Self::INCONSISTENT | Self::MISALIGNED
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

/// Kinds of options that Linux writes.
const NOP: u8 = 1;
const SACK: u8 = 5;
const TIMESTAMP: u8 = 8;

/// Where a walk along the options goes from one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// On, to this many bytes from the start of the options.
    Next(usize),
    /// This one is ours.
    Found(Found),
    /// Nowhere.
    Stop(Reason),
}

/// Looks at the option that begins at `at` with the four bytes `head`, of options that end at `end`;
/// bytes of `head` from `end` on do not count. For those who cannot have the options as a slice: an
/// eBPF program that reads a packet takes at most [`MAX_OPTIONS`] steps from 0 on.
#[inline(always)]
#[must_use]
pub const fn step(at: usize, end: usize, head: [u8; 4]) -> Step {
    const END: u8 = 0;
    let [kind, len, id0, id1] = head;
    if at >= end || kind == END {
        return Step::Stop(Reason::ABSENT);
    }
    // Nothing below overflows: the options are at most forty bytes, a length is one.
    if kind == NOP {
        return Step::Next(at.wrapping_add(1));
    }
    if at.wrapping_add(1) >= end {
        return Step::Stop(Reason::TRUNCATED);
    }
    if len < 2 {
        return Step::Stop(Reason::LENGTH);
    }
    let len = len as usize;
    let next = at.wrapping_add(len);
    if next > end {
        return Step::Stop(Reason::TRUNCATED);
    }
    let exid = u16::from_be_bytes([id0, id1]);
    if kind != KIND || len < 4 || !is_ours(exid) {
        return Step::Next(next);
    }
    if at & 3 != 0 {
        return Step::Stop(Reason::MISALIGNED);
    }
    Step::Found(Found { at, len, exid })
}

/// The first option of ours among `options`: what follows the first 20 bytes of a TCP header.
///
/// # Errors
/// When there is none, or the list is broken before it.
#[inline]
pub fn find(options: &[u8]) -> Result<Found, Reason> {
    let byte = |at: usize| options.get(at).copied().unwrap_or(0);
    let mut at = 0usize;
    for _ in 0..MAX_OPTIONS {
        let head = [
            byte(at),
            byte(at.wrapping_add(1)),
            byte(at.wrapping_add(2)),
            byte(at.wrapping_add(3)),
        ];
        match step(at, options.len(), head) {
            Step::Next(next) => at = next,
            Step::Found(found) => return Ok(found),
            Step::Stop(reason) => return Err(reason),
        }
    }
    Err(Reason::ABSENT)
}

/// The head of the option among the `len` bytes of `options`, where Linux puts it: behind timestamps and
/// SACK blocks. For eBPF, whose verifier would follow a walk along any list of options down each of its
/// paths; a list in another order has none to it.
///
/// What is found is best loaded into an array of its own with a helper before it is parsed: the verifier
/// then forgets where it came from.
///
/// # Errors
/// When it is not there.
#[inline(always)]
pub fn find_last(options: &[u8; MAX_OPTIONS], len: usize) -> Result<Found, Reason> {
    let head = |at: usize| -> [u8; 4] {
        match options.get(at..).and_then(<[u8]>::first_chunk) {
            Some(head) => *head,
            None => [0; 4],
        }
    };
    let mut at = match head(0) {
        [NOP, NOP, TIMESTAMP, 10] => 12,
        _ => 0,
    };
    if let [NOP, NOP, SACK, sack] = head(at) {
        at = match sack {
            10 => at.wrapping_add(12),
            18 => at.wrapping_add(20),
            26 => at.wrapping_add(28),
            _ => return Err(Reason::ABSENT),
        };
    }
    match step(at, len, head(at)) {
        Step::Found(found) => Ok(found),
        Step::Next(_) => Err(Reason::ABSENT),
        Step::Stop(reason) => Err(reason),
    }
}

/// The first `N` bytes.
#[inline(always)]
fn start<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], Reason> {
    bytes.first_chunk().ok_or(Reason::TRUNCATED)
}

/// Reads the option at the start of `bytes`, which may go on behind it.
///
/// # Errors
/// When it is none of ours, or not as it should be.
#[inline]
pub fn parse(bytes: &[u8]) -> Result<Parsed, Reason> {
    if bytes.first() != Some(&KIND) {
        return Err(Reason::ABSENT);
    }
    let len = *bytes.get(1).ok_or(Reason::TRUNCATED)? as usize;
    if len < 2 {
        return Err(Reason::LENGTH);
    }
    if len < 4 {
        // An experiment without an id (RFC 6994 §3 forbids it) is not ours.
        return Err(Reason::ABSENT);
    }
    let id = be16(bytes, 2).ok_or(Reason::TRUNCATED)?;
    if is_ours(id) && len > bytes.len() {
        return Err(Reason::TRUNCATED);
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
        id if is_ours(id) => Err(Reason::LENGTH),
        _ => Err(Reason::ABSENT),
    }
}
