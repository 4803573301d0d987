//! The drive: MQSim's `Execution_Parameter_Set`. A tag that is absent has the value MQSim's
//! source gives it.

use super::section::Section;
use super::xml::{Document, Element};
use super::{MqsimError, Warnings};
use crate::experiment::Precondition;
use mynah_model::config::*;
use mynah_stamp::Span;

/// What a scenario does with the drive, as far as it decides whether a setting matters.
pub(super) struct Use {
    /// Any flow writes.
    pub(super) writes: bool,
    /// Any flow uses the data cache; any for its reads.
    pub(super) caches: bool,
    pub(super) caches_reads: bool,
    /// Flows have parts of the cache.
    pub(super) partitions: bool,
}

/// A setting the model does not have, and when that matters.
struct Missing<'d> {
    element: &'d Element,
    message: &'static str,
    matters: fn(&Use) -> bool,
}

/// The drive file, read.
pub(super) struct Drive<'d> {
    pub(super) document: &'d Document,
    /// The drive with its data cache, and without namespaces.
    pub(super) config: Config,
    pub(super) precondition: Precondition,
    /// `CMT_Sharing_Mode`, where there is a table to share.
    pub(super) cmt_sharing: Option<&'d Element>,
    /// `Data_Cache_Sharing_Mode`.
    pub(super) cache_sharing: Option<&'d Element>,
    missing: Vec<Missing<'d>>,
}

impl Drive<'_> {
    /// Refuses what is missing and matters, warns of the rest.
    pub(super) fn check(&self, usage: &Use, warnings: &mut Warnings) -> Result<(), MqsimError> {
        for Missing { element, message, matters } in &self.missing {
            if matters(usage) {
                let text = format!("{} is not modelled: {message}", element.text);
                return Err(self.document.error(element, text));
            }
            let text = format!("{} has no effect in this run", element.text);
            warnings.add(self.document, element, text);
        }
        Ok(())
    }
}

const HOST: &[&str] = &[
    "PCIe_Lane_Bandwidth",
    "PCIe_Lane_Count",
    "SATA_Processing_Delay",
    "Enable_ResponseTime_Logging",
    "ResponseTime_Logging_Period_Length",
];

const DEVICE: &[&str] = &[
    "Seed",
    "Enabled_Preconditioning",
    "Memory_Type",
    "HostInterface_Type",
    "IO_Queue_Depth",
    "Queue_Fetch_Size",
    "Caching_Mechanism",
    "Data_Cache_Sharing_Mode",
    "Data_Cache_Capacity",
    "Data_Cache_DRAM_Row_Size",
    "Data_Cache_DRAM_Data_Rate",
    "Data_Cache_DRAM_Data_Busrt_Size",
    "Data_Cache_DRAM_tRCD",
    "Data_Cache_DRAM_tCL",
    "Data_Cache_DRAM_tRP",
    "Address_Mapping",
    "Ideal_Mapping_Table",
    "CMT_Capacity",
    "CMT_Sharing_Mode",
    "Plane_Allocation_Scheme",
    "Transaction_Scheduling_Policy",
    "Overprovisioning_Ratio",
    "GC_Exec_Threshold",
    "GC_Block_Selection_Policy",
    "Use_Copyback_for_GC",
    "Preemptible_GC_Enabled",
    "GC_Hard_Threshold",
    "Dynamic_Wearleveling_Enabled",
    "Static_Wearleveling_Enabled",
    "Static_Wearleveling_Threshold",
    "Preferred_suspend_erase_time_for_read",
    "Prefered_suspend_erase_time_for_read",
    "Preferred_suspend_erase_time_for_write",
    "Preferred_suspend_write_time_for_read",
    "Flash_Channel_Count",
    "Flash_Channel_Width",
    "Channel_Transfer_Rate",
    "Chip_No_Per_Channel",
    "Flash_Comm_Protocol",
];

const FLASH: &[&str] = &[
    "Flash_Technology",
    "CMD_Suspension_Support",
    "Page_Read_Latency_LSB",
    "Page_Read_Latency_CSB",
    "Page_Read_Latency_MSB",
    "Page_Program_Latency_LSB",
    "Page_Program_Latency_CSB",
    "Page_Program_Latency_MSB",
    "Block_Erase_Latency",
    "Block_PE_Cycles_Limit",
    "Suspend_Erase_Time",
    "Suspend_Program_Time",
    "Die_No_Per_Chip",
    "Plane_No_Per_Die",
    "Block_No_Per_Plane",
    "Page_No_Per_Block",
    "Page_Capacity",
    "Page_Metadat_Capacity",
];

/// Delays longer than this are typing errors: about a quarter of an hour.
const MAX_NS: u64 = 1_000_000_000_000;

/// Free blocks a plane keeps back from host writes: MQSim stops them below 10 free blocks.
const RESERVE_BLOCKS: u32 = 9;

pub(super) fn read<'d>(
    document: &'d Document,
    as_mqsim: bool,
    warnings: &mut Warnings,
) -> Result<Drive<'d>, MqsimError> {
    let root = &document.root;
    if root.name != "Execution_Parameter_Set" {
        let message = "not an MQSim drive: the first element of one is <Execution_Parameter_Set>";
        return Err(document.error(root, message));
    }
    let sets = ["Host_Parameter_Set", "Device_Parameter_Set"];
    Section::new(document, Some(root), &[], &sets, warnings)?;
    let find = |parent: Option<&'d Element>, name: &str| {
        parent.and_then(|parent| parent.children.iter().find(|child| child.name == name))
    };
    let [host, device] = sets.map(|name| find(Some(root), name));
    let flash = find(device, "Flash_Parameter_Set");
    let host = Section::new(document, host, HOST, &[], warnings)?;
    let device = Section::new(document, device, DEVICE, &["Flash_Parameter_Set"], warnings)?;
    let flash = Section::new(document, flash, FLASH, &[], warnings)?;

    if host.flag("Enable_ResponseTime_Logging")? == Some(true)
        && let Some(element) = host.get("Enable_ResponseTime_Logging")
    {
        warnings.add(document, element, "no log is written; --intervals writes one");
    }
    host.count("ResponseTime_Logging_Period_Length", 0..=u64::MAX)?;
    let log = "no log is written; --intervals writes one";
    host.idle(&["ResponseTime_Logging_Period_Length"], log, warnings);
    let geometry = geometry(&device, &flash)?;
    let mut missing = Vec::new();
    refuse_unsupported(&device, as_mqsim, &mut missing)?;

    let ns = |section: &Section<'_>, tag: &str, default: u64| {
        section.count(tag, 0..=MAX_NS).map(|ns| Span::from_ns(ns.unwrap_or(default)))
    };
    let cells = [("SLC", CellType::Slc), ("MLC", CellType::Mlc), ("TLC", CellType::Tlc)];
    let cell = flash.choice("Flash_Technology", &cells)?.unwrap_or(CellType::Mlc);
    let page_times = |kind: &str, default: u64| {
        let time = |bit: &str| ns(&flash, &format!("Page_{kind}_Latency_{bit}"), default);
        let (lsb, csb, msb) = (time("LSB")?, time("CSB")?, time("MSB")?);
        let (csb, msb) = match cell {
            CellType::Slc => (lsb, lsb),
            CellType::Mlc => (lsb, msb),
            _ => (csb, msb),
        };
        Ok::<_, MqsimError>(PageTimes { lsb, csb, msb, fourth: msb, fifth: msb })
    };
    const CSB: [&str; 2] = ["Page_Read_Latency_CSB", "Page_Program_Latency_CSB"];
    const MSB: [&str; 2] = ["Page_Read_Latency_MSB", "Page_Program_Latency_MSB"];
    match cell {
        CellType::Slc => flash.idle(&[CSB, MSB].concat(), "SLC has no such pages", warnings),
        CellType::Mlc => flash.idle(&CSB, "MLC has no such pages", warnings),
        _ => {}
    }
    let spare = "spare bytes are not transferred, as in MQSim";
    flash.idle(&["Page_Metadat_Capacity"], spare, warnings);
    let flash_timing = FlashTiming {
        cell,
        read: page_times("Read", 75_000)?,
        program: page_times("Program", 750_000)?,
        erase: ns(&flash, "Block_Erase_Latency", 3_800_000)?,
        read_ready_delay: Span::from_ns(20),
        rewritable: false,
        one_shot: false,
    };

    let rate_mts = device.count("Channel_Transfer_Rate", 1..=10_000)?.unwrap_or(300) as u32;
    if as_mqsim
        && rate_mts > 1000
        && let Some(element) = device.get("Channel_Transfer_Rate")
    {
        let message =
            "above 1000 MT/s MQSim rounds transfer times to nothing, and so does this run";
        warnings.add(document, element, message);
    }
    let lane_gb = host.number("PCIe_Lane_Bandwidth", 1000.0)?.unwrap_or(0.4);
    let lanes = host.count("PCIe_Lane_Count", 1..=64)?.unwrap_or(4) as u32;
    let bytes_per_s = (lane_gb * f64::from(lanes) * 1e9).round() as u64;
    if bytes_per_s == 0 {
        return Err(document
            .error(host.get("PCIe_Lane_Bandwidth").unwrap_or(root), "less than a byte a second"));
    }

    let config = Config {
        geometry,
        flash: flash_timing,
        bus: Bus {
            width_bytes: device.count("Flash_Channel_Width", 1..=64)?.unwrap_or(1) as u32,
            rate_mts,
            cycles: BusCycles {
                t_cs: Span::from_ns(20),
                t_wc: Span::from_ns(25),
                t_wb: Span::from_ns(100),
                t_rr: Span::from_ns(20),
                t_adl: Span::from_ns(70),
                t_dbsy: Span::from_ns(500),
                t_cals: Span::from_ns(15),
                t_wpst: Span::from_ns(6),
                t_wpsth: Span::from_ns(15),
            },
            rounding: if as_mqsim { BusRounding::TruncatedNs } else { BusRounding::Exact },
            transfer_spare: false,
            arbitration: if as_mqsim {
                BusArbitration::DataFirst
            } else {
                BusArbitration::CommandFirst
            },
        },
        link: Link {
            protocol: LinkProtocol::Pcie,
            adapter: Span::ZERO,
            bytes_per_s,
            lanes,
            max_payload_bytes: 128,
            packet_overhead_bytes: 28,
            submission_entry_bytes: if as_mqsim { 72 } else { 64 },
            fetch_prp_lists: !as_mqsim,
            interrupt: Span::ZERO,
            stream_data: !as_mqsim,
            truncate_ns: as_mqsim,
        },
        queues: Queues {
            fetch_size: device.count("Queue_Fetch_Size", 1..=65_535)?.unwrap_or(512) as u32,
            entries: device.count("IO_Queue_Depth", 2..=65_535)?.unwrap_or(1024) as u32,
            arbitration: Arbitration::RoundRobin,
            arbitration_burst: 1,
            command_slots: 65_536,
        },
        firmware: Firmware {
            cores: 1,
            read: Span::ZERO,
            write: Span::ZERO,
            trim: Span::ZERO,
            flush: Span::ZERO,
        },
        cache: Some(DataCache {
            bytes: device.count("Data_Cache_Capacity", 1..=u64::MAX)?.unwrap_or(512 << 20),
            dram: Dram {
                row_bytes: device.count32("Data_Cache_DRAM_Row_Size", 8192)?,
                // MQSim moves two bursts in one period of the data rate.
                width_bytes: device
                    .count32("Data_Cache_DRAM_Data_Busrt_Size", 4)?
                    .saturating_mul(2),
                rate_mts: device.count32("Data_Cache_DRAM_Data_Rate", 800)?,
                // It transfers what it needs, and activates the row for each access.
                burst_length: 1,
                rows: RowPolicy::Closed,
                traffic: DramTraffic::Host,
                t_rcd: ns(&device, "Data_Cache_DRAM_tRCD", 13)?,
                t_cl: ns(&device, "Data_Cache_DRAM_tCL", 13)?,
                t_rp: ns(&device, "Data_Cache_DRAM_tRP", 13)?,
            },
            mode: CacheMode::Both,
            // Each flow has a namespace of its own.
            sharing: device
                .choice(
                    "Data_Cache_Sharing_Mode",
                    &[
                        ("SHARED", CacheSharing::Shared),
                        ("EQUAL_PARTITIONING", CacheSharing::PerNamespace),
                    ],
                )?
                .unwrap_or(CacheSharing::Shared),
            power_loss_protection: false,
            write_back: WriteBack::Eager,
            write_back_max: as_mqsim
                .then(|| u64::from(geometry.planes()) * u64::from(geometry.page_bytes)),
        }),
        mapping: mapping(&device, geometry.page_bytes, as_mqsim, warnings)?,
        plane_order: plane_order(&device)?,
        placement: Placement::Static,
        over_provisioning: device.number("Overprovisioning_Ratio", 1.0)?.unwrap_or(0.07),
        wear: wear(&device, &flash, as_mqsim, warnings)?,
        energy: None,
        gc: gc(document, &device, geometry.blocks_per_plane, as_mqsim, warnings)?,
        scheduler: scheduler(&device, &flash, as_mqsim, warnings)?,
        namespaces: Vec::new(),
        faults: Vec::new(),
        seed: device.seed("Seed")?.unwrap_or(123),
    };
    let config = match device
        .get("HostInterface_Type")
        .is_some_and(|element| element.text.eq_ignore_ascii_case("SATA"))
    {
        true => with_sata(config, &host, as_mqsim, warnings)?,
        false => {
            host.count("SATA_Processing_Delay", 0..=MAX_NS)?;
            host.idle(&["SATA_Processing_Delay"], "the drive is NVMe", warnings);
            config
        }
    };
    let steady = device.flag("Enabled_Preconditioning")?.unwrap_or(true);
    let precondition = if steady { Precondition::Steady } else { Precondition::None };
    let cached = config.mapping.table != MappingTable::Ideal;
    let cmt_sharing = device.get("CMT_Sharing_Mode").filter(|_| cached);
    let cache_sharing = device.get("Data_Cache_Sharing_Mode");
    Ok(Drive { document, config, precondition, cmt_sharing, cache_sharing, missing })
}

/// MQSim's SATA drive is an NVMe drive behind an adapter that takes its time, whose queues
/// share one of `IO_Queue_Depth` entries. Otherwise it is a drive at 6 Gb/s, about which the
/// file says nothing, with the 32 tags of native command queuing at the most.
fn with_sata(
    config: Config,
    host: &Section<'_>,
    as_mqsim: bool,
    warnings: &mut Warnings,
) -> Result<Config, MqsimError> {
    if !as_mqsim {
        let lanes = "the drive is SATA, which is taken to be 6 Gb/s (MQSim crosses PCIe as well)";
        host.idle(&["PCIe_Lane_Bandwidth", "PCIe_Lane_Count"], lanes, warnings);
    }
    let adapter = Span::from_ns(host.count("SATA_Processing_Delay", 0..=MAX_NS)?.unwrap_or(0));
    let depth = config.queues.entries;
    let link = match as_mqsim {
        true => Link { adapter, ..config.link },
        false => Link {
            protocol: LinkProtocol::Sata,
            adapter,
            bytes_per_s: 600_000_000,
            lanes: 1,
            max_payload_bytes: 8192,
            packet_overhead_bytes: 28,
            submission_entry_bytes: 64,
            fetch_prp_lists: false,
            ..config.link
        },
    };
    let command_slots = if as_mqsim { depth } else { depth.min(32) };
    Ok(Config { link, queues: Queues { command_slots, ..config.queues }, ..config })
}

/// MQSim's rules for suspension: whenever enough is left, as often as something waits.
fn scheduler(
    device: &Section<'_>,
    flash: &Section<'_>,
    as_mqsim: bool,
    warnings: &mut Warnings,
) -> Result<Scheduler, MqsimError> {
    let ns = |section: &Section<'_>, tag: &str, default: u64| {
        section.count(tag, 0..=MAX_NS).map(|ns| ns.map_or(Span::from_ns(default), Span::from_ns))
    };
    // MQSim looks for the first of these with a letter missing.
    let erase_for_read = match device.get("Prefered_suspend_erase_time_for_read") {
        Some(_) => "Prefered_suspend_erase_time_for_read",
        None => "Preferred_suspend_erase_time_for_read",
    };
    const WRITE_FOR_READ: &str = "Preferred_suspend_write_time_for_read";
    const ERASE_FOR_WRITE: &str = "Preferred_suspend_erase_time_for_write";
    let (program, erase) = flash
        .choice(
            "CMD_Suspension_Support",
            &[
                ("NONE", (false, false)),
                ("PROGRAM", (true, false)),
                ("PROGRAM_ERASE", (true, true)),
                ("ERASE", (false, true)),
            ],
        )?
        .unwrap_or((false, true));
    let named = flash.get("CMD_Suspension_Support");
    if let Some(element) = named.filter(|_| as_mqsim && (program || erase)) {
        let message = "MQSim never suspends anything, whatever this says, and neither does this \
                       run";
        warnings.add(flash.document, element, message);
    }
    // Without the tag MQSim means to suspend erases, and does not.
    let (program, erase) = match as_mqsim || named.is_none() {
        true => (false, false),
        false => (program, erase),
    };
    let preemptible = device.flag("Preemptible_GC_Enabled")?.unwrap_or(true);
    if let Some(element) = named.filter(|_| erase && !preemptible) {
        let message = "no erase is suspended, since collections, which erases are part of, are not \
                       interrupted (Preemptible_GC_Enabled)";
        warnings.add(flash.document, element, message);
    }
    let erase = erase && preemptible;
    let suspension = |latency: Span, least_left: Span| Suspension {
        latency,
        resume: Span::ZERO,
        least_left,
        limit: 10_000,
        longest: Span::from_secs(10),
    };
    let suspend_program = suspension(
        ns(flash, "Suspend_Program_Time", 100_000)?,
        ns(device, WRITE_FOR_READ, 100_000)?,
    );
    let suspend_erase =
        suspension(ns(flash, "Suspend_Erase_Time", 700_000)?, ns(device, erase_for_read, 700_000)?);
    let for_writes = ns(device, ERASE_FOR_WRITE, 700_000)?;
    for (section, tag, used) in [
        (flash, "Suspend_Program_Time", program),
        (device, WRITE_FOR_READ, program),
        (flash, "Suspend_Erase_Time", erase),
        (device, erase_for_read, erase),
        (device, ERASE_FOR_WRITE, erase),
    ] {
        if !used {
            section.idle(&[tag], "nothing of the kind is suspended", warnings);
        }
    }
    let policy = device.get("Transaction_Scheduling_Policy").map(|element| element.text.as_str());
    let is = |name: &str| policy.is_some_and(|policy| policy.eq_ignore_ascii_case(name));
    Ok(Scheduler {
        die_interleaving: !as_mqsim,
        multi_plane: true,
        multi_plane_window: if as_mqsim { u32::MAX } else { 32 },
        priority_classes: is("PRIORITY_OUT_OF_ORDER") || is("FLIN"),
        precedence: Precedence::ReadFirst,
        write_deadline: None,
        suspend_program: program.then_some(suspend_program),
        suspend_erase: erase.then_some(suspend_erase),
        suspend_erase_for_writes: erase.then_some(for_writes),
        cache_program: false,
        flin: is("FLIN").then_some(crate::drive::FLIN),
    })
}

fn geometry(device: &Section<'_>, flash: &Section<'_>) -> Result<Geometry, MqsimError> {
    let page = flash.count("Page_Capacity", 512..=1 << 24)?.unwrap_or(8192);
    if let Some(element) = flash.get("Page_Capacity").filter(|_| page % 512 != 0) {
        let message = format!("`{page}` is not a multiple of 512");
        return Err(flash.document.error(element, message));
    }
    let geometry = Geometry {
        channels: device.count32("Flash_Channel_Count", 8)?,
        chips_per_channel: device.count32("Chip_No_Per_Channel", 4)?,
        dies_per_chip: flash.count32("Die_No_Per_Chip", 2)?,
        planes_per_die: flash.count32("Plane_No_Per_Die", 2)?,
        blocks_per_plane: flash.count32("Block_No_Per_Plane", 2048)?,
        pages_per_block: flash.count32("Page_No_Per_Block", 256)?,
        page_bytes: page as u32,
        page_spare_bytes: flash.count("Page_Metadat_Capacity", 0..=1 << 24)?.unwrap_or(1872) as u32,
    };
    let product = |counts: &[u32]| counts.iter().map(|&count| u128::from(count)).product::<u128>();
    let Geometry { channels, chips_per_channel, dies_per_chip, planes_per_die, .. } = geometry;
    let planes = product(&[channels, chips_per_channel, dies_per_chip, planes_per_die]);
    let pages = planes * product(&[geometry.blocks_per_plane, geometry.pages_per_block]);
    if planes > 1 << 20 || pages > 1 << 40 {
        let element = device.element.unwrap_or(&device.document.root);
        let message = format!("a drive of {planes} planes and {pages} pages is too large");
        return Err(device.document.error(element, message));
    }
    Ok(geometry)
}

fn mapping(
    device: &Section<'_>,
    page_bytes: u32,
    as_mqsim: bool,
    warnings: &mut Warnings,
) -> Result<Mapping, MqsimError> {
    let shared = if as_mqsim { CmtSharing::Private } else { CmtSharing::Shared };
    let table = CachedTable {
        bytes: device.count("CMT_Capacity", 1..=u64::MAX)?.unwrap_or(2 << 20),
        granularity: CmtGranularity::Entry,
        sharing: device
            .choice(
                "CMT_Sharing_Mode",
                &[("SHARED", shared), ("EQUAL_PARTITIONING", CmtSharing::Partitioned)],
            )?
            .unwrap_or(shared),
        entry_bytes: None,
        translation_entry_bytes: None,
        load_bytes: 512,
        write_back: !as_mqsim,
    };
    let ideal = device.flag("Ideal_Mapping_Table")?.unwrap_or(false);
    if ideal {
        let tags = ["CMT_Capacity", "CMT_Sharing_Mode"];
        device.idle(&tags, "the mapping table is ideal", warnings);
    }
    Ok(Mapping {
        unit_bytes: page_bytes,
        scheme: MappingScheme::Page,
        table: if ideal { MappingTable::Ideal } else { MappingTable::Cached(table) },
        unmapped_reads: if as_mqsim { UnmappedReads::Allocate } else { UnmappedReads::Zeroes },
    })
}

fn plane_order(device: &Section<'_>) -> Result<PlaneOrder, MqsimError> {
    use Dimension::{Channel, Chip, Die, Plane};
    const TAG: &str = "Plane_Allocation_Scheme";
    let Some(element) = device.get(TAG) else {
        return Ok(PlaneOrder([Channel, Chip, Die, Plane]));
    };
    let letters: Option<Vec<Dimension>> = element
        .text
        .chars()
        .map(|letter| match letter.to_ascii_uppercase() {
            'C' => Some(Channel),
            'W' => Some(Chip),
            'D' => Some(Die),
            'P' => Some(Plane),
            _ => None,
        })
        .collect();
    match letters.as_deref() {
        Some(&[a, b, c, d])
            if [Channel, Chip, Die, Plane].iter().all(|x| [a, b, c, d].contains(x)) =>
        {
            Ok(PlaneOrder([a, b, c, d]))
        }
        _ => Err(device.document.error(
            element,
            format!(
                "`{}` is not an order of the four letters C, W, D and P, such as CWDP",
                element.text
            ),
        )),
    }
}

fn gc<'d>(
    document: &'d Document,
    device: &Section<'d>,
    blocks: u32,
    as_mqsim: bool,
    warnings: &mut Warnings,
) -> Result<Gc, MqsimError> {
    let threshold = device.number("GC_Exec_Threshold", 1.0)?.unwrap_or(0.05);
    let hard = device.number("GC_Hard_Threshold", 1.0)?.unwrap_or(0.005);
    let start = ((threshold * f64::from(blocks)) as u32).max(10);
    if start >= blocks {
        let element = device.get("GC_Exec_Threshold").or(device.element);
        return Err(device.document.error(
            element.unwrap_or(&device.document.root),
            format!("collection would start at {start} free blocks of {blocks} in a plane"),
        ));
    }
    let preemptible = device.flag("Preemptible_GC_Enabled")?.unwrap_or(true);
    let urgent = if preemptible {
        ((hard * f64::from(blocks)) as u32).max(1).min(start)
    } else {
        let reason = "collection is not preemptible, and always goes first";
        device.idle(&["GC_Hard_Threshold"], reason, warnings);
        start
    };
    let d = blocks.ilog2().max(1);
    let victim = device.choice(
        "GC_Block_Selection_Policy",
        &[
            ("GREEDY", VictimPolicy::Greedy),
            ("RGA", VictimPolicy::DChoices { d }),
            ("RANDOM", VictimPolicy::Random),
            ("RANDOM_P", VictimPolicy::RandomP { pages: 1 }),
            ("RANDOM_PP", VictimPolicy::RandomPlusPlus),
            ("FIFO", VictimPolicy::Fifo),
        ],
    )?;
    if let (Some(VictimPolicy::RandomPlusPlus), Some(element)) =
        (victim, device.get("GC_Block_Selection_Policy"))
    {
        let message = "blocks with fewer valid pages than the average, as this policy's paper \
                       has it; MQSim asks for as many invalid pages as the occupancy amounts to";
        warnings.add(document, element, message);
    }
    let copyback = device.flag("Use_Copyback_for_GC")?.unwrap_or(false);
    if let Some(element) = device.get("Use_Copyback_for_GC").filter(|_| as_mqsim && copyback) {
        let message = "MQSim's copyback does not work; this run's does";
        warnings.add(document, element, message);
    }
    Ok(Gc {
        victim: victim.unwrap_or(VictimPolicy::DChoices { d }),
        start: share(start, blocks),
        urgent: share(urgent, blocks),
        preemptible,
        copyback,
        paced: false,
        reserve_blocks: RESERVE_BLOCKS,
        unit: CollectionUnit::Block,
        frontiers: WriteFrontiers::Separate,
        idle_after: None,
        idle_target: share(start, blocks),
    })
}

/// Levelling as the file has it, and blocks that endure as many cycles as it says. MQSim itself
/// always opens the least worn block, its static levelling compares the numbers of blocks instead
/// of their erases, and its blocks endure for ever: `as_mqsim` leaves that out.
fn wear(
    device: &Section<'_>,
    flash: &Section<'_>,
    as_mqsim: bool,
    warnings: &mut Warnings,
) -> Result<Wear, MqsimError> {
    const LEVELLING: [&str; 3] = [
        "Dynamic_Wearleveling_Enabled",
        "Static_Wearleveling_Enabled",
        "Static_Wearleveling_Threshold",
    ];
    const LIMIT: &str = "Block_PE_Cycles_Limit";
    let endurance = flash.count(LIMIT, 1..=u64::from(i32::MAX as u32))?.unwrap_or(10_000) as u32;
    let dynamic = device.flag("Dynamic_Wearleveling_Enabled")?.unwrap_or(true);
    let levels = device.flag("Static_Wearleveling_Enabled")?.unwrap_or(true);
    let threshold =
        device.count("Static_Wearleveling_Threshold", 2..=1 << 30)?.unwrap_or(100) as u32;
    if as_mqsim {
        let reason = "MQSim opens the least worn block whatever is said here";
        device.idle(&LEVELLING, reason, warnings);
        flash.idle(&[LIMIT], "MQSim's blocks do not wear out", warnings);
    } else if !levels {
        device.idle(&LEVELLING[2..], "static levelling is off", warnings);
    }
    Ok(Wear {
        endurance: (!as_mqsim).then_some(endurance),
        dynamic: dynamic || as_mqsim,
        static_threshold: (levels && !as_mqsim).then_some(threshold),
        ..Wear::default()
    })
}

/// `part / whole` as the share that, multiplied by `whole`, is `part` again.
fn share(part: u32, whole: u32) -> f64 {
    let (part, whole) = (f64::from(part), f64::from(whole));
    let share = part / whole;
    let fits = |share: &f64| share * whole == part;
    [share, share.next_up(), share.next_down()].into_iter().find(fits).unwrap_or(share)
}

/// Refuses what the model does not have whatever the flows do, and notes what depends on
/// them.
fn refuse_unsupported<'d>(
    device: &Section<'d>,
    as_mqsim: bool,
    missing: &mut Vec<Missing<'d>>,
) -> Result<(), MqsimError> {
    // The values of each tag, and for those that are missing why and when that matters.
    type When = fn(&Use) -> bool;
    type Value = (&'static str, Option<(&'static str, When)>);
    let always: When = |_| true;
    let caches: When = |usage| usage.caches;
    let exceeds_simple: When = |usage| usage.caches_reads || usage.partitions;
    let device_tags: &[(&str, &[Value])] = &[
        ("Memory_Type", &[("FLASH", None)]),
        ("HostInterface_Type", &[("NVME", None), ("SATA", None)]),
        (
            "Caching_Mechanism",
            &[
                ("ADVANCED", None),
                // The same, as it is meant, for writes of flows that share it.
                (
                    "SIMPLE",
                    Some(match as_mqsim {
                        true => ("MQSim stops at its first use", caches),
                        false => ("it is for writes, and shared", exceeds_simple),
                    }),
                ),
            ],
        ),
        (
            "Address_Mapping",
            &[("PAGE_LEVEL", None), ("HYBRID", Some(("mapping is PAGE_LEVEL", always)))],
        ),
        (
            "Transaction_Scheduling_Policy",
            &[
                ("OUT_OF_ORDER", None),
                ("PRIORITY_OUT_OF_ORDER", None),
                ("FLIN", as_mqsim.then_some(("MQSim stops at it", always))),
            ],
        ),
        ("Flash_Comm_Protocol", &[("NVDDR2", None)]),
    ];
    for (tag, values) in device_tags {
        if let (Some(Some((message, matters))), Some(element)) =
            (device.choice(tag, values)?, device.get(tag))
        {
            missing.push(Missing { element, message, matters });
        }
    }
    Ok(())
}
