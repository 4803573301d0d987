//! MQSim's flash translation layer: mapping, allocation, collection and wear.

use crate::mqsim::section::Section;
use crate::mqsim::xml::Document;
use crate::mqsim::{MqsimError, Warnings};
use mynah_model::config::*;

/// Free blocks a plane keeps back from host writes: MQSim stops them below 10 free blocks.
const RESERVE_BLOCKS: u32 = 9;

pub(super) fn mapping(
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

pub(super) fn plane_order(device: &Section<'_>) -> Result<PlaneOrder, MqsimError> {
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

pub(super) fn gc<'d>(
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
        least_invalid: 0.0,
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
pub(super) fn wear(
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
