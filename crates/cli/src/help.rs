//! `mynah help`: the help of a verb, and how pages of `docs/` begin.

mod page;

use crate::args::{self, Cli};
use crate::failure::Failure;
use crate::print;
use clap::CommandFactory;
use std::fmt::Write;

/// A page, or a section of one, that is shown by its topic.
struct Topic {
    name: &'static str,
    /// In `docs/`.
    file: &'static str,
    /// The section that is shown; all of the page if empty.
    section: &'static str,
    text: &'static str,
}

impl Topic {
    /// Whether `name` is its name, or that of one such thing.
    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.name.strip_suffix('s') == Some(name)
    }
}

const EXPERIMENTS: &str = include_str!("../../../docs/experiments.md");

const TOPICS: [Topic; 4] = [
    Topic {
        name: "drives",
        file: "drives.md",
        section: "",
        text: include_str!("../../../docs/drives.md"),
    },
    Topic { name: "loads", file: "experiments.md", section: "Workloads", text: EXPERIMENTS },
    Topic { name: "traces", file: "experiments.md", section: "Traces", text: EXPERIMENTS },
    Topic {
        name: "results",
        file: "results.md",
        section: "",
        text: include_str!("../../../docs/results.md"),
    },
];

/// Lines of a topic at most, the one that says where the rest is included.
const LINES: usize = 40;
const WIDTH: usize = 80;

/// Prints what was asked for.
pub(crate) fn run(what: &[String]) -> Result<bool, Failure> {
    if let [name] = what
        && let Some(topic) = TOPICS.iter().find(|topic| topic.is_called(name))
    {
        print::out(&beginning(topic))?;
        return Ok(false);
    }
    let mut command = args::command();
    let mut verb = &command;
    for name in what {
        verb = verb.find_subcommand(name).ok_or_else(|| unknown(what, name))?;
    }
    // As the verb itself prints it.
    let words = ["mynah"].into_iter().chain(what.iter().map(String::as_str)).chain(["--help"]);
    let words: Vec<&str> = words.collect();
    match command.try_get_matches_from_mut(words) {
        Err(help) => help.print().map_err(Failure::Stdout)?,
        Ok(_) => unreachable!("--help is no command"),
    }
    Ok(false)
}

/// How a topic begins, and where the rest is.
fn beginning(topic: &Topic) -> String {
    let Topic { file, section, .. } = topic;
    let anchor = match *section {
        "" => String::new(),
        section => format!("#{}", section.to_lowercase().replace(' ', "-")),
    };
    let repository = env!("CARGO_PKG_REPOSITORY");
    let mut out = page::beginning(topic.text, section, WIDTH, LINES - 3);
    let _ = write!(out, "\nThe rest: docs/{file}{anchor} in the source, or\n");
    let _ = writeln!(out, "{repository}/blob/main/docs/{file}{anchor}");
    out
}

fn unknown(what: &[String], name: &str) -> Failure {
    let pages = TOPICS.map(|topic| topic.name).join(", ");
    let command = Cli::command();
    let verbs: Vec<&str> = command.get_subcommands().map(|verb| verb.get_name()).collect();
    let message = match what.first().filter(|first| *first != name) {
        Some(verb) => format!("`mynah {verb}` has no `{name}`"),
        None => format!("there is neither a verb nor a page `{name}`"),
    };
    let help = format!("pages: {pages}\nverbs: {}", verbs.join(", "));
    Failure::usage(message, Some(&help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_fit_on_a_screen_and_are_text() {
        for topic in &TOPICS {
            let text = beginning(topic);
            let lines: Vec<&str> = text.lines().collect();
            assert!((20..=LINES).contains(&lines.len()), "{}: {}", topic.name, lines.len());
            // An address is as long as it is.
            for line in &lines[..lines.len() - 1] {
                assert!(line.chars().count() <= WIDTH, "{line}");
                for noise in ["](", "```", "|---", "**", "<!--"] {
                    assert!(!line.contains(noise), "{}: {line}", topic.name);
                }
            }
            assert!(lines[lines.len() - 2].contains(topic.file), "{text}");
        }
    }
}
