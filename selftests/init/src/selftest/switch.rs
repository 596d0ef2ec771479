// SPDX-License-Identifier: GPL-2.0
//! A switch for tests: a namespace with ports p0, p1 and so on, and at the far end of each a namespace of
//! its own. Frames are put on a port and looked at where they arrive.

use super::{
    data,
    frame::{Arrived, Raw, Segment},
};
use crate::{
    net::{Net, Queue},
    netns::Netns,
};
use anyhow::{ensure, Context as _, Result};
use std::{fs, thread, time::Duration};

/// See the file's head.
pub struct Switch {
    space: Netns,
    /// Netlink inside the switch.
    pub net: Net<'static>,
    ends: Vec<Netns>,
}

impl Switch {
    /// A switch whose ports have these parameters, as `fathom tc` takes them; none where they are empty.
    pub fn new(ports: &[&str]) -> Result<Self> {
        let runtime = data::runtime()?;
        let space = silent()?;
        let net = Net::open(runtime, &space)?;
        let mut switch = Self {
            space,
            net,
            ends: Vec::new(),
        };
        for (i, options) in ports.iter().enumerate() {
            let end = silent()?;
            switch.net.add_veth(&format!("p{i}"), "e", &end)?;
            switch.net.up(&format!("p{i}"), false)?;
            Net::open(runtime, &end)?.up("e", false)?;
            switch.ends.push(end);
            if !options.is_empty() {
                switch.set(i, options)?;
            }
        }
        Ok(switch)
    }

    /// Sets the parameters of a port.
    pub fn set(&self, port: usize, options: &str) -> Result<()> {
        let words: Vec<&str> = options.split_whitespace().collect();
        let options = ::port::settings::parse(&words).map_err(anyhow::Error::msg)?;
        self.net.qdisc(&format!("p{port}"), wire::tc::NAME, options)
    }

    /// Takes a port's queue off.
    pub fn clear(&self, port: usize) -> Result<()> {
        self.net.no_qdisc(&format!("p{port}"))
    }

    /// The queue of a port.
    pub fn queue(&self, port: usize) -> Result<Queue> {
        self.net.queue(&format!("p{port}"))
    }

    /// A statistic of a port (`wire::tc::STAT_*`).
    pub fn stat(&self, port: usize, stat: usize) -> Result<u64> {
        Ok(self.queue(port)?.stats[stat])
    }

    /// A raw socket that sends through a port.
    pub fn onto_port(&self, port: usize) -> Result<Raw> {
        self.space.enter(|| Raw::open(&format!("p{port}")))?
    }

    /// A raw socket where a port's packets arrive.
    pub fn behind(&self, port: usize) -> Result<Raw> {
        self.ends[port].enter(|| Raw::open("e"))?
    }

    /// Sends segments through a port and waits until it has sent or dropped them all; those that arrived.
    pub fn pass(&self, port: usize, segments: &[Segment]) -> Result<Vec<Arrived>> {
        let (into, behind) = (self.onto_port(port)?, self.behind(port)?);
        for segment in segments {
            into.send(&segment.frame())?;
        }
        for _ in 0..1000 {
            if self.queue(port)?.backlog_bytes == 0 {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        ensure!(
            self.queue(port)?.backlog_bytes == 0,
            "port {port} does not become empty"
        );
        behind.patience_ms(200)?;
        let arrived: Vec<Arrived> = std::iter::from_fn(|| behind.next()).collect();
        for one in &arrived {
            ensure!(one.checksum_is_right(), "port {port}: a wrong checksum");
        }
        Ok(arrived)
    }
}

/// A namespace in which nothing speaks by itself.
fn silent() -> Result<Netns> {
    let space = Netns::new()?;
    space.enter(|| -> Result<()> {
        for which in ["default", "all"] {
            let file = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
            fs::write(&file, "1").context(file)?;
        }
        Ok(())
    })??;
    Ok(space)
}
