// SPDX-License-Identifier: GPL-2.0
//! The telemetry that eBPF left in a socket's storage, for the law of that socket.
//!
//! The record is `wire::Storage`; `tcp_int` holds the map that it lives in. Who writes it: sock_ops
//! programs under the socket lock, which callbacks of a congestion control hold too, or a tc program
//! without any lock, which makes `generation` odd meanwhile. So nothing here makes a reference to the
//! part that eBPF writes: it is copied, and the copy is thrown away when the generation moved.

use super::{bindings, sock::Sock};
use crate::{
    laws::HopHistory,
    wire::{self, storage::Head, Format, Sample, Storage},
};
use core::{
    mem::{align_of, offset_of, size_of},
    ptr::NonNull,
    sync::atomic::{fence, Ordering},
};
use kernel::sync::rcu;

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
/// `data` points to a live `Storage` while `_guard` is held.
pub struct Record<'a> {
    sk: &'a Sock<'a>,
    data: NonNull<Storage>,
    _guard: rcu::Guard,
}

impl<'a> Record<'a> {
    /// The record of a socket, when it has one.
    #[inline]
    pub fn of(sk: &'a Sock<'a>) -> Option<Self> {
        let guard = rcu::read_lock();
        // SAFETY: the socket is live during the callback; the guard is held for as long as the
        // pointer is used.
        let data = unsafe { bindings::fathom_int_storage(sk.as_raw()) };
        Some(Self {
            sk,
            data: NonNull::new(data.cast())?,
            _guard: guard,
        })
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
        let mut body = Body::default();
        // SAFETY: valid by the invariant, and aligned as asserted below.
        unsafe {
            let from = (&raw const (*self.data.as_ptr()).head.sample.body).cast::<Body>();
            if cfg!(feature = "poseidon") && had == Format::Mpd as u8 {
                // There is no more in it than two delays.
                body[0] = core::ptr::read_volatile(from.cast());
            } else {
                body = core::ptr::read_volatile(from);
            }
        }
        fence(Ordering::Acquire);
        if get!(self, generation) != generation {
            return None; // Written meanwhile: torn, and of a later segment.
        }
        // SAFETY: valid by the invariant; one byte, so eBPF sees the old or the new.
        unsafe {
            let format = &raw mut (*self.data.as_ptr()).head.sample.format;
            core::ptr::write_volatile(format, 0);
        }
        let mut sample = sample?;
        for (to, word) in sample.body.chunks_exact_mut(4).zip(body) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        self.log(ack, &sample);
        Some((sample, head.shift))
    }

    /// What waits for the next sample.
    #[inline]
    pub fn hold(&mut self) -> &mut wire::Hold {
        // SAFETY: as in `history`.
        unsafe { &mut (*self.data.as_ptr()).hold }
    }

    /// What the law remembers of the path's hops.
    #[inline]
    pub fn history(&mut self) -> &mut HopHistory {
        const {
            assert!(size_of::<HopHistory>() <= size_of::<Storage>() - offset_of!(Storage, history));
            assert!(align_of::<HopHistory>() <= align_of::<Storage>());
        }
        // SAFETY: valid by the invariant and aligned as asserted; integers only, so any bytes are a
        // value. Only congestion controls write here, under the socket lock that this context holds,
        // and `&mut self` keeps it to one reference. User space that writes a whole value makes a new
        // one and leaves this to RCU.
        unsafe { &mut *(&raw mut (*self.data.as_ptr()).history).cast() }
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
pub fn logging() -> bool {
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
};
