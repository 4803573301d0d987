//! `--hgrm`: the distributions of latencies as HdrHistogram's plotter reads them.

use crate::failure::Failure;
use mynah_result::Result as RunResult;
use mynah_result::output::PendingFile;
use std::path::{Path, PathBuf};

/// Refuses a place where nothing can be written, before anything runs.
pub(crate) fn check(path: Option<&Path>) -> Result<(), Failure> {
    // Without being finished it leaves nothing behind.
    path.map(PendingFile::create).transpose()?;
    Ok(())
}

/// Writes the distribution of each kind of command of each flow: into `path` if there is one, else into
/// files of their own beside it, by flow and kind.
pub(crate) fn write(path: &Path, result: &RunResult) -> Result<(), Failure> {
    let sides = result.flows.iter().flat_map(|flow| {
        let kinds = flow.sides().into_iter();
        kinds.filter_map(|(kind, side)| Some((&flow.name, kind.name(), side.lat_hdr.as_deref()?)))
    });
    let all: Vec<_> = sides.collect();
    for (flow, kind, hdr) in &all {
        let place = match all.len() {
            1 => path.to_owned(),
            _ => beside(path, &format!("{flow}-{kind}")),
        };
        if let Some(text) = mynah_result::histogram::hgrm(hdr) {
            PendingFile::create(&place)?.finish(&text)?;
        }
    }
    Ok(())
}

/// `lat.hgrm` as `lat-NAME.hgrm`, the name without what paths have a meaning for.
fn beside(path: &Path, name: &str) -> PathBuf {
    let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map(|it| format!(".{}", it.to_string_lossy()));
    path.with_file_name(format!("{stem}-{name}{}", extension.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_folder() {
        let place = beside(Path::new("out/lat.hgrm"), "../a b-read");
        assert_eq!(place, Path::new("out/lat-.._a_b-read.hgrm"));
        assert_eq!(beside(Path::new("lat"), "log-write"), Path::new("lat-log-write"));
    }
}
