//! The section `[wear]`: what wear does, and how it is levelled.

use super::declare::{Need, no_keys, section};
use super::needs::{ERASES, page_mapped};
use super::value::quoted;
use crate::at::{At, Maybe};
use crate::check::Check;
use crate::units::{Duration, Fraction};
use mynah_model::config::{self, WornReads};
use mynah_stamp::Span;
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::Range;

static MOVES_BLOCKS: Need =
    page_mapped("data blocks of hybrid mapping are not moved to level wear");

static ENDURANCE: Need = Need {
    holds: |config| config.wear.endurance.is_some(),
    cause: |_| None,
    why: "blocks endure for ever",
    help: "give `wear.endurance`",
};

static RETRIES: Need = Need {
    holds: |config| config.wear.reads.as_ref().is_some_and(|reads| !reads.retries.is_empty()),
    cause: |_| None,
    why: "no read is retried",
    help: "give `wear.retries`",
};

section! {
    /// What wear does, and how it is levelled.
    #[derive(Default)]
    Wear => config::Wear {
        /// Whether the block that is opened is the free one with the fewest erases (dynamic
        /// levelling), or the one that has been free longest.
        dynamic: Maybe<bool> = "false", is dynamic;
        /// Static levelling: before the erase counts of a plane's blocks differ by more than this,
        /// the data of its least worn block moves to its most worn free one.
        /// Default: never.
        static_threshold: Maybe<u32>, in "2" to "2147483647", when ERASES | MOVES_BLOCKS,
            is static_threshold;
        /// Erases of every block when the drive is built.
        initial_cycles: Maybe<u32> = "0", in "0" to "2147483647", is initial;
        /// Rated P/E cycles: erases that a block endures before it is retired. Without spare
        /// blocks the drive takes no more writes; nor when so many blocks of a plane have worn out one
        /// after the other that what the cache holds would find no free one. From then on worn-out
        /// blocks are used on, so that all that it has taken finds a place. Default: no end.
        endurance: Maybe<u32>, in "1" to "2147483647", is endurance;
        /// With `endurance`: its relative standard deviation from block to block.
        endurance_deviation: Maybe<Fraction> = "0%", in "0%" to "20%", when ENDURANCE,
            is endurance_deviation;
        /// Mean number of retries of a page read, by the P/E cycles of its block; between points
        /// interpolated. Default: none.
        #[serde(default)]
        retries: Vec<At<RetryPoint>>, writes |wear, _| retries(wear.reads.as_ref()?);
        /// With `retries`: how long the die is occupied by one retry (array read, transfer,
        /// decoding).
        retry: Maybe<Duration>, when RETRIES, shows |wear, _| Some(wear.reads.as_ref()?.retry);
        /// Time to decode a page after its transfer (ECC), by the P/E cycles of its block; between
        /// points interpolated. Default: 0.
        #[serde(default)]
        decode: Vec<At<DecodePoint>>, writes |wear, _| decode(wear.reads.as_ref()?);
    }
    with |wear, check, _file| { reads: wear.worn_reads(check) }
}

/// Retries of page reads at some wear.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryPoint {
    /// P/E cycles of the block; ascending from point to point.
    pub(crate) cycles: u32,
    /// Mean number of retries of a page read, up to 100.
    pub(crate) mean: f64,
}

/// Decoding time at some wear.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecodePoint {
    /// P/E cycles of the block; ascending from point to point.
    pub(crate) cycles: u32,
    /// From the end of the page's transfer until its data can be used.
    pub(crate) time: Duration,
}

no_keys!(RetryPoint, DecodePoint);

fn list(points: Vec<String>) -> Option<String> {
    (!points.is_empty()).then(|| format!("[{}]", points.join(", ")))
}

fn retries(reads: &WornReads) -> Option<String> {
    let point = |(cycles, mean): &(u32, f64)| format!("{{ cycles = {cycles}, mean = {mean:?} }}");
    list(reads.retries.iter().map(point).collect())
}

fn decode(reads: &WornReads) -> Option<String> {
    let point = |(cycles, time): &(u32, Span)| {
        format!("{{ cycles = {cycles}, time = {} }}", quoted(Duration(*time)))
    };
    list(reads.decode.iter().map(point).collect())
}

impl Wear {
    /// Notes what no wear is.
    pub(crate) fn check(&self, check: &mut Check<'_>) {
        if let (Some(initial), Some(endurance)) = (&self.initial_cycles, &self.endurance)
            && initial.get() >= endurance.get()
        {
            let message = "`wear.initial_cycles` is no less than `wear.endurance`: every block \
                           would be retired with its next erase";
            check.wrong(message, initial, "nothing left", None);
        }
        if let (None, Some(first)) = (&self.retry, self.retries.first()) {
            check.wrong(
                "`wear.retries` need a time: `wear.retry` is missing",
                first,
                "retries of what length?",
                Some("add `retry = \"…\"`, at least the page's read time".to_owned()),
            );
        }
        for (name, cycles) in [
            ("retries", self.retries.iter().map(|at| (at.get().cycles, at.span())).collect()),
            ("decode", self.decode.iter().map(|at| (at.get().cycles, at.span())).collect()),
        ] {
            let cycles: Vec<(u32, Range<usize>)> = cycles;
            for pair in cycles.windows(2).filter(|pair| pair[0].0 >= pair[1].0) {
                let message = format!("the points of `wear.{name}` must have ascending cycles");
                check.at(pair[1].1.clone(), message, "not above the point before", None);
            }
        }
        for at in self.retries.iter().filter(|at| !(0.0..=100.0).contains(&at.get().mean)) {
            let message = format!("a mean of {} retries is not within 0 to 100", at.get().mean);
            check.wrong(message, at, "out of range", None);
        }
        for at in &self.decode {
            check.time(at.get().time, at.span());
        }
    }

    fn worn_reads(&self, check: &mut Check<'_>) -> Option<WornReads> {
        if self.retries.is_empty() && self.decode.is_empty() {
            return None;
        }
        Some(WornReads {
            retries: self.retries.iter().map(|at| (at.get().cycles, at.get().mean)).collect(),
            retry: self.retry(check).unwrap_or(Span::ZERO),
            decode: self.decode.iter().map(|at| (at.get().cycles, at.get().time.0)).collect(),
        })
    }
}
