// SPDX-License-Identifier: GPL-2.0
//! A frame as tc and XDP see it: where its TCP header is, whose it is, and the option in it.

use crate::{mapped, FlowKey, SCRATCH};
use wire::option::{find_last, step, Step};
use wire::{parse, Parsed, Reason, MAX_LEN, MAX_OPTIONS};

const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;
const ETH_P_8021Q: u16 = 0x8100;
const ETH_P_8021AD: u16 = 0x88a8;
const TCP: u8 = 6;
/// Where the option is in a SYN of Linux: behind MSS, SACK permitted, timestamps and window scale.
const SYN_AT: usize = 20;

/// Reads bytes of a frame, from its Ethernet header on.
pub trait Frame {
    /// False when they are not all there.
    fn read<const N: usize>(&self, at: u32, to: &mut [u8; N]) -> bool;
    /// The first `LEN` bytes of `to`, which has at least as many.
    fn read_first<const LEN: usize, const N: usize>(&self, at: u32, to: &mut [u8; N]) -> bool;

    /// `len` bytes, a multiple of four and at most 40 and N; the rest is zero. One call per length: a
    /// helper wants a size that the verifier knows, and the compiler would prove away what tells it.
    #[inline(always)]
    fn read_some<const N: usize>(&self, at: u32, len: u32, to: &mut [u8; N]) -> bool {
        match len {
            4 => self.read_first::<4, N>(at, to),
            8 => self.read_first::<8, N>(at, to),
            12 => self.read_first::<12, N>(at, to),
            16 => self.read_first::<16, N>(at, to),
            20 => self.read_first::<20, N>(at, to),
            24 => self.read_first::<24, N>(at, to),
            28 => self.read_first::<28, N>(at, to),
            32 => self.read_first::<32, N>(at, to),
            36 => self.read_first::<36, N>(at, to),
            40 if N >= 40 => self.read_first::<40, N>(at, to),
            _ => false,
        }
    }
}

/// A TCP segment in a frame.
pub struct Segment {
    /// Of the connection, seen from here.
    pub flow: FlowKey,
    /// Is it IPv6?
    pub ipv6: bool,
    /// TTL or hop limit.
    pub ttl: u8,
    /// The acknowledgement number.
    pub ack: u32,
    /// Where the TCP header begins.
    pub tcp: u32,
    /// Bytes of options.
    pub options: u32,
    /// Is it of the handshake?
    pub syn: bool,
    /// Neither SYN nor RST.
    pub established: bool,
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u32 {
    match bytes.get(at..).and_then(<[u8]>::first_chunk::<4>) {
        Some(four) => u32::from_ne_bytes(*four),
        None => 0,
    }
}

/// The TCP segment in a frame: Ethernet with at most one VLAN tag, IPv4 with or without options, IPv6.
#[inline(always)]
pub fn segment<F: Frame>(frame: &F) -> Option<Segment> {
    let mut eth = [0u8; 18];
    if !frame.read(0, &mut eth) {
        return None;
    }
    let (mut ip, mut kind) = (14u32, u16::from_be_bytes([eth[12], eth[13]]));
    if kind == ETH_P_8021Q || kind == ETH_P_8021AD {
        ip = 18;
        kind = u16::from_be_bytes([eth[16], eth[17]]);
    }
    let mut flow = FlowKey::default();
    let (tcp, ttl, ipv6);
    match kind {
        ETH_P_IP => {
            let mut h = [0u8; 20];
            if !frame.read(ip, &mut h) {
                return None;
            }
            let fragment = u16::from_be_bytes([h[6], h[7]]) & 0x3fff;
            let length = u32::from(h[0] & 15) * 4;
            if h[0] >> 4 != 4 || h[9] != TCP || fragment != 0 || length < 20 {
                return None;
            }
            flow.remote = mapped(word(&h, 12));
            flow.local = mapped(word(&h, 16));
            (tcp, ttl, ipv6) = (ip + length, h[8], false);
        }
        ETH_P_IPV6 => {
            let mut h = [0u8; 40];
            if !frame.read(ip, &mut h) || h[6] != TCP {
                return None;
            }
            flow.remote = [word(&h, 8), word(&h, 12), word(&h, 16), word(&h, 20)];
            flow.local = [word(&h, 24), word(&h, 28), word(&h, 32), word(&h, 36)];
            (tcp, ttl, ipv6) = (ip + 40, h[7], true);
        }
        _ => return None,
    }
    let mut h = [0u8; 20];
    if !frame.read(tcp, &mut h) {
        return None;
    }
    flow.remote_port = u16::from_ne_bytes([h[0], h[1]]);
    flow.local_port = u16::from_ne_bytes([h[2], h[3]]);
    let length = u32::from(h[12] >> 4) * 4;
    Some(Segment {
        flow,
        ipv6,
        ttl,
        ack: u32::from_be(word(&h, 8)),
        tcp,
        options: length.checked_sub(20)?,
        syn: h[13] & 2 != 0,
        established: h[13] & 6 == 0,
    })
}

/// Room that would be too much for the stack of XDP, one for each CPU: these programs run with bottom
/// halves off and do not interrupt each other.
#[repr(C)]
pub struct Scratch {
    options: [u8; MAX_OPTIONS],
    bytes: [u8; MAX_LEN],
}

/// The option of a segment: where it is in the frame, its length, and its bytes.
#[inline(always)]
pub fn option<F: Frame>(
    frame: &F,
    segment: &Segment,
) -> Result<(u32, u32, &'static [u8; MAX_LEN]), Reason> {
    let len = segment.options;
    if len == 0 || len > 40 {
        return Err(Reason::ABSENT);
    }
    // SAFETY: of this CPU, and nobody else uses it meanwhile; the value lives as long as the program.
    let Some(scratch) = SCRATCH.get_ptr_mut(0).and_then(|at| unsafe { at.as_mut() }) else {
        return Err(Reason::ABSENT);
    };
    let options = &mut scratch.options;
    if !frame.read_some(segment.tcp + 20, len, options) {
        return Err(Reason::TRUNCATED);
    }
    let found = if segment.syn {
        let head = [options[20], options[21], options[22], options[23]];
        match step(SYN_AT, len as usize, head) {
            Step::Found(found) => found,
            _ => return Err(Reason::ABSENT),
        }
    } else {
        find_last(options, len as usize)?
    };
    let (at, size) = (found.at as u32, found.len as u32);
    if at > 40 || size > MAX_LEN as u32 || size < 4 {
        return Err(Reason::LENGTH);
    }
    if !frame.read_some(segment.tcp + 20 + at, size, &mut scratch.bytes) {
        return Err(Reason::TRUNCATED);
    }
    Ok((segment.tcp + 20 + at, size, &scratch.bytes))
}

/// What the option says.
#[inline(always)]
pub fn parsed(bytes: &[u8; MAX_LEN]) -> Result<Parsed, Reason> {
    parse(bytes)
}
