//! What flows did before a run began, for the data cache to be warm with: their own requests,
//! drawn from streams of their own, and those of several flows by turns. Where no flows are
//! known, requests all over the drive.

use super::Planned;
use super::generator::Generator;
use super::random::{Bounded, bound, chance};
use super::{Addresses, FlowSpec, Limits, Mode, SECTOR_BYTES, Source, WorkloadError, seed};
use mynah_model::config::Config;
use mynah_model::io::{FlowId, NamespaceId, Operation, PlacementId};
use mynah_model::warm::Access;
use mynah_model::{Drive, Policies};

/// Accesses of mapping units that are generated to warm the data cache, unless it is full before:
/// so many for each unit of its capacity, within these bounds.
const ROUNDS: u64 = 16;
const LEAST: u64 = 1 << 14;
const MOST: u64 = 1 << 25;
/// Writes of a trace that are kept to be performed over and over.
const TRACE_MOST: usize = 1 << 24;

/// How many mapping units the past may touch to warm the data cache of a drive.
pub(crate) fn units_most(config: &Config) -> u64 {
    let Some(cache) = config.cache else { return 0 };
    let units = cache.bytes / u64::from(config.mapping.unit_bytes);
    units.saturating_mul(ROUNDS).clamp(LEAST, MOST)
}

/// The past of one flow, without end.
pub struct History {
    flow: FlowId,
    spec: FlowSpec,
    generator: Generator,
    saturated: bool,
    /// Where a sequential flow is: it has just come round to where it begins.
    round: Option<Round>,
    /// Writes and trims of a trace, to be repeated for ever, and the index of the next one.
    once: Vec<(Operation, u64, u32, PlacementId)>,
    next: usize,
    /// Requests by turns with other flows.
    turns: u32,
}

/// Properties of the drive and the load that the past of a flow depends on.
#[derive(Clone, Copy)]
pub struct Pace {
    /// Least number of sectors that the past accesses.
    pub cache_sectors: u64,
    /// It writes as fast as the drive takes it.
    pub saturated: bool,
}

struct Round {
    base: u64,
    span: u64,
    next: u64,
}

impl History {
    /// The past of the flow that is `index`-th of its run, in which it has gone over
    /// `cache_sectors` at least. `None` if nobody can say what it was: of a trace, and of a
    /// flow that is sequential in part.
    pub fn new(
        flow: &FlowSpec,
        capacity_sectors: u64,
        run_seed: u64,
        index: u32,
        pace: Pace,
    ) -> Result<Option<History>, WorkloadError> {
        let Source::Synthetic(synthetic) = &flow.source else { return Ok(None) };
        let (base, span) = flow.working_set(synthetic, capacity_sectors)?;
        let round = match synthetic.addresses {
            Addresses::Mixed { .. } => return Ok(None),
            Addresses::Sequential { .. } => {
                let align = synthetic.align_sectors.max(1);
                let before = pace.cache_sectors.min(span) / align * align;
                Some(Round { base, span, next: span.saturating_sub(before) / align * align })
            }
            _ => None,
        };
        let mut synthetic = synthetic.clone();
        // Times do not matter, and none is too late.
        synthetic.mode = Mode::Closed { depth: 1 };
        let turns = flow.depth().unwrap_or(1).saturating_mul(flow.jobs).clamp(1, 1 << 16);
        let spec = FlowSpec {
            // A job beyond those of the run: another stream of the same kind.
            jobs: flow.jobs.saturating_add(1),
            limits: Limits { requests: Some(u64::MAX), ..Limits::default() },
            schedule: super::Schedule::default(),
            source: Source::Synthetic(synthetic),
            ..flow.clone()
        };
        let generator = spec.generator(capacity_sectors, run_seed, index, flow.jobs)?;
        Ok(Some(History {
            flow: FlowId(index as u16),
            spec,
            generator,
            saturated: pace.saturated && flow.schedule == super::Schedule::default(),
            round,
            turns,
            once: vec![],
            next: 0,
        }))
    }

    /// The past of a flow without end, even if nobody can say where in it the run begins: a trace
    /// over and over, a flow that is sequential in part from its start.
    pub fn endless(
        flow: &FlowSpec,
        capacity_sectors: u64,
        run_seed: u64,
        index: u32,
        pace: Pace,
    ) -> Result<History, WorkloadError> {
        if let Some(history) = History::new(flow, capacity_sectors, run_seed, index, pace)? {
            return Ok(history);
        }
        let mut spec = FlowSpec {
            jobs: flow.jobs.saturating_add(1),
            limits: Limits { requests: Some(u64::MAX), ..Limits::default() },
            schedule: super::Schedule::default(),
            ..flow.clone()
        };
        let mut number = flow.jobs;
        match &mut spec.source {
            Source::Trace(trace) => {
                (trace.repeat, spec.limits) = (1, Limits::default());
                (spec.jobs, number) = (1, 0);
            }
            Source::Synthetic(synthetic) => synthetic.mode = Mode::Closed { depth: 1 },
            Source::KeyValue(_) => {}
            Source::Front(front) => front.endless(),
        }
        let turns = flow.depth().unwrap_or(1).saturating_mul(flow.jobs).clamp(1, 1 << 16);
        let mut generator = spec.generator(capacity_sectors, run_seed, index, number)?;
        let mut once = vec![];
        if matches!(spec.source, Source::Trace(_)) {
            while let Some(planned) = generator.next().filter(|_| once.len() < TRACE_MOST) {
                let Planned { operation, sector, sectors, placement, .. } = planned;
                if matches!(operation, Operation::Read | Operation::Flush | Operation::Other) {
                    continue;
                }
                once.push((operation, sector, sectors, placement));
            }
            if let Some(error) = generator.take_error() {
                return Err(error);
            }
        }
        let saturated = pace.saturated;
        let flow = FlowId(index as u16);
        Ok(History { flow, spec, generator, saturated, round: None, turns, once, next: 0 })
    }

    /// The error that has ended it, if one has.
    pub fn take_error(&mut self) -> Option<WorkloadError> {
        self.generator.take_error()
    }
}

impl Iterator for History {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        let (flow, namespace, saturated) = (self.flow, self.spec.namespace, self.saturated);
        if let Some(&(operation, sector, sectors, placement)) = self.once.get(self.next) {
            self.next = (self.next + 1) % self.once.len();
            return Some(Access {
                placement,
                flow,
                namespace,
                operation,
                sector,
                sectors,
                saturated,
            });
        }
        let Planned { operation, mut sector, sectors, mut placement, .. } =
            self.generator.next()?;
        if let Some(round) = &mut self.round {
            if round.next + u64::from(sectors) > round.span {
                round.next = 0;
            }
            sector = round.base + round.next;
            round.next += u64::from(sectors);
            let choice = self.spec.data_placement.as_ref();
            placement = choice.and_then(|it| it.of_write(sector, sectors)).unwrap_or(placement);
        }
        let namespace = self.spec.namespace;
        Some(Access {
            placement,
            flow: self.flow,
            namespace,
            operation,
            sector,
            sectors,
            saturated: self.saturated,
        })
    }
}

/// The pasts of several flows, each with its requests by turns.
pub struct Turns {
    all: Vec<History>,
    at: usize,
    left: u32,
}

impl Turns {
    pub fn new(all: Vec<History>) -> Turns {
        let left = all.first().map_or(0, |first| first.turns);
        Turns { all, at: 0, left }
    }

    /// Why one of them has ended, if it has.
    pub fn take_error(&mut self) -> Option<WorkloadError> {
        self.all.iter_mut().find_map(History::take_error)
    }
}

impl Iterator for Turns {
    type Item = Access;

    #[inline]
    fn next(&mut self) -> Option<Access> {
        if self.left == 0 && !self.all.is_empty() {
            self.at = (self.at + 1) % self.all.len();
            self.left = self.all[self.at].turns;
        }
        self.left = self.left.saturating_sub(1);
        self.all.get_mut(self.at)?.next()
    }
}

/// The same on a drive, as far back as it matters.
pub fn by_turns(all: Vec<History>, drive: &Config) -> impl Iterator<Item = Access> + use<> {
    let unit_sectors = u64::from(drive.mapping.unit_bytes) / SECTOR_BYTES;
    let mut units = units_most(drive);
    Turns::new(all).map_while(move |access| {
        units = units.checked_sub(u64::from(access.sectors).div_ceil(unit_sectors).max(1))?;
        Some(access)
    })
}

/// The past of a drive whose hosts nobody knows: the first flow's requests of a mapping unit each,
/// uniform over all namespaces, of which a share of `writes` writes.
pub fn anywhere<P: Policies>(
    drive: &Drive<P>,
    writes: f64,
) -> impl Iterator<Item = Access> + use<P> {
    let unit_sectors = u64::from(drive.config().mapping.unit_bytes) / SECTOR_BYTES;
    let namespaces: Vec<(NamespaceId, u64)> = (1..=drive.config().namespaces.len() as u32)
        .map(NamespaceId)
        .map(|id| (id, drive.namespace_sectors(id).unwrap_or(0) / unit_sectors))
        .collect();
    let units = namespaces.iter().map(|(_, units)| units).sum::<u64>();
    let draw = (units > 0).then(|| Bounded::new(units));
    let write_below = bound(writes);
    let mut rng = seed::stream(seed::derive(drive.config().seed, 0, None, seed::ALL_JOBS));
    let most = units_most(drive.config());
    std::iter::from_fn(move || {
        let write = chance(&mut rng) < write_below;
        let mut unit = draw?.draw(&mut rng);
        let (namespace, _) = namespaces.iter().find(|(_, units)| {
            let here = unit < *units;
            unit -= if here { 0 } else { *units };
            here
        })?;
        Some(Access {
            placement: Default::default(),
            flow: FlowId(0),
            namespace: *namespace,
            operation: if write { Operation::Write } else { Operation::Read },
            sector: unit * unit_sectors,
            sectors: unit_sectors as u32,
            saturated: false,
        })
    })
    .take(most as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowOptions;

    /// Long requests do not make the past longer.
    #[test]
    fn the_past_is_as_many_units_whatever_the_size_of_a_request() {
        let drive =
            mynah_drive_file::load("mqsim", &["mapping.unit=4KiB".to_owned()]).unwrap().config;
        let most = units_most(&drive);
        for (size, units) in [("512", 1), ("4k", 1), ("1m", 256)] {
            let mut options = FlowOptions::default();
            for (name, value) in [("rw", "randwrite"), ("bs", size), ("size", "64m")] {
                assert!(options.set(name, value));
            }
            let flow = options.flow("flow").unwrap();
            let pace = Pace { cache_sectors: 1 << 16, saturated: false };
            let history = History::new(&flow, 1 << 20, 1, 0, pace).unwrap().unwrap();
            assert_eq!(by_turns(vec![history], &drive).count() as u64, most / units, "{size}");
        }
    }
}
