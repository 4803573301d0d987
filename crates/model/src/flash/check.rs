//! Invariants of what waits for dies, walked in full; for tests.

use super::Flash;
use super::queues::CLASSES;
use crate::invariant::{BrokenInvariant, hold};
use crate::kernel::pool::Linked;
use crate::number::{Die, Plane, WorkIndex};

impl Flash {
    /// Whether each die counts what waits for it, and is listed if it can start something.
    /// `programs` says how many parts of pages of a class wait for a plane.
    pub(crate) fn check(&self, programs: impl Fn(Plane, u8) -> u32) -> Result<(), BrokenInvariant> {
        for (die, state) in self.dies.iter().enumerate() {
            let planes = self.planes_of(Die(die as u32));
            for class in 0..CLASSES as u8 {
                let reads: u32 = planes.clone().map(|plane| self.reads_waiting(plane, class)).sum();
                let counted = state.load.reads(class);
                hold(reads == counted, || {
                    format!("die {die} counts {counted} reads, {reads} wait")
                })?;
                let writes: u32 = planes.clone().map(|plane| programs(plane, class)).sum();
                let counted = state.load.writes(class);
                hold(writes == counted, || {
                    format!("die {die} counts {counted} writes, {writes} wait")
                })?;
            }
            let ready = self.channels[state.channel].ready & state.bit != 0;
            hold(ready == (state.is_idle() && !state.load.is_empty()), || {
                format!("die {die}: ready {ready}, idle {}", state.is_idle())
            })?;
        }
        Ok(())
    }

    fn reads_waiting(&self, plane: Plane, class: u8) -> u32 {
        let (mut count, mut at) = (0, self.queues[plane].reads[usize::from(class)].head);
        while at != WorkIndex::NONE {
            count += 1;
            at = self.works[at].next();
        }
        count
    }
}
