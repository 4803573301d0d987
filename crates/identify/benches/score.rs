//! What is found of drives whose truth is known, in virtual time:
//! `cargo bench -p mynah-identify --bench score [-- NAME…] [-- --held-out]`.
//!
//! All shipped block drives and the random ones, or those random ones alone whose seeds were put aside.
//! A line for each finding that is not right, and the score.

#[path = "../tests/trial/drives.rs"]
mod drives;
#[path = "../tests/trial/truth.rs"]
mod truth;

use mynah_identify::{Limits, Outcome, Plan, SimulatedDrive, identify};
use mynah_stamp::Span;
use std::collections::BTreeMap;
use truth::Verdict;

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    let mut flag = |name: &str| {
        let before = args.len();
        args.retain(|it| it != name);
        args.len() < before
    };
    let (held_out, verbose, destroy) = (flag("--held-out"), flag("-v"), !flag("--read-only"));
    let mut all: Vec<(String, String)> = Vec::new();
    if !held_out {
        all.extend(mynah_drive_file::shipped().iter().map(|it| (it.name.into(), it.text.into())));
        all.extend(drives::OPEN.map(|seed| (format!("random-{seed}"), drives::random(seed))));
    } else {
        all.extend(drives::HELD_OUT.map(|seed| (format!("random-{seed}"), drives::random(seed))));
    }
    let mut score: BTreeMap<&str, [u32; 5]> = BTreeMap::new();
    for (name, text) in &all {
        if args.is_empty() || args.contains(name) {
            one(name, text, (verbose, destroy), &mut score);
        }
    }
    show(&score);
}

fn one(
    name: &str,
    text: &str,
    (verbose, destroy): (bool, bool),
    score: &mut BTreeMap<&'static str, [u32; 5]>,
) {
    let config = mynah_drive_file::parse(name, text, &[]).expect("it is possible").config;
    let truths = truth::truths(&config, destroy);
    let begin = std::time::Instant::now();
    let Ok(mut subject) = SimulatedDrive::filled(config) else { return };
    let bytes = mynah_identify::Subject::bytes(&subject);
    let written_bytes = if destroy { 8 * bytes } else { 0 };
    let plan = Plan { limits: Limits { time: Span::from_secs(36_000), written_bytes }, seed: 1 };
    let findings = identify(&mut subject, &mut (), &plan);
    println!(
        "{name}: {} requests, {:.1} GB written, {:.1} s of its time, {:.1} s{}",
        findings.requests,
        findings.written_bytes as f64 * 1e-9,
        findings.seconds,
        begin.elapsed().as_secs_f64(),
        findings.ended.as_deref().map(|it| format!(", {it}")).unwrap_or_default(),
    );
    for truth in &truths {
        let verdict = truth::judge(truth, &findings);
        score.entry(truth.key).or_default()[verdict as usize] += 1;
        if verbose || matches!(verdict, Verdict::Missed | Verdict::Wrong | Verdict::Near) {
            let finding = findings.get(truth.key);
            let said = match finding.map(|it| (&it.outcome, &it.evidence)) {
                Some((Outcome::Found { value, .. }, evidence)) => format!("{value}: {evidence}"),
                Some((Outcome::NotDetermined { because }, _)) => {
                    format!("not determined: {because}")
                }
                None => "nothing said".to_owned(),
            };
            println!("    {verdict:?} {} is {}; {said}", truth.key, truth.value);
        }
    }
    if verbose {
        for finding in &findings.findings {
            let value = finding.value().map_or_else(|| "?".to_owned(), ToString::to_string);
            println!("      {} = {value}", finding.key);
        }
    }
}

fn show(score: &BTreeMap<&str, [u32; 5]>) {
    let mut sum = [0; 5];
    println!("\n{:28} right  near  missed  hidden  wrong", "");
    let row = |name: &str, counts: &[u32; 5]| {
        let [right, near, missed, hidden, wrong] = counts;
        println!("{name:28} {right:5} {near:5} {missed:7} {hidden:7} {wrong:6}");
    };
    for (key, counts) in score {
        row(key, counts);
        (0..5).for_each(|index| sum[index] += counts[index]);
    }
    row("all", &sum);
    let [right, near, missed, _, wrong] = sum.map(f64::from);
    let known = right + near + missed + wrong;
    println!(
        "\n{:.1} % of what can be determined is right (within 5 %), {:.1} % within 10 %; {:.1} % of what \
         was said is wrong",
        right / known * 100.0,
        (right + near) / known * 100.0,
        wrong / (right + near + wrong) * 100.0
    );
}
