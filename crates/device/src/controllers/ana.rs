//! Asymmetric namespace access (Base 2.0, section 8.1): whether a controller is a way to the
//! namespaces.
//!
//! All namespaces are in one group, which has a state for each controller: optimized, unless
//! somebody outside changes it. Where it does not let the host in, I/O commands end with a status
//! that tells it to try another path; those under way go on, and so do admin commands. A host that
//! has asked for it hears of every change, and of how many there were.

use super::Controllers;
use crate::subsystem::Subsystem;
use crate::{Now, admin};
use mynah_wire::nvme::Status;

/// State of an ANA group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum AnaState {
    /// A way as good as any.
    #[default]
    Optimized = 1,
    /// A way, but others may be better. It makes no difference to how long commands take.
    NonOptimized = 2,
    /// No way at present.
    Inaccessible = 3,
    /// No way any more.
    PersistentLoss = 4,
    /// On the way to another state. Hosts take it for an error if it lasts for longer than
    /// Identify's ANATT, 10 seconds.
    Change = 15,
}

impl AnaState {
    /// All of them, each with its name.
    pub const ALL: [(&'static str, AnaState); 5] = [
        ("optimized", AnaState::Optimized),
        ("non-optimized", AnaState::NonOptimized),
        ("inaccessible", AnaState::Inaccessible),
        ("persistent-loss", AnaState::PersistentLoss),
        ("change", AnaState::Change),
    ];

    /// What an I/O command ends with; `None`: it is carried out.
    pub(crate) fn refusal(self) -> Option<Status> {
        match self {
            AnaState::Optimized | AnaState::NonOptimized => None,
            AnaState::Inaccessible => Some(Status::ANA_INACCESSIBLE),
            AnaState::PersistentLoss => Some(Status::ANA_PERSISTENT_LOSS),
            AnaState::Change => Some(Status::ANA_TRANSITION),
        }
    }
}

/// The group as one controller sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ana {
    state: AnaState,
    /// How often that has changed.
    changes: u64,
}

impl Controllers {
    /// The state of the group for a controller, and how often it has changed.
    pub(crate) fn ana(&self, id: u16) -> (AnaState, u64) {
        let ana = self.ana[usize::from(id)];
        (ana.state, ana.changes)
    }

    /// Whether a controller is a way to the namespaces.
    #[inline]
    pub(crate) fn check_path(&self, id: u16) -> Result<(), Status> {
        self.ana[usize::from(id)].state.refusal().map_or(Ok(()), Err)
    }

    /// Whether there is a controller, now or later, that is no way to the namespaces.
    pub(crate) fn has_closed_path(&self) -> bool {
        self.ana.iter().any(|ana| ana.state.refusal().is_some())
    }
}

impl Subsystem {
    /// Gives the group another state for the controller with this identifier, whether it exists
    /// now or will, or for all; tells their hosts if it is another.
    pub fn set_ana_state(&mut self, now: Now, controller: Option<u16>, state: AnaState) {
        self.advance(now);
        for id in 0..self.controllers.ana.len() {
            let ana = &mut self.controllers.ana[id];
            let concerned = controller.is_none_or(|it| usize::from(it) == id);
            if concerned && ana.state != state {
                ana.state = state;
                ana.changes += 1;
                self.raise(id as u16, admin::event::ANA_CHANGED);
            }
        }
        self.settle_guard();
    }
}
