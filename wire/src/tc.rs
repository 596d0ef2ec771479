// SPDX-License-Identifier: GPL-2.0
//! How the qdisc `int` (the module `sch_int`) is configured and read: its netlink attributes, each a
//! `u64` in the host's byte order inside `TCA_OPTIONS`, the order of its statistics, and its log of packets.

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
/// CoDel: waiting this long is too long, ns; 0 = no CoDel. See [`codel`](super::codel).
pub const TARGET: u16 = 9;
/// CoDel: for how long it may be too long, ns.
pub const INTERVAL: u16 = 10;
/// Reverse path marking: places in the table that the ports of a network namespace share, the same for all
/// of them; 0 = this port takes no part. See [`rpm`](super::rpm).
pub const RPM: u16 = 11;
/// Log of stamped packets, for tests: how many of the last ones are kept; 0 = none.
pub const LOG: u16 = 12;
/// The number of the first record of the log that an answer shall hold, counted from the first packet.
/// Setting it changes nothing else; each later answer has [`LOG_FIRST`] and [`LOG_RECORDS`].
pub const LOG_FROM: u16 = 13;
/// In answers alone: the number of the first record in [`LOG_RECORDS`]; more than was asked for when
/// that one is no longer kept.
pub const LOG_FIRST: u16 = 14;
/// In answers alone: records of the log, [`Record::LEN`] bytes each, at most [`LOG_CHUNK`]; none at its end.
pub const LOG_RECORDS: u16 = 15;
/// The most records in one answer: a netlink message has a page.
pub const LOG_CHUNK: usize = 32;

/// Rates from 8 kbit/s, below which a packet's time would leave 64 bits, ...
pub const MIN_RATE: u64 = 1_000;
/// ... to 16 Tbit/s, bytes a second.
pub const MAX_RATE: u64 = 2_000_000_000_000;
/// Longer wires, and longer targets, than 10 s are a mistake, ns.
pub const MAX_DELAY_NS: u64 = 10_000_000_000;
/// Buffers of more than 1 GiB are one too, bytes.
pub const MAX_LIMIT: u64 = 1 << 30;
/// More than a jumbo frame is no overhead, bytes.
pub const MAX_OVERHEAD: u64 = 10_000;
/// The longest log, records: 56 MiB.
pub const MAX_LOG: u64 = 1 << 20;

/// Statistics, by their place in `TCA_STATS_APP`: the most bytes that ever waited.
pub const STAT_MAX: usize = 0;
/// Packets marked CE.
pub const STAT_MARKS: usize = 1;
/// Packets dropped because the queue was full.
pub const STAT_DROPS: usize = 2;
/// Packets sent.
pub const STAT_PACKETS: usize = 3;
/// Bytes sent, without overhead (telemetry tells them with it).
pub const STAT_BYTES: usize = 4;
/// Packets whose telemetry option was updated.
pub const STAT_STAMPS: usize = 5;
/// Packets whose option was malformed or full, and was left alone.
pub const STAT_REFUSED: usize = 6;
/// Bytes waiting now, without the packet on the link.
pub const STAT_QUEUE: usize = 7;
/// Packets that CoDel chose: marked, dropped and counted ones together.
pub const STAT_CODEL: usize = 8;
/// Of these, marked CE (they count as marks too).
pub const STAT_CODEL_MARKS: usize = 9;
/// Of these, dropped because their sender does not speak ECN.
pub const STAT_CODEL_DROPS: usize = 10;
/// Of these, counted for the reverse path.
pub const STAT_RPM_COUNTED: usize = 11;
/// Of these, marked CE because the flow's counter was full (they count as CoDel's marks too).
pub const STAT_RPM_FULL: usize = 12;
/// Packets that got ECE: marks of the other direction.
pub const STAT_RPM_SET: usize = 13;
/// Records written into the log since it was set up.
pub const STAT_LOGGED: usize = 14;
/// How many statistics there are.
pub const STATS: usize = 15;

/// What the port knew of a packet when it stamped it: one record of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// When the packet was put on the link, ns of the monotonic clock.
    pub time_ns: u64,
    /// How long it waited, ns.
    pub delay_ns: u64,
    /// Bytes that the link carried, overhead and this packet included.
    pub tx_bytes: u64,
    /// The queue it left behind, bytes.
    pub qlen_bytes: u32,
    /// The congestion key ([`bottleneck::key`](super::bottleneck::key)).
    pub key: u16,
    /// The port's load in 1/256.
    pub load: u8,
    /// Which port.
    pub hop_id: u8,
    /// TCP sequence number.
    pub seq: u32,
    /// TCP acknowledgement number.
    pub ack: u32,
    /// TCP source port.
    pub sport: u16,
    /// TCP destination port.
    pub dport: u16,
    /// Bytes of payload.
    pub payload: u32,
    /// The flow, in the packet's direction ([`rpm::Flow::hash`](super::rpm::Flow::hash)).
    pub flow: u32,
    /// The option's experiment id: its format ([`exid`](super::exid)).
    pub exid: u16,
    /// TCP flags: byte 13 of the header.
    pub flags: u8,
    /// 4 or 6.
    pub ip: u8,
}

impl Record {
    /// Bytes of a record.
    pub const LEN: usize = 56;

    /// As it stands in the log: seven words of eight bytes in the host's order, fields packed from the low
    /// end in the order in which they are declared.
    #[inline]
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let words = [
            self.time_ns,
            self.delay_ns,
            self.tx_bytes,
            self.qlen_bytes as u64
                | (self.key as u64) << 32
                | (self.load as u64) << 48
                | (self.hop_id as u64) << 56,
            self.seq as u64 | (self.ack as u64) << 32,
            self.sport as u64 | (self.dport as u64) << 16 | (self.payload as u64) << 32,
            self.flow as u64
                | (self.exid as u64) << 32
                | (self.flags as u64) << 48
                | (self.ip as u64) << 56,
        ];
        let mut bytes = [0; Self::LEN];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// The record of these bytes.
    #[inline]
    #[must_use]
    pub fn decode(bytes: &[u8; Self::LEN]) -> Self {
        let mut words = [0; 7];
        for (word, from) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            let mut eight = [0; 8];
            eight.copy_from_slice(from);
            *word = u64::from_ne_bytes(eight);
        }
        let [time_ns, delay_ns, tx_bytes, state, numbers, ports, kind] = words;
        Self {
            time_ns,
            delay_ns,
            tx_bytes,
            qlen_bytes: state as u32,
            key: (state >> 32) as u16,
            load: (state >> 48) as u8,
            hop_id: (state >> 56) as u8,
            seq: numbers as u32,
            ack: (numbers >> 32) as u32,
            sport: ports as u16,
            dport: (ports >> 16) as u16,
            payload: (ports >> 32) as u32,
            flow: kind as u32,
            exid: (kind >> 32) as u16,
            flags: (kind >> 48) as u8,
            ip: (kind >> 56) as u8,
        }
    }
}

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
    fn a_record_survives_the_log() {
        let mut bytes = [0; Record::LEN];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = i as u8 + 1;
        }
        let record = Record::decode(&bytes);
        assert_eq!(record.encode(), bytes);
        #[cfg(target_endian = "little")]
        assert_eq!(
            (record.hop_id, record.sport, record.exid, record.ip),
            (32, 0x2a29, 0x3635, 56)
        );
    }

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
