//! What is known beside profiles: what a path can do.

use mynah_drive_file::units::Bandwidth;

/// What parts of a path can carry, if somebody has said so.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Bytes a second of the network, each way.
    pub link_bytes_per_s: Option<f64>,
    /// Bytes a second of the drive.
    pub drive_bytes_per_s: Option<f64>,
}

/// A rate as people write it, in bytes a second: `1440MB/s`, or in bits, `25Gbit/s`.
///
/// # Errors
/// If it is none, or nothing.
pub fn bytes_per_s(text: &str) -> Result<f64, String> {
    let no_rate = || format!("`{text}` is no rate: write `1440MB/s` or `25Gbit/s`");
    let rate = match text.trim().strip_suffix("bit/s") {
        Some(bits) => {
            let (number, factor) = match bits.trim_end() {
                it if it.ends_with('k') => (&it[..it.len() - 1], 1e3),
                it if it.ends_with('M') => (&it[..it.len() - 1], 1e6),
                it if it.ends_with('G') => (&it[..it.len() - 1], 1e9),
                it if it.ends_with('T') => (&it[..it.len() - 1], 1e12),
                it => (it, 1.0),
            };
            number.trim().parse::<f64>().map_err(|_| no_rate())? * factor / 8.0
        }
        None => text.trim().parse::<Bandwidth>().map_err(|_| no_rate())?.0 as f64,
    };
    if rate > 0.0 && rate.is_finite() { Ok(rate) } else { Err(no_rate()) }
}

/// What is known beside two profiles.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Beyond {
    /// What the path can carry.
    pub limits: Limits,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_in_bytes_or_bits() {
        for (text, rate) in
            [("1440MB/s", 1.44e9), ("25Gbit/s", 3.125e9), ("8 bit/s", 1.0), ("2.5 kbit/s", 312.5)]
        {
            assert_eq!(bytes_per_s(text), Ok(rate), "{text}");
        }
        for text in
            ["", "25", "0bit/s", "-1Gbit/s", "nanbit/s", "infbit/s", "Gbit/s", "x/s", "0MB/s"]
        {
            assert!(bytes_per_s(text).is_err_and(|why| why.contains("25Gbit/s")), "{text}");
        }
    }
}
