// SPDX-License-Identifier: GPL-2.0

//! Numbers with units, as people write them: `"10Gbit"`, `"2.5us"`, `"1MB"`, `"65packets"`.

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::fmt;

/// Units of a quantity: how they are written, and how many of the base unit each is.
type Units = &'static [(&'static str, u64)];

const TIMES: Units = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];
const RATES: Units = &[
    ("bit", 1),
    ("Kbit", 1_000),
    ("Mbit", 1_000_000),
    ("Gbit", 1_000_000_000),
    ("Tbit", 1_000_000_000_000),
];
const SIZES: Units = &[
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// Longest time: an hour, which is far more than any engine runs.
const MAX_TIME: u64 = 3_600_000_000_000;
/// Fastest link: what the laws can reckon with.
const MAX_RATE: u64 = 10_000_000_000_000;
/// Largest size: 2^53, up to which JSON numbers are exact everywhere.
const MAX_SIZE: u64 = 1 << 53;

/// `text` in base units.
fn parse(what: &str, text: &str, units: Units, max: u64) -> Result<u64, String> {
    let example = format!("such as \"10{}\"", units[units.len() / 2].0);
    let names: Vec<&str> = units.iter().map(|u| u.0).collect();
    let text = text.trim();
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_')))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number = number.replace('_', "");
    let value: f64 = number
        .parse()
        .map_err(|_| format!("{text:?} is not a {what}: write a number and a unit, {example}"))?;
    let unit = unit.trim().trim_end_matches("/s");
    // "10Gbps" is the same as "10Gbit".
    let unit = unit
        .strip_suffix("bps")
        .map_or(unit.to_owned(), |u| format!("{u}bit"));
    let unit = unit
        .strip_prefix('k')
        .map_or(unit.clone(), |rest| format!("K{rest}"));
    if value < 0.0 {
        return Err(format!("{text:?} is negative, and a {what} cannot be"));
    }
    let Some(&(_, factor)) = units.iter().find(|u| u.0 == unit) else {
        return Err(if unit.is_empty() && value != 0.0 {
            format!("{text:?} has no unit: a {what} is in {}", names.join(", "))
        } else if unit.is_empty() {
            return Ok(0);
        } else {
            format!(
                "{unit:?} is not a unit of {what}: it is in {}",
                names.join(", ")
            )
        });
    };
    let value = value * factor as f64;
    if value > max as f64 {
        return Err(format!(
            "{text:?} is more than the largest {what}, {max} {}",
            units[0].0
        ));
    }
    Ok(value.round() as u64)
}

/// A type whose values are written with units.
macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $what:literal, $units:expr, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(pub u64);

        impl std::str::FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                parse($what, text, $units, $max).map(Self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct V;
                impl Visitor<'_> for V {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(concat!("a ", $what, " as a string with a unit"))
                    }
                    fn visit_str<E: Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                    fn visit_i64<E: Error>(self, n: i64) -> Result<$name, E> {
                        self.visit_str(&n.to_string())
                    }
                    fn visit_f64<E: Error>(self, n: f64) -> Result<$name, E> {
                        self.visit_str(&n.to_string())
                    }
                }
                from.deserialize_any(V)
            }
        }
    };
}

quantity!(
    /// ns.
    Time, "time", TIMES, MAX_TIME
);
quantity!(
    /// Bits per second; never zero in a checked scenario.
    Rate, "rate", RATES, MAX_RATE
);
quantity!(
    /// Bytes.
    Size, "size", SIZES, MAX_SIZE
);

/// Room for packets: bytes, or full-size packets whose size the network's MTU says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Bytes.
    Bytes(u64),
    /// Full-size packets.
    Packets(u64),
}

impl Room {
    /// Bytes, `packet` being the size of a full one.
    #[must_use]
    pub const fn bytes(self, packet: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Packets(n) => n.saturating_mul(packet),
        }
    }
}

impl<'de> Deserialize<'de> for Room {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = Room;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size as a string with a unit (B to GiB, or packets)")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Room, E> {
                let packets = ["packets", "packet"]
                    .iter()
                    .find_map(|u| text.strip_suffix(u));
                match packets.map(|n| n.trim().parse::<u64>()) {
                    Some(Ok(n)) if n <= MAX_SIZE >> 16 => Ok(Room::Packets(n)),
                    Some(_) => Err(E::custom(format!("{text:?} is not a number of packets"))),
                    None => text
                        .parse()
                        .map(|Size(b)| Room::Bytes(b))
                        .map_err(E::custom),
                }
            }
            fn visit_i64<E: Error>(self, n: i64) -> Result<Room, E> {
                self.visit_str(&n.to_string())
            }
        }
        from.deserialize_any(V)
    }
}

/// A probability, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probability(pub f64);

impl<'de> Deserialize<'de> for Probability {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let p = f64::deserialize(from)?;
        if (0.0..=1.0).contains(&p) {
            Ok(Self(p))
        } else {
            Err(D::Error::custom(format!(
                "{p} is not a probability: it must be from 0 to 1"
            )))
        }
    }
}

/// ns for people: the largest unit that leaves a number of at least one.
#[must_use]
pub fn show_ns(ns: u64) -> String {
    show(ns, TIMES)
}

/// Bits per second for people.
#[must_use]
pub fn show_bps(bps: u64) -> String {
    show(bps, RATES)
}

/// Bytes for people, in powers of ten.
#[must_use]
pub fn show_bytes(bytes: u64) -> String {
    show(bytes, &SIZES[..4])
}

fn show(value: u64, units: Units) -> String {
    let (unit, factor) = units
        .iter()
        .rev()
        .find(|u| value >= u.1)
        .unwrap_or(&units[0]);
    let text = format!("{:.3}", value as f64 / *factor as f64);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write() {
        let time = |t: &str| t.parse::<Time>().map(|t| t.0);
        let rate = |t: &str| t.parse::<Rate>().map(|t| t.0);
        let size = |t: &str| t.parse::<Size>().map(|t| t.0);
        assert_eq!(time("2.5us"), Ok(2500));
        assert_eq!(time("50 ms"), Ok(50_000_000));
        assert_eq!(time("0"), Ok(0));
        assert_eq!(rate("10Gbit"), Ok(10_000_000_000));
        assert_eq!(rate("25Gbps"), Ok(25_000_000_000));
        assert_eq!(rate("100 Mbit/s"), Ok(100_000_000));
        assert_eq!(rate("512kbit"), Ok(512_000));
        assert_eq!(size("1MB"), Ok(1_000_000));
        assert_eq!(size("64KiB"), Ok(65536));
        assert_eq!(size("10_000B"), Ok(10_000));
    }

    #[test]
    fn what_they_get_wrong() {
        let error = |t: &str| t.parse::<Rate>().unwrap_err();
        assert_eq!(
            error("-10Gbit"),
            "\"-10Gbit\" is negative, and a rate cannot be"
        );
        assert!(error("10").contains("has no unit"));
        assert!(error("10GB").contains("\"GB\" is not a unit of rate"));
        assert!(error("fast").contains("such as \"10Mbit\""));
        assert!(error("99999Tbit").contains("more than the largest rate"));
        assert!("5min"
            .parse::<Time>()
            .unwrap_err()
            .contains("ns, us, ms, s"));
    }

    #[test]
    fn shown_for_people() {
        assert_eq!(show_ns(21_500), "21.5 us");
        assert_eq!(show_bps(10_000_000_000), "10 Gbit");
        assert_eq!(show_bytes(1_500_000), "1.5 MB");
        assert_eq!(show_ns(0), "0 ns");
    }
}
