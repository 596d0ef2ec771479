// SPDX-License-Identifier: GPL-2.0

//! Congestion control laws for datacenter TCP: pure, fixed-point, allocation-free.
//!
//! One file per control law, named as its paper names it, over one small trait ([`Law`]). A law
//! turns what an ACK says (a round-trip time, in-band telemetry or its absence) into a congestion
//! window and a pacing rate. It knows nothing of sockets, kernels or simulators: those call it.
//!
//! The same source is compiled twice: as the crate `laws`, and as a module inside each kernel
//! module. Hence the rules of this folder: no `std`, no allocation, no floating point, no `unsafe`,
//! no 128-bit division, nothing that can panic, and paths relative to this file only.
//!
//! Data flows one way: a [`Path`] starts a law, [`Ack`]s and events drive it, [`Law::cwnd`] and
//! [`Law::pacing_rate`] read it.

#![cfg_attr(not(MODULE), no_std)]
#![cfg_attr(MODULE, allow(dead_code, unexpected_cfgs, unused_imports))]
#![forbid(unsafe_code)]

pub mod base_rtt;
pub mod calm;
pub mod derive;
pub mod law;
pub mod math;
pub mod window;

pub use self::calm::{Calm, Ease};
pub use self::law::{Ack, ConfigError, Coverage, HopHistory, Int, Law, Mpd, Path, Record, Wrap};

// A kernel module passes `--cfg feature="single"` and `--cfg feature="<law>"` and gets that law
// alone: an object file keeps every public function, used or not. As a crate it has them all.
#[cfg(any(not(feature = "single"), feature = "powertcp", feature = "hpcc"))]
pub mod hop;
#[cfg(any(not(feature = "single"), feature = "hpcc"))]
pub mod hpcc;
#[cfg(any(not(feature = "single"), feature = "poseidon"))]
pub mod poseidon;
#[cfg(any(not(feature = "single"), feature = "powertcp"))]
pub mod powertcp;
#[cfg(any(not(feature = "single"), feature = "hpcc", feature = "swift"))]
pub mod sampling_frequency;
#[cfg(any(not(feature = "single"), feature = "swift"))]
pub mod swift;
#[cfg(any(
    not(feature = "single"),
    feature = "powertcp",
    feature = "theta_powertcp"
))]
pub mod theta_powertcp;
#[cfg(any(not(feature = "single"), feature = "hpcc", feature = "swift"))]
pub mod variable_ai;

#[cfg(any(not(feature = "single"), feature = "hpcc"))]
pub use self::hpcc::Hpcc;
#[cfg(any(not(feature = "single"), feature = "poseidon"))]
pub use self::poseidon::Poseidon;
#[cfg(any(not(feature = "single"), feature = "powertcp"))]
pub use self::powertcp::PowerTcp;
#[cfg(any(not(feature = "single"), feature = "swift"))]
pub use self::swift::Swift;
#[cfg(any(
    not(feature = "single"),
    feature = "powertcp",
    feature = "theta_powertcp"
))]
pub use self::theta_powertcp::ThetaPowerTcp;

/// The kernel's private area of a congestion control is 104 bytes; the glue around a law needs 8 of
/// them.
pub const MAX_STATE_BYTES: usize = 96;

/// Fails the build when the state of a law outgrows its place in the socket.
macro_rules! assert_state {
    ($state:ty) => {
        const _: () = {
            assert!(core::mem::size_of::<$state>() <= super::MAX_STATE_BYTES);
            assert!(core::mem::align_of::<$state>() <= 8);
        };
    };
}
use assert_state;
