//! Numbers with units, short enough for tables.

/// A duration that may not be known.
pub fn if_known(ns: Option<f64>) -> String {
    ns.map_or("-".to_owned(), duration)
}

/// `number` with three significant digits, or more before the point.
fn digits(number: f64) -> String {
    match number {
        n if n >= 99.95 => format!("{n:.0}"),
        n if n >= 9.995 => format!("{n:.1}"),
        n => format!("{n:.2}"),
    }
}

/// In the largest unit in which the number, as it will be printed, is at least one.
fn scaled(number: f64, units: &[(f64, &str)]) -> String {
    let unit = units.iter().find(|(scale, _)| number >= scale * 0.9995);
    let &(scale, name) = unit.or(units.last()).expect("units are given");
    format!("{}{name}", digits(number / scale))
}

/// A duration given in nanoseconds: `88.9us`.
pub fn duration(ns: f64) -> String {
    if ns == 0.0 {
        return "0s".to_owned();
    }
    scaled(ns, &[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"), (1e-3, "ps")])
}

/// A number of things: `102k`.
pub fn count(number: f64) -> String {
    if number < 1_000.0 {
        return digits(number);
    }
    scaled(number, &[(1e9, "G"), (1e6, "M"), (1e3, "k")])
}

const KIB: f64 = 1024.0;
const BINARY: [(f64, &str); 5] = [
    (KIB * KIB * KIB * KIB, "TiB"),
    (KIB * KIB * KIB, "GiB"),
    (KIB * KIB, "MiB"),
    (KIB, "KiB"),
    (1.0, "B"),
];

/// An amount of data: `3.81GiB`.
pub fn bytes(number: f64) -> String {
    scaled(number, &BINARY)
}

/// A bandwidth in both counts: `399MiB/s (418MB/s)`.
pub fn bandwidth(bytes_per_s: f64) -> String {
    let decimal = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")];
    format!("{}/s ({}/s)", scaled(bytes_per_s, &BINARY), scaled(bytes_per_s, &decimal))
}

/// A ratio in per cent, as in `12.3 %`.
pub fn percent(ratio: f64) -> String {
    format!("{:.1} %", ratio * 100.0)
}

/// A bar whose full length is `width` characters, in eighths of a character.
pub fn bar(ratio: f64, width: usize) -> String {
    let eighths = (ratio.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    format!("{}{part}", "█".repeat(eighths / 8))
}

/// What people call a quantity. Its unit is with its values.
pub fn named(name: &str) -> String {
    const WORDS: [(&str, &str); 12] = [
        ("iops", "IOPS"),
        ("bw_bytes_per_s", "bandwidth"),
        ("lat_ns mean", "mean latency"),
        ("lat_ns p50", "median latency"),
        ("lat_ns p99", "p99 latency"),
        ("lat_ns p99.9", "p99.9 latency"),
        ("waf", "WAF"),
        ("waf_collection", "WAF of collection"),
        ("waf_expected", "computed WAF"),
        ("blocks_collected", "blocks collected"),
        ("cmt_hit_ratio", "CMT hits"),
        ("cache_hit_ratio", "cache hits"),
    ];
    let word = WORDS.iter().find(|(end, _)| {
        name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with(' '))
    });
    match word {
        Some((end, word)) => format!("{}{word}", &name[..name.len() - end.len()]),
        None => name.replace('_', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits_and_their_unit() {
        assert_eq!(duration(88_906.0), "88.9us");
        assert_eq!(duration(999.96), "1.00us");
        assert_eq!(duration(0.25), "250ps");
        assert_eq!(duration(2.5e9), "2.50s");
        assert_eq!(duration(9.8e10), "98.0s");
        assert_eq!(count(102_400.0), "102k");
        assert_eq!(count(87.0), "87.0");
        assert_eq!(count(999.99), "1000");
        assert_eq!(bytes(4096.0 * 1e6), "3.81GiB");
        assert_eq!(bandwidth(418e6), "399MiB/s (418MB/s)");
        assert_eq!(percent(0.1234), "12.3 %");
    }

    #[test]
    fn bars_are_drawn_in_eighths() {
        assert_eq!(bar(0.5, 4), "██");
        assert_eq!(bar(0.28, 4), "█▏");
        assert_eq!(bar(0.0, 4), "");
        assert_eq!(bar(1.0, 2), "██");
    }
}
