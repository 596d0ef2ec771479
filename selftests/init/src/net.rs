// SPDX-License-Identifier: GPL-2.0
//! Links, addresses, routes and queues, by netlink.

use crate::netns::Netns;
use anyhow::{anyhow, Context as _, Result};
use futures_util::{StreamExt as _, TryStreamExt as _};
use netlink_packet_core::{
    DefaultNla, NetlinkMessage, NetlinkPayload, NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE,
    NLM_F_REQUEST,
};
use netlink_packet_route::{
    link::LinkAttribute,
    tc::{TcAttribute, TcHandle, TcMessage, TcStats2},
    RouteNetlinkMessage,
};
use rtnetlink::{Handle, LinkUnspec, LinkVeth, RouteMessageBuilder};
use std::{net::IpAddr, os::fd::AsRawFd as _};
use wire::tc;

/// A netlink socket in one namespace.
pub struct Net<'rt> {
    runtime: &'rt tokio::runtime::Runtime,
    handle: Handle,
}

/// The runtime that all netlink sockets share.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("tokio runtime")
}

impl<'rt> Net<'rt> {
    /// Opens a netlink socket inside `ns`.
    pub fn open(runtime: &'rt tokio::runtime::Runtime, ns: &Netns) -> Result<Self> {
        let _guard = runtime.enter();
        let (connection, handle, _) = ns
            .enter(rtnetlink::new_connection)?
            .context("netlink socket")?;
        runtime.spawn(connection);
        Ok(Self { runtime, handle })
    }

    /// The index of an interface.
    pub fn index(&self, name: &str) -> Result<u32> {
        let mut found = self
            .handle
            .link()
            .get()
            .match_name(name.to_owned())
            .execute();
        let link = self
            .runtime
            .block_on(found.try_next())
            .with_context(|| format!("interface {name}"))?;
        Ok(link
            .ok_or_else(|| anyhow!("interface {name}: not there"))?
            .header
            .index)
    }

    /// Makes a veth pair, `a` here and `b` in `peer`.
    pub fn add_veth(&self, a: &str, b: &str, peer: &Netns) -> Result<()> {
        let name = || format!("veth {a}-{b}");
        self.runtime.block_on(async {
            self.handle
                .link()
                .add(LinkVeth::new(a, b).build())
                .execute()
                .await
                .with_context(name)
        })?;
        let moved = LinkUnspec::new_with_index(self.index(b)?)
            .setns_by_fd(peer.file().as_raw_fd())
            .build();
        self.runtime
            .block_on(self.handle.link().set(moved).execute())
            .with_context(name)
    }

    /// Brings an interface up. With `one_segment`, TCP hands it packets of at most the MTU: no TSO, no GSO.
    pub fn up(&self, name: &str, one_segment: bool) -> Result<()> {
        let mut link = LinkUnspec::new_with_index(self.index(name)?).up();
        if one_segment {
            link = link.append_extra_attribute(LinkAttribute::GsoMaxSegs(1));
        }
        self.runtime
            .block_on(self.handle.link().set(link.build()).execute())
            .with_context(|| format!("{name} up"))
    }

    /// Gives an interface an address.
    pub fn address(&self, name: &str, address: IpAddr, prefix: u8) -> Result<()> {
        let index = self.index(name)?;
        let mut add = self.handle.address().add(index, address, prefix);
        if address.is_ipv6() {
            // No duplicate address detection: the address is usable at once.
            add.message_mut().header.flags |=
                netlink_packet_route::address::AddressHeaderFlags::Nodad;
        }
        self.runtime
            .block_on(add.execute())
            .with_context(|| format!("address {address} on {name}"))
    }

    /// Routes `to` (a host) over `via`.
    pub fn route(&self, to: IpAddr, via: IpAddr) -> Result<()> {
        let host = if to.is_ipv6() { 128 } else { 32 };
        let route = RouteMessageBuilder::<IpAddr>::new()
            .destination_prefix(to, host)
            .and_then(|r| r.gateway(via))
            .map_err(|e| anyhow!("route to {to} via {via}: {e:?}"))?
            .build();
        self.runtime
            .block_on(self.handle.route().add(route).execute())
            .with_context(|| format!("route to {to} via {via}"))
    }

    /// Puts a queue at the root of an interface, in place of what was there. `options` are the bytes of
    /// the qdisc's TCA_OPTIONS.
    pub fn qdisc(&self, name: &str, kind: &str, options: Vec<u8>) -> Result<()> {
        const TCA_OPTIONS: u16 = 2;
        let mut message = TcMessage::with_index(self.index(name)? as i32);
        message.header.parent = TcHandle::ROOT;
        message.header.handle = TcHandle { major: 1, minor: 0 };
        message.attributes.push(TcAttribute::Kind(kind.to_owned()));
        message
            .attributes
            .push(TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, options)));
        let mut request = NetlinkMessage::from(RouteNetlinkMessage::NewQueueDiscipline(message));
        request.header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
        self.runtime.block_on(async {
            let mut handle = self.handle.clone();
            let mut answer = handle.request(request)?;
            while let Some(message) = answer.next().await {
                if let NetlinkPayload::Error(e) = message.payload {
                    if e.code.is_some() {
                        return Err(anyhow!("qdisc {kind} on {name}: {}", e.to_io()));
                    }
                }
            }
            Ok(())
        })
    }

    /// What the root queues of this namespace hold, by interface index.
    pub fn queues(&self) -> Result<Vec<Queue>> {
        self.runtime.block_on(async {
            let mut queues = Vec::new();
            let mut all = self.handle.qdisc().get().execute();
            while let Some(message) = all.try_next().await.context("qdisc statistics")? {
                if message.header.parent != TcHandle::ROOT {
                    continue;
                }
                let mut queue = Queue {
                    index: message.header.index as u32,
                    ..Queue::default()
                };
                for attribute in &message.attributes {
                    let TcAttribute::Stats2(stats) = attribute else {
                        continue;
                    };
                    for stat in stats {
                        match stat {
                            TcStats2::Queue(q) => {
                                queue.backlog_bytes = q.backlog.into();
                                queue.drops = q.drops.into();
                            }
                            TcStats2::Basic(b) => queue.packets = b.packets.into(),
                            _ => {}
                        }
                    }
                }
                queues.push(queue);
            }
            Ok(queues)
        })
    }
}

/// A root queue.
#[derive(Clone, Copy, Default)]
pub struct Queue {
    /// Of its interface.
    pub index: u32,
    /// Bytes waiting.
    pub backlog_bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped.
    pub drops: u64,
}

/// TCA_OPTIONS of our qdisc `int`: a port that sends at a rate, then a wire with a delay.
pub fn port(rate_mbps: u64, delay_ns: u64, limit_bytes: u64, ecn_bytes: u64) -> Vec<u8> {
    [
        tc::attribute(tc::RATE, rate_mbps * 125_000),
        tc::attribute(tc::DELAY, delay_ns),
        tc::attribute(tc::LIMIT, limit_bytes),
        tc::attribute(tc::ECN, ecn_bytes),
    ]
    .concat()
}
