//! The flash from outside: whether it rests, how busy it was, what waits, what is saved of it.

use super::Flash;
use super::queues::{CLASSES, moves};
use crate::kernel::Kernel;
use crate::kernel::bytes::StateError;
use crate::kernel::bytes::{Reader, Writer};
use crate::number::{Channel, Plane, WriteIndex};
use crate::observe::gauge::Gauges;
use crate::observe::stats::Counters;
use mynah_stamp::Time;

impl Flash {
    /// Whether no die works and no read or erase is there.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.works.len() == 0 && self.dies.iter().all(|die| die.is_idle())
    }

    /// Adds the reads and writes that wait on all dies.
    pub(crate) fn gauge(&self, gauges: &mut Gauges) {
        for die in &self.dies {
            for class in 0..CLASSES as u8 {
                let (reads, writes) = (die.load.reads(class), die.load.writes(class));
                gauges.flash_reads_waiting += reads;
                gauges.flash_writes_waiting += writes;
                if moves(class) {
                    gauges.collection_waiting += reads + writes;
                }
            }
        }
    }

    /// Adds how long channels and dies have been busy up to this moment.
    pub(crate) fn count_busy(&self, kernel: &Kernel, totals: &mut Counters) {
        let ledger = kernel.observe.tenancies();
        for (channel, busy) in (0..).map(Channel).zip(&mut totals.channel_busy) {
            let until = match self.silent_end(kernel, channel) {
                Some(end) => {
                    totals.events += 1;
                    end
                }
                None => kernel.now,
            };
            *busy = self.channels[channel].busy() + ledger.channel_running(channel, until);
        }
        for (busy, die) in totals.die_busy.iter_mut().zip(&self.dies) {
            *busy = die.busy;
            // A lane that is a chip's is held by the die of it that works.
            if self.scheduler.die_interleaving || !die.is_idle() {
                *busy += ledger.lane_running(die.lane, kernel.now);
            }
        }
    }

    /// Writes whose turn it is at dies and channels.
    pub(crate) fn save(&self, out: &mut Writer<'_>) {
        out.numbers(self.dies.iter().map(|die| die.turns_left()));
        out.numbers(self.channels.iter().map(|channel| channel.turn()));
    }

    /// Takes what [`Flash::save`] wrote.
    pub(crate) fn restore(&mut self, input: &mut Reader<'_>) -> Result<(), StateError> {
        let turns = input.all("turns of dies", self.dies.len(), u32::MAX)?;
        for (die, turns) in self.dies.iter_mut().zip(turns) {
            die.set_turns_left(turns);
        }
        let dies = self.shape.dies_per_channel;
        let turns = input.all("turns of channels", self.channels.len(), dies.max(1))?;
        for (channel, turn) in self.channels.iter_mut().zip(turns) {
            channel.set_turn(turn);
        }
        Ok(())
    }

    /// Writes what is known of flows; `waiting` are the parts of pages that wait to be programmed.
    pub(crate) fn save_flows(&mut self, now: Time, waiting: &[WriteIndex], out: &mut Writer<'_>) {
        // The next ones have the numbers that they would have in a restored drive.
        self.works.clear();
        if let Some(flin) = &mut self.flin {
            flin.save(now, waiting, out);
        }
    }

    /// Takes what [`Flash::save_flows`] wrote.
    pub(crate) fn restore_flows(
        &mut self,
        now: Time,
        waiting: &[WriteIndex],
        input: &mut Reader<'_>,
    ) -> Result<(), StateError> {
        match &mut self.flin {
            Some(flin) => flin.restore(now, waiting, input),
            None => Ok(()),
        }
    }

    /// A part of a page waits to be programmed in a drive that is being restored: nothing starts
    /// before all of it is.
    pub(crate) fn program_restored(&mut self, plane: Plane, class: u8) {
        let die = self.shape.die_of_plane(plane);
        self.dies[die].load.add_write(class);
        self.mark_ready(die);
    }
}
