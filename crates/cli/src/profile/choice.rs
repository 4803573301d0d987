//! Which I/Os are to have records, as options say it.

use crate::args::{LiveProfile, ProfileChoice};
use crate::failure::Failure;
use mynah_analysis::{
    ChoiceTextError, parse_every, parse_filter, parse_keep_above, parse_sampling,
};
use mynah_profile::{Choice, ChoiceError, Chooser, io_kinds};

/// What is kept beside a sample unless something else is said.
const KEEP_ABOVE: &str = "p99.9";

/// Which I/Os are to have records.
pub(crate) fn choice(args: &ProfileChoice) -> Result<Choice, Failure> {
    choice_or(args, None)
}

/// Like [`choice`]; without other options this sample, and the slow I/Os beside it.
pub(crate) fn choice_or(args: &ProfileChoice, sample: Option<&str>) -> Result<Choice, Failure> {
    let ProfileChoice { profile_sample, profile_every, profile_filter, profile_keep_above } = args;
    let every = profile_every.as_deref();
    let given = profile_sample.as_deref();
    let is_all = every.is_none() && given.is_some_and(|text| matches!(text.trim(), "1" | "1/1"));
    let keep_above = match profile_keep_above.as_deref() {
        Some("none") => None,
        None if sample.is_some() && !is_all => Some(KEEP_ABOVE),
        given => given,
    };
    let sample = given.or(sample.filter(|_| every.is_none()));
    let filters = &profile_filter[..];
    ChoiceOptions { prefix: "--profile-", sample, every, filters, keep_above }.choice()
}

/// Like [`choice`], for I/Os that are watched live: the slow ones are kept beside any sample.
pub(super) fn live(sample: &str, taken: &LiveProfile) -> Result<Choice, Failure> {
    let is_all = taken.every.is_none() && matches!(sample.trim(), "1" | "1/1");
    let keep_above = match taken.keep_above.as_deref() {
        None => (!is_all).then_some(KEEP_ABOVE),
        Some("none") => None,
        some => some,
    };
    let (every, filters) = (taken.every.as_deref(), &taken.filter[..]);
    let sample = every.is_none().then_some(sample);
    ChoiceOptions { prefix: "--", sample, every, filters, keep_above }.choice()
}

/// The options about a choice of I/Os; their names begin with `prefix`.
struct ChoiceOptions<'a> {
    prefix: &'static str,
    sample: Option<&'a str>,
    every: Option<&'a str>,
    filters: &'a [String],
    keep_above: Option<&'a str>,
}

impl ChoiceOptions<'_> {
    fn choice(&self) -> Result<Choice, Failure> {
        let wrong = |option: &str, error: ChoiceTextError| {
            Failure::usage(format!("{}{option}: {error}", self.prefix), None)
        };
        let mut choice = Choice::default();
        if let Some(text) = self.sample {
            choice.sampling = parse_sampling(text).map_err(|error| wrong("sample", error))?;
        }
        if let Some(text) = self.every {
            choice.sampling = parse_every(text).map_err(|error| wrong("every", error))?;
        }
        for text in self.filters {
            choice.filters.push(parse_filter(text).map_err(|error| wrong("filter", error))?);
        }
        if let Some(text) = self.keep_above {
            choice.keep_above =
                parse_keep_above(text).map_err(|error| wrong("keep-above", error))?;
        }
        match Chooser::new(choice.clone(), &io_kinds()) {
            Ok(_) => Ok(choice),
            Err(error) => {
                let option = match error {
                    ChoiceError::KeepsAll => "keep-above",
                    _ => "filter",
                };
                Err(Failure::usage(format!("{}{option}: {error}", self.prefix), None))
            }
        }
    }
}
