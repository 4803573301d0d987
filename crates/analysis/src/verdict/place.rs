//! Where stages are. Their names are all that is known of them: a profile names its own.

use mynah_stamp::Stage;

/// What an I/O passes, in parts that one thing at a time can slow down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// It waits for a free entry of its queue.
    Slots,
    /// The host's processor and its connection's output.
    HostSend,
    /// The host's processor.
    Host,
    /// Network from the host to the target.
    Request,
    /// Rounds for buffers of write data (R2T).
    Buffers,
    /// The target's processor.
    Target,
    /// What comes to a modelled completion late.
    Late,
    /// Answers that wait behind others in the connection's output.
    TargetSend,
    Drive,
    /// Network from the target to the host.
    Response,
    /// All that a host alone does not see.
    Remote,
    /// A stage of which nothing more is known.
    Other,
}

impl Place {
    pub(super) const ALL: [Place; 12] = [
        Place::Slots,
        Place::HostSend,
        Place::Host,
        Place::Request,
        Place::Buffers,
        Place::Target,
        Place::Late,
        Place::TargetSend,
        Place::Drive,
        Place::Response,
        Place::Remote,
        Place::Other,
    ];

    /// The place of the stage with this name.
    pub(super) fn of(stage: &str) -> Place {
        match stage {
            "host_queue" => Place::Slots,
            "host_submit" => Place::HostSend,
            "host_turn" | "host_receive" | "host_complete" => Place::Host,
            "network_request" | "network_data" => Place::Request,
            "data_request" | "data_buffer" | "r2t_wait" | "r2t_further" => Place::Buffers,
            "intake" | "processing" => Place::Target,
            // Of a PCI function.
            "entry_fetch" | "data_transfer" | "completion_post" => Place::Target,
            "late" => Place::Late,
            "backlog" | "output" => Place::TargetSend,
            "network_response" | "network_r2t" => Place::Response,
            "remote" => Place::Remote,
            _ if Stage::OF_DRIVE.iter().chain(&Stage::OF_LINK).any(|it| it.name() == stage) => {
                Place::Drive
            }
            _ => Place::Other,
        }
    }

    /// As it is called, with the switch of ntprof's that it is (section 3.1 and figure 4; S and C are
    /// submission and completion).
    pub(super) fn name(self) -> &'static str {
        match self {
            Place::Slots => "S1(S) the host's queues",
            Place::HostSend => "S2(S) the host's sends",
            Place::Host => "S2(C) the host",
            Place::Request => "S3-S5(S) the network to the target",
            Place::Buffers => "S6(S) buffers for write data",
            Place::Target => "S6(S) the target",
            Place::Late | Place::TargetSend => "S6(C) the target's answers",
            Place::Drive => "S7-S9 the drive",
            Place::Response => "S5-S3(C) the network to the host",
            Place::Remote => "S3-S9 beyond the host",
            Place::Other => "a stage that is not known here",
        }
    }
}

/// The switch of ntprof that a stage of this name is in; of one that is not known, none.
pub(crate) fn switch_of(stage: &str) -> Option<&'static str> {
    match Place::of(stage) {
        Place::Slots => Some("S1"),
        Place::HostSend | Place::Host => Some("S2"),
        Place::Request | Place::Response => Some("S3-S5"),
        Place::Buffers | Place::Target | Place::Late | Place::TargetSend => Some("S6"),
        Place::Drive => Some("S7-S9"),
        Place::Remote => Some("S3-S9"),
        Place::Other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{BEFORE, BEHIND};
    use mynah_profile::HOST_STAGES;

    #[test]
    fn every_stage_of_ours_has_a_place() {
        for stage in Stage::ALL {
            assert_ne!(Place::of(stage.name()), Place::Other, "{}", stage.name());
        }
        let of_target = ["data_request", "intake", "processing", "late", "backlog", "output"];
        let of_function = ["entry_fetch", "data_transfer", "completion_post"];
        let all =
            of_target.iter().chain(&of_function).chain(&HOST_STAGES).chain(&BEFORE).chain(&BEHIND);
        for stage in all {
            assert_ne!(Place::of(stage), Place::Other, "{stage}");
        }
        assert_eq!(Place::of("doorbell_of_another"), Place::Other);
        assert!(Place::ALL.iter().all(|place| !place.name().is_empty()));
    }
}
