//! FLIN: fairness between flows at the dies (Tavakkol et al., ISCA 2018).
//!
//! *Insertion.* A die's queue of one class has two parts: work of flows that ask little of
//! the die, then that of intensive ones. What is new goes to the end of its part and then
//! forward, past other flows, to where the ratio of the least to the largest slowdown in that
//! part is largest. A slowdown compares the estimated end with the estimate of it had the
//! flow been alone. An intensive flow that was slowed down most on the average moves ahead of
//! others at once while fairness is below the threshold; nobody moves past it.
//!
//! *Arbitration.* The first read and the first program are those of the priority class whose turn
//! it is; each class has twice the turns of the next, 8:4:2:1.
//!
//! *Selection.* The two are compared by their proportional waits: how long each will have waited if
//! the other goes first, over how long it takes itself. Where collection is urgent, it is the
//! programs that have caused it: the first program waits until the share of it has been done that its
//! flow has in the units written at the die since a block was collected there. What that
//! takes is part of both waits. A flow that only reads has no share, and what nobody waits to write
//! needs no collection.
//!
//! Beyond the paper, which leaves the channel alone: where many dies of a channel read, its share
//! of the channel is part of what a read takes, shared and alone; and data go out first for whoever
//! is slowed down most, the next in line for the data's die included; reads that come while a program
//! waits for its share of collection are weighed against what is left of it. Not modelled: that a flow
//! whose data are mostly invalid makes collection cheaper, for whose pages those are is not counted.

mod state;

use super::Flash;
use super::above::{Above, Programmed};
use super::choice::Pick;
use super::die::{DieOperation, OperationKind};
use super::queues::{CLASS_COLLECTION, CLASS_HOST, CLASS_TABLES};
use super::work::{UNSET, WorkKind};
use crate::config;
use crate::kernel::Kernel;
use crate::kernel::pool::{Linked, List};
use crate::number::{Channel, Die, Plane, Ppn, WorkIndex, WriteIndex};
use crate::observe::blame::HolderIndex;
use mynah_stamp::{Span, Time};
use serde::{Deserialize, Serialize};

const READS: usize = 0;
const WRITES: usize = 1;

#[derive(Serialize, Deserialize)]
pub(super) struct Flin {
    config: config::Flin,
    dies: usize,
    holders: usize,
    epoch_end: Time,
    /// Bytes in an epoch from one die, of reads and of writes, above which a flow is
    /// intensive.
    limits: [u64; 2],
    /// Of each holder, reads and writes, at each die.
    shares: Vec<Share>,
    /// Host reads of each holder that are queued or under way at each die, and the dies of
    /// each channel where it has any; the last is everybody.
    outstanding: Vec<u32>,
    active_dies: Vec<u32>,
    dies_per_channel: usize,
    /// What each die's next host program waits for.
    owed: Vec<Option<Owed>>,
    /// Estimates for each transaction and each write unit that is queued.
    notes: [Vec<Note>; 2],
    queue: Vec<Entry>,
    /// For [`position`]: when the work before each place ends, and the extremes of its slowdowns.
    before: Vec<(u64, f64, f64)>,
}

/// What a flow asks of a die and how it fares there.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Share {
    bytes: u64,
    intensive: bool,
    slowdowns: f64,
    count: u32,
    /// Units written since a block was collected.
    written: u32,
}

/// Collection that a program waits for.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Owed {
    holder: HolderIndex,
    moves: u32,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Note {
    /// How long it would have waited had its flow been alone.
    alone: Span,
    /// How long it would have taken then.
    alone_service: Span,
    intensive: bool,
    /// It has moved forward, and nobody may move past it.
    moved: bool,
}

/// One piece of work in a die's queue. Times in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    index: u32,
    order: u64,
    holder: HolderIndex,
    waited: u64,
    /// How long the die is busy with it.
    service: u64,
    alone: u64,
    alone_service: u64,
    intensive: bool,
    moved: bool,
}

impl Entry {
    /// How many times longer it takes than alone if it ends after `ends` from now on.
    fn slowdown(&self, ends: u64) -> f64 {
        (self.waited + ends) as f64 / (self.alone + self.alone_service).max(1) as f64
    }

    /// How long its flow's next work would wait for it from now on had the flow been alone.
    fn alone_behind(&self) -> u64 {
        (self.alone + self.alone_service).saturating_sub(self.waited)
    }
}

impl Flin {
    pub(super) fn new(config: config::Flin, drive: &config::Config) -> Flin {
        let dies = drive.geometry.dies() as usize;
        let limit = |bytes_per_s: u64| {
            let bytes = u128::from(bytes_per_s) * u128::from(config.epoch.as_ps());
            (bytes / 1_000_000_000_000 / dies as u128) as u64
        };
        Flin {
            dies,
            holders: 0,
            epoch_end: Time::ZERO + config.epoch,
            limits: [limit(config.read_bytes_per_s), limit(config.write_bytes_per_s)],
            shares: Vec::new(),
            outstanding: Vec::new(),
            active_dies: Vec::new(),
            dies_per_channel: dies / drive.geometry.channels as usize,
            owed: vec![None; dies],
            notes: [Vec::new(), Vec::new()],
            queue: Vec::new(),
            before: Vec::new(),
            config,
        }
    }

    pub(super) fn grow(&mut self, holders: usize) {
        self.holders = holders;
        self.shares.resize(holders * 2 * self.dies, Share::default());
        // Place 0 is everybody's: nobody else's place moves when more come.
        self.outstanding.resize((holders + 1) * self.dies, 0);
        self.active_dies.resize((holders + 1) * self.dies / self.dies_per_channel, 0);
    }

    /// A host read of `holder` comes to `die`, or has left it.
    fn count(&mut self, holder: HolderIndex, die: Die, comes: bool) {
        let die = die.index();
        let channels = self.dies / self.dies_per_channel;
        for place in [0, usize::from(holder) + 1] {
            let outstanding = &mut self.outstanding[place * self.dies + die];
            let active = &mut self.active_dies[place * channels + die / self.dies_per_channel];
            if comes {
                *active += u32::from(*outstanding == 0);
                *outstanding += 1;
            } else if *outstanding > 0 {
                *outstanding -= 1;
                *active -= u32::from(*outstanding == 0);
            }
        }
    }

    /// Dies of the channel of `die` with reads of `holder`, or of anybody.
    fn active_dies(&self, holder: Option<HolderIndex>, die: Die) -> u64 {
        let place = holder.map_or(0, |holder| usize::from(holder) + 1);
        let channels = self.dies / self.dies_per_channel;
        self.active_dies[place * channels + die.index() / self.dies_per_channel].into()
    }

    /// Forgets what was queued, and counts its epoch from time zero. What it knows of the flows
    /// stays.
    pub(super) fn begin_anew(&mut self) {
        self.clear();
        self.epoch_end = Time::ZERO + self.config.epoch;
    }

    pub(super) fn clear(&mut self) {
        self.outstanding.fill(0);
        self.active_dies.fill(0);
        self.owed.fill(None);
        self.shares.fill(Share::default());
    }

    /// Whether urgent collection is divided among those who cause it.
    pub(super) fn divides_collection(&self) -> bool {
        self.config.divides_collection
    }

    /// Pages of a die's collections are being programmed, or blocks erased.
    pub(super) fn collected(&mut self, die: Die, moves: u32) {
        if let Some(owed) = &mut self.owed[die] {
            owed.moves = owed.moves.saturating_sub(moves);
        }
    }

    /// A block of a die has been won back.
    pub(super) fn block_collected(&mut self, die: Die) {
        for holder in 0..self.holders as HolderIndex {
            self.share(holder, WRITES, die).written = 0;
        }
    }

    /// How many of `moves` a program of `holder` waits for.
    fn moves_owed(&mut self, holder: HolderIndex, die: Die, moves: u32) -> u32 {
        if let Some(owed) = self.owed[die].filter(|owed| owed.holder == holder) {
            return owed.moves.min(moves);
        }
        let own = u64::from(self.share(holder, WRITES, die).written);
        let all: u64 = (0..self.holders as HolderIndex)
            .map(|other| u64::from(self.share(other, WRITES, die).written))
            .sum();
        (u64::from(moves) * own).div_ceil(all.max(1)) as u32
    }

    fn share(&mut self, holder: HolderIndex, kind: usize, die: Die) -> &mut Share {
        &mut self.shares[(usize::from(holder) * 2 + kind) * self.dies + die.index()]
    }

    /// Says anew, once an epoch, who is intensive.
    fn classify(&mut self, now: Time) {
        if now < self.epoch_end {
            return;
        }
        // After an idle epoch nobody is.
        let fresh = now.since(self.epoch_end) < self.config.epoch;
        let (dies, limits) = (self.dies, self.limits);
        for (at, share) in self.shares.iter_mut().enumerate() {
            share.intensive = fresh && share.bytes > limits[at / dies % 2];
            share.bytes = 0;
        }
        self.epoch_end = now + self.config.epoch;
    }

    fn note(&self, kind: usize, index: u32) -> Note {
        self.notes[kind].get(index as usize).copied().unwrap_or_default()
    }

    fn set_note(&mut self, kind: usize, index: u32, note: Note) {
        let notes = &mut self.notes[kind];
        if notes.len() <= index as usize {
            notes.resize(index as usize + 1, Note::default());
        }
        notes[index as usize] = note;
    }

    fn entry(
        &self,
        kind: usize,
        index: u32,
        order: u64,
        holder: HolderIndex,
        waited: Span,
        service: Span,
    ) -> Entry {
        let Note { alone, alone_service, intensive, moved } = self.note(kind, index);
        Entry {
            index,
            order,
            holder,
            waited: waited.as_ps(),
            service: service.as_ps(),
            alone: alone.as_ps(),
            alone_service: alone_service.as_ps(),
            intensive,
            moved,
        }
    }

    /// Leaves what is new where it is, behind `last` of its own flow, if that is its place: nobody
    /// moves past the own flow. `new` is its index, `alone_service` how long it would take alone.
    fn stays_last(
        &mut self,
        kind: usize,
        die: Die,
        now: Time,
        last: Entry,
        (new, holder, alone_service): (u32, HolderIndex, Span),
    ) -> bool {
        self.classify(now);
        // Work of a flow that asks little would go before all that is intensive.
        let intensive = self.share(holder, kind, die).intensive;
        if last.holder != holder || (last.intensive && !intensive) {
            return false;
        }
        self.note_new(kind, die, (new, holder), last.alone_behind(), alone_service);
        true
    }

    /// Notes of what is new how it would fare alone, and how its flow asks and fares.
    fn note_new(
        &mut self,
        kind: usize,
        die: Die,
        (new, holder): (u32, HolderIndex),
        alone: u64,
        alone_service: Span,
    ) -> Note {
        let intensive = self.share(holder, kind, die).intensive;
        let moved = intensive && self.is_least_fairly_treated(holder, kind, die);
        let note = Note { alone: Span::from_ps(alone), alone_service, intensive, moved };
        self.set_note(kind, new, note);
        note
    }

    /// Finds the place of the last entry of the queue, which is new, and puts it there; whether
    /// that is another. The die is busy for `busy` from now on; `running` is what it does for the
    /// same flow.
    fn place(
        &mut self,
        kind: usize,
        die: Die,
        now: Time,
        busy: u64,
        (running, alone_service): (Option<u64>, Span),
    ) -> bool {
        self.classify(now);
        let Some(last) = self.queue.len().checked_sub(1) else { return false };
        let mut new = self.queue[last];
        let before = self.queue[..last].iter().rfind(|entry| entry.holder == new.holder);
        new.alone = match before {
            Some(before) => before.alone_behind(),
            None => running.unwrap_or(0),
        };
        new.alone_service = alone_service.as_ps();
        let whose = (new.index, new.holder);
        Note { intensive: new.intensive, moved: new.moved, .. } =
            self.note_new(kind, die, whose, new.alone, alone_service);
        self.queue[last] = new;
        let at = position(&self.queue, busy, &mut self.before);
        if at < last {
            // The orders stay where they are, the work moves.
            self.queue[at..].rotate_right(1);
            let order = self.queue[at].order;
            for place in at..last {
                self.queue[place].order = self.queue[place + 1].order;
            }
            self.queue[last].order = order;
        }
        at < last
    }

    /// Whether the flow is slowed down most while flows are not treated fairly.
    fn is_least_fairly_treated(&mut self, holder: HolderIndex, kind: usize, die: Die) -> bool {
        let (mut least, mut most, mut worst) = (f64::INFINITY, 0.0, None);
        for other in 0..self.holders as HolderIndex {
            let share = self.share(other, kind, die);
            if share.count > 0 {
                let mean = share.slowdowns / f64::from(share.count);
                least = mean.min(least);
                if mean > most {
                    (most, worst) = (mean, Some(other));
                }
            }
        }
        worst == Some(holder) && least < self.config.fairness * most
    }

    fn add_slowdown(&mut self, kind: usize, die: Die, entry: Entry) {
        let slowdown = entry.slowdown(entry.service);
        let share = self.share(entry.holder, kind, die);
        share.slowdowns += slowdown;
        share.count = share.count.saturating_add(1);
    }
}

/// Where in `queue` its last entry belongs.
fn position(queue: &[Entry], busy: u64, before: &mut Vec<(u64, f64, f64)>) -> usize {
    let last = queue.len() - 1;
    let new = queue[last];
    let others = &queue[..last];
    if others.is_empty() {
        return 0;
    }
    let light = others.iter().take_while(|entry| !entry.intensive).count();
    let (end, floor) = if new.intensive { (last, light) } else { (light, 0) };
    let may_pass = |entry: &Entry| entry.holder != new.holder && !entry.moved;
    if new.moved {
        let mut at = end;
        while at > floor && may_pass(&others[at - 1]) {
            at -= 1;
        }
        return at;
    }
    // Ends of the part's work as it stands, and the extremes of slowdowns before each place.
    let mut ends = busy + others[..floor].iter().map(|entry| entry.service).sum::<u64>();
    before.clear();
    before.push((ends, f64::INFINITY, 0.0));
    for entry in &others[floor..end] {
        ends += entry.service;
        let slowdown = entry.slowdown(ends);
        let &(_, least, most) = before.last().expect("the first");
        before.push((ends, slowdown.min(least), slowdown.max(most)));
    }
    let (mut best, mut best_at) = (-1.0, end);
    let (mut least_behind, mut most_behind) = (f64::INFINITY, 0.0f64);
    let mut at = end;
    loop {
        let (begins, least, most) = before[at - floor];
        let own = new.slowdown(begins + new.service);
        let least = least.min(least_behind).min(own);
        let most = most.max(most_behind).max(own);
        let fairness = least / most;
        if fairness > best {
            (best, best_at) = (fairness, at);
        }
        if at == floor || !may_pass(&others[at - 1]) {
            return best_at;
        }
        at -= 1;
        let (ends, ..) = before[at + 1 - floor];
        let delayed = others[at].slowdown(ends + new.service);
        least_behind = least_behind.min(delayed);
        most_behind = most_behind.max(delayed);
    }
}

fn is_host(class: u8) -> bool {
    (CLASS_HOST..CLASS_COLLECTION).contains(&class)
}

impl Flash {
    /// How long a read keeps its die where `active` dies of its channel read: where the
    /// channel is the bottleneck, until all of them have had it.
    fn read_service(&self, work: WorkIndex, active: u64) -> Span {
        let w = &self.works[work];
        let array = self.times.read(self.shape.page_of_ppn(w.ppn));
        let transfer = self.times.transfer(w.bytes);
        (self.times.read_command(1) + array + transfer).max(transfer.times(active))
    }

    fn part_service(&self) -> Span {
        let page = self.times.program_mean + self.times.page_transfer;
        Span::from_ps(page.as_ps() / u64::from(self.shape.ppns_per_page()))
    }

    fn read_entry(&self, flin: &Flin, now: Time, work: WorkIndex) -> Entry {
        let w = &self.works[work];
        let waited = now.saturating_since(w.queued);
        let service = self.read_service(work, flin.active_dies(None, w.die));
        flin.entry(READS, work.0, w.order, w.holder, waited, service)
    }

    fn part_entry(&self, flin: &Flin, above: &impl Above, now: Time, part: WriteIndex) -> Entry {
        let Programmed { order, holder, queued, .. } = above.part(part);
        let waited = now.saturating_since(queued);
        flin.entry(WRITES, part.0, order, holder, waited, self.part_service())
    }

    /// An estimate of how long a die stays busy with what it does.
    fn busy_left(&self, above: &impl Above, now: Time, die: Die) -> Span {
        let Some(operation) = &self.dies[die].operation else { return Span::ZERO };
        let left = |begins: Time, array: Span| match begins {
            UNSET => array,
            begins => (begins + array).saturating_since(now),
        };
        match operation.kind {
            OperationKind::Read => {
                let w = &self.works[operation.work_at(0)];
                debug_assert_eq!(w.die, die, "the first of a die's reads has left it");
                let page = self.shape.page_of_ppn(w.ppn);
                left(w.array, self.times.read(page)) + self.times.transfer(w.bytes)
            }
            OperationKind::Program => {
                left(above.part(operation.part_at(0)).array, self.times.program_mean)
            }
            OperationKind::Erase => {
                left(self.works[operation.work_at(0)].started, self.times.erase)
            }
            OperationKind::Suspension => Span::ZERO,
        }
    }

    /// How much longer what a die does for `holder` would take had its flow been alone.
    fn running_alone(
        &self,
        flin: &Flin,
        above: &impl Above,
        now: Time,
        kind: usize,
        (die, holder): (Die, HolderIndex),
    ) -> Option<u64> {
        let operation = self.dies[die].operation.as_ref()?;
        let entry = match (kind, operation.kind) {
            (READS, OperationKind::Read) => self.read_entry(flin, now, operation.work_at(0)),
            (WRITES, OperationKind::Program) => {
                self.part_entry(flin, above, now, operation.part_at(0))
            }
            _ => return None,
        };
        (entry.holder == holder).then(|| entry.alone_behind())
    }

    /// The last in order of the reads that a die has queued in a class; `NONE` if there are none.
    #[cold]
    #[inline(never)]
    pub(super) fn last_read(&self, die: Die, class: usize) -> WorkIndex {
        let tails = self.planes_of(die).map(|plane| self.queues[plane].reads[class].tail);
        let queued = tails.filter(|&tail| tail != WorkIndex::NONE);
        queued.max_by_key(|&tail| self.works[tail].order).unwrap_or(WorkIndex::NONE)
    }

    /// The same of the parts of pages that wait to be programmed.
    #[cold]
    #[inline(never)]
    pub(super) fn last_part(&self, above: &impl Above, die: Die, class: u8) -> WriteIndex {
        let tails = self.planes_of(die).map(|plane| above.waiting(plane, class).1);
        let queued = tails.filter(|&tail| tail != WriteIndex::NONE);
        queued.max_by_key(|&tail| above.part(tail).order).unwrap_or(WriteIndex::NONE)
    }

    /// Gives a read that was just queued its place; `last` was the last before it.
    #[inline(never)]
    pub(super) fn place_read_fairly(
        &mut self,
        kernel: &Kernel,
        above: &impl Above,
        work: WorkIndex,
        last: WorkIndex,
    ) {
        let now = kernel.now;
        let w = &self.works[work];
        let (die, class, holder, bytes) = (w.die, usize::from(w.class), w.holder, w.bytes);
        if !is_host(w.class) || w.kind == WorkKind::Erase {
            return;
        }
        let Some(mut flin) = self.flin.take() else { return };
        flin.share(holder, READS, die).bytes += u64::from(bytes);
        flin.count(holder, die, true);
        let alone = self.read_service(work, flin.active_dies(Some(holder), die));
        if last != WorkIndex::NONE {
            let last = self.read_entry(&flin, now, last);
            if flin.stays_last(READS, die, now, last, (work.0, holder, alone)) {
                self.flin = Some(flin);
                return;
            }
        }
        let mut queue = std::mem::take(&mut flin.queue);
        queue.clear();
        for plane in self.planes_of(die) {
            let mut at = self.queues[plane].reads[class].head;
            while at != WorkIndex::NONE {
                queue.push(self.read_entry(&flin, now, at));
                at = self.works[at].next();
            }
        }
        // The planes' queues are in order: this sort merges such runs.
        queue.sort_by_key(|entry| entry.order);
        flin.queue = queue;
        let busy = self.busy_left(above, now, die).as_ps();
        let running = self.running_alone(&flin, above, now, READS, (die, holder));
        if flin.place(READS, die, now, busy, (running, alone)) {
            for plane in self.planes_of(die) {
                self.queues[plane].reads[class] = List::EMPTY;
            }
            for entry in &flin.queue {
                let work = WorkIndex(entry.index);
                self.works[work].order = entry.order;
                let plane = self.works[work].plane;
                let list = &mut self.queues[plane].reads[class];
                self.works.push_back(list, work);
            }
        }
        self.flin = Some(flin);
    }

    /// Gives a part of a page that was just queued its place; `last` was the last before it.
    #[inline(never)]
    pub(super) fn place_program_fairly(
        &mut self,
        kernel: &Kernel,
        above: &mut impl Above,
        part: WriteIndex,
        die: Die,
        last: WriteIndex,
    ) {
        let now = kernel.now;
        let Programmed { class, holder, .. } = above.part(part);
        if !is_host(class) || above.plane_waited_for(part).is_none() {
            return;
        }
        let Some(mut flin) = self.flin.take() else { return };
        flin.share(holder, WRITES, die).bytes += u64::from(self.shape.ppn_bytes());
        if last != WriteIndex::NONE {
            let (last, alone) = (self.part_entry(&flin, above, now, last), self.part_service());
            if flin.stays_last(WRITES, die, now, last, (part.0, holder, alone)) {
                self.flin = Some(flin);
                return;
            }
        }
        let mut queue = std::mem::take(&mut flin.queue);
        queue.clear();
        let planes = self.planes_of(die);
        for plane in planes.clone() {
            let mut at = above.waiting(plane, class).0;
            while at != WriteIndex::NONE {
                queue.push(self.part_entry(&flin, above, now, at));
                at = above.next(at);
            }
        }
        queue.sort_by_key(|entry| entry.order);
        flin.queue = queue;
        let busy = self.busy_left(above, now, die).as_ps();
        let running = self.running_alone(&flin, above, now, WRITES, (die, holder));
        if flin.place(WRITES, die, now, busy, (running, self.part_service())) {
            let places = flin.queue.iter().map(|entry| (WriteIndex(entry.index), entry.order));
            above.reorder(planes, class, places);
        }
        self.flin = Some(flin);
    }

    /// A read has left its die.
    #[inline(never)]
    pub(super) fn read_has_left(&mut self, work: WorkIndex) {
        let w = &self.works[work];
        let Some(flin) = &mut self.flin else { return };
        if is_host(w.class) {
            flin.count(w.holder, w.die, false);
        }
        // What has left is soon something else: those that the die still holds stay in front.
        let state = &mut self.dies[w.die];
        let held = usize::from(state.transfers);
        if let Some(operation) = &mut state.operation
            && let Some(at) = operation.items[..held].iter().position(|&item| item == work.0)
        {
            operation.items.swap(at, held - 1);
        }
    }

    /// Notes how much reads that start now were slowed down.
    #[inline(never)]
    pub(super) fn note_slowdowns_of_reads(
        &mut self,
        kernel: &Kernel,
        die: Die,
        operation: &DieOperation,
    ) {
        let Some(mut flin) = self.flin.take() else { return };
        for item in operation.works() {
            if is_host(self.works[item].class) {
                let entry = self.read_entry(&flin, kernel.now, item);
                flin.add_slowdown(READS, die, entry);
            }
        }
        self.flin = Some(flin);
    }

    /// Notes how much the parts of a program that starts now were slowed down.
    #[inline(never)]
    pub(super) fn note_slowdowns_of_programs(
        &mut self,
        kernel: &Kernel,
        above: &impl Above,
        die: Die,
        operation: &DieOperation,
    ) {
        let Some(mut flin) = self.flin.take() else { return };
        for first in operation.parts() {
            let mut at = first;
            while at != WriteIndex::NONE {
                if is_host(above.part(at).class) {
                    let entry = self.part_entry(&flin, above, kernel.now, at);
                    flin.add_slowdown(WRITES, die, entry);
                    let share = flin.share(entry.holder, WRITES, die);
                    share.written = share.written.saturating_add(1);
                    flin.owed[die] = None;
                }
                at = above.next(at);
            }
        }
        self.flin = Some(flin);
    }

    /// A block of a plane has been won back.
    pub(crate) fn block_collected(&mut self, plane: Plane) {
        let die = self.shape.die_of_plane(plane);
        if let Some(flin) = &mut self.flin {
            flin.block_collected(die);
        }
    }

    /// Whether a program that has waited for `waited`, and has `moves` of collection to wait for,
    /// will have waited longer for its work than a read for its own, each if the other goes first.
    pub(super) fn program_has_waited_more(
        &self,
        kernel: &Kernel,
        read: Pick,
        waited: Span,
        moves: u32,
    ) -> bool {
        let list = self.queues[read.plane].reads[usize::from(read.class)];
        let read_waited = kernel.now.saturating_since(self.works[list.head].queued);
        let read_service = self.read_service(list.head, 1);
        let program = self.times.program_mean + self.times.page_transfer;
        let moved = self.times.read_command(1) + self.times.read(0) + self.times.page_transfer;
        let collection = (moved + program).times(moves.into());
        let product = |a: Span, b: Span| u128::from(a.as_ps()) * u128::from(b.as_ps());
        product(waited + read_service + collection, read_service)
            > product(read_waited + program + collection, program)
    }

    /// What `die` does next where collection in it is urgent, and divided among those who have
    /// caused it.
    #[cold]
    #[inline(never)]
    pub(super) fn pick_dividing_collection(
        &mut self,
        kernel: &Kernel,
        above: &impl Above,
        die: Die,
    ) -> Option<Pick> {
        let first = self.dies[die].first_plane;
        let class = self.dies[die].host_class(0);
        let read = class.and_then(|class| self.pick_read(first, class));
        let write = self.pick_host_write(kernel, above, die);
        let part = match write {
            Some(Pick { plane, class, .. }) => Some(above.waiting(plane, class).0),
            None => self.part_without_place(above, die),
        };
        let Some(part) = part else {
            return read.or_else(|| self.pick_collection(kernel, above, die));
        };
        let Programmed { class, holder, queued, .. } = above.part(part);
        let waited = kernel.now.since(queued);
        let left = self.planes_of(die).map(|plane| above.moves_left(plane)).sum();
        let moves = match &mut self.flin {
            Some(flin) if is_host(class) => flin.moves_owed(holder, die, left),
            _ => 0,
        };
        // What has no place needs a block, whoever has taken the others.
        let moves = if write.is_none() { moves.max(1) } else { moves };
        if let Some(read) = read {
            let is_due = self.scheduler.write_deadline.is_some_and(|most| waited >= most);
            if !is_due && !self.program_has_waited_more(kernel, read, waited, moves) {
                return Some(read);
            }
        }
        if let Some(flin) = &mut self.flin {
            flin.owed[die] = Some(Owed { holder, moves });
        }
        // While collection waits for data of its own, the die need not.
        match moves {
            0 => write,
            _ => self.pick_collection(kernel, above, die).or(read).or(write),
        }
    }

    /// The first of what waits for a die and has no place to be programmed in, but for what is
    /// collected.
    fn part_without_place(&self, above: &impl Above, die: Die) -> Option<WriteIndex> {
        let mut oldest = None;
        for plane in self.planes_of(die) {
            for class in CLASS_TABLES..CLASS_COLLECTION {
                let head = above.waiting(plane, class).0;
                if head != WriteIndex::NONE && above.is_without_place(plane, class) {
                    let order = above.part(head).order;
                    oldest = Some((order, head)).min(oldest.or(Some((u64::MAX, WriteIndex::NONE))));
                }
            }
        }
        oldest.map(|(_, head)| head)
    }

    /// Whether a read of the block that begins with `ppn` waits in `plane`.
    pub(super) fn is_block_read(&self, plane: Plane, ppn: Ppn) -> bool {
        let block = self.shape.block_of_ppn(ppn);
        self.queues[plane].reads.iter().any(|list| {
            let mut at = list.head;
            while at != WorkIndex::NONE {
                if self.shape.block_of_ppn(self.works[at].ppn) == block {
                    return true;
                }
                at = self.works[at].next();
            }
            false
        })
    }

    /// Moves the data of host reads to the front of a channel's queue that whoever is slowed
    /// down most waits for: the data's own read, or the next read for the same die.
    #[inline(never)]
    pub(super) fn put_least_fair_data_first(&mut self, kernel: &Kernel, channel: Channel) {
        const HOST_DATA: usize = 1;
        let list = self.channels[channel].data[HOST_DATA];
        let Some(flin) = self.flin.take() else { return };
        let (mut worst, mut found, mut found_before) = (-1.0, WorkIndex::NONE, WorkIndex::NONE);
        let (mut before, mut at) = (WorkIndex::NONE, list.head);
        while at != WorkIndex::NONE {
            let w = &self.works[at];
            let transfer = self.times.transfer(w.bytes).as_ps();
            let own = self.read_entry(&flin, kernel.now, at).slowdown(transfer);
            let slowdown = self.next_in_line(&flin, kernel.now, w.die, transfer).max(own);
            if slowdown > worst {
                (worst, found, found_before) = (slowdown, at, before);
            }
            (before, at) = (at, self.works[at].next());
        }
        if found_before != WorkIndex::NONE {
            let list = &mut self.channels[channel].data[HOST_DATA];
            self.works.unlink(list, found_before, found);
            let head = std::mem::replace(&mut list.head, found);
            let order = self.works[head].order;
            self.works[head].order = self.works[found].order;
            self.works[found].order = order;
            self.works[found].set_next(head);
        }
        self.flin = Some(flin);
    }

    /// The slowdown of the next host read for a die, if the die is free after `busy`.
    fn next_in_line(&self, flin: &Flin, now: Time, die: Die, busy: u64) -> f64 {
        self.planes_of(die)
            .flat_map(|plane| {
                let reads = &self.queues[plane].reads;
                reads[usize::from(CLASS_HOST)..usize::from(CLASS_COLLECTION)].iter()
            })
            .filter(|list| !list.is_empty())
            .map(|list| {
                let entry = self.read_entry(flin, now, list.head);
                entry.slowdown(busy + entry.service)
            })
            .fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u32, holder: HolderIndex, alone: u64) -> Entry {
        Entry {
            index,
            order: index.into(),
            holder,
            waited: 0,
            service: 100,
            alone,
            alone_service: 100,
            intensive: false,
            moved: false,
        }
    }

    #[test]
    fn a_lone_read_passes_a_burst() {
        // Four of one flow, each waiting for the one before; a single one of another flow,
        // which alone would not wait, moves to the front.
        let mut queue: Vec<Entry> = (0..4).map(|n| entry(n, 2, u64::from(n) * 100)).collect();
        queue.push(entry(4, 3, 0));
        // In front: 1, 2, 1.5, 1.33, 1.25 times. Further back its own slowdown grows.
        assert_eq!(position(&queue, 0, &mut vec![]), 1);
        // Nobody passes his own flow.
        queue.insert(2, entry(5, 3, 0));
        assert_eq!(position(&queue, 0, &mut vec![]), 3);
    }

    fn flin() -> Flin {
        let parameters = config::Flin {
            epoch: Span::from_ms(10),
            read_bytes_per_s: 0,
            write_bytes_per_s: 0,
            fairness: 0.6,
            divides_collection: true,
        };
        let mut flin = Flin::new(parameters, &crate::testing::small());
        flin.grow(5);
        flin
    }

    proptest::proptest! {
        /// What stays behind its own flow's last without a look at the rest would be put there
        /// with one, and the same is noted of it.
        #[test]
        fn what_stays_last_has_its_place_there(
            flows in proptest::collection::vec((2u16..5, 0u64..50), 1..30),
            intensive in proptest::array::uniform3(proptest::bool::ANY),
            slowed in 2u16..5,
        ) {
            let mut both = [flin(), flin()];
            for flin in &mut both {
                for holder in 2..5u16 {
                    let share = flin.share(holder, READS, Die(0));
                    share.intensive = intensive[usize::from(holder) - 2];
                    let most = if holder == slowed { 5.0 } else { 1.0 };
                    (share.slowdowns, share.count) = (most, 1);
                }
            }
            let mut stayed = 0;
            for (at, &(holder, waited)) in flows.iter().enumerate() {
                let index = at as u32;
                for (quickly, flin) in [false, true].into_iter().zip(&mut both) {
                    let alone = Span::from_ps(100);
                    let new = flin.entry(READS, index, at as u64, holder, Span::ZERO, alone);
                    for entry in &mut flin.queue {
                        entry.waited += waited;
                    }
                    let last = flin.queue.last().copied().filter(|_| quickly);
                    if last.is_some_and(|last| {
                        flin.stays_last(READS, Die(0), Time::ZERO, last, (index, holder, alone))
                    }) {
                        stayed += 1;
                        let Note { alone, alone_service, intensive, moved } =
                            flin.note(READS, index);
                        let (alone, alone_service) = (alone.as_ps(), alone_service.as_ps());
                        flin.queue.push(Entry { alone, alone_service, intensive, moved, ..new });
                    } else {
                        flin.queue.push(new);
                        flin.place(READS, Die(0), Time::ZERO, 0, (None, alone));
                    }
                }
                proptest::prop_assert_eq!(&both[0].queue, &both[1].queue);
            }
            let one_flow = flows.iter().all(|&(holder, _)| holder == flows[0].0);
            proptest::prop_assert!(!one_flow || stayed == flows.len() - 1);
        }
    }

    #[test]
    fn collection_is_owed_by_those_who_wrote() {
        let mut flin = flin();
        // Nobody has written, so nobody has caused it.
        assert_eq!(flin.moves_owed(2, Die(0), 100), 0);
        flin.share(2, WRITES, Die(0)).written = 30;
        flin.share(3, WRITES, Die(0)).written = 10;
        flin.share(3, WRITES, Die(1)).written = 1000;
        assert_eq!([2, 3, 4].map(|holder| flin.moves_owed(holder, Die(0), 100)), [75, 25, 0]);
        // A part of a move is one.
        assert_eq!(flin.moves_owed(3, Die(0), 1), 1);
        // What has been done is owed no more, and what another program owes is another matter.
        flin.owed[0] = Some(Owed { holder: 2, moves: 75 });
        flin.collected(Die(0), 70);
        assert_eq!([2, 3].map(|holder| flin.moves_owed(holder, Die(0), 100)), [5, 25]);
        flin.block_collected(Die(0));
        assert_eq!(flin.moves_owed(3, Die(0), 100), 0);
        assert_eq!(flin.moves_owed(3, Die(1), 100), 100);
    }

    #[test]
    fn intensive_work_stays_behind_the_rest() {
        let mut queue: Vec<Entry> = (0..3).map(|n| entry(n, 2, 1000)).collect();
        queue[2].intensive = true;
        queue.push(Entry { intensive: true, ..entry(3, 3, 0) });
        assert_eq!(position(&queue, 0, &mut vec![]), 2);
        // Light work stands before intensive work, however long that has waited.
        queue[3] = entry(3, 2, 0);
        queue[2].waited = 1_000_000;
        assert_eq!(position(&queue, 0, &mut vec![]), 2);
        // What moved forward is not passed.
        queue[3] = Entry { intensive: true, ..entry(3, 3, 0) };
        queue[2].moved = true;
        assert_eq!(position(&queue, 0, &mut vec![]), 3);
    }
}
