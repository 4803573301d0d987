//! ftrace's text, as `trace` and `trace_pipe` give it: a stage lasts from one function or event to
//! another, on the same task; what interrupts have (task 0) is told apart by processor.
//!
//! A line is `TASK-PID [CPU] flags SECONDS: NAME…`, where `NAME: field=value …` is an event and
//! `NAME <-CALLER` a function. How long a command is stands in a field of an event on the way, or is
//! given. A stage that begins again before it has ended, and what was open when events were lost, is
//! left out and counted. Times are as fine as the trace has them, mostly microseconds: a stage that
//! begins and ends in one step counts as no time, which on average is right.

use super::samples::{Direction, STAGES, Samples, StageKey};
use super::table::{BYTES_MAX, NS_MAX};
use crate::{CalibrateError, Input};
use mynah_drive_file::choices;
use mynah_drive_file::input::FileError;
use mynah_drive_file::units::Bytes;
use std::collections::BTreeMap;

/// Which functions or events a stage lies between.
#[derive(Clone, Debug, PartialEq)]
pub struct StageMap {
    pub(super) of: StageKey,
    pub(super) what: What,
}

/// What of a file is taken for a stage.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    /// All of it.
    All,
    /// In a trace: from the first of these events to the second.
    Between(String, String),
    /// In a profile: the sum of these stages.
    Stages(Vec<String>),
}

impl StageMap {
    /// Reads `STAGE.in=FROM..TO`, `STAGE.in=NAME+NAME`, or `STAGE.in` alone.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str) -> Result<StageMap, CalibrateError> {
        let refused = |problem: String, help: String| {
            Err(CalibrateError::asked(format!("--stage {text}: {problem}"), help))
        };
        let form = "write STAGE.in=FROM..TO or STAGE.out=FROM..TO, with names of functions or \
                    events: `--stage transport.in=nvmet_rdma_recv_done..nvmet_req_init`; of a \
                    profile STAGE.in=NAME or NAME+NAME, with names of its stages";
        let (name, range) = match text.split_once('=') {
            Some((name, range)) => (name.trim(), Some(range.trim())),
            None => (text.trim(), None),
        };
        let Some((stage, direction)) = name.split_once('.') else {
            return refused("no direction".to_owned(), form.to_owned());
        };
        let Some(index) = STAGES.iter().position(|it| *it == stage) else {
            let help = choices(stage, &STAGES, "stages");
            return refused(format!("there is no stage `{stage}`"), help);
        };
        let Some(direction) = Direction::read(direction) else {
            return refused(format!("`{direction}` is no direction"), form.to_owned());
        };
        let what = match range {
            None => What::All,
            Some(range) => match What::read(range) {
                Some(what) => what,
                None => {
                    let message = format!("`{range}` is no range, and no sum of different stages");
                    return refused(message, form.to_owned());
                }
            },
        };
        Ok(StageMap { of: StageKey { index, direction }, what })
    }

    /// The stage as `--stage` names it: `transport.in`.
    pub(super) fn name(&self) -> String {
        format!("{}.{}", self.of.stage(), self.of.direction.name())
    }

    /// Refuses two of one stage.
    ///
    /// # Errors
    /// See above.
    pub fn check(all: &[StageMap]) -> Result<(), CalibrateError> {
        for (index, map) in all.iter().enumerate() {
            if all[..index].iter().any(|other| other.of == map.of) {
                let message = format!("--stage names `{}` twice", map.name());
                return Err(CalibrateError::asked(message, "give one pair of names for it"));
            }
        }
        Ok(())
    }
}

impl What {
    /// Reads `FROM..TO`, or names with `+` between.
    fn read(text: &str) -> Option<What> {
        if let Some((from, to)) = text.split_once("..") {
            let are_two = !from.is_empty() && !to.is_empty() && from != to;
            return are_two.then(|| What::Between(from.to_owned(), to.to_owned()));
        }
        let names: Vec<&str> = text.split('+').map(str::trim).collect();
        let once = |(at, name): (usize, &&str)| !name.is_empty() && !names[..at].contains(name);
        let are_names = names.iter().enumerate().all(once);
        are_names.then(|| What::Stages(names.into_iter().map(str::to_owned).collect()))
    }
}

/// Where the transfer size of a command comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum BytesRule {
    /// A fixed number of bytes.
    Constant(u64),
    /// What a field of an event says: `(field + plus) * times`.
    Field {
        name: String,
        /// Added to the field's value: 1 where a field is zero-based.
        plus: u64,
        /// Bytes of one unit of the field.
        times: u64,
    },
}

impl BytesRule {
    /// Reads sizes and fields with commas between: `4k,8k`, `len`, `len*512`, `(len+1)*512`.
    ///
    /// # Errors
    /// If one is neither.
    pub fn parse_all(text: &str) -> Result<Vec<BytesRule>, CalibrateError> {
        let one = |part: &str| {
            BytesRule::parse(part.trim()).ok_or_else(|| {
                let help = "a size (4KiB), or a field of an event: len, len*512, (len+1)*512";
                let message = format!("--bytes: `{part}` is neither a size nor a field");
                CalibrateError::asked(message, help)
            })
        };
        text.split(',').map(one).collect()
    }

    fn parse(text: &str) -> Option<BytesRule> {
        if let Ok(Bytes(bytes)) = text.parse() {
            return (1..=BYTES_MAX).contains(&bytes).then_some(BytesRule::Constant(bytes));
        }
        let (field, times) = match text.rsplit_once('*') {
            Some((field, times)) => (field.trim(), times.trim().parse().ok()?),
            None => (text, 1),
        };
        let inner = field.strip_prefix('(').and_then(|field| field.strip_suffix(')'));
        let (name, plus) = match inner {
            Some(inner) => {
                let (name, plus) = inner.split_once('+')?;
                (name.trim(), plus.trim().parse().ok()?)
            }
            None => (field, 0),
        };
        let valid = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let is_name = begins && name.chars().all(valid);
        is_name.then(|| BytesRule::Field { name: name.to_owned(), plus, times })
    }

    /// The size that an event's fields say.
    fn of(&self, fields: &str) -> Option<u64> {
        match self {
            BytesRule::Constant(bytes) => Some(*bytes),
            BytesRule::Field { name, plus, times } => {
                let size = field(fields, name)?.checked_add(*plus)?.checked_mul(*times)?;
                (1..=BYTES_MAX).contains(&size).then_some(size)
            }
        }
    }
}

/// The number of `name=NUMBER` in `text`.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut from = 0;
    while let Some(found) = text.get(from..).and_then(|rest| rest.find(name)) {
        let (start, end) = (from + found, from + found + name.len());
        let alone = !text[..start].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        if let Some(value) = text[end..].strip_prefix('=').filter(|_| alone) {
            let hexadecimal = value.strip_prefix("0x");
            let radix = if hexadecimal.is_some() { 16 } else { 10 };
            let digits = hexadecimal.unwrap_or(value);
            let length = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
            return u64::from_str_radix(&digits[..length], radix).ok();
        }
        from = end;
    }
    None
}

/// One parsed line of a trace.
struct Event<'t> {
    task: u64,
    processor: u32,
    ns: u64,
    name: &'t str,
    fields: &'t str,
}

impl<'t> Event<'t> {
    fn parse(line: &'t str) -> Option<Event<'t>> {
        // Names of tasks may have spaces, brackets and dashes: the processor is the last number in
        // brackets before the time.
        let mut from = 0;
        while let Some(found) = line.get(from..)?.find(" [") {
            let start = from + found;
            from = start + 2;
            let (number, rest) = line[from..].split_once(']')?;
            let Ok(processor) = number.parse::<u32>() else { continue };
            let Some((_, task)) = line[..start].trim_end().rsplit_once('-') else { continue };
            // Kernels that show thread groups: `task-12 ( 12) [000]`.
            let task = task.split_whitespace().next().unwrap_or(task);
            let Ok(task) = task.parse() else { continue };
            let Some((ns, rest)) = time(rest) else { continue };
            let length = rest.find(|c: char| " :(".contains(c)).unwrap_or(rest.len());
            let (name, fields) = rest.split_at(length);
            return Some(Event { task, processor, ns, name, fields });
        }
        None
    }
}

/// The time in what follows the processor, in nanoseconds, and what follows it: flags may stand
/// before.
fn time(text: &str) -> Option<(u64, &str)> {
    let mut rest = text.trim_start();
    for _ in 0..3 {
        let (word, after) = rest.split_once(' ')?;
        if let Some(seconds) = word.strip_suffix(':').and_then(nanoseconds) {
            return Some((seconds, after.trim_start()));
        }
        rest = after.trim_start();
    }
    None
}

/// Parses seconds with a fraction, as in `12.345678`, into nanoseconds.
fn nanoseconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.')?;
    let digits = fraction.len();
    if !(1..=9).contains(&digits) || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction = fraction.parse::<u64>().ok()? * 10u64.pow(9 - digits as u32);
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// Whether a line looks like one of a trace.
pub(super) fn is_event(line: &str) -> bool {
    Event::parse(line).is_some()
}

/// A stage that has begun and not ended.
struct Open {
    ns: u64,
    bytes: Option<u64>,
}

/// Numbers of samples that were left out, by reason.
#[derive(Default)]
struct Skipped {
    again: u64,
    lost: u64,
    unsized_: u64,
    odd: u64,
}

pub(super) fn read(
    input: &Input,
    maps: &[StageMap],
    bytes: Option<&BytesRule>,
    samples: &mut Samples,
) -> Result<(), FileError> {
    let whole = |message: String| FileError::whole(&input.name, message);
    if maps.is_empty() {
        return Err(whole("a trace names no stages".to_owned())
            .with_help("say where they are: `--stage transport.in=FROM..TO`"));
    }
    let Some(bytes) = bytes else {
        return Err(whole("how long are the commands of this trace?".to_owned()).with_help(
            "name the field of an event that says it (`--bytes len`, `--bytes '(len+1)*512'`), or \
             give the size of all commands of the file (`--bytes 4KiB`)",
        ));
    };
    for map in maps {
        let What::Between(from, to) = &map.what else {
            let name = map.name();
            return Err(whole(format!("where in this trace is {name}?"))
                .with_help(format!("write `--stage {name}=FROM..TO`")));
        };
        let (skipped, pairs) = stage(input, map, (from, to), bytes, samples);
        if pairs == 0 {
            let message = match skipped.unsized_ {
                0 => format!("nothing goes from `{from}` to `{to}` on one task"),
                many => format!("{many} times from `{from}` to `{to}`, and never a size"),
            };
            return Err(whole(message).with_help(match skipped.unsized_ {
                0 => {
                    "check the names in the trace: a function's stands before `<-`, an event's \
                      before its colon"
                }
                _ => {
                    "the field has to be in an event between the two, on the same task; or give \
                      the size: `--bytes 4KiB`"
                }
            }));
        }
        let name = format!("{} {}", map.of.stage(), map.of.direction.name());
        let counts = [
            (skipped.again, "began again before they had ended"),
            (skipped.lost, "were open where the trace has lost events"),
            (skipped.unsized_, "had no size"),
            (skipped.odd, "ended before they began, or lasted over a day"),
        ];
        for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
            let note = format!("{}: {count} of {name} {what}, and are left out", input.name);
            samples.notes.push(note);
        }
    }
    Ok(())
}

/// Extracts the samples of one stage; returns what was left out, and the number of samples.
fn stage(
    input: &Input,
    map: &StageMap,
    (from, to): (&str, &str),
    bytes: &BytesRule,
    samples: &mut Samples,
) -> (Skipped, u64) {
    let mut skipped = Skipped::default();
    let mut pairs = 0;
    // By task, or of task 0 by processor.
    let mut open: BTreeMap<(u64, u32), Open> = BTreeMap::new();
    for line in input.text.lines() {
        let Some(event) = Event::parse(line) else {
            if line.contains("[LOST ") && line.contains("EVENTS]") {
                skipped.lost += open.len() as u64;
                open.clear();
            }
            continue;
        };
        let who = match event.task {
            0 => (0, event.processor),
            task => (task, 0),
        };
        if let Some(begun) = open.get_mut(&who) {
            begun.bytes = begun.bytes.or_else(|| bytes.of(event.fields));
        }
        if event.name == to
            && let Some(begun) = open.remove(&who)
        {
            let Some(size) = begun.bytes else {
                skipped.unsized_ += 1;
                continue;
            };
            match event.ns.checked_sub(begun.ns).filter(|ns| *ns as f64 <= NS_MAX) {
                Some(ns) => {
                    samples.add(&input.name, map.of, size, ns as f64);
                    pairs += 1;
                }
                None => skipped.odd += 1,
            }
        } else if event.name == from {
            let begun = Open { ns: event.ns, bytes: bytes.of(event.fields) };
            skipped.again += u64::from(open.insert(who, begun).is_some());
        }
    }
    (skipped, pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_traces_are_read() {
        let line = "     kworker/0:1H-123     [001] d..1.  1234.567890: nvmet_req_init: nvmet1: len=8, x=0x10";
        let event = Event::parse(line).unwrap();
        assert_eq!((event.task, event.processor, event.ns), (123, 1, 1_234_567_890_000));
        assert_eq!(event.name, "nvmet_req_init");
        assert_eq!((field(event.fields, "len"), field(event.fields, "x")), (Some(8), Some(16)));
        assert_eq!(field("blen=3 len=5", "len"), Some(5));
        let event = Event::parse("  <idle>-0 [000] 12.000000001: f.isra.0 <-g").unwrap();
        assert_eq!((event.task, event.name, event.ns), (0, "f.isra.0", 12_000_000_001));
        let event = Event::parse(" a [7] b-9 ( 9) [003] .... 1.5: f <-g").unwrap();
        assert_eq!((event.task, event.processor), (9, 3));
        for odd in [
            "",
            "# tracer: nop",
            "a-1 [0",
            "a-1 [0] 1.x: f",
            "x [000] .... 1.5: f",
            "é-1 [é] 1.1: f",
        ] {
            assert!(Event::parse(odd).is_none(), "{odd}");
        }
    }

    #[test]
    fn sizes_and_maps_are_read() {
        let rule = |text: &str| BytesRule::parse_all(text).map_err(|error| error.to_string());
        assert_eq!(
            rule("4k,8KiB").unwrap(),
            [BytesRule::Constant(4096), BytesRule::Constant(8192)]
        );
        assert_eq!(rule("(len+1)*512").unwrap()[0].of("len=7"), Some(4096));
        assert_eq!(rule("len * 512").unwrap()[0].of("len=7,"), Some(3584));
        for bad in ["", "0", "len+1", "(len)", "len*x", "a b"] {
            assert!(rule(bad).is_err(), "{bad}");
        }
        let map = |text: &str| StageMap::parse(text).map_err(|error| error.to_string());
        assert_eq!(
            map("transport.in=a.isra.0..b").unwrap().what,
            What::Between("a.isra.0".to_owned(), "b".to_owned())
        );
        assert_eq!(
            map("transport.in=a + b").unwrap().what,
            What::Stages(vec!["a".to_owned(), "b".to_owned()])
        );
        assert!(map("transport=a..b").unwrap_err().contains("no direction"));
        assert!(map("nic.in=a..b").unwrap_err().contains("no stage `nic`"));
        assert!(map("capsule.up=a..b").unwrap_err().contains("`up` is no direction"));
        for bad in ["capsule.in=", "capsule.in=a..", "capsule.in=a..a", "capsule.in=a+a"] {
            assert!(
                map(bad).unwrap_err().contains("is no range, and no sum of different"),
                "{bad}"
            );
        }
        let twice = [map("capsule.in=a..b").unwrap(), map("capsule.in=a..c").unwrap()];
        assert!(StageMap::check(&twice).is_err());
    }
}
