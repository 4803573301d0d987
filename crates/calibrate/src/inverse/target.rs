//! What a real drive was measured to do under a load: a row of a table, or a job of fio's.
//!
//! A table is a CSV with a row a point. It names the load in fio's words (`rw`, `bs`, `iodepth`,
//! `numjobs`, `rwmixread`) and says what was measured: `iops`, `lat_mean_us`, and percentiles of the
//! latency (`p50_us`, `p99_us`, `p99.9_us`, …). fio's results are read by [`super::fio_result`].

use super::fio_result;
use crate::{CalibrateError, Input, has_head};
use mynah_drive_file::choices;
use mynah_drive_file::foreign;
use mynah_drive_file::input::{FileError, Text};
use mynah_result as result;
use mynah_result::kind::Kind;
use mynah_workload::{FlowOptions, FlowSpec, Limits, Mode, Source};

/// How many targets a file has at most.
pub(super) const MOST: usize = 1000;

/// A load and its measured figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Where it stands: a file, and a row or a job of it.
    pub place: String,
    /// The load as a flow.
    pub flow: FlowSpec,
    /// The load in fio's words.
    pub load: String,
    pub figures: Vec<Figure>,
}

/// A measured figure of a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Commands that the figure is about.
    pub of: Of,
    /// Quantity that was measured of them.
    pub quantity: Quantity,
    /// The number: a second's commands, or nanoseconds.
    pub measured: f64,
}

/// Which commands of a load are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Reads and writes together.
    All,
    Reads,
    Writes,
}

/// Quantities that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Commands per second.
    Iops,
    /// Mean latency, in nanoseconds.
    Mean,
    /// A percentile of the latency by its index in [`PERCENTILES`], in nanoseconds.
    Percentile(usize),
}

/// Percentiles that results have.
pub const PERCENTILES: [&str; 6] = ["50", "90", "95", "99", "99.9", "99.99"];

impl Quantity {
    /// Column name in tables.
    pub fn name(self) -> String {
        match self {
            Quantity::Iops => "IOPS".to_owned(),
            Quantity::Mean => "mean".to_owned(),
            Quantity::Percentile(index) => format!("p{}", PERCENTILES[index]),
        }
    }
}

impl Figure {
    /// Column name in tables.
    pub fn name(&self) -> String {
        let of = match self.of {
            Of::All => "",
            Of::Reads => "read ",
            Of::Writes => "write ",
        };
        format!("{of}{}", self.quantity.name())
    }

    /// The same number of a simulated load; `None` if it has none.
    pub fn of_flow(&self, flow: &result::Flow) -> Option<f64> {
        let wanted = |kind: Kind| match self.of {
            Of::All => true,
            Of::Reads => kind == Kind::Read,
            Of::Writes => kind == Kind::Write,
        };
        let sides = flow.sides();
        let sides = sides.iter().filter(|(kind, side)| wanted(*kind) && side.ios > 0);
        let sides: Vec<_> = sides.map(|(_, side)| *side).collect();
        let number = match self.quantity {
            Quantity::Iops => sides.iter().map(|side| side.iops).sum(),
            Quantity::Mean => {
                let ios: u64 = sides.iter().map(|side| side.ios).sum();
                let times = sides.iter().filter_map(|side| {
                    side.lat_ns.as_ref().map(|latency| latency.mean * side.ios as f64)
                });
                times.sum::<f64>() / ios as f64
            }
            Quantity::Percentile(index) => match &sides[..] {
                [side] => side.lat_ns.as_ref()?.percentiles.named()[index].1,
                _ => return None,
            },
        };
        (number.is_finite() && number > 0.0).then_some(number)
    }
}

impl Target {
    /// The targets in a file: fio's JSON, or a table. What other programs wrote before or behind it is
    /// read past, with a warning.
    ///
    /// # Errors
    /// If it is neither, or lacks something; with the place, and what would be valid.
    pub fn read(input: &Input, warnings: &mut Vec<String>) -> Result<Vec<Target>, CalibrateError> {
        if input.profile.is_some() {
            let help = "give fio's JSON or a table; a profile gives stages' times: FILE and --stage, \
                        without --target";
            let message = "a profile is no target: it has no loads";
            return Err(FileError::whole(&input.name, message).with_help(help).into());
        }
        let is_column = |name: &str| Column::of(name).is_some();
        if has_head(input, &is_column) {
            return Ok(table(input, warnings)?);
        }
        let found = foreign::json(&input.name, &input.text)?;
        Ok(match found.text.trim_start().starts_with(['{', '[']) {
            true => fio_result::read(input, found, warnings)?,
            false => table(input, warnings)?,
        })
    }

    /// What is said of figures that contradict one another: a load that keeps its depth outstanding has,
    /// by Little's law, as many commands in `IOPS * mean`. The host takes some time between a completion
    /// and the next command, in which less is outstanding: a microsecond or two, a fifth of the fastest
    /// reads. More than the depth there cannot be, but figures are rounded, and of slightly different
    /// times.
    pub(super) fn contradiction(&self) -> Option<String> {
        let mut outstanding = 0.0;
        for of in [Of::All, Of::Reads, Of::Writes] {
            let figure = |quantity: Quantity| {
                let mut all = self.figures.iter();
                all.find(|it| it.of == of && it.quantity == quantity).map(|it| it.measured)
            };
            match (figure(Quantity::Iops), figure(Quantity::Mean)) {
                (Some(iops), Some(mean)) => outstanding += iops * mean / 1e9,
                (None, None) => {}
                _ => return None,
            }
        }
        let depth = u64::from(self.flow.jobs.max(1)).saturating_mul(self.depth()) as f64;
        let agrees = (OUTSTANDING[0]..=OUTSTANDING[1]).contains(&(outstanding / depth));
        (outstanding > 0.0 && self.is_closed() && !agrees).then(|| {
            format!(
                "{} ({}): its IOPS times its mean latency are {outstanding:.2} commands outstanding \
                 (Little's law), and the load has {depth}: no drive has both figures; one of them or the \
                 load is not what was measured",
                self.place, self.load
            )
        })
    }

    /// The load with an end: so many commands in all jobs together, but enough that the beginning,
    /// when queues are not full yet, does not count.
    pub(super) fn limited(&self, requests: u64) -> FlowSpec {
        let mut flow = self.flow.clone();
        let jobs = u64::from(flow.jobs.max(1));
        let least = jobs.saturating_mul(self.depth()).saturating_mul(DEPTHS);
        let each = requests.max(least).div_ceil(jobs);
        flow.limits = Limits { requests: Some(each), ..Limits::default() };
        flow.after_previous = false;
        flow
    }

    fn depth(&self) -> u64 {
        match &self.flow.source {
            Source::Synthetic(synthetic) => match synthetic.mode {
                Mode::Closed { depth } => depth.into(),
                Mode::Open { depth, .. } => depth.unwrap_or(1).into(),
            },
            _ => 1,
        }
    }

    /// Whether its throughput follows from its latency, by Little's law.
    pub(super) fn is_closed(&self) -> bool {
        let synthetic = match &self.flow.source {
            Source::Synthetic(synthetic) => synthetic,
            _ => return false,
        };
        matches!(synthetic.mode, Mode::Closed { .. }) && self.flow.schedule.think.is_none()
    }

    /// How much each figure counts. A load that keeps its depth outstanding has one figure in
    /// throughput and mean latency; percentiles, of which models have less, count a quarter.
    pub(super) fn weights(&self) -> Vec<f64> {
        let weight = |figure: &Figure| match figure.quantity {
            Quantity::Percentile(_) => 0.25,
            quantity => {
                let other = match quantity {
                    Quantity::Iops => Quantity::Mean,
                    _ => Quantity::Iops,
                };
                let both = self.figures.iter().any(|it| it.of == figure.of && it.quantity == other);
                if both && self.is_closed() { 0.5 } else { 1.0 }
            }
        };
        self.figures.iter().map(weight).collect()
    }
}

/// A run has at least so many times the commands that are outstanding: throughput is then short by
/// less than 0.3 % for its beginning and its end, when queues are not full.
const DEPTHS: u64 = 400;

/// Commands outstanding by Little's law, of those that the load says: from and to.
const OUTSTANDING: [f64; 2] = [0.8, 1.05];

/// The columns of a table that say what the load is, in fio's words.
const LOAD: [&str; 5] = ["rw", "bs", "iodepth", "numjobs", "rwmixread"];

/// Meaning of a column of a table.
#[derive(Clone, Copy, PartialEq)]
enum Column {
    Load(&'static str),
    Figure(Quantity),
}

impl Column {
    fn of(name: &str) -> Option<Column> {
        if let Some(load) = LOAD.into_iter().find(|load| *load == name) {
            return Some(Column::Load(load));
        }
        match name {
            "iops" => return Some(Column::Figure(Quantity::Iops)),
            "lat_mean_us" => return Some(Column::Figure(Quantity::Mean)),
            _ => {}
        }
        let percentile = name.strip_prefix('p')?.strip_suffix("_us")?;
        let dotted = |index: &usize| {
            let name = PERCENTILES[*index];
            name == percentile || name.replace('.', "") == percentile
        };
        (0..PERCENTILES.len()).find(dotted).map(|index| Column::Figure(Quantity::Percentile(index)))
    }
}

/// The names of all columns that there can be.
fn columns() -> Vec<String> {
    let percentiles = PERCENTILES.iter().map(|name| format!("p{name}_us"));
    let named = LOAD.iter().chain(&["iops", "lat_mean_us"]).map(|name| (*name).to_owned());
    named.chain(percentiles).collect()
}

/// A table with a row a point.
fn table(input: &Input, warnings: &mut Vec<String>) -> Result<Vec<Target>, FileError> {
    let text = Text { name: &input.name, text: &input.text };
    let is_column = |name: &str| Column::of(name).is_some();
    let mut rows = crate::table_rows(input, &is_column, warnings);
    let Some(header) = rows.next() else {
        let help = format!("the first line names columns of {}", columns().join(", "));
        return Err(FileError::whole(&input.name, "it is empty").with_help(help));
    };
    let mut found: Vec<Column> = Vec::new();
    for (span, name) in &header.cells {
        let Some(column) = Column::of(name) else {
            let all = columns();
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            let error = text.error(span.clone(), format!("there is no column `{name}`"));
            return Err(error.with_help(choices(name, &all, "columns")));
        };
        if found.contains(&column) {
            let error = text.error(span.clone(), format!("the column `{name}` is here twice"));
            return Err(error.with_help("leave one of them out"));
        }
        found.push(column);
    }
    let needed = |column: Column, name: &str| match found.contains(&column) {
        true => Ok(()),
        false => {
            let error = text.error(header.span.clone(), format!("the column `{name}` is missing"));
            Err(error
                .with_help(format!("a table has {}", "rw,bs,iodepth,numjobs,iops,lat_mean_us")))
        }
    };
    needed(Column::Load("rw"), "rw")?;
    needed(Column::Load("bs"), "bs")?;
    if !found.contains(&Column::Figure(Quantity::Iops)) {
        needed(Column::Figure(Quantity::Mean), "lat_mean_us")?;
    }
    let mut targets = Vec::new();
    for row in rows {
        if row.cells.len() != found.len() {
            let (have, want) = (row.cells.len(), found.len());
            let message = format!("{have} values where the first line names {want}");
            return Err(text.error(row.span, message).with_help("one value a column"));
        }
        targets.push(target(&text, &found, &row)?);
        if targets.len() > MOST {
            return Err(text.error(row.span, format!("more than {MOST} targets")));
        }
    }
    if targets.is_empty() {
        let help = "each line after the first is a load and what was measured of it";
        return Err(FileError::whole(&input.name, "no row follows the names").with_help(help));
    }
    Ok(targets)
}

fn target(text: &Text<'_>, columns: &[Column], row: &crate::Row<'_>) -> Result<Target, FileError> {
    let mut options = FlowOptions::default();
    let mut figures = Vec::new();
    for (column, (span, value)) in columns.iter().zip(&row.cells) {
        match column {
            Column::Load(_) if value.is_empty() => {}
            Column::Load(name) => {
                options.set(name, *value);
            }
            // Not every load was measured in everything.
            Column::Figure(_) if value.is_empty() => {}
            Column::Figure(quantity) => {
                let number = value.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
                let Some(number) = number else {
                    let error = text.error(span.clone(), format!("`{value}` is no figure"));
                    return Err(error.with_help("a positive number, or nothing if there is none"));
                };
                let measured = match quantity {
                    Quantity::Iops => number,
                    _ => number * 1000.0,
                };
                figures.push(Figure { of: Of::All, quantity: *quantity, measured });
            }
        }
    }
    let of = |quantity| figures.iter().any(|figure: &Figure| figure.quantity == quantity);
    if !of(Quantity::Iops) && !of(Quantity::Mean) {
        let error = text.error(row.span.clone(), "this row has neither iops nor lat_mean_us");
        return Err(error.with_help("say one of them"));
    }
    let flow = options.flow("target").map_err(|error| {
        let at = columns.iter().position(|column| *column == Column::Load(error.option));
        let span = at.map_or(row.span.clone(), |at| row.cells[at].0.clone());
        text.error(span, format!("{}: {}", error.option, error.problem))
    })?;
    if let Source::Synthetic(synthetic) = &flow.source {
        let mix = synthetic.mix;
        let mixed =
            [mix.read, mix.write(), mix.trim].iter().filter(|part| **part > 0.0).count() > 1;
        let tail = |figure: &Figure| matches!(figure.quantity, Quantity::Percentile(_));
        if mixed && figures.iter().any(tail) {
            let message = "percentiles of a load that reads and writes are of neither";
            let help = "leave them out here, or give fio's JSON, which has both";
            return Err(text.error(row.span.clone(), message).with_help(help));
        }
    }
    let words = LOAD.iter().filter_map(|name| Some(format!("{name}={}", options.get(name)?)));
    let load = words.collect::<Vec<_>>().join(" ");
    Ok(Target { place: format!("{}:{}", text.name, row.line), flow, load, figures })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Target>, String> {
        let input = Input::of_text("t.csv", text);
        Target::read(&input, &mut Vec::new()).map_err(|error| {
            use miette::Diagnostic;
            let CalibrateError::File(file) = &error else { return error.to_string() };
            format!("{error} | {}", file.help().map(|help| help.to_string()).unwrap_or_default())
        })
    }

    const HEAD: &str = "rw,bs,iodepth,numjobs,iops,lat_mean_us,p99_us\n";

    #[test]
    fn rows_are_targets() {
        let text = format!(
            "# 980\n{HEAD}randread,4k,1,1,16583,59.98,69.12\nrandread,4k,8,1,125351,63.52,\n"
        );
        let targets = read(&text).unwrap();
        assert_eq!(targets.len(), 2);
        assert_eq!(targets[0].place, "t.csv:3");
        assert_eq!(targets[0].load, "rw=randread bs=4k iodepth=1 numjobs=1");
        assert_eq!(targets[0].figures[1].measured, 59_980.0);
        assert_eq!((targets[0].figures.len(), targets[1].figures.len()), (3, 2));
        assert_eq!(targets[0].weights(), [0.5, 0.5, 0.25]);
        // Enough commands for the depth, and at least as many as asked for.
        assert_eq!(targets[1].limited(1000).limits.requests, Some(3200));
        assert_eq!(targets[0].limited(1000).limits.requests, Some(1000));
    }

    /// What programs write before what they measured is read past, and quoted.
    #[test]
    fn what_stands_before_a_table_is_read_past() {
        let text = format!(
            "\u{feff}measured by x, on y\nversion 3\n\n{HEAD}randread,4k,1,1,16583,59.98,\n"
        );
        let input = Input::of_text("t.csv", text);
        let mut warnings = vec![];
        let targets = Target::read(&input, &mut warnings).unwrap();
        assert_eq!((targets.len(), targets[0].place.as_str()), (1, "t.csv:5"));
        let said = ["t.csv:1: read past `measured by x, on y`", "t.csv:2: read past `version 3`"];
        assert_eq!(warnings, said);
    }

    /// A load that keeps its depth has it in IOPS times mean.
    #[test]
    fn figures_that_contradict_littles_law_are_named() {
        let of = |row: &str| {
            let targets = read(&format!("{HEAD}{row}\n")).unwrap();
            targets[0].contradiction()
        };
        assert_eq!(of("randread,4k,1,1,16583,59.98,"), None);
        assert_eq!(of("randread,4k,8,4,16583,,"), None);
        // The host's own time between two commands.
        assert_eq!(of("randread,4k,1,1,90000,9.9,"), None);
        let said = of("randread,4k,8,1,16583,59.98,").unwrap();
        assert!(said.starts_with("t.csv:2 (rw=randread bs=4k iodepth=8 numjobs=1): "), "{said}");
        assert!(said.contains("are 0.99 commands outstanding") && said.contains("has 8"), "{said}");
        assert!(of("randread,4k,1,2,33000,66.7,").unwrap().contains("are 2.20 "), "{said}");
    }

    #[test]
    fn a_profile_is_no_target() {
        let error = Target::read(&Input::of_profile("p", vec![]), &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("a profile is no target"), "{error}");
    }

    #[test]
    fn what_is_no_table_is_refused_with_its_place() {
        let said = |text: &str, what: &str| {
            let error = read(text).unwrap_err();
            assert!(error.contains(what), "{error}");
        };
        said("", "it is empty");
        said(HEAD, "no row follows");
        said(
            "rw,bs,iodept,iops\n",
            "t.csv:1: there is no column `iodept` | did you mean `iodepth`?",
        );
        said("rw,bs,bs,iops\n", "the column `bs` is here twice");
        said("rw,iops\nrandread,5\n", "the column `bs` is missing");
        said("rw,bs\nrandread,4k\n", "the column `lat_mean_us` is missing");
        said(&format!("{HEAD}randread,4k\n"), "t.csv:2: 2 values where the first line names 7");
        said(&format!("{HEAD}randread,4k,1,1,x,2,3\n"), "`x` is no figure");
        said(&format!("{HEAD}randread,4k,1,1,-1,2,3\n"), "`-1` is no figure");
        said(&format!("{HEAD}randread,4k,1,1,inf,2,3\n"), "`inf` is no figure");
        said(&format!("{HEAD}randread,4k,1,1,,,3\n"), "neither iops nor lat_mean_us");
        said(&format!("{HEAD}reed,4k,1,1,1,2,3\n"), "t.csv:2: rw: ");
        said(&format!("{HEAD}randread,4k,0,1,1,2,3\n"), "t.csv:2: iodepth: ");
        said(&format!("{HEAD}randrw,4k,1,1,1,2,3\n"), "are of neither");
    }
}
