// SPDX-License-Identifier: GPL-2.0

//! The formats a second time, as strings of bits: slow, and written from the tables of
//! `docs/wire.md` alone, so that it shares no mistake with the crate but those of the document.

/// What a port is asked to write.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    pub delay_ns: u64,
    pub qlen_bytes: u64,
    pub tx_bytes: u64,
    pub time_ns: u64,
    pub load: u64,
    pub speed: u64,
    pub hop_id: u64,
    pub shift: u32,
}

/// Fields as bits, most significant first.
pub struct Bits(Vec<bool>);

impl Bits {
    pub fn of(bytes: &[u8]) -> Self {
        let bit = |i: usize| bytes[i / 8] >> (7 - i % 8) & 1 == 1;
        Self((0..bytes.len() * 8).map(bit).collect())
    }

    pub fn get(&self, from: usize, width: usize) -> u64 {
        let bits = &self.0[from..from + width];
        bits.iter().fold(0, |n, &b| n << 1 | u64::from(b))
    }

    /// The low `width` bits of `value`: what wraps, wraps here.
    pub fn set(&mut self, from: usize, width: usize, value: u64) {
        for i in 0..width {
            self.0[from + i] = value >> (width - 1 - i) & 1 == 1;
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let byte = |bits: &[bool]| bits.iter().fold(0, |n, &b| n << 1 | u8::from(b));
        self.0.chunks(8).map(byte).collect()
    }
}

/// One option, from its kind on, after the hop; none when a hop leaves it alone.
pub fn hop(option: &[u8], port: &Port) -> Option<Vec<u8>> {
    let mut bits = Bits::of(option);
    let written = if port.speed == 0 { 15 } else { port.speed };
    let cells = (port.qlen_bytes / 80).min(65535);
    match (bits.get(16, 16), option.len()) {
        (0xfa70, 8) => {
            let delay = (port.delay_ns / 2u64.pow(port.shift)).min(4095);
            let hops = bits.get(44, 4);
            bits.set(32, 12, bits.get(32, 12).max(delay));
            bits.set(44, 4, (hops + 1).min(15));
        }
        (0xfa72, 16) => {
            let delay = port.delay_ns / 64;
            let key = match delay {
                0 => port.load,
                _ => (256u64.saturating_add(delay)).min(65535),
            };
            let hops = bits.get(40, 4);
            if hops == 0 || key > bits.get(48, 16) {
                bits.set(32, 8, port.hop_id);
                bits.set(44, 4, written);
                bits.set(48, 16, key);
                bits.set(64, 16, cells);
                bits.set(80, 24, port.tx_bytes / 64);
                bits.set(104, 24, port.time_ns);
            }
            bits.set(40, 4, (hops + 1).min(15));
        }
        (0xfa74, 12 | 20 | 28 | 36) => {
            let mut slots = (32..option.len() * 8).step_by(64);
            let at = slots.find(|&at| bits.get(at, 8) == 0)?;
            bits.set(at, 4, port.hop_id);
            bits.set(at + 4, 4, written);
            bits.set(at + 8, 20, port.tx_bytes / 128);
            bits.set(at + 28, 20, port.time_ns / 16);
            bits.set(at + 48, 16, cells);
        }
        _ => return None,
    }
    Some(bits.bytes())
}

/// The Internet checksum of `bytes`, an odd last byte padded with zero.
pub fn checksum(bytes: &[u8]) -> u16 {
    let word = |w: &[u8]| u64::from(w[0]) << 8 | u64::from(*w.get(1).unwrap_or(&0));
    let mut sum: u64 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
