//! The flash when dies fail, power fails, or the drive begins anew.

use super::Flash;
use super::die::{DieOperation, OperationKind};
use super::queues::{Load, PlaneQueues};
use super::scheduler::Dropped;
use crate::kernel::Kernel;
use crate::number::{Channel, Die, Plane, WorkIndex};
use mynah_stamp::Time;

impl Flash {
    /// A die takes `factor` times as long for everything in its array.
    pub(crate) fn slow_down(&mut self, die: Die, factor: f64) {
        self.dies[die].factor = Some(factor);
    }

    /// A die fails: nothing more is done in it. What it does now still ends.
    pub(crate) fn fail_die(&mut self, die: Die) {
        self.dies[die].dead = true;
    }

    /// Drops the reads and erases that wait for a plane of a die that has failed.
    pub(crate) fn drop_works(&mut self, plane: Plane) {
        let die = self.shape.die_of_plane(plane);
        for class in 0..self.queues[plane].reads.len() {
            loop {
                let list = &mut self.queues[plane].reads[class];
                let Some(work) = self.works.pop_front(list) else { break };
                self.dies[die].load.take_reads(class as u8, 1);
                self.drop_later(Dropped::Work(work));
            }
        }
        loop {
            let list = &mut self.queues[plane].erases;
            let Some(work) = self.works.pop_front(list) else { break };
            self.dies[die].load.take_erase();
            self.works.remove(work);
        }
    }

    /// A read or erase of a die that is dead ends here.
    pub(crate) fn fail_work(&mut self, kernel: &Kernel, work: WorkIndex) {
        if self.flin.is_some() {
            self.read_has_left(work);
        }
        let now = kernel.now;
        let w = &mut self.works[work];
        (w.started, w.array, w.ready, w.transfer) = (now, now, now, now);
    }

    /// Notices which commands have left their channels by now.
    pub(crate) fn notice_ends(&mut self, kernel: &mut Kernel) {
        for channel in 0..self.channels.len() as u32 {
            self.notice_end(kernel, Channel(channel));
        }
    }

    /// Programs that have begun and not ended, the latest of each die first: two of them may have
    /// written the same thing.
    pub(crate) fn programs_under_way(&self) -> impl Iterator<Item = DieOperation> + '_ {
        let of_die = |die: usize| {
            let held = self.holds.get(die).map_or([None, None], |hold| hold.operations());
            held.into_iter().chain([self.dies[die].operation]).flatten()
        };
        let all = (0..self.dies.len()).flat_map(of_die);
        all.filter(|operation| operation.kind == OperationKind::Program)
    }

    /// Forgets the work that there was. Who waits, and for what, is forgotten as well.
    pub(crate) fn clear_works(&mut self) {
        self.works.clear();
        self.fresh_works.clear();
        self.fresh_programs.clear();
        self.dropped.clear();
    }

    /// Drops what dies and channels do and what waits for them.
    pub(crate) fn stop(&mut self, kernel: &mut Kernel) {
        if let Some(flin) = &mut self.flin {
            flin.clear();
        }
        for (channel, state) in (0..).map(Channel).zip(&mut self.channels) {
            state.power_cut();
            kernel.observe.ledger().release_channel(channel, kernel.now);
        }
        for die in 0..self.dies.len() as u32 {
            self.reset_die(kernel, Die(die));
        }
        self.queues.fill(PlaneQueues::EMPTY);
    }

    /// Drops what a die does and what waits for it.
    fn reset_die(&mut self, kernel: &mut Kernel, die: Die) {
        let now = kernel.now;
        let lane = self.lane(die);
        kernel.observe.ledger().forget_blocked(lane);
        let busy = kernel.observe.ledger().release_lane(lane, now);
        self.dies[die].busy += busy;
        self.chip_busy.fill(false);
        let state = &mut self.dies[die];
        state.operation = None;
        state.transfers = 0;
        state.load = Load::default();
        state.interruptible = false;
        state.idle_since = now;
        if let Some(hold) = self.holds.get_mut(die.index()) {
            hold.clear();
        }
    }

    /// Begins anew at time zero. What is known of the flows stays.
    pub(crate) fn begin_anew(&mut self) {
        self.dies.iter_mut().for_each(|die| die.idle_since = Time::ZERO);
        if let Some(flin) = &mut self.flin {
            flin.begin_anew();
        }
    }
}
