//! Pairs that outlive the process: they come back with their namespace, commands wait for whoever keeps
//! them, and what is read back harms nobody.

use crate::pairs::*;
use crate::support::*;
use mynah_device::{
    Condition, KeptPairs, Place, RamValues, Ready, Recall, Store, StoreError, StoreJob, Subsystem,
    SubsystemConfig, SubsystemError, Timing, Values,
};
use mynah_model::Drive;
use mynah_model::io::NamespaceId;
use mynah_model::keys::PairId;
use mynah_stamp::Span;
use mynah_wire::nvme::Status;
use mynah_wire::nvme::opcode::nvm;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// What is kept, and how whoever keeps it behaves.
#[derive(Default)]
struct Shelf {
    pairs: BTreeMap<(u32, Vec<u8>), Vec<u8>>,
    names: BTreeMap<u32, Vec<PairId>>,
    changes: u64,
    /// Jobs that have not finished; `None`: everything is done at once.
    slow: Option<VecDeque<StoreJob>>,
    finished: VecDeque<(StoreJob, Result<(), StoreError>)>,
    jobs: u64,
    condition: Condition,
}

type Shared = Rc<RefCell<Shelf>>;

impl Shelf {
    fn ready(&mut self) -> Ready {
        let Some(slow) = &mut self.slow else { return Ready::Now };
        self.jobs += 1;
        slow.push_back(StoreJob(self.jobs));
        Ready::Later(StoreJob(self.jobs))
    }

    /// All that was slow has finished, and how.
    fn finish(&mut self, outcome: Result<(), StoreError>) {
        let jobs = self.slow.iter_mut().flat_map(|slow| slow.drain(..));
        self.finished.extend(jobs.map(|job| (job, outcome)));
    }
}

struct KeptValues {
    values: RamValues,
    shelf: Shared,
    left: BTreeMap<(u32, Vec<u8>), Vec<u8>>,
    identity: [u8; 16],
}

impl Values for KeptValues {
    fn reserve(&mut self, bytes: u32) -> Option<Place> {
        self.values.reserve(bytes)
    }
    fn bytes_mut(&mut self, place: Place, bytes: u32) -> Option<&mut [u8]> {
        self.values.bytes_mut(place, bytes)
    }
    fn finish(&mut self, place: Place, before: Option<Place>) -> Place {
        self.values.finish(place, before)
    }
    fn pin(&mut self, place: Place, token: u64) -> Place {
        self.values.pin(place, token)
    }
    fn release(&mut self, place: Place) {
        self.values.release(place);
    }
    fn read(&self, place: Place, bytes: u32, skip: u32, into: &mut [u8]) {
        self.values.read(place, bytes, skip, into);
    }
    fn kept(&self) -> Option<KeptPairs> {
        Some(KeptPairs { identity: self.identity, changes: self.shelf.borrow().changes })
    }
    fn left(&self) -> Vec<u32> {
        self.left.keys().map(|(set, _)| *set).collect()
    }
    fn recall(&mut self, set: u32, each: &mut Recall<'_>) {
        let own = self.left.extract_if(.., |(of, _), _| *of == set);
        for (number, ((_, key), value)) in (0..).zip(own) {
            let bytes = value.len() as u32;
            let place = self.values.reserve(bytes).unwrap();
            self.values.bytes_mut(place, bytes).unwrap().copy_from_slice(&value);
            each(&key, PairId(number), place, bytes);
        }
    }
    fn keep(&mut self, set: u32, key: &[u8], place: Place, bytes: u32) -> Ready {
        let mut value = vec![0; bytes as usize];
        self.values.read(place, bytes, 0, &mut value);
        let mut shelf = self.shelf.borrow_mut();
        shelf.pairs.insert((set, key.to_vec()), value);
        shelf.changes += 1;
        shelf.ready()
    }
    fn forget(&mut self, set: u32, key: &[u8]) -> Ready {
        let mut shelf = self.shelf.borrow_mut();
        assert!(shelf.pairs.remove(&(set, key.to_vec())).is_some());
        shelf.changes += 1;
        shelf.ready()
    }
    fn forget_all(&mut self, set: u32) {
        self.left.retain(|(of, _), _| *of != set);
        let mut shelf = self.shelf.borrow_mut();
        shelf.pairs.retain(|(of, _), _| *of != set);
        shelf.changes += 1;
    }
    fn name(&mut self, set: u32, names: Vec<PairId>) {
        self.shelf.borrow_mut().names.insert(set, names);
    }
    fn flush(&mut self) -> Ready {
        self.shelf.borrow_mut().ready()
    }
    fn finished(&mut self) -> Option<(StoreJob, Result<(), StoreError>)> {
        self.shelf.borrow_mut().finished.pop_front()
    }
    fn condition(&self) -> Condition {
        self.shelf.borrow().condition
    }
}

fn store(shelf: &Shared, description: &Description, before: &[u8], identity: u8) -> Box<dyn Store> {
    let left = shelf.borrow().pairs.clone();
    let (values, identity) = (RamValues::new(), [identity; 16]);
    let values = KeptValues { values, shelf: shelf.clone(), left, identity };
    let mut store = Kept::new(description, before.to_vec());
    store.values = Some(Box::new(values));
    Box::new(store)
}

fn started(timing: Timing, shelf: &Shared, before: &[u8]) -> (World, Description) {
    let kept = Description::default();
    let store = store(shelf, &kept, before, 9);
    let mut world = World::with_store(timing, |_| {}, mixed, store);
    world.subsystem.open_store().expect("a store in memory");
    (world, kept)
}

/// What comes of a start with these.
fn start(shelf: &Shared, before: &[u8], identity: u8) -> Result<Subsystem, SubsystemError> {
    let mut config = small();
    mixed(&mut config);
    let store = store(shelf, &Description::default(), before, identity);
    let config_of =
        SubsystemConfig { timing: Timing::Immediate, ..SubsystemConfig::new(SUBSYSTEM) };
    Subsystem::new(config_of, Drive::new(config).expect("a drive"), store)
}

#[test]
fn pairs_come_back_with_their_namespace() {
    let shelf = Shared::default();
    let mut before = vec![];
    for round in 0..3u8 {
        let (mut world, kept) = started(Timing::Immediate, &shelf, &before);
        assert_eq!(world.subsystem.has_restored_namespaces(), round > 0);
        let (_, io, _) = world.host();
        for name in ["a", "b", "c"] {
            let expected = if round > 0 { Status::SUCCESS } else { Status::KEY_DOES_NOT_EXIST };
            assert_eq!(plain(world.status(io, exist(name), &[])), expected);
            assert_eq!(
                world.status(io, super::pairs::store(name, 3), &[round; 3]),
                Status::SUCCESS
            );
        }
        world.status(io, super::pairs::store("d", 700), &[4; 700]);
        world.status(io, delete("d"), &[]);
        // In order, or only flushed.
        match round {
            0 => world.subsystem.close_store(Some([1; 16])).expect("it closes"),
            _ => drop(world.status(io, crate::support::entry(nvm::FLUSH, 1), &[])),
        }
        before = kept.take();
    }
    assert_eq!(shelf.borrow().names.get(&1).map(Vec::len), Some(3));
    let (mut world, _) = started(Timing::Immediate, &shelf, &before);
    let (admin, io, _) = world.host();
    assert_eq!(world.call(io, retrieve("b", 16), &[]).1, [2; 3]);
    assert_eq!(plain(world.status(io, exist("d"), &[])), Status::KEY_DOES_NOT_EXIST);
    // Formatted, it has none, and neither has what is kept.
    let format = crate::support::entry(mynah_wire::nvme::opcode::admin::FORMAT_NVM, 1);
    assert_eq!(world.status(admin, format, &[]), Status::SUCCESS);
    assert!(shelf.borrow().pairs.is_empty());
}

#[test]
fn pairs_of_another_description_are_refused() {
    let shelf = Shared::default();
    let (mut world, kept) = started(Timing::Immediate, &shelf, &[]);
    let (_, io, _) = world.host();
    world.status(io, super::pairs::store("a", 3), &[1; 3]);
    world.subsystem.close_store(None).expect("it closes");
    let before = kept.take();
    assert!(start(&shelf, &before, 9).is_ok());
    let refused = |found: Result<Subsystem, SubsystemError>| {
        assert_eq!(found.err(), Some(SubsystemError::Pairs));
    };
    refused(start(&shelf, &before, 8));
    refused(start(&shelf, &[], 9));
    // Changed since the end in order.
    shelf.borrow_mut().changes += 1;
    refused(start(&shelf, &before, 9));
    shelf.borrow_mut().changes -= 1;
    // No keys of a namespace.
    for (set, key) in [(1, vec![]), (1, vec![1; 17]), (2, vec![1]), (77, vec![1])] {
        shelf.borrow_mut().pairs.insert((set, key.clone()), vec![1]);
        refused(start(&shelf, &before, 9));
        shelf.borrow_mut().pairs.remove(&(set, key));
    }
    // More than it has room for.
    for number in 0..BYTES / 4096 {
        let name = (1, number.to_be_bytes().to_vec());
        shelf.borrow_mut().pairs.insert(name, vec![0; 4000]);
    }
    refused(start(&shelf, &before, 9));
}

/// Commands that have to wait for what they have changed do, and a flush for everything.
#[test]
fn commands_wait_for_what_is_kept() {
    for timing in [Timing::Immediate, Timing::Modelled] {
        let shelf = Shared::default();
        let (mut world, _) = started(timing, &shelf, &[]);
        let (_, io, _) = world.host();
        shelf.borrow_mut().slow = Some(VecDeque::new());
        for (outcome, status) in [
            (Ok(()), Status::SUCCESS),
            (Err(StoreError::Write), Status::WRITE_FAULT),
            (Err(StoreError::Full), Status::CAPACITY_EXCEEDED),
        ] {
            let flush = crate::support::entry(nvm::FLUSH, 1);
            let commands = [
                (super::pairs::store("a", 3), &[1u8; 3][..]),
                (super::pairs::store("a", 5), &[2; 5]),
                (delete("a"), &[]),
                (super::pairs::store("b", 5), &[2; 5]),
                (flush, &[]),
            ];
            let ids = commands.map(|(entry, data)| {
                let id = world.submit(io, entry, data);
                world.wait(Span::from_ms(50));
                id
            });
            for id in ids {
                assert!(world.reply_now(io, id).is_none(), "{timing:?}: it did not wait");
            }
            // What waits is seen.
            assert_eq!(world.status(io, exist("b"), &[]), Status::SUCCESS);
            shelf.borrow_mut().finish(outcome);
            world.wait(Span::from_ms(50));
            for (at, id) in ids.into_iter().enumerate() {
                let reply = world.reply_now(io, id);
                let reply = reply.unwrap_or_else(|| panic!("{timing:?} {status:?}: {at}")).0;
                assert_eq!(plain(reply.entry.status()), status, "{timing:?}");
            }
        }
        // Where nothing can be kept, nothing is changed.
        shelf.borrow_mut().slow = None;
        for (condition, stores, deletes) in [
            (Condition::Full, Status::CAPACITY_EXCEEDED, Status::SUCCESS),
            (Condition::Failed, Status::WRITE_FAULT, Status::WRITE_FAULT),
        ] {
            shelf.borrow_mut().condition = Condition::Good;
            assert_eq!(world.status(io, super::pairs::store("c", 1), &[1]), Status::SUCCESS);
            shelf.borrow_mut().condition = condition;
            let refused = world.status(io, super::pairs::store("c", 1), &[2]);
            assert_eq!(plain(refused), stores);
            assert_eq!(world.call(io, retrieve("c", 1), &[]).1, [1]);
            assert_eq!(plain(world.status(io, delete("c"), &[])), deletes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]
    /// Whatever is read back of namespaces of pairs, a drive comes of it that works, or none.
    #[test]
    fn nothing_that_is_described_harms(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        is_cut: bool,
    ) {
        let shelf = Shared::default();
        let (mut world, kept) = started(Timing::Immediate, &shelf, &[]);
        let (_, io, _) = world.host();
        world.status(io, super::pairs::store("a", 3), &[1; 3]);
        world.status(io, crate::support::entry(nvm::FLUSH, 1), &[]);
        let mut bytes = kept.take();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        match start(&shelf, &bytes, 9) {
            Ok(subsystem) => prop_assert!(subsystem.drive().pair_counts(NamespaceId(1)).is_some()),
            Err(error) => prop_assert_eq!(error, SubsystemError::Pairs),
        }
    }
}
