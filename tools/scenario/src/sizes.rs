// SPDX-License-Identifier: GPL-2.0

//! Distributions of flow sizes.

use serde::Deserialize;

/// The distributions that every scenario can name.
pub const NAMED: [(&str, &str); 3] = [
    (
        "web_search",
        include_str!("../../../scenarios/sizes/web_search.toml"),
    ),
    (
        "storage",
        include_str!("../../../scenarios/sizes/storage.toml"),
    ),
    (
        "hadoop",
        include_str!("../../../scenarios/sizes/hadoop.toml"),
    ),
];

/// A cumulative distribution by points, linear between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    /// Bytes, and the share of flows up to that size.
    points: Vec<(f64, f64)>,
}

/// A file with a distribution.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    points: Vec<(f64, f64)>,
}

impl Sizes {
    /// From points of bytes and cumulative percent.
    ///
    /// # Errors
    /// When they are no distribution.
    pub fn new(points: &[(f64, f64)]) -> Result<Self, String> {
        let Some(&(_, last)) = points.last() else {
            return Err("a size distribution needs at least one point".into());
        };
        if last != 100.0 {
            return Err(format!(
                "a size distribution ends at 100 percent, and this one at {last}"
            ));
        }
        let mut all = vec![(1.0, 0.0)];
        for &(bytes, percent) in points {
            let (before, below) = all[all.len() - 1];
            let share = percent / 100.0;
            if !(bytes >= before && share >= below && bytes <= 1e15) {
                return Err(format!(
                    "the point [{bytes}, {percent}] is not above the one before it: sizes (from 1 to 1e15) and percents both rise"
                ));
            }
            all.push((bytes, share));
        }
        Ok(Self { points: all })
    }

    /// From the text of a file.
    ///
    /// # Errors
    /// When it is not TOML with `points`, or they are no distribution.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
        Self::new(&file.points)
    }

    /// The mean, bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let part = |w: &[(f64, f64)]| (w[1].1 - w[0].1) * (w[0].0 + w[1].0) / 2.0;
        self.points.windows(2).map(part).sum()
    }

    /// The size below which a share `u` (0 to 1) of flows is, bytes; at least 1.
    #[must_use]
    pub fn quantile(&self, u: f64) -> u64 {
        let at = self.points.partition_point(|&(_, share)| share < u);
        let (high, above) = self.points[at.min(self.points.len() - 1)];
        let (low, below) = self.points[at.saturating_sub(1)];
        let span = above - below;
        let part = if span > 0.0 { (u - below) / span } else { 1.0 };
        (low + (high - low) * part).round().max(1.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_search_has_its_published_shape() {
        let sizes = Sizes::parse(NAMED[0].1).unwrap();
        assert_eq!(sizes.quantile(0.15), 10_000);
        assert_eq!(sizes.quantile(0.53), 80_000);
        assert_eq!(sizes.quantile(1.0), 30_000_000);
        assert_eq!(sizes.quantile(0.0), 1);
        // By hand, from the points: 1.71 MB.
        assert!((sizes.mean() / 1e6 - 1.71).abs() < 0.02, "{}", sizes.mean());
    }

    #[test]
    fn all_named_ones_are_distributions() {
        for (name, text) in NAMED {
            let sizes = Sizes::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            // The mean by quantiles agrees with the mean by formula.
            let n = 100_000;
            let sum: f64 = (0..n)
                .map(|i| sizes.quantile((f64::from(i) + 0.5) / f64::from(n)) as f64)
                .sum();
            assert!(
                (sum / f64::from(n) / sizes.mean() - 1.0).abs() < 0.01,
                "{name}"
            );
        }
    }

    #[test]
    fn what_is_no_distribution() {
        assert!(Sizes::new(&[]).is_err());
        assert!(Sizes::new(&[(10.0, 50.0)])
            .unwrap_err()
            .contains("ends at 100"));
        assert!(Sizes::new(&[(10.0, 50.0), (5.0, 100.0)])
            .unwrap_err()
            .contains("[5, 100]"));
        assert!(Sizes::new(&[(f64::NAN, 50.0), (5.0, 100.0)]).is_err());
    }
}
