// SPDX-License-Identifier: GPL-2.0
//! What the standard library's TCP sockets lack.

use anyhow::{Context as _, Result};
use nix::{
    getsockopt_impl, setsockopt_impl, sockopt_impl,
    sys::socket::{getsockopt, setsockopt, sockopt},
};
use std::{ffi::OsString, os::fd::AsFd};

/// `struct tcp_info`, as far as we read it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct TcpInfo {
    pub state: u8,
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    pub options: u8,
    pub wscale: u8,
    pub flags: u8,
    pub rto: u32,
    pub ato: u32,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub fackets: u32,
    pub last: [u32; 4],
    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    pub rtt: u32,
    pub rttvar: u32,
    pub snd_ssthresh: u32,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
    pub rcv_rtt: u32,
    pub rcv_space: u32,
    pub total_retrans: u32,
    pub pacing_rate: u64,
    pub max_pacing_rate: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub notsent_bytes: u32,
    pub min_rtt: u32,
    pub data_segs_in: u32,
    pub data_segs_out: u32,
    pub delivery_rate: u64,
    pub busy_time: u64,
    pub rwnd_limited: u64,
    pub sndbuf_limited: u64,
    pub delivered: u32,
    pub delivered_ce: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub rcv_ooopack: u32,
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    pub rehash: u32,
    pub total_rto: u16,
    pub total_rto_recoveries: u16,
    pub total_rto_time: u32,
}

impl TcpInfo {
    /// Payload that the peer has acknowledged; the kernel counts the SYN among it.
    pub fn payload_acked(&self) -> u64 {
        self.bytes_acked.saturating_sub(1)
    }
}

/// ECN was negotiated ([`TcpInfo::options`]).
pub const OPT_ECN: u8 = 8;
/// The SYN carried data that was acknowledged ([`TcpInfo::options`]).
pub const OPT_SYN_DATA: u8 = 32;

/// What a congestion control of ours tells of itself, in the form of `struct tcp_bbr_info`.
#[derive(Clone, Copy, Debug)]
pub struct CcInfo {
    /// Pacing rate, bytes per second.
    pub rate: u64,
    /// Base RTT.
    pub min_rtt_us: u32,
}

sockopt_impl!(
    /// What TCP knows of a connection.
    TcpInfoOpt, GetOnly, libc::IPPROTO_TCP, libc::TCP_INFO, TcpInfo);

/// What TCP knows of a connection.
pub fn info(socket: impl AsFd) -> Result<TcpInfo> {
    getsockopt(&socket, TcpInfoOpt).context("TCP_INFO")
}

sockopt_impl!(
    /// What the congestion control tells of itself.
    TcpCcInfoOpt, GetOnly, libc::IPPROTO_TCP, libc::TCP_CC_INFO, [u32; 5]);

sockopt_impl!(
    /// How many connections a listener accepts with data on their SYN.
    TcpFastOpen, SetOnly, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, u32);

sockopt_impl!(
    /// Data of the first write goes with the SYN.
    TcpFastOpenConnect, SetOnly, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, u32);

/// What the congestion control of a connection tells of itself.
pub fn cc_info(socket: impl AsFd) -> Result<CcInfo> {
    let [low, high, min_rtt_us, ..] = getsockopt(&socket, TcpCcInfoOpt).context("TCP_CC_INFO")?;
    Ok(CcInfo {
        rate: u64::from(high) << 32 | u64::from(low),
        min_rtt_us,
    })
}

/// Lets a listener accept data on SYNs.
pub fn set_fast_open(socket: impl AsFd, connections: u32) -> Result<()> {
    setsockopt(&socket, TcpFastOpen, &connections).context("TCP_FASTOPEN")
}

/// Lets the first write of a socket go with its SYN.
pub fn set_fast_open_connect(socket: impl AsFd) -> Result<()> {
    setsockopt(&socket, TcpFastOpenConnect, &1).context("TCP_FASTOPEN_CONNECT")
}

sockopt_impl!(
    /// The largest window that is offered, bytes.
    WindowClamp, SetOnly, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, u32);
sockopt_impl!(
    /// Writes wait while this much is unsent, bytes.
    NotsentLowat, SetOnly, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, u32);
sockopt_impl!(
    /// Which time stamps the error queue brings (SOF_TIMESTAMPING_*).
    Timestamping, SetOnly, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, u32);

/// The receiver offers no more than this, bytes.
pub fn clamp_window(socket: impl AsFd, bytes: u64) -> Result<()> {
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    setsockopt(&socket, WindowClamp, &bytes).context("TCP_WINDOW_CLAMP")
}

/// Writes wait while this much is unsent, bytes.
pub fn limit_unsent(socket: impl AsFd, bytes: u32) -> Result<()> {
    setsockopt(&socket, NotsentLowat, &bytes).context("TCP_NOTSENT_LOWAT")
}

/// The error queue tells when the last byte of each write was acknowledged.
pub fn tell_of_acks(socket: impl AsFd) -> Result<()> {
    const TX_ACK: u32 = 1 << 9;
    let flags = TX_ACK | libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    setsockopt(&socket, Timestamping, &flags).context("SO_TIMESTAMPING")
}

/// Chooses the congestion control of a socket.
pub fn set_congestion(socket: impl AsFd, name: &str) -> nix::Result<()> {
    setsockopt(&socket, sockopt::TcpCongestion, &OsString::from(name))
}

/// The congestion control that a socket has.
pub fn congestion(socket: impl AsFd) -> Result<String> {
    let name = getsockopt(&socket, sockopt::TcpCongestion).context("TCP_CONGESTION")?;
    Ok(name.to_string_lossy().trim_end_matches('\0').to_owned())
}
