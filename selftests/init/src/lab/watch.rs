// SPDX-License-Identifier: GPL-2.0
//! Looks at sockets and queues while the flows run, and sums up.

use super::build::{looked_at, Lab};
use crate::{
    net,
    tcp::{self, TcpInfo},
    traffic::{sleep_until, Sender},
};
use anyhow::{Context as _, Result};
use plan::{Answer, FlowAnswer, FlowSeries, Plan, PortAnswer, PortSeries};
use scenario::{GroupKind, Work};
use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant},
};
use wire::tc;

/// A flow as it was last seen.
#[derive(Clone, Default)]
struct Seen {
    info: TcpInfo,
    bytes: u64,
    at_from: u64,
    at_until: u64,
    /// Smoothed RTT, us, and how many packets were delivered since the look before, for which it stands.
    rtts: Vec<(u32, u32)>,
}

/// Watches until the scenario ends.
pub fn watch(plan: &Plan, lab: &Lab, senders: &[Sender], start: Instant) -> Result<Answer> {
    let r = &plan.network;
    let m = &r.measure;
    let (nodes, everyone) = (looked_at(r), (0..r.nodes.len()).collect::<Vec<_>>());
    let mut flows: Vec<Seen> = vec![Seen::default(); r.flows.len()];
    let mut queues: Vec<Vec<u32>> = vec![Vec::new(); r.links.len() * 2];
    let mut counts: [Vec<net::Queue>; 2] = Default::default();
    let wanted = |f: &usize| r.groups[r.flows[*f].group].kind == GroupKind::Flows;
    let mut followed: BTreeSet<usize> = m.flows.iter().copied().collect();
    followed.extend((0..r.flows.len()).filter(wanted));
    let mut answer = Answer {
        group_delivered: vec![Vec::new(); r.groups.len()],
        followed: followed
            .into_iter()
            .map(|flow| FlowSeries {
                flow,
                ..FlowSeries::default()
            })
            .collect(),
        lines: m
            .ports
            .iter()
            .map(|p| PortSeries {
                port: p.index(),
                ..PortSeries::default()
            })
            .collect(),
        ..Answer::default()
    };

    let mut times: BTreeSet<u64> = (0..=r.duration_ns).step_by(plan.look_ns as usize).collect();
    times.extend([m.from_ns, m.until_ns.min(r.duration_ns), r.duration_ns]);
    let mut told = 0;
    for at in times {
        // Every fiftieth; the host shows it.
        if at * 50 / r.duration_ns > told {
            told = at * 50 / r.duration_ns;
            fs::write(
                format!("/out/{}", plan::PROGRESS_FILE),
                (told * 20).to_string(),
            )
            .ok();
        }
        sleep_until(start + Duration::from_nanos(at));
        let sample = at % m.interval_ns == 0;
        let (from, until) = (at == m.from_ns, at == m.until_ns.min(r.duration_ns));
        if sample || from || until || at == r.duration_ns {
            for (i, seen) in flows.iter_mut().enumerate() {
                let before = seen.info.delivered;
                if r.flows[i].start_ns <= at {
                    seen.look(&senders[i], &r.flows[i].work)?;
                }
                if from {
                    seen.at_from = seen.bytes;
                }
                if until {
                    seen.at_until = seen.bytes;
                }
                if sample && (m.from_ns..=m.until_ns).contains(&at) && seen.info.rtt != 0 {
                    let delivered = seen.info.delivered.saturating_sub(before);
                    seen.rtts.push((seen.info.rtt, delivered));
                }
            }
        }
        let ports = lab.queues(if from || until { &everyone } else { &nodes })?;
        if (m.from_ns..=m.until_ns).contains(&at) {
            for (port, queue) in &ports {
                queues[port.index()].push(queue.stats[tc::STAT_QUEUE] as u32);
            }
        }
        if from || until {
            let mut all = vec![net::Queue::default(); r.links.len() * 2];
            for (port, queue) in &ports {
                all[port.index()] = queue.clone();
            }
            counts[usize::from(!from)] = all;
        }
        if sample {
            for (group, series) in answer.group_delivered.iter_mut().enumerate() {
                let mine = |(i, _): &(usize, &Seen)| r.flows[*i].group == group;
                series.push(
                    flows
                        .iter()
                        .enumerate()
                        .filter(mine)
                        .map(|(_, s)| s.bytes)
                        .sum(),
                );
            }
            for series in &mut answer.followed {
                let seen = &flows[series.flow];
                series.delivered.push(seen.bytes);
                series.cwnd.push(seen.info.snd_cwnd);
                series.rtt_us.push(seen.info.rtt);
            }
            for series in &mut answer.lines {
                let queue = ports.iter().find(|(p, _)| p.index() == series.port);
                let stats = queue.map_or([0; tc::STATS], |(_, q)| q.stats);
                series.queue.push(stats[tc::STAT_QUEUE]);
                series.packets.push(stats[tc::STAT_PACKETS]);
                series.bytes.push(stats[tc::STAT_BYTES]);
            }
        }
    }

    answer.flows = flows
        .iter_mut()
        .zip(senders)
        .map(|(seen, sender)| seen.answer(sender, start))
        .collect();
    let [from, until] = counts;
    answer.ports = queues
        .iter_mut()
        .zip(from.iter().zip(&until))
        .map(|(lengths, (from, until))| port(lengths, from, until))
        .collect();
    answer.kernel = fs::read_to_string("/proc/sys/kernel/osrelease")
        .context("osrelease")?
        .trim()
        .to_owned();
    Ok(answer)
}

impl Seen {
    fn look(&mut self, sender: &Sender, work: &Work) -> Result<()> {
        self.info = match (sender.done(), sender.socket()) {
            (Some((_, info)), _) => *info,
            (None, Some(socket)) => tcp::info(socket)?,
            (None, None) => return Ok(()),
        };
        let acked = self.info.payload_acked();
        self.bytes = match *work {
            Work::Long => acked,
            // Without the FIN.
            Work::Bytes(bytes) => acked.min(bytes),
            Work::Rpc { .. } => acked + self.info.bytes_received,
        };
        Ok(())
    }

    fn answer(&mut self, sender: &Sender, start: Instant) -> FlowAnswer {
        self.rtts.sort_unstable();
        let stands: u64 = self.rtts.iter().map(|&(_, n)| u64::from(n)).sum();
        let sum: u64 = self
            .rtts
            .iter()
            .map(|&(us, n)| u64::from(us) * u64::from(n))
            .sum();
        let mut left = (stands * 99).div_ceil(100);
        let p99 = self.rtts.iter().find(|&&(_, n)| {
            left = left.saturating_sub(n.into());
            left == 0
        });
        let finish = sender
            .done()
            .map(|(at, _)| at.saturating_duration_since(start));
        FlowAnswer {
            finish_ns: finish.map(|at| at.as_nanos() as u64),
            bytes: self.bytes,
            measured_bytes: self.at_until.saturating_sub(self.at_from),
            retransmits: self.info.total_retrans.into(),
            timeouts: self.info.total_rto.into(),
            rtt_min_us: self.info.min_rtt,
            rtt_mean_us: sum as f64 / stands.max(1) as f64,
            rtt_p99_us: if stands == 0 {
                0
            } else {
                p99.map_or(0, |&(us, _)| us)
            },
            rtt_samples: stands,
            latencies_ns: sender.latencies_ns(),
            mss: self.info.snd_mss,
            error: sender.error().map(str::to_owned),
        }
    }
}

/// What a port came to between two looks.
fn port(lengths: &mut [u32], from: &net::Queue, until: &net::Queue) -> PortAnswer {
    lengths.sort_unstable();
    let sum: u64 = lengths.iter().map(|&l| u64::from(l)).sum();
    let rank = (lengths.len() * 99).div_ceil(100);
    let stat = |which: usize| until.stats[which].saturating_sub(from.stats[which]);
    PortAnswer {
        mean_bytes: sum as f64 / lengths.len().max(1) as f64,
        p99_bytes: lengths
            .get(rank.saturating_sub(1))
            .copied()
            .unwrap_or(0)
            .into(),
        max_bytes: lengths.last().copied().unwrap_or(0).into(),
        packets: stat(tc::STAT_PACKETS),
        bytes: stat(tc::STAT_BYTES),
        drops: stat(tc::STAT_DROPS) + stat(tc::STAT_CODEL_DROPS),
        marks: stat(tc::STAT_MARKS),
        stamps: stat(tc::STAT_STAMPS),
    }
}
