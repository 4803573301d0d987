//! Connections whose messages another transport carries: their commands come in one by one, with
//! all their data, and their completions wait here until it takes them. All else (who may connect,
//! faults, authentication, lateness) is as for the others.

use super::credit::Taken;
use super::{Arrival, Hub, Id, Sender, submit};
use mynah_device::{Completion, Now};
use mynah_stamp::Time;
use mynah_wire::nvme::SubmissionEntry;

impl Hub {
    /// A command has come, with all its data. If they had to be fetched, the command itself came at
    /// `asked`, on the model's clock.
    pub(crate) fn command_elsewhere(
        &mut self,
        id: Id,
        entry: &SubmissionEntry,
        data: &[u8],
        asked: Option<Time>,
        arrival: Arrival,
    ) {
        let Some(peer) = self.peers.get_mut(id as usize).and_then(Option::as_deref_mut) else {
            return;
        };
        let Some(queue) = peer.queue else { return };
        let come_to = self.subsystem.now().model;
        let Taken { now, asked, missed } =
            self.credit.take_in(self.rate, come_to, arrival.at, asked);
        self.measure.arrived(missed + arrival.first);
        peer.arrival = arrival;
        if let Some(asked) = asked {
            peer.asked.push((entry.command_id.get(), asked));
        }
        let Hub { subsystem, quotas, outstanding, .. } = self;
        let from = Sender {
            who: peer.who,
            is_admin: peer.queue_id == Some(0),
            shares: &mut peer.shares,
            outstanding: &mut peer.outstanding,
        };
        submit(subsystem, quotas, outstanding, from, (now, queue), entry, data);
    }

    /// The subsystem has done a command of a connection.
    pub(super) fn ended_elsewhere(&mut self, id: Id) {
        if let Some(peer) = self.peers.get_mut(id as usize).and_then(Option::as_deref_mut)
            && peer.outstanding > 0
        {
            peer.outstanding -= 1;
            self.outstanding -= 1;
        }
    }

    /// The completion was handed to the network; `now` is after that.
    pub(crate) fn answered_elsewhere(&mut self, now: Now, id: Id, completion: &Completion) {
        let Some(peer) = self.peers.get_mut(id as usize).and_then(Option::as_deref_mut) else {
            return;
        };
        let command_id = completion.entry.command_id.get();
        let asked = peer.asked.iter().position(|&(id, _)| id == command_id);
        let asked = asked.map(|at| peer.asked.swap_remove(at).1);
        if let Some(late) = self.measure.visible(now, completion, asked) {
            self.subsystem.record_lateness(late, peer.arrival.first);
        }
    }
}

/// For transports that take completions from here.
#[cfg(feature = "rdma")]
impl Hub {
    /// A host has opened a connection of another transport.
    pub(crate) fn open_elsewhere(
        &mut self,
        now: Now,
        who: crate::quota::Peer,
        transport: mynah_device::Transport,
    ) -> Id {
        let id = self.open(now, who, transport);
        if let Some(peer) = self.peer(id) {
            peer.is_elsewhere = true;
        }
        id
    }

    /// The moment on the model's clock.
    pub(crate) fn model_time(&self, wall: Time) -> Time {
        self.rate.model(wall)
    }

    /// A completion for a connection of another transport.
    pub(super) fn hand_over(&mut self, id: Id, completion: Completion) {
        self.ended_elsewhere(id);
        self.handed.push_back((id, completion));
    }

    /// The next completion that is to be sent, which ends with [`Hub::answered_elsewhere`] or
    /// [`Hub::discard_elsewhere`].
    pub(crate) fn next_handed(&mut self) -> Option<(Id, Completion)> {
        self.handed.pop_front()
    }

    /// Copies a completion's data, once.
    pub(crate) fn fill_elsewhere(&mut self, completion: &mut Completion, into: &mut [u8]) {
        self.subsystem.fill(completion, into);
    }

    /// The completion will not be sent, or not its data.
    pub(crate) fn discard_elsewhere(&mut self, completion: Completion) {
        self.subsystem.discard(completion);
    }
}
