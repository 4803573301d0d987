//! Folded stacks: a line for each stage of each group, `type;size;stage nanoseconds`, which
//! flamegraph.pl, inferno and speedscope read. Several profiles are frames at the root.

use super::super::analysis::Analysis;
use super::part_of_path;
use std::fmt::Write;

/// The stacks of these profiles.
pub(super) fn text(profiles: &[Analysis]) -> String {
    let mut out = String::new();
    for analysis in profiles {
        let root = (profiles.len() > 1).then(|| analysis.path.display().to_string());
        for (labels, group) in analysis.labelled_groups() {
            let frames: Vec<String> = root.iter().chain(&labels).map(|it| frame(it)).collect();
            for (number, stage) in analysis.header.stages.iter().enumerate() {
                let ns = (group.stage(number).sum_ps() + 500) / 1000;
                if ns > 0 {
                    let path = frames.join(";");
                    let (whose, stage) = (part_of_path(stage), frame(stage));
                    writeln!(out, "{path};{whose};{stage} {ns}").expect("a string takes it");
                }
            }
        }
    }
    out
}

/// A name as a frame: semicolons stand between frames, and lines end stacks.
fn frame(name: &str) -> String {
    name.chars().map(|c| if c == ';' || c.is_control() { '_' } else { c }).collect()
}
