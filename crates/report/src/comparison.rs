//! Two results side by side: what each flow got, what the drive did, where the time went,
//! and by how much that differs.

use mynah_result::figures::{bytes, count, duration};
use mynah_result::kind::Kind;
use mynah_result::{Device, Flow, Latency, Result, Side, StageTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// The version of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ComparisonSchema {
    /// The first.
    #[default]
    #[serde(rename = "mynah.comparison/1")]
    V1,
}

/// Two results, figure by figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Which version of this document.
    pub schema: ComparisonSchema,
    /// What the two are called.
    pub names: [String; 2],
    /// Why one of them must not be trusted, if so.
    pub untrusted: [Option<String>; 2],
    /// What is to be known of each and not of the other.
    #[serde(default, skip_serializing_if = "no_notes")]
    pub notes: [Vec<String>; 2],
    /// The figures.
    pub figures: Vec<Figure>,
}

fn no_notes(notes: &[Vec<String>; 2]) -> bool {
    notes.iter().all(Vec::is_empty)
}

/// One figure of both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// What it belongs to: a flow with a kind of I/O, `device`, or `stages`.
    pub group: String,
    /// What it is.
    pub name: String,
    /// Its unit: `1/s`, `B/s`, `ns`, or none.
    pub unit: Unit,
    /// The two values; null where there is none.
    pub values: [Option<f64>; 2],
    /// The second over the first.
    pub ratio: Option<f64>,
}

/// What a figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Unit {
    /// Per second.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Bytes per second.
    #[serde(rename = "B/s")]
    BytesPerSecond,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// A number or a ratio.
    #[serde(rename = "")]
    Number,
}

impl Unit {
    fn text(self, value: f64) -> String {
        match self {
            Unit::PerSecond => count(value),
            Unit::BytesPerSecond => format!("{}/s", bytes(value)),
            Unit::Nanoseconds => duration(value),
            Unit::Number if value.fract() == 0.0 => format!("{value:.0}"),
            Unit::Number => format!("{value:.3}"),
        }
    }
}

impl Comparison {
    /// Lays two results side by side. Flows are matched by name, or by their order where
    /// both have as many.
    pub fn new(names: [&str; 2], results: [&Result; 2]) -> Comparison {
        let mut figures = Vec::new();
        for (index, flow) in results[0].flows.iter().enumerate() {
            let by_name = results[1].flows.iter().find(|other| other.name == flow.name);
            let by_order = (results[0].flows.len() == results[1].flows.len())
                .then(|| &results[1].flows[index]);
            if let Some(other) = by_name.or(by_order) {
                flow_figures(&mut figures, flow, other);
            }
        }
        let mut add = |name: &str, value: fn(&Device) -> Option<f64>| {
            let values = results.map(|result| result.device.as_ref().and_then(value));
            figures.extend(figure("device", name, Unit::Number, values));
        };
        add("WAF", |device| device.waf);
        add("GC runs", |device| Some(device.gc_runs as f64));
        add("erases", |device| Some(device.erases as f64));
        add("flash reads", |device| Some(device.flash_reads as f64));
        add("flash programs", |device| Some(device.flash_programs as f64));
        add("CMT hit ratio", |device| device.cmt_hit_ratio);
        add("cache hit ratio", |device| device.cache_hit_ratio);
        let p99 = |latency: Option<Latency>| latency.map(|latency| latency.percentiles.p99);
        for (name, values) in [
            ("lateness p99", results.map(|result| p99(result.lateness_ns))),
            ("arrival uncertainty p99", results.map(|result| p99(result.arrival_uncertainty_ns))),
        ] {
            figures.extend(figure("device", name, Unit::Nanoseconds, values));
        }
        stage_figures(&mut figures, results.map(|result| &result.stages[..]));
        Comparison {
            schema: ComparisonSchema::V1,
            names: names.map(str::to_owned),
            untrusted: results.map(|result| result.untrusted.clone()),
            notes: [0, 1].map(|index| {
                let others = &results[1 - index].notes;
                let own = results[index].notes.iter().filter(|note| !others.contains(note));
                own.cloned().collect()
            }),
            figures,
        }
    }

    /// The comparison for people: a table, at most 100 columns wide.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out).expect("a string takes everything");
        out
    }

    /// The comparison as JSON, indented, with a line end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("figures are plain data");
        text.push('\n');
        text
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        for (index, letter) in ["A", "B"].iter().enumerate() {
            writeln!(out, "{letter}: {}", self.names[index])?;
            if let Some(reason) = &self.untrusted[index] {
                writeln!(out, "   NOT TRUSTWORTHY: {reason}")?;
            }
            for note in &self.notes[index] {
                writeln!(out, "   note: {note}")?;
            }
        }
        let mut group = "";
        for figure in &self.figures {
            if figure.group != group {
                group = &figure.group;
                // A long name has a line of its own.
                let title = match group.len() {
                    0..=28 => group,
                    _ => {
                        write!(out, "\n{group}")?;
                        ""
                    }
                };
                writeln!(out, "\n{title:<28} {:>14} {:>14} {:>9}", "A", "B", "B / A")?;
            }
            let [a, b] = figure
                .values
                .map(|value| value.map_or("-".to_owned(), |value| figure.unit.text(value)));
            let ratio = figure.ratio.map_or(String::new(), |ratio| format!("{ratio:.3}"));
            let line = format!("  {:<26} {a:>14} {b:>14} {ratio:>9}", figure.name);
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn figure(group: &str, name: &str, unit: Unit, values: [Option<f64>; 2]) -> Option<Figure> {
    let nothing = values.iter().all(|value| value.is_none_or(|value| value == 0.0));
    let ratio = match values {
        [Some(a), Some(b)] if a != 0.0 => Some(b / a),
        _ => None,
    };
    (!nothing).then(|| Figure { group: group.into(), name: name.into(), unit, values, ratio })
}

fn flow_figures(figures: &mut Vec<Figure>, flow: &Flow, other: &Flow) {
    let (sides, others) = (flow.sides(), other.sides());
    let none = Side::default();
    for kind in Kind::ALL {
        let [a, b] = [&sides, &others].map(|sides| {
            let side = sides.iter().find(|(of, _)| *of == kind);
            side.map_or(&none, |&(_, side)| side)
        });
        let group = match flow.name == other.name {
            true => format!("{} {}", flow.name, kind.name()),
            false => format!("{} / {} {}", flow.name, other.name, kind.name()),
        };
        let mut add = |name: &str, unit, values| figures.extend(figure(&group, name, unit, values));
        add("IOPS", Unit::PerSecond, [Some(a.iops), Some(b.iops)]);
        let bandwidths = [Some(a.bw_bytes_per_s), Some(b.bw_bytes_per_s)];
        add("bandwidth", Unit::BytesPerSecond, bandwidths);
        let mut latency = |name: &str, pick: fn(&Latency) -> f64| {
            add(name, Unit::Nanoseconds, [a, b].map(|side| side.lat_ns.as_ref().map(pick)));
        };
        latency("latency mean", |latency| latency.mean);
        latency("latency p50", |latency| latency.percentiles.p50);
        latency("latency p99", |latency| latency.percentiles.p99);
        latency("latency p99.9", |latency| latency.percentiles.p99_9);
        latency("latency max", |latency| latency.max);
        let errors = [a, b].map(|side| Some(side.errors.values().sum::<u64>() as f64));
        add("errors", Unit::Number, errors);
    }
}

fn stage_figures(figures: &mut Vec<Figure>, stages: [&[StageTime]; 2]) {
    for stage in mynah_stamp::Stage::ALL {
        let mean = |stages: &[StageTime]| {
            stages.iter().find(|time| time.stage == stage.name()).map(|time| time.mean_ns)
        };
        let values = stages.map(mean);
        figures.extend(figure("stage, mean of all I/O", stage.name(), Unit::Nanoseconds, values));
    }
}
