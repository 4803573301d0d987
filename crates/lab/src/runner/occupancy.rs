//! What the flows of a run leave on the drive: what preconditioning takes for given.

use super::{RunError, closed_loop};
use mynah_model::config::NamespaceKind;
use mynah_model::io::NamespaceId;
use mynah_model::precondition::{Heat, Occupancy, Order, UpdateClass};
use mynah_model::{Drive, Policies};
use mynah_result::TraceWrites;
use mynah_workload::{FlowSpec, SECTOR_BYTES, WriteProfile, heat};

/// What is there of a namespace that is not said to be occupied as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// What flows write is there, wherever it is: in the long run they fill their ranges.
    Written,
    /// Nothing lies beyond what is occupied, though flows may write there.
    Nothing,
}

/// What the flows leave on each namespace: the ranges they write, by how often, and around
/// them what was written once.
///
/// # Errors
/// If a flow does not fit its namespace.
pub fn occupancy(
    drive: &Drive<impl Policies>,
    flows: &[FlowSpec],
    unit_sectors: u32,
    beyond: Beyond,
) -> Result<Vec<Occupancy>, RunError> {
    let mut all = vec![];
    for index in 0..drive.config().namespaces.len() {
        if drive.config().namespaces[index].kind == NamespaceKind::Pairs {
            continue;
        }
        let namespace = NamespaceId(index as u32 + 1);
        let sectors = drive.namespace_sectors(namespace).unwrap_or(0);
        let units = sectors / u64::from(unit_sectors);
        let ours: Vec<_> = flows.iter().filter(|flow| flow.namespace == namespace).collect();
        let share = ours
            .iter()
            .filter_map(|flow| flow.occupancy)
            .fold(None, |most, share| Some(f64::max(most.unwrap_or(0.0), share)));
        let occupied = match share {
            Some(share) => ((units as f64 * share) as u64).min(units),
            None => units,
        };
        let valid = valid_share(drive, occupied as f64 / units.max(1) as f64);
        // Where all say how much they write, each counts by that, otherwise all alike.
        let rate_of = |flow: &FlowSpec| match flow.modifies() {
            true => flow.sectors_written_per_s(),
            false => Some(0.0),
        };
        let rates: Option<Vec<f64>> = ours.iter().map(|flow| rate_of(flow)).collect();
        let most = rates.iter().flatten().copied().fold(0.0, f64::max);
        let mut ranges: Vec<UpdateClass> = vec![];
        for (at, flow) in ours.iter().enumerate() {
            let share = rates.as_ref().filter(|_| most > 0.0).map_or(1.0, |rates| rates[at] / most);
            let profile = flow.write_profile(sectors, unit_sectors)?;
            let write_share = if flow.modifies() { 1.0 } else { 0.0 };
            let (together, trims_per_write) =
                (flow.written_together(unit_sectors), flow.trims_per_write());
            // A closed loop writes as fast as the drive lets it, or as its reads do.
            let (sectors_per_s, saturated) = match flow.depth() {
                None => (rate_of(flow), false),
                Some(_) => {
                    let held_up = closed_loop::sectors_written_per_s(drive.config(), valid, flow);
                    (held_up, held_up.is_none())
                }
            };
            let mut add = |first: u64, count: u64, weight: f64, order: Order| {
                let per_s = sectors_per_s.unwrap_or(0.0) * weight / f64::from(unit_sectors);
                let count = count.min(units.saturating_sub(first));
                if count > 0 {
                    ranges.push(UpdateClass {
                        placement: flow.placement_at(first * u64::from(unit_sectors)),
                        first,
                        units: count,
                        weight: weight * share,
                        order,
                        write_share,
                        saturated,
                        units_per_s: per_s,
                        together,
                        // What is trimmed in order is nobody's.
                        trims_per_write: if order.is_ordered() { 0.0 } else { trims_per_write },
                    });
                }
            };
            match profile {
                WriteProfile::None => {}
                WriteProfile::Uniform { first_unit, units } => {
                    add(first_unit, units, 1.0, Order::UNIFORM);
                }
                WriteProfile::HotCold { first_unit, units, hot_units, hot_access } => {
                    let (cold, rest) = (first_unit + hot_units, units - hot_units);
                    add(first_unit, hot_units, hot_access, Order::UNIFORM);
                    add(cold, rest, 1.0 - hot_access, Order::UNIFORM);
                }
                WriteProfile::Zoned { first_unit, units, zones } => {
                    for (first, count, access) in zones.of(units) {
                        add(first_unit + first, count, access, Order::UNIFORM);
                    }
                }
                WriteProfile::Sequential { first_unit, units, passed_over } => {
                    add(first_unit, units, 1.0, Order { in_order: 1.0, passed_over });
                }
                WriteProfile::Mixed { first_unit, units, random, passed_over } => {
                    add(first_unit, units, 1.0, Order { in_order: 1.0 - random, passed_over });
                }
                // In steady state each unit counts by itself: see [`heats`].
                WriteProfile::Zipf { first_unit, units, .. } => {
                    add(first_unit, units, 1.0, Order::UNIFORM);
                }
            }
        }
        let classes = partition(&ranges, occupied, beyond);
        if !classes.is_empty() {
            all.push(Occupancy { namespace, classes });
        }
    }
    Ok(all)
}

/// The share of the flash that is not kept free that is valid, if of all namespaces a share
/// `occupied` is.
pub(super) fn valid_share(drive: &Drive<impl Policies>, occupied: f64) -> f64 {
    let config = drive.config();
    let ids = (1..=config.namespaces.len() as u32).map(NamespaceId);
    let sectors: u64 = ids.filter_map(|id| drive.namespace_sectors(id)).sum();
    let flash = config.geometry.pages() as f64 * f64::from(config.geometry.page_bytes);
    sectors as f64 * SECTOR_BYTES as f64 * occupied / (flash * (1.0 - config.gc.start))
}

/// How often each unit of a namespace is rewritten, of some namespaces.
type Heats = Vec<(NamespaceId, Heat)>;

/// How often each unit is rewritten on those namespaces where that follows no ranges, and what of
/// them each trace was found, or was taken, to write.
///
/// # Errors
/// If a flow does not fit its namespace, or a trace cannot be read, or not twice.
pub(super) fn heats(
    drive: &Drive<impl Policies>,
    flows: &[FlowSpec],
    unit_sectors: u32,
    seed: u64,
) -> Result<(Heats, Vec<TraceWrites>), RunError> {
    let (mut all, mut traces) = (vec![], vec![]);
    for index in 0..drive.config().namespaces.len() {
        let namespace = NamespaceId(index as u32 + 1);
        let ours = || flows.iter().enumerate().filter(|(_, flow)| flow.namespace == namespace);
        let assumed = ours().filter_map(|(_, flow)| TraceWrites::assumed(flow));
        traces.extend(assumed);
        if !ours().any(|(_, flow)| flow.is_scattered()) {
            continue;
        }
        let sectors = drive.namespace_sectors(namespace).unwrap_or(0);
        let mut weights = vec![0.0; (sectors / u64::from(unit_sectors)) as usize];
        // What is written in order, and by nobody else, is of one heat.
        let scattered = ours().filter(|(_, flow)| flow.is_scattered());
        let scattered: Vec<(u64, u64)> =
            scattered.map(|(_, flow)| flow.range(sectors)).collect::<Result<_, _>>()?;
        for (at, flow) in ours() {
            let (first, count) = flow.range(sectors)?;
            let alone = scattered
                .iter()
                .all(|&(other, others)| first + count <= other || other + others <= first);
            let profile = flow.write_profile(sectors, unit_sectors)?;
            if alone && matches!(profile, WriteProfile::Sequential { .. }) {
                continue;
            }
            let read = flow.add_weights(&mut weights, sectors, unit_sectors, seed, at as u32)?;
            let bytes = |units: u64| units * u64::from(unit_sectors) * SECTOR_BYTES;
            let whole = bytes(weights.len() as u64);
            traces.extend(read.map(|units| TraceWrites::read(flow, bytes(units), whole)));
        }
        all.extend(heat::classes(&weights).map(|heat| (namespace, heat)));
    }
    Ok((all, traces))
}

/// Cuts overlapping ranges into pieces whose weights add up, and adds what is occupied and never
/// rewritten.
fn partition(ranges: &[UpdateClass], occupied: u64, beyond: Beyond) -> Vec<UpdateClass> {
    let written = ranges.iter().filter(|range| range.weight > 0.0 && range.write_share > 0.0);
    let end = match beyond {
        Beyond::Written => written.map(|range| range.first + range.units).max().unwrap_or(0),
        Beyond::Nothing => 0,
    };
    let end = end.max(occupied);
    let mut cuts = vec![0, occupied, end];
    for range in ranges {
        cuts.push(range.first.min(end));
        cuts.push((range.first + range.units).min(end));
    }
    cuts.sort_unstable();
    cuts.dedup();
    let mut classes: Vec<UpdateClass> = vec![];
    for pair in cuts.windows(2) {
        let (first, end) = (pair[0], pair[1]);
        let mut class = UpdateClass::written_once(first, end - first);
        let (mut in_order, mut passed_over, mut trims) = (0.0, 0.0, 0.0);
        let mut together: Option<u32> = None;
        let mut most = 0.0;
        for range in ranges {
            if range.first < end && first < range.first + range.units {
                let share = (end - first) as f64 / range.units as f64;
                let weight = range.weight * share;
                class.weight += weight;
                in_order += weight * range.order.in_order;
                passed_over += weight * range.order.in_order * range.order.passed_over;
                trims += weight * range.trims_per_write;
                class.units_per_s += range.units_per_s * share;
                class.write_share = f64::max(class.write_share, range.write_share);
                class.saturated |= range.saturated;
                // What is laid down belongs with what writes most of it.
                if weight > most {
                    (most, class.placement) = (weight, range.placement);
                }
                if range.write_share > 0.0 {
                    together = Some(together.map_or(range.together, |it| it.min(range.together)));
                }
            }
        }
        class.together = together.unwrap_or(1);
        // Whatever is in order where several write counts as one order.
        if in_order > 0.0 {
            class.order =
                Order { in_order: in_order / class.weight, passed_over: passed_over / in_order };
        }
        if trims > 0.0 {
            class.trims_per_write = trims / class.weight;
        }
        if first >= occupied && class.weight == 0.0 {
            continue;
        }
        // What is alike on both sides of a cut is one.
        match classes.last_mut() {
            Some(last) if is_alike(last, &class) => {
                last.units += class.units;
                last.weight += class.weight;
                last.units_per_s += class.units_per_s;
            }
            _ => classes.push(class),
        }
    }
    classes
}

/// Whether two ranges follow one another, and all their units are written alike and at random.
fn is_alike(one: &UpdateClass, other: &UpdateClass) -> bool {
    let each = |class: &UpdateClass| class.weight / class.units as f64;
    one.first + one.units == other.first
        && one.weight > 0.0
        && (each(one) / each(other) - 1.0).abs() < 1e-9
        && !one.order.is_ordered()
        && !other.order.is_ordered()
        && (one.write_share, one.saturated) == (other.write_share, other.saturated)
        && (one.together, one.trims_per_write) == (other.together, other.trims_per_write)
        && one.placement == other.placement
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_workload::FlowOptions;

    #[test]
    fn flows_count_by_what_they_say_they_write() {
        let drive = Drive::new(mynah_drive_file::load("mqsim", &[]).unwrap().config).unwrap();
        let classes = |all: [&[(&str, &str)]; 2]| {
            let flows = all.map(|one| {
                let mut options = FlowOptions::default();
                for (name, value) in [("bs", "8k"), ("runtime", "1")].iter().chain(one) {
                    assert!(options.set(name, *value));
                }
                options.flow("flow").unwrap()
            });
            occupancy(&drive, &flows, 16, Beyond::Written).unwrap().remove(0).classes
        };
        let weights = |all| classes(all).iter().map(|class| class.weight).collect::<Vec<_>>();
        let slow = [("rw", "randwrite"), ("size", "50%"), ("rate_iops", "10")];
        let fast = [("rw", "randrw"), ("rwmixread", "50"), ("offset", "50%"), ("rate_iops", "80")];
        assert_eq!(weights([&slow, &fast]), [0.25, 1.0]);
        // What a closed loop writes is not known before.
        assert_eq!(weights([&slow[..2], &fast]), [1.0, 1.0]);
        let reader = [("rw", "randread"), ("iodepth", "8")];
        assert_eq!(weights([&slow, &reader]), [1.0, 0.0]);
        // Ten and forty requests of 8 KiB a second, which is a unit here.
        let known = |class: &UpdateClass| (class.units_per_s, class.saturated);
        let both: Vec<_> = classes([&slow, &fast]).iter().map(known).collect();
        assert_eq!(both, [(10.0, false), (40.0, false)]);
        assert_eq!(known(&classes([&slow[..2], &fast])[0]), (0.0, true));
    }

    #[test]
    fn closed_loops_that_read_do_not_saturate_a_drive() {
        let drive = mynah_drive_file::load("enterprise-tlc", &[]).unwrap();
        let drive = Drive::new(drive.config).unwrap();
        let known = |rw: &str, depth: &str| {
            let mut options = FlowOptions::default();
            for (name, value) in [("rw", rw), ("bs", "4k"), ("iodepth", depth), ("runtime", "1")] {
                assert!(options.set(name, value));
            }
            let flows = [options.flow("flow").unwrap()];
            let class = occupancy(&drive, &flows, 8, Beyond::Written).unwrap()[0].classes[0];
            (class.units_per_s, class.saturated)
        };
        let (mixed, saturated) = known("randrw", "1");
        assert!((10_000.0..20_000.0).contains(&mixed) && !saturated, "{mixed}");
        assert_eq!(known("randrw", "4096"), (0.0, true));
        assert_eq!(known("randwrite", "1"), (0.0, true));
    }

    fn flows(all: &[&[(&str, &str)]]) -> Vec<FlowSpec> {
        let read = |one: &&[(&str, &str)]| {
            let mut options = FlowOptions::default();
            for (name, value) in *one {
                assert!(options.set(name, *value), "{name}");
            }
            options.flow("flow").unwrap()
        };
        all.iter().map(read).collect()
    }

    #[test]
    fn what_is_written_in_order_is_said() {
        let drive = Drive::new(mynah_drive_file::load("mqsim", &[]).unwrap().config).unwrap();
        let orders = |all: &[&[(&str, &str)]]| {
            let classes =
                occupancy(&drive, &flows(all), 16, Beyond::Written).unwrap().remove(0).classes;
            classes.iter().map(|class| class.order).collect::<Vec<_>>()
        };
        let runtime = ("runtime", "1");
        let write = ("rw", "write");
        assert_eq!(orders(&[&[write, runtime]]), [Order::SEQUENTIAL]);
        // Reads and writes advance each by themselves, unless it is said that they do not: then
        // what is read keeps its place. Of two requests in a unit either may write.
        let mixed = [("rw", "rw"), ("rwmixread", "75"), ("bs", "8k"), runtime];
        assert_eq!(orders(&[&mixed]), [Order::SEQUENTIAL]);
        let shared = [&mixed[..], &[("sequential_positions", "shared")]].concat();
        assert_eq!(orders(&[&shared]), [Order { in_order: 1.0, passed_over: 0.75 }]);
        let halves = [&shared[..], &[("bs", "4k")]].concat();
        assert_eq!(orders(&[&halves]), [Order { in_order: 1.0, passed_over: 0.5625 }]);
        let partly = [("rw", "randwrite"), ("percentage_random", "70"), runtime];
        let order = orders(&[&partly])[0];
        assert!((order.in_order - 0.3).abs() < 1e-9 && order.passed_over == 0.0, "{order:?}");
        // One of two flows; and both on half of the range.
        let uniform = [("rw", "randwrite"), ("offset", "50%"), runtime];
        let lower = [write, ("size", "50%"), runtime];
        assert_eq!(orders(&[&lower, &uniform]), [Order::SEQUENTIAL, Order::UNIFORM]);
        let both = orders(&[&[write, runtime], &uniform]);
        assert_eq!(both[0], Order::SEQUENTIAL);
        assert!((both[1].in_order - 1.0 / 3.0).abs() < 1e-9, "{both:?}");
    }

    /// Of the same load: where the run ends is no part of it.
    #[test]
    fn a_run_starts_from_the_same_state_however_its_end_is_given() {
        use crate::runner::{RunOptions, Runner};
        let overrides = [
            "geometry.channels=2",
            "geometry.blocks_per_plane=128",
            "over_provisioning=45%",
            "cache.size=16MiB",
        ];
        let drive = mynah_drive_file::load("mqsim", &overrides.map(str::to_owned)).unwrap().config;
        let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/sample.trace");
        let loads: [&[(&str, &str)]; 6] = [
            &[("rw", "write"), ("bs", "128k"), ("size", "50%")],
            &[("rw", "randrw")],
            &[("rw", "randwrite"), ("percentage_random", "30")],
            &[("rw", "randwrite"), ("random_distribution", "zipf:1.1")],
            &[("rw", "randwrite"), ("random_distribution", "hotcold:90/10")],
            &[("trace", trace)],
        ];
        let ends: [&[(&str, &str)]; 5] = [
            &[("runtime", "1")],
            &[("number_ios", "2")],
            &[("io_size", "256k")],
            &[("io_size", "1000g")],
            &[("io_size", "64m"), ("number_ios", "100"), ("runtime", "2")],
        ];
        for load in loads {
            let start = |end: &&[(&str, &str)]| {
                let flows = flows(&[&[load, end].concat()]);
                let options = RunOptions::default();
                let mut runner = Runner::new(drive.clone(), &flows, &options).unwrap();
                runner.warm_cache().unwrap();
                runner.drive_mut().state_hash()
            };
            let starts: Vec<u64> = ends.iter().map(start).collect();
            assert!(starts.iter().all(|state| *state == starts[0]), "{load:?}: {starts:x?}");
        }
    }
}
