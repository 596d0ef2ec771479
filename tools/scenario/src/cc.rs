// SPDX-License-Identifier: GPL-2.0

//! Congestion controls by name, and their parameters.
//!
//! A law of `laws/` takes the fields of its own `Config`, called as its module parameters are; they
//! are checked by the law itself. The baselines that engines bring along (the kernel's, and those of
//! the papers) have a table here.

use laws::{hpcc, poseidon, swift, theta_powertcp, ConfigError, Law as _};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "their names are their descriptions")]
pub enum Law {
    Poseidon,
    Powertcp,
    ThetaPowertcp,
    Hpcc,
    Swift,
    Dctcp,
    Cubic,
    Reno,
    Bbr,
    Timely,
    Dcqcn,
    Retcp,
}

impl Law {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Poseidon,
        Self::Powertcp,
        Self::ThetaPowertcp,
        Self::Hpcc,
        Self::Swift,
        Self::Dctcp,
        Self::Cubic,
        Self::Reno,
        Self::Bbr,
        Self::Timely,
        Self::Dcqcn,
        Self::Retcp,
    ];

    /// Its name, as the kernel and scenario files have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Poseidon => "poseidon",
            Self::Powertcp => "powertcp",
            Self::ThetaPowertcp => "theta_powertcp",
            Self::Hpcc => "hpcc",
            Self::Swift => "swift",
            Self::Dctcp => "dctcp",
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr => "bbr",
            Self::Timely => "timely",
            Self::Dcqcn => "dcqcn",
            Self::Retcp => "retcp",
        }
    }

    /// The law of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|law| law.name() == name)
    }

    /// Whether it is one of `laws/`, with a kernel module of the project.
    #[must_use]
    pub const fn ours(self) -> bool {
        matches!(
            self,
            Self::Poseidon | Self::Powertcp | Self::ThetaPowertcp | Self::Hpcc | Self::Swift
        )
    }

    /// The telemetry it asks for when nothing else is said.
    #[must_use]
    pub const fn default_int(self) -> Option<IntFormat> {
        match self {
            Self::Poseidon => Some(IntFormat::Mpd),
            Self::Powertcp | Self::Hpcc => Some(IntFormat::Bottleneck),
            _ => None,
        }
    }

    /// The parameters that can be set.
    #[must_use]
    pub fn params(self) -> Vec<&'static str> {
        match self {
            Self::Poseidon => poseidon_params::NAMES.to_vec(),
            Self::Powertcp | Self::ThetaPowertcp => theta_params::NAMES.to_vec(),
            Self::Hpcc => [hpcc_params::NAMES, vai_params::NAMES].concat(),
            Self::Swift => [swift_params::NAMES, vai_params::NAMES].concat(),
            _ => self.baseline().iter().map(|p| p.name).collect(),
        }
    }

    /// The parameters of a baseline; empty for the laws of `laws/`.
    #[must_use]
    pub const fn baseline(self) -> &'static [Param] {
        match self {
            Self::Dctcp => DCTCP,
            Self::Cubic | Self::Reno => LOSS_BASED,
            Self::Bbr => BBR,
            Self::Timely => TIMELY,
            Self::Dcqcn => DCQCN,
            Self::Retcp => RETCP,
            _ => &[],
        }
    }
}

/// What the packets of a connection carry; `wire/` defines each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IntFormat {
    /// Maximum per-hop delay.
    Mpd,
    /// The record of the most congested hop.
    Bottleneck,
    /// A record per hop.
    Stack,
}

impl IntFormat {
    /// The same in `wire/`, which knows its size.
    #[must_use]
    pub const fn wire(self) -> wire::Format {
        match self {
            Self::Mpd => wire::Format::Mpd,
            Self::Bottleneck => wire::Format::Bottleneck,
            Self::Stack => wire::Format::Stack,
        }
    }
}

/// Where a sender's base RTT comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BaseRtt {
    /// The sender learns it.
    #[default]
    Learn,
    /// The sender is told the base RTT of its own path.
    Path,
    /// All senders are told this, ns.
    Given(u64),
}

/// A congestion control with its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CcSpec {
    /// Its name in the scenario: the law's, or that of a variant.
    pub name: String,
    /// The algorithm.
    pub law: Law,
    /// Parameters that are set; the others have their defaults.
    pub params: BTreeMap<String, u32>,
    /// What its packets carry.
    pub int: Option<IntFormat>,
    /// What it knows of its base RTT.
    pub base_rtt: BaseRtt,
}

/// The configuration of a law of `laws/`.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "one per law")]
pub enum Config {
    Poseidon(poseidon::Config),
    Powertcp(theta_powertcp::Config),
    ThetaPowertcp(theta_powertcp::Config),
    Hpcc(hpcc::Config),
    Swift(swift::Config),
    /// A baseline: see [`CcSpec::get`].
    Baseline,
}

/// What is wrong with a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamError {
    /// There is no such parameter.
    Unknown,
    /// It is out of its bounds.
    Bounds(ConfigError),
}

impl CcSpec {
    /// `law` with nothing set.
    #[must_use]
    pub fn plain(law: Law) -> Self {
        Self {
            name: law.name().to_owned(),
            law,
            params: BTreeMap::new(),
            int: law.default_int(),
            base_rtt: BaseRtt::Learn,
        }
    }

    /// The configuration for `laws/`.
    ///
    /// # Errors
    /// Names the parameter that is unknown or out of bounds. A spec of a [`crate::Resolved`] has
    /// been checked.
    pub fn config(&self) -> Result<Config, (String, ParamError)> {
        let bounds = |e: ConfigError| (e.field.to_owned(), ParamError::Bounds(e));
        Ok(match self.law {
            Law::Poseidon => {
                let mut c = poseidon::Config::default();
                self.fill(|n| poseidon_params::field(&mut c, n).is_some(), &[])?;
                self.set(|n, v| poseidon_params::field(&mut c, n).map(|f| *f = v));
                laws::Poseidon::prepare(&c).map_err(bounds)?;
                Config::Poseidon(c)
            }
            Law::Powertcp | Law::ThetaPowertcp => {
                let mut c = theta_powertcp::Config::default();
                self.fill(|n| theta_params::field(&mut c, n).is_some(), &[])?;
                self.set(|n, v| theta_params::field(&mut c, n).map(|f| *f = v));
                laws::ThetaPowerTcp::prepare(&c).map_err(bounds)?;
                if self.law == Law::Powertcp {
                    Config::Powertcp(c)
                } else {
                    Config::ThetaPowertcp(c)
                }
            }
            Law::Hpcc => {
                let mut c = hpcc::Config::default();
                self.fill(
                    |n| hpcc_params::field(&mut c, n).is_some(),
                    vai_params::NAMES,
                )?;
                self.set(|n, v| hpcc_params::field(&mut c, n).map(|f| *f = v));
                self.set(|n, v| vai_params::field(&mut c.vai, n).map(|f| *f = v));
                laws::Hpcc::prepare(&c).map_err(bounds)?;
                Config::Hpcc(c)
            }
            Law::Swift => {
                let mut c = swift::Config::default();
                self.fill(
                    |n| swift_params::field(&mut c, n).is_some(),
                    vai_params::NAMES,
                )?;
                self.set(|n, v| swift_params::field(&mut c, n).map(|f| *f = v));
                self.set(|n, v| vai_params::field(&mut c.vai, n).map(|f| *f = v));
                laws::Swift::prepare(&c).map_err(bounds)?;
                Config::Swift(c)
            }
            law => {
                for (name, &value) in &self.params {
                    let Some(p) = law.baseline().iter().find(|p| p.name == name) else {
                        return Err((name.clone(), ParamError::Unknown));
                    };
                    ConfigError::check(p.name, value, p.min, p.max).map_err(bounds)?;
                }
                Config::Baseline
            }
        })
    }

    /// A parameter of a baseline: as set, or its default; 0 when there is none of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> u32 {
        let default = self.law.baseline().iter().find(|p| p.name == name);
        let default = default.map_or(0, |p| p.default);
        self.params.get(name).copied().unwrap_or(default)
    }

    /// The parameters as modprobe takes them: `a=1 b=2`.
    #[must_use]
    pub fn module_params(&self) -> String {
        let params: Vec<String> = self
            .params
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        params.join(" ")
    }

    /// Whether its packets are ECN-capable.
    #[must_use]
    pub fn ecn(&self) -> bool {
        match self.law {
            Law::Dctcp | Law::Dcqcn => true,
            Law::Cubic | Law::Reno | Law::Bbr | Law::Timely | Law::Retcp => self.get("ecn") != 0,
            // The modules do not ask the kernel for ECN: packets are ECN-capable when a scenario says so.
            _ => self.params.get("ecn").is_some_and(|&ecn| ecn != 0),
        }
    }

    fn fill(
        &self,
        mut known: impl FnMut(&str) -> bool,
        also: &[&str],
    ) -> Result<(), (String, ParamError)> {
        match self
            .params
            .keys()
            .find(|name| !known(name) && !also.contains(&name.as_str()))
        {
            Some(name) => Err((name.clone(), ParamError::Unknown)),
            None => Ok(()),
        }
    }

    fn set(&self, mut set: impl FnMut(&str, u32) -> Option<()>) {
        for (name, &value) in &self.params {
            let _ = set(name, value);
        }
    }
}

/// A module with the names of a `Config`'s fields and access by name. The pattern in it names every
/// field, so that a new one does not go unnoticed.
macro_rules! fields {
    ($module:ident, $config:path, [$($field:ident = $name:literal),* $(,)?] $(, not $skip:ident)?) => {
        mod $module {
            use $config as Config;
            pub(super) const NAMES: &[&str] = &[$($name),*];
            pub(super) fn field<'a>(config: &'a mut Config, name: &str) -> Option<&'a mut u32> {
                let Config { $($field,)* $($skip: _,)? } = config;
                match name {
                    $($name => Some($field),)*
                    _ => None,
                }
            }
        }
    };
}

fields!(
    poseidon_params,
    laws::poseidon::Config,
    [
        p_ns = "p_ns",
        k_ns = "k_ns",
        base_rtt_us = "base_rtt_us",
        m_thousandths = "m_thousandths",
        adapt_m = "adapt_m",
        min_rate_mbps = "min_rate_mbps",
        max_rate_mbps = "max_rate_mbps",
        min_md_thousandths = "min_md_thousandths",
        max_mi_thousandths = "max_mi_thousandths",
        min_cwnd_millipackets = "min_cwnd_millipackets",
        max_cwnd_packets = "max_cwnd_packets",
        initial_cwnd_packets = "initial_cwnd_packets",
        retx_reset_threshold = "retx_reset_threshold",
        pacing_percent = "pacing_percent",
        probe_interval_us = "probe_interval_us",
        ecn = "ecn",
        calm = "calm",
        signal = "signal",
        target = "target",
        q_thousandths = "q_thousandths",
        update = "update",
        ratio_m_ns = "ratio_m_ns",
        ai_millipackets = "ai_millipackets",
    ]
);
fields!(
    theta_params,
    laws::theta_powertcp::Config,
    [
        gamma_percent = "gamma_percent",
        flows_per_host = "flows_per_host",
        gentle_start = "gentle_start",
        min_cwnd_millipackets = "min_cwnd_millipackets",
        max_cwnd_packets = "max_cwnd_packets",
        probe_interval_us = "probe_interval_us",
        base_rtt_margin_ns = "base_rtt_margin_ns",
        ecn = "ecn",
        calm = "calm",
    ]
);
fields!(hpcc_params, laws::hpcc::Config, [
    eta_percent = "eta_percent",
    max_stage = "max_stage",
    ai_mbps = "ai_mbps",
    flows_per_host = "flows_per_host",
    min_cwnd_millipackets = "min_cwnd_millipackets",
    max_cwnd_packets = "max_cwnd_packets",
    sampling_acks = "sampling_acks",
    probe_interval_us = "probe_interval_us",
    ecn = "ecn",
], not vai);
fields!(swift_params, laws::swift::Config, [
    base_target_ns = "base_target_ns",
    hop_ns = "hop_ns",
    fs_range_ns = "fs_range_ns",
    fs_min_millipackets = "fs_min_millipackets",
    fs_max_millipackets = "fs_max_millipackets",
    ai_millipackets = "ai_millipackets",
    ai_mbps = "ai_mbps",
    beta_thousandths = "beta_thousandths",
    max_mdf_thousandths = "max_mdf_thousandths",
    min_cwnd_millipackets = "min_cwnd_millipackets",
    max_cwnd_packets = "max_cwnd_packets",
    initial_cwnd_packets = "initial_cwnd_packets",
    retx_reset_threshold = "retx_reset_threshold",
    pacing_percent = "pacing_percent",
    sampling_acks = "sampling_acks",
    ecn = "ecn",
], not vai);
fields!(
    vai_params,
    laws::variable_ai::Config,
    [
        enabled = "vai",
        token_threshold = "vai_token_threshold",
        ai_div = "vai_ai_div",
        bank_cap = "vai_bank_cap",
        ai_cap = "vai_ai_cap",
        dampener_constant = "vai_dampener_constant",
    ]
);

/// A parameter of a baseline.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its name, with its unit.
    pub name: &'static str,
    /// When it is not set.
    pub default: u32,
    /// The least it may be.
    pub min: u32,
    /// The most it may be.
    pub max: u32,
    /// What it is.
    pub what: &'static str,
}

const fn param(name: &'static str, default: u32, min: u32, max: u32, what: &'static str) -> Param {
    Param {
        name,
        default,
        min,
        max,
        what,
    }
}

const INITIAL_CWND: Param = param(
    "initial_cwnd_packets",
    10,
    1,
    1 << 18,
    "the first window (RFC 6928)",
);
const ECN: Param = param("ecn", 0, 0, 1, "1 = packets are ECN-capable");

/// DCTCP (RFC 8257) as Linux has it.
const DCTCP: &[Param] = &[
    INITIAL_CWND,
    param("shift_g", 4, 0, 10, "g is 2 to the minus this"),
    param(
        "alpha_on_init_1024ths",
        1024,
        0,
        1024,
        "first value of alpha",
    ),
];
/// CUBIC (RFC 9438) and Reno as Linux has them.
const LOSS_BASED: &[Param] = &[
    INITIAL_CWND,
    ECN,
    param(
        "hystart",
        1,
        0,
        1,
        "1 = leave slow start when delay or ACK trains say so (CUBIC)",
    ),
];
const BBR: &[Param] = &[INITIAL_CWND, ECN];
/// TIMELY as published for 10 Gbit/s.
const TIMELY: &[Param] = &[
    ECN,
    param(
        "t_low_ns",
        50_000,
        0,
        1_000_000_000,
        "below this RTT the rate grows",
    ),
    param(
        "t_high_ns",
        500_000,
        1,
        1_000_000_000,
        "above this RTT it shrinks",
    ),
    param("add_step_mbps", 10, 1, 1_000_000, "additive increase"),
    param("beta_thousandths", 800, 1, 1000, "decrease"),
    param(
        "alpha_thousandths",
        875,
        1,
        1000,
        "weight of a new RTT difference",
    ),
    param(
        "hai_threshold",
        5,
        1,
        1000,
        "good samples in a row before hyperactive increase",
    ),
    param("min_rate_mbps", 10, 1, 1_000_000, "the least rate"),
];
/// DCQCN as published for 40 Gbit/s, with the timers of its authors' simulator.
const DCQCN: &[Param] = &[
    param("g_1024ths", 4, 1, 1024, "weight of a round in alpha"),
    param("rai_mbps", 40, 1, 1_000_000, "additive increase"),
    param("rhai_mbps", 400, 1, 1_000_000, "hyper increase"),
    param(
        "alpha_timer_ns",
        55_000,
        1000,
        1_000_000_000,
        "alpha decays this often without a CNP",
    ),
    param(
        "rate_timer_ns",
        300_000,
        1000,
        1_000_000_000,
        "the rate grows this often",
    ),
    param(
        "byte_counter",
        10_000_000,
        1000,
        1_000_000_000,
        "... and after this many bytes",
    ),
    param("fast_recovery", 5, 1, 100, "rounds of fast recovery"),
    param(
        "cnp_interval_ns",
        50_000,
        1000,
        1_000_000_000,
        "a receiver sends no more than one CNP in this time",
    ),
    param("min_rate_mbps", 10, 1, 1_000_000, "the least rate"),
];
/// reTCP: the window jumps with the circuit.
const RETCP: &[Param] = &[
    INITIAL_CWND,
    ECN,
    param(
        "prebuffer_us",
        1800,
        0,
        1_000_000,
        "the VOQ grows this long before the circuit comes up",
    ),
    param(
        "scale_thousandths",
        4000,
        1000,
        100_000,
        "window on the circuit over window off it",
    ),
];
