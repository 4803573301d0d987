//! The section `[queues]`: submission and completion queues.

use super::declare::{Need, section};
use super::needs::NOT_ETHERNET;
use super::{ArbitrationName, File, LinkProtocolName};
use crate::at::{At, Maybe};
use crate::check::Check;
use mynah_model::config::{self, Arbitration, Weights};

/// Tags of native command queuing.
pub(crate) const NCQ_TAGS: u32 = 32;

static WEIGHTED: Need = Need {
    holds: |config| weights(&config.queues).is_some(),
    cause: |file| file.queues.arbitration.as_ref().map(At::span),
    why: "queues take turns whatever their priority",
    help: "use it with `arbitration = \"weighted\"`",
};

fn weights(queues: &config::Queues) -> Option<Weights> {
    match queues.arbitration {
        Arbitration::Weighted(weights) => Some(weights),
        Arbitration::RoundRobin => None,
    }
}

section! {
    /// Submission and completion queues.
    #[derive(Default)]
    Queues => config::Queues, shapes Never {
        /// How many commands of one submission queue may be in the controller at once
        /// (QueueFetchSize).
        fetch_size: Maybe<u32> = "512", in "1" to "65536", when NOT_ETHERNET, is fetch_size;
        /// Entries in each submission and completion queue.
        entries: Maybe<u32> = "1024", in "2" to "65536", is entries;
        /// Which queue has its turn.
        arbitration: Maybe<ArbitrationName> = "round-robin", when NOT_ETHERNET,
            shows |queues, _| weights(queues).map(|_| ArbitrationName::Weighted);
        /// With `arbitration = "weighted"`: commands of high priority in a round.
        high_weight: Maybe<u32> = "4", in "1" to "256", when NOT_ETHERNET | WEIGHTED,
            shows |queues, _| weights(queues).map(|it| it.high);
        /// The same of medium priority.
        medium_weight: Maybe<u32> = "2", in "1" to "256", when NOT_ETHERNET | WEIGHTED,
            shows |queues, _| weights(queues).map(|it| it.medium);
        /// The same of low priority.
        low_weight: Maybe<u32> = "1", in "1" to "256", when NOT_ETHERNET | WEIGHTED,
            shows |queues, _| weights(queues).map(|it| it.low);
        /// Entries fetched from one queue before the next queue's turn.
        arbitration_burst: Maybe<u32> = "1", in "1" to "64", when NOT_ETHERNET,
            is arbitration_burst;
        /// Commands of all queues that the controller can hold at once. Default: 65536, or the 32
        /// tags of native command queuing with SATA, which cannot have more.
        command_slots: Maybe<u32>, in "1", when NOT_ETHERNET,
            shows |queues, _| Some(queues.command_slots);
    }
    with |queues, check, file| {
        arbitration: queues.turns(check),
        command_slots: queues.slots(check, file),
    }
}

impl Queues {
    fn turns(&self, check: &mut Check<'_>) -> Arbitration {
        let weights = Weights {
            high: self.high_weight(check),
            medium: self.medium_weight(check),
            low: self.low_weight(check),
        };
        match self.arbitration(check) {
            ArbitrationName::RoundRobin => Arbitration::RoundRobin,
            ArbitrationName::Weighted => Arbitration::Weighted(weights),
        }
    }

    fn slots(&self, check: &mut Check<'_>, file: &File) -> u32 {
        let is_sata = file.link.get().protocol(check) == LinkProtocolName::Sata;
        match &self.command_slots {
            Some(at) if is_sata => check.count(at, 1..=NCQ_TAGS),
            None if is_sata => NCQ_TAGS,
            _ => self.command_slots(check).unwrap_or(65_536),
        }
    }
}
