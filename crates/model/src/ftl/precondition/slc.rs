//! What a pSLC write cache holds before a run: nothing, or what hosts have written last. Both are done on
//! the tables, without time.

use super::written::Writer;
use crate::cache::warm::Access;
use crate::config::Placement;
use crate::drive::{Drive, Policies};
use crate::ftl::mapping::table::Content;
use crate::io::Operation;
use crate::number::{Block, Lpn, Plane};

/// Accesses for each page that is to be filled after which no more is expected of them: those of a few
/// addresses may all belong to a few planes.
const ACCESSES_MAX: u64 = 256;

impl<P: Policies> Drive<P> {
    /// Whether something in its pSLC cache is folded if no command comes.
    pub fn folds_in_idle_time(&self) -> bool {
        let slc = self.ftl.slc.as_ref();
        slc.is_some_and(|slc| {
            let mut planes = self.shape.all_planes().filter(|&plane| !self.flash.is_dead(plane));
            slc.folds_idly() && planes.any(|plane| !slc.is_empty_of_closed(plane))
        })
    }

    /// Folds everything in its pSLC cache, without time. The drive has to be at rest, and begins anew
    /// then ([`Drive::begin_anew`]).
    pub fn empty_slc(&mut self) {
        let Some(slc) = &self.ftl.slc else { return };
        let before = (self.ftl.blocks.erases.clone(), slc.erases().to_vec());
        let mut writer = self.begin_writing(false);
        for plane in self.shape.all_planes() {
            while let Some(void) = self.ftl.blocks.take_void(plane) {
                self.ftl.blocks.put_free(void);
            }
            while let Some(block) = self.ftl.slc.as_mut().and_then(|slc| slc.take_oldest(plane)) {
                if !self.fold_at_once(&mut writer, plane, block) {
                    break;
                }
            }
        }
        // That is how the drive begins: nothing has worn it.
        self.ftl.blocks.erases = before.0;
        let slc = self.ftl.slc.as_mut();
        slc.into_iter().for_each(|slc| slc.begin_empty(&before.1));
    }

    /// Moves what is valid in a block that was taken out of the cache; whether there was a place for it.
    fn fold_at_once(&mut self, writer: &mut Writer, plane: Plane, block: Block) -> bool {
        self.win_at_once(writer, plane);
        let is_empty = self.fold_block(writer, plane, block);
        self.win_at_once(writer, plane);
        is_empty
    }

    /// Writes those of `accesses` that overwrite something to its pSLC cache, without time, until this
    /// share of what fits in it is full: 1 until nothing fits. The drive has to be at rest, with an empty cache, and begins anew then
    /// ([`Drive::begin_anew`]).
    pub fn fill_slc(&mut self, share: f64, accesses: impl Iterator<Item = Access>) {
        let Some(slc) = &self.ftl.slc else { return };
        let room = |plane| slc.pages_to_write(plane, self.ftl.blocks.free_blocks(plane));
        let room = self.shape.all_planes().map(room);
        let mut left: Vec<u64> = room.map(|pages| (share * pages as f64).round() as u64).collect();
        let mut pages: u64 = left.iter().sum();
        let is_static = self.config.placement == Placement::Static;
        let mut waiting: Vec<Vec<Lpn>> = vec![vec![]; left.len().max(self.ftl.namespaces.len())];
        let mut turn = 0;
        let mut admission = slc.admission.clone();
        let most = pages.saturating_mul(ACCESSES_MAX).min(usize::MAX as u64) as usize;
        for access in accesses.take(most) {
            if pages == 0 {
                break;
            }
            if !matches!(access.operation, Operation::Write | Operation::WriteThrough) {
                continue;
            }
            let namespace = access.namespace.0 as usize - 1;
            if let Some(admission) = &mut admission
                && admission.write(namespace, access.sector, access.sectors)
            {
                continue;
            }
            for lpn in self.units_of(&access) {
                // What holds nothing goes on holding nothing.
                if self.ftl.mapping.table.ppn(lpn).is_none() {
                    continue;
                }
                let at = match is_static {
                    true => self.ftl.plane_of(Content::Unit(lpn)).index(),
                    false => self.ftl.namespace_index(lpn),
                };
                waiting[at].push(lpn);
                if waiting[at].len() < self.shape.units_per_page as usize {
                    continue;
                }
                let plane = match is_static {
                    true => Some(Plane(at as u32)).filter(|_| left[at] > 0),
                    false => self.plane_to_fill(at, &left, &mut turn),
                };
                let units = std::mem::take(&mut waiting[at]);
                let Some(plane) = plane else { continue };
                let first = self.ftl.take_page_of_slc(plane);
                for (ppn, lpn) in first.run(self.shape.units_per_page).zip(units) {
                    self.map_at_once(lpn, ppn);
                }
                left[plane.index()] -= 1;
                pages -= 1;
            }
        }
    }

    /// The next plane of a namespace whose cache is to be filled further and that has room for data.
    fn plane_to_fill(&self, namespace: usize, left: &[u64], turn: &mut usize) -> Option<Plane> {
        let planes = &self.ftl.namespaces[namespace].planes;
        for _ in 0..planes.len() {
            *turn = (*turn + 1) % planes.len();
            let plane = planes[*turn];
            if left[plane.index()] > 0 && self.has_room(plane) {
                return Some(plane);
            }
        }
        None
    }

    /// Collects native blocks until as many are free as at rest.
    fn win_at_once(&mut self, writer: &mut Writer, plane: Plane) {
        while self.ftl.blocks.free_blocks(plane) < writer.free
            && self.collect_at_once(writer, plane, u32::MAX)
        {}
    }
}
