//! The model of the drive, as the subsystem has it: what goes into it goes through here, so that
//! whoever listens misses nothing, and what it asks for waits here until it is answered.

use crate::Tap;
use crate::config::Timing;
use crate::namespaces::SECTOR_BYTES;
use mynah_model::Drive;
use mynah_model::config::{Config, Fault};
use mynah_model::io::{self, Control, Direction, NamespaceId, PlacementId, QueueId, Request, Tag};
use mynah_model::keys::{Decision, KeyRequest, LostPair};
use mynah_stamp::{Span, Time};
use std::collections::VecDeque;

/// The model's queue for the subsystem's own work (deallocation of deleted namespaces).
pub(crate) const OWN_QUEUE: QueueId = QueueId(u16::MAX);

/// A drive comes to rest within this time, or not at all.
const REST_MAX: Span = Span::from_secs(3600);

/// How far time is advanced at once while the drive comes to rest.
const REST_STEP: Span = Span::from_ms(1);

/// Something that the model asks of a function, and stands still until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelRequest {
    /// The next entry of a submission queue.
    Fetch { queue: u32 },
    /// Data of a command cross the link.
    Transfer { queue: u32, command: u32, first_sector: u32, sectors: u32, direction: Direction },
}

impl ModelRequest {
    /// The queue that it is about.
    pub(crate) fn queue(&self) -> u32 {
        match *self {
            ModelRequest::Fetch { queue } | ModelRequest::Transfer { queue, .. } => queue,
        }
    }
}

/// Which reclaim unit handle a write is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) handle: u8,
    /// Whether the host had named no placement handle that there is.
    pub(crate) is_unknown: bool,
}

/// The drive, with who listens to its inputs and what it waits for.
pub(crate) struct Model {
    drive: Drive,
    tap: Option<Box<dyn Tap>>,
    /// Times of the power cuts that are still to come, in order.
    power_cuts: VecDeque<Time>,
    /// Whether the drive has the subsystem's own queue.
    has_own_queue: bool,
    /// Requests to functions that are not answered yet, in order.
    requests: VecDeque<ModelRequest>,
}

impl Model {
    /// A model that nobody listens to.
    pub(crate) fn new(drive: Drive) -> Model {
        let (power_cuts, requests) = (VecDeque::new(), VecDeque::new());
        Model { drive, tap: None, power_cuts, has_own_queue: false, requests }
    }

    /// Expects the power cuts that the drive's description names; whether there are any.
    pub(crate) fn expect_power_cuts(&mut self) -> bool {
        let faults = self.drive.config().faults.iter();
        let mut cuts: Vec<Time> = faults
            .filter_map(|fault| match fault {
                Fault::PowerCut { at, .. } => Some(*at),
                _ => None,
            })
            .collect();
        cuts.sort();
        cuts.dedup();
        self.power_cuts = cuts.into();
        !self.power_cuts.is_empty()
    }

    #[inline]
    pub(crate) fn drive(&self) -> &Drive {
        &self.drive
    }

    /// What the drive is like.
    #[inline]
    pub(crate) fn config(&self) -> &Config {
        self.drive.config()
    }

    /// How far the drive has come.
    #[inline]
    pub(crate) fn now(&self) -> Time {
        self.drive.now()
    }

    /// When the power fails next, if it is known to.
    #[inline]
    pub(crate) fn next_power_cut(&self) -> Option<Time> {
        self.power_cuts.front().copied()
    }

    /// Whether the power fails now; then that is over.
    pub(crate) fn take_power_cut(&mut self, now: Time) -> bool {
        self.power_cuts.pop_front_if(|cut| *cut == now).is_some()
    }

    /// Advances the drive's time.
    #[inline]
    pub(crate) fn advance(&mut self, to: Time) {
        self.drive.advance(to);
    }

    /// The next thing that the drive says.
    #[inline]
    pub(crate) fn poll(&mut self) -> Option<io::Output> {
        self.drive.poll()
    }

    /// Whether data that a write has completed with can be lost with the power.
    pub(crate) fn has_volatile_cache(&self) -> bool {
        let cache = self.config().cache;
        cache.is_some_and(|cache| cache.mode.writes() && !cache.power_loss_protection)
    }

    /// Whether both halves of a fused operation can be in the controller at once: the second is
    /// fetched while the first waits for it.
    pub(crate) fn can_fuse(&self, timing: Timing) -> bool {
        let queues = &self.config().queues;
        timing == Timing::Immediate || queues.fetch_size > 1 && queues.command_slots > 1
    }

    pub(crate) fn set_tap(&mut self, tap: Box<dyn Tap>) {
        self.tap = Some(tap);
    }

    /// Has the drive say when data move.
    pub(crate) fn report_moves(&mut self) {
        self.drive.report_moves(true);
    }

    /// The moment at which an input takes effect, where the subsystem has come to `now`.
    #[inline]
    fn moment(&self, now: Time) -> Time {
        now.max(self.now())
    }

    /// Gives the drive a control.
    pub(crate) fn control(&mut self, now: Time, control: Control) {
        let at = self.moment(now);
        if let Some(tap) = &mut self.tap {
            tap.control(at, &control);
        }
        // Fails only for a queue that a power cut has taken away.
        let _ = self.drive.control(at, control);
    }

    /// Gives the drive a command, of a host's queue or the subsystem's `own`; false if the queue
    /// went with the power.
    #[inline]
    pub(crate) fn command(
        &mut self,
        now: Time,
        queue: QueueId,
        request: Request,
        own: bool,
    ) -> bool {
        let at = self.moment(now);
        match &mut self.tap {
            Some(tap) if own => tap.own_command(at, queue, &request),
            Some(tap) => tap.command(at, queue, &request),
            None => {}
        }
        self.drive.command(at, queue, request).is_ok()
    }

    /// Gives the drive a command of keys; false if the queue went with the power.
    pub(crate) fn key_command(&mut self, now: Time, queue: QueueId, request: KeyRequest) -> bool {
        let at = self.moment(now);
        let taken = self.drive.key_command(at, queue, request).is_ok();
        if let Some(tap) = self.tap.as_mut().filter(|_| taken) {
            tap.key_command(at, queue, &request);
        }
        taken
    }

    /// Tells the drive what a command is about that it has taken; whether it is so. `false`: there
    /// is no room, or nobody waits any more.
    pub(crate) fn decided(&mut self, now: Time, command: u32, decision: Decision) -> bool {
        let (at, tag) = (self.moment(now), Tag(command));
        let decided = self.drive.decided(at, tag, decision);
        if let (Ok(_), Some(tap)) = (&decided, &mut self.tap) {
            tap.decided(at, tag, &decision);
        }
        decided.unwrap_or(false)
    }

    /// The drive has completed a command that was created at `created`.
    #[inline]
    pub(crate) fn completed(&mut self, completion: &io::Completion, created: Time) {
        if let Some(tap) = &mut self.tap {
            tap.completed(completion, created);
        }
    }

    /// The answer to [`ModelRequest::Transfer`] from the host, or the end of work beside the
    /// drive's queue.
    pub(crate) fn data_arrived(&mut self, now: Time, command: u32) {
        let (at, tag) = (self.moment(now), Tag(command));
        // Fails only where nobody waits any more.
        if self.drive.data_arrived(at, tag).is_ok()
            && let Some(tap) = &mut self.tap
        {
            tap.data_arrived(at, tag);
        }
    }

    /// The host has put `count` entries into a submission queue in its memory.
    pub(crate) fn ring(&mut self, now: Time, queue: QueueId, count: u32) {
        let at = self.moment(now);
        if self.drive.ring(at, queue, count).is_ok()
            && let Some(tap) = &mut self.tap
        {
            tap.ring(at, queue, count);
        }
    }

    /// The host has taken `count` entries of a queue off its completion queue.
    pub(crate) fn completions_freed(&mut self, now: Time, queue: QueueId, count: u32) {
        let at = self.moment(now);
        if self.drive.cq_freed(at, queue, count).is_ok()
            && let Some(tap) = &mut self.tap
        {
            tap.cq_freed(at, queue, count);
        }
    }

    /// Whether the drive stands still until somebody answers what it asks for.
    #[inline]
    pub(crate) fn is_held_up(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Notes what the drive asks for.
    pub(crate) fn ask(&mut self, request: ModelRequest) {
        self.requests.push_back(request);
    }

    /// The first of what it asks for that is about such a queue.
    pub(crate) fn take_request(&mut self, is_meant: impl Fn(u32) -> bool) -> Option<ModelRequest> {
        let at = self.requests.iter().position(|request| is_meant(request.queue()))?;
        self.requests.remove(at)
    }

    /// Nobody will answer for a queue any more.
    pub(crate) fn forget_requests(&mut self, queue: u32) {
        self.requests.retain(|request| request.queue() != queue);
    }

    /// The drive has got the subsystem's own queue, or has it already; whether it had it.
    pub(crate) fn had_own_queue(&mut self) -> bool {
        std::mem::replace(&mut self.has_own_queue, true)
    }

    /// The drive has lost its power, and with it its queues: what was lost of what it held, by pool
    /// and unit.
    pub(crate) fn take_power_loss(&mut self) -> Vec<(io::NamespaceId, u64)> {
        self.has_own_queue = false;
        self.drive.take_lost_units()
    }

    /// The pairs that were lost with the power.
    pub(crate) fn take_lost_pairs(&mut self) -> Vec<LostPair> {
        self.drive.take_lost_pairs()
    }

    /// The reclaim unit handles that writes to a pool may be for; none of a drive without data
    /// placement.
    pub(crate) fn handles_of(&self, pool: NamespaceId) -> &[u8] {
        self.drive.placement_handles(pool).unwrap_or_default()
    }

    /// What says to the drive that a write to a pool is for this reclaim unit handle: the first of the
    /// pool's, if it has no such one.
    #[inline]
    pub(crate) fn placement(&self, pool: NamespaceId, placed: Placed) -> PlacementId {
        let handles = self.handles_of(pool);
        let at = match handles.get(usize::from(placed.handle)) {
            // Mostly pools have all of them, in order.
            Some(handle) if *handle == placed.handle => usize::from(placed.handle),
            _ => handles.iter().position(|handle| *handle == placed.handle).unwrap_or(0),
        };
        match placed.is_unknown && at == 0 {
            // It goes to the pool's first as well, and is counted.
            true => PlacementId(u16::MAX),
            false => PlacementId(at as u16),
        }
    }

    /// The control that has a reclaim unit handle refer to another reclaim unit.
    pub(crate) fn update_of(&self, handle: u8) -> Option<Control> {
        let pools = (1..).map_while(|id| {
            Some((NamespaceId(id), self.drive.placement_handles(NamespaceId(id))?))
        });
        let mut found = pools.filter_map(|(pool, handles)| {
            let at = handles.iter().position(|it| *it == handle)?;
            Some(Control::UpdateHandle(pool, PlacementId(at as u16)))
        });
        found.next()
    }

    /// Bytes that can still be written to the reclaim unit of a handle, and bytes of a whole one.
    pub(crate) fn unit_left(&self, handle: u8) -> Option<(u64, u64)> {
        let unit = u64::from(self.config().mapping.unit_bytes);
        Some((self.drive.reclaim_unit_left(handle)? * unit, self.drive.reclaim_unit_bytes()?))
    }

    /// The bytes of the store that belong to a pool: first, and behind the last.
    pub(crate) fn pool_bytes(&self, pool: io::NamespaceId) -> (u64, u64) {
        let start = self.pool_start(pool);
        let sectors = self.drive.namespace_sectors(pool).unwrap_or(0);
        (start * SECTOR_BYTES, (start + sectors) * SECTOR_BYTES)
    }

    /// The sector of the store that a pool begins at.
    pub(crate) fn pool_start(&self, pool: io::NamespaceId) -> u64 {
        let before = (1..pool.0).map(io::NamespaceId);
        before.filter_map(|id| self.drive.namespace_sectors(id)).sum()
    }

    /// Writes what is in the drive's cache to the flash and lets everything end, whatever was under
    /// way. `None` if it does not come to rest before its power fails, or goes on collecting without
    /// end.
    pub(crate) fn bring_to_rest(&mut self) -> Option<&mut Drive> {
        let end = self.now() + REST_MAX;
        let end = self.power_cuts.front().map_or(end, |&cut| end.min(cut));
        let pages_max = self.drive.pages_programmed() + self.drive.tidying_pages_max();
        self.drive.control(self.now(), Control::Reset).ok()?;
        loop {
            // Whoever would answer has gone.
            while self.drive.poll().is_some() {}
            self.drive.control(self.now(), Control::WriteBack).ok()?;
            if self.drive.is_at_rest() {
                break;
            }
            if self.drive.pages_programmed() > pages_max {
                return None;
            }
            // What is to come much later, a fault, is not waited for.
            match self.drive.next_at().map(|at| at.min(self.now() + REST_STEP)) {
                Some(at) if at < end => self.drive.advance(at),
                Some(_) => return None,
                None => break,
            }
        }
        // Messages that are still on the link cross it.
        let last = self.now() + Span::from_us(1);
        if last < end {
            self.drive.advance(last);
        }
        Some(&mut self.drive).filter(|drive| drive.is_at_rest())
    }
}
