//! The back end: bus and array times, the dies and channels, what waits for them, and who uses them
//! next. What data are, and where they belong, it does not know: it is given work, and returns its
//! end.

pub(crate) mod above;
pub(crate) mod channel;
mod check;
pub(crate) mod choice;
pub(crate) mod die;
mod flin;
mod hold;
pub(crate) mod operation;
pub(crate) mod queues;
pub(crate) mod scheduler;
mod state;
mod stop;
pub(crate) mod timing;
pub(crate) mod work;

use crate::config::{self, Config, Precedence};
use crate::kernel::pool::Pool;
use crate::number::{Channel, Die, Lane, Plane, WorkIndex, WriteIndex};
use crate::space::Shape;
use channel::ChannelState;
use die::{DieOperation, DieState};
use flin::Flin;
use hold::Hold;
use queues::PlaneQueues;
use scheduler::Dropped;
use serde::{Deserialize, Serialize};
use timing::FlashTimes;
use work::Work;

/// The dies and channels, and the work that waits for them.
#[derive(Serialize, Deserialize)]
pub(crate) struct Flash {
    shape: Shape,
    scheduler: config::Scheduler,
    arbitration: config::BusArbitration,
    /// Whether others may come between the work of a collection.
    preemptible: bool,
    times: FlashTimes,
    dies: Vec<DieState>,
    channels: Vec<ChannelState>,
    chip_busy: Vec<bool>,
    /// Reads and erases that wait for each plane.
    queues: Vec<PlaneQueues>,
    works: Pool<Work>,
    /// What dies have suspended or will do next, if any may.
    holds: Vec<Hold>,
    /// Whether reads do not always go before programs.
    weighs_reads: bool,
    flin: Option<Box<Flin>>,
    /// Channels to look at, work and programs that may begin to wait, and what cannot go on: dealt
    /// with at the end of each event. `unsettled` if there is any of it.
    unsettled: bool,
    stale_channels: Vec<Channel>,
    fresh_works: Vec<WorkIndex>,
    fresh_programs: Vec<WriteIndex>,
    dropped: Vec<Dropped>,
    /// Dies of the channel that is being granted whose next page may still be moved to them, if
    /// they are being asked.
    offered: Option<u64>,
    /// The reads of several planes whose end a spoilt one of them interrupts.
    interrupted: Option<Box<DieOperation>>,
}

impl Flash {
    pub(crate) fn new(config: &Config, shape: Shape) -> Flash {
        let geometry = config.geometry;
        let dies_per_lane = match config.scheduler.die_interleaving {
            true => 1,
            false => shape.dies_per_chip,
        };
        let lanes = geometry.dies() / dies_per_lane;
        let dies = (0..geometry.dies())
            .map(|die| {
                let channel = Channel(die / shape.dies_per_channel);
                let bit = 1 << (die % shape.dies_per_channel);
                let mut die = DieState::new(
                    channel,
                    Lane(die / dies_per_lane),
                    bit,
                    Plane(die * shape.planes_per_die),
                );
                die.urgent_takes_turns = config.scheduler.flin.is_some();
                die
            })
            .collect();
        Flash {
            scheduler: config.scheduler,
            arbitration: config.bus.arbitration,
            preemptible: config.gc.preemptible,
            times: FlashTimes::new(config),
            dies,
            channels: (0..geometry.channels)
                .map(|channel| ChannelState::new(Die(channel * shape.dies_per_channel)))
                .collect(),
            chip_busy: vec![false; lanes as usize],
            queues: vec![PlaneQueues::EMPTY; shape.planes as usize],
            works: Pool::default(),
            holds: Hold::all(config),
            weighs_reads: config.scheduler.write_deadline.is_some()
                || config.scheduler.precedence != Precedence::ReadFirst
                || config.scheduler.flin.is_some(),
            flin: config.scheduler.flin.map(|flin| Box::new(Flin::new(flin, config))),
            unsettled: false,
            stale_channels: Vec::new(),
            fresh_works: Vec::new(),
            fresh_programs: Vec::new(),
            dropped: Vec::new(),
            offered: None,
            interrupted: None,
            shape,
        }
    }

    /// Reads do not always go before programs: somebody decides.
    pub(crate) fn weigh_reads(&mut self) {
        self.weighs_reads = true;
    }

    /// Lanes of the ledger: dies, or chips whose dies do not interleave.
    pub(crate) fn lanes(&self) -> usize {
        self.chip_busy.len()
    }

    pub(crate) fn grow(&mut self, holders: usize) {
        if let Some(flin) = &mut self.flin {
            flin.grow(holders);
        }
    }

    /// How long flash work takes.
    pub(crate) fn times(&self) -> &FlashTimes {
        &self.times
    }

    /// A read or erase, as long as it has not been given back.
    #[inline]
    pub(crate) fn work(&self, index: WorkIndex) -> &Work {
        &self.works[index]
    }

    #[inline]
    pub(crate) fn work_mut(&mut self, index: WorkIndex) -> &mut Work {
        &mut self.works[index]
    }

    /// A place for work, which the caller fills before it is queued.
    #[inline]
    pub(crate) fn new_work(&mut self) -> (WorkIndex, &mut Work) {
        let index = self.works.insert_any();
        (index, &mut self.works[index])
    }

    /// Work that has ended is not needed any more.
    #[inline]
    pub(crate) fn give_back(&mut self, index: WorkIndex) {
        self.works.remove(index);
    }

    #[inline]
    pub(crate) fn is_dead_die(&self, die: Die) -> bool {
        self.dies[die].dead
    }

    /// Whether the die of a plane has failed.
    #[inline]
    pub(crate) fn is_dead(&self, plane: Plane) -> bool {
        self.is_dead_die(self.shape.die_of_plane(plane))
    }
}
