//! What a pSLC write cache holds before a run: nothing, or what hosts have written last. Both are done on
//! the tables, without time.

use super::written::Writer;
use crate::cache::warm::Access;
use crate::config::Placement;
use crate::drive::Drive;
use crate::ftl::mapping::table::Content;
use crate::ftl::slc::fold::Move;
use crate::io::Operation;
use crate::number::{Block, Lpn, Plane};

/// Accesses for each page that is to be filled after which no more is expected of them: those of a few
/// addresses may all belong to a few planes.
const ACCESSES_MAX: u64 = 256;

impl Drive {
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

    /// The same without a care for the place.
    fn fold_block(&mut self, writer: &mut Writer, plane: Plane, block: Block) -> bool {
        let first = self.shape.first_ppn_of_block(block);
        for page in 0..self.ftl.pages_of(block) {
            self.move_page(writer, plane, first + page * self.shape.units_per_page);
        }
        self.program_collected(writer, plane, 0);
        let is_empty = self.ftl.blocks.valid(block) == 0;
        match is_empty {
            true => self.ftl.put_free(plane, block),
            false => self.ftl.put_back(block),
        }
        is_empty
    }

    /// A unit waits for a page of `plane`: if it fills one, that is programmed where the cache's rules
    /// say, with what they move for it.
    pub(super) fn write_beside_slc(&mut self, writer: &mut Writer, plane: Plane, group: u8) {
        let mut waiting = std::mem::take(&mut writer.host[plane.index()][usize::from(group)]);
        self.program_full_page(writer, (plane, group), &mut waiting);
        writer.host[plane.index()][usize::from(group)] = waiting;
    }

    fn program_full_page(
        &mut self,
        writer: &mut Writer,
        (plane, group): (Plane, u8),
        waiting: &mut Vec<Lpn>,
    ) {
        let mut moves = self.shape.blocks_per_plane;
        loop {
            let stream = self.ftl.host_stream_of(plane, group);
            let units = self.units_in_program(plane, stream);
            if waiting.len() < units {
                return;
            }
            if self.ftl.has_place_beside_slc(plane, stream) {
                self.program_units(writer, plane, stream, &waiting[..units]);
                waiting.drain(..units);
                break;
            }
            if moves == 0 || !self.move_beside_slc(writer, plane) {
                // There is no place: it stays where it was.
                return waiting.clear();
            }
            moves -= 1;
        }
        while moves > 0 && self.move_beside_slc(writer, plane) {
            moves -= 1;
        }
    }

    /// Moves what is due to be moved in `plane`, if anything is; whether that has won a block.
    fn move_beside_slc(&mut self, writer: &mut Writer, plane: Plane) -> bool {
        let has_time = !writer.saturated;
        match self.ftl.next_move_of(plane, has_time) {
            None => false,
            Some(Move::Fold(block)) => {
                let slc = self.ftl.slc.as_mut().expect("a cache");
                slc.begin_fold(plane, block, self.kernel.now);
                self.fold_block(writer, plane, block)
            }
            Some(Move::Native(block)) => self.collect_block_at_once(writer, plane, block),
            Some(Move::Collect) => self.collect_at_once(writer, plane, u32::MAX),
        }
    }

    /// Writes `accesses` to its pSLC cache, without time, until this share of what fits in it is full: 1
    /// until nothing fits. The drive has to be at rest, with an empty cache, and begins anew then
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
