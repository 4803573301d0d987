use super::super::served::cut;
use super::*;
use mynah_analysis::{GroupBy, ProfileReports, analyse};
use mynah_lab::Simulation;
use mynah_lab::experiment::Precondition;
use mynah_result::Percentiles;
use mynah_runtime::cpus::Cpus;
use std::sync::LazyLock;

const US: f64 = 1_000.0;
const REASON: &str = "real time was missed by 19.881ms at the 99th percentile (7.096762ms late, \
                      arrival uncertain by 12.784238ms); the bound is 50us";

/// A run on a drive that is made soon.
fn run(flows: &[(&str, &str)], profile: Option<&Path>) -> RunResult {
    let simulation = Simulation::on_changed(mynah_drive_file::DEFAULT_DRIVE, &cut()).unwrap();
    let simulation = simulation.set("geometry.blocks_per_plane=64").unwrap();
    let simulation = simulation.precondition(Precondition::Fill);
    let add = |simulation: Simulation, (name, text): &(&str, &str)| {
        simulation.flow(
            name,
            &text.replace("runtime=1s", "runtime=50ms").replace("runtime=2s", "runtime=300ms"),
        )
    };
    let mut simulation = flows.iter().try_fold(simulation, add).unwrap();
    simulation.profile = profile.map(Path::to_owned);
    simulation.run().unwrap().result
}

fn late(p90: f64, p99: f64) -> Latency {
    let percentiles = Percentiles { p50: p90, p90, p95: p99, p99, p99_9: p99, p99_99: p99 };
    Latency { min: 0.0, mean: p90, stddev: 0.0, max: p99, percentiles }
}

/// A drive that was served by this machine, so late.
fn with_lateness(lateness: Latency, untrusted: bool, tries: usize) -> Served {
    static PREDICTED: LazyLock<RunResult> = LazyLock::new(|| run(&[("host", HOST)], None));
    let predicted = PREDICTED.clone();
    let mut served = predicted.clone();
    served.lateness_ns = Some(lateness);
    served.untrusted = untrusted.then(|| REASON.to_owned());
    let host = predicted.clone();
    let agreement = Agreement::new(&predicted, &served, &host);
    let earlier = tries - 1;
    Served { served, host, agreement, replayed: 3_000, earlier }
}

fn sides() -> Sides {
    Sides { cpus: Cpus::usable().unwrap(), is_given: false }
}

/// All that is said after the first part.
fn rest(untrusted: bool) -> String {
    let folder = tempfile::tempdir().unwrap();
    let [quiet, busy] = ["quiet", "busy"].map(|name| folder.path().join(name));
    run(&[("host", profile::QUIET)], Some(&quiet));
    run(&[("host", profile::BUSY)], Some(&busy));
    let [base, now] = [quiet, busy].map(|path| analyse(&path, &GroupBy::default()).unwrap());
    let reports = ProfileReports::new(&[now], Some(&base));
    let untrusted = untrusted.then(|| REASON.to_owned());
    let explanation = run(&[("reader", READER), ("writer", WRITER)], None);
    explained(&explanation, Path::new("mynah-demo.html"))
        + &profiled(&Profiled { reports, untrusted })
        + &next()
}

fn fits(page: &str) {
    let lines = page.lines().count();
    assert!(lines <= 60, "{lines} lines:\n{page}");
    for line in page.lines() {
        assert!(line.chars().count() <= WIDTH, "{line}\nof\n{page}");
    }
    assert!(page.starts_with("VERDICT  "), "{page}");
}

/// One line, however it was wrapped.
fn flat(page: &str) -> String {
    page.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_run_in_time_fits_a_page_and_says_that_both_agree() {
    let page = served(&with_lateness(late(0.5 * US, 12.0 * US), false, 1), &sides()) + &rest(false);
    fits(&page);
    let text = flat(&page);
    assert!(!text.contains("NOT TRUSTWORTHY") && !text.contains("help"), "{page}");
    for part in [
        "its median latency is the predicted one to 0.0 %",
        "98 of 100 commands missed real time by at most 12.0us, and 155us are allowed (a tenth of the \
         median, at least 50.0us)",
        "read median",
        "99th percentile",
        "each of its 3000 completions came at the same picosecond",
        "latency breakdown, reader read",
        "die_wait",
        "mynah-demo.html",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{page}");
    }
}

#[test]
fn a_run_that_is_late_says_so_first_and_what_would_help() {
    let page =
        served(&with_lateness(late(5.0 * US, 19_881.0 * US), true, 3), &sides()) + &rest(true);
    fits(&page);
    assert!(
        page.starts_with("VERDICT  NOT TRUSTWORTHY: real time was missed by 19.881ms"),
        "{page}"
    );
    let text = flat(&page);
    for part in ["medians can be compared", "Try 3: those before were late", "read median", "help"]
    {
        assert!(text.contains(part), "no `{part}` in\n{page}");
    }
    assert!(!text.contains("99th percentile 2"), "{page}");
}

#[test]
fn what_cannot_be_compared_is_not_laid_side_by_side() {
    let page = served(&with_lateness(late(4_000.0 * US, 19_881.0 * US), true, 2), &sides());
    let text = flat(&page);
    assert!(!text.contains("difference") && !text.contains("can be compared"), "{page}");
    assert!(
        text.contains("are not compared") && text.contains("Try 2: those before were late"),
        "{page}"
    );
    fits(&(page + &rest(true)));
    // The drive was in time, and its host was not.
    let mut it = with_lateness(late(US, 5.0 * US), false, 1);
    it.agreement.missed.host_ns = 400.0 * US;
    it.agreement.comparable = Comparable::Nothing;
    it.agreement.pairs.clear();
    let text = flat(&served(&it, &sides()));
    assert!(text.contains("One of ten commands was sent late by more than 400us"), "{text}");
    assert!(text.contains("can be trusted") && text.contains("help"), "{text}");
}

#[test]
fn what_would_help_is_what_is_there() {
    let of = |text: &str, is_given| {
        let cpus = text.parse::<Cpus>().unwrap();
        Sides { cpus, is_given }.help()
    };
    let first = Cpus::usable().unwrap().split(0).to_string();
    assert!(of(&first, false).contains("one processor for both"));
    let all = Cpus::usable().unwrap();
    if all.count() > 1 {
        let both = format!("{},{}", all.split(0), all.split(1));
        assert!(of(&both, false).contains(&format!("--cpus_allowed {both}")));
        assert!(of(&both, true).contains("nothing else uses"));
    }
}
