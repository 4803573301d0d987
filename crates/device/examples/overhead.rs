//! What the subsystem costs beyond the model: processor time of a read or write in nanoseconds,
//! with the model and without, beside that of the bare model. Linux only.
//!
//! `cargo run --release -p mynah-device --example overhead`

#[allow(dead_code)]
#[path = "../tests/device/support.rs"]
mod support;

use mynah_device::{Now, Output, Queue, Subsystem, Timing};
use mynah_model::Drive;
use mynah_model::io::{
    Control, FlowId, NamespaceId, Operation, Output as Said, QueueId, QueueKind, Request, Tag,
};
use mynah_stamp::Time;
use mynah_wire::nvme::SubmissionEntry;
use support::{World, read, write};

const COMMANDS: u64 = 200_000;
const DEPTH: u64 = 32;
const UNITS: u64 = 1500;

fn at(time: Time) -> Now {
    Now { wall: time, model: time }
}

/// Keeps `DEPTH` commands outstanding; returns nanoseconds a command.
fn subsystem(timing: Timing, entry: fn(u64, u32) -> SubmissionEntry) -> f64 {
    let mut world = World::new(timing);
    let (_, io, _) = world.host();
    let data = [7; 4096];
    for unit in 0..UNITS {
        world.status(io, write(unit * 8, 8), &data);
    }
    let mut now = world.now;
    let subsystem = &mut world.subsystem;
    let mut into = [0; 4096];
    let began = processor_ns();
    let (mut sent, mut done) = (0, 0);
    while done < COMMANDS {
        while sent < COMMANDS && sent - done < DEPTH {
            submit(subsystem, now, io, entry(sent * 77 % UNITS * 8, 8), sent, &data);
            sent += 1;
        }
        if let Some(next) = subsystem.next_at().model {
            now = now.max(next);
        }
        subsystem.advance(at(now));
        while let Some(output) = subsystem.poll() {
            if let Output::Completion(mut reply) = output {
                subsystem.fill(&mut reply, &mut into);
                done += 1;
            }
        }
    }
    (processor_ns() - began) / COMMANDS as f64
}

fn submit(
    subsystem: &mut Subsystem,
    now: Time,
    io: Queue,
    mut entry: SubmissionEntry,
    id: u64,
    data: &[u8],
) {
    entry.command_id.set(id as u16);
    subsystem.submit(at(now), io, &entry, data);
}

fn bare(operation: Operation) -> f64 {
    let mut drive = Drive::new(support::small()).expect("a drive");
    let queue = QueueId(1);
    let create = Control::CreateQueue(mynah_model::io::Queue {
        id: queue,
        kind: QueueKind::Fetched,
        flow: FlowId(0),
        priority: Default::default(),
        completion_entries: 1024,
    });
    drive.control(Time::ZERO, create).expect("a queue");
    let mut run = |operation, commands: u64| {
        let began = processor_ns();
        let (mut sent, mut done) = (0, 0);
        while done < commands {
            while sent < commands && sent - done < DEPTH {
                let request = Request {
                    placement: Default::default(),
                    tag: Tag(sent as u32),
                    operation,
                    namespace: NamespaceId(1),
                    sector: sent * 77 % UNITS * 8,
                    sectors: 8,
                };
                drive.command(drive.now(), queue, request).expect("a command");
                sent += 1;
            }
            drive.advance(drive.next_at().unwrap_or(Time::MAX));
            while let Some(said) = drive.poll() {
                done += u64::from(matches!(said, Said::Complete(_)));
            }
        }
        (processor_ns() - began) / commands as f64
    };
    run(Operation::Write, UNITS);
    run(operation, COMMANDS)
}

/// Time this thread has run, in nanoseconds.
fn processor_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|first| first.parse().ok()).expect("a number")
}

fn best(mut measure: impl FnMut() -> f64) -> f64 {
    (0..5).map(|_| measure()).fold(f64::MAX, f64::min)
}

fn main() {
    for (name, entry, operation) in [
        ("read", read as fn(u64, u32) -> SubmissionEntry, Operation::Read),
        ("write", write, Operation::Write),
    ] {
        let immediate = best(|| subsystem(Timing::Immediate, entry));
        let modelled = best(|| subsystem(Timing::Modelled, entry));
        let model = best(|| bare(operation));
        println!(
            "4 KiB {name}: {immediate:.0} ns without the model; {modelled:.0} ns with it, of \
             which {model:.0} ns are the model's",
        );
    }
}
