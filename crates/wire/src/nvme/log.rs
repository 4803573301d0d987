//! Log pages (Base 2.0, section 5.16.1).

use super::structures;
use zerocopy::byteorder::little_endian::{U16, U32, U64, U128};

/// Log page identifiers (Base 2.0, figure 202).
pub mod page {
    pub const SUPPORTED_LOG_PAGES: u8 = 0x00;
    pub const ERROR_INFORMATION: u8 = 0x01;
    pub const SMART: u8 = 0x02;
    pub const FIRMWARE_SLOT: u8 = 0x03;
    pub const CHANGED_NAMESPACES: u8 = 0x04;
    pub const COMMANDS_SUPPORTED: u8 = 0x05;
    pub const SELF_TEST: u8 = 0x06;
    pub const ENDURANCE_GROUP: u8 = 0x09;
    pub const ANA: u8 = 0x0c;
    pub const FEATURES_SUPPORTED: u8 = 0x12;
    /// Of Base 2.1, as the three that follow.
    pub const PLACEMENT_CONFIGURATIONS: u8 = 0x20;
    pub const HANDLE_USAGE: u8 = 0x21;
    pub const PLACEMENT_STATISTICS: u8 = 0x22;
    pub const PLACEMENT_EVENTS: u8 = 0x23;
    pub const DISCOVERY: u8 = 0x70;
    pub const RESERVATION_NOTIFICATION: u8 = 0x80;
    pub const SANITIZE_STATUS: u8 = 0x81;
    /// SMART / Health Information Extended of drives with data placement (OCP Datacenter NVMe SSD
    /// Specification 2.0, section 4.8.6).
    pub const OCP_SMART: u8 = 0xc0;
    /// Mynah's own: what the drive's insides have counted.
    pub const MYNAH_DRIVE: u8 = 0xc0;
    /// The same where [`OCP_SMART`] has its place.
    pub const MYNAH_DRIVE_BESIDE_OCP: u8 = 0xd0;
    /// Mynah's own: how late completions were.
    pub const MYNAH_LATENESS: u8 = 0xc1;
    /// Mynah's own: what a profile's statistics are, as the answer to a query.
    pub const MYNAH_PROFILE: u8 = 0xc2;
}

structures! {
    /// An entry of the error information log (Base 2.0, figure 205).
    pub struct ErrorEntry: 64 {
        /// Errors so far, this one included; 0: no entry.
        pub count: U64,
        /// SQID.
        pub queue_id: U16,
        /// CID.
        pub command_id: U16,
        /// The status field, phase included.
        pub status: U16,
        /// The byte (7:0) and bit (10:8) of the command that was wrong; 0xffff: none in particular.
        pub parameter: U16,
        /// First block that was concerned.
        pub lba: U64,
        /// NSID.
        pub namespace_id: U32,
        /// Log page with vendor information.
        pub vendor: u8,
        /// TRTYPE.
        pub transport: u8,
        /// CSI.
        pub command_set: u8,
        /// The command's opcode, if the controller says so.
        pub opcode: u8,
        /// Command specific information.
        pub command_specific: U64,
        /// Transport type specific information.
        pub transport_specific: U16,
        pub reserved_42: [u8; 22],
    }

    /// SMART / health information (Base 2.0, figure 206).
    pub struct Smart: 512 {
        /// Spare low (0), temperature (1), reliability (2), read only (3).
        pub critical_warning: u8,
        /// Composite temperature in kelvin.
        pub temperature: U16,
        /// Spare left in percent.
        pub available_spare: u8,
        /// Below this spare a warning is given.
        pub spare_threshold: u8,
        /// Life used in percent; may pass 100.
        pub percentage_used: u8,
        /// Critical warnings of endurance groups.
        pub endurance_critical_warning: u8,
        pub reserved_7: [u8; 25],
        /// Thousands of 512-byte units read, rounded up.
        pub data_units_read: U128,
        /// Thousands of 512-byte units written, rounded up.
        pub data_units_written: U128,
        /// Read and Compare commands.
        pub host_reads: U128,
        /// Write commands.
        pub host_writes: U128,
        /// Minutes with an I/O command outstanding.
        pub busy_minutes: U128,
        pub power_cycles: U128,
        pub power_on_hours: U128,
        /// Power losses without a shutdown.
        pub unsafe_shutdowns: U128,
        /// Unrecovered data errors.
        pub media_errors: U128,
        /// Entries ever made in the error log.
        pub error_entries: U128,
        /// Minutes above the warning temperature.
        pub warning_temperature_minutes: U32,
        /// Minutes above the critical temperature.
        pub critical_temperature_minutes: U32,
        /// Temperature sensors in kelvin; 0: none.
        pub sensors: [U16; 8],
        /// Transitions to and seconds in the two levels of thermal management.
        pub thermal_management: [U32; 4],
        pub reserved_232: [u8; 280],
    }

    /// Firmware slot information (Base 2.0, figure 209).
    pub struct FirmwareSlots: 512 {
        /// AFI: slot in use (2:0) and slot after the next reset (6:4).
        pub active: u8,
        pub reserved_1: [u8; 7],
        /// Firmware revision in slots 1 to 7, ASCII.
        pub revisions: [[u8; 8]; 7],
        pub reserved_64: [u8; 448],
    }

    /// A result of the device self-test log (Base 2.0, figure 216).
    pub struct SelfTestResult: 28 {
        /// Result (3:0; 0xf: no entry) and which test (7:4).
        pub status: u8,
        /// Segment that failed.
        pub segment: u8,
        /// Which of the following fields are valid: namespace (0), LBA (1), status code type
        /// (2), status code (3).
        pub valid: u8,
        pub reserved_3: u8,
        /// Hours of power when the test ended.
        pub power_on_hours: U64,
        /// NSID of the failure.
        pub namespace_id: U32,
        /// LBA of the failure.
        pub lba: U64,
        /// Status code type of the failure.
        pub code_type: u8,
        /// Status code of the failure.
        pub code: u8,
        pub vendor: U16,
    }

    /// Device self-test log (Base 2.0, figure 215).
    pub struct SelfTestLog: 564 {
        /// Test under way (3:0); 0: none.
        pub current: u8,
        /// Its progress in percent.
        pub completion: u8,
        pub reserved_2: [u8; 2],
        /// Results, latest first.
        pub results: [SelfTestResult; 20],
    }

    /// Endurance group information (Base 2.0, figure 218).
    pub struct EnduranceGroup: 512 {
        pub critical_warning: u8,
        pub features: u8,
        pub reserved_2: u8,
        /// Spare left in percent.
        pub available_spare: u8,
        /// Below this spare a warning is given.
        pub spare_threshold: u8,
        /// Life used in percent.
        pub percentage_used: u8,
        pub domain: U16,
        pub reserved_8: [u8; 24],
        /// Billions of bytes that may be written over the life.
        pub endurance_estimate: U128,
        /// Billions of bytes read.
        pub data_units_read: U128,
        /// Billions of bytes written by hosts.
        pub data_units_written: U128,
        /// Billions of bytes written to the media.
        pub media_units_written: U128,
        /// Read commands.
        pub host_reads: U128,
        /// Write commands.
        pub host_writes: U128,
        /// Unrecovered data errors.
        pub media_errors: U128,
        /// Entries ever made in the error log.
        pub error_entries: U128,
        /// Total capacity of the group in bytes.
        pub total_capacity: U128,
        /// Bytes not given to a namespace.
        pub unallocated_capacity: U128,
        pub reserved_192: [u8; 320],
    }

    /// Head of the log of FDP configurations (Base 2.1, figure 280); descriptors follow.
    pub struct PlacementConfigurations: 16 {
        /// NUMFDPC: configurations, less one.
        pub last: U16,
        /// Version of the log page.
        pub version: u8,
        pub reserved_3: u8,
        /// Bytes of the whole log page.
        pub bytes: U32,
        pub reserved_8: [u8; 8],
    }

    /// An FDP configuration (Base 2.1, figure 281); a descriptor of each reclaim unit handle follows.
    pub struct PlacementConfiguration: 64 {
        /// Bytes of this descriptor with all that belongs to it, a multiple of 8.
        pub bytes: U16,
        /// FDPA: bits of the reclaim group in a placement identifier (3:0), volatile write cache (4),
        /// valid (7).
        pub attributes: u8,
        /// Bytes of vendor specific information.
        pub vendor_bytes: u8,
        /// NRG: reclaim groups.
        pub groups: U32,
        /// NRUH: reclaim unit handles.
        pub handles: U16,
        /// MAXPIDS: most placement identifiers of a namespace, less one.
        pub identifiers_max: U16,
        /// NNSS: most namespaces.
        pub namespaces_max: U32,
        /// RUNS: bytes of a reclaim unit.
        pub unit_bytes: U64,
        /// ERUTL: seconds after which a reclaim unit is left; 0: never.
        pub time_limit: U32,
        pub reserved_28: [u8; 36],
    }

    /// A reclaim unit handle of an FDP configuration (Base 2.1, figure 281).
    pub struct HandleKind: 4 {
        /// RUHT: initially isolated (1), persistently isolated (2).
        pub kind: u8,
        pub reserved_1: [u8; 3],
    }

    /// Head of the log of reclaim unit handles in use (Base 2.1, figure 284); a descriptor of each
    /// follows.
    pub struct HandleUsage: 8 {
        /// NRUH: reclaim unit handles.
        pub handles: U16,
        pub reserved_2: [u8; 6],
    }

    /// How a reclaim unit handle is used (Base 2.1, figure 285).
    pub struct HandleUse: 8 {
        /// RUHA: unused (0), in a list that a host gave (1), chosen by the controller (2).
        pub attributes: u8,
        pub reserved_1: [u8; 7],
    }

    /// FDP statistics (Base 2.1, figure 286).
    pub struct PlacementStatistics: 64 {
        /// HBMW: bytes that hosts wrote.
        pub host_bytes: U128,
        /// MBMW: bytes written to the media.
        pub media_bytes: U128,
        /// MBE: bytes erased.
        pub erased_bytes: U128,
        pub reserved_48: [u8; 16],
    }

    /// Head of the log of FDP events (Base 2.1, figure 288); events follow, the oldest first.
    pub struct PlacementEvents: 64 {
        /// Events that follow.
        pub events: U32,
        pub reserved_4: [u8; 60],
    }

    /// An FDP event (Base 2.1, figure 289).
    pub struct PlacementEvent: 64 {
        /// What has happened ([`placement_event`]).
        pub kind: u8,
        /// Which fields are valid: placement identifier (0), namespace (1), group and handle (2).
        pub valid: u8,
        /// PID.
        pub identifier: U16,
        /// When, as the Timestamp feature says.
        pub timestamp: [u8; 8],
        /// NSID.
        pub namespace_id: U32,
        /// Its meaning depends on the kind ([`MediaReallocated`]).
        pub specific: [u8; 16],
        /// Reclaim group.
        pub group: U16,
        /// Reclaim unit handle.
        pub handle: U16,
        pub reserved_36: [u8; 4],
        pub vendor: [u8; 24],
    }

    /// What is specific to [`placement_event::MEDIA_REALLOCATED`] (NVM Command Set 1.2, section
    /// 4.1.4.7.1.1).
    pub struct MediaReallocated: 16 {
        /// The LBA is valid (0).
        pub flags: u8,
        pub reserved_1: u8,
        /// NLBAM: logical blocks moved; 0: not said, 0xffff: so many or more.
        pub blocks: U16,
        /// One of them.
        pub lba: U64,
        pub reserved_12: [u8; 4],
    }

    /// SMART / Health Information Extended (OCP Datacenter NVMe SSD Specification 2.0, section 4.8.6);
    /// what Mynah does not count is zero.
    pub struct OcpSmart: 512 {
        /// Bytes written to the media, whatever they are.
        pub media_written: U128,
        /// Bytes read from the media, whatever for.
        pub media_read: U128,
        pub bad_blocks: [u8; 16],
        pub recoveries: U64,
        /// Errors that could not be corrected.
        pub read_errors: U64,
        pub corrected: [u8; 24],
        /// Most (first) and fewest erases of a block.
        pub erases: [U32; 2],
        pub throttling: [u8; 2],
        /// Version of the specification: errata, point, minor, major.
        pub specification: [u8; 6],
        pub reserved_104: [u8; 8],
        /// Power losses without a shutdown.
        pub incomplete_shutdowns: U32,
        pub reserved_116: [u8; 4],
        /// Share of free blocks in percent.
        pub free_percent: u8,
        pub reserved_121: [u8; 7],
        /// Charge of the capacitors against power losses in percent; all ones: there are none.
        pub capacitors: U16,
        pub reserved_130: [u8; 22],
        /// NUSE of all namespaces.
        pub used_blocks: U64,
        pub reserved_160: [u8; 16],
        /// Bytes that may be written over the life.
        pub endurance_estimate: U128,
        pub reserved_192: [u8; 302],
        /// Version of the log page.
        pub version: U16,
        /// Names this layout ([`OcpSmart::GUID`]).
        pub guid: [u8; 16],
    }

    /// Head of the ANA log (Base 2.0, figure 221); group descriptors follow.
    pub struct AnaHeader: 16 {
        /// Number of changes so far.
        pub change_count: U64,
        /// Number of group descriptors that follow.
        pub groups: U16,
        pub reserved_10: [u8; 6],
    }

    /// An ANA group (Base 2.0, figure 222); its namespace identifiers follow.
    pub struct AnaGroup: 32 {
        /// ANA group identifier.
        pub group: U32,
        /// Namespace identifiers that follow.
        pub namespaces: U32,
        /// Number of changes so far.
        pub change_count: U64,
        /// State: 1 optimised, 2 non-optimised, 3 inaccessible, 4 persistent loss, 15 change.
        pub state: u8,
        pub reserved_17: [u8; 15],
    }

    /// Reservation notification (Base 2.0, figure 261).
    pub struct ReservationNotification: 64 {
        /// Which notification; wraps to 1.
        pub count: U64,
        /// Empty (0), registration preempted (1), reservation released (2) or preempted (3).
        pub kind: u8,
        /// Notifications left behind this one.
        pub available: u8,
        pub reserved_10: [u8; 2],
        /// NSID.
        pub namespace_id: U32,
        pub reserved_16: [u8; 48],
    }

    /// Sanitize status (Base 2.0, figure 264).
    pub struct SanitizeStatus: 512 {
        /// Progress as a share of 65,536; 0xffff when none is under way.
        pub progress: U16,
        /// State (2:0), completed overwrite passes (7:3), nothing written since (8).
        pub status: U16,
        /// Dword 10 of the last Sanitize command.
        pub dword10: U32,
        /// Seconds that an overwrite takes.
        pub overwrite_seconds: U32,
        /// Seconds that a block erase takes.
        pub erase_seconds: U32,
        /// Seconds that a crypto erase takes.
        pub crypto_seconds: U32,
        /// Seconds that an overwrite takes without deallocation after it.
        pub overwrite_kept_seconds: U32,
        /// Seconds that a block erase takes without deallocation after it.
        pub erase_kept_seconds: U32,
        /// Seconds that a crypto erase takes without deallocation after it.
        pub crypto_kept_seconds: U32,
        pub reserved_32: [u8; 480],
    }

    /// Mynah's own page: what the modelled drive has counted.
    pub struct MynahDrive: 256 {
        /// Version of this layout: 1.
        pub version: U32,
        /// Bytes of a mapping unit.
        pub unit_bytes: U32,
        /// Bytes programmed for each byte that hosts wrote, times 1,000; 0: nothing written.
        pub write_amplification_milli: U32,
        pub reserved_12: [u8; 4],
        /// Mapping units that hosts wrote.
        pub host_units_written: U64,
        /// Mapping units programmed, relocations included.
        pub flash_units_programmed: U64,
        /// Mapping units that garbage collection moved.
        pub gc_units_moved: U64,
        /// Blocks collected.
        pub gc_runs: U64,
        /// Blocks erased.
        pub erases: U64,
        /// Erases of the most often erased block.
        pub erases_max: U64,
        /// Pages read.
        pub flash_reads: U64,
        /// Pages programmed.
        pub flash_programs: U64,
        /// Mapping entries found in the cached table.
        pub cmt_hits: U64,
        /// Mapping entries looked up in the cached table.
        pub cmt_lookups: U64,
        /// Units found in the write cache.
        pub cache_hits: U64,
        /// Units looked up in the write cache.
        pub cache_lookups: U64,
        /// Units whose latest data power cuts have taken.
        pub units_lost: U64,
        pub reserved_120: [u8; 136],
    }

    /// A histogram of durations: buckets 0 to 3 are whole nanoseconds; from then on each
    /// power of two has four, bucket 4n + m beginning at (4 + m) << (n - 1) nanoseconds.
    pub struct MynahHistogram: 1320 {
        /// Number of durations.
        pub count: U64,
        /// Sum of the durations in nanoseconds.
        pub sum_ns: U64,
        /// The longest in nanoseconds.
        pub max_ns: U64,
        /// How many fell into each bucket.
        pub buckets: [U64; 162],
    }

    /// Mynah's own page: how far real time was from the model's.
    pub struct MynahLateness: 2656 {
        /// Version of this layout: 1.
        pub version: U32,
        /// Buckets for each power of two: 4.
        pub per_octave: U32,
        pub reserved_8: [u8; 8],
        /// How late completions became visible.
        pub late: MynahHistogram,
        /// How uncertain the moments were at which commands came.
        pub uncertainty: MynahHistogram,
    }

    /// Head of the discovery log page (Base 2.0, figure 265); entries follow.
    pub struct DiscoveryHeader: 1024 {
        /// GENCTR: changes with every change of the page.
        pub generation: U64,
        /// NUMREC: entries that follow.
        pub records: U64,
        /// RECFMT: 0.
        pub format: U16,
        pub reserved_18: [u8; 1006],
    }

    /// An entry of the discovery log page.
    pub struct DiscoveryEntry: 1024 {
        /// TRTYPE: 3 is TCP.
        pub transport: u8,
        /// ADRFAM: 1 IPv4, 2 IPv6.
        pub address_family: u8,
        /// SUBTYPE: 1 another discovery subsystem, 2 an NVM subsystem, 3 this discovery subsystem.
        pub kind: u8,
        /// TREQ: secure channel required (1), not required (2); queue flow control may be
        /// disabled (bit 2).
        pub requirements: u8,
        /// PORTID.
        pub port_id: U16,
        /// CNTLID; 0xffff: dynamic controllers.
        pub controller_id: U16,
        /// ASQSZ: largest admin submission queue.
        pub admin_queue_max: U16,
        /// EFLAGS: duplicate information (0), no need to keep a connection (1).
        pub flags: U16,
        pub reserved_12: [u8; 20],
        /// TRSVCID: the port number in ASCII.
        pub service: [u8; 32],
        pub reserved_64: [u8; 192],
        /// NQN of the subsystem, ended by a zero.
        pub subsystem_nqn: [u8; 256],
        /// TRADDR: the address in ASCII.
        pub address: [u8; 256],
        /// TSAS: transport specific; the first byte is TCP's SECTYPE (0 none, 2 TLS 1.3).
        pub specific: [u8; 256],
    }
}

/// Types of FDP events (Base 2.1, figure 289): of hosts below 80h, of the controller from there on.
pub mod placement_event {
    /// A reclaim unit was left by an update before it was full.
    pub const NOT_FULLY_WRITTEN: u8 = 0x00;
    pub const TIME_LIMIT_EXCEEDED: u8 = 0x01;
    /// A reset has had a handle refer to another reclaim unit.
    pub const RESET_MODIFIED: u8 = 0x02;
    /// A write named no placement handle of its namespace.
    pub const INVALID_IDENTIFIER: u8 = 0x03;
    /// Collection has moved what a host had written.
    pub const MEDIA_REALLOCATED: u8 = 0x80;
    pub const IMPLICITLY_MODIFIED: u8 = 0x81;
}

impl PlacementEvent {
    /// Bits of [`PlacementEvent::valid`].
    pub const IDENTIFIER_VALID: u8 = 1;
    pub const NAMESPACE_VALID: u8 = 1 << 1;
    pub const LOCATION_VALID: u8 = 1 << 2;
}

impl OcpSmart {
    /// AFD514C97C6F4F9CA4F2BFEA2810AFC5h, its last byte first.
    pub const GUID: [u8; 16] = 0xafd5_14c9_7c6f_4f9c_a4f2_bfea_2810_afc5_u128.to_le_bytes();
}

impl MynahHistogram {
    pub const BUCKETS: usize = 162;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn fields_lie_where_the_specification_puts_them() {
        assert_eq!(offset_of!(ErrorEntry, namespace_id), 24);
        assert_eq!(offset_of!(Smart, data_units_read), 32);
        assert_eq!(offset_of!(Smart, error_entries), 176);
        assert_eq!(offset_of!(Smart, sensors), 200);
        assert_eq!(offset_of!(EnduranceGroup, endurance_estimate), 32);
        assert_eq!(offset_of!(EnduranceGroup, total_capacity), 160);
        assert_eq!(offset_of!(SelfTestLog, results), 4);
        assert_eq!(offset_of!(DiscoveryEntry, service), 32);
        assert_eq!(offset_of!(DiscoveryEntry, address), 512);
        assert_eq!(offset_of!(PlacementConfiguration, handles), 8);
        assert_eq!(offset_of!(PlacementConfiguration, unit_bytes), 16);
        assert_eq!(offset_of!(PlacementEvent, namespace_id), 12);
        assert_eq!(offset_of!(PlacementEvent, handle), 34);
        assert_eq!(offset_of!(MediaReallocated, lba), 4);
        assert_eq!(offset_of!(OcpSmart, read_errors), 56);
        assert_eq!(offset_of!(OcpSmart, erases), 88);
        assert_eq!(offset_of!(OcpSmart, incomplete_shutdowns), 112);
        assert_eq!(offset_of!(OcpSmart, capacitors), 128);
        assert_eq!(offset_of!(OcpSmart, used_blocks), 152);
        assert_eq!(offset_of!(OcpSmart, endurance_estimate), 176);
        assert_eq!(offset_of!(OcpSmart, version), 494);
    }
}
