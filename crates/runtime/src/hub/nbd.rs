//! Clients that speak NBD: hosts of the subsystem whose commands their connection makes.
//!
//! A client has two connections here: the one that it sees, which is the admin queue of its
//! controller from the moment it takes an export, and one without a socket, its I/O queue.

use super::{Arrival, Hub, Id, Reason, Sender, submit};
use crate::nbd::{Ask, Client, EXTENTS_MAX, HOST_NQN, Volume};
use crate::quota::Peer as Who;
use mynah_device::{BlockNamespace, Completion, Now, Queue, Subsystem, Transport};
use mynah_stamp::Span;
use mynah_wire::fabrics::{
    CONNECT_NO_FLOW_CONTROL, CONTROLLER_ANY, Connect, ConnectData, nqn_field,
};
use mynah_wire::nbd::{BlockSizes, Export, extent, flag, refusal};
use mynah_wire::nvme::property::offset;
use mynah_wire::nvme::{Status, SubmissionEntry, opcode};
use zerocopy::IntoBytes;

/// TRTYPE: within the machine (NVMe over Fabrics 1.1, figure 34), as far as the subsystem is concerned.
const TRANSPORT_TYPE: u8 = 254;
/// Largest payload that a request may have: what clients take for granted that do not ask (NBD's
/// `doc/proto.md`, "Block size constraints").
const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
/// Entries of the admin queue, and of the I/O queue where the subsystem allows as many.
const ADMIN_ENTRIES: u16 = 32;
const ENTRIES: u32 = 1024;

/// Role of a connection that belongs to an NBD client.
#[derive(Debug)]
pub(super) enum Carried {
    /// The connection that the client itself has.
    Client(Box<NbdClient>),
    /// The I/O queue of that connection.
    Queue(Id),
}

/// An NBD client, and the state of its controller and queue.
#[derive(Debug)]
pub(super) struct NbdClient {
    client: Client,
    transport: Transport,
    /// The export that it has chosen.
    volume: Option<Volume>,
    stage: Stage,
    /// The connection that stands for its I/O queue.
    queue: Option<Id>,
}

/// What a client's connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The client, in the handshake.
    Talks,
    /// Connect of the admin queue.
    Connects,
    /// Property Set, which enables the controller.
    Enables,
    /// Connect of the I/O queue.
    Opens,
    /// Nothing: I/O is under way.
    Works,
}

/// Why a client is not served.
const REFUSED: &str = "the subsystem does not take it";

impl Hub {
    /// A client has opened a connection.
    pub fn open_nbd(&mut self, now: Now, who: Who, transport: Transport) -> Id {
        let transport = Transport { kind: TRANSPORT_TYPE, ..transport };
        let id = self.open(now, who, transport.clone());
        let nbd = NbdClient {
            client: Client::new(),
            transport,
            volume: None,
            stage: Stage::Talks,
            queue: None,
        };
        if let Some(peer) = self.peer(id) {
            peer.carried = Some(Carried::Client(Box::new(nbd)));
            peer.dirty = true;
        }
        self.dirty.push(id);
        id
    }

    /// The connection of the client that a connection belongs to: itself, if it is no I/O queue.
    pub(super) fn client_connection(&self, id: Id) -> Id {
        match self.peers.get(id as usize).and_then(|peer| peer.as_ref()?.carried.as_ref()) {
            Some(Carried::Queue(of)) => *of,
            _ => id,
        }
    }

    fn nbd_client(&mut self, id: Id) -> Option<&mut NbdClient> {
        match &mut self.peer(id)?.carried {
            Some(Carried::Client(nbd)) => Some(nbd),
            _ => None,
        }
    }

    /// Handles up to `most` requests of a client; whether there are more.
    pub(super) fn work_for(&mut self, id: Id, most: u32) -> bool {
        for _ in 0..most {
            let Hub { peers, subsystem, .. } = self;
            let Some(peer) = peers.get_mut(id as usize).and_then(Option::as_deref_mut) else {
                return false;
            };
            let (Some(Carried::Client(nbd)), Some(queue)) = (&mut peer.carried, peer.queue) else {
                return false;
            };
            let exports = || {
                let volumes = volumes(subsystem, &nbd.transport);
                volumes.into_iter().map(|volume| volume.export).collect()
            };
            match nbd.client.next(exports) {
                None => {
                    peer.more = false;
                    self.look_at_client(id);
                    return false;
                }
                Some(Ask::Export(number)) => {
                    let volume = volumes(subsystem, &nbd.transport).into_iter().nth(number);
                    nbd.volume = volume;
                    nbd.stage = Stage::Connects;
                    let now = subsystem.now();
                    self.connect_nbd(now, id, queue, None);
                }
                Some(Ask::Command(entry)) => self.command_of_client(id, &entry),
                Some(Ask::Extents(range)) => {
                    let extents = match &nbd.volume {
                        Some(volume) => extents(subsystem, volume, range),
                        None => Vec::new(),
                    };
                    nbd.client.tell_extents(&extents);
                }
                Some(Ask::Over(why)) => {
                    peer.more = false;
                    let reason = why.map_or(Reason::Subsystem("the client leaves"), Reason::Client);
                    self.end_client(id, reason);
                    return false;
                }
            }
        }
        self.look_at_client(id);
        true
    }

    /// A connection of a client ends, once what it has been told is sent.
    fn end_client(&mut self, id: Id, reason: Reason) {
        let now = self.subsystem.now();
        self.detach(now, id);
        self.ended.push((id, reason));
        self.look_at_client(id);
    }

    /// Notes that a client has something to be sent.
    fn look_at_client(&mut self, id: Id) {
        let Some(peer) = self.peers.get_mut(id as usize).and_then(Option::as_deref_mut) else {
            return;
        };
        let Some(Carried::Client(nbd)) = &peer.carried else { return };
        if !peer.dirty && nbd.client.output_bytes() > 0 {
            peer.dirty = true;
            self.dirty.push(id);
        }
    }

    /// Gives a command of a client to its I/O queue.
    fn command_of_client(&mut self, id: Id, entry: &SubmissionEntry) {
        let Some(peer) = self.peers.get_mut(id as usize).and_then(Option::as_deref_mut) else {
            return;
        };
        let arrival = peer.arrival;
        let Some(Carried::Client(mut nbd)) = peer.carried.take() else { return };
        if let Some(at) = nbd.queue {
            self.command_elsewhere(at, entry, nbd.client.payload(), None, arrival);
        }
        nbd.client.submitted();
        if let Some(peer) = self.peer(id) {
            peer.carried = Some(Carried::Client(nbd));
        }
    }

    /// Connects the admin queue of a client's controller, or the I/O queue of the one that it has.
    fn connect_nbd(&mut self, now: Now, id: Id, queue: Queue, controller: Option<u16>) {
        let entries = match controller {
            None => ADMIN_ENTRIES,
            Some(_) => self.nbd_entries(),
        };
        let connect = Connect {
            record_format: 0,
            queue_id: controller.is_some().into(),
            queue_size: entries - 1,
            attributes: CONNECT_NO_FLOW_CONTROL,
            keep_alive_ms: 0,
        };
        let nqn = nqn_field(&self.subsystem.config().nqn);
        let data = ConnectData {
            host_id: crate::initiator::host_id(HOST_NQN),
            controller_id: controller.unwrap_or(CONTROLLER_ANY).into(),
            subsystem_nqn: nqn.unwrap_or([0; 256]),
            host_nqn: nqn_field(HOST_NQN).unwrap_or([0; 256]),
            reserved: [0; 238],
            reserved_end: [0; 256],
        };
        let mut entry = SubmissionEntry::default();
        connect.put(&mut entry);
        self.submit_own(now, id, queue, &entry, data.as_bytes());
    }

    /// Entries of a client's I/O queue.
    fn nbd_entries(&self) -> u16 {
        let most = self.subsystem.config().limits.queue_entries_max;
        u16::try_from(most.min(ENTRIES)).unwrap_or(ADMIN_ENTRIES)
    }

    /// Submits a command that sets up a client's controller or queue.
    fn submit_own(&mut self, now: Now, id: Id, queue: Queue, entry: &SubmissionEntry, data: &[u8]) {
        let Hub { subsystem, quotas, outstanding, peers, .. } = self;
        let Some(peer) = peers.get_mut(id as usize).and_then(Option::as_deref_mut) else { return };
        let from = Sender {
            who: peer.who,
            is_admin: false,
            shares: &mut peer.shares,
            outstanding: &mut peer.outstanding,
        };
        submit(subsystem, quotas, outstanding, from, (now, queue), entry, data);
    }

    /// Keeps a completion for a client until all outputs of the subsystem have been taken.
    pub(super) fn keep_for_client(&mut self, id: Id, completion: Completion) {
        self.ended_elsewhere(id);
        self.for_clients.push_back((id, completion));
    }

    /// Handles the completions that were kept for clients; whether there were any.
    pub(super) fn serve_clients(&mut self, now: Now) -> bool {
        let mut worked = false;
        while let Some((id, completion)) = self.for_clients.pop_front() {
            worked = true;
            let id = self.client_connection(id);
            let stage = self.nbd_client(id).map(|it| it.stage);
            match stage {
                None | Some(Stage::Talks) => self.subsystem.discard(completion),
                Some(Stage::Works) => self.answer_client(now, id, completion),
                Some(stage) => self.opens_further(now, id, stage, &completion),
            }
        }
        worked
    }

    /// One of the steps towards a controller and its I/O queue is done.
    fn opens_further(&mut self, now: Now, id: Id, stage: Stage, completion: &Completion) {
        let status = completion.entry.status();
        if !status.is_success() {
            return self.refuse_client(id, status);
        }
        let Some((queue, who)) = self.peer(id).and_then(|peer| Some((peer.queue?, peer.who)))
        else {
            return;
        };
        let Some(nbd) = self.nbd_client(id) else { return };
        match stage {
            Stage::Connects => {
                nbd.stage = Stage::Enables;
                let mut entry =
                    SubmissionEntry { opcode: opcode::FABRICS, ..SubmissionEntry::default() };
                entry.namespace_id.set(opcode::fabrics::PROPERTY_SET.into());
                entry.dword11.set(offset::CC);
                entry.dword12.set(crate::initiator::enabling_configuration(0));
                self.submit_own(now, id, queue, &entry, &[]);
            }
            Stage::Enables => {
                nbd.stage = Stage::Opens;
                let transport = nbd.transport.clone();
                let at = self.open(now, who, transport);
                if let Some(nbd) = self.nbd_client(id) {
                    nbd.queue = Some(at);
                }
                let controller = self.peer(id).map(|peer| peer.controller_id);
                let Some(peer) = self.peer(at) else { return };
                peer.carried = Some(Carried::Queue(id));
                if let Some(queue) = peer.queue {
                    self.connect_nbd(now, at, queue, controller);
                }
            }
            Stage::Opens => {
                nbd.stage = Stage::Works;
                let commands = self.nbd_entries() - 1;
                let Some(nbd) = self.nbd_client(id) else { return };
                if let Some(volume) = nbd.volume.clone() {
                    nbd.client.accept(volume, commands);
                }
                self.wake_client(now, id);
                self.look_at_client(id);
            }
            Stage::Talks | Stage::Works => {}
        }
    }

    /// The subsystem refuses a client: it is told why, and its connection ends.
    fn refuse_client(&mut self, id: Id, status: Status) {
        let Some(nbd) = self.nbd_client(id) else { return };
        let why = match status.name() {
            Some(name) => format!("{REFUSED}: {name}"),
            None => REFUSED.to_owned(),
        };
        nbd.client.refuse(refusal::POLICY, &why);
        self.end_client(id, Reason::Subsystem(REFUSED));
    }

    /// A command of a client has ended.
    fn answer_client(&mut self, now: Now, id: Id, completion: Completion) {
        let Some(nbd) = self.nbd_client(id) else { return self.subsystem.discard(completion) };
        if let Some(completion) = nbd.client.completed(completion) {
            return self.subsystem.discard(completion);
        }
        self.fill_answers(id);
        self.resume_client(now, id);
        self.look_at_client(id);
    }

    /// Puts answers into a client's output as far as there is room.
    fn fill_answers(&mut self, id: Id) {
        let Hub { peers, subsystem, .. } = self;
        let Some(peer) = peers.get_mut(id as usize).and_then(Option::as_deref_mut) else { return };
        let Some(Carried::Client(nbd)) = &mut peer.carried else { return };
        let answered = nbd.client.answer(|completion, into| {
            subsystem.fill(completion, into);
            completion.data = mynah_device::CompletionData::None;
        });
        if answered.is_err() {
            // Half a read has been sent, and the other half cannot be read: the protocol without
            // chunks has no other way to say so.
            let now = subsystem.now();
            self.detach(now, id);
            self.ended.push((id, Reason::Fault));
        }
    }

    /// Goes on with a client that waited for room or memory.
    fn resume_client(&mut self, now: Now, id: Id) {
        if self.nbd_client(id).is_some_and(|it| it.client.is_held_up()) {
            self.wake_client(now, id);
        }
    }

    /// Has a client's connection looked at again.
    fn wake_client(&mut self, now: Now, id: Id) {
        if let Some(peer) = self.peer(id)
            && peer.queue.is_some()
            && !peer.more
        {
            peer.more = true;
            // It waited for its own commands, and that is its own doing.
            peer.arrival = Arrival::seen(now.wall, Span::ZERO);
            self.resumed.push(id);
        }
    }

    /// The next connection that has something to deal with again.
    pub fn next_resumed(&mut self) -> Option<Id> {
        self.resumed.pop()
    }

    /// So many bytes were sent to a client; whether it was held up until then.
    pub(super) fn sent_to_client(&mut self, now: Now, id: Id, bytes: usize) -> bool {
        let Some(nbd) = self.nbd_client(id) else { return false };
        nbd.client.sent(bytes);
        let io = nbd.queue;
        while let Some(completion) = self.nbd_client(id).and_then(|it| it.client.next_sent()) {
            if let Some(io) = io {
                self.answered_elsewhere(now, io, &completion);
            }
        }
        self.fill_answers(id);
        self.resume_client(now, id);
        self.look_at_client(id);
        self.peer(id).is_some_and(|peer| peer.more)
    }

    /// What a client's connection leaves when it is detached: its I/O queue, and answers that nobody
    /// waits for.
    pub(super) fn detach_client(&mut self, now: Now, id: Id) {
        let Some(nbd) = self.nbd_client(id) else { return };
        let (io, replies) = (nbd.queue.take(), nbd.client.take_replies());
        for completion in replies {
            self.subsystem.discard(completion);
        }
        if let Some(io) = io {
            self.close(now, io);
        }
    }
}

impl super::Peer {
    /// The client, if this is the connection that it sees.
    pub(super) fn client(&self) -> Option<&Client> {
        match &self.carried {
            Some(Carried::Client(nbd)) => Some(&nbd.client),
            _ => None,
        }
    }

    pub(super) fn client_mut(&mut self) -> Option<&mut Client> {
        match &mut self.carried {
            Some(Carried::Client(nbd)) => Some(&mut nbd.client),
            _ => None,
        }
    }
}

/// The subsystem's namespaces of blocks as exports. Those with metadata are none: a client has no place
/// for them.
fn volumes(subsystem: &Subsystem, transport: &Transport) -> Vec<Volume> {
    let plain = subsystem.block_namespaces().into_iter().filter(|it| it.metadata == 0);
    let model = &subsystem.config().model_number;
    plain.map(|namespace| volume(namespace, model, transport)).collect()
}

fn volume(namespace: BlockNamespace, model: &str, transport: &Transport) -> Volume {
    let block_bytes = 1 << namespace.shift;
    let read_only = if namespace.is_protected { flag::READ_ONLY } else { 0 };
    Volume {
        export: Export {
            name: namespace.id.to_string(),
            description: format!("{model}, namespace {}", namespace.id),
            bytes: namespace.blocks << namespace.shift,
            sizes: BlockSizes {
                least: block_bytes,
                preferred: block_bytes.max(4096),
                most: PAYLOAD_BYTES_MAX,
            },
            flags: flag::HAS_FLAGS
                | flag::FLUSH
                | flag::FUA
                | flag::TRIM
                | flag::WRITE_ZEROES
                | flag::DONT_FRAGMENT
                | flag::MULTIPLE_CONNECTIONS
                | flag::FAST_ZERO
                | read_only,
        },
        namespace: namespace.id,
        shift: namespace.shift,
        transfer_bytes: transport.max_transfer_bytes,
    }
}

/// Which bytes of a range are in use, as block status has it.
fn extents(subsystem: &Subsystem, volume: &Volume, range: std::ops::Range<u64>) -> Vec<(u32, u32)> {
    let shift = volume.shift;
    let (start, blocks) = (range.start >> shift, (range.end - range.start) >> shift);
    let runs = subsystem.allocation(volume.namespace, start, blocks, EXTENTS_MAX);
    let state = |takes_room| if takes_room { 0 } else { extent::HOLE | extent::ZERO };
    runs.into_iter()
        .map(|(blocks, takes_room)| {
            let bytes = u32::try_from(blocks << shift).unwrap_or(u32::MAX >> shift << shift);
            (bytes, state(takes_room))
        })
        .collect()
}
