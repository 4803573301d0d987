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

/// What `k` and `kb` are if nothing else is said, as in fio (`kb_base`).
pub const KB_BASE: u64 = 1024;

/// Bytes: a bare number, or one with a unit of fio's, in either case: `k m g t p` and `kb mb gb tb
/// pb` are powers of `kb_base`. `KiB MiB GiB TiB PiB` are powers of 1024 (fio, for which they are
/// that only if `kb_base` is 1000, takes them for powers of 1000 otherwise).
pub fn parse_bytes(text: &str, kb_base: u64) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let lower = unit.to_ascii_lowercase();
    let (letter, base) = match lower.as_bytes() {
        [] | [b'b'] => return scale(number, 1),
        [letter] | [letter, b'b'] => (*letter, kb_base),
        [letter, b'i', b'b'] => (*letter, 1024),
        _ => (b'?', 1),
    };
    let Some(power) = b"kmgtp".iter().position(|known| *known == letter) else {
        return Err(format!(
            "`{unit}` is not a unit of bytes; valid are k, m, g, t, p and KB, MB, GB, TB, PB \
             (powers of {kb_base}) and KiB, MiB, GiB, TiB, PiB (powers of 1024)"
        ));
    };
    scale(number, base.pow(power as u32 + 1))
}

/// A duration: a number with `ps ns us usec ms msec s m h d`; a bare number counts seconds, as in
/// fio.
pub fn parse_time(text: &str) -> Result<Span, String> {
    let (number, unit) = split(text)?;
    const SECOND: u64 = 1_000_000_000_000;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "ps" => 1,
        "ns" => 1_000,
        "us" | "usec" => 1_000_000,
        "ms" | "msec" => 1_000_000_000,
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
pub fn parse_share(text: &str) -> Result<f64, String> {
    let share = parse_multiple(text)?;
    if share > 1.0 {
        return Err(format!("`{text}` is more than 100 %"));
    }
    Ok(share)
}

/// A percentage that may be more than 100.
pub(crate) fn parse_multiple(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text)?;
    if !matches!(unit, "" | "%") {
        return Err(format!("`{text}` is not a percentage"));
    }
    // The nearest share to the decimal that is written, without rounding twice.
    format!("{}e-2", number.replace('_', ""))
        .parse()
        .map_err(|_| format!("`{number}` is not a number"))
}

/// A share as the percentage that [`parse_share`] reads as the very same share: its decimals, two places on.
pub fn percent(share: f64) -> String {
    let text = share.to_string();
    let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
    let decimals = format!("{decimals:0<2}");
    let (near, far) = decimals.split_at(2);
    let percent = format!("{whole}{near}");
    let percent = match percent.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    match far {
        "" => format!("{percent}%"),
        far => format!("{percent}.{far}%"),
    }
}

/// A whole number without a unit.
pub fn parse_count(text: &str) -> Result<u64, String> {
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
        let bytes = |text| parse_bytes(text, KB_BASE);
        for (text, wanted) in [
            ("512", 512),
            ("512B", 512),
            ("4k", 4096),
            ("4K", 4096),
            ("4kb", 4096),
            ("4 KB", 4096),
            ("4kB", 4096),
            ("4KiB", 4096),
            ("1.5m", 1_572_864),
            ("64MB", 64 << 20),
            ("2gb", 2 << 30),
            ("2Tb", 2 << 40),
            ("1p", 1 << 50),
        ] {
            assert_eq!(bytes(text), Ok(wanted), "{text}");
        }
        let decimal = |text| parse_bytes(text, 1000);
        for (text, wanted) in
            [("4k", 4000), ("4kb", 4000), ("64MB", 64_000_000), ("4KiB", 4096), ("1GiB", 1 << 30)]
        {
            assert_eq!(decimal(text), Ok(wanted), "{text}");
        }
        for text in ["4x", "4kx", "4kibi", "-4k", "", "99999999999t", "4ib"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_and_shares() {
        assert_eq!(parse_time("75us"), Ok(Span::from_us(75)));
        assert_eq!(parse_time("2"), Ok(Span::from_secs(2)));
        assert_eq!(parse_time("1.5ms"), Ok(Span::from_us(1500)));
        assert_eq!(parse_time("9USEC"), Ok(Span::from_us(9)));
        assert_eq!(parse_time("9msec"), Ok(Span::from_ms(9)));
        assert!(parse_time("9sec").is_err());
        assert!(parse_time("300d").is_err());
        assert_eq!(parse_share("10%"), Ok(0.1));
        assert!(parse_share("101%").is_err());
        assert_eq!(parse_count("1_000"), Ok(1000));
        assert!(parse_count("1k").is_err());
    }
}
