//! What is wrong with a drive file, gathered while it is turned into a configuration.

use crate::at::{At, Maybe};
use crate::document::{Document, Problem};
use crate::units::{Bytes, Duration};
use mynah_stamp::Span;
use std::ops::{Range, RangeInclusive};

/// The longest time that any one step of the drive may take.
pub(crate) const MAX_STEP: Span = Span::from_secs(10);

/// The value, or the default if it was left out.
pub(crate) fn or<T: Clone>(value: &Maybe<T>, default: T) -> T {
    value.as_ref().map_or(default, |at| at.get().clone())
}

pub(crate) struct Check<'a> {
    pub(crate) document: &'a Document<'a>,
    pub(crate) problems: Vec<Problem>,
}

impl Check<'_> {
    pub(crate) fn at(
        &mut self,
        span: Range<usize>,
        message: String,
        label: &str,
        help: Option<String>,
    ) {
        let problem = self.document.problem(message, span, label, help);
        self.problems.push(problem);
    }

    pub(crate) fn wrong<T>(
        &mut self,
        message: impl Into<String>,
        place: &At<T>,
        label: &str,
        help: Option<String>,
    ) {
        self.at(place.span(), message.into(), label, help);
    }

    /// Refuses `place` because `other` makes it pointless, unless `other` comes from an
    /// override and so was put above it on purpose.
    pub(crate) fn without_effect(
        &mut self,
        place: Range<usize>,
        other: Option<Range<usize>>,
        message: &str,
        help: &str,
    ) {
        let later = |other: &Range<usize>| self.document.layer(other) > self.document.layer(&place);
        if other.as_ref().is_some_and(later) {
            return;
        }
        self.at(place, message.to_owned(), "this changes nothing", Some(help.to_owned()));
    }

    /// The key at a place, with dots, as messages name it.
    pub(crate) fn key<T>(&self, place: &At<T>) -> String {
        self.document.path_at(&place.span())
    }

    /// Refuses a count outside a range that depends on the drive.
    pub(crate) fn count(&mut self, value: &At<u32>, range: RangeInclusive<u32>) -> u32 {
        self.within(value, range, |count| *count)
    }

    /// Refuses a size outside a range that depends on the drive.
    pub(crate) fn size(&mut self, value: &At<Bytes>, range: RangeInclusive<u64>) -> u64 {
        let range = Bytes(*range.start())..=Bytes(*range.end());
        self.within(value, range, |bytes| bytes.0)
    }

    fn within<T: PartialOrd + std::fmt::Display, N>(
        &mut self,
        at: &At<T>,
        range: RangeInclusive<T>,
        number: impl Fn(&T) -> N,
    ) -> N {
        let value = at.get();
        if !range.contains(value) {
            let (name, least, most) = (self.key(at), range.start(), range.end());
            let message = format!("`{name}` must be from {least} to {most}, not {value}");
            self.wrong(message, at, "out of range", None);
        }
        number(value)
    }

    /// Refuses a time that no step of a drive takes.
    pub(crate) fn time(&mut self, time: Duration, place: Range<usize>) -> Span {
        if time.0 > MAX_STEP {
            let name = self.document.path_at(&place);
            let limit = Duration(MAX_STEP);
            self.at(
                place,
                format!("`{name}` is {time}, which no drive takes"),
                "too long",
                Some(format!("the longest time is {limit}")),
            );
        }
        time.0
    }
}
