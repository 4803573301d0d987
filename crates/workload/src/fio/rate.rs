//! What `rate` and `rate_iops` come to for a flow, which has one rate.
//!
//! In fio each kind of request has a limit of its own (`backend.c`, `usec_for_io`; `options.c`, values for
//! reads, writes and trims). A job that mixes them goes on with the other kind when one has come to its
//! limit (`io_u.c`, `rate_ddir`), so with limits of both it does as many of each as their limits let it,
//! whatever its mix is.

use super::values::{self, Base};
use crate::FlowOptions;

/// The quantity that an option limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rate {
    /// fio's `rate`, in bytes per second.
    Bytes,
    /// fio's `rate_iops`, in requests per second.
    Requests,
}

/// The rate limit of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Limit {
    /// Requests per second.
    pub(super) requests: u64,
    /// Share of reads, if its limits say that.
    pub(super) reads: Option<f64>,
}

/// The rate limit of a job with these kinds of requests (0 reads, 1 writes, 2 trims); `None` if
/// `value` limits none of them.
pub(super) fn limit(
    rate: Rate,
    value: &str,
    base: Base,
    kinds: &[usize],
    options: &FlowOptions,
) -> Result<Option<Limit>, String> {
    let parts: Vec<&str> = value.split(',').collect();
    if parts.len() > 3 {
        return Err("one value each for reads, writes and trims, at most".to_owned());
    }
    // What is not given is as for the kind before; nothing between commas is no limit.
    let of = |kind: usize| -> Result<Option<f64>, String> {
        let text = parts.get(kind).or(parts.last()).copied().unwrap_or_default().trim();
        let own = if text.is_empty() { 0 } else { values::plain(text, base)? };
        let requests = match rate {
            Rate::Requests => own as f64,
            Rate::Bytes => own as f64 / mean_bytes(options, kind),
        };
        Ok((own > 0).then_some(requests))
    };
    let reads = options.rwmixread.as_deref().map_or("50", str::trim);
    let one = |requests: f64| Limit { requests: (requests.round() as u64).max(1), reads: None };
    let limits = match kinds {
        [0, 1] if reads == "100" => [of(0)?, None],
        [0, 1] if reads == "0" => [of(1)?, None],
        [0, 1] => match [of(0)?, of(1)?] {
            [Some(reads), Some(writes)] => {
                let both = reads + writes;
                return Ok(Some(Limit { reads: Some(reads / both), ..one(both) }));
            }
            [None, None] => return Ok(None),
            _ => {
                return Err(format!(
                    "`{value}`: fio does the kind without a limit as fast as it goes, whatever the mix \
                     is, which no flow does: give both a limit, or each a job of its own"
                ));
            }
        },
        [kind] => [of(*kind)?, None],
        _ => [None, None],
    };
    Ok(limits[0].map(one))
}

/// Mean bytes of a request of a kind.
fn mean_bytes(options: &FlowOptions, kind: usize) -> f64 {
    let number = |text: &str| text.parse::<f64>().ok();
    let own = |text: &Option<String>| {
        let text = text.as_deref()?;
        text.split(',').nth(kind).or(text.split(',').next_back()).map(str::to_owned)
    };
    if let Some(range) = own(&options.bsrange)
        && let Some((from, to)) = range.split_once('-')
        && let (Some(from), Some(to)) = (number(from), number(to))
    {
        return (from + to) / 2.0;
    }
    if let Some(split) = own(&options.bssplit) {
        let parts = split.split(':').filter_map(|part| part.split_once('/'));
        let parts = parts.filter_map(|(size, percent)| Some((number(size)?, number(percent)?)));
        let (bytes, percent) =
            parts.fold((0.0, 0.0), |sum, (size, part)| (sum.0 + size * part, sum.1 + part));
        if percent > 0.0 {
            return (bytes / percent).max(1.0);
        }
    }
    own(&options.bs).as_deref().and_then(number).unwrap_or(4096.0).max(1.0)
}
