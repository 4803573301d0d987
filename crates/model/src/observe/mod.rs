//! What is seen of a drive: counters, who delayed whom, what dies and channels did, what it looks
//! like now.

pub(crate) mod account;
pub(crate) mod activity;
pub(crate) mod blame;
pub(crate) mod gauge;
pub mod stats;
pub mod turnover;

use crate::config::Geometry;
use activity::Activity;
use blame::{BlameMatrix, Ledger};
use mynah_stamp::Time;
use stats::Counters;
use turnover::TurnoverBooks;

/// Everything that is counted, and nothing that anything depends on.
pub(crate) struct Observe {
    pub(crate) ledger: Ledger,
    pub(crate) blame: BlameMatrix,
    pub(crate) holders: usize,
    pub(crate) counters: Counters,
    pub(crate) turnover: TurnoverBooks,
    /// What dies and channels did and nobody has taken, if anybody wants to.
    pub(crate) activity: Option<Vec<Activity>>,
    /// When counting began, and what was booked on the link by then.
    pub(crate) counting_since: Time,
    pub(crate) counting_offset: Counters,
}

impl Observe {
    /// Nothing has been counted. A lane is a die, or a chip whose dies do not interleave.
    pub(crate) fn new(geometry: &Geometry, lanes: usize) -> Observe {
        let channels = geometry.channels as usize;
        Observe {
            ledger: Ledger::new(lanes, channels),
            blame: BlameMatrix::default(),
            holders: 0,
            counters: Counters {
                channel_busy: vec![Default::default(); channels],
                die_busy: vec![Default::default(); geometry.dies() as usize],
                ..Counters::default()
            },
            turnover: TurnoverBooks::default(),
            activity: None,
            counting_since: Time::ZERO,
            counting_offset: Counters::default(),
        }
    }
}
