//! Whether a run that says of itself that it is steady is right, and whether one that is right says
//! so: runs that end by themselves, against drives that were written and go on for long.

use crate::case::{Case, of_result};
use crate::drives::{self, Cut};
use crate::loads;
use crate::table::Values;
use mynah_result::Verdict;

/// Shares by which figures may lie off the written drive's: within the first a run is right, beyond
/// the second it is wrong. Two per cent are what runs claim.
const RIGHT_MAX: f64 = 0.05;
const WRONG_MIN: f64 = 0.07;
/// How long the written drive is measured, in times that its capacity is written.
const LONG: f64 = 4.0;

/// Runs by what they are and what they say.
#[derive(Default)]
struct Count {
    right: u32,
    right_unsaid: u32,
    steady: u32,
    steady_wrong: u32,
    all: u32,
}

impl Count {
    fn add(&mut self, other: &Count) {
        self.right += other.right;
        self.right_unsaid += other.right_unsaid;
        self.steady += other.steady;
        self.steady_wrong += other.steady_wrong;
        self.all += other.all;
    }

    fn line(&self, name: &str) {
        let Count { right, right_unsaid, steady, steady_wrong, all } = self;
        println!("| {name} | {all} | {steady} | {steady_wrong} | {right} | {right_unsaid} |");
    }
}

/// How far the furthest of WAF, IOPS and mean lies off.
fn furthest_off(of: &Values, truth: &Values) -> f64 {
    let find = |values: &Values, name: &str| {
        values.0.iter().find(|(of, _)| of == name).map(|(_, value)| *value)
    };
    let off = |name: &&str| Some((find(of, name)? / find(truth, name)? - 1.0).abs());
    ["WAF", "IOPS", "mean"].iter().filter_map(off).fold(0.0, f64::max)
}

fn count(case: &Case<'_>, seeds: impl Iterator<Item = u64>) -> Count {
    let truth = case.in_the_long_run(LONG);
    let mut count = Count::default();
    for seed in seeds {
        let result = case.until_known(seed);
        let verdict = result.steadiness.as_ref().map(|judged| judged.verdict);
        let off = furthest_off(&of_result(&result), &truth);
        let steady = verdict == Some(Verdict::Steady);
        count.all += 1;
        count.steady += u32::from(steady);
        count.steady_wrong += u32::from(steady && off > WRONG_MIN);
        count.right += u32::from(off <= RIGHT_MAX);
        count.right_unsaid += u32::from(!steady && off <= RIGHT_MAX);
        if !steady || off > RIGHT_MAX {
            let said = result.steadiness.and_then(|judged| judged.reason);
            println!(
                "  seed {seed}: {:.1} % off, {verdict:?} {}",
                off * 100.0,
                said.unwrap_or_default()
            );
        }
    }
    count
}

/// Prints the table, and fails where a wrong run says that it is steady, or where of the right ones
/// more than a tenth say anything else.
pub(crate) fn judge() {
    let chosen = std::env::var("MYNAH_DRIVES").unwrap_or_default();
    let all: [(Cut, &[&str], u64); 6] = [
        (drives::small(), &["uniform"], 20),
        (drives::sample()[0].clone(), &["uniform", "zipf", "mixed", "trims"], 5),
        (drives::sample()[1].clone(), &["uniform", "zipf", "mixed", "trims"], 5),
        (drives::of("enterprise-tlc"), &["uniform", "zipf", "mixed", "half"], 5),
        (drives::of("samsung-48l-tlc"), &["uniform", "zipf", "mixed", "occupancy"], 5),
        (drives::of("qlc-p4320"), &["uniform", "zipf", "mixed"], 5),
    ];
    let mut total = Count::default();
    let mut lines = vec![];
    for (cut, names, seeds) in &all {
        if !chosen.is_empty() && !chosen.split(',').any(|it| it == cut.name) {
            continue;
        }
        for load in loads::all().iter().filter(|load| names.contains(&load.name)) {
            println!("{}, {}", cut.name, load.name);
            let count = count(&Case { cut, load }, 1..=*seeds);
            total.add(&count);
            lines.push((format!("{} | {}", cut.name, load.name), count));
        }
    }
    println!("| drive | load | runs | steady | of these wrong | right | of these not called so |");
    println!("|---|---|---|---|---|---|---|");
    lines.iter().for_each(|(name, count)| count.line(name));
    total.line("all | ");
    assert_eq!(total.steady_wrong, 0, "steady, and wrong");
    assert!(total.right_unsaid * 10 <= total.right, "right, and not called steady");
}
