//! The slowest commands, a line each, and how to look at them.

use mynah_result::figures::{duration, percent};
use mynah_result::{Result, SlowCommand};
use std::fmt::Write;

/// The longest name of a flow and a kind of command.
const NAME: usize = 18;

/// Writes the slowest commands, with their causes, of a simulated drive.
pub(super) fn write(out: &mut String, result: &Result) -> std::fmt::Result {
    let Some(first) = result.slowest.first().filter(|_| result.device.is_some()) else {
        return Ok(());
    };
    let names = result.slowest.iter().map(|slow| format!("{} {}", slow.flow, slow.kind));
    let names: Vec<String> = names.map(|name| shortened(&name, NAME)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(4);
    writeln!(out, "\nslowest I/Os:")?;
    writeln!(out, "{:>9}  {:<width$} {:>9}  most of it", "at", "flow", "latency")?;
    for (slow, name) in result.slowest.iter().zip(names) {
        let (at, latency) = (duration(slow.created_ns), duration(slow.lat_ns));
        writeln!(out, "{at:>9}  {name:<width$} {latency:>9}  {}", cause(slow))?;
    }
    // Only a simulation has a timeline.
    if result.lateness_ns.is_none() {
        writeln!(out, "  --timeline FILE --timeline-window {} shows the first", window(first))?;
    }
    Ok(())
}

/// Where most of its time went, and who is to blame.
pub(crate) fn cause(slow: &SlowCommand) -> String {
    let Some(longest) = &slow.longest else { return String::new() };
    let mut text = format!("{} {}", longest.stage, duration(longest.ns));
    if let Some(wait) = &longest.waited_for {
        let part = percent(wait.held_ns / wait.ns.max(f64::MIN_POSITIVE));
        let _ = write!(text, ": {} held by {} {part}", wait.resource, wait.holder);
    }
    text
}

/// The part of the run that shows it, with a twentieth of its time before and after.
pub(crate) fn window(slow: &SlowCommand) -> String {
    let margin = slow.lat_ns / 20.0 + 1_000.0;
    let from = ((slow.created_ns - margin) / 1_000.0).floor().max(0.0);
    let to = ((slow.created_ns + slow.lat_ns + margin) / 1_000.0).ceil();
    format!("{from}us-{to}us")
}

/// A name of at most so many characters, cut in its middle.
pub(super) fn shortened(name: &str, most: usize) -> String {
    let length = name.chars().count();
    if length <= most {
        return name.to_owned();
    }
    let tail = most / 2;
    let head: String = name.chars().take(most - tail - 1).collect();
    let rest: String = name.chars().skip(length - tail).collect();
    format!("{head}…{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_in_the_middle() {
        assert_eq!(shortened("randread read", 20), "randread read");
        let nqn = "nqn.2014-08.org.nvmexpress:uuid:1111 read";
        assert_eq!(shortened(nqn, 20), "nqn.2014-…:1111 read");
        assert_eq!(shortened(nqn, 20).chars().count(), 20);
    }

    #[test]
    fn a_window_holds_its_command() {
        let slow = SlowCommand {
            flow: "a".into(),
            kind: "read".into(),
            bytes: 4096,
            created_ns: 400.0,
            lat_ns: 2_000_500.0,
            longest: None,
            stages: vec![],
        };
        assert_eq!(window(&slow), "0us-2102us");
        let read = mynah_result::timeline::Window::parse(&window(&slow)).unwrap();
        assert!(read.to > read.from);
    }
}
