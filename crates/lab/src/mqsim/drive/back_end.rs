//! MQSim's back end: geometry, flash times, channels and the scheduler.

use crate::mqsim::section::Section;
use crate::mqsim::{MqsimError, Warnings};
use mynah_model::config::*;
use mynah_stamp::Span;

pub(super) fn geometry(device: &Section<'_>, flash: &Section<'_>) -> Result<Geometry, MqsimError> {
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

pub(super) fn flash_timing(
    flash: &Section<'_>,
    warnings: &mut Warnings,
) -> Result<FlashTiming, MqsimError> {
    let cells = [("SLC", CellType::Slc), ("MLC", CellType::Mlc), ("TLC", CellType::Tlc)];
    let cell = flash.choice("Flash_Technology", &cells)?.unwrap_or(CellType::Mlc);
    let page_times = |kind: &str, default: u64| {
        let time = |bit: &str| flash.span(&format!("Page_{kind}_Latency_{bit}"), default);
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
    Ok(FlashTiming {
        cell,
        read: page_times("Read", 75_000)?,
        program: page_times("Program", 750_000)?,
        erase: flash.span("Block_Erase_Latency", 3_800_000)?,
        read_ready_delay: Span::from_ns(20),
        rewritable: false,
        one_shot: false,
    })
}

/// The data rate of a channel, in MT/s.
pub(super) fn transfer_rate(
    device: &Section<'_>,
    as_mqsim: bool,
    warnings: &mut Warnings,
) -> Result<u32, MqsimError> {
    let rate_mts = device.count("Channel_Transfer_Rate", 1..=10_000)?.unwrap_or(300) as u32;
    if as_mqsim
        && rate_mts > 1000
        && let Some(element) = device.get("Channel_Transfer_Rate")
    {
        let message =
            "above 1000 MT/s MQSim rounds transfer times to nothing, and so does this run";
        warnings.add(device.document, element, message);
    }
    Ok(rate_mts)
}

pub(super) fn bus(device: &Section<'_>, rate_mts: u32, as_mqsim: bool) -> Result<Bus, MqsimError> {
    Ok(Bus {
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
    })
}

/// MQSim's rules for suspension: whenever enough is left, as often as something waits.
pub(super) fn scheduler(
    device: &Section<'_>,
    flash: &Section<'_>,
    as_mqsim: bool,
    warnings: &mut Warnings,
) -> Result<Scheduler, MqsimError> {
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
        flash.span("Suspend_Program_Time", 100_000)?,
        device.span(WRITE_FOR_READ, 100_000)?,
    );
    let suspend_erase = suspension(
        flash.span("Suspend_Erase_Time", 700_000)?,
        device.span(erase_for_read, 700_000)?,
    );
    let for_writes = device.span(ERASE_FOR_WRITE, 700_000)?;
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
        flin: is("FLIN").then_some(mynah_drive_file::FLIN),
    })
}
