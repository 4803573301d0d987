//! Results to test presentation with: plausible, but made up.

use crate::assembly::Parts;
use crate::{Result, Run};
use crate::{kind::Kind, recorder::Recorder};
use mynah_model::io::{Completion, FlowId, Operation, QueueId, Status, Tag};
use mynah_model::stats::{Blame, Counters, Holder, Resource, WearState};
use mynah_stamp::{Span, Stage, StageSpans, Time};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn complete(rung: Time, status: Status, spans: &[(Stage, Span)]) -> Completion {
    let mut stages = StageSpans::default();
    spans.iter().for_each(|&(stage, span)| stages.add(stage, span));
    let (tag, queue) = (Tag(0), QueueId(1));
    Completion { at: rung + stages.total(), tag, queue, status, rung, stages }
}

fn run() -> Run {
    Run {
        version: "0.1.0".into(),
        command: "mynah sim --drive sample --rw randread".into(),
        wall_s: 0.5,
        cpu_s: 0.4,
        setup_cpu_s: 0.05,
        max_rss_bytes: 64 << 20,
    }
}

/// A reader and a writer that share a drive; three of the reader's reads fail.
pub fn contended_recorder() -> Recorder {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut ns = |from: u64, to: u64| Span::from_ns(rng.random_range(from..to));
    let mut recorder = Recorder::new(vec!["reader".into(), "writer".into()]);
    for n in 0..20_000u64 {
        let rung = Time::from_ns(n * 9_800);
        let created = Time::from_ns((n * 9_800).saturating_sub(700));
        let die_wait = if n % 3 == 0 { ns(40_000, 900_000) } else { ns(0, 9_000) };
        let gc_wait = if n % 150 == 0 { ns(500_000, 3_000_000) } else { Span::ZERO };
        let read = [
            (Stage::SubmissionQueue, ns(200, 900)),
            (Stage::CommandFetch, ns(600, 700)),
            (Stage::Firmware, Span::from_ns(500)),
            (Stage::Mapping, if n % 20 == 0 { ns(60_000, 90_000) } else { Span::ZERO }),
            (Stage::DieWait, die_wait + gc_wait),
            (Stage::FlashCommand, Span::from_ns(300)),
            (Stage::FlashArray, Span::from_us(60)),
            (Stage::ChannelWait, ns(0, 4_000)),
            (Stage::FlashTransfer, Span::from_ns(3_400)),
            (Stage::DataOut, ns(1_200, 2_200)),
            (Stage::Completion, ns(100, 300)),
        ];
        let status = if n % 7_000 == 6_999 || n == 10 || n == 19_999 {
            Status::UnrecoveredReadError
        } else {
            Status::Success
        };
        let done = complete(rung, status, &read);
        recorder.record(0, Operation::Read, 4096, created, &done);
        if recorder.is_slow(created, &done) {
            let what = (0, Kind::Read, 4096);
            recorder.record_slow(what, created, (&done, None), std::iter::empty());
        }
        if n % 4 == 0 {
            let write = [
                (Stage::SubmissionQueue, ns(200, 900)),
                (Stage::CommandFetch, ns(600, 700)),
                (Stage::DataIn, ns(4_000, 9_000)),
                (Stage::Firmware, Span::from_ns(500)),
                (Stage::CacheWait, if n % 24 == 0 { ns(90_000, 700_000) } else { Span::ZERO }),
                (Stage::Cache, Span::from_ns(800)),
                (Stage::Completion, ns(100, 300)),
            ];
            let done = complete(rung, Status::Success, &write);
            recorder.record(1, Operation::Write, 16_384, rung, &done);
            if recorder.is_slow(rung, &done) {
                let what = (1, Kind::Write, 16_384);
                recorder.record_slow(what, rung, (&done, None), std::iter::empty());
            }
        }
    }
    recorder
}

/// The result of [`contended_recorder`].
pub fn contended() -> Result {
    let recorder = contended_recorder();
    let blame = |victim, resource, holder, us| Blame {
        victim: FlowId(victim),
        resource,
        holder,
        wait: Span::from_us(us),
    };
    let flow = |id| Holder::Flow(FlowId(id));
    let gc = Holder::GarbageCollection;
    let share = |n: u64| Span::from_ps(recorder.interval().as_ps() / 1_000 * n);
    let counters = Counters {
        commands: 25_000,
        events: 412_345,
        host_units_written: 20_000,
        host_bytes_written: 20_000 * 4096,
        flash_units_programmed: 54_200,
        gc_units_moved: 34_200,
        flash_reads: 47_000,
        flash_programs: 27_500,
        gc_reads: 17_300,
        gc_programs: 17_100,
        copybacks: 0,
        switch_merges: 0,
        partial_merges: 0,
        full_merges: 0,
        mapping_reads: 1_000,
        mapping_programs: 400,
        multi_plane_operations: 9_000,
        program_suspensions: 12,
        erase_suspensions: 34,
        erases: 107,
        gc_runs: 106,
        cmt_lookups: 25_000,
        cmt_hits: 24_000,
        cache_lookups: 25_000,
        cache_hits: 3_100,
        channel_busy: [412, 398, 420, 405, 433, 391, 408, 417].map(share).to_vec(),
        die_busy: (0..32).map(|die| share(560 + die * 37 % 190)).collect(),
        link_busy: [share(110), share(310)],
        block_erases_max: 12,
        wear: WearState { page_bytes: 8192, ..WearState::default() },
        ..Counters::default()
    };
    Result::new(Parts {
        drive: "sample-tlc-512g",
        drive_hash: "5f3a0c9e",
        seed: 42,
        recorder: &recorder,
        counters_before: &Counters::default(),
        counters: &counters,
        blame_before: &[],
        blame: &[
            blame(0, Resource::Die, flow(1), 2_200_000),
            blame(0, Resource::Die, gc, 430_000),
            blame(0, Resource::Die, flow(0), 180_000),
            blame(0, Resource::Die, Holder::MappingTable, 9_000),
            blame(0, Resource::Mapping, Holder::MappingTable, 75_000),
            blame(0, Resource::Channel, flow(1), 31_000),
            blame(0, Resource::Channel, flow(0), 9_000),
            blame(1, Resource::CacheSpace, flow(1), 310_000),
            blame(1, Resource::LinkDown, flow(1), 4_000),
        ],
        alone: Some(&[Some(92_000.0), Some(50_000.0)]),
        run: run(),
    })
}

/// A run in which nothing happened.
pub fn idle() -> Result {
    Result::new(Parts {
        drive: "sample",
        drive_hash: "00",
        seed: 1,
        recorder: &Recorder::new(vec!["nobody".into()]),
        counters_before: &Counters::default(),
        counters: &Counters::default(),
        blame_before: &[],
        blame: &[],
        alone: None,
        run: run(),
    })
}
