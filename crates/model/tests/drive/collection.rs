//! When garbage is collected, by what way its pages go, and who waits for it.

use crate::support::*;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_stamp::{Span, Stage};

/// One die with one plane, pages that are mapping units.
fn one_plane(change: impl FnOnce(&mut Config)) -> Config {
    small_with(|c| {
        c.geometry.channels = 1;
        c.geometry.chips_per_channel = 1;
        c.geometry.planes_per_die = 1;
        c.geometry.page_bytes = 4096;
        c.geometry.blocks_per_plane = 64;
        change(c);
    })
}

/// A filled drive, overwritten at random by `depth` outstanding writes of a unit.
fn overwrite(config: Config, depth: usize, writes: usize) -> (Host, Vec<Completion>) {
    let mut host = Host::new(config);
    fill(&mut host);
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
    let mut random = Random(5);
    let done = host.closed_loop(depth, writes, |_| (Operation::Write, random.below(units) * 8, 8));
    (host, done)
}

#[test]
fn copyback_takes_the_channel_for_commands_only() {
    for copyback in [false, true] {
        let (mut host, _) = overwrite(one_plane(|c| c.gc.copyback = copyback), 4, 3000);
        host.finish();
        let c = host.drive.counters();
        let cycles = host.drive.config().bus.cycles;
        let read = cycles.t_cs + cycles.t_wc.times(6) + cycles.t_wb + cycles.t_rr;
        let program = cycles.t_cs
            + cycles.t_wc.times(6)
            + cycles.t_adl
            + cycles.t_wpst
            + cycles.t_wpsth
            + cycles.t_wb;
        let erase = cycles.t_cs + cycles.t_wc.times(4) + cycles.t_wb;
        // 4 KiB at 800 MT/s.
        let page = Span::from_ns(5120);
        assert_eq!(c.gc_reads, c.gc_programs + void_moves(&c));
        assert_eq!(c.copybacks, if copyback { c.gc_programs } else { 0 });
        assert!(c.gc_programs > 1000, "{c:?}");
        let over_channel = c.flash_programs - c.copybacks;
        let in_and_out = over_channel + c.gc_reads - if copyback { c.gc_reads } else { 0 };
        let expected = read.times(c.gc_reads)
            + program.times(c.flash_programs)
            + erase.times(c.erases)
            + page.times(in_and_out);
        // A copyback that finds its page void has sent its program command in vain.
        let in_vain = if copyback { program.times(void_moves(&c)) } else { Span::ZERO };
        assert_eq!(c.channel_busy[0], expected + in_vain);
        host.drive.check().expect("the invariants hold");
    }
}

/// Pages that were read to be moved and were overwritten before they could be.
fn void_moves(c: &mynah_model::stats::Counters) -> u64 {
    c.gc_reads - c.gc_programs
}

/// The longest wait of a read for its die, one read at a time, beside a write every `every`.
fn longest_read_wait(config: Config, every: Span) -> Span {
    let mut host = Host::new(config);
    host.create(memory_queue(2));
    fill(&mut host);
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
    let mut random = Random(6);
    let mut longest = Span::ZERO;
    for _ in 0..4000 {
        let write = host.request(Operation::Write, random.below(units) * 8, 8);
        host.submit(QueueId(2), write);
        let next = host.now() + every;
        let mut reading = false;
        while host.now() < next {
            if !reading {
                host.send(Operation::Read, random.below(units) * 8, 8);
                reading = true;
            }
            if let Some(done) = host.next_until(next)
                && done.queue == QUEUE
            {
                longest = longest.max(done.stages.get(Stage::DieWait));
                reading = false;
            }
        }
        // Reads without pause would leave the rest no turn.
        while let Some(done) = host.next_until(host.now() + every) {
            if done.queue == QUEUE {
                longest = longest.max(done.stages.get(Stage::DieWait));
            }
        }
    }
    assert!(host.drive.counters().gc_runs > 50);
    longest
}

#[test]
fn preemption_bounds_the_wait_of_reads() {
    let early: fn(&mut Config) = |c| (c.gc.start, c.gc.urgent) = (0.15, 0.05);
    let every = Span::from_us(2500);
    let preemptible = longest_read_wait(one_plane(early), every);
    let whole = longest_read_wait(
        one_plane(|c| {
            early(c);
            c.gc.preemptible = false;
        }),
        every,
    );
    // Nothing is longer than an erase (3 ms), after which the read is next.
    assert!(preemptible <= Span::from_us(3010), "{preemptible}");
    // The moves of a block and its erase: several programs of 500 us.
    assert!(whole > Span::from_us(3000 + 4 * 500), "{whole}");
}

#[test]
fn below_the_hard_threshold_collection_goes_first_all_the_same() {
    let all = one_plane(|c| (c.gc.start, c.gc.urgent) = (0.15, 0.15));
    let wait = longest_read_wait(all, Span::from_us(2500));
    assert!(wait > Span::from_us(3510), "{wait}");
}

/// Mean and longest wait of overwrites, and the write amplification.
fn waits(paced: bool, change: fn(&mut Config)) -> (f64, f64, f64) {
    let config = one_plane(|c| {
        (c.gc.start, c.gc.urgent, c.gc.paced) = (0.08, 0.04, paced);
        change(c);
    });
    let (host, done) = overwrite(config, 8, 8000);
    host.drive.check().expect("the invariants hold");
    let late = &done[2000..];
    let times: Vec<f64> = late.iter().map(|done| done.at.since(done.rung).as_secs_f64()).collect();
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let longest = times.iter().copied().fold(0.0, f64::max);
    (mean, longest, host.drive.counters().write_amplification().expect("written"))
}

#[test]
fn paced_collection_spreads_the_wait_of_writes() {
    let plain: fn(&mut Config) = |_| ();
    // Where writes do not simply come after reads, moves that are due go before them as well.
    for (name, change) in [
        ("reads first", plain),
        ("oldest first", |c| c.scheduler.precedence = Precedence::Oldest),
        ("with a deadline", |c| c.scheduler.write_deadline = Some(Span::from_us(100))),
        ("FLIN", |c| {
            c.scheduler.flin = Some(Flin {
                epoch: Span::from_ms(10),
                read_bytes_per_s: 32 << 20,
                write_bytes_per_s: 256 << 10,
                fairness: 0.6,
                divides_collection: true,
            });
        }),
    ] {
        let (mean, longest, waf) = waits(false, change);
        let (paced_mean, paced_longest, paced_waf) = waits(true, change);
        println!("{name}: {mean} {longest} {waf}, paced {paced_mean} {paced_longest} {paced_waf}");
        assert!(paced_longest < 0.7 * longest, "{name}: {paced_longest} and {longest}");
        // What it costs is that more blocks are kept free, and so a little more is moved.
        assert!(paced_waf < 1.15 * waf, "{name}: {paced_waf} and {waf}");
        assert!(paced_mean < 1.15 * mean, "{name}: {paced_mean} and {mean}");
    }
}
