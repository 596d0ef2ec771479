// SPDX-License-Identifier: GPL-2.0

//! How user space talks to `tcp_int`: the commands of its device `/dev/fathom_int`, and the records of
//! its log. Arguments are numbers, but for [`READ`].

/// The device's name under `/dev`.
pub const DEVICE: &str = "fathom_int";

/// A command without data in the kernel's numbering: `_IO('F', number)`.
const fn io(number: u32) -> u32 {
    ((b'F' as u32) << 8) | number
}

/// Take the map of this file descriptor; answers with the map's id.
pub const BIND: u32 = io(0x71);
/// The same, in place of another.
pub const REPLACE: u32 = io(0x72);
/// Let go of the map.
pub const UNBIND: u32 = io(0x73);
/// The id of the map; 0 = none.
pub const QUERY: u32 = io(0x74);
/// Log so many samples, a power of two, and forget those logged so far; 0 = end it.
pub const LOG: u32 = io(0x75);

/// Records that one [`READ`] asks for.
pub const READ_RECORDS: usize = 64;
/// Take the oldest records off the log, into memory for [`READ_RECORDS`] of them; answers how many.
pub const READ: u32 = (2 << 30) | ((READ_RECORDS * Seen::LEN) as u32) << 16 | io(0x76);

/// One record of the log: a sample that a law was given. Host byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When, ns since boot.
    pub time_ns: u64,
    /// The acknowledgement number of the segment that brought it.
    pub ack: u32,
    /// The socket's own port.
    pub local_port: u16,
    /// The peer's.
    pub remote_port: u16,
    /// The bytes of a [`Sample`](super::Sample).
    pub sample: [u8; 40],
}

impl Seen {
    /// Bytes of a record.
    pub const LEN: usize = 56;
    /// The most records that a log may hold.
    pub const MOST: u32 = 1 << 20;

    /// Reads a record.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let (time, rest) = bytes.split_first_chunk()?;
        let (ack, rest) = rest.split_first_chunk()?;
        let (local, rest) = rest.split_first_chunk()?;
        let (remote, rest) = rest.split_first_chunk()?;
        Some(Self {
            time_ns: u64::from_ne_bytes(*time),
            ack: u32::from_ne_bytes(*ack),
            local_port: u16::from_ne_bytes(*local),
            remote_port: u16::from_ne_bytes(*remote),
            sample: *rest.first_chunk()?,
        })
    }
}
