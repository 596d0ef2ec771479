// SPDX-License-Identifier: GPL-2.0

//! The record that eBPF, the kernel module and user space share for each socket: the value type of one
//! `SK_STORAGE` map.
//!
//! eBPF parses every segment into it ([`Storage::segment`]) and writes every segment from it
//! ([`Storage::write`]); the module takes the sample of the ACK it is told of ([`Head::take`]).
//! Integers and arrays of integers only: every mix of bytes is a valid value, all-zero is a socket that
//! agreed on nothing.
//!
//! Who writes what: [`Storage::history`] is the module's, under the socket lock. The rest is eBPF's,
//! under the same lock where sock_ops feeds it, and then nothing can be torn. A tc program holds no
//! lock: it makes [`Head::generation`] odd before it writes and even after, with compiler barriers
//! around its writes, and a reader that sees an odd or a changed one has no sample. It has to be one
//! of the two that feeds a socket, never both.

use super::hello::Hello;
use super::mpd::{self, EchoWord, Missing, Word};
use super::option::{Parsed, Reason};
use super::{bottleneck, hop, stack, Format, MAX_BODY, MAX_LEN};
use core::mem::offset_of;

/// What [`Head::version`] has to be. Any change of layout or meaning is a new version; a reader
/// that finds another takes it for a socket without telemetry.
pub const VERSION: u16 = 1;

/// Bytes of a [`Storage`]: the size of the map's values.
pub const SIZE: usize = 364;

/// Words of [`Storage::history`]: eight hops of six words, and one.
pub const HISTORY_WORDS: usize = 50;

/// How far two ends have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// No telemetry on this connection.
    Off = 0,
    /// The SYN asked; the answer is not here yet.
    Offered = 1,
    /// The SYN-ACK answered; nothing goes out before an option has come in.
    Answered = 2,
    /// Agreed.
    On = 3,
}

impl State {
    /// The state of a byte in storage.
    #[inline(always)]
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Offered,
            2 => Self::Answered,
            3 => Self::On,
            _ => Self::Off,
        }
    }
}

/// What came back with one ACK, as it stood in the option.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The acknowledgement number of the segment that brought it, host order.
    pub ack: u32,
    /// A [`Format`]; 0 = no sample.
    pub format: u8,
    /// The code of [`Missing`].
    pub missing: u8,
    /// Records in `body`.
    pub hops: u8,
    /// Zero.
    pub reserved: u8,
    /// mpd: the echo word and the forward word of the ACK itself; else the record or the slots.
    pub body: [u8; MAX_BODY],
}

/// A sample in the units that the laws use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telemetry {
    /// The maximum per-hop delay.
    Mpd {
        /// Of the path to the receiver, ns.
        forward_ns: u32,
        /// Of the path of the ACK, ns; 0 when no hop of it wrote.
        backward_ns: u32,
        /// Hops of the forward path that did not write.
        missing: Missing,
    },
    /// The most congested hop of the path to the receiver.
    Bottleneck(bottleneck::Record, Missing),
    /// The hops of the path to the receiver in order, and how many.
    Stack([bottleneck::Record; stack::MAX_SLOTS], usize),
}

impl Sample {
    /// None.
    pub const NONE: Self = Self {
        ack: 0,
        format: 0,
        missing: 0,
        hops: 0,
        reserved: 0,
        body: [0; MAX_BODY],
    };

    /// From its bytes, as the log of `tcp_int` has them.
    #[inline]
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 40]) -> Self {
        let [format, missing, hops, reserved] = field(bytes, 4);
        Self {
            ack: u32::from_ne_bytes(field(bytes, 0)),
            format,
            missing,
            hops,
            reserved,
            body: field(bytes, 8),
        }
    }

    /// In bytes and ns; `shift` is [`Head::shift`]. None when there is no sample.
    #[inline]
    #[must_use]
    pub fn decode(&self, shift: u8) -> Option<Telemetry> {
        match Format::from_code(self.format)? {
            Format::Mpd => {
                let [e0, e1, f0, f1, ..] = self.body;
                Some(Telemetry::Mpd {
                    forward_ns: EchoWord(u16::from_be_bytes([e0, e1])).delay_ns(shift)?,
                    backward_ns: Word(u16::from_be_bytes([f0, f1])).delay_ns(shift),
                    missing: Missing::from_code(self.missing),
                })
            }
            Format::Bottleneck => {
                let body = bottleneck::Body(*self.body.first_chunk()?);
                let missing = Missing::from_code(self.missing);
                Some(Telemetry::Bottleneck(body.record(), missing))
            }
            Format::Stack => {
                let mut records = [bottleneck::Record::default(); stack::MAX_SLOTS];
                let slots = self.body.chunks_exact(stack::SLOT_LEN);
                for (record, bytes) in records.iter_mut().zip(slots) {
                    let mut slot = stack::Slot::default();
                    slot.0.copy_from_slice(bytes);
                    *record = slot.record();
                }
                let hops = (self.hops as usize).min(stack::MAX_SLOTS);
                Some(Telemetry::Stack(records, hops))
            }
        }
    }
}

/// What is to be sent back with the next ACK. Also the value of an XDP program's own map, where it
/// waits between a packet's arrival and the ACK.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    /// A [`Format`]; 0 = nothing.
    pub format: u8,
    /// The code of [`Missing`].
    pub missing: u8,
    /// Records in `body`.
    pub hops: u8,
    /// Zero.
    pub reserved: u8,
    /// mpd: the forward word; else the record or the slots.
    pub body: [u8; MAX_BODY],
}

impl Echo {
    /// Takes in what a packet brought. Of mpd the largest delay of all packets that one ACK answers
    /// for, and the worst coverage; of the others the newest record, since they hold counters.
    ///
    /// `path_hops` is the length of the path by its TTL ([`hop::path_hops`]), when that is known.
    #[inline]
    pub fn merge(&mut self, parsed: &Parsed, path_hops: Option<u8>) {
        match parsed {
            Parsed::Mpd(word, _) if word.hops() != 0 => self.merge_mpd(*word, path_hops),
            Parsed::Bottleneck(body) if body.count() != 0 => {
                self.format = Format::Bottleneck as u8;
                self.missing = Missing::of(body.count(), path_hops).code();
                self.hops = 1;
                if let Some(to) = self.body.first_chunk_mut() {
                    *to = body.0;
                }
            }
            Parsed::Stack(body) if body.used != 0 => {
                self.format = Format::Stack as u8;
                self.missing = Missing::of(body.used, path_hops).code();
                self.hops = body.used;
                let slots = self.body.chunks_exact_mut(stack::SLOT_LEN);
                for (to, slot) in slots.zip(&body.slots) {
                    to.copy_from_slice(&slot.0);
                }
            }
            _ => {}
        }
    }

    #[inline(always)]
    fn merge_mpd(&mut self, word: Word, path_hops: Option<u8>) {
        let (mut most, mut missing) = (word, Missing::of(word.hops(), path_hops));
        if self.format == Format::Mpd as u8 {
            let last = self.word();
            if last.0 > most.0 {
                most = last;
            }
            missing = missing.worse(Missing::from_code(self.missing));
        }
        self.format = Format::Mpd as u8;
        self.missing = missing.code();
        self.hops = 1;
        if let Some(to) = self.body.first_chunk_mut() {
            *to = most.0.to_be_bytes();
        }
    }

    #[inline(always)]
    const fn word(&self) -> Word {
        let [high, low, ..] = self.body;
        Word(u16::from_be_bytes([high, low]))
    }

    /// The echo word of an mpd option.
    #[inline(always)]
    #[must_use]
    pub const fn mpd(&self) -> EchoWord {
        if self.format == Format::Mpd as u8 {
            EchoWord::new(self.word(), Missing::from_code(self.missing))
        } else {
            EchoWord::NONE
        }
    }

    /// The option that brings it back, for the formats whose echo is an option of its own.
    #[inline]
    #[must_use]
    pub fn emit(&self) -> Option<Out> {
        match Format::from_code(self.format)? {
            Format::Mpd => None,
            Format::Bottleneck => {
                let body = bottleneck::Body(*self.body.first_chunk()?);
                let missing = Missing::from_code(self.missing);
                Some(Out::new(&bottleneck::emit_echo(&body, missing)))
            }
            Format::Stack => {
                let mut body = stack::Body::default();
                let slots = self.body.chunks_exact(stack::SLOT_LEN);
                for (slot, from) in body.slots.iter_mut().zip(slots) {
                    slot.0.copy_from_slice(from);
                }
                body.used = self.hops;
                let (bytes, len) = stack::emit_echo(&body);
                Some(Out {
                    bytes,
                    len: len as u8,
                })
            }
        }
    }
}

/// `N` bytes at `at`.
#[inline(always)]
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    match bytes.get(at..).and_then(<[u8]>::first_chunk) {
        Some(bytes) => *bytes,
        None => [0; N],
    }
}

/// An option to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Out {
    /// The option, and zeroes after it.
    pub bytes: [u8; MAX_LEN],
    /// Its length.
    pub len: u8,
}

impl Out {
    #[inline(always)]
    fn new<const N: usize>(option: &[u8; N]) -> Self {
        let mut bytes = [0; MAX_LEN];
        for (to, from) in bytes.iter_mut().zip(option) {
            *to = *from;
        }
        Self {
            bytes,
            len: N as u8,
        }
    }

    /// The option alone.
    #[inline(always)]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len as usize).unwrap_or(&[])
    }
}

/// What happened on a connection; all wrap.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Segments that brought a sample.
    pub samples: u32,
    /// Segments with a well-formed option.
    pub options: u32,
    /// Options written.
    pub written: u32,
    /// Echoes written.
    pub echoed: u32,
    /// Segments without telemetry by [`Reason`], and segments that could not be given any.
    pub reasons: [u32; Reason::COUNT],
}

impl Counters {
    /// Counts a reason.
    #[inline(always)]
    pub fn count(&mut self, reason: Reason) {
        if let Some(counter) = self.reasons.get_mut(reason.index()) {
            *counter = counter.wrapping_add(1);
        }
    }

    /// Segments that were not as they should be.
    #[must_use]
    pub fn malformed(&self) -> u32 {
        let [_, truncated, length, inconsistent, misaligned, ..] = self.reasons;
        truncated
            .wrapping_add(length)
            .wrapping_add(inconsistent)
            .wrapping_add(misaligned)
    }
}

/// ACKs without a sample of their own, waiting for the next one that has one.
///
/// Not every packet carries the option. A sample stands for the round trip in which it came: an ACK without
/// is not told to the law by itself, but with the next sample, as if one ACK had answered for both. When a
/// round trip brought none, the law is told that there is none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// Packets delivered in all when the last sample came; wraps.
    pub sampled: u32,
    /// Is there a last sample?
    pub armed: u32,
    /// Packets that wait.
    pub acked: u32,
    /// Of these, marked CE.
    pub ce: u32,
}

impl Hold {
    /// Nothing waits.
    pub const NONE: Self = Self {
        sampled: 0,
        armed: 0,
        acked: 0,
        ce: 0,
    };

    /// An ACK for `acked` packets, `ce` of them marked, with a sample or without (`fresh`). `delivered` is
    /// how many were delivered in all, `prior` how many had been when the newest of them was sent. What
    /// the law is to be told of: these packets and those that waited; none when they wait, too.
    #[inline(always)]
    pub fn ack(
        &mut self,
        fresh: bool,
        acked: u32,
        ce: u32,
        delivered: u32,
        prior: u32,
    ) -> Option<(u32, u32)> {
        let acked = acked.wrapping_add(self.acked);
        let ce = ce.wrapping_add(self.ce);
        if !fresh && self.armed != 0 && (prior.wrapping_sub(self.sampled) as i32) < 0 {
            (self.acked, self.ce) = (acked, ce);
            return None;
        }
        *self = Self {
            sampled: delivered,
            armed: fresh as u32,
            acked: 0,
            ce: 0,
        };
        Some((acked, ce))
    }
}

/// The part of the record that the module reads.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// [`VERSION`]; 0 = not started.
    pub version: u16,
    /// Bytes of the whole record.
    pub size: u16,
    /// A [`State`].
    pub state: u8,
    /// The [`Format`] agreed upon; 0 = none.
    pub format: u8,
    /// Unit of an mpd delay as a power of two of ns.
    pub shift: u8,
    /// Slots of the stacks sent.
    pub slots: u8,
    /// Odd while a writer without the socket lock is at work.
    pub generation: u32,
    /// Segments in a row without a well-formed option, saturating: a middlebox that strips it shows
    /// here.
    pub absent_run: u16,
    /// INT hops of the path to here that do not decrement the TTL, such as a host's own port.
    pub extra_hops: u8,
    /// 1 = the last data segment carried an echo, and the next one carries the forward option.
    pub turn: u8,
    /// What the last segment brought, until it is taken.
    pub sample: Sample,
}

/// The record of a socket. All-zero = no telemetry.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Storage {
    /// What the module reads.
    pub head: Head,
    /// The sequence number up to which the last data segment with the option reached.
    pub tagged: u32,
    /// Routers on the path to here, plus one; 0 = not known.
    pub path: u8,
    /// 1 = `tagged` says something.
    pub tagging: u8,
    /// 1 = the segment that room was asked for has payload.
    pub payload: u8,
    /// Zero.
    pub reserved: u8,
    /// What the next segment brings back.
    pub echo: Echo,
    /// What happened so far.
    pub counters: Counters,
    /// The module's own: what waits for the next sample.
    pub hold: Hold,
    /// The module's own: the last record of every hop, the law's `HopHistory`.
    pub history: [u32; HISTORY_WORDS],
}

// What other languages and the map's definition rely on.
const _: () = {
    assert!(core::mem::size_of::<Sample>() == 40);
    assert!(core::mem::size_of::<Echo>() == 36);
    assert!(core::mem::size_of::<Head>() == 56);
    assert!(core::mem::size_of::<Storage>() == SIZE);
    assert!(core::mem::offset_of!(Head, sample) == 16);
    assert!(core::mem::offset_of!(Storage, echo) == 64);
    assert!(core::mem::offset_of!(Storage, counters) == 100);
    assert!(core::mem::offset_of!(Storage, history) == 164);
};

impl Head {
    /// Of a socket that agreed on nothing.
    pub const ZERO: Self = Self {
        version: 0,
        size: 0,
        state: 0,
        format: 0,
        shift: 0,
        slots: 0,
        generation: 0,
        absent_run: 0,
        extra_hops: 0,
        turn: 0,
        sample: Sample::NONE,
    };

    /// Whether this is a record of this version with telemetry on.
    #[inline(always)]
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.version == VERSION && self.state == State::On as u8
    }

    /// The sample that the segment with acknowledgement number `ack` brought; it is gone afterwards.
    ///
    /// One of an earlier segment is dropped. One of a later segment stays: tc sees segments before
    /// the socket does.
    #[inline]
    pub fn take(&mut self, ack: u32) -> Option<Sample> {
        if !self.is_on() || self.sample.format == 0 || self.generation & 1 != 0 {
            return None;
        }
        let later = self.sample.ack.wrapping_sub(ack);
        if later != 0 && later < 1 << 31 {
            return None;
        }
        let sample = self.sample;
        self.sample.format = 0;
        (later == 0).then_some(sample)
    }
}

impl Default for Head {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Default for Storage {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Storage {
    /// A socket that agreed on nothing.
    pub const ZERO: Self = Self {
        head: Head::ZERO,
        tagged: 0,
        path: 0,
        tagging: 0,
        payload: 0,
        reserved: 0,
        echo: Echo {
            format: 0,
            missing: 0,
            hops: 0,
            reserved: 0,
            body: [0; MAX_BODY],
        },
        counters: Counters {
            samples: 0,
            options: 0,
            written: 0,
            echoed: 0,
            reasons: [0; Reason::COUNT],
        },
        hold: Hold::NONE,
        history: [0; HISTORY_WORDS],
    };

    /// From a copy that user space made; the echo and the history stay out.
    #[inline]
    #[must_use]
    pub fn from_bytes(bytes: &[u8; SIZE]) -> Self {
        let mut storage = Self::ZERO;
        let head = &mut storage.head;
        head.version = u16::from_ne_bytes(field(bytes, offset_of!(Head, version)));
        head.size = u16::from_ne_bytes(field(bytes, offset_of!(Head, size)));
        [head.state, head.format, head.shift, head.slots] = field(bytes, offset_of!(Head, state));
        head.generation = u32::from_ne_bytes(field(bytes, offset_of!(Head, generation)));
        head.absent_run = u16::from_ne_bytes(field(bytes, offset_of!(Head, absent_run)));
        [head.extra_hops, head.turn] = field(bytes, offset_of!(Head, extra_hops));
        head.sample = Sample::from_bytes(&field(bytes, offset_of!(Head, sample)));
        storage.tagged = u32::from_ne_bytes(field(bytes, offset_of!(Self, tagged)));
        [storage.path, storage.tagging, storage.payload, _] = field(bytes, offset_of!(Self, path));
        let mut counters = [0; 4 + Reason::COUNT];
        let mut at = offset_of!(Self, counters);
        for counter in &mut counters {
            *counter = u32::from_ne_bytes(field(bytes, at));
            at = at.wrapping_add(4);
        }
        let [samples, options, written, echoed, reasons @ ..] = counters;
        storage.counters = Counters {
            samples,
            options,
            written,
            echoed,
            reasons,
        };
        storage
    }

    #[inline(always)]
    fn start(&mut self, state: State, format: Option<Format>, shift: u8) {
        self.head.version = VERSION;
        self.head.size = core::mem::size_of::<Self>() as u16;
        self.head.state = state as u8;
        self.head.format = format.map_or(0, |f| f as u8);
        self.head.shift = shift & mpd::MAX_SHIFT;
        self.head.sample.format = 0;
        self.echo.format = 0;
        self.head.absent_run = 0;
        self.head.turn = 0;
        self.tagging = 0;
    }

    /// The client's SYN goes out with `hello`.
    #[inline]
    pub fn offer(&mut self, hello: &Hello) {
        self.start(State::Offered, None, hello.shift);
    }

    /// The client is established: `offered` is what its SYN said, `answer` the hello of the SYN-ACK.
    /// Whether telemetry is on.
    #[inline]
    pub fn answered(&mut self, offered: &Hello, answer: Option<&Hello>, timestamps: bool) -> bool {
        let format = answer.and_then(|answer| offered.agree(answer));
        let state = if format.is_some() {
            State::On
        } else {
            State::Off
        };
        self.start(state, format, offered.shift);
        self.head.slots = stack::slots(timestamps) as u8;
        self.path = answer.map_or(0, |answer| answer.path);
        format.is_some()
    }

    /// The listener's socket is established: `answer` is what its SYN-ACK said. It waits for the
    /// client's first option.
    #[inline]
    pub fn accepted(&mut self, answer: &Hello, timestamps: bool) {
        self.start(State::Answered, Some(answer.wants), answer.shift);
        self.head.slots = stack::slots(timestamps) as u8;
        self.path = answer.path;
    }

    /// A segment arrived: what was found in it, and its acknowledgement number. To be called for
    /// every segment of an established socket, also for one without the option: a sample is fresh,
    /// or it is not there.
    ///
    /// `ttl` is that of its IP header when the caller can see it.
    #[inline]
    pub fn segment(&mut self, parsed: Result<Parsed, Reason>, ack: u32, ttl: Option<u8>) {
        self.head.sample.format = 0;
        match parsed.and_then(|parsed| self.accept(&parsed, ack, ttl)) {
            Ok(()) => {
                self.counters.options = self.counters.options.wrapping_add(1);
                self.head.absent_run = 0;
            }
            Err(reason) => {
                self.counters.count(reason);
                self.head.absent_run = self.head.absent_run.saturating_add(1);
            }
        }
    }

    #[inline(always)]
    fn accept(&mut self, parsed: &Parsed, ack: u32, ttl: Option<u8>) -> Result<(), Reason> {
        let format = match parsed {
            Parsed::Mpd(..) => Format::Mpd,
            Parsed::Bottleneck(_) | Parsed::BottleneckEcho(_) => Format::Bottleneck,
            Parsed::Stack(_) | Parsed::StackEcho(_) => Format::Stack,
            Parsed::Hello(_) => return Err(Reason::UNEXPECTED),
        };
        let state = State::from_code(self.head.state);
        let agreed = matches!(state, State::On | State::Answered);
        if self.head.version != VERSION || !agreed || self.head.format != format as u8 {
            return Err(Reason::UNEXPECTED);
        }
        self.head.state = State::On as u8;
        if let Some(ttl) = ttl {
            self.path = hop::path_hops(ttl).saturating_add(1);
        }
        self.echo.merge(parsed, self.path_hops());
        self.sample(parsed, ack);
        Ok(())
    }

    /// INT hops that a packet to here passes, when the length of the path is known.
    #[inline(always)]
    #[must_use]
    pub fn path_hops(&self) -> Option<u8> {
        let routers = self.path.checked_sub(1)?;
        Some(routers.saturating_add(self.head.extra_hops))
    }

    #[inline(always)]
    fn sample(&mut self, parsed: &Parsed, ack: u32) {
        let sample = &mut self.head.sample;
        match parsed {
            Parsed::Mpd(forward, echo) if *echo != EchoWord::NONE => {
                if echo.missing() == Missing::NO_SAMPLE {
                    return;
                }
                sample.format = Format::Mpd as u8;
                sample.missing = echo.missing().code();
                sample.hops = 1;
                let ([e0, e1], [f0, f1]) = (echo.0.to_be_bytes(), forward.0.to_be_bytes());
                if let Some(to) = sample.body.first_chunk_mut() {
                    *to = [e0, e1, f0, f1];
                }
            }
            Parsed::BottleneckEcho(body) => {
                sample.format = Format::Bottleneck as u8;
                sample.missing = body.count();
                sample.hops = 1;
                if let Some(to) = sample.body.first_chunk_mut() {
                    *to = body.0;
                }
            }
            Parsed::StackEcho(body) => {
                sample.format = Format::Stack as u8;
                sample.missing = Missing::UNKNOWN.code();
                sample.hops = body.used;
                let slots = sample.body.chunks_exact_mut(stack::SLOT_LEN);
                for (to, slot) in slots.zip(&body.slots) {
                    to.copy_from_slice(&slot.0);
                }
            }
            _ => return,
        }
        sample.ack = ack;
        self.counters.samples = self.counters.samples.wrapping_add(1);
    }

    /// Bytes of the forward option: what every data segment has to leave room for, since the MSS
    /// derives from it; 0 when telemetry is off.
    #[inline(always)]
    #[must_use]
    pub fn forward_len(&self) -> u8 {
        match Format::from_code(self.head.format) {
            Some(Format::Mpd) => mpd::LEN as u8,
            Some(Format::Bottleneck) => bottleneck::LEN as u8,
            Some(Format::Stack) => {
                stack::len((self.head.slots as usize).min(stack::MAX_SLOTS)) as u8
            }
            None => 0,
        }
    }

    /// Bytes that the option of the segment to be sent next will take; 0 when it needs none.
    ///
    /// A window of packets needs a few samples, not one each: data beyond `interval` bytes after the
    /// last option gets the next one (`seq` is where the segment begins; a retransmission always
    /// does). An echo goes out at once. Until the peer's first option is here every segment has one,
    /// since the peer waits for ours.
    #[inline(always)]
    #[must_use]
    pub fn next_len(&self, payload: bool, seq: u32, interval: u32) -> u8 {
        if !self.head.is_on() {
            return 0;
        }
        let echo = self.echo.format != 0 && self.echo.format == self.head.format;
        let first = self.tagging == 0 || self.counters.options == 0;
        let due = payload && seq.wrapping_sub(self.tagged) >= interval;
        let stack = self.head.format == Format::Stack as u8;
        if echo && stack && (!payload || self.head.turn == 0) {
            return stack::len((self.echo.hops as usize).min(stack::MAX_SLOTS)) as u8;
        }
        if echo || first || due {
            self.forward_len()
        } else {
            0
        }
    }

    /// A data segment that begins at `seq` leaves with an option.
    #[inline(always)]
    pub fn tag(&mut self, seq: u32) {
        self.tagged = seq;
        self.tagging = 1;
    }

    /// The option for a segment that is about to leave, with `room` bytes for it; none when there
    /// is none to be written.
    ///
    /// An mpd option has both directions in it. Of the others a segment carries one: a pure ACK the
    /// echo when there is one; a data segment the forward option, or in turn with it the echo when
    /// there is one.
    #[inline]
    pub fn write(&mut self, payload: bool, room: usize) -> Option<Out> {
        if !self.head.is_on() {
            return None;
        }
        let format = Format::from_code(self.head.format)?;
        let in_turn = format == Format::Mpd || !payload || self.head.turn == 0;
        let echo = self.echo.format == self.head.format && in_turn;
        let out = match format {
            Format::Mpd => Out::new(&mpd::emit(Word::EMPTY, self.echo.mpd())),
            Format::Bottleneck | Format::Stack if echo => self.echo.emit()?,
            Format::Bottleneck => Out::new(&bottleneck::emit_forward()),
            Format::Stack => {
                let (bytes, len) = stack::emit_forward(self.head.slots as usize);
                Out {
                    bytes,
                    len: len as u8,
                }
            }
        };
        if out.len as usize > room {
            self.counters.count(Reason::NO_ROOM);
            return None;
        }
        self.counters.written = self.counters.written.wrapping_add(1);
        if echo {
            self.echo.format = 0;
            self.counters.echoed = self.counters.echoed.wrapping_add(1);
        }
        if payload {
            self.head.turn = u8::from(echo);
        }
        Some(out)
    }
}
