//! `mynah drives check --evidence`: shipped drives, or a file of one, beside what was published
//! and measured of the real ones.

use super::load;
use crate::args::DriveCheck;
use crate::failure::{self, Failure};
use crate::print;
use crate::progress::{self, BatchBar};
use anstream::{AutoStream, ColorChoice};
use mynah_drive_file as drive;
use mynah_lab::runner::SharedStates;
use mynah_lab::simulation::Step;
use mynah_lab::{SimulationError, batch};
use mynah_result::output;
use mynah_study::evidence::{self, Checks, Compared, Evidence, Measurement, Paint};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What misses is red.
const RED: Paint = Paint { before: "\x1b[31m", after: "\x1b[0m" };

/// A drive and its evidence.
struct DriveEvidence {
    /// Name of the drive, as on the command line.
    drive: String,
    evidence: Evidence,
}

/// Drives that are being compared, measurement by measurement.
struct Checking {
    known: Vec<DriveEvidence>,
    /// Which measurement of which drive, by number.
    runs: Vec<(usize, usize)>,
    set: Vec<String>,
    /// The measurements of a drive often begin with the same state.
    shared: SharedStates,
    bar: BatchBar,
    /// Measurements that are left of each drive.
    left: Vec<AtomicUsize>,
}

impl Checking {
    fn new(known: Vec<DriveEvidence>, set: &[String]) -> Checking {
        let measurements = |it: &DriveEvidence| it.evidence.measurements.len();
        let runs: Vec<(usize, usize)> = (0..known.len())
            .flat_map(|at| (0..measurements(&known[at])).map(move |measurement| (at, measurement)))
            .collect();
        let bar = BatchBar::new(false, runs.len());
        let left = known.iter().map(|known| AtomicUsize::new(measurements(known))).collect();
        Checking { known, runs, set: set.to_vec(), shared: SharedStates::at_once(), bar, left }
    }

    /// Compares one measurement; `None` if no more are to be.
    fn one(&self, run: usize) -> Option<Result<Vec<Compared>, SimulationError>> {
        if progress::is_interrupted() {
            return None;
        }
        let (at, measurement) = self.runs[run];
        let DriveEvidence { drive, evidence } = &self.known[at];
        let compared =
            evidence.check(&evidence.measurements[measurement], drive, &self.set, &self.shared);
        self.bar.step(run, Step::Finished);
        // The tables come when all are there; off a terminal a line a drive says how far it is.
        let ends = self.left[at].fetch_sub(1, Ordering::Relaxed) == 1;
        if ends && self.known.len() > 1 && !self.bar.is_shown() && !progress::is_interrupted() {
            let ended = self.left.iter().filter(|left| left.load(Ordering::Relaxed) == 0).count();
            failure::say(format_args!(
                "{drive}: compared ({ended} of {} drives)",
                self.known.len()
            ));
        }
        Some(compared)
    }
}

/// Compares and prints. Interrupted, it waits for nothing: there is nothing to keep.
pub(super) fn run(args: &DriveCheck) -> Result<bool, Failure> {
    let available = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or_else(available, |threads| threads as usize);
    let checking = Arc::new(Checking::new(known(args)?, &args.set));
    let worker = Arc::clone(&checking);
    let runs = checking.runs.len();
    let done =
        batch::run_until(runs, threads, move |run| worker.one(run), progress::is_interrupted);
    checking.bar.end();
    if progress::is_interrupted() {
        return Err(Failure::Interrupted);
    }
    let known = &checking.known;
    let mut done = done.into_iter().flatten();
    let mut checks = vec![];
    for DriveEvidence { drive, evidence } in known {
        let rows: Result<Vec<(&Measurement, Vec<Compared>)>, SimulationError> = evidence
            .measurements
            .iter()
            .zip(done.by_ref())
            .map(|(measurement, compared)| Ok((measurement, compared?)))
            .collect();
        checks.push(Checks { drive, evidence, rows: rows? });
    }
    if let Some(path) = &args.svg {
        draw(args, &known[0], path)?;
    }
    show(args, &checks)?;
    let unexplained: Vec<String> = checks.iter().flat_map(missed).collect();
    if unexplained.is_empty() {
        return Ok(false);
    }
    let message = format!("figures miss their tolerance: {}", unexplained.join("; "));
    let help = "a measurement of which it is known why has a `miss` in drives/evidence/";
    Err(Failure::failed(message, Some(help)))
}

/// The drives that were asked for.
fn known(args: &DriveCheck) -> Result<Vec<DriveEvidence>, Failure> {
    let names: Vec<&str> = match &args.file {
        Some(file) => vec![file],
        None => drive::shipped().iter().map(|drive| drive.name).collect(),
    };
    let each = |asked: &str| {
        let name = load(asked, &args.set)?.name;
        let evidence = Evidence::of(&name).ok_or_else(|| {
            let message = format!("{asked}: nothing is known of a drive named `{name}`");
            let names: Vec<_> = drive::shipped().iter().map(|drive| drive.name).collect();
            let help = format!("there is evidence for the names {}", names.join(", "));
            Failure::usage(message, Some(&help))
        })?;
        Ok(DriveEvidence { drive: asked.to_owned(), evidence })
    };
    names.into_iter().map(each).collect()
}

fn draw(args: &DriveCheck, known: &DriveEvidence, path: &Path) -> Result<(), Failure> {
    if let Some(picture) = evidence::picture(&known.evidence, &known.drive, &args.set)? {
        output::write(path, &picture.svg())?;
        return Ok(());
    }
    let Some(picture) = evidence::fill_picture(&known.evidence, &known.drive, &args.set)? else {
        let message = format!("{}: there is nothing to draw", known.drive);
        let help = "a picture needs three measurements that differ only in their queue depth, or one \
                    of a drive that is written from end to end";
        return Err(Failure::usage(message, Some(help)));
    };
    output::write(path, &picture.svg())?;
    Ok(())
}

fn show(args: &DriveCheck, checks: &[Checks<'_>]) -> Result<(), Failure> {
    if let Some(path) = args.json.as_deref() {
        let hash = |drive: &str| evidence::hash_of(drive, &args.set).ok();
        let json = format!("{:#}\n", evidence::json(checks, hash));
        if path == Path::new("-") {
            return print::out(&json);
        }
        output::write(path, &json)?;
    }
    let paint = match AutoStream::choice(&std::io::stdout()) {
        ColorChoice::Never => Paint::default(),
        _ => RED,
    };
    let text: Vec<String> = checks.iter().map(|checks| evidence::text(checks, paint)).collect();
    print::out(&text.concat())
}

/// What misses without a known reason, in words.
fn missed(checks: &Checks<'_>) -> Vec<String> {
    let one = |(measurement, compared): (&Measurement, &Compared)| {
        let (figure, off) = (compared.figure.name(), compared.deviation() * 100.0);
        format!("{}, {}: {figure} {off:+.1} %", checks.drive, measurement.load)
    };
    checks.unexplained().map(one).collect()
}
