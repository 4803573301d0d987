//! A unit's way to the flash: its mapping entry, the rest of its data, its plane's queue, its program,
//! and what follows when that has ended, or cannot be.

use super::Ftl;
use super::mapping::cached::Waiter;
use super::mapping::table::Content;
use super::unit::UnitState;
use crate::config::{MediaOperation, Placement};
use crate::drive::{Drive, Policies};
use crate::flash::queues::{CLASS_COLLECTION, CLASS_FOLD, CLASS_TABLES, moves};
use crate::flash::scheduler::Dropped;
use crate::io::Status;
use crate::kernel::pool::Linked;
use crate::number::{Lpn, Plane, Ppn, WriteIndex};
use crate::policy::Heat;
use mynah_stamp::{Span, Stage};
use std::hint::cold_path;

impl Ftl {
    /// Whether a queued unit need not be programmed any more.
    pub(crate) fn is_void(&self, at: WriteIndex) -> bool {
        let u = &self.units[at];
        if moves(u.class) && u.from != Ppn::NONE {
            return match u.content {
                Content::Unit(lpn) => self.mapping.table.ppn(lpn) != Some(u.from),
                Content::TranslationPage(page) => {
                    self.mapping.table.translation_ppn(page) != Some(u.from)
                }
            };
        }
        u.trimmed
    }
}

impl<P: Policies> Drive<P> {
    /// A unit sets out for flash: first its mapping entry has to be known.
    #[inline]
    pub(crate) fn send_to_flash(&mut self, at: WriteIndex) {
        let Content::Unit(lpn) = self.ftl.units[at].content else {
            return self.queue_unit(at);
        };
        self.ftl.units[at].state = UnitState::Mapping;
        if self.mapping_known(lpn, Waiter::Write { unit: at }) {
            self.unit_mapping_known(at);
        }
    }

    /// The mapping entry of a unit on its way to flash is known.
    #[inline]
    pub(crate) fn unit_mapping_known(&mut self, at: WriteIndex) {
        let u = &self.ftl.units[at];
        let Content::Unit(lpn) = u.content else { return };
        if u.mask != u64::MAX {
            if let Some(ppn) = self.ftl.mapping.table.ppn(lpn) {
                if self.ftl.scheme.is_in_place() {
                    // Only what changes is written.
                    return self.queue_unit(at);
                }
                return self.read_rest(at, ppn);
            }
            // What was never written reads as zeros.
            self.ftl.units[at].mask = u64::MAX;
        }
        self.queue_unit(at);
    }

    /// The rest of a unit's data has been read.
    pub(crate) fn merged(&mut self, at: WriteIndex) {
        self.ftl.units[at].mask = u64::MAX;
        self.queue_unit(at);
    }

    /// A unit's data are in the controller, and can go to the flash.
    pub(crate) fn queue_for_plane(&mut self, at: WriteIndex) {
        let content = self.ftl.units[at].content;
        if let (Some(hotness), Content::Unit(lpn)) = (&mut self.ftl.hotness, content) {
            self.ftl.units[at].group =
                u8::from(self.policies.heat().written(lpn.0, hotness.write(lpn)));
        }
        let plane = match (content, self.config.placement) {
            (Content::TranslationPage(_), _) | (_, Placement::Static) => self.ftl.plane_of(content),
            (Content::Unit(lpn), _) => self.place(lpn, self.ftl.units[at].group),
        };
        self.enqueue_unit(at, plane);
    }

    /// A unit that became void in its queue.
    pub(crate) fn drop_void_unit(&mut self, at: WriteIndex) {
        let u = &self.ftl.units[at];
        let plane = u.plane;
        if moves(u.class) && u.from != Ppn::NONE {
            let plane = self.shape.plane_of_ppn(u.from);
            self.ftl.units.remove(at);
            self.moved_unit_done(plane);
        } else if u.trimmed {
            self.unit_clean(at, false);
        } else {
            // It was written again before it was dropped.
            let part = usize::from(self.ftl.units[at].part);
            self.queue_unit(at);
            self.update_write_pressure(part);
        }
        self.first_to_program_changed(plane);
    }

    /// A unit's program starts: its data will be at `ppn`.
    #[inline(always)]
    pub(crate) fn map_unit(&mut self, at: WriteIndex, ppn: Ppn, block_wait: Span) {
        let u = &mut self.ftl.units[at];
        u.block_wait = block_wait;
        u.state = UnitState::Programming;
        let (content, from_collection) = (u.content, u.from != Ppn::NONE);
        let weight = match content {
            Content::Unit(_) => 1,
            Content::TranslationPage(_) => self.shape.units_per_page,
        };
        let before = self.ftl.mapping.table.map(content, ppn);
        if let Some(before) = before {
            self.ftl.blocks.remove_valid(self.shape.block_of_ppn(before), weight);
        }
        self.ftl.blocks.add_valid(self.shape.block_of_ppn(ppn), weight);
        let u = &mut self.ftl.units[at];
        u.before = before.map_or(0, |before| before.0 + 1);
        if let Content::Unit(lpn) = content {
            self.kernel.observe.count().flash_units_programmed += 1;
            if u.written != u64::MAX {
                self.kernel.observe.count().rest_bytes_programmed +=
                    self.shape.bytes_beside(u.written);
            }
            if self.ftl.pairs.is_some() && self.ftl.is_cell(lpn) {
                cold_path();
                self.cell_moved(lpn, from_collection);
            } else if from_collection {
                if self.ftl.units[at].class == CLASS_FOLD {
                    cold_path();
                    self.kernel.observe.count().slc.units_folded += 1;
                } else {
                    self.kernel.observe.count().gc_units_moved += 1;
                }
                self.collected_mapping_changed(lpn, at);
            } else {
                self.mapping_changed(lpn);
                if self.ftl.reads_cached {
                    self.forget_clean(lpn);
                }
            }
        }
    }

    /// A page has been programmed: `first` is the first of its units, `ppn` where it is.
    #[inline(always)]
    pub(crate) fn page_programmed(&mut self, first: WriteIndex, ppn: Ppn) {
        let fails = self.ftl.faults.any_programs && self.program_fails(first);
        // A copy may end its merge.
        let of_host = !self.ftl.plain_programs && self.ftl.units[first].from == Ppn::NONE;
        let mut at = first;
        let mut used = 0;
        while at != WriteIndex::NONE {
            let next = self.ftl.units[at].next();
            let u = &self.ftl.units[at];
            let place;
            (place, used) = self.ftl.place_in_program(u.content, used);
            let Content::Unit(lpn) = u.content else {
                let Content::TranslationPage(page) = u.content else { unreachable!() };
                let collected = u.from != Ppn::NONE;
                self.ftl.units.remove(at);
                if collected {
                    self.moved_unit_done(self.shape.plane_of_ppn(ppn));
                } else {
                    self.translation_programmed(page);
                }
                at = next;
                continue;
            };
            if fails {
                self.program_again(at);
            } else if u.from != Ppn::NONE {
                self.ftl.units.remove(at);
                self.moved_unit_done(self.shape.plane_of_ppn(ppn));
            } else {
                if self.ftl.pairs.is_some() && self.ftl.is_cell(lpn) {
                    cold_path();
                    self.cell_programmed(lpn);
                }
                if self.ftl.units[at].trimmed
                    && self.ftl.mapping.table.ppn(lpn) == Some(ppn + place)
                {
                    self.unmap(lpn);
                }
                self.unit_programmed(at);
            }
            at = next;
        }
        if of_host {
            self.host_page_done(ppn, fails);
        }
    }

    /// Whether an injected fault spoils the program of a page.
    fn program_fails(&mut self, first: WriteIndex) -> bool {
        let mut retried = false;
        let mut units = vec![];
        let mut at = first;
        while at != WriteIndex::NONE {
            retried |= self.ftl.units[at].retried;
            if let Content::Unit(lpn) = self.ftl.units[at].content {
                units.push(lpn);
            }
            at = self.ftl.units[at].next();
        }
        let fails = !retried
            && !units.is_empty()
            && self.ftl.faults.strikes(MediaOperation::Program, |first, last| {
                units.iter().any(|lpn| (first..=last).contains(lpn))
            });
        self.kernel.observe.count().media_errors += u64::from(fails);
        fails
    }

    /// The program of a unit failed: its data, still in the controller, is programmed to
    /// another page.
    fn program_again(&mut self, at: WriteIndex) {
        let u = &mut self.ftl.units[at];
        u.retried = true;
        u.dram = Span::ZERO;
        let (plane, moved) = (u.plane, u.from != Ppn::NONE);
        if moved && self.move_failed(plane, at) {
            return;
        }
        let u = &mut self.ftl.units[at];
        if u.from != Ppn::NONE
            && let Content::Unit(lpn) = u.content
            && let Some(ppn) = self.ftl.mapping.table.ppn(lpn)
        {
            // The copy to void is the one just made; there is none if the unit was trimmed.
            u.from = ppn;
        }
        let (plane, part) = (self.ftl.units[at].plane, usize::from(self.ftl.units[at].part));
        self.enqueue_unit(at, plane);
        self.break_off_if_stuck(plane);
        // Who waits for the room that it was to make may wait for no full page.
        self.update_write_pressure(part);
    }

    /// A unit cannot be programmed: its die is dead or its plane has no space left.
    pub(crate) fn unit_failed(&mut self, at: WriteIndex) {
        let now = self.kernel.now;
        let u = &self.ftl.units[at];
        if u.from != Ppn::NONE {
            let plane = self.shape.plane_of_ppn(u.from);
            self.ftl.units.remove(at);
            self.moved_unit_done(plane);
            return;
        }
        match u.content {
            Content::TranslationPage(page) => {
                self.ftl.units.remove(at);
                self.translation_programmed(page);
            }
            Content::Unit(lpn) if u.cached => {
                if !u.trimmed {
                    self.lose(lpn, u.created);
                }
                self.fail_waiters(at);
                self.unit_clean(at, false);
            }
            Content::Unit(_) => {
                let (command, span) = (u.command, now.since(u.created));
                self.ftl.units.remove(at);
                self.host.command_mut(command).completion.status = Status::WriteFault;
                self.part_done(command, |stages| stages.add(Stage::DieWait, span));
            }
        }
    }

    fn unmap(&mut self, lpn: Lpn) {
        if let Some(ppn) = self.ftl.mapping.table.unmap(lpn) {
            self.ftl.blocks.remove_valid(self.shape.block_of_ppn(ppn), 1);
        }
    }

    /// Deallocates one unit, in the cache and on flash.
    pub(crate) fn trim_unit(&mut self, lpn: Lpn) {
        if let Some(cache) = &mut self.cache {
            cache.forget(lpn);
        }
        if let Some(at) = self.cache.as_ref().and_then(|cache| cache.find(lpn)) {
            let u = &mut self.ftl.units[at];
            u.trimmed = true;
            if u.state == UnitState::Cached {
                self.unlink_cached(at);
                self.unit_clean(at, false);
            }
        }
        self.unmap(lpn);
    }

    /// Puts a unit into its plane's queue of programs.
    pub(crate) fn enqueue_unit(&mut self, unit: WriteIndex, plane: Plane) {
        let order = self.kernel.next_order();
        let now = self.kernel.now;
        let u = &mut self.ftl.units[unit];
        u.order = order;
        u.queued = now;
        u.plane = plane;
        let (class, watched) = (u.class, u.watched);
        let full = self.ftl.planes[plane].read_only && !moves(class);
        let die = self.shape.die_of_plane(plane);
        if self.flash.is_dead_die(die) || full {
            self.flash.drop_later(Dropped::Unplaced(unit));
            return;
        }
        let last = self.flash.last_program(&self.ftl, die, class);
        let ftl = &mut self.ftl;
        let is_grouped = ftl.is_grouped();
        let u = &mut ftl.units[unit];
        u.state = UnitState::Queued;
        let forced = !u.cached || u.through;
        let queues = &mut ftl.planes[plane].queues;
        match class {
            CLASS_TABLES => {}
            CLASS_COLLECTION | CLASS_FOLD => queues.collected_units += 1,
            _ => {
                queues.host_units += 1;
                ftl.full_pages.added(queues.host_units);
                queues.forced += u32::from(forced);
            }
        }
        if is_grouped {
            cold_path();
            ftl.enqueue_in_group(unit, plane);
        } else {
            ftl.units.push_back(&mut queues.writes[usize::from(class)], unit);
        }
        let (part, of) = ((unit, watched), (die, class));
        self.flash.program_waits(&mut self.kernel, &mut self.ftl, part, of, last);
        if !self.ftl.plain_programs && !moves(class) {
            self.first_to_program_changed(plane);
        }
    }
}
