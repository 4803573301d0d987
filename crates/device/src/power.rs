//! What a power cut takes, and what it leaves.
//!
//! A write is in the store as soon as the host has sent it. So where a power cut is due, what
//! each mapping unit held before is kept until it is certain that the new data are on flash:
//! when a Flush or a write with FUA has completed. Units that the model says are lost get
//! back the oldest of what is kept for them; a drive may return any of it.

use crate::command::{Certain, Segment, Work};
use crate::namespace::{Extent, SECTOR_BYTES};
use crate::nvm::protection::METADATA_BYTES;
use crate::slots::NONE;
use crate::subsystem::Subsystem;
use mynah_model::config::{Config, Fault};
use mynah_stamp::Time;
use mynah_wire::nvme::Status;
use std::collections::{HashMap, VecDeque};

/// When the power will fail.
pub(crate) fn cuts(config: &Config) -> VecDeque<Time> {
    let mut cuts: Vec<Time> = config
        .faults
        .iter()
        .filter_map(|fault| match fault {
            Fault::PowerCut { at, .. } => Some(*at),
            _ => None,
        })
        .collect();
    cuts.sort();
    cuts.dedup();
    cuts.into()
}

/// Contents of a unit, oldest first, each with the epoch in which it was replaced.
type Versions = VecDeque<(u64, Box<[u8]>)>;

/// What mapping units held before writes that may still be lost.
#[derive(Debug)]
pub(crate) struct Before {
    units: HashMap<u64, Versions>,
    /// Units in the order in which something was kept of them.
    order: VecDeque<u64>,
    /// Most contents kept: more than the cache and the flash's registers can hold.
    max: usize,
    /// A new one begins with every command that makes writes certain.
    epoch: u64,
}

impl Before {
    pub(crate) fn new(config: &Config) -> Before {
        let cache = config.cache.map_or(0, |cache| cache.bytes);
        let max = (2 * cache + (64 << 20)) / u64::from(config.mapping.unit_bytes);
        let max = max as usize;
        Before { units: HashMap::new(), order: VecDeque::new(), max, epoch: 0 }
    }

    fn has(&self, unit: u64) -> bool {
        self.units
            .get(&unit)
            .and_then(|kept| kept.back())
            .is_some_and(|&(epoch, _)| epoch == self.epoch)
    }

    fn keep(&mut self, unit: u64, bytes: Box<[u8]>) {
        self.units.entry(unit).or_default().push_back((self.epoch, bytes));
        self.order.push_back(unit);
        if self.order.len() > self.max
            && let Some(oldest) = self.order.pop_front()
            && let Some(kept) = self.units.get_mut(&oldest)
        {
            kept.pop_front();
            if kept.is_empty() {
                self.units.remove(&oldest);
            }
        }
    }

    /// A command that makes writes certain begins; returns the epoch it ends.
    pub(crate) fn begin_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch - 1
    }

    /// What was replaced up to an epoch will not come back.
    pub(crate) fn forget(&mut self, certain: &Certain) {
        let mut forgotten = false;
        for (&unit, kept) in &mut self.units {
            if certain.units.iter().any(|&(first, end)| (first..end).contains(&unit)) {
                let count = kept.len();
                kept.retain(|&(replaced, _)| replaced > certain.epoch);
                forgotten |= kept.len() != count;
            }
        }
        if !forgotten {
            return;
        }
        let units = &mut self.units;
        units.retain(|_, kept| !kept.is_empty());
        // The order names each unit once for each of its contents.
        let mut left: HashMap<u64, usize> = HashMap::new();
        self.order.retain(|unit| {
            let seen = left.entry(*unit).or_default();
            *seen += 1;
            *seen <= units.get(unit).map_or(0, VecDeque::len)
        });
    }

    /// Nothing that was replaced will come back.
    pub(crate) fn forget_all(&mut self) {
        self.units.clear();
        self.order.clear();
    }
}

impl Subsystem {
    /// Units of these bytes of the store of which something has to be kept first: where
    /// their data lie, and where their metadata.
    pub(crate) fn kept_places(&self, (at, bytes): (u64, u64)) -> Vec<(u64, u64)> {
        let Some(before) = &self.before else { return vec![] };
        // Metadata are kept with the data they belong to.
        if at >= self.space.sectors * SECTOR_BYTES || bytes == 0 {
            return vec![];
        }
        let unit_bytes = self.space.unit_sectors * SECTOR_BYTES;
        let metadata_bytes = self.space.unit_sectors * METADATA_BYTES as u64;
        let (first, last) = (at / unit_bytes, (at + bytes - 1) / unit_bytes);
        (first..=last)
            .filter(|&unit| !before.has(unit))
            .flat_map(|unit| {
                let at = unit * unit_bytes;
                [(at, unit_bytes), (self.metadata_place(at), metadata_bytes)]
            })
            .collect()
    }

    /// Keeps what these places, pairs of data and metadata of units, hold.
    pub(crate) fn keep(&mut self, segments: &[Segment]) {
        let unit_bytes = self.space.unit_sectors * SECTOR_BYTES;
        for pair in segments.chunks_exact(2) {
            let mut bytes = vec![0; (pair[0].bytes + pair[1].bytes) as usize];
            let (data, metadata) = bytes.split_at_mut(pair[0].bytes as usize);
            self.store.read(pair[0].job, pair[0].at, data);
            self.store.read(pair[1].job, pair[1].at, metadata);
            if let Some(before) = &mut self.before {
                before.keep(pair[0].at / unit_bytes, bytes.into_boxed_slice());
            }
        }
    }

    /// A command begins whose success makes writes certain: to these runs of bytes of the
    /// store, each by its first byte and the byte behind its last.
    pub(crate) fn makes_certain(&mut self, index: u32, runs: &[(u64, u64)]) {
        let unit_bytes = self.space.unit_sectors * SECTOR_BYTES;
        let (Some(before), Some(command)) = (&mut self.before, self.commands.get_mut(index)) else {
            return;
        };
        let units =
            runs.iter().map(|&(at, end)| (at / unit_bytes, end.div_ceil(unit_bytes))).collect();
        command.certain = Some(Box::new(Certain { epoch: before.begin_epoch(), units }));
    }

    /// These runs have been erased, which a power cut does not undo.
    pub(crate) fn forget_erased(&mut self, extents: &[Extent]) {
        let unit_sectors = self.space.unit_sectors;
        if let Some(before) = &mut self.before {
            let unit = |at: u64| at / (unit_sectors * SECTOR_BYTES);
            let run = |it: &Extent| (unit(it.store), unit(it.store + it.sectors * SECTOR_BYTES));
            let (epoch, units) = (before.epoch, extents.iter().map(run).collect());
            before.forget(&Certain { epoch, units });
        }
    }

    /// The bytes of the store that belong to a pool: first, and behind the last.
    pub(crate) fn pool_bytes(&self, pool: mynah_model::io::NamespaceId) -> (u64, u64) {
        let start = self.pool_start(pool);
        let sectors = self.drive.namespace_sectors(pool).unwrap_or(0);
        (start * SECTOR_BYTES, (start + sectors) * SECTOR_BYTES)
    }

    /// The power has failed.
    pub(crate) fn power_lost(&mut self) {
        let lost = self.drive.take_lost_units();
        let unit_bytes = self.space.unit_sectors * SECTOR_BYTES;
        for (pool, unit) in lost {
            let first = self.pool_start(pool) * SECTOR_BYTES / unit_bytes;
            self.bring_back(first + unit);
        }
        if let Some(before) = &mut self.before {
            before.forget_all();
        }
        let queues: Vec<u32> = self.queues.iter().map(|(index, _)| index).collect();
        for queue in queues {
            if let Some(slot) = self.queues.get_mut(queue) {
                slot.modelled = false;
            }
            self.close(queue, "the drive has lost its power");
        }
        self.own_queue = false;
        for id in 0..self.controllers.len() as u16 {
            // A function's controller stays, and has failed until it is reset.
            match &self.controllers[usize::from(id)] {
                Some(controller) if controller.is_guests() => {
                    self.disable_guest(id);
                    self.fail_guest(id);
                }
                _ => {
                    if let Some(controller) = self.controllers[usize::from(id)].take() {
                        self.restore_arbitration(&controller.features);
                    }
                }
            }
        }
        self.drop_commands();
        self.restart_tasks();
        for namespace in self.namespaces.iter_mut().flatten() {
            namespace.power_cycled();
        }
        self.health.power_cycles += 1;
        self.health.unsafe_shutdowns += u64::from(!self.health.is_shut_down);
    }

    fn pool_start(&self, pool: mynah_model::io::NamespaceId) -> u64 {
        let before = (1..pool.0).map(mynah_model::io::NamespaceId);
        before.filter_map(|id| self.drive.namespace_sectors(id)).sum()
    }

    fn bring_back(&mut self, unit: u64) {
        let unit_bytes = self.space.unit_sectors * SECTOR_BYTES;
        let Some(before) = &mut self.before else { return };
        let Some(bytes) = before.units.remove(&unit).and_then(|mut kept| kept.pop_front()) else {
            return;
        };
        let (data, metadata) = bytes.1.split_at(unit_bytes as usize);
        let at = unit * unit_bytes;
        let place = self.metadata_place(at);
        // Nobody waits for these writes; the jobs they may become are of no command.
        let _ = self.store.write(at, data);
        let _ = self.store.write(place, metadata);
    }

    /// The model has forgotten every command: so do we, but for jobs of the store.
    fn drop_commands(&mut self) {
        self.awaited.clear();
        let mut jobs: HashMap<u32, u32> = HashMap::new();
        for index in self.jobs.values() {
            *jobs.entry(*index).or_default() += 1;
        }
        let all: Vec<u32> = self.commands.iter().map(|(index, _)| index).collect();
        for index in all {
            let Some(command) = self.commands.get_mut(index) else { continue };
            command.queue = NONE;
            command.status = Status::ABORTED_POWER_LOSS;
            command.overtaken = true;
            command.steps.clear();
            command.waiting = jobs.get(&index).copied().unwrap_or(0);
            if command.waiting == 0 {
                if matches!(command.work, Work::Media | Work::Fused(_)) {
                    command.work = Work::None;
                }
                self.blocks_ready(index);
            }
        }
        self.deferred.clear();
        self.trims.forget();
    }
}
