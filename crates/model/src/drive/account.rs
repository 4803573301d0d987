//! Counters as the outside sees them: what happened since counting began.

use super::{Drive, Policies};
use crate::io::NamespaceId;
use crate::kernel::hash::StateHash;
use crate::observe::placement::PlacementCounters;
use crate::observe::stats::Counters;
use mynah_stamp::Span;

impl<P: Policies> Drive<P> {
    /// Everything counted, with what is busy at this moment included.
    fn totals(&self) -> Counters {
        let now = self.kernel.now;
        let mut totals = self.kernel.observe.counted().clone();
        self.flash.count_busy(&self.kernel, &mut totals);
        if let Some(cache) = &self.cache {
            cache.count_dram(now, &mut totals);
        }
        totals.placement = self.placement_counters().map(Box::new);
        totals.slc_state = self.slc_state();
        totals.link_busy = self.host.link_booked(now);
        totals.block_erases_max = self.ftl.erases_max();
        totals.wear = self.wear_state();
        totals.energy_nj = self.config.energy.map(|energy| {
            let busy: Span = totals.channel_busy.iter().copied().sum();
            // A milliwatt for a picosecond is a millionth of a nanojoule.
            let power = |mw: u64, time: Span| {
                (u128::from(mw) * u128::from(time.as_ps()) / 1_000_000) as u64
            };
            totals.flash_reads * energy.read_nj
                + totals.flash_programs * energy.program_nj
                + totals.erases * energy.erase_nj
                + power(energy.channel_mw, busy)
                + power(energy.idle_mw, now.since(mynah_stamp::Time::ZERO))
        });
        totals
    }

    /// Starts counting anew, for measurements after a ramp.
    pub fn restart_counters(&mut self) {
        let totals = self.totals();
        self.kernel.observe.restart(self.kernel.now, totals);
        self.restart_turnover();
    }

    /// A number that two drives of the same configuration share only if (but for chance)
    /// they are in the same state of mapping, blocks and data cache, of which units are hot and
    /// which blocks are superblocks. For drives without commands inside.
    #[inline]
    pub fn state_hash(&self) -> u64 {
        P::state_hash(self)
    }

    pub(crate) fn state_hash_here(&self) -> u64 {
        let mut hash = StateHash::default();
        self.ftl.hash(&mut hash);
        if let Some(cache) = &self.cache {
            cache.hash(self.ftl.units(), &mut hash);
        }
        hash.value()
    }

    pub(crate) fn counters_now(&self) -> Counters {
        let mut totals = self.totals();
        let from = self.kernel.observe.counting_offset();
        macro_rules! since {
            ($($field:ident)+) => { $(totals.$field -= from.$field;)+ };
        }
        since!(
            commands events host_units_written host_bytes_written flash_units_programmed
            gc_units_moved flash_reads flash_programs gc_reads gc_programs copybacks switch_merges
            partial_merges full_merges mapping_reads mapping_programs merge_reads
            multi_plane_operations program_suspensions erase_suspensions erases gc_runs
            wear_levelling_runs retired_blocks read_retries cmt_lookups cmt_hits cache_lookups
            cache_hits dram_rows dram_row_hits padded_units rest_bytes_programmed
            levelling_units_moved units_lost units_lost_written media_errors index_lookups
            index_hits
        );
        totals.slc = totals.slc.since(&from.slc);
        if let (Some(placement), Some(before)) = (&mut totals.placement, &from.placement) {
            **placement = placement.since(before);
        }
        let subtract = |now: &mut [Span], before: &[Span]| {
            for (now, before) in now.iter_mut().zip(before) {
                *now = now.saturating_sub(*before);
            }
        };
        if let (Some(energy), Some(before)) = (&mut totals.energy_nj, from.energy_nj) {
            *energy -= before;
        }
        subtract(&mut totals.channel_busy, &from.channel_busy);
        subtract(&mut totals.die_busy, &from.die_busy);
        subtract(&mut totals.link_busy, &from.link_busy);
        totals.dram_busy = totals.dram_busy.saturating_sub(from.dram_busy);
        totals.manager_busy = totals.manager_busy.saturating_sub(from.manager_busy);
        totals
    }

    /// What the handles of a drive with data placement have cost since it was built; `None` of others.
    pub fn placement_counters(&self) -> Option<PlacementCounters> {
        let (counters, unknown) = self.ftl.handles()?.counters();
        let mut handles = counters.to_vec();
        for (handle, of) in (0..).zip(&mut handles) {
            (of.units_opened, of.units_closed) = self.ftl.reclaim_units(handle);
        }
        let (_, unit) = self.ftl.reclaim_unit_left(0)?;
        Some(PlacementCounters {
            handles,
            unknown,
            units_erased: self.ftl.units_erased(),
            unit_bytes: unit * u64::from(self.shape.unit_bytes),
        })
    }

    /// Bytes of a reclaim unit; `None` without data placement.
    pub fn reclaim_unit_bytes(&self) -> Option<u64> {
        self.ftl.handles()?;
        Some(self.ftl.reclaim_unit_left(0)?.1 * u64::from(self.shape.unit_bytes))
    }

    /// The reclaim unit handles of a namespace's placement handles, in order.
    pub fn placement_handles(&self, namespace: NamespaceId) -> Option<&[u8]> {
        self.ftl.handles()?.list((namespace.0 as usize).checked_sub(1)?)
    }
}
