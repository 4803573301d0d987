//! What wear does, and what operations cost.

use super::*;
use crate::units::{Energy, Power};
use mynah_model::config;

/// The most that any one operation, or the drive, may cost.
const MAX_COST: u64 = 1_000_000_000;

impl Check<'_> {
    pub(super) fn wear(&mut self, wear: &schema::Wear) -> config::Wear {
        let limit = u32::MAX / 2;
        let mut count = |name, value: &Maybe<u32>, least| {
            value.as_ref().map(|value| self.count(name, value, least..=limit))
        };
        let static_threshold = count("wear.static_threshold", &wear.static_threshold, 2);
        let initial = count("wear.initial_cycles", &wear.initial_cycles, 0).unwrap_or(0);
        let endurance = count("wear.endurance", &wear.endurance, 1);
        let deviation = or(&wear.endurance_deviation, Fraction(0.0));
        if let Some(at) = &wear.endurance_deviation {
            if deviation.0 > 0.2 {
                self.wrong(
                    format!("`wear.endurance_deviation` must be at most 20%, not {deviation}"),
                    at,
                    "out of range",
                    None,
                );
            }
            if endurance.is_none() {
                self.without_effect(
                    at.span(),
                    None,
                    "`wear.endurance_deviation` has no effect: blocks endure for ever",
                    "give `wear.endurance`",
                );
            }
        }
        let worn = endurance.is_some_and(|endurance| initial >= endurance);
        if let Some(at) = wear.initial_cycles.as_ref().filter(|_| worn) {
            let message = "`wear.initial_cycles` is no less than `wear.endurance`: every block \
                           would be retired with its next erase";
            self.wrong(message, at, "nothing left", None);
        }
        config::Wear {
            dynamic: or(&wear.dynamic, false),
            static_threshold,
            initial,
            endurance,
            endurance_deviation: deviation.0,
            reads: self.worn_reads(wear),
        }
    }

    fn worn_reads(&mut self, wear: &schema::Wear) -> Option<config::WornReads> {
        match (&wear.retry, wear.retries.first()) {
            (Some(retry), None) => self.without_effect(
                retry.span(),
                None,
                "`wear.retry` has no effect: no read is retried",
                "give `wear.retries`",
            ),
            (None, Some(first)) => self.wrong(
                "`wear.retries` need a time: `wear.retry` is missing",
                first,
                "retries of what length?",
                Some("add `retry = \"…\"`, at least the page's read time".to_owned()),
            ),
            _ => {}
        }
        for (name, cycles) in [
            ("retries", wear.retries.iter().map(|at| (at.get().cycles, at.span())).collect()),
            ("decode", wear.decode.iter().map(|at| (at.get().cycles, at.span())).collect()),
        ] {
            let cycles: Vec<(u32, Range<usize>)> = cycles;
            for pair in cycles.windows(2).filter(|pair| pair[0].0 >= pair[1].0) {
                let message = format!("the points of `wear.{name}` must have ascending cycles");
                self.at(pair[1].1.clone(), message, "not above the point before", None);
            }
        }
        for at in wear.retries.iter().filter(|at| !(0.0..=100.0).contains(&at.get().mean)) {
            let message = format!("a mean of {} retries is not within 0 to 100", at.get().mean);
            self.wrong(message, at, "out of range", None);
        }
        for at in wear.decode.iter().filter(|at| at.get().time.0 > MAX_STEP) {
            self.wrong("no decoder takes this long", at, "too long", None);
        }
        if wear.retries.is_empty() && wear.decode.is_empty() {
            return None;
        }
        Some(config::WornReads {
            retries: wear.retries.iter().map(|at| (at.get().cycles, at.get().mean)).collect(),
            retry: self.span_or("wear.retry", &wear.retry, Span::ZERO),
            decode: wear.decode.iter().map(|at| (at.get().cycles, at.get().time.0)).collect(),
        })
    }

    pub(super) fn energy(&mut self, file: &File) -> Option<config::Energy> {
        let energy = file.energy.as_ref()?.get();
        let mut cost = |name: &str, value: u64, place: Range<usize>| {
            if value > MAX_COST {
                let message = format!("`energy.{name}` is more than any drive takes");
                self.at(place, message, "too much", Some("at most 1J, or 1000000W".to_owned()));
            }
            value
        };
        let mut joules = |name: &str, at: &At<Energy>| cost(name, at.get().0, at.span());
        let (read_nj, program_nj, erase_nj) = (
            joules("read", &energy.read),
            joules("program", &energy.program),
            joules("erase", &energy.erase),
        );
        let mut watts = |name: &str, value: &Maybe<Power>| {
            value.as_ref().map_or(0, |at| cost(name, at.get().0, at.span()))
        };
        Some(config::Energy {
            read_nj,
            program_nj,
            erase_nj,
            channel_mw: watts("channel", &energy.channel),
            idle_mw: watts("idle", &energy.idle),
        })
    }
}
