//! What `nvme read --latency` (and `write`, `io-passthru`) of nvme-cli prints: a line a command, such
//! as ` latency: read: 85 us`. Sizes do not stand there; `--bytes` says them, for each file its own.
//! These are latencies of whole commands as the host sees them: which stage they are taken for is what
//! `--stage STAGE.in` says.

use super::ftrace::{BytesRule, StageMap, What};
use super::samples::Samples;
use crate::Input;
use mynah_drive_file::input::FileError;

/// The time that a line of nvme-cli says, in nanoseconds.
pub(super) fn time(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once("latency:")?;
    let rest = rest.rsplit(':').next().unwrap_or(rest).trim();
    let (number, unit) = rest.split_once(' ')?;
    let factor = match unit.trim() {
        "us" => 1e3,
        "ns" => 1.0,
        "ms" => 1e6,
        _ => return None,
    };
    number.parse::<u64>().ok().map(|number| number as f64 * factor)
}

pub(super) fn read(
    input: &Input,
    maps: &[StageMap],
    bytes: Option<&BytesRule>,
    samples: &mut Samples,
) -> Result<(), FileError> {
    let whole = |message: &str| FileError::whole(&input.name, message);
    let [map] = maps else {
        return Err(whole("nvme-cli's latencies name no stage")
            .with_help("say which they are taken for: `--stage transport.in`"));
    };
    if map.what != What::All {
        return Err(whole("nvme-cli's latencies have no events to look for")
            .with_help(format!("write `--stage {}`", map.name())));
    }
    let Some(BytesRule::Constant(bytes)) = bytes else {
        return Err(whole("nvme-cli does not print how long the commands were").with_help(
            "give the size of each file's commands, in their order: `--bytes 4k,8k,16k`",
        ));
    };
    for ns in input.text.lines().filter_map(time) {
        samples.add(&input.name, map.of, *bytes, ns);
    }
    Ok(())
}
