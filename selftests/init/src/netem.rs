// SPDX-License-Identifier: GPL-2.0
//! Options of netem, the kernel's qdisc that treats packets badly.

/// What happens to packets, in millionths of them. All others wait for the delay.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    /// Lost.
    pub loss: u32,
    /// Sent twice.
    pub duplicate: u32,
    /// Sent at once, before those that wait.
    pub reorder: u32,
    /// One bit turned over, anywhere in the frame.
    pub corrupt: u32,
    /// The delay, us.
    pub delay_us: u32,
}

const REORDER: u16 = 3;
const CORRUPT: u16 = 4;
const LATENCY64: u16 = 10;
/// Packets that can wait.
const LIMIT: u32 = 100_000;

impl Faults {
    /// The bytes of TCA_OPTIONS.
    #[must_use]
    pub fn options(self) -> Vec<u8> {
        let scale = |ppm: u32| (u64::from(ppm) * u64::from(u32::MAX) / 1_000_000) as u32;
        let bytes =
            |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|v| v.to_ne_bytes()).collect() };
        // struct tc_netem_qopt: latency, limit, loss, gap, duplicate, jitter.
        let gap = u32::from(self.reorder != 0);
        let mut options = bytes(&[0, LIMIT, scale(self.loss), gap, scale(self.duplicate), 0]);
        let mut attribute = |kind: u16, value: &[u8]| {
            options.extend((4 + value.len() as u16).to_ne_bytes());
            options.extend(kind.to_ne_bytes());
            options.extend(value);
        };
        // Both: probability, correlation.
        if self.reorder != 0 {
            attribute(REORDER, &bytes(&[scale(self.reorder), 0]));
        }
        if self.corrupt != 0 {
            attribute(CORRUPT, &bytes(&[scale(self.corrupt), 0]));
        }
        attribute(LATENCY64, &(i64::from(self.delay_us) * 1000).to_ne_bytes());
        options
    }
}
