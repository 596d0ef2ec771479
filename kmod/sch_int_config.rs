// SPDX-License-Identifier: GPL-2.0
//! What the administrator sets of a port: netlink attributes (`wire::tc`), their bounds and defaults.

use super::kapi::qdisc::Refusal;
use super::wire::{codel, mpd, rpm, tc, Load, Speed};
use core::{ffi::CStr, num::NonZeroU64};

pub(crate) const NS_PER_S: u64 = 1_000_000_000;
/// The parameters of a port.
#[derive(Clone, Copy)]
pub(crate) struct Config {
    pub(crate) rate: Option<NonZeroU64>,
    pub(crate) delay_ns: u64,
    pub(crate) limit: u32,
    pub(crate) ecn: u32,
    pub(crate) overhead: u32,
    pub(crate) int: bool,
    pub(crate) hop_id: u8,
    pub(crate) shift: u8,
    /// A target of 0 is no CoDel.
    pub(crate) codel: codel::Params,
    pub(crate) rpm: u32,
    pub(crate) log: u32,
    pub(crate) log_from: Option<u64>,
}

impl Config {
    /// No rate, no delay, a buffer of 1 MiB, nothing marked.
    pub(crate) const DEFAULT: Self = Self {
        rate: None,
        delay_ns: 0,
        limit: 1 << 20,
        ecn: 0,
        overhead: 24,
        int: false,
        hop_id: 0,
        shift: mpd::DEFAULT_SHIFT,
        codel: codel::Params {
            target_ns: 0,
            interval_ns: NS_PER_S / 10,
        },
        rpm: 0,
        log: 0,
        log_from: None,
    };

    /// What a byte takes on the link, as [`Load`] counts it; nothing without a rate.
    pub(crate) fn byte_time(&self) -> u32 {
        self.rate.map_or(0, |rate| Load::byte_time(rate.get()))
    }

    /// The rate as packets are told it.
    pub(crate) fn speed(&self) -> Speed {
        let mbps = self.rate.map_or(0, |rate| rate.get() / 125_000);
        Speed::from_mbps(mbps.min(u32::MAX.into()) as u32)
    }

    /// These parameters with what `options` change.
    pub(crate) fn parse(mut self, options: &[u8]) -> Result<Self, Refusal> {
        let mut why = None;
        let whole = tc::parse(options, |kind, value| {
            why = self.set(kind, value).err();
            why.is_none()
        });
        match (why, whole) {
            (Some(why), _) => Err(Refusal::invalid(why)),
            (None, false) => Err(Refusal::invalid(
                c"malformed attributes: each is eight bytes",
            )),
            (None, true) => Ok(self),
        }
    }

    fn set(&mut self, kind: u16, value: u64) -> Result<(), &'static CStr> {
        let (ok, bound) = match kind {
            tc::RATE => {
                self.rate = NonZeroU64::new(value);
                (
                    value == 0 || (tc::MIN_RATE..=tc::MAX_RATE).contains(&value),
                    c"rate must be 0 or from 1000 to 2000000000000 bytes a second",
                )
            }
            tc::DELAY => {
                self.delay_ns = value;
                (
                    value <= tc::MAX_DELAY_NS,
                    c"delay must be at most 10000000000 ns",
                )
            }
            tc::LIMIT => {
                self.limit = value as u32;
                (
                    (1..=tc::MAX_LIMIT).contains(&value),
                    c"limit must be from 1 to 1073741824 bytes",
                )
            }
            tc::ECN => {
                self.ecn = value as u32;
                (
                    value <= tc::MAX_LIMIT,
                    c"ecn must be at most 1073741824 bytes",
                )
            }
            tc::OVERHEAD => {
                self.overhead = value as u32;
                (
                    value <= tc::MAX_OVERHEAD,
                    c"overhead must be at most 10000 bytes",
                )
            }
            tc::INT => {
                self.int = value == 1;
                (value <= 1, c"int must be 0 or 1")
            }
            tc::HOP_ID => {
                self.hop_id = value as u8;
                (value <= 255, c"hop_id must be from 0 to 255")
            }
            tc::SHIFT => {
                self.shift = value as u8;
                (
                    value <= mpd::MAX_SHIFT.into(),
                    c"shift must be from 0 to 15",
                )
            }
            tc::TARGET => {
                self.codel.target_ns = value;
                (
                    value <= tc::MAX_DELAY_NS,
                    c"target must be at most 10000000000 ns",
                )
            }
            tc::INTERVAL => {
                self.codel.interval_ns = value;
                (
                    (1..=codel::MAX_INTERVAL_NS).contains(&value),
                    c"interval must be from 1 to 4000000000 ns",
                )
            }
            tc::RPM => {
                self.rpm = value as u32;
                (
                    value == 0 || rpm::size_is_valid(value),
                    c"rpm must be 0 or a power of two from 16 to 1048576",
                )
            }
            tc::LOG => {
                self.log = value as u32;
                (value <= tc::MAX_LOG, c"log must be at most 1048576 records")
            }
            tc::LOG_FROM => {
                self.log_from = Some(value);
                (true, c"")
            }
            _ => (false, c"unknown attribute"),
        };
        if ok {
            Ok(())
        } else {
            Err(bound)
        }
    }

    /// Calls `put` with each parameter.
    pub(crate) fn dump(&self, mut put: impl FnMut(u16, u64)) {
        for (kind, value) in [
            (tc::RATE, self.rate.map_or(0, NonZeroU64::get)),
            (tc::DELAY, self.delay_ns),
            (tc::LIMIT, self.limit.into()),
            (tc::ECN, self.ecn.into()),
            (tc::OVERHEAD, self.overhead.into()),
            (tc::INT, self.int.into()),
            (tc::HOP_ID, self.hop_id.into()),
            (tc::SHIFT, self.shift.into()),
            (tc::TARGET, self.codel.target_ns),
            (tc::INTERVAL, self.codel.interval_ns),
            (tc::RPM, self.rpm.into()),
            (tc::LOG, self.log.into()),
        ] {
            put(kind, value);
        }
    }
}
