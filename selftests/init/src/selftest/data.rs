// SPDX-License-Identifier: GPL-2.0
//! Data across a link: what arrives is what was sent.

use super::{frame::Raw, module, CCS};
use crate::{
    ktap::Outcome,
    modules,
    net::{self, Net},
    netns::Netns,
    tcp, traffic,
};
use anyhow::{ensure, Context as _, Result};
use nix::sys::socket::{setsockopt, sockopt};
use std::{
    hash::{DefaultHasher, Hasher as _},
    io::{Read as _, Write as _},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    thread,
};

/// Two namespaces and a veth between them.
pub struct Pair {
    a: Netns,
    b: Netns,
    net_a: Net<'static>,
}

const B4: &str = "10.0.0.2";
const B6: &str = "fd00::2";

impl Pair {
    /// Builds it.
    pub fn new() -> Result<Self> {
        let runtime = runtime()?;
        let (a, b) = (Netns::new()?, Netns::new()?);
        let (net_a, net_b) = (Net::open(runtime, &a)?, Net::open(runtime, &b)?);
        net_a.add_veth("a", "b", &b)?;
        for (net, name, v4, v6) in [(&net_a, "a", "10.0.0.1", "fd00::1"), (&net_b, "b", B4, B6)] {
            net.up(name, false)?;
            net.address(name, v4.parse()?, 24)?;
            net.address(name, v6.parse()?, 64)?;
        }
        Ok(Self { a, b, net_a })
    }

    /// Puts a queue on the sender's device.
    pub fn qdisc(&self, kind: &str, options: Vec<u8>) -> Result<()> {
        self.net_a.qdisc("a", kind, options)
    }

    /// Makes the sender's device a port of ours, with parameters as `fathom tc` takes them.
    pub fn port(&self, options: &str) -> Result<()> {
        let words: Vec<&str> = options.split_whitespace().collect();
        let options = port::settings::parse(&words).map_err(anyhow::Error::msg)?;
        self.qdisc(wire::tc::NAME, options)
    }

    /// Runs `f` in the sender's namespace.
    pub fn inside<T>(&self, f: impl FnOnce() -> T) -> Result<T> {
        self.a.enter(f)
    }

    /// The sender's netlink socket.
    pub fn net_a(&self) -> &Net<'static> {
        &self.net_a
    }

    /// Waits until the sender's queue is as `ready` says, at most 10 s.
    pub fn wait_for(&self, ready: impl Fn(&net::Queue) -> bool) -> Result<()> {
        for _ in 0..1000 {
            if ready(&self.net_a.queue("a")?) {
                return Ok(());
            }
            thread::sleep(std::time::Duration::from_millis(10));
        }
        anyhow::bail!("still waiting after 10 s: {:?}", self.net_a.queue("a")?)
    }

    /// A raw socket on the sender's device.
    pub fn raw_a(&self) -> Result<Raw> {
        self.a.enter(|| Raw::open("a"))?
    }

    /// A raw socket on the receiver's device.
    pub fn raw_b(&self) -> Result<Raw> {
        self.b.enter(|| Raw::open("b"))?
    }

    /// Both namespaces, the sender's first.
    pub fn spaces(&self) -> [&Netns; 2] {
        [&self.a, &self.b]
    }

    /// A listener at the receiver.
    pub fn listen(&self) -> Result<TcpListener> {
        let to: IpAddr = B4.parse()?;
        Ok(self.b.enter(|| TcpListener::bind((to, 0)))??)
    }

    /// Runs `f` in the sender's namespace.
    pub fn at_a<T>(&self, f: impl FnOnce() -> T) -> Result<T> {
        self.a.enter(f)
    }

    /// Runs `f` in the receiver's namespace.
    pub fn at_b<T>(&self, f: impl FnOnce() -> T) -> Result<T> {
        self.b.enter(f)
    }

    /// Gives the receiver a route of its own at the sender, so that connections look theirs up anew.
    pub fn reroute(&self) -> Result<()> {
        self.net_a.route(B4.parse()?, B4.parse()?)
    }

    /// A listener at the receiver with a congestion control of its own.
    pub fn listen_with(&self, cc: &str) -> Result<(TcpListener, SocketAddr)> {
        let to: IpAddr = B4.parse()?;
        let listener = self.b.enter(|| TcpListener::bind((to, 0)))??;
        tcp::set_congestion(&listener, cc).with_context(|| format!("congestion control {cc}"))?;
        let at = listener.local_addr()?;
        Ok((listener, at))
    }

    /// A connection to a receiver whose buffer has so many bytes.
    pub fn connect_with(&self, cc: &str, rcvbuf: Option<usize>) -> Result<(TcpStream, TcpStream)> {
        let (listener, at) = self.listen_with(cc)?;
        if let Some(bytes) = rcvbuf {
            setsockopt(&listener, sockopt::RcvBuf, &bytes).context("SO_RCVBUF")?;
        }
        let sender = self.a.enter(|| traffic::connect(at, cc))??;
        let (receiver, _) = listener.accept()?;
        Ok((sender, receiver))
    }

    /// A connection from one side to the other. The listener has the same congestion control: the SYN of
    /// one that needs ECN is itself capable of it, and no other listener takes that.
    pub fn connect(&self, cc: &str, ipv6: bool) -> Result<(TcpStream, TcpStream)> {
        let to: IpAddr = if ipv6 { B6 } else { B4 }.parse()?;
        let listener = self.b.enter(|| TcpListener::bind((to, 0)))??;
        tcp::set_congestion(&listener, cc).with_context(|| format!("congestion control {cc}"))?;
        let at = listener.local_addr()?;
        let sender = self.a.enter(|| traffic::connect(at, cc))??;
        let (receiver, _) = listener.accept()?;
        Ok((sender, receiver))
    }
}

/// One runtime for all tests: a namespace lives as long as its netlink socket does.
pub fn runtime() -> Result<&'static tokio::runtime::Runtime> {
    static RUNTIME: std::sync::OnceLock<tokio::runtime::Runtime> = std::sync::OnceLock::new();
    let made = net::runtime()?;
    Ok(RUNTIME.get_or_init(|| made))
}

/// Over IPv4.
pub fn ipv4(cc: &str) -> Result<()> {
    modules::load(&module(cc), "").context("load")?;
    transfer_over(&Pair::new()?, cc, false, BYTES)?;
    super::unload_when_free(&module(cc)).map(drop)
}

/// Over IPv6.
pub fn ipv6() -> Result<Outcome> {
    modules::load(&module(CCS[0]), "").context("load")?;
    transfer_over(&Pair::new()?, CCS[0], true, BYTES)?;
    super::unload_when_free(&module(CCS[0]))
}

const BYTES: usize = 4 << 20;

/// Nothing could be written for so long: the connection stands still.
const STALL: std::time::Duration = std::time::Duration::from_secs(15);

/// Sends `total` bytes (whole chunks of 64 KiB) and compares what arrives; the retransmits.
pub fn transfer_over(pair: &Pair, cc: &str, ipv6: bool, total: usize) -> Result<u32> {
    transfer(pair.connect(cc, ipv6)?, cc, total)
}

/// The same from one end of a connection to the other.
pub fn transfer(ends: (TcpStream, TcpStream), cc: &str, total: usize) -> Result<u32> {
    let (mut sender, receiver) = ends;
    sender.set_write_timeout(Some(STALL))?;
    let received = hash_all(receiver);
    let mut sent = DefaultHasher::new();
    let mut source = Noise(1);
    let mut left = total;
    let mut chunk = vec![0; 1 << 16];
    while left > 0 {
        source.fill(&mut chunk);
        if let Err(e) = sender.write_all(&chunk) {
            let stuck = (tcp::info(&sender), tcp::cc_info(&sender));
            return Err(e)
                .with_context(|| format!("write, {left} bytes before the end: {stuck:?}"));
        }
        sent.write(&chunk);
        left -= chunk.len();
    }
    let info = tcp::info(&sender)?;
    let has = tcp::congestion(&sender)?;
    ensure!(has == cc, "the socket has {has}");
    ensure!(info.pacing_rate != 0, "pacing rate 0");
    sender.shutdown(std::net::Shutdown::Write)?;
    let (bytes, hash) = received.join().expect("the thread does not panic")?;
    println!(
        "# {bytes} bytes, window {}, rtt {} us, retransmits {}",
        info.snd_cwnd, info.rtt, info.total_retrans
    );
    ensure!(bytes == total, "{bytes} bytes arrived of {total}");
    ensure!(hash == sent.finish(), "what arrived is not what was sent");
    Ok(info.total_retrans)
}

/// The congestion control of a live connection is changed to each of ours and away again, while it sends.
pub fn switched() -> Result<Outcome> {
    for cc in CCS {
        modules::load(&module(cc), "").with_context(|| format!("load {cc}"))?;
    }
    let pair = Pair::new()?;
    let (mut sender, receiver) = pair.connect("cubic", false)?;
    let received = hash_all(receiver);
    let mut sent = DefaultHasher::new();
    let mut source = Noise(2);
    let mut chunk = vec![0; 1 << 16];
    for i in 0..60 {
        let cc = if i % 2 == 0 { CCS[i / 2 % 5] } else { "cubic" };
        tcp::set_congestion(&sender, cc).with_context(|| format!("switch to {cc}"))?;
        for _ in 0..4 {
            source.fill(&mut chunk);
            sender.write_all(&chunk).context("write")?;
            sent.write(&chunk);
        }
    }
    sender.shutdown(std::net::Shutdown::Write)?;
    let (_, hash) = received.join().expect("the thread does not panic")?;
    ensure!(hash == sent.finish(), "what arrived is not what was sent");
    drop((sender, pair));
    for cc in CCS {
        super::unload_when_free(&module(cc))?;
    }
    Ok(Outcome::Pass)
}

fn hash_all(mut stream: TcpStream) -> thread::JoinHandle<Result<(usize, u64)>> {
    thread::spawn(move || {
        let mut hash = DefaultHasher::new();
        let mut buffer = vec![0; 1 << 16];
        let mut bytes = 0;
        loop {
            // The hasher works on the stream, not on how it was cut into writes, only when it is fed
            // equal pieces: fill the buffer each time.
            let mut n = 0;
            while n < buffer.len() {
                match stream.read(&mut buffer[n..])? {
                    0 => break,
                    k => n += k,
                }
            }
            if n == 0 {
                return Ok((bytes, hash.finish()));
            }
            hash.write(&buffer[..n]);
            bytes += n;
        }
    })
}

/// A stream of bytes without pattern (xorshift).
struct Noise(u64);

impl Noise {
    fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            chunk.copy_from_slice(&self.0.to_le_bytes()[..chunk.len()]);
        }
    }
}
