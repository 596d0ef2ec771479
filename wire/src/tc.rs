// SPDX-License-Identifier: GPL-2.0
//! How the qdisc `int` (the module `sch_int`) is configured and read: its netlink attributes, each a
//! `u64` in the host's byte order inside `TCA_OPTIONS`, and the order of its statistics.

/// Its name in `tc`.
pub const NAME: &str = "int";

/// Rate of the port, bytes a second; 0 = as fast as the device takes packets.
pub const RATE: u16 = 1;
/// Time on the wire after a packet was sent, ns.
pub const DELAY: u16 = 2;
/// Most bytes that may wait.
pub const LIMIT: u16 = 3;
/// ECN: packets that find at least this many bytes waiting are marked; 0 = none.
pub const ECN: u16 = 4;
/// Bytes a packet occupies on the wire beyond what Linux counts (Ethernet: 24).
pub const OVERHEAD: u16 = 5;
/// In-band telemetry: 1 = write into the option of packets that carry one, 0 = leave it.
pub const INT: u16 = 6;
/// Which port this is on its path, 0 to 255, for the formats that name it.
pub const HOP_ID: u16 = 7;
/// Unit of a maximum per-hop delay: 2^this ns, the same in the whole fabric.
pub const SHIFT: u16 = 8;

/// Statistics, by their place in `TCA_STATS_APP`: the most bytes that ever waited.
pub const STAT_MAX: usize = 0;
/// Packets marked CE.
pub const STAT_MARKS: usize = 1;
/// Packets dropped because the queue was full.
pub const STAT_DROPS: usize = 2;
/// Packets sent.
pub const STAT_PACKETS: usize = 3;
/// Bytes sent, without overhead.
pub const STAT_BYTES: usize = 4;
/// Packets whose telemetry option was updated.
pub const STAT_STAMPS: usize = 5;
/// Packets whose option was malformed or full, and was left alone.
pub const STAT_REFUSED: usize = 6;

/// One attribute as netlink carries it: calls `each` with kind and value, in order. False when the
/// bytes are not whole attributes of eight bytes each.
#[must_use]
pub fn parse(mut options: &[u8], mut each: impl FnMut(u16, u64) -> bool) -> bool {
    while let Some((header, rest)) = options.split_first_chunk::<4>() {
        let [l0, l1, k0, k1] = *header;
        let kind = u16::from_ne_bytes([k0, k1]) & 0x3fff; // without the nested and byte-order flags
        let Some((value, rest)) = rest.split_first_chunk::<8>() else {
            return false;
        };
        if u16::from_ne_bytes([l0, l1]) != 12 || !each(kind, u64::from_ne_bytes(*value)) {
            return false;
        }
        options = rest;
    }
    options.is_empty()
}

/// One attribute as bytes.
#[must_use]
pub fn attribute(kind: u16, value: u64) -> [u8; 12] {
    let [l0, l1] = 12u16.to_ne_bytes();
    let [k0, k1] = kind.to_ne_bytes();
    let [v0, v1, v2, v3, v4, v5, v6, v7] = value.to_ne_bytes();
    [l0, l1, k0, k1, v0, v1, v2, v3, v4, v5, v6, v7]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let mut bytes = [0; 24];
        bytes[..12].copy_from_slice(&attribute(RATE, 1 << 40));
        bytes[12..].copy_from_slice(&attribute(ECN, 7));
        let mut seen = [(0, 0); 2];
        let mut n = 0;
        let mut note = |kind, value| {
            seen[n] = (kind, value);
            n += 1;
            true
        };
        assert!(parse(&bytes, &mut note));
        assert_eq!(seen, [(RATE, 1 << 40), (ECN, 7)]);
        for cut in (1..24).filter(|&cut| cut != 12) {
            assert!(!parse(&bytes[..cut], |_, _| true), "cut at {cut}");
        }
        assert!(!parse(&bytes, |kind, _| kind != ECN));
    }
}
