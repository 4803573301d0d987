//! The drive: MQSim's `Execution_Parameter_Set`. A tag that is absent has the value MQSim's
//! source gives it.

mod back_end;
mod ftl;

use super::section::Section;
use super::xml::{Document, Element};
use super::{MqsimError, Warnings};
use crate::experiment::Precondition;
use mynah_model::config::*;
use mynah_stamp::Span;

/// What a scenario does with the drive, as far as it decides whether a setting matters.
pub(super) struct Use {
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

/// MQSim's drive file, converted.
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
    /// Refuses settings that the model lacks if they matter for `usage`, and warns of the others.
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

    ignore_log(&host, warnings)?;
    let geometry = back_end::geometry(&device, &flash)?;
    let mut missing = Vec::new();
    refuse_unsupported(&device, as_mqsim, &mut missing)?;

    let flash_timing = back_end::flash_timing(&flash, warnings)?;
    let rate_mts = back_end::transfer_rate(&device, as_mqsim, warnings)?;
    let link = pcie(&host, as_mqsim)?;
    let config = Config {
        slc: None,
        data_placement: None,
        geometry,
        flash: flash_timing,
        bus: back_end::bus(&device, rate_mts, as_mqsim)?,
        link,
        ethernet: None,
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
        cache: Some(data_cache(&device, &geometry, as_mqsim)?),
        mapping: ftl::mapping(&device, geometry.page_bytes, as_mqsim, warnings)?,
        plane_order: ftl::plane_order(&device)?,
        placement: Placement::Static,
        over_provisioning: device.number("Overprovisioning_Ratio", 1.0)?.unwrap_or(0.07),
        wear: ftl::wear(&device, &flash, as_mqsim, warnings)?,
        energy: None,
        gc: ftl::gc(document, &device, geometry.blocks_per_plane, as_mqsim, warnings)?,
        scheduler: back_end::scheduler(&device, &flash, as_mqsim, warnings)?,
        namespaces: Vec::new(),
        key_value: None,
        faults: Vec::new(),
        seed: device.seed("Seed")?.unwrap_or(123),
    };
    let config = match device
        .get("HostInterface_Type")
        .is_some_and(|element| element.text.eq_ignore_ascii_case("SATA"))
    {
        true => with_sata(config, &host, as_mqsim, warnings)?,
        false => {
            host.span("SATA_Processing_Delay", 0)?;
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

/// Warns of what the file says of MQSim's log, which nobody writes.
fn ignore_log(host: &Section<'_>, warnings: &mut Warnings) -> Result<(), MqsimError> {
    if host.flag("Enable_ResponseTime_Logging")? == Some(true)
        && let Some(element) = host.get("Enable_ResponseTime_Logging")
    {
        warnings.add(host.document, element, "no log is written; --intervals writes one");
    }
    host.count("ResponseTime_Logging_Period_Length", 0..=u64::MAX)?;
    let log = "no log is written; --intervals writes one";
    host.idle(&["ResponseTime_Logging_Period_Length"], log, warnings);
    Ok(())
}

fn pcie(host: &Section<'_>, as_mqsim: bool) -> Result<Link, MqsimError> {
    let lane_gb = host.number("PCIe_Lane_Bandwidth", 1000.0)?.unwrap_or(0.4);
    let lanes = host.count("PCIe_Lane_Count", 1..=64)?.unwrap_or(4) as u32;
    let bytes_per_s = (lane_gb * f64::from(lanes) * 1e9).round() as u64;
    if bytes_per_s == 0 {
        let element = host.get("PCIe_Lane_Bandwidth").unwrap_or(&host.document.root);
        return Err(host.document.error(element, "less than a byte a second"));
    }
    Ok(Link {
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
    })
}

fn data_cache(
    device: &Section<'_>,
    geometry: &Geometry,
    as_mqsim: bool,
) -> Result<DataCache, MqsimError> {
    Ok(DataCache {
        bytes: device.count("Data_Cache_Capacity", 1..=u64::MAX)?.unwrap_or(512 << 20),
        dram: Dram {
            row_bytes: device.count32("Data_Cache_DRAM_Row_Size", 8192)?,
            // MQSim moves two bursts in one period of the data rate.
            width_bytes: device.count32("Data_Cache_DRAM_Data_Busrt_Size", 4)?.saturating_mul(2),
            rate_mts: device.count32("Data_Cache_DRAM_Data_Rate", 800)?,
            // It transfers what it needs, and activates the row for each access.
            burst_length: 1,
            rows: RowPolicy::Closed,
            traffic: DramTraffic::Host,
            t_rcd: device.span("Data_Cache_DRAM_tRCD", 13)?,
            t_cl: device.span("Data_Cache_DRAM_tCL", 13)?,
            t_rp: device.span("Data_Cache_DRAM_tRP", 13)?,
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
    })
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
    let adapter = host.span("SATA_Processing_Delay", 0)?;
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
