// SPDX-License-Identifier: GPL-2.0
//! Numbers with units, as `tc` writes them: `10gbit`, `5us`, `1mb`, and `65pkt` for full-size packets.

/// What a number counts. Values are in the unit of the netlink attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes a second; people say bits.
    Rate,
    /// Nanoseconds.
    Time,
    /// Bytes; `kb` and so on are powers of 1024, as in `tc`.
    Size,
    /// On or off.
    Switch,
    /// A plain number.
    Count,
}

/// A full-size packet as Linux counts it: 1500 bytes and the Ethernet header.
pub const PACKET: u64 = 1514;

impl Unit {
    /// Names of the units and what one is, as a numerator and a denominator; the first is meant when there
    /// is none, largest last.
    fn names(self) -> &'static [(&'static str, u64, u64)] {
        match self {
            Self::Rate => &[
                ("bit", 1, 8),
                ("kbit", 1_000, 8),
                ("mbit", 1_000_000, 8),
                ("gbit", 1_000_000_000, 8),
                ("tbit", 1_000_000_000_000, 8),
            ],
            Self::Time => &[
                ("ns", 1, 1),
                ("us", 1_000, 1),
                ("ms", 1_000_000, 1),
                ("s", 1_000_000_000, 1),
            ],
            Self::Size => &[
                ("b", 1, 1),
                ("kb", 1 << 10, 1),
                ("mb", 1 << 20, 1),
                ("gb", 1 << 30, 1),
            ],
            Self::Switch | Self::Count => &[("", 1, 1)],
        }
    }

    /// What a value looks like, for messages.
    #[must_use]
    pub fn example(self) -> &'static str {
        match self {
            Self::Rate => "a rate such as 10gbit, 2.5gbit or 800mbit",
            Self::Time => "a time such as 5us, 1.5ms or 800ns",
            Self::Size => "a size such as 1mb, 64kb, 1514b or 65pkt",
            Self::Switch => "on or off",
            Self::Count => "a number",
        }
    }

    /// The value of a text.
    ///
    /// # Errors
    ///
    /// What was expected.
    pub fn parse(self, text: &str) -> Result<u64, String> {
        let wrong = || format!("{text:?} is not {}", self.example());
        if self == Self::Switch {
            return match text {
                "on" | "1" => Ok(1),
                "off" | "0" => Ok(0),
                _ => Err(wrong()),
            };
        }
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let unit = unit.to_ascii_lowercase();
        let (scale, per) = if self == Self::Size && unit == "pkt" {
            (PACKET, 1)
        } else if unit.is_empty() && matches!(self, Self::Rate | Self::Time) && number != "0" {
            // A number alone could be anything.
            return Err(wrong());
        } else {
            let (_, scale, per) = *self
                .names()
                .iter()
                .find(|(name, ..)| unit == *name || unit.is_empty())
                .ok_or_else(wrong)?;
            (scale, per)
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let digits = format!("{whole}{part}");
        if digits.is_empty() || part.contains('.') || part.len() > 12 {
            return Err(wrong());
        }
        let value = digits
            .parse::<u128>()
            .ok()
            .and_then(|n| n.checked_mul(scale.into()))
            .ok_or_else(|| format!("{text:?} is too large"))?;
        let by = 10u128.pow(part.len() as u32) * u128::from(per);
        if value % by != 0 && self != Self::Rate {
            return Err(format!(
                "{text:?} is not a whole number of {}",
                self.names()[0].0
            ));
        }
        // What is not nothing must not become 0, which means something else.
        u64::try_from((value / by).max(u128::from(value != 0)))
            .map_err(|_| format!("{text:?} is too large"))
    }

    /// A value as people write it: in the largest unit of which it is at least one, without rounding.
    #[must_use]
    pub fn format(self, value: u64) -> String {
        if self == Self::Switch {
            return if value == 0 { "off" } else { "on" }.into();
        }
        if value == 0 {
            return "0".into();
        }
        let (name, scale, per) = *self
            .names()
            .iter()
            .rev()
            .find(|(_, scale, per)| {
                let value = u128::from(value) * u128::from(*per);
                // Powers of 1024 have no short decimal fractions: whole ones alone.
                value >= u128::from(*scale)
                    && (self != Self::Size || value % u128::from(*scale) == 0)
            })
            .unwrap_or(&self.names()[0]);
        let value = u128::from(value) * u128::from(per);
        let (whole, mut rest) = (value / u128::from(scale), value % u128::from(scale));
        let mut text = whole.to_string();
        if rest != 0 {
            text.push('.');
        }
        while rest != 0 {
            rest *= 10;
            text.push(char::from(b'0' + (rest / u128::from(scale)) as u8));
            rest %= u128::from(scale);
        }
        text + name
    }
}

#[cfg(test)]
mod tests {
    use super::Unit::{self, Count, Rate, Size, Switch, Time};

    #[test]
    fn people_write_units() {
        for (unit, text, value) in [
            (Rate, "10gbit", 1_250_000_000),
            (Rate, "2.5Gbit", 312_500_000),
            (Rate, "8kbit", 1000),
            (Rate, "0", 0),
            (Rate, "1bit", 1),
            (Time, "5us", 5000),
            (Time, "1.5ms", 1_500_000),
            (Time, "0", 0),
            (Size, "1mb", 1 << 20),
            (Size, "65pkt", 65 * 1514),
            (Size, "98410", 98_410),
            (Count, "4096", 4096),
            (Switch, "on", 1),
        ] {
            assert_eq!(unit.parse(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for (unit, value, text) in [
            (Rate, 1_250_000_000, "10gbit"),
            (Rate, 312_500_000, "2.5gbit"),
            (Rate, 1_001, "8.008kbit"),
            (Time, 5_000, "5us"),
            (Time, 1_234_567, "1.234567ms"),
            (Size, 1 << 20, "1mb"),
            (Size, 98_410, "98410b"),
            (Count, 16, "16"),
            (Switch, 0, "off"),
        ] {
            assert_eq!(unit.format(value), text);
            assert_eq!(unit.parse(text), Ok(value), "{text}");
        }
        assert_eq!(Time.parse(&Time.format(u64::MAX)), Ok(u64::MAX));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (unit, text, says) in [
            (Rate, "10", "a rate such as"),
            (Rate, "10gbyte", "a rate such as"),
            (
                Rate,
                "99999999999999999999999999999999999999999gbit",
                "too large",
            ),
            (Time, "five", "a time such as"),
            (Time, "1.2.3us", "a time such as"),
            (Time, "", "a time such as"),
            (Time, "-1us", "a time such as"),
            (Time, "0.5ns", "whole number of ns"),
            (Size, "1tb", "a size such as"),
            (Switch, "maybe", "on or off"),
            (Count, "1e6", "a number"),
        ] as [(Unit, &str, &str); 11]
        {
            let error = unit.parse(text).expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
