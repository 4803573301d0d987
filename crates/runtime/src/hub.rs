//! What the engine does besides moving bytes: connections on one side, the subsystem on the
//! other, and between them who waits for what. No sockets and no clock, so that tests drive
//! it in virtual time.
//!
//! Replies go into a connection's output when there is room, and wait with their data still in the
//! store when the host does not read. Their data are sent from where the store has them if it has
//! them in memory; what could not be sent is copied before anything else happens. Buffers for data
//! from hosts are granted in turn. A completion counts as visible when its last byte has been
//! handed to the network.

mod credit;
mod elsewhere;
mod measure;
mod nbd;
mod path;
mod stall;

pub use crate::tcp_info::RoundTrips;
pub use credit::{Credited, PathCredit};
pub use measure::{Measure, Totals};
pub use path::{Found, PathMeter};
pub use stall::{Stall, Stalls, waiting};

use crate::authenticator::Authenticator;
use crate::clock::Rate;
use crate::fault::{Delivery, Faults, Strike};
use crate::prefetch::CACHE_LINE_BYTES;
use crate::profile::{Note, Noted, Queries, Scope, Sent, Situation, TargetProfile};
use crate::quota::{Peer as Who, Quotas, Refused, Share};
use credit::{Credit, Taken};
use mynah_device::{
    CommandKind, Completion, CompletionData, Connected, Now, Output, Query, Queue, Subsystem,
    Transport,
};
use mynah_stamp::{Span, Time};
use mynah_wire::fabrics::{ConnectRequest, DISCOVERY_NQN};
use mynah_wire::nbd::Broken;
use mynah_wire::nvme::{Status, SubmissionEntry, opcode};
use mynah_wire::tcp::pool::TransferPool;
use mynah_wire::tcp::stream::Piece;
use mynah_wire::tcp::target::{Connection, Ended, Event, Settings};
use nbd::Carried;
use std::collections::VecDeque;
use std::io::IoSlice;

/// Data shorter than [`LONG_BYTES`] are lent only behind at least this much output: less output
/// stays in the cache, where a second copy costs less than a slice of its own.
const NEAR_OUTPUT_BYTES: usize = 128 << 10;
/// Data shorter than this are always copied, not lent.
const LOAN_BYTES_MIN: usize = 2048;
/// Lent data of at least this many bytes are prefetched before they are sent.
const LONG_BYTES: usize = 16 << 10;
const NOBODY: u32 = u32::MAX;

/// Names a connection; reused when it is gone.
pub type Id = u32;

/// Why a connection is to be closed, once its output has been sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The host broke the protocol, or said that the target did.
    Protocol(Ended),
    /// The subsystem ends the connection, for this reason.
    Subsystem(&'static str),
    /// A client broke the protocol of NBD.
    Client(Broken),
    /// An injected fault, or an answer that cannot be completed: closed at once, with output
    /// unsent.
    Fault,
}

/// When bytes that were received together came, on the host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    at: Time,
    /// By how much the first and the last of them may have come before `at`.
    first: Span,
    last: Span,
    /// When the engine received them.
    seen: Time,
}

impl Arrival {
    /// They were seen at `at` and had come within the `gap` before.
    pub fn seen(at: Time, gap: Span) -> Arrival {
        Arrival { at, first: gap, last: gap, seen: at }
    }

    /// When the last of them came.
    #[cfg(feature = "rdma")]
    pub(crate) fn at(&self) -> Time {
        self.at
    }

    /// The last of them came at `at`, the others within the `gap` before. They were seen at `seen`.
    pub fn stamped(at: Time, gap: Span, seen: Time) -> Arrival {
        Arrival { at, first: gap, last: Span::ZERO, seen }
    }
}

/// A completion whose bytes in the output have not all been sent.
#[derive(Debug)]
struct Unsent {
    /// The output's byte count, from the connection's start, when all of it has been sent.
    end: u64,
    completion: Completion,
    /// When the command itself came, if its data had to be asked for.
    asked: Option<Time>,
}

#[derive(Debug)]
struct Peer {
    machine: Connection,
    /// `None`: the subsystem does not know it any more.
    queue: Option<Queue>,
    who: Who,
    /// What it has of the quotas as a queue of a controller.
    shares: Vec<Share>,
    /// Its identifier, when a host has connected it, and its controller's.
    queue_id: Option<u16>,
    controller_id: u16,
    /// Whose it is, as queries tell hosts apart.
    tenant: u16,
    /// Replies for which there is no room.
    backlog: VecDeque<Completion>,
    unsent: VecDeque<Unsent>,
    sent: u64,
    /// Commands outstanding in the subsystem, without Asynchronous Event Requests.
    outstanding: u64,
    /// A fault has dropped an answer: the host waits for it for as long as it likes.
    dropped: bool,
    /// Commands whose data had to be asked for, and when they came.
    asked: Vec<(u16, Time)>,
    /// What a profile needs of them.
    noted: Noted,
    /// When the last bytes came.
    arrival: Arrival,
    /// How uncertain the arrival of the command before was, as long as it may not be the last
    /// of those that came at once.
    uncertain: Option<Span>,
    dirty: bool,
    waiting: bool,
    more: bool,
    /// What the connection is to an NBD client, if it belongs to one.
    carried: Option<Carried>,
    /// Another transport carries its messages.
    #[cfg(feature = "rdma")]
    is_elsewhere: bool,
}

impl Peer {
    /// Writes the record of an answer that has been sent.
    #[inline(never)]
    fn record(&mut self, profile: &mut TargetProfile, unsent: &Unsent, at: Time, credit: Span) {
        let Unsent { completion, asked, .. } = unsent;
        if let Some(note) = self.noted.notes.take(completion.entry.command_id.get()) {
            let queue_id = self.queue_id.unwrap_or(0);
            profile.sent(&Sent {
                controller_id: self.controller_id,
                queue_id,
                credit: completion.due.map_or(Span::ZERO, |_| credit),
                tenant: self.tenant,
                completion,
                note,
                asked: *asked,
                at,
            });
        }
    }
}

/// What other transports need of a hub.
#[derive(Debug)]
pub struct Parts<'a> {
    pub subsystem: &'a mut Subsystem,
    /// Counters and histograms of its commands.
    pub measure: &'a mut Measure,
    /// The profile that is being written, if one is.
    pub profile: Option<&'a mut TargetProfile>,
}

/// All connections around one subsystem.
#[derive(Debug)]
pub struct Hub {
    subsystem: Subsystem,
    settings: Settings,
    rate: Rate,
    quotas: Quotas,
    pool: TransferPool,
    peers: Vec<Option<Box<Peer>>>,
    free: Vec<Id>,
    count: usize,
    /// Which connection has a queue of the subsystem.
    by_queue: Vec<Id>,
    /// Connections that wait for buffers, in turn.
    waiting: VecDeque<Id>,
    /// Connections with output to send.
    dirty: Vec<Id>,
    ended: Vec<(Id, Reason)>,
    outstanding: u64,
    measure: Measure,
    credit: Credit,
    authenticator: Option<Authenticator>,
    faults: Option<Faults>,
    profile: Option<Box<TargetProfile>>,
    queries: Queries,
    /// Replies that a fault holds back, the next one last.
    delayed: Vec<(Time, Completion)>,
    /// Completions for clients, who are answered when all outputs have been taken.
    for_clients: VecDeque<(Id, Completion)>,
    /// Connections that have something to deal with again.
    resumed: Vec<Id>,
    /// Replies that other transports are to take.
    #[cfg(feature = "rdma")]
    handed: VecDeque<(Id, Completion)>,
    /// What is to be told of the drive, and nobody has taken.
    warning: Option<String>,
}

impl Hub {
    /// A hub around `subsystem` without connections.
    pub fn new(subsystem: Subsystem, settings: Settings, quotas: Quotas, rate: Rate) -> Hub {
        let pool = quotas.bounds().transfer_bytes;
        Hub {
            subsystem,
            settings,
            rate,
            quotas,
            pool: TransferPool::with_share(pool.total, pool.per_peer),
            peers: Vec::new(),
            free: Vec::new(),
            count: 0,
            by_queue: Vec::new(),
            waiting: VecDeque::new(),
            dirty: Vec::new(),
            ended: Vec::new(),
            outstanding: 0,
            measure: Measure::new(rate),
            credit: Credit::default(),
            authenticator: None,
            faults: None,
            profile: None,
            queries: Queries::new(Scope::Own, "", rate),
            delayed: Vec::new(),
            for_clients: VecDeque::new(),
            resumed: Vec::new(),
            #[cfg(feature = "rdma")]
            handed: VecDeque::new(),
            warning: None,
        }
    }

    /// Has answers leave so much before their modelled end as the real path takes, in the host's
    /// time.
    pub fn set_credit(&mut self, credit: Span) {
        self.credit = Credit::new(credit, self.rate);
        self.subsystem.set_lead(self.credit.model);
        self.measure.set_credit(self.credit);
    }

    /// Sets the faults of this run.
    pub fn inject(&mut self, faults: Faults) {
        self.faults = Some(faults);
    }

    /// Has a record written for each I/O.
    pub fn profile_with(&mut self, profile: TargetProfile) {
        self.profile = Some(Box::new(profile));
    }

    /// Has queries answered like this.
    pub fn answer_queries(&mut self, queries: Queries) {
        self.queries = queries;
    }

    /// Whether it matters when sends begin.
    #[inline]
    pub fn is_profiled(&self) -> bool {
        self.profile.is_some()
    }

    /// A send of output begins, which the profile notes.
    pub fn sends(&mut self, at: Time) {
        if let Some(profile) = &mut self.profile {
            profile.sends_at = at;
        }
    }

    /// Has hosts prove who they are. Call [`Hub::advance`] when its descriptor is readable.
    pub fn authenticate_with(&mut self, authenticator: Authenticator) {
        self.authenticator = Some(authenticator);
    }

    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    pub fn subsystem(&self) -> &Subsystem {
        &self.subsystem
    }

    /// What other transports than this one need.
    pub fn parts(&mut self) -> Parts<'_> {
        let Hub { subsystem, measure, profile, .. } = self;
        Parts { subsystem, measure, profile: profile.as_deref_mut() }
    }

    /// The tenant number of a host, by which profiles tell hosts apart.
    pub(crate) fn tenant(&mut self, host_nqn: &str) -> u16 {
        self.queries.tenant(host_nqn)
    }

    pub fn measure(&self) -> &Measure {
        &self.measure
    }

    /// What has been measured, to start an interval.
    pub fn measure_mut(&mut self) -> &mut Measure {
        &mut self.measure
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.count
    }

    /// A host has opened a connection.
    pub fn open(&mut self, now: Now, who: Who, transport: Transport) -> Id {
        let transport = Transport { source: who.number(), ..transport };
        let queue = self.subsystem.attach(now, transport);
        let peer = Box::new(Peer {
            machine: Connection::of(self.pool.join(who.number()), self.settings),
            queue: Some(queue),
            who,
            shares: Vec::new(),
            queue_id: None,
            controller_id: 0,
            tenant: 0,
            backlog: VecDeque::new(),
            unsent: VecDeque::new(),
            sent: 0,
            outstanding: 0,
            dropped: false,
            asked: Vec::new(),
            noted: Noted::default(),
            arrival: Arrival::seen(Time::ZERO, Span::ZERO),
            uncertain: None,
            dirty: false,
            waiting: false,
            more: false,
            carried: None,
            #[cfg(feature = "rdma")]
            is_elsewhere: false,
        });
        let id = match self.free.pop() {
            Some(id) => {
                self.peers[id as usize] = Some(peer);
                id
            }
            None => {
                self.peers.push(Some(peer));
                (self.peers.len() - 1) as Id
            }
        };
        let at = queue.index();
        if self.by_queue.len() <= at {
            self.by_queue.resize(at + 1, NOBODY);
        }
        self.by_queue[at] = id;
        self.count += 1;
        id
    }

    /// Called when a connection has been closed.
    pub fn close(&mut self, now: Now, id: Id) {
        self.detach(now, id);
        let Some(mut peer) = self.peers.get_mut(id as usize).and_then(Option::take) else {
            return;
        };
        peer.machine.close(&mut self.pool);
        self.pool.leave(peer.machine.owner());
        self.waiting.retain(|&waiting| waiting != id);
        self.dirty.retain(|&dirty| dirty != id);
        self.resumed.retain(|&resumed| resumed != id);
        self.ended.retain(|(ended, _)| *ended != id);
        self.free.push(id);
        self.count -= 1;
        self.grant();
    }

    /// Takes a connection from the subsystem; what is in its output may still be sent.
    fn detach(&mut self, now: Now, id: Id) {
        let Some(peer) = self.peers.get_mut(id as usize).and_then(Option::as_deref_mut) else {
            return;
        };
        let Some(queue) = peer.queue.take() else { return };
        if let Some(flow) = self.subsystem.flow_of_queue(queue)
            && (peer.outstanding > 0 || peer.dropped)
        {
            self.measure.waited_for(flow, now.model);
        }
        self.outstanding -= std::mem::take(&mut peer.outstanding);
        for completion in std::mem::take(&mut peer.backlog) {
            self.subsystem.discard(completion);
        }
        for (_, completion) in
            self.delayed.extract_if(.., |(_, completion)| completion.queue == queue)
        {
            self.subsystem.discard(completion);
        }
        while let Some(at) = self.for_clients.iter().position(|(_, it)| it.queue == queue)
            && let Some((_, completion)) = self.for_clients.remove(at)
        {
            self.subsystem.discard(completion);
        }
        #[cfg(feature = "rdma")]
        while let Some(at) = self.handed.iter().position(|(_, it)| it.queue == queue)
            && let Some((_, completion)) = self.handed.remove(at)
        {
            self.subsystem.discard(completion);
        }
        let (is_admin, controller_id) = (peer.queue_id == Some(0), peer.controller_id);
        self.by_queue[queue.index()] = NOBODY;
        if is_admin && self.queries.gone(controller_id, self.profile.as_deref_mut()) {
            self.end_profile();
        }
        self.subsystem.detach(now, queue);
        if let Some(authenticator) = &mut self.authenticator {
            authenticator.forget(queue);
        }
        self.detach_client(now, id);
    }

    /// Whether bytes that a host has sent are still to be dealt with.
    pub fn has_more(&self, id: Id) -> bool {
        self.peers.get(id as usize).and_then(Option::as_deref).is_some_and(|peer| peer.more)
    }

    /// Room for bytes from the host; `None` if nothing may be received now.
    pub fn receive_buffer(&mut self, id: Id) -> Option<&mut [u8]> {
        let peer = self.peers.get_mut(id as usize)?.as_deref_mut()?;
        let may = peer.queue.is_some() && !peer.more;
        if peer.carried.is_some() {
            return peer.client_mut().filter(|_| may)?.receive_buffer();
        }
        (may && peer.machine.may_receive()).then(|| peer.machine.receive_buffer())
    }

    /// So many bytes were put into the buffer.
    pub fn received(&mut self, id: Id, bytes: usize, arrival: Arrival) {
        let model = self.rate.model(arrival.at);
        let is_profiled = self.is_profiled();
        let Some(peer) = self.peer(id) else { return };
        peer.arrival = arrival;
        peer.more = true;
        if let Some(client) = peer.client_mut() {
            return client.received(bytes);
        }
        peer.machine.tell_requests(is_profiled);
        peer.machine.received(bytes);
        peer.machine.set_stamp(model.as_ps());
        peer.noted.batch_begins();
    }

    /// Deals with up to `most` commands of what a host has sent; whether there is more.
    ///
    /// Commands take effect when they came, or as soon after that as the model still can: what
    /// lies between is part of their uncertainty.
    pub fn work(&mut self, id: Id, most: u32) -> bool {
        if self.peer(id).is_some_and(|peer| peer.carried.is_some()) {
            return self.work_for(id, most);
        }
        for _ in 0..most {
            let Some(peer) = self.peers.get_mut(id as usize).and_then(Option::as_deref_mut) else {
                return false;
            };
            let Some(event) = peer.machine.poll(&mut self.pool) else {
                peer.more = false;
                if self.profile.is_some() {
                    peer.noted.batch_ends(peer.arrival.last);
                }
                if let Some(missed) = peer.uncertain.take() {
                    self.measure.arrived(missed + peer.arrival.last);
                }
                self.look_at(id);
                return false;
            };
            let arrival = peer.arrival;
            match event {
                Event::Command { entry, data, asked, nth } => {
                    let Some(queue) = peer.queue else { continue };
                    let come_to = self.subsystem.now().model;
                    let asked = asked.map(Time::from_ps);
                    let taken = self.credit.take_in(self.rate, come_to, arrival.at, asked);
                    let Taken { now, asked, missed } = taken;
                    if let Some(missed) = peer.uncertain.replace(missed) {
                        self.measure.arrived(missed + arrival.first);
                    }
                    if self.profile.is_some() {
                        let outstanding = (peer.outstanding + 1).min(u16::MAX.into()) as u16;
                        let note = Note {
                            nth,
                            outstanding,
                            arrived: now.wall,
                            gap: arrival.first,
                            seen: arrival.seen,
                            ..Note::of(&entry)
                        };
                        peer.noted.command(note, asked.is_some());
                    }
                    if let Some(stamp) = asked {
                        peer.asked.push((entry.command_id.get(), stamp));
                    }
                    let Hub { subsystem, quotas, outstanding, .. } = self;
                    let from = Sender {
                        who: peer.who,
                        is_admin: peer.queue_id == Some(0),
                        shares: &mut peer.shares,
                        outstanding: &mut peer.outstanding,
                    };
                    submit(subsystem, quotas, outstanding, from, (now, queue), &entry, data);
                }
                Event::Ended(ended) => {
                    peer.more = false;
                    let now = Now { wall: arrival.at, model: self.rate.model(arrival.at) };
                    self.detach(now, id);
                    self.ended.push((id, Reason::Protocol(ended)));
                    self.look_at(id);
                    return false;
                }
            }
        }
        self.look_at(id);
        true
    }

    /// Notes what a connection's machine wants.
    fn look_at(&mut self, id: Id) {
        let Some(peer) = self.peers.get_mut(id as usize).and_then(Option::as_deref_mut) else {
            return;
        };
        if self.profile.is_some() {
            peer.noted.requests.take(&mut peer.machine, peer.sent);
        }
        if !peer.dirty && peer.machine.output_bytes() > 0 {
            peer.dirty = true;
            self.dirty.push(id);
        }
        if !peer.waiting && peer.machine.wants_buffer() {
            peer.waiting = true;
            self.waiting.push_back(id);
            self.pool.set_contended(true);
        }
    }

    /// Grants buffers in turn, as far as there are any.
    fn grant(&mut self) {
        for _ in 0..self.waiting.len() {
            let Some(id) = self.waiting.pop_front() else { break };
            let Some(peer) = self.peers.get_mut(id as usize).and_then(Option::as_deref_mut) else {
                continue;
            };
            peer.machine.grant(&mut self.pool);
            peer.waiting = peer.machine.wants_buffer();
            if peer.waiting {
                self.waiting.push_back(id);
            }
            self.look_at(id);
        }
        self.pool.set_contended(!self.waiting.is_empty());
    }

    /// Advances the subsystem to `now`, and queues its outputs on the connections.
    pub fn advance(&mut self, now: Now) {
        self.subsystem.advance(now);
        if let Some(profile) = &mut self.profile {
            profile.now = now.wall;
            if profile.is_over() {
                self.end_profile();
            }
        }
        if let Some(authenticator) = &mut self.authenticator {
            authenticator.advance(now, &mut self.subsystem);
        }
        if self.faults.is_some() {
            self.strike(now);
        }
        self.take_outputs(now);
        while self.serve_clients(now) {
            self.take_outputs(now);
        }
        if !self.waiting.is_empty() {
            self.grant();
        }
        if self.come_to(now) >= self.measure.stalls().next_look() {
            self.look_at_drive(now);
        }
    }

    /// Takes what the subsystem says into the connections.
    #[inline]
    fn take_outputs(&mut self, now: Now) {
        while let Some(output) = self.subsystem.poll() {
            match output {
                Output::Completion(completion) if self.faults.is_some() => {
                    self.deliver(now, completion)
                }
                Output::Completion(completion) => self.complete(completion),
                Output::Close { queue, reason } => {
                    let Some(id) = self.id_of(queue).map(|id| self.client_connection(id)) else {
                        continue;
                    };
                    self.detach(now, id);
                    self.ended.push((id, Reason::Subsystem(reason)));
                }
                Output::Query(query) => self.query(now, &query),
                Output::Authentication(asked) => match &mut self.authenticator {
                    Some(authenticator) => {
                        let id = self.by_queue.get(asked.queue.index()).copied();
                        let peer = id.and_then(|id| self.peers.get(id as usize)?.as_deref());
                        // Else the connection has gone, and nobody waits for the answer.
                        if let Some(who) = peer.map(|peer| peer.who) {
                            authenticator.handle(now, &mut self.subsystem, asked, who);
                        }
                    }
                    None => {
                        let status = Status::INVALID_OPCODE.do_not_retry();
                        self.subsystem.answer_authentication(now, &asked, status, None);
                    }
                },
            }
        }
    }

    /// How far the drive has come by `now`; one that may go ahead is not moved while nothing happens.
    #[inline]
    fn come_to(&self, now: Now) -> Time {
        let drive = self.subsystem.drive().now();
        if self.credit.model.is_zero() { drive } else { drive.max(now.model) }
    }

    /// Answers a query of the profile, which may begin one.
    #[cold]
    fn query(&mut self, now: Now, query: &Query) {
        let peers = self.peers.iter().flatten();
        let outstanding: Vec<_> = peers.map(|peer| (peer.tenant, peer.outstanding)).collect();
        let situation = Situation { now: now.wall, outstanding: &outstanding };
        let was_on = self.profile.is_some();
        let answer = self.queries.answer(query, &mut self.profile, situation);
        if !was_on && self.profile.is_some() {
            // What was noted for a profile before is of commands that have ended since.
            self.peers.iter_mut().flatten().for_each(|peer| peer.noted.clear());
        }
        self.subsystem.answer_query(now, query, answer);
    }

    #[cold]
    fn end_profile(&mut self) {
        self.profile = None;
        self.queries.ended();
    }

    /// Looks whether the drive goes on.
    #[cold]
    fn look_at_drive(&mut self, now: Now) {
        let (at, progress) = (self.come_to(now), self.subsystem.drive().progress());
        let told = self.measure.look_for_stall(now.wall, at, progress);
        self.warning = told.or(self.warning.take());
    }

    /// A message for people if the drive has stalled, or goes on.
    #[inline]
    pub fn take_warning(&mut self) -> Option<String> {
        self.warning.take()
    }

    /// For how long the drive has completed nothing now, though commands wait.
    pub fn stall(&self) -> Option<Stall> {
        let drive = self.subsystem.drive();
        self.measure.stalls().stall(drive.now(), &drive.progress())
    }

    /// Lets faults strike that are due.
    fn strike(&mut self, now: Now) {
        while let Some(strike) = self.faults.as_mut().and_then(|it| it.strike(now.model)) {
            match strike {
                Strike::Fatal => self.subsystem.fail_controllers(now),
                Strike::Ana(path, state) => {
                    self.subsystem.set_ana_state(now, path, state);
                }
                Strike::Cut => {
                    for id in 0..self.peers.len() as Id {
                        self.cut(now, id);
                    }
                }
            }
        }
        while let Some((_, completion)) = self.delayed.pop_if(|(until, _)| *until <= now.model) {
            self.complete(completion);
        }
    }

    fn cut(&mut self, now: Now, id: Id) {
        let id = self.client_connection(id);
        if self.peers[id as usize].as_ref().is_some_and(|peer| peer.queue.is_some()) {
            self.detach(now, id);
            self.ended.push((id, Reason::Fault));
        }
    }

    /// A completion, unless a fault is injected in its place.
    fn deliver(&mut self, now: Now, completion: Completion) {
        let delivery = match (&mut self.faults, is_io(completion.kind)) {
            (Some(faults), true) => faults.draw(),
            _ => Delivery::Sent,
        };
        let Some(id) = self.id_of(completion.queue) else {
            return self.subsystem.discard(completion);
        };
        match delivery {
            Delivery::Sent => self.complete(completion),
            Delivery::Delayed(by) => {
                let until = now.model + by;
                let at = self.delayed.partition_point(|(other, _)| *other > until);
                self.delayed.insert(at, (until, completion));
            }
            Delivery::Dropped => {
                // It stays outstanding on the queue until the host gives up, but there is
                // nothing to hurry for.
                if let Some(peer) = self.peer(id)
                    && peer.outstanding > 0
                {
                    peer.outstanding -= 1;
                    peer.dropped = true;
                    self.outstanding -= 1;
                }
                self.subsystem.discard(completion);
            }
            Delivery::Cut => {
                self.subsystem.discard(completion);
                self.cut(now, id);
            }
        }
    }

    fn id_of(&self, queue: Queue) -> Option<Id> {
        self.by_queue.get(queue.index()).copied().filter(|&id| id != NOBODY)
    }

    fn complete(&mut self, completion: Completion) {
        let peer = self
            .id_of(completion.queue)
            .and_then(|id| Some((id, self.peers[id as usize].as_deref_mut()?)));
        let Some((id, peer)) = peer else { return self.subsystem.discard(completion) };
        if peer.queue_id.is_none() {
            match completion.data {
                CompletionData::Connected(Connected { queue_id, controller_id, .. }) => {
                    peer.queue_id = Some(queue_id);
                    peer.controller_id = controller_id;
                    let host = self.subsystem.host_of(completion.queue).unwrap_or_default();
                    peer.tenant = self.queries.tenant(host);
                }
                // One command is all that such a queue has room for: it was Connect, or nothing
                // that needs a share.
                _ => peer.shares.clear(),
            }
        }
        if peer.carried.is_some() {
            return self.keep_for_client(id, completion);
        }
        #[cfg(feature = "rdma")]
        if peer.is_elsewhere {
            return self.hand_over(id, completion);
        }
        if let Some(profile) = &self.profile
            && let Some(note) = peer.noted.notes.get_mut(completion.entry.command_id.get())
        {
            (note.done, note.answered) = (profile.now, profile.now);
            note.ahead = peer.machine.output_bytes() as u32;
        }
        if !peer.backlog.is_empty() || !peer.machine.has_room() {
            peer.backlog.push_back(completion);
            return;
        }
        answer(&mut self.subsystem, &mut self.outstanding, peer, completion);
        if !peer.dirty {
            peer.dirty = true;
            self.dirty.push(id);
        }
    }

    /// Whether connections have output to send.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The next connection with output to send.
    pub fn next_dirty(&mut self) -> Option<Id> {
        let id = self.dirty.pop()?;
        if let Some(peer) = self.peer(id) {
            peer.dirty = false;
        }
        Some(id)
    }

    /// Bytes that are to be sent to a host.
    pub fn output_bytes(&self, id: Id) -> usize {
        let peer = self.peers.get(id as usize).and_then(Option::as_deref);
        peer.map_or(0, |peer| match peer.client() {
            Some(client) => client.output_bytes(),
            None => peer.machine.output_bytes(),
        })
    }

    /// The beginning of what is to be sent to a host, in up to `most` slices.
    pub fn output(&self, id: Id, most: usize) -> Vec<IoSlice<'_>> {
        let mut slices = Vec::with_capacity(most.min(64));
        let Some(peer) = self.peers.get(id as usize).and_then(Option::as_deref) else {
            return slices;
        };
        if let Some(client) = peer.client() {
            slices.push(IoSlice::new(client.output()));
            return slices;
        }
        for piece in peer.machine.pieces() {
            match piece {
                Piece::Bytes(bytes) => slices.push(IoSlice::new(bytes)),
                Piece::Lent { address, bytes } => {
                    let mut done = 0;
                    while done < bytes && slices.len() < most {
                        let left = (bytes - done) as u32;
                        let part = self.subsystem.lent(address + done as u64, left);
                        if part.len() >= LONG_BYTES {
                            bring_near(part);
                        }
                        slices.push(IoSlice::new(part));
                        done += part.len();
                    }
                }
            }
            if slices.len() >= most {
                break;
            }
        }
        slices
    }

    /// Takes into the output what is still in the store and has not been sent: before the
    /// subsystem is given anything that could change it.
    pub fn settle(&mut self, id: Id) {
        let Some(peer) = self.peers.get_mut(id as usize).and_then(Option::as_deref_mut) else {
            return;
        };
        let subsystem = &self.subsystem;
        peer.machine.settle(|address, into| {
            let mut done = 0;
            while done < into.len() {
                let part = subsystem.lent(address + done as u64, (into.len() - done) as u32);
                into[done..done + part.len()].copy_from_slice(part);
                done += part.len();
            }
        });
    }

    /// So many bytes of the output were sent; `now` is after that. Whether there is work on
    /// the connection that was held up by its output.
    pub fn sent(&mut self, now: Now, id: Id, bytes: usize) -> bool {
        let Some(peer) = self.peers.get_mut(id as usize).and_then(Option::as_deref_mut) else {
            return false;
        };
        if peer.carried.is_some() {
            return self.sent_to_client(now, id, bytes);
        }
        let stalled = !peer.machine.may_receive();
        peer.machine.sent(bytes);
        peer.sent += bytes as u64;
        if let Some(profile) = &self.profile {
            peer.noted.requests.sent(peer.sent, profile.sends_at);
        }
        while let Some(unsent) = peer.unsent.pop_front_if(|unsent| unsent.end <= peer.sent) {
            if let Some(profile) = &mut self.profile {
                peer.record(profile, &unsent, now.wall, self.credit.wall);
            }
            let late = self.measure.visible(now, &unsent.completion, unsent.asked);
            if let Some(late) = late {
                self.subsystem.record_lateness(late, peer.arrival.first);
            }
        }
        while peer.machine.has_room()
            && let Some(completion) = peer.backlog.pop_front()
        {
            if self.profile.is_some()
                && let Some(note) = peer.noted.notes.get_mut(completion.entry.command_id.get())
            {
                note.answered = now.wall;
                note.ahead = peer.machine.output_bytes() as u32;
            }
            answer(&mut self.subsystem, &mut self.outstanding, peer, completion);
        }
        peer.more |= stalled && peer.machine.may_receive();
        let more = peer.more;
        self.look_at(id);
        more
    }

    /// The next connection that is to be closed when its output has been sent.
    pub fn next_ended(&mut self) -> Option<(Id, Reason)> {
        self.ended.pop()
    }

    /// Whether a host has connected to a controller on this connection, and authenticated if
    /// it has to.
    pub fn is_connected(&self, id: Id) -> bool {
        let peer = self.peers.get(id as usize).and_then(Option::as_deref);
        peer.is_some_and(|peer| {
            peer.queue_id.is_some()
                && peer.queue.is_none_or(|queue| self.subsystem.is_in_use(queue))
        })
    }

    /// Whether this is the connection of an admin queue.
    pub fn is_admin(&self, id: Id) -> bool {
        let peer = self.peers.get(id as usize).and_then(Option::as_deref);
        peer.is_some_and(|peer| peer.queue_id == Some(0))
    }

    /// Whether a host has connected to a controller on this connection, and has yet to prove who
    /// it is.
    pub fn is_authenticating(&self, id: Id) -> bool {
        let peer = self.peers.get(id as usize).and_then(Option::as_deref);
        peer.is_some_and(|peer| peer.queue_id.is_some()) && !self.is_connected(id)
    }

    /// Whether a host has been asked for data that it has not sent.
    pub fn awaits_data(&self, id: Id) -> bool {
        let peer = self.peers.get(id as usize).and_then(Option::as_deref);
        peer.is_some_and(|peer| match peer.client() {
            Some(client) => client.awaits_data(),
            None => peer.machine.awaits_data(),
        })
    }

    /// Outstanding commands of hosts, without Asynchronous Event Requests.
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Does some microseconds of work that will be needed later; whether it did any.
    pub fn prepare(&mut self) -> bool {
        self.subsystem.prepare()
    }

    /// Whether there is something for [`Hub::consolidate`] to do.
    pub fn is_scattered(&self) -> bool {
        self.subsystem.is_scattered()
    }

    /// Handles what the store has finished.
    pub fn store_calls(&mut self) {
        self.subsystem.store_calls();
    }

    /// Does up to some milliseconds of what makes later accesses faster.
    pub fn consolidate(&mut self) {
        self.subsystem.consolidate();
    }

    /// When the hub has to be advanced next if nothing comes, on the host's clock.
    pub fn next_at(&self) -> Option<Time> {
        let wakeup = self.subsystem.next_at();
        let fault = self.faults.as_ref().and_then(Faults::next_at);
        let delayed = self.delayed.last().map(|(until, _)| *until);
        // A drive that has commands and nothing more to do must be found out, too.
        let stalls = self.measure.stalls();
        let look = (self.subsystem.drive().progress().under_way > 0).then(|| stalls.next_look());
        // It goes ahead, and its answers with it.
        let ahead = |at: Time| Time::from_ps(at.as_ps().saturating_sub(self.credit.model.as_ps()));
        let moved = wakeup.model.map(ahead);
        let model = [moved, fault, delayed, look].into_iter().flatten().min();
        let model = model.map(|at| self.rate.wall(at));
        let next = match (wakeup.wall, model) {
            (Some(wall), Some(model)) => Some(wall.min(model)),
            (wall, model) => wall.or(model),
        };
        match &self.profile {
            Some(profile) => next.into_iter().chain(profile.ends_at()).min(),
            None => next,
        }
    }

    /// Gives memory back that an idle connection does not need.
    pub fn shrink(&mut self, id: Id) {
        if let Some(peer) = self.peer(id) {
            if let Some(client) = peer.client_mut() {
                client.shrink();
            }
            peer.machine.shrink();
            if peer.backlog.is_empty() {
                peer.backlog = VecDeque::new();
            }
            if peer.unsent.is_empty() {
                peer.unsent = VecDeque::new();
            }
            if peer.asked.is_empty() {
                peer.asked = Vec::new();
            }
        }
    }

    /// Gives memory back that no connection needs.
    pub fn shrink_pool(&mut self) {
        if self.pool.lent_bytes() == 0 {
            self.pool.forget_kept();
        }
    }

    /// Bytes of memory that a connection holds.
    pub fn memory_bytes(&self, id: Id) -> usize {
        self.peers.get(id as usize).and_then(Option::as_deref).map_or(0, |peer| {
            size_of::<Peer>()
                + peer.client().map_or(0, crate::nbd::Client::memory_bytes)
                + peer.machine.memory_bytes()
                + peer.backlog.capacity() * size_of::<Completion>()
                + peer.unsent.capacity() * size_of::<Unsent>()
        })
    }

    /// The subsystem, when everything is over.
    pub fn into_parts(mut self) -> (Subsystem, Measure) {
        self.measure.idle_faults = self.faults.as_ref().map_or(vec![], Faults::idle);
        (self.subsystem, self.measure)
    }

    fn peer(&mut self, id: Id) -> Option<&mut Peer> {
        self.peers.get_mut(id as usize)?.as_deref_mut()
    }
}

/// Whether lending data costs less than copying them behind this much output.
fn pays_as_loan(bytes: usize, output_bytes: usize) -> bool {
    bytes >= LONG_BYTES || bytes >= LOAN_BYTES_MIN && output_bytes >= NEAR_OUTPUT_BYTES
}

/// Brings bytes into the cache. The system copies long runs that are far slower than this and
/// the copy of what is near take together: a quarter, for 128 KiB.
fn bring_near(bytes: &[u8]) {
    let sum = bytes.chunks(CACHE_LINE_BYTES).fold(0, |sum, line| sum ^ line[0]);
    std::hint::black_box(sum);
}

/// Where a command comes from: what of a connection it changes.
struct Sender<'a> {
    who: Who,
    is_admin: bool,
    shares: &'a mut Vec<Share>,
    outstanding: &'a mut u64,
}

/// Gives a command of a connection to the subsystem.
#[inline]
fn submit(
    subsystem: &mut Subsystem,
    quotas: &Quotas,
    outstanding: &mut u64,
    from: Sender<'_>,
    (now, queue): (Now, Queue),
    entry: &SubmissionEntry,
    data: &[u8],
) {
    // A second Connect is an error, and changes nothing.
    let connect = match from.shares.is_empty() {
        true => ConnectRequest::parse(entry, data),
        false => None,
    };
    let mut refused = false;
    if let Some(request) = &connect {
        let shares = shares(quotas, from.who, request);
        refused = shares.is_err();
        *from.shares = shares.unwrap_or_default();
    }
    if !from.is_admin || !waits_for_ever(entry) {
        *from.outstanding += 1;
        *outstanding += 1;
    }
    match connect {
        Some(_) if refused => {
            subsystem.refuse(now, queue, entry, Status::CONNECT_CONTROLLER_BUSY);
        }
        Some(request) => subsystem.connect(now, queue, entry, &request),
        None => subsystem.submit(now, queue, entry, data),
    }
}

/// Puts a completion into the output of its connection.
fn answer(
    subsystem: &mut Subsystem,
    outstanding: &mut u64,
    peer: &mut Peer,
    mut completion: Completion,
) {
    let bytes = completion.data.bytes() as u32;
    let entry = completion.entry;
    if bytes == 0 {
        if let CompletionData::Connected(connected) = completion.data {
            let Connected { queue_id, entries, flow_control, .. } = connected;
            peer.machine.connected(queue_id, entries, flow_control);
        }
        peer.machine.respond(&entry);
    } else if peer.machine.takes_loans()
        && pays_as_loan(bytes as usize, peer.machine.output_bytes())
        && let Some(address) = subsystem.lend(&completion.data)
    {
        peer.machine.respond_with_lent_data(&entry, bytes, address);
        completion.data = CompletionData::None;
    } else {
        peer.machine.respond_with_data(&entry, bytes, |into| subsystem.fill(&mut completion, into));
        completion.data = CompletionData::None;
    }
    let command_id = entry.command_id.get();
    let asked = peer.asked.iter().position(|&(id, _)| id == command_id);
    let asked = asked.map(|at| peer.asked.swap_remove(at).1);
    if peer.outstanding > 0 {
        peer.outstanding -= 1;
        *outstanding -= 1;
    }
    let end = peer.sent + peer.machine.output_bytes() as u64;
    peer.unsent.push_back(Unsent { end, completion, asked });
}

fn is_io(kind: CommandKind) -> bool {
    !matches!(kind, CommandKind::Admin | CommandKind::Fabrics)
}

/// What a Connect takes of the quotas. Anybody may connect to the discovery subsystem, so that has
/// a budget of its own; there are no other queues than its controllers'.
fn shares(quotas: &Quotas, who: Who, request: &ConnectRequest<'_>) -> Result<Vec<Share>, Refused> {
    if request.subsystem_nqn == Some(DISCOVERY_NQN) {
        return Ok(vec![quotas.discovery.take(who)?]);
    }
    let mut shares = vec![quotas.connections.take(who)?];
    if request.connect.queue_id == 0 {
        shares.push(quotas.controllers.take(who)?);
    }
    Ok(shares)
}

fn waits_for_ever(entry: &SubmissionEntry) -> bool {
    entry.opcode == opcode::admin::ASYNCHRONOUS_EVENT_REQUEST
}
