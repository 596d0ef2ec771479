// SPDX-License-Identifier: GPL-2.0
//! `fathom trace`: the decisions of our congestion controls, as they are made.

use crate::Outcome;
use anyhow::{bail, Context as _, Result};
use clap::Parser;
use serde::Serialize;
use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    net::{Ipv6Addr, SocketAddr},
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    thread,
    time::{Duration, Instant},
};
use wire::{
    trace::{Decision, COVERED, DEVICE, FULL_SIZE, UNUSED},
    Format,
};

/// Arguments of `fathom trace`.
#[derive(Parser)]
pub struct Args {
    /// One JSON object per line.
    #[arg(long)]
    json: bool,
    /// Only decisions of this congestion control.
    #[arg(long)]
    cc: Option<String>,
    /// Only connections with this port, on either side.
    #[arg(long)]
    port: Option<u16>,
    /// End after this many seconds; the default is Ctrl-C.
    #[arg(long)]
    seconds: Option<u64>,
}

/// A decision in words.
#[derive(Serialize)]
struct Line {
    time_ns: u64,
    law: String,
    local: SocketAddr,
    remote: SocketAddr,
    rtt_us: f64,
    acked: u32,
    in_flight: u32,
    telemetry: Telemetry,
    unused_window: bool,
    full_size: bool,
    base_rtt_us: f64,
    /// The delay that the law aims at; absent when it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    target_us: Option<f64>,
    /// How congested the law takes the path to be, 1 = exactly full; absent when it has a target.
    #[serde(skip_serializing_if = "Option::is_none")]
    congestion: Option<f64>,
    cwnd: f64,
    cwnd_packets: u32,
    pacing_mbps: f64,
    /// Decisions that nobody read in time, before this one.
    #[serde(skip_serializing_if = "is_zero")]
    lost: u32,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// What the network said.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Telemetry {
    None,
    Mpd {
        forward_us: f64,
        backward_us: f64,
        whole_path: bool,
    },
    Record {
        hop: u32,
        hops: u8,
        queue_bytes: u32,
    },
}

fn us(ns: u32) -> f64 {
    f64::from(ns) / 1000.0
}

fn address(bytes: [u8; 16], port: u16) -> SocketAddr {
    SocketAddr::new(Ipv6Addr::from(bytes).to_canonical(), port)
}

impl Line {
    fn new(d: &Decision) -> Self {
        let r = &d.rest;
        let [first, second, _, hop] = r.telemetry;
        Self {
            time_ns: d.time_ns,
            law: d.law().to_owned(),
            local: address(d.local, d.local_port),
            remote: address(d.remote, d.remote_port),
            rtt_us: us(r.rtt_ns),
            acked: r.acked,
            in_flight: r.in_flight,
            telemetry: match Format::from_code(r.format) {
                None => Telemetry::None,
                Some(Format::Mpd) => Telemetry::Mpd {
                    forward_us: us(first),
                    backward_us: us(second),
                    whole_path: r.flags & COVERED != 0,
                },
                Some(_) => Telemetry::Record {
                    hop,
                    hops: r.hops,
                    queue_bytes: first,
                },
            },
            unused_window: r.flags & UNUSED != 0,
            full_size: r.flags & FULL_SIZE != 0,
            base_rtt_us: us(r.base_rtt_ns),
            target_us: (r.target_ns != 0).then(|| us(r.target_ns)),
            congestion: (r.gauge != 0).then(|| f64::from(r.gauge) / 256.0),
            cwnd: r.cwnd_q20 as f64 / f64::from(1 << 20),
            cwnd_packets: r.cwnd,
            pacing_mbps: r.pacing_rate as f64 * 8e-6,
            lost: d.lost,
        }
    }

    fn text(&self) -> String {
        let telemetry = match &self.telemetry {
            Telemetry::None => "no telemetry".to_owned(),
            Telemetry::Mpd {
                forward_us,
                whole_path,
                ..
            } => format!(
                "mpd {forward_us:.2} us{}",
                if *whole_path { "" } else { " of a part" }
            ),
            Telemetry::Record {
                hop,
                hops,
                queue_bytes,
            } => format!("hop {hop} of {hops}: queue {queue_bytes} B"),
        };
        let view = match (self.target_us, self.congestion) {
            (Some(target), _) => format!("target {target:.2} us"),
            (_, Some(congestion)) => format!("congestion {congestion:.3}"),
            _ => "nothing measured".to_owned(),
        };
        format!(
            "{:.6} {} {} > {}: rtt {:.0} us (base {:.1}), {telemetry}, {view}: cwnd {:.3}, {:.0} Mbit/s{}{}",
            self.time_ns as f64 * 1e-9,
            self.law,
            self.local,
            self.remote,
            self.rtt_us,
            self.base_rtt_us,
            self.cwnd,
            self.pacing_mbps,
            if self.unused_window { ", window not used" } else { "" },
            if self.lost == 0 { String::new() } else { format!(", {} lost", self.lost) },
        )
    }
}

impl Args {
    fn wants(&self, d: &Decision) -> bool {
        self.cc.as_ref().is_none_or(|cc| cc == d.law())
            && self
                .port
                .is_none_or(|port| port == d.local_port || port == d.remote_port)
    }
}

/// Runs `fathom trace`.
pub fn run(args: &Args) -> Result<Outcome> {
    let mut device = match File::open(DEVICE) {
        Ok(device) => device,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            bail!("{DEVICE} is not there: load one of our congestion controls first (modprobe tcp_poseidon)")
        }
        Err(e) if e.kind() == io::ErrorKind::ResourceBusy => {
            bail!("{DEVICE}: another process reads it, and there is one reader at a time")
        }
        Err(e) => return Err(e).with_context(|| format!("{DEVICE} (as root?)")),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let on_ctrl_c = Arc::clone(&stop);
    ctrlc::set_handler(move || on_ctrl_c.store(true, Ordering::Relaxed)).context("Ctrl-C")?;
    let end = args
        .seconds
        .map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut buffer = vec![0; 512 * Decision::LEN];
    while !stop.load(Ordering::Relaxed) && end.is_none_or(|end| Instant::now() < end) {
        let n = device.read(&mut buffer).context(DEVICE)?;
        for bytes in buffer[..n].chunks_exact(Decision::LEN) {
            let decision = bytes.try_into().ok().and_then(Decision::parse);
            let Some(decision) = decision.filter(|d| args.wants(d)) else {
                continue;
            };
            let line = Line::new(&decision);
            let text = if args.json {
                serde_json::to_string(&line)?
            } else {
                line.text()
            };
            match writeln!(out, "{text}") {
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(Outcome::Ok),
                other => other?,
            }
        }
        out.flush().ok();
        if n < buffer.len() {
            thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(Outcome::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::trace::Rest;

    fn decision() -> Decision {
        let mut law = [0; 16];
        law[..8].copy_from_slice(b"poseidon");
        let mut local = [0; 16];
        local[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 1]);
        Decision {
            time_ns: 1_500_000_000,
            local,
            remote: local,
            local_port: 1,
            remote_port: 2,
            lost: 3,
            rest: Rest {
                law,
                format: 1,
                hops: 1,
                flags: COVERED | UNUSED,
                rtt_ns: 30_000,
                acked: 2,
                telemetry: [4096, 64, 0, 0],
                base_rtt_ns: 20_000,
                target_ns: 9000,
                cwnd: 5,
                cwnd_q20: 5 << 19,
                pacing_rate: 1_250_000_000,
                ..Rest::default()
            },
        }
    }

    #[test]
    fn a_line_says_what_was_seen_and_decided() {
        assert_eq!(
            Line::new(&decision()).text(),
            "1.500000 poseidon 10.0.0.1:1 > 10.0.0.1:2: rtt 30 us (base 20.0), mpd 4.10 us, \
             target 9.00 us: cwnd 2.500, 10000 Mbit/s, window not used, 3 lost"
        );
        let json = serde_json::to_value(Line::new(&decision())).unwrap();
        assert_eq!(json["telemetry"]["mpd"]["forward_us"], 4.096);
        assert_eq!(json["target_us"], 9.0);
        assert!(json.get("congestion").is_none());
    }

    #[test]
    fn filters() {
        let args = |words: &[&str]| Args::parse_from([&["trace"], words].concat());
        let d = decision();
        assert!(args(&[]).wants(&d));
        assert!(args(&["--cc", "poseidon", "--port", "2"]).wants(&d));
        assert!(!args(&["--cc", "swift"]).wants(&d));
        assert!(!args(&["--port", "3"]).wants(&d));
    }
}
