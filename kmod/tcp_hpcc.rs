// SPDX-License-Identifier: GPL-2.0
//! HPCC (SIGCOMM'19) as a congestion control: `hpcc`.
//!
//! It believes that the bytes in flight over each link, its queue and what it sends in a base RTT, should
//! be a little less than a bandwidth-delay product; telemetry says how many there are. After a round trip
//! without any it takes the round-trip time for it. With `variable_ai` and `sampling_frequency` it takes
//! the two mechanisms of *Fast Convergence to Fairness*. The law is in `laws/src/hpcc.rs`; here are its
//! parameters and nothing else.

use kernel::prelude::*;

mod int_sample;
#[macro_use]
mod kapi;
mod law_cc;
#[allow(unused_imports, unreachable_pub)] // a crate in its own right; each module uses one law of it
#[path = "../laws/src/lib.rs"]
mod laws;
#[path = "../wire/src/trace.rs"]
#[allow(dead_code, unreachable_pub)]
mod trace;
#[allow(unused_imports, unreachable_pub)]
#[path = "../wire/src/lib.rs"]
mod wire;

use kapi::param;
use law_cc::{Settings, Tenant};
use laws::{
    hpcc::{Config, UTIL_SHIFT},
    variable_ai, ConfigError, Hpcc, Law,
};

law_module! {
    name: "tcp_hpcc",
    sysctls: c"net/fathom/hpcc",
    description: "HPCC congestion control (in-band telemetry; round-trip time without)",
    params: {
        host_mbps: 0, "rate of the host's link, Mbit/s (0: the device's own; 1 to 10000000)";
        base_rtt_us: 0, "base RTT of a full-size packet, us (0: learn it; 1 to 1000000)";
        eta_percent: 95, "part of a bandwidth-delay product to have in flight, percent (50 to 99)";
        max_stage: 5, "additive increases in a row before a multiplicative one (0 to 100)";
        ai_mbps: 0, "additive increase, Mbit/s (0: from flows_per_host; up to 1000000)";
        flows_per_host: 100, "flows expected to share the link: additive increase is BDP (1 - eta) over this (1 to 10000)";
        gentle_start: 0, "0: first round at line rate, 1: from two packets";
        min_cwnd_millipackets: 10, "least window, thousandths of a packet (1 to 1000)";
        max_cwnd_packets: 262144, "largest window, packets (2 to 262144)";
        variable_ai: 0, "1: Variable AI";
        vai_token_threshold: 50000, "Variable AI: queue that earns tokens, bytes (1 to 1073741824)";
        vai_ai_div: 1000, "Variable AI: queue per token, bytes (1 to 1073741824)";
        vai_bank_cap: 1000, "Variable AI: tokens that can be kept (1 to 65535)";
        vai_ai_cap: 100, "Variable AI: tokens that one increase can spend (1 to 65535)";
        vai_dampener_constant: 8, "Variable AI: the dampener that halves the tokens (1 to 1000)";
        sampling_frequency: 0, "Sampling Frequency: packets acknowledged between decreases (0: once per RTT; up to 65535)";
        probe_interval_us: 100000, "how long a base RTT learned without telemetry stays fresh, us (0: for ever; 1000 to 10000000)";
        ecn: 1, "1: answer ECN marks as DCTCP does, 0: leave them";
    }
}

impl Tenant for Cc {
    type Law = Hpcc;

    #[inline]
    fn settings(v: &Values) -> Result<Settings<Hpcc>, ConfigError> {
        let gentle = param::flag("gentle_start", v.gentle_start)?;
        let vai = param::flag("variable_ai", v.variable_ai)?;
        let sampling_acks =
            ConfigError::check("sampling_frequency", v.sampling_frequency, 0, 65535)?;
        Ok(Settings {
            law: Hpcc::prepare(&Config {
                eta_percent: v.eta_percent,
                max_stage: v.max_stage,
                ai_mbps: v.ai_mbps,
                flows_per_host: v.flows_per_host,
                min_cwnd_millipackets: v.min_cwnd_millipackets,
                max_cwnd_packets: v.max_cwnd_packets,
                vai: variable_ai::Config {
                    enabled: vai.into(),
                    token_threshold: v.vai_token_threshold,
                    ai_div: v.vai_ai_div,
                    bank_cap: v.vai_bank_cap,
                    ai_cap: v.vai_ai_cap,
                    dampener_constant: v.vai_dampener_constant,
                },
                sampling_acks,
                probe_interval_us: v.probe_interval_us,
                ecn: v.ecn,
            })?,
            line_rate: param::line_rate(v.host_mbps)?,
            base_rtt_ns: param::base_rtt_ns(v.base_rtt_us)?,
            gentle,
        })
    }

    fn base_rtt_ns(law: &Hpcc) -> u32 {
        law.base_rtt_ns()
    }

    fn gauge(law: &Hpcc) -> u32 {
        law.util() >> (UTIL_SHIFT - 8)
    }
}
