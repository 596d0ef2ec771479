// SPDX-License-Identifier: GPL-2.0
//! Reads KTAP, the kernel's test protocol, from a console.

/// What a run of tests came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed, and those that never reported.
    pub failed: usize,
    /// Tests that could not run.
    pub skipped: usize,
}

impl Summary {
    /// Reads the results of a console's lines. Tests that were announced and did not report have failed,
    /// and so has a run that announced none.
    pub fn of<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        let mut summary = Self::default();
        let mut planned = 0;
        for line in lines {
            let line = line.trim();
            if let Some(n) = line
                .strip_prefix("1..")
                .and_then(|n| n.parse::<usize>().ok())
            {
                planned = n;
            } else if line.starts_with("not ok ") {
                summary.failed += 1;
            } else if line.starts_with("ok ") {
                if line.contains("# SKIP") {
                    summary.skipped += 1;
                } else {
                    summary.passed += 1;
                }
            }
        }
        let reported = summary.passed + summary.failed + summary.skipped;
        summary.failed += planned.saturating_sub(reported);
        if planned == 0 {
            summary.failed += 1;
        }
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_dies_has_failed() {
        let died = "KTAP version 1\n1..3\nok 1 a\nok 2 b # SKIP no device\n[ 1.0] Kernel panic";
        assert_eq!(
            Summary::of(died.lines()),
            Summary {
                passed: 1,
                failed: 1,
                skipped: 1
            }
        );
        assert_eq!(Summary::of("no tests here".lines()).failed, 1);
    }

    #[test]
    fn failures_are_counted() {
        let run = "1..2\nok 1 a\n# why\nnot ok 2 b";
        assert_eq!(
            Summary::of(run.lines()),
            Summary {
                passed: 1,
                failed: 1,
                skipped: 0
            }
        );
    }
}
