// SPDX-License-Identifier: GPL-2.0
//! Values counted by size, to within 1.6 %: 64 classes per octave, only those that occur.

/// Log2 of the classes per octave.
const SHIFT: u32 = 6;

/// Weights by value.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// The class of the first place.
    first: u32,
    weights: Vec<u64>,
    total: u64,
    /// Sum of value times weight, for the mean.
    sum: u128,
    least: Option<u64>,
}

fn class(value: u64) -> u32 {
    let octave = 63 - (value | 1).leading_zeros();
    if octave < SHIFT {
        return value as u32;
    }
    let below = octave - SHIFT;
    (below << SHIFT) + (value >> below) as u32
}

/// The middle of a class.
fn value(class: u32) -> u64 {
    if class < 2 << SHIFT {
        return u64::from(class);
    }
    let below = (class >> SHIFT) - 1;
    let low = u64::from(class - (below << SHIFT)) << below;
    low + (1 << below) / 2
}

impl Histogram {
    /// Counts `value`, `weight` times.
    #[inline]
    pub fn add(&mut self, value: u64, weight: u64) {
        let class = class(value);
        if self.weights.is_empty() {
            self.first = class;
        } else if class < self.first {
            let more = (self.first - class) as usize;
            self.weights.splice(0..0, std::iter::repeat_n(0, more));
            self.first = class;
        }
        let place = (class - self.first) as usize;
        if place >= self.weights.len() {
            self.weights.resize(place + 1, 0);
        }
        self.weights[place] += weight;
        self.total += weight;
        self.sum += u128::from(value) * u128::from(weight);
        self.least = Some(self.least.map_or(value, |least| least.min(value)));
    }

    /// The value that `part` of `whole` do not exceed; 0 when there is none.
    #[must_use]
    pub fn quantile(&self, part: u64, whole: u64) -> u64 {
        let wanted = (u128::from(self.total) * u128::from(part)).div_ceil(u128::from(whole.max(1)));
        let mut seen = 0;
        for (place, &weight) in self.weights.iter().enumerate() {
            seen += u128::from(weight);
            if seen >= wanted && weight > 0 {
                return value(self.first + place as u32);
            }
        }
        0
    }

    /// The mean; 0 when there is none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.total == 0 {
            0.0
        } else {
            self.sum as f64 / self.total as f64
        }
    }

    /// The sum of the weights.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The least value.
    #[must_use]
    pub fn least(&self) -> Option<u64> {
        self.least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_within_their_promise() {
        for v in (0..100_000).chain([1 << 40, u64::MAX / 3, u64::MAX]) {
            let back = value(class(v));
            assert!(back.abs_diff(v) <= v / 100, "{v} became {back}");
        }
    }

    #[test]
    fn quantiles() {
        let mut h = Histogram::default();
        for v in (1..=1000u64).rev() {
            h.add(v, 2);
        }
        assert_eq!(h.count(), 2000);
        assert!((h.mean() - 500.5).abs() < 1e-9);
        assert!(h.quantile(99, 100).abs_diff(990) <= 10);
        assert!(h.quantile(1, 2).abs_diff(500) <= 5);
        assert_eq!(h.least(), Some(1));
    }
}
