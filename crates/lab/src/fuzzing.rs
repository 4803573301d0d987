//! Entry points that take any bytes: what the fuzz targets call, and what the normal tests
//! replay their corpora through. Nothing here may panic, hang or allocate without bound.

use crate::recording::Recording;
use crate::trace::{LineParser, TraceAction, TraceFormat, TraceReader};
use std::path::Path;

/// Reads a trace in every format.
pub fn trace_line(data: &[u8]) {
    for (_, format) in TraceFormat::ALL {
        let mut parser = LineParser::new(format, TraceAction::Issued);
        for line in data.split(|&byte| byte == b'\n') {
            let _ = parser.read(line);
        }
        let mut reader = TraceReader::new("fuzz", data, format, TraceAction::Queued);
        while let Ok(Some(_)) = reader.next() {}
    }
}

/// Reads a fio job file.
pub fn fio_job(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = crate::fio::FioJob::parse("fuzz.fio", text);
    }
}

/// Reads an SSD configuration and a workload of MQSim; a zero byte separates them.
pub fn mqsim_files(data: &[u8]) {
    let mut parts = data.splitn(2, |&byte| byte == 0);
    let config = parts.next().unwrap_or_default();
    let workload = parts.next().unwrap_or_default();
    for as_mqsim in [false, true] {
        let _ =
            crate::mqsim::parse(("ssdconfig.xml", config), ("workload.xml", workload), as_mqsim);
    }
}

/// Reads a drive file, and checks the drive it describes.
pub fn drive_file(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(drive) = crate::drive::parse("fuzz.toml", text, &[])
    {
        let _ = drive.config.check();
        let _ = drive.show();
    }
}

/// Reads an experiment file.
pub fn experiment_file(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = crate::experiment::Experiment::parse_points("fuzz.toml", text);
    }
}

/// Opens a recording, replays it on a small drive, and gives its commands to another.
pub fn recording(data: &[u8]) {
    let path = Path::new("fuzz.rec");
    let open = || Recording::read(path, Box::new(std::io::Cursor::new(data.to_vec())));
    let overrides = ["geometry.blocks_per_plane=64", "geometry.channels=1"].map(String::from);
    let drive = || {
        let drive = crate::drive::load("enterprise-tlc", &overrides).ok()?;
        mynah_model::Drive::new(drive.config).ok()
    };
    if let (Ok(recording), Some(mut drive)) = (open(), drive()) {
        let _ = recording.replay(&mut drive, |_, _| true);
    }
    if let (Ok(recording), Some(mut drive)) = (open(), drive()) {
        let mut left = 10_000;
        let _ = recording.resimulate(&mut drive, |_, _| {
            left -= 1;
            left > 0
        });
    }
}
