//! The running 99.9th percentile, from those I/Os alone that have records.
//!
//! All that were slower than the threshold are known, and of the others a sample. So the slowest
//! thousandth of a window of I/Os is known exactly where the threshold was not too high, and
//! estimated from the sample where it was. What is kept in a window is bounded: when a drive
//! becomes slower, the threshold follows before the ring is full of its I/Os.

/// I/Os of the first window, and of the longest.
const WINDOW_FIRST: u64 = 1 << 10;
const WINDOW_MAX: u64 = 1 << 14;
/// The slowest one in so many is kept.
const ONE_IN: u64 = 1000;
/// Most that are kept in a window, and most of the sample that are remembered.
const ABOVE_MAX: usize = 320;
const SAMPLE_MAX: usize = 1024;

/// What one window has shown.
#[derive(Clone, Debug)]
pub(super) struct Running {
    window: u64,
    above: Vec<u64>,
    /// Every `stride`-th of those sampled that were not slow; and how many there were.
    sample: Vec<u64>,
    stride: u64,
    sampled: u64,
}

impl Default for Running {
    fn default() -> Running {
        Running {
            window: WINDOW_FIRST,
            above: Vec::with_capacity(ABOVE_MAX),
            sample: Vec::with_capacity(SAMPLE_MAX),
            stride: 1,
            sampled: 0,
        }
    }
}

impl Running {
    /// How many I/Os a window has.
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// One with a record; whether the threshold is to be looked at now.
    pub(super) fn add(&mut self, total_ps: u64, slow: bool) -> bool {
        if slow {
            self.above.push(total_ps);
            return self.above.len() >= ABOVE_MAX;
        }
        self.sampled += 1;
        if self.sampled.is_multiple_of(self.stride) {
            if self.sample.len() == SAMPLE_MAX {
                // Every second of them is left, and every second one comes from now on.
                let mut nth = 0;
                self.sample.retain(|_| {
                    nth += 1;
                    nth % 2 == 0
                });
                self.stride *= 2;
            }
            self.sample.push(total_ps);
        }
        false
    }

    /// A window of `passed` I/Os has ended, in which those above `threshold_ps` were slow: what I/Os
    /// of the next one are to be slower than. `None` if nothing is known.
    pub(super) fn threshold(&mut self, passed: u64, threshold_ps: u64) -> Option<u64> {
        let wanted = passed.div_ceil(ONE_IN).max(1);
        self.above.sort_unstable_by(|a, b| b.cmp(a));
        self.sample.sort_unstable_by(|a, b| b.cmp(a));
        let (slow, samples) = (self.above.len() as u64, self.sample.len() as u64);
        let found = if slow >= wanted {
            self.above.get(wanted as usize - 1).copied()
        } else if slow * 4 >= wanted {
            // Beyond a high percentile latencies fall off about exponentially: by their mean excess
            // over the threshold for each factor of e, of which this is nearly the logarithm.
            let sum: u128 = self.above.iter().map(|&ps| u128::from(ps - threshold_ps)).sum();
            let lower = sum / u128::from(slow) * 2 * u128::from(wanted - slow);
            let lower = lower / u128::from(wanted + slow);
            Some(threshold_ps.saturating_sub(u64::try_from(lower).unwrap_or(u64::MAX)))
        } else {
            // Each of the sample stands for so many.
            let each = (passed.saturating_sub(slow)).div_ceil(samples.max(1)).max(1);
            let at = ((wanted - slow) / each).min(samples.saturating_sub(1));
            self.sample.get(at as usize).copied()
        };
        self.above.clear();
        self.sample.clear();
        (self.stride, self.sampled) = (1, 0);
        self.window = (self.window * 2).min(WINDOW_MAX);
        found
    }
}
