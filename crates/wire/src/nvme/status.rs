//! How a command ended (Base 2.0, section 3.3.3.2.1).

use std::borrow::Cow;

/// A status: code type, code, and the hints that go with them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(u16);

const MORE: u16 = 1 << 13;
const DO_NOT_RETRY: u16 = 1 << 14;

macro_rules! statuses {
    ($($(#[doc = $doc:literal])+
        $name:ident = $kind:literal, $code:literal, $result_name:literal;)+) => {
        impl Status {
            $($(#[doc = $doc])+ pub const $name: Status = Status($kind << 8 | $code);)+

            /// The name of this status, if it is one of those known here. Codes that command
            /// sets share (1/0x80 and up) have the name that the NVM command set gives them.
            #[allow(unreachable_patterns)]
            pub fn name(self) -> Option<&'static str> {
                match Status(self.0 & 0x7ff) {
                    $(Status::$name => Some(stringify!($name)),)+
                    _ => None,
                }
            }

            /// The name under which results count commands that end so: one of their own for all
            /// that are known here, and type and code (`sct_1h_sc_83h`) for others.
            #[allow(unreachable_patterns)]
            pub fn result_name(self) -> Cow<'static, str> {
                match Status(self.0 & 0x7ff) {
                    $(Status::$name => Cow::Borrowed($result_name),)+
                    _ => {
                        let (kind, code) = (self.code_type(), self.code());
                        Cow::Owned(format!("sct_{kind:x}h_sc_{code:02x}h"))
                    }
                }
            }
        }
    };
}

statuses! {
    /// The command was successful.
    SUCCESS = 0, 0x00, "success";
    /// The opcode is not supported.
    INVALID_OPCODE = 0, 0x01, "invalid_opcode";
    /// A field of the command is not valid.
    INVALID_FIELD = 0, 0x02, "invalid_field";
    /// The command identifier is in use.
    COMMAND_ID_CONFLICT = 0, 0x03, "command_id_conflict";
    /// The data could not be moved.
    DATA_TRANSFER_ERROR = 0, 0x04, "data_transfer_error";
    /// Aborted because power was lost.
    ABORTED_POWER_LOSS = 0, 0x05, "aborted_power_loss";
    /// An internal error of the controller.
    INTERNAL_ERROR = 0, 0x06, "internal_error";
    /// Aborted on request.
    ABORT_REQUESTED = 0, 0x07, "aborted";
    /// Its submission queue was deleted.
    ABORTED_QUEUE_DELETED = 0, 0x08, "aborted_queue_deleted";
    /// The other half of a fused command failed.
    ABORTED_FAILED_FUSED = 0, 0x09, "aborted_failed_fused";
    /// The other half of a fused command is missing.
    ABORTED_MISSING_FUSED = 0, 0x0a, "aborted_missing_fused";
    /// The namespace does not exist or is not attached.
    INVALID_NAMESPACE = 0, 0x0b, "invalid_namespace";
    /// The command came at the wrong moment.
    COMMAND_SEQUENCE_ERROR = 0, 0x0c, "command_sequence_error";
    /// An SGL descriptor is not valid.
    SGL_INVALID_SEGMENT = 0, 0x0d, "sgl_invalid_segment";
    /// There are too many or too few SGL descriptors.
    SGL_COUNT_INVALID = 0, 0x0e, "sgl_count_invalid";
    /// The length of the data does not fit the command.
    SGL_DATA_LENGTH_INVALID = 0, 0x0f, "sgl_data_length_invalid";
    /// This descriptor type is not valid.
    SGL_TYPE_INVALID = 0, 0x11, "sgl_type_invalid";
    /// The offset of a PRP entry is not valid.
    PRP_OFFSET_INVALID = 0, 0x13, "prp_offset_invalid";
    /// The offset lies outside the capsule.
    SGL_OFFSET_INVALID = 0, 0x16, "sgl_offset_invalid";
    /// The host identifier is not consistent.
    HOST_ID_INCONSISTENT = 0, 0x18, "host_id_inconsistent";
    /// The keep-alive timer has run out.
    KEEP_ALIVE_EXPIRED = 0, 0x19, "keep_alive_expired";
    /// The keep-alive timeout is not valid.
    KEEP_ALIVE_INVALID = 0, 0x1a, "keep_alive_invalid";
    /// Another host has taken the reservation over, with Preempt and Abort.
    ABORTED_PREEMPTED = 0, 0x1b, "aborted_preempted";
    /// The last sanitize failed.
    SANITIZE_FAILED = 0, 0x1c, "sanitize_failed";
    /// More blocks than are written atomically.
    ATOMIC_WRITE_UNIT_EXCEEDED = 0, 0x14, "atomic_write_unit_exceeded";
    /// A sanitize is in progress.
    SANITIZE_IN_PROGRESS = 0, 0x1d, "sanitize_in_progress";
    /// The namespace is write protected.
    NAMESPACE_WRITE_PROTECTED = 0, 0x20, "write_protected";
    /// The command was interrupted; try again.
    COMMAND_INTERRUPTED = 0, 0x21, "command_interrupted";
    /// A transport error; it may be tried again.
    TRANSIENT_TRANSPORT_ERROR = 0, 0x22, "transient_transport_error";
    /// Data placement is disabled in the endurance group.
    FDP_DISABLED = 0, 0x29, "fdp_disabled";
    /// The list of reclaim unit handles of a new namespace is not valid.
    PLACEMENT_HANDLES_INVALID = 0, 0x2a, "placement_handles_invalid";
    /// The namespace is not ready.
    NAMESPACE_NOT_READY = 0, 0x82, "namespace_not_ready";
    /// The range passes the namespace's end.
    LBA_OUT_OF_RANGE = 0, 0x80, "lba_out_of_range";
    /// The namespace cannot hold more.
    CAPACITY_EXCEEDED = 0, 0x81, "capacity_exceeded";
    /// Somebody else holds a reservation.
    RESERVATION_CONFLICT = 0, 0x83, "reservation_conflict";
    /// A format is in progress.
    FORMAT_IN_PROGRESS = 0, 0x84, "format_in_progress";
    /// A value cannot have this size (key-value).
    INVALID_VALUE_SIZE = 0, 0x85, "invalid_value_size";
    /// A key cannot have this size (key-value).
    INVALID_KEY_SIZE = 0, 0x86, "invalid_key_size";
    /// The key does not exist (key-value).
    KEY_DOES_NOT_EXIST = 0, 0x87, "key_does_not_exist";
    /// The value could not be read (key-value).
    UNRECOVERED_VALUE_ERROR = 0, 0x88, "unrecovered_value_error";
    /// The key exists (key-value).
    KEY_EXISTS = 0, 0x89, "key_exists";

    /// The completion queue does not exist.
    COMPLETION_QUEUE_INVALID = 1, 0x00, "completion_queue_invalid";
    /// The queue does not exist.
    QUEUE_ID_INVALID = 1, 0x01, "queue_id_invalid";
    /// The queue cannot have this size.
    QUEUE_SIZE_INVALID = 1, 0x02, "queue_size_invalid";
    /// More Abort commands than ACL allows.
    ABORT_LIMIT_EXCEEDED = 1, 0x03, "abort_limit_exceeded";
    /// Too many asynchronous event requests.
    ASYNC_EVENT_LIMIT_EXCEEDED = 1, 0x05, "async_event_limit_exceeded";
    /// The slot does not exist or is read only.
    FIRMWARE_SLOT_INVALID = 1, 0x06, "firmware_slot_invalid";
    /// The image is not valid.
    FIRMWARE_IMAGE_INVALID = 1, 0x07, "firmware_image_invalid";
    /// The vector does not exist.
    INTERRUPT_VECTOR_INVALID = 1, 0x08, "interrupt_vector_invalid";
    /// The log page is not supported.
    LOG_PAGE_INVALID = 1, 0x09, "log_page_invalid";
    /// The LBA format is not supported.
    FORMAT_INVALID = 1, 0x0a, "format_invalid";
    /// Submission queues still use the completion queue.
    QUEUE_DELETION_INVALID = 1, 0x0c, "queue_deletion_invalid";
    /// The feature is not saveable.
    FEATURE_NOT_SAVEABLE = 1, 0x0d, "feature_not_saveable";
    /// The feature cannot be changed.
    FEATURE_NOT_CHANGEABLE = 1, 0x0e, "feature_not_changeable";
    /// The feature is not namespace specific.
    FEATURE_NOT_NAMESPACE_SPECIFIC = 1, 0x0f, "feature_not_namespace_specific";
    /// Firmware ranges overlap.
    FIRMWARE_RANGE_OVERLAP = 1, 0x14, "firmware_range_overlap";
    /// Not enough capacity left for the namespace.
    NAMESPACE_INSUFFICIENT_CAPACITY = 1, 0x15, "namespace_insufficient_capacity";
    /// No namespace identifier is left.
    NAMESPACE_ID_UNAVAILABLE = 1, 0x16, "namespace_id_unavailable";
    /// The namespace is attached already.
    NAMESPACE_ALREADY_ATTACHED = 1, 0x18, "namespace_already_attached";
    /// The namespace is attached to another controller and cannot be shared.
    NAMESPACE_PRIVATE = 1, 0x19, "namespace_private";
    /// The namespace is not attached.
    NAMESPACE_NOT_ATTACHED = 1, 0x1a, "namespace_not_attached";
    /// Thin provisioning is not supported.
    THIN_PROVISIONING_UNSUPPORTED = 1, 0x1b, "thin_provisioning_unsupported";
    /// The controller list is not valid.
    CONTROLLER_LIST_INVALID = 1, 0x1c, "controller_list_invalid";
    /// A self-test is in progress.
    SELF_TEST_IN_PROGRESS = 1, 0x1d, "self_test_in_progress";
    /// The combination of command sets cannot be selected.
    COMMAND_SET_COMBINATION_REJECTED = 1, 0x2b, "command_set_combination_rejected";
    /// The command set cannot be used.
    COMMAND_SET_INVALID = 1, 0x2c, "command_set_invalid";

    /// Attributes contradict one another (NVM).
    CONFLICTING_ATTRIBUTES = 1, 0x80, "conflicting_attributes";
    /// The protection information is not valid (NVM).
    INVALID_PROTECTION_INFORMATION = 1, 0x81, "invalid_protection_information";
    /// The range is read only (NVM).
    WRITE_TO_READ_ONLY_RANGE = 1, 0x82, "write_to_read_only_range";
    /// The command reaches a size limit (NVM).
    COMMAND_SIZE_LIMIT_EXCEEDED = 1, 0x83, "command_size_limit_exceeded";

    /// The connect parameters' format is not supported (Fabrics).
    CONNECT_INCOMPATIBLE_FORMAT = 1, 0x80, "connect_incompatible_format";
    /// The controller is connected already (Fabrics).
    CONNECT_CONTROLLER_BUSY = 1, 0x81, "connect_controller_busy";
    /// A connect parameter is not valid (Fabrics).
    CONNECT_INVALID_PARAMETERS = 1, 0x82, "connect_invalid_parameters";
    /// Start again with discovery (Fabrics).
    CONNECT_RESTART_DISCOVERY = 1, 0x83, "connect_restart_discovery";
    /// This host may not connect (Fabrics).
    CONNECT_INVALID_HOST = 1, 0x84, "connect_invalid_host";
    /// The queue has another type (Fabrics).
    INVALID_QUEUE_TYPE = 1, 0x85, "invalid_queue_type";
    /// The discovery log has changed; read it again (Fabrics).
    DISCOVER_RESTART = 1, 0x90, "discover_restart";
    /// The host must authenticate first (Fabrics).
    AUTHENTICATION_REQUIRED = 1, 0x91, "authentication_required";

    /// The media could not take the data.
    WRITE_FAULT = 2, 0x80, "write_fault";
    /// The media could not return the data.
    UNRECOVERED_READ_ERROR = 2, 0x81, "unrecovered_read_error";
    /// The guard check of protection information failed.
    GUARD_CHECK_ERROR = 2, 0x82, "guard_check_error";
    /// The application tag check failed.
    APPLICATION_TAG_CHECK_ERROR = 2, 0x83, "application_tag_check_error";
    /// The reference tag check failed.
    REFERENCE_TAG_CHECK_ERROR = 2, 0x84, "reference_tag_check_error";
    /// The data of a Compare differ.
    COMPARE_FAILURE = 2, 0x85, "compare_failure";
    /// Access is denied.
    ACCESS_DENIED = 2, 0x86, "access_denied";
    /// The block was deallocated or never written.
    DEALLOCATED_BLOCK = 2, 0x87, "deallocated_block";

    /// An internal path error (path related).
    INTERNAL_PATH_ERROR = 3, 0x00, "internal_path_error";
    /// The path's state does not allow access: persistent loss.
    ANA_PERSISTENT_LOSS = 3, 0x01, "ana_persistent_loss";
    /// The path's state does not allow access: inaccessible.
    ANA_INACCESSIBLE = 3, 0x02, "ana_inaccessible";
    /// The path's state does not allow access: transition.
    ANA_TRANSITION = 3, 0x03, "ana_transition";
}

impl Status {
    /// A status by its code type (0 to 7) and code.
    pub const fn new(code_type: u8, code: u8) -> Status {
        Status((code_type as u16 & 7) << 8 | code as u16)
    }

    /// The 15 bits of the completion entry above the phase.
    pub const fn to_bits(self) -> u16 {
        self.0
    }

    /// From the 15 bits above the phase.
    pub const fn from_bits(bits: u16) -> Status {
        Status(bits & 0x7fff)
    }

    /// Whether the command succeeded.
    pub const fn is_success(self) -> bool {
        self.0 & 0x7ff == 0
    }

    /// The same status with DNR (Do Not Retry).
    pub const fn do_not_retry(self) -> Status {
        Status(self.0 | DO_NOT_RETRY)
    }

    /// Whether DNR (Do Not Retry) is set.
    pub const fn is_final(self) -> bool {
        self.0 & DO_NOT_RETRY != 0
    }

    /// The same status with M (More): the error log has an entry.
    pub const fn more_in_error_log(self) -> Status {
        Status(self.0 | MORE)
    }

    /// SCT, the status code type.
    pub const fn code_type(self) -> u8 {
        (self.0 >> 8 & 7) as u8
    }

    /// SC, the status code.
    pub const fn code(self) -> u8 {
        self.0 as u8
    }
}

impl std::fmt::Debug for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name}")?,
            None => write!(f, "{:#x}/{:#04x}", self.code_type(), self.code())?,
        }
        if self.is_final() { write!(f, " (do not retry)") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_status_has_a_name_of_its_own_in_results() {
        let mut names: BTreeMap<String, u16> = BTreeMap::new();
        for bits in 0..0x800 {
            let name = Status::from_bits(bits).result_name().into_owned();
            let is_plain =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            assert!(name.bytes().all(is_plain), "{name}");
            assert_eq!(names.insert(name.clone(), bits), None, "{name}");
        }
        // The hints are not part of it.
        let conflict = Status::RESERVATION_CONFLICT.do_not_retry().more_in_error_log();
        assert_eq!(conflict.result_name(), "reservation_conflict");
        assert_eq!(Status::new(1, 0x83).result_name(), "command_size_limit_exceeded");
        assert_eq!(Status::new(1, 0xc3).result_name(), "sct_1h_sc_c3h");
        assert_eq!(Status::new(7, 0x0a).result_name(), "sct_7h_sc_0ah");
    }
}
