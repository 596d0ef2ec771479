// SPDX-License-Identifier: GPL-2.0
//! Swift (SIGCOMM'20) as a congestion control: `swift`.
//!
//! It believes that an end-to-end delay and a target for it are enough: below the target add, above it
//! multiply by how far above, once per round trip. It needs no switch. With `variable_ai` and
//! `sampling_frequency` it takes the two mechanisms of *Fast Convergence to Fairness*. The law is in
//! `laws/src/swift.rs`; here are its parameters and nothing else.

use kernel::prelude::*;

#[macro_use]
mod kapi;
mod law_cc;
#[allow(unused_imports, unreachable_pub)] // a crate in its own right; each module uses one law of it
#[path = "../laws/src/lib.rs"]
mod laws;
#[path = "../wire/src/trace.rs"]
#[allow(dead_code, unreachable_pub)]
mod trace;

use kapi::param;
use law_cc::{Settings, Tenant};
use laws::{swift::Config, variable_ai, ConfigError, Law, Swift};

law_module! {
    name: "tcp_swift",
    sysctls: c"net/fathom/swift",
    description: "Swift congestion control (end-to-end delay)",
    params: {
        host_mbps: 0, "rate of the host's link, Mbit/s (0: the device's own; 1 to 10000000)";
        base_rtt_us: 0, "base RTT of a full-size packet, us (0: learn it; 1 to 1000000)";
        base_target_ns: 0, "base target delay, ns (0: the base RTT and a quarter; 1000 to 1000000000)";
        hop_ns: 1000, "target per hop, ns (0 to 1000000)";
        fs_range_ns: 100000, "the most that flow scaling adds to the target, ns (0: none; up to 10000000)";
        fs_min_millipackets: 100, "flow scaling is full below this window, thousandths of a packet (1 to 1000000)";
        fs_max_millipackets: 100000, "there is none above this window, thousandths of a packet (up to 1000000000)";
        ai_millipackets: 1000, "additive increase, thousandths of a packet per RTT (0: ai_mbps; up to 1000000)";
        ai_mbps: 50, "the same as a rate, Mbit/s (0 to 1000000)";
        beta_thousandths: 800, "strength of the decrease, thousandths (1 to 1000)";
        max_mdf_thousandths: 500, "largest decrease in a round trip, thousandths (1 to 990)";
        gentle_start: 0, "1: the first window is two packets";
        initial_cwnd_packets: 10, "first window, packets (1 to 262144)";
        min_cwnd_millipackets: 10, "least window, thousandths of a packet (1 to 1000)";
        max_cwnd_packets: 262144, "largest window, packets (2 to 262144)";
        retx_reset_threshold: 5, "timeouts in a row that reset the window to the least (1 to 255)";
        pacing_percent: 200, "pacing above two packets, percent of cwnd/RTT (0: none; 150 to 1000)";
        variable_ai: 0, "1: Variable AI";
        vai_token_threshold: 4000, "Variable AI: delay beyond the target that earns tokens, ns (1 to 1073741824)";
        vai_ai_div: 30, "Variable AI: delay per token, ns (1 to 1073741824)";
        vai_bank_cap: 1000, "Variable AI: tokens that can be kept (1 to 65535)";
        vai_ai_cap: 100, "Variable AI: tokens that one increase can spend (1 to 65535)";
        vai_dampener_constant: 8, "Variable AI: the dampener that halves the tokens (1 to 1000)";
        sampling_frequency: 0, "Sampling Frequency: packets acknowledged between decreases (0: once per RTT; up to 65535)";
        ecn: 1, "1: answer ECN marks as DCTCP does, 0: leave them";
    }
}

impl Tenant for Cc {
    type Law = Swift;

    #[inline]
    fn settings(v: &Values) -> Result<Settings<Swift>, ConfigError> {
        let gentle = param::flag("gentle_start", v.gentle_start)?;
        let vai = param::flag("variable_ai", v.variable_ai)?;
        let sampling_acks =
            ConfigError::check("sampling_frequency", v.sampling_frequency, 0, 65535)?;
        Ok(Settings {
            law: Swift::prepare(&Config {
                base_target_ns: v.base_target_ns,
                hop_ns: v.hop_ns,
                fs_range_ns: v.fs_range_ns,
                fs_min_millipackets: v.fs_min_millipackets,
                fs_max_millipackets: v.fs_max_millipackets,
                ai_millipackets: v.ai_millipackets,
                ai_mbps: v.ai_mbps,
                beta_thousandths: v.beta_thousandths,
                max_mdf_thousandths: v.max_mdf_thousandths,
                min_cwnd_millipackets: v.min_cwnd_millipackets,
                max_cwnd_packets: v.max_cwnd_packets,
                initial_cwnd_packets: v.initial_cwnd_packets,
                retx_reset_threshold: v.retx_reset_threshold,
                pacing_percent: v.pacing_percent,
                vai: variable_ai::Config {
                    enabled: vai.into(),
                    token_threshold: v.vai_token_threshold,
                    ai_div: v.vai_ai_div,
                    bank_cap: v.vai_bank_cap,
                    ai_cap: v.vai_ai_cap,
                    dampener_constant: v.vai_dampener_constant,
                },
                sampling_acks,
                ecn: v.ecn,
            })?,
            line_rate: param::line_rate(v.host_mbps)?,
            base_rtt_ns: param::base_rtt_ns(v.base_rtt_us)?,
            gentle,
        })
    }

    fn base_rtt_ns(law: &Swift) -> u32 {
        law.base_rtt_ns()
    }

    #[inline(never)]
    fn target_ns(law: &Swift, settings: &Settings<Swift>) -> u32 {
        law.target_ns(&settings.law)
    }
}
