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
    wire::{storage::Head, Storage, Telemetry},
};
use core::{
    mem::{offset_of, size_of},
    ptr::NonNull,
};
use kernel::sync::{barrier::smp_rmb, rcu};

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

    /// The telemetry that the segment with this acknowledgement number brought: fresh, or none. It is
    /// gone afterwards.
    pub fn take(&mut self, ack: u32) -> Option<Telemetry> {
        let mut head = self.head()?;
        let had = head.sample.format;
        let sample = head.take(ack);
        if head.sample.format != had {
            // SAFETY: valid by the invariant; one byte, so eBPF sees the old or the new.
            unsafe {
                let format = &raw mut (*self.data.as_ptr()).head.sample.format;
                core::ptr::write_volatile(format, head.sample.format);
            }
        }
        let sample = sample?;
        self.log(ack, &sample);
        sample.decode(head.shift)
    }

    /// What the law remembers of the path's hops.
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

    /// A copy of what eBPF writes, when nobody wrote meanwhile.
    fn head(&self) -> Option<Head> {
        // SAFETY: valid by the invariant; volatile, as a tc program may be writing.
        let generation = || unsafe {
            core::ptr::read_volatile(&raw const (*self.data.as_ptr()).head.generation)
        };
        let before = generation();
        smp_rmb();
        // SAFETY: valid by the invariant; integers only, and a torn copy is thrown away below.
        let head = unsafe { core::ptr::read_volatile(&raw const (*self.data.as_ptr()).head) };
        smp_rmb();
        (before & 1 == 0 && generation() == before).then_some(head)
    }

    #[inline]
    fn log(&self, ack: u32, sample: &crate::wire::Sample) {
        // SAFETY: a bool of C that is only ever 0 or 1, written once, whole.
        if unsafe { core::ptr::read_volatile(&raw const bindings::fathom_int_logging) } {
            // SAFETY: the socket is live; a sample has the 40 bytes that are copied.
            unsafe {
                bindings::fathom_int_seen(self.sk.as_raw(), ack, (&raw const *sample).cast())
            };
        }
    }
}

const _: () = assert!(size_of::<crate::wire::Sample>() == 40);
