//! Which writes go past the cache: those of streams in order that have written much already.
//!
//! As the Linux kernel's bcache does it (Documentation/admin-guide/bcache.rst, `sequential_cutoff`): the
//! ends of the last streams are remembered, and a write that begins at one of them goes on with it.

use crate::kernel::bytes::{Reader, StateError, Writer};
use crate::kernel::hash::StateHash;
use serde::{Deserialize, Serialize};

/// Streams that are remembered: as many as bcache has (`RECENT_IO`, drivers/md/bcache/bcache.h).
const STREAMS: usize = 128;
/// Sectors are saved in halves of 31 bits.
const HALF: u32 = 31;

/// Writes in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Run {
    namespace: u32,
    /// Where it goes on.
    end: u64,
    /// What has been written, in sectors.
    sectors: u64,
}

/// Who may write to the cache.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Admission {
    cutoff_sectors: u64,
    /// The one that was written last at the end.
    runs: Vec<Run>,
}

impl Admission {
    pub(super) fn new(cutoff_bytes: u64) -> Admission {
        Admission { cutoff_sectors: cutoff_bytes / 512, runs: Vec::new() }
    }

    /// A write to a namespace, counted from 0: whether it goes past the cache.
    pub(crate) fn write(&mut self, namespace: usize, sector: u64, sectors: u32) -> bool {
        let namespace = namespace as u32;
        let goes_on = |run: &Run| run.namespace == namespace && run.end == sector;
        let known = self.runs.iter().rposition(goes_on).map(|at| self.runs.remove(at));
        let before = known.map_or(0, |run| run.sectors);
        if self.runs.len() == STREAMS {
            self.runs.remove(0);
        }
        let sectors = u64::from(sectors);
        self.runs.push(Run { namespace, end: sector + sectors, sectors: before + sectors });
        before >= self.cutoff_sectors
    }

    /// What it knows was in DRAM.
    pub(in crate::ftl) fn clear(&mut self) {
        self.runs.clear();
    }

    pub(super) fn hash(&self, hash: &mut StateHash) {
        for run in &self.runs {
            hash.add(run.namespace);
            [run.end, run.sectors].iter().for_each(|&it| {
                hash.add(it as u32);
                hash.add((it >> 32) as u32);
            });
        }
    }

    pub(super) fn save(&self, out: &mut Writer<'_>) {
        let half = |it: u64, at: u32| (it >> (at * HALF)) as u32 & (u32::MAX >> 1);
        out.numbers(self.runs.iter().map(|run| run.namespace));
        for at in 0..2 {
            out.numbers(self.runs.iter().map(|run| half(run.end, at)));
            out.numbers(self.runs.iter().map(|run| half(run.sectors, at)));
        }
    }

    pub(super) fn restore(&mut self, input: &mut Reader<'_>) -> Result<(), StateError> {
        let namespaces = input.numbers("streams in order", STREAMS, u32::MAX)?;
        let mut runs: Vec<Run> =
            namespaces.into_iter().map(|namespace| Run { namespace, end: 0, sectors: 0 }).collect();
        for at in 0..2 {
            let ends = input.all("ends of streams", runs.len(), 1 << HALF)?;
            let sectors = input.all("lengths of streams", runs.len(), 1 << HALF)?;
            for (run, (end, sectors)) in runs.iter_mut().zip(ends.into_iter().zip(sectors)) {
                run.end |= u64::from(end) << (at * HALF);
                run.sectors |= u64::from(sectors) << (at * HALF);
            }
        }
        self.runs = runs;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Admission;

    #[test]
    fn a_stream_goes_past_the_cache_once_it_has_written_so_much() {
        let mut admission = Admission::new(4096);
        let passes: Vec<bool> = (0..5).map(|at| admission.write(0, 100 + at * 4, 4)).collect();
        assert_eq!(passes, [false, false, true, true, true]);
        // Elsewhere, and in another namespace, it is none.
        assert!(!admission.write(0, 4, 4));
        assert!(!admission.write(1, 120, 4));
        assert!(admission.write(0, 120, 4));
    }

    #[test]
    fn streams_beside_one_another_are_told_apart_as_long_as_they_are_remembered() {
        let mut admission = Admission::new(512);
        let mut round = |at: u64, streams: u64| -> usize {
            (0..streams).filter(|stream| admission.write(0, (stream << 32) + at, 1)).count()
        };
        assert_eq!((round(0, 128), round(1, 128)), (0, 128));
        // One more, and each has been forgotten when it goes on.
        assert_eq!((round(2, 129), round(3, 129)), (128, 0));
    }
}
