// SPDX-License-Identifier: GPL-2.0
//! θ-PowerTCP (NSDI'22, §3.5 and Appendix D) as a congestion control: `theta_powertcp`.
//!
//! The window follows the path's power, measured by round-trip times alone; see the law itself in
//! `laws/src/theta_powertcp.rs`. Here are its parameters and nothing else.

use kernel::{prelude::*, sync::SetOnce};

mod kapi;
mod law_cc;
#[allow(unused_imports, unreachable_pub)] // a crate in its own right; each module uses one law of it
#[path = "../laws/src/lib.rs"]
mod laws;

use kapi::{cong::Registration, param};
use law_cc::{LawCc, Settings, Tenant};
use laws::{
    theta_powertcp::{Config, POWER_SHIFT},
    ThetaPowerTcp,
};

module! {
    type: Module,
    name: "tcp_theta_powertcp",
    authors: ["The Fathom authors"],
    description: "theta-PowerTCP congestion control (no switch support needed)",
    license: "GPL",
    alias: ["tcp_theta_powertcp"],
    params: {
        host_mbps: u32 {
            default: 0,
            description: "rate of the host's link, Mbit/s (0: 10000; 1 to 10000000)",
        },
        base_rtt_us: u32 {
            default: 0,
            description: "base RTT of a full-size packet, us (0: learn it; 1 to 1000000)",
        },
        gamma_percent: u32 {
            default: 90,
            description: "weight of the new window against the old, percent (1 to 100)",
        },
        flows_per_host: u32 {
            default: 10,
            description: "flows expected to share the link: additive increase is its BDP over this (1 to 1000)",
        },
        gentle_start: u32 {
            default: 0,
            description: "0: first round at line rate, 1: from ten packets, doubling",
        },
    },
}

struct Theta;

static SETTINGS: SetOnce<Settings<ThetaPowerTcp>> = SetOnce::new();

impl Tenant for Theta {
    type Law = ThetaPowerTcp;

    fn settings() -> &'static SetOnce<Settings<ThetaPowerTcp>> {
        &SETTINGS
    }

    fn base_rtt_us(law: &ThetaPowerTcp) -> u32 {
        law.base_rtt_ns() / 1000
    }

    fn gauge(law: &ThetaPowerTcp) -> u32 {
        law.power() >> (POWER_SHIFT - 8)
    }
}

struct Module {
    _registration: Registration<LawCc<Theta>>,
}

impl kernel::Module for Module {
    fn init(module: &'static ThisModule) -> Result<Self> {
        let config = Config {
            gamma_percent: *module_parameters::gamma_percent.value(),
            flows_per_host: *module_parameters::flows_per_host.value(),
            gentle_start: *module_parameters::gentle_start.value(),
            ..Config::default()
        };
        SETTINGS.populate(Settings {
            law: param::law::<ThetaPowerTcp>(&config)?,
            line_rate: param::line_rate(*module_parameters::host_mbps.value())?,
            base_rtt_ns: param::base_rtt_ns(*module_parameters::base_rtt_us.value())?,
        });
        Ok(Self {
            _registration: Registration::new(module)?,
        })
    }
}
