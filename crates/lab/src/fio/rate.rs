//! What `rate` and `rate_iops` come to for a flow, which has one rate.
//!
//! In fio each kind of request has a limit of its own (`backend.c`, `usec_for_io`; `options.c`, values for
//! reads, writes and trims). A job that mixes them chooses the next one whatever its limits are, and waits
//! for the one that it has chosen: the kind that comes to its limit first holds up the others.

use super::values::{self, Base};
use crate::workload::FlowOptions;

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rate {
    /// `rate`: bytes a second.
    Bytes,
    /// `rate_iops`.
    Requests,
}

/// Requests a second of a job with these limits and kinds of requests (0 reads, 1 writes, 2 trims);
/// `None` without a limit.
pub(super) fn limit(
    rate: Rate,
    value: &str,
    base: Base,
    kinds: &[usize],
    options: &FlowOptions,
) -> Result<Option<u64>, String> {
    let parts: Vec<&str> = value.split(',').collect();
    if parts.len() > 3 {
        return Err("one value each for reads, writes and trims, at most".to_owned());
    }
    let reads = match &options.rwmixread {
        Some(percent) => percent.parse().unwrap_or(50.0),
        None => 50.0,
    };
    let mut least: Option<f64> = None;
    for &kind in kinds {
        let share = match (kinds.len(), kind) {
            (1, _) => 1.0,
            (_, 0) => reads / 100.0,
            _ => 1.0 - reads / 100.0,
        };
        // What is not given is as for the kind before; nothing between commas is no limit.
        let text = parts.get(kind).or(parts.last()).copied().unwrap_or_default().trim();
        let own = if text.is_empty() { 0 } else { values::plain(text, base)? };
        if own == 0 || share <= 0.0 {
            continue;
        }
        let requests = match rate {
            Rate::Requests => own as f64,
            Rate::Bytes => own as f64 / mean_bytes(options),
        };
        let all = requests / share;
        least = Some(least.map_or(all, |other| other.min(all)));
    }
    Ok(least.map(|all| (all.round() as u64).max(1)))
}

/// Mean bytes of a request.
fn mean_bytes(options: &FlowOptions) -> f64 {
    let number = |text: &str| text.parse::<f64>().ok();
    if let Some(range) = &options.bsrange
        && let Some((from, to)) = range.split_once('-')
        && let (Some(from), Some(to)) = (number(from), number(to))
    {
        return (from + to) / 2.0;
    }
    if let Some(split) = &options.bssplit {
        let parts = split.split(':').filter_map(|part| part.split_once('/'));
        let parts = parts.filter_map(|(size, percent)| Some((number(size)?, number(percent)?)));
        let (bytes, percent) =
            parts.fold((0.0, 0.0), |sum, (size, part)| (sum.0 + size * part, sum.1 + part));
        if percent > 0.0 {
            return (bytes / percent).max(1.0);
        }
    }
    options.bs.as_deref().and_then(number).unwrap_or(4096.0).max(1.0)
}
