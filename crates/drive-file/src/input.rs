//! Text files that people wrote, read whole: of bounded length, whatever the file is; and what is
//! wrong with them, with its place.

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};
use std::fmt;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::ops::Range;
use std::path::Path;

/// Why a file cannot be used.
#[derive(Debug)]
pub struct FileError(Box<Details>);

#[derive(Debug)]
struct Details {
    file: String,
    line: Option<usize>,
    message: String,
    help: Option<String>,
    source: Option<NamedSource<String>>,
    span: Range<usize>,
}

impl FileError {
    /// What is wrong with all of it.
    pub fn whole(file: &str, message: impl Into<String>) -> FileError {
        FileError(Box::new(Details {
            file: file.to_owned(),
            line: None,
            message: message.into(),
            help: None,
            source: None,
            span: 0..0,
        }))
    }

    /// The same, and what would be valid.
    pub fn with_help(mut self, help: impl Into<String>) -> FileError {
        self.0.help = Some(help.into());
        self
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { file, line, message, .. } = &*self.0;
        match line {
            Some(line) => write!(f, "{file}:{line}: {message}"),
            None => write!(f, "{file}: {message}"),
        }
    }
}

impl std::error::Error for FileError {}

impl Diagnostic for FileError {
    fn help(&self) -> Option<Box<dyn fmt::Display + '_>> {
        self.0.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.0.source.as_ref().map(|source| source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.0.source.as_ref()?;
        let label = LabeledSpan::underline(self.0.span.clone());
        Some(Box::new(std::iter::once(label)))
    }
}

/// The longest line that is shown with an error in it, in bytes.
const LINE_SHOWN: usize = 1000;

/// A file, for messages.
#[derive(Clone, Copy, Debug)]
pub struct Text<'t> {
    /// What messages call it.
    pub name: &'t str,
    /// All of it.
    pub text: &'t str,
}

impl Text<'_> {
    /// What is wrong with a part of it.
    pub fn error(&self, span: Range<usize>, message: impl Into<String>) -> FileError {
        let start = span.start.min(self.text.len());
        let line = self.text.as_bytes()[..start].iter().filter(|&&b| b == b'\n').count() + 1;
        // Nobody finds anything in a line that is longer than a screen.
        let shown = self.text.lines().nth(line - 1).is_none_or(|line| line.len() <= LINE_SHOWN);
        let source = shown.then(|| NamedSource::new(self.name, self.text.to_owned()));
        FileError(Box::new(Details {
            file: self.name.to_owned(),
            line: Some(line),
            message: message.into(),
            help: None,
            source,
            span: start..span.end.clamp(start, self.text.len()),
        }))
    }
}

/// The longest file that is read, in bytes.
const MAX: u64 = 16 << 20;

/// The text of the file at `path`.
///
/// # Errors
/// If it cannot be read, is longer than 16 MiB, or is not text.
pub fn read_text(path: &Path) -> Result<String> {
    text_of(File::open(path)?)
}

/// The same of what has been opened.
///
/// # Errors
/// See [`read_text`].
pub fn text_of(from: impl Read) -> Result<String> {
    let mut bytes = Vec::new();
    from.take(MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX {
        let message = format!("it is longer than {} MiB, the most that is read", MAX >> 20);
        return Err(Error::new(ErrorKind::InvalidData, message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let message = format!("it is no text: the byte at {at} is no UTF-8");
        Error::new(ErrorKind::InvalidData, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_of_bounded_length_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let refused = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            read_text(&path).unwrap_err().to_string()
        };
        assert_eq!(refused(b"a = 1\n\xff"), "it is no text: the byte at 6 is no UTF-8");
        assert!(refused(&vec![b'#'; MAX as usize + 1]).contains("longer than 16 MiB"));
        std::fs::write(&path, "a = 1").unwrap();
        assert_eq!(read_text(&path).unwrap(), "a = 1");
    }
}
