// SPDX-License-Identifier: GPL-2.0
//! Starts and stops flows, and changes ports, when the scenario says so.

use super::build::{attributes, changing, name, Lab};
use crate::{
    net::{self, Net},
    traffic::{self, sleep_until, Flow, Listeners, Sender, Service},
};
use anyhow::Result;
use plan::Plan;
use scenario::{FaultKind, PortId};
use std::time::{Duration, Instant};
use wire::tc;

/// What happens at a time.
enum Event {
    /// A flow connects.
    Start(usize),
    /// A flow is stopped.
    Stop(usize),
    /// Faults of these ports begin or end.
    Change(Vec<PortId>),
}

/// Listens everywhere, and lets everything happen at its time after `start`.
pub fn start(plan: &Plan, lab: &Lab, start: Instant) -> Result<Vec<Sender>> {
    let r = &plan.network;
    let mut listeners = Listeners::default();
    let mut flows = Vec::new();
    for flow in &r.flows {
        let cc = r.ccs[flow.cc].law.name();
        let to = listeners.at(
            flow.dst,
            &lab.spaces[flow.dst],
            lab.address(flow.dst)?,
            cc,
            Service::of(&flow.work),
            r.tcp.receive_window,
        )?;
        flows.push(Some(Flow {
            ns: lab.spaces[flow.src].clone(),
            to,
            cc: cc.to_owned(),
            work: flow.work,
            app_bps: flow.app_bps,
            stops: flow.stop_ns.is_some_and(|stop| stop < r.duration_ns),
        }));
    }
    let senders: Vec<Sender> = r.flows.iter().map(|_| Sender::default()).collect();

    let mut events = Vec::new();
    for (i, flow) in r.flows.iter().enumerate() {
        events.push((flow.start_ns, Event::Start(i)));
        events.extend(flow.stop_ns.map(|stop| (stop, Event::Stop(i))));
    }
    for fault in &r.faults {
        let by_port = matches!(
            fault.kind,
            FaultKind::Rate { .. } | FaultKind::Delay { .. } | FaultKind::Int(_)
        );
        if by_port {
            for at in [Some(fault.from_ns), fault.until_ns].into_iter().flatten() {
                events.push((at, Event::Change(fault.ports.clone())));
            }
        }
    }
    // Stable: of one time, in this order.
    events.sort_by_key(|(at, _)| *at);
    events.retain(|(at, _)| *at < r.duration_ns);

    let (plan, spaces, all) = (plan.clone(), lab.spaces.clone(), senders.clone());
    traffic::spawn(move || {
        let change = |ports: &[PortId], at_ns: u64| -> Result<()> {
            let runtime = net::runtime()?;
            for &port in ports {
                let net = Net::open(&runtime, &spaces[plan.network.near_end(port)])?;
                let settings = attributes(&changing(&plan, port, at_ns));
                net.qdisc(&name(port), tc::NAME, settings)?;
            }
            Ok(())
        };
        for (at_ns, event) in events {
            sleep_until(start + Duration::from_nanos(at_ns));
            match event {
                Event::Start(i) => {
                    if let Some(flow) = flows[i].take() {
                        all[i].start(flow);
                    }
                }
                Event::Stop(i) => all[i].stop(),
                Event::Change(ports) => {
                    if let Err(e) = change(&ports, at_ns) {
                        println!("fathom-init: fault at {at_ns} ns: {e:#}");
                    }
                }
            }
        }
    });
    Ok(senders)
}
