//! Rows of both drives, on record or not, and what is held of them.

use crate::drives::Cut;
use crate::loads::Load;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;

/// How far a value may lie from the written drive's: what is aimed at, and what is accepted.
fn off_max(quantity: &str) -> [f64; 2] {
    match quantity {
        "p99" => [0.10, 0.20],
        _ => [0.05, 0.10],
    }
}

/// Named figures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Values(pub(crate) Vec<(String, f64)>);

impl Values {
    /// Of the same figures twice.
    pub(crate) fn mean([one, other]: [Values; 2]) -> Values {
        let both = one.0.into_iter().filter_map(|(name, first)| {
            let (_, second) = other.0.iter().find(|(of, _)| *of == name)?;
            Some((name, (first + second) / 2.0))
        });
        Values(both.collect())
    }
}

/// A question, and both answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) drive: String,
    pub(crate) load: String,
    pub(crate) probe: String,
    /// The written drive's, twice, with other requests.
    pub(crate) written: [Values; 2],
    pub(crate) computed: Values,
    /// What the computed drive's run of the load said of itself.
    pub(crate) verdict: String,
}

impl Row {
    /// The mean of each figure of the written drive, how far it is off, and how far the written
    /// drive's own two answers are apart.
    fn off(&self) -> Vec<(&str, f64, f64, f64)> {
        let [first, second] = &self.written;
        let find = |values: &Values, name: &str| {
            values.0.iter().find(|(of, _)| of == name).map(|(_, value)| *value)
        };
        let figures = first.0.iter().filter_map(|(name, one)| {
            let (other, computed) = (find(second, name)?, find(&self.computed, name)?);
            let written = (one + other) / 2.0;
            Some((name.as_str(), written, computed / written - 1.0, (one - other).abs() / written))
        });
        figures.collect()
    }

    /// Whether all lie within what is aimed at, or accepted, and what chance does.
    fn is_within(&self, which: usize) -> bool {
        self.off().iter().all(|(name, _, off, apart)| off.abs() <= off_max(name)[which] + apart)
    }
}

/// The rows so far.
pub(crate) struct Table {
    rows: Vec<Row>,
    file: Option<std::fs::File>,
}

impl Table {
    pub(crate) fn open() -> Table {
        let Ok(path) = std::env::var("MYNAH_WRITTEN") else {
            return Table { rows: vec![], file: None };
        };
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let rows = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        Table { rows, file: Some(file) }
    }

    /// Whether these are asked for, and not on record.
    pub(crate) fn wants(&self, cut: &Cut, load: &Load) -> bool {
        let chosen = |variable: &str, name: &str| {
            std::env::var(variable).map_or(true, |names| names.split(',').any(|it| it == name))
        };
        let known = |row: &Row| row.drive == cut.name && row.load == load.name;
        chosen("MYNAH_DRIVES", &cut.name)
            && chosen("MYNAH_LOADS", load.name)
            && !self.rows.iter().any(known)
    }

    pub(crate) fn add(&mut self, rows: Vec<Row>) {
        for row in &rows {
            if let Some(file) = &mut self.file {
                writeln!(file, "{}", serde_json::to_string(row).unwrap()).unwrap();
            }
        }
        let bad = rows.iter().filter(|row| !row.is_within(1)).count();
        let Some(Row { drive, load, verdict, .. }) = rows.first() else { return };
        println!("{drive}, {load} ({verdict}): {bad} of {} off", rows.len());
        for row in rows.iter().filter(|row| row.probe != "layout") {
            let mut line = format!("  {:16}", row.probe);
            for (name, value, off, apart) in row.off() {
                let sign = if off.abs() > off_max(name)[1] + apart { "!" } else { "" };
                line += &format!(" | {name} {value:.5} {:+.1} %{sign}", off * 100.0);
            }
            println!("{line}");
        }
        for row in rows.iter().filter(|row| row.probe == "layout") {
            for (name, value) in &row.written[0].0 {
                let other = row.computed.0.iter().find(|(of, _)| of == name).map_or(0.0, |it| it.1);
                println!("  {name:16} {value:.3} {other:.3}");
            }
        }
        self.rows.extend(rows);
    }

    /// Prints the table by drive and load, and fails where drives differ and nothing says so.
    pub(crate) fn judge(&self) {
        let rows = self.rows.iter().filter(|row| row.probe != "layout");
        let mut cases: BTreeMap<(&str, &str), Vec<&Row>> = BTreeMap::new();
        for row in rows {
            cases.entry((&row.drive, &row.load)).or_default().push(row);
        }
        println!("| drive | load | rows | within 5 % | within 10 % | verdict | furthest off |");
        println!("|---|---|---|---|---|---|---|");
        let (mut all, mut off, mut silent) = (0, 0, vec![]);
        for ((drive, load), rows) in &cases {
            let within = |which| rows.iter().filter(|row| row.is_within(which)).count();
            let verdict = &rows[0].verdict;
            let mut worst: Vec<(f64, String)> = rows
                .iter()
                .flat_map(|row| {
                    row.off().into_iter().map(|(name, _, off, apart)| {
                        let text = format!("{} {name} {:+.0} %", row.probe, off * 100.0);
                        (off.abs() / (off_max(name)[1] + apart), text)
                    })
                })
                .collect();
            worst.sort_by(|a, b| b.0.total_cmp(&a.0));
            let worst: Vec<&str> = worst.iter().take(3).map(|it| it.1.as_str()).collect();
            let count = rows.len();
            println!(
                "| {drive} | {load} | {count} | {} | {} | {verdict} | {} |",
                within(0),
                within(1),
                worst.join(", ")
            );
            all += count;
            off += count - within(1);
            // The verdict is of this; the tail of a load that comes in waves is in none.
            let goes_on = rows.iter().filter(|row| row.probe == "goes on");
            let wrong = |row: &&&Row| {
                let beyond = |&(name, _, off, apart): &(&str, f64, f64, f64)| {
                    name != "p99" && off.abs() > off_max(name)[1] + apart
                };
                row.off().iter().any(beyond)
            };
            if verdict == "steady" && goes_on.filter(wrong).count() > 0 {
                silent.push(format!("{drive} {load}"));
            }
        }
        println!("{all} rows, {off} off by more than is accepted; silent of it: {silent:?}");
        assert!(silent.is_empty(), "off, and nothing says so: {silent:?}");
        assert!(off * 10 <= all, "{off} of {all} rows off");
    }
}
