//! Wear: how blocks are kept equally worn, when they are given up, and what reads of worn
//! blocks take.

use crate::config;
use crate::drive::{Drive, Policies};
use crate::ftl::Ftl;
use crate::kernel::Kernel;
use crate::kernel::event::Event;
use crate::number::{Plane, Ppn, WorkIndex};
use crate::observe::stats::{ModeWear, WearState};
use mynah_stamp::Span;
use rand::Rng;
use serde::{Deserialize, Serialize};

impl Ftl {
    /// Every block has been erased so often.
    pub(super) fn forget_erases(&mut self, erases: u32) {
        self.blocks.forget_erases(erases);
        if let Some(slc) = &mut self.slc {
            slc.forget_erases();
        }
    }

    /// How much longer a die is occupied by a read, since pages of worn blocks have to be read
    /// more than once: as long as the page takes that needs the most retries.
    #[cold]
    pub(super) fn retries_of(
        &mut self,
        kernel: &mut Kernel,
        ppns: impl Iterator<Item = Ppn>,
    ) -> Span {
        let Some(reads) = &self.worn_reads else { return Span::ZERO };
        let mut most = 0;
        for ppn in ppns {
            let block = self.shape.block_of_ppn(ppn);
            let mean = reads.retries.at(self.blocks.erases[block]);
            let share = (self.retries.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            let whole = mean as u64;
            let retries = whole + u64::from(share < mean - whole as f64);
            kernel.observe.count().read_retries += retries;
            most = most.max(retries);
        }
        reads.retry.times(most)
    }
}

impl<P: Policies> Drive<P> {
    pub(crate) fn wear_state(&self) -> WearState {
        let ranges = || self.shape.all_planes().map(|plane| self.ftl.blocks.wear_range(plane));
        let spares = self
            .ftl
            .spare_blocks
            .iter()
            .zip((0..).map(Plane))
            .map(|(&new, plane)| (new.saturating_sub(self.ftl.blocks.retired_of(plane)), new));
        // The smallest share; a plane that never had spare blocks has none to lose.
        let share = |(left, new): &(u32, u32)| match new {
            0 => f64::INFINITY,
            _ => f64::from(*left) / f64::from(*new),
        };
        let least = spares.min_by(|one, other| share(one).total_cmp(&share(other)));
        let (spare_blocks, spare_blocks_new) = least.unwrap_or((0, 0));
        let joined = u64::from(self.shape.flash_planes);
        let joined_bytes = u64::from(self.shape.units_per_block) * u64::from(self.shape.unit_bytes);
        let erases: u64 = self.ftl.blocks.erases.iter().map(|&erases| u64::from(erases)).sum();
        WearState {
            blocks: self.ftl.blocks.erases.len() as u64 * joined,
            block_bytes: joined_bytes / joined,
            page_bytes: u64::from(self.config.geometry.page_bytes),
            unit_bytes: u64::from(self.shape.unit_bytes),
            erases: erases * joined,
            erases_min: ranges().map(|(least, _)| least).min().unwrap_or(0),
            spread: ranges().map(|(least, most)| most.saturating_sub(least)).max().unwrap_or(0),
            endurance: self.config.wear.endurance,
            slc: self.ftl.slc_wear().map(|modes| {
                modes.map(|it| ModeWear {
                    erases: it.erases * joined,
                    blocks: it.blocks * joined,
                    ..it
                })
            }),
            spare_blocks: spare_blocks * joined as u32,
            spare_blocks_new: spare_blocks_new * joined as u32,
            write_protected: self.ftl.write_protected,
        }
    }

    /// A block of `plane` has been erased: if the plane's blocks have become too unequal, the
    /// least worn one that holds data is emptied. Levelling and collection take turns where
    /// free blocks are short, and a plane empties no more blocks than it has before the host
    /// writes again: what levelling itself causes could otherwise keep it going for ever.
    /// Returns whether levelling has begun.
    pub(crate) fn level_if_needed(&mut self, plane: Plane) -> bool {
        let Some(threshold) = self.config.wear.static_threshold else { return false };
        let state = &self.ftl.planes[plane];
        let turn = !std::mem::take(&mut self.ftl.levelled_last[plane])
            || self.ftl.blocks.free_blocks(plane) >= self.ftl.blocks.start;
        let written = self.kernel.observe.counted().host_units_written;
        let (at, count) = self.ftl.levelled[plane];
        let count = if at == written { count + 1 } else { 1 };
        let rests = count > self.shape.blocks_per_plane || self.ftl.write_protected;
        if !turn
            || rests
            || state.read_only
            || self.flash.is_dead(plane)
            || self.ftl.blocks.free_blocks(plane) == 0
        {
            return false;
        }
        let Some(block) = self.ftl.blocks.take_least_worn(plane, threshold) else { return false };
        self.kernel.observe.count().wear_levelling_runs += u64::from(self.shape.flash_planes);
        self.kernel.observe.count().levelling_units_moved +=
            u64::from(self.ftl.blocks.valid(block));
        self.ftl.levelled_last[plane] = true;
        self.ftl.levelled[plane] = (written, count);
        self.ftl.blocks.levelling[plane] = true;
        self.collect_block(plane, block);
        true
    }

    /// Whether `plane` cannot do without one more block: it has no spare ones left, or so many have
    /// gone one after the other that what is in the cache would soon find no free one.
    pub(crate) fn needs_every_block(&self, plane: Plane) -> bool {
        let limited = self.config.wear.endurance.is_some();
        let no_spares =
            limited && self.ftl.blocks.retired_of(plane) >= self.ftl.spare_blocks[plane];
        let few_are_free = !self.ftl.scheme.moves_first()
            && self.ftl.blocks.free_blocks(plane) < self.blocks_for_cache();
        no_spares || few_are_free
    }

    /// Blocks of a plane that its part of a full cache takes, and one for what is being collected;
    /// few beside those that are free when collection starts.
    fn blocks_for_cache(&self) -> usize {
        let bytes = self.config.cache.as_ref().map_or(0, |cache| cache.bytes);
        let block = u64::from(self.shape.units_per_block) * u64::from(self.shape.unit_bytes);
        let blocks = bytes.div_ceil(u64::from(self.shape.planes) * block) as usize;
        (blocks + 1).min(self.ftl.blocks.start / 2).max(1)
    }

    /// The drive takes no more writes. What it has taken has to find a place, so that no more blocks
    /// are retired for their wear.
    pub(crate) fn protect(&mut self) {
        if !std::mem::replace(&mut self.ftl.write_protected, true) {
            for plane in self.shape.all_planes() {
                self.collect_if_needed(plane);
            }
        }
    }

    /// A page has crossed the channel, and is decoded.
    #[cold]
    pub(crate) fn decode(&mut self, work: WorkIndex) {
        let block = self.shape.block_of_ppn(self.flash.work(work).ppn);
        let erases = self.ftl.blocks.erases[block];
        let time = self.ftl.worn_reads.as_ref().map_or(Span::ZERO, |reads| reads.decode.at(erases));
        if time.is_zero() {
            self.read_done(work);
        } else {
            self.kernel.events.push(self.kernel.now + time, Event::Decoded { work });
        }
    }
}

/// What reads of worn blocks take.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct WornReads {
    /// Mean number of retries.
    retries: ByErases<f64>,
    decode: ByErases<Span>,
    retry: Span,
}

impl WornReads {
    pub(crate) fn new(config: &config::WornReads) -> WornReads {
        let retries = config.retries.clone();
        let decode = config.decode.iter().map(|&(erases, time)| (erases, time.as_ps() as f64));
        WornReads {
            retries: ByErases::new(retries),
            decode: ByErases::new(decode.collect()),
            retry: config.retry,
        }
    }
}

/// Values of a curve that are worked out beforehand; beyond them they are each time.
const TABULATED: u32 = 1 << 16;

/// A curve over the erases of a block, looked up.
#[derive(Clone, Serialize, Deserialize)]
struct ByErases<T> {
    points: Vec<(u32, f64)>,
    /// Where the last point is, from which on the curve is flat.
    last: u32,
    values: Vec<T>,
}

/// What a curve can be of.
trait OnCurve: Copy {
    fn from_f64(value: f64) -> Self;
}

impl OnCurve for f64 {
    fn from_f64(value: f64) -> f64 {
        value
    }
}

impl OnCurve for Span {
    fn from_f64(ps: f64) -> Span {
        Span::from_ps(ps as u64)
    }
}

impl<T: OnCurve> ByErases<T> {
    fn new(points: Vec<(u32, f64)>) -> ByErases<T> {
        let last = points.last().map_or(0, |&(erases, _)| erases);
        let values =
            (0..=last.min(TABULATED)).map(|at| T::from_f64(on_curve(&points, at))).collect();
        ByErases { points, last, values }
    }

    #[inline]
    fn at(&self, erases: u32) -> T {
        let erases = erases.min(self.last);
        match self.values.get(erases as usize) {
            Some(&value) => value,
            None => T::from_f64(on_curve(&self.points, erases)),
        }
    }
}

/// The value of a curve of ascending points at `at`: between two points on the line between
/// them, outside as at the nearest; 0 without points.
fn on_curve(points: &[(u32, f64)], at: u32) -> f64 {
    let after = points.partition_point(|&(x, _)| x <= at);
    let near = |index: usize| points.get(index).map(|&(x, y)| (f64::from(x), y));
    match (after.checked_sub(1).and_then(near), near(after)) {
        (None, None) => 0.0,
        (Some((_, y)), None) | (None, Some((_, y))) => y,
        (Some((x0, y0)), Some((x1, y1))) => y0 + (y1 - y0) * (f64::from(at) - x0) / (x1 - x0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_straight_between_points_and_flat_outside() {
        let points = [(100, 1.0), (200, 3.0)];
        let on = |at| on_curve(&points, at);
        assert_eq!([on(0), on(100), on(150), on(200), on(9999)], [1.0, 1.0, 2.0, 3.0, 3.0]);
        assert_eq!(on_curve(&[], 5), 0.0);
    }

    /// Up to the last value that is worked out beforehand, beyond it, and beyond the curve.
    #[test]
    fn curves_looked_up_are_the_same() {
        let points = vec![(0, 1.0), (3, 2.5), (100_000, 7.0)];
        let looked_up = ByErases::<f64>::new(points.clone());
        for at in [0, 1, 2, 3, 4, 65_535, 65_536, 65_537, 99_999, 100_000, 100_001, u32::MAX] {
            assert_eq!(looked_up.at(at), on_curve(&points, at), "after {at} erases");
        }
        assert_eq!(ByErases::<f64>::new(vec![]).at(7), 0.0);
    }
}
