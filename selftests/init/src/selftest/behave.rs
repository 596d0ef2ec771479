// SPDX-License-Identifier: GPL-2.0
//! What the kernel's TCP does to a congestion control in a connection's life: losses, marks, a window
//! that nobody uses, data on the SYN, another MTU and route, idle times, listeners.

use super::{
    data::{self, Pair},
    module, set_sysctl,
};
use crate::{modules, net, tcp, traffic};
use anyhow::{ensure, Context as _, Result};
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

/// With the module of `cc` over a link of 100 us, and without it again.
fn with(cc: &str, test: impl FnOnce(&Pair) -> Result<()>) -> Result<()> {
    // In virtual time nothing takes any time, unless it is told to.
    let delay = net::netem(100_000, 0, 0, 0);
    with_queue(cc, "netem", delay, test)
}

/// The same with another queue at the sender.
fn with_queue(
    cc: &str,
    kind: &str,
    options: Vec<u8>,
    test: impl FnOnce(&Pair) -> Result<()>,
) -> Result<()> {
    modules::load(&module(cc), "").context("load")?;
    let pair = Pair::new()?;
    let result = pair.qdisc(kind, options).and_then(|()| test(&pair));
    drop(pair);
    super::unload_when_free(&module(cc))?;
    result
}

/// What `ss -ti` and TCP_INFO show is sane from the first moment on.
pub fn info(cc: &str) -> Result<()> {
    with(cc, |pair| {
        let (mut sender, receiver) = pair.connect(cc, false)?;
        let _sink = sink(receiver);
        for _ in 0..3 {
            let (info, law) = (tcp::info(&sender)?, tcp::cc_info(&sender)?);
            ensure!(
                (1..1 << 18).contains(&info.snd_cwnd) && info.snd_ssthresh >= 2,
                "{info:?}"
            );
            ensure!(info.pacing_rate != 0, "pacing rate 0");
            ensure!(law.rate != 0 && law.min_rtt_us != 0, "{law:?}");
            sender.write_all(&[0; 1 << 16])?;
        }
        Ok(())
    })
}

/// Loss, reordering and corruption together: every byte arrives, and lost ones are sent again.
pub fn loss(cc: &str) -> Result<()> {
    with_queue(cc, "netem", net::netem(1_000_000, 5, 10, 1), |pair| {
        // Single packets: of those that GSO makes there are too few to lose one in a thousand.
        pair.net_a().up("a", true)?;
        let again = data::transfer_over(pair, cc, false, 4 << 20)?;
        ensure!(again > 0, "nothing was lost: the test would say nothing");
        Ok(())
    })
}

/// Marks by a port, to a connection that negotiated ECN: they arrive and cost no retransmission.
pub fn ecn(cc: &str) -> Result<()> {
    modules::load("sch_int", "").context("load sch_int")?;
    let port = net::port(400, 1_000_000, 4 << 20, 3000);
    with_queue(cc, wire::tc::NAME, port, |pair| {
        pair.at_a(|| set_sysctl("net/ipv4/tcp_ecn", "1"))??;
        let (mut sender, receiver) = pair.connect(cc, false)?;
        let sink = sink(receiver);
        sender.write_all(&vec![0; 2 << 20])?;
        let info = tcp::info(&sender)?;
        ensure!(info.options & tcp::OPT_ECN != 0, "ECN was not negotiated");
        ensure!(info.delivered_ce > 0, "no mark arrived");
        ensure!(
            info.total_retrans == 0,
            "{} retransmits",
            info.total_retrans
        );
        println!(
            "# {} of {} marked, window {}",
            info.delivered_ce, info.delivered, info.snd_cwnd
        );
        drop(sender);
        sink.join().expect("the thread does not panic")?;
        Ok(())
    })?;
    super::unload_when_free("sch_int").map(drop)
}

/// A window that the receiver, or the application, leaves unused does not grow.
pub fn unused(cc: &str) -> Result<()> {
    // What a law may start from at 10 Gbit/s and 50 us, and the few packets that it may be above.
    const MOST: u32 = 64;
    with(cc, |pair| {
        let (mut sender, mut receiver) = pair.connect_with(cc, Some(8192))?;
        sender.set_nonblocking(true)?;
        let mut buffer = [0; 4096];
        let end = Instant::now() + Duration::from_millis(400);
        while Instant::now() < end {
            // The receiver reads a packet or two a millisecond; the sender always has more.
            while matches!(sender.write(&[0; 1 << 16]), Ok(n) if n > 0) {}
            let _ = receiver.read(&mut buffer)?;
            thread::sleep(Duration::from_millis(1));
        }
        let held = tcp::info(&sender)?;
        let (mut sender, receiver) = pair.connect(cc, false)?;
        let _sink = sink(receiver);
        for _ in 0..300 {
            sender.write_all(&[0; 1000])?;
            thread::sleep(Duration::from_millis(1));
        }
        let idle = tcp::info(&sender)?;
        println!(
            "# window {} of a receiver that is slow, {} of an application that is",
            held.snd_cwnd, idle.snd_cwnd
        );
        ensure!(held.snd_cwnd <= MOST, "receiver's window: {held:?}");
        ensure!(idle.snd_cwnd <= MOST, "application: {idle:?}");
        Ok(())
    })
}

/// Data on the SYN, to a listener with the same congestion control.
pub fn fast_open(cc: &str) -> Result<()> {
    with(cc, |pair| {
        let (listener, at) = pair.listen_with(cc)?;
        pair.at_b(|| set_sysctl("net/ipv4/tcp_fastopen", "3"))??;
        pair.at_a(|| set_sysctl("net/ipv4/tcp_fastopen", "3"))??;
        tcp::set_fast_open(&listener, 16)?;
        let server = thread::spawn(move || -> Result<Vec<Vec<u8>>> {
            let mut got = Vec::new();
            for _ in 0..3 {
                let (mut stream, _) = listener.accept()?;
                let mut all = Vec::new();
                stream.read_to_end(&mut all)?;
                stream.write_all(&all)?;
                got.push(all);
            }
            Ok(got)
        });
        let mut on_syn = 0;
        for i in 0..3u8 {
            let mut client = pair.at_a(|| traffic::connect_fast(at, cc))??;
            client.write_all(&[i; 1000])?;
            client.shutdown(std::net::Shutdown::Write)?;
            let mut back = Vec::new();
            client.read_to_end(&mut back)?;
            ensure!(back == [i; 1000], "{} bytes came back", back.len());
            on_syn += u32::from(tcp::info(&client)?.options & tcp::OPT_SYN_DATA != 0);
        }
        let got = server.join().expect("the thread does not panic")?;
        ensure!(got == [[0; 1000], [1; 1000], [2; 1000]], "something else");
        ensure!(on_syn >= 1, "no SYN carried data: the test says nothing");
        Ok(())
    })
}

/// Another MTU and another route under a connection that sends.
pub fn path_change(cc: &str) -> Result<()> {
    with(cc, |pair| {
        let (mut sender, receiver) = pair.connect(cc, false)?;
        let sink = sink(receiver);
        let mut sizes = Vec::new();
        for mtu in [1500, 1000, 1400] {
            pair.net_a().mtu("a", mtu)?;
            sender.write_all(&vec![0; 1 << 18])?;
            sizes.push(tcp::info(&sender)?.snd_mss);
        }
        ensure!(sizes[1] < 1000, "segments of {sizes:?}");
        pair.reroute()?;
        sender.write_all(&vec![0; 1 << 18])?;
        let info = tcp::info(&sender)?;
        ensure!(info.snd_cwnd >= 1 && info.pacing_rate != 0, "{info:?}");
        drop(sender);
        let bytes = sink.join().expect("the thread does not panic")?;
        ensure!(bytes == 4 << 18, "{bytes} bytes arrived");
        Ok(())
    })
}

/// A connection that sends again after longer than its retransmission timeout.
pub fn idle(cc: &str) -> Result<()> {
    with(cc, |pair| {
        let (mut sender, receiver) = pair.connect(cc, false)?;
        let sink = sink(receiver);
        for _ in 0..3 {
            sender.write_all(&vec![0; 1 << 18])?;
            thread::sleep(Duration::from_millis(500));
            let info = tcp::info(&sender)?;
            ensure!(info.snd_cwnd >= 1 && info.pacing_rate != 0, "{info:?}");
        }
        let again = tcp::info(&sender)?.total_retrans;
        drop(sender);
        let bytes = sink.join().expect("the thread does not panic")?;
        ensure!(
            bytes == 3 << 18,
            "{bytes} bytes arrived, {again} sent again"
        );
        Ok(())
    })
}

/// A listener passes its congestion control on; the accepted connection sends.
pub fn accepted(cc: &str) -> Result<()> {
    with(cc, |pair| {
        let (listener, at) = pair.listen_with(cc)?;
        // Chosen twice on a listener, which has no state of its own.
        tcp::set_congestion(&listener, "cubic")?;
        tcp::set_congestion(&listener, cc)?;
        let client = pair.at_a(|| traffic::connect(at, "cubic"))??;
        let (mut server, _) = listener.accept()?;
        let has = tcp::congestion(&server)?;
        ensure!(has == cc, "the accepted connection has {has}");
        let sink = sink(client);
        server.write_all(&vec![0; 1 << 20])?;
        drop(server);
        let bytes = sink.join().expect("the thread does not panic")?;
        ensure!(bytes == 1 << 20, "{bytes} bytes arrived");
        // Waiting in the queue when the listener goes.
        let waiting = pair.at_a(|| traffic::connect(at, cc))??;
        drop(listener);
        drop(waiting);
        Ok(())
    })
}

/// Reads until the end; how much there was.
fn sink(mut stream: TcpStream) -> thread::JoinHandle<Result<usize>> {
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        let mut bytes = 0;
        loop {
            match stream.read(&mut buffer)? {
                0 => return Ok(bytes),
                n => bytes += n,
            }
        }
    })
}
