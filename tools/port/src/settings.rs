// SPDX-License-Identifier: GPL-2.0
//! The parameters of a port: name, netlink attribute, unit, bounds. One table for reading what people write,
//! for showing what a port has, and for the help text.

use crate::units::Unit;
use wire::{codel, mpd, rpm, tc};

/// A parameter.
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its attribute (`wire::tc`).
    pub kind: u16,
    /// How its value is written.
    pub unit: Unit,
    /// Least and largest value.
    pub bounds: (u64, u64),
    /// May it be 0 although the bounds exclude that?
    pub or_zero: bool,
    /// What it does.
    pub what: &'static str,
}

const fn parameter(
    name: &'static str,
    kind: u16,
    unit: Unit,
    bounds: (u64, u64),
    what: &'static str,
) -> Parameter {
    Parameter {
        name,
        kind,
        unit,
        bounds,
        or_zero: false,
        what,
    }
}

/// All of them.
pub const PARAMETERS: [Parameter; 12] = [
    Parameter {
        or_zero: true,
        ..parameter(
            "rate",
            tc::RATE,
            Unit::Rate,
            (tc::MIN_RATE, tc::MAX_RATE),
            "speed of the link; 0 = as fast as the device takes packets",
        )
    },
    parameter(
        "delay",
        tc::DELAY,
        Unit::Time,
        (0, tc::MAX_DELAY_NS),
        "time on the wire after a packet was sent",
    ),
    parameter(
        "limit",
        tc::LIMIT,
        Unit::Size,
        (1, tc::MAX_LIMIT),
        "most bytes that may wait",
    ),
    parameter(
        "ecn",
        tc::ECN,
        Unit::Size,
        (0, tc::MAX_LIMIT),
        "packets that find this much waiting are marked CE; 0 = none",
    ),
    parameter(
        "overhead",
        tc::OVERHEAD,
        Unit::Size,
        (0, tc::MAX_OVERHEAD),
        "bytes a packet takes on the wire beyond what Linux counts; Ethernet: 24",
    ),
    parameter(
        "int",
        tc::INT,
        Unit::Switch,
        (0, 1),
        "write telemetry into packets that carry the option",
    ),
    parameter(
        "hop-id",
        tc::HOP_ID,
        Unit::Count,
        (0, 255),
        "which port of its path this is",
    ),
    parameter(
        "shift",
        tc::SHIFT,
        Unit::Count,
        (0, mpd::MAX_SHIFT as u64),
        "unit of a maximum per-hop delay: 2^shift ns",
    ),
    parameter(
        "target",
        tc::TARGET,
        Unit::Time,
        (0, tc::MAX_DELAY_NS),
        "CoDel: waiting this long is too long; 0 = no CoDel",
    ),
    parameter(
        "interval",
        tc::INTERVAL,
        Unit::Time,
        (1, codel::MAX_INTERVAL_NS),
        "CoDel: for how long it may be too long",
    ),
    Parameter {
        or_zero: true,
        ..parameter(
            "rpm",
            tc::RPM,
            Unit::Count,
            (rpm::MIN_SLOTS as u64, rpm::MAX_SLOTS as u64),
            "reverse path marking: places in the table of the network namespace, a power of two; 0 = off",
        )
    },
    parameter(
        "log",
        tc::LOG,
        Unit::Count,
        (0, tc::MAX_LOG),
        "keep this many records of stamped packets, for tests; 0 = none",
    ),
];

/// The bytes of TCA_OPTIONS for words such as `rate 10gbit int hop-id 3`. A switch may stand without its
/// value.
///
/// # Errors
///
/// Which word is wrong, and what was expected.
pub fn parse(words: &[impl AsRef<str>]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut words = words.iter().map(AsRef::as_ref).peekable();
    let mut seen = Vec::new();
    while let Some(name) = words.next() {
        let parameter = find(name)?;
        if seen.contains(&parameter.kind) {
            return Err(format!("{name}: given twice"));
        }
        seen.push(parameter.kind);
        let value = match parameter.unit {
            Unit::Switch => words
                .next_if(|word| matches!(*word, "on" | "off" | "0" | "1"))
                .unwrap_or("on"),
            unit => words
                .next()
                .ok_or_else(|| format!("{name}: the value is missing, {}", unit.example()))?,
        };
        let value = parameter.parse(value)?;
        bytes.extend(tc::attribute(parameter.kind, value));
    }
    Ok(bytes)
}

fn find(name: &str) -> Result<&'static Parameter, String> {
    PARAMETERS.iter().find(|p| p.name == name).ok_or_else(|| {
        let names: Vec<&str> = PARAMETERS.iter().map(|p| p.name).collect();
        format!(
            "{name:?} is not a parameter of a port; there are {}",
            names.join(", ")
        )
    })
}

impl Parameter {
    /// The value of a text, within bounds.
    ///
    /// # Errors
    ///
    /// The name, the value and the bounds.
    pub fn parse(&self, text: &str) -> Result<u64, String> {
        let name = self.name;
        let value = self.unit.parse(text).map_err(|e| format!("{name}: {e}"))?;
        let (least, most) = self.bounds;
        let power = self.kind != tc::RPM || value.is_power_of_two();
        if (self.or_zero && value == 0) || ((least..=most).contains(&value) && power) {
            return Ok(value);
        }
        Err(format!(
            "{name}: {text} is out of bounds, it must be {}",
            self.range()
        ))
    }

    /// Its bounds in words.
    #[must_use]
    pub fn range(&self) -> String {
        let (least, most) = self.bounds;
        let range = format!(
            "{}from {} to {}",
            if self.or_zero { "0 or " } else { "" },
            self.unit.format(least),
            self.unit.format(most)
        );
        match (self.unit, self.kind) {
            (Unit::Switch, _) => self.unit.example().into(),
            (_, tc::RPM) => format!("{range}, a power of two"),
            _ => range,
        }
    }
}

/// Parameters as words, as [`parse`] takes them; what is as it is by default is left out.
#[must_use]
pub fn format(settings: &[(u16, u64)]) -> String {
    let mut words = Vec::new();
    for (kind, value) in settings {
        let Some(parameter) = PARAMETERS.iter().find(|p| p.kind == *kind) else {
            continue;
        };
        if DEFAULTS.contains(&(*kind, *value)) {
            continue;
        }
        words.push(match parameter.unit {
            Unit::Switch if *value == 1 => parameter.name.to_owned(),
            unit => format!("{} {}", parameter.name, unit.format(*value)),
        });
    }
    words.join(" ")
}

/// What need not be said. The limit and CoDel's interval have a default too, but matter.
const DEFAULTS: [(u16, u64); 10] = [
    (tc::RATE, 0),
    (tc::DELAY, 0),
    (tc::ECN, 0),
    (tc::OVERHEAD, 24),
    (tc::INT, 0),
    (tc::HOP_ID, 0),
    (tc::SHIFT, mpd::DEFAULT_SHIFT as u64),
    (tc::TARGET, 0),
    (tc::RPM, 0),
    (tc::LOG, 0),
];

/// The table of parameters for a help text.
#[must_use]
pub fn help() -> String {
    let mut text = String::from("Parameters, each with its value:\n");
    for p in &PARAMETERS {
        text += &format!("  {:<9} {} ({})\n", p.name, p.what, p.range());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        text.split_whitespace().collect()
    }

    #[test]
    fn words_become_attributes_and_words_again() {
        let text = "rate 10gbit delay 5us limit 1mb ecn 98410b int hop-id 3 target 1ms interval 20ms rpm 4096 log 100";
        let bytes = parse(&words(text)).expect(text);
        let mut settings = Vec::new();
        assert!(tc::parse(&bytes, |kind, value| {
            settings.push((kind, value));
            true
        }));
        assert_eq!(settings[0], (tc::RATE, 1_250_000_000));
        assert_eq!(format(&settings), text);
        let off = parse(&words("int off ecn 0")).expect("switches and zero");
        assert_eq!(
            off,
            [tc::attribute(tc::INT, 0), tc::attribute(tc::ECN, 0)].concat()
        );
    }

    #[test]
    fn errors_name_the_parameter_the_value_and_the_bound() {
        for (text, says) in [
            (
                "rate 1bit",
                "rate: 1bit is out of bounds, it must be 0 or from 8kbit to 16tbit",
            ),
            (
                "rate 1kbit",
                "rate: 1kbit is out of bounds, it must be 0 or from 8kbit to 16tbit",
            ),
            (
                "hop-id 256",
                "hop-id: 256 is out of bounds, it must be from 0 to 255",
            ),
            (
                "limit 0",
                "limit: 0 is out of bounds, it must be from 1b to 1gb",
            ),
            (
                "rpm 100",
                "rpm: 100 is out of bounds, it must be 0 or from 16 to 1048576, a power of two",
            ),
            (
                "interval 5s",
                "interval: 5s is out of bounds, it must be from 1ns to 4s",
            ),
            ("delay", "delay: the value is missing, a time such as"),
            (
                "speed 10gbit",
                "\"speed\" is not a parameter of a port; there are rate, delay",
            ),
            ("ecn 1mb ecn 2mb", "ecn: given twice"),
            ("int maybe", "\"maybe\" is not a parameter"),
        ] {
            let error = parse(&words(text)).expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn every_parameter_is_in_the_help() {
        for p in &PARAMETERS {
            assert!(help().contains(p.name));
        }
    }
}
