//! Tables of stages' times: `stage,direction,bytes,latency_ns`, a line a sample. A size that is there
//! several times was measured so often.

use super::samples::{Direction, STAGES, Samples, StageKey};
use crate::{Input, Row, table_rows};
use mynah_drive_file::choices;
use mynah_drive_file::input::{FileError, Text};
use mynah_drive_file::units::Bytes;

const COLUMNS: [&str; 4] = ["stage", "direction", "bytes", "latency_ns"];

/// Whether a column is called so.
pub(super) fn is_column(name: &str) -> bool {
    COLUMNS.contains(&name)
}

/// The largest size of a command, and the longest time: a day.
pub(super) const BYTES_MAX: u64 = 1 << 30;
pub(super) const NS_MAX: f64 = 8.64e13;

pub(super) fn read(input: &Input, samples: &mut Samples) -> Result<(), FileError> {
    let text = Text { name: &input.name, text: &input.text };
    let mut lines = table_rows(input, &is_column, &mut samples.warnings);
    let help = format!("the first line is {}", COLUMNS.join(","));
    let Some(head) = lines.next() else {
        return Err(FileError::whole(&input.name, "it is empty").with_help(help));
    };
    for (span, name) in &head.cells {
        if !COLUMNS.contains(name) {
            let error = text.error(span.clone(), format!("there is no column `{name}`"));
            return Err(error.with_help(choices(name, &COLUMNS, "columns")));
        }
        if head.cells.iter().filter(|(_, other)| other == name).count() > 1 {
            let error = text.error(span.clone(), format!("the column `{name}` is here twice"));
            return Err(error.with_help(help));
        }
    }
    let place = |name: &str| head.cells.iter().position(|(_, cell)| *cell == name);
    let mut places = [0; 4];
    for (at, name) in places.iter_mut().zip(COLUMNS) {
        let Some(found) = place(name) else {
            let error = text.error(head.span.clone(), format!("the column `{name}` is missing"));
            return Err(error.with_help(help));
        };
        *at = found;
    }
    let mut any = false;
    for row in lines {
        if row.cells.len() != COLUMNS.len() {
            let message = format!("{} values where there are 4 columns", row.cells.len());
            return Err(text.error(row.span.clone(), message).with_help(help));
        }
        sample(&text, &row, places, samples)?;
        any = true;
    }
    match any {
        true => Ok(()),
        false => Err(FileError::whole(&input.name, "it has no samples")
            .with_help("each line after the first is one: transport,in,4096,1850")),
    }
}

fn sample(
    text: &Text<'_>,
    row: &Row<'_>,
    places: [usize; 4],
    samples: &mut Samples,
) -> Result<(), FileError> {
    let [stage, direction, bytes, time] = places.map(|place| row.cells[place].clone());
    let Some(index) = STAGES.iter().position(|name| *name == stage.1) else {
        let error = text.error(stage.0, format!("there is no stage `{}`", stage.1));
        return Err(error.with_help(choices(stage.1, &STAGES, "stages")));
    };
    let Some(direction) = Direction::read(direction.1) else {
        let error = text.error(direction.0, format!("`{}` is no direction", direction.1));
        return Err(error.with_help("in: to the flash; out: back to the host"));
    };
    let size = bytes.1.parse::<Bytes>().ok().map(|bytes| bytes.0);
    let Some(size) = size.filter(|size| (1..=BYTES_MAX).contains(size)) else {
        let error = text.error(bytes.0, format!("`{}` is no size of a command", bytes.1));
        return Err(error.with_help("a number of bytes from 1 to 1 GiB: 4096, 4KiB"));
    };
    let ns = time.1.parse::<f64>().ok().filter(|ns| ns.is_finite() && *ns > 0.0 && *ns <= NS_MAX);
    let Some(ns) = ns else {
        let error = text.error(time.0, format!("`{}` is no time that a stage takes", time.1));
        return Err(error.with_help("a number of nanoseconds above 0; leave failed samples out"));
    };
    samples.add(text.name, StageKey { index, direction }, size, ns);
    Ok(())
}
