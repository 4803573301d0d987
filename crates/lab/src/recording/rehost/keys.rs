//! Key-value commands of a recorded run in front of another drive, which decides about them at other
//! instants, and so may find other pairs.
//!
//! What is there is known by the tokens of keys. Of what a recording does not say of a command, the
//! decision that was recorded about it says more: how many bytes of keys a List found, and what a
//! Store was to find. One that was refused, or found nothing to replace, has the same condition
//! here; one that was carried out is carried out here, too.

use super::{FeedError, Origin, Recording, RecordingError, Rehost};
use crate::recording::key::{KeyDone, Pairs};
use mynah_model::Drive;
use mynah_model::io::Tag;
use mynah_model::keys::{Decision, KeyOperation, KeyRequest};
use mynah_stamp::Time;
use rustc_hash::{FxHashMap, FxHashSet};

/// The pairs that exist on this drive, and recorded decisions that commands here depend on.
#[derive(Default)]
pub(super) struct KeysRehosted {
    pub(super) pairs: Pairs,
    misses: u64,
    /// Commands, by this drive's tags, about which the recorded decision has to be known and has not
    /// been read; and those decisions.
    undecided: FxHashSet<u32>,
    decisions: FxHashMap<u32, Decision>,
}

impl KeysRehosted {
    pub(super) fn new(pairs: Pairs) -> KeysRehosted {
        KeysRehosted { pairs, ..KeysRehosted::default() }
    }

    /// Called when a command has been read from the recording.
    pub(super) fn read(&mut self, request: &KeyRequest) {
        self.pairs.uses(request.namespace);
        if matches!(request.operation, KeyOperation::StoreIf | KeyOperation::List) {
            self.undecided.insert(request.tag.0);
        }
    }

    /// Called when a command's decision has been read from the recording.
    pub(super) fn read_decision(&mut self, tag: u32, decision: Decision) {
        if self.undecided.remove(&tag) {
            self.decisions.insert(tag, decision);
        }
    }

    /// Called when a command's completion on the recorded drive has been read.
    pub(super) fn read_completion(&mut self, tag: u32) {
        self.undecided.remove(&tag);
    }

    /// Called when a reset or power cut, which drops all commands, has been read.
    pub(super) fn read_reset(&mut self) {
        self.undecided.clear();
    }

    /// Called when this drive has completed the command.
    pub(super) fn completed(&mut self, tag: u32) {
        self.decisions.remove(&tag);
    }

    /// The decision about a command on this drive.
    fn choose(&mut self, request: &KeyRequest, recorded: Option<Decision>) -> Decision {
        let KeyRequest { operation, namespace, token, bytes: room, .. } = *request;
        let found = self.pairs.find(namespace, token);
        match (operation, found) {
            (KeyOperation::List, _) => match recorded {
                Some(keys @ Decision::Keys { .. }) => keys,
                _ => Decision::Keys { bytes: 4 },
            },
            (KeyOperation::StoreIf, Some(known))
                if matches!(recorded, Some(Decision::Refused { .. })) =>
            {
                Decision::Refused { pair: known.pair }
            }
            (KeyOperation::StoreIf, None) if recorded == Some(Decision::Absent) => Decision::Absent,
            (KeyOperation::Store | KeyOperation::StoreIf, _) => {
                let pair = found.map(|known| known.pair);
                let pair = pair.unwrap_or_else(|| self.pairs.take_name(namespace));
                Decision::Pair { pair, bytes: 0 }
            }
            (_, None) => Decision::Absent,
            (KeyOperation::Retrieve, Some(known)) => {
                Decision::Pair { pair: known.pair, bytes: known.value.min(room) }
            }
            (_, Some(known)) => Decision::Pair { pair: known.pair, bytes: 0 },
        }
    }

    /// Gives the drive the decision about a command.
    fn decide(&mut self, drive: &mut Drive, at: Time, done: &mut KeyDone) -> Result<(), FeedError> {
        let request = done.request;
        let existed = self.pairs.find(request.namespace, request.token).is_some();
        let recorded = self.decisions.remove(&request.tag.0);
        let decision = self.choose(&request, recorded);
        done.decide(decision, existed);
        self.misses += u64::from(done.misses(decision));
        if drive.decided(at, request.tag, decision)? {
            if let Some(free) = self.pairs.decided(&request, decision) {
                self.pairs.give_back(request.namespace, free);
            }
        } else if let (Decision::Pair { pair, .. }, false) = (decision, existed) {
            self.pairs.give_back(request.namespace, pair);
        }
        Ok(())
    }
}

impl Rehost {
    /// What is left of pairs, and how many commands found no key.
    pub(in crate::recording) fn into_pairs_and_misses(self) -> (Pairs, u64) {
        (self.keys.pairs, self.keys.misses)
    }

    /// Restarts the count of commands that found no key, at the end of the ramp.
    pub(in crate::recording) fn forget_misses(&mut self) {
        self.keys.misses = 0;
    }

    /// Answers the drive's request for a decision. Reads the recording ahead if the recorded
    /// decision is needed for that.
    pub(super) fn decide(
        &mut self,
        recording: &mut Recording,
        drive: &mut Drive,
        at: Time,
        tag: Tag,
    ) -> Result<(), RecordingError> {
        while self.keys.undecided.contains(&tag.0) && !self.ended {
            self.read_on(recording)?;
        }
        let origin = self.commands.get_mut(&tag.0).map(|command| &mut command.origin);
        let decided = match origin {
            Some(Origin::Key(done)) => self.keys.decide(drive, at, done),
            // Its queue has gone.
            _ => drive.decided(at, tag, Decision::Absent).map(drop).map_err(FeedError::from),
        };
        decided.map_err(|error| recording.unfit(at, error))
    }
}
