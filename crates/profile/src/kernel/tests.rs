//! A stored trace of Linux 7.2, pages that are made here, and events in any order.

use super::*;
use mynah_stamp::Span;
use proptest::prelude::*;

/// Three reads of 4 KiB, two writes of 4 KiB and one of 256 KiB, of a connection that was made
/// meanwhile with data digests: `tests/guest`, Linux 7.2.13 of Debian.
const STORED: &[u8] = include_bytes!("../../../../fuzz/corpus/kernel_trace/linux-7.2");

fn ns(ended: &EndedIo, stage: usize) -> u64 {
    ended.stages[stage].as_ps() / 1000
}

fn total(ended: &EndedIo) -> Span {
    ended.stages.iter().fold(Span::ZERO, |sum, &span| sum + span)
}

#[test]
fn a_stored_trace_becomes_records() {
    let replayed = replay(STORED);
    let initiator = &replayed.initiator;
    assert_eq!(initiator.completed(), replayed.ended.len() as u64);
    assert_eq!((initiator.lost(), initiator.before(), initiator.clamped()), (0, 0, 0));
    // Of those that come behind what Linux reads when it finds a disk.
    let dd: Vec<&EndedIo> = replayed.ended.iter().rev().take(6).rev().collect();
    let what: Vec<_> = dd.iter().map(|it| (it.head.opcode, it.head.bytes, it.head.block)).collect();
    let wanted = [(2, 4096, 0), (2, 4096, 8), (2, 4096, 16), (1, 4096, 0), (1, 4096, 8)];
    assert_eq!(what[..5], wanted);
    assert_eq!(what[5], (1, 256 << 10, 0));
    for ended in &replayed.ended {
        assert_eq!(ended.head.total, total(ended));
        assert_eq!((ended.head.status, ended.head.queue, ended.beside[1]), (0, 1, 1));
    }
    // Connect is the first capsule of the connection, and all are counted.
    let mut nth: Vec<u32> = replayed.ended.iter().map(|it| it.head.nth).collect();
    nth.sort_unstable();
    assert_eq!(nth, (1..=nth.len() as u32).collect::<Vec<_>>());
    let of_large = dd[5];
    assert!(of_large.beside[0] >= 1 && ns(of_large, 2) > 0 && ns(of_large, 3) > 0, "{of_large:?}");
    assert!(dd[..5].iter().all(|it| it.beside[0] == 0 && ns(it, 2) == 0 && ns(it, 5) > 0));
}

/// A page with one entry for each of these: nanoseconds since the one before, and its bytes.
fn page(time: u64, entries: &[(u64, Vec<u8>)], missed: Option<u64>) -> Vec<u8> {
    let mut data = vec![];
    for (delta, payload) in entries {
        if *delta >= 1 << 27 {
            data.extend((30u32 | ((delta & 0x7ff_ffff) as u32) << 5).to_le_bytes());
            data.extend(((delta >> 27) as u32).to_le_bytes());
        }
        let delta = if *delta >= 1 << 27 { 0 } else { *delta as u32 };
        let mut payload = payload.clone();
        payload.resize(payload.len().next_multiple_of(4), 0);
        match payload.len() / 4 {
            words @ 1..=28 => data.extend((words as u32 | delta << 5).to_le_bytes()),
            _ => {
                data.extend((delta << 5).to_le_bytes());
                data.extend((payload.len() as u32 + 4).to_le_bytes());
            }
        }
        data.extend(payload);
    }
    let flags = missed.map_or(0, |_| 3 << 30);
    let mut page = time.to_le_bytes().to_vec();
    page.extend(u64::from(data.len() as u32 | flags).to_le_bytes());
    page.extend(data);
    page.extend(missed.unwrap_or(0).to_le_bytes());
    page
}

#[test]
fn a_description_is_read() {
    let text = "name: setup\nID: 1451\nformat:\n\
                \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                \tfield:int qid;\toffset:44;\tsize:4;\tsigned:1;\n\
                \tfield:u8 cdw10[24];\toffset:61;\tsize:24;\tsigned:0;\n";
    let format = EventFormat::parse(text).unwrap();
    assert_eq!((format.name.as_str(), format.id), ("setup", 1451));
    let mut payload = vec![0; 85];
    payload[44..48].copy_from_slice(&(-2i32).to_le_bytes());
    payload[61] = 7;
    let qid = format.field("qid").unwrap();
    assert_eq!(qid.number(&payload), Some(-2i64 as u64));
    assert_eq!(qid.number(&payload[..47]), None);
    let dwords = format.field("cdw10").unwrap();
    assert_eq!((dwords.number(&payload), dwords.bytes(&payload).unwrap()[0]), (None, 7));
    assert_eq!(EventFormat::parse("name: x\n"), EventFormat::parse("name: y\n"));
    let mut decoder = Decoder::default();
    let unfit = decoder.add(Hook::Setup, &format).unwrap_err();
    assert_eq!(unfit.to_string(), "the event `setup` has no field `ctrl_id`");
}

#[test]
fn what_the_kernel_counted_is_read() {
    let text = "# event histogram\n#\n# trigger info: hist:keys=ctrl_id,qid [active]\n#\n\n\
                { ctrl_id:          0, qid:          2 } hitcount:          1\n\
                { ctrl_id:          3, qid:          1 } hitcount:         47\n\n\
                Totals:\n    Hits: 48\n    Entries: 2\n    Dropped: 0\n";
    let found = hits(text).unwrap();
    assert_eq!(found[1], Hits { controller: 3, queue: 1, count: 47 });
    assert_eq!(found.len(), 2);
    assert_eq!(hits(&text.replace("Dropped: 0", "Dropped: 5")), None);
    assert_eq!(hits(""), None);
}

#[test]
fn coverage_names_what_is_missing() {
    let setup = HookUse::of(Hook::Setup).alternatives[0];
    let found = [(Hook::Setup, Ok(setup)), (Hook::R2t, Err("no such symbol".to_owned()))];
    let text = coverage_text(&found);
    assert!(text.contains("  setup         event nvme:nvme_setup_cmd\n"), "{text}");
    assert!(text.contains("missing (no such symbol): no r2t_wait"), "{text}");
    assert_eq!(text.lines().count(), HOOKS.len());
    let queued = HookUse::of(Hook::Queued).alternatives[0].definition("mynah_7", "queued");
    assert!(queued.unwrap().starts_with("f:mynah_7/queued nvme_tcp_queue_rq queue=hctx->"));
    assert_eq!(setup.definition("mynah_7", "setup"), None);
}

/// Any event, of few queues and commands, so that they meet.
fn event() -> impl Strategy<Value = Event> {
    let queue = 1u64..3;
    let command = prop_oneof![0u16..3, 0x1000u16..0x1003];
    prop_oneof![
        (queue.clone(), 0u16..3, any::<u32>(), 0u64..4_000)
            .prop_map(|(queue, tag, bytes, started)| Event::Queued { queue, tag, bytes, started }),
        (0u16..3, command.clone(), prop_oneof![0u8..4, Just(0x7fu8)], 0u8..2).prop_map(
            |(queue, command_id, opcode, fabrics)| Event::Setup {
                controller: 0,
                queue,
                command_id,
                opcode,
                fabrics,
                namespace: 1,
                dwords: [1; 24],
            }
        ),
        (queue.clone(), command.clone(), any::<bool>()).prop_map(
            |(queue, command_id, is_capsule)| Event::Sent { queue, command_id, is_capsule }
        ),
        (queue.clone(), command, any::<bool>())
            .prop_map(|(queue, command_id, is_cut)| { Event::R2t { queue, command_id, is_cut } }),
        queue.clone().prop_map(|queue| Event::Ready { queue }),
        queue.prop_map(|queue| Event::Read { queue }),
        (0u16..3, 0u16..3, 0u16..0x800).prop_map(|(queue, tag, status)| Event::Completed {
            controller: 0,
            queue,
            tag,
            status
        }),
    ]
}

proptest! {
    /// In whatever order events come, and whatever they say: stages add up, and so do the counts.
    #[test]
    fn stages_and_counts_add_up(
        events in prop::collection::vec((event(), 1u32..4, 0u64..100, 0u32..40), 0..400),
        far: bool,
    ) {
        let mut initiator = Initiator::new(1_000);
        let (mut time, mut ended) = (if far { u64::MAX - 50_000 } else { 2_000u64 }, 0u64);
        for (event, thread, delta, gap) in events {
            time += delta;
            if gap == 0 {
                initiator.missed(time);
            }
            if let Some(io) = initiator.take(&TimedEvent { time, thread, event }) {
                ended += 1;
                prop_assert_eq!(io.head.total, total(&io));
                prop_assert!(io.head.begin.as_ps().checked_add(io.head.total.as_ps()).is_some());
                prop_assert!(usize::from(io.head.kind) < crate::io_kinds().len());
            }
        }
        prop_assert_eq!(initiator.ended(), ended);
        prop_assert_eq!(initiator.completed(), ended + initiator.lost());
    }

    /// What was put into a page comes out, at its time.
    #[test]
    fn pages_hold_what_was_put_in(
        start in 0u64..1 << 50,
        entries in prop::collection::vec(
            (prop_oneof![0u64..1 << 27, 1u64 << 27..1 << 40], prop::collection::vec(any::<u8>(), 1..200)),
            0..20,
        ),
        missed in prop::option::of(1u64..1_000),
    ) {
        let bytes = page(start, &entries, missed);
        let mut read = Page::new(&bytes).unwrap();
        prop_assert_eq!(read.missed(), missed.map_or(Missed::Nothing, Missed::Events));
        let mut time = start;
        for (delta, payload) in &entries {
            time += delta;
            let entry = read.next().unwrap();
            prop_assert_eq!(entry.time, time);
            prop_assert_eq!(&entry.payload[..payload.len()], &payload[..]);
        }
        prop_assert_eq!(read.next(), None);
        prop_assert!(!read.is_torn());
    }

    /// Bytes that are no trace do no harm.
    #[test]
    fn foreign_bytes_do_no_harm(
        at in 0usize..STORED.len(),
        bytes in prop::collection::vec(any::<u8>(), 1..64),
    ) {
        let mut trace = STORED.to_vec();
        let until = (at + bytes.len()).min(trace.len());
        trace[at..until].copy_from_slice(&bytes[..until - at]);
        crate::fuzzing::kernel_trace(&trace);
        crate::fuzzing::kernel_trace(&bytes);
    }
}
