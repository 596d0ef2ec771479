// SPDX-License-Identifier: GPL-2.0
//! PowerTCP (NSDI'22, §3.3, Algorithm 1) as a congestion control: `powertcp`.
//!
//! It believes that the window a path can take is what it takes now, divided by the path's power: what a
//! hop sends and queues per time, times what it holds. Hops say both in their telemetry. After a round
//! trip without any it is θ-PowerTCP, which reads the same from round-trip times, until telemetry comes
//! back. The law is in `laws/src/powertcp.rs`; here are its parameters and nothing else.

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
    theta_powertcp::{Config, POWER_SHIFT},
    ConfigError, Law, PowerTcp,
};

law_module! {
    name: "tcp_powertcp",
    sysctls: c"net/fathom/powertcp",
    description: "PowerTCP congestion control (in-band telemetry; theta-PowerTCP without)",
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
        calm: 1, "1: at rest two looks in a round trip are enough, 0: look at every ACK";
    }
}

impl Tenant for Cc {
    type Law = PowerTcp;

    #[inline]
    fn settings(v: &Values) -> Result<Settings<PowerTcp>, ConfigError> {
        Ok(Settings {
            law: PowerTcp::prepare(&Config {
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

    fn base_rtt_ns(law: &PowerTcp) -> u32 {
        law.base_rtt_ns()
    }

    fn gauge(law: &PowerTcp) -> u32 {
        law.power() >> (POWER_SHIFT - 8)
    }
}
