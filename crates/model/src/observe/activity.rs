//! What dies and channels did, piece by piece: for timelines. Nothing is kept unless it is
//! asked for.

use crate::io::FlowId;
use crate::number::Channel;
use crate::observe::Observe;
use crate::observe::stats::Holder;
use mynah_stamp::Time;
use serde::{Deserialize, Serialize};

/// What a die or a channel was busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ActivityKind {
    /// A die read, from the command to the last byte that left it.
    Read,
    /// A die programmed, from the command on.
    Program,
    /// A die erased, from the command on.
    Erase,
    /// A channel was taken: by a command and the data that go with it, or by read data.
    Transfer,
}

impl ActivityKind {
    /// The kind's name in timelines.
    pub const fn name(self) -> &'static str {
        match self {
            ActivityKind::Read => "read",
            ActivityKind::Program => "program",
            ActivityKind::Erase => "erase",
            ActivityKind::Transfer => "transfer",
        }
    }
}

/// A stretch of time in which a die or a channel was busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// What it did. A [`ActivityKind::Transfer`] is a channel's, all else a die's.
    pub kind: ActivityKind,
    /// Which die or channel, among all of the drive.
    pub index: u32,
    pub holder: Holder,
    pub start: Time,
    pub end: Time,
}

impl Observe {
    /// A channel is about to be free, from `at` on.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_channel(&mut self, channel: Channel, at: Time) {
        if let Some((by, start)) = self.ledger.channel_tenant(channel) {
            let kind = ActivityKind::Transfer;
            self.note(Activity {
                kind,
                index: channel.0,
                holder: self.flows.holder(by),
                start,
                end: at,
            });
        }
    }

    /// Keeps what has ended, if anybody wants it.
    pub(crate) fn note(&mut self, activity: Activity) {
        if let Some(activities) = &mut self.activity {
            activities.push(activity);
        }
    }
}

impl Holder {
    /// `None` for the drive's own work.
    pub fn flow(self) -> Option<FlowId> {
        match self {
            Holder::Flow(flow) => Some(flow),
            Holder::GarbageCollection
            | Holder::CollectionFor(_)
            | Holder::Folding
            | Holder::MappingTable
            | Holder::Index
            | Holder::Compaction => None,
        }
    }
}
