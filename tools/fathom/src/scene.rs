// SPDX-License-Identifier: GPL-2.0
//! The scenes that `fathom lab` knows, and what it prints of them.

use crate::{lab, paths::Paths, table, Outcome};
use anyhow::{bail, Context as _, Result};
use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use plan::{Answer, Flow, Link, Module, Node, Plan, Port};
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `fathom lab`.
#[derive(Parser)]
pub struct Args {
    /// What is built.
    #[arg(value_enum)]
    scene: Scene,
    /// Congestion controls to compare, each in a run of its own.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "theta_powertcp,dctcp,cubic"
    )]
    cc: Vec<String>,
    /// Rate of the bottleneck, Mbit/s.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=400_000))]
    rate_mbps: u64,
    /// Rate of the hosts' links, Mbit/s; the default is the bottleneck's (bottleneck: four times that).
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=400_000))]
    host_mbps: Option<u64>,
    /// Time on the wire, there and back, us.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    wire_us: u64,
    /// How many flows; in an incast, how many senders.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=200))]
    flows: u64,
    /// Buffer of the bottleneck, packets.
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..))]
    buffer_packets: u32,
    /// Packets that find this many waiting at the bottleneck are marked for those who asked (ECN): DCTCP's
    /// own recommendation for 10 Gbit/s; 0 = none.
    #[arg(long, default_value_t = 65)]
    ecn_packets: u32,
    /// How long the flows send, ms of virtual time.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    duration_ms: u64,
    /// What is left out of the results at the start, ms.
    #[arg(long, default_value_t = 0)]
    skip_ms: u64,
    /// Between two looks at sockets and queues, us.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    sample_us: u64,
    /// Parameters for the modules of the congestion controls, as for modprobe (such as base_rtt_us=24).
    #[arg(long, default_value = "")]
    params: String,
    /// Flows over IPv6.
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Write the results as JSON; - for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep every sample in the JSON.
    #[arg(long)]
    samples: bool,
}

/// A full-size packet as a queue counts it, bytes.
const PACKET: u64 = 1514;

/// A topology and its traffic.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scene {
    /// Two hosts and a link; all flows go one way.
    Pair,
    /// Two hosts and a router between them; the link behind the router is slower.
    Bottleneck,
    /// Many hosts send to one, through a router.
    Incast,
}

/// What a run came to.
#[derive(Serialize)]
pub struct Row {
    /// Congestion control.
    pub cc: String,
    /// Payload of all flows, Gbit/s.
    pub throughput_gbps: f64,
    /// The same as a share of what the bottleneck can carry.
    pub line_share: f64,
    /// 99th percentile of the bottleneck's queue, as the time it takes to send it, us.
    pub queue_p99_us: f64,
    /// Its mean.
    pub queue_mean_us: f64,
    /// Mean of the flows' smoothed RTTs, us.
    pub rtt_mean_us: f64,
    /// Segments that were sent again.
    pub retransmits: u64,
    /// Packets that the bottleneck dropped.
    pub drops: u64,
    /// Jain's index of the flows' throughputs.
    pub jain: f64,
    /// The kernel's own answer.
    pub answer: Answer,
}

/// Runs `fathom lab`.
pub fn run(args: &Args) -> Result<Outcome> {
    if args.skip_ms >= args.duration_ms {
        bail!(
            "--skip-ms {} must be less than --duration-ms {}",
            args.skip_ms,
            args.duration_ms
        );
    }
    let paths = Paths::find()?;
    let bar = ProgressBar::new(args.cc.len() as u64);
    bar.set_style(
        ProgressStyle::with_template("{bar:20} {pos}/{len} {msg} {elapsed}")
            .expect("a valid template"),
    );
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    let rows = args.rows(&paths, |cc| {
        bar.inc(u64::from(!bar.message().is_empty()));
        bar.set_message(cc.to_owned());
    })?;
    bar.finish_and_clear();
    match &args.json {
        Some(file) if file.as_os_str() == "-" => {
            println!("{}", serde_json::to_string_pretty(&rows)?)
        }
        Some(file) => {
            std::fs::write(file, serde_json::to_vec_pretty(&rows)?)
                .with_context(|| file.display().to_string())?;
            println!("{}", table::of(&rows));
        }
        None => println!("{}", table::of(&rows)),
    }
    Ok(Outcome::Ok)
}

impl Args {
    /// One run per congestion control; `at` is told which one begins.
    pub fn rows(&self, paths: &Paths, at: impl Fn(&str)) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for cc in &self.cc {
            at(cc);
            let (plan, bottleneck) = self.plan(paths, cc);
            let answer = lab::run(paths, &plan).with_context(|| format!("{cc} in the lab"))?;
            rows.push(Row::new(cc, &plan, bottleneck, answer)?);
        }
        Ok(rows)
    }

    /// The congestion controls to compare.
    pub fn cc(&self) -> &[String] {
        &self.cc
    }

    /// Compares one congestion control alone.
    pub fn set_cc(&mut self, cc: &str) {
        self.cc = vec![cc.to_owned()];
    }

    /// The round-trip time of a full-size packet and its ACK through empty queues, us.
    pub fn base_rtt_us(&self) -> f64 {
        let packet_us = |mbps: u64| (1500.0 + 38.0) * 8.0 / mbps as f64;
        let own = if self.scene == Scene::Pair {
            0.0
        } else {
            packet_us(self.host_mbps())
        };
        self.wire_us as f64 + own + packet_us(self.rate_mbps)
    }

    fn host_mbps(&self) -> u64 {
        let faster = if self.scene == Scene::Bottleneck {
            4
        } else {
            1
        };
        self.host_mbps.unwrap_or(self.rate_mbps * faster)
    }

    /// The plan for one congestion control, and which of its ports is the bottleneck.
    pub fn plan(&self, paths: &Paths, cc: &str) -> (Plan, usize) {
        let host_mbps = self.host_mbps();
        // Half of the wire on each host's own port, none on the router's: so the backlog of the
        // bottleneck is its queue and nothing else.
        let wire_ns = self.wire_us * 1000;
        let host = |node| Port {
            node,
            rate_mbps: host_mbps,
            delay_ns: wire_ns / 2,
            limit_bytes: 100_000 * PACKET,
            ecn_bytes: 0,
        };
        let port = |node, rate_mbps| Port {
            node,
            rate_mbps,
            delay_ns: 0,
            limit_bytes: u64::from(self.buffer_packets) * PACKET,
            ecn_bytes: u64::from(self.ecn_packets) * PACKET,
        };
        let node = |name: String, router| Node { name, router };
        let flow = |from, to| Flow {
            from,
            to,
            cc: cc.to_owned(),
            start_us: 0,
            bytes: None,
            ipv6: self.ipv6,
        };
        let (nodes, links, flows, bottleneck) = match self.scene {
            Scene::Pair => (
                vec![node("a".into(), false), node("b".into(), false)],
                vec![Link {
                    a: port(0, self.rate_mbps),
                    b: Port {
                        delay_ns: wire_ns,
                        ..host(1)
                    },
                }],
                (0..self.flows).map(|_| flow(0, 1)).collect(),
                0,
            ),
            Scene::Bottleneck => (
                vec![
                    node("a".into(), false),
                    node("router".into(), true),
                    node("b".into(), false),
                ],
                vec![
                    Link {
                        a: host(0),
                        b: port(1, host_mbps),
                    },
                    Link {
                        a: port(1, self.rate_mbps),
                        b: Port {
                            rate_mbps: self.rate_mbps,
                            ..host(2)
                        },
                    },
                ],
                (0..self.flows).map(|_| flow(0, 2)).collect(),
                2,
            ),
            Scene::Incast => {
                let n = self.flows as usize;
                let mut nodes = vec![node("router".into(), true), node("receiver".into(), false)];
                nodes.extend((0..n).map(|i| node(format!("sender{i}"), false)));
                let mut links = vec![Link {
                    a: port(0, self.rate_mbps),
                    b: host(1),
                }];
                links.extend((0..n).map(|i| Link {
                    a: host(2 + i),
                    b: port(0, host_mbps),
                }));
                (nodes, links, (0..n).map(|i| flow(2 + i, 1)).collect(), 0)
            }
        };
        let module = format!("tcp_{cc}");
        let ours = paths.lab_modules().join(format!("{module}.ko")).exists();
        let params = if self.params.contains("host_mbps=") {
            self.params.clone()
        } else {
            format!("host_mbps={host_mbps} {}", self.params)
        };
        let mut modules = vec![Module {
            name: "sch_int".into(),
            params: String::new(),
        }];
        modules.extend(ours.then_some(Module {
            name: module,
            params,
        }));
        let plan = Plan {
            nodes,
            links,
            modules,
            flows,
            duration_us: self.duration_ms * 1000,
            measure_from_us: self.skip_ms * 1000,
            sample_us: self.sample_us,
            keep_samples: self.samples,
        };
        (plan, bottleneck)
    }
}

impl Row {
    fn new(cc: &str, plan: &Plan, bottleneck: usize, answer: Answer) -> Result<Self> {
        let link = &plan.links[bottleneck / 2];
        let port = if bottleneck % 2 == 0 {
            &link.a
        } else {
            &link.b
        };
        let rates: Vec<f64> = answer
            .flows
            .iter()
            .map(|f| f.bytes as f64 * 8000.0 / f.time_us.max(1) as f64 / 1e6)
            .collect();
        let sum: f64 = rates.iter().sum();
        let squares: f64 = rates.iter().map(|r| r * r).sum();
        let queue = answer
            .ports
            .get(bottleneck)
            .context("the bottleneck is not in the answer")?
            .clone();
        let to_us = |bytes: f64| bytes * 8.0 / port.rate_mbps as f64;
        let mss = f64::from(answer.flows.first().map_or(1448, |f| f.mss));
        // What a full packet occupies: an MTU of 1500, and Ethernet's header, checksum, preamble and gap.
        let line_gbps = port.rate_mbps as f64 / 1000.0 * mss / (1500.0 + 38.0);
        Ok(Self {
            cc: cc.to_owned(),
            throughput_gbps: sum,
            line_share: sum / line_gbps,
            queue_p99_us: to_us(queue.p99_bytes as f64),
            queue_mean_us: to_us(queue.mean_bytes),
            rtt_mean_us: answer.flows.iter().map(|f| f.rtt_mean_us).sum::<f64>()
                / rates.len() as f64,
            retransmits: answer.flows.iter().map(|f| u64::from(f.retransmits)).sum(),
            drops: queue.drops,
            jain: if squares == 0.0 {
                0.0
            } else {
                sum * sum / (rates.len() as f64 * squares)
            },
            answer,
        })
    }
}
