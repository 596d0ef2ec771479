// SPDX-License-Identifier: GPL-2.0

//! One decision of a law, as `/dev/fathom_trace` hands it to user space: 128 bytes, host byte order.
//!
//! The congestion control fills in [`Rest`], the kernel's side in C (`kmod/kapi/cc_helpers.c`) the 48
//! bytes before it: when, and which connection.

/// The device. Records are kept while it is open, by one process at a time.
pub const DEVICE: &str = "/dev/fathom_trace";

/// The window did not grow because it was not used: by the application or for the receiver's sake.
pub const UNUSED: u8 = 1;
/// The RTT is of full-size packets: fit to learn the base RTT from.
pub const FULL_SIZE: u8 = 2;
/// Telemetry covers the whole path.
pub const COVERED: u8 = 4;

/// What the law was told, and what it answered.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// Its name, and zeroes.
    pub law: [u8; 16],
    /// The format of the telemetry that came, as in storage; 0 = none.
    pub format: u8,
    /// Records in the telemetry.
    pub hops: u8,
    /// [`UNUSED`], [`FULL_SIZE`], [`COVERED`].
    pub flags: u8,
    /// Zero.
    pub reserved: u8,
    /// RTT, ns; 0 = none.
    pub rtt_ns: u32,
    /// Packets delivered by this ACK.
    pub acked: u32,
    /// Packets in the network.
    pub in_flight: u32,
    /// mpd: forward and backward delay, ns; else of the first record: queue, bytes; bytes sent; time, ns;
    /// hop id.
    pub telemetry: [u32; 4],
    /// The base RTT that the law goes by, ns.
    pub base_rtt_ns: u32,
    /// The delay that it aims at, ns; 0 = it has none.
    pub target_ns: u32,
    /// How congested it takes the path to be, 256 = exactly full; 0 = it has a target instead.
    pub gauge: u32,
    /// The window that TCP was given, packets.
    pub cwnd: u32,
    /// The law's window, packets with 20 fractional bits.
    pub cwnd_q20: u64,
    /// The pacing rate, bytes per second.
    pub pacing_rate: u64,
}

/// A whole record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// When, ns since boot.
    pub time_ns: u64,
    /// The socket's own address; IPv4 as `::ffff:a.b.c.d`.
    pub local: [u8; 16],
    /// The peer's.
    pub remote: [u8; 16],
    /// The socket's own port.
    pub local_port: u16,
    /// The peer's.
    pub remote_port: u16,
    /// Records of this CPU that were dropped before this one, as nobody read them in time.
    pub lost: u32,
    /// The law's part.
    pub rest: Rest,
}

const _: () = assert!(core::mem::size_of::<Rest>() == 80);

/// Reads integers from bytes, one after the other.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(*head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_ne_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_ne_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_ne_bytes)
    }
}

impl Decision {
    /// Bytes of a record.
    pub const LEN: usize = 128;

    /// Reads a record.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let mut r = Reader(bytes);
        Some(Self {
            time_ns: r.u64()?,
            local: r.take()?,
            remote: r.take()?,
            local_port: r.u16()?,
            remote_port: r.u16()?,
            lost: r.u32()?,
            rest: Rest {
                law: r.take()?,
                format: r.u8()?,
                hops: r.u8()?,
                flags: r.u8()?,
                reserved: r.u8()?,
                rtt_ns: r.u32()?,
                acked: r.u32()?,
                in_flight: r.u32()?,
                telemetry: [r.u32()?, r.u32()?, r.u32()?, r.u32()?],
                base_rtt_ns: r.u32()?,
                target_ns: r.u32()?,
                gauge: r.u32()?,
                cwnd: r.u32()?,
                cwnd_q20: r.u64()?,
                pacing_rate: r.u64()?,
            },
        })
    }

    /// The law's name.
    #[must_use]
    pub fn law(&self) -> &str {
        let name = self.rest.law.split(|&b| b == 0).next().unwrap_or_default();
        core::str::from_utf8(name).unwrap_or("?")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_place() -> Result<(), &'static str> {
        let mut bytes = [0u8; Decision::LEN];
        for (i, byte) in (0u8..).zip(bytes.iter_mut()) {
            *byte = i;
        }
        bytes[48..64].copy_from_slice(b"theta_powertcp\0\0");
        let d = Decision::parse(&bytes).ok_or("a whole record")?;
        assert_eq!(d.time_ns, u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7]));
        assert_eq!((d.local[0], d.remote[0]), (8, 24));
        assert_eq!(d.local_port, u16::from_ne_bytes([40, 41]));
        assert_eq!(d.lost, u32::from_ne_bytes([44, 45, 46, 47]));
        assert_eq!(d.law(), "theta_powertcp");
        assert_eq!((d.rest.format, d.rest.flags), (64, 66));
        assert_eq!(d.rest.rtt_ns, u32::from_ne_bytes([68, 69, 70, 71]));
        assert_eq!(d.rest.telemetry[3], u32::from_ne_bytes([92, 93, 94, 95]));
        assert_eq!(
            d.rest.pacing_rate,
            u64::from_ne_bytes([120, 121, 122, 123, 124, 125, 126, 127])
        );
        Ok(())
    }
}
