// SPDX-License-Identifier: GPL-2.0
//! sock_ops: the handshake, the option on what leaves, and the record of what comes.
//!
//! TCP calls at these moments (and only where a flag of the socket asks for it, so that a connection
//! without telemetry costs nothing after its handshake):
//!
//! | moment | here |
//! |---|---|
//! | connect, listen | ask to be called for the handshake |
//! | how long will the options be | once for the MSS, always the same; then for each segment |
//! | write the options | from the record |
//! | parse the options | into the record. Segments on TCP's fast path have none and are not shown |
//! | established | was the offer answered, and what is agreed |

use crate::{count, in_scope, mapped, settings, storage, Count, FlowKey, FLOWS};
use aya_ebpf::{
    bindings::{
        BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB, BPF_SOCK_OPS_HDR_OPT_LEN_CB,
        BPF_SOCK_OPS_PARSE_ALL_HDR_OPT_CB_FLAG, BPF_SOCK_OPS_PARSE_HDR_OPT_CB,
        BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB, BPF_SOCK_OPS_TCP_CONNECT_CB,
        BPF_SOCK_OPS_TCP_LISTEN_CB, BPF_SOCK_OPS_WRITE_HDR_OPT_CB,
        BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG,
    },
    helpers::generated::{
        bpf_getsockopt, bpf_load_hdr_opt, bpf_reserve_hdr_opt, bpf_setsockopt, bpf_store_hdr_opt,
    },
    programs::SockOpsContext,
};
use core::ffi::c_void;
use wire::{exid, hello, parse, Format, Hello, Parsed, Reason, Storage, KIND, MAX_LEN};

const AF_INET: u32 = 2;
const SOL_TCP: i32 = 6;
const TCP_SAVE_SYN: i32 = 27;
const TCP_BPF_SYN_IP: i32 = 1006;
const TCPHDR_SYN: u32 = 2;
const TCPHDR_ACK: u32 = 16;
const TCPOPT_TIMESTAMP: u8 = 8;
const LOAD_SYN: u64 = 1;
const CURRENT_MSS: u32 = 1;
const SYNACK_COOKIE: u32 = 2;
/// A path on which two SYNs with the hello were lost gets the third without.
const SYNS_WITH_HELLO: u32 = 2;

/// A field of the context.
macro_rules! get {
    ($ctx:expr, $($field:tt)+) => {{
        // SAFETY: the verifier turns this into a read of what the field stands for. Volatile: once,
        // and where it stands.
        unsafe { core::ptr::read_volatile(&raw const (*$ctx.ops).$($field)+) }
    }};
}

#[inline(always)]
pub fn run(ctx: &SockOpsContext) {
    match get!(ctx, op) {
        BPF_SOCK_OPS_HDR_OPT_LEN_CB => reserve(ctx),
        BPF_SOCK_OPS_WRITE_HDR_OPT_CB => write(ctx),
        BPF_SOCK_OPS_PARSE_HDR_OPT_CB => read(ctx),
        BPF_SOCK_OPS_TCP_CONNECT_CB => connect(ctx),
        BPF_SOCK_OPS_TCP_LISTEN_CB => listen(ctx),
        BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB => connected(ctx),
        BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB => accepted(ctx),
        _ => {}
    }
}

#[inline(always)]
fn record<'a>(ctx: &SockOpsContext, create: bool) -> Option<&'a mut Storage> {
    storage(get!(ctx, __bindgen_anon_2.sk).cast(), create)
}

/// What this host says of itself.
#[inline(always)]
fn mine() -> Hello {
    let s = settings();
    let wants = Format::from_code(s.wants).unwrap_or(Format::Mpd);
    Hello::new(wants, s.takes, s.shift)
}

/// One of two addresses. Both are read beforehand, whatever the family: a branch with a read on either
/// side becomes one read at a computed address, which the verifier refuses.
#[inline(always)]
fn choose(ctx: &SockOpsContext, ip4: u32, ip6: [u32; 4]) -> [u32; 4] {
    if get!(ctx, family) == AF_INET {
        mapped(ip4)
    } else {
        ip6
    }
}

#[inline(always)]
fn remote(ctx: &SockOpsContext) -> [u32; 4] {
    let ip4 = get!(ctx, remote_ip4);
    let ip6 = [
        get!(ctx, remote_ip6[0]),
        get!(ctx, remote_ip6[1]),
        get!(ctx, remote_ip6[2]),
        get!(ctx, remote_ip6[3]),
    ];
    choose(ctx, ip4, ip6)
}

#[inline(always)]
fn local(ctx: &SockOpsContext) -> [u32; 4] {
    let ip4 = get!(ctx, local_ip4);
    let ip6 = [
        get!(ctx, local_ip6[0]),
        get!(ctx, local_ip6[1]),
        get!(ctx, local_ip6[2]),
        get!(ctx, local_ip6[3]),
    ];
    choose(ctx, ip4, ip6)
}

#[inline(always)]
fn flow(ctx: &SockOpsContext) -> FlowKey {
    FlowKey {
        remote: remote(ctx),
        local: local(ctx),
        // The high half of a word in network order, and a number in host order.
        remote_port: (get!(ctx, remote_port) >> 16) as u16,
        local_port: (get!(ctx, local_port) as u16).to_be(),
    }
}

/// Asks TCP to call for this socket's segments, or no more.
#[inline(always)]
fn call_for(ctx: &SockOpsContext, writing: bool, parsing: bool) {
    let all = BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG | BPF_SOCK_OPS_PARSE_ALL_HDR_OPT_CB_FLAG;
    let mut flags = get!(ctx, bpf_sock_ops_cb_flags) & !all;
    if writing {
        flags |= BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG;
    }
    if parsing && settings().tc_feeds == 0 {
        flags |= BPF_SOCK_OPS_PARSE_ALL_HDR_OPT_CB_FLAG;
    }
    let _ = ctx.set_cb_flags(flags as i32);
}

/// An option of the segment at hand, or of the SYN (`LOAD_SYN`), into the first `N` bytes; its length.
#[inline(always)]
fn load<const N: usize>(ctx: &SockOpsContext, search: [u8; 4], flags: u64) -> ([u8; N], i64) {
    let mut bytes = [0; N];
    let [a, b, c, d] = search;
    if let Some(head) = bytes.first_chunk_mut() {
        *head = [a, b, c, d];
    }
    // SAFETY: the buffer has N bytes; the helper writes no more.
    let len = unsafe { bpf_load_hdr_opt(ctx.ops, bytes.as_mut_ptr().cast(), N as u32, flags) };
    (bytes, len)
}

#[inline(always)]
fn search(id: u16) -> [u8; 4] {
    let [high, low] = id.to_be_bytes();
    [KIND, 4, high, low]
}

#[inline(always)]
fn load_hello(ctx: &SockOpsContext, flags: u64) -> Option<Hello> {
    let (bytes, len) = load::<{ hello::LEN }>(ctx, search(exid::HELLO), flags);
    if len != hello::LEN as i64 {
        return None;
    }
    Hello::parse(&bytes).ok()
}

#[inline(always)]
fn has_timestamps(ctx: &SockOpsContext, flags: u64) -> bool {
    let (_, len) = load::<12>(ctx, [TCPOPT_TIMESTAMP, 0, 0, 0], flags);
    len > 0
}

/// What a listener answers to the SYN at hand.
#[inline(always)]
fn answer(ctx: &SockOpsContext) -> Option<Hello> {
    let syn = load_hello(ctx, LOAD_SYN)?;
    if !in_scope(remote(ctx)) {
        count(Count::OutOfScope);
        return None;
    }
    let mut answer = mine().answer(&syn)?;
    let mut ip = [0u8; 20];
    // SAFETY: the buffer has 20 bytes. That the header is longer is an error that leaves it filled.
    unsafe {
        let to: *mut c_void = ip.as_mut_ptr().cast();
        bpf_getsockopt(ctx.ops.cast(), SOL_TCP, TCP_BPF_SYN_IP, to, 20);
    }
    let ttl = match ip[0] >> 4 {
        4 => ip[8],
        6 => ip[7],
        _ => 0,
    };
    if ttl != 0 {
        answer = answer.seen(ttl);
    }
    Some(answer)
}

#[inline(always)]
fn put<const N: usize>(ctx: &SockOpsContext, bytes: &[u8; N], len: usize) -> bool {
    // SAFETY: at most N bytes are read.
    unsafe { bpf_store_hdr_opt(ctx.ops, bytes.as_ptr().cast(), len.min(N) as u32, 0) == 0 }
}

#[inline(always)]
fn connect(ctx: &SockOpsContext) {
    if !in_scope(remote(ctx)) {
        count(Count::OutOfScope);
        return;
    }
    let Some(record) = record(ctx, true) else {
        count(Count::NoStorage);
        return;
    };
    record.offer(&mine());
    count(Count::Offered);
    call_for(ctx, true, false);
}

#[inline(always)]
fn listen(ctx: &SockOpsContext) {
    let mut on = 1u32;
    // The SYN is wanted again when its connection is established.
    // SAFETY: four bytes, as the option takes.
    unsafe {
        bpf_setsockopt(
            ctx.ops.cast(),
            SOL_TCP,
            TCP_SAVE_SYN,
            (&raw mut on).cast(),
            4,
        )
    };
    call_for(ctx, true, false);
}

#[inline(always)]
fn begin(ctx: &SockOpsContext, record: &mut Storage) {
    count(Count::Agreed);
    let settings = settings();
    record.head.extra_hops = settings.extra_hops;
    if settings.xdp != 0 {
        let _ = FLOWS.insert(flow(ctx), wire::Echo::default(), 0);
    }
    call_for(ctx, true, true);
}

#[inline(always)]
fn connected(ctx: &SockOpsContext) {
    let Some(record) = record(ctx, false) else {
        return;
    };
    let answer = load_hello(ctx, 0);
    let timestamps = has_timestamps(ctx, 0);
    if record.answered(&mine(), answer.as_ref(), timestamps) {
        begin(ctx, record);
    } else {
        count(Count::Unanswered);
        call_for(ctx, false, false);
    }
}

#[inline(always)]
fn accepted(ctx: &SockOpsContext) {
    let Some(answer) = answer(ctx) else {
        // The flags came with the listener.
        call_for(ctx, false, false);
        return;
    };
    let timestamps = has_timestamps(ctx, LOAD_SYN);
    let Some(record) = record(ctx, true) else {
        count(Count::NoStorage);
        call_for(ctx, false, false);
        return;
    };
    record.accepted(&answer, timestamps);
    count(Count::Answered);
    begin(ctx, record);
}

#[inline(always)]
fn room(ctx: &SockOpsContext, len: u8) {
    if len == 0 {
        return;
    }
    // SAFETY: a call with numbers.
    if unsafe { bpf_reserve_hdr_opt(ctx.ops, u32::from(len), 0) } != 0 {
        count(Count::NoRoom);
    }
}

#[inline(always)]
fn reserve(ctx: &SockOpsContext) {
    let flags = get!(ctx, skb_tcp_flags);
    let kind = get!(ctx, __bindgen_anon_1.args[0]);
    if flags & TCPHDR_SYN != 0 {
        let wanted = if flags & TCPHDR_ACK == 0 {
            get!(ctx, total_retrans) < SYNS_WITH_HELLO && record(ctx, false).is_some()
        } else {
            kind != SYNACK_COOKIE && answer(ctx).is_some()
        };
        if wanted {
            room(ctx, hello::LEN as u8);
        }
        return;
    }
    let Some(record) = record(ctx, false) else {
        return;
    };
    if kind == CURRENT_MSS {
        return room(ctx, record.forward_len());
    }
    let settings = settings();
    if settings.xdp != 0 {
        take_from_xdp(ctx, record);
    }
    let payload = get!(ctx, skb_len) != 0;
    let window = u64::from(get!(ctx, snd_cwnd)) * u64::from(get!(ctx, mss_cache));
    let interval = (window >> (settings.per_window_shift & 31)) as u32;
    record.payload = u8::from(payload);
    let len = record.next_len(payload, get!(ctx, snd_nxt), interval);
    room(ctx, len);
}

/// What XDP took off since the last segment left.
#[inline(always)]
fn take_from_xdp(ctx: &SockOpsContext, record: &mut Storage) {
    let Some(taken) = FLOWS.get_ptr_mut(flow(ctx)) else {
        return;
    };
    // SAFETY: a value of the map, which stays while the program runs. XDP may be writing to it on
    // another CPU: then a sample is lost or comes later, as it would with its packet.
    unsafe {
        if (*taken).format != 0 {
            let echo = *taken;
            (*taken).format = 0;
            record.echo = echo;
        }
    }
}

#[inline(always)]
fn write(ctx: &SockOpsContext) {
    let flags = get!(ctx, skb_tcp_flags);
    if flags & TCPHDR_SYN != 0 {
        let hello = if flags & TCPHDR_ACK == 0 {
            Some(mine())
        } else {
            answer(ctx)
        };
        if let Some(hello) = hello {
            put(ctx, &hello.emit(), hello::LEN);
        }
        return;
    }
    let Some(record) = record(ctx, false) else {
        return;
    };
    let payload = record.payload != 0;
    let Some(out) = record.write(payload, MAX_LEN) else {
        return;
    };
    if put(ctx, &out.bytes, out.len as usize) && payload {
        record.tag(get!(ctx, snd_nxt));
    } else {
        record.tagging = 1;
    }
}

#[inline(always)]
fn read(ctx: &SockOpsContext) {
    let Some(record) = record(ctx, false) else {
        return;
    };
    let data = get!(ctx, __bindgen_anon_3.skb_data) as usize;
    let end = get!(ctx, __bindgen_anon_4.skb_data_end) as usize;
    if data + 20 > end {
        return;
    }
    let header = data as *const u8;
    // SAFETY: 20 bytes are there, as just compared.
    let (ack, offset) = unsafe {
        (
            u32::from_be(*header.add(8).cast::<u32>()),
            *header.add(12) >> 4,
        )
    };
    let payload = get!(ctx, skb_len) > u32::from(offset) * 4;
    let parsed = option(ctx, record.head.format, payload);
    if let Err(reason) = parsed {
        if reason != Reason::ABSENT {
            count(Count::Malformed);
        }
    }
    record.segment(parsed, ack, None);
}

/// The option of the segment at hand.
#[inline(always)]
fn option(ctx: &SockOpsContext, format: u8, payload: bool) -> Result<Parsed, Reason> {
    let (first, second) = match Format::from_code(format) {
        Some(Format::Mpd) => (exid::MPD, 0),
        Some(Format::Bottleneck) if payload => (exid::BOTTLENECK, exid::BOTTLENECK_ECHO),
        Some(Format::Bottleneck) => (exid::BOTTLENECK_ECHO, exid::BOTTLENECK),
        Some(Format::Stack) if payload => (exid::STACK, exid::STACK_ECHO),
        Some(Format::Stack) => (exid::STACK_ECHO, exid::STACK),
        None => return Err(Reason::ABSENT),
    };
    let (mut bytes, mut len) = load::<MAX_LEN>(ctx, search(first), 0);
    if len < 0 && second != 0 {
        (bytes, len) = load::<MAX_LEN>(ctx, search(second), 0);
    }
    match len {
        4.. => parse(&bytes),
        NO_SPACE => Err(Reason::LENGTH),
        _ => Err(Reason::ABSENT),
    }
}

/// `-ENOSPC`: there is one, longer than any of ours.
const NO_SPACE: i64 = -28;
