//! Who is let in to the namespaces, and who is not: a state for each controller, and for each port
//! that was given one.

use mynah_wire::nvme::Status;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum AnaState {
    #[default]
    Optimized = 1,
    /// A way, but others may be better. It makes no difference to how long commands take.
    NonOptimized = 2,
    /// I/O commands are refused until the state changes.
    Inaccessible = 3,
    /// I/O commands are refused, and the state will not change.
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
    fn refusal(self) -> Option<Status> {
        match self {
            AnaState::Optimized | AnaState::NonOptimized => None,
            AnaState::Inaccessible => Some(Status::ANA_INACCESSIBLE),
            AnaState::PersistentLoss => Some(Status::ANA_PERSISTENT_LOSS),
            AnaState::Change => Some(Status::ANA_TRANSITION),
        }
    }
}

/// Whose way to the namespaces changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// All controllers, now or later.
    All,
    /// The controller with this identifier, whether it exists now or will.
    Controller(u16),
    /// Controllers whose hosts come in over TCP at this port of the subsystem, from 0, now or
    /// later.
    Port(u16),
}

/// The group as one controller sees it.
#[derive(Clone, Copy, Debug, Default)]
struct Ana {
    state: AnaState,
    /// How often that has changed.
    changes: u64,
    /// The state while the controller's port has none of its own.
    without_port: AnaState,
}

impl Ana {
    /// Gives it another state; whether it is another.
    fn change(&mut self, state: AnaState) -> bool {
        let changes = self.state != state;
        self.state = state;
        self.changes += u64::from(changes);
        changes
    }
}

/// The group as controllers see it, by their identifier, and as whoever comes in at a port does, where
/// it has a state of its own.
#[derive(Debug)]
pub(super) struct Paths {
    controllers: Vec<Ana>,
    ports: BTreeMap<u16, AnaState>,
}

impl Paths {
    pub(super) fn new(controllers: usize) -> Paths {
        Paths { controllers: vec![Ana::default(); controllers], ports: BTreeMap::new() }
    }

    /// The state for a controller, and how often it has changed.
    pub(super) fn state(&self, id: u16) -> (AnaState, u64) {
        let ana = self.controllers[usize::from(id)];
        (ana.state, ana.changes)
    }

    /// What I/O commands of a controller end with; `None`: they are carried out.
    #[inline]
    pub(super) fn refusal(&self, id: u16) -> Option<Status> {
        self.controllers[usize::from(id)].state.refusal()
    }

    /// Whether there is a controller, now or later, that is no way to the namespaces.
    pub(super) fn has_closed(&self) -> bool {
        let is_closed = |state: AnaState| state.refusal().is_some();
        self.controllers.iter().any(|ana| is_closed(ana.state) || is_closed(ana.without_port))
            || self.ports.values().any(|state| is_closed(*state))
    }

    /// A controller has begun, at this port if it is over TCP: it finds the state that there is.
    pub(super) fn begin(&mut self, id: u16, port: Option<u16>) {
        let state = port.and_then(|port| self.ports.get(&port));
        let ana = &mut self.controllers[usize::from(id)];
        ana.change(state.copied().unwrap_or(ana.without_port));
    }

    /// Changes the state of a path; the controllers for which it is another. These are at the port
    /// of the path, if it is that of one.
    pub(super) fn set(&mut self, path: Path, state: AnaState, at_port: Vec<u16>) -> Vec<u16> {
        let concerned = match path {
            Path::All => {
                self.ports.clear();
                self.controllers.iter_mut().for_each(|ana| ana.without_port = state);
                (0..self.controllers.len() as u16).collect()
            }
            Path::Controller(id) => {
                let Some(ana) = self.controllers.get_mut(usize::from(id)) else { return vec![] };
                ana.without_port = state;
                vec![id]
            }
            Path::Port(port) => {
                self.ports.insert(port, state);
                at_port
            }
        };
        let changes = |id: &u16| self.controllers[usize::from(*id)].change(state);
        concerned.into_iter().filter(changes).collect()
    }
}
