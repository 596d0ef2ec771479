// SPDX-License-Identifier: GPL-2.0
//! A wire on which things go wrong: a thread per direction that takes packets from one end and gives them
//! to the other, or does not. It stands behind the port, where a wire is: what is lost here has had its
//! time in the queue and on the link. In virtual time it takes none itself.

use crate::netns::Netns;
use crate::traffic::spawn;
use anyhow::{Context as _, Result};
use fathom_sim::rng::{probability, Rng};
use nix::{
    errno::Errno,
    ifaddrs::getifaddrs,
    poll::{ppoll, PollFd, PollFlags},
    setsockopt_impl, sockopt_impl,
    sys::{
        socket::{
            bind, recv, send, setsockopt, socket, sockopt, AddressFamily, MsgFlags, SockFlag,
            SockProtocol, SockType,
        },
        time::TimeSpec,
    },
};
use scenario::{FaultKind, IntFault, PortId, Resolved};
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
    sync::{Arc, OnceLock},
    time::Instant,
};
use wire::{mpd, option, Hop, Speed};

/// The interface in a wire's namespace.
pub const DEVICE: &str = "wire";
/// What the kernel puts before a packet: whose checksum is to be filled in, and where.
const VNET_HEADER: usize = 10;
/// A packet and that.
const ROOM: usize = (1 << 16) + VNET_HEADER;
/// Bytes that may wait for the thread; in virtual time none do for long.
const BUFFER: usize = 64 << 20;

sockopt_impl!(
    /// Packets come and go with a `virtio_net_hdr`.
    VnetHeader, SetOnly, libc::SOL_PACKET, libc::PACKET_VNET_HDR, i32);

/// A link that is a program: its ports, and the namespaces that their other ends are in.
pub struct Link {
    /// There and back.
    pub ports: [PortId; 2],
    /// Each with one interface, [`DEVICE`].
    pub stages: [Netns; 2],
}

/// Does anything befall the packets of a port that the port itself cannot do?
pub fn befalls(r: &Resolved, port: PortId) -> bool {
    r.faults.iter().any(|f| {
        let ports_own = matches!(
            f.kind,
            FaultKind::Rate { .. } | FaultKind::Delay { .. } | FaultKind::Int(IntFault::Off)
        );
        !ports_own && f.ports.contains(&port)
    })
}

/// What befalls a port at a time.
pub fn active(r: &Resolved, port: PortId, at_ns: u64) -> impl Iterator<Item = FaultKind> + '_ {
    r.faults
        .iter()
        .filter(move |f| {
            f.from_ns <= at_ns
                && f.until_ns.is_none_or(|until| at_ns < until)
                && f.ports.contains(&port)
        })
        .map(|f| f.kind)
}

impl Link {
    /// Both directions; `start` will be the scenario's time 0. Nothing goes wrong before.
    pub fn run(&self, r: &Arc<Resolved>, start: &Arc<OnceLock<Instant>>) -> Result<()> {
        let [a, b] = [self.open(0)?, self.open(1)?].map(Arc::new);
        for (port, from, to) in [(self.ports[0], &a, &b), (self.ports[1], &b, &a)] {
            // The stream that the simulator gives this port.
            let rng = Rng::new(r.seed).fork(0xfa17 ^ (u64::from(port.0) << 16));
            let mut way = Way {
                network: Arc::clone(r),
                port,
                start: Arc::clone(start),
                from: Arc::clone(from),
                to: Arc::clone(to),
                rng,
                tx_bytes: 0,
                late: BinaryHeap::new(),
                count: 0,
            };
            spawn(move || {
                if let Err(e) = way.run() {
                    println!("fathom-init: wire of port {}: {e:#}", way.port.0);
                }
            });
        }
        Ok(())
    }

    fn open(&self, side: usize) -> Result<OwnedFd> {
        self.stages[side].enter(|| -> Result<OwnedFd> {
            let fd = socket(
                AddressFamily::Packet,
                SockType::Raw,
                SockFlag::SOCK_CLOEXEC,
                SockProtocol::EthAll,
            )
            .context("packet socket")?;
            setsockopt(&fd, VnetHeader, &1).context("PACKET_VNET_HDR")?;
            setsockopt(&fd, sockopt::RcvBufForce, &BUFFER).context("SO_RCVBUFFORCE")?;
            setsockopt(&fd, sockopt::SndBufForce, &BUFFER).context("SO_SNDBUFFORCE")?;
            let address = getifaddrs()
                .context("interfaces")?
                .filter(|i| i.interface_name == DEVICE)
                .find_map(|i| i.address?.as_link_addr().copied())
                .with_context(|| format!("no interface {DEVICE}"))?;
            bind(fd.as_raw_fd(), &address).context("bind to the wire")?;
            Ok(fd)
        })?
    }
}

/// One direction.
struct Way {
    network: Arc<Resolved>,
    port: PortId,
    start: Arc<OnceLock<Instant>>,
    from: Arc<OwnedFd>,
    to: Arc<OwnedFd>,
    rng: Rng,
    /// Bytes that passed, as they occupy the wire.
    tx_bytes: u64,
    /// Packets that arrive later than their successors.
    late: BinaryHeap<Reverse<(u64, u64, Vec<u8>)>>,
    count: u64,
}

impl Way {
    /// The scenario's time; 0 before it begins.
    fn now_ns(&self) -> u64 {
        let start = self.start.get();
        start.map_or(0, |start| {
            Instant::now().saturating_duration_since(*start).as_nanos() as u64
        })
    }

    fn run(&mut self) -> Result<()> {
        let mut buffer = vec![0; ROOM];
        loop {
            let wait = self.late.peek().map(|Reverse((due, ..))| {
                let ns = due.saturating_sub(self.now_ns());
                TimeSpec::new((ns / 1_000_000_000) as _, (ns % 1_000_000_000) as _)
            });
            let ready = {
                let mut fds = [PollFd::new(self.from.as_fd(), PollFlags::POLLIN)];
                ppoll(&mut fds, wait, None).context("poll")? > 0
            };
            while let Some(due) = self.late.peek().map(|Reverse((due, ..))| *due) {
                if due > self.now_ns() {
                    break;
                }
                if let Some(Reverse((_, _, packet))) = self.late.pop() {
                    self.send(&packet)?;
                }
            }
            if ready {
                let n = match recv(self.from.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                    // The namespaces at its ends are gone: the run is over.
                    Err(Errno::ENETDOWN) => return Ok(()),
                    other => other.context("receive")?,
                };
                self.pass(&mut buffer[..n])?;
            }
        }
    }

    fn send(&self, packet: &[u8]) -> Result<()> {
        send(self.to.as_raw_fd(), packet, MsgFlags::empty()).context("send")?;
        Ok(())
    }

    /// A packet is on the wire.
    fn pass(&mut self, packet: &mut [u8]) -> Result<()> {
        let at_ns = self.now_ns();
        if at_ns == 0 {
            return self.send(packet);
        }
        let r = Arc::clone(&self.network);
        let length = packet.len().saturating_sub(VNET_HEADER) as u64;
        self.tx_bytes += length + u64::from(r.overhead.saturating_sub(14));
        let (mut gone, mut twice, mut late) = (false, false, None);
        for fault in active(&r, self.port, at_ns) {
            let mut chance = |p: f64| self.rng.chance(probability(p));
            match fault {
                FaultKind::Loss { probability } => gone |= chance(probability),
                FaultKind::Down => gone = true,
                FaultKind::Duplicate { probability } => twice |= chance(probability),
                FaultKind::Reorder {
                    probability,
                    delay_ns,
                } => {
                    if chance(probability) {
                        late = Some(delay_ns);
                    }
                }
                FaultKind::Corrupt { probability } => {
                    if chance(probability) {
                        let bit = self.rng.bits();
                        corrupt(packet, bit);
                    }
                }
                FaultKind::Strip { probability } => {
                    if chance(probability) {
                        strip(packet);
                    }
                }
                FaultKind::Int(lie) => {
                    if let Some(hop) = self.lie(lie, at_ns) {
                        stamp(packet, &hop);
                    }
                }
                FaultKind::Rate { .. } | FaultKind::Delay { .. } => {}
            }
        }
        if gone {
            return Ok(());
        }
        match late {
            Some(delay_ns) => {
                self.count += 1;
                let late = (at_ns + delay_ns, self.count, packet.to_vec());
                self.late.push(Reverse(late));
            }
            None => self.send(packet)?,
        }
        if twice {
            self.send(packet)?;
        }
        Ok(())
    }

    /// What the port says instead of the truth; the simulator's lies.
    fn lie(&mut self, lie: IntFault, at_ns: u64) -> Option<Hop> {
        let rate = self.network.port(self.port).rate_bps;
        let hop = Hop {
            delay_ns: 0,
            qlen_bytes: 0,
            tx_bytes: self.tx_bytes,
            time_ns: at_ns,
            load: 0,
            speed: Speed::from_mbps(u32::try_from(rate / 1_000_000).unwrap_or(0)),
            hop_id: self.port.0 as u8,
            shift: mpd::DEFAULT_SHIFT,
        };
        Some(match lie {
            IntFault::Off => return None,
            IntFault::Zero => hop,
            IntFault::Max => Hop {
                delay_ns: u64::MAX,
                qlen_bytes: u32::MAX,
                tx_bytes: u64::MAX,
                load: 255,
                ..hop
            },
            IntFault::Random => {
                let (a, b, c) = (self.rng.bits(), self.rng.bits(), self.rng.bits());
                Hop {
                    delay_ns: a & 0x3ffff,
                    qlen_bytes: (a >> 32) as u32 & 0x3f_ffff,
                    tx_bytes: b,
                    time_ns: c,
                    load: (c >> 56) as u8,
                    speed: Speed::from_code((b >> 60) as u8),
                    hop_id: (a >> 56) as u8,
                    shift: hop.shift,
                }
            }
        })
    }
}

/// Where the TCP header of a packet begins.
fn tcp_header(packet: &[u8]) -> Option<usize> {
    const TCP: u8 = 6;
    let ip = VNET_HEADER + 14;
    let at = match (packet.get(VNET_HEADER + 12..ip)?, packet.get(ip)? >> 4) {
        ([0x08, 0x00], 4) if *packet.get(ip + 9)? == TCP => {
            ip + usize::from(packet.get(ip)? & 15) * 4
        }
        ([0x86, 0xdd], 6) if *packet.get(ip + 6)? == TCP => ip + 40,
        _ => return None,
    };
    packet.get(at..at + 20).map(|_| at)
}

/// Its TCP options.
fn options(packet: &mut [u8]) -> Option<&mut [u8]> {
    let tcp = tcp_header(packet)?;
    let end = tcp + usize::from(packet.get(tcp + 12)? >> 4) * 4;
    packet.get_mut(tcp + 20..end)
}

/// Replaces the option by padding.
fn strip(packet: &mut [u8]) {
    const NOP: u8 = 1;
    finish_checksum(packet);
    let Some(tcp) = tcp_header(packet) else {
        return;
    };
    let Some(options) = options(packet) else {
        return;
    };
    if let Ok(found) = option::find(options) {
        let Some(bytes) = options.get_mut(found.at..found.at + found.len) else {
            return;
        };
        bytes.fill(NOP);
        rewrite_checksum(packet, tcp);
    }
}

/// Writes telemetry, as a port does.
fn stamp(packet: &mut [u8], hop: &Hop) {
    finish_checksum(packet);
    let Some(tcp) = tcp_header(packet) else {
        return;
    };
    let stamped = options(packet).is_some_and(|options| hop.stamp(options).is_ok());
    if stamped {
        rewrite_checksum(packet, tcp);
    }
}

/// Flips a bit of the TCP segment; the receiver's checksum finds it.
fn corrupt(packet: &mut [u8], random: u64) {
    finish_checksum(packet);
    let Some(tcp) = tcp_header(packet) else {
        return;
    };
    let bits = (packet.len() - tcp) as u64 * 8;
    let bit = random % bits;
    packet[tcp + (bit / 8) as usize] ^= 1 << (bit % 8);
}

/// Fills in the checksum that the sender left to its device, so that the packet is as it would be on a
/// wire.
fn finish_checksum(packet: &mut [u8]) {
    const NEEDS_CHECKSUM: u8 = 1;
    if packet
        .first()
        .is_none_or(|flags| flags & NEEDS_CHECKSUM == 0)
    {
        return;
    }
    packet[..VNET_HEADER].fill(0);
    if let Some(tcp) = tcp_header(packet) {
        rewrite_checksum(packet, tcp);
    }
}

/// The TCP checksum, anew.
fn rewrite_checksum(packet: &mut [u8], tcp: usize) {
    let ip = VNET_HEADER + 14;
    let (addresses, end) = if packet[ip] >> 4 == 4 {
        let length = u16::from_be_bytes([packet[ip + 2], packet[ip + 3]]);
        (ip + 12..ip + 20, ip + usize::from(length))
    } else {
        let length = u16::from_be_bytes([packet[ip + 4], packet[ip + 5]]);
        (ip + 8..ip + 40, ip + 40 + usize::from(length))
    };
    let end = end.clamp(tcp + 20, packet.len());
    packet[tcp + 16..tcp + 18].fill(0);
    let mut sum = words(&packet[addresses]) + 6 + (end - tcp) as u64 + words(&packet[tcp..end]);
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    packet[tcp + 16..tcp + 18].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// The sum of 16-bit words.
fn words(bytes: &[u8]) -> u64 {
    bytes
        .chunks(2)
        .map(|w| u64::from(w[0]) << 8 | u64::from(w.get(1).copied().unwrap_or(0)))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet whose checksum was computed by hand: 10.0.0.1:1 to 10.0.0.2:2, a SYN, no payload.
    fn packet() -> Vec<u8> {
        let mut p = vec![0; VNET_HEADER + 12];
        p.extend([0x08, 0x00]);
        p.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0]);
        p.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        p.extend([
            0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0,
        ]);
        p
    }

    #[test]
    fn checksum_and_corruption() {
        let mut p = packet();
        let tcp = tcp_header(&p).expect("a TCP packet");
        rewrite_checksum(&mut p, tcp);
        // 0a00+0001+0a00+0002 + 6 + 20 + 1 + 2 + 5002 = 0x6422; its complement.
        assert_eq!(p[tcp + 16..tcp + 18], 0x9bdd_u16.to_be_bytes());
        let whole = p.clone();
        corrupt(&mut p, 0x1234);
        let flipped: u32 = p
            .iter()
            .zip(&whole)
            .map(|(a, b)| (a ^ b).count_ones())
            .sum();
        assert_eq!(flipped, 1);
    }

    #[test]
    fn what_is_no_tcp_is_left_alone() {
        let mut p = packet();
        p[VNET_HEADER + 14 + 9] = 17;
        let before = p.clone();
        corrupt(&mut p, 7);
        strip(&mut p);
        assert_eq!(p, before);
        for cut in 0..packet().len() {
            let mut p = packet()[..cut].to_vec();
            corrupt(&mut p, 7);
            strip(&mut p);
            stamp(&mut p, &Hop::default());
        }
    }
}
