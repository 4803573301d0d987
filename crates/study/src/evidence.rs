//! What was published or measured of real drives, beside what shipped drives do.
//!
//! Each shipped drive has a file in `drives/evidence/`: loads, in fio's words, and the figures
//! that a source gives for them. [`Evidence::check`] runs such a load on the drive and says how
//! far its figures are off. What misses its tolerance stays in the file, with the reason if one is
//! known ([`Measurement::miss`]).
//!
//! This module fits nothing: which figures a drive was fitted to is what the file says.

mod fill;
mod fill_picture;
mod picture;
mod table;

use fill::{Completions, Curve};
pub use fill_picture::{FillPicture, fill_picture};
pub use picture::{Picture, picture};
pub use table::{Checks, Paint, json, text};

use mynah_drive_file::units::{Bandwidth, Bytes, Duration, Fraction, Iops};
use mynah_drive_file::{self as drive, shipped};
use mynah_lab::experiment::Precondition;
use mynah_lab::runner::SharedStates;
use mynah_lab::simulation::{Simulation, SimulationError};
use mynah_result::Flow;
use mynah_result::kind::Kind;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Published measurements of one drive.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Checked when the file is read.
    #[serde(rename = "schema")]
    _schema: Schema,
    /// What has to be known to read the figures, or why there are none.
    #[serde(default)]
    pub note: String,
    /// Publications, by the short names that measurements use.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
    /// How far each figure may be off, unless its measurement says otherwise.
    #[serde(default)]
    within: BTreeMap<Figure, Fraction>,
    /// Loads and what a source says of them.
    #[serde(default, rename = "measurement")]
    pub measurements: Vec<Measurement>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum Schema {
    #[serde(rename = "mynah.evidence/1")]
    V1,
}

/// A load, and what a source says of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// The load, in fio's words: `rw=randread bs=4k iodepth=8`.
    pub load: String,
    /// Limit of the simulated load, as in `number_ios=100000`.
    pub length: String,
    /// Simulated time at the beginning that is left out.
    #[serde(default)]
    pub ramp_time: Option<Duration>,
    /// The state that the drive starts from.
    pub start: Start,
    /// Changes to the drive, as `--set` has them: how the real one was set up.
    #[serde(default)]
    pub set: Vec<String>,
    /// The source, by its short name.
    pub source: String,
    /// Where in the source: a page, a table, a file.
    #[serde(default)]
    pub at: String,
    /// Whether the drive was fitted to these figures, or to which of them.
    #[serde(default)]
    pub fitted: Fitted,
    /// Blocks of a plane of the real drive, if the one here has fewer: what was written counts for
    /// as many times as much, since a curve over what was written scales.
    #[serde(default)]
    pub full_blocks: Option<u32>,
    /// Why the drive misses some of them.
    #[serde(default)]
    pub miss: String,
    /// Whether the tests run this one each time; if not, only the command does.
    #[serde(default)]
    pub sample: bool,
    /// The published figures of this load.
    pub figures: BTreeMap<Figure, Published>,
    /// How far they may be off, if not as far as others.
    #[serde(default)]
    within: BTreeMap<Figure, Fraction>,
}

/// Which of a measurement's figures the drive was fitted to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Fitted {
    /// All of them, or none.
    All(bool),
    Some(Vec<Figure>),
}

impl Default for Fitted {
    fn default() -> Fitted {
        Fitted::All(false)
    }
}

impl Fitted {
    /// Whether the drive was fitted to a figure.
    pub fn has(&self, figure: Figure) -> bool {
        match self {
            Fitted::All(all) => *all,
            Fitted::Some(some) => some.contains(&figure),
        }
    }
}

/// The state that a drive starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// Nothing has been written.
    None,
    /// Written once, in order.
    Fill,
    /// As after a long time of the load's own writes: what `mynah sim` starts from by default.
    Steady,
}

impl Start {
    /// The name by which it is read.
    pub const fn name(self) -> &'static str {
        self.precondition().name()
    }

    const fn precondition(self) -> Precondition {
        match self {
            Start::None => Precondition::None,
            Start::Fill => Precondition::Fill,
            Start::Steady => Precondition::Steady,
        }
    }
}

/// A figure that is compared. In mixed loads latencies are those of reads, and rates those of all
/// commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Figure {
    /// Requests per second.
    Iops,
    /// Bytes per second.
    Bandwidth,
    /// Mean latency, in nanoseconds.
    Mean,
    /// Median latency, in nanoseconds.
    P50,
    /// 99th percentile of the latency, in nanoseconds.
    P99,
    /// 99.9th percentile of the latency, in nanoseconds.
    #[serde(rename = "p99.9")]
    P999,
    /// Of a drive that is written from one end to the other: what had been written when throughput
    /// first fell, in bytes,
    Cliff,
    /// and the second time.
    #[serde(rename = "second-cliff")]
    SecondCliff,
    /// Bytes per second before the first cliff,
    First,
    /// after it,
    Second,
    /// after the second,
    Third,
    /// and over the whole.
    Average,
}

impl Figure {
    /// The name by which it is read.
    pub const fn name(self) -> &'static str {
        match self {
            Figure::Iops => "iops",
            Figure::Bandwidth => "bandwidth",
            Figure::Mean => "mean",
            Figure::P50 => "p50",
            Figure::P99 => "p99",
            Figure::P999 => "p99.9",
            Figure::Cliff => "cliff",
            Figure::SecondCliff => "second-cliff",
            Figure::First => "first",
            Figure::Second => "second",
            Figure::Third => "third",
            Figure::Average => "average",
        }
    }

    /// Whether it is one of the curve over what was written.
    const fn is_of_curve(self) -> bool {
        matches!(
            self,
            Figure::Cliff
                | Figure::SecondCliff
                | Figure::First
                | Figure::Second
                | Figure::Third
                | Figure::Average
        )
    }

    /// In which unit its numbers are: a second's requests, a second's bytes, bytes, or nanoseconds.
    pub const fn unit(self) -> &'static str {
        match self {
            Figure::Iops => "1/s",
            Figure::Bandwidth
            | Figure::First
            | Figure::Second
            | Figure::Third
            | Figure::Average => "B/s",
            Figure::Cliff | Figure::SecondCliff => "B",
            Figure::Mean | Figure::P50 | Figure::P99 | Figure::P999 => "ns",
        }
    }

    fn read(self, text: &str) -> Result<f64, String> {
        let number = match self {
            Figure::Iops => text.parse::<Iops>().map(|iops| iops.0 as f64),
            Figure::Cliff | Figure::SecondCliff => text.parse::<Bytes>().map(|it| it.0 as f64),
            _ if self.unit() == "B/s" => text.parse::<Bandwidth>().map(|rate| rate.0 as f64),
            _ => text.parse::<Duration>().map(|time| time.0.as_ns_f64()),
        };
        number.map_err(|error| error.to_string())
    }

    fn of(self, flow: &Flow) -> f64 {
        let sides = flow.sides();
        let reads = |kind: Kind| matches!(kind, Kind::Read | Kind::Retrieve);
        let done = || sides.iter().filter(|(_, side)| side.ios > 0);
        let side = done().find(|(kind, _)| reads(*kind)).or(done().next());
        let latency = || side?.1.lat_ns.as_ref();
        let percentile = |which: fn(&mynah_result::Latency) -> f64| latency().map_or(0.0, which);
        match self {
            Figure::Iops => sides.iter().map(|(_, side)| side.iops).sum(),
            Figure::Bandwidth => sides.iter().map(|(_, side)| side.bw_bytes_per_s).sum(),
            Figure::Mean => percentile(|latency| latency.mean),
            Figure::P50 => percentile(|latency| latency.percentiles.p50),
            Figure::P99 => percentile(|latency| latency.percentiles.p99),
            Figure::P999 => percentile(|latency| latency.percentiles.p99_9),
            // They are of the curve.
            _ => f64::NAN,
        }
    }
}

/// What a source says: a number with its unit, or two that it lies between.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Published {
    /// One value, with its unit.
    One(String),
    /// A range: its lower and upper end.
    Between(String, String),
}

impl Published {
    fn ends(&self, figure: Figure) -> Result<[f64; 2], String> {
        Ok(match self {
            Published::One(text) => [figure.read(text)?; 2],
            Published::Between(from, to) => [figure.read(from)?, figure.read(to)?],
        })
    }
}

/// A published figure beside that of the shipped drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    pub figure: Figure,
    /// What the source says, from and to.
    pub published: [f64; 2],
    /// What the shipped drive does.
    pub here: f64,
    /// How far it may be off, relative to what was published.
    pub tolerance: f64,
    /// Whether the drive was fitted to it.
    pub fitted: bool,
}

impl Compared {
    /// How far it is off what was published, relative to that.
    pub fn deviation(&self) -> f64 {
        let [from, to] = self.published;
        match self.here {
            here if here < from => here / from - 1.0,
            here if here > to => here / to - 1.0,
            _ => 0.0,
        }
    }

    /// Whether the deviation is within the tolerance.
    pub fn holds(&self) -> bool {
        self.deviation().abs() <= self.tolerance
    }
}

impl Evidence {
    /// Of the shipped drive `name`; `None` if no such drive ships.
    pub fn of(name: &str) -> Option<Evidence> {
        let drive = shipped().iter().find(|drive| drive.name == name)?;
        let read = Evidence::parse(drive.evidence);
        Some(read.unwrap_or_else(|why| panic!("drives/evidence/{name}.toml: {why}")))
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// If it is none, or a number, a tolerance or a source in it is missing or cannot be read.
    fn parse(text: &str) -> Result<Evidence, String> {
        let evidence: Evidence = toml::from_str(text).map_err(|error| error.to_string())?;
        for measurement in &evidence.measurements {
            let wrong = |what: String| format!("{}: {what}", measurement.load);
            if !evidence.sources.contains_key(&measurement.source) {
                return Err(wrong(format!("[sources] has no `{}`", measurement.source)));
            }
            for (figure, published) in &measurement.figures {
                published.ends(*figure).map_err(wrong)?;
                evidence.tolerance(measurement, *figure).map_err(wrong)?;
            }
        }
        Ok(evidence)
    }

    fn tolerance(&self, measurement: &Measurement, figure: Figure) -> Result<f64, String> {
        let own = measurement.within.get(&figure).or(self.within.get(&figure));
        own.map(|share| share.0).ok_or(format!("no tolerance for {}", figure.name()))
    }

    /// Runs a measurement's load on the drive `name_or_path` with `changes`; its figures, in the
    /// order of [`Figure`].
    ///
    /// # Errors
    /// If the drive or the load is not possible, or the run fails.
    pub fn check(
        &self,
        measurement: &Measurement,
        name_or_path: &str,
        changes: &[String],
        shared: &SharedStates,
    ) -> Result<Vec<Compared>, SimulationError> {
        let (flow, curve) = measurement.run(name_or_path, changes, shared)?;
        let here = |figure: Figure| match &curve {
            Some(curve) if figure.is_of_curve() => curve.figure(figure),
            _ => figure.of(&flow),
        };
        let each = |(figure, published): (&Figure, &Published)| Compared {
            figure: *figure,
            published: published.ends(*figure).expect("checked when it was read"),
            here: here(*figure),
            fitted: measurement.fitted.has(*figure),
            tolerance: self.tolerance(measurement, *figure).expect("checked when it was read"),
        };
        Ok(measurement.figures.iter().map(each).collect())
    }
}

impl Measurement {
    /// Runs the load on the drive, and returns the flow's result, and the curve over what was written
    /// if a figure is of that.
    fn run(
        &self,
        name_or_path: &str,
        changes: &[String],
        shared: &SharedStates,
    ) -> Result<(Flow, Option<Curve>), SimulationError> {
        let changes: Vec<String> = self.set.iter().chain(changes).cloned().collect();
        let mut simulation = Simulation::on_changed(name_or_path, &changes)?
            .precondition(self.start.precondition())
            .flow("load", &format!("{} {}", self.load, self.length))?;
        simulation.options.ramp_time = self.ramp_time.unwrap_or_default().0;
        simulation.options.keep_little();
        simulation.options.shared = Some(shared.clone());
        let blocks = f64::from(simulation.config.geometry.blocks_per_plane);
        let scale = self.full_blocks.map_or(1.0, |full| f64::from(full) / blocks);
        let completions = Completions::default();
        let has_curve = self.figures.keys().any(|figure| figure.is_of_curve());
        if has_curve {
            simulation.rows = Some(completions.sink());
        }
        let mut result = simulation.run()?.result;
        let flow = result.flows.remove(0);
        let sides = flow.sides();
        let (ios, bytes) = sides.iter().fold((0, 0.0), |(ios, bytes), (_, side)| {
            (ios + side.ios, bytes + side.bw_bytes_per_s / side.iops.max(1.0) * side.ios as f64)
        });
        let curve = || completions.curve(bytes / ios.max(1) as f64, scale);
        Ok((flow, has_curve.then(curve).flatten()))
    }

    /// The value of an option of the load.
    fn option(&self, name: &str) -> Option<&str> {
        let words = self.load.split_whitespace().filter_map(|word| word.split_once('='));
        words.rev().find(|(option, _)| *option == name).map(|(_, value)| value)
    }

    /// The load's words without those of `option`.
    fn without(&self, option: &str) -> String {
        let is_it = |word: &&str| word.split_once('=').is_some_and(|(name, _)| name == option);
        let rest: Vec<&str> = self.load.split_whitespace().filter(|word| !is_it(word)).collect();
        rest.join(" ")
    }
}

/// The hash of a drive with changes, as results show it.
///
/// # Errors
/// If the drive is not possible.
pub fn hash_of(name_or_path: &str, changes: &[String]) -> Result<String, SimulationError> {
    Ok(drive::load(name_or_path, changes)?.hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        schema = "mynah.evidence/1"
        within = { iops = "5%", mean = "10%" }
        sources = { sheet = "A data sheet" }
        [[measurement]]
        load = "rw=randread bs=4k iodepth=1"
        length = "number_ios=200"
        start = "fill"
        source = "sheet"
        figures = { iops = "10k", mean = ["8us", "10us"] }
    "#;

    #[test]
    fn every_shipped_drive_has_evidence_or_says_why_not() {
        for drive in shipped() {
            let evidence = Evidence::of(drive.name).expect("it ships");
            assert!(
                !evidence.measurements.is_empty() || !evidence.note.is_empty(),
                "{}",
                drive.name
            );
            for measurement in &evidence.measurements {
                assert!(!measurement.figures.is_empty(), "{}: {}", drive.name, measurement.load);
            }
        }
    }

    #[test]
    fn what_a_file_lacks_is_named() {
        assert!(Evidence::parse(SMALL).is_ok());
        for (from, to, expected) in [
            ("sheet = \"A", "other = \"A", "[sources] has no `sheet`"),
            ("10k\"", "10 kHz\"", "expected a rate of operations"),
            ("mean = \"10%\"", "p50 = \"10%\"", "no tolerance for mean"),
            ("length = ", "lenght = ", "unknown field `lenght`"),
            ("evidence/1", "evidence/2", "unknown variant"),
            ("iops = \"10k\"", "kiops = \"10k\"", "unknown variant `kiops`"),
        ] {
            let error = Evidence::parse(&SMALL.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn deviations_count_from_the_nearer_end_of_what_was_published() {
        let at = |here| Compared {
            figure: Figure::Mean,
            published: [8e3, 10e3],
            here,
            tolerance: 0.1,
            fitted: false,
        };
        assert_eq!(
            [7e3, 9e3, 12e3].map(|here| at(here).deviation()),
            [-0.125, 0.0, 12.0 / 10.0 - 1.0]
        );
        assert_eq!(
            [7.3e3, 7.1e3, 10.9e3, 11.1e3].map(|here| at(here).holds()),
            [true, false, true, false]
        );
    }

    #[test]
    fn a_load_is_run_as_it_stands() {
        let evidence = Evidence::parse(SMALL).unwrap();
        let measurement = &evidence.measurements[0];
        let changes =
            ["geometry.blocks_per_plane=64".to_owned(), "over_provisioning=35%".to_owned()];
        let compared =
            evidence.check(measurement, "enterprise-tlc", &changes, &SharedStates::new()).unwrap();
        assert_eq!(compared[0].figure, Figure::Iops);
        // One read at a time: by Little's law.
        let product = compared[0].here * compared[1].here / 1e9;
        assert!((product - 1.0).abs() < 0.01, "{product}");
        assert_eq!(measurement.option("iodepth"), Some("1"));
        assert_eq!(measurement.without("iodepth"), "rw=randread bs=4k");
    }
}
