// SPDX-License-Identifier: GPL-2.0
//! Telemetry from the wire into the congestion control, checked packet by packet: what a law was given
//! with an ACK is what the hops had logged of the packets that the ACK answers for.
//!
//! Expected values are computed from the ports' own logs with the rules of `wire/`; what the law was given
//! is in the log of `tcp_int`.

use super::{
    data::{self, Pair},
    frame::{Arrived, Raw, Segment},
    line::{address, device, Line, Port, BACKWARD, FORWARD, RECEIVER, SENDER},
};
use crate::{ktap::Outcome, modules, netem::Faults, tcp, traffic};
use anyhow::{bail, ensure, Context as _, Result};
use int::{Count, Device, Fault, Loaded, Options, Settings};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::{fd::AsRawFd as _, unix::fs::PermissionsExt as _},
    thread,
    time::{Duration, Instant},
};
use wire::{
    bind::Seen,
    bottleneck,
    mpd::{Missing, Word},
    stack, tc, Format, Hop, Sample, Speed,
};

/// Where the eBPF programs are in the initramfs.
const OBJECT: &str = "/fathom-int.bpf";
const CGROUP: &str = "/sys/fs/cgroup";
const SHIFT: u8 = 6;
/// As many as there can be in a window: an option in every segment.
const EVERY_SEGMENT: u8 = 20;

/// The format and the law that reads it.
const FORMATS: [(Format, &str); 3] = [
    (Format::Mpd, "poseidon"),
    (Format::Bottleneck, "powertcp"),
    (Format::Stack, "powertcp"),
];

/// The modules of which these tests need all.
pub const MODULES: [&str; 5] = [
    "sch_int",
    "tcp_int",
    "tcp_poseidon",
    "tcp_powertcp",
    "tcp_hpcc",
];

/// Loads the modules, once, and lets TCP have memory: under pressure receivers offer four packets.
fn load_modules() -> Result<()> {
    std::fs::write("/proc/sys/net/ipv4/tcp_mem", "131072 196608 262144").context("tcp_mem")?;
    for module in MODULES {
        match modules::load(module, "") {
            Err(e) if e.raw_os_error() != Some(libc::EEXIST) => {
                return Err(e).with_context(|| format!("load {module}"))
            }
            _ => {}
        }
    }
    Ok(())
}

/// The programs with an option in every segment.
fn options(format: Format) -> Options {
    Options {
        object: OBJECT.into(),
        settings: Settings {
            wants: format as u8,
            per_window_shift: EVERY_SEGMENT,
            ..Settings::DEFAULT
        },
        cgroup: Some(CGROUP.into()),
        ..Options::default()
    }
}

/// Attaches the programs for a format, for whoever sends meanwhile.
pub fn attach(format: Format) -> Result<impl Drop> {
    Attached::new(&options(format), 0)
}

/// The programs, attached, and their map handed to `tcp_int`. Taken back when dropped, unless told not to.
struct Attached(Loaded, bool);

impl Attached {
    fn new(options: &Options, log: u32) -> Result<Self> {
        load_modules()?;
        let loaded = Loaded::new(options)?;
        let mut device = Device::open()?;
        device.bind(loaded.storage()?, true)?;
        device.log(log)?;
        Ok(Self(loaded, true))
    }

    fn count(&self, what: Count) -> Result<u64> {
        Ok(self.0.counts()?[what as usize])
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if !self.1 {
            return;
        }
        if let Ok(mut device) = Device::open() {
            device.unbind().ok();
            device.log(0).ok();
        }
    }
}

/// What is done to the path while flows send.
#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    None,
    /// Losses, duplicates and reordering on the sender's own port.
    Lossy,
    /// The data's path changes twice.
    Detour,
    /// The middle router does not write.
    Gap,
}

/// One run: flows with `cc` over the line, and everything that was logged.
struct Run {
    seen: Vec<Seen>,
    forward: Vec<Vec<tc::Record>>,
    backward: Vec<Vec<tc::Record>>,
    /// Per local port of a flow: segments that arrived at the sender, retransmits.
    flows: HashMap<u16, (u32, u32)>,
    /// Ends that agreed on a format.
    agreed: u64,
    /// Segments whose SACK blocks left no room for the option.
    no_room: u64,
}

const FLOWS: usize = 3;
const MS: u64 = 4;

fn run(format: Format, cc: &str, ipv6: bool, trouble: Trouble) -> Result<Run> {
    let attached = Attached::new(&options(format), 1 << 17)?;
    let line = Line::new()?;
    if trouble == Trouble::Gap {
        line.set(2, 3, "int off")?;
    }
    let receiver = address(RECEIVER, 3, ipv6);
    // Neighbours are found before anything is measured; while they are looked for, a connection may fail.
    let to = traffic::receive(line.space(RECEIVER), receiver, "cubic")?;
    let mut tries = 0;
    while let Err(e) = line.space(SENDER).enter(|| traffic::connect(to, "cubic"))? {
        tries += 1;
        ensure!(tries < 10, "no way to the receiver: {e:#}");
        thread::sleep(Duration::from_secs(1));
    }
    thread::sleep(Duration::from_millis(1)); // the other end is a moment later
    let before = attached.count(Count::Agreed)?;
    let mut senders = vec![];
    let start = Instant::now() + Duration::from_millis(5);
    for i in 0..FLOWS {
        let to = traffic::receive(line.space(RECEIVER), receiver, cc)?;
        let at = start + Duration::from_micros(300 * i as u64);
        senders.push(traffic::send(line.space(SENDER), to, cc, at, None));
    }
    if trouble == Trouble::Lossy {
        // Once they are connected: a lost SYN would cost a second.
        traffic::sleep_until(start + Duration::from_micros(300 * FLOWS as u64));
        let faults = Faults {
            loss: 5_000,
            duplicate: 5_000,
            reorder: 10_000,
            delay_us: 20,
            ..Faults::default()
        };
        line.netem(SENDER, 1, faults)?;
    }
    if trouble == Trouble::Detour {
        traffic::sleep_until(start + Duration::from_millis(MS / 3));
        line.detour(true, ipv6)?;
        traffic::sleep_until(start + Duration::from_millis(2 * MS / 3));
        line.detour(false, ipv6)?;
    }
    traffic::sleep_until(start + Duration::from_millis(MS));
    let mut flows = HashMap::new();
    for sender in &senders {
        if let Some(e) = sender.error() {
            bail!("a flow: {e}");
        }
        let socket = sender.socket().context("a flow never connected")?;
        let info = tcp::info(socket)?;
        flows.insert(
            socket.local_addr()?.port(),
            (info.segs_in, info.total_retrans),
        );
    }
    let log = Device::read()?;
    ensure!(log.lost == 0, "{} samples found the log full", log.lost);
    let logs = |ports: &[Port]| {
        ports
            .iter()
            .map(|port| line.log(port))
            .collect::<Result<Vec<_>>>()
    };
    let run = Run {
        seen: log.seen,
        forward: logs(&FORWARD)?,
        backward: logs(&BACKWARD)?,
        flows,
        agreed: attached.count(Count::Agreed)? - before,
        no_room: attached.count(Count::NoRoom)?,
    };
    for sender in &senders {
        if let Some(socket) = sender.socket() {
            socket.shutdown(std::net::Shutdown::Both).ok();
        }
    }
    Ok(run)
}

/// A packet, as the logs can tell it from others: ports, numbers, and which of several with these.
type Packet = (u16, u16, u32, u32, u32, usize);

/// By packet, what each port that it passed logged, in the order of passing. `stages` are the ports of
/// which a packet passes one each: a packet that was sent twice may have taken the detour once.
fn packets(logs: &[Vec<tc::Record>], stages: &[&[usize]]) -> BTreeMap<Packet, Vec<tc::Record>> {
    let mut all: BTreeMap<Packet, Vec<tc::Record>> = BTreeMap::new();
    for stage in stages {
        let mut log: Vec<&tc::Record> = stage.iter().flat_map(|port| &logs[*port]).collect();
        log.sort_by_key(|record| record.time_ns);
        let mut times = HashMap::new();
        for record in log {
            let key = (
                record.sport,
                record.dport,
                record.seq,
                record.ack,
                record.payload,
            );
            let time = times.entry(key).or_insert(0);
            let (sport, dport, seq, ack, payload) = key;
            all.entry((sport, dport, seq, ack, payload, *time))
                .or_default()
                .push(*record);
            *time += 1;
        }
    }
    all
}

/// The rates of the ports, by hop id.
fn speed(hop_id: u8) -> Speed {
    let gbps = match hop_id {
        1 | 4 | 13 => 40,
        3 => 25,
        5 => 5,
        _ => 10,
    };
    Speed::from_mbps(gbps * 1000)
}

fn hop(record: &tc::Record) -> Hop {
    Hop {
        delay_ns: record.delay_ns,
        qlen_bytes: record.qlen_bytes,
        tx_bytes: record.tx_bytes,
        time_ns: record.time_ns,
        load: record.load,
        speed: speed(record.hop_id),
        hop_id: record.hop_id,
        shift: SHIFT,
    }
}

/// What a packet that left with an empty option bears at the end of its path.
fn word(records: &[tc::Record]) -> Word {
    records
        .iter()
        .fold(Word::EMPTY, |word, record| word.hop(record.delay_ns, SHIFT))
}

fn record_body(records: &[tc::Record]) -> bottleneck::Body {
    records
        .iter()
        .fold(bottleneck::Body::default(), |body, record| {
            body.hop(&hop(record))
        })
}

fn slots(records: &[tc::Record]) -> Vec<u8> {
    records
        .iter()
        .take(stack::slots(true))
        .flat_map(|record| stack::Slot::of(&hop(record)).0)
        .collect()
}

/// Checks every sample of a run against the hops' logs; what it found, in words.
fn check(run: &Run, format: Format, trouble: Trouble) -> Result<String> {
    let forward = packets(&run.forward, &[&[0, 3], &[1, 4], &[2]]);
    let backward = packets(&run.backward, &[&[0, 3], &[1, 4], &[2]]);
    let hops = if trouble == Trouble::Gap { 2 } else { 3 };
    let mut exact = 0;
    let mut by_flow: HashMap<u16, Vec<&Seen>> = HashMap::new();
    for seen in &run.seen {
        by_flow.entry(seen.local_port).or_default().push(seen);
    }
    ensure!(by_flow.len() == FLOWS, "samples of {} flows", by_flow.len());
    for (port, samples) in &by_flow {
        let data: Vec<(&Packet, &Vec<tc::Record>)> = forward
            .iter()
            .filter(|(packet, records)| packet.0 == *port && packet.4 > 0 && records.len() >= hops)
            .collect();
        // By what a packet acknowledges when it is the last one: the end of its data.
        let mut by_end: HashMap<u32, Vec<&Vec<tc::Record>>> = HashMap::new();
        for (packet, records) in &data {
            by_end
                .entry(packet.2.wrapping_add(packet.4))
                .or_default()
                .push(records);
        }
        let bodies: HashSet<Vec<u8>> = data
            .iter()
            .map(|(_, records)| body(format, records))
            .collect();
        let mut last = None;
        for (n, seen) in samples.iter().enumerate() {
            let sample = Sample::from_bytes(&seen.sample);
            ensure!(sample.format == format as u8, "format {}", sample.format);
            ensure!(sample.ack == seen.ack, "a sample of another ACK");
            let missing = Missing::from_code(sample.missing).code();
            let expected = u8::from(trouble == Trouble::Gap);
            if format != Format::Stack {
                ensure!(
                    missing == expected,
                    "flow {port}: {missing} hops missing, expected {expected}"
                );
            }
            let given = given(format, &sample);
            ensure!(
                bodies.contains(&given),
                "flow {port}, ACK {}: no packet bore {given:02x?}",
                seen.ack
            );
            if format == Format::Mpd {
                check_ack_path(&backward, *port, seen, &sample)?;
            }
            // On a path that behaves, also which packet it was.
            if trouble == Trouble::None || trouble == Trouble::Gap {
                let answered = answered(&data, last, seen.ack);
                let all = match format {
                    Format::Mpd => answered.iter().map(|r| body(format, r)).max(),
                    _ => by_end.get(&seen.ack).map(|r| body(format, r[0])),
                };
                let before = last.map(|last| seen.ack.wrapping_sub(last));
                ensure!(
                    all.as_ref() == Some(&given),
                    "flow {port}, sample {n}, ACK {}, {before:?} bytes after the last: {given:02x?} instead of {all:02x?}, of {} packets",
                    seen.ack,
                    answered.len()
                );
                exact += 1;
            }
            last = Some(seen.ack);
        }
        let (segments, _) = run.flows[port];
        let share = samples.len() as f64 / f64::from(segments.max(1));
        let least = if trouble == Trouble::Lossy { 0.5 } else { 0.97 };
        ensure!(
            share >= least,
            "flow {port}: a sample with {share:.2} of {segments} segments"
        );
    }
    let retransmits: u32 = run.flows.values().map(|(_, retransmits)| retransmits).sum();
    if trouble == Trouble::Lossy {
        ensure!(
            retransmits > 0,
            "nothing was lost: the test would say less than its name"
        );
        // With timestamps and two SACK blocks there is room for an mpd option and for no other.
        ensure!(
            format == Format::Mpd || run.no_room > 0,
            "no option made way for SACK blocks"
        );
    }
    if trouble == Trouble::Detour {
        ensure!(
            run.forward[4].len() > 20 && run.forward[1].len() > 20,
            "the path did not change"
        );
    }
    Ok(format!(
        "{} samples, {exact} of them by their packet, {} data packets, {retransmits} retransmits, {} without room",
        run.seen.len(),
        forward.len(),
        run.no_room
    ))
}

/// What an ACK brings back of a packet with these records.
fn body(format: Format, records: &[tc::Record]) -> Vec<u8> {
    match format {
        Format::Mpd => (word(records).0 & 0xfff0).to_be_bytes().to_vec(),
        Format::Bottleneck => without_count(record_body(records).0),
        Format::Stack => slots(records),
    }
}

/// What the law was given.
fn given(format: Format, sample: &Sample) -> Vec<u8> {
    match format {
        Format::Mpd => vec![sample.body[0], sample.body[1] & 0xf0],
        Format::Bottleneck => {
            let mut body = [0; 12];
            body.copy_from_slice(&sample.body[..12]);
            without_count(body)
        }
        Format::Stack => sample.body[..8 * usize::from(sample.hops)].to_vec(),
    }
}

/// The hop count of a record becomes the number of missing hops on its way back.
fn without_count(mut body: [u8; 12]) -> Vec<u8> {
    body[1] &= 0x0f;
    body.to_vec()
}

/// The packets that the ACK `ack` answers for and the one before did not.
fn answered<'a>(
    data: &[(&Packet, &'a Vec<tc::Record>)],
    last: Option<u32>,
    ack: u32,
) -> Vec<&'a Vec<tc::Record>> {
    data.iter()
        .filter(|(packet, _)| {
            let end = packet.2.wrapping_add(packet.4);
            let after = last.is_none_or(|last| (end.wrapping_sub(last) as i32) > 0);
            after && (end.wrapping_sub(ack) as i32) <= 0
        })
        .map(|(_, records)| *records)
        .collect()
}

/// The forward word of the ACK itself is what its own path had.
fn check_ack_path(
    backward: &BTreeMap<Packet, Vec<tc::Record>>,
    port: u16,
    seen: &Seen,
    sample: &Sample,
) -> Result<()> {
    let has = u16::from_be_bytes([sample.body[2], sample.body[3]]);
    let of_ack: Vec<u16> = backward
        .iter()
        .filter(|(packet, _)| packet.1 == port && packet.3 == seen.ack)
        .map(|(_, records)| word(records).0)
        .collect();
    ensure!(
        of_ack.contains(&has),
        "ACK {}: its own path gave {has:04x}, the hops say {of_ack:04x?}",
        seen.ack
    );
    Ok(())
}

fn all(trouble: Trouble, versions: &[bool]) -> Result<Outcome> {
    for (format, cc) in FORMATS {
        for &ipv6 in versions {
            let version = if ipv6 { 6 } else { 4 };
            let of = || format!("{format:?} IPv{version}");
            let run = run(format, cc, ipv6, trouble).with_context(of)?;
            ensure!(
                run.agreed == 2 * FLOWS as u64,
                "{}: {} ends agreed",
                of(),
                run.agreed
            );
            println!(
                "# {}: {}",
                of(),
                check(&run, format, trouble).with_context(of)?
            );
        }
    }
    Ok(Outcome::Pass)
}

/// Every sample, in all formats and both versions of IP.
pub fn exact() -> Result<Outcome> {
    all(Trouble::None, &[false, true])
}

/// With losses, duplicates and reordering.
pub fn lossy() -> Result<Outcome> {
    all(Trouble::Lossy, &[false])
}

/// While the path changes, and back.
pub fn detour() -> Result<Outcome> {
    all(Trouble::Detour, &[false])
}

/// With a hop that does not write.
pub fn gap() -> Result<Outcome> {
    all(Trouble::Gap, &[false])
}

/// One flow over the line; the throughput in the second half, bytes a second, and what was counted.
fn one_flow(
    line: &Line,
    cc: &str,
    ms: u64,
    mut meanwhile: impl FnMut(u64) -> Result<()>,
) -> Result<(f64, u32)> {
    let to = traffic::receive(line.space(RECEIVER), address(RECEIVER, 3, false), cc)?;
    let start = Instant::now() + Duration::from_millis(1);
    let sender = traffic::send(line.space(SENDER), to, cc, start, None);
    let mut half = 0;
    let mut largest = 0;
    for step in 1..=ms * 10 {
        traffic::sleep_until(start + Duration::from_micros(step * 100));
        meanwhile(step * 100)?;
        if let Some(e) = sender.error() {
            bail!("the flow: {e}");
        }
        let Some(socket) = sender.socket() else {
            continue;
        };
        let info = tcp::info(socket)?;
        largest = largest.max(info.snd_cwnd);
        ensure!(
            info.snd_cwnd >= 1 && info.pacing_rate > 0,
            "window {}, pacing {}",
            info.snd_cwnd,
            info.pacing_rate
        );
        if step == ms * 5 {
            half = info.bytes_acked;
        }
        if step == ms * 10 {
            let bytes = info.bytes_acked - half;
            socket.shutdown(std::net::Shutdown::Both).ok();
            return Ok((bytes as f64 / (ms as f64 / 2e3), largest));
        }
    }
    bail!("the flow never connected")
}

/// A peer that lies, sets every bit, or sends malformed options: the window stays within bounds, the
/// connection lives, and the counters show it.
pub fn hostile() -> Result<Outcome> {
    for (format, cc) in FORMATS {
        for fault in [
            Fault::AllOnes,
            Fault::Random,
            Fault::Length,
            Fault::Scramble,
        ] {
            let line = Line::new()?;
            // The programs of this host, and the fault on the receiver's way out.
            let attached = Attached::new(&options(format), 0)?;
            let faults = line.space(RECEIVER).enter(|| {
                Loaded::new(&Options {
                    object: OBJECT.into(),
                    faults: vec![device(3)],
                    fault,
                    ..Options::default()
                })
            })??;
            let (rate, largest) = one_flow(&line, cc, 4, |_| Ok(()))?;
            let told = faults.counts()?[Count::Faults as usize];
            let malformed = attached.count(Count::Malformed)?;
            println!(
                "# {format:?} {fault:?}: {:.2} Gbit/s, largest window {largest}, {told} lies, {malformed} malformed",
                rate * 8e-9
            );
            ensure!(told > 10, "nothing was changed");
            ensure!(largest < 20_000, "the window grew to {largest} packets");
            // Who is told of long queues sends little; that is what the peer asked for.
            ensure!(rate > 1e5, "the flow stands still: {rate} bytes/s");
            if fault == Fault::Length {
                ensure!(malformed > 0, "malformed options were not counted");
            }
        }
    }
    Ok(Outcome::Pass)
}

/// Hops stop writing for two milliseconds: samples stop and come back within a round trip or two, and the
/// flow goes on meanwhile.
pub fn absent_for_a_while() -> Result<Outcome> {
    const OFF: (u64, u64) = (2_000, 4_000);
    for (format, cc) in FORMATS {
        let attached = Attached::new(&options(format), 1 << 17)?;
        let line = Line::new()?;
        let began = Instant::now();
        let at = |node, to, on: &str| line.set(node, to, &format!("int {on}"));
        let mut changed = vec![];
        let (rate, _) = one_flow(&line, cc, 6, |us| {
            let switch = match us {
                us if us == OFF.0 => "off",
                us if us == OFF.1 => "on",
                _ => return Ok(()),
            };
            changed.push(began.elapsed());
            [(1, 2), (2, 3), (3, 4)]
                .iter()
                .try_for_each(|(node, to)| at(*node, *to, switch))
        })?;
        let log = Device::read()?;
        // The log's clock is the kernel's monotonic one; the largest gap in it is the time without.
        let mut times: Vec<u64> = log.seen.iter().map(|seen| seen.time_ns).collect();
        times.sort_unstable();
        let gap = times
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .max()
            .unwrap_or(0);
        let off = (OFF.1 - OFF.0) * 1000;
        println!(
            "# {format:?}: {} samples, none for {:.0} us of {:.0} us off, {:.2} Gbit/s after",
            times.len(),
            gap as f64 / 1e3,
            off as f64 / 1e3,
            rate * 8e-9
        );
        ensure!(changed.len() == 2, "the hops were not switched");
        // At most a round trip to fall silent and another to come back: 60 us of wire, and a queue.
        ensure!(
            (off - 300_000..off + 300_000).contains(&gap),
            "a gap of {gap} ns"
        );
        ensure!(
            rate * 8.0 > 0.85 * 10e9,
            "{:.2} Gbit/s in the end",
            rate * 8e-9
        );
        drop(attached);
    }
    Ok(Outcome::Pass)
}

/// Looks at all packets of a connection as they arrive at the receiver: options of ours by their id.
fn watch(line: &Line, cc: &str) -> Result<HashMap<u16, usize>> {
    let raw = line.space(RECEIVER).enter(|| Raw::open(&device(3)))??;
    raw.patience_ms(1)?;
    let to = traffic::receive(line.space(RECEIVER), address(RECEIVER, 3, false), cc)?;
    let from = Instant::now();
    let sender = traffic::send(line.space(SENDER), to, cc, from, Some(200_000));
    let watcher = thread::spawn(move || {
        let mut ids = HashMap::new();
        let mut quiet = 0;
        while quiet < 20 {
            let Some(arrived) = raw.any() else {
                quiet += 1;
                continue;
            };
            if arrived.ports().1 != to.port() {
                continue;
            }
            let tcp = arrived.tcp();
            let end = usize::from(tcp[12] >> 4) * 4;
            if let Ok(found) = wire::find(&tcp[20..end]) {
                *ids.entry(found.exid).or_insert(0) += 1;
            }
        }
        ids
    });
    for _ in 0..200 {
        traffic::sleep_until(Instant::now() + Duration::from_micros(100));
        if sender
            .socket()
            .is_some_and(|socket| tcp::info(socket).is_ok_and(|info| info.bytes_acked >= 200_000))
        {
            break;
        }
    }
    let done = sender
        .socket()
        .map(|socket| tcp::info(socket).map(|info| info.bytes_acked));
    ensure!(
        matches!(done, Some(Ok(200_000..))),
        "the data did not arrive: {done:?}"
    );
    Ok(watcher.join().expect("the thread does not panic"))
}

/// A peer without telemetry sees the offer in the SYN and no option ever after; nor does one whose answer
/// a middlebox removed. Where options are removed later, data still arrives.
pub fn falls_back() -> Result<Outcome> {
    use wire::exid;
    for (format, cc) in FORMATS {
        // A peer without: the receiver's thread is in another cgroup, without the programs.
        let scope = Options {
            // The sender offers to the receiver; the listener is not to answer: out of its scope.
            prefixes: vec![format!("{}/32", address(RECEIVER, 3, false))
                .parse()
                .map_err(anyhow::Error::msg)?],
            ..options(format)
        };
        let line = Line::new()?;
        let attached = Attached::new(&scope, 0)?;
        let ids = watch(&line, cc)?;
        ensure!(
            ids.len() == 1 && ids.contains_key(&exid::HELLO),
            "{format:?}: without an answer: {ids:04x?}"
        );
        ensure!(
            attached.count(Count::Unanswered)? == 1,
            "the missing answer was not counted"
        );
        drop(attached);

        for (fault, name) in [
            (Fault::StripHello, "answer removed"),
            (Fault::StripAll, "all removed"),
        ] {
            let line = Line::new()?;
            let attached = Attached::new(&options(format), 0)?;
            let faults = line.space(RECEIVER).enter(|| {
                Loaded::new(&Options {
                    object: OBJECT.into(),
                    faults: vec![device(3)],
                    fault,
                    ..Options::default()
                })
            })??;
            let ids = watch(&line, cc)?;
            let removed = faults.counts()?[Count::Faults as usize];
            ensure!(removed > 0, "{format:?}, {name}: nothing was removed");
            ensure!(
                ids.keys().all(|id| *id == exid::HELLO),
                "{format:?}, {name}: {ids:04x?}"
            );
            drop(attached);
        }
        println!("# {format:?}: no option after a handshake without agreement");
    }
    Ok(Outcome::Pass)
}

/// tc feeds the record instead of sock_ops: samples are as good.
pub fn tc_feeds() -> Result<Outcome> {
    for (format, cc) in FORMATS {
        let line = Line::new()?;
        let mut attached = Attached::new(
            &Options {
                settings: Settings {
                    tc_feeds: 1,
                    ..options(format).settings
                },
                ..options(format)
            },
            1 << 16,
        )?;
        for (node, to) in [(SENDER, 1), (RECEIVER, 3)] {
            line.space(node)
                .enter(|| attached.0.attach_tc(&device(to)))??;
        }
        let (rate, _) = one_flow(&line, cc, 4, |_| Ok(()))?;
        let log = Device::read()?;
        let taken = attached.count(Count::TcTaken)?;
        println!(
            "# {format:?}: {} samples, {taken} packets, {:.2} Gbit/s",
            log.seen.len(),
            rate * 8e-9
        );
        ensure!(taken > 100 && log.seen.len() > 100, "too few");
        ensure!(rate * 8.0 > 0.85 * 10e9, "{:.2} Gbit/s", rate * 8e-9);
        let full = log
            .seen
            .iter()
            .filter(|seen| Missing::from_code(Sample::from_bytes(&seen.sample).missing).is_full())
            .count();
        if format != Format::Stack {
            ensure!(
                full == log.seen.len(),
                "{full} of {} samples cover the path",
                log.seen.len()
            );
        }
    }
    Ok(Outcome::Pass)
}

/// On a link with one hop that writes: in all formats, over both versions of IP, what arrives is what was
/// sent, and the laws are fed. For kernels whose time is not virtual.
pub fn carried() -> Result<Outcome> {
    for (format, cc) in FORMATS {
        for ipv6 in [false, true] {
            let attached = Attached::new(&options(format), 1 << 12)?;
            let pair = Pair::new()?;
            pair.port("rate 1gbit limit 4mb int hop-id 1")?;
            data::transfer_over(&pair, cc, ipv6, 2 << 20)?;
            let log = Device::read()?;
            let (agreed, seen) = (attached.count(Count::Agreed)?, log.seen.len());
            println!("# {format:?}, IPv6 {ipv6}: {agreed} ends agreed, {seen} samples");
            ensure!(agreed == 2 && seen > 10, "too few");
            for seen in &log.seen {
                let sample = Sample::from_bytes(&seen.sample);
                ensure!(sample.format == format as u8, "format {}", sample.format);
            }
        }
    }
    Ok(Outcome::Pass)
}

/// Detached, unbound, unloaded in any order, with connections that live on: they go on without telemetry,
/// and nothing is left behind.
pub fn outlived() -> Result<Outcome> {
    for order in 0..3 {
        let attached = Attached::new(&options(Format::Mpd), 0)?;
        let pair = Pair::new()?;
        pair.port("rate 1gbit limit 4mb int hop-id 1")?;
        let mut ours = pair.connect("poseidon", false)?;
        let mut other = pair.connect("cubic", false)?; // has a record, too
        exchange(&mut ours)?;
        exchange(&mut other)?;
        match order {
            // The owner exits first: the module keeps the map, and nobody writes to it.
            0 => {
                let mut attached = attached;
                attached.1 = false; // the binding stays
                drop(attached);
                exchange(&mut ours)?;
                Device::open()?.unbind()?;
            }
            // The module lets go first.
            1 => {
                Device::open()?.unbind()?;
                exchange(&mut ours)?;
                drop(attached);
            }
            // Another map takes the place of the first, and goes before it.
            _ => {
                let second = Loaded::new(&Options {
                    cgroup: None,
                    ..options(Format::Mpd)
                })?;
                Device::open()?.bind(second.storage()?, true)?;
                exchange(&mut ours)?;
                drop(second);
                exchange(&mut ours)?;
                drop(attached);
            }
        }
        exchange(&mut ours)?;
        exchange(&mut other)?;
        let busy = modules::unload("tcp_int");
        ensure!(
            busy.is_err(),
            "tcp_int could be unloaded under tcp_poseidon"
        );
        drop(ours);
        for module in ["tcp_poseidon", "tcp_powertcp", "tcp_hpcc", "tcp_int"] {
            super::unload_when_free(module)?;
        }
        // A socket with a record outlives map, programs and modules.
        exchange(&mut other)?;
    }
    Ok(Outcome::Pass)
}

/// Some bytes there and back.
fn exchange((a, b): &mut (TcpStream, TcpStream)) -> Result<()> {
    let mut buffer = [0; 4096];
    for _ in 0..8 {
        a.write_all(&[7; 4096])?;
        b.read_exact(&mut buffer)?;
        b.write_all(&[8; 4096])?;
        a.read_exact(&mut buffer)?;
    }
    Ok(())
}

/// What is no map of ours is refused with a reason, and changes nothing.
pub fn bad_binds() -> Result<Outcome> {
    let attached = Attached::new(&options(Format::Mpd), 0)?;
    let id = Device::read()?.map_id;
    ensure!(id != 0, "the device says that no map is bound");
    let second = Device::open()?.bind(attached.0.storage()?, false);
    let said = second.err().map(|e| e.to_string()).unwrap_or_default();
    ensure!(said.contains("another map"), "a second bind: {said:?}");
    let tell = |text: &[u8]| {
        let mut device = fs::OpenOptions::new()
            .write(true)
            .open(wire::bind::DEVICE)?;
        device.write(text).map(|_| ())
    };
    let null = fs::File::open("/dev/null")?;
    for (text, errno) in [
        ("replace 999".to_owned(), libc::EBADF),
        (format!("replace {}", null.as_raw_fd()), libc::EINVAL),
        (
            format!("replace {}", attached.0.counts_fd()?),
            libc::EMEDIUMTYPE,
        ),
        ("bind".to_owned(), libc::EINVAL),
        ("log 3".to_owned(), libc::EINVAL),
        ("log 4294967295".to_owned(), libc::EINVAL),
        ("x".repeat(65), libc::EINVAL),
    ] {
        let got = tell(text.as_bytes())
            .err()
            .and_then(|e| e.raw_os_error())
            .unwrap_or(0);
        ensure!(got == errno, "{text:?}: error {got}, expected {errno}");
    }
    ensure!(Device::read()?.map_id == id, "the map changed");
    let mode = fs::metadata(wire::bind::DEVICE)?.permissions().mode() & 0o777;
    ensure!(mode == 0o600, "the device has mode {mode:o}");
    Ok(Outcome::Pass)
}

/// With TCP Fast Open: data in the SYN, a cookie beside the hello.
pub fn fast_open() -> Result<Outcome> {
    use nix::sys::socket::{
        sendto, socket, AddressFamily, MsgFlags, SockFlag, SockType, SockaddrIn,
    };
    let attached = Attached::new(&options(Format::Mpd), 0)?;
    let pair = Pair::new()?;
    for space in pair.spaces() {
        space.enter(|| super::set_sysctl("net/ipv4/tcp_fastopen", "1027"))??;
    }
    let listener = pair.listen()?;
    let to = match listener.local_addr()? {
        std::net::SocketAddr::V4(to) => SockaddrIn::from(to),
        other => bail!("{other}"),
    };
    // 1027: client, server, and every listener without asking. The first gets a cookie, the second sends it with its data.
    for round in 0..2u64 {
        let before = attached.count(Count::Agreed)?;
        let socket = pair.spaces()[0].enter(|| {
            socket(
                AddressFamily::Inet,
                SockType::Stream,
                SockFlag::empty(),
                None,
            )
        })??;
        let fast = MsgFlags::from_bits_retain(libc::MSG_FASTOPEN);
        let sent = sendto(socket.as_raw_fd(), &[9; 500], &to, fast).context("sendto")?;
        let (mut accepted, _) = listener.accept()?;
        let mut connection = TcpStream::from(socket);
        let mut buffer = vec![0; sent];
        accepted.read_exact(&mut buffer)?;
        accepted.write_all(&buffer)?;
        connection.read_exact(&mut buffer)?;
        ensure!(buffer.iter().all(|byte| *byte == 9), "other data arrived");
        let syn_data = tcp::info(&connection)?.options & 32 != 0; // TCPI_OPT_SYN_DATA
        println!("# connection {}: data in the SYN: {syn_data}", round + 1);
        ensure!(
            attached.count(Count::Agreed)? == before + 2,
            "no telemetry agreed"
        );
        if round == 1 {
            ensure!(
                syn_data,
                "the SYN carried no data: the test would say less than its name"
            );
        }
    }
    Ok(Outcome::Pass)
}

/// Only connections of the cgroup that the programs are attached to take part.
pub fn scoped() -> Result<Outcome> {
    let inside = format!("{CGROUP}/inside");
    fs::create_dir_all(&inside)?;
    let attached = Attached::new(
        &Options {
            cgroup: Some(inside.clone().into()),
            ..options(Format::Mpd)
        },
        0,
    )?;
    let pair = Pair::new()?;
    let me = std::process::id().to_string();
    exchange(&mut pair.connect("cubic", false)?)?;
    ensure!(
        attached.count(Count::Offered)? == 0,
        "offered by a process outside of the cgroup"
    );
    fs::write(format!("{inside}/cgroup.procs"), &me).context("into the cgroup")?;
    exchange(&mut pair.connect("cubic", false)?)?;
    let agreed = attached.count(Count::Agreed)?;
    fs::write(format!("{CGROUP}/cgroup.procs"), &me).context("out of the cgroup")?;
    ensure!(
        agreed == 2,
        "{agreed} ends of a connection inside of the cgroup agreed"
    );
    Ok(Outcome::Pass)
}

/// The commands that people use: attach, status, detach.
pub fn commands() -> Result<Outcome> {
    load_modules()?;
    let fathom = |args: &[&str]| -> Result<(bool, String)> {
        let out = std::process::Command::new("/usr/sbin/fathom")
            .args(args)
            .output()
            .context("fathom")?;
        let said = [out.stdout, out.stderr].concat();
        Ok((
            out.status.success(),
            String::from_utf8_lossy(&said).into_owned(),
        ))
    };
    let says = |args: &[&str], ok: bool, what: &str| -> Result<()> {
        let (was_ok, said) = fathom(args)?;
        ensure!(
            was_ok == ok && said.contains(what),
            "fathom {}: {said}",
            args.join(" ")
        );
        Ok(())
    };
    says(&["status"], true, "attached: nothing")?;
    says(&["detach"], true, "nothing was attached")?;
    says(&["attach", "--to", "10.0.0.0/33"], false, "prefix length")?;
    says(
        &["attach", "--object", OBJECT, "--cgroup", "/nowhere"],
        false,
        "/nowhere",
    )?;
    says(
        &["attach", "--object", OBJECT, "--format", "bottleneck"],
        true,
        "attached: cgroup",
    )?;
    says(&["attach", "--object", OBJECT], false, "attached already")?;
    let pair = Pair::new()?;
    pair.port("rate 1gbit limit 4mb int hop-id 1")?;
    let mut connection = pair.connect("powertcp", false)?;
    exchange(&mut connection)?;
    let (_, status) = fathom(&["status", "--json"])?;
    let json: serde_json::Value = serde_json::from_str(&status).with_context(|| status.clone())?;
    let flow = json["flows"].as_array().and_then(|flows| {
        flows
            .iter()
            .find(|flow| flow["congestion_control"] == "powertcp")
    });
    let flow = flow.with_context(|| format!("the connection is not shown: {status}"))?;
    ensure!(
        json["module"] == "reads these records",
        "the module {}",
        json["module"]
    );
    ensure!(
        flow["state"] == "on"
            && flow["format"] == "bottleneck"
            && flow["samples"].as_u64() > Some(0),
        "{flow}"
    );
    says(&["status"], true, "powertcp")?;
    says(&["detach"], true, "detached: cgroup")?;
    exchange(&mut connection)?;
    says(&["status"], true, "attached: nothing")?;
    ensure!(
        Device::read()?.map_id == 0,
        "the module still holds the map"
    );
    Ok(Outcome::Pass)
}

/// The bytes of `key=HEX` in a line of the vectors.
fn hex(line: &str, key: &str) -> Option<Vec<u8>> {
    let text = line
        .split(' ')
        .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))?;
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
        .collect()
}

/// A segment's connection as XDP keys it: the sender's address, ours, their ports; IPv4 mapped into IPv6.
fn flow_key(segment: &Segment) -> [u8; 36] {
    use wire::rpm::Flow;
    let mapped = |v4: [u8; 4]| std::net::Ipv4Addr::from(v4).to_ipv6_mapped().octets();
    let (src, dst, sport, dport) = match segment.flow() {
        Flow::V4 {
            src,
            dst,
            sport,
            dport,
        } => (mapped(src), mapped(dst), sport, dport),
        Flow::V6 {
            src,
            dst,
            sport,
            dport,
        } => (src, dst, sport, dport),
    };
    let mut key = [0; 36];
    key[..16].copy_from_slice(&src);
    key[16..32].copy_from_slice(&dst);
    key[32..34].copy_from_slice(&sport.to_be_bytes());
    key[34..].copy_from_slice(&dport.to_be_bytes());
    key
}

/// The test vectors of the option, through the XDP program: what is a forward option that hops wrote into is
/// taken off, zeroes are in its place, the checksum is right, and what waits for the peer is what `wire/` says;
/// every other packet passes as it is.
pub fn vectors() -> Result<Outcome> {
    const VECTORS: &str = include_str!("../../../../wire/vectors.txt");
    let mut loaded = Loaded::new(&Options {
        object: OBJECT.into(),
        settings: Settings {
            xdp: 1,
            ..Settings::DEFAULT
        },
        ..Options::default()
    })?;
    let (mut taken, mut passed) = (0, 0);
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let question = line.split(" => ").next().unwrap_or_default();
        let Some(mut options) = hex(question, "options").or_else(|| hex(question, "option")) else {
            continue;
        };
        options.resize(options.len().next_multiple_of(4), 0);
        if options.is_empty() || options.len() > 40 {
            continue;
        }
        for ipv6 in [false, true] {
            let segment = Segment {
                options: options.clone(),
                ..Segment::new(ipv6, 4000)
            };
            let frame = segment.frame();
            let at = if ipv6 { 54 } else { 34 } + 20;
            let mut all = [0; 40];
            all[..options.len()].copy_from_slice(&options);
            let found = wire::option::find_last(&all, options.len());
            let parsed = found.and_then(|found| wire::parse(&options[found.at..]));
            let mut echo = wire::Echo::default();
            let mut expected = frame.clone();
            if let (Ok(found), Ok(parsed)) = (found, &parsed) {
                let ttl = frame[if ipv6 { 21 } else { 22 }];
                echo.merge(parsed, Some(wire::hop::path_hops(ttl)));
                if echo.format != 0 {
                    let from = at + found.at + 4;
                    let to = match parsed {
                        wire::Parsed::Mpd(..) => from + 2,
                        _ => at + found.at + found.len,
                    };
                    expected[from..to].fill(0);
                }
            }
            let key = flow_key(&segment);
            let (out, waits) = loaded
                .try_xdp(&frame, &key)
                .with_context(|| line.to_owned())?;
            let same = |frame: &[u8]| {
                let mut frame = frame.to_vec();
                frame[at - 4..at - 2].fill(0); // the checksum
                frame
            };
            ensure!(
                same(&out) == same(&expected),
                "{line}: the frame is {out:02x?}"
            );
            let arrived = Arrived {
                ipv6,
                bytes: out.clone(),
            };
            ensure!(arrived.checksum_is_right(), "{line}: the checksum is wrong");
            let body = [&[echo.format, echo.missing, echo.hops, 0][..], &echo.body].concat();
            ensure!(
                waits[..] == body[..],
                "{line}: {waits:02x?} waits, expected {body:02x?}"
            );
            if echo.format == 0 {
                ensure!(out == frame, "{line}: a frame changed that was not to");
                passed += 1;
            } else {
                taken += 1;
            }
        }
    }
    println!("# {taken} taken off, {passed} passed as they were");
    ensure!(taken > 100 && passed > 100, "too few vectors");
    Ok(Outcome::Pass)
}
