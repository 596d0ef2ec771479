// SPDX-License-Identifier: GPL-2.0
//! Telemetry of the software switch port: packets of our own making go in at one end of a veth and are
//! looked at, byte by byte, at the other.

use super::data::Pair;
use crate::{ktap::Outcome, modules, net};
use anyhow::{ensure, Context as _, Result};
use nix::sys::{
    socket::{
        bind, recv, send, setsockopt, socket, sockopt, AddressFamily, MsgFlags, SockFlag,
        SockProtocol, SockType,
    },
    time::{TimeVal, TimeValLike as _},
};
use std::os::fd::{AsRawFd as _, OwnedFd};
use wire::{exid, tc, KIND};

const MODULE: &str = "sch_int";
const ETHERNET: usize = 14;

/// A port writes into each format it knows, keeps the checksum right, and touches nothing else.
pub fn formats() -> Result<Outcome> {
    modules::load(MODULE, "").context("load")?;
    let pair = Pair::new()?;
    let mut options = net::port(1000, 0, 1 << 20, 0);
    options.extend(tc::attribute(tc::INT, 1));
    options.extend(tc::attribute(tc::HOP_ID, 7));
    pair.qdisc(tc::NAME, options)?;
    let (from, to) = (pair.raw_a()?, pair.raw_b()?);

    let id = |exid: u16, len: u8| [KIND, len, exid.to_be_bytes()[0], exid.to_be_bytes()[1]];
    let option = |exid, len: u8| [&id(exid, len)[..], &vec![0; len as usize - 4]].concat();
    let timestamps = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let mut port = 1000;
    for (name, tcp_options, at) in [
        ("mpd", option(exid::MPD, 8), Some(0..8)),
        ("bottleneck", option(exid::BOTTLENECK, 16), Some(0..16)),
        ("stack", option(exid::STACK, 12), Some(0..12)),
        (
            "mpd after timestamps",
            [&timestamps[..], &option(exid::MPD, 8)].concat(),
            Some(12..20),
        ),
        ("an echo", option(exid::BOTTLENECK_ECHO, 16), None),
        ("no option", vec![], None),
        ("timestamps alone", timestamps.to_vec(), None),
        (
            "an option that claims more than there is",
            [&id(exid::MPD, 40)[..], &[0; 4]].concat(),
            None,
        ),
        ("mpd of a wrong length", option(exid::MPD, 12), None),
        ("another experiment", option(0x1234, 8), None),
    ] {
        for ipv6 in [false, true] {
            port += 1;
            let sent = packet(ipv6, port, &tcp_options);
            let head = ETHERNET + if ipv6 { 40 } else { 20 };
            ensure!(
                checksum_is_right(&sent, ipv6),
                "{name}: the test's own checksum is wrong"
            );
            send(from.as_raw_fd(), &sent, MsgFlags::empty()).context("send")?;
            let got = receive(&to, ipv6, port).with_context(|| format!("{name}, ipv6 {ipv6}"))?;
            ensure!(
                got.len() == sent.len(),
                "{name}: {} bytes became {}",
                sent.len(),
                got.len()
            );
            ensure!(
                checksum_is_right(&got, ipv6),
                "{name}, ipv6 {ipv6}: the checksum is wrong now"
            );
            // The checksum's own two bytes and, where a format is known, the option may change.
            let may = |i: usize| {
                let in_tcp = i.wrapping_sub(head);
                let in_options = in_tcp.wrapping_sub(20);
                at.as_ref()
                    .is_some_and(|at| at.contains(&in_options) || (16..18).contains(&in_tcp))
            };
            for i in 0..sent.len() {
                ensure!(
                    sent[i] == got[i] || may(i),
                    "{name}, ipv6 {ipv6}: byte {i} changed"
                );
            }
            let Some(at) = &at else { continue };
            let option = &got[head + 20 + at.start..head + 20 + at.end];
            match option[2..4] {
                [h, l] if [h, l] == exid::MPD.to_be_bytes() => {
                    let word = u16::from_be_bytes([option[4], option[5]]);
                    ensure!(word & 15 == 1, "{name}: {} hops after one", word & 15);
                }
                [h, l] if [h, l] == exid::BOTTLENECK.to_be_bytes() => {
                    ensure!(option[4] == 7, "{name}: hop id {}, expected 7", option[4]);
                }
                _ => ensure!(
                    option[4] >> 4 == 7,
                    "{name}: hop id {}, expected 7",
                    option[4] >> 4
                ),
            }
        }
    }
    drop((from, to, pair));
    super::unload_when_free(MODULE)
}

/// A raw socket on an interface of the current namespace; packets pass its queue.
pub fn raw_socket(name: &str) -> Result<OwnedFd> {
    let protocol = SockProtocol::EthAll;
    let fd = socket(
        AddressFamily::Packet,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        protocol,
    )?;
    let address = nix::ifaddrs::getifaddrs()?
        .filter(|a| a.interface_name == name)
        .find_map(|a| a.address?.as_link_addr().copied())
        .with_context(|| format!("interface {name} has no link address"))?;
    bind(fd.as_raw_fd(), &address).context("bind a raw socket")?;
    setsockopt(&fd, sockopt::ReceiveTimeout, &TimeVal::seconds(5))?;
    Ok(fd)
}

/// The next packet from TCP port `port`.
fn receive(from: &OwnedFd, ipv6: bool, port: u16) -> Result<Vec<u8>> {
    let head = ETHERNET + if ipv6 { 40 } else { 20 };
    let kind: [u8; 2] = if ipv6 { [0x86, 0xdd] } else { [8, 0] };
    let mut buffer = [0; 2048];
    loop {
        let n =
            recv(from.as_raw_fd(), &mut buffer, MsgFlags::empty()).context("nothing arrived")?;
        let got = &buffer[..n];
        if n >= head + 20 && got[12..14] == kind && got[head..head + 2] == port.to_be_bytes() {
            return Ok(got.to_vec());
        }
    }
}

/// An Ethernet frame with a TCP segment of 100 bytes of payload.
fn packet(ipv6: bool, port: u16, options: &[u8]) -> Vec<u8> {
    let mut tcp = vec![0; 20];
    tcp[..2].copy_from_slice(&port.to_be_bytes());
    tcp[2..4].copy_from_slice(&9u16.to_be_bytes());
    tcp[12] = ((20 + options.len()) as u8 / 4) << 4;
    tcp[13] = 0x10; // ACK
    tcp.extend(options);
    tcp.extend((0..100).map(|i| i as u8));
    let len = tcp.len() as u16;
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1]);
    if ipv6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(len.to_be_bytes());
        frame.extend([6, 64]);
        frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    } else {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((20 + len).to_be_bytes());
        frame.extend([0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 9]);
        let check = !sum(&frame[ETHERNET..ETHERNET + 20]);
        frame[24..26].copy_from_slice(&check.to_be_bytes());
    }
    let head = frame.len();
    frame.extend(tcp);
    let check = !pseudo_sum(&frame, ipv6);
    frame[head + 16..head + 18].copy_from_slice(&check.to_be_bytes());
    frame
}

fn checksum_is_right(frame: &[u8], ipv6: bool) -> bool {
    pseudo_sum(frame, ipv6) == 0xffff
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
