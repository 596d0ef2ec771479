// SPDX-License-Identifier: GPL-2.0

//! From groups of traffic to single flows, the same on every machine for one seed.

use crate::error::Error;
use crate::file::{
    Between, FlowsTable, IncastTable, Many, Pairing, PoissonTable, RpcTable, SizesTable,
};
use crate::network::{Flow, Group, GroupKind, NodeId, PortId, Work};
use crate::resolve::Resolver;
use crate::sizes::{Sizes, NAMED};
use crate::units::{show_ns, Size, Time};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use toml::Spanned;

type Result<T> = std::result::Result<T, Box<Error>>;

/// The most flows a scenario may come to.
pub const MAX_FLOWS: u64 = 2_000_000;

/// The most standing connections of a pair of hosts.
const MAX_STANDING: u64 = 1024;

/// Random numbers of one group. Only integer arithmetic and a logarithm in software: the processor and
/// its C library have no say.
struct Dice(ChaCha8Rng);

impl Dice {
    fn new(seed: u64, group: usize) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&(group as u64).to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// 0 to `n` − 1.
    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Above 0, up to 1.
    fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Until the next arrival of a Poisson process.
    fn exponential_ns(&mut self, per_second: f64) -> f64 {
        -libm::log(self.unit()) / per_second * 1e9
    }

    fn jitter(&mut self, Time(most): Time) -> u64 {
        if most == 0 {
            0
        } else {
            self.below(most + 1)
        }
    }
}

/// All groups of a file, expanded.
pub(crate) struct Traffic<'r, 'a> {
    r: &'r mut Resolver<'a>,
    pub(crate) groups: Vec<Group>,
    pub(crate) flows: Vec<Flow>,
    standing: Standing,
}

/// Standing connections of each pair of hosts, by group; a group without has none.
#[derive(Default)]
struct Standing(BTreeMap<usize, u64>);

impl Standing {
    /// Says of each flow, in the order of their starts, which connection carries it: those of its pair take turns.
    fn carry(&self, flows: &mut [Flow]) {
        let mut pairs: BTreeMap<(usize, NodeId, NodeId), (u64, Vec<usize>)> = BTreeMap::new();
        for (id, flow) in flows.iter_mut().enumerate() {
            let Some(&count) = self.0.get(&flow.group) else {
                continue;
            };
            let (turn, carriers) = pairs.entry((flow.group, flow.src, flow.dst)).or_default();
            let at = (*turn % count) as usize;
            *turn += 1;
            if at == carriers.len() {
                carriers.push(id);
            }
            flow.on = Some(carriers[at]);
        }
    }
}

/// What all flows of a group have in common.
#[derive(Clone, Copy)]
struct Common {
    cc: usize,
    group: usize,
}

impl<'r, 'a> Traffic<'r, 'a> {
    /// Expands everything.
    pub(crate) fn expand(r: &'r mut Resolver<'a>) -> Result<(Vec<Group>, Vec<Flow>)> {
        let mut all = Self {
            r,
            groups: Vec::new(),
            flows: Vec::new(),
            standing: Standing::default(),
        };
        let file = all.r.file;
        for table in &file.flows {
            all.flows(table)?;
        }
        for table in &file.incast {
            all.incast(table)?;
        }
        for table in &file.poisson {
            all.poisson(table)?;
        }
        for table in &file.rpc {
            all.rpc(table)?;
        }
        if all.flows.is_empty() {
            let text = &all.r.source.text;
            let end = text.len();
            return Err(all.r.source.error(
                end..end,
                "the scenario has no traffic",
                "at least one of [[flows]], [[incast]], [[poisson]], [[rpc]]",
            ));
        }
        let mut flows = all.flows;
        flows.sort_by_key(|f| f.start_ns);
        all.standing.carry(&mut flows);
        Ok((all.groups, flows))
    }

    fn group(
        &mut self,
        name: &Spanned<String>,
        kind: GroupKind,
        cc: Option<&Spanned<String>>,
    ) -> Result<Common> {
        if self.groups.iter().any(|g| g.name == *name.get_ref()) {
            let message = format!("there is already a group {:?}", name.get_ref());
            return Err(self.error(name.span(), message, "another name"));
        }
        let tested = cc.is_none_or(|cc| cc.get_ref() == "*");
        let cc = match cc {
            Some(cc) if !tested => self.r.cc_at(cc.get_ref(), Some(cc.span()))?,
            _ => self.r.tested()?,
        };
        self.groups.push(Group {
            name: name.get_ref().clone(),
            kind,
            tested,
        });
        Ok(Common {
            cc,
            group: self.groups.len() - 1,
        })
    }

    fn error(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Box<Error> {
        self.r.source.error(span, message, help)
    }

    /// Refuses more flows than anyone can run, before they are made.
    fn room(&self, more: u128, span: Range<usize>) -> Result<()> {
        let total = more + self.flows.len() as u128;
        if total > u128::from(MAX_FLOWS) {
            let message =
                format!("this comes to {total} flows, and a scenario may have at most {MAX_FLOWS}");
            return Err(self.error(
                span,
                message,
                "fewer flows, a lower load or a shorter duration",
            ));
        }
        Ok(())
    }

    fn check_start(&self, start_ns: u64, name: &Spanned<String>) -> Result<()> {
        if start_ns >= self.r.duration_ns {
            let message = format!(
                "a flow of this group starts at {}, and the scenario ends at {}",
                show_ns(start_ns),
                show_ns(self.r.duration_ns)
            );
            return Err(self.error(
                name.span(),
                message,
                "a longer duration, an earlier start or a shorter stagger",
            ));
        }
        Ok(())
    }

    fn check_stop(&self, start_ns: u64, stop_ns: u64, span: Range<usize>) -> Result<()> {
        if stop_ns <= start_ns {
            let message = format!(
                "a flow would stop at {}, before it starts at {}",
                show_ns(stop_ns),
                show_ns(start_ns)
            );
            return Err(self.error(span, message, ""));
        }
        Ok(())
    }

    /// Sender and receiver of each pair.
    fn pairs(
        &self,
        from: &Spanned<Many>,
        to: &Spanned<Many>,
        pairing: Pairing,
        count: u64,
    ) -> Result<Vec<(NodeId, NodeId)>> {
        let sources = self.r.hosts_of(from)?;
        let sinks = self.r.hosts_of(to)?;
        let n = match pairing {
            Pairing::Zip => sources.len().max(sinks.len()) as u128,
            Pairing::All => sources.len() as u128 * sinks.len() as u128,
        };
        self.room(n * u128::from(count), from.span())?;
        let pairs: Vec<(NodeId, NodeId)> = match pairing {
            Pairing::Zip => (0..n as usize)
                .map(|i| (sources[i % sources.len()], sinks[i % sinks.len()]))
                .collect(),
            Pairing::All => sources
                .iter()
                .flat_map(|&s| sinks.iter().map(move |&d| (s, d)))
                .filter(|(s, d)| s != d)
                .collect(),
        };
        if let Some(&(host, _)) = pairs.iter().find(|(s, d)| s == d) {
            let message = format!("{:?} would send to itself", self.r.nodes[host].name);
            return Err(self.error(to.span(), message, "other receivers, or pairing = \"all\""));
        }
        for &(src, dst) in &pairs {
            self.r.check_route(src, dst, from.span())?;
        }
        Ok(pairs)
    }

    fn positive(&self, size: &Spanned<Size>) -> Result<u64> {
        match size.get_ref().0 {
            0 => Err(self.error(size.span(), "a flow of no bytes", "at least \"1B\"")),
            bytes => Ok(bytes),
        }
    }

    fn count(&self, count: Option<&Spanned<u64>>) -> Result<u64> {
        match count {
            None => Ok(1),
            Some(n) if *n.get_ref() == 0 => Err(self.error(n.span(), "0 flows", "at least 1")),
            Some(n) => {
                self.room(u128::from(*n.get_ref()), n.span())?;
                Ok(*n.get_ref())
            }
        }
    }

    /// Takes note of how many connections stand between the pairs of a group.
    fn stand(&mut self, group: usize, connections: Option<&Spanned<u64>>) -> Result<()> {
        let Some(n) = connections else { return Ok(()) };
        if !(1..=MAX_STANDING).contains(n.get_ref()) {
            let message = format!("{} standing connections of each pair", n.get_ref());
            let help =
                format!("1 to {MAX_STANDING}; left out, each message is a connection of its own");
            return Err(self.error(n.span(), message, help));
        }
        self.standing.0.insert(group, *n.get_ref());
        Ok(())
    }

    fn flows(&mut self, t: &FlowsTable) -> Result<()> {
        let common = self.group(&t.group, GroupKind::Flows, t.cc.as_ref())?;
        let count = self.count(t.count.as_ref())?;
        let per_step = self.count(t.per_step.as_ref())?;
        if t.optional && !(self.r.any_host_fits(&t.from) && self.r.any_host_fits(&t.to)) {
            return Ok(());
        }
        let pairs = self.pairs(&t.from, &t.to, t.pairing, count)?;
        let work = match &t.size {
            Some(size) => Work::Bytes(self.positive(size)?),
            None => Work::Long,
        };
        let app_bps = match &t.app_rate {
            Some(rate) => crate::topology::check_rate(self.r.source, rate)?,
            None => 0,
        };
        let n = pairs.len() as u64 * count;
        let last_step = (n.max(1) - 1) / per_step;
        let mut dice = Dice::new(self.r.seed, common.group);
        for i in 0..n {
            let (src, dst) = pairs[(i % pairs.len() as u64) as usize];
            let step = i / per_step;
            let start_ns = t
                .start
                .0
                .saturating_add(t.stagger.0.saturating_mul(step))
                .saturating_add(dice.jitter(t.jitter));
            self.check_start(start_ns, &t.group)?;
            let stop_ns = match &t.stop {
                None => None,
                Some(stop) => {
                    let turn = if t.last_first { last_step - step } else { step };
                    let at = stop
                        .get_ref()
                        .0
                        .saturating_add(t.stop_stagger.0.saturating_mul(turn));
                    self.check_stop(start_ns, at, stop.span())?;
                    (at < self.r.duration_ns).then_some(at)
                }
            };
            self.flows.push(Flow {
                src,
                dst,
                start_ns,
                stop_ns,
                work,
                app_bps,
                cc: common.cc,
                group: common.group,
                query: None,
                on: None,
            });
        }
        Ok(())
    }

    fn incast(&mut self, t: &IncastTable) -> Result<()> {
        let common = self.group(&t.group, GroupKind::Incast, t.cc.as_ref())?;
        self.stand(common.group, t.connections.as_ref())?;
        let askers = self.r.hosts_of(&t.to)?;
        let all = self.r.hosts_of(&t.from)?;
        let mut dice = Dice::new(self.r.seed, common.group);
        let stop = t
            .stop
            .map_or(self.r.duration_ns, |Time(t)| t.min(self.r.duration_ns));
        self.check_start(t.start.0, &t.group)?;
        let times = self.query_times(t, stop, &mut dice)?;
        let fan_in = t.fan_in.as_ref().map_or(all.len() as u64, |n| *n.get_ref());
        let span = t.fan_in.as_ref().map_or(t.from.span(), Spanned::span);
        self.room(times.len() as u128 * u128::from(fan_in), span.clone())?;
        for (query, &at) in times.iter().enumerate() {
            let asker = askers[query % askers.len()];
            let mut servers: Vec<NodeId> = all
                .iter()
                .copied()
                .filter(|&s| {
                    s != asker
                        && (t.between == Between::Hosts
                            || self.r.nodes[s].rack != self.r.nodes[asker].rack)
                })
                .collect();
            // Without a fan-in all answer, save the one who asks.
            let n = if t.fan_in.is_some() {
                fan_in as usize
            } else {
                servers.len()
            };
            if n == 0 || n > servers.len() {
                let message = format!(
                    "{n} hosts shall answer {:?}, and {} can",
                    self.r.nodes[asker].name,
                    servers.len()
                );
                return Err(self.error(span, message, "more hosts in `from`, or a smaller fan_in"));
            }
            if t.fan_in.is_some() {
                for i in 0..n {
                    let other = i + dice.below((servers.len() - i) as u64) as usize;
                    servers.swap(i, other);
                }
                servers.truncate(n);
            }
            let bytes = match (&t.size, &t.each) {
                (Some(size), None) => (self.positive(size)? / n as u64).max(1),
                (None, Some(each)) => self.positive(each)?,
                (_, both) => {
                    let span = both.as_ref().map_or(t.group.span(), Spanned::span);
                    return Err(self.error(
                        span,
                        "an incast has either `size` (of a whole query) or `each` (of an answer)",
                        "",
                    ));
                }
            };
            for src in servers {
                self.r.check_route(src, asker, t.from.span())?;
                self.flows.push(Flow {
                    src,
                    dst: asker,
                    start_ns: (at + dice.jitter(t.jitter)).min(self.r.duration_ns - 1),
                    stop_ns: None,
                    work: Work::Bytes(bytes),
                    app_bps: 0,
                    cc: common.cc,
                    group: common.group,
                    query: Some(query as u32),
                    on: None,
                });
            }
        }
        Ok(())
    }

    fn query_times(&self, t: &IncastTable, stop: u64, dice: &mut Dice) -> Result<Vec<u64>> {
        let limit = t.count.as_ref().map(|c| *c.get_ref());
        match (&t.every, &t.per_second) {
            (Some(_), Some(rate)) => Err(self.error(
                rate.span(),
                "queries come either `every` so long or `per_second`",
                "",
            )),
            (Some(every), None) => {
                let step = every.get_ref().0;
                if step == 0 {
                    return Err(self.error(every.span(), "queries every 0 s", "a time above 0"));
                }
                let fit = (stop.saturating_sub(t.start.0)).div_ceil(step);
                let n = limit.map_or(fit, |l| l.min(fit));
                self.room(u128::from(n), every.span())?;
                Ok((0..n).map(|i| t.start.0 + i * step).collect())
            }
            (None, Some(rate)) => {
                let per_second = *rate.get_ref();
                let expected = per_second * (stop.saturating_sub(t.start.0)) as f64 / 1e9;
                if !(per_second > 0.0 && expected.is_finite()) {
                    return Err(self.error(
                        rate.span(),
                        format!("{per_second} queries per second"),
                        "a number above 0",
                    ));
                }
                self.room(expected as u128, rate.span())?;
                let mut times = Vec::new();
                let mut at = t.start.0 as f64 + dice.exponential_ns(per_second);
                while at < stop as f64 && limit.is_none_or(|l| (times.len() as u64) < l) {
                    times.push(at as u64);
                    at += dice.exponential_ns(per_second);
                }
                Ok(times)
            }
            (None, None) if limit.is_none_or(|n| n == 1) => Ok(vec![t.start.0]),
            (None, None) => {
                let span = t.count.as_ref().map_or(t.group.span(), Spanned::span);
                Err(self.error(
                    span,
                    "several queries, and nothing says when",
                    "`every` or `per_second`",
                ))
            }
        }
    }

    fn poisson(&mut self, t: &PoissonTable) -> Result<()> {
        let common = self.group(&t.group, GroupKind::Poisson, t.cc.as_ref())?;
        self.stand(common.group, t.connections.as_ref())?;
        let sources = self.r.hosts_of(&t.from)?;
        let sinks = self.r.hosts_of(&t.to)?;
        let load = *t.load.get_ref();
        if !(load > 0.0 && load <= 2.0) {
            return Err(self.error(
                t.load.span(),
                format!("a load of {load}"),
                "above 0 and at most 2; 1 is all that the ports can carry",
            ));
        }
        let sizes = self.sizes(&t.sizes)?;
        let mut dice = Dice::new(self.r.seed, common.group);
        let choices = Pairs::new(self.r, &sources, &sinks, t.between);
        if choices.from.is_empty() {
            return Err(self.error(
                t.to.span(),
                "no two hosts of these may speak to each other",
                "other hosts, or between = \"hosts\"",
            ));
        }
        let capacity = match &t.of {
            None => sources
                .iter()
                .map(|&h| self.r.host_rate(h) as f64)
                .sum::<f64>(),
            Some(of) => {
                let ports = self.r.ports_of(of)?;
                let crossing =
                    choices.crossing(self.r, &ports, &mut Dice::new(self.r.seed, usize::MAX));
                if crossing == 0.0 {
                    return Err(self.error(
                        of.span(),
                        "none of the flows would use these ports",
                        "ports between the senders and the receivers",
                    ));
                }
                ports.iter().map(|&p| self.r.rate(p) as f64).sum::<f64>() / crossing
            }
        };
        let per_second = load * capacity / 8.0 / sizes.mean();
        let stop = t
            .stop
            .map_or(self.r.duration_ns, |Time(s)| s.min(self.r.duration_ns));
        self.check_start(t.start.0, &t.group)?;
        let expected = per_second * stop.saturating_sub(t.start.0) as f64 / 1e9;
        self.room(expected as u128, t.load.span())?;
        let mut checked = BTreeSet::new();
        let mut at = t.start.0 as f64 + dice.exponential_ns(per_second);
        while at < stop as f64 {
            let (src, dst) = choices.pick(&mut dice);
            if checked.insert((src, dst)) {
                self.r.check_route(src, dst, t.from.span())?;
            }
            self.flows.push(Flow {
                src,
                dst,
                start_ns: at as u64,
                stop_ns: None,
                work: Work::Bytes(sizes.quantile(dice.unit())),
                app_bps: 0,
                cc: common.cc,
                group: common.group,
                query: None,
                on: None,
            });
            at += dice.exponential_ns(per_second);
        }
        // What came by chance is near what was expected; an endless loop it cannot be.
        self.room(0, t.load.span())
    }

    fn rpc(&mut self, t: &RpcTable) -> Result<()> {
        let common = self.group(&t.group, GroupKind::Rpc, t.cc.as_ref())?;
        let count = self.count(t.count.as_ref())?;
        let pairs = self.pairs(&t.from, &t.to, t.pairing, count)?;
        let work = Work::Rpc {
            request: self.positive(&t.request)?,
            response: self.positive(&t.response)?,
            count: t.requests,
            think_ns: t.think.0,
        };
        let mut dice = Dice::new(self.r.seed, common.group);
        for i in 0..pairs.len() as u64 * count {
            let (src, dst) = pairs[(i % pairs.len() as u64) as usize];
            let start_ns = t
                .start
                .0
                .saturating_add(t.stagger.0.saturating_mul(i))
                .saturating_add(dice.jitter(t.jitter));
            self.check_start(start_ns, &t.group)?;
            if let Some(stop) = &t.stop {
                self.check_stop(start_ns, stop.get_ref().0, stop.span())?;
            }
            self.flows.push(Flow {
                src,
                dst,
                start_ns,
                stop_ns: t
                    .stop
                    .as_ref()
                    .map(|s| s.get_ref().0)
                    .filter(|&s| s < self.r.duration_ns),
                work,
                app_bps: 0,
                cc: common.cc,
                group: common.group,
                query: None,
                on: None,
            });
        }
        Ok(())
    }

    fn sizes(&self, table: &Spanned<SizesTable>) -> Result<Sizes> {
        let sizes = match table.get_ref() {
            SizesTable::Points(points) => Sizes::new(points),
            SizesTable::Name(name) => match NAMED.iter().find(|(n, _)| n == name) {
                Some((_, text)) => Sizes::parse(text),
                None => match std::fs::read_to_string(self.r.dir.join(name)) {
                    Ok(text) => Sizes::parse(&text),
                    Err(e) => {
                        let names: Vec<&str> = NAMED.iter().map(|(n, _)| *n).collect();
                        let help = format!("{}, or a file beside the scenario", names.join(", "));
                        return Err(self.error(
                            table.span(),
                            format!("cannot read the size distribution {name:?}: {e}"),
                            help,
                        ));
                    }
                },
            },
        };
        sizes.map_err(|e| self.error(table.span(), e, ""))
    }
}

/// Who may send to whom.
struct Pairs {
    /// Senders that have a receiver.
    from: Vec<NodeId>,
    to: Vec<NodeId>,
    /// By node; two of the same rack may not. None: any two may.
    racks: Option<Vec<Option<u32>>>,
}

impl Pairs {
    fn new(r: &Resolver<'_>, sources: &[NodeId], sinks: &[NodeId], between: Between) -> Self {
        let mut pairs = Self {
            from: Vec::new(),
            to: sinks.to_vec(),
            racks: (between == Between::Racks).then(|| r.nodes.iter().map(|n| n.rack).collect()),
        };
        let has_receiver = |s: &NodeId| sinks.iter().any(|&d| pairs.fit(*s, d));
        pairs.from = sources.iter().copied().filter(has_receiver).collect();
        pairs
    }

    fn fit(&self, s: NodeId, d: NodeId) -> bool {
        s != d && self.racks.as_ref().is_none_or(|racks| racks[s] != racks[d])
    }

    fn pick(&self, dice: &mut Dice) -> (NodeId, NodeId) {
        let src = self.from[dice.below(self.from.len() as u64) as usize];
        // Every sender has a receiver: this ends.
        loop {
            let dst = self.to[dice.below(self.to.len() as u64) as usize];
            if self.fit(src, dst) {
                return (src, dst);
            }
        }
    }

    /// The share of flows that may cross one of `ports`: of all pairs while they are few, of a sample
    /// of them otherwise.
    fn crossing(&self, r: &Resolver<'_>, ports: &[PortId], dice: &mut Dice) -> f64 {
        const ENOUGH: usize = 1 << 14;
        let ports: BTreeSet<PortId> = ports.iter().copied().collect();
        let all: Vec<(NodeId, NodeId)> = if self.from.len() * self.to.len() <= ENOUGH {
            let pairs = self
                .from
                .iter()
                .flat_map(|&s| self.to.iter().map(move |&d| (s, d)));
            pairs.filter(|&(s, d)| self.fit(s, d)).collect()
        } else {
            (0..ENOUGH).map(|_| self.pick(dice)).collect()
        };
        let crossing = all
            .iter()
            .filter(|&&(s, d)| r.may_cross(s, d, &ports))
            .count();
        crossing as f64 / all.len() as f64
    }
}
