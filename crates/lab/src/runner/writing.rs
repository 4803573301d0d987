//! A drive that is written before a run, without time, where no formula says how its load leaves
//! it: requests of several sizes or that begin anywhere, traces, flows that share a range and
//! differ, random writes beside a dynamic SLC cache. Each flow's own requests, from streams of their own, by turns.

use super::{Before, RunError, Runner, Writing};
use mynah_model::config::Config;
use mynah_model::io::{NamespaceId, Operation, PlacementId};
use mynah_model::precondition::{Heat, Occupancy, Preconditioned};
use mynah_model::{Drive, Policies};
use mynah_workload::history::{History, Pace, Turns};
use mynah_workload::{Addresses, BlockSize, FlowSpec, Source};

/// How often what is occupied is written over: after that one unit in twenty still lies where it
/// was put down before.
const TURNS: f64 = 3.0;
/// Units that are programmed for it at most, some CPU minute. How often that writes a large
/// drive over depends on its write amplification.
const PROGRAMMED_MAX: u64 = 800_000_000;
/// What is moved of a block that is won for an SLC cache, at most, beside what one holds. An estimate: a
/// margin for hot and cold data.
const MOVED_FOR_SLC: f64 = 1.5;
/// Accesses between two looks at how far it is.
const LOOK_EVERY: u64 = 1 << 16;
/// Accesses for each unit that is to be written after which nothing more is expected of flows.
const ACCESSES_MAX: u64 = 64;

impl<P: Policies> Runner<P> {
    /// Writes the drive as its flows do, if nothing simpler tells how they leave it.
    pub(super) fn write_as_flows_do(
        &mut self,
        mut progress: impl FnMut(Before) -> bool,
    ) -> Result<(), RunError> {
        if !self.to_be_written || self.preconditioned.is_none() {
            return Ok(());
        }
        let classes = self.occupancy.iter().flat_map(|of| &of.classes);
        let saturated = classes.clone().any(|class| class.saturated && class.weight > 0.0);
        let units: u64 = classes.map(|class| class.units).sum();
        let wanted = (units as f64 * TURNS) as u64;
        let unit_sectors = self.drive.config().mapping.unit_bytes / 512;
        let expected = self.preconditioned.as_ref().and_then(|found| found.expected_waf);
        let at_most = PROGRAMMED_MAX.min((wanted as f64 * expected.unwrap_or(10.0) * 2.0) as u64);
        let programmed_max = at_most * u64::from(unit_sectors) * 512;
        let pace = Pace { cache_sectors: wanted * u64::from(unit_sectors), saturated };
        let mut past = vec![];
        let flows = self.aged_by.as_deref().unwrap_or(&self.specs);
        for (index, flow) in flows.iter().enumerate().filter(|(_, flow)| flow.modifies()) {
            let capacity = self.drive.namespace_sectors(flow.namespace).unwrap_or(0);
            past.push(History::endless(flow, capacity, self.seed, index as u32, pace)?);
        }
        let mut writer = self.drive.begin_writing(saturated);
        let mut past = Turns::new(past);
        let (mut accesses, mut written) = (0u64, 0);
        let mut marked = false;
        let mut goes_on = |done| match progress(Before::Writing(Writing {
            done,
            turns: TURNS,
            programmed_max,
        })) {
            true => Ok(()),
            false => Err(RunError::Interrupted),
        };
        goes_on(0.0)?;
        while written < wanted && accesses < wanted.saturating_mul(ACCESSES_MAX) {
            accesses += 1;
            let Some(access) = past.next() else { break };
            written = self.drive.write_at_once(&mut writer, access);
            let half = written >= wanted / 2 || writer.programmed() >= at_most / 2;
            if half && !marked {
                writer.mark();
                marked = true;
            }
            if accesses.is_multiple_of(LOOK_EVERY) {
                let of_programs = writer.programmed() as f64 / at_most as f64;
                let done = f64::max(written as f64 / wanted as f64, of_programs).min(1.0);
                goes_on(done)?;
                if of_programs >= 1.0 {
                    let turns = written as f64 / units as f64;
                    self.notes.push(format!(
                        "before the run the drive was written {turns:.1} times over, and not \
                         {TURNS:.0}: then {:.0} million units had been programmed",
                        writer.programmed() as f64 / 1e6
                    ));
                    break;
                }
            }
        }
        if let Some(error) = past.take_error() {
            return Err(error.into());
        }
        let waf = self.drive.end_writing(writer);
        if let Some(found) = &mut self.preconditioned {
            found.settled = true;
        }
        self.expects(waf);
        self.readied = true;
        Ok(())
    }
}

/// Whether `drive` can be written as these flows do, and how they leave it is not known otherwise.
pub(super) fn is_needed(drive: &Drive<impl Policies>, flows: &[FlowSpec]) -> bool {
    let known = |namespace| {
        let ours = flows.iter().filter(move |flow| flow.namespace == namespace);
        let writers: Vec<&FlowSpec> = ours.filter(|flow| flow.modifies()).collect();
        is_known(&writers, drive.config().mapping.unit_bytes / 512, |flow| {
            flow.range(drive.namespace_sectors(namespace).unwrap_or(0)).ok()
        })
    };
    let written = flows.iter().any(|flow| flow.modifies() && !flow.trims_only());
    let mut namespaces = (1..=drive.config().namespaces.len() as u32).map(NamespaceId);
    let is_known = drive.config().reclaim_unit_handles() <= 1 && namespaces.all(known);
    drive.can_be_written() && written && !is_known
}

/// Whether a drive is better filled before it is written than computed.
pub(super) fn lies_apart(
    drive: &Drive<impl Policies>,
    occupancy: &[Occupancy],
    heats: &[(NamespaceId, Heat)],
) -> bool {
    // What a trace never writes lies between what it writes, as it was filled: to sort them apart
    // takes collection longer than anybody writes a drive.
    let has_gaps = heats.iter().any(|(_, heat)| heat.weights.contains(&0.0));
    // What lies together in a reclaim unit is what one handle has written.
    has_gaps || has_several_handles(drive, occupancy)
}

/// Whether flows may leave native blocks to a pSLC cache, on a drive whose steady state without that has
/// this write amplification. A block is won for the cache where less is moved than a block of it holds
/// (`Ftl::cheaper_than_folding`); of random writes, collection moves a share of `1 - 1 / WAF` of a block.
pub(super) fn fills_dynamic_slc(
    drive: &Drive<impl Policies>,
    flows: &[FlowSpec],
    found: Option<&Preconditioned>,
) -> bool {
    let Config { slc: Some(slc), flash, geometry, .. } = drive.config() else { return false };
    let most = MOVED_FOR_SLC / f64::from(flash.cell.bits());
    // What is written in order leaves blocks void as a whole.
    let in_order = |flow: &FlowSpec| match &flow.source {
        Source::Synthetic(synthetic) => matches!(synthetic.addresses, Addresses::Sequential { .. }),
        _ => false,
    };
    slc.has_dynamic_blocks(geometry.blocks_per_plane)
        && drive.can_be_written()
        && flows.iter().any(|flow| flow.modifies() && !flow.trims_only() && !in_order(flow))
        && found.and_then(|it| it.expected_waf).is_none_or(|waf| 1.0 - 1.0 / waf < most)
}

/// Whether what is on a drive belongs to several reclaim unit handles.
fn has_several_handles(drive: &Drive<impl Policies>, occupancy: &[Occupancy]) -> bool {
    let handles = occupancy.iter().flat_map(|of| {
        let list = drive.placement_handles(of.namespace).unwrap_or_default();
        let first = list.first().copied().unwrap_or(0);
        let handle = move |at: PlacementId| list.get(usize::from(at.0)).copied().unwrap_or(first);
        of.classes.iter().map(move |class| handle(class.placement))
    });
    let handles: Vec<u8> = handles.collect();
    handles.windows(2).any(|pair| pair[0] != pair[1])
}

/// Whether it is known how these flows leave a namespace.
fn is_known(
    writers: &[&FlowSpec],
    unit_sectors: u32,
    range: impl Fn(&FlowSpec) -> Option<(u64, u64)>,
) -> bool {
    let each = |flow: &&FlowSpec| match &flow.source {
        Source::KeyValue(_) => true,
        Source::Front(_) => false,
        // Others have said how its writes are distributed.
        Source::Trace(trace) => trace.writes.is_some(),
        Source::Synthetic(synthetic) => {
            let small = match synthetic.block.of(Operation::Write) {
                BlockSize::Fixed(sectors) => *sectors <= unit_sectors,
                BlockSize::Range { max, .. } => *max <= unit_sectors,
                BlockSize::Split(parts) => parts.iter().all(|part| part.0 <= unit_sectors),
                BlockSize::Normal { .. } | BlockSize::Each(_) => false,
            };
            let in_order = matches!(synthetic.addresses, Addresses::Sequential { .. });
            let trims = synthetic.mix.trim > 0.0;
            let aligned = synthetic.align_sectors >= u64::from(unit_sectors)
                || u64::from(unit_sectors).is_multiple_of(synthetic.align_sectors);
            match in_order {
                true => !trims,
                false => small && aligned || flow.written_together(unit_sectors) > 1,
            }
        }
    };
    // Flows that share addresses, and do not write them alike.
    let apart = |one: &FlowSpec, other: &FlowSpec| {
        let (Some((first, count)), Some((second, others))) = (range(one), range(other)) else {
            return false;
        };
        let meet = first < second + others && second < first + count;
        meet && one.written_together(unit_sectors) != other.written_together(unit_sectors)
    };
    let pairs = writers
        .iter()
        .enumerate()
        .flat_map(|(at, one)| writers[at + 1..].iter().map(move |other| (*one, *other)));
    let only_trims = |flow: &&FlowSpec| flow.trims_only();
    writers.iter().all(each)
        && !(writers.len() > 1 && writers.iter().any(only_trims))
        && !pairs.into_iter().any(|(one, other)| apart(one, other))
}

#[cfg(test)]
mod tests {
    use crate::Simulation;
    use crate::runner::Runner;

    /// Whether a small drive is written for these flows, and whether something is expected of it
    /// before that.
    fn prepared(flows: &[&str]) -> (bool, bool) {
        let changes = ["geometry.channels=2", "geometry.blocks_per_plane=64"].map(str::to_owned);
        let changes = [&changes[..], &["over_provisioning=20%".to_owned()]].concat();
        let mut simulation = Simulation::on_changed("enterprise-tlc", &changes).unwrap();
        for (at, flow) in flows.iter().enumerate() {
            simulation = simulation.flow(&format!("flow-{at}"), flow).unwrap();
        }
        let Simulation { config, flows, options, .. } = simulation;
        let runner = Runner::new(config, &flows, &options).unwrap();
        (runner.to_be_written, runner.expected_waf().is_some())
    }

    /// A plane may have classes that others have not: of the overlap that rounding leaves, one unit.
    #[test]
    fn flows_that_share_a_unit_prepare_a_drive() {
        let flows = ["rw=write bs=128k", "rw=randwrite bs=4k", "rw=randwrite bs=4k offset=90%"];
        let sized = ["size=90%", "size=90%", "size=10%"];
        let flows: Vec<String> = flows
            .iter()
            .zip(sized)
            .map(|(flow, size)| format!("{flow} {size} number_ios=10"))
            .collect();
        let flows: Vec<&str> = flows.iter().map(String::as_str).collect();
        assert_eq!(prepared(&flows), (true, true));
    }

    #[test]
    fn drives_are_written_where_nothing_else_tells_how() {
        let end = "number_ios=10";
        for known in [
            "rw=randwrite bs=4k",
            "rw=randwrite bs=4k size=50% random_distribution=zipf:0.8",
            "rw=randwrite bs=4k random_distribution=zipf:1.2",
            "rw=randwrite bs=4k random_distribution=hotcold:90/10 size=50%",
            "rw=randrw rwmixread=0 rwmixtrim=20 bs=4k",
            "rw=write bs=64k",
        ] {
            assert_eq!(prepared(&[&format!("{known} {end}")]), (false, true), "{known}");
        }
        for unknown in ["rw=randwrite bssplit=4k/50:16k/50", "rw=randwrite bs=16k blockalign=4k"] {
            assert!(prepared(&[&format!("{unknown} {end}")]).0, "{unknown}");
        }
        let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/traces/tpcc-part.trace");
        let trace = format!("trace={trace} trace_format=mqsim trace_remap=modulo");
        // It is filled, and nothing is expected before it has been written.
        assert_eq!(prepared(&[&trace]), (true, false));
    }
}
