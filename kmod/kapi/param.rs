// SPDX-License-Identifier: GPL-2.0
//! Module parameters with bounds.
//!
//! `module!` parses integers; what a value may be is said here and in the laws, once, and a value
//! outside is refused when the module is loaded, with a line in the kernel log that names the
//! parameter, the value and the bounds.

use crate::laws::{ConfigError, Law};
use kernel::prelude::*;

fn refuse(e: ConfigError) -> Error {
    pr_err!(
        "parameter {}={} is out of range, expected {} to {}\n",
        e.field,
        e.value,
        e.min,
        e.max
    );
    EINVAL
}

/// The law's own parameters, checked.
///
/// # Errors
///
/// `EINVAL` when one is out of bounds; the log says which.
pub fn law<L: Law>(config: &L::Config) -> Result<L::Params> {
    L::prepare(config).map_err(refuse)
}

/// `host_mbps` as bytes a second; 0 stays 0, "not given".
///
/// # Errors
///
/// `EINVAL` beyond 10 Tbit/s.
pub fn line_rate(host_mbps: u32) -> Result<u64> {
    let mbps = ConfigError::check("host_mbps", host_mbps, 0, 10_000_000).map_err(refuse)?;
    Ok(u64::from(mbps).saturating_mul(125_000))
}

/// `base_rtt_us` in nanoseconds; 0 stays 0, "learn it".
///
/// # Errors
///
/// `EINVAL` beyond one second.
pub fn base_rtt_ns(base_rtt_us: u32) -> Result<u32> {
    let us = ConfigError::check("base_rtt_us", base_rtt_us, 0, 1_000_000).map_err(refuse)?;
    Ok(us.saturating_mul(1000))
}
