//! Reads, writes and the rest over queues in guest memory.

use crate::shared::{self, pattern, read, write};
use crate::support::*;
use mynah_device::Timing;
use mynah_wire::nvme::Status;

const BOTH: [Timing; 2] = [Timing::Immediate, Timing::Modelled];

#[test]
fn what_is_written_is_read() {
    for timing in BOTH {
        let mut host = Host::with_io(timing);
        for (start, blocks) in [(0, 1), (1, 8), (9, 16), (25, 17), (100, 512), (3, 300)] {
            let data = pattern(start, blocks as usize * 512);
            assert_eq!(host.send(1, write(start, blocks), &data), Status::SUCCESS);
            let (status, back) = host.fetch(1, read(start, blocks), data.len());
            assert_eq!(status, Status::SUCCESS);
            assert_eq!(back, data, "{timing:?} {start} {blocks}");
        }
        assert_eq!(host.fetch(1, read(u64::MAX, 1), 512).0, Status::LBA_OUT_OF_RANGE);
        assert_eq!(host.fetch(1, read(0, 1024), 512 << 10).0, Status::INVALID_FIELD, "MDTS");
        assert_eq!(host.plain(1, shared::entry(0x55, 1)), Status::INVALID_OPCODE);
        assert_eq!(host.plain(1, shared::entry(0x7f, 1)), Status::INVALID_OPCODE);
    }
}
