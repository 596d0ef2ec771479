// SPDX-License-Identifier: GPL-2.0

//! Drives one law through a number of ACKs, for `bench/run` to count the instructions of.
//!
//! `bench_ack LAW COUNT`: LAW is a law with its telemetry (`poseidon`, `theta_powertcp`,
//! `powertcp-bottleneck`, `powertcp-stack-3`, ...), with `+out` appended when the window and the
//! pacing rate are read after every ACK as a kernel does; `none` is the loop alone.

use laws::{
    hpcc, swift, Ack, Coverage, HopHistory, Hpcc, Int, Law, Mpd, Path, Poseidon, PowerTcp, Record,
    Swift, ThetaPowerTcp, Wrap,
};
use std::hint::black_box;

/// 10 Gbit/s, a base RTT of 20 us, a queue that breathes between empty and 8 us.
const PACKET_NS: u64 = 1230;
const BASE_NS: u64 = 20_000;
const WINDOW: u32 = 24;

struct Traffic {
    now_ns: u64,
    delivered: u32,
    tx_bytes: u32,
    records: [Record; 8],
}

impl Traffic {
    fn new() -> Self {
        let mut records = [Record::default(); 8];
        for (id, record) in records.iter_mut().enumerate() {
            record.hop_id = id as u32;
            record.inverse_rate = Record::inverse_rate(10_000);
        }
        Self {
            now_ns: 1 << 30,
            delivered: 0,
            tx_bytes: 0,
            records,
        }
    }

    /// The next ACK, apart from its telemetry; the queueing delay is a triangle wave of 64 packets.
    #[inline(always)]
    fn next(&mut self) -> (Ack<'static>, u32) {
        self.now_ns += PACKET_NS;
        self.delivered = self.delivered.wrapping_add(1);
        self.tx_bytes = self.tx_bytes.wrapping_add(1538);
        let phase = self.delivered & 63;
        let queue_ns = 250 * if phase < 32 { phase } else { 63 - phase };
        let ack = Ack {
            now_ns: self.now_ns,
            rtt_ns: BASE_NS as u32 + queue_ns,
            acked: 1,
            delivered: self.delivered,
            prior_delivered: self.delivered.wrapping_sub(WINDOW),
            in_flight: 2,
            full_size: true,
            ..Ack::default()
        };
        (ack, queue_ns)
    }

    #[inline(always)]
    fn records(&mut self, hops: usize, wrap: Wrap, queue_ns: u32) -> &[Record] {
        let (ts_ns, tx_bytes) = (self.now_ns as u32, self.tx_bytes);
        for record in &mut self.records[..hops] {
            record.ts_ns = ts_ns & wrap.ts_mask;
            record.tx_bytes = tx_bytes & wrap.tx_mask;
            record.qlen_bytes = queue_ns + (queue_ns >> 2);
        }
        &self.records[..hops]
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Telemetry {
    None,
    Mpd,
    Bottleneck,
    Stack(usize),
}

fn run<L: Law>(config: &L::Config, telemetry: Telemetry, count: u32, out: bool, drive: bool) {
    let params = black_box(L::prepare(config).expect("a valid configuration"));
    let path = Path {
        line_rate: 1_250_000_000,
        base_rtt_ns: BASE_NS as u32,
        mss: 1448,
        overhead: 90,
        hops: 3,
        ..Path::default()
    };
    let mut law = L::default();
    law.start(&params, &path, 0);
    let mut history = HopHistory::default();
    let mut traffic = Traffic::new();
    let mut sum = 0u64;
    for _ in 0..count {
        let (mut ack, queue_ns) = traffic.next();
        let (hops, wrap) = match telemetry {
            Telemetry::Stack(hops) => (hops, Wrap::STACK),
            Telemetry::Bottleneck => (1, Wrap::BOTTLENECK),
            _ => (0, Wrap::BOTTLENECK),
        };
        let records = traffic.records(hops, wrap, queue_ns);
        ack.int = match telemetry {
            Telemetry::None => Int::None,
            Telemetry::Mpd => Int::Mpd(Mpd {
                forward_ns: queue_ns,
                backward_ns: 0,
                coverage: Coverage::Full,
            }),
            Telemetry::Bottleneck => Int::Bottleneck(records[0]),
            Telemetry::Stack(_) => Int::Stack(records, Wrap::STACK),
        };
        let ack = black_box(&ack);
        if drive {
            let changed = on_ack(&mut law, &params, &mut history, ack);
            if out {
                sum += u64::from(law.cwnd_packets_at(ack.delivered));
                if changed {
                    sum += law.pacing_rate(&params);
                }
            }
        } else {
            sum += nothing(&mut law, &params, &mut history, ack);
        }
    }
    black_box((sum, law.cwnd()));
}

#[inline(never)]
fn on_ack<L: Law>(law: &mut L, params: &L::Params, hops: &mut HopHistory, ack: &Ack<'_>) -> bool {
    law.on_ack(params, Some(hops), ack)
}

/// The call alone.
#[inline(never)]
fn nothing<L: Law>(law: &mut L, params: &L::Params, hops: &mut HopHistory, ack: &Ack<'_>) -> u64 {
    black_box((law, params, hops, ack));
    0
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (Some(name), Some(Ok(count))) = (args.get(1), args.get(2).map(|c| c.parse::<u32>())) else {
        eprintln!("usage: bench_ack LAW COUNT");
        std::process::exit(2);
    };
    let (name, out) = name
        .strip_suffix("+out")
        .map_or((name.as_str(), false), |n| (n, true));
    let (name, drive) = name
        .strip_prefix("none:")
        .map_or((name, true), |n| (n, false));
    let (law, kind) = name.split_once('-').unwrap_or((name, ""));
    let telemetry = match kind {
        "bottleneck" => Telemetry::Bottleneck,
        _ if kind.starts_with("stack-") => {
            Telemetry::Stack(kind[6..].parse().expect("a number of hops"))
        }
        _ if law == "poseidon" && kind.is_empty() => Telemetry::Mpd,
        _ => Telemetry::None,
    };
    let hpcc = |mechanisms: bool| {
        let mut config = hpcc::Config {
            ai_mbps: 50,
            ..hpcc::Config::default()
        };
        if mechanisms {
            config.vai.enabled = 1;
            config.sampling_acks = 30;
        }
        config
    };
    match law {
        "poseidon" => run::<Poseidon>(&Default::default(), telemetry, count, out, drive),
        "theta_powertcp" => run::<ThetaPowerTcp>(&Default::default(), telemetry, count, out, drive),
        "powertcp" => run::<PowerTcp>(&Default::default(), telemetry, count, out, drive),
        "hpcc" => run::<Hpcc>(&Default::default(), telemetry, count, out, drive),
        "hpcc+vai" => run::<Hpcc>(&hpcc(true), telemetry, count, out, drive),
        "swift" => run::<Swift>(&Default::default(), telemetry, count, out, drive),
        "swift+vai" => {
            let mut config = swift::Config::default();
            config.vai.enabled = 1;
            config.sampling_acks = 30;
            run::<Swift>(&config, telemetry, count, out, drive);
        }
        _ => {
            eprintln!("no law called {law}");
            std::process::exit(2);
        }
    }
}
