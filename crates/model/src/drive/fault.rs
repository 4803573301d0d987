//! What a drive does when a fault is injected: slow and dead dies, power cuts.

use super::{Drive, Policies};
use crate::config::Fault;
use crate::fault::Keep;
use crate::kernel::event::Event;
use crate::number::Die;
use mynah_stamp::{Span, Time};

impl<P: Policies> Drive<P> {
    /// Applies the faults that hold from the start and schedules the others.
    pub(crate) fn schedule_faults(&mut self) {
        for index in 0..self.config.faults.len() {
            match self.config.faults[index] {
                Fault::SlowDie { die, factor } => self.flash.slow_down(Die(die), factor),
                Fault::DeadDie { at, .. } | Fault::PowerCut { at, .. } => {
                    if at >= self.kernel.now {
                        self.kernel.events.push(at, Event::Fault { index: index as u32 });
                    }
                }
                Fault::Media { .. } => {}
            }
        }
    }

    /// Whether the power has failed and the drive has not recovered.
    pub fn has_lost_power(&self) -> bool {
        !self.host.is_powered()
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn fault(&mut self, index: u32) {
        match self.config.faults[index as usize] {
            Fault::DeadDie { die, .. } => self.kill_die(Die(die)),
            Fault::PowerCut { recovery, .. } => self.power_cut(recovery),
            Fault::Media { .. } | Fault::SlowDie { .. } => {}
        }
    }

    /// A die fails: what waits for it fails now, what it does now still ends.
    fn kill_die(&mut self, die: Die) {
        self.flash.fail_die(die);
        for plane in self.shape.planes_of_die(die) {
            self.fail_writes(plane);
            self.abandon_moves(plane);
            self.flash.drop_works(plane);
        }
        self.flash.queues_emptied(die);
        self.collect_next_superblock();
    }

    /// The power fails: everything that is not on flash is gone, and with it every
    /// outstanding command. After `recovery` the drive accepts commands again.
    pub(crate) fn power_cut(&mut self, recovery: Span) {
        let protected = self.cache.as_ref().is_some_and(|cache| cache.is_protected());
        self.stop(if protected { Keep::WriteCache } else { Keep::Flash });
        self.ftl.forget_past();
        self.host.set_powered(false);
        self.kernel.events.push(self.kernel.now + recovery, Event::PowerRestored);
        self.schedule_faults_after(self.kernel.now);
    }

    /// Everything that is under way is dropped, and every command with it. Of what has not reached
    /// flash as much stays as `keep` says.
    pub(crate) fn stop(&mut self, keep: Keep) {
        let now = self.kernel.now;
        self.flash.notice_ends(&mut self.kernel);
        // Programs that had begun leave their pages unreadable: what they replaced counts
        // again, if it is still there.
        for operation in self.flash.programs_under_way().collect::<Vec<_>>() {
            for at in 0..usize::from(operation.planes) {
                self.undo_program(operation.part_at(at), operation.ppns[at], keep);
            }
        }
        let (retained, lost) = self.cache_at_stop(keep);
        lost.into_iter().for_each(|(unit, created)| self.lose(unit, created));
        self.kernel.events.clear();
        self.flash.clear_works();
        self.ftl.forget_units();
        self.host.stop(now);
        self.refill_cache(retained, keep);
        self.flash.stop(&mut self.kernel);
        self.stop_collections(keep);
        if keep == Keep::Flash {
            self.close_reclaim_units();
        }
    }

    /// The drive accepts commands again, and goes on with the collections it had begun.
    #[cold]
    #[inline(never)]
    pub(crate) fn power_restored(&mut self) {
        self.host.set_powered(true);
        self.resume_work();
    }

    /// Begins again what [`Drive::stop`] has dropped of the drive's own work.
    pub(crate) fn resume_work(&mut self) {
        // A superblock that is begun for one plane is begun for those after it, too.
        let stopped = |plane| !self.ftl.is_collection_over(plane);
        let stopped: Vec<bool> = self.shape.all_planes().map(stopped).collect();
        for plane in self.shape.all_planes() {
            if stopped[plane.index()] {
                self.resume_collection(plane);
            }
            self.collect_if_needed(plane);
            self.first_to_program_changed(plane);
        }
        self.resume_indices();
        // What the cache has kept goes on as it would have.
        self.evict_surplus();
    }

    fn schedule_faults_after(&mut self, now: Time) {
        for index in 0..self.config.faults.len() {
            if let Fault::DeadDie { at, .. } | Fault::PowerCut { at, .. } =
                self.config.faults[index]
                && at > now
            {
                self.kernel.events.push(at, Event::Fault { index: index as u32 });
            }
        }
    }
}
