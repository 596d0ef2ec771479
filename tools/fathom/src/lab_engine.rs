// SPDX-License-Identifier: GPL-2.0
//! The lab as an engine: a scenario's network becomes a plan for the real kernel, and what the kernel
//! counted becomes what results are made of. What the kernel cannot do as the scenario says is refused
//! here, by name, before anything is started.

use crate::{lab, paths::Paths};
use anyhow::Result;
use plan::{Answer, FlowAnswer, Module, Plan};
use results::{Facts, FlowMeasured, Measured, PortMeasured, RpcMeasured, Samples};
use scenario::{
    BaseRtt, Buffer, CcSpec, Law, NodeId, NodeKind, PortId, Queue, Resolved, SmallWindows,
};
use std::{collections::BTreeSet, fmt};

/// Queues are looked at this often, ns, unless that becomes too much.
const LOOK_NS: u64 = 5_000;
/// The most looks at switches in a run: each takes some tens of microseconds of real time.
const LOOKS: u64 = 60_000;

/// What the lab cannot do as the scenario says.
#[derive(Debug)]
pub struct Unsupported(pub String);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the lab cannot run this: {}; --on sim may", self.0)
    }
}

impl std::error::Error for Unsupported {}

/// Runs `resolved` on the real kernel and hands over what it counted. `tell` is told the part that is
/// done, and says whether to go on.
///
/// # Errors
/// [`Unsupported`], or what went wrong in the lab.
pub fn measure(
    paths: &Paths,
    resolved: &Resolved,
    tell: &mut dyn FnMut(f64) -> bool,
) -> Result<Measured> {
    let (plan, notes) = plan(resolved)?;
    let answer = lab::run(paths, &plan, tell)?;
    measured(resolved, answer, notes)
}

/// The plan for `r`, and what is not quite as the scenario says.
///
/// # Errors
/// [`Unsupported`].
pub fn plan(r: &Resolved) -> Result<(Plan, Vec<String>)> {
    let mut notes = Vec::new();
    refuse(r, &mut notes)?;
    let used = used(r);
    let mut modules = vec![Module {
        name: "sch_int".into(),
        params: String::new(),
    }];
    let mut settings = Vec::new();
    let mut sysctls = vec![Vec::new(); r.nodes.len()];
    for &cc in &used {
        let spec = &r.ccs[cc];
        match spec.law {
            law if law.ours() => modules.push(module(r, cc, &mut sysctls)?),
            Law::Dctcp => {
                let of = |name: &str, param: &str| {
                    (
                        format!("tcp_dctcp/parameters/{name}"),
                        spec.get(param).to_string(),
                    )
                };
                settings.push(of("dctcp_shift_g", "shift_g"));
                settings.push(of("dctcp_alpha_on_init", "alpha_on_init_1024ths"));
            }
            Law::Cubic => settings.push((
                "tcp_cubic/parameters/hystart".into(),
                spec.get("hystart").to_string(),
            )),
            _ => {}
        }
    }
    let formats: Vec<_> = used.iter().filter_map(|&cc| r.ccs[cc].int).collect();
    let plan = Plan {
        network: r.clone(),
        modules,
        settings,
        telemetry: formats.first().copied(),
        ecn: used.iter().any(|&cc| asks_for_ecn(&r.ccs[cc])),
        initial_cwnd: used
            .iter()
            .find_map(|&cc| first_window(&r.ccs[cc]))
            .unwrap_or(0),
        sysctls,
        ipv6: false,
        look_ns: look_ns(r),
    };
    Ok((plan, notes))
}

/// The congestion controls that flows use.
fn used(r: &Resolved) -> BTreeSet<usize> {
    r.flows.iter().map(|f| f.cc).collect()
}

/// Whether the kernel must be told to negotiate ECN; DCTCP does so itself.
fn asks_for_ecn(cc: &CcSpec) -> bool {
    cc.ecn() && cc.law != Law::Dctcp
}

/// The first window of a congestion control of the kernel's own, packets.
fn first_window(cc: &CcSpec) -> Option<u32> {
    (!cc.law.ours()).then(|| cc.get("initial_cwnd_packets"))
}

fn unsupported(what: impl Into<String>) -> Unsupported {
    Unsupported(what.into())
}

/// What the kernel cannot do as the scenario says.
fn refuse(r: &Resolved, notes: &mut Vec<String>) -> Result<(), Unsupported> {
    let used = used(r);
    let specs = || used.iter().map(|&cc| &r.ccs[cc]);
    for cc in specs() {
        if matches!(cc.law, Law::Timely | Law::Dcqcn | Law::Retcp) {
            return Err(unsupported(format!(
                "{} is no congestion control of Linux",
                cc.law.name()
            )));
        }
    }
    for (i, cc) in specs().enumerate() {
        if specs().skip(i + 1).any(|other| other.law == cc.law) {
            return Err(unsupported(format!(
                "two variants of {} at once: its parameters hold for the whole kernel",
                cc.law.name()
            )));
        }
    }
    let one = |what: &str, values: BTreeSet<String>| {
        if values.len() > 1 {
            let values: Vec<String> = values.into_iter().collect();
            return Err(unsupported(format!(
                "flows with different {what} at once ({}): the kernel has one for all",
                values.join(", ")
            )));
        }
        Ok(())
    };
    one(
        "telemetry",
        specs()
            .filter_map(|cc| cc.int.map(|int| format!("{int:?}").to_lowercase()))
            .collect(),
    )?;
    one(
        "first windows",
        specs()
            .filter_map(|cc| first_window(cc).map(|w| w.to_string()))
            .collect(),
    )?;
    one(
        "ECN",
        specs()
            .filter(|cc| cc.law != Law::Dctcp)
            .map(|cc| if cc.ecn() { "with" } else { "without" }.to_owned())
            .collect(),
    )?;
    if specs().any(|cc| cc.int.is_some()) && specs().any(|cc| cc.int.is_none()) {
        notes.push("all connections carry telemetry, also those whose law reads none".into());
    }
    if r.circuits.is_some() {
        return Err(unsupported("circuits that come and go"));
    }
    if let Some(f) = r.flows.iter().find(|f| f.on.is_some()) {
        return Err(unsupported(format!(
            "messages of group {:?} queue on standing connections",
            r.groups[f.group].name
        )));
    }
    if r.tcp.small_windows == SmallWindows::Published {
        return Err(unsupported(
            "small_windows = \"published\": Linux has two packets in flight and paces them",
        ));
    }
    if r.tcp.ack_every > 2 {
        return Err(unsupported(format!(
            "one ACK for {} packets: Linux sends one for every second at least",
            r.tcp.ack_every
        )));
    }
    for node in &r.nodes {
        if node.p4.is_some() {
            return Err(unsupported(format!("node {} has a P4 program", node.name)));
        }
        let shared = node
            .ports
            .iter()
            .any(|&p| r.port(p).buffer == Buffer::Shared);
        if shared && node.kind == NodeKind::Switch {
            notes.push(format!(
                "the shared buffer of {} is one of each port's own, of the size that dynamic thresholds give a \
                 port that is alone congested",
                node.name
            ));
        }
    }
    for port in r.ports() {
        let name = || r.port_name(port);
        match r.port(port).queue {
            Queue::Red { .. } => {
                return Err(unsupported(format!("port {} marks by RED", name())));
            }
            Queue::Codel { ecn: false, .. } if specs().any(CcSpec::ecn) => {
                return Err(unsupported(format!(
                    "CoDel at port {} that drops packets that could be marked",
                    name()
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The parameter of a module that is the rate of the host's link, Mbit/s.
const HOST_RATE: &str = "host_mbps";
/// The one that says how long the path is, us.
const BASE_RTT: &str = "base_rtt_us";

/// What a host tells a law of itself: the rate of its link, and the base RTT of its path when the scenario
/// says so.
fn told(r: &Resolved, cc: usize, host: NodeId) -> Result<Vec<(&'static str, u64)>, Unsupported> {
    let spec = &r.ccs[cc];
    let mut all = vec![(HOST_RATE, r.host_rate_bps(host) / 1_000_000)];
    if spec.base_rtt == BaseRtt::Path && !spec.params.contains_key(BASE_RTT) {
        let mine = (0..r.flows.len()).filter(|&f| r.flows[f].cc == cc && r.flows[f].src == host);
        let rtts: BTreeSet<u64> = mine.map(|f| r.base_rtt_ns(f).div_ceil(1000)).collect();
        if rtts.len() > 1 {
            return Err(unsupported(format!(
                "host {} with flows of {} over paths of different base RTTs ({rtts:?} us), each told its own: \
                 a module has one for a host",
                r.nodes[host].name, spec.name
            )));
        }
        all.extend(rtts.into_iter().map(|us| (BASE_RTT, us)));
    }
    Ok(all)
}

/// The module of a law, with the parameters that the scenario gives it and what its first sender tells it;
/// those that others tell otherwise go into their namespaces.
fn module(
    r: &Resolved,
    cc: usize,
    sysctls: &mut [Vec<(String, String)>],
) -> Result<Module, Unsupported> {
    let spec = &r.ccs[cc];
    let hosts: BTreeSet<NodeId> = r
        .flows
        .iter()
        .filter(|f| f.cc == cc)
        .map(|f| f.src)
        .collect();
    let mut params: Vec<(String, u64)> = Vec::new();
    for (i, &host) in hosts.iter().enumerate() {
        for (name, value) in told(r, cc, host)? {
            if i == 0 {
                params.push((name.to_owned(), value));
            } else if !params.contains(&(name.to_owned(), value)) {
                let name = format!("fathom/{}/{name}", spec.law.name());
                sysctls[host].push((name, value.to_string()));
            }
        }
    }
    if let (BaseRtt::Given(ns), false) = (spec.base_rtt, spec.params.contains_key(BASE_RTT)) {
        params.push((BASE_RTT.to_owned(), ns.div_ceil(1000)));
    }
    params.extend(spec.params.iter().map(|(name, &value)| {
        let name = match name.as_str() {
            "vai" => "variable_ai",
            "sampling_acks" => "sampling_frequency",
            same => same,
        };
        (name.to_owned(), value.into())
    }));
    let params: Vec<String> = params.iter().map(|(k, v)| format!("{k}={v}")).collect();
    Ok(Module {
        name: format!("tcp_{}", spec.law.name()),
        params: params.join(" "),
    })
}

/// How often queues are looked at: a whole part of the sampling interval.
fn look_ns(r: &Resolved) -> u64 {
    let switches = r
        .nodes
        .iter()
        .filter(|n| n.kind == NodeKind::Switch)
        .count() as u64;
    let least = (r.duration_ns * switches.max(1) / LOOKS).max(LOOK_NS);
    let interval = r.measure.interval_ns;
    let mut parts = interval.div_ceil(least);
    while interval % parts != 0 {
        parts -= 1;
    }
    interval / parts
}

/// What results are made of, from the kernel's answer.
///
/// # Errors
/// When a flow failed.
pub fn measured(r: &Resolved, answer: Answer, notes: Vec<String>) -> Result<Measured> {
    for (i, flow) in answer.flows.iter().enumerate() {
        if let Some(e) = &flow.error {
            let (from, to) = (&r.nodes[r.flows[i].src].name, &r.nodes[r.flows[i].dst].name);
            anyhow::bail!("flow {i} from {from} to {to} failed in the lab: {e}");
        }
    }
    let framing = u64::from(r.overhead.saturating_sub(14));
    let ports: Vec<PortMeasured> = answer
        .ports
        .iter()
        .map(|p| PortMeasured {
            queue_mean_bytes: p.mean_bytes,
            queue_p99_bytes: p.p99_bytes,
            queue_max_bytes: p.max_bytes,
            packets: p.packets,
            wire_bytes: p.bytes + p.packets * framing,
            drops: p.drops,
            marks: p.marks,
        })
        .collect();
    let mut samples = Samples {
        group_delivered: answer.group_delivered,
        ..Samples::default()
    };
    let none = |v: f64| if v == 0.0 { f64::NAN } else { v };
    for series in answer.followed {
        let f = series.flow;
        if r.measure.flows.contains(&f) {
            let cwnd = series.cwnd.iter().map(|&c| none(c.into())).collect();
            let rtt = series.rtt_us.iter().map(|&us| none(f64::from(us) * 1e3));
            samples.cwnd.insert(f, cwnd);
            samples.rtt.insert(f, rtt.collect());
        }
        samples.delivered.insert(f, series.delivered);
    }
    for series in answer.lines {
        let port = PortId(series.port as u32);
        let sent = series.bytes.iter().zip(&series.packets);
        let sent = sent.map(|(bytes, packets)| bytes + packets * framing);
        samples.sent.insert(port, sent.collect());
        samples.queue.insert(port, series.queue);
    }
    Ok(Measured {
        flows: answer.flows.iter().map(flow).collect(),
        facts: Facts {
            events: 0,
            packets: answer
                .ports
                .iter()
                .zip(r.ports())
                .filter(|(_, id)| r.nodes[r.near_end(*id)].kind == NodeKind::Host)
                .map(|(p, _)| p.packets)
                .sum(),
            packet_hops: answer.ports.iter().map(|p| p.packets).sum(),
            kernel: answer.kernel,
            notes,
        },
        ports,
        samples,
    })
}

fn flow(f: &FlowAnswer) -> FlowMeasured {
    let mut latencies = f.latencies_ns.clone();
    latencies.sort_unstable();
    let rank = |percent: usize| {
        let rank = (latencies.len() * percent).div_ceil(100).saturating_sub(1);
        latencies.get(rank).copied().unwrap_or(0) as f64
    };
    let mean = latencies.iter().sum::<u64>() as f64 / latencies.len().max(1) as f64;
    FlowMeasured {
        finish_ns: f.finish_ns,
        bytes: f.bytes,
        measured_bytes: f.measured_bytes,
        retransmits: f.retransmits,
        timeouts: f.timeouts,
        rtt_min_ns: u64::from(f.rtt_min_us) * 1000,
        rtt_mean_ns: f.rtt_mean_us * 1e3,
        rtt_p99_ns: f64::from(f.rtt_p99_us) * 1e3,
        rtt_samples: f.rtt_samples,
        rpc: (!latencies.is_empty()).then_some(RpcMeasured {
            completed: latencies.len() as u64,
            latency_mean_ns: mean,
            latency_p50_ns: rank(50),
            latency_p99_ns: rank(99),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::Scenario;
    use std::path::Path;

    const PAIR: &str = r#"
        title = "three hosts"
        compare = ["cubic"]
        duration = "1ms"
        [topology.star]
        hosts = 3
        rate = "10Gbit"
        delay = "5us"
    "#;

    fn resolved(more: &str, cc: &str) -> Resolved {
        let text = format!("{PAIR}{more}");
        let scenario = Scenario::parse(
            "test",
            &text,
            &[],
            Path::new(env!("CARGO_MANIFEST_DIR")),
            "test",
        );
        scenario
            .and_then(|s| s.resolve(cc))
            .unwrap_or_else(|e| panic!("{e}"))
    }

    const FLOW: &str = "[[flows]]\ngroup = \"f\"\nfrom = \"h0\"\nto = \"h2\"\n";

    #[test]
    fn what_linux_has_not_is_named() {
        let red =
            "[port]\nqueue = { red = { min = \"10KB\", max = \"20KB\", probability = 0.1 } }\n";
        let two = "[cc.a]\nlaw = \"swift\"\n[cc.b]\nlaw = \"swift\"\nbase_target_ns = 9000\n\
                   [[flows]]\ngroup = \"x\"\nfrom = \"h0\"\nto = \"h2\"\ncc = \"a\"\n[[flows]]\ngroup = \"y\"\nfrom = \"h1\"\nto = \"h2\"\ncc = \"b\"\n";
        for (more, cc, names) in [
            (FLOW.to_owned(), "timely", "timely"),
            (FLOW.to_owned(), "dcqcn", "dcqcn"),
            (format!("{red}{FLOW}"), "cubic", "RED"),
            (
                format!("[switch]\np4 = \"p4/v1model/int.p4\"\n{FLOW}"),
                "cubic",
                "P4",
            ),
            (
                format!("[tcp]\nack_every = 4\n{FLOW}"),
                "cubic",
                "one ACK for 4",
            ),
            (two.to_owned(), "cubic", "two variants of swift"),
            (
                "[[incast]]\ngroup = \"i\"\nfrom = \"h[0..1]\"\nto = \"h2\"\neach = \"1KB\"\nconnections = 1\n"
                    .to_owned(),
                "cubic",
                "standing connections",
            ),
            (
                format!("[tcp]\nsmall_windows = \"published\"\n{FLOW}"),
                "poseidon",
                "small_windows",
            ),
        ] {
            let refused = plan(&resolved(&more, cc)).expect_err(names);
            let refused = refused.downcast::<Unsupported>().expect("a refusal");
            assert!(refused.to_string().contains(names), "{refused}");
        }
    }

    #[test]
    fn modules_get_what_the_scenario_says() {
        let more = format!("[cc.poseidon]\nm_thousandths = 100\n{FLOW}");
        let (plan, notes) = plan(&resolved(&more, "poseidon")).expect("a plan");
        assert!(notes.is_empty(), "{notes:?}");
        let law = plan.modules.iter().find(|m| m.name == "tcp_poseidon");
        let params = &law.expect("the law's module").params;
        assert_eq!(params, "host_mbps=10000 m_thousandths=100");
        assert!(plan.sysctls.iter().all(Vec::is_empty));
        assert_eq!(plan.telemetry, Some(scenario::IntFormat::Mpd));
        assert_eq!(plan.network.measure.interval_ns % plan.look_ns, 0);
    }
}
