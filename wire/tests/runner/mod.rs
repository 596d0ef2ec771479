// SPDX-License-Identifier: GPL-2.0

//! Reads `vectors.txt`, and answers a vector with the crate. Other implementations that are tested in
//! Rust may include this file for [`vectors`] and [`Vector`] and bring answers of their own.

use std::fmt::Write as _;
use wire::bottleneck::Record;
use wire::mpd::{EchoWord, Word};
use wire::{
    find, parse, stack, Delta, Echo, Format, Hello, Hop, Load, Parsed, Reason, Speed, Storage,
    Telemetry,
};

/// A line of the file: `VERB NAME KEY=VALUE... => ANSWER`.
#[derive(Clone, Debug)]
pub struct Vector {
    pub verb: String,
    pub name: String,
    pub inputs: Vec<(String, String)>,
    pub answer: String,
}

impl Vector {
    pub fn read(line: &str) -> Self {
        let (left, answer) = line.split_once(" => ").expect("` => ` in a vector");
        let mut words = left.split(' ');
        let mut word = || words.next().expect("a verb and a name").to_owned();
        let (verb, name) = (word(), word());
        let pair = |w: &str| {
            let (key, value) = w.split_once('=').expect("KEY=VALUE");
            (key.to_owned(), value.to_owned())
        };
        Self {
            verb,
            name,
            inputs: words.map(pair).collect(),
            answer: answer.to_owned(),
        }
    }

    /// The value of `key`.
    pub fn text(&self, key: &str) -> &str {
        let found = self.inputs.iter().find(|(k, _)| k == key);
        let (_, value) = found.unwrap_or_else(|| panic!("{}: no `{key}`", self.name));
        value
    }

    /// A decimal number.
    pub fn number(&self, key: &str) -> u64 {
        let text = self.text(key);
        text.parse()
            .unwrap_or_else(|e| panic!("{}: {key}={text}: {e}", self.name))
    }

    /// Bytes.
    pub fn bytes(&self, key: &str) -> Vec<u8> {
        unhex(self.text(key))
    }
}

/// All vectors of a file.
pub fn vectors(text: &str) -> Vec<Vector> {
    let line = |l: &&str| !l.is_empty() && !l.starts_with('#');
    text.lines().filter(line).map(Vector::read).collect()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut s, b| {
        write!(s, "{b:02x}").expect("a string takes all");
        s
    })
}

pub fn unhex(text: &str) -> Vec<u8> {
    let byte = |i| u8::from_str_radix(&text[i..i + 2], 16).expect("two hex digits");
    (0..text.len()).step_by(2).map(byte).collect()
}

fn be16(bytes: &[u8]) -> u16 {
    u16::from_be_bytes(bytes.try_into().expect("two bytes"))
}

pub fn reason(reason: Reason) -> String {
    format!("error={}", reason.name())
}

fn format_name(format: Format) -> String {
    format!("{format:?}").to_lowercase()
}

fn format_of(name: &str) -> Format {
    match name {
        "mpd" => Format::Mpd,
        "bottleneck" => Format::Bottleneck,
        "stack" => Format::Stack,
        _ => panic!("{name} is no format"),
    }
}

fn record(r: &Record) -> String {
    format!(
        "hop_id={} mbps={} qlen_bytes={} tx_bytes={} ts_ns={}",
        r.hop_id,
        r.speed.mbps(),
        r.qlen_bytes,
        r.tx_bytes,
        r.ts_ns
    )
}

fn parsed(parsed: &Parsed) -> String {
    let slots = |b: &stack::Body| format!("slots={} used={}", b.len, b.used);
    match parsed {
        Parsed::Mpd(Word(f), EchoWord(e)) => format!("mpd forward={f:04x} echo={e:04x}"),
        Parsed::Bottleneck(b) => {
            format!(
                "bottleneck hops={} key={} {}",
                b.count(),
                b.key(),
                record(&b.record())
            )
        }
        Parsed::BottleneckEcho(b) => {
            let fields = record(&b.record());
            format!(
                "bottleneck-echo missing={} key={} {fields}",
                b.count(),
                b.key()
            )
        }
        Parsed::Stack(b) => format!("stack {}", slots(b)),
        Parsed::StackEcho(b) => format!("stack-echo {}", slots(b)),
        Parsed::Hello(h) => format!(
            "hello version={} shift={} wants={} takes={}",
            h.version,
            h.shift,
            format_name(h.wants),
            h.takes
        ),
    }
}

pub fn hop(v: &Vector) -> Hop {
    Hop {
        delay_ns: v.number("delay_ns"),
        qlen_bytes: v.number("qlen_bytes") as u32,
        tx_bytes: v.number("tx_bytes"),
        time_ns: v.number("time_ns"),
        load: v.number("load") as u8,
        speed: Speed::from_mbps(v.number("mbps") as u32),
        hop_id: v.number("hop_id") as u8,
        shift: v.number("shift") as u8,
    }
}

fn hello(v: &Vector) -> Hello {
    let wants = format_of(v.text("wants"));
    Hello::new(wants, v.number("takes") as u8, v.number("shift") as u8)
}

fn hello_in(v: &Vector, key: &str) -> Option<Hello> {
    match parse(&v.bytes(key)) {
        Ok(Parsed::Hello(hello)) => Some(hello),
        _ => None,
    }
}

fn stamped(v: &Vector) -> String {
    let mut options = v.bytes("options");
    match hop(v).stamp(&mut options) {
        Ok(delta) => {
            let check = delta.apply(be16(&v.bytes("check")));
            format!("options={} check={check:04x}", hex(&options))
        }
        Err(e) => reason(e),
    }
}

fn echoed(v: &Vector) -> String {
    let mut echo = Echo::default();
    let path_hops = match v.text("ttl") {
        "unknown" => None,
        ttl => {
            let ttl = ttl.parse().expect("a TTL");
            Some(wire::hop::path_hops(ttl) + v.number("extra_hops") as u8)
        }
    };
    for option in v.text("received").split(',') {
        if let Ok(parsed) = parse(&unhex(option)) {
            echo.merge(&parsed, path_hops);
        }
    }
    if let Some(out) = echo.emit() {
        return format!("option={}", hex(out.as_slice()));
    }
    if v.text("received").starts_with("fd08fa70") {
        format!("echo={:04x}", echo.mpd().0)
    } else {
        "none".into()
    }
}

fn sampled(v: &Vector) -> String {
    let option = v.bytes("option");
    let parsed = parse(&option).expect("a good option");
    let format = match parsed {
        Parsed::Mpd(..) => Format::Mpd,
        Parsed::Bottleneck(_) | Parsed::BottleneckEcho(_) => Format::Bottleneck,
        _ => Format::Stack,
    };
    let mut storage = Storage::default();
    storage.accepted(&Hello::new(format, 0, v.number("shift") as u8), true);
    storage.segment(Ok(parsed), 7, None);
    let sample = storage
        .head
        .take(7)
        .and_then(|s| s.decode(storage.head.shift));
    match sample {
        None => "none".into(),
        Some(Telemetry::Mpd {
            forward_ns,
            backward_ns,
            missing,
        }) => format!(
            "mpd forward_ns={forward_ns} backward_ns={backward_ns} missing={}",
            missing.code()
        ),
        Some(Telemetry::Bottleneck(r, missing)) => {
            format!("bottleneck missing={} {}", missing.code(), record(&r))
        }
        Some(Telemetry::Stack(records, n)) => {
            let all: Vec<String> = records[..n].iter().map(record).collect();
            format!("stack {}", all.join(" "))
        }
    }
}

/// What the crate says to `v`.
pub fn answer(v: &Vector) -> String {
    match v.verb.as_str() {
        "speed" => format!("mbps={}", Speed::from_code(v.number("code") as u8).mbps()),
        "parse" => parse(&v.bytes("option")).map_or_else(reason, |p| parsed(&p)),
        "find" => find(&v.bytes("options")).map_or_else(reason, |f| {
            format!("at={} len={} exid={:04x}", f.at, f.len, f.exid)
        }),
        "hop" => stamped(v),
        "echo" => echoed(v),
        "sample" => sampled(v),
        "emit" => {
            let format = format_of(v.text("format"));
            let mut storage = Storage::default();
            let hello = Hello::new(format, 0, 6);
            storage.answered(
                &hello,
                hello.answer(&hello).as_ref(),
                v.number("timestamps") == 1,
            );
            let out = storage.write(true, 40).expect("an option");
            format!("option={}", hex(out.as_slice()))
        }
        "syn" => format!("option={}", hex(&hello(v).emit())),
        "answer" => hello_in(v, "syn")
            .and_then(|syn| hello(v).answer(&syn))
            .map_or("none".into(), |a| format!("option={}", hex(&a.emit()))),
        "agree" => hello_in(v, "synack")
            .and_then(|answer| hello(v).agree(&answer))
            .map_or("none".into(), |f| format!("format={}", format_name(f))),
        "checksum" => {
            let pad = |key: &str| {
                let mut bytes = v.bytes(key);
                assert!(bytes.len() <= 8);
                bytes.resize(8, 0);
                <[u8; 8]>::try_from(bytes).expect("eight bytes")
            };
            let offset = v.number("offset") as usize;
            let delta = Delta::bytes(offset, &pad("old"), &pad("new"));
            format!("check={:04x}", delta.apply(be16(&v.bytes("check"))))
        }
        "load" => {
            let mut load = Load::default();
            let mut sent = |packet: &str| {
                let (at, busy) = packet.split_once(':').expect("TIME:BUSY");
                let (at, busy) = (at.parse().expect("ns"), busy.parse().expect("ns"));
                load.sent(at, busy).to_string()
            };
            let loads: Vec<String> = v.text("packets").split(',').map(&mut sent).collect();
            format!("load={}", loads.join(","))
        }
        verb => panic!("{}: `{verb}` is no verb", v.name),
    }
}
