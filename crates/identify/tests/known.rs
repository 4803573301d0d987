//! Drives whose truth is known, and what is found of them. The whole score is a benchmark
//! (`benches/score.rs`); these are a few, so small that they are asked in no time.

#[path = "trial/drives.rs"]
mod drives;
#[path = "trial/truth.rs"]
mod truth;

use mynah_identify::{
    Answer, Findings, Limits, Lost, Op, Outcome, Plan, SimulatedDrive, Subject, Value, Watch,
    drive_file, identify,
};
use mynah_stamp::{Span, Time};
use truth::Verdict;

fn drive(text: &str) -> mynah_model::config::Config {
    mynah_drive_file::parse("drive", text, &[]).expect("it is possible").config
}

fn plan(written_bytes: u64) -> Plan {
    Plan { limits: Limits { time: Span::from_secs(3600), written_bytes }, seed: 1 }
}

/// Nothing that is said of a drive is wrong, and little is left open.
fn is_known(seed: u64, written_bytes: u64) -> Findings {
    let config = drive(&drives::random(seed));
    let truths = truth::truths(&config, written_bytes > 0);
    let mut subject = SimulatedDrive::filled(config).expect("it is possible");
    let findings = identify(&mut subject, &mut (), &plan(written_bytes));
    assert_eq!(findings.ended, None);
    for truth in truths {
        let verdict = truth::judge(&truth, &findings);
        let good = matches!(verdict, Verdict::Right | Verdict::Near | Verdict::Hidden);
        assert!(good, "{} of {seed}: {verdict:?}: {:?}", truth.key, findings.get(truth.key));
    }
    findings
}

#[test]
fn every_seed_gives_a_drive() {
    for seed in drives::OPEN.chain(drives::HELD_OUT) {
        let text = drives::random(seed);
        let drive = mynah_drive_file::parse("random drive", &text, &[]).expect("it is possible");
        assert_eq!(drive.name, format!("random-{seed}"));
        assert_eq!(drives::random(seed), text, "it is the same each time");
    }
}

#[test]
fn small_drives_are_known_by_reading() {
    for seed in [1, 5, 16] {
        let findings = is_known(seed, 0);
        assert_eq!(findings.written_bytes, 0);
    }
}

#[test]
fn a_small_drive_is_known_by_writing_and_the_same_each_time() {
    let once = is_known(10, 32 << 30);
    assert!(once.written_bytes > 0);
    assert_eq!(is_known(10, 32 << 30), once);
}

/// A drive that holds nothing answers without its flash: it is written to before it is asked.
#[test]
fn an_empty_drive_is_known_by_writing() {
    let config = drive(&drives::random(16));
    let truths = truth::truths(&config, false);
    let mut subject = SimulatedDrive::filled(config).expect("it is possible");
    let all = subject.bytes();
    subject.submit(Op::Trim, 0, all).expect("it is there");
    subject.next().expect("it is there");
    let read = identify(&mut subject, &mut (), &plan(0));
    assert!(read.get("dies").is_some_and(|it| it.value().is_none()), "it holds nothing");
    let written = identify(&mut subject, &mut (), &plan(1 << 30));
    for truth in truths {
        let verdict = truth::judge(&truth, &written);
        let good = matches!(verdict, Verdict::Right | Verdict::Near | Verdict::Hidden);
        assert!(good, "{}: {verdict:?}: {:?}", truth.key, written.get(truth.key));
    }
    assert_eq!(written.value("trims"), Some(&Value::Yes(true)));
}

/// What is found makes a drive file that reads like the drive it was found of, in what a host sees.
#[test]
fn what_is_found_is_a_drive_that_is_found_again() {
    let findings = is_known(16, 0);
    let text = drive_file(&findings, "found", 1 << 30);
    let mut again = SimulatedDrive::filled(drive(&text)).expect("it is possible");
    let again = identify(&mut again, &mut (), &plan(0));
    for key in ["dies", "geometry.channels", "geometry.page_size"] {
        let value = |of: &Findings| of.get(key).and_then(|it| it.value().cloned());
        assert_eq!(value(&again), value(&findings), "{key}");
    }
    let latency = |of: &Findings| match of.value("read_latency") {
        Some(Value::Time(time)) => *time,
        other => panic!("{other:?}"),
    };
    let (here, there) = (latency(&findings), latency(&again));
    assert!(
        (there / here - 1.0).abs() < 0.05,
        "a read takes {here} us, and {there} us of what was found"
    );
}

/// Writes of the drive that was found are answered nearly as fast, where a cache answers them: what its
/// memory takes for a copy is not told from what the front end takes.
#[test]
fn what_is_found_writes_like_the_drive() {
    let mut subject = SimulatedDrive::filled(drive(&drives::random(16))).expect("it is possible");
    let findings = identify(&mut subject, &mut (), &plan(1 << 30));
    let text = drive_file(&findings, "found", subject.bytes());
    let mut again = SimulatedDrive::filled(drive(&text)).expect("it is possible");
    let again = identify(&mut again, &mut (), &plan(1 << 30));
    let latency = |of: &Findings| match of.value("write_latency") {
        Some(Value::Time(time)) => *time,
        other => panic!("{other:?}"),
    };
    let (here, there) = (latency(&findings), latency(&again));
    assert!(
        (there / here - 1.0).abs() < 0.2,
        "a write takes {here} us, and {there} us of what was found"
    );
}

/// A subject that must not be changed.
struct Precious(SimulatedDrive);

impl Subject for Precious {
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
    fn block_bytes(&self) -> u32 {
        self.0.block_bytes()
    }
    fn max_transfer_bytes(&self) -> u32 {
        self.0.max_transfer_bytes()
    }
    fn max_outstanding(&self) -> usize {
        self.0.max_outstanding()
    }
    fn can_trim(&self) -> bool {
        true
    }
    fn submit(&mut self, op: Op, offset: u64, bytes: u64) -> Result<u64, Lost> {
        assert_eq!(op, Op::Read, "it is written to");
        assert!(offset + bytes <= self.bytes(), "beyond the end");
        assert_eq!((offset % 512, bytes % 512), (0, 0), "not whole blocks");
        self.0.submit(op, offset, bytes)
    }
    fn next(&mut self) -> Result<Option<Answer>, Lost> {
        self.0.next()
    }
    fn pass(&mut self, span: Span) -> Result<(), Lost> {
        self.0.pass(span)
    }
    fn now(&self) -> Time {
        self.0.now()
    }
}

#[test]
fn nothing_is_written_that_may_not_be() {
    let subject = SimulatedDrive::filled(drive(&drives::random(1))).expect("it is possible");
    let findings = identify(&mut Precious(subject), &mut (), &plan(0));
    assert_eq!((findings.ended, findings.written_bytes), (None, 0));
}

#[test]
fn no_more_is_written_than_may_be() {
    let mut subject = SimulatedDrive::filled(drive(&drives::random(1))).expect("it is possible");
    let findings = identify(&mut subject, &mut (), &plan(1 << 20));
    assert!(findings.written_bytes <= 1 << 20);
    assert!(findings.ended.is_some_and(|ended| ended.contains("no more may be written")));
    assert!(findings.findings.iter().any(|it| matches!(it.outcome, Outcome::Found { .. })));
}

#[test]
fn an_interruption_keeps_what_was_found() {
    struct Impatient(u32);
    impl Watch for Impatient {
        fn is_interrupted(&self) -> bool {
            self.0 > 3
        }
        fn step(&mut self, _: &str, _: f64) {
            self.0 += 1;
        }
    }
    let mut subject = SimulatedDrive::filled(drive(&drives::random(1))).expect("it is possible");
    let findings = identify(&mut subject, &mut Impatient(0), &plan(0));
    assert!(findings.get("dies").is_some() && findings.get("flash.read").is_none());
    assert!(findings.ended.is_some_and(|ended| ended.contains("interrupted")));
}
