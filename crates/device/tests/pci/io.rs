//! Reads, writes and the rest over queues in guest memory.

use crate::shared::{self, pattern, read, write};
use crate::support::*;
use mynah_device::{ReplyKind, Timing};
use mynah_stamp::{Span, Stage};
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

#[test]
fn completions_are_heard_of_with_where_their_time_went() {
    let mut host = Host::with_io(Timing::Modelled);
    host.ears.heard.clear();
    host.wait(Span::from_us(50));
    let began = host.now;
    assert_eq!(host.send(1, write(0, 8), &[7; 4096]), Status::SUCCESS);
    assert_eq!(host.fetch(1, read(0, 8), 4096).0, Status::SUCCESS);
    let [first, second] = &host.ears.heard[..] else { panic!("{:?}", host.ears.heard) };
    assert_eq!((first.kind, second.kind), (ReplyKind::Write, ReplyKind::Read));
    for heard in [first, second] {
        assert_eq!((heard.queue_id, heard.bytes), (1, 4096));
        assert!(heard.stages.get(Stage::SubmissionQueue) > Span::ZERO);
        assert!(heard.stages.get(Stage::CommandFetch) > Span::ZERO);
        assert!(heard.stages.get(Stage::Completion) > Span::ZERO);
    }
    assert!(first.stages.get(Stage::DataIn) > Span::ZERO);
    assert!(second.stages.get(Stage::DataOut) > Span::ZERO);
    assert_eq!(first.arrival, began);
    assert_eq!(second.due, Some(host.now));
    assert_ne!(first.command_id, second.command_id);
    // One interrupt for each on the queue's vector, and the admin queue's.
    assert_eq!(host.interrupts, [0, 0, 1, 1]);
}

#[test]
fn plain_commands_without_timing_are_counted() {
    let mut host = Host::with_io(Timing::Immediate);
    for block in 0..5 {
        assert_eq!(host.send(1, write(block, 1), &[7; 512]), Status::SUCCESS);
    }
    assert_eq!(host.fetch(1, read(0, 8), 4096).0, Status::SUCCESS);
    assert_eq!(host.ears.plain, [(1, 4096), (5, 2560)]);
}
