// SPDX-License-Identifier: GPL-2.0
//! TCP flows with real sockets. Code takes no virtual time, so a thread per connection costs nothing that
//! is measured.

use crate::{netns::Netns, tcp};
use anyhow::{Context as _, Result};
use nix::{
    poll::{poll, PollFd, PollFlags, PollTimeout},
    sys::socket::{getsockopt, recv, sockopt, MsgFlags},
};
use scenario::Work;
use std::{
    collections::HashMap,
    io::{self, Read as _},
    net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd as _, AsRawFd as _},
    sync::{Arc, LazyLock, Mutex, OnceLock},
    thread,
    time::{Duration, Instant},
};

/// Large enough that writes never decide what a packet looks like.
const CHUNK: usize = 1 << 20;
/// What a flow that will be stopped leaves unsent in its socket at most, bytes: what is in there when it
/// is stopped is still sent.
const UNSENT: u32 = 16 << 10;
/// A thread here needs little.
const STACK: usize = 128 << 10;

/// What a receiver does with what it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// Swallows it.
    Sink,
    /// Answers each request of so many bytes with so many.
    Answer(u64, u64),
}

impl Service {
    /// What the receiver of a flow does.
    pub fn of(work: &Work) -> Self {
        match *work {
            Work::Rpc {
                request, response, ..
            } => Self::Answer(request, response),
            Work::Long | Work::Bytes(_) => Self::Sink,
        }
    }
}

/// Listeners by node, congestion control and service. The receiver has the congestion control of the
/// sender: DCTCP's ECN is only negotiated when both ends speak it.
#[derive(Default)]
pub struct Listeners(HashMap<(usize, String, Service), SocketAddr>);

impl Listeners {
    /// Where `node`, which is `ns` with `address`, listens for this.
    pub fn at(
        &mut self,
        node: usize,
        ns: &Netns,
        address: IpAddr,
        cc: &str,
        service: Service,
        window: u64,
    ) -> Result<SocketAddr> {
        let key = (node, cc.to_owned(), service);
        if let Some(at) = self.0.get(&key) {
            return Ok(*at);
        }
        let listener = ns
            .enter(|| TcpListener::bind((address, 0)))?
            .with_context(|| format!("listen on {address}"))?;
        tcp::set_congestion(&listener, cc).with_context(|| format!("congestion control {cc}"))?;
        if window != 0 {
            tcp::clamp_window(&listener, window)?;
        }
        let at = listener.local_addr()?;
        spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                spawn(move || serve(stream, service));
            }
        });
        self.0.insert(key, at);
        Ok(at)
    }
}

/// A thread with a small stack.
pub fn spawn(f: impl FnOnce() + Send + 'static) {
    // Only a machine without memory fails here, and the run with it: the flow has no end then.
    thread::Builder::new().stack_size(STACK).spawn(f).ok();
}

fn serve(mut stream: TcpStream, service: Service) {
    let mut buffer = vec![0; CHUNK];
    let mut received = 0;
    loop {
        // Of TCP, MSG_TRUNC takes the bytes without copying them.
        let n = match recv(stream.as_raw_fd(), &mut buffer, MsgFlags::MSG_TRUNC) {
            Ok(0) => return,
            Ok(n) => n as u64,
            Err(nix::errno::Errno::EINTR) => continue,
            Err(_) => return,
        };
        let Service::Answer(request, response) = service else {
            continue;
        };
        received += n;
        while received >= request {
            received -= request;
            if write_all(&mut stream, response).is_err() {
                return;
            }
        }
    }
}

fn write_all(stream: &mut impl io::Write, mut left: u64) -> io::Result<()> {
    static ZEROS: LazyLock<Vec<u8>> = LazyLock::new(|| vec![0; CHUNK]);
    while left > 0 {
        let n = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
        left -= stream.write(&ZEROS[..n])? as u64;
    }
    Ok(())
}

/// A connection to be.
pub struct Flow {
    /// Where it connects from.
    pub ns: Netns,
    /// Where to.
    pub to: SocketAddr,
    /// Congestion control.
    pub cc: String,
    /// What it does.
    pub work: Work,
    /// The application offers no more than this, bits of payload per second; 0 = as much as fits.
    pub app_bps: u64,
    /// Somebody will stop it.
    pub stops: bool,
}

/// A flow in the making; its socket appears when it connects.
#[derive(Clone, Default)]
pub struct Sender {
    socket: Arc<OnceLock<TcpStream>>,
    done: Arc<OnceLock<(Instant, tcp::TcpInfo)>>,
    error: Arc<OnceLock<String>>,
    latencies_ns: Arc<Mutex<Vec<u64>>>,
}

impl Sender {
    /// The connected socket.
    pub fn socket(&self) -> Option<&TcpStream> {
        self.socket.get()
    }

    /// When its last byte was acknowledged, and what TCP knew then.
    pub fn done(&self) -> Option<&(Instant, tcp::TcpInfo)> {
        self.done.get()
    }

    /// Why it failed, if it did.
    pub fn error(&self) -> Option<&str> {
        self.error.get().map(String::as_str)
    }

    /// How long requests took, ns.
    pub fn latencies_ns(&self) -> Vec<u64> {
        self.latencies_ns
            .lock()
            .map_or_else(|e| e.into_inner().clone(), |l| l.clone())
    }

    /// Nothing more is written; what was written is sent.
    pub fn stop(&self) {
        if let Some(socket) = self.socket() {
            socket.shutdown(Shutdown::Write).ok();
        }
    }

    /// Connects now, in a thread of its own, and does what `flow` says.
    pub fn start(&self, flow: Flow) {
        let mine = self.clone();
        spawn(move || {
            if let Err(e) = mine.run(&flow) {
                mine.error.set(format!("{e:#}")).ok();
            }
        });
    }

    fn run(&self, flow: &Flow) -> Result<()> {
        flow.ns.join()?;
        let stream = connect(flow.to, &flow.cc)?;
        stream.set_nodelay(true)?;
        if flow.stops {
            tcp::limit_unsent(&stream, UNSENT)?;
        }
        let stream = self.socket.get_or_init(|| stream);
        match flow.work {
            Work::Long | Work::Bytes(_) => {
                let bytes = match flow.work {
                    Work::Bytes(bytes) => bytes,
                    _ => u64::MAX,
                };
                if bytes != u64::MAX {
                    // So that whoever waits for the last byte is told when it is acknowledged.
                    tcp::tell_of_acks(stream)?;
                }
                match write_at_rate(stream, bytes, flow.app_bps) {
                    // It was stopped.
                    Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                    other => other.context("write")?,
                }
                self.wait_for_acks(stream, bytes)
            }
            Work::Rpc {
                request,
                response,
                count,
                think_ns,
            } => {
                let count = count.unwrap_or(u64::MAX);
                for i in 0..count {
                    let asked = Instant::now();
                    match write_all(&mut &*stream, request) {
                        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                        other => other.context("write")?,
                    }
                    if !read_exactly(stream, response)? {
                        return Ok(());
                    }
                    let took = asked.elapsed().as_nanos() as u64;
                    if let Ok(mut latencies) = self.latencies_ns.lock() {
                        latencies.push(took);
                    }
                    if think_ns != 0 && i + 1 < count {
                        thread::sleep(Duration::from_nanos(think_ns));
                    }
                }
                let info = tcp::info(stream)?;
                self.done.set((Instant::now(), info)).ok();
                Ok(())
            }
        }
    }

    /// Waits until `bytes` are acknowledged.
    fn wait_for_acks(&self, stream: &TcpStream, bytes: u64) -> Result<()> {
        loop {
            let info = tcp::info(stream)?;
            if info.payload_acked() >= bytes {
                self.done.set((Instant::now(), info)).ok();
                return Ok(());
            }
            // Errors are always polled for; an acknowledged write is told of as one.
            let mut fds = [PollFd::new(stream.as_fd(), PollFlags::empty())];
            poll(&mut fds, PollTimeout::NONE).context("poll")?;
            let queue = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
            match recv(stream.as_raw_fd(), &mut [], queue) {
                Ok(_) => {}
                Err(nix::errno::Errno::EAGAIN) => {
                    // Not an ACK: the connection itself is in error.
                    let error = getsockopt_error(stream)?;
                    anyhow::ensure!(error == 0, "{}", io::Error::from_raw_os_error(error));
                    anyhow::bail!("the receiver closed the connection");
                }
                Err(e) => return Err(e).context("error queue"),
            }
        }
    }
}

fn getsockopt_error(stream: &TcpStream) -> Result<i32> {
    getsockopt(stream, sockopt::SocketError).context("SO_ERROR")
}

/// Writes `bytes`, no faster than `bps`; 0 = as fast as the socket takes them.
fn write_at_rate(mut stream: &TcpStream, bytes: u64, bps: u64) -> io::Result<()> {
    if bps == 0 {
        return write_all(&mut stream, bytes);
    }
    // A segment at a time, as the simulator's application does.
    let mss = tcp::info(stream)
        .map_or(1448, |i| u64::from(i.snd_mss))
        .max(1);
    let (start, mut written) = (Instant::now(), 0);
    while written < bytes {
        let ns = u128::from(written) * 8_000_000_000 / u128::from(bps);
        sleep_until(start + Duration::from_nanos(ns as u64));
        let n = mss.min(bytes - written);
        write_all(&mut stream, n)?;
        written += n;
    }
    Ok(())
}

/// False when the connection ended before.
fn read_exactly(mut stream: &TcpStream, mut left: u64) -> Result<bool> {
    let mut buffer = vec![0; CHUNK.min(left as usize).max(1)];
    while left > 0 {
        let most = buffer.len().min(left as usize);
        match stream.read(&mut buffer[..most]) {
            Ok(0) => return Ok(false),
            Ok(n) => left -= n as u64,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e).context("read"),
        }
    }
    Ok(true)
}

/// Listens in `ns` and swallows whatever arrives.
pub fn receive(ns: &Netns, address: IpAddr, cc: &str) -> Result<SocketAddr> {
    Listeners::default().at(0, ns, address, cc, Service::Sink, 0)
}

/// Connects from `ns` to `to` at `start` and sends `bytes`, or for ever.
pub fn send(ns: &Netns, to: SocketAddr, cc: &str, start: Instant, bytes: Option<u64>) -> Sender {
    let sender = Sender::default();
    let (mine, flow) = (
        sender.clone(),
        Flow {
            ns: ns.clone(),
            to,
            cc: cc.to_owned(),
            work: bytes.map_or(Work::Long, Work::Bytes),
            app_bps: 0,
            stops: false,
        },
    );
    spawn(move || {
        sleep_until(start);
        mine.start(flow);
    });
    sender
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
