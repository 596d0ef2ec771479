// SPDX-License-Identifier: GPL-2.0
//! What may live in a socket's private area.

use super::bindings;
use core::mem::{align_of, size_of};

/// Data that a congestion control keeps in `icsk_ca_priv`.
///
/// # Safety
///
/// A type may implement this only if
///
/// * all-zero bytes are a valid value that means "not yet initialised": on an active open the kernel
///   calls `cong_control` for the SYN-ACK before `init`, on a zeroed area;
/// * every mix of bytes of two valid values is a valid value: `get_info` reads without the socket
///   lock, while an ACK may be writing. Integers and arrays of them are; a `bool`, an `enum` or a
///   reference is not a mix of two, but one or the other byte, so `bool` and field-less `u8` enums
///   are fine as well;
/// * it has no drop glue (`Fits` checks it): the kernel frees sockets without telling us.
pub unsafe trait Plain: 'static {}

// SAFETY: the unit type has no bytes.
unsafe impl Plain for () {}

// SAFETY (all five): integers alone (see their definitions); zero is "not started".
#[cfg(feature = "hpcc")]
unsafe impl Plain for crate::laws::Hpcc {}
// SAFETY: as above.
#[cfg(feature = "poseidon")]
unsafe impl Plain for crate::laws::Poseidon {}
// SAFETY: as above.
#[cfg(feature = "powertcp")]
unsafe impl Plain for crate::laws::PowerTcp {}
// SAFETY: as above.
#[cfg(feature = "swift")]
unsafe impl Plain for crate::laws::Swift {}
// SAFETY: as above.
#[cfg(feature = "theta_powertcp")]
unsafe impl Plain for crate::laws::ThetaPowerTcp {}

// SAFETY: a law that is plain, and integers beside it; the number of a version that is zero is valid.
unsafe impl<L: Plain> Plain for crate::law_cc::State<L> {}

/// Where the private area is in `struct inet_connection_sock`, and how much fits.
pub(super) const AREA: usize = core::mem::offset_of!(bindings::inet_connection_sock, icsk_ca_priv);
const AREA_SIZE: usize = size_of::<PrivArea>();
const AREA_ALIGN: usize = align_of::<bindings::inet_connection_sock>();

/// The area in words.
pub(super) type PrivArea = [u64; 13];

/// Fails the build when `T` does not fit: too large, or aligned more strictly than the area.
pub(super) struct Fits<T>(core::marker::PhantomData<T>);

impl<T: Plain> Fits<T> {
    pub(super) const CHECK: () = {
        // The field is what the kernel says it is; a change there must fail here.
        let _: fn(&bindings::inet_connection_sock) -> &PrivArea = |s| &s.icsk_ca_priv;
        assert!(!core::mem::needs_drop::<T>(), "state with drop glue");
        assert!(
            size_of::<T>() <= AREA_SIZE,
            "state larger than icsk_ca_priv"
        );
        assert!(
            align_of::<T>() <= AREA_ALIGN && AREA % align_of::<T>() == 0,
            "state over-aligned"
        );
    };
}
