//! Quantities as people write them: `8KiB`, `480GB`, `4k`, `3.8ms`, `1200MT/s`, `7%`.
//!
//! Arithmetic is in integers, so `3.8ms` is exactly 3,800,000,000 ps; a value that its unit
//! cannot hold exactly (`0.3B`) is refused, never rounded. Each type prints a form that
//! parses back to the same value, and reads and writes itself as a string in TOML and JSON.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use mynah_stamp::Span;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A quantity that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found `{found}`{}", reason.as_ref().map(|r| format!(": {r}")).unwrap_or_default())]
pub struct UnitError {
    /// What was wanted, with an example.
    pub expected: &'static str,
    /// What stood there.
    pub found: String,
    /// Why it is wrong, when the unit is not the reason.
    pub reason: Option<String>,
}

/// A number of bytes. `8KiB` and `4k` count in 1024, as fio does; `480GB` and `4kB` in 1000;
/// a bare integer is bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

/// A duration, exact to the picosecond: `75us`, `3.8ms`, `20ns`. Only zero may stand without
/// a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(pub Span);

/// A bus rate in millions of transfers a second: `1200MT/s`, `3.2GT/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TransferRate(pub u32);

/// A bandwidth in bytes a second: `1GB/s`, `800MiB/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bandwidth(pub u64);

/// Bits a second on a wire: `25Gbit/s`, `100Gb/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BitRate(pub u64);

/// Cycles a second: `500MHz`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Frequency(pub u64);

/// Operations a second: `500k`, `1.5M`, `1200`; k is 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Iops(pub u64);

/// Energy in nanojoules: `50nJ`, `12uJ`, `0.2mJ`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Energy(pub u64);

/// Power in milliwatts: `50mW`, `4.5W`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Power(pub u64);

/// A share from 0 to 1: `7%` or `0.07`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Default)]
pub struct Fraction(pub f64);

/// A unit's name and how many base units it holds.
type Units = &'static [(&'static str, u64)];

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
const G: u64 = 1 << 30;
const T: u64 = 1 << 40;
const P: u64 = 1 << 50;

const BYTES: Units = &[
    ("", 1),
    ("B", 1),
    ("KiB", K),
    ("MiB", M),
    ("GiB", G),
    ("TiB", T),
    ("PiB", P),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("PB", 1_000_000_000_000_000),
    ("k", K),
    ("K", K),
    ("m", M),
    ("M", M),
    ("g", G),
    ("G", G),
    ("t", T),
    ("T", T),
    ("p", P),
    ("P", P),
];
const TIME: Units = &[
    ("ps", 1),
    ("ns", 1_000),
    ("us", 1_000_000),
    ("µs", 1_000_000),
    ("μs", 1_000_000),
    ("ms", 1_000_000_000),
    ("s", 1_000_000_000_000),
    ("m", 60_000_000_000_000),
    ("min", 60_000_000_000_000),
    ("h", 3_600_000_000_000_000),
    ("d", 86_400_000_000_000_000),
];
const TRANSFERS: Units = &[("MT/s", 1), ("GT/s", 1_000)];
const BANDWIDTH: Units = &[
    ("B/s", 1),
    ("KiB/s", K),
    ("MiB/s", M),
    ("GiB/s", G),
    ("TiB/s", T),
    ("kB/s", 1_000),
    ("KB/s", 1_000),
    ("MB/s", 1_000_000),
    ("GB/s", 1_000_000_000),
    ("TB/s", 1_000_000_000_000),
];
const BIT_RATE: Units = &[
    ("bit/s", 1),
    ("kbit/s", 1_000),
    ("Mbit/s", 1_000_000),
    ("Gbit/s", 1_000_000_000),
    ("b/s", 1),
    ("kb/s", 1_000),
    ("Mb/s", 1_000_000),
    ("Gb/s", 1_000_000_000),
];
const FREQUENCY: Units = &[("Hz", 1), ("kHz", 1_000), ("MHz", 1_000_000), ("GHz", 1_000_000_000)];
const IOPS: Units = &[
    ("", 1),
    ("k", 1_000),
    ("K", 1_000),
    ("M", 1_000_000),
    ("m", 1_000_000),
    ("G", 1_000_000_000),
];

const ENERGY: Units =
    &[("nJ", 1), ("uJ", 1_000), ("µJ", 1_000), ("mJ", 1_000_000), ("J", 1_000_000_000)];
const POWER: Units = &[("mW", 1), ("W", 1_000)];

/// What a kind of quantity is called and how it is written.
struct Kind {
    expected: &'static str,
    units: Units,
    base: &'static str,
}

const BYTES_KIND: Kind =
    Kind { expected: "a size such as `8KiB`", units: BYTES, base: "a whole number of bytes" };
const TIME_KIND: Kind =
    Kind { expected: "a time such as `75us`", units: TIME, base: "a whole number of picoseconds" };
const TRANSFERS_KIND: Kind = Kind {
    expected: "a transfer rate such as `1200MT/s`",
    units: TRANSFERS,
    base: "a whole number of MT/s",
};
const BANDWIDTH_KIND: Kind = Kind {
    expected: "a bandwidth such as `1GB/s`",
    units: BANDWIDTH,
    base: "a whole number of bytes a second",
};
const BIT_RATE_KIND: Kind = Kind {
    expected: "a rate such as `25Gbit/s`",
    units: BIT_RATE,
    base: "a whole number of bits a second",
};
const FREQUENCY_KIND: Kind = Kind {
    expected: "a frequency such as `500MHz`",
    units: FREQUENCY,
    base: "a whole number of Hz",
};
const IOPS_KIND: Kind = Kind {
    expected: "a rate of operations such as `500k`",
    units: IOPS,
    base: "a whole number of operations",
};
const ENERGY_KIND: Kind = Kind {
    expected: "an energy such as `12uJ`",
    units: ENERGY,
    base: "a whole number of nanojoules",
};
const POWER_KIND: Kind =
    Kind { expected: "a power such as `50mW`", units: POWER, base: "a whole number of milliwatts" };
const FRACTION_EXPECTED: &str = "a share such as `7%` or `0.07`";

impl Kind {
    fn error(&self, text: &str, reason: Option<String>) -> UnitError {
        UnitError { expected: self.expected, found: text.to_owned(), reason }
    }

    /// Reads `text` as a count of base units.
    fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let trimmed = text.trim();
        if trimmed.starts_with('-') {
            return Err(self.error(text, Some("it cannot be negative".into())));
        }
        let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(end);
        let (mantissa, decimals) = decimal(number).ok_or_else(|| self.error(text, None))?;
        let unit = unit.trim_start();
        if unit.is_empty() && mantissa == 0 {
            return Ok(0);
        }
        let Some(&(_, factor)) = self.units.iter().find(|(name, _)| *name == unit) else {
            return Err(self.error(text, None));
        };
        let too_large = || self.error(text, Some("it is too large".into()));
        let scaled = mantissa.checked_mul(u128::from(factor)).ok_or_else(too_large)?;
        let divisor = 10u128.pow(decimals);
        if scaled % divisor != 0 {
            return Err(self.error(text, Some(format!("it is not {}", self.base))));
        }
        u64::try_from(scaled / divisor).map_err(|_| too_large())
    }
}

/// The digits of `3.8` without the point, and how many stood behind it. Refuses anything
/// that is not a plain decimal number of at most 20 digits on each side.
fn decimal(text: &str) -> Option<(u128, u32)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || (text.contains('.') && fraction.is_empty()) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    if whole.len() > 20 || fraction.len() > 15 || fraction.contains('.') {
        return None;
    }
    let digits = format!("{whole}{fraction}");
    Some((digits.parse().ok()?, fraction.len() as u32))
}

/// `value` in units of `factor`, with all its decimals, or `None` if there is no end to them.
fn in_units(value: u64, factor: u64) -> Option<String> {
    let whole = value / factor;
    let mut rest = u128::from(value % factor);
    let mut text = whole.to_string();
    if rest == 0 {
        return Some(text);
    }
    text.push('.');
    for _ in 0..12 {
        rest *= 10;
        text.push(char::from(b'0' + (rest / u128::from(factor)) as u8));
        rest %= u128::from(factor);
        if rest == 0 {
            return Some(text);
        }
    }
    None
}

/// The shortest exact way to write `value` in one of `units`; the first of equals.
fn shortest(value: u64, units: &[(&str, u64)]) -> String {
    let mut best: Option<String> = None;
    for &(name, factor) in units {
        if value < factor && factor != 1 {
            continue;
        }
        let Some(number) = in_units(value, factor) else { continue };
        let text = format!("{number}{name}");
        if best.as_ref().is_none_or(|b| text.len() < b.len()) {
            best = Some(text);
        }
    }
    best.unwrap_or_else(|| format!("{value}{}", units[0].0))
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Bytes, UnitError> {
        BYTES_KIND.parse(text).map(Bytes)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: &[(&str, u64)] = &[
            ("KiB", K),
            ("MiB", M),
            ("GiB", G),
            ("TiB", T),
            ("PiB", P),
            ("B", 1),
            ("kB", 1_000),
            ("MB", 1_000_000),
            ("GB", 1_000_000_000),
            ("TB", 1_000_000_000_000),
        ];
        f.pad(&shortest(self.0, SHOWN))
    }
}

impl FromStr for Duration {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Duration, UnitError> {
        TIME_KIND.parse(text).map(|ps| Duration(Span::from_ps(ps)))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ps = self.0.as_ps();
        if ps == 0 {
            return f.pad("0s");
        }
        let units = [("s", 12), ("ms", 9), ("us", 6), ("ns", 3), ("ps", 0)];
        let (name, zeros) =
            units.into_iter().find(|(_, z)| ps >= 10u64.pow(*z)).unwrap_or(("ps", 0));
        let number = in_units(ps, 10u64.pow(zeros)).expect("powers of ten end");
        f.pad(&format!("{number}{name}"))
    }
}

impl FromStr for TransferRate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<TransferRate, UnitError> {
        let mts = TRANSFERS_KIND.parse(text)?;
        let too_large = || TRANSFERS_KIND.error(text, Some("it is too large".into()));
        u32::try_from(mts).map(TransferRate).map_err(|_| too_large())
    }
}

impl fmt::Display for TransferRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}MT/s", self.0))
    }
}

impl FromStr for Bandwidth {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Bandwidth, UnitError> {
        BANDWIDTH_KIND.parse(text).map(Bandwidth)
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: &[(&str, u64)] = &[
            ("GB/s", 1_000_000_000),
            ("MB/s", 1_000_000),
            ("kB/s", 1_000),
            ("B/s", 1),
            ("GiB/s", G),
            ("MiB/s", M),
            ("KiB/s", K),
        ];
        f.pad(&shortest(self.0, SHOWN))
    }
}

impl FromStr for BitRate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<BitRate, UnitError> {
        BIT_RATE_KIND.parse(text).map(BitRate)
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: &[(&str, u64)] =
            &[("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000), ("bit/s", 1)];
        f.pad(&shortest(self.0, SHOWN))
    }
}

impl FromStr for Frequency {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Frequency, UnitError> {
        FREQUENCY_KIND.parse(text).map(Frequency)
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: &[(&str, u64)] =
            &[("GHz", 1_000_000_000), ("MHz", 1_000_000), ("kHz", 1_000), ("Hz", 1)];
        f.pad(&shortest(self.0, SHOWN))
    }
}

impl FromStr for Iops {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Iops, UnitError> {
        IOPS_KIND.parse(text).map(Iops)
    }
}

impl fmt::Display for Iops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&shortest(self.0, &[("", 1), ("k", 1_000), ("M", 1_000_000)]))
    }
}

impl FromStr for Energy {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Energy, UnitError> {
        ENERGY_KIND.parse(text).map(Energy)
    }
}

impl fmt::Display for Energy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&shortest(self.0, &[("nJ", 1), ("uJ", 1_000), ("mJ", 1_000_000)]))
    }
}

impl FromStr for Power {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Power, UnitError> {
        POWER_KIND.parse(text).map(Power)
    }
}

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&shortest(self.0, &[("mW", 1), ("W", 1_000)]))
    }
}

impl FromStr for Fraction {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Fraction, UnitError> {
        let error = |reason: Option<&str>| UnitError {
            expected: FRACTION_EXPECTED,
            found: text.to_owned(),
            reason: reason.map(str::to_owned),
        };
        let trimmed = text.trim();
        // The percent sign is a decimal exponent, so that `7%` and `0.07` are the same f64.
        let value: Option<f64> = match trimmed.strip_suffix('%') {
            Some(number) => {
                let number = number.trim_end();
                number.parse::<f64>().ok().and_then(|plain| {
                    if number.contains(['e', 'E']) {
                        Some(plain / 100.0)
                    } else {
                        format!("{number}e-2").parse().ok()
                    }
                })
            }
            None => trimmed.parse().ok(),
        };
        match value {
            Some(value) if (0.0..=1.0).contains(&value) => Ok(Fraction(value)),
            Some(_) if trimmed.ends_with('%') => Err(error(Some("it must be from 0% to 100%"))),
            Some(_) => Err(error(Some("it must be from 0 to 1, or carry a percent sign"))),
            None => Err(error(None)),
        }
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Percent when that is short and means exactly the same number.
        let percent = format!("{}%", (self.0 * 1e8).round() / 1e6);
        if percent.parse() == Ok(*self) { f.pad(&percent) } else { f.pad(&self.0.to_string()) }
    }
}

/// Strings (and, where it makes sense, bare numbers) in TOML and JSON.
macro_rules! as_text {
    ($type:ty, $name:literal, $expected:expr, $schema:expr) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Text {
                    fn number<E: de::Error>(shown: String) -> Result<$type, E> {
                        shown.parse().map_err(E::custom)
                    }
                }
                impl Visitor<'_> for Text {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expected)
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                    fn visit_i64<E: de::Error>(self, number: i64) -> Result<$type, E> {
                        Text::number(number.to_string())
                    }
                    fn visit_u64<E: de::Error>(self, number: u64) -> Result<$type, E> {
                        Text::number(number.to_string())
                    }
                    fn visit_f64<E: de::Error>(self, number: f64) -> Result<$type, E> {
                        Text::number(number.to_string())
                    }
                }
                deserializer.deserialize_any(Text)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

as_text!(
    Bytes,
    "Bytes",
    BYTES_KIND.expected,
    json_schema!({
        "description": "A number of bytes: `8KiB` and `4k` count in 1024, `480GB` in 1000; a bare integer is bytes.",
        "anyOf": [
            { "type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*(B|[KMGTP]iB|[kKMGTP]B|[kKmMgGtTpP])?\s*$" },
            { "type": "integer", "minimum": 0 },
        ],
    })
);
as_text!(
    Duration,
    "Duration",
    TIME_KIND.expected,
    json_schema!({
        "description": "A duration, exact to the picosecond: `75us`, `3.8ms`, `20ns`.",
        "anyOf": [
            { "type": "string", "pattern": r"^\s*([0-9]+(\.[0-9]+)?\s*(ps|ns|us|µs|μs|ms|s|m|min|h)|0)\s*$" },
            { "const": 0 },
        ],
    })
);
as_text!(
    TransferRate,
    "TransferRate",
    TRANSFERS_KIND.expected,
    json_schema!({
        "description": "Millions of transfers a second: `1200MT/s`.",
        "type": "string",
        "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*[MG]T/s\s*$",
    })
);
as_text!(
    Bandwidth,
    "Bandwidth",
    BANDWIDTH_KIND.expected,
    json_schema!({
        "description": "Bytes a second: `1GB/s`, `800MiB/s`.",
        "type": "string",
        "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*([kKMGT]?B|[KMGT]iB)/s\s*$",
    })
);
as_text!(
    BitRate,
    "BitRate",
    BIT_RATE_KIND.expected,
    json_schema!({
        "description": "Bits a second: `25Gbit/s`, `100Gb/s`.",
        "type": "string",
        "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*[kMG]?b(it)?/s\s*$",
    })
);
as_text!(
    Frequency,
    "Frequency",
    FREQUENCY_KIND.expected,
    json_schema!({
        "description": "Cycles a second: `500MHz`.",
        "type": "string",
        "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*[kMG]?Hz\s*$",
    })
);
as_text!(
    Iops,
    "Iops",
    IOPS_KIND.expected,
    json_schema!({
        "description": "Operations a second: `500k`, `1.5M`, 1200; k is 1000.",
        "anyOf": [
            { "type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*[kKmMG]?\s*$" },
            { "type": "integer", "minimum": 0 },
        ],
    })
);
as_text!(
    Energy,
    "Energy",
    ENERGY_KIND.expected,
    json_schema!({
        "description": "Energy: `50nJ`, `12uJ`, `0.2mJ`.",
        "type": "string",
        "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*(nJ|uJ|µJ|mJ|J)\s*$",
    })
);
as_text!(
    Power,
    "Power",
    POWER_KIND.expected,
    json_schema!({
        "description": "Power: `50mW`, `4.5W`.",
        "type": "string",
        "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*m?W\s*$",
    })
);
as_text!(
    Fraction,
    "Fraction",
    FRACTION_EXPECTED,
    json_schema!({
        "description": "A share: `7%` or 0.07.",
        "anyOf": [
            { "type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?([eE]-?[0-9]+)?\s*%?\s*$" },
            { "type": "number", "minimum": 0, "maximum": 1 },
        ],
    })
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ps(text: &str) -> u64 {
        text.parse::<Duration>().unwrap().0.as_ps()
    }

    fn bytes(text: &str) -> u64 {
        text.parse::<Bytes>().unwrap().0
    }

    #[test]
    fn times_are_exact() {
        assert_eq!(ps("3.8ms"), 3_800_000_000);
        assert_eq!(ps("75us"), 75_000_000);
        assert_eq!(ps("0.001ns"), 1);
        assert_eq!(ps("29.76 us"), 29_760_000);
        assert_eq!(ps("1s"), 1_000_000_000_000);
        assert_eq!(ps("2m"), 120_000_000_000_000);
        assert_eq!(ps("0"), 0);
    }

    #[test]
    fn sizes_follow_fio_and_the_si() {
        assert_eq!(bytes("4k"), 4096);
        assert_eq!(bytes("8KiB"), 8192);
        assert_eq!(bytes("4kB"), 4000);
        assert_eq!(bytes("480GB"), 480_000_000_000);
        assert_eq!(bytes("1.5M"), 1_572_864);
        assert_eq!(bytes("512"), 512);
    }

    #[test]
    fn rates_and_shares() {
        assert_eq!("3.2GT/s".parse(), Ok(TransferRate(3200)));
        assert_eq!("3.36GB/s".parse(), Ok(Bandwidth(3_360_000_000)));
        assert_eq!("1.5M".parse(), Ok(Iops(1_500_000)));
        assert_eq!("7%".parse(), Ok(Fraction(0.07)));
        assert_eq!("0.5%".parse(), Ok(Fraction(0.005)));
        assert_eq!("12.5 %".parse(), Ok(Fraction(0.125)));
        assert_eq!(Fraction(0.07).to_string(), "7%");
        assert_eq!(Fraction(1e-5).to_string(), "0.001%");
    }

    #[test]
    fn errors_say_what_was_wanted() {
        let time = |text: &str| text.parse::<Duration>().unwrap_err().to_string();
        assert_eq!(time("75KiB"), "expected a time such as `75us`, found `75KiB`");
        assert_eq!(time("75"), "expected a time such as `75us`, found `75`");
        assert_eq!(time(""), "expected a time such as `75us`, found ``");
        assert_eq!(
            time("0.1ps"),
            "expected a time such as `75us`, found `0.1ps`: it is not a whole number of picoseconds"
        );
        assert_eq!(
            time("99999999999s"),
            "expected a time such as `75us`, found `99999999999s`: it is too large"
        );
        let size = |text: &str| text.parse::<Bytes>().unwrap_err().to_string();
        assert_eq!(
            size("-4k"),
            "expected a size such as `8KiB`, found `-4k`: it cannot be negative"
        );
        assert_eq!(size("4kb"), "expected a size such as `8KiB`, found `4kb`");
        let share = |text: &str| text.parse::<Fraction>().unwrap_err().to_string();
        assert_eq!(
            share("7"),
            "expected a share such as `7%` or `0.07`, found `7`: it must be from 0 to 1, or carry a percent sign"
        );
    }

    #[test]
    fn printed_forms_are_the_usual_ones() {
        assert_eq!(Bytes(8192).to_string(), "8KiB");
        assert_eq!(Bytes(480_000_000_000).to_string(), "480GB");
        assert_eq!(Bytes(448).to_string(), "448B");
        assert_eq!(Bytes(0).to_string(), "0B");
        assert_eq!(Duration(Span::from_ps(29_760_000)).to_string(), "29.76us");
        assert_eq!(Bandwidth(3_360_000_000).to_string(), "3.36GB/s");
        assert_eq!(Iops(500_000).to_string(), "500k");
    }

    fn round_trips<T: FromStr<Err = UnitError> + fmt::Display + PartialEq + fmt::Debug>(value: T) {
        let text = value.to_string();
        assert_eq!(text.parse::<T>().as_ref(), Ok(&value), "printed as {text}");
    }

    /// Numbers of every size, round ones among them.
    fn number() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0u32..64, 0u32..20).prop_map(|(n, shift, zeros)| {
            let n = n >> shift;
            n - n % 10u64.pow(zeros.min(19))
        })
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_back(n in number(), share in 0.0f64..=1.0) {
            round_trips(Bytes(n));
            round_trips(Bytes(n & !0xfff));
            round_trips(Duration(Span::from_ps(n)));
            round_trips(TransferRate(n as u32));
            round_trips(Bandwidth(n));
            round_trips(Iops(n));
            round_trips(Fraction(share));
            round_trips(Fraction((share * 1000.0).round() / 1000.0));
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<Duration>();
            let _ = text.parse::<TransferRate>();
            let _ = text.parse::<Bandwidth>();
            let _ = text.parse::<Iops>();
            let _ = text.parse::<Fraction>();
        }

        #[test]
        fn decimals_are_not_rounded(whole in 0u64..1_000_000, thousandths in 0u64..1000) {
            let text = format!("{whole}.{thousandths:03}us");
            prop_assert_eq!(ps(&text), (whole * 1000 + thousandths) * 1000);
        }
    }
}
