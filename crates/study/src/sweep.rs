//! What a sweep found: a table for people, one for machines, and pictures.
//!
//! A row is a point; where its runs were repeated, a row shows the means over them. Pictures
//! have the first axis across, and a line for each flow, kind of command and value of the
//! other axes.

pub mod runs;
mod shown;
mod table;

use mynah_report::html::COLOURS;
use mynah_report::html::lines::{Chart, Line};
use mynah_report::page;
use mynah_result::confidence;
use mynah_result::figures::{bar, bytes, count, duration, named, percent};
use mynah_result::precision::{EVENTS_MAX, REQUESTS_MAX};
use mynah_result::{Confidence, JointPrecision, Metric, Result};
use mynah_workload::quantity::{KB_BASE, parse_bytes, parse_share, parse_time};
use quick_xml::escape::escape;
use std::fmt::Write;

/// The results of a sweep, by point.
pub struct Sweep {
    /// The keys that were varied.
    pub axes: Vec<String>,
    rows: Vec<Row>,
    /// Every quantity that some row has, in order of first appearance.
    names: Vec<String>,
    /// What was run: the drives, the seeds and the command.
    runs: Option<Runs>,
}

struct Runs {
    drives: Vec<String>,
    seeds: (u64, u64),
    command: String,
    version: String,
}

struct Row {
    /// The value of each axis at this point.
    values: Vec<String>,
    confidence: Confidence,
}

impl Row {
    /// Whether the drive was at rest: one word where all runs agree, how many of each otherwise.
    fn steadiness(&self) -> String {
        let verdicts = &self.confidence.steadiness;
        match verdicts.len() {
            1 => verdicts.keys().next().cloned().unwrap_or_default(),
            _ => {
                let each = verdicts.iter().map(|(verdict, runs)| format!("{runs} {verdict}"));
                each.collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// The precision that was reached; where it is worse than asked for, the quantity that is known
    /// least.
    fn precision(&self) -> String {
        match &self.confidence.precision {
            None => String::new(),
            Some(JointPrecision { known: true, half_width, .. }) => {
                half_width.map(percent).unwrap_or_default()
            }
            Some(JointPrecision { half_width, limiting, .. }) => {
                let least = limiting.as_deref().map_or("nothing completed".to_owned(), named);
                let width = half_width.map_or("not at all".to_owned(), percent);
                format!("! {width}: {least}")
            }
        }
    }

    fn metric(&self, name: &str) -> Option<&Metric> {
        self.confidence.metrics.iter().find(|metric| metric.name == name)
    }
}

/// A column of a sweep's table.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    Text(Vec<String>),
    Count(Vec<u64>),
    /// Numbers; `None` where the row has none.
    Number(Vec<Option<f64>>),
}

impl Column {
    /// A column of varied values, of the narrowest type that holds all of them.
    fn of_values<'a>(values: impl Iterator<Item = &'a String> + Clone) -> Column {
        if let Ok(counts) = values.clone().map(|value| value.parse()).collect() {
            return Column::Count(counts);
        }
        let number = |value: &'a String| {
            let plain = value.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
            value.parse::<f64>().ok().filter(|number| plain && number.is_finite()).map(Some)
        };
        match values.clone().map(number).collect() {
            Some(numbers) => Column::Number(numbers),
            None => Column::Text(values.cloned().collect()),
        }
    }
}

/// How long the bar of the largest value is.
const BAR: usize = 12;

/// Name of the column with the precision of a point.
const KNOWN: &str = "known to";

/// How a quantity's numbers are written.
fn written(name: &str, value: f64) -> String {
    match name {
        _ if name.contains("lat_ns") => duration(value),
        _ if name.ends_with("bytes_per_s") => format!("{}/s", bytes(value)),
        _ if name.ends_with("iops") || name == "blocks_collected" => count(value),
        _ if name.ends_with("ratio") => percent(value),
        _ => format!("{value:.3}"),
    }
}

/// Whether the text table leaves a quantity out.
fn is_detail(name: &str) -> bool {
    ["bw_bytes_per_s", "lat_ns p50", "lat_ns p99.9"].iter().any(|end| name.ends_with(end))
}

/// Groups of runs of one point that follow one another, in their order.
pub fn groups(results: &[Result], repeats: usize) -> Vec<Confidence> {
    results
        .chunks(repeats.max(1))
        .map(|runs| confidence::of(&runs.iter().collect::<Vec<_>>()))
        .collect()
}

impl Sweep {
    /// The sweep over `axes`, with the means of each point's runs.
    pub fn new(axes: Vec<String>, points: Vec<Confidence>) -> Sweep {
        let mut names: Vec<String> = Vec::new();
        let mut rows = Vec::new();
        for confidence in points {
            for metric in &confidence.metrics {
                if !names.contains(&metric.name) {
                    names.push(metric.name.clone());
                }
            }
            let value = |axis: &String| confidence.point.get(axis).cloned().unwrap_or_default();
            rows.push(Row { values: axes.iter().map(value).collect(), confidence });
        }
        Sweep { axes, rows, names, runs: None }
    }

    /// Adds what was run: the drives, the seeds and the command.
    #[must_use]
    pub fn with_runs(self, results: &[Result]) -> Sweep {
        let Some(first) = results.first() else { return self };
        let mut drives: Vec<String> = Vec::new();
        for result in results {
            if !drives.contains(&result.drive) {
                drives.push(result.drive.clone());
            }
        }
        let seeds = || results.iter().map(|result| result.seed);
        let runs = Runs {
            drives,
            seeds: (seeds().min().unwrap_or(0), seeds().max().unwrap_or(0)),
            command: first.run.command.clone(),
            version: first.run.version.clone(),
        };
        Sweep { runs: Some(runs), ..self }
    }

    /// Means and confidence intervals of each point.
    pub fn confidence(&self) -> Vec<Confidence> {
        self.rows.iter().map(|row| row.confidence.clone()).collect()
    }

    /// Whether no point has a result.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether any run says whether the drive was at rest.
    fn is_judged(&self) -> bool {
        self.rows.iter().any(|row| !row.confidence.steadiness.is_empty())
    }

    /// Whether any run was to last until something is known.
    fn is_searched(&self) -> bool {
        self.rows.iter().any(|row| row.confidence.precision.is_some())
    }

    /// A remark on points that are less precise than asked for.
    fn missed(&self) -> Option<String> {
        let all: Vec<_> =
            self.rows.iter().filter_map(|row| row.confidence.precision.as_ref()).collect();
        let missed = all.iter().filter(|precision| !precision.known).count();
        let asked = all.first()?.asked;
        (missed > 0).then(|| {
            format!(
                "{missed} of {} points not known to {}: their runs ended before, at {} I/Os or {} \
                 events at the latest; a runtime makes them longer, --precision asks for less",
                self.rows.len(),
                percent(asked),
                count(REQUESTS_MAX as f64),
                count(EVENTS_MAX as f64)
            )
        })
    }

    fn is_repeated(&self) -> bool {
        self.rows.iter().any(|row| row.confidence.runs > 1)
    }

    /// The table for people, with a bar for the first quantity.
    pub fn text(&self) -> String {
        if self.axes.is_empty() {
            return self.list();
        }
        let names: Vec<&str> =
            self.names.iter().map(String::as_str).filter(|name| !is_detail(name)).collect();
        let shown = shown::shown(&names, &self.rows, |row, name| row.metric(name).is_some());
        let metric = |row: &Row, of: &[&str]| of.iter().find_map(|name| row.metric(name).cloned());
        let mut columns: Vec<table::Column> = Vec::new();
        let mut column = |header: String, cells: Vec<String>, needed: bool| {
            columns.push(table::Column { header, cells, needed });
        };
        for (at, axis) in self.axes.iter().enumerate() {
            let cells = self.rows.iter().map(|row| row.values[at].clone());
            column(axis.clone(), cells.collect(), true);
        }
        for (at, shown) in shown.iter().enumerate() {
            let name = &shown.name;
            let cells = self.rows.iter().map(|row| match metric(row, &shown.of) {
                None => "-".to_owned(),
                Some(Metric { mean, half_width: Some(half), .. }) => {
                    format!("{} ±{}", written(name, mean), written(name, half))
                }
                Some(metric) => written(name, metric.mean),
            });
            column(named(name), cells.collect(), at == 0);
        }
        // What is the same of all is said once, below.
        let steadiness: Vec<String> = self.rows.iter().map(Row::steadiness).collect();
        let same = steadiness.windows(2).all(|pair| pair[0] == pair[1]);
        let of_all = steadiness.first().filter(|_| self.is_judged() && same).cloned();
        if self.is_searched() {
            column(KNOWN.to_owned(), self.rows.iter().map(Row::precision).collect(), true);
        }
        if self.is_judged() && !same {
            column("steadiness".to_owned(), steadiness, true);
        }
        let first = shown.first().map_or(&[][..], |shown| &shown.of);
        let mean = |row: &Row| metric(row, first).map_or(0.0, |m| m.mean);
        let most = self.rows.iter().map(mean).fold(0.0, f64::max);
        let bars = self.rows.iter().map(|row| match most > 0.0 {
            true => bar(mean(row) / most, BAR),
            false => String::new(),
        });
        let (mut text, left_out) = table::text(columns, &bars.collect::<Vec<_>>());
        if let Some(verdict) = of_all {
            let _ = writeln!(text, "\nsteadiness of all: {verdict}");
        }
        if !left_out.is_empty() {
            let _ =
                writeln!(text, "\nalso in --table, --report and --json: {}", left_out.join(", "));
        }
        text + &self.remark()
    }

    /// One point: a quantity a line.
    fn list(&self) -> String {
        let width = self.names.iter().map(|name| named(name).chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for metric in self.rows.iter().flat_map(|row| &row.confidence.metrics) {
            let _ = write!(
                text,
                "{:width$}  {:>9}",
                named(&metric.name),
                written(&metric.name, metric.mean)
            );
            if let Some(half) = metric.half_width {
                let share = if metric.mean == 0.0 { 0.0 } else { half / metric.mean };
                let half = written(&metric.name, half);
                let _ = write!(text, " ± {half:>9} ({})", percent(share));
            }
            text.push('\n');
        }
        for row in self.rows.iter().filter(|row| !row.confidence.steadiness.is_empty()) {
            let _ = writeln!(text, "{:width$}  {:>9}", "steadiness", row.steadiness());
        }
        for row in self.rows.iter().filter(|row| row.confidence.precision.is_some()) {
            let _ = writeln!(text, "{KNOWN:width$}  {:>9}", row.precision());
        }
        text + &self.remark()
    }

    fn remark(&self) -> String {
        let runs = self.rows.first().map_or(0, |row| row.confidence.runs);
        let level = confidence::LEVEL * 100.0;
        let mut text = String::new();
        if self.is_repeated() {
            let _ = writeln!(
                text,
                "\nmeans of {runs} runs with different seeds; ± is half a {level:.0} % confidence \
                 interval"
            );
        }
        if self.is_searched() {
            let _ = writeln!(
                text,
                "\n{KNOWN}: the widest half {level:.0} % confidence interval of IOPS, mean latency \
                 and WAF, from parts of each run"
            );
        }
        if let Some(missed) = self.missed() {
            let _ = writeln!(text, "! {missed}");
        }
        text
    }

    /// The table as CSV: a column for each axis and quantity, and where runs were repeated
    /// one for each quantity's half confidence interval.
    pub fn csv(&self) -> String {
        let quoted = mynah_result::request_log::quoted;
        let mut columns: Vec<String> = self.axes.iter().map(|axis| quoted(axis)).collect();
        for name in &self.names {
            columns.push(quoted(name));
            if self.is_repeated() {
                columns.push(quoted(&format!("{name} ±")));
            }
        }
        columns.extend(self.is_judged().then(|| "steadiness".to_owned()));
        let searched = self.is_searched();
        let of_precision = ["precision_asked", "precision", "precision_limiting"];
        columns.extend(of_precision.into_iter().filter(|_| searched).map(str::to_owned));
        let mut text = columns.join(",") + "\n";
        for row in &self.rows {
            let mut fields: Vec<String> = row.values.iter().map(|value| quoted(value)).collect();
            for name in &self.names {
                let metric = row.metric(name);
                let number = |value: Option<f64>| value.map(|v| v.to_string()).unwrap_or_default();
                fields.push(number(metric.map(|metric| metric.mean)));
                if self.is_repeated() {
                    fields.push(number(metric.and_then(|metric| metric.half_width)));
                }
            }
            fields.extend(self.is_judged().then(|| quoted(&row.steadiness())));
            if searched {
                let found = row.confidence.precision.as_ref();
                let number = |value: Option<f64>| value.map(|v| v.to_string()).unwrap_or_default();
                fields.push(number(found.map(|found| found.asked)));
                fields.push(number(found.and_then(|found| found.half_width)));
                let limiting = found.and_then(|found| found.limiting.as_deref());
                fields.push(quoted(limiting.unwrap_or_default()));
            }
            text += &(fields.join(",") + "\n");
        }
        text
    }

    /// The table as columns, with the names that the CSV has. Values of an axis are numbers where all
    /// of them are.
    pub fn columns(&self) -> Vec<(String, Column)> {
        let mut columns = Vec::new();
        for (at, axis) in self.axes.iter().enumerate() {
            columns.push((
                axis.clone(),
                Column::of_values(self.rows.iter().map(|row| &row.values[at])),
            ));
        }
        for name in &self.names {
            let number = |of: fn(&Metric) -> Option<f64>| {
                let each = self.rows.iter().map(|row| of(row.metric(name)?));
                Column::Number(each.collect())
            };
            columns.push((name.clone(), number(|metric| Some(metric.mean))));
            if self.is_repeated() {
                columns.push((format!("{name} ±"), number(|metric| metric.half_width)));
            }
        }
        if self.is_judged() {
            let each = self.rows.iter().map(Row::steadiness);
            columns.push(("steadiness".to_owned(), Column::Text(each.collect())));
        }
        if self.is_searched() {
            let number = |of: fn(&JointPrecision) -> Option<f64>| {
                let each = self.rows.iter().map(|row| of(row.confidence.precision.as_ref()?));
                Column::Number(each.collect())
            };
            columns.push(("precision_asked".to_owned(), number(|found| Some(found.asked))));
            columns.push(("precision".to_owned(), number(|found| found.half_width)));
            let limiting = |row: &Row| {
                let found = row.confidence.precision.as_ref();
                found.and_then(|found| found.limiting.clone()).unwrap_or_default()
            };
            let each = self.rows.iter().map(limiting).collect();
            columns.push(("precision_limiting".to_owned(), Column::Text(each)));
        }
        columns
    }

    /// The pictures and the table, an HTML document.
    pub fn html(&self, title: &str) -> String {
        let mut out = String::new();
        self.document(&mut out, title).expect("a string takes everything");
        out
    }

    fn document(&self, out: &mut String, title: &str) -> std::fmt::Result {
        page::begin(out, title, "sweep", "")?;
        writeln!(
            out,
            "<header>\n<h1>{}</h1>\n<p class=\"lead\">{} points, varying {}</p>",
            escape(title),
            self.rows.len(),
            escape(self.axes.join(", "))
        )?;
        if let Some(runs) = &self.runs {
            let seeds = match runs.seeds {
                (first, last) if first == last => format!("seed {first}"),
                (first, last) => format!("seeds {first} to {last}"),
            };
            let noun = if runs.drives.len() == 1 { "drive" } else { "drives" };
            let drives = escape(runs.drives.join(", "));
            writeln!(out, "<p class=\"lead\">{noun} {drives} · {seeds}</p>")?;
            if !runs.command.is_empty() {
                writeln!(out, "<code class=\"command\">{}</code>", escape(&runs.command))?;
            }
        }
        writeln!(out, "</header>")?;
        if let Some(missed) = self.missed() {
            writeln!(out, "<p class=\"alarm\"><strong>Not known:</strong> {}</p>", escape(missed))?;
        }
        self.pictures(out)?;
        writeln!(out, "<h2>Table</h2>\n<div class=\"panel\"><table><thead><tr>")?;
        for axis in &self.axes {
            write!(out, "<th class=\"left\">{}</th>", escape(axis))?;
        }
        for name in &self.names {
            write!(out, "<th>{}</th>", escape(named(name)))?;
        }
        if self.is_judged() {
            write!(out, "<th>steadiness</th>")?;
        }
        if self.is_searched() {
            write!(out, "<th>{KNOWN}</th>")?;
        }
        writeln!(out, "</tr></thead><tbody>")?;
        for row in &self.rows {
            write!(out, "<tr>")?;
            for value in &row.values {
                write!(out, "<td class=\"left\">{}</td>", escape(value))?;
            }
            for name in &self.names {
                let cell = row.metric(name).map_or("–".to_owned(), |metric| {
                    let half = metric.half_width.map(|half| written(name, half));
                    let half = half.map(|half| format!(" ±{half}")).unwrap_or_default();
                    written(name, metric.mean) + &half
                });
                write!(out, "<td>{cell}</td>")?;
            }
            if self.is_judged() {
                write!(out, "<td>{}</td>", escape(row.steadiness()))?;
            }
            if self.is_searched() {
                write!(out, "<td>{}</td>", escape(row.precision()))?;
            }
            writeln!(out, "</tr>")?;
        }
        writeln!(out, "</tbody></table></div>")?;
        if let Some(runs) = &self.runs {
            writeln!(out, "<footer>Mynah {}.</footer>", escape(&runs.version))?;
        }
        page::end(out)
    }

    /// For every kind of quantity a chart of all lines that show it.
    fn pictures(&self, out: &mut String) -> std::fmt::Result {
        let Some(axis) = self.axes.first() else { return Ok(()) };
        let mut across: Vec<String> = Vec::new();
        for row in &self.rows {
            if !across.contains(&row.values[0]) {
                across.push(row.values[0].clone());
            }
        }
        let numbers: Option<Vec<f64>> = across.iter().map(|value| number(value)).collect();
        // Values that are no numbers are evenly spaced.
        let places = numbers
            .clone()
            .unwrap_or_else(|| (0..across.len()).map(|place| place as f64).collect());
        let ratio = |places: &[f64]| {
            let low = places.iter().copied().fold(f64::INFINITY, f64::min);
            places.iter().copied().fold(0.0, f64::max) / low
        };
        let wide = numbers.is_some() && ratio(&places) > 10.0 && places.iter().all(|p| *p > 0.0);
        let label = |place: f64| {
            let at = places.iter().position(|it| *it == place);
            at.map_or_else(|| count(place), |at| across[at].clone())
        };
        // Other axes' values, and the legend over all charts.
        let mut others: Vec<Vec<String>> = Vec::new();
        for row in &self.rows {
            let other = row.values[1..].to_vec();
            if !others.contains(&other) {
                others.push(other);
            }
        }
        let mut subjects: Vec<String> = Vec::new();
        let mut quantities: Vec<String> = Vec::new();
        for name in &self.names {
            let (subject, quantity) = split(name);
            if !subjects.contains(&subject) {
                subjects.push(subject);
            }
            if !quantities.contains(&quantity) {
                quantities.push(quantity);
            }
        }
        let colour = |subject: &str, other: usize| {
            let at = subjects.iter().position(|it| it == subject).unwrap_or(0);
            at * others.len() + other
        };
        writeln!(out, "<ul class=\"legend\">")?;
        for subject in &subjects {
            for (at, other) in others.iter().enumerate() {
                let n = colour(subject, at) % COLOURS;
                let with: Vec<String> = self.axes[1..]
                    .iter()
                    .zip(other)
                    .map(|(axis, v)| format!("{axis} {v}"))
                    .collect();
                let subject = if subject.is_empty() { "drive" } else { subject };
                let name = [&[subject.to_owned()], &with[..]].concat().join(", ");
                let name = escape(&name);
                writeln!(out, "<li><i style=\"background:var(--s{n})\"></i>{name}</li>")?;
            }
        }
        writeln!(out, "</ul>\n<div class=\"pair\">")?;
        for quantity in &quantities {
            let mut lines = Vec::new();
            for name in self.names.iter().filter(|name| split(name).1 == *quantity) {
                for (at, other) in others.iter().enumerate() {
                    let rows = self.rows.iter().filter(|row| row.values[1..] == other[..]);
                    let metrics = rows.filter_map(|row| {
                        let place = across.iter().position(|value| *value == row.values[0])?;
                        Some((places[place], row.metric(name)?))
                    });
                    let line = line_of(colour(&split(name).0, at), metrics.collect());
                    // Nothing lies between two words.
                    lines.push(if numbers.is_some() { line } else { line.apart() });
                }
            }
            let heights = || lines.iter().flat_map(|line| &line.points).map(|point| point.1);
            let low = heights().fold(f64::INFINITY, f64::min);
            let tall = low > 0.0 && heights().fold(0.0, f64::max) / low > 30.0;
            let marks = (across.len() <= 16).then(|| places.clone());
            let svg = Chart {
                title: &named(quantity),
                across: (axis, &label),
                height: &|height| written(quantity, height),
                lines,
                marks,
                measured_from: None,
                dots: true,
                logarithmic: (tall, wide),
            }
            .svg();
            let scale = if tall { ", logarithmic scale" } else { "" };
            let caption = escape(format!("{}{scale}", named(quantity)));
            writeln!(
                out,
                "<figure class=\"panel\">{svg}<figcaption>{caption}</figcaption></figure>"
            )?;
        }
        writeln!(out, "</div>")
    }
}

/// The line through what was measured at some places, with its intervals.
fn line_of(colour: usize, mut metrics: Vec<(f64, &Metric)>) -> Line {
    metrics.sort_by(|a, b| a.0.total_cmp(&b.0));
    let points = metrics.iter().map(|(place, metric)| (*place, metric.mean));
    let mut line = Line::new(colour, points.collect());
    let errors = metrics.iter();
    let errors = errors.filter_map(|(at, metric)| Some((*at, metric.mean, metric.half_width?)));
    line.errors = errors.collect();
    line
}

/// Splits the name of a quantity into the flow and the rest.
fn split(name: &str) -> (String, String) {
    const KINDS: [&str; 4] = [" read ", " write ", " trim ", " flush "];
    for kind in KINDS {
        if let Some((flow, quantity)) = name.rsplit_once(kind) {
            return (format!("{flow}{}", kind.trim_end()), quantity.to_owned());
        }
    }
    match name.strip_suffix(" slowdown") {
        Some(flow) => (flow.to_owned(), "slowdown".to_owned()),
        None => (String::new(), name.to_owned()),
    }
}

/// A value as a number, whatever its unit.
fn number(text: &str) -> Option<f64> {
    let plain = text.parse::<f64>().ok();
    let share = || text.ends_with('%').then(|| parse_share(text).ok()).flatten();
    let bytes = || parse_bytes(text, KB_BASE).ok().map(|bytes| bytes as f64);
    let time = || parse_time(text).ok().map(|time| time.as_secs_f64());
    plain.or_else(share).or_else(bytes).or_else(time).filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_result::{Estimate, Precision, testing as sample};

    fn sweep(repeats: usize) -> Sweep {
        let points = ["1", "4", "16"].into_iter().flat_map(|depth| {
            (0..repeats).map(move |n| {
                let mut result = sample::contended();
                result.flows[0].read.iops *= number(depth).unwrap() + n as f64;
                result.point.insert("flow.reader.iodepth".into(), depth.into());
                result
            })
        });
        let results: Vec<Result> = points.collect();
        Sweep::new(vec!["flow.reader.iodepth".into()], groups(&results, repeats))
    }

    #[test]
    fn a_table_has_a_row_for_each_point() {
        let text = sweep(1).text();
        let first = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
        let rows: Vec<String> = text.lines().map(first).collect();
        assert!(rows.windows(3).any(|rows| rows == ["1", "4", "16"]), "{text}");
        assert!(text.contains("iodepth") && text.contains("IOPS"), "{text}");
        let csv = sweep(1).csv();
        assert!(csv.starts_with("flow.reader.iodepth,reader read iops,"));
        assert_eq!(csv.lines().count(), 4);
    }

    #[test]
    fn columns_are_those_of_the_csv() {
        for repeats in [1, 3] {
            let sweep = sweep(repeats);
            let (columns, csv) = (sweep.columns(), sweep.csv());
            let names: Vec<_> = columns.iter().map(|(name, _)| name.clone()).collect();
            assert_eq!(csv.lines().next(), Some(names.join(",").as_str()));
            for (line, row) in csv.lines().skip(1).zip(0..) {
                let fields = columns.iter().map(|(_, column)| match column {
                    Column::Text(each) => each[row].clone(),
                    Column::Count(each) => each[row].to_string(),
                    Column::Number(each) => each[row].map(|it| it.to_string()).unwrap_or_default(),
                });
                assert_eq!(line, fields.collect::<Vec<_>>().join(","));
            }
            assert_eq!(columns[0].1, Column::Count(vec![1, 4, 16]));
        }
        let values = |each: [&str; 2]| {
            let each: Vec<String> = each.map(str::to_owned).to_vec();
            Column::of_values(each.iter())
        };
        assert_eq!(values(["7%", "8"]), Column::Text(vec!["7%".into(), "8".into()]));
        assert_eq!(values(["0.5", "8"]), Column::Number(vec![Some(0.5), Some(8.0)]));
        assert!(matches!(values(["inf", "nan"]), Column::Text(_)));
    }

    #[test]
    fn repeated_runs_show_their_interval() {
        let text = sweep(3).text();
        assert!(text.contains(" ±") && text.contains("means of 3 runs"), "{text}");
        assert!(sweep(3).csv().contains("reader read iops,reader read iops ±,"));
    }

    #[test]
    fn points_that_are_not_known_well_enough_say_so() {
        let found = |half_width: Option<f64>| Precision {
            asked: 0.02,
            allowed: 0.02,
            known: half_width.is_some_and(|half| half <= 0.02),
            bound_reached: false,
            half_width,
            limiting: Some("reader read lat_ns mean".to_owned()),
            batches: 16,
            batch_ns: 1e6,
            requests: 1 << 14,
            estimates: vec![Estimate { name: "reader read lat_ns mean".into(), half_width }],
        };
        let with = |widths: &[Option<f64>], repeats: usize| {
            let result = |half: &Option<f64>| Result {
                precision: Some(found(*half)),
                ..sample::contended()
            };
            let results: Vec<Result> = widths.iter().map(result).collect();
            Sweep::new(vec!["a".into()], groups(&results, repeats))
        };
        let sweep = with(&[Some(0.0123), Some(0.045), None], 1);
        let text = sweep.text();
        let all = [" 1.2 %", "! 4.5 %: reader read mean latency", "! not at all: reader read mean"];
        let rows: Vec<&str> = text.lines().collect();
        let in_order = |rows: &[&str]| rows.iter().zip(all).all(|(row, end)| row.contains(end));
        assert!(text.contains("known"), "{text}");
        assert!(rows.windows(3).any(in_order), "{text}");
        assert!(text.contains("\n! 2 of 3 points not known to 2.0 %"), "{text}");
        let csv = sweep.csv();
        let mut lines = csv.lines();
        let head = lines.next().unwrap();
        assert!(head.contains("blocks_collected") || !csv.contains("blocks"), "{head}");
        assert!(head.ends_with(",precision_asked,precision,precision_limiting"), "{head}");
        assert!(lines.next().unwrap().ends_with(",0.02,0.0123,reader read lat_ns mean"), "{csv}");
        assert!(csv.ends_with(",0.02,,reader read lat_ns mean\n"), "{csv}");
        let html = sweep.html("a sweep");
        assert!(html.contains("<strong>Not known:</strong> 2 of 3 points"), "{html}");
        // Four runs that are known to 4 % are, together, known to 2 %.
        let sweep = with(&[Some(0.04); 4], 4);
        assert!(sweep.text().contains(" 2.0 %") && sweep.missed().is_none(), "{}", sweep.text());
        assert!(with(&[Some(0.04), Some(0.05), Some(0.04), Some(0.04)], 4).missed().is_some());
        assert!(!super::tests::sweep(1).text().contains("known to"));
    }

    #[test]
    fn a_picture_says_what_it_is_of() {
        let html = |sweep: Sweep| sweep.html("a sweep");
        let mut results = vec![sample::contended(), sample::idle()];
        (results[0].seed, results[1].seed) = (7, 1);
        let plain = html(sweep(1));
        let named = html(sweep(1).with_runs(&results));
        assert!(named.contains(&results[0].drive) && named.contains("seeds 1 to 7"), "{named}");
        assert!(named.contains(&results[0].run.version) && !plain.contains("seeds"));
        assert!(named.contains("p99 latency") && !named.contains("lat_ns"));
    }

    #[test]
    fn pictures_are_well_formed() {
        let html = sweep(1).html("a <sweep>");
        let mut reader = quick_xml::Reader::from_str(html.trim_start_matches("<!doctype html>"));
        let mut svgs = 0;
        loop {
            match reader.read_event().unwrap() {
                quick_xml::events::Event::Start(tag) => svgs += u32::from(tag.name().0 == "svg"),
                quick_xml::events::Event::Eof => break,
                _ => {}
            }
        }
        assert!(svgs >= 5 && !html.contains("NaN") && !html.contains("a <sweep>"));
    }

    #[test]
    fn values_with_units_are_numbers() {
        assert_eq!(number("64"), Some(64.0));
        assert_eq!(number("7%"), Some(0.07));
        assert_eq!(number("4KiB"), Some(4096.0));
        assert_eq!(number("2ms"), Some(0.002));
        assert_eq!(number("greedy"), None);
    }
}
