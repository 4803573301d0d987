//! A profile that is followed: every record once, in order, or counted as lost.

use mynah_profile::{
    COUNTS_WORD, Counts, Follow, HEADER_BYTES, Head, Header, ReadError, Side, TimeBase, Writer,
};
use mynah_stamp::{Span, Time};
use proptest::prelude::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn header(name: &str) -> Header {
    let mut header = Header::new(Side::Target, name, TimeBase::Monotonic);
    header.kinds = vec!["read".into()];
    header.stages = vec!["first".into(), "second".into()];
    header
}

/// A ring that a test writes: any record, and any count.
struct Ring {
    file: File,
    header: Header,
    slots: u64,
    recorded: u64,
}

impl Ring {
    fn create(path: &Path, slots: u64) -> Ring {
        let (header, file) = (header("ring"), File::create(path).unwrap());
        file.write_all_at(&header.to_page(slots, &Counts::default()), 0).unwrap();
        file.set_len(HEADER_BYTES as u64 + slots * header.record_bytes()).unwrap();
        Ring { file, header, slots, recorded: 0 }
    }

    fn words(&self, sequence: u64) -> Vec<u8> {
        let head = Head { sequence, total: Span::from_ns(sequence), ..Head::default() };
        let stages = [sequence * 400, sequence * 600];
        let words = head.to_words().into_iter().chain(stages).chain([sequence]);
        words.flat_map(u64::to_le_bytes).collect()
    }

    fn write(&mut self, count: u64) {
        for _ in 0..count {
            self.recorded += 1;
            let slot = (self.recorded - 1) % self.slots;
            let at = HEADER_BYTES as u64 + slot * self.header.record_bytes();
            self.file.write_all_at(&self.words(self.recorded), at).unwrap();
        }
        self.say(self.recorded);
    }

    fn say(&self, recorded: u64) {
        let counts = [recorded, recorded].map(u64::to_le_bytes).concat();
        self.file.write_all_at(&counts, 8 * COUNTS_WORD as u64).unwrap();
    }
}

proptest! {
    #[test]
    fn every_record_comes_once_or_is_lost(
        slots in 1u64..40,
        rounds in prop::collection::vec(0u64..60, 0..12),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ring");
        let mut ring = Ring::create(&path, slots);
        let mut follow = Follow::open(&path).unwrap();
        let mut next = 1;
        for count in rounds {
            ring.write(count);
            let mut seen = vec![];
            let progress = follow.poll(&mut |record| {
                assert_eq!(record.residual(), 0);
                seen.push(record.head.sequence);
            }).unwrap();
            prop_assert_eq!(progress.overwritten, count.saturating_sub(slots));
            prop_assert_eq!((progress.torn, progress.anew), (0, false));
            prop_assert_eq!(progress.counts.recorded, ring.recorded);
            let first = next + progress.overwritten;
            prop_assert_eq!(seen, (first..=ring.recorded).collect::<Vec<_>>());
            next = ring.recorded + 1;
        }
    }

    #[test]
    fn any_header_does_no_harm(
        slots in any::<u64>(), recorded in any::<u64>(), near in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ring");
        let mut ring = Ring::create(&path, 20);
        ring.write(5);
        let recorded = if near { u64::MAX - recorded % 50 } else { recorded };
        ring.say(recorded);
        let slots = if near { slots % 21 } else { slots };
        ring.file.write_all_at(&slots.to_le_bytes(), 16).unwrap();
        let mut follow = Follow::open(&path).unwrap();
        match follow.poll(&mut |_| ()) {
            Ok(progress) => prop_assert!(progress.read + progress.torn <= 20),
            Err(error) => prop_assert!(matches!(error, ReadError::Damaged(_)), "{error}"),
        }
    }
}

#[test]
fn a_file_that_is_complete_comes_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole");
    let mut writer = Writer::new(File::create(&path).unwrap(), header("whole")).unwrap();
    for begin in 0..3000 {
        let head = Head { begin: Time::from_ns(begin), ..Head::default() };
        writer.record(head, [Span::ZERO; 2], &[]).unwrap();
    }
    writer.finish().unwrap();
    let mut follow = Follow::open(&path).unwrap();
    let mut seen = vec![];
    let progress = follow.poll(&mut |record| seen.push(record.head.begin)).unwrap();
    assert_eq!((progress.read, progress.overwritten), (3000, 0));
    assert_eq!(seen, (0..3000).map(Time::from_ns).collect::<Vec<_>>());
    assert_eq!(follow.poll(&mut |_| panic!("there are no more")).unwrap().read, 0);
}

#[test]
fn records_that_are_being_written_are_torn_and_another_run_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ring");
    let mut ring = Ring::create(&path, 4);
    ring.write(3);
    // The end of the second is taken away.
    let row = ring.header.record_bytes();
    ring.file.write_all_at(&[0; 8], HEADER_BYTES as u64 + 2 * row - 8).unwrap();
    let mut follow = Follow::open(&path).unwrap();
    let mut seen = vec![];
    let progress = follow.poll(&mut |record| seen.push(record.head.sequence)).unwrap();
    assert_eq!((seen, progress.torn), (vec![1, 3], 1));
    let mut ring = Ring::create(&path, 4);
    ring.write(2);
    let mut seen = vec![];
    let progress = follow.poll(&mut |record| seen.push(record.head.sequence)).unwrap();
    assert_eq!((seen, progress.anew), (vec![1, 2], true));
    std::fs::write(&path, "something else").unwrap();
    assert!(matches!(follow.poll(&mut |_| ()), Err(ReadError::Foreign)));
}
