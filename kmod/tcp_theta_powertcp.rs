// SPDX-License-Identifier: GPL-2.0
//! θ-PowerTCP (NSDI'22, §3.5 and Appendix D) as a congestion control: `theta_powertcp`.
//!
//! It believes that the window a path can take is what it takes now, divided by the path's power: how
//! full it is times how fast it fills, both read from round-trip times. It needs no switch. The law is in
//! `laws/src/theta_powertcp.rs`; here are its parameters and nothing else.

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
use laws::{
    theta_powertcp::{Config, POWER_SHIFT},
    ConfigError, Law, ThetaPowerTcp,
};

law_module! {
    name: "tcp_theta_powertcp",
    sysctls: c"net/fathom/theta_powertcp",
    description: "theta-PowerTCP congestion control (no switch support needed)",
    params: {
        host_mbps: 0, "rate of the host's link, Mbit/s (0: the device's own; 1 to 10000000)";
        base_rtt_us: 0, "base RTT of a full-size packet, us (0: learn it; 1 to 1000000)";
        gamma_percent: 90, "weight of the new window against the old, percent (1 to 100)";
        flows_per_host: 10, "flows expected to share the link: additive increase is its BDP over this (1 to 1000)";
        gentle_start: 0, "0: first round at line rate, 1: from ten packets, doubling";
        min_cwnd_millipackets: 10, "least window, thousandths of a packet (1 to 1000)";
        max_cwnd_packets: 262144, "largest window, packets (2 to 262144)";
        probe_interval_us: 100000, "how long a learned base RTT stays fresh, us (0: for ever; 1000 to 10000000)";
        base_rtt_margin_ns: 0, "added to a learned base RTT for hosts that jitter, ns (0 to 60000)";
        ecn: 1, "1: answer ECN marks as DCTCP does, 0: leave them";
        calm: 1, "1: at rest one look in a round trip is enough, 0: look at every ACK";
    }
}

impl Tenant for Cc {
    type Law = ThetaPowerTcp;

    #[inline]
    fn settings(v: &Values) -> Result<Settings<ThetaPowerTcp>, ConfigError> {
        Ok(Settings {
            law: ThetaPowerTcp::prepare(&Config {
                gamma_percent: v.gamma_percent,
                flows_per_host: v.flows_per_host,
                gentle_start: v.gentle_start,
                min_cwnd_millipackets: v.min_cwnd_millipackets,
                max_cwnd_packets: v.max_cwnd_packets,
                probe_interval_us: v.probe_interval_us,
                base_rtt_margin_ns: v.base_rtt_margin_ns,
                ecn: v.ecn,
                calm: v.calm,
            })?,
            line_rate: param::line_rate(v.host_mbps)?,
            base_rtt_ns: param::base_rtt_ns(v.base_rtt_us)?,
            gentle: false,
        })
    }

    fn base_rtt_ns(law: &ThetaPowerTcp) -> u32 {
        law.base_rtt_ns()
    }

    fn gauge(law: &ThetaPowerTcp) -> u32 {
        law.power() >> (POWER_SHIFT - 8)
    }
}
