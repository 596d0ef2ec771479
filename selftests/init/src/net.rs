// SPDX-License-Identifier: GPL-2.0
//! Links, addresses, routes and queues, by netlink.

use crate::netns::Netns;
use anyhow::{anyhow, Context as _, Result};
use futures_util::TryStreamExt as _;
use port::netlink::{self, How};
pub use port::Queue;
use rtnetlink::{
    packet_route::{
        address::AddressHeaderFlags,
        link::LinkAttribute,
        route::{RouteAttribute, RouteMetric},
    },
    Handle, LinkUnspec, LinkVeth, RouteMessageBuilder, RouteNextHopBuilder,
};
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
        let handle = ns.enter(netlink::open)?.context("netlink socket")?;
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

    /// Gives an interface its MTU and brings it up; see [`Net::up`].
    pub fn set_up(&self, name: &str, mtu: u32, one_segment: bool) -> Result<()> {
        let link = LinkUnspec::new_with_index(self.index(name)?).mtu(mtu);
        self.runtime
            .block_on(self.handle.link().set(link.build()).execute())
            .with_context(|| format!("MTU {mtu} of {name}"))?;
        self.up(name, one_segment)
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

    /// Sets an interface's MTU.
    pub fn mtu(&self, name: &str, bytes: u32) -> Result<()> {
        let link = LinkUnspec::new_with_index(self.index(name)?).mtu(bytes);
        self.runtime
            .block_on(self.handle.link().set(link.build()).execute())
            .with_context(|| format!("{name} mtu {bytes}"))
    }

    /// Gives an interface an address.
    pub fn address(&self, name: &str, address: IpAddr, prefix: u8) -> Result<()> {
        let index = self.index(name)?;
        let mut add = self.handle.address().add(index, address, prefix);
        if address.is_ipv6() {
            // No duplicate address detection: the address is usable at once.
            add.message_mut().header.flags |= AddressHeaderFlags::Nodad;
        }
        self.runtime
            .block_on(add.execute())
            .with_context(|| format!("address {address} on {name}"))
    }

    /// Routes `to` (a host) over `via`.
    pub fn route(&self, to: IpAddr, via: IpAddr) -> Result<()> {
        self.routed(to, via, false)
    }

    /// The same, in place of the route that is there.
    pub fn reroute(&self, to: IpAddr, via: IpAddr) -> Result<()> {
        self.routed(to, via, true)
    }

    fn routed(&self, to: IpAddr, via: IpAddr, replace: bool) -> Result<()> {
        let host = if to.is_ipv6() { 128 } else { 32 };
        let route = RouteMessageBuilder::<IpAddr>::new()
            .destination_prefix(to, host)
            .and_then(|r| r.gateway(via))
            .map_err(|e| anyhow!("route to {to} via {via}: {e:?}"))?
            .build();
        let mut add = self.handle.route().add(route);
        if replace {
            add = add.replace();
        }
        self.runtime
            .block_on(add.execute())
            .with_context(|| format!("route to {to} via {via}"))
    }

    /// Adds a route to a host.
    pub fn add_route(&self, route: &Route) -> Result<()> {
        let name = || format!("route to {} via {:?}", route.to, route.via);
        let bits = if route.to.is_ipv6() { 128 } else { 32 };
        let mut message =
            RouteMessageBuilder::<IpAddr>::new().destination_prefix(route.to, bits)?;
        message = match route.via[..] {
            [via] => message.gateway(via)?,
            ref many => {
                let hop = |via: &IpAddr| {
                    let hop = match via {
                        IpAddr::V4(_) => RouteNextHopBuilder::new_ipv4(),
                        IpAddr::V6(_) => RouteNextHopBuilder::new_ipv6(),
                    };
                    Ok(hop.via(*via)?.build())
                };
                message.multipath(many.iter().map(hop).collect::<Result<_>>()?)
            }
        };
        let mut metrics = Vec::new();
        if route.quick_ack {
            metrics.push(RouteMetric::QuickAck(1));
        }
        if route.initial_cwnd != 0 {
            metrics.push(RouteMetric::InitCwnd(route.initial_cwnd));
        }
        let mut message = message.build();
        if !metrics.is_empty() {
            message.attributes.push(RouteAttribute::Metrics(metrics));
        }
        self.runtime
            .block_on(self.handle.route().add(message).execute())
            .with_context(name)
    }

    /// Puts a queue at the root of an interface, in place of what was there. `options` are the bytes of
    /// the qdisc's TCA_OPTIONS.
    pub fn qdisc(&self, name: &str, kind: &str, options: Vec<u8>) -> Result<()> {
        let index = self.index(name)?;
        self.runtime
            .block_on(netlink::set(
                &self.handle,
                index,
                kind,
                options,
                How::Replace,
            ))
            .with_context(|| format!("qdisc {kind} on {name}"))
    }

    /// Takes the queue off an interface.
    pub fn no_qdisc(&self, name: &str) -> Result<()> {
        let index = self.index(name)?;
        self.runtime
            .block_on(netlink::delete(&self.handle, index))
            .with_context(|| format!("delete the qdisc of {name}"))
    }

    /// What the root queues of this namespace hold, by interface index.
    pub fn queues(&self) -> Result<Vec<Queue>> {
        self.runtime
            .block_on(netlink::list(&self.handle))
            .context("qdisc statistics")
    }

    /// The root queue of one interface.
    pub fn queue(&self, name: &str) -> Result<Queue> {
        let index = self.index(name)?;
        let mut queues = self.queues()?.into_iter();
        queues
            .find(|q| q.index == index)
            .with_context(|| format!("{name} has no root queue"))
    }

    /// What a port logged of the packets that it stamped, from number `from` on (`tc::LOG` must be set);
    /// the number of the first one, which is larger when older ones are gone.
    pub fn log(&self, name: &str, from: u64) -> Result<(u64, Vec<tc::Record>)> {
        let index = self.index(name)?;
        self.runtime
            .block_on(netlink::log(&self.handle, index, from))
            .with_context(|| format!("log of {name}"))
    }
}

/// A route to a host.
pub struct Route {
    /// The host.
    pub to: IpAddr,
    /// Next hops; of several, flows are spread over all.
    pub via: Vec<IpAddr>,
    /// Every packet is acknowledged at once.
    pub quick_ack: bool,
    /// The first window, packets; 0 = the kernel's.
    pub initial_cwnd: u32,
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

/// TCA_OPTIONS of the kernel's `netem`: a delay, and packets lost, reordered and corrupted, each in
/// thousandths.
pub fn netem(delay_ns: i64, lost: u32, reordered: u32, corrupted: u32) -> Vec<u8> {
    const REORDER: u16 = 3;
    const CORRUPT: u16 = 4;
    const LATENCY64: u16 = 10;
    let share = |thousandths: u32| u32::MAX / 1000 * thousandths;
    let attribute = |kind: u16, value: [u8; 8]| {
        let mut bytes = Vec::from(12u16.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes
    };
    let pair = |a: u32| (u64::from(a)).to_ne_bytes();
    // latency, limit, loss, gap, duplicate, jitter
    let fixed = [0, 1000, share(lost), 1, 0, 0].map(u32::to_ne_bytes);
    [
        fixed.concat(),
        attribute(REORDER, pair(share(reordered))),
        attribute(CORRUPT, pair(share(corrupted))),
        attribute(LATENCY64, delay_ns.to_ne_bytes()),
    ]
    .concat()
}
