// SPDX-License-Identifier: GPL-2.0
//! What the kernel has handed out, before and after; and what TCP counted in between.

use anyhow::{ensure, Context as _, Result};
use std::{
    collections::BTreeMap,
    fmt, fs, thread,
    time::{Duration, Instant},
};

/// Caches of which every object belongs to a connection, a socket or a namespace.
const OF_SOCKETS: [&str; 8] = [
    "TCP",
    "TCPv6",
    "tw_sock_TCP",
    "tw_sock_TCPv6",
    "request_sock_TCP",
    "request_sock_TCPv6",
    "sock_inode_cache",
    "net_namespace",
];
/// Caches of packets and of everything else; the kernel keeps some of these at hand, per CPU.
const OF_ALL: [&str; 3] = ["skbuff_head_cache", "skbuff_fclone_cache", "kmalloc"];

/// How much more of a thing there may be, for the kernel keeps some at hand, after so many connections.
fn spare(name: &str, connections: u64) -> i64 {
    match name {
        // The memory of namespaces is freed when the next ones go: a path has three.
        "net_namespace" => 3,
        // Pages that a CPU has set aside (SK_MEMORY_PCPU_RESERVE is a megabyte), of two CPUs.
        "tcp mem" => 512,
        name if OF_ALL.contains(&name) => 300 + connections as i64 / 8,
        _ => 0,
    }
}

/// Namespaces, TIME_WAIT and socket storage go by work items and grace periods.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sockets, TCP's memory and slab objects in use.
#[derive(PartialEq, Eq)]
pub struct Ledger(BTreeMap<String, i64>);

impl Ledger {
    /// What is handed out now, once that no longer changes.
    pub fn now() -> Result<Self> {
        let mut last = Self::read()?;
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(500));
            let now = Self::read()?;
            if now == last {
                break;
            }
            last = now;
        }
        Ok(last)
    }

    fn read() -> Result<Self> {
        let mut counts = BTreeMap::new();
        // TCP: inuse 0 orphan 0 tw 0 alloc 0 mem 0
        let stat = fs::read_to_string("/proc/net/sockstat").context("/proc/net/sockstat")?;
        let line = stat.lines().find_map(|l| l.strip_prefix("TCP: "));
        let words: Vec<&str> = line.context("no TCP in sockstat")?.split(' ').collect();
        for pair in words.chunks_exact(2) {
            counts.insert(format!("tcp {}", pair[0]), pair[1].parse()?);
        }
        // Slabs that only hold free objects would count as in use.
        for cache in fs::read_dir("/sys/kernel/slab").context("/sys/kernel/slab")? {
            fs::write(cache?.path().join("shrink"), "1").ok();
        }
        let slabs = fs::read_to_string("/proc/slabinfo").context("/proc/slabinfo")?;
        for line in slabs.lines() {
            let mut words = line.split_whitespace();
            let (Some(name), Some(active)) = (words.next(), words.next()) else {
                continue;
            };
            let name = if name.starts_with("kmalloc-") {
                "kmalloc"
            } else {
                name
            };
            if OF_SOCKETS.contains(&name) || OF_ALL.contains(&name) {
                *counts.entry(name.to_owned()).or_insert(0) += active.parse::<i64>().unwrap_or(0);
            }
        }
        Ok(Self(counts))
    }

    /// Fails when there is more than before, by more than the kernel keeps at hand: one object lost by each
    /// of `connections` would show, and any socket.
    pub fn ensure_nothing_more_than(&self, before: &Self, connections: u64) -> Result<()> {
        let mut more = vec![];
        for (name, &now) in &self.0 {
            let was = before.0.get(name).copied().unwrap_or(0);
            let spare = spare(name, connections);
            if now > was + spare {
                more.push(format!("{name}: {was} before, {now} after"));
            }
        }
        ensure!(more.is_empty(), "not given back: {}", more.join("; "));
        Ok(())
    }

    /// Both, side by side.
    pub fn since(&self, before: &Self) -> String {
        let both = self
            .0
            .iter()
            .filter(|(name, &now)| now != 0 || before.0.get(*name).is_some_and(|&was| was != 0));
        let both = both.map(|(name, now)| {
            format!(
                "{name} {} -> {now}",
                before.0.get(name).copied().unwrap_or(0)
            )
        });
        both.collect::<Vec<_>>().join(", ")
    }
}

/// What TCP of this thread's namespace counted.
pub struct Counters {
    pub in_segs: u64,
    pub out_segs: u64,
    pub retransmitted: u64,
    pub csum_errors: u64,
    pub timeouts: u64,
}

impl Counters {
    /// Reads them.
    pub fn now() -> Result<Self> {
        let get = |file: &str, group: &str, name: &str| -> Result<u64> {
            let path = format!("/proc/thread-self/net/{file}");
            let text = fs::read_to_string(&path).context(path)?;
            let mut lines = text.lines().filter_map(|l| l.strip_prefix(group));
            let (names, values) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
            let mut pairs = names.split_whitespace().zip(values.split_whitespace());
            let (_, value) = pairs
                .find(|(n, _)| *n == name)
                .with_context(|| format!("no {name} in {file}"))?;
            Ok(value.parse()?)
        };
        Ok(Self {
            in_segs: get("snmp", "Tcp:", "InSegs")?,
            out_segs: get("snmp", "Tcp:", "OutSegs")?,
            retransmitted: get("snmp", "Tcp:", "RetransSegs")?,
            csum_errors: get("snmp", "Tcp:", "InCsumErrors")?,
            timeouts: get("netstat", "TcpExt:", "TCPTimeouts")?,
        })
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            in_segs,
            out_segs,
            retransmitted,
            csum_errors,
            timeouts,
        } = self;
        write!(
            f,
            "{out_segs} segments out, {in_segs} in, {retransmitted} again, {timeouts} timeouts, {csum_errors} wrong checksums"
        )
    }
}
