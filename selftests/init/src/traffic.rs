// SPDX-License-Identifier: GPL-2.0
//! TCP flows with real sockets: one thread sends, one receives.

use crate::{netns::Netns, tcp};
use anyhow::{Context as _, Result};
use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd as _,
    sync::{Arc, OnceLock},
    thread,
    time::{Duration, Instant},
};

/// Large enough that writes never decide what a packet looks like.
const CHUNK: usize = 1 << 20;

/// A flow in the making; its socket appears when it connects.
#[derive(Clone)]
pub struct Sender {
    socket: Arc<OnceLock<TcpStream>>,
    error: Arc<OnceLock<String>>,
}

impl Sender {
    /// The connected socket.
    pub fn socket(&self) -> Option<&TcpStream> {
        self.socket.get()
    }

    /// Why it failed, if it did.
    pub fn error(&self) -> Option<&str> {
        self.error.get().map(String::as_str)
    }
}

/// Listens in `ns` and swallows whatever arrives on the first connection. The receiver has the congestion
/// control of the sender: DCTCP's ECN is only negotiated when both ends speak it.
pub fn receive(ns: &Netns, address: IpAddr, cc: &str) -> Result<SocketAddr> {
    let listener = ns
        .enter(|| TcpListener::bind((address, 0)))?
        .with_context(|| format!("listen on {address}"))?;
    tcp::set_congestion(&listener, cc).with_context(|| format!("congestion control {cc}"))?;
    let at = listener.local_addr()?;
    thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else {
            return;
        };
        let mut buffer = vec![0; CHUNK];
        while matches!(stream.read(&mut buffer), Ok(n) if n > 0) {}
    });
    Ok(at)
}

/// Connects from `ns` to `to` at `start` and sends `bytes`, or for ever.
pub fn send(ns: &Netns, to: SocketAddr, cc: &str, start: Instant, bytes: Option<u64>) -> Sender {
    let sender = Sender {
        socket: Arc::default(),
        error: Arc::default(),
    };
    let (ns, cc, mine) = (ns.clone(), cc.to_owned(), sender.clone());
    thread::spawn(move || {
        if let Err(e) = send_now(&ns, to, &cc, start, bytes, &mine.socket) {
            mine.error.set(format!("{e:#}")).ok();
        }
    });
    sender
}

fn send_now(
    ns: &Netns,
    to: SocketAddr,
    cc: &str,
    start: Instant,
    bytes: Option<u64>,
    slot: &OnceLock<TcpStream>,
) -> Result<()> {
    ns.join()?;
    sleep_until(start);
    let stream = connect(to, cc)?;
    let mut stream = slot.get_or_init(|| stream);
    let chunk = vec![0x5a; CHUNK];
    let mut left = bytes.unwrap_or(u64::MAX);
    while left > 0 {
        let n = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
        left -= stream.write(&chunk[..n]).context("write")? as u64;
    }
    Ok(())
}

/// A connection whose congestion control is chosen before the handshake.
pub fn connect(to: SocketAddr, cc: &str) -> Result<TcpStream> {
    connect_socket(to, cc, |_| Ok(()))
}

/// The same, with the data of the first write on the SYN.
pub fn connect_fast(to: SocketAddr, cc: &str) -> Result<TcpStream> {
    connect_socket(to, cc, |fd| tcp::set_fast_open_connect(fd))
}

fn connect_socket(
    to: SocketAddr,
    cc: &str,
    prepare: impl FnOnce(std::os::fd::BorrowedFd<'_>) -> Result<()>,
) -> Result<TcpStream> {
    use nix::sys::socket::{connect, socket, AddressFamily, SockFlag, SockType, SockaddrStorage};
    let family = if to.is_ipv6() {
        AddressFamily::Inet6
    } else {
        AddressFamily::Inet
    };
    let fd = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).context("socket")?;
    tcp::set_congestion(&fd, cc).with_context(|| format!("congestion control {cc}"))?;
    prepare(fd.as_fd())?;
    use std::os::fd::AsRawFd as _;
    connect(fd.as_raw_fd(), &SockaddrStorage::from(to))
        .with_context(|| format!("connect to {to}"))?;
    Ok(TcpStream::from(fd))
}

/// Sleeps until `at`; returns at once when that is past.
pub fn sleep_until(at: Instant) {
    let now = Instant::now();
    if at > now {
        thread::sleep(at - now);
    }
}

/// Microseconds as a duration.
pub fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}
