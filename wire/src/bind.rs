// SPDX-License-Identifier: GPL-2.0

//! How user space talks to `tcp_int`: commands as text, written to its device, and what is read from
//! it: a header, then records of samples that laws took.

/// The device.
pub const DEVICE: &str = "/dev/fathom_int";

/// What the device may be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `bind FD` or `replace FD`: take the map of this file descriptor.
    Bind {
        /// Of the process that writes.
        fd: i32,
        /// In place of another.
        replace: bool,
    },
    /// `unbind`: let go of the map.
    Unbind,
    /// `log N`: log so many samples and forget those logged so far; 0 = end it.
    Log(u32),
}

impl Command {
    /// Reads a command; a newline may follow.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        if text == b"unbind" {
            return Some(Self::Unbind);
        }
        if let Some(number) = text.strip_prefix(b"log ") {
            return decimal(number).map(Self::Log);
        }
        let (number, replace) = match text.strip_prefix(b"bind ") {
            Some(number) => (number, false),
            None => (text.strip_prefix(b"replace ")?, true),
        };
        let fd = i32::try_from(decimal(number)?).ok()?;
        Some(Self::Bind { fd, replace })
    }
}

fn decimal(text: &[u8]) -> Option<u32> {
    let mut value = 0u32;
    if text.is_empty() {
        return None;
    }
    for byte in text {
        let digit = match byte {
            b'0'..=b'9' => u32::from(byte.wrapping_sub(b'0')),
            _ => return None,
        };
        value = value.checked_mul(10)?.checked_add(digit)?;
    }
    Some(value)
}

/// What stands first in the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The id of the map; 0 = none.
    pub map_id: u32,
    /// Samples that found the log full.
    pub lost: u32,
}

impl Header {
    /// Bytes of the header.
    pub const LEN: usize = 8;

    /// As it is read.
    #[must_use]
    pub const fn bytes(&self) -> [u8; Self::LEN] {
        (((self.lost as u64) << 32) | self.map_id as u64).to_le_bytes()
    }

    /// From what was read.
    #[must_use]
    pub const fn parse(bytes: [u8; Self::LEN]) -> Self {
        let word = u64::from_le_bytes(bytes);
        Self {
            map_id: word as u32,
            lost: (word >> 32) as u32,
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands() {
        let bind = |fd, replace| Some(Command::Bind { fd, replace });
        assert_eq!(Command::parse(b"bind 7\n"), bind(7, false));
        assert_eq!(Command::parse(b"replace 2147483647"), bind(i32::MAX, true));
        assert_eq!(Command::parse(b"unbind"), Some(Command::Unbind));
        assert_eq!(Command::parse(b"log 0"), Some(Command::Log(0)));
        for bad in [
            "",
            "bind",
            "bind ",
            "bind -1",
            "bind 2147483648",
            "bind 7 ",
            "log x",
            "log 4294967296",
        ] {
            assert_eq!(Command::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn header() {
        let header = Header {
            map_id: 0x1234_5678,
            lost: 9,
        };
        assert_eq!(Header::parse(header.bytes()), header);
    }
}
