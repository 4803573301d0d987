//! What is found of a drive on paper that a noisy host asks: never something else than what it is.

#[path = "trial/paper.rs"]
mod paper;

use mynah_identify::{Findings, Limits, Plan, Value, identify};
use mynah_stamp::Span;
use paper::{Paper, PaperDrive};

fn find(paper: Paper, seed: u64) -> Findings {
    let limits = Limits { time: Span::from_secs(3600), written_bytes: 0 };
    let findings = identify(&mut PaperDrive::new(paper, seed), &mut (), &Plan { limits, seed });
    assert_eq!(findings.ended, None);
    findings
}

/// Dies and page, at least, are found; nothing is wrong.
fn is_right(paper: Paper) -> Findings {
    let mut last = Findings::default();
    for seed in 1..=3 {
        let findings = find(paper, seed);
        let value = |key| findings.get(key).and_then(|it| it.value().cloned());
        let said = format!("{findings:#?}");
        assert_eq!(value("dies"), Some(Value::Count(paper.dies)), "seed {seed}: {said}");
        assert_eq!(value("geometry.page_size"), Some(Value::Bytes(paper.page)), "seed {seed}");
        assert!(
            value("geometry.channels").is_none_or(|it| it == Value::Count(paper.channels)),
            "seed {seed}: {:?}",
            findings.get("geometry.channels")
        );
        assert!(value("geometry.planes_per_die").is_none(), "paper joins no planes");
        if let Some(Value::Times(times)) = value("flash.read") {
            assert_eq!(times.len(), 3, "seed {seed}: {times:?}");
            for (time, truth) in times.iter().zip(paper.reads) {
                assert!((time / truth - 1.0).abs() < 0.1, "seed {seed}: {times:?}");
            }
        }
        if let Some(Value::Rate(rate)) = value("bus.rate") {
            let truth = paper.page as f64 / paper.transfer * 1e6;
            assert!((rate / truth - 1.0).abs() < 0.1, "seed {seed}: {rate} for {truth}");
        }
        last = findings;
    }
    last
}

/// Without noise all of it is found.
#[test]
fn a_quiet_drive_on_paper_is_known() {
    let findings = is_right(Paper::quiet());
    for key in ["geometry.channels", "flash.read", "bus.rate"] {
        assert!(findings.value(key).is_some(), "{key}");
    }
}

#[test]
fn noise_makes_nothing_of_it_wrong() {
    for noise in [0.5, 2.0] {
        is_right(Paper { noise, ..Paper::quiet() });
    }
}

#[test]
fn late_answers_make_nothing_of_it_wrong() {
    is_right(Paper { late: (0.02, 4000.0), ..Paper::quiet() });
    is_right(Paper { late: (0.05, 300.0), noise: 1.0, ..Paper::quiet() });
}

/// As on a machine with more to do than processors.
#[test]
fn a_third_of_answers_late_makes_nothing_of_it_wrong() {
    is_right(Paper { late: (0.35, 200.0), ..Paper::quiet() });
}

#[test]
fn a_clock_that_ticks_makes_nothing_of_it_wrong() {
    is_right(Paper { tick: 1.0, ..Paper::quiet() });
}

#[test]
fn a_drive_that_gets_slower_is_known() {
    is_right(Paper { drift: 0.2, noise: 0.2, ..Paper::quiet() });
}

/// As where something else has the processor for a while, now and then.
#[test]
fn storms_make_nothing_of_it_wrong() {
    is_right(Paper { storms: (100_000.0, 4_000.0, 300.0), noise: 0.3, ..Paper::quiet() });
    is_right(Paper { storms: (1_000_000.0, 30_000.0, 60.0), noise: 0.3, ..Paper::quiet() });
}

/// Most answers late: what is said may be little, and is right.
#[test]
fn where_most_answers_are_late_nothing_is_wrong() {
    for share in [0.8, 0.9, 0.95] {
        for seed in 1..=3 {
            let paper = Paper { late: (share, 500.0), noise: 1.0, ..Paper::quiet() };
            let findings = find(paper, seed);
            for (key, truth) in [
                ("dies", Value::Count(paper.dies)),
                ("geometry.page_size", Value::Bytes(paper.page)),
                ("geometry.channels", Value::Count(paper.channels)),
            ] {
                let finding = findings.get(key).expect("it is spoken of");
                let good = finding.value().is_none_or(|value| *value == truth);
                assert!(good, "{share}, seed {seed}: {finding:?}");
            }
        }
    }
}

/// Noise above all that a drive has: nothing is said of its inside.
#[test]
fn in_a_storm_nothing_is_known() {
    for seed in 1..=3 {
        let findings = find(Paper { noise: 200.0, way: 900.0, ..Paper::quiet() }, seed);
        for key in ["dies", "geometry.page_size", "geometry.channels", "flash.read"] {
            let finding = findings.get(key).expect("it is spoken of");
            assert!(finding.value().is_none(), "seed {seed}: {finding:?}");
        }
    }
}
