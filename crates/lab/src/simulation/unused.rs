//! What was asked for and did nothing, since the run had ended by then or nothing met it.

use crate::runner::Outcome;
use mynah_drive_file::fault;
use mynah_drive_file::units::Duration;
use mynah_model::config::Fault;
use mynah_result::timeline::Window;
use mynah_result::{Flow, Result as RunResult, Side};
use mynah_stamp::{Span, Time};

/// Notes about settings that had no effect in a run that ended at this time with this count of
/// failed flash operations.
pub(super) fn notes(
    window: Option<Window>,
    faults: &[Fault],
    end: Time,
    media_errors: u64,
) -> Vec<String> {
    let told = |at: Time| Duration(Span::from_ps(at.as_ps()));
    let mut notes = vec![];
    if let Some(Window { from, .. }) = window
        && from > end
    {
        let (from, end) = (told(from), told(end));
        notes.push(format!(
            "the timeline shows nothing: its window begins at {from}, and the run ended after {end}"
        ));
    }
    notes.extend(fault::unused(faults, "the run", end, media_errors));
    notes
}

/// What happened in a run, to tell which settings had an effect.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Happened {
    /// Commands that read, write, trim and flush.
    pub(super) commands: [u64; 4],
    pub(super) flash_reads: u64,
    pub(super) programs: u64,
    pub(super) erases: u64,
    /// Programs and erases that were suspended.
    pub(super) suspended: [u64; 2],
    pub(super) dram_used: bool,
    /// The drive settled under a load before: what it did there has shaped where it began.
    pub(super) settled: bool,
}

impl Happened {
    /// What happened in the run of this result.
    pub(super) fn of(result: &RunResult, outcome: &Outcome) -> Happened {
        let sides =
            |of: fn(&Flow) -> &Side| result.flows.iter().map(|flow| of(flow).ios).sum::<u64>();
        let [before, after] = [&outcome.counters_before, &outcome.counters];
        // A key-value command reads, writes or deletes pairs.
        let pairs = u64::from(result.flows.iter().any(|flow| flow.key_value.is_some()));
        let commands = [
            sides(|flow| &flow.read) + pairs,
            sides(|flow| &flow.write) + pairs,
            sides(|flow| &flow.trim) + pairs,
            sides(|flow| &flow.flush),
        ];
        Happened {
            commands,
            flash_reads: after.flash_reads - before.flash_reads,
            programs: after.flash_programs - before.flash_programs,
            erases: after.erases - before.erases,
            suspended: [
                after.program_suspensions - before.program_suspensions,
                after.erase_suspensions - before.erase_suspensions,
            ],
            dram_used: after.dram_busy > before.dram_busy,
            settled: outcome.settled.is_some(),
        }
    }
}

/// Settings that say how long something takes, or what interrupts it, and what that is. Of others
/// nobody can say that they changed nothing: they are part of where a drive begins.
fn did_nothing(key: &str, happened: &Happened) -> Option<&'static str> {
    let Happened { commands: [reads, writes, trims, flushes], suspended, .. } = *happened;
    let is = |name: &str| {
        key.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let rules: [(&[&str], bool, &str); 10] = [
        (&["firmware.read"], reads == 0, "no command read"),
        (&["firmware.write"], writes == 0 && !happened.settled, "no command wrote"),
        (&["firmware.trim"], trims == 0 && !happened.settled, "no command trimmed"),
        (&["firmware.flush"], flushes == 0, "no command flushed"),
        (&["flash.read"], happened.flash_reads == 0 && !happened.settled, "no page was read"),
        (
            &["flash.program", "scheduler.suspend_program", "scheduler.cache_program"],
            happened.programs == 0 && !happened.settled,
            "no page was programmed",
        ),
        (
            &["flash.erase", "scheduler.suspend_erase"],
            happened.erases == 0 && !happened.settled,
            "no block was erased",
        ),
        (&["scheduler.suspend_program"], suspended[0] == 0, "no program was suspended"),
        (&["scheduler.suspend_erase"], suspended[1] == 0, "no erase was suspended"),
        (&["cache.dram"], !happened.dram_used && !happened.settled, "the cache was not used"),
    ];
    let met = rules.iter().find(|(keys, nothing, _)| *nothing && keys.iter().any(|it| is(it)));
    met.map(|(_, _, why)| *why)
}

/// What there is to say of settings, `KEY=VALUE` each, that were changed for a run in which this
/// happened.
pub(super) fn settings(changes: &[String], happened: &Happened) -> Vec<String> {
    let keys = changes.iter().filter_map(|change| change.split_once('='));
    let note = |(key, _): (&str, &str)| {
        let key = key.trim();
        let why = did_nothing(key, happened)?;
        Some(format!("the setting {key} did nothing: {why}"))
    };
    keys.filter_map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_met_nothing_are_said() {
        let changes = [
            "scheduler.suspend_erase.latency=20us",
            "flash.erase=1ms",
            "firmware.write=3us",
            "firmware.read=9us",
            "gc.victim=fifo",
        ];
        let changes = changes.map(str::to_owned);
        let reads = Happened { commands: [10, 0, 0, 0], flash_reads: 10, ..Happened::default() };
        let said = settings(&changes, &reads);
        assert_eq!(
            said,
            [
                "the setting scheduler.suspend_erase.latency did nothing: no block was erased",
                "the setting flash.erase did nothing: no block was erased",
                "the setting firmware.write did nothing: no command wrote",
            ]
        );
        let writes = Happened { commands: [0, 9, 0, 0], erases: 1, programs: 9, ..reads };
        let of_suspension =
            "the setting scheduler.suspend_erase.latency did nothing: no erase was suspended";
        assert_eq!(
            settings(&changes, &writes),
            [of_suspension, "the setting firmware.read did nothing: no command read"]
        );
        let suspended = Happened { suspended: [0, 1], ..writes };
        assert_eq!(settings(&changes, &suspended).len(), 1);
        // Before the run it has erased blocks, and they are where the run begins.
        let settled = Happened { settled: true, suspended: [0, 1], ..reads };
        assert!(settings(&changes[..2], &settled).is_empty());
    }

    fn faults(specs: &[&str]) -> Vec<Fault> {
        specs.iter().map(|spec| fault::parse(spec).unwrap()).collect()
    }

    #[test]
    fn what_came_too_late_is_said() {
        let window = Some(Window::parse("2s-3s").unwrap());
        let given = faults(&["power-cut:at=5s", "dead-die:die=1,at=500ms", "read-error:rate=1e-9"]);
        let said = notes(window, &given, Time::ZERO + Span::from_secs(1), 0);
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].contains("begins at 2s") && said[0].contains("ended after 1s"));
        assert!(said[1].contains("power-cut:at=5s") && said[2].contains("read-error:rate="));
        let said = notes(window, &given, Time::ZERO + Span::from_secs(9), 1);
        assert!(said.is_empty(), "{said:?}");
    }
}
