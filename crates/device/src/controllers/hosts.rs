//! The hosts that have used the drive, and the flow of each: the number under which the model and
//! whoever measures count what a host does, and the name that results give it.
//!
//! A host is who Connect says it is, by NQN and host identifier together; a guest is its function.
//! It takes a flow with its first I/O queue, so that those who only look around (discovery, an
//! admin queue alone) take none. It keeps the flow however often it comes and goes, and nobody else
//! gets it while the process lives: what was counted under it is told at the very end. All
//! controllers of a host share its flow. [`HOSTS_MAX`] hosts have flows of their own; further ones
//! share one.
//!
//! Who may connect is decided elsewhere.

use super::Controllers;
use crate::namespaces::reservation::HostId;
use mynah_model::io::FlowId;

/// Hosts with flows of their own. What is recorded of one takes some hundred kilobytes, and the
/// model keeps the time that each flow has waited for each other.
pub(crate) const HOSTS_MAX: usize = 64;
/// The flow of queues that carry no I/O of a host.
pub(crate) const NOBODY: FlowId = FlowId(u16::MAX);

/// What results call the hosts beyond [`HOSTS_MAX`].
const OTHER_HOSTS: &str = "other hosts";
/// What they call the first flow while there has been no host.
const NO_HOST: &str = "no host";
/// What they call the work that admin commands leave the drive: no host's queue carries it.
const ADMIN_COMMANDS: &str = "admin commands";

/// Whose I/O a flow counts.
#[derive(Debug, PartialEq, Eq)]
enum FlowOwner {
    /// The first host's, which has yet to come: a drive that begins as if it had been used counts
    /// that as the first flow's doing.
    FirstHost,
    Host {
        nqn: String,
        id: HostId,
    },
    OtherHosts,
    AdminCommands,
}

/// The index of an entry of `flows` is the number of the flow.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    flows: Vec<FlowOwner>,
    /// How many of them are hosts'.
    hosts: usize,
}

impl Hosts {
    /// The flow of a host; a new host gets the next, or the shared one.
    fn flow(&mut self, nqn: &str, id: &HostId) -> FlowId {
        let is_it = |owner: &FlowOwner| match owner {
            FlowOwner::Host { nqn: n, id: i } => n == nqn && i == id,
            _ => false,
        };
        match self.flows.iter().position(is_it) {
            Some(at) => FlowId(at as u16),
            None if self.hosts < HOSTS_MAX => {
                self.hosts += 1;
                let host = FlowOwner::Host { nqn: nqn.to_owned(), id: *id };
                match self.flows.first_mut() {
                    Some(first @ FlowOwner::FirstHost) => {
                        *first = host;
                        FlowId(0)
                    }
                    _ => self.number(host),
                }
            }
            None => self.number(FlowOwner::OtherHosts),
        }
    }

    /// The flow of what admin commands leave the drive to do.
    fn admin_flow(&mut self) -> FlowId {
        if self.flows.is_empty() {
            self.flows.push(FlowOwner::FirstHost);
        }
        self.number(FlowOwner::AdminCommands)
    }

    fn number(&mut self, owner: FlowOwner) -> FlowId {
        let at = self.flows.iter().position(|known| *known == owner).unwrap_or_else(|| {
            self.flows.push(owner);
            self.flows.len() - 1
        });
        FlowId(at as u16)
    }

    /// The names of the flows, by number. Hosts are called by their NQNs; where that does not tell
    /// one from another, or one has none, by their identifiers as well.
    fn names(&self) -> Vec<String> {
        let with_nqn = |wanted: &str| {
            let has_it =
                |owner: &&FlowOwner| matches!(owner, FlowOwner::Host { nqn, .. } if nqn == wanted);
            self.flows.iter().filter(has_it).count()
        };
        let name = |owner: &FlowOwner| match owner {
            FlowOwner::Host { nqn, id } if nqn.is_empty() => format!("host {}", uuid(id)),
            FlowOwner::Host { nqn, id } if with_nqn(nqn) > 1 => {
                format!("{nqn} (host {})", uuid(id))
            }
            FlowOwner::Host { nqn, .. } => nqn.clone(),
            FlowOwner::OtherHosts => OTHER_HOSTS.to_owned(),
            FlowOwner::FirstHost => NO_HOST.to_owned(),
            FlowOwner::AdminCommands => ADMIN_COMMANDS.to_owned(),
        };
        self.flows.iter().map(name).collect()
    }
}

/// A host identifier as hosts' tools print it.
fn uuid(id: &HostId) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(*id));
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

impl Controllers {
    /// The flow of a controller's host, if it has taken one.
    pub(crate) fn known_flow_of(&self, id: u16) -> Option<FlowId> {
        self.get(id).map(|controller| controller.flow).filter(|flow| *flow != NOBODY)
    }

    /// The flow of a controller's host, which takes one if it has none.
    pub(crate) fn flow_of(&mut self, id: u16) -> FlowId {
        let place = self.table.get_mut(usize::from(id)).and_then(Option::as_deref_mut);
        let Some(controller) = place else { return NOBODY };
        if controller.flow == NOBODY {
            // A guest may say later what its identifier is: that makes no other host of it.
            let id = if controller.is_guests() { [0; 16] } else { controller.host_id };
            controller.flow = self.hosts.flow(&controller.host_nqn, &id);
        }
        controller.flow
    }

    /// The flow of what admin commands leave the drive to do.
    pub(crate) fn admin_flow(&mut self) -> FlowId {
        self.hosts.admin_flow()
    }

    /// The names of the flows, by number.
    pub(crate) fn flow_names(&self) -> Vec<String> {
        self.hosts.names()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_keeps_its_flow_and_no_other_gets_it() {
        let mut hosts = Hosts::default();
        let nqn = |number: usize| format!("nqn.2026-11.test:{number}");
        for round in 0..2 {
            for number in 0..HOSTS_MAX {
                let flow = hosts.flow(&nqn(number), &[0; 16]);
                assert_eq!(usize::from(flow.0), number, "{round}");
            }
        }
        let others = hosts.flow(&nqn(HOSTS_MAX), &[0; 16]);
        assert_eq!(usize::from(others.0), HOSTS_MAX);
        assert_eq!(hosts.flow(&nqn(HOSTS_MAX + 1), &[0; 16]), others);
        assert_eq!(hosts.flow(&nqn(7), &[0; 16]), FlowId(7));
        let admin = hosts.admin_flow();
        assert_eq!((usize::from(admin.0), hosts.admin_flow()), (HOSTS_MAX + 1, admin));
        let names = hosts.names();
        assert_eq!(names.len(), HOSTS_MAX + 2);
        assert_eq!(names[7], nqn(7));
        assert_eq!(names[HOSTS_MAX..], ["other hosts", "admin commands"]);
    }

    #[test]
    fn names_tell_hosts_apart() {
        let mut hosts = Hosts::default();
        // The drive's own work may come first, and takes no host's place.
        assert_eq!(hosts.admin_flow(), FlowId(1));
        assert_eq!(hosts.names(), ["no host", "admin commands"]);
        hosts.flow("nqn.2026-11.test:twins", &[0xab; 16]);
        hosts.flow("nqn.2026-11.test:single", &[0xab; 16]);
        hosts.flow("nqn.2026-11.test:twins", &[1; 16]);
        hosts.flow("", &[0x5c; 16]);
        assert_eq!(
            hosts.names(),
            [
                "nqn.2026-11.test:twins (host abababab-abab-abab-abab-abababababab)",
                "admin commands",
                "nqn.2026-11.test:single",
                "nqn.2026-11.test:twins (host 01010101-0101-0101-0101-010101010101)",
                "host 5c5c5c5c-5c5c-5c5c-5c5c-5c5c5c5c5c5c",
            ]
        );
    }
}
