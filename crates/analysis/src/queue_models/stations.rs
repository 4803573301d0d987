//! Which stage is a queue of which kind: ntprof's three (section 3.2), for the stages that a profile
//! may have.

use super::super::presence::Scope;

/// How those who wait are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Discipline {
    /// By one server, or several, in the order in which they came.
    Central,
    /// By one of several servers, which depends on what they want.
    Split,
    /// Processor sharing: all I/Os are served at once.
    Sharing,
}

/// What I/Os in a stage wait for, and how long they hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// The stage is wait and service in one.
    Itself,
    /// The stage is the wait; what is waited for is held until the end of this stage, or of all.
    Until(&'static str),
    /// As `Until`, to the end of the I/O's last stage.
    ToTheEnd,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Station {
    pub(super) stage: &'static str,
    pub(super) held: Held,
    pub(super) scope: Scope,
    pub(super) discipline: Discipline,
}

const fn station(stage: &'static str, held: Held, scope: Scope, discipline: Discipline) -> Station {
    Station { stage, held, scope, discipline }
}

/// Stages that are queues for something of which there is one, or which one can count. Others (rounds
/// for buffers, cache, mapping) wait for what records do not name.
pub(super) const ALL: [Station; 16] = [
    station("host_queue", Held::ToTheEnd, Scope::Queue, Discipline::Central),
    station("host_submit", Held::Itself, Scope::Queue, Discipline::Central),
    station("network_request", Held::Itself, Scope::All, Discipline::Sharing),
    station("intake", Held::Itself, Scope::All, Discipline::Central),
    station("submission_queue", Held::Until("completion"), Scope::All, Discipline::Central),
    station("data_in", Held::Itself, Scope::All, Discipline::Central),
    station("cache", Held::Itself, Scope::All, Discipline::Central),
    station("die_wait", Held::Until("flash_array"), Scope::All, Discipline::Split),
    station("channel_wait", Held::Until("flash_transfer"), Scope::All, Discipline::Split),
    station("data_out", Held::Itself, Scope::All, Discipline::Central),
    station("processing", Held::Itself, Scope::All, Discipline::Central),
    station("late", Held::Itself, Scope::All, Discipline::Central),
    station("output", Held::Itself, Scope::Queue, Discipline::Central),
    station("network_response", Held::Itself, Scope::All, Discipline::Sharing),
    station("host_receive", Held::Itself, Scope::Session, Discipline::Central),
    station("host_complete", Held::Itself, Scope::Session, Discipline::Central),
];
