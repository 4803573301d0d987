//! Traces of caches in lines of JSON: requests to a language model, with the blocks of their prompts.

use super::{BLOCKS_MAX, Event};
use serde::Deserialize;

/// Of a request, what matters. Others are passed over.
#[derive(Deserialize)]
struct Request {
    timestamp: Option<f64>,
    hash_ids: Vec<u64>,
}

/// A request, whose times count so many microseconds.
pub(super) fn request(line: &str, tick_us: f64) -> Result<Event, String> {
    let request: Request = serde_json::from_str(line).map_err(|error| error.to_string())?;
    if request.hash_ids.len() > BLOCKS_MAX {
        return Err(format!("it has more than {BLOCKS_MAX} blocks"));
    }
    let at_us = match request.timestamp {
        Some(at) if (0.0..1e13).contains(&at) => Some((at * tick_us) as u64),
        Some(at) => return Err(format!("{at} is no time")),
        None => None,
    };
    Ok(Event::Prefix { at_us, blocks: request.hash_ids })
}
