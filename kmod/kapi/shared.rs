// SPDX-License-Identifier: GPL-2.0
//! Memory of a queueing discipline: bytes of its own, and counters that the disciplines of one network
//! namespace share.
//!
//! The first discipline that asks for the counters makes them, the last one to go frees them. A discipline lives on
//! a device, which cannot outlive its namespace nor take the discipline to another one, so a namespace that has
//! counters is alive. The list of namespaces is under a mutex and is looked at only when a discipline is set up or
//! goes; packets use the counters without any lock. C does it because the kernel's `Vec` can panic.

use super::bindings;
use super::qdisc::{Namespace, Refusal};
use core::{ptr::NonNull, sync::atomic::AtomicI32};

/// Bytes, zero at first.
///
/// # Invariants
///
/// The pointer is that of `len` bytes which nobody else uses.
pub struct Bytes {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: it owns its bytes.
unsafe impl Send for Bytes {}

impl Bytes {
    /// `len` of them, at least one. May sleep.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(len: usize) -> Result<Self, Refusal> {
        // SAFETY: any length may be asked for.
        let at = unsafe { bindings::fathom_alloc(len) }.cast();
        let at = NonNull::new(at).ok_or(Refusal::no_memory())?;
        // INVARIANT: allocated just now.
        Ok(Self { at, len })
    }
}

impl core::ops::Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: by the type's invariant, and zeroed when they were allocated.
        unsafe { core::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl core::ops::DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is the only one.
        unsafe { core::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: allocated by `fathom_alloc`, and this is their end.
        unsafe { bindings::fathom_free(self.at.as_ptr().cast()) }
    }
}

/// The counters of a namespace; freed with the last of these.
///
/// # Invariants
///
/// The pointer is one that `fathom_shared_get` gave, and is given back once, in `drop`.
pub struct Shared(NonNull<bindings::fathom_shared>);

// SAFETY: the counters are atomic, the rest does not change, and the list of users is under a mutex.
unsafe impl Send for Shared {}

impl Shared {
    /// The `len` counters of the namespace `of`, zero when they are new. May sleep.
    ///
    /// # Errors
    ///
    /// `wrong_len` when there are some already and not that many; no memory.
    pub fn get(of: Namespace, len: u32, wrong_len: Refusal) -> Result<Self, Refusal> {
        let mut other = false;
        // SAFETY: the namespace is a number here; any length may be asked for.
        let shared = unsafe { bindings::fathom_shared_get(of.number(), len, &mut other) };
        match NonNull::new(shared) {
            // INVARIANT: just got.
            Some(shared) => Ok(Self(shared)),
            None if other => Err(wrong_len),
            None => Err(Refusal::no_memory()),
        }
    }

    /// The counters.
    pub fn counters(&self) -> &[AtomicI32] {
        // SAFETY: by the invariant the memory is there, and it holds `len` counters of 32 bits, which all who
        // use them use atomically.
        unsafe {
            let shared = self.0.as_ptr();
            let first: *const AtomicI32 = (&raw const (*shared).counters).cast();
            core::slice::from_raw_parts(first, (*shared).len as usize)
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: by the invariant it is ours to give back.
        unsafe { bindings::fathom_shared_put(self.0.as_ptr()) }
    }
}
