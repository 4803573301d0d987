//! Injected faults: media errors, slow and dead dies, power cuts.

use crate::config::{Config, Fault, FaultExtent, MediaOperation};
use crate::drive::Drive;
use crate::kernel::event::Event;
use crate::number::{Die, Lpn};
use mynah_stamp::{Span, Time};
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

#[derive(Clone)]
pub(crate) struct Faults {
    media: Vec<(MediaOperation, Extent)>,
    pub(crate) any_reads: bool,
    pub(crate) any_programs: bool,
    pub(crate) any_erases: bool,
    random: Xoshiro256PlusPlus,
}

/// How many numbers of 64 bits there are.
const DRAWS: f64 = 18_446_744_073_709_551_616.0;

#[derive(Clone)]
enum Extent {
    /// An operation fails if a random 64-bit number is below this.
    Below(u64),
    /// First and last logical unit, numbered over the whole drive.
    Units(Lpn, Lpn),
}

impl Faults {
    /// Begins random numbers anew, from `seed` or from one that is drawn; which.
    pub(crate) fn reseed(&mut self, seed: Option<u64>) -> u64 {
        let seed = seed.unwrap_or_else(|| self.random.next_u64());
        self.random = crate::kernel::bytes::generator(seed);
        seed
    }

    /// Takes the faults of `config` in place of those that there were.
    pub(crate) fn renew(&mut self, config: &Config) {
        *self = Faults::new(config, self.random.clone());
    }

    pub(crate) fn new(config: &Config, random: Xoshiro256PlusPlus) -> Faults {
        let bases = crate::validate::namespace_bases(config);
        let media: Vec<_> = config
            .faults
            .iter()
            .filter_map(|fault| match *fault {
                Fault::Media { operation, extent: FaultExtent::Rate(rate) } => {
                    // Rates of 1 and above: always.
                    Some((operation, Extent::Below((rate * DRAWS) as u64)))
                }
                Fault::Media {
                    operation,
                    extent: FaultExtent::Units { namespace, first, last },
                } => {
                    let base = *bases.get(namespace as usize - 1)?;
                    Some((operation, Extent::Units(base + first as u32, base + last as u32)))
                }
                _ => None,
            })
            .collect();
        let any = |which| media.iter().any(|(operation, _)| *operation == which);
        Faults {
            any_reads: any(MediaOperation::Read),
            any_programs: any(MediaOperation::Program),
            any_erases: any(MediaOperation::Erase),
            media,
            random,
        }
    }

    /// Whether an operation fails. `touches(first, last)` says whether it concerns one of
    /// these logical units.
    pub(crate) fn strikes(
        &mut self,
        operation: MediaOperation,
        touches: impl Fn(Lpn, Lpn) -> bool,
    ) -> bool {
        let mut strikes = false;
        for (which, extent) in &self.media {
            if *which == operation {
                strikes |= match extent {
                    Extent::Below(bound) => self.random.next_u64() < *bound,
                    Extent::Units(first, last) => touches(*first, *last),
                };
            }
        }
        strikes
    }
}

/// What outlives a stop, beside what is on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Keep {
    /// Nothing: the power has failed.
    Flash,
    /// What is dirty in the cache: the power has failed, and the cache is protected.
    WriteCache,
    /// Everything in DRAM.
    Everything,
}

impl Drive {
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
        self.ftl.forget_heat();
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
        let (kept, lost) = self.cache_at_stop(keep);
        lost.into_iter().for_each(|(unit, created)| self.lose(unit, created));
        self.kernel.events.clear();
        self.flash.clear_works();
        self.ftl.forget_units();
        self.host.stop(now);
        self.refill_cache(kept, keep);
        self.flash.stop(&mut self.kernel);
        self.stop_collections(keep);
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
        for plane in self.shape.all_planes() {
            self.resume_collection(plane);
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
