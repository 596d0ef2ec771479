// SPDX-License-Identifier: GPL-2.0
//! The telemetry that eBPF left in a socket's storage, for the law of that socket.
//!
//! The record is `wire::Storage`; `tcp_int` holds the map that it lives in. Who writes it: sock_ops
//! programs under the socket lock, which callbacks of a congestion control hold too, or a tc program
//! without any lock, which makes `generation` odd meanwhile. So nothing here makes a reference to the
//! part that eBPF writes: it is copied, and the copy is thrown away when the generation moved.
//!
//! C: `storage_helpers.c`, in the module `tcp_int`.

use super::{bindings, sock::Sock};
use crate::{
    laws::HopHistory,
    wire::{
        self,
        storage::{Head, State},
        Format, Sample, Storage,
    },
};
use core::{
    mem::{align_of, offset_of, size_of},
    ptr::NonNull,
    sync::atomic::{fence, Ordering},
};

/// Reads a field of the part that eBPF writes.
macro_rules! get {
    ($record:expr, $($field:tt)+) => {{
        // SAFETY: by the invariant of `Record` the pointer is valid; volatile, as a tc program may be
        // writing. What is torn is thrown away.
        unsafe { core::ptr::read_volatile(&raw const (*$record.data.as_ptr()).head.$($field)+) }
    }};
}

/// The record of one socket, for the time of one callback.
///
/// # Invariants
///
/// `data` points to a live `Storage`: it was found under RCU's read lock, which is held until `drop`.
pub struct Record<'a> {
    sk: &'a Sock<'a>,
    data: NonNull<Storage>,
}

impl Drop for Record<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the lock that `of` took.
        unsafe { bindings::fathom_int_leave() }
    }
}

/// What [`Record::look`] saw.
pub enum Look<const WORDS: usize> {
    /// No sample.
    Nothing,
    /// A sample of this ACK that every hop took part in: the unit of an mpd delay, and as many words of the
    /// body.
    Whole(u8, [u32; WORDS]),
    /// Something else, for [`Record::take`].
    Other,
}

impl<'a> Record<'a> {
    /// The record of a socket, when it has one.
    #[inline]
    pub fn of(sk: &'a Sock<'a>) -> Option<Self> {
        // SAFETY: the socket is live during the callback.
        let data = unsafe { bindings::fathom_int_enter(sk.as_raw()) };
        // INVARIANT: unless null, it is returned with RCU's read lock held.
        Some(Self {
            sk,
            data: NonNull::new(data.cast())?,
        })
    }

    /// Whether there is a sample of this format that the segment with this acknowledgement number brought.
    /// What [`Record::take`] would find, for the most common cases; nothing is taken.
    #[inline(always)]
    pub fn look<const WORDS: usize>(&self, ack: u32, format: Format) -> Look<WORDS> {
        const { assert!(WORDS * 4 <= wire::MAX_BODY) };
        let generation = get!(self, generation);
        // Loads stay in order, as after smp_rmb(), which is a function call in Rust.
        fence(Ordering::Acquire);
        // SAFETY: valid by the invariant, two bytes one after the other, and aligned as asserted below.
        let kind = unsafe {
            core::ptr::read_volatile(
                (&raw const (*self.data.as_ptr()).head.sample.format).cast::<u16>(),
            )
        };
        // Nobody missing is zero.
        if kind != u16::from(format as u8) {
            return if kind.to_le_bytes()[0] == 0 {
                Look::Nothing
            } else {
                Look::Other
            };
        }
        let on =
            get!(self, state) == State::On as u8 && get!(self, version) == wire::storage::VERSION;
        if !on || generation & 1 != 0 || get!(self, sample.ack) != ack || logging() {
            return Look::Other;
        }
        let shift = match format {
            Format::Mpd => get!(self, shift),
            _ => 0,
        };
        // SAFETY: valid by the invariant, within the body, and aligned as asserted below.
        let words = unsafe {
            core::ptr::read_volatile(
                (&raw const (*self.data.as_ptr()).head.sample.body).cast::<[u32; WORDS]>(),
            )
        };
        fence(Ordering::Acquire);
        if get!(self, generation) != generation {
            return Look::Other;
        }
        Look::Whole(shift, words)
    }

    /// The sample is taken.
    #[inline(always)]
    pub fn taken(&mut self) {
        // SAFETY: valid by the invariant; one byte, so eBPF sees the old or the new.
        unsafe {
            let format = &raw mut (*self.data.as_ptr()).head.sample.format;
            core::ptr::write_volatile(format, 0);
        }
    }

    /// The telemetry that the segment with this acknowledgement number brought, fresh, or none, and the
    /// unit of an mpd delay. It is gone afterwards.
    ///
    /// Nearly every ACK comes by here: fields are read one by one, and the body only when it is wanted.
    #[inline(always)]
    pub fn take(&mut self, ack: u32) -> Option<(Sample, u8)> {
        let generation = get!(self, generation);
        // Loads stay in order, as after smp_rmb(), which is a function call in Rust.
        fence(Ordering::Acquire);
        let mut head = Head {
            version: get!(self, version),
            state: get!(self, state),
            shift: get!(self, shift),
            generation,
            sample: Sample {
                ack: get!(self, sample.ack),
                format: get!(self, sample.format),
                missing: get!(self, sample.missing),
                hops: get!(self, sample.hops),
                ..Sample::NONE
            },
            ..Head::ZERO
        };
        let had = head.sample.format;
        let sample = head.take(ack);
        if head.sample.format == had {
            return None; // Nothing there, or not yet for this ACK.
        }
        // SAFETY: valid by the invariant, and aligned as asserted below.
        let body = unsafe {
            core::ptr::read_volatile(
                (&raw const (*self.data.as_ptr()).head.sample.body).cast::<Body>(),
            )
        };
        fence(Ordering::Acquire);
        if get!(self, generation) != generation {
            return None; // Written meanwhile: torn, and of a later segment.
        }
        self.taken();
        let mut sample = sample?;
        for (to, word) in sample.body.chunks_exact_mut(4).zip(body) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        self.log(ack, &sample);
        Some((sample, head.shift))
    }

    /// What the law remembers of the path's hops, and what waits for the next sample.
    #[inline]
    pub fn history(&mut self) -> (&mut HopHistory, &mut wire::Hold) {
        const {
            assert!(size_of::<HopHistory>() <= size_of::<Storage>() - offset_of!(Storage, history));
            assert!(align_of::<HopHistory>() <= align_of::<Storage>());
        }
        // SAFETY: valid by the invariant and aligned as asserted; integers only, so any bytes are a
        // value. Only congestion controls write here, under the socket lock that this context holds,
        // and `&mut self` keeps it to one reference. User space that writes a whole value makes a new
        // one and leaves this to RCU.
        unsafe {
            let data = self.data.as_ptr();
            (&mut *(&raw mut (*data).history).cast(), &mut (*data).hold)
        }
    }

    #[inline]
    fn log(&self, ack: u32, sample: &Sample) {
        if logging() {
            // SAFETY: the socket is live; a sample has the 40 bytes that are copied.
            unsafe {
                bindings::fathom_int_seen(self.sk.as_raw(), ack, (&raw const *sample).cast())
            };
        }
    }
}

/// Does somebody read the log of samples?
#[inline(always)]
fn logging() -> bool {
    // SAFETY: a bool of C that is only ever 0 or 1, written once, whole.
    unsafe { core::ptr::read_volatile(&raw const bindings::fathom_int_logging) }
}

/// The body of a sample in words: a volatile copy of bytes would be one of single bytes.
type Body = [u32; 8];

const _: () = {
    assert!(size_of::<Sample>() == 40);
    assert!(size_of::<Body>() == wire::MAX_BODY);
    assert!(offset_of!(Storage, head.sample.body) % align_of::<Body>() == 0);
    assert!(align_of::<Storage>() >= align_of::<Body>());
    assert!(offset_of!(Storage, head.sample.format) % align_of::<u16>() == 0);
    assert!(offset_of!(Sample, missing) == offset_of!(Sample, format) + 1);
    assert!(wire::mpd::Missing::NONE.code() == 0);
};
