// SPDX-License-Identifier: GPL-2.0

//! Parameters from the path: what travels from one network to another.
//!
//! A published number is right for the network it was published with. What can be carried over is
//! its proportion to the link's rate and to the base RTT; the rules here say which, and
//! `docs/laws.md` why. They are functions of plain numbers, so that a tool can print what a law
//! will use.

use super::base_rtt::BaseRtt;
use super::law::Path;
use super::math::{self, CWND_SHIFT, MAX_CWND};

/// Fractional bits of a host's rate in packets per ns: 8e-9 of them at 100 kbit/s with jumbo
/// frames, below 20 at 10 Tbit/s.
pub const PACKETS_PER_NS_SHIFT: u32 = 40;

/// The host's rate in full-size packets per ns, Q40.
#[must_use]
pub const fn packets_per_ns(path: &Path) -> u64 {
    // line_rate < 2^41 and a packet has at least a byte: Q20 of packets per second fit 61 bits.
    let per_second = math::div(path.line_rate() << CWND_SHIFT, path.wire() as u64);
    math::mul_div(
        per_second,
        1 << (PACKETS_PER_NS_SHIFT - CWND_SHIFT),
        math::NS_PER_S,
    )
}

/// HostBw·τ: the window that fills the host's own link, packets in Q20.
#[inline]
#[must_use]
pub const fn host_bdp(packets_per_ns: u64, tau_ns: u32) -> u64 {
    // 2^30 of time times 2^45 of rate, in 128 bits.
    let shift = PACKETS_PER_NS_SHIFT - CWND_SHIFT;
    let bdp = math::mul_shift(tau_ns as u64, packets_per_ns, shift);
    if bdp > MAX_CWND {
        MAX_CWND
    } else {
        bdp
    }
}

/// Packets of `wire_bytes` that `rate` bytes per second send in `ns`, Q20.
#[inline]
#[must_use]
pub const fn packets_in(rate: u64, ns: u32, wire_bytes: u16) -> u64 {
    // Bytes in Q20 = rate·ns·2^20/10^9: 2^41 times 2^32, in 128 bits, then times 2^30/10^9 in Q32.
    let bytes = math::mul_shift(math::mul_shift(rate, ns as u64, 10), 4_611_686_018, 32);
    math::div(bytes, wire_bytes as u64)
}

/// A handshake's RTT contains the queues of the moment. A first window of line rate times that
/// would add a queue as long as the one it met, and a few flows in a row would double it each: a
/// guess counts up to 50 us.
const TRUSTED_GUESS_NS: u32 = 50_000;

/// The first window of the laws that start at line rate, HostBw·τ, packets in Q20; at least two.
#[must_use]
pub fn first_window(packets_per_ns: u64, base: &BaseRtt) -> u64 {
    let tau_ns = base.tau_ns();
    let tau_ns = if base.known() {
        tau_ns
    } else {
        tau_ns.min(TRUSTED_GUESS_NS)
    };
    host_bdp(packets_per_ns, tau_ns).max(2 << CWND_SHIFT)
}

/// Poseidon's target function (Poseidon §3.3, Eq. 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// p, ns: from the target of the fastest flow to that of the slowest.
    pub p_ns: u32,
    /// k, ns: the target of the fastest flow.
    pub k_ns: u32,
    /// Rate of the slowest flow worth telling apart, bytes per second.
    pub min_rate: u64,
    /// Rate of the fastest, bytes per second.
    pub max_rate: u64,
}

/// p is three base RTTs: with the published m and range of rates, the loop's gain (below) is 0.77.
pub const P_PER_BASE_RTT: u32 = 3;
/// k is a twentieth of p, as published (2 us of 40).
pub const P_PER_K: u32 = 20;
/// ... but not less than two full-size packets, or a flow's own packets would be its queue.
pub const MIN_K_PACKETS: u64 = 2;
/// The bounds of k: below, p would leave its own; 67 ms is the longest delay the law tells apart.
const MIN_K_NS: u32 = 200;
const MAX_K_NS: u32 = 1 << 26;
/// max_rate is ten thousand times min_rate, as published (200 G of 0.02).
pub const RATE_RANGE: u64 = 10_000;

impl Target {
    /// The target function of a network of links of `max_rate` bytes per second, packets of
    /// `wire_bytes` and base RTTs up to `base_rtt_ns`.
    ///
    /// All flows that share links must share it: fairness is that equal rates have equal targets.
    #[must_use]
    pub const fn derive(max_rate: u64, base_rtt_ns: u32, wire_bytes: u16) -> Self {
        let packets = MIN_K_PACKETS.wrapping_mul(wire_bytes as u64);
        let least = math::mul_div(packets, math::NS_PER_S, max_rate);
        let least = if least > MAX_K_NS as u64 {
            MAX_K_NS
        } else {
            least as u32
        };
        let usual = base_rtt_ns.saturating_mul(P_PER_BASE_RTT) / P_PER_K;
        let k_ns = if usual > least { usual } else { least };
        let k_ns = if k_ns < MIN_K_NS {
            MIN_K_NS
        } else if k_ns > MAX_K_NS {
            MAX_K_NS
        } else {
            k_ns
        };
        let p_ns = k_ns.saturating_mul(P_PER_K);
        let p_ns = if p_ns > Self::MAX_NS {
            Self::MAX_NS
        } else {
            p_ns
        };
        Self {
            p_ns,
            k_ns,
            min_rate: max_rate / RATE_RANGE,
            max_rate,
        }
    }

    /// The largest p: a second, up to which products stay in 62 bits.
    pub const MAX_NS: u32 = 1_000_000_000;

    /// m for a flow whose own base RTT is `base_rtt_ns`, Q16, from the m of the network, Q16.
    ///
    /// While a link is busy, a window more is a queue more: the queue follows the window after one
    /// RTT, and the update moves the window by m·α·(θ/p) of a queue too long, θ being that RTT.
    /// This gain rings above one and diverges at π/2. With p of three base RTTs and the published m
    /// it is 0.77. A flow with a longer base RTT keeps it there by a smaller m, which makes it
    /// slower and leaves its share as it is, since m is in no target.
    #[must_use]
    pub const fn gain(&self, m: u32, base_rtt_ns: u32) -> u32 {
        let reach = self.p_ns / P_PER_BASE_RTT;
        if base_rtt_ns <= reach {
            return m;
        }
        // m < 2^18, reach < 2^29.
        let scaled = math::div((m as u64).wrapping_mul(reach as u64), base_rtt_ns as u64) as u32;
        if scaled == 0 {
            1
        } else {
            scaled
        }
    }
}
