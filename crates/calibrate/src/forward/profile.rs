//! Profiles, whoever wrote them: what is taken for a stage is the sum of some of theirs, of every I/O that
//! moved data and succeeded. I/Os that are there because they were slow (`--keep-above`) are not of the
//! sample, and would make means too long.

use super::ftrace::{StageMap, What};
use super::samples::Samples;
use super::table::{BYTES_MAX, NS_MAX};
use crate::Input;
use mynah_drive_file::choices;
use mynah_drive_file::input::FileError;
use mynah_profile::{Profile, ReadError, Side};
use std::collections::BTreeSet;

/// I/Os that were left out, by reason.
#[derive(Default)]
struct LeftOut {
    empty: u64,
    failed: u64,
    kept: u64,
    odd: u64,
}

pub(super) fn read(
    input: &Input,
    maps: &[StageMap],
    samples: &mut Samples,
) -> Result<(), FileError> {
    let whole = |message: String| FileError::whole(&input.name, message);
    let damaged = |error: ReadError| whole(error.to_string());
    let bytes = input.profile.as_deref().unwrap_or_default();
    let profile = Profile::new(bytes).map_err(damaged)?;
    if profile.header().side == Side::Simulation {
        let help = "profile a target: `mynah serve --speed max --profile FILE` has its own part, as \
                    intake+processing";
        let message = "it is of a simulated drive, whose stages hold both directions and what commands waited";
        return Err(whole(message.to_owned()).with_help(help));
    }
    let (stages, kinds) = (profile.header().stages.clone(), profile.header().kinds.clone());
    let sums = sums(&stages, maps).map_err(|(message, help)| whole(message).with_help(help))?;
    let mut left_out = LeftOut::default();
    let mut seen = BTreeSet::new();
    let mut records = profile.records();
    while let Some(record) = records.next_record().map_err(damaged)? {
        let reason = match record.head {
            head if head.kept => &mut left_out.kept,
            head if head.status != 0 => &mut left_out.failed,
            head if head.bytes == 0 => &mut left_out.empty,
            head if u64::from(head.bytes) > BYTES_MAX => &mut left_out.odd,
            head if head.total.as_ns_f64() > NS_MAX || record.residual() != 0 => &mut left_out.odd,
            head => {
                seen.insert(head.kind);
                for (map, sum) in maps.iter().zip(&sums) {
                    let ns = sum.iter().map(|at| record.stages[*at].as_ns_f64()).sum();
                    samples.add(&input.name, map.of, head.bytes.into(), ns);
                }
                continue;
            }
        };
        *reason += 1;
    }
    let reasons = [
        (left_out.empty, "moved no data"),
        (left_out.failed, "failed"),
        (left_out.kept, "are there because they were slow"),
        (left_out.odd, "have stages that do not add up, or figures beyond reason"),
        (records.torn(), "are damaged"),
    ];
    let told = reasons.into_iter().filter(|(count, _)| *count > 0);
    let told: Vec<String> = told.map(|(count, what)| format!("{count} I/Os {what}")).collect();
    if seen.is_empty() {
        let message = match told.is_empty() {
            true => "it has no I/Os".to_owned(),
            false => format!("it has no I/Os to take times from: {}", told.join(", ")),
        };
        let help = "record one while commands of several sizes go through the target";
        return Err(whole(message).with_help(help));
    }
    samples
        .notes
        .extend(told.iter().map(|told| format!("{}: {told}, and are left out", input.name)));
    if seen.len() > 1 {
        let seen = seen.iter().map(|kind| kinds[usize::from(*kind)].as_str());
        let seen = seen.collect::<Vec<_>>().join(", ");
        samples.notes.push(format!(
            "{}: {seen} count together; a profile of one of them has its own costs",
            input.name
        ));
    }
    Ok(())
}

/// Which of these stages each map adds up.
fn sums(stages: &[String], maps: &[StageMap]) -> Result<Vec<Vec<usize>>, (String, String)> {
    let it_has = || format!("its stages are {}", stages.join(", "));
    if maps.is_empty() {
        let help = format!("say which are: `--stage transport.in=NAME+NAME`; {}", it_has());
        return Err(("which of this profile's stages are those of a target?".to_owned(), help));
    }
    let sum = |map: &StageMap| {
        let What::Stages(names) = &map.what else {
            let message = format!("which of this profile's stages are {}?", map.name());
            let help = format!("write `--stage {}=NAME+NAME`; {}", map.name(), it_has());
            return Err((message, help));
        };
        let place = |name: &String| {
            let at = stages.iter().position(|stage| stage == name);
            at.ok_or_else(|| {
                let stages: Vec<&str> = stages.iter().map(String::as_str).collect();
                let message = format!("this profile has no stage `{name}`");
                (message, choices(name, &stages, "stages"))
            })
        };
        names.iter().map(place).collect()
    };
    maps.iter().map(sum).collect()
}
