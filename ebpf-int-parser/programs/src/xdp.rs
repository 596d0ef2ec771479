// SPDX-License-Identifier: GPL-2.0
//! XDP: takes the forward part of the option off a packet before GRO sees it, and leaves a constant.
//!
//! GRO merges segments whose options are equal, and hops make them differ. What was taken waits in a map
//! until the next segment leaves for the peer; of mpd the largest, of the others the newest.

use crate::packet::{option, parsed, segment, Frame, Segment};
use crate::{count, settings, Count, FLOWS};
use aya_ebpf::{
    helpers::generated::{bpf_xdp_load_bytes, bpf_xdp_store_bytes},
    programs::XdpContext,
};
use wire::{hop, mpd, stack, Delta, Parsed, HEADER_LEN, MAX_LEN};

struct Buff<'a>(&'a XdpContext);

impl Frame for Buff<'_> {
    #[inline(always)]
    fn read<const N: usize>(&self, at: u32, to: &mut [u8; N]) -> bool {
        // SAFETY: N bytes, as many as the buffer has.
        unsafe { bpf_xdp_load_bytes(self.0.ctx, at, to.as_mut_ptr().cast(), N as u32) == 0 }
    }

    #[inline(always)]
    fn read_first<const LEN: usize, const N: usize>(&self, at: u32, to: &mut [u8; N]) -> bool {
        // SAFETY: LEN bytes, no more than the buffer has.
        LEN <= N
            && unsafe {
                bpf_xdp_load_bytes(self.0.ctx, at, to.as_mut_ptr().cast(), LEN as u32) == 0
            }
    }
}

#[inline(always)]
pub fn run(ctx: &XdpContext) {
    let frame = Buff(ctx);
    let Some(segment) = segment(&frame) else {
        return;
    };
    if !segment.established || segment.options < 8 {
        return;
    }
    let Ok((at, len, bytes)) = option(&frame, &segment) else {
        return;
    };
    let Ok(parsed) = parsed(bytes) else {
        return;
    };
    let Some(taken) = FLOWS.get_ptr_mut(segment.flow) else {
        return;
    };
    let path = hop::path_hops(segment.ttl).saturating_add(settings().extra_hops);
    // SAFETY: a value of the map, which stays while the program runs; see take_from_xdp().
    unsafe { (*taken).merge(&parsed, Some(path)) };
    match parsed {
        Parsed::Mpd(word, _) if word.hops() != 0 => {
            blank::<{ mpd::LEN - 6 }>(&frame, &segment, at, bytes)
        }
        Parsed::Bottleneck(body) if body.count() != 0 => blank::<12>(&frame, &segment, at, bytes),
        Parsed::Stack(body) if body.used != 0 => match len {
            12 => blank::<{ stack::SLOT_LEN }>(&frame, &segment, at, bytes),
            20 => blank::<{ 2 * stack::SLOT_LEN }>(&frame, &segment, at, bytes),
            28 => blank::<{ 3 * stack::SLOT_LEN }>(&frame, &segment, at, bytes),
            36 => blank::<{ 4 * stack::SLOT_LEN }>(&frame, &segment, at, bytes),
            _ => return,
        },
        _ => return,
    }
    count(Count::XdpTaken);
}

/// What a sender writes. Read-only data, not on the stack, of which XDP has 512 bytes.
static ZERO: [u8; MAX_LEN] = [0; MAX_LEN];

/// Sets the `N` bytes after the option's header to zero, and the checksum to what it is then.
#[inline(always)]
fn blank<const N: usize>(frame: &Buff<'_>, segment: &Segment, at: u32, bytes: &[u8; MAX_LEN]) {
    let Some(old) = bytes.get(HEADER_LEN..).and_then(<[u8]>::first_chunk::<N>) else {
        return;
    };
    let mut check = [0u8; 2];
    if !frame.read(segment.tcp + 16, &mut check) {
        return;
    }
    let delta = Delta::bytes(0, old, &[0; N]);
    check = delta.apply(u16::from_be_bytes(check)).to_be_bytes();
    let ctx = frame.0.ctx;
    let zero = (&raw const ZERO).cast_mut().cast();
    // SAFETY: as many bytes as the buffers have, which are only read. Both lie in what was read before.
    unsafe {
        if bpf_xdp_store_bytes(ctx, at + HEADER_LEN as u32, zero, N as u32) == 0 {
            bpf_xdp_store_bytes(ctx, segment.tcp + 16, check.as_mut_ptr().cast(), 2);
        }
    }
}
