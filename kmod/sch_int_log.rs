// SPDX-License-Identifier: GPL-2.0
//! The log of stamped packets: a ring of the last ones, for tests to compare with what a sender saw.

use super::kapi::{qdisc::Refusal, shared::Bytes};
use super::wire::tc::{Record, LOG_CHUNK};

/// The last records, and how many there were in all.
pub(crate) struct Log {
    ring: Bytes,
    len: u32,
    /// The place of the next one.
    next: u32,
    written: u64,
}

/// Where a record stands. Both factors are below 2^21.
fn place(record: u32) -> usize {
    (record as usize).wrapping_mul(Record::LEN)
}

impl Log {
    /// Room for `len` records; none for 0. May sleep.
    pub(crate) fn new(len: u32) -> Result<Option<Self>, Refusal> {
        if len == 0 {
            return Ok(None);
        }
        Ok(Some(Self {
            ring: Bytes::new(place(len))?,
            len,
            next: 0,
            written: 0,
        }))
    }

    /// Adds one; the oldest gives way.
    pub(crate) fn push(&mut self, record: &Record) {
        let to = self.ring.get_mut(place(self.next)..);
        if let Some(to) = to.and_then(|to| to.get_mut(..Record::LEN)) {
            to.copy_from_slice(&record.encode());
        }
        self.next = match self.next.wrapping_add(1) {
            end if end >= self.len => 0,
            next => next,
        };
        self.written = self.written.wrapping_add(1);
    }

    /// How many were ever added.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Records from number `from` on, or from the oldest that is kept: the first one's number, and as
    /// many as an answer holds and as lie beside each other.
    pub(crate) fn read(&self, from: u64) -> (u64, &[u8]) {
        let kept = self.written.min(self.len.into());
        let oldest = self.written.wrapping_sub(kept);
        let first = from.clamp(oldest, self.written);
        // How far back from the newest: at most `len`, so it fits.
        let back = self.written.wrapping_sub(first) as u32;
        let start = if back <= self.next {
            self.next.wrapping_sub(back)
        } else {
            self.next.wrapping_add(self.len).wrapping_sub(back)
        };
        let most = place(back.min(LOG_CHUNK as u32));
        let records = self.ring.get(place(start)..).unwrap_or(&[]);
        (first, records.get(..most).unwrap_or(records))
    }
}
