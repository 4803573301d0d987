//! Reads, writes and their kin.

use crate::support::*;
use mynah_device::{CommandKind, Timing};
use mynah_stamp::Span;
use mynah_wire::nvme::Status;
use mynah_wire::nvme::opcode::nvm;

#[test]
fn what_is_written_is_read() {
    for timing in [Timing::Modelled, Timing::Immediate] {
        let mut world = World::new(timing);
        let (_, io, _) = world.host();
        let data = pattern(1, 9 * 512);
        assert_eq!(world.status(io, write(7, 9), &data), Status::SUCCESS);
        let (reply, back) = world.call(io, read(6, 11), &[]);
        assert!(reply.status().is_success());
        assert_eq!(back[..512], [0; 512]);
        assert_eq!(back[512..10 * 512], data);
        assert_eq!(back[10 * 512..], [0; 512]);
    }
}

#[test]
fn completions_carry_the_modelled_time() {
    let mut world = World::new(Timing::Modelled);
    let (_, io, _) = world.host();
    world.wait(Span::from_us(10));
    world.status(io, write(0, 8), &pattern(2, 4096));
    world.call(io, entry(nvm::FLUSH, 1), &[]);
    let before = world.now;
    let id = world.submit(io, read(0, 8), &[]);
    let (reply, _) = world.reply(io, id);
    assert_eq!(reply.kind, CommandKind::Read);
    assert_eq!((reply.arrival, reply.bytes), (before, 4096));
    let due = reply.due.expect("modelled");
    assert_eq!(due, world.now);
    assert!(due.since(before) > Span::from_us(50), "a flash read");
    assert_eq!(reply.stages.total(), due.since(before));
    // At once and without the model.
    let mut world = World::new(Timing::Immediate);
    let (_, io, _) = world.host();
    let id = world.submit(io, read(0, 8), &[]);
    let (reply, _) = world.reply_now(io, id).expect("at once");
    assert_eq!(reply.due, None);
}

#[test]
fn commands_that_are_refused() {
    let mut world = World::new(Timing::Modelled);
    let (_, io, _) = world.host();
    let size = world.subsystem.namespace_blocks(1).expect("a namespace");
    let short = |mut entry: mynah_wire::nvme::SubmissionEntry| {
        entry.data.length.set(100);
        entry
    };
    for (entry, expected) in [
        (read(size, 1), Status::LBA_OUT_OF_RANGE),
        (read(size - 1, 2), Status::LBA_OUT_OF_RANGE),
        (read(u64::MAX, 1), Status::LBA_OUT_OF_RANGE),
        (write(size - 1, 2), Status::LBA_OUT_OF_RANGE),
        (read(0, 257), Status::INVALID_FIELD),
        (short(read(0, 1)), Status::SGL_DATA_LENGTH_INVALID),
        (write(0, 2), Status::SGL_DATA_LENGTH_INVALID),
        (blocks(nvm::READ, 2, 0, 1), Status::INVALID_NAMESPACE),
        (blocks(nvm::READ, 0, 0, 1), Status::INVALID_NAMESPACE),
        (blocks(nvm::READ, u32::MAX, 0, 1), Status::INVALID_NAMESPACE),
        (blocks(0x99, 1, 0, 1), Status::INVALID_OPCODE),
        (blocks(nvm::DATASET_MANAGEMENT, 1, 255, 1), Status::SGL_DATA_LENGTH_INVALID),
    ] {
        assert_eq!(world.status(io, entry, &[0; 512]), expected, "{entry:?}");
    }
    // Nothing of it was carried out.
    assert_eq!(world.call(io, read(size - 1, 1), &[]).1, [0; 512]);
}
