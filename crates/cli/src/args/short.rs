//! The short help (`-h`) of the verbs that have more options than a screen has lines: the twelve that
//! most runs need, and three commands that run as they stand. `--help` has all.

use clap::Command;

/// The first page of a verb's help.
struct FirstPage {
    verb: &'static str,
    /// The arguments on it by name, with what they are in few words.
    arguments: &'static [(&'static str, &'static str)],
    examples: &'static str,
}

const FIRST_PAGES: [FirstPage; 3] = [
    FirstPage {
        verb: "sim",
        arguments: &[
            ("experiment", "Drive, flows and sweeps in a file, in place of options"),
            ("drive", "A drive by name or file [default: enterprise-tlc]"),
            ("set", "Change it, as in over_provisioning=28%"),
            ("rw", "randread, randwrite, randrw, read, write, rw, trim"),
            ("bs", "Block size [default: 4k]"),
            ("iodepth", "Requests outstanding [default: 1; 32 without --rw]"),
            ("rwmixread", "Percentage of reads in rw and randrw [default: 50]"),
            ("runtime", "How long, on the drive's clock: 500ms, 2s"),
            ("trace", "Replay a trace (see also --trace-format)"),
            ("fio", "Take the load from a fio job file"),
            ("json", "Write the result as JSON; - is standard output"),
            ("report", "Write a report with pictures"),
            ("verbose", "All stages, waits, devices, slowest I/Os"),
        ],
        examples: "\
Examples:
  mynah sim --rw randread --iodepth 32 --runtime 100ms
  mynah sim --drive samsung-980-pro --rw randrw --iodepth 8 --runtime 50ms -v
  mynah sim --set flash.read=80us --runtime 20ms --report slow.html

All options and exit codes: mynah sim --help. Pages: mynah help loads",
    },
    FirstPage {
        verb: "serve",
        arguments: &[
            ("drive", "Which one [default: enterprise-tlc]"),
            ("set", "Change it: over_provisioning=28%"),
            ("tcp", "For hosts [default: 127.0.0.1:4420]"),
            ("vfio_user", "Be a PCIe function: for QEMU, SPDK"),
            ("nbd", "Be a network block device"),
            ("store", "ram, file:PATH, pattern"),
            ("speed", "Its clock; max: no model"),
            ("record", "Record its input, for sim --replay"),
            ("status_interval", "Print a line so often, as in 1s"),
            ("metrics", "For Prometheus, under /metrics"),
            ("json", "Write the result as JSON"),
            ("verbose", "Say all at the end: stages, waits"),
        ],
        examples: "\
Examples:
  mynah serve
  mynah serve --drive samsung-980-pro --store file:drive.bytes
  mynah serve --nbd unix:drive.sock --record run.rec

It prints `ready {json}` and ends in order on Ctrl-C. A Linux host connects with
  nvme connect -t tcp -a 127.0.0.1 -s 4420 -n NQN       (see that line)

All options and exit codes: mynah serve --help. Pages: mynah help drives",
    },
    FirstPage {
        verb: "bench",
        arguments: &[
            ("target", "tcp://HOST[:PORT][/NQN] or vfio-user:DIR"),
            ("rw", "randread, randwrite, randrw, read, write, rw, trim"),
            ("bs", "Block size [default: 4k]"),
            ("iodepth", "Requests of each job [default: 1; 32 without --rw]"),
            ("numjobs", "Connections, each with a thread [default: 1]"),
            ("rwmixread", "Percentage of reads in rw and randrw [default: 50]"),
            ("rate_iops", "Requests a second of each job"),
            ("size", "The working set, as in 1g [default: all]"),
            ("runtime", "How long [default: 10s without another limit]"),
            ("verify", "Check what is read against what was written"),
            ("profile", "Show where the time went, host and target"),
            ("json", "Write the result as JSON; - is standard output"),
            ("verbose", "Show a histogram of latencies, too"),
        ],
        examples: "\
Examples:
  mynah bench tcp://127.0.0.1 --runtime 1s
  mynah bench tcp://127.0.0.1 --rw randrw --iodepth 16 --runtime 1s -v
  mynah bench tcp://127.0.0.1 --rw randwrite --size 4m --verify

All options and exit codes: mynah bench --help. Pages: mynah help loads",
    },
];

/// Verbs with a first page that has only what most runs need.
pub(super) fn shortened(command: Command) -> Command {
    FIRST_PAGES.iter().fold(command, |command, page| {
        command.mut_subcommand(page.verb, |verb| {
            let verb = verb.mut_args(|argument| {
                let short = page.arguments.iter().find(|(name, _)| argument.get_id() == *name);
                let Some((_, short)) = short else { return argument.hide_short_help(true) };
                let long = argument.get_long_help().or(argument.get_help()).cloned();
                let argument = argument.help(*short);
                match long {
                    Some(long) => argument.long_help(long),
                    None => argument,
                }
            });
            verb.after_help(page.examples)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    #[test]
    fn a_first_page_has_twelve_options_on_forty_lines() {
        for page in FIRST_PAGES {
            let mut command = args::command().term_width(80);
            command.build();
            let verb = command.find_subcommand_mut(page.verb).unwrap();
            for (name, _) in page.arguments {
                assert!(verb.get_arguments().any(|it| it.get_id() == *name), "{name}");
            }
            let text = verb.render_help().to_string();
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines.len() <= 40, "{}: {} lines\n{text}", page.verb, lines.len());
            for line in &lines {
                assert!(line.chars().count() <= 80, "{line}");
            }
            let options = lines.iter().filter(|line| line.trim_start().starts_with("--"));
            let both = lines.iter().filter(|line| line.trim_start().starts_with("-v, --verbose"));
            assert_eq!(options.count() + both.count(), 12, "{text}");
            let example = format!("  mynah {}", page.verb);
            assert_eq!(lines.iter().filter(|line| line.starts_with(&example)).count(), 3, "{text}");
        }
    }

    #[test]
    fn long_help_has_every_option() {
        let mut command = args::command();
        command.build();
        for page in FIRST_PAGES {
            let verb = command.find_subcommand_mut(page.verb).unwrap();
            let text = verb.render_long_help().to_string();
            let names = verb.get_arguments().filter_map(|it| it.get_long());
            let missing: Vec<_> = names.filter(|it| !text.contains(&format!("--{it}"))).collect();
            assert!(missing.is_empty(), "{missing:?}");
        }
    }
}
