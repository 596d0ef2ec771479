// SPDX-License-Identifier: GPL-2.0
//! Packets of our own making, sent and received as bytes on raw sockets.

use anyhow::{Context as _, Result};
use nix::sys::{
    socket::{
        bind, recv, send, setsockopt, socket, sockopt, AddressFamily, MsgFlags, SockFlag,
        SockProtocol, SockType,
    },
    time::{TimeVal, TimeValLike as _},
};
use std::os::fd::{AsRawFd as _, OwnedFd};
use wire::rpm::{flag, Flow};

const ETHERNET: usize = 14;

/// A TCP segment over IPv4 or IPv6.
#[derive(Clone)]
pub struct Segment {
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// Last bytes of the addresses, source and destination.
    pub hosts: (u8, u8),
    /// Source and destination port.
    pub ports: (u16, u16),
    /// Sequence and acknowledgement number.
    pub numbers: (u32, u32),
    /// Byte 12 of the header without the data offset, and byte 13.
    pub flags: (u8, u8),
    /// The ECN field of the IP header.
    pub ecn: u8,
    /// TCP options, a multiple of four bytes.
    pub options: Vec<u8>,
    /// Bytes of payload.
    pub payload: usize,
}

impl Segment {
    /// A data segment of port `port`, 100 bytes.
    pub fn new(ipv6: bool, port: u16) -> Self {
        Self {
            ipv6,
            hosts: (1, 9),
            ports: (port, 9),
            numbers: (1000, 2000),
            flags: (0, flag::ACK),
            ecn: 0,
            options: Vec::new(),
            payload: 100,
        }
    }

    /// An ACK for this segment: without payload, the other way.
    pub fn answer(&self) -> Self {
        Self {
            hosts: (self.hosts.1, self.hosts.0),
            ports: (self.ports.1, self.ports.0),
            numbers: (self.numbers.1, self.numbers.0 + self.payload as u32),
            ecn: 0,
            payload: 0,
            options: Vec::new(),
            ..self.clone()
        }
    }

    /// Its flow, as a port sees it.
    pub fn flow(&self) -> Flow {
        let (sport, dport) = self.ports;
        if self.ipv6 {
            Flow::V6 {
                src: v6(self.hosts.0),
                dst: v6(self.hosts.1),
                sport,
                dport,
            }
        } else {
            Flow::V4 {
                src: [10, 0, 0, self.hosts.0],
                dst: [10, 0, 0, self.hosts.1],
                sport,
                dport,
            }
        }
    }

    /// As an Ethernet frame to everybody.
    pub fn frame(&self) -> Vec<u8> {
        let mut tcp = Vec::new();
        tcp.extend(self.ports.0.to_be_bytes());
        tcp.extend(self.ports.1.to_be_bytes());
        tcp.extend(self.numbers.0.to_be_bytes());
        tcp.extend(self.numbers.1.to_be_bytes());
        tcp.push(((20 + self.options.len()) as u8 / 4) << 4 | self.flags.0);
        tcp.push(self.flags.1);
        tcp.extend([0x10, 0, 0, 0, 0, 0]);
        tcp.extend(&self.options);
        tcp.extend((0..self.payload).map(|i| i as u8));
        let len = tcp.len() as u16;
        let mut frame = vec![0xff; 6];
        frame.extend([2, 0, 0, 0, 0, 1]);
        if self.ipv6 {
            frame.extend([0x86, 0xdd, 0x60, self.ecn << 4, 0, 0]);
            frame.extend(len.to_be_bytes());
            frame.extend([6, 64]);
            frame.extend(v6(self.hosts.0));
            frame.extend(v6(self.hosts.1));
        } else {
            frame.extend([8, 0, 0x45, self.ecn]);
            frame.extend((20 + len).to_be_bytes());
            frame.extend([0, 1, 0, 0, 64, 6, 0, 0]);
            frame.extend([10, 0, 0, self.hosts.0, 10, 0, 0, self.hosts.1]);
            let check = !sum(&frame[ETHERNET..ETHERNET + 20]);
            frame[24..26].copy_from_slice(&check.to_be_bytes());
        }
        let head = frame.len();
        frame.extend(tcp);
        let check = !pseudo_sum(&frame, self.ipv6);
        frame[head + 16..head + 18].copy_from_slice(&check.to_be_bytes());
        frame
    }
}

fn v6(host: u8) -> [u8; 16] {
    [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]
}

/// A frame that arrived.
pub struct Arrived {
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// All of it.
    pub bytes: Vec<u8>,
}

impl Arrived {
    /// Where TCP begins.
    pub fn head(&self) -> usize {
        ETHERNET + if self.ipv6 { 40 } else { 20 }
    }

    /// The TCP segment.
    pub fn tcp(&self) -> &[u8] {
        &self.bytes[self.head()..]
    }

    /// Source and destination port.
    pub fn ports(&self) -> (u16, u16) {
        let t = self.tcp();
        (
            u16::from_be_bytes([t[0], t[1]]),
            u16::from_be_bytes([t[2], t[3]]),
        )
    }

    /// The sequence number.
    pub fn seq(&self) -> u32 {
        u32::from_be_bytes(self.tcp()[4..8].try_into().expect("four bytes"))
    }

    /// Does it carry ECE?
    pub fn ece(&self) -> bool {
        self.tcp()[13] & flag::ECE != 0
    }

    /// Is it marked CE?
    pub fn ce(&self) -> bool {
        let ip = &self.bytes[ETHERNET..];
        let ecn = if self.ipv6 { ip[1] >> 4 } else { ip[1] };
        ecn & 3 == 3
    }

    /// Are the checksums of TCP and, with IPv4, of IP what they should be?
    pub fn checksum_is_right(&self) -> bool {
        pseudo_sum(&self.bytes, self.ipv6) == 0xffff
            && (self.ipv6 || sum(&self.bytes[ETHERNET..ETHERNET + 20]) == 0xffff)
    }
}

/// A raw socket on an interface; packets pass its queue.
pub struct Raw(OwnedFd);

impl Raw {
    /// On an interface of the current namespace.
    pub fn open(name: &str) -> Result<Self> {
        let fd = socket(
            AddressFamily::Packet,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::EthAll,
        )?;
        let address = nix::ifaddrs::getifaddrs()?
            .filter(|a| a.interface_name == name)
            .find_map(|a| a.address?.as_link_addr().copied())
            .with_context(|| format!("interface {name} has no link address"))?;
        bind(fd.as_raw_fd(), &address).context("bind a raw socket")?;
        setsockopt(&fd, sockopt::RcvBufForce, &(64 << 20)).context("receive buffer")?;
        setsockopt(&fd, sockopt::SndBuf, &(64 << 20)).context("send buffer")?;
        let raw = Self(fd);
        raw.patience_ms(5000)?;
        Ok(raw)
    }

    /// How long [`next`](Self::next) waits.
    pub fn patience_ms(&self, ms: i64) -> Result<()> {
        let time = TimeVal::milliseconds(ms);
        Ok(setsockopt(&self.0, sockopt::ReceiveTimeout, &time)?)
    }

    /// Sends a frame.
    pub fn send(&self, frame: &[u8]) -> Result<()> {
        send(self.0.as_raw_fd(), frame, MsgFlags::empty()).context("send a frame")?;
        Ok(())
    }

    /// The next TCP segment of a test (our source address); none when nothing comes.
    pub fn next(&self) -> Option<Arrived> {
        std::iter::from_fn(|| self.any()).find(|a| a.bytes[6..12] == [2, 0, 0, 0, 0, 1])
    }

    /// The next TCP segment of whomever, incoming or outgoing; none when nothing comes.
    pub fn any(&self) -> Option<Arrived> {
        let mut buffer = [0; 2048];
        loop {
            let n = recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty()).ok()?;
            let bytes = &buffer[..n];
            let (ipv6, protocol) = match bytes.get(12..14)? {
                [8, 0] => (false, bytes.get(23)),
                [0x86, 0xdd] => (true, bytes.get(20)),
                _ => continue,
            };
            let arrived = Arrived {
                ipv6,
                bytes: bytes.to_vec(),
            };
            if protocol == Some(&6) && n >= arrived.head() + 20 {
                return Some(arrived);
            }
        }
    }

    /// The next one from TCP port `port`.
    pub fn from(&self, port: u16) -> Result<Arrived> {
        std::iter::from_fn(|| self.next())
            .find(|a| a.ports().0 == port)
            .with_context(|| format!("nothing arrived from port {port}"))
    }
}

/// The one's complement sum of the segment and its pseudo-header.
fn pseudo_sum(frame: &[u8], ipv6: bool) -> u16 {
    let (addresses, head) = if ipv6 { (22..54, 54) } else { (26..34, 34) };
    let segment = &frame[head..];
    let mut bytes = frame[addresses].to_vec();
    bytes.extend((segment.len() as u32).to_be_bytes());
    bytes.extend([0, 0, 0, 6]);
    bytes.extend(segment);
    sum(&bytes)
}

fn sum(bytes: &[u8]) -> u16 {
    let mut total: u32 = bytes
        .chunks(2)
        .map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0)))
        .sum();
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}
