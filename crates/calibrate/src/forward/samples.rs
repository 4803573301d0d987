//! Times of stages by size, wherever they come from.

use super::Forward;
use super::{ftrace, nvme_latency, profile, table};
use crate::{CalibrateError, Input, has_head};
use mynah_drive_file::input::FileError;
use std::collections::BTreeMap;

/// The stages of a target that have costs by size.
pub const STAGES: [&str; 4] = ["transport", "capsule", "block_layer", "nvme_layer"];

/// Which way a command goes through a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the host to the flash.
    In,
    /// From the flash to the host.
    Out,
}

impl Direction {
    /// The name in tables and drive files.
    pub const fn name(self) -> &'static str {
        match self {
            Direction::In => "in",
            Direction::Out => "out",
        }
    }

    /// The direction of that name.
    pub(super) fn read(text: &str) -> Option<Direction> {
        [Direction::In, Direction::Out].into_iter().find(|it| it.name() == text)
    }
}

/// Identifies a stage in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StageKey {
    /// Index in [`STAGES`].
    pub(super) index: usize,
    pub(super) direction: Direction,
}

impl StageKey {
    pub(super) fn stage(self) -> &'static str {
        STAGES[self.index]
    }
}

/// Sizes in their order, and the times of each.
pub(super) type Sizes = Vec<(u64, Vec<f64>)>;

/// All samples that were read.
#[derive(Default)]
pub(super) struct Samples {
    /// The times of each size of each stage, and the first file that has any of the stage.
    all: BTreeMap<StageKey, BTreeMap<u64, Vec<f64>>>,
    files: BTreeMap<StageKey, String>,
    /// Remarks about samples that were left out.
    pub(super) notes: Vec<String>,
    /// Warnings about lines that were read past.
    pub(super) warnings: Vec<String>,
}

impl Samples {
    /// Adds what one command took, in nanoseconds.
    pub(super) fn add(&mut self, file: &str, of: StageKey, bytes: u64, ns: f64) {
        self.files.entry(of).or_insert_with(|| file.to_owned());
        self.all.entry(of).or_default().entry(bytes).or_default().push(ns);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Every stage with its sizes in order, and the times of each.
    pub(super) fn by_size(&self) -> Vec<(StageKey, Sizes)> {
        let sizes = |sizes: &BTreeMap<u64, Vec<f64>>| {
            sizes.iter().map(|(bytes, times)| (*bytes, times.clone())).collect()
        };
        self.all.iter().map(|(of, all)| (*of, sizes(all))).collect()
    }

    /// An error about all samples of a stage.
    pub(super) fn whole(&self, of: StageKey, message: String) -> FileError {
        FileError::whole(self.files.get(&of).map_or("", String::as_str), message)
    }
}

/// Format of a file of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A table: stage,direction,bytes,latency_ns.
    Table,
    Profile,
    Ftrace,
    /// What `nvme read --latency` prints.
    NvmeLatency,
}

impl Source {
    /// Detects the format of a file; `None` if it is unknown.
    pub(super) fn of(input: &Input) -> Option<Source> {
        if input.profile.is_some() {
            return Some(Source::Profile);
        }
        let mut lines = input.text.lines().filter(|line| !line.trim().is_empty());
        let first = lines.clone().find(|line| !line.starts_with('#'))?;
        let named = |name: &str| first.split(',').any(|cell| cell.trim() == name);
        if has_head(input, &table::is_column) {
            return Some(Source::Table);
        }
        if named("stage") || named("latency_ns") || named("bytes") {
            return Some(Source::Table);
        }
        if lines.clone().any(|line| nvme_latency::time(line).is_some()) {
            return Some(Source::NvmeLatency);
        }
        lines.any(ftrace::is_event).then_some(Source::Ftrace)
    }
}

/// Reads all files of measurements.
pub(super) fn read_all(fit: &Forward, samples: &mut Samples) -> Result<(), CalibrateError> {
    if fit.bytes.len() > 1 && fit.bytes.len() != fit.inputs.len() {
        return Err(CalibrateError::asked(
            format!("--bytes gives {} sizes for {} files", fit.bytes.len(), fit.inputs.len()),
            "give one for all, or one for each file in their order",
        ));
    }
    let (mut mapped, mut sized) = (false, false);
    for (index, input) in fit.inputs.iter().enumerate() {
        let bytes = fit.bytes.get(index).or(fit.bytes.first().filter(|_| fit.bytes.len() == 1));
        let Some(source) = Source::of(input) else {
            return Err(FileError::whole(
                &input.name,
                "it is none of the files that can be fitted",
            )
            .with_help(
                "give a table (CSV) whose first line is stage,direction,bytes,latency_ns; a \
                     profile; ftrace's text (trace, trace_pipe); or what `nvme read --latency` prints",
            )
            .into());
        };
        match source {
            Source::Table => table::read(input, samples)?,
            Source::Profile => profile::read(input, &fit.maps, samples)?,
            Source::Ftrace => ftrace::read(input, &fit.maps, bytes, samples)?,
            Source::NvmeLatency => nvme_latency::read(input, &fit.maps, bytes, samples)?,
        }
        mapped |= source != Source::Table;
        sized |= matches!(source, Source::Ftrace | Source::NvmeLatency);
    }
    let stage = ("--stage", !fit.maps.is_empty(), mapped, "tables name stages themselves");
    let bytes = ("--bytes", !fit.bytes.is_empty(), sized, "these files say sizes themselves");
    for (option, given, used, why) in [stage, bytes] {
        if given && !used {
            let message = format!("{option} has no effect: {why}");
            return Err(CalibrateError::asked(message, "leave it out"));
        }
    }
    Ok(())
}
