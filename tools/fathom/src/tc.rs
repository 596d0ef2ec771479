// SPDX-License-Identifier: GPL-2.0
//! `fathom tc`: sets up and shows software switch ports (the qdisc `int`), with numbers as people write them.

use crate::Outcome;
use anyhow::{anyhow, bail, Context as _, Result};
use clap::{Parser, Subcommand};
use nix::errno::Errno;
use port::{
    netlink::{self, How, Refused},
    settings, Queue, STAT_NAMES,
};
use std::fmt::Write as _;
use wire::tc;

/// Arguments of `fathom tc`.
#[derive(Parser)]
#[command(after_help = settings::help())]
pub struct Args {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make a device a port, for instance: add eth1 rate 10gbit delay 5us limit 1mb int hop-id 3 ecn 65pkt
    #[command(after_help = settings::help())]
    Add(Set),
    /// Change parameters of a port; the others stay, and so do its packets.
    #[command(after_help = settings::help())]
    Change(Set),
    /// Give a device its usual queue back.
    Del {
        /// The network device.
        dev: String,
    },
    /// Show ports, their parameters and statistics.
    Show {
        /// This device alone.
        dev: Option<String>,
        /// As JSON, numbers in bytes, ns and bytes a second.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Parser)]
struct Set {
    /// The network device.
    dev: String,
    /// Parameters, each with its value.
    #[arg(trailing_var_arg = true, value_name = "PARAMETER VALUE")]
    parameters: Vec<String>,
}

/// Runs `fathom tc`.
pub fn run(args: &Args) -> Result<Outcome> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("tokio runtime")?
        .block_on(async {
            match &args.command {
                Verb::Add(set) => apply(set, How::Add).await,
                Verb::Change(set) => apply(set, How::Change).await,
                Verb::Del { dev } => {
                    let (handle, index) = (open()?, index(dev)?);
                    let queue = of(&handle, index).await?;
                    if !queue.as_ref().is_some_and(Queue::is_port) {
                        bail!("{dev} is not a port; `fathom tc show` lists them");
                    }
                    let gone = netlink::delete(&handle, index).await;
                    gone.map_err(|e| explain(&e, dev, How::Change))
                }
                Verb::Show { dev, json } => show(dev.as_deref(), *json).await,
            }
        })?;
    Ok(Outcome::Ok)
}

fn open() -> Result<rtnetlink::Handle> {
    netlink::open().context("netlink socket")
}

fn index(dev: &str) -> Result<u32> {
    match nix::net::if_::if_nametoindex(dev) {
        Ok(index) => Ok(index),
        Err(_) => bail!("there is no network device {dev:?}; `ip link` lists them"),
    }
}

async fn of(handle: &rtnetlink::Handle, index: u32) -> Result<Option<Queue>> {
    let queues = netlink::list(handle).await.context("list the queues")?;
    Ok(queues.into_iter().find(|q| q.index == index))
}

async fn apply(set: &Set, how: How) -> Result<()> {
    // Wrong usage, as clap reports it.
    let options = settings::parse(&set.parameters).unwrap_or_else(|why| {
        eprintln!("fathom: error: {why}");
        std::process::exit(2);
    });
    let (handle, index) = (open()?, index(&set.dev)?);
    if how == How::Change && !of(&handle, index).await?.is_some_and(|q| q.is_port()) {
        bail!(
            "{} is not a port; make it one with `fathom tc add {0} ...`",
            set.dev
        );
    }
    netlink::set(&handle, index, tc::NAME, options, how)
        .await
        .map_err(|e| explain(&e, &set.dev, how))
}

/// What the kernel's answer means and what to do.
fn explain(refused: &Refused, dev: &str, how: How) -> anyhow::Error {
    let errno = refused.error.raw_os_error().map(Errno::from_raw);
    let what = match errno {
        Some(Errno::EPERM) => {
            "this needs CAP_NET_ADMIN in the device's network namespace: run it as root".into()
        }
        Some(Errno::ENOENT) if how == How::Add => {
            "the kernel does not know the queue `int`: `modprobe sch_int` (or `insmod sch_int.ko`) first".into()
        }
        Some(Errno::EEXIST) => {
            format!("it has a queue that somebody set; `fathom tc change {dev} ...`, or `tc qdisc del dev {dev} root` first")
        }
        _ => refused.to_string(),
    };
    anyhow!("{dev}: {what}")
}

async fn show(dev: Option<&str>, json: bool) -> Result<()> {
    let handle = open()?;
    let only = dev.map(index).transpose()?;
    let queues = netlink::list(&handle).await.context("list the queues")?;
    let ports: Vec<(String, Queue)> = queues
        .into_iter()
        .filter(|q| q.is_port() && only.is_none_or(|index| q.index == index))
        .map(|q| (name(q.index), q))
        .collect();
    if let (Some(dev), true) = (dev, ports.is_empty()) {
        bail!("{dev} is not a port");
    }
    if json {
        let ports: Vec<_> = ports.iter().map(|(dev, q)| as_json(dev, q)).collect();
        println!("{}", serde_json::to_string_pretty(&ports)?);
    } else {
        for (dev, queue) in &ports {
            print!("{}", in_words(dev, queue));
        }
    }
    Ok(())
}

fn name(index: u32) -> String {
    nix::net::if_::if_indextoname(index).map_or_else(
        |_| format!("#{index}"),
        |name| name.to_string_lossy().into_owned(),
    )
}

fn as_json(dev: &str, queue: &Queue) -> serde_json::Value {
    let parameters: serde_json::Map<_, _> = settings::PARAMETERS
        .iter()
        .filter_map(|p| Some((p.name.replace('-', "_"), queue.setting(p.kind)?.into())))
        .collect();
    let statistics: serde_json::Map<_, _> = STAT_NAMES
        .iter()
        .zip(queue.stats)
        .map(|(name, value)| ((*name).to_owned(), value.into()))
        .collect();
    serde_json::json!({
        "dev": dev,
        "parameters": parameters,
        "statistics": statistics,
        "backlog_bytes": queue.backlog_bytes,
    })
}

/// A port in a few lines; statistics of what is off are left out.
fn in_words(dev: &str, queue: &Queue) -> String {
    let stat = |place: usize| queue.stats[place];
    let is_on = |kind| queue.setting(kind).is_some_and(|value| value != 0);
    let mut text = format!("{dev}: {}\n", settings::format(&queue.settings));
    let mut line = |what: String| {
        writeln!(text, "    {what}").ok();
    };
    line(format!(
        "sent {} packets, {} bytes; waiting {} bytes, at most {}; dropped {}",
        stat(tc::STAT_PACKETS),
        stat(tc::STAT_BYTES),
        stat(tc::STAT_QUEUE),
        stat(tc::STAT_MAX),
        stat(tc::STAT_DROPS)
    ));
    if is_on(tc::ECN) || stat(tc::STAT_MARKS) != 0 {
        line(format!("marked CE {}", stat(tc::STAT_MARKS)));
    }
    if is_on(tc::TARGET) || stat(tc::STAT_CODEL) != 0 {
        line(format!(
            "CoDel chose {}: marked {}, dropped {}, counted for the reverse path {}",
            stat(tc::STAT_CODEL),
            stat(tc::STAT_CODEL_MARKS),
            stat(tc::STAT_CODEL_DROPS),
            stat(tc::STAT_RPM_COUNTED)
        ));
    }
    if is_on(tc::RPM) || stat(tc::STAT_RPM_SET) != 0 {
        line(format!(
            "reverse path: ACKs marked {}, counter full {}",
            stat(tc::STAT_RPM_SET),
            stat(tc::STAT_RPM_FULL)
        ));
    }
    if is_on(tc::INT) || stat(tc::STAT_STAMPS) != 0 {
        line(format!(
            "telemetry: stamped {}, left alone {} (malformed or full)",
            stat(tc::STAT_STAMPS),
            stat(tc::STAT_REFUSED)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue {
        let mut queue = Queue {
            kind: tc::NAME.into(),
            settings: vec![
                (tc::RATE, 1_250_000_000),
                (tc::LIMIT, 1 << 20),
                (tc::INT, 1),
            ],
            ..Queue::default()
        };
        queue.stats[tc::STAT_PACKETS] = 5;
        queue.stats[tc::STAT_STAMPS] = 3;
        queue
    }

    #[test]
    fn a_port_in_words_and_as_json() {
        let text = in_words("eth1", &queue());
        assert!(
            text.starts_with("eth1: rate 10gbit limit 1mb int\n"),
            "{text}"
        );
        assert!(
            text.contains("sent 5 packets") && text.contains("stamped 3"),
            "{text}"
        );
        assert!(!text.contains("CoDel"), "{text}");
        let json = as_json("eth1", &queue());
        assert_eq!(json["parameters"]["rate"], 1_250_000_000u64);
        assert_eq!(json["statistics"]["stamps"], 3);
    }

    #[test]
    fn refusals_say_what_to_do() {
        let refused = |errno: Errno, why: Option<&str>| Refused {
            error: std::io::Error::from_raw_os_error(errno as i32),
            why: why.map(Into::into),
        };
        for (errno, why, says) in [
            (Errno::EPERM, None, "CAP_NET_ADMIN"),
            (Errno::ENOENT, None, "modprobe sch_int"),
            (Errno::EEXIST, None, "fathom tc change eth1"),
            (
                Errno::EINVAL,
                Some("rate must be 0 or"),
                "rate must be 0 or",
            ),
        ] {
            let said = explain(&refused(errno, why), "eth1", How::Add).to_string();
            assert!(said.contains(says) && said.starts_with("eth1: "), "{said}");
        }
    }
}
