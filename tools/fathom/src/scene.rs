// SPDX-License-Identifier: GPL-2.0
//! The scenes that `fathom lab` knows: small scenarios made from a few options, and what it prints of them.

use crate::{lab, lab_engine, paths::Paths, table, Outcome};
use anyhow::{anyhow, bail, Context as _, Result};
use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use plan::{Answer, Plan};
use results::Run;
use scenario::{Engine, Metric, Resolved, Scenario};
use serde::Serialize;
use std::path::{Path, PathBuf};

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
}

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
            let plan = self.plan(cc)?;
            let answer = lab::run(paths, &plan, &mut |_| true)
                .with_context(|| format!("{cc} in the lab"))?;
            rows.push(Row::new(cc, &plan.network, answer)?);
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

    /// The plan for one congestion control.
    pub fn plan(&self, cc: &str) -> Result<Plan> {
        let text = self.scenario();
        let scenario = Scenario::parse("fathom lab", &text, &[], Path::new(""), "lab")
            .and_then(|s| s.resolve(cc))
            .map_err(|e| anyhow!("{e}"))?;
        let (mut plan, _) = lab_engine::plan(&scenario)?;
        for module in &mut plan.modules {
            if module.name != "sch_int" {
                // Of a parameter given twice the kernel takes the last.
                module.params = format!("{} {}", module.params, self.params);
            }
        }
        plan.ipv6 = self.ipv6;
        plan.look_ns = self.sample_us * 1000;
        Ok(plan)
    }

    /// The scene as a scenario: the wire in four equal parts, or two when there is one link.
    fn scenario(&self) -> String {
        let (rate, host) = (self.rate_mbps, self.host_mbps());
        let node =
            |name: &str, kind: &str| format!("[[nodes]]\nname = \"{name}\"\nkind = \"{kind}\"\n");
        let hops = if self.scene == Scene::Pair { 2 } else { 4 };
        let delay = self.wire_us * 1000 / hops;
        let link = |a: &str, b: &str, rate: u64| {
            format!(
                "[[links]]\na = \"{a}\"\nb = \"{b}\"\nrate = \"{rate}Mbit\"\ndelay = \"{delay}ns\"\n"
            )
        };
        let flow = |from: &str, count: u64| {
            format!(
                "[[flows]]\ngroup = \"flows\"\nfrom = \"{from}\"\nto = \"b\"\ncount = {count}\n"
            )
        };
        let (network, flows, line) = match self.scene {
            Scene::Pair => (
                [node("a", "host"), node("b", "host"), link("a", "b", rate)].concat(),
                flow("a", self.flows),
                "a->b",
            ),
            Scene::Bottleneck => (
                [
                    node("a", "host"),
                    node("s", "switch"),
                    node("b", "host"),
                    link("a", "s", host),
                    link("s", "b", rate),
                ]
                .concat(),
                flow("a", self.flows),
                "s->b",
            ),
            Scene::Incast => {
                let mut network =
                    [node("s", "switch"), node("b", "host"), link("s", "b", rate)].concat();
                for i in 0..self.flows {
                    network += &node(&format!("a{i}"), "host");
                    network += &link(&format!("a{i}"), "s", host);
                }
                (network, flow("a*", 1), "s->b")
            }
        };
        let queue = match self.ecn_packets {
            0 => "\"fifo\"".to_owned(),
            n => format!("{{ ecn = {{ threshold = \"{n}packets\" }} }}"),
        };
        let port = format!(
            "buffer = \"{}packets\"\nqueue = {queue}\n",
            self.buffer_packets
        );
        // Between two hosts the bottleneck is the sender's own port.
        let own = if self.scene == Scene::Pair {
            format!("[[ports]]\nof = \"a->b\"\n{port}")
        } else {
            String::new()
        };
        format!(
            "title = \"a scene of the lab\"\ncompare = [\"theta_powertcp\"]\nduration = \"{}ms\"\n\
             [tcp]\nack_every = 2\nmin_rto = \"200ms\"\n\
             [port]\n{port}{own}{network}{flows}\
             [measure]\nfrom = \"{}ms\"\ninterval = \"{}us\"\nline = \"{line}\"\n",
            self.duration_ms, self.skip_ms, self.sample_us
        )
    }
}

impl Row {
    fn new(cc: &str, network: &Resolved, answer: Answer) -> Result<Self> {
        let measured = lab_engine::measured(network, answer.clone(), Vec::new())?;
        let run = Run::new(network, Engine::Lab, &[], measured);
        let metric = |m: Metric| run.summary.all.get(&m).copied().unwrap_or(0.0);
        Ok(Self {
            cc: cc.to_owned(),
            throughput_gbps: metric(Metric::Throughput),
            line_share: metric(Metric::LineShare),
            queue_p99_us: metric(Metric::QueueP99),
            queue_mean_us: metric(Metric::QueueMean),
            rtt_mean_us: metric(Metric::RttMean),
            retransmits: metric(Metric::Retransmits) as u64,
            drops: metric(Metric::Drops) as u64,
            jain: metric(Metric::Jain),
            answer,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scene_is_a_scenario() {
        for (words, nodes, flows) in [
            ("lab pair --flows 4 -6", 2, 4),
            ("lab bottleneck --ecn-packets 0", 3, 1),
            ("lab incast --flows 8 --params base_rtt_us=24", 10, 8),
        ] {
            let args = Args::try_parse_from(words.split(' ')).expect(words);
            let plan = args.plan("theta_powertcp").expect(words);
            let r = &plan.network;
            assert_eq!((r.nodes.len(), r.flows.len()), (nodes, flows), "{words}");
            assert_eq!(plan.ipv6, words.contains("-6"));
            let us = r.base_rtt_ns(0) as f64 / 1e3;
            // The ACK's own time on the wire is not in the scene's.
            assert!((us - args.base_rtt_us()).abs() < 0.5, "{words}: {us}");
        }
    }
}
