// SPDX-License-Identifier: GPL-2.0
//! tc ingress: finds the socket of a packet and files its telemetry, without the socket's lock.

use crate::packet::{option, parsed, segment, Frame};
use crate::{add, count, settings, storage, Count};
use aya_ebpf::{
    bindings::bpf_sock_tuple,
    helpers::generated::{bpf_sk_lookup_tcp, bpf_sk_release, bpf_skb_load_bytes},
    programs::TcContext,
    EbpfContext as _,
};
use core::mem::size_of;
use core::sync::atomic::{compiler_fence, Ordering};
use wire::Reason;

/// A packet in tc.
pub struct Skb<'a>(pub &'a TcContext);

impl Frame for Skb<'_> {
    #[inline(always)]
    fn read<const N: usize>(&self, at: u32, to: &mut [u8; N]) -> bool {
        // SAFETY: N bytes, as many as the buffer has.
        unsafe { bpf_skb_load_bytes(self.0.as_ptr(), at, to.as_mut_ptr().cast(), N as u32) == 0 }
    }

    #[inline(always)]
    fn read_first<const LEN: usize, const N: usize>(&self, at: u32, to: &mut [u8; N]) -> bool {
        // SAFETY: LEN bytes, no more than the buffer has.
        LEN <= N
            && unsafe {
                bpf_skb_load_bytes(self.0.as_ptr(), at, to.as_mut_ptr().cast(), LEN as u32) == 0
            }
    }
}

/// What a lookup takes: source and destination of the packet.
#[repr(C)]
#[derive(Default)]
struct Tuple {
    source: [u32; 4],
    destination: [u32; 4],
    source_port: u16,
    destination_port: u16,
}

#[repr(C)]
#[derive(Default)]
struct Tuple4 {
    source: u32,
    destination: u32,
    source_port: u16,
    destination_port: u16,
}

#[inline(always)]
pub fn run(ctx: &TcContext) {
    if settings().tc_feeds == 0 {
        return;
    }
    let skb = Skb(ctx);
    let Some(segment) = segment(&skb) else {
        return;
    };
    if !segment.established {
        return;
    }
    let found = match option(&skb, &segment) {
        Ok((_, _, bytes)) => parsed(bytes),
        Err(reason) => Err(reason),
    };
    // A segment without the option needs no lookup: a sample is only ever given to the ACK it came with.
    if found == Err(Reason::ABSENT) {
        return;
    }
    let flow = &segment.flow;
    let mut tuple4 = Tuple4 {
        source: flow.remote[3],
        destination: flow.local[3],
        source_port: flow.remote_port,
        destination_port: flow.local_port,
    };
    let mut tuple6 = Tuple {
        source: flow.remote,
        destination: flow.local,
        source_port: flow.remote_port,
        destination_port: flow.local_port,
    };
    let (at, size): (*mut bpf_sock_tuple, usize) = if segment.ipv6 {
        ((&raw mut tuple6).cast(), size_of::<Tuple>())
    } else {
        ((&raw mut tuple4).cast(), size_of::<Tuple4>())
    };
    // SAFETY: `at` has `size` bytes. Negative = the namespace of the device.
    let sk = unsafe { bpf_sk_lookup_tcp(ctx.as_ptr(), at, size as u32, u64::MAX, 0) };
    if sk.is_null() {
        return;
    }
    if let Some(record) = storage(sk.cast(), false) {
        // Odd while we write: the module then takes nothing. The barriers keep the compiler from
        // moving the writes out; x86 keeps their order, elsewhere a torn sample is caught by its key.
        let generation = record.head.generation;
        record.head.generation = generation | 1;
        compiler_fence(Ordering::SeqCst);
        record.segment(found, segment.ack, Some(segment.ttl));
        compiler_fence(Ordering::SeqCst);
        record.head.generation = (generation | 1).wrapping_add(1);
        count(Count::TcTaken);
        if found.is_err() {
            count(Count::Malformed);
        }
    }
    // SAFETY: what the lookup gave is given back, once.
    unsafe { bpf_sk_release(sk.cast()) };
}

#[inline(always)]
pub fn gro(ctx: &TcContext) {
    // SAFETY: fields of the context.
    let (len, segments) = unsafe { ((*ctx.skb.skb).len, (*ctx.skb.skb).gso_segs) };
    if len < 1000 {
        return; // an ACK
    }
    count(Count::Skbs);
    add(Count::Segments, u64::from(segments.max(1)));
}
