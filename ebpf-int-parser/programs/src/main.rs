// SPDX-License-Identifier: GPL-2.0
//! In-band telemetry between the wire and the socket. What the bytes mean is in `wire/`; here they are
//! fetched and put.
//!
//! * `int_sockops` (cgroup): agrees on a format in the handshake, gives segments their option, and files
//!   what came with a segment in the socket's storage, before TCP processes the segment.
//! * `int_tc` (tc ingress): files instead of it, for who wants no callback per segment.
//! * `int_xdp` (XDP): takes the forward part off before GRO and puts a constant in its place, so that
//!   segments merge as if there were none.
//! * `int_fault` (tc): a path or a peer that does not behave, for tests.
//! * `int_gro` (tc ingress): counts segments and what GRO made of them, for the benchmark.

#![no_std]
#![no_main]
#![feature(core_intrinsics)]
#![allow(internal_features)]

mod fault;
mod packet;
#[allow(dead_code)] // the loader uses the rest
mod settings;
mod sockops;
mod tc;
mod xdp;

use aya_ebpf::{
    bindings::xdp_action,
    btf_maps::{lpm_trie::Key, LpmTrie, LruHashMap, PerCpuArray, SkStorage},
    helpers::generated::bpf_sk_storage_get,
    macros::{btf_map, classifier, sock_ops, xdp},
    programs::{SockOpsContext, TcContext, XdpContext},
};
use core::{ffi::c_void, intrinsics::AtomicOrdering, ptr};
use settings::{Count, FlowKey, Settings};
use wire::{Echo, Storage};

#[no_mangle]
static SETTINGS: Settings = Settings::DEFAULT;

/// The record of every socket; the map that `tcp_int` is given.
#[btf_map]
static STORAGE: SkStorage<Storage> = SkStorage::new();

/// Destinations that telemetry is offered to and taken from.
#[btf_map]
static SCOPE: LpmTrie<[u8; 16], u32, 1024> = LpmTrie::new();

/// What XDP took off and no ACK has brought back yet. Entries are made by sock_ops, so a flood of
/// packets makes none.
#[btf_map]
static FLOWS: LruHashMap<FlowKey, Echo, 65536> = LruHashMap::new();

#[btf_map]
static COUNTS: PerCpuArray<u64, { Count::COUNT }> = PerCpuArray::new();

#[btf_map]
static SCRATCH: PerCpuArray<packet::Scratch, 1> = PerCpuArray::new();

#[inline(always)]
fn settings() -> Settings {
    // SAFETY: the loader may have changed it before loading, hence volatile; nobody does afterwards.
    unsafe { ptr::read_volatile(&raw const SETTINGS) }
}

#[inline(always)]
fn count(what: Count) {
    add(what, 1);
}

#[inline(always)]
fn add(what: Count, n: u64) {
    if let Some(at) = COUNTS.get_ptr_mut(what as u32) {
        // SAFETY: the pointer is to this CPU's slot. Atomic, since a softirq may run the same program
        // in the middle of one in process context.
        unsafe { core::intrinsics::atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(at, n) };
    }
}

/// The record of a socket; made when `create` and there is none.
#[inline(always)]
fn storage<'a>(sk: *mut c_void, create: bool) -> Option<&'a mut Storage> {
    if sk.is_null() {
        return None;
    }
    let map = (&raw const STORAGE).cast_mut().cast();
    // SAFETY: the socket comes from the context of a program, or from a lookup that found it; the
    // helper's answer is null or a value of this map's type, which stays while the program runs.
    unsafe {
        bpf_sk_storage_get(map, sk, ptr::null_mut(), u64::from(create))
            .cast::<Storage>()
            .as_mut()
    }
}

/// Is telemetry wanted with this address?
#[inline(always)]
fn in_scope(address: [u32; 4]) -> bool {
    // SAFETY: plain bytes of the same size.
    let bytes: [u8; 16] = unsafe { core::mem::transmute(address) };
    SCOPE.get(&Key::new(128, bytes)).is_some()
}

/// An IPv4 address as an IPv6 one, both in network order.
#[inline(always)]
fn mapped(ip4: u32) -> [u32; 4] {
    [0, 0, 0xffff_u32.to_be(), ip4]
}

/// Entry point.
#[sock_ops]
pub fn int_sockops(ctx: SockOpsContext) -> u32 {
    sockops::run(&ctx);
    1
}

/// Entry point. Whatever it finds, the packet goes on.
#[classifier]
pub fn int_tc(ctx: TcContext) -> i32 {
    tc::run(&ctx);
    -1 // TCX_NEXT
}

/// Entry point. Whatever it finds, the packet goes on.
#[classifier]
pub fn int_fault(ctx: TcContext) -> i32 {
    fault::run(&ctx);
    -1 // TCX_NEXT
}

/// Counts what arrives, and of how many segments GRO made it.
#[classifier]
pub fn int_gro(ctx: TcContext) -> i32 {
    tc::gro(&ctx);
    -1 // TCX_NEXT
}

/// Entry point. Whatever it finds, the packet goes on.
#[xdp]
pub fn int_xdp(ctx: XdpContext) -> u32 {
    xdp::run(&ctx);
    xdp_action::XDP_PASS
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[no_mangle]
#[link_section = "license"]
static LICENSE: [u8; 4] = *b"GPL\0";
