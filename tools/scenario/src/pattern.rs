// SPDX-License-Identifier: GPL-2.0

//! Names of nodes and ports, by pattern: `*` is any text, `[3..7]` a number from 3 to 7.

/// Whether `name` fits `pattern`.
#[must_use]
pub fn fits(pattern: &str, name: &str) -> bool {
    if let Some(rest) = pattern.strip_prefix('*') {
        return name
            .char_indices()
            .map(|(at, _)| at)
            .chain([name.len()])
            .any(|at| fits(rest, &name[at..]));
    }
    if let Some((first, last, rest)) = range(pattern) {
        let digits = name.len() - name.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        // Greedy: a number is all of its digits.
        let number = &name[..digits];
        let plain = number == "0" || !number.starts_with('0');
        return plain
            && number
                .parse::<u64>()
                .is_ok_and(|n| (first..=last).contains(&n))
            && fits(rest, &name[digits..]);
    }
    match (pattern.chars().next(), name.chars().next()) {
        (None, None) => true,
        (Some(p), Some(n)) if p == n => fits(&pattern[p.len_utf8()..], &name[n.len_utf8()..]),
        _ => false,
    }
}

/// `[3..7]rest` as (3, 7, rest).
fn range(pattern: &str) -> Option<(u64, u64, &str)> {
    let (inside, rest) = pattern.strip_prefix('[')?.split_once(']')?;
    let (first, last) = inside.split_once("..")?;
    Some((first.trim().parse().ok()?, last.trim().parse().ok()?, rest))
}

/// The two ends of a port's pattern, and whether both directions are meant: `a->b` or `a--b`.
#[must_use]
pub fn ends(pattern: &str) -> Option<(&str, &str, bool)> {
    if let Some((a, b)) = pattern.split_once("->") {
        return Some((a.trim(), b.trim(), false));
    }
    let (a, b) = pattern.split_once("--")?;
    Some((a.trim(), b.trim(), true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(fits("h0", "h0") && !fits("h0", "h01"));
        assert!(fits("h*", "h12") && fits("*", "x") && !fits("h*", "s0"));
        assert!(fits("h[0..9]", "h7") && !fits("h[0..9]", "h10") && !fits("h[0..9]", "h07"));
        assert!(fits("h[1..2]_*", "h2_31") && !fits("h[1..2]_*", "h12_3"));
        assert!(fits("x*_[0..3]", "x1_2"));
        assert_eq!(ends("s0->h1"), Some(("s0", "h1", false)));
        assert_eq!(ends("s0 -- h1"), Some(("s0", "h1", true)));
        assert_eq!(ends("s0"), None);
    }
}
