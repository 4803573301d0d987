//! The target's layers: what they cost, and who does the work.

use crate::config::{Cost, Layer, Target, TargetLayer};
use crate::kernel::fifo::{Booking, Fifo};
use crate::observe::blame::HolderIndex;
use mynah_stamp::{Span, Time};
use serde::{Deserialize, Serialize};

/// Sizes that a table is looked up for beforehand: whole sectors.
const SECTOR_BYTES: u32 = 512;

/// Processing times of a layer for one direction.
#[derive(Serialize, Deserialize)]
enum Times {
    Affine(Span, Span),
    /// By sectors; beyond the end the last.
    Sectors(Vec<Span>),
}

impl Times {
    fn new(cost: &Cost) -> Times {
        match cost {
            &Cost::Affine { fixed, per_byte } => Times::Affine(fixed, per_byte),
            Cost::Table(table) => {
                let most = table.last().map_or(0, |&(bytes, _)| bytes / SECTOR_BYTES);
                Times::Sectors((0..=most).map(|n| cost.of(n * SECTOR_BYTES)).collect())
            }
        }
    }

    #[inline]
    fn of(&self, sectors: u32) -> Span {
        match self {
            Times::Affine(fixed, per_byte) => {
                *fixed + per_byte.times(u64::from(sectors) * u64::from(SECTOR_BYTES))
            }
            Times::Sectors(times) => {
                let at = (sectors as usize).min(times.len().saturating_sub(1));
                times.get(at).copied().unwrap_or_default()
            }
        }
    }
}

/// A layer that the target has.
#[derive(Serialize, Deserialize)]
struct ActiveLayer {
    layer: TargetLayer,
    input: Times,
    output: Times,
}

/// Layers that are done in one go.
#[derive(Serialize, Deserialize)]
pub(super) struct Group {
    layers: Vec<ActiveLayer>,
    pool: usize,
}

/// Who does the work: the first that is free.
#[derive(Serialize, Deserialize)]
pub(super) struct Pool {
    engines: Vec<Fifo>,
}

impl Pool {
    fn new(engines: u32) -> Pool {
        Pool { engines: (0..engines).map(|_| Fifo::default()).collect() }
    }

    fn book(
        &mut self,
        now: Time,
        length: Span,
        holder: HolderIndex,
        waits: impl FnMut(HolderIndex, Span),
    ) -> Booking {
        // Of those that are free, it does not matter which.
        let free = self.engines.iter().position(|engine| engine.free_at() <= now);
        let engine = match free {
            Some(free) => &mut self.engines[free],
            None => self.engines.iter_mut().min_by_key(|it| it.free_at()).expect("an engine"),
        };
        engine.book(now, length, holder, waits)
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Layers {
    groups: Vec<Group>,
    pools: Vec<Pool>,
}

impl Layers {
    pub(super) fn new(target: &Target) -> Layers {
        let (mut groups, mut pools) = (Vec::<Group>::new(), Vec::new());
        let mut cores = None;
        for (layer, config) in TargetLayer::ALL.into_iter().zip(&target.layers) {
            let Some(config) = config else { continue };
            let active = |config: &Layer| ActiveLayer {
                layer,
                input: Times::new(&config.input),
                output: Times::new(&config.output),
            };
            if config.merged
                && let Some(group) = groups.last_mut()
            {
                group.layers.push(active(config));
                continue;
            }
            let mut add = |engines| {
                pools.push(Pool::new(engines));
                pools.len() - 1
            };
            let pool = match (config.engines, target.cores) {
                (None, Some(count)) => *cores.get_or_insert_with(|| add(count)),
                (engines, _) => add(engines.unwrap_or(1)),
            };
            groups.push(Group { layers: vec![active(config)], pool });
        }
        Layers { groups, pools }
    }

    /// The first layer of each group, and whether the group costs anything inwards and outwards.
    pub(super) fn groups(&self) -> impl Iterator<Item = (TargetLayer, [bool; 2])> + '_ {
        self.groups.iter().map(|group| {
            let costs = |outward: bool| group.layers.iter().any(|it| it.costs(outward));
            (group.layers[0].layer, [false, true].map(costs))
        })
    }

    /// Does the layers of a group for a command.
    pub(super) fn book(
        &mut self,
        now: Time,
        group: u8,
        outward: bool,
        sectors: u32,
        holder: HolderIndex,
        waits: impl FnMut(HolderIndex, Span),
    ) -> Booking {
        let group = &self.groups[usize::from(group)];
        let length = group.layers.iter().map(|it| it.time(outward, sectors)).sum();
        self.pools[group.pool].book(now, length, holder, waits)
    }

    /// What the layers of a group take, each by itself.
    pub(super) fn times(
        &self,
        group: u8,
        outward: bool,
        sectors: u32,
    ) -> impl Iterator<Item = (TargetLayer, Span)> + '_ {
        let layers = self.groups[usize::from(group)].layers.iter();
        layers.map(move |it| (it.layer, it.time(outward, sectors)))
    }

    fn engines(&self) -> impl Iterator<Item = &Fifo> {
        self.pools.iter().flat_map(|pool| &pool.engines)
    }

    fn engines_mut(&mut self) -> impl Iterator<Item = &mut Fifo> {
        self.pools.iter_mut().flat_map(|pool| &mut pool.engines)
    }

    pub(super) fn is_at_rest(&self, now: Time) -> bool {
        self.engines().all(|engine| engine.free_at() <= now)
    }

    pub(super) fn grow(&mut self, holders: usize) {
        self.engines_mut().for_each(|engine| engine.grow(holders));
    }

    pub(super) fn clear(&mut self, now: Time) {
        self.engines_mut().for_each(|engine| engine.clear(now));
    }
}

impl ActiveLayer {
    fn costs(&self, outward: bool) -> bool {
        let times = if outward { &self.output } else { &self.input };
        match times {
            Times::Affine(fixed, per_byte) => !(*fixed + *per_byte).is_zero(),
            Times::Sectors(times) => times.iter().any(|time| !time.is_zero()),
        }
    }

    #[inline]
    fn time(&self, outward: bool, sectors: u32) -> Span {
        if outward { self.output.of(sectors) } else { self.input.of(sectors) }
    }
}
