//! Values as fio reads them (`parse.c`: `str_to_decimal`, `get_mult_bytes`, `get_mult_time`).
//!
//! A number is whole, decimal or (`0x10`) hexadecimal, and its unit follows at once, in either
//! case. In sizes, and in all numbers that are not times, `k` and `kb`, `m` and `mb` and so on are
//! powers of 1024, and `kib`, `mib` and so on powers of 1000: fio keeps the meaning that its first
//! scripts had. `kb_base=1000` turns both round. In times a number without a unit counts seconds
//! or, for `thinktime`, microseconds.
//!
//! fio drops what it does not know of a value and goes on: of `1.5m` it takes 1, of `10sec` ten
//! microseconds, of `4 k` and of a `4k` with a space before it 4. That is hardly what the file
//! means, and an error here that says so.

use mynah_stamp::Span;

/// Whether `k` and `kib` are powers of 1024 or of 1000 (fio's `kb_base`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Base {
    /// `k` is 1024 and `kib` 1000.
    #[default]
    Binary,
    /// `k` is 1000 and `kib` 1024.
    Decimal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Plain(u64),
    Percent(u64),
}

/// The digits of a value and what follows them.
fn split(text: &str) -> Result<(u64, &str), String> {
    let digits = text.trim_start();
    if digits.starts_with('-') {
        return Err(format!("`{text}` is less than 0"));
    }
    let digits = digits.strip_prefix('+').unwrap_or(digits);
    let (radix, digits) = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(hexadecimal) => (16, hexadecimal),
        None => (10, digits),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (number, unit) = digits.split_at(end);
    if number.is_empty() {
        return Err(format!("`{text}` does not start with a number"));
    }
    // fio's numbers are signed.
    let value = u64::from_str_radix(number, radix).ok().filter(|value| *value <= i64::MAX as u64);
    let value = value.ok_or_else(|| format!("`{text}` is too large"))?;
    if !unit.is_empty() && (radix == 16 || text.starts_with(char::is_whitespace)) {
        return Err(dropped(text, unit, value));
    }
    Ok((value, unit))
}

/// The error for a value of which fio would silently drop a part.
fn dropped(text: &str, unit: &str, value: impl std::fmt::Display) -> String {
    format!("`{text}`: fio does not take `{unit}` there, and would go on with {value}")
}

/// A size, or any number that is not a time.
pub(super) fn number(text: &str, base: Base) -> Result<Number, String> {
    let (value, unit) = split(text)?;
    let lower = unit.to_ascii_lowercase();
    let (letter, factor) = match (lower.as_bytes(), base) {
        ([] | [b'b'], _) => return Ok(Number::Plain(value)),
        ([b'%'], _) => return Ok(Number::Percent(value)),
        ([letter, b'i', b'b'], Base::Binary) => (*letter, 1000),
        ([letter, b'i', b'b'], Base::Decimal) => (*letter, 1024),
        // The unit without its last letter is the one without the `i`.
        ([letter] | [letter, b'b' | b'i'], Base::Binary) => (*letter, 1024),
        ([letter] | [letter, b'b' | b'i'], Base::Decimal) => (*letter, 1000),
        _ => return Err(dropped(text, unit, value)),
    };
    let Some(power) = b"kmgtp".iter().position(|known| *known == letter) else {
        return Err(dropped(text, unit, value));
    };
    let factor = u64::pow(factor, power as u32 + 1);
    let scaled = value.checked_mul(factor).filter(|scaled| *scaled <= i64::MAX as u64);
    scaled.map(Number::Plain).ok_or_else(|| format!("`{text}` is too large"))
}

/// A number that is no percentage.
pub(super) fn plain(text: &str, base: Base) -> Result<u64, String> {
    match number(text, base)? {
        Number::Plain(value) => Ok(value),
        Number::Percent(_) => Err(format!("`{text}`: a percentage does not belong here")),
    }
}

/// A time; without a unit it counts `bare`.
pub(super) fn time(text: &str, bare: Span) -> Result<Span, String> {
    let (value, unit) = split(text)?;
    let unit = match unit.to_ascii_lowercase().as_str() {
        "" => bare,
        "us" | "usec" => Span::from_us(1),
        "ms" | "msec" => Span::from_ms(1),
        "s" => Span::from_secs(1),
        "m" => Span::from_secs(60),
        "h" => Span::from_secs(3600),
        "d" => Span::from_secs(86_400),
        _ => {
            let problem = dropped(text, unit, format!("{value} us"));
            return Err(format!("{problem}; its units are us, ms, s, m, h and d"));
        }
    };
    let ps = value.checked_mul(unit.as_ps());
    ps.map(Span::from_ps).ok_or_else(|| format!("`{text}`: time ends after 213 days"))
}

/// Parses a flag: on by its presence, or by a number other than 0.
pub(super) fn flag(value: Option<&str>) -> Result<bool, String> {
    let Some(text) = value else { return Ok(true) };
    split(text).map(|(value, _)| value != 0)
}
