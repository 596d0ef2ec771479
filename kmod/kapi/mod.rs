// SPDX-License-Identifier: GPL-2.0
//! The one place where the kernel's interfaces are made safe.
//!
//! * [`cong`]: `struct tcp_congestion_ops` as a trait, and its registration.
//! * [`sock`]: typed views of the socket, the rate sample and the ACK that a callback gets.
//! * [`plain`]: what may live in a socket's private area.
//! * [`param`]: module parameters with bounds.
//!
//! All `unsafe` of the project's modules is in this folder, each block with the reason why it holds.
//! A congestion control on top of it has none. Where data flows: the kernel calls a trampoline in
//! [`cong`], which wraps the raw pointers into views and hands them to the trait's safe function.

// Each module uses a part of this folder; what it leaves aside is not compiled into it.
#![allow(dead_code, unreachable_pub)]

pub mod cong;
pub mod param;
pub mod plain;
pub mod sock;

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
