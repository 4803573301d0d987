//! Structures of NVMe as fields with names: those that nvme-cli prints as JSON (`src/nvme-print-json.c` of
//! linux-nvme/nvme-cli), so that what reads those reads these.

use super::{ANA_GROUP_BYTES, ANA_HEADER_BYTES, read};
use mynah_wire::nvme::identify::{IdentifyController, IdentifyNamespace};
use mynah_wire::nvme::log::{AnaGroup, AnaHeader, ErrorEntry, Smart};
use serde_json::{Map, Value};
use std::fmt::Write as _;
use zerocopy::byteorder::little_endian::{U16, U32, U64, U128};

#[derive(Clone, Debug)]
pub(super) enum Field {
    Number(u128),
    /// Bits, which people read in hexadecimal.
    Bits(u128),
    /// With three digits behind the point.
    Ratio(f64),
    Text(String),
    /// Groups of fields.
    List(Vec<Fields>),
}

/// Fields in the order in which they are printed.
pub(super) type Fields = Vec<(&'static str, Field)>;

trait Number {
    fn number(&self) -> u128;
}

impl Number for u8 {
    fn number(&self) -> u128 {
        (*self).into()
    }
}

macro_rules! numbers {
    ($($kind:ty),+) => {
        $(impl Number for $kind {
            fn number(&self) -> u128 {
                self.get().into()
            }
        })+
    };
}
numbers!(U16, U32, U64, U128);

impl From<u32> for Field {
    fn from(number: u32) -> Field {
        Field::Number(number.into())
    }
}

/// Fields of a structure, each with its name; those after `bits` are bits.
macro_rules! fields {
    ($of:expr; $($name:literal $kind:ident $($field:ident)+ $([$at:literal])?),+ $(,)?) => {
        vec![$(($name, Field::$kind($of.$($field)+ $([$at])? .number()))),+]
    };
}

/// A text that is padded with spaces or zeros.
fn text_of(bytes: &[u8]) -> Field {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let printable = |&byte: &u8| if byte.is_ascii_graphic() { char::from(byte) } else { ' ' };
    let text: String = bytes[..end].iter().map(printable).collect();
    Field::Text(text.trim_end().to_owned())
}

/// Bytes as hexadecimal digits.
pub(super) fn digits(bytes: &[u8]) -> Field {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Field::Text(text)
}

/// Identify Controller (Base 2.0, figure 275).
pub(super) fn controller(it: &IdentifyController) -> Fields {
    let mut all = fields!(it; "vid" Bits vendor_id, "ssvid" Bits subsystem_vendor_id);
    all.push(("sn", text_of(&it.serial)));
    all.push(("mn", text_of(&it.model)));
    all.push(("fr", text_of(&it.firmware)));
    all.extend(fields!(it; "rab" Number arbitration_burst));
    let [first, second, third] = it.ieee.map(u128::from);
    all.push(("ieee", Field::Bits(third << 16 | second << 8 | first)));
    all.extend(fields!(it;
        "cmic" Bits multipath, "mdts" Number max_transfer, "cntlid" Bits controller_id,
        "ver" Bits version, "rtd3r" Number resume_latency, "rtd3e" Number entry_latency,
        "oaes" Bits optional_events, "ctratt" Bits attributes, "rrls" Bits read_recovery_levels,
        "cntrltype" Number controller_type,
    ));
    all.push(("fguid", uuid(&it.fru_guid)));
    all.extend(fields!(it;
        "crdt1" Number retry_delays [0], "crdt2" Number retry_delays [1],
        "crdt3" Number retry_delays [2], "nvmsr" Bits subsystem_report, "vwci" Bits vpd_writes,
        "mec" Bits management_endpoint, "oacs" Bits optional_admin, "acl" Number abort_limit,
        "aerl" Number event_limit, "frmw" Bits firmware_updates, "lpa" Bits log_attributes,
        "elpe" Number error_entries, "npss" Number power_states, "avscc" Bits vendor_admin,
        "apsta" Bits autonomous_power, "wctemp" Number warning_temperature,
        "cctemp" Number critical_temperature, "mtfa" Number activation_time,
        "hmpre" Number host_memory_preferred, "hmmin" Number host_memory_min,
        "tnvmcap" Number total_capacity, "unvmcap" Number unallocated_capacity,
        "rpmbs" Bits rpmb, "edstt" Number self_test_minutes, "dsto" Bits self_test_options,
        "fwug" Number firmware_granularity, "kas" Number keep_alive_granularity,
        "hctma" Bits thermal_management, "mntmt" Number thermal_min, "mxtmt" Number thermal_max,
        "sanicap" Bits sanitize, "hmminds" Number host_memory_entry_min,
        "hmmaxd" Number host_memory_entries_max, "nsetidmax" Number nvm_set_max,
        "endgidmax" Number endurance_group_max, "anatt" Number ana_transition_time,
        "anacap" Bits ana_capabilities, "anagrpmax" Number ana_group_max,
        "nanagrpid" Number ana_groups, "pels" Number persistent_event_log,
        "domainid" Number domain, "megcap" Number endurance_group_capacity_max,
        "sqes" Bits submission_entry, "cqes" Bits completion_entry,
        "maxcmd" Number commands_max, "nn" Number namespaces, "oncs" Bits optional_commands,
        "fuses" Bits fused, "fna" Bits format_attributes, "vwc" Bits volatile_write_cache,
        "awun" Number atomic_write, "awupf" Number atomic_write_power_fail,
        "icsvscc" Bits vendor_commands, "nwpc" Bits write_protection,
        "acwu" Number atomic_compare_write, "ocfs" Bits copy_formats, "sgls" Bits sgl,
        "mnan" Number namespaces_max, "maxdna" Number domain_attachments_max,
        "maxcna" Number controller_attachments_max,
    ));
    all.push(("subnqn", text_of(&it.subsystem_nqn)));
    all.extend(fields!(it;
        "ioccsz" Number command_capsule, "iorcsz" Number response_capsule,
        "icdoff" Number capsule_data_offset, "fcatt" Bits fabrics_attributes,
        "msdbd" Number sgl_blocks_max, "ofcs" Bits optional_fabrics,
        "dctype" Number discovery_type,
    ));
    let states = it.power.iter().take(usize::from(it.power_states) + 1);
    all.push(("psds", Field::List(states.map(power).collect())));
    all
}

/// A power state (Base 2.0, figure 276).
fn power(it: &mynah_wire::nvme::identify::PowerState) -> Fields {
    let mut all = fields!(it; "max_power" Number max_power);
    all.push(("max_power_scale", Field::Number((it.flags & 1).into())));
    all.push(("non-operational_state", Field::Number((it.flags >> 1 & 1).into())));
    all.extend(fields!(it;
        "entry_lat" Number entry_latency, "exit_lat" Number exit_latency,
        "read_tput" Number relative [0], "read_lat" Number relative [1],
        "write_tput" Number relative [2], "write_lat" Number relative [3],
        "idle_power" Number idle_power,
    ));
    all.push(("idle_scale", Field::Number((it.idle_scale >> 6).into())));
    all.extend(fields!(it; "active_power" Number active_power));
    all.push(("active_power_work", Field::Number((it.active_scale & 7).into())));
    all.push(("active_scale", Field::Number((it.active_scale >> 6).into())));
    all
}

fn uuid(bytes: &[u8; 16]) -> Field {
    let Field::Text(digits) = digits(bytes) else { return Field::Text(String::new()) };
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    Field::Text(parts.join("-"))
}

/// Identify Namespace (NVM Command Set 1.0, figure 97).
pub(super) fn namespace(it: &IdentifyNamespace) -> Fields {
    let mut all = fields!(it;
        "nsze" Number size, "ncap" Number capacity, "nuse" Number utilisation,
        "nsfeat" Bits features, "nlbaf" Number formats, "flbas" Bits format,
        "mc" Bits metadata_capabilities, "dpc" Bits protection_capabilities,
        "dps" Bits protection, "nmic" Bits multipath, "rescap" Bits reservations,
        "fpi" Bits format_progress, "dlfeat" Bits deallocate_features,
        "nawun" Number atomic_write, "nawupf" Number atomic_write_power_fail,
        "nacwu" Number atomic_compare_write, "nabsn" Number atomic_boundary,
        "nabo" Number atomic_boundary_offset, "nabspf" Number atomic_boundary_power_fail,
        "noiob" Number io_boundary, "nvmcap" Number bytes, "npwg" Number write_granularity,
        "npwa" Number write_alignment, "npdg" Number deallocate_granularity,
        "npda" Number deallocate_alignment, "nows" Number optimal_write,
        "mssrl" Number copy_range_max, "mcl" Number copy_max, "msrc" Number copy_ranges_max,
        "anagrpid" Number ana_group, "nsattr" Bits attributes, "nvmsetid" Number nvm_set,
        "endgid" Number endurance_group,
    );
    all.push(("nguid", digits(&it.nguid)));
    all.push(("eui64", digits(&it.eui64)));
    // FLBAS has the index in bits 3:0, and its upper part in 6:5.
    let in_use = usize::from(it.format & 15 | it.format >> 1 & 0x30);
    let formats = it.lba_formats.iter().take(usize::from(it.formats) + 1).enumerate();
    let formats = formats.map(|(at, format)| {
        let mut all = vec![("lbaf", Field::Number(at as u128))];
        all.extend(fields!(format; "ms" Number metadata, "ds" Number data_shift));
        all.push(("rp", Field::Number((format.performance & 3).into())));
        all.push(("in_use", Field::Number((at == in_use).into())));
        all
    });
    all.push(("lbafs", Field::List(formats.collect())));
    all
}

/// SMART / health information (Base 2.0, figure 206).
pub(super) fn smart(it: &Smart) -> Fields {
    const SENSORS: [&str; 8] = [
        "temperature_sensor_1",
        "temperature_sensor_2",
        "temperature_sensor_3",
        "temperature_sensor_4",
        "temperature_sensor_5",
        "temperature_sensor_6",
        "temperature_sensor_7",
        "temperature_sensor_8",
    ];
    let mut all = fields!(it;
        "critical_warning" Bits critical_warning, "temperature" Number temperature,
        "avail_spare" Number available_spare, "spare_thresh" Number spare_threshold,
        "percent_used" Number percentage_used,
        "endurance_grp_critical_warning_summary" Bits endurance_critical_warning,
        "data_units_read" Number data_units_read, "data_units_written" Number data_units_written,
        "host_read_commands" Number host_reads, "host_write_commands" Number host_writes,
        "controller_busy_time" Number busy_minutes, "power_cycles" Number power_cycles,
        "power_on_hours" Number power_on_hours, "unsafe_shutdowns" Number unsafe_shutdowns,
        "media_errors" Number media_errors, "num_err_log_entries" Number error_entries,
        "warning_temp_time" Number warning_temperature_minutes,
        "critical_comp_time" Number critical_temperature_minutes,
    );
    let sensors = SENSORS.into_iter().zip(&it.sensors);
    all.extend(
        sensors
            .filter(|(_, kelvin)| kelvin.get() != 0)
            .map(|(name, kelvin)| (name, Field::Number(kelvin.number()))),
    );
    all.extend(fields!(it;
        "thm_temp1_trans_count" Number thermal_management [0],
        "thm_temp2_trans_count" Number thermal_management [1],
        "thm_temp1_total_time" Number thermal_management [2],
        "thm_temp2_total_time" Number thermal_management [3],
    ));
    all
}

/// An entry of the error information log (Base 2.0, figure 205).
pub(super) fn error(it: &ErrorEntry) -> Fields {
    let mut all = fields!(it;
        "error_count" Number count, "sqid" Number queue_id, "cmdid" Bits command_id);
    all.push(("status_field", Field::Bits((it.status.get() >> 1).into())));
    all.push(("phase_tag", Field::Number((it.status.get() & 1).into())));
    all.extend(fields!(it;
        "parm_error_location" Bits parameter, "lba" Number lba, "nsid" Number namespace_id,
        "vs" Bits vendor, "trtype" Number transport, "csi" Number command_set,
        "opcode" Bits opcode, "cs" Bits command_specific,
        "trtype_spec_info" Bits transport_specific,
    ));
    all
}

/// Asymmetric Namespace Access (Base 2.0, figures 221 and 222), and how long the log is; `None` if it
/// goes on behind these bytes.
pub(super) fn access(bytes: &[u8], target: &str) -> Option<(Fields, usize)> {
    let header: AnaHeader = read(bytes.get(..ANA_HEADER_BYTES)?);
    let mut at = ANA_HEADER_BYTES;
    let mut groups = Vec::new();
    for _ in 0..header.groups.get() {
        let group: AnaGroup = read(bytes.get(at..at + ANA_GROUP_BYTES)?);
        at += ANA_GROUP_BYTES;
        let length = (group.namespaces.get() as usize).checked_mul(4)?;
        let ids = bytes.get(at..at.checked_add(length)?)?;
        at += length;
        let state = match group.state & 15 {
            1 => "optimized",
            2 => "non-optimized",
            3 => "inaccessible",
            4 => "persistent-loss",
            15 => "change",
            _ => "invalid state",
        };
        let ids = ids.chunks_exact(4).filter_map(|id| id.try_into().ok());
        let ids = ids.map(|id| vec![("nsid", Field::from(u32::from_le_bytes(id)))]).collect();
        let mut all = fields!(group; "grpid" Number group, "nnsids" Number namespaces, "chgcnt" Number change_count);
        all.push(("state", Field::Text(state.to_owned())));
        all.push(("NSIDS", Field::List(ids)));
        groups.push(all);
    }
    let device = "Asymmetric Namespace Access Log for NVMe device";
    let mut all = vec![(device, Field::Text(target.to_owned()))];
    all.extend(fields!(header; "chgcnt" Number change_count, "ngrps" Number groups));
    // The blank is nvme-cli's.
    all.push(("ANA DESC LIST ", Field::List(groups)));
    Some((all, at))
}

/// What a feature is called (Base 2.0, figure 317).
pub(super) fn feature_name(feature: u8) -> &'static str {
    match feature {
        0x01 => "Arbitration",
        0x02 => "Power Management",
        0x03 => "LBA Range Type",
        0x04 => "Temperature Threshold",
        0x05 => "Error Recovery",
        0x06 => "Volatile Write Cache",
        0x07 => "Number of Queues",
        0x08 => "Interrupt Coalescing",
        0x09 => "Interrupt Vector Configuration",
        0x0a => "Write Atomicity Normal",
        0x0b => "Async Event Configuration",
        0x0c => "Autonomous Power State Transition",
        0x0d => "Host Memory Buffer",
        0x0e => "Timestamp",
        0x0f => "Keep Alive Timer",
        0x10 => "Host Controlled Thermal Management",
        0x11 => "Non-Operational Power State Config",
        0x12 => "Read Recovery Level",
        0x16 => "Host Behavior",
        0x17 => "Sanitize",
        0x18 => "Endurance Event Group Configuration",
        0x19 => "I/O Command Set Profile",
        0x1d => "Flexible Data Placement",
        0x1e => "Flexible Data Placement Events",
        0x20 => "Key Value Configuration",
        0x80 => "Software Progress",
        0x81 => "Host Identifier",
        0x82 => "Reservation Notification Mask",
        0x83 => "Reservation Persistence",
        0x84 => "Namespace Write Protect",
        _ => "Unknown",
    }
}

/// What a value of a feature is called, by SEL.
pub(super) fn selected(select: u8) -> &'static str {
    ["Current", "Default", "Saved", "Supported capabilities"][usize::from(select & 3)]
}

/// As JSON; numbers that JSON readers cannot hold as text.
pub(super) fn json(fields: &Fields) -> Value {
    let value = |field: &Field| match field {
        Field::Number(number) | Field::Bits(number) => match u64::try_from(*number) {
            Ok(number) => number.into(),
            Err(_) => number.to_string().into(),
        },
        Field::Ratio(ratio) => ((ratio * 1e3).round() / 1e3).into(),
        Field::Text(text) => text.clone().into(),
        Field::List(list) => list.iter().map(json).collect(),
    };
    let all: Map<String, Value> =
        fields.iter().map(|(name, field)| ((*name).to_owned(), value(field))).collect();
    Value::Object(all)
}

/// For people: a field a line.
pub(super) fn text(title: &str, fields: &Fields) -> String {
    let mut out = format!("{title}:\n");
    lines(&mut out, fields, 0);
    out
}

fn lines(out: &mut String, fields: &Fields, indent: usize) {
    let width = fields.iter().map(|(name, _)| name.trim_end().len()).max().unwrap_or(0).min(24);
    for (name, field) in fields {
        let name = name.trim_end();
        // Writing to a string cannot fail.
        let _ = match field {
            Field::Number(number) => writeln!(out, "{:indent$}{name:width$} : {number}", ""),
            Field::Bits(bits) => writeln!(out, "{:indent$}{name:width$} : {bits:#x}", ""),
            Field::Ratio(ratio) => writeln!(out, "{:indent$}{name:width$} : {ratio:.3}", ""),
            Field::Text(text) => writeln!(out, "{:indent$}{name:width$} : {text}", ""),
            Field::List(list) if list.is_empty() => {
                writeln!(out, "{:indent$}{name:width$} : none", "")
            }
            Field::List(list) if list.iter().all(|fields| fields.len() == 1) => {
                let all: Vec<String> = list
                    .iter()
                    .flatten()
                    .map(|(_, field)| match field {
                        Field::Number(number) => number.to_string(),
                        Field::Bits(bits) => format!("{bits:#x}"),
                        Field::Ratio(ratio) => format!("{ratio:.3}"),
                        Field::Text(text) => text.clone(),
                        Field::List(_) => String::new(),
                    })
                    .collect();
                writeln!(out, "{:indent$}{name:width$} : {}", "", all.join(", "))
            }
            Field::List(list) => {
                for (at, fields) in list.iter().enumerate() {
                    let _ = writeln!(out, "{:indent$}{name} {at}:", "");
                    lines(out, fields, indent + 2);
                }
                Ok(())
            }
        };
    }
}

/// Bytes as a hex dump, numbered from `first`.
pub(super) fn dump(bytes: &[u8], first: u64) -> String {
    let mut out = String::new();
    for (number, line) in (0..).zip(bytes.chunks(16)) {
        let _ = write!(out, "{:08x}", first + 16 * number);
        for byte in line {
            let _ = write!(out, " {byte:02x}");
        }
        let printable = |&byte: &u8| match byte {
            b' '..=b'~' => char::from(byte),
            _ => '.',
        };
        let text: String = line.iter().map(printable).collect();
        let _ = writeln!(out, "{:pad$}  {text}", "", pad = 3 * (16 - line.len()));
    }
    out
}
