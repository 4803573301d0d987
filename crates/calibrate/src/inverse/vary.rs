//! Parameters that are searched: a key of the drive, and the range that it is searched in.
//!
//! Between its ends a range is walked linearly, or by logarithms where it is positive and spans more
//! than a decade. Values are written with five digits, and no finer than their unit is exact.

use crate::CalibrateError;
use mynah_drive_file::units::{
    Bandwidth, BitRate, Bytes, Duration, Energy, Fraction, Frequency, Power, TransferRate,
};
use mynah_stamp::Span;

/// How many parameters are searched at most.
pub const MOST: usize = 8;

/// A range beyond this ratio is walked by logarithms.
const DECADE: f64 = 10.0;

/// What a parameter's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Whole,
    Share,
    Time,
    Bandwidth,
    Bits,
    Frequency,
    Transfers,
    Energy,
    Power,
    Bytes,
    Number,
}

/// In this order: what several can read is the first of them.
const KINDS: [Kind; 11] = [
    Kind::Whole,
    Kind::Share,
    Kind::Time,
    Kind::Bandwidth,
    Kind::Bits,
    Kind::Frequency,
    Kind::Transfers,
    Kind::Energy,
    Kind::Power,
    Kind::Bytes,
    Kind::Number,
];

impl Kind {
    /// The number that `text` stands for, in the smallest unit.
    fn read(self, text: &str) -> Option<f64> {
        match self {
            Kind::Whole => text.parse::<u32>().ok().map(f64::from),
            Kind::Share if !text.ends_with('%') => None,
            Kind::Share => text.parse::<Fraction>().ok().map(|share| share.0),
            Kind::Time => text.parse::<Duration>().ok().map(|time| time.0.as_ps() as f64),
            Kind::Bandwidth => text.parse::<Bandwidth>().ok().map(|rate| rate.0 as f64),
            Kind::Bits => text.parse::<BitRate>().ok().map(|rate| rate.0 as f64),
            Kind::Frequency => text.parse::<Frequency>().ok().map(|clock| clock.0 as f64),
            Kind::Transfers => text.parse::<TransferRate>().ok().map(|rate| f64::from(rate.0)),
            Kind::Energy => text.parse::<Energy>().ok().map(|energy| energy.0 as f64),
            Kind::Power => text.parse::<Power>().ok().map(|power| power.0 as f64),
            Kind::Bytes => text.parse::<Bytes>().ok().map(|bytes| bytes.0 as f64),
            Kind::Number => text.parse::<f64>().ok().filter(|number| number.is_finite()),
        }
    }

    /// The number as drive files have it.
    fn write(self, number: f64) -> String {
        let whole = number.round() as u64;
        match self {
            Kind::Whole => whole.to_string(),
            Kind::Share => Fraction(five_digits(number).clamp(0.0, 1.0)).to_string(),
            Kind::Time => Duration(Span::from_ps(five_digits(number).round() as u64)).to_string(),
            Kind::Bandwidth => Bandwidth(five_digits(number).round() as u64).to_string(),
            Kind::Bits => BitRate(five_digits(number).round() as u64).to_string(),
            Kind::Frequency => Frequency(five_digits(number).round() as u64).to_string(),
            Kind::Transfers => TransferRate(whole as u32).to_string(),
            Kind::Energy => Energy(whole).to_string(),
            Kind::Power => Power(whole).to_string(),
            Kind::Bytes => Bytes(whole).to_string(),
            Kind::Number => format!("{}", five_digits(number)),
        }
    }
}

/// The number with five digits.
fn five_digits(number: f64) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return number;
    }
    let digits = libm::log10(number.abs()).floor() as i32;
    let scale = 4 - digits;
    // Powers of ten below one are no exact numbers, their reciprocals are.
    match scale >= 0 {
        true => {
            let power = libm::exp10(f64::from(scale));
            (number * power).round() / power
        }
        false => {
            let power = libm::exp10(f64::from(-scale));
            (number / power).round() * power
        }
    }
}

/// A parameter that is searched.
#[derive(Clone, Debug, PartialEq)]
pub struct Vary {
    /// Dotted key of the drive file.
    pub key: String,
    /// The ends of the range, as they were given.
    pub ends: [String; 2],
    low: f64,
    high: f64,
    kind: Kind,
    logarithmic: bool,
}

impl Vary {
    /// Reads `KEY=LOW..HIGH`.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str) -> Result<Vary, CalibrateError> {
        let refused = |problem: String, help: &str| {
            CalibrateError::asked(format!("--vary {text}: {problem}"), help)
        };
        let form = "write KEY=LOW..HIGH: `--vary flash.read=20us..60us`";
        let split =
            text.split_once('=').and_then(|(key, range)| Some((key, range.split_once("..")?)));
        let Some((key, (low, high))) = split else {
            return Err(refused("this is no key with a range".to_owned(), form));
        };
        let (key, low, high) = (key.trim(), low.trim(), high.trim());
        if key.is_empty() || low.is_empty() || high.is_empty() {
            return Err(refused("something is missing".to_owned(), form));
        }
        let read = |kind: Kind| Some((kind, kind.read(low)?, kind.read(high)?));
        let Some((kind, from, to)) = KINDS.into_iter().find_map(read) else {
            let problem = format!("`{low}` and `{high}` are no two values of one kind");
            let help = "both ends are numbers with a unit where the key has one: 20us..60us, \
                        4KiB..64KiB, 5%..20%, 1..8";
            return Err(refused(problem, help));
        };
        if from > to {
            let help = format!("the lower end comes first: {key}={high}..{low}");
            return Err(refused(format!("{low} is more than {high}"), &help));
        }
        if from == to {
            let help = "leave it out, and give the value with --set";
            return Err(refused("there is nothing to search between equal ends".to_owned(), help));
        }
        let logarithmic = from > 0.0 && to / from > DECADE;
        let ends = [low.to_owned(), high.to_owned()];
        Ok(Vary { key: key.to_owned(), ends, low: from, high: to, kind, logarithmic })
    }

    /// Refuses too many, and two of which one is part of the other.
    ///
    /// # Errors
    /// See above.
    pub fn check(all: &[Vary]) -> Result<(), CalibrateError> {
        if all.is_empty() {
            let help = "--vary KEY=LOW..HIGH; `mynah drives show NAME` lists the keys";
            return Err(CalibrateError::asked("nothing is to be varied", help));
        }
        if all.len() > MOST {
            return Err(CalibrateError::asked(
                format!("{} keys are varied, and {MOST} are the most that is searched", all.len()),
                "fix those that are known with --set",
            ));
        }
        for (index, one) in all.iter().enumerate() {
            for other in &all[..index] {
                let below = |a: &Vary, b: &Vary| a.key.starts_with(&format!("{}.", b.key));
                if one.key == other.key {
                    let message = format!("--vary names `{}` twice", one.key);
                    return Err(CalibrateError::asked(message, "give one range for it"));
                }
                if below(one, other) || below(other, one) {
                    let message = format!("`{}` and `{}` are one setting", other.key, one.key);
                    return Err(CalibrateError::asked(message, "vary the whole, or its parts"));
                }
            }
        }
        Ok(())
    }

    /// The number at `unit`, from 0 at the lower end to 1 at the upper.
    fn number(&self, unit: f64) -> f64 {
        let unit = unit.clamp(0.0, 1.0);
        match self.logarithmic {
            true => self.low * libm::exp(unit * libm::log(self.high / self.low)),
            false => self.low + unit * (self.high - self.low),
        }
    }

    /// Inverse of [`Vary::number`].
    fn unit(&self, number: f64) -> f64 {
        match self.logarithmic {
            true => libm::log(number / self.low) / libm::log(self.high / self.low),
            false => (number - self.low) / (self.high - self.low),
        }
    }

    /// The value at `unit` as drive files have it.
    pub fn value(&self, unit: f64) -> String {
        // Rounding does not leave the range.
        let text = self.kind.write(self.number(unit));
        match self.kind.read(&text) {
            Some(number) if number < self.low => self.ends[0].clone(),
            Some(number) if number > self.high => self.ends[1].clone(),
            _ => text,
        }
    }

    /// Where the value at `unit`, as it is written, really is, and its number.
    pub(super) fn settled(&self, unit: f64) -> (f64, f64) {
        let number = self.kind.read(&self.value(unit)).unwrap_or_else(|| self.number(unit));
        (self.unit(number).clamp(0.0, 1.0), number)
    }

    /// The number that shares of the parameter are of: itself, or where that is nearly nothing a
    /// fiftieth of the range.
    pub(super) fn scale(&self, number: f64) -> f64 {
        number.abs().max((self.high - self.low) / 50.0)
    }

    /// How far to step from `unit` to see what the parameter does: about 5 % of its value, and at
    /// least a fiftieth of the range.
    pub(super) fn step(&self, unit: f64) -> f64 {
        let (_, number) = self.settled(unit);
        let share = 0.05 * number.abs();
        let step = match self.logarithmic {
            true => 0.05 / libm::log(self.high / self.low),
            false => share / (self.high - self.low),
        };
        let whole = match self.kind {
            // Whole numbers have to change.
            Kind::Whole | Kind::Transfers | Kind::Energy | Kind::Power | Kind::Bytes => {
                let next = (number + 1.0).min(self.high);
                (self.unit(next) - self.unit(number)).max(1.0 / (self.high - self.low))
            }
            _ => 0.0,
        };
        step.max(0.02).max(whole)
    }

    /// `number` as drive files have it, within the range.
    pub(super) fn written(&self, number: f64) -> String {
        self.value(self.unit(number.clamp(self.low, self.high)))
    }

    /// The lowest and the highest number.
    pub(super) fn bounds(&self) -> [f64; 2] {
        [self.low, self.high]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(text: &str) -> String {
        Vary::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn ranges_are_read_by_their_kind() {
        let vary = |text: &str| Vary::parse(text).unwrap();
        let read = vary("flash.read=20us..60us");
        assert_eq!(
            (read.value(0.0), read.value(0.5), read.value(1.0)),
            ("20us".into(), "40us".into(), "60us".into())
        );
        assert!(!read.logarithmic && vary("a=1us..100us").logarithmic);
        assert_eq!(vary("a=1us..100us").value(0.5), "10us");
        assert_eq!(vary("link.gap=0ns..50ns").value(0.08), "4ns");
        assert_eq!(vary("firmware.cores=1..8").value(0.5), "5");
        assert_eq!(vary("over_provisioning=5%..15%").value(0.5), "10%");
        assert_eq!(vary("a=0.5..1.5").value(0.25), "0.75");
        assert_eq!(vary("a=1GB/s..3GB/s").value(0.5), "2GB/s");
        assert_eq!(vary("a=10Gbit/s..40Gbit/s").value(0.5), "25Gbit/s");
        assert_eq!(vary("a=400MHz..600MHz").value(0.5), "500MHz");
        assert_eq!(vary("a=4KiB..12KiB").value(0.5), "8KiB");
        assert_eq!(vary("a=0..50ns").value(1.0), "50ns");
    }

    #[test]
    fn what_is_no_range_is_refused() {
        assert!(refused("flash.read").contains("no key with a range"));
        assert!(refused("flash.read=3us").contains("no key with a range"));
        assert!(refused("=1us..2us").contains("missing") && refused("a=..2us").contains("missing"));
        assert!(refused("a=1us..2KiB").contains("no two values of one kind"));
        assert!(refused("a=5us..2us").contains("5us is more than 2us"));
        assert!(refused("a=5us..5us").contains("equal ends"));
        let all = |texts: &[&str]| {
            let all: Vec<Vary> = texts.iter().map(|text| Vary::parse(text).unwrap()).collect();
            Vary::check(&all).map_err(|error| error.to_string())
        };
        assert!(all(&["a.b=1..2", "a.c=1..2"]).is_ok());
        assert!(all(&["a.b=1..2", "a.b=1..3"]).unwrap_err().contains("`a.b` twice"));
        assert!(all(&["a=1us..2us", "a.b=1us..2us"]).unwrap_err().contains("one setting"));
        let many: Vec<String> = (0..9).map(|n| format!("k{n}=1..2")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(all(&many).unwrap_err().contains("9 keys are varied"));
        assert!(all(&[]).is_err());
    }

    proptest! {
        /// Values stay in their range, and what is written is where it is said to be.
        #[test]
        fn values_stay_in_range(low in 1u32..1_000_000, span in 1u32..1_000_000_000, unit in 0.0..=1.0f64) {
            let high = u64::from(low) + u64::from(span);
            let vary = Vary::parse(&format!("k={low}ns..{high}ns")).unwrap();
            let (at, number) = vary.settled(unit);
            prop_assert!((vary.low..=vary.high).contains(&number));
            prop_assert!((vary.number(at) - number).abs() <= number * 1e-9 + 1.0);
            prop_assert!((vary.number(unit) - number).abs() <= number * 1e-4 + 1.0);
            prop_assert_eq!(vary.value(at), vary.value(unit));
        }
    }
}
