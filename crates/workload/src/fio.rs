//! fio job files (fio(1), "Job file format"), for the options that say something about a
//! simulated drive.
//!
//! A section is a flow, `[global]` holds defaults for those after it. Options that only
//! concern the machine that fio runs on, or its output, are accepted with a warning that they
//! have no effect; every other option that is not known is an error with its line, since the
//! load would not be what the file says.
//!
//! What the file says is what it says to fio: how a file is taken apart is `file.rs`, how values
//! are read `values.rs`, which option means what `job.rs`, what rates come to `rate.rs`, who waits for
//! whom `wait.rs`, and what becomes of each of fio's options `words.rs`.

mod file;
mod job;
mod rate;
#[cfg(test)]
mod tests;
mod values;
mod wait;
mod words;

use crate::{Extent, FlowSpec, Source};
use file::{Place, Section, Setting, Surroundings, Text};
use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode, SourceSpan};
use mynah_stamp::Span;
use std::ops::Range;
use std::path::Path;

/// A fio job file, as flows.
#[derive(Clone, Debug, PartialEq)]
pub struct FioJob {
    /// Flows of its jobs, at least one.
    pub flows: Vec<FlowSpec>,
    /// fio's `ramp_time`; `None` if no job sets it.
    pub ramp_time: Option<Span>,
    /// `verify`: what is read is to be compared with what was written.
    pub verify: bool,
    /// Options that were read and have no effect.
    pub warnings: Vec<String>,
}

/// Why a job file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct FioError(Box<Details>);

#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[error("{file}{}: {message}", line.map(|line| format!(":{line}")).unwrap_or_default())]
struct Details {
    file: String,
    line: Option<usize>,
    message: String,
    #[source_code]
    source_code: Option<NamedSource<String>>,
    #[label]
    at: Option<SourceSpan>,
    #[help]
    help: Option<String>,
}

impl Diagnostic for FioError {
    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.0.source_code()
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.0.labels()
    }

    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        self.0.help()
    }
}

impl FioError {
    fn at(file: &Text, at: Range<usize>, message: String) -> FioError {
        let start = at.start.min(file.text.len());
        let before = &file.text.as_bytes()[..start];
        FioError(Box::new(Details {
            file: file.name.clone(),
            line: Some(before.iter().filter(|&&byte| byte == b'\n').count() + 1),
            message,
            source_code: Some(NamedSource::new(&file.name, file.text.clone())),
            at: Some(at.into()),
            help: None,
        }))
    }
}

/// Surroundings of a job file on disk: files beside it, and the process's environment.
struct Machine;

impl Surroundings for Machine {
    fn included(&self, from: &str, name: &str) -> Result<(String, String), String> {
        // As fio: from where it runs, else beside the file that includes it.
        let beside = Path::new(from).parent().unwrap_or(Path::new("")).join(name);
        let here = Path::new(name);
        let path = if here.exists() { here } else { &beside };
        let text = mynah_drive_file::input::read_text(path);
        let text = text.map_err(|error| format!("include {}: {error}", path.display()))?;
        Ok((path.display().to_string(), text))
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// Surroundings of a text alone: no files, and no environment.
struct Nowhere;

impl Surroundings for Nowhere {
    fn included(&self, _: &str, name: &str) -> Result<(String, String), String> {
        Err(format!("include {name}: this text is no file, so no other is beside it"))
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }
}

/// Splits the jobs of a flow with an `offset_increment` into flows, each with its own offset.
fn apart(flow: FlowSpec, increment: Option<(Extent, Place)>) -> Result<Vec<FlowSpec>, FioError> {
    let Some((by, place)) = increment.filter(|_| flow.jobs > 1) else { return Ok(vec![flow]) };
    let job = |number: u32| {
        let mut flow = flow.clone();
        flow.jobs = 1;
        flow.after_previous &= number == 0;
        let Source::Synthetic(synthetic) = &mut flow.source else {
            return Err(place.error("offset_increment: a trace says itself where it goes"));
        };
        synthetic.offset = match (synthetic.offset, by) {
            (Extent::Bytes(from), Extent::Bytes(by)) => {
                Extent::Bytes(from.saturating_add(by.saturating_mul(number.into())))
            }
            (Extent::Bytes(0), Extent::Share(by)) => Extent::Share(by * f64::from(number)),
            (Extent::Share(from), Extent::Share(by)) => {
                Extent::Share(from + by * f64::from(number))
            }
            (Extent::Share(_), Extent::Bytes(_)) | (Extent::Bytes(_), Extent::Share(_)) => {
                let message = "offset_increment: it is a percentage where offset is one, and bytes \
                               where offset is bytes";
                return Err(place.error(message));
            }
        };
        Ok(flow)
    };
    (0..flow.jobs).map(job).collect()
}

impl FioJob {
    /// Adds a warning that has not been given yet.
    fn warn(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Reads the file at `path`. An iolog or a file that it names is looked for beside it.
    ///
    /// # Errors
    /// If it cannot be read, or says what cannot be simulated.
    pub fn load(path: &Path) -> Result<FioJob, FioError> {
        let name = path.display().to_string();
        let fail = |message: String| {
            FioError(Box::new(Details {
                file: name.clone(),
                line: None,
                message,
                source_code: None,
                at: None,
                help: None,
            }))
        };
        let text =
            mynah_drive_file::input::read_text(path).map_err(|error| fail(error.to_string()))?;
        let mut job = FioJob::read(&name, &text, &Machine)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for flow in &mut job.flows {
            if let Source::Trace(trace) = &mut flow.source
                && !trace.is_pipe()
            {
                trace.path = folder.join(&trace.path);
            }
        }
        Ok(job)
    }

    /// Reads `text`, which messages call `name`. It includes no files, and there is no
    /// environment.
    ///
    /// # Errors
    /// If it says what cannot be simulated.
    pub fn parse(name: &str, text: &str) -> Result<FioJob, FioError> {
        FioJob::read(name, text, &Nowhere)
    }

    fn read(name: &str, text: &str, around: &dyn Surroundings) -> Result<FioJob, FioError> {
        let sections = file::sections(name, text, around)?;
        let mut job =
            FioJob { flows: Vec::new(), ramp_time: None, verify: false, warnings: Vec::new() };
        let mut waits = Vec::new();
        // A job that is left out still keeps those behind it waiting.
        let mut holds = false;
        for section in &sections {
            let Some(read) = job::flow(section, &mut job)? else {
                holds |= job::waits_for_previous(section);
                continue;
            };
            let mut flow = read.flow;
            flow.after_previous |= std::mem::take(&mut holds);
            let apart = apart(flow, read.increment)?;
            waits.extend(apart.iter().map(|_| read.wait_for.clone()));
            job.flows.extend(apart);
        }
        if job.flows.is_empty() {
            let file = Text { name: name.to_owned(), text: text.to_owned() };
            let message = match sections.is_empty() {
                true => "no jobs: a job is a section, [name]",
                false => "no jobs that do I/O to a drive",
            };
            return Err(FioError::at(&file, 0..0, message.to_owned()));
        }
        job.end_together(&sections)?;
        job.flows = wait::staged(std::mem::take(&mut job.flows), &waits)?;
        job.tell_apart();
        Ok(job)
    }

    /// Handles `exitall`, which ends all jobs when one of them ends.
    fn end_together(&self, sections: &[Section]) -> Result<(), FioError> {
        let mut settings = sections.iter().flat_map(|section| &section.settings);
        let on = |setting: &&Setting| {
            setting.name == "exitall" && setting.value.as_deref().map(str::trim) != Some("0")
        };
        match settings.find(on) {
            Some(setting) if self.flows.len() > 1 => {
                let message = "`exitall` is not simulated, so the load would be another: jobs end \
                               one by one";
                Err(setting.place.error(message))
            }
            _ => Ok(()),
        }
    }

    /// Makes the flows' names unique, as fio's jobs may share one.
    fn tell_apart(&mut self) {
        let mut taken: Vec<String> = Vec::new();
        let given: Vec<String> = self.flows.iter().map(|flow| flow.name.clone()).collect();
        for index in 0..self.flows.len() {
            let name = &given[index];
            let free = |name: &String| !taken.contains(name);
            let own = match free(name) {
                true => name.clone(),
                false => {
                    let numbered = (2..).map(|number| format!("{name}-{number}"));
                    let mut others = numbered.filter(|name| free(name) && !given.contains(name));
                    let own = others.next().expect("there are more numbers than flows");
                    self.warn(format!("several jobs are called `{name}`: one is `{own}` here"));
                    own
                }
            };
            self.flows[index].name.clone_from(&own);
            taken.push(own);
        }
    }
}
