// SPDX-License-Identifier: GPL-2.0

//! Shortest paths for every pair of node and host, with all next hops of equal length.

use crate::network::{Link, Node, NodeId, NodeKind, PortId, Routes, Row};
use std::collections::{BTreeMap, VecDeque};

/// Routes by hop count. `skip` says which links are not for packets (circuits).
pub(crate) fn shortest(
    nodes: &[Node],
    links: &[Link],
    ecmp: bool,
    skip: &dyn Fn(usize) -> bool,
) -> Routes {
    let mut sets = Sets::default();
    let mut host_index = vec![u32::MAX; nodes.len()];
    let hosts: Vec<NodeId> = (0..nodes.len())
        .filter(|&n| nodes[n].kind == NodeKind::Host)
        .collect();
    for (i, &host) in hosts.iter().enumerate() {
        host_index[host] = i as u32;
    }
    let far_end = |port: PortId| {
        let link = &links[port.link()];
        if port.backward() {
            link.a
        } else {
            link.b
        }
    };
    let usable = |node: NodeId| {
        nodes[node]
            .ports
            .iter()
            .copied()
            .filter(|p| !skip(p.link()))
    };
    let mut rows: Vec<Row> = (0..nodes.len())
        .map(|n| {
            let mut mine = usable(n);
            match (nodes[n].kind, mine.next(), mine.next()) {
                (NodeKind::Host, Some(only), None) => Row::Always(sets.id(vec![only])),
                _ => Row::Table(vec![u32::MAX; hosts.len()]),
            }
        })
        .collect();

    // Hosts with one link to the same switch are equally far from everywhere: one search for all.
    let mut by_place: BTreeMap<Vec<NodeId>, Vec<NodeId>> = BTreeMap::new();
    for &host in &hosts {
        let mut place: Vec<NodeId> = usable(host).map(far_end).collect();
        place.sort_unstable();
        place.dedup();
        by_place.entry(place).or_default().push(host);
    }
    for (place, members) in by_place {
        let mut distance = vec![u32::MAX; nodes.len()];
        let mut queue = VecDeque::new();
        for &node in &place {
            distance[node] = 0;
            queue.push_back(node);
        }
        while let Some(node) = queue.pop_front() {
            // Hosts do not forward: a host's distance leads nowhere, unless it is the place itself.
            if nodes[node].kind == NodeKind::Host {
                continue;
            }
            for next in usable(node).map(far_end) {
                if distance[next] == u32::MAX {
                    distance[next] = distance[node] + 1;
                    queue.push_back(next);
                }
            }
        }
        for (node, row) in rows.iter_mut().enumerate() {
            let Row::Table(table) = row else { continue };
            let mut inner: Option<u32> = None;
            for &host in &members {
                if host == node {
                    continue;
                }
                let set = if place.contains(&node) && nodes[node].kind == NodeKind::Switch {
                    // Next to the host itself.
                    sets.of(usable(node).filter(|&p| far_end(p) == host), ecmp)
                } else {
                    *inner.get_or_insert_with(|| {
                        let nearer = |p: &PortId| {
                            let next = far_end(*p);
                            let forwards = nodes[next].kind == NodeKind::Switch;
                            forwards
                                && distance[node] != u32::MAX
                                && distance[next] < distance[node]
                        };
                        sets.of(usable(node).filter(nearer), ecmp)
                    })
                };
                // Two hosts with a link between them and no switch.
                let direct = nodes[node].kind == NodeKind::Host && place.contains(&node);
                table[host_index[host] as usize] = if direct {
                    sets.of(usable(node).filter(|&p| far_end(p) == host), ecmp)
                } else {
                    set
                };
            }
        }
    }
    Routes {
        sets: sets.all,
        rows,
        host_index,
    }
}

impl Routes {
    /// Sends what `node` has for host `dst` by `ports` alone.
    pub(crate) fn set(&mut self, node: NodeId, dst: NodeId, ports: Vec<PortId>) {
        let set = self.sets.len() as u32;
        self.sets.push(ports);
        let hosts = self.host_index.iter().filter(|&&h| h != u32::MAX).count();
        if let Row::Always(old) = self.rows[node] {
            self.rows[node] = Row::Table(vec![old; hosts]);
        }
        if let Row::Table(table) = &mut self.rows[node] {
            table[self.host_index[dst] as usize] = set;
        }
    }
}

/// Sets of ports, each once.
#[derive(Default)]
struct Sets {
    all: Vec<Vec<PortId>>,
    ids: BTreeMap<Vec<PortId>, u32>,
}

impl Sets {
    fn id(&mut self, set: Vec<PortId>) -> u32 {
        if set.is_empty() {
            return u32::MAX;
        }
        *self.ids.entry(set).or_insert_with_key(|set| {
            self.all.push(set.clone());
            self.all.len() as u32 - 1
        })
    }

    fn of(&mut self, ports: impl Iterator<Item = PortId>, ecmp: bool) -> u32 {
        let mut set: Vec<PortId> = ports.collect();
        set.sort_unstable();
        if !ecmp {
            set.truncate(1);
        }
        self.id(set)
    }
}
