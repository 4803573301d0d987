//! Injected faults: media errors, slow and dead dies, power cuts.

use crate::config::{Config, Fault, FaultExtent, MediaOperation};
use crate::drive::Drive;
use crate::flash::queues::{CLASS_COLLECTION, CLASSES};
use crate::flash::scheduler::Dropped;
use crate::flash::work::UNSET;
use crate::ftl::heat::HotQueues;
use crate::ftl::mapping::table::Content;
use crate::ftl::unit::{UnitState, WriteUnit};
use crate::kernel::event::Event;
use crate::kernel::pool::{Linked, NONE};
use hashbrown::HashMap;
use mynah_stamp::{Span, Time};
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

pub(crate) struct Faults {
    media: Vec<(MediaOperation, Extent)>,
    pub(crate) any_reads: bool,
    pub(crate) any_programs: bool,
    pub(crate) any_erases: bool,
    random: Xoshiro256PlusPlus,
}

/// How many numbers of 64 bits there are.
const DRAWS: f64 = 18_446_744_073_709_551_616.0;

enum Extent {
    /// An operation fails if a random 64-bit number is below this.
    Below(u64),
    /// First and last logical unit, numbered over the whole drive.
    Units(u32, u32),
}

impl Faults {
    /// Begins random numbers anew, from `seed` or from one that is drawn; which.
    pub(crate) fn reseed(&mut self, seed: Option<u64>) -> u64 {
        let seed = seed.unwrap_or_else(|| self.random.next_u64());
        self.random = crate::state::generator(seed);
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
        touches: impl Fn(u32, u32) -> bool,
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
                Fault::SlowDie { die, factor } => self.flash.slow_down(die, factor),
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
        !self.host.powered
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn fault(&mut self, index: u32) {
        match self.config.faults[index as usize] {
            Fault::DeadDie { die, .. } => self.kill_die(die),
            Fault::PowerCut { recovery, .. } => self.power_cut(recovery),
            Fault::Media { .. } | Fault::SlowDie { .. } => {}
        }
    }

    /// A die fails: what waits for it fails now, what it does now still ends.
    fn kill_die(&mut self, die: u32) {
        self.flash.fail_die(die);
        let first = die * self.shape.planes_per_die;
        for plane in first..first + self.shape.planes_per_die {
            self.fail_writes(plane);
            self.abandon_merge(plane);
            self.flash.drop_works(plane);
        }
        self.flash.forget_if_empty(die);
        self.collect_next_superblock();
    }

    /// Fails every program that waits in `plane`.
    pub(crate) fn fail_writes(&mut self, plane: u32) {
        for class in 0..CLASSES as u8 {
            if class != CLASS_COLLECTION || self.flash.is_dead(plane) {
                self.fail_writes_of(plane, class);
            }
        }
    }

    /// Fails every program of `class` that waits in `plane`.
    pub(crate) fn fail_writes_of(&mut self, plane: u32, class: u8) {
        while let Some(unit) = self.ftl.take_waiting(plane, class) {
            self.flash.program_taken(plane, class);
            self.ftl.units[unit].state = UnitState::Mapping;
            self.flash.drop_later(Dropped::Unplaced(unit));
        }
        self.flash.forget_if_idle(plane);
    }

    /// The power fails: everything that is not on flash is gone, and with it every
    /// outstanding command. After `recovery` the drive accepts commands again.
    pub(crate) fn power_cut(&mut self, recovery: Span) {
        let protected = self.cache.as_ref().is_some_and(|cache| cache.protected);
        self.stop(if protected { Keep::WriteCache } else { Keep::Flash });
        if let Some(hotness) = &mut self.ftl.hotness {
            hotness.clear();
        }
        self.host.powered = false;
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
                self.undo_program(operation.items[at], operation.slots[at], keep);
            }
        }
        // Data that was only in DRAM is lost, if nothing protects it; data that was being
        // programmed has been dealt with.
        let mut kept = vec![];
        let mut lost = vec![];
        if let Some(cache) = &self.cache {
            // Least recently written first; before them what was on its way.
            let age: HashMap<u32, usize> =
                self.cached_by_age().enumerate().map(|(age, at)| (at, age + 1)).collect();
            for (unit, at) in cache.contents() {
                let u = &self.ftl.units[at];
                if keep >= Keep::WriteCache && !u.trimmed {
                    let unit = WriteUnit {
                        cached: true,
                        part: u.part,
                        mask: u.mask,
                        written: u.written,
                        ..WriteUnit::new(u.content, u.class, u.holder, u.created)
                    };
                    kept.push((age.get(&at).copied(), unit));
                } else if !u.trimmed && (u.state != UnitState::Programming || u.rewritten) {
                    lost.push((unit, u.created));
                }
            }
        }
        lost.into_iter().for_each(|(unit, created)| self.lose(unit, created));
        self.host.outputs.clear();
        self.kernel.events.clear();
        self.host.interface.power_cut();
        self.host.commands.clear();
        self.flash.clear_works();
        self.ftl.units.clear();
        self.host.pieces_out.clear();
        self.host.awaiting_data.clear();
        self.ftl.write_pressure = false;
        self.ftl.full_pages.clear();
        self.host.link.clear(now);
        for core in &mut self.host.cores {
            core.clear(now);
        }
        let clean = match (&self.cache, keep) {
            (Some(cache), Keep::Everything) => cache.clean_contents(),
            _ => vec![],
        };
        if let Some(cache) = &mut self.cache {
            cache.power_cut(now);
        }
        kept.sort_by_key(|(age, _)| *age);
        for (_, unit) in kept {
            self.keep_unit(unit);
        }
        if let Some(cache) = &mut self.cache {
            clean.into_iter().for_each(|(part, unit, mask)| {
                cache.fill(unit, mask, part);
            });
        }
        match keep {
            Keep::Everything => self.ftl.mapping.stop(),
            Keep::Flash | Keep::WriteCache => self.ftl.mapping.power_cut(),
        }
        self.flash.stop(&mut self.kernel);
        for plane in 0..self.shape.planes {
            let state = &mut self.ftl.planes[plane as usize];
            let read_only = state.read_only;
            let stopped = std::mem::take(state).collection;
            self.ftl.planes[plane as usize].read_only = read_only;
            match keep {
                // Its collection goes on with the same block.
                Keep::Everything => {
                    let victim = stopped.victim;
                    let block = |slot| self.shape.block_of_slot(slot);
                    let slot = |unit| self.ftl.mapping.table.slot(unit);
                    let has_left = |unit| slot(unit).is_none_or(|slot| block(slot) != victim);
                    let stopped = stopped.stop(has_left);
                    self.ftl.planes[plane as usize].collection = stopped;
                }
                Keep::Flash | Keep::WriteCache => {
                    if let Some(levelling) = self.ftl.blocks.levelling.get_mut(plane as usize) {
                        *levelling = false;
                    }
                    if !stopped.is_over() {
                        // What had not been moved is still there; a begun erase is repeated.
                        self.ftl.blocks.put_back(stopped.victim);
                    }
                }
            }
            self.power_cut_in_pool(plane);
        }
        self.ftl.hot_queues.fill(HotQueues::default());
    }

    /// The drive accepts commands again, and goes on with the collections it had begun.
    #[cold]
    #[inline(never)]
    pub(crate) fn power_restored(&mut self) {
        self.host.powered = true;
        self.resume_work();
    }

    /// Begins again what [`Drive::stop`] has dropped of the drive's own work.
    pub(crate) fn resume_work(&mut self) {
        for plane in 0..self.shape.planes {
            self.resume_collection(plane);
            self.collect_if_needed(plane);
            self.merge_if_needed(plane);
        }
        // What the cache has kept goes on as it would have.
        self.evict_surplus();
    }

    /// The latest data of a unit are gone, which a command brought when this says.
    pub(crate) fn lose(&mut self, unit: u32, created: Time) {
        self.kernel.observe.counters.units_lost += 1;
        self.kernel.observe.counters.units_lost_written += u64::from(created != UNSET);
        self.ftl.lost_units.push(unit);
        // Whoever asks may never come, and a unit may be lost again and again.
        if self.ftl.lost_units.len() > 2 * self.ftl.mapping.table.units() as usize {
            self.ftl.lost_units.sort_unstable();
            self.ftl.lost_units.dedup();
        }
    }

    /// Units that stay in the cache, least recently written of each part first.
    fn cached_by_age(&self) -> impl Iterator<Item = u32> {
        let parts = self.cache.iter().flat_map(|cache| &cache.parts);
        parts
            .flat_map(|part| part.resting.oldest_first(self.ftl.units.as_slice()).map(|(at, _)| at))
    }

    /// Puts data that a power cut has not taken back into the cache.
    fn keep_unit(&mut self, unit: WriteUnit) {
        let (holder, part, content) = (unit.holder, usize::from(unit.part), unit.content);
        let at = self.ftl.units.insert(unit);
        let (Some(cache), Content::Unit(of)) = (&mut self.cache, content) else { return };
        self.ftl.units[at].epoch = cache.dirtied();
        cache.add(of, at, holder, part);
        self.link_newest_cached(at);
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

    /// The pages of a program that never finished hold nothing. What was rewritten in the cache
    /// meanwhile has later data, which are dealt with there.
    fn undo_program(&mut self, first: u32, slot: u32, keep: Keep) {
        let (mut at, mut used) = (first, 0);
        while at != NONE {
            let u = &self.ftl.units[at];
            let place;
            (place, used) = self.ftl.place_in_program(u.content, used);
            let place = slot + place;
            let (content, before, next) = (u.content, u.before.checked_sub(1), u.next());
            let weight = match content {
                Content::Unit(_) => 1,
                Content::TranslationPage(_) => self.shape.units_per_page,
            };
            if self.config.flash.rewritable {
                self.undo_overwrite(at, content, place, before, keep);
            } else if self.ftl.mapping.table.content(place) == Some(content) {
                self.ftl.blocks.remove_valid(self.shape.block_of_slot(place), weight);
                // The old copy counts unless its block has been erased or used again.
                let old = before.filter(|&old| {
                    self.ftl.mapping.table.written(old) == Some(content)
                        && !self.ftl.blocks.is_free(self.shape.block_of_slot(old))
                });
                self.ftl.mapping.table.restore(content, old);
                if let Some(old) = old {
                    self.ftl.blocks.add_valid(self.shape.block_of_slot(old), weight);
                }
                if let Content::Unit(unit) = content
                    && self.ftl.units[at].from == NONE
                    && !self.ftl.units[at].rewritten
                    && !self.is_kept(at, keep)
                {
                    self.lose(unit, self.ftl.units[at].created);
                }
            }
            if !self.config.flash.rewritable {
                self.ftl.mapping.table.clear_slot(place);
            }
            if let Some(hybrid) = &mut self.ftl.hybrid {
                hybrid.spoil(self.shape.block_of_slot(place));
            }
            at = next;
        }
    }

    /// What was being overwritten in place is neither old nor new.
    fn undo_overwrite(
        &mut self,
        at: u32,
        content: Content,
        place: u32,
        before: Option<u32>,
        keep: Keep,
    ) {
        if let Content::Unit(unit) = content {
            if before.is_none() && self.ftl.mapping.table.unmap(unit).is_some() {
                self.ftl.blocks.remove_valid(self.shape.block_of_slot(place), 1);
            }
            if !self.ftl.units[at].rewritten && !self.is_kept(at, keep) {
                self.lose(unit, self.ftl.units[at].created);
            }
        }
    }

    /// Whether a unit is in the cache, and that is kept.
    fn is_kept(&self, at: u32, keep: Keep) -> bool {
        self.ftl.units[at].cached && keep >= Keep::WriteCache
    }
}
