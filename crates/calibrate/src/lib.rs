//! Drives fitted to measurements, in two ways.
//!
//! `forward`: what a stage of an Ethernet drive was measured to take, by size, becomes the stage's
//! table in a drive file. `inverse`: numbers of any drive are searched so that the simulated drive
//! does what a real one was measured to do, and it is said which of them the data determine.
//!
//! Both end in a drive file: the text of another with some keys changed (`text`), each with its
//! source, and in a page of pictures (`page`).

pub mod forward;
#[doc(hidden)]
pub mod fuzzing;
pub mod inverse;
mod text;

use mynah_drive_file::DriveError;
use mynah_drive_file::foreign;
pub use mynah_drive_file::input::FileError;
use mynah_drive_file::input::text_of;
use mynah_lab::simulation::SimulationError;
use mynah_profile::MAGIC;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

/// Why nothing could be fitted.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum CalibrateError {
    /// A file of measurements cannot be used.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
    /// The drive, or a key that is varied.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Drive(#[from] DriveError),
    /// A simulation cannot be run.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Simulation(#[from] SimulationError),
    /// Something that was asked for.
    #[error("{message}")]
    Asked {
        /// What is wrong with the request.
        message: String,
        /// What would be valid.
        #[help]
        help: Option<String>,
    },
}

impl CalibrateError {
    fn asked(message: impl Into<String>, help: impl Into<String>) -> CalibrateError {
        CalibrateError::Asked { message: message.into(), help: Some(help.into()) }
    }

    /// Whether what the user gave is at fault, and not the run or the machine.
    pub fn is_usage(&self) -> bool {
        match self {
            CalibrateError::Simulation(error) => error.is_usage(),
            _ => true,
        }
    }
}

/// A file of measurements, as it was read.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its path, as it was given.
    pub name: String,
    /// Its contents, if it is text.
    pub text: String,
    /// Its contents, if it is a profile ([`mynah_profile`]).
    pub(crate) profile: Option<Vec<u8>>,
}

/// The longest profile that is read.
const PROFILE_BYTES_MAX: u64 = 256 << 20;

impl Input {
    /// A text of that name.
    pub fn of_text(name: impl Into<String>, text: impl Into<String>) -> Input {
        Input { name: name.into(), text: text.into(), profile: None }
    }

    /// A profile of that name.
    pub fn of_profile(name: impl Into<String>, profile: Vec<u8>) -> Input {
        Input { name: name.into(), text: String::new(), profile: Some(profile) }
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// If it cannot be read, or is neither a profile of up to 256 MiB nor text of up to 16 MiB.
    pub fn read(path: &Path) -> Result<Input, CalibrateError> {
        let name = path.display().to_string();
        let refused = |error: std::io::Error| FileError::whole(&name, error.to_string());
        let mut file = File::open(path).map_err(refused)?;
        let mut bytes = Vec::new();
        file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut bytes).map_err(refused)?;
        if bytes != MAGIC {
            let text = text_of(bytes.chain(file)).map_err(refused)?;
            return Ok(Input::of_text(name, text));
        }
        file.take(PROFILE_BYTES_MAX).read_to_end(&mut bytes).map_err(refused)?;
        if bytes.len() as u64 > PROFILE_BYTES_MAX {
            let help = "record a sample: `--sample 1/100`";
            let message = "it is longer than 256 MiB, the most that is read of a profile";
            return Err(FileError::whole(&name, message).with_help(help).into());
        }
        Ok(Input::of_profile(name, bytes))
    }

    /// SHA-256 of its contents, in hexadecimal.
    pub fn sha256(&self) -> String {
        let mut text = String::new();
        let contents = self.profile.as_deref().unwrap_or(self.text.as_bytes());
        for byte in Sha256::digest(contents) {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// The file's own name, without folders.
    fn short(&self) -> String {
        let name = Path::new(&self.name).file_name();
        name.map_or_else(|| self.name.clone(), |name| name.to_string_lossy().into_owned())
    }

    /// What drive files call it in `[sources]`.
    fn source(&self) -> String {
        format!("{}, sha256 {}", self.short(), self.sha256())
    }
}

/// A file, and the hash of its contents.
#[derive(Clone, Debug, Serialize)]
pub struct Hashed {
    /// Its path, as it was given.
    pub file: String,
    /// SHA-256, in hexadecimal.
    pub sha256: String,
}

impl Hashed {
    fn of(input: &Input) -> Hashed {
        Hashed { file: input.name.clone(), sha256: input.sha256() }
    }
}

/// A line of a table (CSV), and where it is.
struct Row<'t> {
    /// Line number, from 1.
    line: usize,
    span: Range<usize>,
    /// Its values without spaces around, and where each is.
    cells: Vec<(Range<usize>, &'t str)>,
}

/// How far down the line with the names of a table's columns is looked for.
const HEAD_WITHIN: usize = 100;
/// Least number of column names in the header line.
const HEAD_NAMES: usize = 2;

/// Whether a row is the header, judged by `is_column`.
fn is_head(row: &Row<'_>, is_column: &dyn Fn(&str) -> bool) -> bool {
    row.cells.iter().filter(|(_, cell)| is_column(cell)).count() >= HEAD_NAMES
}

/// Whether a file is a table with such columns, whatever stands before it.
fn has_head(input: &Input, is_column: &dyn Fn(&str) -> bool) -> bool {
    rows(&input.text).take(HEAD_WITHIN).any(|row| is_head(&row, is_column))
}

/// The lines of a table from the names of its columns on. What stands before them is read past, with a
/// warning; if there are no such names, all lines.
fn table_rows<'t>(
    input: &'t Input,
    is_column: &dyn Fn(&str) -> bool,
    warnings: &mut Vec<String>,
) -> impl Iterator<Item = Row<'t>> + use<'t> {
    let all = || rows(&input.text);
    let head = all().take(HEAD_WITHIN).position(|row| is_head(&row, is_column)).unwrap_or(0);
    for row in all().take(head) {
        let Range { start, end } = row.span;
        warnings.extend(foreign::read_past(&input.name, &input.text, start, end));
    }
    all().skip(head)
}

/// The lines of a table, without those that are empty or begin with `#`.
fn rows(text: &str) -> impl Iterator<Item = Row<'_>> {
    // Spreadsheets write a mark before the text.
    let mark = text.len() - text.trim_start_matches('\u{feff}').len();
    let mut start = mark;
    let lines = text[mark..].split_inclusive('\n').enumerate().map(move |(index, line)| {
        let at = start;
        start += line.len();
        (index + 1, at, line.trim_end())
    });
    let kept = lines.filter(|(_, _, line)| !line.trim().is_empty() && !line.starts_with('#'));
    kept.map(|(number, at, line)| {
        let mut start = at;
        let cell = |cell: &'_ str| {
            let begin = start + (cell.len() - cell.trim_start().len());
            start += cell.len() + 1;
            begin..begin + cell.trim().len()
        };
        let spans: Vec<_> = line.split(',').map(cell).collect();
        let cells = spans.into_iter().zip(line.split(',').map(str::trim)).collect();
        Row { line: number, span: at..at + line.len(), cells }
    })
}
