// SPDX-License-Identifier: GPL-2.0

//! CoDel (RFC 8289): when a port says that it is congested. One definition for the software port, the
//! simulator and the switch programs.
//!
//! A queue is bad when packets have waited for `target` or longer during a whole `interval`. Then one
//! packet is chosen, and as long as the queue stays bad further ones, each `interval / sqrt(count)` after
//! the one before. What happens to a chosen packet is its port's affair: CE, a count for the reverse
//! path ([`rpm`](super::rpm)), or a drop.
//!
//! The port asks for each packet as it leaves the queue, dropped ones included. Where this differs from the
//! kernel's `codel`: time is in ns instead of 1024 ns, the square root is exact instead of one step of
//! Newton's method, and the packet behind a dropped one is judged like any other.

use core::num::NonZeroU64;

/// Intervals of 4 s and more have a square that leaves 64 bits.
pub const MAX_INTERVAL_NS: u64 = 4_000_000_000;
/// A queue that was bad less than this many intervals ago goes on where it stopped.
const REMEMBERED: u64 = 16;

/// What the administrator sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Packets that waited less are welcome, ns.
    pub target_ns: u64,
    /// For how long a queue may be bad, ns; about the longest round trip. At most [`MAX_INTERVAL_NS`].
    pub interval_ns: u64,
}

/// The state of a queue. All-zero is a queue that was never bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Codel {
    /// From when on the queue is bad if it does not become good before; 0 = it is good.
    bad_from_ns: u64,
    /// When the next packet is due.
    next_ns: u64,
    /// Packets chosen since the queue became bad, and what the count was when it last did.
    count: u32,
    last_count: u32,
    choosing: bool,
}

/// A packet at the moment it leaves the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// That moment, ns. Never goes back.
    pub now_ns: u64,
    /// How long it waited, ns.
    pub waited_ns: u64,
    /// What it leaves behind, bytes.
    pub left_bytes: u32,
    /// The largest packet that this port has seen, bytes: a queue of one packet is no queue.
    pub max_packet: u32,
}

impl Codel {
    /// Whether this packet is chosen.
    #[inline]
    pub fn choose(&mut self, params: &Params, packet: &Leaving) -> bool {
        let now_ns = packet.now_ns;
        if packet.waited_ns < params.target_ns || packet.left_bytes <= packet.max_packet {
            self.bad_from_ns = 0;
            self.choosing = false;
            return false;
        }
        if self.bad_from_ns == 0 {
            // 0 means good: a port whose clock starts at 0 with an interval of 0 loses one ns.
            self.bad_from_ns = match now_ns.saturating_add(params.interval_ns) {
                0 => 1,
                from => from,
            };
        }
        if now_ns < self.bad_from_ns {
            self.choosing = false;
            return false;
        }
        if !self.choosing {
            self.choosing = true;
            let since = self.count.wrapping_sub(self.last_count);
            let recent =
                now_ns.saturating_sub(self.next_ns) < params.interval_ns.saturating_mul(REMEMBERED);
            self.count = if since > 1 && recent { since } else { 1 };
            self.last_count = self.count;
            self.next_ns = now_ns.saturating_add(spacing(params.interval_ns, self.count));
            return true;
        }
        if now_ns < self.next_ns {
            return false;
        }
        self.count = self.count.saturating_add(1);
        self.next_ns = self
            .next_ns
            .saturating_add(spacing(params.interval_ns, self.count));
        true
    }

    /// Packets chosen since the queue became bad; 0 while it is good.
    #[inline]
    #[must_use]
    pub const fn count(&self) -> u32 {
        if self.choosing {
            self.count
        } else {
            0
        }
    }
}

/// `interval_ns / sqrt(count)`, rounded down to whole ns and never 0: the control law.
#[inline]
#[must_use]
pub fn spacing(interval_ns: u64, count: u32) -> u64 {
    let interval = if interval_ns > MAX_INTERVAL_NS {
        MAX_INTERVAL_NS
    } else {
        interval_ns
    };
    let Some(count) = NonZeroU64::new(count as u64) else {
        return interval;
    };
    // The root of the floor is the floor of the root: nothing is lost by dividing first.
    let root = sqrt(interval.wrapping_mul(interval) / count);
    if root == 0 {
        1
    } else {
        root
    }
}

/// The square root, rounded down, a bit at a time.
#[inline]
const fn sqrt(value: u64) -> u64 {
    let (mut rest, mut root, mut bit) = (value, 0u64, 1u64 << 62);
    while bit != 0 {
        let with = root.wrapping_add(bit);
        root >>= 1;
        if rest >= with {
            rest = rest.wrapping_sub(with);
            root = root.wrapping_add(bit);
        }
        bit >>= 2;
    }
    root
}
