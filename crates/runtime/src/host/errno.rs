//! What an error number of Linux is as an NVMe status: the way back of what Linux' NVMe driver makes of
//! statuses (`nvme_error_status` in drivers/nvme/host/core.c, `blk_errors` in block/blk-core.c). NBD has the
//! same numbers.

use mynah_wire::nvme::Status;

/// The status of a command that ended with this error, a positive number.
pub(super) fn status_of(errno: u32) -> Status {
    match errno {
        // EPERM, EACCES, EROFS.
        1 | 13 | 30 => Status::NAMESPACE_WRITE_PROTECTED,
        // EAGAIN, ENOMEM, EINTR.
        4 | 11 | 12 => Status::COMMAND_INTERRUPTED,
        // EINVAL.
        22 => Status::INVALID_FIELD,
        // ENOSPC, EDQUOT.
        28 | 122 => Status::CAPACITY_EXCEEDED,
        // EBADE: somebody else's reservation.
        52 => Status::RESERVATION_CONFLICT,
        // ENODATA: a medium error.
        61 => Status::UNRECOVERED_READ_ERROR,
        // EILSEQ: an integrity error.
        84 => Status::GUARD_CHECK_ERROR,
        // EOPNOTSUPP.
        95 => Status::INVALID_OPCODE,
        // ETIMEDOUT.
        110 => Status::ABORT_REQUESTED,
        // EIO and all others.
        _ => Status::INTERNAL_ERROR,
    }
}
