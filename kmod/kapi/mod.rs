// SPDX-License-Identifier: GPL-2.0
//! The one place where the kernel's interfaces are made safe.
//!
//! * `cong`: `struct tcp_congestion_ops` as a trait, and its registration.
//! * `sock`: typed views of the socket, the rate sample and the ACK that a callback gets.
//! * `plain`: what may live in a socket's private area.
//! * `param`: module parameters with bounds; `settings`: what they come to, per network namespace.
//! * `trace`: the record of decisions; `common`: the module that keeps it, and device speeds, for all.
//! * `storage`: the telemetry that eBPF left in a socket's storage; `int_map`: the map that it lives in.
//! * `device`: a character device that takes text and gives bytes.
//! * `qdisc`: `struct Qdisc_ops` as a trait, packets, queues, and its registration; `shared`: counters that
//!   the disciplines of a namespace share.
//!
//! All `unsafe` of the project's modules is in this folder, each block with the reason why it holds.
//! A module on top of it has none. Where data flows: the kernel calls a trampoline here, which wraps the
//! raw pointers into views and hands them to the trait's safe function.

// Each module uses a part of this folder: a congestion control the one half (feature "single", see
// laws/src/lib.rs; "telemetry" for one that reads it), a queue ("qdisc"), tcp_int ("int") or
// fathom_cc ("common") another.
#![allow(dead_code, unreachable_pub, unexpected_cfgs)]

#[cfg(feature = "common")]
pub mod common;
#[cfg(feature = "single")]
pub mod cong;
#[cfg(feature = "int")]
pub mod device;
#[cfg(feature = "int")]
pub mod int_map;
#[cfg(feature = "single")]
#[macro_use]
pub mod param;
#[cfg(feature = "single")]
pub mod plain;
#[cfg(feature = "qdisc")]
pub mod qdisc;
#[cfg(feature = "single")]
pub mod settings;
#[cfg(feature = "qdisc")]
pub mod shared;
#[cfg(feature = "single")]
pub mod sock;
#[cfg(feature = "telemetry")]
pub mod storage;
#[cfg(feature = "single")]
pub mod trace;

/// Bindings of `net/tcp.h`, made by bindgen at build time (see `kmod/Kbuild`).
#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]
mod bindings {
    include!(env!("FATHOM_BINDINGS"));
}
