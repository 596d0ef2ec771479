// SPDX-License-Identifier: GPL-2.0
//! The record of decisions that `/dev/fathom_trace` hands out. One branch when nobody has it open.
//!
//! C: `cc_helpers.c`, in the module `fathom_cc`.

use super::{bindings, sock::Sock};
use crate::trace::Rest;

/// Is somebody looking?
#[inline(always)]
pub fn on() -> bool {
    // SAFETY: a bool of C that is only ever 0 or 1, written once, whole.
    unsafe { core::ptr::read_volatile(&raw const bindings::fathom_tracing) }
}

/// Records a decision about `sk`.
pub fn push(sk: &Sock<'_>, rest: &Rest) {
    const { assert!(core::mem::offset_of!(bindings::fathom_decision, rest) == 48) };
    const { assert!(core::mem::size_of::<bindings::fathom_decision>() == 128) };
    // SAFETY: the socket is live; `Rest` is 80 bytes without padding, which is what is copied.
    unsafe { bindings::fathom_trace(sk.as_raw(), (&raw const *rest).cast()) }
}
