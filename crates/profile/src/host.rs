//! What profiles of hosts have in common, whichever host wrote them.

/// What a host's I/Os go through, as it sees it.
pub const HOST_STAGES: [&str; 8] = [
    "host_queue",
    "host_submit",
    "r2t_wait",
    "host_turn",
    "r2t_further",
    "remote",
    "host_receive",
    "host_complete",
];

/// What a host's profile has beside its stages where its capsules were counted from the start of the
/// connection: then a record's number is that of the target.
pub const CAPSULES_COUNTED: &str = "counted";
