//! Writes: into the cache and from there to flash, or straight to flash; TRIM and flush.

use crate::cache::Cache;
use crate::cache::read::complete_mask;
use crate::config::CacheSharing;
use crate::drive::{Drive, Policies};
use crate::flash::queues::moves;
use crate::ftl::Ftl;
use crate::ftl::mapping::table::Content;
use crate::ftl::unit::{UnitState, WriteUnit};
use crate::io::{Operation, Status};
use crate::kernel::event::Event;
use crate::number::{CommandIndex, Lpn, WriteIndex};
use crate::observe::stats::Resource;
use mynah_stamp::{Span, Stage, StageSpans, Time};
use serde::{Deserialize, Serialize};

/// Units that one step of a TRIM deallocates before other events may happen.
const TRIM_STEP_UNITS: u32 = 4096;

/// A command that waits until what it wrote to a cached unit is on flash.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct ThroughWaiter {
    pub(crate) command: CommandIndex,
    /// It wrote while an earlier state of the unit was being programmed.
    pub(crate) rewrote: bool,
}

impl<P: Policies> Drive<P> {
    pub(crate) fn begin_write(&mut self, command: CommandIndex) {
        let c = self.host.command_mut(command);
        if self.ftl.is_write_protected() {
            c.completion.status = Status::WriteProtected;
            c.parts = 1;
            return self.part_done(command, |_| {});
        }
        self.kernel.observe.count().host_units_written += u64::from(c.end_unit - c.first_unit);
        self.kernel.observe.count().host_bytes_written += u64::from(c.request.sectors) * 512;
        c.parts = 1;
        let (first, end) = (c.first_unit, c.end_unit);
        let (flow, namespace) = (c.flow, c.request.namespace.0 as usize - 1);
        let (placement, bytes) = (c.request.placement, u64::from(c.request.sectors) * 512);
        if self.ftl.parts_writes() {
            c.past_slc = self.ftl.goes_past_slc(
                self.policies.admission(),
                namespace,
                c.request.sector,
                c.request.sectors,
            );
        }
        self.ftl.count_host_write(namespace, placement, bytes);
        match &mut self.cache {
            Some(cache) if self.ftl.namespaces()[namespace].caches_writes => {
                let part = cache.part_of(flow, namespace);
                if cache.wait(part, command) {
                    self.admit(part);
                }
            }
            _ => {
                for lpn in first.upto(end) {
                    self.host.command_mut(command).parts += 1;
                    let write = self.new_unit(command, lpn, false);
                    self.send_to_flash(write);
                }
                self.part_done(command, |_| {});
            }
        }
    }

    #[inline]
    fn new_unit(&mut self, command: CommandIndex, lpn: Lpn, cached: bool) -> WriteIndex {
        let mask = complete_mask(self.shape.unit_sectors, self.unit_mask(command, lpn));
        let c = self.host.command(command);
        let at = self.ftl.units_mut().insert_any();
        let u = self.ftl.unit_mut(at);
        *u = WriteUnit::new(Content::Unit(lpn), c.class, c.flow, self.kernel.now);
        (u.cached, u.watched) = (cached, !cached);
        (u.mask, u.written) = (mask, mask);
        u.command = if cached { CommandIndex::NONE } else { command };
        if self.ftl.groups_by_command() {
            self.place_by_command(command, at);
        }
        at
    }

    /// What a command writes belongs with what it says; to the last that says something, where several
    /// write a unit.
    #[inline(never)]
    fn place_by_command(&mut self, command: CommandIndex, at: WriteIndex) {
        if self.ftl.parts_writes() {
            let past = self.host.command(command).past_slc;
            let u = self.ftl.unit_mut(at);
            // In its queue it stays where it is.
            if u.state != UnitState::Queued {
                u.group = Ftl::group_beside_slc(past);
            }
            return;
        }
        let request = &self.host.command(command).request;
        let (namespace, placement) = (request.namespace.0 as usize - 1, request.placement);
        let Some(handle) = self.ftl.handle_of(namespace, placement) else { return };
        let &WriteUnit { state, plane, group, .. } = self.ftl.unit(at);
        if state == UnitState::Queued && group != handle {
            // It waits for others to fill a page with, and those are others now.
            self.ftl.regroup(at, handle, self.kernel.next_order());
            self.flash.mark_plane(plane);
        }
        self.ftl.unit_mut(at).group = handle;
    }

    /// Lets writes that wait for room in a part of the cache in, oldest first, as far as there
    /// is any.
    #[inline]
    pub(crate) fn admit(&mut self, part: usize) {
        if self.cache.as_ref().is_some_and(|cache| cache.first_waiting(part).is_some()) {
            self.admit_waiting(part);
        }
        self.update_write_pressure(part);
    }

    #[inline(never)]
    fn admit_waiting(&mut self, part: usize) {
        let now = self.kernel.now;
        while let Some(cache) = &self.cache
            && let Some(command) = cache.first_waiting(part)
        {
            let end = self.host.command(command).end_unit;
            while self.host.command(command).cursor < end {
                let unit = self.host.command(command).cursor;
                if !self.admit_unit(command, unit, part) {
                    break;
                }
                self.host.command_mut(command).cursor = unit + 1;
            }
            if self.host.command(command).cursor < end {
                break;
            }
            let cache = self.cache.as_mut().expect("a cache");
            cache.end_wait(part);
            let c = self.host.command_mut(command);
            let (flow, wait) = (c.flow, now.since(c.mark));
            if !wait.is_zero() {
                c.end_stage(Stage::CacheWait, now);
                let observe = &mut self.kernel.observe;
                let (blame, mut most) = (observe.blame(), (wait, flow, Span::ZERO));
                cache.split_wait(part, wait, |holder, span| {
                    blame.add(flow, Resource::CacheSpace, holder, span);
                    if span > most.2 {
                        most = (wait, holder, span);
                    }
                });
                if observe.takes_long(wait) {
                    observe.note_long(flow, Resource::CacheSpace, (wait, now), most);
                }
            }
            let c = self.host.command_mut(command);
            c.admitted_bytes = c.request.sectors * 512;
            self.touch_places(command);
            self.access_cache(command);
        }
    }

    /// Puts one unit into a part of the cache; false if there is no room.
    fn admit_unit(&mut self, command: CommandIndex, lpn: Lpn, part: usize) -> bool {
        let cache = self.cache.as_mut().expect("a cache");
        if cache.is_backed_up(part) {
            return false;
        }
        self.kernel.observe.count().cache_lookups += 1;
        let through = self.host.command(command).request.operation == Operation::WriteThrough
            && !cache.protected;
        let at = match cache.find(lpn) {
            Some(at) => {
                self.kernel.observe.count().cache_hits += 1;
                self.overwrite(command, lpn, at);
                at
            }
            None => {
                if !cache.make_room(part) {
                    // It is looked up again when there is room.
                    self.kernel.observe.count().cache_lookups -= 1;
                    return false;
                }
                let known = cache.forget(lpn);
                let epoch = cache.dirtied();
                let holder = self.host.command(command).flow;
                let at = self.new_unit(command, lpn, true);
                let u = self.ftl.unit_mut(at);
                (u.epoch, u.part) = (epoch, part as u16);
                if let Some(known) = known {
                    // What is on flash of it need not be read.
                    u.mask = complete_mask(self.shape.unit_sectors, u.mask | known);
                    self.kernel.observe.count().cache_hits += 1;
                }
                let cache = self.cache.as_mut().expect("a cache");
                cache.add(lpn, at, holder, part);
                if cache.is_bounded() {
                    self.set_out(at, self.overlap(command, lpn).sectors);
                }
                self.cached(at);
                at
            }
        };
        if let Some(place) = self.cache.as_ref().and_then(|cache| cache.place(at)) {
            self.host.command_mut(command).pieces.push((place, 0));
        }
        if through {
            self.host.command_mut(command).parts += 1;
            self.write_through(command, at);
        }
        true
    }

    /// Tells the cache where a write touches its DRAM, if that matters.
    fn touch_places(&mut self, command: CommandIndex) {
        if !self.host.command(command).pieces.is_empty() {
            let places = std::mem::take(&mut self.host.command_mut(command).pieces);
            let first = self.host.command(command).first_unit;
            for (unit, (place, _)) in first.run(places.len() as u32).zip(places) {
                let overlap = self.overlap(command, unit);
                if let Some(cache) = &mut self.cache {
                    cache.touch(place, overlap.within * 512, overlap.sectors * 512);
                }
            }
        }
    }

    /// New data for a unit that is in the cache.
    fn overwrite(&mut self, command: CommandIndex, lpn: Lpn, at: WriteIndex) {
        let added = self.unit_mask(command, lpn);
        let holder = self.host.command(command).flow;
        let cache = self.cache.as_mut().expect("a cache");
        let u = self.ftl.unit_mut(at);
        // What was trimmed reads as zeros, so all of the unit is known.
        u.mask = if u.trimmed {
            u64::MAX
        } else {
            complete_mask(self.shape.unit_sectors, u.mask | added)
        };
        u.trimmed = false;
        let earlier = if u.state == UnitState::Programming && !u.rewritten { 0 } else { u.written };
        u.written = complete_mask(self.shape.unit_sectors, earlier | added);
        u.created = self.kernel.now;
        cache.rehold(usize::from(u.part), u.holder, holder);
        u.holder = holder;
        if self.ftl.groups_by_command() {
            self.place_by_command(command, at);
        }
        let cache = self.cache.as_mut().expect("a cache");
        let u = self.ftl.unit_mut(at);
        match u.state {
            UnitState::Programming if !u.rewritten => {
                u.rewritten = true;
                u.rewrite_epoch = cache.dirtied();
            }
            UnitState::Cached => {
                self.unlink_cached(at);
                self.link_newest_cached(at);
            }
            _ => {}
        }
    }

    /// A unit has become dirty in the cache: it leaves at once, or when it is the least
    /// recently written and the cache is full enough.
    #[inline]
    fn cached(&mut self, at: WriteIndex) {
        let cache = self.cache.as_ref().expect("a cache");
        let part = usize::from(self.ftl.unit(at).part);
        match cache.parts[part].high {
            None => self.send_to_flash(at),
            Some(high) => {
                let leaves = cache.parts[part].dirty > high || cache.must_leave();
                self.ftl.unit_mut(at).state = UnitState::Cached;
                self.link_newest_cached(at);
                if leaves {
                    self.evict_oldest(part);
                }
            }
        }
    }

    /// A unit counts as on its way to the flash, by so many sectors.
    #[cold]
    #[inline(never)]
    pub(crate) fn set_out(&mut self, at: WriteIndex, sectors: u32) {
        let u = self.ftl.unit_mut(at);
        u.under_way = sectors as u16;
        if let Some(cache) = &mut self.cache {
            cache.set_out(usize::from(u.part), u.under_way);
        }
    }

    pub(crate) fn evict_oldest(&mut self, part: usize) {
        if let Some(oldest) = self.oldest_dirty(part) {
            self.unlink_cached(oldest);
            if self.cache.as_ref().is_some_and(Cache::is_bounded) {
                // Of what was there before the first command, all of a unit.
                self.set_out(oldest, self.shape.unit_sectors);
            }
            self.prefetch_next_to_leave(part);
            self.send_to_flash(oldest);
        }
    }

    /// Asks for what the units that leave the cache after this one will change: the count of
    /// valid units where the next one was, and the mapping entry of the one behind it.
    #[inline]
    fn prefetch_next_to_leave(&self, part: usize) {
        let Some(cache) = &self.cache else { return };
        let mut next = cache.parts[part].resting.oldest_first(self.ftl.units().as_slice());
        if let Some((_, WriteUnit { content: Content::Unit(lpn), .. })) = next.next() {
            self.ftl.prefetch_valid(*lpn);
        }
        if let Some((_, WriteUnit { content: Content::Unit(lpn), .. })) = next.next() {
            self.ftl.prefetch_entry(*lpn);
        }
    }

    /// Sends everything that stays in the cache to flash.
    pub(crate) fn evict_all(&mut self) {
        for part in 0..self.cache.as_ref().map_or(0, |cache| cache.parts.len()) {
            while self.oldest_dirty(part).is_some() {
                self.evict_oldest(part);
            }
        }
    }

    /// Sends what is more than may stay in the cache to flash.
    pub(crate) fn evict_surplus(&mut self) {
        for part in 0..self.cache.as_ref().map_or(0, |cache| cache.parts.len()) {
            let surplus = self.cache.as_ref().map_or(0, |cache| {
                cache.parts[part].dirty.saturating_sub(cache.dirty_at_rest(part, false))
            });
            for _ in 0..surplus {
                self.evict_oldest(part);
            }
        }
    }

    /// Writes what is in the cache to flash.
    pub(crate) fn write_back(&mut self) {
        if let Some(cache) = self.cache.as_mut().filter(|cache| !cache.is_clean()) {
            cache.draining = true;
            self.evict_all();
            self.update_write_pressure(0);
        }
    }

    pub(crate) fn link_newest_cached(&mut self, at: WriteIndex) {
        let part = usize::from(self.ftl.unit(at).part);
        let cache = self.cache.as_mut().expect("a cache");
        cache.parts[part].resting.add(self.ftl.units_mut().as_mut_slice(), at.0);
    }

    pub(crate) fn unlink_cached(&mut self, at: WriteIndex) {
        let part = usize::from(self.ftl.unit(at).part);
        let cache = self.cache.as_mut().expect("a cache");
        cache.parts[part].resting.remove(self.ftl.units_mut().as_mut_slice(), at.0);
    }

    /// The least recently written unit of a part of the cache that is not on its way to the flash.
    pub(crate) fn oldest_dirty(&self, part: usize) -> Option<WriteIndex> {
        self.cache.as_ref().and_then(|cache| cache.parts[part].resting.oldest()).map(WriteIndex)
    }

    /// A command waits until a unit is on flash.
    fn write_through(&mut self, command: CommandIndex, at: WriteIndex) {
        let rewrote = self.ftl.unit(at).rewritten;
        let waiter = ThroughWaiter { command, rewrote };
        let cache = self.cache.as_mut().expect("a cache");
        cache.through_waiters.entry(at).or_default().push(waiter);
        let u = self.ftl.unit_mut(at);
        // The command waits for dies and channels in its place: that is blamed on whoever has them,
        // where it does from the beginning.
        match u.state {
            UnitState::Queued if u.queued < self.kernel.now => {}
            UnitState::Queued if !u.watched => {
                u.watched = true;
                self.flash.watch_program(at);
            }
            _ => u.watched = true,
        }
        if u.state == UnitState::Cached {
            u.through = true;
            self.unlink_cached(at);
            self.send_to_flash(at);
            return;
        }
        let u = self.ftl.unit_mut(at);
        if u.state == UnitState::Queued && u.cached && !u.through {
            let plane = u.plane;
            self.ftl.force(plane);
            self.flash.mark_plane(plane);
        }
        self.ftl.unit_mut(at).through = true;
    }

    #[inline]
    pub(crate) fn queue_unit(&mut self, at: WriteIndex) {
        if self.ftl.unit(at).cached
            && self.cache.as_ref().is_some_and(|cache| cache.dram.takes_all())
        {
            return self.take_out_of_dram(at);
        }
        if self.host.has_bus() && self.comes_from_dram(at) {
            return self.take_out_of_dram(at);
        }
        self.queue_for_plane(at);
    }

    /// Whether a unit's data come over the bus of an Ethernet drive: those of hosts. Mapping pages,
    /// and what collection moves, stay with the flash controllers.
    #[cold]
    fn comes_from_dram(&self, at: WriteIndex) -> bool {
        let u = self.ftl.unit(at);
        matches!(u.content, Content::Unit(_)) && !moves(u.class)
    }

    /// A unit's data leave DRAM for the flash.
    #[inline(never)]
    fn take_out_of_dram(&mut self, at: WriteIndex) {
        let now = self.kernel.now;
        let u = self.ftl.unit_mut(at);
        u.state = UnitState::Leaving;
        let bits = self.shape.unit_sectors.min(64);
        let bytes = self.shape.unit_bytes / bits * u.mask.count_ones().min(bits);
        let mut end = now;
        if u.cached
            && let Some(cache) = self.cache.as_mut().filter(|cache| cache.dram.takes_all())
        {
            if let Some(place) = cache.place(at) {
                cache.touch(place, 0, bytes);
            }
            let length = cache.access_time(bytes);
            end = cache.dram.book(now, length, u.holder, |_, _| {}).end;
        }
        // The bus is busy while the DRAM gives them.
        let end = self.host.cross_bus(now, bytes, u.holder).max(end);
        u.dram = end.since(now);
        self.kernel.events.push(end, Event::UnitOutOfDram { unit: at });
    }

    /// What the cache has of a unit is not what it will be on flash.
    #[cold]
    #[inline(never)]
    pub(crate) fn forget_clean(&mut self, lpn: Lpn) {
        if let Some(cache) = &mut self.cache {
            cache.forget(lpn);
        }
    }

    /// A cached unit has been programmed.
    #[inline(always)]
    pub(crate) fn unit_programmed(&mut self, at: WriteIndex) {
        let now = self.kernel.now;
        if !self.ftl.unit(at).cached {
            let u = self.ftl.unit(at);
            let spans = unit_spans(u, u.created, now);
            let command = u.command;
            self.ftl.units_mut().remove(at);
            self.part_done(command, |stages| add_all(stages, spans));
            return;
        }
        self.unit_clean(at, true);
    }

    /// Whether a unit that is on flash stays in the cache for reads.
    #[inline]
    pub(crate) fn stays_when_clean(&self, lpn: Lpn) -> bool {
        self.ftl.keeps_reads() && self.ftl.namespaces()[self.ftl.namespace_index(lpn)].caches_reads
    }

    /// What a cached unit held is on flash, or (not `programmed`) need not be. If it was
    /// overwritten meanwhile it starts again; otherwise it leaves the cache, or is clean if
    /// reads may find it there.
    pub(crate) fn unit_clean(&mut self, at: WriteIndex, programmed: bool) {
        let u = self.ftl.unit_mut(at);
        if !u.cached {
            // A write without a cache that was trimmed before it was programmed.
            let (command, span) = (u.command, self.kernel.now.since(u.created));
            self.ftl.units_mut().remove(at);
            return self.part_done(command, |stages| stages.add(Stage::DieWait, span));
        }
        let epoch = u.epoch;
        let again = std::mem::take(&mut u.rewritten);
        u.epoch = u.rewrite_epoch;
        (u.through, u.watched) = (false, false);
        u.retried = false;
        let (content, holder, part) = (u.content, u.holder, usize::from(u.part));
        let keep = (programmed && !u.trimmed).then_some(u.mask);
        let cache = self.cache.as_mut().expect("a cache");
        cache.cleaned(epoch);
        if !again && let Content::Unit(lpn) = content {
            let keep = keep.filter(|_| self.stays_when_clean(lpn));
            let cache = self.cache.as_mut().expect("a cache");
            if cache.is_bounded() {
                cache.arrived(part, self.ftl.unit(at).under_way);
            }
            cache.remove(lpn, holder, part, keep);
            cache.draining &= !cache.is_clean();
            self.ftl.units_mut().remove(at);
        }
        if let Some(cache) = &mut self.cache
            && !cache.through_waiters.is_empty()
            && let Some(mut waiters) = cache.through_waiters.remove(&at)
        {
            if again {
                // Those who rewrote it wait for the next program.
                let later: Vec<_> = waiters
                    .extract_if(.., |waiter| waiter.rewrote)
                    .map(|waiter| ThroughWaiter { rewrote: false, ..waiter })
                    .collect();
                if !later.is_empty() {
                    let u = self.ftl.unit_mut(at);
                    (u.through, u.watched) = (true, true);
                    cache.through_waiters.insert(at, later);
                }
            }
            for ThroughWaiter { command, .. } in waiters {
                let mark = self.host.command(command).mark;
                let spans = unit_spans(self.ftl.unit(at), mark, self.kernel.now);
                self.part_done(command, |stages| add_all(stages, spans));
            }
        }
        if again && self.ftl.unit(at).through {
            self.send_to_flash(at);
        } else if again {
            self.cached(at);
        }
        self.finish_flushes();
        self.admit(part);
        if self.config.cache.is_some_and(|cache| cache.sharing != CacheSharing::Shared) {
            // Others may wait for whoever had more before parts were made smaller, or for the
            // only room there is.
            for other in 0..self.cache.as_ref().map_or(0, |cache| cache.parts.len()) {
                if other != part && self.cache.as_ref().is_some_and(|cache| cache.is_waited_for()) {
                    self.admit(other);
                }
            }
        }
    }

    /// Commands that wait until a unit is on flash will wait in vain: they fail.
    pub(crate) fn fail_waiters(&mut self, at: WriteIndex) {
        let Some(cache) = &self.cache else { return };
        for waiter in cache.through_waiters.get(&at).into_iter().flatten() {
            self.host.command_mut(waiter.command).completion.status = Status::WriteFault;
        }
    }

    /// Host pages need not be full before they are programmed while someone waits for a flush, or
    /// for room in the cache that no full page will make. (Where the cache is divided, or not for
    /// all, full pages may be of those who do not make this room.)
    #[inline]
    pub(crate) fn update_write_pressure(&mut self, part: usize) {
        let Some(cache) = &self.cache else { return };
        let room_comes = cache.takes_all_writes && self.ftl.has_full_page();
        let pressure = cache.must_leave() || cache.is_waited_for() && !room_comes;
        if pressure || self.ftl.is_write_pressed() {
            self.set_write_pressure(pressure, part);
        }
    }

    #[inline(never)]
    fn set_write_pressure(&mut self, pressure: bool, part: usize) {
        if pressure && !self.ftl.is_write_pressed() {
            for plane in self.shape.all_planes() {
                if self.ftl.host_units_waiting(plane) > 0 {
                    self.flash.mark_plane(plane);
                }
            }
        }
        self.ftl.set_write_pressure(pressure);
        if let Some(cache) = &self.cache
            && cache.first_waiting(part).is_some()
            && !cache.has_room(part)
        {
            // Room comes only from units on their way: if none is, the oldest sets out.
            self.evict_oldest(cache.part_in_the_way(part));
        }
    }

    #[inline(never)]
    pub(crate) fn begin_flush(&mut self, command: CommandIndex) {
        let volatile = self.cache.as_mut().filter(|cache| !cache.protected);
        let epoch = volatile.and_then(|cache| cache.end_epoch());
        self.host.command_mut(command).parts = 1;
        match (epoch, &mut self.cache) {
            (Some(epoch), Some(cache)) => {
                self.host.command_mut(command).epoch = epoch;
                cache.flushes.push_back(command);
                self.evict_all();
                self.update_write_pressure(0);
            }
            _ => self.part_done(command, |_| {}),
        }
    }

    /// Completes flushes whose data is on flash.
    fn finish_flushes(&mut self) {
        let now = self.kernel.now;
        while let Some(cache) = &mut self.cache
            && let Some(&command) = cache.flushes.front()
            && cache.is_clean_through(self.host.command(command).epoch)
        {
            cache.flushes.pop_front();
            let span = now.since(self.host.command(command).mark);
            self.part_done(command, |stages| stages.add(Stage::CacheWait, span));
        }
    }

    #[inline(never)]
    pub(crate) fn begin_trim(&mut self, command: CommandIndex) {
        self.host.command_mut(command).parts = 1;
        self.trim_step(command);
    }

    /// Deallocates some units, and the rest in later steps.
    #[cold]
    #[inline(never)]
    pub(crate) fn trim_step(&mut self, command: CommandIndex) {
        let c = self.host.command(command);
        let first = c.cursor;
        let end = c.end_unit.min(Lpn(first.0.saturating_add(TRIM_STEP_UNITS)));
        for lpn in first.upto(end) {
            self.trim_unit(lpn);
        }
        self.translation_trimmed(first, end);
        let c = self.host.command_mut(command);
        c.cursor = end;
        if end < c.end_unit {
            self.kernel.events.push(self.kernel.now, Event::TrimStep { command });
        } else {
            let span = self.kernel.now.since(c.mark);
            self.part_done(command, |stages| stages.add(Stage::Mapping, span));
        }
    }
}

fn add_all(stages: &mut StageSpans, spans: [(Stage, Span); 6]) {
    spans.into_iter().for_each(|(stage, span)| stages.add(stage, span));
}

/// Where a unit's time went between `from` and `now`, when its program ended.
fn unit_spans(unit: &WriteUnit, from: Time, now: Time) -> [(Stage, Span); 6] {
    let upto = |at: Time| at.max(from).min(now);
    // A unit that was never programmed may have older times of an earlier program.
    let queued = upto(unit.queued);
    let started = upto(unit.started).max(queued);
    let array = upto(unit.array).max(started);
    let die_wait = started.since(queued);
    let block_wait = unit.block_wait.min(die_wait);
    let before = queued.since(from);
    let dram = unit.dram.min(before);
    [
        (Stage::Mapping, before - dram),
        (Stage::Cache, dram),
        (Stage::BlockWait, block_wait),
        (Stage::DieWait, die_wait - block_wait),
        (Stage::FlashCommand, array.since(started)),
        (Stage::FlashArray, now.since(array)),
    ]
}
