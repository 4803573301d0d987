//! A trace that was stored: descriptions of events, a zero byte, and pages of 4 KiB of all
//! processors. For tests and the fuzz target.

use super::{Decoder, EndedIo, EventFormat, HOOKS, Initiator, Missed, Page, TimedEvent};

const PAGE: usize = 4096;

/// What becomes of a stored trace.
#[derive(Debug)]
pub struct Replayed {
    pub ended: Vec<EndedIo>,
    /// The state machine after the last event, with its counts.
    pub initiator: Initiator,
    /// Events that were decoded.
    pub events: usize,
}

/// Reads a stored trace, whatever it is.
pub fn replay(data: &[u8]) -> Replayed {
    let (text, pages) = match data.iter().position(|&byte| byte == 0) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[][..]),
    };
    let mut decoder = Decoder::default();
    for text in String::from_utf8_lossy(text).split("name: ").skip(1).take(HOOKS.len()) {
        let Ok(format) = EventFormat::parse(&format!("name: {text}")) else { continue };
        let of = HOOKS.iter().find(|of| {
            of.name == format.name || of.alternatives[0].at.rsplit('/').next() == Some(&format.name)
        });
        if let Some(of) = of {
            let _ = decoder.add(of.hook, &format);
        }
    }
    let (mut seen, mut missed): (Vec<TimedEvent>, Vec<u64>) = (vec![], vec![]);
    for bytes in pages.chunks(PAGE) {
        let Ok(mut page) = Page::new(bytes) else { continue };
        let mut is_missing = page.missed() != Missed::Nothing;
        for entry in &mut page {
            if std::mem::take(&mut is_missing) {
                missed.push(entry.time);
            }
            seen.extend(decoder.decode(entry.time, entry.payload));
        }
    }
    seen.sort_by_key(|seen| seen.time);
    let origin = seen.first().map_or(0, |seen| seen.time.saturating_sub(1_000_000_000));
    let mut initiator = Initiator::new(origin);
    missed.iter().for_each(|&until| initiator.missed(until));
    let ended = seen.iter().filter_map(|seen| initiator.take(seen)).collect();
    Replayed { ended, initiator, events: seen.len() }
}
