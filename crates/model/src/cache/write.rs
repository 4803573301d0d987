//! Writes: into the cache and from there to flash, or straight to flash; TRIM and flush.

use crate::cache::Cache;
use crate::cache::read::complete_mask;
use crate::config::{CacheSharing, MediaOperation, Placement};
use crate::drive::Drive;
use crate::ftl::mapping::cached::Waiter;
use crate::ftl::mapping::table::Content;
use crate::host::command::{ThroughWaiter, UnitState, WriteUnit};
use crate::io::{Operation, Status};
use crate::kernel::event::Event;
use crate::kernel::pool::NONE;
use crate::observe::blame::GARBAGE_COLLECTION;
use crate::observe::stats::Resource;
use mynah_stamp::{Span, Stage, StageSpans, Time};

/// Units that one step of a TRIM deallocates before other events may happen.
const TRIM_STEP_UNITS: u32 = 4096;

impl Drive {
    pub(crate) fn begin_write(&mut self, command: u32) {
        let c = &mut self.commands[command];
        if self.write_protected {
            c.completion.status = Status::WriteProtected;
            c.parts = 1;
            return self.part_done(command, |_| {});
        }
        self.counters.host_units_written += u64::from(c.end_unit - c.first_unit);
        self.counters.host_bytes_written += u64::from(c.request.sectors) * 512;
        c.parts = 1;
        let (first, end) = (c.first_unit, c.end_unit);
        let (flow, namespace) = (c.flow, c.request.namespace.0 as usize - 1);
        match &mut self.cache {
            Some(cache) if self.namespaces[namespace].caches_writes => {
                let part = cache.part_of(flow, namespace);
                if cache.wait(part, command) {
                    self.admit(part);
                }
            }
            _ => {
                for unit in first..end {
                    self.commands[command].parts += 1;
                    let write = self.new_unit(command, unit, false);
                    self.send_to_flash(write);
                }
                self.part_done(command, |_| {});
            }
        }
    }

    #[inline]
    fn new_unit(&mut self, command: u32, unit: u32, cached: bool) -> u32 {
        let mask = complete_mask(self.shape.unit_sectors, self.unit_mask(command, unit));
        let c = &self.commands[command];
        let at = self.units.insert_any();
        let u = &mut self.units[at];
        *u = WriteUnit::new(Content::Unit(unit), c.class, c.flow, self.now);
        (u.cached, u.watched) = (cached, !cached);
        (u.mask, u.written) = (mask, mask);
        u.command = if cached { NONE } else { command };
        at
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
        let now = self.now;
        while let Some(cache) = &self.cache
            && let Some(command) = cache.first_waiting(part)
        {
            let end = self.commands[command].end_unit;
            while self.commands[command].cursor < end {
                let unit = self.commands[command].cursor;
                if !self.admit_unit(command, unit, part) {
                    break;
                }
                self.commands[command].cursor += 1;
            }
            if self.commands[command].cursor < end {
                break;
            }
            let cache = self.cache.as_mut().expect("a cache");
            cache.end_wait(part);
            let c = &mut self.commands[command];
            let (flow, wait) = (c.flow, now.since(c.mark));
            if !wait.is_zero() {
                c.end_stage(Stage::CacheWait, now);
                let blame = &mut self.blame;
                cache.split_wait(part, wait, |holder, span| {
                    blame.add(flow, Resource::CacheSpace, holder, span);
                });
            }
            let c = &mut self.commands[command];
            c.admitted_bytes = c.request.sectors * 512;
            self.touch_places(command);
            self.access_cache(command);
        }
    }

    /// Puts one unit into a part of the cache; false if there is no room.
    fn admit_unit(&mut self, command: u32, unit: u32, part: usize) -> bool {
        let cache = self.cache.as_mut().expect("a cache");
        if cache.is_backed_up(part) {
            return false;
        }
        self.counters.cache_lookups += 1;
        let through =
            self.commands[command].request.operation == Operation::WriteThrough && !cache.protected;
        let at = match cache.find(unit) {
            Some(at) => {
                self.counters.cache_hits += 1;
                self.overwrite(command, unit, at);
                at
            }
            None => {
                if !cache.make_room(part) {
                    // It is looked up again when there is room.
                    self.counters.cache_lookups -= 1;
                    return false;
                }
                let known = cache.forget(unit);
                let epoch = cache.dirtied();
                let holder = self.commands[command].flow;
                let at = self.new_unit(command, unit, true);
                let u = &mut self.units[at];
                (u.epoch, u.part) = (epoch, part as u16);
                if let Some(known) = known {
                    // What is on flash of it need not be read.
                    u.mask = complete_mask(self.shape.unit_sectors, u.mask | known);
                    self.counters.cache_hits += 1;
                }
                let cache = self.cache.as_mut().expect("a cache");
                cache.add(unit, at, holder, part);
                if cache.is_bounded() {
                    self.set_out(at, self.overlap(command, unit).sectors);
                }
                self.cached(at);
                at
            }
        };
        if let Some(place) = self.cache.as_ref().and_then(|cache| cache.place(at)) {
            self.commands[command].pieces.push((place, 0));
        }
        if through {
            self.commands[command].parts += 1;
            self.write_through(command, at);
        }
        true
    }

    /// Tells the cache where a write touches its DRAM, if that matters.
    fn touch_places(&mut self, command: u32) {
        if !self.commands[command].pieces.is_empty() {
            let places = std::mem::take(&mut self.commands[command].pieces);
            for (unit, (place, _)) in (self.commands[command].first_unit..).zip(places) {
                let overlap = self.overlap(command, unit);
                if let Some(cache) = &mut self.cache {
                    cache.touch(place, overlap.within * 512, overlap.sectors * 512);
                }
            }
        }
    }

    /// New data for a unit that is in the cache.
    fn overwrite(&mut self, command: u32, unit: u32, at: u32) {
        let added = self.unit_mask(command, unit);
        let holder = self.commands[command].flow;
        let cache = self.cache.as_mut().expect("a cache");
        let u = &mut self.units[at];
        // What was trimmed reads as zeros, so all of the unit is known.
        u.mask = if u.trimmed {
            u64::MAX
        } else {
            complete_mask(self.shape.unit_sectors, u.mask | added)
        };
        u.trimmed = false;
        let earlier = if u.state == UnitState::Programming && !u.rewritten { 0 } else { u.written };
        u.written = complete_mask(self.shape.unit_sectors, earlier | added);
        u.created = self.now;
        cache.rehold(usize::from(u.part), u.holder, holder);
        u.holder = holder;
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
    fn cached(&mut self, at: u32) {
        let cache = self.cache.as_ref().expect("a cache");
        let part = usize::from(self.units[at].part);
        match cache.parts[part].high {
            None => self.send_to_flash(at),
            Some(high) => {
                let leaves = cache.parts[part].dirty > high || cache.must_leave();
                self.units[at].state = UnitState::Cached;
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
    pub(crate) fn set_out(&mut self, at: u32, sectors: u32) {
        let u = &mut self.units[at];
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
        let mut next = cache.parts[part].resting.oldest_first(self.units.as_slice());
        if let Some((_, WriteUnit { content: Content::Unit(unit), .. })) = next.next()
            && let Some(slot) = self.mapping.table.slot(*unit)
        {
            self.blocks.prefetch_valid(self.shape.block_of_slot(slot));
        }
        if let Some((_, WriteUnit { content: Content::Unit(unit), .. })) = next.next() {
            self.mapping.table.prefetch(*unit);
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

    pub(crate) fn link_newest_cached(&mut self, at: u32) {
        let part = usize::from(self.units[at].part);
        let cache = self.cache.as_mut().expect("a cache");
        cache.parts[part].resting.add(self.units.as_mut_slice(), at);
    }

    pub(crate) fn unlink_cached(&mut self, at: u32) {
        let part = usize::from(self.units[at].part);
        let cache = self.cache.as_mut().expect("a cache");
        cache.parts[part].resting.remove(self.units.as_mut_slice(), at);
    }

    /// The least recently written unit of a part of the cache that is not on its way to the flash.
    pub(crate) fn oldest_dirty(&self, part: usize) -> Option<u32> {
        self.cache.as_ref().and_then(|cache| cache.parts[part].resting.oldest())
    }

    /// A command waits until a unit is on flash.
    fn write_through(&mut self, command: u32, at: u32) {
        let rewrote = self.units[at].rewritten;
        let waiter = ThroughWaiter { command, rewrote };
        self.through_waiters.entry(at).or_default().push(waiter);
        if self.units[at].state == UnitState::Cached {
            self.unlink_cached(at);
            self.units[at].through = true;
            self.send_to_flash(at);
            return;
        }
        let u = &mut self.units[at];
        if u.state == UnitState::Queued && u.cached && !u.through {
            let plane = u.plane;
            self.planes[plane as usize].queues.forced += 1;
            let channel = self.dies[self.shape.die_of_plane(plane) as usize].channel;
            self.mark_channel(channel);
        }
        self.units[at].through = true;
    }

    /// A unit sets out for flash: first its mapping entry has to be known.
    #[inline]
    pub(crate) fn send_to_flash(&mut self, at: u32) {
        let Content::Unit(unit) = self.units[at].content else {
            return self.queue_unit(at);
        };
        self.units[at].state = UnitState::Mapping;
        if self.mapping_known(unit, Waiter::Write { unit: at }) {
            self.unit_mapping_known(at);
        }
    }

    /// The mapping entry of a unit on its way to flash is known.
    #[inline]
    pub(crate) fn unit_mapping_known(&mut self, at: u32) {
        let u = &self.units[at];
        let Content::Unit(unit) = u.content else { return };
        if u.mask != u64::MAX {
            if let Some(slot) = self.mapping.table.slot(unit) {
                if self.config.flash.rewritable {
                    // Only what changes is written.
                    return self.queue_unit(at);
                }
                return self.merge(at, slot);
            }
            // What was never written reads as zeros.
            self.units[at].mask = u64::MAX;
        }
        self.queue_unit(at);
    }

    /// The rest of a unit's data has been read.
    pub(crate) fn merged(&mut self, at: u32) {
        self.units[at].mask = u64::MAX;
        self.queue_unit(at);
    }

    #[inline]
    fn queue_unit(&mut self, at: u32) {
        if self.units[at].cached && self.cache.as_ref().is_some_and(|cache| cache.dram.takes_all())
        {
            return self.take_out_of_dram(at);
        }
        self.queue_for_plane(at);
    }

    /// A unit's data leave the cache's DRAM for the flash.
    #[inline(never)]
    fn take_out_of_dram(&mut self, at: u32) {
        let now = self.now;
        let u = &mut self.units[at];
        u.state = UnitState::Leaving;
        let bits = self.shape.unit_sectors.min(64);
        let bytes = self.shape.unit_bytes / bits * u.mask.count_ones().min(bits);
        let cache = self.cache.as_mut().expect("a cache");
        if let Some(place) = cache.place(at) {
            cache.touch(place, 0, bytes);
        }
        let length = cache.access_time(bytes);
        let booking = cache.dram.book(now, length, u.holder, |_, _| {});
        u.dram = booking.end.since(now);
        self.events.push(booking.end, Event::UnitOutOfDram { unit: at });
    }

    /// A unit's data are in the controller, and can go to the flash.
    pub(crate) fn queue_for_plane(&mut self, at: u32) {
        let content = self.units[at].content;
        if let (Some(hotness), Content::Unit(unit)) = (&mut self.hotness, content) {
            self.units[at].hot = hotness.write(unit);
        }
        let plane = match (content, self.config.placement) {
            (Content::TranslationPage(_), _) | (_, Placement::Static) => self.plane_of(content),
            (Content::Unit(unit), _) => self.place(unit),
        };
        self.enqueue_unit(at, plane);
    }

    /// Whether a queued unit need not be programmed any more.
    pub(crate) fn is_void(&self, at: u32) -> bool {
        let u = &self.units[at];
        if u.holder == GARBAGE_COLLECTION && u.from != NONE {
            return match u.content {
                Content::Unit(unit) => self.mapping.table.slot(unit) != Some(u.from),
                Content::TranslationPage(page) => {
                    self.mapping.table.translation_slot(page) != Some(u.from)
                }
            };
        }
        u.trimmed
    }

    /// A unit that became void in its queue.
    pub(crate) fn drop_void_unit(&mut self, at: u32) {
        let u = &self.units[at];
        let plane = u.plane;
        if u.holder == GARBAGE_COLLECTION && u.from != NONE {
            let plane = self.shape.plane_of_slot(u.from);
            self.units.remove(at);
            self.collected_unit_done(plane);
        } else if u.trimmed {
            self.unit_clean(at, false);
        } else {
            // It was written again before it was dropped.
            let part = usize::from(self.units[at].part);
            self.queue_unit(at);
            self.update_write_pressure(part);
        }
        if self.hybrid.is_some() {
            self.merge_if_needed(plane);
        }
    }

    /// A unit's program starts: its data will be at `slot`.
    #[inline(always)]
    pub(crate) fn map_unit(&mut self, at: u32, slot: u32, block_wait: Span) {
        let u = &mut self.units[at];
        u.block_wait = block_wait;
        u.state = UnitState::Programming;
        let (content, from_collection) = (u.content, u.from != NONE);
        let weight = match content {
            Content::Unit(_) => 1,
            Content::TranslationPage(_) => self.shape.units_per_page,
        };
        let before = self.mapping.table.map(content, slot);
        if let Some(before) = before {
            self.blocks.remove_valid(self.shape.block_of_slot(before), weight);
        }
        self.blocks.add_valid(self.shape.block_of_slot(slot), weight);
        let u = &mut self.units[at];
        u.before = before.map_or(0, |before| before + 1);
        if let Content::Unit(unit) = content {
            self.counters.flash_units_programmed += 1;
            if u.written != u64::MAX {
                self.counters.rest_bytes_programmed += self.shape.bytes_beside(u.written);
            }
            if from_collection {
                self.counters.gc_units_moved += 1;
                self.collected_mapping_changed(unit, at);
            } else {
                self.mapping_changed(unit);
                if self.reads_cached {
                    self.forget_clean(unit);
                }
            }
        }
    }

    /// What the cache has of a unit is not what it will be on flash.
    #[cold]
    #[inline(never)]
    fn forget_clean(&mut self, unit: u32) {
        if let Some(cache) = &mut self.cache {
            cache.forget(unit);
        }
    }

    /// A page has been programmed: `first` is the first of its units, `slot` where it is.
    #[inline(always)]
    pub(crate) fn page_programmed(&mut self, first: u32, slot: u32) {
        let fails = self.faults.any_programs && self.program_fails(first);
        // A copy may end its merge.
        let of_host =
            !self.plain_programs && self.hybrid.is_some() && self.units[first].from == NONE;
        let mut at = first;
        let mut used = 0;
        while at != NONE {
            let next = crate::kernel::pool::Linked::next(&self.units[at]);
            let u = &self.units[at];
            let place;
            (place, used) = self.place_in_program(u.content, used);
            let Content::Unit(unit) = u.content else {
                let Content::TranslationPage(page) = u.content else { unreachable!() };
                let collected = u.from != NONE;
                self.units.remove(at);
                if collected {
                    self.collected_unit_done(self.shape.plane_of_slot(slot));
                } else {
                    self.translation_programmed(page);
                }
                at = next;
                continue;
            };
            if fails {
                self.program_again(at);
            } else if u.from != NONE {
                self.units.remove(at);
                self.collected_unit_done(self.shape.plane_of_slot(slot));
            } else {
                if self.units[at].trimmed && self.mapping.table.slot(unit) == Some(slot + place) {
                    self.unmap(unit);
                }
                self.unit_programmed(at);
            }
            at = next;
        }
        if of_host {
            self.programmed_in_pool(slot, fails);
        }
    }

    /// Whether an injected fault spoils the program of a page.
    fn program_fails(&mut self, first: u32) -> bool {
        let mut retried = false;
        let mut units = vec![];
        let mut at = first;
        while at != NONE {
            retried |= self.units[at].retried;
            if let Content::Unit(unit) = self.units[at].content {
                units.push(unit);
            }
            at = crate::kernel::pool::Linked::next(&self.units[at]);
        }
        let fails = !retried
            && !units.is_empty()
            && self.faults.strikes(MediaOperation::Program, |first, last| {
                units.iter().any(|unit| (first..=last).contains(unit))
            });
        self.counters.media_errors += u64::from(fails);
        fails
    }

    /// The program of a unit failed: its data, still in the controller, is programmed to
    /// another page.
    fn program_again(&mut self, at: u32) {
        let u = &mut self.units[at];
        u.retried = true;
        u.dram = Span::ZERO;
        if u.from != NONE && self.hybrid.is_some() {
            let plane = u.plane;
            return self.copy_failed(plane, at);
        }
        if u.from != NONE
            && let Content::Unit(unit) = u.content
            && let Some(slot) = self.mapping.table.slot(unit)
        {
            // The copy to void is the one just made; there is none if the unit was trimmed.
            u.from = slot;
        }
        let (plane, part) = (self.units[at].plane, usize::from(self.units[at].part));
        self.enqueue_unit(at, plane);
        self.break_off_if_stuck(plane);
        // Who waits for the room that it was to make may wait for no full page.
        self.update_write_pressure(part);
    }

    /// Host data is on flash.
    #[inline(always)]
    fn unit_programmed(&mut self, at: u32) {
        let now = self.now;
        if !self.units[at].cached {
            let u = &self.units[at];
            let spans = unit_spans(u, u.created, now);
            let command = u.command;
            self.units.remove(at);
            self.part_done(command, |stages| add_all(stages, spans));
            return;
        }
        self.unit_clean(at, true);
    }

    /// Whether a unit that is on flash stays in the cache for reads.
    #[inline]
    pub(crate) fn stays_when_clean(&self, unit: u32) -> bool {
        self.reads_cached && self.namespaces[self.namespace_index(unit)].caches_reads
    }

    /// What a cached unit held is on flash, or (not `programmed`) need not be. If it was
    /// overwritten meanwhile it starts again; otherwise it leaves the cache, or is clean if
    /// reads may find it there.
    fn unit_clean(&mut self, at: u32, programmed: bool) {
        let u = &mut self.units[at];
        if !u.cached {
            // A write without a cache that was trimmed before it was programmed.
            let (command, span) = (u.command, self.now.since(u.created));
            self.units.remove(at);
            return self.part_done(command, |stages| stages.add(Stage::DieWait, span));
        }
        let epoch = u.epoch;
        let again = std::mem::take(&mut u.rewritten);
        u.epoch = u.rewrite_epoch;
        u.through = false;
        u.retried = false;
        let (content, holder, part) = (u.content, u.holder, usize::from(u.part));
        let keep = (programmed && !u.trimmed).then_some(u.mask);
        let cache = self.cache.as_mut().expect("a cache");
        cache.cleaned(epoch);
        if !again && let Content::Unit(unit) = content {
            let keep = keep.filter(|_| self.stays_when_clean(unit));
            let cache = self.cache.as_mut().expect("a cache");
            if cache.is_bounded() {
                cache.arrived(part, self.units[at].under_way);
            }
            cache.remove(unit, holder, part, keep);
            cache.draining &= !cache.is_clean();
            self.units.remove(at);
        }
        if !self.through_waiters.is_empty()
            && let Some(mut waiters) = self.through_waiters.remove(&at)
        {
            if again {
                // Those who rewrote it wait for the next program.
                let later: Vec<_> = waiters
                    .extract_if(.., |waiter| waiter.rewrote)
                    .map(|waiter| ThroughWaiter { rewrote: false, ..waiter })
                    .collect();
                if !later.is_empty() {
                    self.units[at].through = true;
                    self.through_waiters.insert(at, later);
                }
            }
            for ThroughWaiter { command, .. } in waiters {
                let mark = self.commands[command].mark;
                let spans = unit_spans(&self.units[at], mark, self.now);
                self.part_done(command, |stages| add_all(stages, spans));
            }
        }
        if again && self.units[at].through {
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

    /// A unit cannot be programmed: its die is dead or its plane has no space left.
    pub(crate) fn unit_failed(&mut self, at: u32) {
        let now = self.now;
        let u = &self.units[at];
        if u.from != NONE {
            let plane = self.shape.plane_of_slot(u.from);
            self.units.remove(at);
            self.collected_unit_done(plane);
            return;
        }
        match u.content {
            Content::TranslationPage(page) => {
                self.units.remove(at);
                self.translation_programmed(page);
            }
            Content::Unit(unit) if u.cached => {
                if !u.trimmed {
                    self.lose(unit, u.created);
                }
                for waiter in self.through_waiters.get(&at).into_iter().flatten() {
                    self.commands[waiter.command].completion.status = Status::WriteFault;
                }
                self.unit_clean(at, false);
            }
            Content::Unit(_) => {
                let (command, span) = (u.command, now.since(u.created));
                self.units.remove(at);
                self.commands[command].completion.status = Status::WriteFault;
                self.part_done(command, |stages| stages.add(Stage::DieWait, span));
            }
        }
    }

    /// Host pages need not be full before they are programmed while someone waits for a flush, or
    /// for room in the cache that no full page will make. (Where the cache is divided, or not for
    /// all, full pages may be of those who do not make this room.)
    #[inline]
    pub(crate) fn update_write_pressure(&mut self, part: usize) {
        let Some(cache) = &self.cache else { return };
        let room_comes = cache.takes_all_writes && !self.full_pages.is_empty();
        let pressure = cache.must_leave() || cache.is_waited_for() && !room_comes;
        if pressure || self.write_pressure {
            self.set_write_pressure(pressure, part);
        }
    }

    #[inline(never)]
    fn set_write_pressure(&mut self, pressure: bool, part: usize) {
        if pressure && !self.write_pressure {
            for plane in 0..self.shape.planes {
                if self.planes[plane as usize].queues.host_units > 0 {
                    let die = self.shape.die_of_plane(plane);
                    self.mark_channel(self.dies[die as usize].channel);
                }
            }
        }
        self.write_pressure = pressure;
        if let Some(cache) = &self.cache
            && cache.first_waiting(part).is_some()
            && !cache.has_room(part)
        {
            // Room comes only from units on their way: if none is, the oldest sets out.
            self.evict_oldest(cache.part_in_the_way(part));
        }
    }

    #[inline(never)]
    pub(crate) fn begin_flush(&mut self, command: u32) {
        let volatile = self.cache.as_mut().filter(|cache| !cache.protected);
        let epoch = volatile.and_then(|cache| cache.end_epoch());
        self.commands[command].parts = 1;
        match (epoch, &mut self.cache) {
            (Some(epoch), Some(cache)) => {
                self.commands[command].epoch = epoch;
                cache.flushes.push_back(command);
                self.evict_all();
                self.update_write_pressure(0);
            }
            _ => self.part_done(command, |_| {}),
        }
    }

    /// Completes flushes whose data is on flash.
    fn finish_flushes(&mut self) {
        let now = self.now;
        while let Some(cache) = &mut self.cache
            && let Some(&command) = cache.flushes.front()
            && cache.is_clean_through(self.commands[command].epoch)
        {
            cache.flushes.pop_front();
            let span = now.since(self.commands[command].mark);
            self.part_done(command, |stages| stages.add(Stage::CacheWait, span));
        }
    }

    #[inline(never)]
    pub(crate) fn begin_trim(&mut self, command: u32) {
        self.commands[command].parts = 1;
        self.trim_step(command);
    }

    /// Deallocates some units, and the rest in later steps.
    #[cold]
    #[inline(never)]
    pub(crate) fn trim_step(&mut self, command: u32) {
        let c = &self.commands[command];
        let first = c.cursor;
        let end = c.end_unit.min(first.saturating_add(TRIM_STEP_UNITS));
        for unit in first..end {
            self.trim_unit(unit);
        }
        self.translation_trimmed(first, end);
        let c = &mut self.commands[command];
        c.cursor = end;
        if end < c.end_unit {
            self.events.push(self.now, Event::TrimStep { command });
        } else {
            let span = self.now.since(c.mark);
            self.part_done(command, |stages| stages.add(Stage::Mapping, span));
        }
    }

    /// Deallocates one unit, in the cache and on flash.
    pub(crate) fn trim_unit(&mut self, unit: u32) {
        if let Some(cache) = &mut self.cache {
            cache.forget(unit);
        }
        if let Some(at) = self.cache.as_ref().and_then(|cache| cache.find(unit)) {
            let u = &mut self.units[at];
            u.trimmed = true;
            if u.state == UnitState::Cached {
                self.unlink_cached(at);
                self.unit_clean(at, false);
            }
        }
        self.unmap(unit);
    }

    fn unmap(&mut self, unit: u32) {
        if let Some(slot) = self.mapping.table.unmap(unit) {
            self.blocks.remove_valid(self.shape.block_of_slot(slot), 1);
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
