//! What the flows of a run leave on the drive: what preconditioning takes for given.

use super::{RunError, closed_loop};
use crate::workload::{FlowSpec, WriteProfile, heat};
use mynah_model::Drive;
use mynah_model::io::NamespaceId;
use mynah_model::precondition::{Heat, Occupancy, UpdateClass};

/// What the flows leave on each namespace: the ranges they write, by how often, and around
/// them what was written once.
///
/// # Errors
/// If a flow does not fit its namespace.
pub fn occupancy(
    drive: &Drive,
    flows: &[FlowSpec],
    unit_sectors: u32,
    notes: &mut Vec<String>,
) -> Result<Vec<Occupancy>, RunError> {
    let mut all = vec![];
    for index in 0..drive.config().namespaces.len() {
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
        let config = drive.config();
        let flash = config.geometry.pages() as f64 * f64::from(config.geometry.page_bytes);
        let all_sectors: u64 = (1..=config.namespaces.len() as u32)
            .filter_map(|id| drive.namespace_sectors(NamespaceId(id)))
            .sum();
        let share_of_units = occupied as f64 / units.max(1) as f64;
        let valid = all_sectors as f64 * 512.0 * share_of_units / (flash * (1.0 - config.gc.start));
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
            // A closed loop writes as fast as the drive lets it, or as its reads do. What that
            // comes to matters where collection keeps pace.
            let (sectors_per_s, saturated) = match flow.depth() {
                None => (rate_of(flow), false),
                Some(_) if !config.gc.paced => (None, true),
                Some(_) => {
                    let held_up = closed_loop::sectors_written_per_s(config, valid, flow);
                    (held_up, held_up.is_none())
                }
            };
            let mut add = |first: u64, count: u64, weight: f64| {
                let per_s = sectors_per_s.unwrap_or(0.0) * weight / f64::from(unit_sectors);
                let count = count.min(units.saturating_sub(first));
                if count > 0 {
                    ranges.push(UpdateClass {
                        first,
                        units: count,
                        weight: weight * share,
                        write_share,
                        saturated,
                        units_per_s: per_s,
                    });
                }
            };
            match profile {
                WriteProfile::None => {}
                WriteProfile::Uniform { first_unit, units } => add(first_unit, units, 1.0),
                WriteProfile::HotCold { first_unit, units, hot_units, hot_access } => {
                    add(first_unit, hot_units, hot_access);
                    add(first_unit + hot_units, units - hot_units, 1.0 - hot_access);
                }
                WriteProfile::Sequential { first_unit, units } => {
                    notes.push(format!(
                        "flow `{}`: preconditioned as for uniform writes over its range, not \
                         sequential ones",
                        flow.name
                    ));
                    add(first_unit, units, 1.0);
                }
                WriteProfile::Mixed { first_unit, units } => {
                    notes.push(format!(
                        "flow `{}`: preconditioned as for uniform writes over its range, not \
                         partly sequential ones",
                        flow.name
                    ));
                    add(first_unit, units, 1.0);
                }
                // In steady state each unit counts by itself: see [`heats`].
                WriteProfile::Zipf { first_unit, units, .. } => add(first_unit, units, 1.0),
            }
        }
        let classes = partition(&ranges, occupied);
        if !classes.is_empty() {
            all.push(Occupancy { namespace, classes });
        }
    }
    Ok(all)
}

/// How often each unit is rewritten on those namespaces where that follows no ranges.
///
/// # Errors
/// If a flow does not fit its namespace, or a trace cannot be read, or not twice.
pub(super) fn heats(
    drive: &Drive,
    flows: &[FlowSpec],
    unit_sectors: u32,
    seed: u64,
) -> Result<Vec<(NamespaceId, Heat)>, RunError> {
    let mut all = vec![];
    for index in 0..drive.config().namespaces.len() {
        let namespace = NamespaceId(index as u32 + 1);
        let ours = || flows.iter().enumerate().filter(|(_, flow)| flow.namespace == namespace);
        if !ours().any(|(_, flow)| flow.is_scattered()) {
            continue;
        }
        let sectors = drive.namespace_sectors(namespace).unwrap_or(0);
        let mut weights = vec![0.0; (sectors / u64::from(unit_sectors)) as usize];
        for (at, flow) in ours() {
            flow.add_weights(&mut weights, sectors, unit_sectors, seed, at as u32)?;
        }
        all.extend(heat::classes(&weights).map(|heat| (namespace, heat)));
    }
    Ok(all)
}

/// Cuts overlapping ranges into pieces whose weights add up, limits them to the occupied
/// units, and adds what is occupied and never rewritten.
fn partition(ranges: &[UpdateClass], occupied: u64) -> Vec<UpdateClass> {
    let mut cuts = vec![0, occupied];
    for range in ranges {
        cuts.push(range.first.min(occupied));
        cuts.push((range.first + range.units).min(occupied));
    }
    cuts.sort_unstable();
    cuts.dedup();
    let mut classes: Vec<UpdateClass> = vec![];
    for pair in cuts.windows(2) {
        let (first, end) = (pair[0], pair[1]);
        let mut class = UpdateClass {
            first,
            units: end - first,
            weight: 0.0,
            write_share: 0.0,
            saturated: false,
            units_per_s: 0.0,
        };
        for range in ranges {
            if range.first < end && first < range.first + range.units {
                let share = (end - first) as f64 / range.units as f64;
                class.weight += range.weight * share;
                class.units_per_s += range.units_per_s * share;
                class.write_share = f64::max(class.write_share, range.write_share);
                class.saturated |= range.saturated;
            }
        }
        classes.push(class);
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::FlowOptions;

    #[test]
    fn flows_count_by_what_they_say_they_write() {
        let drive = Drive::new(crate::drive::load("mqsim", &[]).unwrap().config).unwrap();
        let weights = |all: [&[(&str, &str)]; 2]| -> Vec<f64> {
            let flows = all.map(|one| {
                let mut options = FlowOptions::default();
                for (name, value) in [("bs", "8k"), ("runtime", "1")].iter().chain(one) {
                    assert!(options.set(name, *value));
                }
                options.flow("flow").unwrap()
            });
            let found = occupancy(&drive, &flows, 16, &mut vec![]).unwrap();
            found[0].classes.iter().map(|class| class.weight).collect()
        };
        let slow = [("rw", "randwrite"), ("size", "50%"), ("rate_iops", "10")];
        let fast = [("rw", "randrw"), ("rwmixread", "50"), ("offset", "50%"), ("rate_iops", "80")];
        assert_eq!(weights([&slow, &fast]), [0.25, 1.0]);
        // What a closed loop writes is not known before.
        assert_eq!(weights([&slow[..2], &fast]), [1.0, 1.0]);
        let reader = [("rw", "randread"), ("iodepth", "8")];
        assert_eq!(weights([&slow, &reader]), [1.0, 0.0]);
    }
}
