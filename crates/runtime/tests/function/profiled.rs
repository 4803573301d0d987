//! The profile of a PCI function: every command once, and stages that add up, in a time of the test's
//! own.

use crate::shared;
use crate::support::Host;
use mynah_device::pci::Guest;
use mynah_device::{Now, Timing};
use mynah_profile::{Choice, Counts, Head, KeepAbove, Profile, Sampling, hash};
use mynah_runtime::clock::{Rate, Times};
use mynah_runtime::hub::Measure;
use mynah_runtime::profile::{FunctionNotes, Owner, Profiled, TargetProfile};
use mynah_runtime::vfio_user::{Looks, Profiling, Watcher};
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::opcode::nvm;
use mynah_wire::nvme::{Status, SubmissionEntry};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A clock that each reading moves on.
struct Scripted {
    rate: Rate,
    wall: Cell<Time>,
    steps: Vec<Span>,
    readings: Cell<usize>,
}

impl Times for Scripted {
    fn now(&self) -> Now {
        let reading = self.readings.get();
        self.readings.set(reading + 1);
        self.wall.set(self.wall.get() + self.steps[reading % self.steps.len()]);
        Now { wall: self.wall.get(), model: self.rate.model(self.wall.get()) }
    }

    fn rate(&self) -> Rate {
        self.rate
    }
}

/// A guest, its function, and a profile of it.
struct World {
    host: Host,
    clock: Scripted,
    profile: TargetProfile,
    notes: FunctionNotes,
    looks: Looks,
    measure: Measure,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

const ENTRIES: u32 = 64;

impl World {
    fn new(timing: Timing, rate: Rate, steps: &[u32], choice: Choice) -> World {
        let host = Host::with_io(timing);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("function.profile");
        let of = Profiled { drive: "test".into(), has_link: false, has_functions: true };
        let mut profile = TargetProfile::create(&path, of, rate).expect("a profile");
        profile.choose(choice).expect("a choice");
        // The guest's own time goes on where it is.
        let wall = rate.wall(host.now);
        World {
            clock: Scripted {
                rate,
                wall: Cell::new(wall),
                steps: steps.iter().map(|&ns| Span::from_ns(ns.into())).collect(),
                readings: Cell::new(0),
            },
            host,
            profile,
            notes: FunctionNotes::default(),
            looks: Looks::default(),
            measure: Measure::new(rate),
            path,
            _folder: folder,
        }
    }

    /// A look at the doorbells, and what follows; whether there was something to do.
    fn turn(&mut self) -> bool {
        let now = self.clock.now();
        self.looks.settle(now, &mut self.measure);
        let gap = self.looks.look(now);
        let Host { subsystem, function, memory, doorbells, .. } = &mut self.host;
        let owner = Owner { controller_id: function.controller_id(), tenant: 0 };
        let profiling = Profiling { profile: &mut self.profile, notes: &mut self.notes, owner };
        let guest = Guest { memory, doorbells };
        let watcher = Watcher::new(&self.clock, now, gap, &mut self.looks, &mut self.measure);
        let mut watcher = watcher.with(None, Some(profiling));
        let worked = function.turn(now, subsystem, guest, &mut watcher);
        watcher.finish(subsystem);
        self.host.take();
        worked
    }

    /// Gives the guest's commands to the function, `depth` at a time; their statuses in the order of the
    /// commands.
    fn run(&mut self, commands: &[SubmissionEntry], depth: usize) -> Vec<Status> {
        let mut ids = vec![];
        let mut ended = BTreeMap::new();
        let mut left = commands.iter();
        for _ in 0..1_000_000 {
            if ended.len() == commands.len() {
                let status = |id: &u16| shared::plain(ended[id]);
                return ids.iter().map(status).collect();
            }
            while ids.len() - ended.len() < depth
                && let Some(command) = left.next()
            {
                ids.push(self.host.insert(1, *command));
            }
            self.host.ring(1);
            if !self.turn()
                && let Some(next) = self.host.subsystem.next_at().model
            {
                let wall = self.clock.rate.wall(next);
                self.clock.wall.set(self.clock.wall.get().max(wall));
            }
            for done in self.host.done.drain(..) {
                assert!(ended.insert(done.command_id.get(), done.status()).is_none());
            }
        }
        panic!("commands do not end");
    }

    /// A command of `kind`, and what its record has to say: opcode, bytes, status.
    fn command(&mut self, kind: u8, block: u32) -> (SubmissionEntry, (u8, u32, Status)) {
        let at = self.host.pages(8192);
        let block = u64::from(block % 1000);
        let (mut entry, bytes, status) = match kind {
            0 | 1 => (shared::read(block, 8), 4096, Status::SUCCESS),
            2 | 3 => (shared::write(block, 16), 8192, Status::SUCCESS),
            4 => (shared::entry(nvm::FLUSH, 1), 0, Status::SUCCESS),
            5 => (shared::read(u64::MAX / 1024, 8), 0, Status::LBA_OUT_OF_RANGE),
            _ => (shared::blocks(nvm::VERIFY, 1, block, 8), 0, Status::SUCCESS),
        };
        self.host.set_prps(&mut entry, at, 8192.min(u64::from(bytes.max(1))));
        (entry, (entry.opcode, bytes, status))
    }
}

/// The head of a record, and its stages by name.
type Read = (Head, BTreeMap<String, Span>);

fn records(path: &Path) -> (Counts, Vec<Read>) {
    let profile = Profile::open(path).expect("a profile");
    let (counts, names) = (profile.counts(), profile.header().stages.clone());
    let mut records = profile.records();
    let mut all = vec![];
    while let Some(record) = records.next_record().expect("all of it") {
        assert_eq!(record.residual(), 0, "{record:?}");
        let stages = names.iter().cloned().zip(record.stages.iter().copied());
        all.push((record.head, stages.collect()));
    }
    assert_eq!(records.torn(), 0);
    (counts, all)
}

/// Runs the commands; the counts and records that there are then, in the order of the commands.
fn run(
    timing: Timing,
    rate: Rate,
    commands: &[(u8, u32)],
    (steps, depth): (&[u32], usize),
    choice: Choice,
) -> (Counts, Vec<Read>, Vec<(u8, u32, Status)>) {
    let mut world = World::new(timing, rate, steps, choice);
    let all: Vec<_> = commands.iter().map(|&(kind, block)| world.command(kind, block)).collect();
    let (entries, expected): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let statuses = world.run(&entries, depth);
    assert_eq!(statuses, expected.iter().map(|it| it.2).collect::<Vec<_>>());
    let (counts, mut records) = records(&world.path);
    records.sort_by_key(|(head, _)| head.nth);
    (counts, records, expected)
}

fn commands() -> impl Strategy<Value = Vec<(u8, u32)>> {
    prop::collection::vec((0..7u8, any::<u32>()), 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// With a model: each command has one record whose stages add up to the picosecond, also where the
    /// drive's clock goes faster or slower; what comes behind the model is late, and nothing else is.
    #[test]
    fn every_command_has_a_record_whose_stages_add_up(
        commands in commands(),
        steps in prop::collection::vec(1..20_000u32, 1..5),
        depth in 1..50usize,
        factor in prop_oneof![Just(1.0), Just(0.1), Just(3.7)],
    ) {
        let rate = Rate::new(factor).unwrap();
        let all = Choice::default();
        let (counts, records, expected) =
            run(Timing::Modelled, rate, &commands, (&steps, depth), all);
        let count = commands.len() as u64;
        prop_assert_eq!((counts.completed, counts.recorded), (count, count));
        for (nth, ((head, stages), (opcode, bytes, status))) in (0..).zip(records.iter().zip(expected)) {
            prop_assert_eq!((head.nth, head.queue, head.opcode), (nth, 1, opcode));
            prop_assert_eq!(head.status, status.to_bits() & 0x7ff);
            prop_assert!(head.bytes == bytes || opcode == nvm::VERIFY || !status.is_success());
            prop_assert!((1..=depth).contains(&usize::from(head.outstanding)));
            for nothing in ["data_request", "intake", "output", "entry_fetch", "data_transfer", "backlog"] {
                prop_assert!(stages[nothing].is_zero(), "{nothing}");
            }
            prop_assert!(!stages["completion_post"].is_zero());
            if matches!(opcode, nvm::READ | nvm::WRITE) && status.is_success() {
                prop_assert!(stages["processing"].is_zero());
                prop_assert!(!stages["firmware"].is_zero() && !stages["command_fetch"].is_zero());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Without: in batches there is a reading for each step, and the sample is the one that a host would
    /// take, which counts as the function does.
    #[test]
    fn batches_have_records_too(
        commands in commands(),
        steps in prop::collection::vec(1..20_000u32, 1..5),
        depth in 1..50usize,
        one_in in 1u32..5,
    ) {
        let sampling = if one_in == 1 { Sampling::All } else { Sampling::OneIn(one_in) };
        let choice = Choice { filters: vec![], sampling, keep_above: KeepAbove::Nothing };
        let (counts, records, expected) =
            run(Timing::Immediate, Rate::REAL, &commands, (&steps, depth), choice);
        prop_assert!(counts.add_up());
        prop_assert_eq!(counts.completed, commands.len() as u64);
        let picked = |nth: u32| one_in == 1 || u64::from(hash(1, nth)) < (1 << 32) / u64::from(one_in);
        let sample: Vec<u32> = (0..commands.len() as u32).filter(|&nth| picked(nth)).collect();
        prop_assert_eq!(records.iter().map(|(head, _)| head.nth).collect::<Vec<_>>(), sample);
        for (head, stages) in &records {
            let (opcode, bytes, status) = expected[head.nth as usize];
            prop_assert_eq!((head.opcode, head.status), (opcode, status.to_bits() & 0x7ff));
            prop_assert!((1..=depth).contains(&usize::from(head.outstanding)));
            prop_assert!((1..=ENTRIES as u16).contains(&head.batch));
            prop_assert!(stages["firmware"].is_zero() && stages["late"].is_zero());
            if matches!(opcode, nvm::READ | nvm::WRITE) && status.is_success() {
                prop_assert_eq!(head.bytes, bytes);
                prop_assert!(stages["processing"].is_zero());
                // Each step has its reading of the clock.
                for step in ["entry_fetch", "data_transfer", "completion_post"] {
                    prop_assert!(!stages[step].is_zero(), "{step}");
                }
            }
        }
    }
}
