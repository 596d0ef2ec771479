// SPDX-License-Identifier: GPL-2.0

//! The page: per scenario a table, the plots that its runs have data for, and all numbers.

use crate::data::{average, cdf, extremes, jain, means, reach, series};
use crate::plot::{escape, Item, Marks, Plot};
use crate::scale::{short, Kind};
use results::{Quantity, Run, Series, Subject, Verdict};
use scenario::{Engine, Metric};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The name of the page in its directory.
pub const FILE: &str = "index.html";

const STYLE: &str = include_str!("style.css");

/// More flows than this are shown as groups.
const MANY_FLOWS: usize = 16;
/// More dots than this are thinned out.
const MANY_DOTS: usize = 1500;

/// The page for `runs`, of one scenario or of several. `verdicts` are of their expectations.
#[must_use]
pub fn html(runs: &[Run], verdicts: &[Verdict]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for run in runs {
        if !names.contains(&run.meta.scenario.as_str()) {
            names.push(&run.meta.scenario);
        }
    }
    let title = match names[..] {
        [one] => format!("Fathom: {one}"),
        _ => format!("Fathom: {} scenarios", names.len()),
    };
    let mut out = format!(
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport content=\"width=device-width, initial-scale=1\">\
         <link rel=icon href=\"data:,\"><title>{0}</title><style>\n{STYLE}</style></head>\n<body><header><h1>{0}</h1>",
        escape(&title)
    );
    if names.len() > 1 {
        out.push_str("<nav>");
        for (i, name) in names.iter().enumerate() {
            let _ = write!(out, "<a href=\"#s{i}\">{}</a>", escape(name));
        }
        out.push_str("</nav>");
    }
    out.push_str("</header>\n");
    for (i, name) in names.iter().enumerate() {
        let mine: Vec<&Run> = runs.iter().filter(|r| r.meta.scenario == *name).collect();
        let _ = writeln!(
            out,
            "<section id=s{i}>{}</section>",
            Section::new(&mine).html(verdicts)
        );
    }
    let versions: std::collections::BTreeSet<&str> =
        runs.iter().map(|r| r.meta.fathom.as_str()).collect();
    let versions: Vec<&str> = versions.into_iter().collect();
    let _ = writeln!(
        out,
        "<footer>Made by fathom {}.</footer></body></html>",
        escape(&versions.join(", "))
    );
    out
}

/// One run among others of its scenario.
struct Entry<'r> {
    run: &'r Run,
    name: String,
    color: usize,
    dash: usize,
}

/// All runs of one scenario.
struct Section<'r> {
    entries: Vec<Entry<'r>>,
    /// ns per unit of time axes, and the unit.
    time: (f64, &'static str),
    end: f64,
}

impl<'r> Section<'r> {
    fn new(runs: &[&'r Run]) -> Self {
        let several = |of: &dyn Fn(&Run) -> String| {
            let mut all: Vec<String> = runs.iter().map(|r| of(r)).collect();
            all.sort();
            all.dedup();
            all.len() > 1
        };
        let engines = several(&|r| r.meta.engine.to_string());
        let seeds = several(&|r| r.meta.seed.to_string());
        let sets = several(&|r| r.meta.set.join(" "));
        let mut ccs: Vec<&str> = Vec::new();
        let mut entries: Vec<Entry<'r>> = Vec::new();
        for &run in runs {
            let meta = &run.meta;
            let known = ccs.iter().position(|c| *c == meta.cc);
            let color = known.unwrap_or_else(|| {
                ccs.push(&meta.cc);
                ccs.len() - 1
            });
            let mut name = meta.cc.clone();
            let mut more = Vec::new();
            if engines {
                more.push(meta.engine.to_string());
            }
            if seeds {
                more.push(format!("seed {}", meta.seed));
            }
            if sets && !meta.set.is_empty() {
                more.push(meta.set.join(" "));
            }
            if !more.is_empty() {
                let _ = write!(name, " ({})", more.join(", "));
            }
            // An engine has its dashes; runs that are alike in both take the next.
            let engine = match meta.engine {
                Engine::Sim => 0,
                Engine::Lab => 1,
                Engine::Testbed => 2,
            };
            let alike = entries
                .iter()
                .filter(|e| e.color == color && e.run.meta.engine == meta.engine)
                .count();
            entries.push(Entry {
                run,
                name,
                color,
                dash: if engines { engine } else { alike },
            });
        }
        let end = runs.iter().map(|r| r.meta.duration_ns).max().unwrap_or(1) as f64;
        let time = match end {
            e if e < 2e6 => (1e3, "us"),
            e if e < 2e9 => (1e6, "ms"),
            _ => (1e9, "s"),
        };
        Self {
            entries,
            time,
            end: end / time.0,
        }
    }

    fn html(&self, verdicts: &[Verdict]) -> String {
        let Some(first) = self.entries.first() else {
            return String::new();
        };
        let meta = &first.run.meta;
        let mut out = format!(
            "<h2>{}</h2><p>{}",
            escape(&meta.scenario),
            escape(&meta.title)
        );
        if !meta.figure.is_empty() {
            let _ = write!(out, " · reproduces {}", escape(&meta.figure));
        }
        let _ = write!(
            out,
            " · {} of network time, measured from {} to {}</p>",
            show_ns(meta.duration_ns),
            show_ns(meta.from_ns),
            show_ns(meta.until_ns)
        );
        for (note, of) in self.notes() {
            // What is true of all is said once.
            if of.len() == self.entries.len() {
                let _ = write!(out, "<p>{}</p>", escape(note));
            } else {
                let _ = write!(out, "<p>{}: {}</p>", escape(&of.join(", ")), escape(note));
            }
        }
        out.push_str(&self.table(SHOWN, false));
        let mine: Vec<&Verdict> = verdicts
            .iter()
            .filter(|v| v.scenario == meta.scenario)
            .collect();
        out.push_str(&expectations(&mine));
        for (title, plots) in self.plots() {
            let plots: String = plots.iter().filter_map(Plot::html).collect();
            if !plots.is_empty() {
                let _ = write!(out, "<h4>{title}</h4><div class=plots>\n{plots}</div>");
            }
        }
        out.push_str("<details><summary>all numbers, by group</summary>");
        out.push_str(&self.table(Metric::ALL, true));
        out.push_str("</details>");
        out
    }

    /// What sums up the runs; with `groups`, each of its groups too.
    fn table(&self, metrics: &[Metric], groups: bool) -> String {
        let has = |m: &&Metric| {
            self.entries
                .iter()
                .any(|e| e.run.summary.all.contains_key(m))
        };
        let metrics: Vec<Metric> = metrics.iter().filter(has).copied().collect();
        let mut out =
            String::from("<div class=scroll><table><thead><tr><th>congestion control</th>");
        for m in &metrics {
            let _ = write!(
                out,
                "<th title=\"{}\">{}<small>{}</small></th>",
                escape(m.what()),
                m.name().replace('_', " "),
                m.unit()
            );
        }
        out.push_str("</tr></thead><tbody>");
        let row = |out: &mut String, class: &str, name: &str, values: &BTreeMap<Metric, f64>| {
            let _ = write!(out, "<tr><td class=\"{class}\">{}</td>", escape(name));
            for m in &metrics {
                let text = values
                    .get(m)
                    .map_or_else(|| "–".into(), |v| format!("{v:.*}", m.decimals()));
                let _ = write!(out, "<td>{text}</td>");
            }
            out.push_str("</tr>");
        };
        for e in &self.entries {
            row(&mut out, "", &e.name, &e.run.summary.all);
            if groups && e.run.groups.len() > 1 {
                for name in &e.run.groups {
                    if let Some(values) = e.run.summary.groups.get(name) {
                        row(&mut out, "group", name, values);
                    }
                }
            }
        }
        out.push_str("</tbody></table></div>");
        out
    }

    /// All plots, under headings; those without data are empty.
    fn plots(&self) -> Vec<(&'static str, Vec<Plot>)> {
        let rtt = self.per_flow(Quantity::Rtt);
        let cwnd = self.per_flow(Quantity::Cwnd);
        let over_time = vec![self.line_throughput(), self.queue(), rtt, cwnd];
        let mut fairness = vec![self.jain_over_time()];
        fairness.extend(self.bars());
        fairness.push(self.start_finish());
        let mut completion = self.slowdowns();
        completion.extend([self.slowdown_cdf(), self.fct_cdf(), self.queue_cdf()]);
        vec![
            ("Over time", over_time),
            ("Shares", self.shares()),
            ("Fairness", fairness),
            ("Completion times and queues", completion),
        ]
    }

    /// What engines said of runs, and of which.
    fn notes(&self) -> Vec<(&str, Vec<&str>)> {
        let mut notes: Vec<(&str, Vec<&str>)> = Vec::new();
        for e in &self.entries {
            for note in &e.run.facts.notes {
                match notes.iter_mut().find(|(same, _)| same == note) {
                    Some((_, of)) => of.push(&e.name),
                    None => notes.push((note, vec![&e.name])),
                }
            }
        }
        notes
    }

    /// A plot over time.
    fn over_time(&self, title: &str, note: &str, y: &str, kind: Kind, items: Vec<Item>) -> Plot {
        Plot {
            title: title.into(),
            note: note.into(),
            x: (format!("time, {}", self.time.1), Kind::Linear),
            y: (y.into(), kind),
            x_end: Some(self.end),
            y_reach: None,
            y_most: None,
            items,
        }
    }

    fn in_time(&self, mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
        for p in &mut points {
            p.0 /= self.time.0;
        }
        points
    }

    fn item(&self, e: &Entry<'_>, marks: Marks) -> Item {
        Item {
            name: e.name.clone(),
            color: e.color,
            dash: e.dash,
            marks,
        }
    }

    /// One line per run.
    fn lines(&self, of: impl Fn(&Run) -> Option<Vec<(f64, f64)>>) -> Vec<Item> {
        let one = |e: &Entry<'_>| {
            let points = of(e.run)?;
            Some(self.item(e, Marks::Line(self.in_time(points))))
        };
        self.entries.iter().filter_map(one).collect()
    }

    /// The series of the line: the first port that has one.
    fn line_series(run: &Run, quantity: Quantity) -> Option<(&Series, &str)> {
        let s = series(run, quantity, |of| matches!(of, Subject::Port(_))).next()?;
        match &s.of {
            Subject::Port(name) => Some((s, name)),
            _ => None,
        }
    }

    fn line_name(&self) -> &str {
        let name = |e: &Entry<'r>| Self::line_series(e.run, Quantity::Queue).map(|l| l.1);
        self.entries.iter().find_map(name).unwrap_or("the line")
    }

    fn line_throughput(&self) -> Plot {
        let items = self
            .lines(|run| Self::line_series(run, Quantity::Throughput).map(|(s, _)| means(s, 1e-9)));
        let note = format!("all bytes on the wire at {}", self.line_name());
        self.over_time(
            "Throughput of the line",
            &note,
            "Gbit/s",
            Kind::Linear,
            items,
        )
    }

    fn queue(&self) -> Plot {
        let items = self.lines(|run| {
            let (s, name) = Self::line_series(run, Quantity::Queue)?;
            let rate = run.ports.iter().find(|p| p.name == name)?.rate_bps.max(1) as f64;
            Some(extremes(s, 8e6 / rate))
        });
        let note = format!("at {}, as the time it takes to send", self.line_name());
        self.over_time("Queue", &note, "us", spread(&items), items)
    }

    /// RTT or window, averaged over the flows that have a series.
    fn per_flow(&self, quantity: Quantity) -> Plot {
        let (title, y, scale) = match quantity {
            Quantity::Rtt => ("Round-trip time", "us", 1e-3),
            _ => ("Congestion window", "packets", 1.0),
        };
        let mut flows = 0;
        for e in &self.entries {
            flows = flows.max(series(e.run, quantity, |_| true).count());
        }
        let items = self.lines(|run| {
            let all: Vec<&Series> =
                series(run, quantity, |of| matches!(of, Subject::Flow(_))).collect();
            average(&all).map(|s| {
                if all.len() == 1 {
                    extremes(&s, scale)
                } else {
                    means(&s, scale)
                }
            })
        });
        let note = if flows == 1 {
            "of the flow".to_owned()
        } else {
            format!("mean of {flows} flows")
        };
        self.over_time(title, &note, y, spread(&items), items)
    }

    fn jain_over_time(&self) -> Plot {
        let items = self.lines(jain);
        let note = "Jain's index of the throughputs of the flows that are there; 1 is fair";
        self.over_time("Fairness", note, "Jain's index", Kind::Close, items)
    }

    /// Per run: who has how much, flow by flow or, when they are many, group by group.
    fn shares(&self) -> Vec<Plot> {
        let one = |e: &Entry<'_>| {
            let run = e.run;
            let flows: Vec<&Series> = series(run, Quantity::Throughput, |of| {
                matches!(of, Subject::Flow(_))
            })
            .collect();
            let by_flow = (2..=MANY_FLOWS).contains(&flows.len());
            let some: Vec<&Series> = if by_flow {
                flows
            } else {
                series(run, Quantity::Throughput, |of| {
                    matches!(of, Subject::Group(_))
                })
                .collect()
            };
            if some.len() < 2 {
                return None;
            }
            let name = |s: &Series| match &s.of {
                Subject::Flow(id) => run.flows.get(*id).map_or_else(
                    || format!("flow {id}"),
                    |f| {
                        let group = run.groups.get(f.group).map_or("", String::as_str);
                        format!("{group} {}→{}", f.src, f.dst)
                    },
                ),
                Subject::Group(name) | Subject::Port(name) => name.clone(),
            };
            let items = some
                .iter()
                .enumerate()
                .map(|(i, s)| Item {
                    name: name(s),
                    color: i,
                    dash: i / crate::plot::COLORS,
                    marks: Marks::Line(self.in_time(means(s, 1e-9))),
                })
                .collect();
            let what = if by_flow { "flow" } else { "group" };
            let note = format!("payload acknowledged, per {what}");
            Some(self.over_time(
                &format!("Who gets what: {}", e.name),
                &note,
                "Gbit/s",
                Kind::Linear,
                items,
            ))
        };
        let mut plots: Vec<Plot> = self.entries.iter().filter_map(one).collect();
        let values = plots.iter().flat_map(Plot::points).map(|p| p.1);
        let (high, most) = reach(values.collect());
        for plot in &mut plots {
            plot.y_reach = Some(high);
            plot.y_most = Some(high);
            let above = plot.points().filter(|p| p.1 > high).count();
            if above > 0 {
                let _ = write!(
                    plot.note,
                    "; {above} points above {} are drawn at the edge, the highest of all is {}",
                    short(high),
                    short(most)
                );
            }
        }
        plots
    }

    fn slowdowns(&self) -> Vec<Plot> {
        type Of = fn(&results::Bin) -> f64;
        let percentiles: [(&str, Of); 3] = [
            ("median", |b| b.p50),
            ("99th percentile", |b| b.p99),
            ("99.9th percentile", |b| b.p999),
        ];
        percentiles
            .into_iter()
            .map(|(name, of)| {
                let one = |e: &Entry<'_>| {
                    // A bin stands at its middle, on a logarithmic axis.
                    let middle = |b: &results::Bin| match b.max {
                        Some(max) => (max as f64 * (b.min as f64).max(max as f64 / 10.0)).sqrt(),
                        None => b.min as f64 * 1.7,
                    };
                    let bins = &e.run.summary.bins;
                    let points: Vec<(f64, f64)> = bins.iter().map(|b| (middle(b), of(b))).collect();
                    (points.len() > 1).then(|| self.item(e, Marks::Dots(points)))
                };
                Plot {
                    title: format!("Slowdown by flow size, {name}"),
                    note: "completion time over that of an empty network".into(),
                    x: ("flow size, bytes".into(), Kind::Log),
                    y: ("slowdown".into(), Kind::Log),
                    x_end: None,
                    y_reach: None,
                    y_most: None,
                    items: self.entries.iter().filter_map(one).collect(),
                }
            })
            .collect()
    }

    fn distribution(
        &self,
        title: &str,
        note: &str,
        x: (&str, Kind),
        of: impl Fn(&Run) -> Vec<f64>,
    ) -> Plot {
        let one = |e: &Entry<'_>| {
            let points = cdf(of(e.run));
            (points.len() > 1).then(|| self.item(e, Marks::Line(points)))
        };
        Plot {
            title: title.into(),
            note: note.into(),
            x: (x.0.into(), x.1),
            y: ("percent".into(), Kind::Linear),
            x_end: None,
            y_reach: None,
            y_most: None,
            items: self.entries.iter().filter_map(one).collect(),
        }
    }

    fn slowdown_cdf(&self) -> Plot {
        let of = |run: &Run| run.flows.iter().filter_map(|f| f.slowdown).collect();
        self.distribution(
            "Slowdown, distribution",
            "of all flows that finished",
            ("slowdown", Kind::Log),
            of,
        )
    }

    fn fct_cdf(&self) -> Plot {
        let of = |run: &Run| {
            run.flows
                .iter()
                .filter_map(|f| f.fct_ns)
                .map(|t| t as f64 / 1e3)
                .collect()
        };
        self.distribution(
            "Flow completion time, distribution",
            "of all flows that finished",
            ("us", Kind::Log),
            of,
        )
    }

    fn queue_cdf(&self) -> Plot {
        let note = format!("at {}, in the measured time", self.line_name());
        let kind = match self.queue().y.1 {
            Kind::Log => Kind::Log,
            _ => Kind::Linear,
        };
        self.distribution("Queue, distribution", &note, ("us", kind), |run| {
            let Some((s, name)) = Self::line_series(run, Quantity::Queue) else {
                return Vec::new();
            };
            let Some(port) = run.ports.iter().find(|p| p.name == name) else {
                return Vec::new();
            };
            let first = run.meta.from_ns.div_ceil(s.interval_ns.max(1)) as usize;
            let scale = 8e6 / port.rate_bps.max(1) as f64;
            s.values.0.iter().skip(first).map(|v| v * scale).collect()
        })
    }

    fn start_finish(&self) -> Plot {
        let one = |e: &Entry<'_>| {
            let all: Vec<(f64, f64)> = e
                .run
                .flows
                .iter()
                .filter_map(|f| {
                    Some((
                        f.start_ns as f64 / self.time.0,
                        f.finish_ns? as f64 / self.time.0,
                    ))
                })
                .collect();
            let every = all.len().div_ceil(MANY_DOTS).max(1);
            let some: Vec<(f64, f64)> = all.into_iter().step_by(every).collect();
            (some.len() > 1).then(|| self.item(e, Marks::Scatter(some)))
        };
        Plot {
            title: "Start and finish".into(),
            note: "each dot a flow; of many, every so many".into(),
            x: (format!("start, {}", self.time.1), Kind::Linear),
            y: (format!("finish, {}", self.time.1), Kind::Linear),
            x_end: None,
            y_reach: None,
            y_most: None,
            items: self.entries.iter().filter_map(one).collect(),
        }
    }

    fn bars(&self) -> Vec<Plot> {
        [
            (
                Metric::Jain,
                "Jain's index of throughputs",
                "in the measured time",
                "",
            ),
            (
                Metric::Convergence,
                "Convergence",
                "from the last start to fair shares",
                "us",
            ),
        ]
        .into_iter()
        .filter_map(|(metric, title, note, unit)| {
            let flows = self.entries.iter().map(|e| e.run.flows.len()).max()?;
            if metric == Metric::Jain && flows < 2 {
                return None;
            }
            let value = |e: &Entry<'_>| e.run.summary.all.get(&metric).copied();
            self.entries.iter().find_map(value)?;
            let one = |e: &Entry<'_>| self.item(e, Marks::Bar(value(e).unwrap_or(f64::NAN)));
            let items: Vec<Item> = self.entries.iter().map(one).collect();
            Some(Plot {
                title: title.into(),
                note: note.into(),
                x: (String::new(), Kind::Linear),
                y: (unit.into(), Kind::Linear),
                x_end: None,
                y_reach: None,
                y_most: None,
                items,
            })
        })
        .collect()
    }
}

/// Logarithmic when one line would press another flat: when their medians are far apart.
fn spread(items: &[Item]) -> Kind {
    const FAR: f64 = 20.0;
    let median = |i: &Item| match &i.marks {
        Marks::Line(points) => {
            let sorted = results::stats::sorted(points.iter().map(|p| p.1));
            results::stats::percentile(&sorted, 0.5)
        }
        _ => None,
    };
    let medians = results::stats::sorted(items.iter().filter_map(median).filter(|&m| m > 0.0));
    match (medians.first(), medians.last()) {
        (Some(low), Some(high)) if high / low > FAR => Kind::Log,
        _ => Kind::Linear,
    }
}

/// What the first table shows.
const SHOWN: &[Metric] = &[
    Metric::Throughput,
    Metric::LineShare,
    Metric::ShareMin,
    Metric::Jain,
    Metric::Convergence,
    Metric::QueueMean,
    Metric::QueueP99,
    Metric::RttMean,
    Metric::SlowdownP50,
    Metric::SlowdownP99,
    Metric::SlowdownP999,
    Metric::Completed,
    Metric::CircuitUtilisation,
    Metric::Retransmits,
    Metric::Drops,
];

/// Expectations and what came of them.
fn expectations(verdicts: &[&Verdict]) -> String {
    if verdicts.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<div class=scroll><table><thead><tr><th>expected</th><th class=t>congestion control</th><th class=t>engine</th>\
         <th>at least</th><th>at most</th><th>got</th><th class=t></th><th class=t>because</th></tr></thead><tbody>",
    );
    let bound = |b: Option<f64>| b.map_or_else(String::new, |b| b.to_string());
    for v in verdicts {
        let e = &v.expectation;
        let mut what = e
            .group
            .as_ref()
            .map_or_else(String::new, |g| format!("{g}: "));
        what.push_str(e.metric.name());
        if let Some(other) = &e.relative_to {
            let _ = write!(what, " over {other}'s");
        }
        let _ = write!(
            out,
            "<tr><td>{}</td><td class=t>{}</td><td class=t>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"t {}\">{}</td><td class=t>{}</td></tr>",
            escape(&what),
            escape(&v.cc),
            v.engine,
            bound(e.min),
            bound(e.max),
            v.value.map_or_else(|| "–".into(), |v| format!("{v:.4}")),
            if v.ok { "ok" } else { "bad" },
            if v.ok { "ok" } else { "not ok" },
            escape(&e.why)
        );
    }
    out.push_str("</tbody></table></div>");
    out
}

fn show_ns(ns: u64) -> String {
    scenario::units::show_ns(ns)
}
