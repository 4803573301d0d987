//! Entry points that take any bytes: what the fuzz targets call, and what the normal tests
//! replay their corpora through. Nothing here may panic, hang or allocate without bound.

use crate::recording::Recording;
use crate::saved_state;
use crate::trace::{LineParser, TraceAction, TraceFormat, TraceReader};
use mynah_model::Drive;
use mynah_model::io::NamespaceId;
use mynah_model::precondition::{Occupancy, UpdateClass};
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
        Drive::new(drive.config).ok()
    };
    if let (Ok(mut recording), Some(mut drive)) = (open(), drive())
        && recording.warm(&mut drive).is_ok()
    {
        let _ = recording.replay(&mut drive, |_, _| true);
    }
    if let (Ok(mut recording), Some(mut drive)) = (open(), drive())
        && recording.warm(&mut drive).is_ok()
    {
        let mut left = 10_000;
        let _ = recording.resimulate(&mut drive, |_, _| {
            left -= 1;
            left > 0
        });
    }
}

/// A drive of a few hundred pages, with a cached mapping table.
fn tiny_drive() -> Option<Drive> {
    let overrides = [
        "geometry.channels=1",
        "geometry.chips_per_channel=1",
        "geometry.dies_per_chip=2",
        "geometry.planes_per_die=1",
        "geometry.blocks_per_plane=32",
        "geometry.pages_per_block=8",
        "over_provisioning=50%",
        "mapping.cmt.size=8KiB",
    ];
    let drive = crate::drive::load("mqsim", &overrides.map(String::from)).ok()?;
    Drive::new(drive.config).ok()
}

/// Reads a saved state: the bytes as a file, and as the part of a file that is the model's.
pub fn saved_state(data: &[u8]) {
    if let Some(mut drive) = tiny_drive() {
        let path = Path::new("fuzz.state");
        let _ = saved_state::read(&mut drive, path, data, data.len() as u64);
    }
    restores(data);
}

/// Whether the tiny drive takes `data`, to the last byte, as its state.
fn restores(data: &[u8]) -> bool {
    let Some(mut drive) = tiny_drive() else { return false };
    let mut left = data;
    let restored = drive.restore_state(&mut |bytes| {
        let Some((taken, rest)) = left.split_at_checked(bytes.len()) else { return false };
        bytes.copy_from_slice(taken);
        left = rest;
        true
    });
    restored.is_ok() && left.is_empty()
}

/// The model's part of a state that [`saved_state`]'s drive takes. `None` if it takes none.
pub fn saved_state_sample() -> Option<Vec<u8>> {
    let mut drive = tiny_drive()?;
    let namespace = NamespaceId(1);
    let units =
        drive.namespace_sectors(namespace)? / u64::from(drive.config().mapping.unit_bytes / 512);
    let class = UpdateClass { first: 0, units, weight: 1.0, write_share: 1.0, saturated: true };
    let occupancy = [Occupancy { namespace, classes: vec![class] }];
    drive.precondition_with(&occupancy, &[]).ok()?;
    let mut bytes = Vec::new();
    drive.save_state(&mut |piece| bytes.extend_from_slice(piece)).ok()?;
    restores(&bytes).then_some(bytes)
}
