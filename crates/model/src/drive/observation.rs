//! What watchers of a drive may ask for: its progress and gauges, what its dies and channels did,
//! its longest waits, and how much of it has been turned over.

use super::{Drive, Policies};
use crate::number::Plane;
use crate::observe::activity::Activity;
use crate::observe::gauge::{Gauges, Progress};
use crate::observe::long::LongWait;
use crate::observe::slc::SlcState;
use crate::observe::turnover::Turnover;
use mynah_stamp::Span;

impl<P: Policies> Drive<P> {
    /// How far the drive has come. Looks at counters only.
    pub fn progress(&self) -> Progress {
        let counters = self.kernel.observe.counted();
        let (orphans, under_way) = self.host.progress();
        Progress {
            ended: counters.commands.wrapping_add_signed(orphans),
            under_way,
            programmed: counters.flash_programs,
            programmed_for_itself: counters.gc_programs + counters.mapping_programs,
            blocks_collected: counters.gc_runs,
        }
    }

    /// What the drive looks like now. Takes a look at every plane and die.
    pub fn gauges(&self) -> Gauges {
        let free = |plane| self.ftl.free_blocks(plane);
        let mut gauges = Gauges {
            free_blocks: self.shape.all_planes().map(|plane| free(plane) as u64).sum(),
            free_blocks_min: self.shape.all_planes().map(free).min().unwrap_or(0) as u32,
            commands: self.host.commands_inside() as u32,
            cached_units: self.cache.as_ref().map_or(0, |cache| cache.len() as u32),
            slc: self.ftl.slc_fill(self.kernel.now),
            ..Gauges::default()
        };
        self.flash.gauge(&mut gauges);
        gauges
    }

    /// How full the pSLC write cache is; `None` of a drive without one. Takes a look at every block
    /// of it.
    pub fn slc_state(&self) -> Option<SlcState> {
        self.ftl.slc_state(self.kernel.now, self.config.gc.copyback, self.flash.times())
    }

    /// Keeps what dies and channels do, or stops to. What is kept must be taken with
    /// [`Drive::take_activity`], or memory runs out.
    pub fn keep_activity(&mut self, keep: bool) {
        self.kernel.observe.keep_activity(keep);
    }

    /// Whether what dies and channels do is kept.
    pub fn keeps_activity(&self) -> bool {
        self.kernel.observe.keeps_activity()
    }

    /// What has ended since this was last asked. The pieces of one die or channel are in
    /// order of time.
    pub fn take_activity(&mut self) -> Vec<Activity> {
        self.kernel.observe.take_activity()
    }

    /// Keeps waits for dies, channels, room in the write cache and mapping entries that are at least
    /// so long, the latest thousand of them.
    pub fn keep_long_waits(&mut self, least: Span) {
        self.kernel.observe.keep_long_waits(least);
    }

    /// The waits that were kept since [`Drive::keep_long_waits`], latest first.
    pub fn long_waits(&self) -> impl Iterator<Item = &LongWait> {
        self.kernel.observe.long_waits()
    }

    /// What has been turned over since counting began ([`Drive::restart_counters`]).
    pub fn turnover(&self) -> Turnover {
        let free = self.shape.all_planes().map(|plane| self.ftl.free_blocks(plane) as u64);
        let observe = &self.kernel.observe;
        observe.turnover().turnover(
            &free.collect::<Vec<_>>(),
            self.ftl.valid_units(),
            observe.counted(),
        )
    }

    /// Blocks collected since counting began.
    pub fn blocks_turned_over(&self) -> u64 {
        self.kernel.observe.turnover().blocks()
    }

    pub(super) fn restart_turnover(&mut self) {
        let free = self.shape.all_planes().map(|plane| self.ftl.free_blocks(plane) as u32);
        let (free, valid) = (free.collect(), self.ftl.valid_units());
        self.kernel.observe.restart_turnover(free, valid, &self.shape);
    }

    /// A block of `plane` has been emptied, and is free again.
    #[inline]
    pub(crate) fn count_turnover(&mut self, plane: Plane) {
        self.kernel.observe.count_turnover(plane);
    }
}
