// SPDX-License-Identifier: GPL-2.0
//! From the telemetry of an ACK, in the units of `wire/`, to what a law takes it for.
//!
//! It passes on what is fit to be believed and nothing else: a bottleneck record of a path on which some
//! hop did not write may not be the bottleneck's, and a law that trusts it would fill the queue it cannot
//! see. Such a path counts as one without telemetry. The maximum per-hop delay says itself how much of the
//! path it covers, and Poseidon has an answer for either.

// Poseidon uses one half, the others the other.
#![allow(dead_code, unused_imports)]

use crate::{
    laws::{law::MAX_HOPS, Coverage, Int, Mpd, Record, Wrap},
    wire::{bottleneck, mpd::Missing, speed, stack, Sample, Telemetry},
};

/// Time per byte of every speed that the formats can name.
const INVERSE_RATES: [u32; speed::MBPS.len()] = {
    let mut rates = [0; speed::MBPS.len()];
    let mut code = 0;
    while code < rates.len() {
        rates[code] = Record::inverse_rate(speed::MBPS[code]);
        code += 1;
    }
    rates
};

/// Where the counters of a stack wrap.
const STACK: Wrap = Wrap {
    tx_mask: stack::TX_MASK,
    ts_mask: stack::TS_MASK,
};

// One definition on each side of this file; here they meet.
const _: () = {
    assert!(Wrap::BOTTLENECK.tx_mask == bottleneck::TX_MASK);
    assert!(Wrap::BOTTLENECK.ts_mask == bottleneck::TS_MASK);
    assert!(stack::MAX_SLOTS <= MAX_HOPS);
};

/// The records of a stack.
pub(crate) type Records = [Record; stack::MAX_SLOTS];

/// The maximum per-hop delay; `shift` is the power of two of ns that is its unit.
#[inline(always)]
pub(crate) fn mpd(sample: &Sample, shift: u8) -> Int<'static> {
    let Some(Telemetry::Mpd {
        forward_ns,
        backward_ns,
        missing,
    }) = sample.decode(shift)
    else {
        return Int::None;
    };
    let coverage = if missing.is_full() {
        Coverage::Full
    } else {
        Coverage::Partial
    };
    Int::Mpd(Mpd {
        forward_ns,
        backward_ns,
        coverage,
    })
}

/// The record of the most congested hop, when all hops took part.
///
/// This and [`stack`] say what `Sample::decode` says, for one format: it knows three, and a law whose
/// connections have another pays for none of its code.
#[inline(always)]
pub(crate) fn bottleneck(sample: &Sample) -> Int<'static> {
    match sample.body.first_chunk() {
        Some(body) if Missing::from_code(sample.missing).is_full() => {
            Int::Bottleneck(record(&bottleneck::Body(*body).record()))
        }
        _ => Int::None,
    }
}

/// The records of a stack, and how many there are.
#[inline(never)]
pub(crate) fn stack(sample: &Sample) -> (Records, usize) {
    let mut records = Records::default();
    let slots = sample.body.chunks_exact(stack::SLOT_LEN);
    for (to, from) in records.iter_mut().zip(slots) {
        *to = slot(from);
    }
    (records, usize::from(sample.hops))
}

#[inline(never)]
fn slot(bytes: &[u8]) -> Record {
    match bytes.first_chunk() {
        Some(slot) => record(&stack::Slot(*slot).record()),
        None => Record::default(),
    }
}

/// As the law takes them.
pub(crate) fn path(records: &Records, used: usize) -> Int<'_> {
    match records.get(..used) {
        Some(path) if !path.is_empty() => Int::Stack(path, STACK),
        _ => Int::None,
    }
}

#[inline]
fn record(hop: &bottleneck::Record) -> Record {
    Record {
        qlen_bytes: hop.qlen_bytes,
        tx_bytes: hop.tx_bytes,
        ts_ns: hop.ts_ns,
        inverse_rate: INVERSE_RATES
            .get(usize::from(hop.speed.code()))
            .copied()
            .unwrap_or(0),
        hop_id: hop.hop_id.into(),
    }
}
