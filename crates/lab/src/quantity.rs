//! Quantities as people write them: `4KiB`, `4k`, `75us`, `10%`.

use mynah_stamp::Span;

/// Splits `text` into its number and its unit.
fn split(text: &str) -> Result<(&str, &str), String> {
    let text = text.trim();
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if text.starts_with('-') {
        return Err(format!("`{text}` is less than 0"));
    }
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(format!("`{text}` does not start with a number"));
    }
    Ok((number, unit.trim()))
}

/// `number * factor`, exact for whole numbers, rounded for decimals.
fn scale(number: &str, factor: u64) -> Result<u64, String> {
    let digits = number.replace('_', "");
    let too_large = || format!("`{number}` is too large");
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        let whole: u64 = digits.parse().map_err(|_| too_large())?;
        return whole.checked_mul(factor).ok_or_else(too_large);
    }
    let decimal: f64 = digits.parse().map_err(|_| format!("`{number}` is not a number"))?;
    let scaled = (decimal * factor as f64).round();
    if scaled >= u64::MAX as f64 { Err(too_large()) } else { Ok(scaled as u64) }
}

/// Bytes: a bare number, `k m g t` and `KiB MiB GiB TiB` (powers of 1024), or `KB MB GB TB`
/// (powers of 1000).
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => {
            return Err(format!(
                "`{unit}` is not a unit of bytes; valid are k, m, g, t, KiB, MiB, GiB, TiB \
                 (powers of 1024) and KB, MB, GB, TB (powers of 1000)"
            ));
        }
    };
    scale(number, factor)
}

/// A duration: a number with `ps ns us ms s m h d`; a bare number counts seconds, as in fio.
pub(crate) fn parse_time(text: &str) -> Result<Span, String> {
    let (number, unit) = split(text)?;
    const SECOND: u64 = 1_000_000_000_000;
    let factor = match unit {
        "ps" => 1,
        "ns" => 1_000,
        "us" => 1_000_000,
        "ms" => 1_000_000_000,
        "" | "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3_600 * SECOND,
        "d" => 86_400 * SECOND,
        _ => {
            return Err(format!(
                "`{unit}` is not a unit of time; valid are ps, ns, us, ms, s, m, h and d"
            ));
        }
    };
    let ps = scale(number, factor).map_err(|e| format!("{e} (time ends after 213 days)"))?;
    Ok(Span::from_ps(ps))
}

/// A share, 0 to 1, written as a percentage: `10%`, or `10`.
pub(crate) fn parse_share(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text)?;
    if !matches!(unit, "" | "%") {
        return Err(format!("`{text}` is not a percentage"));
    }
    // The nearest share to the decimal that is written, without rounding twice.
    let share: f64 = format!("{}e-2", number.replace('_', ""))
        .parse()
        .map_err(|_| format!("`{number}` is not a number"))?;
    if share > 1.0 {
        return Err(format!("`{text}` is more than 100 %"));
    }
    Ok(share)
}

/// A whole number without a unit.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    if !unit.is_empty() || number.contains('.') {
        return Err(format!("`{}` is not a whole number", text.trim()));
    }
    scale(number, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes() {
        assert_eq!(parse_bytes("4k"), Ok(4096));
        assert_eq!(parse_bytes("4KiB"), Ok(4096));
        assert_eq!(parse_bytes("4 KB"), Ok(4000));
        assert_eq!(parse_bytes("1.5m"), Ok(1_572_864));
        assert_eq!(parse_bytes("512"), Ok(512));
        assert!(parse_bytes("4x").is_err());
        assert!(parse_bytes("-4k").is_err());
        assert!(parse_bytes("").is_err());
        assert!(parse_bytes("99999999999t").is_err());
    }

    #[test]
    fn times_and_shares() {
        assert_eq!(parse_time("75us"), Ok(Span::from_us(75)));
        assert_eq!(parse_time("2"), Ok(Span::from_secs(2)));
        assert_eq!(parse_time("1.5ms"), Ok(Span::from_us(1500)));
        assert!(parse_time("300d").is_err());
        assert_eq!(parse_share("10%"), Ok(0.1));
        assert!(parse_share("101%").is_err());
        assert_eq!(parse_count("1_000"), Ok(1000));
        assert!(parse_count("1k").is_err());
    }
}
