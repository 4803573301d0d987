//! Which I/Os get a record: what filters let through, of that one in so many or one in each span of
//! time, and beside those the slow ones.
//!
//! Filters come before sampling, so that a sample is of what was asked for. One in N is chosen by a
//! hash of the queue and of the number of the command on its connection ([`hash`]): a host and a
//! target, which count alike, choose the same I/Os without a bit on the wire. I/Os that are kept
//! since they were slow are marked as such ([`Head::kept`]): means and percentiles of a sample
//! must leave them out.

mod running;

use crate::Head;
use mynah_stamp::{Span, Time};
use running::Running;
use serde::{Deserialize, Serialize};

/// Most filters of a choice, and most ranges of each of their parts.
pub const FILTERS_MAX: usize = 16;
/// Most ranges of a part of a filter.
pub const RANGES_MAX: usize = 16;
/// Most bytes of a choice as JSON: it has to fit into a header, beside the stages.
pub const CHOICE_BYTES_MAX: usize = 1024;

/// Values from the first to the last of each range; without ranges every value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ranges(pub Vec<(u64, u64)>);

impl Ranges {
    /// Whether all values are in it.
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub fn holds(&self, value: u64) -> bool {
        self.0.is_empty() || self.0.iter().any(|(first, last)| (*first..=*last).contains(&value))
    }
}

/// Which I/Os pass: all properties have to match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// Names of kinds of I/O; none: every kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// Bytes of data.
    #[serde(skip_serializing_if = "Ranges::is_all")]
    pub bytes: Ranges,
    #[serde(skip_serializing_if = "Ranges::is_all")]
    pub namespaces: Ranges,
    #[serde(skip_serializing_if = "Ranges::is_all")]
    pub queues: Ranges,
    /// First logical blocks.
    #[serde(skip_serializing_if = "Ranges::is_all")]
    pub blocks: Ranges,
    /// NVMe status: code type and code, 0 for success.
    #[serde(skip_serializing_if = "Ranges::is_all")]
    pub statuses: Ranges,
}

/// Which of the I/Os that pass a filter become the sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sampling {
    #[default]
    All,
    /// One in so many, by [`hash`].
    OneIn(u32),
    /// The first I/O to end once this many picoseconds have passed since the one before.
    EveryPs(u64),
}

/// Which slow I/Os are recorded though sampling leaves them out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeepAbove {
    #[default]
    Nothing,
    /// I/Os that took longer than this many picoseconds.
    Ps(u64),
    /// The slowest thousandth, as the I/Os before them had it.
    Running,
}

/// Which I/Os get a record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Choice {
    /// One of these must let an I/O through; without any all pass.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<Filter>,
    /// Which of the I/Os that pass a filter are recorded.
    pub sampling: Sampling,
    /// Which slow I/Os are recorded beside the sample.
    pub keep_above: KeepAbove,
}

impl Choice {
    /// Parses a choice from any bytes. Whether it is possible is checked by [`Chooser::new`].
    ///
    /// # Errors
    /// If it is none; what is wrong.
    pub fn from_json(bytes: &[u8]) -> Result<Choice, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and names")
    }

    /// Whether I/Os are taken by when they end.
    pub fn is_by_time(&self) -> bool {
        matches!(self.sampling, Sampling::EveryPs(_))
    }

    /// Whether every I/O gets a record.
    pub fn is_all(&self) -> bool {
        self.filters.is_empty() && self.sampling == Sampling::All
    }
}

/// A choice that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// No such kind of I/O.
    #[error("`{kind}` is no kind of I/O; there are {kinds}")]
    Kind {
        /// The kind that was asked for.
        kind: String,
        /// The kinds that there are.
        kinds: String,
    },
    /// A range whose end is before its beginning.
    #[error("a range from {0} to {1} holds nothing")]
    Range(u64, u64),
    /// More filters or ranges than [`FILTERS_MAX`] or [`RANGES_MAX`].
    #[error("a choice has at most {FILTERS_MAX} filters, of at most {RANGES_MAX} ranges a part")]
    TooMany,
    /// Longer than a header has room for.
    #[error("the filters take more than {CHOICE_BYTES_MAX} bytes in a profile's header")]
    TooLong,
    /// A sample of one in 0 I/Os, or of one in no time.
    #[error("one in 0, or one in no time, is no sample")]
    Nothing,
    /// Slow I/Os are to be kept, and every I/O is recorded.
    #[error("every I/O has a record without sampling: there are no others to be kept")]
    KeepsAll,
}

/// What [`Chooser`] decides of an I/O when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It gets a record, as one of the sample.
    Record,
    /// It gets one since it was slow, though it is not of the sample.
    Slow,
    /// No filter lets it through.
    Filtered,
    SampledOut,
}

/// What [`Sampling::OneIn`] chooses by: 32 bits of a command of a queue, the `nth` of its
/// connection from 0. It is chosen if they are less than 2^32 / N.
#[inline]
pub fn hash(queue: u16, nth: u32) -> u32 {
    // Two rounds of multiplication and shift, as in MurmurHash3's finalizer: neighbours must not
    // be chosen at a regular distance, which a regular load would answer with always the same I/O.
    let mut bits = u64::from(queue) << 32 | u64::from(nth);
    bits = (bits ^ bits >> 17).wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits = (bits ^ bits >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (bits >> 32) as u32
}

/// A filter in the form that is tested for each I/O: its kinds as bits, and ranges of properties.
#[derive(Clone, Debug)]
struct Test {
    kinds: u64,
    /// One range of each property: its first value, and the distance to the last.
    single: [(u64, u64); PARTS],
    /// Indices of properties with several ranges, for which `single` lets everything pass.
    several: Box<[(usize, Ranges)]>,
}

/// Properties of an I/O that filters have ranges for.
const PARTS: usize = 5;

/// Values of an I/O's properties, in the order of [`Test::single`].
#[inline]
fn values(head: &Head) -> [u64; PARTS] {
    [head.bytes.into(), head.namespace.into(), head.queue.into(), head.block, head.status.into()]
}

/// Decides for each I/O whether it gets a record, by a [`Choice`].
#[derive(Clone, Debug)]
pub struct Chooser {
    choice: Choice,
    is_all: bool,
    tests: Vec<Test>,
    /// Hashes below it are chosen.
    below: u64,
    /// With [`Sampling::EveryPs`], the next I/O that ends from this time on is chosen.
    next: Time,
    every: Option<Span>,
    /// I/Os that take longer are recorded even if sampling leaves them out.
    above: Span,
    /// I/Os until the running threshold is calculated anew.
    left: u64,
    running: Option<Box<Running>>,
}

impl Chooser {
    /// Begins to choose among I/Os whose kinds have these names.
    ///
    /// # Errors
    /// If the choice cannot be made.
    pub fn new(choice: Choice, kinds: &[String]) -> Result<Chooser, ChoiceError> {
        if choice.filters.len() > FILTERS_MAX {
            return Err(ChoiceError::TooMany);
        }
        if choice.to_json().len() > CHOICE_BYTES_MAX {
            return Err(ChoiceError::TooLong);
        }
        let tests = choice.filters.iter().map(|filter| Test::new(filter, kinds));
        let tests = tests.collect::<Result<Vec<_>, _>>()?;
        let (below, every) = match choice.sampling {
            Sampling::OneIn(0) | Sampling::EveryPs(0) => return Err(ChoiceError::Nothing),
            Sampling::All => (1 << 32, None),
            Sampling::OneIn(n) => ((1 << 32) / u64::from(n), None),
            Sampling::EveryPs(ps) => (0, Some(Span::from_ps(ps))),
        };
        if choice.keep_above != KeepAbove::Nothing && below == 1 << 32 {
            return Err(ChoiceError::KeepsAll);
        }
        let never = Span::from_ps(u64::MAX);
        let (above, running) = match choice.keep_above {
            KeepAbove::Nothing => (never, None),
            KeepAbove::Ps(ps) => (Span::from_ps(ps), None),
            KeepAbove::Running => (never, Some(Box::new(Running::default()))),
        };
        let left = running.as_ref().map_or(u64::MAX, |running| running.window());
        let is_all = choice.is_all();
        Ok(Chooser { choice, is_all, tests, below, next: Time::ZERO, every, above, left, running })
    }

    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// The present threshold above which slow I/Os are kept; `None`: none are.
    pub fn keeps_above(&self) -> Option<Span> {
        (self.above != Span::from_ps(u64::MAX)).then_some(self.above)
    }

    /// Decides for an I/O that has ended.
    #[inline]
    pub fn decide(&mut self, head: &Head) -> Decision {
        if self.is_all {
            return Decision::Record;
        }
        if !self.tests.is_empty() && !self.passes(head) {
            return Decision::Filtered;
        }
        let slow = head.total > self.above;
        let picked = match self.every {
            None => u64::from(hash(head.queue, head.nth)) < self.below,
            Some(every) => self.is_due(head, every),
        };
        let decision = match (picked, slow) {
            (true, _) => Decision::Record,
            (false, true) => Decision::Slow,
            (false, false) => Decision::SampledOut,
        };
        self.left -= 1;
        if (picked | slow) && self.running.is_some() {
            self.learn(head.total, slow);
        } else if self.left == 0 {
            self.refresh();
        }
        decision
    }

    #[inline]
    fn passes(&self, head: &Head) -> bool {
        self.tests.iter().any(|test| test.passes(head))
    }

    fn is_due(&mut self, head: &Head, every: Span) -> bool {
        let end = Time::from_ps(head.begin.as_ps().saturating_add(head.total.as_ps()));
        let due = end >= self.next;
        if due {
            self.next = Time::from_ps(end.as_ps().saturating_add(every.as_ps()));
        }
        due
    }

    /// Feeds the running threshold with an I/O of the sample.
    #[inline(never)]
    fn learn(&mut self, total: Span, slow: bool) {
        let Some(running) = &mut self.running else { return };
        let full = running.add(total.as_ps(), slow);
        if full || self.left == 0 {
            self.refresh();
        }
    }

    #[cold]
    fn refresh(&mut self) {
        let Some(running) = &mut self.running else {
            self.left = u64::MAX;
            return;
        };
        let passed = running.window() - self.left;
        if let Some(above) = running.threshold(passed, self.above.as_ps()) {
            self.above = Span::from_ps(above);
        }
        self.left = running.window();
    }
}

impl Test {
    fn new(filter: &Filter, kinds: &[String]) -> Result<Test, ChoiceError> {
        let parts =
            [&filter.bytes, &filter.namespaces, &filter.queues, &filter.blocks, &filter.statuses];
        let too_many = parts.iter().any(|ranges| ranges.0.len() > RANGES_MAX);
        if too_many || filter.kinds.len() > kinds.len() {
            return Err(ChoiceError::TooMany);
        }
        let mut all = parts.iter().flat_map(|ranges| &ranges.0);
        if let Some(&(first, last)) = all.find(|(first, last)| first > last) {
            return Err(ChoiceError::Range(first, last));
        }
        let mut mask = if filter.kinds.is_empty() { u64::MAX } else { 0 };
        for kind in &filter.kinds {
            let at = kinds.iter().take(64).position(|it| it == kind);
            let at = at.ok_or_else(|| ChoiceError::Kind {
                kind: kind.chars().take(40).collect(),
                kinds: kinds.join(", "),
            })?;
            mask |= 1 << at;
        }
        let single = parts.map(|ranges| match ranges.0[..] {
            [(first, last)] => (first, last - first),
            _ => (0, u64::MAX),
        });
        let several = parts.into_iter().enumerate().filter(|(_, ranges)| ranges.0.len() > 1);
        let several = several.map(|(part, ranges)| (part, ranges.clone())).collect();
        Ok(Test { kinds: mask, single, several })
    }

    #[inline]
    fn passes(&self, head: &Head) -> bool {
        if self.kinds >> (head.kind & 63) & 1 == 0 {
            return false;
        }
        let values = values(head);
        let within =
            |(value, (first, width)): (u64, (u64, u64))| value.wrapping_sub(first) <= width;
        // Without branches in between: most have none of them, or pass.
        let single = values.into_iter().zip(self.single).fold(true, |all, it| all & within(it));
        let mut several = self.several.iter();
        single && several.all(|(part, ranges)| ranges.holds(values[*part]))
    }
}
