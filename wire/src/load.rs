// SPDX-License-Identifier: GPL-2.0

//! The load of a port, for the congestion key: how a software hop computes what Tofino's `Lpf` does.

/// A level that each packet raises by the time it takes to send and that leaks away exponentially.
/// All-zero is an idle port.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The level, ns in Q8: a packet of 64 bytes takes less than one ns at 800 Gbit/s.
    level: u64,
    /// When it was raised last, ns.
    last_ns: u64,
}

impl Load {
    /// The level halves in 2^15 ns: 33 us, about a base RTT.
    pub const HALF_LIFE_SHIFT: u32 = 15;
    /// The level of a link that is always busy, as a power of two. The decay over a part x of a
    /// half-life is taken as 1 - x/2, so at a steady load the level is the load times two half-lives.
    const FULL_SHIFT: u32 = Self::HALF_LIFE_SHIFT + 1 + 8;

    /// What a byte takes on a link of `bytes_per_s`, ns in Q24: what a hop multiplies with instead of dividing.
    /// Links below 32 Mbit/s say the most there is.
    #[inline]
    #[must_use]
    pub const fn byte_time(bytes_per_s: u64) -> u32 {
        const SECOND: u64 = 1_000_000_000 << 24;
        match SECOND.checked_div(bytes_per_s) {
            Some(time) if time <= u32::MAX as u64 => time as u32,
            _ => u32::MAX,
        }
    }

    /// What `bytes` take on a link where one takes `byte_time` (Q24), ns in Q8.
    #[inline]
    #[must_use]
    pub const fn busy(bytes: u32, byte_time: u32) -> u32 {
        let busy = (bytes as u64).wrapping_mul(byte_time as u64) >> 16;
        if busy > u32::MAX as u64 {
            u32::MAX
        } else {
            busy as u32
        }
    }

    /// The level at `now_ns`.
    #[inline]
    const fn level_at(&self, now_ns: u64) -> u64 {
        // A clock that went back has not moved.
        let gap = now_ns.saturating_sub(self.last_ns);
        let halvings = gap >> Self::HALF_LIFE_SHIFT;
        if halvings > 40 {
            return 0;
        }
        let level = self.level >> halvings;
        let part = gap & ((1 << Self::HALF_LIFE_SHIFT) - 1);
        // The level is below 2^40, the part below 2^15.
        level.wrapping_sub(level.wrapping_mul(part) >> (Self::HALF_LIFE_SHIFT + 1))
    }

    #[inline]
    const fn fraction(level: u64) -> u8 {
        let fraction = level >> (Self::FULL_SHIFT - 8);
        if fraction > 255 {
            255
        } else {
            fraction as u8
        }
    }

    /// A packet leaves that takes `busy_q8` on the wire, ns in Q8; the load in 1/256 with it.
    #[inline]
    pub fn sent(&mut self, now_ns: u64, busy_q8: u32) -> u8 {
        // No level says more than "full": a backlog of jumbo frames on a slow link must not keep
        // the port busy for longer than it was.
        let level = self.level_at(now_ns).wrapping_add(busy_q8 as u64);
        self.level = if level > 1 << Self::FULL_SHIFT {
            1 << Self::FULL_SHIFT
        } else {
            level
        };
        self.last_ns = now_ns;
        Self::fraction(self.level)
    }

    /// The load in 1/256 at `now_ns`, 255 = all of it.
    #[inline]
    #[must_use]
    pub const fn at(&self, now_ns: u64) -> u8 {
        Self::fraction(self.level_at(now_ns))
    }
}
