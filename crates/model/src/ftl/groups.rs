//! Programs where some units go to blocks of their own, the hot ones among them, those of each
//! reclaim unit handle, or those that go past an SLC cache: what waits for a plane waits in queues by group, and a page takes units of one.
//! Where groups may mix, a page that must not wait until it is full is filled up with units of the
//! others: what is not separated then would be padding.

use crate::drive::{Drive, Policies};
use crate::flash::queues::{CLASS_COLLECTION, CLASS_FOLD, CLASS_TABLES, CLASSES};
use crate::ftl::Ftl;
use crate::ftl::blocks::Stream;
use crate::ftl::collection::PlaneState;
use crate::ftl::mapping::table::Content;
use crate::ftl::program::classes_of_program;
use crate::ftl::unit::{UnitState, WriteUnit};
use crate::io::{NamespaceId, PlacementId};
use crate::kernel::Kernel;
use crate::kernel::pool::List;
use crate::number::{Plane, Ppn, WriteIndex};
use crate::policy::Heat;
use serde::{Deserialize, Serialize};

/// Pages of each plane that may go before host units that somebody waits for and that do not
/// fill a page, because they themselves are full. An estimate: enough for units of the rarer
/// kind to come together.
const PATIENCE: u64 = 16;

/// Groups, one bit each.
type Groups = u128;

/// The units of a group that wait for a plane.
#[derive(Clone, Serialize, Deserialize)]
struct GroupQueues {
    /// Those of the first group wait in the plane's own queues.
    writes: [List<WriteIndex>; CLASSES],
    /// Units that hosts wrote, and that collections move.
    host_units: u32,
    collected_units: u32,
}

impl GroupQueues {
    const EMPTY: GroupQueues =
        GroupQueues { writes: [List::EMPTY; CLASSES], host_units: 0, collected_units: 0 };
}

/// What waits for a plane, by group.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct PlaneGroups {
    queues: Vec<GroupQueues>,
    /// The groups that have something waiting, by class, and the one whose first unit has waited
    /// longest, if any has.
    waiting: [Groups; CLASSES],
    oldest: [u8; CLASSES],
    /// The groups that fill a program, with what hosts wrote and with what collections move.
    full: Groups,
    full_collected: Groups,
    units_per_program: u32,
}

impl PlaneGroups {
    pub(crate) fn new(groups: u8, units_per_program: u32) -> PlaneGroups {
        PlaneGroups {
            queues: vec![GroupQueues::EMPTY; groups.into()],
            waiting: [0; CLASSES],
            oldest: [0; CLASSES],
            full: 0,
            full_collected: 0,
            units_per_program,
        }
    }

    /// Forgets what waits.
    pub(crate) fn clear(&mut self) {
        self.queues.fill(GroupQueues::EMPTY);
        self.waiting = [0; CLASSES];
        (self.full, self.full_collected) = (0, 0);
    }

    /// What hosts wrote and collections move of a group, and its queue of a class if it has its own.
    pub(crate) fn of(&self, group: u8) -> (u32, u32, &[List<WriteIndex>; CLASSES]) {
        let queues = &self.queues[usize::from(group)];
        (queues.host_units, queues.collected_units, &queues.writes)
    }

    /// The group whose first unit of a class has waited longest, if something waits.
    pub(crate) fn oldest(&self, class: u8) -> Option<u8> {
        let class = usize::from(class);
        (self.waiting[class] != 0).then_some(self.oldest[class])
    }

    /// How many groups there are.
    pub(crate) fn count(&self) -> u8 {
        self.queues.len() as u8
    }

    /// A unit of `group` waits.
    #[inline]
    fn added(&mut self, group: u8, class: u8) {
        let queues = &mut self.queues[usize::from(group)];
        let bit = 1 << group;
        let waiting = &mut self.waiting[usize::from(class)];
        if *waiting == 0 {
            self.oldest[usize::from(class)] = group;
        }
        *waiting |= bit;
        match class {
            CLASS_TABLES => {}
            CLASS_COLLECTION | CLASS_FOLD => {
                queues.collected_units += 1;
                if queues.collected_units >= self.units_per_program {
                    self.full_collected |= bit;
                }
            }
            _ => {
                queues.host_units += 1;
                if queues.host_units >= self.units_per_program {
                    self.full |= bit;
                }
            }
        }
    }

    /// A unit of `group` waits no longer, and perhaps none of its class does.
    #[inline]
    fn taken(&mut self, group: u8, class: u8, empty: bool) {
        let queues = &mut self.queues[usize::from(group)];
        let bit = 1 << group;
        if empty {
            self.waiting[usize::from(class)] &= !bit;
        }
        match class {
            CLASS_TABLES => {}
            CLASS_COLLECTION | CLASS_FOLD => {
                queues.collected_units -= 1;
                if queues.collected_units < self.units_per_program {
                    self.full_collected &= !bit;
                }
            }
            _ => {
                queues.host_units -= 1;
                if queues.host_units < self.units_per_program {
                    self.full &= !bit;
                }
            }
        }
    }
}

/// The groups in `mask`.
fn each(mut mask: Groups) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let group = (mask != 0).then(|| mask.trailing_zeros() as u8)?;
        mask &= mask - 1;
        Some(group)
    })
}

/// The queue of a group's units of a class in a plane.
#[inline]
fn list_of<'a>(
    planes: &'a mut [PlaneState],
    groups: &'a mut [PlaneGroups],
    plane: Plane,
    class: u8,
    group: u8,
) -> &'a mut List<WriteIndex> {
    let (plane, class) = (plane.index(), usize::from(class));
    match group {
        0 => &mut planes[plane].queues.writes[class],
        _ => &mut groups[plane].queues[usize::from(group)].writes[class],
    }
}

impl Ftl {
    /// Counts the units of a page that has been filled, from `first` on, for their handles, and notes
    /// whose they are.
    #[inline(never)]
    pub(super) fn count_by_handle(&mut self, first: WriteIndex) {
        let Some(handles) = &mut self.handles else { return };
        let mut unit = first;
        while unit != WriteIndex::NONE {
            let WriteUnit { content, from, group, next, .. } = self.units[unit];
            unit = next;
            let Content::Unit(lpn) = content else { continue };
            let Some(ppn) = self.mapping.table.ppn(lpn) else { continue };
            match from {
                Ppn::NONE => handles.programmed(ppn, group),
                from => handles.moved(from, ppn),
            }
        }
    }

    /// Whether units wait apart from others.
    #[inline(always)]
    pub(super) fn is_grouped(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Whether what is collected is hot.
    #[inline]
    pub(crate) fn is_hot(&self, content: Content, heat: &impl Heat) -> bool {
        match (&self.hotness, content) {
            (Some(hotness), Content::Unit(lpn)) => heat.is_hot(lpn.0, hotness.is_hot(lpn)),
            _ => false,
        }
    }

    /// Where the page at `ppn`, which is moved as it is, belongs: with most of its units.
    pub(crate) fn stream_of_copyback(&self, ppn: Ppn, heat: &impl Heat) -> Stream {
        let units = || ppn.run(self.shape.units_per_page);
        if let Some(handles) = &self.handles {
            // All that is valid is of one handle, where that matters.
            let valid = units().find(|&ppn| self.mapping.table.content(ppn).is_some());
            let group = valid.map_or(0, |ppn| handles.group_of_moved(ppn));
            return Stream::collected(group);
        }
        if self.hotness.is_none() {
            return Stream::COLLECTED;
        }
        let units = units();
        let valid = units.filter_map(|ppn| self.mapping.table.content(ppn));
        let (hot, cold): (Vec<Content>, Vec<Content>) =
            valid.partition(|&it| self.is_hot(it, heat));
        Stream::collected(u8::from(hot.len() > cold.len()))
    }

    /// The group that what is moved from `ppn` waits and lies with.
    #[inline]
    pub(crate) fn group_of_moved(&self, content: Content, ppn: Ppn, heat: &impl Heat) -> u8 {
        match (&self.handles, content) {
            (Some(handles), Content::Unit(_)) => handles.group_of_moved(ppn),
            _ => u8::from(self.is_hot(content, heat)),
        }
    }

    /// Whether something that is moved has no place in `plane`.
    #[inline(always)]
    pub(super) fn is_stuck(&self, plane: Plane) -> bool {
        let can = |group| self.blocks.can_program(plane, Stream::collected(group));
        let waiting = |class| self.groups[plane].waiting[usize::from(class)];
        match self.is_grouped() {
            true => !each(waiting(CLASS_COLLECTION) | waiting(CLASS_FOLD)).all(can),
            false => !can(0),
        }
    }

    /// How many groups are told apart.
    pub(crate) fn groups_told_apart(&self) -> u8 {
        self.groups.first().map_or(1, PlaneGroups::count)
    }

    /// Whether a page may have units of several groups.
    fn groups_mix(&self) -> bool {
        self.hotness.is_some()
    }

    /// Puts a unit into its plane's queue, where there are groups.
    #[inline]
    pub(crate) fn enqueue_in_group(&mut self, unit: WriteIndex, plane: Plane) {
        let WriteUnit { class, group, content, .. } = self.units[unit];
        let group = if let Content::Unit(_) = content { group } else { 0 };
        self.groups[plane].added(group, class);
        let list = list_of(&mut self.planes, &mut self.groups, plane, class, group);
        if let Some(handles) = &mut self.handles {
            handles.waits_behind(unit, list.tail);
        }
        self.units.push_back(list, unit);
    }

    /// Has a unit that waits wait with another group, behind the others.
    pub(crate) fn regroup(&mut self, at: WriteIndex, group: u8, order: u64) {
        let Some(handles) = &mut self.handles else { return };
        let WriteUnit { class, plane, group: before, next, .. } = self.units[at];
        let list = list_of(&mut self.planes, &mut self.groups, plane, class, before);
        let previous = handles.waits_behind_what(at);
        self.units.unlink(list, previous, at);
        handles.waits_behind(next, previous);
        let empty = list.is_empty();
        self.groups[plane].taken(before, class, empty);
        self.find_oldest(plane, class, before);
        (self.units[at].group, self.units[at].order) = (group, order);
        self.enqueue_in_group(at, plane);
    }

    /// Takes the first unit of a group and class out of its queue.
    #[inline]
    pub(super) fn take_of_group(
        &mut self,
        plane: Plane,
        class: u8,
        group: u8,
    ) -> Option<WriteIndex> {
        let list = list_of(&mut self.planes, &mut self.groups, plane, class, group);
        let unit = self.units.pop_front(list)?;
        if let Some(handles) = &mut self.handles {
            handles.waits_behind(list.head, WriteIndex::NONE);
        }
        let empty = list.is_empty();
        self.groups[plane].taken(group, class, empty);
        self.find_oldest(plane, class, group);
        Some(unit)
    }

    /// Takes the first unit of `class` out of the queues of `plane`, of whichever group.
    pub(crate) fn take_waiting(&mut self, plane: Plane, class: u8) -> Option<WriteIndex> {
        let unit = match self.is_grouped() {
            true => {
                let group = each(self.groups[plane].waiting[usize::from(class)]).next()?;
                self.take_of_group(plane, class, group)?
            }
            false => {
                let list = &mut self.planes[plane].queues.writes[usize::from(class)];
                self.units.pop_front(list)?
            }
        };
        let (u, queues) = (&self.units[unit], &mut self.planes[plane].queues);
        match class {
            CLASS_TABLES => {}
            CLASS_COLLECTION | CLASS_FOLD => queues.collected_units -= 1,
            _ => {
                queues.host_units -= 1;
                self.full_pages.taken(queues.host_units);
                queues.forced -= u32::from(!u.cached || u.through);
            }
        }
        Some(unit)
    }

    /// The first unit of a group and class that waits for `plane`.
    #[inline]
    fn head(&self, plane: Plane, class: u8, group: u8) -> WriteIndex {
        match group {
            0 => self.planes[plane].queues.writes[usize::from(class)].head,
            _ => self.groups[plane].queues[usize::from(group)].writes[usize::from(class)].head,
        }
    }

    /// Whether what hosts write can be programmed in `plane` now.
    pub(crate) fn can_program_host(&self, plane: Plane) -> bool {
        match &self.slc {
            None => self.blocks.can_program_host(plane),
            Some(_) => (0..self.groups_told_apart()).all(|group| {
                let waits = group == 0 || self.groups[plane].of(group).0 > 0;
                !waits || self.has_place_beside_slc(plane, self.host_stream_of(plane, group))
            }),
        }
    }

    /// What fills the blocks that a group goes to in `plane`.
    #[inline(always)]
    fn stream_of_group(&self, plane: Plane, class: u8, group: u8) -> Stream {
        match class {
            CLASS_COLLECTION | CLASS_FOLD => Stream::collected(group),
            _ => self.host_stream_of(plane, group),
        }
    }

    /// The groups that fill a program of what hosts wrote: one for an SLC cache takes fewer units.
    #[inline(always)]
    fn full_of_host(&self, plane: Plane) -> Groups {
        let groups = &self.groups[plane];
        if self.slc.is_none() {
            return groups.full;
        }
        let units = self.units_per_program(self.host_stream(plane));
        groups.full & !1 | Groups::from(groups.of(0).0 >= units)
    }

    /// Whether a page of `group` can be programmed in `plane` now.
    #[inline(always)]
    fn can_program(&self, plane: Plane, class: u8, group: u8) -> bool {
        let stream = self.stream_of_group(plane, class, group);
        if self.slc.is_some() {
            return self.has_place_beside_slc(plane, stream);
        }
        self.blocks.may_open(plane, stream) || self.blocks.can_program(plane, stream)
    }

    /// A unit of `group` has left its queue: notes which has waited longest now.
    #[inline]
    fn find_oldest(&mut self, plane: Plane, class: u8, group: u8) {
        let groups = &self.groups[plane];
        let (waiting, at) = (groups.waiting[usize::from(class)], usize::from(class));
        if groups.oldest[at] == group
            && let Some(oldest) = self.oldest_of(plane, class, waiting)
        {
            self.groups[plane].oldest[at] = oldest;
        }
    }

    /// Of `groups`, the one whose first unit has waited longest.
    #[inline]
    fn oldest_of(&self, plane: Plane, class: u8, groups: Groups) -> Option<u8> {
        if groups.is_power_of_two() {
            return Some(groups.trailing_zeros() as u8);
        }
        each(groups).min_by_key(|&group| self.units[self.head(plane, class, group)].order)
    }

    /// Of `groups`, the one that can be programmed and whose first unit has waited longest.
    #[inline]
    fn oldest(&self, plane: Plane, class: u8, groups: Groups) -> Option<u8> {
        let can = |group| self.can_program(plane, class, group);
        let oldest = self.groups[plane].oldest[usize::from(class)];
        if groups & (1 << oldest) != 0 && can(oldest) {
            return Some(oldest);
        }
        let able = each(groups).filter(|&group| can(group));
        self.oldest_of(plane, class, able.fold(0, |able, group| able | 1 << group))
    }

    /// Of which group the next page of `class` in `plane` is, if one can be programmed now. Full
    /// pages go first, the one whose first unit has waited longest before the others; then what
    /// must not wait.
    #[inline]
    fn group_to_program(&self, kernel: &Kernel, plane: Plane, class: u8) -> Option<u8> {
        let (state, groups) = (&self.planes[plane], &self.groups[plane]);
        let waiting = groups.waiting[usize::from(class)];
        let (full, is_due) = match class {
            CLASS_COLLECTION | CLASS_FOLD => (groups.full_collected, state.collection.is_read()),
            _ => (self.full_of_host(plane), state.queues.forced > 0 || self.write_pressure),
        };
        let full = full & waiting;
        let first_full = match full {
            0 => None,
            _ => self.oldest(plane, class, full),
        };
        if !is_due {
            return first_full;
        }
        self.group_that_is_due(kernel, plane, class, first_full)
    }

    /// The same where something must not wait until it fills a page. `full`: what does, if anything.
    #[inline(never)]
    fn group_that_is_due(
        &self,
        kernel: &Kernel,
        plane: Plane,
        class: u8,
        full: Option<u8>,
    ) -> Option<u8> {
        let older = self.groups[plane].oldest(class)?;
        let can = self.can_program(plane, class, older);
        if let Some(full) = full.filter(|&full| full != older) {
            let since = kernel.order() - self.units[self.head(plane, class, older)].order;
            let program = u64::from(self.shape.planes) * u64::from(self.shape.units_per_program);
            let patient = class == CLASS_COLLECTION || since <= PATIENCE * program;
            if patient || !can {
                return Some(full);
            }
        }
        let waiting = self.groups[plane].waiting[usize::from(class)];
        if can { Some(older) } else { self.oldest(plane, class, waiting) }
    }

    /// Which blocks the next page of `class` in `plane` goes to, and its first unit, if one can be
    /// programmed now.
    #[inline(never)]
    pub(super) fn next_by_group(
        &self,
        kernel: &Kernel,
        plane: Plane,
        class: u8,
    ) -> Option<(Stream, WriteIndex)> {
        if class == CLASS_TABLES {
            let head = self.head(plane, class, 0);
            let can =
                head != WriteIndex::NONE && self.blocks.can_program(plane, Stream::TRANSLATION);
            return can.then_some((Stream::TRANSLATION, head));
        }
        let group = self.group_to_program(kernel, plane, class)?;
        let stream = self.stream_of_group(plane, class, group);
        Some((stream, self.head(plane, class, group)))
    }

    /// The first unit that waits in `plane`, where none can be programmed.
    pub(super) fn first_of_groups(&self, plane: Plane, class: u8) -> WriteIndex {
        self.head(plane, class, 0)
    }
}

impl<P: Policies> Drive<P> {
    /// Takes what one program of `stream` carries out of a plane's queues, what is of its group
    /// first; how many units.
    #[inline(never)]
    pub(super) fn take_units_by_group(
        &mut self,
        plane: Plane,
        class: u8,
        stream: Stream,
        capacity: u32,
    ) -> (List<WriteIndex>, u32) {
        let (mut chosen, mut count, mut used) = (List::EMPTY, 0, 0);
        let others = match self.ftl.groups_mix() {
            true => self.ftl.groups[plane].count(),
            false => 0,
        };
        let others = (0..others).filter(|&group| group != stream.group);
        for group in std::iter::once(stream.group).chain(others) {
            for class in classes_of_program(class) {
                loop {
                    let head = self.ftl.head(plane, class, group);
                    if head == WriteIndex::NONE {
                        break;
                    }
                    let (_, after) = self.ftl.place_in_program(self.ftl.units[head].content, used);
                    if after > capacity {
                        return (chosen, count);
                    }
                    if let Some(unit) = self.take_first(plane, class, Some(group)) {
                        self.ftl.units.push_back(&mut chosen, unit);
                        (count, used) = (count + 1, after);
                    }
                }
            }
        }
        (chosen, count)
    }

    /// Mapping units that can still be written to the reclaim unit that the handle fills: what waits
    /// in the cache and in queues will be there, too.
    pub fn reclaim_unit_left(&self, handle: u8) -> Option<u64> {
        self.ftl.handles().filter(|handles| handle < handles.count())?;
        let (left, whole) = self.ftl.reclaim_unit_left(handle)?;
        let waits = self.units_that_wait(handle);
        Some(match self.ftl.last_expected(handle) {
            // Its next unit is empty but for what has come since it was updated.
            Some(before) => whole - waits.saturating_sub(before) % whole,
            None => (left + whole - waits % whole - 1) % whole + 1,
        })
    }

    /// See [`Control::UpdateHandle`](crate::io::Control::UpdateHandle).
    pub(crate) fn update_handle(&mut self, namespace: NamespaceId, placement: PlacementId) {
        let handles = self.ftl.handles.as_deref();
        let list = handles.and_then(|handles| handles.list((namespace.0 as usize).checked_sub(1)?));
        let Some(&handle) = list.and_then(|list| list.get(usize::from(placement.0))) else {
            return;
        };
        let Some(whole) = self.ftl.reclaim_unit_left(handle).map(|(_, whole)| whole) else {
            return;
        };
        if self.reclaim_unit_left(handle) == Some(whole) {
            return;
        }
        self.write_back();
        let waits = self.units_that_wait(handle);
        match waits {
            0 => self.close_reclaim_unit(handle),
            _ => self.ftl.expect_last(handle, waits),
        }
    }

    /// A page of a handle with so many units, and room for so many more, is programmed: if it has the
    /// last that was written before the handle was updated, its reclaim unit is closed.
    pub(super) fn page_of_handle(&mut self, handle: u8, units: u32, padded: u32) {
        let Some(handles) = &mut self.ftl.handles else { return };
        handles.page_of(handle, padded);
        if !handles.is_closing(handle) {
            return;
        }
        let waits = self.units_that_wait(handle);
        if self.ftl.last_is_written(handle, units.into(), waits) {
            self.close_reclaim_unit(handle);
        }
    }

    /// What handles that were updated had in the cache is gone.
    pub(crate) fn close_reclaim_units(&mut self) {
        for handle in self.ftl.take_closing() {
            self.close_reclaim_unit(handle);
        }
    }

    fn close_reclaim_unit(&mut self, handle: u8) {
        self.ftl.begin_reclaim_unit(handle);
        for plane in self.shape.all_planes() {
            self.flash.mark_plane(plane);
        }
    }

    /// Units of a handle that are to be programmed.
    fn units_that_wait(&self, handle: u8) -> u64 {
        let waits = self.ftl.units().stored().filter(|unit| {
            let own = matches!(unit.content, Content::Unit(_)) && unit.class != CLASS_COLLECTION;
            let programming = unit.state == UnitState::Programming && !unit.rewritten;
            own && unit.group == handle && !programming && !unit.trimmed
        });
        waits.count() as u64
    }
}
