//! What the rules of the flash scheduler do, in numbers: suspension, reads and programs in
//! their order, cache and one-shot programs, and FLIN.

use crate::support::*;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_model::precondition::Occupancy;
use mynah_model::stats::Counters;
use mynah_stamp::{Span, Time};

fn us(us: u64) -> Span {
    Span::from_us(us)
}

fn suspension() -> Suspension {
    Suspension {
        latency: us(50),
        resume: us(20),
        least_left: Span::ZERO,
        limit: 1000,
        longest: Span::from_secs(1),
    }
}

/// One die whose erases take as long as sixty programs.
fn one_die(change: impl FnOnce(&mut Scheduler)) -> Config {
    let mut config = small_with(|c| {
        c.geometry.channels = 1;
        c.geometry.chips_per_channel = 1;
        c.flash.erase = Span::from_ms(30);
        c.mapping.unit_bytes = 8192;
        c.over_provisioning = 0.5;
        c.gc.start = 0.2;
    });
    change(&mut config.scheduler);
    config
}

/// A random read every millisecond, beside a random overwrite every ten, so that collection
/// is never urgent: the latencies of the reads in microseconds in order of size, those of the
/// writes, and what was counted.
fn reads_beside_writes(config: Config) -> ([Vec<f64>; 2], Counters) {
    let mut host = Host::new(config);
    host.create(memory_queue(2));
    fill(&mut host);
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 16;
    let mut random = Random(8);
    let mut latencies = [vec![], vec![]];
    for ms in 0..8000 {
        let at = mynah_stamp::Time::ZERO + Span::from_ms(ms);
        while let Some(done) = host.next_until(at) {
            let latency = done.at.since(done.rung).as_ps() as f64 / 1e6;
            latencies[usize::from(done.queue.0) - 1].push(latency);
        }
        let request = host.request(Operation::Read, random.below(units) * 16, 16);
        host.submit(QUEUE, request);
        if ms % 10 == 0 {
            let request = host.request(Operation::Write, random.below(units) * 16, 16);
            host.submit(QueueId(2), request);
        }
    }
    host.drive.check().expect("the invariants hold");
    latencies.iter_mut().for_each(|latencies| latencies.sort_by(f64::total_cmp));
    (latencies, host.drive.counters())
}

fn most(latencies: &[f64]) -> f64 {
    *latencies.last().expect("some")
}

#[test]
fn suspension_cuts_the_read_tail_to_its_cost() {
    let ([plain, _], counted) = reads_beside_writes(one_die(|_| ()));
    assert!(most(&plain) > 29_000.0, "a read waits for a whole erase: {} us", most(&plain));
    assert!(counted.erases > 20, "{}", counted.erases);
    assert_eq!(counted.erase_suspensions + counted.program_suspensions, 0);

    let ([erases, _], counted) =
        reads_beside_writes(one_die(|s| s.suspend_erase = Some(suspension())));
    // What is left of the tail are programs, of two planes and with their data.
    assert!(most(&erases) < 800.0, "{} us", most(&erases));
    assert!(counted.erase_suspensions > 500 && counted.program_suspensions == 0);

    let ([both, _], counted) = reads_beside_writes(one_die(|s| {
        s.suspend_erase = Some(suspension());
        s.suspend_program = Some(suspension());
    }));
    // A read takes 63 us by itself; until the die has stopped it takes 50 more, and there may
    // be a page or two on the bus.
    assert!(both[0] < 63.5, "{} us", both[0]);
    assert!(most(&both) < 63.5 + 50.0 + 25.0, "{} us", most(&both));
    assert!(counted.program_suspensions > 10);
}

#[test]
fn each_limit_of_a_suspension_counts() {
    let suspending = |change: fn(&mut Suspension)| {
        let mut erase = suspension();
        change(&mut erase);
        reads_beside_writes(one_die(|s| s.suspend_erase = Some(erase)))
    };
    let ([free, _], counted) = suspending(|_| ());
    let ([once, _], limited) = suspending(|s| s.limit = 1);
    assert!(limited.erase_suspensions * 5 < counted.erase_suspensions);
    assert!(most(&once) > 20.0 * most(&free));
    let (_, late) = suspending(|s| s.least_left = Span::from_ms(31));
    assert_eq!(late.erase_suspensions, 0);
    // Not long enough for a read: the erase goes on before it, and to its end.
    let ([hurried, _], _) = suspending(|s| s.longest = us(10));
    assert!(most(&hurried) > 25_000.0);
    // What is resumed takes longer each time.
    let (_, costly) = suspending(|s| s.resume = us(900));
    let more = costly.die_busy[0].as_ps() as f64 / counted.die_busy[0].as_ps() as f64;
    assert!(more > 1.5, "{more}");
    let ([slow, _], _) = suspending(|s| s.latency = us(700));
    assert!(most(&slow) > most(&free) + 100.0, "{} after {}", most(&slow), most(&free));
}

/// Programs of the host suspend erases too, where they may.
#[test]
fn programs_pass_erases() {
    let plain = one_die(|s| s.suspend_erase = Some(suspension()));
    let passing = one_die(|s| {
        s.suspend_erase = Some(suspension());
        s.suspend_erase_for_writes = Some(us(100));
    });
    let [plain, passing] = [plain, passing].map(|config| {
        let ([_, writes], _) = reads_beside_writes(config);
        most(&writes)
    });
    assert!(plain > 25_000.0, "{plain}");
    assert!(passing < 5_000.0, "{passing}");
}

/// Mean latencies of reads and of writes, 16 outstanding, in microseconds.
fn mixed(config: Config) -> [f64; 2] {
    let mut host = Host::new(config);
    fill(&mut host);
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
    let mut random = Random(9);
    let mut reads = std::collections::BTreeSet::new();
    let mut sums = [(0.0, 0.0); 2];
    for _ in 0..6000 {
        while host.outstanding < 16 {
            let read = random.chance(0.7);
            let operation = if read { Operation::Read } else { Operation::Write };
            let tag = host.send(operation, random.below(units) * 8, 8);
            if read {
                reads.insert(tag);
            }
        }
        let done = host.next().expect("it goes on");
        let sum = &mut sums[usize::from(!reads.remove(&done.tag))];
        *sum = (sum.0 + done.at.since(done.rung).as_ps() as f64 / 1e6, sum.1 + 1.0);
    }
    sums.map(|(sum, count)| sum / count)
}

#[test]
fn precedence_trades_reads_for_writes() {
    let with = |change: fn(&mut Scheduler)| mixed(small_with(|c| change(&mut c.scheduler)));
    let [read_first, writes_last] = with(|_| ());
    let [oldest, writes_oldest] = with(|s| s.precedence = Precedence::Oldest);
    assert!(oldest > 1.15 * read_first, "{oldest} against {read_first}");
    assert!(writes_oldest < writes_last, "{writes_oldest} against {writes_last}");
    let [_, waiting] = with(|s| s.write_deadline = Some(us(50)));
    assert!(waiting < writes_last, "{waiting} against {writes_last}");
}

/// Sequential writes of so many sectors a second, 64 outstanding.
fn write_rate(config: Config) -> f64 {
    let mut host = Host::new(config);
    let done = host.closed_loop(64, 1000, |n| (Operation::Write, n as u64 % 1000 * 16, 16));
    1000.0 / done[999].at.as_secs_f64()
}

#[test]
fn a_cache_program_hides_the_transfer() {
    // 8 KiB at 100 MT/s: 82 us beside 500 us of programming, one plane.
    let config = |cache_program| {
        small_with(|c| {
            c.geometry.planes_per_die = 1;
            c.geometry.blocks_per_plane = 64;
            c.bus.rate_mts = 100;
            c.scheduler.cache_program = cache_program;
        })
    };
    let (plain, cached) = (write_rate(config(false)), write_rate(config(true)));
    assert_close("cache program", cached / plain, (500.0 + 82.0) / 500.0, 0.02);
}

#[test]
fn a_one_shot_program_takes_a_word_line() {
    let config = |one_shot| {
        small_with(|c| {
            c.geometry.planes_per_die = 1;
            c.geometry.blocks_per_plane = 64;
            c.geometry.pages_per_block = 48;
            c.flash.cell = CellType::Tlc;
            c.flash.program = page_times(600, 600, 600);
            c.flash.one_shot = one_shot;
        })
    };
    let (pages, word_lines) = (write_rate(config(false)), write_rate(config(true)));
    // Transfers of 10.24 us a page.
    let expected = 3.0 * (600.0 + 10.6) / (600.0 + 3.0 * 10.6);
    assert_close("one-shot", word_lines / pages, expected, 0.03);
    // A lone page leaves the rest of its word line empty.
    let mut host = Host::new(config(true));
    host.run_one(Operation::Write, 0, 16);
    assert_eq!(host.drive.counters().flash_programs, 3);
    assert_eq!(host.drive.counters().padded_units, 4);
}

/// Two flows of random 8 KiB reads, as in Figure 8 of the MQSim paper: mean latencies of
/// those flows that have a depth.
fn flows(config: &Config, depths: [usize; 2]) -> [f64; 2] {
    let mut host =
        Host::without_queues(config.clone(), Manner { submits: true, ..Manner::default() });
    host.create(memory_queue(1));
    host.create(memory_queue(2));
    fill(&mut host);
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 16;
    let mut random = Random(10);
    let mut outstanding = [0; 2];
    let mut sums = [(0.0, 0.0); 2];
    while sums
        .iter()
        .zip(depths)
        .any(|(sum, depth)| depth > 0 && sum.1 < 2000.0 + 100.0 * depth as f64)
    {
        for queue in 0..2 {
            while outstanding[queue] < depths[queue] {
                let request = host.request(Operation::Read, random.below(units) * 16, 16);
                host.submit(QueueId(queue as u16 + 1), request);
                outstanding[queue] += 1;
            }
        }
        let done = host.next().expect("reads go on");
        let queue = usize::from(done.queue.0) - 1;
        outstanding[queue] -= 1;
        let sum = &mut sums[queue];
        *sum = (sum.0 + done.at.since(done.rung).as_ps() as f64 / 1e6, sum.1 + 1.0);
    }
    sums.map(|(sum, count)| sum / count)
}

/// Slowdown of both flows, fairness and weighted speedup.
fn contention(config: &Config) -> [f64; 4] {
    let [alone, _] = flows(config, [2, 0]);
    let [_, intensive_alone] = flows(config, [0, 256]);
    let [shared, intensive_shared] = flows(config, [2, 256]);
    let slowdowns = [shared / alone, intensive_shared / intensive_alone];
    let (least, most) = (slowdowns[0].min(slowdowns[1]), slowdowns[0].max(slowdowns[1]));
    [slowdowns[0], slowdowns[1], least / most, 1.0 / slowdowns[0] + 1.0 / slowdowns[1]]
}

/// With the parameters in MQSim's source.
fn mqsims_flin() -> Flin {
    Flin {
        epoch: Span::from_ms(10),
        read_bytes_per_s: 33_554_432,
        write_bytes_per_s: 262_144,
        fairness: 0.6,
        divides_collection: true,
    }
}

#[test]
fn flin_keeps_two_flows_alike() {
    let figure_8 = |flin| {
        small_with(|c| {
            c.geometry.channels = 8;
            c.geometry.chips_per_channel = 4;
            c.geometry.dies_per_chip = 2;
            c.mapping.unit_bytes = 8192;
            c.flash.read = page_times(75, 75, 75);
            c.bus.rate_mts = 333;
            c.queues.fetch_size = 512;
            c.scheduler.flin = flin;
        })
    };
    let flin = mqsims_flin();
    let plain = contention(&figure_8(None));
    let fair = contention(&figure_8(Some(flin)));
    println!("slowdown 1, slowdown 2, fairness, weighted speedup: {plain:.3?}, FLIN {fair:.3?}");
    assert!(plain[2] < 0.4, "{plain:?}");
    assert!(fair[2] >= 0.6, "{fair:?}");
    assert!(fair[3] >= plain[3], "{fair:?} after {plain:?}");
}

#[test]
fn flin_gives_each_class_twice_the_turns_of_the_next() {
    let shares = |flin: Option<Flin>| {
        let config = small_with(|c| {
            c.geometry.channels = 1;
            c.geometry.chips_per_channel = 1;
            c.geometry.planes_per_die = 1;
            c.queues.fetch_size = 512;
            c.scheduler.priority_classes = true;
            c.scheduler.flin = flin;
        });
        let mut host = Host::without_queues(config, Manner { submits: true, ..Manner::default() });
        let classes = [Priority::Urgent, Priority::High, Priority::Medium, Priority::Low];
        for (at, priority) in classes.into_iter().enumerate() {
            host.create(Queue { priority, ..memory_queue(at as u16 + 1) });
        }
        fill(&mut host);
        let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
        let mut random = Random(4);
        // Each class has as much outstanding that it always has something to take its turn.
        for queue in 1..=4 {
            for _ in 0..64 {
                let request = host.request(Operation::Read, random.below(units) * 8, 8);
                host.submit(QueueId(queue), request);
            }
        }
        let mut counts = [0.0; 4];
        for done in 0..9000 {
            let queue = host.next().expect("reads go on").queue;
            if done >= 1500 {
                counts[usize::from(queue.0) - 1] += 1.0 / 500.0;
            }
            let request = host.request(Operation::Read, random.below(units) * 8, 8);
            host.submit(queue, request);
        }
        counts
    };
    let fair = shares(Some(mqsims_flin()));
    let plain = shares(None);
    println!("reads of each class in fifteen: FLIN {fair:.2?}, urgent first {plain:.2?}");
    for (share, turns) in fair.into_iter().zip([8.0, 4.0, 2.0, 1.0]) {
        assert_close("turns of fifteen", share, turns, 0.02);
    }
    assert!(plain[0] > 14.9, "{plain:?}");
}

/// Mean latencies, in us, of a flow of random 4 KiB `operation`s and of one of random 4 KiB writes,
/// over a second of a drive that collects all the time; whoever has no depth is not there.
fn beside_a_writer(config: &Config, operation: Operation, depths: [usize; 2]) -> [f64; 2] {
    let mut host =
        Host::without_queues(config.clone(), Manner { submits: true, ..Manner::default() });
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
    let classes = vec![written_class(0, units, 1.0)];
    host.drive
        .precondition(&[Occupancy { namespace: NAMESPACE, classes }])
        .expect("it has a steady state");
    host.create(memory_queue(1));
    host.create(memory_queue(2));
    let mut random = Random(7);
    let operations = [operation, Operation::Write];
    let mut sums = [(0.0, 0.0); 2];
    for queue in 0..2 {
        for _ in 0..depths[queue] {
            let request = host.request(operations[queue], random.below(units) * 8, 8);
            host.submit(QueueId(queue as u16 + 1), request);
        }
    }
    let (begin, end) = (Time::ZERO + Span::from_ms(100), Time::ZERO + Span::from_ms(1100));
    while let Some(done) = host.next_until(end) {
        let queue = usize::from(done.queue.0) - 1;
        if done.at > begin {
            let sum = &mut sums[queue];
            *sum = (sum.0 + done.at.since(done.rung).as_ps() as f64 / 1e6, sum.1 + 1.0);
        }
        let request = host.request(operations[queue], random.below(units) * 8, 8);
        host.submit(done.queue, request);
    }
    host.drive.check().expect("the invariants hold");
    assert!(host.drive.counters().gc_runs > 100 || operation == Operation::Read && depths[1] == 0);
    sums.map(|(sum, count)| sum / count)
}

#[test]
fn flin_divides_collection_among_those_who_cause_it() {
    let of_seed = |seed, operation, depth, divides_collection| {
        let mut config = small_with(|c| {
            c.scheduler.flin = Some(Flin { divides_collection, ..mqsims_flin() });
        });
        config.seed = seed;
        let [alone, _] = beside_a_writer(&config, operation, [depth, 0]);
        let [_, writer_alone] = beside_a_writer(&config, operation, [0, 32]);
        let [shared, writer_shared] = beside_a_writer(&config, operation, [depth, 32]);
        let slowdowns = [shared / alone, writer_shared / writer_alone];
        let (least, most) = (slowdowns[0].min(slowdowns[1]), slowdowns[0].max(slowdowns[1]));
        [slowdowns[0], slowdowns[1], least / most, 1.0 / slowdowns[0] + 1.0 / slowdowns[1]]
    };
    // A second of a drive depends on where its planes stood when it began.
    let outcome = |operation, depth, divides_collection| {
        let seeds = (1..=6).map(|seed| of_seed(seed, operation, depth, divides_collection));
        let sum = seeds.reduce(|sum, one| std::array::from_fn(|at| sum[at] + one[at]));
        sum.expect("six").map(|sum: f64| sum / 6.0)
    };
    for (what, operation, depth) in
        [("reader", Operation::Read, 2), ("light writer", Operation::Write, 1)]
    {
        let plain = outcome(operation, depth, false);
        let divided = outcome(operation, depth, true);
        println!(
            "slowdown of {what}, of writer, fairness, weighted speedup: {plain:.3?}, divided \
             {divided:.3?}"
        );
        let least = if depth == 2 { 4.0 } else { 1.1 };
        assert!(divided[2] > least * plain[2], "{what}: {divided:?} after {plain:?}");
        assert!(divided[1] < 1.1, "{what}: {divided:?} after {plain:?}");
        assert!(divided[3] > plain[3], "{what}: {divided:?} after {plain:?}");
    }
}
