//! What is written is read again, and what cannot be a profile is refused.

use mynah_profile::{
    Counts, HEADER_BYTES, Head, Header, Profile, ReadError, Side, TimeBase, Writer,
};
use mynah_stamp::{Span, Time};
use proptest::prelude::*;
use std::io::Cursor;

fn header(stages: usize) -> Header {
    let mut header = Header::new(Side::Target, "a drive", TimeBase::Monotonic);
    header.kinds = vec!["read".into(), "write".into()];
    header.stages = (0..stages).map(|n| format!("stage {n}")).collect();
    header.sessions = vec!["one".into()];
    header
}

fn head() -> impl Strategy<Value = Head> {
    let ids = any::<(u16, u16, u16, u16)>();
    let what = (any::<u32>(), 0u8..2, any::<u8>(), any::<u16>());
    let counts = any::<(u32, u16, u16, u64)>();
    (ids, what, counts, any::<(u64, u64)>()).prop_map(|(ids, what, counts, times)| Head {
        sequence: 0,
        connection: ids.0,
        queue: ids.1,
        command_id: ids.2,
        namespace: ids.3,
        bytes: what.0,
        kind: what.1,
        opcode: what.2,
        status: what.3,
        nth: counts.0,
        outstanding: counts.1,
        batch: counts.2,
        block: counts.3,
        begin: Time::from_ps(times.0),
        total: Span::from_ps(times.1),
        kept: times.0 & 1 == 1,
    })
}

fn written(header: &Header, records: &[(Head, Vec<u64>)]) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut out, header.clone()).expect("memory");
    for (head, stages) in records {
        let (stages, beside) = stages.split_at(header.stages.len());
        let stages = stages.iter().map(|&ps| Span::from_ps(ps));
        writer.record(*head, stages, beside).expect("memory");
    }
    assert!(writer.finish().expect("memory").add_up());
    out.into_inner()
}

/// Every record that can be read, what is beside its stages behind them; or the error that ended
/// that.
fn read(bytes: &[u8]) -> Result<Vec<(Head, Vec<u64>)>, ReadError> {
    let mut records = Profile::new(bytes)?.records();
    let mut all = vec![];
    while let Some(record) = records.next_record()? {
        let stages = record.stages.iter().map(|span| span.as_ps());
        all.push((record.head, stages.chain(record.beside.iter().copied()).collect()));
    }
    Ok(all)
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        records in prop::collection::vec((head(), prop::collection::vec(any::<u64>(), 5)), 0..20),
    ) {
        let header = Header { beside: vec!["send_call_ps".into(), "ahead".into()], ..header(3) };
        let bytes = written(&header, &records);
        let profile = Profile::new(&bytes[..]).expect("a profile");
        prop_assert_eq!(profile.header(), &header);
        let count = records.len() as u64;
        let all = Counts { completed: count, recorded: count, ..Counts::default() };
        prop_assert_eq!(profile.counts(), all);
        let numbered: Vec<_> = (1..).zip(records).map(|(sequence, (head, stages))| {
            (Head { sequence, ..head }, stages)
        }).collect();
        prop_assert_eq!(read(&bytes).expect("all of it"), numbered);
    }

    #[test]
    fn any_bytes_are_refused_or_read(mut bytes in prop::collection::vec(any::<u8>(), 0..9000), begins in any::<bool>()) {
        if begins && bytes.len() > 16 {
            bytes[..8].copy_from_slice(b"mynahprf");
            bytes[8..16].copy_from_slice(&[1, 0, 0, 0, 9, 0, 0, 0]);
        }
        let _ = read(&bytes);
    }

    #[test]
    fn a_changed_byte_does_no_harm(at in 0usize..5000, byte in any::<u8>()) {
        let records = vec![(Head::default(), vec![1, 2, 3]); 20];
        let mut bytes = written(&header(3), &records);
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = read(&bytes);
    }

    #[test]
    fn what_ends_early_is_said(cut in 0usize..5800) {
        let records = vec![(Head::default(), vec![1, 2, 3]); 20];
        let bytes = written(&header(3), &records);
        let cut = cut % bytes.len();
        let error = read(&bytes[..cut]).expect_err("it is cut");
        let expected = match cut {
            0..8 => matches!(error, ReadError::Foreign),
            8..HEADER_BYTES => matches!(error, ReadError::Truncated { .. }),
            _ => matches!(error, ReadError::Damaged(_)),
        };
        prop_assert!(expected, "{error}");
    }
}

#[test]
fn many_sessions_are_left_out_from_the_last() {
    let mut header = header(3);
    header.sessions = (0..1000).map(|n| format!("session number {n}")).collect();
    let bytes = written(&header, &[]);
    let profile = Profile::new(&bytes[..]).expect("a profile");
    let kept = &profile.header().sessions;
    assert!(kept.len() > 50 && kept[..] == header.sessions[..kept.len()]);
}

#[test]
fn another_version_is_named() {
    let mut bytes = written(&header(1), &[]);
    bytes[8] = 7;
    let error = Profile::new(&bytes[..]).expect_err("another version");
    assert_eq!(error.to_string(), "the profile is of version 7; this program reads version 1");
}
