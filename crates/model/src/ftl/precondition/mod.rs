//! Preconditioning: puts the drive into the state that a stated history of writes would
//! leave, without simulating the writes.
//!
//! *Fill* lays the occupied units down once, in order. *Steady* computes, for one plane, how
//! many valid units each block holds when garbage collection has settled under the stated
//! writes ([`crate::steady`]), and gives every plane blocks like that: which unit is where
//! is drawn at random, open blocks are filled to a random degree, and the cached mapping
//! table holds recently used entries. All planes with the same kinds of data share one
//! computation. With hybrid mapping it is the log blocks that settle (`mapping/hybrid/settled.rs`).

mod chunks;
mod deal;
mod heat;
mod moment;
mod ordered;
mod shared;
mod slc;
mod written;

use crate::config::ConfigError;
use crate::config::{CollectionUnit, Placement, WriteFrontiers};
use crate::drive::{Drive, Policies};
use crate::ftl::blocks::{Frontier, Stream};
use crate::ftl::mapping::table::Content;
use crate::io::{NamespaceId, PlacementId};
use crate::number::{Block, Lpn, Mvpn, Plane, Ppn};
use crate::steady::analytic::MAX_UNITS_PER_BLOCK;
use crate::steady::ordered::{Kind, Ordered};
pub use crate::steady::pool::Order;
use crate::steady::pool::{
    BlockComposition, BlockRole, Class, HotShare, Pool, PoolError, PoolState,
};
use chunks::{chunk_of, enlarge, in_chunks, lay_chunks};
use deal::{Hands, Mapped};
use moment::Moment;
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};
pub use shared::{Prepared, PreparedSnapshot};
pub use written::Writer;

/// Most different kinds of data on one plane.
const CLASSES_MAX: usize = crate::steady::pool::MAX_CLASSES;

/// What is on a namespace and how it is rewritten.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Occupancy {
    /// Which namespace. In one of pairs, units are those that
    /// [`place_pairs`](crate::Drive::place_pairs) has counted.
    pub namespace: NamespaceId,
    /// Its occupied ranges; they must not overlap.
    pub classes: Vec<UpdateClass>,
}

/// A range of units that are alike in how often they are rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct UpdateClass {
    /// First unit, counted from the namespace's start.
    pub first: u64,
    /// Number of units, at least 1.
    pub units: u64,
    /// The share of all writes that goes to this range, relative to the others' weights, so that
    /// all its units are written equally often. 0: it was written once.
    pub weight: f64,
    /// In which order they are rewritten. A range that is rewritten from its first unit to its
    /// last has just been so, and the first is next.
    pub order: Order,
    /// The share of accesses to this range that are writes, 0 to 1: how much of what the
    /// cached mapping table holds of it differs from flash.
    pub write_share: f64,
    /// Whether it is written as fast as the drive takes it, so that garbage collection gets
    /// little time.
    pub saturated: bool,
    /// Units of it that are written in a second, if that is known beforehand; otherwise 0.
    pub units_per_s: f64,
    /// Units that are written together: so many with consecutive addresses, the first a multiple of
    /// their number. A power of two; 1: each by itself, or nobody knows.
    pub together: u32,
    /// Units that are trimmed for each that is written, at random: so many are not there at rest.
    pub trims_per_write: f64,
    /// Which data they belong with, on a drive with data placement.
    pub placement: PlacementId,
}

impl UpdateClass {
    /// A range that was written once.
    pub fn written_once(first: u64, units: u64) -> UpdateClass {
        UpdateClass {
            first,
            units,
            weight: 0.0,
            order: Order::UNIFORM,
            write_share: 0.0,
            saturated: false,
            units_per_s: 0.0,
            together: 1,
            trims_per_write: 0.0,
            placement: PlacementId::default(),
        }
    }

    /// How many of `units` of its units are there at rest: each is as the last write or trim of it
    /// has left it.
    fn mapped(&self, units: u64) -> u64 {
        match self.weight > 0.0 && self.trims_per_write > 0.0 {
            true => (units as f64 / (1.0 + self.trims_per_write)).round() as u64,
            false => units,
        }
    }
}

/// How often the units of a namespace are rewritten, where that follows no ranges.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// The class of each unit of the namespace.
    pub of_unit: Vec<u8>,
    /// The share of all writes that goes to each class, relative to one another; uniformly
    /// within it. At most as many as classes can be told apart.
    pub weights: Vec<f64>,
}

/// A class of units over the whole drive.
#[derive(Clone, Copy)]
pub(in crate::ftl) struct DriveClass {
    /// The first unit of its range.
    pub(in crate::ftl) first: Lpn,
    /// The range and how it is rewritten.
    pub(in crate::ftl) class: UpdateClass,
    /// Which units of the range, if not all.
    pub(in crate::ftl) heat: Option<u8>,
    /// What of it is taken for hot.
    pub(in crate::ftl) hot: HotShare,
}

/// Why a drive cannot be preconditioned.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PreconditionError {
    #[error("a drive can only be preconditioned before its first command")]
    Used,
    /// A range is not within its namespace, or overlaps another.
    #[error("namespace {namespace}: units {first} to {last}: {problem}")]
    Range { namespace: u32, first: u64, last: u64, problem: &'static str },
    /// A plane has more kinds of data than can be told apart.
    #[error("a plane has {0} kinds of data; at most {CLASSES_MAX} can be told apart")]
    Classes(usize),
    /// The steady state could not be computed.
    #[error("the steady state cannot be computed: {0}")]
    Steady(#[from] PoolError),
    /// Pairs are for namespaces of pairs.
    #[error("namespace {namespace} is not one of pairs")]
    NoPairs { namespace: u32 },
    /// There is no room for all pairs, or no place in the index.
    #[error("namespace {namespace} has room for {room} of these pairs")]
    Pair {
        namespace: u32,
        /// Pairs that fit.
        room: u64,
    },
    /// The drive itself is not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// What preconditioning found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Preconditioned {
    /// Units that hold data.
    pub units: u64,
    /// The write amplification expected under the stated writes; `None` for a fill.
    pub expected_waf: Option<f64>,
    /// Whether write amplification had settled when the search for the steady state ended; if not,
    /// it goes on changing as the drive is written.
    pub settled: bool,
}

/// What makes two planes' classes the same: their ranges, and which units of them.
type ClassKey = (Lpn, Lpn, Option<u8>);

/// A class as one plane sees it: its units are every `stride`-th group.
#[derive(Clone, Copy)]
pub(in crate::ftl) struct PlaneClass {
    /// First and end unit over the whole drive.
    pub(in crate::ftl) first: Lpn,
    pub(in crate::ftl) end: Lpn,
    pub(in crate::ftl) weight: f64,
    pub(in crate::ftl) order: Order,
    pub(in crate::ftl) saturated: bool,
    /// How often each of its units is written in a second, as far as known.
    pub(in crate::ftl) rewrites_per_s: f64,
    /// Which units of the range, if not all.
    pub(in crate::ftl) heat: Option<u8>,
    /// What of it is taken for hot.
    pub(in crate::ftl) hot: HotShare,
    /// Its number among those of the drive.
    pub(in crate::ftl) of_drive: usize,
    /// Units in one page that are written together.
    pub(in crate::ftl) together: u32,
    pub(in crate::ftl) trims_per_write: f64,
    pub(in crate::ftl) lies: Lies,
}

/// Where the units of a class lie, if they are not rewritten in order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::ftl) enum Lies {
    /// Anywhere in the plane that their address says.
    InPlane,
    /// On any plane: writes went to whichever was free.
    Anywhere,
    /// A page's worth of addresses in a page, as they were written once.
    InOrder,
}

impl<P: Policies> Drive<P> {
    /// Lays the occupied units down once, in order, without taking any time.
    ///
    /// # Errors
    /// See [`PreconditionError`].
    #[inline]
    pub fn fill(&mut self, occupancy: &[Occupancy]) -> Result<Preconditioned, PreconditionError> {
        P::fill(self, occupancy)
    }

    pub(crate) fn fill_here(
        &mut self,
        occupancy: &[Occupancy],
    ) -> Result<Preconditioned, PreconditionError> {
        let classes = self.begin_precondition(occupancy)?;
        Ok(self.lay_down_in_order(&classes))
    }

    /// The same for a drive that is then written ([`Drive::begin_writing`]), with tables that know
    /// what a long history of these writes leaves them.
    ///
    /// # Errors
    /// See [`PreconditionError`].
    #[inline]
    pub fn fill_to_be_written(
        &mut self,
        occupancy: &[Occupancy],
        heats: &[(NamespaceId, Heat)],
    ) -> Result<Preconditioned, PreconditionError> {
        P::fill_to_be_written(self, occupancy, heats)
    }

    pub(crate) fn fill_to_be_written_here(
        &mut self,
        occupancy: &[Occupancy],
        heats: &[(NamespaceId, Heat)],
    ) -> Result<Preconditioned, PreconditionError> {
        let ranges = self.begin_precondition(occupancy)?;
        let mut classes = self.drive_classes(ranges.clone(), heats)?;
        self.count_writes(&mut classes, heats);
        let filled = self.lay_down_in_order(&ranges);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.config.seed ^ 0x6669_6c6c);
        self.warm_tables(&classes, heats, 1.0, &mut random);
        Ok(filled)
    }

    fn lay_down_in_order(&mut self, classes: &[(Lpn, UpdateClass)]) -> Preconditioned {
        let mut units = 0;
        for (first, class) in classes {
            for lpn in first.run(class.units as u32) {
                let plane = self.ftl.plane_of(Content::Unit(lpn));
                self.lay_down_with(lpn, plane, class.placement);
                units += 1;
            }
        }
        self.restart_counters();
        Preconditioned { units, expected_waf: None, settled: true }
    }

    /// Puts the drive into the steady state of the stated writes, without taking any time.
    ///
    /// # Errors
    /// See [`PreconditionError`].
    pub fn precondition(
        &mut self,
        occupancy: &[Occupancy],
    ) -> Result<Preconditioned, PreconditionError> {
        self.precondition_with(occupancy, &[])
    }

    /// The same, where some namespaces' units are rewritten in no ranges: of those that have
    /// a heat, the classes of `occupancy` only say which ranges are occupied, and how.
    ///
    /// # Errors
    /// See [`PreconditionError`].
    #[inline]
    pub fn precondition_with(
        &mut self,
        occupancy: &[Occupancy],
        heats: &[(NamespaceId, Heat)],
    ) -> Result<Preconditioned, PreconditionError> {
        P::precondition_with(self, occupancy, heats)
    }

    pub(crate) fn precondition_with_here(
        &mut self,
        occupancy: &[Occupancy],
        heats: &[(NamespaceId, Heat)],
    ) -> Result<Preconditioned, PreconditionError> {
        if self.ftl.scheme.is_in_place() {
            // It is always as it is after the first write.
            let filled = self.fill(occupancy)?;
            let written = occupancy.iter().flat_map(|o| &o.classes).any(|class| class.weight > 0.0);
            return Ok(Preconditioned { expected_waf: written.then_some(1.0), ..filled });
        }
        if !self.ftl.scheme.fills_open_blocks() {
            return self.precondition_logs(occupancy, heats);
        }
        let ranges = self.begin_precondition(occupancy)?;
        let mut classes = self.drive_classes(ranges, heats)?;
        self.count_writes(&mut classes, heats);
        let classes = &classes[..];
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.config.seed ^ 0x7374_6561_6479);
        let mut states: Vec<(Vec<ClassKey>, PoolState)> = Vec::new();
        let mut scratch = Scratch::default();
        self.stagger_translation(&mut random);
        let (mut waf, mut units, mut settled) = (0.0, 0, true);
        let together = self.config.gc.unit == CollectionUnit::Superblock;
        let alike = random.clone();
        let mut full_blocks = vec![vec![]; self.shape.planes as usize];
        let mut hands = Hands::new(classes.len(), self.shape.planes);
        for plane in self.shape.all_planes() {
            let here = self.classes_of_plane(plane, classes, heats);
            if here.is_empty() {
                continue;
            }
            if here.len() > CLASSES_MAX {
                return Err(PreconditionError::Classes(here.len()));
            }
            let counts: Vec<u64> = here
                .iter()
                .map(|class| {
                    let units = self.units_on_plane(plane, *class, heats);
                    classes[class.of_drive].class.mapped(units)
                })
                .collect();
            units += counts.iter().sum::<u64>();
            let chunk = chunk_of(&here);
            let key: Vec<ClassKey> =
                here.iter().map(|class| (class.first, class.end, class.heat)).collect();
            let at = match states.iter().position(|(known, _)| *known == key) {
                Some(at) => at,
                None => {
                    let pool = self.pool_of_plane(plane, &here, &in_chunks(&counts, chunk), chunk);
                    let mut state = pool.settle()?;
                    if together {
                        state.waf = self.of_superblocks(&pool).settle()?.waf;
                    }
                    states.push((key, state));
                    states.len() - 1
                }
            };
            let state = &states[at].1;
            waf += state.waf / f64::from(self.shape.planes);
            settled &= state.steady;
            // The blocks of a superblock lose their units together.
            let in_step = together || self.fills_in_step(&here, state);
            let mut drawn = if in_step { alike.clone() } else { random.clone() };
            let moment = self.moment(&here, &counts, state, &mut drawn);
            let blocks = self.ftl.blocks.free_blocks(plane).saturating_sub(moment.free_blocks);
            let compositions =
                self.compositions(state, blocks, (&counts, chunk), &moment, &mut drawn)?;
            if !in_step {
                random = drawn;
            }
            let ordered = state.ordered.as_ref();
            full_blocks[plane] = self.realise(
                plane,
                &here,
                heats,
                (&compositions, ordered),
                (&mut scratch, &mut hands),
                &mut random,
            );
        }
        for (at, class) in classes.iter().enumerate() {
            self.deal(class, hands.of(at), heats, &mut random);
        }
        self.ftl.blocks.put_together(&full_blocks);
        self.restart_counters();
        self.warm_tables(classes, heats, waf, &mut random);
        let written = classes.iter().any(|class| class.class.weight > 0.0);
        Ok(Preconditioned { units, expected_waf: written.then_some(waf), settled })
    }

    /// The blocks of a plane that settles into `state`, of which `blocks` are not free, at this
    /// moment. It holds `counts` units of each class, which `state` counts in chunks.
    fn compositions(
        &self,
        state: &PoolState,
        blocks: usize,
        (counts, chunk): (&[u64], u32),
        moment: &Moment,
        random: &mut Xoshiro256PlusPlus,
    ) -> Result<Vec<BlockComposition>, PreconditionError> {
        let Some(ordered) = &state.ordered else {
            let chunks = in_chunks(counts, chunk);
            let mut all = state.compositions_with_units(blocks, &chunks, random)?;
            self.stagger(&mut all, moment, chunk, random);
            enlarge(&mut all, chunk, counts);
            return Ok(all);
        };
        let mut all = state.compositions_in_order(ordered, blocks);
        self.stagger_open(&mut all, moment);
        state.fit(ordered, &mut all, counts, random)?;
        Ok(all)
    }

    /// The classes of all units: those of ranges, or those of their heat.
    pub(in crate::ftl) fn drive_classes(
        &self,
        ranges: Vec<(Lpn, UpdateClass)>,
        heats: &[(NamespaceId, Heat)],
    ) -> Result<Vec<DriveClass>, PreconditionError> {
        let mut classes: Vec<DriveClass> = Vec::new();
        for (first, class) in ranges {
            // What is only ever rewritten in order is of one heat.
            let heat = self.heat_of(first, heats)?.filter(|_| class.order.in_order < 1.0);
            match heat {
                None => {
                    classes.push(DriveClass { first, class, heat: None, hot: HotShare::default() })
                }
                Some(heat) => {
                    classes.extend(heat.weights.iter().enumerate().map(|(id, weight)| {
                        let class = UpdateClass { weight: *weight, ..class };
                        DriveClass { first, class, heat: Some(id as u8), hot: HotShare::default() }
                    }))
                }
            }
        }
        Ok(classes)
    }

    /// The heat of the namespace that `first` belongs to.
    fn heat_of<'h>(
        &self,
        first: Lpn,
        heats: &'h [(NamespaceId, Heat)],
    ) -> Result<Option<&'h Heat>, PreconditionError> {
        let index = self.ftl.namespace_index(first);
        let found = heats.iter().find(|(namespace, _)| namespace.0 as usize == index + 1);
        let Some((_, heat)) = found else { return Ok(None) };
        let units = self.ftl.namespaces[index].units;
        let known = |class: &u8| usize::from(*class) < heat.weights.len();
        if heat.of_unit.len() != units as usize || !heat.of_unit.iter().all(known) {
            return Err(PreconditionError::Range {
                namespace: index as u32 + 1,
                first: 0,
                last: u64::from(units) - 1,
                problem: "not every unit has a class",
            });
        }
        Ok(Some(heat))
    }

    /// Whether `lpn` belongs to the class `id` of its namespace's heat, or to a whole range.
    #[inline]
    pub(in crate::ftl) fn is_of(
        &self,
        lpn: Lpn,
        id: Option<u8>,
        heats: &[(NamespaceId, Heat)],
    ) -> bool {
        let Some(id) = id else { return true };
        let index = self.ftl.namespace_index(lpn);
        let found = heats.iter().find(|(namespace, _)| namespace.0 as usize == index + 1);
        found.is_some_and(|(_, heat)| {
            heat.of_unit[(lpn - self.ftl.namespaces[index].base) as usize] == id
        })
    }

    /// Checks the ranges, and puts translation pages in place. Returns the classes with
    /// their first units over the whole drive.
    pub(in crate::ftl) fn begin_precondition(
        &mut self,
        occupancy: &[Occupancy],
    ) -> Result<Vec<(Lpn, UpdateClass)>, PreconditionError> {
        if !self.is_unused() {
            return Err(PreconditionError::Used);
        }
        let mut classes: Vec<(Lpn, UpdateClass)> = Vec::new();
        for Occupancy { namespace, classes: ranges } in occupancy {
            let problem = |class: &UpdateClass, problem| PreconditionError::Range {
                namespace: namespace.0,
                first: class.first,
                last: class.first.saturating_add(class.units).saturating_sub(1),
                problem,
            };
            for class in ranges {
                let Some(space) = self.ftl.namespaces.get((namespace.0 as usize).wrapping_sub(1))
                else {
                    return Err(problem(class, "there is no such namespace"));
                };
                let end = class.first.checked_add(class.units);
                let units = self.ftl.pairs().map_or(0, |pairs| pairs.cells_of(*namespace));
                let units = units.max(space.units);
                if class.units == 0 || end.is_none_or(|end| end > u64::from(units)) {
                    return Err(problem(class, "not a range within the namespace"));
                }
                classes.push((space.base + class.first as u32, *class));
            }
        }
        classes.sort_by_key(|(first, _)| *first);
        for pair in classes.windows(2) {
            if u64::from(pair[0].0.0) + pair[0].1.units > u64::from(pair[1].0.0) {
                return Err(PreconditionError::Range {
                    namespace: 0,
                    first: pair[1].0.0.into(),
                    last: u64::from(pair[0].0.0) + pair[0].1.units - 1,
                    problem: "two ranges overlap",
                });
            }
        }
        if self.ftl.mapping.is_cached() {
            for page in self.ftl.table_pages() {
                if self.ftl.mapping.table.translation_ppn(page).is_none() {
                    let plane = self.ftl.plane_of(Content::TranslationPage(page));
                    self.ftl.place_translation_page(page, plane);
                }
            }
        }
        Ok(classes)
    }

    /// Maps `lpn` to the next page of its plane's open block.
    pub(in crate::ftl) fn lay_down(&mut self, lpn: Lpn, plane: Plane) {
        self.lay_down_with(lpn, plane, PlacementId::default());
    }

    /// The same, to the block that takes what belongs with `placement`.
    fn lay_down_with(&mut self, lpn: Lpn, plane: Plane, placement: PlacementId) {
        let handle = self.ftl.handle_of(self.ftl.namespace_index(lpn), placement).unwrap_or(0);
        let stream = Stream::host(handle);
        if let Some(ppn) = self.ftl.place_at_once(lpn, plane) {
            self.ftl.mapping.table.map(Content::Unit(lpn), ppn);
            self.ftl.blocks.add_valid(self.shape.block_of_ppn(ppn), 1);
            return;
        }
        // Units of one group share a page; the page is taken with the first.
        let base = self.ftl.space_of(lpn).base;
        let place = (lpn - base) % self.shape.units_per_page;
        let frontier = self.ftl.blocks.frontier(plane, stream);
        let last = || {
            self.shape.first_ppn_of_block(frontier.block)
                + (frontier.next_page - 1) * self.shape.units_per_page
                + place
        };
        // Those of another handle may have a part of the group.
        let apart = self.ftl.handles().is_some();
        let is_taken = || self.ftl.mapping.table.content(last()).is_some();
        let ppn = if place == 0 || frontier.block == Block::NONE || apart && is_taken() {
            let ppn = self.ftl.blocks.take_page(plane, stream);
            for place in 0..self.shape.units_per_page {
                self.ftl.mapping.table.clear_ppn(ppn + place);
            }
            ppn + place
        } else {
            last()
        };
        self.ftl.mapping.table.map(Content::Unit(lpn), ppn);
        self.ftl.blocks.add_valid(self.shape.block_of_ppn(ppn), 1);
        self.ftl.note_handle(ppn, handle);
    }

    pub(in crate::ftl) fn classes_of_plane(
        &self,
        plane: Plane,
        classes: &[DriveClass],
        heats: &[(NamespaceId, Heat)],
    ) -> Vec<PlaneClass> {
        let is_written = |index: usize| {
            let of = |class: &&DriveClass| self.ftl.namespace_index(class.first) == index;
            classes.iter().filter(of).any(|class| class.class.weight > 0.0)
        };
        let lies = |first: Lpn, class: &UpdateClass| {
            let index = self.ftl.namespace_index(first);
            let placed = self.config.placement != Placement::Static;
            match class.weight == 0.0 && is_written(index) {
                true => Lies::InOrder,
                false if placed && self.ftl.namespaces[index].pairs.is_none() => Lies::Anywhere,
                false => Lies::InPlane,
            }
        };
        classes
            .iter()
            .enumerate()
            .map(|(of_drive, &DriveClass { first, class, heat, hot })| PlaneClass {
                heat,
                hot,
                of_drive,
                together: match lies(first, &class) {
                    // It was written a page at a time.
                    Lies::InOrder => self.shape.units_per_page,
                    _ => class.together.clamp(1, self.shape.units_per_page),
                },
                trims_per_write: class.trims_per_write,
                lies: lies(first, &class),
                first,
                end: first + class.units as u32,
                weight: class.weight,
                order: class.order,
                saturated: class.saturated && class.weight > 0.0,
                rewrites_per_s: class.units_per_s / class.units.max(1) as f64,
            })
            .filter(|class| {
                self.ftl.space_of(class.first).planes.contains(&plane)
                    && self.units_on_plane(plane, *class, heats) > 0
            })
            .collect()
    }

    /// Calls `each` for every run of units of `class` that belong to `plane`, in order.
    pub(in crate::ftl) fn groups_on_plane(
        &self,
        plane: Plane,
        class: PlaneClass,
        mut each: impl FnMut(Lpn, Lpn),
    ) {
        let space = self.ftl.space_of(class.first);
        let Some(position) = space.planes.iter().position(|&p| p == plane) else { return };
        let (group, stride) = (self.shape.units_per_page, space.planes.len() as u64);
        let first_group = u64::from((class.first - space.base) / group);
        let behind = (stride + position as u64 - first_group % stride) % stride;
        let mut at = u64::from(space.base.0) + (first_group + behind) * u64::from(group);
        while at < u64::from(class.end.0) {
            let from = Lpn(at as u32).max(class.first);
            let to = Lpn((at + u64::from(group)).min(u64::from(class.end.0)) as u32);
            each(from, to);
            at += stride * u64::from(group);
        }
    }

    fn units_on_plane(
        &self,
        plane: Plane,
        class: PlaneClass,
        heats: &[(NamespaceId, Heat)],
    ) -> u64 {
        if class.heat.is_some() {
            let mut count = 0;
            self.groups_on_plane(plane, class, |from, to| {
                let of = from.upto(to).filter(|&lpn| self.is_of(lpn, class.heat, heats));
                count += of.count() as u64;
            });
            return count;
        }
        let space = self.ftl.space_of(class.first);
        let (group, stride) = (u64::from(self.shape.units_per_page), space.planes.len() as u64);
        let Some(position) = space.planes.iter().position(|&p| p == plane) else { return 0 };
        // Units of this plane below a unit of the namespace.
        let below = |lpn: u64| {
            let (rounds, rest) = (lpn / (group * stride), lpn % (group * stride));
            rounds * group + rest.saturating_sub(position as u64 * group).min(group)
        };
        let base = u64::from(space.base.0);
        below(u64::from(class.end.0) - base) - below(u64::from(class.first.0) - base)
    }

    /// The abstract pool that behaves as `plane` does: what it calls a unit is `chunk` units.
    fn pool_of_plane(
        &self,
        plane: Plane,
        classes: &[PlaneClass],
        counts: &[u64],
        chunk: u32,
    ) -> Pool {
        // A block whose collection keeps pace with writes is neither free nor full all the while.
        let free = match self.config.gc.paced {
            true => self.ftl.blocks.start,
            false => self.free_at_work(classes.iter().any(|class| class.saturated)),
        };
        let keep_free = (free as u32).max(2);
        let total: f64 = classes.iter().map(|class| class.weight).sum();
        Pool {
            blocks: self.ftl.blocks.free_blocks(plane) as u32,
            units_per_block: self.shape.units_per_block / chunk,
            classes: classes
                .iter()
                .zip(counts)
                .map(|(class, &units)| Class {
                    units,
                    weight: if total > 0.0 { class.weight } else { 0.0 },
                    order: class.order,
                    hot: class.hot,
                    trims_per_write: class.trims_per_write,
                })
                .collect(),
            victim: self.config.gc.victim.scaled(f64::from(self.shape.units_per_page / chunk)),
            frontiers: self.config.gc.frontiers,
            collect_below: keep_free,
            keep_free,
            units_per_program: (self.shape.units_per_program / chunk)
                .min(self.shape.units_per_block / chunk),
            // Collection that is urgent does not wait for its pace, nor where dies have time. While
            // it is under way its frontier may have taken a block, too.
            paced: self.config.gc.paced
                && self.ftl.blocks.start >= self.ftl.blocks.urgent + 2
                && classes.iter().any(|class| class.saturated),
            seed: self.config.seed,
        }
    }

    /// A pool whose blocks are the superblocks of planes like the one of `pool`: as large as a
    /// pool's blocks can be, if theirs are larger.
    fn of_superblocks(&self, pool: &Pool) -> Pool {
        let most = MAX_UNITS_PER_BLOCK / pool.units_per_block;
        let planes = self.shape.planes.min(most).max(1);
        let classes =
            pool.classes.iter().map(|of| Class { units: of.units * u64::from(planes), ..*of });
        Pool {
            units_per_block: pool.units_per_block * planes,
            classes: classes.collect(),
            victim: pool.victim.scaled(planes.into()),
            ..pool.clone()
        }
    }

    /// Rewrites translation pages, the oldest first, until the blocks that take them are filled to
    /// a random degree: rewritten about in turn, as they are at rest, they lie in the blocks that
    /// were filled last, and what is older is void.
    fn stagger_translation(&mut self, random: &mut Xoshiro256PlusPlus) {
        if self.config.gc.frontiers == WriteFrontiers::One {
            return;
        }
        let mut pages = vec![vec![]; self.shape.planes as usize];
        for page in Mvpn(0).run(self.ftl.mapping.table.translation_pages()) {
            if let Some(ppn) = self.ftl.mapping.table.translation_ppn(page) {
                pages[self.shape.plane_of_ppn(ppn)].push(page);
            }
        }
        for (plane, pages) in (0..).map(Plane).zip(pages).filter(|(_, pages)| !pages.is_empty()) {
            let rewritten = below(random, self.shape.pages_per_block) as usize;
            for &page in pages.iter().cycle().take(rewritten) {
                self.ftl.place_translation_page(page, plane);
            }
        }
    }

    /// Gives `plane` blocks of the given compositions; returns those that are full, in order.
    fn realise(
        &mut self,
        plane: Plane,
        classes: &[PlaneClass],
        heats: &[(NamespaceId, Heat)],
        (compositions, ordered): (&[BlockComposition], Option<&Ordered>),
        (scratch, hands): (&mut Scratch, &mut Hands),
        random: &mut Xoshiro256PlusPlus,
    ) -> Vec<Block> {
        let mut full = vec![];
        scratch.ppns.iter_mut().for_each(Vec::clear);
        scratch.ppns.resize(classes.len(), Vec::new());
        scratch.chunks.iter_mut().for_each(Vec::clear);
        scratch.chunks.resize(classes.len(), Vec::new());
        scratch.parts.begin(classes.len());
        let in_chunks = ordered.is_none() && classes.iter().any(|class| class.together > 1);
        for composition in compositions {
            let Some(block) = self.ftl.blocks.free[plane].pop_front() else { break };
            let written = u32::from(composition.written);
            let stream = match composition.role {
                BlockRole::Full => None,
                BlockRole::HostFrontier => Some(Stream::HOST),
                BlockRole::HotFrontier => Some(Stream::host(1)),
                BlockRole::CollectionFrontier => Some(Stream::COLLECTED),
            };
            let open = stream.filter(|_| written < self.shape.units_per_block);
            if let Some(stream) = open {
                let next_page = written / self.shape.units_per_page;
                self.ftl.blocks.open(plane, stream, Frontier { block, next_page });
            } else {
                full.push(block);
            }
            self.ftl.blocks.set_written(block, composition.valid_units(), open.is_some());
            // While one plane programs a page, so do the others.
            let pages = composition.age / u64::from(self.shape.units_per_page);
            self.ftl.blocks.set_age(block, pages * u64::from(self.shape.planes));
            // Which of the written places are valid is drawn without replacement.
            let first = self.shape.first_ppn_of_block(block);
            if let Some(ordered) = ordered {
                self.lay_out(first, composition, ordered, scratch, random);
                continue;
            }
            if in_chunks {
                lay_chunks(first, composition, classes, scratch, random);
                continue;
            }
            if let [ppns] = &mut scratch.ppns[..] {
                let mut valid = u32::from(composition.valid[0]);
                for place in 0..written {
                    if below(random, written - place) < valid {
                        valid -= 1;
                        ppns.push(first + place);
                    }
                }
                continue;
            }
            let mut left = composition.valid;
            for place in 0..written {
                let mut draw = below(random, written - place);
                for (class, ppns) in scratch.ppns.iter_mut().enumerate() {
                    if draw < u32::from(left[class]) {
                        left[class] -= 1;
                        ppns.push(first + place);
                        break;
                    }
                    draw -= u32::from(left[class]);
                }
            }
        }
        for (index, class) in classes.iter().enumerate() {
            if ordered.is_some_and(|ordered| ordered.kinds[index] == Kind::InOrder) {
                self.map_in_order(plane, *class, index, heats, scratch);
                continue;
            }
            let ppns = &mut scratch.ppns[index];
            shuffle(ppns, random);
            let chunks = &mut scratch.chunks[index];
            // What was written once lies block by block as it was written.
            if class.lies != Lies::InOrder {
                shuffle(chunks, random);
            }
            if !chunks.is_empty() {
                let whole = chunks.iter().flat_map(|first| first.run(class.together));
                let rest = std::mem::take(ppns);
                ppns.extend(whole.chain(rest));
            }
            match class.lies {
                Lies::Anywhere => hands.give(class.of_drive, plane, std::mem::take(ppns)),
                Lies::InPlane | Lies::InOrder => {
                    self.map_in_plane(plane, *class, index, heats, scratch, random);
                }
            }
        }
        full
    }

    /// Maps the units of `class` that belong to `plane` to the places of this class, in order. Of
    /// what was written once, pages that are there as a whole come first, to whole pages.
    fn map_in_plane(
        &mut self,
        plane: Plane,
        class: PlaneClass,
        index: usize,
        heats: &[(NamespaceId, Heat)],
        scratch: &mut Scratch,
        random: &mut Xoshiro256PlusPlus,
    ) {
        let ppns = &scratch.ppns[index];
        let units = self.units_on_plane(plane, class, heats);
        let mut mapped = Mapped::new(ppns.len() as u64, units, class.together);
        let mut next = 0;
        let runs = &mut scratch.runs;
        runs.clear();
        self.groups_on_plane(plane, class, |from, to| runs.push((from, to)));
        if class.lies == Lies::InOrder {
            let in_pages = scratch.chunks[index].len() * class.together as usize;
            let page = self.shape.units_per_page;
            runs.retain(|&(from, to)| {
                let mut run = from.upto(to);
                let fits = to - from == page && next + page as usize <= in_pages;
                let is_whole = fits && run.all(|lpn| self.is_of(lpn, class.heat, heats));
                for lpn in from.upto(if is_whole { to } else { from }) {
                    self.ftl.mapping.table.map(Content::Unit(lpn), ppns[next]);
                    next += 1;
                }
                !is_whole
            });
            mapped = Mapped::new((ppns.len() - next) as u64, units - next as u64, 1);
        }
        for lpn in runs.iter().flat_map(|&(from, to)| from.upto(to)) {
            if self.is_of(lpn, class.heat, heats) && mapped.draw(random) {
                self.ftl.mapping.table.map(Content::Unit(lpn), ppns[next]);
                next += 1;
            }
        }
        debug_assert_eq!(next, ppns.len());
    }

    /// Lets the cached mapping tables see as many uses, drawn at random, as it takes for
    /// what they hold and which of it is dirty to be what a long history leaves: of hosts, and of
    /// the collections that write amplification `waf` stands for.
    fn warm_tables(
        &mut self,
        classes: &[DriveClass],
        heats: &[(NamespaceId, Heat)],
        waf: f64,
        random: &mut Xoshiro256PlusPlus,
    ) {
        let mut units_of: Vec<Option<Vec<Lpn>>> = vec![None; classes.len()];
        // When each translation page was written, in uses.
        let mut written = vec![0; self.ftl.mapping.table.translation_pages() as usize];
        let follows = self.ftl.mapping.tables_follow_collections();
        for table in 0..self.ftl.mapping.cached_tables() {
            let ours: Vec<_> = classes
                .iter()
                .enumerate()
                .filter(|(_, class)| {
                    let namespace = self.ftl.namespace_index(class.first);
                    !self.ftl.is_cell(class.first) && self.ftl.mapping.table_of(namespace) == table
                })
                .collect();
            // A class that is never written may still be read: it counts a little.
            let upto: Vec<f64> = ours
                .iter()
                .scan(0.0, |sum, (_, class)| {
                    *sum += class.class.weight.max(f64::MIN_POSITIVE);
                    Some(*sum)
                })
                .collect();
            let Some(&total) = upto.last() else { continue };
            // Collection moves units of all ranges, whatever is written: each write of a unit is
            // accompanied by `waf - 1` of these.
            let writes: f64 =
                ours.iter().map(|(_, of)| of.class.weight * of.class.write_share).sum();
            let moves = match follows {
                true => writes * (waf - 1.0).max(0.0),
                false => 0.0,
            };
            let held: u64 = ours.iter().map(|(_, of)| of.class.units).sum();
            let capacity = self.ftl.mapping.cmt_capacity(table) as u64;
            let uses = WARMING_ROUNDS * capacity.min(WARMING_ENTRIES_MAX) + capacity;
            // Where each range that is written in order is: about where it has come to its end
            // when all these uses have been.
            let mut next: Vec<u32> = ours
                .iter()
                .map(|(_, of)| {
                    let share = of.class.weight * of.class.order.in_order / total;
                    let units = of.class.units.max(1);
                    let steps = (share * uses as f64) as u64 % units;
                    ((units - steps) % units) as u32
                })
                .collect();
            for now in 1..=uses {
                if moves > 0.0 && random_share(random) * (total + moves) < moves {
                    let mut at = u64::from(below(random, held as u32));
                    for (_, DriveClass { first, class, .. }) in &ours {
                        if at < class.units {
                            let left = self.warm_cmt_moved(*first + at as u32);
                            left.into_iter().for_each(|page| written[page] = now);
                            break;
                        }
                        at -= class.units;
                    }
                    continue;
                }
                let at = random_share(random) * total;
                let which = upto.partition_point(|&sum| sum <= at).min(ours.len() - 1);
                let (at, &DriveClass { first, class, heat, .. }) = ours[which];
                let order = class.order.in_order;
                let in_order = order == 1.0 || order > 0.0 && random_share(random) < order;
                let lpn = match heat {
                    None if in_order => {
                        let lpn = next[which];
                        next[which] = (lpn + 1) % class.units as u32;
                        first + lpn
                    }
                    None => first + below(random, class.units as u32),
                    Some(_) => {
                        let units = units_of[at].get_or_insert_with(|| {
                            let all = first.run(class.units as u32);
                            all.filter(|&lpn| self.is_of(lpn, heat, heats)).collect()
                        });
                        match units.len() {
                            0 => continue,
                            count => units[below(random, count as u32) as usize],
                        }
                    }
                };
                let dirty = random_share(random) < class.write_share;
                let left = self.warm_cmt(lpn, dirty);
                left.into_iter().for_each(|page| written[page] = now);
            }
        }
        if follows && self.config.gc.frontiers != WriteFrontiers::One {
            self.ftl.order_translation_pages(&written);
        }
    }
}

/// How often a cached mapping table is filled anew while it is warmed, beside the first
/// time.
const WARMING_ROUNDS: u64 = 3;
/// Tables with more entries than this are filled anew in part only.
const WARMING_ENTRIES_MAX: u64 = 1 << 20;

#[derive(Default)]
struct Scratch {
    /// PPNs that each class gets.
    ppns: Vec<Vec<Ppn>>,
    /// The first PPNs of those that belong together.
    chunks: Vec<Vec<Ppn>>,
    /// Places of a block, while they are given away.
    places: Vec<u32>,
    /// What of them follows one another.
    parts: ordered::Parts,
    runs: Vec<(Lpn, Lpn)>,
}

fn shuffle(ppns: &mut [Ppn], random: &mut Xoshiro256PlusPlus) {
    for at in (1..ppns.len()).rev() {
        ppns.swap(at, below(random, at as u32 + 1) as usize);
    }
}

/// A uniform number below `n`, `n` at least 1 (Lemire's multiplication, bias below 2^-32 n).
#[inline]
pub(in crate::ftl) fn below(random: &mut Xoshiro256PlusPlus, n: u32) -> u32 {
    ((u64::from(random.next_u32()) * u64::from(n)) >> 32) as u32
}

/// A uniform number from 0 to 1 exclusive.
pub(in crate::ftl) fn random_share(random: &mut Xoshiro256PlusPlus) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}
