//! The workload: MQSim's `MQSim_IO_Scenarios`.
//!
//! Each flow of a scenario has a queue pair and a namespace of its own. A namespace offers
//! what its planes have left after over-provisioning, divided by the number of flows that
//! use the plane.

use super::drive::{Drive, Use};
use super::section::Section;
use super::xml::{Document, Element};
use super::{MAX_SCENARIOS, MqsimError, Scenario, Warnings};
use crate::experiment::Precondition;
use mynah_model::config::{
    CacheMode, CacheSharing, CachedTable, Caching, CmtSharing, Config, DataCache, Geometry,
    MappingTable, Namespace, NamespaceKind, Priority,
};
use mynah_model::io::NamespaceId;
use mynah_stamp::Span;
use mynah_workload::trace::{Remap, TraceFormat};
use mynah_workload::{
    Addresses, Arrivals, BlockSize, Extent, FlowSpec, Limits, Mix, Mode, Positions, SECTOR_BYTES,
    Schedule, Source, Start, Synthetic, TraceSource,
};
use std::path::PathBuf;

/// MQSim's host has registers for so many queues.
const MAX_FLOWS: usize = 8;

const COMMON: &[&str] = &[
    "Priority_Class",
    "Device_Level_Data_Caching_Mode",
    "Channel_IDs",
    "Chip_IDs",
    "Die_IDs",
    "Plane_IDs",
    "Initial_Occupancy_Percentage",
];

const SYNTHETIC: &[&str] = &[
    "Working_Set_Percentage",
    "Synthetic_Generator_Type",
    "Read_Percentage",
    "Address_Distribution",
    "Percentage_of_Hot_Region",
    "Generated_Aligned_Addresses",
    "Address_Alignment_Unit",
    "Request_Size_Distribution",
    "Average_Request_Size",
    "Variance_Request_Size",
    "Seed",
    "Average_No_of_Reqs_in_Queue",
    "Bandwidth",
    "Stop_Time",
    "Total_Requests_To_Generate",
];

const TRACE: &[&str] = &["File_Path", "Percentage_To_Be_Executed", "Relay_Count", "Time_Unit"];

const SYNTHETIC_FLOW: &str = "IO_Flow_Parameter_Set_Synthetic";
const TRACE_FLOW: &str = "IO_Flow_Parameter_Set_Trace_Based";

#[derive(Clone, Copy, PartialEq, Eq)]
enum CachingMode {
    Off,
    Write,
    Read,
    WriteRead,
}

/// A flow and what it asks of the drive.
struct Flow<'d> {
    element: &'d Element,
    caching: Option<(&'d Element, CachingMode)>,
    spec: FlowSpec,
    namespace: Namespace,
    reads: bool,
}

pub(super) fn read(
    document: &Document,
    drive: &Drive<'_>,
    as_mqsim: bool,
    warnings: &mut Warnings,
) -> Result<Vec<Scenario>, MqsimError> {
    let root = &document.root;
    if root.name != "MQSim_IO_Scenarios" {
        let message = "not an MQSim workload: the first element of one is <MQSim_IO_Scenarios>";
        return Err(document.error(root, message));
    }
    Section::new(document, Some(root), &[], &["IO_Scenario"], warnings)?;
    let mut scenarios = Vec::new();
    for element in root.children.iter().filter(|child| child.name == "IO_Scenario") {
        if scenarios.len() == MAX_SCENARIOS {
            return Err(document.error(element, format!("more than {MAX_SCENARIOS} scenarios")));
        }
        let name = format!("scenario-{}", scenarios.len() + 1);
        scenarios.push(scenario(document, element, name, drive, as_mqsim, warnings)?);
    }
    if scenarios.is_empty() {
        return Err(document.error(root, "no <IO_Scenario>"));
    }
    Ok(scenarios)
}

fn scenario(
    document: &Document,
    element: &Element,
    name: String,
    drive: &Drive<'_>,
    as_mqsim: bool,
    warnings: &mut Warnings,
) -> Result<Scenario, MqsimError> {
    Section::new(document, Some(element), &[], &[SYNTHETIC_FLOW, TRACE_FLOW], warnings)?;
    let mut flows = Vec::new();
    for child in &element.children {
        if child.name != SYNTHETIC_FLOW && child.name != TRACE_FLOW {
            continue;
        }
        if flows.len() == MAX_FLOWS {
            return Err(document.error(child, format!("more than {MAX_FLOWS} flows")));
        }
        flows.push(flow(document, child, flows.len(), drive, as_mqsim, warnings)?);
    }
    if flows.is_empty() {
        return Err(document.error(element, "no flows"));
    }

    let mut config = drive.config.clone();
    let mode = cache_flows(document, &mut flows, as_mqsim, warnings);
    config.cache = config.cache.zip(mode).map(|(cache, mode)| {
        let sharing = if flows.len() > 1 { cache.sharing } else { CacheSharing::Shared };
        let write_back_max = cache.write_back_max.filter(|_| mode.writes());
        DataCache { mode, sharing, write_back_max, ..cache }
    });
    let usage = Use {
        writes: flows.iter().any(|flow| flow.spec.modifies()),
        caches: mode.is_some(),
        caches_reads: mode.is_some_and(CacheMode::reads),
        partitions: config.cache.is_some_and(|cache| cache.sharing != CacheSharing::Shared),
    };
    drive.check(&usage, warnings)?;
    if let Some(element) = drive.cache_sharing.filter(|_| !usage.partitions)
        && drive.config.cache.is_some_and(|cache| cache.sharing != CacheSharing::Shared)
    {
        let text = format!("{} has no effect in this run", element.text);
        warnings.add(drive.document, element, text);
    }
    if let Some(element) = drive.cmt_sharing.filter(|_| flows.len() > 1)
        && let MappingTable::Cached(CachedTable { sharing: CmtSharing::Private, .. }) =
            config.mapping.table
    {
        let message = "in MQSim each flow has a table of the full size whatever this says, and \
                       so it has in this run";
        warnings.add(drive.document, element, message);
    }
    let geometry = config.geometry;
    let sharing = sharing(&geometry, &flows);
    for flow in &mut flows {
        let units = units(&geometry, config.over_provisioning, &flow.namespace, &sharing);
        if units == 0 {
            return Err(document.error(flow.element, "its planes leave it no capacity"));
        }
        flow.namespace.units = Some(units);
    }
    if !usage.writes {
        leave_out_untouched(document, &config, &mut flows, warnings);
    }
    if let Some(flow) = flows.iter().find(|flow| flow.reads)
        && drive.precondition == Precondition::None
        && !as_mqsim
    {
        let message = "without preconditioning, addresses never written read as zeros at once \
                       (--precondition steady fills the drive, --as-mqsim reads flash as MQSim)";
        warnings.add(document, flow.element, message);
    }
    let (specs, namespaces) = flows.into_iter().map(|flow| (flow.spec, flow.namespace)).unzip();
    config.namespaces = namespaces;
    Ok(Scenario { name, config, flows: specs, precondition: drive.precondition })
}

/// A drive too small to collect garbage with all its addresses in use can still be read, as
/// far as the flows go: what lies beyond their working sets is left out.
fn leave_out_untouched(
    document: &Document,
    config: &Config,
    flows: &mut [Flow<'_>],
    warnings: &mut Warnings,
) {
    let namespaces = flows.iter().map(|flow| flow.namespace.clone()).collect();
    if (Config { namespaces, ..config.clone() }).check().is_ok() {
        return;
    }
    for flow in flows {
        let Source::Synthetic(synthetic) = &mut flow.spec.source else { continue };
        let (Extent::Share(share), Some(units)) = (synthetic.size, flow.namespace.units) else {
            continue;
        };
        if share < 1.0 {
            let sectors_per_unit = config.mapping.unit_bytes / SECTOR_BYTES as u32;
            let sectors = (units * u64::from(sectors_per_unit)) as f64 * share;
            synthetic.size = Extent::Bytes(sectors as u64 * SECTOR_BYTES);
            flow.namespace.units = Some((sectors as u64).div_ceil(sectors_per_unit.into()));
            flow.spec.occupancy = flow.spec.occupancy.map(|occupied| (occupied / share).min(1.0));
            let message = "the drive is too small to collect garbage with all its addresses in \
                           use; those outside the working set are left out";
            warnings.add(document, flow.element, message);
        }
    }
}

/// Says of each flow's namespace what of it the data cache holds, as far as the flow makes use
/// of it; returns what the cache holds of all, or `None` if it is not used.
fn cache_flows(
    document: &Document,
    flows: &mut [Flow<'_>],
    as_mqsim: bool,
    warnings: &mut Warnings,
) -> Option<CacheMode> {
    let mode = |writes, reads| match (writes, reads) {
        (false, false) => None,
        (true, false) => Some(CacheMode::Write),
        (false, true) => Some(CacheMode::Read),
        (true, true) => Some(CacheMode::Both),
    };
    let used = |flow: &Flow<'_>| {
        let requested = flow.caching.map_or(CachingMode::Off, |(_, mode)| mode);
        let writes = matches!(requested, CachingMode::Write | CachingMode::WriteRead);
        let reads = matches!(requested, CachingMode::Read | CachingMode::WriteRead);
        (writes && flow.spec.modifies(), reads && flow.reads)
    };
    let all = flows
        .iter()
        .map(used)
        .fold((false, false), |all, (writes, reads)| (all.0 | writes, all.1 | reads));
    let all = mode(all.0, all.1)?;
    for flow in flows {
        let (writes, reads) = used(flow);
        let own = mode(writes, reads);
        // What a flow never does need not be kept apart.
        let differs = (!writes && all.writes() && flow.spec.modifies())
            || (!reads && all.reads() && flow.reads);
        flow.namespace.caching = if differs { Caching::Only(own) } else { Caching::Cache };
        if let Some((element, _)) = flow.caching.filter(|_| as_mqsim && writes) {
            let message = match reads {
                false => {
                    "MQSim keeps pages that are written twice within a second; here every page is \
                     written back at once"
                }
                true => {
                    "MQSim keeps pages that are written twice within a second, and drops the \
                     others when they are on flash; here every page is written back at once, and \
                     stays"
                }
            };
            warnings.add(document, element, message);
        }
    }
    Some(all)
}

/// For each plane, how many flows use it.
fn sharing(geometry: &Geometry, flows: &[Flow<'_>]) -> Vec<u32> {
    let mut sharing = vec![0; geometry.planes() as usize];
    for flow in flows {
        for plane in planes(geometry, &flow.namespace) {
            sharing[plane] += 1;
        }
    }
    sharing
}

/// The indices of a namespace's planes.
fn planes(geometry: &Geometry, namespace: &Namespace) -> impl Iterator<Item = usize> {
    let all = |ids: &[u32], count: u32| {
        if ids.is_empty() { (0..count).collect() } else { ids.to_vec() }
    };
    let channels = all(&namespace.channels, geometry.channels);
    let chips = all(&namespace.chips, geometry.chips_per_channel);
    let dies = all(&namespace.dies, geometry.dies_per_chip);
    let planes = all(&namespace.planes, geometry.planes_per_die);
    let mut indices = Vec::new();
    for channel in &channels {
        for chip in &chips {
            for die in &dies {
                for plane in &planes {
                    let index = channel * geometry.chips_per_channel + chip;
                    let index = index * geometry.dies_per_chip + die;
                    indices.push((index * geometry.planes_per_die + plane) as usize);
                }
            }
        }
    }
    indices.into_iter()
}

/// A namespace's capacity in pages.
fn units(
    geometry: &Geometry,
    over_provisioning: f64,
    namespace: &Namespace,
    sharing: &[u32],
) -> u64 {
    let pages = f64::from(geometry.blocks_per_plane) * f64::from(geometry.pages_per_block);
    planes(geometry, namespace)
        .map(|plane| (pages * (1.0 - over_provisioning) / f64::from(sharing[plane])) as u64)
        .sum()
}

fn flow<'d>(
    document: &'d Document,
    element: &'d Element,
    index: usize,
    drive: &Drive<'_>,
    as_mqsim: bool,
    warnings: &mut Warnings,
) -> Result<Flow<'d>, MqsimError> {
    let synthetic = element.name == SYNTHETIC_FLOW;
    let known = [COMMON, if synthetic { SYNTHETIC } else { TRACE }].concat();
    let section = Section::new(document, Some(element), &known, &[], warnings)?;
    let (source, limits) = if synthetic {
        let drawn = source(&section, as_mqsim, warnings)?;
        (Source::Synthetic(drawn), limits(&section, warnings)?)
    } else {
        (Source::Trace(trace(&section, as_mqsim, warnings)?), Limits::default())
    };
    let reads = match &source {
        Source::Synthetic(synthetic) => synthetic.mix.read > 0.0,
        Source::Trace(_) | Source::KeyValue(_) | Source::Front(_) => true,
    };
    let caching = section.choice(
        "Device_Level_Data_Caching_Mode",
        &[
            ("TURNED_OFF", CachingMode::Off),
            ("WRITE_CACHE", CachingMode::Write),
            ("READ_CACHE", CachingMode::Read),
            ("WRITE_READ_CACHE", CachingMode::WriteRead),
        ],
    )?;
    let priority = section.choice(
        "Priority_Class",
        &[
            ("URGENT", Priority::Urgent),
            ("HIGH", Priority::High),
            ("MEDIUM", Priority::Medium),
            ("LOW", Priority::Low),
        ],
    )?;
    let scheduler = &drive.config.scheduler;
    if !scheduler.priority_classes && scheduler.flin.is_none() {
        let reason = "the scheduling policy has no priority classes";
        section.idle(&["Priority_Class"], reason, warnings);
    }
    if drive.precondition == Precondition::None {
        let reason = "the drive is not preconditioned (--precondition would do so)";
        section.idle(&["Initial_Occupancy_Percentage"], reason, warnings);
    }
    let geometry = &drive.config.geometry;
    let occupancy = section.count("Initial_Occupancy_Percentage", 0..=100)?;
    Ok(Flow {
        element,
        caching: section.get("Device_Level_Data_Caching_Mode").zip(caching),
        spec: FlowSpec {
            data_placement: None,
            name: format!("flow-{}", index + 1),
            namespace: NamespaceId(index as u32 + 1),
            priority: priority.unwrap_or_default(),
            port: 0,
            jobs: 1,
            source,
            limits,
            schedule: Schedule::default(),
            after_previous: false,
            flush_every: 0,
            write_through: false,
            seed: if synthetic { section.seed("Seed")? } else { None },
            occupancy: occupancy.map(|percent| percent as f64 / 100.0),
        },
        namespace: Namespace {
            handles: vec![],
            units: None,
            channels: section.ids("Channel_IDs", geometry.channels)?,
            chips: section.ids("Chip_IDs", geometry.chips_per_channel)?,
            dies: section.ids("Die_IDs", geometry.dies_per_chip)?,
            planes: section.ids("Plane_IDs", geometry.planes_per_die)?,
            caching: Caching::Cache,
            kind: NamespaceKind::Blocks,
        },
        reads,
    })
}

fn limits(section: &Section<'_>, warnings: &mut Warnings) -> Result<Limits, MqsimError> {
    // Time is counted in picoseconds and ends after 213 days.
    let stop = section.count("Stop_Time", 0..=u64::MAX / 1000)?.unwrap_or(0);
    if stop > 0 {
        let reason = "<Stop_Time> ends the flow";
        section.idle(&["Total_Requests_To_Generate"], reason, warnings);
        return Ok(Limits { runtime: Some(Span::from_ns(stop)), ..Limits::default() });
    }
    match section.count("Total_Requests_To_Generate", 0..=u64::MAX)?.unwrap_or(0) {
        0 => {
            let element = section.get("Total_Requests_To_Generate").or(section.element);
            let message = "the flow has no requests: <Stop_Time> and \
                           <Total_Requests_To_Generate> are both 0 or absent";
            Err(section.document.error(element.unwrap_or(&section.document.root), message))
        }
        requests => Ok(Limits { requests: Some(requests), ..Limits::default() }),
    }
}

/// The value of a tag that has no default.
fn needed<T>(
    section: &Section<'_>,
    tag: &str,
    value: Result<Option<T>, MqsimError>,
) -> Result<T, MqsimError> {
    value?.ok_or_else(|| section.missing(tag))
}

fn source(
    section: &Section<'_>,
    as_mqsim: bool,
    warnings: &mut Warnings,
) -> Result<Synthetic, MqsimError> {
    let count = |tag, range| needed(section, tag, section.count(tag, range));
    let size = count("Average_Request_Size", 1..=u64::from(u32::MAX))?;
    let normal = section
        .choice("Request_Size_Distribution", &[("FIXED", false), ("NORMAL", true)])?
        .unwrap_or(false);
    let block = if normal {
        // The tag is called variance; MQSim uses it as the standard deviation.
        let deviation = count("Variance_Request_Size", 0..=u64::from(u32::MAX))? as f64;
        BlockSize::Normal { mean: size as f64, deviation }
    } else {
        section.idle(&["Variance_Request_Size"], "requests have a fixed size", warnings);
        BlockSize::Fixed(size as u32)
    };
    #[derive(Clone, Copy)]
    enum Distribution {
        Streaming,
        Uniform,
        HotCold,
    }
    const DISTRIBUTION: &str = "Address_Distribution";
    const MIXED: &str = "MIXED_STREAMING_RANDOM";
    if let Some(element) = section.get(DISTRIBUTION)
        && element.text.eq_ignore_ascii_case(MIXED)
    {
        let message = format!(
            "MQSim's manual has {MIXED}, but no tag says how many requests are random, and MQSim \
             does not read it; in an experiment file, percentage_random says it"
        );
        return Err(section.document.error(element, message));
    }
    let distribution = section.choice(
        DISTRIBUTION,
        &[
            ("STREAMING", Distribution::Streaming),
            ("RANDOM_UNIFORM", Distribution::Uniform),
            ("RANDOM_HOTCOLD", Distribution::HotCold),
        ],
    );
    let distribution = needed(section, DISTRIBUTION, distribution)?;
    if !matches!(distribution, Distribution::HotCold) {
        let reason = "no addresses are hotter than others";
        section.idle(&["Percentage_of_Hot_Region"], reason, warnings);
    }
    let read = count("Read_Percentage", 0..=100)? as f64 / 100.0;
    let addresses = match distribution {
        Distribution::Streaming => {
            // Requests of one kind go on where the last one ended either way.
            let mixed = read > 0.0 && read < 1.0;
            let positions = if mixed { Positions::Shared } else { Positions::EachOperation };
            Addresses::Sequential { start: Start::Random, positions }
        }
        Distribution::Uniform => Addresses::Uniform,
        Distribution::HotCold => {
            let hot = count("Percentage_of_Hot_Region", 1..=99)? as f64 / 100.0;
            Addresses::HotCold { hot_access: 1.0 - hot, hot_space: hot }
        }
    };
    let align_sectors = match section.flag("Generated_Aligned_Addresses")? {
        Some(true) => count("Address_Alignment_Unit", 1..=u64::from(u32::MAX))?,
        _ => {
            section.idle(&["Address_Alignment_Unit"], "addresses are not aligned", warnings);
            1
        }
    };
    let open = section
        .choice("Synthetic_Generator_Type", &[("QUEUE_DEPTH", false), ("BANDWIDTH", true)])?;
    let mode = if open.unwrap_or(false) {
        let reason = "the flow has a bandwidth, however many requests are outstanding";
        section.idle(&["Average_No_of_Reqs_in_Queue"], reason, warnings);
        let mean = interval(section, size, as_mqsim)?;
        Mode::Open { arrivals: Arrivals::Exponential { mean }, depth: None }
    } else {
        let reason = "the flow keeps a number of requests outstanding";
        section.idle(&["Bandwidth"], reason, warnings);
        let depth = count("Average_No_of_Reqs_in_Queue", 1..=65_535)? as u32;
        Mode::Closed { depth }
    };
    let working_set = section.count("Working_Set_Percentage", 1..=100)?.unwrap_or(100);
    Ok(Synthetic {
        mode,
        mix: Mix { read, trim: 0.0 },
        addresses,
        block,
        align_sectors,
        offset: Extent::ZERO,
        size: Extent::Share(working_set as f64 / 100.0),
    })
}

/// The mean interval between the requests of a flow with a given bandwidth.
fn interval(section: &Section<'_>, size: u64, as_mqsim: bool) -> Result<Span, MqsimError> {
    const TAG: &str = "Bandwidth";
    let bandwidth = needed(section, TAG, section.count(TAG, 1..=u64::MAX))?;
    let mean = if as_mqsim {
        let per_second = bandwidth / SECTOR_BYTES / size;
        1_000_000_000u64.checked_div(per_second).map(Span::from_ns)
    } else {
        let ps =
            u128::from(size) * u128::from(SECTOR_BYTES) * 1_000_000_000_000 / u128::from(bandwidth);
        u64::try_from(ps).ok().map(Span::from_ps)
    };
    match mean {
        Some(mean) if !mean.is_zero() => Ok(mean),
        _ => Err(section.document.error(
            section.get(TAG).or(section.element).unwrap_or(&section.document.root),
            format!(
                "`{bandwidth}` bytes a second and requests of {size} sectors leave no usable \
                     interval between requests"
            ),
        )),
    }
}

fn trace(
    section: &Section<'_>,
    as_mqsim: bool,
    warnings: &mut Warnings,
) -> Result<TraceSource, MqsimError> {
    let path = section.get("File_Path").ok_or_else(|| section.missing("File_Path"))?;
    if path.text.is_empty() {
        return Err(section.document.error(path, "no file is named"));
    }
    let repeat = section.count("Relay_Count", 1..=u64::from(u32::MAX))?.unwrap_or(1) as u32;
    let mut percent = section.count("Percentage_To_Be_Executed", 1..=100)?.unwrap_or(100);
    let mut tick = section
        .choice(
            "Time_Unit",
            &[
                ("PICOSECOND", Span::from_ps(1)),
                ("NANOSECOND", Span::from_ns(1)),
                ("MICROSECOND", Span::from_us(1)),
            ],
        )?
        .unwrap_or(Span::from_ns(1));
    if as_mqsim {
        if let Some(element) = section.get("Time_Unit").filter(|_| tick != Span::from_ns(1)) {
            let message = "MQSim takes every trace to count nanoseconds, and so does this run";
            warnings.add(section.document, element, message);
            tick = Span::from_ns(1);
        }
        if let Some(element) =
            section.get("Percentage_To_Be_Executed").filter(|_| repeat != 1 && percent != 100)
        {
            let message = "MQSim ignores this if Relay_Count is not 1, and so does this run";
            warnings.add(section.document, element, message);
            percent = 100;
        }
    }
    Ok(TraceSource {
        tick,
        remap: Remap::Modulo,
        share: percent as f64 / 100.0,
        repeat,
        ..TraceSource::new(PathBuf::from(&path.text), TraceFormat::Mqsim)
    })
}
