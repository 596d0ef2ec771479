// SPDX-License-Identifier: GPL-2.0

//! Two runs side by side: the metrics that both have, and by how much they differ.

use crate::run::Run;
use scenario::Metric;

/// Two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// How the first is called.
    pub a: String,
    /// How the second is called.
    pub b: String,
    /// Metric by metric.
    pub differences: Vec<Difference>,
}

/// One metric of one group in two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The group; none = all flows.
    pub group: Option<String>,
    /// The metric.
    pub metric: Metric,
    /// In the first run.
    pub a: f64,
    /// In the second.
    pub b: f64,
    /// The second less the first, over the larger of the two; 0 when both are.
    pub relative: f64,
}

/// Compares two runs. Groups are shown when there is more than one.
#[must_use]
pub fn compare(a: &Run, b: &Run) -> Comparison {
    let mut differences = Vec::new();
    let mut side = |group: Option<&String>,
                    x: &std::collections::BTreeMap<Metric, f64>,
                    y: &std::collections::BTreeMap<Metric, f64>| {
        for metric in Metric::ALL {
            let (Some(&a), Some(&b)) = (x.get(metric), y.get(metric)) else {
                continue;
            };
            differences.push(Difference {
                group: group.cloned(),
                metric: *metric,
                a,
                b,
                relative: relative(a, b),
            });
        }
    };
    side(None, &a.summary.all, &b.summary.all);
    if a.groups.len() > 1 {
        for (name, x) in &a.summary.groups {
            if let Some(y) = b.summary.groups.get(name) {
                side(Some(name), x, y);
            }
        }
    }
    Comparison {
        a: a.label(),
        b: b.label(),
        differences,
    }
}

/// `b` less `a`, over the larger of the two.
#[must_use]
fn relative(a: f64, b: f64) -> f64 {
    let scale = a.abs().max(b.abs());
    if scale == 0.0 {
        0.0
    } else {
        (b - a) / scale
    }
}
