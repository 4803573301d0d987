//! What the host may rely on: how time is sliced and when outputs are answered changes
//! nothing, inputs take effect in their order, every tag ends exactly once, and mistakes of
//! the host are errors.

use crate::support::*;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_model::{Drive, InputError};
use mynah_stamp::{Span, Stage, Time};
use proptest::prelude::*;

/// A drive with something of everything, small enough that collection runs.
fn busy() -> Config {
    small_with(|c| {
        c.geometry.blocks_per_plane = 16;
        c.geometry.pages_per_block = 8;
        c.over_provisioning = 0.5;
        c.cache = Some(DataCache { bytes: 128 << 10, ..cache() });
        c.mapping.table = MappingTable::Cached(cached_table(8192));
        c.firmware.read = Span::from_ns(700);
        c.link.interrupt = Span::from_ns(300);
    })
}

/// Three queues, mixed commands, some open-loop pauses.
fn run(config: Config, manner: Manner, seed: u64, commands: usize) -> (Vec<Completion>, Host) {
    let mut host = Host::with(config, manner);
    host.create(memory_queue(2));
    host.create(fetched_queue(3));
    let sectors = host.drive.namespace_sectors(NAMESPACE).expect("a namespace");
    let mut random = Random(seed);
    let mut done = vec![];
    let mut submitted = 0;
    while done.len() < commands {
        while host.outstanding < 12 && submitted < commands {
            let operation = random.pick(&[
                Operation::Read,
                Operation::Read,
                Operation::Write,
                Operation::Write,
                Operation::WriteThrough,
                Operation::Trim,
                Operation::Flush,
            ]);
            let length = random.range(1, 40);
            let request = Request {
                placement: Default::default(),
                tag: host.tag(),
                operation,
                namespace: NAMESPACE,
                sector: random.below(sectors - length),
                sectors: length as u32,
            };
            host.submit(QueueId(random.range(1, 3) as u16), request);
            submitted += 1;
            if random.chance(0.1) {
                host.advance_to(host.now() + Span::from_ns(random.below(200_000)));
            }
        }
        done.extend(host.next());
    }
    (done, host)
}

/// However time is sliced, whenever outputs are answered, and whether moves are reported: every
/// stamp and every stage is the same.
fn manners_change_nothing(seed: u64, slices: u64) -> Result<(), TestCaseError> {
    let (expected, host) = run(busy(), Manner::default(), seed, 300);
    for manner in [
        Manner { slices: Some(slices), ..Manner::default() },
        Manner { late: true, ..Manner::default() },
        Manner { moves: true, ..Manner::default() },
        Manner { slices: Some(slices), late: true, moves: true, ..Manner::default() },
        Manner { submits: true, ..Manner::default() },
        Manner { slices: Some(slices), submits: true, moves: true, ..Manner::default() },
    ] {
        let (done, other) = run(busy(), manner, seed, 300);
        prop_assert_eq!(&done, &expected);
        prop_assert_eq!(other.drive.state_hash(), host.drive.state_hash());
        prop_assert_eq!(other.drive.blame(), host.drive.blame());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn slicing_lateness_and_moves_change_nothing(seed: u64, slices: u64) {
        manners_change_nothing(seed, slices)?;
    }
}

#[test]
fn data_that_arrive_with_something_else_wait_for_it() {
    // In this run they do, to the picosecond; chance found it.
    manners_change_nothing(13_746_625_653_908_819_077, 1_468_646_766).unwrap();
}

#[test]
fn the_same_seed_and_inputs_give_the_same_run() {
    let config =
        || Config { gc: Gc { victim: VictimPolicy::DChoices { d: 2 }, ..busy().gc }, ..busy() };
    let (first, one) = run(config(), Manner::default(), 7, 3000);
    let (second, other) = run(config(), Manner::default(), 7, 3000);
    assert_eq!(first, second);
    assert_eq!(one.drive.counters(), other.drive.counters());
    assert!(one.drive.counters().gc_runs > 0, "the run is long enough to collect");
}

#[test]
fn moves_cover_each_command_once() {
    let manner = Manner { moves: true, ..Manner::default() };
    let mut host = Host::with(small(), manner);
    fill(&mut host);
    let read = host.send(Operation::Read, 5, 40);
    let write = host.send(Operation::Write, 100, 24);
    host.finish();
    for (tag, sectors, way) in [(read, 40, Direction::ToHost), (write, 24, Direction::FromHost)] {
        let mut covered = vec![0; sectors];
        for output in &host.moved {
            if let Output::Move { tag: moved, first_sector, sectors, direction, .. } = output
                && *moved == tag
            {
                assert_eq!(*direction, way);
                let first = *first_sector as usize;
                covered[first..first + *sectors as usize].iter_mut().for_each(|n| *n += 1);
            }
        }
        assert!(covered.iter().all(|&n| n == 1), "{tag:?}: {covered:?}");
    }
}

#[test]
fn inputs_at_one_instant_take_effect_in_their_order() {
    // Whoever rings first is served first, whichever queue it is.
    for order in [[1, 2], [2, 1]] {
        let mut host = Host::new(small());
        host.create(memory_queue(2));
        for id in order {
            let request = host.request(Operation::Read, 0, 8);
            host.submit(QueueId(id), request);
        }
        let queues: Vec<_> = host.finish().iter().map(|done| done.queue.0).collect();
        assert_eq!(queues, order);
    }
}

#[test]
fn what_happens_inside_comes_before_inputs() {
    // A cut at the very instant of a completion comes after it.
    let completes = {
        let mut host = Host::new(small());
        host.run_one(Operation::Read, 0, 8).at
    };
    let mut host = Host::new(small());
    host.advance_to(Time::ZERO + Span::from_us(1));
    let tag = host.send(Operation::Read, 0, 8);
    host.advance_to(Time::from_ps(completes.as_ps() - 1));
    assert!(host.ready().is_none());
    host.advance_to(completes);
    assert_eq!(host.ready().map(|done| done.tag), Some(tag));
}

#[test]
fn next_at_and_advance_agree() {
    let mut drive = Drive::new(small()).expect("a valid drive");
    assert_eq!(drive.next_at(), None);
    drive.advance(Time::from_ns(5));
    assert_eq!((drive.now(), drive.poll()), (Time::from_ns(5), None));
    drive.control(Time::from_ns(5), Control::CreateQueue(memory_queue(1))).expect("a queue");
    drive.ring(Time::from_ns(5), QUEUE, 1).expect("it exists");
    // The doorbell takes 8 ns, the entry 31 more; advance stops at the fetch.
    assert_eq!(drive.next_at(), Some(Time::from_ns(13)));
    drive.advance(Time::MAX);
    assert_eq!(drive.now(), Time::from_ns(44));
    assert_eq!(drive.poll(), Some(Output::Fetch { at: Time::from_ns(44), queue: QUEUE }));
}

#[test]
fn mistakes_of_the_host_are_errors() {
    let mut drive = Drive::new(small()).expect("a valid drive");
    let at = Time::from_ns;
    let nobody = QueueId(9);
    let read = Request {
        placement: Default::default(),
        tag: Tag(1),
        operation: Operation::Read,
        namespace: NAMESPACE,
        sector: 0,
        sectors: 8,
    };
    assert_eq!(drive.ring(at(1), nobody, 1), Err(InputError::NoSuchQueue(nobody)));
    assert_eq!(drive.command(at(1), nobody, read), Err(InputError::NoSuchQueue(nobody)));
    assert_eq!(drive.cq_freed(at(1), nobody, 1), Err(InputError::NoSuchQueue(nobody)));
    let delete = Control::DeleteQueue(nobody);
    assert_eq!(drive.control(at(1), delete), Err(InputError::NoSuchQueue(nobody)));
    assert_eq!(drive.data_arrived(at(1), Tag(1)), Err(InputError::NoDataExpected(Tag(1))));
    let create = Control::CreateQueue(memory_queue(1));
    drive.control(at(1), create).expect("a new queue");
    assert_eq!(drive.control(at(1), create), Err(InputError::QueueExists(QUEUE)));
    assert_eq!(drive.command(at(1), QUEUE, read), Err(InputError::NotFetched(QUEUE)));
    let many = Control::CreateQueue(Queue { flow: FlowId(1022), ..memory_queue(2) });
    assert_eq!(drive.control(at(1), many), Err(InputError::TooManyFlows { max: 1021 }));
    drive.control(at(2), Control::CreateQueue(fetched_queue(3))).expect("a new queue");
    assert_eq!(drive.ring(at(1), QUEUE, 1), Err(InputError::Past { at: at(1), now: at(2) }));
    drive.ring(at(2), QUEUE, 1).expect("it exists");
    // Something comes out at 41 ns: later inputs have to wait for it.
    assert_eq!(drive.ring(at(60), QUEUE, 1), Err(InputError::NotAdvanced { at: at(60) }));
    assert!(drive.poll().is_some());
    // The entry that was rung for is still in the queue.
    assert_eq!(drive.submit(drive.now(), QUEUE, read), Err(InputError::Mixed(QUEUE)));
    drive.check().expect("errors change nothing");
}

#[test]
fn commands_that_do_not_fit_the_drive_complete_with_a_status() {
    let mut host = Host::new(small());
    let sectors = host.drive.namespace_sectors(NAMESPACE).expect("a namespace");
    let far = NamespaceId(2);
    let mut status = |namespace, operation, sector, sectors| {
        let request = Request { namespace, ..host.request(operation, sector, sectors) };
        host.submit(QUEUE, request);
        host.next().expect("it completes").status
    };
    use Operation::{Read, Trim, Write};
    assert_eq!(status(far, Read, 0, 1), Status::InvalidNamespace);
    assert_eq!(status(NamespaceId(0), Read, 0, 1), Status::InvalidNamespace);
    assert_eq!(status(NAMESPACE, Read, 0, 0), Status::InvalidField);
    assert_eq!(status(NAMESPACE, Write, 0, (1 << 21) + 1), Status::InvalidField);
    assert_eq!(status(NAMESPACE, Read, sectors, 1), Status::LbaOutOfRange);
    assert_eq!(status(NAMESPACE, Write, sectors - 1, 2), Status::LbaOutOfRange);
    assert_eq!(status(NAMESPACE, Read, u64::MAX, 1), Status::LbaOutOfRange);
    assert_eq!(status(NAMESPACE, Trim, 0, sectors as u32), Status::Success);
    assert_eq!(status(NAMESPACE, Read, sectors - 1, 1), Status::Success);
    host.drive.check_quiet().expect("nothing is left");
}

#[test]
fn a_deleted_queue_answers_what_it_has_fetched() {
    let times = [0, 20, 44, 1000, 30_000, 57_000, 60_000];
    for (after, submits) in times.into_iter().flat_map(|at| [(at, false), (at, true)]) {
        let mut host = Host::with(small(), Manner { submits, ..Manner::default() });
        fill(&mut host);
        host.create(memory_queue(2));
        let reads: Vec<_> = (0..6).map(|n| host.send(Operation::Read, n * 8, 8)).collect();
        let other = host.request(Operation::Write, 500, 8);
        host.submit(QueueId(2), other);
        host.advance_to(Time::from_ns(after));
        host.delete(QUEUE);
        let done = host.finish();
        for tag in reads {
            let times = done.iter().filter(|done| done.tag == tag).count();
            assert!(times <= 1, "{tag:?} completed {times} times, cut at {after} ns");
        }
        let survivor = done.iter().find(|done| done.tag == other.tag).expect("queue 2 goes on");
        assert_eq!(survivor.status, Status::Success);
        host.drive.check_quiet().expect("nothing is left");
        // The identifier is free again.
        host.create(memory_queue(1));
        host.run_one(Operation::Read, 0, 8);
    }
}

#[test]
fn a_deleted_queue_takes_completions_that_wait_for_room_with_it() {
    let mut host = Host::without_queues(small(), Manner::default());
    host.create(Queue { completion_entries: 2, ..memory_queue(1) });
    host.frees = false;
    for n in 0..4 {
        host.send(Operation::Read, n * 8, 8);
    }
    // One completion fits; three wait.
    assert_eq!(host.finish().len(), 1);
    host.delete(QUEUE);
    let statuses: Vec<_> = host.finish().iter().map(|done| done.status).collect();
    assert_eq!(statuses, [Status::Aborted; 3]);
    host.drive.check_quiet().expect("nothing is left");
}

#[test]
fn completions_wait_for_room_in_their_queue() {
    let mut host = Host::without_queues(small(), Manner::default());
    host.create(Queue { completion_entries: 3, ..memory_queue(1) });
    host.frees = false;
    for n in 0..5 {
        host.send(Operation::Read, n * 8, 8);
    }
    assert_eq!(host.finish().len(), 2, "of three entries one stays empty");
    let progress = host.drive.progress();
    assert_eq!((progress.ended, progress.under_way), (2, 0), "three wait for their host");
    let now = host.now() + Span::from_us(7);
    host.drive.advance(now);
    host.drive.cq_freed(now, QUEUE, 1).expect("it exists");
    let done = host.finish();
    assert_eq!(done.len(), 1);
    // The doorbell and the entry cross the link.
    assert_eq!(done[0].at, now + Span::from_ns(8 + 11));
}

#[test]
fn a_command_whose_queue_goes_is_under_way_until_the_drive_is_done_with_it() {
    let mut host = Host::new(small());
    for n in 0..4 {
        host.send(Operation::Write, n * 8, 8);
    }
    let seen = |host: &Host| {
        let progress = host.drive.progress();
        (progress.under_way, progress.ended)
    };
    host.advance_to(Time::from_ns(30_000));
    assert_eq!(seen(&host), (4, 0));
    host.delete(QUEUE);
    let mut answered = 0;
    while host.ready().is_some() {
        answered += 1;
    }
    assert_eq!((answered, seen(&host)), (4, (4, 0)), "all are answered, and none has ended");
    host.advance_to(host.now() + Span::from_ms(100));
    assert_eq!(seen(&host), (0, 4));
    let progress = host.drive.progress();
    assert_eq!(progress.programmed, host.drive.pages_programmed());
    assert!(progress.programmed > 0 && progress.programmed_for_itself == 0);
}

#[test]
fn a_reset_answers_nothing_and_leaves_a_working_drive() {
    for after in [0, 44, 1_000, 30_000, 600_000] {
        let mut host = Host::new(small_with(|c| c.cache = Some(cache())));
        for n in 0..32 {
            let operation = if n % 2 == 0 { Operation::Read } else { Operation::Write };
            host.send(operation, n * 8, 8);
        }
        host.advance_to(Time::from_ns(after));
        while host.ready().is_some() {}
        host.control(Control::Reset);
        host.forget();
        assert!(host.finish().is_empty(), "answered after a reset at {after} ns");
        host.create(memory_queue(1));
        assert_eq!(host.run_one(Operation::Flush, 0, 0).status, Status::Success);
        host.drive.check_quiet().expect("nothing is left");
        host.drive.check().expect("the invariants hold");
    }
}

#[test]
fn an_abort_calls_back_what_waits_for_the_cache() {
    // Room for 16 units: the second write of 16 waits.
    let mut host = Host::new(small_with(|c| {
        c.cache = Some(DataCache { bytes: 64 << 10, ..cache() });
    }));
    let first = host.send(Operation::Write, 0, 128);
    let second = host.send(Operation::Write, 128, 128);
    host.advance_to(Time::from_ns(100_000));
    host.control(Control::Abort(QUEUE, second));
    // Too late for the first, and of no use for others.
    host.control(Control::Abort(QUEUE, first));
    host.control(Control::Abort(QueueId(7), first));
    let mut done: Vec<_> = host.finish().iter().map(|done| (done.tag, done.status)).collect();
    done.sort_by_key(|(tag, _)| *tag);
    assert_eq!(done, [(first, Status::Success), (second, Status::Aborted)]);
}

#[test]
fn a_format_deallocates_everything() {
    let mut host = Host::new(small_with(|c| c.cache = Some(cache())));
    for n in 0..50 {
        host.run_one(Operation::Write, n * 8, 8);
    }
    assert!(host.drive.holds_data(NAMESPACE, 3));
    host.control(Control::Format(NAMESPACE));
    assert!((0..50).all(|unit| !host.drive.holds_data(NAMESPACE, unit)));
    host.control(Control::Format(NamespaceId(5)));
    host.finish();
    host.drive.check().expect("the invariants hold");
    host.drive.check_quiet().expect("nothing is left");
}

#[test]
fn a_power_cut_loses_what_was_not_flushed() {
    let mut host = Host::new(small_with(|c| {
        c.cache = Some(DataCache { write_back: WriteBack::Lru { high: 0.9 }, ..cache() });
    }));
    for n in 0..4 {
        host.run_one(Operation::Write, n * 8, 8);
    }
    host.run_one(Operation::Flush, 0, 0);
    for n in 2..6 {
        host.run_one(Operation::Write, n * 8, 8);
    }
    host.send(Operation::Read, 0, 8);
    host.control(Control::PowerCut);
    host.forget();
    assert!(host.finish().is_empty());
    let mut lost: Vec<_> = host.drive.take_lost_units().iter().map(|lost| lost.1).collect();
    lost.sort_unstable();
    assert_eq!(lost, [2, 3, 4, 5]);
    // What was flushed before is what they read as.
    let held: Vec<_> = (0..6).map(|unit| host.drive.holds_data(NAMESPACE, unit)).collect();
    assert_eq!(held, [true, true, true, true, false, false]);
    host.drive.check().expect("the invariants hold");
}

#[test]
fn what_is_done_elsewhere_ends_when_the_host_says_so() {
    let us = |us| Time::ZERO + Span::from_us(us);
    // One command at a time: what waits in its place keeps the next out.
    let mut config = small();
    config.queues.fetch_size = 1;
    for ending in 0..3 {
        let mut host = Host::new(config.clone());
        let placed = host.send(Operation::Other, 0, 0);
        let read = host.send(Operation::Read, 0, 8);
        host.advance_to(us(5000));
        assert!(host.ready().is_none(), "neither has ended");
        match ending {
            0 => {
                host.drive.data_arrived(us(5000), placed).expect("it waits");
                assert!(host.drive.data_arrived(us(5000), placed).is_err(), "only once");
                let done = host.finish();
                let tags: Vec<_> = done.iter().map(|done| done.tag).collect();
                assert_eq!(tags, [placed, read]);
                assert_eq!(done[0].status, Status::Success);
                // Its completion crosses the link; the wait was its host's.
                assert!(done[0].at > us(5000));
                assert!(done[0].stages.get(Stage::DataIn) > Span::from_us(4900));
                assert!(done[0].stages.get(Stage::Completion) > Span::ZERO);
                assert!(done[1].stages.get(Stage::SubmissionQueue) > Span::from_us(4900));
            }
            1 => {
                host.delete(QueueId(1));
                let done = host.finish();
                assert_eq!(done[0].status, Status::Aborted);
                assert!(host.drive.data_arrived(host.now(), placed).is_err());
            }
            _ => {
                host.control(Control::Reset);
                assert!(host.drive.data_arrived(host.now(), placed).is_err());
            }
        }
        host.drive.check().expect("nothing is left over");
    }
}
