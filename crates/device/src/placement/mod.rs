//! Data placement as hosts see it (Flexible Data Placement, Base 2.1, section 8.1.10): whether it is
//! enabled, which events are wanted of which reclaim unit handle, those that have happened, and since
//! when bytes are counted. Where data go is the model's doing.
//!
//! The whole drive is one endurance group with one reclaim group and one configuration, so a placement
//! identifier is the number of a placement handle in its namespace's list.

mod events;

pub(crate) use events::{Event, Events, TYPES};

use mynah_model::config::{DataPlacement, Isolation};
use mynah_stamp::{Span, Time};

/// Data that collection has moved are told of no more often, and then of one reclaim unit handle: its
/// events would drive all others out of the log within a second otherwise.
const REALLOCATED_INTERVAL: Span = Span::from_secs(1);

/// What was written and erased, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bytes {
    /// By hosts.
    pub(crate) host: u128,
    /// To the media, whatever it was.
    pub(crate) media: u128,
    pub(crate) erased: u128,
}

/// See the file's description.
#[derive(Debug)]
pub(crate) struct Placement {
    handles: u8,
    isolation: Isolation,
    is_enabled: bool,
    /// What was counted when it was enabled or disabled last.
    from: Bytes,
    events: Events,
    /// Units that collection had moved of each reclaim unit handle when that was told last.
    told: Vec<u64>,
    /// When it is told again at the earliest, on the drive's clock.
    next_told: Time,
}

impl Placement {
    /// That of a drive that has it: enabled from the start.
    pub(crate) fn new(config: &DataPlacement) -> Placement {
        Placement {
            handles: config.handles,
            isolation: config.isolation,
            is_enabled: true,
            from: Bytes::default(),
            events: Events::new(config.handles),
            told: vec![0; config.handles.into()],
            next_told: Time::ZERO,
        }
    }

    /// NRUH: reclaim unit handles.
    pub(crate) fn handles(&self) -> u8 {
        self.handles
    }

    /// RUHT: what becomes of data that collection moves.
    pub(crate) fn kind(&self) -> u8 {
        match self.isolation {
            Isolation::Initial => 1,
            Isolation::Persistent => 2,
        }
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// It is enabled or disabled from now on, where it was not: events are gone, and counting begins
    /// anew (section 8.1.10.1).
    pub(crate) fn enable(&mut self, enables: bool, counted: Bytes) {
        self.is_enabled = enables;
        self.from = counted;
        self.events = Events::new(self.handles);
    }

    /// Restores whether it is enabled from what an earlier process has kept.
    pub(crate) fn restore(&mut self, is_enabled: bool) {
        self.is_enabled = is_enabled;
    }

    /// Of what the drive has counted, what came since it was enabled.
    pub(crate) fn since_enabled(&self, counted: Bytes) -> Bytes {
        Bytes {
            host: counted.host.saturating_sub(self.from.host),
            media: counted.media.saturating_sub(self.from.media),
            erased: counted.erased.saturating_sub(self.from.erased),
        }
    }

    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    pub(crate) fn events_mut(&mut self) -> &mut Events {
        &mut self.events
    }

    /// Whether hosts may be told now of data that collection has moved.
    #[inline]
    pub(crate) fn may_tell_of_moved(&self, now: Time) -> bool {
        self.next_told <= now
    }

    /// Of units that collection has moved by now, by reclaim unit handle: the handle of which most were
    /// moved that nobody was told of, and how many, if its host wants to know. Nobody is told of what
    /// is not wanted, or is of handles that keep their data to themselves whatever happens (section
    /// 5.1.12.1.31.2.1).
    pub(crate) fn take_moved(&mut self, now: Time, moved: &[u64]) -> Option<(u8, u64)> {
        self.next_told = now + REALLOCATED_INTERVAL;
        let mut most: Option<(u8, u64)> = None;
        for ((handle, told), &moved) in (0..).zip(&mut self.told).zip(moved) {
            let is_wanted = self.is_enabled
                && self.isolation == Isolation::Initial
                && self.events.wants(handle, events::MEDIA_REALLOCATED);
            if !is_wanted {
                *told = moved;
            }
            let units = moved.saturating_sub(*told);
            if units > most.map_or(0, |(_, most)| most) {
                most = Some((handle, units));
            }
        }
        let (handle, _) = most?;
        self.told[usize::from(handle)] = moved[usize::from(handle)];
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_model::config::Victims;

    fn placement(isolation: Isolation) -> Placement {
        let (victims, superblocks) = (Victims::All, 1);
        Placement::new(&DataPlacement { handles: 3, isolation, victims, superblocks })
    }

    #[test]
    fn what_was_moved_is_told_once_of_whoever_wants_it() {
        let mut placement = placement(Isolation::Initial);
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        assert_eq!(placement.take_moved(at(0), &[9, 9, 9]), None);
        for handle in [0, 2] {
            assert!(placement.events_mut().want(handle, &[events::MEDIA_REALLOCATED], true));
        }
        assert!(!placement.may_tell_of_moved(at(0)) && placement.may_tell_of_moved(at(1)));
        assert_eq!(placement.take_moved(at(1), &[10, 50, 12]), Some((2, 3)));
        assert_eq!(placement.take_moved(at(2), &[10, 60, 12]), Some((0, 1)));
        assert_eq!(placement.take_moved(at(3), &[10, 70, 12]), None);
    }

    #[test]
    fn nothing_is_moved_away_from_persistently_isolated_data() {
        let mut placement = placement(Isolation::Persistent);
        assert!(placement.events_mut().want(0, &[events::MEDIA_REALLOCATED], true));
        assert_eq!(placement.take_moved(Time::ZERO, &[5, 0, 0]), None);
    }
}
