//! What a task expects of its runs, and whether they show it: the shape of a figure, such as which part of
//! the path has grown, in numbers of the report.

use super::raw::RawExpect;
use super::{TaskError, joined};
use crate::report::{GroupReport, ProfileReport};
use crate::verdict::{Cause, switch_of};
use mynah_drive_file as drive;
use mynah_drive_file::input::Text;
use mynah_result::figures::{duration, percent};
use serde_spanned::Spanned;
use std::collections::BTreeMap;

/// The switches of ntprof that parts can be (section 3.1 and figure 2 of the paper).
const SWITCHES: [&str; 5] = ["S1", "S2", "S3-S5", "S6", "S7-S9"];

/// What is expected of a run, in every part.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// Index of the run.
    pub run: usize,
    group: Option<String>,
    part: Option<String>,
    grows_most: bool,
    lad_min: Option<f64>,
    lad_max: Option<f64>,
    growth_min: Option<f64>,
    share_min: Option<f64>,
    iops_max: Option<f64>,
    causes: Vec<Cause>,
    paper: Option<String>,
}

/// An expectation compared with what the runs came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    pub holds: bool,
    /// What was found, line by line.
    pub text: String,
}

/// Checks an expectation as it is written, for a task with `runs` runs.
pub(super) fn expectation(
    file: &Text<'_>,
    raw: &Spanned<RawExpect>,
    runs: usize,
    compares: bool,
) -> Result<Expectation, TaskError> {
    let given = raw.get_ref();
    let run = match &given.run {
        None => runs - 1,
        Some(number) => match usize::try_from(*number.get_ref()) {
            Ok(run) if (1..=runs).contains(&run) => run - 1,
            _ => {
                let message =
                    format!("run: there is no run {}; the task has {runs}", number.get_ref());
                return Err(file.error(number.span(), message));
            }
        },
    };
    if let Some(part) = &given.part
        && !SWITCHES.contains(&part.get_ref().as_str())
        && switch_of(part.get_ref()).is_none()
    {
        let error = file.error(part.span(), format!("part: there is no `{}`", part.get_ref()));
        let help = drive::choices(part.get_ref(), &SWITCHES, "switches");
        return Err(error.with_help(format!("{help}; or a stage")));
    }
    let causes = match &given.cause {
        None => vec![],
        Some(value) => joined(file, "cause", value)?
            .split(',')
            .map(|name| cause(name.trim()).map_err(|m| file.error(value.span(), m)))
            .collect::<Result<_, _>>()?,
    };
    let number = |name: &str, value: &Option<Spanned<f64>>, most: f64| match value {
        Some(value) if !(0.0..=most).contains(value.get_ref()) => {
            Err(file.error(value.span(), format!("{name}: a number from 0 to {most}")))
        }
        value => Ok(value.as_ref().map(|value| *value.get_ref())),
    };
    let expectation = Expectation {
        run,
        group: given.group.clone(),
        part: given.part.as_ref().map(|part| part.get_ref().clone()),
        grows_most: given.grows_most.as_ref().is_some_and(|it| *it.get_ref()),
        lad_min: number("lad_min", &given.lad_min, 1e9)?,
        lad_max: number("lad_max", &given.lad_max, 1e9)?,
        growth_min: number("growth_min", &given.growth_min, 1.0)?,
        share_min: number("share_min", &given.share_min, 1.0)?,
        iops_max: number("iops_max", &given.iops_max, 1e9)?,
        causes,
        paper: given.paper.clone(),
    };
    let refuse = |message: &str| Err(file.error(raw.span(), message));
    match expectation.asks() {
        (true, _) if expectation.part.is_none() => {
            refuse("expect: of which part is not said; add `part = \"S3-S5\"`, say")
        }
        (false, _) if expectation.part.is_some() => {
            refuse("expect: a part is named, and nothing is expected of it")
        }
        (false, false) => refuse("expect: nothing is expected; add `iops_max = 0.9`, say"),
        _ if !compares && expectation.needs_base() => {
            refuse("expect: that compares with a base; add `base = 1` to [report]")
        }
        _ => Ok(expectation),
    }
}

fn cause(name: &str) -> Result<Cause, String> {
    let all = Cause::ALL.map(|cause| (cause_name(cause), cause));
    let found = all.iter().find(|(known, _)| known == name).map(|(_, cause)| *cause);
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        format!("cause: {}", drive::choices(name, &names, "causes"))
    })
}

/// As it is called in reports.
fn cause_name(cause: Cause) -> String {
    let name = serde_json::to_value(cause).ok();
    name.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
}

/// Times of a part in the base and in the run.
#[derive(Clone, Copy, Default)]
struct Times {
    base: f64,
    now: f64,
}

impl Times {
    fn grown(self) -> f64 {
        self.now - self.base
    }
}

impl Expectation {
    /// Whether there are expectations of a part, and of the whole.
    fn asks(&self) -> (bool, bool) {
        let minima = [self.lad_min, self.lad_max, self.growth_min, self.share_min];
        let part = self.grows_most || minima.iter().any(Option::is_some);
        (part, self.iops_max.is_some() || !self.causes.is_empty())
    }

    fn needs_base(&self) -> bool {
        let numbers = [self.lad_min, self.lad_max, self.growth_min, self.iops_max];
        self.grows_most || numbers.iter().any(Option::is_some) || !self.causes.is_empty()
    }

    /// Whether a run's report, beside the base, shows it. `base` is the base's own.
    pub fn check(&self, report: &ProfileReport, base: Option<&ProfileReport>) -> Checked {
        let found = match &self.group {
            Some(name) => report.groups.iter().find(|group| group.name == *name),
            None => report.groups.iter().max_by_key(|group| group.ios),
        };
        let heading = |group: &str| format!("run {}, {group}", self.run + 1);
        let Some(group) = found.filter(|group| group.ios > 0) else {
            let group = self.group.as_deref().unwrap_or("all I/Os");
            return self.said(&heading(group), vec![(false, "no such I/O was recorded".into())]);
        };
        let of_base =
            |base: &ProfileReport| base.groups.iter().find(|it| it.name == group.name).cloned();
        let findings = self.findings(group, base.and_then(of_base).as_ref());
        self.said(&heading(&group.name), findings)
    }

    fn findings(&self, group: &GroupReport, base: Option<&GroupReport>) -> Vec<(bool, String)> {
        let mut findings = vec![];
        if self.needs_base() && base.is_none() {
            return vec![(false, "the base has no such I/O".into())];
        }
        if let Some(part) = &self.part {
            self.of_part(part, group, &mut findings);
        }
        if let (Some(most), Some(base)) = (self.iops_max, base) {
            let times = if base.iops > 0.0 { group.iops / base.iops } else { f64::INFINITY };
            let text = format!("IOPS {times:.2}x the base's, at most {most}x");
            findings.push((times <= most, text));
        }
        if !self.causes.is_empty() {
            let verdict = group.verdict.as_ref();
            let found = verdict.and_then(|verdict| verdict.cause);
            let names: Vec<String> = self.causes.iter().map(|cause| cause_name(*cause)).collect();
            let said = found.map_or_else(
                || verdict.map_or("no verdict".into(), |verdict| verdict.sentence.clone()),
                |cause| format!("the verdict's cause is {}", cause_name(cause)),
            );
            let holds = found.is_some_and(|cause| self.causes.contains(&cause));
            findings.push((holds, format!("{said}, expected {}", names.join(" or "))));
        }
        findings
    }

    fn of_part(&self, part: &str, group: &GroupReport, findings: &mut Vec<(bool, String)>) {
        let by_switch = SWITCHES.contains(&part);
        let mut parts: BTreeMap<&str, Times> = BTreeMap::new();
        let (mut base, mut now) = (0.0, 0.0);
        for stage in &group.stages {
            let key = match by_switch {
                true => switch_of(&stage.stage).unwrap_or("other"),
                false => stage.stage.as_str(),
            };
            let times = parts.entry(key).or_default();
            // As the verdict compares them, in the middle half of windows, where it has the stage.
            let judged = group.verdict.iter().flat_map(|verdict| &verdict.stages);
            let judged = judged.into_iter().find(|it| it.stage == stage.stage);
            let (of_base, of_now) = match judged {
                Some(judged) => (judged.base_ns, judged.now_ns),
                None => (stage.base_mean_ns.unwrap_or(0.0), stage.mean_ns),
            };
            (times.base, times.now) = (times.base + of_base, times.now + of_now);
            (base, now) = (base + of_base, now + of_now);
        }
        let this = parts.get(part).copied().unwrap_or_default();
        let grown = now - base;
        let of_growth = |times: Times| if grown > 0.0 { times.grown() / grown } else { 0.0 };
        let from = format!("{part} {} -> {}", duration(this.base), duration(this.now));
        if self.grows_most {
            let others = parts.iter().filter(|(name, _)| **name != part);
            let next = others.max_by(|a, b| a.1.grown().total_cmp(&b.1.grown()));
            let holds = this.grown() > next.map_or(0.0, |(_, next)| next.grown().max(0.0));
            let next = next.map_or(String::new(), |(name, next)| {
                format!("; next {name}, {}", percent(of_growth(*next)))
            });
            let part = percent(of_growth(this));
            findings.push((holds, format!("{from}, grows most ({part} of the growth{next})")));
        }
        let lad = if this.base > 0.0 { this.now / this.base } else { f64::INFINITY };
        if let Some(least) = self.lad_min {
            let holds = lad >= least && this.now > 0.0;
            findings.push((holds, format!("{from}, LAD {lad:.2}, at least {least}")));
        }
        if let Some(most) = self.lad_max {
            findings.push((lad <= most, format!("{from}, LAD {lad:.2}, at most {most}")));
        }
        if let Some(least) = self.growth_min {
            let share = of_growth(this);
            let (is, least_said) = (percent(share), percent(least));
            let text = format!("{from}, {is} of the growth, at least {least_said}");
            findings.push((share >= least, text));
        }
        if let Some(least) = self.share_min {
            let share = if now > 0.0 { this.now / now } else { 0.0 };
            let (is, least_said) = (percent(share), percent(least));
            let text = format!("{part} is {is} of the latency, at least {least_said}");
            findings.push((share >= least, text));
        }
    }

    fn said(&self, heading: &str, findings: Vec<(bool, String)>) -> Checked {
        let mut text = String::new();
        for (holds, finding) in &findings {
            let mark = if *holds { "holds" } else { "FAILS" };
            text += &format!("  {mark}  {heading}: {finding}\n");
        }
        if let Some(paper) = &self.paper {
            text += &format!("         paper: {paper}\n");
        }
        Checked { holds: findings.iter().all(|(holds, _)| *holds), text }
    }
}
