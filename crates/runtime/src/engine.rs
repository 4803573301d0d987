//! The loop that serves hosts: one thread with the subsystem and all its connections.
//!
//! A turn looks at sockets, hands commands to the subsystem, moves it to the present, and
//! sends what there is to send, mostly with one receive and one send for a connection.
//! Sockets are watched by edge-triggered epoll; while few of them are busy they are asked
//! directly, which saves the call. What a turn does for one connection is bounded, so that
//! none keeps others waiting. Between turns the engine spins or sleeps ([`Pacing`]).
//!
//! Functions on the PCIe bus of guests ([`Port`]) have a turn of their own within each. Where
//! guests ring doorbells in memory that is shared with them, nothing wakes the engine: it looks at
//! them all the time while there is work, and after naps when there has been none for a while.

mod admission;
mod control;
#[cfg(feature = "rdma")]
mod rdma;
mod socket;
mod traffic;

pub use admission::{EngineLimits, Newcomer};
pub use control::{Control, Distributions, Snapshot, SnapshotRequest};
pub use socket::Protocol;

use crate::clock::{self, Clock};
use crate::hub::{Hub, Id, Measure, Parts, PathCredit, PathMeter};
use crate::pacing::{Pacing, Poll, Wait};
use crate::vfio_user::{Port, Say};
use mynah_device::{Now, Subsystem, Timing, Transport};
use mynah_stamp::{Span, Time};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use socket::{Listener, Socket};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Where epoll's tokens of listeners begin; those below are connections.
const LISTENERS: u64 = 1 << 40;
const CONTROL: u64 = 1 << 41;
const WAKERS: u64 = 1 << 42;
const PORTS: u64 = 1 << 43;
const CLIENTS: u64 = 1 << 44;

/// Up to this many busy connections, their sockets are polled without epoll.
const DIRECT_MAX: usize = 4;
/// Turns without asking epoll, when connections are asked directly.
const TURNS_WITHOUT_EPOLL: u32 = 16;
/// A connection counts as busy for so long after its last bytes.
const BUSY: Span = Span::from_us(200);
/// Work that is done ahead of time takes no longer than this, as a rule.
const PREPARATION: Span = Span::from_us(20);
/// Glances at doorbells between two turns, a turn costing as much as dozens of them; fewer where
/// it matters when commands come, and so few that nothing is missed that is due.
const GLANCES: u64 = 512;
const GLANCES_STAMPED: u64 = 64;
const GLANCE: Span = Span::from_ns(8);
/// While only doorbells are busy, sockets are looked at this often.
const SOCKET_INTERVAL: Span = Span::from_us(250);
/// Hosts get so long for commands under way when the target ends.
const DRAIN: Span = Span::from_secs(5);
/// How long guests, which may go on submitting, are served while the engine ends.
const PORT_DRAIN: Span = Span::from_secs(1);

/// What is done with a snapshot, on the thread that serves: it must not block.
pub type SnapshotSink = Box<dyn FnMut(Snapshot)>;

/// Does something every so often.
struct Interval {
    every: Span,
    next: Time,
    then: SnapshotSink,
}

/// The loop that serves all connections of one subsystem, on one thread.
pub struct Engine {
    clock: Clock,
    hub: Hub,
    transport: Transport,
    limits: EngineLimits,
    /// Whether it matters to the nanosecond when commands come.
    stamped: bool,
    epoll: OwnedFd,
    listeners: Vec<Listener>,
    control: Arc<Control>,
    wakers: Vec<OwnedFd>,
    sockets: Vec<Option<Socket>>,
    /// Connections to look at, in turn.
    ready: VecDeque<Id>,
    /// Connections that have been busy lately.
    busy: Vec<Id>,
    half_open: VecDeque<(Id, u64)>,
    serial: u64,
    pacing: Pacing,
    /// The look before this one, and whether the engine slept since.
    last_look: Time,
    slept: bool,
    /// The last time all sockets were asked, and the time before.
    last_poll: Time,
    poll_before: Time,
    turns: u32,
    next_sweep: Time,
    interval: Option<Interval>,
    draining: Option<Time>,
    refused: u64,
    /// Listeners, by what epoll calls them, that are not looked at for want of descriptors, until
    /// `fed_at`.
    starved: Vec<u64>,
    fed_at: Option<Time>,
    starvations: u64,
    /// If answers leave early by what the hosts' paths take: what those are known to take, and when
    /// they are looked at next.
    path: Option<PathMeter>,
    next_path: Time,
    scratch: Vec<u8>,
    control_buffer: Vec<u8>,
    ports: Vec<Port>,
    #[cfg(feature = "rdma")]
    rdma: Vec<crate::rdma::Port>,
    /// Tells what guests do wrong.
    say: Say,
    /// Tells that the drive has stalled, or goes on.
    warn: Say,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("connections", &self.hub.connections())
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine around `hub`, which gives connections of its `listeners` (in the order of the
    /// subsystem's ports) the transport's limits.
    pub fn new(
        clock: Clock,
        hub: Hub,
        transport: Transport,
        limits: EngineLimits,
        listeners: Vec<std::net::TcpListener>,
        control: Arc<Control>,
    ) -> io::Result<Engine> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let listeners: Vec<_> =
            listeners.into_iter().map(Listener::new).collect::<io::Result<_>>()?;
        for (number, listener) in listeners.iter().enumerate() {
            let data = EventData::new_u64(LISTENERS + number as u64);
            epoll::add(&epoll, listener, data, EventFlags::IN)?;
        }
        epoll::add(&epoll, control.bell(), EventData::new_u64(CONTROL), EventFlags::IN)?;
        Ok(Engine {
            clock,
            stamped: hub.subsystem().config().timing == Timing::Modelled,
            hub,
            transport,
            limits,
            epoll,
            listeners,
            control,
            wakers: Vec::new(),
            sockets: Vec::new(),
            ready: VecDeque::new(),
            busy: Vec::new(),
            half_open: VecDeque::new(),
            serial: 0,
            pacing: Pacing::default(),
            last_look: Time::ZERO,
            slept: true,
            last_poll: Time::ZERO,
            poll_before: Time::ZERO,
            turns: 0,
            next_sweep: Time::ZERO,
            interval: None,
            draining: None,
            refused: 0,
            starved: Vec::new(),
            fed_at: None,
            starvations: 0,
            path: None,
            next_path: Time::MAX,
            scratch: vec![0; 16 << 10],
            control_buffer: crate::stamped::control_buffer(),
            ports: Vec::new(),
            #[cfg(feature = "rdma")]
            rdma: Vec::new(),
            say: Box::new(|_| ()),
            warn: Box::new(|_| ()),
        })
    }

    /// Has the engine wake up when `descriptor` is readable, and advance the subsystem: for
    /// stores that work in the background, and whatever else the subsystem waits for.
    pub fn wake_on(&mut self, descriptor: OwnedFd) -> io::Result<()> {
        let data = EventData::new_u64(WAKERS + self.wakers.len() as u64);
        epoll::add(&self.epoll, &descriptor, data, EventFlags::IN)?;
        self.wakers.push(descriptor);
        Ok(())
    }

    /// Serves clients that speak NBD, too.
    pub fn add_nbd(&mut self, listeners: Vec<crate::nbd::Listener>) -> io::Result<()> {
        for listener in listeners {
            let listener = Listener::of_nbd(listener)?;
            let data = EventData::new_u64(LISTENERS + self.listeners.len() as u64);
            epoll::add(&self.epoll, &listener, data, EventFlags::IN)?;
            self.listeners.push(listener);
        }
        Ok(())
    }

    /// Serves the guests of PCIe functions, too. `say` is told what they do wrong; it must not
    /// block.
    pub fn add_ports(&mut self, ports: Vec<Port>, say: Say) -> io::Result<()> {
        for mut port in ports {
            port.belongs_to(self.hub.tenant(port.name()));
            let data = EventData::new_u64(PORTS + self.ports.len() as u64);
            epoll::add(&self.epoll, port.listener(), data, EventFlags::IN)?;
            self.ports.push(port);
        }
        self.say = say;
        Ok(())
    }

    /// Tells `warn` that the drive has stopped, or goes on. It must not block.
    pub fn on_stall(&mut self, warn: Say) {
        self.warn = warn;
    }

    /// What of the modelled time the real path is credited with.
    pub fn set_path_credit(&mut self, credit: PathCredit) {
        self.path = (credit == PathCredit::Auto).then(PathMeter::default);
        self.next_path = self.path.as_ref().map_or(Time::MAX, |_| Time::ZERO);
        self.hub.set_credit(match credit {
            PathCredit::Fixed(credit) => credit,
            PathCredit::Auto | PathCredit::Off => Span::ZERO,
        });
    }

    /// How to look for work from now on.
    pub fn set_poll(&mut self, poll: Poll) {
        self.pacing = Pacing::new(poll);
    }

    /// Calls `then` every so often with what has been measured.
    pub fn every(&mut self, every: Span, then: SnapshotSink) {
        let next = self.clock.wall() + every;
        self.interval = Some(Interval { every, next, then });
    }

    /// Serves until [`Control::stop`], then lets outstanding commands end. Returns the
    /// subsystem and what was measured.
    pub fn run(mut self) -> io::Result<(Subsystem, Measure)> {
        // Sleeps end when they should, not up to 50 us later.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        while !self.turn()? {}
        let now = self.clock.now();
        for id in 0..self.sockets.len() {
            self.close(now, id as Id);
        }
        #[cfg(feature = "rdma")]
        self.close_rdma();
        for port in self.ports {
            let Parts { subsystem, measure, .. } = self.hub.parts();
            port.close(now, subsystem, measure);
        }
        self.hub.measure_mut().ended(now.model);
        Ok(self.hub.into_parts())
    }

    /// One turn of the loop; true when the engine has ended.
    fn turn(&mut self) -> io::Result<bool> {
        let mut now = self.clock.now();
        let mut worked = self.receive(now.wall);
        if worked {
            now = self.clock.now();
        }
        let rang = self.serve_ports(now);
        worked |= rang;
        self.hub.advance(now);
        if let Some(warning) = self.hub.take_warning() {
            (self.warn)(&warning);
        }
        self.queue_resumed();
        worked |= self.send();
        while let Some((id, reason)) = self.hub.next_ended() {
            self.end(now.wall, id, &reason);
            worked = true;
        }
        if now.wall >= self.next_sweep {
            self.sweep(now.wall);
        }
        if now.wall >= self.next_path {
            self.measure_path(now.wall);
        }
        if self.fed_at.is_some_and(|at| at <= now.wall) {
            self.feed();
        }
        self.tell(now.wall);
        if worked {
            self.pacing.worked(now.wall);
        }
        if self.is_drained(now.wall) {
            return Ok(true);
        }
        self.turns += 1;
        // A connection that went may have left buffers to others, and so something to send.
        if !self.ready.is_empty() || self.hub.is_dirty() {
            if self.turns >= TURNS_WITHOUT_EPOLL {
                self.poll(Some(Span::ZERO))?;
            }
            return Ok(false);
        }
        if rang {
            if now.wall.saturating_since(self.last_poll) >= SOCKET_INTERVAL {
                self.poll(Some(Span::ZERO))?;
            }
            return Ok(false);
        }
        let deadline = self.deadline();
        let is_free = deadline.is_none_or(|at| at.saturating_since(now.wall) > PREPARATION);
        let rests_at = self.rests_at();
        if !worked && is_free {
            let rests = rests_at.is_some_and(|at| at <= now.wall);
            if rests {
                self.hub.consolidate();
            }
            if rests || self.hub.prepare() {
                self.poll(Some(Span::ZERO))?;
                return Ok(false);
            }
        }
        let deadline = deadline.into_iter().chain(rests_at).min();
        let polled = self.ports.iter().any(Port::is_polled);
        let wait = match polled {
            true => self.pacing.wait_for_doorbells(now.wall, deadline),
            false => {
                let busy = self.hub.outstanding() + self.guests_outstanding() > 0;
                self.pacing.wait(now.wall, deadline, busy)
            }
        };
        match wait {
            Wait::Spin => {
                self.busy.retain(|&id| {
                    let socket = self.sockets.get(id as usize).and_then(Option::as_ref);
                    socket.is_some_and(|it| now.wall.saturating_since(it.active) < BUSY)
                });
                let direct = self.busy.len() <= DIRECT_MAX && !self.busy.is_empty();
                if direct && self.turns < TURNS_WITHOUT_EPOLL {
                    for at in 0..self.busy.len() {
                        self.queue(self.busy[at]);
                    }
                } else if !polled
                    || self.hub.connections() > 0
                    || now.wall.saturating_since(self.last_poll) >= SOCKET_INTERVAL
                {
                    self.poll(Some(Span::ZERO))?;
                }
                if polled && self.ready.is_empty() {
                    self.glance(now.wall, deadline);
                }
            }
            Wait::Sleep(until) => {
                // What was rung just before is not slept over.
                if !self.before_sleep() {
                    self.sleep(until)?;
                }
            }
        }
        Ok(false)
    }

    /// Whether the target ends, and nobody waits for anything any more.
    fn is_drained(&self, now: Time) -> bool {
        let Some(until) = self.draining else { return false };
        let idle = self.hub.outstanding() == 0 && !self.owes_output();
        let guests = self.guests_outstanding() > 0 && now + DRAIN < until + PORT_DRAIN;
        idle && !guests || now >= until
    }

    /// Waits a little for somebody to ring.
    fn glance(&self, now: Time, deadline: Option<Time>) {
        let most = if self.stamped { GLANCES_STAMPED } else { GLANCES };
        let free = deadline.map_or(Span::MAX, |at| at.saturating_since(now));
        for _ in 0..most.min(free.as_ps() / GLANCE.as_ps()) {
            if self.ports.iter().any(Port::is_rung) {
                break;
            }
        }
    }

    /// Arms all notifications before a sleep; whether there is work already.
    fn before_sleep(&mut self) -> bool {
        #[cfg(feature = "rdma")]
        if self.rdma_before_sleep() {
            return true;
        }
        self.ports.iter_mut().any(Port::before_sleep)
    }

    /// Gives every function its turn; whether one had something to do.
    fn serve_ports(&mut self, now: Now) -> bool {
        let mut worked = false;
        for port in &mut self.ports {
            if port.has_more() {
                let Parts { subsystem, measure, .. } = self.hub.parts();
                worked |= port.receive(now, subsystem, measure, &mut self.say);
            }
            worked |= port.turn(now, &self.clock, self.hub.parts(), &mut self.say);
        }
        worked
    }

    fn guests_outstanding(&self) -> u64 {
        let subsystem = self.hub.subsystem();
        self.ports.iter().map(|port| port.outstanding(subsystem)).sum()
    }

    /// Lets a guest in, if there is none.
    fn admit_guest(&mut self, number: usize) {
        // The one before may have gone just now.
        self.heard(number);
        let Some(port) = self.ports.get_mut(number) else { return };
        if self.draining.is_some() {
            return;
        }
        match port.accept() {
            Ok(false) => {}
            Ok(true) => {
                let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
                let data = EventData::new_u64(CLIENTS + number as u64);
                let added = port.channel().map(|it| epoll::add(&self.epoll, it, data, flags));
                if added.is_some_and(|added| added.is_err()) {
                    port.dismiss();
                }
                self.heard(number);
            }
            // The drive serves on, and whoever waits is asked in later.
            Err(_) => self.starve(PORTS + number as u64),
        }
    }

    /// A guest may have said something, or may be told more.
    fn heard(&mut self, number: usize) {
        let now = self.clock.now();
        let Some(port) = self.ports.get_mut(number) else { return };
        let Parts { subsystem, measure, .. } = self.hub.parts();
        if port.receive(now, subsystem, measure, &mut self.say) {
            self.pacing.worked(now.wall);
        }
    }

    /// Until when the engine may sleep if nothing comes.
    fn deadline(&self) -> Option<Time> {
        let mut deadline = self.hub.next_at();
        let mut no_later = |at: Time| deadline = Some(deadline.map_or(at, |before| before.min(at)));
        if self.hub.connections() > 0 {
            no_later(self.next_sweep.min(self.next_path));
        }
        for at in self.ports.iter().filter_map(Port::next_at) {
            no_later(at);
        }
        if let Some(interval) = &self.interval {
            no_later(interval.next);
        }
        if let Some(at) = self.fed_at {
            no_later(at);
        }
        if let Some(until) = self.draining {
            no_later(until);
        }
        deadline
    }

    /// When the store's bytes may be brought nearer, should they not be: while nobody waits.
    fn rests_at(&self) -> Option<Time> {
        let is_idle = || self.hub.outstanding() + self.guests_outstanding() == 0;
        (self.hub.is_scattered() && is_idle()).then(|| self.pacing.rests_at())
    }

    fn sleep(&mut self, until: Option<Time>) -> io::Result<()> {
        let before = self.clock.wall();
        let some = self.poll(until.map(|until| until.saturating_since(before)))?;
        self.slept = true;
        let now = self.clock.wall();
        if !some && let Some(until) = until {
            self.pacing.woke(until.max(before), now);
            self.pacing.napped(now, clock::thread_cpu);
        }
        Ok(())
    }

    /// Asks epoll, waiting for so long at most; whether there was something.
    fn poll(&mut self, timeout: Option<Span>) -> io::Result<bool> {
        self.turns = 0;
        self.poll_before = std::mem::replace(&mut self.last_poll, self.clock.wall());
        let mut events =
            [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 64];
        let timeout = timeout.map(|span| Timespec {
            tv_sec: (span.as_ps() / 1_000_000_000_000) as i64,
            tv_nsec: (span.as_ps() / 1_000 % 1_000_000_000) as i64,
        });
        let count = match epoll::wait(&self.epoll, &mut events[..], timeout.as_ref()) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        for event in &events[..count] {
            let (data, flags) = (event.data.u64(), event.flags);
            match data {
                CONTROL => self.controlled(),
                LISTENERS..CONTROL => self.accept((data - LISTENERS) as usize),
                WAKERS..PORTS => self.hub.store_calls(),
                PORTS..CLIENTS => self.admit_guest((data - PORTS) as usize),
                #[cfg(feature = "rdma")]
                rdma::RDMA.. => self.hear_rdma(data - rdma::RDMA),
                CLIENTS.. => self.heard((data - CLIENTS) as usize),
                id => {
                    let id = id as Id;
                    let Some(Some(socket)) = self.sockets.get_mut(id as usize) else { continue };
                    let takes_more = flags.contains(EventFlags::OUT);
                    socket.writable |= takes_more;
                    if flags != EventFlags::OUT {
                        socket.readable = true;
                        self.queue(id);
                    }
                    // A host may have commands waiting here that are not received while there
                    // is so much to send.
                    if takes_more {
                        self.send_to(id);
                    }
                }
            }
        }
        Ok(count > 0)
    }

    /// Handles what [`Control`] asks for.
    fn controlled(&mut self) {
        self.control.silence();
        if self.control.stopping.load(Ordering::Acquire) && self.draining.is_none() {
            self.draining = Some(self.clock.wall() + DRAIN);
            self.listeners.clear();
        }
        while let Ok(new) = self.control.adopted.try_recv() {
            self.adopt(new);
        }
        if self.control.starved.swap(false, Ordering::AcqRel) {
            self.note_starvation();
        }
        self.control.answer_wanted(self.hub.measure(), || self.snapshot());
    }

    /// Reports what was measured, if the interval is over.
    fn tell(&mut self, now: Time) {
        let Some(interval) = &self.interval else { return };
        if now < interval.next {
            return;
        }
        let snapshot = self.snapshot();
        let (latency, late) = self.hub.measure_mut().take_interval();
        if let Some(interval) = &mut self.interval {
            interval.next = (interval.next + interval.every).max(now);
            (interval.then)(Snapshot { interval: Some((latency, late)), ..snapshot });
        }
    }

    /// A snapshot, without the distributions.
    fn snapshot(&self) -> Snapshot {
        let measure = self.hub.measure();
        #[cfg(feature = "rdma")]
        let (rdma_half_open, rdma_refused) =
            (rdma::sum(&self.rdma, |it| it.half_open()), rdma::sum(&self.rdma, |it| it.refused()));
        #[cfg(not(feature = "rdma"))]
        let (rdma_half_open, rdma_refused) = (0, 0);
        Snapshot {
            now: self.clock.now(),
            connections: self.hub.connections()
                + self.ports.iter().filter(|port| port.is_attached()).count(),
            half_open: self.half_open.iter().filter(|(id, _)| !self.hub.is_connected(*id)).count()
                + rdma_half_open,
            refused: self.refused
                + rdma_refused
                + self.ports.iter().map(Port::refused).sum::<u64>(),
            refusals: self.hub.quotas().refusals(),
            starvations: self.starvations,
            outstanding: self.hub.outstanding() + self.guests_outstanding(),
            stall: self.hub.stall(),
            stalls: measure.stalls().count(),
            totals: measure.totals(),
            counters: self.hub.subsystem().drive().counters(),
            distributions: None,
            interval: None,
        }
    }
}

/// A descriptor's copy for [`Engine::wake_on`].
pub fn copy_descriptor(descriptor: impl AsFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(descriptor, 0)?)
}

#[cfg(test)]
mod tests;
