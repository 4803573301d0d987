//! Parts of a working set that are used more often than others: fio's `zoned` distribution.

use std::fmt;

/// Most zones of a distribution.
const MOST: usize = 16;
/// 100 %, in hundredths of a per cent.
const WHOLE: u16 = 10_000;

/// Parts of a working set, one after the other from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zones {
    count: u8,
    /// In hundredths of a per cent: of the requests, and of the space.
    parts: [(u16, u16); MOST],
}

impl Zones {
    /// Reads `50/5:30/15:20/80`: for each part the percentage of the requests and that of the space;
    /// both come to 100 together. The last part's space may be left out.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn parse(text: &str) -> Result<Zones, String> {
        let mut parts = [(0, 0); MOST];
        let mut count = 0;
        let (mut requests, mut space) = (0u16, 0u16);
        let all = text.split(':').count();
        for (at, part) in text.split(':').enumerate() {
            let place = parts.get_mut(at).ok_or(format!("there are at most {MOST} parts"))?;
            let (access, size) = part
                .split_once('/')
                .ok_or("a part is REQUESTS/SPACE, as in zoned:50/5:30/15:20/80")?;
            let access = hundredths(access)?;
            let size = match size.trim() {
                "" if at + 1 == all => WHOLE.saturating_sub(space),
                size => hundredths(size)?,
            };
            if size == 0 {
                return Err(format!("part {} has none of the space", at + 1));
            }
            *place = (access, size);
            (requests, space) = (requests.saturating_add(access), space.saturating_add(size));
            count += 1;
        }
        for (what, sum) in [("requests", requests), ("space", space)] {
            if sum != WHOLE {
                let sum = f64::from(sum) / 100.0;
                return Err(format!("the percentages of the {what} come to {sum}, and not to 100"));
            }
        }
        Ok(Zones { count, parts })
    }

    /// The share of the requests and of the space of each part.
    pub fn iter(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let share = |hundredths: u16| f64::from(hundredths) / f64::from(WHOLE);
        let parts = self.parts[..usize::from(self.count)].iter();
        parts.map(move |(access, space)| (share(*access), share(*space)))
    }

    /// The parts of `whole` places: where each begins, how many it has, and its share of the requests.
    /// Parts that would have none are left out.
    pub fn of(&self, whole: u64) -> Vec<(u64, u64, f64)> {
        let (mut space, mut first) = (0u64, 0);
        let mut all = vec![];
        for (at, (access, _)) in self.iter().enumerate() {
            space += u64::from(self.parts[at].1);
            let end = (u128::from(whole) * u128::from(space) / u128::from(WHOLE)) as u64;
            if end > first {
                all.push((first, end - first, access));
            }
            first = end;
        }
        all
    }
}

/// A percentage with at most two decimals.
fn hundredths(text: &str) -> Result<u16, String> {
    let text = text.trim().trim_end_matches('%');
    let value = text.parse::<f64>().map(|value| value * 100.0);
    match value {
        Ok(value) if (0.0..=10_000.0).contains(&value) && (value - value.round()).abs() < 1e-6 => {
            Ok(value.round() as u16)
        }
        _ => Err(format!("`{text}` is not a percentage from 0 to 100 with two decimals at most")),
    }
}

impl fmt::Display for Zones {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (access, space)) in self.parts[..usize::from(self.count)].iter().enumerate() {
            let separator = if at > 0 { ":" } else { "" };
            write!(f, "{separator}{}/{}", f64::from(*access) / 100.0, f64::from(*space) / 100.0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jesd219_is_read() {
        let zones = Zones::parse("50/5:30/15:20/80").unwrap();
        let shares: Vec<_> = zones.iter().collect();
        assert_eq!(shares, [(0.5, 0.05), (0.3, 0.15), (0.2, 0.8)]);
        assert_eq!(Zones::parse("50/5:30/15:20/"), Ok(zones));
        assert_eq!(Zones::parse(&zones.to_string()), Ok(zones));
        assert_eq!(zones.of(1000), [(0, 50, 0.5), (50, 150, 0.3), (200, 800, 0.2)]);
        assert_eq!(zones.of(2), [(0, 2, 0.2)]);
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        for (text, part) in [
            ("50/5", "requests come to 50"),
            ("50/5:50/5", "space come to 10"),
            ("50/0:50/100", "part 1 has none"),
            ("50:50", "REQUESTS/SPACE"),
            ("x/5:30/95", "is not a percentage"),
            ("33.333/5:30/95", "two decimals"),
            (&["1/1"; 17].join(":"), "at most 16"),
        ] {
            let said = Zones::parse(text).unwrap_err();
            assert!(said.contains(part), "{text}: {said}");
        }
    }
}
