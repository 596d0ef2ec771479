// SPDX-License-Identifier: GPL-2.0
//! One connection of the soak, from both ends: what it sends, how it ends, and what is checked.
//!
//! The client says what it will send and what it wants back, sends, and compares the answer; the server
//! compares what arrives and answers. Streams are made of the connection's seed on both sides. Some connections
//! pause, some change their congestion control on the way, some are broken off at any point.

use crate::tcp;
use anyhow::{bail, ensure, Context as _, Result};
use nix::sys::{
    resource::{getrlimit, setrlimit, Resource},
    socket::{setsockopt, shutdown, sockopt, Shutdown},
};
use std::{
    collections::HashSet,
    fmt,
    io::ErrorKind,
    net::{SocketAddr, TcpListener},
    os::fd::AsRawFd as _,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        Arc, Mutex, MutexGuard, PoisonError,
    },
    time::{Duration, Instant},
};
use tokio::{
    io::Interest,
    net::{TcpSocket, TcpStream},
    task::JoinSet,
    time::timeout,
};

/// A connection of which nothing was acknowledged or received for this long stands still.
const STALL: Duration = Duration::from_secs(60);
/// How often a waiting connection is looked at.
const LOOK: Duration = Duration::from_secs(2);
/// The largest transfer is 2^UP bytes, the largest answer 2^DOWN.
const UP: u32 = 19;
const DOWN: u32 = 16;
const CHUNK: usize = 1 << 14;
/// After so many failures no more connections are opened.
const ENOUGH: usize = 100;
/// Seed, bytes up, bytes down.
const HEADER: usize = 24;

/// What both ends share.
pub struct Shared {
    cc: String,
    connections: usize,
    end: Instant,
    opened: AtomicU64,
    done: AtomicU64,
    aborted: AtomicU64,
    switched: AtomicU64,
    bytes: AtomicU64,
    /// The client opens no more.
    closing: AtomicBool,
    /// Seeds of connections that were broken off; the reset itself may have been lost.
    gone: Mutex<HashSet<u64>>,
    failures: Mutex<Vec<String>>,
}

/// What it came to.
pub struct Totals {
    pub opened: u64,
    pub done: u64,
    pub aborted: u64,
    pub switched: u64,
    pub bytes: u64,
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            opened,
            done,
            aborted,
            switched,
            bytes,
        } = self;
        write!(
            f,
            "{opened} connections, {done} whole, {aborted} broken off, {switched} with a change of congestion control, {bytes} bytes compared"
        )
    }
}

impl Shared {
    /// For `connections` at a time, new ones until `end`.
    pub fn new(cc: &str, connections: usize, end: Instant) -> Self {
        Self {
            cc: cc.to_owned(),
            connections,
            end,
            opened: AtomicU64::new(0),
            done: AtomicU64::new(0),
            aborted: AtomicU64::new(0),
            switched: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            gone: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    /// What it came to.
    pub fn totals(&self) -> Totals {
        Totals {
            opened: self.opened.load(Relaxed),
            done: self.done.load(Relaxed),
            aborted: self.aborted.load(Relaxed),
            switched: self.switched.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }

    /// What went wrong; that of clients first, whose connections they are.
    pub fn failures(&self) -> Vec<String> {
        let mut failures = lock(&self.failures).clone();
        failures.sort();
        failures
    }

    /// The client of a connection has no more to do with it.
    fn is_gone(&self, seed: Option<u64>) -> bool {
        let broken_off = seed.is_some_and(|seed| lock(&self.gone).contains(&seed));
        broken_off || self.closing.load(Relaxed)
    }

    fn failed(&self, who: &str, error: &anyhow::Error) {
        lock(&self.failures).push(format!("{who}: {error:#}"));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets this process have that many sockets, and some files.
pub fn room_for_sockets(sockets: usize) -> Result<()> {
    let wanted = sockets as u64 + 256;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("RLIMIT_NOFILE")?;
    if soft < wanted {
        setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted)).context("RLIMIT_NOFILE")?;
    }
    Ok(())
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().context("tokio runtime")
}

/// Opens connections, as many at a time as asked for, until the end, and waits for the last.
pub fn open_all(to: SocketAddr, shared: &Arc<Shared>) -> Result<()> {
    runtime()?.block_on(async {
        let mut slots = JoinSet::new();
        for slot in 0..shared.connections {
            let shared = shared.clone();
            slots.spawn(async move {
                let mut random = Random::new(slot as u64);
                // Not all at once, but soon.
                tokio::time::sleep(Duration::from_micros(random.below(200_000))).await;
                loop {
                    shared.opened.fetch_add(1, Relaxed);
                    if let Err(e) = open(to, &shared, random.next()).await {
                        shared.failed(&format!("client {slot}"), &e);
                    }
                    if Instant::now() >= shared.end || lock(&shared.failures).len() >= ENOUGH {
                        break;
                    }
                }
            });
        }
        while slots.join_next().await.is_some() {}
        // One more, so that the server looks.
        shared.closing.store(true, Relaxed);
        connect(to, "cubic").await.map(drop)
    })
}

async fn connect(to: SocketAddr, cc: &str) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4().context("socket")?;
    tcp::set_congestion(&socket, cc).with_context(|| format!("congestion control {cc}"))?;
    let connected = timeout(2 * STALL, socket.connect(to)).await;
    connected
        .context("not connected in time")?
        .context("connect")
}

async fn open(to: SocketAddr, shared: &Shared, seed: u64) -> Result<()> {
    let mut random = Random::new(seed);
    let up = random.size(UP);
    let down = if random.one_in(2) {
        random.size(DOWN)
    } else {
        0
    };
    // Where something happens, in bytes sent or received.
    let mut somewhere = |one_in: u64| random.one_in(one_in).then(|| random.below(up + down));
    let (abort, switch, pause) = (somewhere(16), somewhere(16), somewhere(8));
    let half_close = random.one_in(2);

    let stream = connect(to, &shared.cc).await?;
    let port = stream.local_addr()?.port();
    let name = format!("port {port}, {up} bytes up, {down} down");
    let mut end = End::new(&stream, name, || false);
    let header = [seed, up, down].map(u64::to_le_bytes).concat();
    end.write(&header).await.context("header")?;

    let mut sent = Stream::new(seed);
    let mut expected = Stream::new(!seed);
    let mut buffer = vec![0; CHUNK];
    let (mut at, mut switched) = (0, false);
    let passed = |point: Option<u64>, at: u64, n: u64| point.is_some_and(|p| at <= p && p < at + n);
    let mut told = [0; 8];
    while at < up + down {
        let sending = at < up;
        let left = if sending { up - at } else { up + down - at };
        let n = left.min(CHUNK as u64);
        if passed(pause, at, n) {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        if passed(switch, at, n) {
            tcp::set_congestion(&stream, "cubic").context("switch to cubic")?;
            switched = true;
        } else if switched {
            tcp::set_congestion(&stream, &shared.cc).context("switch back")?;
            switched = false;
            shared.switched.fetch_add(1, Relaxed);
        }
        if passed(abort, at, n) {
            lock(&shared.gone).insert(seed);
            break_off(&stream)?;
            shared.aborted.fetch_add(1, Relaxed);
            return Ok(());
        }
        let part = &mut buffer[..n as usize];
        if sending {
            sent.fill(part);
            end.write(part)
                .await
                .with_context(|| format!("send at byte {at}"))?;
        } else {
            if at == up {
                end.read(&mut told).await.context("what the server has")?;
            }
            end.read(part)
                .await
                .with_context(|| format!("answer at byte {}", at - up))?;
            expected.compare(part)?;
        }
        at += n;
        if at == up && half_close {
            shutdown(stream.as_raw_fd(), Shutdown::Write).context("shut down")?;
        }
    }
    if down == 0 {
        end.read(&mut told).await.context("what the server has")?;
    }
    ensure!(
        u64::from_le_bytes(told) == up,
        "the server has {} bytes of {up}",
        u64::from_le_bytes(told)
    );
    if half_close {
        end.read_end().await?;
    }
    shared.done.fetch_add(1, Relaxed);
    shared.bytes.fetch_add(up + down, Relaxed);
    Ok(())
}

/// Closes with a reset.
fn break_off(stream: &TcpStream) -> Result<()> {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(stream, sockopt::Linger, &linger).context("SO_LINGER")
}

/// Answers connections until the client has no more.
pub fn serve(listener: TcpListener, shared: &Arc<Shared>) -> Result<()> {
    listener.set_nonblocking(true).context("listener")?;
    runtime()?.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).context("listener")?;
        let mut connections = JoinSet::new();
        while !shared.closing.load(Relaxed) {
            let (stream, peer) = listener.accept().await.context("accept")?;
            let shared = shared.clone();
            connections.spawn(async move {
                let (port, mut seed) = (peer.port(), None);
                if let Err(e) = answer(&stream, port, &mut seed, &shared).await {
                    // What never began, the client knows of.
                    if e.is::<Wrong>() || seed.is_some() && !shared.is_gone(seed) {
                        shared.failed(&format!("server of port {port}"), &e);
                    }
                }
            });
            while connections.try_join_next().is_some() {}
        }
        while connections.join_next().await.is_some() {}
        Ok(())
    })
}

/// Answers one connection; its seed is known once its header is there.
async fn answer(
    stream: &TcpStream,
    port: u16,
    known: &mut Option<u64>,
    shared: &Shared,
) -> Result<()> {
    let name = format!("from port {port}");
    let mut end = End::new(stream, name.clone(), || shared.is_gone(None));
    let mut header = [0; HEADER];
    if !end.read_or_end(&mut header).await.context("header")? {
        return Ok(());
    }
    let [seed, up, down] =
        [0, 8, 16].map(|i| u64::from_le_bytes(std::array::from_fn(|k| header[i + k])));
    *known = Some(seed);
    let mut end = End::new(stream, name, || shared.is_gone(Some(seed)));
    ensure!(
        up <= 1 << UP && down <= 1 << DOWN,
        Wrong(format!("header says {up} bytes up, {down} down"))
    );
    let mut buffer = vec![0; CHUNK];
    let mut expected = Stream::new(seed);
    for part in parts(up) {
        let part = &mut buffer[..part];
        end.read(part).await.context("receive")?;
        expected.compare(part)?;
    }
    end.write(&up.to_le_bytes()).await.context("answer")?;
    let mut sent = Stream::new(!seed);
    for part in parts(down) {
        let part = &mut buffer[..part];
        sent.fill(part);
        end.write(part).await.context("answer")?;
    }
    end.read_end().await
}

/// The pieces of `bytes`.
fn parts(bytes: u64) -> impl Iterator<Item = usize> {
    (0..bytes)
        .step_by(CHUNK)
        .map(move |at| (bytes - at).min(CHUNK as u64) as usize)
}

/// What arrived is not what was sent.
#[derive(Debug)]
struct Wrong(String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

/// One end of a connection, and whether it moves.
struct End<'a, Gone> {
    stream: &'a TcpStream,
    name: String,
    /// The other end was broken off.
    gone: Gone,
}

impl<'a, Gone: Fn() -> bool> End<'a, Gone> {
    fn new(stream: &'a TcpStream, name: String, gone: Gone) -> Self {
        Self { stream, name, gone }
    }

    /// Bytes that were acknowledged or received.
    fn progress(&self) -> Result<u64> {
        let info = tcp::info(self.stream)?;
        Ok(info.bytes_acked + info.bytes_received)
    }

    /// Waits until the socket is ready; fails when the connection stands still.
    async fn ready(&self, interest: Interest) -> Result<()> {
        let mut last = (Instant::now(), None);
        loop {
            if let Ok(ready) = timeout(LOOK, self.stream.ready(interest)).await {
                ready.context("poll")?;
                return Ok(());
            }
            ensure!(!(self.gone)(), "broken off");
            let now = Some(self.progress()?);
            if now != last.1 {
                last = (Instant::now(), now);
            } else if last.0.elapsed() >= STALL {
                bail!(
                    "{}: stands still for {} s: {}",
                    self.name,
                    STALL.as_secs(),
                    summary(&tcp::info(self.stream)?)
                );
            }
        }
    }

    async fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            match self.stream.try_write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.ready(Interest::WRITABLE).await?
                }
                Err(e) => return Err(e).context(self.name.clone()),
            }
        }
        Ok(())
    }

    /// Fills the buffer; false when the stream ends before its first byte.
    async fn read_or_end(&mut self, buffer: &mut [u8]) -> Result<bool> {
        let mut n = 0;
        while n < buffer.len() {
            match self.stream.try_read(&mut buffer[n..]) {
                Ok(0) if n == 0 => return Ok(false),
                Ok(0) => bail!("{}", self.ends_early()?),
                Ok(k) => n += k,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.ready(Interest::READABLE).await?
                }
                Err(e) => return Err(e).context(self.name.clone()),
            }
        }
        Ok(true)
    }

    async fn read(&mut self, buffer: &mut [u8]) -> Result<()> {
        if !self.read_or_end(buffer).await? {
            bail!("{}", self.ends_early()?);
        }
        Ok(())
    }

    /// The other end gave up, or was wrong: what this one knows.
    fn ends_early(&self) -> Result<String> {
        Ok(format!(
            "{}: ends early: {}",
            self.name,
            summary(&tcp::info(self.stream)?)
        ))
    }

    /// Nothing more comes.
    async fn read_end(&mut self) -> Result<()> {
        let more = self.read_or_end(&mut [0]).await.context("end")?;
        ensure!(!more, Wrong("more than was sent".to_owned()));
        Ok(())
    }
}

/// What tells why a connection stands still.
fn summary(info: &tcp::TcpInfo) -> String {
    format!(
        "state {}, recovery {}, window {}, threshold {}, pacing {} bytes/s, rtt {} us, least rtt {} us, rto {} us, \
         backoff {}, in flight {}, lost {}, retransmitted {} of {}, not sent {} bytes, acknowledged {} bytes, \
         received {} bytes, last sent/received data/received ACK {}/{}/{} ms ago",
        info.state,
        info.ca_state,
        info.snd_cwnd,
        info.snd_ssthresh,
        info.pacing_rate,
        info.rtt,
        info.min_rtt,
        info.rto,
        info.backoff,
        info.unacked,
        info.lost,
        info.total_retrans,
        info.segs_out,
        info.notsent_bytes,
        info.bytes_acked,
        info.bytes_received,
        info.last[0],
        info.last[2],
        info.last[3]
    )
}

/// A stream of bytes without pattern (xorshift), the same on both sides.
struct Stream {
    random: Random,
    at: u64,
    scratch: Vec<u8>,
}

impl Stream {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            at: 0,
            scratch: vec![],
        }
    }

    /// The next bytes; both sides cut their streams into the same parts.
    fn fill(&mut self, part: &mut [u8]) {
        for chunk in part.chunks_mut(8) {
            chunk.copy_from_slice(&self.random.next().to_le_bytes()[..chunk.len()]);
        }
        self.at += part.len() as u64;
    }

    fn compare(&mut self, part: &[u8]) -> Result<()> {
        let from = self.at;
        let mut expected = std::mem::take(&mut self.scratch);
        expected.resize(part.len(), 0);
        self.fill(&mut expected);
        if expected != part {
            let at = expected
                .iter()
                .zip(part)
                .position(|(a, b)| a != b)
                .unwrap_or(0);
            bail!(Wrong(format!(
                "byte {} is {:#04x}, {:#04x} was sent",
                from + at as u64,
                part[at],
                expected[at]
            )));
        }
        self.scratch = expected;
        Ok(())
    }
}

struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        // Neighbouring seeds give streams that have nothing in common; never the state 0.
        let mixed = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self((mixed ^ mixed >> 29) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// From 1 to 2^bits: as many small ones as large ones.
    fn size(&mut self, bits: u32) -> u64 {
        let below = self.below(u64::from(bits));
        (1 << below) + self.below(1 << below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turned_bit_is_found() {
        let mut bytes = vec![0; 1000];
        Stream::new(7).fill(&mut bytes);
        Stream::new(7).compare(&bytes).unwrap();
        bytes[600] ^= 4;
        let e = Stream::new(7).compare(&bytes).unwrap_err();
        assert!(
            e.is::<Wrong>() && e.to_string().starts_with("byte 600 "),
            "{e}"
        );
        // Of the parts before it, too, when they are compared one by one.
        let mut stream = Stream::new(7);
        stream.compare(&bytes[..512]).unwrap();
        assert!(stream
            .compare(&bytes[512..])
            .unwrap_err()
            .to_string()
            .starts_with("byte 600 "));
        Stream::new(8).compare(&bytes).unwrap_err();
    }

    #[test]
    fn sizes_are_within_bounds() {
        let mut random = Random::new(1);
        let sizes: Vec<u64> = (0..10_000).map(|_| random.size(UP)).collect();
        assert!(sizes.iter().all(|s| (1..=1 << UP).contains(s)));
        assert!(sizes.contains(&1) && sizes.iter().any(|&s| s > 1 << (UP - 1)));
        assert_eq!(parts(0).count(), 0);
        assert_eq!(
            parts(2 * CHUNK as u64 + 5).collect::<Vec<_>>(),
            [CHUNK, CHUNK, 5]
        );
    }
}
