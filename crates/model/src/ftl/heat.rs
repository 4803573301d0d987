//! Programs where hot and cold units go to blocks of their own: what waits for a plane waits in
//! two queues of each class, and a page takes units of one of them. A page that must not wait
//! until it is full is filled up with units of the other: what is not separated then would be
//! padding.

use crate::drive::Drive;
use crate::flash::queues::{CLASS_COLLECTION, CLASS_TABLES, CLASSES};
use crate::ftl::Ftl;
use crate::ftl::blocks::Stream;
use crate::ftl::mapping::table::Content;
use crate::ftl::program::classes_of_program;
use crate::ftl::unit::WriteUnit;
use crate::kernel::Kernel;
use crate::kernel::pool::{Linked, List, Pool};
use crate::number::{Plane, Ppn, WriteIndex};
use serde::{Deserialize, Serialize};

/// Pages of each plane that may go before host units that somebody waits for and that do not
/// fill a page, because they themselves are full. An estimate: enough for units of the rarer
/// kind to come together.
const PATIENCE: u64 = 16;

/// Hot units that wait for a plane.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct HotQueues {
    pub(crate) writes: [List<WriteIndex>; CLASSES],
    /// Units in `writes` that hosts wrote, and that collections move.
    pub(crate) host_units: u32,
    pub(crate) collected_units: u32,
}

impl Default for HotQueues {
    fn default() -> Self {
        HotQueues { writes: [List::EMPTY; CLASSES], host_units: 0, collected_units: 0 }
    }
}

impl HotQueues {
    /// Takes the first unit of a class.
    pub(crate) fn take(&mut self, class: u8, units: &mut Pool<WriteUnit>) -> Option<WriteIndex> {
        let unit = units.pop_front(&mut self.writes[usize::from(class)])?;
        match class {
            CLASS_COLLECTION => self.collected_units -= 1,
            _ => self.host_units -= 1,
        }
        Some(unit)
    }
}

/// What fills the blocks of cold and of hot units.
fn streams(class: u8) -> [Stream; 2] {
    match class {
        CLASS_COLLECTION => [Stream::Collected, Stream::HotCollected],
        _ => [Stream::Host, Stream::HotHost],
    }
}

impl Ftl {
    /// Whether hot units wait apart from cold ones.
    #[inline(always)]
    pub(super) fn goes_by_heat(&self) -> bool {
        !self.hot_queues.is_empty()
    }

    /// Whether what is collected is hot.
    #[inline]
    pub(crate) fn is_hot(&self, content: Content) -> bool {
        match (&self.hotness, content) {
            (Some(hotness), Content::Unit(lpn)) => hotness.is_hot(lpn),
            _ => false,
        }
    }

    /// Where the page at `ppn`, which is moved as it is, belongs: with most of its units.
    pub(crate) fn stream_of_copyback(&self, ppn: Ppn) -> Stream {
        if self.hotness.is_none() {
            return Stream::Collected;
        }
        let units = ppn.run(self.shape.units_per_page);
        let valid = units.filter_map(|ppn| self.mapping.table.content(ppn));
        let (hot, cold): (Vec<Content>, Vec<Content>) = valid.partition(|&it| self.is_hot(it));
        if hot.len() > cold.len() { Stream::HotCollected } else { Stream::Collected }
    }

    /// Puts a hot unit into its plane's queue.
    #[cold]
    pub(crate) fn enqueue_hot(&mut self, unit: WriteIndex, plane: Plane) {
        let class = self.units[unit].class;
        let queues = &mut self.hot_queues[plane];
        match class {
            CLASS_COLLECTION => queues.collected_units += 1,
            _ => queues.host_units += 1,
        }
        self.units.push_back(&mut queues.writes[usize::from(class)], unit);
    }

    /// Puts hot units of `class` where cold ones wait, of which there are none left; false if
    /// there are no hot ones either.
    pub(crate) fn take_hot_list(&mut self, plane: Plane, class: u8) -> bool {
        let Some(queues) = self.hot_queues.get_mut(plane.index()) else { return false };
        let list = std::mem::replace(&mut queues.writes[usize::from(class)], List::EMPTY);
        let mut at = list.head;
        while at != WriteIndex::NONE {
            match class {
                CLASS_COLLECTION => queues.collected_units -= 1,
                _ => queues.host_units -= 1,
            }
            at = self.units[at].next();
        }
        self.planes[plane].queues.writes[usize::from(class)] = list;
        !list.is_empty()
    }

    /// Takes the first unit of `class` out of the queues of `plane`, whether hot or cold.
    pub(crate) fn take_waiting(&mut self, plane: Plane, class: u8) -> Option<WriteIndex> {
        loop {
            let queues = &mut self.planes[plane].queues;
            let list = &mut queues.writes[usize::from(class)];
            if let Some(unit) = self.units.pop_front(list) {
                let u = &self.units[unit];
                match class {
                    CLASS_TABLES => {}
                    CLASS_COLLECTION => queues.collected_units -= 1,
                    _ => {
                        queues.host_units -= 1;
                        self.full_pages.taken(queues.host_units);
                        queues.forced -= u32::from(!u.cached || u.through);
                    }
                }
                return Some(unit);
            }
            if !self.take_hot_list(plane, class) {
                return None;
            }
        }
    }

    /// The first cold and the first hot unit of `class` that wait for `plane`.
    fn heads(&self, plane: Plane, class: u8) -> [WriteIndex; 2] {
        let class = usize::from(class);
        let cold = &self.planes[plane].queues.writes[class];
        [cold.head, self.hot_queues[plane].writes[class].head]
    }

    /// Of which heat the next page of `class` in `plane` is, if one can be programmed now. Full
    /// pages go first, the one whose first unit has waited longest before the other; then what
    /// must not wait.
    fn heat_to_program(&self, kernel: &Kernel, plane: Plane, class: u8) -> Option<usize> {
        let heads = self.heads(plane, class);
        let (state, hot) = (&self.planes[plane], &self.hot_queues[plane]);
        let (units, is_due) = match class {
            CLASS_COLLECTION => {
                let hot = hot.collected_units;
                ([state.queues.collected_units - hot, hot], state.collection.is_read())
            }
            _ => {
                let (all, hot) = (state.queues.host_units, hot.host_units);
                ([all - hot, hot], state.queues.forced > 0 || self.write_pressure)
            }
        };
        let older = match heads {
            [WriteIndex::NONE, WriteIndex::NONE] => return None,
            [cold, WriteIndex::NONE] => (cold, 0),
            [WriteIndex::NONE, hot] => (hot, 1),
            [cold, hot] if self.units[cold].order < self.units[hot].order => (cold, 0),
            [_, hot] => (hot, 1),
        };
        let (head, older) = older;
        let other = 1 - older;
        let is_full = |heat: usize| units[heat] >= self.shape.units_per_program;
        let can = |heat: usize| {
            heads[heat] != WriteIndex::NONE && self.blocks.can_program(plane, streams(class)[heat])
        };
        let since = kernel.order() - self.units[head].order;
        let program = u64::from(self.shape.planes) * u64::from(self.shape.units_per_program);
        let patient = class == CLASS_COLLECTION || since <= PATIENCE * program;
        if is_full(older) && can(older) {
            return Some(older);
        }
        if is_full(other) && can(other) && (!is_due || patient || !can(older)) {
            return Some(other);
        }
        if !is_due {
            return None;
        }
        [older, other].into_iter().find(|&heat| can(heat))
    }

    /// Which blocks the next page of `class` in `plane` goes to, if one can be programmed now.
    #[cold]
    #[inline(never)]
    pub(crate) fn stream_by_heat(
        &self,
        kernel: &Kernel,
        plane: Plane,
        class: u8,
    ) -> Option<Stream> {
        if class == CLASS_TABLES {
            let waits = !self.planes[plane].queues.writes[usize::from(class)].is_empty();
            let can = waits && self.blocks.can_program(plane, Stream::Translation);
            return can.then_some(Stream::Translation);
        }
        Some(streams(class)[self.heat_to_program(kernel, plane, class)?])
    }

    /// The first unit of the next page of `class` in `plane`.
    #[cold]
    #[inline(never)]
    pub(crate) fn first_by_heat(&self, kernel: &Kernel, plane: Plane, class: u8) -> WriteIndex {
        let heat = match class {
            CLASS_TABLES => 0,
            _ => self.heat_to_program(kernel, plane, class).unwrap_or(0),
        };
        self.heads(plane, class)[heat]
    }
}

impl Drive {
    /// Takes what one program of `stream` carries out of a plane's queues, what is of its kind
    /// first; how many units.
    #[cold]
    #[inline(never)]
    pub(super) fn take_units_by_heat(
        &mut self,
        plane: Plane,
        class: u8,
        stream: Stream,
        capacity: u32,
    ) -> (List<WriteIndex>, u32) {
        let is_hot = matches!(stream, Stream::HotHost | Stream::HotCollected);
        let (mut chosen, mut count, mut used) = (List::EMPTY, 0, 0);
        for hot in [is_hot, !is_hot] {
            for class in classes_of_program(class) {
                loop {
                    let head = self.ftl.heads(plane, class)[usize::from(hot)];
                    if head == WriteIndex::NONE {
                        break;
                    }
                    let (_, after) = self.ftl.place_in_program(self.ftl.units[head].content, used);
                    if after > capacity {
                        return (chosen, count);
                    }
                    if let Some(unit) = self.take_first(plane, class, hot) {
                        self.ftl.units.push_back(&mut chosen, unit);
                        (count, used) = (count + 1, after);
                    }
                }
            }
        }
        (chosen, count)
    }
}
