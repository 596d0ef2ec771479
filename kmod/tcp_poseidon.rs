// SPDX-License-Identifier: GPL-2.0
//! Poseidon (NSDI'23) as a congestion control: `poseidon`.
//!
//! It believes that a flow should yield to a queue only at the hop where it is among the fastest: it
//! compares the largest delay of any hop, which telemetry brings, with a target that falls with its own
//! rate. Flows then come to rest at their max-min fair share, however many hops they cross. On a path
//! where some hops say nothing it goes by the end-to-end delay instead, per flow, unasked. The law is in
//! `laws/src/poseidon.rs`; here are its parameters and nothing else.

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
use laws::{poseidon::Config, ConfigError, Law, Poseidon};

law_module! {
    name: "tcp_poseidon",
    sysctls: c"net/fathom/poseidon",
    description: "Poseidon congestion control (in-band telemetry; end-to-end delay without)",
    params: {
        host_mbps: 0, "rate of the host's link, Mbit/s (0: the device's own; 1 to 10000000)";
        base_rtt_us: 32, "longest common base RTT of the network, us: p and k derive from it (1 to 100000)";
        p_ns: 0, "p, from the target of the fastest flow to that of the slowest, ns (0: derived; 4000 to 1000000000)";
        k_ns: 0, "k, target of the fastest flow, ns (0: derived; 50 to 67108864)";
        m_thousandths: 250, "m, gain of an update, thousandths; larger is faster (1 to 1999)";
        adapt_m: 1, "1: a flow with a long base RTT takes a smaller m, 0: m as it is";
        min_rate_mbps: 0, "rate of the slowest flow worth telling apart, Mbit/s (0: max_rate/10000)";
        max_rate_mbps: 0, "rate of the fastest, Mbit/s; all hosts alike (0: the host's link; up to 10000000)";
        min_md_thousandths: 500, "largest decrease in a round trip, thousandths of the window that stay (10 to 999)";
        max_mi_thousandths: 10000, "largest increase in a round trip, thousandths (1001 to 100000)";
        gentle_start: 0, "1: the first window is two packets";
        initial_cwnd_packets: 10, "first window, packets (1 to 262144)";
        min_cwnd_millipackets: 10, "least window, thousandths of a packet (1 to 1000)";
        max_cwnd_packets: 262144, "largest window, packets (2 to 262144)";
        retx_reset_threshold: 5, "timeouts in a row that reset the window to the least (1 to 255)";
        pacing_percent: 200, "pacing above two packets, percent of cwnd/RTT (0: none; 150 to 1000)";
        probe_interval_us: 100000, "how long a base RTT learned without telemetry stays fresh, us (0: for ever; 1000 to 10000000)";
        ecn: 1, "1: answer ECN marks as DCTCP does, 0: leave them";
        calm: 1, "1: at rest one look in a round trip is enough, 0: look at every ACK";
        signal: 0, "ablation: 0: maximum per-hop delay, 1: end-to-end delay";
        target: 0, "ablation: 0: logarithmic target, 1: power law, 2: fixed";
        q_thousandths: 500, "exponent of the power law, negative, thousandths (1 to 2000)";
        update: 0, "ablation: 0: by the distance, 1: by the ratio, 2: additive increase";
        ratio_m_ns: 0, "m of the update by the ratio, ns (0 to 1000000000)";
        ai_millipackets: 1000, "additive increase of the ablation, thousandths of a packet per RTT (1 to 1000000)";
    }
}

impl Tenant for Cc {
    type Law = Poseidon;

    #[inline]
    fn settings(v: &Values) -> Result<Settings<Poseidon>, ConfigError> {
        let gentle = param::flag("gentle_start", v.gentle_start)?;
        Ok(Settings {
            law: Poseidon::prepare(&Config {
                p_ns: v.p_ns,
                k_ns: v.k_ns,
                base_rtt_us: v.base_rtt_us,
                m_thousandths: v.m_thousandths,
                adapt_m: v.adapt_m,
                min_rate_mbps: v.min_rate_mbps,
                max_rate_mbps: v.max_rate_mbps,
                min_md_thousandths: v.min_md_thousandths,
                max_mi_thousandths: v.max_mi_thousandths,
                min_cwnd_millipackets: v.min_cwnd_millipackets,
                max_cwnd_packets: v.max_cwnd_packets,
                initial_cwnd_packets: v.initial_cwnd_packets,
                retx_reset_threshold: v.retx_reset_threshold,
                pacing_percent: v.pacing_percent,
                probe_interval_us: v.probe_interval_us,
                ecn: v.ecn,
                calm: v.calm,
                signal: v.signal,
                target: v.target,
                q_thousandths: v.q_thousandths,
                update: v.update,
                ratio_m_ns: v.ratio_m_ns,
                ai_millipackets: v.ai_millipackets,
            })?,
            line_rate: param::line_rate(v.host_mbps)?,
            // What a flow's own base RTT is, it learns: `base_rtt_us` is the network's.
            base_rtt_ns: 0,
            gentle,
        })
    }

    fn base_rtt_ns(law: &Poseidon) -> u32 {
        law.base_rtt_ns()
    }

    #[inline(never)]
    fn target_ns(law: &Poseidon, settings: &Settings<Poseidon>) -> u32 {
        law.target_ns(&settings.law)
    }
}
