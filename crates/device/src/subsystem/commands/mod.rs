//! Commands under way, and what they wait for: jobs of the store, commands that they have overtaken,
//! namespaces that another has for itself, turns in which blocks are deallocated.

mod begin;
mod command;
mod complete;
mod deferred;
mod finish;
mod overtake;
mod own;
mod places;
mod trims;

pub(crate) use command::{BlockRun, Blocks, Command, FusedWrite, Overwrite, Step, Then, Work};
pub(crate) use deferred::Deferred;

use crate::StoreJob;
use crate::slots::Slots;
use mynah_stamp::Time;
use std::collections::{HashMap, VecDeque};
use trims::Trims;

/// Commands under way, each with an index that is the model's tag for it.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    slots: Slots<Command>,
    /// Which command waits for a job of the store.
    jobs: HashMap<u64, u32>,
    /// Which commands wait for one that they have overtaken.
    awaited: HashMap<u32, Vec<u32>>,
    /// Commands that wait until another releases their namespace, in order.
    deferred: VecDeque<Deferred>,
    trims: Trims,
}

impl Commands {
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Command> {
        self.slots.get(index)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Command> {
        self.slots.get_mut(index)
    }

    #[inline]
    pub(crate) fn insert(&mut self, command: Command) -> u32 {
        self.slots.insert(command)
    }

    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> Option<Command> {
        self.slots.remove(index)
    }

    /// Removes a command without moving it.
    #[inline]
    pub(crate) fn release(&mut self, index: u32) {
        self.slots.release(index);
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// All commands with their indices, in order of the index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Command)> {
        self.slots.iter()
    }

    /// Has a command wait for a job of the store.
    pub(crate) fn await_job(&mut self, index: u32, job: StoreJob) {
        if let Some(command) = self.slots.get_mut(index) {
            command.wait();
            self.jobs.insert(job.0, index);
        }
    }

    /// A job of the store is done: the command that waits for it, if one does.
    pub(crate) fn take_job(&mut self, job: StoreJob) -> Option<u32> {
        self.jobs.remove(&job.0)
    }

    /// Whether commands wait for the store.
    #[inline]
    pub(crate) fn await_jobs(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// When some that wait for a turn to deallocate may go on.
    pub(crate) fn next_trims(&self) -> Option<Time> {
        self.trims.due()
    }

    /// After a power loss nothing is awaited but jobs of the store: how many, by command.
    pub(crate) fn forget_all_but_jobs(&mut self) -> HashMap<u32, u32> {
        self.awaited.clear();
        let mut jobs: HashMap<u32, u32> = HashMap::new();
        for index in self.jobs.values() {
            *jobs.entry(*index).or_default() += 1;
        }
        jobs
    }

    /// Drops the commands that wait for a namespace, or for a turn to deallocate.
    pub(crate) fn forget_waiting(&mut self) {
        self.deferred.clear();
        self.trims.forget();
    }
}
