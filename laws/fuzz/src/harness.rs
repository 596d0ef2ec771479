// SPDX-License-Identifier: GPL-2.0

//! Any byte string as configuration and history of a law.
//!
//! Nothing may panic, the window stays within its bounds, a started flow has a pacing rate, and
//! clean ACKs bring any flow back from whatever state the bytes left it in.

use laws::math::{MAX_CWND, ONE_PACKET};
use laws::{
    hpcc, poseidon, swift, theta_powertcp, variable_ai, Ack, ConfigError, Coverage, HopHistory,
    Hpcc, Int, Law, Mpd, Path, Poseidon, PowerTcp, Record, Swift, ThetaPowerTcp, Wrap,
};

/// Bytes, and zeros when they are used up.
pub struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn u8(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().map_or((0, self.0), |(f, r)| (*f, r));
        self.0 = rest;
        first
    }

    /// Small numbers as often as large ones: the first byte says how many bits count.
    fn u32(&mut self) -> u32 {
        let bits = u32::from(self.u8() & 31);
        let value = u32::from_le_bytes([self.u8(), self.u8(), self.u8(), self.u8()]);
        value >> bits
    }

    fn u64(&mut self) -> u64 {
        (u64::from(self.u32()) << 32) | u64::from(self.u32())
    }

    fn bool(&mut self) -> bool {
        self.u8() & 1 == 1
    }

    /// A number from `min` to `max`, or now and then any.
    fn field(&mut self, wild: bool, min: u32, max: u32) -> u32 {
        let value = self.u32();
        if wild || value >= min && value <= max {
            value
        } else {
            min + (u64::from(value) % (u64::from(max - min) + 1)) as u32
        }
    }
}

/// A law whose configuration can be made of bytes.
pub trait Fuzz: Law {
    fn config(bytes: &mut Bytes<'_>, wild: bool) -> Self::Config;
    /// Its base RTT, at which an ACK is clean.
    fn clean_rtt_ns(&self) -> u32;
    /// Whether it has all that its configuration lets it have.
    fn content(&self, _params: &Self::Params, _config: &Self::Config) -> bool {
        false
    }
}

fn power(b: &mut Bytes<'_>, w: bool) -> theta_powertcp::Config {
    theta_powertcp::Config {
        gamma_percent: b.field(w, 1, 100),
        flows_per_host: b.field(w, 1, 1000),
        gentle_start: b.field(w, 0, 1),
        min_cwnd_millipackets: b.field(w, 1, 1000),
        max_cwnd_packets: b.field(w, 2, 1 << 18),
        probe_interval_us: b.field(w, 1000, 10_000_000),
        base_rtt_margin_ns: b.field(w, 0, 60_000),
        ecn: b.field(w, 0, 1),
        calm: b.field(w, 0, 1),
    }
}

fn vai(b: &mut Bytes<'_>, w: bool) -> variable_ai::Config {
    variable_ai::Config {
        enabled: b.field(w, 0, 1),
        token_threshold: b.field(w, 1, 1 << 30),
        ai_div: b.field(w, 1, 1 << 30),
        bank_cap: b.field(w, 1, 65535),
        ai_cap: b.field(w, 1, 65535),
        dampener_constant: b.field(w, 1, 1000),
    }
}

impl Fuzz for ThetaPowerTcp {
    fn config(b: &mut Bytes<'_>, w: bool) -> Self::Config {
        power(b, w)
    }
    fn clean_rtt_ns(&self) -> u32 {
        self.base_rtt_ns()
    }
}

impl Fuzz for PowerTcp {
    fn config(b: &mut Bytes<'_>, w: bool) -> Self::Config {
        power(b, w)
    }
    fn clean_rtt_ns(&self) -> u32 {
        self.base_rtt_ns()
    }
}

impl Fuzz for Poseidon {
    fn config(b: &mut Bytes<'_>, w: bool) -> Self::Config {
        poseidon::Config {
            p_ns: b.field(w, 4000, 1_000_000_000),
            k_ns: b.field(w, 50, 1 << 26),
            base_rtt_us: b.field(w, 1, 100_000),
            m_thousandths: b.field(w, 1, 1999),
            adapt_m: b.field(w, 0, 1),
            min_rate_mbps: b.field(w, 0, 0),
            max_rate_mbps: b.field(w, 0, 10_000_000),
            min_md_thousandths: b.field(w, 10, 999),
            max_mi_thousandths: b.field(w, 1001, 100_000),
            min_cwnd_millipackets: b.field(w, 1, 1000),
            max_cwnd_packets: b.field(w, 2, 1 << 18),
            initial_cwnd_packets: b.field(w, 1, 1 << 18),
            retx_reset_threshold: b.field(w, 1, 255),
            pacing_percent: b.field(w, 150, 1000),
            probe_interval_us: b.field(w, 1000, 10_000_000),
            ecn: b.field(w, 0, 1),
            calm: b.field(w, 0, 1),
            signal: b.field(w, 0, 1),
            target: b.field(w, 0, 2),
            q_thousandths: b.field(w, 1, 2000),
            update: b.field(w, 0, 2),
            ratio_m_ns: b.field(w, 0, 1_000_000_000),
            ai_millipackets: b.field(w, 1, 1_000_000),
        }
    }
    fn clean_rtt_ns(&self) -> u32 {
        self.base_rtt_ns()
    }
    /// Within a hundredth of the way to its max_rate, a step is less than a window can show.
    fn content(&self, params: &Self::Params, config: &Self::Config) -> bool {
        self.target_ns(params) <= config.k_ns.saturating_add(config.p_ns / 100)
    }
}

impl Fuzz for Hpcc {
    fn config(b: &mut Bytes<'_>, w: bool) -> Self::Config {
        hpcc::Config {
            eta_percent: b.field(w, 50, 99),
            max_stage: b.field(w, 0, 100),
            ai_mbps: b.field(w, 0, 1_000_000),
            flows_per_host: b.field(w, 1, 10_000),
            min_cwnd_millipackets: b.field(w, 1, 1000),
            max_cwnd_packets: b.field(w, 2, 1 << 18),
            vai: vai(b, w),
            sampling_acks: b.field(w, 0, 65535),
            probe_interval_us: b.field(w, 1000, 10_000_000),
            ecn: b.field(w, 0, 1),
        }
    }
    fn clean_rtt_ns(&self) -> u32 {
        self.base_rtt_ns()
    }
}

impl Fuzz for Swift {
    fn config(b: &mut Bytes<'_>, w: bool) -> Self::Config {
        swift::Config {
            base_target_ns: b.field(w, 1000, 1_000_000_000),
            hop_ns: b.field(w, 0, 1_000_000),
            fs_range_ns: b.field(w, 0, 10_000_000),
            fs_min_millipackets: b.field(w, 1, 1000),
            fs_max_millipackets: b.field(w, 1127, 1_000_000_000),
            ai_millipackets: b.field(w, 0, 1_000_000),
            ai_mbps: b.field(w, 0, 1_000_000),
            beta_thousandths: b.field(w, 1, 1000),
            max_mdf_thousandths: b.field(w, 1, 990),
            min_cwnd_millipackets: b.field(w, 1, 1000),
            max_cwnd_packets: b.field(w, 2, 1 << 18),
            initial_cwnd_packets: b.field(w, 1, 1 << 18),
            retx_reset_threshold: b.field(w, 1, 255),
            pacing_percent: b.field(w, 150, 1000),
            vai: vai(b, w),
            sampling_acks: b.field(w, 0, 65535),
            ecn: b.field(w, 0, 1),
        }
    }
    /// Below every target there can be.
    fn clean_rtt_ns(&self) -> u32 {
        900
    }
}

fn path(b: &mut Bytes<'_>) -> Path {
    Path {
        line_rate: b.u64() >> (b.u8() & 63),
        base_rtt_ns: b.u32(),
        handshake_rtt_ns: b.u32(),
        clock_ns: b.u32() as u16,
        mss: b.u32() as u16,
        overhead: b.u32() as u16,
        hops: b.u8(),
    }
}

fn record(b: &mut Bytes<'_>) -> Record {
    Record {
        hop_id: u32::from(b.u8()),
        qlen_bytes: b.u32(),
        tx_bytes: b.u32(),
        ts_ns: b.u32(),
        inverse_rate: b.u32(),
    }
}

fn int<'a>(b: &mut Bytes<'_>, records: &'a mut [Record; 10]) -> Int<'a> {
    match b.u8() % 5 {
        0 => Int::None,
        1 => Int::Mpd(Mpd {
            forward_ns: b.u32(),
            backward_ns: b.u32(),
            coverage: if b.bool() {
                Coverage::Full
            } else {
                Coverage::Partial
            },
        }),
        2 => Int::Bottleneck(record(b)),
        _ => {
            let count = usize::from(b.u8() % 11);
            for r in records.iter_mut().take(count) {
                *r = record(b);
            }
            let wrap = match b.u8() % 4 {
                0 => Wrap::BOTTLENECK,
                1 | 2 => Wrap::STACK,
                _ => Wrap {
                    tx_mask: b.u32(),
                    ts_mask: b.u32(),
                },
            };
            Int::Stack(&records[..count], wrap)
        }
    }
}

/// What must hold of a law at any time.
fn check<L: Fuzz>(law: &L, params: &L::Params) {
    let cwnd = law.cwnd();
    assert!(cwnd <= MAX_CWND, "{}: a window of {cwnd}", L::NAME);
    if law.started() {
        assert!(cwnd > 0, "{}: a started flow has a window", L::NAME);
        assert!(
            law.pacing_rate(params) >= law.window().least_rate(),
            "{}: and a pacing rate",
            L::NAME
        );
        assert!(law.cwnd_packets() >= 2 && law.ssthresh() >= 2);
        let (low, high) = (cwnd / ONE_PACKET, cwnd / ONE_PACKET + 1);
        let whole = u64::from(law.cwnd_packets_at(cwnd as u32));
        assert!(
            whole >= low && whole <= high.max(2),
            "{}: {whole} for {cwnd}",
            L::NAME
        );
    } else {
        assert!(cwnd == 0);
    }
}

/// Clean ACKs for many rounds: the window is back at two packets or has grown all the time.
fn recover<L: Fuzz>(
    law: &mut L,
    config: &L::Config,
    params: &L::Params,
    hops: &mut HopHistory,
    mut ack: Ack<'_>,
) {
    const ROUNDS: u64 = 3000;
    law.on_recovery_exit(params);
    // The rounds of a wrecked history may end in the far future: start counting anew.
    law.on_idle_restart(params, ack.now_ns);
    let before = law.window().cwnd();
    // Whatever else was configured, two packets are allowed.
    for _ in 0..2 * ROUNDS {
        let rtt_ns = law.clean_rtt_ns();
        ack = Ack {
            now_ns: ack.now_ns.wrapping_add(u64::from(rtt_ns) / 2 + 1),
            rtt_ns,
            acked: 1,
            delivered: ack.delivered.wrapping_add(1),
            prior_delivered: ack.delivered.wrapping_sub(1),
            in_flight: 1,
            full_size: true,
            int: Int::Mpd(Mpd {
                forward_ns: 0,
                backward_ns: 0,
                coverage: Coverage::Full,
            }),
            ..Ack::default()
        };
        law.on_ack(params, Some(hops), &ack);
        check(law, params);
    }
    let after = law.window().cwnd();
    assert!(
        after >= 2 * ONE_PACKET || after >= before + ROUNDS / 2 || law.content(params, config),
        "{}: {before} before, {after} after {ROUNDS} clean rounds",
        L::NAME
    );
}

/// One run.
pub fn run<L: Fuzz>(data: &[u8]) {
    let b = &mut Bytes(data);
    let wild = b.u8() % 8 == 0;
    let config = L::config(b, wild);
    let params = match L::prepare(&config) {
        Ok(params) => params,
        Err(ConfigError {
            field,
            value,
            min,
            max,
        }) => {
            assert!(
                value < min || value > max,
                "{field} is {value}: {min} to {max}"
            );
            assert!(
                wild,
                "{field} is {value} in a configuration made within its bounds"
            );
            return;
        }
    };
    let mut law = L::default();
    let mut hops = HopHistory::default();
    let mut last = Ack::default();
    let mut started = false;
    for _ in 0..512 {
        if b.0.is_empty() {
            break;
        }
        let mut records = [Record::default(); 10];
        match b.u8() % 16 {
            0 => law.on_loss(&params, last.now_ns),
            1 => law.on_timeout(&params, last.now_ns),
            2 => law.on_recovery_exit(&params),
            3 => law.on_undo(&params),
            4 => law.on_idle_restart(&params, last.now_ns),
            5 if started => law.path_changed(&params, &path(b)),
            6 => {
                law.start(&params, &path(b), last.now_ns);
                started = true;
            }
            _ => {
                let ack = Ack {
                    // A clock that never goes back, and counters that may.
                    now_ns: last.now_ns.wrapping_add(u64::from(b.u32())),
                    rtt_ns: b.u32(),
                    acked: b.u32(),
                    delivered: last.delivered.wrapping_add(b.u32()),
                    prior_delivered: last.delivered.wrapping_sub(b.u32()),
                    in_flight: b.u32(),
                    ce: b.u32(),
                    app_limited: b.bool(),
                    full_size: b.bool(),
                    int: int(b, &mut records),
                };
                let place = if b.bool() { Some(&mut hops) } else { None };
                law.on_ack(&params, place, &ack);
                last = Ack {
                    int: Int::None,
                    ..ack
                };
            }
        }
        check(&law, &params);
    }
    if !started {
        law.start(&params, &path(b), last.now_ns);
    }
    recover(&mut law, &config, &params, &mut hops, last);
}
