// SPDX-License-Identifier: GPL-2.0

//! Which ACKs a law need not be told of.
//!
//! It believes that a flow that is where its law wants it learns nothing from one ACK that it would
//! not learn from the next. A law steers by what happens in a round trip; there are as many ACKs in
//! one as the window has packets, and at rest they all say the same. So a flow that is *calm* lets
//! the ACKs of a round pass by, or of a part of it, and answers for their packets with the next. Away
//! from rest every ACK is looked at, so that no flow is slower to start or to yield than the law is.
//!
//! Calm ends at once with a loss, a mark, or a round-trip time a quarter longer than it was: a queue
//! that others build is met when it is there, not a round later, which with the ACKs coming slower
//! would be long. For a law that has to see others leave, it ends as well when the round-trip time
//! falls by a thirty-second.

use super::law::Law;

/// The longest round-trip time of an ACK that may pass is longer by this part, 1/4,
const LONGER_SHIFT: u32 = 2;
/// and the shortest shorter by this, 1/32; and each by a step of a microsecond clock.
const SHORTER_SHIFT: u32 = 5;

/// What a law says of its flow ([`Law::calm`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ease {
    /// For so many packets it must have been at rest, all the while.
    pub after: u32,
    /// Then so many may pass; zero when it is not at rest.
    pub may: u32,
}

/// The calm of one flow. All-zero is none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calm {
    /// Where packets may pass, the shortest round-trip time of an ACK that may, us, or the longest, when
    /// falls do not matter ([`Law::FALLS`]); otherwise packets for which the flow has been at rest.
    rtt_us: u16,
    /// Packets that may pass.
    may: u8,
    /// That have passed.
    passed: u8,
}

impl Calm {
    /// An ACK of `acked` packets with neither loss nor mark, and its round-trip time, us; whatever is
    /// beyond 16 bits stands for none. True when the law need not be told.
    #[inline(always)]
    pub fn passes<L: Law>(&mut self, acked: u32, rtt_us: u64) -> bool {
        let passed = acked.wrapping_add(self.passed.into());
        let passes = passed < self.may.into() && self.as_ever::<L>(rtt_us);
        if passes {
            self.passed = passed as u8;
        }
        passes
    }

    /// Whether the round-trip time is what it was.
    #[inline(always)]
    fn as_ever<L: Law>(&self, rtt_us: u64) -> bool {
        let bound_us = u64::from(self.rtt_us);
        if L::FALLS {
            rtt_us.wrapping_sub(bound_us) <= bound_us >> LONGER_SHIFT
        } else {
            rtt_us <= bound_us
        }
    }

    /// An ACK of `acked` packets is looked at: those that it answers for.
    #[inline]
    #[must_use]
    pub fn all(&self, acked: u32) -> u32 {
        acked.wrapping_add(self.passed.into())
    }

    /// The law was told of `acked` packets at a round-trip time of `rtt_us`, and says how it is.
    #[inline]
    pub fn told<L: Law>(&mut self, ease: Ease, acked: u32, rtt_us: u32) {
        self.passed = 0;
        if ease.may == 0 || (self.may != 0 && !self.as_ever::<L>(rtt_us.into())) {
            self.end();
        }
        if self.may == 0 {
            let rested = acked.wrapping_add(self.rtt_us.into());
            if ease.may == 0 {
                return;
            }
            if rested < ease.after {
                self.rtt_us = rested.min(u16::MAX.into()) as u16;
                return;
            }
        }
        // Beyond 32 bits, an hour, it wraps; beyond 16 no ACK may pass.
        let bound_us = if L::FALLS {
            rtt_us
                .wrapping_sub(rtt_us >> SHORTER_SHIFT)
                .saturating_sub(1)
        } else {
            rtt_us.wrapping_add(rtt_us >> LONGER_SHIFT).wrapping_add(1)
        };
        match u16::try_from(bound_us) {
            Ok(bound_us) => {
                self.rtt_us = bound_us;
                self.may = ease.may.min(u8::MAX.into()) as u8;
            }
            Err(_) => self.end(),
        }
    }

    /// The next ACK is looked at, whatever it brings.
    #[inline]
    pub fn end(&mut self) {
        self.may = 0;
        self.rtt_us = 0;
    }
}

#[cfg(all(test, not(MODULE)))]
mod tests {
    use super::super::{Poseidon, ThetaPowerTcp as Theta};
    use super::*;

    const FIVE: Ease = Ease { after: 0, may: 5 };

    #[test]
    fn what_passes_is_answered_for() {
        let mut calm = Calm::default();
        assert!(!calm.passes::<Poseidon>(1, 100), "nobody is born calm");
        calm.told::<Poseidon>(FIVE, 1, 100);
        assert!(calm.passes::<Poseidon>(2, 1) && calm.passes::<Poseidon>(2, 126));
        assert!(!calm.passes::<Poseidon>(1, 100), "the fifth packet");
        assert_eq!(calm.all(1), 5);
        calm.told::<Poseidon>(FIVE, 5, 100);
        assert_eq!(calm.all(1), 1, "once");
    }

    fn ends<L: Law>(end: fn(&mut Calm) -> bool) {
        let mut calm = Calm::default();
        calm.told::<L>(FIVE, 1, 100);
        assert!(calm.passes::<L>(1, 100));
        assert!(!end(&mut calm));
        assert_eq!(calm.all(2), 3, "what passed is not forgotten");
    }

    #[test]
    fn it_ends() {
        ends::<Poseidon>(|calm| calm.passes::<Poseidon>(1, 127));
        ends::<Theta>(|calm| calm.passes::<Theta>(1, 121));
        ends::<Theta>(|calm| calm.passes::<Theta>(1, 95));
        ends::<Poseidon>(|calm| calm.passes::<Poseidon>(1, u64::MAX));
        ends::<Theta>(|calm| calm.passes::<Theta>(1, u64::MAX));
        ends::<Theta>(|calm| calm.passes::<Theta>(100, 100));
        ends::<Theta>(|calm| {
            calm.end();
            calm.passes::<Theta>(1, 100)
        });
        let mut calm = Calm::default();
        calm.told::<Theta>(Ease::default(), 1, 100);
        assert!(!calm.passes::<Theta>(0, 100));
    }

    #[test]
    fn it_takes_its_time() {
        let ease = Ease { after: 10, may: 5 };
        let mut calm = Calm::default();
        let mut rests = |ease, acked, rtt_us| {
            calm.told::<Theta>(ease, acked, rtt_us);
            calm.passes::<Theta>(1, rtt_us.into())
        };
        assert!(!rests(ease, 9, 100) && rests(ease, 1, 100) && rests(ease, 1, 100));
        assert!(
            !rests(Ease::default(), 1, 100) && !rests(ease, 9, 100),
            "ten more"
        );
        assert!(
            !rests(Ease::default(), 1, 100) && !rests(ease, 9, 100),
            "in a row"
        );
        assert!(
            rests(ease, 1, 100) && !rests(ease, 9, 90),
            "and when the RTT fell"
        );
        assert!(rests(ease, 1, 90));
        calm.end();
        calm.told::<Theta>(ease, 9, 90);
        assert!(!calm.passes::<Theta>(1, 90), "also after a loss");
    }

    #[test]
    fn large_numbers() {
        let mut calm = Calm::default();
        let all = Ease {
            after: 1 << 20,
            may: u32::MAX,
        };
        calm.told::<Poseidon>(all, 1 << 20, 100);
        assert!(calm.passes::<Poseidon>(254, 100) && !calm.passes::<Poseidon>(1, 100));
        for rtt_us in [1 << 17, 1 << 31] {
            calm.told::<Poseidon>(FIVE, 1, rtt_us);
            assert!(
                !calm.passes::<Poseidon>(1, rtt_us.into()),
                "too long for its clock"
            );
        }
    }
}
