//! What waits to be programmed when that can no longer be, what a stop leaves of programs and
//! collections, and what is lost.

use super::Ftl;
use super::collection::PlaneState;
use super::groups::PlaneGroups;
use super::mapping::table::Content;
use super::unit::UnitState;
use crate::drive::{Drive, Policies};
use crate::fault::Keep;
use crate::flash::queues::{CLASSES, moves};
use crate::flash::scheduler::Dropped;
use crate::flash::work::UNSET;
use crate::kernel::pool::Linked;
use crate::number::{Lpn, Plane, Ppn, WriteIndex};
use mynah_stamp::Time;

impl Ftl {
    /// Forgets what is on its way to flash.
    pub(crate) fn forget_units(&mut self) {
        self.units.clear();
        self.write_pressure = false;
        self.full_pages.clear();
    }

    /// Forgets which units were written often, and which streams are in order: that was in DRAM.
    pub(crate) fn forget_past(&mut self) {
        if let Some(admission) = self.slc.as_mut().and_then(|slc| slc.admission.as_mut()) {
            admission.clear();
        }
        if let Some(hotness) = &mut self.hotness {
            hotness.clear();
        }
    }

    /// Units whose latest data are gone, since this was last asked.
    pub(crate) fn take_lost_units(&mut self) -> Vec<Lpn> {
        std::mem::take(&mut self.lost_units)
    }

    /// What a stop leaves of the collection of `plane`.
    fn stop_collection(&mut self, plane: Plane, keep: Keep) {
        let state = &mut self.planes[plane];
        let read_only = state.read_only;
        let stopped = std::mem::replace(state, PlaneState { read_only, ..PlaneState::default() });
        let stopped = stopped.collection;
        match keep {
            // Its collection goes on with the same block.
            Keep::Everything => {
                let victim = stopped.victim;
                let block = |ppn| self.shape.block_of_ppn(ppn);
                let ppn = |unit| self.mapping.table.ppn(unit);
                let has_left = |unit| ppn(unit).is_none_or(|ppn| block(ppn) != victim);
                self.planes[plane].collection = stopped.stop(has_left);
            }
            Keep::Flash | Keep::WriteCache => {
                if let Some(levelling) = self.blocks.levelling.get_mut(plane.index()) {
                    *levelling = false;
                }
                if !stopped.is_over() {
                    // What had not been moved is still there; a begun erase is repeated.
                    self.put_back(stopped.victim);
                    stopped.next().iter().for_each(|&block| self.put_back(block));
                }
            }
        }
    }
}

impl<P: Policies> Drive<P> {
    /// Loads, updates and collections stop; those that go on later know where.
    pub(crate) fn stop_collections(&mut self, keep: Keep) {
        match keep {
            Keep::Everything => self.ftl.mapping.stop(),
            Keep::Flash | Keep::WriteCache => self.ftl.mapping.power_cut(),
        }
        self.stop_pairs(keep != Keep::Everything);
        self.ftl.forget_idle_checks();
        for plane in self.shape.all_planes() {
            self.ftl.stop_collection(plane, keep);
            self.stop_moves(plane);
        }
        self.ftl.groups.iter_mut().for_each(PlaneGroups::clear);
    }

    /// Fails every program that waits in `plane`.
    pub(crate) fn fail_writes(&mut self, plane: Plane) {
        for class in 0..CLASSES as u8 {
            if !moves(class) || self.flash.is_dead(plane) {
                self.fail_writes_of(plane, class);
            }
        }
    }

    /// Fails every program of `class` that waits in `plane`.
    pub(crate) fn fail_writes_of(&mut self, plane: Plane, class: u8) {
        while let Some(unit) = self.ftl.take_waiting(plane, class) {
            self.flash.program_taken(plane, class);
            self.ftl.units[unit].state = UnitState::Mapping;
            self.flash.drop_later(Dropped::Unplaced(unit));
        }
        self.flash.forget_if_empty(self.shape.die_of_plane(plane));
    }

    /// The latest data of a unit are gone, which a command brought when this says.
    pub(crate) fn lose(&mut self, lpn: Lpn, created: Time) {
        self.kernel.observe.count().units_lost += 1;
        self.kernel.observe.count().units_lost_written += u64::from(created != UNSET);
        self.ftl.lost_units.push(lpn);
        // Whoever asks may never come, and a unit may be lost again and again.
        if self.ftl.lost_units.len() > 2 * self.ftl.mapping.table.units() as usize {
            self.ftl.lost_units.sort_unstable();
            self.ftl.lost_units.dedup();
        }
    }

    /// The pages of a program that never finished hold nothing. What was rewritten in the cache
    /// meanwhile has later data, which are dealt with there.
    pub(crate) fn undo_program(&mut self, first: WriteIndex, ppn: Ppn, keep: Keep) {
        let (mut at, mut used) = (first, 0);
        while at != WriteIndex::NONE {
            let u = &self.ftl.units[at];
            let place;
            (place, used) = self.ftl.place_in_program(u.content, used);
            let place = ppn + place;
            let (content, before, next) = (u.content, u.before.checked_sub(1).map(Ppn), u.next());
            let weight = match content {
                Content::Unit(_) => 1,
                Content::TranslationPage(_) => self.shape.units_per_page,
            };
            if self.ftl.scheme.is_in_place() {
                self.undo_overwrite(at, content, place, before, keep);
            } else if self.ftl.mapping.table.content(place) == Some(content) {
                self.ftl.blocks.remove_valid(self.shape.block_of_ppn(place), weight);
                // The old copy counts unless its block has been erased or used again.
                let old = before.filter(|&old| {
                    self.ftl.mapping.table.written(old) == Some(content)
                        && !self.ftl.blocks.is_free(self.shape.block_of_ppn(old))
                });
                self.ftl.mapping.table.restore(content, old);
                if let Some(old) = old {
                    self.ftl.blocks.add_valid(self.shape.block_of_ppn(old), weight);
                }
                if let Content::Unit(lpn) = content
                    && self.ftl.units[at].from == Ppn::NONE
                    && !self.ftl.units[at].rewritten
                    && !self.is_kept(at, keep)
                {
                    self.lose(lpn, self.ftl.units[at].created);
                }
            }
            if !self.ftl.scheme.is_in_place() {
                self.ftl.mapping.table.clear_ppn(place);
            }
            self.ftl.scheme.spoil(self.shape.block_of_ppn(place));
            at = next;
        }
    }

    /// What was being overwritten in place is neither old nor new.
    fn undo_overwrite(
        &mut self,
        at: WriteIndex,
        content: Content,
        place: Ppn,
        before: Option<Ppn>,
        keep: Keep,
    ) {
        if let Content::Unit(lpn) = content {
            if before.is_none() && self.ftl.mapping.table.unmap(lpn).is_some() {
                self.ftl.blocks.remove_valid(self.shape.block_of_ppn(place), 1);
            }
            if !self.ftl.units[at].rewritten && !self.is_kept(at, keep) {
                self.lose(lpn, self.ftl.units[at].created);
            }
        }
    }

    /// Whether a unit is in the cache, and that is kept.
    fn is_kept(&self, at: WriteIndex, keep: Keep) -> bool {
        self.ftl.units[at].cached && keep >= Keep::WriteCache
    }
}
