//! The section `[gc]`: garbage collection.

use super::declare::{Need, section};
use super::needs::{COLLECTS, ERASED, is_hybrid, is_page_mapped, preemptible};
use super::placement::is_asked;
use super::value::quoted;
use super::{CollectionUnitName, File, FrontiersName, SPARE, VictimName};
use crate::at::{At, Maybe};
use crate::check::{Check, or};
use crate::units::{Duration, Fraction};
use mynah_model::config::{self, HotData, VictimPolicy, WriteFrontiers, thresholds};
use std::ops::Range;

/// When collection starts without a pace.
pub(crate) const UNPACED_START: Fraction = Fraction(0.05);

fn victim(file: &File) -> Option<Range<usize>> {
    file.gc.victim.as_ref().map(At::span)
}

static D_CHOICES: Need = Need {
    holds: |config| matches!(config.gc.victim, VictimPolicy::DChoices { .. }),
    cause: victim,
    why: "the victim policy is another",
    help: "use it with `victim = \"d-choices\"`",
};

static RANDOM_P: Need = Need {
    holds: |config| matches!(config.gc.victim, VictimPolicy::RandomP { .. }),
    cause: victim,
    why: "the victim policy is another",
    help: "use it with `victim = \"random-p\"`",
};

static HOT_COLD: Need = Need {
    holds: |config| matches!(config.gc.frontiers, WriteFrontiers::HotCold(_)),
    cause: |file| file.gc.write_frontiers.as_ref().map(At::span),
    why: "hot and cold data are not told apart",
    help: "use it with `write_frontiers = \"hot-cold\"`",
};

static IDLE: Need = Need {
    holds: |config| config.gc.idle_after.is_some(),
    cause: |_| None,
    why: "there is no idle collection",
    help: "add `gc.idle_after`, for example \"10ms\"",
};

section! {
    /// Garbage collection.
    #[derive(Default)]
    Gc => config::Gc {
        /// Which block is collected.
        victim: Maybe<VictimName> = "greedy", when COLLECTS | ERASED,
            writes |gc, _| Some(quoted(victim_name(gc.victim)));
        /// With `victim = "d-choices"`: blocks drawn. Default: 10.
        d: Maybe<u32>, when COLLECTS | ERASED | D_CHOICES, shows |gc, _| match gc.victim {
            VictimPolicy::DChoices { d } => Some(d),
            _ => None,
        };
        /// With `victim = "random-p"`: pages' worth of invalid data that a victim has at least.
        invalid_pages: Maybe<u32> = "1", when COLLECTS | ERASED | RANDOM_P,
            shows |gc, _| match gc.victim {
                VictimPolicy::RandomP { pages } => Some(pages),
                _ => None,
            };
        // Not shown where it is the default, as drives described before it was there have it.
        /// What is collected at a time; with `[placement]` a superblock.
        unit: Maybe<CollectionUnitName> = "block", when COLLECTS | ERASED,
            shows |gc, _| (gc.unit != config::CollectionUnit::Block).then_some(gc.unit);
        /// Collection starts when fewer than this share of a plane's blocks are free. Default: with
        /// `paced` 1%, or twice `urgent`, or three blocks more than `reserve_blocks`, whichever is
        /// most, but at most half of `over_provisioning`; without it 5%.
        start: Maybe<Fraction>, when COLLECTS | ERASED, shows |gc, _| Some(gc.start);
        /// Collection takes precedence over host I/O below this share (the hard threshold of
        /// preemptible collection). Default: 0.5%.
        urgent: Maybe<Fraction>, when COLLECTS | ERASED, shows |gc, _| Some(gc.urgent);
        /// Whether host I/O may go between the page moves of a collection that is not urgent; if
        /// not, a die that has begun to collect a block does nothing else until it is erased.
        preemptible: Maybe<bool> = "true", when ERASED, is preemptible;
        /// Whether pages that are valid as a whole are moved within their plane without crossing
        /// the channel.
        copyback: Maybe<bool> = "false", when ERASED,
            shows |gc, config| (gc.copyback || is_page_mapped(config)).then_some(gc.copyback);
        /// Whether page moves go before host writes in proportion to them, so that a block is won
        /// back when the host has filled as many pages as it yields. Default: true, if collection is
        /// preemptible and starts at least two blocks before it is urgent.
        paced: Maybe<bool>, when COLLECTS | ERASED, shows |gc, _| Some(gc.paced);
        // Not shown where it is the default, as drives described before it was there have it.
        /// The share of a victim that is invalid at least, unless collection is urgent: firmware that
        /// collects in the background leaves alone what would win it little.
        least_invalid: Maybe<Fraction> = "0%", when COLLECTS | ERASED,
            shows |gc, _| (gc.least_invalid > 0.0).then_some(gc.least_invalid);
        /// Free blocks of each plane that only collection may use.
        reserve_blocks: Maybe<u32> = "2", in "1", when COLLECTS | ERASED, is reserve_blocks;
        /// What fills the same blocks.
        write_frontiers: Maybe<FrontiersName> = "separate", when COLLECTS | ERASED,
            writes |gc, _| Some(quoted(match gc.frontiers {
                WriteFrontiers::One => FrontiersName::One,
                WriteFrontiers::Separate => FrontiersName::Separate,
                WriteFrontiers::HotCold(_) => FrontiersName::HotCold,
            }));
        /// With `write_frontiers = "hot-cold"`: what is hot.
        hot: Maybe<Hot>, when COLLECTS | ERASED | HOT_COLD, inner |gc, _| match &gc.frontiers {
            WriteFrontiers::HotCold(hot) => Some(hot),
            _ => None,
        };
        /// Collect when a plane's die has been idle this long. Default: never.
        idle_after: Maybe<Duration>, when COLLECTS | ERASED, is idle_after;
        /// With `idle_after`: the share of free blocks that idle collection aims for.
        /// Default: `start`.
        idle_target: Maybe<Fraction>, when COLLECTS | ERASED | IDLE,
            shows |gc, _| Some(gc.idle_target);
    }
}

section! {
    /// Which data are hot: those that were written often lately. Each write of a mapping unit to
    /// flash counts in counters of 4 bits, which are halved one after the other.
    #[derive(Default)]
    #[schemars(rename = "HotData")]
    Hot => HotData {
        /// Counters; two take a byte. With fewer than mapping units, each unit has two of them,
        /// which it shares with others. Default: one for each mapping unit.
        counters: Maybe<u32>, in "16", is counters;
        /// Writes of mapping units to flash in which every counter is halved once; at least one for
        /// each 16 counters. Default: as many as counters.
        decay: Maybe<u32>, in "1", is decay;
        /// The count from which on a unit is hot.
        threshold: Maybe<u32> = "4", in "1" to "15", is threshold;
    }
    with |hot, check, _file| {}
}

fn victim_name(victim: VictimPolicy) -> VictimName {
    match victim {
        VictimPolicy::Greedy => VictimName::Greedy,
        VictimPolicy::DChoices { .. } => VictimName::DChoices,
        VictimPolicy::Random => VictimName::Random,
        VictimPolicy::RandomP { .. } => VictimName::RandomP,
        VictimPolicy::RandomPlusPlus => VictimName::RandomPlusPlus,
        VictimPolicy::Fifo => VictimName::Fifo,
        VictimPolicy::CostBenefit => VictimName::CostBenefit,
    }
}

/// At how many free blocks collection starts and is urgent, and whether it keeps pace with writes
/// in between.
struct Thresholds {
    start: Fraction,
    urgent: Fraction,
    paced: bool,
}

impl Thresholds {
    /// What `gc` says, and what it leaves out. `spare` is the over-provisioning of a drive whose
    /// collection can keep pace.
    ///
    /// Without a pace collection is left behind by the host until it is urgent, so that it hardly
    /// matters when it starts. Collection at a pace keeps as many blocks free as `start` says, and
    /// they are lost to the data that became invalid: with 5 % of 7 % WAF would be 24. So it
    /// starts late, but as much before it is urgent as it takes to keep the pace: two blocks, of
    /// which one is being won back while the host fills the other. Planes that have no such two
    /// blocks among their spare ones collect without a pace.
    fn of(
        gc: &Gc,
        geometry: &config::Geometry,
        reserve_blocks: u32,
        spare: Option<Fraction>,
    ) -> Thresholds {
        let blocks = geometry.blocks_per_plane;
        let urgent_at = |start: Fraction| or(&gc.urgent, Fraction(start.0.min(0.005)));
        let unpaced = || {
            let start = or(&gc.start, UNPACED_START);
            Thresholds { start, urgent: urgent_at(start), paced: false }
        };
        let Some(spare) = spare else { return unpaced() };
        let late = || {
            let two_more = u64::from(reserve_blocks) + 3;
            // In hundredths of a percent, which is short in print.
            let two_more = (two_more * 10_000).div_ceil(u64::from(blocks)) as f64 / 10_000.0;
            let twice = 2.0 * gc.urgent.as_ref().map_or(0.0, |at| at.get().0);
            Fraction(two_more.max(twice).max(0.01).min(spare.0 / 2.0))
        };
        let start = or(&gc.start, late());
        let paced = Thresholds { start, urgent: urgent_at(start), paced: true };
        match gc.paced.as_ref().map(At::get) {
            Some(false) => unpaced(),
            _ if paced.blocks_between(blocks, reserve_blocks) >= 2 => paced,
            Some(true) => Thresholds { paced: true, ..unpaced() },
            None => unpaced(),
        }
    }

    /// By how many blocks collection starts before it is urgent.
    fn blocks_between(&self, blocks_per_plane: u32, reserve_blocks: u32) -> u32 {
        let (start, urgent) =
            thresholds(self.start.0, self.urgent.0, reserve_blocks, blocks_per_plane);
        start.saturating_sub(urgent)
    }
}

impl Gc {
    pub(crate) fn lower(
        &self,
        check: &mut Check<'_>,
        file: &File,
        geometry: &config::Geometry,
    ) -> config::Gc {
        // Only flash that is mapped by the page is collected, and only that can keep pace.
        let erased = !or(&file.flash.get().rewritable, false);
        let spare = (erased && !is_hybrid(file)).then(|| or(&file.over_provisioning, SPARE));
        let is_preemptible: bool = self.preemptible(check);
        if let Some(paced) = self.paced.as_ref().filter(|paced| *paced.get() && !is_preemptible) {
            check.without_effect(
                paced.span(),
                preemptible(file),
                "`gc.paced` has no effect: a collection is not interrupted once it has begun",
                "use it with `preemptible = true`",
            );
        }
        let reserve_blocks = self.reserve_blocks(check);
        let spare = spare.filter(|_| is_preemptible);
        let Thresholds { start, urgent, paced } =
            Thresholds::of(self, geometry, reserve_blocks, spare);
        self.check_thresholds(check, start, urgent);
        config::Gc {
            victim: self.victim_policy(check, geometry),
            unit: match self.unit.is_none() && is_asked(file) {
                true => config::CollectionUnit::Superblock,
                false => self.unit(check),
            },
            start: start.0,
            urgent: urgent.0,
            preemptible: is_preemptible,
            copyback: self.copyback(check),
            paced,
            least_invalid: self.least_invalid(check),
            reserve_blocks,
            frontiers: match self.write_frontiers(check) {
                FrontiersName::One => WriteFrontiers::One,
                FrontiersName::Separate => WriteFrontiers::Separate,
                FrontiersName::HotCold => {
                    let hot = self.hot.as_ref().map(|at| at.get().clone()).unwrap_or_default();
                    WriteFrontiers::HotCold(hot.lower(check, file))
                }
            },
            idle_after: self.idle_after(check),
            idle_target: or(&self.idle_target, start).0,
        }
    }

    fn victim_policy(&self, check: &mut Check<'_>, geometry: &config::Geometry) -> VictimPolicy {
        match self.victim(check) {
            VictimName::Greedy => VictimPolicy::Greedy,
            VictimName::DChoices => {
                let blocks = geometry.blocks_per_plane;
                let d = self.d.as_ref().map_or(10.min(blocks), |at| check.count(at, 1..=blocks));
                VictimPolicy::DChoices { d }
            }
            VictimName::Random => VictimPolicy::Random,
            VictimName::RandomP => {
                if let Some(at) = &self.invalid_pages {
                    check.count(at, 1..=geometry.pages_per_block);
                }
                VictimPolicy::RandomP { pages: self.invalid_pages(check) }
            }
            VictimName::RandomPlusPlus => VictimPolicy::RandomPlusPlus,
            VictimName::Fifo => VictimPolicy::Fifo,
            VictimName::CostBenefit => VictimPolicy::CostBenefit,
        }
    }

    /// Collection starts and becomes urgent at shares of free blocks that can be.
    fn check_thresholds(&self, check: &mut Check<'_>, start: Fraction, urgent: Fraction) {
        if let Some(at) = self.start.as_ref().filter(|at| at.get().0 <= 0.0 || at.get().0 >= 1.0) {
            let message = format!("`gc.start` must be between 0% and 100%, not {start}");
            check.wrong(message, at, "out of range", None);
        }
        if let Some(at) = self.urgent.as_ref().filter(|_| urgent.0 > start.0) {
            check.wrong(
                format!("`gc.urgent` ({urgent}) is above `gc.start` ({start})"),
                at,
                "collection must start before it is urgent",
                Some(format!("at most {start}")),
            );
        }
        let is_target = |target: f64| (start.0..1.0).contains(&target);
        if let Some(target) = self.idle_target.as_ref().filter(|at| !is_target(at.get().0)) {
            let message = format!(
                "`gc.idle_target` must be from `gc.start` ({start}) to below 100%, not {}",
                target.get()
            );
            check.wrong(message, target, "out of range", None);
        }
    }
}
