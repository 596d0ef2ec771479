// SPDX-License-Identifier: GPL-2.0

//! Every entry point, as a kernel module would compile it: the sources by path, overflow checks on.
//! `--cfg panics` adds a sample that must be found out.
#![no_std]
#![allow(missing_docs)]

#[path = "../../src/lib.rs"]
mod wire;

use wire::*;

#[cfg(panics)]
#[no_mangle]
pub extern "C" fn sample(values: &[u64; 4], index: usize, by: u64) -> u64 {
    values[index] + values[0] / by
}

#[no_mangle]
pub fn entry_find(options: &[u8]) -> Result<Found, Reason> {
    find(options)
}
#[no_mangle]
pub fn entry_parse(bytes: &[u8]) -> Result<Parsed, Reason> {
    parse(bytes)
}
#[no_mangle]
pub fn entry_stamp(hop: &Hop, options: &mut [u8], check: u16) -> u16 {
    hop.stamp(options).map_or(check, |delta| delta.apply(check))
}
#[no_mangle]
pub fn entry_delta(offset: usize, old: &[u8; 7], new: &[u8; 7]) -> Delta {
    Delta::bytes(offset, old, new)
}
#[no_mangle]
pub fn entry_load(load: &mut Load, now_ns: u64, busy_q8: u32) -> (u8, u8) {
    (load.at(now_ns), load.sent(now_ns, busy_q8))
}
#[no_mangle]
pub fn entry_answer(mine: &Hello, syn: &[u8; 8]) -> Option<[u8; 8]> {
    Some(mine.answer(&Hello::parse(syn).ok()?)?.emit())
}
#[no_mangle]
pub fn entry_segment(s: &mut Storage, bytes: &[u8], ack: u32, ttl: Option<u8>) {
    s.segment(parse(bytes), ack, ttl);
}
#[no_mangle]
pub fn entry_take(s: &mut Storage, ack: u32) -> Option<Telemetry> {
    s.head.take(ack)?.decode(s.head.shift)
}
#[no_mangle]
pub fn entry_write(s: &mut Storage, payload: bool, room: usize) -> Option<storage::Out> {
    s.write(payload, room)
}
#[no_mangle]
pub fn entry_out(out: &storage::Out) -> &[u8] {
    out.as_slice()
}
#[no_mangle]
pub fn entry_start(s: &mut Storage, a: &Hello, b: Option<&Hello>, timestamps: bool) -> bool {
    s.offer(a);
    s.accepted(a, timestamps);
    s.answered(a, b, timestamps)
}
#[no_mangle]
pub fn entry_speed(code: u8) -> (u32, u32) {
    (Speed::from_code(code).mbps(), Counters::default().malformed())
}
#[no_mangle]
pub fn entry_codel(c: &mut codel::Codel, p: &codel::Params, l: &codel::Leaving) -> (bool, u32) {
    (c.choose(p, l), c.count())
}
#[no_mangle]
pub fn entry_rpm(slots: &[core::sync::atomic::AtomicI32], flow: &rpm::Flow) -> Option<(bool, bool)> {
    let table = rpm::Table::new(slots)?;
    Some((table.count(flow), table.take(flow) && rpm::may_carry(0, table.pending(flow) as u8)))
}
use wire::storage::Counters;
