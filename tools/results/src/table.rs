// SPDX-License-Identifier: GPL-2.0

//! Results as tables for a terminal.

use crate::check::Verdict;
use crate::compare::Comparison;
use crate::run::Run;
use comfy_table::{presets::UTF8_HORIZONTAL_ONLY, CellAlignment, Table, TableComponent};
use scenario::Metric;

/// A table with a line under its header and none between rows; all columns but the first
/// `text_columns` are numbers.
#[must_use]
pub fn plain_table(header: Vec<String>, text_columns: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    for line in [
        TableComponent::HorizontalLines,
        TableComponent::MiddleIntersections,
        TableComponent::LeftBorderIntersections,
        TableComponent::RightBorderIntersections,
    ] {
        table.remove_style(line);
    }
    table.set_header(header);
    for column in table.column_iter_mut().skip(text_columns) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A number as tables show it.
fn number(metric: Metric, value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), |v| format!("{v:.*}", metric.decimals()))
}

/// What a table shows of a run: what sums it up best among what it has.
const SHOWN: &[Metric] = &[
    Metric::Throughput,
    Metric::LineShare,
    Metric::ShareMin,
    Metric::Jain,
    Metric::JainStepMin,
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

/// One line per run, and one per group where a scenario has several.
#[must_use]
pub fn table(runs: &[Run]) -> Table {
    let has = |m: &Metric| runs.iter().any(|r| r.summary.all.contains_key(m));
    let metrics: Vec<Metric> = SHOWN.iter().copied().filter(has).collect();
    let mut header = vec!["congestion control".to_owned(), "engine".into()];
    header.extend(metrics.iter().map(|m| {
        let name = m.name().replace('_', " ");
        match m.unit() {
            "" => name,
            unit => format!("{name}\n{unit}"),
        }
    }));
    let mut table = plain_table(header, 2);
    for run in runs {
        let line =
            |name: String, engine: String, values: &std::collections::BTreeMap<Metric, f64>| {
                let mut row = vec![name, engine];
                row.extend(metrics.iter().map(|m| number(*m, values.get(m).copied())));
                row
            };
        table.add_row(line(
            run.meta.cc.clone(),
            run.meta.engine.to_string(),
            &run.summary.all,
        ));
        if run.groups.len() > 1 {
            for group in &run.groups {
                if let Some(values) = run.summary.groups.get(group) {
                    table.add_row(line(format!("  {group}"), String::new(), values));
                }
            }
        }
    }
    table
}

/// Two runs side by side.
#[must_use]
pub fn compare_table(c: &Comparison) -> Table {
    let header = ["metric", "unit", &c.a, &c.b, "difference"].map(str::to_owned);
    let mut table = plain_table(header.to_vec(), 2);
    for d in &c.differences {
        let name = match &d.group {
            None => d.metric.name().to_owned(),
            Some(group) => format!("{group}: {}", d.metric.name()),
        };
        table.add_row([
            name,
            d.metric.unit().to_owned(),
            number(d.metric, Some(d.a)),
            number(d.metric, Some(d.b)),
            format!("{:+.1} %", d.relative * 100.0),
        ]);
    }
    table
}

/// Expectations and what came of them.
#[must_use]
pub fn verdict_table(verdicts: &[Verdict]) -> Table {
    let header = [
        "",
        "congestion control",
        "engine",
        "expected",
        "got",
        "because",
    ];
    let mut table = plain_table(header.map(str::to_owned).to_vec(), 4);
    for v in verdicts {
        let e = &v.expectation;
        let mut what = e.group.as_ref().map_or(String::new(), |g| format!("{g}: "));
        what.push_str(e.metric.name());
        if let Some(other) = &e.relative_to {
            what.push_str(&format!(" over {other}'s"));
        }
        if let Some(min) = e.min {
            what.push_str(&format!(" ≥ {min}"));
        }
        if let Some(max) = e.max {
            what.push_str(&format!(" ≤ {max}"));
        }
        table.add_row([
            if v.ok { "ok" } else { "NOT OK" }.to_owned(),
            v.cc.clone(),
            v.engine.to_string(),
            what,
            v.value.map_or_else(|| "–".into(), |v| format!("{v:.4}")),
            e.why.clone(),
        ]);
    }
    if let Some(because) = table.column_mut(5) {
        because.set_cell_alignment(CellAlignment::Left);
    }
    table
}
