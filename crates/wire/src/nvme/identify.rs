//! Identify data structures (Base 2.0, section 5.17; NVM Command Set 1.0, section 4.1.5; Key Value
//! Command Set 1.0 and 1.3, section 4.1.5).

use super::structures;
use zerocopy::byteorder::little_endian::{U16, U32, U64, U128};

/// Bytes of every Identify data structure.
pub const IDENTIFY_BYTES: usize = 4096;

/// What an Identify command asks for (Base 2.0, figure 273).
pub mod cns {
    pub const NAMESPACE: u8 = 0x00;
    pub const CONTROLLER: u8 = 0x01;
    pub const ACTIVE_NAMESPACES: u8 = 0x02;
    pub const NAMESPACE_DESCRIPTORS: u8 = 0x03;
    pub const NVM_SET_LIST: u8 = 0x04;
    pub const COMMAND_SET_NAMESPACE: u8 = 0x05;
    pub const COMMAND_SET_CONTROLLER: u8 = 0x06;
    pub const COMMAND_SET_ACTIVE_NAMESPACES: u8 = 0x07;
    pub const INDEPENDENT_NAMESPACE: u8 = 0x08;
    pub const COMMAND_SET_NAMESPACE_FORMAT: u8 = 0x0a;
    pub const ALLOCATED_NAMESPACES: u8 = 0x10;
    pub const ALLOCATED_NAMESPACE: u8 = 0x11;
    pub const NAMESPACE_CONTROLLERS: u8 = 0x12;
    pub const CONTROLLERS: u8 = 0x13;
    pub const PRIMARY_CAPABILITIES: u8 = 0x14;
    pub const SECONDARY_CONTROLLERS: u8 = 0x15;
    pub const NAMESPACE_GRANULARITY: u8 = 0x16;
    pub const UUID_LIST: u8 = 0x17;
    pub const ENDURANCE_GROUPS: u8 = 0x19;
    pub const COMMAND_SET_ALLOCATED_NAMESPACES: u8 = 0x1a;
    pub const COMMAND_SET_ALLOCATED_NAMESPACE: u8 = 0x1b;
    pub const COMMAND_SETS: u8 = 0x1c;
}

/// Identifiers of command sets (CSI; Base 2.0, figure 274). The I/O command set structure has a bit
/// of this number for each.
pub mod command_set {
    pub const NVM: u8 = 0;
    pub const KEY_VALUE: u8 = 1;
}

structures! {
    /// Identify Controller (Base 2.0, figure 275).
    pub struct IdentifyController: 4096 {
        /// VID.
        pub vendor_id: U16,
        /// SSVID.
        pub subsystem_vendor_id: U16,
        /// Serial number, ASCII, padded with spaces.
        pub serial: [u8; 20],
        /// Model number, ASCII, padded with spaces.
        pub model: [u8; 40],
        /// Firmware revision, ASCII, padded with spaces.
        pub firmware: [u8; 8],
        /// Recommended arbitration burst, as a power of two.
        pub arbitration_burst: u8,
        /// IEEE OUI of the controller's vendor.
        pub ieee: [u8; 3],
        /// CMIC: several ports (0), several controllers (1), ANA reporting (3).
        pub multipath: u8,
        /// MDTS: largest data transfer, a power of two of the smallest memory page; 0: any.
        pub max_transfer: u8,
        /// CNTLID.
        pub controller_id: U16,
        /// Version, as the VS property.
        pub version: U32,
        /// RTD3 resume latency in microseconds.
        pub resume_latency: U32,
        /// RTD3 entry latency in microseconds.
        pub entry_latency: U32,
        /// OAES: optional asynchronous events.
        pub optional_events: U32,
        /// CTRATT: attributes.
        pub attributes: U32,
        /// RRLS: read recovery levels.
        pub read_recovery_levels: U16,
        pub reserved_102: [u8; 9],
        /// CNTRLTYPE: 1 I/O, 2 discovery, 3 administrative.
        pub controller_type: u8,
        /// FRU globally unique identifier.
        pub fru_guid: [u8; 16],
        /// Command retry delays in units of 100 ms.
        pub retry_delays: [U16; 3],
        pub reserved_134: [u8; 119],
        /// NVMSR.
        pub subsystem_report: u8,
        /// VPD write cycle information.
        pub vpd_writes: u8,
        /// Management endpoint capabilities.
        pub management_endpoint: u8,
        /// OACS: optional admin commands.
        pub optional_admin: U16,
        /// ACL: concurrent Abort commands, less one.
        pub abort_limit: u8,
        /// AERL: outstanding asynchronous event requests, less one.
        pub event_limit: u8,
        /// FRMW: firmware slots and updates.
        pub firmware_updates: u8,
        /// LPA: log page attributes.
        pub log_attributes: u8,
        /// ELPE: error log entries, less one.
        pub error_entries: u8,
        /// NPSS: power states, less one.
        pub power_states: u8,
        /// AVSCC: format of vendor specific admin commands.
        pub vendor_admin: u8,
        /// APSTA: autonomous power state transitions.
        pub autonomous_power: u8,
        /// Warning composite temperature threshold in kelvin.
        pub warning_temperature: U16,
        /// Critical composite temperature threshold in kelvin.
        pub critical_temperature: U16,
        /// Longest time for a firmware activation in units of 100 ms.
        pub activation_time: U16,
        /// Preferred host memory buffer size.
        pub host_memory_preferred: U32,
        /// Smallest host memory buffer size.
        pub host_memory_min: U32,
        /// TNVMCAP: bytes of the whole subsystem.
        pub total_capacity: U128,
        /// UNVMCAP: bytes not given to a namespace.
        pub unallocated_capacity: U128,
        /// Replay protected memory block support.
        pub rpmb: U32,
        /// EDSTT: minutes of an extended self-test.
        pub self_test_minutes: U16,
        /// DSTO: self-test options.
        pub self_test_options: u8,
        /// FWUG: firmware update granularity in units of 4 KiB; 0xff: none.
        pub firmware_granularity: u8,
        /// KAS: keep-alive granularity in units of 100 ms.
        pub keep_alive_granularity: U16,
        /// Host controlled thermal management attributes.
        pub thermal_management: U16,
        /// Lowest thermal management temperature.
        pub thermal_min: U16,
        /// Highest thermal management temperature.
        pub thermal_max: U16,
        /// SANICAP: sanitize capabilities.
        pub sanitize: U32,
        /// Smallest host memory descriptor entry.
        pub host_memory_entry_min: U32,
        /// Most host memory descriptor entries.
        pub host_memory_entries_max: U16,
        /// Highest NVM set identifier.
        pub nvm_set_max: U16,
        /// ENDGIDMAX: highest endurance group identifier.
        pub endurance_group_max: U16,
        /// ANATT: longest ANA transition in seconds.
        pub ana_transition_time: u8,
        /// ANACAP: which ANA states there are.
        pub ana_capabilities: u8,
        /// ANAGRPMAX: highest ANA group identifier.
        pub ana_group_max: U32,
        /// NANAGRPID: number of ANA groups.
        pub ana_groups: U32,
        /// Bytes of the persistent event log in units of 64 KiB.
        pub persistent_event_log: U32,
        pub domain: U16,
        pub reserved_358: [u8; 10],
        /// In bytes.
        pub endurance_group_capacity_max: U128,
        pub reserved_384: [u8; 128],
        /// SQES: required (low) and largest (high) submission entry, as powers of two.
        pub submission_entry: u8,
        /// CQES: required (low) and largest (high) completion entry, as powers of two.
        pub completion_entry: u8,
        /// MAXCMD: outstanding commands of a queue.
        pub commands_max: U16,
        /// NN: highest namespace identifier.
        pub namespaces: U32,
        /// ONCS: optional NVM commands.
        pub optional_commands: U16,
        /// FUSES: fused operations.
        pub fused: U16,
        /// FNA: format attributes.
        pub format_attributes: u8,
        /// VWC: volatile write cache.
        pub volatile_write_cache: u8,
        /// AWUN: blocks written atomically, less one.
        pub atomic_write: U16,
        /// AWUPF: blocks written atomically through a power loss, less one.
        pub atomic_write_power_fail: U16,
        /// Format of vendor specific I/O commands.
        pub vendor_commands: u8,
        /// NWPC: namespace write protection.
        pub write_protection: u8,
        /// ACWU: blocks of an atomic compare and write, less one.
        pub atomic_compare_write: U16,
        /// A bit for each supported descriptor format of Copy.
        pub copy_formats: U16,
        /// SGLS: SGL support.
        pub sgl: U32,
        /// MNAN: most namespaces a controller can have.
        pub namespaces_max: U32,
        /// Most domain namespace attachments.
        pub domain_attachments_max: U128,
        /// Most I/O controller namespace attachments.
        pub controller_attachments_max: U32,
        pub reserved_564: [u8; 204],
        /// NQN of the subsystem, ended by a zero.
        pub subsystem_nqn: [u8; 256],
        pub reserved_1024: [u8; 768],
        /// IOCCSZ: I/O command capsule in units of 16 bytes.
        pub command_capsule: U32,
        /// IORCSZ: I/O response capsule in units of 16 bytes.
        pub response_capsule: U32,
        /// ICDOFF: where in-capsule data begin, in units of 16 bytes.
        pub capsule_data_offset: U16,
        /// FCATT: controller model (0: dynamic).
        pub fabrics_attributes: u8,
        /// MSDBD: SGL data blocks of a capsule.
        pub sgl_blocks_max: u8,
        /// OFCS: optional Fabrics commands.
        pub optional_fabrics: U16,
        /// DCTYPE: type of a discovery controller.
        pub discovery_type: u8,
        pub reserved_1807: [u8; 241],
        pub power: [PowerState; 32],
        pub vendor: [u8; 1024],
    }

    /// A power state (Base 2.0, figure 276).
    pub struct PowerState: 32 {
        /// Most power in units of 10 mW (or 0.1 mW, see `flags`).
        pub max_power: U16,
        pub reserved_2: u8,
        /// Power scale (0), non-operational (1).
        pub flags: u8,
        /// Entry latency in microseconds.
        pub entry_latency: U32,
        /// Exit latency in microseconds.
        pub exit_latency: U32,
        /// Relative read throughput, read latency, write throughput, write latency.
        pub relative: [u8; 4],
        /// In units of `idle_scale`.
        pub idle_power: U16,
        /// Scale of the idle power in bits 7:6.
        pub idle_scale: u8,
        pub reserved_19: u8,
        /// In units of `active_scale`.
        pub active_power: U16,
        /// Scale of the active power (7:6) and its workload (2:0).
        pub active_scale: u8,
        pub reserved_23: [u8; 9],
    }

    /// An LBA format.
    pub struct LbaFormat: 4 {
        /// MS: bytes of metadata.
        pub metadata: U16,
        /// LBADS: bytes of a block as a power of two.
        pub data_shift: u8,
        /// RP: relative performance; 0 is best.
        pub performance: u8,
    }

    /// Identify Namespace, NVM command set (NVM Command Set 1.0, figure 97).
    pub struct IdentifyNamespace: 4096 {
        /// NSZE: size in blocks.
        pub size: U64,
        /// NCAP: blocks that may be allocated at once.
        pub capacity: U64,
        /// NUSE: blocks allocated.
        pub utilisation: U64,
        /// NSFEAT: features.
        pub features: u8,
        /// NLBAF: LBA formats, less one.
        pub formats: u8,
        /// FLBAS: format in use (3:0), metadata at the block's end (4).
        pub format: u8,
        /// MC: metadata capabilities; extended block (0), own buffer (1).
        pub metadata_capabilities: u8,
        /// DPC: types of protection that can be had.
        pub protection_capabilities: u8,
        /// DPS: type of protection in use (2:0), protection in the first bytes (3).
        pub protection: u8,
        /// NMIC: can be shared (0).
        pub multipath: u8,
        /// RESCAP: reservation types.
        pub reservations: u8,
        /// FPI: progress of a format.
        pub format_progress: u8,
        /// DLFEAT: what deallocated blocks read as.
        pub deallocate_features: u8,
        /// NAWUN: blocks written atomically, less one.
        pub atomic_write: U16,
        /// NAWUPF: blocks written atomically through a power loss, less one.
        pub atomic_write_power_fail: U16,
        /// NACWU: blocks of an atomic compare and write, less one.
        pub atomic_compare_write: U16,
        /// NABSN: atomic boundary size.
        pub atomic_boundary: U16,
        /// NABO: atomic boundary offset.
        pub atomic_boundary_offset: U16,
        /// NABSPF: atomic boundary size through a power loss.
        pub atomic_boundary_power_fail: U16,
        /// NOIOB: optimal I/O boundary in blocks.
        pub io_boundary: U16,
        /// NVMCAP: bytes allocated to this namespace.
        pub bytes: U128,
        /// NPWG: preferred write granularity in blocks, less one.
        pub write_granularity: U16,
        /// NPWA: preferred write alignment in blocks, less one.
        pub write_alignment: U16,
        /// NPDG: preferred deallocate granularity in blocks, less one.
        pub deallocate_granularity: U16,
        /// NPDA: preferred deallocate alignment in blocks, less one.
        pub deallocate_alignment: U16,
        /// NOWS: optimal write size in blocks, less one.
        pub optimal_write: U16,
        /// MSSRL: most blocks of a source range of Copy.
        pub copy_range_max: U16,
        /// MCL: most blocks of a Copy.
        pub copy_max: U32,
        /// MSRC: source ranges of a Copy, less one.
        pub copy_ranges_max: u8,
        pub reserved_81: [u8; 11],
        /// ANAGRPID: ANA group.
        pub ana_group: U32,
        pub reserved_96: [u8; 3],
        /// NSATTR: currently write protected (0).
        pub attributes: u8,
        /// NVMSETID.
        pub nvm_set: U16,
        /// ENDGID: endurance group.
        pub endurance_group: U16,
        /// NGUID.
        pub nguid: [u8; 16],
        /// EUI64.
        pub eui64: [u8; 8],
        pub lba_formats: [LbaFormat; 64],
        pub vendor: [u8; 3712],
    }

    /// What Namespace Management wants of data placement (NVM Command Set 1.2, figure 125): bytes 384
    /// to 767 of its data.
    pub struct NamespacePlacement: 384 {
        /// LBSTM: logical block storage tag mask.
        pub storage_tag_mask: U64,
        /// NPHNDLS: placement handles in the list; 0: the controller chooses one.
        pub count: U16,
        pub reserved_394: [u8; 118],
        /// The reclaim unit handle of each placement handle.
        pub handles: [U16; 128],
    }

    /// Command set independent Identify Namespace (Base 2.0, figure 280).
    pub struct IdentifyIndependentNamespace: 4096 {
        /// NSFEAT: features.
        pub features: u8,
        /// NMIC: can be shared (0).
        pub multipath: u8,
        /// RESCAP: reservation types.
        pub reservations: u8,
        /// FPI: progress of a format.
        pub format_progress: u8,
        /// ANAGRPID: ANA group.
        pub ana_group: U32,
        /// NSATTR: currently write protected (0).
        pub attributes: u8,
        pub reserved_9: u8,
        /// NVMSETID.
        pub nvm_set: U16,
        /// ENDGID: endurance group.
        pub endurance_group: U16,
        /// NSTAT: ready (0).
        pub status: u8,
        pub reserved_15: [u8; 4081],
    }

    /// NVM command set specific Identify Namespace (NVM Command Set 1.0, figure 100).
    pub struct IdentifyNvmNamespace: 4096 {
        /// LBSTM: logical block storage tag mask.
        pub storage_tag_mask: U64,
        /// PIC: protection information capabilities.
        pub protection_capabilities: u8,
        pub reserved_9: [u8; 3],
        /// ELBAF: a format for each LBA format.
        pub extended_formats: [U32; 64],
        pub reserved_268: [u8; 3828],
    }

    /// NVM command set specific Identify Controller (NVM Command Set 1.0, figure 101).
    pub struct IdentifyNvmController: 4096 {
        /// VSL: largest Verify, a power of two of the smallest memory page; 0: any.
        pub verify_max: u8,
        /// WZSL: largest Write Zeroes, likewise.
        pub write_zeroes_max: u8,
        /// WUSL: largest Write Uncorrectable, likewise.
        pub write_uncorrectable_max: u8,
        /// DMRL: ranges of a Dataset Management; 0: any.
        pub deallocate_ranges_max: u8,
        /// DMRSL: blocks of such a range; 0: any.
        pub deallocate_range_max: U32,
        /// DMSL: blocks of such a command; 0: any.
        pub deallocate_max: U64,
        pub reserved_16: [u8; 4080],
    }

    /// A key-value format (Key Value Command Set 1.0, figure 37).
    pub struct KeyValueFormat: 16 {
        /// KVKML: most bytes of a key.
        pub key_bytes_max: U16,
        pub reserved_2: u8,
        /// AFO: relative performance (1:0); 0 is best.
        pub performance: u8,
        /// KVVML: most bytes of a value.
        pub value_bytes_max: U32,
        /// MNKS: most keys; 0: any number.
        pub keys_max: U32,
        pub reserved_12: [u8; 4],
    }

    /// Identify Namespace, key-value command set (Key Value Command Set 1.0, figure 36; KVFC is of
    /// 1.3).
    pub struct IdentifyKeyValueNamespace: 4096 {
        /// NSZE: bytes for keys and values.
        pub size: U64,
        pub reserved_8: [u8; 8],
        /// NUSE: bytes allocated to keys and values.
        pub utilisation: U64,
        /// NSFEAT: features.
        pub features: u8,
        /// NKVF: formats, less one.
        pub formats: u8,
        /// NMIC: can be shared (0).
        pub multipath: u8,
        /// RESCAP: reservation types.
        pub reservations: u8,
        /// FPI: progress of a format.
        pub format_progress: u8,
        /// KVFC: format in use (3:0).
        pub format: u8,
        pub reserved_30: [u8; 2],
        /// NOVG: values are best multiples of so many bytes; 0: not reported.
        pub value_granularity: U32,
        /// ANAGRPID: ANA group.
        pub ana_group: U32,
        pub reserved_40: [u8; 3],
        /// NSATTR: currently write protected (0).
        pub attributes: u8,
        /// NVMSETID.
        pub nvm_set: U16,
        /// ENDGID: endurance group.
        pub endurance_group: U16,
        /// NGUID.
        pub nguid: [u8; 16],
        /// EUI64.
        pub eui64: [u8; 8],
        pub key_value_formats: [KeyValueFormat; 16],
        pub reserved_328: [u8; 3512],
        pub vendor: [u8; 256],
    }

    /// Identify Controller, key-value command set (Key Value Command Set 1.3, section 4.1.5.2).
    pub struct IdentifyKeyValueController: 4096 {
        /// Version of the command set: major (31:16), minor (15:8), tertiary (7:0).
        pub version: U32,
        pub reserved_4: [u8; 4092],
    }

    /// Identify Primary Controller Capabilities (Base 2.0, figure 281).
    pub struct PrimaryCapabilities: 4096 {
        /// CNTLID.
        pub controller_id: U16,
        /// PORTID.
        pub port_id: U16,
        /// Flexible resources that are supported.
        pub resources: u8,
        pub reserved_5: [u8; 27],
        /// Virtual queue resources; all zero without flexible resources.
        pub queues: [u8; 32],
        /// Virtual interrupt resources; all zero without flexible resources.
        pub interrupts: [u8; 32],
        pub reserved_96: [u8; 4000],
    }
}

/// Revision 1.3 of the Key Value command set as Identify Controller states it.
pub const KEY_VALUE_VERSION_1_3: u32 = 0x0001_0300;

impl IdentifyKeyValueNamespace {
    /// The format in use; `None` if its index is too large.
    pub fn current_format(&self) -> Option<KeyValueFormat> {
        let index = self.format & 0xf;
        let formats = self.formats.min(15);
        (index <= formats).then(|| self.key_value_formats[usize::from(index)])
    }
}

/// Types of namespace identification descriptors (Base 2.0, figure 277).
pub mod descriptor {
    pub const EUI64: u8 = 1;
    pub const NGUID: u8 = 2;
    pub const UUID: u8 = 3;
    pub const COMMAND_SET: u8 = 4;
}

/// Pads ASCII text with spaces to fill a field; what does not fit is cut.
pub fn ascii<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [b' '; N];
    let visible = text.bytes().map(|byte| if matches!(byte, 0x20..=0x7e) { byte } else { b'?' });
    for (place, byte) in field.iter_mut().zip(visible) {
        *place = byte;
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn fields_lie_where_the_specification_puts_them() {
        macro_rules! at {
            ($type:ty: $($field:ident $offset:literal),+) => {
                $(assert_eq!(offset_of!($type, $field), $offset, stringify!($field));)+
            };
        }
        at!(IdentifyController: max_transfer 77, controller_id 78, version 80, optional_events 92,
            controller_type 111, retry_delays 128, optional_admin 256, error_entries 262,
            warning_temperature 266, total_capacity 280, self_test_minutes 316,
            keep_alive_granularity 320, sanitize 328, endurance_group_max 340,
            ana_transition_time 342, ana_groups 348, endurance_group_capacity_max 368,
            submission_entry 512, commands_max 514, namespaces 516, optional_commands 520,
            volatile_write_cache 525, atomic_compare_write 532, sgl 536, namespaces_max 540,
            subsystem_nqn 768, command_capsule 1792, response_capsule 1796,
            capsule_data_offset 1800, sgl_blocks_max 1803, discovery_type 1806, power 2048);
        at!(IdentifyNamespace: features 24, protection 29, deallocate_features 33, io_boundary 46,
            bytes 48, write_granularity 64, copy_range_max 74, copy_max 76, copy_ranges_max 80,
            ana_group 92, attributes 99, endurance_group 102, nguid 104, eui64 120,
            lba_formats 128, vendor 384);
        at!(IdentifyIndependentNamespace: ana_group 4, endurance_group 12, status 14);
        at!(IdentifyNvmNamespace: protection_capabilities 8, extended_formats 12);
        at!(IdentifyNvmController: deallocate_range_max 4, deallocate_max 8);
        at!(KeyValueFormat: performance 3, value_bytes_max 4, keys_max 8);
        at!(IdentifyKeyValueNamespace: utilisation 16, features 24, formats 25, multipath 26,
            reservations 27, format_progress 28, format 29, value_granularity 32, ana_group 36,
            attributes 43, nvm_set 44, endurance_group 46, nguid 48, eui64 64,
            key_value_formats 72, vendor 3840);
    }

    #[test]
    fn text_is_padded_and_cut() {
        assert_eq!(&ascii::<6>("abc"), b"abc   ");
        assert_eq!(&ascii::<3>("abcdé"), b"abc");
    }
}
