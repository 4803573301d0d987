//! What each job of a load is to do, if the load fits the target.

use super::blocks::Blocks;
use super::draw::Draw;
use super::job::Plan;
use super::keys::{Keys, KeysPlan};
use super::values::Versions;
use super::verify::Verify;
use super::{Load, LoadError};
use crate::cpus;
use crate::host::namespace::{KeyValueNamespace, Namespace};
use crate::host::transport::{Facts, Features};
use mynah_stamp::Span;
use mynah_workload::{
    BlockSize, Extent, FlowSpec, KeyAction, KeyValueFlow, SECTOR_BYTES, Source, heat,
};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

/// The longest I/O of drawn lengths without an upper end.
const NORMAL_BYTES_MAX: u64 = 1 << 20;
/// Entries of a queue whose I/Os come at their times, if the target has so many.
const OPEN_ENTRIES: u32 = 1_024;
/// Queues do not have fewer entries than this unless it is asked for.
const ENTRIES_MIN: u32 = 32;
/// Looks without result before a job waits in the system: with a core to itself, and without.
const SPINS_ALONE: u32 = 20_000;
const SPINS_SHARED: u32 = 20;

/// What each job is to do with blocks.
pub(super) fn of_blocks(
    load: &Load,
    namespace: Namespace,
    identifiers: &[u16],
    facts: Facts,
    timeout: Span,
) -> Result<Vec<(Plan, Blocks)>, LoadError> {
    let unfit = |problem: String| Err(LoadError::Unfit(problem));
    let flow = &load.flow;
    let block_bytes = 1u64 << namespace.block_shift;
    let capacity = namespace.bytes() / SECTOR_BYTES;
    let no_trace = || {
        let problem = "a trace cannot be replayed on a target yet; --rw draws a workload";
        LoadError::Unfit(problem.into())
    };
    let Source::Synthetic(synthetic) = &flow.source else { return Err(no_trace()) };
    let mut bytes_max = 0;
    for flow in std::iter::once(flow).chain(&load.beside) {
        let Source::Synthetic(synthetic) = &flow.source else { return Err(no_trace()) };
        let (alignment, longest) = lengths(&synthetic.block);
        bytes_max = longest.max(bytes_max);
        if alignment % block_bytes != 0
            || !(synthetic.align_sectors * SECTOR_BYTES).is_multiple_of(block_bytes)
        {
            return unfit(format!(
                "the namespace has blocks of {block_bytes} bytes; block sizes (--bs) and alignment \
                 (--blockalign) must be multiples of that"
            ));
        }
    }
    let most = facts.transfer_bytes_max.min(65_536 * block_bytes).min(1 << 30);
    if bytes_max > most {
        return unfit(format!(
            "the target takes at most {most} bytes in a command, and block sizes (--bs) reach \
             {bytes_max}"
        ));
    }
    offers(load, facts.features)?;
    let plans = job_plans(load, facts, timeout, bytes_max as usize)?;
    let identifiers_of = |flow: &FlowSpec| match &flow.data_placement {
        Some(_) => identifiers.to_vec(),
        None => vec![],
    };
    let mut jobs = Vec::new();
    let run = RandomState::new().build_hasher().finish();
    for (job, plan) in (0..).zip(plans) {
        // Flushes follow writes that were taken, which only the job knows.
        let mut own = FlowSpec { flush_every: 0, ..flow.clone() };
        let mut verify = None;
        if load.verify {
            // Jobs that write the same blocks could not tell what should be there.
            let range = share(flow, capacity, block_bytes, job)?;
            if let Source::Synthetic(synthetic) = &mut own.source {
                synthetic.offset = Extent::Bytes(range.0);
                synthetic.size = Extent::Bytes(range.1);
            }
            let (base, blocks) = (range.0 / block_bytes, range.1 / block_bytes);
            let flushed = flow.flush_every > 0;
            verify = Some(Verify::new(namespace.block_shift, base, blocks, run, flushed));
        }
        let generator = own.generator(capacity, load.seed, load.index, job)?;
        let of_bytes = |sectors: u64| sectors.div_ceil(heat::mean_sectors(synthetic).max(1));
        let requests = plan.requests.or(generator.sectors_limit().map(of_bytes));
        let plan = Plan { requests, ..plan };
        let depth_max = flow.depth_max().map_or(usize::MAX, |depth| depth as usize);
        let draw = Draw::new(generator, plan.is_open, depth_max, flow.flush_every);
        let draw = (draw, identifiers_of(flow));
        let others = others(load, capacity, job)?.into_iter().zip(&load.beside);
        let others = others.map(|(draw, flow)| (draw, identifiers_of(flow))).collect();
        jobs.push((plan, Blocks::new(&plan, namespace, draw, others, verify)));
    }
    Ok(jobs)
}

/// Whether the target does everything that the load asks of it.
fn offers(load: &Load, features: Features) -> Result<(), LoadError> {
    let unfit = |problem: &str| Err(LoadError::Unfit(format!("{} {problem}", load.target)));
    for flow in std::iter::once(&load.flow).chain(&load.beside) {
        let Source::Synthetic(synthetic) = &flow.source else { continue };
        let mix = &synthetic.mix;
        if mix.write() > 0.0 && !features.writes {
            return unfit("is read-only; only reads (--rw read, randread) are possible");
        }
        if mix.trim > 0.0 && !features.trims {
            return unfit(
                "takes no trims; a workload without them (--rw, --rwmixtrim) is possible",
            );
        }
        if flow.flush_every > 0 && !features.flushes {
            return unfit("takes no flushes; a workload without --fsync is possible");
        }
        if flow.write_through && !features.writes_through {
            return unfit("has no writes that end on the medium (FUA); leave --sync out");
        }
    }
    Ok(())
}

/// The flows that go through a job's queue beside its own: as many I/Os of each are outstanding as it
/// says, until the job's own ends.
fn others(load: &Load, capacity: u64, job: u32) -> Result<Vec<Draw>, LoadError> {
    let other = |(number, flow): (usize, &FlowSpec)| {
        let Some(depth) = flow.depth_max().filter(|_| flow.depth().is_some()) else {
            let problem = "I/Os that come at a rate cannot share the queue of others";
            return Err(LoadError::Unfit(problem.into()));
        };
        if flow.flush_every > 0 {
            let problem = "no flushes (fsync) follow the writes of a flow on the queue of others";
            return Err(LoadError::Unfit(problem.into()));
        }
        let index = load.index + 1 + number as u32;
        let generator = flow.generator(capacity, load.seed, index, job)?;
        Ok(Draw::new(generator, false, depth as usize, 0))
    };
    load.beside.iter().enumerate().map(other).collect()
}

/// What each job is to do with keys.
pub(super) fn of_keys(
    load: &Load,
    namespace: KeyValueNamespace,
    facts: Facts,
    timeout: Span,
) -> Result<Vec<(Plan, Keys)>, LoadError> {
    let flow = &load.flow;
    let Source::KeyValue(keys) = &flow.source else {
        return Err(LoadError::Unfit("the namespace has keys, and the load is for blocks".into()));
    };
    fits(keys, namespace, facts)?;
    let lists = keys.mix.share(KeyAction::List) > 0.0;
    let list_bytes = if lists { keys.list_bytes(keys.list_keys.1) } else { 0 };
    let bytes_max = keys.buffer_bytes().max(list_bytes);
    let run = RandomState::new().build_hasher().finish();
    let versions = load.verify.then(|| Arc::new(Versions::new(run)));
    let depth_max = flow.depth_max().map_or(usize::MAX, |depth| depth as usize);
    let mut jobs = Vec::new();
    for (job, plan) in (0..).zip(job_plans(load, facts, timeout, bytes_max as usize)?) {
        let own = FlowSpec { flush_every: 0, ..flow.clone() };
        let generator = own.generator(0, load.seed, load.index, job)?;
        let each = keys.mix.only_stores().then(|| keys.keys.div_ceil(flow.jobs.into()));
        let plan = Plan { requests: plan.requests.or(each), ..plan };
        let work = KeysPlan {
            namespace: namespace.id,
            flow: keys.clone(),
            draw: Draw::new(generator, plan.is_open, depth_max, flow.flush_every),
            job: job.into(),
            jobs: flow.jobs.into(),
            fills: load.loads_keys && keys.initial_keys() > 0,
            versions: versions.clone(),
            only_flushed: flow.flush_every > 0,
        };
        jobs.push((plan, Keys::new(&plan, work)));
    }
    Ok(jobs)
}

/// Whether keys, values and lists are such as the namespace takes, and a command moves.
fn fits(keys: &KeyValueFlow, namespace: KeyValueNamespace, facts: Facts) -> Result<(), LoadError> {
    let unfit = |problem: String| Err(LoadError::Unfit(problem));
    let (key, most) = (keys.key_size.max(), namespace.key_bytes_max);
    if u16::from(key) > most {
        return unfit(format!(
            "the namespace takes keys of 1 to {most} bytes, and --key_size reaches {key}"
        ));
    }
    let (value, most) = (keys.value_size.max(), namespace.value_bytes_max);
    let movable = facts.transfer_bytes_max;
    if value > most {
        return unfit(format!(
            "the namespace takes values of at most {most} bytes, and --value_size reaches {value}"
        ));
    }
    if u64::from(value) > movable {
        return unfit(format!(
            "the target takes at most {movable} bytes in a command, and --value_size reaches {value}"
        ));
    }
    let list = keys.list_bytes(keys.list_keys.1);
    if keys.mix.share(KeyAction::List) > 0.0 && u64::from(list) > movable {
        return unfit(format!(
            "the target takes at most {movable} bytes in a command, and Lists (--list_keys) reach \
             {list}"
        ));
    }
    if let Some(most) = namespace.keys_max
        && keys.keys > most.into()
    {
        return unfit(format!(
            "the namespace takes at most {most} keys, and --keys asks for {}",
            keys.keys
        ));
    }
    Ok(())
}

/// How each job goes about its work.
fn job_plans(
    load: &Load,
    facts: Facts,
    timeout: Span,
    bytes_max: usize,
) -> Result<Vec<Plan>, LoadError> {
    let flow = &load.flow;
    let queue_entries = entries(load, facts)?;
    let cores = match &load.cpus {
        Some(cpus) => cpus.count(),
        None => cpus::cores_to_spare(),
    };
    let spins = if (flow.jobs as usize) <= cores { SPINS_ALONE } else { SPINS_SHARED };
    let plan = |job: u32| Plan {
        queue_id: job as u16 + 1,
        queue_entries,
        is_open: flow.depth().is_none(),
        bytes_max,
        ramp: load.ramp,
        requests: flow.limits.requests,
        runtime: flow.limits.runtime,
        timeout,
        reconnect: Span::from_ns(load.reconnect.as_nanos() as u64),
        transition: facts.transition,
        spins,
    };
    Ok((0..flow.jobs).map(plan).collect())
}

/// Entries of each I/O queue: as asked for, or as many as the load needs.
fn entries(load: &Load, facts: Facts) -> Result<u16, LoadError> {
    let most = facts.queue_entries_max;
    if let Some(entries) = load.queue_entries {
        return match u32::from(entries) <= most {
            true => Ok(entries),
            false => Err(LoadError::Unfit(format!(
                "queues have at most {most} entries here, and --queue-size asks for {entries}"
            ))),
        };
    }
    let Some(depth) = load.flow.depth_max() else {
        return Ok(OPEN_ENTRIES.min(most) as u16);
    };
    let others = load.beside.iter().filter_map(FlowSpec::depth_max);
    let depth = others.fold(depth, u32::saturating_add);
    // One entry of a queue is always free; the last I/O may wait for it here.
    if depth > most {
        return Err(LoadError::Unfit(format!(
            "the target's queues hold at most {} commands, and --iodepth asks for {depth}; more \
             queues (--numjobs) hold more",
            most - 1
        )));
    }
    Ok((depth + 1).max(ENTRIES_MIN).min(most) as u16)
}

/// What all block sizes are multiples of, and the longest, in bytes.
fn lengths(block: &BlockSize) -> (u64, u64) {
    let bytes = |sectors: u32| u64::from(sectors) * SECTOR_BYTES;
    match block {
        BlockSize::Fixed(sectors) => (bytes(*sectors), bytes(*sectors)),
        BlockSize::Normal { .. } => (SECTOR_BYTES, NORMAL_BYTES_MAX),
        BlockSize::Range { min, max } => (bytes(*min), bytes(*max)),
        BlockSize::Each(each) => {
            each.iter().map(lengths).fold((0, 0), |(common, most), (one, longest)| {
                (greatest_common_divisor(common, one), most.max(longest))
            })
        }
        BlockSize::Split(parts) => {
            let all = || parts.iter().map(|&(sectors, _)| sectors);
            let common = all().map(bytes).fold(0, greatest_common_divisor);
            (common, bytes(all().max().unwrap_or(1)))
        }
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// The part of the flow's working set that is one job's own: offset and length in bytes.
fn share(
    flow: &FlowSpec,
    capacity_sectors: u64,
    block_bytes: u64,
    job: u32,
) -> Result<(u64, u64), LoadError> {
    let Source::Synthetic(synthetic) = &flow.source else { unreachable!("traces are refused") };
    let align = (synthetic.align_sectors * SECTOR_BYTES).max(block_bytes);
    let (offset, size) = flow.range(capacity_sectors)?;
    let (offset, size) = (offset * SECTOR_BYTES, size * SECTOR_BYTES);
    let each = size / u64::from(flow.jobs) / align * align;
    if each == 0 {
        let jobs = flow.jobs;
        return Err(LoadError::Unfit(format!(
            "with --verify every job has its own part of the working set, and {size} bytes are \
             too few for {jobs} jobs"
        )));
    }
    Ok((offset + each * u64::from(job), each))
}
