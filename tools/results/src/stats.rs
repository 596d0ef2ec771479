// SPDX-License-Identifier: GPL-2.0

//! Small statistics, each with its definition.

/// The smallest value that at least a share `q` (0 to 1) of `sorted` does not exceed (nearest rank);
/// none of nothing.
#[must_use]
pub fn percentile(sorted: &[f64], q: f64) -> Option<f64> {
    let rank = (q.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Sorts numbers, NaN left out.
#[must_use]
pub fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut all: Vec<f64> = values.into_iter().filter(|v| !v.is_nan()).collect();
    all.sort_by(f64::total_cmp);
    all
}

/// Arithmetic mean; none of nothing.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Jain's index, (Σx)²/(n Σx²): 1 when all are equal, 1/n when one has everything; none of nothing.
/// When nobody has anything, all are equal.
#[must_use]
pub fn jain(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|x| x * x).sum();
    match values.len() {
        0 => None,
        _ if squares == 0.0 => Some(1.0),
        n => Some(sum * sum / (n as f64 * squares)),
    }
}

/// Standard deviation (of all, not of a sample) over mean; none of nothing or when the mean is 0.
#[must_use]
pub fn variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|&m| m != 0.0)?;
    let square: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
    Some((square / values.len() as f64).sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions() {
        let s = sorted((1..=100).map(f64::from));
        assert_eq!(percentile(&s, 0.5), Some(50.0));
        assert_eq!(percentile(&s, 0.99), Some(99.0));
        assert_eq!(percentile(&s, 0.999), Some(100.0));
        assert_eq!(percentile(&s, 0.0), Some(1.0));
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(sorted([2.0, f64::NAN, 1.0]), [1.0, 2.0]);
        assert_eq!(jain(&[1.0, 1.0, 1.0]), Some(1.0));
        assert_eq!(jain(&[3.0, 0.0, 0.0]), Some(1.0 / 3.0));
        assert_eq!(jain(&[0.0, 0.0]), Some(1.0));
        assert_eq!(jain(&[]), None);
        assert_eq!(variation(&[1.0, 3.0]), Some(0.5));
        assert_eq!(variation(&[0.0]), None);
    }
}
