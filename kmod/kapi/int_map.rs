// SPDX-License-Identifier: GPL-2.0
//! The socket-storage map that `tcp_int` holds, and the log of samples that laws took from it.
//!
//! C headers: `include/linux/bpf.h`, `include/linux/bpf_local_storage.h`.

use super::bindings;
use crate::wire::{bind::Seen, Storage};
use core::mem::size_of;
use kernel::{error::to_result, prelude::*};

/// May the calling process change the binding? `CAP_NET_ADMIN` in the first user namespace: the map
/// serves the sockets of all network namespaces.
pub fn may_bind() -> bool {
    // SAFETY: called in the context of a process, by its open().
    unsafe { bindings::fathom_may_bind() }
}

/// Takes the map behind `fd` of the calling process; its id. With `replace` in place of another.
///
/// # Errors
///
/// `EBADF` or what `bpf_map_get()` says, `EMEDIUMTYPE` when it is no SK_STORAGE, `EPROTO` when its value is
/// not a [`Storage`], `EBUSY` when there is a map already.
pub fn bind(fd: i32, replace: bool) -> Result<isize> {
    // SAFETY: called in the context of a process; every fd number is fine, a wrong one is an error.
    let id = unsafe { bindings::fathom_map_bind(fd, size_of::<Storage>() as u32, replace) };
    to_result(id)?;
    Ok(id as isize)
}

/// Lets go of the map. When this returns, no law looks into it any more.
///
/// # Errors
///
/// `ENOENT` when there is none.
pub fn unbind() -> Result {
    // SAFETY: may sleep, and so may its callers: an ioctl and the module's end.
    to_result(unsafe { bindings::fathom_map_unbind() })
}

/// The id of the map; 0 = none.
pub fn id() -> u32 {
    // SAFETY: no condition.
    unsafe { bindings::fathom_map_id() }
}

/// Makes room for `records` log records, a power of two, and begins to log; 0 ends it.
///
/// # Errors
///
/// `ENOMEM`, or `EINVAL` for a number that is no power of two.
pub fn log(records: u32) -> Result {
    if records != 0 && !(records.is_power_of_two() && (2..=Seen::MOST).contains(&records)) {
        return Err(EINVAL);
    }
    // SAFETY: may sleep, as its callers may.
    to_result(unsafe { bindings::fathom_log_size(records) })
}

/// Samples that found the log full since it was begun.
pub fn lost() -> u32 {
    // SAFETY: no condition.
    unsafe { bindings::fathom_log_lost() }
}

/// The oldest records of the log, which are gone from it then; how many.
pub fn read_log(to: &mut [[u8; Seen::LEN]]) -> usize {
    const { assert!(size_of::<bindings::fathom_seen>() == Seen::LEN) };
    let most = u32::try_from(to.len()).unwrap_or(u32::MAX);
    // SAFETY: `to` has room for `most` records of this size; the copy is bytewise and asks for no
    // alignment.
    unsafe { bindings::fathom_log_read(to.as_mut_ptr().cast(), most) as usize }
}
