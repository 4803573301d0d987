//! A group's I/Os in windows of time: how many there were in each, and how long their stages took.
//!
//! A time slice that is lost makes a mean of everything six times what it is; the median of the means
//! of windows does not notice it. Windows are powers of two of picoseconds long and lie at multiples
//! of their length, and those that are not empty are at most [`MOST`]: so what parts of a profile
//! come to, merged, is what the whole comes to.

use mynah_stamp::{Span, Time};
use std::collections::BTreeMap;

/// Most windows that are not empty. With more, they become twice as long.
const MOST: usize = 128;
/// Windows are at first 2^20 picoseconds long, a microsecond.
const FIRST_SHIFT: u32 = 20;
/// Fewer windows than this are not merged for more I/Os in each.
const FEWEST: usize = 16;
/// So many I/Os a window should have.
const IOS: u64 = 16;

/// What a window's I/Os come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Window {
    ios: u64,
    total: u128,
    stages: Vec<u128>,
}

impl Window {
    fn merge(&mut self, other: &Window) {
        self.ios += other.ios;
        self.total += other.total;
        self.stages.resize(self.stages.len().max(other.stages.len()), 0);
        self.stages.iter_mut().zip(&other.stages).for_each(|(into, more)| *into += more);
    }
}

/// Sums of a group's I/Os by window of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Windows {
    shift: u32,
    windows: BTreeMap<u64, Window>,
}

impl Default for Windows {
    fn default() -> Windows {
        Windows { shift: FIRST_SHIFT, windows: BTreeMap::new() }
    }
}

/// The means of the I/Os of one window, in picoseconds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Means {
    pub(super) total: f64,
    pub(super) stages: Vec<f64>,
}

impl Windows {
    pub(super) fn add(&mut self, begin: Time, total: Span, stages: &[Span]) {
        let window = self.windows.entry(begin.as_ps() >> self.shift).or_default();
        window.ios += 1;
        window.total += u128::from(total.as_ps());
        window.stages.resize(stages.len(), 0);
        for (into, span) in window.stages.iter_mut().zip(stages) {
            *into += u128::from(span.as_ps());
        }
        while self.windows.len() > MOST {
            self.lengthen(self.shift + 1);
        }
    }

    /// Adds another part of the same group.
    pub(super) fn merge(&mut self, other: &Windows) {
        self.lengthen(other.shift);
        for (at, window) in &other.windows {
            self.windows.entry(at >> (self.shift - other.shift)).or_default().merge(window);
        }
        while self.windows.len() > MOST {
            self.lengthen(self.shift + 1);
        }
    }

    fn lengthen(&mut self, shift: u32) {
        let Some(by) = shift.checked_sub(self.shift).filter(|by| *by > 0) else { return };
        self.shift = shift;
        for (at, window) in std::mem::take(&mut self.windows) {
            let at = at.checked_shr(by).unwrap_or(0);
            self.windows.entry(at).or_default().merge(&window);
        }
    }

    /// What windows come to, in their order, without those that have hardly any I/O: the first and
    /// the last are often not whole.
    pub(super) fn means(&self) -> Vec<Means> {
        let mut these = self.clone();
        while these.windows.len() >= 2 * FEWEST && these.median_ios() < IOS {
            these.lengthen(these.shift + 1);
        }
        let least = (these.median_ios() / 4).max(1);
        let whole = these.windows.values().filter(|window| window.ios >= least);
        let mean = |window: &Window| {
            let over = window.ios as f64;
            Means {
                total: window.total as f64 / over,
                stages: window.stages.iter().map(|&sum| sum as f64 / over).collect(),
            }
        };
        whole.map(mean).collect()
    }

    fn median_ios(&self) -> u64 {
        let mut ios: Vec<u64> = self.windows.values().map(|window| window.ios).collect();
        ios.sort_unstable();
        ios.get(ios.len() / 2).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(ios: &[(u64, u64)]) -> Windows {
        let mut windows = Windows::default();
        for &(begin, total) in ios {
            let total = Span::from_ps(total);
            windows.add(Time::from_ps(begin), total, &[total, Span::ZERO]);
        }
        windows
    }

    proptest! {
        #[test]
        fn merged_parts_are_the_whole(
            ios in prop::collection::vec((prop_oneof![0..1u64 << 40, any::<u64>()], any::<u64>()), 0..600),
            cut in 0.0..1.0f64,
        ) {
            let whole = of(&ios);
            let (left, right) = ios.split_at((ios.len() as f64 * cut) as usize);
            let mut merged = of(left);
            merged.merge(&of(right));
            prop_assert_eq!(&merged, &whole);
            prop_assert!(whole.windows.len() <= MOST);
            let all: u64 = whole.windows.values().map(|window| window.ios).sum();
            prop_assert_eq!(all, ios.len() as u64);
        }
    }

    #[test]
    fn windows_have_the_means_of_their_ios() {
        // An I/O a microsecond: 1 us long in the first half of a second, 3 us in the other.
        let ios: Vec<(u64, u64)> =
            (0..10_000).map(|n| (n << 20, if n < 5_000 { 1 } else { 3 })).collect();
        let means = of(&ios).means();
        assert!(means.len() > 30 && means.len() <= MOST, "{}", means.len());
        assert_eq!(means[0].total, 1.0);
        assert_eq!(means.last().unwrap().stages, [3.0, 0.0]);
    }
}
