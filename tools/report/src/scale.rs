// SPDX-License-Identifier: GPL-2.0

//! Axes: from numbers to places, with ticks that people would choose.

/// How far above its last tick an evenly running axis may be drawn, as a part of it.
const ABOVE: f64 = 0.03;

/// How an axis runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Evenly, from zero when all is above it.
    Linear,
    /// Evenly, over what there is.
    Close,
    /// By powers of ten.
    Log,
}

/// An axis over some numbers.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
    /// Where ticks are, and what stands there.
    pub(crate) ticks: Vec<(f64, String)>,
}

impl Scale {
    /// An axis that holds `values`, with about `ticks` ticks. None when there is nothing to show.
    pub(crate) fn new(kind: Kind, values: impl Iterator<Item = f64>, ticks: usize) -> Option<Self> {
        let fits = |v: &f64| v.is_finite() && (kind != Kind::Log || *v > 0.0);
        let (low, high) = values
            .filter(fits)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
                (l.min(v), h.max(v))
            });
        if low > high {
            return None;
        }
        Some(match kind {
            Kind::Log => Self::log(low, high),
            Kind::Linear if low >= 0.0 => Self::even(kind, 0.0, high, ticks),
            _ => Self::even(kind, low, high, ticks),
        })
    }

    /// Ends exactly at `high` rather than at the next tick: time does.
    pub(crate) fn ending_at(mut self, high: f64) -> Self {
        self.high = high;
        self.ticks.retain(|t| t.0 <= high * (1.0 + 1e-9));
        self
    }

    fn even(kind: Kind, low: f64, high: f64, ticks: usize) -> Self {
        let high = if high > low {
            high
        } else {
            low + low.abs().max(1.0)
        };
        // A line of 10 that touches 10.1 does not want an axis to 15: what is a little above the last
        // tick is drawn in the margin.
        let step = nice((high - low) / ticks.max(1) as f64 / (1.0 + ABOVE));
        let covered = high - ABOVE * (high - low);
        let (first, last) = ((low / step).floor(), (covered / step - 1e-9).ceil());
        let last = last.max(first + 1.0);
        let decimals = (-step.log10().floor()).max(0.0) as usize;
        let at = |i: i64| i as f64 * step;
        let ticks =
            (first as i64..=last as i64).map(|i| (at(i), format!("{:.decimals$}", at(i) + 0.0)));
        Self {
            kind,
            low: first * step,
            high: last * step,
            ticks: ticks.collect(),
        }
    }

    fn log(low: f64, high: f64) -> Self {
        let (first, last) = (
            low.log10().floor() as i32,
            (high.log10() - 1e-9).ceil() as i32,
        );
        // Within one or two decades, 2 and 5 help; over many, every decade is too much.
        let (first, last) = (first, last.max(first + 1));
        let every = ((last - first) / 7 + 1).max(1);
        let mut low_end = 10f64.powi(first);
        let mut high_end = 10f64.powi(last);
        let mut ticks: Vec<(f64, String)> = Vec::new();
        for decade in first..=last {
            let steps: &[f64] = if last - first <= 2 {
                &[1.0, 2.0, 5.0]
            } else {
                &[1.0]
            };
            for m in steps {
                let at = m * 10f64.powi(decade);
                if (decade - first) % every == 0 && at <= 10f64.powi(last) {
                    ticks.push((at, short(at)));
                }
            }
        }
        if last - first <= 2 {
            // Cut off the part of the first and last decade that is empty.
            low_end = ticks
                .iter()
                .map(|t| t.0)
                .filter(|&t| t <= low)
                .fold(low_end, f64::max);
            high_end = ticks
                .iter()
                .map(|t| t.0)
                .filter(|&t| t >= high)
                .fold(high_end, f64::min);
            if low_end >= high_end {
                high_end = low_end * 10.0;
            }
            ticks.retain(|t| t.0 >= low_end && t.0 <= high_end);
        }
        Self {
            kind: Kind::Log,
            low: low_end,
            high: high_end,
            ticks,
        }
    }

    /// Where `value` is, 0 to 1; outside when it is.
    pub(crate) fn place(&self, value: f64) -> f64 {
        match self.kind {
            Kind::Log => {
                let value = value.max(self.low);
                (value / self.low).ln() / (self.high / self.low).ln()
            }
            _ => (value - self.low) / (self.high - self.low),
        }
    }
}

/// The least of 1, 2, 5 times a power of ten that is not below `x`.
fn nice(x: f64) -> f64 {
    let power = 10f64.powf(x.log10().floor());
    let m = x / power;
    let m = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|n| m <= n + 1e-9)
        .unwrap_or(10.0);
    m * power
}

/// A number in few characters: 20k, 1.5M.
pub(crate) fn short(x: f64) -> String {
    let (x, unit) = match x.abs() {
        a if a >= 1e9 => (x / 1e9, "G"),
        a if a >= 1e6 => (x / 1e6, "M"),
        a if a >= 1e3 => (x / 1e3, "k"),
        _ => (x, ""),
    };
    let text = format!("{x:.3}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(s: &Scale) -> Vec<&str> {
        s.ticks.iter().map(|t| t.1.as_str()).collect()
    }

    #[test]
    fn ticks_are_those_people_choose() {
        let s = Scale::new(Kind::Linear, [3.0, 9.4].into_iter(), 5).unwrap();
        assert_eq!(labels(&s), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!((s.place(0.0), s.place(10.0), s.place(5.0)), (0.0, 1.0, 0.5));
        let s = Scale::new(Kind::Linear, [10.1].into_iter(), 5).unwrap();
        assert_eq!(labels(&s), ["0", "2", "4", "6", "8", "10"]);
        let s = Scale::new(Kind::Close, [0.93, 0.99].into_iter(), 4).unwrap();
        assert_eq!(labels(&s), ["0.92", "0.94", "0.96", "0.98", "1.00"]);
        let s = Scale::new(Kind::Log, [3.0, 40_000.0].into_iter(), 5).unwrap();
        assert_eq!(labels(&s), ["1", "10", "100", "1k", "10k", "100k"]);
        let s = Scale::new(Kind::Log, [1.2, 8.0].into_iter(), 5).unwrap();
        assert_eq!(labels(&s), ["1", "2", "5", "10"]);
        assert!((s.place(10f64.sqrt()) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn nothing_and_strange_numbers() {
        assert!(Scale::new(Kind::Linear, std::iter::empty(), 5).is_none());
        assert!(Scale::new(Kind::Linear, [f64::NAN].into_iter(), 5).is_none());
        assert!(Scale::new(Kind::Log, [0.0, -1.0].into_iter(), 5).is_none());
        for values in [
            [0.0, 0.0],
            [5.0, 5.0],
            [-3.0, 2.0],
            [1e-12, 1e-12],
            [1e18, 1e18],
        ] {
            for kind in [Kind::Linear, Kind::Close, Kind::Log] {
                let Some(s) = Scale::new(kind, values.into_iter(), 5) else {
                    continue;
                };
                assert!(
                    s.ticks.len() >= 2 && s.ticks.len() < 20,
                    "{values:?} {kind:?}: {:?}",
                    s.ticks
                );
                assert!(s.place(values[0]).is_finite());
            }
        }
    }
}
