// SPDX-License-Identifier: GPL-2.0

//! From results to the points of plots.

use crate::plot::STEPS;
use results::{Quantity, Run, Series, Subject};

/// The series of a run that fit.
pub(crate) fn series<'r>(
    run: &'r Run,
    quantity: Quantity,
    fits: impl Fn(&Subject) -> bool + 'r,
) -> impl Iterator<Item = &'r Series> + 'r {
    run.series
        .iter()
        .filter(move |s| s.quantity == quantity && fits(&s.of))
}

/// Few enough points for a drawing, each a mean: for rates, whose sum must stay what it is.
pub(crate) fn means(s: &Series, scale: f64) -> Vec<(f64, f64)> {
    let values = &s.values.0;
    let per = values.len().div_ceil(STEPS).max(1);
    values
        .chunks(per)
        .enumerate()
        .map(|(i, chunk)| {
            let there: Vec<f64> = chunk.iter().copied().filter(|v| !v.is_nan()).collect();
            let middle = (i * per) as f64 + (chunk.len() - 1) as f64 / 2.0;
            let mean = results::stats::mean(&there).unwrap_or(f64::NAN);
            (middle * s.interval_ns as f64, mean * scale)
        })
        .collect()
}

/// Few enough points for a drawing, the least and the largest of each step: for queues, whose peaks
/// must not get lost.
pub(crate) fn extremes(s: &Series, scale: f64) -> Vec<(f64, f64)> {
    let values = &s.values.0;
    let at = |i: usize| (i as f64 * s.interval_ns as f64, values[i] * scale);
    if values.len() <= 2 * STEPS {
        return (0..values.len()).map(at).collect();
    }
    let per = values.len().div_ceil(STEPS);
    let mut points = Vec::with_capacity(2 * STEPS);
    for first in (0..values.len()).step_by(per) {
        let range = first..(first + per).min(values.len());
        let there = || range.clone().filter(|&i| !values[i].is_nan());
        let by = |a: &usize, b: &usize| values[*a].total_cmp(&values[*b]);
        match (there().min_by(by), there().max_by(by)) {
            (Some(low), Some(high)) if low == high => points.push(at(low)),
            (Some(low), Some(high)) => points.extend([at(low.min(high)), at(low.max(high))]),
            _ => points.push((at(first).0, f64::NAN)),
        }
    }
    points
}

/// The mean of several series, sample by sample, of those that have one.
pub(crate) fn average(all: &[&Series]) -> Option<Series> {
    let first = *all.first()?;
    let count = all.iter().map(|s| s.values.0.len()).max()?;
    let values = (0..count).map(|k| {
        let there: Vec<f64> = all
            .iter()
            .filter_map(|s| s.values.0.get(k).copied())
            .filter(|v| !v.is_nan())
            .collect();
        results::stats::mean(&there).unwrap_or(f64::NAN)
    });
    Some(Series {
        values: results::Values(values.collect()),
        ..first.clone()
    })
}

/// Jain's index over time, of the flows that are there, in eighty windows. None
/// with fewer than two flows.
pub(crate) fn jain(run: &Run) -> Option<Vec<(f64, f64)>> {
    const WINDOWS: usize = 80;
    let flows: Vec<(&Series, u64, u64)> = series(run, Quantity::Throughput, |of| {
        matches!(of, Subject::Flow(_))
    })
    .filter_map(|s| {
        let Subject::Flow(id) = s.of else { return None };
        let flow = run.flows.get(id)?;
        Some((
            s,
            flow.start_ns,
            flow.finish_ns
                .or(flow.stop_ns)
                .unwrap_or(run.meta.duration_ns),
        ))
    })
    .collect();
    let (first, ..) = flows.first()?;
    let count = first.values.0.len();
    let per = count.div_ceil(WINDOWS).max(1);
    let mut points = Vec::new();
    for from in (1..count).step_by(per) {
        let to = (from + per).min(count);
        let at = |k: usize| k as u64 * first.interval_ns;
        let got: Vec<f64> = flows
            .iter()
            .filter(|(_, start, end)| *start <= at(from - 1) && *end >= at(to - 1))
            .map(|(s, ..)| {
                s.values.0[from..to.min(s.values.0.len())]
                    .iter()
                    .sum::<f64>()
            })
            .collect();
        let value = if got.len() >= 2 {
            results::stats::jain(&got).unwrap_or(f64::NAN)
        } else {
            f64::NAN
        };
        points.push(((at(from - 1) + at(to - 1)) as f64 / 2.0, value));
    }
    points.iter().any(|p| !p.1.is_nan()).then_some(points)
}

/// Values so many times above the 99th percentile are spikes.
const SPIKE: f64 = 1.5;
/// Where there are spikes, an axis ends so far above the 99th percentile.
const ROOM: f64 = 1.1;

/// How far an axis for `values` reaches, and the largest of them. Spikes do not count: they would leave all others
/// no room.
pub(crate) fn reach(mut values: Vec<f64>) -> (f64, f64) {
    values.retain(|v| v.is_finite());
    values.sort_by(f64::total_cmp);
    let most = values.last().copied().unwrap_or(0.0);
    let rank = (values.len() * 99).div_ceil(100).saturating_sub(1);
    let p99 = values.get(rank).copied().unwrap_or(0.0);
    if p99 > 0.0 && most > SPIKE * p99 {
        (ROOM * p99, most)
    } else {
        (most, most)
    }
}

/// The cumulative distribution of numbers, in percent: fine where the tail is.
pub(crate) fn cdf(values: impl IntoIterator<Item = f64>) -> Vec<(f64, f64)> {
    let sorted = results::stats::sorted(values);
    if sorted.is_empty() {
        return Vec::new();
    }
    let n = sorted.len();
    let place = |i: usize| (sorted[i], 100.0 * (i + 1) as f64 / n as f64);
    if n <= STEPS {
        return (0..n).map(place).collect();
    }
    let mut at: Vec<usize> = (0..STEPS).map(|i| i * (n - 1) / (STEPS - 1)).collect();
    at.dedup();
    at.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_leaves_spikes_out() {
        let mut values: Vec<f64> = (0..1000).map(|i| 9.0 + f64::from(i % 10) / 10.0).collect();
        assert_eq!(reach(values.clone()), (9.9, 9.9));
        values[500] = f64::NAN;
        values[501] = 200.0;
        let (high, most) = reach(values);
        assert!((high - 1.1 * 9.9).abs() < 1e-9 && most == 200.0, "{high}");
        // What is no exception is shown.
        assert_eq!(reach(vec![1.0, 1.0, 5.0]), (5.0, 5.0));
        assert_eq!(reach(vec![0.0, 0.0]), (0.0, 0.0));
        assert_eq!(reach(Vec::new()), (0.0, 0.0));
    }
    use results::Values;

    fn of(values: Vec<f64>) -> Series {
        Series {
            quantity: Quantity::Queue,
            of: Subject::Port("s->h".into()),
            interval_ns: 10,
            values: Values(values),
        }
    }

    #[test]
    fn a_peak_survives_and_a_mean_stays() {
        let mut values = vec![1.0; 100_000];
        values[77_777] = 1e6;
        let s = of(values);
        let points = extremes(&s, 2.0);
        assert!(points.len() <= 2 * STEPS);
        assert!(points.iter().any(|p| p.1 == 2e6 && p.0 == 777_770.0));
        assert!(points.windows(2).all(|w| w[0].0 < w[1].0));
        let points = means(&s, 1.0);
        assert!(points.len() <= STEPS);
        let mean = points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64;
        assert!((mean - 11.0).abs() < 0.1, "{mean}");
    }

    #[test]
    fn gaps_stay_gaps() {
        let s = of(vec![f64::NAN; 1000]);
        assert!(extremes(&s, 1.0).iter().all(|p| p.1.is_nan()));
        assert!(means(&s, 1.0).iter().all(|p| p.1.is_nan()));
        assert!(average(&[&s, &of(vec![1.0; 2000])])
            .unwrap()
            .values
            .0
            .iter()
            .all(|&v| v == 1.0));
        assert!(average(&[]).is_none());
    }

    #[test]
    fn a_distribution_ends_at_a_hundred() {
        let points = cdf((0..10_000).map(f64::from));
        assert!(points.len() <= STEPS);
        assert_eq!(points.last(), Some(&(9999.0, 100.0)));
        assert!(cdf([]).is_empty());
    }
}
