//! Hosts that ask for a profile while I/O goes on, in a time of the test's own.

use crate::client::{HOST, blocks_of};
use crate::timing::World;
use mynah_profile::{Choice, Counts, HEAD_WORDS, Head, Header, KeepAbove, Sampling};
use mynah_runtime::clock::Rate;
use mynah_runtime::hub::Id;
use mynah_runtime::profile::{Queries, Scope, TargetProfile};
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::query::{
    AnswerHead, HistogramHead, Instruction, MAGIC, Occupancy, RecordsHead, Step, Switched,
    operation, outcome, parse_answer, program_bytes, put_inline, statistic, switch,
};
use mynah_wire::nvme::{SubmissionEntry, opcode};
use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

const OTHER_HOST: &str = "nqn.2026-11.io.github.mynah-ssd:other";
const ROOM: u32 = 64 << 10;

/// What a part says: its outcome and its data.
type Told = (u16, Vec<u8>);

/// A world in which the queries are about I/Os of this scope.
fn world(scope: Scope) -> World {
    let mut world = World::new(Rate::REAL);
    world.hub.answer_queries(Queries::new(scope, "a drive", Rate::REAL));
    world
}

/// Asks on a queue.
fn ask(world: &mut World, queue: Id, all: &[Instruction]) -> (AnswerHead, Vec<Told>) {
    let mut entry = SubmissionEntry { opcode: opcode::query::RUN, ..Default::default() };
    put_inline(&mut entry, all);
    entry.data.length.set(ROOM);
    (world.listens_to, world.heard) = (Some(queue), vec![]);
    world.command(queue, entry, 77, &[]);
    world.listens_to = None;
    let at = world.heard.windows(8).position(|bytes| bytes == MAGIC).expect("an answer");
    let (head, parts) = parse_answer(&world.heard[at..]).expect("an answer");
    (head, parts.iter().map(|part| (part.outcome, part.data.to_vec())).collect())
}

/// Stores a program, whose handle is the first one.
fn store(world: &mut World, queue: Id, steps: &[Step]) -> Instruction {
    let entry = SubmissionEntry { opcode: opcode::query::STORE_PROGRAM, ..Default::default() };
    world.command(queue, entry, 78, &program_bytes(steps));
    Instruction::new(operation::CALL, switch::ALL, statistic::EVERYTHING, 1)
}

fn load(switch: u8, statistic: u16) -> Instruction {
    Instruction::load(switch, statistic, 0)
}

fn number(told: &Told) -> u64 {
    assert_eq!(told.0, outcome::DONE);
    u64::from_le_bytes(told.1[..8].try_into().expect("eight bytes"))
}

fn counts(world: &mut World, queue: Id) -> Counts {
    let (_, parts) = ask(world, queue, &[load(switch::ALL, statistic::COUNTS)]);
    let words: Vec<u64> =
        parts[0].1.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    let counts = Counts {
        completed: words[0],
        recorded: words[1],
        filtered: words[2],
        sampled_out: words[3],
        lost: words[4],
    };
    assert!(counts.add_up());
    counts
}

/// Records from a number on: those, and the number to go on with.
fn records(world: &mut World, queue: Id, from: u32) -> (Vec<Head>, RecordsHead) {
    let (_, parts) = ask(world, queue, &[Instruction::load(switch::ALL, statistic::RECORDS, from)]);
    let (outcome, data) = &parts[0];
    assert_eq!(*outcome, outcome::DONE);
    let (head, rows) = RecordsHead::read_from_prefix(data).expect("records");
    let rows: Vec<Head> = rows
        .chunks_exact(head.record_bytes.get() as usize)
        .map(|row| {
            let word = |at: usize| u64::from_le_bytes(row[at * 8..][..8].try_into().unwrap());
            let record = Head::from_words(&std::array::from_fn::<_, HEAD_WORDS, _>(word));
            let words = row.len() / 8;
            assert_eq!(word(words - 1), record.sequence);
            // What a target tells of an I/O adds up.
            let stages: u64 = (HEAD_WORDS..words - 1).map(word).sum();
            assert_eq!(stages, record.total.as_ps());
            record
        })
        .collect();
    assert_eq!(rows.len() as u32, head.records.get());
    (rows, head)
}

/// So many reads on a queue, one after the other, from this block on.
fn reads(world: &mut World, queue: Id, from: u64, count: u64) {
    for block in from..from + count {
        world.command(queue, blocks_of(opcode::nvm::READ, block * 8, 8), block as u16, &[]);
        while world.hub.outstanding() > 0 {
            world.wall = world.wall.max(world.hub.next_at().expect("something is under way"));
            world.look();
        }
    }
}

fn on(seconds: u32) -> Instruction {
    Instruction::store(statistic::SWITCH, seconds)
}

#[test]
fn a_query_begins_a_profile_and_is_told_what_it_has() {
    let mut world = world(Scope::All);
    let (asks, works) = (world.queue(), world.queue());
    let switched = load(switch::ALL, statistic::SWITCH);
    let count = load(switch::ALL, statistic::COUNT);
    let (head, parts) = ask(&mut world, asks, &[switched, count]);
    assert_eq!(head.profile.get(), 0);
    assert_eq!(Switched::read_from_bytes(&parts[0].1).unwrap().on.get(), 0);
    assert_eq!(parts[1].0, outcome::OFF);
    assert!(!world.hub.is_profiled());

    world.wall += Span::from_ms(3);
    let clock = Instruction::new(operation::CLOCK, switch::ALL, 0, 0);
    let (head, parts) = ask(&mut world, asks, &[on(60), switched, clock]);
    assert_eq!((head.profile.get() > 0, head.scope), (true, 1));
    assert_eq!((head.came.get(), head.left.get()), (world.wall.as_ps(), world.wall.as_ps()));
    assert_eq!(parts[0].0, outcome::DONE);
    let state = Switched::read_from_bytes(&parts[1].1).unwrap();
    assert_eq!((state.on.get(), state.lease_s.get(), state.askers.get()), (1, 60, 1));
    assert_eq!(number(&parts[2]), world.wall.as_ps());

    reads(&mut world, works, 0, 20);
    let all = counts(&mut world, asks);
    assert_eq!((all.completed, all.recorded), (20, 20));
    let (rows, head) = records(&mut world, asks, 0);
    assert_eq!(
        rows.iter().map(|row| row.block).collect::<Vec<_>>(),
        (0..20).map(|n| n * 8).collect::<Vec<_>>()
    );
    assert_eq!((head.first.get(), head.next.get(), head.lost.get()), (1, 21, 0));
    let (rest, _) = records(&mut world, asks, 15);
    assert_eq!(rest, rows[14..]);
    assert_eq!(records(&mut world, asks, 21).0, []);

    // The statistics are those of the records, and the drive's and the target's part are the whole.
    let total: u64 = rows.iter().map(|row| row.total.as_ps()).sum();
    let longest = rows.iter().map(|row| row.total.as_ps()).max().unwrap();
    let sums = [switch::ALL, switch::TARGET, switch::DRIVE];
    let (_, parts) = ask(&mut world, asks, &sums.map(|it| load(it, statistic::SUM)));
    let [all, target, drive] = [0, 1, 2].map(|at| number(&parts[at]));
    assert_eq!((all, target + drive), (total, total));
    assert!(drive > 0);
    let extremes = [statistic::COUNT, statistic::MAX, statistic::HISTOGRAM];
    let (_, parts) = ask(&mut world, asks, &extremes.map(|it| load(switch::ALL, it)));
    assert_eq!((number(&parts[0]), number(&parts[1])), (20, longest));
    let (head, buckets) = HistogramHead::read_from_prefix(&parts[2].1).unwrap();
    assert_eq!(buckets.len(), head.buckets.get() as usize * 16);
    let held: u64 =
        buckets.chunks(16).map(|it| u64::from_le_bytes(it[8..].try_into().unwrap())).sum();
    assert_eq!((held, head.next.get()), (20, 0));
    let (_, parts) = ask(&mut world, asks, &[load(switch::ALL, statistic::OCCUPANCY)]);
    let occupancy = Occupancy::read_from_bytes(&parts[0].1).unwrap();
    // The query itself is outstanding.
    assert_eq!((occupancy.now.get(), occupancy.came.get(), occupancy.sum.get()), (1, 20, 20));

    // The header is that of a file.
    let (_, parts) = ask(&mut world, asks, &[load(switch::ALL, statistic::HEADER)]);
    let (header, _, in_all) = Header::from_page(&parts[0].1).expect("a header");
    assert_eq!((header.name.as_str(), in_all.completed), ("a drive", 20));

    // What is begun anew is forgotten, and what there is not is said.
    let reset = Instruction::new(operation::RESET, switch::ALL, statistic::EVERYTHING, 0);
    let (_, parts) = ask(&mut world, asks, &[reset, count, load(3, statistic::SUM)]);
    assert_eq!((parts[0].0, number(&parts[1]), parts[2].0), (outcome::DONE, 0, outcome::ELSEWHERE));
    assert_eq!(counts(&mut world, asks), Counts::default());
}

#[test]
fn a_profile_ends_with_its_lease_and_with_those_who_ask() {
    let mut world = world(Scope::All);
    let ((admin, asks), works) = (world.queues_of(HOST), world.queue());
    ask(&mut world, asks, &[on(5)]);
    let ends = world.wall + Span::from_secs(5);
    reads(&mut world, works, 0, 3);
    assert!(world.hub.next_at().is_some_and(|at| at <= ends), "it wakes up for it");
    world.wall = Time::from_ps(ends.as_ps() - 1);
    world.look();
    assert!(world.hub.is_profiled());
    // Asked for again it goes on.
    let (first, _) = ask(&mut world, asks, &[on(5)]);
    world.wall = ends;
    world.look();
    assert!(world.hub.is_profiled());
    world.wall = ends + Span::from_secs(5);
    world.look();
    assert!(!world.hub.is_profiled());

    // One command that was noted before comes to its end in the next profile, and has no record
    // there; neither has one that came between them.
    ask(&mut world, asks, &[on(5)]);
    world.command(works, blocks_of(opcode::nvm::READ, 0, 8), 1, &[]);
    ask(&mut world, asks, &[on(0)]);
    world.look();
    assert!(!world.hub.is_profiled());
    world.command(works, blocks_of(opcode::nvm::READ, 0, 8), 2, &[]);
    let (second, _) = ask(&mut world, asks, &[on(5)]);
    assert!(second.profile.get() > first.profile.get());
    while world.hub.outstanding() > 0 {
        world.wall = world.wall.max(world.hub.next_at().expect("something is under way"));
        world.look();
    }
    assert_eq!(records(&mut world, asks, 0).0, []);
    reads(&mut world, works, 5, 1);
    assert_eq!(records(&mut world, asks, 0).0.len(), 1);

    // Nobody asks any more.
    let now = world.now();
    world.hub.close(now, admin);
    assert!(!world.hub.is_profiled());
}

#[test]
fn hosts_are_told_of_their_own_sessions() {
    let mut world = world(Scope::Own);
    let (mine, other) = (world.queue(), world.queues_of(OTHER_HOST).1);
    ask(&mut world, mine, &[on(60)]);
    reads(&mut world, mine, 0, 4);
    reads(&mut world, other, 100, 3);
    reads(&mut world, mine, 4, 1);
    let blocks = |rows: &[Head]| rows.iter().map(|row| row.block / 8).collect::<Vec<_>>();
    assert_eq!(counts(&mut world, mine).completed, 5);
    let (rows, head) = records(&mut world, mine, 0);
    // Who has not asked has no records.
    assert_eq!((blocks(&rows), head.next.get()), (vec![0, 1, 2, 3, 4], 6));
    // The other one asks from now on, and for its own.
    assert_eq!(counts(&mut world, other), Counts::default());
    ask(&mut world, other, &[on(60)]);
    reads(&mut world, other, 200, 2);
    reads(&mut world, mine, 5, 1);
    assert_eq!(blocks(&records(&mut world, other, 0).0), [200, 201]);
    assert_eq!(blocks(&records(&mut world, mine, 0).0), [0, 1, 2, 3, 4, 5]);
    let count = load(switch::ALL, statistic::COUNT);
    let told = |world: &mut World, queue| number(&ask(world, queue, &[count]).1[0]);
    assert_eq!((told(&mut world, mine), told(&mut world, other)), (6, 2));
    // It begins its own anew, and switches off and chooses nothing for others.
    let reset = Instruction::new(operation::RESET, switch::ALL, statistic::EVERYTHING, 0);
    ask(&mut world, other, &[reset]);
    assert_eq!((told(&mut world, mine), told(&mut world, other)), (6, 0));
    let sample = Instruction::store(statistic::SAMPLE, 100);
    assert_eq!(ask(&mut world, mine, &[sample]).1[0].0, outcome::DONE);
    let (_, parts) = ask(&mut world, other, &[on(0), load(switch::ALL, statistic::HEADER)]);
    assert_eq!(parts[0].0, outcome::DENIED);
    assert!(world.hub.is_profiled());
    let (header, ..) = Header::from_page(&parts[1].1).expect("a header");
    assert_eq!(header.choice, None);
    reads(&mut world, other, 300, 40);
    reads(&mut world, mine, 300, 40);
    let all = counts(&mut world, other);
    assert_eq!((all.completed, all.recorded), (40, 40));
    let all = counts(&mut world, mine);
    assert!(all.completed == 46 && all.sampled_out > 20, "{all:?}");
    // A second controller of the same host finds it chosen; a third one may not ask at all.
    let (second, third) = (world.queue(), world.queue());
    assert_eq!(ask(&mut world, second, &[sample]).1[0].0, outcome::DENIED);
    assert_eq!(ask(&mut world, second, &[count]).1[0].0, outcome::DONE);
    assert_eq!(ask(&mut world, third, &[count]).1[0].0, outcome::DENIED);

    // Where everybody may see all, both are told of both.
    let mut world = self::world(Scope::All);
    let (mine, other) = (world.queue(), world.queues_of(OTHER_HOST).1);
    ask(&mut world, mine, &[on(60)]);
    reads(&mut world, other, 100, 3);
    assert_eq!(blocks(&records(&mut world, mine, 0).0), [100, 101, 102]);
}

#[test]
fn programs_choose_which_ios_have_records() {
    let mut world = world(Scope::All);
    let (asks, works) = (world.queue(), world.queue());
    let choice = |text: &str| Step::choice(text.as_bytes());
    let wanted = Choice {
        sampling: Sampling::OneIn(3),
        keep_above: KeepAbove::Running,
        ..Choice::default()
    };
    let program = [Step::from(on(60)), choice(&wanted.to_json()), choice("{\"sampling\":7}")];
    let call = store(&mut world, asks, &program);
    let header = load(switch::ALL, statistic::HEADER);
    let (_, parts) = ask(&mut world, asks, &[call, header]);
    let outcomes: Vec<u16> = parts.iter().map(|(outcome, _)| *outcome).collect();
    assert_eq!(outcomes, [outcome::DONE, outcome::DONE, outcome::INVALID, outcome::DONE]);
    assert!(!parts[2].1.is_empty(), "it says what is wrong");
    let (header, ..) = Header::from_page(&parts[3].1).expect("a header");
    assert_eq!(header.choice, Some(wanted));
    reads(&mut world, works, 0, 60);
    let all = counts(&mut world, asks);
    assert_eq!((all.completed, all.filtered), (60, 0));
    assert!((8..=35).contains(&all.recorded), "{all:?}");

    // There are other handles, and other programs, that there are not.
    let missing = Instruction::new(operation::CALL, switch::ALL, 0, 9);
    assert_eq!(ask(&mut world, asks, &[missing]).1[0].0, outcome::NO_PROGRAM);

    // What the operator has begun, the operator decides.
    let folder = tempfile::tempdir().unwrap();
    let profile = TargetProfile::create(&folder.path().join("a.profile"), "a drive", Rate::REAL);
    let mut world = self::world(Scope::All);
    let asks = world.queue();
    world.hub.profile_with(profile.unwrap());
    let sample = Instruction::store(statistic::SAMPLE, 100);
    let state = load(switch::ALL, statistic::SWITCH);
    let (_, parts) = ask(&mut world, asks, &[sample, on(0), state]);
    assert_eq!((parts[0].0, parts[1].0), (outcome::DENIED, outcome::DENIED));
    assert_eq!(Switched::read_from_bytes(&parts[2].1).unwrap().on.get(), 2);
    world.wall += Span::from_secs(10_000);
    world.look();
    assert!(world.hub.is_profiled());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever is asked: there is an answer, and I/O goes on.
    #[test]
    fn any_query_is_answered(
        programs in prop::collection::vec(prop::collection::vec(any::<[u8; 8]>(), 1..12), 1..12),
        asked in prop::collection::vec(
            (0u8..7, 0u8..10, 0u16..17, prop_oneof![0u32..12, any::<u32>()]),
            1..40,
        ),
        room in 0u32..6000,
    ) {
        let mut world = world(Scope::Own);
        let (asks, works) = (world.queue(), world.queue());
        for program in programs {
            let entry =
                SubmissionEntry { opcode: opcode::query::STORE_PROGRAM, ..Default::default() };
            world.command(asks, entry, 1, &program.concat());
        }
        for (chunk, n) in asked.chunks(3).zip(0..) {
            let all: Vec<_> =
                chunk.iter().map(|&(a, b, c, d)| Instruction::new(a, b, c, d)).collect();
            let mut entry = SubmissionEntry { opcode: opcode::query::RUN, ..Default::default() };
            put_inline(&mut entry, &all);
            entry.data.length.set(room);
            (world.listens_to, world.heard) = (Some(asks), vec![]);
            world.command(asks, entry, 2, &[]);
            // Data as long as there is room, or a status.
            let is_answer = world.heard.windows(8).any(|bytes| bytes == MAGIC);
            prop_assert_eq!(is_answer, room as usize >= AnswerHead::BYTES);
            prop_assert!(!world.heard.is_empty());
            reads(&mut world, works, n, 1);
        }
        prop_assert_eq!(world.hub.outstanding(), 0);
    }
}

#[test]
fn an_instruction_is_eight_bytes_of_the_command() {
    let mut entry = SubmissionEntry::default();
    put_inline(&mut entry, &[Instruction::load(switch::DRIVE, statistic::SUM, 5)]);
    assert_eq!(entry.as_bytes()[40..48], [1, 7, 2, 0, 5, 0, 0, 0]);
}
