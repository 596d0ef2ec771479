// SPDX-License-Identifier: GPL-2.0
//! tc: a path or a peer that does not behave, for tests and for scenarios with such faults. Changes the
//! option of every packet that passes, and keeps the checksum right.

use crate::packet::{option, segment};
use crate::settings::Fault;
use crate::tc::Skb;
use crate::{count, Count};
use aya_ebpf::{
    helpers::generated::{
        bpf_csum_diff, bpf_get_prandom_u32, bpf_l4_csum_replace, bpf_skb_store_bytes,
    },
    programs::TcContext,
    EbpfContext as _,
};
use wire::{exid, MAX_LEN};

#[no_mangle]
static FAULT: u32 = Fault::None as u32;

const NOP: u8 = 1;

#[inline(always)]
pub fn run(ctx: &TcContext) {
    // SAFETY: the loader may have changed it before loading, hence volatile; nobody does afterwards.
    let fault = unsafe { core::ptr::read_volatile(&raw const FAULT) };
    let skb = Skb(ctx);
    let Some(segment) = segment(&skb) else {
        return;
    };
    let Ok((at, len, old)) = option(&skb, &segment) else {
        return;
    };
    let hello = u16::from_be_bytes([old[2], old[3]]) == exid::HELLO;
    if fault == Fault::StripHello as u32 {
        if !hello {
            return;
        }
    } else if hello && fault != Fault::StripAll as u32 {
        return; // lies are told by who agreed
    }
    let mut new = *old;
    if fault == Fault::StripHello as u32 || fault == Fault::StripAll as u32 {
        new = [NOP; MAX_LEN];
    } else if fault == Fault::AllOnes as u32 {
        new[4..].fill(0xff);
    } else if fault == Fault::Length as u32 {
        // SAFETY: a call without arguments.
        new[1] = unsafe { bpf_get_prandom_u32() } as u8;
    } else {
        // Anything, from the experiment id on or behind it.
        let from = if fault == Fault::Random as u32 { 1 } else { 0 };
        for word in from..MAX_LEN / 4 {
            // SAFETY: as above.
            let random = unsafe { bpf_get_prandom_u32() }.to_ne_bytes();
            new[4 * word + 2 * (1 - from)] = random[0];
            new[4 * word + 1 + 2 * (1 - from)] = random[1];
            if from == 1 {
                new[4 * word + 2] = random[2];
                new[4 * word + 3] = random[3];
            }
        }
    }
    // One call per possible length: the helpers want sizes that the verifier knows.
    match len {
        8 => put::<8>(&skb, segment.tcp, at, old, &new),
        12 => put::<12>(&skb, segment.tcp, at, old, &new),
        16 => put::<16>(&skb, segment.tcp, at, old, &new),
        20 => put::<20>(&skb, segment.tcp, at, old, &new),
        28 => put::<28>(&skb, segment.tcp, at, old, &new),
        36 => put::<36>(&skb, segment.tcp, at, old, &new),
        _ => {}
    }
}

#[inline(always)]
fn put<const N: u32>(skb: &Skb<'_>, tcp: u32, at: u32, old: &[u8; MAX_LEN], new: &[u8; MAX_LEN]) {
    let ctx = skb.0.as_ptr();
    // SAFETY: both arrays have at least N bytes; the packet has them at `at`, where they were read.
    unsafe {
        let change = bpf_csum_diff(
            old.as_ptr().cast_mut().cast(),
            N,
            new.as_ptr().cast_mut().cast(),
            N,
            0,
        );
        if bpf_skb_store_bytes(ctx.cast(), at, new.as_ptr().cast(), N, 0) == 0 {
            bpf_l4_csum_replace(ctx.cast(), tcp + 16, 0, change as u64, 0);
            count(Count::Faults);
        }
    }
}
